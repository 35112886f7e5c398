"""Operations of the steward: allotments of analysts, families of queries, and the end of a study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from everhold.errors import EverholdWarning, QueryRejected, warn_caller
from everhold.operations.operation import PRINTABLE, Families, HoldoutOperation, Param, Role
from everhold.progress import progress

if TYPE_CHECKING:
    from everhold.answers import Unsealed
    from everhold.asking.allotting import Allotments
    from everhold.asking.declared import HoldoutFamilies
    from everhold.asking.session import HoldoutSession
    from everhold.ledger.acts import Allotment


@dataclass(frozen=True, kw_only=True)
class Allot(
    HoldoutOperation["Allotment"], verb="allot", role=Role.STEWARD, act="allot", route="PUT /allotments/{analyst}",
    topic="allotments", command="allot flights.db flights team-a --queries 200 --charges 5",
):  # fmt: skip
    """Let an analyst spend a part of the budget, and no more.

    The limits replace earlier ones of the same analyst, and are never below what is spent. It is an act of the steward,
    kept in the ledger. Parts may add up to more than the whole: then it is first come, first served. Analysts share
    answers: what one has asked is free for all others.
    """

    analyst: Annotated[str, Param("The analyst's name.", longest=100, pattern=PRINTABLE, example="reports")]
    queries: Annotated[int, Param("Most new queries that may be answered.", least=0, example=200)]
    charges: Annotated[
        int | None,
        Param("Most that may be charged: credits, surprises, otherwise answers. By default what so many queries can "
              "cost.", least=0, example=5),
    ] = None  # fmt: skip

    def perform(self, session: HoldoutSession) -> Allotment:
        """Record the limits of the analyst in the ledger."""
        from everhold.asking.allotting import allot

        return allot(session.executor, self.analyst, queries=self.queries, charges=self.charges)

    def facts(self, result: Allotment) -> Mapping[str, Any]:
        """Return the analyst and the limits, for the audit log."""
        return {"analyst": self.analyst, "queries": result.queries, "charges": result.charges}


@dataclass(frozen=True, kw_only=True)
class ListAllotments(
    HoldoutOperation["Allotments"], verb="allotments", role=Role.STEWARD, route="GET /allotments", topic="allotments",
    command="allotments flights.db flights",
):  # fmt: skip
    """List what analysts may spend and have spent.

    The acts by which the steward set the limits follow, in order, and what is not allotted.
    """

    def perform(self, session: HoldoutSession) -> Allotments:
        """Return the allotments, read from the ledger."""
        from everhold.asking.allotting import allotments_of

        return allotments_of(session.executor)

    def remark(self, result: Allotments) -> str:
        """Return a sentence on the budget that no allotment covers."""
        return "not allotted: " + " and ".join(f"{count:,} {what}" for what, count in result.not_allotted.items())


@dataclass(frozen=True, kw_only=True)
class Declare(
    HoldoutOperation[list[dict[str, Any]]], verb="declare", role=Role.STEWARD, act="declare a family",
    route="POST /families", topic="families", status=201, part="families",
):  # fmt: skip
    """Declare families now; each takes one query of the budget, and all are checked before the first does.

    Families that are declared with the holdout have narrower answers: see `declared` when rows are sealed.
    """

    families: Annotated[Families, Param("Families by name.")]

    def perform(self, session: HoldoutSession) -> list[dict[str, Any]]:
        """Check all of them, then record one after the other."""
        from everhold.asking.declared import declare
        from everhold.sealing.configuration import FAMILIES_GROW

        session.check_queries()
        declared: HoldoutFamilies = session.accessor("declared")  # type: ignore[assignment]
        declared.check(self.families)
        for name, family in self.families.items():
            if FAMILIES_GROW not in session.executor.record.configuration:
                session.check_static("declaring a family")
            declare(session.executor, session.folder, name, family)
            session.know_families()
        return declared.families().to_rows()

    def travelling(self) -> Mapping[str, Any]:
        """The families as plain data, as in a protocol."""
        from everhold.families.protocol import written

        return {"families": {name: written(family) for name, family in self.families.items()}}

    def facts(self, result: list[dict[str, Any]]) -> Mapping[str, Any]:
        """Return the names of the families, for the audit log."""
        return {"families": list(self.families)}


@dataclass(frozen=True, kw_only=True)
class ListFamilies(
    HoldoutOperation[list[dict[str, Any]]], verb="families", role=Role.VIEWER, route="GET /families", topic="families",
    part="families",
):  # fmt: skip
    """All declared families with the width of their members, which cost nothing. Free.

    `within` is the half-width of a share of rows that takes as many bits as the longest member.
    """

    def perform(self, session: HoldoutSession) -> list[dict[str, Any]]:
        """Return the declared families, read from the ledger."""
        declared: HoldoutFamilies = session.accessor("declared")  # type: ignore[assignment]
        return declared.families().to_rows()


@dataclass(frozen=True, kw_only=True)
class Unseal(
    HoldoutOperation["Unsealed"], verb="unseal", role=Role.STEWARD, act="unseal", route="POST /unseal",
    topic="unsealing",
):  # fmt: skip
    """Tell what the sealed rows say to every query that was asked, and answer no new query ever after.

    It cannot be undone; unsealing again tells the same.
    """

    confirm: Annotated[str, Param("The holdout's name once more.", longest=64, example="flights")]

    def lasts(self, session: HoldoutSession) -> bool:
        """Return whether the last step of an extension may take minutes."""
        confirmed = self.confirm == session.executor.record.name
        return confirmed and any(accessor.last_step_lasts() for accessor in session.in_charge())

    def forewarn(self, session: HoldoutSession) -> None:
        """Warn if other holdouts lose their promise."""
        from everhold.asking.unsealing import affected_holdouts

        for text in affected_holdouts(session.executor):
            warn_caller(EverholdWarning(text))

    def perform(self, session: HoldoutSession) -> Unsealed:
        """Let extensions take their last step, then tell everything and close the study."""
        from everhold.asking.unsealing import unseal

        if self.confirm != (name := session.executor.record.name):
            raise QueryRejected(
                f"confirm is {self.confirm!r:.100}. Pass {name!r}, the holdout's name, because unsealing cannot be "
                "undone."
            )

        def before() -> None:
            for accessor in session.in_charge():
                accessor.before_unsealing()

        with progress("unsealing"):
            return unseal(session.executor, before=before)


@dataclass(frozen=True, kw_only=True)
class AffectedHoldouts(
    HoldoutOperation[list[str]], verb="affected_holdouts", role=Role.STEWARD, route="GET /unseal", topic="unsealing",
    part="affected_holdouts",
):  # fmt: skip
    """Which other holdouts of this storage would lose their promise if this one were unsealed. Nothing is changed."""

    def perform(self, session: HoldoutSession) -> list[str]:
        """Compare this holdout with the other holdouts of the storage."""
        from everhold.asking.unsealing import affected_holdouts

        return affected_holdouts(session.executor)
