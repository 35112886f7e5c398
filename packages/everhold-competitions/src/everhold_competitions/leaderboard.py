"""A leaderboard: who is proved to be better than whom, and so who stands where.

A team's rank is one more than the number of teams that are proved to be better. Teams that nobody can tell apart share
a place: a tie is no accident of rounding, but all that these rows can say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from everhold.answers import estimand_in_words
from everhold.display import Display, at_least, at_most, printable_lines

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

COLUMNS = ("rank", "team", "score", "low", "high", "submissions")
"""Columns of a leaderboard for people."""

_STABLE = ("team", "score", "low", "high", "rank")


@dataclass(frozen=True, slots=True)
class RankingRow:
    """One team's line.

    Attributes:
        score: Of its final submission on the sealed rows, in the metric's units. Before the end the released value,
            and None where none was told: of a confirmed guess only the interval is.
        low: Lower end of the interval that holds for the promised value.
        high: Upper end.
        rank: One more than the number of teams that are proved to be better; None where nothing is known.
    """

    team: str
    score: float | None
    low: float | None
    high: float | None
    rank: int | None
    submissions: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two teams' final submissions, row by row.

    Attributes:
        first: A team.
        second: Another one.
        difference: The first one's score minus the second one's.
        low: Lower end of the interval of the difference.
        high: Upper end.
        better: The team that is proved to be better; None for a tie.
    """

    first: str
    second: str
    difference: float
    low: float
    high: float
    better: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaderboard(Display):
    """Places of the teams of a competition; made by `holdout.competition.leaderboard()`.

    Attributes:
        higher_is_better: Whether a larger score is a better one.
        feedback: What submissions are told before the end.
        final: Whether the study is unsealed, so that nothing changes any more.
        comparisons: Pairs of teams, once it is final.
        confidence: Probability with which all intervals and all ranks hold together.
        statement: The statement that they rest on.
        about: What scores are about, where that is not the population.
        deadline: Time after which no submission is received, if there is one.
        rules: What teams are told of the competition.
    """

    holdout: str
    metric: str
    higher_is_better: bool
    feedback: str
    final: bool
    standings: Sequence[RankingRow]
    comparisons: Sequence[Comparison] = field(default=(), repr=False)
    confidence: float
    statement: str
    about: str | None = None
    deadline: str | None = None
    rules: str | None = None

    def __len__(self) -> int:
        return len(self.standings)

    def __getitem__(self, team: str) -> RankingRow:
        return next(row for row in self.standings if row.team == team)

    def __str__(self) -> str:
        return "\n".join(filter(None, (Display.__str__(self), self.explain(), self.terms())))

    def to_dict(self) -> dict[str, Any]:
        """``{"rows": [{"team", "score", "low", "high", "rank"}], "metric", "final", "confidence", ...}``."""
        rest = ("holdout", "metric", "higher_is_better", "feedback", "final", "confidence", "statement", "about")
        rows = [{name: getattr(row, name) for name in _STABLE} for row in self.standings]
        told = {name: text for name in ("deadline", "rules") if (text := getattr(self, name)) is not None}
        return {"rows": rows, **{name: getattr(self, name) for name in rest}, **told}

    def to_rows(self) -> list[dict[str, Any]]:
        """One row for each team: rank, team, score, low, high, submissions."""
        return [{name: getattr(row, name) for name in COLUMNS} for row in self.standings]

    def to_html(self) -> str:
        """One page that needs nothing else."""
        from everhold_competitions.leaderboard_page import render_page

        return render_page(self)

    def save(self, path: Path | str) -> None:
        """Write the page to a file.

        Raises:
            ValueError: If its name does not end in .html.
        """
        from pathlib import Path

        path = Path(path)
        if path.suffix.lower() != ".html":
            raise ValueError(f"{path.name!r} ends in {path.suffix!r}; expected a file that ends in .html")
        path.write_text(self.to_html(), encoding="utf-8")

    def explain(self) -> str:
        """In words: what places and intervals mean, and what they do not."""
        if not self.standings:
            return "No team has submitted yet."
        sure = f"With probability {100.0 * self.confidence:.8g}% (statement {self.statement})"
        if self.final:
            return (
                f"Final. {sure} every score's interval and every place holds, all of them at once: a place is one "
                "more than the number of teams that are proved to be better. Teams that share a place are tied: "
                "these rows cannot tell who is better. Not everyone on a place above is proved to be better "
                f"than everyone below; the comparisons say who is. {self._about}"
            )
        if self.feedback == "score":
            return (
                f"Not final. {sure} every interval holds; a team stands behind those whose interval lies beyond its "
                "own. Where the sealed rows confirmed a team's guess, the board shows the interval and no score, "
                "because the guess is the team's own word. At the end final submissions are compared, row by row where "
                f"the score allows it. That tells more of them apart. {self._about}"
            )
        if self.feedback == "leader":
            return (
                f"Not final. {sure} everyone who took the lead is better than the leaders before, however many "
                "failed in between. Nothing is told of the others: they may be as good as the leader, which is a tie, "
                "or better by less than these rows can prove. Teams whose final submission is the leader's share "
                f"its place. The end ranks all of them. {self._about}"
            )
        return "Not final. Nothing is told of any submission before the study is unsealed."

    @property
    def _about(self) -> str:
        return estimand_in_words(self.about)

    def terms(self) -> str:
        """Deadline and rules, where there are some; the rules keep their lines."""
        deadline = "" if self.deadline is None else f"Deadline: {self.deadline}"
        rules = "" if self.rules is None else f"Rules:\n{printable_lines(self.rules)}"
        return "\n".join(filter(None, (deadline, rules)))

    def summary(self) -> str:
        """Precision of the leaderboard, in one sentence; empty before the end."""
        if not self.final or not self.comparisons:
            return ""
        proved = sum(each.better is not None for each in self.comparisons)
        wide = max((s.high - s.low) / 2.0 for s in self.standings if s.low is not None and s.high is not None)
        places = len(Counter(row.rank for row in self.standings))
        return (
            f"{len(self.standings):,} teams on {places:,} places; {proved:,} of {len(self.comparisons):,} pairs are "
            f"told apart; every score is within {at_most(wide)} or less."
        )


def ranked(standings: Iterable[RankingRow], better: Mapping[str, int], *, higher_is_better: bool) -> list[RankingRow]:
    """Standings with their ranks, the best first; without a score, the middle of the interval orders them.

    Args:
        standings: In the order of the first submissions, which decides where nothing else does.
        better: How many teams are proved to be better, by team; a team that is not in it has no rank.
        higher_is_better: Whether a larger score is a better one.

    Examples:
        >>> lines = [RankingRow("a", 0.7, 0.6, 0.8, None, 1), RankingRow("b", 0.9, 0.8, 1.0, None, 1)]
        >>> [(line.team, line.rank) for line in ranked(lines, {"a": 1, "b": 0}, higher_is_better=True)]
        [('b', 1), ('a', 2)]
    """
    sign = -1.0 if higher_is_better else 1.0
    placed = [replace(row, rank=better[row.team] + 1 if row.team in better else None) for row in standings]

    def place(row: RankingRow) -> tuple[float, float]:
        rank, score = row.rank, row.score
        if score is None and row.low is not None and row.high is not None:
            score = (row.low + row.high) / 2.0  # a confirmed guess is no score, and its interval orders
        return float("inf") if rank is None else rank, float("inf") if score is None else sign * score

    return sorted(placed, key=place)


def interval_in_words(row: RankingRow) -> str:
    """A standing's interval with four digits, rounded outwards; a dash where there is none."""
    if row.low is None or row.high is None:
        return "-"
    return f"{at_least(row.low)} to {at_most(row.high)}"
