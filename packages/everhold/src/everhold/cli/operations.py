"""Commands of operations, each made from its fields and docstring."""

from __future__ import annotations

import inspect
import os
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from everhold.cli.arguments import AnalystOption, FormatOption, StorageArgument, opened, option_for
from everhold.cli.failures import Misuse, arguments_checked
from everhold.cli.output import Format, note, show_list, show_record
from everhold.operations import OPERATIONS
from everhold.operations.operation import (
    AnyQuery,
    HoldoutOperation,
    Parameter,
    Role,
    RowSource,
    Table,
    parameters,
    result_type,
)

_WIDTH = 78
_CODES = {
    0: "done",
    2: "an argument cannot be used; nothing was changed or charged",
    3: "the rows do not fit, are empty or are there already; nothing was changed",
    4: "no such holdout",
    5: "it cannot be asked or done here; nothing was changed or charged",
    7: "the rows or the ledger were altered",
    8: "the steward's key, or the token of a service, is missing or wrong",
}
_Name = Annotated[str | None, typer.Argument(metavar="NAME", help="The holdout's name.")]


def summary_of(operation: type[HoldoutOperation[Any]]) -> str:
    """Return the first paragraph of an operation's docstring, which is the command's line of help."""
    return inspect.cleandoc(operation.__doc__ or "").partition("\n\n")[0].replace("\n", " ")


def register(app: typer.Typer, *operations: type[HoldoutOperation[Any]]) -> None:
    """Add the commands of the given operations, or of all operations that have a command if none are given."""
    for operation in operations or [each for each in OPERATIONS.values() if each.command]:
        app.command(operation.verb.replace("_", "-"))(_command(operation))


def _command(operation: type[HoldoutOperation[Any]]) -> Callable[..., None]:
    """Return the command of an operation as a function whose signature Typer reads.

    The first required argument, or the first file of rows, comes after the holdout's name. All other arguments are
    options.
    """
    every = parameters(operation)
    first = next((each for each in every if each.required or each.holds(RowSource)), None)
    options = [each for each in every if each is not first]

    def command(storage: str, name: str | None, form: Format, **given: Any) -> None:
        own = given.keys() - {each.name for each in every}
        written, analyst, picture = (given[key] if key in own else None for key in ("to", "analyst", "save"))
        if first is not None and given[first.name] is None:
            others = all(given[each.name] in (each.default, None) for each in options)
            if first.required or (name is not None and (others or Path(name).is_file())):
                # with the storage in the environment, the two that were given are the name and the argument
                given[first.name], storage, name = name, storage, None
        if first is not None and first.required and given[first.name] is None:
            raise Misuse(f"{first.name.upper()} is missing. Pass it after STORAGE and NAME.")
        if written is not None and written.exists():
            raise Misuse(f"The file {written} exists. Pass a new file.")
        with opened(storage, name, analyst) as holdout, arguments_checked():
            asked = operation(**{each.name: _value(each, given[each.name]) for each in every})
            done = holdout.perform(asked)
        if picture is not None:
            from everhold.charts import save_chart

            save_chart(done.plot(), picture, title=done.asked, caption=operation.picture)
        if written is not None:
            _write(done, written)
            done = {**{each.name: given[each.name] for each in every}, "rows": done.num_rows, "file": str(written)}
            show_record(done, form)
        elif hasattr(done, "__len__") and not isinstance(done, Mapping):
            rows = done.to_rows()
            show_list(rows, list(rows[0]) if rows else [], form, document=done.to_dict())
        else:
            show_record(done.to_dict(), form)
        if form is Format.TABLE and written is None and (remark := asked.remark(done)):
            note(remark)

    signature = [_parameter("storage", StorageArgument), _parameter("name", _Name, None)]
    if first is not None:
        kind = Path if first.holds(RowSource) else first.type if first.type is int else str
        called = "EXPRESSION" if first.holds(AnyQuery) else "FILE" if first.holds(RowSource) else first.name.upper()
        about = typer.Argument(metavar=called, help=first.about.help, show_default=False)
        signature.append(_parameter(first.name, Annotated[kind | None, about], None))
    signature += [option_for(each) for each in options]
    if result_type(operation) is Table:
        signature.append(_parameter("to", Annotated[Path, typer.Option(help="Parquet file for the rows.")]))
    if operation.picture:
        about = typer.Option(help="Write the picture to this SVG or PNG file.")
        signature.append(_parameter("save", Annotated[Path | None, about], None))
    if operation.role is Role.ANALYST:
        signature.append(_parameter("analyst", AnalystOption, None))
    signature.append(_parameter("form", FormatOption, Format.TABLE))
    command.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in signature}
    command.__doc__ = _help(operation, rows=any(each.holds(RowSource) for each in every))
    return command


def _parameter(name: str, kind: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    """Return a parameter that can only be given by name."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _value(each: Parameter, given: Any) -> Any:
    """Return an argument from the command line as the value that the operation takes."""
    if given is None:
        return each.default
    return int(given) if isinstance(given, str) and int in get_args(each.type) and given.isdecimal() else given


def _help(operation: type[HoldoutOperation[Any]], *, rows: bool) -> str:
    """Return the help of a command: what it does, an example, more about it, and its exit codes.

    `rows` is true if the command reads rows to seal, so that exit code 3 is listed as well.
    """
    summary, _, more = inspect.cleandoc(operation.__doc__ or "").partition("\n\n")
    paragraphs = [textwrap.fill(text.replace("\n", " "), _WIDTH) for text in more.split("\n\n") if text]
    codes = [f"  {code}  {words}" for code, words in _CODES.items() if rows or code != 3]
    example = f"Example:\n  everhold {operation.command}"
    return "\n\n".join([summary.replace("\n", " "), example, *paragraphs, "\n".join(["Exit codes:", *codes])])


def _write(table: Any, to: Path) -> None:
    """Write a table to a Parquet file. If it cannot be written completely, no file is left."""
    from pyarrow import parquet

    written = to.with_name(f".{to.name}.{os.getpid()}")  # a file of this name is whole, or not there
    try:
        parquet.write_table(table, written)
        written.rename(to)
    finally:
        written.unlink(missing_ok=True)
