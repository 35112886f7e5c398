"""Cases that are added to a suite: earlier verdicts stay, later ones are about all cases, bad input costs nothing."""

import warnings

import pytest
from sealed_copies import copy_of

import everhold as eh
from everhold.asking.arrivals import appending
from everhold.gates.gate import Gate
from everhold.gates.records import ResultStore


def results(cases, *, right=5, cost=0.2):
    """So many of ten cases right, and a cost."""
    return {f"t{n}": {"a": int(n % 10 < right), "cost": cost} for n in range(cases)}


def go_on(opened, found):
    while (reply := opened.report({case: found[case] for case in opened.next_cases()})).goes_on:
        pass
    return reply.verdict


def seal(folder, units):
    return eh.seal_cases(folder / "suite.db", results=results(60), better="a", not_worse={"cost": 0.5}, units=units)


@pytest.fixture(params=["cases", "runs"])
def suite(request, tmp_path):
    with copy_of(tmp_path, seal, request.param, storage="suite.db", name="suite") as made:
        yield made


@pytest.fixture
def guards(suite):
    return {"baseline": results(100)}


def test_a_later_challenge_has_results_of_all_cases(suite, guards, tmp_path):
    gate = suite.gate(name="main")
    assert not gate.challenge(results(60), challenger="x").promoted
    with pytest.raises(eh.CaseRejected, match="not a case of the suite"):
        gate.challenge(results(100, right=9), challenger="y")
    with eh.Holdout.open(tmp_path / "suite.db", "suite") as elsewhere:
        known = elsewhere.gate(name="main")
        assert eh.add_cases(suite, results(100), **guards).total == 100
        with pytest.raises(eh.CaseRejected, match="has no result"):
            known.challenge(results(60), challenger="x")
        assert not known.challenge(results(100), challenger="x").repeated  # about other cases, so it is a new query
        assert known.challenge(results(100), challenger="x").repeated
        assert go_on(known.open("y", batch=9), results(100, right=10)).promoted
    assert gate.status()["cases"] == 100
    certificate = suite.certificate()
    certificate.save(tmp_path / "suite.json")
    assert eh.verify_certificate(tmp_path / "suite.json", public_key=certificate.public_key).ok
    _, one = gate.history().to_rows()
    same = gate.status()["population"] == "new cases"
    assert one["since_first"] == (0.0 if same else None)  # new runs of other cases have another mean


def test_a_check_sees_cases_that_another_process_added(suite, guards, tmp_path):
    with eh.Holdout.open(tmp_path / "suite.db", "suite") as elsewhere:
        known = elsewhere.gate(name="main")
        eh.add_cases(suite, results(100), **guards)
        assert known.check(results(100), challenger="x").verdict == "undecided"


def test_no_challenge_before_champion_and_baseline_have_results(suite, guards):
    gate = suite.gate(name="main")
    suite.append({"case": ["t60", "t61"], "position": [60, 61]})
    added = {case: row for case, row in results(62).items() if case in ("t60", "t61")}
    assert gate.cases_left() == ["t60", "t61"]
    for call in (gate.challenge, lambda found: gate.open("late")):
        with pytest.raises(eh.QueryRejected, match="no results for 2 cases"):
            call(results(62))
    with pytest.raises(eh.QueryRejected, match="guards need the baseline's results"):
        gate.complete(added)
    with pytest.raises(eh.CaseRejected, match="has no result"):
        gate.complete(added, baseline={"t60": added["t60"]})
    gate.complete(added, baseline=added)
    with pytest.raises(eh.QueryRejected, match="Leave out baseline="):
        gate.complete({}, baseline=added)
    assert gate.cases_left() == []
    assert suite.status()["charged"] == 0


def test_nothing_is_added_while_a_challenge_is_open(suite, guards, monkeypatch):
    opened = suite.gate(name="main").open("x")
    with pytest.raises(eh.QueryRejected, match="is open"):
        eh.add_cases(suite, results(100), **guards)
    opened.withdraw()
    record = appending._record

    def opens_meanwhile(*given, **named):
        suite.gate(name="main").open("y")
        return record(*given, **named)

    monkeypatch.setattr(appending, "_record", opens_meanwhile)
    with pytest.raises(eh.QueryRejected, match="is open"):
        eh.add_cases(suite, results(100), **guards)
    assert suite.status()["rows"] == 60


@pytest.mark.parametrize("point", ["appended", "baseline kept", "completed"])
def test_killed_between_its_steps_the_same_addition_completes_it(suite, guards, tmp_path, monkeypatch, point):
    class Killed(BaseException):
        pass

    complete, keep = Gate.complete, ResultStore.keep

    def killed(*given, **named):
        if point != "appended":
            complete(*given, **named)
        raise Killed

    def kept(store, name, values):
        keep(store, name, values)
        raise Killed

    with monkeypatch.context() as patched:
        if point == "baseline kept":
            patched.setattr(ResultStore, "keep", kept)
        else:
            patched.setattr(Gate, "complete", killed)
        with pytest.raises(Killed):
            eh.add_cases(suite, results(100), **guards)
    with eh.Holdout.open(tmp_path / "suite.db", "suite") as again:
        with pytest.raises(eh.QueryRejected, match="no result of a new case"):
            eh.add_cases(again, results(90), baseline=results(90))
        for _ in range(2):
            assert eh.add_cases(again, results(100), **guards).total == 100
        gate = again.gate(name="main")
        assert (gate.cases_left(), again.status()["arrivals"]["number"]) == ([], 1)
        assert go_on(gate.open("y", batch=9), results(100, right=10)).promoted


def test_an_addition_is_not_completed_for_a_later_champion(suite, guards, monkeypatch):
    eh.add_cases(suite, results(100), **guards)
    gate = suite.gate(name="main")
    assert gate.challenge(results(100, right=10), challenger="y").promoted
    monkeypatch.setattr(Gate, "cases_left", lambda _: ["t99"])  # as after an early promotion
    monkeypatch.setattr(Gate, "complete", lambda *_, **__: pytest.fail("results of the former champion"))
    assert eh.add_cases(suite, results(100), **guards).total == 100


@pytest.mark.parametrize(
    ("found", "wanted", "said"),
    [
        (results(60), {"baseline": results(60)}, "no result of a new case"),
        (results(70), {}, "Pass baseline="),
        (results(70), {"baseline": results(65)}, "has no result"),
        ({**results(70), "t69": {"a": None, "cost": 0.1}}, {"baseline": results(70)}, "the run crashed"),
        ({**results(70), "t69": [{"a": 1, "cost": 0.1}] * 2}, {"baseline": results(70)}, "has 2 runs"),
        (results(70), {"baseline": results(70), "gate": "other"}, "no gate named"),
    ],
)
def test_cases_that_cannot_be_added_change_nothing(suite, found, wanted, said):
    before = suite.status()["ledger_head"]
    with pytest.raises((eh.QueryRejected, ValueError), match=said):
        eh.add_cases(suite, found, **wanted)
    assert suite.status()["ledger_head"] == before
    assert suite.gate(name="main").challenge(results(60)).promoted is False


def test_a_group_arrives_whole(tmp_path):
    groups = {f"t{n}": n // 4 for n in range(100)}
    with eh.seal_cases(tmp_path / "g.db", results=results(62), better="a", groups=groups) as suite:
        with pytest.raises(eh.HoldoutRejected, match="is already in the sealed rows"):
            eh.add_cases(suite, results(64), groups=groups)
        with pytest.raises(eh.HoldoutRejected, match="no column 'group'"):
            eh.add_cases(suite, results(64))
        fresh = {case: row for case, row in results(100).items() if int(case[1:]) >= 64}
        assert eh.add_cases(suite, fresh, groups=groups).total == 98
        assert suite.gate(name="main").challenge(results(62) | {c: {"a": 1} for c in fresh}).promoted is False


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"better": "nothing"}, "has no nothing"),
        ({"better": "a / b / c"}, "ratio of two columns"),
        ({"better": "a", "baseline": results(50)}, "has no result"),
        ({"better": "a", "groups": {"t0": 0}}, "no group of case 't1'"),
        ({"better": "a", "margin": 2.0}, "margin is 2.0"),
    ],
)
def test_a_suite_that_cannot_have_its_gate_is_not_sealed(tmp_path, wanted, said):
    with pytest.raises(eh.QueryRejected, match=said):
        eh.seal_cases(tmp_path / "s.db", results=results(60), **wanted)
    eh.seal_cases(tmp_path / "s.db", results=results(60), better="a").close()


def growing(folder, name):
    rows = {"case": [f"t{n}" for n in range(60)]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", eh.EverholdWarning)
        return eh.Holdout.create(
            folder / "s.db", name, holdout=rows, rows=eh.Rows(row_id="case"), mechanism="guess_and_check",
            planning=eh.Planning(allow_vacuous=True, grows=True), allow_resealing=True,
        )  # fmt: skip


def test_rows_that_have_trees_of_their_own_have_no_gate(tmp_path):
    with growing(tmp_path, "first the gate") as holdout:
        holdout.gate(better="a", champion=results(60))
        with pytest.raises(eh.QueryRejected, match="gates, which do not support arrivals"):
            holdout.append({"case": ["t60"]})
    with growing(tmp_path, "first the rows") as holdout:
        holdout.append({"case": ["t60"]})
        with pytest.raises(eh.QueryRejected, match="with grows=True"):
            holdout.gate(better="a", champion=results(61))


def test_after_a_loss_other_cases_do_not_get_the_results_of_those_that_were_lost(suite, guards, tmp_path):
    storage = tmp_path / "suite.db"
    suite.close()
    copy = storage.read_bytes()
    with eh.Holdout.open(storage, "suite") as later:
        eh.add_cases(later, results(70), baseline=results(70))
    for path in tmp_path.glob("suite.db*"):
        if path.is_file():
            path.unlink()
    storage.write_bytes(copy)
    with eh.Holdout.open(storage, "suite", recover=True) as again:
        gate = again.gate(name="main")
        assert gate.cases_left() == []
        again.append({"case": [f"other{n}" for n in range(10)], "position": list(range(60, 70))})
        assert len(gate.cases_left()) == 10
