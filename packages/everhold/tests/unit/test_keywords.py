"""Functions that share keywords: their signatures and their help name each one, and any other is refused."""

import inspect
import re
from inspect import Parameter

import pytest

import everhold as eh
from everhold.families.study import plan_study
from everhold.queries.metrics.scores import metric_of

CALLED = [
    eh.Holdout.gate, eh.Holdout.evaluate, eh.Holdout.compare, eh.metric, eh.risk_difference, eh.risk_ratio,
    eh.seal_cases, plan_study,
]  # fmt: skip


@pytest.mark.parametrize("called", CALLED, ids=lambda called: called.__qualname__)
def test_help_names_every_keyword_with_its_meaning(called):
    shown, said = inspect.signature(called).parameters, inspect.getdoc(called)
    assert not [each for each in shown.values() if each.kind is Parameter.VAR_KEYWORD]
    for name in shown.keys() - {"self"}:
        assert re.search(rf"^ +{name}: |``{name}``", said, re.MULTILINE), name


@pytest.mark.parametrize("called", [*CALLED, metric_of], ids=lambda called: called.__qualname__)
def test_an_unknown_keyword_is_an_error_of_types(called):
    shown = inspect.signature(called).parameters.values()
    given = {each.name: None for each in shown if each.default is each.empty}
    with pytest.raises(TypeError, match=r"got an unexpected keyword argument 'wrong'"):
        called(**given, wrong=1)


def test_what_is_needed_stays_needed():
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'control'"):
        eh.risk_ratio("died = 1", arm="arm", treated="B")
    assert inspect.signature(eh.risk_ratio).parameters["control"].default is Parameter.empty
