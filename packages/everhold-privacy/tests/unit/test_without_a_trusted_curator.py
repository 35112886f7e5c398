"""Local privacy, continual observation and pan privacy: exact laws of small cases, and published bounds."""

import itertools
import math

import numpy as np
import pytest

from everhold.randomness import SeededNoise
from everhold_privacy.without_curator import (
    ContinualCounter,
    DensityEstimator,
    RandomisedResponse,
    published_counting_error,
)


def reported(response: RandomisedResponse, own: int) -> np.ndarray:
    """Law of the report of a class."""
    return np.where(np.arange(response.classes) == own, response.keep, response.other)


@pytest.mark.parametrize(("classes", "epsilon"), [(2, 0.1), (3, 1.0), (7, 4.0), (300, 0.5)])
def test_a_report_loses_no_more_than_it_says(classes: int, epsilon: float) -> None:
    response = RandomisedResponse(classes, epsilon)
    laws = np.array([reported(response, own) for own in range(min(classes, 8))])
    assert np.allclose(laws.sum(axis=1), 1.0, atol=1e-12)
    largest = float(np.log(laws.max(axis=0) / laws.min(axis=0)).max())
    assert epsilon * (1.0 - 1e-9) <= largest <= response.curve.epsilon(0.0) + 1e-12 <= epsilon + 2e-12


def test_its_probability_is_that_of_opendp() -> None:
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    response = RandomisedResponse(3, 1.0)
    theirs = dp.m.make_randomized_response(["a", "b", "c"], prob=response.keep)
    assert theirs.map(1) == pytest.approx(response.curve.epsilon(0.0), rel=1e-9)


def test_reports_have_their_law_and_frequencies_are_unbiased() -> None:
    response = RandomisedResponse(3, 1.0)
    reports = response.report(np.full(40_000, 1), SeededNoise(5))
    shares = np.bincount(reports, minlength=3) / 40_000
    assert np.abs(shares - reported(response, 1)).max() < 5.0 * math.sqrt(0.25 / 40_000)
    means = sum(
        np.prod([reported(response, own)[report] for own, report in zip((0, 2, 2), path, strict=True)])
        * response.frequencies(path).values
        for path in itertools.product(range(3), repeat=3)
    )
    assert np.allclose(means, [1 / 3, 0.0, 2 / 3], atol=1e-12)


def missed(response: RandomisedResponse, share: float, *, carried_over: bool) -> float:
    """Probability that the interval of six people's share misses, where each is of class 1 with that chance."""
    chance = response.other + (response.keep - response.other) * share
    total = 0.0
    for ones in range(7):
        found = response.frequencies([1] * ones + [0] * (6 - ones), confidence=0.7)
        low, high = found.low[1], found.high[1]
        if not carried_over:
            low, high = (end * (response.keep - response.other) + response.other for end in (low, high))
        total += math.comb(6, ones) * chance**ones * (1.0 - chance) ** (6 - ones) * (not low <= share <= high)
    return total


def test_intervals_hold_and_those_of_the_reports_do_not() -> None:
    response = RandomisedResponse(2, 1.0)
    shares = np.linspace(0.0, 1.0, 41)
    assert max(missed(response, share, carried_over=True) for share in shares) <= 0.3
    assert max(missed(response, share, carried_over=False) for share in shares) > 0.3
    assert response.radius(1_000) < response.transferred_radius(1_000)


def test_an_arrival_is_in_one_node_of_each_level() -> None:
    counter = ContinualCounter(horizon=13, epsilon=1.0)

    class NoNoise(SeededNoise):
        def laplace(self, scale: int, size: int, *, stream: str) -> np.ndarray:
            return np.zeros(size, dtype=np.int64)

    values = np.arange(1, 14)
    assert list(counter.counts(values, NoNoise(0))) == list(np.cumsum(values))
    for place in range(13):
        state, nodes = counter.start, 0
        for time in range(13):
            state, _ = counter.step(state, int(time == place), NoNoise(0))
            level = ((time + 1) & -(time + 1)).bit_length() - 1  # of the node that was made
            nodes += state.sums[level]
        assert nodes <= counter.levels
    with pytest.raises(ValueError, match="that many arrivals were counted already"):
        counter.step(state, 1, NoNoise(0))


def test_errors_of_counts_are_those_of_the_exact_law_and_within_the_published_bound() -> None:
    counter = ContinualCounter(horizon=100, epsilon=2.0)
    one = np.exp(-np.abs(np.arange(-400, 401)) / counter.scale)
    one /= one.sum()
    three = np.convolve(np.convolve(one, one), one)
    beyond = three[np.abs(np.arange(-1200, 1201)) > 25].sum()
    assert counter.exceeded(25, 3) == pytest.approx(beyond, rel=1e-9)
    worst = next(error for error in range(1_000) if counter.exceeded(error, counter.levels) <= 0.05)
    assert worst <= published_counting_error(100, epsilon=2.0, failure=0.05)
    radius, missing = counter.radius(confidence=0.8), 0
    for seed in range(60):
        told = counter.counts([1] * 100, SeededNoise(seed))
        missing += int(np.abs(told - np.arange(1, 101)).max() > radius)
    assert missing <= 24  # a fifth is allowed; more than two fifths has a probability below 1e-4


def density_loss(estimator: DensityEstimator, *, told: float) -> float:
    """Largest log ratio of the law of (bit when the state was seized, noisy ones), whether an item came or not.

    Args:
        estimator: Of one item.
        told: P[1] of the bit of an item that came.
    """
    noise = np.exp(-np.abs(np.arange(-60, 61)) / estimator.scale)
    noise /= noise.sum()
    coin, came = np.array([0.5, 0.5]), np.array([1.0 - told, told])

    def law(*, before: bool, after: bool) -> np.ndarray:
        joint = np.zeros((2, 122))
        for seized, last in itertools.product((0, 1), repeat=2):
            chance = (came if before else coin)[seized] * (came[last] if after else float(seized == last))
            joint[seized, last : last + 121] += chance * noise
        return joint

    never, largest = law(before=False, after=False), 0.0
    for before, after in ((True, False), (False, True), (True, True)):
        other = law(before=before, after=after)
        inside = slice(2, -2)  # where no law was cut off
        largest = max(largest, float(np.abs(np.log(never[:, inside] / other[:, inside])).max()))
    return largest


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
def test_whoever_seizes_the_state_once_learns_no_more_than_the_curve_says(epsilon: float) -> None:
    estimator = DensityEstimator(items=1, epsilon=epsilon)
    allowed = estimator.curve.epsilon(0.0)
    assert density_loss(estimator, told=estimator.seen) <= allowed + 1e-9
    assert density_loss(estimator, told=min(estimator.seen + 0.4 * epsilon, 0.999)) > allowed  # a larger bias


def test_the_density_is_unbiased_and_within_its_radius() -> None:
    estimator, inside = DensityEstimator(items=2_000, epsilon=1.0), 0
    for seed in range(40):
        noise = SeededNoise(seed)
        bits = estimator.start(noise)
        for item in (*range(600), *range(100)):
            bits = estimator.see(bits, item, noise)
        inside += abs(estimator.density(bits, noise) - 0.3) <= estimator.radius(confidence=0.9)
    assert inside >= 30


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (RandomisedResponse, {"classes": 1, "epsilon": 1.0}),
        (RandomisedResponse, {"classes": 2, "epsilon": 0.0}),
        (RandomisedResponse, {"classes": 2, "epsilon": 1e-15}),
        (ContinualCounter, {"horizon": 0, "epsilon": 1.0}),
        (ContinualCounter, {"horizon": 5, "epsilon": math.nan}),
        (DensityEstimator, {"items": 0, "epsilon": 0.5}),
        (DensityEstimator, {"items": 5, "epsilon": 1.5}),
        (DensityEstimator, {"items": 5, "epsilon": 1e-20}),
    ],
)
def test_wrong_arguments_are_named(make: type, wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"is .*\. Pass"):
        make(**wrong)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 1.5, -1.0, math.nan])
def test_a_confidence_that_is_no_probability_is_refused(confidence: float) -> None:
    """A search for an error that holds with such a confidence would never end."""
    response = RandomisedResponse(3, 1.0)
    for of in (
        ContinualCounter(5, 1.0).radius,
        DensityEstimator(5, 0.5).radius,
        lambda *, confidence: response.radius(5, confidence=confidence),
        lambda *, confidence: response.frequencies([0, 1], confidence=confidence),
    ):
        with pytest.raises(ValueError, match="confidence is"):
            of(confidence=confidence)


@pytest.mark.parametrize("classes", [[0.7], [math.nan], ["1"], [True], [3], [-1], [[1]]])
def test_what_is_no_class_number_is_refused(classes: list[object]) -> None:
    """A float would be reported as the class below it."""
    response = RandomisedResponse(3, 1.0)
    with pytest.raises(ValueError, match="not a whole number from 0 to 2"):
        response.report(classes, SeededNoise(0))
    with pytest.raises(ValueError, match="not a whole number from 0 to 2"):
        response.frequencies(classes)


def test_nothing_is_estimated_from_nobody() -> None:
    response = RandomisedResponse(3, 1.0)
    assert response.report([], SeededNoise(0)).tolist() == []
    with pytest.raises(ValueError, match="number of reports is 0"):
        response.frequencies([])
    with pytest.raises(ValueError, match="people is 0"):
        response.radius(0)


@pytest.mark.parametrize("classes", [2, 300])
def test_the_least_epsilon_still_tells_something(classes: int) -> None:
    response = RandomisedResponse(classes, 1e-9)
    assert 0.0 < math.log(response.keep / response.other) <= 1e-9
