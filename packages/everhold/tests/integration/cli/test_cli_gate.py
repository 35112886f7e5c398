"""The group of commands about gates."""

import csv
import json

import numpy as np
import pytest

GATE = ("g.db", "flights")


def predictions(study, name, share):
    """A file of predictions of which about this share is right."""
    rng = np.random.default_rng(int(1_000 * share))
    with (study / "sealed.csv").open() as file:
        rows = list(csv.DictReader(file))
    right = rng.random(len(rows)) < share
    lines = [
        f"{row['id']},{int(row['late']) if ok else 1 - int(row['late'])}" for row, ok in zip(rows, right, strict=True)
    ]
    (study / name).write_text("\n".join(["id,late", *lines]) + "\n")


@pytest.fixture
def models(study, everhold):
    """A holdout that can keep a gate, and files of predictions."""
    everhold(
        "create", *GATE, "--holdout", "sealed.csv", "--training", "train.csv", "--label", "late", "--row-id", "id",
        "--mechanism", "guess_and_check", "--queries", "20", "--surprises", "2",
    )  # fmt: skip
    for name, share in (("weak.csv", 0.5), ("equal.csv", 0.51), ("strong.csv", 0.99)):
        predictions(study, name, share)
    return study


def test_a_champion_is_kept_and_then_gives_way(models, everhold):
    made = json.loads(everhold("gate", "create", *GATE, "--champion", "weak.csv", "--format", "json").stdout)
    assert (made["gate"], made["metric"], made["challenges"]) == ("gate", "accuracy", 0)
    assert everhold("gate", "challenge", *GATE, "--challenger", "equal.csv").stdout.startswith("kept: ")
    told = everhold("gate", "challenge", *GATE, "--challenger", "strong.csv").stdout
    assert told.startswith("promoted: accuracy is better by more than 0 (proved), charged 1")
    again = json.loads(everhold("gate", "challenge", *GATE, "--challenger", "strong.csv", "--format", "json").stdout)
    assert (again["verdict"], again["promoted"], again["charged"], again["repeated"]) == ("promoted", True, 0, True)
    status = json.loads(everhold("gate", "status", *GATE, "--format", "json").stdout)
    assert [(one["challenges"], one["promotions"]) for one in status["gates"]] == [(2, 1)]
    assert "promotions" in everhold("gate", "status", *GATE, "--gate", "gate").stdout
    everhold("certificate", "save", *GATE, "--output", "c.html")
    assert json.loads(everhold("certificate", "verify", "c.html", "--format", "json").stdout)["ok"]
    assert json.loads(everhold("ledger", "verify", *GATE, "--format", "json").stdout)["ok"]


def test_rules_challenge_a_rule(models, everhold):
    everhold("gate", "create", *GATE, "--rule", "carrier = 'UA'")
    assert everhold("gate", "challenge", *GATE, "--rule", "carrier = 'AA'").stdout.startswith("kept: ")
    assert everhold("gate", "challenge", *GATE, "--rule", "delay > 15").stdout.startswith("promoted: ")


def test_after_an_arrival_the_champion_is_completed_by_command(models, everhold):
    everhold("gate", "create", *GATE, "--champion", "weak.csv")
    everhold("gate", "create", *GATE, "--rule", "carrier = 'UA'", "--gate", "rules")
    lines = (models / "sealed.csv").read_text().splitlines()
    new = [f"{900_000 + number},{line.partition(',')[2]}" for number, line in enumerate(lines[1:60])]
    (models / "new.csv").write_text("\n".join([lines[0], *new]) + "\n")
    (models / "weak_new.csv").write_text("\n".join(["id,late", *(f"{900_000 + number},1" for number in range(59))]))
    everhold("append", *GATE, "new.csv")
    refused = everhold("gate", "challenge", *GATE, "--challenger", "strong.csv", code=5)
    assert refused
    completed = json.loads(everhold("gate", "complete", *GATE, "gate", "weak_new.csv", "--format", "json").stdout)
    assert completed["rows_left"] == 0
    assert "rows_left" in everhold("gate", "complete", *GATE, "rules", "--rule", "carrier = 'UA'").stdout
    everhold("gate", "complete", *GATE, "rules", "--rule", "carrier = 'UA'", code=5)
    everhold("gate", "complete", *GATE, "rules", code=2)


def test_the_same_command_again_changes_nothing_and_another_champion_is_refused(models, everhold):
    for _ in range(2):
        everhold("gate", "create", *GATE, "--champion", "weak.csv")
    assert "another first champion" in everhold("gate", "create", *GATE, "--champion", "equal.csv", code=5).stderr
    everhold("gate", "create", *GATE, "--champion", "equal.csv", "--gate", "second", "--margin", "0.1")
    assert "second" in everhold("gate", "status", *GATE).stdout


def test_a_limit_refuses_and_strict_says_so(models, everhold):
    everhold("gate", "create", *GATE, "--champion", "weak.csv", "--challenges", "1")
    everhold("gate", "challenge", *GATE, "--challenger", "equal.csv")
    assert everhold("gate", "challenge", *GATE, "--challenger", "strong.csv").stdout.startswith("refused")
    everhold("gate", "challenge", *GATE, "--challenger", "strong.csv", "--strict", code=6)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("create", *GATE, "--champion", "weak.csv", "--metric", "auc"), 2),
        (("create", *GATE, "--champion", "weak.csv", "--loss", "log"), 2),
        (("create", *GATE, "--champion", "weak.csv", "--challenges", "0"), 5),
        (("create", *GATE, "--champion", "weak.csv", "--margin", "1.0"), 5),
        (("create", *GATE, "--champion", "none.csv"), 5),
        (("challenge", *GATE, "--challenger", "weak.csv"), 5),
        (("challenge", *GATE), 2),
        (("challenge", *GATE, "--challenger", "weak.csv", "--rule", "delay > 15"), 2),
        (("create", *GATE, "--rule", "late = 1"), 5),
        (("status", "g.db", "nothing"), 4),
    ],
)
def test_what_cannot_be_done(models, everhold, arguments, code):
    everhold("gate", *arguments, code=code)


def test_a_risk_is_compared_by_its_loss(models, everhold):
    everhold("gate", "create", *GATE, "--champion", "weak.csv", "--metric", "risk", "--loss", "absolute")
    assert "absolute loss" in everhold("gate", "challenge", *GATE, "--challenger", "strong.csv").stdout


def test_scores_are_compared_by_their_names(models, everhold):
    everhold("gate", "create", *GATE, "--champion", "weak.csv", "--metric", "matthews_corrcoef")
    assert "promoted: matthews_corrcoef" in everhold("gate", "challenge", *GATE, "--challenger", "strong.csv").stdout
    range_of = ("--metric", "r2", "--low", "0", "--high", "1")
    everhold("gate", "create", *GATE, "--champion", "weak.csv", "--gate", "r2", *range_of)
    told = everhold("gate", "challenge", *GATE, "--gate", "r2", "--challenger", "strong.csv").stdout
    assert told.startswith("promoted: r2 is better")
    refused = ("create", *GATE, "--champion", "weak.csv", "--metric")
    assert "that gates support is roc_auc" in everhold("gate", *refused, "average_precision", code=2).stderr
    assert "is only for --metric risk" in everhold("gate", *refused, "f1", "--low", "0", code=2).stderr


def test_help_teaches(everhold):
    assert "everhold gate challenge flights.db flights" in everhold("gate", "create", "--help").stdout
    assert "proved" in everhold("gate", "challenge", "--help").stdout
