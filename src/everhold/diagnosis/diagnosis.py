"""Do the rows depend on each other? What the training rows say, and what the promise would be if they did."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.dependence import DependenceModel
from everhold.diagnosis.columns import OpenFile, OpenRows
from everhold.diagnosis.findings import Finding, corrected, group_findings, lie_together, series_findings
from everhold.diagnosis.group_sizes import informative_sizes
from everhold.diagnosis.orders import FILE_ORDER
from everhold.display import Display, text_table
from everhold.errors import DependenceError, DependenceWarning, warn_caller
from everhold.planning import tuned_mechanism

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from everhold.mechanisms import Mechanism

__all__ = ["Diagnosis", "diagnose_file", "diagnose_rows", "informed", "warn_of_dependence"]

_MOST_ROWS = 100_000
_MOST_OUTCOMES = 8  # in long files, besides the label
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
        promised: How many rows are worth one as the rows are declared; None where the declaration bounds no average.
        findings: One for each column that may group or order the rows, the clearest first.
        informative: Where groups are declared: outcomes that go together with the size of a row's group.
        notes: What was left out.
    """

    rows: int
    training_rows: int
    label: str | None
    mechanism: str
    radius: float
    declared: DependenceModel
    promised: float | None
    findings: tuple[Finding, ...]
    informative: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def suspects(self) -> tuple[Finding, ...]:
        """Findings that speak against what is declared clearly enough for a warning."""
        return tuple(found for found in self.findings if found.suspect)

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
        """The declaration to write if the finding is right, for Python or for a shell; None for attributes.

        A model in which a row depends on the row before is suggested only where it explains all that was seen.
        """
        column = shlex.quote(found.column) if shell else repr(found.column)
        if found.role == "attribute":
            return None
        if found.role == "group":
            return f"--groups {column}" if shell else f"dependence=eh.Groups({column})"
        if not found.first_order or found.column == FILE_ORDER:
            stretch = _declared_column("stretch", shell=shell)
            return f"{stretch}, a column that numbers stretches of at least {found.stretch or 1:,} rows in a row"
        discrete = found.states <= _MOST_STATES
        if shell:
            kind = "markov_chain" if discrete else "gaussian_ar1"
            fit = f"--kind {kind} --order-by {column} --state {shlex.quote(found.state)} --output model.json"
            return f"--model model.json, made by 'everhold dependence fit TRAINING {fit}'"
        model = "MarkovChain" if discrete else "GaussianAR1"
        return f"dependence=eh.{model}.fit(training, order_by={column}, state={found.state!r})"

    def to_dict(self) -> dict[str, Any]:
        """The diagnosis as plain data, as ``everhold diagnose --format json`` prints it."""
        return {
            "rows": self.rows,
            "training_rows": self.training_rows,
            "label": self.label,
            "mechanism": self.mechanism,
            "radius": self.radius,
            "declared": self.declared.kind,
            "promised": self.promised,
            "findings": [
                {**row, "p_value": found.p_value, "in_file": found.in_file, "missing": found.missing,
                 "sizes": [list(pair) for pair in found.sizes]}
                for row, found in zip(self.to_rows(), self.findings, strict=True)
            ],
            "suspects": [found.column for found in self.suspects],
            "informative_sizes": list(self.informative),
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
                "design_effect": found.design_effect,
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
        advice += [informed(self.declared, self.informative)] if self.informative else []
        return "\n".join(
            [head, table if self.findings else "no column groups or orders the rows", *advice, *self.notes]
        )

    def __str__(self) -> str:
        return self.to_text()


def diagnose_file(
    path: Path, *, label: str | None, mechanism: Mechanism, apart: Collection[str] = (), brief: bool = False
) -> Diagnosis:
    """Look for groups and series in a file of training rows; nothing else is read.

    Long files are looked at in their first rows, and for groups in a sample of whole groups.

    Args:
        path: The training rows, as `everhold.sealing.files.seal_rows` writes them.
        label: The label column, if there is one.
        mechanism: The mechanism of the holdout, for the radius.
        apart: Columns none of whose values stand both in training and in sealed rows: likely ids of whole groups.
        brief: Compute no radius but the one that a warning needs, which saves time.

    Raises:
        EverholdError: If the file cannot be read.
    """
    with OpenFile(path, label=label) as file:
        rows = file.first(_MOST_ROWS)
        if file.rows <= _MOST_ROWS:
            return diagnose_rows(rows, label=label, mechanism=mechanism, apart=apart, brief=brief, notes=file.notes)
        promised = _promised(mechanism, rows)
        found: list[Finding] = []
        for name, kind in file.kinds.items():
            column = rows.column(name)
            if (kind != "number" or name in apart) and name != label and column is not None:
                together = lie_together(column)
                others = [
                    other
                    for other in _outcome_columns(file, label, all_count=together or name in apart)
                    if other != name
                ]
                whole = file.whole_groups(name, others, _MOST_ROWS)
                found += group_findings(
                    whole, label=label, promised=promised or 1.0, only=name, in_file=together, apart=apart
                )
    note = f"of {file.rows:,} training rows about {_MOST_ROWS:,} were looked at for each column"
    return _diagnosis(rows, found, label, mechanism, brief, (*file.notes, note))


def _outcome_columns(file: OpenFile, label: str | None, *, all_count: bool) -> list[str]:
    numbers = [name for name, kind in file.kinds.items() if kind in ("whole", "number") and name != label]
    others = numbers[:_MOST_OUTCOMES] if all_count or label is None else []
    return [*([] if label is None else [label]), *others]


def diagnose_rows(
    training: OpenRows, *, label: str | None, mechanism: Mechanism, apart: Collection[str] = (), brief: bool = False,
    notes: tuple[str, ...] = (),
) -> Diagnosis:  # fmt: skip
    """Look for groups and series in training rows.

    Args:
        training: The rows, as from `everhold.diagnosis.columns_of`.
        label: The label column, if there is one.
        mechanism: The mechanism of the holdout, for the radius.
        apart: Columns none of whose values stand both in training and in sealed rows.
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
    groups = list(group_findings(training, label=label, promised=_promised(mechanism, training) or 1.0, apart=apart))
    return _diagnosis(training, groups, label, mechanism, brief, notes)


def _diagnosis(
    training: OpenRows, groups: list[Finding], label: str | None, mechanism: Mechanism, brief: bool,
    notes: tuple[str, ...],
) -> Diagnosis:  # fmt: skip
    promised, declared = _promised(mechanism, training), mechanism.dependence
    found = [*groups, *series_findings(training, label=label, declared=declared, promised=promised or 1.0)]
    findings = [replace(each, effective_rows=each.share * mechanism.rows) for each in corrected(found)]
    if promised is None:  # no promise rests on what averages are worth
        findings = [replace(each, p_value=1.0) for each in findings]
    wanted = [each for each in findings if each.suspect][:1] if brief else findings
    wanted = [each for each in wanted if each.role != "attribute"][:_MOST_RADII]
    radii = {(each.column, each.role): _radius_under(each, mechanism) for each in wanted}
    return Diagnosis(
        rows=mechanism.rows,
        training_rows=training.rows,
        label=label,
        mechanism=mechanism.name,
        radius=mechanism.promise().radius,
        declared=declared,
        promised=promised,
        findings=tuple(replace(each, radius=radii.get((each.column, each.role))) for each in findings),
        informative=informative_sizes(training, declared, label=label),
        notes=notes,
    )


def _promised(mechanism: Mechanism, training: OpenRows) -> float | None:
    """How many training rows are worth one by what is declared: larger groups than the sealed ones are worth less."""
    declared = mechanism.dependence
    try:
        promised = mechanism.rows / declared.concentration(mechanism.rows)
    except DependenceError:
        return None
    column = None if declared.group_column is None else training.column(declared.group_column)
    if column is None:
        return promised
    sizes = np.bincount(column.ranks[column.ranks >= 0])
    return max(promised, float(np.sum(sizes**2)) / training.rows)


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


def warn_of_dependence(diagnosis: Diagnosis) -> None:
    """Warn if training rows are clearly worth less than is declared, or if the sizes of groups carry information.

    Args:
        diagnosis: Of the training rows.
    """
    if diagnosis.suspects:
        text, for_shell = (_warning(diagnosis, shell=shell) for shell in (False, True))
        warn_caller(DependenceWarning(text, for_shell=for_shell))
    if diagnosis.informative:
        text = informed(diagnosis.declared, diagnosis.informative)
        warn_caller(DependenceWarning(text))


def informed(declared: DependenceModel, outcomes: Sequence[str]) -> str:
    """What it means that the size of groups goes together with outcomes, as the training rows show."""
    of = "" if declared.group_column is None else f" of column {declared.group_column!r}"
    return (
        f"the size of the groups{of} goes together with {', '.join(map(repr, outcomes))} on the training rows; answers "
        "are about groups of the sizes that were sealed, and for groups of other sizes, such as those of a new sample, "
        "nothing is promised; if that is what you want to know, seal equally many rows of each group"
    )


def _warning(diagnosis: Diagnosis, *, shell: bool) -> str:
    suspects, found = diagnosis.suspects, diagnosis.suspects[0]
    alike = f"in {found.outcome!r} (correlation {found.correlation:.2f})"
    worth = diagnosis.training_rows * (found.share if found.role == "series" else 1.0 / found.design_effect)
    promised = diagnosis.training_rows / found.promised
    alike += f": their average is worth that of about {worth:,.0f} rows, and {promised:,.0f} are promised"
    would = f"; the radius would be about {found.radius:.2g}, not {diagnosis.radius:.2g}" if found.radius else ""
    if found.radius is None or found.radius >= _USELESS:
        would = "; the promise would then be worth nothing"
    advice = diagnosis.suggestion(found, shell=shell)
    if found.role == "group":
        text = (
            f"training rows with equal {found.column!r} resemble each other {alike}; if they were drawn together, as "
            f"visits of a patient are, declare {advice}{would}"
            + ("; no value of it stands on both sides, as where whole groups were sealed" if found.apart else "")
        )
    else:
        follow = "in the file" if found.column == FILE_ORDER else f"in {found.column!r}"
        text = (
            f"training rows that follow each other {follow} resemble each other {alike}; if they are a "
            f"series, declare {advice}, and leave a gap between training and sealed rows{would}"
        )
    also = ", ".join(repr(other.column) for other in suspects[1:4])
    look = "'everhold diagnose'" if shell else "holdout.diagnose()"
    silent = "this may be left as it is" if shell else "silence DependenceWarning"
    only = "the order of the file means nothing" if found.column == FILE_ORDER else (
        f"{found.column!r} is only a property of rows that were drawn independently"
    )  # fmt: skip
    if found.apart and not (found.of_label or found.in_file):  # which sealing alone finds: it may look at both sides
        return f"{text}; if {only}, {silent}" + (f"; look at {also}, too" if also else "")
    return f"{text}; if {only}, {silent}" + (f"; look at {also}, too, with {look}" if also else f"; {look} shows more")


def _declared_column(name: str, *, shell: bool) -> str:
    return f"--groups {name}" if shell else f"dependence=eh.Groups({name!r})"
