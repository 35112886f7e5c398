"""The registry of mechanisms: what an extension adds is checked, and nothing is forgotten."""

import importlib
import inspect
import pkgutil
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import ClassVar

import numpy as np
import pytest

import everhold as eh
from everhold import extensions, mechanisms
from everhold.errors import ExtensionError
from everhold.mechanisms import MECHANISMS, Mechanism, mechanism_from_dict
from everhold_privacy.mechanisms.averages import Empirical


@dataclass(frozen=True, kw_only=True)
class Tenths(Empirical):
    """A mechanism that nobody registered."""

    name: ClassVar[str] = "tenths"


class Abstract(Mechanism):
    """One that lacks its steps."""

    name: ClassVar[str] = "abstract"


class LooseTraits(Tenths):
    """One that says what it takes as mechanisms did before `Traits`."""

    name: ClassVar[str] = "loose"
    adaptive: ClassVar[bool] = False


class LooseCounts(Tenths):
    """One that has a rule for counts itself, where nothing would ask for it."""

    name: ClassVar[str] = "counts"

    def losable(self, *, queries, charges):
        return True


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("tenths", "EntryPoint", r"tenths.*refused: it is no subclass of everhold\.mechanisms\.Mechanism"),
        ("abstract", "Abstract", r"abstract.*does not define answer_many, promise, tuned"),
        ("other", "Tenths", r"other.*its name is 'tenths'"),
        ("loose", "LooseTraits", r"loose.*attributes adaptive\. Put them in traits = Traits\(adaptive="),
        ("counts", "LooseCounts", r"counts.*it has losable. Put them in the class that is its attribute accounting"),
        ("gone", "Gone", r"gone.*cannot be loaded"),
        ("silent", "Tenths", r"silent.*name of one of everhold's own"),
    ],
)
def test_an_extension_that_breaks_its_contract_is_refused_by_name(monkeypatch, name, value, says):
    point = EntryPoint(name, f"{__name__}:{value}", MECHANISMS.group)
    monkeypatch.setitem(extensions.installed(MECHANISMS.group), name, point)
    with pytest.raises(ExtensionError, match=says):
        dict(MECHANISMS)


def test_a_mechanism_that_is_not_installed_names_its_extra(monkeypatch):
    monkeypatch.setattr(extensions, "_catalog", lambda: {MECHANISMS.group: {"louder": "privacy"}})
    described = {"mechanism": "louder", "rows": 9, "queries": 1, "confidence": 0.9, "unit": 8, "parameters": {}}
    with pytest.raises(ExtensionError, match=r"'louder' is not installed\. .* 'everhold\[privacy\]'"):
        mechanism_from_dict(described, eh.Independent())


def test_a_mechanism_that_is_not_registered_is_refused(tmp_path):
    rows = {"delay": np.arange(500.0)}
    with pytest.raises(eh.errors.HoldoutRejected, match="a ledger cannot name it"):
        eh.Holdout.create(tmp_path / "s.db", "s", holdout=rows, mechanism=Tenths(rows=500, queries=3))


def test_no_mechanism_is_forgotten_in_the_registry():
    found = set()
    for _, module, _ in pkgutil.iter_modules(mechanisms.__path__, "everhold.mechanisms."):
        for _, thing in inspect.getmembers(importlib.import_module(module), inspect.isclass):
            if issubclass(thing, Mechanism) and "name" in vars(thing):
                found.add(thing)
    assert found == {MECHANISMS[name] for name in MECHANISMS.own}


def test_every_mechanism_says_everything_about_itself():
    words = ("page", "colour", "explanation", "theorem", "sentence", "no_privacy")
    for kind in MECHANISMS.values():
        assert not inspect.isabstract(kind)
        assert kind.name
        assert kind.statement
        assert all(getattr(kind.presentation, word) for word in words)
    assert len({kind.presentation.colour for kind in MECHANISMS.values()}) == len(MECHANISMS)
