"""Predictions with row ids are joined by id; what is wrong with ids is said and costs nothing."""

import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from holdout_samples import ROWS, copied, create, rows
from pyarrow import parquet

import everhold as eh
from everhold import (
    HoldoutRejected,
    QueryRejected,
    accuracy,
    auc,
    brier,
    error,
    gradient,
    low_sensitivity,
    mean,
    risk,
)
from everhold.queries.means.distribution import histogram
from everhold.queries.predictions.arrays import PredictionTable
from everhold.queries.predictions.files import SomeColumns, read_predictions
from everhold_privacy.queries.choice import PrivateChoiceQuery

IDS = np.arange(ROWS) + 7
SEALED, TRAINING = {**rows(0), "id": IDS}, {**rows(1), "id": IDS + 10 * ROWS}
LABELS = SEALED["late"]
ORDER = np.random.default_rng(0).permutation(ROWS)


@pytest.fixture
def holdout(tmp_path):
    wanted = {"holdout": SEALED, "training": TRAINING, "row_id": "id", "mechanism": "privacy_budget", "queries": 30}
    with copied(tmp_path, **wanted) as made:
        yield made


def polars_frame(columns):
    return pytest.importorskip("polars").DataFrame(columns)


@pytest.mark.parametrize("table", [dict, pd.DataFrame, pa.table, polars_frame])
def test_shuffled_ids_are_not_scored_by_position(holdout, table):
    shuffled = table({"p": LABELS[ORDER], "id": IDS[ORDER]})
    assert holdout.ask(accuracy(shuffled)).high == 1.0
    assert holdout.ask(accuracy(LABELS)).repeated  # arrays stand in the order of the rows
    assert holdout.ask(error(LABELS[ORDER])).low > 0.0  # joined by mistake they would be right


def test_every_query_about_predictions_takes_a_table(holdout):
    chances = {"id": IDS[ORDER], "p": LABELS[ORDER] * 0.8 + 0.1}
    assert holdout.ask(brier(chances)).low == 0.0
    assert holdout.ask(risk(chances, "absolute")).value == pytest.approx(0.1, abs=0.2)
    assert holdout.ask(auc(chances, positives=300, negatives=300)).high == 1.0
    wrong = {"id": IDS[ORDER], "p": 1 - LABELS[ORDER]}
    right = {"id": IDS[ORDER], "p": LABELS[ORDER]}
    assert holdout.ask(PrivateChoiceQuery([error(wrong), error(right)], price=500)).index == 1


def test_training_predictions_are_joined_too(tmp_path):
    known = {"id": TRAINING["id"][ORDER], "p": TRAINING["late"][ORDER]}
    with create(tmp_path, holdout=SEALED, training=TRAINING, row_id="id") as holdout:
        answer = holdout.ask(accuracy({"id": IDS, "p": LABELS}, training=known))
        assert (answer.value, answer.source) == (1.0, "training")
        with pytest.raises(QueryRejected, match="of the training rows once"):
            holdout.quote(accuracy(LABELS, training={"id": IDS, "p": LABELS}))


def changed(place, value):
    ids = IDS.astype(object)
    ids[place] = value
    return ids


BAD = {
    "missing": ({"id": IDS[1:], "p": LABELS[1:]}, r"1 of the sealed rows' ids not at all \(7\)"),
    "twice": ({"id": changed(1, 7), "p": LABELS}, r"1 ids more than once \(7\) and 1 of the sealed rows' .* \(8\)"),
    "unknown": ({"id": changed(1, 99_999), "p": LABELS}, r"1 ids that no sealed row has \(99999\)"),
    "many": ({"id": IDS + ROWS, "p": LABELS}, r"1,000 ids that no sealed row has \(1007, 1008, 1009, \.\.\.\)"),
    "empty": ({"id": changed(3, None), "p": LABELS}, "1 empty ids"),
    "nan": ({"id": np.where(IDS == 9, np.nan, IDS), "p": LABELS}, "1 empty ids"),
    "masked": ({"id": np.ma.array(IDS, mask=IDS == 9), "p": LABELS}, "1 empty ids"),
    "text": (
        {"id": IDS.astype(str), "p": LABELS},
        "has ids that are not numbers, and the ids of this holdout are numbers",
    ),
    "truth": ({"id": changed(0, True), "p": LABELS}, "ids that are not numbers"),
    "matrix": ({"id": IDS[:, None], "p": LABELS}, "ids of the shape"),
    "no ids": ({"p": LABELS}, "no 'id'"),
    "only ids": ({"id": IDS}, "Pass one column of predictions"),
    "two columns": ({"id": IDS, "p": LABELS, "q": LABELS}, "the columns 'id', 'p', 'q'. Pass one"),
    "lengths": ({"id": IDS, "p": LABELS[1:]}, "1,000 ids and predictions of the shape"),
    "same names": (pd.DataFrame(np.ones((3, 2)), columns=["id", "id"]), "same name"),
    "masked predictions": (
        {"id": IDS, "p": np.ma.array(LABELS, mask=IDS == 9)},
        "no prediction in row 3 of the column 'p'",
    ),
    "no labels": ({"id": IDS[ORDER], "p": LABELS * 0.7}, "are no labels"),
}


@pytest.mark.parametrize("case", BAD)
def test_wrong_tables_cost_nothing(holdout, case):
    table, words = BAD[case]
    for ask in (holdout.ask, holdout.quote):
        with pytest.raises(QueryRejected, match=words) as caught:
            ask(accuracy(table))
        assert "othing was charged" in caught.value.told
    assert holdout.status()["charged"] == len(holdout.transcript()) == 0


def named(ids):
    return {"holdout": {**rows(0), "id": ids}, "training": None, "row_id": "id", "mechanism": "gaussian", "queries": 9}


TEXTS = np.array([f"{number:05d}" for number in IDS], dtype=object)


def test_ids_of_text_keep_their_zeros(tmp_path):
    with create(tmp_path, **named(TEXTS)) as holdout:
        assert holdout.ask(accuracy({"id": TEXTS[ORDER], "p": LABELS[ORDER]})).high == 1.0
        with pytest.raises(
            QueryRejected, match=r"has ids that are numbers, and the ids of this holdout are text.*all their zeros"
        ):
            holdout.ask(accuracy({"id": IDS, "p": LABELS}))
        with pytest.raises(QueryRejected, match="no sealed row has"):
            holdout.ask(accuracy({"id": IDS.astype(str), "p": LABELS}))


@pytest.mark.parametrize(
    ("sealed", "given"),
    [
        (IDS, IDS.astype(float)),
        (IDS.astype(float), IDS),
        (IDS + 2**60, [int(number) + 2**60 for number in IDS]),
        (IDS.astype("u8") + np.uint64(2**63), [int(number) + 2**63 for number in IDS]),
        (IDS.astype("i2"), IDS.astype("u8")),
    ],
)
def test_numbers_of_any_type_are_the_same_ids(tmp_path, sealed, given):
    with create(tmp_path, **named(sealed)) as holdout:
        answer = holdout.ask(accuracy({"id": np.asarray(given)[ORDER], "p": LABELS[ORDER]}))
        assert answer.high == 1.0


def test_large_ids_are_not_told_apart_as_doubles(tmp_path):
    ids = IDS + 2**60
    with create(tmp_path, **named(ids)) as holdout, pytest.raises(QueryRejected, match="ids"):
        holdout.ask(accuracy({"id": ids.astype(float), "p": LABELS}))


def test_without_row_ids_a_table_is_one_column(tmp_path):
    with create(tmp_path, training=None, mechanism="gaussian", queries=9) as holdout:
        answer = holdout.ask(accuracy(pd.DataFrame({"p": LABELS})))
        assert holdout.ask(accuracy(LABELS)).query == answer.query
        with pytest.raises(QueryRejected, match=r"created without row_id=.*Pass one column"):
            holdout.ask(accuracy({"id": IDS, "p": LABELS}))


def test_a_million_ids_are_joined_in_well_under_a_second():
    ids = np.arange(1_000_000)
    order = np.random.default_rng(0).permutation(len(ids))
    known = ids.tolist()
    started = time.process_time()
    joined = PredictionTable({"id": ids[order], "p": order % 7}).in_order("id", known, rows_are="sealed")
    assert time.process_time() - started < 3.0  # of a busy machine
    assert (joined == ids % 7).all()


ABOUT_IDS = {
    "text": mean("id in (7, 8, 9) and late = 1"),
    "range": mean("ID", low=0, high=9),
    "given": mean("late = 1", given="id < 9"),
    "histogram": histogram("id", [0, 10]),
    "function": mean(lambda table: table["id"] > 9),
    "gradient": gradient(lambda table: table["id"][:, None], dimension=1, clip=1.0),
    "gradient of the column": gradient(lambda table: table["id"][:, None], dimension=1, clip=1.0, columns=["id"]),
    "statistic": low_sensitivity(lambda table: np.mean(table["id"] > 9), 0.01),
}


@pytest.mark.parametrize("kind", ABOUT_IDS)
def test_no_query_reads_the_public_ids_of_sealed_rows(holdout, kind):
    with pytest.raises(QueryRejected):
        holdout.ask(ABOUT_IDS[kind])
    assert holdout.status()["charged"] == 0


class ByHeart:
    """Knows the labels of rows whose ids are public."""

    feature_names_in_ = ("id",)

    def predict(self, frame):
        return LABELS[frame["id"].to_numpy().astype(int) % ROWS]


def test_no_model_reads_the_ids(holdout):
    with pytest.raises(QueryRejected, match="no column of this holdout"):
        holdout.ask(accuracy(ByHeart()))


@pytest.mark.parametrize("ids", [IDS // 2, np.where(IDS == 9, np.nan, IDS), changed(3, None)])
@pytest.mark.parametrize("side", ["holdout", "training"])
def test_row_ids_name_every_row_once(tmp_path, ids, side):
    both = {"holdout": SEALED, "training": TRAINING}
    with pytest.raises(HoldoutRejected, match=r"a different value in every row"):
        create(tmp_path, row_id="id", **{**both, side: {**both[side], "id": ids}})


def classes(tmp_path, labels, **more):
    """Training rows have the next labels, not the same in the same order: those of a stratified split alone would."""
    both = [{**rows(seed), "kind": np.resize(np.roll(labels, -seed * ROWS), ROWS)} for seed in (0, 1)]
    wanted = {"mechanism": "gaussian", "queries": 9, "label": "kind", **more}
    return create(tmp_path, holdout=both[0], training=both[1], **wanted)


@pytest.mark.parametrize(("labels", "good", "bad"), [(["a", "b", "c"], "c", "d"), ([1, 2, 3.5], 3.5, 4)])
def test_a_class_that_no_training_row_has_is_refused(tmp_path, labels, good, bad):
    with classes(tmp_path, labels) as holdout:
        with pytest.raises(QueryRejected, match="the classes of the label"):
            holdout.ask(accuracy([good, bad] * (ROWS // 2)))
        assert holdout.ask(accuracy([good] * ROWS)).charged == 1


def test_open_texts_are_no_classes(tmp_path):
    answers = [f"answer {number}" for number in range(2 * ROWS)]
    with pytest.raises(HoldoutRejected, match=f"training has {ROWS:,} different labels.*classes='open'"):
        classes(tmp_path, answers)
    with classes(tmp_path, answers, classes="open") as holdout:
        assert holdout.schema.classes is None
        assert holdout.ask(accuracy(["something else"] * ROWS)).charged == 1


def test_a_series_with_an_index_of_its_own_is_joined_by_it_or_refused(tmp_path):
    shuffled = pd.Series(LABELS[ORDER], index=pd.Index(IDS[ORDER], name="id"))
    with create(tmp_path, "named", **named(IDS)) as holdout:
        assert holdout.ask(accuracy(shuffled)).query == holdout.ask(accuracy(LABELS)).query
        with pytest.raises(QueryRejected, match=r"index that does not count the rows"):
            holdout.ask(accuracy(shuffled.rename_axis(None)))


@pytest.mark.parametrize("form", [pd.Series, lambda values, index: pd.DataFrame({"p": values}, index=index)])
def test_without_row_ids_a_shuffled_index_is_refused_and_a_counted_one_is_not(tmp_path, form):
    with create(tmp_path, "plain", **{**named(IDS), "row_id": None}) as holdout:
        with pytest.raises(QueryRejected, match=r"Pass predictions.to_numpy\(\)"):
            holdout.ask(accuracy(form(LABELS[ORDER], index=ORDER)))
        assert holdout.ask(accuracy(form(LABELS, index=range(len(LABELS))))).source == "holdout"


@pytest.mark.filterwarnings("ignore::everhold.errors.EverholdWarning")
def test_of_a_text_file_nothing_is_guessed_but_the_types(tmp_path):
    """Quotation marks of another kind and hashes belong to the texts; a sniffer takes them for signs of the format."""
    ids = [f"{'#' * (n % 7 == 0)}{n}" for n in range(60)]
    said = ["'a'" if n % 3 else "a" for n in range(60)]
    rows = {"id": ids, "y": said, "x": np.arange(60.0)}
    with eh.Holdout.create(
        f"sqlite:///{tmp_path}/h.db", "h", holdout=rows, label="y", queries=5,
        rows=eh.Rows(row_id="id", features="public", classes=["a", "'a'"], equal_rows=True),
        mechanism=eh.GuessAndCheck(rows=60, queries=5, surprises=1, tolerance=0.9, grid=10),
        planning=eh.Planning(allow_vacuous=True),
    ) as made:  # fmt: skip
        for ending, sign in ((".csv", ","), (".tsv", "\t")):
            path = tmp_path / f"p{ending}"
            lines = [sign.join(pair) for pair in zip(ids, said, strict=True)]
            path.write_text("\n".join([f"id{sign}prediction", *lines]))
            table = read_predictions(path, made.schema, column=None)
            assert made.ask(eh.accuracy(table), guess=1.0).value == 1.0
            some = SomeColumns(path, made.schema)
            assert some.read(["prediction"])["prediction"].tolist() == said
            some.close()
        for first, second in (("id", "id"), ("prediction", "Prediction")):
            names = [*dict.fromkeys(["id", first]), second]
            (tmp_path / "p.csv").write_text(f"{','.join(names)}\n{','.join('a' for _ in names)}\n")
            parquet.write_table(pa.table([["a"] for _ in names], names=names), tmp_path / "p.parquet")
            for ending in ("csv", "parquet"):
                with pytest.raises(QueryRejected, match=f"p.{ending} has the columns {first!r} and {second!r}"):
                    read_predictions(tmp_path / f"p.{ending}", made.schema, column="prediction")
