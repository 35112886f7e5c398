"""Experiment on competitions of fifty teams: do places on a leaderboard say who predicts new labels better?"""

from __future__ import annotations

import tempfile
import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
from scipy.stats import spearmanr

import everhold as eh
from everhold.mechanisms import GuessAndCheck, Mechanism
from everhold.mechanisms.records import Evaluations
from everhold.randomness import SeededNoise
from everhold_competitions.ladder import Ladder
from everhold_lab.experiments import Experiment, Row, Setting, mean_of, promises_kept
from everhold_lab.published.classical import ParameterFreeLadder
from everhold_privacy.mechanisms.thresholdout import Thresholdout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from everhold_lab.analysts import Vote


_SURE, _COIN = 0.95, 0.5
"""Chance that the better class is the label: on most rows, and where labels are coins."""

_COINS = 0.2  # share of rows whose labels are coins
_CHANGED = 0.1  # share of a team's errors that another of its submissions makes elsewhere
_FITTING = 3  # how many teams are better than the one that fits coins
_BARE, _NONE, _LEADER = "bare scores", "feedback none", "feedback leader"


@dataclass(frozen=True, kw_only=True)
class Competitions(Experiment):
    """Experiment with a competition among teams of known quality.

    Attributes:
        submissions: Number of submissions of each team.
        best: True accuracy of the best team.
        step: Difference in true accuracy between a team and the next one.
        confidence: Probability with which everything on a leaderboard has to hold.
        least_correlation: Smallest rank correlation of the final scores with the true accuracies that the findings
            accept.
        widest: Largest half-width of a final score that the findings accept if nothing was told before the end.
    """

    name: ClassVar[str] = "leaderboard"
    title: ClassVar[str] = "A competition: fifty teams, twenty submissions each"
    source: ClassVar[str] = "Statements about silent studies and the gate of everhold"
    about: ClassVar[str] = (
        "Fifty teams of known quality submit predictions to a competition, again and again. A fifth of all labels are "
        "fair coins, on which every submission guesses anew. One of the better teams fits these coins to the feedback "
        "that it gets: its last submission is the vote of all its others, each one flipped if its feedback was bad. "
        "The true order of the teams is known, because labels can be drawn anew. A place on the leaderboard is false "
        "if a team is said to be better than a team that is as good or better. Without the protection every "
        "submission is told its score on the sealed rows, and the team with the best of all scores is said to lead."
    )
    repetitions: ClassVar[int] = 10
    keys: ClassVar[tuple[str, ...]] = ("told",)

    rows: int = 10_000
    teams: int = 50
    submissions: int = 20
    best: float = 0.85
    step: float = 0.002
    confidence: float = 0.95
    least_correlation: float = 0.95
    widest: float = 0.02

    def settings(self) -> Sequence[Setting]:
        """Return the kinds of feedback that the competition is played with, one setting for each."""
        return [{"told": told} for told in (_NONE, _LEADER, _BARE)]

    def play(self, setting: Setting, seed: int) -> list[Row]:
        """Play one competition with the given feedback, and return one row of measurements."""
        game = _CompetitionGame(self, np.random.default_rng(seed))
        if setting["told"] == _BARE:
            return [game.bare()]
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore", eh.VacuousGuaranteeWarning)  # of the last of all promotions
            with eh.Holdout.create(
                f"{folder}/contest.db",
                "contest",
                holdout={"x": np.arange(self.rows), "y": game.labels},
                label="y",
                rows=eh.Rows(features="public", equal_rows=True),
                competition=eh.Competition(
                    feedback=setting["told"].split()[-1], teams=self.teams, submissions=self.submissions
                ),
                confidence=self.confidence,
            ) as holdout:
                return [game.held(holdout)]

    def line(self, rows: Sequence[Row]) -> Row:
        """Return how the games with one kind of feedback went."""
        widths = [game["half_width"] for game in rows if game["half_width"] is not None]
        return {
            "games": len(rows), "least_correlation": min(game["correlation"] for game in rows),
            "least_correlation_of_places": min(game["correlation_of_places"] for game in rows),
            "widest": max(widths, default=None), "surprises": sum(game["charged"] for game in rows),
            "false_leaders": mean_of(rows, "false_leader"),
            "games_with_a_false_claim": sum(game["false"] > 0 for game in rows),
            "pairs_told_apart": mean_of(rows, "told_apart"),
        }  # fmt: skip

    def findings(self, summary: Sequence[Row], rows: Sequence[Row]) -> Mapping[str, bool]:
        """Find that places are true and sharp, and that without protection a false leader is common."""
        kept = [(row["told"], row["false"] > 0) for row in rows if row["told"] != _BARE]
        found = promises_kept(kept, confidence=self.confidence)
        by_told = {line["told"]: line for line in summary}
        for told, line in by_told.items():
            if told == _BARE:
                luck = line["false_leaders"]
                found[f"without the protection {100 * luck:.0f} % of leaders are false"] = luck >= 0.1
                continue
            least, false = line["least_correlation"], line["false_leaders"]
            truth = "final scores and true accuracies have a rank correlation of at least"
            found[f"{told}: {truth} {least:.4f}"] = least >= self.least_correlation
            found[f"{told}: {100 * false:.0f} % of leaders are neither the best team nor tied with it"] = false == 0.0
        if _NONE in by_told:
            wide, cost = by_told[_NONE]["widest"], by_told[_NONE]["surprises"]
            said = f"{_NONE}: final scores have half-widths of at most {wide:.4f}, and cost {cost} surprises"
            found[said] = wide <= self.widest and cost == 0
        return found


class _CompetitionGame:
    """A simulated competition: the labels of the rows, and the predictions of all teams."""

    def __init__(self, sizes: Competitions, rng: np.random.Generator) -> None:
        self._sizes, self._rng = sizes, rng
        self._better = rng.integers(0, 2, sizes.rows)
        self._coins = rng.random(sizes.rows) < _COINS
        self._chance = np.where(self._coins, _COIN, _SURE)
        self.labels = np.where(rng.random(sizes.rows) < self._chance, self._better, 1 - self._better)
        self._quality = sizes.best - sizes.step * np.arange(sizes.teams)
        self._fitting = min(_FITTING, sizes.teams - 1)
        self._errors = [self._drawn(quality) for quality in self._quality]
        self._told: list[tuple[NDArray[np.int64], float]] = []

    def _drawn(self, quality: float) -> NDArray[np.bool_]:
        """Return random rows on which a team of this quality predicts wrongly.

        Rows whose label is a fair coin are excluded.
        """
        sure = ~self._coins
        most = float(np.mean(self._chance))
        share = (most - quality) / ((2.0 * _SURE - 1.0) * float(np.mean(sure)))
        rows = np.flatnonzero(sure)
        wrong = np.zeros(self._sizes.rows, dtype=bool)
        wrong[self._rng.choice(rows, round(share * len(rows)), replace=False)] = True
        return wrong

    def submission(self, team: int, number: int) -> NDArray[np.int64]:
        """Return the predictions of one submission of a team.

        The last submission of the overfitting team predicts the random labels by a vote of its earlier submissions,
        weighted by their reported scores.
        """
        wrong = self._errors[team].copy()
        moved = self._rng.choice(np.flatnonzero(wrong), round(_CHANGED * wrong.sum()), replace=False)
        wrong[moved] = False
        right = np.flatnonzero(~wrong & ~self._coins)
        wrong[self._rng.choice(right, len(moved), replace=False)] = True
        predicted = np.where(wrong, 1 - self._better, self._better)
        predicted[self._coins] = self._rng.integers(0, 2, int(self._coins.sum()))
        if team == self._fitting and number == self._sizes.submissions - 1 and self._told:
            middle = float(np.mean([told for _, told in self._told]))
            signed = [np.sign(told - middle) * (2 * guess[self._coins] - 1) for guess, told in self._told]
            predicted[self._coins] = np.sum(signed, axis=0) > 0
        return np.asarray(predicted)

    def true(self, predicted: NDArray[np.int64]) -> float:
        """Return the accuracy of predictions for labels drawn again."""
        return float(np.mean(np.where(predicted == self._better, self._chance, 1.0 - self._chance)))

    def _turns(self) -> Sequence[tuple[int, int]]:
        """Return team and number of each submission, in rounds of random order."""
        return [
            (int(team), number) for number in range(self._sizes.submissions)
            for team in self._rng.permutation(self._sizes.teams)
        ]  # fmt: skip

    def bare(self) -> Row:
        """Play with plain scores, without protection, and return the row of results."""
        shown, truths = np.zeros(self._sizes.teams), np.zeros(self._sizes.teams)
        for team, number in self._turns():
            predicted = self.submission(team, number)
            score = float(np.mean(predicted == self.labels))
            if team == self._fitting:
                self._told.append((predicted, score))
            if score > shown[team]:
                shown[team], truths[team] = score, self.true(predicted)
        leads = int(np.argmax(shown))
        order = np.argsort(-shown)
        false = sum(truths[a] <= truths[b] for place, a in enumerate(order) for b in order[place + 1 :])
        return {
            **_correlations(truths, shown, -shown), "half_width": None, "false": int(false),
            "false_leader": bool(truths[leads] < truths.max()), "told_apart": 1.0, "charged": 0,
        }  # fmt: skip

    def held(self, holdout: eh.Holdout) -> Row:
        """Play through a holdout until its end, and return the row of results."""
        truth: dict[str, float] = {}
        for team, number in self._turns():
            predicted = self.submission(team, number)
            told = holdout.competition.submit(predicted, team=f"team {team}")
            if team == self._fitting:
                self._told.append((predicted, float(bool(told.leads))))
            if told.final:
                truth[told.team] = self.true(predicted)
        leader = holdout.competition.leaderboard().standings[0]
        holdout.unseal()
        board = holdout.competition.leaderboard()
        names = list(truth)
        truths = np.array([truth[name] for name in names])
        lines = [board[name] for name in names]
        false = sum(
            truth[each.better] <= truth[each.second if each.better == each.first else each.first]
            for each in board.comparisons if each.better is not None
        )  # fmt: skip
        missed = sum(not float(line.low or 0.0) <= truth[line.team] <= float(line.high or 1.0) for line in lines)
        best = max(truth.values())
        if board.feedback == "none":  # nobody leads before the end
            false_leader = not any(line.rank == 1 and truth[line.team] == best for line in lines)
        else:
            false_leader = truth[leader.team] < best and board[leader.team].rank != 1
        scores = np.array([float(line.score or 0.0) for line in lines])
        places = np.array([float(line.rank or 0) for line in lines])
        return {
            **_correlations(truths, scores, places),
            "half_width": max((float(line.high or 0.0) - float(line.low or 0.0)) / 2.0 for line in lines),
            "false": false + missed, "false_leader": bool(false_leader),
            "told_apart": sum(each.better is not None for each in board.comparisons) / len(board.comparisons),
            "charged": int(holdout.status()["charged"]),
        }  # fmt: skip


def _correlations(truths: NDArray[np.float64], scores: NDArray[np.float64], places: NDArray[np.float64]) -> Row:
    return {
        "correlation": float(spearmanr(scores, truths).statistic),
        "correlation_of_places": float(-spearmanr(places, truths).statistic),
    }


TRUTH = 0.5
"""True score of every submission."""

BARE, PARAMETER_FREE = "bare", "parameter-free ladder"
LADDER, HALF_STEP = "ladder", "ladder, half a step"
GUESS_AND_CHECK, THRESHOLDOUT = "guess and check", "thresholdout"
LEADERBOARDS = (BARE, PARAMETER_FREE, LADDER, HALF_STEP, GUESS_AND_CHECK, THRESHOLDOUT)


@dataclass(frozen=True, slots=True)
class SubmittedFiles:
    """Predictions of several submissions for all rows, with their numbers of correct predictions.

    Attributes:
        predicted: +1 or -1 of each row, shape (submissions, 2 rows); the first half of the rows is sealed.
        labels: Labels in the same form as the predictions, shape (2 rows,).
        hits: Right predictions of sealed and of training rows, shape (submissions, 2).
    """

    predicted: NDArray[np.float32]
    labels: NDArray[np.float32]
    hits: NDArray[np.int64]

    @classmethod
    def of(cls, predicted: NDArray[np.float32], labels: NDArray[np.float32]) -> SubmittedFiles:
        """Return submissions with these predictions, and count how many are correct."""
        rows = len(labels) // 2
        halves = slice(rows), slice(rows, None)
        balance = np.stack([predicted[:, half] @ labels[half] for half in halves], axis=1)
        return cls(predicted, labels, (rows + balance.astype(np.int64)) // 2)  # sums of signs are exact in float32

    @classmethod
    def drawn(cls, generator: np.random.Generator, *, rows: int, labellings: int) -> SubmittedFiles:
        """Return submissions that predict each row by a fair coin, for labels that are fair coins as well."""
        drawn = np.frombuffer(generator.bytes(-(-(1 + labellings) * rows // 4)), dtype=np.uint8)
        bits = np.unpackbits(drawn, count=(1 + labellings) * 2 * rows).reshape(-1, 2 * rows)
        signs = bits.astype(np.float32)
        signs *= 2.0
        signs -= 1.0
        return cls.of(signs[1:], signs[0])

    def __getitem__(self, which: slice) -> SubmittedFiles:
        return SubmittedFiles(self.predicted[which], self.labels, self.hits[which])

    @property
    def rows(self) -> int:
        """Number of sealed rows."""
        return len(self.labels) // 2


class SimulatedLeaderboard(Protocol):
    """Leaderboard that shows scores of submissions.

    Attributes:
        radius: Half-width that is promised for every shown score. None if nothing is promised.
        kept: Whether every shown score was within the promised radius so far.
    """

    radius: float | None
    kept: bool

    def show(self, submitted: SubmittedFiles) -> NDArray[np.float64]:
        """Return the scores that are shown for submissions, shape (submissions,), nan for a refused one."""
        ...


class _Bare:
    """Leaderboard that shows the exact scores, without a promise."""

    radius: float | None = None
    kept = True

    def show(self, submitted: SubmittedFiles) -> NDArray[np.float64]:
        return submitted.hits[:, 0] / submitted.rows


class _ParameterFree:
    """Leaderboard that shows the best score so far by the parameter-free Ladder, without a promise."""

    radius: float | None = None
    kept = True

    def __init__(self) -> None:
        self._ladder = ParameterFreeLadder()

    def show(self, submitted: SubmittedFiles) -> NDArray[np.float64]:
        sealed, shown = slice(submitted.rows), np.empty(len(submitted.hits))
        for place, predicted in enumerate(submitted.predicted):
            self._ladder = self._ladder.submit(predicted[sealed] != submitted.labels[sealed])
            shown[place] = 1.0 - self._ladder.shown
        return shown


class _Mechanical:
    """Leaderboard that shows the answers of a mechanism, and compares them with the true scores.

    Guesses are the scores on the training rows.
    """

    def __init__(self, mechanism: Mechanism, seed: int) -> None:
        self._mechanism, self._noise = mechanism, SeededNoise(seed)
        self._state = mechanism.start(self._noise)
        self._radius = mechanism.promise().radius
        self.radius: float | None = self._radius
        self.kept = True

    def show(self, submitted: SubmittedFiles) -> NDArray[np.float64]:
        mechanism = self._mechanism
        sums = submitted.hits * mechanism.unit
        batch = Evaluations(totals=sums[:, :1], guesses=sums[:, 1], rows=mechanism.rows, unit=mechanism.unit)
        self._state, replies = mechanism.answer_many(self._state, batch, self._noise)
        far = np.abs(replies.values - TRUTH) > self._radius
        self.kept &= not bool(np.any(far | (replies.lows > TRUTH) | (replies.highs < TRUTH)))
        return replies.values


def leaderboard(
    board: str, rows: int, queries: int, surprises: int, confidence: float, seed: int
) -> SimulatedLeaderboard:
    """Return the simulated leaderboard of a name, planned for this many queries."""
    if board == BARE:
        return _Bare()
    if board == PARAMETER_FREE:
        return _ParameterFree()
    return _Mechanical(tuned_for(board, rows, queries, surprises, confidence), seed)


@lru_cache(maxsize=256)
def tuned_for(board: str, rows: int, queries: int, surprises: int, confidence: float) -> Mechanism:
    """Return the mechanism of a name, tuned for this many queries. A higher score is better."""
    if board in (LADDER, HALF_STEP):
        margin = 1 if board == HALF_STEP else 2
        return Ladder.tuned(rows=rows, queries=queries, confidence=confidence, margin=margin, better="higher")
    kind = GuessAndCheck if board == GUESS_AND_CHECK else Thresholdout
    return kind.tuned(rows=rows, queries=queries, surprises=min(surprises, queries), confidence=confidence)


class LabellingBoard:
    """Board for analysts on which rule j is labelling j, and guesses are the scores on the training rows.

    Attributes:
        refused: Number of submissions that were refused.
    """

    def __init__(self, world: SubmittedFiles, rules: int, shown: SimulatedLeaderboard) -> None:
        self._world, self._shown = world, shown
        self.rules, self.asked, self.refused = rules, 0, 0

    def score_rules(self, first: int, last: int, *, guess: float | None) -> NDArray[np.float64]:
        """Return the shown scores of the labellings ``first, ..., last - 1``."""
        return self._submit(self._world[first:last])

    def score_vote(self, vote: Vote) -> float:
        """Return the shown score of a vote."""
        return float(self.score_votes([vote])[0])

    def score_votes(self, votes: Sequence[Vote]) -> NDArray[np.float64]:
        """Return the scores that the leaderboard shows for votes submitted one after the other."""
        weights = np.zeros((len(votes), max(len(vote.weights) for vote in votes)), dtype=np.float32)
        for row, vote in zip(weights, votes, strict=True):
            row[: len(vote.weights)] = vote.weights
        thresholds = np.array([[vote.threshold] for vote in votes], dtype=np.float32)
        yes = weights @ self._world.predicted[: weights.shape[1]] > thresholds
        return self._submit(SubmittedFiles.of(np.where(yes, np.float32(1), np.float32(-1)), self._world.labels))

    def _submit(self, submitted: SubmittedFiles) -> NDArray[np.float64]:
        scores = self._shown.show(submitted)
        self.asked += len(scores)
        self.refused += int(np.count_nonzero(np.isnan(scores)))
        return scores
