"""The leaderboard as one page that needs nothing else: places, scores and intervals, drawn to one scale."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING

from everhold.display import at_least, at_most, printable_lines, rounded
from everhold_competitions.leaderboard import interval_in_words

if TYPE_CHECKING:
    from everhold_competitions.leaderboard import Leaderboard, RankingRow

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
    """The whole page; the same leaderboard always gives the same text."""
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


def _rules(board: Leaderboard) -> str:
    """Deadline and rules, where there are some."""
    deadline = "" if board.deadline is None else f"<p>Deadline: {html.escape(board.deadline)}</p>\n"
    lines = "" if board.rules is None else html.escape(printable_lines(board.rules))
    rules = f'<h2>Rules</h2>\n<p class="rules">{lines}</p>\n' if lines else ""
    return deadline + rules


def board_table(board: Leaderboard) -> str:
    """The table alone, for pages that have a style for it."""
    scale = _Scale.of(board)
    rows = "\n".join(
        _row(row, scale, first=place == 0 or board.standings[place - 1].rank != row.rank)
        for place, row in enumerate(board.standings)
    )
    return f"<table>\n<thead><tr>{_head(board, scale)}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>"


class _Scale:
    """From scores to places in a row's picture."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    @classmethod
    def of(cls, board: Leaderboard) -> _Scale | None:
        """One for all rows; None where there is nothing to draw."""
        ends = [
            end for each in board.standings for end in (each.low, each.high) if end is not None and math.isfinite(end)
        ]
        return cls(min(ends), max(ends)) if ends else None

    def at(self, value: float) -> str:
        """The place of a score; of one beyond all ends, the nearer end."""
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
    """The interval as a line and the score as a dot."""
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
