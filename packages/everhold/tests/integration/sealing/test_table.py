"""Totals are the integers that plain Python computes, for expressions and functions, in any number of parts."""

import math
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everhold import QueryRejected, accuracy, brier, mean
from everhold.sealing.intake.files import seal_rows
from everhold.sealing.intake.request import SealRequest
from everhold.sealing.rows.embedded import Embedded
from everhold.sealing.rows.table import StoredRows
from everhold.sealing.storage import HOLDOUT_FILE, TRAINING_FILE
from everhold.values.base import Schema
from everhold.values.evaluation import UNIT

ROWS = 101


@pytest.fixture(scope="module")
def columns():
    rng = np.random.default_rng(5)
    extreme = np.array([None, math.nan, math.inf, -math.inf, 1e308, -1e308, 0.0, -0.0, 5e-324], dtype=object)
    return {
        "x": np.concatenate([extreme, rng.normal(0, 50, ROWS - len(extreme)).astype(object)]),
        "whole": rng.integers(-5, 5, ROWS),
        "share": rng.random(ROWS),
        "late": rng.integers(0, 2, ROWS),
        "kind": rng.choice(np.array(["a", "b"]), ROWS),
    }


@pytest.fixture(scope="module")
def stored(tmp_path_factory, columns):
    import pyarrow as pa

    folder = tmp_path_factory.mktemp("rows")
    table = pa.table({**columns, "x": pa.array(columns["x"].tolist(), pa.float64(), from_pandas=False)})
    others = table.set_column(2, "share", pa.array(1.0 - columns["share"]))
    sealed = seal_rows(folder, SealRequest(holdout=table, training=others, label="late"))
    schema = Schema(ROWS, ROWS, sealed.columns, "late", sealed.label_kind)
    both = [
        StoredRows(Embedded(folder / f), schema, rows=ROWS, sealed=f == HOLDOUT_FILE)
        for f in (HOLDOUT_FILE, TRAINING_FILE)
    ]
    yield schema, *both
    for rows in both:
        rows.close()


def by_hand(values, parts, unit):
    """Row values in [0, 1] as Python integers; nan counts as 0."""
    grid = [0 if value != value else math.floor(min(max(value, 0.0), 1.0) * unit) for value in values]
    return [sum(grid[part::parts]) for part in range(parts)]


def rescaled(values, low, high):
    clipped = (low if value is None or value != value else min(max(value, low), high) for value in values)
    return [(value - low) / (high - low) for value in clipped]


@pytest.mark.parametrize("parts", [1, 2, 7, ROWS])
@pytest.mark.parametrize("unit", [1, 4, UNIT])
def test_totals_are_exact(stored, columns, parts, unit):
    schema, sealed, _ = stored
    x, share, late = columns["x"].tolist(), columns["share"], columns["late"]
    predictions = np.arange(ROWS) % 2
    expected = {
        mean("x", low=-60, high=180): rescaled(x, -60.0, 180.0),
        mean("x", low=-1e300, high=1e300): rescaled(x, -1e300, 1e300),
        mean("x > 0"): [value is not None and value > 0 for value in x],
        mean("x is null"): [value is None or value != value for value in x],
        mean("whole / whole", low=-1, high=1): [0.0 if value == 0 else 1.0 for value in columns["whole"]],
        mean(lambda table: table["share"]): share.tolist(),
        mean(lambda table: table["x"]): [math.nan if value is None else value for value in x],
        accuracy(predictions): (predictions == late).tolist(),
        brier(share): ((share - late) ** 2).tolist(),
    }
    bound = [query.bind(schema) for query in expected]
    totals = sealed.totals(bound, parts=parts, unit=unit)
    assert totals.tolist() == [by_hand(map(float, values), parts, unit) for values in expected.values()]


@settings(max_examples=40, deadline=None)
@given(values=st.lists(st.floats(allow_nan=True, allow_infinity=True) | st.booleans(), min_size=ROWS, max_size=ROWS))
def test_values_of_functions_are_clipped_and_summed_exactly(stored, values):
    schema, sealed, _ = stored
    array = np.array([float(value) for value in values])
    bound = mean(lambda _table: array).bind(schema)
    assert sealed.totals([bound], parts=3).tolist() == [by_hand(array.tolist(), 3, UNIT)]


def test_a_function_that_fails_on_public_rows_is_reported(stored):
    schema, sealed, training = stored

    def fails(table):
        raise ZeroDivisionError("why")

    bound = mean(fails).bind(schema)
    assert sealed.totals([bound]).tolist() == [[0]]
    with pytest.raises(QueryRejected, match=r"ZeroDivisionError: why"):
        training.totals([bound])


def test_columns_are_read_only_and_missing_values_are_plain(stored):
    _, sealed, _ = stored
    table = sealed.table(("x", "kind", "whole"))
    assert math.isnan(table["x"][0])
    assert table["kind"].dtype == object  # whether or not a value is missing, so that the type tells nothing
    assert table["whole"].dtype == np.float64
    assert not any(column.flags.writeable for column in table.values())


def test_the_engine_opens_again_and_serves_threads(stored):
    schema, sealed, _ = stored
    sealed.close()
    bound = [mean(f"whole > {k}").bind(schema) for k in range(3)]
    found = []
    threads = [threading.Thread(target=lambda: found.append(sealed.totals(bound).tolist())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all(totals == found[0] for totals in found)
    assert "rows=101" in repr(sealed)


def test_more_expressions_than_one_statement_takes(stored, columns):
    schema, sealed, _ = stored
    bound = [mean(f"share > {k / 150}").bind(schema) for k in range(150)]
    assert sealed.totals(bound)[:, 0].tolist() == [int(np.sum(columns["share"] > k / 150)) * UNIT for k in range(150)]


WITHOUT_FRAMES = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pandas", "polars", "pyarrow", "sklearn"):
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Blocked())
import numpy as np
import everhold
folder = sys.argv[1]
with open(folder + "/rows.csv", "w") as file:
    file.write("x,kind,late\\n" + "".join(f"{k % 7},{'ab'[k % 2]},{k % 2}\\n" for k in range(500)))
rows = {"x": np.arange(500) % 7, "kind": np.array(["a", "b"] * 250), "late": np.arange(500) % 2}
mechanism = everhold.GuessAndCheck(rows=500, queries=10, surprises=1, tolerance=0.4, grid=5)
planning = everhold.Planning(allow_vacuous=True)
for name, source in [("csv", folder + "/rows.csv"), ("arrays", rows)]:
    request = dict(holdout=source, training=source, label="late", mechanism=mechanism, planning=planning,
                allow_resealing=True)
    with everhold.Holdout.create(f"{folder}/{name}.db", name, **request) as holdout:
        predictions = np.arange(500) % 2
        asked = ["x > 3 and kind = 'a'", everhold.accuracy(predictions, training=predictions),
                 everhold.mean(lambda table: table["kind"] == "a", name="f")]
        print([holdout.ask(query).value for query in asked])
        holdout.transcript().to_text(), holdout.status()
"""


def test_the_core_needs_no_data_frames(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_FRAMES, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == second
    assert first.endswith("1.0, 0.5]")
