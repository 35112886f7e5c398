"""Random rules: yes-or-no predictions by fair coins that fall the same way for a row whenever they are asked.

Rule j says yes of a row where bit j of a hash of the row's key is 1: 64 rules for each hash. A rule knows nothing
about any label, so its true score is that of a coin, on old rows and on new ones. Counting and voting go through tables
of all 2^8 patterns of eight rules, so that no matrix of rows by rules is ever made.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from everhold_lab.analysts.strategies import Analyst, Board, Claim, Vote, best_claim, log_odds, scores_of_votes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray


RULES_PER_HASH = 64
_BITS = 8
_PATTERNS = ((np.arange(2**_BITS)[:, None] >> np.arange(_BITS)) & 1).astype(np.float32)  # (patterns, rules)
_WORD = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15


def row_keys(*columns: ArrayLike) -> NDArray[np.uint64]:
    """Return a hash for each row, computed from columns that identify or describe it, shape (rows,).

    Rows that are equal in all columns get the same key, in any table, so a rule predicts the same for them.

    Args:
        *columns: Columns of numbers or texts, each of shape (rows,). Values are compared as texts.

    Raises:
        ValueError: If there is no column, or they are not of the same length.

    Examples:
        >>> keys = row_keys(["EWR", "JFK", "EWR"], [7, 7, 7])
        >>> bool(keys[0] == keys[2]), bool(keys[0] == keys[1]), keys.dtype
        (True, False, dtype('uint64'))
    """
    texts = [np.asarray(column).astype(str) for column in columns]
    if len({text.shape for text in texts}) != 1 or texts[0].ndim != 1:
        raise ValueError(
            f"The columns have shapes {[text.shape for text in texts]}. Pass one or more columns of shape (rows,)."
        )
    keys = np.zeros(len(texts[0]), dtype=np.uint64)
    for text in texts:
        known, places = np.unique(text, return_inverse=True)
        digests = [blake2b(value.encode(), digest_size=8).digest() for value in known.tolist()]
        hashes = np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)
        keys = _mixed((keys ^ hashes[places]) + np.uint64(_GOLDEN))
    return keys


@dataclass(frozen=True, slots=True)
class RandomRules:
    """Random yes-or-no rules about rows.

    Attributes:
        keys: One hash of its attributes for each row, shape (rows,), unsigned 64-bit integers.
        seed: Seed of the rules. Equal seeds give equal rules, whatever the rows are.

    Examples:
        >>> rules = RandomRules(np.arange(10_000, dtype=np.uint64), seed=1)
        >>> said = rules.says(100, 300)
        >>> said.shape, bool(abs(said.mean() - 0.5) < 0.002)
        ((200, 10000), True)
    """

    keys: NDArray[np.uint64]
    seed: int

    def __len__(self) -> int:
        return len(self.keys)

    def says(self, first: int, last: int) -> NDArray[np.bool_]:
        """Return the predictions of the rules ``first, ..., last - 1`` for each row, shape (last - first, rows)."""
        said = np.empty((last - first, len(self)), dtype=np.bool_)
        for start, stop, block in _blocks(first, last):
            bits = np.unpackbits(self._patterns(block), axis=1, bitorder="little").T
            offset = block * RULES_PER_HASH
            said[start - first : stop - first] = bits[start - offset : stop - offset]
        return said

    def scores(self, labels: NDArray[np.bool_], first: int, last: int) -> NDArray[np.float64]:
        """Return the share of rows that each rule predicts correctly, shape (last - first,)."""
        scores = np.empty(last - first)
        sign = np.where(labels, 1.0, -1.0)
        for start, stop, block in _blocks(first, last):
            patterns = self._patterns(block)
            counts = [np.bincount(eight, weights=sign, minlength=2**_BITS) for eight in patterns.T]
            right_yes = (np.stack(counts) @ _PATTERNS).ravel()  # yes of positives minus yes of negatives
            offset = block * RULES_PER_HASH
            scores[start - first : stop - first] = right_yes[start - offset : stop - offset]
        return (scores + np.count_nonzero(~labels)) / len(self)

    def tally(self, weights: NDArray[np.float64], first: int) -> NDArray[np.float64]:
        """Return the weighted sum of the rules' labels, each +1 or -1, for each row, shape (rows,)."""
        return np.asarray(self.tallies([weights], first)[0])

    def tallies(self, weights: Sequence[NDArray[np.float64]], first: int) -> NDArray[np.float64]:
        """Return `tally` of several votes at once, shape (votes, rows)."""
        tallies = np.repeat([[-float(np.sum(own))] for own in weights], len(self), axis=1)
        for start, stop, block in _blocks(first, first + max(map(len, weights))):
            offset = block * RULES_PER_HASH
            padded = np.zeros((len(weights), RULES_PER_HASH))
            for row, own in zip(padded, weights, strict=True):
                spoken = 2.0 * own[start - first : stop - first]
                row[start - offset : start - offset + len(spoken)] = spoken
            voting = np.flatnonzero(padded.any(axis=1))
            patterns = self._patterns(block).T if len(voting) else ()
            for vote in voting:
                tables = padded[vote].reshape(-1, _BITS).astype(np.float32) @ _PATTERNS.T
                for table, eight in zip(tables, patterns, strict=True):
                    tallies[vote] += table[eight]
        return tallies

    def predictions(self, votes: Sequence[Vote]) -> NDArray[np.bool_]:
        """Return the predictions of several votes for each row, shape (votes, rows)."""
        if not votes:
            return np.zeros((0, len(self)), dtype=np.bool_)
        thresholds = np.array([[vote.threshold] for vote in votes])
        return np.asarray(self.tallies([vote.weights for vote in votes], 0) > thresholds)

    def _patterns(self, block: int) -> NDArray[np.uint8]:
        """Return the predictions of 64 rules for each row, eight rules in a byte, shape (rows, 8)."""
        salt = ((self.seed << 32) + block + 1) * _GOLDEN & _WORD
        words = _mixed(self.keys + np.uint64(salt))
        return words.astype("<u8", copy=False).view(np.uint8).reshape(-1, 8)


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return hashed words by the finaliser of splitmix64."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _blocks(first: int, last: int) -> Iterator[tuple[int, int, int]]:
    """Yield start, stop and hash number of the rules ``first, ..., last - 1``, cut at multiples of 64."""
    start = first
    while start < last:
        block = start // RULES_PER_HASH
        stop = min((block + 1) * RULES_PER_HASH, last)
        yield start, stop, block
        start = stop


class RunningVote:
    """Predictions of a growing vote on the same rows, where earlier rules are not evaluated again."""

    def __init__(self, rules: RandomRules) -> None:
        self._rules = rules
        self._weights: NDArray[np.float64] = np.zeros(0)
        self._tally: NDArray[np.float64] = np.zeros(len(rules))

    def predict(self, vote: Vote) -> NDArray[np.bool_]:
        """Return the prediction of a vote for each row, shape (rows,)."""
        known = len(self._weights)
        if len(vote.weights) < known or not np.array_equal(vote.weights[:known], self._weights):
            known, self._tally = 0, np.zeros(len(self._rules))
        self._tally = self._tally + self._rules.tally(vote.weights[known:], known)
        self._weights = vote.weights.copy()
        return np.asarray(self._tally > vote.threshold)


@dataclass(frozen=True, slots=True)
class CrowdAnalyst(Analyst):
    """Several analysts with separate rules who take turns and share answers. The best vote of all is claimed.

    If `members` is a number, the members are that many hill climbers. In each turn every member asks for the scores of
    a few of its own rules, and then submits one vote. A member sees the answers about its own rules, and the public
    leaderboard, which shows the best vote so far and its score. Its vote is the public vote, in which its own rules get
    the log-odds of their scores as weights. So no member asks more than a few queries or sees the answers of another
    member. But all members that led the board have fitted the best vote to the sealed rows, and choosing the best of
    many votes is itself overfitting.

    If `members` is a tuple of analysts, each of them gets an equal share of the rules, and they take turns of one claim
    each.

    Attributes:
        members: Number of climbers, or the analysts.
        rules_per_turn: Rules that each climber asks about in each turn. Other analysts ignore it.

    Source: the setting of competitions, Blum and Hardt 2015 and Dwork et al. 2015 (Science); the strategy is ours.
    """

    members: int | tuple[Analyst, ...] = 10
    rules_per_turn: int = 5

    def __post_init__(self) -> None:
        if (self.members if isinstance(self.members, int) else len(self.members)) < 1:
            raise ValueError(f"members is {self.members}. Pass at least 1.")
        if self.rules_per_turn < 1:
            raise ValueError(f"rules_per_turn is {self.rules_per_turn}. Pass at least 1.")

    def play(self, board: Board) -> Iterator[Claim]:
        """Yield the best vote of each turn as a claim, until all queries of a turn are refused."""
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
    """Return the weights of the public vote, replaced by the weights of a team member wherever these are not 0."""
    weights = np.zeros(len(voice))
    if leader is not None:
        weights[: len(leader.vote.weights)] = leader.vote.weights
    return Vote(np.where(voice != 0.0, voice, weights), 0.0)


def _scored(board: Board, votes: Sequence[Vote]) -> list[tuple[Vote, float]]:
    """Return those votes that the board answers, each with its score."""
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
    """Board that offers only a range of the rules of another board."""

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
        """Return a vote over the rules of this share as a vote over all rules of the board."""
        return Vote(np.concatenate([np.zeros(self._first), vote.weights]), vote.threshold)
