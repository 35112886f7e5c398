"""Zhao's Theorem 2 for dependent rows: shown beside the promises with its label, and never one of them."""

from dataclasses import dataclass

import pytest

from everhold.dependence import DependenceModel, Groups, Independent
from everhold.planning import plan
from everhold.planning.inverse import published_bound, published_rows_needed, published_statements
from everhold.planning.request import LEAST_RADIUS, PlanRequest
from everhold_lab.published import zhao_theorem_2_rows
from everhold_lab.published.bayesian_privacy import chain_privacy_for
from everhold_lab.published.classical import best_radius

LABEL = "published, proof incomplete"
SESSION = {"queries": 100, "surprises": 2, "confidence": 0.95, "slack": 1 / 3}


@dataclass(frozen=True)
class Chain(DependenceModel):
    """A reversible chain, by Lemma 4 alone; with few rows all others are nearby."""

    gap: float = 0.5
    least: float = 0.3

    def leakage(self, curve, rows):
        return curve.group(3)

    def concentration(self, rows):
        return rows / 3

    def bayesian_price(self, epsilon, rows):
        prescribed = chain_privacy_for(epsilon, rows=rows, gap=self.gap, least=self.least)
        return min(rows / epsilon, 1 / prescribed if prescribed else float("inf"))

    def describe(self):
        return "rows are a chain"

    def to_dict(self):
        return {"kind": "chain of this test"}

    @classmethod
    def from_dict(cls, data):
        return cls()


@dataclass(frozen=True)
class Growing(Chain):
    """A price that rises with the rows, slower than they do."""

    def bayesian_price(self, epsilon, rows):
        return rows**0.1 / epsilon


@dataclass(frozen=True)
class Unknown(Chain):
    """Nothing is known."""

    def bayesian_price(self, epsilon, rows):
        return DependenceModel.bayesian_price(self, epsilon, rows)


def zhao(made):
    return next(line for line in made.published if line.statement == "zhao_theorem_2")


@pytest.mark.parametrize("size", [1, 2, 7])
def test_groups_cost_their_size_in_rows(size):
    session = PlanRequest(rows=1, **SESSION, dependence=Groups(size))
    alone = zhao_theorem_2_rows(0.1 - LEAST_RADIUS, **SESSION).rows
    assert published_rows_needed("zhao_theorem_2", session, 0.1) == pytest.approx(size * alone, abs=size)


@pytest.mark.parametrize("model", [Groups(3), Chain(), Growing()])
def test_rows_needed_are_the_fewest_that_keep_the_radius(model):
    session = PlanRequest(rows=1, **SESSION, dependence=model)
    needed = published_rows_needed("zhao_theorem_2", session, 0.4)

    def radius(rows):
        return published_bound("zhao_theorem_2", session.with_rows(rows)).radius + LEAST_RADIUS

    assert radius(needed) <= 0.4 * (1 + 1e-9)
    assert radius(needed - 1) > 0.4 * (1 - 1e-9)
    assert radius(needed // 2) > 0.4


def test_a_chain_is_priced_by_lemma_4():
    tolerance = (2 / 3) * 0.1 / 4
    prescribed = chain_privacy_for(tolerance / 3, rows=10**6, gap=0.5, least=0.3)
    alone = zhao_theorem_2_rows(0.1, **SESSION).rows
    needed = published_rows_needed("zhao_theorem_2", PlanRequest(rows=1, **SESSION, dependence=Chain()), 0.1)
    assert needed == pytest.approx(alone * (tolerance / 3) / prescribed, rel=1e-3)


def test_the_line_has_its_label_and_the_promise_is_another():
    made = plan(rows=3_000_000, **SESSION, dependence=Groups(2), radius=0.1)
    line = zhao(made)
    assert line.note == LABEL
    assert line.radius is not None
    assert line.rows_needed is not None
    assert made.best.mechanism in {line.mechanism for line in made.lines}
    assert [row["note"] for row in made.to_rows() if row["by"] == "zhao_theorem_2"] == [LABEL]
    assert {found.statement for found in best_radius(made.best.tuned)} == {made.best.statement}
    assert zhao(plan(queries=100, surprises=2, radius=0.1, dependence=Groups(2))).note == LABEL


def test_without_structure_no_number_of_rows_will_do():
    line = zhao(plan(rows=3_000_000, **SESSION, dependence=Unknown(), radius=0.1))
    assert (line.radius, line.rows_needed, line.note) == (None, None, f"no radius below 1, {LABEL}")


def test_only_zhao_speaks_of_dependent_rows():
    assert published_statements(PlanRequest(rows=1, queries=1, surprises=1, dependence=Groups(2))) == (
        "zhao_theorem_2",
    )
    independent = plan(rows=3_000_000, **SESSION, dependence=Independent())
    assert len(published_statements(independent.request())) == len(independent.published) == 5
    assert LABEL not in {line.note for line in independent.published}


def test_the_picture_says_that_the_proof_is_incomplete():
    pytest.importorskip("altair")
    drawn = plan(rows=3_000_000, **SESSION, dependence=Groups(2)).chart("rows").to_dict()
    colour = drawn["layer"][0]["encoding"]["color"]
    assert "zhao_theorem_2" in colour["scale"]["domain"]
    assert "jung_2020" not in colour["scale"]["domain"]
    assert "proof incomplete" in colour["legend"]["labelExpr"]
