"""The page docs/reference/command-line.md, made from the help of every command.

``python tests/support/command_line_page.py > docs/reference/command-line.md`` brings it up to date.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_WIDTH = "88"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_HEAD = """\
<!-- made by: python tests/support/command_line_page.py > docs/reference/command-line.md -->

# Command line

Everything that can be done in Python with a [holdout](../index.md) can be done with the program `everhold`. This page
is the help of every command, word for word.

**Formats.** `--format table` is for people. A list, such as the answer of `ask`, has one line for each item; one
thing, such as a status, has the columns `field` and `value`. `--format csv` has a head and one line for each item.
`--format json` prints one object on one line; its names are stable. Results go to stdout and nothing else does.

`everhold ask ... --format json` prints

```json
{"value": 0.213, "low": 0.189, "high": 0.236, "source": "training", "charged": 0,
 "remaining": {"queries": 999, "surprises": 10}, "query": "<SHA-256 of the query>"}
```

`source` is `training`, `guess`, `holdout` or `refused`; a refused answer has null for `value`, `low` and `high`.

**Completion.** `everhold --install-completion` makes the shell complete commands and options with the Tab key.

**Errors** are one line on stderr: what was wrong, what was expected, what to do next. With `--format json` the line is
an object with at least `error` and `message`. There is never a traceback, because it could quote sealed rows.
"""


def command_paths() -> list[tuple[str, ...]]:
    """Every command as typed, without the program's name; the program itself first."""
    from typer import Context
    from typer.main import get_command

    from everhold.cli.application import app

    return list(_walk((), get_command(app), Context, None))


def _walk(path: tuple[str, ...], command: Any, context_of: Any, parent: Any) -> Iterator[tuple[str, ...]]:
    """Yield the path of a command and of all commands below it."""
    yield path
    context = context_of(command, parent=parent, info_name=path[-1] if path else "everhold")
    for name in getattr(command, "list_commands", lambda _: ())(context):
        yield from _walk((*path, name), command.get_command(context, name), context_of, context)


def help_text(path: tuple[str, ...]) -> str:
    """Output of ``--help`` for a command, at a fixed width and without colour."""
    from typer.main import get_command

    from everhold.cli.application import app

    printed = io.StringIO()
    with _fixed_width(), contextlib.redirect_stdout(printed):
        get_command(app).main([*path, "--help"], prog_name="everhold", standalone_mode=False)
    lines = _COLOUR.sub("", printed.getvalue()).splitlines()
    return "\n".join(line.rstrip() for line in lines).strip("\n")


@contextlib.contextmanager
def _fixed_width() -> Iterator[None]:
    """Context in which the help is printed for a terminal of one width."""
    before = {name: os.environ.get(name) for name in ("COLUMNS", "LINES")}
    os.environ["COLUMNS"], os.environ["LINES"] = _WIDTH, "50"
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def reference_page() -> str:
    """The whole page, in Markdown."""
    sections = [
        f"## `{' '.join(('everhold', *path))}`\n\n```text\n{help_text(path)}\n```\n" for path in command_paths()
    ]
    return "\n".join([_HEAD, *sections])


if __name__ == "__main__":
    sys.stdout.write(reference_page())
