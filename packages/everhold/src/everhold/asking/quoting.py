"""The price of a query before it is asked, from public state alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from everhold.answers import QuotedPrice
from everhold.asking.accounts.budget import affordable
from everhold.asking.query_executor import check_open
from everhold.ledger.allotments import Accounts
from everhold.queries.query import Pricing

if TYPE_CHECKING:
    from everhold.asking.query_executor import QueryExecutor
    from everhold.queries.query import QueryPlan

__all__ = ["quoted_price"]


def quoted_price(executor: QueryExecutor, plan: QueryPlan[Any] | None) -> QuotedPrice:
    """Quote of a query: its price and the width of its answer; None for any new mean over [0, 1].

    Raises:
        QueryRejected: If it is new and the study was unsealed.
    """
    data, mechanism = executor.ledger.head().state, executor.mechanism
    state, accounts = executor.state_from(data), Accounts.from_state(data)
    if plan is None:
        any_mean, pricing, needed = mechanism.quote(state), Pricing.planned(mechanism, ()), 1
        check_open(accounts, new=1, pricing=pricing)
        price = QuotedPrice(
            None, any_mean.radius, any_mean.radius_if_charged, any_mean.charged_if_confirmed,
            any_mean.charged_at_most, False, False, {},
        )  # fmt: skip
    else:
        stored = {line.fingerprint: executor.ledger.find(line.fingerprint) for line in plan.asked}
        price, pricing = plan.quote(state, [stored[line.fingerprint] for line in plan.asked]), plan.pricing
        new = sum(entry is None for entry in stored.values())
        check_open(accounts, new=new, pricing=pricing)
        needed = new if plan.whole else min(new, 1)
    price = replace(price, remaining=executor.remaining(data))
    if affordable(state, accounts, executor.analyst, needed, pricing=pricing) >= needed:
        return price
    return replace(
        price, radius=None, radius_if_charged=None, charged_if_confirmed=0, charged_at_most=0, refused=True
    )  # fmt: skip
