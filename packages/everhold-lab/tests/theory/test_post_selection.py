"""Second looks after a session: exact on tiny worlds, and simulated with an analyst who picks the best of many."""

import math
import re
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm
from tiny_worlds import QUERIES, binary_data, independent_law, noisy_mean, randomised_response, two_queries

from everhold.dependence import Groups, MarkovChain
from everhold.errors import DependenceError
from everhold.guarantees.description_length import QueryTree, hoeffding_radius
from everhold_lab.published.post_selection import (
    corrected_p_value,
    corrected_radius,
    max_information_bits,
    max_information_of_curve,
    p_value_threshold,
    post_selection_radius,
)
from everhold_privacy.curves import GaussianCurve, PureCurve
from everhold_privacy.guarantees import gaussian_exceedance, transfer_radius
from everhold_privacy.leakage import leakage

FAIR = 0.5


# An imagined answer (S1) ----------------------------------------------------------------------------------------------


def imagined_world(seed, *, dependent):
    """One answered query and a second one, chosen by the answer, whose noise is only imagined."""
    generator = np.random.default_rng([seed, dependent])
    rows = int(generator.integers(1, 4))
    prior = (
        generator.dirichlet(np.full(2**rows, 0.4))
        if dependent
        else independent_law(generator.beta(0.5, 0.5, size=rows))
    )
    choice = generator.integers(len(QUERIES), size=100)
    scale = int(generator.integers(1, 6))
    world = two_queries(prior, noisy_mean(scale), lambda i: QUERIES[choice[i]], rows=rows, divisor=4.0 * rows)
    return world, rows


def errors_of_the_second(world):
    """Its sampling error, its imagined noise and their probabilities, each of shape (data sets, transcripts)."""
    sealed = world.sealed_means()[:, :, 1]
    return np.abs(sealed - world.population_means()[:, 1]), world.answers[:, 1] - sealed, world.joint()


@pytest.mark.parametrize("dependent", [False, True])
@given(seed=st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_a_parameter_that_was_chosen_and_not_asked_obeys_S1_with_an_imagined_answer(seed, dependent):
    world, rows = imagined_world(seed, dependent=dependent)
    error, noise, joint = errors_of_the_second(world)
    for epsilon in (0.0, 0.3, 1.0, 2.5):
        for alpha in (0.0, 0.1, 0.4):
            spent = np.sum(joint * np.maximum(np.abs(noise) - alpha, 0.0)) + float(world.delta(epsilon))
            for reach in (-0.25, 0.0, 0.5):
                allowed = np.sum(joint[noise <= reach / rows + 1e-12])
                for t in (0.3, 0.5, 0.8):
                    room = t - reach / rows - alpha - math.tanh(epsilon / 4)
                    if room > 0:
                        assert np.sum(joint[error > t + 1e-12]) * allowed <= spent / room + 1e-12


def test_the_leakage_of_the_session_alone_says_nothing_about_the_sealed_average():
    """A session that tells nothing has radius tanh(0) + 0 = 0, and the sealed average of a coin is still never 1/2."""
    answers, _ = randomised_response(0.0)
    silent = two_queries(
        independent_law([FAIR]),
        (answers, lambda query, data: np.full((len(data), 2), 0.5)),
        lambda i: QUERIES[0],
        rows=1,
    )
    assert float(silent.delta(0.0)) == 0.0
    error, _, joint = errors_of_the_second(silent)
    assert np.sum(joint[error > 0.0]) == pytest.approx(1.0)


@pytest.mark.parametrize("rows", [100, 2_500])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
def test_before_any_query_it_covers_a_coin_and_a_quarter_of_it_does_not(rows, confidence):
    radius = post_selection_radius(PureCurve(0.0), rows=rows, confidence=confidence).radius

    def missed(reach):
        return 2.0 * binom.cdf(math.ceil(rows * (FAIR - reach)) - 1, rows, FAIR)

    assert missed(radius) <= 1.0 - confidence
    assert missed(0.25 * radius) > 1.0 - confidence
    assert radius >= corrected_radius(rows=rows, confidence=confidence, bits=0.0)  # Hoeffding's


@pytest.mark.parametrize("mu", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("confidence", [0.8, 0.99])
def test_the_radius_is_that_of_S1_with_one_more_answer(mu, confidence):
    """Evaluated by `transfer_radius` at the imagined noise that was found, which it can only improve a little."""
    found = post_selection_radius(GaussianCurve(mu), rows=1_000, confidence=confidence)
    plain = transfer_radius(
        lambda alpha: gaussian_exceedance(alpha=alpha, scale=found.scale, answers=1),
        GaussianCurve(math.hypot(mu, 1 / (1_000 * found.scale))),
        confidence=1.0 - (1.0 - confidence) * norm.cdf(found.reach),
    )
    whole = plain.radius + found.reach * found.scale
    assert whole * (1 - 1e-9) <= found.radius <= whole * 1.01


def test_the_radius_grows_with_what_the_session_told_and_with_dependence():
    radii = [post_selection_radius(GaussianCurve(mu), rows=1_000, confidence=0.95).radius for mu in (0.01, 0.1, 0.5)]
    assert radii == sorted(radii)
    pairs = post_selection_radius(GaussianCurve(0.1), rows=1_000, confidence=0.95, dependence=Groups(2))
    assert pairs.radius > radii[1]
    assert post_selection_radius(GaussianCurve(0.1), rows=1_000, confidence=0.99).radius > radii[1]


@pytest.mark.slow
def test_a_vote_of_the_best_features_fools_a_naive_interval_and_not_the_corrected_one():
    rows, features, scale, runs = 500, 800, 0.2, 120
    curve = GaussianCurve(mu=math.sqrt(features) / (rows * scale))
    radius = post_selection_radius(curve, rows=rows, confidence=0.95).radius
    naive = norm.ppf(0.975) * math.sqrt(0.25 / rows)
    errors = [voting_error(np.random.default_rng(seed), rows, features, scale) for seed in range(runs)]
    assert np.mean(np.abs(errors) > naive) > 0.3
    assert np.mean(np.abs(errors) > radius) <= 0.05
    without_noise = [voting_error(np.random.default_rng(seed), rows, features, 0.0) for seed in range(5)]
    assert min(without_noise) > radius  # so the radius is not simply large


def voting_error(rng, rows, features, scale):
    """How far a vote of coins, each turned to where its noisy average leans, is from its population value 1/2."""
    coins = rng.integers(0, 2, (rows, features)) * 2 - 1
    lean = np.sign(coins.mean(axis=0) / 2.0 + scale * rng.normal(size=features))
    votes = coins @ lean
    return float(np.mean((votes > 0) + 0.5 * (votes == 0))) - 0.5


# Max-information (P3) -------------------------------------------------------------------------------------------------


def told_by_randomised_response(rows, epsilon):
    """Joint law of uniform bits and their flipped copies, and valid p-values that pick each transcript's worst rows."""
    keep = 1.0 / (1.0 + math.exp(-epsilon))
    data = binary_data(rows)
    distance = (data[:, None, :] != data[None, :, :]).sum(axis=2)
    joint = keep ** (rows - distance) * (1.0 - keep) ** distance / 2**rows
    order = np.argsort(np.argsort(distance, axis=0, kind="stable"), axis=0)
    return joint, (order + 1.0) / 2**rows


@pytest.mark.parametrize("rows", [2, 4, 6])
@pytest.mark.parametrize("epsilon", [0.05, 0.2, 0.6])
@pytest.mark.parametrize("failure", [0.01, 0.1])
def test_a_corrected_p_value_is_a_p_value(rows, epsilon, failure):
    joint, p_values = told_by_randomised_response(rows, epsilon)
    bits = max_information_bits(PureCurve(epsilon), rows=rows, failure=failure)
    corrected = np.vectorize(lambda p: corrected_p_value(p, bits=bits, failure=failure))(p_values)
    for level in np.linspace(0.02, 1.0, 50):
        assert joint[corrected <= level].sum() <= level + 1e-12
    assert any(joint[p_values <= level].sum() > level + 1e-9 for level in np.linspace(0.02, 0.98, 49))


@given(p=st.floats(0, 1), level=st.floats(0.02, 0.9), bits=st.floats(0, 40), share=st.floats(0, 0.99))
def test_the_corrected_p_value_is_the_inverse_of_the_p_value_threshold(p, level, bits, share):
    failure = share * level
    threshold = p_value_threshold(level, bits=bits, failure=failure)
    if abs(p - threshold) > 1e-9 * threshold:
        assert (corrected_p_value(p, bits=bits, failure=failure) <= level) == (p <= threshold)


def test_bits_of_curves():
    assert max_information_bits(PureCurve(0.0), rows=100, failure=0.01) == 0.0
    noise = GaussianCurve(0.1)
    assert (
        max_information_bits(noise, rows=100, failure=0.01)
        == max_information_of_curve(noise, rows=100, failure=0.01).bits
    )
    assert max_information_bits(noise, rows=100, failure=0.01, dependence=Groups(2)) == math.inf
    assert corrected_p_value(1e-300, bits=math.inf) == corrected_p_value(1e-300, bits=2_000.0) == 1.0
    any_law = max_information_bits(PureCurve(0.01, 10), rows=100, failure=0.01, dependence=Groups(2))
    assert any_law == pytest.approx(10 / math.log(2))
    assert max_information_bits(PureCurve(0.01, 10), rows=100, failure=0.01) < any_law


# A tree of all that could have been chosen (S3) -----------------------------------------------------------------------


def best_of_many(rng, rows=400, tests=60):
    """Two-sided p-value and sampling error of the coin that looks least fair."""
    heads = rng.binomial(rows, FAIR, size=tests)
    worst = heads[np.argmax(np.abs(heads - rows * FAIR))]
    return 2.0 * binom.cdf(min(worst, rows - worst), rows, FAIR), abs(worst / rows - FAIR)


def test_the_best_of_many_fools_a_naive_test_and_interval_and_not_the_corrected_ones():
    picked = [best_of_many(np.random.default_rng(seed)) for seed in range(400)]
    p_values, errors = np.array(picked).T
    bits = math.log2(60)
    assert np.mean(p_values <= 0.05) > 0.8
    assert np.mean([corrected_p_value(p, bits=bits) <= 0.05 for p in p_values]) <= 0.05
    assert np.mean(errors > corrected_radius(rows=400, confidence=0.95, bits=0.0)) > 0.2
    assert np.mean(errors > corrected_radius(rows=400, confidence=0.95, bits=bits)) <= 0.05


def test_tests_at_every_node_of_a_tree_are_rejected_with_the_level_at_most():
    """Every history of up to 6 queries may lead to a test of its own: their levels sum to at most that requested."""
    tree = QueryTree(queries=4)
    total = 0.0
    for asked in range(1, 7):
        for released in range(asked):
            weight = tree.log_inverse_weight(asked=asked, surprises=released, labels=released * math.log(3))
            histories = math.comb(asked - 1, released) * 3**released
            total += histories * p_value_threshold(0.05, bits=float(weight) / math.log(2.0))
    assert 0.02 < total <= 0.05


def test_radii_are_hoeffdings_at_the_smaller_level():
    by_hand = math.sqrt(math.log(2 * 1_000 / 0.05) / (2 * 500))
    bits = math.log2(1_000)
    assert corrected_radius(rows=500, confidence=0.95, bits=bits) == pytest.approx(by_hand)
    assert corrected_radius(rows=500, confidence=0.95, bits=bits, failure=0.01) > by_hand


# Rows that depend on each other, and on training rows -----------------------------------------------------------------

PATIENTS, VISITS, OPEN_VISITS = 400, 3, 60


def visits(seed):
    """Two states that rarely change, as text columns of training visits, and the sealed visits, shape (patients, 3)."""
    rng = np.random.default_rng(seed)
    changes = rng.random((PATIENTS, OPEN_VISITS + VISITS)) < 0.1
    changes[:, 0] = rng.random(PATIENTS) < 0.5
    state = np.logical_xor.accumulate(changes, axis=1).astype(int)
    patient, visit = np.divmod(np.arange(PATIENTS * OPEN_VISITS), OPEN_VISITS)
    return {"patient": patient, "visit": visit, "state": state[:, :OPEN_VISITS].ravel()}, state[:, OPEN_VISITS:]


def fitted_chain(training, *, gap):
    """As sealing would bind it to 400 patients with three visits each."""
    fitted = MarkovChain.fit(training, order_by="visit", state="state", groups="patient", gap=gap)
    return MarkovChain.from_dict({**fitted.to_dict(), "lengths": [[VISITS, PATIENTS]]})


def as_if_free_of_training_rows(model):
    """The model with the protection removed: nothing is given up."""
    return SimpleNamespace(
        miss=0.0, training_distance=lambda: 0.0, leakage=partial(leakage, model), concentration=model.concentration,
        independent=False,
    )  # fmt: skip


SECOND_LOOKS = {
    "S1": lambda model: post_selection_radius(PureCurve(0.0), rows=1_200, confidence=0.95, dependence=model).radius,
    "S3, P3": lambda model: corrected_radius(rows=1_200, confidence=0.95, bits=0.0, dependence=model),
    "level of S3, P3": lambda model: p_value_threshold(0.05, bits=0.0, dependence=model),
}


@pytest.mark.parametrize("look", SECOND_LOOKS.values(), ids=SECOND_LOOKS)
def test_a_fitted_chain_next_to_its_training_rows_leaves_no_second_look(look):
    """Whoever saw the last open visit guesses the sealed ones: no radius can be right, and none is given."""
    training, _ = visits(0)
    with pytest.raises(DependenceError, match="dependence model fails with probability 1"):
        look(fitted_chain(training, gap=0))


@pytest.mark.parametrize("look", ["S1", "S3, P3"])
def test_radii_that_give_up_nothing_for_training_rows_are_wrong_every_time(look):
    """The parameter is chosen from the training rows alone: "as at the last open visit", right for half of all."""
    for seed in range(5):
        training, sealed = visits(seed)
        last = training["state"].reshape(PATIENTS, OPEN_VISITS)[:, -1:]
        error = abs(np.mean(sealed == last) - 0.5)
        assert error > 2.0 * SECOND_LOOKS[look](as_if_free_of_training_rows(fitted_chain(training, gap=0)))


def test_p_values_give_up_what_the_dependence_leaves_to_chance():
    training, _ = visits(0)
    near, far = (fitted_chain(training, gap=gap) for gap in (0, 100))
    assert corrected_p_value(1e-9, bits=1.0, dependence=near) == 1.0
    assert corrected_p_value(0.0, bits=1.0, dependence=near) == 1.0
    assert 0.01 < far.miss < 0.02
    assert corrected_p_value(1e-3, bits=1.0, failure=0.01, dependence=far) == pytest.approx(0.012 + far.miss)
    assert p_value_threshold(0.05, bits=1.0, dependence=far) == pytest.approx((0.05 - far.miss) / 2)


def test_each_radius_gives_up_a_wrong_fit_and_the_training_rows_once():
    training, _ = visits(0)
    fitted = fitted_chain(training, gap=100)
    known = MarkovChain([[0.9, 0.1], [0.1, 0.9]], gap=20, lengths=[(1_200, 1)])
    for model in (fitted, known):
        lost = model.miss + model.training_distance()
        assert 0.0 < lost < 0.05
        by_hand = hoeffding_radius(rows=model.concentration(1_200), log_inverse_level=2.0 - math.log(0.05 - lost))
        chosen = {"rows": 1_200, "confidence": 0.95, "dependence": model}
        assert corrected_radius(**chosen, bits=2.0 / math.log(2.0)) == pytest.approx(by_hand)
        surer = {**chosen, "confidence": 0.95 + model.miss, "dependence": as_if_free_of_training_rows(model)}
        imagined = post_selection_radius(PureCurve(0.0), **chosen).radius
        assert imagined == pytest.approx(post_selection_radius(PureCurve(0.0), **surer).radius)


def test_a_known_chain_counts_training_rows_in_the_leakage_of_S1():
    radii = [
        post_selection_radius(
            PureCurve(0.0), rows=1_200, confidence=0.95,
            dependence=MarkovChain([[0.9, 0.1], [0.1, 0.9]], gap=gap, lengths=[(3, 400)]),
        ).radius
        for gap in (math.inf, 40, 20, 0)
    ]  # fmt: skip
    assert radii == sorted(radii)
    assert radii[-1] > 1.0


def test_a_model_that_does_not_say_how_far_its_training_rows_are_is_refused():
    training, _ = visits(0)
    for look in SECOND_LOOKS.values():
        with pytest.raises(DependenceError, match="number of series"):
            look(MarkovChain([[0.9, 0.1], [0.1, 0.9]], groups="patient", gap=100))
    told = {"order_by": "visit", "state": "state", "groups": "patient"}
    for look in SECOND_LOOKS.values():
        with pytest.raises(DependenceError, match=r"is not known. Declare with gap=... how many rows"):
            look(MarkovChain.fit(training, **told))
        with pytest.raises(
            DependenceError, match=r"number of series in column 'patient' is not known .* Pass the lengths"
        ):
            look(MarkovChain.fit(training, **told, gap=100))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: corrected_p_value(1.1, bits=1.0), "p_value is 1.1. Pass a number from 0 to 1."),
        (lambda: corrected_p_value(math.nan, bits=1.0), "p_value is nan. Pass a number from 0 to 1."),
        (lambda: corrected_p_value(0.1, bits=-1.0), "bits is -1.0. Pass a number of at least 0"),
        (lambda: corrected_p_value(0.1, bits=1.0, failure=1.0), "failure is 1.0. Pass a number of at least 0 and be"),
        (lambda: p_value_threshold(0.0, bits=1.0), "level is 0.0. Pass a number strictly between 0 and 1"),
        (lambda: p_value_threshold(0.05, bits=1.0, failure=0.05), "failure is 0.05. Pass a number of at least 0 and"),
        (
            lambda: corrected_radius(rows=10, confidence=1.0, bits=1.0),
            "confidence is 1.0. Pass a number strictly between 0",
        ),
        (lambda: corrected_radius(rows=10.5, confidence=0.9, bits=1.0), "rows is 10.5. Pass a whole number"),
        (
            lambda: corrected_radius(rows=10, confidence=0.95, bits=1.0, failure=0.06),
            "failure is 0.06. Pass a number of at least 0 and below 0.05.",
        ),
        (lambda: max_information_bits(PureCurve(0.1), rows=0, failure=0.1), "rows is 0. Pass a whole number"),
        (lambda: post_selection_radius(PureCurve(0.1), rows=10, confidence=0.0), "confidence is 0.0. Pass a number"),
    ],
)
def test_bad_arguments_are_refused(call, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        call()
