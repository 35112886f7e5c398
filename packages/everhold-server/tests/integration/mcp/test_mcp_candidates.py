"""Models that strangers hand in: which are taken, and that no other file can be read."""

import json
import os
import re
import tracemalloc

import numpy as np
import pytest
from mcp_samples import SECRET, create, refused, rows, told

from everhold import Holdout, QueryRejected
from everhold.asking.creation import settings_from
from everhold.queries.predictions.files import read_predictions
from everhold.values.base import Schema
from everhold.values.expressions import ColumnKind
from everhold_server.mcp import PredictionsFolder
from everhold_server.mcp.candidates import candidate


def schema(row_id=None, kind=ColumnKind.NUMBER, *, public=True):
    columns = {"id": kind, "x": ColumnKind.NUMBER, "y": ColumnKind.NUMBER}
    return Schema(3, 0, columns, "y", "binary", row_id=row_id, features_public=public)


def taken(schema, folder=None, **given):
    return candidate(schema, folder, **{"rule": None, "predictions": None, "file": None, **given})


@pytest.mark.parametrize(
    ("row_id", "kind", "predictions", "ids"),
    [
        ("id", ColumnKind.NUMBER, {"7": 1, "8": 0}, [7, 8]),
        ("id", ColumnKind.NUMBER, {"7.5": 1, "8": 0}, [7.5, 8.0]),
        ("id", ColumnKind.STRING, {"07": 1, "7": 0}, ["07", "7"]),
        (None, ColumnKind.NUMBER, [1, 0], None),
    ],
)
def test_predictions_are_joined_by_ids_of_the_rows_kind(row_id, kind, predictions, ids):
    found = taken(schema(row_id, kind), predictions=predictions)
    assert (found if ids is None else found.columns["prediction"]) == [1, 0]
    if ids is not None:
        assert list(found.columns[row_id]) == ids


@pytest.mark.parametrize(
    ("row_id", "predictions", "said"),
    [("id", [1, 0, 1], "an object from each 'id'"), (None, {"1": 0}, "a list"), ("id", {"seven": 1}, "numbers")],
)
def test_predictions_of_another_form_are_refused(row_id, predictions, said):
    with pytest.raises(QueryRejected, match=r"The rows have|An id is 'seven'") as refusal:
        taken(schema(row_id), predictions=predictions)
    assert said in refusal.value.message


def test_numbers_and_texts_together_are_no_texts():
    assert taken(schema(), predictions=[1, "0", 1]).dtype == object
    table = taken(schema("id"), predictions={"1": 1, "2": "0"})
    assert table.columns["prediction"].dtype == object


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "predictions"
    place.mkdir()
    return PredictionsFolder(place, lambda path, known: read_predictions(path, known, column=None))


@pytest.fixture
def public(tmp_path):
    with create(tmp_path, features="public", training=None) as made:
        made.gate("accuracy", champion="x > 1")
        yield made


def write(path, predicted):
    lines = [f"{i},{int(p)}" for i, p in zip(rows(0)["id"], predicted, strict=True)]
    path.write_text("\n".join(["id,late", *lines]) + "\n")


def test_a_file_of_the_folder_challenges(public, folder):
    flights = rows(0)
    write(folder.path / "model.csv", flights["x"] + flights["z"] > 0)
    assert told(public, "challenge", {"file": "model.csv"}, predictions=folder)["promoted"]
    assert told(public, "challenge", {"rule": "x + z > 0"}, predictions=folder)["verdict"] == "kept"


@pytest.mark.parametrize(
    "name",
    [
        *("../secret.csv", "/etc/passwd", "sub/model.csv", "..", ".", "", "a\0b", "a\nb", "c:\\secret.csv", "none.csv"),
        *("sub", "link.csv", "hard.csv", "pipe.csv"),
    ],
)
def test_no_other_file_can_be_read(public, folder, tmp_path, name):
    secret = tmp_path / "secret.csv"
    secret.write_text(f"id,{SECRET}\n1,1\n")
    (folder.path / "sub").mkdir()
    write(folder.path / "sub" / "model.csv", rows(0)["x"] > 0)
    (folder.path / "link.csv").symlink_to(secret)
    os.link(secret, folder.path / "hard.csv")
    os.mkfifo(folder.path / "pipe.csv")
    message = refused(public, "challenge", {"file": name}, predictions=folder)
    assert "in the predictions folder" in message


def test_without_a_folder_no_file_is_read(public):
    assert "reads no files" in refused(public, "challenge", {"file": "model.csv"})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("id,late\n1,1\n", "not at all"),
        ("", "cannot be read|no 'id'"),
        ("late\n1\n", "no 'id'"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(public, folder, content, said):
    (folder.path / "bad.csv").write_text(content)
    assert re.search(said, refused(public, "challenge", {"file": "bad.csv"}, predictions=folder))


def test_rules_run_no_code_and_texts_that_look_like_json_are_rules(public):
    for rule in ("__import__('os').system('true')", "read_csv('/etc/passwd')", '["a"]', "(select 1)", "x > 0; drop"):
        refused(public, "challenge", {"rule": rule})
    assert told(public, "challenge", {"rule": "x > 2"})["verdict"] == "kept"


def test_texts_are_labels_where_labels_are_texts(tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.choice(np.array(["yes", "no"]), 2_000).astype(object)
    wanted = {"label": "y", "classes": ["yes", "no"], "features": "public"}
    wanted |= {"mechanism": "guess_and_check", "queries": 20}
    with Holdout.create(
        tmp_path / "t.db", "t", holdout={"x": rng.normal(size=2_000), "y": labels}, **settings_from(wanted)
    ) as holdout:
        holdout.gate("accuracy", champion=np.full(2_000, "no"))
        assert told(holdout, "challenge", {"predictions": labels.tolist()})["promoted"]
        assert "text" in refused(holdout, "challenge", {"predictions": [*labels.tolist()[1:], 1]})
        assert json.dumps(told(holdout, "describe")["gates"])


@pytest.mark.parametrize("place", ["ids", "predictions"])
def test_one_long_text_takes_no_more_memory_than_itself(place):
    """Four bytes for each of 20,000 letters, for each of 3,000 rows, would be 240 MB."""
    letters = "x" * 20_000
    names = [f"{number}" for number in range(3_000)]
    predictions = dict.fromkeys([*names[1:], letters] if place == "ids" else names, "yes")
    if place == "predictions":
        predictions["7"] = letters
    wide = Schema(
        3_000, 0, {"id": ColumnKind.STRING, "y": ColumnKind.STRING}, "y", "string", row_id="id", features_public=True
    )
    tracemalloc.start()
    try:
        with pytest.raises(QueryRejected, match=r"no sealed row has|20,000 characters"):
            taken(wide, predictions=predictions).in_order("id", names, rows_are="sealed")
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()
