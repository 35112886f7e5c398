"""Plans for study protocols: expected interval widths of each declared family and of undeclared queries."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

import numpy as np

from everhold.arguments import brief, names_keywords
from everhold.display import Display
from everhold.errors import QueryRejected
from everhold.families.listed import ListedFamily
from everhold.families.protocol import Protocol, checked_share, protocol_from
from everhold.families.protocol import protocol as read_protocol
from everhold.guarantees.intervals.means import OfMeans
from everhold.mechanisms import GuessAndCheck, PublicLevels
from everhold.mechanisms.releases import label_nats
from everhold.planning import Plan
from everhold.planning import plan as plan_mechanisms
from everhold.planning.request import USUAL_TERMS, USUAL_VALUE, PlanTerms, StudyTerms
from everhold.planning.widths import half_within, width_at

if TYPE_CHECKING:
    import altair as alt

    from everhold.families.base import Family

VALUES = (0.5, 0.9)
"""True values of shares at which widths are planned."""

_QUERIES = 1_000
_REQUESTS = {"queries", *StudyTerms.__annotations__}
_TOLD = 10  # members that are told before the last query that is not declared


@dataclass(frozen=True, slots=True)
class StudyLine:
    """One line of a study plan: the half-widths of one kind of query.

    Attributes:
        queries: Name of the family, or words for queries that are not declared.
        members: Number of queries. None if it is not known or too large to be useful.
        bits: Bits of the member with the smallest weight, which is log2(1 / weight). None for queries that are not
            declared.
        widths: Half-widths at each of `VALUES`.
    """

    queries: str
    members: int | None
    bits: float | None
    widths: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyPlan(Display):
    """The interval widths that a study protocol leads to, computed before there are any data.

    Widths of declared queries never change. Widths of other queries are those of the last planned query: they depend on
    the number of surprises and of answered declared queries before it.

    Attributes:
        confidence: Probability with which all intervals hold at once.
        share: Part of the probability of failure that declared families have.
        lines: Families in the order of the protocol, then other queries.
    """

    rows: int
    training_rows: int
    confidence: float
    share: float
    lines: tuple[StudyLine, ...]

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the plan as one dictionary for each line, for a table."""
        return [
            {"queries": x.queries, "members": x.members, "bits": None if x.bits is None else round(x.bits, 1),
             **{f"within_at_{value:g}": width for value, width in zip(VALUES, x.widths, strict=True)}}
            for x in self.lines
        ]  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data."""
        named = {name: getattr(self, name) for name in ("rows", "training_rows", "confidence", "share")}
        return {**named, "lines": self.to_rows()}

    def explain(self) -> str:
        """Return the plan as text in plain words."""
        families = sum(line.bits is not None for line in self.lines)
        said = [
            f"With {self.rows:,} sealed rows all intervals hold at once with probability "
            f"{100.0 * self.confidence:.4g} %. Widths are for shares near {VALUES[0]:g} and {VALUES[1]:g}."
        ]
        if families:
            said.append(
                f"Members of {families} declared famil{'y' if families == 1 else 'ies'} cost nothing, and their "
                "widths never change. Each member that is told widens the intervals of queries that are not declared: "
                "ask those first."
            )
        return "\n".join(said)

    def chart(self) -> alt.LayerChart:
        """Draw the plan as a chart with a bar for each line and value. Needs the extra ``[plots]``."""
        from everhold.charts.intervals import width_bars

        widths = {line.queries: line.widths for line in self.lines}
        return width_bars(widths, values=VALUES, rows=self.rows)

    def _headline(self) -> str:
        return self.explain()


class _PlanRequestTerms(PlanTerms, total=False):
    queries: int | None
    radius: float | None
    at: float
    disagreement: float | None


@overload
def plan(
    *, queries: int, rows: int | None = None, radius: float | None = None, at: float = USUAL_VALUE,
    disagreement: float | None = None, **terms: Unpack[PlanTerms],
) -> Plan: ...  # fmt: skip


@overload
def plan(
    *, protocol: Protocol | Mapping[str, Any] | Path | str, rows: int, queries: int | None = None,
    **terms: Unpack[StudyTerms],
) -> StudyPlan: ...  # fmt: skip


@names_keywords(_PlanRequestTerms, {**USUAL_TERMS, "at": USUAL_VALUE})
def plan(
    *, protocol: Protocol | Mapping[str, Any] | Path | str | None = None, rows: int | None = None, **request: Any
) -> Plan | StudyPlan:  # fmt: skip
    """Compute how wide the intervals of a study will be, before there are any data.

    Args:
        protocol: A study protocol, as for `plan_study`. The plan then has the widths for each declared family and for
            all other queries.
        rows: Number of sealed rows; without a protocol it may be left out if a radius is given.
        **request: ``queries``, the number of adaptive queries; ``surprises``, the planned number of guesses that the
            sealed rows contradict; ``confidence``; ``dependence`` of the rows; and ``training_rows``, the number of
            rows from which guesses are made. Without a protocol, also ``slack``, ``radius``, ``at``, ``disagreement``
            and ``alike``, as for `everhold.planning.plan`, which compares all mechanisms.

    Raises:
        QueryRejected: If the protocol cannot be planned. Nothing is changed.
        ValueError: If a number is outside its range.

    Examples:
        >>> print(plan(rows=20_000, training_rows=0, protocol={"families": {"end points": {"members": 30}}}))
        queries     members  bits  within_at_0.5  within_at_0.9
        end points       30   4.9        0.01184       0.007113
    """
    if protocol is None:
        return plan_mechanisms(rows=rows, **request)
    if rows is None or (others := request.keys() - _REQUESTS):
        what = "Pass rows, the number of sealed rows." if rows is None else f"Leave {', '.join(sorted(others))} out."
        raise ValueError(f"A protocol is planned for a number of sealed rows. {what}")
    return plan_study(protocol, rows=rows, **request)


@names_keywords(StudyTerms, USUAL_TERMS)
def plan_study(
    protocol: Protocol | Mapping[str, Any] | Path | str, *, rows: int, queries: int | None = None,
    **terms: Unpack[StudyTerms],
) -> StudyPlan:  # fmt: skip
    """Compute the interval widths of a study protocol for a number of sealed rows.

    Args:
        protocol: Path of a protocol file, the protocol that `everhold.protocol` returns, or the same content as plain
            data.
        rows: Number of sealed rows.
        queries: Planned number of queries that no family declares. By default what the protocol says, or 1,000.
        **terms: ``surprises``, the planned surprises among them, by default what the protocol says, or 10;
            ``confidence``, the probability with which all intervals hold at once; ``dependence`` of the rows on each
            other, independent by default; and ``training_rows``, by default as many as are sealed, 0 for none.

    Raises:
        QueryRejected: If the protocol cannot be planned. Nothing is changed.
        ValueError: If a number is outside its range.
    """
    if isinstance(protocol, (str, Path)):
        protocol = read_protocol(protocol)
    elif not isinstance(protocol, Protocol):
        protocol = protocol_from(protocol)
    request: dict[str, Any] = {**terms, "surprises": terms.get("surprises") or protocol.surprises}
    for name in ("dependence", "training_rows"):
        if request.get(name) is None:
            request.pop(name, None)
    share, training = checked_share(protocol.share), request.setdefault("training_rows", rows)
    mechanism = GuessAndCheck.tuned(rows=rows, queries=queries or protocol.queries or _QUERIES, **request).sharing(
        share
    )
    base = math.log(len(protocol.families))
    lines = [_member(mechanism, name, family, base, training > 0) for name, family in protocol.families.items()]
    if training:  # the last query that is not declared, after each course of events
        most = min(mechanism.surprises, mechanism.queries - 1)
        first, last = ([width_at(mechanism, value, charged) for value in VALUES] for charged in (0, most))
        after = f"after {most:,} surprises"
        widths = {
            "guess confirmed, no surprise before": [width.confirmed for width in first],
            f"guess confirmed, {after}": [width.confirmed for width in last],
            f"a surprise, {after}": [width.released for width in last],
            "unsealed, no surprise before": [width.unsealed for width in first],
            f"unsealed, {after}": [width.unsealed for width in last],
            f"unsealed, after {_TOLD} told members": [_after_members(mechanism, value, training) for value in VALUES],
        }
        lines += [
            StudyLine(f"not declared: {said}", mechanism.queries, None, tuple(halves))
            for said, halves in widths.items()
        ]
    return StudyPlan(
        rows=mechanism.rows, training_rows=training, confidence=mechanism.confidence, share=share, lines=tuple(lines)
    )


def _member(mechanism: PublicLevels, name: str, family: Family, base: float, training: bool) -> StudyLine:
    """Return the line of a study plan with the half-widths of the members of one family."""
    nats = family.planned_nats(training=training)
    if nats is None:
        raise QueryRejected(
            f"The number of members of the family {brief(name)} is not known before there are rows. Write its "
            "categories (values = {carrier = ['AA', 'UA']}), or members = 200."
        )
    level = mechanism.described(base + nats)
    widths = tuple(_exact(mechanism, value, level) for value in VALUES)
    return StudyLine(name, _number(family, nats), nats / math.log(2.0), widths)


def _number(family: Family, nats: float) -> int | None:
    """Return the number of members of a family, or None if the plan does not know it.

    Listed queries are counted, because they may have unequal weights.
    """
    if isinstance(family, ListedFamily):
        return len(family.queries)
    return round(math.exp(nats)) if nats < math.log(1e12) and getattr(family, "bits", None) is None else None


def _exact(mechanism: PublicLevels, value: float, nats: float) -> float:
    """Return the half-width of a yes-or-no query whose sealed share is ``value``, at the level ``exp(-nats)``."""
    procedure = mechanism.yes_no_at(value, nats, None)
    ends = procedure.interval(value, nats) if isinstance(procedure, OfMeans) else procedure.expected(value, nats)
    return half_within(ends[0] - mechanism.rounding, ends[1] + mechanism.rounding)


def _after_members(mechanism: PublicLevels, value: float, training: int) -> float:
    """Return the half-width of an undeclared query after many answered members, whose labels widen it (S9)."""
    counts = np.array([round(value * mechanism.rows)])
    label = label_nats(
        counts, rows=mechanism.rows, at=np.array([value]), trained=np.array([float(training)])
    )  # fmt: skip
    return _exact(mechanism, value, float(mechanism.nats(mechanism.queries, 0, _TOLD * float(label[0]))))
