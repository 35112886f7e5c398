"""What is hashed, what is sealed, and how: pure functions, so that anybody can check an exported ledger.

Entries are chained by SHA-256 over canonical JSON of all their fields, each as it is stored: a field that holds JSON
goes in as its text. The chain starts at the hash of the holdout itself (its name, its identifier, when it was created,
its configuration), so these are bound too. Three keyed seals go beside it:

- the *entry seal* binds each entry to the steward's key, so that a stored answer can be believed by itself;
- the *state seal* in each entry commits to the secret state of the mechanism after that entry;
- the *head seal* in the head row binds state, charge, all questions and the whole chain up to there to that key.
"""

from __future__ import annotations

import hashlib
import hmac
import json

__all__ = ["canonical", "entry_hash", "entry_seal", "genesis_hash", "head_seal", "state_seal"]

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical(value: object) -> str:
    """JSON with sorted keys and no spaces: one text for one value, and reading it gives the same text again.

    Raises:
        ValueError: If the value is not plain JSON data (nan, infinity, keys that are not text, lone surrogates ...).

    Examples:
        >>> canonical({"b": 1, "a": [0.5, None]})
        '{"a":[0.5,null],"b":1}'
    """
    try:
        text = _ENCODER.encode(value)
        text.encode()
        plain = _has_text_keys(value)
    except (TypeError, ValueError, RecursionError):  # the original message may quote a secret state
        plain = False
    if not plain:
        raise ValueError(
            "the value is not plain JSON data; expected dicts with text keys, lists, text, finite numbers, booleans "
            "and None; convert other values first"
        )
    return text


def _has_text_keys(value: object) -> bool:
    """Other keys would become text, and then be sorted otherwise when the text is read again."""
    if isinstance(value, dict):
        return all(isinstance(key, str) for key in value) and all(map(_has_text_keys, value.values()))
    return not isinstance(value, list | tuple) or all(map(_has_text_keys, value))


def _sha256(value: dict[str, str | int]) -> str:
    return hashlib.sha256(_ENCODER.encode(value).encode()).hexdigest()


def _seal(key: bytes, value: dict[str, str | int]) -> str:
    return hmac.new(key, _ENCODER.encode(value).encode(), hashlib.sha256).hexdigest()


def genesis_hash(*, holdout: str, name: str, created: str, configuration: str) -> str:
    """The hash before the first entry: of the sealed holdout's public facts, `configuration` as canonical JSON."""
    return _sha256({"configuration": configuration, "created": created, "holdout": holdout, "name": name})


def entry_hash(
    *,
    holdout: str,
    sequence: int,
    question: str,
    description: str,
    answer: str,
    charged: int,
    asked_at: str,
    state_seal: str,
    previous_hash: str,
) -> str:
    """The hash of an entry, from all its other fields; `description` and `answer` as canonical JSON."""
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


def entry_seal(key: bytes, *, holdout: str, entry_hash: str) -> str:
    """HMAC-SHA256 of an entry, by its hash: without the key nobody can write an entry that is believed."""
    return _seal(key, {"entry": entry_hash, "holdout": holdout})


def state_seal(key: bytes, *, holdout: str, sequence: int, state: str) -> str:
    """HMAC-SHA256 of the mechanism's state (canonical JSON) after entry number `sequence`."""
    # Keyed, because a noisy threshold has some 40 bits of entropy: a plain hash of it could be inverted by trying all.
    return _seal(key, {"holdout": holdout, "sequence": sequence, "state": state})


def head_seal(
    key: bytes, *, holdout: str, sequence: int, charged: int, entry_hash: str, questions_hash: str, state: str
) -> str:
    """HMAC-SHA256 of the whole head: without the key a rewritten chain cannot be given a valid head."""
    return _seal(
        key,
        {
            "charged": charged,
            "entry_hash": entry_hash,
            "holdout": holdout,
            "questions_hash": questions_hash,
            "sequence": sequence,
            "state": state,
        },
    )
