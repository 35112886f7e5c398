"""What notebooks show of a holdout, its gates and its promise."""

import re

import numpy as np
import pytest
from holdout_samples import copied, create, guess_and_check

import everhold as eh

PARTS = ("p", "progress", "meter", "table", "thead", "tbody", "tr", "th", "td", "code", "span")


@pytest.fixture
def holdout(tmp_path):
    with copied(tmp_path) as made:
        yield made


def text_of(page):
    return re.sub(r"<[^>]+>", " ", page)


def test_a_holdout_shows_its_promise_what_is_left_and_the_latest_answers(holdout):
    assert "nothing yet" in holdout._repr_html_()
    for cut in range(7):
        holdout.ask(f"delay > {cut}")
    page = holdout._repr_html_()
    assert holdout.certificate().promise in text_of(page).replace("&#x27;", "'")
    whole, left = holdout.mechanism.queries, holdout.remaining["queries"]
    assert f'<progress value="{left}" max="{whole}"></progress>' in page
    assert whole - left == 7
    assert [f"delay &gt; {cut}" in page for cut in range(7)] == [False, False, True, True, True, True, True]
    assert set(re.findall(r"</?(\w+)", page)) <= set(PARTS)


def test_an_analyst_sees_what_is_left_to_them_and_only_their_own_answers(holdout):
    holdout.ask("delay > 1")
    holdout.allot("team <a>", queries=4, charges=1)
    analyst = holdout.analyst("team <a>")
    analyst.ask("delay > 2")
    page = analyst._repr_html_()
    assert "on behalf of team &lt;a&gt;" in page
    assert '<progress value="3" max="4"></progress> 3 of 4 queries left' in page
    assert "delay &gt; 2" in page
    assert "delay &gt; 1" not in page


def test_showing_asks_nothing_and_tells_nothing_that_was_silent(holdout):
    before = holdout.ask("delay > 3", silent=True).remaining
    page = holdout._repr_html_()
    assert holdout.remaining == before
    assert re.findall(r"<td[^>]*>([^<]*)</td>", page)[-7:] == [
        "1",
        "mean of delay &gt; 3",
        "-",
        "-",
        "-",
        "silent",
        "0",
    ]
    holdout.unseal()
    assert "unsealed and closed" in holdout._repr_html_()


def test_status_promise_and_gates_are_records(holdout):
    rows = holdout.schema.rows
    gate = holdout.gate("accuracy", champion=np.zeros(rows), training=np.zeros(holdout.schema.training_rows))
    for thing, said in ((gate, gate.champion[:12]), (holdout.status(), "0.95"), (holdout.promise, "independently")):
        page = thing._repr_html_()
        assert said in page
        assert set(re.findall(r"</?(\w+)", page)) <= set(PARTS)
    assert not re.search(r">[0-9a-f]{13,}<", holdout.status()._repr_html_())  # hashes are short


def test_rows_of_a_transcript_are_read_in_the_units_of_their_queries(tmp_path):
    queries = [
        eh.mean("delay", low=-60, high=60),
        eh.difference(eh.mean("delay > 9"), eh.mean("delay > 0")),
        eh.mean("delay > 1"),
    ]
    with create(tmp_path, mechanism=guess_and_check()) as holdout:
        answers = [holdout.ask(query) for query in queries]
        read = holdout.transcript().rows
        assert [(row["value"], row["low"], row["high"]) for row in read] == [(a.value, a.low, a.high) for a in answers]
        assert read[1]["value"] < 0.0
        assert [row["estimate"] for row in read] == pytest.approx([answer.value for answer in answers])
        told = holdout.unseal().rows
        assert [row["sealed"] for row in told] == [holdout.ask(query).sealed for query in queries]
