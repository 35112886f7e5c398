"""Predictions in a table of the engine: joined there by id, known by a digest, checked before anything is charged."""

import duckdb
import numpy as np
import pandas as pd
import pytest
from holdout_samples import ROWS, create, rows
from pond_samples import Pond, poured, stirred, tried_before

from everhold import (
    EverholdError,
    QueryRejected,
    accuracy,
    auc,
    brier,
    error,
    mean,
    precision,
    recall,
    risk,
)
from everhold.queries.makers import difference
from everhold_engines import Predictions, prediction_tables
from everhold_server.wire.queries import written

__all__ = ["tried_before"]

IDS = np.arange(ROWS) + 7
SEALED = pd.DataFrame({**rows(0), "id": IDS})
LABELS = SEALED["late"].to_numpy()
RNG = np.random.default_rng(0)
MODELS = {f"m{place}": np.where(RNG.random(ROWS) < place / 40, LABELS, 1 - LABELS) for place in range(40)}
CHANCES = {"p": 0.8 * LABELS + 0.1, "q": RNG.random(ROWS)}
TABLE = pd.DataFrame({"id": IDS, **MODELS, **CHANCES, "b": LABELS == 1, "s": LABELS.astype(str)})
WISH = {"training": None, "row_id": "id", "queries": 100}


def shuffled(frame, seed=0):
    return frame.iloc[np.random.default_rng(seed).permutation(len(frame))]


def taken_from(pond, statement):
    with duckdb.connect(str(pond.file)) as connection:
        return connection.execute(statement).df()


@pytest.fixture
def pond(tmp_path, tried_before):
    poured(tmp_path / "pond.db", "models", shuffled(TABLE))
    return poured(tmp_path / "pond.db", "sealed", SEALED)


@pytest.fixture
def holdout(tmp_path, pond):
    with create(tmp_path, holdout=pond, mechanism="gaussian", **WISH) as made:
        pond.statements.clear()
        yield made


@pytest.fixture
def exact(tmp_path, pond):
    """A holdout that tells the means of the sealed rows, for comparison."""
    with pytest.warns(match="empirical"):
        made = create(tmp_path, name="exact", holdout=pond, mechanism="empirical", **WISH)
    yield made
    made.close()


def test_sums_are_those_of_numpy(exact):
    told = exact.ask_many([accuracy(Predictions("models", name)) for name in MODELS])
    assert [answer.value for answer in told] == [(one == LABELS).mean() for one in MODELS.values()]
    told = exact.ask_many([error(Predictions("models", "b")), brier(Predictions("models", "q"))])
    assert told[0].value == 0.0
    grid = np.floor((CHANCES["q"] - LABELS) ** 2 * 2**30)
    assert told[1].value == pytest.approx(grid.sum() / 2**30 / ROWS, abs=1e-15)


@pytest.mark.parametrize(
    ("loss", "values"),
    [
        ("absolute", np.abs(CHANCES["q"] - LABELS)),
        ("squared", (CHANCES["q"] - LABELS) ** 2),
        ("log", -np.log(np.where(LABELS == 1, CHANCES["q"], 1 - CHANCES["q"]))),
    ],
)
def test_losses_are_those_of_numpy(exact, loss, values):
    answer = exact.ask(risk(Predictions("models", "q"), loss, low=0.1, high=0.7))
    assert answer.value == pytest.approx(np.clip(values, 0.1, 0.7).mean(), abs=2**-28)


def test_what_is_made_of_two_queries_is_joined_too(exact):
    first, second = (error(Predictions("models", name)) for name in ("m9", "m20"))
    apart = (MODELS["m20"] == LABELS).mean() - (MODELS["m9"] == LABELS).mean()
    assert exact.ask(difference(first, second)).value == pytest.approx(apart, abs=2**-28)
    predicted, hits = MODELS["m30"] == 1, (MODELS["m30"] == 1) & (LABELS == 1)
    found = exact.ask(precision(Predictions("models", "m30"))).value
    assert found == pytest.approx(hits.sum() / predicted.sum(), abs=1e-8)
    found = exact.ask(recall(Predictions("models", "m30"))).value
    assert found == pytest.approx(hits.sum() / LABELS.sum(), abs=1e-8)


def test_many_columns_are_summed_in_one_pass(holdout, pond, monkeypatch):
    monkeypatch.setattr(Pond, "most_expressions", 64)
    queries = [accuracy(Predictions("models", name)) for name in MODELS]
    pond.statements.clear()
    holdout.ask_many([*queries, mean("late = 1")])
    summed = [sql for sql in pond.statements if "LEFT JOIN" in sql]
    digests = [sql for sql in pond.statements if "sha256" in sql]
    assert (len(summed), len(digests)) == (1, 2)


def test_more_columns_than_a_statement_takes_are_several(holdout, pond):
    pond.statements.clear()
    holdout.ask_many([accuracy(Predictions("models", name)) for name in MODELS])
    assert len([sql for sql in pond.statements if "LEFT JOIN" in sql]) == -(-len(MODELS) // pond.most_expressions)


def test_a_query_is_known_by_what_the_table_says(holdout, pond):
    stirred(pond, "UPDATE models SET m3 = (id = 7)::INT WHERE id IN (7, 8)")
    first = holdout.ask(accuracy(Predictions("models", "m3")))
    assert "'m3' of 'models'" in first.shown
    assert holdout.ask(error(Predictions("models", "m3"))).repeated
    poured(pond.file, "others", taken_from(pond, "SELECT id AS row, m3::DOUBLE AS x FROM models ORDER BY id"))
    again = holdout.ask(accuracy(Predictions("others", "x", row_id="row")))
    assert (again.query, again.repeated, again.value) == (first.query, True, first.value)
    stirred(pond, "UPDATE models SET m3 = 1 - m3 WHERE id = 9")
    other = holdout.ask(accuracy(Predictions("models", "m3")))
    assert other.query != first.query
    stirred(pond, "UPDATE models SET id = 15 - id WHERE id IN (7, 8)")  # the same predictions of other rows
    assert holdout.ask(accuracy(Predictions("models", "m3"))).query not in (first.query, other.query)


BAD = {
    "missing row": ("DELETE FROM models WHERE id = 7", "m1", r"1 of the sealed rows' ids not at all \(7\)"),
    "twice": ("UPDATE models SET id = 7 WHERE id = 8", "m1", r"1 ids more than once \(7\) and 1 of .* \(8\)"),
    "unknown": ("INSERT INTO models (id, m1) VALUES (99999, 1)", "m1", r"1 ids that no sealed row has \(99999\)"),
    "empty id": ("UPDATE models SET id = NULL WHERE id = 9", "m1", "1 ids in"),
    "ids of text": ("ALTER TABLE models ALTER id TYPE VARCHAR", "m1", "of the table 'models' are no numbers"),
    "no ids": ("ALTER TABLE models RENAME id TO row", "m1", "without the row id 'id'. Pass row_id="),
    "missing": ("UPDATE models SET m1 = NULL WHERE id = 9", "m1", "column 'm1' of the table 'models' lack 1 rows"),
    "nan": ("UPDATE models SET p = 'nan' WHERE id = 9", "p", "column 'p' of the table 'models' lack 1 rows"),
    "class": ("UPDATE models SET m1 = 3 WHERE id < 9", "m1", r"are no labels: 2 are such as 3\. Pass one of 0, 1 for"),
    "chance": ("", "p", "are no labels: 1,000 are such as 0"),
    "text": ("", "s", "are of type string, and the labels are of type binary"),
    "no column": ("", "m99", "no column 'm99' of predictions in the table 'models'.*Did you mean 'm9'"),
    "the ids": ("", "id", "no column 'id' of predictions in the table 'models'"),
}


def test_wrong_tables_cost_nothing(holdout, pond):
    whole = pond.file.read_bytes()
    for case, (change, column, words) in BAD.items():
        stirred(pond, *filter(None, [change]))
        for ask in (
            holdout.ask,
            holdout.quote,
            lambda asked: holdout.ask_many([accuracy(Predictions("models", "m2")), asked]),
        ):
            with pytest.raises(QueryRejected, match=words):
                pytest.fail(f"answered, {case}: {ask(accuracy(Predictions('models', column)))}")
        pond.file.write_bytes(whole)
    assert holdout.status()["charged"] == len(holdout.transcript()) == 0
    assert not [sql for sql in pond.statements if '"late"' in sql]  # nobody looked at a label


def test_probabilities_outside_their_range_cost_nothing(holdout, pond):
    stirred(pond, "UPDATE models SET q = 1.5 WHERE id = 9")
    with pytest.raises(QueryRejected, match=r"not all in \[0, 1\]: 1 are such as 1\.5\. Pass probabilities of label 1"):
        holdout.ask(brier(Predictions("models", "q")))
    stirred(pond, "UPDATE models SET q = 'inf' WHERE id = 9")
    with pytest.raises(QueryRejected, match="are not all finite: 1 are such as inf"):
        holdout.ask(risk(Predictions("models", "q"), "absolute"))
    assert holdout.status()["charged"] == 0


def test_tables_that_cannot_be_joined_are_refused(holdout, tmp_path):
    with pytest.raises(QueryRejected, match="There is no table 'other' of predictions"):
        holdout.ask(accuracy(Predictions("other", "m1")))
    with pytest.raises(QueryRejected, match="in the table of the sealed rows"):
        holdout.ask(accuracy(Predictions("Sealed", "late")))
    with pytest.raises(QueryRejected, match="stay in a table of the engine"):
        holdout.ask(risk(Predictions("models", "q"), lambda said, true: abs(said - true), high=1))
    with pytest.raises(QueryRejected, match=r"stay in a table of the engine|privacy_budget"):
        holdout.ask(auc(Predictions("models", "q"), positives=100, negatives=100))
    with pytest.raises(QueryRejected, match="your own guess"):
        holdout.ask(accuracy(LABELS, training=Predictions("models", "m1")))
    with pytest.raises(QueryRejected, match="cannot be sent to a service"):
        written(accuracy(Predictions("models", "m1")))
    for row_id, words in (("id", r"in a file, and.*predictions_in"), (None, r"created with row_id=")):
        wanted = {**WISH, "row_id": row_id, "mechanism": "gaussian", "name": f"by {row_id}"}
        with create(tmp_path, holdout=SEALED, **wanted) as of_a_file, pytest.raises(QueryRejected, match=words):
            of_a_file.ask(accuracy(Predictions("models", "m1")))


def test_what_keeps_predictions_takes_none_that_stay_elsewhere(tmp_path, pond):
    with (
        create(tmp_path, holdout=pond, **WISH) as holdout,
        pytest.raises(QueryRejected, match="gates and comparisons of outcomes"),
    ):
        holdout.gate(accuracy, champion=Predictions("models", "m1"))


@pytest.mark.parametrize("change", ["UPDATE models SET m1 = 1 - m1", "INSERT INTO models SELECT * FROM models"])
def test_a_table_that_changes_before_the_sums_is_noticed(holdout, pond, monkeypatch, change):
    beside = prediction_tables.JoinedTable.beside
    monkeypatch.setattr(
        prediction_tables.JoinedTable,
        "beside",
        lambda *given, **named: stirred(pond, change) or beside(*given, **named),
    )
    with pytest.raises(EverholdError, match="predictions in the table 'models' were changed") as fault:
        holdout.ask(accuracy(Predictions("models", "m1")))
    assert fault.value.unchanged == "nothing was charged"
    assert holdout.status()["charged"] == len(holdout.transcript()) == 0


@pytest.mark.parametrize("change", ["DELETE FROM models", "UPDATE models SET id = id + 0.5 WHERE id = 1006"])
def test_a_digest_is_about_which_rows_there_are(pond, change, monkeypatch):
    monkeypatch.setattr(prediction_tables, "_DIGITS", 0)  # all in one part, so that the order of the ids stays
    stirred(pond, "ALTER TABLE models ALTER id TYPE DOUBLE")
    table = prediction_tables.JoinedTable.of(pond, "models", row_id="id", own_id="id")
    columns = [table.column("m1"), table.column("s")]
    before = table.digests(columns)
    stirred(pond, change)
    assert not {*before} & {*table.digests(columns)}


def test_no_row_counts_twice_however_often_its_id_is_there(exact, pond, monkeypatch):
    """Without the grouping by id a row would count once for each of its lines, and so would what is told of it."""
    beside = prediction_tables.JoinedTable.beside

    def while_doubled(*given, **named):
        stirred(pond, "INSERT INTO models SELECT * FROM models")
        return beside(*given, **named)

    monkeypatch.setattr(prediction_tables.JoinedTable, "beside", while_doubled)
    monkeypatch.setattr(prediction_tables.JoinedTable, "digests", lambda self, columns: ["0" * 64 for _ in columns])
    assert exact.ask(accuracy(Predictions("models", "m12"))).value == (MODELS["m12"] == LABELS).mean()


def test_labels_of_text_are_joined_as_texts(tmp_path, tried_before):
    said = np.where(RNG.random(ROWS) < 0.7, SEALED["carrier"], "AA")
    poured(tmp_path / "pond.db", "models", pd.DataFrame({"id": IDS, "said": said}))
    pond = poured(tmp_path / "pond.db", "sealed", SEALED)
    with pytest.warns(match="empirical"):
        made = create(tmp_path, holdout=pond, label="carrier", mechanism="empirical", classes="open", **WISH)
    with made as holdout:
        answer = holdout.ask(accuracy(Predictions("models", "said")))
        assert answer.value == (said == SEALED["carrier"]).mean()
        assert answer.about == holdout.ask(accuracy(said.astype(str))).about


@pytest.mark.filterwarnings("ignore::everhold.errors.EverholdWarning")
def test_every_engine_joins_them_as_numpy_does(tmp_path, poured):
    """Numbers, truth values and probabilities, in another order; known again by what they say."""
    mixed = {name: column.to_numpy() for name, column in shuffled(TABLE).items()}
    names = {"joined_id": "m5", "given_0": "m7"}  # whatever statements call theirs
    given = {name: mixed[names.get(name, name)] for name in ("id", "m3", "q", "b", *names)}
    models = poured({**given, "half": given["m3"] / 2}).table
    other = poured({"row": IDS, "x": MODELS["m3"].astype(float), "m3": 1 - MODELS["m3"]}).table
    queries = [
        accuracy(Predictions(models, "m3")), error(Predictions(models, "b")), brier(Predictions(models, "q")),
        accuracy(Predictions(other, "x", row_id="row")), accuracy(Predictions(other, "m3", row_id="row")),
        *(accuracy(Predictions(models, name)) for name in names),
    ]  # fmt: skip
    with create(tmp_path, holdout=poured({**rows(0), "id": IDS}), mechanism="empirical", **WISH) as holdout:
        first, is_late, chances, again, others, *named = holdout.ask_many(queries)
        grid = np.floor((CHANCES["q"] - LABELS) ** 2 * 2**30).sum() / 2**30 / ROWS
        assert [first.value, is_late.value] == [(MODELS["m3"] == LABELS).mean(), 0.0]
        assert chances.value == pytest.approx(grid, abs=1e-15)
        assert first.query == again.query != others.query
        assert [one.value for one in named] == [(MODELS[name] == LABELS).mean() for name in names.values()]
        with pytest.raises(QueryRejected, match=r"are no labels: .* such as 0\.5"):
            holdout.ask(accuracy(Predictions(models, "half")))
