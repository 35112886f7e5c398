"""A mechanism is its own file and a line of the registry: a new one goes everywhere, and nobody else has to know it."""

import importlib
import inspect
import math
import pkgutil
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from contracts.mechanism_contract import MechanismContract

import everhold as eh
from everhold import mechanisms
from everhold.certificate import verify_certificate
from everhold.guarantees.concentration import hoeffding_radius
from everhold.mechanisms import MECHANISMS, Mechanism, Replies, Source, State
from everhold.privacy import PureCurve


@dataclass(frozen=True, kw_only=True)
class Tenths(Mechanism):
    """The bare average, rounded to whole tenths."""

    tenths: int = 10

    name: ClassVar[str] = "tenths"
    statement: ClassVar[str] = "P9"
    page: ClassVar[str] = "concentration"
    colour: ClassVar[str] = "#123456"
    note: ClassVar[str] = "a toy"
    legend: ClassVar[str] = "tell nobody"
    adaptive: ClassVar[bool] = False
    adds_noise: ClassVar[bool] = False
    no_privacy: ClassVar[str] = "tenths hide little"
    explanation: ClassVar[str] = "Each answer is the average in tenths."
    theorem: ClassVar[str] = "Hoeffding, and half a tenth."
    sentence: ClassVar[str] = "In tenths, {budget} {are} answered {reach}, {holds}."

    def __post_init__(self):
        super().__post_init__()
        if self.tenths < 1:
            raise ValueError(f"tenths is {self.tenths}; expected at least 1")

    @classmethod
    def tuned(cls, *, rows, queries, confidence=0.95, **shared):
        return cls(rows=rows, queries=queries, confidence=confidence, **shared)

    @property
    def _level(self):
        return math.log(self.queries / self.beta)

    def answer_many(self, state, evaluations, noise):
        count = min(len(evaluations), self.queries - state.asked)
        values = np.round(evaluations.totals[:count, 0] / self.steps * self.tenths) / self.tenths
        replies, half = Replies.refused(len(evaluations)), 0.5 / self.tenths
        procedures = self.procedures_of(evaluations)[:count]
        ends = self.not_excluded(procedures, values - half, values + half, np.full(count, self._level))
        replies.put(slice(0, count), values, ends, Source.HOLDOUT)
        return state.after(asked=count, charged=count), replies

    def promise(self):
        radius = float(hoeffding_radius(rows=self.effective_rows(self.rows), log_inverse_level=self._level))
        return self._promised(radius + 0.5 / self.tenths + self.rounding, {"tenths": float(self.tenths)})


class TestTenths(MechanismContract):
    @pytest.fixture(autouse=True)
    def registered(self, monkeypatch):
        monkeypatch.setitem(MECHANISMS, Tenths.name, Tenths)

    def make(self, **wish):
        return Tenths.tuned(**wish)


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setitem(MECHANISMS, Tenths.name, Tenths)


@pytest.mark.filterwarnings("ignore::everhold.errors.EverholdWarning")
def test_a_new_mechanism_goes_all_the_way(registered, tmp_path):
    rows = {"delay": np.random.default_rng(1).normal(10.0, 20.0, 4_000)}
    with eh.Holdout.create(tmp_path / "s.db", "s", holdout=rows, mechanism="tenths", queries=3) as holdout:
        assert holdout.quote("delay > 10").radius == holdout.promise.radius
        first = holdout.ask("delay > 10")
        assert first.low <= first.value <= first.high
        assert (first.value, first.source, first.charged) == (0.5, "holdout", 1)
        assert first.explain()
        assert [answer.source for answer in holdout.ask_many(["delay > 0", "delay > 20", "delay > 30"])][
            -1
        ] == "refused"
        assert holdout.status()["mechanism"] == "tenths"
        assert holdout.status()["remaining"] == {"questions": 0}
        assert (holdout.spent().answers, holdout.spent().epsilon) == (3, None)
        assert len(holdout.transcript().to_rows()) == 3
        certificate = holdout.certificate()
    assert eh.Holdout.open(tmp_path / "s.db", "s").mechanism == Tenths(rows=4_000, queries=3)
    document = certificate.to_dict()
    radius = certificate.promise.split("within ")[1].split(" ")[0]
    assert certificate.promise == (
        f"In tenths, 3 questions are answered within {radius} of the population's value, with probability 95 % "
        "(statement P9, independent rows)."
    )
    assert document["mechanism"]["explanation"] == Tenths.explanation
    assert document["theorem"]["says"] == Tenths.theorem
    assert "tenths hide little" in document["privacy"]["explanation"][0]
    for ending in ("json", "html"):
        certificate.save(tmp_path / f"c.{ending}")
        assert verify_certificate(tmp_path / f"c.{ending}", public_key=certificate.public_key).ok


def test_a_new_mechanism_stands_in_the_plan_and_in_its_picture(registered):
    made = eh.plan(rows=20_000, queries=10, radius=0.1)
    line = made.line("tenths")
    assert (line.statement, line.adaptive, line.note, line.parameters) == ("P9", False, "a toy", {"tenths": 10})
    assert line.rows_needed == eh.rows_needed(radius=0.1, queries=10)["tenths"] > 0
    assert line.queries_allowed == eh.queries_allowed(radius=0.1, rows=20_000)["tenths"] > 0
    drawn = str(made.chart().to_dict())
    assert Tenths.colour in drawn
    assert "tenths (tell nobody)" in drawn


def test_a_mechanism_that_is_not_registered_is_refused(tmp_path):
    rows = {"delay": np.arange(500.0)}
    with pytest.raises(eh.errors.HoldoutRejected, match="not one that a ledger can name"):
        eh.Holdout.create(tmp_path / "s.db", "s", holdout=rows, mechanism=Tenths(rows=500, queries=3))


def test_noise_of_which_nobody_says_what_it_has_told_is_an_error():
    class Forgetful(Tenths):
        def curve(self):
            return PureCurve(1.0)

    with pytest.raises(NotImplementedError, match="does not say how much"):
        Forgetful(rows=500, queries=3).told(State())


def test_no_mechanism_is_forgotten_in_the_registry():
    found = set()
    for _, module, _ in pkgutil.iter_modules(mechanisms.__path__, "everhold.mechanisms."):
        for _, thing in inspect.getmembers(importlib.import_module(module), inspect.isclass):
            if issubclass(thing, Mechanism) and "name" in vars(thing):
                found.add(thing)
    assert found == set(MECHANISMS.values())


def test_every_mechanism_says_everything_about_itself():
    words = ("name", "statement", "page", "colour", "explanation", "theorem", "sentence", "no_privacy")
    for kind in MECHANISMS.values():
        assert not inspect.isabstract(kind)
        assert all(getattr(kind, word) for word in words)
    assert len({kind.colour for kind in MECHANISMS.values()}) == len(MECHANISMS)
