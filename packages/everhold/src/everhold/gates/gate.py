"""A gate: a champion that gives way only to a challenger that is proved to be better.

All processes that open a gate have the same champion, because the ledger alone determines it. The data on which
versions are compared are the gate's evidence: `everhold.gates.rows`, or `everhold.gates.cases`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

from everhold.answers import estimand_in_words
from everhold.arguments import as_whole, brief
from everhold.asking.query_executor import CLOSED_STUDY, QueryExecutor
from everhold.asking.session import SeesArrivals, current
from everhold.asking.unsealing import as_row, disclosed
from everhold.display import Display, Facts, at_least, at_most, left_in_words
from everhold.errors import QueryRejected
from everhold.gates import challenge
from everhold.gates.records import LONGEST_GATE, MOST_CHALLENGES, GateAccount, Gates
from everhold.ledger.acts import GATE
from everhold.ledger.store import all_entries
from everhold.queries.query import QueryPlan
from everhold.values.units import GAIN_WIDTH

if TYPE_CHECKING:
    from everhold.gates.cases import CaseEvidence
    from everhold.gates.checks import CheckVerdict
    from everhold.gates.open_challenge import OpenChallenge
    from everhold.gates.results import CaseSuite, VarianceShares
    from everhold.gates.steps import ChallengeWorth
    from everhold.ledger import Head

Telling = Callable[[QueryPlan[challenge.Verdict]], QueryPlan[challenge.Verdict]]


@dataclass(frozen=True, slots=True)
class GateHistory(Display):
    """The champions of a gate in order, with the gain that is proved for each.

    Attributes:
        gate: Name of the gate.
        metric: The metric or the claims in words, with guards and their slacks.
        margin: Each champion is proved better than the one before by more than this, in the metric's units.
        challenges: Number of challenges answered so far.
        promotions: Number of promoted challengers. Each promotion cost a surprise.
        remaining: The budget that is left, by name.
        nats: ln(1 / level) of the next challenge.
        about: Words for what the promises are about, if not the population.
        confidence: Probability with which all intervals hold at once, together with all answers of the holdout.
        statement: The proved statement in docs/theory on which the promise rests.
        champions: The first champion and one row for each promotion: ``number``, ``champion`` and ``over`` (SHA-256),
            ``entry`` of the ledger, ``asked_at`` (UTC), the gain over the champion before in [``low``, ``high``]
            (``high`` is None for ratios), the least gain over the first champion ``since_first`` (None where gains do
            not add up), and ``nats``, the ln(1 / level) at which it was proved (None where a query has no level of its
            own). After an unsealing, also the mean ``gain`` of all reported cases and its lower end ``gain_low``,
            except for ratios.
    """

    rows_in: ClassVar[str] = "champions"

    gate: str
    metric: str
    margin: float
    challenges: int
    promotions: int
    remaining: Mapping[str, int]
    nats: float
    about: str | None
    confidence: float
    statement: str
    champions: Sequence[dict[str, Any]]

    def explain(self) -> str:
        """Explain in words which gains are proved and how much budget they cost."""
        last = self.champions[-1]
        since = last["since_first"]
        most = " or more" if last["high"] is None else f" to {at_most(last['high'])}"
        total = (
            "" if since is None else f" The present champion is better than the first one by {at_least(since)}{most}."
        )
        return (
            f"{self.promotions} of {self.challenges} challenges were promoted. Each champion is better than the one "
            f"before by more than {at_least(self.margin)}, by {self.metric}. All of this holds at once with "
            f"probability {100.0 * self.confidence:.8g} % (statement {self.statement}).{total} Kept challengers prove "
            f"nothing. {left_in_words(self.remaining)} left. {estimand_in_words(self.about)}"
        ).strip()


class Gate(SeesArrivals):
    """A gate keeps the best version so far, the champion. A challenger replaces it only if it is proved to be better.

    `Holdout.gate` makes gates. A gate about rows compares models by their values on the sealed rows. A gate about cases
    compares results that versions report; `open`, `find_open`, `cases_left`, `shares` and `suite` are for gates about
    cases only.
    """

    def __init__(self, evidence: challenge.Evidence[Any], *, telling: Telling | None = None) -> None:
        """Use `Holdout.gate` instead."""
        self._evidence, self._telling = evidence, telling
        self._executor, self._folder = evidence.executor, evidence.folder

    def _see_arrivals(self) -> None:
        super()._see_arrivals()
        self._evidence = replace(self._evidence, executor=self._executor)

    def __repr__(self) -> str:
        return f"Gate({', '.join(filter(None, (repr(self.name), self._evidence.size)))})"

    def _repr_html_(self) -> str:
        return self.status()._repr_html_()

    @property
    def name(self) -> str:
        """The gate's name."""
        return self._evidence.name

    @property
    def about_cases(self) -> bool:
        """Whether versions are compared by results that they report on cases, not by predictions for sealed rows."""
        return self._evidence.about_cases

    @property
    def champion(self) -> str:
        """Id of the champion (the best version so far): SHA-256 of its query, or of its name in a gate about cases."""
        return self._executor.ledger.head().accounts.of(Gates).by_name[self.name].champion

    @current
    def challenge(
        self, candidate: Any, *, training: Any = None, challenger: str | None = None, champion: Any = None,
        baseline: Any = None, strict: bool = False,
    ) -> challenge.Verdict:  # fmt: skip
        """Let a candidate challenge the champion. If it is proved to be better, it becomes the champion.

        Challenges are limited by the gate's ``challenges`` and by an analyst's allotment (their part of the budget),
        but not by the planned number of queries. Beyond the plan a promotion is still proved, and needs a larger gain,
        which `status` reports.

        After an arrival of rows or cases, the same challenge counts as a new one, because it is about more rows.

        Args:
            candidate: What the metric takes: a fitted estimator, a rule over the features such as ``"dep_delay > 10"``,
                or predictions for the sealed rows as an array or a table with row ids. For a gate about cases, the
                candidate's results: a table with the column ``case`` and a column for each metric, or a mapping from
                case ids to numbers or mappings of metrics. Several runs of a case are several rows, numbered in a
                column ``run``, or a list.
            training: Predictions for the training rows, if the candidate is a table or an array. With them smaller
                gains are proved.
            challenger: Name of a version with results, such as a commit. The same name with the same results against
                the same champion has the same verdict and is free, and with other results it is refused. Without a
                name, each call has a new challenger.
            champion: New results of the champion, run after the challenger was finished. The challenger is compared
                with them in place of the stored results. Pass them if people who make challengers know the stored
                results (docs/theory/gates.md, known runs).
            baseline: New results of the baseline, the version that guards (claims that nothing else became worse) are
                compared with. Needed with ``champion`` if the gate has guards.
            strict: Raise `BudgetExhausted` instead of returning a refused verdict.

        Returns:
            The verdict, committed to the ledger before it is returned. Repeating a challenge of the same champion
            is free and has the same verdict. A challenge by the champion itself returns the verdict that promoted it.

        Raises:
            QueryRejected: If the candidate cannot be compared, or the champion lacks values or results, such as values
                for rows that arrived. Nothing was charged.
            CaseRejected: If a case is missing, unknown, given twice, crashed or has no number. Nothing was charged.
            BudgetExhausted: If the challenge was refused and ``strict`` is True.
        """
        given = self._fitting(training=training, challenger=challenger, champion=champion, baseline=baseline)

        def prepared(head: Head) -> tuple[QueryExecutor, QueryPlan[challenge.Verdict]] | challenge.Verdict:
            gate = self._evidence.gate_at(head)
            version = self._evidence.version(candidate, **given)
            if version.digest == gate.champion:
                return self._evidence.verdict_of_champion(gate, version)
            executor, plan = self._evidence.challenge(gate, version, head)
            return executor, plan if self._telling is None else self._telling(plan)

        verdict: challenge.Verdict = self._evidence.ask(prepared, strict=strict)
        if self._evidence.about_cases and verdict.promoted and not verdict.repeated:
            self._cases.remember_open(self._executor.ledger.latest(), candidate)
        return verdict

    @current
    def check(
        self, results: Any, *, margin: float = 0.0, challenger: str | None = None, baseline: Any = None,
        strict: bool = False,
    ) -> CheckVerdict:  # fmt: skip
        """Check whether a version's results on cases are not worse than those of the gate's baseline.

        The verdict is ``"not worse"``, ``"regression"`` or ``"undecided"``. All verdicts of a gate hold together, with
        those of its challenges. The champion does not change. One verdict is free: that of the latest charged check, at
        first ``"undecided"``. Later checks have to prove more. If the verdict of the latest charged check is ``"not
        worse"``, and results that equal the baseline's would have proved that then and no longer do, ``"undecided"`` is
        free in its place. Any other verdict costs a surprise.

        Args:
            results: Results of the version on the cases, as for ``candidate`` in `challenge`.
            margin: The version may be worse by this much, in the metric's units. A negative margin asks for a gain.
                Guards of the gate (claims about other metrics) have slacks of their own, and must hold as well.
            challenger: Name of the version. A second check with the same name, margin and results has the same verdict
                and is free. With other results it is refused.
            baseline: New results of the baseline, run after the version was finished; by default the stored ones.
            strict: Raise `BudgetExhausted` instead of returning a refused verdict.

        Returns:
            ``"not worse"``, ``"regression"`` or ``"undecided"``, committed to the ledger before it is returned.

        Raises:
            QueryRejected: If the gate is about rows or a ratio, or the margin cannot be used. Nothing was charged.
            CaseRejected: If a case is missing, unknown, given twice, crashed or has no number. Nothing was charged.
        """
        from everhold.gates.checks import prepared_check

        evidence = self._cases

        def prepared(head: Head) -> tuple[QueryExecutor, QueryPlan[Any]]:
            gate, guards = evidence.gate_at(head), evidence.units.suite.not_worse
            version = evidence.version(
                results, challenger=challenger, champion=baseline, baseline=baseline if guards else None
            )
            return evidence.executor, prepared_check(evidence, gate, version, head, margin)

        verdict: CheckVerdict = evidence.ask(prepared, strict=strict)
        return verdict

    @current
    def complete(self, champion: Any, *, training: Any = None, baseline: Any = None) -> None:
        """Supply what the champion lacks: predictions for rows, or results on cases, that were added since.

        Results are also missing after a promotion that was decided before all cases were run. Until they are supplied
        the gate answers no challenge. The steward supplies values for rows. The steward, or the analyst whose challenge
        promoted the champion, supplies results on cases.

        Args:
            champion: If the champion is a model or a rule, the same model or rule, which is recognised and evaluated on
                the new rows. If it was given as predictions, its predictions for only the rows that arrived, in their
                order, or a table with row ids. Nobody checks that they come from the same model; the ledger keeps their
                digest. In a gate about cases, the champion's results on exactly the cases of `cases_left`.
            training: The champion's predictions for all training rows, if it was given as predictions. Without them,
                and if the training rows changed, challenges need larger gains.
            baseline: Results of the baseline; needed for cases that were added, where there are guards against it.

        Raises:
            QueryRejected: If the champion lacks nothing, ``champion`` is not this gate's champion, or another analyst
                promoted it. Nothing was changed.
            CaseRejected: If a case is missing, unknown, given twice, crashed or has no number. Nothing was changed.
        """
        gate = self._evidence.gate_at(self._executor.ledger.head())
        self._evidence.complete(gate, champion, **self._fitting(training=training, baseline=baseline))

    @current
    def status(self) -> Facts:
        """Return the public facts of the gate: metric, champion, challenges, budget, and the least gain it can prove.

        For a gate about rows: ``plan`` says how many queries and challenges the holdout is planned for, and how many
        were answered beyond that. The plan is no limit: beyond it, challenges are answered as queries are, and every
        promotion is proved, but the gain has to be larger. ``sees`` is the least gain in accuracy, on independent rows,
        with which the next challenger is promoted if it differs from the champion on one row in twenty; None if no gain
        is enough. For sealed features, or other labels than 0 and 1, it assumes the spread of gains in the training
        rows. ``rows_left`` counts rows that arrived and wait for `complete`.

        For a gate about cases: ``open`` says whether a challenge is open; the steward and the analyst who opened it are
        also told its name and how far it is. ``sees`` is the smallest gain in the first metric with which any results
        prove the next challenge; None for a ratio, and where not even a perfect challenger could be proved (then
        ``provable`` is False). ``sees_open`` is the same for an open challenge at its end, when all cases are reported.
        """
        head = self._executor.ledger.head()
        gate, executor = self._evidence.gate_at(head), self._evidence.answering(head)
        return Facts({
            **challenge.described_gate(gate),
            "holdout": executor.record.name,
            **self._evidence.facts(gate, head),
            "remaining": gate.remaining(executor.remaining(head)),
            "statement": self._executor.promise.statement,
            "confidence": self._executor.promise.confidence,
        })  # fmt: skip

    @current
    def history(self) -> GateHistory:
        """Return all champions so far, each with the interval of its gain over the one before, and the budget spent."""
        head = self._executor.ledger.head()
        executor, gate = self._evidence.answering(head), self._evidence.gate_at(head)
        said = challenge.described_gate(gate)
        first: dict[str, Any] = {
            "number": 0, "champion": gate.first, "over": None, "entry": None, "asked_at": None, "low": None,
            "high": None, "since_first": None, "nats": None,
        }  # fmt: skip
        told = disclosed(all_entries(executor.ledger)) if head.accounts.closed else {}
        champions = [first]
        for number, entry in enumerate(challenge.promotions_of(executor, self.name)[: gate.promotions], 1):
            width = float(entry.description.get(GAIN_WIDTH, 1.0))
            ends = as_row(entry, told[entry.sequence])[:2] if entry.sequence in told else ()
            champions.append({
                **first, "number": number, "champion": entry.description["challenger"],
                "over": entry.description["champion"], "entry": entry.sequence, "asked_at": entry.asked_at,
                **challenge.bounds_of(gate, number, head.accounts), "nats": entry.answer.get("node", {}).get("nats"),
                **{name: width * end for name, end in zip(("gain", "gain_low"), ends, strict=False)},
            })  # fmt: skip
        return GateHistory(
            gate=self.name, metric=said["metric"], margin=said["margin"], challenges=gate.challenges - gate.checks,
            promotions=gate.promotions, remaining=gate.remaining(executor.remaining(head)),
            nats=challenge.next_nats(executor.mechanism, executor.state_from(head)),
            about=challenge.about_runs(gate.metric), confidence=executor.promise.confidence,
            statement=executor.promise.statement, champions=champions,
        )  # fmt: skip

    @property
    @current
    def suite(self) -> CaseSuite:
        """The gate's suite of cases, and the claims that a challenger must prove."""
        self._evidence.gate_at(self._executor.ledger.head())
        return self._cases.units.suite

    @current
    def open(self, challenger: str, *, batch: int | None = None, futility: bool = False) -> OpenChallenge:
        """Open a challenge in which cases are run in batches, and which ends as soon as the results decide it.

        It costs two planned queries, one for the opening and one for the verdict, however it ends. A promotion also
        costs a surprise (one of the planned answers that reveal something new). An analyst's allotment pays for all
        three when the challenge is opened, and gets the surprise back unless it is charged. Until it ends, the gate
        answers no other challenge, and only the analyst who opened it and the steward can read it, report for it or
        withdraw it.

        Cases are handed out in an order that is shuffled anew with the steward's key. The challenger must be finished
        when the challenge is opened: later changes to it must not depend on anything that the gate says.

        If it ends with all cases reported, `challenge` with the same name and results returns its verdict. If it ends
        before, pass all results under another name.

        Args:
            challenger: Name of the challenger, such as a commit. An open challenge of this name is continued.
            batch: Cases to hand out at a time; by default a twentieth of the suite, at least one.
            futility: Also stop early if a promotion has become unlikely. Such a stop costs a surprise,
                because it reveals something about the sealed results. `OpenChallenge.withdraw` costs none.

        Raises:
            QueryRejected: If a challenge by another version is open in this gate. Nothing was charged.
            BudgetExhausted: If no results could prove the claims any more, or the analyst's allotment is too small.
                Nothing was charged.
        """
        from everhold.gates.open_challenge import open_challenge

        return open_challenge(self._cases, challenger, batch=batch, futility=futility)

    @current
    def find_open(self, challenger: str) -> OpenChallenge | None:
        """Return the challenge that `open` began for this challenger against the present champion, open or ended.

        `status` has the name of the open challenge.

        Args:
            challenger: Name of the challenger.

        Returns:
            None if there is no such challenge.

        Raises:
            QueryRejected: If the challenge is open and another analyst opened it.
        """
        from everhold.gates.open_challenge import OpenChallenge

        found, head = OpenChallenge(self._cases, challenger), self._executor.ledger.head()
        self._evidence.gate_at(head)
        return found if found._opened(head) is not None or found._decided(head) is not None else None

    @current
    def cases_left(self) -> list[Any]:
        """Return the ids of the cases for which results of the champion or of the baseline are missing.

        Pass these results to `complete`.

        Raises:
            QueryRejected: If the asker is neither the steward nor the analyst who promoted the champion.
        """
        gate = self._evidence.gate_at(self._executor.ledger.head())
        return self._cases.left(gate)

    def check_addition(self, baseline: Any) -> None:
        """Raise QueryRejected unless cases can be added to the suite with the given results of the baseline.

        Args:
            baseline: Results of the baseline on the added cases; None if there are none.

        Raises:
            QueryRejected: If the cases cannot be added with these results. Nothing was changed.
        """
        self._cases.check_addition(self._evidence.gate_at(self._executor.ledger.head()), baseline)

    @current
    def shares(self, results: Any) -> VarianceShares:
        """Return how much of the variance of results is between cases, and how much between runs of one case.

        No query is asked, and nothing is charged.

        Args:
            results: Results with several runs of each case, as for `challenge`.
        """
        from everhold.gates.results import variance_shares

        head = self._executor.ledger.head()
        self._evidence.gate_at(head)
        suite, sealed = self._cases.units.suite, self._cases.open_cases.sealed_part(results)
        return variance_shares(suite, suite.values(sealed), nats=self._cases.next_nats(head))

    @property
    def open_cases(self) -> list[Any]:
        """Ids of the open cases, which are not sealed. You may run them, read results, and tune versions on them."""
        return list(self._cases.open_cases.ids)

    @current
    def worth_asking(
        self, open_results: Any, *, champion: Any = None, challenger: str | None = None
    ) -> ChallengeWorth:  # fmt: skip
        """Estimate, from results on the open (not sealed) cases, whether a challenge could lead to a promotion.

        No query is asked, and nothing is charged.

        Args:
            open_results: Results of the version, in a form that `challenge` takes. Only results on open cases are read.
            champion: Results of the champion on open cases, if it was promoted without them.
            challenger: Name of the version; its results are then kept, in case it becomes the champion.

        Returns:
            ``"yes"``; ``"no"`` with the gain that would suffice; or ``"never"`` with the number of further cases that
            would be needed.

        Raises:
            QueryRejected: If no case is open, results are missing, or the metric that has to be better is a ratio.
        """
        head = self._executor.ledger.head()
        gate = self._evidence.gate_at(head)
        return self._cases.worth_asking(gate, head, open_results, champion=champion, name=challenger)

    @property
    def _cases(self) -> CaseEvidence:
        """The evidence of a gate about cases. A gate about rows raises QueryRejected, because it has no cases."""
        if not self._evidence.about_cases:
            raise QueryRejected(
                f"Gate {self.name!r} is about rows, and hands out no cases. Pass a model, a rule or predictions to "
                "challenge."
            )
        return cast("CaseEvidence", self._evidence)

    def _fitting(self, **given: Any) -> dict[str, Any]:
        """Return the arguments that are not None. Raise QueryRejected for one of the other kind of gate."""
        found = {name: value for name, value in given.items() if value is not None}
        about_cases = self._evidence.about_cases
        others = {"training"} if about_cases else {"challenger", "champion", "baseline"}
        if wrong := sorted(found.keys() & others):
            kinds = ("cases", "rows") if about_cases else ("rows", "cases")
            raise QueryRejected(
                f"Gate {self.name!r} is about {kinds[0]}, and {wrong[0]}= belongs to gates about {kinds[1]}. Leave it "
                "out."
            )
        return found


def check_may_open(executor: QueryExecutor) -> None:
    """Raise QueryRejected if an analyst opens a new gate, or the study is closed."""
    executor.check_steward("open a new gate")
    if executor.ledger.latest().accounts.closed:
        raise QueryRejected(CLOSED_STUDY)


def record_gate(executor: QueryExecutor, gate: GateAccount, champion: str, keep: Callable[[], None]) -> None:
    """Record the act of the steward that opens a gate.

    Args:
        executor: Executor of the open holdout.
        gate: Public record of the gate, as it will be opened.
        champion: The first champion, in words.
        keep: Function that stores the first champion.
    """
    public = {
        "kind": GATE, "gate": gate.name, "metric": dict(gate.metric), "margin": gate.margin, "challenges": gate.limit,
        "champion": gate.champion, **({"arrived": gate.arrived} if gate.arrived else {}),
    }  # fmt: skip
    shown = f"gate {gate.name!r}: {champion} is the champion"
    draft = challenge.act(public, shown, identity={"kind": GATE, "gate": gate.name})
    challenge.record_act(executor, draft, Gates, keep=keep)


def checked_name(name: Any) -> str:
    """Return the name of a gate, after checking that it can be used.

    Raises:
        QueryRejected: If ``name`` cannot be used as the name of a gate. Nothing was changed.
    """
    usable = (
        isinstance(name, str)
        and 1 <= len(name) <= LONGEST_GATE
        and name.isprintable()
        and name == " ".join(name.split())
        and name == unicodedata.normalize("NFKC", name)
        and "/" not in name  # it is a part of an address
    )
    if not usable:
        raise QueryRejected(
            f"The gate's name {brief(name)} cannot be used. Pass 1 to {LONGEST_GATE} printable characters in their "
            "normal form, without slashes and without leading, trailing or double spaces, such as 'nightly'."
        )
    return str(name)


def checked_limit(challenges: Any) -> int | None:
    """Return the gate's limit on challenges after a check. None means that only the budget limits them.

    Raises:
        QueryRejected: If ``challenges`` is not a valid number of challenges. Nothing was changed.
    """
    if challenges is None:
        return None
    number = as_whole(challenges)
    if number is None or not 1 <= number <= MOST_CHALLENGES:
        raise QueryRejected(
            f"The limit of challenges is {brief(challenges)}. Pass a whole number of at least 1, or None for no limit."
        )
    return int(number)
