"""Whole nights at a gate about cases: an agent who knows the population climbs, and no challenger is really better.

Each protection of the gate can be removed, by name; then nights end with wrong promotions.
"""

from dataclasses import dataclass, replace
from unittest import mock

import numpy as np

from everhold.gates import units as case_units
from everhold.gates.cases import interim_label
from everhold.gates.challenge import NEW_RUNS
from everhold.gates.results import CaseMetric, CaseSuite
from everhold.gates.units import PairedResults, UnitPlan, run_chunks
from everhold.guarantees.intervals.claims import ClaimUnits, GateClaim, RatioUnits, first_proof, stakes_for
from everhold.mechanisms.guess_and_check import GuessAndCheck

DISAGREEMENT = 0.2
SLACK = 0.15


@dataclass(frozen=True)
class Night:
    """One kind of night.

    Attributes:
        world: ``"cases"``, ``"runs"``, ``"groups"``, ``"early cases"``, ``"early groups"``, ``"early runs"``,
            ``"redraws"``, ``"guards"`` or ``"ratios"``.
        removed: The protection that is taken away; empty for none.
        cases: Cases of the suite.
        runs: Runs of each.
        challenges: Challenges in the night.
    """

    world: str
    removed: str = ""
    cases: int = 100
    runs: int = 1
    challenges: int = 2_000

    def wrong(self, seed):
        """Wrong promotions of one night."""
        rng = np.random.default_rng([seed, 27])
        mechanism = GuessAndCheck.tuned(rows=self.cases, queries=self.challenges, surprises=10)
        world = _WORLDS[self.world](self, rng)
        charged = labels = promoted = 0
        for asked in range(self.challenges):
            nats = float(mechanism.nats(asked + 1, charged, labels / 1e6))
            if self.removed == "adaptivity":
                nats = np.log(20.0)
            if world.challenge(nats):
                promoted += 1
                charged += 1
                labels += interim_label(world.looks)
                if promoted > 20:
                    break
        return promoted


class _Cases:
    """Coins as labels: a challenger turns some predictions round, and is no better for new labels."""

    looks = 1

    def __init__(self, night, rng):
        self.night, self.rng = night, rng
        self.labels = rng.integers(0, 2, night.cases)
        self.champion = rng.integers(0, 2, night.cases)

    def turned(self):
        changed = self.rng.random(self.night.cases) < DISAGREEMENT
        return np.where(changed, 1 - self.champion, self.champion)

    def challenge(self, nats):
        challenger = self.turned()
        gains = (challenger == self.labels).astype(float) - (self.champion == self.labels)
        if proved := self.proves(gains, nats):
            self.champion = challenger
        return proved

    def proves(self, gains, nats):
        values = ClaimUnits((1.0 + gains) / 2.0, np.ones(len(gains)), signs=True)
        return proof(self.night, [GateClaim("a", 0.0)], [values], nats, [len(gains)])


class _Groups(_Cases):
    """Groups of 1 to 8 cases that share a label and are turned together."""

    def __init__(self, night, rng):
        sizes = []
        while sum(sizes) < night.cases:
            sizes.append(min(int(rng.integers(1, 9)), night.cases - sum(sizes)))
        self.sizes = np.array(sizes, dtype=float)
        super().__init__(replace(night, cases=len(sizes)), rng)

    def proves(self, gains, nats):
        sums = self.sizes * (1.0 + gains) / 2.0
        values = ClaimUnits(sums, self.sizes, self.sizes.max())
        if self.night.removed == "groups":
            single = np.repeat(gains, self.sizes.astype(int))
            values = ClaimUnits((1.0 + single) / 2.0, np.ones(len(single)))
        return proof(self.night, [GateClaim("a", 0.0)], [values], nats, [len(values.sums)])


class _EarlyCases(_Cases):
    """Cases in a file: easy ones, where a challenger gains, come before those where it loses as much."""

    looks = 20

    def challenge(self, nats):
        night, rng = self.night, self.rng
        gains = np.where(np.arange(night.cases) < night.cases // 2, 0.4, -0.4)
        gains = np.where(rng.random(night.cases) < 0.5, gains, 0.0)
        if self.night.removed != "order":
            # one law for each case: drawn from the population, then shuffled with the key
            gains = rng.choice([0.4, 0.0, 0.0, -0.4], night.cases)
        looks = [night.cases * look // self.looks for look in range(1, self.looks + 1)]
        return proof(night, [GateClaim("a", 0.0)], [ClaimUnits((1.0 + gains) / 2.0, np.ones(night.cases))], nats, looks)


class _Runs:
    """New runs of these very cases, of unlike chances; the champion's runs are the lucky ones that made it win."""

    looks = 1

    def __init__(self, night, rng):
        self.night, self.rng = night, rng
        self.chances = rng.choice([0.05, 0.5, 0.95], night.cases)
        self.champion = self.run()

    def run(self):
        return (self.rng.random((self.night.cases, self.night.runs)) < self.chances[:, None]).astype(float)

    def challenge(self, nats):
        challenger = self.run()
        values = (1.0 + challenger - self.champion) / 2.0
        if proved := proof(
            self.night, [GateClaim("a", 0.0)], [ClaimUnits(values.ravel(), np.ones(values.size))], nats, [values.size]
        ):
            self.champion = challenger
        return proved


class _EarlyRuns:
    """These cases, handed out early: on one half a challenger always wins, on the other it always loses.

    Removed protections: ``"case units"`` takes runs for units at early looks; ``"fresh order"`` hands out the same
    cases first each time, and the challenger was made to win on those.
    """

    looks = 20

    def __init__(self, night, rng):
        self.night, self.rng = night, rng

    def challenge(self, nats):
        night, rng = self.night, self.rng
        gains = np.where(np.arange(night.cases) < night.cases // 2, 1.0, -1.0)
        order = np.arange(night.cases) if night.removed == "fresh order" else rng.permutation(night.cases)
        values, level = (1.0 + gains[order]) / 2.0, nats + np.log(self.looks)
        looks = [night.cases * look // self.looks for look in range(1, self.looks)]
        if night.removed == "case units":
            values, looks = np.repeat(values, night.runs), [look * night.runs for look in looks]
        return proof(night, [GateClaim("a", 0.0)], [ClaimUnits(values, np.ones(len(values)))], level, looks)


class _EarlyGroups(_Groups):
    """The same groups, handed out early in an order drawn anew; one level for all looks, and units of unlike size.

    Removed protection: ``"groups"`` takes single cases for units.
    """

    looks = 20

    def proves(self, gains, nats):
        order = self.rng.permutation(len(gains))
        sizes, gains = self.sizes[order], gains[order]
        if self.night.removed == "groups":
            gains, sizes = np.repeat(gains, sizes.astype(int)), np.ones(int(sizes.sum()))
        values = ClaimUnits(sizes * (1.0 + gains) / 2.0, sizes, sizes.max())
        looks = sorted({max(len(sizes) * look // self.looks, 1) for look in range(1, self.looks + 1)})
        return proof(self.night, [GateClaim("a", 0.0)], [values], nats, looks)


class _Redraws:
    """These cases, drawn with replacement: half of the seeds have coins for runs, half a version that wins and loses.

    Removed protections: ``"fresh runs"`` looks at all runs of a case at each draw; ``"fresh order"`` draws the same
    cases first each time, and the challenger was made to win on those.
    """

    looks = 20

    def __init__(self, night, rng):
        self.night, self.rng = night, rng
        self.coins = night.removed == "fresh runs" or (night.removed != "fresh order" and bool(rng.integers(0, 2)))
        suite = CaseSuite(range(night.cases), (CaseMetric("a"),), ("a",), 0.0, {}, night.runs, NEW_RUNS)
        self.plan = UnitPlan(suite, np.arange(night.cases))

    def challenge(self, nats):
        night, rng = self.night, self.rng
        shape = (night.cases, night.runs, 1)
        if self.coins:
            challenger, champion = rng.integers(0, 2, shape), rng.integers(0, 2, shape)
        else:
            challenger = np.repeat(np.arange(night.cases) < night.cases // 2, night.runs).reshape(shape)
            champion = 1 - challenger
        draws = rng.integers(0, night.cases, 4 * night.cases)
        if night.removed == "fresh order":
            draws = np.sort(draws)
        chunks = [slice(0, night.runs)] * 12 if night.removed == "fresh runs" else run_chunks(night.runs)
        with mock.patch.object(case_units, "run_chunks", return_value=chunks):
            evidence = PairedResults(
                self.plan, challenger.astype(float), champion.astype(float), champion.astype(float)
            )
            return evidence.proves_drawn(nats, draws.tolist(), whole=True)


class _Guards:
    """A success that is really proved, beside guards of which one is violated by a hair."""

    looks = 1

    def __init__(self, night, rng):
        self.night, self.rng = night, rng

    def challenge(self, nats):
        cases, rng = self.night.cases, self.rng
        success = ClaimUnits(np.ones(cases), np.ones(cases))
        bad = rng.random(cases) < SLACK  # worse by 1 on this share: the mean gain is the floor
        kept = ClaimUnits((1.0 - bad) / 2.0, np.ones(cases))
        fine = ClaimUnits(np.full(cases, 0.5), np.ones(cases))
        claims = [GateClaim("a", 0.0), GateClaim("b", -SLACK, guard=True), GateClaim("c", -SLACK, guard=True)]
        if self.night.removed == "guard level":
            return bool(kept.sums.mean() > claims[1].null)  # the guard by its score alone
        return proof(self.night, claims, [success, kept, fine], nats, [cases])


class _Ratios:
    """The cost of a success: a challenger changes a fifth of the cases, and is no cheaper for new outcomes."""

    looks = 1

    def __init__(self, night, rng):
        self.night, self.rng = night, rng
        self.champion = self.results(night.cases)

    def results(self, cases):
        return np.stack([self.rng.random(cases), self.rng.integers(0, 2, cases)]).astype(float)

    def challenge(self, nats):
        cases = self.night.cases
        changed = self.rng.random(cases) < DISAGREEMENT
        challenger = np.where(changed, self.results(cases), self.champion)
        sums = np.stack([challenger[0], self.champion[0], challenger[1], self.champion[1]])
        if self.night.removed == "ratio":  # by the scores alone
            proved = bool(sums[0].sum() * sums[3].sum() < sums[1].sum() * sums[2].sum())
        else:
            units = RatioUnits(sums, np.ones(cases), (0.0, 1.0), (0.0, 1.0), True, 1.0, np.zeros(cases, dtype=bool))
            proved = proof(self.night, [GateClaim("r", 0.0, ratio=True)], [units], nats, [cases])
        if proved:
            self.champion = challenger
        return proved


def proof(night, claims, units, nats, looks):
    """Whether the claims are proved, with a protection removed where it is one of bets."""
    if night.removed == "peeking stakes":
        return _peeks(claims, units, nats, looks)
    return first_proof(claims, units, planned=len(units[0].sizes), nats=nats, looks=looks) is not None


def _peeks(claims, units, nats, looks):
    """The best stake for each unit, chosen in the light of its result's two neighbours and of itself."""
    (claim,), (values,) = claims, units
    stakes = stakes_for(len(values.sums), nats)
    excess = (values.sums - claim.null) / claim.null
    window = np.convolve(excess, np.ones(3), mode="same")
    chosen = np.where(window > 0.0, stakes[0], stakes[-1])
    return bool(np.cumsum(np.log1p(chosen * excess))[np.asarray(looks) - 1].max() >= nats)


_WORLDS = {
    "cases": _Cases, "groups": _Groups, "runs": _Runs, "early cases": _EarlyCases, "early groups": _EarlyGroups,
    "early runs": _EarlyRuns, "redraws": _Redraws, "guards": _Guards, "ratios": _Ratios,
}  # fmt: skip
