"""Whatever runs the statements: exact answers, digests that change with any value, and no word of its own."""

import logging
import math
import pickle
import sys

import numpy as np
import pytest

import everhold as eh
from everhold.cli.failures import EXTRAS
from everhold.errors import EverholdError, HoldoutRejected, IntegrityError, QueryRejected, Unavailable
from everhold.values.expressions import ColumnKind, RowValue, parse
from everhold_engines import engine_at
from everhold_engines.clickhouse import ClickHouse
from everhold_engines.database import Database
from everhold_engines.remote import name_parts
from everhold_engines.spark import Spark
from everhold_engines.sql.compiler import totals_sql

SECRET = "canary-4711"
BASE = {
    "a": ["1", "12", "NULL", "", None, SECRET],
    "b": ["23", "3", "x", "y", "", None],
    "x": [0.1, math.nan, None, -0.0, 5e-324, math.inf],
    "i": [2**63 - 1, 2**63 - 2, 2**53 + 1, 0, -1, -(2**63)],
}
SHIFTED = {name: [column[1], column[0], *column[:1:-1]] for name, column in BASE.items()}


def changed(name, place, value):
    """The rows with one value changed."""
    column = list(BASE[name])
    column[place] = value
    return {**BASE, name: column}


def test_what_it_says_is_exact(poured):
    engine = poured(BASE)
    assert engine.columns() == {
        "a": ColumnKind.STRING, "b": ColumnKind.STRING, "x": ColumnKind.NUMBER, "i": ColumnKind.NUMBER,
    }  # fmt: skip
    total = f"SELECT sum(CAST(i AS DECIMAL(38, 0))) * 4 AS s, count(*) AS n FROM {engine.source} AS t WHERE i > 0"
    assert engine.rows(total) == [(4 * (2**64 - 3 + 2**53 + 1), 3)]
    ((whole, number),) = engine.rows(total)
    assert (type(whole), type(number)) == (int, int)
    assert engine.arrays(total)["s"].tolist() == [whole]
    found = engine.arrays(f"SELECT * FROM {engine.source} AS t ORDER BY i")
    assert [found[name].dtype for name in "axi"] == [object, np.float64, np.int64]
    assert found["i"].tolist() == sorted(BASE["i"])
    by_i = {i: (a, x) for a, x, i in zip(BASE["a"], BASE["x"], BASE["i"], strict=True)}
    assert found["a"].tolist() == [by_i[i][0] for i in sorted(by_i)]
    assert [repr(x) for x in found["x"].tolist()] == [repr(by_i[i][1]) for i in sorted(by_i)]
    none = engine.arrays(f"SELECT * FROM {engine.source} AS t WHERE i = 17")
    assert [none[name].shape for name in BASE] == [(0,)] * 4


def test_a_digest_changes_with_any_value_and_not_with_the_order_of_rows(poured):
    digest = poured(BASE).contents("key")
    assert poured(SHIFTED).contents("key") == digest
    others = [
        changed("a", 2, None),  # NULL, and the word
        changed("a", 3, None),  # the empty text
        changed("x", 1, None),  # nan
        changed("x", 0, math.nextafter(0.1, 1)),
        changed("i", 0, 2**63 - 3),  # as doubles they are equal
        {**BASE, "a": ["12", "1", *BASE["a"][2:]], "b": ["3", "23", *BASE["b"][2:]]},  # the same rows, others
        {**BASE, "a": ["12", "12", *BASE["a"][2:]], "b": ["3", "3", *BASE["b"][2:]]},  # 1|23 became 12|3
        {name: column[:5] for name, column in BASE.items()},
        {name: [*column, column[0]] for name, column in BASE.items()},
        {"A": BASE["a"], **{name: column for name, column in BASE.items() if name != "a"}},
    ]  # fmt: skip
    found = [poured(rows).contents("key") for rows in others]
    assert len({digest, *found}) == len(found) + 1


def test_a_digest_depends_on_its_key_and_on_types(poured):
    engine = poured(BASE)
    assert engine.contents("key") != engine.contents() == engine.contents("")
    texts = {**BASE, "i": list(map(str, BASE["i"]))}
    assert poured(texts).contents("key") != engine.contents("key")


def test_nothing_of_the_engines_words_is_left(poured, caplog, capfd):
    engine = poured(BASE)
    caplog.set_level(logging.WARNING)
    for statement in (
        f"SELECT nonsense FROM {engine.source} AS t",
        "DELETE FROM study_0",
        "DROP TABLE study_0",
    ):
        with pytest.raises(EverholdError, match="could not evaluate") as caught:
            engine.rows(statement)
        assert caught.value.__context__ is None
        assert caught.value.told.endswith("Nothing was charged.")
    assert "nonsense" not in caplog.text + "".join(capfd.readouterr())
    assert engine.rows(f"SELECT count(*) FROM {engine.source} AS t") == [(6,)]


def test_a_value_that_the_engine_complains_of_is_kept_from_logs(poured, caplog, capfd):
    engine = poured(BASE)
    complaint = {
        "spark": f"SELECT raise_error(a) FROM {engine.source} AS t WHERE a LIKE 'canary%'",
        "clickhouse": f"SELECT sum(toInt64(assumeNotNull(a))) FROM {engine.source} AS t",
        "postgresql": f"SELECT sum(a::bigint) FROM {engine.source} AS t",
    }[engine.kind]
    with pytest.raises(EverholdError, match="could not evaluate"):
        engine.rows(complaint)
    assert "canary" not in caplog.text
    if engine.kind != "spark":  # its executors write to the screen; see the guide
        assert "canary" not in "".join(capfd.readouterr())


def test_a_table_that_is_not_there_is_refused(poured):
    engine = poured(BASE)
    engine.stored.name = "nowhere"
    with pytest.raises(HoldoutRejected, match=r"no table 'nowhere'"):
        engine.columns()


def test_a_worker_process_gets_what_it_takes_to_come_in_and_nothing_of_this_process(poured):
    engine = poured(BASE)
    digest = engine.contents("key")
    other = pickle.loads(pickle.dumps(engine))
    assert (repr(other), other.to_dict()) == (repr(engine), engine.to_dict())
    if engine.kind == "spark":
        other.stored.connection.address = "spark"  # the session of this process
    assert other.contents("key") == digest
    other.close()


def test_it_opens_again_after_it_was_closed(poured):
    engine = poured(BASE)
    for _ in range(2):
        assert engine.rows(f"SELECT count(*) FROM {engine.source} AS t") == [(6,)]
        engine.close()


def test_a_name_is_a_name_whatever_is_in_it():
    hostile = 'x"; DROP TABLE y; --`'
    spelled = '"' + hostile.replace('"', '""') + '"'
    assert name_parts(f"study.{spelled}") == ["study", hostile]
    assert Database("postgresql://db/study", spelled).source == spelled
    assert ClickHouse("clickhouse://db", spelled).source == '`x"; DROP TABLE y; --```'
    assert ClickHouse("clickhouse://db", '"a\\"').source == r"`a\\`"
    assert Spark(None, spelled).stored.plain_sql == '`x"; DROP TABLE y; --```'
    for nothing in ("", "a..b", 'a"b', "a.", "a\0b"):
        with pytest.raises(ValueError, match="is not the name of a table"):
            name_parts(nothing)


@pytest.mark.parametrize("path", ["data/rows", "/data/rows*", "/data/{a,b}"])
def test_a_path_of_spark_is_one_whole_folder(path):
    with pytest.raises(ValueError, match="is not the full path of one folder"):
        Spark(None, path)


def test_classes_are_public_names():
    assert (eh.engines.Spark, eh.engines.ClickHouse, eh.engines.Database) == (
        Spark, ClickHouse, Database,
    )  # fmt: skip


def test_a_change_since_the_digest_is_noticed_where_rows_are_read(poured, monkeypatch):
    engine = poured(BASE)
    with engine.reading():  # nobody has looked at it yet
        pass
    engine.contents("key")
    state = engine.stored.state()
    assert state is not None
    monkeypatch.setattr(engine.stored, "state", lambda: "touched")  # a backup, a merge, a vacuum
    with engine.reading():
        pass
    monkeypatch.setattr(engine.stored, "digest", lambda *_: [0])
    states = iter(["touched", "written"])
    monkeypatch.setattr(engine.stored, "state", lambda: next(states, "written"))
    with pytest.raises(IntegrityError, match=r"while they were read"), engine.reading():
        pass
    with pytest.raises(IntegrityError, match=r"after sealing"), engine.reading():
        pass


def said(engine, *expressions):
    """How many rows meet each condition."""
    columns = engine.columns()
    values = [RowValue(parse(text, columns)) for text in expressions]
    return list(engine.rows(totals_sql(values, engine.source, unit=1, dialect=engine.dialect))[0])


def test_no_decimal_is_an_error_however_large_or_small(postgres_database):
    import psycopg

    largest, rounded_to_it = "179769313486231570814527423731704356798070e267", f"{2**1024 - 2**970 - 1}"
    values = ["1e400", "-1e400", "1e-400", "-1e-400", "NaN", "Infinity", "-Infinity", largest, rounded_to_it, "2e-324",
              "3e-324", "7", None]  # fmt: skip
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        connection.execute(
            'CREATE TABLE "deci""mals" (x numeric, y numeric(500, 2), z numeric(900, 400), n numeric(9, 2))'
        )
        with connection.cursor() as cursor:
            cursor.executemany('INSERT INTO "deci""mals" (x, n) VALUES (%s, 1)', [(value,) for value in values])
            cursor.execute('INSERT INTO "deci""mals" VALUES (8, 1e450, 1e-390, 1)')
    engine = Database(postgres_database, '"deci""mals"')
    tests = "x > 1e308", "x < -1e308", "x = 0", "x > 0 and x < 1", "x is null", "y > 1", "z = 0", "n / 2 < 1"
    assert said(engine, *tests) == [4, 2, 3, 1, 2, 1, 1, 14]
    found = engine.arrays(f"SELECT x FROM {engine.source} AS t")["x"]
    assert np.ma.count_masked(found) == 1
    assert np.isinf(found.compressed().astype(float)).sum() == 4
    stored = engine.contents("key")
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        connection.execute('UPDATE "deci""mals" SET x = 1e401 WHERE x = 1e400')
    assert engine.contents("key") != stored
    engine.close()


def test_no_time_is_an_error_however_far(clickhouse):
    ticks = [2**63 - 1, -(2**63), 10**13, -(10**13), 1_600_000_000, 0]
    for scale in (0, 3, 6, 9):
        clickhouse.command(f"CREATE TABLE times_{scale} (i Int8, x Nullable(DateTime64({scale}))) ENGINE = Memory")
        for tick in ticks:
            of = f"reinterpret(toInt64({tick}), 'DateTime64({scale})')"
            clickhouse.command(f"INSERT INTO times_{scale} SELECT 1, {of}")
        clickhouse.command(f"INSERT INTO times_{scale} VALUES (1, NULL)")
        engine = ClickHouse(clickhouse.path, f"times_{scale}")
        out_of_years = {0: 4, 3: 2, 6: 2, 9: 0}[scale]
        assert said(engine, "x is null", "x is null or x > timestamp '0001-01-01'") == [1 + out_of_years, 7]
        batch = engine.arrays(f"SELECT x FROM {engine.source} AS t")["x"]
        assert np.ma.count_masked(batch) == 1 + out_of_years


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("DateTime('Europe/Berlin')", ["toDateTime(1603585800)", "toDateTime(1603589400)"]),  # an hour that is twice
        ("DateTime64(3, 'Europe/Berlin')", ["toDateTime64(1603585800, 3)", "toDateTime64(1603589400, 3)"]),
        ("DateTime64(0)", ["reinterpret(toInt64(10000000000000), 'DateTime64(0)')",
                           "reinterpret(toInt64(10000000000001), 'DateTime64(0)')"]),
        ("Array(DateTime('Europe/Berlin'))", ["[toDateTime(1603585800)]", "[toDateTime(1603589400)]"]),
        ("Tuple(Float64, String)", ["(0.1, 'a')", "(0.1, 'b')", "(0.10000000000000002, 'a')"]),
        ("Array(Nullable(String))", ["['NULL']", "[NULL]", "['']", "[]"]),
        ("Map(String, Float64)", ["map('a', 0.0)", "map('a', -0.0)"]),
        ("LowCardinality(Nullable(String))", ["NULL", "''", "'-'", "'NULL'", "unhex('00')", "unhex('ff')"]),
    ],
)  # fmt: skip
def test_no_two_values_have_one_digest(clickhouse, kind, values):
    found = []
    for place, value in enumerate(values):
        clickhouse.command(f"CREATE TABLE one_{place} (x {kind}) ENGINE = Memory")
        clickhouse.command(f"INSERT INTO one_{place} SELECT {value}")
        found.append(ClickHouse(clickhouse.path, f"one_{place}").contents("key"))
    assert len(set(found)) == len(values)


def refused_beside(engine, *tables):
    for table in tables:
        with pytest.raises(QueryRejected, match=r"(is a view or has rows|the rows that are sealed)"):
            engine.beside(table)


def test_nothing_that_looks_at_sealed_rows_is_read_beside_them(poured, request):
    engine, other = poured(BASE), poured(SHIFTED)
    assert engine.columns() == engine.beside(other.table).columns() == other.columns()
    if isinstance(engine, Spark):
        session = request.getfixturevalue("spark")
        session.sql(f"CREATE OR REPLACE TEMP VIEW seen AS SELECT * FROM parquet.`{engine.table}`")
        folder = engine.table.rsplit("/", 1)
        refused_beside(
            Spark(session, engine.table), engine.table, f"{engine.table}/", f"file:{engine.table}",
            f"{folder[0]}/./{folder[1]}", f"{engine.table}/rows.parquet", "seen",
        )  # fmt: skip
    elif isinstance(engine, ClickHouse):
        client = request.getfixturevalue("clickhouse")
        client.command("CREATE VIEW seen AS SELECT * FROM study_0")
        client.command("CREATE TABLE merged ENGINE = Merge(currentDatabase(), '^study_0$')")
        refused_beside(engine, "study_0", "default.study_0", '"default"."study_0"', "`study_0`", "seen", "merged")
    else:
        import psycopg

        with psycopg.connect(request.getfixturevalue("postgres_database"), autocommit=True) as connection:
            connection.execute("CREATE VIEW seen WITH (security_invoker = true) AS SELECT * FROM study_0")
            connection.execute("CREATE TABLE over_all (LIKE study_0); ALTER TABLE study_0 INHERIT over_all")
        refused_beside(engine, "study_0", "public.study_0", '"study_0"', 'public."study_0"', "seen", "over_all")
    with pytest.raises(HoldoutRejected, match="There is no table"):
        engine.beside("nowhere")


def test_far_dates_and_any_bytes_are_read(spark, tmp_path):
    made = "SELECT date_from_unix_date(2147483647) AS d, CAST(X'ff00' AS STRING) AS s UNION ALL SELECT NULL, 'a'"
    spark.sql(made).coalesce(1).write.parquet(str(tmp_path / "far"))
    engine = Spark(spark, str(tmp_path / "far"))
    assert said(engine, "d is null", "d > date '9999-12-31'", "s like '__'") == [1, 1, 1]
    found = engine.arrays(f"SELECT d, s FROM {engine.source} AS t")
    assert np.ma.count_masked(found["d"]) == 2
    assert sorted(found["s"].tolist()) == ["a", "\ufffd\0"]
    engine.close()


def test_a_digest_of_spark_changes_with_a_microsecond_in_a_list(spark, tmp_path):
    digests = set()
    for name in ("TIMESTAMP", "TIMESTAMP_NTZ"):
        for place in (1, 2):
            folder = str(tmp_path / f"{name}{place}")
            spark.sql(f"SELECT array({name} '2020-01-01 00:00:00.00000{place}') AS x").write.parquet(folder)
            digests.add(Spark(spark, folder).contents("key"))
    assert len(digests) == 4


@pytest.mark.parametrize(
    ("address", "package", "extra"),
    [
        ("postgresql://reader@127.0.0.1:1/study", "psycopg", "postgres"),
        ("clickhouse://reader@127.0.0.1:1/study", "clickhouse_connect", "clickhouse"),
        ("local[1]", "pyspark", "spark"),
    ],
)
def test_a_missing_package_is_named_with_an_extra_that_there_is(monkeypatch, address, package, extra):
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        EverholdError, match=rf"{package}[a-z.]*, which is not installed. Install it: pip install 'everhold\[{extra}\]'"
    ):
        engine_at(address, "flights").columns()
    assert EXTRAS[package] == extra


def test_a_lost_connection_is_not_called_a_wrong_password():
    with pytest.raises(Unavailable, match="Check the address and that the engine runs") as lost:
        Database("postgresql://reader:swordfish@127.0.0.1:1/study", "flights").columns()
    assert "swordfish" not in str(lost.value)
