"""One meaning for each counter: remaining falls by one query an answer and by what is charged, by nothing else."""

import numpy as np
import pytest
from holdout_samples import create, rows

import everhold as eh
from everhold import GuessAndCheck

WISH = {"mechanism": GuessAndCheck.tuned(rows=1_000, queries=12, surprises=4)}


def queries():
    """Means, differences, ratios and arrays with right and wrong guesses."""
    yield "delay > 0", None
    yield "delay > 1", 0.02
    yield eh.mean("delay", low=-200, high=200), 150.0
    yield eh.difference(eh.mean("delay > 1"), eh.mean("delay > 2")), None
    yield eh.ratio("late = 1", "delay > 3"), 0.97
    yield eh.accuracy(np.zeros(1_000)), 0.5
    yield "delay > 0", None
    yield eh.ratio("late = 1", "delay > 4"), None


def test_remaining_falls_by_one_query_an_answer_and_by_exactly_what_is_charged(tmp_path):
    with create(tmp_path, **WISH) as holdout:
        charged = 0
        for query, guess in queries():
            before = holdout.remaining
            answer = holdout.ask(query, guess=guess)
            after = holdout.remaining
            assert answer.remaining == after
            assert before["surprises"] - after["surprises"] == answer.charged
            assert after["queries"] in (0, before["queries"] - (not answer.repeated))
            charged += answer.charged
        assert charged >= 2


def test_nothing_left_means_that_the_next_query_is_refused_or_that_the_plan_is_used_up(tmp_path):
    with create(tmp_path, mechanism=GuessAndCheck.tuned(rows=1_000, queries=3, surprises=1)) as holdout:
        for cut in range(3):
            holdout.ask(f"delay > {cut}")
        assert holdout.remaining == {"queries": 0, "surprises": 1}
        beyond = holdout.ask("delay > 3")
        assert beyond.refused or beyond.remaining == {"queries": 0, "surprises": 1}
        cut = next(cut for cut in range(4, 1_000) if holdout.ask(f"delay > {cut}", guess=0.01).refused)
        assert holdout.remaining == {"queries": 0, "surprises": 0}
        assert holdout.quote(f"delay > {cut}").refused
        assert holdout.ask("delay > 0").repeated


def test_the_last_surprises_of_an_allotment_are_announced(tmp_path):
    with create(tmp_path, mechanism=GuessAndCheck.tuned(rows=1_000, queries=100, surprises=8)) as holdout:
        holdout.allot("ada", queries=89, charges=2)
        ada = holdout.analyst("ada")
        with pytest.warns(eh.BudgetWarning, match="One surprise of the allotment of 'ada' is left for 88 queries"):
            ada.ask("delay > 0", guess=0.01)
        with pytest.warns(eh.BudgetWarning, match="last surprise of the allotment of 'ada' is spent, and 87 queries"):
            ada.ask("delay > 1", guess=0.01)
        assert ada.remaining == {"queries": 0, "surprises": 0}
        assert ada.ask("delay > 2").refused


def test_the_last_surprises_of_a_whole_holdout_are_announced_once_each(tmp_path):
    with create(tmp_path, mechanism=GuessAndCheck.tuned(rows=1_000, queries=100, surprises=2)) as holdout:
        with pytest.warns(
            eh.BudgetWarning,
            match=r"One planned surprise is left.*still answered.*Half-widths are .* after 5 more",
        ):
            holdout.ask("delay > 0", guess=0.01)
        with pytest.warns(eh.BudgetWarning, match="The last planned surprise is spent"):
            holdout.ask("delay > 1", guess=0.01)
        assert holdout.ask("delay > 2", guess=0.01).charged == 1  # announced already
        assert holdout.ask("delay > 0", guess=0.01).repeated


def test_the_end_of_a_budget_that_has_one_is_announced(tmp_path):
    ending = GuessAndCheck.tuned(rows=1_000, queries=100, surprises=2, slack=0.3)
    with create(tmp_path, mechanism=ending) as holdout:
        with pytest.warns(eh.BudgetWarning, match=r"One planned surprise is left.*refused when none is left"):
            holdout.ask("delay > 0", guess=0.01)
        assert holdout.remaining["surprises"] == 1


def test_a_confirmed_guess_warns_of_nothing(tmp_path):
    with create(tmp_path, mechanism=GuessAndCheck.tuned(rows=1_000, queries=10, surprises=1)) as holdout:
        assert holdout.ask("delay > 0").charged == 0


@pytest.mark.parametrize(
    "make", [eh.accuracy, eh.precision, eh.f1, lambda array: eh.ratio(eh.error(array), "delay > 0")]
)
def test_an_array_without_a_guess_asks_for_one_and_spends_nothing(tmp_path, make):
    array = np.random.default_rng(0).integers(0, 2, 1_000)
    with create(tmp_path, **WISH) as holdout:
        before = holdout.remaining
        with pytest.raises(eh.QueryRejected, match=r"guess=0\.8 \(--guess 0\.8\)"):
            holdout.ask(make(array))
        assert (holdout.remaining, len(holdout.transcript())) == (before, 0)
        assert holdout.ask(make(array), silent=True).source == "silent"


def test_training_predictions_are_a_guess(tmp_path):
    array, known = np.zeros(1_000), np.zeros(len(rows(1)["late"]))
    with create(tmp_path, **WISH) as holdout:
        assert holdout.ask(eh.accuracy(array, training=known)).source == "training"
