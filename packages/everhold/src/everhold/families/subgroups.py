"""The family of subgroups: a value within every combination of the categories of some columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from everhold.arguments import advice_for, as_float, as_whole, brief, items_of
from everhold.errors import QueryRejected
from everhold.families.base import BoundFamily, Categories, Family, categories_of
from everhold.queries.makers import mean
from everhold.queries.means.mean import MeanQuery, parsed
from everhold.queries.procedures import joined_by_and, takes_ratios
from everhold.values.expressions.tree import ColumnKind, Node, Operation, RowValue
from everhold.values.missing import have_values

if TYPE_CHECKING:
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.values.base import BoundQuery, Schema

_MOST_TOGETHER = 4


@dataclass(frozen=True, slots=True)
class SubgroupFamily(Family):
    """The mean of one text within each subgroup that some columns define. It is made by `subgroups`."""

    columns: Sequence[str]
    of: MeanQuery
    together: int = 2
    values: Mapping[str, Sequence[Any]] | None = None

    def bind(self, compiler: QueryCompiler) -> BoundSubgroups:
        """Return the family for one holdout, with categories from ``values`` or else from the training rows."""
        schema, together, categories = compiler.schema, self.checked_together(), Categories()
        value = self.of.bind(schema).row_value
        assert isinstance(value, RowValue)
        within = takes_ratios(compiler.mechanism) and schema.training_rows > 0
        known = _known(self.of, schema)
        if not within and (known or value.expression.kind is not ColumnKind.BOOLEAN):
            raise QueryRejected(
                f"{brief(self.of.text)} is {'a condition on rows that may lack a value' if known else 'a number'}, "
                "whose mean in a subgroup needs guess_and_check with training rows. Pass a condition, such as "
                "'arr_delay > 15'."
            )
        given = self.checked_values()
        for name in self.checked_columns():
            if name not in schema.asked:
                raise QueryRejected(f"There is no column {brief(name)}. {advice_for(name, schema.asked)}")
            if name in given:
                _check_kind(name, given[name], schema.asked[name])
            values = given.get(name) or categories_of(compiler, [name]).get(name)
            if not values:
                raise QueryRejected(
                    f"The categories of {name!r} are not known, because the training rows do not show at most 1,000 "
                    f"texts in it. Pass them as values={{{name!r}: [...]}}."
                )
            categories[name] = values
        return BoundSubgroups((self.of.text, value.low, value.high), categories, together, within, value, known)

    def planned_nats(self, *, training: bool) -> float | None:
        """Return ln(number of members), or None unless `values` has the categories of all columns.

        Without training rows (``training`` is False) the mean within a subgroup is two members.
        """
        columns, given, together = self.checked_columns(), self.checked_values(), self.checked_together()
        if given.keys() != set(columns):
            return None
        groups = _combinations([len(values) for values in given.values()], together)
        return math.log(groups if training else 2 * groups)

    def checked_together(self) -> int:
        """Return `together` as an int, after checking that it is in the allowed range.

        Raises:
            QueryRejected: If `together` is not a number in this range. Nothing is charged.
        """
        together = as_whole(self.together) or 0
        if not 1 <= together <= _MOST_TOGETHER:
            raise QueryRejected(f"together is {brief(self.together)}. Pass a whole number from 1 to {_MOST_TOGETHER}.")
        return together

    def checked_columns(self) -> list[str]:
        """Check and return the names of the columns, each listed once.

        Raises:
            QueryRejected: If the columns are not a list of names. Nothing is charged.
        """
        columns = self.columns
        listed = isinstance(columns, Sequence) and not isinstance(columns, str)
        if not listed or not columns or not all(isinstance(name, str) for name in columns):
            raise QueryRejected(f"columns is {brief(columns)}. Pass a list of names of columns, such as ['carrier'].")
        return list(dict.fromkeys(columns))

    def checked_values(self) -> Categories:
        """Return `values` with each category once, after checking that they are lists of plain values.

        Raises:
            QueryRejected: If the values are not lists of categories, or belong to other columns. Nothing is charged.
        """
        if self.values is None:
            return {}
        if not isinstance(self.values, Mapping):
            raise QueryRejected(
                f"values is {brief(self.values)}. Pass lists of categories by column, such as {{'carrier': ['AA', "
                "'UA']}."
            )
        columns, found = self.checked_columns(), Categories()
        for name, values in self.values.items():
            if name not in columns:
                raise QueryRejected(
                    f"values names {brief(name)}, which is no column of these subgroups. Name some of "
                    f"{', '.join(columns)}."
                )
            items = [value.item() if isinstance(value, np.generic) else value for value in items_of(values) or ()]
            if not items or not all(isinstance(item, (str, bool)) or math.isfinite(as_float(item)) for item in items):
                raise QueryRejected(
                    f"values of {name} is {brief(values)}. Pass a list of its categories, each a text, a number or a "
                    f"truth value, such as {{{name!r}: ['AA', 'UA']}}."
                )
            found[name] = tuple(dict.fromkeys(items))
        return found


@dataclass(frozen=True)
class BoundSubgroups(BoundFamily):
    """The subgroups of one holdout. All members have the same weight.

    Attributes:
        of: The expression whose mean is asked about, and the ends of its range.
        together: Largest number of columns that define one subgroup.
        within: True if a mean within a subgroup is one query; False if it is made of two shares.
        value: The parsed expression.
        known: Conditions that a row has a value, if the holdout's rule leaves rows without a value out.
    """

    kind: ClassVar[str] = "subgroups"
    of: tuple[str, float, float]
    categories: Categories
    together: int
    within: bool
    value: RowValue
    known: frozenset[Node] = frozenset()

    def nats(self, bound: BoundQuery) -> float | None:
        """Return ln(number of members) if a query is a member, else None. The mean over all rows is a member, too."""
        return math.log(self._members) if self._is_member(bound) else None

    @cached_property
    def _members(self) -> int:
        """Number of members: one for each subgroup, or two where a mean in a subgroup is asked as two shares."""
        groups = _combinations([len(values) for values in self.categories.values()], self.together)
        return groups if self.within else 2 * groups

    def _is_member(self, bound: BoundQuery) -> bool:
        """Return whether a query is the mean in a subgroup or over all rows, or one of two shares for such a mean."""
        own = self.value.expression.root
        if bound.pair is not None:
            first, whole = bound.pair.first.row_value, bound.pair.second.row_value
            if bound.pair.how != "ratio" or not self.within:
                return False
            if not isinstance(first, RowValue) or not isinstance(whole, RowValue):
                return False
            every = joined_by_and(whole.expression.root)
            parts = every - self.known
            named = self._is_group(parts) or (not parts and bool(self.known))
            if not self.known <= every or not named or (first.low, first.high) != (self.value.low, self.value.high):
                return False
            if own.kind is ColumnKind.BOOLEAN:
                own = Node.of(Operation.AND, own, whole.expression.root)
            return first.expression.root == own
        value = bound.row_value
        if not isinstance(value, RowValue) or bound.description.get("kind") != "mean":
            return False
        if (value.low, value.high) == (self.value.low, self.value.high) and value.expression.root == own:
            return True
        if self.within:
            return False
        parts = joined_by_and(value.expression.root)
        return self._is_group(parts) or (joined_by_and(own) <= parts and self._is_group(parts - joined_by_and(own)))

    def _is_group(self, parts: frozenset[Node]) -> bool:
        """Return whether the conditions each name a category of a different column of the family."""
        named = [_named(part) for part in parts]
        columns = [column for column, _ in named]
        return (
            1 <= len(parts) <= self.together
            and len(set(columns)) == len(columns)
            and all(value in self.categories.get(column, ()) for column, value in named)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return text, categories and settings as plain JSON data, with the family's ``kind``."""
        columns = [[name, [*values]] for name, values in self.categories.items()]
        return {
            "kind": self.kind, "of": list(self.of), "columns": columns,
            "together": self.together, "within": self.within,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, data: dict[str, Any], schema: Schema) -> Self:
        """Rebuild the subgroups from the plain data that `to_dict` returns."""
        text, low, high = data["of"]
        categories = {str(name): tuple(values) for name, values in data["columns"]}
        of = MeanQuery(text, low, high)
        value = RowValue(parsed(text, schema), low, high)
        known = _known(of, schema)
        return cls((text, low, high), categories, int(data["together"]), bool(data["within"]), value, known)

    @property
    def shown(self) -> str:
        """A short description for people: text, number of subgroups and columns."""
        return f"{self.of[0]} in {self._members:,} subgroups of {', '.join(self.categories)}"

    @property
    def most_nats(self) -> float:
        """ln(1 / weight) of any member: ln of the number of members."""
        return math.log(self._members)


def _known(of: MeanQuery, schema: Schema) -> frozenset[Node]:
    """Return the conditions that a row has all values that a text reads. Empty if the holdout leaves out no rows."""
    needed = of.needed(schema)
    return joined_by_and(parsed(have_values(needed), schema).root) if needed else frozenset()


def _check_kind(name: str, values: Sequence[Any], kind: ColumnKind) -> None:
    """Check that a column of this kind can have each of the given categories.

    Raises:
        QueryRejected: If a category is of another kind than the column. Nothing is charged.
    """
    kinds: dict[ColumnKind, Any] = {ColumnKind.STRING: str, ColumnKind.BOOLEAN: bool, ColumnKind.NUMBER: (int, float)}
    usable = kinds.get(kind, ())
    for value in values:
        if not isinstance(value, usable) or (kind is ColumnKind.NUMBER and isinstance(value, bool)):
            raise QueryRejected(
                f"values of {name} holds {brief(value)}, and the column is a {kind.value}. Pass categories that the "
                "column can have."
            )


def _combinations(sizes: Sequence[int], together: int) -> int:
    """Return the number of combinations of categories of at most `together` columns."""
    return sum(math.prod(chosen) for count in range(together + 1) for chosen in combinations(sizes, count))


def _named(part: Node) -> tuple[str, Any]:
    """Return the column and the category of a condition ``column = category``.

    For other conditions the column is empty.
    """
    if part.operation is Operation.COLUMN:
        return str(part.value), True
    if part.operation is Operation.NOT and part.operands[0].operation is Operation.COLUMN:
        return str(part.operands[0].value), False
    if part.operation is Operation.EQUAL:
        columns = [each for each in part.operands if each.operation is Operation.COLUMN]
        literals = [each for each in part.operands if each.is_literal]
        if len(columns) == len(literals) == 1:
            return str(columns[0].value), literals[0].value
    return "", None


def subgroups(
    columns: Sequence[str], *, of: str | MeanQuery, together: int = 2, values: Mapping[str, Sequence[Any]] | None = None
) -> SubgroupFamily:
    """Build the family of queries for a share or mean within the subgroups that one or several columns define.

    The sealed rows answer queries of a declared family (its members) at no cost. Members are ``mean(of, given="carrier
    = 'UA'")``, ``mean(of, given="carrier = 'UA' and origin = 'JFK'")`` and ``mean(of)``, all with the same share of the
    family's probability of failure. Where a mean within a subgroup is two queries, because there are no training rows,
    both are members.

    Args:
        columns: Columns of texts or truth values.
        of: A condition as a text, or a mean with its range.
        together: Largest number of columns whose values define one subgroup.
        values: Categories by column, if the training rows do not show them. Never take them from the sealed rows.

    Examples:
        >>> subgroups(["carrier", "origin"], of="arr_delay > 15").together
        2
    """
    asked = of if isinstance(of, MeanQuery) else mean(of)
    return SubgroupFamily(columns, asked, together, values)
