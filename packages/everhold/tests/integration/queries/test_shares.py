"""A share of what another sum contains is one query where guesses are confirmed, and two means where not."""

import json
from collections import Counter

import numpy as np
import pytest

import everhold as eh
from everhold.asking.creation import settings_from

ROWS = 2_000

pytestmark = pytest.mark.filterwarnings("ignore::everhold.NonAdaptiveWarning")


def data(seed, first):
    rng = np.random.default_rng(seed)
    x = rng.normal(10, 40, ROWS)
    return {"x": x, "y": (x + rng.normal(0, 30, ROWS) > 20).astype(int), "day": first + rng.integers(0, 300, ROWS)}


TRAINED, SEALED = data(1, 0), data(2, 0)
LATER = {**SEALED, "day": SEALED["day"] + 1_000}  # whole days on one side, as they have to be where they are declared


def made(path, **wanted):
    wanted = {"mechanism": eh.GuessAndCheck.tuned(rows=ROWS, queries=20, surprises=2), "training": TRAINED, **wanted}
    return eh.Holdout.create(path / "h.db", "h", **settings_from({"holdout": SEALED, **wanted}), label="y", queries=20)


def looked(holdout, query, guess=None):
    ready = holdout._executor.compiler.compile(query, guess, None)
    evaluations, (prepared,) = ready.evaluate(holdout._executor.sealed, [0])
    return prepared, evaluations, prepared.bound.from_mean(int(evaluations.totals[0, 0]) / holdout.mechanism.steps)


CASES = {
    "condition": (eh.mean("y = 1", given="x > 0"), lambda r: np.mean(r["y"][r["x"] > 0])),
    "number": (
        eh.mean("x", low=-60, high=180, given="y = 1"),
        lambda r: np.mean(np.clip(r["x"], -60, 180)[r["y"] == 1]),
    ),
    "function": (
        eh.mean(lambda t: np.clip(t["x"] / 100, 0, 1), given="y = 1", name="f"),
        lambda r: np.mean(np.clip(r["x"] / 100, 0, 1)[r["y"] == 1]),
    ),
    "error by arm": (
        eh.ratio(eh.error((SEALED["x"] > 25) * 1, training=(TRAINED["x"] > 25) * 1), "x > 30"),
        lambda r: np.mean(((r["x"] > 25) != r["y"])[r["x"] > 30]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_sealed_ratio_and_the_guess_are_those_of_numpy(tmp_path, name):
    query, by_hand = CASES[name]
    with made(tmp_path) as holdout:
        prepared, evaluations, sealed = looked(holdout, query)
        bound = prepared.bound
        width = abs(bound.at_one - bound.at_zero)
        assert sealed == pytest.approx(by_hand(SEALED), abs=width * 1e-8)
        guess = bound.from_mean(prepared.guess / holdout.mechanism.steps)
        assert guess == pytest.approx(by_hand(TRAINED), abs=width * 1e-8)
        assert (prepared.procedure.name, prepared.from_training) == ("hedged_ratio_betting", True)
        pairs = evaluations.seen[0]
        assert pairs.counts.sum() == ROWS
        assert np.all((pairs.numerators >= 0) & (pairs.numerators <= pairs.denominators))
        assert np.all(pairs.denominators <= pairs.unit)
        low, high = prepared.procedure.interval(pairs, 8.0)
        assert low < bound.to_mean(sealed) < high


def test_pairs_are_counted_exactly(tmp_path):
    with made(tmp_path) as holdout:
        _, evaluations, _ = looked(holdout, CASES["condition"][0])
        pairs, unit = evaluations.seen[0], holdout.mechanism.unit
        inside = SEALED["x"] > 0
        counted = Counter(zip((inside * unit).tolist(), (inside * SEALED["y"] * unit).tolist(), strict=True))
        kinds = zip(pairs.denominators.tolist(), pairs.numerators.tolist(), strict=True)
        assert dict(zip(kinds, pairs.counts.tolist(), strict=True)) == counted


@pytest.mark.filterwarnings("ignore::everhold.VacuousGuaranteeWarning")
def test_pairs_of_groups_are_sums(tmp_path):
    wanted = {"mechanism": "guess_and_check", "surprises": 1, "allow_vacuous": True}
    wanted |= {"holdout": LATER, "dependence": eh.Groups("day")}
    with made(tmp_path, **wanted) as holdout:
        prepared, evaluations, sealed = looked(holdout, CASES["condition"][0])
        pairs, unit = evaluations.seen[0], holdout.mechanism.unit
        inside, counted = SEALED["x"] > 0, Counter()
        for day in np.unique(SEALED["day"]):
            here = SEALED["day"] == day
            counted[
                int(here.sum()), int((here & inside).sum()) * unit, int(SEALED["y"][here & inside].sum()) * unit
            ] += 1
        kinds = zip(pairs.sizes.tolist(), pairs.denominators.tolist(), pairs.numerators.tolist(), strict=True)
        assert dict(zip(kinds, pairs.counts.tolist(), strict=True)) == counted
        assert prepared.procedure.name == "hedged_group_ratio_betting"
        assert sealed == pytest.approx(CASES["condition"][1](SEALED), abs=1e-8)


def test_one_ratio_has_one_entry_however_it_is_spelled(tmp_path):
    with made(tmp_path) as holdout:
        answer = holdout.ask(eh.mean("y = 1", given="x > 0"))
        for same in (
            eh.ratio("y = 1", "x > 0"), eh.ratio("x>0 and y=1", "0 < x"), eh.mean("y = 1 and x > 0", given="x > 0"),
        ):  # fmt: skip
            assert holdout.ask(same).query == answer.query
        assert len(holdout.transcript()) == 1
        assert holdout.ask(eh.mean("y = 0", given="x > 0")).query != answer.query


def test_where_no_training_row_counts_a_guess_is_needed_and_no_sealed_row_excludes_nothing(tmp_path):
    with made(tmp_path) as holdout:
        with pytest.raises(eh.QueryRejected, match="the training rows do not give one"):
            holdout.ask(eh.mean("y = 1", given="x > 1e9"))
        prepared, evaluations, _ = looked(holdout, eh.mean("y = 1", given="x > 1e9"), 0.3)
        assert (prepared.from_training, evaluations.totals.tolist()) == (False, [[0]])
        assert prepared.procedure.interval(evaluations.seen[0], 8.0) == (0.0, 1.0)


@pytest.mark.parametrize("mechanism", ["privacy_budget", "empirical"])
def test_elsewhere_it_is_two_means(tmp_path, mechanism):
    with made(tmp_path, mechanism=mechanism, allow_vacuous=True) as holdout:
        for query, by_hand in CASES.values():
            before = len(holdout.transcript())
            answer = holdout.ask(query)
            assert answer.low <= by_hand(SEALED) <= answer.high
            assert len(holdout.transcript()) - before in (1, 2)


def test_without_training_rows_it_is_two_means_with_a_guess_each(tmp_path):
    with made(tmp_path, training=None) as holdout:
        query = CASES["condition"][0]
        with pytest.raises(eh.QueryRejected, match="takes two queries, so one guess does not fit"):
            holdout.ask(query, guess=0.5)
        for part, guess in zip(query.parts(holdout.schema), (0.35, 0.6), strict=True):
            holdout.ask(part, guess=guess)
        assert holdout.ask(query).repeated


def test_what_cannot_be_checked_is_refused(tmp_path):
    with made(tmp_path) as holdout:
        for whole in (eh.mean("x", low=0, high=9), eh.mean(lambda t: np.clip(t["x"] / 100, 0, 1), name="f")):
            with pytest.raises(eh.QueryRejected, match="not yes or no in every row"):
                holdout.ask(eh.ratio(eh.mean(lambda t: t["x"] > 0, name="g"), whole))
        assert len(holdout.transcript()) == 0


@pytest.mark.parametrize("fault", ["raises", "nan", "short"])
def test_what_code_does_on_sealed_rows_is_never_told(tmp_path, fault):
    def hostile(table):
        values = np.clip(table["x"] / 100, 0, 1)
        at = table["x"] == SEALED["x"][7]
        if fault == "nan":
            return np.where(at, np.nan, values)
        if at.any() and fault == "raises":
            raise ValueError("a sealed row")
        return values[:-1] if at.any() else values

    with made(tmp_path) as holdout:
        _, _, sealed = looked(holdout, eh.ratio(eh.mean(hostile, name="h"), "x > -1000"))
        values = np.clip(SEALED["x"] / 100, 0, 1)
        values[7] = 0.0
        assert sealed == pytest.approx(np.mean(values), abs=1e-8)


def test_the_command_line_asks_it(tmp_path, capsys, monkeypatch):
    from everhold.cli import main

    made(tmp_path).close()
    command = ["everhold", "ask", str(tmp_path / "h.db"), "h", "--ratio", "y = 1", "--given", "x > 0"]
    monkeypatch.setattr("sys.argv", [*command, "--format", "json"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (0, None)
    assert json.loads(capsys.readouterr().out)["value"] == pytest.approx(CASES["condition"][1](TRAINED), abs=1e-6)
