"""A table to which rows arrive, with a column that says when: windows are appended, and old ones are compared."""

import copy
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine_tables import filed
from pond_samples import Pond, served, stirred, tried_before
from pond_samples import poured as poured_into_pond

import everhold as eh
from everhold.errors import HoldoutRejected, IntegrityError, QueryRejected
from everhold_engines import ENGINE_VARIABLE
from everhold_engines.watermark import Watermark

__all__ = ["tried_before"]

MAY, JUNE, JULY = (0, 31), (31, 61), (61, 92)


def flights(count, seed, days=(0, 92)):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({
        "id": np.arange(count) + 10_000 * seed,
        "delay": np.round(rng.normal(5.0, 30.0, count)),
        "late": rng.integers(0, 2, count),
        "day": pd.Timestamp("2026-05-01") + pd.to_timedelta(rng.integers(*days, count), unit="D"),
    })  # fmt: skip


class Arriving(Pond):
    """A pond with a watermark."""

    watermark = None

    @property
    def source(self):
        stored = super().source
        return stored if self.watermark is None else self.watermark.source(stored, self.dialect)

    def columns(self):
        return Pond(self.file, self.table).columns()

    def between(self, since, until, parts=()):
        other = copy.copy(self)
        other.watermark = Watermark(self.watermark.column, since, until)
        return other

    def arriving_by(self, arrived, until):
        other = copy.copy(self)
        other.watermark = Watermark(arrived, None, until)
        return other

    def to_dict(self):
        return {**super().to_dict(), **({} if self.watermark is None else self.watermark.facts())}

    def pinned(self, facts):
        return self.arriving_by(facts["arrived"], facts["until"]) if "arrived" in facts else self


@pytest.fixture
def pond(tmp_path, monkeypatch):
    rows = pd.concat([flights(400, 1, MAY), flights(300, 2, JUNE), flights(200, 3, JULY)])
    made = poured_into_pond(tmp_path / "pond.db", "flights", rows)
    monkeypatch.setenv(ENGINE_VARIABLE, f"pond://{made.file}")
    served(monkeypatch)
    monkeypatch.setattr("pond_samples.Pond.from_url", lambda url, table: Arriving(made.file, table))
    return Arriving(made.file, "flights").arriving_by("day", "2026-06-01")


def created(folder, table, **more):
    return eh.Holdout.create(
        folder / "s.db", "flights", holdout=table, training=flights(300, 9), label="late", queries=60, surprises=4,
        rows=eh.Rows(row_id="id"), planning=eh.Planning(grows=True, allow_vacuous=True), **more,
    )  # fmt: skip


def mean_of(frame):
    return float((frame["delay"] > 15).mean())


def test_windows_are_sealed_one_after_the_other(tmp_path, pond):
    with created(tmp_path, pond) as holdout:
        assert holdout.schema.rows == 400
        holdout.ask("delay > 15", guess=0.99)
        june = holdout.append(until="2026-07-01")
        assert (june.rows, june.total, june.tree) == (300, 700, 2)
        found = holdout.over_time("delay > 15", by="month", guess=0.99)
        assert [row["rows"] for row in found.rows] == [400, 300]
        both = holdout.ask("delay > 15", guess=0.99)
        truth = mean_of(pd.concat([flights(400, 1, MAY), flights(300, 2, JUNE)]))
        assert both.value == pytest.approx(truth, abs=0.02)
        path = tmp_path / "c.html"
        holdout.certificate().save(path)
        assert eh.verify_certificate(path).ok
        assert "those with day before 2026-06-01" in path.read_text()
        with pytest.raises(QueryRejected, match="Only rows that everhold keeps in its own files"):
            holdout.retire(1)
    with eh.Holdout.open(tmp_path / "s.db", "flights") as again:
        arrived = again.append(until="2026-08-01")
        assert arrived.total == 900
        assert again.append(until="2026-08-01") == arrived  # the same call again
        assert again.ask("delay > 15", guess=0.99, as_of=1).value == both.value


CHANGED = {
    "the first window": "UPDATE flights SET delay = delay + 1 WHERE id = 10007",
    "a later window": "UPDATE flights SET delay = delay + 1 WHERE id = 20007",
    "a late row": "INSERT INTO flights VALUES (77, 1.0, 1, DATE '2026-05-09')",
    "a row that left": "DELETE FROM flights WHERE id = 20001",
}


@pytest.mark.parametrize("what", CHANGED)
def test_a_changed_old_part_is_found_and_nothing_changes(tmp_path, pond, what):
    with created(tmp_path, pond) as holdout:
        holdout.append(until="2026-07-01")
        head = holdout.status()["ledger_head"]
        stirred(pond, CHANGED[what])
        with pytest.raises(IntegrityError, match="estore"):
            holdout.append(until="2026-08-01")
        with pytest.raises(IntegrityError):
            holdout.certificate()
        assert holdout.status()["ledger_head"] == head
    with pytest.raises(IntegrityError):
        eh.Holdout.open(tmp_path / "s.db", "flights")


WRONG = {
    "no arrivals": ({"until": "2026-06-01 00:00"}, [], "No rows arrived"),
    "backwards": ({"until": "2026-05-01"}, [], "a later time"),
    "the same time": ({"until": "2026-06-01"}, [], "a later time"),
    "no time": ({}, [], "Pass until="),
    "rows of a file": ({"until": "2026-07-01", "rows": {"x": [1]}}, [], "arrive in its table"),
    "no date": ({"until": "next week"}, [], "until is 'next week'. Pass a date such as"),
    "an id twice": ({"until": "2026-07-01"}, ["UPDATE flights SET id = 20001 WHERE id = 20002"], "different values"),
    "an old id": ({"until": "2026-07-01"}, ["UPDATE flights SET id = 10001 WHERE id = 20002"], "1 row ids"),
    "a training id": ({"until": "2026-07-01"}, ["UPDATE flights SET id = 90001 WHERE id = 20002"], "1 row ids"),
    "no label": ({"until": "2026-07-01"}, ["UPDATE flights SET late = NULL WHERE id = 20002"], "missing values"),
    "a new label": ({"until": "2026-07-01"}, ["UPDATE flights SET late = 7 WHERE id = 20002"], "other than 0 and 1"),
}


def test_what_does_not_fit_changes_nothing(tmp_path, pond):
    with created(tmp_path, pond) as holdout:
        head, kept = holdout.status()["ledger_head"], pond.file.read_bytes()
        for what, (wanted, statements, said) in WRONG.items():
            stirred(pond, *statements)
            with pytest.raises((HoldoutRejected, ValueError), match=said):
                holdout.append(**wanted)
            assert holdout.status()["ledger_head"] == head, what
            pond.file.write_bytes(kept)


def test_a_table_without_a_watermark_does_not_grow(tmp_path, pond):
    with created(tmp_path, Arriving(pond.file, "flights")) as whole, pytest.raises(QueryRejected, match="arrived="):
        whole.append(until="2026-08-01")
    for arrived, until, said in (
        ("day", None, "sealed up to a time. Pass arrived="),
        ("delay", "2026-06-01", "not a column of dates"),
    ):
        with pytest.raises(HoldoutRejected, match=said):
            eh.Holdout.create(tmp_path / "t.db", holdout=pond.arriving_by(arrived, until), queries=5)
    with pytest.raises(ValueError, match='until is "\'; DROP TABLE flights"'):
        Watermark("day", None, "'; DROP TABLE flights")


def test_every_engine_reads_windows_and_finds_changes(tmp_path, poured, request):
    may, june = flights(400, 1, MAY), flights(300, 2, JUNE)
    engine = poured(pa.Table.from_pandas(pd.concat([may, june]), preserve_index=False).to_pydict())
    with created(tmp_path, engine.arriving_by("day", "2026-06-01")) as holdout:
        assert holdout.schema.rows == 400
        assert holdout.append(until="2026-07-01").total == 700
        answer = holdout.ask("delay > 15", guess=0.99)
        assert answer.value == pytest.approx(mean_of(pd.concat([may, june])), abs=0.02)
        later = flights(200, 3, JULY)
        more(engine, tmp_path, later, request)
        assert holdout.ask("delay > 25", guess=0.99).value is not None
        assert holdout.append(until="2026-08-01").total == 900
        more(engine, tmp_path, flights(1, 4, MAY), request)
        with pytest.raises(IntegrityError):
            holdout.append(until="2026-09-01")


def more(engine, folder, frame, request):
    """Write more rows to a table."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    if engine.kind == "spark":
        pq.write_table(table, f"{engine.table}/more-{len(frame)}.parquet")
    elif engine.kind == "clickhouse":
        file = filed(folder / f"more-{len(frame)}", table) / "rows.parquet"
        insert = f"INSERT INTO {engine.table} SELECT * FROM file('{file}', 'Parquet')"
        request.getfixturevalue("clickhouse").command(insert)
    else:
        import psycopg

        address = engine.stored.connection.address.render_as_string(hide_password=False)
        with psycopg.connect(address, autocommit=True) as connection:
            for row in frame.itertuples(index=False):
                connection.execute(f"INSERT INTO {engine.table} VALUES (%s, %s, %s, %s)", list(row))


def test_the_command_line_takes_the_rows_up_to_a_time(everhold, pond, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flights(300, 9).to_parquet("train.parquet")
    address = ("--engine", f"pond://{pond.file}", "--table", "flights")
    more = ("--training", "train.parquet", "--queries", "50", "--grows", "--allow-vacuous")
    everhold("create", "s.db", "flights", *address, "--arrived", "day", "--until", "2026-06-01", *more)
    told = everhold("append", "s.db", "flights", "--until", "2026-07-01", "--format", "json")
    assert json.loads(told.stdout)["total"] == 700
    refused = everhold("create", "s.db", "second", *address, "--until", "2026-06-01", *more, code=2)
    assert "--arrived" in refused.output
