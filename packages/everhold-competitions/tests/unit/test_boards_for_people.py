"""What people see of a board: positive numbers, places of ties, moves that are proved, and a scale for most teams."""

import re
from dataclasses import replace

import pytest

from everhold.errors import QueryRejected
from everhold_competitions.leaderboard import Comparison, Leaderboard, RankingRow

SHOWN = {"name": "RMSE", "unit": "units of delay", "range": "", "turned": True}
BOARD = Leaderboard(
    holdout="cup", metric="neg_root_mean_squared_error", higher_is_better=True, feedback="score", final=True,
    confidence=0.95, statement="S8", shown=SHOWN, public={"holdout": "cup.public", "rows": 600, "step": 0.1,
    "confidence": 0.95}, standings=[
        RankingRow("owls", -3.0, -3.4, -2.8, 1, 2, 1, 4),
        RankingRow("larks", -5.0, -5.5, -4.8, 2, 1, 3, 1),
        RankingRow("wrens", -5.1, -5.6, -4.9, 2, 1, 3, 3),
        RankingRow("zeros", -90.0, -95.0, -86.0, 4, 1, 4, 2),
    ],
    comparisons=[
        Comparison("owls", "larks", 2.0, 1.4, 2.6, "owls"), Comparison("wrens", "larks", -0.1, -0.7, 0.6, None),
        Comparison("zeros", "owls", -87.0, -92.0, -83.0, "owls"),
    ],
)  # fmt: skip


def test_people_read_positive_numbers_of_the_common_name_and_programs_what_they_asked_for():
    lines = {line["team"]: line for line in BOARD.lines()}
    assert (lines["owls"]["score"], lines["owls"]["low"], lines["owls"]["high"]) == (3.0, 2.8, 3.4)
    assert [line["place"] for line in lines.values()] == ["1", "2-3", "2-3", "4"]
    assert BOARD.by == "Ranked by RMSE, in units of delay (lower is better)."
    assert BOARD.to_dict()["rows"][0]["score"] == -3.0
    assert BOARD.for_people().for_people() == BOARD.for_people()
    page = BOARD.to_html()
    assert "neg_root" not in page
    assert "-3" not in re.sub(r"2-3|<style>.*?</style>", "", page, flags=re.DOTALL)


def test_a_move_from_the_public_place_is_shown_only_where_it_is_proved():
    assert [row.moved for row in BOARD.standings] == ["up 3", "down 1", "", "down 2"]
    assert "public place" in BOARD.to_html()
    assert "public place" not in replace(BOARD, public=None).to_html()


def test_a_score_far_from_the_others_is_drawn_at_the_edge_with_its_number():
    pictures = re.findall(r"<svg role=.*?</svg>", BOARD.to_html())
    assert ["far" in picture for picture in pictures] == [False, False, False, True]
    assert "90 ▸" in pictures[-1]
    ends = [
        float(at)
        for picture in pictures[:3]
        for at in re.findall(r'class="span" x1="(.*?)%".*?x2="(.*?)%"', picture)[0]
    ]
    assert max(ends) - min(ends) > 80  # per cent of the width
    near = replace(BOARD, standings=BOARD.standings[:3])
    assert "far" not in "".join(re.findall(r"<svg role=.*?</svg>", near.to_html()))


def test_two_teams_are_told_apart_in_a_sentence_whichever_is_named_first():
    proved = "'owls' is proved to be better than 'larks': its RMSE is 2 units of delay lower, and the true difference "
    assert (
        BOARD.tell_apart("owls", "larks") == BOARD.tell_apart("larks", "owls") == f"{proved}lies between 1.4 and 2.6."
    )
    open_ = BOARD.tell_apart("larks", "wrens")
    assert open_.startswith(
        "It is not proved which of 'larks' and 'wrens' is better. The RMSE of 'larks' less that of "
    )
    assert open_.endswith("is -0.1 units of delay, and the true difference lies between -0.7 and 0.6.")
    for pair, said in (
        (("owls", "eagles"), "no team"),
        (("owls", "owls"), "twice"),
        (("larks", "zeros"), "no comparison"),
    ):
        with pytest.raises(QueryRejected, match=said):
            BOARD.tell_apart(*pair)


def test_intervals_of_public_scores_are_folded_away_while_it_runs():
    running = replace(BOARD, final=False, comparisons=[]).to_html()
    assert running.index("<details>") < running.index('class="interval"')
    assert "<details>" not in BOARD.to_html()
