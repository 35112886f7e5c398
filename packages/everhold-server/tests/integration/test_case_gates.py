"""Gates about cases behind a service: the client does what the library does, and bad input costs nothing."""

import math

import pytest
from client_samples import serving

import everhold as eh

CASES = 40


def results(right, cases=range(CASES), cost=0.3):
    """So many cases right, in the order of their numbers, and a cost."""
    return {f"t{n}": [{"accuracy": int(n < right), "cost": cost}] for n in cases}


def only(found, cases):
    return {case: found[case] for case in cases}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    with eh.seal_cases(f"{folder}/study.db", "study", results=results(4), better="accuracy", gate="first") as suite:
        suite.allot("ada", queries=60, charges=3)
    with serving(folder) as found:
        yield found


@pytest.fixture(scope="module")
def gate(service):
    """A gate with a guard, as the steward has it."""
    with service.connect(service.root) as holdout:
        wanted = {"better": "accuracy", "not_worse": {"cost": 0.5}, "champion": results(4), "name": "main"}
        assert holdout.gate(**wanted).name == holdout.gate(**wanted).name == "main"
        yield holdout.gate(name="main")


@pytest.fixture
def asked(service, gate):
    """The same gate, as an analyst has it."""
    with service.connect(service.ada) as holdout:
        yield holdout.gate(name="main")


def test_what_is_not_served_says_where_it_is(gate):
    with pytest.raises(eh.errors.QueryRejected, match="does not offer shares of a gate"):
        gate.shares({})
    assert not hasattr(gate, "promote")


def test_a_night_over_http(gate, asked, service):
    assert not asked.challenge(results(5), challenger="poor").promoted
    opened = asked.open("good", batch=8)
    first = opened.next_cases()
    assert opened.report(only(results(40), first[1:])).missing == 1
    assert opened.next_cases() == first[:1]
    with pytest.raises(eh.CaseRejected) as found:
        opened.report(only(results(40), first[1:]))
    assert found.value.data["fault"] == "missing"
    with pytest.raises(eh.CaseRejected, match="Pass a number"):
        opened.report({first[0]: [{"accuracy": math.nan, "cost": 0.3}]})
    reply = opened.report(only(results(40), first[:1]))
    while reply.goes_on:
        assert gate.status()["open"]
        reply = opened.report(only(results(40), opened.next_cases()))
    assert reply.verdict.promoted
    assert reply.verdict.analyst == "ada"
    assert opened.next_cases() == []
    left = asked.cases_left()
    assert len(left) == CASES - reply.reported
    asked.complete(only(results(40), left))
    assert asked.cases_left() == []
    dear = asked.challenge(results(40, cost=0.9), challenger="dear")
    assert not dear.promoted
    assert "cost" not in str(dear)
    with service.connect(service.eve) as seen:
        history = seen.gate(name="main").history()
    assert [(row["low"], row["since_first"]) for row in history.to_rows()] == [(None, None), (0.0, 0.0)]
    assert history.challenges == 3


def test_checks_and_forecasts_over_http_are_those_of_the_library(tmp_path):
    runs = {f"t{n}": [{"accuracy": int(n % 2)}] for n in range(160)}
    better = {case: [{"accuracy": 1}] for case in runs}
    with eh.seal_cases(f"{tmp_path}/study.db", "study", results=runs, better="accuracy", open=0.5) as suite:
        suite.allot("ada", queries=9, charges=2)
        here = suite.gate(name="main")
        known = here.open_cases, here.worth_asking(better), here.worth_asking(runs)
    with serving(tmp_path) as service, service.connect(service.ada) as ada:
        gate = ada.gate(name="main")
        assert (gate.open_cases, gate.worth_asking(better), gate.worth_asking(runs)) == known
        with pytest.raises(eh.QueryRejected, match="do not have all 80 open cases"):
            gate.worth_asking({"t1": [{"accuracy": 1}]})
        told = gate.check(better, margin=0.2, challenger="v2")
        assert (told.verdict, told.low, told.charged, bool(told)) == ("not worse", -0.2, 1, True)
        again = gate.check(better, margin=0.2, challenger="v2")
        assert (again.verdict, again.charged, again.repeated) == ("not worse", 0, True)
        with pytest.raises(eh.QueryRejected, match="about other results than these"):
            gate.check(runs, margin=0.2, challenger="v2")
        with pytest.raises(eh.QueryRejected, match="The margin is 7"):
            gate.check(better, margin=7)
    with serving(tmp_path) as service, service.connect(service.eve) as viewer:
        assert viewer.gate(name="main").open_cases == known[0]
        with pytest.raises(eh.EverholdError):
            viewer.gate(name="main").check(better, margin=0.2)


def test_new_runs_of_the_champion_travel(asked):
    verdict = asked.challenge(results(40), challenger="again", champion=results(40), baseline=results(4))
    assert not verdict.promoted
    with pytest.raises(eh.QueryRejected, match="passed together"):
        asked.challenge(results(40), champion=results(40))


def test_a_withdrawn_challenge_is_kept(asked):
    opened = asked.open("other")
    assert not opened.withdraw().promoted
    with pytest.raises(eh.QueryRejected, match="has ended"):
        opened.withdraw()
    with pytest.raises(eh.QueryRejected, match="has no open challenge"):
        type(opened)(asked, "never").next_cases()


def test_an_open_challenge_is_that_of_its_analyst_over_http(tmp_path):
    with eh.seal_cases(f"{tmp_path}/study.db", "study", results=results(4), better="accuracy") as suite:
        for name in ("ada", "bob"):
            suite.allot(name, queries=9, charges=2)
    with serving(tmp_path) as service, service.connect(service.ada) as ada, service.connect(service.root) as root:
        opened = ada.gate(name="main").open("one", batch=20)
        with service.connect(service.bob) as bob:
            gate = bob.gate(name="main")
            others = type(opened)(gate, "one")
            sent = only(results(40), opened.next_cases())
            for act in (others.next_cases, others.withdraw, lambda: others.report(sent), lambda: gate.open("one")):
                with pytest.raises(eh.QueryRejected, match="Another analyst"):
                    act()
            with pytest.raises(eh.QueryRejected, match="not yours"):
                gate.cases_left()
            assert "open_challenge" not in gate.status()
        for known in (ada, root):
            assert known.gate(name="main").status()["open_challenge"]["challenger"] == "one"
        assert root.gate(name="main").open("one").withdraw().analyst == "ada"


def test_ranges_of_metrics_travel_as_pairs(service):
    with service.connect(service.root) as holdout:
        wanted = {"better": "accuracy", "not_worse": {"cost": 2.0}, "champion": results(4, cost=3.0)}
        with pytest.raises(eh.QueryRejected, match="outside the range of its metric"):
            holdout.gate(**wanted, name="dear")
        wanted["ranges"] = {"cost": (0.0, 4.0)}
        assert holdout.gate(**wanted, name="dear").status()["metric"].startswith("cases: accuracy (guard: cost")
        with pytest.raises(eh.QueryRejected, match="ranges"):
            holdout.gate(**{**wanted, "ranges": {"cost": (0.0, "4")}}, name="text")


def test_only_a_steward_opens_a_gate(service):
    with service.connect(service.ada) as holdout, pytest.raises(eh.AuthError):
        holdout.gate(better="accuracy", champion=results(4), name="mine")


@pytest.mark.parametrize("sent", [3, [["t1"]], [[1.5, [1]]], {"t1": [{"accuracy": [1]}]}])
def test_what_are_no_results_is_refused(gate, sent):
    before = gate.status()
    with pytest.raises(eh.QueryRejected, match=r"results|case id"):
        gate._transport.send("/gates/main/results", {"results": sent, "challenger": "odd"})
    assert gate.status() == before


def test_cases_that_are_appended_need_results_of_champion_and_baseline(tmp_path):
    wanted = {"results": results(4), "better": "accuracy", "not_worse": {"cost": 0.5}}
    with eh.seal_cases(f"{tmp_path}/study.db", "study", **wanted) as suite:
        suite.allot("ada", queries=9, charges=3)
    (tmp_path / "more.csv").write_text("case,position\nt40,40\nt41,41\n")
    added = results(40, (40, 41))
    with serving(tmp_path) as service, service.connect(service.root) as holdout:
        holdout.append(tmp_path / "more.csv")
        gate = holdout.gate(name="main")
        assert gate.cases_left() == ["t40", "t41"]
        with pytest.raises(eh.QueryRejected, match="no results for 2 cases"):
            gate.challenge(results(40, range(42)))
        with pytest.raises(eh.QueryRejected, match="guards need the baseline's results"):
            gate.complete(added)
        gate.complete(added, baseline=added)
        assert gate.status()["cases"] == 42
        assert gate.challenge(results(40, range(42))).promoted
