"""Tools of operations, each made from its fields and docstring. A query is a text, with its details beside it."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from everhold.display import left_in_words
from everhold.operations import OPERATIONS
from everhold.operations.operation import AnyQuery, HoldoutOperation, parameters
from everhold_server.mcp.advice import next_step
from everhold_server.mcp.results import Output
from everhold_server.mcp.tools import Given, High, Low, Text, mean_of
from everhold_server.wire.fields import annotated

if TYPE_CHECKING:
    from collections.abc import Callable

    from everhold.holdout import Holdout


class PerformedOutput(Output):
    """Result of an operation."""

    result: Annotated[dict[str, Any], Field(description="The result, by field.")]


def tools_of(holdout: Holdout) -> tuple[list[Callable[..., Any]], list[Callable[..., Any]]]:
    """Tools of operations for agents: those that change something, and others.

    Args:
        holdout: On whose behalf it was opened, the agent acts.
    """
    used = [each for each in OPERATIONS.values() if each.agents]
    acts, free = ([_tool(holdout, each) for each in used if bool(each.act) is changes] for changes in (True, False))
    return acts, free


def _tool(holdout: Holdout, operation: type[HoldoutOperation[Any]]) -> Callable[..., Any]:
    every = [each for each in parameters(operation) if each.about.travels]
    about = next((each.name for each in every if each.holds(AnyQuery) and not each.several), None)
    details: dict[str, Any] = {} if about is None else {"low": Low, "high": High, "given": Given}

    def tool(**arguments: Any) -> PerformedOutput:
        of = {name: arguments.pop(name) for name in details}
        if about is not None and arguments[about] is not None:
            arguments[about] = mean_of(arguments[about], of["low"], of["high"], of["given"])
        asked = operation(**arguments)
        done, left = holdout.perform(asked), holdout.remaining
        said = "; ".join(filter(None, [asked.remark(done), f"{left_in_words(left)} left"]))
        return {
            "result": done.to_dict(), "left": dict(left), "says": said, "next": next_step(holdout.status())
        }  # fmt: skip

    kinds = {each.name: Text if each.name == about and each.required else annotated(each) for each in every}
    defaults = {each.name: inspect.Parameter.empty if each.required else each.default for each in every}
    kinds |= details
    tool.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults.get(name), annotation=kind)
            for name, kind in kinds.items()
        ],
        return_annotation=PerformedOutput,
    )
    tool.__annotations__ = {**kinds, "return": PerformedOutput}
    tool.__name__, tool.__doc__ = operation.verb, inspect.getdoc(operation)
    return tool
