"""Figures 2 and 3 of Zhao 2017: how wrong a reused holdout of dependent rows becomes, and what protects it.

The paper does not say how its rows depend on each other. Here they copy: in a chain each row repeats the record of the
row before with some probability and is drawn anew otherwise; in groups all rows of a group carry one record. Training
rows and sealed rows are two series, or two sets of groups, that are independent of each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from everhold.dependence import Independent
from everhold.mechanisms import GuessAndCheck
from everhold.mechanisms.records import Evaluations
from everhold.randomness import SeededNoise
from everhold_lab.audit.boards import CopiedInGroups, CopiedInOrder
from everhold_lab.experiments import Experiment, Picture, accuracies, accuracy_bands, error_shares, mean_of
from everhold_lab.experiments.attributes import Attributes
from everhold_lab.published.thresholdout import thresholdout_zhao2017, zhao_theorem_2_rows
from everhold_privacy.mechanisms.averages import Empirical
from everhold_privacy.mechanisms.thresholdout import Thresholdout

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from everhold.dependence import DependenceModel
    from everhold.mechanisms import Mechanism
    from everhold.randomness import Noise
    from everhold_lab.audit.boards import Population
    from everhold_lab.experiments import Row, Setting
    from everhold_lab.experiments.attributes import AttributeSample


@dataclass(frozen=True, slots=True)
class Reuse:
    """Result of an analyst's use of a holdout, in arrays with one entry for each k.

    Attributes:
        selected: Attributes that voted.
        training: Accuracy on the training rows.
        reported: Accuracy as the holdout answered; nan where it refused.
        attribute_error: Largest distance of an answer about a single attribute from the population's value.
        releases: Answers for which the holdout was charged.
    """

    selected: NDArray[np.int64]
    training: NDArray[np.float64]
    reported: NDArray[np.float64]
    fresh: NDArray[np.float64]
    attribute_error: float
    releases: int
    refused: int

    def lines(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """Return one dictionary for each k, with None for nan."""
        return [
            {
                "k": k,
                "training": float(self.training[place]),
                "reported": None if np.isnan(self.reported[place]) else float(self.reported[place]),
                "fresh": float(self.fresh[place]),
                "error": _largest([self.reported[place] - self.fresh[place], self.attribute_error]),
                "selected": int(self.selected[place]),
                "releases": self.releases,
                "refused": self.refused,
            }
            for place, k in enumerate(numbers)
        ]


def reuse_holdout(
    mechanism: Mechanism,
    noise: Noise,
    *,
    law: Attributes,
    training: AttributeSample,
    holdout: AttributeSample,
    numbers: Sequence[int],
) -> Reuse:
    """Ask about every attribute and then about the vote of the best k for every k, and return the results.

    Args:
        mechanism: Mechanism that answers the analyst's queries from the holdout.
        noise: Noise that the mechanism draws.
        law: The law of one record.
        training: Rows that the analyst sees.
        holdout: The sealed rows, ``mechanism.rows`` of them; as many are in `training`.
        numbers: The numbers k of attributes.
    """
    rows, unit = mechanism.rows, mechanism.unit
    if not rows == training.rows == holdout.rows:
        raise ValueError(
            f"There are {training.rows} training rows and {holdout.rows} sealed rows. Pass {rows} of each."
        )
    state = mechanism.start(noise)

    def ask(totals: NDArray[np.int64], guesses: NDArray[np.int64]) -> tuple[NDArray[np.float64], int, int]:
        nonlocal state
        batch = Evaluations(totals=totals[:, None], guesses=guesses, rows=rows, unit=unit)
        state, replies = mechanism.answer_many(state, batch, noise)
        return replies.values, int(replies.charged.sum()), int(np.isnan(replies.values).sum())

    known = training.agreeing
    answers, first_releases, first_refused = ask(holdout.agreeing * unit, known * unit)
    estimate = known / rows
    weights, selected = select(
        2.0 * estimate - 1.0,
        2.0 * np.where(np.isnan(answers), estimate, answers) - 1.0,
        least=1.0 / math.sqrt(rows),
        numbers=numbers,
    )
    right = training.right_votes(weights)
    reported, releases, refused = ask(holdout.right_votes(weights) * (unit // 2), right * (unit // 2))
    return Reuse(
        selected=selected,
        training=right / (2.0 * rows),
        reported=reported,
        fresh=np.array([law.accuracy(weights[:, place]) for place in range(len(numbers))]),
        attribute_error=_largest(answers - law.truth),
        releases=first_releases + releases,
        refused=first_refused + refused,
    )


def select(
    training: NDArray[np.float64], holdout: NDArray[np.float64], *, least: float, numbers: Sequence[int]
) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    """Return the votes of the k largest attributes in training, among those that the holdout confirms.

    Args:
        training: Correlation of each attribute with the label on the training rows, shape (attributes,).
        holdout: Correlation of each attribute with the label as the holdout answered it, shape (attributes,).
        least: Size that both must have at least.
        numbers: The numbers k; where fewer are confirmed, all of them vote.

    Returns:
        Weights -1, 0 or 1, shape (attributes, numbers), and how many are not 0 for each k.

    Examples:
        >>> select(np.array([0.3, -0.5, 0.4]), np.array([0.2, -0.1, -0.4]), least=0.1, numbers=[1, 2])[0].tolist()
        [[0, 1], [-1, -1], [0, 0]]
    """
    confirmed = (np.sign(training) == np.sign(holdout)) & (np.minimum(np.abs(training), np.abs(holdout)) >= least)
    order = np.argsort(-np.abs(training), kind="stable")
    order = order[confirmed[order]]
    weights = np.zeros((len(training), len(numbers)), dtype=np.int8)
    for place, k in enumerate(numbers):
        weights[order[:k], place] = np.sign(training[order[:k]])
    return weights, np.count_nonzero(weights, axis=0).astype(np.int64)


def _largest(errors: NDArray[np.float64] | Sequence[float]) -> float:
    """Return the largest absolute error of answered queries, 0 if none was answered."""
    sizes = np.abs(np.asarray(errors, dtype=np.float64))
    return float(np.max(sizes[~np.isnan(sizes)], initial=0.0))


PROTECTED = ("thresholdout_tuned", "guess_and_check_tuned")
"""Those whose promise is proven for dependent rows."""

_SLACK = 1.0 / 3.0  # c of Theorem 2


@dataclass(frozen=True, slots=True)
class Case:
    """A population, and how many rows are drawn for training and for the holdout each.

    Attributes:
        name: Name in words, such as "chain 0.5".
        rows: Number n of rows of each of the two samples.
        population: Law of the rows, of which several may carry the same record. Of its points only the number counts:
            that of the states of the declared chain.
    """

    name: str
    rows: int
    population: Population


@dataclass(frozen=True, slots=True, kw_only=True)
class Game:
    """Sizes and accuracy of the game that a mechanism is planned to play.

    Attributes:
        queries: m, queries about attributes and about votes.
        surprises: Planned number B of surprises.
        tolerance: tau, the half-width for which Theorem 2 calibrates the noise.
        confidence: 1 - beta.
    """

    case: Case
    law: Attributes
    queries: int
    surprises: int
    tolerance: float
    confidence: float


@dataclass(frozen=True, slots=True)
class Contender:
    """A mechanism in the comparison, and the radius that is claimed for it.

    Attributes:
        radius: Half-width that is claimed for all its answers.
        rows_needed: Rows that the claim needs by Theorem 2. None if the claim follows from another statement.
    """

    name: str
    mechanism: Mechanism
    radius: float
    rows_needed: int | None = None


@lru_cache(maxsize=256)
def contender(game: Game, name: str) -> Contender:
    """Return one of the compared mechanisms by name, computed once in each process.

    The radius of common reuse is what independent rows would give to queries that were fixed beforehand (P9).

    Raises:
        KeyError: If there is no analyst of this name.
    """
    true, independent = game.case.population.dependence(), Independent()
    if name == "common":
        return _promised(name, Empirical.tuned(**_request(game, independent)))
    if name == "thresholdout_theorem2":
        calibrated = thresholdout_zhao2017(
            **_request(game, true), surprises=game.surprises, tolerance=game.tolerance, slack=_SLACK
        )
        return Contender(name, calibrated, game.tolerance, rows_of_theorem_2(game))
    kinds: dict[str, tuple[Any, DependenceModel]] = {
        "thresholdout_tuned": (Thresholdout, true),
        "guess_and_check_tuned": (GuessAndCheck, true),
        "thresholdout_iid": (Thresholdout, independent),
        "guess_and_check_iid": (GuessAndCheck, independent),
    }
    mechanism, declared = kinds[name]
    return _promised(name, mechanism.tuned(**_request(game, declared), surprises=game.surprises))


def _promised(name: str, mechanism: Mechanism) -> Contender:
    return Contender(name, mechanism, mechanism.promise().radius)


def _request(game: Game, declared: DependenceModel) -> dict[str, Any]:
    """Return rows, queries, the declared model, and a confidence corrected for the size of the declared model.

    Any two different records of a chain that copies are ``P^h(x, .)`` and ``P^h(x', .)`` apart by the same ``rho^h``,
    whatever the number of possible records, which is astronomical here. A declared chain of S states gives the same
    norm (S5) and, in S4, the same law of H for unequal states; only it takes two draws to be equal with probability
    ``1/S``. So its leakage is at least ``1 - 1/S`` times the true one, and S1 at ``beta (1 - 1/S)`` for the declared
    chain implies S1 at beta for the true one.
    """
    failure = 1.0 - game.confidence
    population = game.case.population
    if isinstance(population, CopiedInOrder) and not declared.independent:
        failure *= 1.0 - 1.0 / (2 * population.points)
    return {
        "rows": game.case.rows,
        "queries": game.queries,
        "confidence": 1.0 - failure,
        "dependence": declared,
    }


def rows_of_theorem_2(game: Game) -> int:
    """Return the rows that Theorem 2 needs for its tolerance with the population's quilts (P2).

    A row of a group has an empty quilt, and its group is nearby. A row of a chain has the quilts ``{i-h, i+h}``. Their
    influence is a ratio of probabilities of single records, ``1 + rho^h / ((1 - rho^h) p)`` with the least probability
    p of a record, so the paper's price grows with the number of attributes.
    """

    def price(tolerance: float) -> float:
        population, epsilon = game.case.population, tolerance / 3.0
        if isinstance(population, CopiedInOrder):
            log_correlation = math.log(population.correlation)
            enough = (math.log(epsilon) - game.law.log_least - 40.0) / log_correlation  # there b is below e^-40 eps
            steps = np.arange(1, math.ceil(enough) + 1)
            kept = steps * log_correlation
            influence = np.logaddexp(0.0, kept - np.log(-np.expm1(kept)) + game.law.log_least)
            left = epsilon - 8.0 * influence
            prices = np.divide(2.0 * steps - 1.0, left, out=np.full(len(steps), math.inf), where=left > 0.0)
            return float(prices.min())
        return population.dependence().bayesian_price(epsilon, game.case.rows)

    return int(
        zhao_theorem_2_rows(
            game.tolerance, queries=game.queries, surprises=game.surprises, confidence=game.confidence, slack=_SLACK,
            price=price,
        ).rows
    )  # fmt: skip


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
    """Return the populations by name, each with the number of rows to draw."""
    return tuple(Case(name, number, _POPULATIONS[name]) for name, number in rows.items())


@dataclass(frozen=True, kw_only=True)
class _Reuse(Experiment):
    """Base of both figures' experiments.

    Attributes:
        cases: Populations with their numbers of rows.
        numbers: Numbers k of attributes that vote.
        surprises: Planned number of releases from the holdout.
        tolerance: Half-width for which Theorem 2 calibrates the noise.
        confidence: 1 - beta of every promise.
    """

    cases: tuple[Case, ...] = ()
    attributes: int = 1_000
    numbers: tuple[int, ...] = _NUMBERS
    surprises: int = 10
    tolerance: float = 0.1
    confidence: float = 0.95

    keys: ClassVar[tuple[str, ...]] = ("analyst", "signal", "k", "rows_move")
    analysts: ClassVar[tuple[str, ...]]

    def settings(self) -> Sequence[Setting]:
        """Return every population, without and with a signal."""
        return [
            {"rows_move": case.name, "rows": case.rows, "signal": signal}
            for case in self.cases
            for signal in (False, True)
        ]

    def play(self, setting: Setting, seed: int) -> list[Row]:
        """Play all analysts on the same training rows and the same sealed rows."""
        case = next(case for case in self.cases if case.name == setting["rows_move"])
        law = Attributes(count=self.attributes, knowing=_KNOWING if setting["signal"] else 0)
        game = Game(
            case=case, law=law, queries=self.attributes + len(self.numbers),
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

    def line(self, rows: Sequence[Row]) -> Row:
        """Return means and standard deviations of one population, analyst and k, without refused answers."""
        return {
            **accuracies(rows),
            **{name: rows[0][name] for name in ("rows", "radius", "rows_needed")},
            "repetitions": len(rows),
            "answered": sum(row["reported"] is not None for row in rows),
            "worst_error": max(row["error"] for row in rows),
            "broken": sum(row["error"] > row["radius"] for row in rows),
            "releases": mean_of(rows, "releases"),
            "refused": mean_of(rows, "refused"),
        }


@dataclass(frozen=True, kw_only=True)
class Figure2(_Reuse):
    """Experiment on the unprotected reuse of a holdout with increasingly dependent rows."""

    name: ClassVar[str] = "figure2"
    title: ClassVar[str] = "Common reuse of a holdout whose rows depend on each other"
    source: ClassVar[str] = f"{_SOURCE}, Figure 2"
    about: ClassVar[str] = (
        "An analyst reuses one holdout without protection, as in the paper's Figure 2. Attributes that predict the "
        "label well on the training rows and on the holdout vote together, and the same holdout reports the accuracy "
        "of the vote. Without a signal no attribute has to do with the label, so no vote is better than a coin. Rows "
        "copy each other: in a chain each row repeats the one before with some probability, and in groups all rows "
        "are equal. The fewer different rows there are, the more the report exceeds the true accuracy of the vote, "
        "which is computed exactly."
    )
    analysts: ClassVar[tuple[str, ...]] = ("common",)

    cases: tuple[Case, ...] = _cases(dict.fromkeys(_POPULATIONS, 20_000))
    attributes: int = 2_000

    def findings(self, summary: Sequence[Row], rows: Sequence[Row]) -> Mapping[str, bool]:
        """Find that without a signal common reuse of dependent rows reports far too much."""
        gaps = {
            line["rows_move"]: line["reported"] - line["fresh"]
            for line in summary
            if line["k"] == max(self.numbers) and not line["signal"]
        }
        return {
            f"{_TITLES[name]}: common reuse reports {gap:.3f} more than the truth at "
            f"{max(self.numbers)} attributes without a signal (expected: more than {_GAP})": gap > _GAP
            for name, gap in gaps.items()
            if name != "independent"
        }

    def pictures(self, summary: Sequence[Row], rows: Sequence[Row]) -> list[Picture]:
        """Return charts of accuracy against the number of attributes, a panel for each population."""
        return [
            _bands(summary, signal=signal, panels="rows_move", titles=_TITLES, name=name, what=what)
            for signal, name, what in (
                (False, "common-reuse", "Common reuse, no signal"),
                (True, "common-reuse-signal", "Common reuse, with a signal"),
            )
        ]


@dataclass(frozen=True, kw_only=True)
class Figure3(_Reuse):
    """Experiment on Algorithm 1 and what else protects a holdout of dependent rows."""

    name: ClassVar[str] = "figure3"
    title: ClassVar[str] = "A protected holdout whose rows depend on each other"
    source: ClassVar[str] = f"{_SOURCE}, Figure 3"
    about: ClassVar[str] = (
        "An analyst lets attributes that predict the label vote, as in the experiment on common reuse, and plays "
        "against six holdouts. One is unprotected. One is Zhao's Algorithm 1 (Thresholdout) with the noise of his "
        "Theorem 2, which needs far more rows than there are, and whose proof for dependent rows is incomplete. "
        "Thresholdout (S1, S4) and guess and check (S3, S5) are planned with the right dependence, and once more as "
        "if the rows were independent. The claimed radius is for all answers at once, about single attributes and "
        "about votes. Populations with strong dependence have more rows, because otherwise no mechanism could promise "
        "anything."
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
        """Find that bounds for dependent rows always hold, and that bounds that ignore dependence do not."""
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
        """Return charts of accuracy for each population, and of errors as shares of the claimed radius."""
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
    """Return the line in which the error is the largest fraction of the claimed radius."""
    return max(lines, key=lambda line: float(line["worst_error"] / line["radius"]))


def _bands(
    summary: Sequence[Row], *, signal: bool, panels: str, titles: Mapping[str, str], name: str, what: str
) -> Picture:
    lines = [line for line in summary if line["signal"] == signal]
    present = {value: title for value, title in titles.items() if any(line[panels] == value for line in lines)}
    chart = accuracy_bands(
        lines, horizontal=("k", "number of attributes that vote"), panels=panels, panel_titles=present
    )
    caption = (
        "Lines are mean accuracies of the vote over all repetitions, by the number of attributes that vote. Bands are "
        "one standard deviation to each side. Where a line is missing, the holdout refused to answer."
    )
    return Picture(name, what, caption, chart)
