"""A file with many columns of predictions is the same queries as its columns one by one, read once."""

import gc
import os
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from holdout_samples import ROWS, copied, create, rows
from pyarrow import csv, parquet

from everhold import QueryRejected, accuracy, brier, error, precision, predictions_in, risk
from everhold.queries.makers import difference
from everhold.queries.predictions import columns as prediction_columns
from everhold.queries.predictions.files import SomeColumns

IDS = np.arange(ROWS) + 7
SEALED, TRAINING = {**rows(0), "id": IDS}, {**rows(1), "id": IDS + 10 * ROWS}
LABELS = SEALED["late"]
RNG = np.random.default_rng(0)
ORDER = RNG.permutation(ROWS)
MODELS = {f"m{place}": np.where(RNG.random(ROWS) < place / 12, LABELS, 1 - LABELS) for place in range(12)}
WISH = {"holdout": SEALED, "training": None, "row_id": "id", "mechanism": "gaussian", "queries": 60}


def written(path, columns, *, order=ORDER):
    table = pa.table({name: np.ma.asarray(values)[order] for name, values in columns.items()})
    (parquet.write_table if path.suffix == ".parquet" else csv.write_csv)(table, path)
    return path


@pytest.fixture
def holdout(tmp_path):
    with copied(tmp_path, **WISH) as made:
        yield made


@pytest.fixture
def reads(monkeypatch):
    """The columns that each reading of the file asked for."""
    seen, read = [], SomeColumns.read
    monkeypatch.setattr(SomeColumns, "read", lambda self, names: seen.append(list(names)) or read(self, names))
    return seen


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_columns_of_a_file_are_the_queries_of_their_arrays(holdout, tmp_path, ending):
    columns = predictions_in(written(tmp_path / f"p.{ending}", {"id": IDS, **MODELS}), row_id="id")
    assert list(columns) == list(MODELS)
    together = holdout.ask_many([accuracy(column) for column in columns.values()])
    alone = holdout.ask_many([accuracy(values) for values in MODELS.values()])
    assert [answer.query for answer in together] == [answer.query for answer in alone]
    assert all(answer.repeated for answer in alone)
    assert holdout.ask(accuracy(columns["m3"])).query == alone[3].query


@pytest.mark.filterwarnings("ignore::everhold.NonAdaptiveWarning")
def test_sums_are_those_of_numpy(tmp_path):
    columns = predictions_in(written(tmp_path / "p.parquet", {"id": IDS, **MODELS}), row_id="id")
    chances = predictions_in(
        written(tmp_path / "c.parquet", {"id": IDS, **{name: 0.8 * one + 0.1 for name, one in MODELS.items()}}),
        row_id="id",
    )
    with create(tmp_path, **{**WISH, "mechanism": "empirical"}) as holdout:
        told = holdout.ask_many([accuracy(column) for column in columns.values()])
        assert [answer.value for answer in told] == [(one == LABELS).mean() for one in MODELS.values()]
        told = holdout.ask_many([brier(column) for column in chances.values()])
        expected = [((0.8 * one + 0.1 - LABELS) ** 2).mean() for one in MODELS.values()]
        np.testing.assert_allclose([answer.value for answer in told], expected, rtol=0, atol=2**-29)
        told = holdout.ask_many([risk(column, "absolute") for column in chances.values()])
        expected = [np.abs(0.8 * one + 0.1 - LABELS).mean() for one in MODELS.values()]
        np.testing.assert_allclose([answer.value for answer in told], expected, rtol=0, atol=2**-29)
        told = holdout.ask_many([difference(error(columns["m1"]), error(columns[name])) for name in ("m2", "m9")])
        expected = [(MODELS[name] == LABELS).mean() - (MODELS["m1"] == LABELS).mean() for name in ("m2", "m9")]
        np.testing.assert_allclose([answer.value for answer in told], expected, rtol=0, atol=2**-29)


def test_columns_that_are_asked_about_together_are_read_once(holdout, tmp_path, reads, monkeypatch):
    columns = predictions_in(written(tmp_path / "p.parquet", {"id": IDS, **MODELS}), row_id="id")
    monkeypatch.setattr(prediction_columns, "_MOST_CELLS", 5 * ROWS)
    wanted = ["m7", "m0", "m11", "m1", "m2", "m3", "m4", "m9"]
    holdout.ask_many([accuracy(columns[name]) for name in wanted])
    assert reads == [["id"], wanted[:5], wanted[5:]]


def test_training_predictions_are_joined_too(tmp_path, reads):
    wanted = {**WISH, "training": TRAINING, "mechanism": "guess_and_check"}
    trained = {name: np.where(RNG.random(ROWS) < 0.9, TRAINING["late"], 0) for name in MODELS}
    sealed = predictions_in(written(tmp_path / "p.parquet", {"id": IDS, **MODELS}), row_id="id")
    training = predictions_in(written(tmp_path / "t.parquet", {"id": TRAINING["id"], **trained}), row_id="id")
    with create(tmp_path, **wanted) as holdout:
        together = holdout.ask_many([brier(sealed[name], training=training[name]) for name in MODELS])
        assert reads == [["id"], list(MODELS), ["id"], list(MODELS)] or len(reads) == 4
        one = holdout.ask(brier(MODELS["m5"], training=trained["m5"]))
        assert (one.query, one.repeated, one.value) == (together[5].query, True, together[5].value)


def test_every_query_about_predictions_takes_a_column(tmp_path):
    columns = predictions_in(written(tmp_path / "p.csv", {"id": IDS, **MODELS}), row_id="id")
    with create(tmp_path, **WISH) as holdout:
        assert holdout.ask(precision(columns["m11"])).high == 1.0
        assert holdout.ask(risk(columns["m11"], "squared")).low == 0.0


MASKED = np.ma.array(LABELS, mask=IDS == 9)
BAD = {
    "missing": ({"id": IDS, "a": LABELS, "b": MASKED}, "column 'b' of p.parquet lack 1 rows"),
    "strange": ({"id": IDS, "a": LABELS, "b": LABELS + 1}, "column 'b' of p.parquet are no labels: .* such as 2"),
    "text": ({"id": IDS, "a": LABELS, "b": LABELS.astype(str)}, "column 'b' of p.parquet are texts"),
    "nan": ({"id": IDS, "a": LABELS, "b": np.where(IDS == 9, np.nan, LABELS)}, "column 'b' of p.parquet hold nan"),
    "twice": ({"id": np.where(IDS == 8, 7, IDS), "a": LABELS, "b": LABELS}, r"ids more than once \(7\) .* \(8\)"),
    "unknown": ({"id": IDS + ROWS, "a": LABELS, "b": LABELS}, "ids that no sealed row has"),
    "ids of text": ({"id": IDS.astype(str), "a": LABELS, "b": LABELS}, "p.parquet has ids that are not numbers"),
    "no id": ({"id": np.ma.array(IDS, mask=IDS == 9), "a": LABELS, "b": LABELS}, "1 empty ids"),
    "long": ({"id": IDS, "a": LABELS, "b": np.where(IDS == 9, "x" * 2_000, "y")}, "a text of 2,000 characters"),
}


@pytest.mark.parametrize("case", BAD)
def test_one_wrong_column_costs_nothing_and_is_named(holdout, tmp_path, case):
    content, words = BAD[case]
    columns = predictions_in(written(tmp_path / "p.parquet", content), row_id="id")
    with pytest.raises(QueryRejected, match=words) as caught:
        holdout.ask_many([accuracy(column) for column in columns.values()])
    assert "othing was charged" in caught.value.told
    assert holdout.status()["charged"] == len(holdout.transcript()) == 0


def test_wrong_files_and_names_are_refused(holdout, tmp_path):
    path = written(tmp_path / "p.parquet", {"id": IDS, **MODELS})
    with pytest.raises(QueryRejected, match="There is no file"):
        predictions_in(tmp_path / "q.parquet")
    with pytest.raises(QueryRejected, match=r"row_id is 'ids'"):
        predictions_in(path, row_id="ids")
    (tmp_path / "broken.parquet").write_bytes(path.read_bytes()[:-9])
    with pytest.raises(QueryRejected, match="cannot be read as predictions"):
        predictions_in(tmp_path / "broken.parquet")
    with pytest.raises(KeyError, match=r"'m99'.* Name one of 'm0', .*, 'm11'\."):
        predictions_in(path, row_id="id")["m99"]
    with pytest.raises(QueryRejected, match=r"predictions_in\(path, row_id='id'\)"):
        holdout.ask(accuracy(predictions_in(path)["m1"]))
    longer = {name: np.concatenate([values] * 3) for name, values in {"id": IDS, **MODELS}.items()}
    columns = predictions_in(written(tmp_path / "l.parquet", longer, order=slice(None)), row_id="id")
    with pytest.raises(QueryRejected, match="more than 2,000 lines"):
        holdout.ask(accuracy(columns["m1"]))


def test_rows_without_ids_take_lines_in_their_order(tmp_path):
    path = written(tmp_path / "p.parquet", {"id": IDS, **MODELS}, order=slice(None))
    with create(tmp_path, **{**WISH, "row_id": None, "holdout": rows(0)}) as holdout:
        answers = holdout.ask_many([accuracy(predictions_in(path)[name]) for name in MODELS])
        assert holdout.ask(accuracy(MODELS["m4"])).query == answers[4].query
        with pytest.raises(QueryRejected, match="created without row_id="):
            holdout.ask(accuracy(predictions_in(path, row_id="id")["m1"]))


def test_a_file_that_changes_while_it_is_read_is_refused(holdout, tmp_path, monkeypatch):
    path = written(tmp_path / "p.parquet", {"id": IDS, **MODELS})
    columns, check = predictions_in(path, row_id="id"), prediction_columns.PredictionTable.order

    def order(*given, **named):
        os.utime(path, ns=(1, 1))
        return check(*given, **named)

    monkeypatch.setattr(prediction_columns.PredictionTable, "order", order)
    with pytest.raises(QueryRejected, match=r"p\.parquet was changed while it was read"):
        holdout.ask_many([accuracy(column) for column in columns.values()])
    assert holdout.status()["charged"] == 0


def test_a_disk_that_fails_is_no_answer(holdout, tmp_path, monkeypatch):
    columns = predictions_in(written(tmp_path / "p.parquet", {"id": IDS, **MODELS}), row_id="id")

    def fails(*_):
        raise OSError("the disk is gone")

    monkeypatch.setattr(prediction_columns.PredictionCache, "_read", fails)
    with pytest.raises(OSError, match="the disk is gone"):
        holdout.ask_many([accuracy(column) for column in columns.values()])
    assert holdout.status()["charged"] == len(holdout.transcript()) == 0


def test_memory_does_not_grow_with_the_columns(tmp_path, monkeypatch):
    monkeypatch.setattr(prediction_columns, "_MOST_CELLS", 4 * ROWS)
    peaks = []
    for count in (40, 160):
        content = {f"c{place}": RNG.random(ROWS) for place in range(count)}
        columns = predictions_in(written(tmp_path / "p.parquet", {"id": IDS, **content}), row_id="id")
        with create(tmp_path, name=f"of-{count}", **{**WISH, "queries": count}) as holdout:
            queries = [brier(column) for column in columns.values()]
            gc.collect()
            tracemalloc.start()
            holdout.ask_many(queries)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[1] - peaks[0] < 120 * ROWS * 8  # what the other columns would take as arrays
