"""Problem documents (RFC 9457) as the errors that they were: clients catch the same classes."""

from __future__ import annotations

import re
from typing import Any

from everhold import errors
from everhold.errors import AuthError, EverholdError, HoldoutNotFound, QueryRejected

_CLASSES = {
    re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower(): kind
    for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, EverholdError)
}  # fmt: skip
_BY_STATUS = {401: AuthError, 403: AuthError, 404: HoldoutNotFound,
              **dict.fromkeys((400, 409, 413, 415, 422), QueryRejected)}  # fmt: skip
_ABOUT_IT = ("type", "title", "status", "detail")


def error_from(status: int, document: Any) -> EverholdError:
    """The error of a response.

    Args:
        status: Of the response.
        document: What it says; anything but a problem document comes from something between here and the service.
    """
    if not isinstance(document, dict) or not isinstance(document.get("detail"), str):
        return _BY_STATUS.get(status, EverholdError)(
            f"the service answered with the status {status} and without a reason; expected everhold's API; check the "
            "address; if a query was asked, ask it again: what was answered already is free",
            whole=True,
        )
    kind = _CLASSES.get(str(document.get("title")), _BY_STATUS.get(status, EverholdError))
    facts = {name: value for name, value in document.items() if name not in (*_ABOUT_IT, "message")}
    return kind(document["detail"], **{**facts, "whole": True})
