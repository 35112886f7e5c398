"""Commands about gates: create, challenge, complete, status."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from everhold.cli.arguments import AnalystOption, FormatOption, HoldoutPlace, NameArgument, StorageArgument, opened
from everhold.cli.failures import CommandGroup, Misuse, arguments_checked
from everhold.cli.option_groups import given_options, with_option_groups
from everhold.cli.output import Format, show_list, show_record, show_sentence
from everhold.queries.metrics.registry import METRICS

if TYPE_CHECKING:
    from collections.abc import Callable

    from everhold.values.base import Schema

_METRICS = (*METRICS.of_gates, "risk")
_COLUMNS = ("gate", "metric", "margin", "champion", "challenges", "promotions", "limit")

group = typer.Typer(cls=CommandGroup, rich_markup_mode="rich")

GateOption = Annotated[str, typer.Option("--gate", help="The gate's name; a holdout may have several.")]


def register(app: typer.Typer) -> None:
    """Add the group `gate`."""
    said = "Keep or revert: a champion and proved promotions: create, challenge, complete, status."
    app.add_typer(group, name="gate", help=said)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """A model: its predictions in a file, or a rule."""

    file: Path | None = None
    rule: Annotated[
        str | None,
        typer.Option(help="Instead of predictions: a rule over the features, which says label 1 where it is true."),
    ] = None
    training_predictions: Annotated[
        Path | None, typer.Option(help="The same model's predictions for the training rows; the test gets sharper.")
    ] = None
    column: Annotated[str | None, typer.Option(help="Column of the predictions file, where it has several.")] = None

    def check(self, option: str) -> None:
        """Check that there is either a file or a rule.

        Raises:
            Misuse: If there is none of them, or both.
        """
        if (self.file is None) == (self.rule is None):
            found = "none of them" if self.rule is None else "both"
            raise Misuse(f"expected one of {option} and --rule, found {found}; see --help")

    def read(self, schema: Schema) -> tuple[Any, Any]:
        """The model, and its predictions for the training rows."""
        from everhold.queries.predictions.files import read_predictions

        found = [
            None if path is None else read_predictions(path, schema, column=self.column)
            for path in (self.file, self.training_predictions)
        ]
        return self.rule or found[0], found[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChampionOptions(ModelOptions):
    """The model to beat."""

    file: Annotated[
        Path | None, typer.Option("--champion", help="Predictions of the model to beat, for the sealed rows.")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChallengerOptions(ModelOptions):
    """The model that challenges."""

    file: Annotated[
        Path | None, typer.Option("--challenger", help="Predictions of the challenger, for the sealed rows.")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionOptions(ModelOptions):
    """The champion, for rows that arrived."""

    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Predictions of the champion, for the rows that arrived alone."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TermOptions:
    """Metric and limits of the gate."""

    metric: Annotated[str, typer.Option(help=f"What is compared: {', '.join(_METRICS)}.")] = "accuracy"
    loss: Annotated[str | None, typer.Option(help="With --metric risk: 'absolute', 'squared' or 'log'.")] = None
    low: Annotated[
        float | None, typer.Option(help="Smaller losses of a risk, or labels and predictions of r2, count as this.")
    ] = None
    high: Annotated[
        float | None, typer.Option(help="Larger losses of a risk, or labels and predictions of r2, count as this.")
    ] = None
    margin: Annotated[float, typer.Option(help="A challenger has to be better by more than this.")] = 0.0
    challenges: Annotated[
        int | None, typer.Option(help="Most challenges of this gate; by default no limit but the budget.")
    ] = None

    def measure(self) -> str | Callable[..., Any]:
        """The metric, with its loss where it is a risk."""
        known = METRICS.get(self.metric)
        if self.metric != "risk" and (known is None or known.gain == "none"):
            from everhold.gates.metrics import why_no_gain

            reason = why_no_gain(self.metric) or f"--metric is {self.metric!r}"
            raise Misuse(f"{reason}; expected one of {', '.join(_METRICS)}")
        given = given_options(self, "loss", "low", "high")
        if not given and self.metric != "risk":
            return self.metric
        if known is not None and ("loss" in given or "low" not in known.settings):
            raise Misuse(f"--{next(iter(given))} belongs to --metric risk; leave it out or compare risks")
        from functools import partial

        from everhold.queries.metrics.row_scores import risk
        from everhold.queries.metrics.scores import metric

        return partial(risk, **given) if self.metric == "risk" else partial(metric, self.metric, **given)


@group.command()
@with_option_groups
def create(
    *,
    place: HoldoutPlace,
    champion: ChampionOptions,
    terms: TermOptions,
    gate: GateOption = "gate",
    form: FormatOption = Format.TABLE,
) -> None:
    """Open a gate with its first champion, once; an act of the steward, kept in the ledger.

    Example:
      everhold gate create flights.db flights --champion baseline.csv
      everhold gate challenge flights.db flights --challenger new_model.csv
      everhold gate create flights.db flights --gate rules --rule "delay > 15"

    From then on a challenger becomes the champion if and only if it is proved to
    be better by more than the margin. All promotions hold at once, however many
    challengers failed in between and however they were chosen. The planned number
    of queries is no limit to a gate, as it is none to 'everhold ask'. Beyond it
    promotions are proved all the same, and need larger gains: see 'gate status'.
    For a limit give --challenges, or 'everhold allot'. It needs a holdout
    with --mechanism guess_and_check, whose surprises pay for promotions.
    The same command again changes nothing.

    Exit codes:
      0  opened, or open already with the same champion, metric and limits
      1  a file cannot be read
      2  wrong usage
      4  no such holdout
      5  there can be no such gate; nothing was changed
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    champion.check("--champion")
    measure = terms.measure()
    with place.opened() as holdout, arguments_checked():
        first, training = champion.read(holdout.schema)
        opened_gate = holdout.gate(
            measure, champion=first, margin=terms.margin, challenges=terms.challenges, name=gate, training=training
        )
        status = opened_gate.status()
    show_record(status, form)


@group.command()
@with_option_groups
def challenge(
    *,
    place: HoldoutPlace,
    challenger: ChallengerOptions,
    gate: GateOption = "gate",
    analyst: AnalystOption = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with code 6 if the challenge is refused.")] = False,
    form: FormatOption = Format.TABLE,
) -> None:
    r"""Let a challenger try to beat the champion, and print whether it is promoted.

    Example:
      everhold gate challenge flights.db flights --challenger new_model.csv

    'promoted' is proved: the challenger is better by more than the margin, and is
    the champion now; it costs a surprise. 'kept' promises nothing and costs only
    one of the planned queries. Challenges beyond the plan are answered, too,
    and need a larger gain. No number is told. The same challenge of the same
    champion again is free and has the same verdict. In a script:
      everhold gate challenge flights.db flights --challenger new.csv \
        --format json | jq .promoted

    Exit codes:
      0  promoted, kept, or refused because what is left does not pay for it
      1  a file cannot be read
      2  wrong usage
      4  no such holdout
      5  the challenger cannot be compared, or there is no such gate or analyst
      6  refused, under --strict
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    challenger.check("--challenger")
    with place.opened(analyst) as holdout, arguments_checked():
        model, training = challenger.read(holdout.schema)
        verdict = holdout.gate(name=gate).challenge(model, training=training, strict=strict)
    show_sentence(str(verdict), verdict.to_dict(), form)


@group.command()
@with_option_groups
def complete(
    *,
    place: HoldoutPlace,
    gate: Annotated[str, typer.Argument(metavar="GATE", help="The gate's name.")] = "gate",
    champion: CompletionOptions,
    form: FormatOption = Format.TABLE,
) -> None:
    """Give a champion's values for rows that arrived; the gate answers no challenge before.

    Example:
      everhold append models.db models march.parquet
      everhold gate complete models.db models gate champion_march.csv
      everhold gate complete models.db models rules --rule "delay > 15"

    The file has the champion's predictions for the rows that arrived, with row ids
    or in their order. They must come from the same model, which nobody can
    check but the steward; the ledger keeps their digest. A rule is recognized. From
    then on these values are fixed. Nothing is charged.

    Exit codes:
      0  completed
      1  a file cannot be read
      2  wrong usage
      4  no such holdout
      5  nothing is left, or it is not the champion; nothing was changed
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    champion.check("a file")
    with place.opened() as holdout, arguments_checked():
        found = holdout.gate(name=gate)
        model, training = champion.read(holdout.schema)
        found.complete(model, training=training)
        status = found.status()
    show_record(status, form)


@group.command()
def status(
    storage: StorageArgument,
    name: NameArgument = None,
    *,
    gate: Annotated[str | None, typer.Option("--gate", help="One gate; all of them by default.")] = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Print which champion each gate has, and how often it was challenged.

    Example:
      everhold gate status flights.db flights
      everhold gate status flights.db flights --gate gate

    Of one gate it also says how many queries were answered beyond the plan,
    which is no limit, and the least gain in accuracy that the next challenge can
    see ('sees.gain'), if the models differ on one row in twenty.

    Exit codes:
      0  printed
      2  wrong usage
      4  no such holdout
      5  no such gate
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    with opened(storage, name) as holdout, arguments_checked():
        if gate is not None:
            show_record(holdout.gate(name=gate).status(), form)
            return
        found = holdout.status().get("gates", [])
    show_list(found, _COLUMNS, form, document={"gates": found})
