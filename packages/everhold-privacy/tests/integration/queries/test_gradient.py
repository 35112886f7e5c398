"""Gradients: clipped and rounded with an exact sensitivity, kept to the promise, and nothing told about faults."""

import csv
import json
import math
import re
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sealed_copies import copy_of
from typer.testing import CliRunner

import everhold as eh
from everhold.cli.application import app
from everhold.errors import QueryRejected
from everhold.mechanisms import State
from everhold.mechanisms.records import Evaluations
from everhold.randomness import SeededNoise
from everhold.values.evaluation import UNIT
from everhold_privacy.mechanisms.privacy_budget import PrivacyBudget, VectorNoise
from everhold_privacy.queries.gradient import gradient, shortened, vectors_to_grid

ROWS = 4_000


def rows(seed=0, count=ROWS):
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, count))
    return {"x": x, "z": z, "y": (x + rng.normal(size=count) > 0).astype(int)}


def features(table):
    return np.column_stack([table["x"], table["z"]])


def slope(weights):
    """Gradient of the logistic loss for every row."""

    def of_rows(table):
        x = features(table)
        return x * (1 / (1 + np.exp(-x @ weights)) - table["y"])[:, None]

    return of_rows


def sealed(folder):
    return eh.Holdout.create(
        folder / "s.db", "g", holdout=rows(0), training=rows(1), label="y", mechanism="privacy_budget", queries=30
    )


@pytest.fixture
def holdout(tmp_path):
    with copy_of(tmp_path, sealed, storage="s.db", name="g") as made:
        yield made


@given(
    arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=st.floats(allow_nan=True)),
    st.sampled_from([1, 2, 3, 7, 1000, UNIT]),
    st.sampled_from([1e-8, 0.3, 1.0, 1e9]),
)
@settings(max_examples=200, deadline=None)
def test_no_two_rows_differ_by_more_than_one_row_may(vectors, unit, clip):
    grid = vectors_to_grid(vectors, clip=clip, unit=unit).astype(object)
    assert max(4 * (row @ row) for row in grid) <= unit**2
    assert all(sum((one - other) ** 2) <= unit**2 for one in grid for other in grid)


def test_half_a_unit_is_used_up():
    grid = vectors_to_grid(np.array([[5.0, 0.0], [-5.0, 0.0]]), clip=1.0, unit=UNIT)
    assert UNIT - 4 <= grid[0, 0] - grid[1, 0] <= UNIT


def test_clipping_keeps_the_direction_and_short_vectors_and_zeroes_faults():
    vectors = np.array([[3.0, 4.0], [0.6, 0.0], [1e308, 1e308], [math.inf, 0.0], [math.nan, 1.0]])
    found = shortened(vectors, clip=2.0)
    assert np.allclose(found, [[0.6, 0.8], [0.3, 0.0], [math.sqrt(0.5)] * 2, [0, 0], [0, 0]])


def test_rounding_moves_a_vector_by_less_than_is_counted():
    vectors = np.random.default_rng(0).normal(size=(200, 50))
    exact, unit = shortened(vectors, clip=3.0), 1_000
    off = np.linalg.norm(vectors_to_grid(vectors, clip=3.0, unit=unit) / unit - exact / 2, axis=1)
    budget = PrivacyBudget(rows=10, queries=1, scale=0.1, unit=unit)
    assert off.max() <= VectorNoise(budget, 50).rounding


def test_the_population_is_within_the_half_width_and_every_interval(holdout):
    weights = np.zeros(2)
    for _ in range(8):
        truth = shortened(slope(weights)(rows(7, 400_000)), clip=1.0).mean(axis=0)
        answer = holdout.ask(gradient(slope(weights), dimension=2, clip=1.0))
        assert np.linalg.norm(answer.values - truth) <= answer.within
        assert np.all((answer.lows <= truth) & (truth <= answer.highs))
        assert np.all(answer.highs - answer.lows < 2 * answer.within)
        weights = weights - 3 * answer.values
    assert weights[0] > 0.7  # it learns


def test_a_vector_costs_one_mean_and_a_sharper_one_more(holdout):
    planned = gradient(slope(np.zeros(2)), dimension=2, clip=1.0)
    sharper = 0.9 * holdout.quote(planned).radius
    assert holdout.quote(planned).charged_at_most == 100 < holdout.quote(planned, tolerance=sharper).charged_at_most
    for tolerance in (None, sharper):
        quoted, before = holdout.quote(planned, tolerance=tolerance), holdout.remaining["credits"]
        answer = holdout.ask(planned, tolerance=tolerance)
        assert (answer.charged, answer.within) == (quoted.charged_at_most, quoted.radius)
        assert holdout.remaining["credits"] == before - answer.charged
        again = holdout.ask(planned, tolerance=tolerance)
        assert (again.repeated, again.charged, again.values.tolist()) == (True, 0, answer.values.tolist())
    assert answer.within <= sharper


def test_units_are_those_of_the_clipping_length(holdout):
    one, ten = (
        holdout.quote(gradient(lambda t, c=c: c * features(t), dimension=2, clip=c)).radius for c in (1.0, 10.0)
    )
    assert ten == pytest.approx(10 * one)


def test_names_make_queries_one_and_objects_without_one_do_not(holdout):
    named = [gradient(slope(np.zeros(2)), dimension=2, clip=1.0, name="at zero") for _ in range(2)]
    bare = [gradient(slope(np.zeros(2)), dimension=2, clip=1.0) for _ in range(2)]
    assert [holdout.ask(query).repeated for query in (*named, *bare)] == [False, True, False, False]


def test_the_result_reads_well_and_is_plain_data(holdout):
    answer = holdout.ask(gradient(lambda t: np.repeat(features(t), 3, axis=1), dimension=6, clip=1.0))
    assert str(answer).startswith("(")
    assert "... (6 numbers)) within" in str(answer)
    plain = json.loads(json.dumps(answer.to_dict(), allow_nan=False))
    assert plain["values"] == answer.values.tolist()
    assert [row["coordinate"] for row in answer.to_rows()] == list(range(6))
    assert list(answer.to_pandas().columns) == ["coordinate", "value", "low", "high"]
    with pytest.raises(ValueError, match="read-only"):
        answer.values[0] = 1.0


def test_transcript_and_certificate_take_vectors_in(holdout, tmp_path):
    holdout.ask("x > 0")
    holdout.ask(gradient(slope(np.zeros(2)), dimension=2, clip=1.0, name="start"))
    transcript = holdout.transcript()
    assert transcript.to_pandas()["value"][1] == transcript.rows[1]["value"]
    assert len(transcript.to_pandas()) == 2
    assert "gradient start, 2 numbers, clip 1" in transcript.to_text()
    json.dumps(transcript.to_dict(), allow_nan=False)
    holdout.certificate().save(tmp_path / "c.json")
    assert eh.verify_certificate(tmp_path / "c.json").ok


def test_the_command_line_shows_vectors(holdout, tmp_path):
    answer = holdout.ask(gradient(lambda t: np.repeat(features(t), 10, axis=1), dimension=20, clip=1.0))
    shown = {
        form: CliRunner().invoke(app, ["transcript", str(tmp_path / "s.db"), "g", "--format", form]).stdout
        for form in ("table", "json", "csv")
    }
    assert "20 in all" in shown["table"]
    stored = json.loads(shown["json"])["entries"][0]["value"]
    assert stored == answer.values.tolist()
    assert json.loads(next(csv.DictReader(shown["csv"].splitlines()))["value"]) == stored


def test_when_the_budget_is_spent_there_is_no_vector(holdout):
    for _ in range(30):
        holdout.ask(gradient(slope(np.zeros(2)), dimension=2, clip=1.0))
    refused = holdout.ask(gradient(slope(np.zeros(2)), dimension=2, clip=1.0))
    assert (refused.values, refused.within, refused.charged, refused.to_rows()) == (None, None, 0, [])
    assert str(refused).startswith("refused")
    with pytest.raises(eh.BudgetExhausted):
        holdout.ask(gradient(slope(np.zeros(2)), dimension=2, clip=1.0), strict=True)


PASS = {
    "dimension": "Pass a whole number from 1 to 10,000, and project longer vectors with a fixed random matrix.",
    "clip": "Pass a positive finite number.",
    "function": "Pass a function from a table to vectors.",
}


@pytest.mark.parametrize(
    "wrong",
    [
        {"dimension": 0}, {"dimension": 10_001}, {"dimension": True}, {"dimension": 2.5}, {"clip": 0.0}, {"clip": -1.0},
        {"clip": math.nan}, {"clip": math.inf}, {"clip": "1"}, {"function": 3},
    ],
    ids=str,
)  # fmt: skip
def test_wrong_numbers_are_refused_at_once(wrong):
    good, (name,) = {"function": features, "dimension": 2, "clip": 1.0} | wrong, wrong
    with pytest.raises(ValueError, match=rf"^{name} is .*{re.escape(PASS[name])}$"):
        gradient(good.pop("function"), **good)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (gradient(lambda t: features(t) * math.nan, dimension=2, clip=1.0), "NaN or infinite"),
        (gradient(lambda t: features(t) * math.inf, dimension=2, clip=1.0), "NaN or infinite"),
        (gradient(lambda t: features(t) - features(t).mean(axis=0), dimension=2, clip=1.0), "depends on the other"),
        (gradient(features, dimension=3, clip=1.0), r"Return real numbers of shape \(4000, 3\)"),
        (gradient(lambda t: t["no"], dimension=2, clip=1.0), "fails on training or made-up rows with KeyError"),
        (gradient(features, dimension=2, clip=1.0, columns=["x", "no"]), "columns is"),
    ],
)
def test_what_cannot_be_asked_costs_nothing(holdout, query, words):
    before = holdout.remaining
    for attempt in (holdout.ask, holdout.quote):
        with pytest.raises(QueryRejected, match=words):
            attempt(query)
    assert holdout.remaining == before


@pytest.mark.parametrize(
    ("tolerance", "words"),
    [(1e-6, "cannot pay for less than"), (0.0, "tolerance is 0.0. Pass a positive"), (math.nan, "tolerance is nan"),
     (math.inf, "tolerance is inf"), ("wide", "tolerance is 'wide'")],
)  # fmt: skip
def test_a_tolerance_that_cannot_be_kept_costs_nothing(holdout, tolerance, words):
    query, before = gradient(features, dimension=2, clip=1.0), holdout.remaining
    for attempt in (holdout.ask, holdout.quote):
        with pytest.raises(QueryRejected, match=words):
            attempt(query, tolerance=tolerance)
    assert holdout.remaining == before


def test_other_mechanisms_have_no_price_for_it(tmp_path):
    with (
        eh.Holdout.create(tmp_path / "s.db", "g", holdout=rows(0), mechanism="gaussian", queries=5) as made,
        pytest.raises(QueryRejected, match="privacy_budget"),
    ):
        made.ask(gradient(features, dimension=2, clip=1.0))


def test_dependent_rows_are_covered_and_widen_it(tmp_path):
    def ask(name, dependence):
        with eh.Holdout.create(
            tmp_path / "s.db",
            name,
            holdout=rows(0),
            mechanism="privacy_budget",
            queries=5,
            dependence=dependence,
            allow_resealing=True,
        ) as made:
            return made.ask(gradient(features, dimension=2, clip=1.0)).within

    assert ask("tied", eh.Groups(4)) > 1.3 * ask("free", eh.Independent())


def test_faults_on_sealed_rows_are_silent_and_count_as_zero(tmp_path):
    """A third of the sealed rows make the function fail or give nan; nothing says so and the others still count."""
    sealed = rows(0)
    sealed["x"] = np.where(np.arange(ROWS) % 3 == 0, 77.0, 1.0)
    sealed["z"] = np.where(np.arange(ROWS) % 7 == 0, np.nan, 0.0)

    def touchy(table):
        if np.any(table["x"] == 77.0):
            raise RuntimeError(f"secret {table['x'][0]}")
        return features(table)

    def sound(table):
        return np.where(((table["x"] != 77.0) & ~np.isnan(table["z"]))[:, None], features(table), 0.0)

    found = []
    for name, function in (("touchy", touchy), ("sound", sound)):
        with eh.Holdout.create(
            tmp_path / "s.db", name, holdout=sealed, mechanism="privacy_budget", queries=5, seed=1, allow_resealing=True
        ) as made:
            found.append(made.ask(gradient(function, dimension=2, clip=1.0, name=name)))
    assert found[0].values.tolist() == found[1].values.tolist()  # the seed is the same


def test_many_rows_are_looked_at_in_pieces(tmp_path):
    """A whole array of the function's values would take 160 MB."""
    count, dimension = 200_000, 100
    data = {"x": np.random.default_rng(0).random(count)}
    with eh.Holdout.create(tmp_path / "s.db", "g", holdout=data, mechanism="privacy_budget", queries=5) as made:
        query = gradient(lambda t: np.repeat(t["x"][:, None], dimension, axis=1), dimension=dimension, clip=5.0)
        made.ask("x > 0.5")
        tracemalloc.start()
        answer = made.ask(query)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 140e6
    assert np.linalg.norm(answer.values - 0.375) < answer.within


def test_an_analyst_who_follows_gradients_on_noise_fools_the_bare_ones_and_not_the_sealed_ones():
    """Labels are coins and there are as many features as half the rows: the gradient fits the labels of the sample."""
    count, dimension, fooled, broken = 2_000, 1_000, 0, 0
    mechanism = PrivacyBudget.tuned(rows=count, queries=5)
    vector = VectorNoise(mechanism, dimension)
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x = rng.choice([-1.0, 1.0], (count, dimension)) / math.sqrt(dimension)
        y = rng.choice([-1, 1], count)
        sums = vectors_to_grid(x * y[:, None], clip=1.0, unit=UNIT).sum(axis=0)
        state, drawn = vector.answer(State(), sums, SeededNoise(seed), scale=mechanism.scale)

        def score(direction, x=x, y=y):
            return np.count_nonzero((x @ direction > 0) == (y > 0))

        fooled += score(sums) / count - 0.5 > mechanism.radius_at(mechanism.scale)
        total = Evaluations(np.array([[score(drawn.values - 0.5) * UNIT]]), np.array([-1]), count)
        _, reply = mechanism.answer_many(state, total, SeededNoise(seed))
        broken += not reply.lows[0] <= 0.5 <= reply.highs[0]
        broken += np.linalg.norm(drawn.values - 0.5) > drawn.within
    assert fooled == 10
    assert broken == 0
