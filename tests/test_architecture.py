"""The workspace is as docs/architecture.md says: distributions, versions, extension points and layers."""

import ast
import re
import runpy
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
PACKAGES = sorted(path.parent for path in ROOT.glob("packages/*/pyproject.toml"))
CORE = ROOT / "packages" / "everhold" / "src" / "everhold"
CODE = sorted(CORE.rglob("*.py"))


def project(folder):
    return tomllib.loads((folder / "pyproject.toml").read_text())["project"]


def entries(folder):
    return {
        (group, name): value
        for group, table in project(folder).get("entry-points", {}).items()
        for name, value in table.items()
    }


def test_every_distribution_is_on_the_page():
    listed = re.findall(r"^\| `(everhold[\w-]*)` \|", PAGE.read_text(), re.MULTILINE)
    assert [path.name for path in PACKAGES] == sorted(listed)


def test_the_page_names_modules_that_exist():
    places = [ROOT, ROOT / "packages", *ROOT.glob("packages/*/src"), CORE, *CORE.iterdir()]
    named = set(re.findall(r"(?<![\w./-])(?:[\w-]+/)*\w+\.py\b", PAGE.read_text()))
    assert "operations/asking.py" in named
    assert not {name for name in named if not any((place / name).exists() for place in places)}


def test_all_distributions_have_one_version():
    from everhold import __version__

    assert {project(path)["version"] for path in PACKAGES} == {__version__}


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda path: path.name)
def test_each_distribution_has_its_parts(folder):
    assert all((folder / part).exists() for part in ("README.md", "LICENSE", "src", "tests"))
    assert len((folder / "README.md").read_text().splitlines()) <= 40
    assert (folder / "src" / folder.name.replace("-", "_") / "py.typed").exists()


def test_each_extra_installs_the_distribution_behind_it():
    extras = project(ROOT / "packages" / "everhold")["optional-dependencies"]
    for path in PACKAGES:
        if path.name != "everhold":
            wanted = extras[path.name.removeprefix("everhold-")]
            assert path.name in {re.split(r"[=\[]", each)[0] for each in wanted}


def test_every_group_of_entry_points_is_on_the_page():
    groups = {group for path in PACKAGES for group, _ in entries(path) if group.startswith("everhold.")}
    assert groups <= set(re.findall(r"^\| `(everhold\.\w+)` \|", PAGE.read_text(), re.MULTILINE))
    assert "everhold.mechanisms" in groups


def test_the_core_imports_no_extension():
    others = {path.name.replace("-", "_") for path in PACKAGES} - {"everhold"}
    found = []
    for file in CODE:
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            found += [f"{file.name}: {name}" for name in names if name.partition(".")[0] in others]
    assert not found, "\n".join(found)


NAMED = {
    "words.py": "a certificate verifies where no engine is installed, and says in which one the rows are",
    "failures.py": "the extra that installs a missing package",
    "units.py": "earlier ledgers hold answers of these kinds without their units",
    "curves.py": "a kind of curve, not of mechanism",
}
"""Files of the core that may name an extension, and why."""


def test_the_core_names_no_extension():
    added = {
        (group, name): value
        for path in PACKAGES
        if path.name != "everhold"
        for (group, name), value in entries(path).items()
        if group.removeprefix("everhold.") in {"mechanisms", "queries", "dependence", "rows", "bounds"}
    }
    names = {name for _, name in added} - {"postgresql"}  # also a kind of database
    classes = {value.rpartition(":")[2] for value in added.values()} - {"Database"}
    found = []
    for file in CODE:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and node.value in names and file.name not in NAMED:
                found.append(f"{file.name}:{node.lineno}: {node.value!r}")
            if isinstance(node, ast.Name) and node.id in classes:
                found.append(f"{file.name}:{node.lineno}: {node.id}")
    assert not found, "\n".join(found)


def test_folders_of_tests_say_what_kind_they_are():
    kinds = {"unit", "integration", "statistical", "e2e", "support"}
    for path in PACKAGES:
        if path.name != "everhold-lab":
            folders = {each.name for each in (path / "tests").iterdir() if each.is_dir() and each.name != "__pycache__"}
            assert folders <= kinds, path.name


def test_make_lowest_knows_the_lower_bound_of_every_dependency():
    bounds = runpy.run_path(str(ROOT / ".ci" / "lower_bounds.py"))["lower_bounds"](["plots", "sklearn"])
    core = project(ROOT / "packages" / "everhold")
    extras = core["optional-dependencies"]
    wanted = [*core["dependencies"], *extras["plots"], *extras["sklearn"]]
    assert wanted
    assert all(f"{name}>={bounds[name]}" == line for line in wanted for name in [line.partition(">=")[0]])


def test_no_class_name_stands_for_two_things():
    places = defaultdict(set)
    for path in sorted(ROOT.glob("packages/*/src/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].add(path.relative_to(ROOT).as_posix())
    assert not {name: files for name, files in places.items() if len(files) > 1}


KINDS = {"Mechanism", "DependenceModel"}
HOMES = (
    "everhold/mechanisms/", "everhold/dependence/", "everhold_privacy/mechanisms/", "everhold_privacy/networks",
    "everhold_privacy/kinds.py",
)  # fmt: skip


def class_tests(text, classes):
    """Lines that ask for one of these classes: `isinstance`, `issubclass` and patterns of `match`."""
    for node in ast.walk(ast.parse(text)):
        asked = node.args[1] if isinstance(node, ast.Call) and len(node.args) == 2 else None
        if asked is not None and getattr(node.func, "id", "") not in {"isinstance", "issubclass"}:
            asked = None
        if isinstance(node, ast.MatchClass):
            asked = node.cls
        if asked is not None and classes & {getattr(each, "id", getattr(each, "attr", "")) for each in ast.walk(asked)}:
            yield node.lineno if hasattr(node, "lineno") else 0


def test_no_module_gives_a_name_of_its_own_twice():
    twice = []
    for path in ROOT.glob("packages/*/src/**/*.py"):
        targets = [
            target
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.Assign)
            for target in node.targets
        ]
        names = [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
        twice += [f"{path.name}: {name}" for name in set(names) if names.count(name) > 1]
    assert not twice


def test_features_ask_for_capabilities_and_not_for_mechanisms_or_dependence_models():
    texts = {
        path.as_posix().partition("/src/")[2]: path.read_text() for path in sorted(ROOT.glob("packages/*/src/**/*.py"))
    }
    bases = {
        node.name: {getattr(base, "id", getattr(base, "attr", "")) for base in node.bases}
        for text in texts.values() for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)
    }  # fmt: skip
    classes = set(KINDS)
    while more := {name for name, of in bases.items() if of & classes} - classes:
        classes |= more
    assert {"GuessAndCheck", "Groups", "Thresholdout"} <= classes
    found = {
        name: lines for name, text in texts.items()
        if not name.startswith(HOMES) and (lines := [*class_tests(text, classes)])
    }  # fmt: skip
    assert sum(map(len, found.values())) <= 10, found
    assert [*class_tests("def f(x):\n    return isinstance(x, everhold.Groups)", classes)] == [2]
    assert [*class_tests("match x:\n    case Groups():\n        pass", classes)] == [2]


def import_cycles(texts):
    """Sets of modules that import each other in a circle; imports of types and in functions count."""
    graph = {}
    for module, text in texts.items():
        found = set()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = {f"{node.module}.{alias.name}" for alias in node.names}
                found |= (names & texts.keys()) or {node.module}
        graph[module] = found & texts.keys() - {module}
    reach = {}
    for module in graph:
        seen, left = set(), [module]
        while left:
            more = graph[left.pop()] - seen
            seen |= more
            left += more
        reach[module] = seen
    return {frozenset(other for other in seen if module in reach[other]) for module, seen in reach.items()} - {
        frozenset()
    }


def test_no_more_modules_import_each_other_in_a_circle():
    texts = {}
    for path in sorted(ROOT.glob("packages/*/src/**/*.py")):
        name = path.as_posix().partition("/src/")[2].removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        texts[name] = path.read_text()
    found = import_cycles(texts)
    assert not found, found
    planted = {
        "a": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from b import B",
        "b": "def f():\n    import a",
    }
    assert import_cycles(planted) == {frozenset({"a", "b"})}
