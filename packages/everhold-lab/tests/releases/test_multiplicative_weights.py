"""Multiplicative weights: the potential, the number of updates, guesses as post-processing, the online mechanism."""

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_samples import matrix_of, plain_universe, random_family

from everhold.errors import BudgetExhausted
from everhold.mechanisms import GuessAndCheck, Promise, Replies, Traits
from everhold.randomness import SecureNoise, SeededNoise
from everhold.values.evaluation import UNIT
from everhold_lab.releases import MultiplicativeWeights, PrivateMultiplicativeWeights
from everhold_privacy.mechanisms.additive import GaussianMechanism
from everhold_privacy.mechanisms.thresholdout import Thresholdout


def relative_entropy(histogram, weights):
    share = histogram / histogram.sum()
    held = share > 0
    return float(np.sum(share[held] * np.log(share[held] / weights[held])))


# The potential --------------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 10**6), cells=st.integers(1, 6), error=st.floats(-0.3, 0.3), trained=st.booleans())
@settings(max_examples=200, deadline=None)
def test_an_update_brings_the_weights_closer_by_what_is_promised(seed, cells, error, trained):
    generator = np.random.default_rng(seed)
    sealed, training = generator.integers(0, 5, (2, cells)) + np.eye(2, cells, dtype=int)[:1]
    weights = MultiplicativeWeights(cells, training=training if trained else None)
    query, share = generator.random(cells), sealed / sealed.sum()
    gap = float(share @ query) - weights.guess(query)
    released = float(np.clip(share @ query + error, 0, 1))
    after = weights.update(query, released)
    fall = relative_entropy(sealed, weights.weights) - relative_entropy(sealed, after.weights)
    assert fall >= 2 * (gap**2 - error**2) - 1e-12
    assert -1e-12 <= relative_entropy(sealed, weights.weights) <= weights.capacity + 1e-12  # up to rounding
    assert (after.updates, after.capacity) == (weights.updates + 1, weights.capacity)


def test_the_promised_fall_cannot_be_much_larger():
    """Half of the cells, hardly more than half of the rows: Hoeffding's lemma is nearly attained."""
    sealed, query = np.array([51, 49]), np.array([1, 0])
    weights = MultiplicativeWeights(2)
    after = weights.update(query, 0.51)
    fall = relative_entropy(sealed, weights.weights) - relative_entropy(sealed, after.weights)
    assert fall == pytest.approx(2 * 0.01**2, rel=1e-3)


def adversarial_updates(histogram, weights, *, gap, error, planted_step=1.0):
    """Ask the query with the largest gap of all, release the answer that helps least, until no gap is left."""
    share = histogram / histogram.sum()
    for _ in range(5000):
        query = share > weights.weights
        distance = float(share @ query) - weights.guess(query)
        if distance < gap:
            return weights.updates
        target = weights.guess(query) + planted_step * (distance + error)
        weights = weights.update(query, target)
    return math.inf


@pytest.mark.parametrize("error", [0.0, 0.05, 0.09])
@pytest.mark.parametrize("cells", [2, 64, 1024])
def test_an_adversary_gets_no_more_updates_than_the_bound(cells, error):
    weights = MultiplicativeWeights(cells)
    histogram = np.eye(1, cells, dtype=int)[0]
    count = adversarial_updates(histogram, weights, gap=0.1, error=error)
    assert 1 <= count <= weights.most_updates(0.1, error=error)


def test_an_adversary_gets_more_than_a_third_of_the_bound():
    """All rows lie in one cell; always ask for that cell and others, so that the guess is just far enough off."""
    weights, gap = MultiplicativeWeights(1024), 0.1
    order = np.random.default_rng(0).permutation(np.arange(1, 1024))
    while weights.weights[0] < 1 - gap:
        held = weights.weights[0] + np.cumsum(weights.weights[order]) <= 1 - gap
        query = np.zeros(1024)
        query[0] = 1
        query[order[held]] = 1
        weights = weights.update(query, 1.0)
    assert 1 / 3 < weights.updates / weights.most_updates(gap) <= 1


def test_random_adversaries_and_a_training_start():
    generator = np.random.default_rng(5)
    for _ in range(30):
        cells = int(generator.integers(2, 40))
        sealed, training = generator.multinomial(200, generator.dirichlet(np.full(cells, 0.2)), size=2)
        for weights in (MultiplicativeWeights(cells), MultiplicativeWeights(cells, training=training)):
            assert adversarial_updates(sealed, weights, gap=0.05, error=0.01) <= weights.most_updates(0.05, error=0.01)


def test_the_bound_on_updates_can_fail():
    """Answers further off than the bound is told are refuted."""
    weights = MultiplicativeWeights(4)
    histogram = np.array([80, 8, 7, 5])
    assert adversarial_updates(histogram, weights, gap=0.02, error=0.4) > weights.most_updates(0.02, error=0.0)


@pytest.mark.parametrize(("gap", "error"), [(0.1, 0.1), (0.1, 0.2), (0.1, -0.1), (0.0, 0.0), (math.nan, 0.0)])
def test_without_a_gap_there_is_no_bound(gap, error):
    with pytest.raises(ValueError, match="gap"):
        MultiplicativeWeights(4).most_updates(gap, error=error)


def test_wrong_queries_answers_and_starts_are_refused():
    weights = MultiplicativeWeights(3)
    for query in ([1, 0], [0.5, 0.5, 1.5], [0, 0, math.nan], ["a", "b", "c"]):
        with pytest.raises(ValueError, match="query"):
            weights.guess(query)
    with pytest.raises(ValueError, match="refused answers"):
        weights.update([1, 0, 0], math.nan)
    for wrong in ({"cells": 0}, {"cells": 3, "uniform_share": 0.0}, {"cells": 3, "training": [1, 2]}):
        with pytest.raises(ValueError, match=r"expected|Pass"):
            MultiplicativeWeights(**wrong)
    with pytest.raises(ValueError, match="read-only"):
        weights.weights[0] = 1.0


def test_no_weight_is_lost_for_ever():
    weights, query = MultiplicativeWeights(2), [1, 0]
    for _ in range(2000):
        weights = weights.update(query, 0.0)
    for _ in range(4000):
        weights = weights.update(query, 1.0)
    assert weights.guess(query) > 0.99


# The online mechanism -------------------------------------------------------------------------------------------------


def hard_case(seed, *, rows, cells=64, queries=150):
    """A population on few cells, and queries that tell cells apart."""
    generator = np.random.default_rng(seed)
    population = generator.dirichlet(np.full(cells, 0.05))
    return population, generator.multinomial(rows, population), random_family(queries, cells, seed, binary=True)


def guess_and_check(rows, **others):
    return GuessAndCheck.tuned(rows=rows, queries=20_000, surprises=160, **others)


def thresholdout(rows, **others):
    return Thresholdout.tuned(rows=rows, queries=20_000, surprises=40, **others)


@pytest.mark.parametrize(("mechanism", "rows"), [(guess_and_check, 20_000), (thresholdout, 300_000)])
def test_a_table_that_was_confirmed_is_within_its_radius_of_the_population(mechanism, rows):
    population, histogram, family = hard_case(2, rows=rows)
    maker = PrivateMultiplicativeWeights(universe=plain_universe(64), mechanism=mechanism(rows))
    noise = SeededNoise(4)
    table = maker.draw(family, histogram, noise)
    start = MultiplicativeWeights(64)
    truth = matrix_of(family) @ population
    assert np.abs(table.means(family) - truth).max() <= table.radius < np.abs(family.means(start.weights) - truth).max()
    assert table.statement == maker.mechanism.promise().statement
    assert table.privacy == maker.mechanism.promise().privacy


class Stub:
    """Without noise and budget: guesses within `threshold` are confirmed, others corrected by the exact average."""

    traits, name, unit = Traits(needs_guess=True), "stub", UNIT

    def __init__(self, rows, threshold):
        self.rows, self.steps, self.threshold = rows, rows * UNIT, threshold

    def start(self, noise):
        return None

    def promise(self):
        return Promise(statement="S3", radius=self.threshold, confidence=0.95, assumptions=(), details={})

    def answer_many(self, state, evaluations, noise):
        totals, replies = evaluations.totals[:, 0], Replies.refused(len(evaluations))
        wrong = np.abs(totals - evaluations.guesses) > self.threshold * self.steps
        replies.values[:], replies.charged[:] = np.where(wrong, totals, evaluations.guesses) / self.steps, wrong
        return state, replies


@pytest.mark.parametrize("seed", range(5))
def test_every_query_was_confirmed_by_the_weights_that_are_the_table(seed):
    _, histogram, family = hard_case(seed, rows=20_000)
    maker = PrivateMultiplicativeWeights(universe=plain_universe(64), mechanism=Stub(20_000, 0.02))
    table = maker.draw(family, histogram, SeededNoise(1))
    errors = np.abs(table.means(family) - family.totals(histogram) / (20_000 * UNIT))
    assert errors.max() <= 0.02 + 1e-8


def test_guess_and_check_needs_no_more_releases_than_the_bound():
    """Its errors are certain, so the bound holds in every run: no guess within the first
    query's reach is a surprise, and what is told of one is the middle of a cell of equal width on the arcsine scale.
    """
    _, histogram, family = hard_case(3, rows=20_000)
    mechanism = guess_and_check(20_000, slack=0.5, grid=94)
    maker = PrivateMultiplicativeWeights(universe=plain_universe(64), mechanism=mechanism)
    noise = SeededNoise(1)
    session = maker.start(noise)
    first = mechanism.margin.concentration(mechanism.nats(1, 0, 0.0))
    gap, error = float(mechanism.margin.allowed(first)), 0.25 * np.pi / mechanism.grid
    for query in matrix_of(family):
        session, _ = maker.ask(session, query, histogram, noise)
    assert session.weights.updates == session.state.charged > 0
    assert session.weights.updates <= session.weights.most_updates(gap, error=error)


def attack(maker, histogram, population, noise, *, queries):
    """Fit the sample: always ask for the cells that the released answers make look too heavy; the largest error."""
    session, worst = maker.start(noise), 0.0
    generator = np.random.default_rng(7)
    surplus = np.zeros(len(histogram))
    for _ in range(queries):
        query = generator.random(len(histogram)) < 0.5
        session, reply = maker.ask(session, query, histogram, noise)
        surplus += np.where(query, 1, -1) * (float(reply.values[0]) - query @ population)
        for target in (surplus > 0, session.weights.weights > population):
            session, reply = maker.ask(session, target, histogram, noise)
            worst = max(worst, abs(float(reply.values[0]) - target @ population))
    return worst


@pytest.mark.slow
def test_guesses_from_earlier_releases_leave_the_promise_whole_under_attack():
    rows, cells, runs, confidence = 300, 256, 60, 0.8
    population = np.full(cells, 1 / cells)
    mechanism = GuessAndCheck.tuned(rows=rows, queries=90, surprises=10, confidence=confidence)
    radius, worst = mechanism.promise().radius, {}
    for tested in (mechanism, Stub(rows, 0.0)):
        maker = PrivateMultiplicativeWeights(universe=plain_universe(cells), mechanism=tested)
        worst[tested.name] = [
            attack(
                maker,
                np.random.default_rng(run).multinomial(rows, population),
                population,
                SeededNoise(run),
                queries=30,
            )
            for run in range(runs)
        ]
    assert np.mean(np.array(worst["guess_and_check"]) > radius) <= 1 - confidence
    assert np.mean(worst["stub"]) > 1.5 * np.mean(worst["guess_and_check"])


def test_a_mechanism_that_refuses_leaves_no_table():
    _, histogram, family = hard_case(2, rows=2000)
    mechanism = GuessAndCheck.tuned(rows=2000, queries=200, surprises=1)
    with pytest.raises(BudgetExhausted, match="training histogram") as refusal:
        PrivateMultiplicativeWeights(universe=plain_universe(64), mechanism=mechanism).draw(
            family, histogram, SecureNoise()
        )
    assert refusal.value.data["updates"] >= 1


def test_a_training_histogram_saves_releases():
    population, histogram, family = hard_case(2, rows=20_000)
    maker = PrivateMultiplicativeWeights(universe=plain_universe(64), mechanism=guess_and_check(20_000))
    training = np.random.default_rng(9).multinomial(20_000, population)
    updates = []
    for start in (None, training):
        session = maker.start(SeededNoise(1), training=start)
        for query in matrix_of(family):
            session, _ = maker.ask(session, query, histogram, SeededNoise(1))
        updates.append(session.weights.updates)
    assert updates[1] < updates[0]


def test_what_cannot_be_asked_is_refused():
    universe = plain_universe(4)
    with pytest.raises(ValueError, match="confirms no guesses"):
        PrivateMultiplicativeWeights(universe=universe, mechanism=GaussianMechanism.tuned(rows=100, queries=10))
    coarse = GuessAndCheck.tuned(rows=100, queries=10, unit=4)
    with pytest.raises(ValueError, match="grid"):
        PrivateMultiplicativeWeights(universe=universe, mechanism=coarse)
    maker = PrivateMultiplicativeWeights(universe=universe, mechanism=GuessAndCheck.tuned(rows=100, queries=10))
    with pytest.raises(ValueError, match="histogram"):
        maker.ask(maker.start(SeededNoise(1)), [1, 0, 0, 0], [50, 0, 0, 0], SeededNoise(1))
    with pytest.raises(ValueError, match="query"):
        maker.ask(maker.start(SeededNoise(1)), [1, 0], [100, 0, 0, 0], SeededNoise(1))
    with pytest.raises(ValueError, match="about 3 cells"):
        maker.draw(random_family(2, 3), [100, 0, 0, 0], SeededNoise(1))


@pytest.mark.slow
def test_a_thousand_queries_about_a_hundred_thousand_cells_take_less_than_ten_seconds():
    generator = np.random.default_rng(0)
    population = generator.dirichlet(np.full(10**5, 0.01))
    histogram = generator.multinomial(10**6, population)
    maker = PrivateMultiplicativeWeights(universe=plain_universe(10**5), mechanism=guess_and_check(10**6))
    noise, session = SeededNoise(1), maker.start(SeededNoise(1))
    queries = generator.integers(0, 2, (1000, 10**5), dtype=np.uint8).astype(bool)
    began = time.perf_counter()
    for query in queries:
        session, _ = maker.ask(session, query, histogram, noise)
    assert time.perf_counter() - began < 10
