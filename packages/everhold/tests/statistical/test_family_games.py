"""A handful of games through the public interface; `family_games.py` of the lab's coverage studies plays hundreds.

All columns are coins that know nothing of each other, so every population value is 1/2. The analyst keeps what is told
of each column, and in the end asks about the vote of all of them. Without payment for labels the last interval misses.
"""

import numpy as np
import pytest

import everhold as eh
from everhold.mechanisms import releases
from everhold.queries.selection import results

GROUPS, COLUMNS = 200, 30
pytestmark = pytest.mark.filterwarnings("ignore::everhold.VacuousGuaranteeWarning")
NAMES = [f"c{number}" for number in range(COLUMNS)]


def coins(rng, *, grouped, first=0, power=1):
    """Rows in groups of one or two, all rows of a group alike."""
    sizes = np.tile([1, 2], GROUPS // 2) if grouped else np.ones(GROUPS, dtype=int)
    table = {name: np.repeat((rng.random(GROUPS) ** power).round(2) + 0.001, sizes) for name in NAMES}
    return {**table, "g": np.repeat(first + np.arange(GROUPS), sizes)}


def medians(holdout):
    """The excess of rows up to 1/2 by the told median of each column."""
    told = [holdout.ask(eh.quantile(name, low=0.3, high=0.7, bins=40)) for name in NAMES]
    told = [(0.0, 1.0) if answer.refused else (answer.low, answer.high) for answer in told]
    assert all(low <= 0.5 <= high for low, high in told)
    return [1.0 - max(low, 0.3) - min(high, 0.7) for low, high in told]


def tables(holdout):
    """The same from tables of two cells, which training rows get wrong, so that a count is marked."""
    weights = []
    for name in NAMES:
        universe = {"columns": [{"name": name, "edges": [0.0, 0.5, 1.0]}]}
        told = holdout.ask(eh.synthesize(universe, 1))
        assert told.refused or abs(told.table.weights[0] - 0.5) <= told.within
        weights.append(0.0 if told.refused else told.table.weights[0] - 0.5)
    return weights


def winners(holdout):
    """The best of three at a time."""
    weights = np.zeros(COLUMNS)
    for first in range(0, COLUMNS, 3):
        texts = [f"{name} <= 0.5" for name in NAMES[first : first + 3]]
        told = holdout.ask(eh.choose(texts, best="highest"))
        assert told.refused or told.low <= 0.5 <= told.high
        weights[first + (told.index or 0)] = 1.0
    return weights


def members(holdout):
    """Exact answers to a declared family."""
    told = [holdout.ask(f"{name} <= 0.5") for name in NAMES]
    assert all(answer.source == "declared" and answer.low <= 0.5 <= answer.high for answer in told)
    return [answer.value - 0.5 for answer in told]


def vote_holds(folder, ask, *, grouped):
    """True if the interval of the vote by what `ask` was told holds the truth, 1/2."""
    rng = np.random.default_rng(7)
    training = coins(rng, grouped=grouped, first=GROUPS, power=4 if ask is tables else 1)
    wanted = {"declared": eh.listed([f"{name} <= 0.5" for name in NAMES])} if ask is members else {}
    wanted |= {"dependence": eh.Groups("g")} if grouped else {}
    with eh.Holdout.create(
        f"sqlite:///{folder}/games.db", "game", holdout=coins(rng, grouped=grouped), training=training,
        queries=COLUMNS + 1, surprises=1, confidence=0.8, **wanted,
    ) as holdout:  # fmt: skip
        weights = np.asarray(ask(holdout))
        vote = eh.mean(lambda table: (np.stack([table[name] <= 0.5 for name in NAMES], axis=1) - 0.5) @ weights > 0)
        last = holdout.ask(vote, guess=0.0)  # a surprise is told with the narrowest interval
        return last.refused or last.low <= 0.5 <= last.high


KINDS = [(medians, True), (tables, False), (winners, True), (members, True)]


@pytest.mark.parametrize(("ask", "grouped"), KINDS)
def test_the_vote_of_what_was_told_holds(tmp_path, ask, grouped):
    assert vote_holds(tmp_path, ask, grouped=grouped)


@pytest.mark.parametrize("ask", [medians, tables, members])
def test_without_payment_for_labels_it_misses(tmp_path, monkeypatch, ask):
    for module in (releases, results):
        monkeypatch.setattr(module, "in_millionths", lambda nats: 0)
    assert not vote_holds(tmp_path, ask, grouped=False)
