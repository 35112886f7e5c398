"""What dependence between rows costs, and what happens to a promise that ignores it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.stats import binom

from everhold.charts import INK, covered_lines, line_width, styled
from everhold.dependence import GaussianAR1, Independent
from everhold.mechanisms import MECHANISMS
from everhold.planning import PlanRequest, tuned_mechanism
from everhold_lab.analysts import HillClimbingAnalyst
from everhold_lab.audit.boards import CopiedInGroups, CopiedInOrder, Population
from everhold_lab.audit.coverage import edge_of_checks, play_once
from everhold_lab.experiments.base import Experiment, Picture, Row, Setting, promises_kept

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everhold.dependence import DependenceModel
    from everhold.mechanisms import Mechanism


_DASHES = ([1, 0], [6, 4], [2, 3])


@dataclass(frozen=True, slots=True)
class PanelPoint:
    """One point of a line in a panel.

    Attributes:
        kind: Kind of the number, in words.
        low: Lower end of the bar. None if the point has no bar.
        high: Upper end of the bar.
    """

    panel: str
    series: str
    kind: str
    at: float
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class PanelAxis:
    """Title of the horizontal axis of all panels, and whether the axis is logarithmic."""

    title: str
    log: bool = True


def panel_chart(
    points: Sequence[PanelPoint],
    *,
    horizontal: PanelAxis,
    vertical: PanelAxis,
    colours: Mapping[str, str],
    kinds: Sequence[str],
    columns: int = 3,
) -> Any:
    """Return a chart of panels side by side.

    Args:
        points: All points, in the order in which the panels shall stand.
        horizontal: The horizontal axis, the same for all panels.
        vertical: The vertical axis.
        colours: Colour of each series, in the order of the legend. A series without points is left out of the legend.
        kinds: Kinds of numbers; the first is drawn solid, the second dashed, the third dotted.
        columns: Panels in a line.

    Returns:
        An Altair chart with facets.
    """
    import altair as alt

    names = [name for name in colours if any(point.series == name for point in points)]
    drawn_kinds = [kind for kind in kinds if any(point.kind == kind for point in points)]
    dashes = [_DASHES[kinds.index(kind)] for kind in drawn_kinds]
    legend: dict[str, Any] = {
        "title": None, "symbolType": "stroke", "symbolSize": 400, "symbolStrokeWidth": 2.5, "symbolOpacity": 1,
        "labelLimit": 0,
    }  # fmt: skip
    colour = alt.Color(
        "series:N",
        scale=alt.Scale(domain=names, range=[colours[name] for name in names]),
        legend=alt.Legend(**legend, orient="right") if len(names) > 1 else None,
    )
    dash = alt.StrokeDash(
        "kind:N",
        scale=alt.Scale(domain=drawn_kinds, range=dashes),
        legend=alt.Legend(**legend, symbolStrokeColor=INK, orient="right") if len(drawn_kinds) > 1 else None,
    )
    x = alt.X(
        "at:Q", title=horizontal.title,
        axis=alt.Axis(format="~s" if horizontal.log else "~g", tickCount=5, labelOverlap=True),
        scale=alt.Scale(type="log" if horizontal.log else "linear", nice=False, padding=8),
    )  # fmt: skip
    heights = alt.Scale(type="log", nice=False, padding=10) if vertical.log else alt.Scale(zero=True)
    y = alt.Y("value:Q", title=vertical.title, scale=heights, axis=alt.Axis(format="~g", tickCount=6))
    width = line_width(names, _covered(points, names, log=vertical.log), field="series")
    lines = alt.Chart().mark_line().encode(x=x, y=y, color=colour, strokeDash=dash, strokeWidth=width)
    dots = alt.Chart().mark_circle(size=26, opacity=1).encode(x=x, y=y, color=colour)
    bars = (
        alt.Chart()
        .transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=5, opacity=0.35)
        .encode(x=x, y=alt.Y("low:Q", title=vertical.title, scale=heights), y2="high:Q", color=colour)
    )
    in_order = sorted(points, key=lambda point: names.index(point.series))
    values = alt.InlineData(values=[asdict(point) for point in in_order])
    order = list(dict.fromkeys(point.panel for point in points))
    facet = alt.Facet("panel:N", title=None, sort=order, header=alt.Header(labelFontSize=14))
    panels = alt.layer(bars, lines, dots, data=values).properties(width=260, height=260).facet(facet, columns=columns)
    return styled(panels, grid=0.5)


def _covered(points: Sequence[PanelPoint], names: Sequence[str], *, log: bool) -> frozenset[str]:
    """Return the names of series that are hidden behind a later series wherever both are drawn.

    `log` says whether the vertical scale is logarithmic.
    """
    lines = {
        name: {(point.panel, point.kind, point.at): point.value for point in points if point.series == name}
        for name in names
    }
    return covered_lines(lines, log=log)


_MECHANISMS = ("guess_and_check", "gaussian")
_RIGHT, _WRONG = "right model", "independent"
_FAMILIES = {
    "groups": "groups of equal rows",
    "chain": "a chain that repeats rows",
    "ar1": "a Gaussian AR(1)",
}
_STRENGTHS = {"groups": "rows in a group", "chain": "correlation of neighbours", "ar1": "correlation of neighbours"}
_CHANCE = 0.999  # more violations than happen with this chance break a promise
_ROUNDS = 4
_KINDS = ("promised by the right model", "promised as if independent", "seen under attack")
_COLOURS = {name: MECHANISMS[name].presentation.colour for name in _MECHANISMS}
_ROWS_COLOURS = {"worth": "#d55e00"}


@dataclass(frozen=True, kw_only=True)
class DependenceExperiment(Experiment):
    """Experiment on radius and effective rows by strength of dependence, with attacks on a promise that ignores it.

    Attributes:
        rows: Sealed rows, a whole number of groups of each size.
        queries: Adaptive queries that are planned.
        surprises: Planned number of surprises, for mechanisms that check guesses.
        points: Points of the cube that rows copy, a power of 2; a chain of twice as many states is declared.
        group_sizes: Rows of a group, weakest first.
        correlations: Correlations of neighbouring rows, in [0, 1), in increasing order.
        confidence: 1 - beta, in (0, 1).
    """

    name: ClassVar[str] = "dependence"
    title: ClassVar[str] = "What does dependence cost?"
    source: ClassVar[str] = "Statements S1, S3, S4 and S5 of everhold; coverage by simulation"
    about: ClassVar[str] = (
        "Rows copy each other: all rows of a group carry one record, or each row of a series repeats the one before "
        "with some probability. The value of every query is 1/2, however strongly the rows depend on each other. A "
        "hill climber asks two mechanisms about rules and votes, once with the right dependence model declared and "
        "once with independent rows declared. With the right model there are fewer effective rows, the radius is "
        "larger, and the promise is kept. With the wrong model the radius stays the same, however few effective rows "
        "there are, and the promise is broken. For a Gaussian AR(1) model the promise is computed, and no game is "
        "played."
    )
    repetitions: ClassVar[int] = 50

    rows: int = 16_384
    queries: int = 128
    surprises: int = 3
    points: int = 32
    group_sizes: tuple[int, ...] = (1, 4, 16, 32, 64)
    correlations: tuple[float, ...] = (0.0, 0.3, 0.6, 0.8, 0.9, 0.95)
    confidence: float = 0.95

    def settings(self) -> Sequence[Setting]:
        """Return every family of populations at every strength."""
        groups: list[Setting] = [{"family": "groups", "strength": float(size)} for size in self.group_sizes]
        return groups + [{"family": "chain", "strength": correlation} for correlation in self.correlations]

    def play(self, setting: Setting, seed: int) -> list[Row]:
        """Play one game for each mechanism and declared model, on rows from the same population."""
        population = _population(setting, self.points)
        rows: list[Row] = []
        for name in _MECHANISMS:
            for declared in (_RIGHT, _WRONG):
                mechanism = self._mechanism(name, population.dependence() if declared == _RIGHT else None)
                outcome = play_once(
                    # where guesses are checked, each is at the edge, so that the reply tells the side
                    mechanism,
                    HillClimbingAnalyst(-(-(self.points - 1) // _ROUNDS), guess=edge_of_checks(mechanism)),
                    rules=self.points - 1,
                    seed=seed,
                    population=population,
                )
                error = outcome.worst_error
                broken = outcome.violated or outcome.needless
                rows.append({"mechanism": name, "declared": declared, "worst_error": error, "violated": broken})
        return rows

    def summary(self, rows: Sequence[Row]) -> list[Row]:
        """Return one line for each mechanism, declaration and strength, and promises for a Gaussian AR(1)."""
        games: dict[tuple[Any, ...], list[Row]] = {}
        for row in rows:
            games.setdefault((row["family"], row["strength"], row["mechanism"], row["declared"]), []).append(row)
        lines = []
        for setting in self.settings():
            right = _population(setting, self.points).dependence()
            for name in _MECHANISMS:
                for declared, model in ((_RIGHT, right), (_WRONG, None)):
                    played = games.get((*setting.values(), name, declared), [])
                    lines.append(self._line(setting, name, declared, model) | _seen(played))
        return lines + [
            self._line({"family": "ar1", "strength": one}, name, _RIGHT, GaussianAR1(one, gap=np.inf)) | _seen([])
            for one in self.correlations
            for name in _MECHANISMS
        ]

    def findings(self, summary: Sequence[Row], rows: Sequence[Row]) -> Mapping[str, bool]:
        """Return findings on the promises of the right and wrong model, and on the cost of dependence."""
        right = [
            ((row["family"], row["strength"], row["mechanism"]), row["violated"])
            for row in rows
            if row["declared"] == _RIGHT
        ]
        strongest = {"groups": max(self.group_sizes), "chain": max(self.correlations)}
        findings = promises_kept(right, confidence=self.confidence, played="games with the right model")
        for family, strength in strongest.items():
            wrong = [
                row["violated"]
                for row in rows
                if (row["family"], row["strength"], row["declared"]) == (family, strength, _WRONG)
            ]
            may = int(binom.ppf(_CHANCE, len(wrong), 1.0 - self.confidence))
            findings[
                f"declared independent, {sum(wrong):,} of {len(wrong):,} games broke a promise in {_FAMILIES[family]} "
                f"({_STRENGTHS[family]}: {strength:g}), where {may:,} may"
            ] = sum(wrong) > may
        findings["the stronger the dependence, the larger the radius of the right model"] = _grows(summary)
        return findings

    def pictures(self, summary: Sequence[Row], rows: Sequence[Row]) -> list[Picture]:
        """Return charts of radii and errors, and of the number of independent rows that the rows are worth."""
        seen = (
            "Solid: the radius that the right model promises. Dashed: the one that is promised if rows are declared "
            "independent, which does not change. Dotted: worst error of the attack under that wrong declaration, "
            "mean over games. Bars reach over the middle 80 %. Above the dashed line the promise is broken. The "
            "table also counts games in which the narrower interval of a released answer misses, or budget is spent "
            "against the promise. Lines end at half the range."
        )
        worth = "How many independent rows tell as much about a query that was fixed beforehand (S5)."
        pictures = []
        for name, families in (("groups", ("groups",)), ("order", ("chain", "ar1"))):
            lines = [line for line in summary if line["family"] in families]
            axis = PanelAxis(_STRENGTHS[families[0]], log=name == "groups")
            promised = panel_chart(
                _radii(lines), horizontal=axis, vertical=PanelAxis("radius, and worst error", log=False),
                colours=_COLOURS, kinds=_KINDS,
            )  # fmt: skip
            pictures.append(Picture(f"radius-{name}", f"Promise and attack: {axis.title}", seen, promised))
            counted = panel_chart(
                _worth(lines), horizontal=axis, vertical=PanelAxis("effective rows"), colours=_ROWS_COLOURS,
                kinds=("effective rows",),
            )  # fmt: skip
            pictures.append(Picture(f"rows-{name}", f"What {self.rows:,} rows are worth: {axis.title}", worth, counted))
        return pictures

    def _mechanism(self, name: str, model: DependenceModel | None) -> Mechanism:
        return _tuned(name, self.rows, self.queries, self.surprises, self.confidence, model)

    def _line(self, setting: Setting, name: str, declared: str, model: DependenceModel | None) -> Row:
        effective = float(self.rows) if model is None else model.concentration(self.rows)
        radius = self._mechanism(name, model).promise().radius
        return {**setting, "mechanism": name, "declared": declared, "effective_rows": effective, "radius": radius}


def _population(setting: Setting, points: int) -> Population:
    if setting["family"] == "groups":
        return CopiedInGroups(points=points, size=int(setting["strength"]))
    return CopiedInOrder(points=points, correlation=setting["strength"])


@lru_cache(maxsize=256)
def _tuned(
    name: str, rows: int, queries: int, surprises: int, confidence: float, model: DependenceModel | None
) -> Mechanism:
    request = PlanRequest(
        rows=rows, queries=queries, surprises=surprises, confidence=confidence, dependence=model or Independent()
    )
    return tuned_mechanism(name, request)


def _seen(games: Sequence[Row]) -> Row:
    if not games:
        return {"worst_error": None, "worst_error_low": None, "worst_error_high": None, "games": 0, "violations": 0}
    errors = [row["worst_error"] for row in games]
    low, high = np.quantile(errors, [0.1, 0.9])
    return {
        "worst_error": float(np.mean(errors)),
        "worst_error_low": float(low),
        "worst_error_high": float(high),
        "games": len(games),
        "violations": sum(row["violated"] for row in games),
    }


def _grows(summary: Sequence[Row]) -> bool:
    """Return whether the radius of the right model never falls with the strength."""
    lines: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for line in summary:
        if line["declared"] == _RIGHT:
            lines.setdefault((line["family"], line["mechanism"]), []).append((line["strength"], line["radius"]))
    return all(bool(np.all(np.diff([radius for _, radius in sorted(points)]) >= 0.0)) for points in lines.values())


def _radii(lines: Sequence[Row]) -> list[PanelPoint]:
    points = []
    for line in lines:
        place = (_FAMILIES[line["family"]], line["mechanism"])
        right = line["declared"] == _RIGHT
        if line["radius"] < 0.5:
            points.append(PanelPoint(*place, _KINDS[0 if right else 1], line["strength"], line["radius"]))
        if not right and line["worst_error"] is not None:
            bar = (line["worst_error_low"], line["worst_error_high"])
            points.append(PanelPoint(*place, _KINDS[2], line["strength"], line["worst_error"], *bar))
    return points


def _worth(lines: Sequence[Row]) -> list[PanelPoint]:
    return [
        PanelPoint(_FAMILIES[line["family"]], "worth", "effective rows", line["strength"], line["effective_rows"])
        for line in lines
        if line["declared"] == _RIGHT and line["mechanism"] == _MECHANISMS[0]
    ]
