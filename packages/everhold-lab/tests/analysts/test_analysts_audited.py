"""The analysts that the audit knows by name and plays only if asked to."""

from __future__ import annotations

import pytest

from everhold_lab.audit.audit import ANALYSTS, MORE_ANALYSTS, audit

WISH = {"surprises": 1, "confidence": 0.8, "mechanisms": ["guess_and_check"]}


@pytest.mark.parametrize(("queries", "rows"), [(16, 512), (1_000, 1_024)])
@pytest.mark.parametrize("name", MORE_ANALYSTS)
def test_they_ask_as_much_as_planned_and_break_no_promise(name, queries, rows):
    (line,) = audit(rows=rows, queries=queries, analysts=[name], runs=1, **WISH).lines
    asked = line.unprotected[0].queries
    assert asked == (320 if (name, queries) == ("optimising", 1_000) else queries)
    assert line.study.consistent
    assert (line.unprotected_violations == 1) == (queries == 1_000 and name != "optimising")


def test_they_are_no_part_of_the_default():
    assert not {*MORE_ANALYSTS} & {*ANALYSTS}
    with pytest.raises(ValueError, match="probing, boosting, crowd, optimising"):
        audit(rows=256, queries=50, analysts=["nobody"])
