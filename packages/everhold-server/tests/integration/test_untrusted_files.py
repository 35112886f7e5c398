"""The worker that reads strangers' files cannot take more memory or time than it was given."""

import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from everhold.errors import HoldoutRejected, QueryRejected
from everhold.queries.predictions.files import Wanted, read_columns
from everhold.values.base import Schema
from everhold.values.expressions import ColumnKind
from everhold_server.untrusted import worker as untrusted
from everhold_server.untrusted.files import check_untrusted_rows, limits_for, read_untrusted, read_untrusted_results
from everhold_server.untrusted.worker import WorkLimits

SCHEMA = Schema(
    2, 0, {"id": ColumnKind.NUMBER, "late": ColumnKind.NUMBER}, label="late", label_kind="binary", row_id="id"
)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "0"
    path.write_bytes(b"id,late\n1,0\n2,1\n")
    return path


def test_a_table_comes_back_with_its_types_and_its_holes(table):
    table.write_bytes(b"id,late,sure,word,yes\n1,0,0.5,a,true\n2,,nan,,false\n")
    found = read_untrusted(table, SCHEMA, name="model").columns
    assert [found[name].dtype.kind for name in ("id", "late", "sure", "word", "yes")] == ["i", "i", "f", "O", "b"]
    assert found["late"].tolist() == [0, None]
    assert found["word"].tolist()[0] == "a"
    assert list(table.parent.iterdir()) == [table]


@pytest.fixture
def readers(monkeypatch):
    """Processes that run other code in place of the one that reads."""

    def of(code):
        monkeypatch.setattr(untrusted, "_START", code)
        monkeypatch.setattr(untrusted, "_WORKERS", found := untrusted._Workers())
        started.append(found)

    started = []
    yield of
    for each in started:
        each._process.kill()
        each.close()


@pytest.mark.parametrize("dies", ["time.sleep(600)", "sys.exit(3)", "os.abort()", "pass"])
def test_a_worker_that_hangs_or_dies_is_no_fault_of_ours(table, monkeypatch, readers, dies):
    monkeypatch.setattr(untrusted, "_SLOWER", 0.025)
    readers("import os, sys, time; from everhold_server.untrusted import worker as untrusted; "
            f"untrusted.work = lambda job: {dies}; untrusted.serve()")  # fmt: skip
    with pytest.raises(QueryRejected):
        read_untrusted(table, SCHEMA, name="model")


@pytest.mark.parametrize("code", ["import time; time.sleep(600)", "raise SystemExit(3)", "pass"])
def test_a_file_that_finds_no_process_is_refused_and_the_next_one_finds_a_new_one(table, monkeypatch, readers, code):
    with monkeypatch.context() as patched:
        patched.setattr(untrusted, "_SLOWER", 0.025)
        readers(code)
        with pytest.raises(QueryRejected):
            read_untrusted(table, SCHEMA, name="model")
        untrusted._WORKERS._process.wait(60)
    monkeypatch.setattr(untrusted, "_START", "from everhold_server.untrusted.worker import serve; serve()")
    assert [*read_untrusted(table, SCHEMA, name="model").columns] == ["id", "late"]


def test_no_file_meets_what_another_one_left_in_memory(table, readers):
    readers("import everhold_server.untrusted.worker as untrusted, sys; sys.left = []; plain = untrusted.work; "
            "untrusted.work = lambda job: plain(sys.left.append(0) or {**job, 'arguments': "
            "{**job['arguments'], 'name': str(len(sys.left))}}); "
            "untrusted.serve()")  # fmt: skip
    table.write_bytes(b"")
    for _ in range(2):
        with pytest.raises(QueryRejected, match="1 is empty"):
            read_untrusted(table, SCHEMA, name="model")


MUCH_MEMORY, LARGE_FILE = "import mmap; mmap.mmap(-1, 2**34)", "open('x', 'wb').write(bytes(2**27))"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
@pytest.mark.parametrize("limited", [True, False])
@pytest.mark.parametrize("code", [MUCH_MEMORY, LARGE_FILE])
def test_the_limits_are_hard_and_without_them_nothing_stops_it(tmp_path, limited, code):
    most = limits_for(Wanted.of(SCHEMA))
    limit = f"from everhold_server.untrusted.worker import limit; limit(memory={most.memory}, seconds={most.seconds}); "
    run = subprocess.run(
        [sys.executable, "-c", f"{limit if limited else ''}{code}"], cwd=tmp_path, capture_output=True, check=False
    )
    assert (run.returncode != 0) == limited


def test_the_worker_s_environment_holds_no_password(table, monkeypatch, readers):
    monkeypatch.setenv("EVERHOLD_TOKEN", "eh_secret")
    readers(
        "import json, os; from everhold_server.untrusted import worker as untrusted; "
        "untrusted.work = lambda job: open(job['into'], 'w').write(json.dumps("
        "{'refused': 'QueryRejected', 'message': ' '.join(sorted(os.environ)), 'data': {}})); untrusted.serve()"
    )
    with pytest.raises(QueryRejected) as refused:
        read_untrusted(table, SCHEMA, name="model")
    assert "PATH" in str(refused.value)
    assert "TOKEN" not in str(refused.value)


def test_what_a_worker_that_dies_had_written_is_deleted(table, readers):
    readers("import os, tempfile; from everhold_server.untrusted import worker as untrusted; "
            "untrusted.left = lambda path, name: (open(f'{path}.left', 'w').write(tempfile.mkdtemp()), os.abort()); "
            "untrusted.serve()")  # fmt: skip
    with pytest.raises(QueryRejected):
        untrusted.read_in_worker(
            "everhold_server.untrusted.worker:left", table, name="model", limits=WorkLimits(content=100), advice=""
        )
    assert not Path(table.with_name(f"{table.name}.left").read_text()).exists()


def test_a_wide_file_of_some_megabytes_does_not_occupy_a_reader(table):
    names, line = ",".join(f"c{number}" for number in range(900)), ",".join(["2024-01-01"] * 900)
    table.write_text("\n".join([names, *[line] * 770]))
    assert table.stat().st_size > 7_600_000
    with pytest.raises(QueryRejected, match="more than 100 columns"):
        read_untrusted(table, SCHEMA, name="model")


def test_a_hundred_columns_are_read_and_a_file_of_ones_own_may_have_more(table):
    for count in (100, 101):
        table.write_text(",".join(f"c{number}" for number in range(count)) + "\n" + ",".join(["1"] * count) + "\n")
        assert len(read_columns(table, "csv", Wanted.of(SCHEMA), name="mine")) == count
        if count == 100:
            assert len(read_untrusted(table, SCHEMA, name="model").columns) == count
        else:
            with pytest.raises(QueryRejected, match="columns"):
                read_untrusted(table, SCHEMA, name="model")


@pytest.mark.parametrize(("rows", "seconds"), [(2, 20), (10_000_000, 220)])
def test_the_time_of_a_reader_follows_the_rows_of_the_holdout(rows, seconds):
    assert limits_for(replace(Wanted.of(SCHEMA), rows=rows)).seconds == seconds


WIDE = b",".join(b"%x" % number for number in range(100_000))
HOSTILE_RESULTS = {
    "a hundred thousand columns": b"case," + WIDE + b"\n" + b"c1\n" * 400,
    "a header over many lines": b'case,"' + WIDE.replace(b",", b'\n","') + b'"\nc1\n',
    "millions of objects": b'{"results":[' + b"{}," * 1_000_000 + b"{}]}",
    "deep JSON": b'{"results":' * 50_000,
    "deep XML": b"<a>" * 50_000,
    "a result before any case": b"<testsuite><failure/></testsuite>",
    "an encoding that is none": b'<?xml version="1.0" encoding="rot13"?><a/>',
    "an entity": b'<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><r>&x;</r>',
    "far too many values": b"case,ok\n" + b"c1,1\n" * 600_000,
    "nothing": b"",
}


@pytest.mark.parametrize("content", HOSTILE_RESULTS.values(), ids=HOSTILE_RESULTS)
def test_hostile_results_are_refused_and_take_no_memory_of_the_process_that_asked(tmp_path, content):
    resource = pytest.importorskip("resource")
    (path := tmp_path / "0").write_bytes(content)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(QueryRejected):
        read_untrusted_results(path, name="the file")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 * 2**10  # KiB


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("rows.csv", b"a," + WIDE + b"\n1\n", "100,001 columns"),
        ("rows.csv", (b"a" + b",a" * 1_999 + b"\n") * 4_200, "rows and 2,000 columns"),
        ("rows.parquet", b"PAR1" + b"\xff" * 500 + b"PAR1", "Parquet"),
    ],
)
def test_rows_that_nobody_should_open_are_refused_by_their_shape(tmp_path, monkeypatch, name, content, found):
    (path := tmp_path / name).write_bytes(content[: 2**24])
    monkeypatch.setattr("everhold_server.untrusted.files.MOST_CELLS", 2**20)
    with pytest.raises(HoldoutRejected, match=found):
        check_untrusted_rows(path, name="the file")


def test_an_error_of_a_reader_keeps_its_class_and_a_fault_of_a_reader_is_a_refusal(tmp_path):
    (path := tmp_path / "0").write_bytes(b"x")
    limits = WorkLimits(content=10)
    for reader, kind in [
        ("json:no_such", QueryRejected),
        ("everhold_server.untrusted.worker:read_in_worker", QueryRejected),
    ]:
        with pytest.raises(kind, match=r"cannot be read\. Send another"):
            untrusted.read_in_worker(reader, path, name="the file", limits=limits, advice="Send another.")
    path.write_bytes(b"x" * 11)
    with pytest.raises(HoldoutRejected, match="11 bytes"):
        untrusted.read_in_worker(
            "json:x", path, name="the file", limits=limits, advice="Send another.", refusal=HoldoutRejected
        )


def test_a_sender_has_one_worker_at_a_time_and_nobody_waits_for_another_sender(monkeypatch):
    monkeypatch.setattr(untrusted, "_AT_ONCE", 2)
    turns = []

    def again():
        with untrusted._turn("ada"):
            turns.append("ada again")

    with untrusted._turn("ada"):
        waiting = threading.Thread(target=again)
        waiting.start()
        with untrusted._turn("bob"):
            turns.append("bob")
    waiting.join(60)
    assert turns == ["bob", "ada again"]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
def test_memory_time_files_and_core_dumps_are_limited(monkeypatch):
    import resource

    given = {}
    monkeypatch.setattr(resource, "setrlimit", given.__setitem__)
    untrusted.limit(memory=2**30, seconds=5, written=2**20)
    assert given[resource.RLIMIT_AS] == (2**30, 2**30)
    assert given[resource.RLIMIT_FSIZE] == (2**20, 2**20)
    assert given[resource.RLIMIT_CORE] == (0, 0)
    assert given[resource.RLIMIT_CPU][0] == given[resource.RLIMIT_CPU][1] > 5
