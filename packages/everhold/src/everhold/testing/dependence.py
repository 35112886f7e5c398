"""Contract of a dependence model: inherit `DependenceContract` and define `make`.

::

    class TestMine(DependenceContract):
        def make(self):
            return Mine(...)
"""

import json
from contextlib import suppress
from typing import Any

import numpy as np

from everhold.dependence import Independent, dependence_from_dict
from everhold.errors import DependenceError
from everhold.mechanisms import MECHANISMS


class DependenceContract:
    """Contract suite of a dependence model. `make` has to return a model with which a holdout can be planned."""

    rows = 2_000

    def make(self):
        """Return the model to test."""
        raise NotImplementedError

    def test_plain_data_and_back(self):
        model = self.make()
        data = json.loads(json.dumps(model.to_dict(), allow_nan=False))
        again = dependence_from_dict(data)
        assert again == model
        assert hash(again) == hash(model)
        assert data["kind"] == model.kind

    def test_rows_are_worth_at_most_their_number(self):
        model = self.make()
        assert 0.0 < model.concentration(self.rows) <= self.rows

    def test_twice_the_rows_are_not_worth_less(self):
        model = self.make()
        assert model.concentration(2 * self.rows) >= model.concentration(self.rows)

    def test_every_mechanism_promises_less_than_for_independent_rows(self):
        model = self.make()
        served = []
        for name, kind in MECHANISMS.items():
            wanted: dict[str, Any] = {"rows": self.rows, "queries": 5, "confidence": 0.9}
            if kind.recommendable():
                with suppress(DependenceError):  # it takes no rows that depend on each other so
                    tied, free = (kind.tuned(**wanted, dependence=rows) for rows in (model, Independent()))
                    served.append(name)
                    near = 1.0 - 1e-3  # tuning ends near the best scale
                    assert tied.promise().radius >= free.promise().radius * near
        assert "guess_and_check" in served

    def test_failures_that_the_model_owns_up_to_are_probabilities(self):
        model = self.make()
        assert 0.0 <= model.miss < 1.0
        assert 0.0 <= model.training_distance() < 1.0

    def test_bayesian_privacy_never_costs_less_than_for_independent_rows(self):
        assert self.make().bayesian_price(0.5, self.rows) >= 2.0

    def test_it_says_what_it_assumes_in_one_sentence(self):
        said = self.make().describe()
        assert said
        assert said[0].islower()
        assert not said.endswith(".")

    def test_what_is_drawn_of_it_are_influences_lines_between_dots_or_sets_of_rows(self):
        model = self.make()
        links, sets = model.links(10**6), model.independent_sets()
        with suppress(DependenceError):  # it says too little
            told = model.influences(20)
            for line in () if told is None else told[1].values():
                assert np.shape(line) == (20,)
                assert np.all(np.asarray(line) >= 0.0)
        if links is not None:
            dots = set(range(links.places))
            assert dots.issuperset(links.latent)
            assert all(first in dots and second in dots and first != second for first, second in links.lines)
        assert sets is None or all(size >= 1 and number >= 1 for size, number in sets.items())
