"""Pictures drawn by a process of their own: a line in, a line out, whatever comes."""

import json
import subprocess
import sys

import pytest

from everhold.charts.drawing import DRAWINGS, answered, drawn
from everhold.dependence import Groups, MarkovChain

STEPS = [{"gate": "a", "sequence": 0, "promotions": 0}, {"gate": "a", "sequence": 3, "promotions": 1}]
GATES = {"name": "gates", "title": "One <promotion>", "facts": {"steps": STEPS, "last": 5}}


def test_a_picture_is_an_element_with_a_title_and_leaves_its_looks_to_the_page():
    svg = drawn(**GATES)
    assert svg.startswith("<svg")
    assert 'role="img"' in svg
    assert "<title>One &lt;promotion&gt;</title>" in svg
    assert "<style" not in svg
    assert " style=" not in svg
    assert "<script" not in svg


def test_a_model_of_dependence_is_drawn_where_it_says_enough():
    assert "max-influence" in drawn("dependence", "t", {"model": MarkovChain([[0.9, 0.1], [0.1, 0.9]]).to_dict()})
    with pytest.raises(ValueError, match="nothing to draw"):
        drawn("dependence", "t", {"model": Groups("patient").to_dict()})


def test_a_plan_is_drawn():
    facts = {"against": "queries", "rows": 5_000, "queries": 100, "overfits": 5, "confidence": 0.95}
    assert "your plan" in drawn("plan", "t", facts)


def test_every_line_is_answered_by_a_line_also_one_that_makes_no_sense():
    lines = ["{", '{"name": "nothing"}', '["answers"]', json.dumps({**GATES, "facts": {}}), json.dumps(GATES)]
    told = [json.loads(line) for line in answered(lines)]
    assert told[:4] == [None] * 4
    assert told[4].startswith("<svg")
    assert set(DRAWINGS) == {"answers", "budget", "dependence", "estimates", "gates", "plan"}


def test_the_process_ends_with_its_input():
    done = subprocess.run(
        [sys.executable, "-m", "everhold.charts.drawing"], input=f"{json.dumps(GATES)}\nnonsense\n", text=True,
        capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    first, second = done.stdout.splitlines()
    assert json.loads(first).startswith("<svg")
    assert json.loads(second) is None
    assert done.stderr == ""
