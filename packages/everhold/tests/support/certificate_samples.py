"""Certificates without rows or ledgers behind them, and ways to tell lies in them."""

import copy
import functools
import json
from collections import Counter
from datetime import UTC, datetime

from everhold.certificate import CertifiedAccount, make_certificate
from everhold.certificate.document import signed_message
from everhold.ledger import Head, HoldoutRecord
from everhold.ledger.acts import EntryCounts
from everhold.mechanisms import GuessAndCheck, State
from everhold.sealing.storage import StewardKey
from everhold.strict_json import canonical, digest

SEED = 987_654_321
FOLDER = "flights-secret-folder"


def shown(name="model B", measure="right", *, entry=1, source="training", numbers=(0.864, 0.8512, 0.876), **more):
    """The facts of one answer on the first page."""
    told = dict(zip(("value", "low", "high"), numbers, strict=True))
    return {
        "name": name, "measure": measure, "asked": f"what is {name}?", "query": f"{entry:064x}", "entries": [entry],
        "source": source, "by_position": False, **told, **more,
    }  # fmt: skip


SHOWN = (
    shown(),
    shown("model B against model A", "right more", entry=2, numbers=(0.012, -0.003, 0.021)),
    shown("basket", "mean", entry=3, source="holdout", numbers=(22.58, 21.2, 23.96)),
)
"""What the first page of a sample may show."""


@functools.cache
def _default_mechanism():
    return GuessAndCheck.tuned(rows=20_000, queries=1_000, surprises=10)


def make_sample(
    folder, mechanism=None, *, simulation=False, name="flights", columns=(("delay", "number"),), features="sealed",
    by_position=0, answers=(), timestamp=None,
):  # fmt: skip
    """A certificate of a holdout that answered five queries, and the key that signed it."""
    mechanism = mechanism or _default_mechanism()
    key_file = folder / "steward.key"
    if key_file.exists():
        key_file.unlink()
    key = StewardKey.create(key_file)
    configuration = {
        "folder": FOLDER,
        "rows": mechanism.rows,
        "training_rows": 500,
        "columns": [*map(list, columns), ["late", "boolean"], ["flight", "number"]],
        "label": "late",
        "row_id": "flight",
        "features": features,
        "fingerprint": "ab" * 32,
        "training_fingerprint": "cd" * 32,
        "public_key": key.public_key,
        "seed": SEED if simulation else None,
    }
    released = 2 if mechanism.traits.needs_guess else 5
    state = State(5, released, SEED, labels=mechanism.accounts.labels_of(released)[0])
    record = HoldoutRecord("0123456789abcdef" * 2, name, "2026-11-21T10:00:00.000000+00:00", configuration)
    certificate = make_certificate(
        record,
        CertifiedAccount(
            head=Head(5, released, "ef" * 32, "ab" * 32, canonical(state.bound(record.settings))),
            counts=EntryCounts(Counter(training=5 - released, holdout=released), by_position=by_position),
            answers=answers,
        ),
        mechanism=mechanism,
        key=key,
        timestamp=timestamp,
        issued=datetime(2026, 11, 21, 12, tzinfo=UTC),
    )
    return certificate, key


def signed_again(document, key):
    """The document, its digests and signature made anew: what a lying steward could hand out."""
    document = copy.deepcopy(document)
    signature = document["signature"]
    signature["public_key"] = key.public_key
    signature["digests"] = {name: digest(document[name]) for name in signature["digests"]}
    signature["value"] = key.sign(signed_message(document))
    return document


def written(path, document):
    path.write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
    return path


def places(value, path=()):
    """Paths to all leaves of plain data; an empty list or object is a leaf."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    inside = list(inside)
    if not inside:
        yield path
    for name, inner in inside:
        yield from places(inner, (*path, name))


def replaced(document, path, change):
    """A copy of the document in which the value at a path is ``change(value)``; of None where a field is absent."""
    changed = copy.deepcopy(document)
    *before, last = path
    outer = functools.reduce(lambda value, name: value[name], before, changed)
    outer[last] = change(outer.get(last) if isinstance(outer, dict) else outer[last])
    return changed
