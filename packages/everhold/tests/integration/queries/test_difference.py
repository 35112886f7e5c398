"""A difference is one query, paired row by row, the same whichever of the two is subtracted."""

import json

import numpy as np
import pytest
from sealed_copies import copy_of

import everhold as eh

ROWS = 2_000


def data(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(10, 40, ROWS)
    return {"x": x, "y": (x + rng.normal(0, 30, ROWS) > 20).astype(int), "id": np.arange(ROWS) + seed * ROWS}


TRAINED, SEALED = data(1), data(2)
DIFFERING = int(np.sum((SEALED["x"] > 25) != (SEALED["x"] > 28)))
MODELS = [eh.accuracy((SEALED["x"] > at) * 1, training=(TRAINED["x"] > at) * 1) for at in (25, 28)]
ERRORS = [eh.error((SEALED["x"] > at) * 1, training=(TRAINED["x"] > at) * 1) for at in (25, 28)]


def sealed(folder):
    return eh.Holdout.create(
        folder / "h.db",
        "h",
        holdout=SEALED,
        training=TRAINED,
        label="y",
        rows=eh.Rows(row_id="id"),
        queries=20,
        surprises=3,
        mechanism="guess_and_check",
    )


@pytest.fixture
def holdout(tmp_path):
    with copy_of(tmp_path, sealed, storage="h.db", name="h") as made:
        yield made


def looked(holdout, query):
    ready = holdout._executor.compiler.compile(query, None, None)
    evaluations, (prepared,) = ready.evaluate(holdout._executor.sealed, [0])
    return prepared, evaluations, prepared.bound.from_mean(int(evaluations.totals[0, 0]) / holdout.mechanism.steps)


def clipped(rows, low, high):
    return np.clip(rows["x"], low, high)


CASES = {
    "models": (eh.difference(*MODELS), lambda r: np.mean((r["x"] > 25) == r["y"]) - np.mean((r["x"] > 28) == r["y"])),
    "errors": (eh.difference(*ERRORS), lambda r: np.mean((r["x"] > 28) == r["y"]) - np.mean((r["x"] > 25) == r["y"])),
    "texts": (eh.difference("x > 0", "y = 1"), lambda r: np.mean(r["x"] > 0) - np.mean(r["y"])),
    "numbers": (
        eh.difference(eh.mean("x", low=-60, high=180), eh.mean("x * 2", low=0, high=240)),
        lambda r: np.mean(clipped(r, -60, 180)) - np.mean(np.clip(2 * r["x"], 0, 240)),
    ),
    "a text and a function": (
        eh.difference("x > 0", eh.mean(lambda t: np.clip(t["x"] / 100, 0, 1), name="f")),
        lambda r: np.mean(r["x"] > 0) - np.mean(np.clip(r["x"] / 100, 0, 1)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_sealed_difference_and_the_guess_are_those_of_numpy(holdout, name):
    query, by_hand = CASES[name]
    prepared, evaluations, sealed = looked(holdout, query)
    width = abs(prepared.bound.at_one - prepared.bound.at_zero)
    assert sealed == pytest.approx(by_hand(SEALED), abs=width / 2**29)
    guess = prepared.bound.from_mean(prepared.guess / holdout.mechanism.steps)
    assert guess == pytest.approx(by_hand(TRAINED), abs=width / 2**29)
    arrays = name in ("models", "errors")  # public, so only rows on which they differ are bet on
    by = ("disagreement_signs", DIFFERING) if arrays else ("hedged_betting", ROWS)
    assert (prepared.procedure.name, evaluations.seen[0].counts.sum()) == by


def test_either_way_round_is_one_entry_with_the_sign_turned(holdout):
    one = holdout.ask(eh.difference(*MODELS))
    other = holdout.ask(eh.difference(MODELS[1], MODELS[0]))
    assert (other.value, other.low, other.high) == pytest.approx((-one.value, -one.high, -one.low), abs=1e-15)
    assert (other.repeated, other.query, len(holdout.transcript())) == (True, one.query, 1)
    assert holdout.ask(eh.difference(ERRORS[1], ERRORS[0])).value == one.value


def test_equal_models_differ_by_nothing(holdout):
    prepared, evaluations, sealed = looked(holdout, eh.difference(MODELS[0], MODELS[0]))
    assert sealed == 0.0
    low, high = (prepared.bound.from_mean(end) for end in prepared.procedure.interval(evaluations.seen[0], 5.0))
    assert sorted((low, high)) == [pytest.approx(-0.004, abs=0.004), pytest.approx(0.004, abs=0.004)]


def test_similar_models_are_told_apart_more_sharply_than_by_two_scores(holdout):
    prepared, evaluations, _ = looked(holdout, eh.difference(*MODELS))
    low, high = prepared.procedure.interval(evaluations.seen[0], 10.0)
    score, seen, _ = looked(holdout, MODELS[0])
    one = score.procedure.interval(int(seen.totals[0, 0]) / holdout.mechanism.steps, 10.0)
    assert 2.0 * (high - low) < 0.7 * (one[1] - one[0])


def test_the_grid_never_lies_above_the_true_value_by_more_than_is_allowed_for(holdout):
    numbers = eh.difference(eh.mean("x", low=-60, high=180), eh.mean("x", low=-59, high=181))
    bound = holdout._executor.compiler.bind(numbers)
    assert (bound.rounded_up, holdout._executor.compiler.bind(eh.difference(*MODELS)).rounded_up) == (0.5, 0.0)


def test_units_that_do_not_match_are_refused_for_nothing(holdout):
    for one, other in [(MODELS[0], ERRORS[1]), ("x > 0", eh.mean("x", low=0, high=2))]:
        with pytest.raises(eh.QueryRejected, match="different widths"):
            holdout.ask(eh.difference(one, other))
    with pytest.raises(eh.QueryRejected, match="no mean of row values"):
        eh.difference("x > 0", eh.variance("x", low=0, high=1))
    assert len(holdout.transcript()) == 0


def test_what_code_does_on_sealed_rows_is_never_told(holdout):
    def hostile(table):
        if (table["x"] == SEALED["x"][0]).any():
            raise ValueError("a sealed row")
        return np.clip(table["x"] / 100, 0, 1)

    _, evaluations, sealed = looked(holdout, eh.difference(eh.mean(hostile, name="h"), "x > 0"))
    values = np.clip(SEALED["x"] / 100, 0, 1)
    values[0] = 0.0
    assert sealed == pytest.approx(np.mean(values - (SEALED["x"] > 0)), abs=1e-8)
    assert evaluations.seen[0].counts.sum() == ROWS


def test_the_command_line_asks_it(tmp_path, capsys, monkeypatch, holdout):
    from everhold.cli import main

    command = ["everhold", "ask", str(tmp_path / "h.db"), "h", "--difference", "--mean", "x > 0", "--mean", "y = 1"]
    monkeypatch.setattr("sys.argv", [*command, "--format", "json"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (0, None)
    told = json.loads(capsys.readouterr().out)
    assert told["value"] == pytest.approx(CASES["texts"][1](TRAINED), abs=1e-6)


def test_means_among_some_rows_are_refused_with_what_compares_groups_of_rows():
    with pytest.raises(eh.QueryRejected, match=r"^ratio of y=1 is a mean among some rows only\. .*risk_difference"):
        eh.difference(eh.mean("y=1", given="x>0"), eh.mean("y=1", given="x<=0"))
