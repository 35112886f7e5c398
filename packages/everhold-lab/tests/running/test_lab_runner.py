"""The runner: the same rows whatever happens on the way, files that hold them, a report that loads nothing."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import lab_experiments
import pytest
from lab_experiments import Coins, Dice

from everhold_lab import running as runner
from everhold_lab.running import Task, run, task_seed, write_parquet


def stored(folder: Path, name: str = "dice") -> list[tuple]:
    with duckdb.connect() as database:
        rows = database.read_parquet(str(folder / f"{name}.parquet")).fetchall()
    return [tuple(map(repr, row)) for row in rows]  # not a number is not equal to itself


def lines(folder: Path) -> list[bytes]:
    (file,) = (folder / "checkpoints").iterdir()
    return file.read_bytes().splitlines(keepends=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    run(Dice(), folder, jobs=1)
    return folder


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_killed_run_continues_to_the_same_rows(whole, tmp_path, jobs):
    program = [sys.executable, lab_experiments.__file__, str(tmp_path), str(jobs)]
    child = subprocess.Popen(program, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("checkpoints/*")) or len(lines(tmp_path)) < 3:
        assert time.monotonic() < deadline
        assert child.poll() is None
        time.sleep(0.02)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    kept = len(lines(tmp_path))
    assert 3 <= kept < 12
    assert not (tmp_path / "dice.parquet").exists()
    done = []
    run(Dice(pause=0.2), tmp_path, jobs=1, progress=lambda number, total: done.append((number, total)))
    assert done[0] == (kept, 12)
    assert stored(tmp_path) == stored(whole)


def test_processes_change_nothing(whole, tmp_path):
    run(Dice(), tmp_path, jobs=2)
    assert stored(tmp_path) == stored(whole)


@pytest.mark.parametrize("left", [1, 30, -2])
def test_half_a_line_is_played_again(tmp_path, left):
    run(Dice(), tmp_path, jobs=1)
    before = stored(tmp_path)
    (file,) = (tmp_path / "checkpoints").iterdir()
    *complete, last = lines(tmp_path)
    file.write_bytes(b"".join(complete) + last[:left])
    done = []
    run(Dice(), tmp_path, jobs=1, progress=lambda number, total: done.append(number))
    assert done == [11, 12]
    assert stored(tmp_path) == before


def test_more_repetitions_are_added_and_fewer_are_a_part(tmp_path):
    few = run(Dice(), tmp_path, jobs=1, repetitions=2).rows
    done = []
    many = run(Dice(), tmp_path, jobs=1, repetitions=5, progress=lambda number, total: done.append(number)).rows
    assert done[0] == 4
    assert repr([row for row in many if row["repetition"] < 2]) == repr(list(few))
    assert len(run(Dice(), tmp_path, jobs=1, repetitions=3).rows) == 12


def test_other_sizes_and_seeds_are_kept_apart(tmp_path):
    for number, (experiment, seed) in enumerate([(Dice(), 0), (Dice(), 1), (Dice(sides=(6, 8)), 0), (Coins(), 0)]):
        done = []
        run(experiment, tmp_path, jobs=1, seed=seed, progress=lambda now, total, done=done: done.append(now))
        assert done[0] == 0
        assert len(list((tmp_path / "checkpoints").iterdir())) == number + 1
    foreign = sorted((tmp_path / "checkpoints").iterdir())
    for file in foreign[1:]:
        file.write_bytes(foreign[0].read_bytes())  # a file under another one's name
    done = []
    run(Coins(), tmp_path, jobs=1, progress=lambda now, total: done.append(now))
    run(Dice(), tmp_path, jobs=1, progress=lambda now, total: done.append(now))
    assert 0 in done


def test_every_task_has_a_seed_of_its_own(tmp_path):
    rows = run(Dice(), tmp_path, jobs=1, seed=3).rows
    seeds = {(row["sides"], row["repetition"]): row["seed"] for row in rows}
    assert len(set(seeds.values())) == 12
    assert seeds[20, 4] == task_seed(3, Task(1, 4))
    assert task_seed(3, Task(1, 4)) != task_seed(4, Task(1, 4))


def test_what_was_played_before_a_fault_is_kept(tmp_path):
    def stop(done, total):
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(Dice(), tmp_path, jobs=2, progress=stop)
    assert len(lines(tmp_path)) >= 5


def test_results_convert(tmp_path):
    results = run(Dice(), tmp_path, jobs=1)
    document = json.loads((tmp_path / "dice.json").read_text())
    assert document == json.loads(json.dumps(results.to_dict(), allow_nan=False))
    assert (document["repetitions"], document["parameters"]["sides"]) == (6, [6, 20])
    assert results.printed() == {"experiment": "dice", "rows": document["rows"]}
    assert document["rows"][0]["worst"] is None  # JSON has no infinity
    frame = results.to_frame()
    assert list(frame.columns) == ["sides", "repetition", "seed", "eyes", "noise", "odd"]
    assert len(frame) == 24
    assert results.kept


def test_parquet_has_the_types_of_the_rows(tmp_path):
    rows = [
        {"whole": 1, "part": 1, "text": "2026-01-01", "truth": True, "list": [1], "none": None},
        {"whole": 2**62, "part": float("inf"), "text": None, "truth": None, "list": [], "more": 0.1},
    ]
    write_parquet(tmp_path / "r.parquet", rows)
    with duckdb.connect() as database:
        read = database.read_parquet(str(tmp_path / "r.parquet"))
        assert [str(kind) for kind in read.types] == [
            "BIGINT", "DOUBLE", "VARCHAR", "BOOLEAN", "VARCHAR", "VARCHAR", "DOUBLE"
        ]  # fmt: skip
        assert read.fetchall() == [
            (1, 1.0, "2026-01-01", True, "[1]", None, None),
            (2**62, float("inf"), None, None, "[]", None, 0.1),
        ]
    with pytest.raises(ValueError, match="no rows"):
        write_parquet(tmp_path / "r.parquet", [])


def test_the_report_holds_every_experiment_and_loads_nothing(tmp_path):
    run(Dice(fair=False), tmp_path, jobs=1, repetitions=1)
    run(Coins(), tmp_path, jobs=1, repetitions=1)
    page = (tmp_path / "report.html").read_text()
    assert 'id="dice"' in page
    assert 'id="coins"' in page
    assert page.count("<svg") == 2
    assert "Dice &amp; &lt;dots&gt;" in page
    assert "<b>thrown" not in page
    assert '<li class="broken">the dice are &lt;fair&gt;' in page
    assert '<li class="kept">the dice are &lt;fair&gt;' in page
    loaded = re.sub(r'xmlns(:\w+)?="[^"]*"', "", page)
    assert "://" not in loaded
    assert not re.search(r'<(script|link|img|iframe)|@import|(src|href)="(?!#)', loaded)
    names = re.findall(r'\bid="([^"]+)"', page)
    assert len(names) == len(set(names))
    assert set(re.findall(r"url\(#([^)]+)\)", page)) <= set(names)


def test_the_report_counts_findings_and_says_where_it_was_a_quick_look(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "EXPERIMENTS", {"dice": Dice})
    run(Dice(fair=False), tmp_path, jobs=1, repetitions=1)
    assert "findings (a quick look: 6 are usual)</span>" in (tmp_path / "report.html").read_text()
    run(Dice(fair=False), tmp_path, jobs=1)
    assert "quick look" not in (tmp_path / "report.html").read_text()


def test_without_the_extra_for_pictures_the_report_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "plots_available", lambda: False)
    assert run(Dice(), tmp_path, jobs=1, repetitions=1).pictures is None
    page = (tmp_path / "report.html").read_text()
    assert "everhold[plots]" in page
    assert "<svg" not in page


def test_what_is_foreign_or_missing_in_the_folder_breaks_no_report(tmp_path):
    (tmp_path / "settings.json").write_text('{"experiment": "other"}')
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "older.json").write_text('{"experiment": "older"}')
    run(Coins(), tmp_path, jobs=1, repetitions=1)
    (tmp_path / "coins-eyes.svg").unlink()
    run(Dice(), tmp_path, jobs=1, repetitions=1)
    page = (tmp_path / "report.html").read_text()
    assert re.findall('<section id="([^"]*)"', page) == ["coins", "dice"]
    assert "coins-eyes.svg is no longer" in page


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "joblib", None)
    with pytest.raises(ModuleNotFoundError, match=r"joblib.*everhold-lab"):
        run(Dice(), tmp_path, jobs=1)


@pytest.mark.parametrize("wrong", [{"repetitions": 0}, {"jobs": 0}, {"seed": -1}, {"seed": 2**63}, {"jobs": True}])
def test_wrong_numbers_are_refused(tmp_path, wrong):
    with pytest.raises(ValueError, match="Pass a whole number"):
        run(Dice(), tmp_path, **wrong)
    assert not list(tmp_path.iterdir())


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileExistsError):
        run(Dice(), tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"
