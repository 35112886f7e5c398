"""What a step counts, and the level that each event receives: pinned, as tiny worlds forgive what is not paid."""

import math

import numpy as np
import pytest

from everhold.guarantees.intervals.means import ClopperPearson
from everhold.mechanisms import GuessAndCheck, Source, State
from everhold.mechanisms.guess_and_check import BatchStep
from everhold.mechanisms.labels import in_millionths
from everhold.mechanisms.records import Evaluations
from everhold.mechanisms.releases import answer_declared, label_nats
from everhold.mechanisms.suffixes import Suffix, since, tree_of

MECHANISM = GuessAndCheck.tuned(rows=1_000, queries=20, surprises=3, text_bits=100)
EXACT = MECHANISM.yes_no_procedure
BETA = 1.0 - MECHANISM.statement_confidence


def asked(*counts, guess=500, **kind):
    """Yes-or-no queries with so many ones, all with the same guess; -1 for none."""
    totals = np.array(counts)[:, None] * MECHANISM.unit
    guesses = np.full(len(counts), guess if guess < 0 else guess * MECHANISM.unit)
    return Evaluations(
        totals, guesses, MECHANISM.rows, MECHANISM.unit, procedures=[EXACT] * len(counts),
        yes_no=np.ones(len(counts), dtype=bool), **kind,
    )  # fmt: skip


def answered(evaluations, state=State()):  # noqa: B008
    return MECHANISM.answer_many(state, evaluations, None)


def test_a_step_counts_each_query_each_surprise_and_what_its_label_costs():
    state, replies = answered(asked(500, 900, 100))
    assert [Source(each) for each in replies.sources] == [Source.GUESS, Source.HOLDOUT, Source.HOLDOUT]
    assert state == State(asked=3, charged=2, labels=2 * MECHANISM.cells.cost)
    assert MECHANISM.cells.cost >= 1e6 * math.log(MECHANISM.grid)
    nats = MECHANISM.nats(4, 2, 2 * MECHANISM.cells.cost / 1e6)
    assert MECHANISM.next_nats(state) == pytest.approx(nats)


def test_all_queries_of_a_step_have_the_counts_of_its_start():
    before = State(asked=4, charged=1, labels=3_000_000)
    _, replies = answered(asked(900, 900, 900), before)
    assert replies.nats == pytest.approx([float(MECHANISM.nats(place, 1, 3.0)) for place in (5, 6, 7)])


def test_silent_queries_take_places_and_no_surprise():
    state, replies = answered(asked(900, 100, guess=-1, silent=True))
    assert set(replies.sources) == {Source.SILENT}
    assert state == State(asked=2)


def test_a_promotion_is_a_surprise_without_a_label_at_the_whole_level_on_one_side(monkeypatch):
    levels, plain = [], ClopperPearson.interval
    monkeypatch.setattr(
        ClopperPearson, "interval", lambda self, seen, nats: levels.append(nats) or plain(self, seen, nats)
    )
    state, replies = answered(asked(800, guess=-1, margins=np.array([0.5])))
    assert (replies.sources[0], replies.charged[0]) == (Source.PROMOTED, 1)
    assert state == State(asked=1, charged=1)
    assert levels == pytest.approx([replies.nats[0] - math.log(2.0)])
    state, replies = answered(asked(500, guess=-1, margins=np.array([0.5])))
    assert (replies.sources[0], state) == (Source.KEPT, State(asked=1))


def test_what_is_told_holds_all_that_was_sealed():
    for count in range(0, 1_001, 25):
        _, replies = answered(asked(count))
        mean, low, high = replies.sealed[0]
        assert replies.lows[0] <= low <= mean <= high <= replies.highs[0], count


def test_a_surprise_is_told_what_its_cell_leaves_possible():
    _, replies = answered(asked(900))
    least, most = MECHANISM.cells.released(900 * MECHANISM.unit)
    low, high = EXACT.span(least, most, replies.nats[0])
    assert least < 0.9 < most
    assert replies.lows[0] == pytest.approx(low - MECHANISM.rounding, abs=1e-15)
    assert replies.highs[0] == pytest.approx(high + MECHANISM.rounding, abs=1e-15)


def test_members_take_no_place_and_what_is_told_of_them_is_a_label():
    state, replies = answer_declared(MECHANISM, State(), asked(300, 900), np.full(2, 7.0))
    labels = label_nats(np.array([300, 900]), rows=1_000, at=np.full(2, 0.5), trained=np.full(2, 1_000.0))
    assert state == State(labels=sum(map(in_millionths, labels)))
    assert set(replies.nats) == {7.0}
    every = np.arange(1_001)
    for trained in (0.0, 1_000.0):
        prior = np.exp(-label_nats(every, rows=1_000, at=np.full(1_001, 0.3), trained=np.full(1_001, trained)))
        assert prior.sum() == pytest.approx(1.0)


def test_families_the_tree_and_all_texts_share_the_probability_of_failure():
    shared = MECHANISM.sharing(0.5)
    families, texts, tree = math.exp(-shared.described(0.0)), math.exp(-shared.of_text(0.0)), shared.beta
    assert texts == pytest.approx(tree * shared.tree.of_texts)
    assert families + tree == pytest.approx(BETA)
    assert families == pytest.approx(BETA / 2.0)


def test_labels_that_were_lost_count_as_the_dearest():
    dearest = MECHANISM.accounts.dearest_label
    assert dearest >= MECHANISM.cells.cost
    assert MECHANISM.accounts.after_loss(State(), asked=9, charged=3, noise=None).labels == 3 * dearest


def test_a_later_tree_counts_all_answers_since_it_opened():
    before, now = State(asked=4, charged=1, labels=5), State(asked=9, charged=3, labels=17)
    assert since(now, before) == State(asked=5, charged=2, labels=12)


def test_texts_have_no_level_of_their_own_among_rows_that_arrived():
    assert MECHANISM.text_bits == 100
    assert tree_of(MECHANISM, Suffix(1), rows=1_200, training_rows=0).text_bits == 0


def test_a_step_does_not_show_what_was_sealed():
    shown = repr(BatchStep.of(MECHANISM, asked(877), MECHANISM.next_nats(State())))
    assert str(877 * MECHANISM.unit) not in shown
    assert "0.877" not in shown
