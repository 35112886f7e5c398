"""One way to look at every result."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from everhold.answers import Answer, QuotedPrice, Transcript
from everhold.display import Facts, cell_text, html_bar, text_table
from everhold.mechanisms import Promise

ANSWER = Answer(0.5, 0.4, 0.6, "training", 0, {"queries": 9, "surprises": 2}, "ab" * 32, False, "S3", 0.95)
QUOTE = QuotedPrice(None, 0.1, 0.2, 0, 1, False, False, {"queries": 9})
ENTRY = {"sequence": 1, "asked": "mean of a < 1 & b > '<script>'", "value": None, "charged": 0}
SHOWN = [ANSWER, QUOTE, Transcript([ENTRY, {**ENTRY, "sequence": 2}]), Transcript([])]


@pytest.mark.parametrize("thing", SHOWN, ids=lambda thing: type(thing).__name__)
def test_every_form_has_the_same_rows(thing):
    rows = thing.to_rows()
    assert json.loads(json.dumps(thing.to_dict())) == thing.to_dict()
    assert len(rows) == len(thing.to_pandas())
    assert thing.to_text().count("\n") == len(rows)
    fields = len(rows[0]) if len(rows) == 1 else 0
    assert thing._repr_html_().count("<tr>") == (fields if fields > 8 else len(rows) + 1 if rows else 0)
    assert all(list(row) == list(rows[0]) for row in rows)
    if rows:
        assert list(thing.to_pandas().columns) == list(rows[0])


def test_html_is_escaped():
    page = Transcript([{"<b>": "</td><script>alert(1)</script> & \"'"}])._repr_html_()
    assert "<script>" not in page
    assert "<b>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;&#x27;" in page


def test_text_puts_numbers_to_the_right_and_dashes_for_nothing():
    table = text_table([{"name": "a", "value": 1.23456}, {"name": "longer", "value": None}])
    assert table.splitlines() == ["name    value", "a       1.235", "longer      -"]
    assert text_table([]) == "nothing yet"


def test_what_is_printed_of_a_long_table_is_cut_and_says_so():
    short, long = (Transcript([{"sequence": number} for number in range(count)]) for count in (60, 61))
    assert str(short).count("\n") == 60 == short.to_text().count("\n")
    assert "in all" not in short._repr_html_()
    assert str(long).splitlines()[-1] == "... 61 lines in all, which to_rows() and to_pandas() have"
    assert long.to_text().count("\n") == 61
    assert long._repr_html_().count("<tr>") == 61
    assert "61 lines in all" in long._repr_html_()


def test_what_rounding_left_of_0_is_shown_as_0_and_no_end_moves_inwards():
    row = {"value": 2.8e-27, "low": -2.8e-27, "high": 2.8e-27, "within": 0.123401, "sum": -2.8e-27}
    assert text_table([row]).split()[-5:] == ["0", "-1e-15", "1e-15", "0.1235", "0"]
    for cell in (">0</td>", ">-1e-15</td>", ">1e-15</td>"):
        assert cell in Transcript([row])._repr_html_()
    tiny = Answer(2.8e-27, 2.8e-27, 0.038441, "holdout", 1, {"queries": 9}, "ab" * 32, False, "S1", 0.95)
    assert str(tiny).startswith("0 in [0, 0.03845],")
    assert "[0, 0.03845]" in tiny.explain()
    assert tiny.to_dict()["low"] == 2.8e-27  # data keeps every digit


def test_ends_of_intervals_in_tables_are_rounded_outwards():
    table = text_table([{"low": 0.123449, "high": 0.123441, "value": 0.123441}])
    assert table.splitlines()[1].split() == ["0.1234", "0.1235", "0.1234"]


def test_numbers_of_numpy_and_empty_collections_are_shown_in_tables():
    table = text_table([{"value": np.float64(0.25), "count": np.int64(7), "none": []}])
    assert table.splitlines()[1].split()[:2] == ["0.25", "7"]
    assert [cell_text(value) for value in (np.float64(0.25), [], (), {}, None)] == ["0.25", "-", "-", "-", "-"]


HOSTILE = """</td><script>alert(1)</script>" onload='x\u202ea\nb\x1b[2J"""


@pytest.mark.parametrize(
    "thing",
    [
        Transcript([{HOSTILE: HOSTILE, "asked": [HOSTILE], "left": {HOSTILE: 1}}]),
        Facts({HOSTILE: {HOSTILE: [{HOSTILE: HOSTILE}]}}),
    ],
    ids=["table", "record"],
)  # fmt: skip
def test_nothing_in_a_name_or_value_becomes_markup_or_steers_the_page(thing):
    page = thing._repr_html_()
    tags = set(re.findall(r"</?\w+", page))
    assert tags <= {f"{end}{tag}" for end in ("<", "</") for tag in ("table", "thead", "tbody", "tr", "th", "td", "p")}
    assert not {"\u202e", "\n", "\x1b"} & set(page)
    assert page.count("&lt;script&gt;") >= 3
    assert set(re.findall(r"<\w+ [^>]*>", page)) <= {
        f'<{cell} style="text-align: {side}">' for cell in ("th", "td") for side in ("left", "right")
    }


def test_hashes_are_short_and_moments_without_fractions_with_the_whole_in_the_title():
    page = Transcript([{"query": "ab" * 32, "asked_at": "2026-11-22T09:42:26.123456+00:00"}])._repr_html_()
    assert f'<code title="{"ab" * 32}">abababababab</code>' in page
    assert 'title="2026-11-22T09:42:26.123456+00:00" style="white-space: nowrap">2026-11-22 09:42:26</span>' in page


def test_an_answer_says_what_was_asked_above_its_numbers():
    answer = replace(ANSWER, shown="mean of a < 1")
    assert answer._repr_html_().startswith("<p>mean of a &lt; 1: 0.5 in [0.4, 0.6], from training, charged 0")


def test_facts_are_a_dict_that_is_shown_as_a_record():
    facts = Facts({"name": "flights", "left": {"queries": 1_997}, "gates": [{"gate": "a", "limit": None}], "ok": True})
    assert json.loads(json.dumps(facts)) == facts == facts.to_dict()
    assert facts.to_rows() == [{"name": "flights", "left.queries": 1_997, "gates": facts["gates"], "ok": True}]
    assert len(facts.to_pandas()) == 1
    assert str(facts).splitlines()[2].split() == ["left.queries", "1997"]
    page = facts._repr_html_()
    assert ">1,997</td>" in page
    assert ">yes</td>" in page
    assert page.count("<table>") == 2  # a list of records is a table of its own


def test_a_single_row_of_many_fields_has_one_field_below_the_other():
    promise = Promise("S8", 0.07, 0.95, ("rows are independent",), {"reach": 0.02}, sentence="All of them hold. " * 9)
    lines = str(promise).splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["field", "statement", "radius", "confidence"]
    assert len(promise.to_text().splitlines()) == 2


def test_what_is_left_is_a_bar_and_a_sentence():
    assert html_bar("surprises", 9, 10) == '<p><progress value="9" max="10"></progress> 9 of 10 surprises left</p>'
