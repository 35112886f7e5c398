"""The command that serves agents refuses what it cannot serve, before it serves."""

import builtins
import sys

import pytest


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--holdout", "flights"), 2, "no storage is given"),
        (("--storage", "s.db"), 2, "--holdout"),
        (("--storage", "none.db", "--holdout", "flights"), 4, "none.db"),
        (("--storage", "s.db", "--holdout", "other"), 4, "other"),
        (("--storage", "s.db", "--holdout", "flights", "--analyst", "nobody"), 5, "nobody"),
        (("--storage", "s.db", "--holdout", "flights", "--predictions-folder", "none"), 2, "no folder 'none'"),
        (("--storage", "s.db", "--holdout", "flights", "--http", "--host", "0.0.0.0"), 2, "from other machines"),
        (("--storage", "s.db", "--holdout", "flights", "--http", "--port", "99999"), 2, "nobody can listen"),
    ],
)
def test_what_cannot_be_served(study, everhold, arguments, code, said):
    result = everhold("mcp", *arguments, code=code)
    assert said in result.stderr
    assert result.stdout == ""


def test_a_missing_package_is_named(study, everhold, monkeypatch):
    found = builtins.__import__

    def without(name, *arguments, **named):
        if name == "mcp" or name.startswith("mcp."):
            raise ModuleNotFoundError("No module named 'mcp'", name="mcp")
        return found(name, *arguments, **named)

    for name in [name for name in sys.modules if name == "mcp" or name.startswith(("mcp.", "everhold.mcp"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    result = everhold("mcp", "--storage", "s.db", "--holdout", "flights", code=1)
    assert "pip install 'everhold[mcp]'" in result.stderr
