"""Training rows that stay in the engine: guesses from all of them, and a sample for what needs rows here."""

import hashlib
import json

import numpy as np
import pandas as pd
import pytest
from pond_samples import Pond, poured, stirred, tried_before

import everhold as eh
from everhold.asking.creation import settings_from
from everhold.errors import DependenceError, HoldoutRejected, IntegrityError, Unavailable
from everhold.ledger import LedgerStore
from everhold.sealing.configuration import check_settings
from everhold.sealing.intake.request import Rows, SealRequest
from everhold.sealing.storage import StewardKey
from everhold_engines import column_copies as staging_module
from everhold_engines import tables
from everhold_engines.column_copies import TableSide
from everhold_engines.tables import TableStructure, copied_table, rows_copied

__all__ = ["tried_before"]


def flights(count, *, first=0, seed=0):
    rng = np.random.default_rng([seed, first])
    return pd.DataFrame({
        "id": np.arange(first, first + count),
        "delay": np.round(rng.normal(5.0, 30.0, count) * 2.0) / 2.0,
        "late": rng.integers(0, 2, count),
        "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(count) + first, unit="D"),
        "home": first + np.arange(count) // 3,
        "carrier": rng.choice(["AA", "UA", "Östlich"], count),
    })  # fmt: skip


SEALED, OPEN = flights(600), flights(900, first=10_000)
SERIES = eh.GaussianAR1(0.1, order_by="day", state="delay", gap=30)


@pytest.fixture
def pond(tmp_path):
    made = poured(tmp_path / "pond.db", "sealed", SEALED)
    poured(tmp_path / "pond.db", "open", OPEN)
    return made


@pytest.fixture
def few(monkeypatch):
    """About 200 rows are a sample, and as many are looked at whole."""
    monkeypatch.setattr(tables, "MOST_COPIED", 200)
    monkeypatch.setattr(staging_module, "ROWS_COMPARED", 300)


def created(folder, pond, **changed):
    settings = {"label": "late", "row_id": "id", "queries": 50, "seed": 3, "dependence": eh.Independent(), **changed}
    settings.setdefault("training", Pond(pond.file, "open"))
    return eh.Holdout.create(folder / "study.db", "flights", holdout=pond, **settings_from(settings))


def configuration(folder):
    with LedgerStore.open(f"sqlite:///{folder / 'study.db'}", create=False) as store:
        return store.record("flights").configuration


QUERIES = [
    "delay > 15", eh.mean("delay", low=-60, high=90), eh.ratio("delay > 15", "carrier = 'AA'"),
    eh.mean(lambda rows: rows["delay"] > 0, name="f"), eh.accuracy(np.ones(len(SEALED))),
    eh.histogram("delay", [-100, 0, 30, 100]),
]  # fmt: skip


def told(holdout):
    found = []
    for query in QUERIES:
        try:
            facts = holdout.ask(query).to_dict()
        except eh.QueryRejected as refusal:
            facts = {"refused": str(refusal)}
        found.append(json.dumps({name: value for name, value in facts.items() if name != "at"}, default=repr))
    return found


@pytest.mark.filterwarnings("ignore::everhold.errors.EverholdWarning")
@pytest.mark.parametrize(
    "wanted",
    [
        {"mechanism": "guess_and_check", "surprises": 5},
        {"mechanism": "privacy_budget"},
    ],
    ids=["guesses", "noise"],
)
def test_a_table_of_training_rows_answers_as_a_file_of_them(tmp_path, pond, wanted):
    answers = []
    for kind, training in (("file", OPEN), ("table", pond.beside("open"))):
        (tmp_path / kind).mkdir()
        with created(tmp_path / kind, pond, training=training, **wanted) as holdout:
            answers.append(told(holdout))
    assert answers[0] == answers[1]
    assert any('"source": "training"' in said for said in answers[0]) == ("surprises" in wanted)


def test_guesses_are_from_all_rows_and_code_meets_the_sample(tmp_path, pond, few):
    with created(tmp_path, pond, mechanism="guess_and_check") as holdout:
        assert 100 < holdout.schema.training_rows < 300
        assert len(holdout.training_rows()[1]) == holdout.schema.training_rows
        assert holdout.mechanism.training_rows == len(OPEN)
        assert holdout.ask("delay > 15").value == pytest.approx((OPEN["delay"] > 15).mean(), abs=1e-6)
        ratio = OPEN[OPEN["carrier"] == "AA"]["delay"].gt(15).mean()
        assert holdout.ask(eh.ratio("delay > 15", "carrier = 'AA'")).value == pytest.approx(ratio, abs=1e-6)
        sample = holdout._executor.training.table(["delay"])["delay"]
        by_code = eh.mean(lambda rows: rows["delay"] > 15, name="f")
        assert holdout.ask(by_code).value == pytest.approx((sample > 15).mean(), abs=1e-6)


def test_a_batch_is_one_pass_over_the_training_table(tmp_path, pond):
    with created(tmp_path, pond, mechanism="guess_and_check") as holdout:
        pond.statements.clear()
        holdout.ask_many([eh.mean("delay", low=-60, high=high) for high in range(80, 95)])
        assert sum('"open"' in statement for statement in pond.statements) == 1
        assert sum('"sealed"' in statement for statement in pond.statements) == 1


def test_what_is_recorded_and_shown(tmp_path, pond, few):
    with created(tmp_path, pond) as holdout:
        assert holdout.status()["training_table"] == {"table": "open", "snapshot": None, "rows": len(OPEN)}
        certificate = holdout.certificate()
        assert any("are some of 900" in note for note in holdout.diagnose().notes)
    document = certificate.to_dict()
    assert document["rows"]["training_table"] == {"table": "open", "rows": len(OPEN)}
    assert any("the open table 'open'" in said for said in certificate.in_words()["assumptions"]["always"])
    assert "900 in the table" in certificate.to_html()
    certificate.save(tmp_path / "c.json")
    assert eh.verify_certificate(tmp_path / "c.json").ok
    assert not eh.verify_certificate(_altered(document, tmp_path / "altered.json")).ok


def _altered(document, path):
    document["rows"]["training_table"]["rows"] = 1
    path.write_text(json.dumps(document))
    return path


@pytest.mark.usefixtures("few")
def test_where_nothing_is_declared_a_sample_cannot_tell(tmp_path, pond):
    with pytest.warns(eh.DependenceWarning, match=r"from 900\. No value of 'home' is in both sets of rows"):
        created(tmp_path, pond, dependence=None).close()


def test_whole_groups_are_copied(tmp_path, pond, few):
    wanted = {"dependence": eh.Groups("home"), "queries": 5, "surprises": 1, "allow_vacuous": True}
    with created(tmp_path, pond, **wanted) as holdout:
        homes = pd.Series(holdout._executor.training.table(["home"])["home"])
        assert 60 < len(homes) < 500
        assert set(homes.value_counts()) == {3}
        ids = holdout._executor.training.row_ids("id")
    middle = [hashlib.sha256(repr(float(home)).encode()).hexdigest()[30:38] for home in OPEN["home"]]
    assert ids == OPEN["id"][[digits < f"{int(200 / 900 * 16**8):08x}" for digits in middle]].tolist()


def test_groups_too_large_for_a_sample(tmp_path, pond, monkeypatch):
    monkeypatch.setattr(tables, "MOST_COPIED", 20)
    stirred(pond, "UPDATE open SET home = -1 - id % 2", "UPDATE sealed SET home = id % 2")
    with pytest.raises(HoldoutRejected, match=r"no 20 rows are whole groups"):
        created(tmp_path, pond, dependence=eh.Groups("home"), allow_vacuous=True)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("side", ["before", "after"])
def test_the_nearest_block_of_a_series_is_copied(pond, side):
    if side == "before":
        stirred(pond, "UPDATE open SET day = day - INTERVAL 20000 DAY")
    table = pond.beside("open")
    which = rows_copied(TableSide(table, table.columns(), len(OPEN), "training"), pond, SERIES, row_id=None)
    ids = sorted(row_id for (row_id,) in table.rows(f"SELECT id FROM {table.source} AS t{which}"))
    assert ids == (OPEN["id"].tolist()[-200:] if side == "before" else OPEN["id"].tolist()[:200])


def test_rows_of_a_series_that_were_not_copied_count_for_the_gap(tmp_path, pond, few):
    stirred(pond, "UPDATE open SET day = TIMESTAMP '2020-02-01 12:00:00' WHERE id = 10890")
    with pytest.raises(DependenceError, match=r"Training rows lie among "):
        created(tmp_path, pond, dependence=SERIES, allow_vacuous=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("UPDATE open SET late = NULL WHERE id = 10003", "missing values in the training rows"),
        ("UPDATE open SET late = 7 WHERE id = 10003", "only 0 and 1 in one of the two tables"),
        ("UPDATE open SET id = 10004 WHERE id = 10003", "899 different values in 900 training rows"),
        ("UPDATE open SET id = 5 WHERE id = 10003", "1 row ids of column 'id' are in both the holdout rows and"),
        ("DELETE FROM open", "The training table is empty"),
        ("ALTER TABLE open RENAME COLUMN home TO house", "training lacks 'home' and holdout lacks 'house'"),
        ("DROP TABLE open", "There is no table 'open'"),
    ],
)
@pytest.mark.usefixtures("few")
def test_what_is_refused_of_any_row(tmp_path, pond, change, message):
    stirred(pond, change)
    with pytest.raises(HoldoutRejected, match=message):
        created(tmp_path, pond)
    assert not (tmp_path / "study.rows").exists()


@pytest.mark.usefixtures("few")
def test_a_group_on_both_sides(tmp_path, pond):
    stirred(pond, "UPDATE open SET home = 7 WHERE id = 10003")
    with pytest.raises(DependenceError, match="1 group"):
        created(tmp_path, pond, dependence=eh.Groups("home"), allow_vacuous=True)


@pytest.mark.usefixtures("few")
def test_copies_among_many_rows(tmp_path):
    rng = np.random.default_rng(1)
    sealed, more = (flights(count)[["late", "carrier"]].assign(x=rng.random(count)) for count in (6_000, 9_000))
    pond = poured(tmp_path / "pond.db", "sealed", sealed)
    poured(tmp_path / "pond.db", "open", pd.concat([more, sealed[::5]]))  # of rows at random hardly two would be one
    with pytest.raises(HoldoutRejected, match="equal a training row"):
        created(tmp_path, pond, row_id=None)
    assert any("sha256" in statement and "x" in statement for statement in pond.statements)
    poured(tmp_path / "pond.db", "open", more)
    created(tmp_path, pond, row_id=None).close()


@pytest.mark.usefixtures("few")
def test_a_value_that_most_rows_have_brings_no_more_of_them(tmp_path, pond):
    for table, frame in (("few values", SEALED), ("as few", OPEN)):
        poured(pond.file, table, frame[["late", "carrier"]])
    created(tmp_path, pond.beside("few values"), training=pond.beside("as few"), row_id=None).close()
    assert sum("random() <" in statement for statement in pond.statements) >= 3  # to copy, and to look at both


@pytest.mark.usefixtures("few")
def test_a_column_that_is_apart_is_found_in_all_rows(tmp_path, pond):
    def apart():
        rows = Rows(row_id="id", most_rows=9, equal_rows=True)
        request = SealRequest(holdout=pond, training=pond.beside("open"), rows=rows)
        key = StewardKey.create(tmp_path / f"{len(list(tmp_path.iterdir()))}.key")
        with copied_table(tmp_path, pond, request, key=key) as (sealed, staging):
            found = TableStructure(staging, sealed)
            assert (found.training_rows, found.shared_groups("carrier")) == (len(OPEN), 3)
            told = found.apart()
        (tmp_path / "training.parquet").unlink()
        return told

    assert apart() == {"home"}
    stirred(pond, "UPDATE open SET home = 7 WHERE id = 10003")
    assert apart() == set()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("DELETE FROM open WHERE id = 10003", "it has 899 rows"),
        ("ALTER TABLE open ADD COLUMN more INT", "its columns differ"),
        ("DROP TABLE open", "it cannot be read"),
    ],
)
def test_a_training_table_that_was_changed(tmp_path, pond, change, message):
    created(tmp_path, pond).close()
    stirred(pond, change)
    with pytest.raises(IntegrityError, match=message) as refused:
        eh.Holdout.open(tmp_path / "study.db", "flights", engine=pond)
    assert "'open'" in str(refused.value)


@pytest.mark.parametrize("facts", ["open", {"table": "open"}, {"table": 5, "rows": 900}])
def test_recorded_facts_in_another_form(tmp_path, pond, facts):
    created(tmp_path, pond).close()
    recorded = configuration(tmp_path)
    check_settings(recorded)
    with pytest.raises(IntegrityError, match="was altered or is damaged"):
        check_settings({**recorded, "training_table": facts})


def test_an_engine_that_fails_at_a_guess_charges_nothing(tmp_path, pond, monkeypatch):
    with created(tmp_path, pond, mechanism="guess_and_check") as holdout:
        asked = Pond.arrays

        def lost(self, statement):
            if '"open"' in statement:
                raise Unavailable("the pond cannot be reached; nothing was charged")
            return asked(self, statement)

        with monkeypatch.context() as patched:
            patched.setattr(Pond, "arrays", lost)
            patched.setattr(Pond, "rows", lost)
            with pytest.raises(Unavailable):
                holdout.ask(eh.mean("delay", low=-60, high=90))
        assert holdout.status()["queries_asked"] == 0
        assert holdout.ask(eh.mean("delay", low=-60, high=90)).source == "training"


def test_training_rows_in_another_engine(tmp_path, pond):
    other = poured(tmp_path / "other.db", "open", OPEN)
    with pytest.raises(HoldoutRejected, match=r"another engine"):
        created(tmp_path, pond, training=other)
    with pytest.raises(HoldoutRejected, match="Put both in one engine"):
        eh.Holdout.create(tmp_path / "study.db", "flights", holdout=SEALED, training=other)
    assert not (tmp_path / "study.rows").exists()


def test_a_view_is_no_table_of_training_rows(tmp_path, pond, monkeypatch):
    def refused(_self, _table):
        raise eh.QueryRejected("The table 'open' is a view. Write the rows to a plain table.")

    training = pond.beside("open")
    monkeypatch.setattr(Pond, "beside", refused)
    with pytest.raises(HoldoutRejected, match=r"'open' is a view\. Write the rows to a plain table") as found:
        created(tmp_path, pond, training=training)
    assert found.value.told.endswith("Nothing was created.")


def test_what_all_rows_buy_beside_a_sample_of_them(tmp_path, pond):
    """Guesses from 200 rows make intervals of that many rows, or surprises where they are taken for better ones."""
    rng = np.random.default_rng(7)
    rows = [pd.DataFrame({"x": rng.random(40_000)}) for _ in range(2)]
    for table, frame in zip(("many sealed", "many open"), rows, strict=True):
        poured(pond.file, table, frame)
    queries, widths = [f"x > {cut / 20}" for cut in range(1, 20)], []
    wanted = {"label": None, "row_id": None, "mechanism": "guess_and_check", "surprises": 19, "equal_rows": True}
    for kind, training in (("sample", rows[1].head(200)), ("table", pond.beside("many open"))):
        (tmp_path / kind).mkdir()
        with created(tmp_path / kind, pond.beside("many sealed"), training=training, **wanted) as holdout:
            answers = holdout.ask_many(queries)
            widths.append(np.mean([answer.high - answer.low for answer in answers]))
            assert {answer.source for answer in answers} == {"training"}
            if kind == "table":
                guesses = [float((rows[1]["x"].head(200) > cut / 20 + 0.01).mean()) for cut in range(1, 20)]
                again = holdout.ask_many([f"x > {cut / 20 + 0.01}" for cut in range(1, 20)], guesses=guesses)
                assert sum(answer.source == "holdout" for answer in again) >= 5
    assert widths[1] < widths[0] / 5
