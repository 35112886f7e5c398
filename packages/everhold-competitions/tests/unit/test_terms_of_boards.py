"""Deadline and rules stand on every form of a board, and rules keep their lines."""

from everhold_competitions.leaderboard import Leaderboard

RULES = "1. One account.\r\n2. <b>No</b> hand labels.\x1b[2J"
SHOWN = "1. One account.\n2. <b>No</b> hand labels.\\x1b[2J"


def test_every_form_of_a_board_shows_deadline_and_rules_with_their_lines():
    board = Leaderboard(
        holdout="cup", metric="accuracy", higher_is_better=True, feedback="none", final=False, standings=[],
        confidence=0.95, statement="S8", deadline="2026-12-01T12:00:00+00:00", rules=RULES,
    )  # fmt: skip
    assert str(board).endswith(f"Deadline: 1 December 2026, 12:00 UTC\nRules:\n{SHOWN}")
    page = board.to_html()
    assert "1 December 2026, 12:00 UTC" in page
    assert SHOWN.replace("<", "&lt;").replace(">", "&gt;") in page
