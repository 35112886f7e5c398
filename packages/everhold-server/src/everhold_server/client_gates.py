"""Gates of a holdout of a service: each method performs an operation."""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING, Any

from everhold.arguments import brief
from everhold.errors import BudgetExhausted, QueryRejected
from everhold.operations.gates import (
    ChallengeChampion,
    Complete,
    CompleteResults,
    ListCasesLeft,
    ListGates,
    NextCases,
    OpenCaseGate,
    OpenGate,
    ReadHistory,
    Report,
    SendResults,
    StartChallenge,
    Withdraw,
)
from everhold.queries.metrics.row_scores import risk
from everhold.queries.metrics.scores import metric as scored
from everhold_server.wire.predictions import written_predictions

if TYPE_CHECKING:
    from everhold.display import Facts
    from everhold.gates.cases.open_challenge import Progress
    from everhold.gates.challenge import Verdict
    from everhold.gates.history import GateHistory
    from everhold.operations.transport import Transport
    from everhold.queries.predictions.arrays import PredictionTable

_ABOUT_CASES = "cases: "


def gate_of(transport: Transport, name: str) -> RemoteGate | RemoteCaseGate:
    """A gate that is there, of its kind.

    Raises:
        QueryRejected: If there is none of this name.
    """
    gate = RemoteGate(transport, name)
    return RemoteCaseGate(transport, name) if gate.status()["metric"].startswith(_ABOUT_CASES) else gate


def open_gate(transport: Transport, metric: Any, *, name: str, **terms: Any) -> RemoteGate:
    """Open a gate with its first champion: a rule or predictions, or results of cases; for stewards.

    Args:
        transport: Of the holdout.
        metric: A name such as ``"roc_auc"``; or a loss or a score with its range, as ``functools.partial(eh.risk,
            loss="absolute", high=60)`` or ``functools.partial(eh.metric, "r2", low=0, high=60)``.
        name: Of the gate.
        **terms: As for `everhold.Holdout.gate`; ``better`` and ``any_of`` make a gate about cases.
    """
    given = {key: value for key, value in terms.items() if value is not None}
    if "better" not in given and "any_of" not in given:
        transport.perform(OpenGate(name=name, **({} if metric is None else {"metric": metric}), **given))
        return RemoteGate(transport, name)
    given |= {listed: list(given[listed]) for listed in ("lower", "any_of") if listed in given}
    transport.perform(OpenCaseGate(name=name, **given))
    return RemoteCaseGate(transport, name)


class RemoteGate:
    """A gate of a holdout of a service; made by `Holdout.gate`."""

    def __init__(self, transport: Transport, name: str) -> None:
        """Use `Holdout.gate` instead."""
        self._transport, self._name = transport, name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"

    @property
    def name(self) -> str:
        """The gate's name."""
        return self._name

    @property
    def champion(self) -> str:
        """The present champion: SHA-256 of the query about it."""
        return str(self.status()["champion"])

    def challenge(self, candidate: Any, *, training: Any = None, strict: bool = False) -> Verdict:
        """See `Gate.challenge`; the candidate is a rule or predictions."""
        return self._transport.perform(
            ChallengeChampion(gate=self._name, candidate=candidate, training=training, strict=strict)
        )

    def complete(self, champion: Any, *, training: Any = None) -> None:
        """See `Gate.complete`; the champion is a rule or predictions for the rows that arrived."""
        self._transport.perform(Complete(gate=self._name, champion=champion, training=training))

    def status(self) -> Facts:
        """The gate in public facts.

        Raises:
            QueryRejected: If there is none of this name.
        """
        found = self._transport.perform(ListGates())
        for gate in found:
            if gate["gate"] == self._name:
                return gate
        names = ", ".join(brief(gate["gate"]) for gate in found) or "none"
        raise QueryRejected(f"there is no gate {brief(self._name)}; expected one of {names}; open it with a champion")

    def history(self) -> GateHistory:
        """All champions with the intervals of their gains, and what was spent."""
        return self._transport.perform(ReadHistory(gate=self._name))

    def _repr_html_(self) -> str:
        return self.status()._repr_html_()


class RemoteCaseGate(RemoteGate):
    """A gate about cases of a holdout of a service; made by `Holdout.gate`."""

    def challenge(  # type: ignore[override]  # of results, as `Gate.challenge`
        self, results: Any, *, challenger: str | None = None, champion: Any = None, baseline: Any = None,
        strict: bool = False,
    ) -> Verdict:  # fmt: skip
        """See `Gate.challenge`."""
        name = f"run {secrets.token_hex(4)}" if challenger is None else challenger  # one, also if it is sent twice
        return self._transport.perform(
            SendResults(
                gate=self._name, results=results, challenger=name, champion=champion, baseline=baseline, strict=strict
            )
        )

    def open(self, challenger: str, *, batch: int | None = None, futility: bool = False) -> RemoteOpenChallenge:
        """See `Gate.open`."""
        asked = StartChallenge(gate=self._name, challenger=challenger, batch=batch, futility=futility)
        self._transport.perform(asked)
        return RemoteOpenChallenge(self, challenger)

    def cases_left(self) -> list[Any]:
        """See `Gate.cases_left`."""
        return self._transport.perform(ListCasesLeft(gate=self._name))

    def complete(  # type: ignore[override]  # with results, as `Gate.complete`
        self, results: Any, *, baseline: Any = None
    ) -> None:  # fmt: skip
        """See `Gate.complete`."""
        self._transport.perform(CompleteResults(gate=self._name, results=results, baseline=baseline))


class RemoteOpenChallenge:
    """A challenge of a service while its cases are handed out; made by `RemoteCaseGate.open`."""

    def __init__(self, gate: RemoteCaseGate, challenger: str) -> None:
        """Use `RemoteCaseGate.open` instead."""
        self._transport, self._gate, self._challenger = gate._transport, gate.name, challenger

    def __repr__(self) -> str:
        return f"RemoteOpenChallenge({self._gate!r}, {self._challenger!r})"

    def next_cases(self) -> list[Any]:
        """See `OpenChallenge.next_cases`."""
        found = self._transport.perform(NextCases(gate=self._gate, challenger=self._challenger))
        return list(found["cases"])

    def report(self, results: Any, *, champion: Any = None, baseline: Any = None) -> Progress:
        """See `OpenChallenge.report`."""
        return self._transport.perform(
            Report(gate=self._gate, challenger=self._challenger, results=results, champion=champion, baseline=baseline)
        )

    def withdraw(self) -> Verdict:
        """See `OpenChallenge.withdraw`."""
        return self._transport.perform(Withdraw(gate=self._gate, challenger=self._challenger))


def plain(number: Any) -> Any:
    """A number of NumPy as Python's own."""
    return number.item() if hasattr(number, "item") else number


def models_of(**models: Any) -> tuple[dict[str, Any], dict[str, PredictionTable]]:
    """Predictions as plain data by name, and the tables that travel with them."""
    tables: dict[str, PredictionTable] = {}
    told = {name: written_predictions(model, tables) for name, model in models.items() if model is not None}
    return told, tables


def metric_of(metric: Any) -> Any:
    """A metric of a gate by its name, or a loss with its range."""
    if isinstance(metric, partial) and metric.func is risk and not metric.args:
        return dict(metric.keywords)
    if isinstance(metric, partial) and metric.func is scored and len(metric.args) == 1:
        return {"name": metric.args[0], **metric.keywords}
    return getattr(metric, "__name__", metric)


def check_strict(answer: Any, strict: bool) -> None:
    """Raise `BudgetExhausted` for a refused answer where that was requested."""
    if not (strict and answer.refused):
        return
    refused = getattr(answer, "first_refused", answer)
    said = refused.explain() if hasattr(refused, "explain") else str(refused)
    raise BudgetExhausted(said, **refused.to_dict())
