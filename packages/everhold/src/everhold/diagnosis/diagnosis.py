"""The diagnosis of dependence: what the training rows show, and the radius if what they show is right."""

from __future__ import annotations

import shlex
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.dependence import DependenceModel
from everhold.diagnosis.columns import FILE_ORDER, ExaminedColumn, OpenFile, OpenRows
from everhold.diagnosis.further_checks import NEAR_COPIES, crossed, near_copies, places
from everhold.diagnosis.groups_and_orders import (
    CHECKS,
    LESS_WORTH,
    CheckInputs,
    Finding,
    corrected,
    independent_of,
    informative_sizes,
)
from everhold.display import Display, html_sentences, html_table, text_table
from everhold.errors import DependenceError, DependenceWarning, warn_caller
from everhold.planning import PlanRequest, tuned_mechanism
from everhold.progress import progress
from everhold.sealing.configuration import INDEPENDENT, assumed_independent
from everhold.sealing.rows.embedded import Embedded

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

    from everhold.mechanisms import Mechanism

_MOST_ROWS = 100_000
_MOST_OUTCOMES = 8  # in long files, besides the label
_MOST_RADII = 6  # some mechanisms take a second to be tuned for groups
_USELESS = 0.5
_NOTHING = "No column groups or orders the rows."
_DRAWN = (
    "The training rows that were looked at are some of {:,}. If they were drawn one by one, rows of one group and "
    "neighbours in an order hardly meet among them, so dependence between such rows does not show."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis(Display):
    """What the training rows show about how rows depend on each other. No sealed row was read for it.

    Attributes:
        rows: Number of sealed rows.
        training_rows: Number of training rows from which the diagnosis was made.
        label: Name of the label's column; None if there is no label, so that every column of numbers was examined.
        mechanism: Name of the mechanism that answers.
        radius: Half-width that the mechanism guarantees if rows depend on each other as declared.
        declared: The declared model of how the rows depend on each other.
        promised: Number of rows that are as informative as one independent row, according to the declared model; for
            declared groups in the worst case. Each finding has the number that the interval procedure assumes. None if
            the declared model bounds no average.
        findings: What was found about each column that may group or order the rows, the clearest first.
        informative: Columns whose values are associated with the size of a row's group; empty if no groups are
            declared.
        independent: Columns that the steward says neither group nor order the rows.
        notes: Columns or rows that were left out of the diagnosis, in words.
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
    independent: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def suspects(self) -> tuple[Finding, ...]:
        """Findings about columns that contradict the declared dependence of rows clearly enough for a warning."""
        return tuple(found for found in self.findings if found.warns)

    def assumptions(self) -> list[list[Any]]:
        """Return what the ledger records of each column that the steward declared independent, one list for each.

        It is the value of the setting `everhold.sealing.configuration.INDEPENDENT`.
        """
        worth = {
            name: [round(self.training_rows * each.measured_share) for each in self.findings
                   if name in each.columns and each.assumed_independent and each.clear]
            for name in self.independent
        }  # fmt: skip
        return [[name, max(min(found), 1) if found else None, self.training_rows] for name, found in worth.items()]

    def assumed_in_words(self) -> list[str]:
        """Return a sentence about each column that, as the steward declared, neither groups nor orders the rows."""
        assumed = assumed_independent({INDEPENDENT: self.assumptions()}, {"kind": self.declared.kind})
        return [f"Assumed: {text}." for text in assumed]

    def finding(self, column: str) -> Finding:
        """Return what was found about the column with this name.

        Raises:
            ValueError: If there is no finding about the column.
        """
        for found in self.findings:
            if found.column == column:
                return found
        raise ValueError(
            f"Nothing was found about a column {column!r}. Name one of "
            f"{', '.join(repr(found.column) for found in self.findings) or 'none'}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the diagnosis as plain data, as ``everhold diagnose --format json`` prints it."""
        named = ("rows", "training_rows", "label", "mechanism", "radius")
        return {
            **{name: getattr(self, name) for name in named},
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
        """Return the findings as table rows: one dictionary for each column."""
        renamed = {"alike_in": "outcome", "error": "standard_error"}
        names = ("column", "role", "alike_in", "correlation", "error", "clear", "assumed_independent", "groups",
                 "design_effect", "effective_rows", "radius", "estimate")  # fmt: skip
        return [
            {**{name: getattr(found, renamed.get(name, name)) for name in names}, "suggestion": found.suggestion()}
            for found in self.findings
        ]

    def to_text(self) -> str:
        """Return the findings as a table for people, without fields that only programs need."""
        table = text_table(self._for_people())
        return "\n".join([self._headline(), table if self.findings else _NOTHING, *self._advice(), *self.notes])

    def _headline(self) -> str:
        return (
            f"{self.mechanism} on {self.rows:,} sealed rows, declared {self.declared.kind}: radius {self.radius:.4g}; "
            f"looked at {self.training_rows:,} training rows"
        )

    def _for_people(self) -> list[dict[str, Any]]:
        hidden = {"estimate", "suggestion", "assumed_independent"}
        said = {True: "yes, assumed independent", False: "yes"}
        return [
            {name: value for name, value in row.items() if name not in hidden}
            | {"clear": said[row["assumed_independent"]] if row["clear"] else "no"}
            for row in self.to_rows()
        ]

    def _advice(self) -> list[str]:
        advice = [f"{found.column}: {found.suggestion()}" for found in self.suspects]
        advice += self.assumed_in_words()
        return advice + ([informed(self.declared, self.informative)] if self.informative else [])

    def _repr_html_(self) -> str:
        table = html_table(self._for_people()) if self.findings else html_sentences(_NOTHING)
        return html_sentences(self._headline()) + table + html_sentences(*self._advice(), *self.notes)

    def __str__(self) -> str:
        return self.to_text()


def diagnose_file(
    path: Path, *, label: str | None, mechanism: Mechanism, apart: Collection[str] = (), brief: bool = False,
    drawn_from: int | None = None, independent: Sequence[str] = (),
) -> Diagnosis:  # fmt: skip
    """Look for groups and series in a file of training rows, and return the diagnosis.

    Long files are looked at in their first rows, and for groups in a sample of whole groups.

    Args:
        path: The training rows, as `everhold.sealing.intake.files.seal_rows` writes them.
        label: The label column, if there is one.
        mechanism: The mechanism of the holdout, for the radius.
        apart: Columns whose training values and sealed values have none in common, which are likely ids of whole
            groups.
        brief: Whether to compute only the radius that a warning needs, which saves time.
        drawn_from: Number of all training rows, if the file has only some of them. None if the file has all.
        independent: Columns that the steward says neither group nor order the rows.

    Raises:
        EverholdError: If the file of training rows cannot be read.
    """
    with progress("looking for dependence"), Embedded.of_open_rows(path) as engine:
        file = OpenFile(engine, label=label)
        rows, notes = file.first(_MOST_ROWS), file.notes
        if drawn_from is not None:
            notes = (*notes, _DRAWN.format(drawn_from))
        if file.rows <= _MOST_ROWS:
            found = diagnose_rows(
                rows, label=label, mechanism=mechanism, apart=apart, brief=brief, independent=independent
            )
            return replace(found, notes=notes)
        numbers = [name for name, kind in file.kinds.items() if kind in ("whole", "number") and name != label]

        def whole(column: ExaminedColumn, all_count: bool) -> OpenRows:
            others = numbers[:_MOST_OUTCOMES] if all_count or label is None else []
            units = mechanism.dependence.group_column
            wanted = dict.fromkeys([*([label] if label else []), *([units] if units in file.kinds else []), *others])
            return file.whole_groups(column.name, [name for name in wanted if name != column.name], _MOST_ROWS)

        note = f"of {file.rows:,} training rows about {_MOST_ROWS:,} were looked at for each column"
        found = diagnose_rows(
            rows, label=label, mechanism=mechanism, apart=apart, brief=brief, whole=whole, independent=independent
        )
        return replace(found, notes=(*notes, note))


def diagnose_rows(
    training: OpenRows, *, label: str | None, mechanism: Mechanism, apart: Collection[str] = (), brief: bool = False,
    whole: Callable[[ExaminedColumn, bool], OpenRows] | None = None, independent: Sequence[str] = (),
) -> Diagnosis:  # fmt: skip
    """Look for groups and series in training rows, and return the diagnosis. `whole` is as for `CheckInputs`.

    If ``brief`` is True, no radius is computed but the one that a warning needs.
    """
    promised, declared = _promised(mechanism, training), mechanism.dependence
    bets = mechanism.bets and declared.group_column is not None
    inputs = CheckInputs(training, whole or (lambda *_: training), label, declared, promised or 1.0, apart, bets)
    found = corrected([finding for check in ALL_CHECKS for finding in check(inputs)])
    findings = [
        replace(
            each, effective_rows=each.share * mechanism.rows,
            assumed_independent={*each.columns} <= {*independent},
        )
        for each in found
    ]  # fmt: skip
    if promised is None:  # no promise rests on what averages are worth
        findings = [replace(each, p_value=1.0) for each in findings]
    wanted = [each for each in findings if each.warns][:1] if brief else findings
    wanted = [each for each in wanted if each.role != "attribute"][:_MOST_RADII]
    radii = {}
    with progress("what the promise would be", len(wanted)) as line:
        for done, each in enumerate(wanted):
            line(done)
            request = replace(PlanRequest.of(mechanism), dependence=each.model)
            with suppress(ValueError):  # the mechanism cannot serve such rows
                radii[each.column, each.role] = tuned_mechanism(mechanism.name, request).promise().radius
    return Diagnosis(
        rows=mechanism.rows,
        training_rows=training.rows,
        label=label,
        mechanism=mechanism.name,
        radius=mechanism.promise().radius,
        declared=declared,
        promised=promised,
        findings=tuple(replace(each, radius=radii.get((each.column, each.role))) for each in findings),
        informative=informative_sizes(inputs),
        independent=tuple(independent),
    )


def _promised(mechanism: Mechanism, training: OpenRows) -> float | None:
    """Return the design effect that the declaration allows, or None if the model promises nothing about averages."""
    declared = mechanism.dependence
    if declared.assumes_no_law:
        return None
    try:
        promised = mechanism.rows / declared.concentration(mechanism.rows)
    except DependenceError:
        return None
    column = None if declared.group_column is None else training.column(declared.group_column)
    if column is None:
        return promised
    sizes = np.bincount(column.ranks[column.ranks >= 0])
    return max(promised, float(np.sum(sizes**2)) / training.rows)


def warn_of_dependence(diagnosis: Diagnosis) -> None:
    """Warn if training rows are clearly worth less than is declared, or if group sizes go with outcomes."""
    if diagnosis.suspects:
        text, for_shell = (_warning(diagnosis, shell=shell) for shell in (False, True))
        warn_caller(DependenceWarning(text, for_shell=for_shell))
    if diagnosis.informative:
        text = informed(diagnosis.declared, diagnosis.informative)
        warn_caller(DependenceWarning(text))


def warn_of_whole_groups(columns: Sequence[str], diagnosis: Diagnosis) -> None:
    """Warn about undeclared groups that lie entirely on one side of the split.

    Values that no column holds, such as a model's errors, may be alike within groups.

    Args:
        columns: Columns of such groups, the largest groups first.
        diagnosis: What the training rows show. A group about which the diagnosis itself warns is not named again.
    """
    if diagnosis.promised is None or any(found.apart and found.role == "group" for found in diagnosis.suspects):
        return
    shares = {found.column: found.share for found in reversed(diagnosis.findings) if found.sizes}
    wanted = [name for name in columns if name not in diagnosis.independent]
    if diagnosis.declared.group_column is None:  # the declaration may allow for as much as groups of a column can do
        wanted = [name for name in wanted if LESS_WORTH * diagnosis.promised * shares.get(name, 0.0) <= 1.0]
    if not wanted:
        return
    named, others = wanted[0], ", ".join(map(repr, wanted[1:4]))
    text, for_shell = (
        f"No value of column {named!r} is among both the training and the sealed rows, so whole groups of it were put "
        f"on one side{f' (and of {others})' if others else ''}. Rows of one group may depend on each other, also in "
        f"what no column shows, such as a model's errors. Declare {declare}, or "
        f"{independent_of([named], shell=shell)} if the rows were drawn independently."
        for shell, declare in ((False, f"dependence=eh.Groups({named!r})"), (True, f"--groups {shlex.quote(named)}"))
    )  # fmt: skip
    warn_caller(DependenceWarning(text, for_shell=for_shell))


def warn_of_a_sample(*, copied: int, drawn_from: int, apart: Collection[str]) -> None:
    """Warn that a sample of training rows cannot show whether rows form groups.

    Args:
        copied: Number of training rows in the sample.
        drawn_from: Number of all training rows.
        apart: Columns with repeated values among the sampled rows, and no value in common with the sealed rows.
    """
    known = (
        f" No value of {' or '.join(map(repr, sorted(apart)))} is in both sets of rows, which happens where whole "
        "groups are put on one side."
    )
    text, for_shell = (
        f"Nothing was declared about how rows depend on each other, and it cannot be seen, because the {copied:,} "
        f"training rows that are looked at were drawn one by one from {drawn_from:,}.{known if apart else ''} If rows "
        f"belong together, declare {groups}. If they were drawn independently, declare {independent}."
        for groups, independent in (
            ("eh.Groups(column)", "dependence=eh.Independent()"), ("--groups COLUMN", "--independent-rows")
        )
    )  # fmt: skip
    warn_caller(DependenceWarning(text, for_shell=for_shell))


def informed(declared: DependenceModel, outcomes: Sequence[str]) -> str:
    """Return the warning that group sizes go together with some outcomes on the training rows."""
    of = "" if declared.group_column is None else f" of column {declared.group_column!r}"
    return (
        f"The size of the groups{of} goes together with {', '.join(map(repr, outcomes))} on the training rows. "
        "Answers are about groups of the sizes that were sealed, and nothing is promised for groups of other sizes. "
        "If you want to know about those, seal equally many rows of each group."
    )


def _warning(diagnosis: Diagnosis, *, shell: bool) -> str:
    suspects, found, rows = diagnosis.suspects, diagnosis.suspects[0], diagnosis.training_rows
    alike = (
        f"in {found.outcome!r} (correlation {found.correlation:.2f}): their average is worth that of about "
        f"{rows * found.measured_share:,.0f} rows, and {rows / found.promised:,.0f} are promised"
    )
    would = " The promise would then be worth nothing."
    if found.radius is not None and found.radius < _USELESS:
        would = f" The radius would then be about {found.radius:.2g}, not {diagnosis.radius:.2g}."
    if found.column == FILE_ORDER:
        otherwise = "If the order of the file means nothing, shuffle the rows before they are sealed."
    elif found.column == NEAR_COPIES:
        silent = "this may be left as it is" if shell else "silence DependenceWarning"
        otherwise = f"If all rows were drawn independently, {silent}."
    else:
        are = " and ".join(map(repr, found.columns)) + (" are" if found.order_columns else " is")
        act = independent_of(found.columns, shell=shell)
        otherwise = (
            f"If {are} only a property of rows that were drawn independently, declare {act}. The certificate then "
            "states this assumption and its cost."
        )
    text = f"{found.claim(alike, found.suggestion(shell=shell), would)} {otherwise}"
    also = ", ".join(repr(other.column) for other in suspects[1:4])
    look = "'everhold diagnose'" if shell else "holdout.diagnose()"
    if found.apart and not (found.of_label or found.in_file):  # which sealing alone finds: it may look at both sides
        return text + (f" Look at {also}, too." if also else "")
    return text + (f" Look at {also}, too, with {look}." if also else f" See {look} for more.")


# Every check that a diagnosis makes of columns; their p-values are corrected together.

ALL_CHECKS: tuple[Callable[[CheckInputs], Iterator[Finding]], ...] = (*CHECKS, places, near_copies, crossed)
