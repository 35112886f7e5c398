"""The group `lab`."""

import csv
import io
import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from everhold_lab import experiments
from everhold_lab import running as runner
from everhold_lab.commands import lab

_FILE = Path(__file__).parents[1] / "experiments" / "lab_experiments.py"


def _dice():
    if "lab_experiments" not in sys.modules:
        spec = spec_from_file_location("lab_experiments", _FILE)
        sys.modules["lab_experiments"] = module = module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules["lab_experiments"]


@pytest.fixture
def dice(monkeypatch):
    """Two tiny experiments in place of the real ones."""
    known = {"dice": _dice().Dice, "coins": _dice().Coins}
    monkeypatch.setattr(experiments, "EXPERIMENTS", known)
    return known


def quick(folder, *more):
    return ("--repetitions", "2", "--jobs", "1", "--output", str(folder / "out"), *more)


def test_json_is_the_promised_document(everhold, dice, tmp_path):
    document = json.loads(everhold("lab", "run", "dice", *quick(tmp_path), "--format", "json").stdout)
    assert list(document) == ["experiment", "rows"]
    assert document["experiment"] == "dice"
    assert [row["sides"] for row in document["rows"]] == [6, 20]


def test_all_is_an_array_and_one_report(everhold, dice, tmp_path):
    documents = json.loads(everhold("lab", "run", "all", *quick(tmp_path), "--format", "json").stdout)
    assert [document["experiment"] for document in documents] == ["dice", "coins"]
    page = (tmp_path / "out" / "report.html").read_text()
    assert 'id="dice"' in page
    assert 'id="coins"' in page


def test_csv_has_one_line_for_each_row(everhold, dice, tmp_path):
    one = list(csv.DictReader(io.StringIO(everhold("lab", "run", "dice", *quick(tmp_path, "--format", "csv")).stdout)))
    assert [line["sides"] for line in one] == ["6", "20"]
    both = everhold("lab", "run", "all", *quick(tmp_path, "--format", "csv")).stdout
    assert [line["experiment"] for line in csv.DictReader(io.StringIO(both))] == ["dice"] * 2 + ["coins"] * 2


def test_the_table_shows_numbers_and_findings(everhold, dice, tmp_path):
    shown = everhold("lab", "run", "dice", *quick(tmp_path))
    assert "Dice & <dots>" in shown.stdout
    assert "the dice are <fair>" in shown.stdout
    assert "report.html" in shown.stderr


def test_a_finding_that_is_not_kept_is_a_failure(everhold, dice, tmp_path, monkeypatch):
    monkeypatch.setattr(dice["dice"], "findings", lambda self, summary, rows: {"it rains": False, "it shines": True})
    failed = everhold("lab", "run", "all", *quick(tmp_path, "--format", "json"), code=1)
    assert "not kept in dice: it rains" in failed.stderr
    assert "shines" not in failed.stderr
    assert len(json.loads(failed.stdout)) == 2


def test_interruption_says_how_to_go_on(everhold, dice, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "_play", interrupted)
    stopped = everhold("lab", "run", "dice", *quick(tmp_path), code=130)
    assert "the same command continues" in stopped.stderr
    assert stopped.stdout == ""


def test_a_missing_package_is_named(everhold, dice, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "joblib", None)
    assert "pip install 'everhold-lab'" in everhold("lab", "run", "dice", *quick(tmp_path), code=1).stderr


def test_a_file_in_place_of_the_folder_is_a_file_error(everhold, dice, tmp_path):
    (tmp_path / "out").write_text("mine")
    assert "cannot be used" in everhold("lab", "run", "dice", *quick(tmp_path), code=1).stderr


def test_an_unknown_name_lists_the_known(everhold, dice):
    assert "one of dice, coins, or all" in everhold("lab", "run", "poker", code=2).stderr


@pytest.mark.parametrize("wrong", [("--jobs", "0"), ("--repetitions", "0"), ("--seed", "-1"), ("--seed", str(2**64))])
def test_wrong_numbers_are_wrong_usage(everhold, dice, tmp_path, wrong):
    everhold("lab", "run", "dice", "--output", str(tmp_path / "out"), *wrong, code=2)


def test_the_list_names_every_experiment(everhold, dice):
    rows = json.loads(everhold("lab", "list", "--format", "json").stdout)["experiments"]
    assert [row["name"] for row in rows] == ["dice", "coins"]
    assert rows[0]["repetitions"] == 6


def test_the_registry_is_lazy_and_in_order():
    papers, ours = ["figure2", "figure3", "dwork2015", "ladder-attack"], ["widths", "dependence", "gates"]
    assert list(experiments.EXPERIMENTS) == [*papers, *ours, "sharpness", "tuning-loop", "leaderboard", "sealed-search"]
    for name in ("widths", "dependence"):
        assert experiments.EXPERIMENTS[name].name == name
    with pytest.raises(KeyError):
        experiments.EXPERIMENTS["poker"]


def test_many_numbers_stay_in_the_report(everhold, dice, tmp_path, monkeypatch):
    monkeypatch.setattr(lab, "_MOST_LINES", 1)
    shown = everhold("lab", "run", "dice", *quick(tmp_path))
    assert "sides" not in shown.stdout
    assert "2 lines of numbers are in the report" in shown.stderr


def test_a_quick_look_is_said_to_be_one(everhold, dice, tmp_path, monkeypatch):
    monkeypatch.setattr(dice["dice"], "findings", lambda self, summary, rows: {"it rains": False})
    failed = everhold("lab", "run", "dice", "--output", str(tmp_path), "--jobs", "1", "--repetitions", "1", code=1)
    assert "it rains (a quick look: 1 of the usual 6 repetitions)" in failed.stderr
