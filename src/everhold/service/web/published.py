"""Which competitions everybody may see without logging in: those that their steward has published, at first none."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request


class Publications:
    def __init__(self) -> None:
        self._names: set[str] = set()

    def of(self, name: str) -> bool:
        return name in self._names

    def put(self, name: str, public: bool) -> None:
        (self._names.add if public else self._names.discard)(name)


def _of_request(request: Request) -> Publications:
    return request.app.state.published


Published = Annotated[Publications, Depends(_of_request)]
