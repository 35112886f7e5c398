"""Plain records of mechanisms: traits, texts, state, replies, promises and quotes, and evaluated queries."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from everhold.arguments import as_whole, brief
from everhold.display import Display, html_record, html_sentences
from everhold.errors import IntegrityError
from everhold.guarantees.intervals.means import OfMeans
from everhold.values.evaluation import UNIT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from everhold.guarantees.intervals.base import Procedure


class Source(IntEnum):
    """Origin of an answer."""

    GUESS = 1
    HOLDOUT = 2
    REFUSED = 3
    STANDING = 4  # the best so far, which the query does not beat
    SILENT = 5  # nothing is told before the study is unsealed
    PROMOTED = 6  # a challenger that is proved to be better
    KEPT = 7  # one that is not; nothing else is told of it
    CHOSEN = 8  # a forced label of the sealed rows, such as the best of many; always told, and never a surprise (S9)
    DECLARED = 9  # a member of a declared family, answered by its description (S10)


@dataclass(frozen=True, slots=True)
class State:
    """The counts and costs that a mechanism carries from one query to the next.

    Attributes:
        asked: Queries answered so far; refused ones do not count.
        charged: Sum of all charges so far, in the mechanism's unit (`Traits.charged_in`).
        carried_noise: Noise that is kept from query to query, such as that of a threshold, in grid units. Secret.
        labels: Cost of the labels of all surprises so far for every later query, in millionths of a nat (S8); public.
    """

    asked: int = 0
    charged: int = 0
    carried_noise: int = field(default=0, repr=False)
    labels: int = 0

    def after(self, *, asked: int = 1, charged: int, labels: int = 0) -> State:
        """Return the state with more answers, charges and label costs added."""
        return replace(self, asked=self.asked + asked, charged=self.charged + charged, labels=self.labels + labels)

    def to_dict(self) -> dict[str, int]:
        """Return the state as plain data for the ledger, with the charges as ``surprises``."""
        told = {"labels": self.labels} if self.labels else {}
        return {"asked": self.asked, "surprises": self.charged, "carried_noise": self.carried_noise, **told}

    def bound(self, settings: str) -> dict[str, Any]:
        """Return the state as plain data for the ledger, with the SHA-256 of the holdout's record."""
        return {"configuration": settings, "mechanism": self.to_dict()}

    @classmethod
    def of(cls, stored: Mapping[str, Any], settings: str) -> Self:
        """Rebuild the state from what `bound` returned.

        Raises:
            IntegrityError: If it belongs to another record, as after a recorded budget was raised.
        """
        if stored.get("configuration") != settings:
            raise IntegrityError(
                "The recorded name, date or settings are not those with which the holdout was created. Run "
                "'everhold ledger verify' and restore a backup."
            )
        data = stored["mechanism"]
        return cls(data["asked"], data["surprises"], data["carried_noise"], data.get("labels", 0))


@dataclass(frozen=True, slots=True)
class Replies:
    """Answers to a batch of queries. Every array has the shape (queries,).

    Attributes:
        values: Released answers in [0, 1]; nan where refused.
        lows: Lower ends of the intervals; nan where refused.
        highs: Upper ends of the intervals; nan where refused.
        sources: `Source` of each answer.
        charged: Charge of each answer; 0 where the sealed rows were not the source.
        sealed: Shape (queries, 3): sealed mean and both ends of its interval, which are revealed when the study is
            unsealed; nan if a query has none. Secret.
        nats: ln(1 / level) of each interval; nan where queries have no level of their own.
        procedures: Procedure that made each interval, shape (queries,). None if the mechanism made it itself.
        failing: Value, low and high of the share of failing rows (S16), by position of the query, for queries that have
            such a share.
    """

    values: NDArray[np.float64]
    lows: NDArray[np.float64]
    highs: NDArray[np.float64]
    sources: NDArray[np.int8]
    charged: NDArray[np.int64]
    sealed: NDArray[np.float64] = field(repr=False)
    nats: NDArray[np.float64]
    procedures: list[Procedure | None]
    failing: dict[int, tuple[float, float, float]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def refused(cls, count: int) -> Self:
        """Return ``count`` replies that are all refusals, which a mechanism fills in with answers."""
        values, lows, highs, nats = np.full((4, count), np.nan)
        sources, charged = np.full(count, Source.REFUSED, np.int8), np.zeros(count, np.int64)
        return cls(values, lows, highs, sources, charged, np.full((count, 3), np.nan), nats, [None] * count)

    def put(
        self,
        where: slice | NDArray[np.bool_],
        values: NDArray[np.float64],
        interval: tuple[NDArray[np.float64], NDArray[np.float64]],
        source: Source,
    ) -> None:
        """Fill in answers of one source, with numbers clipped to [0, 1]. An answer from sealed rows is charged 1."""
        self.values[where] = np.clip(values, 0.0, 1.0)
        self.lows[where] = np.clip(interval[0], 0.0, 1.0)
        self.highs[where] = np.clip(interval[1], 0.0, 1.0)
        self.sources[where] = source
        self.charged[where] = source is Source.HOLDOUT


@dataclass(frozen=True, slots=True)
class Promise(Display):
    """What a mechanism promises before the first query.

    Attributes:
        statement: Number of the statement in docs/theory that proves it.
        radius: Half-width that holds for every answer at once, in the units of a mean over [0, 1]; for a mechanism with
            one-sided answers it holds for the best answer so far, and for guess-and-check for every confirmed mean,
            because other answers have intervals of their own.
        confidence: Probability with which all of it holds, 1 - beta.
        assumptions: Assumptions about the rows, in plain words.
        details: Numbers that enter the statement, by name.
        privacy: ``(epsilon, delta)`` of differential privacy for every sealed row. None if no noise is added.
        spends_only_beyond: Within the plan, budget is spent only on queries whose guess is at least this far from the
            population's value. None if this is not promised.
        expected: Half-width that answers around 0.9 are expected to have while guesses hold. It is not a bound. None if
            it was not computed. For rows in groups it is estimated from the training rows.
        sentence: The promise of a holdout in one sentence, as in its certificate. None for a mechanism without a
            holdout.
        budget: The initial budget of a holdout, by name; for an analyst, the allotment.
    """

    statement: str
    radius: float
    confidence: float
    assumptions: tuple[str, ...]
    details: dict[str, float]
    privacy: tuple[float, float] | None = None
    spends_only_beyond: float | None = None
    expected: float | None = None
    sentence: str | None = None
    budget: dict[str, int] | None = None

    def _repr_html_(self) -> str:
        promised = {name: value for name, value in self.to_dict().items() if name != "assumptions"}
        return html_record(promised) + html_sentences(*self.assumptions)


@dataclass(frozen=True, slots=True)
class Quote:
    """Price and expected widths of the next query.

    Attributes:
        radius: Largest distance of the population's value from the answer if the guess is confirmed.
        radius_if_charged: Largest distance of the population's value from the answer if the query is a surprise,
            whatever the sealed rows are. For a ratio, if as many rows count as the training rows suggest.
        charged_if_confirmed: Charge if the guess is confirmed.
        charged_at_most: The most that can be charged.
        refused: Whether the next query would be refused.
        radius_unsealed: Half-width to expect when the study is unsealed; None if the answer cannot be unsealed.
        confirmed: The interval if the guess is confirmed, if it is known; the guess need not be its middle.
    """

    radius: float | None
    radius_if_charged: float | None
    charged_if_confirmed: int
    charged_at_most: int
    refused: bool
    radius_unsealed: float | None = None
    confirmed: tuple[float, float] | None = None


REFUSED = Quote(None, None, 0, 0, refused=True)


# What a mechanism answers: exact integer sums and histograms, and no single rows.


@dataclass(frozen=True, slots=True)
class Evaluations:
    """A batch of evaluated queries. A single query is a batch of one.

    Attributes:
        totals: Shape (queries, parts): sums over the sealed rows of each part, in grid units.
        guesses: Shape (queries,): the public guess of each mean in ``[0, unit]`` times ``rows``, in the units of a sum
            over all rows; -1 if a query has no guess.
        rows: Number of sealed rows.
        unit: Grid steps between the row values 0 and 1.
        tolerances: Shape (queries,): the half-width of a mean that each query requests, nan for the planned half-width.
            None if no query requests one.
        procedures: Interval procedure of each query. None if the mechanism makes all intervals itself.
        seen: Summary of sealed rows for each procedure that needs more than the total; else None. Secret.
        margins: Shape (queries,): the value that the lower limit of each challenge has to reach, in units of a mean.
            None if the queries are no challenges.
        silent: Whether the queries are silent, so that nothing is told before the study is unsealed.
        yes_no: Shape (queries,): whether every row value is 0 or 1 by type, so that totals are whole numbers of rows;
            None if this is known of no query.
        failing: For each query, the evaluation of the share of rows on which its model fails (S16), or None. None for
            all if no query has such a share.
        described: For each query, the level and procedure that its description gives it, or None. None for all if no
            query has them.
    """

    totals: NDArray[np.int64] = field(repr=False)
    guesses: NDArray[np.int64]
    rows: int
    unit: int = UNIT
    tolerances: NDArray[np.float64] | None = None
    procedures: Sequence[Procedure] | None = None
    seen: Sequence[Any] | None = field(default=None, repr=False)
    margins: NDArray[np.float64] | None = None
    silent: bool = False
    described: Sequence[Description | None] | None = None
    yes_no: NDArray[np.bool_] | None = None
    failing: Sequence[Evaluations | None] | None = field(default=None, repr=False)

    @property
    def whole(self) -> NDArray[np.bool_]:
        """Whether each total is known to be a whole number of rows, shape (queries,)."""
        return np.zeros(len(self), dtype=bool) if self.yes_no is None else self.yes_no

    def __len__(self) -> int:
        return len(self.totals)

    def summary(self, place: int, procedure: Procedure, mean: float) -> Any:
        """Return what a query's interval procedure reads: the sealed mean, or another summary of rows. Secret.

        If a procedure of means is used in place of one that needs more, the mean is returned.
        """
        seen = None if self.seen is None or isinstance(procedure, OfMeans) else self.seen[place]
        return mean if seen is None else seen

    def some(self, rows: list[int]) -> Evaluations:
        """Return the queries at the indices ``rows``, in the order of the indices."""
        return replace(
            self,
            totals=self.totals[rows],
            guesses=self.guesses[rows],
            tolerances=None if self.tolerances is None else self.tolerances[rows],
            procedures=None if self.procedures is None else [self.procedures[row] for row in rows],
            seen=None if self.seen is None else [self.seen[row] for row in rows],
            margins=None if self.margins is None else self.margins[rows],
            described=None if self.described is None else [self.described[row] for row in rows],
            yes_no=None if self.yes_no is None else self.yes_no[rows],
            failing=None if self.failing is None else [self.failing[row] for row in rows],
        )

    @classmethod
    def together(cls, queries: Sequence[Evaluations]) -> Evaluations:
        """Join several evaluations, of the same rows and settings, into one batch."""
        return replace(
            queries[0],
            totals=np.concatenate([query.totals for query in queries]),
            guesses=np.concatenate([query.guesses for query in queries]),
            procedures=[procedure for query in queries for procedure in query.procedures or ()],
            seen=[seen for query in queries for seen in query.seen or ()],
        )


# Error probabilities of expressions by the length of their text, if larger than by their place in the tree (S10).
#
# An expression takes a place of the tree like any other query. Its interval has the level of the place or that of its
# description. Public facts decide which. Levels of descriptions are no part of the weights of the tree.


TEXT_BITS = 100
"""Longest text, in bits, that a holdout checks at the level of its description, unless its mechanism was handed in."""

MOST_TEXT_BITS = 1_000

USUAL_TEXT_BITS = 20
"""Such as ``delay > 15``."""


@dataclass(frozen=True, slots=True)
class Description:
    """Level and interval procedure that a query has because of its description, whatever was asked before it.

    Attributes:
        nats: ln(1 / level).
        procedure: Interval procedure. It depends only on the query, the schema and the training rows.
    """

    nats: float
    procedure: Procedure


def narrower(procedure: Procedure, nats: float, described: Description | None) -> tuple[Procedure, float]:
    """Return the query's procedure and ln(1 / level), or those of its description if the level is larger."""
    if described is None or described.nats >= nats:
        return procedure, nats
    return described.procedure, described.nats


def all_narrower(
    procedures: Sequence[Procedure], nats: NDArray[np.float64], described: Sequence[Description | None]
) -> tuple[list[Procedure], NDArray[np.float64]]:
    """Return `narrower` for each query of a step.

    Args:
        procedures: Procedures of the queries, in order.
        nats: ln(1 / level) of the queries in the tree, shape (queries,).
        described: Description of each query, or None. It may have more entries than the step has queries.
    """
    chosen = [narrower(*each) for each in zip(procedures, nats.tolist(), described, strict=False)]
    return [procedure for procedure, _ in chosen], np.array([level for _, level in chosen])


def check_text_bits(bits: int) -> None:
    """Raise ValueError unless ``bits`` is a whole number from 0 to `MOST_TEXT_BITS`."""
    if not 0 <= (-1 if (whole := as_whole(bits)) is None else whole) <= MOST_TEXT_BITS:
        raise ValueError(f"text_bits is {brief(bits)}. Pass a whole number of bits from 0 to {MOST_TEXT_BITS}.")


# A kind of mechanism: the queries and rows it takes, how it answers and charges, and its texts.


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Facts about a kind of mechanism, the same for all parameters, for compiler, planner and certificate.

    Attributes:
        needs_guess: Whether every query must come with a guess.
        adaptive: Whether queries may depend on earlier answers.
        one_sided: Whether some answers bound the population's value from one side only.
        one_law: Whether it answers from parts of the rows, so that rows have to be identically distributed.
        independent_rows: Whether it takes independent rows only.
        adds_noise: Whether answers are noisy.
        unsealable: Whether every query has an interval of its own, which can be told when the study is over (S8).
        only_silent: Whether it takes silent queries only, so that no plan for answers has a line for it.
        leakage: If its statement is S1, which bounds what answers reveal about a row: the function that computes this
            bound from the model, loss, delta and rows, as ``"module:function"``. Else empty.
        sources: Sources of its answers, as the ledger names them.
        charged_in: Unit of its charges, such as surprises.
        most_charged: The most that one new query costs, at the planned price.
        sells_tolerances: Whether it follows the protocol `everhold.queries.procedures.SellsTolerances`.
        statistics: "package.module:function" that prepares a statistic of all rows with a price; empty for none.
        beyond_the_plan: Whether it may answer more queries than planned.
        public_levels: Every query has a level that public facts decide (S8), and no answer draws noise; it is a
            `everhold.mechanisms.public_levels.PublicLevels`.
        batch_is_one_step: A batch is answered at the levels of its start (S9).
    """

    needs_guess: bool = False
    adaptive: bool = True
    one_sided: bool = False
    one_law: bool = False
    independent_rows: bool = False
    adds_noise: bool = True
    unsealable: bool = False
    only_silent: bool = False
    leakage: str = ""
    sources: tuple[str, ...] = ("holdout",)
    charged_in: Literal["answers", "surprises", "credits"] = "answers"
    most_charged: int = 1
    sells_tolerances: bool = False
    statistics: str = ""
    beyond_the_plan: bool = False
    public_levels: bool = False
    batch_is_one_step: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Presentation:
    """Texts and colour of a mechanism. No answer depends on them.

    A certificate signs these sentences, so a change of one is a new version of the mechanism.

    Attributes:
        page: Page of docs/theory that proves its promise.
        colour: Colour in charts, after Okabe and Ito, distinct for people with colour blindness.
        explanation: Sentences that say how answers are made.
        endless: Last sentences of the explanation for a holdout that goes on when the budget is used up. If empty,
            `ends` is used.
        ends: Last sentences of the explanation for a holdout that stops when the budget is used up.
        theorem: Sentences that say why the answers are true.
        sentence: The promise, with placeholders for numbers of the certificate.
        no_privacy: Reason why nothing is promised about single rows, for mechanisms that promise nothing about them.
        left: What a reader has to know about the remaining budget.
        left_endless: What a reader has to know about the remaining budget of a holdout that goes on when the budget is
            used up.
        note: Note beside the mechanism's line in a plan.
        legend: Note beside the mechanism's name in a chart.
    """

    page: str
    colour: str
    explanation: str
    endless: str = ""
    ends: str = ""
    theorem: str
    sentence: str = "Until {budget} {are} used up, every answer is {reach}, all of them at once, {holds}."
    no_privacy: str = "the noise is too small for any"
    left: str = ""
    left_endless: str = ""
    note: str = ""
    legend: str = ""

    def explained(self, *, endless: bool) -> str:
        """Return the explanation followed by what happens at the end of the budget.

        Args:
            endless: Whether the holdout goes on when the budget is used up.
        """
        return f"{self.explanation} {self.endless if endless else self.ends}".strip()
