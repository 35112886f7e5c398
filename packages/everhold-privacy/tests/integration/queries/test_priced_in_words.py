"""Every result of a purchase says in one line what was found, and in some sentences what holds for the population."""

import numpy as np
import pytest

from everhold.queries.metrics.row_scores import accuracy, error
from everhold.values.base import Schema
from everhold.values.expressions import ColumnKind
from everhold.values.universe import ListedColumn, Universe
from everhold_privacy.queries.choice import BestCandidate, PrivateChoice, PrivateFirstAbove, PrivateQuantileAnswer
from everhold_privacy.queries.gradient import VectorAnswer
from everhold_privacy.queries.synthesis import SyntheticAnswer
from everhold_privacy.synthetic import SyntheticTable

PAID = {
    "charged": 1_000, "remaining": {"queries": 9, "credits": 1_200}, "query": "ab" * 32, "repeated": False,
    "confidence": 0.95,
}  # fmt: skip
TAIL = ", charged 1,000, 9 queries and 1,200 credits left"
BEST = {"index": 2, "candidate": "mean of x", "regret": 0.0625}
MEDIAN = {"low": 1.0, "high": 2.0, "quantile": 0.5, "error": 0.125}
FIRST = {"index": 1, "found": True, "asked": "mean of y", "threshold": 0.5, "within": 0.25}
VECTOR = np.array([1.0, 2.0])
GRADIENT = {"values": VECTOR, "lows": VECTOR - 1, "highs": VECTOR + 1, "within": 0.5, "clip": 2.0}
TABLE = SyntheticTable(
    universe=Universe((ListedColumn("a", ("u", "v"), rest="v"),)), weights=np.array([0.5, 0.5]), method="mwem",
    rows=100, queries=2, radius=0.25, confidence=0.95, statement="S1", assumptions=(), privacy=(0.1, 1e-6),
    margin=0.2, tilt=0.1, simulated=True,
)  # fmt: skip


@pytest.mark.parametrize(
    ("result", "line", "meaning"),
    [
        (BestCandidate(**BEST, **PAID), "candidate 2: mean of x, at most 0.0625 worse than the best", "0.0625 worse"),
        (
            PrivateQuantileAnswer(**MEDIAN, **PAID),
            "quantile 0.5 in [1, 2), its level within 0.125",
            "a share of at most 0.625 lies below 1 and a share of at least 0.375 lies below 2.",
        ),
        (
            PrivateFirstAbove(**FIRST, **PAID),
            "query 1: mean of y, the first above 0.5, within 0.25",
            "mean of y is at least 0.25 and each query before it is at most 0.75.",
        ),
        (
            PrivateFirstAbove(**{**FIRST, "index": None, "found": False, "asked": None}, **PAID),
            "none above 0.5, within 0.25",
            "every query is at most 0.75.",
        ),
        (VectorAnswer(**GRADIENT, **PAID), "(1, 2) within 0.5", "at most 0.5 away"),
        (
            SyntheticAnswer(table=TABLE, within=0.25, **PAID),
            "a synthetic table of 2 cells, 2 queries within 0.25",
            "to each of its 2 queries is within 0.25",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_was_found_and_what_it_means(result, line, meaning):
    assert str(result) == line + TAIL
    assert result.explain().startswith("With probability 95 %, and together with all other answers")
    assert meaning in result.explain()


def test_the_last_bin_and_the_first_have_one_end():
    first = PrivateQuantileAnswer(**{**MEDIAN, "low": -np.inf}, **PAID)
    last = PrivateQuantileAnswer(**{**MEDIAN, "high": np.inf}, **PAID)
    assert "population: a share of at least 0.375 lies below 2." in first.explain()
    assert "population: a share of at most 0.625 lies below 1." in last.explain()


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (BestCandidate, BEST),
        (PrivateQuantileAnswer, MEDIAN),
        (PrivateFirstAbove, FIRST),
        (VectorAnswer, GRADIENT),
        (SyntheticAnswer, {"table": TABLE, "within": 0.25}),
    ],
)
def test_a_refusal_says_so_and_what_is_left(kind, found):
    public = {key: value for key, value in found.items() if key in ("quantile", "threshold", "clip")}
    refused = kind(**{**dict.fromkeys(found), **public, **PAID, "charged": 0})
    assert str(refused) == "refused: what is left does not pay for it (9 queries and 1,200 credits left)"
    assert "Nothing was charged" in refused.explain()


def test_an_error_is_named_as_what_it_is():
    schema = Schema(6, 0, {"x": ColumnKind.NUMBER, "late": ColumnKind.NUMBER}, "late", "binary")
    bound = accuracy("x > 0").bind(schema), error("x > 0").bind(schema)
    assert [each.shown for each in bound] == ["accuracy of the rule x > 0", "error of the rule x > 0"]
    assert PrivateChoice(bound[1:], 100, "lowest").listed() == "1: error of the rule x > 0"
