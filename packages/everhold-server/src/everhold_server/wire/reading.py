"""Queries from JSON: one pydantic model for each kind, together a union that is discriminated by `kind`.

The models are made from the registry in `everhold.queries`, so a new kind is checked and documented at once. Fields of
operations are checked and documented here, too. Python code is never read. Only the server needs this module.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    create_model,
)

from everhold import queries as registry
from everhold.arguments import brief
from everhold.errors import QueryRejected
from everhold.operations.operation import AnyQuery
from everhold.queries import DETAILS, Form, Kind
from everhold.queries.makers import MOST_ITEMS, SCALARS, a_text, refuse, spelled
from everhold_server.wire.queries import Tables, kind_of, predictions_from

if TYPE_CHECKING:
    from collections.abc import Iterable

    from everhold.operations.operation import Parameter
    from everhold.queries.query import Query
    from everhold.values.base import Schema
    from everhold.values.universe import Universe

_REFERENCE = "#/components/schemas/"
QUERY = {"x-query": True}
"""Stands for a reference to the union in the schemas of models: pydantic takes none to what it does not define."""

_DEEPEST = 8  # queries in queries
_MOST_QUERIES = 100_000
_USUAL_WIDTH, _MOST_WIDTH = 2, 100  # columns of the marginals of a synthetic table
_MOST_VALUES = 2**26  # of queries over all cells, one byte each
_EXAMPLE = "delay > 15"
_SCHEMAS: Mapping[Form, dict[str, Any]] = {
    Form.EXPRESSION: QUERY,
    Form.PREDICTIONS: {
        "anyOf": [{"type": "string"}, {"type": "array"}, {"type": "object"}],
        "description": "A rule, a list in the order of the rows, an object from row id to prediction, or "
        '{"file": "NAME"} and a file of that name.',
    },
    Form.CELLS: {"type": "object", "description": 'The cells: {"columns": [{"name": "x", "values": [1, 2]}, ...]}.'},
    Form.NUMBER: {"type": "number"},
    Form.WHOLE: {"type": "integer"},
    Form.TEXT: {"type": ["string", "number", "boolean"]},
    Form.LIST: {"type": "array", "items": {"type": ["string", "number"]}, "maxItems": MOST_ITEMS},
    Form.BEST: {"enum": ["lowest", "highest"]},
    Form.FLAG: {"type": "boolean"},
}
_MODELS: dict[str, tuple[Kind, type[BaseModel]]] = {}


def query_from(written: Any, schema: Schema, tables: Tables | None = None) -> Query[Any]:
    """Build a query from its JSON form, with a check that it fits the rows.

    Args:
        written: A text, which is a mean; or an object ``{"kind": "mean", "of": "delay", "low": 0, "high": 60}``: a kind
            of query, its subject, and details by the names of the command line. A query that is made of others has
            ``"queries"``. Predictions are written as `everhold_server.wire.queries` says.
        schema: The public schema of the rows.
        tables: Tables of predictions that were sent along, by name.

    Raises:
        QueryRejected: If the JSON is not a query, or contains code. Nothing is charged.
    """
    if not isinstance(written, (str, dict)):
        refuse(f"The query is {brief(written)}", 'a text or an object such as {"kind": "mean", "of": "delay"}')
    left: list[tuple[Any, int]] = [(written, 0)]
    while left:
        item, depth = left.pop()
        if depth > _DEEPEST:
            refuse(f"The query has {depth} levels of queries in queries", f"at most {_DEEPEST} levels")
        if isinstance(item, dict):
            left += [(each, depth + 1) for each in item.values() if isinstance(each, (dict, list))]
        elif isinstance(item, list):
            left += [(each, depth) for each in item if isinstance(each, (dict, list))]
    return _built(written, schema, tables or {})


def query_schemas() -> dict[str, Any]:
    """Return the JSON schemas of all kinds of queries, and of ``Query``, their union."""
    models = [_model(kind) for kind in registry.KINDS if kind.form is not Form.CODE]
    union: Any = Annotated[Union[tuple(models)], Field(discriminator="kind")]  # noqa: UP007
    document = TypeAdapter(union).json_schema(ref_template=_REFERENCE + "{model}")
    text = {"type": "string", "description": "A condition, whose share is asked: a `mean`.", "examples": [_EXAMPLE]}
    found: dict[str, Any] = referring(document.pop("$defs"))
    return {**found, "Query": {"anyOf": [text, document], "examples": [_EXAMPLE]}}


def referring(schema: Any) -> Any:
    """Return a JSON schema in which every `QUERY` is a reference to the union of queries."""
    if isinstance(schema, list):
        return [referring(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {name: referring(each) for name, each in schema.items() if name not in QUERY}
    return plain if len(plain) == len(schema) else {**plain, "$ref": f"{_REFERENCE}Query"}


def _model(kind: Kind) -> type[BaseModel]:
    """Return the pydantic model of a kind of query, built on first use."""
    if kind.name not in _MODELS or _MODELS[kind.name][0] is not kind:
        _MODELS[kind.name] = kind, _made(kind)
    return _MODELS[kind.name][1]


def _made(kind: Kind) -> type[BaseModel]:
    fields: dict[str, Any] = {"kind": (Literal[kind.name], ...)}
    if kind.form is not Form.FLAG:
        fields["of"] = (_typed(kind.form, "of"), ...)
    if kind.several:
        count = {"minItems": 2, "maxItems": 2} if kind.form is Form.FLAG else {"maxItems": _MOST_QUERIES}
        listed = WithJsonSchema({"type": "array", "items": QUERY, **count})
        fields["queries"] = (Annotated[Any, PlainValidator(partial(_list, kind)), listed], ...)
    parameters = inspect.signature(kind.make).parameters.values()
    needed = {each.name for each in parameters if each.default is each.empty}
    for option, argument in kind.details.items():
        name, detail = spelled(option), DETAILS[option]
        typed = _typed(detail.form, name)
        about = Field(description=detail.help) if argument in needed else Field(None, description=detail.help)
        fields[name] = (typed if argument in needed else typed | None, about)
    title = "".join(part.title() for part in kind.name.split("_"))
    return create_model(f"{title}Query", __config__=ConfigDict(extra="forbid"), __doc__=kind.help, **fields)


def _typed(form: Form, name: str) -> Any:
    """Return the type of a query's field for pydantic, validated by `everhold.queries.makers`."""

    def checked(value: Any) -> Any:
        if form in SCALARS:
            return SCALARS[form](value, name)
        return a_text(value, name) if form is Form.EXPRESSION and not isinstance(value, dict) else value

    return Annotated[Any, PlainValidator(checked), WithJsonSchema(_SCHEMAS[form])]


def _list(kind: Kind, value: Any) -> list[Any]:
    if not isinstance(value, list) or len(value) > _MOST_QUERIES:
        refuse(f"queries is {brief(value)}", f"a list of at most {_MOST_QUERIES:,} queries")
    if kind.form is Form.FLAG and len(value) != 2:
        refuse(f"{kind.name} has {len(value)} queries", "two queries")
    return value


def _built(written: Any, schema: Schema, tables: Tables) -> Query[Any]:
    if isinstance(written, str):
        written = {"kind": "mean", "of": written}
    elif not isinstance(written, dict):
        refuse(f"The query is {brief(written)}", 'a text or an object such as {"kind": "mean", "of": "delay"}')
    kind = kind_of(written.get("kind"))
    try:
        given = _model(kind).model_validate(written).__dict__
    except ValidationError as fault:
        raise _refusal(kind, fault) from None
    value = partial(_value, schema=schema, tables=tables)
    details = {
        argument: value(DETAILS[option].form, given[spelled(option)], spelled(option))
        for option, argument in kind.details.items()
        if given[spelled(option)] is not None
    }
    if kind.form is Form.FLAG:
        return _make(kind, _each(given["queries"], schema, tables), details)
    subject = value(kind.form, given["of"], "of")
    if kind.form is Form.CELLS:
        check_marginals(subject, details.get(kind.details.get("marginals", ""), _USUAL_WIDTH))
    if kind.several:
        return _make(kind, [_each(given["queries"], schema, tables)], {**details, kind.several: subject})
    return _make(kind, [subject], details)


def check_marginals(universe: Universe, width: int) -> None:
    """Raise QueryRejected if marginal counts would have too many values, before they are computed.

    Args:
        universe: Universe of the columns that are counted.
        width: Number of columns at a time.

    Raises:
        QueryRejected: If all marginal counts have too many values over all cells. Nothing is charged.
    """
    ways = [1, *[0] * min(max(width, 0), _MOST_WIDTH)]  # products of so many different numbers, added up
    for size in universe.shape:
        ways = [1, *(several + one * size for one, several in pairwise(ways))]
    if (values := universe.cells * ways[-1]) > _MOST_VALUES:
        raise QueryRejected(
            f"The counts have {values:,} values over all cells, more than the {_MOST_VALUES:,} that may come from "
            "another machine. Use fewer columns at a time, fewer values or wider bins."
        )


def _each(written: Iterable[Any], schema: Schema, tables: Tables) -> list[Query[Any]]:
    return [_built(one, schema, tables) for one in written]


def _value(form: Form, value: Any, name: str, *, schema: Schema, tables: Tables) -> Any:
    if form is Form.PREDICTIONS:
        return predictions_from(value, schema, tables)
    if form is Form.CELLS:
        from everhold.values.universe import universe_from

        return universe_from(value, called=name)
    return _built(value, schema, tables) if form is Form.EXPRESSION and isinstance(value, dict) else value


def _make(kind: Kind, subjects: list[Any], details: Mapping[str, Any]) -> Query[Any]:
    try:
        made: Query[Any] = kind.make(*subjects, **details)
    except QueryRejected:
        raise
    except (ValueError, TypeError, ArithmeticError) as reason:
        raise QueryRejected(str(reason)) from None
    return made


def _refusal(kind: Kind, fault: ValidationError) -> QueryRejected:
    """Return the error for a query that failed validation, with the first faulty, unknown or missing field."""
    errors = fault.errors(include_url=False, include_input=False)
    for error in errors:
        if isinstance(reason := error.get("ctx", {}).get("error"), QueryRejected):
            return reason
    strange = [str(error["loc"][0]) for error in errors if error["type"] == "extra_forbidden"]
    if strange:
        problem, expected = f"has {brief(strange[0])}", f"Pass only {', '.join(sorted(_model(kind).model_fields))}."
    else:
        problem = f"lacks {' and '.join(repr(str(error['loc'][0])) for error in errors)}"
        expected = "Pass a value for each."
    return QueryRejected(f"A query of the kind {kind.name!r} {problem}. {expected}")


_LONGEST_ITEM = 1_000
_TEXTS = {AnyQuery: str}


def annotated(each: Parameter, field: Callable[..., Any] = Field, kinds: Mapping[Any, Any] = _TEXTS) -> Any:
    """Return the pydantic type of an operation's parameter, with its help text.

    Args:
        each: Parameter of the operation.
        field: Function that makes the annotation, such as `pydantic.Field`.
        kinds: Types for pydantic by the types that operations declare.
    """
    examples = {} if each.about.example is None else {"examples": [each.about.example]}
    longest = {"max_length": each.about.longest} if each.several and each.about.longest else {}
    return Annotated[_limited(each.type, each, kinds), field(description=each.about.help, **examples, **longest)]


def _limited(kind: Any, each: Parameter, kinds: Mapping[Any, Any]) -> Any:
    """Return the pydantic type of a parameter, with its limits on the items if it is a list and else on the value."""
    about, parts = each.about, get_args(kind)
    if kind in kinds:
        return kinds[kind]
    if get_origin(kind) in (Sequence, Mapping):  # `longest` is about the list, not about the texts in it
        text = Annotated[str, Field(max_length=_LONGEST_ITEM)]
        item = text if parts[-1] is str else _limited(parts[-1], each, kinds)
        return list[item] if get_origin(kind) is Sequence else dict[str, item]  # type: ignore[valid-type]
    if get_origin(kind) is tuple:
        return Annotated[kind, Field(strict=False)]  # JSON has no tuples, and their entries stay strict
    if kind in (int, float) and not (about.least is about.most is None):
        return Annotated[kind, Field(ge=about.least, le=about.most)]
    if kind is str and about.longest:
        shortest = None if about.pattern is None else 1
        return Annotated[kind, Field(min_length=shortest, max_length=about.longest, pattern=about.pattern)]
    if type(None) in parts or len([part for part in parts if isinstance(part, type)]) not in (0, len(parts)):
        return Union[tuple(_limited(part, each, kinds) for part in parts)]  # noqa: UP007
    return kind
