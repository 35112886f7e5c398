"""How results are laid out."""

import io
import subprocess
import sys

import pytest

from everhold.cli import output
from everhold.cli.output import Format, fits, show_list, show_record


def test_a_table_is_laid_out_for_the_width_of_the_terminal():
    columns, lines = ["value", "remaining"], [["0.5", "queries 9"]]
    assert fits(columns, lines, width=80)
    wide = [f"column{number}" for number in range(9)]
    assert not fits(wide, [["x" * 30] * 9], width=80)
    assert fits(wide, [["x" * 30] * 9], width=300)
    assert fits(["field", "value"], [["a", "x" * 300]], width=40)  # a record is folded


def test_no_cell_of_csv_is_a_formula(capsys):
    rows = [{"asked": text, "value": -0.5} for text in ("=1+1", "+x", "-x", "@sum", "delay > 15", "-0.5")]
    show_list(rows, ["asked", "value"], Format.CSV, document=[])
    show_record({"=name": "=1"}, Format.CSV)
    told = capsys.readouterr().out.splitlines()
    assert told == [
        "asked,value", "'=1+1,-0.5", "'+x,-0.5", "'-x,-0.5", "'@sum,-0.5", "delay > 15,-0.5", "-0.5,-0.5", "'=name",
        "'=1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "lines", "numbers"),
    [
        (["field", "value"], [["rows", "5,000"], ["mechanism", "guess_and_check"]], set()),
        (["value", "low", "query"], [["0.30", "0.271", "mean of x > 0.7"], ["-", "-", "a"]], {"value", "low"}),
        (["only"], [], set()),
        (["a", "b"], [["", ""], [" x ", "[bold]y[/bold]"]], {"b"}),
        ([f"column {place}" for place in range(40)], [["a long text, " * 8 + "ends"] * 40], {"column 3"}),
    ],
    ids=["record", "numbers", "empty", "markup", "wide"],
)
def test_a_table_for_a_pipe_is_the_one_that_rich_draws(monkeypatch, columns, lines, numbers):
    def printed(*, plain):
        stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        monkeypatch.setattr("sys.stdout", stream)
        if not plain:
            monkeypatch.setattr(output, "_is_plain", lambda *_: False)
        output._print_table(columns, lines, numbers=numbers)
        stream.flush()
        return [line.rstrip() for line in stream.buffer.getvalue().decode().splitlines()]

    assert printed(plain=True) == printed(plain=False)


def test_a_table_for_a_pipe_needs_no_rich():
    code = (
        "import sys; from everhold.cli.output import Format, show_record; show_record({'a': 1}, Format.TABLE); "
        "sys.exit('rich' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-X", "utf8", "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["field", "value", "─" * 13, "a", "1"]
