"""Nights at a gate about cases, played through a holdout and its ledger; see `case_nights` for those without one."""

import warnings
from dataclasses import dataclass

import numpy as np

import everhold as eh
from everhold.gates import cases as case_evidence
from everhold.gates import challenge, open_challenge
from everhold.gates import units as case_units
from everhold.guarantees.intervals import claims


@dataclass(frozen=True)
class LedgerNight:
    """One kind of night; every second challenge is open, and some may be stopped for futility.

    Attributes:
        world: ``"cases"`` (new cases, none of them open), ``"groups"`` (new cases in groups of 6 that win or lose
            together), ``"runs"`` (new runs of these cases, four each), ``"guards"`` (a success that is true, and a
            guard that is violated by a hair), ``"ratios"`` (the cost of a success), ``"crashes"`` (versions that crash
            where they would fail) or ``"arrivals"`` (new cases; after each fourth of the night as many are added as
            there were at first).
        challenges: Challenges in the night.
        stops: Every so many challenges one may be stopped for futility, which costs a surprise.
    """

    world: str
    challenges: int = 200
    stops: int = 20

    @property
    def cases(self):
        """Cases of the suite."""
        return 360 if self.world == "groups" else 60

    def remove(self, patch, protection):
        """Take one protection away, inside the package."""
        if protection == "arrivals":  # of the cases that could be added, those come that the champion fails
            patch.setattr(LedgerNight, "_of_new_case", lambda *_: {"a": 0})
        elif protection == "ratio":  # by the scores alone
            patch.setattr(claims.RatioUnits, "first_look", _lower_score)
        elif protection == "levels":  # each challenge at 5 %, as if it were the only one
            for module in (challenge, open_challenge):
                patch.setattr(module, "next_nats", lambda *_: float(np.log(20.0)))
        elif protection == "order":  # groups are handed out as the file has them
            patch.setattr(open_challenge, "order_of_units", lambda key, opened, units: list(range(units)))
        elif protection == "groups":
            patch.setattr(case_evidence, "groups_of", lambda executor, _: np.arange(executor.schema.rows))
        elif protection == "fresh runs":  # each draw of a case looks at all of its runs
            patch.setattr(case_units, "run_chunks", lambda runs: [slice(0, runs)] * 12)
        elif protection == "crashes":  # what one version alone lacks is left out, too
            patch.setattr(case_units.PairedResults, "_kept", _both_have)
        elif protection == "guard":  # a guard by its score alone
            patch.setattr(case_units, "first_proof", _guards_by_score)

    def wrong(self, folder, seed):
        """Wrong promotions of one night, which ends with the first."""
        rng = np.random.default_rng([seed, 28])
        runs = 4 if self.world == "runs" else 1
        groups = {f"t{n}": f"g{n // 6}" for n in range(self.cases)} if self.world == "groups" else None
        wanted = {"better": "a", **({"not_worse": {"cost": 0.25}} if self.world == "guards" else {})}
        if self.world == "ratios":
            wanted = {"better": "cost / a"}
        if self.world == "crashes":
            wanted["missing"] = "drop-case"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", eh.EverholdWarning)
            suite = eh.seal_cases(
                f"{folder}/night.db", results=self._results(rng, first=True), groups=groups,
                challenges=self.challenges, units="runs" if runs > 1 else "cases", **wanted,
            )  # fmt: skip
            with suite:
                return self._play(suite, suite.gate(name="main"), rng)

    def _play(self, suite, gate, rng):
        for number in range(self.challenges):
            if self.world == "arrivals" and number and number % (self.challenges // 4) == 0:
                there = len(gate.suite.ids)
                eh.add_cases(suite, {f"t{n}": self._of_new_case(rng) for n in range(there, there + self.cases)})
            results = self._results(rng, cases=len(gate.suite.ids))
            try:
                if self._challenge(gate, results, number).promoted:
                    return 1
            except eh.BudgetExhausted:
                break
            if left := gate.cases_left():
                gate.complete({case: results[case] for case in left})
        return 0

    def _challenge(self, gate, results, number):
        if number % 2 or self.world == "cases":
            return gate.challenge(results, challenger=f"c{number}")
        opened = gate.open(f"c{number}", futility=number % self.stops == 0)
        while True:
            reply = opened.report({case: results[case] for case in opened.next_cases()})
            if not reply.goes_on:
                return reply.verdict

    def _of_new_case(self, rng):
        """The champion's result on a case that is added."""
        return {"a": int(rng.integers(0, 2))}

    def _results(self, rng, *, first=False, cases=0):
        """Results of a version that is as good as every other one, for labels or runs drawn anew."""
        if self.world == "runs":
            values = rng.integers(0, 2, (self.cases, 4))
            return {f"t{n}": [{"a": int(value)} for value in runs] for n, runs in enumerate(values)}
        if self.world == "guards":
            dear = rng.random(self.cases) < (0.0 if first else 0.25)  # the mean is what the guard allows at most
            return {f"t{n}": {"a": int(not first), "cost": float(bad)} for n, bad in enumerate(dear)}
        if self.world == "crashes":
            return {f"t{n}": {"a": 1 if won else 0 if first else None} for n, won in
                    enumerate(rng.integers(0, 2, self.cases))}  # fmt: skip
        if self.world == "ratios":
            won, cost = rng.integers(0, 2, self.cases), rng.random(self.cases)
            return {f"t{n}": {"a": int(a), "cost": c} for n, (a, c) in enumerate(zip(won, cost, strict=True))}
        if self.world in ("cases", "arrivals"):
            return {f"t{n}": {"a": int(value)} for n, value in enumerate(rng.integers(0, 2, cases or self.cases))}
        won = np.repeat(rng.integers(0, 2, self.cases // 6), 6)
        if not first and rng.random() < 0.5:  # easy groups come first in the file
            won = np.repeat(np.arange(self.cases // 6) < self.cases // 12, 6).astype(int)
        return {f"t{n}": {"a": int(value)} for n, value in enumerate(won)}


def _lower_score(units, claim, *, looks, **known):
    top, other_top, bottom, other_bottom = units.sums.sum(axis=1)
    return 0 if top * other_bottom < other_top * bottom else len(looks)


def _guards_by_score(claims, units, **known):
    proved = [values.sums.sum() > claim.null * values.sizes.sum() for claim, values in zip(claims, units, strict=True)]
    return 0 if all(proved) else None


def _both_have(results, claim):
    """Of a gate with one success and no guard."""
    return 1.0 - (np.isinf(results.challenger) | np.isinf(results.champion))[:, :, 0]
