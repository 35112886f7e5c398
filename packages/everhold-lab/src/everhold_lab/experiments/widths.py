"""The promised radius of every mechanism and published statement, beside the errors that attacks reach."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from everhold.errors import VacuousGuaranteeWarning
from everhold.mechanisms import MECHANISMS, answering
from everhold.planning import plan
from everhold_lab.audit.audit import audit_plan
from everhold_lab.experiments.base import Experiment, Picture, Row, Setting, promises_kept
from everhold_lab.experiments.dependence import PanelAxis, PanelPoint, panel_chart
from everhold_lab.published.splitting import hoeffding_radius

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
        "find, because every label is a fair coin. The difference between the two is no proof that a smaller radius "
        "could be promised, because other attacks may do better. Where the mechanism checks guesses, the guess is the "
        "average of training rows."
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
        names = _playable(planned, sweep=setting["sweep"])
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
        games = _by_place(rows)
        lines = []
        for setting in self.settings():
            for width in self._widths(setting):
                played = games.get((*setting.values(), width["width"]), {})
                lines.append({**setting, **width, **_seen(played)})
        return lines

    def findings(self, summary: Sequence[Row], rows: Sequence[Row]) -> Mapping[str, bool]:
        """Return findings on whether promises are kept, and whether everhold's best width is below published ones."""
        played = [
            (tuple(row[name] for name in (*_PLACE, "width")), row["violated"])
            for row in rows
            if row["violated"] is not None
        ]
        compared = [ratio for ratio in map(_gain, _places(summary)) if ratio is not None]
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
            "Solid: everhold. Dashed: published statements, among them Hoeffding's for one query that was fixed "
            "beforehand. Lines end where no radius below 1, the whole range, is promised. The Ladder's promise is "
            "about the best answer so far alone."
        )
        seen = (
            "Solid: the promise. Dotted: the worst error under attack, mean over games. Bars reach from the "
            "smallest to the largest of them. Bare averages have no promise. The Ladder is not played against here."
        )
        pictures = []
        for sweep, what in zip(_SWEEPS, ("adaptive queries", "allowed surprises"), strict=True):
            lines = [line for line in summary if line["sweep"] == sweep]
            if lines:
                drawn = _promise_chart(lines, sweep, what)
                pictures.append(Picture(f"promised-by-{sweep}", f"Promised radius against {what}", promised, drawn))
                drawn = _attack_chart(lines, sweep, what)
                pictures.append(Picture(f"seen-by-{sweep}", f"Promise and attack against {what}", seen, drawn))
        return pictures

    def _widths(self, setting: Setting) -> list[Row]:
        """Return a line for every bound at one setting.

        The radius is None if no bound below the whole range is promised.
        """
        planned = _planned(setting["sealed"], setting["queries"], setting["surprises"], self.confidence)
        own = [
            {"width": line["mechanism"], "statement": line["statement"], "published": False, "radius": line["radius"]}
            for line in planned["lines"]
            if MECHANISMS[line["mechanism"]].traits.adaptive
        ]
        others = [
            {"width": line["statement"], "statement": line["statement"], "published": True, "radius": line["radius"]}
            for line in planned["published"]
        ]
        fixed = hoeffding_radius(setting["sealed"], confidence=self.confidence)
        bare = {"width": _BARE, "statement": "none", "published": False, "radius": None}
        return [*own, *others, {"width": _FIXED, "statement": "P9", "published": True, "radius": fixed}, bare]


@lru_cache(maxsize=256)
def _planned(rows: int, queries: int, surprises: int, confidence: float) -> dict[str, Any]:
    """Return the plan as plain data, which is cached and must not be changed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VacuousGuaranteeWarning)  # lines simply end there
        return plan(rows=rows, queries=queries, surprises=surprises, confidence=confidence).to_dict()


def _playable(planned: Mapping[str, Any], *, sweep: str) -> list[str]:
    """Return the mechanisms with a useful promise about every answer.

    A sweep over surprises keeps only those that count surprises.
    """
    promised = {line["mechanism"]: line["radius"] for line in planned["lines"]}
    return [
        name
        for name, kind in answering().items()
        if kind.traits.adaptive
        and not kind.traits.one_sided
        and (sweep == "queries" or kind.traits.needs_guess)
        and name != "sample_splitting"  # simulating its parts takes rows times queries
        and promised[name] is not None
        and promised[name] < _VACUOUS
    ]


def _game(width: str, analyst: str, error: float, violated: bool | None) -> Row:
    return {"width": width, "analyst": analyst, "worst_error": error, "violated": violated}


def _by_place(rows: Sequence[Row]) -> dict[tuple[Any, ...], dict[int, list[Row]]]:
    """Return the rows of all games, grouped by setting and width and then by repetition."""
    games: dict[tuple[Any, ...], dict[int, list[Row]]] = {}
    for row in rows:
        place = tuple(row[name] for name in (*_PLACE, "width"))
        games.setdefault(place, {}).setdefault(row["repetition"], []).append(row)
    return games


def _seen(games: Mapping[int, Sequence[Row]]) -> Row:
    """Return the worst error of the strongest attack: mean over repetitions, smallest and largest."""
    if not games:
        return {"worst_error": None, "worst_error_low": None, "worst_error_high": None, "games": 0, "violations": 0}
    worst = [max(row["worst_error"] for row in attacks) for attacks in games.values()]
    everything = [row for attacks in games.values() for row in attacks]
    return {
        "worst_error": float(np.mean(worst)),
        "worst_error_low": min(worst),
        "worst_error_high": max(worst),
        "games": len(everything),
        "violations": sum(bool(row["violated"]) for row in everything),
    }


def _places(summary: Sequence[Row]) -> list[list[Row]]:
    places: dict[tuple[Any, ...], list[Row]] = {}
    for line in summary:
        places.setdefault((line["sweep"], line["sealed"], line["queries"], line["surprises"]), []).append(line)
    return list(places.values())


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


def _promise_chart(lines: Sequence[Row], sweep: str, what: str) -> Any:
    return panel_chart(
        _promises(lines, sweep),
        horizontal=PanelAxis(what),
        vertical=PanelAxis("promised radius"),
        colours=_COLOURS,
        kinds=_KINDS,
        columns=2,
    )


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
