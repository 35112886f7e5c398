"""The program `everhold`: its introduction, its options, and where each command comes from."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

from everhold.cli.failures import CommandGroup, Misuse
from everhold.errors import ExtensionError
from everhold.extensions import Registry, extra_for
from everhold.operations import OPERATIONS

if TYPE_CHECKING:
    from everhold.operations.operation import HoldoutOperation

OWN = {
    "plan": ("plan", "Compare all mechanisms, each at its best, for a study that you plan."),
    "split": ("plan", "Split a table into training and sealed rows, and print the command that seals."),
    "create": ("create", "Seal rows and print what is promised about all answers."),
    "ask": ("asking", "Ask one query and print the answer with what holds for the population."),
    "compare": (
        "asking",
        "Ask how much better or larger the score of one file of predictions is than that of another.",
    ),
    "quote": ("asking", "Say what a query would cost and how wide its interval would be, for free."),
    "board": ("plan", "Rank models by open results: proved tiers, rank intervals, and who is first."),
    "status": ("holdouts", "Print rows, mechanism, promise, what was asked and what is left."),
    "transcript": ("holdouts", "Print every query with its answer, in order."),
    "list": ("holdouts", "Print all holdouts of a storage."),
    "declare": ("holdouts", "Declare families of queries, whose members cost nothing from then on."),
    "protocol": ("holdouts", "A study's protocol beside its certificate: check."),
    "unseal": ("holdouts", "End the study: print what the sealed rows say about all queries asked."),
    "diagnose": ("holdouts", "Look for rows that depend on each other more than declared, in the training rows only."),
    "gate": ("gates", "Keep or revert: a champion and proved promotions: create, challenge, complete, status."),
    "suite": ("gates", "Seal the cases of a suite with the results of the present version, and open a gate."),
    "check": ("gates", "Check a file of results against the baseline of a gate, with the verdict as exit code."),
    "challenge": ("gates", "Compare a file of results with the champion of a gate, with the verdict as exit code."),
    "dependence": ("dependence", "Rows that depend on each other: fit a model, describe it, find its quilts."),
    "ledger": ("ledger", "The record of everything that was asked: spent, verify, recover."),
    "certificate": ("ledger", "The promise as a signed document: show, save, verify."),
    "migrate": ("ledger", "Make the tables of a storage, or check that they are this version's."),
    "doctor": ("ledger", "Check a storage: database, permissions, keys, rows, ledgers, disk space, crash leftovers."),
    "backup": ("ledger", "Write ledger, sealed rows and keys into one archive, while others go on asking."),
    "restore": ("ledger", "Put an archive into an empty storage, after everything in it was checked."),
}
"""Module and line of help of each command that everhold brings beside those of operations; the list imports none."""


def operation_named(command: str) -> type[HoldoutOperation[Any]] | None:
    """Return the operation that a command is made from, or None if the command is written by hand."""
    name = command.replace("-", "_")
    found = OPERATIONS[name] if name in OPERATIONS.own or name in OPERATIONS.added() else None
    return found if found is not None and found.command else None


def _check(_: str, thing: Any) -> str:
    """Return a text about what a member of the group of commands lacks, or an empty text."""
    return "" if callable(thing) else "expected a Typer application or a function register(app)"


_COMMANDS: Registry[Any] = Registry(
    "everhold.commands", {name: f"everhold.cli.{module}:register" for name, (module, _) in OWN.items()}, _check
)


class ExtensibleGroup(CommandGroup):
    """A group of commands to which distributions can add. Each command is imported when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        prefix = _prefix(ctx)
        try:
            commands = [name.replace("_", "-") for name, operation in OPERATIONS.items() if operation.command]
            names = [*_COMMANDS, *([] if prefix else commands)]
        except ExtensionError as fault:  # everhold's own commands must not need the others
            sys.stderr.write(f"warning: {fault}\n")
            names = list(OWN)
        further = (name.removeprefix(prefix) for name in names if name.startswith(prefix))
        return [*super().list_commands(ctx), *(name for name in further if "." not in name)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command with this name, or None."""
        name = _prefix(ctx) + cmd_name
        if cmd_name not in self.commands and "." not in cmd_name:
            if name in _COMMANDS:
                self.commands[cmd_name] = _built(name, cmd_name)
            elif (operation := operation_named(name)) is not None:
                from everhold.cli.operations import register

                app = typer.Typer(rich_markup_mode="rich", add_completion=False)
                register(app, operation)
                self.commands[cmd_name] = get_command(app)
        return self.commands.get(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first argument names.

        Raises:
            Misuse: If there is no such command. The message says which extra installs it, or which command has a
                similar name.
        """
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            remedy = f"'{ctx.command_path} --help' lists the commands."
            if alike := get_close_matches(name, self.list_commands(ctx)):
                remedy = f"Did you mean {' or '.join(map(repr, alike))}? {remedy}"
            if extra := extra_for(_COMMANDS.group, _prefix(ctx) + name):
                remedy = f"Install it: pip install 'everhold[{extra}]'."
            raise Misuse(f"There is no command {name!r}. {remedy}")
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help without importing the modules of everhold's own commands."""
        listed = CommandGroup(
            name=self.name,
            commands=self._shown(ctx),
            params=self.params,
            help=self.help,
            rich_markup_mode=self.rich_markup_mode,
        )
        listed.format_help(ctx, formatter)

    def _shown(self, ctx: Any) -> dict[str, Any]:
        """Return each command by name with its line of help. Leaves out what cannot be loaded, with a warning."""
        prefix, shown = _prefix(ctx), dict(self.commands)
        for name in self.list_commands(ctx):
            if name in shown:
                continue
            if prefix + name in OWN:
                shown[name] = TyperCommand(name, help=OWN[prefix + name][1])
                continue
            if not prefix and (operation := operation_named(name)) is not None:
                from everhold.cli.operations import summary_of

                shown[name] = TyperCommand(name, help=summary_of(operation))
                continue
            try:
                shown[name] = self.get_command(ctx, name)
            except ExtensionError as fault:
                sys.stderr.write(f"warning: {fault}\n")
        return shown


def _prefix(ctx: Any) -> str:
    """Return what stands before the command in an entry point's name, such as ``"gate."``, empty at the top."""
    return "" if ctx.parent is None else f"{ctx.info_name}."


def _built(name: str, called: str) -> Any:
    """Return the command that an entry point makes, which is an application or a function ``register(app)``.

    Raises:
        ExtensionError: If the distribution makes no command of this name.
    """
    member = _COMMANDS[name]
    if isinstance(member, typer.Typer):
        command: Any = get_command(member)
        command.name = called
        return command
    app = typer.Typer(rich_markup_mode="rich", add_completion=False)
    app.callback()(lambda: None)  # so that it is a group, however many commands it has
    try:
        member(app)
    except Exception as fault:
        if name in OWN:
            raise
        raise _refused(name, f"it fails with {type(fault).__name__}") from fault
    app.registered_commands = [info for info in app.registered_commands if _name_of(info) == called]
    app.registered_groups = [info for info in app.registered_groups if info.name == called]
    made: Any = get_command(app)
    if called not in made.commands:
        raise _refused(name, f"it adds no command {called!r}")
    return made.commands[called]


def _refused(name: str, reason: str) -> ExtensionError:
    """Return the error for an extension that adds no usable command."""
    return ExtensionError(
        f"The extension {name!r} of {_COMMANDS.group} was refused: {reason}. Install its distribution again, or "
        "uninstall it."
    )


def _name_of(command: Any) -> str:
    """Return the name under which Typer registers a command."""
    name: str = command.name or command.callback.__name__.lower().replace("_", "-")
    return name


app = typer.Typer(cls=ExtensibleGroup, rich_markup_mode="rich", pretty_exceptions_enable=False)


def _version(wanted: bool) -> None:
    """Print the version and leave if `wanted` is True."""
    if wanted:
        from everhold import __version__

        sys.stdout.write(f"everhold {__version__}\n")
        raise typer.Exit


@app.callback()
def everhold(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version and leave.")
    ] = False,
) -> None:
    r"""Query a sealed holdout thousands of times; every answer stays true.

    A story in three commands:

      everhold create flights.db flights --holdout sealed.parquet \
        --training train.parquet
          seals the rows and prints what is promised about all answers together

      everhold ask flights.db flights --mean "arr_delay > 15"
          answers with an interval that holds for the population, however the
          query depends on the answers before

      everhold certificate save flights.db flights --output flights.html
          writes the promise down and signs it

    No data at hand? 'everhold demo' plays the story on real flights; it comes
    with 'pip install everhold\[lab]'.

    'everhold ask' also chooses among models, finds a quantile or the first of
    many queries above a threshold, and synthesizes a table. What is known before
    the study is declared, and then costs nothing: 'everhold declare --help'.

    STORAGE is a path or a URL such as sqlite:///flights.db. The environment
    variable EVERHOLD_STORAGE replaces it: everhold ask flights --mean "late".
    Every command takes --format table, json or csv. Results go to stdout, all
    else to stderr; with --format json errors are JSON, too.

    Exit codes:
        0  done; also when an answer is refused because the budget is spent
        1  a fault, a missing package, or a file that cannot be used
        2  wrong usage
        3  the rows or settings cannot be sealed; nothing was created
        4  no such holdout or storage
        5  the query cannot be asked; nothing was charged
        6  refused, under --strict
        7  rows, ledger or certificate were altered
        8  the steward's key is missing or wrong
        9  the dependence model does not fit the rows
       10  a page of a certificate of another version, whose words were not checked
      130  interrupted
    """
