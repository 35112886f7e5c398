"""Documentation of the API for people: the OpenAPI document as an HTML page without scripts or files of other sites."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

if TYPE_CHECKING:
    from fastapi import FastAPI

router = APIRouter(include_in_schema=False)

_STYLE = Path(__file__).parent.parent / "static" / "document.css"
_METHODS = ("get", "post", "put", "patch", "delete")
_WORDS = {"anyOf": " or ", "oneOf": " or "}


@router.get("/docs")
def page(request: Request) -> HTMLResponse:
    """Documentation of the API for people. It is public, as is the OpenAPI document that it shows."""
    app: FastAPI = request.app
    document = app.openapi()
    html = _environment().get_template("document.html").render(
        version=document["info"]["version"], groups=described_routes(document), address=app.state.settings.address
    )  # fmt: skip
    return HTMLResponse(html)


@router.get("/docs.css")
def style() -> Response:
    """The page's style sheet."""
    return Response(_STYLE.read_bytes(), media_type="text/css", headers={"Cache-Control": "public, max-age=3600"})


@cache
def _environment() -> Environment:
    return Environment(loader=PackageLoader("everhold_server"), autoescape=True, undefined=StrictUndefined)


def described_routes(document: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the routes of an OpenAPI document by tag, each as a dictionary for the page's template.

    Args:
        document: The OpenAPI document. Schemas of bodies may be written in place or among its components.
    """
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, methods in document["paths"].items():
        for method in filter(methods.__contains__, _METHODS):
            route = methods[method]
            groups.setdefault(route.get("tags", ["service"])[0], []).append({
                "id": route["operationId"],
                "method": method.upper(),
                "path": path,
                "summary": route["summary"],
                "paragraphs": [text.split("`") for text in route.get("description", "").split("\n\n") if text],
                "fields": [*_parameters(route, document), *_body(route, document)],
                "answers": [_answer(status, answer) for status, answer in sorted(route["responses"].items())],
            })  # fmt: skip
    return groups


def _parameters(route: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for parameter in route.get("parameters", ()):
        words = {"description": parameter.get("description", "")}
        yield _field(parameter["name"], {**parameter["schema"], **words}, parameter["in"], document,
                     required=parameter.get("required", False))  # fmt: skip


def _body(route: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the fields of a route's JSON body, and the further parts of its form."""
    content = route.get("requestBody", {}).get("content", {})
    as_json, form = (
        _resolved(content.get(kind, {}).get("schema", {}), document)
        for kind in ("application/json", "multipart/form-data")
    )  # fmt: skip
    parts: Mapping[str, Any] = form.get("properties", {})
    documents = {name: found for name, part in parts.items() if "properties" in (found := _resolved(part, document))}
    shown = [("JSON", as_json)] if as_json else [(f"JSON in {name}", found) for name, found in documents.items()]
    for where, schema in [*shown, ("form", form)]:
        for name, described in schema.get("properties", {}).items():
            if not (schema is form and name in documents):
                yield _field(name, described, where, document, required=name in schema.get("required", ()))


def _field(
    name: str, schema: Mapping[str, Any], where: str, document: Mapping[str, Any], *, required: bool
) -> dict[str, Any]:
    found = _resolved(schema, document)
    example = next(iter(found.get("examples", ())), None)
    return {
        "name": name, "where": where, "required": required, "type": _type(found, document),
        "description": schema.get("description", found.get("description", "")),
        "example": None if example is None else json.dumps(example),
    }  # fmt: skip


def _type(schema: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """Return the type of a JSON schema in a word or two."""
    found = _resolved(schema, document)
    for key, between in _WORDS.items():
        if key in found:
            return between.join(dict.fromkeys(_type(each, document) for each in found[key]))
    if "enum" in found:
        return " or ".join(map(json.dumps, found["enum"]))
    if found.get("format") == "binary":
        return "file"
    if found.get("type") == "array":
        return f"list of {_type(found.get('items', {}), document)}"
    return str(found.get("type", "any JSON"))


def _resolved(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a JSON schema, or the component to which its ``$ref`` points."""
    if "$ref" not in schema:
        return schema
    found: Mapping[str, Any] = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return found


def _answer(status: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    content = answer.get("content", {})
    example = next((each["example"] for each in content.values() if "example" in each), None)
    return {
        "status": status, "description": answer["description"], "types": ", ".join(content),
        "example": None if example is None else json.dumps(example, indent=2),
    }  # fmt: skip
