"""The audit: what it plays, what it leaves out, and that it finds a promise that is broken."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from everhold.mechanisms import MECHANISMS, Traits, answering
from everhold.planning import plan
from everhold_lab.audit import audit as room
from everhold_lab.audit.audit import ANALYSTS, audit, audit_plan
from everhold_privacy.mechanisms.averages import Empirical

SMALL = {"rows": 1_100, "queries": 1_000, "surprises": 1, "confidence": 0.8}


@pytest.fixture(scope="module")
def small():
    return audit(**SMALL, runs=3)


def test_every_mechanism_meets_every_analyst(small):
    pairs = {(line.study.mechanism, line.study.analyst) for line in small.lines}
    assert pairs == {(name, analyst) for name in ("guess_and_check", "thresholdout") for analyst in ANALYSTS}
    played = {line.study.mechanism for line in small.lines}
    promising = {name for name, kind in answering().items() if kind.traits.adaptive and not kind.traits.one_sided}
    assert {missed.mechanism for missed in small.not_played} == promising - played  # their radius says nothing here
    assert small.consistent


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["privacy_budget", "subsampling", "random_rows"])
def test_mechanisms_without_guesses_keep_their_promise_under_attack(mechanism):
    wanted = {"rows": 9_000, "queries": 1_000, "surprises": 1, "confidence": 0.5}
    played = audit(**wanted, mechanisms=[mechanism], runs=4)
    assert played.consistent
    assert len(played.lines) >= 4


def test_no_analyst_asks_more_than_planned_or_much_less(small):
    asked = {line.study.analyst: line.unprotected[0].queries for line in small.lines}  # there nobody is discouraged
    assert all(985 <= queries <= 1_000 for queries in asked.values()), asked
    assert all(line.to_dict()["queries"] <= 1_000 for line in small.lines)


def test_rows_are_rounded_down_and_it_is_said(small):
    assert (small.planned_rows, small.rows) == (1_100, 1_024)
    assert "1024 rows" in small.notes[0]
    assert "power of 2" in small.notes[0]
    assert not any("power of 2" in note for note in audit(rows=256, queries=50, surprises=1, runs=1).notes)


def test_bare_averages_break_what_is_promised(small):
    broken = {
        line.study.analyst: line.unprotected_violations
        for line in small.lines
        if line.study.mechanism == "guess_and_check"
    }
    assert broken == {"honest": 0, "climbing": 3, "greedy": 3, "fingerprinting": 3, "probing": 3}


def test_a_size_at_which_nothing_bites_is_named():
    result = audit(rows=4_096, queries=50, surprises=1, mechanisms=["guess_and_check"], analysts=["honest"], runs=2)
    assert result.lines[0].unprotected_violations == 0
    assert "guess_and_check" in result.notes[-1]


def test_tightness_is_radius_by_worst_error(small):
    for line in small.lines:
        worst = max(outcome.worst_error for outcome in line.study.outcomes)
        assert line.study.tightness == line.study.radius / worst
        assert line.to_dict()["needless"] == 0


@dataclass(frozen=True, kw_only=True)
class Boastful(Empirical):
    """Bare averages that claim to be safe for those who adapt."""

    name: ClassVar[str] = "boastful"
    traits: ClassVar[Traits] = replace(Empirical.traits, adaptive=True)


def test_a_broken_promise_is_found(monkeypatch):
    monkeypatch.setitem(MECHANISMS.own, "boastful", f"{__name__}:Boastful")
    monkeypatch.setitem(MECHANISMS._loaded, "boastful", Boastful)
    result = audit(rows=256, queries=200, mechanisms=["boastful"], analysts=["honest", "climbing"], runs=20)
    honest, climbing = result.lines
    assert honest.study.consistent
    assert climbing.study.violations == climbing.unprotected_violations == 20
    assert not result.consistent


def test_the_same_seed_gives_the_same_games():
    wanted = {"rows": 256, "queries": 60, "surprises": 1, "analysts": ["fingerprinting"], "runs": 3}
    first, again, other = (audit(**wanted, seed=seed).to_dict()["lines"] for seed in (0, 0, 10))
    assert first == again
    assert first != other


def test_progress_counts_every_game():
    seen = []
    audit(
        rows=256, queries=60, surprises=1, mechanisms=["guess_and_check"], analysts=["climbing", "probing"], runs=2,
        progress=lambda done, total: seen.append((done, total)),
    )  # fmt: skip
    assert seen == [(done, 6) for done in range(1, 7)]  # both attack the same bare averages, played once


def test_a_plan_is_played_with_its_own_parameters():
    made = plan(**SMALL, slack=0.1)
    result = audit_plan(json.loads(json.dumps(made.to_dict())), analysts=["probing"], runs=2)
    (line,) = (line for line in result.lines if line.study.mechanism == "guess_and_check")
    assert line.study.radius == made.line("guess_and_check").parameters["tolerance"]
    assert result.rows == 1_024
    assert {missed.mechanism for missed in result.not_played} >= {"laplace", "gaussian"}


def test_lines_without_a_radius_are_left_out():
    made = plan(rows=600, queries=1_000, surprises=1).to_dict()
    result = audit_plan(made, mechanisms=["sample_splitting", "guess_and_check"], analysts=["honest"], runs=1)
    assert [missed.reason for missed in result.not_played] == ["the plan has no radius for it"]


def test_the_document_can_be_written_as_json(small):
    document = json.loads(json.dumps(small.to_dict(), allow_nan=False))
    assert document["consistent"] is True
    assert len(document["lines"]) == len(small.to_rows()) == 10
    assert document["not_played"][0].keys() == {"mechanism", "reason"}


def test_split_rows_are_simulated_up_to_a_size(monkeypatch):
    wanted = {"rows": 256, "queries": 16, "mechanisms": ["sample_splitting"], "analysts": ["climbing"], "runs": 1}
    monkeypatch.setattr(room, "_VACUOUS", 1.1)
    assert len(audit(**wanted).lines) == 1
    monkeypatch.setattr(room, "_MOST_SPLIT", 256 * 16 - 1)
    with pytest.raises(ValueError, match="simulated only up to"):
        audit(**wanted)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"rows": 15}, "rows is 15"),
        ({"rows": 2**20 + 1}, "rows is 1048577"),
        ({"rows": True}, "rows is True"),
        ({"queries": 15}, "queries is 15"),
        ({"runs": 0}, "runs is 0"),
        ({"confidence": 1.0}, "No mechanism can be audited"),
        ({"analysts": ["nobody"]}, "no analyst 'nobody'"),
        ({"mechanisms": ["magic"]}, "'magic' is no mechanism"),
        ({"mechanisms": ["empirical"]}, "promises nothing to analysts who adapt"),
        ({"mechanisms": ["gaussian"], "queries": 20, "analysts": ["probing"]}, "takes no guesses"),
    ],
)
def test_senseless_requests_are_refused(change, reason):
    with pytest.raises(ValueError, match=reason):
        audit(**{**SMALL, **change})


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ([], "not a plan"),
        ({"rows": 5}, "not a plan"),
        ({"rows": 100, "queries": 50, "confidence": 0.9, "lines": [3]}, "not a plan"),
        ({"rows": None, "queries": 50, "confidence": 0.9, "lines": []}, "no number of rows"),
        (
            {"rows": 256, "queries": 50, "confidence": 0.9,
             "lines": [{"mechanism": "gaussian", "radius": 0.1, "parameters": {"colour": 1}}]},
            "not those of this mechanism",
        ),
    ],
)  # fmt: skip
def test_what_is_no_plan_is_refused(document, reason):
    with pytest.raises(ValueError, match=reason):
        audit_plan(document)
