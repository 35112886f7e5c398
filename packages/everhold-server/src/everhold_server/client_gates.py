"""Gates of a holdout of a service, about models and about cases; see `everhold_server.client`."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote as escaped

from everhold.arguments import brief
from everhold.errors import BudgetExhausted, QueryRejected
from everhold.queries.metrics.risk import risk
from everhold.queries.metrics.scores import metric as scored
from everhold_server.wire.answers import result_from
from everhold_server.wire.case_results import written_results
from everhold_server.wire.predictions import written_predictions

if TYPE_CHECKING:
    from everhold.display import Facts
    from everhold.gates.cases.open_challenge import Progress
    from everhold.gates.history import GateHistory
    from everhold.gates.verdict import Verdict
    from everhold.queries.predictions.arrays import PredictionTable
    from everhold_server.remote_holdout import RemoteHoldout

_ABOUT_CASES = "cases: "


def gate_of(holdout: RemoteHoldout, name: str) -> RemoteGate | RemoteCaseGate:
    """A gate that is there, of its kind.

    Raises:
        QueryRejected: If there is none of this name.
    """
    gate = RemoteGate(holdout, name)
    return RemoteCaseGate(holdout, name) if gate.status()["metric"].startswith(_ABOUT_CASES) else gate


def opened_case_gate(
    holdout: RemoteHoldout, name: str, *, champion: Any, baseline: Any = None, **claims: Any
) -> RemoteCaseGate:
    """Open a gate about cases with its first champion; for stewards."""
    requested = {key: value for key, value in claims.items() if value is not None}
    if "ranges" in requested:
        requested["ranges"] = {metric: [float(end) for end in ends] for metric, ends in requested["ranges"].items()}
    for listed in ("lower", "any_of"):
        if listed in requested:
            requested[listed] = list(requested[listed])
    document = {"name": name, **requested, "champion": written_results(champion), "baseline": _written(baseline)}
    holdout._send("/case-gates", document)
    return RemoteCaseGate(holdout, name)


class RemoteGate:
    """A gate of a holdout of a service; made by `RemoteHoldout.gate`."""

    def __init__(self, holdout: RemoteHoldout, name: str) -> None:
        """Use `RemoteHoldout.gate` instead."""
        self._holdout, self._name = holdout, name

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
        document, tables = models_of(candidate=candidate, training=training)
        verdict: Verdict = result_from(self._post("challenges", document, tables))
        check_strict(verdict, strict)
        return verdict

    def complete(self, champion: Any, *, training: Any = None) -> None:
        """See `Gate.complete`; the champion is a rule or predictions for the rows that arrived."""
        document, tables = models_of(champion=champion, training=training)
        self._post("champion", document, tables)

    def status(self) -> Facts:
        """The gate in public facts.

        Raises:
            QueryRejected: If there is none of this name.
        """
        told = self._holdout._connection.get(f"{self._holdout._path}/gates")["gates"]
        found: list[Facts] = [result_from(gate) for gate in told]
        for gate in found:
            if gate["gate"] == self._name:
                return gate
        names = ", ".join(brief(gate["gate"]) for gate in found) or "none"
        raise QueryRejected(f"there is no gate {brief(self._name)}; expected one of {names}; open it with a champion")

    def history(self) -> GateHistory:
        """All champions with the intervals of their gains, and what was spent."""
        history: GateHistory = result_from(self._get("history"))
        return history

    def _get(self, what: str, query: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return self._holdout._connection.get(f"{self._holdout._path}{self._at(what)}", query)

    def _post(self, what: str, document: Mapping[str, Any], tables: Any = None) -> dict[str, Any]:
        return self._holdout._send(self._at(what), document, tables)

    def _at(self, what: str) -> str:
        return f"/gates/{escaped(self._name, safe='')}/{what}"

    def _repr_html_(self) -> str:
        return self.status()._repr_html_()


class RemoteCaseGate(RemoteGate):
    """A gate about cases of a holdout of a service; made by `RemoteHoldout.gate`."""

    def challenge(  # type: ignore[override]  # of results, as `Gate.challenge`
        self, results: Any, *, challenger: str | None = None, champion: Any = None, baseline: Any = None,
        strict: bool = False,
    ) -> Verdict:  # fmt: skip
        """See `Gate.challenge`."""
        name = f"run {secrets.token_hex(4)}" if challenger is None else challenger  # one, also if it is sent twice
        sent = _sent(name, results, champion, baseline)
        verdict: Verdict = result_from(self._post("results", sent))
        check_strict(verdict, strict)
        return verdict

    def open(self, challenger: str, *, batch: int | None = None, futility: bool = False) -> RemoteOpenChallenge:
        """See `Gate.open`."""
        self._post("open", {"challenger": challenger, "batch": batch, "futility": futility})
        return RemoteOpenChallenge(self, challenger)

    def cases_left(self) -> list[Any]:
        """See `Gate.cases_left`."""
        return list(self._get("missing")["cases"])

    def complete(  # type: ignore[override]  # with results, as `Gate.complete`
        self, results: Any, *, baseline: Any = None
    ) -> None:  # fmt: skip
        """See `Gate.complete`."""
        fixed = {} if baseline is None else {"baseline": written_results(baseline)}
        self._post("missing", {"results": written_results(results), **fixed})


class RemoteOpenChallenge:
    """A challenge of a service while its cases are handed out; made by `RemoteCaseGate.open`."""

    def __init__(self, gate: RemoteCaseGate, challenger: str) -> None:
        """Use `RemoteCaseGate.open` instead."""
        self._gate, self._challenger = gate, challenger

    def __repr__(self) -> str:
        return f"RemoteOpenChallenge({self._gate.name!r}, {self._challenger!r})"

    def next_cases(self) -> list[Any]:
        """See `OpenChallenge.next_cases`."""
        return list(self._gate._get("open", {"challenger": self._challenger})["cases"])

    def report(self, results: Any, *, champion: Any = None, baseline: Any = None) -> Progress:
        """See `OpenChallenge.report`."""
        sent = _sent(self._challenger, results, champion, baseline)
        reply: Progress = result_from(self._gate._post("reports", sent))
        return reply

    def withdraw(self) -> Verdict:
        """See `OpenChallenge.withdraw`."""
        verdict: Verdict = result_from(self._gate._post("withdrawals", {"challenger": self._challenger}))
        return verdict


def _sent(challenger: str, results: Any, champion: Any, baseline: Any) -> dict[str, Any]:
    return {
        "challenger": challenger, "results": written_results(results), "champion": _written(champion),
        "baseline": _written(baseline),
    }  # fmt: skip


def _written(results: Any) -> Any:
    return None if results is None else written_results(results)


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
