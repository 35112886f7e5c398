"""Checks through the ledger: what is free, what is charged, and what a certificate says of it."""

import json
import os
import subprocess
import sys
import warnings
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

import everhold as eh
from everhold.asking.unsealing import as_row
from everhold.errors import QueryRejected

CASES = 200


def results(chance, seed):
    rng = np.random.default_rng(seed)
    return {f"case {number}": [int(rng.random() < chance) for _ in range(4)] for number in range(CASES)}


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checks")
    made = eh.seal_cases(f"sqlite:///{folder}/s.db", results=results(0.8, 1), better="passed", units="runs")
    with made:
        yield made


def test_a_verdict_is_free_while_it_is_the_same_and_changes_no_champion(suite):
    gate = suite.gate(name="main")
    first = gate.champion
    told = [gate.check(results(chance, seed), margin=margin, challenger=f"v{seed}") for chance, margin, seed in (
        (0.8, 0.02, 2), (0.8, 0.12, 3), (0.8, 0.12, 4), (0.5, 0.12, 5), (0.5, 0.02, 6), (0.8, 0.12, 7),
    )]  # fmt: skip
    labels = suite._session("test").executor.state().labels
    assert labels == 3 * 693_148  # nats in millionths: each charged verdict is one of two others
    assert [(each.verdict, each.charged) for each in told] == [
        ("undecided", 0), ("not worse", 1), ("not worse", 0), ("regression", 1), ("regression", 0), ("not worse", 1),
    ]  # fmt: skip
    assert [(each.low, each.high) for each in told[1:4]] == [(-0.12, None), (-0.12, None), (None, -0.12)]
    assert told[0].cases_needed > 1_000
    assert "or with more runs of these in the same proportion" in told[0].explain()
    assert [bool(each) for each in told[:4]] == [False, True, True, False]
    again = gate.check(results(0.8, 3), margin=0.12, challenger="v3")
    assert (again.verdict, again.charged, again.repeated) == ("not worse", 0, True)
    assert str(again).startswith("stored verdict of v3: not worse")
    for other in ({"results": results(0.1, 8)}, {"results": results(0.8, 3), "baseline": results(0.8, 1)}):
        with pytest.raises(QueryRejected, match=r"'v3' has a verdict \(not worse\), which is about other results"):
            gate.check(**other, margin=0.12, challenger="v3")
    assert gate.champion == first
    assert gate.challenge(results(0.99, 9), challenger="better").promoted
    assert gate.check(results(0.8, 10), margin=0.12).verdict in ("not worse", "undecided")  # still against the baseline
    assert gate.status()["challenges"] == 8
    shown = [row["source"] for row in suite.transcript().to_rows() if "checked" in row["asked"]]
    assert shown[:6] == [each.verdict for each in told]
    listed = [query for query in suite.certificate().to_dict()["account"]["queries"] if "verdict" in query]
    assert [query["verdict"] for query in listed[:6]] == shown[:6]


def test_equal_results_that_a_smaller_level_no_longer_proves_cost_nothing_more(tmp_path):
    """120 cases prove equal results not worse by .1 three times; a version that is better is proved for longer."""
    equal = {f"case {number}": int(number % 4 > 0) for number in range(120)}
    better, worse = dict.fromkeys(equal, 1), dict.fromkeys(equal, 0)
    address = f"sqlite:///{tmp_path}/s.db"
    with eh.seal_cases(address, results=equal, better="passed") as suite, eh.Holdout.open(address, "suite") as other:
        gate, elsewhere = suite.gate(name="main"), other.gate(name="main")

        def told(results, by=gate):
            found = by.check(results, margin=0.1)
            return found.verdict, found.charged

        assert [told(equal) for _ in range(2)] == [("not worse", 1), ("not worse", 0)]
        assert told(equal, elsewhere) == ("not worse", 0)  # the first process does not know of it
        assert [told(equal) for _ in range(2)] == [("undecided", 0)] * 2
        assert (
            "runs" not in gate.check(equal, margin=0.1).explain()
        )  # more runs of 120 cases prove nothing of new cases
        assert [told(better) for _ in range(3)] == [("not worse", 1), ("not worse", 0), ("not worse", 0)]
        assert [told(worse) for _ in range(2)] == [("regression", 1), ("regression", 0)]
        assert [told(equal) for _ in range(2)] == [("undecided", 1), ("undecided", 0)]
        assert suite.remaining["surprises"] == 10 - 4
        free = [entry.description["check"]["free"] for entry in suite._session("test").executor.ledger.entries(1)
                if "check" in entry.description]  # fmt: skip
    assert free == ["undecided", *["not worse"] * 2, *["undecided"] * 4, *["not worse"] * 3, *["regression"] * 2,
                    "undecided"]  # fmt: skip


def test_the_certificate_counts_checks_and_verifies(suite, tmp_path):
    for chance, seed in ((0.8, 21), (0.5, 22), (0.5, 23)):
        suite.gate(name="main").check(results(chance, seed), margin=0.15, challenger=f"certified {seed}")
    certificate = suite.certificate()
    (gate,) = certificate.to_dict()["account"]["gates"]
    assert gate["checks"]["made"] >= 3
    assert gate["checks"]["made"] > gate["checks"]["charged"] >= 1
    certificate.save(tmp_path / "c.json")
    assert eh.verify_certificate(tmp_path / "c.json").ok
    assert "checks against the baseline" in certificate.to_html()
    found = " ".join(certificate.in_words()["summary"]["found"])
    # A check is no challenge that proves nothing. Another test challenged once, if it ran before.
    assert "of 0 challenges, 0 proved" in found or "of 1 challenge, 1 proved" in found
    assert f"{gate['checks']['made']} checks compared a version with the baseline" in found
    document = json.loads(certificate.to_json())
    for changed in ({"made": 1, "charged": 2}, {"made": 0, "charged": 0}):
        document["account"]["gates"][0]["checks"] = changed
        (tmp_path / "c.json").write_text(json.dumps(document))
        assert not eh.verify_certificate(tmp_path / "c.json").ok


def test_what_cannot_be_checked_is_refused_and_costs_nothing(suite):
    gate = suite.gate(name="main")
    before = suite.remaining
    for margin in (1.0, -1.0, float("nan"), "wide"):
        with pytest.raises(QueryRejected, match="The margin is"):
            gate.check(results(0.8, 1), margin=margin)
    with pytest.raises(eh.CaseRejected, match="has no result"):
        gate.check({"case 1": [1, 1, 1, 1]}, margin=0.1)
    assert suite.remaining == before


def test_a_baseline_without_results_on_cases_that_arrived_is_no_baseline(tmp_path):
    with eh.seal_cases(f"sqlite:///{tmp_path}/s.db", results=results(0.8, 1), better="passed", units="runs") as suite:
        more = {f"new {number}": runs for number, runs in enumerate(results(0.8, 2).values())}
        eh.add_cases(suite, more)
        gate, bad = suite.gate(name="main"), results(0.1, 3) | {case: [0, 0, 0, 1] for case in more}
        with pytest.raises(QueryRejected, match="no results on 200 cases"):
            gate.check(bad, margin=0.1, challenger="worse")
        assert gate.status()["challenges"] == 0
        assert gate.check(bad, margin=0.1, challenger="worse", baseline=results(0.8, 1) | more).verdict == "regression"


def test_checks_of_the_same_version_block_nothing(tmp_path):
    with eh.seal_cases(f"sqlite:///{tmp_path}/s.db", results=results(0.8, 1), better="passed", units="runs") as suite:
        gate = suite.gate(name="main")
        told = [gate.check(results(0.8, 100 + number), margin=0.2) for number in range(60)]
    verdicts = [each.verdict for each in told]
    assert "regression" not in verdicts
    assert verdicts.count("not worse") > 50
    assert sum(each.charged for each in told) <= 2 * min(verdicts.count("undecided") + 1, 30)


def test_the_command_leaves_with_the_verdict(tmp_path):
    from everhold.cli.application import app

    def file(name, chance, seed):
        lines = ["case,run,passed"] + [
            f"{case},{run},{each}" for case, runs in results(chance, seed).items() for run, each in enumerate(runs)
        ]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        return str(tmp_path / name)

    def run(*arguments):
        return CliRunner().invoke(app, [*arguments, "--storage", str(tmp_path / "s.db")])

    assert run("suite", file("first.csv", 0.8, 1)).exit_code == 0
    for chance, margin, code in ((0.8, 0.15, 0), (0.4, 0.1, 1), (0.8, 0.01, 4)):
        found = run("check", file("next.csv", chance, 2), "--margin", str(margin), "--summary", str(tmp_path / "s.md"))
        assert found.exit_code == code, found.output
    summary = (tmp_path / "s.md").read_text()
    assert "Nothing is proved" in summary
    assert [line for line in summary.splitlines() if line.startswith("| difference")] == [
        "| difference | more than -0.15 |", "| difference | -0.1 or less |", "| difference | nothing is told |",
    ]  # fmt: skip
    wrong = run("check", file("next.csv", 0.8, 2), "--margin", "7", "--summary", str(tmp_path / "s.md"))
    assert wrong.exit_code == 2
    assert "### Gate main: error\n\nThe margin is 7" in (tmp_path / "s.md").read_text()
    closed, pipe = os.pipe()
    os.close(closed)
    command = [sys.executable, "-c", "import everhold.cli as c; c.main()", "check", str(tmp_path / "next.csv")]
    piped = subprocess.run(
        [*command, "--margin", "0.15", "--storage", str(tmp_path / "s.db")], check=False, stdout=pipe,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    assert piped.returncode == 2  # the verdict was "not worse", but nobody read it


@pytest.mark.parametrize("fault", [RuntimeError("a row: 7"), ModuleNotFoundError(name="pyarrow"), KeyboardInterrupt()])
def test_no_fault_leaves_a_check_with_the_code_of_a_regression(tmp_path, monkeypatch, fault):
    from everhold.cli import arguments
    from everhold.cli.application import app

    def broken(*_):
        raise fault

    monkeypatch.setattr(arguments, "opened", broken)
    for command in ("check", "challenge"):
        told = CliRunner().invoke(app, [command, str(tmp_path / "no.csv"), "--storage", "s.db"])
        assert told.exit_code == 2
        assert told.stderr.startswith("error: ")
        assert "a row" not in told.stderr


def test_unsealing_tells_the_gain_of_each_challenge_in_units_of_the_metric(tmp_path):
    def dear(chance, seed):
        return {case: [10 * each for each in runs] for case, runs in results(chance, seed).items()}

    terms = {"better": "value", "units": "runs", "ranges": {"value": (0, 10)}}
    with eh.seal_cases(f"sqlite:///{tmp_path}/s.db", results=dear(0.5, 1), **terms) as suite:
        gate = suite.gate(name="main")
        told = [gate.challenge(dear(chance, seed)) for chance, seed in ((0.5, 2), (0.8, 3), (0.85, 4))]
        (promotion,) = gate.history().to_rows()[1:]
        assert (promotion["low"], promotion["high"]) == (0.0, 10.0)
        unsealed = suite.unseal()
        suite.certificate().save(tmp_path / "c.json")
    assert [each.promoted for each in told] == [False, True, False]
    assert eh.verify_certificate(tmp_path / "c.json").ok
    rows = unsealed.rows
    assert [row["sealed"] for row in rows] == pytest.approx([0.0, 3.0, 0.5], abs=0.7)
    assert 1.0 < rows[1]["sealed_low"] < rows[1]["sealed"]
    assert rows[0]["sealed_low"] < 0.0
    assert {row["sealed_high"] for row in rows} == {10.0}


def test_gains_beside_guards_are_unsealed_and_in_the_history(tmp_path):
    def run(chance, seed):
        rng = np.random.default_rng(seed)
        return {
            f"case {n}": [{"passed": int(rng.random() < chance), "cost": 0.5} for _ in range(4)] for n in range(100)
        }

    with eh.seal_cases(
        f"sqlite:///{tmp_path}/suite.db", results=run(0.4, 1), better="passed", units="runs", not_worse={"cost": 0.3},
        challenges=5,
    ) as suite:  # fmt: skip
        gate = suite.gate(name="main")
        assert gate.challenge(run(0.8, 2), challenger="b").promoted
        assert "gain" not in gate.history().to_rows()[1]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", eh.EverholdWarning)
            (told,) = suite.unseal().to_rows()
        row = gate.history().to_rows()[1]
        assert row["gain_low"] == pytest.approx(told["sealed_low"])
        assert 0.0 <= row["gain_low"] <= 0.4 < row["gain"] + 0.1


@pytest.mark.parametrize("units", ["cases", "runs"])
def test_gains_of_open_challenges_are_unsealed(tmp_path, units):
    versions = [results(chance, seed) for chance, seed in ((0.5, 1), (0.97, 2), (0.5, 3))]
    with eh.seal_cases(f"sqlite:///{tmp_path}/s.db", results=versions[0], better="passed", units=units) as suite:
        gate, told = suite.gate(name="main"), []
        for name, version in zip("bc", versions[1:], strict=True):
            opened, progress = gate.open(name, batch=20), None
            while progress is None or progress.goes_on:
                progress = opened.report({case: version[case] for case in opened.next_cases()})
            told.append(progress)
            if left := gate.cases_left():
                opened.complete({case: version[case] for case in left})
        withdrawn = gate.open("d")
        withdrawn.withdraw()
        rows = suite.unseal().to_rows()
        promotion = gate.history().to_rows()[1]
        suite.certificate().save(tmp_path / "c.json")
    assert eh.verify_certificate(tmp_path / "c.json").ok
    assert [bool(each.verdict) for each in told] == [True, False]
    assert told[0].reported < CASES == told[1].reported
    better, later = rows  # the challenge that was withdrawn tells none
    assert ["passed of b" in better["asked"], "passed of c" in later["asked"]] == [True, True]
    # of the cases that were handed out by chance until the proof, at least 20: a standard error of .11
    assert promotion["gain"] == pytest.approx(better["sealed"]) == pytest.approx(0.47, abs=0.4)
    assert promotion["gain_low"] == pytest.approx(better["sealed_low"])
    assert 0.0 <= promotion["gain_low"] < promotion["gain"]  # 0 if it was promoted at the first proof
    assert later["sealed_low"] < later["sealed"] < 0.0


def test_gains_are_rounded_outwards_and_0_stays_0():
    challenge = SimpleNamespace(description={"kind": "challenge"})
    assert as_row(challenge, (0.5, 0.5, 0.75)) == (0.0, 0.0, 0.5)
    for end in (0.1, 1e-20, 0.3, 0.7):
        _, low, high = as_row(challenge, (end, end, end))
        assert low <= 2 * Fraction(end) - 1 <= high
        assert high - low < 1e-15
