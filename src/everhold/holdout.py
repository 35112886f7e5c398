"""The session: seal rows, ask about them, see what is left, get the certificate."""

from __future__ import annotations

import operator
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from everhold.answering import answer_from, refusal_of, source_name
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
from everhold.errors import BudgetExhausted, DependenceError, QueryRejected
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
from everhold.mechanisms.privacy_budget import CREDITS
from everhold.preparation import Preparation, Prepared, paying
from everhold.privacy.noise import Noise, SecureNoise, SeededNoise
from everhold.purchases.base import PricedQuery, Purchase, Result
from everhold.purchases.choice import BestCandidate, choice_of
from everhold.purchases.quantile import QuantileAnswer, QuantileQuery
from everhold.queries.base import BoundQuery, Query, Schema
from everhold.queries.derived import DerivedQuery
from everhold.queries.evaluation import Evaluations
from everhold.queries.histogram import HistogramQuery
from everhold.rows.sealing import HOLDOUT_FILE, TRAINING_FILE, check_fingerprint, seal_rows
from everhold.rows.structure import FileStructure
from everhold.rows.table import StoredRows
from everhold.storage import (
    DEFAULT_STORAGE,
    check_name,
    check_name_is_free,
    new_folder,
    remove_folder,
    storage_url,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Self

    from numpy.typing import NDArray

    from everhold.ledger import Committed, HoldoutRecord
    from everhold.queries.derived import BoundDerived
    from everhold.rows.reading import RowSource

__all__ = ["DEFAULT_STORAGE", "Holdout", "storage_url"]

_REFUSED = "the budget is spent and the question was refused; seal new rows"
_MOST_SHOWN = 300  # characters of a question that the ledger keeps for people


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
        check_name(name)
        seed = None if seed is None else operator.index(seed)
        if seed is not None and seed < 0:
            raise ValueError(f"seed is {seed}; expected a whole number of at least 0, or None for secure noise")
        url = storage_url(storage)
        database = database_path(url)
        if database.exists():
            with LedgerStore.open(url, create=False) as existing:
                check_name_is_free(name, existing.names())
        folder = new_folder(database, name)
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
            remove_folder(folder)
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

    @property
    def _preparation(self) -> Preparation:
        return Preparation(
            self._schema, self._mechanism, self._training,
            answered=lambda question: self._store.find(self._record.id, question) is not None,
        )  # fmt: skip

    def _state(self) -> State:
        return self._state_from(self._store.head(self._record.id).state)

    def _state_from(self, data: dict[str, Any]) -> State:
        return state_from(data, self._record.configuration)

    @overload
    def ask(self, query: HistogramQuery, *, guess: None = None, strict: bool = False) -> Shares: ...
    @overload
    def ask(self, query: PricedQuery[Result], *, guess: None = None, strict: bool = False) -> Result: ...
    @overload
    def ask(
        self, query: Query | DerivedQuery | str, *, guess: float | None = None, tolerance: float | None = None,
        strict: bool = False,
    ) -> Answer: ...  # fmt: skip
    def ask(
        self,
        query: Query | DerivedQuery | HistogramQuery | PricedQuery[Any] | str,
        *,
        guess: float | None = None,
        tolerance: float | None = None,
        strict: bool = False,
    ) -> Any:
        """Ask one question.

        Args:
            query: A query, such as ``accuracy(model)``, ``mean("delay", low=0, high=60)`` or ``variance(...)``; a text
                is a `mean`. A `histogram` is one question for each bin and has one answer for each. What has a price
                of its own, such as a `MinimizationQuery`, needs the mechanism ``"privacy_budget"``.
            guess: The analyst's own guess, in the question's units, in place of the training estimate.
            tolerance: Half-width wished for, in the question's units; sharper answers cost more credits. Only with the
                mechanism ``"privacy_budget"`` and for questions that are not made of several.
            strict: Raise `BudgetExhausted` instead of returning a refused answer.

        Returns:
            The answer, committed to the ledger before it is returned. A question that was asked before returns the
            stored answer for nothing. A question that is made of several is asked as a whole or not at all: if the
            budget might end between its parts, it is refused and nothing is charged.

        Raises:
            QueryRejected: If the question cannot be asked; nothing was charged.
        """
        if isinstance(query, PricedQuery):
            return self._buy(self._prepare_purchase(query, guess, tolerance), strict=strict)
        if isinstance(query, (DerivedQuery, HistogramQuery)) and tolerance is not None:
            raise QueryRejected(
                "a question that is made of several takes no tolerance; expected ask(query) at the planned "
                "half-width; nothing was charged"
            )
        if isinstance(query, HistogramQuery):
            return self._shares(query, guess=guess, strict=strict)
        if isinstance(query, DerivedQuery):
            answer = self._ask_derived(query, guess)
        else:
            answer = self._ask_prepared(self._preparation.prepare([query], [guess], tolerance=tolerance))[0]
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
        return self._ask_prepared(self._preparation.prepare(queries, guesses))

    def _ask_prepared(self, prepared: Sequence[Prepared]) -> list[Answer]:
        committed = self._commit(prepared)
        remaining = self._mechanism.remaining(self._state_from(committed[-1].state_after)) if committed else {}
        statement = self.promise.statement
        return [
            answer_from(question.bound, entry, self._mechanism, remaining=remaining, statement=statement)
            for question, entry in zip(prepared, committed, strict=True)
        ]

    def _commit(self, prepared: Sequence[Prepared], *, together: bool = False) -> list[Committed]:
        """Answer in one transaction; ``together`` raises `BudgetEndsBetween` unless all are sure to be answered."""
        bound = [question.bound for question in prepared]
        evaluations = Evaluations(
            totals=self._sealed.totals(bound, parts=self._mechanism.parts, unit=self._mechanism.unit),
            guesses=np.array([question.guess for question in prepared], dtype=np.int64),
            rows=self._schema.rows,
            unit=self._mechanism.unit,
            tolerances=_tolerances(prepared),
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

    def choose(
        self,
        candidates: Sequence[Query | str],
        *,
        best: Literal["lowest", "highest"] = "lowest",
        price: int = CREDITS,
    ) -> BestCandidate:
        """Choose the best of several questions on the sealed rows, without telling their values.

        Args:
            candidates: Means in the same units, such as ``[error(model) for model in models]``.
            best: Whether the lowest or the highest mean is best.
            price: Credits that the choice costs; with more of them it comes closer to the best. A mean costs 100.

        Returns:
            The candidate, with a bound on its regret for the population that holds together with all other answers.

        Raises:
            QueryRejected: If the candidates cannot be compared, or the mechanism is not ``"privacy_budget"``; nothing
                was charged.
        """
        paying(self._mechanism)
        return self._buy(choice_of(candidates, self._preparation, best, price))

    def quantile(
        self, text: str, *, quantile: float = 0.5, low: float, high: float, bins: int = 100, price: int = CREDITS
    ) -> QuantileAnswer:
        """Find a quantile of a number on the sealed rows, to the width of a bin.

        Args:
            text: A column or an expression that is a number; missing values count as above every bin.
            quantile: Which one, in [0, 1]; 0.5 is the median.
            low: Where the bins begin; must not come from the sealed rows. Values below belong to the first bin.
            high: Where they end. Values above, and missing ones, belong to the last bin.
            bins: Number of bins, all equally wide.
            price: Credits that it costs; with more of them it comes closer. A mean costs 100.

        Raises:
            QueryRejected: If it cannot be asked, or the mechanism is not ``"privacy_budget"``; nothing was charged.
        """
        return self._buy(QuantileQuery(text, quantile, low, high, bins, price).purchase(self._preparation))

    def _prepare_purchase(
        self, query: PricedQuery[Result], guess: float | None, tolerance: float | None
    ) -> Purchase[Any, Result]:
        paying(self._mechanism)
        if guess is not None or tolerance is not None:
            raise QueryRejected(
                f"a {type(query).__name__} takes no guess and no tolerance here; expected ask(query), with what "
                "sharpens the answer in the query itself; nothing was charged"
            )
        return query.purchase(self._preparation)

    def _buy(self, purchase: Purchase[Any, Result], *, strict: bool = False) -> Result:
        """One draw of its own, in one transaction with what it costs."""
        mechanism = paying(self._mechanism)
        seen = purchase.look(self._sealed, mechanism.unit)

        def step(data: dict[str, Any], new: list[int]) -> tuple[dict[str, Any], list[Outcome]]:
            state = self._state_from(data)
            if not new:
                return data, []
            drawn = purchase.draw(mechanism, state, seen, _noise(self._record.configuration["seed"], asked=state.asked))
            return bound_state(drawn.state, self._record.configuration), [Outcome(drawn.answer, drawn.charged)]

        asked = [Question(purchase.question, {**purchase.description, "shown": purchase.shown[:_MOST_SHOWN]})]
        entry = self._store.commit(self._record.id, asked, step, seal_key=self._key.seal_key)[0]
        result = purchase.result(
            entry.answer,
            charged=entry.charged,
            remaining=mechanism.remaining(self._state_from(entry.state_after)),
            question=purchase.question,
            repeated=entry.repeated,
            confidence=mechanism.confidence,
        )
        if strict and entry.answer["source"] == "refused":
            raise BudgetExhausted(_REFUSED, **result.to_dict())
        return result

    def _ask_derived(self, query: DerivedQuery, guess: float | None) -> Answer:
        """All parts in one transaction, and the interval that follows from theirs."""
        bound, prepared = self._prepare_derived(query, guess)
        refused = any(part.refused for part in self._known(prepared))
        try:
            committed = [] if refused else self._commit(prepared, together=True)
        except BudgetEndsBetween:
            committed = []
        state = self._state_from(committed[-1].state_after) if committed else self._state()
        refusal = refusal_of(bound.question, self._mechanism, state=state, statement=self.promise.statement)
        return joint_answer(bound, committed, refusal)

    def _prepare_derived(
        self, query: DerivedQuery | HistogramQuery, guess: float | None
    ) -> tuple[BoundDerived, list[Prepared]]:
        bound = query.bind(self._schema)
        if self._mechanism.one_sided:
            raise QueryRejected(
                f"{bound.name} is {bound.counted}, and {self._mechanism.name} bounds some answers from one side only; "
                "expected a single question; choose another mechanism when the rows are sealed; nothing was charged"
            )
        if guess is not None:
            raise QueryRejected(
                f"{bound.name} is {bound.counted} and takes no guess of the whole; ask its parts, which are "
                "query.parts(holdout.schema), with a guess each, and then the whole for nothing; nothing was charged"
            )
        return bound, self._preparation.prepare(bound.parts, None)

    def _known(self, prepared: Sequence[Prepared]) -> list[KnownPart]:
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
        self, state: State, evaluations: Evaluations, prepared: Sequence[Prepared], new: list[int]
    ) -> tuple[dict[str, Any], list[Outcome]]:
        batch = Evaluations(
            totals=evaluations.totals[new],
            guesses=evaluations.guesses[new],
            rows=evaluations.rows,
            unit=evaluations.unit,
            tolerances=None if evaluations.tolerances is None else evaluations.tolerances[new],
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
                    "source": source_name(source, from_training=prepared[index].from_training),
                },
                charged=charged,
            )
            for value, low, high, source, charged, index in columns
        ]
        return bound_state(state, self._record.configuration), outcomes

    def quote(
        self,
        query: Query | DerivedQuery | HistogramQuery | PricedQuery[Any] | str | None = None,
        *,
        guess: float | None = None,
        tolerance: float | None = None,
    ) -> QuotedPrice:
        """The price of a question before it is asked; asks nothing and costs nothing.

        Args:
            query: The question; None for the price of any new one, in units of a mean over [0, 1]. For a histogram the
                half-width is that of its widest bin, for a choice the regret, for a quantile the error of its level.
            guess: As for `ask`.
            tolerance: As for `ask`.

        Raises:
            QueryRejected: If the question could not be asked.
        """
        state = self._state()
        if isinstance(query, PricedQuery):
            return self._quote_purchase(self._prepare_purchase(query, guess, tolerance), state)
        if isinstance(query, (DerivedQuery, HistogramQuery)):
            derived, prepared = self._prepare_derived(query, guess)
            return joint_quote(
                derived, self._known(prepared), mechanism=self._mechanism, state=state,
                together=isinstance(query, DerivedQuery),
            )  # fmt: skip
        price = self._mechanism.quote(state)
        if query is None and tolerance is not None:
            raise QueryRejected(
                "a tolerance needs a question; expected quote(query, tolerance=...); nothing was charged"
            )
        question, scale, before = None, 1.0, False
        if query is not None:
            prepared_one = self._preparation.prepare([query], [guess], tolerance=tolerance)[0]
            bound = prepared_one.bound
            if tolerance is not None:
                price = paying(self._mechanism).quote_at(state, prepared_one.tolerance)
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

    def _quote_purchase(self, purchase: Purchase[Any, Any], state: State) -> QuotedPrice:
        mechanism = paying(self._mechanism)
        price, before = purchase.price(mechanism), self._store.find(self._record.id, purchase.question) is not None
        refused = not (before or mechanism.can_pay(state, price.charged))
        charged = 0 if before or refused else price.charged
        within = None if refused else price.within
        return QuotedPrice(
            purchase.question, within, within, charged, charged, refused, before, mechanism.remaining(state)
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
        entries = list(self._store.entries(self._record.id))
        within = {"within": None} if any("within" in entry.answer for entry in entries) else {}
        return Transcript(
            [
                {
                    "sequence": entry.sequence,
                    "asked_at": entry.asked_at,
                    "question": entry.question,
                    "asked": entry.description["shown"],
                    **within,
                    **entry.answer,
                    "charged": entry.charged,
                }
                for entry in entries
            ]
        )

    def certificate(self) -> Certificate:
        """What is promised, for which rows and why, and what was asked and spent so far; signed by the steward."""
        head = self._store.head(self._record.id)
        entries = self._store.entries(self._record.id, limit=head.sequence)
        sources = Counter(entry.answer["source"] for entry in entries)
        return make_certificate(self._record, mechanism=self._mechanism, head=head, sources=sources, key=self._key)


def _tolerances(prepared: Sequence[Prepared]) -> NDArray[np.float64] | None:
    """What the questions wish for; None where all are content with the planned half-width."""
    wished = np.array([question.tolerance for question in prepared])
    return None if np.all(np.isnan(wished)) else wished


def _noise(seed: int | None, *, asked: int) -> Noise:
    """Secure noise; with a seed, noise that differs from answer to answer and can be repeated."""
    return SecureNoise() if seed is None else SeededNoise(seed * 2**32 + asked + 1)


def _described(bound: BoundQuery) -> dict[str, Any]:
    return {**bound.description, "shown": bound.shown[:_MOST_SHOWN]}


def _check_not_refused(answers: Sequence[Answer], *, strict: bool) -> None:
    for answer in answers:
        if strict and answer.source == "refused":
            raise BudgetExhausted(_REFUSED, **answer.to_dict())
