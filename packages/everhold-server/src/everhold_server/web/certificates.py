"""The certificate as a page that prints, as a file to take away, and the check of another one."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from markupsafe import Markup

from everhold.certificate.page import render_article
from everhold.errors import EverholdError, QueryRejected
from everhold_server.api.certificates import report_on
from everhold_server.api.contract import HoldoutName, warned_of
from everhold_server.open_holdouts import Holdouts
from everhold_server.principals import Viewer
from everhold_server.web.forms import Form
from everhold_server.web.rendering import page
from everhold_server.web.views import View

router = APIRouter()


@router.get("/holdouts/{name}/certificate")
def certificate(request: Request, name: HoldoutName, holdouts: Holdouts, principal: Viewer) -> Response:
    """A certificate, signed now."""
    view = View.of(holdouts, name, principal)
    with warned_of():
        document = view.whole.certificate(queries=view.steward).to_dict()
    return page(
        request, "certificate.html", view=view, article=Markup(render_article(document)), tab="certificate",
        key=document["signature"]["public_key"],
    )  # fmt: skip


@router.get("/holdouts/{name}/certificate.{form}")
def file(name: HoldoutName, form: str, holdouts: Holdouts, principal: Viewer) -> Response:
    """The same as a file: a document, or a page that needs nothing else."""
    with warned_of():
        view = View.of(holdouts, name, principal)
        made = view.whole.certificate(queries=view.steward)
    kinds = {"json": ("application/json", made.to_json), "html": ("text/html; charset=utf-8", made.to_html)}
    if form not in kinds:
        raise QueryRejected("there is no such form of a certificate; expected .json or .html")
    media, write = kinds[form]
    headers = {
        "Content-Disposition": f'attachment; filename="{name}.certificate.{form}"', "Cache-Control": "no-store",
        "Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'",
    }  # fmt: skip
    return Response(write(), media_type=media, headers=headers)


@router.get("/verify")
def form(request: Request, _: Viewer) -> Response:
    """The form to check a certificate with."""
    return page(request, "verify.html", report=None, fault="", key="")


@router.post("/verify")
def verify(request: Request, _: Viewer, fields: Form) -> Response:
    """Verification of an uploaded certificate; it is kept nowhere."""
    key, path = fields.text("public_key").lower(), fields.file("certificate")
    try:
        if path is None:
            raise QueryRejected("There is no file. Choose a certificate, .json or .html.")
        report = report_on(path, key or None)
    except EverholdError as fault:
        return page(request, "verify.html", status=422, report=None, fault=fault.message, key=key)
    return page(request, "verify.html", report=report, fault="", key=key)
