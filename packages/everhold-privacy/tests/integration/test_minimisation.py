"""Gradient descent on sealed rows: the regret is kept, also under drawn errors, and fails without its allowance."""

import re

import numpy as np
import pytest
from scipy.optimize import minimize

import everhold as eh
from everhold.errors import BudgetExhausted, QueryRejected
from everhold_privacy.minimisation import gradient_regret

BEST = np.array([0.8, -0.4])
LONGEST = 2.0


def rows(seed, count=20_000):
    """Features on the unit disc and a label in {-1, 1}, by the logistic model with the coefficients 2 * BEST."""
    rng = np.random.default_rng(seed)
    angle, length = rng.uniform(0, 2 * np.pi, count), np.sqrt(rng.uniform(0, 1, count))
    x, z = length * np.cos(angle), length * np.sin(angle)
    chance = 1 / (1 + np.exp(-2 * (x * BEST[0] + z * BEST[1])))
    return {"x": x, "z": z, "y": np.where(rng.random(count) < chance, 1, 0)}


def loss(parameter, table):
    sign = 2 * table["y"] - 1
    margin = 2 * sign * (table["x"] * parameter[0] + table["z"] * parameter[1])
    return np.logaddexp(0, -margin).mean()


def slope(table, parameter):
    features = np.column_stack([table["x"], table["z"]])
    sign = 2 * table["y"] - 1
    weight = -2 * sign / (1 + np.exp(2 * sign * (features @ parameter)))
    return features * weight[:, None]


@pytest.fixture
def holdout(tmp_path):
    with eh.Holdout.create(
        tmp_path / "m.db", "m", holdout=rows(0), training=rows(1), label="y", mechanism="privacy_budget", queries=25
    ) as made:
        yield made


def test_the_regret_of_a_minimum_holds_for_the_population(holdout):
    found = eh.minimise(holdout, slope, start=[0.0, 0.0], radius=1.0, clip=LONGEST, steps=25)
    population = rows(7, 400_000)
    regret = loss(found.parameter, population) - loss(BEST, population)
    assert regret <= found.regret < 2.0  # what the length of gradients alone gives
    assert found.steps == 25
    assert found.charged == 25 * 100
    assert found.remaining == {"queries": 0, "credits": 0}
    assert found.confidence == 0.95
    assert np.linalg.norm(found.parameter) <= 1.0
    assert "25 steps" in str(found)
    assert found.to_dict()["parameter"] == found.parameter.tolist()
    with pytest.raises(ValueError, match="read-only"):
        found.parameter[0] = 1.0


def test_named_steps_are_repeated_free_of_charge(holdout):
    wanted = {"start": [0.0, 0.0], "radius": 1.0, "clip": LONGEST, "steps": 4, "name": "fit"}
    first, again = eh.minimise(holdout, slope, **wanted), eh.minimise(holdout, slope, **wanted)
    assert first.charged == 400
    assert again.charged == 0
    assert again.parameter.tolist() == first.parameter.tolist()
    assert again.regret == first.regret


def test_descent_ends_with_the_budget_and_says_so(holdout):
    found = eh.minimise(holdout, slope, start=[0.0, 0.0], radius=1.0, clip=LONGEST, steps=40)
    assert found.steps == 25
    with pytest.raises(BudgetExhausted):
        eh.minimise(holdout, slope, start=[0.0, 0.0], radius=1.0, clip=LONGEST, steps=1)


def test_a_training_row_with_a_longer_gradient_is_refused_and_nothing_is_charged(holdout):
    with pytest.raises(QueryRejected, match=r"above clip = 0\.5"):
        eh.minimise(holdout, slope, start=[0.0, 0.0], radius=1.0, clip=0.5, steps=3)
    assert holdout.remaining == {"queries": 25, "credits": 2500}


PASS = {
    "start": "Pass one finite number for each coordinate.",
    "radius": "Pass a finite number above 0, such as 1.",
    "steps": "Pass a whole number of at least 1.",
    "derivative": "Pass a function of a table and a parameter.",
    "clip": "Pass a positive finite number.",
    "tolerance": "Pass a positive finite number.",
}


@pytest.mark.parametrize(
    "wrong",
    [
        {"start": 0.0}, {"start": []}, {"start": [np.nan, 0.0]}, {"radius": 0.0}, {"radius": np.inf}, {"steps": 0},
        {"start": "here"}, {"start": None}, {"derivative": 3}, {"steps": 2.5}, {"steps": True}, {"clip": 0.0},
        {"tolerance": -1.0},
    ],
    ids=str,
)  # fmt: skip
def test_bad_arguments_are_refused_and_nothing_is_charged(holdout, wrong):
    wanted = {"start": [0.0, 0.0], "radius": 1.0, "clip": LONGEST, "steps": 3} | wrong
    (name,) = wrong
    with pytest.raises(ValueError, match=rf"^{name} .*{re.escape(PASS[name])}$"):
        eh.minimise(holdout, wanted.pop("derivative", slope), **wanted)
    assert holdout.remaining == {"queries": 25, "credits": 2500}


def descents(seed, steps=30, within=0.3):
    """Descent on ``|A p - b|`` with adversarial or random errors of the gradients, and its true regret."""
    rng = np.random.default_rng(seed)
    matrix, target = rng.normal(size=(3, 3)), rng.normal(size=3)

    def value(parameter):
        return float(np.linalg.norm(matrix @ parameter - target))

    def true_gradient(parameter):
        gap = matrix @ parameter - target
        return matrix.T @ gap / max(np.linalg.norm(gap), 1e-12)

    start, radius, rate = rng.normal(size=3), 1.0, rng.uniform(0.01, 1.0)
    best = minimize(
        value, start, constraints={"type": "ineq", "fun": lambda p: radius**2 - np.sum((p - start) ** 2)}, tol=1e-10
    ).x
    towards = (start - best) / np.linalg.norm(start - best) * (1 if seed % 2 else -1)
    place, places, answers = start.copy(), [], []
    for _ in range(steps):
        error = towards if seed % 3 else rng.normal(size=3)
        answer = true_gradient(place) + within * error / np.linalg.norm(error)
        places.append(place)
        answers.append(answer)
        moved = place - rate * answer - start
        place = start + moved * min(1.0, radius / max(np.linalg.norm(moved), 1e-12))
    regret = value(np.mean(places, axis=0)) - value(best)
    clip = float(np.linalg.norm(matrix, 2))
    widths = np.full(steps, within)
    claimed = gradient_regret(places, answers, widths, start=start, radius=radius, clip=clip)
    unprotected = gradient_regret(places, answers, 0.0 * widths, start=start, radius=radius, clip=clip)
    return regret, claimed, unprotected


def test_the_regret_holds_for_every_error_within_the_promise_and_fails_without_its_allowance():
    games = [descents(seed) for seed in range(60)]
    assert all(regret <= claimed + 1e-7 for regret, claimed, _ in games)
    assert sum(regret > unprotected + 1e-7 for regret, _, unprotected in games) >= 5
    assert any(regret > 0.5 * claimed for regret, claimed, _ in games)


def test_exact_gradients_give_the_regret_of_descent():
    """With no error the bound falls as 1 / sqrt(T), with the constant of the step size: at most 2 sqrt(2) R G."""
    for steps in (25, 400):
        place, places, answers = np.array([0.0]), [], []
        for _ in range(steps):
            places.append(place)
            answers.append(np.sign(place - 0.3))
            place = np.clip(place - np.sqrt(2 / (len(places))) * answers[-1], -1, 1)
        bound = gradient_regret(places, answers, np.zeros(steps), start=[0.0], radius=1.0, clip=1.0)
        assert bound <= 2 * np.sqrt(2 / steps) + 1e-12
        assert abs(np.mean(places) - 0.3) <= bound
