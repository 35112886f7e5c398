"""Three ways to ask: the widths of a plan are those of its procedures, and come first in what people see."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import everhold as eh
from everhold.cli.application import app
from everhold.guarantees.intervals.means import ClopperPearson
from everhold.planning.choice import three_ways


def test_each_line_has_the_level_that_it_says() -> None:
    ways = eh.plan(rows=2_000, queries=40, surprises=5).ways
    assert ways is not None
    exact = ClopperPearson(rows=2_000, training=2_000)
    for way, level in (("declared", 0.05 * 0.5 / 40), ("one query", 0.05), ("Bonferroni", 0.05 / 40)):
        low, high = exact.expected(0.9, -math.log(level))
        assert ways.within(way) == pytest.approx((high - low) / 2.0, abs=1e-9), way
    names = ["one query", "Bonferroni", "declared", "silent", "steered", "steered, after surprises"]
    assert sorted(names, key=ways.within) == names


def test_a_declared_query_is_as_narrow_as_planned(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    rows = {"x": (rng.random(4_000) < 0.9).astype(np.int64), "z": rng.random(4_000)}
    sealed, training = ({name: column[part::2] for name, column in rows.items()} for part in (0, 1))
    texts = ["x = 1", *(f"z < {k / 100}" for k in range(19))]
    with eh.Holdout.create(
        f"sqlite:///{tmp_path / 'a.db'}", holdout=sealed, training=training, queries=20, declared=[eh.listed(texts)]
    ) as declared:
        answer, ways = declared.ask("x = 1"), eh.plan(rows=2_000, queries=20).ways
        assert ways is not None
        assert (answer.high - answer.low) / 2.0 == pytest.approx(ways.within("declared"), rel=0.15)
        assert declared.ways is not None


def test_noise_has_no_such_ways() -> None:
    assert three_ways(None) is None


def test_vacuous_steering_is_said() -> None:
    assert "told answers say little" in str(three_ways(eh.GuessAndCheck.tuned(rows=300, queries=200)).explain())
    assert "told answers say little" not in str(three_ways(eh.GuessAndCheck.tuned(rows=90_000, queries=20)).explain())


def test_the_plan_begins_with_them() -> None:
    command = ["plan", "--rows", "5000", "--queries", "50"]
    printed = CliRunner().invoke(app, command).output
    assert printed.index("declared") < printed.index("guess_and_check")
    document = json.loads(CliRunner().invoke(app, [*command, "--format", "json"]).output)
    assert [line["way"] for line in document["ways"]["lines"]][:3] == ["declared", "silent", "steered"]
    assert eh.plan(rows=5_000, queries=50)._repr_html_().index("<td") > 0
    assert eh.plan(rows=5_000, queries=50)._repr_html_().startswith("<p>Do you know your queries")
