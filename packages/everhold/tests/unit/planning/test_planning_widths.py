"""Half-widths of guess-and-check in a plan: against the design's table, the mechanism itself, and bets."""

import numpy as np
import pytest

from everhold.dependence import Groups
from everhold.guarantees.intervals.base import GroupSums
from everhold.guarantees.intervals.betting import Betting, GroupBetting
from everhold.guarantees.intervals.means import ClopperPearson
from everhold.mechanisms import GuessAndCheck
from everhold.mechanisms.base import State
from everhold.planning import plan
from everhold.planning.widths import SPREADS, TRUE_VALUES, least_vacuous, surprises_until, width_at, widths_of
from everhold.sealing.rows.sums import cells_of
from everhold.values.evaluation import UNIT

FLIGHTS = {"rows": 20_000, "queries": 1_000}


def nats_of(mechanism, surprises=0):
    return float(mechanism.nats(mechanism.queries, surprises, surprises * mechanism.cells.cost / 1e6))


@pytest.mark.parametrize(
    ("rows", "training", "queries", "surprises", "kind", "halves"),
    [
        (2_000, 8_000, 100, 0, "confirmed", (0.095, 0.059, 0.018)),
        (2_000, 8_000, 100, 5, "confirmed", (0.160, 0.098, 0.034)),
        (2_000, 8_000, 100, 0, "unsealed", (0.041, 0.025, 0.009)),
        (20_000, 20_000, 1_000, 0, "confirmed", (0.0354, 0.0214, 0.0074)),
        (20_000, 20_000, 1_000, 10, "confirmed", (0.0725, 0.0437, 0.0145)),
        (20_000, 20_000, 1_000, 0, "released", (0.0233, 0.0140, 0.0046)),
        (20_000, 20_000, 1_000, 0, "unsealed", (0.0150, 0.0090, 0.0030)),
        (20_000, 200_000, 1_000, 0, "confirmed", (0.0301, 0.0181, 0.0062)),
        (300, 300, 100, 0, "unsealed", (0.107, 0.065, 0.026)),
    ],
)
def test_the_table_of_the_design(rows, training, queries, surprises, kind, halves):
    """Within 1.5 %; within 8 % where it has two digits, or the edges of released cells lie where they lie."""
    planned = max(surprises, min(10, queries // 20))
    mechanism = GuessAndCheck.tuned(rows=rows, queries=queries, surprises=planned, training_rows=training)
    found = [getattr(width_at(mechanism, value, surprises), kind) for value in (0.5, 0.9, 0.99)]
    assert found == pytest.approx(halves, rel=0.08 if kind == "released" or rows < 20_000 else 0.015)


@pytest.mark.parametrize("surprises", [0, 3])
def test_by_true_value_it_is_what_the_mechanism_tells(surprises):
    mechanism = GuessAndCheck.tuned(**FLIGHTS, training_rows=60_000)
    state = State(999, surprises, 0, surprises * mechanism.cells.cost)
    procedure = ClopperPearson(rows=20_000, training=60_000)
    for value in TRUE_VALUES:
        told, width = mechanism.expected(state, value, procedure), width_at(mechanism, value, surprises)
        for (low, high), half in ((told.confirmed, width.confirmed), (told.unsealed, width.unsealed)):
            assert half == pytest.approx((min(high, 1.0) - max(low, 0.0)) / 2, rel=1e-9)
    if not surprises:
        assert mechanism.expected_radius(0.9) == pytest.approx(width_at(mechanism, 0.9, 0).confirmed, rel=1e-12)


@pytest.mark.parametrize("sd", SPREADS)
def test_by_spread_it_is_a_little_wider_than_bets_are(sd):
    mechanism = GuessAndCheck.tuned(**FLIGHTS)
    values = np.clip(np.random.default_rng(0).normal(0.5, sd, 20_000), 0.0, 1.0)
    bets = Betting(rows=20_000, training=cells_of(np.floor(values * UNIT).astype(np.int64), unit=UNIT))
    nats = nats_of(mechanism)
    (line,) = (x for x in widths_of(mechanism).lines if (x.query, x.at, x.surprises) == ("spread", sd, 0))
    for (low, high), half in (
        (bets.expected(0.5, nats), line.unsealed),
        (mechanism.intervals.of_guess(bets, 0.5, nats), line.confirmed),
    ):
        assert (high - low) / 2 < half < 1.3 * (high - low) / 2


def test_of_groups_it_is_by_the_spread_of_their_means():
    mechanism = GuessAndCheck.tuned(**FLIGHTS, dependence=Groups(20))
    means = np.clip(np.random.default_rng(0).normal(0.5, 0.1, 1_000), 0.0, 1.0)
    sums, counts = np.unique(np.floor(means * 20 * UNIT).astype(np.int64), return_counts=True)
    known = GroupSums(np.full(len(sums), 20), sums, counts, UNIT)
    low, high = GroupBetting(sizes=((20, 1_000),), training=known).expected(0.5, nats_of(mechanism))
    (line,) = (x for x in widths_of(mechanism).lines if (x.query, x.at, x.surprises) == ("groups", 0.1, 0))
    assert (high - low) / 2 < line.unsealed < 1.6 * (high - low) / 2  # for any shape; these are far from their ends


def test_a_plan_shows_them_before_the_first_surprise_after_some_and_after_all():
    widths = plan(**FLIGHTS).widths
    assert sorted({line.surprises for line in widths.lines}) == [0, 3, 10]
    assert {(line.query, line.at) for line in widths.lines} == {
        *(("yes_no", value) for value in TRUE_VALUES), *(("spread", sd) for sd in SPREADS),
    }  # fmt: skip
    assert widths.to_dict()["lines"] == widths.to_rows()
    assert "unsealed" in str(widths)
    assert all(line.confirmed > line.unsealed for line in widths.lines)


def test_fewer_training_rows_make_wider_answers():
    few, many = (plan(**FLIGHTS, training_rows=rows).widths.lines[0] for rows in (2_000, 200_000))
    assert few.confirmed > 1.5 * many.confirmed
    assert few.unsealed == many.unsealed  # guesses do not matter any more


@pytest.mark.parametrize("width", [0.03, 0.05])
def test_the_number_of_surprises_until_something_else_is_narrower(width):
    mechanism = GuessAndCheck.tuned(**FLIGHTS)
    found = surprises_until(mechanism, width, 0.9)
    assert width_at(mechanism, 0.9, found - 1).confirmed <= width < width_at(mechanism, 0.9, found).confirmed
    assert surprises_until(mechanism, 0.6, 0.9) is None


def test_half_the_range_leaves_less_of_it_near_an_end():
    assert (least_vacuous(0.5), least_vacuous(1.0)) == (0.5, 0.25)
