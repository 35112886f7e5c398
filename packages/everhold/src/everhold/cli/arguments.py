"""Arguments that many commands share, such as the storage and the name of the holdout, and groups of options."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import typer

from everhold.cli.failures import Misuse, arguments_checked
from everhold.cli.output import Format
from everhold.operations.operation import Parameter, RowSource
from everhold.remote import ADDRESS_VARIABLE, is_address

if TYPE_CHECKING:
    from everhold.dependence import DependenceModel
    from everhold.holdout import Holdout

_KEYWORD = inspect.Parameter.KEYWORD_ONLY

STORAGE_VARIABLE = "EVERHOLD_STORAGE"
ENGINE_VARIABLE = "EVERHOLD_ENGINE"  # as `everhold_engines` has it, which takes a while to import

StorageArgument = Annotated[
    str,
    typer.Argument(
        metavar="STORAGE",
        help="A path or URL, such as flights.db, or https://HOST of a service. Left out with "
        f"{STORAGE_VARIABLE} or {ADDRESS_VARIABLE} set.",
    ),
]
StorageHereArgument = Annotated[
    str,
    typer.Argument(
        metavar="STORAGE",
        help=f"A path or URL, such as flights.db, where the sealed rows are. Left out with {STORAGE_VARIABLE} set.",
    ),
]
NameArgument = Annotated[str | None, typer.Argument(metavar="NAME", help="The holdout's name.")]
AnalystOption = Annotated[
    str | None,
    typer.Option(help="On behalf of this analyst, whose part of the budget pays: see 'everhold allot'."),
]
FormatOption = Annotated[Format, typer.Option("--format", help="How the result is printed on stdout.")]

ModelOption = Annotated[
    Path | None,
    typer.Option(help="How the rows depend on each other: a JSON file, as 'everhold dependence fit' writes it."),
]


def model_from(path: Path) -> DependenceModel:
    """Return the dependence model in a JSON file.

    Raises:
        DependenceError: If the file holds no model.
    """
    from everhold.dependence import dependence_from_dict
    from everhold.errors import DependenceError
    from everhold.strict_json import JsonFault, read_json

    data, why = None, ""
    try:
        data = read_json(path.read_bytes())
    except JsonFault as fault:
        why = f": it {fault}"
    if not isinstance(data, dict):
        raise DependenceError(
            f"The file {path.name!r} is not a dependence model{why}. Pass JSON such as "
            '{"kind": "markov_chain", "transition": [[0.9, 0.1], [0.2, 0.8]]}, or make '
            "it with 'everhold dependence fit'."
        )
    return dependence_from_dict(data)


def place_of(storage: str, name: str | None) -> tuple[str, str]:
    """Return storage and name. If only one is given, it is the name, and the storage comes from the environment."""
    if name is not None:
        return storage, name
    usual = _usual()
    if not usual:
        raise Misuse(
            f"Only {storage!r} is given. Pass STORAGE and NAME, such as flights.db flights, or set {STORAGE_VARIABLE} "
            f"or {ADDRESS_VARIABLE} and pass NAME alone."
        )
    return usual, storage


def storage_of(storage: str | None) -> str:
    """Return the storage from the command line, or from the environment if none was given."""
    found = storage or _usual()
    if not found:
        raise Misuse(
            f"No storage is given. Pass STORAGE, such as flights.db, or set {STORAGE_VARIABLE} or {ADDRESS_VARIABLE}."
        )
    return found


def _usual() -> str | None:
    """Return the storage or the address of a service that the environment names, or None."""
    return os.environ.get(STORAGE_VARIABLE) or os.environ.get(ADDRESS_VARIABLE)


def address_of(storage: str) -> str:
    """Return the URL of a storage on this machine.

    Raises:
        Misuse: If it is not the URL of a storage, or is the address of a service.
    """
    from everhold.ledger.address import check_address
    from everhold.sealing.storage import storage_url

    if is_address(storage):
        raise Misuse(
            f"{storage} is a service, and this command works only where the sealed rows are. Pass a STORAGE such as "
            "flights.db, or ask the administrator of the service."
        )
    url = storage_url(storage)
    with arguments_checked():
        check_address(url)
    return url


def opened(storage: str, name: str | None, analyst: str | None = None) -> Holdout:
    """Open a holdout, on behalf of an analyst if one is named.

    At the address of a service its operations are performed there.
    """
    storage, name = place_of(storage, name)
    if not is_address(storage):
        return opened_here(storage, name, analyst)
    if analyst is not None:
        raise Misuse(
            "--analyst is only for a storage. A service knows the analyst by the token, so leave --analyst out."
        )
    from everhold.holdout import Holdout

    with arguments_checked():
        return Holdout.open(storage, name)


def opened_here(storage: str, name: str | None, analyst: str | None = None) -> Holdout:
    """Open a holdout of a storage on this machine, on behalf of an analyst if one is named."""
    storage, name = place_of(storage, name)
    from everhold.holdout import Holdout

    holdout = Holdout.open(address_of(storage), name)
    if analyst is None:
        return holdout
    try:
        return holdout.analyst(analyst)
    except BaseException:
        holdout.close()
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldoutPlace:
    """The storage and the name of a holdout."""

    storage: StorageArgument
    name: NameArgument = None

    def opened(self, analyst: str | None = None) -> Holdout:
        """Open the holdout, on behalf of an analyst if one is named."""
        return opened(self.storage, self.name, analyst)


def with_option_groups(
    command: Callable[..., None], extensions: Mapping[str, type] | None = None
) -> Callable[..., None]:
    """Decorator that replaces each parameter of a dataclass type by the options of that dataclass.

    An option can be written as its type and its help, as in ``Annotated[str | None, "Column of the case ids."]``. A
    truth value that is false by default is then a flag without a ``--no-`` form.

    Args:
        command: Function that takes one object for each group, and those of extensions as ``extensions``.
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
            parameters.append(_option(each.name, each.annotation, each.default))
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


def with_options(
    command: Callable[..., None], name: str, options: Sequence[inspect.Parameter], read: Callable[[dict[str, Any]], Any]
) -> Callable[..., None]:
    """Decorator that replaces a parameter of a command by options, from which its value is read.

    Args:
        command: The command, a function.
        name: Name of the parameter that is replaced.
        options: The options, in order.
        read: Function from the values of all options by name to the value of the parameter.
    """
    signature = inspect.signature(command, eval_str=True)
    own = list(signature.parameters.values())
    place = next(index for index, parameter in enumerate(own) if parameter.name == name)
    parameters = [*own[:place], *options, *own[place + 1 :]]

    @wraps(command)
    def called(**given: Any) -> None:
        typed = {option.name: given.pop(option.name) for option in options}
        command(**given, **{name: read(typed)})

    called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called


def option_for(each: Parameter, *, panel: str | None = None, unset: bool = False) -> inspect.Parameter:
    """Return the option for a parameter of an operation, or for a setting of a new holdout.

    Args:
        each: The parameter.
        panel: Heading of the option in the command's help.
        unset: Whether the value is None if the option is not given, so that the help shows the default but the command
            does not apply it.
    """
    kinds = [kind for kind in get_args(each.type) or (each.type,) if kind is not type(None)]
    words, several = each.about.help, each.several or any(get_origin(kind) is Mapping for kind in kinds)
    kind: Any = next((found for found in (bool, int, float) if kinds == [found]), str)
    if all(isinstance(value, str) for value in kinds):
        kind = StrEnum(each.name, kinds)  # type: ignore[misc, no-redef]
    if each.holds(RowSource):
        kind = Path
    if several:
        kind, words = list[str], f"{words} May be repeated."
    if each.required:
        return inspect.Parameter(each.name, _KEYWORD, annotation=Annotated[kind, typer.Option(help=words)])
    default = None if several or (unset and kind is not bool) else each.default
    shown = str(each.default) if unset and default is None and each.default and not several else True
    flag = [f"--{each.name.replace('_', '-')}"] if kind is bool else []
    about = typer.Option(*flag, help=words, rich_help_panel=panel, show_default=shown)
    return inspect.Parameter(
        each.name, _KEYWORD, default=default, annotation=Annotated[kind if default is not None else kind | None, about]
    )


def given_options(group: Any, *names: str) -> dict[str, Any]:
    """Return the options of a group that were given, by name: the named ones, or all if no names are passed."""
    return {
        each.name: value for each in fields(group)
        if (not names or each.name in names) and (value := getattr(group, each.name)) is not None
    }  # fmt: skip


def _parameters(group: Any) -> list[inspect.Parameter]:
    """Return the fields of a group as parameters of a command."""
    hints = get_type_hints(group.__init__, include_extras=True)  # by the names of its module, loaded again or not
    return [
        _option(each.name, hints[each.name], inspect.Parameter.empty if each.default is MISSING else each.default,
                panel=getattr(group, "panel", None))
        for each in fields(group)
    ]  # fmt: skip


def _option(name: str, kind: Any, default: Any, *, panel: str | None = None) -> inspect.Parameter:
    """Return a parameter that Typer reads: an option, or an argument where its type says so.

    Args:
        name: Name of the parameter.
        kind: Type of the parameter, annotated with its help or with what Typer takes.
        default: Default value. `inspect.Parameter.empty` if the parameter is required.
        panel: Heading of the option in the command's help.
    """
    about = copy(kind.__metadata__[0]) if hasattr(kind, "__metadata__") else None
    if isinstance(about, str):
        flag = [f"--{name.replace('_', '-')}"] if default is False else []
        about = typer.Option(*flag, help=about)
    if about is not None:
        if panel is not None:
            about.rich_help_panel = panel
        kind = Annotated[kind.__origin__, about]
    return inspect.Parameter(name, _KEYWORD, default=default, annotation=kind)
