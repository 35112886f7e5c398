"""Rows that stay in an engine, from the command line."""

import json

import pandas as pd
import pytest
from pond_samples import PASSWORD, poured, secrets_in, served, stirred, tried_before

from everhold_engines import ENGINE_VARIABLE

__all__ = ["tried_before"]

KEYS = ("kind", "table", "snapshot")


@pytest.fixture
def pond(study, monkeypatch):
    served(monkeypatch)
    return poured(study / "pond.db", "sealed rows", pd.read_csv("sealed.csv"))


@pytest.fixture
def address(pond):
    return f"pond://steward:{PASSWORD}@{pond.file}"


@pytest.fixture
def stays(everhold, address, monkeypatch):
    """A storage with a holdout whose rows stay in a pond that asks for a password."""
    created = everhold(
        "create", "e.db", "flights", "--engine", address, "--table", "sealed rows", "--training", "train.csv",
        "--label", "late", "--row-id", "id", "--queries", "20", "--format", "json",
    )  # fmt: skip
    assert not secrets_in(created.output)
    monkeypatch.setenv(ENGINE_VARIABLE, address)
    return "e.db"


def told(result):
    return json.loads(result.stdout)


def test_every_command_finds_the_table_again(everhold, stays):
    answer = told(everhold("ask", stays, "flights", "--mean", "delay > 15", "--format", "json"))
    assert answer["low"] < answer["value"] < answer["high"]
    status = told(everhold("status", stays, "flights", "--format", "json"))
    assert tuple(status["engine"]) == KEYS
    assert status["engine"]["table"] == "sealed rows"
    assert "delay > 15" in everhold("transcript", stays, "flights", "--format", "csv").stdout
    assert told(everhold("ledger", "verify", stays, "flights", "--format", "json"))["ok"]
    assert told(everhold("doctor", stays, "--format", "json"))["ok"]
    everhold("certificate", "save", stays, "flights", "--output", "c.json")
    everhold("certificate", "verify", "c.json")


def test_a_changed_table_is_found(everhold, stays, pond):
    stirred(pond, 'UPDATE "sealed rows" SET delay = delay + 1 WHERE id = 7')
    refused = everhold("ask", stays, "flights", "--mean", "delay > 15", code=7)
    assert "is not the one that was sealed" in refused.stderr
    found = told(everhold("ledger", "verify", stays, "flights", "--format", "json", code=7))
    assert "rows" in found["checked"]
    assert any("is not the one that was sealed" in what for what in found["findings"])


def test_without_a_way_in_nothing_is_verified_and_that_is_said(everhold, stays, pond, monkeypatch):
    monkeypatch.setenv(ENGINE_VARIABLE, f"pond://steward:wrong@{pond.file}")
    found = told(everhold("ledger", "verify", stays, "flights", "--format", "json", code=7))
    assert "rows" not in found["checked"]
    assert any("were not looked at" in what for what in found["findings"])
    everhold("ask", stays, "flights", "--mean", "delay > 15", code=1)


def test_an_archive_says_that_it_has_no_rows(everhold, stays):
    assert told(everhold("backup", stays, "--output", "m.tar", "--format", "json"))["without_rows"] == ["flights"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "The rows to seal are missing or given twice"),
        (("--table", "sealed rows"), "Pass --engine URL"),
        (("--engine", "pond:///x.db"), "The rows to seal are missing or given twice"),
        (("--holdout", "sealed.csv", "--table", "sealed rows"), "The rows to seal are missing or given twice"),
        (("--holdout", "sealed.csv", "--engine", "pond:///x.db"), "The rows to seal are missing or given twice"),
    ],
)
def test_the_rows_are_in_one_place(everhold, pond, monkeypatch, arguments, said):
    monkeypatch.delenv(ENGINE_VARIABLE, raising=False)
    assert said in " ".join(everhold("create", "e.db", "flights", *arguments, code=2).stderr.split())


def test_training_rows_stay_there_as_well(everhold, pond, address, monkeypatch):
    poured(pond.file, "open rows", pd.read_csv("train.csv"))
    created = everhold(
        "create", "e.db", "flights", "--engine", address, "--table", "sealed rows", "--training-table", "open rows",
        "--label", "late", "--row-id", "id", "--queries", "20", "--format", "json",
    )  # fmt: skip
    rows = len(pd.read_csv("train.csv"))
    assert told(created)["training_table"] == {"table": "open rows", "snapshot": None, "rows": rows}
    assert not secrets_in(created.output)
    monkeypatch.setenv(ENGINE_VARIABLE, address)
    assert told(everhold("ask", "e.db", "flights", "--mean", "delay > 15", "--format", "json"))["source"] == "training"
    everhold("certificate", "save", "e.db", "flights", "--output", "c.json")
    everhold("certificate", "verify", "c.json")


@pytest.mark.parametrize(
    "sealed", [("--holdout", "sealed.csv"), ("--engine", "pond:///x.db", "--table", "t", "--training", "train.csv")]
)
def test_a_training_table_is_beside_a_table(everhold, pond, sealed):
    refused = everhold("create", "e.db", "flights", *sealed, "--training-table", "open rows", code=2)
    assert "--training-table TABLE with --table" in " ".join(refused.stderr.split())


def test_what_is_no_address_is_not_quoted(everhold, pond):
    refused = everhold("create", "e.db", "x", "--engine", f"steward:{PASSWORD}", "--table", "t", code=2)
    assert "no scheme that is known" in refused.stderr
    assert not secrets_in(refused.output)


def test_a_service_takes_no_engine(everhold, pond, address):
    refused = everhold("create", "https://holdouts.example", "x", "--engine", address, "--table", "t", code=2)
    assert "where the service runs" in " ".join(refused.stderr.split())
    assert not secrets_in(refused.output)
