"""Pictures of rows and what joins them: every model of dependence has one that says what it says."""

import numpy as np
import pytest

from everhold.dependence import GaussianAR1, Groups, Independent, MarkovChain, dependence_from_dict
from everhold.dependence.base import Links
from everhold_privacy.networks.pedigree import pedigree

pytest.importorskip("vl_convert")

from everhold.charts import svg_text
from everhold.charts.dependence import links_chart, placed, portrait_of, sets_chart

FAMILY = {"Ann": (None, None), "Bob": (None, None), "Cem": ("Bob", "Ann"), "Dan": (None, None), "Eve": ("Dan", "Cem")}
NETWORK = pedigree(FAMILY, allele_frequency=0.3, latent=["Dan"])
MODELS = {
    "Which rows tell about each other": (Independent(), NETWORK),
    "Which rows belong together": (Groups([3] * 5 + [1] * 4), Groups(5)),
    "How far rows reach": (MarkovChain([[0.8, 0.2], [0.3, 0.7]]), GaussianAR1(0.6)),
}


def layers(chart):
    """The rows of each layer's data."""
    told = chart.to_dict()
    return [told["datasets"][layer.get("data", told.get("data"))["name"]] for layer in told["layer"]]


@pytest.mark.parametrize(("title", "model"), [(title, model) for title, both in MODELS.items() for model in both])
def test_every_kind_of_model_is_drawn_from_what_its_certificate_says(title, model):
    told = dependence_from_dict(model.to_dict())
    assert portrait_of(told).title == title
    assert svg_text(portrait_of(dependence_from_dict(model.to_dict())).draw(), title="t").startswith("<svg")


@pytest.mark.parametrize("model", [Groups("patient"), GaussianAR1(0.0), MarkovChain([[0.5, 0.5], [0.5, 0.5]])])
def test_where_there_is_nothing_to_see_no_picture_is_promised(model):
    assert portrait_of(model) is None


def test_shares_of_rows_by_size_add_up():
    ((*bars,),) = layers(sets_chart({1: 4, 3: 5}))
    assert {(bar["from"], bar["to"]): round(bar["share"] * 19) for bar in bars} == {(0.5, 1.5): 4, (2.5, 3.5): 15}


def test_many_sizes_share_bars_and_none_is_lost():
    ((*bars,),) = layers(sets_chart(dict.fromkeys(range(1, 1001), 2)))
    assert len(bars) <= 30
    assert sum(bar["share"] for bar in bars) == pytest.approx(1.0)
    assert max(bar["to"] for bar in bars) >= 1_000


def test_lines_join_the_dots_that_they_are_between_and_latent_ones_are_hollow():
    links = NETWORK.links(10)
    lines, dots = layers(links_chart(links))
    ends = {((line["x"], line["y"]), (line["to_x"], line["to_y"])) for line in lines}
    at = [(dot["x"], dot["y"]) for dot in dots]
    assert ends == {(at[first], at[second]) for first, second in links.lines}
    assert [dot["kind"] for dot in dots] == ["row", "row", "row", "latent", "row"]
    assert {(0, 1), (0, 2), (1, 2), (2, 3), (2, 4), (3, 4)} == set(links.lines)  # parents of one child, too


def test_dots_that_are_joined_are_near_each_other_and_none_covers_another():
    links = Links(20, tuple((place, place + 1) for place in range(19)))
    at = placed(links)
    distance = np.linalg.norm(at[:, None] - at[None, :], axis=2)
    assert distance[~np.eye(20, dtype=bool)].min() > 0.05
    assert np.mean([distance[pair] for pair in links.lines]) < 0.5 * distance.mean()
    assert np.array_equal(at, placed(links))


def test_too_many_nodes_are_shown_as_sets_that_are_independent():
    families = {f"{number} {who}": tuple(parent and f"{number} {parent}" for parent in of)
                for number in range(40) for who, of in FAMILY.items()}  # fmt: skip
    many = pedigree(families, allele_frequency=0.3, latent=["0 Dan"])
    assert many.links(100) is None
    assert portrait_of(many).title == "Which rows belong together"
    assert many.independent_sets() == {4: 1, 5: 39}
