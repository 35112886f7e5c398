"""A tiny experiment for the runner, and a program that runs it slowly, to be killed."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from everhold_lab.experiments import Experiment, Picture
from everhold_lab.running import run


@dataclass(frozen=True, kw_only=True)
class Dice(Experiment):
    name: ClassVar[str] = "dice"
    title: ClassVar[str] = "Dice & <dots>"
    source: ClassVar[str] = "nobody"
    about: ClassVar[str] = "Dice are <b>thrown</b>."
    repetitions: ClassVar[int] = 6

    sides: tuple[int, ...] = (6, 20)
    pause: float = 0.0
    fair: bool = True

    def settings(self):
        return [{"sides": sides} for sides in self.sides]

    def play(self, setting, seed):
        time.sleep(self.pause)
        rng = np.random.default_rng(seed)
        matrix = rng.normal(size=(60, 60))
        return [
            {"eyes": rng.integers(1, setting["sides"] + 1), "noise": float(np.sum(matrix @ matrix)), "odd": None},
            {"eyes": 1, "noise": float("nan"), "odd": np.bool_(True)},
        ]

    def summary(self, rows):
        means = {s: np.mean([row["eyes"] for row in rows if row["sides"] == s]) for s in self.sides}
        return [{"sides": sides, "mean": mean, "worst": float("inf")} for sides, mean in means.items()]

    def findings(self, summary, rows):
        return {"the dice are <fair>": np.bool_(self.fair)}

    def pictures(self, summary, rows):
        import altair as alt

        chart = alt.Chart({"values": [{"x": 1, "y": 2}]}).mark_line(clip=True).encode(x="x:Q", y="y:Q")
        return [Picture("eyes", "Eyes <seen>", "Look & see.", chart)]


class Coins(Dice):
    name: ClassVar[str] = "coins"
    title: ClassVar[str] = "Coins"


if __name__ == "__main__":
    run(Dice(pause=0.2), sys.argv[1], jobs=int(sys.argv[2]))
