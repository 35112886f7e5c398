"""The crowd: many analysts of whom each asks little, and a public leaderboard between them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from everhold_lab.analysts.base import Analyst, Board, Claim, Vote, best_claim, scores_of_votes
from everhold_lab.analysts.hill_climbing import log_odds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class CrowdAnalyst(Analyst):
    """Many analysts with rules of their own, who take turns; the claim is the best that any of them has.

    A number of members means so many climbers. In each turn every one of them has a few of his own rules scored, all in
    one batch, and submits one vote, all in one batch. He sees the answers about his own rules, and the public
    leaderboard: the best vote so far and its score. His vote is that one with his own rules in his own words, by the
    log-odds of their scores. So nobody asks more than a few queries, and nobody sees the answers of another one, but
    the vote at the top has been fitted to the sealed rows by everyone who was ever there; and being the best of many
    is luck by itself.

    A tuple of analysts plays as they are, each with an equal share of the rules, in turns of one claim each.

    Attributes:
        members: Number of climbers, or the analysts.
        rules_per_turn: Rules that each climber has scored in each turn; has no meaning for other analysts.

    Source: the setting of competitions, Blum and Hardt 2015 and Dwork et al. 2015 (Science); the strategy is ours.
    """

    members: int | tuple[Analyst, ...] = 10
    rules_per_turn: int = 5

    def __post_init__(self) -> None:
        if (self.members if isinstance(self.members, int) else len(self.members)) < 1:
            raise ValueError(f"members is {self.members}; expected at least 1")
        if self.rules_per_turn < 1:
            raise ValueError(f"rules_per_turn is {self.rules_per_turn}; expected at least 1")

    def play(self, board: Board) -> Iterator[Claim]:
        """One claim for each turn: the best vote of that turn. It is over when a whole turn was refused."""
        if isinstance(self.members, int):
            return self._climb(board, self.members)
        return _in_turns(board, self.members)

    def _climb(self, board: Board, members: int) -> Iterator[Claim]:
        own = np.zeros((members, board.rules))
        leader: Claim | None = None
        first = asked = 0
        while first < board.rules:
            last = min(first + members * self.rules_per_turn, board.rules)
            weights = log_odds(board.score_rules(first, last, guess=None))
            for member, theirs in enumerate(np.array_split(np.arange(first, last), members)):
                own[member, theirs] = weights[theirs - first]
            votes = [_joined(leader, voice[:last]) for voice in own]
            asked, first = asked + last - first + members, last
            claims = [Claim(asked, vote, score) for vote, score in _scored(board, votes)]
            if not claims:
                return
            best = best_claim(claims)
            yield best
            leader = best if leader is None else best_claim([leader, best])


def _joined(leader: Claim | None, voice: NDArray[np.float64]) -> Vote:
    """The public vote, and a member's own voice where he has one."""
    weights = np.zeros(len(voice))
    if leader is not None:
        weights[: len(leader.vote.weights)] = leader.vote.weights
    return Vote(np.where(voice != 0.0, voice, weights), 0.0)


def _scored(board: Board, votes: Sequence[Vote]) -> list[tuple[Vote, float]]:
    """Votes that were answered, with their scores."""
    scores = scores_of_votes(board, votes).tolist()
    return [(vote, score) for vote, score in zip(votes, scores, strict=True) if not np.isnan(score)]


def _in_turns(board: Board, members: Sequence[Analyst]) -> Iterator[Claim]:
    ends = np.linspace(0, board.rules, len(members) + 1).astype(int).tolist()
    shares = [_Share(board, first, last) for first, last in pairwise(ends)]
    games = {place: member.play(share) for place, (member, share) in enumerate(zip(members, shares, strict=True))}
    while games:
        claims = {place: claim for place, game in games.items() if (claim := next(game, None)) is not None}
        games = {place: games[place] for place in claims}
        asked = sum(share.asked for share in shares)
        known = [
            Claim(asked, shares[place].whole(claim.vote), claim.score)
            for place, claim in claims.items()
            if not np.isnan(claim.score)
        ]
        if not known:
            return
        yield best_claim(known)


class _Share:
    """Some of the rules of a board, as a board of its own."""

    def __init__(self, board: Board, first: int, last: int) -> None:
        self._board, self._first = board, first
        self.rules, self.asked = last - first, 0

    def score_rules(self, first: int, last: int, *, guess: float | None) -> NDArray[np.float64]:
        self.asked += last - first
        return self._board.score_rules(self._first + first, self._first + last, guess=guess)

    def score_vote(self, vote: Vote) -> float:
        self.asked += 1
        return self._board.score_vote(self.whole(vote))

    def score_votes(self, votes: Sequence[Vote]) -> NDArray[np.float64]:
        self.asked += len(votes)
        return scores_of_votes(self._board, [self.whole(vote) for vote in votes])

    def whole(self, vote: Vote) -> Vote:
        """The vote as one of the whole board's rules."""
        return Vote(np.concatenate([np.zeros(self._first), vote.weights]), vote.threshold)
