"""A leaderboard: who is proved to be better than whom, and so who stands where.

A team's rank is one more than the number of teams that are proved to be better. Teams that nobody can tell apart share
a place: a tie is no accident of rounding, but all that these rows can say.
"""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from everhold.answers import estimand_in_words
from everhold.certificate.words import public_in_words
from everhold.display import Display, at_least, at_most, printable_lines, rounded

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

COLUMNS = ("rank", "team", "score", "low", "high", "submissions")
"""Columns of a leaderboard for people."""

_STABLE = ("team", "score", "low", "high", "rank")


@dataclass(frozen=True, slots=True)
class RankingRow:
    """One line of a leaderboard: a team with its rank, score, interval and number of submissions.

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
    """Interval for the difference between the final submissions of two teams, and which team is proved better.

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
    """Ranks and scores of all teams of a competition, returned by `holdout.competition.leaderboard()`.

    Attributes:
        higher_is_better: Whether a larger score is a better one.
        feedback: What submissions are told before the end.
        final: Whether the study is unsealed, so that nothing changes any more.
        comparisons: Pairs of teams, once it is final.
        confidence: Probability with which all intervals and all ranks hold together.
        statement: The statement that they rest on.
        about: What scores are about, where that is not the population.
        disqualified: Why teams are not on the board, by team.
        deadline: Time after which no submission is received, if there is one.
        rules: What teams are told of the competition.
        public: Of a competition with public rows, what is said of them: holdout, rows, step and confidence.
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

    def __len__(self) -> int:
        return len(self.standings)

    def __getitem__(self, team: str) -> RankingRow:
        return next(row for row in self.standings if row.team == team)

    def __str__(self) -> str:
        return "\n".join(filter(None, (Display.__str__(self), self.explain(), self.terms())))

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data: ``{"rows": [{"team", "score", "low", "high", "rank"}], "metric", "final", ...}``."""
        rest = ("holdout", "metric", "higher_is_better", "feedback", "final", "confidence", "statement", "about")
        rows = [{name: getattr(row, name) for name in _STABLE} for row in self.standings]
        told = {name: text for name in ("deadline", "rules", "public") if (text := getattr(self, name)) is not None}
        out = {"disqualified": dict(self.disqualified)} if self.disqualified else {}
        return {"rows": rows, **{name: getattr(self, name) for name in rest}, **out, **told}

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one dictionary for each team: rank, team, score, low, high and submissions."""
        return [{name: getattr(row, name) for name in COLUMNS} for row in self.standings]

    def to_html(self) -> str:
        """Return the leaderboard as a complete HTML page that loads no other file."""
        return render_page(self)

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
        """Return a text that says what ranks and intervals prove, and what they do not."""
        if not self.standings:
            return "No team has submitted yet."
        sure = f"With probability {100.0 * self.confidence:.8g}% (statement {self.statement})"
        if self.final:
            return (
                f"Final. {sure} every score's interval and every place holds, all of them "
                "at once: a place is one more than the number of teams that are proved to "
                "be better. Teams that share a place are tied: these rows cannot tell who "
                "is better. Not everyone on a place above is proved to be better than "
                f"everyone below. The comparisons say who is. {self._about}"
            )
        if self.public is not None:
            return f"Not final. A place on this board proves nothing. {public_in_words(self.public)}"
        if self.feedback == "score":
            return (
                f"Not final. {sure} every interval holds. A team stands behind those whose "
                "interval lies beyond its own. Where the sealed rows confirmed a team's "
                "guess, the board shows the interval and no score, because the guess is "
                "the team's own word. At the end final submissions are compared, row by "
                "row where the score allows it. That tells more of them apart. "
                f"{self._about}"
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
        """Return deadline and rules as a text, empty where there are none. The lines of the rules are kept."""
        deadline = "" if self.deadline is None else f"Deadline: {self.deadline}"
        public = public_in_words(self.public) if self.public is not None and self.final else ""
        rules = "" if self.rules is None else f"Rules:\n{printable_lines(self.rules)}"
        return "\n".join(filter(None, (*out_in_words(self), deadline, public, rules)))

    def summary(self) -> str:
        """Return the precision of the final leaderboard in one sentence, or an empty text before the end."""
        if not self.final or not self.comparisons:
            return ""
        proved = sum(each.better is not None for each in self.comparisons)
        wide = max((s.high - s.low) / 2.0 for s in self.standings if s.low is not None and s.high is not None)
        places = len(Counter(row.rank for row in self.standings))
        return (
            f"{len(self.standings):,} teams on {places:,} places. {proved:,} of "
            f"{len(self.comparisons):,} pairs are told apart. Every score is within "
            f"{at_most(wide)} or less."
        )


def ranked(standings: Iterable[RankingRow], better: Mapping[str, int], *, higher_is_better: bool) -> list[RankingRow]:
    """Return the lines of a leaderboard with their ranks, the best team first.

    A team without a score is ordered by the middle of its interval.

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
    """Return a team's interval with four digits, rounded outwards, or a dash if the team was told nothing."""
    if row.low is None or row.high is None:
        return "-"
    return f"{at_least(row.low)} to {at_most(row.high)}"


_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_WIDTH, _MARGIN, _HEIGHT = 400.0, 8.0, 22.0  # of a row's picture, in its own units
_STYLE = """
:root {
  --ink: #17212b; --soft: #55636f; --line: #d5dce2; --paper: #ffffff; --accent: #0b5d66; --wash: #eef5f5;
  color-scheme: light dark;
}
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6ebef; --soft: #9fb0bd; --line: #34424e; --paper: #141b21; --accent: #6cc5cd; --wash: #1b2a30; }
}
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 58rem; margin: 0 auto; padding: 2rem 1.5rem 3rem; }
header { border-top: 5px solid var(--accent); padding: 1.2rem 0 .6rem; }
.kind {
  margin: 0; color: var(--accent); font-weight: 600; font-size: .8rem; letter-spacing: .12em; text-transform: uppercase;
}
h1 { margin: .2rem 0 .4rem; font-size: 1.6rem; overflow-wrap: anywhere; }
p { margin: 0 0 .7rem; max-width: 48rem; }
.soft { color: var(--soft); font-size: .88rem; }
table { width: 100%; border-collapse: collapse; margin: 1.2rem 0; font-variant-numeric: tabular-nums; }
th { text-align: left; color: var(--soft); font-weight: 600; font-size: .8rem; }
th, td { padding: .22rem .6rem .22rem 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
tr.place td { border-top: 2px solid var(--accent); }
td.team { white-space: normal; overflow-wrap: anywhere; min-width: 7rem; font-weight: 600; }
p.rules { white-space: pre-wrap; overflow-wrap: anywhere; }
td.number, th.number { text-align: right; }
td.picture { width: 45%; padding-right: 0; }
svg { display: block; width: 100%; height: 22px; }
line { vector-effect: non-scaling-stroke; stroke-linecap: round; }
.span { stroke: var(--accent); stroke-width: 3; }
.score { stroke: var(--ink); stroke-width: 9; }
.grid { stroke: var(--line); stroke-width: 1; }
@media (max-width: 40rem) { td.picture, th.picture, td.interval, th.interval { display: none; } }
@media print { body { font-size: 10pt; } main { max-width: none; padding: 0; } tr { break-inside: avoid; } }
"""


def render_page(board: Leaderboard) -> str:
    """Return the complete HTML page of a leaderboard. The same leaderboard always gives the same text."""
    state = "final leaderboard" if board.final else "leaderboard"
    title = html.escape(f"{board.holdout}: {state}")
    summary = f"<p>{html.escape(board.summary())}</p>" if board.summary() else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f'<header>\n<p class="kind">everhold · {state}</p>\n<h1>{html.escape(board.holdout)}</h1>\n</header>\n'
        f"{summary}\n{board_table(board)}\n"
        f'<p class="soft">{html.escape(board.explain())}</p>\n{_rules(board)}</main>\n</body>\n</html>\n'
    )


def out_in_words(board: Leaderboard) -> list[str]:
    """Return a sentence on each team that is not on the board."""
    return [f"Team {name!r} is disqualified: {reason}" for name, reason in board.disqualified.items()]


def _rules(board: Leaderboard) -> str:
    """Return deadline and rules as HTML, empty where there are none."""
    deadline = "" if board.deadline is None else f"<p>Deadline: {html.escape(board.deadline)}</p>\n"
    lines = "" if board.rules is None else html.escape(printable_lines(board.rules))
    rules = f'<h2>Rules</h2>\n<p class="rules">{lines}</p>\n' if lines else ""
    return deadline + rules


def board_table(board: Leaderboard) -> str:
    """Return only the HTML table of a leaderboard, for pages that bring their own style sheet."""
    scale = _Scale.of(board)
    rows = "\n".join(
        _row(row, scale, first=place == 0 or board.standings[place - 1].rank != row.rank)
        for place, row in enumerate(board.standings)
    )
    out = "".join(f"\n<p>{html.escape(words)}</p>" for words in out_in_words(board))
    return f"<table>\n<thead><tr>{_head(board, scale)}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>{out}"


class _Scale:
    """Horizontal scale of the pictures in a leaderboard, from scores to positions in the SVG."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    @classmethod
    def of(cls, board: Leaderboard) -> _Scale | None:
        """Return the scale that fits the intervals of all rows, or None without any interval."""
        ends = [
            end for each in board.standings for end in (each.low, each.high) if end is not None and math.isfinite(end)
        ]
        return cls(min(ends), max(ends)) if ends else None

    def at(self, value: float) -> str:
        """Return the horizontal position of a score, moved to the nearer end if it is off the scale."""
        share = (min(max(value, self.low), self.high) - self.low) / ((self.high - self.low) or 1.0)
        return f"{_MARGIN + share * (_WIDTH - 2.0 * _MARGIN):.1f}"


def _head(board: Leaderboard, scale: _Scale | None) -> str:
    better = "higher is better" if board.higher_is_better else "lower is better"
    drawn = "" if scale is None else f"from {at_least(scale.low)} to {at_most(scale.high)}"
    return (
        '<th class="number" scope="col">place</th><th scope="col">team</th>'
        f'<th class="number" scope="col">{html.escape(board.metric)}<br>({better})</th>'
        f'<th class="interval" scope="col">interval</th><th class="picture" scope="col">{drawn or "picture"}</th>'
        '<th class="number" scope="col">submissions</th>'
    )


def _row(row: RankingRow, scale: _Scale | None, *, first: bool) -> str:
    place = "-" if row.rank is None else str(row.rank)
    score = "-" if row.score is None else rounded(row.score)
    return (
        f'<tr class="{"place" if first else "tie"}"><td class="number">{place if first else ""}</td>'
        f'<td class="team">{html.escape(row.team)}</td><td class="number">{score}</td>'
        f'<td class="interval">{interval_in_words(row)}</td><td class="picture">{_picture(row, scale)}</td>'
        f'<td class="number">{row.submissions:,}</td></tr>'
    )


def _picture(row: RankingRow, scale: _Scale | None) -> str:
    """Return an SVG of one team: a line for the interval and a dot for the score."""
    if scale is None or row.low is None or row.high is None:
        return ""
    middle = _HEIGHT / 2.0
    low, high = map(scale.at, (row.low, row.high))
    known = "" if row.score is None else f"{rounded(row.score)}, "
    said = html.escape(f"{row.team}: {known}{interval_in_words(row)}")
    score = "" if row.score is None else (
        f'<line class="score" x1="{scale.at(row.score)}" y1="{middle}" x2="{scale.at(row.score)}" '
        f'y2="{middle}"/>'
    )  # fmt: skip
    return (
        f'<svg viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" preserveAspectRatio="none" role="img" aria-label="{said}">'
        f'<line class="grid" x1="0" y1="{middle}" x2="{_WIDTH:g}" y2="{middle}"/>'
        f'<line class="span" x1="{low}" y1="{middle}" x2="{high}" y2="{middle}"/>{score}</svg>'
    )
