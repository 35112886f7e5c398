"""Contract of a mechanism: inherit `MechanismContract` and define `make`.

::

    class TestMine(MechanismContract):
        def make(self, **request):
            return Mine.tuned(**request)
"""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everhold.dependence import Independent
from everhold.mechanisms import MECHANISMS, Source, State
from everhold.mechanisms.records import Evaluations
from everhold.randomness import SeededNoise

ROWS, QUERIES = 20_000, 12
BATCHES = st.lists(st.integers(1, 5), min_size=1, max_size=6)
MEANS = st.lists(
    st.tuples(st.floats(0, 1), st.sampled_from([0.0, 0.0, 0.0, 0.02, -0.2, 0.5])), min_size=30, max_size=30
)
INHERITED = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.differing_executors]
)  # one suite, many mechanisms: that is the point


class MechanismContract:
    """Contract suite of a mechanism. `make` returns one for ``rows``, ``queries`` and ``confidence``."""

    _made: Any
    price = 1  # of an answer that comes from the holdout
    plan = {"rows": ROWS, "queries": QUERIES, "confidence": 0.95}  # noqa: RUF012

    def make(self, **wanted):
        """Return the mechanism to test, tuned for a request."""
        raise NotImplementedError

    def evaluations(self, mechanism, means):
        """Return evaluated queries with the given sealed mean and error of the guess."""
        totals, guesses = [], []
        for mean, error in means:
            guess = min(max(mean + error, 0.0), 1.0)
            totals.append([int(mean * mechanism.steps / mechanism.parts)] * mechanism.parts)
            guesses.append(int(guess * mechanism.steps))
        return Evaluations(
            np.array(totals, dtype=np.int64).reshape(len(means), mechanism.parts),
            np.array(guesses, dtype=np.int64), mechanism.rows, mechanism.unit,
        )  # fmt: skip

    def run(self, mechanism, means, batches, noise):
        """Ask in batches. Returns the states and all replies as rows (value, low, high, source, charged)."""
        state, states, rows, start = mechanism.start(noise), [], [], 0
        for size in batches:
            batch = means[start : start + size]
            start += size
            states.append(state)
            state, replies = mechanism.answer_many(state, self.evaluations(mechanism, batch), noise)
            rows += list(
                zip(replies.values, replies.lows, replies.highs, replies.sources, replies.charged, strict=True)
            )
        return [*states, state], np.array(rows, dtype=np.float64)

    @given(means=MEANS, batches=BATCHES, seed=st.integers(0, 1000))
    @INHERITED
    def test_a_batch_equals_the_loop(self, means, batches, seed):
        mechanism = self.mechanism()
        states, replies = self.run(mechanism, means, batches, SeededNoise(seed))
        if mechanism.traits.batch_is_one_step:
            again = self.run(mechanism, means, batches, SeededNoise(seed))
            assert again[0] == states
            np.testing.assert_array_equal(again[1], replies)
            return
        loop_states, loop = self.run(mechanism, means, [1] * sum(batches), SeededNoise(seed))
        assert states[-1] == loop_states[-1]
        np.testing.assert_array_equal(replies, loop)

    @given(means=MEANS, seed=st.integers(0, 1000))
    @INHERITED
    def test_every_answer_keeps_its_promise_on_paper(self, means, seed):
        mechanism = self.mechanism()
        states, replies = self.run(mechanism, means, [1] * len(means), SeededNoise(seed))
        radius = mechanism.promise().radius
        for before, after, (value, low, high, source, charged) in zip(states, states[1:], replies, strict=False):
            if source == Source.REFUSED:
                assert (before, charged) == (after, 0)
                assert all(math.isnan(number) for number in (value, low, high))
                continue
            assert 0.0 <= low <= value <= high <= 1.0
            if after.asked <= mechanism.queries and before.charged < (mechanism.planned_surprises or math.inf):
                assert max(value - low, high - value) <= radius + 1e-12
            assert after.asked == before.asked + 1
            assert charged == self.price * int(source == Source.HOLDOUT)
            assert mechanism.accounts.reachable(State(after.asked, after.charged))
            assert mechanism.accounts.reachable(replace(after, carried_noise=0))
        assert replies[:, 4].sum() == states[-1].charged

    @given(means=MEANS, seed=st.integers(0, 1000))
    @INHERITED
    def test_the_quote_is_what_then_happens_and_nothing_comes_back(self, means, seed):
        mechanism = self.mechanism()
        states, replies = self.run(mechanism, means, [1] * len(means), SeededNoise(seed))
        for before, after, (value, low, high, source, charged) in zip(states, states[1:], replies, strict=False):
            quote, left = mechanism.quote(before), mechanism.remaining(before)
            assert quote.refused == (source == Source.REFUSED)
            assert (mechanism.surely_answers(before, 9) == 0) == quote.refused
            assert all(mechanism.remaining(after)[name] <= left[name] for name in left)
            if quote.refused:
                assert (quote.radius, quote.radius_if_charged, quote.charged_at_most) == (None, None, 0)
                continue
            assert quote.charged_if_confirmed <= charged <= quote.charged_at_most
            promised = quote.radius_if_charged if charged > quote.charged_if_confirmed else quote.radius
            assert max(value - low, high - value) <= promised + 1e-12

    def test_queries_beyond_the_budget_are_refused_in_the_middle_of_a_batch(self):
        mechanism = self.mechanism()
        if mechanism.endless:
            pytest.skip("it goes on")
        means = (
            [(0.5, 0.5)] * 4 * mechanism.queries
            if mechanism.traits.needs_guess
            else [(0.5, 0.0)] * 2 * mechanism.queries
        )
        batches = [mechanism.queries] * (len(means) // mechanism.queries)
        states, replies = self.run(mechanism, means, batches, SeededNoise(3))
        refused = replies[:, 3] == Source.REFUSED
        assert refused.any()
        assert np.all(np.diff(refused.astype(int)) >= 0)  # once refused, always refused
        assert mechanism.accounts.reachable(states[-1])
        if not mechanism.traits.batch_is_one_step:
            assert not mechanism.accounts.reachable(states[-1].after(charged=mechanism.traits.most_charged))
        again, more = mechanism.answer_many(states[-1], self.evaluations(mechanism, means[:2]), SeededNoise(3))
        assert again == states[-1]
        assert np.all(more.sources == Source.REFUSED)

    @given(means=MEANS, seed=st.integers(0, 1000))
    @INHERITED
    def test_what_is_sure_of_an_answer_is_seen_from_the_public_state(self, means, seed):
        mechanism = self.mechanism()
        states, _ = self.run(mechanism, means, [1] * len(means), SeededNoise(seed))
        for state in states:
            sure = mechanism.surely_answers(state, 40)
            public = replace(state, carried_noise=0)
            assert sure == mechanism.surely_answers(public, 40) >= mechanism.surely_answers(public, 7)
            for surprising in (0.0, 1.0):
                batch = self.evaluations(mechanism, [(surprising, 0.5)] * sure)
                _, replies = mechanism.answer_many(state, batch, SeededNoise(seed + 1))
                assert not np.any(replies.sources == Source.REFUSED)
                assert np.all(replies.charged <= mechanism.traits.most_charged)

    def test_the_noise_is_not_shown(self):
        state = State(asked=3, charged=1, carried_noise=987654321)
        assert "987654321" not in repr(state)
        assert State.of(json.loads(json.dumps(state.bound(""))), "") == state
        evaluations = self.evaluations(self.mechanism(), [(0.123456789, 0.5)])
        assert str(int(evaluations.totals[0, 0])) not in repr(evaluations)

    def test_plain_data_and_back(self):
        mechanism = self.mechanism()
        data = json.loads(json.dumps(mechanism.to_dict()))
        shared = {name: data[name] for name in ("rows", "queries", "confidence", "unit")}
        again = MECHANISMS[data["mechanism"]](**shared, dependence=Independent(), **data["parameters"])
        assert again == mechanism
        assert again.promise() == mechanism.promise()

    @pytest.mark.parametrize(
        ("change", "smaller"),
        [({"rows": 2 * ROWS}, True), ({"queries": 2 * QUERIES}, False), ({"confidence": 0.99}, False)],
    )
    def test_the_radius_is_monotone_in_the_request(self, change, smaller):
        radius, changed = self.mechanism().promise().radius, self.make(**{**self.plan, **change}).promise().radius
        assert changed < radius if smaller else changed > radius

    @pytest.mark.parametrize(
        "wrong",
        [{"rows": 0}, {"rows": 2.5}, {"rows": True}, {"rows": 2**40}, {"queries": 0}, {"queries": -1}, {"unit": 0},
         {"confidence": 0.0}, {"confidence": 1.0}, {"confidence": math.nan}],
    )  # fmt: skip
    def test_wrong_requests_are_refused(self, wrong):
        mechanism = self.mechanism()
        shared = {"rows": mechanism.rows, "queries": mechanism.queries, "unit": mechanism.unit}
        with pytest.raises(ValueError, match=next(iter(wrong))):
            type(mechanism)(**{**shared, **mechanism.parameters(), **wrong})

    def test_every_numeric_parameter_has_to_be_sensible(self):
        mechanism = self.mechanism()
        shared = {"rows": mechanism.rows, "queries": mechanism.queries}
        for name, value in mechanism.parameters().items():
            for wrong in (-1, math.nan) if isinstance(value, float) else (-1,):
                with pytest.raises(ValueError, match=name):
                    type(mechanism)(**shared, **{**mechanism.parameters(), name: wrong})

    def mechanism(self):
        """Return the mechanism under test, made once for each class."""
        if "_made" not in vars(type(self)):
            type(self)._made = self.make(**self.plan)
        return type(self)._made
