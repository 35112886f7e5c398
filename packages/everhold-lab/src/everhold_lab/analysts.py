"""Simulated analysts: what honest and attacking people do with a holdout, as pure strategies.

An analyst plays on a `Board`, which scores rules and votes of rules; it never sees rows, files or mechanisms. The same
analyst therefore plays against a real holdout, a bare average and a simulated mechanism.

Some analysts vote by random rules. A random rule predicts yes or no for a row like a fair coin, and always the same for
the same row: rule j says yes if bit j of a hash of the row's key is 1, and each hash has the bits of 64 rules. A rule
knows nothing about any label, so its true score is that of a coin, on old rows and on new ones. Counts and votes are
computed by tables of all 2^8 patterns of eight rules, so that no matrix of rows by rules is needed.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from everhold.arguments import whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray
    from optuna import Study
    from optuna.trial import Trial

__all__ = [
    "Analyst",
    "BatchBoard",
    "Board",
    "BoostingAnalyst",
    "Claim",
    "CrowdAnalyst",
    "FingerprintingAnalyst",
    "GreedySelectionAnalyst",
    "HillClimbingAnalyst",
    "HonestAnalyst",
    "OptimisingAnalyst",
    "RandomRules",
    "RunningVote",
    "Vote",
    "best_claim",
    "row_keys",
    "scores_of_votes",
]


@dataclass(frozen=True, slots=True)
class Vote:
    """A weighted vote of rules: yes where ``sum_j weights[j] * (+1 if rule j says yes else -1) > threshold``.

    Attributes:
        weights: Weights of rules 0, 1, ..., shape (rules used,); empty for "always no".
        threshold: Number that the weighted sum must exceed for a yes.
    """

    weights: NDArray[np.float64]
    threshold: float


@dataclass(frozen=True, slots=True)
class Claim:
    """Claim of an analyst during a game: a vote, its reported score and the number of queries so far.

    Attributes:
        queries: Number of queries asked so far, including the one about this vote.
        score: Reported score of the vote. nan if the query was refused.
    """

    queries: int
    vote: Vote
    score: float


class Board(Protocol):
    """Protocol of a game's board, which reports the accuracy of rules and votes, nan for a refusal."""

    @property
    def rules(self) -> int:
        """Number of rules on the board."""
        ...

    def score_rules(self, first: int, last: int, *, guess: float | None) -> NDArray[np.float64]:
        """Return the scores of the rules ``first, ..., last - 1``, asked in one batch with the same guess."""
        ...

    def score_vote(self, vote: Vote) -> float:
        """Return the score of a vote of rules."""
        ...


@runtime_checkable
class BatchBoard(Board, Protocol):
    """Protocol of a board that also scores several votes in one batch, with the same scores as one by one."""

    def score_votes(self, votes: Sequence[Vote]) -> NDArray[np.float64]:
        """Return the scores of several votes, shape (votes,)."""
        ...


class Analyst(ABC):
    """Protocol of an analyst whose queries depend only on earlier answers."""

    @abstractmethod
    def play(self, board: Board) -> Iterator[Claim]:
        """Ask the board for scores, and yield each new claim."""


def best_claim(claims: Iterable[Claim]) -> Claim:
    """Return the claim with the highest score, ignoring refused ones.

    Raises:
        ValueError: If every claim was refused.
    """
    scored = [claim for claim in claims if not math.isnan(claim.score)]
    if not scored:
        raise ValueError("Every claim was refused. Plan for more queries or surprises.")
    return max(scored, key=lambda claim: claim.score)


def scores_of_votes(board: Board, votes: Sequence[Vote]) -> NDArray[np.float64]:
    """Return the scores of independent votes, shape (votes,), in one batch if the board can."""
    if isinstance(board, BatchBoard):
        return board.score_votes(votes)
    return np.array([board.score_vote(vote) for vote in votes], dtype=np.float64)


@dataclass(frozen=True, slots=True)
class HonestAnalyst(Analyst):
    """Analyst who scores every rule once in a fixed order, and claims the best one.

    Choosing the best of many noisy scores is already a mild form of overfitting, and the only one this analyst commits.
    """

    def play(self, board: Board) -> Iterator[Claim]:
        """Score all rules once, and yield one claim for the rule with the highest score."""
        scores = board.score_rules(0, board.rules, guess=None)
        if bool(np.all(np.isnan(scores))):
            return
        best = int(np.nanargmax(scores))
        weights = np.zeros(best + 1)
        weights[best] = 1.0
        yield Claim(queries=board.rules, vote=Vote(weights, 0.0), score=float(scores[best]))


_SUREST = 0.99  # a rule that scored 1 does not outvote all others


@dataclass(frozen=True, slots=True)
class HillClimbingAnalyst(Analyst):
    """Analyst who boosts: every random rule votes with the log-odds of its score, round after round.

    If scores are exact, the vote learns the sealed labels themselves: with k rules and n rows it predicts them as well
    as a feature whose effect is ``sqrt(k / n)``, although no rule knows anything about the population. This needs no
    bad intention: leaderboards and automatic searches also score many candidates, keep and combine those that scored
    well, and report the best.

    Attributes:
        rules_per_round: Rules that are scored between two votes.
        log_odds: ln(P[no] / P[yes]) of the label, as known beforehand; 0 for a fair label.
        guess: Guess that is sent with every rule. If it is None, guesses come from the training rows. If it is the
            largest guess that a mechanism confirms for a score of 1/2, each confirmation tells on which side of 1/2 the
            sealed score lies.

    Source: the boosting attack of Blum and Hardt 2015 (The Ladder), with weights in place of a majority.
    """

    rules_per_round: int
    log_odds: float = 0.0
    guess: float | None = None

    def __post_init__(self) -> None:
        whole(self.rules_per_round, "rules_per_round")

    def play(self, board: Board) -> Iterator[Claim]:
        """Yield a claim for "always no", then after each round a claim for the vote of all rules scored so far."""
        weights = np.zeros(0)
        votes = 0
        while True:
            vote = Vote(weights, self.log_odds)
            votes += 1
            yield Claim(queries=len(weights) + votes, vote=vote, score=board.score_vote(vote))
            if len(weights) >= board.rules:
                return
            last = min(len(weights) + self.rules_per_round, board.rules)
            scores = board.score_rules(len(weights), last, guess=self.guess)
            weights = np.concatenate([weights, log_odds(scores)])


def log_odds(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weight of rules with these scores, 0 for a refused score."""
    known = np.clip(np.where(np.isnan(scores), 0.5, scores), 1.0 - _SUREST, _SUREST)
    return np.asarray(np.log(known / (1.0 - known)), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class GreedySelectionAnalyst(Analyst):
    """Analyst who selects features greedily by their score on the holdout.

    First every rule is scored. Then rules join the vote one at a time. The weight of a rule is the distance of its
    score from 1/2, with a negative sign if the score is below 1/2. At each step the analyst asks for the score of the
    vote with each of the next few rules, in order of absolute weight. The rule with the highest reported score joins,
    and the others are tried again at the next step.

    It overfits twice: rules are sorted by how well they fit the sealed rows by chance, and those rules are taken that
    correct the vote's remaining errors on these rows.

    Attributes:
        most_tries: Largest number of votes that the analyst asks about.
        width: Rules that are tried in each step.

    Source: forward selection, with the sorted start of the feature selection experiment of Dwork et al. 2015 (Science).
    """

    most_tries: int
    width: int = 2

    def __post_init__(self) -> None:
        for name in ("most_tries", "width"):
            whole(getattr(self, name), name)

    def play(self, board: Board) -> Iterator[Claim]:
        """Yield a claim for the rule with the most extreme score, then one whenever a further rule joins the vote."""
        scores = board.score_rules(0, board.rules, guess=None)
        luck = np.where(np.isnan(scores), 0.0, scores - 0.5)
        waiting = [int(rule) for rule in np.argsort(-np.abs(luck), kind="stable") if luck[rule] != 0.0]
        if not waiting:
            return
        vote, tried = _joined(Vote(np.zeros(0), 0.0), waiting[0], luck), 0
        yield Claim(queries=board.rules, vote=vote, score=0.5 + abs(float(luck[waiting.pop(0)])))
        while waiting and tried < self.most_tries:
            ballot = waiting[: min(self.width, self.most_tries - tried)]
            votes = [_joined(vote, rule, luck) for rule in ballot]
            answers = scores_of_votes(board, votes)
            tried += len(ballot)
            if np.all(np.isnan(answers)):
                return
            best = int(np.nanargmax(answers))
            del waiting[best]
            vote = votes[best]
            yield Claim(queries=board.rules + tried, vote=vote, score=float(answers[best]))


def _joined(vote: Vote, rule: int, strengths: NDArray[np.float64]) -> Vote:
    """Return a vote with one more rule, whose weight is its strength."""
    weights = np.pad(vote.weights, (0, max(0, rule + 1 - len(vote.weights))))
    weights[rule] = strengths[rule]
    return Vote(weights, vote.threshold)


_CHANCE = 0.5


@dataclass(frozen=True, slots=True)
class BoostingAnalyst(Analyst):
    """Analyst of the published boosting attack: a majority of random labellings that scored above 1/2.

    All rules of the board are submitted at once, so that this is the least adaptive attack of all: only the last
    submission depends on answers. On exact scores of fair labels the vote of k rules scores about
    ``1/2 + sqrt(k / (2 n)) / pi`` for k much less than the n rows.

    If the board shows the best score so far, as a Ladder does, every submission after a lucky one seems better than
    chance. ``improving`` keeps only submissions that raised the shown score.

    Attributes:
        improving: Whether a submission is kept only if its shown score is higher than all scores shown before. For
            boards that show the best score so far.

    Source: Blum and Hardt 2015 (The Ladder), section 4; a score of exactly 1/2 does not vote, a tie is a no.
    """

    improving: bool = False

    def play(self, board: Board) -> Iterator[Claim]:
        """Yield one claim for the majority vote of the selected labellings."""
        scores = board.score_rules(0, board.rules, guess=None)
        vote = Vote(self._kept(scores).astype(np.float64), 0.0)
        yield Claim(queries=board.rules + 1, vote=vote, score=board.score_vote(vote))

    def _kept(self, scores: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which labellings are selected: those with a score above chance, or with a new best score."""
        if not self.improving:
            return np.asarray(scores > _CHANCE)
        best = np.fmax.accumulate(np.concatenate([[np.nan], scores]))[:-1]
        return np.asarray(scores > np.where(np.isnan(best), _CHANCE, best))


@dataclass(frozen=True, slots=True)
class FingerprintingAnalyst(Analyst):
    """Analyst of an interactive fingerprinting attack, who correlates answers with the rules in them.

    What a query predicts for a row is the row's letter in a random code word. An answer ``a`` to the query with
    letters ``q`` says how much the sealed labels agree with ``q``, so each row's label is traced by the sum of
    ``(a - 1/2) q`` over all queries so far, and the row is predicted by the sign of its sum. As ``q`` is made of
    rules, so is the sum: the trace is a vote. In each of several rounds the analyst asks

    1. the next rules, which are fresh independent code words; their weight is ``a - 1/2``;
    2. the trace of all answers so far, which is the claim;
    3. random votes that are correlated with it: the trace plus a random direction of the same length through all rules
       of the board, also through those that were not asked about. All of them share the trace, so the direction
       is weighted by ``a`` less the mean of these answers.

    The claim after the last round is asked once more, with everything.

    How this differs from the papers: they trace *which rows* are in the sample, with code words that are biased
    by a random share of ones, score each row by name, and take rows that were accused out of later queries; with that
    they prove that no efficient mechanism answers more than about n^2 queries. A board tells no row apart and its
    rows' labels are fair coins. So here the *labels* are traced, the code words are fair, the scores of the rows exist
    only as a vote, and later queries depend on earlier answers through step 3 and not through accusations.

    Attributes:
        votes_per_round: Correlated random votes in each round.

    Source: after Hardt and Ullman 2014 and Steinke and Ullman 2015 (interactive fingerprinting codes); the final vote
    is the linear reconstruction of Dinur and Nissim 2003.
    """

    rounds: int = 4
    votes_per_round: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        whole(self.rounds, "rounds")
        whole(self.votes_per_round, "votes_per_round", least=0)

    @property
    def votes(self) -> int:
        """Number of votes that are asked about. Besides, each rule of the board is asked about once."""
        return self.rounds * (1 + self.votes_per_round) + 1

    def play(self, board: Board) -> Iterator[Claim]:
        """Yield a claim for the trace after each round, and one at the end."""
        rng = np.random.default_rng(self.seed)
        trace, votes = np.zeros(board.rules), 0
        ends = np.linspace(0, board.rules, self.rounds + 1).astype(int).tolist()
        for first, last in pairwise(ends):
            trace[first:last] += _agreement(board.score_rules(first, last, guess=None), 0.5)
            yield self._claim(board, trace, last + votes)
            directions = rng.normal(size=(self.votes_per_round, board.rules))
            directions /= np.linalg.norm(directions, axis=1, keepdims=True)
            length = float(np.linalg.norm(trace)) or 1.0
            answers = scores_of_votes(board, [Vote(trace + length * way, 0.0) for way in directions])
            known = answers[~np.isnan(answers)]
            shared = float(np.mean(known)) if len(known) else 0.5
            trace = trace + np.asarray(_agreement(answers, shared) @ directions, dtype=np.float64)
            votes += 1 + self.votes_per_round
        yield self._claim(board, trace, board.rules + votes)

    def _claim(self, board: Board, trace: NDArray[np.float64], asked: int) -> Claim:
        vote = Vote(trace.copy(), 0.0)
        return Claim(queries=asked + 1, vote=vote, score=board.score_vote(vote))


def _agreement(answers: NDArray[np.float64], usual: float) -> NDArray[np.float64]:
    """Return each answer minus the expected answer `usual`, and 0 for each refused one."""
    return np.where(np.isnan(answers), 0.0, answers - usual)


_VOICES = (-1, 0, 1)


@dataclass(frozen=True, slots=True)
class OptimisingAnalyst(Analyst):
    """Analyst who lets Optuna's TPE sampler choose which rules vote, to raise the reported score.

    This is automatic tuning with a test set as the objective: nobody looks at a single score. The rules are in groups,
    with one study of Optuna for each group. In a study every rule of the group votes yes, no or not at all, in addition
    to the best vote of earlier studies. The best vote of all is the start of the next study. Rules are never scored
    alone; each query is a vote. (One study over all rules at once finds much less with as many queries.)

    Attributes:
        rules_per_study: Rules that are tuned together.
        trials_per_study: Votes that are asked in each study.
        batch: Votes that are asked at once, before the sampler sees their scores.

    Source: Bergstra et al. 2011 (the tree-structured Parzen estimator), as in Optuna; the stages are ours.
    """

    rules_per_study: int = 8
    trials_per_study: int = 40
    batch: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("rules_per_study", "trials_per_study", "batch"):
            whole(getattr(self, name), name)

    def queries(self, rules: int) -> int:
        """Return the number of votes that are asked on a board with this many rules."""
        return -(-rules // self.rules_per_study) * self.trials_per_study

    def play(self, board: Board) -> Iterator[Claim]:
        """Yield the best vote so far after each study, until a whole batch is refused.

        Raises:
            ModuleNotFoundError: If Optuna is not installed (``everhold-lab[optuna]``).
        """
        best, asked = Claim(0, Vote(np.zeros(0), 0.0), -np.inf), 0
        for first in range(0, board.rules, self.rules_per_study):
            last = min(first + self.rules_per_study, board.rules)
            try:
                import optuna
            except ModuleNotFoundError:
                raise ModuleNotFoundError(
                    "The optimising analyst needs the package optuna. Install it: pip install 'everhold-lab[optuna]'.",
                    name="optuna",
                ) from None
            optuna.logging.set_verbosity(optuna.logging.ERROR)
            drawn = int(np.random.default_rng([self.seed, first]).integers(2**31))
            study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=drawn))
            base = np.pad(best.vote.weights, (0, last - len(best.vote.weights)))
            for done in range(0, self.trials_per_study, self.batch):
                trials = [study.ask() for _ in range(min(self.batch, self.trials_per_study - done))]
                votes = [_suggested(trial, base, first) for trial in trials]
                scores = scores_of_votes(board, votes)
                asked += len(trials)
                if bool(np.all(np.isnan(scores))):
                    return
                _tell(study, trials, scores)
                top = int(np.nanargmax(scores))
                if scores[top] > best.score:
                    best = Claim(asked, votes[top], float(scores[top]))
            yield Claim(asked, best.vote, best.score)


def _suggested(trial: Trial, base: NDArray[np.float64], first: int) -> Vote:
    """Return the best vote so far, with weights for the new rules that the sampler suggests."""
    weights = base.copy()
    weights[first:] = [trial.suggest_categorical(f"rule {rule}", _VOICES) for rule in range(first, len(base))]
    return Vote(weights, 0.0)


def _tell(study: Study, trials: list[Trial], scores: NDArray[np.float64]) -> None:
    from optuna.trial import TrialState

    for trial, score in zip(trials, scores.tolist(), strict=True):
        if np.isnan(score):
            study.tell(trial, state=TrialState.FAIL)
        else:
            study.tell(trial, score)


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
        whole(self.members if isinstance(self.members, int) else len(self.members), "members")
        whole(self.rules_per_turn, "rules_per_turn")

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
            votes = [_team_vote(leader, voice[:last]) for voice in own]
            asked, first = asked + last - first + members, last
            scores = scores_of_votes(board, votes).tolist()
            if bool(np.all(np.isnan(scores))):
                return
            claims = [Claim(asked, vote, score) for vote, score in zip(votes, scores, strict=True)]
            best = best_claim(claims)
            yield best
            leader = best if leader is None else best_claim([leader, best])


def _team_vote(leader: Claim | None, voice: NDArray[np.float64]) -> Vote:
    """Return the weights of the public vote, replaced by the weights of a team member wherever these are not 0."""
    public = np.zeros(0) if leader is None else leader.vote.weights
    return Vote(np.where(voice != 0.0, voice, np.pad(public, (0, len(voice) - len(public)))), 0.0)


def _in_turns(board: Board, members: Sequence[Analyst]) -> Iterator[Claim]:
    ends = np.linspace(0, board.rules, len(members) + 1).astype(int).tolist()
    shares = [_Share(board, first, last) for first, last in pairwise(ends)]
    games = {place: member.play(share) for place, (member, share) in enumerate(zip(members, shares, strict=True))}
    while games:
        claims = {place: claim for place, game in games.items() if (claim := next(game, None)) is not None}
        games = {place: games[place] for place in claims}
        asked = sum(share.asked for share in shares)
        if all(math.isnan(claim.score) for claim in claims.values()):
            return
        yield best_claim(Claim(asked, shares[place].whole(claim.vote), claim.score) for place, claim in claims.items())


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
        return Vote(np.pad(vote.weights, (self._first, 0)), vote.threshold)
