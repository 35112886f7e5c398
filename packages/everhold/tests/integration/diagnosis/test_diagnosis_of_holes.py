"""Holes that were found: declarations that the training rows contradict and nobody was told."""

import numpy as np
import pytest
from diagnosis_samples import diagnosed, planned

from everhold.dependence import Groups, MarkovChain
from everhold.diagnosis.diagnosis import warn_of_dependence
from everhold.errors import DependenceWarning


def clusters(groups, size, shape, seed=0):
    rng = np.random.default_rng(seed)
    hospital = np.repeat(np.arange(groups), size)
    order = rng.permutation(len(hospital))
    late = (rng.random(len(hospital)) < rng.beta(shape, shape, groups)[hospital]).astype(int)
    return {"hospital": hospital[order], "late": late[order]}


@pytest.mark.parametrize("text", [False, True])
def test_large_clusters_with_a_small_correlation_count_by_their_design_effect(text):
    rows = clusters(100, 300, shape=12.0)  # correlation 0.04
    if text:
        rows["hospital"] = np.array([f"h{code}" for code in rows["hospital"]], dtype=object)
    found = diagnosed(rows, mechanism=planned(rows=30_000))
    [suspect] = found.suspects
    assert (suspect.column, suspect.role) == ("hospital", "group")
    assert suspect.correlation < 0.05
    assert suspect.design_effect == pytest.approx(13.0, rel=0.5)
    rows["late"] = np.random.default_rng(1).integers(0, 2, 30_000)
    assert not diagnosed(rows, mechanism=planned(rows=30_000)).suspects


def villages():
    rng = np.random.default_rng(1)
    village, house = np.repeat(np.arange(400), 20), np.repeat(np.arange(4_000), 2)
    late = (rng.random(8_000) < rng.beta(0.5, 0.5, 400)[village]).astype(int)
    return {"village": village, "house": house, "late": late}


def of_column(sizes, column):
    return planned(rows=8_000, dependence=Groups.of_counts(sizes, column=column))


def test_groups_inside_larger_ones_that_still_correlate_are_warned_of():
    found = diagnosed(villages(), mechanism=of_column({2: 4_000}, "house"))
    assert "village" in {suspect.column for suspect in found.suspects}
    assert not diagnosed(villages(), mechanism=of_column({20: 400}, "village")).suspects


def test_a_village_without_a_name_shows_in_the_order_of_its_houses():
    rows = villages()
    del rows["village"]
    order = np.random.default_rng(0).permutation(8_000)
    shuffled = {name: column[order] for name, column in rows.items()}
    assert [suspect.column for suspect in diagnosed(shuffled, mechanism=of_column({2: 4_000}, "house")).suspects] == [
        "house"
    ]


def regime(rows=6_000, seed=0):
    rng = np.random.default_rng(seed)
    state = np.bitwise_xor.accumulate(np.r_[rng.integers(0, 2), rng.random(rows - 1) < 0.002])
    return (rng.random(rows) < np.where(state == 1, 0.75, 0.25)).astype(int)


def test_a_chain_is_never_advised_for_a_noisy_label():
    found = diagnosed({"day": np.arange(6_000), "late": regime()})
    [suspect] = found.suspects
    assert "Groups('block')" in suspect.suggestion()
    assert "MarkovChain" not in suspect.suggestion()
    assert "--groups block" in suspect.suggestion(shell=True)


def test_a_chain_that_is_declared_for_a_noisy_label_is_warned_of():
    late = regime()
    with pytest.warns(DependenceWarning, match="depend on rows further back"):
        chain = MarkovChain.fit({"t": np.arange(6_000), "late": late}, order_by="t", state="late", gap=4_000)
    found = diagnosed({"t": np.arange(6_000), "late": late}, mechanism=planned(rows=6_000, dependence=chain))
    with pytest.warns(DependenceWarning, match="'t'.*are promised"):
        warn_of_dependence(found)


def test_other_columns_than_the_label_are_looked_at():
    coin = np.random.default_rng(3).integers(0, 2, 6_000)
    found = diagnosed({"late": coin, "wind": regime()})
    [suspect] = found.suspects
    assert (suspect.outcome, suspect.of_label) == ("wind", False)
    text = np.where(regime() == 1, "north", "south").astype(object)
    assert diagnosed({"late": coin, "wind": text}).suspects
    assert not diagnosed({"late": coin, "wind": np.random.default_rng(4).permutation(regime())}).suspects


def test_a_key_by_which_the_file_is_sorted_is_no_series():
    rng = np.random.default_rng(5)
    rows = {"city": np.sort(rng.integers(0, 12, 4_000)), "late": rng.integers(0, 2, 4_000)}
    assert not diagnosed(rows).suspects


def homes(seed, *, informative):
    """A few large homes among single people, late for their size or not."""
    rng = np.random.default_rng(seed)
    sizes = np.where(np.arange(400) < 20, 20, 1)
    home = np.repeat(np.arange(400), sizes)
    chance = np.where(sizes > 1, 0.9, 0.3) if informative else rng.random(400)
    return {"home": home, "late": (rng.random(len(home)) < chance[home]).astype(int)}


@pytest.mark.parametrize("informative", [True, False])
def test_sizes_of_groups_that_carry_information_are_said(informative):
    mechanism = planned(rows=780, dependence=Groups.of_counts({1: 380, 20: 20}, column="home"))
    told = [diagnosed(homes(seed, informative=informative), mechanism=mechanism).informative for seed in range(10)]
    assert sum(bool(each) for each in told) == (10 if informative else 0)
    if informative:
        found = diagnosed(homes(0, informative=True), mechanism=mechanism)
        assert "Answers are about groups of the sizes that were sealed" in str(found)
        with pytest.warns(DependenceWarning, match="size of the groups of column 'home' goes together with 'late'"):
            warn_of_dependence(found)


def test_what_groups_are_about_is_in_the_certificate_words():
    assert "population values are for groups of these sizes" in Groups([1, 2, 2]).describe()
