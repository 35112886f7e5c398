"""Pages of a competition: submissions, the leaderboard, and the public page that needs no login."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import sqlalchemy as sa
from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from markupsafe import Markup

from everhold.errors import EverholdError, HoldoutNotFound
from everhold.ledger.schema import published
from everhold_competitions.leaderboard import board_table
from everhold_competitions.operations import (
    CheckSubmission,
    ChooseFinal,
    Disqualify,
    ListSubmissions,
    MoveDeadline,
    Submit,
)
from everhold_server.api.contract import HoldoutName
from everhold_server.api.operations import own_name, submission_in
from everhold_server.audit import noted
from everhold_server.open_holdouts import Holdouts
from everhold_server.principals import Principal, Role, kept
from everhold_server.registration import RegisterTeams, names_in
from everhold_server.tables import stamp
from everhold_server.web.pages import ENDINGS, Chosen, Fields, Form, page, performed, place
from everhold_server.web.views import SAID_OF, AnalystView, StewardView, View, ViewerView, told_in_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everhold.holdout import Holdout
    from everhold_server.tables import Records


class Publications:
    """Which competitions of a storage have a public page. Thread-safe."""

    def __init__(self, records: Records) -> None:
        self.records = records

    def of(self, holdout: str) -> bool:
        """Return whether a holdout's public page is published."""
        with self.records.reading() as connection:
            return connection.execute(sa.select(published).where(published.c.holdout == holdout)).first() is not None

    def put(self, holdout: str, *, public: bool, by: str) -> None:
        """Record whether the page of a competition is public.

        Args:
            holdout: Name of the competition's holdout.
            public: Whether everybody may see the page without logging in.
            by: Name of the steward who decided it.
        """
        moment = stamp(self.records.clock())
        with self.records.writing() as connection:
            connection.execute(sa.delete(published).where(published.c.holdout == holdout))
            if public:
                connection.execute(sa.insert(published), {"holdout": holdout, "at": moment, "by": by})


Published = Annotated[Publications, kept("published")]


router = APIRouter()


@router.get("/holdouts/{name}/submit")
def form(request: Request, view: AnalystView) -> Response:
    """Return the form for a submission."""
    return _submit_page(request, view, Fields())


@router.post("/holdouts/{name}/submit")
def submit(request: Request, view: AnalystView, fields: Form) -> Response:
    """Submit a file of predictions, or only check it, according to the button of the form."""
    tries = fields.text("act") == "check"

    def asked() -> tuple[Holdout, Submit | CheckSubmission]:
        handed_in = submission_in(fields.chosen, view.whole, view.principal)
        tried = CheckSubmission(predictions=handed_in.predictions, team=handed_in.team)
        return view.whole, tried if tries else handed_in

    if tries:
        noted(request, "check a submission")
    done, fault, _ = performed(request, asked)
    return _submit_page(request, view, fields, fault=fault, **{"report" if tries else "submission": done})


@router.post("/holdouts/{name}/submit/final")
def choose(request: Request, view: AnalystView, fields: Form) -> Response:
    """Make a submission the final one of its team."""
    number, _, team = fields.text("chosen").partition(" ")
    chosen = int(number) if number.isdecimal() else 0
    asked = ChooseFinal(number=chosen, team=own_name(team, view.principal))
    _, fault, _ = performed(request, lambda: (view.whole, asked))
    if fault:
        return _submit_page(request, view, Fields(), fault=fault)
    return RedirectResponse(place("holdouts", view.name, "submit") + "#sent", 303)


def _submit_page(
    request: Request, view: View, fields: Fields, *, report: Any = None, submission: Any = None, fault: str = ""
) -> Response:
    return page(
        request, "submit.html", status=422 if fault else 200, view=view, contest=_contest(view), fields=fields,
        report=report, submission=submission, fault=fault, endings=ENDINGS, tab="submit",
        submissions=view.whole.perform(ListSubmissions(team=own_name(None, view.principal, reads=True)))[::-1],
        said_of=SAID_OF, row_id=view.whole.schema.row_id, told=told_in_words(_contest(view)),
        over=view.whole.competition.is_over, by=view.whole.competition.leaderboard().by,
    )  # fmt: skip


@router.get("/holdouts/{name}/teams")
def teams(request: Request, view: StewardView) -> Response:
    """Return the page with each team's submissions, and forms to register or disqualify teams and move the deadline."""
    return _teams_page(request, view, Fields())


@router.post("/holdouts/{name}/teams")
def moderate(request: Request, view: StewardView, fields: Form) -> Response:
    """Register teams, disqualify a team or move the deadline, according to the form."""
    act = fields.text("act")

    def asked() -> tuple[Holdout, RegisterTeams | MoveDeadline | Disqualify]:
        if act == "register":
            listed = [] if (path := fields.file("names_file")) is None else names_in(path)
            names = [*listed, *filter(None, map(str.strip, fields.text("names").splitlines()))]
            return view.whole, RegisterTeams(teams=names, days=fields.number("days")).sent_by(view.principal)
        if act == "deadline":
            return view.whole, MoveDeadline(deadline=f"{fields.text('deadline')}+00:00")  # browsers send no offset
        return view.whole, Disqualify(team=fields.text("team"), reason=fields.text("reason"))

    done, fault, _ = performed(request, asked)
    if fault or act == "register":
        return _teams_page(request, view, fields if fault else Fields(), made=done or (), fault=fault)
    return RedirectResponse(place("holdouts", view.name, "teams"), 303)


def _teams_page(
    request: Request, view: View, fields: Fields, *, made: Sequence[Mapping[str, Any]] = (), fault: str = ""
) -> Response:
    contest, competition = _contest(view), view.whole.competition
    return page(
        request, "teams.html", status=422 if fault else 200, view=view, contest=contest, fields=fields, made=made,
        fault=fault, tab="teams", rows=competition.teams().to_rows(), ended=competition.is_ended,
        address=request.app.state.settings.address,
    )  # fmt: skip


@router.get("/holdouts/{name}/leaderboard")
def leaderboard(
    request: Request, view: ViewerView, published: Published, first: Chosen = "", second: Chosen = ""
) -> Response:
    """Return the page with the leaderboard, and with what proves one of two chosen teams better."""
    return _board_page(
        request, "leaderboard.html", view, (first, second), tab="leaderboard", published=published.of(view.name)
    )


@router.get("/public/{name}")
def public(
    request: Request, name: HoldoutName, holdouts: Holdouts, published: Published, first: Chosen = "",
    second: Chosen = "",
) -> Response:  # fmt: skip
    """Return a competition's public page, or 404 if the steward has not published the competition."""
    if not published.of(name):
        raise HoldoutNotFound("This page is not public, or does not exist. Check the address, or log in.")
    view = View.of(holdouts, name, Principal(Role.VIEWER, "everybody", frozenset({name})))
    return _board_page(request, "public.html", view, (first, second))


def _board_page(request: Request, template: str, view: View, chosen: tuple[str, str], **facts: Any) -> Response:
    contest, told, fault = _contest(view), "", ""
    board, over = view.whole.competition.leaderboard(), view.whole.competition.is_over
    try:
        told = board.tell_apart(*chosen) if any(chosen) else ""
    except EverholdError as wrong:
        fault = wrong.message
    return page(
        request, template, status=422 if fault else 200, view=view, contest=contest, board=board,
        table=Markup(board_table(board)),  # escaped where it is made
        said=told_in_words(contest), chosen=chosen, told=told, fault=fault, over=over, **facts,
    )  # fmt: skip


def _contest(view: View) -> Any:
    if view.competition is None:
        raise HoldoutNotFound(
            f"The holdout {view.name!r} is not a competition and takes no submissions. Ask it queries instead."
        )
    return view.competition
