"""Options of `everhold create` and `everhold plan` for a competition."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from everhold.cli.arguments import given_options
from everhold.cli.failures import Misuse
from everhold.cli.output import note
from everhold.display import at_most
from everhold.queries.metrics.registry import METRICS

if TYPE_CHECKING:
    from everhold.cli.plan import SessionTerms
    from everhold.holdout import Holdout
    from everhold_competitions.planning import CompetitionPlan

_COMPETITION = "A competition"


class Feedback(StrEnum):
    """Feedback on a submission before the end."""

    NONE = "none"
    LEADER = "leader"
    SCORE = "score"


def _metric(name: str | None, losses: dict[str, Any]) -> dict[str, Any]:
    """Return the metric of a competition from its name and the options of its range, empty without a name.

    Raises:
        Misuse: If an option does not belong to the metric.
    """
    known = METRICS.get(name or "accuracy")
    if name == "risk":
        return {"metric": losses}
    if losses and "loss" not in losses and not (known is not None and known.mean):
        return {"metric": {"score": name, **losses}}
    if losses:
        raise Misuse(
            f"--{next(iter(losses))} is only for --metric risk, and --low and --high also for a score of numbers such "
            "as r2. Leave it out, or choose such a metric."
        )
    return {} if name is None else {"metric": name}


@dataclass(frozen=True, slots=True, kw_only=True)
class CompetitionPlanOptions:
    """Options of the command line for a planned competition, all unset without ``--teams``."""

    panel: ClassVar[str] = _COMPETITION
    title: ClassVar[str] = "The plan: final scores of a competition by its feedback"

    teams: Annotated[int | None, typer.Option(help="Plan a competition of so many teams, with --rows.")] = None
    submissions: Annotated[int, typer.Option(help="Submissions of each team.")] = 20
    metric: Annotated[
        str | None,
        typer.Option(
            help="As for everhold create: accuracy (the default) or error, whose widths follow from the rows. By "
            "another metric competitions with made-up files are held, which takes seconds."
        ),
    ] = None
    loss: Annotated[str | None, typer.Option(help="With --metric risk: 'absolute', 'squared' or 'log'.")] = None
    low: Annotated[float | None, typer.Option(help="Of a metric of numbers: the least label, or loss.")] = None
    high: Annotated[float | None, typer.Option(help="Of a metric of numbers: the largest label, or loss.")] = None
    spread: Annotated[
        float | None, typer.Option(help="Of a metric of numbers: standard deviation of the best file's errors.")
    ] = None
    positives: Annotated[
        float, typer.Option(help="Of a metric of classes or scores: share of the labels that are 1.")
    ] = 0.5
    feedback: Annotated[Feedback, typer.Option(help="What a submission is told before the end.")] = Feedback.NONE
    public: Annotated[float | None, typer.Option(help="With --feedback score: share of the public rows.")] = None
    spacing: Annotated[
        float | None,
        typer.Option(
            help="Distance of the true scores of two neighbours on the board (by default 0.5 % of the metric's scale)."
        ),
    ] = None

    def planned(self, request: SessionTerms) -> CompetitionPlan | None:
        """Return the plan of the competition, or None without teams.

        Raises:
            Misuse: If the number of rows is missing.
        """
        if self.teams is None:
            if self.public is not None or self.feedback is not Feedback.NONE:
                raise Misuse("--teams is missing. --feedback and --public plan a competition, so pass it.")
            return None
        if request.rows is None:
            raise Misuse("--rows is missing. A competition is planned for a number of sealed rows, so pass it.")
        from everhold_competitions.planning import plan_competition

        return plan_competition(
            rows=request.rows, teams=self.teams, submissions=self.submissions, spread=self.spread,
            feedback=self.feedback.value, public=self.public, spacing=self.spacing, confidence=request.confidence,
            surprises=request.surprises, disagreement=0.1 if request.disagreement is None else request.disagreement,
            positives=self.positives, **_metric(self.metric, given_options(self, "loss", "low", "high")),
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class CompetitionOptions:
    """Options of the command line for the terms of a competition, all unset without ``--feedback``."""

    panel: ClassVar[str] = _COMPETITION
    plans: ClassVar[type[CompetitionPlanOptions]] = CompetitionPlanOptions

    feedback: Annotated[
        Feedback | None,
        typer.Option(
            help="Take submissions, and tell of each before the end: nothing, whether it leads (by proof), or its "
            "score. Mechanism and number of queries follow from the teams."
        ),
    ] = None
    metric: Annotated[
        str | None,
        typer.Option(
            help="Submissions are ranked by this: accuracy (the default), error, brier, risk, "
            "or a score such as f1_macro or roc_auc."
        ),
    ] = None
    loss: Annotated[str | None, typer.Option(help="With --metric risk: 'absolute', 'squared' or 'log'.")] = None
    low: Annotated[
        float | None,
        typer.Option(help="With --metric risk: smaller losses count as this. With a score of numbers: smaller labels."),
    ] = None
    high: Annotated[
        float | None,
        typer.Option(help="With --metric risk: larger losses count as this. With a score of numbers: larger labels."),
    ] = None
    teams: Annotated[int | None, typer.Option(help="Most teams (50 by default).")] = None
    submissions: Annotated[int | None, typer.Option(help="Most submissions of a team (20 by default).")] = None
    surprises_per_team: Annotated[
        int | None,
        typer.Option(
            help="Most surprises that telling one team may cost. By default its equal part of "
            "--surprises, at least 1, with --feedback score, and half of them with "
            "leader."
        ),
    ] = None
    public: Annotated[
        float | None,
        typer.Option(
            help="With --feedback score: scores are about this share of the rows, at most 0.5, and the final board "
            "about the others."
        ),
    ] = None
    public_by: Annotated[
        str | None,
        typer.Option(help="Column by whose order the public rows come first, such as a day (by default random)."),
    ] = None
    deadline: Annotated[
        str | None, typer.Option(help="No submission is received after this time, such as 2026-12-01T12:00:00+00:00.")
    ] = None
    rules: Annotated[str | None, typer.Option(help="Text that teams are told of the competition.")] = None

    def settings(self) -> dict[str, Any]:
        """Return the options that were given, under the names that `Holdout.create` uses.

        Raises:
            Misuse: If an option belongs to another one, which was not given.
        """
        losses = given_options(self, "loss", "low", "high")
        given = given_options(
            self, "metric", "teams", "submissions", "surprises_per_team", "public", "public_by", "deadline", "rules"
        )
        if self.feedback is None:
            if given or losses:
                option = next(iter({**given, **losses})).replace("_", "-")
                raise Misuse(
                    f"--{option} is only for a competition. Pass --feedback none, leader or score, or leave it out."
                )
            return {}
        return {"feedback": self.feedback.value, **given, **_metric(self.metric, losses)}

    def advise(self, created: Holdout) -> None:
        """Print on stderr how precise the final leaderboard will be, at the worst planned use of the feedback."""
        if self.feedback is None or created.is_served or self.metric not in (None, "accuracy", "error"):
            return
        terms = created.status()["competition"]
        near = " and ".join(f"{at_most(width)} near {at}" for at, width in terms["final_width"].items())
        worst = "" if terms["feedback"] == "none" or "told" in terms else ", if teams cause all planned surprises"
        note(f"on the final leaderboard a score is within {near}{worst}")
        if "told" in terms:
            note(terms["told"])
