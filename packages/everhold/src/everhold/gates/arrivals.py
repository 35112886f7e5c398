"""Gates about rows where rows arrived: the champion has values for all rows, and one tree of suffixes answers (S13).

A champion's values for rows that arrived are given once, before the next challenge, and an entry of the ledger names
them. From then on they are as fixed as the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.asking.query_executor import CLOSED_STUDY
from everhold.errors import QueryRejected
from everhold.gates.candidates import Candidate
from everhold.gates.challenge import Challenge
from everhold.ledger import EntryDraft, Outcome
from everhold.ledger.allotments import Accounts
from everhold.ledger.gates import COMPLETED, Gates
from everhold.queries.query import MOST_SHOWN, digest
from everhold.sealing.model_store import Champion, ModelStore, arrival_name
from everhold.sealing.rows.parts import parted
from everhold.sealing.rows.table import StoredRows

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from everhold.asking.query_executor import QueryExecutor
    from everhold.gates.metrics import GateMetric
    from everhold.ledger.gates import GateAccount

__all__ = [
    "ArrivedChallenge", "answering", "challenger_for", "champion_for", "complete", "model_store_of", "record_act",
    "rows_left",
]  # fmt: skip


@dataclass(frozen=True)
class ArrivedChallenge(Challenge):
    """A challenge that a later tree answers, about the latest rows; the gate keeps the challenger's values for all.

    Attributes:
        of_all: The challenger for all sealed rows.
        every: All sealed rows.
    """

    of_all: Candidate = field(kw_only=True)
    every: StoredRows = field(kw_only=True, repr=False)

    def row_values(self, sealed: StoredRows) -> tuple[NDArray[Any], Champion]:
        """See `Challenge.row_values`."""
        values = self.of_all.sealed_values(self.every, unit=self.mechanism.unit)
        return values[-self.schema.rows :], self.of_all.as_champion(values)


def answering(executor: QueryExecutor) -> QueryExecutor:
    """The executor of the tree that answers a challenge, which public facts choose.

    Args:
        executor: That of all sealed rows.

    Raises:
        QueryRejected: If there are too many rows for values that were kept. Nothing is charged.
    """
    growth = executor.growth
    if growth is None:
        return executor
    if executor.mechanism.unit != growth.mechanism.unit:
        raise QueryRejected(
            f"{executor.schema.rows:,} rows are evaluated on a coarser grid than the champion was; expected at most "
            "67,108,864 rows for a gate where rows arrive; nothing was charged; seal new rows for it"
        )
    return growth.best(executor.analyst)


def challenger_for(
    metric: GateMetric, candidate: Any, training: Any, *, whole: Candidate, tree: QueryExecutor
) -> Candidate:  # fmt: skip
    """The challenger as the tree that answers sees it; it is known by what it is for all rows.

    Args:
        metric: That of the gate.
        candidate: As it was given.
        training: Its predictions for the training rows.
        whole: The challenger for all sealed rows.
        tree: The executor of the tree.
    """
    part = Candidate.prepared(metric, candidate, training, tree.compiler)
    return replace(part, bound=replace(part.bound, description=whole.bound.description, shown=whole.bound.shown))


def model_store_of(executor: QueryExecutor, folder: Path, arrival: int | None = None) -> ModelStore:
    """The champions of a holdout's gates, with their values for the rows up to an arrival; by default for all.

    Each arrival has its files, known by the digest of its rows: after a loss other rows may arrive under its number.
    """
    growth, record = executor.growth, executor.record
    arrived = [] if growth is None else [
        part for part in growth.rows.parts[1 : None if arrival is None else arrival + 1] if part.rows
    ]  # fmt: skip
    rows = executor.schema.rows if growth is None else growth.rows.parts[0].rows + sum(part.rows for part in arrived)
    of = arrival_name(arrived[-1].description["fingerprint"]) if arrived else ""
    return ModelStore.of(folder, holdout=record.id, rows=rows, seal_key=executor.key.seal_key, of_arrival=of)


def rows_left(gate: GateAccount, executor: QueryExecutor) -> int:
    """Number of sealed rows that arrived and for which the champion has no values."""
    growth = executor.growth
    return 0 if growth is None else sum(part.rows for part in growth.rows.parts[_first_left(gate, executor) :])


def _first_left(gate: GateAccount, executor: QueryExecutor) -> int:
    """The first arrival that the champion lacks and that is still sealed."""
    assert executor.growth is not None
    return max(gate.arrived + 1, executor.growth.account.retired)


def champion_for(gate: GateAccount, champions: ModelStore, *, executor: QueryExecutor, tree: QueryExecutor) -> Champion:
    """The champion for the rows of the tree that answers. Secret.

    Args:
        gate: The gate.
        champions: Champions with values for all rows.
        executor: That of all sealed rows.
        tree: That of the tree.

    Raises:
        QueryRejected: If it lacks values for rows that arrived. Nothing is charged.
    """
    if left := rows_left(gate, executor):
        raise QueryRejected(
            f"the champion of gate {gate.name!r} has no values for {left:,} rows that arrived; expected them before "
            "the next challenge: the same model again, or its predictions for these rows, in gate.complete(...) "
            "(everhold gate complete); nothing was charged"
        )
    found = champions.find(gate.champion)
    if executor.growth is None:
        return found
    rows, trained = tree.schema.rows, tree.schema.training_rows
    known = found.training is not None and len(found.training) == trained
    return Champion(
        found.digest, found.values[-rows:], found.training if known else None,
        None if found.predictions is None else found.predictions[-rows:],
    )  # fmt: skip


def complete(
    gate: GateAccount, executor: QueryExecutor, folder: Path, metric: GateMetric, *, champion: Any, training: Any
) -> None:  # fmt: skip
    """Add the champion's values for rows that arrived.

    Args:
        gate: The gate.
        executor: That of all sealed rows, of the steward.
        folder: Private folder of the rows.
        metric: That of the gate.
        champion: The same model, or its predictions for these rows.
        training: Its predictions for the training rows.

    Raises:
        QueryRejected: If nothing is left, or it is not the champion. Nothing was changed.
    """
    growth = executor.growth
    if growth is None or not rows_left(gate, executor):
        raise QueryRejected(
            f"the champion of gate {gate.name!r} has values for all rows; expected rows that arrived since; nothing "
            "was changed"
        )
    answering(executor)
    first, last = _first_left(gate, executor), growth.account.arrivals
    window = growth.window(first, last)
    new = Candidate.prepared(metric, champion, training, window.compiler)
    known = model_store_of(executor, folder, gate.arrived).find(gate.champion)
    _check_same(gate, known, new, lambda: _known_before(metric, champion, window))
    made = new.as_champion(new.sealed_values(window.sealed, unit=executor.mechanism.unit))
    if first == gate.arrived + 1:  # else all rows that it knew are retired
        made = _joined(known, made)
    if made.training is None and known.training is not None and len(known.training) == executor.schema.training_rows:
        made = replace(made, training=known.training)
    rows = window.place.rows or (1, executor.schema.rows)
    public = {
        "kind": COMPLETED, "gate": gate.name, "champion": gate.champion, "arrived": last, "rows": list(rows),
        **{name: value for name, value in new.bound.description.items() if name == "predictions"},
    }  # fmt: skip
    shown = f"gate {gate.name!r}: values of champion {gate.champion[:8]} for rows {rows[0]:,} to {rows[1]:,}"
    store = model_store_of(executor, folder)
    draft = EntryDraft(digest(public), {**public, "shown": shown[:MOST_SHOWN]})
    record_act(executor, draft, COMPLETED, lambda: store.keep(replace(made, digest=gate.champion)), known=gate)


def _known_before(metric: GateMetric, champion: Any, window: QueryExecutor) -> Iterator[str]:
    """Digests of a model with the training rows of earlier states, as it is known by what it says of them.

    Rows were training rows from their arrival on, or from their retirement on.
    """
    growth, compiler = window.growth, window.compiler
    assert growth is not None
    every = [
        replace(growth.rows, retired=retired).training(last)
        for retired in range(growth.rows.retired + 1) for last in range(len(growth.rows.parts))
    ]  # fmt: skip
    states = {sum(part.rows for part in trained): trained for trained in every}
    for rows, trained in sorted(states.items(), reverse=True):
        schema = replace(compiler.schema, training_rows=rows)
        training = parted(trained, schema, sealed=False) if trained else None
        yield Candidate.prepared(metric, champion, None, replace(compiler, schema=schema, training=training)).digest


def _check_same(
    gate: GateAccount, known: Champion, new: Candidate, earlier: Callable[[], Iterator[str]]
) -> None:  # fmt: skip
    """Check that values come in the way in which the champion was given.

    Args:
        gate: The gate.
        known: Its champion.
        new: What was given now.
        earlier: Digests that it had with other training rows.

    Raises:
        QueryRejected: If not, or from another model. Nothing was changed.
    """
    if known.by_position != new.by_position:
        way = "predictions, for the rows that arrived alone" if known.by_position else "the same model or rule"
        raise QueryRejected(
            f"the champion of gate {gate.name!r} was given in another way; expected {way}; nothing was changed"
        )
    if not known.by_position and new.digest != gate.champion and gate.champion not in earlier():
        raise QueryRejected(
            f"this model is not the champion of gate {gate.name!r}, or nothing tells that it is; expected the same "
            "model again, unchanged; nothing was changed; where it is lost, open another gate under a new name"
        )


def _joined(known: Champion, new: Champion) -> Champion:
    """Values of one champion for earlier and for later rows."""
    predictions = None
    if known.predictions is not None and new.predictions is not None:
        predictions = np.concatenate([known.predictions, new.predictions])
    return replace(new, values=np.concatenate([known.values, new.values]), predictions=predictions)


def record_act(
    executor: QueryExecutor, act: EntryDraft, source: str, keep: Callable[[], None], *, known: GateAccount | None = None
) -> None:
    """Append an entry of a gate that is no challenge.

    Args:
        executor: The holdout at work.
        act: The entry.
        source: Its kind.
        keep: Writes files of the champion, inside the transaction, when nothing can refuse the entry any more.
        known: The gate as it was when this was prepared; None where it is new.

    Raises:
        QueryRejected: If the study is closed, or the gate changed. Nothing was changed.
        RowsArrived: If other rows are there by now. Nothing was changed.
    """

    def step(data: dict[str, Any], _: list[int]) -> tuple[dict[str, Any], list[Outcome | None]]:
        accounts = Accounts.from_state(data)
        if accounts.closed:
            raise QueryRejected(CLOSED_STUDY)
        executor.state_from(data)
        gates = accounts.of(Gates)
        now = None if known is None else gates.by_name[known.name]
        if known is not None and now is not None and (now.champion, now.arrived) != (known.champion, known.arrived):
            raise QueryRejected(
                f"gate {known.name!r} got another champion, or its values, meanwhile; nothing was changed; look at "
                "its status"
            )
        gates.replay(act.description, source)
        keep()
        return accounts.into(data), [Outcome({"value": None, "low": None, "high": None, "source": source}, 0)]

    executor.ledger.commit([act], step)
