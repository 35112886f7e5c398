"""The catalog says which extra installs an extension that is not there."""

import runpy
from pathlib import Path

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / ".ci" / "catalog.py").exists())
SCRIPT = runpy.run_path(str(ROOT / ".ci" / "catalog.py"))


def test_the_catalog_is_current():
    written = SCRIPT["text"](ROOT.glob("packages/*/pyproject.toml"))
    assert SCRIPT["target"]().read_text("utf-8") == written, "run make catalog"


def test_it_is_made_from_the_entry_points_of_extensions_alone(tmp_path):
    for name in ("everhold", "everhold-privacy", "another"):
        (tmp_path / f"{name}.toml").write_text(
            f'[project]\nname = "{name}"\n[project.entry-points."everhold.mechanisms"]\nof_{name[-3:]} = "a:b"\n'
            '[project.entry-points.console_scripts]\nother = "a:b"\n'
        )
    assert SCRIPT["catalog"](tmp_path.glob("*.toml")) == {"everhold.mechanisms": {"of_acy": "privacy"}}
