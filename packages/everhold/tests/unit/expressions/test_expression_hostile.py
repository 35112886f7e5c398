"""Hostile text is refused, or is a harmless expression; it never reaches a file, an error or a crash."""

from __future__ import annotations

import gc
import random
import sys
import time

import pyarrow as pa
import pytest
from expression_rows import embedded_rows

from everhold.errors import QueryRejected
from everhold.values.expressions import ColumnKind, RowValue, parse

KINDS = {
    "x": ColumnKind.NUMBER,
    "s": ColumnKind.STRING,
    "f": ColumnKind.BOOLEAN,
    "l": ColumnKind.OTHER,
    "t": ColumnKind.TIME,
}
CANARY = "canary-4711"

FRAGMENTS = [
    "read_csv('{canary}')", "read_text('{canary}')", "(select content from read_text('{canary}'))", "glob('*')",
    "(select 1)", "exists (select 1)", "x in (select x from sealed)", "x union select 1", "x; attach '{canary}'",
    "attach '{canary}' as c", "copy sealed to '{canary}'", "pragma threads=2", "set threads=1", "install httpfs",
    "export database 'e'", "'{canary}'", "from '{canary}'", "getenv('HOME')", "current_setting('threads')", "x::int",
    "try_cast(s as int)", "cast(s as double)", "columns(*)", "columns('x')", "*", "$1", "?", ":x", "@x", "#1",
    "row_number() over ()", "sum(x) over (order by x)", "sum(x)", "count(*)", "x'41'", "e'\\n'", "U&'d'", "$$x$$",
    "$t$x$t$", "list_transform([1], v -> v)", "lambda v: v", "[1, 2]", "{{'a': 1}}", "map {{'a': 1}}", "l[1]", "s.x",
    "sealed.x", '"sealed"."x"', "x -- y", "x /* y */", "/*+ hint */ x", "x # y", "s || s", "s like '%'", "s ~ 'a'",
    "s similar to 'a'", "s ilike 'a'", "s glob 'a'", "x % 2", "x // 2", "x ** 2", "x ^ 2", "x & 1", "x << 1", "~x",
    "!f", "x is distinct from 1", "x is true", "x between symmetric 1 and 2", "interval 1 day", "date '2020-01-01'",
    "timestamp 'now'", "now()", "random()", "sleep(9)", "repeat('a', 1000000000)", "x collate nocase", "x as y",
    "x at time zone 'UTC'", "case", "end", "when", "case when", "1e400", "-1e400", "9" * 5000, "0x10", "1_0", "1e", ".",
    "..", "1..2", "nan", "inf", "'nan'::double", "x / 0", "x / -0.0", "0 / 0", "1e308 * 1e308", "x\0", "'\0'",
    "\ud800", "'\udfff'", "\u200bx", "x\u200b > 1", "х > 1", "ｘ > 1", "x\u00a0> 1", "\ufeffx", "s = 'é\u0301'",
    "s = '\u202e'", "''' or 1=1 --'", "s = 'a'' or ''1''=''1'", "s = \"x", '"x', "'x", "`x`", '"x""', '""', "abs(x",
    "abs(x))", "abs(abs)", "abs(distinct x)", "least()", "least(x ignore nulls)", "abs(x) filter (where f)",
    "if(f, x, 1)", "coalesce(x, 1)", "x is null is null", "not", "- - - x", "+ + x", "x = = 1", "x <=> 1",
    "(x, 1) = (1, 2)", "x in ()", "x in (1,)", "x in 1", "x = any([1])",
    "{{% raw %}}", "{{{{ x }}}}", "x \\g",
    "values (1)", "table sealed", "prepare p as select 1", "call f()", "explain select 1",
    "with a as (select 1) select * from a",
    "x from sealed", "x where f", "x limit 1", "x order by 1", "x > all (select 1)", "row(1)", "struct_pack(a := 1)",
    "x := 1", "x => 1",
    "s like '%_%_%_%_%a'", "s like '" + "%a" * 99 + "'", "s like s", "s like '%' escape '%'", "s not like 'a' like 'b'",
    "t > timestamp 'infinity'", "t > date '0000-00-00'", "t > timestamp '2024-01-01 00:00:00 Europe/Oslo'",
    "t > current_date", "t > today()", "t - interval 1 day", "date '2024-01-01' - t", "year(t) / 0", "t = t",
    "ln(ln(ln(x)))", "log(-1)", "lower(upper(lower(s))) = 's'", "year(year(t))", "epoch(t)", "strftime(t, '%s')",
    "like", "date", "timestamp", "date 'x' 'y'", "lower('" + "A" * 3000 + "') = s", "day", "hour(t) = hour",
    "'a' 'b'", "s = 'a' 'b'", "true > false", "null", "f = null", "x = 1 = f", "x < 1 < 2",
]  # fmt: skip
SIGNS = [
    "x", "s", "f", "'", '"', "(", ")", ",", ";", "-", "+", "*", "/", "<", ">", "=", "!", ".", "1", "e", "0", "and",
    "or", "not", "in", "is", "null", "case", "when", "then", "end", "\n", "\\", "$", "{", "}", "[", "]", ":",
]  # fmt: skip
FRAMES = ["{}", "x > 1 and {}", "({})", "abs({})", "case when f then {} else 1 end", "x in ({})", "{} or f", "-{}"]
DEEP = {
    "brackets": lambda n: "(" * n + "x" + ")" * n,
    "open brackets": lambda n: "(" * n,
    "not": lambda n: "not " * n + "f",
    "not equal": lambda n: "f = not " * n + "f",
    "not between": lambda n: "not x between 1 and " * n + "2",
    "minus": lambda n: "- " * n + "x",
    "plus": lambda n: "+" * n + "x",
    "dashes": lambda n: "x-" * n + "x",
    "abs": lambda n: "abs(" * n + "x" + ")" * n,
    "case": lambda n: "case when f then " * n + "x" + " end" * n,
    "open case": lambda n: "case when f then " * n,
    "case subject": lambda n: "case " * n + "x" + " when 1 then 2 end" * n,
    "in": lambda n: "x in (" * n,
    "long in": lambda n: "x in (" + ", ".join("1" for _ in range(n)) + ")",
    "sum": lambda n: "x + " * n + "x",
    "and": lambda n: "f and " * n + "f",
    "compare": lambda n: "x < " * n + "x",
    "list": lambda n: "[" * n + "]" * n,
    "quotes": lambda n: "'" * n,
    "string": lambda n: "s = '" + "a" * n + "'",
    "name": lambda n: "x" * n,
    "comment": lambda n: "/*" * n,
    "between": lambda n: "x between " * n + "x",
    "is": lambda n: "x " + "is null " * n,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a file that no text may reach."""
    made = tmp_path_factory.mktemp("hostile")
    (made / "canary.csv").write_text(CANARY)
    return made


@pytest.fixture(scope="module")
def engine(folder):
    times = pa.array([0, None, 2**52], pa.timestamp("us"))
    table = pa.table({"t": times, "x": [1.0, None, float("inf")], "s": ["a", None, CANARY], "f": [True, None, False]})
    with embedded_rows(table, folder) as rows:
        yield rows


def hostile(canary):
    """Fragments in every frame, and random splices of two of them."""
    fragments = [fragment.format(canary=canary) for fragment in FRAGMENTS]
    yield from (frame.replace("{}", fragment) for fragment in fragments for frame in FRAMES)
    draw = random.Random(5)
    for _ in range(1_500):
        one, other = draw.choices(fragments, k=2)
        yield one[: draw.randint(0, len(one))] + draw.choice(["", " ", "(", "'", '"', " and ", ", "]) + other
    for _ in range(1_500):
        yield draw.choice(["", " "]).join(draw.choices(SIGNS, k=draw.randint(1, 20)))


def outcome(text, engine):
    """None if refused; the total if accepted, which must then be computed without an error."""
    started = time.thread_time()
    gc.disable()  # the heap of all tests before takes longer to look through than a text
    try:
        expression, message = parse(text, KINDS), ""
    except QueryRejected as refusal:
        expression, message = None, refusal.message
    finally:
        gc.enable()
    assert time.thread_time() - started < 0.5
    if expression is None:
        assert message.endswith((".", "?"))
        assert message.isprintable()
        assert len(message) < 300
        return None
    return engine.totals([RowValue(expression)], unit=4)[0]


def test_hostile_text_is_refused_or_harmless(engine, folder):
    texts = list(hostile(folder / "canary.csv"))
    files = sorted(folder.iterdir())
    accepted = [text for text in texts if outcome(text, engine) is not None]
    assert len(set(texts)) > 3_000
    assert 20 < len(accepted) < len(texts) / 3
    assert not [text for text in accepted if "canary" in text and "= '" not in text]
    assert sorted(folder.iterdir()) == files


@pytest.mark.parametrize("shape", DEEP.values(), ids=list(DEEP))
@pytest.mark.parametrize("times", [15, 30, 100, 900, 5_000, 50_000])
def test_deep_and_long_text_is_refused_or_harmless(engine, shape, times):
    outcome(shape(times), engine)


def test_text_is_refused_rather_than_overflowing_a_nearly_full_stack():
    def below(frames):
        return parse("((((((((((x))))))))))", KINDS) if frames == 0 else below(frames - 1)

    with pytest.raises(QueryRejected):
        below(sys.getrecursionlimit() - 250)
    assert below(10)
