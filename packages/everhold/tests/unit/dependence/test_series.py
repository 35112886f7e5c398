"""What all time series share: the clock of a fitted model, and rows in the gap that somebody has seen."""

import math
import re
from zlib import crc32

import numpy as np
import pandas as pd
import pytest

from everhold.dependence import GaussianAR1, MarkovChain
from everhold.errors import DependenceError, DependenceWarning
from everhold.sealing.intake.files import seal_rows
from everhold.sealing.intake.request import SealRequest
from everhold.sealing.intake.structure import FileStructure

KINDS = {"chain": (MarkovChain, "mode"), "autoregression": (GaussianAR1, "load")}
LENGTH = 400


@pytest.fixture(params=KINDS, ids=str)
def kind(request):
    return KINDS[request.param]


def series(places, *, machine="a", seed=None):
    """Rows at these places, with a mode that changes now and then and a load that drifts; other ones elsewhere."""
    rng, rows = np.random.default_rng(crc32(str(places[0]).encode()) if seed is None else seed), len(places)
    load = np.zeros(rows)
    for row in range(1, rows):
        load[row] = 0.5 * load[row - 1] + rng.normal()
    mode = np.bitwise_xor.accumulate((rng.random(rows) < 0.3).astype(int))
    return pd.DataFrame({"machine": machine, "at": places, "mode": mode, "load": load})


def evenly(step, *, first=0.0, rows=LENGTH):
    return first + step * np.arange(rows)


def bound(model, tmp_path, *, training, holdout):
    sealed = seal_rows(tmp_path, SealRequest(holdout=holdout, training=training))
    with FileStructure(tmp_path, sealed) as structure:
        return model.bind(structure)


def fitted(kind, training, **settings):
    model, state = kind
    return model.fit(training, order_by="at", state=state, **{"gap": 10, **settings})


# The clock ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ratio", [1.05, 1.1, 1.45, 1.5, 7.0])
def test_training_rows_farther_apart_than_the_sealed_ones_are_refused(kind, tmp_path, ratio):
    """A correlation over 1.45 days is less than that over one: sealed days would be worth too much."""
    training = series(evenly(ratio))
    holdout = series(evenly(1.0, first=10_000.0))
    with pytest.raises(DependenceError, match=f"fitted to are {ratio:.3g} times as far apart as the sealed rows"):
        bound(fitted(kind, training), tmp_path, training=training, holdout=holdout)


@pytest.mark.parametrize("sealed_step", [1.0, 1.1, 2.0, 30.0])
def test_sealed_rows_as_far_apart_as_the_training_rows_or_farther_are_sealed(kind, tmp_path, sealed_step):
    training = series(evenly(1.0))
    holdout = series(evenly(sealed_step, first=10_000.0))
    assert bound(fitted(kind, training), tmp_path, training=training, holdout=holdout).lengths == ((LENGTH, 1),)


def test_one_dense_series_among_many_is_refused(kind, tmp_path):
    names = [f"m{k}" for k in range(10)]
    training = pd.concat([series(evenly(1.0), machine=name, seed=k) for k, name in enumerate(names)])
    first = 10_000.0
    dense = [series(evenly(0.69 if name == "m7" else 1.0, first=first, rows=20), machine=name) for name in names]
    model = fitted(kind, training, groups="machine")
    with pytest.raises(DependenceError, match=r"Some sealed rows are only 0\.69 steps apart"):
        bound(model, tmp_path, training=training, holdout=pd.concat(dense))


def test_a_model_of_other_rows_than_the_training_file_is_held_to_its_own_clock(kind, tmp_path):
    elsewhere = series(evenly(1.45))
    training, holdout = series(evenly(1.0)), series(evenly(1.0, first=10_000.0))
    with pytest.raises(DependenceError, match=r"1\.45 times as far apart"):
        bound(fitted(kind, elsewhere), tmp_path, training=training, holdout=holdout)


@pytest.mark.parametrize(("jitter", "accepted"), [(0.01, True), (0.03, True), (0.2, False)])
def test_a_clock_that_jitters(kind, tmp_path, jitter, accepted):
    """Rows up to a tenth of a step off are whole steps; beyond, they are none."""
    rng = np.random.default_rng(5)
    training = series(evenly(1.0) + rng.uniform(-jitter, jitter, LENGTH))
    holdout = series(evenly(1.0, first=10_000.0) + rng.uniform(-jitter, jitter, LENGTH))
    model = fitted(kind, series(evenly(1.0)))
    if accepted:
        assert fitted(kind, training).step == pytest.approx(1.0, abs=0.01)
        assert bound(model, tmp_path, training=training, holdout=holdout).lengths == ((LENGTH, 1),)
    else:
        with pytest.raises(DependenceError, match=r"steps apart .* order them by a column that counts the steps"):
            bound(model, tmp_path, training=training, holdout=holdout)


def test_months_are_steps_and_working_days_are_days_with_holes(kind, tmp_path):
    for rule, first, sealed_rows in (("MS", "2035-01-01", 60), ("B", "2012-01-02", 250), ("D", "2012-01-01", 365)):
        training = series(pd.date_range("2000-01-01", periods=LENGTH, freq=rule))
        holdout = series(pd.date_range(first, periods=sealed_rows, freq=rule))
        (folder := tmp_path / rule).mkdir()
        assert bound(fitted(kind, training), folder, training=training, holdout=holdout).lengths == ((sealed_rows, 1),)


# Rows that are left out -----------------------------------------------------------------------------------------------


def declared(kind, **settings):
    model, state = kind
    first = [[0.7, 0.3], [0.3, 0.7]] if model is MarkovChain else 0.5
    return model(first, order_by="at", state=state, **settings)


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("left_out", [0, 1, 14])
def test_a_gap_longer_than_what_is_left_out_is_refused(kind, tmp_path, side, left_out):
    beside = -LENGTH - left_out if side == "before" else 50 + left_out
    training, holdout = series(np.arange(LENGTH) + beside), series(np.arange(50))
    true, more = declared(kind, gap=left_out), declared(kind, gap=left_out + 1)
    assert bound(true, _folder(tmp_path, "true"), training=training, holdout=holdout).gap == left_out
    with pytest.raises(DependenceError, match=f"a training row is {left_out + 1} steps from a sealed row"):
        bound(more, _folder(tmp_path, "more"), training=training, holdout=holdout)


def _folder(path, name):
    (path / name).mkdir()
    return path / name


def machines(*, shift=(0, 0, 0), steps=(1, 1, 1), sealed_rows=5):
    """Three machines with 20 rows left out, less `shift`, each with steps of its own."""
    training = [series(step * np.arange(30), machine=f"m{k}", seed=k) for k, step in enumerate(steps)]
    holdout = [
        series(step * (50 - shift[k] + np.arange(sealed_rows)), machine=f"m{k}", seed=9 + k)
        for k, step in enumerate(steps)
    ]
    return {"training": pd.concat(training), "holdout": pd.concat(holdout)}


def test_the_nearest_of_all_series_decides(kind, tmp_path):
    model = declared(kind, gap=20, groups="machine")
    assert bound(model, _folder(tmp_path, "all"), **machines()).lengths == ((5, 3),)
    with pytest.raises(DependenceError, match="15 steps from a sealed row of its series, where at least 21"):
        bound(model, _folder(tmp_path, "one"), **machines(shift=(0, 6, 0)))


def test_rows_left_out_of_a_slow_series_are_counted_in_its_own_steps(kind, tmp_path):
    """Two rows left out of a series with a row every tenth day are no twenty rows."""
    slow = machines(shift=(0, 18, 0), steps=(1, 10, 1))
    with pytest.raises(DependenceError, match="3 steps from a sealed row of its series"):
        bound(declared(kind, gap=20, groups="machine"), _folder(tmp_path, "slow"), **slow)
    assert bound(declared(kind, gap=2, groups="machine"), _folder(tmp_path, "true"), **slow).gap == 2


def test_single_sealed_rows_are_counted_in_the_steps_of_the_training_rows(kind, tmp_path):
    single = machines(shift=(0, 6, 0), sealed_rows=1)
    with pytest.raises(DependenceError, match="15 steps from a sealed row of its series, where at least 21"):
        bound(declared(kind, gap=20, groups="machine"), tmp_path, **single)


def test_sealed_rows_in_the_middle_of_a_series_are_refused(kind, tmp_path):
    training = pd.concat([series(np.arange(100)), series(np.arange(200, 300))])
    with pytest.raises(DependenceError, match="Training rows lie among the sealed rows"):
        bound(declared(kind, gap=20), tmp_path, training=training, holdout=series(np.arange(130, 170)))


def test_rows_of_one_named_series_are_not_another_series(kind, tmp_path):
    with pytest.raises(DependenceError, match="before sealed rows with the same value in column 'machine'"):
        bound(declared(kind, gap=math.inf, groups="machine"), tmp_path, **machines())


def test_an_infinite_gap_next_to_training_rows_is_never_silent(kind, tmp_path):
    with pytest.warns(DependenceWarning, match=r"Training rows lie before .* of the same series, the promise is false"):
        bound(declared(kind, gap=math.inf), tmp_path, training=series(np.arange(50)), holdout=series(np.arange(50, 99)))


@pytest.mark.parametrize(
    ("gap", "words"),
    [
        (None, "no training row belongs to the same series, and nobody who asks has seen any other row of it"),
        (0, "0 rows are left out .* nobody who asks has seen any row between the sealed rows or any on their other"),
        (20, "20 rows are left out .* nobody who asks has seen any of these 20 rows, any between the sealed rows or"),
        (math.inf, "independent of the sealed rows, and nobody who asks has seen any other row of a sealed series"),
    ],
)
def test_every_declaration_says_which_rows_nobody_may_have_seen(kind, gap, words):
    assert re.search(words, declared(kind, gap=gap).describe())
