"""Suites with open and sealed cases: what is open, what a challenge reads, and whether it is worth asking."""

import datetime
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import everhold as eh
from everhold.errors import CaseRejected, CaseWarning, HoldoutNotFound, IntegrityError, QueryRejected
from everhold.gates.cases import OPEN_FILE, OpenCases
from everhold.gates.opening import deal_cases
from everhold.sealing.storage import rows_folder

CASES = [f"case {number}" for number in range(120)]


def results(chance, seed=0, cases=CASES, runs=4):
    rng = np.random.default_rng(seed)
    return {case: [{"passed": int(rng.random() < chance)} for _ in range(runs)] for case in cases}


def good_on(cases):
    return results(0.95, cases=cases) | results(0.1, cases=[case for case in CASES if case not in cases])


def sealed(folder, name="suite", **terms):
    given = {"results": results(0.6), "better": "passed", "units": "runs", "open": 0.5, "challenges": 3} | terms
    return eh.seal_cases(f"sqlite:///{folder}/suite.db", name, **given)


def test_half_of_the_cases_is_open_and_challenges_are_about_the_others(tmp_path):
    with sealed(tmp_path) as suite:
        gate = suite.gate(name="main")
        hidden = [case for case in CASES if case not in gate.open_cases]
        assert (len(gate.open_cases), len(hidden)) == (60, 60)
        assert (gate.status()["cases"], gate.status()["open_cases"]) == (60, 60)
        assert (
            gate.shares(results(0.6)).to_dict() == gate.shares({case: results(0.6)[case] for case in hidden}).to_dict()
        )
        better, luck = good_on(hidden), good_on(gate.open_cases)
        assert gate.challenge(better, challenger="good on sealed cases alone").promoted
        assert not gate.challenge(luck, challenger="good on open cases alone").promoted
        with pytest.raises(QueryRejected, match="are of open cases alone"):
            gate.challenge({case: better[case] for case in gate.open_cases})
        with pytest.raises(CaseRejected, match="has no result"):
            gate.challenge({case: better[case] for case in hidden[1:]})
        assert (
            gate.challenge({case: luck[case] for case in hidden}, challenger="sealed cases are enough").promoted
            is False
        )


def test_open_cases_are_whole_groups_and_the_same_share_of_each_stratum():
    groups = {case: int(case.split()[1]) // 4 for case in CASES}
    strata = {case: "hard" if group < 10 else "easy" for case, group in groups.items()}
    drawn = deal_cases(CASES, 0.3, groups=groups, strata=strata, rng=np.random.default_rng(1))
    per_group = {group: sum(groups[case] == group for case in drawn) for group in groups.values()}
    assert set(per_group.values()) == {0, 4}
    assert sum(strata[case] == "hard" for case in drawn) == 3 * 4
    assert len(drawn) == 9 * 4
    with pytest.raises(QueryRejected, match="'case 3' has no stratum"):
        deal_cases(CASES, 0.3, groups=None, strata=dict.fromkeys(CASES[:3], 1), rng=np.random.default_rng(1))
    for share in (0.0, 1.0, "half", 1e-4):
        with pytest.raises(QueryRejected, match=r"open is|would be open"):
            deal_cases(CASES, share, groups=None, strata=None, rng=np.random.default_rng(1))


@pytest.mark.parametrize("share", [0.5, 0.3])
def test_every_case_is_open_with_the_same_probability_and_every_stratum_has_its_share(share):
    """Strata of 1, 3, 2, 5 and 1 cases: the parts that no whole case can have go to each stratum in turn, by chance."""
    ids, sizes, draws = list(range(12)), (1, 3, 2, 5, 1), 4_000
    strata = dict(zip(ids, np.repeat(range(5), sizes).tolist(), strict=True))
    times, pairs = np.zeros(12), np.zeros((12, 12))
    for seed in range(draws):
        drawn = deal_cases(ids, share, groups=None, strata=strata, rng=np.random.default_rng(seed))
        for stratum, size in enumerate(sizes):
            count = sum(strata[case] == stratum for case in drawn)
            assert abs(count - share * size) < 1.0
        assert abs(len(drawn) - share * 12) < 1.0
        times[drawn] += 1
        pairs[np.ix_(drawn, drawn)] += 1
    five_errors = 5.0 * (share * (1.0 - share) / draws) ** 0.5
    assert np.abs(times / draws - share).max() < five_errors
    within = pairs[6:11, 6:11][np.triu_indices(5, 1)] / draws  # every two cases of a stratum are open together as often
    assert within.max() - within.min() < 2.0 * five_errors


def test_a_group_of_several_strata_is_open_as_often_as_others_and_suites_of_strata_take_more_cases(tmp_path):
    groups = {case: int(case.split()[1]) // 2 for case in CASES}
    strata = {case: int(case.split()[1]) % 2 for case in CASES}  # of each group one case is in either
    drawn = deal_cases(CASES, 0.5, groups=groups, strata=strata, rng=np.random.default_rng(1))
    assert [sum(strata[case] == each for case in drawn) for each in (0, 1)] == [30, 30]
    hard = {case: int(number < 30) for number, case in enumerate(CASES)}
    with sealed(tmp_path, strata=hard) as suite:
        opened = suite.gate(name="main").open_cases
        assert sum(hard[case] for case in opened) == 15
        more = [f"more {number}" for number in range(20)]
        eh.add_cases(suite, results(0.6, cases=[*CASES, *more]))
        gate = suite.gate(name="main")
        assert gate.open_cases == opened
        assert set(gate.suite.ids) == {*CASES, *more} - {*opened}
        assert gate.challenge(results(0.95, cases=[*CASES, *more])).promoted
    with pytest.raises(QueryRejected, match=r"'case 119' has no stratum\. Name the stratum of each of 120 cases"):
        sealed(tmp_path, "lacking", strata=dict.fromkeys(CASES[:-1], 1))
    with pytest.raises(QueryRejected, match="strata= is given without open="):
        sealed(tmp_path, "closed", open=None, strata=hard)


def test_worth_asking_says_yes_no_or_never_and_asks_nothing(tmp_path):
    with sealed(tmp_path) as suite:
        gate = suite.gate(name="main")
        same, better = gate.worth_asking(results(0.6, seed=1)), gate.worth_asking(results(0.9, seed=2))
        assert (same.verdict, bool(same)) == ("no", False)
        assert same.gain < same.needed_gain < 0.2
        assert (better.verdict, better.needed_cases) == ("yes", 0)
        assert suite.remaining["queries"] == 3
    with sealed(tmp_path, "small", results=results(0.6, cases=CASES[:4]), challenges=300) as suite:
        never = suite.gate(name="main").worth_asking(results(1.0))
        assert never.verdict == "never"
        assert never.needed_cases >= 1
    closed = sealed(tmp_path, "closed", results=results(0.6, seed=3), open=None, allow_resealing=True)
    with closed as suite, pytest.raises(QueryRejected, match="All cases of this suite are sealed"):
        suite.gate(name="main").worth_asking(results(0.9))


def test_a_version_without_a_fault_on_open_cases_is_worth_asking_where_its_gain_can_be_proved(tmp_path):
    """One run of each case: 48 of 60 cases pass, and then all do. The sign test proves 12 wins."""
    first = {name: [int(number % 5 > 0)] for number, name in enumerate(CASES)}
    faultless, strata = {name: [1] for name in CASES}, {name: str(passed) for name, passed in first.items()}
    with sealed(tmp_path, results=first, strata=strata, challenges=200, units="cases") as suite:
        gate = suite.gate(name="main")
        told = gate.worth_asking(faultless)
        assert told.verdict == "yes"
        assert told.gain < told.needed_gain
        assert "in about half of the challenges" in told.explain()
        assert gate.worth_asking(first).verdict == "no"
        assert gate.challenge(faultless).promoted


def test_the_gain_that_is_needed_is_proved_in_about_four_of_five_challenges(tmp_path):
    needed = proved = 0.0
    for seed in range(12):
        first = results(0.6, seed=100 + seed)
        with sealed(tmp_path, f"suite {seed}", results=first, challenges=1, allow_resealing=True) as suite:
            gate = suite.gate(name="main")
            needed = gate.worth_asking(results(0.75, seed=200 + seed)).needed_gain
            proved += gate.challenge(results(0.6 + needed, seed=300 + seed)).promoted
    assert 6 <= proved <= 12  # of ten games like this one, one has fewer than seven


def test_a_new_champion_brings_its_results_on_open_cases(tmp_path):
    with sealed(tmp_path) as suite:
        gate = suite.gate(name="main")
        assert gate.challenge(results(0.95, seed=4)).promoted
        assert gate.worth_asking(results(0.95, seed=5)).gain == pytest.approx(0.0, abs=0.15)  # .35 over the first
    with sealed(tmp_path, "again", allow_resealing=True) as suite:
        gate = suite.gate(name="main")
        hidden = [case for case in CASES if case not in gate.open_cases]
        assert gate.challenge({case: runs for case, runs in results(0.95).items() if case in hidden}).promoted
        with pytest.raises(QueryRejected, match="results of the champion do not have all 60 open cases"):
            gate.worth_asking(results(0.95))
        assert gate.worth_asking(results(0.95, seed=5), champion=results(0.95, seed=4)).gain < 0.1


def test_results_of_several_versions_on_open_cases_are_remembered(tmp_path):
    with sealed(tmp_path) as suite:
        gate, other = (
            suite.gate(name="main"),
            suite.gate(
                name="other",
                better="passed",
                units="runs",
                champion={
                    case: [{"passed": n == 3} for n in range(4)]
                    for case in CASES
                    if case not in suite.gate(name="main").open_cases
                },
            ),
        )
        hidden = [case for case in CASES if case not in gate.open_cases]
        with pytest.raises(QueryRejected, match="results of the champion do not have all 60 open cases"):
            other.worth_asking(results(0.9))
        for number in range(25):
            gate.worth_asking(results(0.9, seed=number), challenger=f"v{number}")
        opened = gate.open("v24", batch=len(hidden))
        better = results(0.95)
        assert opened.report({case: better[case] for case in opened.next_cases()}).verdict.promoted
        assert other.challenge(results(0.9, seed=9)).promoted
        assert abs(gate.worth_asking(results(0.9, seed=30)).gain) < 0.2  # each gate has its own champion
        assert abs(other.worth_asking(results(0.9, seed=30)).gain) < 0.2  # .3 and .65 over the first ones
        noted = OpenCases.of(gate._folder, suite._session("test").executor.key.notes_key)
        assert len(noted.results) <= 22


def test_which_test_is_used_follows_from_the_open_cases_of_the_first_champion(tmp_path):
    with sealed(tmp_path) as suite:
        assert suite.gate(name="main").suite.tail
        assert suite.gate(name="main", better="passed", units="runs").suite.tail
    steady = {case: [{"passed": int(number % 3 > 0)}] * 4 for number, case in enumerate(CASES)}
    with pytest.warns(CaseWarning), sealed(tmp_path, "steady", results=steady, allow_resealing=True) as suite:
        assert not suite.gate(name="main").suite.tail
    for terms in ({"units": "cases"}, {"open": None}):
        with sealed(tmp_path, f"with {next(iter(terms))}", allow_resealing=True, **terms) as suite:
            assert not suite.gate(name="main").suite.tail


def test_an_altered_list_of_open_cases_is_found(tmp_path):
    sealed(tmp_path).close()
    (note,) = rows_folder(f"sqlite:///{tmp_path}/suite.db").glob(f"*/{OPEN_FILE}")
    assert set(json.loads(note.read_bytes()[:-65])) == {"ids", "results"}
    note.chmod(0o600)
    note.write_bytes(note.read_bytes().replace(b"case 1", b"case 2", 1))
    with pytest.raises(IntegrityError, match=OPEN_FILE):
        eh.Holdout.open(f"sqlite:///{tmp_path}/suite.db", "suite")


def test_cases_that_are_open_are_never_sealed_later(tmp_path):
    with sealed(tmp_path) as suite:
        opened = set(suite.gate(name="main").open_cases)
        with pytest.raises(QueryRejected, match="no result of a new case"):
            eh.add_cases(suite, results(0.6))
        more = [f"more {number}" for number in range(20)]
        for _ in range(2):  # again, as after a kill
            assert eh.add_cases(suite, results(0.6, cases=[*CASES, *more])).total == 80
        gate = suite.gate(name="main")
        assert opened == set(gate.open_cases)
        assert not opened & set(gate.suite.ids)


def test_ids_stay_what_they_are_or_are_refused_before_anything_is_sealed(tmp_path):
    for name, ids in {
        "int": range(40), "numpy": np.arange(40), "float": np.arange(40) / 4, "text": [f"{n:03}" for n in range(40)],
    }.items():  # fmt: skip
        with sealed(tmp_path, name, results=results(0.6, cases=ids)) as suite:
            opened = suite.gate(name="main").open_cases
            assert set(opened) < set(ids)
            assert suite.gate(name="main").challenge(results(0.95, cases=ids)).challenger
    for place, ids in enumerate(([True, False], [datetime.date(2026, 1, day) for day in range(1, 9)])):
        with pytest.raises(QueryRejected, match="neither text nor a number"):
            sealed(tmp_path, f"odd {place}", results=results(0.6, cases=ids))
        with pytest.raises(HoldoutNotFound):
            eh.Holdout.open(f"sqlite:///{tmp_path}/suite.db", f"odd {place}")


def test_the_command_says_how_many_cases_it_sealed(tmp_path):
    from everhold.cli.application import app

    lines = [f"{case},{place},{run['passed']}"
             for case, runs in results(0.6).items() for place, run in enumerate(runs)]  # fmt: skip
    (tmp_path / "first.csv").write_text("\n".join(["case,run,passed", *lines]))
    given = [str(tmp_path / "first.csv"), "--open", "0.25", "--storage", str(tmp_path / "s.db")]
    assert (
        "sealed 90 cases x 4 runs of 120 cases x 4 runs, and the others are open"
        in CliRunner().invoke(app, ["suite", *given]).output
    )
