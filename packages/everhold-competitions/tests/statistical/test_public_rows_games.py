"""Games of competitions with public rows: teams that climb on public scores or guess wrong, beside the bare board.

``python test_public_rows_games.py`` prints the tables of docs/guides/competitions.md.
"""

# ruff: noqa: T201

import tempfile
import warnings

import numpy as np
from board_samples import board_of

import everhold as eh
from everhold.mechanisms import Source, State
from everhold.mechanisms.records import Evaluations
from everhold_competitions.competition import PublicTerms
from everhold_competitions.ladder import Ladder

# Attackers: what a team gains on rows that it never saw scored, and by how much its public score rises.


class LadderBoard:
    """Public scores as a competition tells them: the team's best, in steps."""

    def __init__(self, rows, submissions):
        terms = eh.Competition(feedback="score", public=0.3, teams=30, submissions=submissions)
        self.ladder = PublicTerms(terms, "board").adjust(Ladder(rows=rows, queries=30 * submissions, grid=1))
        self.state, self.shown = State(), -1.0

    def rises(self, right):
        """Return whether the team's score on the board rises by a file with these right rows."""
        totals = np.array([[int(right.sum()) * self.ladder.unit]])
        guess = np.array([-1 if self.shown < 0 else round(self.shown * self.ladder.steps)])
        told = Evaluations(totals, guess, self.ladder.rows, self.ladder.unit)
        self.state, replies = self.ladder.answer_many(self.state, told, None)
        self.shown = float(replies.values[0])
        return replies.sources[0] == Source.HOLDOUT


class BareBoard:
    """Exact public scores."""

    def __init__(self, rows, submissions):
        self.shown = -1.0

    def rises(self, right):
        """Return whether the team's score on the board rises."""
        better = right.mean() > self.shown
        self.shown = max(self.shown, right.mean())
        return better


def by_flips(board, labels, is_public, submissions, rng):
    """A model that is right on four rows of five; files flip one row in 500, and what raises the score stays."""
    best = np.where(rng.random(len(labels)) < 0.8, labels, 1 - labels)
    start = best
    board.rises((best == labels)[is_public])
    for _ in range(submissions - 1):
        tried = np.where(rng.random(len(labels)) < 0.002, 1 - best, best)
        if board.rises((tried == labels)[is_public]):
            best = tried
    return start, best


def by_boosting(board, labels, is_public, submissions, rng):
    """Files of fair coins; the last one is a vote of those that scored above one half, or by which the score rose."""
    exact, votes = isinstance(board, BareBoard), np.zeros(len(labels))
    start = None
    for _ in range(submissions - 1):
        coins = rng.integers(0, 2, len(labels))
        start = coins if start is None else start
        rose = board.rises((coins == labels)[is_public])
        if (coins == labels)[is_public].mean() > 0.5 if exact else rose:
            votes += 2 * coins - 1
    last = (votes > 0).astype(int)
    board.rises((last == labels)[is_public])
    return start, last


def attack(kind, board, *, rows=5_000, public=0.3, submissions=600, games=20, seed=0):
    """Return the mean rise of what the board shows, of the exact public score, and on the final rows."""
    rises = []
    for game in range(games):
        rng = np.random.default_rng([seed, game])
        labels, is_public = rng.integers(0, 2, rows), rng.permutation(rows) < public * rows
        told = board(int(is_public.sum()), submissions)
        first, last = kind(told, labels, is_public, submissions, rng)
        right = [(each == labels).astype(float) for each in (first, last)]
        exact, final = ((right[1] - right[0])[side].mean() for side in (is_public, ~is_public))
        rises.append([told.shown - right[0][is_public].mean(), exact, final])
    return np.mean(rises, axis=0)


def test_the_ladder_of_a_team_rises_less_by_luck_than_a_bare_score():
    for kind in (by_flips, by_boosting):
        bare, ladder = (attack(kind, board, submissions=200, games=3) for board in (BareBoard, LadderBoard))
        assert ladder[1] < 0.6 * bare[1]
        assert abs(ladder[2]) < 0.03  # nothing is gained on the final rows, one way or the other
        assert abs(bare[2]) < 0.03 + bare[1]


# Whole games at a probability of failure of .2: all teams are as good as a coin, and one climbs on public scores.

ROWS, TEAMS, FILES = 240, 4, 12


def final_board(folder, labels, *, public, climb):
    competition = eh.Competition(
        feedback="score" if public else "none", public=public or None, teams=TEAMS, submissions=FILES + 1
    )
    holdout = board_of(folder, labels, competition)
    with holdout:
        climb(holdout)
        for number in range(1, TEAMS):
            coins = np.random.default_rng([number, int(labels.sum())]).integers(0, 2, ROWS)
            holdout.competition.submit(coins, team=f"team {number}")
        holdout.unseal()
        return sum(each.better is not None for each in holdout.competition.leaderboard().comparisons)


def climbing(rng, score):
    """Boost by a public score: the vote of files by which it rose, or that were better than a coin."""

    def climb(holdout):
        votes, best = np.zeros(ROWS), -1.0
        for _ in range(FILES):
            coins = rng.integers(0, 2, ROWS)
            told = score(holdout, coins)
            votes += (2 * coins - 1) * (told - 0.5 if told > best else 0.0)
            best = max(best, told)
        score(holdout, (votes > 0).astype(int))

    return climb


def test_the_final_board_is_true_of_a_team_that_climbed_on_public_scores(tmp_path):
    lost = 0
    for game in range(6):
        rng, folder = np.random.default_rng(game), tmp_path / str(game)
        folder.mkdir()
        labels = rng.integers(0, 2, ROWS)
        lost += final_board(folder, labels, public=0.5, climb=climbing(rng, _public_score)) > 0
    assert lost <= 3  # more than 3 of 6 have a probability of .017 where each game is lost with one of .2


def _public_score(holdout, predictions):
    return holdout.competition.submit(predictions, team="climber").answer.value


def test_public_rows_on_the_final_board_tell_equal_teams_apart(tmp_path):
    """The protection removed: the final board is about all rows, of which half gave exact public scores."""
    lost = 0
    for game in range(3):
        rng, folder = np.random.default_rng(game), tmp_path / str(game)
        folder.mkdir()
        labels, public = rng.integers(0, 2, ROWS), rng.permutation(ROWS) < ROWS // 2

        def climb(holdout, labels=labels, public=public, rng=rng):
            files = rng.integers(0, 2, (400, ROWS))
            scores = (files == labels)[:, public].mean(axis=1)
            vote = ((2 * files - 1) * (scores - 0.5)[:, None]).sum(axis=0)
            holdout.competition.submit((vote > 0).astype(int), team="climber")

        lost += final_board(folder, labels, public=None, climb=climb) > 0
    assert lost == 3


# How many pairs a host can tell apart, if teams guess wrong on purpose.


def pairs_apart(public, *, feedback="score", attackers=10, files=3, surprises=30, rows=5_000, teams=30):
    """Return how many pairs of teams the final board tells apart, and its median half-width."""
    rng = np.random.default_rng(1)
    labels, hard, ids = rng.integers(0, 2, rows), rng.random(rows), np.arange(rows)
    made = [
        np.where(
            hard < level,
            np.where(rng.random(rows) < 0.97, labels, 1 - labels),
            np.where(rng.random(rows) < 0.5, labels, 1 - labels),
        )
        for level in np.linspace(0.5, 0.8, teams)
    ]
    guesses = feedback == "score" and public is None
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with eh.Holdout.create(
            f"sqlite:///{folder}/s.db", "c", label="y", rows=eh.Rows(row_id="id", features="public"),
            holdout={"id": ids, "x": rng.normal(size=rows), "y": labels}, surprises=surprises if guesses else None,
            competition=eh.Competition(
                feedback=feedback, public=public, teams=teams, submissions=20,
                surprises_per_team=files if guesses else None,
            ),
        ) as holdout:  # fmt: skip
            for team in range(attackers):
                for _ in range(files):
                    wrong = {"id": ids, "prediction": rng.integers(0, 2, rows)}
                    holdout.competition.submit(wrong, team=f"t{team}", **({"guess": 0.99} if guesses else {}))
            told = 0
            for team, predictions in enumerate(made):
                guess = {"guess": round(float((predictions == labels).mean()), 2)} if guesses else {}
                result = holdout.competition.submit({"id": ids, "prediction": predictions}, team=f"t{team}", **guess)
                told += result.answer is not None and not result.refused
            holdout.unseal()
            board = holdout.competition.leaderboard()
    apart = sum(each.better is not None for each in board.comparisons)
    return apart, float(np.median([(row.high - row.low) / 2 for row in board.standings])), told


def test_study_wrong_guesses_do_not_take_the_board_from_a_host_with_public_rows():
    apart, _, told = pairs_apart(0.2)
    spent, _, _ = pairs_apart(None)
    assert told == 30
    assert apart >= 280 > 10 > spent


if __name__ == "__main__":
    print("pairs apart of 435, median half-width, teams that were told a score")
    for title, given in (
        ("none, 5,000 rows", {"public": None, "feedback": "none"}),
        ("none, 3,500 rows", {"public": None, "feedback": "none", "rows": 3_500}),
        ("score, without attackers", {"public": None, "attackers": 0}),
        ("score, 10 attackers", {"public": None}),
        ("score, public rows .3", {"public": 0.3}),
        ("score, public rows .2", {"public": 0.2}),
        ("score, public rows .1", {"public": 0.1}),
    ):
        print(title, *pairs_apart(**given), flush=True)
    print("attack, board: rise shown, exact public rise, rise on final rows")
    for kind in (by_flips, by_boosting):
        for board in (BareBoard, LadderBoard):
            print(kind.__name__, board.__name__, *np.round(attack(kind, board), 4), flush=True)
