"""The terms of a competition: what a submission is told, which metric ranks it, and how many are planned."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, ClassVar, Final, Literal, TypeAlias, cast, get_args

import numpy as np

from everhold.arguments import as_float, brief, whole
from everhold.display import Display, at_most
from everhold.errors import HoldoutRejected, QueryRejected
from everhold.mechanisms import GuessAndCheck, Mechanism, Silent, State, has_public_levels
from everhold.queries.metrics.measures import measure_of
from everhold.queries.metrics.registry import METRICS, REFUSED
from everhold.queries.metrics.score_parts import Setting
from everhold.sealing.intake.request import DealtPart, ExtensionSettings
from everhold_competitions.ladder import Ladder

Feedback: TypeAlias = Literal["none", "leader", "score"]
FEEDBACK: tuple[Feedback, ...] = get_args(Feedback)
"""Feedback that a submission may get before the end."""

NOTHING: Final = "none"
LEADER: Final = "leader"
SCORE: Final = "score"

_LOSSES = ("absolute", "squared", "log")
_OF_RISK = {"loss", "low", "high"}
_AS_SCORES = {"absolute": "neg_mean_absolute_error", "squared": "neg_mean_squared_error", "log": "neg_log_loss"}
_UNITS = {"MSE": "squared units of {}"} | dict.fromkeys(("MAE", "RMSE", "median absolute error"), "units of {}")
_KEYS = ("loss", "score", "low", "high", "clip", "bins", "rate")
_MOST = 10**6  # submissions that are planned, in all
_TEAMS, _EACH = 50, 20
_STEPS = (10, 20, 25, 40, 50, 100, 200, 250, 400, 500, 1_000)  # of a public score, from 0 to 1
_TOO_WIDE = 0.25  # half-width of a final score of public rows that leave too few others
_FINER = 10  # times as many steps where the range of a metric is wide beside its scores
_LONGEST_RULES = 20_000
_WHERE_SET = ("public", "public_by", "deadline", "rules")
_LARGEST = 1e150  # number of a range, so that squares are finite


@dataclass(frozen=True, slots=True, kw_only=True)
class Competition(Display):
    """Terms of a competition, fixed when the rows are sealed.

    Attributes:
        feedback: What a submission is told before the end: ``"none"``, ``"leader"`` or ``"score"``.
        metric: Metric by which submissions are ranked, a name or a loss with its range. It is ``"accuracy"``,
            ``"error"``, ``"brier"``, ``"neg_brier_score"``, ``"neg_log_loss"``, or the arguments of `everhold.risk` by
            name, such as ``{"loss": "absolute", "high": 60}``. Unless leaders are told, it is also a score of
            `everhold.metric` that a column of predictions has, such as ``"f1_macro"``, ``"roc_auc"`` or
            ``{"score": "r2", "low": 0, "high": 60}``.
        teams: Largest number of teams, by default 50.
        submissions: Largest number of submissions of one team, by default 20.
        surprises_per_team: Largest number of surprises (answers that reveal something about the sealed labels) that one
            team may cause, by default a share of all. `share` computes the default. Not for the feedback ``"none"``,
            which tells nothing.
        public: Share of the rows, at most 0.5, that scores before the end are about, for the feedback ``"score"``. It
            is a share of the groups if rows are in groups. The final board is about the other rows, and nothing about
            them is told before the end. If it is None, scores are about the rows of the final board, and a team has to
            guess each score.
        public_by: Column by which rows are sorted, such as a day, so that the first rows are public. By default public
            rows are drawn at random.
        deadline: Time after which no submission is received, with its offset from UTC, as in 2026-12-01T12:00:00+00:00.
            It is in ISO 8601. By default submissions are received until the study ends.
        rules: Text for teams about the competition.

    Examples:
        >>> Competition(teams=50, submissions=20).queries
        1275
        >>> Competition(feedback="leader", metric={"loss": "squared", "high": 4.0}).in_words
        'squared loss, from 0 to 4 for a row'
    """

    feedback: Feedback = NOTHING
    metric: str | Mapping[str, Any] = "accuracy"
    teams: int = _TEAMS
    submissions: int = _EACH
    surprises_per_team: int | None = None
    public: float | None = None
    public_by: str | None = None
    deadline: str | None = None
    rules: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.metric, Mapping):  # numbers of NumPy are no JSON data
            plain = {name: each.item() if isinstance(each, np.generic) else each for name, each in self.metric.items()}
            object.__setattr__(self, "metric", plain)
        if self.feedback not in FEEDBACK:
            raise ValueError(
                f"feedback is {brief(self.feedback)}. Pass one of {', '.join(map(repr, FEEDBACK))}, which says what "
                "a submission is told before the end."
            )
        self._check_metric()
        for what, least in (("teams", 2), ("submissions", 1)):
            object.__setattr__(self, what, whole(getattr(self, what), what, least=least, most=_MOST))
        self._check_public()
        self._check_surprises()
        object.__setattr__(self, "deadline", checked_deadline(self.deadline))
        rules = self.rules
        if rules is not None and not (isinstance(rules, str) and 1 <= len(rules) <= _LONGEST_RULES):
            expected = f"Pass a text of 1 to {_LONGEST_RULES:,} characters"
            raise ValueError(f"rules is {brief(rules)}. {expected}.")
        if self.queries > 10**9:
            raise ValueError(
                f"teams is {self.teams:,} and submissions is {self.submissions:,}, which together make more than "
                "10^9 queries and comparisons. Pass smaller numbers."
            )

    def is_past(self, now: datetime) -> bool:
        """Return whether the competition's deadline is before ``now``. It is False if there is no deadline.

        Args:
            now: A time with its offset from UTC.

        Examples:
            >>> Competition(deadline="2026-12-01T12:00:00Z").is_past(datetime(2026, 12, 1, 12, 1, tzinfo=UTC))
            True
        """
        return self.deadline is not None and now > datetime.fromisoformat(self.deadline)

    def to_dict(self) -> dict[str, Any]:
        """Return the terms of the competition as plain JSON data, without optional terms that are None."""
        every = Display.to_dict(self)
        return {name: value for name, value in every.items() if value is not None or name not in _WHERE_SET}

    def _check_public(self) -> None:
        if self.public is None:
            if self.public_by is not None:
                raise ValueError(
                    "public_by is given without public=, the share of public rows. Pass public=0.3 with it."
                )
            return
        if self.feedback != SCORE:
            raise ValueError(
                f"public={brief(self.public)} is only for feedback='score', and feedback is {self.feedback!r}. Pass "
                "feedback='score', or leave public= out."
            )
        if not 0.0 < as_float(self.public) <= 0.5:
            raise ValueError(
                f"public is {brief(self.public)}. Use a share above 0 and of at most 0.5, so that the final board "
                "has no fewer rows."
            )
        if self.public_by is not None and not isinstance(self.public_by, str):
            raise ValueError(f"public_by is {brief(self.public_by)}. Pass the name of a column.")
        object.__setattr__(self, "public", float(self.public))

    def _check_surprises(self) -> None:
        if self.surprises_per_team is None:
            return
        if not self.spends:
            told = "public scores cost none" if self.public else "feedback='none' tells them nothing"
            raise ValueError(f"surprises_per_team limits what teams are told, and {told}. Leave it out.")
        limit = whole(self.surprises_per_team, "surprises_per_team", most=_MOST)
        object.__setattr__(self, "surprises_per_team", limit)

    def _check_metric(self) -> None:
        known = METRICS.get(self.metric) if isinstance(self.metric, str) else None
        if known is not None and (mean := known.as_mean) is not None:
            object.__setattr__(self, "metric", mean if isinstance(mean, str) else dict(mean))
        metric = self.metric
        given = dict(metric) if isinstance(metric, Mapping) else {"score": metric}
        for end in ("low", "high", "clip"):
            if end in given and not _is_number(given[end]):
                raise ValueError(
                    f"{end} of the metric is {brief(given[end])}, and its square is not a "
                    "finite number. Use other units, or leave it out."
                )
        name = given.get("score")
        if isinstance(name, str) and name in REFUSED:
            numbers = "neg_mean_absolute_error" if name.startswith(("neg_", "max_error", "explained", "d2_abs")) else ""
            near = numbers or REFUSED[name].split(" of ")[0]
            raise ValueError(f"{name!r} has no guarantee, so it cannot rank submissions. Rank by {near}.")
        named = isinstance(metric, str) and metric in METRICS and METRICS[metric].mean
        of_risk = (
            isinstance(metric, Mapping)
            and set(metric) <= _OF_RISK
            and metric.get("loss") in _LOSSES
            and all(_is_number(metric.get(end, 0.0)) for end in ("low", "high"))
        )
        if named or of_risk or (self.score is not None and self.feedback != LEADER):
            return
        if self.score is not None:
            raise ValueError(
                f"{self.score[0]!r} is not a mean over rows, and feedback='leader' needs "
                "one. Pass feedback='none' or 'score', or a mean such as 'accuracy'."
            )
        raise ValueError(
            f"metric is {brief(metric)}. {_meant(metric)}Pass 'accuracy', 'error', "
            "'brier', 'neg_brier_score', 'neg_log_loss', a loss with its range, as in "
            "{'loss': 'absolute', 'low': 0, 'high': 60}, or a score such as 'f1_macro' "
            "or {'score': 'r2', 'low': 0, 'high': 60}."
        )

    @property
    def score(self) -> tuple[str, dict[str, float]] | None:
        """Name and settings of the metric if it is not a mean over rows, such as an AUC or F1. None if it is a mean.

        The setting ``clip``, the largest loss of one row, is by default what the range of the labels allows, so that
        no loss is clipped.
        """
        metric = self.metric
        given: dict[str, Any] = dict(metric) if isinstance(metric, Mapping) else {"score": metric}
        name = given.pop("score", None)
        known = METRICS.get(name) if isinstance(name, str) else None
        if name is None or known is None or known.as_mean is not None:
            return None
        if not set(given) <= set(known.settings) or not all(map(_is_number, given.values())):
            return None
        given = {each: float(value) for each, value in given.items()}
        if {"low", "high"} <= given.keys() and given["low"] < given["high"]:
            width = given["high"] - given["low"]
            given.setdefault("clip", width ** measure_of(known).power)
        return name, given

    @property
    def in_words(self) -> str:
        """The competition's metric as a text for pages and reports."""
        from everhold.gates.challenge import metric_in_words

        if self.score is not None:
            return self.score[0] + self._limits
        if isinstance(self.metric, Mapping):
            return metric_in_words({"kind": "risk", "low": 0.0, "high": 1.0, **self.metric})
        return metric_in_words({"kind": self.metric})

    @property
    def _limits(self) -> str:
        """Text with the range to which labels are limited for a score. It follows the score's name."""
        _, given = self.score or ("", {})
        if not {"low", "high"} <= given.keys():
            return ""
        clip = f", a loss of {given['clip']:g} at most" if "clip" in self.metric else ""
        return f" of labels from {given['low']:g} to {given['high']:g}{clip}"

    def on_boards(self, label: str | None) -> dict[str, Any]:
        """Return name, unit and range of the metric, as boards show them, and whether values change their sign there.

        A value changes its sign if the metric is a negated loss: ``neg_root_mean_squared_error`` is shown as RMSE.

        Args:
            label: Column that submissions predict.

        Examples:
            >>> Competition(metric="roc_auc").on_boards("late")
            {'name': 'AUC', 'unit': '', 'range': '', 'turned': False}
            >>> made = Competition(metric={"score": "neg_root_mean_squared_error", "low": 0, "high": 60})
            >>> made.on_boards("delay")
            {'name': 'RMSE', 'unit': 'units of delay', 'range': ' of labels from 0 to 60', 'turned': True}
        """
        metric = self.metric
        name = metric if isinstance(metric, str) else str(metric.get("score") or _AS_SCORES[metric["loss"]])
        common = METRICS[name].common or name.removeprefix("neg_").replace("_", " ")
        return {
            "name": common, "unit": _UNITS.get(common, "").format(label), "range": self._limits,
            "turned": self.score is not None and name.startswith("neg_"),
        }  # fmt: skip

    @property
    def spends(self) -> bool:
        """Whether feedback before the end is about the rows of the final board, so that it uses up their budget."""
        return self.feedback != NOTHING and self.public is None

    @property
    def comparisons(self) -> int:
        """Number of pairs of teams whose scores are compared at the end; 0 if the metric cannot compare two models."""
        if self.score is not None and METRICS[self.score[0]].two == "none":
            return 0
        return self.teams * (self.teams - 1) // 2

    @property
    def closing(self) -> int:
        """Number of queries at the end of the competition: one score for each team, and one for each pair of teams."""
        return self.teams + self.comparisons

    @property
    def queries(self) -> int:
        """Number of queries about the rows of the final board.

        They are the queries at the end and, if feedback is about these rows, one for each possible submission.
        """
        return self.closing + (self.teams * self.submissions if self.spends else 0)

    def plan(self, mechanism: Mechanism | str | None, queries: int) -> tuple[str, int]:
        """Return the name of the mechanism that answers queries, and the number of queries for which it is planned.

        Args:
            mechanism: Mechanism that the caller requested. None for the mechanism that belongs to the feedback.
            queries: Ignored: the number follows from the teams and their submissions.

        Raises:
            HoldoutRejected: If the requested mechanism cannot serve this feedback, or the deadline is over.
        """
        if self.is_past(datetime.now(UTC)):
            raise HoldoutRejected(f"The deadline {self.deadline} has passed. Pass a later time.")
        expected = GuessAndCheck if self.spends else Silent
        if mechanism is not None and mechanism != expected.name:
            raise HoldoutRejected(
                f"A mechanism cannot be chosen for a competition with feedback={self.feedback!r}. It is "
                f"{expected.name}, planned for the teams, so leave mechanism= out."
            )
        return expected.name, self.queries

    @property
    def order(self) -> str | None:
        """Column that sorts the rows so that the first ones are public. None if public rows are drawn at random."""
        return self.public_by

    def parts(self, name: str, confidence: float) -> Sequence[DealtPart]:
        """Return the parts into which the rows are divided: final rows and public rows. Empty without public rows.

        Args:
            name: Name of the holdout.
            confidence: Probability with which all intervals hold together.
        """
        if self.public is None:
            return ()
        public = PublicTerms(self, name)
        own: dict[str, ExtensionSettings] = {"competition": self}
        return (
            DealtPart(name=name, share=1.0 - self.public, confidence=confidence, extensions=own),
            DealtPart(
                name=public.name, share=self.public, confidence=confidence, extensions={"competition": public},
                allow_vacuous=True,
            ),
        )  # fmt: skip

    def share(self, surprises: int) -> int:
        """Return how many surprises one team may cause, by default a fair share of all planned ``surprises``.

        A surprise is an answer that reveals something about the sealed rows and is charged to the budget. With
        feedback ``"score"`` every wrong guess costs a surprise, so the default is an equal part for each team, and
        at least 1. With ``"leader"`` a surprise is a proved change of the leader, so one team may cause half of the
        planned surprises, rounded up.

        Args:
            surprises: Surprises that are planned in all.

        Examples:
            >>> Competition(feedback="score", teams=6).share(12), Competition(feedback="score", teams=50).share(10)
            (2, 1)
            >>> Competition(feedback="leader").share(10), Competition(feedback="leader", surprises_per_team=2).share(10)
            (5, 2)
        """
        if self.surprises_per_team is not None:
            return self.surprises_per_team
        return max(surprises // self.teams, 1) if self.feedback == SCORE else (surprises + 1) // 2

    def final_radius(self, mechanism: Mechanism, at: float) -> float:
        """Return the expected half-width of a score's interval on the final board, after the largest planned use.

        The largest planned use: every submission had feedback, and teams caused all surprises (charged answers) that
        their shares and the budget allow.

        Args:
            mechanism: Mechanism that answers queries about the rows of the final board.
            at: True value of the score in the population, a share of rows such as an accuracy.
        """
        if mechanism.planned_surprises is None or not has_public_levels(mechanism):
            return mechanism.expected_radius(at)
        low, high = mechanism.yes_no_procedure.expected(at, self.final_nats(mechanism))
        return (high - low) / 2.0 + mechanism.rounding

    def final_nats(self, mechanism: Mechanism) -> float:
        """Return ln(1 / level) of the last comparison of two teams, after the largest planned use.

        The level is the probability of failure that the comparison has. The use is that of `final_radius`.

        Args:
            mechanism: Mechanism that answers queries about the rows of the final board.
        """
        if mechanism.traits.only_silent:
            return float(cast("Silent", mechanism).nats(mechanism.queries))
        assert has_public_levels(mechanism)
        assert mechanism.planned_surprises is not None
        told, cost = self.teams * self.submissions, mechanism.cells.cost
        most = min(self.teams * self.share(mechanism.planned_surprises), told)

        def is_too_late(surprise: int) -> bool:
            """Return whether the budget no longer covers the end of the competition after this many surprises."""
            before = State(told - 1, surprise - 1, 0, (surprise - 1) * cost)
            return not mechanism.accounts.leaves_capacity(before, self.closing, [mechanism.procedure])

        fits = bisect_left(range(1, most + 1), True, key=is_too_late)
        return float(mechanism.nats(told + self.closing, fits, fits * cost / 1e6))

    def recorded(self, mechanism: Mechanism) -> dict[str, Any]:
        """Return the terms as plain JSON data for the ledger, with the number of surprises that each team may cause.

        Args:
            mechanism: Mechanism that answers queries about the rows of the final board.
        """
        planned = mechanism.planned_surprises
        return (self if planned is None else replace(self, surprises_per_team=self.share(planned))).to_dict()

    def adjust(self, mechanism: Mechanism) -> Mechanism:
        """Check that the mechanism can answer this metric, and return it with its plan adjusted to the final scores.

        Args:
            mechanism: Mechanism that answers queries about the rows of the final board.

        Raises:
            HoldoutRejected: If the metric has no interval under the declared dependence of the rows, or if the rows for
                the final board are too few.
        """
        _check_mechanism(self.score, mechanism)
        planned = mechanism.with_first(self.teams)
        if self.public is not None and (reach := planned.expected_radius(0.5)) >= _TOO_WIDE:
            raise HoldoutRejected(
                f"public={self.public:g} leaves {mechanism.rows:,} rows for the final board, where a score near 0.5 is "
                f"expected within {at_most(reach)}. Use a smaller public part, plan for fewer teams, or seal more rows."
            )
        return planned

    @property
    def rises(self) -> bool:
        """Whether a larger value is better on the scale from 0 to 1 in which the ledger keeps every value."""
        if self.score is None:
            return self.metric in ("accuracy", "error")  # an error is the share of right rows, turned round
        zero, one = self.ends
        return METRICS[self.score[0]].greater == (one > zero)

    @property
    def ends(self) -> tuple[float, float]:
        """The metric's values that the ledger keeps as 0 and as 1."""
        if self.score is None:
            return self.labels
        name, numbers = self.score
        made = Setting(clip=numbers.get("clip", 1.0), low=numbers.get("low", 0.0), high=numbers.get("high", 1.0))
        return METRICS[name].ends(made)

    @property
    def labels(self) -> tuple[float, float]:
        """Least and largest label in the metric's declared range; 0 and 1 if it has no range."""
        given: Any = self.metric if isinstance(self.metric, Mapping) else {}
        return given.get("low", 0.0), given.get("high", 1.0)

    @property
    def outputs(self) -> str:
        """The kind of predictions that the metric reads, such as "classes" or "numbers"."""
        if isinstance(self.metric, Mapping) and "loss" in self.metric:
            return "probability" if self.metric["loss"] == "log" else "numbers"
        return METRICS[self.metric if isinstance(self.metric, str) else self.metric["score"]].outputs


@dataclass(frozen=True, slots=True)
class PublicTerms:
    """Terms of a competition's public rows, which are sealed as a separate holdout.

    Attributes:
        terms: Terms of the competition.
        of: Name of the holdout whose rows decide the final board.
    """

    terms: Competition
    of: str

    order: ClassVar[None] = None

    @property
    def name(self) -> str:
        """Name of the holdout with the public rows."""
        return f"{self.of}.public"

    def parts(self, name: str, confidence: float) -> Sequence[DealtPart]:
        """Return no parts, because the public rows are not divided further."""
        return ()

    def plan(self, mechanism: Mechanism | str | None, queries: int) -> tuple[str, int]:
        """Return the Ladder, for all submissions of all teams."""
        return Ladder.name, self.terms.teams * self.terms.submissions

    def adjust(self, mechanism: Mechanism) -> Mechanism:
        """Return a Ladder mechanism with one ladder for each team and steps of about a standard error."""
        score = self.terms.score
        plain = score is not None and not {"low", "clip"} & {*METRICS[score[0]].settings}
        of_shares = self.terms.metric in ("accuracy", "error")
        most = 2.0 * math.sqrt(mechanism.effective_rows(mechanism.rows))
        grid = max((steps for steps in _STEPS if steps <= most), default=_STEPS[0])
        made = Ladder(
            rows=mechanism.rows, queries=mechanism.queries, confidence=mechanism.confidence, unit=mechanism.unit,
            dependence=mechanism.dependence, grid=grid if plain or of_shares else _FINER * grid,
            better="higher" if self.terms.rises else "lower", teams=self.terms.teams,
            scores="shares" if of_shares else "any",
        )  # fmt: skip
        _check_mechanism(score, made)
        return made

    def recorded(self, mechanism: Mechanism) -> dict[str, Any]:
        """Return the terms as plain JSON data to be recorded."""
        return {**self.terms.to_dict(), "of": self.of}


def checked_deadline(deadline: Any) -> str | None:
    """Return a deadline in UTC to the second, or None without a deadline.

    Raises:
        ValueError: If the text is not a time with its offset from UTC.
    """
    if deadline is None:
        return None
    try:
        ends = datetime.fromisoformat(deadline)
    except (TypeError, ValueError):
        ends = None
    if ends is None or ends.tzinfo is None:
        raise ValueError(
            f"deadline is {brief(deadline)}. Pass a time with its offset from UTC, such as '2026-12-01T12:00:00+00:00'."
        )
    return ends.astimezone(UTC).isoformat(timespec="seconds")


def _meant(metric: object) -> str:
    """Return a text that suggests a similar metric or key for a misspelled one, empty if none is similar."""
    given, known = ([metric], sorted(METRICS)) if isinstance(metric, str) else (metric, _KEYS)
    for name in given if isinstance(given, (list, Mapping)) else ():
        near = get_close_matches(name, known, n=1) if isinstance(name, str) and name not in known else []
        if near:
            return f"Did you mean {near[0]!r} in place of {brief(name)}? "
    return ""


def _is_number(value: object) -> bool:
    """Return whether a value is a number whose square is finite."""
    return abs(as_float(value)) < _LARGEST


def _check_mechanism(score: tuple[str, dict[str, float]] | None, mechanism: Mechanism) -> None:
    """Check that a mechanism can answer queries about a score, given the dependence of the rows.

    Raises:
        HoldoutRejected: If this metric has no interval for such rows. Nothing was created.
    """
    if score is None:
        return
    from everhold.queries.metrics.query import check_kind

    try:
        check_kind(METRICS[score[0]], mechanism)
    except QueryRejected as reason:
        raise HoldoutRejected(reason.message) from None
