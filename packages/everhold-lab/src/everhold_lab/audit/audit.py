"""The audit: simulated analysts attack a planned configuration on data in which there is nothing to find.

Every label is a fair coin, so every answer should be 1/2 (see `everhold_lab.audit.coverage`). An answer farther from it
than was promised is a violation, and so is budget spent against the promise. Each analyst also plays against the bare
averages of the same rows, for which the same radius is claimed. If even these averages stay within the radius, the
attack is too weak at this size to say anything about the mechanism.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from everhold.arguments import whole
from everhold.display import Display
from everhold.mechanisms import MECHANISMS, answering
from everhold_lab.analysts import (
    Analyst,
    BoostingAnalyst,
    CrowdAnalyst,
    FingerprintingAnalyst,
    GreedySelectionAnalyst,
    HillClimbingAnalyst,
    HonestAnalyst,
    OptimisingAnalyst,
)
from everhold_lab.audit.coverage import CoverageStudy, StudyOutcome, coverage_study, edge_of_checks
from everhold_privacy.mechanisms.averages import Empirical

if TYPE_CHECKING:
    from everhold.guarantees.intervals.base import Procedure
    from everhold.mechanisms import Mechanism


@dataclass(frozen=True, slots=True)
class AuditLine(Display):
    """Result of one analyst's games against one mechanism and against plain averages.

    Attributes:
        unprotected: The games against the bare averages of the same rows.
    """

    study: CoverageStudy
    statement: str
    unprotected: tuple[StudyOutcome, ...]

    @property
    def needless(self) -> int:
        """Number of games in which budget was spent against the promise."""
        return sum(outcome.needless for outcome in self.study.outcomes)

    @property
    def unprotected_violations(self) -> int:
        """Number of games in which a plain average was farther from the truth than the radius."""
        return sum(outcome.worst_error > self.study.radius for outcome in self.unprotected)

    def to_dict(self) -> dict[str, Any]:
        """Return the line as plain data."""
        return {
            **self.study.to_dict(),
            "statement": self.statement,
            "needless": self.needless,
            "unprotected_violations": self.unprotected_violations,
            "unprotected_worst_error": max(outcome.worst_error for outcome in self.unprotected),
        }


@dataclass(frozen=True, slots=True)
class NotPlayed:
    """A mechanism that is excluded from the audit, with the reason."""

    mechanism: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit(Display):
    """Results of the games of all analysts against all mechanisms.

    Attributes:
        rows: Number of rows of the simulation: that of the holdout, rounded down to a power of 2.
        confidence: Probability 1 - beta with which all answers of a game should hold.
        runs: Games of each analyst against each mechanism.
        seed: Seed of the first game. Each later game has the next seed.
        lines: Line of results for each mechanism and analyst.
        not_played: Mechanisms that were left out.
    """

    rows_in: ClassVar[str] = "lines"

    planned_rows: int
    rows: int
    queries: int
    confidence: float
    runs: int
    seed: int
    lines: tuple[AuditLine, ...]
    not_played: tuple[NotPlayed, ...]

    @property
    def consistent(self) -> bool:
        """True if no mechanism broke its promise more often than chance allows."""
        return all(line.study.consistent for line in self.lines)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences to print below the table."""
        notes = [f"{missed.mechanism} is left out: {missed.reason}" for missed in self.not_played]
        if self.rows < self.planned_rows:
            notes.insert(
                0, f"played with {self.rows} rows: the simulation rounds {self.planned_rows} down to a power of 2"
            )
        broken = {line.study.mechanism for line in self.lines if line.unprotected_violations}
        unbroken = dict.fromkeys(line.study.mechanism for line in self.lines if line.study.mechanism not in broken)
        if unbroken:
            notes.append(
                f"Plain averages, too, stay within the radius of {', '.join(unbroken)}: at "
                "this size these analysts overfit less than the promise allows, so the "
                "audit shows no difference. Fewer rows or more queries show one."
            )
        return tuple(notes)

    def to_dict(self) -> dict[str, Any]:
        """Return the audit as plain data, as ``everhold audit --format json`` prints it."""
        named = ("planned_rows", "rows", "queries", "confidence", "runs", "seed", "consistent")
        return {name: getattr(self, name) for name in named} | {
            "lines": self.to_rows(), "not_played": [asdict(missed) for missed in self.not_played],
            "notes": list(self.notes),
        }  # fmt: skip


ANALYSTS = ("honest", "climbing", "greedy", "fingerprinting", "probing")
"""Analysts that play by default; see `everhold_lab.analysts`. The probing one guesses at the edge of confirmation."""

MORE_ANALYSTS = ("boosting", "crowd", "optimising")
"""Analysts that play if named. The optimising one asks at most 320 queries and needs ``everhold-lab[optuna]``."""

_LEAST_QUERIES = 16
_MOST_ROWS = 2**20
_MOST_SPLIT = 2**24  # rows times rules that a board holds at once for split rows
_VACUOUS = 0.5
_ROUNDS = 4
_MOST_TRIES = 128
_MOST_STUDIES = 8  # of the optimiser, whose sampler takes most of the time
_CROWD = 10
_UNBROKEN = 1.0  # no error is larger: with this radius a control only measures


class _Games(NamedTuple):
    """Options of the games of an audit, as `audit` takes them."""

    mechanisms: Sequence[str] | None
    analysts: Sequence[str]
    runs: int
    seed: int
    progress: Callable[[int, int], None] | None


def audit(
    *,
    rows: int,
    queries: int,
    surprises: int = 10,
    confidence: float = 0.95,
    slack: float = 0.0,
    mechanisms: Sequence[str] | None = None,
    analysts: Sequence[str] = ANALYSTS,
    runs: int = 100,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Audit:
    """Let simulated analysts play against each mechanism with its best parameters for a request.

    Args:
        rows: Number of sealed rows; the simulation rounds it down to a power of 2.
        queries: Number of adaptive queries.
        surprises: Answers that may come from the holdout, for mechanisms that check guesses.
        confidence: 1 - beta, in (0, 1).
        slack: No budget is spent on guesses closer than slack times the radius to the population's value.
        mechanisms: Names of mechanisms. By default all mechanisms that promise something for the request.
        analysts: Names, see `ANALYSTS` and `MORE_ANALYSTS`.
        runs: Games of each analyst against each mechanism.
        seed: Seed of the first game. Each later game has the next seed.
        progress: Function that is called with the number of finished games and the number of all games.

    Raises:
        ValueError: If the request is not valid, or no mechanism promises anything for it.

    Examples:
        >>> result = audit(rows=300, queries=100, surprises=1, analysts=["climbing"], runs=5)
        >>> result.rows, result.consistent
        (256, True)
    """
    played, chosen = _rounded(rows), _Games(mechanisms, analysts, runs, seed, progress)
    _check(queries, chosen)
    tuned: dict[str, Mechanism | str] = {}
    for name in _adaptive(chosen.mechanisms):
        try:
            tuned[name] = MECHANISMS[name].for_request(
                rows=played, queries=queries, surprises=surprises, confidence=confidence, slack=slack
            )
        except ValueError as reason:
            tuned[name] = str(reason)
    return _audit(tuned, rows, chosen)


def audit_plan(
    plan: Mapping[str, Any], *, mechanisms: Sequence[str] | None = None, analysts: Sequence[str] = ANALYSTS,
    runs: int = 100, seed: int = 0, progress: Callable[[int, int], None] | None = None,
) -> Audit:  # fmt: skip
    """Let simulated analysts play against the mechanisms of a plan, with the parameters that the plan states.

    Args:
        plan: The plan as `Plan.to_dict` returns it and ``everhold plan --format json`` prints it, with a number of
            rows.
        mechanisms: Names of mechanisms, as for `audit`.
        analysts: Names of analysts, as for `audit`.
        runs: Games of each analyst against each mechanism.
        seed: Seed of the first game.
        progress: Function that is told about finished games, as for `audit`.

    Raises:
        ValueError: If the data is not such a plan, or no mechanism of it promises anything.
    """
    try:
        rows, queries, confidence = plan["rows"], plan["queries"], plan["confidence"]
        lines = {line["mechanism"]: (line["radius"], line["parameters"]) for line in plan["lines"]}
    except (KeyError, TypeError):
        raise ValueError("The file is not a plan. Pass what 'everhold plan --rows ... --format json' prints.") from None
    if rows is None:
        raise ValueError("The plan has no number of rows. Pass a plan that was made with --rows.")
    played, chosen = _rounded(rows), _Games(mechanisms, analysts, runs, seed, progress)
    _check(queries, chosen)
    planned: dict[str, Mechanism | str] = {}
    for name in _adaptive(chosen.mechanisms):
        radius, parameters = lines.get(name, (None, {}))
        if radius is None:
            planned[name] = "the plan has no radius for it"
        else:
            planned[name] = _with_parameters(name, played, queries, confidence, parameters)
    return _audit(planned, rows, chosen)


def _with_parameters(
    name: str, rows: int, queries: int, confidence: float, parameters: Mapping[str, Any]
) -> Mechanism | str:
    try:
        return MECHANISMS[name](rows=rows, queries=queries, confidence=confidence, **parameters)
    except TypeError:
        raise ValueError(
            f"The parameters of {name} in the plan are not those of this mechanism. Make the plan again."
        ) from None
    except ValueError as reason:
        return str(reason)


def _rounded(rows: int) -> int:
    """Return the largest power of 2 up to a number of rows."""
    return 1 << (whole(rows, "rows", least=_LEAST_QUERIES, most=_MOST_ROWS).bit_length() - 1)


def _adaptive(names: Sequence[str] | None) -> Sequence[str]:
    """Return the names of mechanisms whose promise covers every answer to an adaptive analyst.

    Raise ValueError for another name.
    """
    usual = [name for name, kind in answering().items() if kind.traits.adaptive and not kind.traits.one_sided]
    for name in names or ():
        if name not in usual:
            reason = "is no mechanism"
            if name in MECHANISMS:
                adaptive = MECHANISMS[name].traits.adaptive
                reason = "bounds some answers from one side" if adaptive else "promises nothing to analysts who adapt"
            raise ValueError(f"{name!r} {reason}. Pass some of {', '.join(usual)}.")
    return list(dict.fromkeys(names or usual))


def entry_of(name: str, mechanism: Mechanism, *, procedure: Procedure | None = None) -> tuple[Analyst, int]:
    """Return an analyst that asks as many queries as the mechanism plans, and the number of rules of the game.

    Args:
        name: Name of the analyst in the table of analysts.
        mechanism: The mechanism to play against.
        procedure: Interval procedure of queries, for the probing analyst.
    """
    queries = mechanism.queries
    if name == "honest":
        return HonestAnalyst(), min(queries, mechanism.rows - 1)
    if name == "greedy":
        tries = min(queries // 4, _MOST_TRIES)
        return GreedySelectionAnalyst(tries), min(queries - tries, mechanism.rows - 1)
    if name == "boosting":
        return BoostingAnalyst(), min(queries - 1, mechanism.rows - 1)
    if name == "crowd":
        members = max(min(_CROWD, queries // (2 * _ROUNDS)), 1)
        rules = min(queries - _ROUNDS * members, mechanism.rows - 1)
        return CrowdAnalyst(members, -(-rules // (_ROUNDS * members))), rules
    if name == "optimising":
        tuner = OptimisingAnalyst(trials_per_study=min(queries, 40))
        studies = min(queries // tuner.trials_per_study, _MOST_STUDIES)
        return tuner, min(studies * tuner.rules_per_study, mechanism.rows - 1)
    if name == "fingerprinting":
        tracer = FingerprintingAnalyst(_ROUNDS, min(queries // 40, 8))
        return tracer, min(queries - tracer.votes, mechanism.rows - 1)
    rules = min(queries - _ROUNDS - 1, mechanism.rows - 1)
    edge = edge_of_checks(mechanism, procedure) if name == "probing" else None
    return HillClimbingAnalyst(-(-rules // _ROUNDS), guess=edge), rules


def _audit(mechanisms: Mapping[str, Mechanism | str], planned_rows: int, games: _Games) -> Audit:
    excuses = {name: _excuse(mechanism) for name, mechanism in mechanisms.items()}
    entered = [
        mechanism for name, mechanism in mechanisms.items() if not isinstance(mechanism, str) and not excuses[name]
    ]
    bouts = [
        (m, name)
        for m in entered
        for name in dict.fromkeys(games.analysts)
        if m.traits.needs_guess or name != "probing"
    ]
    if not bouts:
        reasons = "; ".join(f"{name}: {excuse or 'takes no guesses to probe'}" for name, excuse in excuses.items())
        raise ValueError(f"No mechanism can be audited ({reasons}). Choose a mechanism that guarantees intervals.")
    return Audit(
        planned_rows=planned_rows,
        rows=entered[0].rows,
        queries=entered[0].queries,
        confidence=entered[0].confidence,
        runs=games.runs,
        seed=games.seed,
        lines=tuple(_lines(bouts, games)),
        not_played=tuple(NotPlayed(name, excuse) for name, excuse in excuses.items() if excuse),
    )


def _check(queries: int, chosen: _Games) -> None:
    if queries < _LEAST_QUERIES:
        raise ValueError(f"queries is {queries}. Pass at least {_LEAST_QUERIES}, which an attack needs.")
    whole(chosen.runs, "runs")
    for name in chosen.analysts:
        if name not in (*ANALYSTS, *MORE_ANALYSTS):
            known = ", ".join((*ANALYSTS, *MORE_ANALYSTS))
            raise ValueError(f"There is no analyst {name!r}. The analysts are {known}.")


def _excuse(mechanism: Mechanism | str) -> str:
    """Return the reason why a mechanism is left out of the audit, or an empty text."""
    if isinstance(mechanism, str):
        return mechanism
    radius = mechanism.promise().radius
    if not radius < _VACUOUS:
        return f"its radius {radius:.2f} is half the range or more and promises nothing"
    if mechanism.parts > 1 and mechanism.queries * mechanism.rows > _MOST_SPLIT:
        return f"it is simulated only up to {_MOST_SPLIT} rows times queries"
    return ""


def _lines(bouts: Sequence[tuple[Mechanism, str]], chosen: _Games) -> Iterator[AuditLine]:
    """Play all games, and yield one line for each mechanism.

    Games against plain averages are played once for each analyst.
    """
    opponents = ["climbing" if name == "probing" else name for _, name in bouts]  # bare averages take no guesses
    total, done = chosen.runs * (len(bouts) + len(set(opponents))), 0
    bare: dict[str, tuple[StudyOutcome, ...]] = {}

    def advance() -> None:
        nonlocal done
        done += 1
        if chosen.progress is not None:
            chosen.progress(done, total)

    def games(mechanism: Mechanism, name: str, radius: float | None = None) -> CoverageStudy:
        analyst, rules = entry_of(name, mechanism)
        terms: dict[str, Any] = {"runs": chosen.runs, "seed": chosen.seed, "radius": radius, "advance": advance}
        return replace(coverage_study(mechanism, analyst, rules=rules, **terms), analyst=name)

    for (mechanism, name), opponent in zip(bouts, opponents, strict=True):
        if opponent not in bare:
            control = Empirical(rows=mechanism.rows, queries=mechanism.queries)
            bare[opponent] = games(control, opponent, radius=_UNBROKEN).outcomes
        yield AuditLine(games(mechanism, name), mechanism.promise().statement, bare[opponent])
