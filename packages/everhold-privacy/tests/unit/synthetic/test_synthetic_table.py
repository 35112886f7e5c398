"""What a synthetic table answers, promises and shows."""

import json
import math

import pytest
from scipy import stats
from synthetic_samples import plain_universe, random_family

from everhold.randomness import SeededNoise
from everhold.values.universe import QueryMatrix
from everhold_privacy.synthetic import BLR, SyntheticTable


@pytest.fixture
def table():
    noise, family = SeededNoise(3), QueryMatrix([[True, False]])
    blr = BLR(universe=plain_universe(2), queries=family, rows=3000, epsilon=0.1, size=10)
    return SyntheticTable(
        universe=blr.universe, weights=blr.learned(blr.release([1000, 2000], noise)), method=blr.method, rows=blr.rows,
        queries=len(family), radius=0.12, confidence=0.95, statement="S1", assumptions=(), privacy=blr.privacy(),
        margin=0.1, tilt=0.03, simulated=noise.simulated,
    )  # fmt: skip


def test_a_table_answers_for_ever_and_says_what_it_promises(table):
    query = [True, False]
    assert table.mean(query) == table.weights[0] == table.means(QueryMatrix([query]))[0]
    low, high = table.interval(query)
    assert 0 <= low < table.mean(query) < high <= 1
    assert max(high - table.mean(query), table.mean(query) - low) <= table.radius + 1e-12
    assert (table.statement, table.privacy, table.simulated) == ("S1", (0.1, 0.0), True)
    assert str(table.weights) not in repr(table)


def test_a_table_is_shown_like_everything_else(table):
    assert table.to_pandas()["weight"].sum() == pytest.approx(1)
    assert list(table.to_pandas().columns) == ["cell", "weight"]
    assert "weight" in table.to_text()
    assert "<table>" in table._repr_html_()
    again = SyntheticTable.from_dict(json.loads(json.dumps(table.to_dict())))
    assert again.to_dict() == table.to_dict()


def test_sampled_rows_follow_the_weights(table):
    rows = table.sample(4000, seed=1)
    assert rows == table.sample(4000, seed=1) != table.sample(4000, seed=2)
    counts = table.universe.histogram(rows)
    assert stats.binomtest(int(counts[0]), 4000, float(table.weights[0])).pvalue > 1e-6
    with pytest.raises(ValueError, match="rows"):
        table.sample(0, seed=1)


def test_weights_cannot_be_changed_and_wrong_queries_are_refused(table):
    with pytest.raises(ValueError, match="read-only"):
        table.weights[0] = 0.5
    for query in ([1], [2, 0], [math.nan, 0]):
        with pytest.raises(ValueError, match="Pass a number from 0 to 1"):
            table.mean(query)
    with pytest.raises(ValueError, match="about 3 cells"):
        table.means(random_family(1, 3))
    with pytest.raises(ValueError, match="weights"):
        SyntheticTable.from_dict({**table.to_dict(), "weights": [0.5, 0.6]})
