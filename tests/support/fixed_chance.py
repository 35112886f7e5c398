"""The random bytes of the operating system, which are the same in every run, so that no test fails by chance.

Keys, noise, secret orders and random parts follow from the name of a test and from ``--chance``. ``make hunt`` passes a
new one. Other processes draw from the operating system, also forked ones.
"""

import multiprocessing  # noqa: F401, draws a key when it is imported, which is to be no part of a test
import os
import random
from contextlib import contextmanager

import numpy.random  # noqa: F401, draws a seed then
import pytest

__all__ = ["fixed_chance"]

_of_the_system = os.urandom
_chance = "same"
_drawn = None


def _random_bytes(size):
    if _drawn is None or _drawn[0] != os.getpid():
        return _of_the_system(size)
    return _drawn[1].randbytes(size)


os.urandom = random._urandom = _random_bytes  # `secrets` and generators of NumPy without a seed use the second


@contextmanager
def fixed_chance(*name):
    """Context in which the random bytes of this process follow from this name."""
    global _drawn
    outer, _drawn = _drawn, (os.getpid(), random.Random(repr((_chance, *name))))
    try:
        yield
    finally:
        _drawn = outer


def pytest_addoption(parser):
    """Add the option of ``make hunt``."""
    parser.addoption("--chance", default=_chance, help="a text from which the random bytes of all tests follow")


def pytest_configure(config):
    """Take over the option."""
    global _chance
    _chance = config.getoption("--chance")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Draw the same random bytes whenever a test runs."""
    with fixed_chance(item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    """Draw the same random bytes for a fixture that tests share, whichever of them runs first."""
    if fixturedef.scope == "function":
        return (yield)
    with fixed_chance(fixturedef.baseid, fixturedef.argname, getattr(request, "param_index", 0)):
        return (yield)
