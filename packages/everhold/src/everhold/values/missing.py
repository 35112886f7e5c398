"""Rules for missing values: what counts for a row without a value in a column that a query reads.

The steward declares the rule once, by column, when the rows are sealed. Every text is read with it, so a query means
the same on every engine.

The rule does not apply to a column that a text itself tests, as in ``bp is null``.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, TypeAlias

from everhold.arguments import brief
from everhold.errors import HoldoutRejected
from everhold.values.expressions.parse import MAX_DEPTH, MAX_NODES, rejected
from everhold.values.expressions.tree import ColumnKind, Expression, Node, Operation, quoted

Value: TypeAlias = str | float | bool
Missing: TypeAlias = Value | Mapping[str, Value]
"""``"refuse"``, ``"drop"``, ``"bounds"`` or a value, for all columns or by column."""

_WORDS = ("refuse", "drop", "bounds")
_EXPECTED = (
    "Pass 'refuse', 'drop', 'bounds' or a value that counts, such as 0, or one of these by column, as in "
    "{'bp': 'drop'}."
)


@dataclass(frozen=True, slots=True)
class MissingRule:
    """The rule of one column for rows that have no value in this column.

    Attributes:
        how: ``"refuse"``: queries that read the column are refused, unless they say themselves what counts. ``"drop"``:
            means are about the rows that have a value. ``"bounds"``: intervals of means hold whatever the missing
            values are. ``"value"``: rows without a value count with this value.
        value: The value that replaces a missing one; None for other rules.
    """

    how: Literal["refuse", "drop", "bounds", "value"]
    value: Value | None = None

    @classmethod
    def of(cls, given: Value) -> Self:
        """Build the rule from a word such as ``"drop"``, or from the value that replaces a missing one."""
        return cls(given) if given in _WORDS else cls("value", given)  # type: ignore[arg-type]

    def to_list(self) -> list[Any]:
        """Return the rule as a list, as the ledger stores it."""
        return [self.how] if self.value is None else [self.how, self.value]

    def __str__(self) -> str:
        words = {
            "refuse": "queries that read it are refused", "drop": "rows without a value are left out",
            "bounds": "missing values count as the lowest and as the highest",
        }  # fmt: skip
        return words.get(self.how) or f"missing values {self.counts}"

    @property
    def counts(self) -> str:
        """What a missing value counts as, in words, such as "count as 0"."""
        return f"count as {self.value:g}" if isinstance(self.value, float) else f"count as {self.value!r}"


REFUSE = MissingRule("refuse")
Rules: TypeAlias = Mapping[str, MissingRule]


def read_rules(kept: Mapping[str, Any]) -> dict[str, MissingRule]:
    """Rebuild the rules by column from the lists that the ledger stores."""
    return {name: MissingRule(*rule) for name, rule in kept.items()}


def checked_missing(given: object) -> Missing:
    """Return the steward's rules for missing values as plain Python values, after checking them.

    Raises:
        ValueError: If ``given`` is not a rule for missing values, or a mapping of column names to such rules.
    """
    if isinstance(given, Mapping):
        if not given or not all(isinstance(name, str) for name in given):
            raise ValueError(f"missing is {brief(given)}. {_EXPECTED}")
        return {name: _plain(each, where=f" of {name!r}") for name, each in given.items()}
    plain = _plain(given)
    if isinstance(plain, str) and plain not in _WORDS:
        raise ValueError(f"missing is {brief(plain)}. {_EXPECTED}")
    return plain


def _plain(given: object, *, where: str = "") -> Value:
    """Return one rule as a plain Python value, after checking its type."""
    value = given.item() if hasattr(given, "item") and getattr(given, "ndim", None) == 0 else given
    if isinstance(value, (str, bool)):
        return value
    if isinstance(value, numbers.Real) and math.isfinite(float(value)):
        return float(value)
    raise ValueError(f"missing{where} is {brief(given)}. {_EXPECTED}")


def missing_rules(
    declared: Missing, columns: Mapping[str, ColumnKind], *, lacking: Collection[str], unseen: Collection[str]
) -> dict[str, MissingRule]:
    """Return the rule for missing values of each column that has one.

    Args:
        declared: The rule or rules that the steward declared.
        columns: Kind of each column that queries may read.
        lacking: Columns with a missing value in some row.
        unseen: Those of the columns ``lacking`` that have a value in every training row.

    Raises:
        HoldoutRejected: If a declared column does not exist, or cannot have the value that its rule names. Nothing was
            created.
    """
    if isinstance(declared, Mapping):
        found = {name: _fitting(name, MissingRule.of(each), columns) for name, each in declared.items()}
    else:
        rule = MissingRule.of(declared)
        usable = [name for name, kind in columns.items() if rule.how != "value" or _fits(rule, kind)]
        found = {name: rule for name in usable if name in lacking}
    kept = {name: rule for name, rule in found.items() if rule != REFUSE}
    return kept | {name: REFUSE for name in columns if name in unseen and name not in kept}


def _fitting(name: str, rule: MissingRule, columns: Mapping[str, ColumnKind]) -> MissingRule:
    """Return the rule of a column, after checking that queries can read the column and that the rule fits its kind."""
    if name not in columns:
        raise HoldoutRejected(
            f"missing names {brief(name)}, which is no column that queries read. Name some of {', '.join(columns)}."
        )
    if rule.how == "value" and not _fits(rule, columns[name]):
        raise HoldoutRejected(
            f"missing of {name!r} is {brief(rule.value)}, and the column holds {columns[name].value}s. Pass 'refuse', "
            "'drop', 'bounds' or a value of that kind."
        )
    return rule


def _fits(rule: MissingRule, kind: ColumnKind) -> bool:
    """Return whether a column of this kind can hold the value of a rule."""
    kinds: dict[ColumnKind, type] = {ColumnKind.NUMBER: float, ColumnKind.STRING: str, ColumnKind.BOOLEAN: bool}
    return type(rule.value) is kinds.get(kind)


def tested(expression: Expression) -> frozenset[str]:
    """Return the columns for which an expression itself tests whether a value is missing."""
    return frozenset(
        str(node.operands[0].value) for node in expression.nodes
        if node.operation is Operation.IS_NULL and node.operands[0].operation is Operation.COLUMN
    )  # fmt: skip


def with_values(expression: Expression, rules: Rules) -> Expression:
    """Return the expression with missing values replaced by the values of the columns' rules.

    Raises:
        QueryRejected: If the expression gets too long by the replacement. Nothing is charged.

    Examples:
        >>> from everhold.values.expressions import parse
        >>> columns = {"bp": ColumnKind.NUMBER}
        >>> read = with_values(parse("bp > 140", columns), {"bp": MissingRule("value", 130.0)})
        >>> read == parse("case when bp is null then 130 else bp end > 140", columns)
        True
    """
    own = tested(expression)
    values = {name: rules[name].value for name in expression.columns() if name in rules and name not in own}
    values = {name: value for name, value in values.items() if value is not None}
    if not values:
        return expression
    made: dict[Node, Node] = {}
    for node in expression.nodes:
        if node.operation is Operation.COLUMN and (value := values.get(str(node.value))) is not None:
            missing = Node.of(Operation.IS_NULL, node)
            made[node] = Node.of(Operation.CASE, missing, Node.literal(value), node)
        elif node.operation is Operation.LIKE:
            made[node] = replace(node, operands=tuple(made[each] for each in node.operands))
        else:
            made[node] = Node.of(node.operation, *(made[each] for each in node.operands)) if node.operands else node
    found = Expression(made[expression.root])
    if found.root.depth > MAX_DEPTH or len(found.nodes) > MAX_NODES:
        raise rejected(
            f"the expression and the values that count for missing ones have more than {MAX_NODES} parts or are more "
            f"than {MAX_DEPTH} deep",
            "ask a shorter query",
        )
    return found


def columns_needed(expression: Expression, rules: Rules, how: Literal["drop", "bounds"] = "drop") -> frozenset[str]:
    """Return the columns of an expression whose missing values have the rule ``how``.

    Columns that the expression itself tests for missing values are left out.
    """
    found = {name for name in expression.columns() if name in rules and rules[name].how == how}
    return frozenset(found - tested(expression))


def have_values(columns: Collection[str]) -> str:
    """Return the text of the condition that a row has a value in each column.

    Examples:
        >>> have_values(["weight", "bp"])
        '"bp" is not null and "weight" is not null'
    """
    return " and ".join(f"{quoted(name)} is not null" for name in sorted(columns))


def values_counted(expression: Expression, rules: Rules) -> list[str]:
    """Return the columns of an expression in which missing values were replaced by a value."""
    places = {str(node.value): node for node in expression.nodes if node.operation is Operation.COLUMN}
    nodes = set(expression.nodes)
    return [
        name for name, column in places.items()
        if name in rules and (value := rules[name].value) is not None
        and Node.of(Operation.CASE, Node.of(Operation.IS_NULL, column), Node.literal(value), column) in nodes
    ]  # fmt: skip
