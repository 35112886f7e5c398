"""The peers of the benchmark are assembled correctly: their answers, their refusals, the widths they claim."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
import pytest

from benchmarks.peer_base import SURPRISES, Queries, Sample
from benchmarks.peer_diffprivlib import is_installed
from benchmarks.peer_opendp import GaussianComposition, LaplaceThresholdout, threshold_failure
from benchmarks.peers import Game, Size, measure, peers_for, play
from everhold_lab.analysts import HillClimbingAnalyst
from everhold_lab.published.jung2020 import jung_2020

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROWS, PLANNED = 4_000, 20
UNLIMITED = ("bare", "cross-validation", "everhold guess_and_check")


@pytest.fixture(scope="module")
def sample() -> Sample:
    return Sample.draw(ROWS, seed=1)


def _predictions(sample: Sample, share: float, count: int) -> Queries:
    """Different predictions that are right in exactly this share of the rows of both sets."""
    right = (np.arange(ROWS) + np.arange(count)[:, None]) * 7 % 100 < 100 * share
    return Queries(right == sample.sealed, right == sample.training)


def _peer_or_skip(name: str) -> None:
    if name.startswith("diffprivlib") and not is_installed():
        pytest.skip("diffprivlib is not installed; try make peers")


def _values(replies: NDArray[np.float64]) -> NDArray[np.float64]:
    return replies[:, 0]


@pytest.mark.parametrize("name", peers_for(PLANNED))
def test_peer_answers_around_the_truth_and_refuses_when_its_plan_is_used_up(name: str, sample: Sample) -> None:
    _peer_or_skip(name)
    queries = _predictions(sample, 0.7, PLANNED + 3)
    with closing(peers_for(PLANNED)[name](sample)) as peer:
        replies = np.concatenate([peer.ask(queries[number]) for number in range(len(queries))])
        assert peer.seconds > 0.0
        assert np.all(np.abs(_values(replies)[:PLANNED] - 0.7) <= max(peer.width, 1e-9))
        assert np.all(np.diff(replies[:PLANNED, [1, 0, 2]]) >= 0.0)
    refused = np.isnan(_values(replies)[PLANNED:])
    assert np.all(refused) or (name.startswith(UNLIMITED) and not np.any(refused))


@pytest.mark.parametrize("name", ["OpenDP Gaussian, P7", "OpenDP Gaussian, Rogers 2020"])
def test_gaussian_noise_has_the_deviation_the_setting_states(name: str, sample: Sample) -> None:
    peer = peers_for(200)[name](sample)
    values = _values(peer.ask(_predictions(sample, 0.5, 200)))
    assert np.std(values) == pytest.approx(float(peer.setting.removeprefix("sd ")), rel=0.25)


def test_width_from_opendps_profile_is_not_below_the_optimum_for_the_exact_curve(sample: Sample) -> None:
    width = GaussianComposition(sample, queries=PLANNED, theorem="P7").width
    best = jung_2020(ROWS, queries=PLANNED, surprises=1, confidence=0.95, slack=0.0).radius
    assert best <= width <= 1.3 * best


def test_threshold_peer_releases_where_guesses_are_wrong_and_then_refuses() -> None:
    rows = 200_000  # enough for a threshold far below the distance of the guesses
    sample = Sample.draw(rows, seed=2)
    wrong = Queries(sample.sealed[None, :], ~sample.training[None, :])  # 1 on the sealed rows, 0 on training rows
    peer = LaplaceThresholdout(sample, queries=100)
    values = np.concatenate([_values(peer.ask(wrong)) for _ in range(SURPRISES + 2)])
    assert np.all(np.abs(values[:SURPRISES] - 1.0) < 0.05)
    assert np.all(np.isnan(values[SURPRISES:]))


@pytest.mark.parametrize("excess", [4.0, 20.0, 40.0])
def test_threshold_failure_bounds_the_simulated_one(excess: float) -> None:
    queries, scale, threshold, runs = 20, 1.0, 30.0, 20_000
    rng = np.random.default_rng(3)
    epochs, comparisons = rng.laplace(0.0, 2.0, (runs, SURPRISES)), rng.laplace(0.0, 4.0, (runs, queries))
    seen = np.mean(epochs.max(axis=1) - comparisons.min(axis=1) > excess)  # even if the kindest epoch lasted for ever
    allowed = threshold_failure(threshold + excess, queries=queries, scale=scale, threshold=threshold)
    assert seen <= allowed + 3.0 * np.sqrt(allowed / runs)
    assert excess < 30.0 or allowed < 0.05  # and it is not vacuous


def test_the_attack_breaks_the_bare_holdout_and_not_a_sealed_one(sample: Sample) -> None:
    peers, climber = peers_for(111), HillClimbingAnalyst(rules_per_round=36)
    games = {
        name: play(make, sample, climber, rules=108, alone=False)
        for name, make in peers.items()
        if name.endswith("111 fixed") or name == "everhold gaussian"
    }
    assert [game.held for game in games.values()] == [False, True]
    assert [game.answered for game in games.values()] == [112, 111]  # the bare holdout never refuses


def test_game_counts_up_to_the_first_refusal_and_ignores_refused_answers() -> None:
    replies = np.array([[0.5, 0.4, 0.6], [0.7, 0.6, 0.8], [np.nan] * 3, [0.5, 0.4, 0.6]])
    game = Game(replies, reported=0.2, microseconds=1.0, ratio=1.0, width=0.1, setting="")
    assert (game.answered, game.held) == (2, False)
    assert game.worst == pytest.approx(0.2)


def test_table_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.peers.is_installed", lambda: False)
    kept = {name: make for name, make in peers_for(5).items() if name.startswith(("bare", "diffprivlib"))}
    monkeypatch.setattr("benchmarks.peers.peers_for", lambda _: kept)
    lines = measure(Size(rows=500, planned=5, honest=3, rounds=1, rules_per_round=4))
    assert [line["setting"] for line in lines] == ["", "", "not installed: make peers"]
