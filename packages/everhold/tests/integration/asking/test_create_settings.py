"""Keywords of Holdout.create: objects, and the former ones for one version."""

import numpy as np
import pytest

import everhold as eh
from everhold.asking.create_settings import settings_from
from everhold.sealing.settings import divided, flat_settings

LABELS = {"id": np.arange(400), "y": np.tile([0.0, 1.0], 200)}
OBJECTS = {
    "rows": eh.Rows(row_id="id", features="public"), "surprises": 6,
    "competition": eh.Competition(feedback="score", teams=3, submissions=4, surprises=2),
}  # fmt: skip
FLAT = {
    "row_id": "id", "features": "public", "overfits": 6, "feedback": "score", "teams": 3, "submissions": 4,
    "surprises": 2,
}  # fmt: skip


def create(folder, **settings):
    return eh.Holdout.create(f"sqlite:///{folder}/s.db", "s", holdout=LABELS, label="y", **settings)


def recorded(holdout):
    with holdout:
        status = holdout.status()
        return {name: status[name] for name in ("features", "mechanism", "parameters", "competition")}


def test_former_keywords_are_the_same_settings_and_warn(tmp_path):
    for name in ("new", "former"):
        (tmp_path / name).mkdir()
    with pytest.warns(FutureWarning) as warned:
        former = recorded(create(tmp_path / "former", **FLAT))
    assert former == recorded(create(tmp_path / "new", **OBJECTS))
    (said,) = [str(each.message) for each in warned]
    for part in (
        "row_id= is now rows=eh.Rows(row_id=...)",
        "overfits= is now surprises=",
        "competition=eh.Competition(",
    ):
        assert part in said
    assert warned[0].filename == __file__


def test_flat_settings_are_divided_and_back():
    assert settings_from(FLAT) == OBJECTS
    flat = flat_settings(OBJECTS)
    assert {name: flat[name] for name in FLAT} == FLAT
    assert settings_from(flat) == OBJECTS
    assert flat_settings({**FLAT, "label": "y"}) == {**FLAT, "label": "y", "surprises": 2}
    assert divided({"again": True, "slack": 0.5}) == {"allow_resealing": True, "planning": eh.Planning(slack=0.5)}


def test_surprises_are_those_that_are_planned_unless_they_are_a_team_s():
    assert settings_from({"surprises": 3, "overfits": None})["surprises"] == 3
    none = {"feedback": None, "surprises": 3, "overfits": 5, "teams": 50}
    assert settings_from(none) == {"surprises": 5}


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"querys": 10}, "no keyword 'querys'"),
        ({"competition": {"feedback": "none"}}, r"competition is a dict. Pass eh.Competition\(\.\.\.\)"),
        ({"gates": 3}, "gates is a int. Pass nothing"),
    ],
)
def test_what_is_no_setting_is_a_type_error_and_nothing_is_created(tmp_path, settings, fault):
    with pytest.raises(TypeError, match=fault):
        create(tmp_path, **settings)
    assert list(tmp_path.iterdir()) == []


def test_a_setting_by_both_names_is_refused():
    with pytest.raises(TypeError, match="former name"):
        divided({"surprises": 3, "overfits": 4})
    with pytest.raises(TypeError, match="belongs to rows"):
        divided({"rows": eh.Rows(), "row_id": "id"})
