"""Pages about holdouts: all of them, a new one, and one of them."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from everhold.dependence import Groups
from everhold.errors import EverholdError, HoldoutNotFound, HoldoutRejected
from everhold.holdout import Holdout
from everhold.mechanisms import answering
from everhold.sealing.competition import FEEDBACK, METRICS
from everhold.service.open_holdouts import Holdouts
from everhold.service.visitors import Steward, Viewer
from everhold.service.web.forms import ENDINGS, Fields, Form, said
from everhold.service.web.pictures import Gallery, Pictures, Sketch
from everhold.service.web.published import Published
from everhold.service.web.rendering import page, place
from everhold.service.web.views import SAID_OF, View

__all__ = ["figure", "router"]

router = APIRouter()

_LATEST = 50
_FEEDBACK = dict(zip(FEEDBACK, ("nothing, until the end", "whether it leads, by proof", "its score"), strict=True))


@router.get("/")
def home() -> Response:
    """Where everybody begins."""
    return RedirectResponse(place("holdouts"), 303)


@router.get("/holdouts")
def every_holdout(request: Request, holdouts: Holdouts, visitor: Viewer) -> Response:
    """All holdouts that a visitor may see."""
    views = [View.of(holdouts, name, visitor) for name in holdouts.names(visitor)]
    return page(request, "holdouts.html", views=views)


@router.get("/holdouts/new")
def new_holdout(request: Request, _: Steward) -> Response:
    """The form for a new one."""
    return _form(request, Fields())


@router.post("/holdouts/new")
def create(request: Request, holdouts: Holdouts, visitor: Steward, fields: Form) -> Response:
    """Seal rows."""
    try:
        name = _sealed(holdouts.storage, fields)
    except (EverholdError, ValueError) as fault:
        return _form(request, fields, fault=said(fault), status=422)
    return RedirectResponse(place("holdouts", name), 303)


def _form(request: Request, fields: Fields, *, fault: str = "", status: int = 200) -> Response:
    return page(
        request, "new_holdout.html", status=status, fields=fields, fault=fault, endings=ENDINGS,
        mechanisms=sorted(answering()), feedback=_FEEDBACK, metrics=METRICS[:-1],
    )  # fmt: skip


def _sealed(storage: str, fields: Fields) -> str:
    """Create the holdout that a form describes; returns its name."""
    wish: dict[str, Any] = {
        "label": fields.some("label"), "row_id": fields.some("row_id"), "mechanism": fields.some("mechanism"),
        "overfits": fields.whole("overfits"), "confidence": fields.number("confidence", 95.0),
        "features": "public" if fields.ticked("features_public") else "sealed",
    }  # fmt: skip
    wish["confidence"] /= 100.0
    if (groups := fields.some("groups")) is not None:
        wish["dependence"] = Groups(groups)
    if (feedback := fields.some("feedback")) is not None:
        wish |= {
            "feedback": feedback, "metric": fields.some("metric") or "accuracy", "teams": fields.whole("teams", 50),
            "submissions": fields.whole("submissions", 20),
        }  # fmt: skip
    else:
        wish["queries"] = fields.whole("queries", 1_000)
    name = fields.text("name")
    rows, training = fields.file("holdout"), fields.file("training")
    if rows is None:
        raise HoldoutRejected("there is no file of rows to seal; expected a table; choose one; nothing was created")
    with Holdout.create(storage, name, holdout=rows, training=training, **wish):
        return name


@router.get("/holdouts/{name}")
def one_holdout(
    request: Request, name: str, holdouts: Holdouts, visitor: Viewer, pictures: Gallery, published: Published
) -> Response:
    """What is promised, what is left, and what was answered."""
    view = View.of(holdouts, name, visitor)
    figures = {
        kind: figure(pictures, view.key, sketch, place("holdouts", name, "pictures", kind))
        for kind, sketch in view.sketches().items()
    }
    return page(
        request, "holdout.html", view=view, figures=figures, latest=list(reversed(view.rows))[:_LATEST],
        said_of=SAID_OF, published=published.of(name), tab="overview",
    )  # fmt: skip


@router.get("/holdouts/{name}/pictures/{kind}")
def picture(
    request: Request, name: str, kind: str, holdouts: Holdouts, visitor: Viewer, pictures: Gallery
) -> Response:
    """A picture alone, for the page that waits for it."""
    view = View.of(holdouts, name, visitor)
    gates = view.gates()
    sketches = view.sketches() | ({"gates": view.staircase(gates)} if gates else {})
    if kind not in sketches:
        raise HoldoutNotFound("there is no such picture; expected one that the holdout's page shows; go back to it")
    made = figure(pictures, view.key, sketches[kind], place("holdouts", name, "pictures", kind))
    return page(request, "figure.html", figure=made)


@router.post("/holdouts/{name}/publish")
def publish(name: str, holdouts: Holdouts, visitor: Steward, published: Published, fields: Form) -> Response:
    """Let everybody see a competition's public page, or nobody any more."""
    View.of(holdouts, name, visitor)
    published.put(name, fields.ticked("public"))
    return RedirectResponse(place("holdouts", name), 303)


def figure(pictures: Pictures, key: Any, sketch: Sketch, at: str) -> dict[str, Any]:
    """A picture as templates show it: there, or asked for again at its own address."""
    return {"sketch": sketch, "status": pictures.status(key, sketch), "at": at}

