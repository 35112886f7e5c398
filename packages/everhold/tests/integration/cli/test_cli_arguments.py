"""Wherever a storage is expected, the address of a service will do; or a sentence says why not."""

import csv
import json
import os

import holdout_samples as samples
import numpy as np
import pytest
from client_samples import serving

from everhold.errors import warnings_collected


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch):
    for name in ("EVERHOLD_STORAGE", "EVERHOLD_URL", "EVERHOLD_TOKEN", "EVERHOLD_INSECURE"):
        monkeypatch.delenv(name, raising=False)


def predictions(folder, name, seed, first):
    path = folder / name
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "said"])
        labels = samples.rows(seed)["late"]
        writer.writerows((first + place, int(label)) for place, label in reversed([*enumerate(labels)]))
    return str(path)


@pytest.fixture
def service(tmp_path, monkeypatch):
    """A service with a holdout and a competition; the steward's token is in the environment."""
    ids = np.arange(samples.ROWS)
    own = {"holdout": {"id": ids, **samples.rows(0)}, "training": {"id": ids + samples.ROWS, **samples.rows(1)}}
    wanted = {**own, "row_id": "id", "features": "public"}
    with warnings_collected():
        samples.create(tmp_path, "study", **{**wanted, "features": "sealed"}).close()
        contest = {"feedback": "none", "mechanism": None, "teams": 2, "submissions": 2}
        samples.create(tmp_path, "contest", **wanted, **contest).close()
    with serving(tmp_path) as running:
        monkeypatch.setenv("EVERHOLD_TOKEN", running.root)
        monkeypatch.setenv("TOKEN_OF_ADA", running.ada)
        yield running.address


def as_json(result):
    return json.loads(result.stdout)


def test_queries_are_asked_of_a_service(service, everhold, tmp_path):
    place, form = (service, "study"), ("--format", "json")
    assert as_json(everhold("quote", *place, "--mean", "delay > 15", *form))["answered_before"] is False
    answer = as_json(everhold("ask", *place, "--mean", "delay > 15", *form))
    assert answer["low"] <= answer["value"] <= answer["high"]
    assert "delay > 15" in everhold("ask", *place, "--mean", "delay > 15").stdout
    mine, open_ones = predictions(tmp_path, "mine.csv", 0, 0), predictions(tmp_path, "open.csv", 1, samples.ROWS)
    asked = everhold("ask", *place, "--accuracy", mine, "--training-predictions", open_ones, "--guess", "1", *form)
    assert as_json(asked)["high"] == 1.0
    bins = as_json(everhold("ask", *place, "--histogram", "delay", "--edges", "0,50", "--no-missing", *form))["bins"]
    assert [line["bin"] for line in bins] == ["below 0", "[0.0, 50.0]", "above 50"]
    assert len(as_json(everhold("transcript", *place, *form))["entries"]) == 5
    assert as_json(everhold("status", *place, *form))["queries_asked"] == 5
    assert {line["name"] for line in as_json(everhold("list", service, *form))["holdouts"]} == {"study", "contest"}
    assert everhold("certificate", "save", *place, "--output", str(tmp_path / "c.html")).exit_code == 0
    assert everhold("certificate", "verify", str(tmp_path / "c.html")).exit_code == 0


def test_a_study_is_run_from_elsewhere(service, everhold, tmp_path):
    place, form = (service, "study"), ("--format", "json")
    everhold("allot", *place, "ada", "--queries", "5")
    assert as_json(everhold("allotments", *place, *form))["allotments"][0]["analyst"] == "ada"
    everhold("gate", "create", *place, "--rule", "delay > 1000")
    mine, open_ones = predictions(tmp_path, "mine.csv", 0, 0), predictions(tmp_path, "open.csv", 1, samples.ROWS)
    challenge = ("--challenger", mine, "--training-predictions", open_ones)
    assert as_json(everhold("gate", "challenge", *place, *challenge, *form))["promoted"] is True
    assert as_json(everhold("gate", "status", *place, *form))["gates"][0]["promotions"] == 1
    assert "Unsealed" not in everhold("unseal", *place, code=2).output
    assert as_json(everhold("unseal", *place, "--yes", *form))["entries"]


def test_a_competition_is_entered_from_elsewhere(service, everhold, tmp_path):
    mine = predictions(tmp_path, "mine.csv", 0, 0)
    env = {"EVERHOLD_TOKEN": os.environ["TOKEN_OF_ADA"]}
    assert "format is right" in everhold(
        "submit", service, "contest", mine, "--team", "ada", "--dry-run", env=env
    ).stdout  # fmt: skip
    assert "submission 1 of 2" in everhold("submit", service, "contest", mine, "--team", "ada", env=env).stdout
    assert "ada" in everhold("leaderboard", service, "contest", env=env).stdout


def test_rows_are_sealed_elsewhere(service, everhold, tmp_path):
    for name, seed in (("sealed", 5), ("open", 6)):
        columns = samples.rows(seed)
        lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
    files = ("--holdout", str(tmp_path / "sealed.csv"), "--training", str(tmp_path / "open.csv"))
    made = everhold(
        "create", service, "new", *files, "--label", "late", "--queries", "20", "--surprises", "1", "--allow-vacuous"
    )
    assert "probability" in made.stdout or "%" in made.stdout
    assert "new" in everhold("list", service).stdout


def test_tokens_are_made_listed_and_taken_back_elsewhere(service, everhold):
    wanted = ("--holdout", "study", "--queries", "3", "--days", "1", "--format", "json")
    made = as_json(everhold("token", "create", service, "ben", *wanted))
    env = {"EVERHOLD_TOKEN": made["secret"]}
    assert as_json(everhold("status", service, "study", "--format", "json", env=env))["remaining"]["queries"] == 3
    listed = everhold("token", "list", service, "--format", "json")
    assert {line["name"]: line["state"] for line in as_json(listed)}["ben"] == "valid"
    assert made["secret"] not in listed.output
    assert "needs the role steward" in everhold("token", "list", service, env=env, code=8).stderr
    assert "revoked" in everhold("token", "revoke", service, made["id"]).stdout
    assert "invalid, expired or revoked" in everhold("status", service, "study", env=env, code=8).stderr
    assert "is visible to you" in everhold("token", "revoke", service, "0" * 16, code=4).stderr


def test_the_address_may_be_in_the_environment(service, everhold):
    env = {"EVERHOLD_URL": service}
    assert "queries_left" in everhold("status", "study", env=env).stdout
    assert "study" in everhold("list", env=env).stdout


@pytest.mark.parametrize(
    "command",
    [
        ("ledger", "verify"), ("ledger", "recover"), ("ledger", "spent"), ("diagnose",),
        ("mcp", "--holdout", "study", "--storage"),
    ],
)  # fmt: skip
def test_commands_of_the_machine_with_the_rows_say_so(everhold, command):
    name = () if "mcp" in command else ("study",)
    said = everhold(*command, "https://holdout.example", *name, code=2).output
    assert "works only where the sealed rows are" in said
    help_of_it = " ".join(everhold(*command[:2], "--help").stdout.split()) if name else ""
    assert "of a service" not in help_of_it


def test_an_analyst_is_whom_the_token_says(service, everhold):
    said = everhold("ask", service, "study", "--mean", "delay > 15", "--analyst", "ada", code=2).output
    assert "by the token" in said


def test_a_wrong_token_is_a_sentence(service, everhold):
    said = everhold("status", service, "study", code=8, env={"EVERHOLD_TOKEN": "eh_forged"}).output
    assert "invalid, expired or revoked" in said
    assert "eh_forged" not in said
    clear = everhold("status", "http://holdout.example", "study", code=8).output
    assert "unencrypted" in clear
    assert os.environ["EVERHOLD_TOKEN"] not in clear
