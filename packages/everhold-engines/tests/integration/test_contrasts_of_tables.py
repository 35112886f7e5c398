"""Risk differences where the sealed rows stay in an engine: one query that the engine counts, as from files."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pond_samples import poured as poured_into_pond
from pond_samples import served, tried_before

import everhold as eh

__all__ = ["tried_before"]

DIED = eh.risk_difference("died = 1", arm="arm", treated="B", control="A")
COST = eh.risk_difference(eh.mean("cost", low=0, high=100), arm="arm", treated="B", control="A")


def trial(count, seed, *, more=()):
    """Patients of two arms, of whom fewer die in one."""
    rng = np.random.default_rng(seed)
    arm = rng.choice(["A", "B"], count).astype(object)
    died = rng.random(count) < np.where(arm == "B", 0.3, 0.5)
    table = {"arm": arm, "died": died.astype(int), "cost": np.minimum(rng.gamma(2.0, 10.0, count).round(), 100.0)}
    known = {"id": np.arange(count) + 100_000 * seed, "ward": np.arange(count) // 3 + 100_000 * seed}
    return pd.DataFrame({**{name: known[name] for name in more}, **table})


def created(folder, sealed, training, **more):
    folder.mkdir()
    return eh.Holdout.create(folder / "s.db", "t", holdout=sealed, training=training, queries=50, surprises=5, **more)


def asked(holdout):
    """Answers with what they cost and what that had been quoted."""
    found = []
    for query, guess in (
        (DIED, None),
        (COST, None),
        (eh.risk_difference("cost > 30", arm="arm", treated="B", control="A"), 0.9),
    ):
        quoted, before = holdout.quote(query, guess=guess), dict(holdout.remaining)
        answer, left = holdout.ask(query, guess=guess), holdout.remaining
        spent = (before["queries"] - left["queries"], before["surprises"] - left["surprises"])
        assert spent[0] == 1
        assert spent[1] == answer.charged <= quoted.charged_at_most
        found.append((answer.low, answer.value, answer.high, answer.charged, quoted.radius, quoted.charged_at_most))
    return found


@pytest.mark.parametrize("more", [(), ("id",)], ids=["without ids", "with ids"])
def test_one_query_answers_as_from_files(tmp_path, monkeypatch, more):
    served(monkeypatch)
    sealed, training = trial(1_500, 1, more=more), trial(1_000, 2, more=more)
    rows = {"rows": eh.Rows(row_id="id" if more else None)}
    with created(tmp_path / "files", sealed, training, **rows) as files:
        expected = asked(files)
    pond = poured_into_pond(tmp_path / "pond.db", "trial", sealed)
    beside = poured_into_pond(tmp_path / "pond.db", "known", training)
    for name, given in (("file", training), ("table", beside)):
        with created(tmp_path / name, pond, given, **rows) as holdout:
            np.testing.assert_allclose(asked(holdout), expected, rtol=1e-9)
    rates = [sealed[sealed["arm"] == arm]["cost"].gt(30).mean() for arm in "BA"]
    assert expected[-1][3] == 1
    assert expected[-1][0] <= rates[0] - rates[1] <= expected[-1][2]


def test_groups_in_an_engine_are_asked_arm_by_arm(tmp_path, monkeypatch):
    served(monkeypatch)
    sealed, training = trial(1_500, 1, more=("ward",)), trial(1_200, 2, more=("ward",))
    pond = poured_into_pond(tmp_path / "pond.db", "trial", sealed)
    with created(tmp_path / "s", pond, training, dependence=eh.Groups("ward")) as holdout:
        quoted = holdout.quote(DIED)
        answer = holdout.ask(DIED)
        assert (quoted.charged_at_most, holdout.remaining["queries"]) == (2, 48)
        assert answer.low < -0.2 < answer.high


def test_every_engine_counts_both_arms(tmp_path, poured):
    sealed, training = trial(1_500, 1), trial(1_000, 2)
    with created(tmp_path / "files", sealed, training) as files:
        expected = asked(files)
    engine = poured(pa.Table.from_pandas(sealed, preserve_index=False).to_pydict())
    with created(tmp_path / "s", engine, training) as holdout:
        np.testing.assert_allclose(asked(holdout), expected, rtol=1e-9)
