"""Every peer in one run: the same labels, the same queries, the same attack.

The sealed rows have fair-coin labels, so the true accuracy of whatever is asked is exactly 1/2. Two analysts play
against each peer: an honest one asks 500 queries that were fixed beforehand, one at a time; an attacking one scores
random rules in rounds of 36, lets them vote with the log-odds of their scores, scores the vote, and repeats
(`HillClimbingAnalyst`). It asks 2,036 queries of peers that are prepared for 2,000.

- ``width``: half-width that a user could claim at 95 %, for the reason that the peer's name gives, at the free
  ``setting`` that makes it least. Everhold promises its own; sample splitting has P9; the private peers have a
  published theorem, P7 of Jung et al. 2020 or Rogers et al. 2020. The bare holdout claims Hoeffding's width, for one
  query or for 2,000 that were fixed beforehand; cross-validation on sealed and training rows together claims
  Student's interval over the folds, of which the widest is shown.
- ``honest`` and ``attack``: the largest error of any answer to that analyst.
- ``reported``: the score that the attacker reports in the end, the best one of all its votes, minus the truth.
- ``answered``: queries of the attacker that were answered before the first refusal.
- ``held``: with which analysts every interval contained the truth. A width far above the attack's error was not needed
  against this analyst; it is the price of a promise against all of them.
- ``us alone`` and ``us rounds``: microseconds for a query, asked one at a time and in the attacker's rounds;
  ``x bare`` compares the latter with the bare holdout on the same queries, taken in turns. Evaluating the predictions
  is counted; making them, refusals and the pipe to diffprivlib's process are not. Everhold's times include a durable
  transaction on disk for each call and the score of the training rows; the peers keep nothing.

The same Gaussian noise stands in four lines: the width differs by theorem. OpenDP's and diffprivlib's own promise, the
privacy of each row, is not in the table. Peers that confirm a training score hand the attacker the training rows: its
votes surprise those, and the error of a confirmed score stays within the width. ``guess_and_check`` has the narrowest
width and the shortest session against this attack, since every overfitted vote spends one of its surprises.

OpenDP has no above-threshold mechanism, so Thresholdout is assembled from its Laplace draws and keeps its own state;
its threshold leaves room for honest differences between sealed and training rows. diffprivlib runs in an environment
of its own, made by ``make peers``; its accountant adds up the whole history at each query, and its ``mean`` adds
Laplace noise. All noise is fresh, so the errors of the noisy peers differ a little from run to run.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.peer_bare import BareHoldout, FoldedRows, SplitRows
from benchmarks.peer_base import SURPRISES, Queries, Sample
from benchmarks.peer_diffprivlib import AccountedMeans, is_installed
from benchmarks.peer_everhold import SealedHoldout
from benchmarks.peer_opendp import GaussianComposition, LaplaceThresholdout
from everhold.display import text_table
from everhold_lab.analysts import HillClimbingAnalyst, HonestAnalyst, RandomRules, RunningVote, best_claim

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from benchmarks.peer_base import Peer
    from everhold_lab.analysts import Analyst, Vote

__all__ = ["Game", "Size", "measure", "peers_for", "play"]

TRUTH = 0.5


class Size(NamedTuple):
    """How large the run is."""

    rows: int
    planned: int
    honest: int
    rounds: int
    rules_per_round: int


FULL = Size(rows=50_000, planned=2_000, honest=500, rounds=55, rules_per_round=36)


class Game(NamedTuple):
    """What one analyst saw: answers with their ends, shape (queries, 3), what is reported, and the time."""

    replies: NDArray[np.float64]
    reported: float
    microseconds: float
    ratio: float
    width: float
    setting: str

    @property
    def worst(self) -> float:
        """Largest error of an answer."""
        return float(np.nanmax(np.abs(self.replies[:, 0] - TRUTH)))

    @property
    def held(self) -> bool:
        """Whether every interval contains the truth."""
        return not bool(np.any((self.replies[:, 1] > TRUTH) | (self.replies[:, 2] < TRUTH)))

    @property
    def answered(self) -> int:
        """Queries before the first refusal."""
        refused = np.isnan(self.replies[:, 0])
        return int(np.argmax(refused)) if np.any(refused) else len(refused)


class _Board:
    """Puts an analyst's rules and votes to a peer."""

    def __init__(self, peer: Peer, *, rules: int, alone: bool) -> None:
        keys = np.arange(2 * len(peer.sample.sealed), dtype=np.uint64)
        parts = np.split(keys, 2)
        self._rules = [RandomRules(part, seed=7) for part in parts]
        self._votes = [RunningVote(rules_of_part) for rules_of_part in self._rules]
        self.rules, self._peer, self._alone = rules, peer, alone
        self.replies: list[NDArray[np.float64]] = []
        self._seconds, self._timed, self._bare = 0.0, 0, BareHoldout(peer.sample, claimed=1)

    @property
    def microseconds(self) -> float:
        """For one query, among the calls in which nothing was refused."""
        return self._seconds / self._timed * 1e6

    @property
    def ratio(self) -> float:
        """Time for the same queries by the time of the bare holdout, taken in turns."""
        return self._seconds / self._bare.seconds

    def score_rules(self, first: int, last: int, *, guess: float | None) -> NDArray[np.float64]:
        if self._alone and last - first > 1:
            return np.concatenate([self.score_rules(rule, rule + 1, guess=guess) for rule in range(first, last)])
        return self._ask(Queries(*(rules.says(first, last) for rules in self._rules)))

    def score_vote(self, vote: Vote) -> float:
        predicted = (running.predict(vote)[None, :] for running in self._votes)
        return float(self._ask(Queries(*predicted))[0])

    def _ask(self, queries: Queries) -> NDArray[np.float64]:
        before = self._peer.seconds
        replies = self._peer.ask(queries)
        if not np.any(np.isnan(replies)):
            self._seconds, self._timed = self._seconds + self._peer.seconds - before, self._timed + len(queries)
            self._bare.ask(queries)
        self.replies.append(replies)
        return replies[:, 0]


def play(make: Callable[[Sample], Peer], sample: Sample, analyst: Analyst, *, rules: int, alone: bool) -> Game:
    """One analyst against a fresh peer."""
    with closing(make(sample)) as peer:
        board = _Board(peer, rules=rules, alone=alone)
        reported = best_claim(analyst.play(board)).score
        return Game(
            np.concatenate(board.replies), reported - TRUTH, board.microseconds, board.ratio, peer.width, peer.setting
        )


def peers_for(planned: int) -> dict[str, partial[Any]]:
    """All peers by the name of their line, prepared for so many queries."""
    everhold = partial(SealedHoldout, queries=planned)
    return {
        "bare holdout, Hoeffding one query": partial(BareHoldout, claimed=1),
        f"bare holdout, Hoeffding {planned:,} fixed": partial(BareHoldout, claimed=planned),
        "cross-validation, Student": partial(FoldedRows, folds=10),
        "sample splitting, P9": partial(SplitRows, queries=planned),
        "OpenDP Gaussian, P7": partial(GaussianComposition, queries=planned, theorem="P7"),
        "OpenDP Gaussian, Rogers 2020": partial(GaussianComposition, queries=planned, theorem="Rogers"),
        "Thresholdout of OpenDP's Laplace, P7": partial(LaplaceThresholdout, queries=planned),
        "diffprivlib mean with accountant, P7": partial(AccountedMeans, queries=planned),
        "everhold guess_and_check": partial(everhold, mechanism="guess_and_check", surprises=SURPRISES),
        "everhold guess_and_check, more surprises": partial(
            everhold, mechanism="guess_and_check", surprises=min(60, planned)
        ),
        "everhold thresholdout": partial(everhold, mechanism="thresholdout", surprises=SURPRISES),
        "everhold gaussian": partial(everhold, mechanism="gaussian"),
        "everhold privacy_budget": partial(everhold, mechanism="privacy_budget"),
    }


def measure(size: Size = FULL) -> list[dict[str, object]]:
    """One line for each peer."""
    sample = Sample.draw(size.rows, seed=11)
    lines: list[dict[str, object]] = []
    for name, make in peers_for(size.planned).items():
        if make.func is AccountedMeans and not is_installed():
            lines.append({"peer": name, "setting": "not installed: make peers"})
            continue
        honest = play(make, sample, HonestAnalyst(), rules=size.honest, alone=True)
        climber = HillClimbingAnalyst(rules_per_round=size.rules_per_round)
        attack = play(make, sample, climber, rules=size.rounds * size.rules_per_round, alone=False)
        lines.append(_line(name, honest, attack))
    return lines


def _line(name: str, honest: Game, attack: Game) -> dict[str, object]:
    held = {(True, True): "both", (True, False): "honest", (False, True): "attack", (False, False): "neither"}
    return {
        "peer": name,
        "setting": attack.setting,
        "width": attack.width,
        "honest": honest.worst,
        "attack": attack.worst,
        "reported": attack.reported,
        "answered": attack.answered,
        "held": held[honest.held, attack.held],
        "us alone": round(honest.microseconds),
        "us rounds": round(attack.microseconds),
        "x bare": float(f"{attack.ratio:.2g}"),
    }


if __name__ == "__main__":
    print(text_table(measure()))
