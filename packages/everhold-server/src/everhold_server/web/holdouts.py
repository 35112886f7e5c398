"""Pages about holdouts: all of them, a new one, one of them, and its certificate."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import RedirectResponse
from markupsafe import Markup
from pydantic import ValidationError

from everhold.arguments import brief
from everhold.certificate.page import render_article
from everhold.dependence import Groups
from everhold.errors import EverholdError, HoldoutRejected, QueryRejected
from everhold.families.protocol import from_toml, protocol_from
from everhold.mechanisms import answering
from everhold.queries.metrics.registry import METRICS
from everhold.sealing.storage import check_name
from everhold_competitions.competition import FEEDBACK
from everhold_server.api.arguments import families_of
from everhold_server.api.contract import warned_of
from everhold_server.api.holdouts import SETTINGS, HoldoutSettings, SettingsBase, listed, one_more_sealing, seal
from everhold_server.api.reports import report_on
from everhold_server.audit import noted
from everhold_server.open_holdouts import Holdouts
from everhold_server.principals import Steward, Viewer
from everhold_server.web.competitions import Publications, Published
from everhold_server.web.pages import ENDINGS, Fields, Form, page, place
from everhold_server.web.views import SAID_OF, StewardView, View, ViewerView, dependence_of, handed_in

router = APIRouter()

_LATEST = 25
_MORE = ("stratified", "independent", "categories", "slack", "equal_rows", "allow_vacuous", "allow_resealing")
_OF_METRICS = ("low", "high", "floor", "threshold", "rate", "bins")
_METRICS = {
    name: metric.common or name.removeprefix("neg_").replace("_", " ")
    for name, metric in METRICS.own.items()
    if metric.ordered and not isinstance(metric.like, str) and name != "failing_rows"
}
"""Metrics of competitions with the names that boards show."""
_FEEDBACK = dict(zip(FEEDBACK, ("nothing, until the end", "whether it leads, by proof", "its score"), strict=True))


@router.get("/")
def home(_: Viewer) -> Response:
    """Redirect to the list of holdouts."""
    return RedirectResponse(place("holdouts"), 303)


@router.get("/holdouts")
def every_holdout(request: Request, holdouts: Holdouts, principal: Viewer) -> Response:
    """Return the page with all holdouts that the principal may see, also those that cannot be opened."""
    cards = []
    for each in listed(holdouts, principal):
        card: dict[str, Any] = {"name": each["name"], "view": None, "fault": ""}
        try:
            card["view"] = View.of(holdouts, each["name"], principal)
        except EverholdError as fault:
            card["fault"] = fault.told
        cards.append(card)
    return page(request, "holdouts.html", cards=cards)


@router.get("/seal")
def new_holdout(request: Request, _: Steward) -> Response:
    """Return the form for a new holdout."""
    return _form(request, Fields())


@router.post("/seal", dependencies=[Depends(one_more_sealing)])
def create(request: Request, holdouts: Holdouts, principal: Steward, fields: Form) -> Response:
    """Seal the rows of the form, and return the page of the new holdout."""
    try:
        with warned_of():
            settings = _settings(fields)
            seal(request, holdouts, principal, settings, fields.chosen)
    except EverholdError as fault:
        fault.unchanged = "nothing was created"
        return _form(request, fields, fault=fault.told, status=422)
    return RedirectResponse(place("holdouts", settings.name), 303)


def _form(request: Request, fields: Fields, *, fault: str = "", status: int = 200) -> Response:
    return page(
        request, "new_holdout.html", status=status, fields=fields, fault=fault, endings=ENDINGS,
        settings=SETTINGS, more=_MORE, metrics=_METRICS, registry=METRICS, of_metrics=_OF_METRICS,
        choices={
            "mechanism": {"": "the best for the plan"} | {name: name.replace("_", " ") for name in sorted(answering())},
            "feedback": {"": "this is no competition", **_FEEDBACK}, "metric": _METRICS,
        },
    )  # fmt: skip


def _settings(fields: Fields) -> SettingsBase:
    """Return the settings of a new holdout from a form."""
    check_name(fields.text("name"))
    if fields.file("holdout") is None:
        raise HoldoutRejected("holdout is missing. Choose a file with the rows.")
    request = {name: value for name, each in SETTINGS.items() if (value := fields.value(each)) is not None}
    request |= {"name": fields.text("name"), "confidence": _percent(fields, "confidence", most=99.9999, otherwise=95.0)}
    if request.get("classes") == ["open"]:
        request["classes"] = "open"
    if fields.ticked("features_public"):
        request["features"] = "public"
    request |= _declared(fields)
    if (groups := fields.some("groups")) is not None:
        request["dependence"] = Groups(groups).to_dict()
    if "feedback" in request:
        request.pop("queries", None)
        request["metric"] = _metric(fields)
        if "public" in request:
            request["public"] = _percent(fields, "public", most=50.0)
    try:
        return HoldoutSettings(**request)
    except ValidationError as fault:
        wrong = fault.errors()[0]
        found = "missing" if wrong["type"] == "missing" else brief(wrong["input"])
        raise HoldoutRejected(f"{wrong['loc'][0]} is {found}. {wrong['msg']}.") from None


def _percent(fields: Fields, name: str, *, most: float, otherwise: float = 0.0) -> float:
    """Return the share that a field gives in percent."""
    found = fields.number(name, otherwise) or 0.0
    if not 1.0 <= found <= most:  # a share such as 0.95 would be taken for less than 1 %
        raise HoldoutRejected(f"{name} is {found:g}. Pass a number of per cent from 1 to {most:g}.")
    return found / 100.0


def _metric(fields: Fields) -> str | dict[str, Any]:
    """Return the metric that a form describes: a name, or a dictionary with the numbers that define it.

    Raises:
        HoldoutRejected: If a number does not belong to the metric.
    """
    name = fields.text("metric") or "accuracy"
    numbers = {each: number for each in _OF_METRICS if (number := fields.number(each)) is not None}
    if strange := [each for each in numbers if name not in METRICS or each not in METRICS[name].settings]:
        raise HoldoutRejected(
            f"{strange[0]} is {numbers[strange[0]]:g}, and the metric {name} has no such setting. Leave the field "
            "empty."
        )
    return {"score": name, **numbers} if numbers else name


def _declared(fields: Fields) -> dict[str, Any]:
    """Return the settings from a form's protocol: families, and their share of the probability of failure."""
    if (written := fields.some("declared")) is None:
        return {}
    said = from_toml(written)
    if other := said.keys() - {"families", "share"}:
        raise QueryRejected(
            f"The protocol has {brief(min(other))}, which has its own field in the form. Fill in that field."
        )
    return {"declared": said.get("families", {}), "share": protocol_from(said).share}


@router.get("/holdouts/{name}")
def one_holdout(request: Request, view: ViewerView, published: Published) -> Response:
    """Return the page with the promise, the remaining budget, and the answers."""
    return _page(request, view, published)


@router.post("/holdouts/{name}/families")
def declare(request: Request, view: StewardView, fields: Form, published: Published) -> Response:
    """Declare a family of queries from the fields of the form, and return the next page."""
    try:
        with warned_of():
            family = fields.text("family")
            view.whole.declare_all(families_of({family: _family(fields)}))
        noted(request, "declare", families=[family])
    except EverholdError as fault:
        return _page(request, view.anew(), published, fields=fields, fault=fault.told)
    return RedirectResponse(place("holdouts", view.name) + "#declared", 303)


def _family(fields: Fields) -> dict[str, Any]:
    """Return the declared family that a form describes, in the format of a protocol file.

    Raises:
        QueryRejected: If the form names no kind of family, or no number of bits.
    """
    kind, lines = fields.text("kind"), [line.strip() for line in fields.text("members").splitlines() if line.strip()]
    if kind == "subgroups":
        return {kind: lines, "of": fields.text("of")}
    if kind not in ("listed", "texts"):
        raise QueryRejected(f"kind is {brief(kind)}. Send texts, listed or subgroups.")
    return {kind: lines if kind == "listed" else fields.number("members")}


def _page(
    request: Request, view: View, published: Publications, *, fields: Fields | None = None, fault: str = ""
) -> Response:
    return page(
        request, "holdout.html", status=422 if fault else 200, view=view, latest=view.latest(_LATEST), fields=fields,
        fault=fault, said_of=SAID_OF, published=published.of(view.name), tab="overview",
        handed_in=handed_in, dependence=dependence_of(view),
    )  # fmt: skip


@router.get("/holdouts/{name}/certificate")
def certificate(request: Request, view: ViewerView) -> Response:
    """Return the page with a certificate that is signed now."""
    with warned_of():
        document = view.whole.certificate(queries=view.steward).to_dict()
    return page(
        request, "certificate.html", view=view, article=Markup(render_article(document)), tab="certificate",
        key=document["signature"]["public_key"],
    )  # fmt: skip


@router.get("/holdouts/{name}/certificate.{form}")
def certificate_file(view: ViewerView, form: str) -> Response:
    """Return a certificate that is signed now as a JSON or an HTML file."""
    with warned_of():
        made = view.whole.certificate(queries=view.steward)
    kinds = {"json": ("application/json", made.to_json), "html": ("text/html; charset=utf-8", made.to_html)}
    if form not in kinds:
        raise QueryRejected(f"A certificate has no form {form!r}. Ask for .json or .html.")
    media, write = kinds[form]
    headers = {
        "Content-Disposition": f'attachment; filename="{view.name}.certificate.{form}"', "Cache-Control": "no-store",
        "Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'",
    }  # fmt: skip
    return Response(write(), media_type=media, headers=headers)


@router.get("/verify")
def verify_form(request: Request, _: Viewer) -> Response:
    """Return the form that checks a certificate."""
    return page(request, "verify.html", report=None, fault="", key="")


@router.post("/verify")
def verify(request: Request, _: Viewer, fields: Form) -> Response:
    """Check an uploaded certificate, which is not stored, and return the page with the report."""
    key, path = fields.text("public_key").lower(), fields.file("certificate")
    try:
        if path is None:
            raise QueryRejected("There is no file. Choose a certificate, .json or .html.")
        report = report_on(path, key or None)
    except EverholdError as fault:
        return page(request, "verify.html", status=422, report=None, fault=fault.told, key=key)
    return page(request, "verify.html", report=report, fault="", key=key)
