"""A leaderboard: which teams are proved to be better than others, and the ranks that follow.

A team's rank is one more than the number of teams that are proved to be better. Its place is a range, such as 2-14. The
first number is the rank. The second is its rank if it is worse than every team that is not proved to be worse. A tie is
not an effect of rounding: the rows cannot tell the teams apart.
"""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from statistics import median
from typing import TYPE_CHECKING, Any, TypeVar

from everhold.answers import estimand_in_words
from everhold.arguments import brief
from everhold.certificate.page import Axis
from everhold.certificate.summary import winner_in_words
from everhold.certificate.words import public_in_words
from everhold.display import (
    Display,
    at_least,
    at_most,
    escaped,
    html_document,
    html_table,
    printable_lines,
    rounded,
    style_sheet,
    text_table,
)
from everhold.errors import QueryRejected

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    Ranks = tuple[int, int | None]
    """The best and the worst rank of a team; None for a worst one of which nothing is told."""

COLUMNS = ("rank", "worst_rank", "team", "score", "low", "high", "submissions")
SHOWN_COLUMNS = ("place", "team", "score", "low", "high", "submissions")
"""Columns of a leaderboard for programs, and for people."""

_STABLE = ("team", "score", "low", "high", "rank")


@dataclass(frozen=True, slots=True)
class RankingRow:
    """One line of a leaderboard: a team with its rank, score, interval and number of submissions.

    Attributes:
        score: Score of the team's final submission on the sealed rows, in the metric's units. Before the end it is the
            released value. It is None if no value was released, because a confirmed guess tells only an interval.
        low: Lower end of the interval that holds for the promised value.
        high: Upper end of that interval.
        rank: One more than the number of teams that are proved to be better. None if nothing is known.
        worst_rank: Number of all teams minus the number of teams that are proved to be worse. None if nothing is
            known.
        public_rank: On a final board, the rank by public scores when submissions ended; None without public rows.
    """

    team: str
    score: float | None
    low: float | None
    high: float | None
    rank: int | None
    submissions: int
    worst_rank: int | None = None
    public_rank: int | None = None

    @property
    def place(self) -> str:
        """Range of possible ranks of the team as a text, such as ``2-14``, or a dash."""
        if self.rank is None:
            return "-"
        return f"{self.rank}" if self.worst_rank in (None, self.rank) else f"{self.rank}-{self.worst_rank}"

    @property
    def moved(self) -> str:
        """Proved change of rank from public to final rows as a text, empty if no change is proved."""
        if self.public_rank is None or self.rank is None or self.worst_rank is None:
            return ""
        up, down = self.public_rank - self.worst_rank, self.rank - self.public_rank
        return f"up {up}" if up > 0 else f"down {down}" if down > 0 else ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Interval for the difference between the final submissions of two teams, and which team is proved better.

    Attributes:
        first: Name of the first team.
        second: Name of the second team.
        difference: The first one's score minus the second one's.
        low: Lower end of the interval of the difference.
        high: Upper end of that interval.
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
    """Ranks and scores of all teams of a competition, returned by `holdout.competition.leaderboard()`.

    Attributes:
        higher_is_better: Whether a larger score is a better one.
        feedback: What submissions are told before the end.
        final: Whether the study is unsealed, so that nothing changes any more.
        comparisons: Comparisons of pairs of teams. Empty until the board is final.
        confidence: Probability with which all intervals and all ranks hold together.
        statement: Number of the statement in the theory pages that proves the intervals and ranks.
        about: Words for what scores are about, such as labels drawn anew. None for the population.
        disqualified: Reason of each disqualification, by team. Disqualified teams are not on the board.
        deadline: Time after which no submission is received, if there is one.
        rules: What teams are told of the competition.
        public: Facts about the public rows of the competition: holdout, rows, step and confidence. None without public
            rows.
        shown: How the metric is shown to people: name, unit, range, and whether the sign of numbers is changed.
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
    disqualified: Mapping[str, str] = field(default_factory=dict)
    deadline: str | None = None
    rules: str | None = None
    public: Mapping[str, Any] | None = field(default=None, repr=False)
    shown: Mapping[str, Any] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.standings)

    def __getitem__(self, team: str) -> RankingRow:
        return next(row for row in self.standings if row.team == team)

    def __str__(self) -> str:
        table = text_table(self.lines())
        return "\n".join(filter(None, (table, self.by, self.summary(), self.explain(), self.terms())))

    def _repr_html_(self) -> str:
        return html_table(self.lines())

    def lines(self) -> list[dict[str, Any]]:
        """Return one dictionary for each team for display, with the place as text and losses as positive numbers."""
        return [{name: getattr(row, name) for name in SHOWN_COLUMNS} for row in self.for_people().standings]

    def for_people(self) -> Leaderboard:
        """Return the board with the metric's common name. Losses that the ledger holds inverted are shown as positive.

        For example, `neg_mean_absolute_error` of -12.4 is shown as an MAE of 12.4, which is better if it is lower.
        """
        if self.shown is None or self.shown["name"] == self.metric:
            return self
        named = replace(self, metric=self.shown["name"], shown={**self.shown, "turned": False})
        if not self.shown["turned"]:
            return named
        return replace(
            named, higher_is_better=not self.higher_is_better,
            standings=[_turned(row, "score") for row in self.standings],
            comparisons=[_turned(each, "difference") for each in self.comparisons],
        )  # fmt: skip

    @property
    def by(self) -> str:
        """Sentence that names the metric by which teams are ranked."""
        return f"Ranked by {self.measure}."

    @property
    def measure(self) -> str:
        """Name, range and unit of the metric as a text, with the direction that is better."""
        board, shown = self.for_people(), self.shown or {}
        unit = f", in {shown['unit']}" if shown.get("unit") else ""
        better = "higher" if board.higher_is_better else "lower"
        return f"{board.metric}{shown.get('range', '')}{unit} ({better} is better)"

    def between(self, first: str, second: str) -> Comparison:
        """Return the comparison of two teams of a final board, in this order.

        Raises:
            QueryRejected: If there is no such comparison.
        """
        for each in self.comparisons:
            if (each.first, each.second) == (first, second):
                return each
            if (each.first, each.second) == (second, first):
                return replace(_turned(each, "difference"), first=first, second=second)
        known = {row.team for row in self.standings}
        if strange := [team for team in (first, second) if team not in known]:
            raise QueryRejected(
                f"There is no team {brief(strange[0])} on the board. Choose a team that is on the board."
            )
        if first == second:
            raise QueryRejected(f"{brief(first)} is chosen twice. Choose two different teams.")
        raise QueryRejected(
            "Teams are compared only on the final board, and this board has no comparison of the two. Wait for the "
            "end of the competition."
        )

    def tell_apart(self, first: str, second: str) -> str:
        """Return a sentence on whether one of two teams is proved better, and the interval of their difference.

        Raises:
            QueryRejected: If the board does not compare these teams.
        """
        board = self.for_people()
        each = board.between(first, second)
        unit = f" {self.shown['unit']}" if self.shown and self.shown["unit"] else ""
        if each.low == each.high == 0.0:
            return f"{first!r} and {second!r} handed in the same predictions, so they are equal."
        if each.better is None:
            return (
                f"It is not proved which of {first!r} and {second!r} is better. The {board.metric} of {first!r} less "
                f"that of {second!r} is {rounded(each.difference)}{unit}, and the true difference lies between "
                f"{at_least(each.low)} and {at_most(each.high)}."
            )
        other = second if each.better == first else first
        ahead = board.between(each.better, other)
        gap, more = (ahead, "higher") if board.higher_is_better else (_turned(ahead, "difference"), "lower")
        return (
            f"{each.better!r} is proved to be better than {other!r}: its {board.metric} is "
            f"{rounded(gap.difference)}{unit} {more}, and the true difference lies between {at_least(gap.low)} and "
            f"{at_most(gap.high)}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data: ``{"rows": [{"team", "score", "low", "high", "rank"}], "metric", "final", ...}``."""
        rest = ("holdout", "metric", "higher_is_better", "feedback", "final", "confidence", "statement", "about")
        rows = [{name: getattr(row, name) for name in _STABLE} for row in self.standings]
        told = {name: text for name in ("deadline", "rules", "public") if (text := getattr(self, name)) is not None}
        out = {"disqualified": dict(self.disqualified)} if self.disqualified else {}
        return {"rows": rows, **{name: getattr(self, name) for name in rest}, **out, **told}

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one dictionary for each team: rank, worst_rank, team, score, low, high and submissions."""
        return [{name: getattr(row, name) for name in COLUMNS} for row in self.standings]

    def to_html(self) -> str:
        """Return the complete HTML page, which loads no other file. The same leaderboard always gives the same text."""
        board = self.for_people()
        state = "final leaderboard" if board.final else "leaderboard"
        deadline = "" if board.deadline is None else f"<p>Deadline: {moment_in_words(board.deadline)}</p>\n"
        lines = "" if board.rules is None else html.escape(printable_lines(board.rules))
        rules = f'<h2>Rules</h2>\n<p class="rules">{lines}</p>\n' if lines else ""
        body = (
            f'<main>\n<header>\n<p class="kind">everhold · {state}</p>\n<h1>{escaped(board.holdout)}</h1>\n</header>\n'
            f"<p>{escaped(board.summary() or board.by)}</p>\n"
            f'<div class="board">{board_table(board)}</div>\n'
            f'<p class="soft">{escaped(board.explain())}</p>\n{(deadline + rules)}</main>'
        )
        style = style_sheet("everhold_competitions", "page.css") + board_style()
        return html_document(f"{board.holdout}: {state}", style, body)

    def save(self, path: Path | str) -> None:
        """Write the HTML page to a file whose name ends in ``.html``.

        Raises:
            ValueError: If its name does not end in .html.
        """
        from pathlib import Path

        path = Path(path)
        if path.suffix.lower() != ".html":
            raise ValueError(f"{path.name!r} ends in {path.suffix!r}. Pass a name that ends in .html.")
        path.write_text(self.to_html(), encoding="utf-8")

    def explain(self) -> str:
        """Return a text on what ranks and intervals prove, and what they do not prove."""
        if not self.standings:
            return "No team has submitted yet."
        sure = f"With probability {100.0 * self.confidence:.8g} % (statement {self.statement})"
        if self.final:
            return (
                f"Final. {sure} every score's interval and every place holds, all of them at once: a place is one "
                "more than the number of teams that are proved to be better. A place such as 2-14 is a tie: these "
                "rows prove that the true place is one of these, and cannot tell which. Not everyone on a place "
                f"above is proved to be better than everyone below. The comparisons say who is. {self._about}"
            )
        if self.public is not None:
            return f"Not final. A place on this board proves nothing. {public_in_words(self.public)}"
        if self.feedback == "score":
            return (
                f"Not final. {sure} every interval holds. A team stands behind those whose interval lies beyond its "
                "own. Where the sealed rows confirmed a team's guess, the board shows the interval and no score, "
                "because the guess is the team's own word. At the end final submissions are compared, row by row "
                f"where the score allows it. That tells more of them apart. {self._about}"
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
        """Return deadline and rules as a text, empty if there are none. The line breaks of the rules are kept."""
        deadline = "" if self.deadline is None else f"Deadline: {moment_in_words(self.deadline)}"
        public = public_in_words(self.public) if self.public is not None and self.final else ""
        rules = "" if self.rules is None else f"Rules:\n{printable_lines(self.rules)}"
        return "\n".join(filter(None, (*out_in_words(self), deadline, public, rules)))

    def summary(self) -> str:
        """Return a sentence with the winner and the precision of the final leaderboard, empty before the end."""
        if not self.final or not self.standings:
            return ""
        winner = winner_in_words([{"team": row.team, "rank": row.rank} for row in self.standings])
        if not self.comparisons:
            return winner
        proved = sum(each.better is not None for each in self.comparisons)
        wide = max((s.high - s.low) / 2.0 for s in self.standings if s.low is not None and s.high is not None)
        places = len(Counter(row.rank for row in self.standings))
        return (
            f"{winner} {len(self.standings):,} teams on {places:,} places. {proved:,} of {len(self.comparisons):,} "
            f"pairs are told apart. Every score is within {at_most(wide)} or less."
        )


_Each = TypeVar("_Each", RankingRow, Comparison)


def _turned(each: _Each, value: str) -> _Each:
    """Return a row or comparison with the sign of its number and interval inverted."""
    ends = {value: getattr(each, value), "low": each.high, "high": each.low}
    changed: dict[str, Any] = {name: None if end is None else 0.0 - end for name, end in ends.items()}
    return replace(each, **changed)


def moment_in_words(moment: str) -> str:
    """Return an ISO 8601 time as a date and time for readers.

    Examples:
        >>> moment_in_words("2026-12-01T12:00:00+00:00")
        '1 December 2026, 12:00 UTC'
    """
    at = datetime.fromisoformat(moment)
    return f"{at.day} {at:%B %Y, %H:%M} {at.tzname()}"


def ranked(
    standings: Iterable[RankingRow], ranks: Mapping[str, Ranks], *, higher_is_better: bool
) -> list[RankingRow]:  # fmt: skip
    """Return the lines of a leaderboard with their ranks, the best team first.

    A team without a score is ordered by the middle of its interval.

    Args:
        standings: Lines in the order of the teams' first submissions. This order decides between teams that are
            otherwise equal.
        ranks: Best and worst rank of each team. A team that is missing has no ranks.
        higher_is_better: Whether a larger score is a better one.

    Examples:
        >>> lines = [RankingRow("a", 0.7, 0.6, 0.8, None, 1), RankingRow("b", 0.9, 0.8, 1.0, None, 1)]
        >>> [(line.team, line.place) for line in ranked(lines, {"a": (2, 2), "b": (1, 1)}, higher_is_better=True)]
        [('b', '1'), ('a', '2')]
    """
    sign = -1.0 if higher_is_better else 1.0
    nothing = None, None
    placed = [
        replace(row, rank=rank, worst_rank=worst)
        for row in standings for rank, worst in [ranks.get(row.team, nothing)]
    ]  # fmt: skip

    def place(row: RankingRow) -> tuple[float, float]:
        middle = _middle(row)
        return float("inf") if row.rank is None else row.rank, float("inf") if middle is None else sign * middle

    return sorted(placed, key=place)


def _middle(row: RankingRow) -> float | None:
    """Return a team's score.

    If it has only a confirmed guess, which is not a score, return the middle of its interval.
    """
    if row.score is None and row.low is not None and row.high is not None:
        return (row.low + row.high) / 2.0
    return row.score


def interval_in_words(row: RankingRow) -> str:
    """Return a team's interval as a text with four digits, rounded outwards, or a dash without an interval."""
    if row.low is None or row.high is None:
        return "-"
    return f"{at_least(row.low)} to {at_most(row.high)}"


_FAR = 6.0  # times the typical distance from the median, beyond which a score is drawn at the edge


def board_style() -> str:
    """Return the CSS of `board_table`, for an element of the class ``board`` on a page that defines the colours."""
    return style_sheet("everhold_competitions", "board.css")


def out_in_words(board: Leaderboard) -> list[str]:
    """Return a sentence on each team that is not on the board."""
    return [f"Team {name!r} is disqualified: {reason}" for name, reason in board.disqualified.items()]


def board_table(board: Leaderboard) -> str:
    """Return the HTML tables of a leaderboard without a style sheet.

    While a competition runs, intervals of public scores are wide, so they are folded away.
    """
    board = board.for_people()
    axis = _axis(board.standings)
    better = "higher" if board.higher_is_better else "lower"
    score = f'<th class="number" scope="col">{escaped(board.metric)} <small>({better} is better)</small></th>'
    folded = board.public is not None and not board.final
    first = [
        f'<tr class="{"tie" if number and board.standings[number - 1].place == row.place else "place"}">'
        f'<td class="number">{row.place}</td><td class="team">{escaped(row.team)}</td>'
        f'<td class="number">{"-" if row.score is None else rounded(row.score)}</td>'
        for number, row in enumerate(board.standings)
    ]
    intervals = [
        f'<td class="interval">{interval_in_words(row)}</td><td class="drawn">{_picture(row, axis)}</td>'
        for row in board.standings
    ]
    last = [_last_cells(board, row) for row in board.standings]
    place, team = '<th class="number" scope="col">place</th>', '<th scope="col">team</th>'
    ticks = "".join(f'<text x="{x}" y="15">{label}</text>' for x, label in (() if axis is None else axis.ticks()))
    interval = (
        '<th class="interval" scope="col">interval</th><th class="drawn" scope="col">'
        f'<span class="unseen">interval as a picture</span><svg aria-hidden="true">{ticks}</svg></th>'
    )
    more = ('<th class="more" scope="col">public place</th>' if _compares(board) else "") + (
        '<th class="number more" scope="col">submissions</th>'
    )
    if not folded:
        rows = map("".join, zip(first, intervals, last, strict=True))
        shown = _table(f"{place}{team}{score}{interval}{more}", rows)
    else:
        shown = _table(f"{place}{team}{score}{more}", map("".join, zip(first, last, strict=True)))
        shown += "\n<details><summary>Intervals of the public scores</summary>\n"
        rows = map("".join, zip(first, intervals, strict=True))
        shown += f"{_table(f'{place}{team}{score}{interval}', rows)}</details>"
    return shown + "".join(f"\n<p>{escaped(words)}</p>" for words in out_in_words(board))


def _table(head: str, rows: Iterable[str]) -> str:
    lines = "</tr>\n".join([*rows, ""])
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{lines}</tbody>\n</table>"


def _compares(board: Leaderboard) -> bool:
    """Return whether the board is final and the competition has public rows, so that two rankings can be compared."""
    return board.final and board.public is not None


def _last_cells(board: Leaderboard, row: RankingRow) -> str:
    submissions = f'<td class="number more">{row.submissions:,}</td>'
    if not _compares(board):
        return submissions
    arrow = {"u": "▲ ", "d": "▼ "}.get(row.moved[:1], "")
    public = "-" if row.public_rank is None else f"{row.public_rank}"
    return f'<td class="more">{public} <span class="moved">{arrow}{row.moved}</span></td>{submissions}'


def _axis(standings: Sequence[RankingRow]) -> Axis | None:
    """Return an axis that covers all intervals except those of outlying scores, or None without an interval."""
    known = [(middle, row.low, row.high) for row in standings
             if (middle := _middle(row)) is not None and row.low is not None and row.high is not None
             and math.isfinite(middle)]  # fmt: skip
    if not known:
        return None
    center = median(middle for middle, *_ in known)
    widths = [high - low for _, low, high in known]
    reach = _FAR * max(median(abs(middle - center) for middle, *_ in known), median(widths))
    ends = [end for middle, *ends in known if abs(middle - center) <= reach for end in ends if math.isfinite(end)]
    return Axis.over([min(max(end, center - 2 * reach), center + 2 * reach) for end in ends] or [center], unit="")


def _picture(row: RankingRow, axis: Axis | None) -> str:
    """Return an SVG for one team: its interval and score, or the score as a number if it is outside the axis."""
    middle = _middle(row)
    if axis is None or middle is None or row.low is None or row.high is None:
        return ""
    known = "" if row.score is None else f"{rounded(row.score)}, "
    drawn = f'<line class="span" x1="{axis.place(row.low)}" y1="50%" x2="{axis.place(row.high)}" y2="50%"/>'
    if middle < axis.low:
        drawn = f'<text class="far" x="0" y="15">◂ {rounded(middle)}</text>'
    elif middle > axis.high:
        drawn = f'<text class="far right" x="100%" y="15">{rounded(middle)} ▸</text>'
    elif row.score is not None:
        drawn += f'<circle class="score" cx="{axis.place(row.score)}" cy="50%" r="4.5"/>'
    grid = "".join(f'<line class="grid" x1="{place}" y1="0" x2="{place}" y2="100%"/>' for place, _ in axis.ticks())
    return f'<svg role="img" aria-label="{escaped(f"{row.team}: {known}{interval_in_words(row)}")}">{grid}{drawn}</svg>'
