"""Planted groups and series are found in the right column, and independent rows stay in peace."""

import json
import math
import warnings

import duckdb
import numpy as np
import pytest
from diagnosis_samples import diagnosed, households, plain, planned, series, written

from everhold.dependence import Groups, Independent, MarkovChain
from everhold.dependence.series.gaussian_ar1 import GaussianAR1
from everhold.diagnosis import diagnosis as diagnosis_module
from everhold.diagnosis.columns import FILE_ORDER
from everhold.diagnosis.diagnosis import diagnose_file, warn_of_dependence
from everhold.errors import DependenceWarning, EverholdWarning


def warned(diagnosis):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_dependence(diagnosis)
    return [str(one.message) for one in caught if issubclass(one.category, DependenceWarning)]


@pytest.mark.parametrize("shuffled", [True, False])
def test_households_are_found_and_nothing_else(shuffled):
    found = diagnosed(households(shuffled=shuffled))
    assert [suspect.column for suspect in found.suspects if suspect.column != "index"] == ["home"]
    home = found.finding("home")
    assert home.correlation == pytest.approx(1 / 3, abs=4 * home.standard_error)
    assert (home.groups, home.sizes, home.in_file) == (500, ((4, 500),), not shuffled)
    assert home.suggestion() == "dependence=eh.Groups('home')"
    assert found.findings[0] == home


@pytest.mark.parametrize("mechanism", ["guess_and_check", "gaussian"])
def test_the_radius_is_that_of_the_plan_under_the_suggested_model(mechanism):
    found = diagnosed(households(), mechanism=planned(mechanism))
    home = found.finding("home")
    promised = planned(mechanism, dependence=Groups(4)).promise().radius
    assert home.radius == pytest.approx(promised, rel=1e-9)
    assert found.radius == planned(mechanism).promise().radius < home.radius
    assert home.effective_rows == 1_000
    assert not home.estimate


def test_a_series_is_found_with_its_correlation():
    found = diagnosed(series())
    assert [suspect.column for suspect in found.suspects] == ["day"]
    day = found.finding("day")
    assert day.role == "series"
    assert day.correlation == pytest.approx(0.6, abs=4 * day.standard_error)
    assert day.effective_rows == pytest.approx(4_000 * (1 - day.correlation) / (1 + day.correlation))
    assert day.radius == planned(dependence=GaussianAR1(day.correlation, gap=math.inf)).promise().radius
    assert day.estimate
    assert "MarkovChain.fit(training, order_by='day', state='late')" in day.suggestion()


def test_the_order_is_that_of_the_column_and_not_of_the_file():
    rows = series()
    order = np.random.default_rng(1).permutation(len(rows["late"]))
    shuffled = diagnosed({name: column[order] for name, column in rows.items()})
    day = shuffled.finding("day")
    assert day.correlation == diagnosed(rows).finding("day").correlation
    assert not day.in_file


def test_whole_numbers_order_rows_where_they_are_an_index():
    late, index = series()["late"], np.arange(2_000)
    assert diagnosed({"index": index * 3, "late": late}).finding("index").clear
    swapped = index.copy()
    swapped[[5, 6]] = [6, 5]
    assert diagnosed({"index": swapped, "late": late}).finding("index").clear
    income = np.random.default_rng(0).choice(10**9, 2_000, replace=False)
    assert [found.column for found in diagnosed({"income": income, "late": late}).findings] == [FILE_ORDER]


def test_a_shuffled_index_shows_the_series_that_it_numbers():
    order = np.random.default_rng(1).permutation(2_000)
    found = diagnosed({"index": np.arange(2_000)[order], "late": series()["late"][order]})
    assert [suspect.column for suspect in found.suspects] == ["index"]


def test_independent_rows_give_no_warning():
    assert not [seed for seed in range(150) if warned(diagnosed(plain(seed), brief=True))]
    assert not [seed for seed in range(50) if warned(diagnosed(plain(seed), label=None, brief=True))]


def test_levels_alone_would_warn_too_often():
    noisy = [min(found.p_value for found in diagnosed(plain(seed), brief=True).findings) for seed in range(100)]
    assert sum(p_value < 0.5 for p_value in noisy) > 10  # so the study above could have failed


def test_a_property_of_independent_rows_is_an_attribute():
    rng = np.random.default_rng(0)
    carrier = rng.integers(0, 12, 3_000)
    late = (rng.random(3_000) < carrier / 12).astype(int)
    found = diagnosed({"carrier": np.array([f"c{code}" for code in carrier], dtype=object), "late": late})
    assert (found.finding("carrier").role, found.finding("carrier").radius) == ("attribute", None)
    assert found.finding("carrier").p_value < 1e-9
    assert found.finding("carrier").suggestion() is None
    assert not warned(found)


def test_a_measurement_that_predicts_is_no_group():
    rng = np.random.default_rng(0)
    income = rng.integers(0, 400, 3_000)
    found = diagnosed({"income": income, "late": (rng.random(3_000) < income / 400).astype(int)})
    assert found.finding("income").correlation > 0.2
    assert (found.finding("income").role, found.finding("income").clear) == ("group", False)


def test_what_explains_all_that_is_seen_is_left_in_peace():
    assert warned(diagnosed(households()))
    found = diagnosed(households(), mechanism=planned(dependence=Groups("home").of_counts({4: 1_000}, column="home")))
    assert found.finding("home").p_value > 0.01
    assert not found.suspects
    assert not warned(found)
    chain = MarkovChain.fit(series(), order_by="day", state="late", gap=math.inf)
    assert not diagnosed(series(1), mechanism=planned(dependence=chain)).suspects


def test_the_warning_names_the_column_and_both_radii():
    found = diagnosed(households())
    [text] = warned(found)
    for part in ("'home'", f"{found.finding('home').radius:.2g}", f"{found.radius:.2g}", "eh.Groups('home')"):
        assert part in text
    assert "worth that of about 1,0" in text
    assert "declare rows=eh.Rows(independent=['home'])" in text
    assert issubclass(DependenceWarning, EverholdWarning)
    with pytest.warns(DependenceWarning):
        warn_of_dependence(found)


def test_a_promise_that_would_be_worth_nothing_is_said_so():
    [text] = warned(diagnosed(households(), mechanism=planned(rows=100)))
    assert "worth nothing" in text


def test_without_a_label_the_columns_themselves_are_compared():
    rows = households(shuffled=False)
    rows["income"] = rows["home"] % 7 + np.random.default_rng(0).normal(size=2_000)
    del rows["late"]
    found = diagnosed(rows, label=None)
    assert found.finding("home").outcome == "income"
    assert {suspect.column for suspect in found.suspects} == {"home", "index"}


def test_without_a_label_columns_that_go_together_are_no_witness():
    rng = np.random.default_rng(0)
    city = rng.integers(0, 300, 3_000)
    found = diagnosed({"city": city, "height": rng.normal(size=300)[city]}, label=None)
    assert found.finding("city").clear
    assert not found.suspects


def test_a_label_of_text_is_looked_at_class_by_class():
    rows = series()
    rows["late"] = np.where(rows["late"] == 1, "rain", "sun").astype(object)
    assert diagnosed(rows).finding("day").outcome in ("late = rain", "late = sun")


@pytest.mark.parametrize(
    "late", [np.zeros(2_000, dtype=int), np.arange(2_000) < 5], ids=["one value", "hardly another value"]
)
def test_a_constant_label_says_nothing(late):
    found = diagnosed(households() | {"late": late})
    assert not any(each.clear or each.of_label for each in found.findings)


def test_neighbours_that_are_equal_throughout_are_worth_nothing():
    late = np.repeat([0, 1], 1_000)
    found = diagnosed({"index": np.arange(2_000), "late": late}).finding("index")
    assert found.clear
    assert found.effective_rows < 10


def test_missing_values_are_groups_of_their_own():
    rows = households()
    home = rows["home"].astype(object)
    home[:100] = None
    rows["home"] = np.array([None if value is None else f"h{value}" for value in home], dtype=object)
    found = diagnosed(rows).finding("home")
    assert found.missing == 100
    assert sum(size * number for size, number in found.sizes) == 2_000
    assert found.clear


def test_one_group_single_rows_and_nothing_at_all():
    late = series()["late"]
    alone = np.random.default_rng(0).permutation(2_000)
    for column in (np.zeros(2_000, dtype=int), alone * 1_000_000, np.full(2_000, None)):
        assert [found.column for found in diagnosed({"home": column, "late": late}).findings] == [FILE_ORDER]
    assert diagnosed({"late": np.random.default_rng(0).integers(0, 2, 2_000)}).findings == ()
    assert diagnosed({"home": np.array([1]), "late": np.array([1])}).findings == ()
    with pytest.raises(ValueError, match="no column"):
        diagnosed({})
    with pytest.raises(ValueError, match="Nothing was found about a column 'x'"):
        diagnosed({"late": late}).finding("x")


def test_a_mechanism_that_cannot_serve_groups_has_no_radius():
    found = diagnosed(households(), mechanism=planned("sample_splitting", queries=3, surprises=1))
    assert found.finding("home").radius is None
    assert warned(found)


def test_brief_computes_one_radius():
    full, brief = diagnosed(households()), diagnosed(households(), brief=True)
    assert [found.column for found in brief.findings if found.radius is not None] == ["home"]
    assert sum(found.radius is not None for found in full.findings) > 1
    assert brief.finding("home") == full.finding("home")


def test_a_file_says_the_same_as_its_arrays(tmp_path):
    rows = households() | {"late": households()["late"].astype(bool)}
    rows["size"][3] = np.nan
    rows["zip"][4] = None
    mechanism = planned()
    found = diagnose_file(written(tmp_path / "training.parquet", rows), label="late", mechanism=mechanism)
    assert found == diagnosed(rows, mechanism=mechanism)


def test_long_files_are_looked_at_in_whole_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(diagnosis_module, "_MOST_ROWS", 1_000)
    path = written(tmp_path / "training.parquet", households(rows=8_000))
    for label in ("late", None):
        found = diagnose_file(path, label=label, mechanism=planned())
        assert found.finding("home").sizes[-1][0] == 4
        assert {size for size, _ in found.finding("home").sizes} == {4}
        assert found.finding("home").correlation > 0.2
        assert "of 8,000 training rows about 1,000" in str(found)


@pytest.mark.parametrize("rows", [2_000, 4_000, 8_000, 16_000])
def test_long_files_without_whole_numbers_are_looked_at(rows, tmp_path, monkeypatch):
    """No value of a column of few values may be among the whole groups that are read."""
    monkeypatch.setattr(diagnosis_module, "_MOST_ROWS", 1_000)
    rng = np.random.default_rng(0)
    table = {"arm": rng.choice(["A", "B"], rows).astype(object), "late": rng.random(rows) < 0.3}
    for label in ("late", "arm"):
        found = diagnose_file(written(tmp_path / f"{label}.parquet", table), label=label, mechanism=planned())
        assert found.suspects == ()


def test_columns_that_cannot_be_looked_at_are_counted(tmp_path):
    wide = {f"c{number}": np.arange(10) for number in range(70)}
    found = diagnose_file(written(tmp_path / "training.parquet", wide), label="c69", mechanism=planned())
    assert found.notes == ("10 of 70 columns were not looked at",)


def test_columns_of_other_types_only(tmp_path):
    with duckdb.connect(":memory:") as connection:
        connection.execute(f"COPY (SELECT [1, 2] AS pair FROM range(50)) TO '{tmp_path / 'training.parquet'}'")
    found = diagnose_file(tmp_path / "training.parquet", label=None, mechanism=planned())
    assert (found.findings, found.notes) == ((), ("1 of 1 columns were not looked at",))


def test_names_and_text_labels_of_every_kind(tmp_path):
    rows = {
        'a "b" c': households()["home"],
        "file": np.arange(2_000),
        "late": series()["late"].astype(str).astype(object),
    }
    found = diagnose_file(written(tmp_path / "training.parquet", rows), label="late", mechanism=planned())
    assert [suspect.column for suspect in found.suspects] == ["file"]
    assert found.finding("file").outcome in ("late = 0", "late = 1")


def test_it_is_shown_in_every_form():
    found = diagnosed(households())
    assert found.to_pandas()["column"].tolist() == [each.column for each in found.findings]
    assert "<table>" in found._repr_html_()
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["suspects"] == ["home"]
    assert "dependence=eh.Groups('home')" in str(found)
    assert "No column groups" in str(diagnosed({"late": plain()["late"]}))


def test_declared_is_what_the_mechanism_assumes():
    assert diagnosed(plain()).declared == Independent()
