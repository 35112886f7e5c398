"""A plan in words: what it recommends, what the worst case would be, and when something else is better."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from everhold.display import at_most
from everhold.mechanisms import MECHANISMS, GuessAndCheck
from everhold.planning.request import WITHOUT_GUESSES
from everhold.planning.steps import USUAL_DISAGREEMENT
from everhold.planning.widths import step_in_words, surprises_until, width_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everhold.planning.lines import PlanLine
    from everhold.planning.plan import Plan

_HARDEST = 0.5
_FEW_ROWS = 500


def explanation(plan: Plan) -> str:
    """The sentences of `Plan.explain`, one a line."""
    return "\n".join(_sentences(plan))


def _sentences(plan: Plan) -> Iterator[str]:
    best = plan.best
    yield _headline(plan, best)
    tuned = best.tuned
    if isinstance(tuned, GuessAndCheck):
        if plan.training_rows == 0:
            yield WITHOUT_GUESSES
        yield from _of_guesses(plan, tuned)
    elif plan.training_rows == 0:
        line = plan.line("guess_and_check")
        if line.expected is not None and best.expected is not None and line.expected < best.expected:
            yield (
                f"With guesses, such as estimates from training rows, guess_and_check would answer within "
                f"{at_most(line.expected)} around {plan.at:g}."
            )
    else:
        line = plan.line("guess_and_check")
        if line.expected is not None:
            yield (
                f"guess_and_check would answer within {at_most(line.expected)} around {plan.at:g} if its guesses hold, "
                "and its study can be unsealed."
            )
    if tuned is not None and tuned.rows <= _FEW_ROWS and tuned.dependence.independent:
        seen = step_in_words(tuned, USUAL_DISAGREEMENT if plan.steps is None else plan.steps.disagreement)
        yield f"With few rows, compare models in place of scores: {seen}."


def _headline(plan: Plan, best: PlanLine) -> str:
    name, around = best.mechanism, f"around {plan.at:g}"
    if plan.rows is None and best.rows_expected is not None:
        needs = f"{name} needs the fewest rows for adaptive queries: {best.rows_expected:,}"
        if not MECHANISMS[name].traits.needs_guess:
            return f"{needs}."
        worst = "no holdout can seal enough" if best.rows_needed is None else f"{best.rows_needed:,}"
        return f"{needs} if its guesses hold {around}; for the worst case, after all planned surprises, {worst}."
    if best.tuned is None or best.radius is None or best.expected is None:
        return "No mechanism can serve the request."
    if not best.tuned.traits.needs_guess:
        return f"{name} has the smallest radius for adaptive queries: {at_most(best.radius)}, whatever is asked."
    return (
        f"{name} has the narrowest answers for adaptive queries if guesses hold: {at_most(best.expected)} {around}; "
        f"the worst case, after {_counted(plan.surprises, 'surprise')}, has {at_most(best.radius)}."
    )


def _of_guesses(plan: Plan, tuned: GuessAndCheck) -> Iterator[str]:
    """Cases in which another mechanism would be better, and the widths after unsealing."""
    hardest = width_at(tuned, _HARDEST, 0, plan.alike)
    usual = width_at(tuned, plan.at, 0, plan.alike)
    told = "nothing to say" if hardest.confirmed >= _HARDEST else at_most(hardest.confirmed)
    yield (
        f"At the last planned query, around {_HARDEST:g}, it has {told} if guesses hold; "
        f"unsealed, {at_most(hardest.unsealed)} there and {at_most(usual.unsealed)} around {plan.at:g}."
    )
    other = min(
        (line for line in plan._candidates() if not MECHANISMS[line.mechanism].traits.needs_guess),
        key=plan._cost,
        default=None,
    )
    if other is None or other.tuned is None or other.radius is None:
        return
    name = other.mechanism
    told = f"{name} promises {at_most(other.radius)} for every answer"
    if other.tuned.rows != tuned.rows:
        return
    if other.tuned.expected_radius(_HARDEST) < hardest.confirmed:
        yield f"{told}: narrower around {_HARDEST:g} from the start, until the study is unsealed."
        return
    at = {
        value: surprises_until(tuned, other.tuned.expected_radius(value), value, plan.alike)
        for value in (_HARDEST, plan.at)
    }
    if all(found is None for found in at.values()):
        yield f"{told}, and that is never narrower within the plan."
        return
    when = " and ".join(
        f"from {_counted(found, 'surprise')} on around {value:g}" for value, found in at.items() if found is not None
    )
    first = min(math.inf if found is None else found for found in at.values())
    if first <= plan.surprises:
        yield f"{told}: narrower {when}, and the plan allows {plan.surprises:,}. Choose it if you expect so many."
    else:
        yield f"{told}: narrower {when}, which is more than planned."


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")
