"""Open and sealed cases of one suite: climb on the open ones, and ask the gate once, about the sealed ones.

A version that was chosen among many by its results on the open cases looks better there than it is. The sealed cases do
not know of that, so one challenge proves the whole climb. Which cases are open is public, and so are their results.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.arguments import as_float, brief
from everhold.display import Display
from everhold.errors import QueryRejected
from everhold.gates.cases.results import runs_by_case
from everhold.gates.cases.steps import POWER_80, bets_reach, more_cases
from everhold.gates.challenge import NEW_RUNS
from everhold.guarantees.intervals.claims import least_by_tail, sign_nats
from everhold.sealing.sealed_files import sealed_note, write_note

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from everhold.gates.cases.results import CaseSuite
    from everhold.gates.cases.units import UnitPlan

OPEN_FILE = "open-cases.json"
"""Note beside the sealed rows: the open cases, and results of champions and of named versions on them."""

_REMEMBERED = 20  # versions that are no champions
_OFTEN = 0.25  # share of pairs of runs of one version that differ, from which on the binomial tail is sharper
_GAINS = np.arange(0.005, 1.0, 0.005).tolist()


@dataclass(frozen=True, slots=True)
class OpenCases:
    """The cases of a suite that are not sealed, with results of recent versions on them.

    Attributes:
        ids: Ids of the open cases.
        results: Results of each version by its digest, shape (cases, runs, metrics); the latest version is last.
    """

    ids: tuple[Any, ...]
    results: Mapping[str, NDArray[np.float64]] = field(repr=False, default_factory=dict)

    @classmethod
    def of(cls, folder: Path, key: bytes) -> OpenCases:
        """Read the open cases of a suite from its folder. There are none if all cases are sealed.

        Args:
            folder: Private folder of the suite.
            key: The steward's `notes_key`.

        Raises:
            IntegrityError: If the note about them was altered.
        """
        note = sealed_note(folder / OPEN_FILE, key=key)
        if note is None:
            return cls(())
        told = json.loads(note)
        return cls(
            tuple(told["ids"]),
            {version: np.asarray(results, dtype=np.float64) for version, results in told["results"].items()},
        )

    def remembering(self, version: str, results: NDArray[np.float64], keep: Collection[str] = ()) -> OpenCases:
        """Return the same cases with the results of one more version. The oldest results are dropped."""
        known = {name: each for name, each in self.results.items() if name != version}
        latest = {*[*known][-_REMEMBERED:], *keep}
        return replace(self, results={name: known[name] for name in known if name in latest} | {version: results})

    def save(self, folder: Path, key: bytes) -> None:
        """Write the open cases and the results to the folder."""
        ids = [case.item() if isinstance(case, np.generic) else case for case in self.ids]
        told = {"ids": ids, "results": {version: results.tolist() for version, results in self.results.items()}}
        write_note(folder / OPEN_FILE, json.dumps(told).encode(), key=key)

    def sealed_part(self, results: Any) -> Any:
        """Return the results on sealed cases alone.

        Raises:
            QueryRejected: If nothing is left. Nothing was charged.
        """
        if not self.ids or results is None:
            return results
        opened = set(self.ids)
        sealed = {case: runs for case, runs in runs_by_case(results).items() if case not in opened}
        if not sealed:
            raise QueryRejected("These results are of open cases alone. A challenge needs results of the sealed cases.")
        return sealed

    def open_part(self, suite: CaseSuite, results: Any) -> NDArray[np.float64] | None:
        """Return results on the open cases as an array (cases, runs, metrics), or None if some are missing."""
        by_case = runs_by_case(results)
        if any(case not in by_case for case in self.ids):
            return None
        return suite.over(self.ids).values({case: by_case[case] for case in self.ids})


def deal_cases(
    ids: Sequence[Any], share: Any, *, groups: Mapping[Any, Any] | None, strata: Mapping[Any, Any] | None,
    rng: np.random.Generator,
) -> list[Any]:  # fmt: skip
    """Draw the open cases of a suite at random: whole groups, and nearly the same share of each stratum.

    Args:
        ids: Ids of all cases.
        share: Share of the cases, or groups, that are open; above 0 and below 1.
        groups: Mapping from case to group, if cases of one group must stay together.
        strata: Mapping from case to stratum, if each stratum should have the same share.
        rng: Source of randomness, which alone decides which cases are open.

    Raises:
        QueryRejected: If one half would be empty, or a case has no group or stratum. Nothing was sealed.
    """
    part = checked_share(share)
    for what, named in (("group", groups), ("stratum", strata)):
        if named is not None and (missing := [case for case in ids if case not in named]):
            raise QueryRejected(f"Case {brief(missing[0])} has no {what}. Name one for each of {len(ids)} cases.")
    members: dict[Any, list[Any]] = {}
    for case in ids:
        members.setdefault(case if groups is None else groups[case], []).append(case)
    by_stratum: dict[Any, list[list[Any]]] = {}
    for cases in members.values():
        by_stratum.setdefault(None if strata is None else strata[cases[0]], []).append(cases)
    drawn: set[Any] = set()
    owed = 0.0
    for units in by_stratum.values():
        owed += part * len(units)
        count = min(round(owed), len(units))
        owed -= count
        drawn.update(case for place in rng.permutation(len(units))[:count] for case in units[place])
    if not 0 < len(drawn) < len(ids):
        raise QueryRejected(
            f"With open={part:g} one half of {len(ids)} cases is empty. Use more cases or another share."
        )
    return [case for case in ids if case in drawn]


def checked_share(share: Any) -> float:
    """Return the share of cases to leave open, after checking that it is between 0 and 1.

    Raises:
        QueryRejected: If the share is not valid. Nothing was sealed.
    """
    part = as_float(share)
    if not 0.0 < part < 1.0:
        raise QueryRejected(f"open is {brief(share)}. Pass the share of cases that are open, such as 0.5.")
    return part


def often_disagrees(suite: CaseSuite, results: NDArray[np.float64]) -> bool:
    """Return whether runs of one version differ so often that binomial tails prove more than bets (Lemma Y).

    Args:
        suite: The suite with the claims.
        results: Results on open cases, shape (cases, runs, metrics).
    """
    first = suite.first
    if suite.population != NEW_RUNS or first is None or not first.yes_no or suite.runs < 2:
        return False
    passed = first.scaled(results[:, :, suite.metrics.index(first)]).mean(axis=1)
    differ = 2.0 * passed * (1.0 - passed) * suite.runs / (suite.runs - 1.0)
    return bool(differ.mean() >= _OFTEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChallengeWorth(Display):
    """Forecast from the open cases of whether a challenge is worth one of the planned queries.

    Attributes:
        verdict: ``"yes"`` where the gain is enough, or the version has no fault on the open cases; ``"no"``; or
            ``"never"`` where these sealed cases would not prove even a version without a fault to be better.
        gain: The gain on the open cases, in the units of the first metric. It is too high for a version that was chosen
            by it.
        needed_gain: The gain that the sealed cases prove in four of five such challenges.
        needed_cases: How many more sealed cases would prove the gain, or without a fault the best there can be; 0 with
            ``"yes"``, None where no number would.
        sealed_cases: Sealed cases of the suite.
        left: Places left, where the gate's challenges are limited; None without a limit.
    """

    verdict: str
    gain: float
    needed_gain: float
    needed_cases: int | None
    sealed_cases: int
    left: int | None = None

    def __bool__(self) -> bool:
        return self.verdict == "yes"

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the forecast as one row."""
        return [{name: getattr(self, name) for name in
                 ("verdict", "gain", "needed_gain", "needed_cases", "sealed_cases", "left")}]  # fmt: skip

    def explain(self) -> str:
        """Explain in words whether to challenge now or to go on improving."""
        more = "" if not self.needed_cases else f" About {self.needed_cases:,} more sealed cases would do."
        if self.verdict == "yes" and self.gain < self.needed_gain:
            return (
                f"Ask: this version has no fault on the open cases, so no better one is known. {self.sealed_cases} "
                f"sealed cases prove its gain of {self.gain:.3f} in about half of the challenges, and "
                f"{self.needed_gain:.3f} in four of five."
            )
        if self.verdict == "yes":
            return (
                f"Ask: the open cases show a gain of {self.gain:.3f}, and {self.sealed_cases} sealed cases prove "
                f"{self.needed_gain:.3f} in four of five challenges."
            )
        if self.verdict == "never":
            return (
                f"Stop: the champion has so few faults that {self.sealed_cases} sealed cases do not prove even a "
                f"version without any to be better.{more}"
            )
        return (
            f"Climb on: the open cases show a gain of {self.gain:.3f}, and {self.sealed_cases} sealed cases prove "
            f"{self.needed_gain:.3f} in four of five challenges.{more}"
        )


def worth_asking(
    plan: UnitPlan, own: NDArray[np.float64], champion: NDArray[np.float64], *, nats: float, left: int | None
) -> ChallengeWorth:
    """Compare the gain on open cases with the least gain that sealed cases prove with a power of 80 %.

    Args:
        plan: The plan of units of the sealed cases.
        own: The challenger's results on open cases, shape (cases, runs, metrics).
        champion: The champion's results on open cases, of the same shape.
        nats: ln(1 / level) of the next challenge.
        left: Number of challenges left; None without a limit.

    Raises:
        QueryRejected: If the first success is a ratio.
    """
    suite, metric = plan.suite, plan.suite.first
    if metric is None:
        raise QueryRejected(
            "The first success is a ratio, of which no needed gain is known. Challenge when you think fit."
        )
    claim = suite.claims[0]
    place, floor = suite.metrics.index(metric), claim.floor
    scaled, others = (metric.scaled(values[:, :, place]) for values in (own, champion))
    if suite.population != NEW_RUNS:  # then a unit is a case with the mean of its runs
        scaled, others = (values.mean(axis=1, keepdims=True) for values in (scaled, others))
    gains, best = scaled - others, 1.0 - others
    gain, most = float(gains.mean()), float(best.mean())
    sealed, level = len(suite.ids), nats + math.log(len(suite.better))
    units_of_a_case, by_tail = plan.all_at_once / sealed, plan.by_tail(claim)
    by_signs = plan.by_signs(claim) and floor == 0.0

    def law(wanted: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return possible gains of the cases with their chances, for a version whose mean gain is ``wanted``.

        A smaller gain than the challenger's has more cases without a change, and a larger gain has more cases without a
        fault.
        """
        none = np.zeros_like(best)
        low, high = (none, best) if gain <= 0.0 else (none, gains) if wanted <= gain else (gains, best)
        share = min((wanted - low.mean()) / max(high.mean() - low.mean(), 1e-12), 1.0)
        return np.concatenate([low.ravel(), high.ravel()]), np.repeat([1.0 - share, share], low.size) / low.size

    def proves(cases: int, wanted: float) -> bool:
        units = max(round(cases * units_of_a_case), 1)
        if by_tail:
            return wanted >= least_by_tail(units, floor, level)
        values, chances = law(wanted)
        if by_signs:
            wins, losses = (units * float(chances @ differ) for differ in (values > 0.0, values < 0.0))
            if sign_nats(wins, losses) >= level:
                return True
        return bets_reach(units, values - floor, chances, level)

    def needed(cases: int) -> float:
        """The least gain that would be proved as it is, and what chance may take from it in one of five challenges."""
        least = next((each for each in [*_GAINS[: int(most / _GAINS[0])], most] if proves(cases, each)), math.inf)
        return float(least + POWER_80 * gains.mean(axis=1).std() / math.sqrt(cases))

    def enough(cases: int) -> bool:
        return proves(cases, most) if never else needed(cases) <= gain

    never = not proves(sealed, most)
    now = needed(sealed)
    faultless = gain >= most  # nothing is left to climb to
    verdict = "never" if never else "yes" if gain >= now or faultless else "no"
    return ChallengeWorth(
        verdict=verdict, gain=gain * metric.width, needed_gain=now * metric.width,
        needed_cases=0 if verdict == "yes" else more_cases(enough, sealed), sealed_cases=sealed, left=left,
    )  # fmt: skip
