"""The language, its one canonical form, and its refusals."""

from __future__ import annotations

import json

import pytest

from everhold.errors import QueryRejected
from everhold.queries.means.mean import bound_mean
from everhold.values.expressions import ColumnKind, RowValue, parse

KINDS = {
    "a": ColumnKind.NUMBER,
    "b": ColumnKind.NUMBER,
    "arr_delay": ColumnKind.NUMBER,
    "carrier": ColumnKind.STRING,
    "flag": ColumnKind.BOOLEAN,
    "date": ColumnKind.OTHER,
    "visit": ColumnKind.TIME,
    "admitted": ColumnKind.TIME,
    "end": ColumnKind.NUMBER,
    "case": ColumnKind.NUMBER,
    "index": ColumnKind.NUMBER,
    "select": ColumnKind.NUMBER,
    "Mixed": ColumnKind.NUMBER,
    "mixed": ColumnKind.NUMBER,
    "odd name": ColumnKind.NUMBER,
    'quo"te': ColumnKind.NUMBER,
    "abs": ColumnKind.NUMBER,
}

SAME = [
    ["a > b", "b < a", "((a)>(b))", "NOT (a <= b)", "not b >= a", " a\n>\tb "],
    ["a >= b", "b <= a", "not (a < b)", "not b > a"],
    ["a <> b", "a != b", "b <> a", "not a = b", "not (b == a)"],
    ["a between 1 and 2", "a >= 1 and a <= 2", "2.0 >= a AND 1e0 <= a", "not (a < 1 or a > 2)"],
    ["a not between 1 and 2", "a < 1 or a > 2", "not (a between 1 and 2)"],
    [
        "a in (1, 2, 3)",
        "a in (3, 2.0, 1, 1)",
        "a = 1 or a = 2 or 3 = a",
        "a in (1, 2) or a = 3",
        "a in (1) or a in (2,3)",
    ],
    ["a not in (1, 2)", "a <> 1 and a <> 2", "not (a = 1 or a = 2)", "not a in (2, 1)"],
    ["a = 1", "a in (1)", "a in (1, 1.0)"],
    ["flag and a > b", "b < a and flag and flag", "not (not flag or a <= b)"],
    ["flag", "not not flag", "flag = true", "(flag) <> false", "flag or flag"],
    ["a + b", "b + a", "+a + b"],
    ["a * b", "b*a"],
    ["least(a, b, 1)", "LEAST(1.0, least(b, a), a)"],
    ["-1", "- 1", "-(1)", "- - -1.0"],
    ["a + 0", "a + -0", "a + 0.0"],
    ["a > .5", "a>.5", "a > 0.5", "a>5.e-1", ".5<a", "a > 50E-2"],
    ["a in (.5, 1.)", "a in (1,0.5)"],
    ["a between .5 and 5.and flag", "flag and a between 0.5 and 5"],
    ["case a when 1 then b end", "case when a = 1 then b else null end", "CASE WHEN 1 = a THEN b END"],
    ["a is not null", "not a is null", "not (a is null)"],
    ["Mixed", '"Mixed"'],
    [
        "visit > date '2024-01-31'",
        "date'2024-01-31'<visit",
        "visit > timestamp '2024-01-31 00:00:00'",
        "VISIT > TIMESTAMP '2024-01-31T00:00Z'",
        "not visit <= timestamp '2024-01-31 00:00:00.000+00:00'",
    ],
    ["visit in (date '2024-01-31', date '2023-01-31')", "visit = date '2023-01-31' or date '2024-01-31' = visit"],
    ["ln(a)", "log(a)", "LOG((a))"],
    ["carrier like 'U%'", "carrier LIKE 'U%%'", "not carrier not like 'U%'"],
    ["carrier like 'UA'", "carrier = 'UA'", "carrier in ('UA')"],
    ["lower(carrier) = 'ua'", "LOWER(upper(carrier)) = lower('UA')"],
    ["end > 1 and end < 3", '"end" > 1 and 3 > end', "1 < end and (end) < 3"],
    ["arr_delay", "ARR_DELAY", '"arr_delay"'],
]

DIFFERENT = [
    "a - b", "b - a", "a / b", "b / a", "a > b", "a >= b", "a < b", "a = b", "a + b", "a * b", "a", "b",
    "Mixed", "mixed",
    "a = 1", "carrier = '1'", "carrier = 'A'", "carrier = 'a'", "flag", "not flag", "a is null", "flag is null",
    "a = 1 or b = 1", "a in (1, 2)", "a <> 1 or a <> 2", "(a + b) + 1", "a + (b + 1)",
    "visit - admitted", "admitted - visit", "visit > admitted", "visit > date '2024-01-31'", "year(visit) = 2024",
    "month(visit)", "day(visit)", "hour(visit)", "isodow(visit)", "ln(a)", "carrier like 'A%'", "carrier like 'a%'",
    "carrier like '%A'", "lower(carrier) = 'a'", "upper(carrier) = 'a'", "end",
    "case when flag then a else b end", "case when flag then b else a end", "case when flag then a end",
    "flag and (a > b or a = b)", "(flag and a > b) or a = b", "true", "false", "1", "least(a, b)", "greatest(a, b)",
]  # fmt: skip

REFUSED = {
    "'a' + 1": "applied to a string",
    "carrier > 3": "compares a string with a number",
    "flag > false": "Compare booleans with = or <>",
    "a and flag": "applied to a number",
    "not a": "applied to a number",
    "carrier": "is a string",
    "date > 3": "neither numbers",
    "date is null": "neither numbers",
    "ar_delay > 3": "Did you mean 'arr_delay'?",
    "MIXED > 1": "Did you mean 'Mixed' or 'mixed'?",
    "nothing_like_it": "Name one of the columns of the holdout",
    "a = null": "'null' cannot be used",
    "null": "'null' cannot be used",
    "a in (1, null)": "'null' cannot be used",
    "a in (1, 'x')": "compares",
    "a in (b)": "list of numbers",
    "a in (1 + 1)": "list of numbers",
    "a in ()": "",
    "flag is true": "not followed by 'null'",
    "case when flag then null end": "Every result",
    "case when flag then 1 else 'x' end": "gives a string in one row and a number in another",
    "case when a then 1 end": "applied to a number",
    "sqrt(a)": "not a known function",
    "sum(a)": "not a known function",
    "max_drawdown(a)": "whole path and is no mean over rows",
    '"abs"(a)': "not a known function",
    "abs(a, b)": "",
    "abs()": "",
    "least()": "",
    "a % 2": "no word of the query language",
    "carrier || 'x' = 'y'": "no word of the query language",
    "carrier like a": "'like' is not followed by a text in quotes",
    "carrier like 'a' || 'b'": "no word of the query language",
    "carrier like '%a%b%'": "more than one part between",
    "carrier like '%a_b%'": "or '_' in it",
    "carrier like '" + "a" * 201 + "'": "longer than 200 characters",
    "a like '1%'": "applied to a number",
    "carrier ilike 'u%'": "no column 'ilike'",
    "carrier like 'u!%' escape '!'": "no column 'escape'",
    "log10(a)": "not a known function. Use abs",
    "log(2, a)": "'log' with an option",
    "ln()": "",
    "+".join(f"ln(a + {place})" for place in range(17)): "more than 16 logarithms",
    "visit": "The value of the expression is a time",
    "visit + 1 > admitted": "applied to a time",
    "visit > '2024-01-31'": "Write date '2024-01-31'",
    "visit > 3": "compares a time with a number",
    "visit > date '2024-02-30'": "is no date or time",
    "visit > date '2024-01-31 10:00:00'": "is no date or time",
    "visit > timestamp 'now'": "is no date or time",
    "visit > timestamp '2024-01-31 10:00:00+02:00'": "in UTC",
    "year(a)": "applied to a number",
    "lower(a) = 'x'": "applied to a number",
    "date('2024-01-31') > visit": "not a known function",
    "now() > visit": "not a known function",
    'carrier = "UA"': "Put a text in single quotes, 'UA'",
    "carrier = UA": "Put a text in single quotes, 'UA'",
    "'arr_delay' > 3": """a column in double quotes, "arr_delay\"""",
    "odd name > 3": """Did you mean "odd name\"""",
    "case > 3": """in double quotes, "case\"""",
    "cast(a as integer)": "not a known function",
    "a::int": "no word of the query language",
    "a; b": "no word of the query language",
    "a -- comment": "comments",
    "a /* comment */ > 1": "comments",
    "/*+ hint */ a": "comments",
    "1e400": "too large",
    "a = 9007199254740993": "numbers equal their neighbours. Seal long ids as texts, or write 9007199254740992.0",
    "a <> (-9007199254740992)": "numbers equal their neighbours",
    "a in (1, 9007199254740993)": "numbers equal their neighbours",
    "case a when 9007199254740993 then 1 else 0 end": "numbers equal their neighbours",
    "1_000": "_000'",
    "1..5": "no word of the query language",
    "a.5": "no word of the query language",
    "1 .5": "no word of the query language",
    "a > . 5": "no word of the query language",
    "a > ..5": "no word of the query language",
    "a > .5.5": "no word of the query language",
    "a > .": "no word of the query language",
    "0x10": "no column",
    "a b": "",
    "a, b": "",
    "(a, b) = (1, 2)": "",
    "*": "",
    "least(*)": "",
    "": "empty",
    "   ": "empty",
    "'open": "open quote",
    "a <": "is not an expression",
    "a < b < 1": "compares",
}  # fmt: skip


@pytest.mark.parametrize("spellings", SAME, ids=lambda spellings: spellings[0])
def test_spellings_of_one_query_share_one_form(spellings):
    forms = {parse(text, KINDS).canonical() for text in spellings}
    assert len(forms) == 1
    assert json.loads(forms.pop())["expression"] == 1


def test_different_queries_have_different_forms():
    assert len({parse(text, KINDS).canonical() for text in DIFFERENT}) == len(DIFFERENT)


def identity(row_value):
    return bound_mean(row_value, shown="").query


def test_the_range_is_part_of_the_query():
    delay = parse("arr_delay", KINDS)
    assert identity(RowValue(delay, 0, 60)) == identity(RowValue(delay, -0.0, 60.0))
    assert identity(RowValue(delay, 0, 60)) != identity(RowValue(delay, 0, 61))


@pytest.mark.parametrize(("text", "message"), REFUSED.items(), ids=list(REFUSED))
def test_refusals_say_why_and_that_nothing_was_charged(text, message):
    with pytest.raises(QueryRejected) as caught:
        parse(text, KINDS)
    assert message in caught.value.message
    assert "Nothing was charged." in caught.value.told
    assert len(caught.value.message) < 250
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_an_unknown_column_is_answered_with_the_few_that_there_are():
    few = {f"c{place}": ColumnKind.NUMBER for place in range(12)}
    with pytest.raises(QueryRejected, match=r"Name one of 'c0', 'c1', .*'c11'"):
        parse("zz > 1", few)
    with pytest.raises(QueryRejected, match="Name one of '年齢', 'größe'"):
        parse("zz > 1", {"年齢": ColumnKind.NUMBER, "größe": ColumnKind.NUMBER})
    with pytest.raises(QueryRejected, match="Name one of the columns of the holdout"):
        parse("zz > 1", {**few, "another": ColumnKind.NUMBER})
    with pytest.raises(QueryRejected, match="Name one of the columns of the holdout"):
        parse("zz > 1", {})


@pytest.mark.parametrize("name", ["index", "select", '"odd name"', '"quo""te"', "abs", "end", '"case"'])
def test_any_column_name_can_be_used(name):
    assert parse(f"{name} > 1", KINDS).columns() == (name.strip('"').replace('""', '"'),)


@pytest.mark.parametrize(("low", "high"), [(1, 1), (2, 1), (0, float("inf")), (float("nan"), 1), (-1.7e308, 1.7e308),
                                           ("0", 1), (None, 1), (False, True), (0, 10**400)])  # fmt: skip
def test_a_range_must_be_finite_and_not_empty(low, high):
    with pytest.raises(QueryRejected):
        RowValue(parse("a", KINDS), low, high)


def test_a_condition_has_no_range():
    with pytest.raises(QueryRejected, match="condition"):
        RowValue(parse("flag", KINDS), 0, 2)


@pytest.mark.parametrize("text", [None, 3, b"a"])
def test_only_text_is_read(text):
    with pytest.raises(QueryRejected, match="not a text"):
        parse(text, KINDS)
