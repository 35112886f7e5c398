"""`exist_ok=True`: the same rows and settings open the holdout that is there, and the error of others says which."""

import numpy as np
import pytest

import everhold as eh
from everhold.errors import HoldoutRejected


def rows(seed, count):
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(size=count), "y": rng.integers(0, 2, count)}


SEALED, TRAINING = rows(1, 600), rows(2, 400)


def created(folder, *, name="s", **changed):
    given = {
        "holdout": SEALED, "training": TRAINING, "label": "y", "declared": [eh.listed(["y = 1"])], "queries": 50,
        "exist_ok": True, "allow_resealing": name != "s", **changed,
    }  # fmt: skip
    return eh.Holdout.create(folder / "s.db", name, **given)


def folders(folder):
    return sorted(path.name for path in (folder / "s.rows").iterdir())


def test_a_cell_that_runs_again_finds_the_same_ledger(tmp_path):
    with created(tmp_path) as holdout:
        asked = holdout.ask("x > 0")
    there = folders(tmp_path)
    with created(tmp_path) as holdout:
        assert holdout.ask("x > 0").repeated
        assert (len(holdout.transcript()), holdout.remaining["queries"]) == (1, asked.remaining["queries"])
        assert holdout.ask("y = 1").source == "declared"
    assert folders(tmp_path) == there


def test_what_was_declared_or_arrived_later_makes_no_other_holdout(tmp_path):
    with created(tmp_path) as holdout:
        holdout.declare("later", eh.listed(["x > 1"]))
    with created(tmp_path) as holdout:
        assert holdout.ask("x > 1").source == "declared"
    grows = {"declared": None, "planning": eh.Planning(grows=True), "name": "grows"}
    with created(tmp_path, **grows) as holdout:
        holdout.append(rows(3, 100))
    with created(tmp_path, **grows) as holdout:
        assert holdout.status().to_dict()["rows"] == 700


def moved(table, by):
    """The same rows, one of them a tiny bit larger: less than single precision shows."""
    return {**table, "x": table["x"] + np.where(np.arange(len(table["x"])) == 7, by, 0.0)}


@pytest.mark.parametrize(
    ("changed", "differing"),
    [
        ({"holdout": moved(SEALED, 1e-12)}, ["holdout rows"]),
        ({"holdout": {name: column[::-1] for name, column in SEALED.items()}}, ["holdout rows"]),
        ({"training": moved(TRAINING, 1e-12)}, ["training rows"]),
        ({"queries": 60}, ["queries"]),
        ({"confidence": 0.9}, ["confidence"]),
        ({"label": None}, ["label"]),
        ({"mechanism": "gaussian", "declared": None}, ["mechanism", "declared families"]),
        ({"rows": eh.Rows(missing="drop")}, ["missing"]),
        ({"declared": [eh.listed(["y = 0"])]}, ["declared families"]),
        ({"declared": {"of mine": eh.listed(["y = 1"])}}, ["declared families"]),
        ({"declared": [eh.listed(["y = 1"]), eh.texts()]}, ["declared families"]),
        ({"training": None, "share": 0.9}, ["share"]),
    ],
)
def test_other_rows_or_settings_are_refused_with_what_differs(tmp_path, changed, differing):
    created(tmp_path).close()
    there = folders(tmp_path)
    with pytest.raises(HoldoutRejected, match="was created with other") as refused:
        created(tmp_path, **changed)
    assert {*differing} <= {*refused.value.data["differing"]}
    assert folders(tmp_path) == there


def test_without_it_the_name_is_taken(tmp_path):
    created(tmp_path).close()
    with pytest.raises(HoldoutRejected, match="exists"):
        created(tmp_path, exist_ok=False)


@pytest.mark.filterwarnings("ignore::everhold.VacuousGuaranteeWarning")
def test_dealt_rows_are_not_compared(tmp_path):
    created(tmp_path, studies=2).close()
    with pytest.raises(HoldoutRejected, match="not compared"):
        created(tmp_path, studies=2)
    with pytest.raises(HoldoutRejected, match="not compared"):
        created(tmp_path)


def test_without_the_stewards_key_nothing_is_opened(tmp_path):
    with created(tmp_path) as holdout:
        key = holdout._folder / "steward.key"
    assert key.exists()
    key.unlink()
    with pytest.raises(eh.AuthError):
        created(tmp_path)
