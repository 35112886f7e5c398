"""The registry of kinds of queries: what an extension adds is checked, and the stub has the rest."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import everhold
from everhold import extensions
from everhold.errors import ExtensionError
from everhold.extensions import NAMES
from everhold.queries import DETAILS, KINDS, Detail, Form, Kind, same

GROUP = KINDS.extensions.group
BEYOND = Kind(
    "beyond", "beyond:beyond", Form.TEXT, "Rows beyond.", same("clip"), brings={"clip": Detail(Form.TEXT, "X.")}
)
STRANGE = Kind("strange", "strange:strange", Form.TEXT, "Strange.", same("nowhere"))
NOWHERE = Kind("nowhere", "nowhere", Form.TEXT, "Nowhere.", {})
TAKEN = Kind("taken", "taken:taken", Form.TEXT, "Taken.", {}, brings={"low": Detail(Form.TEXT, "X.")})


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("beyond", "Kind", r"beyond.*it is no everhold\.queries\.Kind"),
        ("mean", "BEYOND", "mean.*everhold has a kind of query with that name itself"),
        ("other", "BEYOND", "other.*the kind is named 'beyond'"),
        ("strange", "STRANGE", "strange.*its details nowhere are unknown"),
        ("nowhere", "NOWHERE", "nowhere.*its maker is 'nowhere'"),
        ("taken", "TAKEN", "taken.*everhold has other details named low"),
        ("beyond", "BEYOND", "different details named 'clip'"),
    ],
)
def test_a_kind_that_breaks_the_contract_is_refused_by_name(monkeypatch, name, value, says):
    monkeypatch.setitem(extensions.installed(GROUP), name, EntryPoint(name, f"{__name__}:{value}", GROUP))
    with pytest.raises(ExtensionError, match=says):
        [list(KINDS), list(DETAILS)]
    KINDS.extensions._loaded.pop(name, None)


def test_kinds_and_names_of_the_core_need_no_metadata(monkeypatch):
    monkeypatch.setattr("everhold.queries.KINDS.extensions", None)
    assert KINDS.named("mean").make is everhold.mean


def test_a_name_that_no_distribution_here_has_says_which_extra_installs_it(monkeypatch):
    monkeypatch.setattr(extensions, "_catalog", lambda: {GROUP: {"louder": "privacy"}, NAMES: {"Louder": "privacy"}})
    for name in ("louder", "Louder"):
        with pytest.raises(AttributeError, match=rf"no attribute '{name}'\. .* 'everhold\[privacy\]'"):
            getattr(everhold, name)
    with pytest.raises(AttributeError, match=r"no attribute 'nonsense'$"):
        everhold.nonsense  # noqa: B018


def test_the_stub_for_type_checkers_lists_the_public_names():
    stub = Path(everhold.__file__).with_suffix(".pyi").read_text().splitlines()
    listed = {line.rpartition(" ")[2] for line in stub if line.startswith("from everhold")}
    added = {*extensions.installed(NAMES), *extensions.installed(GROUP)}
    assert listed == set(everhold.__all__) - added
    assert set(everhold.__all__) <= set(dir(everhold))
