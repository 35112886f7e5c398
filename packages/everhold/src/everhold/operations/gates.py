"""Operations of gates: open one, challenge its champion with a model or with results, report cases, see its history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from everhold.errors import NotFound, QueryRejected
from everhold.operations.operation import PRINTABLE, AnyMetric, AnyModel, AnyResults, HoldoutOperation, Param, Role

if TYPE_CHECKING:
    from everhold.asking.session import HoldoutSession
    from everhold.display import Facts
    from everhold.gates.challenge import Verdict
    from everhold.gates.checks import CheckVerdict
    from everhold.gates.gate import Gate, GateHistory
    from everhold.gates.open_challenge import OpenChallenge, Progress
    from everhold.gates.steps import ChallengeWorth

_Gate = Annotated[str, Param("The gate's name.", longest=100, example="gate", logged="gate")]
_Name = Annotated[str, Param("The gate's name.", longest=100, pattern=PRINTABLE, logged="gate")]
_Margin = Annotated[float, Param("A challenger has to be better by more than this.")]
_Challenges = Annotated[int | None, Param("Most challenges, by default as many as the budget pays.")]
_Challenger = Annotated[str, Param("Name of the challenger, such as a commit.", longest=100, pattern=PRINTABLE)]
_Training = Annotated[AnyModel | None, Param("Its predictions for the training rows.")]
_Results = Annotated[AnyResults, Param("AnyResults by case.")]
_New = Annotated[AnyResults | None, Param("New runs in place of the stored ones.")]
_Strict = Annotated[bool, Param("Raise an error where the verdict would be refused.", travels=False)]
_Guards = Mapping[str, float] | None


def _at(session: HoldoutSession, name: str, *, cases: bool | None = None) -> Gate:
    """Return the gate with this name.

    `cases` is True if the gate must be about cases, False if it must be about rows, and None if both are allowed.

    Raises:
        NotFound: If there is no gate of this name. A name that cannot be used is the name of no gate.
        QueryRejected: If the gate is of the other kind.
    """
    from everhold.arguments import brief
    from everhold.gates.gate import checked_name

    try:
        checked_name(name)
    except QueryRejected:
        raise NotFound(f"There is no gate named {brief(name)}. List the gates with GET /gates.") from None
    gate: Gate = session.gate(name, champion=None)
    if cases is not None and gate.about_cases != cases:
        raise QueryRejected(
            f"The gate {name!r} is not about cases. Send a candidate to its address /challenges." if cases else
            f"The gate {name!r} is about cases. Send results to its address /missing."
        )  # fmt: skip
    return gate


def _opened(session: HoldoutSession, gate: str, challenger: str) -> OpenChallenge:
    """Return a challenge that is open or has ended, without opening one."""
    found = _at(session, gate, cases=True).find_open(challenger)
    if found is None:
        raise QueryRejected(f"The challenger {challenger!r} has no open challenge. Open one first.")
    return found


def _cases(opened: OpenChallenge) -> dict[str, Any]:
    verdict = opened.verdict
    return {"cases": opened.next_cases(), "verdict": None if verdict is None else verdict.to_dict()}


def _outcome(gate: str, verdict: Verdict) -> Mapping[str, Any]:
    return {"gate": gate, "outcome": verdict.to_dict()["verdict"], "query": verdict.query}


@dataclass(frozen=True, kw_only=True)
class ListGates(
    HoldoutOperation["list[Facts]"], verb="gates", role=Role.VIEWER, route="GET /gates", topic="gates", part="gates"
):
    """List the gates with their champions, and the number of their challenges."""

    def perform(self, session: HoldoutSession) -> list[Facts]:
        """Return the gates, read from the ledger."""
        from everhold.gates.records import Gates

        names = session.executor.ledger.head().accounts.of(Gates).by_name
        return [_at(session, name).status() for name in names]


@dataclass(frozen=True, kw_only=True)
class ReadHistory(
    HoldoutOperation["GateHistory"], verb="history", role=Role.VIEWER, route="GET /gates/{gate}/history", topic="gates"
):
    """List all champions of a gate, over whom each is proved to be better and by how much, and what was spent. Free."""

    gate: _Gate

    def perform(self, session: HoldoutSession) -> GateHistory:
        """Return the champions so far, read from the ledger."""
        return _at(session, self.gate).history()


@dataclass(frozen=True, kw_only=True)
class OpenGate(
    HoldoutOperation["Facts"],
    verb="open_gate",
    role=Role.ANALYST,
    act="open a gate",
    route="POST /gates",
    topic="gates",
):
    """Open a gate with its first champion, which only a steward can; the same again changes nothing.

    Without a champion it is the gate that is there already.
    """

    champion: Annotated[AnyModel | None, Param("The model to beat: a rule or predictions.")] = None
    name: _Name = "gate"
    metric: Annotated[
        AnyMetric, Param("What is compared: a name, a score with the range of its labels, or a loss with its range.")
    ] = "accuracy"
    margin: _Margin = 0.0
    challenges: _Challenges = None
    training: _Training = None

    def perform(self, session: HoldoutSession) -> Facts:
        """Record the gate in the ledger."""
        gate: Gate = session.gate(
            self.name, self.metric, champion=self.champion, margin=self.margin, challenges=self.challenges,
            training=self.training,
        )  # fmt: skip
        return gate.status()


@dataclass(frozen=True, kw_only=True)
class ChallengeChampion(
    HoldoutOperation["Verdict"], verb="challenge", role=Role.ANALYST, act="challenge",
    route="POST /gates/{gate}/challenges", topic="gates",
):  # fmt: skip
    """Let a model try to beat the champion: the model is promoted, or the champion is kept.

    Promoted is proved, however many failed before, and costs a surprise; kept promises nothing and costs one of the
    planned queries. No score is told. The same challenge of the same champion again is free.
    """

    gate: _Gate
    candidate: Annotated[AnyModel, Param("A model that wants to be the champion: a rule or predictions.")]
    training: _Training = None
    strict: _Strict = False

    def perform(self, session: HoldoutSession) -> Verdict:
        """Compare the challenger with the champion, and return the verdict."""
        return _at(session, self.gate).challenge(self.candidate, training=self.training, strict=self.strict)

    def facts(self, result: Verdict) -> Mapping[str, Any]:
        """Return the outcome, and the query's hash, for the audit log."""
        return _outcome(self.gate, result)


@dataclass(frozen=True, kw_only=True)
class Complete(
    HoldoutOperation["Facts"], verb="complete", role=Role.STEWARD, act="complete a champion",
    route="POST /gates/{gate}/champion", topic="gates",
):  # fmt: skip
    """Pass the champion's predictions for the arrived rows alone, or the champion itself if it is a rule.

    The gate answers no challenge before. Nothing is charged.
    """

    gate: _Gate
    champion: Annotated[AnyModel, Param("The champion, for rows that arrived.")]
    training: _Training = None

    def perform(self, session: HoldoutSession) -> Facts:
        """Store the champion's values for the new rows."""
        found = _at(session, self.gate, cases=False)
        found.complete(self.champion, training=self.training)
        return found.status()


@dataclass(frozen=True, kw_only=True)
class OpenCaseGate(
    HoldoutOperation["Facts"], verb="open_case_gate", role=Role.STEWARD, act="open a gate", route="POST /case-gates",
    topic="gates",
):  # fmt: skip
    """Open a gate about cases with the results of its first champion; the same again changes nothing."""

    champion: _Results
    name: _Name = "gate"
    better: Annotated[str | None, Param("The metric that has to get better.")] = None
    any_of: Annotated[Sequence[str] | None, Param("In place of it: metrics of which any one has to.")] = None
    not_worse: Annotated[_Guards, Param("Guards: the slack of each metric.")] = None
    at_most: Annotated[_Guards, Param("Guards against numbers, also of a ratio.")] = None
    at_least: Annotated[_Guards, Param("The same, from below.")] = None
    margin: _Margin = 0.0
    units: Annotated[Literal["cases", "runs"], Param("New cases, or new runs of these cases.")] = "cases"
    ranges: Annotated[
        Mapping[str, tuple[float, float]] | None, Param("Range of each metric, low and high, by default 0 to 1.")
    ] = None
    lower: Annotated[Sequence[str] | None, Param("Metrics of which less is better.")] = None
    missing: Annotated[
        Literal["refuse", "worst", "drop-case"], Param("What becomes of runs without a result, such as crashes.")
    ] = "refuse"
    challenges: _Challenges = None
    baseline: Annotated[AnyResults | None, Param("AnyResults that guards are held against.")] = None

    def perform(self, session: HoldoutSession) -> Facts:
        """Record the gate in the ledger."""
        if self.better is None and self.any_of is None:
            raise QueryRejected("No metric is named. Send better, or any_of.")
        gate: Gate = session.gate(
            self.name, better=self.better, any_of=self.any_of, not_worse=self.not_worse, margin=self.margin,
            units=self.units, lower=self.lower, challenges=self.challenges, ranges=self.ranges, at_most=self.at_most,
            at_least=self.at_least, missing=self.missing, champion=self.champion, baseline=self.baseline,
        )  # fmt: skip
        return gate.status()


@dataclass(frozen=True, kw_only=True)
class SendResults(
    HoldoutOperation["Verdict"], verb="send_results", role=Role.ANALYST, act="challenge",
    route="POST /gates/{gate}/results",
    topic="gates",
):  # fmt: skip
    """Compare the results of a challenger on all cases with those of the champion and the baseline.

    Promoted is proved and costs a surprise; kept promises nothing and costs one of the planned queries. Which claim
    failed is never told. The same name and results against the same champion have the same verdict, for nothing.
    """

    gate: _Gate
    results: _Results
    challenger: Annotated[
        str | None, Param("Name of the challenger, such as a commit.", longest=100, pattern=PRINTABLE)
    ] = None
    champion: _New = None
    baseline: _New = None
    strict: _Strict = False

    def perform(self, session: HoldoutSession) -> Verdict:
        """Compare the results with those of the champion, and return the verdict."""
        return _at(session, self.gate, cases=True).challenge(
            self.results, challenger=self.challenger, champion=self.champion, baseline=self.baseline,
            strict=self.strict,
        )  # fmt: skip

    def facts(self, result: Verdict) -> Mapping[str, Any]:
        """Return the outcome, and the query's hash, for the audit log."""
        return _outcome(self.gate, result)


@dataclass(frozen=True, kw_only=True)
class CheckVersion(
    HoldoutOperation["CheckVerdict"], verb="check_version", role=Role.ANALYST, act="check a version",
    route="POST /gates/{gate}/checks", topic="gates",
):  # fmt: skip
    """Check the results of a version against the baseline of a gate: not worse, a regression, or undecided.

    All verdicts of a gate hold at once. No champion changes. One verdict is free: that of the latest charged check, at
    first *undecided*. Later checks have to prove more. If the latest charged check said *not worse*, and results that
    equal the baseline's would have proved that then and no longer do, *undecided* is free in its place. Any other
    verdict costs a surprise.
    """

    gate: _Gate
    results: _Results
    margin: Annotated[float, Param("The version may be worse by so much, in the metric's units.")] = 0.0
    challenger: Annotated[
        str | None, Param("Name of the version, such as a commit.", longest=100, pattern=PRINTABLE)
    ] = None
    baseline: _New = None
    strict: _Strict = False

    def perform(self, session: HoldoutSession) -> CheckVerdict:
        """Compare the results with those of the baseline, and return the verdict."""
        return _at(session, self.gate, cases=True).check(
            self.results, margin=self.margin, challenger=self.challenger, baseline=self.baseline, strict=self.strict
        )

    def facts(self, result: CheckVerdict) -> Mapping[str, Any]:
        """Return the outcome, and the query's hash, for the audit log."""
        return {"gate": self.gate, "outcome": result.verdict, "query": result.query}


@dataclass(frozen=True, kw_only=True)
class ListOpenCases(
    HoldoutOperation[list[Any]], verb="open_cases", role=Role.VIEWER, route="GET /gates/{gate}/open-cases",
    topic="gates", part="cases",
):  # fmt: skip
    """List the cases that are open, to run and to look at. Free."""

    gate: _Gate

    def perform(self, session: HoldoutSession) -> list[Any]:
        """Return the open cases, read from the note beside the sealed rows."""
        return _at(session, self.gate, cases=True).open_cases


@dataclass(frozen=True, kw_only=True)
class ForecastChallenge(
    HoldoutOperation["ChallengeWorth"], verb="worth_asking", role=Role.ANALYST, route="POST /gates/{gate}/forecasts",
    topic="gates",
):  # fmt: skip
    """Forecast from results on the open cases whether a challenge is worth a query. It is free."""

    gate: _Gate
    results: _Results
    champion: Annotated[AnyResults | None, Param("The champion's, where it has none on open cases.")] = None
    challenger: Annotated[
        str | None, Param("Name of the version, to keep its results.", longest=100, pattern=PRINTABLE)
    ] = None

    def perform(self, session: HoldoutSession) -> ChallengeWorth:
        """Compute the forecast from public results of the open cases."""
        gate = _at(session, self.gate, cases=True)
        return gate.worth_asking(self.results, champion=self.champion, challenger=self.challenger)


@dataclass(frozen=True, kw_only=True)
class StartChallenge(
    HoldoutOperation[dict[str, Any]], verb="open_challenge", role=Role.ANALYST, act="open a challenge",
    route="POST /gates/{gate}/open", topic="gates",
):  # fmt: skip
    """Open a challenge that ends as early as is proved; it costs two queries, and a surprise if it is promoted.

    The analyst's allotment pays for all of that now, and gets the surprise back unless it is charged. Only this analyst
    and the steward read the challenge, report for it or withdraw it. A second call with the same name continues the
    same challenge. The status of the gate names the open challenge.
    """

    gate: _Gate
    challenger: _Challenger
    batch: Annotated[int | None, Param("Cases to hand out at a time.")] = None
    futility: Annotated[bool, Param("Also stop where nothing will hardly be proved, for a surprise.")] = False

    def perform(self, session: HoldoutSession) -> dict[str, Any]:
        """Open the challenge, and hand out the first cases."""
        gate = _at(session, self.gate, cases=True)
        return _cases(gate.open(self.challenger, batch=self.batch, futility=self.futility))


@dataclass(frozen=True, kw_only=True)
class NextCases(
    HoldoutOperation[dict[str, Any]],
    verb="next_cases",
    role=Role.ANALYST,
    route="GET /gates/{gate}/open",
    topic="gates",
):
    """Say which cases of an open challenge to run next. Free.

    They are the same ones until they are reported, and none after the end.
    """

    gate: _Gate
    challenger: _Challenger

    def perform(self, session: HoldoutSession) -> dict[str, Any]:
        """Return the cases to run now, read from the ledger."""
        return _cases(_opened(session, self.gate, self.challenger))


@dataclass(frozen=True, kw_only=True)
class Report(
    HoldoutOperation["Progress"], verb="report", role=Role.ANALYST, act="report", route="POST /gates/{gate}/reports",
    topic="gates",
):  # fmt: skip
    """Report the results of exactly the cases that were handed out last."""

    gate: _Gate
    challenger: _Challenger
    results: _Results
    champion: _New = None
    baseline: _New = None

    def perform(self, session: HoldoutSession) -> Progress:
        """Compare the results that were reported so far."""
        opened = _opened(session, self.gate, self.challenger)
        return opened.report(self.results, champion=self.champion, baseline=self.baseline)

    def facts(self, result: Progress) -> Mapping[str, Any]:
        """Return the facts for the audit log: the gate, and whether the challenge goes on or its verdict."""
        told = result.verdict
        return {"gate": self.gate, "outcome": "go on" if told is None else told.to_dict()["verdict"]}


@dataclass(frozen=True, kw_only=True)
class Withdraw(
    HoldoutOperation["Verdict"], verb="withdraw", role=Role.ANALYST, act="withdraw a challenge",
    route="POST /gates/{gate}/withdrawals", topic="gates",
):  # fmt: skip
    """End a challenge; the champion is kept. Its two queries stay spent, and the reserved surprise comes back."""

    gate: _Gate
    challenger: _Challenger

    def perform(self, session: HoldoutSession) -> Verdict:
        """Record the end of the challenge in the ledger."""
        return _opened(session, self.gate, self.challenger).withdraw()


@dataclass(frozen=True, kw_only=True)
class ListCasesLeft(
    HoldoutOperation[list[Any]], verb="cases_left", role=Role.ANALYST, route="GET /gates/{gate}/missing", topic="gates",
    part="cases",
):  # fmt: skip
    """List the cases that a champion has left to run, as it was promoted early or cases were added. Free.

    For the analyst who promoted it, and the steward.
    """

    gate: _Gate

    def perform(self, session: HoldoutSession) -> list[Any]:
        """Return the cases without results of the champion, read from the ledger."""
        return _at(session, self.gate, cases=True).cases_left()


@dataclass(frozen=True, kw_only=True)
class CompleteResults(
    HoldoutOperation[list[Any]], verb="complete_results", role=Role.ANALYST, act="complete results",
    route="POST /gates/{gate}/missing", topic="gates", part="cases",
):  # fmt: skip
    """Add the champion's results on the cases that are left; a gate answers no challenge before.

    For the analyst who promoted it, and the steward.
    """

    gate: _Gate
    results: _Results
    baseline: _New = None

    def perform(self, session: HoldoutSession) -> list[Any]:
        """Store the champion's results, and list the cases that still lack results."""
        found = _at(session, self.gate, cases=True)
        found.complete(self.results, baseline=self.baseline)
        return found.cases_left()
