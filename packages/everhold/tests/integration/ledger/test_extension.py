"""Ledger extensions: found by name, kept in the state, replayed, and no cost to a ledger without them."""

import subprocess
import sys
from dataclasses import dataclass, field

import holdout_samples
import pytest

import everhold as eh
from everhold import extensions
from everhold.errors import ExtensionError
from everhold.gates.records import Gates
from everhold.ledger import extension
from everhold.ledger.acts import ARRIVAL, GATE, KEPT, PROMOTED, RETIREMENT, Accounts, Arrivals, Declarations
from everhold.ledger.extension import EXTENSIONS, LedgerExtension, broken_contract
from everhold.testing.ledger import LedgerExtensionContract
from everhold_competitions.teams import CLOSING, SUBMISSION, TOLD_OF, Submissions

A, B = "a" * 64, "b" * 64
OPENED = {"kind": GATE, "gate": "g", "metric": {"kind": "accuracy"}, "margin": 0.0, "challenges": 2, "champion": A}
RECEIVED = {"kind": SUBMISSION, "team": "owls", "predictions": A, "final": True}


@dataclass
class Notes(LedgerExtension):
    name = "notes"
    key = "notes"
    acts = frozenset({"note"})

    texts: list = field(default_factory=list)

    @classmethod
    def read(cls, stored):
        if not isinstance(stored, list) or not all(isinstance(text, str) for text in stored):
            raise ValueError
        return cls(stored)

    def stored(self):
        return list(self.texts) or None

    @property
    def entries(self):
        return len(self.texts)

    def replay(self, description, source):
        if not isinstance(description.get("text"), str):
            raise ValueError("the note is no text")
        self.texts.append(description["text"])

    def settle(self, description, source, charged):
        pass


@pytest.fixture
def add(monkeypatch):
    """Add an extension for one test."""

    def added(kind):
        monkeypatch.setitem(EXTENSIONS.own, kind.name, "unused")
        monkeypatch.setitem(EXTENSIONS._loaded, kind.name, kind)
        forget()

    def forget():
        extension.extension_of_key.cache_clear()
        extension.extension_of_source.cache_clear()

    yield added
    monkeypatch.undo()
    forget()


class TestGates(LedgerExtensionContract):
    extension = Gates
    entries = (
        (OPENED, GATE, 0),
        ({"gate": "g", "champion": A, "challenger": B}, KEPT, 0),
        ({"gate": "g", "champion": A, "challenger": B}, PROMOTED, 1),
    )
    impossible = (
        (OPENED, GATE, 0),
        ({"gate": "g", "champion": B, "challenger": A}, KEPT, 0),
        ({"gate": "other", "champion": B, "challenger": A}, PROMOTED, 1),
    )


class TestSubmissions(LedgerExtensionContract):
    extension = Submissions
    entries = (
        (RECEIVED, SUBMISSION, 0),
        ({TOLD_OF: {"team": "owls", "predictions": A}}, "holdout", 1),
        ({"kind": CLOSING}, CLOSING, 0),
    )
    impossible = (
        (RECEIVED, SUBMISSION, 0),
        ({TOLD_OF: {"team": "larks", "predictions": A}}, "guess", 0),
    )


def _declaration(name="texts", *, entry=1, later=False, nats=4.4):
    return {
        "kind": "declaration", "name": name, "shown_family": "texts of up to 40 bits", "family": {"kind": "texts"},
        "nats": nats, "entry": entry, "later": later,
    }  # fmt: skip


def _arrival(number, *, rows=10, trained=0, tree=None):
    return {"kind": ARRIVAL, "arrival": number, "rows": rows, "training_rows": trained, "tree": tree}


class TestArrivals(LedgerExtensionContract):
    extension = Arrivals
    entries = (
        (_arrival(1), ARRIVAL, 0),
        (_arrival(2, tree=[2, 2, 20, 3, 1, 5]), ARRIVAL, 0),
        (_arrival(3, rows=0, trained=4), ARRIVAL, 0),
        (_arrival(4, tree=[3, 4, 30, 7, 2, 9]), ARRIVAL, 0),
        ({"kind": RETIREMENT, "before": 2}, RETIREMENT, 0),
    )
    impossible = (
        (_arrival(4), ARRIVAL, 0),
        (_arrival(5, rows=0), ARRIVAL, 0),
        (_arrival(5, tree=[3, 5, 20, 3, 1, 5]), ARRIVAL, 0),
        (_arrival(5, tree=[4, 5]), ARRIVAL, 0),
        ({"kind": RETIREMENT, "before": 3}, RETIREMENT, 0),
        ({"kind": RETIREMENT, "before": 1}, RETIREMENT, 0),
    )


class TestDeclarations(LedgerExtensionContract):
    extension = Declarations
    entries = (
        (_declaration(), "declaration", 0),
        (_declaration("more", entry=2), "declaration", 0),
        ({"kind": "mean"}, "declared", 0),
        (_declaration("late", entry=4, later=True), "declaration", 0),
        ({"kind": "mean"}, "declared", 0),
    )
    impossible = (
        (_declaration(), "declaration", 0),
        (_declaration("third", entry=6), "declaration", 0),
        (_declaration("none", entry=6, later=True, nats=0.0), "declaration", 0),
        ({"kind": "mean"}, "declared", 1),
    )


class TestNotes(LedgerExtensionContract):
    extension = Notes
    entries = (
        ({"kind": "note", "text": "begun"}, "note", 0),
        ({"kind": "note", "text": "done"}, "note", 0),
    )
    impossible = (({"kind": "note", "text": 7}, "note", 0),)

    @pytest.fixture(autouse=True)
    def _added(self, add):
        add(Notes)


def test_a_verdict_without_a_gate_is_found():
    assert "malformed" in Accounts().replay({"gate": "g", "champion": A, "challenger": B}, {"source": KEPT}, 0)


def test_an_act_of_an_extension_that_is_not_installed_is_found_and_its_state_is_kept():
    assert "is not installed here" in Accounts().replay({"kind": "note", "text": "x"}, {"source": "note"}, 0)
    state = {"mechanism": {}, "notes": ["begun"]}
    assert Accounts.from_state(state).into({"mechanism": {"asked": 1}}) == {
        "mechanism": {"asked": 1},
        "notes": ["begun"],
    }


def test_an_extension_that_breaks_its_contract_is_refused(add):
    assert "LedgerExtension" in broken_contract("notes", object)
    assert "Name the entry point" in broken_contract("other", Notes)
    core = type("Core", (Notes,), {"key": "mechanism"})
    assert "the core's" in broken_contract("notes", core)
    add(type("Twin", (Notes,), {"name": "twin", "acts": frozenset({GATE})}))
    with pytest.raises(ExtensionError, match=r"'gates' and 'twin' keep the same field or source"):
        extension.extension_of_key("twins")


def test_a_holdout_of_an_extension_that_is_not_installed_is_not_opened(tmp_path, monkeypatch):
    sealed = {"y": [0.0, 1.0] * 200}
    storage = f"sqlite:///{tmp_path}/s.db"
    eh.Holdout.create(storage, "s", holdout=sealed, label="y", competition=eh.Competition(teams=2)).close()
    monkeypatch.setattr(extensions, "installed", lambda group: {})
    monkeypatch.delitem(EXTENSIONS._loaded, "competition", raising=False)
    monkeypatch.setattr("everhold.asking.accessor.extra_for", lambda group, name: "competitions")
    extension.extension_of_key.cache_clear()
    with pytest.raises(ExtensionError, match=r"created with competition=.* pip install 'everhold\[competitions\]'"):
        eh.Holdout.open(storage, "s")


def test_queries_alone_load_no_extension(tmp_path):
    code = f"""
import sys
import everhold as eh
rows = lambda: {{"x": [0.0, 1.0] * 500}}
with eh.Holdout.create({str(tmp_path / "s.db")!r}, holdout=rows(), queries=10, surprises=2) as holdout:
    holdout.ask("x > 0.5", guess=0.5)
    holdout.status()
    holdout.transcript()
loaded = {{"gates", "teams", "gate", "submissions", "competition", "accessor", "challenge"}}
core = [name for name in sys.modules if name.startswith("everhold.") and ".operations." not in name]
print(sorted(name for name in core if name.split(".")[-1] in loaded))
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert told.stdout.strip() == "[]"


def test_accessors_are_attributes(tmp_path):
    with holdout_samples.create(tmp_path) as holdout:
        assert holdout.gates.named("gate", "accuracy", champion="delay > 0").name == "gate"
        with pytest.raises(eh.QueryRejected, match="takes no submissions"):
            holdout.competition.leaderboard()
        with pytest.raises(AttributeError, match="no attribute 'predict'"):
            _ = holdout.predict
