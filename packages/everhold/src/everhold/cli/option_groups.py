"""Options of a command that belong together: a dataclass whose fields are options.

A field is annotated as a parameter of a Typer command is: ``label: Annotated[str | None, typer.Option(...)] = None``.
"""

from __future__ import annotations

import inspect
from dataclasses import MISSING, fields
from functools import wraps
from typing import TYPE_CHECKING, Any, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["given_options", "with_option_groups"]


def with_option_groups(
    command: Callable[..., None], groups: Mapping[str, type], extensions: Mapping[str, type] | None = None
) -> Callable[..., None]:
    """A command whose parameters named in `groups` become the options of those dataclasses.

    Args:
        command: Takes one object for each group, by the group's name, and those of extensions as ``extensions``.
        groups: Dataclasses by the names of the parameters.
        extensions: Further ones, by the names of the extensions that bring them.
    """
    others = dict(extensions or {})
    options = {name: _parameters(group) for name, group in {**groups, **others}.items()}
    own = [each for name, each in inspect.signature(command, eval_str=True).parameters.items()
           if name not in groups and name != "extensions"]  # fmt: skip

    @wraps(command)
    def called(**given: Any) -> None:
        made = {
            name: group(**{option.name: given.pop(option.name) for option in options[name]})
            for name, group in {**groups, **others}.items()
        }
        further = {"extensions": {name: made.pop(name) for name in others}} if extensions is not None else {}
        command(**given, **made, **further)

    leading = [each for each in own if each.kind is not inspect.Parameter.KEYWORD_ONLY]
    trailing = [each for each in own if each.kind is inspect.Parameter.KEYWORD_ONLY]
    parameters = [*leading, *(option for group in options.values() for option in group), *trailing]
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
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if each.default is MISSING else each.default,
            annotation=hints[each.name],
        )
        for each in fields(group)
    ]
