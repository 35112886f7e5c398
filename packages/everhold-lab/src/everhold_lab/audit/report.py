"""Reports of an audit: lines, mechanisms that were not played, notes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everhold.display import Display
from everhold_lab.audit.coverage import CoverageStudy, StudyOutcome

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One analyst against one mechanism, and against no protection.

    Attributes:
        unprotected: The games against the bare averages of the same rows.
    """

    study: CoverageStudy
    statement: str
    unprotected: tuple[StudyOutcome, ...]

    @property
    def needless(self) -> int:
        """Games in which budget was spent against the promise."""
        return sum(outcome.needless for outcome in self.study.outcomes)

    @property
    def unprotected_violations(self) -> int:
        """Games in which a bare average was farther from the truth than the radius."""
        return sum(outcome.worst_error > self.study.radius for outcome in self.unprotected)

    def to_dict(self) -> dict[str, Any]:
        """The line as plain data."""
        low, high = self.study.clopper_pearson
        return {
            "mechanism": self.study.mechanism,
            "analyst": self.study.analyst,
            "statement": self.statement,
            "queries": max(outcome.queries for outcome in self.study.outcomes),
            "runs": self.study.runs,
            "violations": self.study.violations,
            "rate_low": low,
            "rate_high": high,
            "promised": 1.0 - self.study.confidence,
            "radius": self.study.radius,
            "worst_error": self.study.worst_error,
            "tightness": self.study.tightness,
            "needless": self.needless,
            "consistent": self.study.consistent,
            "unprotected_violations": self.unprotected_violations,
            "unprotected_worst_error": max(outcome.worst_error for outcome in self.unprotected),
        }


@dataclass(frozen=True, slots=True)
class NotPlayed:
    """A mechanism that was left out."""

    mechanism: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit(Display):
    """All mechanisms against all analysts.

    Attributes:
        rows: Rows of the simulation: the same, rounded down to a power of 2.
        confidence: 1 - beta.
        runs: Games of each analyst against each mechanism.
        seed: Of the first game; the others follow.
        lines: One for each mechanism and analyst.
        not_played: Mechanisms that were left out.
    """

    planned_rows: int
    rows: int
    queries: int
    confidence: float
    runs: int
    seed: int
    lines: tuple[AuditLine, ...]
    not_played: tuple[NotPlayed, ...]

    @property
    def consistent(self) -> bool:
        """True if no mechanism broke its promise more often than chance allows."""
        return all(line.study.consistent for line in self.lines)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the table, in sentences."""
        notes = [f"{missed.mechanism} is left out: {missed.reason}" for missed in self.not_played]
        if self.rows < self.planned_rows:
            notes.insert(
                0, f"played with {self.rows} rows: the simulation rounds {self.planned_rows} down to a power of 2"
            )
        broken = {line.study.mechanism for line in self.lines if line.unprotected_violations}
        unbroken = dict.fromkeys(line.study.mechanism for line in self.lines if line.study.mechanism not in broken)
        if unbroken:
            notes.append(
                f"bare averages, too, stay within the radius of {', '.join(unbroken)}: at this size these analysts "
                "surprise less than is promised, and the audit shows no more than that; fewer rows or more queries "
                "show more"
            )
        return tuple(notes)

    def to_dict(self) -> dict[str, Any]:
        """The audit as plain data, as ``everhold audit --format json`` prints it."""
        return {
            "planned_rows": self.planned_rows,
            "rows": self.rows,
            "queries": self.queries,
            "confidence": self.confidence,
            "runs": self.runs,
            "seed": self.seed,
            "consistent": self.consistent,
            "lines": self.to_rows(),
            "not_played": [{"mechanism": missed.mechanism, "reason": missed.reason} for missed in self.not_played],
            "notes": list(self.notes),
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """One table row for each mechanism and analyst."""
        return [line.to_dict() for line in self.lines]
