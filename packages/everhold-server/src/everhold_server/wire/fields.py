"""Fields of operations as pydantic checks and documents them, for routes and for tools of agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from pydantic import Field

from everhold.operations.operation import AnyQuery

if TYPE_CHECKING:
    from everhold.operations.operation import Parameter

_LONGEST_ITEM = 1_000
_TEXTS = {AnyQuery: str}


def annotated(each: Parameter, field: Callable[..., Any] = Field, kinds: Mapping[Any, Any] = _TEXTS) -> Any:
    """The type of a field as pydantic checks it, with its help.

    Args:
        each: The field.
        field: Makes its annotation.
        kinds: Types that stand for those of operations.
    """
    examples = {} if each.about.example is None else {"examples": [each.about.example]}
    longest = {"max_length": each.about.longest} if each.several and each.about.longest else {}
    return Annotated[_typed(each.type, each, kinds), field(description=each.about.help, **examples, **longest)]


def _typed(kind: Any, each: Parameter, kinds: Mapping[Any, Any]) -> Any:
    """A type with the limits of its parameter at the part that they are about."""
    about, parts = each.about, get_args(kind)
    if kind in kinds:
        return kinds[kind]
    if get_origin(kind) is Sequence:
        (item,) = parts
        return list[Annotated[str, Field(max_length=_LONGEST_ITEM)] if item is str else _typed(item, each, kinds)]  # type: ignore[misc]
    if kind in (int, float) and not (about.least is about.most is None):
        return Annotated[kind, Field(ge=about.least, le=about.most)]
    if kind is str and about.longest:
        shortest = None if about.pattern is None else 1
        return Annotated[kind, Field(min_length=shortest, max_length=about.longest, pattern=about.pattern)]
    if type(None) in parts or len([part for part in parts if isinstance(part, type)]) not in (0, len(parts)):
        return Union[tuple(_typed(part, each, kinds) for part in parts)]  # noqa: UP007
    return kind
