"""What a question would cost and how sharp its answer would be, from public state alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from everhold.answers import QuotedPrice
from everhold.asking.budget import part_of
from everhold.asking.joint import joint_quote
from everhold.errors import QueryRejected
from everhold.ledger.allotments import Accounts
from everhold.questions.derived import DerivedQuery
from everhold.questions.histogram import HistogramQuery
from everhold.questions.preparation import paying
from everhold.questions.priced import PricedQuery, Purchase

if TYPE_CHECKING:
    from everhold.asking.desk import Desk
    from everhold.mechanisms import State
    from everhold.values.base import Query

__all__ = ["quoted"]


def quoted(
    desk: Desk,
    query: Query | DerivedQuery | HistogramQuery | PricedQuery[Any] | str | None,
    *,
    guess: float | None,
    tolerance: float | None,
) -> QuotedPrice:
    """The price of a question; see `Holdout.quote`."""
    state = desk.state()
    if isinstance(query, PricedQuery):
        return _own_price(desk, _purchase(desk, desk.prepare_purchase(query, guess, tolerance), state))
    if isinstance(query, (DerivedQuery, HistogramQuery)):
        derived, prepared = desk.prepare_derived(query, guess)
        known, together = desk.known(prepared), isinstance(query, DerivedQuery)
        whole = joint_quote(derived, known, mechanism=desk.mechanism, state=state, together=together)
        new = len({part.question for part in known if part.stored is None})
        return _own_price(desk, whole, needed=new if together else 1, each=desk.mechanism.most_charged)
    price = desk.mechanism.quote(state)
    if query is None and tolerance is not None:
        raise QueryRejected("a tolerance needs a question; expected quote(query, tolerance=...); nothing was charged")
    question, scale, stored = None, 1.0, None
    if query is not None:
        prepared_one = desk.preparation.prepare([query], [guess], tolerance=tolerance)[0]
        bound = prepared_one.bound
        if tolerance is not None:
            price = paying(desk.mechanism).quote_at(state, prepared_one.tolerance)
        question, scale = bound.question, abs(bound.at_one - bound.at_zero)
        stored = desk.find(question)
    before = stored is not None
    return _own_price(
        desk,
        QuotedPrice(
            question=question,
            radius=None if price.radius is None else price.radius * scale,
            radius_if_charged=None if price.radius_if_charged is None else price.radius_if_charged * scale,
            charged_if_confirmed=0 if before else price.charged_if_confirmed,
            charged_at_most=0 if before else price.charged_at_most,
            refused=price.refused and not before,
            answered_before=before,
            remaining=desk.mechanism.remaining(state),
        ),
    )


def _own_price(desk: Desk, price: QuotedPrice, *, needed: int = 1, each: int | None = None) -> QuotedPrice:
    """The price on behalf of whoever asks: refused unless their part surely pays for all that is needed."""
    data = desk.data()
    part = part_of(Accounts.from_state(data), desk.analyst)
    price = replace(price, remaining=desk.remaining(data))
    enough = part.affords(price.charged_at_most if each is None else each) >= needed
    if price.answered_before or (enough and not price.refused):
        return price
    return replace(price, radius=None, radius_if_charged=None, charged_if_confirmed=0, charged_at_most=0, refused=True)


def _purchase(desk: Desk, purchase: Purchase[Any, Any], state: State) -> QuotedPrice:
    mechanism = paying(desk.mechanism)
    price, stored = purchase.price(mechanism), desk.find(purchase.question)
    before = stored is not None
    refused = not (before or mechanism.can_pay(state, price.charged))
    charged = 0 if before or refused else price.charged
    within = None if refused else price.within
    return QuotedPrice(purchase.question, within, within, charged, charged, refused, before, mechanism.remaining(state))
