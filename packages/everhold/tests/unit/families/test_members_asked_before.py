"""The entry of a declared member: its own, where the tree has one of the same query, told or silent."""

import pytest

from everhold import GuessAndCheck
from everhold.queries.interval_planner import MemberLevels
from everhold.queries.makers import mean
from everhold.queries.procedures import AskedBefore
from everhold.queries.query_compiler import QueryCompiler
from everhold.values.base import Schema
from everhold.values.expressions import ColumnKind

SCHEMA = Schema(rows=400, training_rows=0, columns={"x": ColumnKind.NUMBER})
MECHANISM = GuessAndCheck(rows=400, queries=20, surprises=2, tolerance=0.2, grid=10)


def compiler_of(known):
    """Of a holdout whose tree has these queries, and in which every query is a member."""
    families = MemberLevels(level_of=lambda bound: 3.0, asked_of_tree=lambda query, member: query in known)
    before = AskedBefore(known.__contains__, known.__contains__)
    return QueryCompiler(SCHEMA, MECHANISM, None, before, families=families)


def asked(known):
    """The entry that a member is asked as."""
    (entry,) = compiler_of(known).compile(mean("x > 0"), None, None).asked
    return entry


@pytest.mark.parametrize("again", [False, True])
def test_a_member_has_an_entry_of_its_own_beside_that_of_the_tree(again):
    first = asked(set())
    other = asked({first.fingerprint})
    assert other.fingerprint != first.fingerprint
    assert {**first.description, "declared": True} == other.description
    if again:
        assert asked({first.fingerprint, other.fingerprint}).fingerprint == other.fingerprint


def test_asked_silently_it_is_a_query_of_the_tree():
    first = asked(set())
    plan = compiler_of({first.fingerprint}).silently().compile(mean("x > 0"), None, None)
    assert not plan.is_free
    assert plan.asked[0].fingerprint == first.fingerprint
