"""Models from plain data: what is refused, and in which words; what every kind answers without rows."""

import pytest

from everhold.dependence import GaussianAR1, Groups, Independent, MarkovChain, dependence_from_dict
from everhold.errors import DependenceError
from everhold_privacy.networks.models import BayesianNetwork, MarkovNetwork

EVEN = [[0.5, 0.5], [0.5, 0.5]]
MODELS = [
    Independent(),
    Groups(3),
    MarkovChain([[0.9, 0.1], [0.2, 0.8]], gap=3),
    GaussianAR1(0.5),
    BayesianNetwork({"a": (2, (), [0.5, 0.5])}),
    MarkovNetwork({"a": 2, "b": 2}, [("ab", EVEN)]),
]
KINDS = [model.kind for model in MODELS]


@pytest.mark.parametrize("model", MODELS, ids=KINDS)
def test_an_entry_that_the_kind_does_not_know_is_refused(model):
    data = model.to_dict()
    assert dependence_from_dict(data) == model
    assert set(data) - {"kind"} <= model.entries.keys()
    with pytest.raises(DependenceError, match=r"unknown entry 'uncertanty'. Use only .*'kind'"):
        dependence_from_dict(data | {"uncertanty": 0.1})


@pytest.mark.parametrize("model", MODELS, ids=KINDS)
@pytest.mark.parametrize("rows", [0, -2])
def test_no_rows_are_worth_nothing_that_could_be_said(model, rows):
    with pytest.raises(ValueError, match=f"The number of rows is {rows}. Pass at least 1"):
        model.concentration(rows)


def test_groups_may_be_a_column_alone():
    assert dependence_from_dict({"kind": "groups", "column": "home"}) == Groups("home")
    assert dependence_from_dict({"kind": "groups", "sizes": [2, 3]}) == Groups([2, 3])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (3, "is of type int. Pass plain data"),
        (None, "is of type NoneType"),
        ([], "is of type list"),
        ({}, "The dependence has no kind. Add a kind, one of independent, groups"),
        ({"kind": "chain"}, "The dependence model 'chain' is unknown here. Expected one of"),
        ({"kind": ["groups"]}, r"The dependence model \['groups'\] is unknown here"),
        ({"kind": "markov_chain"}, "of kind 'markov_chain' lacks the entry 'transition'"),
        ({"kind": "bayesian_network", "names": ["a"]}, "of kind 'bayesian_network' lacks the entry"),
        ({"kind": "gaussian_ar1", "correlation": "x"}, "of kind 'gaussian_ar1' cannot be used: could not"),
        ({"kind": "groups"}, "The groups are not described. Pass a column, sizes or counts"),
        ({"kind": "groups", "column": 3}, "The column of the groups is 3"),
        ({"kind": "groups", "column": ""}, "has no name"),
        ({"kind": "groups", "sizes": "home"}, "sizes of groups are given together with"),
        ({"kind": "groups", "sizes": [2], "column": "home"}, "Pass one of them"),
        ({"kind": "groups", "counts": [3]}, "of kind 'groups' cannot be used"),
    ],
)
def test_data_that_describe_no_model_are_told_why(data, message):
    with pytest.raises(DependenceError, match=message):
        dependence_from_dict(data)
