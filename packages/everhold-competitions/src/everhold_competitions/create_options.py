"""Options of `everhold create` and `everhold plan` for a competition."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from everhold.cli.arguments import given_options
from everhold.cli.failures import Misuse
from everhold.cli.output import note
from everhold.display import at_most
from everhold.operations.settings import helps
from everhold.queries.metrics.registry import METRICS
from everhold_competitions.competition import FEEDBACK, Competition

if TYPE_CHECKING:
    from everhold.cli.plan import SessionTerms
    from everhold.holdout import Holdout
    from everhold_competitions.planning import CompetitionPlan

_HELPS = helps(Competition)


Feedback = StrEnum("Feedback", list(FEEDBACK))  # type: ignore[misc]  # which are not written twice


@dataclass(frozen=True, slots=True, kw_only=True)
class _CompetitionTerms:
    """Options of a competition that is created or planned."""

    panel: ClassVar[str] = "A competition"

    feedback: Annotated[
        Feedback | None,
        f"{_HELPS['feedback']} The rows then take submissions alone, and mechanism and queries follow from the teams.",
    ] = None
    metric: Annotated[
        str | None,
        f"{_HELPS['metric']} Pass accuracy (the default), error, brier, risk, or a score such as f1_macro or roc_auc.",
    ] = None
    loss: Annotated[str | None, "With --metric risk: 'absolute', 'squared' or 'log'."] = None
    low: Annotated[
        float | None, "With --metric risk: smaller losses count as this. With a score of numbers: smaller labels."
    ] = None
    high: Annotated[
        float | None, "With --metric risk: larger losses count as this. With a score of numbers: larger labels."
    ] = None
    teams: Annotated[int | None, _HELPS["teams"]] = None
    submissions: Annotated[int | None, _HELPS["submissions"]] = None
    public: Annotated[float | None, _HELPS["public"]] = None

    def _metric(self) -> dict[str, Any]:
        """Return the metric as an argument by name, empty if no option names one.

        Raises:
            Misuse: If an option does not belong to the metric.
        """
        known, losses = METRICS.get(self.metric or "accuracy"), given_options(self, "loss", "low", "high")
        if self.metric == "risk":
            return {"metric": losses}
        if losses and "loss" not in losses and not (known is not None and known.mean):
            return {"metric": {"score": self.metric, **losses}}
        if losses:
            raise Misuse(
                f"--{next(iter(losses))} is only for --metric risk, and --low and --high also for a score of numbers "
                "such as r2. Leave it out, or choose such a metric."
            )
        return given_options(self, "metric")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompetitionPlanOptions(_CompetitionTerms):
    """Options of the command line for a planned competition, all unset without ``--teams``."""

    title: ClassVar[str] = "The plan: final scores of a competition by its feedback"

    spacing: Annotated[
        float | None, "Distance of the true scores of two neighbours (by default 0.5 % of the metric's scale)."
    ] = None
    spread: Annotated[float | None, "Of a metric of numbers: standard deviation of the best file's errors."] = None
    positives: Annotated[float, "Of a metric of classes or scores: share of the labels that are 1."] = 0.5

    def planned(self, request: SessionTerms) -> CompetitionPlan | None:
        """Return the plan of the competition, or None without teams.

        Raises:
            Misuse: If the number of rows is missing.
        """
        if self.teams is None:
            if self.public is not None or self.feedback is not None:
                raise Misuse(
                    "--teams is missing, and --feedback and --public plan a competition for a number of teams. Pass "
                    "--teams."
                )
            return None
        if request.rows is None:
            raise Misuse("--rows is missing, and a competition is planned for a number of sealed rows. Pass --rows.")
        from everhold_competitions.planning import plan_competition

        return plan_competition(
            rows=request.rows, confidence=request.confidence, surprises=request.surprises,
            disagreement=0.1 if request.disagreement is None else request.disagreement,
            **given_options(self, "teams", "submissions", "feedback", "public", "spacing", "spread", "positives"),
            **self._metric(),
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class CompetitionOptions(_CompetitionTerms):
    """Options of the command line for the terms of a competition, all unset without ``--feedback``."""

    plans: ClassVar[type[CompetitionPlanOptions]] = CompetitionPlanOptions

    surprises_per_team: Annotated[int | None, _HELPS["surprises_per_team"]] = None
    public_by: Annotated[str | None, _HELPS["public_by"]] = None
    deadline: Annotated[str | None, _HELPS["deadline"]] = None
    rules: Annotated[str | None, _HELPS["rules"]] = None

    def settings(self) -> dict[str, Any]:
        """Return the options that were given, under the names that `Holdout.create` uses.

        Raises:
            Misuse: If an option is only for use with another option that was not given.
        """
        given = given_options(self)
        if self.feedback is None:
            if given:
                option = next(iter(given)).replace("_", "-")
                raise Misuse(
                    f"--{option} is only for a competition. Pass --feedback none, leader or score, or leave it out."
                )
            return {}
        others = {name: value for name, value in given.items() if name not in ("metric", "loss", "low", "high")}
        return {**others, "feedback": self.feedback.value, **self._metric()}

    def advise(self, created: Holdout) -> None:
        """Print on stderr how precise the final leaderboard will be if all planned feedback is used."""
        if self.feedback is None or created.is_served or self.metric not in (None, "accuracy", "error"):
            return
        terms = created.status()["competition"]
        near = " and ".join(f"{at_most(width)} near {at}" for at, width in terms["final_width"].items())
        worst = "" if terms["feedback"] == "none" or "told" in terms else ", if teams cause all planned surprises"
        note(f"on the final leaderboard a score is within {near}{worst}")
        if "told" in terms:
            note(terms["told"])
