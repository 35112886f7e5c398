"""Tolerances, choices and quantiles on a holdout with one budget for all of them."""

import json

import numpy as np
import pytest
from sealed_copies import copy_of

import everhold as eh
from everhold.certificate import verify_certificate
from everhold.certificate.verification import account_findings
from everhold.errors import BudgetExhausted, QueryRejected
from everhold_privacy.mechanisms.privacy_budget import least_steps

ROWS = 20_000


def rows(seed):
    rng = np.random.default_rng(seed)
    delay = rng.normal(10.0, 20.0, ROWS)
    return {"delay": delay, "late": (delay > 15).astype(int)}


def sealed(folder):
    return eh.Holdout.create(
        folder / "s.db", "flights", holdout=rows(0), label="late", mechanism="privacy_budget", queries=40
    )


@pytest.fixture
def budget(tmp_path):
    with copy_of(tmp_path, sealed, storage="s.db", name="flights") as holdout:
        yield holdout


def thresholds():
    return [eh.mean(f"(delay > {cut} and late = 0) or (delay <= {cut} and late = 1)") for cut in range(-30, 61, 5)]


def test_sharper_answers_cost_more_and_keep_their_tolerance(budget):
    planned = budget.promise.radius
    dear, usual, cheap = (budget.ask("late = 1", tolerance=wanted) for wanted in (0.8 * planned, None, 3 * planned))
    assert dear.charged > usual.charged == 100 > cheap.charged
    assert max(dear.high - dear.value, dear.value - dear.low) <= 0.8 * planned
    assert all(answer.low < 0.401 < answer.high for answer in (dear, usual, cheap))
    assert budget.remaining["credits"] == 4_000 - dear.charged - 100 - cheap.charged


def test_a_tolerance_is_in_the_queries_units(budget):
    delay = eh.mean("delay", low=-100, high=100)
    answer = budget.ask(delay, tolerance=10.0)
    assert 5.0 < answer.high - answer.value <= 10.0
    assert answer.low < 10.0 < answer.high


def test_a_quote_is_what_is_then_charged(budget):
    quoted = budget.quote("late = 1", tolerance=0.2)
    assert budget.ask("late = 1", tolerance=0.2).charged == quoted.charged_at_most == quoted.charged_if_confirmed
    assert quoted.radius <= 0.2
    assert budget.quote("late = 1", tolerance=0.2).answered_before


def test_a_query_with_another_tolerance_is_another_query(budget):
    first, again, other = (budget.ask("late = 1", tolerance=wanted) for wanted in (0.2, 0.2, 0.21))
    assert again.repeated
    assert (again.value, again.charged) == (first.value, 0)
    assert other.query != first.query


def test_the_best_threshold_is_chosen(budget):
    chosen = budget.ask(eh.private_choose(thresholds(), best="lowest", price=1_000))
    assert chosen.index == 9  # delay > 15, the label itself
    assert "15" in chosen.candidate
    assert 0.0 < chosen.regret < 0.25
    assert (chosen.charged, budget.remaining["credits"]) == (1_000, 3_000)
    again = budget.ask(eh.private_choose(thresholds(), best="lowest", price=1_000))
    assert (again.index, again.charged, again.repeated) == (9, 0, True)


def test_highest_is_the_mirror_image(budget):
    highest = budget.ask(eh.private_choose(thresholds()[::3], best="highest", price=1_000))
    assert highest.index == 0  # the second is a twelfth less, and is chosen with probability below 1e-12


def test_errors_and_accuracies_of_the_same_models_are_one_contest_in_mirror_image(budget):
    labels = rows(0)["late"]
    right, wrong = labels, 1 - labels
    found = {
        (metric.__name__, best): budget.ask(
            eh.private_choose([metric(right), metric(wrong)], best=best, price=np.int64(900))
        )
        for best in ("lowest", "highest")
        for metric in (eh.accuracy, eh.error)
    }
    assert {key: choice.index for key, choice in found.items()} == {
        ("accuracy", "lowest"): 1, ("error", "lowest"): 0, ("accuracy", "highest"): 0, ("error", "highest"): 1,
    }  # fmt: skip
    assert [choice.repeated for choice in found.values()] == [False, False, True, True]


def test_values_beyond_the_range_belong_to_the_outer_bins(budget):
    above = budget.ask(eh.private_quantile("delay + 1000", low=0, high=10, bins=10, price=900))
    below = budget.ask(eh.private_quantile("delay", low=5_000, high=6_000, bins=10, price=900))
    assert (above.low, above.high) == (9.0, float("inf"))
    assert (below.low, below.high) == (float("-inf"), 5_100.0)
    assert (above.to_dict()["high"], below.to_dict()["low"]) == (None, None)
    json.dumps([above.to_dict(), below.to_dict()], allow_nan=False)


@pytest.mark.parametrize("queries", [1, 2, 3, 7, 20, 101, 1000])
def test_the_least_tolerance_can_be_paid(queries):
    mechanism = eh.PrivacyBudget.tuned(rows=5_000, queries=queries)
    least = least_steps(mechanism) / mechanism.steps
    assert mechanism.credits_for(least) <= mechanism.credits
    assert mechanism.credits_for(mechanism.scale_for(mechanism.radius_at(least))) <= mechanism.credits


def test_units_of_the_candidates_carry_over_to_the_regret(budget):
    wide = [eh.mean("delay", low=-100, high=100), eh.mean("-delay", low=-100, high=100)]
    narrow = [eh.mean("delay > 0"), eh.mean("delay > 10")]
    regrets = [budget.ask(eh.private_choose(candidates, price=500)).regret for candidates in (wide, narrow)]
    assert regrets[0] == pytest.approx(200 * regrets[1])


def test_a_median_is_found_in_its_bin(budget):
    found = budget.ask(eh.private_quantile("delay", low=-60, high=80, bins=70, price=500))
    assert found.low - 4 < 10.0 < found.high + 4
    assert found.high - found.low == pytest.approx(2.0)
    assert 0.0 < found.error < 0.2
    assert budget.ask(eh.private_quantile("delay", low=-60, high=80, bins=np.int64(70), price=500)).repeated
    assert not budget.ask(eh.private_quantile("delay", low=-60, high=80, bins=71, price=500)).repeated


def test_everything_is_in_the_ledger_and_the_certificate(budget, tmp_path):
    budget.ask("late = 1", tolerance=0.2)
    budget.ask(eh.private_choose(thresholds(), price=300))
    budget.ask(eh.private_quantile("delay", low=-60, high=80, price=200))
    shown = [line["asked"] for line in budget.transcript().to_rows()]
    assert "within 0.2" in shown[0]
    assert shown[1].startswith("the lowest of 19: ")
    assert [line["within"] is None for line in budget.transcript().to_rows()] == [True, False, False]
    assert shown[2] == "quantile 0.5 of delay in 100 bins from -60 to 80"
    budget.certificate().save(tmp_path / "c.json")
    assert verify_certificate(tmp_path / "c.json").ok
    account = json.loads((tmp_path / "c.json").read_text())["account"]
    assert account["charged"] == 4_000 - budget.remaining["credits"]
    assert account["by_source"]["holdout"] == 3


def test_a_reopened_budget_goes_on_where_it_stopped(budget, tmp_path):
    before = budget.ask(eh.private_choose(thresholds(), price=300))
    with eh.Holdout.open(tmp_path / "s.db", "flights") as again:
        assert again.remaining == budget.remaining
        assert again.ask(eh.private_choose(thresholds(), price=300)).index == before.index


def test_when_the_credits_end_choices_are_refused_and_cost_nothing(budget):
    budget.ask(eh.private_choose(thresholds(), price=3_990))
    refused = budget.ask(eh.private_choose(thresholds(), price=11))
    assert (refused.index, refused.candidate, refused.regret, refused.charged) == (None, None, None, 0)
    assert budget.ask(eh.private_quantile("delay", low=0, high=1, price=11)).low is None
    with pytest.raises(BudgetExhausted):
        budget.ask("late = 1", strict=True)
    assert budget.remaining["credits"] == 10


@pytest.mark.parametrize(
    ("ask", "reason"),
    [
        (lambda h: h.ask("late = 1", tolerance=0.0), "tolerance is 0.0. Pass a positive half-width"),
        (lambda h: h.ask("late = 1", tolerance=1e-5), "cannot pay for less than"),
        (lambda h: h.ask("late = 1", tolerance="wide"), "tolerance is 'wide'"),
        (
            lambda h: h.ask(eh.variance("delay", low=0, high=1), tolerance=0.1),
            "made of several queries takes no tolerance",
        ),
        (lambda h: h.quote(tolerance=0.2), "and no query is given"),
        (lambda h: h.ask(eh.private_quantile("delay) < 0 or (delay", low=0, high=9)), "[a-z]"),
        (lambda h: h.ask(eh.private_quantile("nonsense !! (", low=0, high=9, bins=1)), "[a-z]"),
        (lambda h: h.ask(eh.private_quantile("delay", low=0, high=9, bins=10**9)), "from 1 to 10,000"),
        (lambda h: h.ask(eh.private_choose(["late = 1"], price=True)), "price is True"),
        (lambda h: h.ask(eh.private_choose(["late = 1"], price=10**400)), "price is 1000"),
        (lambda h: h.ask(eh.private_choose([])), "There are 0 candidates"),
        (lambda h: h.ask(eh.private_choose(["late = 1"], best="best")), "Pass 'lowest' or 'highest'"),
        (lambda h: h.ask(eh.private_choose(["late = 1"], price=0)), "price is 0"),
        (lambda h: h.ask(eh.private_choose(["late = 1", eh.mean("delay", low=0, high=9)])), "different ranges"),
        (lambda h: h.ask(eh.private_quantile("delay", low=5, high=5)), "low is 5 and high is 5"),
        (lambda h: h.ask(eh.private_quantile("delay", low=0, high=9, quantile=1.5)), "quantile is 1.5"),
        (lambda h: h.ask(eh.private_quantile("delay", low=0, high=9, bins=0)), "bins is 0"),
        (lambda h: h.ask(eh.private_quantile("speed", low=0, high=9)), "speed"),
    ],
)
def test_what_cannot_be_asked_costs_nothing(budget, ask, reason):
    with pytest.raises(QueryRejected, match=reason):
        ask(budget)
    assert budget.remaining == {"queries": 40, "credits": 4_000}


def test_other_mechanisms_say_which_one_can(tmp_path):
    with eh.Holdout.create(tmp_path / "s.db", "flights", holdout=rows(0), mechanism="gaussian", queries=40) as holdout:
        for ask in (
            lambda: holdout.ask(eh.private_choose(["late = 1"])),
            lambda: holdout.ask("late = 1", tolerance=0.2),
        ):
            with pytest.raises(QueryRejected, match="mechanism='privacy_budget'"):
                ask()


def test_a_ladder_ranks_submissions_and_refuses_other_units(tmp_path):
    with eh.Holdout.create(
        tmp_path / "s.db", "board", holdout=rows(0), label="late", mechanism="ladder", queries=40
    ) as board:
        first = board.ask(thresholds()[0])
        best = board.ask(thresholds()[9])
        worse = board.ask(thresholds()[18])
        assert (first.source, best.source, worse.source) == ("holdout", "holdout", "standing")
        assert worse.value == best.value
        assert worse.low <= 0.3 <= worse.high == 1.0
        assert "best score so far" in worse.explain()
        for unfit in (eh.mean("delay", low=0, high=60), eh.accuracy(rows(0)["late"]), eh.error(rows(0)["late"])):
            with pytest.raises(QueryRejected, match=r"ladder ranks shares of which the lower are better"):
                board.ask(unfit)
        for several in (eh.variance("late = 1 or delay > 3", low=0, high=1), eh.histogram("delay", [0, 1])):
            with pytest.raises(QueryRejected, match="from one side only"):
                board.ask(several)
        assert board.remaining["queries"] == 37
        board.certificate().save(tmp_path / "c.json")
    assert verify_certificate(tmp_path / "c.json").ok


def test_a_ladder_of_scores_crowns_the_best_model(tmp_path):
    labels = rows(0)["late"]
    scores = eh.Ladder.tuned(rows=ROWS, queries=40, better="higher")
    with eh.Holdout.create(tmp_path / "s.db", "b", holdout=rows(0), label="late", mechanism=scores) as board:
        assert board.ask(eh.accuracy(1 - labels)).value < 0.1
        assert board.ask(eh.accuracy(labels)).value > 0.9
        assert board.ask(eh.accuracy(np.zeros(ROWS))).source == "standing"
        with pytest.raises(QueryRejected, match="the higher are better"):
            board.ask("late = 1")


@pytest.mark.parametrize(
    ("changed", "finding"),
    [
        ({"charged": 10**9}, "credits that were charged"),
        ({"charged": 0}, "credits that were charged"),
        ({"by_source": {"standing": 2, "holdout": 0}}, "of a kind that the mechanism does not give"),
        ({"by_source": {"training": 2, "holdout": 0}}, "the mechanism confirms none"),
        ({"by_source": {"holdout": 50}, "asked": 50}, "more queries were answered than were planned"),
    ],
)
def test_an_account_that_cannot_be_is_found(budget, changed, finding):
    budget.ask("late = 1")
    budget.ask("late = 0")
    document = json.loads(budget.certificate().to_json())
    account = document["account"]
    account["by_source"] |= changed.pop("by_source", {})
    account |= changed
    document["ledger_head"]["sequence"] = account["asked"]
    assert any(finding in found for found in account_findings(document))
