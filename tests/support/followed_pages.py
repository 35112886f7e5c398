"""Follows a page of the documentation as a reader would: writes its files, runs its commands, compares what they print.

Where a page shows what a command prints, that is what it has to print; ``...`` stands for anything.
"""

import os
import re
import subprocess
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker

FENCE = re.compile(
    r'^```(?P<kind>console|python title="(?P<file>[\w.-]+)")\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL
)
INSTALLS = ("$ git clone ", "$ pip ")
"""What is there already."""


def commands(text):
    """Pairs of a command and what it prints; a command goes on after a backslash."""
    for block in re.split(r"^(?=\$ )", text, flags=re.MULTILINE):
        if not block.strip() or block.startswith(INSTALLS):
            continue
        lines = block.splitlines(keepends=True)
        end = next(place for place, line in enumerate(lines) if not line.rstrip().endswith("\\")) + 1
        yield "".join(lines[:end]).removeprefix("$ "), "".join(lines[end:])


def run(command, *, programs, folder, **environment):
    """Run a command of the shell as a new user who has these programs."""
    known = {
        "PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(folder), "COLUMNS": "100", "LANG": "C.UTF-8",
        "PYTHONWARNINGS": "default", **environment,
    }  # fmt: skip
    return subprocess.run(["bash", "-c", command], cwd=folder, env=known, capture_output=True, text=True, timeout=300)


def followed(text, *, programs, folder, **environment):
    """Follow a page, and return how many commands it has; each one succeeds and prints what the page says."""
    count, exported = 0, ""
    for fence in FENCE.finditer(text):
        if fence["file"]:
            (folder / fence["file"]).write_text(fence["text"], encoding="utf-8")
            continue
        for command, printed in commands(fence["text"]):
            done = run(exported + command, programs=programs, folder=folder, **environment)
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
            if printed.strip():
                same = OutputChecker().check_output(printed, done.stdout, ELLIPSIS | NORMALIZE_WHITESPACE)
                assert same, f"{command}\nprinted\n{done.stdout}\nand the page says\n{printed}"
            exported += command if command.startswith("export ") else ""
            count += 1
    return count
