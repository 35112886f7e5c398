"""What all routes share: names, refusals, and the parts of their documentation."""

from __future__ import annotations

import contextlib
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, get_origin

from fastapi import Path, Request
from fastapi.dependencies.utils import get_flat_params
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, WithJsonSchema, model_validator

from everhold.display import Display
from everhold.errors import EverholdError, QueryRejected, warnings_collected
from everhold_server.principals import Role
from everhold_server.problems import PROBLEM
from everhold_server.uploads import MOST_VALUES, MULTIPART, PART_NAMES
from everhold_server.wire.answers import told
from everhold_server.wire.reading import QUERY, referring

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everhold.errors import EverholdWarning
    from everhold.values.base import Schema
    from everhold_server.principals import Principal

_UNPRINTABLE = re.compile("[\0\ud800-\udfff]")
_DEEPEST, _MOST_ITEMS = 40, 2 * MOST_VALUES  # of which names are one half

HoldoutName = Annotated[
    str,
    Path(
        description="The holdout's name.", max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]*$",
        examples=["flights"],
    ),
]  # fmt: skip
HOLDOUT_NAME = TypeAdapter[str](HoldoutName)


def check_parameters(request: Request) -> None:
    """Check that a route takes the parameters in the address of a request, and each of them once unless it is a list.

    Raises:
        RequestValidationError: If the route does not take a parameter, or one is given twice. Without this check, a
            misspelled parameter would silently leave its default in force.
    """
    known = {each.alias: get_origin(each.field_info.annotation) is list
             for each in get_flat_params(request.scope["route"].dependant)}  # fmt: skip
    sent = Counter(name for name, _ in request.query_params.multi_items())
    wrong = {name: "extra_forbidden" if name not in known else "repeated" for name, count in sent.items()
             if name not in known or (count > 1 and not known[name])}  # fmt: skip
    if wrong:
        raise RequestValidationError(
            [{"loc": ("query", name), "type": kind, "msg": ""} for name, kind in wrong.items()]
        )


class Strict(BaseModel):
    """Allowed content of a request."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _whole_numbers(cls, given: Any) -> Any:
        """Convert whole floats such as 300.0 to integers, since JSON has one type for numbers."""
        if not isinstance(given, dict):
            return given
        return {
            name: int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value
            for name, value in given.items()
        }


class Problem(BaseModel):
    """Problem document of RFC 9457; a refused request costs nothing."""

    model_config = ConfigDict(extra="allow")
    type: str = Field(examples=["urn:everhold:problem:query-rejected"])
    title: str = Field(examples=["query rejected"])
    status: int = Field(examples=[409])
    detail: str = Field(
        description="What was wrong, what was expected, what to do.",
        examples=["There is no column 'dely'. Did you mean 'delay'?"],
    )


def _checked(value: Any) -> Any:
    """Return plain data after a check for finite numbers, printable texts, and limits of size and depth."""
    left, counted = [(value, 0)], 0
    while left:
        item, depth = left.pop()
        counted += 1
        if depth > _DEEPEST or counted > _MOST_ITEMS:
            raise QueryRejected(
                f"The request is too large. Send at most {_MOST_ITEMS:,} values, nested at most {_DEEPEST} deep."
            )
        if isinstance(item, float) and not math.isfinite(item):
            raise QueryRejected("The request has a number that is not finite. Send finite numbers.")
        if isinstance(item, str) and _UNPRINTABLE.search(item):
            raise QueryRejected("The request has a text that is not printable. Send printable text.")
        if isinstance(item, dict):
            left += [(part, depth + 1) for pair in item.items() for part in pair]
        elif isinstance(item, list):
            left += [(part, depth + 1) for part in item]
    return value


Plain = Annotated[Any, AfterValidator(_checked)]
"""Any JSON, looked at before it is used."""

_QUERY = (
    'A text, such as "delay > 15": its share is asked. Or an object with a kind, its subject and details by the names '
    'of the command line: {"kind": "mean", "of": "delay", "low": -60, "high": 180}. Predictions are an object from row '
    'id to prediction, a list in the order of the rows, a rule, or {"file": "NAME"} and a file in the part NAME.'
)
Asking = Annotated[Plain, Field(description=_QUERY, examples=["delay > 15"]), WithJsonSchema(QUERY)]
_SCALAR = {"type": ["number", "string", "boolean", "null"]}
Predictions = Annotated[
    Plain,
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "object", "minProperties": 1, "additionalProperties": _SCALAR},
                {"type": "array", "minItems": 1, "items": _SCALAR},
                {"type": "null"},
            ]
        }
    ),
    Field(
        description="An object from row id to prediction, a list in the order of the rows, or "
        '{"file": "NAME"} and a file of that name. For a gate also a rule over the '
        "features.",
        examples=[{"file": "predictions"}],
    ),
]


@contextlib.contextmanager
def arguments_checked() -> Iterator[None]:
    """Return a context that turns ValueError and TypeError about the caller's arguments into refusals."""
    try:
        yield
    except EverholdError:
        raise
    except (ValueError, TypeError, OverflowError) as fault:
        raise QueryRejected(
            str(fault) if isinstance(fault, ValueError) else "An argument is of an unexpected type. Correct it."
        ) from None


@contextlib.contextmanager
def warned_of() -> Iterator[list[EverholdWarning]]:
    """Return a context that collects warnings in a list, and turns bad arguments into refusals."""
    with warnings_collected() as warned, arguments_checked():
        yield warned


def result(
    document: Any,
    warned: Sequence[EverholdWarning] = (),
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """Return the response for a result, with the warnings that were raised meanwhile.

    Args:
        document: Plain data, or a result that `told` knows.
        warned: Warnings that were raised while the result was computed.
        status: HTTP status of the response.
        headers: Additional headers of the response.
    """
    plain = told(document) if isinstance(document, Display) else document
    return JSONResponse({**plain, "warnings": [str(warning) for warning in warned]}, status, headers)


def check_predictions_allowed(schema: Schema, principal: Principal, *predictions: Any) -> None:
    """Reject predictions for rows with sealed features, since they would weaken the promise for everybody.

    An analyst who predicts these very rows has seen their features. Then every answer about the population, to any
    analyst, would be promised for labels drawn anew on these rows only. A rule is allowed, because it is computed where
    the rows are. A steward may send predictions, and is expected to know this.

    Args:
        schema: Schema of the rows.
        principal: The sender of the predictions.
        predictions: Predictions in their JSON form. None and rules (texts) are always allowed.
    """
    handed_in = any(written is not None and not isinstance(written, str) for written in predictions)
    if handed_in and not schema.features_public and principal.role is not Role.STEWARD:
        raise QueryRejected(
            "The features of the sealed rows are sealed, so nobody can have predictions for these rows. Send a "
            "rule, which is computed where the rows are, or use a holdout with public features."
        )


_REASONS = {
    400: "The body cannot be read.",
    401: "No token, or one that is not valid.",
    403: "The token's role does not allow it.",
    404: "There is no such thing for you.",
    408: "The body did not come in time.",
    409: "This holdout cannot be asked that now, or not in this form, and nothing was charged "
    "or changed. Or its rows or ledger are not what was sealed or written (`integrity-error`).",
    413: "The body is too large.",
    415: "The body is of a type that is not taken.",
    422: "The request is not as this page says. Nothing was charged or changed.",
    429: "Too many requests. See Retry-After.",
    500: "A fault of everhold's own.",
    503: "The ledger is busy or cannot be reached just now. See Retry-After.",
}
_ALWAYS = (400, 401, 403, 409, 422, 429, 500, 503)
_OF_BODIES = (408, 413, 415)


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of a route's error responses: those that every route has, and the given statuses.

    Args:
        statuses: Statuses of refusals. 415 stands for all statuses with which a body may be refused.
    """
    told_as = {PROBLEM: {"schema": Problem.model_json_schema()}}
    every = sorted({*_ALWAYS, *statuses, *(_OF_BODIES if 415 in statuses else ())})
    return {status: {"description": _REASONS[status], "content": told_as} for status in every}


def said(description: str, example: Any, *, media_types: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the documentation of a response that is a JSON object, or a file of another type."""
    as_json = {"application/json": {"schema": {"type": "object"}, "example": example}}
    return {"description": description, "content": {**as_json, **(media_types or {})}}


def body_of(
    model: type[BaseModel], *, part: str = "request", files: Mapping[str, str] | None = None, needed: Sequence[str] = ()
) -> dict[str, Any]:  # fmt: skip
    """Return the documentation of a request body: a JSON document, or a form with that document and files.

    Args:
        model: Pydantic model of the document.
        part: Name of the form part that holds the document.
        files: Description of each file by the name of its part. None if files may have any name.
        needed: Names of the parts that every form must have.
    """
    schema = _whole_schema(model)
    binary = {"type": "string", "format": "binary"}
    named = {name: {**binary, "description": words} for name, words in (files or {}).items()}
    form = {
        "type": "object", "properties": {part: schema, **named},
        "additionalProperties": binary if files is None else False,
        "required": list(needed) or ([part] if schema.get("required") else []),
    }  # fmt: skip
    if files is None:
        form["propertyNames"] = {"pattern": PART_NAMES.pattern}
    content = {MULTIPART: {"schema": form}}
    if not needed:  # otherwise no document alone will do
        content = {"application/json": {"schema": schema}, **content}
    return {"requestBody": {"required": True, "content": content}}


def json_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the documentation of a request body that is one small JSON document."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": _whole_schema(model)}}}}


def _whole_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a model with its definitions inlined, apart from those of queries."""
    schema = model.model_json_schema()
    defined = schema.pop("$defs", {})

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            own = {name: each for name, each in value.items() if name != "$ref"}
            meant = defined[value["$ref"].rpartition("/")[2]] if "$ref" in value else {}
            return {name: filled(each) for name, each in {**meant, **own}.items()}
        return [filled(each) for each in value] if isinstance(value, list) else value

    found: dict[str, Any] = referring(filled(schema))
    return found
