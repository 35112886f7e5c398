"""Figures 2 and 3 of Zhao 2017: populations are what they are declared to be, claims hold, and planted errors show."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everhold.dependence import DependenceModel, Groups, Independent, MarkovChain
from everhold.mechanisms import GuessAndCheck
from everhold.randomness import SeededNoise
from everhold_lab.audit.boards import CopiedInGroups, CopiedInOrder, uniform_copying
from everhold_lab.experiments.attributes import Attributes, AttributeSample
from everhold_lab.experiments.zhao2017 import (
    PROTECTED,
    Case,
    Figure2,
    Figure3,
    Game,
    contender,
    reuse_holdout,
    rows_of_theorem_2,
    select,
)
from everhold_lab.published import zhao_theorem_2_rows
from everhold_privacy.curves import GaussianCurve
from everhold_privacy.leakage import leakage
from everhold_privacy.mechanisms.averages import Empirical

CHAIN, GROUPS = CopiedInOrder(points=16, correlation=0.5), CopiedInGroups(points=1, size=5)
LAW = Attributes(count=60, knowing=3, agreement=0.7)
SMALL2 = Figure2(
    cases=(
        Case("independent", 2_000, CopiedInGroups(points=1, size=1)),
        Case("groups of 5", 2_000, GROUPS),
        Case("chain 0.5", 2_000, CHAIN),
    ),
    attributes=400,
    numbers=(1, 20, 100),
)
SMALL3 = Figure3(
    cases=(Case("groups of 5", 50_000, GROUPS), Case("chain 0.5", 50_000, CHAIN)), attributes=60, numbers=(1, 10, 30)
)
NO_SIGNAL = {"rows_move": "groups of 5", "rows": 50_000, "signal": False}
CLAIMED = "below 1/2"


def played(figure, repetitions: int = 2) -> tuple[list, list]:
    rows = [row for setting in figure.settings() for seed in range(repetitions) for row in figure.play(setting, seed)]
    return rows, figure.summary(rows)


@pytest.fixture(scope="module")
def small2():
    return played(SMALL2)


@pytest.fixture(scope="module")
def small3():
    return played(SMALL3)


def block_law(law: Attributes, *, knowing: bool) -> dict[tuple[int, ...], float]:
    """Probability of every pattern of agreements in one block, by enumeration."""
    one = law.agreement if knowing else 0.5
    chances = {}
    for pattern in itertools.product((0, 1), repeat=law.block):
        ups = {coin: (coin + one) / 2 for coin in (0, 1)}
        given_coin = {coin: math.prod(up if agrees else 1 - up for agrees in pattern) for coin, up in ups.items()}
        chances[pattern] = one * given_coin[1] + (1 - one) * given_coin[0]
    return chances


def enumerated_accuracy(law: Attributes, weights: np.ndarray) -> float:
    table, total = weights.reshape(law.block, law.blocks), 0.0
    laws = [block_law(law, knowing=block < law.knowing) for block in range(law.blocks)]
    for patterns in itertools.product(*laws):
        score = sum(int(w) * (2 * z - 1) for b, p in enumerate(patterns) for w, z in zip(table[:, b], p, strict=True))
        right = (1 + np.sign(score)) / 2
        total += right * math.prod(chances[pattern] for chances, pattern in zip(laws, patterns, strict=True))
    return total


# The population -------------------------------------------------------------------------------------------------------


def test_runs_of_a_chain_are_as_long_as_repeating_makes_them():
    copies = LAW.sample(CopiedInOrder(points=1, correlation=0.8), 50_000, np.random.default_rng(0)).copies
    assert copies.sum() == 50_000
    assert len(copies) == pytest.approx(10_000, abs=450)  # five standard errors
    for length in (1, 2, 5):
        assert np.mean(copies == length) == pytest.approx(0.2 * 0.8 ** (length - 1), abs=0.02)


def test_all_rows_of_a_group_carry_one_record():
    sample = LAW.sample(GROUPS, 500, np.random.default_rng(0))
    assert sample.copies.tolist() == [5] * 100
    assert len(set(map(bytes, sample.agreements.T.copy()))) == 100


def test_records_of_different_groups_are_independent():
    records = 2.0 * Attributes(count=200).records(20_000, np.random.default_rng(1)) - 1.0
    products = np.mean(records[:, 1:] * records[:, :-1], axis=1)
    assert np.abs(products).max() < 5.0 / math.sqrt(20_000)


def test_attributes_agree_with_the_label_and_with_each_other_as_stated():
    records = LAW.records(60_000, np.random.default_rng(2)).astype(np.float64)
    assert np.abs(records.mean(axis=1) - LAW.truth).max() < 0.011
    correlation = np.corrcoef(records)
    block = np.arange(LAW.count) % LAW.blocks
    same = (block[:, None] == block) & ~np.eye(LAW.count, dtype=bool)
    assert np.abs(correlation[same] - 0.25).max() < 0.025  # both copy the coin with probability 1/4
    assert np.abs(correlation[block[:, None] != block]).max() < 0.025


@given(
    weights=st.lists(st.sampled_from([-1, 0, 1]), min_size=6, max_size=6),
    knowing=st.integers(0, 2),
    agreement=st.floats(0.05, 0.95),
)
def test_the_accuracy_of_a_vote_is_that_of_enumeration(weights, knowing, agreement):
    law = Attributes(count=6, block=3, knowing=knowing, agreement=agreement)
    vote = np.array(weights, dtype=np.int8)
    assert law.accuracy(vote) == pytest.approx(enumerated_accuracy(law, vote), abs=1e-12)


def test_the_least_likely_record_is_that_of_enumeration():
    law = Attributes(count=12, block=4, knowing=1, agreement=0.8)
    least = [min(block_law(law, knowing=knowing).values()) for knowing in (True, False, False)]
    assert law.log_least == pytest.approx(-math.log(math.prod(least) / 2))


def test_sums_over_copies_are_sums_over_rows():
    rng = np.random.default_rng(3)
    sample = LAW.sample(CHAIN, 30_000, rng)  # more records than one part
    rows = np.repeat(sample.agreements, sample.copies, axis=1).astype(np.int64)
    weights = rng.integers(-1, 2, (LAW.count, 4)).astype(np.int8)
    weights[:, 3] = 0
    assert sample.agreeing.tolist() == rows.sum(axis=1).tolist()
    twice = (1 + np.sign(weights.T.astype(np.int64) @ (2 * rows - 1))).sum(axis=1)
    assert sample.right_votes(weights).tolist() == twice.tolist()
    assert twice[3] == sample.rows  # nobody votes: all ties


def test_numbers_that_make_no_population_are_refused():
    for wrong, says in (
        ({"count": 7, "block": 5}, r"7 attributes in blocks of 5\. Pass a count that is a multiple of the block\."),
        ({"count": 10, "knowing": 3}, r"knowing is 3\. Pass a number of blocks from 0 to 2\."),
        ({"count": 10, "agreement": 1.0}, r"agreement is 1\.0\. Pass the probability that an attribute"),
    ):
        with pytest.raises(ValueError, match=says):
            Attributes(**wrong)
    with pytest.raises(ValueError, match="fewer than"):
        AttributeSample(np.zeros((1, 1), np.uint8), np.array([1 << 24]))
    wrong = LAW.sample(GROUPS, 100, np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"100 training rows and 100 sealed rows\. Pass 200 of each"):
        reuse_holdout(
            Empirical(rows=200, queries=61), SeededNoise(0), law=LAW, training=wrong, holdout=wrong, numbers=(1,)
        )


# The declared models and claims ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("correlation", [0.5, 0.9])
def test_a_chain_of_few_states_leaves_out_no_more_than_its_equal_pairs(correlation):
    few, many = (MarkovChain(uniform_copying(states, correlation).tolist()) for states in (8, 48))
    for epsilon in (0.0, 0.05, 0.5):
        short, full = (leakage(model, GaussianCurve(0.1), 5_000).delta(epsilon) for model in (few, many))
        assert full <= short / (1.0 - 1.0 / 8.0)
    assert full > short
    assert few.concentration(5_000) == pytest.approx(many.concentration(5_000))


def game(population, law=LAW, **wanted) -> Game:
    return Game(
        case=Case("c", 50_000, population), law=law, queries=70, surprises=5,
        **{"tolerance": 0.1, "confidence": 0.95} | wanted,
    )  # fmt: skip


def test_the_planned_mechanisms_declare_the_population():
    declared = {name: contender(game(CHAIN), name).mechanism for name in ("thresholdout_iid", *PROTECTED)}
    assert declared["thresholdout_iid"].dependence == Independent()
    for name in PROTECTED:
        assert declared[name].dependence == CHAIN.dependence()
        assert declared[name].beta == pytest.approx(0.05 * (1 - 1 / 32))
        assert contender(game(GROUPS), name).mechanism.dependence == Groups(5)
        assert contender(game(GROUPS), name).mechanism.beta == pytest.approx(0.05)


def test_theorem_2_needs_rows_for_whole_groups_and_for_every_possible_record():
    wanted = {"queries": 70, "surprises": 5, "confidence": 0.95, "slack": 1 / 3}
    single = zhao_theorem_2_rows(0.1, **wanted).rows
    assert rows_of_theorem_2(game(GROUPS)) == pytest.approx(5 * single, rel=1e-5)
    few, many = (rows_of_theorem_2(game(CHAIN, Attributes(count=count))) for count in (60, 600))
    assert many > 5 * few > 50 * single
    claim = contender(game(GROUPS), "thresholdout_theorem2")
    assert (claim.radius, claim.rows_needed) == (0.1, rows_of_theorem_2(game(GROUPS)))


def test_the_price_of_a_chain_is_that_of_its_matrix():
    @dataclass(frozen=True)
    class Uniform:
        log_least: float

    chain = CopiedInOrder(points=8, correlation=0.5)
    wanted = {"queries": 70, "surprises": 5, "confidence": 0.95, "slack": 1 / 3}
    model = chain.dependence()
    expected = zhao_theorem_2_rows(0.1, price=lambda tau: model.bayesian_price(tau / 3, 10**6), **wanted).rows
    assert rows_of_theorem_2(game(chain, Uniform(math.log(16)))) == pytest.approx(expected, rel=0.05)


# The analyst ----------------------------------------------------------------------------------------------------------


def test_attributes_are_chosen_by_both_and_ordered_by_training():
    training = np.array([0.5, -0.4, 0.3, 0.2, 0.05, -0.6])
    holdout = np.array([0.2, -0.3, -0.3, 0.9, 0.90, -0.05])
    weights, selected = select(training, holdout, least=0.1, numbers=(1, 2, 10))
    assert weights.T.tolist() == [[1, 0, 0, 0, 0, 0], [1, -1, 0, 0, 0, 0], [1, -1, 0, 1, 0, 0]]
    assert selected.tolist() == [1, 2, 3]


def test_an_analyst_who_is_refused_goes_on_with_the_training_rows():
    rng = np.random.default_rng(0)
    training, holdout = (LAW.sample(GROUPS, 10_000, rng) for _ in range(2))
    used_up = Empirical(rows=10_000, queries=1)
    reuse = reuse_holdout(
        used_up, SeededNoise(0), law=LAW, training=training, holdout=holdout, numbers=(1, 5)
    )  # fmt: skip
    assert reuse.refused == LAW.count + 1
    assert [line["reported"] for line in reuse.lines((1, 5))] == [None, None]
    assert reuse.selected.tolist() == [1, 5]
    assert reuse.fresh[1] > 0.7


# The figures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("figure", [SMALL2, SMALL3], ids=["figure2", "figure3"])
def test_a_seed_decides_all_and_rows_are_plain(figure):
    setting = figure.settings()[1]
    rows = figure.play(setting, 4)
    assert rows == figure.play(setting, 4) != figure.play(setting, 5)
    assert json.loads(json.dumps(rows)) == rows
    assert len(rows) == len(figure.analysts) * len(figure.numbers)
    assert all(row.items() >= setting.items() for row in rows)


def test_lines_of_a_summary_are_means(small3):
    rows, summary = small3
    line = summary[0]
    same = [row for row in rows if all(row[name] == line[name] for name in ("rows_move", "signal", "analyst", "k"))]
    assert line["repetitions"] == len(same) == 2
    assert line["fresh"] == pytest.approx(np.mean([row["fresh"] for row in same]))
    assert line["sd_reported"] == pytest.approx(np.std([row["reported"] for row in same]))
    assert list(line)[:10] == [
        "analyst", "signal", "k", "rows_move", "training", "reported", "fresh", "sd_training", "sd_reported",
        "sd_fresh",
    ]  # fmt: skip
    assert len(summary) * 2 == len(rows)


def test_common_reuse_overfits_the_more_the_rows_depend(small2):
    rows, summary = small2
    gap = {
        line["rows_move"]: line["reported"] - line["fresh"]
        for line in summary
        if line["k"] == 100 and not line["signal"]
    }
    assert gap["groups of 5"] > gap["chain 0.5"] > gap["independent"] > 0.0
    assert all(SMALL2.findings(summary, rows).values())
    assert len(SMALL2.findings(summary, rows)) == 2
    assert [line["fresh"] for line in summary if not line["signal"]] == pytest.approx([0.5] * 9)


def test_an_honest_report_is_no_overfitting(small2):
    rows, summary = small2
    honest = [line | {"reported": line["fresh"]} for line in summary]
    assert not any(SMALL2.findings(honest, rows).values())


def test_what_is_proven_holds_for_every_answer(small3):
    rows, summary = small3
    findings = {text: kept for text, kept in SMALL3.findings(summary, rows).items() if CLAIMED in text}
    assert len(findings) == 4
    assert all(findings.values())


def test_a_promise_of_half_the_range_or_more_shows_nothing():
    vacuous = Figure3(cases=(Case("groups of 5", 5_000, GROUPS),), attributes=60, numbers=(1, 10))
    rows, summary = played(vacuous, 1)
    found = [kept for text, kept in vacuous.findings(summary, rows).items() if text.startswith("Thresholdout, tuned")]
    assert found == [False]


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenForIndependent(CopiedInGroups):
    """A population that is declared wrongly."""

    def dependence(self) -> DependenceModel:
        return Independent()


def test_groups_that_are_declared_independent_break_the_promise():
    strong = CopiedInGroups(points=1, size=500)
    ignored = TakenForIndependent(points=1, size=500)
    for population, kept in ((strong, True), (ignored, False)):
        figure = Figure3(cases=(Case("groups of 5", 500_000, population),), attributes=60, numbers=(1, 10))
        rows, summary = played(figure, 3)
        findings = figure.findings(summary, rows)
        assert {kept_ for text, kept_ in findings.items() if CLAIMED in text and "check, tuned" in text} == {kept}
        assert any(kept_ for text, kept_ in findings.items() if "taken for independent" in text)


def test_pictures_have_a_panel_for_each_and_leave_refusals_out(small2, small3):
    for figure, (rows, summary), count in ((SMALL2, small2, 2), (SMALL3, small3, 5)):
        pictures = figure.pictures(summary, rows)
        assert len({picture.name for picture in pictures}) == len(pictures) == count
        for picture in pictures:
            drawn = json.dumps(picture.chart.to_dict())
            assert "number of attributes that vote" in drawn
            assert "NaN" not in drawn
    refused = [line | {"reported": None, "sd_reported": None} for line in small3[1]]
    assert "as the holdout reports" in json.dumps(SMALL3.pictures(refused, [])[0].chart.to_dict())


def test_the_least_claim_of_the_figures_is_that_of_the_sharpest_mechanism():
    radius = {name: contender(game(GROUPS), name).radius for name in Figure3.analysts if name != "common"}
    assert radius["guess_and_check_iid"] == min(radius.values())
    assert isinstance(contender(game(GROUPS), "guess_and_check_iid").mechanism, GuessAndCheck)
