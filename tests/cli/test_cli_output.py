"""How results are laid out."""

from everhold.cli.output import fits


def test_a_table_is_laid_out_for_the_width_of_the_terminal():
    columns, lines = ["value", "remaining"], [["0.5", "questions 9"]]
    assert fits(columns, lines, width=80)
    wide = [f"column{number}" for number in range(9)]
    assert not fits(wide, [["x" * 30] * 9], width=80)
    assert fits(wide, [["x" * 30] * 9], width=300)
    assert fits(["field", "value"], [["a", "x" * 300]], width=40)  # a record is folded
