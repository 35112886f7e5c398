"""Routes of all operations, each built from the operation's fields and docstring.

Every such route also finds out who asks, reads the files of the request, returns warnings, and writes the audit log.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, get_args

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field, ValidationError, create_model
from starlette.concurrency import run_in_threadpool

from everhold.errors import EverholdWarning
from everhold.operations import OPERATIONS
from everhold.operations.operation import (
    AnyMetric,
    AnyModel,
    AnyQuery,
    AnyResults,
    Families,
    HoldoutOperation,
    Parameter,
    RowSource,
    Table,
    parameters,
    result_type,
)
from everhold_competitions.operations import COMPETITION_OPERATIONS, Submit
from everhold_server.api import contract
from everhold_server.api.arguments import (
    FAMILIES,
    MOST_ASKED,
    MOST_QUOTED,
    CaseResults,
    Metrics,
    families_of,
    metric_from,
    queries_of,
    shown_gates,
    with_fields,
)
from everhold_server.api.holdouts import append_rows, one_more_sealing, rows_of
from everhold_server.audit import noted
from everhold_server.principals import Analyst, Forbidden, Role, Steward, Viewer, allowed
from everhold_server.registration import RegisterTeams
from everhold_server.uploads import Brought, content_of, document_of
from everhold_server.wire.answers import as_json, schema_of
from everhold_server.wire.files import PARQUET_TYPE
from everhold_server.wire.queries import predictions_from, results_from
from everhold_server.wire.reading import annotated

if TYPE_CHECKING:
    from everhold.display import Facts
    from everhold.holdout import Holdout
    from everhold_server.open_holdouts import OpenHoldouts
    from everhold_server.principals import Principal
    from everhold_server.uploads import RequestContent

_BY_HAND = frozenset({"status", "promise", "remaining", "transcript", "certificate"})
"""Operations whose routes have other forms too, or tell several of them at once."""


def _affected(_: Request, holdouts: OpenHoldouts, principal: Principal, name: str, asked: Any, __: Any) -> list[str]:
    return [holdouts.shown_to(principal, text) for text in holdouts.whole(name, principal).perform(asked)]


def _gates(_: Request, holdouts: OpenHoldouts, principal: Principal, name: str, asked: Any, __: Any) -> list[Facts]:
    return shown_gates(holdouts.whole(name, principal).perform(asked), principal)


_SPECIAL: dict[str, Callable[..., Any]] = {"append": append_rows, "affected_holdouts": _affected, "gates": _gates}
"""Operations for which the service does more than to perform them."""

_KINDS = {
    AnyQuery: contract.Asking, Families: Annotated[dict[str, dict[str, contract.Plain]], Field(**FAMILIES)],
    AnyModel: contract.Predictions, AnyResults: CaseResults, AnyMetric: Metrics,
}  # fmt: skip
_IN_A_FORM = (AnyQuery, AnyModel, AnyResults)  # what may need more room, or files beside it
_ROLES: dict[Role, Any] = {Role.STEWARD: Steward, Role.ANALYST: Analyst, Role.VIEWER: Viewer}
_QUERIES, _ROWS = "request", "settings"  # parts of a form that hold the document


def add_operations(router: APIRouter, prefix: str) -> None:
    """Add the routes of all operations to a router, including those of installed extensions.

    They are added to an existing router, because FastAPI would compare each request twice with the routes of a second
    one.
    """
    more: tuple[type[HoldoutOperation[Any]], ...] = (*COMPETITION_OPERATIONS, RegisterTeams)
    every = sorted((*OPERATIONS.values(), *more), key=lambda each: each.verb != "ask")  # routes are tried in this order
    for operation in every:
        if operation.route and operation.verb not in _BY_HAND:
            method, path = operation.route.split(" ")
            summary, _, description = inspect.cleandoc(operation.__doc__ or "").partition("\n\n")
            _, fields, files = _sorted(operation)
            model = model_of(operation)
            refused = contract.refusals(404, *([415] if fields or files else []))
            router.add_api_route(
                f"{prefix}/holdouts/{{name}}{path}", _endpoint(operation, model), methods=[method],
                tags=[operation.topic], route_class_override=OperationRoute,
                operation_id=operation.verb, summary=summary.rstrip("."), description=description or summary,
                status_code=operation.status,
                dependencies=[Depends(contract.check_parameters), *([Depends(one_more_sealing)] if files else [])],
                openapi_extra=_body(operation, model),
                responses={operation.status: _response(operation), **_under_way(operation), **refused},
            )  # fmt: skip


def _under_way(operation: type[HoldoutOperation[Any]]) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI response 202 for an operation that can run as a job, empty for other operations."""
    if operation.lasts is HoldoutOperation.lasts:
        return {}
    job = {
        "id": "5f2c9a01b3d4e6f7", "holdout": "birds", "verb": operation.verb, "by": "host", "what": "comparing teams",
        "made": "2026-01-31T12:00:00+00:00", "done": 400, "total": 1_275, "ended": None, "fault": "",
    }  # fmt: skip
    words = "It takes minutes, and a job performs it. The same request again is answered once it is done."
    return {202: contract.said(words, {"job": job, "warnings": []})}


def _sorted(
    operation: type[HoldoutOperation[Any]],
) -> tuple[list[Parameter], list[Parameter], list[Parameter]]:
    """Return the parameters of an operation in three lists: in the path, in the document or query, and as files."""
    every = [each for each in parameters(operation) if each.about.travels]
    path = [each for each in every if f"{{{each.name}}}" in operation.route]
    files = [each for each in every if each.holds(RowSource)]
    return path, [each for each in every if each not in path and each not in files], files


def _endpoint(operation: type[HoldoutOperation[Any]], model: type[BaseModel]) -> Callable[..., Response]:
    """Build the function of an operation's route, with the signature that FastAPI reads."""
    path, fields, files = _sorted(operation)
    reads, as_file = operation.route.startswith("GET "), files or any(each.holds(*_IN_A_FORM) for each in fields)

    def endpoint(request: Request, name: str, principal: Principal, **given: Any) -> Response:
        holdouts: OpenHoldouts = request.app.state.holdouts
        received: RequestContent | None = given.pop("received", None)
        document = given.pop("document", None)
        whole = operation.role is not Role.ANALYST or operation.actor
        holdout = holdouts.whole(name, principal) if whole else holdouts.asked_by(name, principal)
        if received is not None:
            document = (received if files else with_fields(received, fields)).document(
                model, part=_ROWS if files else _QUERIES
            )
        given |= {each: getattr(document, each) for each in type(document).model_fields} if document else {}
        if operation.actor:
            given[operation.actor] = own_name(given[operation.actor], principal, reads=reads)
        with contract.warned_of() as warned:
            given |= _read(operation, fields, given, (holdout, principal, received))
            if operation.verb in _SPECIAL:
                done = _SPECIAL[operation.verb](request, holdouts, principal, name, operation(**given), received)
            else:
                rows = rows_of(received, *(each.name for each in files)) if files and received is not None else {}
                asked = operation(**given, **rows)
                asked = asked.sent_by(principal) if isinstance(asked, RegisterTeams) else asked
                if (job := request.app.state.jobs.begin(asked, holdout, by=principal.name)) is not None:
                    noted(request, operation.act, job=job.id)
                    shown = [EverholdWarning(holdouts.shown_to(principal, str(warning))) for warning in warned]
                    return contract.result({"job": job.to_dict()}, shown, status=202, headers={"Retry-After": "1"})
                done = holdout.perform(asked)
                if operation.act:
                    noted(request, operation.act, **asked.facts(done))
        shown = [EverholdWarning(holdouts.shown_to(principal, str(warning))) for warning in warned]
        return _answer(operation, done, shown)

    positional = inspect.Parameter.KEYWORD_ONLY
    signature = [
        inspect.Parameter("request", positional, annotation=Request),
        inspect.Parameter("name", positional, annotation=contract.HoldoutName),
        inspect.Parameter("principal", positional, annotation=_ROLES[operation.role]),
        *(inspect.Parameter(each.name, positional, annotation=_in_path(each)) for each in path),
    ]
    if reads:
        signature += [
            inspect.Parameter(each.name, positional, default=each.default, annotation=annotated(each, Query))
            for each in fields
        ]
    elif as_file:
        signature.append(inspect.Parameter("received", positional, annotation=Brought))
    elif fields:
        checked = Annotated[Any, Depends(document_of(model))]
        signature.append(inspect.Parameter("document", positional, annotation=checked))
    endpoint.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    endpoint.__name__ = operation.verb
    if as_file and not (reads or path or files):
        endpoint.role = operation.role  # type: ignore[attr-defined]
    return endpoint


class OperationRoute(APIRoute):
    """Route of an operation, of which FastAPI documents the parameters.

    If a request has only a valid holdout name and a body, this class reads both itself, with the same result as FastAPI
    in a quarter of the time.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of a request."""
        handled, endpoint, role = super().get_route_handler(), self.endpoint, getattr(self.endpoint, "role", None)
        if role is None:
            return handled

        async def read(request: Request) -> Response:
            try:
                name = contract.HOLDOUT_NAME.validate_python(request.path_params["name"])
            except ValidationError:  # FastAPI says what is wrong with it
                return await handled(request)
            if request.query_params:
                contract.check_parameters(request)
            principal, received = allowed(request, role), await content_of(request)
            return await run_in_threadpool(endpoint, request, name, principal, received=received)

        return read


def own_name(name: str | None, principal: Principal, *, reads: bool = False) -> str | None:
    """Return the analyst or team for whom a request acts. An analyst acts for itself, a steward for any name.

    Args:
        name: Name in the request, or None.
        principal: The sender of the request.
        reads: Whether the request only reads. Without a name, a steward reads for all names (None is returned), and
            acts under the steward's own name.

    Raises:
        Forbidden: If an analyst sends the name of another analyst.
    """
    if principal.role is Role.STEWARD:
        return name or (None if reads else principal.name)
    if name not in (None, "", principal.name):
        raise Forbidden(f"Your token is for {principal.name!r}, and not for another team. Send your own name, or none.")
    return principal.name


def submission_in(received: RequestContent, holdout: Holdout, principal: Principal) -> Submit:
    """Return the submission that the form of a page describes.

    Raises:
        Forbidden: If the submission is for another team than the principal's.
        QueryRejected: If the form has a part that submissions do not have, or the predictions cannot be read.
    """
    fields = _sorted(Submit)[1]
    document = with_fields(received, fields).document(model_of(Submit))
    given = {each.name: getattr(document, each.name) for each in fields}
    given["team"] = own_name(given["team"], principal)
    return Submit(**{**given, **_read(Submit, fields, given, (holdout, principal, received))})


def _read(
    operation: type[HoldoutOperation[Any]], fields: Sequence[Parameter], given: Mapping[str, Any],
    asked_of: tuple[Holdout, Principal, RequestContent | None],
) -> dict[str, Any]:  # fmt: skip
    """Convert a request's arguments from JSON and files into the objects that the operation takes."""
    holdout, principal, received = asked_of
    found = {
        each.name: each for each in fields if given[each.name] is not None or (each.required and each.holds(AnyQuery))
    }  # fmt: skip
    read: dict[str, Any] = {}
    if models := [name for name, each in found.items() if each.holds(AnyModel)]:
        if not operation.actor:
            contract.check_predictions_allowed(holdout.schema, principal, *(given[name] for name in models))
        tables = {} if received is None else received.tables(holdout.schema)
        read |= {name: predictions_from(given[name], holdout.schema, tables) for name in models}
    for name, each in found.items():
        if each.holds(AnyQuery) and received is not None:
            most, written = MOST_ASKED if operation.act else MOST_QUOTED, given[name]
            queries = queries_of(written if each.several else [written], holdout, principal, received, most=most)
            read[name] = queries if each.several else queries[0]
        elif (reader := _READERS.get(next(iter({*_READERS} & {each.type, *get_args(each.type)}), None))) is not None:
            read[name] = reader(given[name])
    return read


_READERS: dict[Any, Callable[[Any], Any]] = {Families: families_of, AnyResults: results_from, AnyMetric: metric_from}


def _answer(operation: type[HoldoutOperation[Any]], done: Any, warned: Sequence[EverholdWarning]) -> Response:
    if result_type(operation) is Table:
        from pyarrow import BufferOutputStream, parquet

        out = BufferOutputStream()
        parquet.write_table(done, out)
        return Response(out.getvalue().to_pybytes(), media_type=PARQUET_TYPE)
    plain = as_json(done)
    return contract.result({operation.part: plain} if operation.part else plain, warned, status=operation.status)


def model_of(operation: type[HoldoutOperation[Any]]) -> type[BaseModel]:
    """Build the pydantic model of a request's document, from the operation's parameters in the document."""
    fields: dict[str, Any] = {each.name: (annotated(each, Field, _KINDS), ... if each.required else each.default)
                              for each in _sorted(operation)[1]}  # fmt: skip
    title = "".join(part.title() for part in operation.verb.split("_"))
    said = f"Arguments of `{operation.verb}`."
    return create_model(f"{title}Request", __base__=contract.Strict, __doc__=said, **fields)


def _in_path(each: Parameter) -> Any:
    examples = [each.about.example] if each.about.example is not None else None
    limits: dict[str, Any] = {}
    if each.type is str:
        limits = {"min_length": 1, "max_length": each.about.longest, "pattern": each.about.pattern}
    return Annotated[each.type, Path(description=each.about.help, examples=examples, **limits)]


def _body(operation: type[HoldoutOperation[Any]], model: type[BaseModel]) -> dict[str, Any]:
    """Return the OpenAPI description of an operation's request body, empty if it has none."""
    _, fields, files = _sorted(operation)
    if operation.route.startswith("GET ") or not (fields or files):
        return {}
    if files:
        named = {each.name: each.about.help for each in files}
        needed = (_ROWS, *(each.name for each in files if each.required))
        return contract.body_of(model, part=_ROWS, files=named, needed=needed)
    return contract.body_of(model) if any(each.holds(*_IN_A_FORM) for each in fields) else contract.json_of(model)


def _response(operation: type[HoldoutOperation[Any]]) -> dict[str, Any]:
    if result_type(operation) is Table:
        return {"description": "The rows, as a Parquet file.", "content": {PARQUET_TYPE: {}}}
    words, schema = schema_of(result_type(operation))
    warned = {"warnings": {"type": "array", "items": {"type": "string"}}}
    properties = {operation.part: schema} if operation.part else schema.get("properties", {})
    whole = {**({} if operation.part else schema), "type": "object", "properties": {**properties, **warned}}
    whole["required"] = [operation.part, "warnings"] if operation.part else [*schema.get("required", ()), "warnings"]
    return {"description": words, "content": {"application/json": {"schema": whole}}}
