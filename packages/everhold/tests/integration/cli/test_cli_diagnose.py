"""The command `diagnose`."""

import csv
import io
import json

import numpy as np
import pytest


@pytest.fixture
def homes(everhold, study):
    """A holdout whose training rows come in homes of four; creating it warns."""
    rng = np.random.default_rng(0)
    for name, first, shared in (("open", 0, True), ("shut", 250, False)):
        chance = np.repeat(rng.random(250), 4) if shared else 0.5
        late = (rng.random(1_000) < chance).astype(int)
        lines = [f"h{first + i // 4},{late[i]}" for i in rng.permutation(1_000)]
        (study / f"{name}.csv").write_text("\n".join(["home,late", *lines]) + "\n")
    return everhold(
        "create", "s.db", "homes", "--holdout", "shut.csv", "--training", "open.csv", "--label", "late",
        "--queries", "20", "--surprises", "2",
    )  # fmt: skip


def test_creation_warns_on_stderr(homes):
    assert "warning: Training rows with equal 'home'" in homes.stderr
    assert "declare --groups home" in homes.stderr
    assert "eh." not in homes.stderr
    assert "warning" not in homes.stdout


def test_whoever_says_that_rows_are_independent_is_warned_if_the_rows_say_otherwise(everhold, homes):
    again = everhold(
        "create", "s.db", "again", "--holdout", "shut.csv", "--training", "open.csv", "--label", "late",
        "--queries", "20", "--surprises", "2", "--independent-rows", "--allow-resealing",
    )  # fmt: skip
    assert again.exit_code == 0
    assert "warning: Training rows with equal 'home'" in again.stderr


def test_the_table_names_the_column_and_says_what_to_declare(everhold, homes):
    shown = everhold("diagnose", "s.db", "homes")
    assert "home" in shown.stdout
    assert "declare --groups home" in shown.stderr


def test_a_column_that_was_declared_independent_is_shown_with_what_it_costs_and_not_suspected(everhold, homes):
    made = everhold(
        "create", "s.db", "cleared", "--holdout", "shut.csv", "--training", "open.csv", "--label", "late",
        "--queries", "20", "--surprises", "2", "--independent", "home", "--allow-resealing",
    )  # fmt: skip
    assert "'home'" not in made.stderr
    assert "values of 'home' are taken to be independent, though the" in made.stdout
    shown = everhold("diagnose", "s.db", "cleared")
    assert "assumed_independent" in shown.stdout
    assert "Assumed: rows with equal or neighbouring values of 'home'" in shown.stderr
    assert "suspect" not in shown.stderr
    assert "declare --groups" not in shown.stderr


def test_json_and_csv_say_the_same(everhold, homes):
    document = json.loads(everhold("diagnose", "s.db", "homes", "--format", "json").stdout)
    [line] = csv.DictReader(io.StringIO(everhold("diagnose", "s.db", "homes", "--format", "csv").stdout))
    assert document["suspects"] == ["home"]
    assert (line["column"], line["effective_rows"]) == ("home", str(document["findings"][0]["effective_rows"]))


def test_independent_rows_are_left_in_peace(everhold, study):
    assert "no clear column is suspect" in everhold("diagnose", "s.db", "flights").stderr


def test_no_training_rows(everhold, study):
    everhold("create", "s.db", "alone", "--holdout", "sealed.csv", "--queries", "20", "--allow-resealing")
    assert "this holdout has none" in everhold("diagnose", "s.db", "alone", code=9).stderr
