"""The notebooks of the documentation run as they stand, say what they say there, and become its pages."""

import importlib.util
import json
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from everhold.progress import SWITCH

DOCS = Path(__file__).parents[1] / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))


def said(notebook):
    """What each cell prints or shows as text, without digits: hashes, moments and places differ from run to run."""
    return [
        re.sub(r"[0-9a-f]*\d[0-9a-f]*", "#", "".join(output.get("text") or output["data"].get("text/plain", "")))
        for cell in notebook.cells if cell.cell_type == "code"
        for output in cell.outputs
    ]  # fmt: skip


def test_there_is_one_for_each_of_three_people():
    assert {path.stem for path in NOTEBOOKS} == {"clinical-statistician", "competition-host", "data-scientist"}


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore")  # of the client's sockets and event loops, not of the notebook's kernel
def test_a_notebook_runs_and_says_what_the_documentation_shows(path, tmp_path, monkeypatch):
    monkeypatch.setenv(SWITCH, "off")
    notebook = nbformat.read(path, as_version=4)
    shown = said(notebook)
    NotebookClient(
        notebook, timeout=300, startup_timeout=300, coalesce_streams=True, resources={"metadata": {"path": tmp_path}}
    ).execute()
    assert said(notebook) == shown
    assert len(shown) > 5


@pytest.fixture(scope="module")
def pages():
    spec = importlib.util.spec_from_file_location("notebook_pages", DOCS / "notebook_pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_becomes_a_page_with_its_outputs_and_without_scripts(path, pages):
    page = pages.page_of(path.read_text(), name=path.name)
    assert page.count("```python") == sum(cell["cell_type"] == "code" for cell in json.loads(path.read_text())["cells"])
    assert "<svg" in page
    assert "<progress" in page
    assert f"({path.name})" in page
    assert not re.search(r"<script|<link|<iframe|src=\"http|@import|url\(http", page)
    assert "\n\n" not in "".join(re.findall(r"<div>\n(.*?)\n</div>", page, flags=re.DOTALL))  # it would end the HTML


def test_no_notebook_knows_where_it_was_run():
    for path in NOTEBOOKS:
        assert not re.search(r"/(?:tmp|root|home)/|ipykernel_\d", path.read_text())
        assert path.stat().st_size < 150_000
