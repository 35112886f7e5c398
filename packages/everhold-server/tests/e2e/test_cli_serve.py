"""The command that serves refuses what it must not serve, before it serves."""

import builtins
import sys

import pytest


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "No storage is given"),
        (("--storage", "s.db", "--host", "0.0.0.0"), 2, "unencrypted"),
        (("--storage", "s.db", "--address", "http://holdout.example"), 2, "unencrypted"),
        (("--storage", "s.db", "--address", "holdout.example"), 2, "Pass a URL"),
        (("--storage", "s.db", "--address", "https://me:word@holdout.example"), 2, "has a user"),
        (("--storage", "s.db", "--trust-proxy", "proxy.example"), 2, "'proxy.example' is no IP address"),
        (("--storage", "s.db", "--port", "99999"), 2, "cannot listen"),
        (("--storage", "mysql://x/y"), 2, "mysql"),
    ],
)
def test_what_is_not_served(study, everhold, arguments, code, said):
    result = everhold("serve", *arguments, code=code)
    assert said in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("command", [("serve", "--storage", "s.db"), ("token", "list", "s.db")])
def test_a_missing_package_is_named(study, everhold, monkeypatch, command):
    found = builtins.__import__

    def without(name, *arguments, **named):
        if name == "fastapi" or name.startswith("fastapi."):
            raise ModuleNotFoundError("No module named 'fastapi'", name="fastapi")
        return found(name, *arguments, **named)

    for name in [name for name in sys.modules if name.startswith(("fastapi", "everhold_server"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    assert "pip install 'everhold[service]'" in everhold(*command, code=1).stderr
