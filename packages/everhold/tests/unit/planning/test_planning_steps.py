"""The least step that a gate can see: against the gate's own procedures, and against numbers of the theory."""

import math

import numpy as np
import pytest

from everhold.guarantees.description_length import QueryTree
from everhold.guarantees.intervals.betting import Betting
from everhold.guarantees.intervals.means import SignTest
from everhold.planning import least_step, plan
from everhold.sealing.rows.sums import cells_of
from everhold.values.evaluation import UNIT


def nats(challenges, promotions):
    """Of one side, at the last planned challenge and 95 %."""
    return float(QueryTree(queries=challenges).log_inverse_weight(asked=challenges, surprises=promotions)) - math.log(
        0.05
    )


@pytest.mark.parametrize(("promotions", "normal"), [(0, 0.008), (3, 0.014), (7, 0.019)])
def test_the_example_of_the_theory(promotions, normal):
    """``sqrt(2 L d / n)`` is .008, .014, .019; exact tails are a little sharper and bets a little wider."""
    wanted = {"rows": 20_000, "disagreement": 0.05, "challenges": 10_000, "promotions": promotions}
    spread = math.sqrt(2 * nats(10_000, promotions) * 0.05 / 20_000)
    assert round(spread, 3) == normal
    exact, bets = least_step(**wanted), least_step(**wanted, public=False)
    assert 0.9 * spread < exact < spread < bets < 1.15 * spread


@pytest.mark.parametrize(("rows", "disagreement", "promotions"), [(20_000, 0.05, 3), (300, 0.2, 0), (501, 0.21, 1)])
def test_one_win_less_is_not_seen(rows, disagreement, promotions):
    step = least_step(rows=rows, disagreement=disagreement, challenges=100, promotions=promotions)
    differing = round(rows * disagreement)
    test, side = SignTest(rows=rows, training=rows, differing=differing), nats(100, promotions) - math.log(2)
    ends = [test.interval(0.5 + (step - less * 2 / rows) / 2, side)[0] for less in (0, 1)]
    assert ends[0] > 0.5 >= ends[1]


@pytest.mark.parametrize(("rows", "disagreement", "challenges"), [(20_000, 0.05, 10_000), (500, 0.2, 100)])
def test_bets_see_what_their_closed_form_says(rows, disagreement, challenges):
    differing, side = round(rows * disagreement), nats(challenges, 0) - math.log(2)

    def cells(wins):
        values = np.repeat(np.array([UNIT, 0, UNIT // 2]), [wins, differing - wins, rows - differing])
        return cells_of(values, unit=UNIT)

    bets = Betting(rows=rows, training=cells(differing // 2))
    seen = next(w for w in range(differing // 2, differing) if bets.interval(cells(w), side)[0] > 0.5)
    step = least_step(rows=rows, disagreement=disagreement, challenges=challenges, public=False)
    assert 0.85 * step < (2 * seen - differing) / rows < step


def test_too_few_rows_see_nothing_at_all():
    wanted = {"rows": 50, "disagreement": 0.2, "challenges": 100}
    assert least_step(**wanted) is None
    assert least_step(**wanted, public=False) is None
    assert least_step(**wanted | {"rows": 100}) == pytest.approx(0.16)
    assert least_step(**wanted | {"rows": 100}, promotions=3) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"rows": 0}, "rows is 0"),
        ({"disagreement": 0.0}, "disagreement is 0"),
        ({"disagreement": math.nan}, "disagreement is nan"),
        ({"challenges": 1.5}, "challenges is 1.5"),
        ({"promotions": -1}, "promotions is -1"),
        ({"confidence": 1.0}, "confidence is 1"),
    ],
)
def test_bad_arguments_say_what_is_wrong(change, reason):
    with pytest.raises(ValueError, match=reason):
        least_step(**({"rows": 300, "disagreement": 0.2, "challenges": 100} | change))


def test_a_plan_shows_the_steps_of_its_rows():
    made = plan(rows=300, queries=100, surprises=3, disagreement=0.2)
    steps = {line.promotions: line.step for line in made.steps.lines}
    assert steps == {
        before: least_step(rows=300, disagreement=0.2, challenges=100, promotions=before) for before in (0, 1, 3, 7)
    }
    assert "gate sees steps from 9.334 points on, 15.34 after three promotions" in made.explain()
    assert plan(rows=300, queries=100, surprises=3).steps is None
