"""Holdouts that an earlier version wrote: they open, repeat their answers free of charge, go on, and end.

The archive holds one storage of six holdouts, sealed and asked by everhold of November 2026: a default holdout with a
gate and an allotment, groups, a privacy budget, silent queries, a closed study and a competition. `told.json` lists
the answers of then.
"""

import json
import tarfile
from pathlib import Path

import pytest

import everhold as eh

ARCHIVE = Path(__file__).parent / "earlier" / "november-2026.tar.gz"
NAMES = ("tree", "groups", "budget", "quiet", "ended", "board")
QUERIES = {
    "mean x": eh.mean("x", low=0, high=1),
    "ratio": eh.ratio("x > 0.5", "y > 0"),
    "accuracy": eh.accuracy("x > 0.5"),
}


@pytest.fixture
def storage(tmp_path):
    with tarfile.open(ARCHIVE) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # since Python 3.11.4
        archive.extractall(tmp_path)
    return tmp_path


def opened(storage, name):
    return eh.Holdout.open(f"sqlite:///{storage}/study.db", name)


@pytest.mark.parametrize("name", ["tree", "groups", "budget"])
def test_every_answer_of_then_is_repeated_and_free(storage, name):
    told = json.loads((storage / "told.json").read_text())[name]
    with opened(storage, name) as holdout:
        before = holdout.remaining
        for text, options, value, low, high in told:
            answer = holdout.ask(QUERIES.get(text, text), **options)
            assert (answer.repeated, answer.value, answer.low, answer.high) == (True, value, low, high), text
        assert holdout.remaining == before


@pytest.mark.parametrize("name", NAMES)
def test_a_holdout_of_then_is_verified_shown_and_certified(storage, name):
    with opened(storage, name) as holdout:
        assert str(holdout.status())
        assert len(holdout.transcript()) == holdout.status()["queries_asked"]
        document = holdout.certificate()
        document.save(storage / "now.json")
    assert eh.verify_certificate(storage / "now.json").ok


@pytest.mark.parametrize("name", NAMES)
def test_a_certificate_of_then_is_still_valid(storage, name):
    assert eh.verify_certificate(storage / f"{name}.certificate.json").ok


@pytest.mark.parametrize("name", ["tree", "groups", "quiet"])
def test_a_study_of_then_goes_on_and_is_unsealed(storage, name):
    with opened(storage, name) as holdout:
        new = holdout.ask("x > 0.4321", silent=name == "quiet")
        assert not new.repeated
        with pytest.warns(eh.EverholdWarning, match="sealed as"):  # the six hold the same rows
            unsealed = holdout.unseal()
        for row in unsealed.rows:
            assert row["sealed_low"] <= row["sealed"] <= row["sealed_high"]


def test_a_gate_of_then_goes_on(storage):
    with opened(storage, "tree") as holdout:
        gate = holdout.gate("accuracy")
        assert gate.challenge("x > 0.49") is not None
