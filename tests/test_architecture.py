"""The map is true: files that it names exist, rooms that exist are on it, and its picture is drawn from the imports."""

import importlib.util
import re
import runpy
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE, PAGE = ROOT / "src" / "everhold", ROOT / "docs" / "architecture.md"
ELSEWHERE = {"contracts", "walks"}  # suites that the tests of several rooms inherit; what new users do


def rooms():
    return {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}


def named():
    return re.findall(r"`([\w/.]+\.pyi?)`", PAGE.read_text())


@pytest.fixture(scope="module")
def house():
    spec = importlib.util.spec_from_file_location("house", ROOT / "docs" / "house.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_file_on_the_map_exists():
    missing = [name for name in named() if not any((base / name).is_file() for base in (SOURCE, ROOT))]
    assert len(named()) > 40
    assert missing == []


def test_every_file_decides_in_one_row_of_the_table():
    table = PAGE.read_text().partition("## Who decides this?")[2].partition("\n## ")[0]
    files = re.findall(r"`([\w/.]+)`", table)
    assert len(files) > 100
    assert sorted({name for name in files if files.count(name) > 1}) == []


def test_every_room_is_on_the_map_and_in_the_picture(house):
    page, picture = PAGE.read_text(), house.PICTURE.read_text()
    assert [room for room in rooms() if f"`{room}/" not in page and room != "charts"] == []
    assert rooms() <= set(re.findall(r'id="room-(\w+)"', picture))


def test_the_picture_is_drawn_from_the_imports(house):
    shown = set(re.findall(r'class="from-(\w+) to-(\w+)"', house.PICTURE.read_text()))
    assert shown == house.drawn(house.rows(), house.imports()), "run make house"


def test_tests_mirror_the_source():
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders - rooms() == ELSEWHERE


def test_every_test_file_goes_by_the_name_of_what_it_tests():
    lost = []
    for test in sorted((ROOT / "tests").glob("*/test_*.py")):
        room, name = SOURCE / test.parent.name, test.stem.removeprefix("test_")
        known = (
            {path.stem for path in room.rglob("*.py")} | {path.name for path in room.rglob("*")} | {room.name, "new"}
        )
        if test.parent.name not in ELSEWHERE and not any(
            name.startswith(part) or part.startswith(name) for part in known
        ):
            lost.append(f"{test.parent.name}/{test.name}")
    assert lost == []


def test_make_lowest_knows_the_lower_bound_of_every_dependency():
    bounds = runpy.run_path(str(ROOT / ".ci" / "lower_bounds.py"))["lower_bounds"](["plots", "sklearn"])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["plots"], *extras["sklearn"]]
    assert wanted
    assert all(f"{name}>={bounds[name]}" == line for line in wanted for name in [line.partition(">=")[0]])
