"""S13 against analysts who know the population: games in which rows arrive, and the same ones without a protection.

See docs/theory/growing.md; the studies are those of `arrival_studies`.
"""

import numpy as np
from arrival_studies import BETA, WRONG, Study, lost, static


def climbs_after(rng, *, counted=True):
    """Labels are told by the tree of all rows after the other one opened; the majority is asked there."""
    study = Study(rng, counted=counted)
    study.arrive()
    study.ask(study.majority(study.climb()), WRONG, tree=1)
    return study.lost


def climbs_before(rng, *, copied=False):
    """Labels are told before the rows arrive, and arrive because they were surprises; the majority is asked of both."""
    study = Study(rng, copied=copied)
    labels = study.climb()
    if study.state.charged:  # an arrival that depends on what was told
        study.arrive()
        study.ask(study.majority(labels), WRONG, tree=1)
    study.ask(study.majority(labels), WRONG)
    return study.lost


def test_climbing_over_trees_keeps_the_promise():
    assert lost(climbs_after) <= BETA
    assert lost(climbs_before) <= BETA


def test_answers_that_another_tree_does_not_count_break_it():
    assert lost(lambda rng: climbs_after(rng, counted=False)) > BETA


def test_rows_of_groups_that_began_before_the_tree_break_it():
    assert lost(lambda rng: climbs_before(rng, copied=True)) > BETA


def stops(games):
    """Share of games lost: with a size that was fixed without a look, and if rows arrive until something looks good."""
    sizes = np.unique(np.geomspace(50, 20_000, 60).astype(int)).tolist()
    rng, total, before, ever, first = np.random.default_rng(1), np.zeros(games), 0, np.zeros(games, dtype=bool), None
    for rows in sizes:
        total += rng.binomial(rows - before, 0.5, games)
        now, before = static(rows), rows
        nats = np.full(games, float(now.nats(1, 0, 0.0)))
        low, high = now.yes_no_procedure.span(total / rows, total / rows, nats)
        missed = (low > 0.5) | (high < 0.5)
        ever |= missed
        first = missed if first is None else first
    return float(first.mean()), float(ever.mean())


def test_arrivals_that_peek_break_it():
    fixed, peeked = stops(400)
    assert fixed <= BETA < peeked
