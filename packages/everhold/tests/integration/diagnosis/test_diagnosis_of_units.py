"""Declared groups are compared by what they claim, and whole groups that nobody declared are warned of."""

import warnings

import numpy as np
import pytest
from diagnosis_samples import diagnosed, planned

import everhold as eh
from everhold.asking.creation import settings_from
from everhold.dependence import Groups
from everhold.diagnosis.queries import DependenceMonitor
from everhold.errors import DependenceWarning
from everhold.sealing.configuration import schema_from
from everhold.sealing.intake.files import seal_rows
from everhold.sealing.intake.request import SealRequest
from everhold.sealing.intake.structure import FileStructure


def named(prefix, codes):
    return np.array([f"{prefix}{code}" for code in codes.tolist()], dtype=object)


def schools(seed=0, start=0, spread=0.4):
    """30 schools of 16 classes of 25, which differ by school and a little by class."""
    rng = np.random.default_rng(seed)
    school, group = np.repeat(np.arange(30), 400), np.repeat(np.arange(480), 25)
    scores = spread * rng.normal(size=30)[school] + 0.2 * rng.normal(size=480)[group]
    late = (rng.random(12_000) < 1.0 / (1.0 + np.exp(-scores))).astype(int)
    return {"school": named("s", start + school), "class": named("c", start + group), "late": late}


def of(column, sizes, rows, name="guess_and_check"):
    return planned(name, rows=rows, dependence=Groups.of_counts(sizes, column=column))


CLASSES, SCHOOLS = of("class", {25: 480}, 12_000), of("school", {400: 30}, 12_000)


def test_declaring_small_groups_does_not_silence_the_warning_about_larger_ones():
    found = diagnosed(schools(), mechanism=CLASSES)
    suspect = found.suspects[0]
    assert (suspect.column, suspect.outcome) == ("school", "late")
    assert suspect.promised < 5.0 < suspect.design_effect < 25.0 == found.promised  # the worst case would cover it
    assert not diagnosed(schools(), mechanism=SCHOOLS).suspects
    assert not any(diagnosed(schools(seed, spread=0.0), mechanism=CLASSES).suspects for seed in range(8))


def test_a_mechanism_that_counts_the_worst_case_is_compared_with_the_worst_case():
    noisy = of("class", {25: 480}, 12_000, name="gaussian")
    assert not noisy.bets
    assert not planned(rows=12_000, dependence=CLASSES.dependence, slack=0.5).bets
    assert not diagnosed(schools(), mechanism=noisy).suspects


def test_blocks_shorter_than_the_memory_are_warned_of():
    rng = np.random.default_rng(0)
    day = np.arange(3_000)
    state = np.zeros(3_000)
    for place in range(1, 3_000):
        state[place] = state[place - 1] * np.exp(-1 / 80) + rng.normal() * np.sqrt(1 - np.exp(-2 / 80))
    late = (rng.random(3_000) < 1.0 / (1.0 + np.exp(-1.5 * state))).astype(int)
    table = {"day": day, "block": day // 20, "late": late}
    [suspect, *_] = diagnosed(table, mechanism=of("block", {20: 150}, 3_000)).suspects
    assert suspect.role == "series"
    assert "Groups('block')" in suspect.suggestion()
    assert not diagnosed({**table, "late": rng.permutation(late)}, mechanism=of("block", {20: 150}, 3_000)).suspects


def customers(seed=0, start=0, shape=0.2):
    """1,900 customers of one row, and 5 of 40, in any order."""
    rng = np.random.default_rng(seed)
    customer = np.concatenate([np.arange(1_900), 1_900 + np.repeat(np.arange(5), 40)])
    order = rng.permutation(2_100)
    return {
        "customer": start + customer[order],
        "late": (rng.random(2_100) < rng.beta(shape, shape, 1_905)[customer])[order],
    }


def test_groups_that_are_mostly_of_size_one_are_looked_at():
    told = [diagnosed(customers(seed), mechanism=planned(rows=2_100), apart={"customer"}) for seed in range(10)]
    texts = [customers(seed) | {"customer": named("c", customers(seed)["customer"])} for seed in range(10)]
    told += [diagnosed(table, mechanism=planned(rows=2_100)) for table in texts]
    assert sum("customer" in {each.column for each in found.suspects} for found in told) >= 18
    rng = np.random.default_rng(1)
    quiet = [customers(seed) | {"late": rng.integers(0, 2, 2_100)} for seed in range(20)]
    assert not any(diagnosed(table, mechanism=planned(rows=2_100), apart={"customer"}).suspects for table in quiet)


def homes(seed, *, texts, informative):
    """Homes of 1 to 12, and columns of text besides; the label goes together with the size, or nothing does."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 13, 300)
    home = np.repeat(np.arange(300), sizes)
    chance = np.where(informative, 0.15 + sizes / 18, 0.5)[home]
    words = {f"text{place}": named("w", rng.integers(0, 4, len(home))) for place in range(texts)}
    return {"home": home, "late": (rng.random(len(home)) < chance).astype(int), **words}


@pytest.mark.parametrize("texts", [3, 7])
def test_informative_sizes_are_found_beyond_ten_outcomes(texts):
    mechanism = of("home", {6: 320}, 1_920)
    for seed in range(3):
        assert diagnosed(homes(seed, texts=texts, informative=True), mechanism=mechanism).informative == ("late",)
    told = [
        diagnosed(homes(seed, texts=texts, informative=False), mechanism=mechanism).informative for seed in range(10)
    ]
    assert not any(told)


def test_averages_of_small_groups_vary_more_without_being_informative():
    mechanism, alarms = of("home", {20: 380, 1: 20}, 7_620), 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        home = np.repeat(np.arange(400), np.where(np.arange(400) < 20, 1, 20))
        found = diagnosed({"home": home, "late": rng.integers(0, 2, len(home))}, mechanism=mechanism)
        alarms += bool(found.informative)
    assert alarms == 0


def structure(folder, training, holdout, declared=()):
    sealed = seal_rows(folder, SealRequest(holdout=holdout, training=training, label="late"))
    with FileStructure(folder, sealed) as found:
        return found.whole_groups(found.apart(), declared)


def test_whole_groups_on_one_side_are_seen_from_structure_alone(tmp_path):
    sides = schools(0, 0), schools(1, 10_000)
    for folder, declared, seen in (
        ("a", (), ("school", "class")),
        ("b", ("class",), ("school",)),
        ("c", ("school",), ()),
    ):
        (tmp_path / folder).mkdir()
        assert structure(tmp_path / folder, *sides, declared) == seen


def test_ids_attributes_and_what_follows_the_time_of_a_split_are_no_whole_groups(tmp_path):
    rng, day = np.random.default_rng(0), np.arange(2_000)
    table = {
        "day": day, "date": np.datetime64("2020-01-01") + day, "month": day // 30, "id": rng.permutation(2_000),
        "value": rng.normal(size=2_000), "zip": rng.integers(0, 400, 2_000), "late": rng.integers(0, 2, 2_000),
        "part": day // 1_000,
    }  # fmt: skip
    sides = [{name: column[day // 1_000 == side] for name, column in table.items()} for side in (0, 1)]
    assert structure(tmp_path, *sides) == ()


def subjects(seed, start=0):
    """60 subjects of 24 rows with as many labels of each kind; predictions are wrong for some of them more often."""
    rng = np.random.default_rng(seed)
    subject, late = np.repeat(np.arange(60), 24), np.tile([0, 1], 720)
    wrong = rng.random(1_440) < rng.beta(1.0, 3.0, 60)[subject]
    order = rng.permutation(1_440)
    return {
        "subject": named("p", start + subject)[order],
        "late": late[order],
        "says": np.where(wrong, 1 - late, late)[order],
    }


def sealed(folder, **wanted):
    return eh.Holdout.create(
        folder / "s.db", holdout=subjects(0), training=subjects(1, 1_000), label="late", queries=20,
        mechanism="guess_and_check", **settings_from({**wanted, "surprises": 2, "allow_vacuous": True}),
    )  # fmt: skip


def test_whole_groups_that_are_not_declared_are_warned_of_at_creation(tmp_path):
    with pytest.warns(DependenceWarning, match=r"No value of column 'subject' is among both.*eh.Groups\('subject'\)"):
        sealed(tmp_path).close()


@pytest.mark.parametrize("asked", ["says = late", eh.accuracy(subjects(0)["says"], training=subjects(1)["says"])])
def test_values_of_a_query_are_held_against_groups(tmp_path, asked):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DependenceWarning)
        holdout = sealed(tmp_path)
    with holdout:
        with pytest.warns(DependenceWarning, match=r"by groups of 'subject'.*eh.Groups\('subject'\)"):
            holdout.ask(asked)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert holdout.ask(asked).repeated
            holdout.ask("late = 1")
            holdout.ask("says = late and subject != 'p1'")  # it reads the column


def test_declared_groups_and_queries_about_them_are_left_in_peace(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", eh.VacuousGuaranteeWarning)
        with sealed(tmp_path, dependence=eh.Groups("subject")) as holdout:
            holdout.ask("says = late")
            holdout.ask(eh.ratio("says = late and late = 1", "late = 1"))


def test_a_ratio_is_held_against_groups_by_what_is_bet_on(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DependenceWarning)
        holdout = sealed(tmp_path)
    with holdout, pytest.warns(DependenceWarning, match="by groups of 'subject'"):
        holdout.ask(eh.ratio("says = late and late = 1", "late = 1"))


@pytest.mark.filterwarnings("ignore::everhold.errors.VacuousGuaranteeWarning")
def test_the_dependence_of_a_query_is_looked_at_once(tmp_path, monkeypatch):
    with sealed(tmp_path, dependence=eh.Groups("subject")) as holdout:
        holdout.ask("says = late")
        monkeypatch.setattr(DependenceMonitor, "evaluate", None)
        assert holdout.ask("says = late").repeated


def test_values_that_spread_little_are_held_against_the_spread_that_is_bet_on():
    rng = np.random.default_rng(0)
    slow = np.repeat(rng.normal(size=40), 100) + rng.normal(size=4_000)
    values = np.clip(0.5 + 0.01 * slow, 0.0, 1.0)
    watch = DependenceMonitor.of(planned(rows=4_000), 4_000).beside({}, {}, None, np.arange(4_000) >> 4)
    assert watch.worth(values, plan=20, bets=True).worth < 1_000
    assert watch.worth(values, plan=20) is None  # the spread of truth values covers it
    assert watch.worth(rng.permutation(values), plan=20, bets=True) is None


def test_settings_of_earlier_versions_name_no_whole_groups(tmp_path):
    with pytest.warns(DependenceWarning):
        holdout = sealed(tmp_path)
    with holdout:
        settings = dict(holdout._executor.record.configuration)
    assert schema_from(settings).whole_groups == ("subject",)
    del settings["whole_groups"]
    assert schema_from(settings).whole_groups == ()
