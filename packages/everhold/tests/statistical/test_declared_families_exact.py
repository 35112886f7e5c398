"""S10 in worlds that can be counted: all members hold at once, and a rule less fails.

Rows are coins, so the probability that an interval misses is a sum of binomial weights.
"""

import math

import numpy as np
import pytest

from everhold.guarantees.intervals.means import ClopperPearson
from everhold.mechanisms.guess_and_check import GuessAndCheck
from everhold.mechanisms.records import Evaluations
from everhold.mechanisms.releases import answer_declared, label_nats, widest_declared
from everhold.randomness import SeededNoise

ROWS, MEMBERS, CONFIDENCE = 40, 25, 0.9


def chance_of_a_miss(nats, share):
    """Of one member whose population's share is `share`, exactly."""
    counts = np.arange(ROWS + 1)
    weights = np.array([math.comb(ROWS, k) * share**k * (1 - share) ** (ROWS - k) for k in counts])
    low, high = ClopperPearson(ROWS, ROWS).span(counts / ROWS, counts / ROWS, np.full(ROWS + 1, nats))
    return weights[(low > share) | (high < share)].sum()


def chance_of_any_miss(nats):
    """Of so many independent members, at the shares where single ones miss most."""
    worst = max(chance_of_a_miss(nats, share) for share in np.linspace(0.01, 0.99, 197))
    return 1.0 - (1.0 - worst) ** MEMBERS


def test_all_members_hold_at_once():
    mechanism = GuessAndCheck.tuned(rows=ROWS, queries=10, confidence=CONFIDENCE).sharing(0.5)
    beta = (1.0 - CONFIDENCE) * 0.5
    assert beta / 4.0 < chance_of_any_miss(mechanism.described(math.log(MEMBERS))) <= beta


def test_members_that_do_not_pay_for_their_description_miss():
    mechanism = GuessAndCheck.tuned(rows=ROWS, queries=10, confidence=CONFIDENCE).sharing(0.5)
    assert chance_of_any_miss(mechanism.described(0.0)) > 4.0 * (1.0 - CONFIDENCE)


@pytest.mark.parametrize("at", [None, 0.1, 0.5])
def test_the_labels_of_counts_have_a_prior(at):
    guess, trained = np.full(501, at or 0.5), np.full(501, 0.0 if at is None else 300.0)
    nats = label_nats(np.arange(501), rows=500, at=guess, trained=trained)
    assert np.exp(-nats).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("rows", [30, 2_000])
def test_no_interval_is_wider_than_its_bound(rows):
    mechanism = GuessAndCheck.tuned(rows=rows, queries=10).sharing(0.5)
    nats = mechanism.described(math.log(30.0))
    bound, _ = widest_declared(mechanism, mechanism.yes_no_procedure, nats)
    widest = 0.0
    for count in range(rows + 1):
        _, replies = told(mechanism, [count], [rows // 2], [nats])
        widest = max(widest, float((replies.values - replies.lows)[0]), float((replies.highs - replies.values)[0]))
    assert 0.95 * bound <= widest <= bound


def told(mechanism, counts, guesses, nats, state=None):
    """Replies to members that are shares of rows."""
    totals = np.array([[count * mechanism.unit] for count in counts], dtype=np.int64)
    guessed = np.array([guess * mechanism.unit for guess in guesses], dtype=np.int64)
    evaluations = Evaluations(
        totals, guessed, mechanism.rows, mechanism.unit, procedures=[mechanism.yes_no_procedure] * len(counts)
    )
    return answer_declared(mechanism, state or mechanism.start(SeededNoise(1)), evaluations, np.array(nats))


@pytest.mark.parametrize("labels_are_paid", [True, False])
def test_queries_after_told_members_pay_for_their_labels(labels_are_paid):
    """Freedman's paradox: guess the label by the vote of columns that were told to agree with it; the truth is 1/2."""
    rows, columns, rng = 400, 400, np.random.default_rng(5)
    mechanism = GuessAndCheck.tuned(rows=rows, queries=10, training_rows=rows).sharing(0.5)
    label = rng.integers(0, 2, rows)
    votes = rng.integers(0, 2, (columns, rows))
    agree = (votes == label).sum(axis=1)
    nats = mechanism.described(math.log(columns))
    state, replies = told(mechanism, agree.tolist(), [rows // 2] * columns, [nats] * columns)
    np.testing.assert_allclose(replies.values, agree / rows)
    assert np.all((replies.lows <= 0.5) & (replies.highs >= 0.5))
    signs = np.where(agree * 2 > rows, 1, -1)
    voted = (signs[:, None] * (2 * votes - 1)).sum(axis=0) > 0
    right = int((voted == label).sum())
    assert right > 0.75 * rows
    asked = mechanism.start(SeededNoise(1)) if not labels_are_paid else state
    evaluations = Evaluations(
        np.array([[right * mechanism.unit]]), np.array([right * mechanism.unit]), rows, mechanism.unit,
        procedures=[mechanism.yes_no_procedure],
    )  # fmt: skip
    _, reply = mechanism.answer_many(asked, evaluations, SeededNoise(2))
    holds = not reply.lows[0] > 0.5  # refused, or wide enough
    assert holds == labels_are_paid
