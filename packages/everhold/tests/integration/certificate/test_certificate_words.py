import re

import numpy as np
import pytest
from certificate_samples import make_sample
from hypothesis import given
from hypothesis import strategies as st

from everhold import Holdout, mean
from everhold.certificate.phrases import at_least, at_most, shown
from everhold.mechanisms import MECHANISMS, GuessAndCheck, Silent
from everhold_competitions.ladder import Ladder
from everhold_privacy.mechanisms.additive import GaussianMechanism, LaplaceMechanism
from everhold_privacy.mechanisms.averages import Empirical, SampleSplitting
from everhold_privacy.mechanisms.privacy_budget import PrivacyBudget
from everhold_privacy.mechanisms.subsampling import RandomRows, Subsampling
from everhold_privacy.mechanisms.thresholdout import Thresholdout

END = "all of them at once, with probability"
SENTENCES = [
    (
        GuessAndCheck.tuned(rows=20_000, queries=1_000, surprises=10),
        "Until 1,000 queries or 10 surprises are used up, every confirmed guess of a mean over all rows is within "
        "0.074 of the population's value and every other answer within the interval that was told with it, "
        f"{END} 95 % (statement "
        "S8, independent rows).",
    ),
    (
        Thresholdout.tuned(rows=20_000, queries=1_000, surprises=1),
        "Until 1,000 queries or 1 surprise is used up, every answer is within 0.097 of the population's value, "
        f"{END} 95 % (statement S1, independent rows).",
    ),
    (
        GaussianMechanism(rows=20_000, queries=1_000, scale=0.015),
        "Until 1,000 queries are used up, every answer is within 0.134 of the population's value, "
        f"{END} 95 % (statement S1, independent rows).",
    ),
    (
        PrivacyBudget(rows=20_000, queries=1_000, scale=0.016),
        "Until 1,000 queries or the credits are used up, every mean at the planned sharpness is within 0.143 of the "
        f"population's value and every other answer within what was stated with it, {END} 95 % (statement S1, "
        "independent rows).",
    ),
    (
        LaplaceMechanism(rows=20_000, queries=10, scale=0.005, confidence=0.999),
        "Until 10 queries are used up, every answer is within 0.077 of the population's value, "
        f"{END} 99.9 % (statement S1, independent rows).",
    ),
    (
        Ladder(rows=20_000, queries=1_000, grid=41),
        "Until 1,000 submissions are used up, the best score shown, of all or of a team, is at all times within 0.092 "
        "of the best population value among the submissions that it is the best of, with probability 95 % "
        "(statement S3, independent rows).",
    ),
    (
        Subsampling(rows=20_000, queries=1_000, draws=2**20, coins=0.96),
        "Until 1,000 queries are used up, every answer is within 0.14 of the population's value, "
        f"{END} 95 % (statement S1, independent rows).",
    ),
    (
        RandomRows(rows=20_000, queries=1_000, draws=600, coins=0.0005),
        "Until 1,000 queries are used up, every answer is within 0.176 of the population's value, "
        f"{END} 95 % (statement S6, independent rows).",
    ),
    (
        SampleSplitting(rows=20_000, queries=1),
        "Until 1 query is used up, every answer is within 0.0097 of the population's value, "
        f"{END} 95 % (statement S3, independent rows).",
    ),
    (
        Empirical(rows=20_000, queries=10),
        "If all queries were fixed before the first answer was seen, every one of up to 10 answers is within 0.013 "
        f"of the population's value, {END} 95 % (statement P9, independent rows). Otherwise nothing is promised.",
    ),
    (
        Silent(rows=10_000, queries=1_275, first=50),
        "Nothing is told before the study is unsealed. Then every one of up to 1,275 answers is within 0.024 of the "
        f"population's value, {END} 95 % (statement S8, independent rows).",
    ),
]


@pytest.mark.parametrize(("mechanism", "sentence"), SENTENCES, ids=lambda value: getattr(value, "name", ""))
def test_the_promise_in_one_sentence(tmp_path, mechanism, sentence):
    assert make_sample(tmp_path, mechanism)[0].promise == sentence


def test_a_surprise_after_a_crowded_training_set_is_told_narrowly_and_the_sentence_names_its_own_interval(tmp_path):
    count = 2_000
    spread = np.random.default_rng(0).integers(0, 2, count).astype(float)
    crowded = np.random.default_rng(1).normal(0.1, 0.001, count)
    with Holdout.create(
        f"sqlite:///{tmp_path}/s.db", "s", holdout={"v": spread}, training={"v": crowded},
        mechanism="guess_and_check", queries=20, surprises=3,
    ) as holdout:  # fmt: skip
        answer = holdout.ask(mean("v", low=0.0, high=1.0))
        sentence = holdout.certificate().promise
        radius = holdout.promise.radius
    assert answer.source == "holdout"
    assert answer.high - answer.low < 2.0 * radius
    assert "every answer is within" not in sentence
    assert "every other answer within the interval that was told with it" in sentence


def test_every_mechanism_has_a_sentence_here():
    assert {type(mechanism) for mechanism, _ in SENTENCES} == set(MECHANISMS.values())


def test_a_useless_half_width_is_called_so(tmp_path):
    vacuous = make_sample(tmp_path, SampleSplitting(rows=100, queries=100))[0].in_words()
    useful = make_sample(tmp_path)[0].in_words()
    assert "next to nothing" in vacuous["promise"]["explanation"][0]
    assert "next to nothing" not in str(useful)


@given(st.floats(1e-12, 1e12))
def test_a_bound_is_never_rounded_to_the_side_that_makes_it_false(value):
    assert float(at_least(value)) <= value <= float(at_most(value))


@given(st.floats(1e-12, 1e12))
def test_a_shown_number_is_right_to_six_digits(value):
    assert float(shown(value).replace(",", "")) == pytest.approx(value, rel=1e-5)


def privacy_of(folder, mechanism, **options):
    section = make_sample(folder, mechanism, **options)[0].in_words()["privacy"]
    return section["epsilon"], section["delta"], " ".join(section["explanation"])


@pytest.mark.parametrize("name", ["guess_and_check", "sample_splitting", "empirical"])
def test_without_noise_no_privacy_is_promised(tmp_path, name):
    mechanism = MECHANISMS[name].tuned(rows=20_000, queries=100)
    epsilon, delta, said = privacy_of(tmp_path, mechanism)
    assert (epsilon, delta) == (None, None)
    assert said.startswith("No privacy of single rows is promised: no noise is added")


def test_with_noise_epsilon_and_delta_are_stated(tmp_path):
    mechanism = GaussianMechanism(rows=20_000, queries=100, scale=0.02)
    epsilon, delta, said = privacy_of(tmp_path, mechanism)
    assert (epsilon, delta) == mechanism.promise().privacy
    assert "delta = 0.000001" in said
    assert float(re.search(r"epsilon = ([0-9.]+) ", said)[1]) >= epsilon
    assert "not meaningful" not in said


def test_a_large_epsilon_is_not_sold_as_privacy(tmp_path):
    mechanism = LaplaceMechanism(rows=1_000, queries=100, scale=0.005)
    epsilon, _, said = privacy_of(tmp_path, mechanism)
    assert epsilon > 10
    assert "not meaningful privacy" in said


def test_noise_that_can_be_predicted_gives_no_privacy(tmp_path):
    epsilon, _, said = privacy_of(tmp_path, GaussianMechanism(rows=20_000, queries=100, scale=0.02), simulation=True)
    assert epsilon is None
    assert "can be predicted" in said


def test_a_simulation_says_so_everywhere(tmp_path):
    certificate, _ = make_sample(tmp_path, simulation=True)
    assert certificate.simulation
    assert certificate.promise.startswith("Simulation only: ")
    assert '<p class="banner" role="alert">Simulation.' in certificate.to_html()
    real, _ = make_sample(tmp_path)
    assert not real.simulation
    assert 'class="banner"' not in real.to_html()
