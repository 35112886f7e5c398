"""Claims about ratios of means against another version: exact probabilities in tiny worlds, the concavity bound."""

import itertools
import math
from math import comb, factorial, prod

import numpy as np
import pytest
import scipy.stats

from everhold.guarantees.intervals.claims import GateClaim, RatioUnits

UNITS = 10
NATS = math.log(4.0)

# numerators of challenger and other version, denominators of both; with probabilities that make both ratios equal
FAIR = {
    "other version by chance": ([(0.75, 0.0, 1.5, 1.0), (0.75, 1.0, 1.5, 1.0)], [0.5, 0.5]),
    "both by chance": ([(0.0, 1.0, 2.0, 1.0), (1.0, 0.0, 1.0, 2.0), (1.0, 1.0, 2.0, 2.0)], [0.3, 0.3, 0.4]),
    "rare successes": ([(0.5, 0.5, 0.0, 0.0), (0.5, 0.5, 2.0, 0.0), (0.5, 0.5, 0.0, 2.0)], [0.6, 0.2, 0.2]),
    "costs nearly nothing": ([(0.1, 0.0, 2.0, 2.0), (0.0, 0.1, 2.0, 2.0)], [0.5, 0.5]),
}


def units_of(rows, *, lower=False, spent=None):
    gone = np.zeros(len(rows), dtype=bool) if spent is None else spent
    return RatioUnits(np.array(rows).T, np.ones(len(rows)), (0.0, 1.0), (0.0, 2.0), lower, 1.0, gone)


def proved(rows, *, floor=0.0, lower=False, nats=NATS):
    claim = GateClaim("r", floor, ratio=True)
    return units_of(rows, lower=lower).first_look(claim, planned=len(rows), nats=nats, looks=[len(rows)]) == 0


def chance(outcomes, probabilities, proves, units=UNITS):
    """Exact probability of a proof, over all counts of outcomes."""
    total = 0.0
    for counts in itertools.product(range(units + 1), repeat=len(outcomes)):
        if sum(counts) != units:
            continue
        rows = [row for row, count in zip(outcomes, counts, strict=True) for _ in range(count)]
        ways = factorial(units) // prod(map(factorial, counts))
        if proves(rows):
            total += ways * prod(p**count for p, count in zip(probabilities, counts, strict=True))
    return total


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("world", FAIR)
def test_a_false_claim_is_proved_with_the_probability_of_the_level_at_most(world, lower):
    assert chance(*FAIR[world], lambda rows: proved(rows, lower=lower)) <= math.exp(-NATS)


@pytest.mark.parametrize(("floor", "lower"), [(0.1, False), (0.1, True), (-0.2, False), (-0.2, True)])
def test_floors_are_in_units_of_the_ratio(floor, lower):
    better = floor if not lower else -floor  # the challenger's ratio is .5 + better exactly, at the edge of the claim
    outcomes = [((0.5 + better) * 1.0, 0.0, 1.0, 1.0), ((0.5 + better) * 1.0, 1.0, 1.0, 1.0)]
    assert chance(outcomes, [0.5, 0.5], lambda rows: proved(rows, floor=floor, lower=lower)) <= math.exp(-NATS)


def test_a_true_claim_is_proved():
    assert proved([(1.0, 0.1, 1.0, 1.0)] * UNITS)
    assert proved([(0.0, 1.0, 1.0, 1.0)] * UNITS, lower=True)
    assert not proved([(0.5, 0.5, 1.0, 1.0)] * UNITS)
    assert proved([(0.5, 0.5, 1.0, 1.0)] * 40, floor=-0.4)  # a guard with slack


def test_with_the_observed_ratio_in_place_of_every_one_false_claims_are_proved_too_often():
    outcomes, units, nats = [(0.25, 0.0, 2.0, 1.0), (0.75, 0.5, 2.0, 1.0)], 250, 1.5  # both ratios are .25

    def at_the_observed_ratio(rows):
        own, other, below, below_other = np.array(rows).T
        ratio = other.sum() / below_other.sum()
        gains = (own - other) - ratio * (below - below_other)
        return np.log1p(0.95 * gains / (1.0 + 2.0 * ratio)).sum() >= nats

    rows = [[outcomes[0]] * (units - count) + [outcomes[1]] * count for count in range(units + 1)]
    chances = scipy.stats.binom.pmf(np.arange(units + 1), units, 0.5)
    likely = np.flatnonzero(chances > 1e-4)
    assert sum(chances[count] for count in likely if at_the_observed_ratio(rows[count])) > 1.1 * math.exp(-nats)
    assert sum(chances[count] for count in likely if proved(rows[count], nats=nats)) <= math.exp(-nats)


def test_the_bound_between_points_is_below_the_capital_at_each_ratio():
    rng = np.random.default_rng(3)
    units = units_of(rng.random((20, 4)) * [1.0, 1.0, 2.0, 2.0])
    bets, paths = units.bets(np.ones(20), np.array([0.95, 0.4]), 0.05), units.paths(0.05)
    ends = bets.gains(paths)
    for part in np.linspace(0.0, 1.0, 7):
        inside = (1 - part) * paths[:, :-1] + part * paths[:, 1:]
        gains = bets.gains(np.concatenate([inside, paths], axis=1))  # with the loss that the bets of a path share
        assert (gains[:, : inside.shape[1]] >= np.minimum(ends[:, :-1], ends[:, 1:]) - 1e-9).all()


def test_the_cells_hold_all_ratios():
    ends = units_of([(0.5, 0.5, 1.0, 1.0)]).paths(0.0)
    with np.errstate(divide="ignore"):
        ratios = ends[..., 1] / ends[..., 0]
    assert (ratios[:, :-1] < ratios[:, 1:]).all()
    assert (ratios[0, 0], ratios[-1, -1]) == (0.0, math.inf)
    assert ratios[1:, 0] == pytest.approx(ratios[:-1, -1])


def test_draws_without_a_run_left_count_as_the_worst():
    rows = [(1.0, 0.1, 1.0, 1.0)] * UNITS
    claim, spent = GateClaim("r", 0.0, ratio=True), np.arange(UNITS) >= UNITS - 3
    looks = list(range(1, UNITS + 1))
    at = units_of(rows).first_look(claim, planned=UNITS, nats=NATS, looks=looks)
    assert 0 < at < UNITS
    assert units_of(rows, spent=spent).first_look(claim, planned=UNITS, nats=NATS, looks=looks) in (at, UNITS)
    assert not proved_with(rows, spent=np.ones(UNITS, dtype=bool))


def proved_with(rows, *, spent):
    claim = GateClaim("r", 0.0, ratio=True)
    return units_of(rows, spent=spent).first_look(claim, planned=UNITS, nats=NATS, looks=[UNITS]) == 0


def test_enumeration_covers_all_counts():
    assert chance(*FAIR["both by chance"], lambda _: True) == pytest.approx(1.0)
    assert comb(UNITS + 2, 2) == 66


def test_units_that_say_nothing_leave_the_capital_as_it_was():
    assert not proved([(0.0, 0.0, 0.0, 0.0)] * UNITS, nats=0.1)
