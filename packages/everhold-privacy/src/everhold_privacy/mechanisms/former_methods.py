"""Former methods of a `PrivacyBudget`, which have moved; they warn for one version."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from everhold.errors import warn_former
from everhold_privacy.mechanisms import privacy_budget
from everhold_privacy.mechanisms.paid_selection import PaidSelection

if TYPE_CHECKING:
    from everhold_privacy.mechanisms.privacy_budget import PrivacyBudget


def former_method(budget: PrivacyBudget, name: str) -> Any:
    """The method as it is called now.

    Raises:
        AttributeError: If there was none of the name.
    """
    found: Any
    if name in ("choose", "regret", "level_error"):
        found, now = partial(_of_selection, budget, name), f"PaidSelection(budget, price).{name}"
    elif name == "selection":
        found, now = lambda price: PaidSelection(budget, price).mechanism, "PaidSelection(budget, price).mechanism"
    elif name in ("allowance", "largest_scale", "release"):
        found, now = partial(getattr(privacy_budget, name), budget), f"privacy_budget.{name}(budget, ...)"
    elif name == "can_pay":
        found, now = lambda state, price: budget.affords(state, price) > 0, "budget.affords(state, price)"
    else:
        raise AttributeError(f"{type(budget).__name__!r} object has no attribute {name!r}")
    warn_former(f"PrivacyBudget.{name} is now {now}.")
    return found


def _of_selection(budget: PrivacyBudget, name: str, *given: Any, price: int = privacy_budget.CREDITS) -> Any:
    return getattr(PaidSelection(budget, price), name)(*given)
