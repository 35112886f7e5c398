"""Widths of the next answers by kind of query, now and after further surprises; all of it from public state."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everhold.display import Display, at_most, escaped, text_table
from everhold.ledger.declarations import Declarations
from everhold.mechanisms.guess_and_check import GuessAndCheck

if TYPE_CHECKING:
    from everhold.asking.query_executor import QueryExecutor
    from everhold.families.base import BoundFamily
    from everhold.guarantees.intervals.base import Procedure
    from everhold.ledger import Head
    from everhold.ledger.declarations import Declaration
    from everhold.mechanisms import State
    from everhold.mechanisms.base import Quote

__all__ = ["AHEAD", "Worth", "worth_now"]

AHEAD = 5
"""Further surprises after which widths are shown beside those of now."""

_BITS = 20  # of the text query that is shown: about one comparison of a column with a number
_BAR = 20  # signs of the longest bar
_KINDS = {
    "radius": "not declared, guess confirmed",
    "radius_if_charged": "not declared, a surprise",
    "radius_unsealed": "not declared, unsealed",
}


@dataclass(frozen=True, slots=True)
class Worth(Display):
    """Half-widths of the next answers, for shares of rows near one half, where they are widest.

    Attributes:
        rows: One for each kind of query: ``query``, ``now`` and ``later``, after `AHEAD` more surprises. None stands
            for an answer that is refused.
    """

    rows: Sequence[Mapping[str, Any]]

    def to_rows(self) -> list[dict[str, Any]]:
        """One row for each kind of query."""
        return [dict(row) for row in self.rows]

    def to_dict(self) -> dict[str, Any]:
        """``{"worth": [...]}``."""
        return {"worth": self.to_rows()}

    def to_text(self) -> str:
        """Two bars for each kind of query, the second after `AHEAD` more surprises."""
        if not self.rows:
            return ""
        head, after, most = "next query", f"after {AHEAD} more surprises", self._widest
        return text_table([
            {head: row["query"], "now": _within(row["now"]), "": _bar(row["now"], most), after: _within(row["later"]),
             " ": _bar(row["later"], most)}
            for row in self.rows
        ])  # fmt: skip

    @property
    def _widest(self) -> float:
        return max((half for row in self.rows for half in (row["now"], row["later"]) if half), default=0.5)

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        lines = "".join(
            f"<tr><td>{escaped(row['query'])}</td>"
            + "".join(f"<td>{_meter(row[when])} {_within(row[when])}</td>" for when in ("now", "later"))
            + "</tr>"
            for row in self.rows
        )
        heads = ("next query", "now", f"after {AHEAD} more surprises")
        head = "".join(f'<th scope="col">{name}</th>' for name in heads)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>" if self.rows else ""


def _within(half: float | None) -> str:
    return "refused" if half is None else f"±{at_most(half)}"


def _bar(half: float | None, widest: float) -> str:
    return "" if half is None else "█" * max(round(_BAR * half / widest), 1)


def _meter(half: float | None) -> str:
    return "" if half is None else f'<meter value="{half:.6g}" max="0.5"></meter>'


def worth_now(executor: QueryExecutor, head: Head) -> Worth:
    """The widths of a holdout's next answers; nothing where the mechanism checks no guesses, or nothing is answered.

    Args:
        executor: Of the holdout.
        head: Where its ledger stands.
    """
    mechanism, closed = executor.mechanism, head.accounts.closed
    if not isinstance(mechanism, GuessAndCheck):
        return Worth(())
    now = executor.state_from(head.state)
    later = now.after(asked=AHEAD, charged=AHEAD, labels=AHEAD * mechanism.cells.cost)
    rows = [] if closed else _undeclared(mechanism, now, later)
    return Worth([*rows, *_declared(executor, mechanism, head, now, later)])


def _undeclared(mechanism: GuessAndCheck, now: State, later: State) -> list[dict[str, Any]]:
    at = [mechanism.quote(state, guess=0.5, procedure=mechanism.yes_no_procedure) for state in (now, later)]
    return [_row(said, *(_kept(getattr(quote, name), quote) for quote in at)) for name, said in _KINDS.items()]


def _kept(half: float | None, quote: Quote) -> float | None:
    return None if quote.refused else half


def _declared(
    executor: QueryExecutor, mechanism: GuessAndCheck, head: Head, now: State, later: State
) -> list[dict[str, Any]]:
    """Members of declared families, whose widths never change, and a text that is declared now or later."""
    from everhold.families.texts import BoundTexts
    from everhold.mechanisms.declared import widest_declared

    def within(nats: float) -> float:
        return widest_declared(mechanism, _procedure_of_shares(executor, mechanism, nats), nats)[0]

    rows, text = list[dict[str, Any]](), _BITS * math.log(2.0)
    said, known = f"text of {_BITS} bits", False
    for each, family in _families(executor, head):
        if isinstance(family, BoundTexts) and family.most_nats >= text:
            half, known = within(each.nats + text), True
            rows.append(_row(f"{said}, declared as {each.name!r}", half, half))
            continue
        half = within(each.nats + family.most_nats)
        rows.append(_row(f"member of {each.name!r}", half, half))
    if known or head.accounts.closed:
        return rows
    room = [mechanism.surely_answers(state, 1) > 0 for state in (now, later)]
    nats = [float(mechanism.nats(state.asked + 1, state.charged, state.labels / 1e6)) for state in (now, later)]
    keep = mechanism.text_bits >= _BITS and not executor.compiler.families.first_rows
    if keep:  # texts keep the level that they are checked at
        nats = [min(each, mechanism.of_text(0.0)) for each in nats]
    halves = [within(each + text) if enough else None for each, enough in zip(nats, room, strict=True)]
    return [*rows, _row(f"{said}, if texts are declared", *halves)]


def _procedure_of_shares(executor: QueryExecutor, mechanism: GuessAndCheck, nats: float) -> Procedure:
    """The procedure of a declared yes-or-no query; where rows do not arrive, nothing about that is imported."""
    if not executor.compiler.families.first_rows:
        return mechanism.yes_no_procedure
    from everhold.asking.declared import procedure_of_shares

    return procedure_of_shares(executor, nats)


def _families(executor: QueryExecutor, head: Head) -> list[tuple[Declaration, BoundFamily]]:
    """Declared families; without one, nothing about them is imported."""
    if Declarations.key not in head.state:
        return []
    from everhold.asking.declared import FamilyLevels

    levels = FamilyLevels(executor.schema)
    return [(each, levels.family(each)) for each in head.accounts.of(Declarations).by_name.values()]


def _row(query: str, now: float | None, later: float | None) -> dict[str, Any]:
    return {"query": query, "now": now, "later": later}
