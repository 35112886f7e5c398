"""Environment of a client: who asks a service, and whether a token may travel without TLS."""

from __future__ import annotations

TOKEN_VARIABLE = "EVERHOLD_TOKEN"
INSECURE_VARIABLE = "EVERHOLD_INSECURE"
"""Environment variable; ``1`` lets a token travel without TLS to another machine."""
