"""Examples in docs, README and docstrings run in a folder of their own; Hypothesis tries the same examples each time.

``make test`` gives one version of the code one verdict. ``make hunt`` looks for new counterexamples.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest
from _pytest.doctest import DoctestItem
from hypothesis import settings

if TYPE_CHECKING:
    from pathlib import Path

# no examples in there, and doctest would import them all under one name
collect_ignore_glob = [
    "lab/tests/coverage_studies/diagnosis_study.py",  # a program: doctest would import it without its package
    "tests/**/conftest.py",
    "lab/tests/conftest.py",
    "lab/tests/**/conftest.py",
]
if not find_spec("mkdocs"):  # where packages are tried, and nothing that only the pages are made with
    collect_ignore_glob += ["docs/notebook_pages.py", "tests/test_notebooks.py"]

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"  # read when it is imported; tests call nobody

settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("hunt", derandomize=False, deadline=None, print_blob=True)
settings.load_profile("same")


@pytest.fixture(autouse=True)
def _folder_of_its_own(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if isinstance(request.node, DoctestItem):
        monkeypatch.chdir(tmp_path)
