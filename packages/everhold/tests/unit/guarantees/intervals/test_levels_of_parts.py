"""The level that each part of a composite receives: the parts together have the level of the whole, and no more.

Procedures are loose on tiny worlds, so a part that took too much would not be seen to miss there. Each test records the
levels that parts are asked at, and adds up their probabilities of failure.
"""

import math

import numpy as np
import pytest

from everhold.guarantees.description_length import ChoiceLevels
from everhold.guarantees.intervals import arms, survival
from everhold.guarantees.intervals.arms import ArmDifference, SeenArms
from everhold.guarantees.intervals.betting import Betting
from everhold.guarantees.intervals.gains import (
    GAINS,
    ClassGains,
    MacroGain,
    OutcomeGain,
    RatioGain,
    SeenClasses,
    gain_of,
)
from everhold.guarantees.intervals.joint import FRACTIONS, Units
from everhold.guarantees.intervals.means import ClopperPearson
from everhold.guarantees.intervals.parts import PartBets
from everhold.guarantees.intervals.ranking import RankBetting, RankDifference
from everhold.guarantees.intervals.survival import SeenSurvival, Survival
from everhold.guarantees.intervals.thresholds import OperatingPoint, SeenRules

NATS = 5.0
LEVEL = math.exp(-NATS)


@pytest.fixture
def levels(monkeypatch):
    """Records the failure probability ``exp(-nats)`` of each call of a method, whose position of nats is given."""

    def of(owner, name, place):
        found, plain = [], getattr(owner, name)

        def recorded(*given, **named):
            found.append(math.exp(-given[place]))
            return plain(*given, **named)

        monkeypatch.setattr(owner, name, recorded)
        return found

    return of


def two_arms():
    rows, sums, others, their_sums = np.array([(1, 1, 0, 0), (1, 0, 0, 0), (0, 0, 1, 1), (0, 0, 1, 0)], dtype=float).T
    counts = np.array([40.0, 60.0, 30.0, 70.0])
    return SeenArms(Units(rows, sums, counts, 1.0), Units(others, their_sums, counts, 1.0), 0.0)


@pytest.mark.parametrize("joint", [True, False])
def test_both_arms_and_both_sides_of_statement_k_share_one_level(levels, joint):
    of_arms, of_sides = levels(SeenArms, "ends", 2), levels(arms, "_least_difference", 2)
    ArmDifference(two_arms(), 1.0, 200)._differences(two_arms(), NATS, joint=joint)
    assert (len(of_arms), len(of_sides)) == (2, 2 if joint else 0)
    assert sum(of_arms) + sum(of_sides) == pytest.approx(LEVEL)


@pytest.mark.parametrize("grouped", [True, False])
def test_all_intervals_of_time_and_both_sides_share_one_level(levels, grouped):
    """Of the limits of a single interval of time one side is used, and the other one is not."""
    seen = SeenSurvival.expected(3, rows=90.0, largest=2.0 if grouped else 1.0, widths=np.full(3, 1.0 / 3.0))
    single = levels(PartBets if grouped else ClopperPearson, "interval", 2)
    of_sides = levels(survival, "_hazard", 3)
    Survival(seen, 1.0, 90, 2.0 if grouped else None).curves(seen, NATS)
    assert len(single) == 6
    assert len({*of_sides}) == (0 if grouped else 1)
    assert sum(single) / 2.0 + 2.0 * sum({*of_sides}) == pytest.approx(LEVEL)


@pytest.mark.parametrize("score", sorted(GAINS.keys() - {"macro"}))
def test_a_gain_is_one_side_of_two(levels, score):
    procedure, cells = gain_of(score, 60), OutcomeGain.cells(np.array([1, 2, 3, 4] * 15), np.array([1, 2, 4, 4] * 15))
    asked = levels(type(procedure), "capital", 2)
    low, high = procedure.interval(cells, NATS)
    assert asked == pytest.approx([LEVEL / 2.0] * len(asked))
    assert asked
    assert low < high == 1.0


def test_the_gains_of_both_labels_in_macro_f1_share_one_level(levels):
    asked, cells = levels(RatioGain, "interval", 2), OutcomeGain.cells(np.array([1, 2, 3, 4]), np.array([1, 2, 4, 4]))
    MacroGain("macro", 4).interval(cells, NATS)
    assert sum(asked) == pytest.approx(LEVEL)


def classes():
    labels = np.repeat([0.0, 1.0, 2.0], [40, 40, 40])
    second = np.where(np.arange(120) % 5 == 0, (labels + 1.0) % 3.0, labels)
    return SeenClasses.of(labels, labels, second, 3)


@pytest.mark.parametrize("weighted", [True, False])
def test_classes_and_their_shares_have_one_side_of_the_level(levels, weighted):
    procedure, seen = ClassGains("f1", 120, weighted), classes()
    of_classes, of_shares = levels(RatioGain, "interval", 2), levels(ClopperPearson, "interval", 2)
    procedure.interval(seen, NATS)
    assert (len(of_classes), len(of_shares)) == (3, 4 if weighted else 0)
    assert sum(of_classes) / 2.0 + sum(of_shares) == pytest.approx(LEVEL / 2.0)  # a gain takes half of what it is given


@pytest.mark.parametrize("kind", [RankBetting, RankDifference])
def test_ranks_and_the_share_of_their_class_have_one_level(levels, kind):
    asked = levels(ClopperPearson, "interval", 2)
    procedure = kind.__new__(kind)
    object.__setattr__(procedure, "rows", 400)
    ends = procedure._of_share(0.3, NATS)
    assert ends[0] < 0.3 < ends[1]
    assert sum(asked) + math.exp(-procedure._nats_of_ranks(NATS)) == pytest.approx(LEVEL)


def test_each_side_of_a_recall_at_a_rate_has_two_quarters(levels):
    asked = levels(OperatingPoint, "_limit", 2)
    seen = SeenRules(0.5, np.array([0, 5, 10]), np.array([0, 2, 10]))
    OperatingPoint(seen, 20, 20, 0.4, unlike=False).interval(seen, NATS)
    assert asked == [pytest.approx(LEVEL / 2.0)] * 2  # of two tails: an upper and a lower limit of each class


def test_a_rule_whose_false_positive_rate_may_be_too_high_says_nothing_from_below():
    counts = np.arange(0, 101, 10)
    seen = SeenRules(0.2, counts, counts)
    low, high = OperatingPoint(seen, 200, 200, 0.2, unlike=False).interval(seen, NATS)
    assert ClopperPearson(rows=100, training=100).interval(0.1, NATS)[1] > 0.2  # of the first rule that finds anything
    assert low == 0.0
    assert high > 0.2


def test_all_events_of_a_choice_share_its_level():
    for paired, events in {False: 2, True: 3}.items():
        levels = ChoiceLevels.of(NATS, candidates=50, paired=paired)
        upper, lower = math.exp(-levels.upper), 50.0 * math.exp(-levels.lower)
        regrets = 50.0 * math.exp(-levels.paired) if paired else 0.0
        assert upper == pytest.approx(2.0 * LEVEL / events)  # each event is one end of an interval: half of its level
        assert (upper + lower + regrets) / 2.0 == pytest.approx(LEVEL)


def test_a_quoted_width_is_never_less_than_the_least_stake_can_prove():
    procedure = Betting(rows=2**36, training=None, guess=0.5)
    assert procedure.widest(3.0) >= float(np.min(FRACTIONS))
    assert procedure.widest(3.0) > math.sqrt((3.0 + math.log(64.0)) / 2**36)
