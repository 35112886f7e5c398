"""Tables of predictions become files that hold the same."""

import duckdb
import numpy as np
import pandas as pd
import pytest

from everhold.errors import QueryRejected
from everhold.queries.predictions.arrays import PredictionTable, prediction_table
from everhold_server.wire.files import parquet_of

FRAME = pd.DataFrame({"id": ["a", "b"], "said": [0.1, np.nan]}, index=[5, 7])


def read(content, folder):
    path = folder / "sent.parquet"
    path.write_bytes(content)
    return duckdb.read_parquet(str(path)).fetchall()


@pytest.mark.parametrize("table", [FRAME, {"id": ["a", "b"], "said": np.array([0.1, np.nan])}])
def test_a_table_is_sent_as_it_is(table, tmp_path):
    (first, second) = read(parquet_of(prediction_table(table), "id"), tmp_path)
    assert first == ("a", 0.1)
    assert second[0] == "b"
    assert second[1] != second[1]


def test_whole_numbers_texts_and_what_is_missing_stay_what_they_are(tmp_path):
    columns = {"id": np.array([2**53 + 1, 2]), "said": np.ma.array([1, 0], mask=[False, True]), "text": ["x", "007"]}
    assert read(parquet_of(PredictionTable(columns), "id"), tmp_path) == [(2**53 + 1, 1, "x"), (2, None, "007")]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (PredictionTable({"id": [1, 2], "said": [1]}), "different lengths"),
        (PredictionTable({"id": [], "said": []}), "no row"),
        (PredictionTable({"id": [1, 2], "said": np.zeros((2, 2))}), "an array of one dimension"),
        (PredictionTable({"id": [1, 2], "said": [object(), object()]}), "neither numbers nor texts"),
        (prediction_table(FRAME[["said"]]), "does not count its rows"),
    ],
)
def test_what_is_no_table_of_predictions_is_refused(table, said):
    with pytest.raises(QueryRejected, match=said):
        parquet_of(table, None)
