"""The command `audit`: simulated analysts attack a planned configuration."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from everhold.cli.arguments import FormatOption, with_option_groups
from everhold.cli.failures import Misuse, arguments_checked
from everhold.cli.output import Format, note, show_list
from everhold.progress import progress
from everhold.strict_json import JsonFault, read_json

if TYPE_CHECKING:
    from everhold_lab.audit.audit import Audit

_COLUMNS = (
    "mechanism", "analyst", "runs", "violations", "rate_high", "promised", "radius", "worst_error", "tightness",
    "needless", "consistent", "unprotected_violations",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedSession:
    """Options for the planned session."""

    rows: Annotated[int | None, "Number of sealed rows."] = None
    queries: Annotated[int | None, "Number of adaptive queries."] = None
    surprises: Annotated[int, "Answers that may come from the holdout."] = 10
    confidence: Annotated[float, "Probability that every answer is true."] = 0.95
    slack: Annotated[float, "Guesses closer than this share of the radius to the truth cost nothing."] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GameOptions:
    """Options for the games that are played."""

    mechanism: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this mechanism. May be repeated.")
    ] = None
    analysts: Annotated[
        str, typer.Option(metavar="NAME,NAME", help="Who plays. Also boosting, crowd and optimising.")
    ] = "honest,climbing,greedy,fingerprinting,probing"
    runs: Annotated[int, "Games of each analyst against each mechanism."] = 100
    seed: Annotated[int, "Of all labels and noise. The same seed gives the same games."] = 0


def register(app: typer.Typer) -> None:
    """Add the command `audit`."""
    app.command()(with_option_groups(audit))


def audit(
    *,
    request: AuditedSession,
    plan: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Audit this plan instead, as 'everhold plan --format json' prints it."),
    ] = None,
    games: GameOptions,
    form: FormatOption = Format.TABLE,
) -> None:
    """Let simulated analysts attack a planned configuration, and count broken promises.

    Example:
      everhold audit --rows 4000 --queries 3000 --surprises 3

    Every label is a fair coin, so that there is nothing to be found and every
    true answer is 1/2. A violation is an answer outside its promise, or budget
    spent against it (needless). Tightness is the radius divided by the worst
    error seen. In the column unprotected_violations the same analyst plays
    against bare averages with the same radius claimed for them.

    The simulation rounds the number of rows down to a power of 2.

    Exit codes:
      0  every promise was kept, up to chance
      1  a promise was broken more often than chance allows
      2  wrong usage, or nothing can be promised for this request
    """
    if plan is not None and (request.rows is not None or request.queries is not None):
        raise Misuse("--plan is given with --rows or --queries. Pass either a plan or a request.")
    if plan is None and (request.rows is None or request.queries is None):
        raise Misuse("--rows or --queries is missing. Pass both, or --plan with a file.")
    from everhold_lab.audit import audit as audits

    analysts = [name.strip() for name in games.analysts.split(",") if name.strip()]
    chosen: dict[str, Any] = {
        "mechanisms": games.mechanism, "analysts": analysts, "runs": games.runs, "seed": games.seed,
    }  # fmt: skip
    with progress("games") as line, arguments_checked():
        if plan is not None:
            result = audits.audit_plan(_read(plan), **chosen, progress=line)
        else:
            result = audits.audit(**asdict(request), **chosen, progress=line)
    _show(result, form)


def _show(result: Audit, form: Format) -> None:
    rows = result.to_rows()
    show_list(rows, _COLUMNS if form is Format.TABLE else list(rows[0]), form, document=result.to_dict())
    if form is not Format.JSON:  # the document has them
        for sentence in result.notes:
            note(sentence)
    if not result.consistent:
        note("a promise was broken more often than chance allows (see the column consistent)")
        raise typer.Exit(1)


def _read(file: Path) -> Any:
    try:
        return read_json(file.read_bytes())
    except JsonFault as fault:
        raise Misuse(f"{file.name!r} {fault}. Pass what 'everhold plan --rows ... --format json' prints.") from None
