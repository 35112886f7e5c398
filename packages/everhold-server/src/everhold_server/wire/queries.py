"""Queries as JSON: a text, or an object with its kind, its subject and its details.

The form follows from the registry in `everhold.queries`, so a new kind is covered at once. Names of kinds and details
are those of the command line. The server reads this form in `everhold_server.wire.reading`.

    >>> import everhold as eh
    >>> written(eh.choose(["delay > 15", "delay > 30"], best="highest", most=2))[0]
    {'kind': 'choose', 'of': 'highest', 'queries': ['delay > 15', 'delay > 30'], 'most': 2}
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from everhold import queries as registry
from everhold.arguments import brief
from everhold.errors import QueryRejected
from everhold.queries import DETAILS, Form, Kind
from everhold.queries.predictions.arrays import PredictionTable
from everhold.queries.query import Query
from everhold.queries.scalars import SCALARS, a_number, a_text, plain, refuse, spelled
from everhold_server.wire.predictions import written_predictions

TOLERANCE = "tolerance"


def written(
    query: Query[Any] | str, tables: dict[str, PredictionTable] | None = None
) -> tuple[Any, dict[str, PredictionTable]]:
    """A query as plain data, and the tables that travel with it.

    Args:
        query: Of any kind that holds no code.
        tables: Tables that travel with other queries of the same request; more are put there.

    Raises:
        QueryRejected: If it holds a Python function or an estimator, which do not travel. Nothing is charged.
    """
    tables = {} if tables is None else tables
    return _Writing(tables).query(query), tables


def kind_of(name: Any) -> Kind:
    """The kind of this name.

    Raises:
        QueryRejected: If there is none, or it runs code. Nothing is charged.
    """
    found = registry.KINDS.named(name) if isinstance(name, str) else None
    if found is None:
        names = ", ".join(kind.name for kind in registry.KINDS if kind.form is not Form.CODE)
        refuse(f"the kind of query is {brief(name)}", f"one of {names}")
    if found.form is Form.CODE:
        raise QueryRejected(
            f"{found.name} needs a Python function, and the service takes none, because it would run beside the sealed "
            "rows; expected another kind of query; or ask where the rows are"
        )
    return found


@dataclass(frozen=True, slots=True)
class _Writing:
    tables: dict[str, PredictionTable]

    def query(self, query: Any) -> Any:
        if isinstance(query, str):
            return query
        if not isinstance(query, Query):
            refuse(f"the query is {brief(query)}", "a text or a query such as mean(...)")
        made = query.spec()
        kind = kind_of(made.kind)
        details = {
            spelled(option): self._value(DETAILS[option].form, made.details[argument], option)
            for option, argument in kind.details.items() if made.details.get(argument) is not None
        }  # fmt: skip
        if kind.tolerant and made.details.get(TOLERANCE) is not None:
            details[TOLERANCE] = plain(made.details[TOLERANCE], a_number, TOLERANCE)
        if kind.name == "mean" and not details:
            return a_text(made.of, "of")
        if kind.several:
            details = {"queries": [self.query(each) for each in _each(made.of)], **details}
        if kind.form is not Form.FLAG:
            subject = made.details.get(kind.several) if kind.several else made.of
            details = {"of": self._value(kind.form, subject, "of"), **details}
        return {"kind": kind.name, **details}

    def _value(self, form: Form, value: Any, name: str) -> Any:
        if form in SCALARS:
            return plain(value, SCALARS[form], name)
        if form is Form.PREDICTIONS:
            return written_predictions(value, self.tables)
        if form is Form.CELLS:
            return _plain_columns(value)
        return self.query(value)


def _each(queries: Any) -> Iterable[Any]:
    if isinstance(queries, str) or not isinstance(queries, Iterable):
        refuse(f"the queries are {brief(queries)}", "a list of queries")
    return queries


def _plain_columns(universe: Any) -> Any:
    """A universe as plain data; numbers of NumPy among its values become Python's own."""
    if not hasattr(universe, "to_dict"):
        refuse(f"the universe is {brief(universe)}", "Universe((ListedColumn(...), ...))")
    described = universe.to_dict()
    return {
        "columns": [
            {
                name: [item.item() if hasattr(item, "item") else item for item in given]
                if isinstance(given, list) else given.item() if hasattr(given, "item") else given
                for name, given in column.items()
            }
            for column in described["columns"]
        ]
    }  # fmt: skip
