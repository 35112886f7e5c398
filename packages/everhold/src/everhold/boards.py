"""Boards of open results: models by items, with the order that the items prove of the models.

Nothing is sealed here, and nothing is asked. The items are assumed to be independent draws from a population, chosen
before anybody looked at the results. All that is proved is about that population, and holds at once.
"""

from __future__ import annotations

import html
import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from everhold.arguments import as_float, brief
from everhold.display import Listing, at_least, at_most, html_document, html_table
from everhold.errors import HoldoutRejected
from everhold.guarantees.intervals.betting import NO_STAKE, side_of
from everhold.guarantees.intervals.joint import ratio_bets, upper_end
from everhold.guarantees.intervals.means import ClopperPearson
from everhold.guarantees.intervals.parts import units_of
from everhold.sealing.intake.duckdb_files import column_kinds, spilling_into
from everhold.sealing.intake.reading import RowSource, read_rows
from everhold.values.expressions.tree import ColumnKind, quoted

if TYPE_CHECKING:
    from numpy.typing import NDArray


_MOST_MODELS = 200
_LONGEST_NAME = 70  # in the picture; so many characters have room in it
_STYLE = """body { margin: 1rem; font: 15px/1.5 system-ui, sans-serif; color: #17212b; overflow-wrap: anywhere; }
main { max-width: 48rem; margin: 0 auto; }
svg { max-width: 100%; height: auto; }
.scroll { overflow-x: auto; overflow-wrap: normal; }
"""


@dataclass(frozen=True, slots=True)
class BoardRow:
    """One model of a board.

    Attributes:
        score: Mean score over the items.
        low: Lower end of the interval of the mean in the population of items.
        high: Upper end of that interval.
        tier: One more than the longest chain of models each of which is proved better than the next.
        best_rank: Smallest rank that the model can have.
        worst_rank: Largest rank that the model can have.
        beats: Models that this model is proved to beat.
    """

    model: str
    score: float
    low: float
    high: float
    tier: int
    best_rank: int
    worst_rank: int
    beats: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OpenBoard(Listing):
    """The order of models that open results prove, made by `board`.

    Attributes:
        rows: The models, the best score first.
        items: Number of items.
        confidence: Probability with which all intervals, tiers and ranks hold at once.
        higher_is_better: Whether a larger score is a better one.
    """

    rows: Sequence[BoardRow]
    items: int
    confidence: float
    higher_is_better: bool

    @property
    def first(self) -> str | None:
        """The model that is proved better than every other model, or None if there is no such model."""
        return next((row.model for row in self.rows if row.worst_rank == 1), None)

    @property
    def may_be_first(self) -> tuple[str, ...]:
        """The models that no model is proved better than."""
        return tuple(row.model for row in self.rows if row.best_rank == 1)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one dictionary for each model."""
        columns = ("tier", "model", "score", "low", "high", "best_rank", "worst_rank")
        return [{name: getattr(row, name) for name in columns} for row in self.rows]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data: ``{"rows": [...], "first", "may_be_first", "items", "confidence", ...}``."""
        rows = [{**line, "beats": list(row.beats)} for line, row in zip(self.to_rows(), self.rows, strict=True)]
        return {
            "rows": rows, "first": self.first, "may_be_first": list(self.may_be_first), "items": self.items,
            "confidence": self.confidence, "higher_is_better": self.higher_is_better, "sealed": False,
        }  # fmt: skip

    def explain(self) -> str:
        """Return a text that says who is first, what is promised, and what is not."""
        tied = self.may_be_first
        first = f"{self.first} is first." if self.first else f"{len(tied)} models may be first: {', '.join(tied)}."
        return (
            f"{first} With probability {100.0 * self.confidence:.8g} % all intervals, tiers and ranks hold at once, "
            f"for the population that the {self.items:,} items were drawn from independently. Nothing is sealed: "
            "models that were tuned on these items, or chosen for a good result on them, are not covered."
        )

    def to_svg(self) -> str:
        """Return a picture of all intervals, the best model first."""
        low, high = min(row.low for row in self.rows), max(row.high for row in self.rows)
        drawn = []
        for place, row in enumerate(self.rows):
            left, at, right = (10.0 + 620.0 * (x - low) / ((high - low) or 1.0) for x in (row.low, row.score, row.high))
            y = 44 * place + 58
            name = row.model if len(row.model) <= _LONGEST_NAME else f"{row.model[:_LONGEST_NAME]}..."
            drawn.append(
                f'<text x="10" y="{y - 12}">{html.escape(name)} (tier {row.tier})</text>'
                f'<line x1="{left:.1f}" x2="{right:.1f}" y1="{y}" y2="{y}" stroke="#0072b2" stroke-width="3"/>'
                f'<circle cx="{at:.1f}" cy="{y}" r="5" fill="#0072b2"/>'
            )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 {44 * len(self.rows) + 30}" width="640" '
            f'font-family="system-ui, sans-serif" font-size="13" fill="#17212b" role="img">'
            f'<text x="10" y="16">{at_least(low)}</text><text x="630" y="16" text-anchor="end">{at_most(high)}</text>'
            f"{''.join(drawn)}</svg>"
        )

    def to_html(self) -> str:
        """Return a complete page with the picture and the table, which loads no other file."""
        title, rows = "Board of open results", self.to_rows()
        body = (
            f"<main><h1>{title}</h1>\n<p>{html.escape(self.explain())}</p>\n{self.to_svg()}\n"
            f'<div class="scroll" tabindex="0" role="group" aria-label="Table of models">{html_table(rows, len(rows))}'
            "</div></main>"
        )
        return html_document(title, _STYLE, body)

    def save(self, path: Path | str) -> None:
        """Write the page or the picture to a file whose name ends in ``.html`` or ``.svg``.

        Raises:
            ValueError: If the name has another ending.
        """
        path = Path(path)
        made = {".html": self.to_html, ".svg": self.to_svg}.get(path.suffix.lower())
        if made is None:
            raise ValueError(f"{path.name!r} ends in {path.suffix!r}. Pass a name that ends in .html or .svg.")
        path.write_text(made(), encoding="utf-8")


def board(
    results: RowSource, *, model: str | None = None, item: str | None = None, score: str | None = None,
    low: float | None = None, high: float | None = None, lowest: bool = False, confidence: float = 0.95,
) -> OpenBoard:  # fmt: skip
    """Rank models by open (not sealed) results, with intervals for scores and ranks that hold together.

    Half of the failure probability is for the intervals of the scores. The other half is for the order of each pair, by
    Holm's method: scores of 0 and 1 by exact sign tests on the items where two models differ, other ones by bets on the
    differences. Which of the two methods is used depends only on whether a range is passed, never on the results. The
    ranks follow from the order.

    Args:
        results: A table or file with a row for each item and a column of numbers for each model; other columns are left
            out. Or a long table, with a row for each model and item.
        model: Name of the column of models. For a long table only.
        item: Name of the column of items. For a long table only.
        score: Name of the column of scores. For a long table only.
        low: Least possible score. None if all scores are 0 or 1.
        high: Largest possible score. None if all scores are 0 or 1.
        lowest: Whether the lowest score is best.
        confidence: Probability with which everything holds.

    Raises:
        HoldoutRejected: If the results cannot be read, an item lacks a score, or a score is out of its range.

    Examples:
        >>> found = board({"a": [1] * 40, "b": [0] * 40})
        >>> found.first, found.rows[1].best_rank
        ('a', 2)
    """
    if not 0.0 < as_float(confidence) < 1.0:
        raise HoldoutRejected(f"confidence is {brief(confidence)}. Pass a number between 0 and 1.")
    names, table = _read(results, [model, item, score])
    binary = low is None and high is None
    least, most = (0.0, 1.0) if binary else (as_float(low), as_float(high))
    unfit = binary and not np.all((table == 0.0) | (table == 1.0))
    if unfit or not (math.isfinite(most - least) and least < most):
        raise HoldoutRejected(
            "Scores are numbers whose range is not known. Pass low= and high=, such as low=0, high=10."
        )
    outside = np.argwhere((table < least) | (table > most))
    if len(outside):
        row, column = outside[0]
        raise HoldoutRejected(
            f"Item {row + 1:,} has the score {table[row, column]:g} of {names[column]!r}, outside of "
            f"[{least:g}, {most:g}]. Pass the range of all scores that are possible."
        )
    values = (table - least) / (most - least)
    beta, means = 1.0 - float(confidence), values.mean(axis=0)
    ends = [_ends(values[:, place], beta / 2.0 / len(names), binary=binary) for place in range(len(names))]
    better = _proved(-values if lowest else values, beta / 2.0, binary=binary)
    tiers = np.ones(len(names), dtype=int)
    order = np.argsort(means if lowest else -means, kind="stable")
    for place in order:  # no model is proved better than one with a better score
        tiers[place] = 1 + max((tiers[other] for other in order if better[other, place]), default=0)
    width = most - least
    rows = [
        BoardRow(
            names[place], float(table[:, place].mean()), least + width * ends[place][0], least + width * ends[place][1],
            int(tiers[place]), 1 + int(better[:, place].sum()), len(names) - int(better[place].sum()),
            tuple(names[other] for other in order if better[place, other]),
        )
        for place in order
    ]  # fmt: skip
    return OpenBoard(sorted(rows, key=lambda row: row.tier), len(table), float(confidence), not lowest)


def _read(results: RowSource, long: Sequence[str | None]) -> tuple[list[str], NDArray[np.float64]]:
    """Return the names of the models and their scores, shape (items, models)."""
    with tempfile.TemporaryDirectory() as folder, spilling_into(Path(folder)) as connection:
        read_rows(connection, results, name="results", what="results")
        kinds = column_kinds(connection.view("results"))
        if any(long):
            if not all(name in kinds for name in long):
                raise HoldoutRejected(
                    "model=, item= and score= do not name three columns of the table. Its columns are "
                    f"{', '.join(kinds)}."
                )
            model, item, score = (quoted(str(name)) for name in long)
            lines = connection.execute(
                f"SELECT {model}::VARCHAR, {item}::VARCHAR, {score}::DOUBLE FROM results ORDER BY 2, 1"
            ).fetchall()
            names, items = sorted({line[0] for line in lines}), sorted({line[1] for line in lines})
            table = np.full((len(items), len(names)), np.nan)
            places = (
                {name: place for place, name in enumerate(names)},
                {name: place for place, name in enumerate(items)},
            )
            for name, of, value in lines:
                at = places[1][of], places[0][name]
                if not math.isnan(table[at]):
                    raise HoldoutRejected(f"Item {of!r} has two scores of {name!r}. Pass one, such as their mean.")
                table[at] = math.nan if value is None else value
        else:
            names = [name for name, kind in kinds.items() if kind in (ColumnKind.NUMBER, ColumnKind.BOOLEAN)]
            items = []
            listed = ", ".join(f"{quoted(name)}::DOUBLE AS {quoted(name)}" for name in names) or "1 AS none"
            found = connection.execute(f"SELECT {listed} FROM results").fetchnumpy()
            table = np.array([np.ma.filled(found[name], np.nan) for name in names], dtype=np.float64).T
    if not 2 <= len(names) <= _MOST_MODELS or not len(table):
        raise HoldoutRejected(
            f"The results have {len(names)} models and {len(table):,} items. Pass at least one item, and "
            f"2 to {_MOST_MODELS} models."
        )
    lacking = np.argwhere(~np.isfinite(table))
    if len(lacking):
        row, column = lacking[0]
        named = repr(items[row]) if items else f"{row + 1:,}"
        raise HoldoutRejected(f"Item {named} has no score of {names[column]!r}. Leave the item out, or score it.")
    return names, table


def _ends(values: NDArray[np.float64], level: float, *, binary: bool) -> tuple[float, float]:
    """Return the interval of one mean in [0, 1].

    `binary` is true if all values are 0 or 1.
    """
    nats = -math.log(level)
    if binary:
        return ClopperPearson(rows=len(values), training=len(values)).interval(float(values.mean()), nats)
    units = units_of(values, np.ones(len(values)))
    side = side_of(nats)
    return 1.0 - upper_end(units.mirrored, NO_STAKE, side), upper_end(units, NO_STAKE, side)


def _proved(values: NDArray[np.float64], beta: float, *, binary: bool) -> NDArray[np.bool_]:
    """Return which model is proved better than which, shape (models, models), by Holm's method over all pairs.

    `binary` is true if all values are 0 or 1.
    """
    models = values.shape[1]
    chances: dict[tuple[int, int], float] = {}
    for first in range(models):
        for second in range(models):
            gains = values[:, first] - values[:, second]
            if first == second or not gains.sum() > 0.0:
                continue
            if binary:
                wins, losses = int(np.count_nonzero(gains > 0)), int(np.count_nonzero(gains < 0))
                chances[first, second] = float(scipy.special.bdtrc(wins - 1, wins + losses, 0.5))
            else:
                losing = units_of((1.0 - gains) / 2.0, np.ones(len(gains)))
                chances[first, second] = math.exp(-max(float(ratio_bets(losing, NO_STAKE).at(0.5)), 0.0))
    better, left = np.zeros((models, models), dtype=bool), models * (models - 1)
    for pair, chance in sorted(chances.items(), key=lambda each: each[1]):
        if chance > beta / left:
            break
        better[pair], left = True, left - 1
    return better
