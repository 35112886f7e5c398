"""Plans a competition before there are rows: widths of its scores, and pairs of teams that its board tells apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from everhold.arguments import as_float, brief
from everhold.asking.creation import StudyRequest
from everhold.display import Display, at_most
from everhold.errors import HoldoutRejected
from everhold.guarantees.intervals.means import ClopperPearson
from everhold.planning.widths import step_at
from everhold_competitions.competition import LEADER, NOTHING, SCORE, Competition, PublicTerms

if TYPE_CHECKING:
    import altair as alt

    from everhold.dependence import RowStructure
    from everhold.mechanisms import Mechanism
    from everhold_competitions.ladder import Ladder

_SHARES = (0.1, 0.2, 0.3)
_RISES = 3  # of a team's public score, on average
_WORTH = 0.9  # part of the pairs that public rows may leave, to be recommended
_AT = 0.9


@dataclass(frozen=True, slots=True)
class _Rows:
    """Numbers of planned rows, before any row exists."""

    rows: int
    training_rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CompetitionPlan(Display):
    """Widths of a planned competition for each feedback, returned by `plan_competition`.

    Attributes:
        rows: Sealed rows.
        teams: Teams, whose true scores are spaced evenly.
        submissions: Submissions of each.
        spacing: Distance of the true scores of two neighbours.
        disagreement: Share of the rows on which the files of two teams differ, at least.
        confidence: Probability that all intervals hold at once.
        asked: Number of the line that was asked for.
        lines: One dictionary for each feedback: feedback, public_rows, final_rows, the half-widths public_within and
            public_later around .9, final_within, the least gap that is told apart, and the pairs that are.
    """

    rows: int
    teams: int
    submissions: int
    spacing: float
    disagreement: float
    confidence: float
    asked: int
    lines: Sequence[dict[str, Any]]

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one dictionary for each feedback."""
        return [dict(line) for line in self.lines]

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
        return (
            f"With {_called(asked)} a final score near {_AT:g} is within {at_most(asked['final_within'])}, and {told} "
            f"more often than not: {asked['pairs']:,} of {pairs:,} pairs, if true scores are {self.spacing:g} apart "
            f"and files differ on {100 * self.disagreement:g} % of the rows or more. Where scores of the final rows "
            "are told, this is after the teams caused all surprises that are planned.\n"
            f"Recommended: {_called(best)}. {why[0].upper()}{why[1:]}.\n"
            f"public_within is for the first public score, and public_later after {_RISES} rises of each team. All "
            f"widths hold at once, with probability {100 * self.confidence:g} %."
        )


def plan_competition(
    *, rows: int, teams: int, submissions: int, metric: str = "accuracy", feedback: str = NOTHING,
    public: float | None = None, spacing: float = 0.005, disagreement: float = 0.1, confidence: float = 0.95,
    surprises: int | None = None,
) -> CompetitionPlan:  # fmt: skip
    """Plan a competition for each kind of feedback, with the mechanisms that its creation would use.

    Args:
        rows: Sealed rows, public ones included.
        teams: As for `everhold.Competition`; so are submissions, metric, feedback and public.
        submissions: Of each team.
        metric: ``"accuracy"`` or ``"error"``, whose widths are known before there are labels.
        feedback: What is asked for.
        public: Share of public rows that is asked for.
        spacing: Distance of the true scores of neighbours.
        disagreement: Share of the rows on which files differ at least.
        confidence: Probability that all intervals hold at once.
        surprises: As for `everhold.Holdout.create`.

    Raises:
        ValueError: If a number cannot be used, or widths of the metric are not known beforehand.
        HoldoutRejected: If the public part that is asked for leaves too few rows.

    Examples:
        >>> plan = plan_competition(rows=5_000, teams=30, submissions=100, feedback="score", public=0.3)
        >>> [(line["feedback"], line["final_rows"], line["pairs"]) for line in plan.to_rows()[::5]]
        [('none', 5000, 351), ('score', 3500, 325)]
    """
    if metric not in ("accuracy", "error"):
        raise ValueError(
            f"metric is {brief(metric)}. Widths are known beforehand for 'accuracy' and 'error'. Plan with one of "
            "these, or create the competition to see the widths."
        )
    for name, value in (("spacing", spacing), ("disagreement", disagreement)):
        if not 0.0 < as_float(value) <= 1.0:
            raise ValueError(f"{name} is {brief(value)}. Pass a number above 0 and at most 1.")
    shares = sorted({*_SHARES, *([] if public is None else [public])})
    wanted = (feedback, public)
    kinds = [(NOTHING, None), (LEADER, None), (SCORE, None), *((SCORE, share) for share in shares)]
    if wanted not in kinds:  # it cannot be: Competition says why
        Competition(feedback=feedback, public=public)
    lines = []
    for told, share in kinds:
        terms = Competition(feedback=told, metric=metric, teams=teams, submissions=submissions, public=share)
        lines.append(_line(terms, rows, spacing, disagreement, confidence, surprises, strict=(told, share) == wanted))
    found = [each for each in lines if each is not None]
    asked = next(at for at, each in enumerate(found) if (each["feedback"], each["public"]) == wanted)
    return CompetitionPlan(
        rows=rows, teams=teams, submissions=submissions, spacing=spacing, disagreement=disagreement,
        confidence=confidence, asked=asked, lines=found,
    )  # fmt: skip


def _line(
    terms: Competition, rows: int, spacing: float, disagreement: float, confidence: float, surprises: int | None, *,
    strict: bool,
) -> dict[str, Any] | None:  # fmt: skip
    """Return the widths of one competition plan. If its rows are too few, return None, or raise if ``strict``."""
    final_rows = round((1.0 - (terms.public or 0.0)) * rows)
    try:
        final = terms.adjust(_tuned(*terms.plan(None, 0), final_rows, confidence, surprises))
    except HoldoutRejected:
        if strict:
            raise
        return None
    nats = terms.final_nats(final)
    least = step_at(rows=final_rows, disagreement=disagreement, nats=nats, public=True)
    first = next((at for at in range(1, terms.teams) if _is_apart(at * spacing, final_rows, disagreement, nats)), None)
    pairs = 0 if first is None else (terms.teams - first) * (terms.teams - first + 1) // 2
    public_rows, within, later = rows - final_rows, None, None
    if terms.public is not None:
        public = PublicTerms(terms, "")
        ladder = cast("Ladder", public.adjust(_tuned(*public.plan(None, 0), public_rows, confidence, None)))
        rises = min(_RISES * terms.teams, ladder.queries - 1)
        labels = rises * math.log(ladder.grid + 1)
        within = _told_within(ladder, float(ladder.log_inverse_level(1, 0)))
        later = _told_within(ladder, float(ladder.log_inverse_level(ladder.queries, rises, labels)))
    return {
        "feedback": terms.feedback, "public": terms.public, "public_rows": public_rows, "final_rows": final_rows,
        "public_within": within, "public_later": later, "final_within": terms.final_radius(final, _AT),
        "least_gap": least, "pairs": pairs,
    }  # fmt: skip


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


def _told_within(ladder: Ladder, nats: float) -> float:
    """Return the half-width of a public score, including half a step for its rounding."""
    low, high = ClopperPearson(rows=ladder.rows, training=ladder.rows).expected(_AT, nats)
    return (high - low) / 2.0 + 0.5 / ladder.grid + ladder.rounding


def _called(line: dict[str, Any]) -> str:
    """Return a feedback with its public rows, as options of a command."""
    return f"--feedback {line['feedback']}" + ("" if line["public"] is None else f" --public {line['public']:g}")
