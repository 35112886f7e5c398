"""What a plan recommends: families where the usual advice could be wrong, and what the plan says there."""

import warnings

import pytest

from everhold.dependence import Groups
from everhold.errors import VacuousGuaranteeWarning
from everhold.planning import PlanRequest, best_mechanism, plan, queries_allowed, rows_needed

MANY = {"rows": 100_000, "queries": 1_000, "surprises": 300}


def made(**wanted):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VacuousGuaranteeWarning)
        return plan(**wanted)


@pytest.mark.parametrize(
    ("wanted", "best", "said"),
    [
        ({"rows": 50_000, "queries": 1_000}, "guess_and_check", "narrower from 61 surprises on around 0.5"),
        # one query: any guess costs more than the query
        ({"rows": 20_000, "queries": 1}, "laplace", "guess_and_check would answer within 0.01724 around 0.9"),
        # a handful of queries: narrower around .9, wider around .5
        ({"rows": 20_000, "queries": 5, "surprises": 1}, "guess_and_check", "narrower around 0.5 from the start"),
        # hundreds of surprises: noise is narrower from some number on
        (MANY, "guess_and_check", "narrower from 60 surprises on around 0.5 and from 235 surprises on around 0.9, and "
         "the plan allows 300. Choose it if you expect so many."),
        # guesses from a handful of rows are no guesses
        ({"rows": 20_000, "queries": 1_000, "training_rows": 20}, "gaussian", "within 0.3266 around 0.9"),
        ({"rows": 20_000, "queries": 1_000, "training_rows": 0}, "gaussian", "With guesses, such as estimates from"),
        # a handful of queries about few groups: sums of groups are bet on, even if groups are all alike
        ({"rows": 20_000, "queries": 2, "dependence": Groups(5)}, "guess_and_check", "narrower around 0.5 from"),
        ({"rows": 20_000, "queries": 100, "dependence": Groups(5)}, "guess_and_check", "which is more than planned"),
        # near guesses that must not cost anything widen what guesses are told with
        ({"rows": 20_000, "queries": 20, "slack": 1 / 3}, "gaussian", "guess_and_check would answer within 0.07"),
        # so few rows that only differences can be seen
        ({"rows": 300, "queries": 100, "surprises": 3}, "guess_and_check", "compare models in place of scores"),
        ({"rows": 30, "queries": 5, "surprises": 1}, "gaussian", "a gate cannot see which is better"),
    ],
)  # fmt: skip
def test_the_advice_where_it_could_be_wrong(wanted, best, said):
    planned = made(**wanted)
    assert planned.best.mechanism == best
    assert said in planned.explain()


def test_after_so_many_surprises_the_other_mechanism_is_really_narrower():
    planned = made(**MANY)
    noise, checked = planned.line("gaussian").tuned, planned.line("guess_and_check").tuned
    for value, surprises in ((0.5, 60), (0.9, 235)):
        widths = []
        for before in (surprises - 1, surprises):
            nats = float(checked.nats(1_000, before, before * checked.cells.cost / 1e6))
            low, high = checked.intervals.of_guess(checked.yes_no_procedure, value, nats)
            widths.append((high - low) / 2)
        assert widths[0] <= noise.expected_radius(value) < widths[1]


def test_the_plan_says_the_worst_case_beside_what_can_be_expected():
    planned = plan(rows=50_000, queries=1_000)
    assert (
        "guess_and_check has the narrowest answers for adaptive queries if guesses hold: 0.01346 around 0.9. The "
        in (said := planned.explain())
    )
    assert "The worst case, after 10 surprises, has 0.04636." in said
    assert planned.best.expected <= 0.01346 < planned.best.radius <= 0.04636


def test_what_is_chosen_is_what_the_plan_recommends():
    for training in (0, 500, 20_000):
        wanted = {"rows": 20_000, "queries": 200, "surprises": 5, "confidence": 0.95}
        chosen = best_mechanism(PlanRequest(**wanted, training_rows=training))
        assert plan(**wanted, training_rows=training).best.tuned == chosen


def test_rows_and_queries_for_what_can_be_expected_are_exact():
    wanted = {"queries": 200, "surprises": 5}
    rows = rows_needed(radius=0.1, **wanted, at=0.9)["guess_and_check"]
    widths = [made(rows=rows - less, **wanted).line("guess_and_check").expected for less in (0, 1)]
    assert widths[0] <= 0.1 < widths[1]
    assert rows < rows_needed(radius=0.1, **wanted)["guess_and_check"]
    wanted = {"radius": 0.032, "rows": 20_000, "surprises": 5}
    queries = queries_allowed(**wanted, at=0.5)["guess_and_check"]
    widths = [plan(rows=20_000, queries=queries + more, surprises=5, at=0.5).line("guess_and_check").expected
              for more in (0, 1)]  # fmt: skip
    assert widths[0] <= 0.032 < widths[1]
    with pytest.raises(ValueError, match=r"at is 1\.5"):
        rows_needed(radius=0.1, queries=10, at=1.5)


def test_a_plan_for_rows_says_both():
    planned = plan(queries=1_000, radius=0.02)
    assert planned.best.mechanism == "guess_and_check"
    assert "22,954 if its guesses hold around 0.9. For the worst case, after all planned surprises, 414,966." in (
        planned.explain()
    )
