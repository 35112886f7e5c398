"""The demonstration on made-up flights: the story that it tells has to come from the numbers."""

from __future__ import annotations

import dataclasses
import io
import json
import math

import pytest
from rich.console import Console

from everhold.certificate import verify_certificate
from everhold.holdout import Holdout
from everhold_lab.demo import report
from everhold_lab.demo.flights import ASSUMPTIONS, ONE_HOUR, split_flights
from everhold_lab.demo.night import CANDIDATES, OVERFITTED, TAKE_OFF
from everhold_lab.demo.story import DemoPlan, run_demo

QUICK = tuple(
    one for one in CANDIDATES if one.model in ("tree of depth 4", "logistic regression", "boosting, 8 leaves")
)
PLAN = DemoPlan(rules=1_200, rules_per_round=300, surprises=4, candidates=(*QUICK, OVERFITTED))


@pytest.fixture(scope="module")
def parts(flight_table):
    return split_flights(flight_table, sealed=1_500, training=1_500, seed=1)


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def result(parts, output):
    return run_demo(output, flights=parts, plan=PLAN)


def test_the_bare_report_is_refuted_by_fresh_flights(result):
    assert result.bare.gap > 0.08
    assert result.bare.fresh < result.always_on_time
    assert result.bare.queries == PLAN.queries == 1_205


def test_the_report_from_everhold_is_confirmed(result):
    assert result.everhold.confirmed
    assert result.everhold.gap < result.bare.gap
    assert result.everhold.refused == 0
    assert result.everhold.charged > 0  # overfitted votes were caught


def test_all_intervals_hold(result):
    assert result.intervals == result.intervals_true == result.everhold.queries


def test_the_overfitted_model_is_caught_and_the_others_cost_nothing(result):
    *honest, overfitted = result.trials
    assert overfitted.guess == 1.0
    assert overfitted.answer.charged == 1
    assert overfitted.answer.high < 0.9
    assert all(trial.answer.charged == 0 for trial in honest)


def test_every_interval_of_the_honest_analyst_holds(result):
    slack = 0.03  # three standard errors of the 2,800 fresh flights
    assert all(trial.answer.low - slack <= trial.fresh <= trial.answer.high + slack for trial in result.trials)


def test_members_of_the_declared_family_cost_nothing_and_hold(result):
    assert {member.subgroup for member in result.members} >= {"origin = 'EWR'", "origin = 'JFK'", "origin = 'LGA'"}
    assert all(member.true and member.charged == 0 for member in result.members)


def test_the_dict_is_the_stable_contract(result):
    data = json.loads(json.dumps(result.to_dict()))
    worth = data.pop("dependent")
    assert {key: list(value) for key, value in data.items()} == {
        "bare": ["reported", "fresh"],
        "everhold": ["reported", "low", "high", "fresh", "queries", "refused"],
    }
    assert data["everhold"]["queries"] == 1_205
    assert [list(line) for line in worth] == [
        ["assumption", "groups", "largest", "effective_rows", "within", "left", "radius"]
    ] * len(ASSUMPTIONS)


def test_rows_are_a_table_of_both(result):
    bare, everhold = result.to_rows()
    assert list(bare) == list(everhold)
    assert (bare["holdout"], everhold["holdout"]) == ("bare test set", "everhold")


def test_the_picture_tells_the_same_story_as_the_table(result):
    bare = [point for point in result.climb if point.panel == report.BARE]
    everhold = [point for point in result.climb if point.panel == report.EVERHOLD]
    assert bare[-1].reported == result.bare.reported
    assert bare[-1].fresh == result.bare.fresh
    assert (result.everhold.reported, result.everhold.low, result.everhold.high) in [
        (point.reported, point.low, point.high) for point in everhold
    ]
    assert [point.queries for point in everhold] == [1, 302, 603, 904, 1_205]


def test_files_are_written_and_the_certificates_hold(result, output):
    assert sorted(file.name for file in result.files) == [
        "by-hour.certificate.html", "by-hour.certificate.json", "climb.html", "climb.svg",
        "climber.certificate.html", "climber.certificate.json", "declared.certificate.html",
        "declared.certificate.json", "honest.certificate.html", "honest.certificate.json",
        "worth.html", "worth.svg",
    ]  # fmt: skip
    assert all(file.parent == output and file.stat().st_size > 1_000 for file in result.files)
    assert all(verify_certificate(file).ok for file in result.files if file.name.endswith("certificate.json"))


def test_the_sealed_holdouts_stay_open_to_queries(result, output):
    with Holdout.open(output / "flights.db", "climber") as holdout:
        assert holdout.status()["queries_asked"] == result.everhold.queries
    with Holdout.open(output / "flights.db", "honest") as holdout:
        assert holdout.status()["closed"]
    with Holdout.open(output / "flights.db", "by-hour") as holdout:
        assert holdout.ask("distance > 1000", guess=0.5).source != "refused"


def test_the_third_certificate_says_what_the_table_says(result, output):
    promised = json.loads((output / "by-hour.certificate.json").read_text(encoding="utf-8"))
    line = next(line for line in result.worth if line.assumption == ONE_HOUR.name)
    assert line.radius <= promised["promise"]["radius"] <= 1.03 * line.radius  # its guesses are of fewer rows
    assumed = promised["assumptions"]["dependence"]
    assert assumed["column"] == "departure"
    assert sum(number for _, number in assumed["counts"]) == line.groups < result.sealed_flights


def test_the_intervals_of_the_third_act_are_wider_and_hold(result):
    slack = 0.03
    by_model = {trial.candidate: trial for trial in result.trials}
    assert [trial.candidate for trial in result.dependent_trials] == list(PLAN.known_before)
    for trial in result.dependent_trials:
        alone, answer = by_model[trial.candidate].answer, trial.answer
        assert answer.low - slack <= trial.fresh <= answer.high + slack
        if not answer.charged:
            assert answer.high - answer.low > alone.high - alone.low


def tenth(share, rounded):
    """Per cent with one decimal, rounded to one side."""
    return f"{rounded(1000 * share) / 10:.1f}"


def points(radius):
    """A radius in points as it may be shown: rounded up."""
    return tenth(radius, math.ceil)


def printed(result) -> str:
    text = io.StringIO()
    result.print_to(Console(file=text, width=160))
    return text.getvalue()


def test_what_is_printed_is_what_was_measured(result):
    text = printed(result)
    for number in (result.bare.reported, result.bare.fresh, result.everhold.reported):
        assert text.count(f"{number:.1%}") >= 2  # in the table and in the paragraph
    assert f"{tenth(result.everhold.low, math.floor)}-{tenth(result.everhold.high, math.ceil)}%" in text
    assert "1,205 of the 1,205 intervals" in text
    assert "climb.svg" in text
    for line in result.worth:
        assert f"{line.effective_rows:,.0f}" in text
        assert (f"{points(line.radius)} pts" in text) == (line.radius < 0.5)


def test_the_closing_of_the_third_act_states_both_radii(result):
    alone, hour, *_ = result.worth
    text = report.closing_of_worth(result)
    assert f"within {points(hour.radius)} points in place of {points(alone.radius)}" in text
    assert "best forecast" not in report.closing_of_worth(dataclasses.replace(result, dependent_trials=()))


def test_the_labels_of_the_picture_are_the_table(result, output):
    picture = (output / "worth.svg").read_text(encoding="utf-8")
    for line in result.worth:
        promised = f"±{points(line.radius)} points" if line.radius < 0.5 else "no promise"
        assert f"{promised}: 1,500 rows are worth {line.effective_rows:,.0f}" in picture


def test_no_radius_and_no_interval_is_shown_smaller_than_it_is(result):
    worth = (*result.worth[:1], dataclasses.replace(result.worth[1], radius=0.06201), *result.worth[2:])
    everhold = dataclasses.replace(result.everhold, low=0.72999, high=0.80001)
    text = printed(dataclasses.replace(result, worth=worth, everhold=everhold))
    assert text.count("6.3 p") == printed(result).count("6.3 p") + 2  # in the table and in the paragraph
    assert "72.9-80.1%" in text
    assert "72.9% to 80.1%" in text


def test_the_paragraph_says_so_when_a_promise_was_broken(result):
    broken = dataclasses.replace(result, everhold=dataclasses.replace(result.everhold, fresh=0.1))
    assert ", inside it." in report.closing_paragraph(result)
    assert ", OUTSIDE it." in report.closing_paragraph(broken)


def test_the_gate_promotes_what_is_better_and_unsealed_intervals_are_narrower(result):
    slack = 0.03
    assert [line.candidate for line in result.challenges] == list(PLAN.candidates[1:])
    assert not next(line for line in result.challenges if line.candidate is OVERFITTED).promoted
    assert any(line.promoted for line in result.challenges)  # who knows the departure knows more
    assert all(line.gain > -slack for line in result.challenges if line.promoted)
    assert [line.candidate for line in result.unsealed] == list(PLAN.candidates)
    for line in result.unsealed:
        assert line.half_width < line.told
        assert line.low - slack <= line.fresh <= line.high + slack


def test_the_end_of_the_study_is_told_as_it_was(result):
    promoted = sum(line.promoted for line in result.challenges)
    text = report.closing_of_the_study(result)
    assert f"{promoted} were promoted, and on the fresh flights all of them are better" in text
    worse = [dataclasses.replace(line, promoted=True, gain=-0.1) for line in result.challenges]
    assert "are NOT better" in report.closing_of_the_study(dataclasses.replace(result, challenges=tuple(worse)))
    assert "unsealed" not in report.closing_of_the_study(dataclasses.replace(result, unsealed=()))


def test_the_paragraph_does_without_an_honest_analyst(result):
    alone = report.closing_paragraph(dataclasses.replace(result, trials=()))
    assert "honest" not in alone
    assert TAKE_OFF not in alone


def test_without_the_plots_extra_there_is_a_hint_in_place_of_pictures(result, output, monkeypatch):
    monkeypatch.setattr(report, "plots_available", lambda: False)
    assert report.save_climb(result.climb, output) == ()
    assert report.save_worth(result.worth, result.sealed_flights, output) == ()
    assert "pip install 'everhold[plots]'" in printed(result)


def test_a_second_run_replaces_the_first_and_measures_the_same(result, parts, output):
    again = run_demo(output, flights=parts, plan=PLAN)
    assert again.to_dict() == result.to_dict()
