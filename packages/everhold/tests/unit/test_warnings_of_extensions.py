"""A warning points at the first line outside everhold, also where the code of an extension lies in between."""

import warnings

import pytest

from everhold.errors import EverholdWarning, warn_caller

WARNING = EverholdWarning("only 20 rows are sealed")


def function_of(module, warn, text):
    """A function of a module that lies in a folder of its own, and warns."""
    names = {"__name__": module, "warn": warn, "text": text}
    exec(compile("def called():\n    warn(text)\n", f"/site/{module}.py", "exec"), names)
    return names["called"]


def file_of_warning(module):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function_of(module, warn_caller, WARNING)()
    (warning,) = caught
    return warning.filename


@pytest.mark.parametrize("module", ["everhold.holdout", "everhold_extra", "everhold_extra.rows.engine"])
def test_frames_of_every_distribution_of_everhold_are_skipped(module):
    assert file_of_warning(module) == __file__


@pytest.mark.parametrize("module", ["study", "everholding", "analysis.everhold"])
def test_frames_of_other_code_are_the_callers(module):
    assert file_of_warning(module) == f"/site/{module}.py"
