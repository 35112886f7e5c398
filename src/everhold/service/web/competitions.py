"""Pages of a competition: handing in, where everybody stands, and what everybody may see without logging in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response
from markupsafe import Markup

from everhold.asking.leaderboard_page import board_table
from everhold.errors import EverholdError, HoldoutNotFound, QueryRejected
from everhold.service.open_holdouts import Holdouts
from everhold.service.visitors import Analyst, Role, Viewer, Visitor
from everhold.service.web.forms import ENDINGS, Fields, Form, said
from everhold.service.web.predictions import predictions
from everhold.service.web.published import Published
from everhold.service.web.rendering import page
from everhold.service.web.views import View

if TYPE_CHECKING:
    from everhold.asking.leaderboard import Leaderboard

__all__ = ["router"]

router = APIRouter()

_FILE = "predictions"


@router.get("/holdouts/{name}/submit")
def form(request: Request, name: str, holdouts: Holdouts, visitor: Analyst) -> Response:
    """The form for a submission."""
    return _page(request, View.of(holdouts, name, visitor), Fields())


@router.post("/holdouts/{name}/submit")
def submit(request: Request, name: str, holdouts: Holdouts, visitor: Analyst, fields: Form) -> Response:
    """Check a file, or hand it in."""
    view = View.of(holdouts, name, visitor)
    try:
        told: dict[str, Any] = _handed_in(view, fields)
    except (EverholdError, ValueError) as fault:
        return _page(request, view, fields, fault=said(fault), status=422)
    return _page(request, view, fields, **told)


def _handed_in(view: View, fields: Fields) -> dict[str, Any]:
    """What a team is told: a report on the format, or of the submission."""
    team = fields.text("team") if view.steward else view.visitor.name
    tables = predictions(view, fields)
    if _FILE not in tables:
        raise QueryRejected("there is no file; expected a table of predictions; choose one; nothing was received")
    if fields.text("act") == "check":
        return {"report": view.whole.check_submission(tables[_FILE], team=team)}
    return {"submission": view.whole.submit(tables[_FILE], team=team, guess=fields.number("guess"))}


def _page(
    request: Request, view: View, fields: Fields, *, report: Any = None, submission: Any = None, fault: str = "",
    status: int = 200,
) -> Response:  # fmt: skip
    return page(
        request, "submit.html", status=status, view=view, contest=_contest(view), fields=fields, report=report,
        submission=submission, fault=fault, endings=ENDINGS, tab="submit", row_id=view.whole.schema.row_id,
    )  # fmt: skip


@router.get("/holdouts/{name}/leaderboard")
def leaderboard(
    request: Request, name: str, holdouts: Holdouts, visitor: Viewer, published: Published
) -> Response:
    """Where the teams stand."""
    view = View.of(holdouts, name, visitor)
    _contest(view)
    board = view.whole.leaderboard()
    return page(
        request, "leaderboard.html", view=view, board=board, table=_table(board), tab="leaderboard",
        published=published.of(name),
    )  # fmt: skip


@router.get("/public/{name}")
def public(request: Request, name: str, holdouts: Holdouts, published: Published) -> Response:
    """A competition for everybody, if the steward has published it; otherwise nothing is there."""
    if not published.of(name):
        raise HoldoutNotFound("there is nothing here for everybody to see; check the address, or log in")
    view = View.of(holdouts, name, Visitor(Role.VIEWER, "everybody", frozenset({name})))
    board = view.whole.leaderboard()
    return page(request, "public.html", view=view, contest=_contest(view), board=board, table=_table(board))


def _contest(view: View) -> Any:
    if view.competition is None:
        raise HoldoutNotFound(
            f"the holdout {view.name!r} takes no submissions; expected one that was created as a competition; ask it "
            "questions instead"
        )
    return view.competition


def _table(board: Leaderboard) -> Markup:
    return Markup(board_table(board))  # escaped where it is made
