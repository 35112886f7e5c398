"""What `import everhold` offers, and that all of it is documented."""

import importlib
import inspect
import pkgutil

import pytest

import everhold


def modules():
    found = [name for _, name, _ in pkgutil.walk_packages(everhold.__path__, "everhold.")]
    return ["everhold", *found]


def test_the_public_names_are_sorted_and_there():
    assert list(everhold.__all__) == sorted(set(everhold.__all__))
    assert all(hasattr(everhold, name) for name in everhold.__all__)


def public_parts(thing):
    yield thing
    if inspect.isclass(thing):
        for name, part in vars(thing).items():
            part = part.__func__ if isinstance(part, (classmethod, staticmethod)) else part
            if not name.startswith(("_", "test_")) and (inspect.isfunction(part) or isinstance(part, property)):
                yield part


@pytest.mark.parametrize("name", modules())
def test_every_public_thing_has_a_docstring(name):
    module = importlib.import_module(name)
    assert module.__doc__
    listed = getattr(module, "__all__", [public for public in vars(module) if not public.startswith("_")])
    for public in listed:
        thing = getattr(module, public)
        if getattr(thing, "__module__", None) == name and (inspect.isclass(thing) or inspect.isfunction(thing)):
            bare = [part for part in public_parts(thing) if not inspect.getdoc(part)]
            assert not bare, bare
