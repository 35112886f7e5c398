"""Ids of groups and of rows are compared as they are meant, not as they are spelled."""

import numpy as np
import pytest

import everhold as eh
from everhold.asking.creation import settings_from
from everhold.errors import DependenceError, HoldoutRejected

GROUPS, SIZE = 300, 6


def visits(spell, start=0):
    rng = np.random.default_rng(start)
    ids = [spell(start + number) for number in np.repeat(np.arange(GROUPS), SIZE)]
    return {"patient": np.array(ids, dtype=object), "late": rng.integers(0, 2, GROUPS * SIZE)}


def sealed(folder, holdout, training, **wanted):
    wanted = {"dependence": eh.Groups("patient"), **wanted}
    return eh.Holdout.create(
        folder / "h.db", holdout=holdout, training=training, label="late", queries=5, **settings_from(wanted)
    )


@pytest.mark.filterwarnings("ignore::everhold.errors.ColumnWarning")  # of ids that are numbers written as text
@pytest.mark.parametrize(
    ("first", "other"),
    [
        ("P{}", "p{}"), ("P{}", " P{} "), ("P{}", "P{}\u00a0"), ("ward  {}", "Ward {}"), ("\u00c9{}", "e\u0301{}"),
        ("{:05}", "{}"), ("{}.0", "{}"), ("\u03a3{}", "\u03c2{}"),
    ],
)  # fmt: skip
def test_one_id_in_two_spellings_on_both_sides_is_refused(tmp_path, first, other):
    with pytest.raises(DependenceError, match="spelled in several ways") as refused:
        sealed(tmp_path, visits(first.format), visits(other.format))
    assert refused.value.data["respelled"] == GROUPS
    assert list(tmp_path.iterdir()) == []


def test_one_id_in_two_spellings_among_the_sealed_rows_is_refused(tmp_path):
    rows = visits("P{}".format)
    rows["patient"][::2] = [spelled.lower() for spelled in rows["patient"][::2]]
    with pytest.raises(DependenceError, match="spelled in several ways"):
        sealed(tmp_path, rows, visits("P{}".format, start=1_000))


def test_ids_that_are_spelled_alike_are_sealed(tmp_path):
    for name, spell in (("a", "P{}".format), ("b", "{:05}".format)):
        (tmp_path / name).mkdir()
        sealed(tmp_path / name, visits(spell, start=1), visits(spell, start=1_000)).close()


def test_a_series_with_two_spellings_is_refused(tmp_path):
    rows, opened = visits("P{}".format), visits("p{}".format)
    for table in (rows, opened):
        table["day"] = np.tile(np.arange(SIZE), GROUPS)
    model = eh.MarkovChain.fit(opened, order_by="day", state="late", groups="patient", gap=1)
    with pytest.raises(DependenceError, match="spelled in several ways"):
        sealed(tmp_path, rows, opened, dependence=model)


def test_a_row_id_in_two_spellings_on_both_sides_is_refused(tmp_path):
    rows, opened = visits("P{}".format), visits("P{}".format, start=1_000)
    rows["id"] = np.array([f"R{number}" for number in range(GROUPS * SIZE)], dtype=object)
    opened["id"] = np.array([f" r{number}" for number in range(GROUPS * SIZE)], dtype=object)
    with pytest.raises(HoldoutRejected, match="differ only in case"):
        sealed(tmp_path, rows, opened, row_id="id")
