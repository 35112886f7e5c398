"""The command line: `everhold create`, `ask`, `quote`, `status` and so on.

Nothing heavy is imported before a command runs, so that `everhold --help` answers at once.
"""

from __future__ import annotations

import gc
import importlib.util
import io
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; the entry point of the program `everhold`."""
    gc.set_threshold(100_000, 50, 50)  # imports make many objects and no garbage: a seventh of a command's time
    _postpone("numpy.f2py")  # SciPy imports all that NumPy names, this parser of Fortran among it: .2 s
    from everhold.cli.application import app

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a sign that the terminal does not know is no fault
    app(prog_name="everhold")


def _postpone(name: str) -> None:
    """Load a module of a package when one of its attributes is first used."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None or name in sys.modules:
        return
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    package, _, attribute = name.rpartition(".")
    setattr(sys.modules[package], attribute, module)
