"""Sealed values of an answer, which may not be read before the study is unsealed: three numbers, encrypted.

The sealed mean of a question and the ends of its own interval are known for a moment, when it is answered, and cannot
be computed again later: predictions and functions are not kept. So they are put into an envelope inside the entry, and
the chain binds it like the rest of the answer. All envelopes have the same length. Each opens only under the steward's
key, for its own holdout and its own question, so it cannot be passed off as another entry's.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
import struct
from typing import TypeAlias

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from everhold.errors import IntegrityError

__all__ = ["SEALED_VALUE", "Numbers", "opened", "sealed"]

SEALED_VALUE = "sealed"
"""Field of an entry's answer that holds the envelope."""

Numbers: TypeAlias = tuple[float, float, float]
"""The sealed mean and the lower and upper end of the question's own interval, means of row values in [0, 1]."""

_PLAIN = struct.Struct(">3d")
_NONCE = 12  # bytes, drawn for each envelope
_LABEL = b"everhold envelopes of unsealing"


def sealed(numbers: Numbers, *, key: bytes, holdout: str, question: str) -> str:
    """An envelope: nonce, ciphertext and tag in base 64, of the same length for all numbers.

    Args:
        numbers: What it holds.
        key: The steward's key of the ledger's seals; the envelopes' own key is derived from it.
        holdout: Identifier of the holdout.
        question: Fingerprint of the question.
    """
    nonce = os.urandom(_NONCE)
    inside = _cipher(key).encrypt(nonce, _PLAIN.pack(*numbers), _bound_to(holdout, question))
    return base64.b64encode(nonce + inside).decode()


def opened(envelope: object, *, key: bytes, holdout: str, question: str) -> Numbers:
    """The numbers in an envelope.

    Raises:
        IntegrityError: If it was altered, or belongs to another key, holdout or question.
    """
    try:
        content = base64.b64decode(str(envelope), validate=True)
        plain = _cipher(key).decrypt(content[:_NONCE], content[_NONCE:], _bound_to(holdout, question))
        mean, low, high = _PLAIN.unpack(plain)
    except (binascii.Error, InvalidTag, ValueError, struct.error):
        raise IntegrityError(
            "an answer's sealed numbers cannot be opened: they were altered, or belong to another question or key; "
            "expected an unaltered ledger; nothing was told; verify the ledger and restore a backup"
        ) from None
    return mean, low, high


def _cipher(key: bytes) -> AESGCM:
    return AESGCM(hmac.digest(key, _LABEL, "sha256"))


def _bound_to(holdout: str, question: str) -> bytes:
    return f"{holdout}\n{question}".encode()
