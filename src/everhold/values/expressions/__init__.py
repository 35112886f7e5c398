"""Text expressions over the columns of the sealed rows, such as ``arr_delay > 15 and carrier = 'UA'``.

**Language.** Columns by name (in double quotes if the name is not a plain word; the exact spelling goes first, then
one that differs in case only), numbers, strings in single quotes, ``true`` and ``false``; the signs ``+ - * /`` and
``= <> != < <= > >=``; ``between``; ``in`` with a list of numbers or of strings; ``and``, ``or``, ``not``; ``is null``
and ``is not null``; ``case when ... then ... else ... end`` in both forms; ``abs``, ``least``, ``greatest``. Nothing
else: no casts, other functions, sub-selects, aggregates, windows, patterns or comments.

**Meaning**, the same in every engine, bit for bit:

- A numeric column is read as IEEE doubles; nan is read as null. A number in the text is the nearest double.
- ``+ - * /`` and ``-x`` are IEEE double operations, rounded to nearest; there is no overflow but infinity, which is a
  value. Division by zero, of either sign, is null; so is every operation whose result is nan.
- A comparison with null is null. Strings are compared by code points, without normalisation and case folding.
  Booleans can be compared with ``=`` and ``<>`` only. ``and``, ``or`` and ``not`` follow Kleene's three-valued logic.
- ``case`` takes the first branch whose condition is true; null is not true; without ``else`` the rest is null.
- ``least`` and ``greatest`` are null if any argument is null.

**Value of a row.** A condition is worth 1 where it is true, 0 where it is false or null. A number ``x`` is worth
``(min(max(x, low), high) - low) / (high - low)``, each operation rounded as a double; null counts as ``low``, so it is
worth 0. The value times `UNIT`, rounded down, is the 64-bit integer that is summed.

**One question, one form.** `Expression.canonical` is the same for spellings that differ in white space, case of
keywords, brackets, ``!=`` and ``<>``, ``a > b`` and ``b < a``, ``not (a > b)`` and ``a <= b``, ``between`` and two
comparisons, ``in`` and a chain of ``or``, order and repetition under ``and``, ``or``, ``in``, ``least`` and
``greatest``, order under ``+`` and ``*``, De Morgan's laws, ``1`` and ``1.0``.

The text itself never reaches an engine: `row_values_sql`, `totals_sql` and `part_totals_sql` write SQL for DuckDB from
the tree.
"""

from everhold.values.expressions.parse import parse
from everhold.values.expressions.sql import (
    group_totals_sql,
    part_totals_sql,
    row_values_sql,
    stretch_totals_sql,
    totals_sql,
)
from everhold.values.expressions.tree import ColumnKind, Expression, RowValue

__all__ = [
    "ColumnKind", "Expression", "RowValue", "group_totals_sql", "parse", "part_totals_sql", "row_values_sql",
    "stretch_totals_sql", "totals_sql",
]  # fmt: skip
