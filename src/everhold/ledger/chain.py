"""What is hashed, what is sealed, and how: pure functions, so that anybody can check an exported ledger.

Entries are chained by SHA-256 over canonical JSON. The chain starts at the hash of the holdout itself (its name,
its identifier, when it was created, its configuration), so these are bound too. Two keyed seals go beside it:

- the *state seal* in each entry commits to the secret state of the mechanism after that entry;
- the *head seal* in the head row binds state, charge and the whole chain up to there to the steward's key.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

__all__ = ["canonical", "entry_hash", "genesis_hash", "head_seal", "state_seal"]

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical(value: object) -> str:
    """JSON with sorted keys and no spaces: one text for one value.

    Raises:
        ValueError: If the value is not plain JSON data (nan, infinity, sets, lone surrogates ...).

    Examples:
        >>> canonical({"b": 1, "a": [0.5, None]})
        '{"a":[0.5,null],"b":1}'
    """
    try:
        text = _ENCODER.encode(value)
        text.encode()
    except (TypeError, ValueError, RecursionError):  # the original message may quote a secret state
        raise ValueError(
            "the value is not plain JSON data; expected dicts with text keys, lists, text, finite numbers, booleans "
            "and None; convert other values first"
        ) from None
    return text


def _sha256(value: object) -> str:
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def _seal(key: bytes, value: object) -> str:
    return hmac.new(key, canonical(value).encode(), hashlib.sha256).hexdigest()


def genesis_hash(*, holdout: str, name: str, created: str, configuration: dict[str, Any]) -> str:
    """The hash before the first entry: of the sealed holdout's public facts."""
    return _sha256({"configuration": configuration, "created": created, "holdout": holdout, "name": name})


def entry_hash(
    *,
    holdout: str,
    sequence: int,
    question: str,
    description: dict[str, Any],
    answer: dict[str, Any],
    charged: int,
    asked_at: str,
    state_seal: str,
    previous_hash: str,
) -> str:
    """SHA-256 over the canonical JSON of all fields of an entry, the previous entry's hash among them."""
    return _sha256(
        {
            "answer": answer,
            "asked_at": asked_at,
            "charged": charged,
            "description": description,
            "holdout": holdout,
            "previous_hash": previous_hash,
            "question": question,
            "sequence": sequence,
            "state_seal": state_seal,
        }
    )


def state_seal(key: bytes, *, holdout: str, sequence: int, state: dict[str, Any]) -> str:
    """HMAC-SHA256 of the mechanism's state after entry number `sequence`."""
    # Keyed, because a noisy threshold has some 40 bits of entropy: a plain hash of it could be inverted by trying all.
    return _seal(key, {"holdout": holdout, "sequence": sequence, "state": state})


def head_seal(key: bytes, *, holdout: str, sequence: int, charged: int, entry_hash: str, state: dict[str, Any]) -> str:
    """HMAC-SHA256 of the whole head: without the key a rewritten chain cannot be given a valid head."""
    return _seal(
        key,
        {"charged": charged, "entry_hash": entry_hash, "holdout": holdout, "sequence": sequence, "state": state},
    )
