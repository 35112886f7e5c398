"""The format of hashes and seals, written out: old ledgers and exported ones depend on it."""

import hashlib
import hmac
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everhold.ledger.chain import HashedEntry, entry_hash, holdout_hash, seal_of
from everhold.strict_json import canonical

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(PLAIN)
def test_canonical_text_is_read_back_to_the_same_value_and_text(value):
    text = canonical(value)
    assert json.loads(text) == value
    assert canonical(json.loads(text)) == text


@pytest.mark.parametrize("value", [{1: 0}, [{None: 0}], float("inf"), float("nan"), {1}, b"", "\ud800", object()])
def test_what_is_not_plain_json_is_refused(value):
    with pytest.raises(ValueError, match="plain JSON"):
        canonical({"in": value})


def test_the_hash_of_a_holdout():
    text = '{"configuration":"{\\"ö\\":1}","created":"now","holdout":"id","name":"study"}'
    expected = hashlib.sha256(text.encode()).hexdigest()
    assert holdout_hash(holdout="id", name="study", created="now", configuration='{"ö":1}') == expected


def test_the_hash_of_an_entry():
    text = (
        '{"answer":"{\\"value\\":0.5}","asked_at":"now","charged":2,"description":"{}","holdout":"id",'
        '"previous_hash":"p","query":"q","sequence":3,"state_seal":"s"}'
    )
    entry = HashedEntry(
        holdout="id",
        sequence=3,
        query="q",
        description="{}",
        answer='{"value":0.5}',
        charged=2,
        asked_at="now",
        state_seal="s",
        previous_hash="p",
    )
    assert entry_hash(entry) == hashlib.sha256(text.encode()).hexdigest()


def test_the_seals():
    state = '{"holdout":"id","sequence":3,"state":"{}"}'
    head = '{"charged":2,"entry_hash":"h","holdout":"id","queries_hash":"q","sequence":3,"state":"{}"}'
    assert seal_of(b"key", holdout="id", entry="h") == sealed('{"entry":"h","holdout":"id"}')
    assert seal_of(b"key", holdout="id", sequence=3, state="{}") == sealed(state)
    at = {"sequence": 3, "charged": 2, "entry_hash": "h", "queries_hash": "q"}
    assert seal_of(b"key", holdout="id", state="{}", **at) == sealed(head)


def sealed(text):
    return hmac.new(b"key", text.encode(), hashlib.sha256).hexdigest()
