"""The language of text expressions over columns, such as ``arr_delay > 15 and carrier = 'UA'``.

**Language.** Columns by name (in double quotes if the name is not a plain word; if no column has the exact spelling, a
spelling that differs only in case is used), numbers, strings in single quotes, ``true`` and ``false``, ``date
'2024-01-31'`` and ``timestamp '2024-01-31 18:30:00'``; the signs ``+ - * /`` and ``= <> != < <= > >=``; ``between``;
``in`` with a list of numbers, of strings or of times; ``like`` with a string; ``and``, ``or``, ``not``; ``is null`` and
``is not null``; ``case when ... then ... else ... end`` in both forms; ``abs``, ``least``, ``greatest``, ``ln``,
``lower``, ``upper``, ``year``, ``month``, ``day``, ``hour``, ``isodow``. Nothing else is allowed: no casts, other
functions, sub-selects, aggregates, windows or comments, and nothing that reads the clock.

**Meaning**, the same in every engine, bit for bit:

- A numeric column is read as IEEE doubles; nan is read as null. A number in the text is the nearest double.
- ``+ - * /`` and ``-x`` are IEEE double operations, rounded to nearest; there is no overflow but infinity, which is a
  value. Division by zero, of either sign, is null; so is every operation whose result is nan.
- A comparison with null is null. Strings are compared by code points, without normalisation and case folding.
  Booleans can be compared with ``=`` and ``<>`` only. ``and``, ``or`` and ``not`` follow Kleene's three-valued logic.
- ``case`` takes the first branch whose condition is true; null is not true; without ``else`` the rest is null.
- ``least`` and ``greatest`` are null if any argument is null.
- A date or timestamp is a double: seconds since 1970 began in UTC, to the microsecond; no other time zone is known, and
  an infinite time is null. The difference of two is a number of days. ``year`` and the like are those of the Gregorian
  calendar, also before 1582, in UTC; ``isodow`` is 1 on Monday and 7 on Sunday.
- ``ln``, which may be written ``log``, is the natural logarithm by a fixed sequence of double operations, within 1e-15
  of the true one (relatively); null for what is not positive and for infinity.
- In ``like``, ``%`` stands for any characters and ``_`` for one character; neither can be escaped. Between two ``%``
  there is at most one part, without ``_``. ``lower`` and ``upper`` change the letters A to Z alone, because engines
  agree about no others.

**Value of a row.** The value of a condition is 1 if it is true, and 0 if it is false or null. The value of a number
``x`` is ``(min(max(x, low), high) - low) / (high - low)``, each operation rounded as a double; null counts as ``low``,
so its value is 0. The value times `UNIT`, rounded down, is the 64-bit integer that is summed.

**One query, one form.** `Expression.canonical` is the same for spellings that differ in white space, case of
keywords, brackets, ``!=`` and ``<>``, ``a > b`` and ``b < a``, ``not (a > b)`` and ``a <= b``, ``between`` and two
comparisons, ``in`` and a chain of ``or``, ``like`` without ``%`` and ``_`` and ``=``, a date and its first instant,
order and repetition under ``and``, ``or``, ``in``, ``least`` and ``greatest``, order under ``+`` and ``*``, De
Morgan's laws, ``1`` and ``1.0``.

The text itself never reaches an engine. NumPy evaluates the tree (`everhold.values.expressions.arrays`), in which times
and logarithms have become arithmetic. Stores of rows that stay in an engine write SQL statements from the tree.
"""

from everhold.values.expressions.parse import parse
from everhold.values.expressions.tree import ColumnKind, Expression, RowValue

__all__ = ["ColumnKind", "Expression", "RowValue", "parse"]
