"""`answer.value`: as near the sealed number as the label of a surprise allows, and exact only where it says so."""

import numpy as np
import pytest

import everhold as eh


def costs(seed):
    return {"cost": np.random.default_rng(seed).lognormal(0.0, 1.5, 1_000).clip(0.0, 60.0)}


def test_a_surprise_about_skewed_values_is_told_near_their_mean(tmp_path):
    sealed = costs(0)
    with eh.Holdout.create(tmp_path / "s.db", "x", holdout=sealed, training=costs(1), queries=20) as holdout:
        told = holdout.ask(eh.mean("cost", low=0, high=60), guess=30.0)
    true = sealed["cost"].mean()
    assert (told.source, told.exact) == ("holdout", False)
    assert abs(told.value - true) < 0.2 * abs((told.low + told.high) / 2.0 - true)
    assert "need not be equal" in told.explain()


@pytest.mark.parametrize(("dependence", "exact"), [(None, True), (eh.Groups("patient"), False)])
def test_a_declared_share_is_called_exact_only_where_it_is(tmp_path, dependence, exact):
    def visits(seed):
        rng = np.random.default_rng(seed)
        patient = np.repeat(np.arange(600), rng.integers(1, 8, 600))
        return {"patient": patient, "sick": (rng.normal(size=600)[patient] + rng.normal(size=len(patient)) > 2.0) * 1}

    sealed, query = visits(2), "sick = 1"
    with eh.Holdout.create(
        tmp_path / "s.db", "x", holdout=sealed, training=visits(3), queries=20, dependence=dependence,
        declared={"sick": eh.listed([query])},
    ) as holdout:  # fmt: skip
        told = holdout.ask(query)
    assert (told.source, told.exact, "exactly" in told.explain()) == ("declared", exact, exact)
    assert (told.value == pytest.approx(sealed["sick"].mean(), abs=1e-12)) is exact
    assert told.value == pytest.approx(sealed["sick"].mean(), abs=0.1 * (told.high - told.low))


def test_models_with_one_label_are_told_in_the_order_of_their_guesses(tmp_path):
    rng = np.random.default_rng(4)

    def rows():
        x = rng.normal(size=8_000)
        return {"x": x, "y": (x + rng.normal(size=8_000) > 0.0).astype(int)}

    rules = [f"x > {cut:.3f}" for cut in np.linspace(0.0, 0.02, 6)]
    with eh.Holdout.create(tmp_path / "s.db", "x", holdout=rows(), training=rows(), label="y", queries=100) as holdout:
        told = holdout.ask_many([eh.accuracy(rule) for rule in rules], guesses=np.linspace(0.74, 0.76, 6), reveal="all")
    assert len({(answer.low, answer.high) for answer in told}) < 4
    assert all(first.value < second.value for first, second in zip(told, told[1:], strict=False)
               if (first.low, first.high) == (second.low, second.high))  # fmt: skip
    assert all(answer.low < answer.value < answer.high for answer in told)


def test_a_search_that_was_silent_has_its_numbers_after_the_unsealing(tmp_path):
    from sklearn.tree import DecisionTreeClassifier

    from everhold.sklearn import SealedSearchCV

    rng = np.random.default_rng(5)

    def rows():
        x = rng.normal(size=1_000)
        return {"x": x, "y": (x + rng.normal(size=1_000) > 0.0).astype(int)}

    with eh.Holdout.create(tmp_path / "s.db", "x", holdout=rows(), training=rows(), label="y", queries=9) as holdout:
        tree = DecisionTreeClassifier(random_state=0)
        search = SealedSearchCV(
            tree, {"max_depth": [1, 2, 3]}, holdout=holdout, n_iter=3, cv=2, random_state=0, reveal="nothing"
        ).fit(*holdout.training_rows())
        assert np.isnan(search.best_score_)
        best = search.best_index_
        holdout.unseal()
        assert search.best_index_ == best
        assert search.best_score_ == search.best_answer_.sealed == search.cv_results_["answer"][best]
        assert not np.isnan(search.cv_results_["answer_low"]).any()
