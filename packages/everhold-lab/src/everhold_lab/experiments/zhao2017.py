"""Figures 2 and 3 of Zhao 2017: how a holdout of rows that depend on each other is used up, and what protects it.

The paper does not say how its rows depend on each other. Here they copy: in a chain each row repeats the record of the
row before with some probability and is drawn anew otherwise; in groups all rows of a group carry one record. Training
rows and sealed rows are two series, or two sets of groups, that are independent of each other.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from everhold.randomness import SeededNoise
from everhold_lab.audit.dependent_boards import CopiedInGroups, CopiedInOrder
from everhold_lab.experiments.bands import accuracy_bands
from everhold_lab.experiments.base import Experiment, Picture
from everhold_lab.experiments.correlated_attributes import Attributes
from everhold_lab.experiments.error_shares import error_shares
from everhold_lab.experiments.holdout_reuse import reuse_holdout
from everhold_lab.experiments.zhao2017_analysts import PROTECTED, Case, Game, contender

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from everhold_lab.audit.dependent_boards import Population
    from everhold_lab.experiments.base import Row, Setting

_SOURCE = "Zhao 2017, Adaptive Statistical Learning with Bayesian Differential Privacy"
_NUMBERS = (1, 5, 10, 20, 50, 100, 200, 300, 400, 500)
_KNOWING = 4  # blocks of attributes that know something of the label, where there is a signal
_GAP = 0.08  # reported minus true accuracy that common reuse has to exceed
_VACUOUS = 0.5  # nobody needs a holdout for a radius of half the range

_POPULATIONS: dict[str, Population] = {
    "independent": CopiedInGroups(points=1, size=1),
    "chain 0.5": CopiedInOrder(points=16, correlation=0.5),
    "chain 0.9": CopiedInOrder(points=16, correlation=0.9),
    "groups of 5": CopiedInGroups(points=1, size=5),
    "groups of 50": CopiedInGroups(points=1, size=50),
    "groups of 200": CopiedInGroups(points=1, size=200),
}
_TITLES = {
    "independent": "independent rows",
    "chain 0.5": "a row repeats the one before with probability 0.5",
    "chain 0.9": "a row repeats the one before with probability 0.9",
    "groups of 5": "groups of 5 equal rows",
    "groups of 50": "groups of 50 equal rows",
    "groups of 200": "groups of 200 equal rows",
}
_ANALYSTS = {
    "common": "common reuse",
    "thresholdout_theorem2": "Algorithm 1, noise of Theorem 2",
    "thresholdout_tuned": "Thresholdout, tuned (S1, S4)",
    "guess_and_check_tuned": "Guess and check, tuned (S3, S5)",
    "thresholdout_iid": "Thresholdout, rows taken for independent",
    "guess_and_check_iid": "Guess and check, rows taken for independent",
}


def _cases(rows: Mapping[str, int]) -> tuple[Case, ...]:
    """Populations by name, each with its number of rows."""
    return tuple(Case(name, number, _POPULATIONS[name]) for name, number in rows.items())


@dataclass(frozen=True, kw_only=True)
class _Reuse(Experiment):
    """Common part of both figures.

    Attributes:
        cases: Populations with their numbers of rows.
        numbers: Numbers k of attributes that vote.
        surprises: Releases from the holdout that are planned for.
        tolerance: Half-width that Theorem 2's calibration is after.
        confidence: 1 - beta of every promise.
    """

    cases: tuple[Case, ...] = ()
    attributes: int = 1_000
    numbers: tuple[int, ...] = _NUMBERS
    surprises: int = 10
    tolerance: float = 0.1
    confidence: float = 0.95

    analysts: ClassVar[tuple[str, ...]]

    def settings(self) -> Sequence[Setting]:
        """Every population, without and with a signal."""
        return [
            {"rows_move": case.name, "rows": case.rows, "signal": signal}
            for case in self.cases
            for signal in (False, True)
        ]

    def play(self, setting: Setting, seed: int) -> list[Row]:
        """All analysts on the same training rows and the same sealed rows."""
        case = next(case for case in self.cases if case.name == setting["rows_move"])
        game = Game(
            case=case, law=self._law(setting["signal"]), queries=self.attributes + len(self.numbers),
            surprises=self.surprises, tolerance=self.tolerance, confidence=self.confidence,
        )  # fmt: skip
        rng = np.random.default_rng(seed)
        training, holdout = (game.law.sample(case.population, case.rows, rng) for _ in range(2))
        rows: list[Row] = []
        for name in self.analysts:
            chosen = contender(game, name)
            reuse = reuse_holdout(
                chosen.mechanism, SeededNoise(seed), law=game.law, training=training, holdout=holdout,
                numbers=self.numbers,
            )  # fmt: skip
            known = {"analyst": name, **setting, "radius": chosen.radius, "rows_needed": chosen.rows_needed}
            rows += [known | line for line in reuse.lines(self.numbers)]
        return rows

    def _law(self, signal: bool) -> Attributes:
        return Attributes(count=self.attributes, knowing=_KNOWING if signal else 0)

    def summary(self, rows: Sequence[Row]) -> list[Row]:
        """Means and standard deviations for each population, analyst and k, of what was not refused."""
        lines: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
        for row in rows:
            lines[row["rows_move"], row["signal"], row["analyst"], row["k"]].append(row)
        return [_summed(same) for same in lines.values()]


@dataclass(frozen=True, kw_only=True)
class Figure2(_Reuse):
    """Common reuse of a holdout whose rows depend on each other more and more."""

    name: ClassVar[str] = "figure2"
    title: ClassVar[str] = "Common reuse of a holdout whose rows depend on each other"
    source: ClassVar[str] = f"{_SOURCE}, Figure 2"
    about: ClassVar[str] = (
        "Attributes that look good on training rows and on the holdout vote, and the same holdout says how good the "
        "vote is. Without a signal no vote is better than a coin. Rows copy each other: in a chain each row repeats "
        "the one before with some probability, in groups all rows are equal. The fewer different rows there are, the "
        "farther is what the holdout says from the truth. Accuracies on fresh rows are exact, not sampled."
    )
    analysts: ClassVar[tuple[str, ...]] = ("common",)

    cases: tuple[Case, ...] = _cases(dict.fromkeys(_POPULATIONS, 20_000))
    attributes: int = 2_000

    def findings(self, summary: Sequence[Row], rows: Sequence[Row]) -> Mapping[str, bool]:
        """Without a signal, common reuse of dependent rows reports far too much."""
        gaps = {
            line["rows_move"]: line["reported"] - line["fresh"]
            for line in summary
            if line["k"] == max(self.numbers) and not line["signal"]
        }
        return {
            f"{_TITLES[name]}: common reuse reports {gap:.3f} more than the truth at {max(self.numbers)} attributes "
            f"without a signal; expected more than {_GAP}": gap > _GAP
            for name, gap in gaps.items()
            if name != "independent"
        }

    def pictures(self, summary: Sequence[Row], rows: Sequence[Row]) -> list[Picture]:
        """Accuracy against the number of attributes, a panel for each population."""
        return [
            _bands(summary, signal=signal, panels="rows_move", titles=_TITLES, name=name, what=what)
            for signal, name, what in (
                (False, "common-reuse", "Common reuse, no signal"),
                (True, "common-reuse-signal", "Common reuse, with a signal"),
            )
        ]


@dataclass(frozen=True, kw_only=True)
class Figure3(_Reuse):
    """Algorithm 1 and what protects a holdout of dependent rows."""

    name: ClassVar[str] = "figure3"
    title: ClassVar[str] = "A protected holdout whose rows depend on each other"
    source: ClassVar[str] = f"{_SOURCE}, Figure 3"
    about: ClassVar[str] = (
        "The analyst of Figure 2: unprotected; behind Algorithm 1 with the noise of Theorem 2, whose proof for "
        "dependent rows is incomplete; behind Thresholdout (S1, S4) and Guess and check (S3, S5) with the right "
        "dependence declared; and behind both planned as if the rows were independent. The claimed radius is for all "
        "answers at once: those about attributes and those about votes. Theorem 2 needs far more rows than there are; "
        "the table says how many. Strong dependence gets more rows, so that something is promised at all."
    )
    analysts: ClassVar[tuple[str, ...]] = tuple(_ANALYSTS)

    cases: tuple[Case, ...] = _cases(
        {
            "independent": 10_000,
            "chain 0.5": 50_000,
            "chain 0.9": 300_000,
            "groups of 5": 50_000,
            "groups of 50": 500_000,
            "groups of 200": 2_000_000,
        }
    )

    def findings(self, summary: Sequence[Row], rows: Sequence[Row]) -> Mapping[str, bool]:
        """Findings: bounds for dependent rows hold in every repetition; bounds that ignore dependence do not."""
        found: dict[str, bool] = {}
        for case in self.cases:
            for name in PROTECTED:
                line = _worst(line for line in summary if line["rows_move"] == case.name and line["analyst"] == name)
                found[
                    f"{_ANALYSTS[name]}, {_TITLES[case.name]}: every answer of every repetition is within the promised "
                    f"{line['radius']:.3f}, which is below 1/2; the worst is off by {line['worst_error']:.3f}"
                ] = line["worst_error"] <= line["radius"] < _VACUOUS
        line = _worst(line for line in summary if line["analyst"] == "guess_and_check_iid")
        found[
            f"{_ANALYSTS['guess_and_check_iid']}, {_TITLES[line['rows_move']]}: the claimed {line['radius']:.4f} is "
            f"broken in {line['broken']} of {line['repetitions']} repetitions"
        ] = line["broken"] > 0
        return found

    def pictures(self, summary: Sequence[Row], rows: Sequence[Row]) -> list[Picture]:
        """Accuracy for each population, a panel for each analyst; and errors in shares of the claimed radius."""
        drawn = [
            _bands(
                [line for line in summary if line["rows_move"] == case.name],
                signal=False,
                panels="analyst",
                titles=_ANALYSTS,
                name=f"accuracy-{case.name.replace(' ', '-').replace('.', '')}",
                what=f"{case.rows:,} rows, no signal: {_TITLES[case.name]}",
            )
            for case in self.cases
        ]
        drawn += [
            _bands(
                [line for line in summary if line["analyst"] == name],
                signal=True,
                panels="rows_move",
                titles=_TITLES,
                name=f"signal-{name.replace('_', '-')}",
                what=f"{_ANALYSTS[name]}, with a signal",
            )
            for name in PROTECTED
        ]
        claims = {name: title for name, title in _ANALYSTS.items() if name != "common"}  # it claims nothing adaptive
        shares = error_shares(
            [line for line in summary if not line["signal"]], analysts=claims, populations=_TITLES
        )  # fmt: skip
        caption = (
            "Without a signal: the largest error in any repetition of an answer about an attribute or about the vote "
            "of k attributes, divided by the radius that is claimed. Above the line the claim is broken. Refusals are "
            "no errors."
        )
        return [*drawn, Picture("error-shares", "Worst error in shares of the claimed radius", caption, shares)]


def _worst(lines: Iterable[Row]) -> Row:
    """The line whose error is the largest share of the claimed radius."""
    return max(lines, key=lambda line: float(line["worst_error"] / line["radius"]))


def _summed(same: Sequence[Row]) -> Row:
    """One line for rows of one population, analyst and k."""
    first = same[0]
    answered = [row for row in same if row["reported"] is not None]
    values = {
        "training": [row["training"] for row in same],
        "reported": [row["reported"] for row in answered],
        "fresh": [row["fresh"] for row in same],
    }
    return {
        **{name: first[name] for name in ("analyst", "signal", "k")},
        **{name: float(np.mean(of)) if of else None for name, of in values.items()},
        **{f"sd_{name}": float(np.std(of)) if of else None for name, of in values.items()},
        **{name: first[name] for name in ("rows_move", "rows", "radius", "rows_needed")},
        "repetitions": len(same),
        "answered": len(answered),
        "worst_error": max(row["error"] for row in same),
        "broken": sum(row["error"] > row["radius"] for row in same),
        "releases": float(np.mean([row["releases"] for row in same])),
        "refused": float(np.mean([row["refused"] for row in same])),
    }


def _bands(
    summary: Sequence[Row], *, signal: bool, panels: str, titles: Mapping[str, str], name: str, what: str
) -> Picture:
    lines = [line for line in summary if line["signal"] == signal]
    present = {value: title for value, title in titles.items() if any(line[panels] == value for line in lines)}
    chart = accuracy_bands(
        lines, horizontal=("k", "number of attributes that vote"), panels=panels, panel_titles=present
    )
    caption = "Means over all repetitions; bands are one standard deviation to each side."
    return Picture(name, what, f"{caption} A missing line: the holdout refused to answer.", chart)
