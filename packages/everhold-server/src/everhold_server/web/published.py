"""Competitions that everybody may see without logging in: those that their steward has published, at first none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import sqlalchemy as sa
from fastapi import Depends, Request

from everhold.ledger.schema import published
from everhold_server.tables import stamp

if TYPE_CHECKING:
    from everhold_server.tables import Records


class Publications:
    """Published pages of a storage; safe to share between threads."""

    def __init__(self, records: Records) -> None:
        self.records = records

    def of(self, holdout: str) -> bool:
        """True if everybody may see a holdout's public page."""
        with self.records.reading() as connection:
            return connection.execute(sa.select(published).where(published.c.holdout == holdout)).first() is not None

    def put(self, holdout: str, *, public: bool, by: str) -> None:
        """Publish it, or take it back."""
        moment = stamp(self.records.clock())
        with self.records.writing() as connection:
            connection.execute(sa.delete(published).where(published.c.holdout == holdout))
            if public:
                connection.execute(sa.insert(published), {"holdout": holdout, "at": moment, "by": by})


def _of_request(request: Request) -> Publications:
    found: Publications = request.app.state.published
    return found


Published = Annotated[Publications, Depends(_of_request)]
