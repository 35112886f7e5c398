"""What is hashed, what is sealed, and how: pure functions, so that anybody can check an exported ledger.

Entries are chained by SHA-256 over canonical JSON of all their fields, each as it is stored: a field that holds JSON
goes in as its text. The chain starts at the hash of the holdout itself (its name, its identifier, when it was created,
its configuration), so these are bound too. Three keyed seals go beside it, each over the fields named here:

- the *entry seal* (``holdout, entry``: the entry's hash) binds each entry to the steward's key, so that a stored answer
  can be believed by itself, and nobody without the key can write one that is;
- the *state seal* in each entry (``holdout, sequence, state``) commits to the secret state of the mechanism after that
  entry; keyed, because a noisy threshold has some 40 bits of entropy: a plain hash of it could be inverted;
- the *head seal* in the head row (``holdout, sequence, charged, entry_hash, questions_hash, state``) binds state,
  charge, all questions and the whole chain up to there to that key, so a rewritten chain has no valid head.
"""

from __future__ import annotations

import hashlib
import hmac
import json

__all__ = ["HASHED", "canonical", "hash_of", "seal_of"]

HASHED = ("answer", "asked_at", "charged", "description", "previous_hash", "question", "sequence", "state_seal")
"""Fields of an entry that its hash is over, together with ``holdout``, the holdout's identifier."""

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
        for key in value:
            if not isinstance(key, str):
                return False
        value = value.values()
    elif not isinstance(value, list | tuple):
        return True
    return all(map(_has_text_keys, value))


def hash_of(**fields: str | int) -> str:
    """SHA-256 of an entry, or of a sealed holdout before the first one, from all its fields; JSON as its text."""
    return hashlib.sha256(_ENCODER.encode(fields).encode()).hexdigest()


def seal_of(key: bytes, **fields: str | int) -> str:
    """HMAC-SHA256 of an entry, a state or a head, from the fields that are named above; JSON as its text."""
    return hmac.digest(key, _ENCODER.encode(fields).encode(), "sha256").hex()
