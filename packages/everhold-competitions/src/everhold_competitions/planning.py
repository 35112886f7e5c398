"""Plans a competition before there are rows: widths of its scores, and pairs of teams that its board tells apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from everhold.arguments import as_float, brief
from everhold.asking.creation import StudyRequest
from everhold.display import Display, at_most
from everhold.errors import HoldoutRejected, warnings_collected
from everhold.holdout import Holdout
from everhold.planning.widths import step_at
from everhold.sealing.intake.request import Planning, Rows
from everhold_competitions.competition import LEADER, NOTHING, SCORE, Competition, Feedback, PublicTerms

if TYPE_CHECKING:
    import altair as alt
    from numpy.typing import NDArray

    from everhold.answers import Answer
    from everhold.dependence import RowStructure
    from everhold.mechanisms import Mechanism
    from everhold_competitions.ladder import Ladder
    from everhold_competitions.leaderboard import Comparison, RankingRow

_SHARES = (0.1, 0.2, 0.3)
_RISES = 3  # of a team's public score, on average
_WORTH = 0.9  # part of the pairs that public rows may leave, to be recommended
_AT = 0.9
_FILES = 12  # made-up ones, at most
_WORSE = 0.35, 0.002  # by which part the last and the second file are worse than the first
_NEAREST = 4  # the part of the pairs that the least gap is read from: one of so many
_SIGNAL = 0.8  # of the best file, in standard deviations of its errors


@dataclass(frozen=True, slots=True)
class _Rows:
    """Numbers of planned rows, before any row exists."""

    rows: int
    training_rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CompetitionPlan(Display):
    """Widths of a planned competition for each feedback, returned by `plan_competition`.

    Attributes:
        rows: Number of sealed rows.
        teams: Number of teams. Their true scores are spaced evenly.
        submissions: Number of submissions of each team.
        spacing: Distance between the true scores of two neighbours in the ranking.
        disagreement: Least share of the rows on which the files of two teams differ.
        confidence: Probability that all intervals hold at once.
        asked: Position in `lines` of the line for the feedback that the caller requested.
        metric: Metric by which files are ranked.
        made_up: Whether widths were read from boards of competitions with made-up files. False for shares of rows,
            whose widths are computed from the number of rows.
        lines: One dictionary for each feedback: feedback, public_rows, final_rows, the half-widths public_within,
            public_later and final_within around .9 or of the best made-up file, the least gap between two teams that
            the board tells apart, and the number of pairs that it tells apart.
    """

    rows_in: ClassVar[str] = "lines"

    rows: int
    teams: int
    submissions: int
    spacing: float
    disagreement: float
    confidence: float
    asked: int
    lines: Sequence[dict[str, Any]]
    metric: str = "accuracy"
    made_up: bool = False

    @property
    def recommended(self) -> dict[str, Any]:
        """The public rows that leave nearly all pairs and have the narrowest scores; no feedback if none do."""
        silent, *others = self.lines
        enough = [each for each in others if each["public_rows"] and each["pairs"] >= _WORTH * silent["pairs"]]
        return min(enough, key=lambda each: each["public_within"], default=silent)

    def chart(self, *_: str) -> alt.Chart:
        """Draw the half-widths of final scores by feedback. Needs the extra ``[plots]``."""
        import altair as alt

        from everhold.charts import styled

        points = [{"feedback": _called(each), "half-width": each["final_within"]} for each in self.lines]
        drawn = alt.Chart(alt.InlineData(values=points)).mark_point().encode(x="half-width:Q", y="feedback:N")
        return styled(drawn)  # type: ignore[no-any-return]

    def explain(self) -> str:
        """Return a text on the meaning of the numbers, and on the recommended feedback."""
        asked, best, pairs = self.lines[self.asked], self.recommended, self.teams * (self.teams - 1) // 2
        least = asked["least_gap"]
        told = "no two teams are told apart" if least is None else f"teams {at_most(least)} apart are told apart"
        why = "it tells most teams apart and nothing before the end" if best is self.lines[0] else (
            f"every file gets a public score within {at_most(best['public_within'])}, and {best['pairs']:,} of the "
            f"{self.lines[0]['pairs']:,} pairs that --feedback none tells apart are still told apart"
        )  # fmt: skip
        score = f"the {self.metric} of the best of the made-up files" if self.made_up else f"a final score near {_AT:g}"
        files, later = f"files differ on {100 * self.disagreement:g} % of the rows or more", (
            f", and public_later after {_RISES} rises of each team"
        )  # fmt: skip
        if self.made_up:
            files, later = f"errors of two files have the correlation {1.0 - self.disagreement:g}", ""
        else:
            files += (
                ". Where scores of the final rows are told, this is after the teams caused all surprises that are "
                "planned"
            )
        return (
            f"With {_called(asked)} {score} is within {at_most(asked['final_within'])}, and {told} more often than "
            f"not: {asked['pairs']:,} of {pairs:,} pairs, if true scores are {self.spacing:g} apart and "
            f"{files}.\nRecommended: {_called(best)}. {why[0].upper()}{why[1:]}.\npublic_within is for the first "
            f"public score{later}. All widths hold at once, with probability {100 * self.confidence:g} %."
        )


def plan_competition(
    *, rows: int, teams: int, submissions: int = 20, metric: str | Mapping[str, Any] = "accuracy",
    feedback: Feedback = NOTHING, public: float | None = None, spacing: float | None = None, disagreement: float = 0.1,
    confidence: float = 0.95, surprises: int | None = None, spread: float | None = None, positives: float = 0.5,
) -> CompetitionPlan:  # fmt: skip
    """Plan a competition for each kind of feedback, with the mechanisms that its creation would use.

    Widths of accuracy and error follow from the rows. By another metric, competitions with made-up files are held, and
    the widths are those of their boards; then scores of the final rows, and leaders, are not planned.

    Args:
        rows: Sealed rows, public ones included.
        teams: Number of teams.
        submissions: Number of submissions of each team.
        metric: Metric of `everhold.Competition`. A metric of numbers needs its range.
        feedback: Feedback that the caller requests.
        public: Share of public rows that the caller requests.
        spacing: Distance of the true scores of neighbours, by default 0.5 % of the metric's scale.
        disagreement: Share of the rows on which files differ at least; with made-up files 1 less the correlation of
            the errors of two files.
        confidence: Probability that all intervals hold at once.
        surprises: Planned number of surprises, as in `everhold.Holdout.create`.
        spread: Standard deviation of the errors of the best file, in units of the label. Used for a metric of numbers
            only.
        positives: Share of the labels that are 1. Used for a metric of classes or scores only.

    Raises:
        ValueError: If a number cannot be used or is missing.
        HoldoutRejected: If the public part that is asked for leaves too few rows.

    Examples:
        >>> plan = plan_competition(rows=5_000, teams=30, submissions=100, feedback="score", public=0.3)
        >>> [(line["feedback"], line["final_rows"], line["pairs"]) for line in plan.to_rows()[::5]]
        [('none', 5000, 351), ('score', 3500, 325)]
    """
    terms = Competition(feedback=NOTHING, metric=metric, teams=teams, submissions=submissions)
    low, high = terms.ends
    made_up, scale = metric not in ("accuracy", "error"), abs(high - low)
    spacing = 0.005 * scale if spacing is None else spacing
    limits = {"spacing": (spacing, scale), "disagreement": (disagreement, 1.0)}
    if terms.outputs == "numbers":
        if spread is None:
            raise ValueError("spread is missing. Pass the standard deviation of the best file's errors.")
        limits["spread"] = (spread, scale)
    for name, (value, most) in limits.items():
        if not 0.0 < as_float(value) <= most:
            raise ValueError(f"{name} is {brief(value)}. Pass a number above 0 and at most {most:g}.")
    if not 0.0 < as_float(positives) < 1.0:
        raise ValueError(f"positives is {brief(positives)}. Pass a share of the labels above 0 and below 1.")
    shares = sorted({*_SHARES, *([] if public is None else [public])})
    wanted = (feedback, public)
    told_of_finals: list[tuple[Feedback, float | None]] = [] if made_up else [(LEADER, None), (SCORE, None)]
    kinds = [(NOTHING, None), *told_of_finals, *((SCORE, share) for share in shares)]
    if wanted not in kinds:  # it cannot be: Competition says why
        Competition(feedback=feedback, public=public)
        raise ValueError(
            f"feedback is {feedback!r}, which is not planned for {terms.in_words}. Pass 'none', or public= with a "
            "share of public rows."
        )
    lines = []
    for told, share in kinds:
        each, strict = replace(terms, feedback=told, public=share), (told, share) == wanted
        if made_up:
            files = {"spread": spread or 0.0, "positives": positives, "disagreement": disagreement}
            lines.append(_tried(each, rows, spacing, confidence, strict=strict, **files))
        else:
            lines.append(_line(each, rows, spacing, disagreement, confidence, surprises, strict=strict))
    found = [each for each in lines if each is not None]
    asked = next(at for at, each in enumerate(found) if (each["feedback"], each["public"]) == wanted)
    return CompetitionPlan(
        rows=rows, teams=teams, submissions=submissions, spacing=spacing, disagreement=disagreement,
        confidence=confidence, asked=asked, lines=found, metric=terms.on_boards(None)["name"], made_up=made_up,
    )  # fmt: skip


def _line(
    terms: Competition, rows: int, spacing: float, disagreement: float, confidence: float, surprises: int | None, *,
    strict: bool,
) -> dict[str, Any] | None:  # fmt: skip
    """Return the widths of one competition plan.

    If its rows are too few, return None, or raise an error if ``strict``.
    """
    final_rows = round((1.0 - (terms.public or 0.0)) * rows)
    try:
        final = terms.adjust(_tuned(*terms.plan(None, 0), final_rows, confidence, surprises))
    except HoldoutRejected:
        if strict:
            raise
        return None
    nats = terms.final_nats(final)
    least = step_at(rows=final_rows, disagreement=disagreement, nats=nats, public=True)
    pairs = _pairs(terms.teams, lambda at: _is_apart(at * spacing, final_rows, disagreement, nats))
    public_rows, within, later = rows - final_rows, None, None
    if terms.public is not None:
        public = PublicTerms(terms, "")
        ladder = cast("Ladder", public.adjust(_tuned(*public.plan(None, 0), public_rows, confidence, None)))
        rises = min(_RISES * terms.teams, ladder.queries - 1)
        labels = rises * math.log(ladder.grid + 1)
        within = ladder.expected_radius_at(_AT, float(ladder.log_inverse_level(1, 0)))
        later = ladder.expected_radius_at(_AT, float(ladder.log_inverse_level(ladder.queries, rises, labels)))
    return {
        "feedback": terms.feedback, "public": terms.public, "public_rows": public_rows, "final_rows": final_rows,
        "public_within": within, "public_later": later, "final_within": terms.final_radius(final, _AT),
        "least_gap": least, "pairs": pairs,
    }  # fmt: skip


def _pairs(teams: int, is_apart: Callable[[int], bool]) -> int:
    """Return how many pairs of evenly spaced teams are told apart, given whether teams at each distance are."""
    first = next((at for at in range(1, teams) if is_apart(at)), teams)
    return (teams - first) * (teams - first + 1) // 2


def made_up_files(
    terms: Competition, rows: int, *, spread: float, positives: float, disagreement: float
) -> tuple[NDArray[Any], list[NDArray[Any]]]:
    """Return made-up labels, shape (rows,), and as many predictions in each file, the best one first.

    Each call returns the same numbers. Classes and scores are predictions of labels 0 and 1.

    Args:
        terms: Terms of the competition, which say what a file contains.
        rows: Number of rows.
        spread: Standard deviation of the best file's errors of numbers.
        positives: Share of the labels that are 1.
        disagreement: 1 less the correlation of the errors of two files.
    """
    rng, own, (low, high) = np.random.default_rng(0), disagreement, terms.labels
    worse = [0.0, *np.geomspace(*_WORSE, min(terms.teams, _FILES) - 1)[::-1].tolist()]
    shared, noise = rng.normal(size=rows), [rng.normal(size=rows) for _ in worse]
    errors = [math.sqrt(1.0 - own) * shared + math.sqrt(own) * each for each in noise]
    if terms.outputs == "numbers":
        middle, sd = (low + high) / 2.0, (high - low) / 6.0
        labels = rng.normal(middle, sd, rows).clip(low, high)
        return labels, [
            (labels + spread * (1.0 + less) * each).clip(low, high) for less, each in zip(worse, errors, strict=True)
        ]
    labels = (rng.random(rows) < positives).astype(np.int64)
    sides = 2.0 * labels - 1.0
    scores = [sides * (1.0 - less) * _SIGNAL + each for less, each in zip(worse, errors, strict=True)]
    if terms.outputs == "scores":
        return labels, scores
    if terms.outputs == "classes":
        return labels, [(score > 0.0).astype(np.int64) for score in scores]
    return labels, [1.0 / (1.0 + np.exp(-2.0 * _SIGNAL * score)) for score in scores]


def _tried(
    terms: Competition, rows: int, spacing: float, confidence: float, *, strict: bool, **files: float
) -> dict[str, Any] | None:
    """Return the widths of one competition plan, read from the boards of a competition with made-up files.

    If its rows are too few, return None, or raise an error if ``strict``.
    """
    labels, predictions = made_up_files(terms, rows, **files)
    with TemporaryDirectory() as folder, warnings_collected():
        try:
            holdout = Holdout.create(
                f"sqlite:///{folder}/plan.db", "plan", holdout={"y": labels}, label="y", confidence=confidence,
                rows=Rows(features="public"), planning=Planning(allow_vacuous=True), competition=terms, seed=0,
            )  # fmt: skip
        except HoldoutRejected:
            if strict:
                raise
            return None
        with holdout:
            told = [holdout.competition.submit(file, team=f"team {team}") for team, file in enumerate(predictions)]
            holdout.unseal()
            board, final_rows = holdout.competition.leaderboard(), holdout.schema.rows
    # Two files are told apart if their difference is above the half-width of its interval. The half-widths of the pairs
    # nearest to that border say where it is.
    pairs = [(_half(pair), abs(pair.difference)) for pair in board.comparisons]
    nearest = sorted(pairs, key=lambda pair: abs(pair[0] - pair[1]))[: max(1, len(pairs) // _NEAREST)]
    least = median(half for half, _ in nearest)
    best, first = board["team 0"], told[0].answer
    return {
        "feedback": terms.feedback, "public": terms.public, "public_rows": rows - final_rows, "final_rows": final_rows,
        "public_within": None if first is None else _half(first), "public_later": None, "final_within": _half(best),
        "least_gap": least, "pairs": _pairs(terms.teams, lambda at: at * spacing >= least),
    }  # fmt: skip


def _half(told: Answer | RankingRow | Comparison) -> float:
    assert told.low is not None
    assert told.high is not None
    return (told.high - told.low) / 2.0


def _tuned(name: str, queries: int, rows: int, confidence: float, surprises: int | None) -> Mechanism:
    """Return the mechanism that a holdout of this many independent rows would have."""
    study = StudyRequest(mechanism=name, queries=queries, surprises=surprises, confidence=confidence, dependence=None)
    return study.tuned(cast("RowStructure", _Rows(rows)), None)


def _is_apart(gap: float, rows: int, disagreement: float, nats: float) -> bool:
    """Return whether two teams with this gap in score are distinguished in more than half of all samples."""
    if gap >= 1.0:
        return True
    least = step_at(rows=rows, disagreement=max(disagreement, gap), nats=nats, public=True)
    return least is not None and least <= gap


def _called(line: dict[str, Any]) -> str:
    """Return a feedback and its share of public rows as options of the command line."""
    return f"--feedback {line['feedback']}" + ("" if line["public"] is None else f" --public {line['public']:g}")
