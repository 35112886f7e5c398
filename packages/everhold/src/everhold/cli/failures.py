"""Handling of errors: one sentence and one suggestion on stderr, a known exit code, no traceback.

A traceback, or the message of an error that everhold did not write, could quote sealed rows. Only the messages of
everhold's own errors and of wrong arguments are shown; everything else becomes one fixed text.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import warnings
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from everhold.cli.output import printable
from everhold.errors import EverholdError, EverholdWarning

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_UNEXPECTED = (
    "everhold stopped because of an error in everhold, which is not shown because it could quote sealed rows. Check "
    "the ledger with 'everhold ledger verify', and report the command that you typed."
)

EXTRAS = {
    "altair": "plots",
    "vl_convert": "plots",
    "pandas": "plots",
    "sklearn": "sklearn",
    "mcp": "mcp",
    "fastapi": "service",
    "prometheus_client": "service",
    "uvicorn": "service",
    "httpx": "client",
    "pyagrum": "graph",
    "dp_accounting": "accounting",
    "rfc3161_client": "timestamp",
    "psycopg": "postgres",
    "pyspark": "spark",
    "chdb": "clickhouse",
    "clickhouse_connect": "clickhouse",
}
"""The extra of each package that a command may need."""

_TypersOwn: type[Exception] = typer.BadParameter.__mro__[2]  # ClickException, which typer has moved with its versions


class Misuse(Exception):
    """The command was not used as its help says."""

    exit_code = 2


@contextlib.contextmanager
def arguments_checked() -> Iterator[None]:
    """Context in which a ValueError is about the caller's own arguments, so that its message may be shown."""
    try:
        yield
    except EverholdError:
        raise
    except ValueError as fault:
        raise Misuse(str(fault)) from None


class CommandGroup(TyperGroup):
    """A group of commands that prints its help if it is called without arguments, and reports all errors in one way."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments; none at all asks for help."""
        return super().parse_args(ctx, args or ["--help"])

    def main(self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **named: Any) -> Any:  # type: ignore[override]  # all callers name the others
        """Run the command, report an error, and leave the process with the exit code."""
        given = list(sys.argv[1:] if args is None else args)
        pairs = zip(given, [*given[1:], ""], strict=False)  # known even where the arguments cannot be read
        wants_json = any(pair == ("--format", "json") or pair[0] == "--format=json" for pair in pairs)
        with warnings.catch_warnings():
            warnings.simplefilter("always", EverholdWarning)
            warnings.showwarning = _show_warning
            try:
                code = super().main(given, standalone_mode=False, **named)
                sys.stdout.flush()
            except BrokenPipeError:
                leave_reader()
                code = 1
            except Exception as fault:
                code, public = int(getattr(fault, "exit_code", 1)), said_of(fault)
                told = json.dumps(public, default=str) if wants_json else f"error: {printable(public['message'])}"
                sys.stderr.write(told + "\n")
        if standalone_mode:
            sys.exit(code)
        return code


def leave_reader() -> None:
    """Discard all further output, also at exit, because the reader has closed the pipe, as `head` does."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def said_of(fault: BaseException) -> dict[str, Any]:
    """Return the facts about an error that may be shown."""
    if isinstance(fault, EverholdError):
        return fault.to_dict()
    if isinstance(fault, (Misuse, _TypersOwn)):
        return {"error": "UsageError", "message": _usage_message(fault)}
    if isinstance(fault, (typer.Abort, KeyboardInterrupt)):
        return {"error": "Aborted", "message": "Stopped before the end. Start the command again."}
    if isinstance(fault, ModuleNotFoundError):
        return {"error": "MissingPackage", "message": _missing(str(fault.name))}
    if isinstance(fault, OSError) and fault.errno is not None:
        reason = (fault.strerror or "it fails").lower()
        found = f"The file or folder {fault.filename or ''!s} cannot be used: {reason}."
        return {"error": "FileError", "message": f"{found} Check its path and permissions."}
    return {"error": "UnexpectedError", "message": _UNEXPECTED}


def _missing(module: str) -> str:
    """Return the message for a package that is not installed."""
    extra = EXTRAS.get(module.partition(".")[0])
    install = "everhold" if extra is None else f"everhold[{extra}]"
    return f"This command needs the package {module}. Install it: pip install '{install}'."


def _usage_message(fault: Any) -> str:
    """Return the message for a usage error, with a pointer to the help of the command."""
    if isinstance(fault, Misuse):
        return str(fault)
    message: str = fault.format_message().replace(": Value error, ", ": ").rstrip(".?")  # words of the parser's library
    context = getattr(fault, "ctx", None)
    if context is not None:
        hint = ""
        if "extra argument" in message and any("--mean" in option.opts for option in context.command.params):
            hint = ". Pass a condition or number as --mean 'arr_delay > 15'"
        message = f"{message[:1].upper()}{message[1:]}{hint}. See '{context.command_path} --help'."
    return message


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """Print a warning of everhold on one line, and none of other libraries, because these could quote rows."""
    if issubclass(category, EverholdWarning):
        sys.stderr.write(f"warning: {printable(str(getattr(message, 'for_shell', message)))}\n")
