"""Attacks on leaderboards by boosting, hill climbing and a crowd, with votes of random labellings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.stats import binom

from everhold.charts import styled
from everhold_lab.analysts import Analyst, BoostingAnalyst, CrowdAnalyst, HillClimbingAnalyst, best_claim
from everhold_lab.experiments import Experiment, Picture, Row, Setting, mean_of
from everhold_lab.experiments import competitions as boards

if TYPE_CHECKING:
    import altair as alt

_BOOSTING, _CLIMBING, _CROWD = "boosting", "hill climbing", "crowd"
_ATTACKS = (_BOOSTING, _CLIMBING, _CROWD)
_ROUNDS = 4
_MOST_MEMBERS = 10
_COLOURS = ("#d55e00", "#cc79a7", "#0072b2", "#56b4e9", "#009e73", "#24292f")
_DASHES = ((1, 0), (8, 3), (1, 0), (6, 4), (2, 2), (10, 3, 2, 3))
_BAND = (0.05, 0.95)
_CHANCE = 0.9999  # of no false alarm, for each of about a hundred kinds of games
_EXACT = 1e-9


@dataclass(frozen=True)
class LadderAttack(Experiment):
    """Experiment in which random labellings are submitted to leaderboards, and votes are made of the scores.

    Attributes:
        rows: Number of sealed rows; the training rows, which make guesses, are as many.
        submissions: Numbers of random labellings, each for a game of its own.
        surprises: Planned number of surprises of guess and check and of Thresholdout.
        confidence: 1 - beta of every promise.
    """

    rows: int = 4_000
    submissions: tuple[int, ...] = (1, 2, 5, 10, 25, 50, 100, 200, 400)
    surprises: int = 1
    confidence: float = 0.95

    name: ClassVar[str] = "ladder-attack"
    title: ClassVar[str] = "Attacks on a leaderboard"
    source: ClassVar[str] = (
        "Blum and Hardt 2015 (The Ladder), figure of the boosting attack; the other boards are everhold's"
    )
    about: ClassVar[str] = (
        "Three attackers submit random labellings to a leaderboard. Every label is a fair coin, so the true score of "
        "every submission is 1/2. The booster lets the labellings with a shown score above 1/2 vote. The hill climber "
        "weights them by their scores, round after round. The crowd has many members who build on the public best "
        "score. On a board that shows exact scores, the shown score of the vote rises with the number of submissions. "
        "The Ladder, guess and check and Thresholdout keep their promise. The parameter-free Ladder promises nothing, "
        "and its scores stay near 1/2. Guess and check and Thresholdout confirm the score on the training rows while "
        "it is close to the sealed score. So the vote is fitted to the training rows, and the reported score is off "
        "by at most the promised radius."
    )
    keys: ClassVar[tuple[str, ...]] = ("attack", "board", "submissions")

    def settings(self) -> list[Setting]:
        """Return every attack against every board."""
        return [{"attack": attack, "board": board} for attack in _ATTACKS for board in boards.LEADERBOARDS]

    def play(self, setting: Setting, seed: int) -> list[Row]:
        """Play one game for each number of submissions, on the same labels and labellings."""
        generator = np.random.default_rng([seed, self.rows])
        world = boards.SubmittedFiles.drawn(generator, rows=self.rows, labellings=max(self.submissions))
        return [self._game(world, setting["attack"], setting["board"], k, seed) for k in self.submissions]

    def _game(self, world: boards.SubmittedFiles, attack: str, board: str, submissions: int, seed: int) -> Row:
        analyst, queries = _attacker(attack, submissions)
        shown = boards.leaderboard(board, self.rows, queries, self.surprises, self.confidence, seed)
        game = boards.LabellingBoard(world, submissions, shown)
        claims = [claim for claim in analyst.play(game) if not math.isnan(claim.score)]
        return {
            "submissions": submissions,
            "queries": game.asked,
            "refused": game.refused,
            "reported": best_claim(claims).score if claims else None,
            "fresh": boards.TRUTH,
            "radius": shown.radius,
            "kept": shown.kept,
        }

    def line(self, rows: Sequence[Row]) -> Row:
        """Return the scores that the games of one kind reported, and how many of them broke a promise."""
        reported = [game["reported"] for game in rows if game["reported"] is not None]
        low, high = np.quantile(reported, _BAND).tolist() if reported else (None, None)
        radius = rows[0]["radius"]
        return {
            "games": len(rows), "reported": mean_of(rows, "reported"), "reported_low": low, "reported_high": high,
            "highest": max(reported, default=None), "fresh": boards.TRUTH, "radius": radius,
            "broken": None if radius is None else sum(not game["kept"] for game in rows),
        }  # fmt: skip

    def findings(self, summary: Sequence[Row], rows: Sequence[Row]) -> dict[str, bool]:
        """Find that the bare leaderboard is climbed, that the Ladder is not, and that promises are kept."""
        most = max(self.submissions)
        last = {(line["attack"], line["board"]): line for line in summary if line["submissions"] == most}
        deviation = 0.5 / math.sqrt(self.rows)
        found: dict[str, bool] = {}
        for attack in _ATTACKS:
            bare = last[attack, boards.BARE]["reported"]
            off = (bare - boards.TRUTH) / deviation
            found[
                f"{attack}, {most} submissions: a bare leaderboard shows {bare:.3f} of a vote whose true score is 1/2, "
                f"{off:.1f} standard deviations of a score above it (expected: at least 3)"
            ] = off >= 3.0
        for attack, board in itertools.product(_ATTACKS, (boards.LADDER, boards.HALF_STEP)):
            line, (_, queries) = last[attack, board], _attacker(attack, most)
            ladder = boards.tuned_for(board, self.rows, queries, self.surprises, self.confidence)
            step = 1.0 / float(ladder.parameters()["grid"])
            found[
                f"{attack}, {most} submissions: the {board} shows {line['reported']:.3f} on average and "
                f"{line['highest']:.3f} at most (expected: at most a step of {step:.3f} above 1/2)"
            ] = line["highest"] <= boards.TRUTH + step + _EXACT
        found |= self._promises_kept(summary)
        return found

    def _promises_kept(self, summary: Sequence[Row]) -> dict[str, bool]:
        """Find whether no kind of game breaks its promise more often than chance allows."""
        lines = [line for line in summary if line["broken"] is not None]
        games, broken = (sum(line[name] for line in lines) for name in ("games", "broken"))
        worst = max(lines, key=lambda line: line["broken"] / line["games"])
        most = int(binom.ppf(_CHANCE, worst["games"], 1.0 - self.confidence))
        finding = (
            f"promises were broken in {broken} of {games} games of mechanisms that make one, and in at most "
            f"{worst['broken']} of {worst['games']} of one kind (expected: at most {most} for promises that hold with "
            f"probability {self.confidence:g})"
        )
        return {finding: worst["broken"] <= most}

    def pictures(self, summary: Sequence[Row], rows: Sequence[Row]) -> list[Picture]:
        """Return one chart for each attack: the reported score against submissions, a line for each board."""
        return [
            Picture(
                name=attack.replace(" ", "-"),
                title=f"{attack[0].upper()}{attack[1:]} against leaderboards",
                caption="The score that is reported in the end, against the number of random labellings submitted: "
                f"mean and middle 90 % of all repetitions, on {self.rows:,} rows. Its true value is 1/2. Thresholdout "
                "and guess and check show the score on the training rows while it is near: their lines tell how far "
                "the vote is fitted to the training rows.",
                chart=_chart([line for line in summary if line["attack"] == attack]),
            )
            for attack in _ATTACKS
        ]


def _attacker(attack: str, submissions: int) -> tuple[Analyst, int]:
    """Return an attacker with this many random labellings, and its number of queries."""
    if attack == _BOOSTING:
        return BoostingAnalyst(), submissions + 1
    if attack == _CLIMBING:
        a_round = -(-submissions // _ROUNDS)
        return HillClimbingAnalyst(a_round), submissions + 1 + -(-submissions // a_round)
    members = max(1, min(_MOST_MEMBERS, submissions // (2 * _ROUNDS)))
    a_turn = -(-submissions // (_ROUNDS * members))
    return CrowdAnalyst(members, a_turn), submissions + members * -(-submissions // (a_turn * members))


def _chart(lines: Sequence[Row]) -> alt.Chart | alt.LayerChart:
    import altair as alt

    drawn = [line for line in lines if line["reported"] is not None]
    legend = alt.Legend(
        title=None, orient="right", symbolType="stroke", symbolSize=500, symbolStrokeWidth=2.5, symbolOpacity=1
    )
    names = list(boards.LEADERBOARDS)
    colour = alt.Color("board:N", scale=alt.Scale(domain=names, range=list(_COLOURS)), legend=legend)
    dash_scale = alt.Scale(domain=names, range=[list(dash) for dash in _DASHES])
    ticks = alt.Axis(format=",d", values=sorted({line["submissions"] for line in drawn}), labelOverlap=True)
    base = alt.Chart(alt.InlineData(values=drawn)).encode(
        x=alt.X("submissions:Q", title="random labellings submitted", axis=ticks, scale=alt.Scale(type="sqrt"))
    )
    title, scale = "reported score", alt.Scale(zero=False)
    band = base.mark_area(opacity=0.12).encode(
        y=alt.Y("reported_low:Q", title=title, scale=scale), y2="reported_high:Q", color=colour
    )
    line = base.mark_line(strokeWidth=2.5).encode(
        y=alt.Y("reported:Q", title=title, scale=scale, axis=alt.Axis(format=".2f")),
        color=colour,
        strokeDash=alt.StrokeDash("board:N", scale=dash_scale, legend=legend),
    )
    truth = alt.Chart(alt.InlineData(values=[{"fresh": boards.TRUTH}])).mark_rule(color="#24292f").encode(y="fresh:Q")
    layered: alt.LayerChart = styled(alt.LayerChart(layer=[truth, band, line], width=520, height=320), grid=0.5)
    return layered
