"""How results are laid out."""

from everhold.cli.output import Format, fits, show_list, show_record


def test_a_table_is_laid_out_for_the_width_of_the_terminal():
    columns, lines = ["value", "remaining"], [["0.5", "questions 9"]]
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
