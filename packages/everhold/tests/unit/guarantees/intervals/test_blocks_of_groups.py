"""AUC of groups (A6): the capital by all outcomes of tiny groups of unlike laws, and what is no fair bet."""

import itertools
import math

import numpy as np
import pytest

from everhold.guarantees.intervals.joint import Units, ratio_bets
from everhold.guarantees.intervals.ranking import GroupBlockBetting, blocks_of_four, seen_blocks

# of each patient the visits that there may be, as (score, label), and how likely; one visit to three
PATIENTS = [
    (((2, 0),), ((0, 1),), 0.3),
    (((1, 1),), ((1, 0),), 0.5),
    (((2, 1), (2, 0)), ((0, 1), (1, 1)), 0.6),
    (((0, 1),), ((3, 1),), 0.4),
    (((1, 0), (0, 0), (3, 1)), ((1, 0), (2, 0), (0, 0)), 0.5),
    (((2, 0),), ((2, 1),), 0.9),
    (((0, 0), (3, 0)), ((1, 1), (1, 0)), 0.2),
]  # fmt: skip


def outcomes(patients):
    """Rows of all groups, and their probability."""
    for chosen in itertools.product((0, 1), repeat=len(patients)):
        visits = [patient[which] for patient, which in zip(patients, chosen, strict=True)]
        chance = math.prod(
            (patient[2], 1.0 - patient[2])[which] for patient, which in zip(patients, chosen, strict=True)
        )
        groups = np.repeat(np.arange(len(visits)), [len(visit) for visit in visits])
        scores, labels = np.array([row for visit in visits for row in visit], dtype=float).T
        yield scores, labels == 1.0, groups, chance


def pairs_in_order(scores, positive, groups):
    """Pairs of different groups, and how many of them are in order."""
    apart = positive[:, None] & ~positive & (groups[:, None] != groups)
    won = (scores[:, None] > scores) + 0.5 * (scores[:, None] == scores)
    return float(apart.sum()), float((apart * won).sum())


def true_area(patients):
    expected = sum(chance * np.array(pairs_in_order(*rows)) for *rows, chance in outcomes(patients))
    return expected[1] / expected[0]


def rows_in_order(groups):
    return np.arange(len(groups))[::-1]


def capital(units, area):
    return tuple(math.exp(ratio_bets(each, 3.0).at(at)) for each, at in ((units, area), (units.mirrored, 1.0 - area)))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 7, 13, 20, 21, 22, 50, 97])
def test_any_two_groups_are_in_exactly_one_block(count):
    met = np.zeros((count + 1, count + 1), dtype=int)
    for block in blocks_of_four(count).T:
        met[np.ix_(block, block)] += 1
    assert np.all(met[:count, :count][~np.eye(count, dtype=bool)] == 1)


def test_a_block_has_room_for_all_pairs_of_its_rows():
    groups = np.repeat(np.arange(6), [20, 20, 1, 1, 1, 1])
    positive = groups % 2 == 0  # one large group is all positive and the other one all negative
    units = seen_blocks([1.0 * positive], positive, groups, np.arange(len(groups))).units
    assert 0.85 < units.sizes.max() <= 1.0
    assert units.counts.min() > 0.0
    assert units.mean == pytest.approx(1.0)


@pytest.mark.parametrize("number", [3, 4, 5, 6, 7])
def test_bets_are_fair_for_unlike_groups(number):
    patients, fair, value = PATIENTS[:number], np.zeros(2), 0.0
    area = true_area(patients)
    for scores, positive, groups, chance in outcomes(patients):
        seen = seen_blocks([scores], positive, groups, rows_in_order(groups))
        fair += chance * np.array(capital(seen.units, area))
        pairs, won = pairs_in_order(scores, positive, groups)
        value += abs(seen.score - (won / pairs if pairs else 0.5))
    assert fair.max() <= 1.0
    assert value == pytest.approx(0.0, abs=1e-9)


def intervals(nats):
    procedure = GroupBlockBetting.planned_by(None, sealed=12, planned=0)
    for scores, positive, groups, chance in outcomes(PATIENTS):
        seen = seen_blocks([scores, -scores], positive, groups, rows_in_order(groups))
        yield procedure.interval(seen, nats), chance


@pytest.mark.parametrize("nats", [0.1, 0.5, 1.0])
def test_intervals_of_differences_miss_no_more_than_their_level(nats):
    area = true_area(PATIENTS)  # that of the opposite scores is one less it
    missed = sum(chance for (low, high), chance in intervals(nats) if not low <= area <= high)
    assert missed <= math.exp(-nats)


FIXED = [(visits, visits, 1.0) for visits in (((2, 0),), ((1, 1),), ((2, 1), (2, 0)), ((0, 1),))]


def test_an_average_over_dealings_into_pairs_is_no_fair_bet():
    """The protection removed: three dealings of four patients, who are what they are, each a product over its pairs."""
    scores, positive, groups, _ = next(outcomes(FIXED))
    area, gained = true_area(FIXED), []
    assert area == pytest.approx(0.1)
    for dealing in ([(0, 1), (2, 3)], [(0, 2), (1, 3)], [(0, 3), (1, 2)]):
        within = [np.isin(groups, pair) for pair in dealing]
        pairs, won = np.array([pairs_in_order(scores[w], positive[w], groups[w]) for w in within]).T
        units = Units(pairs, pairs - won, np.ones(2), 2.0)
        gained.append(np.prod(1.0 + 0.9 * ((1.0 - area) * units.sizes - units.values) / (area * units.largest)))
    assert np.mean(gained) == pytest.approx(1.135)
    seen = seen_blocks([scores], positive, groups, rows_in_order(groups))
    assert max(capital(seen.units, area)) <= 1.0


def test_blocks_that_share_groups_are_no_independent_units():
    """The protection removed: each block bets all, as if there were as many groups as blocks."""
    area, fair = true_area(PATIENTS), np.zeros(2)
    for scores, positive, groups, chance in outcomes(PATIENTS):
        units = seen_blocks([scores], positive, groups, rows_in_order(groups)).units
        fair += chance * np.array(capital(Units(units.sizes, units.values, 8.0 * units.counts, 1.0), area))
    assert fair.max() > 1.0
