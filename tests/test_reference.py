"""The page of the Python interface: each public name is on it."""

import re
from pathlib import Path
from types import ModuleType

import pytest

import everhold as eh

PAGE = (Path(__file__).parents[1] / "docs/reference/python.md").read_text(encoding="utf-8")
SHOWN = set(re.findall(r"^::: (\S+)", PAGE, re.MULTILINE))


@pytest.mark.parametrize("name", eh.__all__)
def test_a_public_name_is_on_the_page(name):
    value = getattr(eh, name)
    module = value.__name__ if isinstance(value, ModuleType) else value.__module__
    assert {f"everhold.{name}", f"{module}.{name}", module} & SHOWN
