"""Predictions that somebody uploads: whether they may be taken, and as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everhold.errors import QueryRejected

if TYPE_CHECKING:
    from everhold.questions.predictions import PredictionTable
    from everhold.service.web.forms import Fields
    from everhold.service.web.views import View

__all__ = ["predictions"]


def predictions(view: View, fields: Fields) -> dict[str, PredictionTable]:
    """The tables of predictions in a form, by the names of their fields.

    Raises:
        QueryRejected: If one cannot be read; or from an analyst, if nobody may have seen the features. Nothing is
            charged.
    """
    tables = fields.tables(view.whole.schema)
    if tables and not (view.steward or view.whole.schema.features_public or view.competition is not None):
        raise QueryRejected(
            "the features of the sealed rows are sealed, too, so nobody can have made predictions for them without "
            "having seen what must not be seen; expected a rule, which is computed where the rows are; nothing was "
            "charged"
        )
    return tables
