"""What the tests of the ledger share. Imports little: child processes load it too."""

import hashlib

from everhold.ledger import Ledger
from everhold.ledger.chain import EntryDraft, Outcome

KEY = b"steward's key of thirty-two byte"
SECRET = 987_654_321


def query(number):
    return EntryDraft(hashlib.sha256(str(number).encode()).hexdigest(), {"kind": "mean", "text": f"größe > {number}"})


def start_state():
    return {"threshold": SECRET, "spent": 0}


def spend(state, indices):
    """A step that charges 1 for each query and answers with its running number."""
    spent = state["spent"]
    outcomes = [Outcome({"value": (spent + k) / 7, "secret": SECRET}, 1) for k in range(len(indices))]
    return state | {"spent": spent + len(indices)}, outcomes


def new_study(store, name="study"):
    return store.create(name, {"mechanism": "sparse vector", "rows": 100, "promise": 0.05}, start_state(), seal_key=KEY)


def ask(store, record, *numbers, step=spend):
    return committed_by(Ledger(store.database, record.id, KEY), [query(number) for number in numbers], step)


def committed_by(ledger, queries, step):
    """Answer queries in one transaction: the new ones by ``step(state, places)``, which returns state and outcomes."""
    with ledger.transaction(queries) as transaction:
        if transaction.new:
            transaction.record(*step(transaction.head.state, transaction.new))
    return transaction.committed
