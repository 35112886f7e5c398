"""Experiments: their protocol, the charts that several of them draw, and the registry by command-line name.

An experiment has settings, a repetition that is a pure function of a seed, a summary, findings and pictures.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.stats import binom

from everhold.charts import INK, styled
from everhold.extensions import Registry

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    import altair as alt
    from altair import TopLevelMixin


Setting = dict[str, Any]
"""Parameters that tell one series of repetitions from another; plain JSON data, such as ``{"signal": True}``."""

Row = dict[str, Any]
"""One measured line, or one line of a summary: plain numbers, texts and truth values by name."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart for the report.

    Attributes:
        name: Name of the picture's file, without a suffix.
        title: Title that says what the chart shows.
        caption: One or two sentences on how to read the chart.
        chart: Chart to save.
    """

    name: str
    title: str
    caption: str
    chart: TopLevelMixin


class Experiment(ABC):
    """Base of experiments: frozen parameters and pure functions. `everhold_lab.running` does the files and processes.

    A subclass is a frozen dataclass whose fields, all with defaults, are the sizes of the experiment: the defaults are
    those of the paper, smaller ones serve tests.

    Attributes:
        name: Name of the experiment on the command line.
        title: Title of the experiment in reports.
        source: The paper and figure that it follows, or the part of everhold that it measures.
        about: Paragraph on what the experiment does and what it shows.
        repetitions: Default number of repetitions of each setting.
        keys: Values by which rows are grouped for the summary.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]
    about: ClassVar[str]
    repetitions: ClassVar[int] = 100
    keys: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def settings(self) -> Sequence[Setting]:
        """Return all settings, each of which is repeated."""

    @abstractmethod
    def play(self, setting: Setting, seed: int) -> list[Row]:
        """Run one repetition of one setting, and return its rows. The same seed gives the same rows in any process."""

    def summary(self, rows: Sequence[Row]) -> list[Row]:
        """Return the summary table of all repetitions, by default `line` of all rows with the same `keys`."""
        groups = grouped(rows, *self.keys).items()
        return [dict(zip(self.keys, values, strict=True)) | self.line(same) for values, same in groups]

    def line(self, rows: Sequence[Row]) -> Row:
        """Return a line of the summary, without its keys."""
        raise NotImplementedError

    @abstractmethod
    def findings(self, summary: Sequence[Row], rows: Sequence[Row]) -> Mapping[str, bool]:
        """Return the findings as sentences with numbers, each with a boolean that says whether the finding holds."""

    def pictures(self, summary: Sequence[Row], rows: Sequence[Row]) -> list[Picture]:
        """Return charts for the report, which need the extra ``[plots]``."""
        return []


def grouped(rows: Iterable[Row], *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    """Return rows by their values of these keys, in the order in which the values first occur."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return groups


def mean_of(rows: Iterable[Row], name: str) -> float | None:
    """Return the mean of a number over the rows that have it, or None if no row has it."""
    values = [row[name] for row in rows if row[name] is not None]
    return float(np.mean(values)) if values else None


_COLOURS = ("#56b4e9", "#0072b2", "#009e73", "#e69f00", "#d55e00", "#cc79a7")  # of Okabe and Ito
_DASHES = ([7, 3], [1, 0], [1, 0], [2, 3], [2, 3], [7, 3])


def error_shares(rows: Sequence[Row], *, analysts: Mapping[str, str], populations: Mapping[str, str]) -> alt.FacetChart:
    """Return a chart of ``worst_error / radius`` against the number of attributes, a panel for each population.

    Args:
        rows: Lines of a summary, with ``rows_move``, ``analyst``, ``k``, ``worst_error`` and ``radius``.
        analysts: Title of each analyst, in the order of the legend; others are left out.
        populations: Title of each population, in the order of the panels; others are left out.
    """
    import altair as alt

    shown = [row for row in rows if row["analyst"] in analysts and row["rows_move"] in populations]
    present = [title for name, title in analysts.items() if any(row["analyst"] == name for row in shown)]
    values = [
        {
            "k": row["k"],
            "share": row["worst_error"] / row["radius"],
            "analyst": analysts[row["analyst"]],
            "population": populations[row["rows_move"]],
        }
        for row in shown
    ]
    legend = alt.Legend(
        title=None, orient="bottom", columns=2, labelLimit=0, symbolType="stroke", symbolSize=400,
        symbolStrokeWidth=2.5,
    )  # fmt: skip
    colour = alt.Scale(domain=present, range=list(_COLOURS[: len(present)]))
    dash = alt.Scale(domain=present, range=list(_DASHES[: len(present)]))
    line = alt.Chart().mark_line(strokeWidth=2.5).encode(
        x=alt.X("k:Q", title="number of attributes that vote", axis=alt.Axis(tickCount=6)),
        y=alt.Y("share:Q", title="worst error / claimed radius", axis=alt.Axis(format=".1f", tickCount=6)),
        color=alt.Color("analyst:N", scale=colour, legend=legend),
        strokeDash=alt.StrokeDash("analyst:N", scale=dash, legend=legend),
    )  # fmt: skip
    claim = alt.Chart().mark_rule(color=INK, strokeWidth=1.0).encode(y=alt.datum(1.0))
    layers = alt.layer(claim, line, data=alt.InlineData(values=values)).properties(width=340, height=220)
    return _in_panels(layers, "population", populations.values())


def _in_panels(layers: Any, field: str, titles: Iterable[str]) -> alt.FacetChart:
    """Return a chart with a panel for each value of a field, in the order of the titles, two abreast."""
    import altair as alt

    panels = alt.Facet(f"{field}:N", title=None, sort=list(titles), header=alt.Header(labelFontSize=14))
    chart: alt.FacetChart = styled(layers.facet(facet=panels, columns=2), grid=0.5)
    return chart


_BAND_OPACITY = 0.22
_DRAWN = ("reported", "training", "fresh")  # what has gaps over what has none
_SERIES = {
    "training": ("on the training rows", "#0072b2", [2, 3]),
    "reported": ("as the holdout reports", "#d55e00", [1, 0]),
    "fresh": ("on fresh rows", INK, [7, 4]),
}


def accuracies(rows: Sequence[Row]) -> Row:
    """Return means and standard deviations of the accuracies that `accuracy_bands` draws, without refused answers."""
    known = {name: [row[name] for row in rows if row[name] is not None] for name in _SERIES}
    means = {name: float(np.mean(some)) if some else None for name, some in known.items()}
    return means | {f"sd_{name}": float(np.std(some)) if some else None for name, some in known.items()}


def accuracy_bands(
    rows: Sequence[Row],
    *,
    horizontal: tuple[str, str],
    panels: str,
    panel_titles: Mapping[str, str],
    domain: tuple[float, float] | None = None,
) -> alt.FacetChart:
    """Return a chart of accuracy against a number, a panel for each analyst, with the same vertical scale.

    Args:
        rows: Lines of a summary, with ``training``, ``reported`` and ``fresh`` (None where there is none), each with
            its standard deviation as ``sd_training`` and so on.
        horizontal: The key on the horizontal axis, and the title of that axis.
        panels: The key that tells the panels from each other.
        panel_titles: Title of each panel by value of that key, in the order in which they stand; rows of others are
            left out.
        domain: Lowest and highest accuracy of the vertical axis; by default what the rows need.
    """
    import altair as alt

    names = [name for name, _, _ in _SERIES.values()]
    colours, dashes = [colour for _, colour, _ in _SERIES.values()], [dash for _, _, dash in _SERIES.values()]
    # room to the right of each label: a reader's font may be wider than the one that was measured
    legend = alt.Legend(
        title=None, orient="bottom", labelLimit=0, columnPadding=44, symbolType="stroke", symbolSize=400,
        symbolStrokeWidth=2.5, symbolOpacity=1.0,
    )  # fmt: skip
    limits: Any = alt.Undefined if domain is None else list(domain)
    scale = alt.Scale(zero=False, nice=domain is None, domain=limits)
    colour = alt.Scale(domain=names, range=colours)
    x = alt.X("at:Q", title=horizontal[1], axis=alt.Axis(tickCount=6))
    band = alt.Chart().mark_area(opacity=_BAND_OPACITY, clip=True).encode(
        x=x, y=alt.Y("low:Q", title="accuracy", scale=scale, axis=alt.Axis(format=".0%")), y2="high:Q",
        color=alt.Color("series:N", scale=colour, legend=legend),
    )  # fmt: skip
    line = alt.Chart().mark_line(strokeWidth=2.5, clip=True).encode(
        x=x, y=alt.Y("mean:Q", title="accuracy", scale=scale),
        color=alt.Color("series:N", scale=colour, legend=legend),
        strokeDash=alt.StrokeDash("series:N", scale=alt.Scale(domain=names, range=dashes), legend=legend),
    )  # fmt: skip
    values = alt.InlineData(values=_points(rows, horizontal=horizontal[0], panels=panels, panel_titles=panel_titles))
    layers = alt.layer(band, line, data=values).properties(width=340, height=240)
    return _in_panels(layers, "panel", panel_titles.values())


def _points(
    rows: Sequence[Row], *, horizontal: str, panels: str, panel_titles: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return one chart point for each row and series, with a band of one standard deviation on both sides."""
    return [
        {
            "panel": panel_titles[row[panels]],
            "series": _SERIES[key][0],
            "at": row[horizontal],
            "mean": row[key],
            "low": row[key] - row[f"sd_{key}"],
            "high": row[key] + row[f"sd_{key}"],
        }
        for row in rows
        if row[panels] in panel_titles
        for key in _DRAWN
        if row[key] is not None
    ]


_CHANCE = 0.999  # of no false alarm


def promises_kept(
    games: Iterable[tuple[Hashable, bool]], *, confidence: float, played: str = "games"
) -> dict[str, bool]:
    """Return the findings on whether promises were kept, over all games and for the worst kind of game.

    The worst kind of game is judged by itself, because a mechanism that always breaks its promise would hardly be
    visible among the games of many mechanisms that keep theirs.

    Args:
        games: For every game its kind, and whether it broke a promise.
        confidence: Probability with which each game keeps its promise.
        played: Word for the counted games in the findings.
    """
    kinds: dict[Hashable, list[bool]] = {}
    for kind, broken in games:
        kinds.setdefault(kind, []).append(broken)
    many, bad = sum(len(kind) for kind in kinds.values()), sum(sum(kind) for kind in kinds.values())
    most = int(binom.ppf(_CHANCE, many, 1.0 - confidence))
    each = 1.0 - (1.0 - _CHANCE) / max(len(kinds), 1)
    counts = [(sum(kind), len(kind), int(binom.ppf(each, len(kind), 1.0 - confidence))) for kind in kinds.values()]
    worst, of, may = max(counts, key=lambda count: count[0] - count[2], default=(0, 0, 0))
    return {
        f"{bad:,} of {many:,} {played} broke a promise (expected at most {most:,}); of the kind that did worst, "
        f"{worst:,} of {of:,} {played} did (expected at most {may:,})": bad <= most and worst <= may
    }


__all__ = ["EXPERIMENTS", "Experiment", "Picture", "Row", "Setting"]

EXPERIMENTS: Registry[type[Experiment]] = Registry(
    "everhold.experiments",
    {
        "figure2": "everhold_lab.experiments.zhao2017:Figure2",
        "figure3": "everhold_lab.experiments.zhao2017:Figure3",
        "dwork2015": "everhold_lab.experiments.dwork2015:Dwork2015",
        "ladder-attack": "everhold_lab.experiments.ladder_attack:LadderAttack",
        "widths": "everhold_lab.experiments.widths:WidthsExperiment",
        "dependence": "everhold_lab.experiments.widths:DependenceExperiment",
        "gates": "everhold_lab.experiments.gates:GatesExperiment",
        "sharpness": "everhold_lab.experiments.sharpness:Sharpness",
        "tuning-loop": "everhold_lab.experiments.sealed_search:TuningLoop",
        "leaderboard": "everhold_lab.experiments.competitions:Competitions",
        "sealed-search": "everhold_lab.experiments.sealed_search:SealedSearch",
    },
)
"""All experiments by name, in the order in which ``everhold lab run all`` runs them."""
