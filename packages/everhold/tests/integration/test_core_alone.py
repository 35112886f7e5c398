"""The core without its extensions: what it has is said, and what it lacks is said with the extra that has it."""

import subprocess
import sys

HIDDEN = """
import importlib.metadata as metadata
every = metadata.entry_points
metadata.entry_points = lambda **wanted: metadata.EntryPoints(
    point for point in every(**wanted) if not point.value.startswith("everhold_privacy")
)
import everhold as eh
"""

UNTRAINED = """
made = eh.plan(rows=2_000, queries=100, training_rows=0)
print(made.best.mechanism)
print(made.explain())
rows = {"x": [0.0, 1.0] * 400}
try:
    eh.Holdout.create("sqlite:///s.db", "s", holdout=rows)
except eh.HoldoutRejected as refused:
    print(refused)
with eh.Holdout.create("sqlite:///s.db", "s", holdout=rows, mechanism="guess_and_check", queries=100) as made:
    print(made.ask("x > 0.5", guess=0.5).source)
with eh.Holdout.create("sqlite:///t.db", "t", holdout=rows, declared=[eh.listed(["x > 0.5"])]) as made:
    print(made.ask("x > 0.5").source)
"""


def test_without_training_rows_it_says_what_serves(tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", HIDDEN + UNTRAINED]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert told.returncode == 0, told.stderr
    best, *explained, refused, guessed, declared = told.stdout.splitlines()
    assert (best, guessed, declared) == ("guess_and_check", "guess", "declared")
    for said in ("\n".join(explained), refused):
        assert "There are no training rows" in said
        for remedy in ("--training", "mechanism='guess_and_check'", "declared=", "everhold[privacy]"):
            assert remedy in said
