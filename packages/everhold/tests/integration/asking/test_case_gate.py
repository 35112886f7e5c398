"""Gates about cases: claims with guards, runs, early stops, crashes, and results that cannot be used."""

import contextlib
import math
import shutil
import warnings

import numpy as np
import pytest
from sealed_copies import copy_of

import everhold as eh
from everhold.errors import CaseWarning
from everhold.gates.checks import markdown_of
from everhold.gates.open_challenge import OpenChallenge
from everhold.ledger.verification import verify

CASES = 60
KNOWN = 36  # a seed with which the stored runs are unlucky enough


def results(success, *, cost=0.3, seed=0, runs=1, ids=range(CASES)):
    """Metrics of each case: so many right, and a cost."""
    rng = np.random.default_rng(seed)
    return {f"t{case}": [{"accuracy": int(rng.random() < success), "cost": cost} for _ in range(runs)] for case in ids}


def create(folder, *, queries=100, **wanted):
    rows = {"case": [f"t{n}" for n in range(CASES)], "site": [n // 3 for n in range(CASES)]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", eh.EverholdWarning)
        return eh.Holdout.create(
            f"sqlite:///{folder}/study.db", "suite", holdout=rows, rows=eh.Rows(row_id="case"),
            planning=eh.Planning(allow_vacuous=True), mechanism="guess_and_check", queries=queries, **wanted,
        )  # fmt: skip


@pytest.fixture
def holdout(tmp_path):
    with copy_of(tmp_path, create, name="suite") as made:
        yield made


def spent(holdout):
    status = holdout.status()
    return status["queries_asked"], status["charged"], status["ledger_head"]["sequence"]


def test_promoted_if_better_and_no_guard_is_violated(holdout):
    gate = holdout.gate(better="accuracy", not_worse={"cost": 0.2}, champion=results(0.3), challenges=9)
    assert not gate.challenge(results(0.35, seed=1), challenger="noise").promoted
    assert not gate.challenge(results(0.99, cost=0.6), challenger="dear").promoted
    verdict = gate.challenge(results(0.99), challenger="good")
    assert (verdict.promoted, verdict.low, verdict.high, verdict.charged) == (True, 0.0, 1.0, 1)
    assert verdict.challenges == 3
    assert "cost at most 0.2 worse than the baseline" in verdict.metric
    assert [each["over"] for each in gate.history().champions[1:]] == [gate.status()["first_champion"]]
    again = gate.challenge(results(0.99), challenger="good")
    assert again.promoted
    assert again.repeated
    with pytest.raises(eh.QueryRejected, match=r"'good' has a verdict \(promoted\), which is about other results"):
        gate.challenge(results(0.1), challenger="good")
    assert holdout.gate().challenge(results(0.1), challenger="dear").repeated is False  # another champion by now


def test_a_kept_verdict_does_not_tell_which_claim_failed(holdout):
    gate = holdout.gate(better="accuracy", not_worse={"cost": 0.2}, champion=results(0.3))
    dear = gate.challenge(results(0.99, cost=0.6), challenger="a").to_dict()
    poor = gate.challenge(results(0.3, seed=5), challenger="a2").to_dict()
    differing = {name for name in dear if dear[name] != poor[name]}
    assert differing == {"query", "challenges", "remaining", "challenger"}
    assert "t1" not in repr(gate) + repr(gate.suite) + str(gate.status())
    with pytest.raises(eh.QueryRejected, match="The results are empty"):
        gate.challenge({}, challenger="b")


def test_guards_are_held_against_the_fixed_baseline_also_after_promotions(holdout):
    gate = holdout.gate(better="accuracy", not_worse={"cost": 0.2}, champion=results(0.1, cost=0.3))
    assert gate.challenge(results(0.6, cost=0.3), challenger="one").promoted
    assert not gate.challenge(results(1.0, cost=0.6), challenger="two").promoted


def test_any_of_several_successes_is_enough(holdout):
    gate = holdout.gate(any_of=["accuracy", "cost"], champion=results(0.5, cost=0.8), name="any")
    assert gate.challenge(results(0.5, cost=0.1, seed=1)).promoted


def priced(cost, *, passed=1.0, share=1.0):
    return {f"t{n}": {"accuracy": int(n < passed * CASES), "cost": cost, "refund": share} for n in range(CASES)}


def test_a_ratio_is_held_against_a_number(holdout):
    wanted = {"better": "accuracy", "at_most": {"cost / accuracy": 0.8}, "at_least": {"accuracy": 0.5}}
    gate = holdout.gate(**wanted, champion=priced(0.9, passed=0.1), name="ratio")
    assert "(guard: accuracy at least 0.5, cost / accuracy at most 0.8)" in gate.status()["metric"]
    assert not gate.challenge(priced(0.85), challenger="too dear for what it solves").promoted
    assert not gate.challenge(priced(0.1, passed=0.5), challenger="half").promoted
    assert gate.challenge(priced(0.3), challenger="cheap").promoted
    assert holdout.gate(name="ratio").suite == gate.suite
    assert holdout.gate(**wanted, champion=priced(0.9, passed=0.1), name="ratio").name == "ratio"


def test_a_ratio_is_compared_with_the_champion_and_with_the_baseline(tmp_path):
    with create(tmp_path) as holdout:
        ratios = ["cost / accuracy", "refund / accuracy"]
        wanted = {"better": ratios[0], "margin": 0.1, "not_worse": {ratios[1]: 0.5}, "lower": ratios}
        gate = holdout.gate(**wanted, champion=priced(0.8, passed=0.5), name="ratio")
        assert gate.challenge(priced(0.8, passed=0.6), challenger="hardly").promoted is False
        verdict = gate.challenge(priced(0.1, passed=0.9), challenger="cheap")
        assert (verdict.promoted, verdict.low, verdict.high) == (True, 0.1, None)
        assert gate.challenge(priced(0.0, passed=0.3), challenger="refunds too much").promoted is False
        assert (gate.status()["sees"], gate.status()["provable"]) == (None, True)
        assert "better than the first one by 0.1 or more" in gate.history().explain()
        assert "ratios, by how far cases spread" in markdown_of(verdict, gate.status())
        assert holdout.gate(name="ratio").suite == gate.suite
        certificate = holdout.certificate()
        certificate.save(tmp_path / "study.json")
        assert eh.verify_certificate(tmp_path / "study.json", public_key=certificate.public_key).ok
        assert "than the first champion by 0.1 at least; proved at the level e^-" in certificate.to_html()


def test_copies_of_one_response_are_told_once_and_before_anything_is_sealed(tmp_path):
    copies = {case: [row] * 3 for case, row in priced(0.8, passed=0.5).items()}
    with pytest.raises(CaseWarning, match=f"All 3 runs of each of {CASES} cases are alike"):
        eh.seal_cases(f"sqlite:///{tmp_path}/s.db", "s", results=copies, better="accuracy")
    with pytest.warns(CaseWarning, match="use one run") as told:
        suite = eh.seal_cases(f"sqlite:///{tmp_path}/s.db", "s", results=copies, better="accuracy")
    assert len(told) == 1
    with suite, pytest.warns(CaseWarning, match="use one run"):
        suite.gate(name="main").challenge(copies, challenger="same")


def test_a_ratio_is_lower_better_by_its_name_or_that_of_its_numerator(holdout):
    for number, lower in enumerate((None, ["cost"], ["cost / accuracy"], [])):
        gate = holdout.gate(better="cost / accuracy", champion=priced(0.5), name=f"g{number}", lower=lower)
        assert gate.suite.ratios["cost / accuracy"].lower == (lower != [])


@pytest.mark.parametrize("runs", [1, 4])
def test_a_ratio_is_proved_early(tmp_path, runs):
    with create(tmp_path) as holdout:
        first = {case: [row] * runs for case, row in priced(0.8, passed=0.5).items()}
        copies = pytest.warns(CaseWarning, match="All 4 runs of each of") if runs > 1 else contextlib.nullcontext()
        with copies:
            gate = holdout.gate(better="cost / accuracy", champion=first, name="ratio", units="runs")
        better = {case: [row] * runs for case, row in priced(0.0, passed=1.0).items()}
        opened = gate.open("early", batch=5)
        while (reply := opened.report({case: better[case] for case in opened.next_cases()})).goes_on:
            pass
        assert reply.verdict.promoted
        assert reply.reported < CASES


def test_a_difference_of_columns_is_a_metric(holdout):
    gate = holdout.gate(better="refund - cost", margin=0.1, champion=priced(0.9, share=0.1), name="net")
    assert [(metric.low, metric.high) for metric in gate.suite.metrics] == [(-1.0, 1.0)]
    assert not gate.challenge(priced(0.9, share=0.15), challenger="hardly").promoted
    verdict = gate.challenge(priced(0.0, share=0.9), challenger="more")
    assert (verdict.promoted, verdict.high) == (True, 2.0)
    with pytest.raises(eh.CaseRejected, match="has no refund"):
        gate.challenge({case: {"cost": 0.1} for case in priced(0.1)})


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"better": "refund - cost / accuracy"}, "Pass a ratio of two columns"),
        ({"better": "accuracy", "not_worse": {"cost / accuracy": -0.1}}, "is outside the range of its metric"),
        ({"better": "cost / accuracy", "ranges": {"cost": (-1, 1)}}, "can be below 0"),
        ({"better": "accuracy", "at_most": {"cost": 2.0}}, "within what the ranges allow"),
        ({"better": "accuracy", "at_most": {"cost / accuracy": math.nan}}, "finite number"),
        ({"better": "accuracy", "at_least": {"a / b / c": 0.1}}, "cannot be read"),
        ({"better": "accuracy", "ranges": {"price": (0, 2)}}, "'price' is not a metric"),
    ],
)  # fmt: skip
def test_claims_that_cannot_be_proved_are_refused_by_name(holdout, wanted, said):
    before = spent(holdout)
    with pytest.raises(eh.QueryRejected, match=said):
        holdout.gate(**wanted, champion=priced(0.5), name="bad")
    assert spent(holdout) == before


def test_the_population_is_named(holdout):
    gate = holdout.gate(better="accuracy", units="runs", champion=results(0.5, runs=4), name="runs")
    verdict = gate.challenge(results(0.9, runs=4, seed=1))
    assert verdict.promoted
    assert verdict.about == "new runs of these cases"
    assert "new runs of these cases" in verdict.explain()
    assert gate.status()["population"] == "these cases, new runs"
    assert gate.status()["results"] in repr(gate)
    assert gate.status()["results"].endswith(" cases x 4 runs")


def known_runs(cases, seed):
    """A champion of coins whose stored runs the maker knows, and a challenger that repeats them and is no better."""
    rng = np.random.default_rng(seed)
    stored = rng.integers(0, 2, cases)
    made = stored.copy()
    lucky = rng.choice(np.flatnonzero(made == 0), max(cases // 2 - int(stored.sum()), 0), replace=False)
    made[lucky] = 1  # half of all cases: what the champion has on average
    again = rng.integers(0, 2, cases)
    return [{f"t{n}": int(value) for n, value in enumerate(values)} for values in (stored, made, again)]


def test_known_runs_of_the_champion_promote_what_is_no_better_and_new_runs_do_not(tmp_path):
    stored, made, again = known_runs(500, seed=KNOWN)
    with eh.seal_cases(f"{tmp_path}/s.db", results=stored, better="passed", units="runs") as suite:
        gate = suite.gate(name="main")
        assert not gate.challenge(made, challenger="new runs", champion=again).promoted
        assert gate.challenge(made, challenger="known runs").promoted  # which is why makers must not know them


def test_new_runs_of_champion_and_baseline_belong_together(holdout):
    gate = holdout.gate(better="accuracy", not_worse={"cost": 0.3}, champion=results(0.9))
    assert not gate.challenge(results(1.0), challenger="a").promoted
    for alone in ({"champion": results(0.1)}, {"baseline": results(0.1)}):
        with pytest.raises(eh.QueryRejected, match="passed together"):
            gate.challenge(results(1.0), **alone)
    bad, dear = results(0.1), results(0.1, cost=0.0)
    assert not gate.challenge(results(1.0), challenger="b", champion=bad, baseline=dear).promoted
    opened = gate.open("c", batch=30)
    cases = opened.next_cases()
    part = [{case: each[case] for case in cases} for each in (results(1.0), bad, bad)]
    assert opened.report(part[0], champion=part[1], baseline=part[2]).verdict.promoted


def test_runs_of_one_case_are_one_unit_for_new_cases(holdout):
    one = holdout.gate(better="accuracy", champion=results(0.5, runs=16), name="new")
    these = holdout.gate(better="accuracy", units="runs", champion=results(0.5, runs=16), name="these")
    assert one.status()["sees"] > 3 * these.status()["sees"]
    shares = one.shares(results(0.9, runs=16, seed=2))
    assert shares.between_cases < 0.2
    assert "More" in str(shares)


def test_a_table_and_a_mapping_are_the_same(holdout):
    gate = holdout.gate(better="accuracy", champion=results(0.5, runs=2))
    mapping = results(0.5, runs=2, seed=3)
    rows = [(case, run, each["accuracy"]) for case, runs in mapping.items() for run, each in enumerate(runs)]
    table = dict(zip(("case", "run", "accuracy"), map(list, zip(*rows, strict=True)), strict=True))
    np.testing.assert_array_equal(gate.suite.values(table), gate.suite.values(mapping))
    pandas = pytest.importorskip("pandas")
    np.testing.assert_array_equal(gate.suite.values(pandas.DataFrame(table)), gate.suite.values(mapping))


def _changed(change):
    broken = results(0.5, seed=1)
    change(broken)
    return broken


@pytest.mark.parametrize(
    ("broken", "case", "fault"),
    [
        (_changed(lambda r: r.pop("t7")), "t7", "missing"),
        (_changed(lambda r: r.update(other=r["t1"])), "other", "unknown"),
        (_changed(lambda r: r["t3"].append(r["t3"][0])), "t3", "doubled"),
        (_changed(lambda r: r.update(t5=[{"accuracy": math.nan, "cost": 0.1}])), "t5", "not a number"),
        (_changed(lambda r: r.update(t5=[{"accuracy": "yes", "cost": 0.1}])), "t5", "not a number"),
        (_changed(lambda r: r.update(t5=[{"accuracy": 0.5, "cost": 0.1}])), "t5", "not a number"),
        (_changed(lambda r: r.update(t5=[{"accuracy": 1, "cost": 1.5}])), "t5", "beyond the range"),
        (_changed(lambda r: r.update(t5=[{"accuracy": 1, "cost": -0.1}])), "t5", "beyond the range"),
        (_changed(lambda r: r.update(t5=[{"accuracy": 1, "cost": math.inf}])), "t5", "beyond the range"),
        (_changed(lambda r: r.update(t5=[{"accuracy": "1_0", "cost": 0.1}])), "t5", "not a number"),
        (_changed(lambda r: r.update(t9=None)), "t9", "crashed"),
        (_changed(lambda r: r.update(t9=[{"accuracy": 1}])), "t9", "crashed"),
    ],
)  # fmt: skip
def test_results_that_cannot_be_used_name_the_case_and_cost_nothing(holdout, broken, case, fault):
    gate = holdout.gate(better="accuracy", not_worse={"cost": 0.2}, champion=results(0.5))
    before = spent(holdout)
    with pytest.raises(eh.CaseRejected, match=f"Case {case!r} ") as found:
        gate.challenge(broken)
    assert (found.value.data["case"], found.value.data["fault"]) == (case, fault)
    assert spent(holdout) == before


def test_a_run_twice_in_a_table_is_doubled(holdout):
    gate = holdout.gate(better="accuracy", champion={f"t{n}": 1 for n in range(CASES)})
    table = {"case": [f"t{n}" for n in range(CASES)] + ["t4"], "run": [0] * (CASES + 1), "accuracy": [1] * (CASES + 1)}
    with pytest.raises(eh.CaseRejected, match="'t4' has run 0 twice"):
        gate.challenge(table)


def test_runs_of_a_case_in_a_table_have_numbers(holdout):
    with pytest.raises(eh.CaseRejected, match="number them in a column 'run'"):
        holdout.gate(better="accuracy", champion={"case": ["t1", "t1"], "accuracy": [1, 1]})
    with pytest.raises(eh.QueryRejected, match="Row 2 of the results has no id"):
        holdout.gate(better="accuracy", champion={"case": ["t1", None], "accuracy": [1, 1]})


@pytest.mark.parametrize("wanted", [{"ranges": {"refund - cost": (-0.5, 0.5)}}, {}])
def test_a_difference_is_not_cut_at_its_range(holdout, wanted):
    gate = holdout.gate(better="refund - cost", champion=priced(0.5, share=0.5), name="net", **wanted)
    far = priced(0.0, share=1.0 if wanted else 1.5)
    with pytest.raises(eh.CaseRejected, match="outside the range"):
        gate.challenge(far)


def test_another_gate_of_that_name_is_refused(holdout):
    holdout.gate(better="accuracy", champion=results(0.5))
    assert holdout.gate(better="accuracy", champion=results(0.5)).name == "gate"
    for other in ({"margin": 0.1}, {"units": "runs"}, {"not_worse": {"cost": 0.1}}):
        with pytest.raises(eh.QueryRejected, match="Another gate named"):
            holdout.gate(better="accuracy", champion=results(0.5), **other)


def test_training_predictions_belong_to_gates_about_rows(holdout):
    for claims in ({"better": "accuracy", "champion": results(0.3)}, {}):
        with pytest.raises(TypeError, match="training is only for gates about rows"):
            holdout.gate(training=[0, 1], **claims)
        holdout.gate(better="accuracy", champion=results(0.3))


def test_without_a_way_to_prove_it_the_challenge_is_refused(tmp_path):
    with create(tmp_path) as holdout:
        gate = holdout.gate(better="accuracy", margin=0.8, champion=results(0.1))
        assert gate.status()["sees"] is None
        before = spent(holdout)
        refused = gate.challenge(results(1.0))
        assert refused.refused
        assert "no results could prove it" in str(refused)
        assert "no results of so few cases could prove it" in refused.explain()
        with pytest.raises(eh.BudgetExhausted):
            gate.open("commit")
        assert spent(holdout) == before


def go_on(opened, source):
    """Report until it ends; returns the last reply."""
    while True:
        reply = opened.report({case: source[case] for case in opened.next_cases()})
        if not reply.goes_on:
            return reply


def test_an_open_challenge_ends_early_and_its_champion_runs_the_other_cases_afterwards(holdout):
    gate = holdout.gate(better="accuracy", not_worse={"cost": 0.3}, champion=results(0.1))
    good = results(1.0)
    opened = gate.open("commit 1", batch=5)
    reply = go_on(opened, good)
    assert reply.verdict.promoted
    assert reply.reported < 40
    assert opened.next_cases() == []
    assert opened.verdict.promoted
    left = gate.cases_left()
    assert len(left) == CASES - reply.reported
    with pytest.raises(eh.QueryRejected, match="promoted early"):
        gate.challenge(good)
    gate.complete({case: good[case] for case in left})
    assert gate.cases_left() == []
    assert not gate.challenge(good, challenger="same").promoted
    labels = holdout._executor.state().labels
    assert labels >= 1e6 * math.log(12)  # the look is a label, which later queries pay for


def test_an_open_challenge_of_runs_is_kept_at_the_end(holdout):
    gate = holdout.gate(better="accuracy", units="runs", champion=results(0.5, runs=2))
    reply = go_on(gate.open("commit", batch=20), results(0.5, runs=2, seed=9))
    assert not reply.verdict.promoted
    assert reply.reported == CASES


def test_all_results_of_a_kept_open_challenge_have_its_verdict(holdout):
    """A version that was reported batch by batch and is passed at once is the same version with the same results."""
    first, found = results(0.5, runs=2), results(0.5, runs=2, seed=9)
    gate = holdout.gate(better="accuracy", units="runs", champion=first)
    go_on(gate.open("stored", batch=20), found)
    before = spent(holdout)
    again = gate.challenge(found, challenger="stored")
    assert (again.repeated, again.promoted, again.charged) == (True, False, 0)
    other = found | {"t7": [{"accuracy": 1 - run["accuracy"], "cost": 0.3} for run in found["t7"]]}
    for changed, more in ((other, {}), (found, {"champion": results(0.5, runs=2, seed=3)})):
        with pytest.raises(eh.QueryRejected, match=r"'stored' has a verdict \(kept\), which is about other results"):
            gate.challenge(changed, challenger="stored", **more)
    assert spent(holdout) == before
    new, opened = results(0.5, runs=2, seed=4), gate.open("rerun", batch=30)  # with new runs of the champion
    for _ in range(2):
        cases = opened.next_cases()
        opened.report({case: found[case] for case in cases}, champion={case: new[case] for case in cases})
    assert gate.challenge(found, challenger="rerun", champion=new).repeated
    with pytest.raises(eh.QueryRejected, match="about other results than these"):
        gate.challenge(found, challenger="rerun")
    gate.open("withdrawn").withdraw()
    with pytest.raises(eh.QueryRejected, match="ended before all cases were reported"):
        gate.challenge(found, challenger="withdrawn")


def test_lost_challenges_that_were_opened_leave_all_their_places_taken(tmp_path):
    """Opening takes a place and so does the verdict, though both are one query: no later query has either again."""
    with create(tmp_path) as holdout:
        holdout.gate(better="accuracy", units="runs", champion=results(0.5, runs=2))
    shutil.copy(tmp_path / "study.db", tmp_path / "old.db")
    with eh.Holdout.open(f"sqlite:///{tmp_path}/study.db", "suite") as holdout:
        gate = holdout.gate(better="accuracy", units="runs", champion=results(0.5, runs=2))
        assert not go_on(gate.open("commit", batch=20), results(0.5, runs=2, seed=9)).verdict.promoted
        taken = holdout._executor.state().asked
    for ending in ("", "-wal", "-shm"):
        (tmp_path / f"study.db{ending}").unlink(missing_ok=True)
    shutil.copy(tmp_path / "old.db", tmp_path / "study.db")
    with eh.Holdout.open(f"sqlite:///{tmp_path}/study.db", "suite", recover=True) as holdout:
        assert holdout._executor.state().asked == taken == 2
        assert holdout.status()["queries_asked"] == 2
        holdout.certificate().save(tmp_path / "c.html")
    assert eh.verify_certificate(tmp_path / "c.html").ok


def test_a_stop_for_futility_costs_a_surprise_and_its_label(holdout, tmp_path):
    gate = holdout.gate(better="accuracy", units="runs", champion=results(0.9, runs=4))
    poor = results(0.2, runs=4, seed=9)
    assert go_on(gate.open("without", batch=6), poor).reported == CASES
    reply = go_on(gate.open("poor", batch=6, futility=True), poor)
    assert (reply.verdict.promoted, reply.verdict.charged) == (False, 1)
    assert reply.reported < CASES
    assert "charged 1" in str(reply.verdict)
    state = holdout._executor.state()
    assert (state.charged, state.labels) == (1, math.ceil(1e6 * math.log(20)))  # ten looks, two ways to end
    with pytest.raises(eh.QueryRejected, match=r"'poor' has a verdict \(kept\) of an open challenge that ended before"):
        gate.challenge(poor, challenger="poor")  # all results, where the verdict is about those of the first cases
    assert gate.history().promotions == 0
    certificate = holdout.certificate()
    assert certificate.to_dict()["account"]["open_challenges"]["futile"] == 1
    certificate.save(tmp_path / "study.json")
    assert eh.verify_certificate(tmp_path / "study.json", public_key=certificate.public_key).ok


def test_cases_of_groups_are_handed_out_together(tmp_path):
    with create(tmp_path, dependence=eh.Groups("site")) as holdout:
        gate = holdout.gate(better="accuracy", champion=results(0.3))
        cases = gate.open("commit", batch=2).next_cases()
        assert len(cases) == 6
        assert {int(case[1:]) // 3 for case in cases} == {int(cases[0][1:]) // 3, int(cases[3][1:]) // 3}
        gate.open("commit").withdraw()
        assert gate.challenge(results(1.0)).promoted


def test_a_suite_is_sealed_with_groups_that_are_texts(tmp_path):
    groups = {case: f"page {n // 3}" for n, case in enumerate(results(0.1))}
    with eh.seal_cases(f"{tmp_path}/s.db", results=results(0.1), better="accuracy", groups=groups) as suite:
        assert len(set(suite.gate(name="main")._evidence.units.groups.tolist())) == CASES // 3


def test_each_challenge_has_an_order_of_its_own(holdout):
    gate = holdout.gate(better="accuracy", champion=results(0.5))
    first = gate.open("one", batch=30)
    cases = first.next_cases()
    assert cases == gate.open("one").next_cases()
    first.withdraw()
    assert cases != gate.open("two", batch=30).next_cases()


def test_while_a_challenge_is_open_the_gate_answers_no_other(holdout):
    gate = holdout.gate(better="accuracy", champion=results(0.5))
    opened = gate.open("one")
    for other in (
        lambda: gate.open("two"),
        lambda: gate.challenge(results(0.5)),
        lambda: gate.check(results(0.5), margin=0.1),
    ):
        with pytest.raises(eh.QueryRejected, match="is open"):
            other()
    assert not opened.withdraw().promoted
    assert gate.challenge(results(0.5)).challenges == 2


def test_bad_reports_leave_the_challenge_as_it_was(holdout):
    gate = holdout.gate(better="accuracy", champion=results(0.5))
    opened, source = gate.open("one"), results(0.5)
    before, cases = spent(holdout), opened.next_cases()
    other = next(case for case in source if case not in cases)
    for bad in ({}, {case: source[case] for case in [*cases, other]}, dict.fromkeys(cases, math.nan)):
        with pytest.raises(eh.QueryRejected):
            opened.report(bad)
    assert (spent(holdout), opened.next_cases()) == (before, cases)


def test_a_challenge_that_is_reported_in_parts_ends_as_it_does_at_once(holdout):
    gate = holdout.gate(better="accuracy", champion=results(0.1))
    good, ledger = results(1.0), holdout._session("test").executor.ledger
    opened = gate.open("parts", batch=20)
    first, entries = opened.next_cases(), ledger.head().sequence
    part = opened.report({case: good[case] for case in first[:7]})
    assert (part.goes_on, part.reported, part.missing) == (True, 7, len(first) - 7)
    with pytest.raises(eh.CaseRejected, match="crashed"):
        opened.report({case: good[case] for case in first[7:-1]} | {first[-1]: None})
    with pytest.raises(eh.CaseRejected, match="was not handed out"):  # what was reported stays
        opened.report({case: good[case] for case in first[6:]})
    assert holdout.gate().open("parts").next_cases() == first[7:]
    opened.report({first[-1]: good[first[-1]]})
    assert ledger.head().sequence == entries  # nothing was looked at
    reply = opened.report({case: good[case] for case in first[7:-1]})
    assert reply.missing == 0
    assert go_on(opened, good).verdict.promoted if reply.goes_on else reply.verdict.promoted


@pytest.mark.parametrize(("point", "batch"), [("file", 10), ("look", 3), ("verdict", 10), ("after", 10)])
def test_a_crash_at_any_point_leaves_the_challenge_where_the_ledger_is(tmp_path, monkeypatch, point, batch):
    with create(tmp_path) as holdout:
        gate = holdout.gate(better="accuracy", champion=results(0.1))
        opened, good = gate.open("commit", batch=batch), results(1.0)
        opened.report({case: good[case] for case in opened.next_cases()})
        cases = opened.next_cases()

        class Crash(BaseException):
            pass

        def crash(*_, **__):
            raise Crash

        with monkeypatch.context() as patch:
            if point == "file":
                patch.setattr(type(opened._evidence.store), "keep", crash)
            elif point == "look":
                patch.setattr(OpenChallenge, "_look", crash)
            elif point == "verdict":
                patch.setattr(OpenChallenge, "_end", crash)
            with contextlib.suppress(Crash):
                opened.report({case: good[case] for case in cases})
    with eh.Holdout.open(f"sqlite:///{tmp_path}/study.db", "suite") as holdout:
        again = holdout.gate().open("commit")
        assert again.next_cases() == ([] if point == "after" else cases)
        if point != "after":
            assert go_on(again, good).verdict.promoted
        assert again.verdict.promoted
        assert holdout.gate().history().champions[1]["over"] == holdout.gate().status()["first_champion"]


def test_analysts_spend_their_allotment(holdout):
    holdout.gate(better="accuracy", champion=results(0.1))
    holdout.allot("bot", queries=3, charges=1)
    gate = holdout.analyst("bot").gate()
    opened = gate.open("commit", batch=30)
    assert go_on(opened, results(1.0)).verdict.analyst == "bot"
    assert holdout.allotments()["bot"].asked == 2
    assert holdout.allotments()["bot"].charged == 1


def test_the_certificate_counts_open_challenges(holdout, tmp_path):
    gate = holdout.gate(better="accuracy", champion=results(0.1))
    assert go_on(gate.open("commit", batch=10), results(1.0)).verdict.promoted
    certificate = holdout.certificate()
    certificate.save(tmp_path / "study.json")
    assert eh.verify_certificate(tmp_path / "study.json", public_key=certificate.public_key).ok


def test_the_history_has_an_interval_for_each_champion_and_the_certificate_the_same(holdout, tmp_path):
    gate = holdout.gate(better="accuracy", margin=0.1, not_worse={"cost": 0.3}, champion=results(0.1))
    for name, success in (("poor", 0.1), ("one", 0.6), ("two", 1.0)):
        gate.challenge(results(success, seed=3), challenger=name)
    history = gate.history()
    first, one, two = history.to_rows()
    assert (first["champion"], first["low"]) == (gate.status()["first_champion"], None)
    assert (one["low"], one["high"], one["since_first"]) == (0.1, 1.0, 0.1)
    assert (two["low"], two["since_first"], two["over"]) == (0.1, 0.2, one["champion"])
    assert 5.0 < one["nats"] < two["nats"] < history.nats
    assert "better than the first one by 0.2 to 1" in history.explain()
    assert "cost at most 0.3 worse" in history.metric
    certificate = holdout.certificate()
    told = certificate.to_dict()["account"]["gates"][0]["promotions"]
    assert [(each["low"], each["high"], each["since_first"]) for each in told] == [(0.1, 1.0, 0.1), (0.1, 1.0, 0.2)]
    certificate.save(tmp_path / "study.json")
    assert eh.verify_certificate(tmp_path / "study.json", public_key=certificate.public_key).ok
    assert [each["nats"] for each in told] == [one["nats"], two["nats"]]
    assert "than the first champion by 0.2 at least; proved at the level e^-" in certificate.to_html()


def test_gains_of_any_of_several_successes_do_not_add_up(holdout):
    gate = holdout.gate(any_of=["accuracy", "cost"], champion=results(0.5, cost=0.8), name="any")
    assert gate.challenge(results(0.5, cost=0.1, seed=1)).promoted
    assert gate.history().to_rows()[1]["since_first"] is None


def left_of(holdout, analyst):
    part = holdout.allotments()[analyst]
    return part.queries - part.asked, part.charges - part.charged


@pytest.fixture
def shared(holdout):
    """A gate of two analysts, of whom ada has no more than an open challenge costs."""
    holdout.gate(better="accuracy", champion=results(0.1))
    holdout.gate(better="accuracy", champion=results(0.1), name="other")
    holdout.allot("ada", queries=2, charges=1)
    holdout.allot("bob", queries=9, charges=2)
    return holdout


def test_an_open_challenge_reserves_all_that_it_can_cost(shared):
    shared.allot("ada", queries=1, charges=1)
    ada = shared.analyst("ada")
    with pytest.raises(eh.BudgetExhausted, match="reserves 2 queries and 1 surprise"):
        ada.gate().open("one")
    shared.allot("ada", queries=2, charges=1)
    opened = ada.gate().open("one", batch=30)
    assert left_of(shared, "ada") == (0, 0)
    assert ada.gate(name="other").challenge(results(1.0), challenger="elsewhere").refused
    with pytest.raises(eh.QueryRejected, match="spent"):
        shared.allot("ada", queries=1, charges=0)
    assert go_on(opened, results(1.0)).verdict.promoted
    assert left_of(shared, "ada") == (0, 0)


@pytest.mark.parametrize("who", ["ada", "steward"])
def test_a_withdrawn_challenge_costs_two_queries_and_no_surprise(shared, tmp_path, who):
    gate = shared.analyst("ada").gate()
    gate.open("lost", batch=30)
    certificate = shared.certificate()  # with the reservation
    found = (gate if who == "ada" else shared.gate()).find_open("lost")
    assert found.withdraw().charged == 0
    assert left_of(shared, "ada") == (0, 1)
    assert shared.gate().status()["challenges"] == 1
    assert shared.analyst("bob").gate().challenge(results(1.0), challenger="next").promoted
    for number, each in enumerate((certificate, shared.certificate())):
        each.save(tmp_path / f"{number}.json")
        assert eh.verify_certificate(tmp_path / f"{number}.json").ok
    assert verify(shared._executor.store, "suite", seal_key=shared._executor.key.seal_key).ok


OTHERS = {
    "open": lambda gate, _: gate.open("one"),
    "find": lambda gate, _: gate.find_open("one"),
    "next cases": lambda _, opened: opened.next_cases(),
    "verdict": lambda _, opened: opened.verdict,
    "report": lambda _, opened: opened.report({}),
    "report a champion": lambda _, opened: opened.report({}, champion=results(0.0)),
    "withdraw": lambda _, opened: opened.withdraw(),
}


@pytest.mark.parametrize("act", OTHERS)
def test_an_open_challenge_is_that_of_its_analyst_and_the_steward(shared, act):
    opened = shared.analyst("ada").gate().open("one", batch=30)
    gate, before = shared.analyst("bob").gate(), spent(shared)
    with pytest.raises(eh.QueryRejected, match="Another analyst opened the challenge 'one'"):
        OTHERS[act](gate, OpenChallenge(gate._cases, "one"))
    with pytest.raises(eh.QueryRejected, match="A challenge of another analyst is open") as other:
        gate.challenge(results(1.0), challenger="mine", champion=results(0.0))
    assert "'one'" not in str(other.value)
    assert spent(shared) == before
    assert gate.status()["open"]
    assert "open_challenge" not in gate.status()
    for known in (shared.analyst("ada").gate(), shared.gate()):
        assert known.status()["open_challenge"] == {"challenger": "one", "analyst": "ada", "looks": 0, "of": 2}
        assert known.find_open("one").next_cases() == opened.next_cases()


def test_only_who_promoted_a_champion_and_the_steward_complete_it(shared):
    ada, bob, good = shared.analyst("ada").gate(), shared.analyst("bob").gate(), results(1.0)
    assert go_on(ada.open("one", batch=10), good).verdict.promoted
    left = ada.cases_left()
    assert left
    for act in (bob.cases_left, lambda: bob.complete({case: good[case] for case in left})):
        with pytest.raises(eh.QueryRejected, match="not yours"):
            act()
    assert shared.gate().cases_left() == left
    ada.complete({case: good[case] for case in left})
    assert not bob.challenge(good, challenger="same").promoted


def test_a_gate_has_no_slash_in_its_name_which_is_a_part_of_an_address(tmp_path):
    with pytest.raises(eh.QueryRejected, match="without slashes"):
        eh.seal_cases(f"{tmp_path}/s.db", results=results(0.1), better="accuracy", gate="a/b")


@pytest.mark.parametrize("name", ["", " ", "a" * 101, 3, "two\nlines"])
def test_names_that_cannot_be_used_are_refused_before_anything_is_sealed(tmp_path, holdout, name):
    with pytest.raises(eh.QueryRejected, match="cannot be used"):
        eh.seal_cases(f"{tmp_path}/s.db", results=results(0.1), better="accuracy", gate=name)
    assert not list(tmp_path.glob("s.*"))
    gate = holdout.gate(better="accuracy", champion=results(0.1))
    for act in (gate.open, gate.find_open, lambda name: gate.challenge(results(0.1), challenger=name)):
        with pytest.raises(eh.QueryRejected, match="cannot be used"):
            act(name)
