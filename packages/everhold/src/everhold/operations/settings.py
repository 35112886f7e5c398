"""Settings of a new holdout, as a command, an API and a form offer them.

They are keywords of `Holdout.create` and fields of `Rows`, `Planning` and the settings of extensions. The first
sentence of a docstring about a setting is its help, so each setting is described once.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, Union, get_type_hints

from everhold.operations.operation import Param, Parameter

if TYPE_CHECKING:
    from collections.abc import Callable

_PLAIN = {kind.__name__: kind for kind in (str, int, float, bool)} | {"None": type(None)}
_DESCRIBED = re.compile(r"^ {4}(\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)
_LONGEST = 20_000  # characters of a text, or entries of a list
_ELSEWHERE = frozenset({"storage", "name", "seed", "studies"})
"""Keywords of `Holdout.create` that say where the holdout is, or are only for Python."""


def settings_of(source: Callable[..., Any]) -> dict[str, Parameter]:
    """Return the settings of a function or a dataclass that are texts, numbers, truth values or lists of these.

    A keyword that also takes an object, such as a mechanism, is a setting that takes the object's name.

    Examples:
        >>> from everhold import Planning
        >>> print(settings_of(Planning)["slack"].about.help)
        A guess costs no budget if its distance from the population's value is less than this part of the radius.
    """
    found, help_of = {}, helps(source)
    for name, each in inspect.signature(source).parameters.items():
        if isinstance(source, type):
            kind = get_type_hints(source)[name]
        else:
            kind = Union[tuple(_PLAIN[part] for part in each.annotation.split(" | ") if part in _PLAIN) or None]  # noqa: UP007
        if kind is not type(None) and name not in _ELSEWHERE:
            found[name] = Parameter(name, kind, Param(help_of[name], longest=_LONGEST), False, each.default)
    return found


def helps(source: Callable[..., Any]) -> dict[str, str]:
    """Return the first sentence about each argument or attribute in the docstring of a function or class."""
    every = {name: " ".join(text.split()) for name, text in _DESCRIBED.findall(inspect.getdoc(source) or "")}
    plain = {name: re.sub(r'``"(\w+)"``', r"'\1'", text).replace("`", "") for name, text in every.items()}
    return {name: text.split(". ")[0].rstrip(".") + "." for name, text in plain.items()}
