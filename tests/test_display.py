"""One way to look at every result."""

import json

import pytest

from everhold.answers import Answer, QuotedPrice, Transcript
from everhold.display import text_table

ANSWER = Answer(0.5, 0.4, 0.6, "training", 0, {"questions": 9, "overfits": 2}, "ab" * 32, False, "S3", 0.95)
QUOTE = QuotedPrice(None, 0.1, 0.2, 0, 1, False, False, {"questions": 9})
ENTRY = {"sequence": 1, "asked": "mean of a < 1 & b > '<script>'", "value": None, "charged": 0}
SHOWN = [ANSWER, QUOTE, Transcript([ENTRY, {**ENTRY, "sequence": 2}]), Transcript([])]


@pytest.mark.parametrize("thing", SHOWN, ids=lambda thing: type(thing).__name__)
def test_every_form_has_the_same_rows(thing):
    rows = thing.to_rows()
    assert json.loads(json.dumps(thing.to_dict())) == thing.to_dict()
    assert thing.to_arrow().num_rows == len(rows) == len(thing.to_pandas())
    assert thing.to_text().count("\n") == len(rows)
    assert thing._repr_html_().count("<tr>") == (len(rows) + 1 if rows else 0)
    assert all(list(row) == list(rows[0]) for row in rows)
    if rows:
        assert list(thing.to_pandas().columns) == thing.to_arrow().column_names == list(rows[0])


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
    assert str(long).splitlines()[-1] == "... 61 lines in all; to_rows() and to_pandas() have them"
    assert long.to_text().count("\n") == 61
    assert long._repr_html_().count("<tr>") == 61
    assert "61 lines in all" in long._repr_html_()


def test_what_rounding_left_of_0_is_shown_as_0_and_no_end_moves_inwards():
    row = {"value": 2.8e-27, "low": -2.8e-27, "high": 2.8e-27, "within": 0.123401, "sum": -2.8e-27}
    assert text_table([row]).split()[-5:] == ["0", "-1e-15", "1e-15", "0.1235", "0"]
    for cell in ("<td>0</td>", "<td>-1e-15</td>", "<td>1e-15</td>"):
        assert cell in Transcript([row])._repr_html_()
    tiny = Answer(2.8e-27, 2.8e-27, 0.038441, "holdout", 1, {"questions": 9}, "ab" * 32, False, "S1", 0.95)
    assert str(tiny).startswith("0 in [0, 0.03845],")
    assert "[0, 0.03845]" in tiny.explain()
    assert tiny.to_dict()["low"] == 2.8e-27  # data keeps every digit


def test_ends_of_intervals_in_tables_are_rounded_outwards():
    table = text_table([{"low": 0.123449, "high": 0.123441, "value": 0.123441}])
    assert table.splitlines()[1].split() == ["0.1234", "0.1235", "0.1234"]
