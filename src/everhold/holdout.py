"""The session: seal rows, ask about them, see what is left, get the certificate."""

from __future__ import annotations

import contextlib
import math
import operator
import re
import secrets
import shutil
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from everhold.answers import Answer, QuotedPrice, Shares, Transcript
from everhold.certificate import Certificate, make_certificate
from everhold.configuration import (
    bound_state,
    chosen_mechanism,
    make_configuration,
    mechanism_from,
    schema_from,
    state_from,
    warn_of_weak_promise,
)
from everhold.dependence import DependenceModel
from everhold.diagnosis import Diagnosis, diagnose_file, warn_of_dependence
from everhold.errors import BudgetExhausted, DependenceError, HoldoutRejected, QueryRejected
from everhold.joint import (
    BudgetEndsBetween,
    KnownPart,
    joint_answer,
    joint_quote,
    joint_shares,
    stored_estimate,
    surely_answered,
)
from everhold.keys import KEY_FILE, StewardKey
from everhold.ledger import LedgerStore, Outcome, Question
from everhold.ledger.database import database_path
from everhold.mechanisms import Mechanism, Promise, Source, State
from everhold.privacy.noise import Noise, SecureNoise, SeededNoise
from everhold.queries.base import BoundQuery, Query, Schema
from everhold.queries.derived import DerivedQuery
from everhold.queries.evaluation import Evaluations
from everhold.queries.histogram import HistogramQuery
from everhold.queries.mean import MeanQuery
from everhold.queries.statistical import StatisticalQuery
from everhold.rows.probe import made_up_rows, try_estimator, try_on_public_rows
from everhold.rows.sealing import HOLDOUT_FILE, TRAINING_FILE, check_fingerprint, seal_rows
from everhold.rows.structure import FileStructure
from everhold.rows.table import StoredRows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Self

    from everhold.ledger import Committed, HoldoutRecord
    from everhold.queries.base import RowFunction
    from everhold.queries.derived import BoundDerived
    from everhold.rows.reading import RowSource

__all__ = ["DEFAULT_STORAGE", "Holdout", "storage_url"]

DEFAULT_STORAGE = "sqlite:///everhold.db"
_NAMES = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}")
_MOST_TRIED = 10_000  # training rows that a function is tried on in several orders
_MOST_SHOWN = 300  # characters of a question that the ledger keeps for people


def storage_url(storage: str | Path) -> str:
    """A storage as a URL; a plain path is an SQLite file.

    Examples:
        >>> storage_url("flights.db")
        'sqlite:///flights.db'
    """
    text = str(storage)
    return text if "://" in text else f"sqlite:///{text}"


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A question that is ready to be answered."""

    bound: BoundQuery
    guess: int  # in grid units of a sum over the sealed rows; -1 where there is none
    from_training: bool


class Holdout:
    """A sealed holdout that answers adaptive questions; made by `create` and `open`.

    Examples:
        >>> import numpy as np, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> rng = np.random.default_rng(0)
        >>> rows = {"delay": rng.normal(5.0, 30.0, 4000)}
        >>> holdout = Holdout.create(
        ...     f"sqlite:///{folder.name}/study.db", "flights",
        ...     holdout={"delay": rows["delay"][:2000]}, training={"delay": rows["delay"][2000:]},
        ...     queries=100, overfits=2,
        ... )
        >>> answer = holdout.ask("delay > 15")
        >>> answer.source, answer.low < answer.value < answer.high
        ('training', True)
        >>> holdout.close(); folder.cleanup()
    """

    def __init__(self, store: LedgerStore, record: HoldoutRecord, folder: Path) -> None:
        """Open the sealed rows of a record; use `create` or `open` instead."""
        configuration = record.configuration
        state_from(store.head(record.id).state, configuration)
        self._store, self._record, self._folder = store, record, folder
        self._mechanism = mechanism_from(configuration)
        self._key = StewardKey.load(folder / KEY_FILE, public_key=configuration["public_key"])
        self._schema = schema_from(configuration)
        self._sealed = self._stored(HOLDOUT_FILE, "holdout", configuration["fingerprint"], sealed=True)
        self._training = (
            self._stored(TRAINING_FILE, "training", configuration["training_fingerprint"], sealed=False)
            if self._schema.training_rows
            else None
        )

    def _stored(self, file: str, what: str, fingerprint: str, *, sealed: bool) -> StoredRows:
        check_fingerprint(self._folder / file, fingerprint, what=what)
        rows = self._schema.rows if sealed else self._schema.training_rows
        return StoredRows(
            self._folder / file,
            rows=rows,
            columns=tuple(self._schema.columns),
            sealed=sealed,
            label=self._schema.label,
        )

    @classmethod
    def create(
        cls,
        storage: str | Path = DEFAULT_STORAGE,
        name: str = "holdout",
        *,
        holdout: RowSource,
        training: RowSource | None = None,
        label: str | None = None,
        row_id: str | None = None,
        mechanism: Mechanism | str | None = None,
        queries: int = 1_000,
        overfits: int | None = None,
        confidence: float = 0.95,
        slack: float = 0.0,
        dependence: DependenceModel | None = None,
        seed: int | None = None,
    ) -> Self:
        """Seal rows and record the promise.

        Args:
            storage: URL of the database, such as ``"sqlite:///study.db"``, or a path to an SQLite file.
            name: Name of the holdout, unique in that database.
            holdout: The rows to seal: a path to a Parquet or CSV file, a pandas or Polars frame, an Arrow table, or a
                mapping from names to NumPy arrays.
            training: Open rows of the same columns; they make the guesses that the holdout confirms.
            label: Column that holds the truth, for `accuracy`, `error` and `brier`.
            row_id: Column that names rows; no row may be in both sets.
            mechanism: A mechanism, or the name of one to be tuned; by default the one with the smallest radius.
            queries: Number of adaptive questions to plan for.
            overfits: Number of answers that may come from the holdout, for mechanisms that check guesses; by default
                10, or one for each question if there are fewer.
            confidence: Probability with which all intervals hold together.
            slack: No budget is spent on guesses closer than slack times the radius to the population's value.
            dependence: How the sealed rows hang together; `Independent` by default.
            seed: For simulations only: noise that can be predicted. The certificate then says so.

        Raises:
            HoldoutRejected: If the rows or settings cannot be sealed. Nothing was created.
            DependenceError: If the dependence does not match the rows. Nothing was created.
            ValueError: If the wish makes no sense. Nothing was created.
        """
        if not _NAMES.fullmatch(name):
            raise HoldoutRejected(
                f"the name {name!r} cannot be used; expected up to 64 letters, digits, blanks, dots, dashes and "
                "underscores, beginning with a letter or digit; nothing was created"
            )
        seed = None if seed is None else operator.index(seed)
        if seed is not None and seed < 0:
            raise ValueError(f"seed is {seed}; expected a whole number of at least 0, or None for secure noise")
        url = storage_url(storage)
        database = database_path(url)
        if database.exists():
            with LedgerStore.open(url, create=False) as existing:
                _check_name_is_free(name, existing.names())
        folder = _new_folder(database, name)
        store: LedgerStore | None = None
        try:
            sealed = seal_rows(folder, holdout=holdout, training=training, label=label, row_id=row_id)
            with FileStructure(folder, sealed) as structure:
                chosen = chosen_mechanism(
                    mechanism, sealed, structure=structure, queries=queries, overfits=overfits, confidence=confidence,
                    slack=slack, dependence=dependence,
                )  # fmt: skip
            key = StewardKey.create(folder / KEY_FILE)
            configuration = make_configuration(folder, sealed, chosen, key, label=label, row_id=row_id, seed=seed)
            state = chosen.start(_noise(seed, asked=-1))
            warn_of_weak_promise(chosen)  # before anything is recorded: warnings may be errors
            if sealed.training_rows and chosen.dependence.binomial_tails:
                found = diagnose_file(folder / TRAINING_FILE, label=label, mechanism=chosen, brief=True)
                warn_of_dependence(found, declared=dependence is not None)
            store = LedgerStore.open(url)
            record = store.create(name, configuration, bound_state(state, configuration), seal_key=key.seal_key)
        except BaseException:
            if store is not None:
                store.close()
            _remove(folder)
            raise
        return cls(store, record, folder)

    @classmethod
    def open(cls, storage: str | Path = DEFAULT_STORAGE, name: str = "holdout") -> Self:
        """Open a sealed holdout and check that its rows are the ones that were sealed.

        Raises:
            HoldoutNotFound: If there is none of that name.
            IntegrityError: If a byte of the sealed rows has changed.
            AuthError: If the steward's key is missing or another one.
        """
        url = storage_url(storage)
        store = LedgerStore.open(url, create=False)
        try:
            record = store.record(name)
            folder = database_path(url).with_suffix(".rows") / record.configuration["folder"]
            return cls(store, record, folder)
        except BaseException:
            store.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Holdout({self.name!r}, rows={self._schema.rows}, mechanism={self._mechanism.name!r})"

    def close(self) -> None:
        """Close the database and the engine."""
        self._store.close()
        self._sealed.close()
        if self._training is not None:
            self._training.close()

    @property
    def name(self) -> str:
        """Name of the holdout."""
        return self._record.name

    @property
    def schema(self) -> Schema:
        """What may be known about the rows: their number and their columns."""
        return self._schema

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism that answers, with its parameters."""
        return self._mechanism

    @property
    def promise(self) -> Promise:
        """The promise that all answers keep together."""
        return self._mechanism.promise()

    @property
    def remaining(self) -> dict[str, int]:
        """What is left of the budget, by name."""
        return self._mechanism.remaining(self._state())

    def _state(self) -> State:
        return self._state_from(self._store.head(self._record.id).state)

    def _state_from(self, data: dict[str, Any]) -> State:
        return state_from(data, self._record.configuration)

    @overload
    def ask(self, query: HistogramQuery, *, guess: None = None, strict: bool = False) -> Shares: ...
    @overload
    def ask(self, query: Query | DerivedQuery | str, *, guess: float | None = None, strict: bool = False) -> Answer: ...
    def ask(
        self, query: Query | DerivedQuery | HistogramQuery | str, *, guess: float | None = None, strict: bool = False
    ) -> Answer | Shares:
        """Ask one question.

        Args:
            query: A query, such as ``accuracy(model)``, ``mean("delay", low=0, high=60)`` or ``variance(...)``; a text
                is a `mean`. A `histogram` is one question for each bin and has one answer for each.
            guess: The analyst's own guess, in the question's units, in place of the training estimate.
            strict: Raise `BudgetExhausted` instead of returning a refused answer.

        Returns:
            The answer, committed to the ledger before it is returned. A question that was asked before returns the
            stored answer for nothing. A question that is made of several is asked as a whole or not at all: if the
            budget might end between its parts, it is refused and nothing is charged.

        Raises:
            QueryRejected: If the question cannot be asked; nothing was charged.
        """
        if isinstance(query, HistogramQuery):
            return self._shares(query, guess=guess, strict=strict)
        if isinstance(query, DerivedQuery):
            answer = self._ask_derived(query, guess)
        else:
            answer = self.ask_many([query], guesses=[guess])[0]
        _check_not_refused([answer], strict=strict)
        return answer

    def ask_many(
        self, queries: Sequence[Query | str], *, guesses: Sequence[float | None] | None = None
    ) -> list[Answer]:
        """Ask questions that do not depend on each other's answers, in one transaction.

        Args:
            queries: As for `ask`, without those that are made of several.
            guesses: One guess or None for each question.

        Raises:
            QueryRejected: If one of them cannot be asked; then none is, and nothing was charged.
        """
        return self._ask_prepared(self._prepare(queries, guesses))

    def _ask_prepared(self, prepared: Sequence[_Prepared]) -> list[Answer]:
        committed = self._commit(prepared)
        remaining = self._mechanism.remaining(self._state_from(committed[-1].state_after)) if committed else {}
        statement = self.promise.statement
        return [
            self._answer(question.bound, entry, remaining, statement)
            for question, entry in zip(prepared, committed, strict=True)
        ]

    def _commit(self, prepared: Sequence[_Prepared], *, together: bool = False) -> list[Committed]:
        """Answer in one transaction; ``together`` raises `BudgetEndsBetween` unless all are sure to be answered."""
        bound = [question.bound for question in prepared]
        evaluations = Evaluations(
            totals=self._sealed.totals(bound, parts=self._mechanism.parts, unit=self._mechanism.unit),
            guesses=np.array([question.guess for question in prepared], dtype=np.int64),
            rows=self._schema.rows,
            unit=self._mechanism.unit,
        )

        def step(data: dict[str, Any], new: list[int]) -> tuple[dict[str, Any], list[Outcome]]:
            state = self._state_from(data)
            if together and not surely_answered(self._mechanism, state, len(new)):
                raise BudgetEndsBetween
            return self._step(state, evaluations, prepared, new)

        return self._store.commit(
            self._record.id,
            [Question(question.bound.question, _described(question.bound)) for question in prepared],
            step,
            seal_key=self._key.seal_key,
        )

    def _ask_derived(self, query: DerivedQuery, guess: float | None) -> Answer:
        """All parts in one transaction, and the interval that follows from theirs."""
        bound, prepared = self._prepare_derived(query, guess)
        refused = any(part.refused for part in self._known(prepared))
        try:
            committed = [] if refused else self._commit(prepared, together=True)
        except BudgetEndsBetween:
            committed = []
        state = self._state_from(committed[-1].state_after) if committed else self._state()
        refusal = Answer(
            None, None, None, "refused", 0, self._mechanism.remaining(state), bound.question, False,
            self.promise.statement, self._mechanism.confidence, self._mechanism.adaptive, _worth(self._mechanism),
        )  # fmt: skip
        return joint_answer(bound, committed, refusal)

    def _prepare_derived(
        self, query: DerivedQuery | HistogramQuery, guess: float | None
    ) -> tuple[BoundDerived, list[_Prepared]]:
        bound = query.bind(self._schema)
        if guess is not None:
            raise QueryRejected(
                f"{bound.name} is {bound.counted} and takes no guess of the whole; ask its parts, which are "
                "query.parts(holdout.schema), with a guess each, and then the whole for nothing; nothing was charged"
            )
        return bound, self._prepare(bound.parts, None)

    def _known(self, prepared: Sequence[_Prepared]) -> list[KnownPart]:
        """What is known of the parts before they are asked."""
        known = []
        for part in prepared:
            entry = self._store.find(self._record.id, part.bound.question)
            refused = entry is not None and entry.answer["source"] == "refused"
            stored = None if entry is None or refused else stored_estimate(entry.answer)
            guess = None if part.guess < 0 else part.guess / self._mechanism.steps
            known.append(KnownPart(part.bound.question, stored, guess, refused))
        return known

    def _shares(self, query: HistogramQuery, *, guess: float | None, strict: bool) -> Shares:
        """One answer for each bin, with intervals made narrower by the fact that shares sum to 1."""
        _, prepared = self._prepare_derived(query, guess)
        answers = self._ask_prepared(prepared)
        _check_not_refused(answers, strict=strict)
        return joint_shares(query.shares(self._schema), answers, missing=query.missing)

    def _step(
        self, state: State, evaluations: Evaluations, prepared: Sequence[_Prepared], new: list[int]
    ) -> tuple[dict[str, Any], list[Outcome]]:
        batch = Evaluations(
            totals=evaluations.totals[new],
            guesses=evaluations.guesses[new],
            rows=evaluations.rows,
            unit=evaluations.unit,
        )
        noise = _noise(self._record.configuration["seed"], asked=state.asked)
        state, replies = self._mechanism.answer_many(state, batch, noise)
        columns = zip(
            replies.values.tolist(), replies.lows.tolist(), replies.highs.tolist(), replies.sources.tolist(),
            replies.charged.tolist(), new, strict=True,
        )  # fmt: skip
        outcomes = [
            Outcome(
                answer={
                    "value": None if source == Source.REFUSED else value,
                    "low": None if source == Source.REFUSED else low,
                    "high": None if source == Source.REFUSED else high,
                    "source": _source(source, from_training=prepared[index].from_training),
                },
                charged=charged,
            )
            for value, low, high, source, charged, index in columns
        ]
        return bound_state(state, self._record.configuration), outcomes

    def _answer(self, bound: BoundQuery, entry: Committed, remaining: dict[str, int], statement: str) -> Answer:
        value, low, high = (
            None if mean is None else bound.from_mean(mean)
            for mean in (entry.answer["value"], entry.answer["low"], entry.answer["high"])
        )
        if low is not None and high is not None:
            low, high = _outwards(bound, min(low, high), max(low, high))  # an error rate turns an accuracy round
        return Answer(
            value=value,
            low=low,
            high=high,
            source=entry.answer["source"],
            charged=entry.charged,
            remaining=remaining,
            question=bound.question,
            repeated=entry.repeated,
            statement=statement,
            confidence=self._mechanism.confidence,
            adaptive=self._mechanism.adaptive,
            rows_worth=_worth(self._mechanism),
        )

    def _prepare(self, queries: Sequence[Query | str], guesses: Sequence[float | None] | None) -> list[_Prepared]:
        if guesses is None:
            guesses = [None] * len(queries)
        if len(guesses) != len(queries):
            raise QueryRejected(
                f"there are {len(guesses)} guesses for {len(queries)} questions; expected one each; nothing was charged"
            )
        bound = [self._bind(query) for query in queries]
        guessable = [
            i for i, question in enumerate(bound)
            if guesses[i] is None and (question.row_value is not None or question.training is not None)
        ]  # fmt: skip
        known: dict[int, int] = {}
        if self._training is not None and guessable:
            totals = self._training.totals([bound[i] for i in guessable], unit=self._mechanism.unit)[:, 0]
            known = {
                i: int(total) * self._schema.rows // self._schema.training_rows
                for i, total in zip(guessable, totals.tolist(), strict=True)
            }
        return [
            _Prepared(
                question, known[i] if i in known else self._own_guess(question, guesses[i]), from_training=i in known
            )
            for i, question in enumerate(bound)
        ]

    def _bind(self, query: Query | str) -> BoundQuery:
        if isinstance(query, str):
            query = MeanQuery(query)
        if not isinstance(query, Query):
            raise QueryRejected(
                f"{type(query).__name__} is not a question; expected accuracy(...), error(...), brier(...), mean(...), "
                "a StatisticalQuery or a text expression, and what is made of several questions one at a time by ask; "
                "nothing was charged"
            )
        bound = query.bind(self._schema)
        if bound.sealed is not None and bound.sealed is bound.training:  # code, not an array of predictions
            self._try_on_public_rows(bound.sealed, bound.reads, made_up_is_enough=isinstance(query, StatisticalQuery))
        return bound

    def _try_on_public_rows(
        self, function: RowFunction, reads: Sequence[str] | None, *, made_up_is_enough: bool
    ) -> None:
        names = tuple(self._schema.columns) if reads is None else tuple(reads)
        if self._training is not None:
            public = self._training.table(names)
            try_on_public_rows(function, {name: column[:_MOST_TRIED] for name, column in public.items()})
            return
        made_up = {name: column for name, column in made_up_rows(self._schema.columns).items() if name in names}
        if made_up_is_enough:
            try_on_public_rows(function, made_up)
        else:
            try_estimator(function, made_up)

    def _own_guess(self, bound: BoundQuery, guess: float | None) -> int:
        """The analyst's guess in grid units; -1 where there is none and none is needed."""
        if guess is None:
            if self._mechanism.needs_guess and self._store.find(self._record.id, bound.question) is None:
                raise QueryRejected(
                    f"{self._mechanism.name} confirms guesses, and there is no guess for this question: the holdout "
                    "has no training rows that it can be evaluated on; expected ask(query, guess=0.8) with your own "
                    "estimate, or training predictions as in accuracy(sealed, training=...); nothing was charged"
                )
            return -1
        if not isinstance(guess, (int, float, np.integer, np.floating)):
            raise QueryRejected(f"the guess is a {type(guess).__name__}; expected a number; nothing was charged")
        mean = bound.to_mean(float(guess))
        if not 0.0 <= mean <= 1.0:
            low, high = sorted((bound.at_zero, bound.at_one))
            raise QueryRejected(
                f"the guess {guess} is outside the question's range; expected a number in [{low}, {high}]; "
                "nothing was charged"
            )
        return round(mean * self._mechanism.steps)

    def quote(
        self, query: Query | DerivedQuery | HistogramQuery | str | None = None, *, guess: float | None = None
    ) -> QuotedPrice:
        """The price of a question before it is asked; asks nothing and costs nothing.

        Args:
            query: The question; None for the price of any new one, in units of a mean over [0, 1]. For a histogram the
                half-width is that of its widest bin.
            guess: As for `ask`.

        Raises:
            QueryRejected: If the question could not be asked.
        """
        state = self._state()
        if isinstance(query, (DerivedQuery, HistogramQuery)):
            derived, prepared = self._prepare_derived(query, guess)
            return joint_quote(
                derived, self._known(prepared), mechanism=self._mechanism, state=state,
                together=isinstance(query, DerivedQuery),
            )  # fmt: skip
        price = self._mechanism.quote(state)
        question, scale, before = None, 1.0, False
        if query is not None:
            bound = self._prepare([query], [guess])[0].bound
            question, scale = bound.question, abs(bound.at_one - bound.at_zero)
            before = self._store.find(self._record.id, question) is not None
        return QuotedPrice(
            question=question,
            radius=None if price.radius is None else price.radius * scale,
            radius_if_charged=None if price.radius_if_charged is None else price.radius_if_charged * scale,
            charged_if_confirmed=0 if before else price.charged_if_confirmed,
            charged_at_most=0 if before else price.charged_at_most,
            refused=price.refused and not before,
            answered_before=before,
            remaining=self._mechanism.remaining(state),
        )

    def status(self) -> dict[str, Any]:
        """The holdout in public facts: rows, mechanism, promise, what was asked, what is left, the ledger's head."""
        head = self._store.head(self._record.id)
        promise, described = self.promise, self._mechanism.to_dict()
        state = self._state_from(head.state)
        remaining = self._mechanism.remaining(state)
        return {
            "name": self.name,
            "rows": self._schema.rows,
            "training_rows": self._schema.training_rows,
            "mechanism": described["mechanism"],
            "parameters": described["parameters"],
            "radius": promise.radius,
            "statement": promise.statement,
            "confidence": promise.confidence,
            "dependence": self._mechanism.dependence.to_dict(),
            "simulation": self._record.configuration["seed"] is not None,
            "questions_asked": state.asked,
            "questions_refused": head.sequence - state.asked,
            "questions_left": remaining["questions"],
            "charged": head.charged,
            "remaining": remaining,
            "ledger_head": {"sequence": head.sequence, "entry_hash": head.entry_hash},
        }

    def diagnose(self) -> Diagnosis:
        """Whether the rows hang together, judged by the training rows alone; asks nothing and costs nothing.

        Raises:
            DependenceError: If there are no training rows.
        """
        if self._training is None:
            raise DependenceError(
                "there are no training rows to look at, and the sealed ones must not be; expected a holdout that was "
                "created with training=...; judge the dependence by how the rows were collected"
            )
        return diagnose_file(self._folder / TRAINING_FILE, label=self._schema.label, mechanism=self._mechanism)

    def transcript(self) -> Transcript:
        """Everything that was asked and answered, in order."""
        return Transcript(
            [
                {
                    "sequence": entry.sequence,
                    "asked_at": entry.asked_at,
                    "question": entry.question,
                    "asked": entry.description["shown"],
                    **entry.answer,
                    "charged": entry.charged,
                }
                for entry in self._store.entries(self._record.id)
            ]
        )

    def certificate(self) -> Certificate:
        """What is promised, for which rows and why, and what was asked and spent so far; signed by the steward."""
        head = self._store.head(self._record.id)
        entries = self._store.entries(self._record.id, limit=head.sequence)
        sources = Counter(entry.answer["source"] for entry in entries)
        return make_certificate(self._record, mechanism=self._mechanism, head=head, sources=sources, key=self._key)


def _worth(mechanism: Mechanism) -> str:
    """What the dependence of the rows costs, in words."""
    if mechanism.dependence.binomial_tails:
        return ""
    if mechanism.reads_leakage:
        return "Sealed rows that tell about each other make it wider than it would be for independent ones."
    worth = int(mechanism.effective_rows(mechanism.rows))
    return f"As they depend on each other, the {mechanism.rows:,} sealed rows are worth {worth:,} independent ones."


def _noise(seed: int | None, *, asked: int) -> Noise:
    """Secure noise; with a seed, noise that differs from answer to answer and can be repeated."""
    return SecureNoise() if seed is None else SeededNoise(seed * 2**32 + asked + 1)


def _outwards(bound: BoundQuery, low: float, high: float) -> tuple[float, float]:
    """An interval in the analyst's units, rounded outwards where the change of units may have rounded inwards."""
    least, most = sorted((bound.at_zero, bound.at_one))
    if (least, most) == (0.0, 1.0):
        return low, high
    step = 4.0 * max(math.ulp(least), math.ulp(most))
    return max(low - step, least), min(high + step, most)


def _described(bound: BoundQuery) -> dict[str, Any]:
    return {**bound.description, "shown": bound.shown[:_MOST_SHOWN]}


def _source(source: int, *, from_training: bool) -> str:
    return "training" if source == Source.GUESS and from_training else Source(source).name.lower()


def _check_not_refused(answers: Sequence[Answer], *, strict: bool) -> None:
    for answer in answers:
        if strict and answer.source == "refused":
            raise BudgetExhausted("the budget is spent and the question was refused; seal new rows", **answer.to_dict())


def _new_folder(database: Path, name: str) -> Path:
    """A private folder for the rows, beside the database; the database's own folder must be there already."""
    if not database.parent.is_dir():
        raise HoldoutRejected(
            f"the folder {str(database.parent)!r} of the storage does not exist; expected an existing one; "
            "create it first; nothing was created"
        )
    folder = database.with_suffix(".rows") / f"{name}-{secrets.token_hex(4)}"
    try:
        folder.mkdir(parents=True, mode=0o700)
    except OSError as fault:
        raise HoldoutRejected(
            f"the folder for the rows beside {database.name!r} cannot be made: {fault.strerror}; expected a writable "
            "folder; check its permissions; nothing was created"
        ) from None
    return folder


def _check_name_is_free(name: str, names: Sequence[str]) -> None:
    if name in names:
        raise HoldoutRejected(
            f"there is a holdout named {name!r} already; expected a new name; nothing was created", name=name
        )


def _remove(folder: Path) -> None:
    """Take back what a failed creation wrote."""
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):  # other holdouts live there
        folder.parent.rmdir()
