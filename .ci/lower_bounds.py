"""The lowest version of each package that the projects allow: lower_bounds.py [--check] [EXTRA ...].

Printed as constraints, or compared with what is installed beside this Python.
"""

import re
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parent.parent
BOUND = re.compile(r"([A-Za-z0-9._-]+)(?:\[.*\])?>=([0-9.]+)$")
AS_OLD = {"click": "8.2.1"}
"""What a package should have bounded itself: typer 0.16 warns with the click of today."""


def lower_bounds(extras: list[str]) -> dict[str, str]:
    """Version by package, of what is always needed and of some extras."""
    found = dict(AS_OLD)
    for file in sorted(ROOT.glob("packages/*/pyproject.toml")):
        project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
        optional = project.get("optional-dependencies", {})
        for wanted in [*project["dependencies"], *(one for extra in extras for one in optional.get(extra, []))]:
            if match := BOUND.match(wanted):
                found[match[1]] = match[2]
    return found


def different(bounds: dict[str, str]) -> list[str]:
    """What is installed in another version than its lowest; trailing zeros say nothing."""
    plain = {name: re.sub(r"(\.0)+$", "", version(name)) for name in bounds}
    return [
        f"{name} {plain[name]} is installed, not {lowest}"
        for name, lowest in bounds.items()
        if plain[name].split(".post")[0] != re.sub(r"(\.0)+$", "", lowest)
    ]


if __name__ == "__main__":
    checking = "--check" in sys.argv
    bounds = lower_bounds([extra for extra in sys.argv[1:] if extra != "--check"])
    if checking:
        sys.exit("\n".join(different(bounds)) or None)
    sys.stdout.write("".join(f"{name}=={lowest}\n" for name, lowest in bounds.items()))
