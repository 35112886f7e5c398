"""Which procedure a query gets follows from public facts, and a look gives it exactly what it needs."""

import numpy as np
import pytest

import everhold as eh
from everhold.asking.creation import settings_from
from everhold.guarantees.intervals.base import CELLS

ROWS = 400

pytestmark = [
    pytest.mark.filterwarnings("ignore::everhold.VacuousGuaranteeWarning"),
    pytest.mark.filterwarnings("ignore::everhold.NonAdaptiveWarning"),
]


def data(seed, first):
    rng = np.random.default_rng(seed)
    return {
        "x": rng.normal(10, 40, ROWS),
        "y": rng.integers(0, 2, ROWS),
        "day": first + rng.integers(0, 60, ROWS),
    }


TRAINED, SEALED = data(1, 0), data(2, 0)
LATER = {**SEALED, "day": SEALED["day"] + 1_000}  # whole days on one side, as they have to be where they are declared


def made(path, **wanted):
    wanted = {"holdout": SEALED, "training": TRAINED, "mechanism": "guess_and_check", "surprises": 2, **wanted}
    if wanted["mechanism"] != "guess_and_check":
        del wanted["surprises"]
    return eh.Holdout.create(
        path / "h.db", "h", label="y", queries=20, **settings_from({**wanted, "allow_vacuous": True})
    )  # fmt: skip


def looked(holdout, query, guess=None):
    """The procedure of a query, and what its look gives: total in grid units and more."""
    executor = holdout._executor
    ready = executor.compiler.compile(query, guess, None)
    evaluations, (prepared,) = ready.evaluate(executor.sealed, [0])
    if evaluations.procedures is None:
        return None, int(evaluations.totals[0].sum()), None
    assert evaluations.procedures == [prepared.procedure] or evaluations.procedures[0] is prepared.procedure
    return prepared.procedure, int(evaluations.totals[0, 0]), evaluations.seen[0]


def share(values, unit):
    return np.floor(np.clip((values + 60) / 240, 0, 1) * unit).astype(np.int64)


NUMBER = eh.mean("x", low=-60, high=180)
FUNCTION = eh.mean(lambda table: np.clip((table["x"] + 60) / 240, 0, 1), name="x")
YES_NO = [
    eh.mean("x > 0"), eh.mean(lambda table: table["x"] > 0, name="above"), eh.accuracy(np.zeros(ROWS)),
    eh.error(np.zeros(ROWS), training=np.ones(ROWS)),
]  # fmt: skip


@pytest.mark.parametrize("query", YES_NO)
def test_yes_no_queries_about_independent_rows_get_exact_tails(tmp_path, query):
    with made(tmp_path) as holdout:
        procedure, total, seen = looked(holdout, query, 0.5)
        assert (procedure.name, procedure.rows, procedure.training, seen) == ("clopper_pearson", ROWS, ROWS, None)
        assert total % holdout.mechanism.unit == 0


@pytest.mark.parametrize("query", [NUMBER, FUNCTION])
@pytest.mark.parametrize("unit", [2**30, 1000])
def test_numbers_are_bet_on_with_an_exact_histogram(tmp_path, query, unit):
    mechanism = eh.GuessAndCheck.tuned(rows=ROWS, queries=20, surprises=2, unit=unit)
    with made(tmp_path, mechanism=mechanism) as holdout:
        procedure, total, seen = looked(holdout, query)
        grid = share(SEALED["x"], unit)
        assert (procedure.name, total) == ("hedged_betting", grid.sum())
        for cells, values in ((seen, grid), (procedure.training, share(TRAINED["x"], unit))):
            places = np.minimum(values * CELLS // unit, CELLS - 1)
            assert cells.counts.tolist() == np.bincount(places, minlength=CELLS).tolist()
            assert cells.sums.sum() == values.sum()


@pytest.mark.parametrize("query", [NUMBER, FUNCTION, eh.difference(FUNCTION, FUNCTION)])
def test_groups_of_a_column_are_bet_on_by_their_sums(tmp_path, query):
    with made(tmp_path, holdout=LATER, dependence=eh.Groups("day")) as holdout:
        procedure, total, seen = looked(holdout, query)
        unit = holdout.mechanism.unit
        grid = np.full(ROWS, unit // 2) if isinstance(query, type(eh.difference("x", "x"))) else None
        grid = share(SEALED["x"], unit) if grid is None else grid
        sums = [(int(np.sum(SEALED["day"] == day)), int(grid[SEALED["day"] == day].sum())) for day in
                np.unique(SEALED["day"])]  # fmt: skip
        found = [
            pair
            for *pair, count in zip(seen.sizes.tolist(), seen.sums.tolist(), seen.counts.tolist(), strict=True)
            for _ in range(count)
        ]
        assert found == [list(pair) for pair in sorted(sums)]
        assert (procedure.name, total) == ("hedged_group_betting", grid.sum())


def test_other_queries_get_what_needs_no_training_values(tmp_path):
    with made(tmp_path, training=None) as holdout:
        assert looked(holdout, NUMBER, 30.0)[0].name == "hedged_betting"  # on any spread
        assert looked(holdout, YES_NO[0], 0.5)[0].training == ROWS
    (tmp_path / "sizes").mkdir()
    with made(tmp_path / "sizes", dependence=eh.Groups(4)) as holdout:
        procedure = looked(holdout, NUMBER)[0]
        assert (procedure.name, procedure.rows, procedure.training) == ("hoeffding", ROWS / 4, ROWS / 4)


@pytest.mark.parametrize(
    ("mechanism", "name"), [("privacy_budget", None), ("empirical", "chernoff"), ("sample_splitting", "chernoff")]
)
def test_mechanisms_without_guesses_take_functions_of_the_mean_and_noise_takes_none(tmp_path, mechanism, name):
    with made(tmp_path, mechanism=mechanism) as holdout:
        executor = holdout._executor
        procedure = executor.compiler.compile(NUMBER, None, None).prepared[0].procedure
        assert getattr(procedure, "name", None) == name
        assert procedure is None or procedure.rows == ROWS // holdout.mechanism.parts


def test_what_is_no_1_on_sealed_rows_counts_as_0_in_a_yes_no_query(tmp_path):
    def hostile(table):
        above = table["x"] > 0
        if np.isin(table["x"], TRAINED["x"]).any():
            return above
        return np.where(above, 1.0, np.where(table["x"] < -20, np.nan, 0.999))

    with made(tmp_path) as holdout:
        procedure, total, _ = looked(holdout, eh.mean(hostile, name="hostile"))
        assert (procedure.name, total) == ("clopper_pearson", int(np.sum(SEALED["x"] > 0)) * holdout.mechanism.unit)
