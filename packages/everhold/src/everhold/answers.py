"""Answers to analysts: a value, the interval that holds for the population, and the charge."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from everhold.display import Display, Listing, at_least, at_most, left_in_words, plain, rounded, wider_in_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

FRESH_LABELS = "labels drawn anew on these rows"
"""The population of an answer about predictions by position."""

PUBLIC_FEATURES = "labels drawn anew on these rows, whose features are public"
"""The population of every answer where the features are public."""

_WITH_SHARES, _BY_ROW = "rows with the values of ", ", and for predictions that were each made from their own row alone"

SILENT = "silent"
"""Source of an answer that is told only when the study is unsealed."""

UNSEALED = ("sealed", "sealed_low", "sealed_high")
"""Fields of an answer after unsealing: the value in the sealed rows, and both ends of the interval."""

_EXACT = "The value is what the sealed rows say, exactly."
_NEARLY = (
    "The value is near what the sealed rows say, and need not be equal to it: it is the likeliest value after what was "
    "told of them, which is rounded."
)

FAILING = "failing"
"""Field of an answer: value, low and high of the share of rows on which a model fails."""

ESTIMATE = ("value", "low", "high")

_STABLE = frozenset({*ESTIMATE, "source", "charged", "remaining", "query"})


def with_shares(column: str, *, by_row: bool = False) -> str:
    """Return words for the population of an answer if the table was split by the values of a column.

    Args:
        column: Name of the column.
        by_row: Whether the answer is about predictions by position, so that the column is the label.
    """
    return f"{_WITH_SHARES}{column!r} in the shares of the sealed rows{_BY_ROW if by_row else ''}"


def estimand_in_words(about: str | None) -> str:
    """Describe in words which true value an answer is about, with its assumptions.

    Args:
        about: `FRESH_LABELS`, `PUBLIC_FEATURES`, a result of `with_shares`, or None for the population.
    """
    unseen = "Nobody who asks may have seen the sealed rows, features or labels, other than through everhold."
    if about is None:
        return unseen
    if about.startswith(_WITH_SHARES):
        return f"The value that is promised here is the one for {about}. The population may have other shares. {unseen}"
    said = f"The value that is promised here is the one for {about}, and not for new rows."
    if about != FRESH_LABELS:
        return said
    return (
        f"{said} If these predictions were made from the rows' features, their maker has seen what the promise "
        "about the population takes as unseen: then every answer of this holdout is promised for labels drawn anew on "
        "these rows only."
    )


def which_rows(rows: tuple[int, int] | None, before: str = "") -> str:
    """Return which sealed rows an answer is about, after the text ``before``, or nothing if no rows were appended."""
    return "" if rows is None else f"{before}about rows {rows[0]:,} to {rows[1]:,}"


def order_of_rows(rows: tuple[int, int] | None, before: str = "") -> str:
    """Return a sentence about which rows an answer is about, or nothing if no rows were appended."""
    return "" if rows is None else f"{before}It is {which_rows(rows)}, in the order of arrival."


@dataclass(frozen=True, slots=True)
class FailingRows(Display):
    """Share of rows on which a model, or one of two, fails to give an answer. Such a row counts as the worst (S16).

    Attributes:
        tried: Words for the share among the training rows.
        value: The share. It is 0 if the model fails on no training row and the sealed rows confirm that it fails on few
            rows. None if no share is told with the answer; then `low` and `high` are None too.
        low: Lower end of the interval for the population's share, which holds together with all others.
        high: Upper end of that interval.
    """

    tried: str
    value: float | None = None
    low: float | None = None
    high: float | None = None

    @classmethod
    def kept(cls, answer: Mapping[str, Any], tried: str = "") -> FailingRows:
        """Build the share from an answer as the ledger stores it, and from what the training rows say, in words."""
        return cls(tried, *answer.get(FAILING, ()))

    def __bool__(self) -> bool:
        """Return whether the told share of failing rows is above 0."""
        return bool(self.value)

    def __str__(self) -> str:
        if self.value is None or self.low is None or self.high is None:
            return self.tried
        if not self:
            return f"a model fails on at most {at_most(self.high)} of the rows"
        return f"a model fails on {rounded(self.value)} of the rows, in [{at_least(self.low)}, {at_most(self.high)}]"


@dataclass(frozen=True, slots=True)
class Answer(Display):
    """One answer to a query, exactly as the ledger (the record of all answers) holds it.

    Attributes:
        value: The answer in the query's own units; None if it was refused, or asked silently. Infinite if it is beyond
            the scale on which a metric without a bound is told, such as an R2 below -1.
        low: Lower end of the interval for the population's value. None if the value is None. Infinite if nothing bounds
            the value from below, as for R2. `to_dict` has None for each infinite number.
        high: Upper end of the interval. None if the value is None. Infinite if nothing bounds the value from above, as
            for a ratio.
        source: Where the value comes from. ``"training"`` or ``"guess"``: the training estimate, or the analyst's own
            guess, which the holdout confirmed. ``"holdout"``: the sealed rows. ``"standing"``: the best score so far
            on a leaderboard. ``"declared"``: the sealed rows, for a query of a family that the steward declared.
            ``"silent"``: no value before the study is unsealed. ``"refused"``: no value.
        charged: What the answer cost, in surprises or in the mechanism's own units such as credits; 0 for a confirmed
            guess, a refusal and a repeated query.
        remaining: What is left of the budget, by name, such as ``{"queries": 99, "surprises": 2}``.
        query: SHA-256 of the query, its id in the ledger.
        repeated: Whether the query had been answered before.
        statement: Number of the statement in the theory pages that proves the interval.
        confidence: Probability with which all intervals of this holdout hold together.
        adaptive: Whether the interval holds although queries depend on earlier answers.
        rows_worth: A text that names the procedure that made the interval, and says how much wider the interval is
            because sealed rows depend on each other, or what the mechanism assumes about the rows.
        analyst: Name of the analyst who asked; None for the steward. With a name, ``remaining`` is what is left to this
            analyst.
        about: What the interval is about, if not the population: labels drawn anew for these very rows.
        shown: The query as a text for people.
        sealed: The value of the sealed rows themselves; None before the study is unsealed, and if this number was not
            kept.
        sealed_low: Lower end of the interval around `sealed` for the population's value. This interval is narrower
            than the first one. None if `sealed` is None.
        sealed_high: Upper end of the interval around `sealed`. None if `sealed` is None.
        narrower: In words, what would make the interval narrower.
        exact: Whether the value is exactly that of the sealed rows. If False, the value is near the exact one, or is a
            guess; the exact value is told when the study is unsealed.
        rows: Numbers of the first and last sealed row that the answer is about, in the order of arrival; None if no
            rows were appended.
        clipped: A text that says beyond which bounds values count as the bound, and which share of the training rows
            lies beyond them; empty if nothing is clipped.
        failing: The share of rows on which the query's model fails, or one of its two models; None for queries without
            models. `print` and `to_dict` show this share unless it is confirmed as 0.
    """

    value: float | None
    low: float | None
    high: float | None
    source: str
    charged: int
    remaining: Mapping[str, int]
    query: str
    repeated: bool
    statement: str
    confidence: float
    adaptive: bool = True
    rows_worth: str = ""
    analyst: str | None = None
    about: str | None = None
    shown: str = ""
    sealed: float | None = None
    sealed_low: float | None = None
    sealed_high: float | None = None
    narrower: str = ""
    exact: bool = False
    rows: tuple[int, int] | None = None
    clipped: str = ""
    failing: FailingRows | None = None

    @property
    def refused(self) -> bool:
        """Whether the query has no answer because the remaining budget might not cover it."""
        return self.source == "refused"

    def to_dict(self) -> dict[str, Any]:
        """Return the answer's main attributes by name, with ``"about"`` and ``"rows"`` only where they are set.

        Once the study is unsealed, ``"sealed"``, ``"sealed_low"`` and ``"sealed_high"`` are there, too.
        """
        fields = Display.to_dict(self)
        stable = {name: value for name, value in fields.items() if name in _STABLE}
        told = {} if self.sealed is None else {name: fields[name] for name in UNSEALED}
        about = {} if self.about is None else {"about": self.about}
        clipped = {"clipped": self.clipped} if self.clipped else {}
        failing = {FAILING: {name: fields[FAILING][name] for name in ESTIMATE}} if self.failing else {}
        rows = {} if self.rows is None else {"rows": list(self.rows)}
        return {**stable, **told, **clipped, **failing, **about, **rows}

    def _headline(self) -> str:
        return f"{self.shown}: {self}" if self.shown else str(self)

    def __str__(self) -> str:
        return "; ".join(filter(None, (self._in_line(), str(self.failing) if self.failing else "", self.clipped)))

    def _in_line(self) -> str:
        left = left_in_words(self.remaining, planned=self.analyst is None)
        unsealed = ""
        if self.sealed is not None and self.sealed_low is not None and self.sealed_high is not None:
            ends = f"[{at_least(self.sealed_low)}, {at_most(self.sealed_high)}]"
            unsealed = f"unsealed {rounded(self.sealed)} in {ends}"
        if self.source == SILENT:
            return f"{unsealed or 'silent: told when the study is unsealed'}, charged {self.charged}, {left} left"
        if self.value is None and self.low is not None and self.high is not None:
            within = f"within [{at_least(self.low)}, {at_most(self.high)}]"
            return f"{within}, confirmed by the holdout, charged {self.charged}, {left} left"
        if self.value is None or self.low is None or self.high is None:
            whose = "" if self.analyst is None else " of the allotment or the budget"
            return f"refused: what is left{whose} may not cover it ({left} left)"
        return (
            f"{rounded(self.value)} in [{at_least(self.low)}, {at_most(self.high)}], from {self.source}, charged "
            f"{self.charged}, {left} left{f'; {unsealed}' if unsealed else ''}{which_rows(self.rows, '; ')}"
        )

    def explain(self) -> str:
        """Explain in words what the interval means, why it is as wide as it is, and what would make it narrower."""
        if self.analyst is not None and self.refused:
            return (
                "The query was refused because what is left of the analyst's allotment, or of the whole budget, may "
                "not cover it. Nothing was charged and it can be asked again, after the steward has allotted more."
            )
        if self.source == SILENT or self.sealed is not None:
            return self._explain_sealed()
        if self.value is None or self.low is None or self.high is None:
            return (
                "The query was refused because what is left of the budget may not cover it, whatever the sealed rows "
                "say. An answer now could not be trusted together with the earlier ones. Nothing was charged. Seal "
                "new rows, or plan for more queries or surprises next time. If it is made of several queries, some of "
                "them may still be answered one by one."
            )
        sources = {
            "training": "The training estimate agreed with the sealed rows, so it was confirmed and cost nothing.",
            "guess": "Your guess agreed with the sealed rows, so it was confirmed and cost nothing.",
            "standing": (
                "The answer is the best score so far, which this submission does not beat by enough to show. The "
                "interval is about the submission itself and bounds it from one side. It cost nothing."
            ),
            "holdout": "The answer was paid for from the budget. The value is near what the sealed rows say, and need "
            "not be equal to it: it is the likeliest value after what was told of them, which is rounded or has noise.",
            "declared": f"{_EXACT if self.exact else _NEARLY} The query is a member of a declared family, so it costs "
            "nothing, and no other query makes its interval wider.",
            "chosen": "The value is near what the sealed rows say, and need not be equal to it: everything of its "
            "batch was to be told, rounded. No surprise was charged. Later queries have wider intervals, because they "
            "pay for what was told.",
        }
        means = {
            "training": "It is the training estimate, for scores of models corrected by what earlier surprises told "
            "of such estimates, and no test score: all that the sealed rows say to this query is that the "
            f"{self._whose} value lies in the interval.",
            "guess": "It is the guess, and no test score: all that the sealed rows say is that the "
            f"{self._whose} value lies in the interval.",
        }
        validity = (
            "The interval is wide enough to stay true however the next queries depend on the answers before."
            if self.adaptive
            else (
                "That is so only if all queries were fixed before the first answer was seen. Otherwise nothing is "
                "promised."
            )
        )
        narrower = (
            "A smaller tolerance= for more credits, more sealed rows or fewer planned queries make it narrower."
            if "credits" in self.remaining
            else self.narrower
            or "More sealed rows, fewer planned queries or surprises, or a lower confidence make it narrower."
        )
        return self._holds(self.low, self.high) + " ".join(filter(None, (
            estimand_in_words(self.about), self._counts, sources[self.source], means.get(self.source, ""), validity,
            self.rows_worth, order_of_rows(self.rows), narrower,
        )))  # fmt: skip

    @property
    def _counts(self) -> str:
        """Sentences on which values are clipped and which rows count as the worst."""
        said = [f"It is about the clipped number: {self.clipped}."] if self.clipped else []
        if self.failing is not None and self.failing.value is not None:
            sentence = str(self.failing)
            said.append(f"{sentence[0].upper()}{sentence[1:]}. Such a row counts as the worst.")
        elif self.failing is not None:
            said.append(self.failing.tried)
        return " ".join(said)

    @property
    def _whose(self) -> str:
        """Word for whose value the interval contains: "population's" or "promised"."""
        return "population's" if self.about is None else "promised"

    def _holds(self, low: float, high: float) -> str:
        return (
            f"With probability {100.0 * self.confidence:.8g} %, this interval [{at_least(low)}, {at_most(high)}] and "
            f"those of all other answers of this holdout contain the {self._whose} values "
            f"(statement {self.statement}). "
        )

    def _explain_sealed(self) -> str:
        """Explain an answer whose numbers are told, or told more exactly, when the study is unsealed."""
        if self.sealed is None or self.sealed_low is None or self.sealed_high is None:
            return (
                "The query was asked silently: it counts as asked, costs nothing else, and nothing is told of it "
                "before the study is unsealed. Then its value on the sealed rows is told, with an interval for the "
                f"{self._whose} value. {estimand_in_words(self.about)}"
            )
        asked = (
            "The query was asked silently, so nothing was told of it before."
            if self.value is None or self.low is None or self.high is None
            else f"Before, it was answered with {rounded(self.value)} in [{at_least(self.low)}, {at_most(self.high)}], "
            "which holds as well."
        )
        return self._holds(self.sealed_low, self.sealed_high) + " ".join(filter(None, (
            estimand_in_words(self.about), self._counts,
            f"The study is unsealed: {rounded(self.sealed)} is what the sealed rows themselves say."
            if math.isfinite(self.sealed)
            else "The study is unsealed: what the sealed rows themselves say is beyond the end of the scale.", asked,
            "No new query is answered any more, so nothing has to be held back.", self.rows_worth,
            order_of_rows(self.rows),
        )))  # fmt: skip


def answer_rows(named: Iterable[tuple[Mapping[str, Any], Answer]]) -> list[dict[str, Any]]:
    """Return one table row for each answer: the columns that name it, and what the answer says.

    All rows have the same columns. What only some answers say, such as unsealed numbers, is None in the others.
    """
    rows = [{**names, **answer.to_dict()} for names, answer in named]
    columns = dict.fromkeys(name for row in rows for name in row if name not in ("remaining", "query"))
    return [{name: row.get(name) for name in columns} for row in rows]


@dataclass(frozen=True, slots=True)
class Shares(Display):
    """The shares of the bins of a histogram. All intervals hold at once.

    Attributes:
        answers: One answer for each bin, by the bin's name.
        each: Word for one of the answers, and their key in `to_rows`.
    """

    answers: Mapping[str, Answer]
    each: ClassVar[str] = "bin"

    def __getitem__(self, name: str) -> Answer:
        return self.answers[name]

    def __len__(self) -> int:
        return len(self.answers)

    @property
    def refused(self) -> bool:
        """Whether some bin has no answer, because the remaining budget did not surely pay for it."""
        return self.first_refused is not None

    @property
    def first_refused(self) -> Answer | None:
        """The refused answer of the first bin that has no answer, or None if all bins are answered."""
        return next((answer for answer in self.answers.values() if answer.refused), None)

    def explain(self) -> str:
        """Explain in words what the intervals mean, or why a bin was refused."""
        return (self.first_refused or next(iter(self.answers.values()))).explain()

    @property
    def charged(self) -> int:
        """Surprises charged for all bins together."""
        return sum(answer.charged for answer in self.answers.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the rows of all bins as ``{"bins": [...]}``."""
        return {f"{self.each}s": self.to_rows()}

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one dict for each bin: bin, value, low, high, source, charged, and unsealed numbers if any."""
        return answer_rows(({self.each: name}, answer) for name, answer in self.answers.items())


@dataclass(frozen=True, slots=True)
class Contrasts(Shares):
    """A contrast of two arms in each of some groups. All intervals hold at once.

    Attributes:
        answers: One answer for each group, by the group's name.
    """

    each: ClassVar[str] = "group"


@dataclass(frozen=True, slots=True)
class QuotedPrice(Display):
    """The price of a query before it is asked.

    Attributes:
        query: SHA-256 of the query; None for a quote without one.
        radius: A bound: if the guess is confirmed, the population's value lies within this distance of the told value,
            in the query's units. Infinite where the interval has an end that nothing bounds, as R2 from below; then
            `to_dict` has None. None if it would be refused, or if it depends on a guess and there is none. For a
            variance and other numbers that are computed from several answers it is no bound: it is the half-width if
            the sealed rows spread as the training rows do.
        radius_if_charged: Bound in the same units if the answer comes from the sealed rows, whatever they say. A
            surprise is usually told much more sharply. None if there is no such bound.
        charged_if_confirmed: What is charged if the guess is confirmed.
        charged_at_most: Largest possible charge.
        refused: Whether the query would be refused.
        answered_before: Whether the query was answered before, so that its stored answer is free.
        remaining: What is left of the budget, by name.
        radius_unsealed: Half-width to be expected when the study is unsealed; None where that is not known or allowed.
        bits: For a query of a declared family: bits of its level, log2(1 / its share of the probability of failure).
            None for other queries.
        widens: About how many times wider the intervals of later queries will be because of this query. 1 if they do
            not become wider, or if the query costs a surprise instead.
    """

    query: str | None
    radius: float | None
    radius_if_charged: float | None
    charged_if_confirmed: int
    charged_at_most: int
    refused: bool
    answered_before: bool
    remaining: Mapping[str, int]
    radius_unsealed: float | None = None
    bits: float | None = None
    widens: float = 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return all attributes by name, without ``bits`` and ``widens`` where they say nothing."""
        silent = {"bits": None, "widens": 1.0}
        return {name: value for name, value in Display.to_dict(self).items() if value != silent.get(name, ())}

    def _headline(self) -> str:
        return str(self)

    def __str__(self) -> str:
        left = left_in_words(self.remaining)
        if self.bits is not None and not self.answered_before:
            return f"within {self._bounds()}, declared in {self.bits:.1f} bits, free"
        if self.refused:
            return f"would be refused: what is left does not pay for it ({left} left)"
        least, most = self.charged_if_confirmed, self.charged_at_most
        cost = f"costs {most:,}" if least == most else f"costs {least:,} if the guess holds, else {most:,}"
        cost = "free, because it was answered before" if self.answered_before else cost
        unsealed = "" if self.radius_unsealed is None else f" (about {at_most(self.radius_unsealed)} unsealed)"
        return f"within {self._bounds()}{unsealed}, {cost}{wider_in_words(self.widens)}, {left} left"

    def _bounds(self) -> str:
        """Return both widths in words, or one if they are equal or only one is known."""
        first, second = self.radius, self.radius_if_charged
        if first is None:
            return "?" if second is None else at_most(second)
        if second is None or (first != second and self.bits is not None and not self.answered_before):
            return f"{at_most(first)} if the sealed rows spread as expected"
        if first == second or self.charged_at_most == self.charged_if_confirmed:
            return at_most(first)
        return f"{at_most(first)} if the guess holds, else {at_most(second)}"


@dataclass(frozen=True, slots=True)
class Transcript(Listing):
    """All queries and answers of a holdout, in order.

    Attributes:
        rows: One dict for each query: sequence, asked_at, query, asked, value, low, high, source, charged. If the
            mechanism checks guesses, there are ``estimate``, the plain training estimate, and ``guess``, the guess that
            was checked: the estimate after corrections, or the analyst's own. All numbers are those that `ask`
            returned, in the query's own units. The value of a choice or a quantile is the number of the candidate or
            bin, from 0, with ``within``: the regret, or the error of the level; ``low`` and ``high`` are the ends of
            the bin. The values of a gradient are lists, with ``within``: the Euclidean half-width. If any query was
            asked on behalf of an analyst, every dict has ``analyst``: the name, or None for the steward. If any answer
            was about something else than the population, every dict has ``about``: what the answer was about, or None
            for the population. Once the study is unsealed, there are ``sealed``, ``sealed_low`` and ``sealed_high``, in
            the units of the values; None for answers without sealed numbers.
    """

    rows_called: ClassVar[str] = "entries"

    rows: Sequence[dict[str, Any]]

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the entries as table rows: one dict for each query, as in `rows`."""
        return [plain(row) for row in self.rows]


@dataclass(frozen=True, slots=True)
class Unsealed(Listing):
    """All sealed numbers of a study that is over. Every interval holds, together with all others.

    Attributes:
        rows: One dict for each answer that has sealed numbers: sequence, query, asked, sealed, sealed_low, sealed_high;
            and analyst, about and rows as in a `Transcript`. Numbers are in the units of the transcript. They are
            infinite if those of the `Answer` are; then `to_rows` has None.
        not_kept: Number of answers in the ledger that have no sealed numbers, such as choices.
        lost: Number of answers that the ledger lost, with their sealed numbers.
        unsealed_at: Time of the unsealing in UTC, in ISO 8601.
        confidence: Probability with which all intervals of this holdout hold together.
        statement: Number of the statement in the theory pages that proves the intervals.
    """

    rows_called: ClassVar[str] = "entries"

    rows: Sequence[Mapping[str, Any]]
    not_kept: int
    lost: int
    unsealed_at: str
    confidence: float
    statement: str

    def _headline(self) -> str:
        return self.explain()

    def __str__(self) -> str:
        said = [Display.__str__(self), self.explain()]
        return "\n".join(said)

    def explain(self) -> str:
        """Explain in words what the unsealed intervals mean, and which answers are not among them."""
        counted = f"{len(self.rows):,} answer{'s' * (len(self.rows) != 1)}"
        missing = [
            f", {count:,} {what}"
            for count, what in ((self.not_kept, "without sealed numbers"), (self.lost, "lost")) if count
        ]  # fmt: skip
        return (
            f"Unsealed {self.unsealed_at}: {counted}{''.join(missing)}. With probability "
            f"{100.0 * self.confidence:.8g} % all intervals hold together (statement {self.statement}). The study is "
            "closed, and no new query is answered."
        )

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one row for each answer, with None for infinite numbers."""
        return [plain(row) for row in self.rows]
