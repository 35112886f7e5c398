"""Write packages/everhold/src/everhold/catalog.json: which extra of everhold installs each extension of this workspace.

``python .ci/catalog.py [--check] [PYPROJECT ...]`` reads the entry points of the distributions that are named
everhold-EXTRA; by default those of packages/*/pyproject.toml.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PREFIX = "everhold-"


def catalog(pyprojects: Iterable[Path]) -> dict[str, dict[str, str]]:
    """Group of entry points to names to the extra that installs them."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted(pyprojects):
        project = tomllib.loads(path.read_text("utf-8"))["project"]
        if not project["name"].startswith(PREFIX):
            continue  # the core needs no extra
        for group, points in project.get("entry-points", {}).items():
            if group.startswith("everhold."):
                found.setdefault(group, {}).update(dict.fromkeys(points, project["name"].removeprefix(PREFIX)))
    return {group: dict(sorted(found[group].items())) for group in sorted(found) if found[group]}


def target() -> Path:
    """The data file of the core, in the workspace or beside this folder."""
    return next(
        path
        for folder in (ROOT / "packages/everhold", ROOT)
        if (path := folder / "packages/everhold/src/everhold/catalog.json").exists()
    )


def text(pyprojects: Iterable[Path]) -> str:
    """The file's content."""
    return json.dumps(catalog(pyprojects), indent=2) + "\n"


if __name__ == "__main__":
    given = [Path(name) for name in sys.argv[1:] if name != "--check"]
    written = text(given or ROOT.glob("packages/*/pyproject.toml"))
    if "--check" in sys.argv and target().read_text("utf-8") != written:
        sys.exit("catalog.json is not current; run make catalog")
    if "--check" not in sys.argv:
        target().write_text(written, "utf-8")
