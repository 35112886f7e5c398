"""Which population value an answer is about: the mean over new rows, or over new labels of these rows.

An array of predictions belongs to the sealed rows by position, so an answer about it cannot be about new rows. It is
about the conditional law of the labels given the features, which the author of the predictions has seen. Every
statement of the theory holds for this law, if labels given features depend on each other as declared (docs/theory,
setting).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from everhold.answers import FRESH_LABELS, PUBLIC_FEATURES, with_shares
from everhold.arguments import advice_for
from everhold.errors import DependenceError, HoldoutRejected, QueryRejected
from everhold.ledger.acts import ABOUT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from everhold.mechanisms import Mechanism
    from everhold.values.base import BoundQuery, Schema

__all__ = [
    "ABOUT",
    "FEATURES",
    "PUBLIC",
    "SEALED",
    "about_of",
    "check_estimand",
    "check_features",
    "check_label_is_read",
    "check_stratified",
    "marked",
]

SEALED: Final = "sealed"
PUBLIC: Final = "public"
FEATURES = (SEALED, PUBLIC)
"""Possible declarations about the features."""

_SERIES = "the labels of such rows do not follow the declared dependence once the features are known"


def check_features(features: str, *, label: str | None, mechanism: Mechanism) -> None:
    """Check what is declared about the features of rows that are about to be sealed.

    Raises:
        ValueError: If `features` is none of `FEATURES`.
        HoldoutRejected: If the features are public, and there is no label, or the mechanism needs identically
            distributed rows.
        DependenceError: If the features are public, and rows depend on each other other than in groups.
    """
    if features not in FEATURES:
        raise ValueError(f"features is {features!r}. Pass 'sealed' or 'public'.")
    if features == SEALED:
        return
    if label is None:
        raise HoldoutRejected(
            "The features are public and there is no label, so nothing is left to ask. Name the column that stays "
            "sealed with label=..."
        )
    if not mechanism.dependence.holds_given_features:
        raise DependenceError(
            f"The features are public and the rows are declared as {mechanism.dependence.to_dict()['kind']!r}, and "
            f"{_SERIES}. Keep the features sealed, or declare eh.Independent() or eh.Groups(...)."
        )
    if mechanism.traits.one_law:
        raise HoldoutRejected(
            f"The mechanism {mechanism.name} needs rows of one distribution, and rows with public features have one "
            "each. Choose another mechanism, or keep the features sealed."
        )


def check_stratified(
    column: str | None, *, columns: Iterable[str], label: str | None, features: str, mechanism: Mechanism
) -> None:
    """Check that answers can be promised for rows that were split by the values of a column.

    If the number of sealed rows of each class is given, rows are independent only if they were drawn independently, and
    they have one law for each class. Labels given public features are no longer independent if the numbers of labels
    are given too.

    Raises:
        HoldoutRejected: If nothing is promised for such rows. Nothing was created.
    """
    if column is None:
        return
    if column not in columns:
        raise HoldoutRejected(f"There is no column {column!r:.100} to be stratified by. {advice_for(column, columns)}")
    if mechanism.dependence.to_dict()["kind"] != "independent":
        raise HoldoutRejected(
            "The split is stratified, and the rows were declared to depend on each other. Split by chance, by whole "
            "groups or by time."
        )
    if mechanism.traits.one_law:
        raise HoldoutRejected(
            f"The mechanism {mechanism.name} needs rows of one distribution, and a stratified split draws each class "
            "from its own. Choose another mechanism."
        )
    if features == PUBLIC and column == label:
        raise HoldoutRejected(
            f"The rows were split by their labels ({column!r}), so with public features the labels tell of each "
            "other. Keep the features sealed, or split by chance."
        )


def check_estimand(bound: Sequence[BoundQuery], schema: Schema, mechanism: Mechanism) -> None:
    """Refuse a query whose population value is not covered by the promise, or that public features answer.

    Args:
        bound: The query, or all parts of one query. Some parts may be about features alone.
        schema: Schema of the rows.
        mechanism: Mechanism that would answer.

    Raises:
        QueryRejected: If the query cannot be asked. Nothing is charged.
    """
    for query in bound:
        if query.by_position and mechanism.traits.one_law:
            raise QueryRejected(
                f"The mechanism {mechanism.name} answers from a part of the rows, and predictions in an array or a "
                "file belong to all rows. Pass an estimator or a text expression."
            )
        if query.by_position and not mechanism.dependence.holds_given_features:
            raise QueryRejected(
                "Predictions in an array or a file are about labels drawn anew on these rows, declared as "
                f"{mechanism.dependence.to_dict()['kind']!r}, and {_SERIES}. Pass the estimator itself, or a text "
                "expression."
            )
        if mechanism.traits.one_law and schema.row_id is not None and schema.row_id in (query.columns or ()):
            raise QueryRejected(
                f"The mechanism {mechanism.name} needs rows of one distribution, and the column {schema.row_id!r} "
                "names each row. Ask about the other columns."
            )
    if schema.features_public and all(query.columns is not None for query in bound):
        check_label_is_read({name for query in bound for name in query.columns or ()}, schema)


def check_label_is_read(columns: Iterable[str], schema: Schema) -> None:
    """Refuse a query that reads public features alone.

    Raises:
        QueryRejected: If the features are public and the label is none of the columns that are read.
    """
    if schema.features_public and schema.label not in tuple(columns):
        raise QueryRejected(
            f"The query does not read the label {schema.label!r}, and all other columns are public. Compute it from "
            "the public columns, or ask about the label."
        )


def about_of(schema: Schema, *, by_position: bool) -> str | None:
    """Return which population the answer to a query is about, in words, or None for that of new rows.

    If labels are drawn anew on given rows, the shares of a feature's values are fixed. So for predictions by position
    only a split by the label changes the population.

    `by_position` is true if the query is about predictions in the order of the sealed rows.
    """
    if schema.features_public:
        return PUBLIC_FEATURES
    if schema.stratified is not None and (schema.stratified == schema.label or not by_position):
        return with_shares(schema.stratified, by_row=by_position)
    return FRESH_LABELS if by_position else None


def marked(description: Mapping[str, Any], *, by_position: bool) -> dict[str, Any]:
    """Return a query's description for the ledger, with a mark if it is about predictions by position.

    `by_position` is true if the query is about predictions in the order of the sealed rows.
    """
    return {**description, **({ABOUT: FRESH_LABELS} if by_position else {})}
