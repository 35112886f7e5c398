"""Sentences of a certificate that depend on how a holdout was made: families, arrivals, warnings, differences."""

import numpy as np
import pytest

import everhold as eh
from everhold.certificate import verify_certificate

ARMS = {"arm": "arm", "treated": "B", "control": "A"}


def trial(seed, n=4_000):
    r = np.random.default_rng(seed)
    arm = r.integers(0, 2, n)
    return {
        "arm": np.where(arm, "B", "A").astype(object), "died": (r.random(n) < 0.3 - 0.07 * arm).astype(int),
        "pressure": r.normal(130, 15, n).clip(60, 200),
    }  # fmt: skip


def patients(seed):
    return {**trial(seed), "patient": 10**6 * seed + np.arange(4_000) // 2}


def certified(holdout, answers=(), path=None):
    certificate = holdout.certificate(answers)
    if path is not None:
        certificate.save(path)
        assert verify_certificate(path).ok
    return certificate.in_words()


@pytest.mark.parametrize("dependence", [None, eh.Groups("patient")])
@pytest.mark.parametrize("declared", [None, {"end points": eh.listed(["died = 1"])}])
def test_beta_and_guesses_are_explained_as_they_are(tmp_path, dependence, declared):
    rows = trial if dependence is None else patients
    with eh.Holdout.create(
        tmp_path / "a.db", "a", holdout=rows(1), training=rows(2), queries=10, declared=declared,
        dependence=dependence,
    ) as holdout:  # fmt: skip
        holdout.ask("died = 1")
        document = certified(holdout, path=tmp_path / "a.html")
    says, source = document["theorem"]["says"], document["theorem"]["source"]
    assert "learned wrongly" not in says
    assert ("S10" in says, "50 %" in says) == (True, declared is not None)  # short texts have S10, too
    assert "S10" in source
    assert ("no guess enters" in document["mechanism"]["explanation"]) == (declared is not None)


def test_differences_of_rates_are_percentage_points_and_none_is_none(tmp_path):
    names = {
        "deaths": eh.risk_difference("died = 1", **ARMS),
        "pressure": eh.risk_difference(eh.mean("pressure", low=60, high=200), **ARMS),
    }
    with eh.Holdout.create(tmp_path / "a.db", "a", holdout=trial(1), training=trial(2), queries=10) as holdout:
        holdout.ask(names["deaths"])
        holdout.ask(names["pressure"], guess=0.0)
        deaths, pressure = certified(holdout, names)["summary"]["sentences"]
    assert "percentage points less, between" in deaths
    assert pressure.startswith("pressure: no difference, between ")


@pytest.mark.parametrize("mechanism", ["guess_and_check", "laplace"])
def test_both_arms_asked_apart_are_percentage_points_too(tmp_path, mechanism):
    query = eh.risk_difference("died = 1", **ARMS)
    with eh.Holdout.create(
        tmp_path / "a.db", "a", holdout=trial(1, 40_000), training=trial(2), queries=10, mechanism=mechanism
    ) as holdout:
        holdout.ask(query)
        (sentence,) = certified(holdout, {"deaths": query})["summary"]["sentences"]
    assert "percentage points" in sentence


def test_answers_name_their_rows_everywhere(tmp_path):
    def rows(seed, n):
        return {"x": np.random.default_rng(seed).normal(0, 1, n)}

    with eh.Holdout.create(
        tmp_path / "a.db", "a", holdout=rows(1, 4_000), training=rows(2, 4_000), queries=20, surprises=2,
        planning=eh.Planning(grows=True),
    ) as holdout:  # fmt: skip
        first = holdout.ask("x > 0")
        for number in range(12):
            holdout.ask(f"x > {number / 10}", guess=0.99)  # surprises, so that a tree opens
        holdout.append(rows(3, 40_000), until="2026-01-01")
        later = holdout.ask("x > 0")
        both = holdout.ask(eh.mean("x > 1", given="x > 0"))
        assert (first.rows, later.rows) == (None, (4_001, 44_000))
        assert both.rows == later.rows
        assert "about rows 4,001 to 44,000" in str(later)
        assert later.to_dict()["rows"] == [4_001, 44_000]
        means = certified(holdout, {"early": 1, "late": later}, tmp_path / "a.html")["summary"]["means"]
        assert any("of early is that of the population that rows 1 to 4,000 were drawn from" in text for text in means)
        assert any("of late is that of the population that rows 4,001 to 44,000" in text for text in means)
        assert not any("40,000 that arrived" in text for text in means)
        told = {row["sequence"]: row["rows"] for row in holdout.unseal().to_rows()}
    assert told[1] is None
    assert tuple(told[max(told)]) == (4_001, 44_000)


def test_what_was_warned_of_is_on_the_certificate(tmp_path):
    def visits(seed):
        r = np.random.default_rng(seed)
        patient = np.repeat(np.arange(800), 5)
        return {"patient": 1_000 * seed + patient, "died": (r.random(800) < 0.3)[patient].astype(int)}

    with pytest.warns(eh.DependenceWarning) as warned:
        holdout = eh.Holdout.create(
            tmp_path / "a.db", "a", holdout=visits(1), training=visits(2), label="died", queries=10
        )
    with holdout:
        with pytest.warns(eh.DependenceWarning):
            holdout.ask("died = 1")
        document = certified(holdout, [1], tmp_path / "a.html")
    texts = [str(each.message) for each in warned]
    assert document["rows"]["warned"] == texts
    assert any(texts[0] in text for text in document["assumptions"]["how_to_tell"])
    assert any("warning" in text for text in document["summary"]["assumed"])
