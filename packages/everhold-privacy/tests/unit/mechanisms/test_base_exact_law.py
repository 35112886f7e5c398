"""The law of real transcripts on tiny data sets, enumerated and held against the curve that a mechanism publishes."""

import itertools

import numpy as np
import pytest
from exact_law import ExactLaw, hockey_stick, largest_excess
from noise_laws import discrete_laplace_pmf

from everhold.mechanisms import Source
from everhold_privacy.mechanisms.additive import GaussianMechanism, LaplaceMechanism
from everhold_privacy.mechanisms.thresholdout import Thresholdout


@pytest.fixture(autouse=True)
def without_intervals(monkeypatch):
    """They take most of the time of an answer and are functions of the released values, which are all that is read."""
    monkeypatch.setattr(Thresholdout, "transferred", lambda _, values, **how: (values, values))


def neighbouring(rows, bits):
    """All data sets of ``rows`` rows with ``bits`` bits each, and all pairs that differ in one row."""
    kinds = list(itertools.product((0, 1), repeat=bits))
    data = list(itertools.product(kinds, repeat=rows))
    pairs = [(x, y) for x in data for y in data if sum(a != b for a, b in zip(x, y, strict=True)) == 1]
    return data, pairs


def in_turn(transcript):
    return len(transcript), 0


def adaptive(seed, *, queries, steps):
    """An analyst whose next query and guess are fixed at random for every transcript."""

    def analyst(transcript):
        key = [seed, len(transcript), *(int(100 * value) if value != "refused" else 999 for value, _ in transcript)]
        generator = np.random.default_rng(key)
        return int(generator.integers(queries)), int(generator.integers(steps + 1))

    return analyst


def in_steps(kind, *, rows, unit=1, threshold=1, scales, **shared):
    """A mechanism with its threshold and integer noise scales given in grid steps of a sum."""
    steps = rows * unit
    if kind is not Thresholdout:
        return kind(rows=rows, unit=unit, scale=scales[0] / steps, **shared)
    names = "threshold_scale", "comparison_scale", "answer_scale"
    means = {name: scale / steps for name, scale in zip(names, scales, strict=True)}
    return kind(rows=rows, unit=unit, threshold=threshold / steps, **means, **shared)


# Laplace --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1, 2, 3])
@pytest.mark.parametrize(("rows", "queries"), [(1, 1), (2, 1), (4, 1), (1, 3), (2, 2)])
def test_laplace_attains_its_curve_where_one_row_is_one_step(scale, rows, queries):
    """One step of the discrete Laplace is exactly randomised response, and m of them are its exact composition."""
    mechanism = in_steps(LaplaceMechanism, rows=rows, queries=queries, scales=(scale,))
    data, pairs = neighbouring(rows, queries)
    exact = ExactLaw(mechanism)
    laws = {x: exact.of(x, in_turn, queries) for x in data}
    for epsilon in np.linspace(0, queries / scale, 7):
        attained = max(hockey_stick(laws[x], laws[y], epsilon) for x, y in pairs)
        assert attained == pytest.approx(mechanism.curve().delta(epsilon), rel=1e-10, abs=1e-13)


def test_laplace_with_a_finer_grid_keeps_its_pure_bound_and_attains_it():
    mechanism = in_steps(LaplaceMechanism, rows=2, unit=2, queries=1, scales=(3,))
    data, pairs = neighbouring(2, 1)
    exact = ExactLaw(mechanism)
    laws = {x: exact.of(x, in_turn, 1) for x in data}
    assert largest_excess(laws, pairs, mechanism.curve(), np.linspace(0, 1, 9)) <= 1e-13
    ratio = max(np.log(laws[x][o] / laws[y][o]) for x, y in pairs for o in laws[x])
    assert ratio == pytest.approx(mechanism.curve().epsilon(0.0), rel=1e-9)


# Gaussian -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1, 2, 4])
@pytest.mark.parametrize(("rows", "queries"), [(1, 1), (4, 1), (1, 3), (2, 2)])
def test_gaussian_stays_below_its_curve_and_the_allowance_of_the_grid(scale, rows, queries):
    mechanism = in_steps(GaussianMechanism, rows=rows, queries=queries, scales=(scale,))
    data, pairs = neighbouring(rows, queries)
    exact = ExactLaw(mechanism)
    laws = {x: exact.of(x, in_turn, queries) for x in data}
    allowance = mechanism.beta * (mechanism.rounding - 2.0 / mechanism.unit)
    assert largest_excess(laws, pairs, mechanism.curve(), np.linspace(0, 4, 17)) <= allowance


# Thresholdout ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("surprises", [1, 2])
@pytest.mark.parametrize(("rows", "queries", "threshold"), [(1, 2, 1), (1, 3, 0), (2, 2, 1)])
def test_thresholdout_stays_below_its_curve_for_all_neighbours(surprises, rows, queries, threshold):
    mechanism = in_steps(
        Thresholdout, rows=rows, threshold=threshold, queries=queries, surprises=surprises, scales=(1, 2, 2)
    )
    data, pairs = neighbouring(rows, queries)
    exact = ExactLaw(mechanism)
    analysts = [in_turn] + [adaptive(seed, queries=queries, steps=mechanism.steps) for seed in range(2)]
    epsilons = np.linspace(0, mechanism.curve().epsilon(0.0), 6)
    for analyst in analysts:
        laws = {x: exact.of(x, analyst, queries) for x in data}
        assert largest_excess(laws, pairs, mechanism.curve(), epsilons, lost=exact.lost) <= 1e-12


QUIET_AND_TOP = 7
PROVOKING = (1,) * (QUIET_AND_TOP - 1) + (0,), (0,) * (QUIET_AND_TOP - 1) + (1,)


def provoked(scales, planted):
    """The pair of rows that pulls comparisons and threshold apart the most: all queries move, the last one back."""
    mechanism = in_steps(Thresholdout, rows=1, threshold=0, queries=QUIET_AND_TOP, surprises=1, scales=scales)
    exact = ExactLaw(mechanism, planted=planted, threshold_reach=10 * scales[0])
    first, second = ((row,) for row in PROVOKING)
    laws = {x: exact.of(x, in_turn, QUIET_AND_TOP) for x in (first, second)}
    epsilons = np.linspace(0, mechanism.curve().epsilon(0.0), 24)
    pairs = [(first, second), (second, first)]
    ratio = max(
        np.log(laws[x][o] / laws[y][o])
        for x, y in pairs
        for o in laws[x]
        if min(laws[x].get(o, 0), laws[y].get(o, 0)) > 1e-9
    )
    return largest_excess(laws, pairs, mechanism.curve(), epsilons, lost=exact.lost), ratio / mechanism.curve().level


@pytest.mark.parametrize("scales", [(2, 1, 1), (1, 2, 1)])
def test_a_provoked_thresholdout_nearly_attains_its_pure_bound(scales):
    excess, share = provoked(scales, {})
    assert excess <= 1e-12
    assert 0.94 < share <= 1.0 + 1e-9


@pytest.mark.parametrize(
    ("scales", "planted"),
    [((1, 1, 10), {"comparison": 0.5}), ((1, 2, 1), {"answer": 0.5}), ((1, 4, 10), {"threshold": 0.5})],
)
def test_a_halved_noise_scale_is_caught(scales, planted):
    excess, share = provoked(scales, planted)
    assert excess > 1e-4
    assert share > 1.02


# The law itself -------------------------------------------------------------------------------------------------------


def reference_of_two_releases(distances, scales, threshold):
    """P[top, quiet, top] from the definition, with a fresh threshold after the first top."""
    reach = np.arange(-60, 61)
    carried = discrete_laplace_pmf(scales[0], reach)

    def quiet(distance):
        comparison = discrete_laplace_pmf(scales[1], reach)
        return np.array([comparison[distance + reach <= threshold + rho].sum() for rho in reach])

    first = carried @ (1 - quiet(distances[0]))
    rest = carried @ (quiet(distances[1]) * (1 - quiet(distances[2])))
    return float(first * rest)


def law_of_two_releases(mechanism, row):
    law = ExactLaw(mechanism).of((row,), in_turn, 3)
    requested = (Source.HOLDOUT, Source.GUESS, Source.HOLDOUT)
    return sum(mass for transcript, mass in law.items() if tuple(source for _, source in transcript) == requested)


def test_thresholdout_draws_a_fresh_threshold_after_every_release():
    mechanism = in_steps(Thresholdout, rows=1, queries=3, surprises=2, scales=(2, 1, 1))
    for row in itertools.product((0, 1), repeat=3):
        assert law_of_two_releases(mechanism, row) == pytest.approx(
            reference_of_two_releases(row, (2, 1, 1), threshold=1), rel=1e-3
        )


def test_a_threshold_that_is_kept_after_a_release_is_caught(monkeypatch):
    mechanism = in_steps(Thresholdout, rows=1, queries=3, surprises=2, scales=(2, 1, 1))
    honest = Thresholdout.answer_many

    def keeps(self, state, evaluations, noise):
        after, replies = honest(self, state, evaluations, noise)
        return type(state)(after.asked, after.charged, state.carried_noise), replies

    monkeypatch.setattr(Thresholdout, "answer_many", keeps)
    kept = law_of_two_releases(mechanism, (1, 1, 1))
    assert kept != pytest.approx(reference_of_two_releases((1, 1, 1), (2, 1, 1), threshold=1), rel=1e-2)


def test_every_law_sums_to_one_and_refuses_after_the_last_release():
    mechanism = in_steps(Thresholdout, rows=2, queries=3, surprises=1, scales=(1, 1, 1))
    law = ExactLaw(mechanism).of(((1, 1, 1), (0, 1, 1)), in_turn, 3)
    assert sum(law.values()) == pytest.approx(1.0, abs=1e-12)
    for transcript in law:
        sources = [source for _, source in transcript]
        if Source.HOLDOUT in sources:
            after = sources[sources.index(Source.HOLDOUT) + 1 :]
            assert all(source == Source.REFUSED for source in after)
