"""No double of an expression leaves the reach that is told of it."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import expression_reference as reference
from test_expression_engines import KINDS, generated

from everhold.values.expressions import ColumnKind, RowValue, parse
from everhold.values.expressions.tree import Operation
from everhold_engines.conformance import grid_integer, step_value
from everhold_engines.sql.branching import SqlCompiler, ValueRange, range_of
from everhold_engines.sql.dialects import POSTGRESQL


def reached(expression):
    """The reaches of all numbers of an expression, and the nodes themselves."""
    nodes, known = SqlCompiler(POSTGRESQL).prepared(expression).nodes, {}
    for node in nodes:
        if node.kind in (ColumnKind.NUMBER, ColumnKind.TIME):
            known[node] = range_of(node, known)
    return nodes, known


def outside(nodes, known, row):
    """Nodes of which a row has a number beyond their reach."""
    values, lost = {}, []
    for node in nodes:
        values[node] = step_value(node, [values[operand] for operand in node.operands], row)
        number, reach = values[node], known.get(node)
        if reach is None or number is None or isinstance(number, bool | str):
            continue
        whole = (
            math.isinf(number) or number == 0 or math.isinf(reach.step) or Fraction(number) % Fraction(reach.step) == 0
        )
        if not (reach.low <= number <= reach.high and whole):
            lost.append((node, number, reach))
    return lost


def awkward_rows(seed):
    data = reference.table(40, seed)
    return [dict(zip(data, row, strict=True)) for row in zip(*data.values(), strict=True)]


def test_no_number_is_beyond_its_reach():
    rows, narrow = awkward_rows(3), 0
    for _, value in generated(120, seed=31, size=4):
        nodes, known = reached(value.expression)
        assert not [found for row in rows for found in outside(nodes, known, row)]
        narrow += any(reach.most < math.inf and not math.isinf(reach.step) for reach in known.values())
    assert narrow > 60


def test_a_logarithm_is_watched_where_it_halves_and_nowhere_else():
    nodes, known = reached(parse("ln(x)", KINDS))
    assert known[nodes[-1]].most < 1_100.0
    quotients = [known[node] for node in nodes if node.operation is Operation.DIVIDE]
    assert all(reach.most < 1.0 and not reach.nan for reach in quotients)
    draw = random.Random(4)
    for _ in range(300):
        number = draw.uniform(0.5, 1.0) * 2.0 ** draw.randint(-1073, 1024)
        assert not outside(nodes, known, {"x": number})


def test_times_are_within_what_any_engine_has():
    nodes, known = reached(parse("year(visit)", KINDS))
    assert known[nodes[-1]].most < 3e8
    assert not any(reach.nan for reach in known.values())


def test_a_reach_that_is_too_narrow_would_be_seen(monkeypatch):
    monkeypatch.setattr("everhold_engines.sql.branching._FARTHEST", 1e9)
    nodes, known = reached(parse("hour(visit)", KINDS))
    assert [found for row in awkward_rows(3) for found in outside(nodes, known, row)]


def test_a_step_is_a_power_of_two_of_which_doubles_are_multiples():
    assert ValueRange(1.0, 2.0).step == 2.0**-52
    assert ValueRange(-1.0, 2.0).step == 5e-324


def test_the_rules_are_those_of_the_reference():
    """Two interpreters, written apart."""
    rows = awkward_rows(5)
    for tree, value in generated(300, seed=32, size=4):
        found = [grid_integer(value, row, unit=7) for row in rows]
        assert found == [reference.grid(reference.value(tree, row), value.low, value.high, 7) for row in rows]
    assert grid_integer(RowValue(parse("x", KINDS)), {"x": 0.5}, unit=4) == 2
