"""A model that an extension adds is bound, certified, drawn and fitted: everything else asks the model."""

import importlib
import json
import pkgutil
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import ClassVar

import numpy as np
import pytest
from command_line_page import help_text
from typer.testing import CliRunner

import everhold as eh
import everhold.dependence
from everhold import extensions
from everhold.asking.creation import settings_from
from everhold.certificate import Certificate, verify_certificate
from everhold.certificate.outline import outline
from everhold.cli.application import app
from everhold.dependence import MODELS, DependenceModel
from everhold.dependence.base import require_rows
from everhold.errors import DependenceError
from everhold.testing import DependenceContract
from everhold_privacy.leakage import LeakageCurve, RowClass, Spread


@dataclass(frozen=True, slots=True)
class Twins(DependenceModel):
    """Every row has one other that may depend on it in any way; pairs are independent."""

    kind: ClassVar[str] = "twins"
    title: ClassVar[str] = "pairs of twins"
    rows_are: ClassVar[str] = "rows of twins"
    how_to_tell: ClassVar[tuple[str, ...]] = ("The assumption is wrong if there are triplets. Count them.",)
    entries: ClassVar[dict[str, str]] = {"pair": "column that names the pair of a row"}
    holds_given_features: ClassVar[bool] = True

    pair: str

    def leakage(self, curve, rows):
        return LeakageCurve(curve, (RowClass(1.0, (Spread.quilt(nearby=1),)),))

    def concentration(self, rows):
        require_rows(rows)
        return rows / 2

    def bind(self, structure):
        if set(structure.group_sizes(self.pair)) != {2}:
            raise DependenceError("some rows are no twins; expected two rows for each pair")
        return self

    @property
    def sorting_columns(self):
        return (self.pair,)

    def influences(self, distances):
        return "pairs of twins", {"one row later": np.ones(distances), "one row earlier": np.ones(distances)}

    def describe(self):
        return f"the sealed rows are twins, named by column {self.pair!r}; pairs are independent of each other"

    def to_dict(self):
        return {"kind": self.kind, "pair": self.pair}

    @classmethod
    def from_dict(cls, data):
        return cls(data["pair"])

    @classmethod
    def fit(cls, columns, *, order_by, state, groups, gap, confidence):
        return cls(order_by)


def run(*words):
    return CliRunner().invoke(app, [*map(str, words)], prog_name="everhold", catch_exceptions=False)


@pytest.fixture
def listed(monkeypatch):
    points = extensions.installed(MODELS.group)
    point = EntryPoint(Twins.kind, f"{__name__}:Twins", MODELS.group)
    monkeypatch.setitem(points, Twins.kind, point)
    yield
    MODELS._loaded.pop(Twins.kind, None)


@pytest.mark.usefixtures("listed")
class TestContract(DependenceContract):
    def make(self):
        return Twins("pair")


def twins(pairs, *, first=0):
    rng = np.random.default_rng(first)
    names = np.repeat(np.arange(first, first + pairs), 2)
    return {"pair": names, "sick": np.repeat(rng.integers(0, 2, pairs), 2)}


def sealed(folder, **wanted):
    data = {"holdout": twins(1_000), "training": twins(1_000, first=1_000), "queries": 20, "surprises": 2}
    return eh.Holdout.create(folder / "s.db", "twins", dependence=Twins("pair"), **settings_from(data | wanted))


@pytest.mark.usefixtures("listed")
def test_it_goes_all_the_way_from_creation_to_the_verified_certificate(tmp_path):
    with sealed(tmp_path, mechanism="gaussian") as holdout:
        assert holdout.mechanism.effective_rows(2_000) == 1_000.0
        answer = holdout.ask("sick > 0.5")
        holdout.certificate().save(tmp_path / "c.json")
    assert answer.low < 0.5 < answer.high
    with eh.Holdout.open(tmp_path / "s.db", "twins") as again:
        assert again.mechanism.dependence == Twins("pair")
    assert verify_certificate(tmp_path / "c.json").ok
    said = Certificate.load(tmp_path / "c.json").in_words()
    assert "rows of twins" in said["promise"]["sentence"]
    assert Twins.how_to_tell[0] in said["assumptions"]["how_to_tell"]
    shown = dict(next(block.items for block in outline(said) if block.key == "assumptions"))
    assert shown == {"dependence: kind": "pairs of twins", "dependence: column that names the pair of a row": "pair"}


@pytest.mark.usefixtures("listed")
def test_its_own_words_say_whether_the_law_holds_given_the_features(tmp_path, monkeypatch):
    with sealed(tmp_path, label="sick", features="public", mechanism="gaussian") as holdout:
        holdout.certificate().save(tmp_path / "c.json")
    assert verify_certificate(tmp_path / "c.json").ok
    monkeypatch.setattr(Twins, "holds_given_features", False)
    assert "features are said to be public" in str(verify_certificate(tmp_path / "c.json").findings)
    (tmp_path / "again").mkdir()
    with pytest.raises(DependenceError, match="declared as 'twins'"):
        sealed(tmp_path / "again", label="sick", features="public", mechanism="gaussian")


@pytest.mark.usefixtures("listed")
def test_the_command_line_fits_describes_and_draws_it(tmp_path):
    table, model = tmp_path / "t.csv", tmp_path / "m.json"
    table.write_text("pair,sick\n1,0\n1,0\n", encoding="utf-8")
    named = "--kind", "twins", "--order-by", "pair", "--state", "sick"
    fitted = run("dependence", "fit", table, *named, "--output", model)
    assert fitted.exit_code == 0
    assert json.loads(model.read_text(encoding="utf-8")) == {"kind": "twins", "pair": "pair"}
    told = run("dependence", "describe", "--model", model, "--rows", 100, "--chart", tmp_path / "c.svg")
    assert told.exit_code == 0
    assert "the sealed rows are twins" in told.output
    assert "pairs of twins" in (tmp_path / "c.svg").read_text(encoding="utf-8")


def test_a_model_that_is_not_listed_is_refused_before_anything_is_sealed(tmp_path):
    with pytest.raises(DependenceError, match="Twins is not registered"):
        sealed(tmp_path)
    assert not (tmp_path / "s.db").exists()


def test_a_model_that_keeps_something_to_itself_is_refused():
    with pytest.raises(TypeError, match="Mute does not define title, rows_are, how_to_tell, entries"):
        type("Mute", (DependenceModel,), {"kind": "mute"})


def test_every_model_of_the_package_is_listed():
    for module in pkgutil.walk_packages(everhold.dependence.__path__, "everhold.dependence."):
        importlib.import_module(module.name)

    def below(model):
        return {model}.union(*map(below, model.__subclasses__()))

    own = {model for model in below(DependenceModel) if model.__module__.startswith("everhold.")}
    assert {model.kind for model in own if hasattr(model, "kind")} == set(MODELS.own)
    assert all(kind == model.kind for kind, model in MODELS.items())


def test_the_page_of_the_command_names_the_kinds_that_can_be_fitted():
    fitted = "|".join(kind for kind, model in MODELS.items() if hasattr(model, "fit"))
    assert f"<{fitted}>" in help_text(("dependence", "fit"))
