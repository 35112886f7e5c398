"""Keywords of Holdout.create, and flat settings of a request or a command."""

import numpy as np
import pytest

import everhold as eh
from everhold.asking.creation import settings_from
from everhold.sealing.intake.request import divided, flat_settings

LABELS = {"id": np.arange(400), "y": np.tile([0.0, 1.0], 200)}
OBJECTS = {
    "rows": eh.Rows(row_id="id", features="public"), "surprises": 6,
    "competition": eh.Competition(feedback="score", teams=3, submissions=4, surprises_per_team=2),
}  # fmt: skip
FLAT = {
    "row_id": "id", "features": "public", "surprises": 6, "feedback": "score", "teams": 3, "submissions": 4,
    "surprises_per_team": 2,
}  # fmt: skip


def create(folder, **settings):
    return eh.Holdout.create(f"sqlite:///{folder}/s.db", "s", holdout=LABELS, label="y", **settings)


def test_flat_settings_are_divided_and_back():
    assert settings_from(FLAT) == OBJECTS
    flat = flat_settings(OBJECTS)
    assert {name: flat[name] for name in FLAT} == FLAT
    assert settings_from(flat) == OBJECTS
    assert flat_settings({**FLAT, "label": "y"}) == {**FLAT, "label": "y"}
    assert divided({"seed": 3, "slack": 0.5}) == {"seed": 3, "planning": eh.Planning(slack=0.5)}
    assert settings_from({"feedback": None, "surprises": 5, "teams": 50}) == {"surprises": 5}


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"querys": 10}, "no keyword 'querys'"),
        ({"rows": {"row_id": "id"}}, r"rows is a dict. Pass eh.Rows\(\.\.\.\)"),
        ({"planning": "grows"}, r"planning is a str. Pass eh.Planning\(\.\.\.\)"),
        ({"competition": {"feedback": "none"}}, r"competition is a dict. Pass eh.Competition\(\.\.\.\)"),
        ({"row_id": "id"}, r"no keyword 'row_id'. Write rows=eh.Rows\(row_id=...\)"),
        ({"gates": 3}, "gates is a int. Pass nothing"),
    ],
)
def test_what_is_no_setting_is_a_type_error_and_nothing_is_created(tmp_path, settings, fault):
    with pytest.raises(TypeError, match=fault):
        create(tmp_path, **settings)
    assert list(tmp_path.iterdir()) == []


def test_a_setting_that_is_flat_and_in_its_object_is_refused():
    with pytest.raises(TypeError, match="belongs to rows"):
        divided({"rows": eh.Rows(), "row_id": "id"})
