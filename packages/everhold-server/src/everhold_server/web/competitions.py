"""Pages of a competition: handing in, where everybody stands, and what everybody may see without logging in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from markupsafe import Markup

from everhold.errors import EverholdError, HoldoutNotFound
from everhold_competitions.leaderboard import board_table
from everhold_server.api.competitions import choose_final, submission_of, submissions_of
from everhold_server.api.contract import HoldoutName, warned_of
from everhold_server.audit import noted
from everhold_server.open_holdouts import Holdouts
from everhold_server.principals import Analyst, Principal, Role, Viewer
from everhold_server.web.forms import ENDINGS, Fields, Form
from everhold_server.web.published import Published
from everhold_server.web.rendering import page, place
from everhold_server.web.views import FEEDBACK_IN_WORDS, SAID_OF, View

if TYPE_CHECKING:
    from everhold_competitions.leaderboard import Leaderboard

router = APIRouter()


@router.get("/holdouts/{name}/submit")
def form(request: Request, name: HoldoutName, holdouts: Holdouts, principal: Analyst) -> Response:
    """The form for a submission."""
    return _page(request, View.of(holdouts, name, principal), Fields())


@router.post("/holdouts/{name}/submit")
def submit(request: Request, name: HoldoutName, holdouts: Holdouts, principal: Analyst, fields: Form) -> Response:
    """Check a file, or hand it in."""
    view = View.of(holdouts, name, principal)
    try:
        with warned_of():
            handed_in = submission_of(name, principal, holdouts, fields.chosen)
            if fields.text("act") == "check":
                noted(request, "check a submission")
                report = view.whole.competition.check(handed_in["predictions"], team=handed_in["team"])
                return _page(request, view, fields, report=report)
            submission = view.whole.competition.submit(**handed_in)
    except EverholdError as fault:
        return _page(request, view, fields, fault=fault.message)
    noted(request, "submit", team=submission.team, number=submission.number)
    return _page(request, view, fields, submission=submission)


@router.post("/holdouts/{name}/submit/final")
def choose(request: Request, name: HoldoutName, holdouts: Holdouts, principal: Analyst, fields: Form) -> Response:
    """Make a submission the final one of its team."""
    number, _, team = fields.text("chosen").partition(" ")
    try:
        choose_final(request, (name, principal), holdouts, team, int(number) if number.isdecimal() else 0)
    except EverholdError as fault:
        return _page(request, View.of(holdouts, name, principal), Fields(), fault=fault.message)
    return RedirectResponse(place("holdouts", name, "submit") + "#sent", 303)


def _page(
    request: Request, view: View, fields: Fields, *, report: Any = None, submission: Any = None, fault: str = ""
) -> Response:
    return page(
        request, "submit.html", status=422 if fault else 200, view=view, contest=_contest(view), fields=fields,
        report=report, submission=submission, fault=fault, endings=ENDINGS, tab="submit",
        submissions=submissions_of(view.name, view.principal, request.app.state.holdouts)[::-1],
        said_of=SAID_OF, row_id=view.whole.schema.row_id, feedback=FEEDBACK_IN_WORDS,
    )  # fmt: skip


@router.get("/holdouts/{name}/leaderboard")
def leaderboard(
    request: Request, name: HoldoutName, holdouts: Holdouts, principal: Viewer, published: Published
) -> Response:
    """Places of the teams."""
    view = View.of(holdouts, name, principal)
    _contest(view)
    board = view.whole.competition.leaderboard()
    return page(
        request, "leaderboard.html", view=view, board=board, table=_table(board), tab="leaderboard",
        published=published.of(name),
    )  # fmt: skip


@router.get("/public/{name}")
def public(request: Request, name: HoldoutName, holdouts: Holdouts, published: Published) -> Response:
    """A competition for everybody, if the steward has published it; otherwise nothing is there."""
    if not published.of(name):
        raise HoldoutNotFound("this page is not public, or not there; check the address, or log in")
    view = View.of(holdouts, name, Principal(Role.VIEWER, "everybody", frozenset({name})))
    board = view.whole.competition.leaderboard()
    return page(
        request,
        "public.html",
        view=view,
        contest=_contest(view),
        board=board,
        table=_table(board),
        feedback=FEEDBACK_IN_WORDS,
    )


def _contest(view: View) -> Any:
    if view.competition is None:
        raise HoldoutNotFound(
            f"the holdout {view.name!r} takes no submissions; expected one that was created as a competition; ask it "
            "queries instead"
        )
    return view.competition


def _table(board: Leaderboard) -> Markup:
    return Markup(board_table(board))  # escaped where it is made
