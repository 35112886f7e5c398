"""Processes that are killed while they append rows, with two processes asking beside them."""

import json
import random
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from append_children import ROWS, append_until_killed, ask_until_stopped, batch
from prepared_processes import prepared_processes

import everhold as eh
from everhold.ledger import verify

KILLS = 6  # 300 in the study that docs/theory/growing.md records


def notes(path):
    """Noted lines; one that was cut off by a kill does not count."""
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines(keepends=True) if line.endswith("\n")]


def killed(folder, kills, *, longest=0.6):
    """Kill so many processes at random moments of an append; returns what was found.

    Raises:
        AssertionError: If a batch is lost, doubled or half there, or an answer that was told is not in the ledger.
    """
    storage, rng = f"sqlite:///{folder}/s.db", random.Random(0)
    planning = eh.Planning(grows=True, allow_vacuous=True)
    with warnings.catch_warnings(action="ignore"):  # of a promise that is weak for so few rows
        eh.Holdout.create(storage, "h", holdout=batch(0), queries=20_000, surprises=5, planning=planning).close()
    stop, asked = prepared_processes.Event(), [folder / f"asked-{seed}" for seed in (0, 1)]
    beside = [prepared_processes.Process(target=ask_until_stopped, args=(storage, asked[n], stop, n)) for n in (0, 1)]
    for process in beside:
        process.start()
    before = 0
    try:
        for kill in range(kills):
            child = prepared_processes.Process(target=append_until_killed, args=(storage, folder / "appended"))
            child.start()
            while kill % 3 and child.is_alive() and len(notes(folder / "appended")) == before:
                child.join(0.01)  # every third one may be killed before its first batch
            child.join(rng.uniform(0.0, longest))
            child.kill()
            child.join()
            before = len(notes(folder / "appended"))
    finally:
        stop.set()
        for process in beside:
            process.join(60)
    return _checked(folder, storage, [line for path in asked for line in notes(path)], beside)


def _checked(folder, storage, told, beside):
    """Hold the holdout against the notes of all processes."""
    assert [process.exitcode for process in beside] == [0, 0]
    with eh.Holdout.open(storage, "h") as holdout:
        arrived, executor = holdout.arrivals.listed().rows, holdout._executor
        noted = notes(folder / "appended")
        assert noted == sorted(set(noted))
        assert set(noted) <= {row["arrival"] for row in arrived}
        assert [row["arrival"] for row in arrived] == [*range(1, len(arrived) + 1)]
        assert {row["rows"] for row in arrived} == {ROWS}
        found = executor.sealed.table(["batch"])["batch"]
        numbers, counts = np.unique(np.asarray(found), return_counts=True)
        assert numbers.tolist() == [*range(len(arrived) + 1)]
        assert set(counts.tolist()) == {ROWS}
        for query, value, low, high in told:
            entry = executor.ledger.find(query)
            assert entry is not None
            assert (entry.answer["value"], entry.answer["low"], entry.answer["high"]) == (value, low, high)
        assert verify(executor.store, "h", seal_key=executor.key.seal_key).ok
        assert holdout.status()["queries_asked"] >= len(told) > 0
        return {"arrivals": len(arrived), "noted": len(noted), "answers": len(told)}


def test_killed_appends_are_there_or_not_while_two_processes_ask(tmp_path):
    found = killed(tmp_path, KILLS)
    assert found["arrivals"] >= found["noted"] > 0


def main():
    """Kill as many processes as the command line says, and print what was found."""
    with tempfile.TemporaryDirectory() as folder:
        sys.stdout.write(f"{killed(Path(folder), int(sys.argv[1]))}\n")


if __name__ == "__main__":
    main()
