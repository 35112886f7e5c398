"""Experiment on the reusable holdout (Dwork et al. 2015), where attributes are chosen and judged by the holdout."""

from __future__ import annotations

import math
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from everhold.mechanisms import GuessAndCheck, Mechanism
from everhold.randomness import SeededNoise
from everhold_lab.experiments import Experiment, Picture, Row, Setting, accuracies, accuracy_bands, mean_of
from everhold_lab.experiments.attributes import (
    AttributeHoldout,
    AttributeLaw,
    PlainHoldout,
    PromisingHoldout,
    PublishedThresholdout,
    Reported,
    draw_columns,
    draw_samples,
    right_votes,
    vote_accuracy,
)
from everhold_privacy.mechanisms.thresholdout import Thresholdout

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from everhold_lab.experiments.attributes import LinearSample


ANALYSTS = {
    "common": "plain reuse",
    "thresholdout": "Thresholdout as published",
    "thresholdout_tuned": "Thresholdout with everhold's promise",
    "guess_and_check_tuned": "Guess and check with everhold's promise",
}
"""Titles of the analysts by name."""

SERIES = ("training", "reported", "fresh")
"""The accuracies of a row."""


def without_signal(lines: Mapping[tuple[bool, str, int], Row], *, most: int) -> dict[str, bool]:
    """Return the findings without signal: plain reuse reports luck as accuracy, the published Thresholdout does not.

    Args:
        lines: Rows of the summary by signal, analyst and k.
        most: The largest k.
    """
    common, published = lines[False, "common", most], lines[False, "thresholdout", most]
    where, gap = f"no signal, k = {most}", abs(published["reported"] - published["fresh"])
    return {
        f"{where}, {ANALYSTS['common']}: the holdout reports {common['reported']:.3f}, more than 0.62": (
            common["reported"] > 0.62
        ),
        f"{where}, {ANALYSTS['common']}: fresh rows give {common['fresh']:.3f}, 0.50 up to 0.01": (
            abs(common["fresh"] - 0.5) <= 0.01
        ),
        f"{where}, {ANALYSTS['thresholdout']}: reported {published['reported']:.3f} and fresh "
        f"{published['fresh']:.3f} differ by {gap:.3f}, at most 0.03": gap <= 0.03,
    }


def with_signal(lines: Mapping[tuple[bool, str, int], Row], *, law: AttributeLaw) -> dict[str, bool]:
    """Return the findings with signal: if k is the number of informative attributes, the three accuracies agree.

    Args:
        lines: Rows of the summary by signal, analyst and k.
        law: Distribution of the attributes.
    """
    count = law.informative
    ideal = vote_accuracy(law, order=np.arange(count), signs=np.ones(law.attributes), counts=[count])
    best, found = float(ideal[0]), {}
    for analyst in ("common", "thresholdout"):
        training, reported, fresh = values = [lines[True, analyst, count][series] for series in SERIES]
        found[
            f"signal, k = {count}, {ANALYSTS[analyst]}: training {training:.3f}, reported {reported:.3f} and fresh "
            f"{fresh:.3f} agree up to 0.01, near {best:.3f}"
        ] = max(values) - min(values) <= 0.01 and abs(fresh - best) <= 0.01
    return found


def promise_kept(analyst: str, rows: Sequence[Row]) -> dict[str, bool]:
    """Find whether every answer of every repetition is within its radius and stated interval."""
    if not rows:
        return {}
    answered = [row for row in rows if row["low"] is not None]
    worst = max((abs(row["reported"] - row["population"]) for row in answered), default=0.0)
    refused, radius = sum(row["refused"] for row in rows), rows[0]["radius"]
    inside = all(row["low"] <= row["population"] <= row["high"] for row in answered) and (bool(answered) or not refused)
    return {
        f"{ANALYSTS[analyst]}: every reported accuracy is within {radius:.3f} of the population's; the farthest of "
        f"{len(answered)} is {worst:.3f} away, {refused} were refused": inside and worst <= radius,
        f"{ANALYSTS[analyst]}: so is every correlation, in every repetition": all(
            row["correlations_hold"] for row in rows
        ),
    }


def time_spent(rows: Sequence[Row]) -> dict[str, bool]:
    """Return the finding on whether drawing numbers and adding up products takes most of the time."""
    every, drawing = sum(row["seconds"] for row in rows), sum(row["seconds_drawing"] for row in rows)
    return {
        f"a repetition takes {every / len(rows):.1f} seconds of one core, {drawing / every:.0%} of them for drawing "
        "numbers and adding up products, which is most": drawing > 0.5 * every
    }


_TUNED: dict[str, type[Thresholdout | GuessAndCheck]] = {
    "thresholdout_tuned": Thresholdout,
    "guess_and_check_tuned": GuessAndCheck,
}
_PAPER_AXIS = (0.45, 0.75)
_WHAT = {
    False: ("no-signal", "No attribute has to do with the label"),
    True: ("signal", "Twenty attributes lean towards the label"),
}


_SEEN = {
    False: "Fresh rows show that nothing was found. Plain reuse reports luck.",
    True: "All agree while attributes that lean join. Then luck joins, and plain reuse takes it for more signal.",
}


@dataclass(frozen=True, slots=True)
class _Choice:
    """The attributes that an analyst chose, with the holdout's answers."""

    analyst: str
    access: AttributeHoldout
    order: NDArray[np.int64]  # the chosen attributes, best first
    training: NDArray[np.int64]  # rows classified rightly, for each number of attributes
    reported: Reported
    voted: NDArray[np.bool_]  # where any attribute votes, for each number of attributes

    def rows(
        self, game: Dwork2015, law: AttributeLaw, *, fresh: NDArray[np.int64], population: NDArray[np.float64]
    ) -> Iterator[Row]:
        """Yield the measured lines, one for each number of attributes."""
        access, told = self.access, self.reported
        reported, lows, highs = (_placed(part, self.voted) for part in (told.values, told.lows, told.highs))
        radius = access.mechanism.promise().radius if isinstance(access, PromisingHoldout) else None
        held = access.correlations_hold(law) if isinstance(access, PromisingHoldout) else None
        for position, count in enumerate(game.counts):
            asked = bool(self.voted[position])
            yield {
                "analyst": self.analyst,
                "signal": law.informative > 0,
                "k": count,
                "training": int(self.training[position]) / game.rows if asked else 0.5,
                "reported": _number(reported[position]) if asked else 0.5,
                "fresh": int(fresh[position]) / game.rows if asked else 0.5,
                "population": float(population[position]),
                "radius": radius,
                "low": _number(lows[position]),
                "high": _number(highs[position]),
                "refused": asked and bool(np.isnan(reported[position])),
                "correlations_hold": held,
            }


@dataclass(frozen=True, slots=True, kw_only=True)
class Dwork2015(Experiment):
    """Experiment in which attributes that look good on training set and holdout vote, judged by the holdout.

    For ``k = 0``, or if no attribute was kept, the classifier is a fair coin: one half by definition, as in the paper's
    figure, and nothing is asked. If fewer than k are kept, all of them vote.

    Attributes:
        rows: Rows n of the training set, of the holdout and of the fresh set.
        attributes: Number d of attributes.
        informative: Number of shifted attributes in the setting with signal.
        lean: Shift of an informative attribute times the square root of n.
        counts: The numbers k of attributes that vote, increasing, with 0 and ``informative`` among them.
        clip: Products of attribute and label are clipped to ``[-clip, clip]`` for the holdouts that promise: at 3 the
            mean of an informative one moves by 0.3 %, and a wider range would make every radius wider in proportion.
        confidence: Confidence of the promise of the tuned holdouts.
    """

    rows: int = 10_000
    attributes: int = 10_000
    informative: int = 20
    lean: float = 6.0
    counts: tuple[int, ...] = (0, 10, 20, 30, 45, 70, 100, 150, 200, 250, 300, 400, 500)
    clip: float = 3.0
    confidence: float = 0.95

    name: ClassVar[str] = "dwork2015"
    keys: ClassVar[tuple[str, ...]] = ("analyst", "signal", "k")
    title: ClassVar[str] = "The reusable holdout"
    source: ClassVar[str] = (
        "Dwork, Feldman, Hardt, Pitassi, Reingold, Roth 2015, The reusable holdout (Science 349), both figures"
    )
    about: ClassVar[str] = (
        "An analyst computes the correlations of 10,000 normal attributes with a random label, on 10,000 training "
        "rows and, through the holdout, on 10,000 sealed rows. Attributes are kept if both correlations have the same "
        "sign and exceed 1/sqrt(n). Of these, the k attributes with the largest training correlation vote, and the "
        "same holdout reports the accuracy of the vote. Without a signal no accuracy can be above one half, but plain "
        "reuse of the holdout reports more. The published Thresholdout reports values near one half, but promises "
        "nothing. The tuned holdouts, planned for one surprise for each accuracy, promise an interval for the "
        "population value of every correlation and every accuracy."
    )

    def __post_init__(self) -> None:
        if list(self.counts) != sorted(set(self.counts)) or not {0, self.informative} <= set(self.counts):
            raise ValueError(
                f"counts is {self.counts}. Pass increasing numbers, among them 0 and {self.informative}, the value "
                "of informative."
            )

    def settings(self) -> Sequence[Setting]:
        """Return the settings without and with signal."""
        return [{"signal": False}, {"signal": True}]

    def law(self, *, signal: bool) -> AttributeLaw:
        """Return the distribution of the attributes.

        Args:
            signal: Whether some attributes lean towards the label. If False, none does.
        """
        return AttributeLaw(
            attributes=self.attributes,
            informative=self.informative if signal else 0,
            shift=self.lean / math.sqrt(self.rows),
        )

    def mechanism(self, analyst: str) -> Mechanism:
        """Return the mechanism of a tuned analyst, planned for all correlations and accuracies.

        The plan allows a surprise for each accuracy and none for correlations, because correlations were chosen without
        looking at the training rows.
        """
        asked = sum(count > 0 for count in self.counts)
        return _tuned(analyst, self.rows, self.attributes + asked, asked, self.confidence)

    def play(self, setting: Setting, seed: int) -> list[Row]:
        """Play all analysts on the same rows, and return a row for each of them and each k.

        ``seconds`` is the processor time of the repetition, ``seconds_drawing`` the part of it that went into drawing
        numbers and adding up products; they alone differ from run to run.
        """
        started, drawing = time.process_time(), _Clock()
        law = self.law(signal=bool(setting["signal"]))
        streams = np.random.SeedSequence([seed, int(setting["signal"])]).spawn(4)
        generators = [np.random.Generator(np.random.SFC64(stream)) for stream in streams[:3]]
        with drawing.running():
            training, holdout = draw_samples(
                law, rows=self.rows, clip=self.clip, keep_beyond=_cutoff(self.rows),
                training=generators[0], holdout=generators[1],
            )  # fmt: skip
        seeds = streams[3].spawn(len(ANALYSTS))
        choices = [
            self._choose(analyst, self._holdout(analyst, stream), training, holdout, drawing)
            for analyst, stream in zip(ANALYSTS, seeds, strict=True)
        ]
        with drawing.running():
            chosen = set().union(*(choice.order.tolist() for choice in choices))
            fresh = draw_columns(law, rows=self.rows, chosen=chosen, generator=generators[2])
        signs = np.sign(training.correlations)
        rows: list[Row] = []
        for choice in choices:
            with drawing.running():
                right = right_votes(fresh, order=choice.order, signs=signs, counts=self.counts)
            truth = vote_accuracy(law, order=choice.order, signs=signs, counts=self.counts)
            rows += choice.rows(self, law, fresh=right, population=truth)
        times = {"seconds_drawing": drawing.seconds, "seconds": time.process_time() - started}
        return [{**row, **times} for row in rows]

    def _holdout(self, analyst: str, stream: np.random.SeedSequence) -> AttributeHoldout:
        if analyst == "common":
            return PlainHoldout()
        if analyst == "thresholdout":
            return PublishedThresholdout(self.rows, np.random.default_rng(stream))
        noise = SeededNoise(int(stream.generate_state(1, np.uint64)[0]))
        return PromisingHoldout(self.mechanism(analyst), clip=self.clip, noise=noise)

    def _choose(
        self, analyst: str, access: AttributeHoldout, training: LinearSample, holdout: LinearSample, drawing: _Clock
    ) -> _Choice:
        """Select and order attributes, form votes of the first ones, and ask for the accuracies of these votes."""
        seen, told = training.correlations, access.correlations(training, holdout)
        agrees = (np.sign(seen) == np.sign(told)) & (np.minimum(np.abs(seen), np.abs(told)) > _cutoff(self.rows))
        kept = np.flatnonzero(agrees)  # nan, a refused answer, agrees with nothing
        order = kept[np.argsort(-np.abs(seen[kept]), kind="stable")][: max(self.counts)]
        with drawing.running():
            right = [
                right_votes(sample.columns, order=order, signs=np.sign(seen), counts=self.counts)
                for sample in (training, holdout)
            ]
        voted = np.minimum(self.counts, len(order)) > 0
        told_of = access.accuracies(right[0][voted], right[1][voted], rows=self.rows)
        return _Choice(analyst, access, order, right[0], told_of, voted)

    def line(self, rows: Sequence[Row]) -> Row:
        """Return means and standard deviations over the repetitions, without refused answers."""
        return {
            **accuracies(rows), "population": mean_of(rows, "population"), "radius": rows[0]["radius"],
            "refused": sum(row["refused"] for row in rows),
        }  # fmt: skip

    def findings(self, summary: Sequence[Row], rows: Sequence[Row]) -> Mapping[str, bool]:
        """Return the findings of the paper's figures and the promises, for the settings that were played."""
        lines = {(line["signal"], line["analyst"], line["k"]): line for line in summary}
        played = {line["signal"] for line in summary}
        found: dict[str, bool] = {}
        if False in played:
            found |= without_signal(lines, most=max(self.counts))
        if True in played:
            found |= with_signal(lines, law=self.law(signal=True))
        for analyst in _TUNED:
            found |= promise_kept(analyst, [row for row in rows if row["analyst"] == analyst])
        return found | time_spent(rows)

    def pictures(self, summary: Sequence[Row], rows: Sequence[Row]) -> list[Picture]:
        """Return one chart for each setting, with the vertical axis of the paper's figures."""
        played = dict.fromkeys(line["signal"] for line in summary)
        return [_picture(self, [line for line in summary if line["signal"] == signal], signal) for signal in played]


def _picture(game: Dwork2015, lines: Sequence[Row], signal: bool) -> Picture:
    name, title = _WHAT[signal]
    chart: Any = accuracy_bands(
        lines, horizontal=("k", "number of attributes that vote"), panels="analyst",
        panel_titles=ANALYSTS, domain=_PAPER_AXIS,
    )  # fmt: skip
    left, right = (game.mechanism(analyst) for analyst in _TUNED)
    caption = (
        f"{_SEEN[signal]} Bands are one standard deviation over the repetitions. The upper two panels correspond to "
        "the paper's figure. In the lower two, those of the tuned holdouts, every answer is promised to be within "
        f"{left.promise().radius:.2f} (left) and {right.promise().radius:.2f} (right) of the population's value. A "
        "training accuracy that is too high by less than half of this radius may be reported as it is, and then the "
        "line of reported accuracies covers that of training accuracies. An answer that is released on the right is "
        f"the middle of one of {right.parameters()['grid']} cells."
    )
    return Picture(name=f"dwork2015-{name}", title=title, caption=caption, chart=chart)


@lru_cache(maxsize=16)
def _tuned(analyst: str, rows: int, queries: int, surprises: int, confidence: float) -> Mechanism:
    return _TUNED[analyst].tuned(rows=rows, queries=queries, surprises=surprises, confidence=confidence)


def _cutoff(rows: int) -> float:
    """Return the correlation above which the analyst selects an attribute."""
    return 1.0 / math.sqrt(rows)


def _placed(values: NDArray[np.float64], where: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return an array with the values at the positions where queries were asked, and nan at the others."""
    placed = np.full(len(where), np.nan)
    placed[where] = values
    return placed


def _number(value: np.float64) -> float | None:
    return None if np.isnan(value) else float(value)


class _Clock:
    """Measures the processor time of marked blocks of code."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Return a context whose elapsed processor time is added to the clock."""
        started = time.process_time()
        yield
        self.seconds += time.process_time() - started
