"""The session: seal rows, ask about them, see what is left, get the certificate."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from everhold.answers import Answer, QuotedPrice, Transcript, Unsealed
from everhold.arguments import brief, names_keywords
from everhold.asking.accounts.budget import on_behalf_of, whole_budget
from everhold.asking.arrivals.grown import GrowingHoldout, check_asked, current
from everhold.asking.query_executor import QueryExecutor, ask_apart
from everhold.asking.terms import USUAL_FIT, USUAL_GATE, FitTerms, GateTerms
from everhold.dependence import DependenceModel
from everhold.display import Facts
from everhold.errors import DependenceError, IntegrityError, QueryRejected
from everhold.extensions import extra_for, required
from everhold.ledger import LedgerStore
from everhold.ledger.allotments import Allotment
from everhold.ledger.arrivals import ARRIVALS
from everhold.ledger.declarations import Declarations
from everhold.ledger.extension import EXTENSIONS
from everhold.ledger.head_file import HeadFile
from everhold.ledger.store import all_entries
from everhold.mechanisms import Mechanism, Promise
from everhold.private_files import make_private
from everhold.progress import progress
from everhold.queries.means.batch import RowwiseQuery
from everhold.queries.query import Query
from everhold.sealing.configuration import (
    ALIKE,
    FAMILIES_GROW,
    check_settings,
    drawn_from_rows,
    mechanism_from,
    recorded_extensions,
    schema_from,
    state_from,
)
from everhold.sealing.keys import KEY_FILE, StewardKey
from everhold.sealing.rows.opening import engine_of, sealed_rows, training_rows
from everhold.sealing.sealed_files import altered_notes
from everhold.sealing.storage import (
    DEFAULT_STORAGE,
    TRAINING_FILE,
    check_name,
    rows_folder,
    storage_url,
)
from everhold.values.base import Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import Self

    from numpy.typing import NDArray

    from everhold.asking.accounts.allotting import Allotments
    from everhold.asking.reports.certificate_answers import Choice
    from everhold.asking.reports.holdout_ledger import HoldoutLedger
    from everhold.certificate import Certificate, Timestamper
    from everhold.diagnosis.diagnosis import Diagnosis
    from everhold.families.base import Family
    from everhold.gates.gate import Gate
    from everhold.ledger import HoldoutRecord
    from everhold.planning.three_ways import ThreeWays
    from everhold.sealing.intake.reading import RowSource
    from everhold.sealing.intake.settings import Planning, Rows
    from everhold.sealing.rows.row_store import SealableTable

Result = TypeVar("Result")

__all__ = ["DEFAULT_STORAGE", "Holdout", "storage_url"]


class Holdout(GrowingHoldout):
    """A sealed holdout that answers adaptive queries; made by `create` and `open`.

    Examples:
        >>> import numpy as np, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> rng = np.random.default_rng(0)
        >>> rows = {"delay": rng.normal(5.0, 30.0, 4000)}
        >>> holdout = Holdout.create(
        ...     f"sqlite:///{folder.name}/study.db", "flights",
        ...     holdout={"delay": rows["delay"][:2000]}, training={"delay": rows["delay"][2000:]},
        ...     queries=100, surprises=2,
        ... )
        >>> answer = holdout.ask("delay > 15")
        >>> answer.source, answer.low < answer.value < answer.high
        ('training', True)
        >>> holdout.close(); folder.cleanup()
    """

    def __init__(
        self, store: LedgerStore, record: HoldoutRecord, folder: Path, engine: SealableTable | None = None, *,
        checked: bool = False,
    ) -> None:  # fmt: skip
        """Open the sealed rows of a record whose settings were checked; use `create` or `open` instead."""
        configuration = record.configuration
        for path in (folder.parent, folder, *(file for file in folder.glob("*") if file.name != KEY_FILE)):
            make_private(path)
        key = StewardKey.load(folder / KEY_FILE, public_key=configuration["public_key"])
        for altered in altered_notes(folder, key=key.notes_key):
            raise IntegrityError(altered)
        head_file = HeadFile.of(folder, holdout=record.id, seal_key=key.seal_key)
        ledger = store.of(record, key.seal_key, head_file)
        state_from(ledger.head().state, configuration)
        self._folder = folder
        self._recorded = recorded_extensions(configuration)
        self._engine = engine_of(configuration, key, given=engine, checked=checked)
        self._executor = QueryExecutor(
            store=store, record=record, mechanism=mechanism_from(configuration), schema=schema_from(configuration),
            key=key, ledger=ledger, sealed=sealed_rows(folder, configuration, key, self._engine),
            training=training_rows(folder, configuration, self._engine),
        )  # fmt: skip
        if (kept := self._executor.ledger.head().state.keys()) & {Declarations.key, ARRIVALS}:
            if Declarations.key in kept:
                self._know_families()
            self._see_arrivals()
        self._in_charge()

    @classmethod
    def create(
        cls,
        storage: str | Path = DEFAULT_STORAGE,
        name: str = "holdout",
        *,
        holdout: RowSource | SealableTable,
        training: RowSource | SealableTable | None = None,
        label: str | None = None,
        rows: Rows | None = None,
        mechanism: Mechanism | str | None = None,
        queries: int = 1_000,
        surprises: int | None = None,
        confidence: float = 0.95,
        planning: Planning | None = None,
        dependence: DependenceModel | None = None,
        allow_resealing: bool = False,
        seed: int | None = None,
        declared: Mapping[str, Family] | Sequence[Family] | None = None,
        share: float | None = None,
        **extensions: Any,
    ) -> Self:
        """Seal rows and record the promise.

        Args:
            storage: URL of the database, such as ``"sqlite:///study.db"`` or
                ``"postgresql://user@host/study?rows=/srv/rows"``, or a path to an SQLite file. The sealed rows stay in
                files: beside an SQLite file, or in the folder that ``rows`` or the variable ``EVERHOLD_ROWS`` names.
            name: Name of the holdout, unique in that database.
            holdout: The rows to seal: a path to a Parquet or CSV file, a pandas or Polars frame, an Arrow table, or a
                mapping from names to NumPy arrays. Or a table that stays in its engine, such as
                ``everhold_engines.Spark(session, "table")``: nothing but what checks need is read from it, and the
                engine's administrators can read the rows.
            training: Open rows of the same columns; they make the guesses that the holdout confirms. Or another table
                of the engine that has the sealed rows: whatever the engine can count it counts in all of its rows, and
                about 100,000 of them are copied for what needs rows here, such as estimators.
            label: Column that holds the truth, for `accuracy`, `error` and `brier`.
            rows: What else is declared of the rows, such as ``eh.Rows(row_id="flight", features="public")``.
            mechanism: A mechanism, or the name of one to be tuned; by default the one whose answers are expected to be
                the narrowest (`Mechanism.expected_radius`), among those that need no rows of one law.
            queries: Number of adaptive queries to plan for.
            surprises: Number of answers that may come from the holdout, for mechanisms that check guesses; by default
                10, or one for each query if there are fewer.
            confidence: Probability with which all intervals hold together.
            planning: What else is planned, such as ``eh.Planning(slack=0.5, allow_vacuous=True)``.
            dependence: How the sealed rows depend on each other; `Independent` by default.
            allow_resealing: Seal rows even if they are already sealed in this storage. Neither budget accounts for the
                other: the promise then holds only for queries that were chosen without any answer from the other
                holdout, and certificates say so.
            seed: For simulations only: noise that can be predicted. The certificate then says so.
            declared: Families of queries, such as ``[eh.texts(), eh.subgroups(["carrier"], of="delay > 15")]``, with or
                without names. Their members are answered from the sealed rows, for nothing, for ever, at a width that
                is known beforehand; see `declare` for those that come later.
            share: Part of the probability of failure that declared families have, 0.5 by default; all other queries
                have the rest. With 0.99 a holdout is for declared queries alone, and needs no training rows. Without
                declared families it is refused.
            extensions: Settings of extensions that are installed, each under its name, such as
                ``competition=eh.Competition(feedback="leader", teams=50)``.

        Raises:
            HoldoutRejected: If the rows or settings cannot be sealed, or the rows are sealed already. Nothing was
                created.
            DependenceError: If the dependence does not match the rows. Nothing was created.
            Unavailable: If an engine cannot be reached. Nothing was created.
            ValueError: If the settings contradict each other. Nothing was created.
            TypeError: If there is no such keyword or extension. Nothing was created.

        Warns:
            DependenceWarning: If the training rows are worth less than is declared, in any column (see `diagnose`), or
                stay in an engine and nothing is declared. Or if a split was stratified by a column, or put whole groups
                of a column on one side, and that is not declared.
        """
        from everhold.asking.creation import Creation, StudyRequest
        from everhold.sealing.intake.request import SealRequest
        from everhold.sealing.intake.settings import Planning, Rows
        from everhold.sealing.rows.row_store import is_table

        if extensions:
            from everhold.asking.create_settings import extension_settings

            extensions = extension_settings(extensions)
        check_name(name)
        request = SealRequest(
            holdout=holdout, training=training, label=label, rows=rows or Rows(), seed=seed, extensions=extensions
        )
        study = StudyRequest(
            mechanism=mechanism, queries=queries, surprises=surprises, confidence=confidence, dependence=dependence,
            planning=planning or Planning(),
        )  # fmt: skip
        creation = Creation(request, study, declared=declared, share=share)
        store, record, folder = creation.record(storage, name, allow_resealing=bool(allow_resealing))
        created = cls(store, record, folder, holdout if is_table(holdout) else None, checked=True)
        creation.finish(created._executor, folder)
        if creation.families:
            created._know_families()
        return created

    @classmethod
    def open(
        cls, storage: str | Path = DEFAULT_STORAGE, name: str = "holdout", *, recover: bool = False,
        engine: SealableTable | None = None,
    ) -> Self:  # fmt: skip
        """Open a sealed holdout and check that its rows are the ones that were sealed.

        Args:
            storage: As for `create`.
            name: Name of the holdout.
            recover: Continue with a database that was set back to an older copy, and count what it lost as spent; if
                the file of the newest head is lost, too, all that is left. If there is a backup, restore the newest one
                instead: then nothing is lost. The certificate shows a recovery. Allotments are taken back: allot them
                anew. A ladder that lost a new best cannot continue, nor can guess-and-check without that file.
            engine: Where the sealed rows are, if they stay in an engine to which a session has to be handed in;
                otherwise it is found by what the ledger says of it and the variable ``EVERHOLD_ENGINE``.

        Raises:
            HoldoutNotFound: If there is none of that name.
            IntegrityError: If a byte of the sealed rows has changed, or the ledger was altered or set back, or cannot
                be recovered. Nothing was changed.
            AuthError: If the steward's key is missing or wrong.
            Unavailable: If the engine cannot be reached.
            ValueError: If the engine is of another kind than the one that was sealed.
        """
        url = storage_url(storage)
        store = LedgerStore.open(url, create=False)
        try:
            record = store.record(name if isinstance(name, str) and name.isascii() else brief(name))
            check_settings(record.configuration)
            folder = rows_folder(url) / record.configuration["folder"]
            if recover:
                from everhold.asking.accounts.recovery import recover_ledger

                recover_ledger(store, record, folder)
            return cls(store, record, folder, engine)
        except BaseException:
            store.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        executor = self._executor
        asking = "" if executor.analyst is None else f", analyst={executor.analyst!r}"
        name, rows, mechanism = executor.record.name, executor.schema.rows, executor.mechanism.name
        return f"Holdout({name!r}, rows={rows}, mechanism={mechanism!r}{asking})"

    def _repr_html_(self) -> str:
        """The holdout at a glance: its promise, what is left, and the latest answers."""
        from everhold.asking.reports.session_facts import glance_at

        return glance_at(self, self.promised)

    def __copy__(self) -> Self:
        view = object.__new__(type(self))
        vars(view).update(vars(self))
        return view

    def __deepcopy__(self, _: object) -> Self:
        return self  # a handle: a copy asks the same ledger

    def __reduce__(self) -> tuple[Callable[..., Holdout], tuple[type[Holdout], str, str, str | None]]:
        return _opened, (type(self), self._executor.store.url, self._executor.record.name, self._executor.analyst)

    def close(self) -> None:
        """Close the database and the engine."""
        self._executor.close()

    @property
    def schema(self) -> Schema:
        """Public facts about the rows: their number and their columns."""
        return self._executor.schema

    def columns(self) -> list[dict[str, str | None]]:
        """Name and kind of each column as it was read, and an example from the training rows; None without one."""
        training = self._executor.compiler.training
        examples = {} if training is None else training.examples()
        return [
            {"column": name, "kind": kind.value, "example": examples.get(name)}
            for name, kind in self.schema.columns.items()
        ]

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism that answers, with its parameters."""
        return self._executor.mechanism

    @property
    def promise(self) -> Promise:
        """The promise that all answers keep together, with the half-width that answers are expected to have."""
        from everhold.planning.request import USUAL_VALUE

        alike = self._executor.record.configuration.get(ALIKE)
        return replace(self._executor.promise, expected=self.mechanism.expected_radius(USUAL_VALUE, alike))

    @property
    def ways(self) -> ThreeWays | None:
        """The three ways to ask with their widths for this holdout; None where the mechanism rests on noise."""
        from everhold.planning.three_ways import three_ways

        return three_ways(self.mechanism, alike=self._executor.record.configuration.get(ALIKE))

    @property
    def promised(self) -> str:
        """The promise in one sentence, as the certificate begins with it."""
        from everhold.certificate import promise_in_words

        return promise_in_words(self._executor.record, self._first.mechanism)

    @property
    def remaining(self) -> dict[str, int]:
        """Remaining budget, by name; for an analyst, that of the allotment."""
        return self._remaining()

    @property
    def planned(self) -> dict[str, int]:
        """Initial budget, by name as in `remaining`; for an analyst, the allotment."""
        return whole_budget(self._executor, self._executor.ledger.head().state)

    def allot(self, analyst: str, *, queries: int, charges: int | None = None) -> Allotment:
        """Let a named analyst spend a part of the budget, and no more; an act of the steward, kept in the ledger.

        The limits replace earlier ones of the same analyst. They may add up to more than there is (with a warning):
        then it is first come, first served. All answers stay in one transcript under one promise.

        Args:
            analyst: 1 to 100 printable characters. A name says who is meant; it proves nothing about who asks.
            queries: Most new queries that may be answered on behalf of the analyst.
            charges: Most that they may be charged, in the mechanism's units: credits of a ``"privacy_budget"``,
                surprises where guesses are checked, otherwise answers. By default what that many queries can cost.

        Raises:
            QueryRejected: If more was spent already, the name looks like another one, or the study was unsealed.
                Nothing was changed.
            ValueError: If the name or a limit cannot be used. Nothing was changed.
        """
        from everhold.asking.accounts.allotting import allot

        return allot(self._executor, analyst, queries=queries, charges=charges)

    def analyst(self, name: str) -> Self:
        """The same holdout on behalf of an analyst, who can spend no more than their allotment.

        A query that could cost more than what is left of the allotment is refused before the sealed rows are looked
        at, costs nothing and is not recorded. Whatever anybody has asked before is free.

        Raises:
            QueryRejected: If there is no allotment of that name.
        """
        view = copy.copy(self)
        view._executor = on_behalf_of(self._executor, name)
        return view

    @current
    @names_keywords(GateTerms, USUAL_GATE)
    def gate(
        self, metric: Any = None, *, champion: Any = None, name: str = "gate", **terms: Unpack[GateTerms]
    ) -> Gate:  # fmt: skip
        """A champion that gives way only to challengers that are proved to be better: keep or revert.

        Every promotion is proved, all of them at once, however many challengers failed in between and however they were
        chosen. A promotion costs a surprise; a challenger that is not promoted costs nothing but one of the planned
        queries, and *kept* promises nothing. All processes that open the same gate share its champion.

        Args:
            metric: What is compared: a metric that gates compare by, such as ``"accuracy"``,
                ``"roc_auc"`` or ``"f1_macro"``; or a function from a candidate to a query, as ``lambda model:
                eh.risk(model, "log", high=5)`` or ``lambda model: eh.metric("r2", model, low=0, high=60)``. May be left
                out for a gate that is there already.
            champion: The model to beat: a fitted estimator, a rule over the features, or predictions as the metric
                takes them. Needed the first time; later, the same one again opens the same gate, or None.
            name: Of the gate; a holdout may have several, and all share its budget.
            **terms: ``margin``: a challenger has to be better by more than this, in the metric's units; 0 by default.
                ``challenges``, the most that this gate answers; by default there is no limit but the room for
                surprises: as `ask` does, a gate goes on beyond the planned ``queries``, with proof, and `Gate.status`
                says what it can see. ``training``: the champion's predictions for the training rows, where it is no
                estimator.

                ``better`` makes a gate about cases, whose challengers report results: the metric that has to be better
                than the champion's by more than ``margin``. It is a column, ``"a - b"``, or a ratio of means
                ``"a / b"``. Or ``any_of``: metrics of which any one has to be better; they share the level. With one
                of them ``not_worse`` (slacks of guards, which share no level), ``baseline`` (results that guards are
                held against; those of the first champion by default), ``at_most`` and ``at_least`` (guards against
                numbers, also of ratios such as ``"cost / passed"``), ``units`` (``"cases"`` for new cases, ``"runs"``
                for new runs of these cases),
                ``ranges`` (low and high of each column; 0 and 1 by default) and ``lower`` (metrics of which less is
                better; by default those of `everhold.gates.cases.metrics.LOWER`).

        Raises:
            QueryRejected: If there can be no such gate, or the one of that name is another one. Nothing was changed.
            ValueError: If the name or the limit cannot be used.
        """
        self._check_queries()
        found: Gate = self.gates.named(name, metric, champion=champion, **terms)
        return found

    def allotments(self) -> Allotments:
        """Allotments of analysts, their spending, and the acts by which the steward set them."""
        from everhold.asking.accounts.allotting import allotments_of

        return allotments_of(self._executor)

    @overload
    def ask(
        self, query: str, *, guess: float | None = None, tolerance: float | None = None, strict: bool = False,
        silent: bool = False, as_of: int | None = None,
    ) -> Answer: ...  # fmt: skip
    @overload
    def ask(
        self, query: Query[Result], *, guess: float | None = None, tolerance: float | None = None,
        strict: bool = False, silent: bool = False, as_of: int | None = None,
    ) -> Result: ...  # fmt: skip
    @current
    def ask(
        self, query: Query[Any] | str, *, guess: float | None = None, tolerance: float | None = None,
        strict: bool = False, silent: bool = False, as_of: int | None = None,
    ) -> Any:  # fmt: skip
        """Ask one query of any kind.

        Args:
            query: Such as ``accuracy(model)``, ``mean("delay", low=0, high=60)`` or ``variance(...)``; a text is a
                `mean`. A `histogram` is one query for each bin and has one answer for each. What has a price of its
                own, such as ``choose([...])`` or ``quantile(...)``, needs the mechanism ``"privacy_budget"``.
            guess: The analyst's own guess, in the query's units, in place of the training estimate.
            tolerance: Half-width requested, in the query's units; sharper answers cost more credits. Only with the
                mechanism ``"privacy_budget"`` and for queries that are not made of several.
            strict: Raise `BudgetExhausted` instead of returning a refused answer.
            silent: Only register the query: nothing is told of it before `unseal`. It counts as asked and costs
                nothing else. Asked again, openly or silently, it is the same silent entry; members of declared families
                are told openly, for nothing. Only with a mechanism that can be unsealed, such as ``"guess_and_check"``.
            as_of: Number of an arrival: the stored answer about the rows that had come with it, which is free. 0 for
                the rows of the holdout's creation.

        Returns:
            The answer, committed to the ledger before it is returned. A repeated query returns the stored answer,
            free of charge. A query that is made of several is asked as a whole or not at all: if the budget might
            run out between its parts, it is refused and nothing is charged.

        Raises:
            QueryRejected: If the query cannot be asked; nothing was charged.

        Warns:
            DependenceWarning: If its values on the training rows are worth fewer rows than is declared; nothing was
                charged yet.
        """
        self._check_queries()
        executor = self._executor
        if as_of is not None or executor.growth is not None:
            executor = self._asked_of(as_of)
        compiler = executor.compiler.silently() if silent else executor.compiler
        plan = compiler.compile(query, guess, tolerance)
        if as_of is not None:
            check_asked(executor.ledger, plan)
        return executor.ask(plan, strict=strict)

    def declare(self, name: str, family: Family) -> None:
        """Declare a family of queries: from now on the sealed rows answer its members for nothing, and for ever.

        A family that is declared with the holdout (``Holdout.create(declared=...)``) has narrower answers. One that is
        declared later takes one query of the budget, and its members share the level of that one. Nothing about a
        member may follow from sealed rows but through answers that were told before.

        Args:
            name: Of the family, unique in the holdout.
            family: Such as ``eh.listed(["delay > 15", "delay > 60"])``, ``eh.subgroups(["carrier"], of="delay > 15")``
                or ``eh.texts(40)``.

        Raises:
            QueryRejected: If it cannot be declared. Nothing was changed.
            BudgetExhausted: If no place is left at which it could say anything. Nothing was changed.
        """
        from everhold.asking.declared import declare

        self._check_queries()
        if FAMILIES_GROW not in self._executor.record.configuration:
            self._check_static("declaring a family")
        declare(self._executor, name, family)
        self._know_families()

    def _know_families(self) -> None:
        from everhold.asking.declared import FamilyLevels

        self._executor = replace(self._executor, level_of=FamilyLevels(self._executor.schema))

    def declare_all(self, families: Mapping[str, Family]) -> None:
        """Declare several families, all of which are checked before the first one takes its place.

        Args:
            families: By name.

        Raises:
            QueryRejected: If one of them cannot be declared. Nothing was changed.
            BudgetExhausted: If no place is left for one of them; those before it are declared.
        """
        self.declared.check(families)
        for name, family in families.items():
            self.declare(name, family)

    @names_keywords(FitTerms, USUAL_FIT)
    def evaluate(
        self, estimator: Any, metric: Any = "accuracy", *, by: Sequence[str] | None = None, **terms: Unpack[FitTerms]
    ) -> Any:  # fmt: skip
        """Fit an estimator on the training rows and ask how good it is; cross-validation makes the guess.

        Args:
            estimator: Of scikit-learn, or what looks like one. It is fitted in place on all training rows; clones of it
                are fitted on parts of them.
            metric: A name that `everhold.metric` takes, such as ``"accuracy"``, ``"roc_auc"`` or ``"neg_log_loss"``,
                or a function from a model to a query about its predictions, such as
                ``functools.partial(eh.risk, loss="absolute", high=60)``.
            by: Columns, such as ``["region", "age_band"]``: the metric in each slice that the training rows show. All
                slices are one step, so each has the width of the first one; AUCs are asked one after the other.
            **terms: ``cv``, a number of folds (5 by default), or a splitter of scikit-learn. A number keeps groups
                together where the dependence names their column, and classes in proportion. ``features``: columns to
                fit on, by default those of `training_rows`. ``where``: a condition, such as ``"region = 'N'"``, for
                the metric among the rows that meet it. ``guess``: the analyst's own, in place of that of
                cross-validation. It is needed where no training row counts, as in an AUC of a slice that has one class
                there. With ``by`` it is for such slices alone. ``strict`` and ``silent``: as for `ask`.

        Returns:
            The answer to one query; with ``by`` one answer for each slice, `SliceAnswers`. The same estimator fitted
            to the same model again is a repeated query.

        Raises:
            QueryRejected: If there are no training rows or labels, or the metric cannot be asked; nothing was charged.
        """
        from everhold.asking.model_scores import evaluate

        return evaluate(self, estimator, metric, by=by, **terms)

    @names_keywords(FitTerms, USUAL_FIT)
    def compare(self, first: Any, second: Any, metric: Any = "accuracy", **terms: Unpack[FitTerms]) -> Any:
        """Ask how much better or larger the score of one model is than that of another, row by row: one query.

        Of two arrays it is about labels drawn anew on these rows, and only rows on which they differ are bet on.

        Args:
            first: An estimator, which is fitted in place on the training rows, as in `evaluate`; a rule; or predictions
                for the sealed rows: an array, a table with row ids, or such a query as
                ``eh.accuracy(predictions, training=...)``.
            second: The same.
            metric: As for `evaluate`; one by which two models are compared, or a loss with its range.
            **terms: ``cv``, ``features``, ``strict`` and ``silent``: as for `evaluate`. ``where``, too; a loss with its
                range then takes its guess from training rows alone. ``guess``: the analyst's own guess of the
                difference; needed for predictions without ``training=``, such as 0.

        Returns:
            The answer: the first score minus the second one.

        Raises:
            QueryRejected: If they cannot be compared; nothing was charged.
        """
        from everhold.asking.model_scores import compare

        return compare(self, (first, second), metric, **terms)

    def training_rows(self, features: Sequence[str] | None = None) -> tuple[Any, NDArray[Any]]:
        """The training rows as estimators take them, in the types in which they will meet the sealed rows.

        Of a table that stays in an engine these are the ones that were copied.

        Args:
            features: Columns; by default all but the label, the row ids and what names groups of rows.

        Returns:
            A pandas data frame of features, and an array of labels: ``model.fit(*holdout.training_rows())``.

        Raises:
            QueryRejected: If there are no training rows, no labels, or no such column.
        """
        from everhold.queries.metrics.models import open_rows

        return open_rows(self._executor.compiler, features)

    @current
    def ask_many(
        self, queries: Sequence[RowwiseQuery | str], *, guesses: Sequence[float | None] | None = None,
        silent: bool = False, reveal: Literal["checked", "all"] = "checked",
    ) -> list[Answer]:  # fmt: skip
        """Ask queries that do not depend on each other's answers, in order for as long as the budget pays.

        Usually it is one transaction. If the process is interrupted, whatever was answered is free when asked again.

        Args:
            queries: As for `ask`, without those that are made of several or have a price of their own.
            guesses: One guess or None for each query.
            silent: As for `ask`.
            reveal: With ``"all"`` everything is told: intervals are as narrow as those of surprises, and nothing is
                charged, but later queries have wider ones, because they pay for what was told.

        Raises:
            QueryRejected: If one of them cannot be asked; then none is, and nothing was charged.
        """
        if reveal not in ("checked", "all") or (silent and reveal == "all"):
            raise QueryRejected(
                f"reveal is {brief(reveal)}; expected 'checked', or 'all' for queries that are not silent; nothing was "
                "charged"
            )
        self._check_queries()
        with progress("asking"):
            executor = self._asked_of(None)
            compiler = executor.compiler.silently() if silent else executor.compiler
            return ask_apart(executor, compiler.batch(queries, guesses, full_release=reveal == "all"))

    def __getattr__(self, name: str) -> Any:
        """The accessor of an extension."""
        if not name.startswith("_"):
            from everhold.asking.accessor import accessor_named

            if (accessor := accessor_named(name)) is not None:
                return accessor(self._executor, self._folder, self._recorded.get(name))
            if (extra := extra_for(EXTENSIONS.group, name)) is not None:
                raise AttributeError(f"holdout.{name} is not installed. Run: pip install 'everhold[{extra}]'.")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def ledger(self) -> HoldoutLedger:
        """Facts of the ledger beside answers: events, units of answers, names of models."""
        from everhold.asking.reports.holdout_ledger import HoldoutLedger

        return HoldoutLedger(self._executor, self._model_names)

    def unseal(self) -> Unsealed:
        """End the study: tell every sealed number, exactly and at no cost, and answer no new query ever after.

        Each query that was asked, also silently, has the mean over the sealed rows, and an interval that holds for
        the population together with all others. That is safe only because the same transaction closes the ledger.
        Whatever was asked before stays free. Unsealing again tells the same.

        Other holdouts lose their promise that share rows with this one, or hold the next block of the same series
        without an embargo (`affected_holdouts`). So does any earlier copy of database and folder.

        Raises:
            QueryRejected: If the mechanism rests on noise, nothing was asked, or an analyst asks for it. Nothing was
                told or changed.
            IntegrityError: If the ledger is not what was written. Nothing was told or changed.

        Warns:
            EverholdWarning: If other holdouts of this storage lose their promise; before anything is told.
        """
        from everhold.asking.accounts.unsealing import unseal

        def before() -> None:
            for accessor in self._in_charge():
                accessor.before_unsealing()

        with progress("unsealing"):
            return unseal(self._executor, before=before)

    def affected_holdouts(self) -> list[str]:
        """List the holdouts of this storage whose guarantee ends if this one is unsealed, in sentences.

        Raises:
            QueryRejected: If this one cannot be unsealed.
        """
        from everhold.asking.accounts.unsealing import affected_holdouts

        return affected_holdouts(self._executor)

    @current
    def quote(
        self, query: Query[Any] | str | None = None, *, guess: float | None = None, tolerance: float | None = None
    ) -> QuotedPrice:
        """The price of a query before it is asked; nothing is asked, and it is free.

        Args:
            query: None for the price of any new one, in units of a mean over [0, 1]. The half-width of a histogram
                is that of its widest bin, of a choice the regret, of a quantile the error of its level, of a scan how
                far a verdict may be wrong, of a table its worst error, of a gradient that of its length.
            guess: As for `ask`.
            tolerance: As for `ask`.

        Raises:
            QueryRejected: If the query could not be asked.
        """
        if query is None and tolerance is not None:
            raise QueryRejected("a tolerance needs a query; expected quote(query, tolerance=...); nothing was charged")
        if query is not None:
            self._check_queries()
        from everhold.asking.quoting import quoted_price

        executor = self._asked_of(None)
        plan = None if query is None else executor.compiler.compile(query, guess, tolerance)
        return quoted_price(executor, plan)

    @current
    def status(self) -> Facts:
        """The holdout in public facts: rows, mechanism, promise, what was asked, what is left, the ledger's head."""
        from everhold.asking.reports.session_facts import status_of

        head = self._executor.ledger.head()
        if self._executor.level_of is None and Declarations.key in head.state:  # by another process
            self._know_families()
        return status_of(self, head, self.promise)

    @current
    def _remaining(self) -> dict[str, int]:
        executor = self._asked_of(None)
        return executor.remaining(executor.ledger.head().state)

    def diagnose(self) -> Diagnosis:
        """True if the rows depend on each other, judged by the training rows alone; nothing is asked, and it is free.

        Raises:
            DependenceError: If there are no training rows.
        """
        from everhold.diagnosis.diagnosis import diagnose_file

        if self._executor.training is None:
            raise DependenceError(
                "there are no training rows to look at, and the sealed ones are not looked at; expected a holdout "
                "that was created with training=...; judge the dependence by how the rows were collected"
            )
        return diagnose_file(
            self._folder / TRAINING_FILE, label=self.schema.label, mechanism=self.mechanism,
            drawn_from=drawn_from_rows(self._executor.record.configuration),
        )  # fmt: skip

    def transcript(self) -> Transcript:
        """All queries and answers in order, with the numbers that `ask` returned, in each query's own units.

        On behalf of an analyst it holds the analyst's new entries only.

        Examples:
            >>> import tempfile, numpy as np, everhold as eh
            >>> folder, rng = tempfile.TemporaryDirectory(), np.random.default_rng(3)
            >>> half = lambda: {"late": rng.uniform(0.0, 60.0, 2_000)}
            >>> storage = f"sqlite:///{folder.name}/s.db"
            >>> holdout = Holdout.create(storage, "s", holdout=half(), training=half(), queries=10)
            >>> answer = holdout.ask(eh.mean("late", low=0, high=60))
            >>> holdout.transcript().rows[0]["value"] == answer.value
            True
            >>> holdout.close(); folder.cleanup()
        """
        from everhold.asking.reports.session_facts import transcript_of

        return transcript_of(self, all_entries(self._executor.ledger))

    def spent(self, *, delta: float = 1e-6) -> Any:
        """Privacy loss of any one sealed row by the answers so far, as differential privacy; free of charge.

        Args:
            delta: In (0, 1).

        Raises:
            ValueError: If delta is outside (0, 1).
        """
        head = self._executor.ledger.head()
        entries = all_entries(self._executor.ledger, head.sequence)
        simulated = self._executor.record.configuration["seed"] is not None
        state = self._executor.state_from(head.state)
        return required("spending")(self.mechanism, state, entries, delta=delta, simulated=simulated)

    def certificate(
        self, answers: Mapping[str, Choice] | Sequence[Choice] | None = None, *, queries: bool = True,
        timestamp: Timestamper | str | None = None,
    ) -> Certificate:  # fmt: skip
        """Signed document of the promise, the rows, the reasons, and all queries and charges so far.

        The whole ledger is checked first. Of one with more than 20,000 entries those are read again that came after the
        latest checkpoint, which this and ``everhold ledger verify`` leave behind; then the certificate says so.

        Args:
            answers: What the first page shows, by the name that it gets there: ``{"model B": answer}``. An answer, the
                query itself (also one that is made of several), or its id in the transcript: ``sequence`` or
                ``query``. All intervals hold at once, so they may be chosen with all answers in hand; the page says
                how many queries there were. By default the last eight that were told, or none without `queries`.
            queries: Whether all queries are listed, with their answers; of more than 2,000 there is no list.
            timestamp: Who states when it was signed: the URL of a time-stamping authority (RFC 3161), or a function
                from a SHA-256 digest to its token, in DER. Needs the extra ``timestamp``. Nobody by default.

        Raises:
            IntegrityError: If the ledger is not what was written, or rows that stay in an engine are not what was
                sealed, or the token is about something else: nothing is signed then.
            QueryRejected: If an answer is not in the ledger, or has no numeric answer.
            ValueError: If a name cannot be used, or the same answer or name is there twice.
            EverholdError: If the authority cannot be reached, or the package is missing.
        """
        from everhold.asking.reports.certifying import certificate_of

        return certificate_of(self, answers, queries=queries, timestamp=timestamp, engine=self._engine)


def _opened(kind: type[Holdout], storage: str, name: str, analyst: str | None) -> Holdout:
    """A holdout that was pickled: nothing but its address and its names travelled."""
    holdout = kind.open(storage, name)
    return holdout if analyst is None else holdout.analyst(analyst)
