"""Planning over HTTP: which mechanism, how many rows, how many questions, before there is any data."""

from __future__ import annotations

import math
import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends
from fastapi.responses import JSONResponse
from pydantic import Field

from everhold.dependence import dependence_from_dict
from everhold.planning import plan as make_plan
from everhold.service.api.contract import Plain, Strict, json_of, refusals, result, said, warned_of
from everhold.service.uploads import document_of
from everhold.service.visitors import Viewer

if TYPE_CHECKING:
    from everhold.errors import EverholdWarning

__all__ = ["PLANNING", "Wish", "router"]

router = APIRouter(tags=["planning"])

PLANNING = threading.Lock()
"""Plans are made one after the other: each is a second of arithmetic, and anybody who may look may wish for them."""

_MOST = 2**40
_LONGEST_KEPT = 10_000  # characters of a wish


class Wish(Strict):
    """A study that is planned, as `everhold plan` takes it."""

    queries: int = Field(description="Number of adaptive questions.", le=_MOST, examples=[1_000])
    rows: int | None = Field(
        None, description="Number of sealed rows; may be left out with a radius.", le=_MOST, examples=[50_000]
    )
    overfits: int | None = Field(None, description="Answers that may come from the holdout.", le=_MOST)
    confidence: float = Field(0.95, description="Probability that all answers are within the radius.")
    slack: float = Field(0.0, description="No budget is spent on guesses closer than this share of the radius.")
    radius: float | None = Field(None, description="A wished half-width: rows and questions for it are told, too.")
    training_rows: int | None = Field(None, description="Rows that guesses are made from.", le=_MOST)
    at: float = Field(0.9, description="True value of a yes-or-no question at which mechanisms are compared.")
    disagreement: float | None = Field(None, description="Share of the rows on which two models of a gate differ.")
    dependence: Annotated[
        dict[str, Plain] | None,
        Field(description="How rows depend on each other.", examples=[{"kind": "groups", "column": None, "sizes": 5}]),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """As `everhold.plan` takes them."""
        given = {name: getattr(self, name) for name in type(self).model_fields}
        return {**given, "dependence": None if self.dependence is None else dependence_from_dict(self.dependence)}


@router.post(
    "/plan", summary="Plan a study", openapi_extra=json_of(Wish),
    responses={200: said("All mechanisms, each at its best.", {
        "rows": 50_000, "queries": 1_000, "overfits": 10, "confidence": 0.95,
        "lines": [{"mechanism": "guess_and_check", "statement": "S3", "radius": 0.046, "expected": 0.013}],
        "explanation": "guess_and_check is recommended ...", "warnings": [],
    }), **refusals(415)},
)  # fmt: skip
def plan(visitor: Viewer, wish: Annotated[Wish, Depends(document_of(Wish))]) -> JSONResponse:
    """Compare all mechanisms, each at its best, for a study that is planned; there are no rows yet.

    A radius is the half-width that holds for all answers at once, whatever happens; what is expected is narrower where
    guesses hold.
    """
    written = wish.model_dump_json()
    told, warned = (_told if len(written) <= _LONGEST_KEPT else _told.__wrapped__)(written)
    return result(told, warned)


@lru_cache(maxsize=256)
def _told(wish: str) -> tuple[dict[str, Any], list[EverholdWarning]]:
    """A plan, and what it warns of: the same for everybody, and worked out once."""
    with PLANNING, warned_of() as warned:
        made = make_plan(**Wish.model_validate_json(wish).arguments())
    return {**_finite(made.to_dict()), "explanation": made.explain()}, warned


def _finite(value: Any) -> Any:
    """The same data with null for what has no finite number."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
