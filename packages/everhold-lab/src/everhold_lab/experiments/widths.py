"""Promised radii beside the errors that attacks reach, for every mechanism and statement and for dependent rows."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.stats import binom

from everhold.charts import INK, covered_lines, line_width, styled
from everhold.dependence import GaussianAR1, Independent
from everhold.errors import VacuousGuaranteeWarning
from everhold.mechanisms import MECHANISMS, answering
from everhold.planning import PlanRequest, plan, tuned_mechanism
from everhold_lab.analysts import HillClimbingAnalyst
from everhold_lab.audit.audit import audit_plan
from everhold_lab.audit.boards import CopiedInGroups, CopiedInOrder, Population
from everhold_lab.audit.coverage import edge_of_checks, play_once
from everhold_lab.experiments import Experiment, Picture, Row, Setting, grouped, promises_kept
from everhold_lab.published.splitting import hoeffding_radius

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
    lines = {
        name: {(point.panel, point.kind, point.at): point.value for point in points if point.series == name}
        for name in names
    }
    width = line_width(names, covered_lines(lines, log=vertical.log), field="series")
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
_PROMISED_OR_SEEN = ("promised by the right model", "promised as if independent", "seen under attack")
_MECHANISM_COLOURS = {name: MECHANISMS[name].presentation.colour for name in _MECHANISMS}
_WORTH = "effective rows"
_ROWS_COLOURS = {"worth": "#d55e00"}


@dataclass(frozen=True, kw_only=True)
class DependenceExperiment(Experiment):
    """Experiment on radius and effective rows by strength of dependence, with attacks on a promise that ignores it.

    Attributes:
        rows: Sealed rows, a whole number of groups of each size.
        queries: Adaptive queries that are planned.
        surprises: Planned number of surprises, for mechanisms that check guesses.
        points: Points of the cube that rows copy, a power of 2; a chain of twice as many states is declared.
        group_sizes: Numbers of rows in a group, in increasing order of dependence.
        correlations: Correlations of neighbouring rows, in [0, 1), in increasing order.
        confidence: 1 - beta, in (0, 1).
    """

    name: ClassVar[str] = "dependence"
    title: ClassVar[str] = "What does dependence cost?"
    source: ClassVar[str] = "Statements S1, S3, S4 and S5 of everhold; coverage by simulation"
    about: ClassVar[str] = (
        "Rows copy each other: all rows of a group carry one record, or each row of a series repeats the one before "
        "with some probability. The value of every query is 1/2, however strongly the rows depend on each other. A "
        "hill climber asks two mechanisms about random rules and about votes of these rules, weighted by their "
        "scores, once with the right dependence model declared and once with independent rows declared. With the "
        "right model there are fewer effective rows, so the radius is larger, and the promise is kept. With "
        "independent rows declared the radius stays the same, however strong the dependence is, and the promise is "
        "broken. For a Gaussian AR(1) model the promise is computed, and no game is played."
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
        games = grouped(rows, "family", "strength", "mechanism", "declared")
        lines = []
        for setting in self.settings():
            right = _population(setting, self.points).dependence()
            for name in _MECHANISMS:
                for declared, model in ((_RIGHT, right), (_WRONG, None)):
                    played = games.get((*setting.values(), name, declared), [])
                    errors = [row["worst_error"] for row in played]
                    lines.append(self._line(setting, name, declared, model) | _seen(played, errors, (0.1, 0.9)))
        return lines + [
            self._line({"family": "ar1", "strength": one}, name, _RIGHT, GaussianAR1(one, gap=np.inf)) | _seen([], [])
            for one in self.correlations
            for name in _MECHANISMS
        ]

    def findings(self, summary: Sequence[Row], rows: Sequence[Row]) -> Mapping[str, bool]:
        """Return findings on the promises of the true and the wrong model, and on the cost of dependence."""
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
        lines = grouped((line for line in summary if line["declared"] == _RIGHT), "family", "mechanism").values()
        findings["the stronger the dependence, the larger the radius of the right model"] = all(
            after["radius"] >= before["radius"]
            for same in lines
            for before, after in pairwise(sorted(same, key=lambda line: line["strength"]))
        )
        return findings

    def pictures(self, summary: Sequence[Row], rows: Sequence[Row]) -> list[Picture]:
        """Return charts of radii and errors, and of the number of independent rows that the rows are worth."""
        seen = (
            "Solid: the radius that the right dependence model promises. Dashed: the radius that is promised if rows "
            "are declared independent, which does not change with the dependence. Dotted: the worst error of the "
            "attack if rows are declared independent, mean over games, with bars over the middle 80 % of games. Where "
            "the dotted line is above the dashed one, the promise is broken. The report's table also counts games in "
            "which the narrower interval of a released answer misses, or budget is spent against the promise. Lines "
            "end at half the range of values."
        )
        worth = "How many independent rows tell as much about a query that was fixed beforehand (S5)."
        pictures = []
        for name, families in (("groups", ("groups",)), ("order", ("chain", "ar1"))):
            lines = [line for line in summary if line["family"] in families]
            axis = PanelAxis(_STRENGTHS[families[0]], log=name == "groups")
            points, worths = [], []
            for line in lines:
                place = (_FAMILIES[line["family"]], line["mechanism"])
                right = line["declared"] == _RIGHT
                if line["radius"] < 0.5:
                    points.append(
                        PanelPoint(*place, _PROMISED_OR_SEEN[0 if right else 1], line["strength"], line["radius"])
                    )
                if not right and line["worst_error"] is not None:
                    bar = (line["worst_error_low"], line["worst_error_high"])
                    points.append(PanelPoint(*place, _PROMISED_OR_SEEN[2], line["strength"], line["worst_error"], *bar))
                if right and line["mechanism"] == _MECHANISMS[0]:
                    worths.append(PanelPoint(place[0], "worth", _WORTH, line["strength"], line["effective_rows"]))
            promised = panel_chart(
                points, horizontal=axis, vertical=PanelAxis("radius, and worst error", log=False),
                colours=_MECHANISM_COLOURS, kinds=_PROMISED_OR_SEEN,
            )  # fmt: skip
            pictures.append(Picture(f"radius-{name}", f"Promise and attack: {axis.title}", seen, promised))
            counted = panel_chart(
                worths, horizontal=axis, vertical=PanelAxis(_WORTH), colours=_ROWS_COLOURS, kinds=(_WORTH,)
            )
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


def _seen(games: Sequence[Row], errors: Sequence[float], quantiles: tuple[float, float] = (0.0, 1.0)) -> Row:
    """Return mean and two quantiles of the errors, the number of games, and how many of them broke a promise."""
    low, high = np.quantile(errors, quantiles).tolist() if errors else (None, None)
    return {
        "worst_error": float(np.mean(errors)) if errors else None, "worst_error_low": low, "worst_error_high": high,
        "games": len(games), "violations": sum(bool(row["violated"]) for row in games),
    }  # fmt: skip


_ATTACKS = ("climbing", "greedy")
_BARE, _FIXED = "bare averages", "one fixed query"
_SWEEPS = ("queries", "surprises")
_PLACE = ("sweep", "sealed", "queries", "surprises")
_VACUOUS = 0.5
_KINDS = ("promised by everhold", "published", "seen under attack")
_ADAPTIVE = {name: kind.presentation.colour for name, kind in MECHANISMS.items() if kind.traits.adaptive}
_COLOURS = _ADAPTIVE | {  # greys for published ones
    _BARE: "#24292f",
    _FIXED: "#b59f00",
    "zhao_theorem_2": "#999999",
    "dwork_theorem_25": "#4d4d4d",
    "jung_2020": "#8c6bb1",
    "rogers_2020_monitor": "#a6761d",
    "hoeffding_splitting": "#57606a",
}


@dataclass(frozen=True, kw_only=True)
class WidthsExperiment(Experiment):
    """Experiment on radius against queries and surprises, and on the errors that adaptive analysts reach.

    Attributes:
        rows: Numbers of sealed rows, powers of 2, each at least 16.
        queries: Numbers of adaptive queries, each at least 16, for the first sweep.
        surprises: Numbers of allowed surprises, for the second sweep.
        most_played: Sealed rows up to which games are played; beyond, they take long.
        confidence: 1 - beta, in (0, 1).
    """

    name: ClassVar[str] = "widths"
    title: ClassVar[str] = "How wide are the intervals?"
    source: ClassVar[str] = (
        "Statements S1, S3 and S6 of everhold; Zhao 2017 Theorem 2, Dwork et al. 2015 (NIPS) Theorem 25, "
        "Jung et al. 2020, Rogers et al. 2020, Hoeffding 1963"
    )
    about: ClassVar[str] = (
        "Every mechanism of everhold, and every published statement, is planned for the same number of rows, adaptive "
        "queries and surprises. The promised radius holds for every analyst. It is compared with the worst error of "
        "any answer in games of two simulated analysts, a hill climber and a greedy selector. There is nothing to "
        "find, because every label is a fair coin. A worst error far below the radius is no proof that a smaller "
        "radius could be promised, because other attacks may do better. Where the mechanism checks guesses, the guess "
        "is the average of training rows."
    )
    repetitions: ClassVar[int] = 5

    rows: tuple[int, ...] = (1_024, 8_192, 65_536, 1_048_576)
    queries: tuple[int, ...] = (16, 64, 256, 1_024, 4_096)
    surprises: tuple[int, ...] = (1, 3, 10, 30, 100)
    usual_queries: int = 1_024
    usual_surprises: int = 10
    most_played: int = 8_192
    confidence: float = 0.95

    def settings(self) -> Sequence[Setting]:
        """Return every setting of both sweeps, over queries and over surprises."""
        by_queries = [("queries", many, min(self.usual_surprises, many)) for many in self.queries]
        by_surprises = [("surprises", self.usual_queries, few) for few in self.surprises if few <= self.usual_queries]
        return [
            {"sweep": sweep, "sealed": sealed, "queries": queries, "surprises": surprises}
            for sealed in self.rows
            for sweep, queries, surprises in (*by_queries, *by_surprises)
        ]

    def play(self, setting: Setting, seed: int) -> list[Row]:
        """Play one game of each attack against each mechanism and against bare averages of the same rows.

        Mechanisms that promise half the range or more are not played against.
        """
        if setting["sealed"] > self.most_played:
            return []
        planned = _planned(setting["sealed"], setting["queries"], setting["surprises"], self.confidence)
        sweep = setting["sweep"]
        promised = {line["mechanism"]: line["radius"] for line in planned["lines"]}
        names = [
            name
            for name, kind in answering().items()
            if kind.traits.adaptive
            and not kind.traits.one_sided
            and (sweep == "queries" or kind.traits.needs_guess)
            and name != "sample_splitting"  # simulating its parts takes rows times queries
            and promised[name] is not None
            and promised[name] < _VACUOUS
        ]
        if not names:
            return []
        played = audit_plan(planned, mechanisms=names, analysts=_ATTACKS, runs=1, seed=seed)
        rows: list[Row] = []
        for line in played.lines:
            error, violated = line.study.worst_error, bool(line.study.violations)
            rows.append(_game(line.study.mechanism, line.study.analyst, error, violated))
        bare = {line.study.analyst: line.unprotected[0].worst_error for line in played.lines}
        return rows + [_game(_BARE, analyst, error, None) for analyst, error in bare.items()]

    def summary(self, rows: Sequence[Row]) -> list[Row]:
        """Return one line for each bound at each setting, with the largest error of an attack."""
        games = grouped(rows, *_PLACE, "width")
        lines = []
        for setting in self.settings():
            planned = _planned(setting["sealed"], setting["queries"], setting["surprises"], self.confidence)
            own = [
                (line["mechanism"], line["statement"], False, line["radius"])
                for line in planned["lines"]
                if MECHANISMS[line["mechanism"]].traits.adaptive
            ]
            others = [(line["statement"], line["statement"], True, line["radius"]) for line in planned["published"]]
            fixed = (_FIXED, "P9", True, hoeffding_radius(setting["sealed"], confidence=self.confidence))
            for width in (*own, *others, fixed, (_BARE, "none", False, None)):
                played = games.get((*setting.values(), width[0]), [])
                # of a repetition, the error of the strongest attack
                worst = [max(row["worst_error"] for row in same) for same in grouped(played, "repetition").values()]
                names = ("width", "statement", "published", "radius")
                lines.append({**setting, **dict(zip(names, width, strict=True)), **_seen(played, worst)})
        return lines

    def findings(self, summary: Sequence[Row], rows: Sequence[Row]) -> Mapping[str, bool]:
        """Return findings on whether promises are kept, and whether everhold's best width is below published ones."""
        played = [
            (tuple(row[name] for name in (*_PLACE, "width")), row["violated"])
            for row in rows
            if row["violated"] is not None
        ]
        compared = [ratio for ratio in map(_gain, grouped(summary, *_PLACE).values()) if ratio is not None]
        findings = promises_kept(played, confidence=self.confidence)
        if compared:
            findings[
                f"everhold's narrowest promise is {min(compared):.2f} to {max(compared):.2f} times narrower than the "
                f"narrowest published one for adaptive queries, at {len(compared)} places"
            ] = min(compared) >= 1.0
        bare = [line for line in summary if line["width"] == _BARE and line["worst_error"] is not None]
        if bare:
            widest = max(
                line["worst_error"] / hoeffding_radius(line["sealed"], confidence=self.confidence) for line in bare
            )
            findings[f"bare averages miss by up to {widest:.1f} times the radius that one fixed query would have"] = (
                widest > 1.0
            )
        return findings

    def pictures(self, summary: Sequence[Row], rows: Sequence[Row]) -> list[Picture]:
        """Return charts of promises by queries and by surprises, and of the errors that were seen."""
        promised = (
            f"One panel for each number of sealed rows, both axes logarithmic, at {self.confidence:.0%} confidence. "
            "Solid lines are promises of everhold's mechanisms. Dashed lines are published statements, among them "
            "Hoeffding's for one query that was fixed beforehand. Lines end where no radius below 1, the whole range, "
            "is promised. The Ladder's promise is about the best answer so far alone."
        )
        seen = (
            "Solid lines are promised radii. Dotted lines are the worst errors under attack, means over games, with "
            "bars from the smallest to the largest error. Bare averages have no promise. The Ladder is not played "
            "against here."
        )
        pictures = []
        for sweep, what in zip(_SWEEPS, ("adaptive queries", "allowed surprises"), strict=True):
            lines = [line for line in summary if line["sweep"] == sweep]
            if lines:
                drawn = panel_chart(
                    _promises(lines, sweep),
                    horizontal=PanelAxis(what),
                    vertical=PanelAxis("promised radius"),
                    colours=_COLOURS,
                    kinds=_KINDS,
                    columns=2,
                )
                pictures.append(Picture(f"promised-by-{sweep}", f"Promised radius against {what}", promised, drawn))
                drawn = _attack_chart(lines, sweep, what)
                pictures.append(Picture(f"seen-by-{sweep}", f"Promise and attack against {what}", seen, drawn))
        return pictures


@lru_cache(maxsize=256)
def _planned(rows: int, queries: int, surprises: int, confidence: float) -> dict[str, Any]:
    """Return the plan as plain data, which is cached and must not be changed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VacuousGuaranteeWarning)  # lines simply end there
        return plan(rows=rows, queries=queries, surprises=surprises, confidence=confidence).to_dict()


def _game(width: str, analyst: str, error: float, violated: bool | None) -> Row:
    return {"width": width, "analyst": analyst, "worst_error": error, "violated": violated}


def _gain(place: Sequence[Row]) -> float | None:
    """Return the narrowest published width divided by the narrowest promise about every answer, or None."""
    own = [
        line["radius"]
        for line in place
        if line["width"] in MECHANISMS and not MECHANISMS[line["width"]].traits.one_sided and line["radius"] is not None
    ]
    others = [
        line["radius"]
        for line in place
        if line["published"] and line["width"] != _FIXED and line["radius"] is not None and line["radius"] < _VACUOUS
    ]
    return min(others) / min(own) if own and others else None


def _panel(line: Row) -> str:
    return f"{line['sealed']:,} sealed rows"


def _promises(lines: Sequence[Row], sweep: str) -> list[PanelPoint]:
    return [
        PanelPoint(_panel(line), line["width"], _KINDS[line["published"]], line[sweep], line["radius"])
        for line in lines
        if line["radius"] is not None and line["radius"] < 1.0
    ]


def _attack_chart(lines: Sequence[Row], sweep: str, what: str) -> Any:
    played = [line for line in lines if line["worst_error"]]  # an error of 0 has no place on a logarithmic axis
    seen = [
        PanelPoint(
            _panel(line), line["width"], _KINDS[2], line[sweep],
            line["worst_error"], line["worst_error_low"] or line["worst_error"], line["worst_error_high"],
        )
        for line in played
    ]  # fmt: skip
    return panel_chart(
        [*_promises(played, sweep), *seen],
        horizontal=PanelAxis(what),
        vertical=PanelAxis("radius, and worst error"),
        colours=_COLOURS,
        kinds=_KINDS,
    )
