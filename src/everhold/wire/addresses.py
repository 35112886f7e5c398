"""Where a service is, and who asks it: what tells an address from a storage, and the names of the environment."""

from __future__ import annotations

__all__ = ["ADDRESS_VARIABLE", "INSECURE_VARIABLE", "TOKEN_VARIABLE", "is_address"]

ADDRESS_VARIABLE, TOKEN_VARIABLE = "EVERHOLD_URL", "EVERHOLD_TOKEN"
INSECURE_VARIABLE = "EVERHOLD_INSECURE"
"""Environment variable; ``1`` lets a token travel without TLS to another machine."""


def is_address(text: object) -> bool:
    """Whether a text is the address of a service, and no storage.

    Examples:
        >>> is_address("https://holdout.example"), is_address("sqlite:///flights.db")
        (True, False)
    """
    return isinstance(text, str) and text.lower().startswith(("http://", "https://"))
