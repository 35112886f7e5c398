"""Holdouts over HTTP: which there are, what may be known of one, and how rows are sealed and appended."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse
from pydantic import Field, create_model, model_validator

from everhold.asking.arrivals.appending import Arrived
from everhold.asking.creation import settings_from
from everhold.dependence import dependence_from_dict
from everhold.errors import HoldoutNotFound, HoldoutRejected
from everhold.holdout import Holdout
from everhold.ledger import LedgerStore
from everhold.operations.settings import settings_of
from everhold.sealing.configuration import listed_facts
from everhold.sealing.intake.request import Planning, Rows
from everhold.sealing.resealing import Sealer, sealing_for, untold_matches
from everhold.sealing.storage import check_name, rows_folder, storage_url
from everhold_competitions.competition import Competition
from everhold_server.api.arguments import FAMILIES, families_of
from everhold_server.api.contract import HoldoutName, Plain, Strict, body_of, refusals, result, said, warned_of
from everhold_server.audit import AuditLog, noted
from everhold_server.middleware import RateLimiter, TooMany
from everhold_server.open_holdouts import Holdouts, OpenHoldouts
from everhold_server.planners import check_network
from everhold_server.principals import Forbidden, Principal, Role, Steward, Viewer
from everhold_server.untrusted.files import check_untrusted_rows
from everhold_server.uploads import Brought, Unusable
from everhold_server.wire.answers import told
from everhold_server.wire.reading import annotated

if TYPE_CHECKING:
    from pathlib import Path

    from everhold.display import Facts
    from everhold.mechanisms import Promise
    from everhold.operations.arrivals import Append
    from everhold.operations.operation import Parameter
    from everhold_server.uploads import RequestContent

router = APIRouter(prefix="/holdouts", tags=["holdouts"])

_PARQUET, _PACKED = b"PAR1", (b"\x1f\x8b", b"PK", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")
_OF_ENGINES = frozenset({"engine", "table", "training_table"})
_ALLOTMENTS = "allotments"
_DESCRIBED = {
    "name": "flights", "analyst": "reports",
    "promise": {"result": "promise", "radius": 0.043, "confidence": 0.95, "statement": "S3",
                "sentence": "Until 1,000 queries ... is within 0.043 ...", "budget": {"queries": 200, "surprises": 5}},
    "schema": {"result": "schema", "rows": 20_000, "training_rows": 20_000, "columns": {"delay": "number"}},
    "status": {"result": "facts", "facts": {"mechanism": "guess_and_check", "queries_asked": 3}},
    "remaining": {"queries": 197, "surprises": 4},
    "may_be_asked": "columns by name ...", "examples": [{"query": "delay > 0"}], "next": "compute a guess ...",
    "warnings": [],
}  # fmt: skip


class SettingsBase(Strict):
    """Settings of a new holdout whose JSON form differs from the argument of `Holdout.create`.

    Subclasses add the others.
    """

    name: str = Field(
        description="Name of the holdout.", max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]*$",
        examples=["flights"],
    )  # fmt: skip
    dependence: Annotated[
        dict[str, Plain] | None,
        Field(description="How rows depend on each other.", examples=[{"kind": "groups", "column": "household"}]),
    ] = None
    declared: Annotated[dict[str, dict[str, Plain]] | None, Field(**FAMILIES)] = None

    @model_validator(mode="before")
    @classmethod
    def _no_engine(cls, given: Any) -> Any:
        """Reject an engine's address, since a service connects to no address from a request."""
        if isinstance(given, dict) and not _OF_ENGINES.isdisjoint(given):
            raise Unusable(
                "Rows that stay in an engine cannot be sealed over HTTP. Run 'everhold create --engine URL --table "
                "TABLE' where the service runs, with its storage. The service then finds the holdout, and the "
                "engine by EVERHOLD_ENGINE."
            )
        return given

    def arguments(self) -> dict[str, Any]:
        """Return the settings as keyword arguments of `Holdout.create`."""
        check_network(self.dependence)
        given = {name: getattr(self, name) for name in type(self).model_fields if name != "name"}
        if self.declared is not None:
            given["declared"] = families_of(self.declared)
        return {**given, "dependence": None if self.dependence is None else dependence_from_dict(self.dependence)}


_FEEDBACK = settings_of(Competition)["feedback"]
SETTINGS: dict[str, Parameter] = {
    name: each
    for source in (Holdout.create, Rows, Planning, Competition)
    for name, each in settings_of(source).items() if name != "exist_ok"
} | {"feedback": replace(_FEEDBACK, type=_FEEDBACK.type | None, default=None)}  # fmt: skip
"""Settings of a new holdout that a request and a form name as `Holdout.create` does, or without their object.

There is no seed: answers that can be foretold are for simulations, and a service has analysts who would foretell them.
"""

_FIELDS: dict[str, Any] = {
    name: (annotated(each, Field, {Any: Plain}), [] if each.default == () else each.default)
    for name, each in SETTINGS.items()
}
HoldoutSettings = create_model("HoldoutSettings", __base__=SettingsBase, **_FIELDS)
"""Arguments of `everhold.Holdout.create`, without the rows."""


@router.get(
    "", summary="The holdouts that you may see",
    responses={200: said("The holdouts, by name.", {"holdouts": [{
        "name": "flights", "rows": 20_000, "training_rows": 20_000, "mechanism": "guess_and_check", "queries": 1_000,
        "confidence": 0.95, "asked": 3, "charged": 1, "created": "2026-01-31T12:00:00.000000+00:00",
    }], "warnings": []}), **refusals()},
)  # fmt: skip
def list_holdouts(principal: Viewer, holdouts: Holdouts) -> JSONResponse:
    """The public facts of all holdouts of the storage that you may see."""
    return result({"holdouts": listed(holdouts, principal)})


def listed(holdouts: OpenHoldouts, principal: Principal) -> list[dict[str, Any]]:
    """Return the public facts of each holdout that a principal may see, without opening a sealed file."""
    try:
        store = LedgerStore.open(storage_url(holdouts.storage), create=False)
    except HoldoutNotFound:  # nothing was sealed yet
        return []
    with store:
        records = [record for record in store.records() if principal.may_see(record.name)]
        return [listed_facts(store, record, rows_folder(holdouts.storage)) for record in records]


@router.get(
    "/{name}", summary="What may be known of a holdout",
    responses={200: said("Public facts, and what is left for you.", _DESCRIBED), **refusals(404)},
)  # fmt: skip
def describe(name: HoldoutName, principal: Viewer, holdouts: Holdouts) -> JSONResponse:
    """Description: the sealed rows, possible queries, the promise, and the remaining budget. Free.

    An analyst sees their own allotment and no one else's, a viewer none. The certificate is one document for everybody,
    and lists all of them.
    """
    return result(described(holdouts, name, principal))


def described(holdouts: OpenHoldouts, name: str, principal: Principal) -> dict[str, Any]:
    """Return the parts of a holdout's description that the principal may see.

    Raises:
        HoldoutNotFound: If there is no such holdout, or the principal may not see it.
    """
    from everhold_server.mcp.advice import LANGUAGE, examples, next_step

    whole, status = holdouts.whole(name, principal), status_for(holdouts, name, principal)
    return {
        "name": name,
        "analyst": principal.name if principal.role is Role.ANALYST else None,
        "promise": told(_promise(holdouts, name, principal, status)),
        "schema": told(whole.schema),
        "status": told(status),
        "remaining": dict(status["remaining"]),
        "may_be_asked": LANGUAGE,
        "examples": examples(whole.schema),
        "next": next_step(status),
    }


def _promise(holdouts: OpenHoldouts, name: str, principal: Principal, status: Facts) -> Promise:
    """Return the promise of a holdout. For an analyst, its budget is the analyst's allotment."""
    if principal.role is not Role.ANALYST:
        return holdouts.whole(name, principal).promise
    if status[_ALLOTMENTS]:
        return holdouts.asked_by(name, principal).promise
    return replace(holdouts.whole(name, principal).promise, budget=dict.fromkeys(status["remaining"], 0))


def status_for(holdouts: OpenHoldouts, name: str, principal: Principal) -> Facts:
    """Return the status of a holdout. Only a steward's status has the allotments of other analysts."""
    whole = holdouts.whole(name, principal)
    if principal.role is Role.STEWARD:
        return whole.status()
    status = whole.status()
    own = [part for part in status.pop(_ALLOTMENTS, []) if part["analyst"] == principal.name]
    if principal.role is Role.ANALYST:
        status["analyst"], status[_ALLOTMENTS] = principal.name, own
        status["remaining"] = (
            holdouts.asked_by(name, principal).remaining if own else dict.fromkeys(status["remaining"], 0)
        )
    return status


async def one_more_sealing(request: Request, principal: Steward) -> None:
    """Count a sealing against the limit before its rows are read.

    Raises:
        TooMany: If the token has sealed, or has tried to seal, too often within an hour.
    """
    sealings: RateLimiter = request.app.state.sealings
    if wait := sealings.take(principal.limited_as):
        raise TooMany(
            f"A token, together with the tokens that it made, may seal and append {sealings.size} times an hour. Wait "
            f"{math.ceil(wait)} seconds, or run 'everhold create' or 'everhold append' on the machine of the service.",
            wait=wait,
        )


@router.post(
    "", summary="Seal rows", status_code=201, dependencies=[Depends(one_more_sealing)],
    openapi_extra=body_of(HoldoutSettings, part="settings", files={
        "holdout": "The rows to seal: Parquet, or CSV with named columns in UTF-8.",
        "training": "Open rows of the same columns; they make the guesses. May be left out.",
    }, needed=("settings", "holdout")),
    responses={201: said("The holdout as it is now.", _DESCRIBED), **refusals(415)},
)  # fmt: skip
def create(request: Request, principal: Steward, holdouts: Holdouts, received: Brought) -> JSONResponse:
    """Seal rows and record the promise.

    The rows are copied beside the storage and nobody sees them again; put the originals away. What is weak about the
    promise, and what in the training rows speaks against the declared dependence, is in `warnings`.

    Rows that are sealed already are refused. The token of a steward of some holdouts is told so only about holdouts
    that it sealed itself, and, for at least 1,000 rows, about others that it reaches and that are at most twice as
    large. All other matches go to the audit log, for stewards of the whole storage.
    """
    settings = received.document(HoldoutSettings, part="settings")
    with warned_of() as warned:
        seal(request, holdouts, principal, settings, received)
    return result(described(holdouts, settings.name, principal), warned, status=201)


def seal(
    request: Request, holdouts: OpenHoldouts, principal: Principal, settings: SettingsBase, received: RequestContent
) -> None:  # fmt: skip
    """Seal the rows of a request. The same request with the same token again changes nothing.

    If the same rows are in holdouts that the principal may not hear of, only the audit log records it, for stewards of
    the whole storage.

    Raises:
        Forbidden: If the principal's token is limited to holdouts of other names.
        HoldoutRejected: If the rows cannot be sealed, or the name is taken. Nothing was created.
        DependenceError: If the dependence does not match the rows. Nothing was created.
        ValueError: If the settings contradict each other. Nothing was created.
        Unusable: If a file is missing or packed. Nothing was created.
    """
    check_name(settings.name)
    if not principal.may_see(settings.name):
        raise Forbidden(
            f"The token is not for the holdout {settings.name!r}. Use a steward's token "
            "for all holdouts or for this name."
        )
    if "holdout" not in received.files:
        raise Unusable("The form has no file 'holdout'. Send the rows to seal in this part.")
    secret = request.headers.get("authorization") or request.headers.get("cookie", "")
    content = received.digest(settings.model_dump(mode="json"), key=secret)
    rows = rows_of(received, "holdout", "training")
    sealer = None if principal.holdouts is None else Sealer(principal.token, principal.holdouts)
    log: AuditLog = request.app.state.audit
    with holdouts.being_made(settings.name):  # a request that was sent again waits for the first one
        if log.has_sealed(principal, settings.name, content):
            noted(request, "seal rows again", holdout=settings.name)
            return
        with sealing_for(sealer):
            Holdout.create(
                holdouts.storage,
                settings.name,
                **rows,
                **settings_from(settings.arguments()),
            ).close()
        noted(request, "seal rows", holdout=settings.name, content=content)
        log.insert_now(request.scope, 201)
    if sealer is None:
        return
    with LedgerStore.open(storage_url(holdouts.storage), create=False) as store:
        untold: dict[str, Any] = untold_matches(rows_folder(holdouts.storage), store.record(settings.name)) or {}
    # written whatever was found: the duration must not tell
    log.insert_act("compare rows", request.state.request_id, principal, sealed=settings.name, **untold)


def rows_of(received: RequestContent, *names: str) -> dict[str, Any]:
    """Return the row files of a form by the names of their parts, renamed to the ending that fits their content.

    Raises:
        Unusable: If the form has files other than row files. Nothing was changed.
        HoldoutRejected: If a file is packed, too large or unreadable. Nothing was changed.
    """
    if unknown := received.files.keys() - {*names, "settings", "request"}:
        raise Unusable(
            f"The form has the file {min(unknown)!r}, which is not used here. Send only {' and '.join(names)}."
        )
    return {name: _named_by_content(received.files[name], name) for name in names if name in received.files}


def _named_by_content(path: Path, what: str) -> Path:
    """Rename an uploaded file by its content to end in .csv or .parquet, and return the new path.

    Raises:
        HoldoutRejected: If the file is packed, too large or unreadable. Nothing was created.
    """
    with path.open("rb") as file:
        head = file.read(8)
    if head.startswith(_PACKED):
        raise HoldoutRejected(f"The {what} file is compressed. Send plain CSV or Parquet.")
    named = path.rename(path.with_name(f"{what}.{'parquet' if head.startswith(_PARQUET) else 'csv'}"))
    check_untrusted_rows(named, name=f"the {what} file")
    return named


def append_rows(
    request: Request, holdouts: OpenHoldouts, principal: Principal, name: str, appending: Append,
    received: RequestContent,
) -> Arrived:  # fmt: skip
    """Append the rows of a request. The same request with the same token again changes nothing.

    Appends count against the same limit as sealings. A token that is limited to some holdouts and did not seal this one
    has to append at least 1,000 rows of each kind at once. If another holdout has the same rows, only the audit log
    records it.

    Args:
        request: The HTTP request.
        holdouts: The open holdouts of this process.
        principal: The steward who appends.
        name: Name of the holdout.
        appending: The operation `append`, to which the rows of the request are added.
        received: Files ``rows`` and ``training``; at least one of them.

    Raises:
        HoldoutRejected: If the rows do not fit or are there already. Nothing was changed.
        QueryRejected: If this holdout cannot grow. Nothing was changed.
        Unusable: If the form has other files than these two, or a file is packed. Nothing was changed.
    """
    whole = holdouts.whole(name, principal)
    secret = request.headers.get("authorization") or request.headers.get("cookie", "")
    content = received.digest({"until": appending.until}, key=secret)
    appending = replace(appending, **rows_of(received, "rows", "training"))
    log: AuditLog = request.app.state.audit
    with holdouts.being_made(name):  # a request that was sent again waits for the first one
        done = log.facts_of(principal, name, act=appending.act, content=content)
        if done is not None and (before := _arrived(whole.arrivals.timeline(), int(done["arrival"]))) is not None:
            noted(request, "append rows again", holdout=name)
            return before
        sealer = None if principal.holdouts is None else Sealer(principal.token, principal.holdouts)
        with sealing_for(sealer):
            arrived = whole.perform(appending)
        noted(request, appending.act, holdout=name, content=content, **appending.facts(arrived))
        log.insert_now(request.scope, appending.status)
    if sealer is not None:
        with LedgerStore.open(storage_url(holdouts.storage), create=False) as store:
            found = untold_matches(rows_folder(holdouts.storage), store.record(name), arrival=arrived.arrival)
        untold: dict[str, Any] = found or {}
        # written whatever was found: the duration must not tell
        log.insert_act("compare rows", request.state.request_id, principal, sealed=name, **untold)
    return arrived


def _arrived(rows: list[dict[str, Any]], number: int) -> Arrived | None:
    """Return the arrival with this number, or None if the ledger has no such arrival."""
    row = next((row for row in rows if row["arrival"] == number), None)
    return None if row is None else Arrived.of(row)
