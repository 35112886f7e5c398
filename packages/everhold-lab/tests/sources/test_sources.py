"""Every item of the three sources is on the page, with a call that gives the number that stands there."""

import math
import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from everhold_lab.sources import SOURCES, Call, ExperimentOf, number

DOCS = Path(__file__).parents[4] / "docs"
PAGE = DOCS / "theory" / "sources.md"


@pytest.fixture(scope="module")
def made():
    """The page as it is made now: every number of it is computed."""
    if "sources_page" not in sys.modules:
        spec = spec_from_file_location("sources_page", DOCS / "sources_page.py")
        sys.modules["sources_page"] = module = module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules["sources_page"].page()


def cells(text):
    return [re.split(r"(?<!\\) \| ", line) for line in text.splitlines()]


def numbers(cell):
    try:
        return [float(part.replace(",", "")) for part in cell.strip("| ").split(", ")]
    except ValueError:
        return None


def test_the_page_is_current_and_each_of_its_numbers_reproduces(made):
    written, now = cells(PAGE.read_text(encoding="utf-8")), cells(made)
    assert len(written) == len(now), "run: make sources"
    for before, after in zip(written, now, strict=True):
        assert before[:-1] == after[:-1], "run: make sources"
        old, new = numbers(before[-1]), numbers(after[-1])
        if old is None or new is None:
            assert before[-1] == after[-1], "run: make sources"
        else:  # other processors round the last of four digits differently
            assert old == pytest.approx(new, rel=2e-3, abs=1e-9), before[0]


def test_every_numbered_statement_of_the_sources_is_listed():
    places = {name: " ; ".join(item.place for item in items) for name, (_, items) in SOURCES.items()}
    for wanted in (
        "Algorithm 1", "Theorem 1, (7)", "Theorem 1, (8)", "Theorem 2", "Theorem 3", "Lemma 1", "Lemma 2", "Lemma 3",
        "Lemma 4", "Lemma 5", "Lemma 6", "Figure 1", "Figure 2", "Figure 3", "(1)", "(2)", "(3)", "(4)", "(5)", "(6)",
        "Theorem 19", "Theorem 25", "Rogers et al. 2016",
    ):  # fmt: skip
        assert wanted in places["zhao-2017"], wanted
    for wanted in (
        "correlation", "variance", "gradient", "low-sensitivity", "minimization", "continuous parameter", "transcript",
        "sample accuracy", "distributional accuracy", "sample splitting", "Gaussian mechanism", "(eps, delta)",
        "(eps, 0)", "resampling", "Azuma", "Algorithm 2",
    ):  # fmt: skip
        assert wanted in places["lecture-23"], wanted
    for wanted in (
        "composition", "advanced", "Example 1", "Example 2", "Sparse, delta = 0", "BLR", "sample complexity",
        "Hoeffding", "family", "chosen on the sample", "on average", "2015", "2016", "subsampling", "testing",
    ):  # fmt: skip
        assert wanted in places["more-dp-techniques"], wanted


def test_items_of_a_source_have_names_of_their_own_and_run_something():
    for _, items in SOURCES.values():
        assert len({item.place for item in items}) == len(items)
        for item in items:
            assert isinstance(item.run, (Call, ExperimentOf))


def test_calls_are_shown_as_they_are_made():
    """The text of a call evaluates to its number, so text and number cannot drift apart."""
    for _, items in SOURCES.values():
        for item in items:
            if isinstance(item.run, Call) and "chain(" not in item.run.shown and "Subsampling" not in item.run.shown:
                found, again = number(item), eval(item.run.shown, names(item.run))
                assert again == found, item.run.shown


def names(run):
    """The functions and classes that a call's text names."""
    known = {}
    for value in (run.function, *run.arguments, *run.named.values()):
        if isinstance(value, Call):
            known |= names(value)
        elif callable(value):
            home = sys.modules[value.__module__]
            first = value.__qualname__.partition(".")[0]
            known[first] = getattr(home, first)
    return known


def test_the_worlds_agree_with_what_the_sources_say():
    found = {item.place: number(item) for _, items in SOURCES.values() for item in items if "chain" not in item.place}
    assert found["2.3, equivalence"] == pytest.approx(math.log(3))
    assert found["(3)"] > math.log(3)  # dependence tells more than the loss of each answer
    assert found["(5)"] == pytest.approx(math.log(9))
    assert found["2.4, after (6)"] == pytest.approx(0.0, abs=1e-12)
    assert found["(31) as printed"] < found["Theorem 2"]
    assert found["(18), (22) to (27)"] <= 1.0
    assert found["Appendix, Doob martingale"] <= 0.5
    assert found["Lemma 6"] == pytest.approx(0.0, abs=1e-12)
    assert found["lemma, Bayesian resampling"] == pytest.approx(0.0, abs=1e-12)
    assert 1.0 < found["f(Q) and f(P)"] <= math.exp(0.7)
    assert 0.0 < found["4, theorem: on average"] <= math.expm1(0.5)
    assert found["4, h chosen on the sample"] == (1.0, 0.0)
    plain, sealed = found["adding noise reduces error"]
    assert plain > sealed
