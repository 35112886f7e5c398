"""Predictions for all sealed rows, where the tree that answers is about the latest ones alone."""

import numpy as np
import pytest
from sealed_copies import copy_of

import everhold as eh

SIZES = (600, 1_800)


def rows(size, start, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=size)
    return {"id": np.arange(start, start + size), "x": x, "y": (x + rng.normal(size=size) > 0).astype(int)}


PARTS = [rows(size, 10_000 * place, place) for place, size in enumerate(SIZES)]
ALL = {name: np.concatenate([part[name] for part in PARTS]) for name in PARTS[0]}
TRAINING = rows(600, 90_000, 9)
PREDICTED, TRAINED = (ALL["x"] > 0).astype(int), (TRAINING["x"] > 0).astype(int)


def grown(folder, ids):
    """A holdout whose arrival opened a tree that answers."""
    first, second, training = (
        {name: column for name, column in part.items() if ids or name != "id"} for part in (*PARTS, TRAINING)
    )
    holdout = eh.Holdout.create(
        f"sqlite:///{folder}/s.db", "h", holdout=first, training=training, label="y", queries=100, surprises=5,
        planning=eh.Planning(grows=True), rows=eh.Rows(row_id="id" if ids else None),
    )  # fmt: skip
    for high in (0.1, 0.2, 0.3):
        holdout.ask(f"x > {high}", guess=0.97)
    holdout.append(second, until="2026-01-31")
    assert holdout.status()["arrivals"]["answers_from"] == 2
    return holdout


@pytest.fixture
def named(tmp_path):
    with copy_of(tmp_path, grown, True, storage="s.db", name="h") as holdout:
        yield holdout


@pytest.fixture
def unnamed(tmp_path):
    with copy_of(tmp_path, grown, False, storage="s.db", name="h") as holdout:
        yield holdout


def in_any_order():
    order = np.random.default_rng(5).permutation(len(PREDICTED))
    return {"id": ALL["id"][order], "p": PREDICTED[order]}


def trained(table, **more):
    return eh.accuracy(table, training={"id": TRAINING["id"], "p": TRAINED}, **more)


def test_a_table_of_all_ids_is_cut_to_the_rows_of_the_tree(named):
    answer = named.ask(trained(in_any_order()))
    assert (answer.source, named.transcript().rows[-1]["rows"]) == ("training", [601, 2_400])
    latest = {"id": PARTS[1]["id"], "p": PREDICTED[600:]}
    assert named.ask(trained(latest)).repeated
    truth = np.mean(PREDICTED[600:] == PARTS[1]["y"])
    assert answer.low < truth < answer.high
    table = in_any_order()
    for bad, fault in (
        ({name: column[table["id"] != 10_001] for name, column in table.items()}, "not at all"),
        ({**table, "id": np.where(table["id"] == 0, 777_777, table["id"])}, r"1 ids that no sealed row has \(777777\)"),
        ({**table, "id": np.where(table["id"] == 10_001, 10_002, table["id"])}, "more than once"),
    ):
        charged, head = named.remaining, named.status()["ledger_head"]
        with pytest.raises(eh.QueryRejected, match=fault):
            named.ask(trained(bad))
        assert (named.remaining, named.status()["ledger_head"]) == (charged, head)


def test_an_array_of_all_rows_is_cut_to_the_rows_of_the_tree(unnamed):
    asked = eh.accuracy(PREDICTED, training=TRAINED)
    assert unnamed.ask(asked).source == "training"
    for same in (PREDICTED.tolist(), PREDICTED[600:], {"p": PREDICTED}):
        assert unnamed.ask(eh.accuracy(same, training=TRAINED)).repeated
    assert unnamed.ask(eh.auc(ALL["x"]), guess=0.8).low > 0.5
    assert unnamed.ask(eh.difference(asked, eh.accuracy(1 - PREDICTED, training=1 - TRAINED))).low > 0.0
    for count in (2_399, 600):
        with pytest.raises(eh.QueryRejected, match=f"are {count:,}. Pass 2,400 for all sealed rows, or 1,800 for"):
            unnamed.ask(eh.accuracy(PREDICTED[:count], training=TRAINED))


@pytest.mark.parametrize("ids", [True, False])
def test_a_file_of_all_rows_is_cut_to_the_rows_of_the_tree(tmp_path, ids):
    with grown(tmp_path, ids=ids) as holdout:
        table = in_any_order() if ids else {"p": PREDICTED, "q": 1 - PREDICTED}
        lines = [",".join(table), *(",".join(map(str, line)) for line in zip(*table.values(), strict=True))]
        (path := tmp_path / "predictions.csv").write_text("\n".join(lines))
        column = eh.predictions_in(path, row_id="id" if ids else None)["p"]
        told = holdout.ask(eh.accuracy(column), guess=0.75)
        assert holdout.transcript().rows[-1]["rows"] == [601, 2_400]
        assert holdout.ask(eh.accuracy(PREDICTED[600:] if not ids else in_any_order()), guess=0.75).repeated
        assert told.low < 0.75 < told.high


@pytest.mark.parametrize("ids", [True, False])
def test_windows_take_predictions_for_all_rows(tmp_path, ids):
    with grown(tmp_path, ids=ids) as holdout:
        asked = trained(in_any_order()) if ids else eh.accuracy(PREDICTED, training=TRAINED)
        found = holdout.over_time(asked, by="month")
        assert [(row["window"], row["rows"]) for row in found.rows] == [("at creation", 600), ("2026-01", 1_800)]
        for row, place in zip(found.rows, np.split(np.arange(2_400), [600]), strict=True):
            assert row["low"] < np.mean(PREDICTED[place] == ALL["y"][place]) < row["high"]
        drift = holdout.drift(columns=["x"], also=[asked])
        assert len(drift) == 2
        assert not drift.changed


def test_ids_of_retired_rows_may_stay_in_a_table(named):
    named.retire(before=1)
    answer = named.ask(eh.accuracy(in_any_order()), guess=0.75)
    assert answer.low < 0.75 < answer.high


def test_rows_of_an_earlier_arrival_may_be_among_all_rows(unnamed):
    with pytest.raises(eh.QueryRejected, match="that were given at that arrival"):
        unnamed.ask(eh.accuracy(PREDICTED, training=TRAINED), as_of=0)
