"""An agent asks one query over time, where rows arrive."""

import numpy as np
import pytest
from mcp_samples import call, create, refused, rows, told

import everhold as eh


@pytest.fixture
def holdout(tmp_path):
    with create(tmp_path, grows=True) as made:
        yield made


def test_the_windows_are_asked_and_charged_like_queries(holdout):
    holdout.append(rows(3, first_id=20_000), until="2026-02-01")
    (told, wrong) = call(holdout, ("over_time", {"query": "x > 0", "by": "month"}), ("over_time", {"query": "x >"}))
    assert [row["window"] for row in told.structured_content["result"]["windows"]] == ["at creation", "2026-02"]
    assert told.structured_content["left"]["queries"] == 198
    assert wrong.is_error


def test_drift_is_charged_like_two_queries_a_column(holdout):
    holdout.append(rows(3, first_id=20_000))
    (told, wrong) = call(holdout, ("drift", {"columns": ["x"]}), ("drift", {"arrival": 9}))
    found = told.structured_content["result"]
    assert (found["arrival"], found["changed"]) == (1, [])
    assert told.structured_content["left"]["queries"] == 198
    assert wrong.is_error


def test_the_steward_completes_a_champion_and_an_analyst_cannot(tmp_path):
    with create(tmp_path, grows=True, features="public") as made:
        made.allot("night", queries=10, charges=1)
        made.gate("accuracy", champion="x > 1", name="rule")
        late = rows(0)["late"]
        made.gate("accuracy", champion=late ^ (np.arange(len(late)) % 3 == 0), name="known")
        new = rows(3, first_id=20_000)
        made.append(new)
        assert "complete" in told(made, "describe")["next"]
        assert "Only the steward can complete the champion" in refused(
            made.analyst("night"), "complete", {"rule": "x > 1", "gate": "rule"}
        )
        assert "is not the champion" in refused(made, "complete", {"rule": "x > 2", "gate": "rule"})
        assert "exactly one" in refused(made, "complete", {"gate": "rule"})
        done = told(made, "complete", {"rule": "x > 1", "gate": "rule"})
        assert (done["rows_left"], done["left"]["queries"]) == (0, 200)
        guesses = dict(zip(map(str, new["id"]), (new["late"] ^ (np.arange(len(late)) % 3 == 0)).tolist(), strict=True))
        assert told(made, "complete", {"predictions": guesses, "gate": "known"})["rows_left"] == 0
        assert told(made, "challenge", {"rule": "x + z > 0", "gate": "rule"})["promoted"]
        assert "no values" not in told(made, "describe")["next"]


def test_a_holdout_that_does_not_grow_says_so(tmp_path):
    with eh.Holdout.create(
        tmp_path / "t.db", "static", holdout=rows(5), mechanism="guess_and_check", queries=10
    ) as static:
        said = refused(static, "drift")
        assert "No rows have arrived" in said
        assert "nothing was charged" in said.lower()
        assert static.remaining["queries"] == 10
