"""Every family in a few games: held or warned; the long form is `make coverage-study`."""

import numpy as np
import pytest
from diagnosis_families import ADVISED, FAMILIES, WITHOUT_A_NUMBER, Family, create, most_alarms, play
from scipy.stats import binom

import everhold as eh
from everhold.mechanisms import Mechanism

GAMES = 8
NAMED = {family.name: family for family in (*FAMILIES, *ADVISED)}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::everhold.errors.ColumnWarning"),  # of zip codes, which are texts on purpose
]


@pytest.mark.parametrize("family", [*FAMILIES, *WITHOUT_A_NUMBER], ids=lambda family: family.name)
def test_the_promise_holds_or_there_was_a_warning(family):
    games = [play(family, seed) for seed in range(GAMES)]
    unfair = sum(not game.fair for game in games)
    assert binom.sf(unfair - 1, GAMES, 0.05) > 1e-3
    alarms = sum(game.warned for game in games)
    assert family.depends or binom.sf(alarms - 1, GAMES, most_alarms(family)) > 1e-3


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_game_is_what_users_get(tmp_path, family):
    played, created = play(family, 0), create(family, 0, tmp_path)
    assert played.warned == created.warned
    for ends, others in ((played.told, created.told), (played.unsealed, created.unsealed)):
        if played.told == played.unsealed:  # the mechanism adds noise, which is another one each time
            assert np.diff(ends) == pytest.approx(np.diff(others), abs=0.05)
        else:
            assert ends == pytest.approx(others, abs=1e-9)


@pytest.mark.parametrize("name", ["whole schools, classes declared", "short blocks of a long memory"])
def test_held_against_the_worst_case_of_declared_groups_the_study_fails(monkeypatch, name):
    games = [play(NAMED[name], seed) for seed in range(40)]
    assert not sum(not game.fair for game in games)
    monkeypatch.setattr(Mechanism, "bets", False)
    games = [play(NAMED[name], seed, structure=False) for seed in range(120)]
    assert binom.sf(sum(not game.fair for game in games) - 1, len(games), 0.05) < 1e-2


@pytest.mark.parametrize("family", ADVISED, ids=lambda family: family.name)
def test_what_is_advised_holds(family):
    games = [play(family, seed) for seed in range(GAMES)]
    assert binom.sf(sum(not game.held for game in games) - 1, GAMES, 0.05) > 1e-3


@pytest.mark.parametrize("family", ADVISED, ids=lambda family: family.name)
def test_rows_are_worth_what_the_advice_promises(family):
    missed, games = 0, 60
    for seed in range(games):
        rng = np.random.default_rng(10_000 + seed)
        training, sealed = family.draw(rng, 0), family.draw(rng, 0)
        worth = family.declare(training).concentration(len(sealed["y"]))
        radius = np.sqrt(np.log(2 / 0.05) / (2 * worth))  # one query, fixed in advance
        missed += abs(family.query(sealed).mean() - family.truth) > radius
    assert binom.sf(missed - 1, games, 0.05) > 1e-3


@pytest.mark.parametrize(
    "name",
    [
        "hidden regime, nothing declared",
        "hidden regime, a chain fitted to the label",
        "autoregression and noise, fitted",
        "100 large clusters, correlation 0.2",
        "momentum, a chain fitted to the label",
        "short blocks of a long memory",
    ],
)
def test_without_warnings_the_same_games_break_their_promise(name):
    games = [play(NAMED[name], seed) for seed in range(2 * GAMES)]
    assert binom.sf(sum(not game.held for game in games) - 1, len(games), 0.05) < 1e-2


@pytest.mark.parametrize("name", ["hidden regime, nothing declared", "groups inside villages, groups declared"])
def test_the_door_warns_where_the_arrays_do(tmp_path, name):
    family: Family = NAMED[name]
    rng = np.random.default_rng(0)
    training, sealed = family.draw(rng, 0), family.draw(rng, 10**6)
    with pytest.warns(eh.DependenceWarning, match="are promised"):
        holdout = eh.Holdout.create(
            tmp_path / "s.db", holdout=sealed, training=training, label=family.label, queries=20, surprises=2,
            mechanism="guess_and_check", dependence=family.declare(training),
        )  # fmt: skip
    holdout.close()
