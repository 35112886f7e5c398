"""Declare families in a terminal, and ask their members for nothing."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from everhold.cli import asking, create, holdouts
from everhold.cli.failures import CommandGroup

PROTOCOL = """
[families.thresholds]
listed = ["delay > 15", "delay > 60", {difference = ["delay > 15", "delay > 30"]}]
[families.texts]
texts = 40
"""


@pytest.fixture
def run(study):
    """Runs a command of these modules."""
    app = typer.Typer(cls=CommandGroup)
    for module in (asking, create, holdouts):
        module.register(app)

    def command(*arguments, code=0):
        result = CliRunner().invoke(app, list(arguments), prog_name="everhold", catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result

    return command


def test_families_are_declared_and_printed_and_their_members_cost_nothing(run):
    Path("study.toml").write_text(PROTOCOL)
    assert "no family is declared" in run("declare", "s.db", "flights").stderr
    told = json.loads(run("declare", "s.db", "flights", "--protocol", "study.toml", "--format", "json").stdout)
    assert [family["name"] for family in told["families"]] == ["thresholds", "texts"]
    answer = json.loads(run("ask", "s.db", "flights", "--mean", "delay > 60", "--format", "json").stdout)
    assert (answer["source"], answer["charged"]) == ("declared", 0)
    both = ("--difference", "--mean", "delay > 15", "--mean", "delay > 30")
    answer = json.loads(run("ask", "s.db", "flights", *both, "--format", "json").stdout)
    assert (answer["source"], answer["charged"]) == ("declared", 0)
    assert "A family" in run("declare", "s.db", "flights", "--protocol", "study.toml", code=5).stderr


def test_what_is_no_protocol_is_refused(run):
    Path("study.toml").write_text("budget = 3")
    assert "has 'budget'" in run("declare", "s.db", "flights", "--protocol", "study.toml", code=5).stderr
    assert "cannot be read" in run("declare", "s.db", "flights", "--protocol", "no.toml", code=5).stderr


WRONG = {
    "an unknown column": ('[families.b]\nlisted = ["height > 3"]', "height"),
    "duplicates": ('[families.b]\nlisted = ["delay > 15", "delay>15"]', "listed twice"),
    "weights above 1": ('[families.b]\nlisted = ["delay > 15", "delay > 16"]\nweights = [0.9, 0.9]', "at most 1"),
    "members alone": ("[families.b]\nmembers = 30", "not for a declaration"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_protocol_with_one_wrong_family_declares_none(run, what):
    wrong, why = WRONG[what]
    Path("study.toml").write_text(f"[families.a]\ntexts = 40\n{wrong}")
    before = run("status", "s.db", "flights", "--format", "json").stdout
    assert why in run("declare", "s.db", "flights", "--protocol", "study.toml", code=5).stderr
    assert run("status", "s.db", "flights", "--format", "json").stdout == before


def test_a_protocol_is_held_against_a_certificate(run, everhold):
    same = PROTOCOL + "[families.late]\nlisted = [{quantile = 'delay', low = 0, high = 60}]"
    Path("study.toml").write_text(same)
    run("declare", "s.db", "flights", "--protocol", "study.toml")
    assert "quantile of delay, low 0, high 60" in everhold("certificate", "show", "s.db", "flights").stdout
    everhold("certificate", "save", "s.db", "flights", "--output", "c.json")
    told = run("protocol", "check", "study.toml", "c.json", "--format", "json", code=1)  # it was declared later
    rows = {row["what"]: row for row in json.loads(told.stdout)["compared"]}
    assert rows["thresholds: delay > 15"]["certificate"].startswith("declared later, by entry")
    assert not rows["share"]["same"]
    Path("study.toml").write_text(PROTOCOL.replace("delay > 60", "delay > 61"))
    told = run("protocol", "check", "study.toml", "c.json", "--format", "json", code=1)
    rows = {row["what"]: row for row in json.loads(told.stdout)["compared"]}
    assert (rows["thresholds: delay > 61"]["certificate"], rows["thresholds: delay > 60"]["protocol"]) == (None, None)
    Path("c.json").write_text(Path("c.json").read_text().replace("delay > 60", "delay > 61"))
    assert "not to be trusted" in run("protocol", "check", "study.toml", "c.json", code=7).stderr
    assert "There is no certificate file" in run("protocol", "check", "study.toml", "d.json", code=2).stderr
    Path("study.toml").write_text("budget = 3")
    assert "has 'budget'" in run("protocol", "check", "study.toml", "c.json", code=5).stderr


def test_a_trial_is_sealed_as_its_protocol_says(everhold, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for file, first in (("sealed.csv", 0), ("open.csv", 1_000)):
        rows = [f"{first + i // 2},{'AB'[i // 2 % 2]},{120 + i % 30},{i % 7 // 6}" for i in range(600)]
        Path(file).write_text("\n".join(["patient,arm,bp,died", *rows]))
    trial = """
confidence: 0.9
share: 0.99
groups: patient
missing: {bp: drop}
arms: {arm: arm, treated: B, control: A}
families:
  end points:
    listed: [risk_difference: died = 1, risk_difference: {mean: bp, low: 60, high: 200}, f1: bp > 125]
"""
    Path("trial.yaml").write_text(trial)
    made = ("create", "t.db", "t", "--holdout", "sealed.csv", "--training", "open.csv", "--label", "died")
    for right, wrong, code in (("died = 1", "dead = 1", 5), ("treated: B", "treated: X", 5), ("f1:", "f2:", 5),
                               ("share: 0.99", "confidence: 0.8", 5), ("patient", "person", 9),
                               ("died = 1", "dyed = 1", 5), ("arm: arm", "arm: ward", 5)):  # fmt: skip
        Path("wrong.yaml").write_text(trial.replace(right, wrong))
        why = {
            "confidence: 0.8": r"'confidence' twice (line 3)",
            "treated: X": "Entry 1, risk_difference of died = 1:",
            "arm: ward": "no column 'ward'",
            "dyed = 1": "Did you mean 'died'? Correct",
        }
        why = why.get(wrong, wrong.strip(" =1:"))
        told = everhold(*made, "--protocol", "wrong.yaml", code=code).stderr
        assert why in told
        assert told.endswith("Nothing was created.\n") or wrong in ("f2:", "confidence: 0.8")  # no protocol at all
        assert not Path("t.db").exists()
    everhold(*made, "--protocol", "trial.yaml")
    everhold("certificate", "save", "t.db", "t", "--output", "t.json")
    told = json.loads(everhold("protocol", "check", "trial.yaml", "t.json", "--format", "json").stdout)
    assert [row["same"] for row in told["compared"]] == [True] * 7
    for line, what, held in (
        ("groups: patient\n", "groups", "patient"),
        ("missing: {bp: drop}\n", "missing bp", "rows without a value are left out"),
    ):
        Path("trial.yaml").write_text(trial.replace(line, ""))
        told = json.loads(everhold("protocol", "check", "trial.yaml", "t.json", "--format", "json", code=1).stdout)
        assert [row for row in told["compared"] if not row["same"]] == [
            {"what": what, "protocol": None, "certificate": held, "same": False}
        ]


def test_a_study_is_planned_before_there_are_data(everhold, tmp_path):
    (tmp_path / "plan.toml").write_text("queries = 50\n[families.ends]\nmembers = 30")
    wanted = ("plan", "--rows", "2000", "--protocol", str(tmp_path / "plan.toml"))
    told = json.loads(everhold(*wanted, "--format", "json").stdout)
    assert (told["lines"][0]["queries"], told["lines"][0]["members"]) == ("ends", 30)
    assert "ask those first" in everhold(*wanted, "--chart", str(tmp_path / "plan.svg")).stderr
    assert "ends" in (tmp_path / "plan.svg").read_text()
    assert "--rows is missing" in everhold(*wanted[:1], *wanted[3:], code=2).stderr
    assert "cannot be combined with --radius" in everhold(*wanted, "--radius", ".1", code=2).stderr
    assert "Pass --queries" in everhold("plan", "--rows", "200", code=2).stderr
