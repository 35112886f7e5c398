"""Scans, quantiles and tables (M2 to M4) exactly: all samples of few rows, under all laws on a grid of atoms.

A sample is a number of rows for each atom. What a plan tells of it does not depend on the law, so every sample is told
once, and the probability that a statement is wrong is a sum of multinomial weights for each law.
"""

from itertools import combinations
from math import factorial, log

import numpy as np
import pytest

from everhold.guarantees.intervals.base import GroupSums
from everhold.guarantees.intervals.betting import GroupBetting
from everhold.mechanisms.base import State
from everhold.mechanisms.guess_and_check import GuessAndCheck
from everhold.queries.interval_planner import Prepared
from everhold.queries.selection.quantile import QuantilePlan, _CountedUpTo
from everhold.queries.selection.results import Compared, SealedValues
from everhold.queries.selection.scan import ScanPlan
from everhold.queries.selection.synthesis import CountShares, SynthesisPlan
from everhold.randomness import SeededNoise
from everhold.values.base import BoundQuery, Schema
from everhold.values.universe import ListedColumn, Universe

SCHEMA = Schema(rows=8, training_rows=0, columns={})


def splits(total, parts):
    """All ways to write a number as a sum of so many, shape (ways, parts)."""
    bars = np.array([*combinations(range(total + parts - 1), parts - 1)])
    ends = np.concatenate([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), total + parts - 1)], axis=1)
    return np.diff(ends, axis=1) - 1


def chances(samples, laws):
    """Probability of each sample under each law, shape (laws, samples)."""
    ways = [factorial(int(counts.sum())) / np.prod([factorial(int(k)) for k in counts]) for counts in samples]
    return np.array(ways) * np.prod(laws[:, None, :] ** samples[None], axis=2)


def worst(samples, laws, wrong):
    """The largest probability of a wrong statement; wrong has the shape (laws, samples)."""
    return float(np.max(np.sum(chances(samples, laws) * wrong, axis=1)))


def mechanism(rows, **more):
    """With a large probability of failure, so that little is given away by levels that are rare for few rows."""
    return GuessAndCheck(rows=rows, queries=2, surprises=1, tolerance=1.0, confidence=0.05, **more)


# M2: rows carry two coins; the atoms are their four pairs
PAIRS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])


def scanned(made, samples, threshold, *, first):
    """Limits of each candidate, shape (samples, 2) each; nothing is said where they are 0 and 1."""
    prepared = tuple(
        Prepared(BoundQuery({"n": n}, str(n)), -1, from_training=False, procedure=made.yes_no_procedure) for n in (0, 1)
    )
    plan = ScanPlan(SCHEMA, made, Compared(prepared, SCHEMA, made), threshold, first)
    low, high = np.zeros((len(samples), 2)), np.ones((len(samples), 2))
    for number, counts in enumerate(samples @ PAIRS):
        seen = SealedValues(counts * made.unit, counts / made.rows, [None, None])
        _, outcomes = plan.answer(State(), seen, [0, 1], SeededNoise(0))
        for place, outcome in enumerate(outcomes):
            if outcome.answer["low"] is not None:
                low[number, place], high[number, place] = outcome.answer["low"], outcome.answer["high"]
    return low, high


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("threshold", [0.25, 0.5, 0.8])
def test_scans_are_wrong_with_the_levels_of_their_places_at_most(threshold, first):
    made, samples, laws = mechanism(8), splits(8, 4), splits(6, 4) / 6
    allowed = float(np.exp(-made.nats(np.array([1, 2]), 0, 0.0)).sum())
    low, high = scanned(made, samples, threshold, first=first)
    values = (laws @ PAIRS)[:, None]
    assert worst(samples, laws, ((values < low) | (values > high)).any(axis=2)) <= allowed
    found = (samples @ PAIRS) / 8 >= threshold  # the threshold itself is no limit
    assert worst(samples, laws, ((values < threshold) & found | (values > threshold) & ~found).any(axis=2)) > allowed


# M3: four values, or pairs of three values in groups of two
EDGES = np.arange(4.0)


def told_quantile(made, procedure, counts, level, seen, nats):
    """Edges that the quantile is above, and not above, of rows counted up to each edge."""
    prepared = Prepared(BoundQuery({"n": 0}, "x"), -1, from_training=False, procedure=procedure)
    edges = EDGES[: len(counts)]
    plan = QuantilePlan(SCHEMA, made, "x", level, edges, np.full(len(edges), np.nan), prepared, None)
    values = SealedValues(counts * made.unit, counts / made.rows, seen)
    told, _, _ = plan.release(nats, _CountedUpTo(np.arange(len(edges)), values))
    return told["edges"]


def wrong_quantiles(told, shares, level):
    """True where the told edges exclude the quantile, shape (laws, samples); shares up to each edge by law."""
    at = np.argmax(shares >= level - 1e-12, axis=1)[:, None]
    return (at <= told[None, :, 0]) | (at > told[None, :, 1])


@pytest.mark.parametrize("level", [0.25, 0.5, 0.8])
@pytest.mark.parametrize("allowed", [0.1, 0.4])
def test_quantiles_are_wrong_with_their_level_at_most(level, allowed):
    made, samples, laws = mechanism(8), splits(8, 4), splits(5, 4) / 5
    below = np.cumsum(samples, axis=1)
    told = np.array([told_quantile(made, made.yes_no_procedure, c, level, [None] * 4, log(1 / allowed)) for c in below])
    shares = np.cumsum(laws, axis=1)
    assert worst(samples, laws, wrong_quantiles(told, shares, level)) <= allowed
    one_edge_less = (told + np.array([1, 0]), told - np.array([0, 1]))
    assert max(worst(samples, laws, wrong_quantiles(each, shares, level)) for each in one_edge_less) > allowed


def test_quantiles_of_groups_need_a_procedure_of_groups():
    groups, size, allowed = 5, 4, 0.1
    atoms = np.array([[0, 0, 0, 0], [1, 1, 1, 1], [2, 2, 2, 2], [0, 0, 2, 2]])
    made, samples, laws = mechanism(size * groups), splits(groups, len(atoms)), splits(4, len(atoms)) / 4
    up_to = np.array([[(atom <= edge).sum() for edge in range(3)] for atom in atoms])  # of a group's rows
    none = np.zeros(0, dtype=np.int64)
    bets = GroupBetting(sizes=((size, groups),), training=GroupSums(none, none, none, made.unit))
    grouped, ignored = [], []
    for sample in samples:
        units, sizes = np.repeat(up_to, sample, axis=0), np.full(groups, size)
        seen = [GroupSums(sizes, units[:, edge] * made.unit, np.ones(groups), made.unit) for edge in range(3)]
        counts = units.sum(axis=0)
        grouped.append(told_quantile(made, bets, counts, 0.5, seen, log(1 / allowed)))
        ignored.append(told_quantile(made, made.yes_no_procedure, counts, 0.5, [None] * 3, log(1 / allowed)))
    shares = laws @ up_to / size
    assert worst(samples, laws, wrong_quantiles(np.array(grouped), shares, 0.5)) <= allowed
    assert worst(samples, laws, wrong_quantiles(np.array(ignored), shares, 0.5)) > allowed


# M4: three cells, whose counts are marked where they are far off
@pytest.mark.parametrize("weights", [(1 / 3, 1 / 3, 1 / 3), (0.8, 0.1, 0.1), (0.5, 0.45, 0.05)])
@pytest.mark.parametrize("allowance", [0.3, 100.0])
def test_tables_are_wrong_with_their_level_at_most(weights, allowance):
    made, samples, laws = mechanism(8, allowance=allowance), splits(8, 3), splits(8, 3) / 8
    universe = Universe((ListedColumn("x", (0, 1, 2), rest=0),))
    plan = SynthesisPlan(SCHEMA, made, universe, 1, universe.marginals(1), None)
    vars(plan)["shares"] = shares = CountShares(made, plan.counts, universe, None)
    vars(shares)["first"], allowed, marked = np.array(weights), 0.2, 0
    tables, within = np.empty(samples.shape), np.empty(len(samples))
    for number, counts in enumerate(samples):
        told, _, _ = plan.release(log(1 / allowed), SealedValues(counts * made.unit, counts / 8, [None] * 3))
        tables[number], within[number] = weights, told["within"]
        for mark, share in told["marks"]:
            tables[number], marked = plan.shares.marked(tables[number], int(mark), share), marked + 1
    off, sealed = np.abs(laws[:, None] - tables).max(axis=2), np.abs(samples / 8 - tables).max(axis=1)
    assert worst(samples, laws, off > within) <= allowed
    assert worst(samples, laws, off > sealed) > allowed  # errors among the sealed rows are no limits
    assert bool(marked) == (allowance < 1.0)
