"""Boards of open results: what is proved holds, in games and in both kinds of tables, and faults name the item."""

import json
import re

import numpy as np
import pytest

import everhold as eh
from everhold import boards

MODELS = 6


def drawn(rng, items, chances, *, numbers=False):
    """Scores of models that share the difficulty of items."""
    hard = rng.random((items, 1))
    found = ((rng.random((items, len(chances))) + hard) / 2.0 < np.array(chances)).astype(float)
    scores = found * 0.8 + 0.2 * rng.random(found.shape) if numbers else found
    return {f"m{place}": scores[:, place] for place in range(len(chances))}


def is_wrong(found, chances):
    """True if a model is said to beat one that is as good or better."""
    truth = dict(zip((f"m{place}" for place in range(len(chances))), chances, strict=True))
    return any(truth[row.model] <= truth[other] for row in found.rows for other in row.beats)


@pytest.mark.parametrize("numbers", [False, True])
def test_orders_of_equal_models_are_rarely_claimed(numbers):
    rng, wrong, ranges = np.random.default_rng(1), 0, {"low": 0, "high": 1} if numbers else {}
    for _ in range(60):
        chances = [0.5] * MODELS
        wrong += is_wrong(eh.board(drawn(rng, 80, chances, numbers=numbers), confidence=0.8, **ranges), chances)
    assert wrong <= 20  # of 60 with a chance of .2, 21 have probability .006


def test_where_pairs_do_not_share_the_level_orders_are_wrong(monkeypatch):
    proved = boards._proved
    monkeypatch.setattr(boards, "_proved", lambda values, beta, **how: proved(values, 30.0 * beta, **how))
    rng, chances = np.random.default_rng(1), [0.5] * MODELS
    wrong = sum(is_wrong(eh.board(drawn(rng, 80, chances), confidence=0.8), chances) for _ in range(60))
    assert wrong > 20


def test_clear_orders_are_proved_with_tiers_ranks_and_intervals():
    chances = [0.8, 0.5, 0.5, 0.2]
    found = eh.board(drawn(np.random.default_rng(2), 400, chances))
    assert (found.first, found.may_be_first) == ("m0", ("m0",))
    assert [row.tier for row in found.rows] == [1, 2, 2, 3]
    assert [(row.best_rank, row.worst_rank) for row in found.rows] == [(1, 1), (2, 3), (2, 3), (4, 4)]
    assert all(row.low <= row.score <= row.high for row in found.rows)
    turned = eh.board(drawn(np.random.default_rng(2), 400, chances), lowest=True)
    assert turned.first == "m3"
    assert "Nothing is sealed" in found.explain()


def test_the_command_reads_wide_and_long_tables(everhold, tmp_path):
    wide = drawn(np.random.default_rng(3), 60, [0.9, 0.3])
    lines = ["item,m0,m1", *(f"q{n},{a},{b}" for n, (a, b) in enumerate(zip(*wide.values(), strict=True)))]
    (tmp_path / "wide.csv").write_text("\n".join(lines) + "\n")
    long = ["question,model,points"]
    long += [f"q{n},{name},{value}" for name, column in wide.items() for n, value in enumerate(column)]
    (tmp_path / "long.csv").write_text("\n".join(long) + "\n")
    page = tmp_path / "board.html"
    first = everhold("board", str(tmp_path / "wide.csv"), "--format", "json", "--output", str(page)).stdout
    columns = ["--model", "model", "--item", "question", "--score", "points"]
    second = everhold("board", str(tmp_path / "long.csv"), *columns, "--format", "json").stdout
    assert json.loads(first) == json.loads(second)
    assert json.loads(first)["first"] == "m0"
    assert "m0 is first." in page.read_text()
    assert "<svg" in page.read_text()


def test_a_page_has_all_models_with_their_names(tmp_path):
    names = [f"{'model ' * 20}{number}" for number in range(70)]
    found = eh.board({name: [1.0, 0.0] for name in names})
    page = found.to_html()
    assert page.count("<tr>") == 1 + len(names)
    assert all(f">{name}</td>" in page for name in names)
    assert page.count('<text x="10"') == 1 + len(names)  # names begin inside the picture
    assert max(map(len, re.findall("<text[^>]*>([^<]*)", found.to_svg()))) < 90


@pytest.mark.parametrize(
    ("results", "wanted", "said"),
    [
        ({"a": [1, 0], "b": [1, None]}, {}, "Item 2 has no score of 'b'"),
        ({"a": [1.5, 0], "b": [1, 1]}, {}, "range is not known"),
        ({"a": [1.5, 0], "b": [1, 1]}, {"low": 0, "high": 1}, "Item 1 has the score 1.5 of 'a'"),
        ({"a": [1, 0]}, {}, "1 models"),
        ({"a": [1, 0], "b": [1, 1]}, {"confidence": 2}, "confidence is 2"),
        ({"m": ["x", "x"], "i": ["q", "q"], "s": [1, 0]}, {"model": "m", "item": "i", "score": "s"}, "two scores"),
        ({"m": ["x", "y"]}, {"model": "m", "item": "i", "score": "s"}, "do not name three columns"),
    ],
)
def test_results_that_cannot_be_ranked_are_refused(results, wanted, said):
    kinds = {name: object if isinstance(column[0], str) else float for name, column in results.items()}
    table = {name: np.array(column, dtype=kinds[name]) for name, column in results.items()}
    with pytest.raises(eh.HoldoutRejected, match=said):
        eh.board(table, **wanted)


def test_the_declared_range_chooses_the_test_and_not_the_scores_seen():
    """Both tests at the whole level, of which results choose one, would be right with twice the failures."""
    seen = {"a": [1.0] * 30 + [0.0] * 10, "b": [1.0] * 12 + [0.0] * 28}
    other = {**seen, "b": [*seen["b"][:-1], 1e-9]}
    whole, nearly = (eh.board(each, low=0, high=1) for each in (seen, other))
    assert [row.low for row in whole.rows] == pytest.approx([row.low for row in nearly.rows], abs=1e-6)
    declared = eh.board(seen)
    assert declared.rows[0].low > whole.rows[0].low + 0.01
    with pytest.raises(eh.HoldoutRejected, match="range is not known"):
        eh.board(other)
