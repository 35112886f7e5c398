"""Examples in docs, README and docstrings run in a folder of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from _pytest.doctest import DoctestItem

if TYPE_CHECKING:
    from pathlib import Path

collect_ignore_glob = ["tests/**/conftest.py"]  # no examples in there, and doctest would import them under one name


@pytest.fixture(autouse=True)
def _folder_of_its_own(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if isinstance(request.node, DoctestItem):
        monkeypatch.chdir(tmp_path)
