"""Do the rows hang together? What the training rows say, and what the promise would be if they did."""

from __future__ import annotations

import shlex
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from everhold.dependence import DependenceModel, Independent
from everhold.diagnosis.columns import OpenFile, OpenRows
from everhold.diagnosis.findings import (
    Finding,
    corrected,
    group_findings,
    number_of_outcomes,
    series_findings,
)
from everhold.display import Display, text_table
from everhold.errors import DependenceWarning
from everhold.planning import tuned_mechanism

if TYPE_CHECKING:
    from pathlib import Path

    from everhold.mechanisms import Mechanism

__all__ = ["Diagnosis", "diagnose_file", "diagnose_rows", "warn_of_dependence"]

_MOST_ROWS = 100_000
_MOST_OUTCOMES = 8  # without a label, in long files
_MOST_RADII = 6  # some mechanisms take a second to be tuned for groups
_MOST_STATES = 20  # of a Markov chain that can be learned from a training set
_USELESS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis(Display):
    """What the training rows say about the dependence of the sealed ones; no sealed row was read for it.

    Attributes:
        rows: Number of sealed rows.
        training_rows: Number of training rows that were looked at.
        label: The label; None if every column of numbers was looked at in its place.
        mechanism: Name of the mechanism.
        radius: Its radius as the rows are declared.
        declared: What is declared about the rows.
        findings: One for each column that may group or order the rows, the clearest first.
        notes: What was left out.
    """

    rows: int
    training_rows: int
    label: str | None
    mechanism: str
    radius: float
    declared: DependenceModel
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()

    @property
    def suspects(self) -> tuple[Finding, ...]:
        """Findings that speak against independent rows clearly enough for a warning.

        Without a label, any two columns that go together make rows of a group look alike; then the rows have to lie
        together in the file, too.
        """
        return tuple(found for found in self.findings if _suspect(found, self.label))

    def finding(self, column: str) -> Finding:
        """The finding about a column.

        Raises:
            ValueError: If there is none.
        """
        for found in self.findings:
            if found.column == column:
                return found
        raise ValueError(
            f"nothing was found about a column {column!r}; expected one of "
            f"{', '.join(repr(found.column) for found in self.findings) or 'none'}"
        )

    def suggestion(self, found: Finding, *, shell: bool = False) -> str | None:
        """The declaration to write if the finding is right, for Python or for a shell; None for attributes."""
        column = shlex.quote(found.column) if shell else repr(found.column)
        if found.role == "group":
            return f"--groups {column}" if shell else f"dependence=eh.Groups({column})"
        if found.role == "series":
            discrete = found.states <= _MOST_STATES
            state = found.outcome if self.label is None else self.label
            if shell:
                kind = "markov_chain" if discrete else "gaussian_ar1"
                fit = f"--kind {kind} --order-by {column} --state {shlex.quote(state)} --output model.json"
                return f"--model model.json, made by 'everhold dependence fit TRAINING {fit}'"
            model = "MarkovChain" if discrete else "GaussianAR1"
            return f"dependence=eh.{model}.fit(training, order_by={column}, state={state!r})"
        return None

    def to_dict(self) -> dict[str, Any]:
        """The diagnosis as plain data, as ``everhold diagnose --format json`` prints it."""
        return {
            "rows": self.rows,
            "training_rows": self.training_rows,
            "label": self.label,
            "mechanism": self.mechanism,
            "radius": self.radius,
            "declared": self.declared.kind,
            "findings": [
                {**row, "p_value": found.p_value, "in_file": found.in_file, "missing": found.missing,
                 "sizes": [list(pair) for pair in found.sizes]}
                for row, found in zip(self.to_rows(), self.findings, strict=True)
            ],
            "suspects": [found.column for found in self.suspects],
            "notes": list(self.notes),
        }  # fmt: skip

    def to_rows(self) -> list[dict[str, Any]]:
        """One table row for each finding."""
        return [
            {
                "column": found.column,
                "role": found.role,
                "alike_in": found.outcome,
                "correlation": found.correlation,
                "error": found.standard_error,
                "clear": found.clear,
                "groups": found.groups,
                "effective_rows": found.effective_rows,
                "radius": found.radius,
                "estimate": found.estimate,
                "suggestion": self.suggestion(found),
            }
            for found in self.findings
        ]

    def to_text(self) -> str:
        """The findings as a table, without what only programs need."""
        head = (
            f"{self.mechanism} on {self.rows:,} sealed rows, declared {self.declared.kind}: radius {self.radius:.4g}; "
            f"looked at {self.training_rows:,} training rows"
        )
        hidden = {"estimate", "suggestion"}
        table = text_table(
            [
                {name: value for name, value in row.items() if name not in hidden}
                | {"clear": "yes" if row["clear"] else "no"}
                for row in self.to_rows()
            ]
        )
        advice = [f"{found.column}: {self.suggestion(found)}" for found in self.suspects]
        return "\n".join(
            [head, table if self.findings else "no column groups or orders the rows", *advice, *self.notes]
        )

    def __str__(self) -> str:
        return self.to_text()


def diagnose_file(path: Path, *, label: str | None, mechanism: Mechanism, brief: bool = False) -> Diagnosis:
    """Look for groups and series in a file of training rows; nothing else is read.

    Long files are looked at in their first rows, and for groups in a sample of whole groups.

    Args:
        path: The training rows, as `everhold.sealing.files.seal_rows` writes them.
        label: The label column, if there is one.
        mechanism: The mechanism of the holdout, for the radius.
        brief: Compute no radius but the one that a warning needs, which saves time.

    Raises:
        EverholdError: If the file cannot be read.
    """
    with OpenFile(path, label=label) as file:
        rows = file.first(_MOST_ROWS)
        if file.rows <= _MOST_ROWS:
            return diagnose_rows(rows, label=label, mechanism=mechanism, brief=brief, notes=file.notes)
        found = list(series_findings(rows, label=label))
        outcomes = _outcome_columns(file, label)
        for name, kind in file.kinds.items():
            if kind != "number" and name != label:
                others = [other for other in outcomes if other != name]
                found += group_findings(file.whole_groups(name, others, _MOST_ROWS), label=label, only=name)
    note = f"of {file.rows:,} training rows about {_MOST_ROWS:,} were looked at for each column"
    pairs = max(1, number_of_outcomes(rows, label=label))
    return _diagnosis(rows, found, pairs, label, mechanism, brief, (*file.notes, note))


def _outcome_columns(file: OpenFile, label: str | None) -> list[str]:
    if label is not None:
        return [label]
    return [name for name, kind in file.kinds.items() if kind in ("whole", "number")][:_MOST_OUTCOMES]


def diagnose_rows(
    training: OpenRows, *, label: str | None, mechanism: Mechanism, brief: bool = False, notes: tuple[str, ...] = ()
) -> Diagnosis:
    """Look for groups and series in training rows.

    Args:
        training: The rows, as from `everhold.diagnosis.columns_of`.
        label: The label column, if there is one.
        mechanism: The mechanism of the holdout, for the radius.
        brief: Compute no radius but the one that a warning needs, which saves time.
        notes: What was left out before.

    Examples:
        >>> import numpy as np
        >>> from everhold.diagnosis import columns_of
        >>> from everhold.planning import tuned_mechanism
        >>> rng = np.random.default_rng(0)
        >>> home = np.repeat(np.arange(1_000), 4)
        >>> late = rng.random(4_000) < rng.random(1_000)[home]
        >>> mechanism = tuned_mechanism("guess_and_check", rows=4_000, queries=100, overfits=5, confidence=0.95)
        >>> found = diagnose_rows(columns_of({"home": home, "late": late}), label="late", mechanism=mechanism)
        >>> found.finding("home").effective_rows, found.finding("home").clear
        (1000.0, True)
    """
    found = [*group_findings(training, label=label), *series_findings(training, label=label)]
    pairs = max(1, number_of_outcomes(training, label=label))
    return _diagnosis(training, found, pairs, label, mechanism, brief, notes)


def _diagnosis(
    training: OpenRows, found: list[Finding], outcomes: int, label: str | None, mechanism: Mechanism, brief: bool,
    notes: tuple[str, ...],
) -> Diagnosis:  # fmt: skip
    findings = [replace(each, effective_rows=each.share * mechanism.rows) for each in corrected(found, outcomes)]
    if brief:
        wanted = [each for each in findings if _suspect(each, label)][:1]
    else:
        wanted = [each for each in findings if each.role != "attribute"][:_MOST_RADII]
    radii = {(each.column, each.role): _radius_under(each, mechanism) for each in wanted}
    return Diagnosis(
        rows=mechanism.rows,
        training_rows=training.rows,
        label=label,
        mechanism=mechanism.name,
        radius=mechanism.promise().radius,
        declared=mechanism.dependence,
        findings=tuple(replace(each, radius=radii.get((each.column, each.role))) for each in findings),
        notes=notes,
    )


def _suspect(found: Finding, label: str | None) -> bool:
    return found.clear and (label is not None or found.in_file)


def _radius_under(found: Finding, mechanism: Mechanism) -> float | None:
    """The radius of the same mechanism, tuned anew, if the finding is right; None where it cannot serve such rows."""
    try:
        tuned = tuned_mechanism(
            mechanism.name, rows=mechanism.rows, queries=mechanism.queries, overfits=getattr(mechanism, "overfits", 1),
            confidence=mechanism.confidence, slack=getattr(mechanism, "slack", 0.0), dependence=found.model,
        )  # fmt: skip
    except ValueError:
        return None
    return tuned.promise().radius


def warn_of_dependence(diagnosis: Diagnosis, *, declared: bool, stacklevel: int = 3) -> None:
    """Warn if rows that count as independent look as if they are not.

    Args:
        diagnosis: Of the training rows.
        declared: Whether somebody wrote down that the rows are independent. Then only rows that resemble each other
            strongly *and* lie together in the file are worth a warning: independent rows would not.
        stacklevel: As for `warnings.warn`.
    """
    suspects = [found for found in diagnosis.suspects if found.strong or not declared]
    if isinstance(diagnosis.declared, Independent) and suspects:
        text, for_shell = (_warning(diagnosis, suspects, declared=declared, shell=shell) for shell in (False, True))
        warnings.warn(DependenceWarning(text, for_shell=for_shell), stacklevel=stacklevel)


def _warning(diagnosis: Diagnosis, suspects: list[Finding], *, declared: bool, shell: bool) -> str:
    found = suspects[0]
    alike = f"in {found.outcome!r} (correlation {found.correlation:.2f})"
    would = f"; the radius would be about {found.radius:.2g}, not {diagnosis.radius:.2g}" if found.radius else ""
    if found.radius is None or found.radius >= _USELESS:
        would = "; the promise would then be worth nothing"
    if found.role == "group":
        text = (
            f"training rows with equal {found.column!r} resemble each other {alike}; if they were drawn together, as "
            f"visits of a patient are, declare {diagnosis.suggestion(found, shell=shell)}{would}"
        )
    else:
        text = (
            f"training rows that follow each other in {found.column!r} resemble each other {alike}; if they are a "
            f"series, declare a model of it, such as {diagnosis.suggestion(found, shell=shell)}, and leave a gap "
            f"between training and sealed rows{would}"
        )
    also = ", ".join(repr(other.column) for other in suspects[1:4])
    look = "'everhold diagnose'" if shell else "holdout.diagnose()"
    return (
        text
        + f"; if {found.column!r} is only a property of rows that were drawn independently, "
        + _if_independent(declared=declared, shell=shell)
        + (f"; look at {also}, too, with {look}" if also else f"; {look} shows more")
    )


def _if_independent(*, declared: bool, shell: bool) -> str:
    """What to do about the warning where rows were drawn independently after all."""
    if declared:
        return "this may be left as it is" if shell else "silence DependenceWarning"
    return "give --independent" if shell else "pass dependence=eh.Independent()"
