"""Options of a command that belong together: a dataclass whose fields are options.

A field is annotated as a parameter of a Typer command is: ``label: Annotated[str | None, typer.Option(...)] = None``.
"""

from __future__ import annotations

import inspect
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def with_option_groups(
    command: Callable[..., None], extensions: Mapping[str, type] | None = None
) -> Callable[..., None]:
    """Decorator: a command's parameters of a dataclass type become the options of that dataclass, in their place.

    Args:
        command: Takes one object for each group, and those of extensions as ``extensions``.
        extensions: Further dataclasses, by the names of the extensions that bring them.
    """
    others: Mapping[str, Any] = extensions or {}
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for each in inspect.signature(command, eval_str=True).parameters.values():
        if each.name == "extensions":
            found: Mapping[str, Any] = others
        elif is_dataclass(each.annotation):
            found = {each.name: each.annotation}
        else:
            found = {}
            parameters.append(each.replace(kind=inspect.Parameter.KEYWORD_ONLY))  # as options of a group are
        groups |= found
        parameters += [option for group in found.values() for option in _parameters(group)]

    @wraps(command)
    def called(**given: Any) -> None:
        made = {name: group(**{option.name: given.pop(option.name) for option in fields(group)})
                for name, group in groups.items()}  # fmt: skip
        further = {"extensions": {name: made.pop(name) for name in others}} if extensions is not None else {}
        command(**given, **made, **further)

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called


def given_options(group: Any, *names: str) -> dict[str, Any]:
    """Options of a group that were given, by name; of those that are named, if some are."""
    return {
        each.name: value for each in fields(group)
        if (not names or each.name in names) and (value := getattr(group, each.name)) is not None
    }  # fmt: skip


def _parameters(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group.__init__, include_extras=True)  # by the names of its module, loaded again or not
    return [
        inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if each.default is MISSING else each.default,
            annotation=hints[each.name],
        )
        for each in fields(group)
    ]
