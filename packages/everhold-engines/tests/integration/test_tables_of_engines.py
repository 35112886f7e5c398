"""Sealing a table that stays in an engine: what is found out of it is what is found out of the same rows in a file."""

import numpy as np
import pandas as pd
import pytest
from pond_samples import poured, stirred, tried_before

import everhold as eh
from everhold.asking.creation import settings_from
from everhold.errors import DependenceError, HoldoutRejected, Unavailable
from everhold.ledger import LedgerStore
from everhold.sealing.intake.files import seal_rows
from everhold.sealing.intake.request import Rows, SealRequest
from everhold.sealing.intake.structure import FileStructure
from everhold.sealing.storage import StewardKey
from everhold_engines import column_copies as staging_module
from everhold_engines import conformance as conformance_module
from everhold_engines import tables
from everhold_engines.conformance import conformance
from everhold_engines.tables import TableStructure, copied_table

__all__ = ["tried_before"]


def flights(count, *, first=0, seed=0):
    rng = np.random.default_rng([seed, first])
    return pd.DataFrame({
        "id": np.arange(first, first + count),
        "delay": np.round(rng.normal(5.0, 30.0, count) * 2.0) / 2.0,  # sums of these are exact, in any order
        "late": rng.integers(0, 2, count),
        "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(count) + first, unit="D"),
        "home": first + np.arange(count) // 3,
        "carrier": rng.choice(["AA", "UA", "Östlich"], count),
    })  # fmt: skip


@pytest.fixture
def pond(tmp_path):
    return poured(tmp_path / "pond.db", "sealed", flights(600))


def created(folder, pond, **changed):
    settings = {"training": flights(600, first=10_000), "label": "late", "row_id": "id", "queries": 50, **changed}
    return eh.Holdout.create(folder / "study.db", "flights", holdout=pond, **settings_from(settings))


def configuration(folder, name="flights"):
    with LedgerStore.open(f"sqlite:///{folder / 'study.db'}", create=False) as store:
        return store.record(name).configuration


def test_no_sealed_row_is_left_beside_the_storage(tmp_path, pond):
    with created(tmp_path, pond) as holdout:
        assert holdout.schema.rows == 600
    (folder,) = (tmp_path / "study.rows").iterdir()
    assert sorted(file.name for file in folder.iterdir()) == [
        "content.json", "ledger.head", "opened.json", "steward.key", "training.parquet",
    ]  # fmt: skip


def test_what_is_recorded_is_what_is_recorded_of_the_same_rows_in_a_file(tmp_path, pond):
    (tmp_path / "file").mkdir()
    created(tmp_path, pond).close()
    created(tmp_path / "file", flights(600)).close()
    stays, lies = configuration(tmp_path), configuration(tmp_path / "file")
    own = {"folder", "fingerprint", "training_fingerprint", "public_key", "engine"}
    assert {name: stays[name] for name in stays.keys() - own} == {name: lies[name] for name in lies.keys() - own}
    assert "engine" not in lies
    assert stays["engine"] == {"kind": "pond", "table": "sealed", "place": f"pond://{pond.file}", "snapshot": None}


@pytest.mark.filterwarnings("ignore::everhold.errors.NonAdaptiveWarning")
def test_answers_are_those_of_the_same_rows_in_a_file(tmp_path, pond):
    (tmp_path / "file").mkdir()
    queries = ["delay > 15", "late = 1 and carrier = 'Östlich'", "case when delay > 0 then 1 else 0 end"]
    told = []
    for folder, rows in ((tmp_path, pond), (tmp_path / "file", flights(600))):
        with created(folder, rows, mechanism="empirical") as holdout:
            told.append([holdout.ask(query).value for query in queries])
    assert told[0] == told[1]


def arranged(folder, holdout, training, kind):
    """The structure of rows in a file or in an engine."""
    folder.mkdir()
    request = SealRequest(holdout=holdout, training=training, rows=Rows(most_rows=10_000, equal_rows=True))
    if kind == "file":
        with FileStructure(folder, seal_rows(folder, request)) as structure:
            return reader(structure)
    table, key = poured(folder / "pond.db", "sealed", holdout), StewardKey.create(folder / "steward.key")
    with copied_table(folder, table, request, key=key) as (sealed, staging):
        return reader(TableStructure(staging, sealed))


def reader(structure):
    return {
        "sizes": structure.group_sizes("home"),
        "shared": [structure.shared_groups(name) for name in ("home", "carrier")],
        "series": [structure.series("day", within=None), structure.series("delay", within="home")],
        "apart": structure.apart(),
        "unknown": structure.unknown_values("carrier", frozenset({"AA"}), side="sealed"),
        "number": structure.is_number("delay"),
        "rows": (structure.rows, structure.training_rows),
    }


@pytest.mark.parametrize("most", [2**18, 100])
def test_the_structure_of_a_table_is_that_of_a_file(tmp_path, monkeypatch, most):
    monkeypatch.setattr(staging_module, "ROWS_COMPARED", most)
    sides = flights(600), flights(300, first=599)  # a home and a day are on both sides
    found = [arranged(tmp_path / kind, *sides, kind) for kind in ("file", "table")]
    if most == 100:  # of a long table only what could group training rows is looked at whole
        apart = [each.pop("apart") for each in found]
        assert apart[1] <= apart[0]
    assert found[0] == found[1]


def test_no_file_with_rows_of_the_table_is_left(tmp_path, pond):
    key = StewardKey.create(tmp_path / "steward.key")
    rows = Rows(row_id="id", most_rows=99)
    request = SealRequest(holdout=pond, training=flights(60, first=10_000), rows=rows)
    with copied_table(tmp_path, pond, request, key=key):
        assert list(tmp_path.glob("staged*"))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["pond.db", "steward.key", "training.parquet"]


def test_a_column_of_the_dependence_that_does_not_exist(tmp_path, pond):
    with pytest.raises(DependenceError, match="does not exist"):
        created(tmp_path, pond, dependence=eh.Groups("household"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("UPDATE sealed SET late = NULL WHERE id = 3", "missing values in the holdout rows"),
        ("UPDATE sealed SET late = 7 WHERE id = 3", "only 0 and 1 in one of the two tables"),
        ("UPDATE sealed SET id = 4 WHERE id = 3", "599 different values in 600 holdout rows"),
        ("UPDATE sealed SET id = NULL WHERE id = 3", "599 different values in 600 holdout rows"),
        ("UPDATE sealed SET id = 10005 WHERE id = 3", "1 row ids of column 'id' are in both the holdout rows and"),
        ("DELETE FROM sealed", "The holdout table is empty"),
        ("ALTER TABLE sealed RENAME COLUMN home TO house", "training lacks 'house' and holdout lacks 'home'"),
        ("ALTER TABLE sealed ADD COLUMN file_row_number INT", "which is reserved"),
        ("DROP TABLE sealed", "There is no table 'sealed'"),
    ],
)
def test_what_is_refused(tmp_path, pond, change, message):
    stirred(pond, change)
    with pytest.raises(HoldoutRejected, match=message):
        created(tmp_path, pond)
    assert not (tmp_path / "study.rows").exists()
    assert not (tmp_path / "study.db").exists()


@pytest.mark.parametrize("most", [2**18, 200])
def test_training_rows_that_were_copied_from_the_table(tmp_path, pond, monkeypatch, most):
    monkeypatch.setattr(staging_module, "ROWS_COMPARED", most)
    copied = pd.concat([flights(600).head(200), flights(200, first=10_000)]).assign(id=np.arange(20_000, 20_400))
    with pytest.raises(HoldoutRejected, match="equal a training row"):
        created(tmp_path, pond, training=copied)
    created(tmp_path, pond, training=copied, equal_rows=True, dependence=eh.Independent()).close()


def test_a_long_table_is_not_refused_by_mistake(tmp_path, monkeypatch):
    monkeypatch.setattr(staging_module, "ROWS_COMPARED", 300)
    few = ["carrier", "late"]
    pond = poured(tmp_path / "few.db", "sealed", flights(3_000)[few])
    training = flights(3_000, first=10_000)[few]
    with created(tmp_path, pond, training=training, row_id=None) as holdout:
        assert holdout.schema.rows == 3_000


@pytest.mark.slow
def test_an_engine_is_tried_on_made_up_rows_first(tmp_path, pond, monkeypatch):
    monkeypatch.setattr(tables, "conformance", conformance)
    created(tmp_path, pond).close()
    monkeypatch.setattr(conformance_module, "grid_integer", lambda *_, **__: 7)  # as if it counted otherwise
    (tmp_path / "other").mkdir()
    with pytest.raises(HoldoutRejected, match="computes other sums than everhold expects"):
        created(tmp_path / "other", pond)
    assert not list((tmp_path / "other").iterdir())


def test_a_missing_table_is_named_before_the_engine_is_tried(tmp_path, pond, monkeypatch):
    monkeypatch.setattr(tables, "conformance", lambda _: pytest.fail("it takes a minute"))
    with pytest.raises(HoldoutRejected, match="There is no table 'nowhere'"):
        created(tmp_path, pond.beside("nowhere"))


def test_an_engine_that_is_lost_while_it_is_tried_does_not_count_wrongly(tmp_path, pond, monkeypatch):
    def lost(_statement):
        raise Unavailable("the pond cannot be reached; try again; nothing was charged")

    monkeypatch.setattr(tables, "conformance", conformance)
    monkeypatch.setattr(pond, "rows", lost)
    with pytest.raises(Unavailable, match="the pond cannot be reached"):
        created(tmp_path, pond)


def test_most_rows_is_about_what_is_copied(tmp_path, pond):
    created(tmp_path, pond, training=flights(50, first=10_000), most_rows=50).close()
    with pytest.raises(HoldoutRejected, match="The training table has 51 rows or more, above the limit of 50"):
        eh.Holdout.create(
            tmp_path / "s.db", "s", holdout=pond, training=flights(51, first=10_000), rows=eh.Rows(most_rows=50)
        )


def test_a_table_that_is_written_to_while_it_is_sealed(tmp_path, pond):
    ask, written = pond.rows, []

    def rows(statement):
        if "count(*)" in statement and not written:
            written.append(True)
        elif written == [True]:
            written.append(True)
            stirred(pond, "UPDATE sealed SET delay = 0 WHERE id = 3")
        return ask(statement)

    pond.rows = rows
    with pytest.raises(HoldoutRejected, match="was changed while it was being sealed"):
        created(tmp_path, pond)
    assert not (tmp_path / "study.rows").exists()


class TestTheSameRowsTwice:
    def again(self, folder, rows, **changed):
        settings = {"training": flights(600, first=30_000), "label": "late", "row_id": "id", "queries": 50, **changed}
        return eh.Holdout.create(folder / "study.db", "again", holdout=rows, **settings_from(settings))

    @pytest.fixture(params=[2**18, 100])
    def most(self, request, monkeypatch):
        monkeypatch.setattr(staging_module, "ROWS_COMPARED", request.param)
        return request.param

    def test_the_same_table(self, tmp_path, pond, most):
        created(tmp_path, pond).close()
        with pytest.raises(HoldoutRejected, match="already sealed in this storage, as 'flights'"):
            self.again(tmp_path, pond)
        self.again(tmp_path, pond, allow_resealing=True).close()
        assert configuration(tmp_path, "again")["sealed_before"] == ["flights"]

    def test_a_copy_of_the_table_in_another_order(self, tmp_path, pond, most):
        created(tmp_path, pond).close()
        stirred(pond, "CREATE TABLE copy AS SELECT * FROM sealed ORDER BY delay")
        with pytest.raises(HoldoutRejected, match="already sealed in this storage, as 'flights'"):
            self.again(tmp_path, poured(tmp_path / "other.db", "copy", flights(600).sample(frac=1.0, random_state=1)))

    def test_other_rows_of_the_same_population(self, tmp_path, pond, most):
        created(tmp_path, pond).close()
        self.again(tmp_path, poured(tmp_path / "other.db", "sealed", flights(600, first=60_000))).close()

    def test_the_same_rows_as_a_file_where_the_table_is_short(self, tmp_path, pond):
        created(tmp_path, pond).close()
        with pytest.raises(HoldoutRejected, match="already sealed in this storage, as 'flights'"):
            self.again(tmp_path, flights(600))

    def test_a_table_of_rows_that_are_sealed_as_a_file(self, tmp_path, pond):
        created(tmp_path, flights(600)).close()
        with pytest.raises(HoldoutRejected, match="already sealed in this storage, as 'flights'"):
            self.again(tmp_path, pond)


def test_groups_are_found_in_the_table(tmp_path):
    pond, training = poured(tmp_path / "pond.db", "sealed", flights(6_000)), flights(600, first=60_000)
    wanted = {"dependence": eh.Groups("home"), "queries": 5, "surprises": 1}
    with created(tmp_path, pond, training=training, **wanted) as holdout:
        assert holdout.mechanism.dependence.to_dict()["column"] == "home"
    (tmp_path / "shared").mkdir()
    with pytest.raises(DependenceError, match="600 groups"):
        created(tmp_path / "shared", pond, training=training.assign(home=np.arange(600)), **wanted)


@pytest.mark.filterwarnings("ignore::everhold.errors.DependenceWarning")
def test_what_counts_for_missing_values_is_what_counts_for_the_same_rows_in_a_file(tmp_path):
    def lacking(first):
        rows = flights(600, first=first)
        rows.loc[::4, "delay"] = np.nan
        rows["carrier"] = rows["carrier"].where(rows.index % 7 > 0, None)
        return rows

    delay = eh.mean("delay", low=-60, high=60)
    queries = [delay, "delay > 5 and late = 1", eh.mean(delay.text, low=-60, high=60, given="carrier = 'AA'")]
    rules = [{"delay": "drop", "carrier": "AA"}, {"delay": 5, "carrier": "UA"}, "drop", 0]
    for number, missing in enumerate(rules):
        told = []
        for kind, rows in (("pond", poured(tmp_path / f"{number}.db", "sealed", lacking(0))), ("file", lacking(0))):
            folder = tmp_path / f"{kind}{number}"
            folder.mkdir()
            with created(folder, rows, training=lacking(10_000), missing=missing) as holdout:
                answers = [holdout.ask(query) for query in queries]
                told.append([(each.query, each.value, each.low, each.high, each.clipped) for each in answers])
                assert all("delay" in each.clipped for each in answers)
        assert told[0] == told[1]
