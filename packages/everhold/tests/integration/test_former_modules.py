"""Import paths from before everhold was split."""

import json
import subprocess
import sys
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import everhold
from everhold import former_modules


@pytest.fixture(autouse=True)
def afresh():
    """No former module has been imported, and none stays imported."""
    known = set(sys.modules)
    yield
    for name in set(sys.modules) - known:
        if name.startswith("everhold."):
            sys.modules.pop(name)
            vars(everhold).pop(name.removeprefix("everhold."), None)


@pytest.fixture
def points(monkeypatch, tmp_path):
    """Entry points of a distribution with a package, and without anything else installed."""
    package = tmp_path / "moved_package"
    package.mkdir()
    (package / "__init__.py").write_text('"""Documented."""\n__all__ = ["Thing"]\nclass Thing: pass\n')
    (package / "inner.py").write_text("from moved_package import Thing\nVALUE = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = {"package": "moved_package", "queries.deep": "moved_package.inner"}
    group = "everhold.former_modules"
    found = {name: EntryPoint(name, value, group) for name, value in found.items()}
    monkeypatch.setattr(former_modules, "installed", {group: found}.__getitem__)
    yield
    for name in ("moved_package", "moved_package.inner"):
        sys.modules.pop(name, None)


def test_a_former_module_forwards_to_the_new_one_and_warns_at_the_import(points):
    with pytest.warns(FutureWarning, match=r"^everhold\.package is now moved_package$"):
        former = import_module("everhold.package")
    new = import_module("moved_package")
    assert (former.Thing, former.__doc__, former.__all__) == (new.Thing, "Documented.", ["Thing"])
    assert "Thing" in dir(former)
    with pytest.raises(AttributeError, match="Other"):
        former.Other  # noqa: B018
    with pytest.warns(FutureWarning) as caught:
        from everhold.queries import deep
    assert (deep.VALUE, caught[0].filename) == (3, __file__)


@pytest.mark.filterwarnings("ignore:everhold.package:FutureWarning")
def test_a_module_in_a_former_package_is_imported_once(points):
    from everhold.package import Thing, inner

    assert inner.Thing is Thing
    assert inner.VALUE == 3
    with pytest.raises(ImportError, match=r"cannot import name 'absent' from 'everhold\.package'"):
        from everhold.package import absent  # noqa: F401
    with pytest.raises(ModuleNotFoundError, match=r"everhold\.package\.absent"):
        import_module("everhold.package.absent")


@pytest.mark.parametrize(
    ("name", "extra"), [("optuna", "integrations"), ("client", "server"), ("engines", "engines"), ("mcp", "server")]
)
def test_without_the_distribution_the_error_names_the_extra(points, name, extra):
    with pytest.raises(ModuleNotFoundError, match=rf"^everhold\.{name} is not installed\..*'everhold\[{extra}\]'"):
        import_module(f"everhold.{name}")


def test_other_modules_are_not_found_as_ever(points):
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'everhold\.absent'$"):
        import_module("everhold.absent")
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'everhold_absent'$"):
        import_module("everhold_absent")


def test_import_everhold_reads_no_metadata():
    code = "import everhold, sys; sys.exit('importlib.metadata' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_paths_of_the_workspace_are_those_that_were_documented():
    catalog = json.loads(Path(everhold.__file__).with_name("catalog.json").read_text())["everhold.former_modules"]
    assert list(catalog) == ["client", "engines", "inspect_ai", "mcp", "mlflow", "optuna", "service"]
    for name in catalog:
        pytest.importorskip(f"everhold_{catalog[name]}")
        with pytest.warns(FutureWarning, match=rf"everhold\.{name} is now everhold_{catalog[name]}"):
            import_module(f"everhold.{name}")
