"""The command that seals rows: create."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from everhold.cli.arguments import FormatOption, HoldoutPlace, place_of
from everhold.cli.create_options import DependenceOptions, PlanOptions, RowOptions
from everhold.cli.failures import arguments_checked
from everhold.cli.option_groups import with_option_groups
from everhold.cli.output import Format, note, show_list, show_sentence
from everhold.display import at_most
from everhold.extensions import Registry
from everhold.remote import is_address, remote_storage

if TYPE_CHECKING:
    import typer

    from everhold.holdout import Holdout
    from everhold.planning.choice import ThreeWays
    from everhold.sealing.rows.row_store import SealableTable


_MOST_SHOWN = 50  # columns
_LONGEST = 40  # characters of an example


class FurtherOptions(Protocol):
    """Options that a distribution adds to `everhold create`: a dataclass, see `everhold.cli.option_groups`.

    Its entry point is of the group ``everhold.create_options``.
    """

    def settings(self) -> dict[str, Any]:
        """Given options, by the names of `Holdout.create`.

        Raises:
            Misuse: If the options do not fit together.
        """

    def advise(self, created: Holdout) -> None:
        """Say on stderr what people should know of the new holdout."""


def register(app: typer.Typer) -> None:
    """Add the command `create`, with the options that distributions add."""
    further: Registry[type[FurtherOptions]] = Registry("everhold.create_options", {}, _check)
    app.command()(with_option_groups(create, dict(further)))


def _check(_: str, options: Any) -> str:
    lacking = [name for name in ("settings", "advise", "__dataclass_fields__") if not hasattr(options, name)]
    return f"it has no {lacking[0]}" if lacking else ""


def create(
    *,
    place: HoldoutPlace,
    rows: RowOptions,
    dependence: DependenceOptions,
    plan: PlanOptions,
    extensions: Mapping[str, FurtherOptions],
    form: FormatOption = Format.TABLE,
) -> None:
    r"""Seal rows and print what is promised about all answers.

    Example:
      everhold create flights.db flights --holdout sealed.parquet \
        --training train.parquet --label late

    The rows are copied beside the database; put the originals away.
    Rows that outgrow one machine stay in their engine, and its administrators
    can read them:
      everhold create flights.db flights --engine sc://spark:15002 \
        --table flights_sealed --training-table flights_open --label late
    Every other command finds the table again by what the ledger says of it, and
    by EVERHOLD_ENGINE, the address with user and password.
    Rows of one household, patient or day: --groups COLUMN. A time series:
    --model FILE.json, made by 'everhold dependence fit'. --independent declares
    that there is no such dependence, and silences what training rows suggest.
    If you publish the features of the rows, for submissions, say so with
    --features public; queries are then asked with files of predictions.
    A prediction of a class that the label does not have is refused. The classes
    are those of the training labels, or --classes.
    Rows that are already sealed in this storage are refused, unless you give
    --allow-resealing: neither holdout accounts for what the other has told, so the
    promise of each holds only for queries chosen without any answer from the
    other.
    A competition: --feedback none, leader or score, with --metric, --teams and
    --submissions; then 'everhold submit', 'leaderboard' and, at the end, 'unseal'.
    Each column is printed as it was read, with an example from the training rows.
    Dates and numbers with two readings, such as 03/04/2025, are refused.
    With --format json or csv, 'everhold status' comes along with the promise.

    Exit codes:
      0  created
      2  the settings are not valid; nothing was created
      3  the rows or the name cannot be used; nothing was created
      9  the groups or the model do not match the rows; nothing was created
    """
    storage, name = place_of(place.storage, place.name)
    rest = {} if (stated := dependence.declared()) is None else {"dependence": stated}
    settings = {"dependence": None, "missing": "refuse", **plan.settings(), **rows.settings(), **rest}
    extended = {name: value for further in extensions.values() for name, value in further.settings().items()}
    settings |= extended
    with arguments_checked():
        sealed, training = rows.sealed(storage), rows.open()
        created = _create(storage, name, holdout=sealed, training=training, settings=settings)
    with created:
        _show(created, form, ways=None if extended or created.is_served else created.ways)
        for further in extensions.values():
            further.advise(created)


def _create(
    storage: str,
    name: str,
    *,
    holdout: Path | SealableTable,
    training: Path | SealableTable | None,
    settings: Mapping[str, Any],
) -> Holdout:
    """Seal the rows here, or in a service."""
    if is_address(storage) and isinstance(holdout, Path) and (training is None or isinstance(training, Path)):
        return remote_storage(storage).create(storage, name, holdout=holdout, training=training, **settings)
    from everhold.asking.creation import settings_from
    from everhold.holdout import Holdout

    return Holdout.create(storage, name, holdout=holdout, training=training, **settings_from(settings))


def _show(created: Holdout, form: Format, *, ways: ThreeWays | None) -> None:
    promise, status = created.certificate().promise, created.status()
    columns = created.columns()
    compared = {} if ways is None else {"ways": ways.to_dict()}
    if form is Format.TABLE and ways is not None:
        show_list(ways.to_rows(), ("way", "when", "within"), form, document=[])
        note(ways.explain())
    show_sentence(promise, {"promise": promise, **status, "columns": columns, **compared}, form)
    if form is Format.TABLE and columns:
        shown = [{**column, "example": _cut(column["example"])} for column in columns[:_MOST_SHOWN]]
        show_list(shown, ("column", "kind", "example"), form, document=columns)
        if len(columns) > _MOST_SHOWN:
            note(f"{len(columns) - _MOST_SHOWN:,} more columns are in the output of --format json.")
    if status["dependence"]["kind"] == "groups" and status.get("expected") is not None:
        note(
            f"The half-width of {at_most(status['radius'])} is guaranteed. Answers around 0.9 are expected within "
            f"{at_most(status['expected'])}, as rows of one training group are alike; each has its own interval."
        )


def _cut(example: str | None) -> str | None:
    return example if example is None or len(example) <= _LONGEST else f"{example[:_LONGEST]}..."
