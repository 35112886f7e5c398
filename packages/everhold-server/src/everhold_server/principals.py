"""Principals, the senders of requests, and the roles that routes need."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request

from everhold.errors import AuthError, EverholdError
from everhold.operations.operation import Role

__all__ = [
    "Analyst", "Forbidden", "Principal", "Role", "Steward", "Viewer", "allowed", "current_principal", "kept",
]  # fmt: skip

_RANKS = (Role.VIEWER, Role.ANALYST, Role.STEWARD)


class Forbidden(EverholdError):
    """The sender of the request is known, and is not allowed to do this."""

    exit_code = 8
    http_status = 403


@dataclass(frozen=True, slots=True)
class Principal:
    """Authenticated sender of a request, with a role, a name and the holdouts that the sender may see.

    Attributes:
        role: Role, which says what the sender may do.
        name: Name of the sender. An analyst asks, and spends, under this name.
        holdouts: The holdouts that they may see; None for all.
        token: Public part of the token that the sender used, or with which the sender's session was opened.
        session: Identifier of the browser session; None for a program.
        account: Public part of the token whose rate limits this token shares. Empty if it has its own limits.
    """

    role: Role
    name: str
    holdouts: frozenset[str] | None = None
    token: str = ""
    session: str | None = None
    account: str = ""

    @property
    def limited_as(self) -> str:
        """Id of the token whose rate limits apply. Tokens that a limited steward made share the steward's limits."""
        return self.account or self.token

    def at_least(self, role: Role) -> bool:
        """Return whether the principal's role includes the rights of this role."""
        return _RANKS.index(self.role) >= _RANKS.index(role)

    def may_see(self, holdout: str) -> bool:
        """Return whether the principal may know that this holdout exists."""
        return self.holdouts is None or holdout in self.holdouts


def current_principal(request: Request) -> Principal:
    """Return the authenticated principal of a request. Raise AuthError if there is none."""
    principal: Principal | None = getattr(request.state, "principal", None)
    if principal is None:
        raise AuthError(
            "You are not logged in, and no token was sent. Pass token=..., set EVERHOLD_TOKEN, or send the header "
            "'Authorization: Bearer eh_...'. The steward gives tokens."
        )
    return principal


def allowed(request: Request, role: Role) -> Principal:
    """Return the principal of a request. Raise `Forbidden` if its role has fewer rights than this role."""
    found = current_principal(request)
    if not found.at_least(role):
        raise Forbidden(
            f"This needs the role {role.value}, and your token has the role "
            f"{found.role.value}. Ask the steward for another token."
        )
    return found


# The dependencies of routes are coroutines, because the framework gives every other function a thread of its own.


def _requires(role: Role) -> Callable[[Request], Awaitable[Principal]]:
    async def principal(request: Request) -> Principal:
        return allowed(request, role)

    principal.__name__ = role.value
    return principal


def kept(name: str) -> Any:
    """Return a FastAPI dependency for an object in the application's state."""

    async def found(request: Request) -> Any:
        return getattr(request.app.state, name)

    return Depends(found)


Viewer = Annotated[Principal, Depends(_requires(Role.VIEWER))]
Analyst = Annotated[Principal, Depends(_requires(Role.ANALYST))]
Steward = Annotated[Principal, Depends(_requires(Role.STEWARD))]
