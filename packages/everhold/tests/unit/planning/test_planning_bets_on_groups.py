"""What is expected of groups is what bets on their sums answer; refusals name calls that seal the same rows."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from coverage_studies.open_columns import columns_of

import everhold as eh
from everhold.asking.creation import settings_from
from everhold.diagnosis.columns import UNKNOWN, likeness_of_rows
from everhold.errors import HoldoutRejected, SmallHoldoutWarning, VacuousGuaranteeWarning
from everhold.planning import PlanRequest, tuned_mechanism

USUAL = 0.9


def clusters(seed, *, groups, size, alike, start=0):
    """Rows of groups with this correlation, 1 in nine of ten."""
    rng = np.random.default_rng(seed)
    group, shape = np.repeat(np.arange(groups), size), 1.0 / alike - 1.0
    chance = rng.beta(shape * USUAL, shape * (1.0 - USUAL), groups)[group]
    return {"group": start + group, "y": (rng.random(groups * size) < chance).astype(int)}


def created(folder, *, groups, size, alike, name="h", **wanted):
    return eh.Holdout.create(
        f"sqlite:///{folder}/{name}.db", name, holdout=clusters(0, groups=groups, size=size, alike=alike),
        training=clusters(1, groups=groups, size=size, alike=alike, start=10**6), label="y",
        dependence=eh.Groups("group"), **settings_from(wanted),
    )  # fmt: skip


@pytest.mark.parametrize(("groups", "size", "queries"), [(40, 50, 20), (200, 10, 20), (200, 10, 1_000)])
def test_groups_are_sealed_and_answered_as_expected(tmp_path, groups, size, queries):
    with pytest.warns(VacuousGuaranteeWarning, match="Seal more groups"):
        holdout = created(tmp_path, groups=groups, size=size, alike=0.05, queries=queries)
    with holdout:
        assert holdout.mechanism.name == "guess_and_check"
        assert holdout.promise.radius > 0.5
        answer = holdout.ask("y = 1")
        told = (answer.high - answer.low) / 2.0
        assert holdout.promise.expected == pytest.approx(told, rel=0.25)
        assert holdout.status()["expected"] == holdout.promise.expected < 0.25
    with eh.Holdout.open(f"sqlite:///{tmp_path}/h.db", "h") as again:
        assert again.promise.expected == holdout.promise.expected


def test_rows_of_a_group_that_are_all_alike_are_expected_to_be_worth_less():
    groups = eh.Groups.of_counts({50: 40}, column="group")
    planned = tuned_mechanism("guess_and_check", PlanRequest(rows=2_000, queries=20, dependence=groups))
    by_likeness = [planned.expected_radius(USUAL, alike) for alike in (0.0, 0.05, 0.5, 1.0, None)]
    assert by_likeness == sorted(by_likeness)
    assert by_likeness[0] < 0.2 < by_likeness[-1]


def test_groups_of_one_row_are_expected_like_rows():
    singles = eh.Groups.of_counts({1: 2_000}, column="id")
    wanted = PlanRequest(rows=2_000, queries=20)
    apart = tuned_mechanism("guess_and_check", replace(wanted, dependence=singles)).expected_radius(USUAL, 1.0)
    assert apart == pytest.approx(tuned_mechanism("guess_and_check", wanted).expected_radius(USUAL), rel=0.15)


def test_groups_that_no_column_names_are_expected_by_their_sizes_alone(tmp_path):
    rows = {"y": clusters(0, groups=40, size=50, alike=0.05)["y"]}
    opened = {"y": clusters(1, groups=40, size=50, alike=0.05)["y"]}
    with pytest.raises(HoldoutRejected, match="seal more groups"):
        eh.Holdout.create(
            tmp_path / "h.db", holdout=rows, training=opened, label="y", dependence=eh.Groups(50), queries=20
        )


def test_likeness_is_measured_in_the_label_and_unknown_without_one():
    rows = columns_of(clusters(3, groups=400, size=10, alike=0.2))
    assert likeness_of_rows(rows, groups="group", label="y") == pytest.approx(0.2, abs=0.1)
    assert likeness_of_rows(columns_of({"group": np.arange(50)}), groups="group", label="y") == UNKNOWN


def test_a_plan_is_made_with_the_likeness_that_is_expected():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VacuousGuaranteeWarning)
        alike, hardly = (eh.plan(rows=2_000, queries=20, dependence=eh.Groups(50), alike=x) for x in (1.0, 0.05))
    assert hardly.best.expected < 0.2 < alike.best.expected
    assert hardly.best.radius == alike.best.radius
    assert {line.at: line.unsealed for line in hardly.widths.lines if line.surprises == 0}[0.5] < 0.11


@pytest.mark.parametrize("alike", [-0.1, 1.1, "much", float("nan")])
def test_a_likeness_that_is_none_is_refused(alike):
    with pytest.raises(ValueError, match="alike"):
        eh.plan(rows=2_000, queries=20, dependence=eh.Groups(50), alike=alike)


@pytest.mark.filterwarnings("ignore::everhold.errors.VacuousGuaranteeWarning")
@pytest.mark.filterwarnings("ignore::everhold.errors.SmallHoldoutWarning")
@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.parametrize("rows", [30, 100, 500])
def test_what_a_refusal_of_few_rows_advises_seals_them(tmp_path, rows, trained):
    rng = np.random.default_rng(rows)

    def table():
        return {"x": rng.normal(size=rows), "y": rng.integers(0, 2, rows)}

    wanted = {"holdout": table(), "training": table() if trained else None, "label": "y"}
    try:
        eh.Holdout.create(tmp_path / "default.db", **settings_from(wanted)).close()
    except HoldoutRejected as refused:
        calls = re.findall(r"mechanism='(\w+)', queries=(\d+)", refused.message)
        assert {"silent"} < {name for name, _ in calls}
        for number, (name, queries) in enumerate(calls):
            eh.Holdout.create(
                tmp_path / f"{number}.db", **settings_from(wanted), mechanism=name, queries=int(queries)
            ).close()
    else:
        assert trained
        assert rows > 30


def test_a_refusal_counts_groups_that_would_do(tmp_path):
    with pytest.raises(HoldoutRejected) as refused:
        created(tmp_path, groups=20, size=50, alike=0.1, queries=1_000, mechanism="guess_and_check")
    needed = int(re.search(r"at least (\d+) like these", refused.value.message)[1])
    assert 20 < needed < 60
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VacuousGuaranteeWarning)
        created(tmp_path, groups=2 * needed, size=50, alike=0.1, queries=1_000, mechanism="guess_and_check").close()


def test_few_rows_are_warned_of_by_what_bets_answer(tmp_path):
    with pytest.warns(SmallHoldoutWarning, match="around 0.9"), pytest.warns(VacuousGuaranteeWarning):
        created(tmp_path, groups=45, size=2, alike=0.05, queries=3, allow_vacuous=True).close()
