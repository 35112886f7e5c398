"""Commands are imported when they are called, and distributions add to them by entry points."""

import json
import subprocess
import sys
from importlib import import_module
from importlib.metadata import EntryPoint

import pytest
import typer
from command_line_page import help_text

from everhold import extensions
from everhold.cli import application as commands
from everhold.cli.application import OWN

GROUP = "everhold.commands"


@pytest.fixture
def added(monkeypatch):
    """Adds entry points to the group, as installed distributions would."""

    def add(**points):
        found = {name: EntryPoint(name, value, GROUP) for name, value in points.items()}
        before = extensions.installed

        def installed(group):
            return {**before(group), **found} if group == GROUP else before(group)

        monkeypatch.setattr(extensions, "installed", installed)
        monkeypatch.setattr(commands, "_COMMANDS", extensions.Registry(GROUP, commands._COMMANDS.own, commands._check))

    return add


def hello() -> None:
    """Greet."""
    sys.stdout.write("hello\n")


def register(app: typer.Typer) -> None:
    app.command("greet")(hello)
    app.command("unlisted")(hello)


def nothing(app: typer.Typer) -> None:
    pass


application = typer.Typer()
application.command()(hello)


@pytest.mark.parametrize("name", OWN)
def test_the_list_has_the_line_that_the_command_has(name):
    """The list imports no command, so its lines are written a second time."""
    assert OWN[name][1] in " ".join(help_text((name,)).split())


@pytest.mark.parametrize("module", sorted({module for module, _ in OWN.values()}))
def test_whatever_a_module_registers_is_listed(module):
    app = typer.Typer()
    import_module(f"everhold.cli.{module}").register(app)
    found = {each.name or each.callback.__name__ for each in app.registered_commands}
    found |= {each.name or each.typer_instance.info.name for each in app.registered_groups}
    assert found == {name for name, (home, _) in OWN.items() if home == module}


def test_a_command_imports_its_own_module_alone():
    code = """if True:
        import sys
        sys.argv = ["everhold", "status", "--help"]
        from everhold.cli import main
        try:
            main()
        except SystemExit:
            print(*sorted(name for name in sys.modules if name.startswith("everhold.cli.")), file=sys.stderr)
    """
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ran.stderr.split())
    assert "everhold.cli.holdouts" in loaded
    assert not loaded & {f"everhold.cli.{module}" for module in ("ledger", "gates", "plan", "operate", "asking")}


@pytest.mark.parametrize(
    "place", ["test_cli_commands:register", "test_cli_commands:application"], ids=["function", "application"]
)
def test_an_extension_adds_a_command(everhold, added, place):
    added(greet=place)
    assert everhold("greet").stdout == "hello\n"
    assert "greet" in everhold("--help").stdout
    assert "unlisted" not in everhold("--help").stdout


def test_an_extension_adds_to_a_group(everhold, added):
    added(**{"dependence.greet": "test_cli_commands:register"})
    assert everhold("dependence", "greet").stdout == "hello\n"
    assert "greet" in everhold("dependence", "--help").stdout
    assert "dependence.greet" not in everhold("--help").stdout


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("no_such_module:register", "cannot be loaded"),
        ("test_cli_commands:GROUP", "expected a Typer application"),
        ("test_cli_commands:hello", "fails with TypeError"),
        ("test_cli_commands:nothing", "adds no command 'broken'"),
    ],
    ids=["missing", "text", "fails", "adds nothing"],
)
def test_a_broken_extension_is_named_and_leaves_the_other_commands(everhold, added, place, problem):
    added(broken=place)
    assert problem in everhold("broken", code=1).stderr
    assert everhold("list", "--help").stderr == ""
    listed = everhold("--help")
    assert "status" in listed.stdout
    assert problem in listed.stderr


def test_a_command_of_a_distribution_that_is_not_installed_says_which_extra_has_it(everhold, monkeypatch):
    monkeypatch.setattr(extensions, "_catalog", lambda: {GROUP: {"fly": "wings", "dependence.fly": "wings"}})
    assert "pip install 'everhold[wings]'" in everhold("fly", code=2).stderr
    assert "pip install 'everhold[wings]'" in everhold("dependence", "fly", code=2).stderr


def test_a_command_that_is_misspelled_is_answered_by_one_that_is_alike(everhold):
    assert "There is no command 'statu'. Did you mean 'status'?" in everhold("statu", code=2).stderr
    assert json.loads(everhold("xyzzy", "--format", "json", code=2).stderr)["error"] == "UsageError"


PLAN = ("plan", "--rows", "5000", "--queries", "50")
QUOTE = ("quote", "s.db", "flights", "--low-sensitivity", "share.py:late", "--sensitivity", "0.001")


def test_the_command_line_is_also_a_module():
    ran = subprocess.run([sys.executable, "-m", "everhold", "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("everhold ")
