"""The session: seal rows, ask about them, see what is left, get the certificate."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, Unpack, cast, overload

from everhold.answers import Answer, QuotedPrice, Transcript, Unsealed
from everhold.arguments import brief, names_keywords, truth
from everhold.asking.query_executor import QueryExecutor
from everhold.asking.session import USUAL_FIT, USUAL_GATE, FitTerms, GateTerms, HoldoutSession
from everhold.dependence import DependenceModel
from everhold.display import Facts
from everhold.errors import DependenceError, HoldoutNotFound, QueryRejected
from everhold.extensions import extra_for, required
from everhold.ledger import LedgerStore
from everhold.ledger.acts import Allotment
from everhold.ledger.extension import EXTENSIONS
from everhold.ledger.store import all_entries
from everhold.mechanisms import Mechanism, Promise
from everhold.operations.accounts import AffectedHoldouts, Allot, Declare, ListAllotments, Unseal
from everhold.operations.arrivals import Append, AskOverTime, By, CompareArrival, Law, Retire
from everhold.operations.asking import Ask, AskMany, QuoteQuery
from everhold.operations.reports import Certify, ReadPromise, ReadRemaining, ReadStatus, ReadTranscript
from everhold.queries.query import Query
from everhold.remote import is_address, remote_storage
from everhold.sealing.configuration import ALIKE, DEALT, check_settings, drawn_from_rows
from everhold.sealing.storage import DEFAULT_STORAGE, TRAINING_FILE, check_name, rows_folder, storage_url
from everhold.studies import DealtTransport, dealt_parts, parts_for_studies, study_in
from everhold.values.base import Schema
from everhold.values.tracked_models import NamedModel, tracked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from everhold.asking.allotting import Allotments
    from everhold.asking.arrivals.appending import Arrived
    from everhold.asking.arrivals.over_time import Drift, OverTime
    from everhold.asking.reports.certifying import Choice
    from everhold.asking.reports.holdout_ledger import HoldoutLedger
    from everhold.certificate import Certificate, Timestamper
    from everhold.diagnosis.diagnosis import Diagnosis
    from everhold.families.base import Family
    from everhold.gates.gate import Gate
    from everhold.operations.operation import HoldoutOperation, Transport
    from everhold.planning.choice import ThreeWays
    from everhold.sealing.intake.reading import RowSource
    from everhold.sealing.intake.request import Planning, Rows
    from everhold.sealing.rows.row_store import SealableTable

Result = TypeVar("Result")

__all__ = ["DEFAULT_STORAGE", "Holdout", "storage_url"]


class Holdout:
    """A sealed holdout that answers adaptive queries. Made by `create` and `open`, or by `everhold.connect`.

    Each method builds an operation (`everhold.operations`), and the transport performs it, on this machine or in a
    remote service. A remote service refuses methods that need the rows on this machine, such as `evaluate`.

    Args:
        transport: Object that performs operations. `create`, `open` and `everhold.connect` make it.

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

    def __init__(self, transport: Transport) -> None:
        """Use `create`, `open` or `everhold.connect` instead."""
        self._transport = transport

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
        studies: int | None = None,
        exist_ok: bool = False,
        **extensions: Any,
    ) -> Self:
        """Create a holdout: seal rows, and record what is promised of the answers to queries about them.

        Args:
            storage: URL of the database, such as ``"sqlite:///study.db"`` or
                ``"postgresql://user@host/study?rows=/srv/rows"``, or a path to an SQLite file. The sealed rows stay in
                files: beside an SQLite file, or in the folder that ``rows`` or the variable ``EVERHOLD_ROWS`` names.
            name: Name of the holdout, unique in that database.
            holdout: The rows to seal: a path to a Parquet or CSV file, a pandas or Polars frame, which may be lazy, an
                Arrow table, or a mapping from names to NumPy arrays. Or a table that stays in its engine, such as
                ``everhold_engines.Spark(session, "table")``: everhold reads from it only what its checks need, and the
                engine's administrators can read the rows.
            training: Open rows of the same columns; they make the guesses that the holdout confirms. Or another table
                of the engine that has the sealed rows: the engine computes guesses from all of its rows, and about
                100,000 rows are copied for what the engine cannot compute, such as estimators.
            label: Column with which predictions are compared, as by `accuracy`.
            rows: What else is declared of the rows, such as ``eh.Rows(row_id="flight", features="public")``.
            mechanism: Procedure that computes answers, by default the one with the narrowest expected intervals among
                those that do not need identically distributed rows. It is an object, or a name such as ``"gaussian"``,
                whose parameters are then chosen for the study. See `Mechanism.expected_radius`.
            queries: Planned number of adaptive queries.
            surprises: Planned number of surprises, answers whose guess the sealed rows contradict, for mechanisms that
                check guesses; by default 10, or one for each query if there are fewer. An answer whose guess is
                confirmed costs no surprise.
            confidence: Probability with which all intervals hold together.
            planning: What else is planned, such as ``eh.Planning(slack=0.5, allow_vacuous=True)``.
            dependence: How the sealed rows depend on each other; `Independent` by default.
            allow_resealing: Seal rows even if they are sealed in this storage already, although neither budget accounts
                for the other. The promise then holds only for queries that were chosen without any answer from the
                other holdout, and certificates say so.
            seed: Seed of predictable noise, for simulations only. The certificate then says that the noise was
                predictable.
            declared: Families of queries, such as ``[eh.texts(), eh.subgroups(["carrier"], of="delay > 15")]``, with or
                without names. Their queries are answered from the sealed rows at no cost, also after unsealing, with
                widths that are known beforehand. `declare` adds a family later.
            share: Part of the probability of failure that declared families have, 0.5 by default; all other queries
                have the rest. With 0.99 a holdout is for declared queries alone, and needs no training rows. Without
                declared families it is refused.
            studies: Number of studies among which the rows are divided at random, with whole groups: see `study`. Each
                study has the planned queries, surprises and families, and all studies share the probability of failure.
            exist_ok: Open the holdout of that name if it was created with the same rows and settings. So a cell of a
                notebook can run again, with the same ledger and the rest of its budget. The rows and their order, the
                settings and the families have to be the same.
            extensions: Settings of extensions that are installed, each under its name, such as
                ``competition=eh.Competition(feedback="leader", teams=50)``.

        Raises:
            HoldoutRejected: If the rows or settings cannot be sealed, or the rows are sealed already; with ``exist_ok``
                if the holdout of that name was created with others. Nothing was created.
            DependenceError: If the dependence does not match the rows. Nothing was created.
            Unavailable: If an engine cannot be reached. Nothing was created.
            ValueError: If the settings contradict each other. Nothing was created.
            TypeError: If there is no such keyword or extension, or an argument is of another type. Nothing was
                created.

        Warns:
            DependenceWarning: If the training rows are less informative than the declared dependence implies (see
                `diagnose`), or if they stay in an engine and no dependence is declared. Or if a split was stratified by
                a column, or put whole groups of a column on one side, and that is not declared.
        """
        from everhold.asking.creation import Creation, StudyRequest, record_all
        from everhold.sealing.intake.request import Planning, Rows, SealRequest, checked_settings
        from everhold.sealing.rows.row_store import is_table

        if extensions:
            from everhold.asking.creation import extension_settings

            extensions = extension_settings(extensions)
        check_name(name)
        request = SealRequest(
            holdout=holdout, training=training, label=label, rows=checked_settings(Rows, rows), seed=seed,
            extensions=extensions,
        )  # fmt: skip
        study = StudyRequest(
            mechanism=mechanism, queries=queries, surprises=surprises, confidence=confidence, dependence=dependence,
            planning=checked_settings(Planning, planning),
        )  # fmt: skip
        make = partial(Creation, declared=declared, share=share)
        parts = [] if studies is None else parts_for_studies(name, studies, request, study)
        parts += [part for each in extensions.values() for part in each.parts(name, confidence)]
        with suppress(HoldoutNotFound):
            if exist_ok:
                from everhold.asking.creation import check_repeated

                there = cls.open(storage, name)
                try:
                    dealt = bool(parts) or isinstance(there, DealtHoldout)
                    check_repeated(None if dealt else there._session("create"), name, make(request, study))
                except BaseException:
                    there.close()
                    raise
                return there
        if parts:
            from everhold.asking.creation import create_parts

            store, records = create_parts(
                storage,
                name,
                parts,
                request,
                study,
                make=make,
                allow_resealing=truth(allow_resealing, "allow_resealing"),
            )
            if studies is not None:
                return cast("Self", DealtHoldout(DealtTransport(store, name, records)))
            folder = rows_folder(store.url) / records[0].configuration["folder"]
            return cls(HoldoutSession(store, records[0], folder, checked=True))
        creation = make(request, study)
        store, (record,) = record_all(
            storage, [(name, creation)], allow_resealing=truth(allow_resealing, "allow_resealing")
        )  # fmt: skip
        folder = rows_folder(storage_url(storage)) / record.configuration["folder"]
        session = HoldoutSession(store, record, folder, holdout if is_table(holdout) else None, checked=True)
        creation.finish(session.executor, folder)
        if creation.families:
            session.know_families()
        return cls(session)

    @classmethod
    def open(
        cls, storage: str | Path = DEFAULT_STORAGE, name: str = "holdout", *, recover: bool = False,
        engine: SealableTable | None = None,
    ) -> Self:  # fmt: skip
        """Open a sealed holdout and check that its rows are the ones that were sealed.

        Args:
            storage: As for `create`, or the address of a service, such as ``"https://holdout.example"``: see
                `everhold.connect`. Its token is in the environment variable ``EVERHOLD_TOKEN``.
            name: Name of the holdout.
            recover: Whether to continue with a database that was set back to an older copy. Lost answers then count as
                spent. How many were lost is known from the file ``ledger.head`` in the holdout's folder, which says
                what the newest ledger entry is. If that file is lost as well, the whole remaining budget counts as
                spent, and guess-and-check cannot continue. A leaderboard that lost a new best score cannot continue
                either. The certificate shows a recovery. Allotments (parts of the budget for analysts) end, so set them
                again. If there is a backup, restore the newest one instead: then nothing is lost.
            engine: Engine with the sealed rows, if they stay in an engine that needs a session from the caller. By
                default the engine is found by the facts in the ledger and the variable ``EVERHOLD_ENGINE``.

        Raises:
            HoldoutNotFound: If there is no holdout of that name.
            IntegrityError: If a byte of the sealed rows has changed, or the ledger was altered or set back, or cannot
                be recovered. Nothing was changed.
            AuthError: If the steward's key is missing or wrong.
            Unavailable: If the engine cannot be reached.
            ValueError: If the engine is of another kind than the one that was sealed.
        """
        if is_address(storage):
            if recover or engine is not None:
                raise QueryRejected(
                    "recover= and engine= are only for a storage, and a service was passed. Leave both out, or use "
                    "them where the service runs."
                )
            return cast("Self", remote_storage(str(storage)).connect(str(storage), name))
        url = storage_url(storage)
        store = LedgerStore.open(url, create=False)
        try:
            asked = name if isinstance(name, str) and name.isascii() else brief(name)
            try:
                record = store.record(asked)
            except HoldoutNotFound:
                if (dealt := dealt_parts(store, asked)) is None:
                    raise
                return cast("Self", DealtHoldout(dealt))
            check_settings(record.configuration)
            folder = rows_folder(url) / record.configuration["folder"]
            if recover:
                from everhold.asking.unsealing import recover_ledger

                recover_ledger(store, record, folder)
            return cls(HoldoutSession(store, record, folder, engine))
        except BaseException:
            store.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Holdout({self._transport!r})"

    def _repr_html_(self) -> str:
        """Return the holdout at a glance in HTML: its promise, what is left, and the latest answers."""
        from everhold.asking.reports.status import glance_at

        session = self._transport.session
        return self.status()._repr_html_() if session is None else glance_at(session)

    def __deepcopy__(self, _: object) -> Self:
        return self  # a handle: a copy asks the same ledger

    def __reduce__(self) -> tuple[Callable[..., Holdout], tuple[Any, ...]]:
        session = self._transport.session
        if session is None:
            return type(self), (self._transport,)
        executor = session.executor
        return _opened, (type(self), executor.store.url, executor.record.name, executor.analyst)

    def perform(self, operation: HoldoutOperation[Result]) -> Result:
        """Perform an operation of everhold or of an installed distribution, and return its result.

        Args:
            operation: Operation with its arguments.

        Raises:
            QueryRejected: If the operation is for stewards, and this holdout is open on behalf of an analyst. Or if it
                works only where the sealed rows are, and a remote service performs the operations.
        """
        return self._transport.perform(operation)

    def _session(self, what: str) -> HoldoutSession:
        if (session := self._transport.session) is None:
            raise QueryRejected(
                f"{what} cannot be used through a service. Use Holdout.open on the machine that has the sealed rows."
            )
        return session

    @property
    def _executor(self) -> QueryExecutor:
        return self._session("this").executor

    @property
    def _folder(self) -> Path:
        return self._session("this").folder

    def close(self) -> None:
        """Close the database and the engine of the rows, or the connection to the service."""
        self._transport.close()

    @property
    def name(self) -> str:
        """The holdout's name."""
        return self._transport.name

    @property
    def is_served(self) -> bool:
        """Whether a remote service performs the operations, so that the rows are not on this machine."""
        return self._transport.session is None

    @property
    def is_silent(self) -> bool:
        """Whether queries are by default silent (recorded, and answered only after `unseal`), as in a `study`."""
        return self._session("is_silent").silent

    @property
    def schema(self) -> Schema:
        """Public facts about the rows: their number and their columns."""
        return self._transport.schema

    def columns(self) -> list[dict[str, str | None]]:
        """Return name, kind and an example of each column. The example is None if there are no training rows."""
        session = self._transport.session
        training = None if session is None else session.executor.compiler.training
        examples = {} if training is None else training.examples()
        return [
            {"column": name, "kind": kind.value, "example": examples.get(name)}
            for name, kind in self.schema.columns.items()
        ]

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism that answers queries, such as guess and check, with its parameters."""
        return self._session("mechanism").executor.mechanism

    @property
    def promise(self) -> Promise:
        """What is guaranteed of all answers together: numbers, the certificate's sentence, and the initial budget.

        For an analyst the budget is their allotment, the part that the steward lets them spend.
        """
        return self._transport.perform(ReadPromise())

    @property
    def ways(self) -> ThreeWays | None:
        """Widths of intervals for the three ways to ask: declared beforehand, silent until the end, told immediately.

        None if the mechanism adds noise.
        """
        from everhold.planning.choice import three_ways

        executor = self._session("ways").executor
        return three_ways(executor.mechanism, alike=executor.record.configuration.get(ALIKE))

    @property
    def remaining(self) -> dict[str, int]:
        """Remaining budget, such as ``{"queries": 99, "surprises": 2}``; for an analyst the rest of the allotment."""
        return self._transport.perform(ReadRemaining())

    def allot(self, analyst: str, *, queries: int, charges: int | None = None) -> Allotment:
        """Set an allotment: the part of the budget that a named analyst may spend. The ledger records it.

        The limits replace earlier ones of the same analyst. Those of all analysts may add up to more than the budget
        (with a warning): then analysts who ask first are served. All intervals hold together, whoever asked.

        Args:
            analyst: 1 to 100 printable characters. A name says who is meant; it proves nothing about who asks.
            queries: Largest number of new queries that may be answered on behalf of the analyst.
            charges: Largest total that they may be charged, in the mechanism's units: credits of a
                ``"privacy_budget"``, surprises where guesses are checked, otherwise answers. The default is the most
                that this many queries can cost.

        Raises:
            QueryRejected: If more was spent already, the name looks like another one, or the study was unsealed.
                Nothing was changed.
            ValueError: If the name or a limit cannot be used. Nothing was changed.
        """
        return self._transport.perform(Allot(analyst=analyst, queries=queries, charges=charges))

    def analyst(self, name: str) -> Self:
        """Return this holdout on behalf of an analyst, who can spend no more than their allotment (`allot`).

        A query that could cost more than what is left of the allotment is refused before the sealed rows are looked
        at, costs nothing and is not recorded. Whatever anybody has asked before is free.

        Args:
            name: Name of the analyst, as in `allot`.

        Raises:
            QueryRejected: If there is no allotment of that name, or the rows are at a remote service.
        """
        if self.is_served:
            raise QueryRejected(
                "A service knows the analyst by the token. Open the holdout with the token of this analyst."
            )
        return type(self)(self._session("analyst").of_analyst(name))

    @names_keywords(GateTerms, USUAL_GATE)
    def gate(
        self, metric: Any = None, *, champion: Any = None, name: str = "gate", **terms: Unpack[GateTerms]
    ) -> Gate:  # fmt: skip
        """Make a gate, or return the one of that name. It promotes a challenger only if it is proved to be better.

        A promoted challenger replaces the champion, the best version so far. All promotions are proved together,
        however many challengers failed in between and however they were chosen. A promotion costs a surprise (one of
        the planned answers that reveal something new) and a planned query. A challenger that is not promoted costs a
        planned query, and the verdict *kept* says nothing about it. All processes that open the same gate share its
        champion.

        Args:
            metric: What is compared: a metric that gates compare by, such as ``"accuracy"``,
                ``"roc_auc"`` or ``"f1_macro"``; or a function from a candidate to a query, as ``lambda model:
                eh.risk(model, "log", high=5)`` or ``lambda model: eh.metric("r2", model, low=0, high=60)``. May be left
                out for a gate that is there already.
            champion: The model to beat: a fitted estimator, a rule over the features, or predictions as the metric
                takes them. Needed the first time; later, the same one again opens the same gate, or None.
            name: Name of the gate. A holdout may have several gates, which share its budget.
            **terms: ``margin``: a challenger has to be better by more than this, in the metric's units; 0 by default.
                ``challenges``: largest number of challenges that this gate answers; by default it has no such limit. As
                `ask` does, a gate continues beyond the planned ``queries`` and still proves each promotion;
                `Gate.status` gives the least gain that it can prove. ``training``: the champion's predictions for the
                training rows, where it is no estimator.

                ``better`` makes a gate about cases, whose challengers report results: the metric that has to be better
                than the champion's by more than ``margin``. It is a column, ``"a - b"``, or a ratio of means ``"a /
                b"``. Or ``any_of``: metrics of which any one has to be better; they share the probability of failure.
                With one of the two you may pass guards, claims that must hold as well, such as that nothing else became
                worse. ``not_worse``: metrics that may be worse than the baseline's by at most this slack. ``baseline``:
                results with which guards compare; those of the first champion by default. ``at_most`` and ``at_least``:
                bounds of metrics, also of ratios such as ``"cost / passed"``. Guards do not share the probability of
                failure. Also ``units`` (``"cases"`` for new cases, ``"runs"`` for new runs of these cases), ``ranges``
                (low and high of each column; 0 and 1 by default), ``lower`` (metrics of which less is better; by
                default those of `everhold.gates.results.LOWER`) and ``missing``, what happens with a run without a
                result (None or an empty cell), such as a crash: ``"refuse"`` by default; ``"worst"`` counts it as the
                worst value of the range; ``"drop-case"`` does so, too, but leaves out pairs of runs in which both
                versions lack a result.

        Raises:
            QueryRejected: If no such gate can be made, or the gate of that name has other terms. Nothing was changed.
            ValueError: If the name or the limit of challenges cannot be used.
        """
        found: Gate = self._transport.gate(name, metric, champion=champion, **terms)
        return found

    def study(self, name: str) -> Study:
        """Begin a study on its own part of the sealed rows, or go on with the study of that name.

        It needs ``Holdout.create(..., studies=...)``. In its ``with`` block queries are recorded without being
        answered. At the end of the block its part of the rows is unsealed: `Study.result` then has all answers with
        narrow intervals, and the part answers no new query. Other parts stay sealed. All intervals of all studies hold
        together.

        Args:
            name: Name of the study, 1 to 100 printable characters. The first new name takes the first part, the second
                the second part.

        Raises:
            QueryRejected: If this holdout was not created with ``studies=``, or all parts are taken.

        Examples:
            >>> import numpy as np, tempfile
            >>> folder, rng = tempfile.TemporaryDirectory(), np.random.default_rng(0)
            >>> rows = {"delay": rng.normal(5.0, 30.0, 12_000)}
            >>> holdout = Holdout.create(
            ...     f"sqlite:///{folder.name}/study.db", "flights", holdout={"delay": rows["delay"][:8_000]},
            ...     training={"delay": rows["delay"][8_000:]}, queries=100, studies=4,
            ... )
            >>> with holdout.study("spring") as study:
            ...     heard = study.ask("delay > 15")
            >>> told = study.result.rows[0]
            >>> heard.value, told["sealed_low"] < 0.37 < told["sealed_high"]
            (None, True)
            >>> holdout.close(); folder.cleanup()
        """
        raise QueryRejected(
            f"The rows of {self.name!r} were not dealt to studies. Create a holdout with Holdout.create(..., "
            "studies=4)."
        )

    def allotments(self) -> Allotments:
        """Return the allotment of each analyst (their part of the budget), what they spent, and when it was set."""
        return self._transport.perform(ListAllotments())

    @overload
    def ask(
        self, query: str, *, guess: float | None = None, tolerance: float | None = None, strict: bool = False,
        silent: bool = False, as_of: int | None = None, models: Sequence[NamedModel] | None = None,
    ) -> Answer: ...  # fmt: skip
    @overload
    def ask(
        self, query: Query[Result], *, guess: float | None = None, tolerance: float | None = None,
        strict: bool = False, silent: bool = False, as_of: int | None = None,
        models: Sequence[NamedModel] | None = None,
    ) -> Result: ...  # fmt: skip
    def ask(
        self, query: Query[Any] | str, *, guess: float | None = None, tolerance: float | None = None,
        strict: bool = False, silent: bool = False, as_of: int | None = None,
        models: Sequence[NamedModel] | None = None,
    ) -> Any:  # fmt: skip
        """Ask one query of any kind.

        Args:
            query: A query such as ``accuracy(model)``, ``mean("delay", low=0, high=60)`` or ``variance(...)``. A text
                is a `mean`. A `histogram` is one query for each bin and has one answer for each. What is paid in
                credits of a privacy budget, such as ``private_choose([...])`` or ``private_quantile(...)``, needs the
                mechanism ``"privacy_budget"``.
            guess: The analyst's own guess of the answer, in the query's units, in place of the estimate from the
                training rows. If the sealed rows confirm it, the answer is the guess and costs no surprise.
            tolerance: Half-width requested, in the query's units; a smaller half-width costs more credits (units of the
                privacy budget). Only with the mechanism ``"privacy_budget"``, and not for queries that are computed
                from several queries.
            strict: Whether to raise `BudgetExhausted` instead of returning a refused answer.
            silent: Whether to record the query without an answer: nothing is told of it before `unseal`. It takes one
                planned query and no surprise. Asked again, openly or silently, it stays silent. A query of a declared
                family (`declare`) is answered all the same, at no cost. Only with a mechanism that can be unsealed,
                such as ``"guess_and_check"``.
            as_of: Number of an arrival (`append`). The answer is then the stored one about the rows that were there
                after this arrival, which is free. 0 for the rows with which the holdout was created.
            models: The models that the query is about: a name of each, or what a tracker knows of it, such as
                ``[{"name": "churn", "version": "4", "run": run_id}]``. These names are public, and no part of the
                query. Ledger, pages and certificate show them beside a new query.

        Returns:
            The answer, committed to the ledger before it is returned. A repeated query returns the stored answer,
            free of charge. A query that is made of several is asked as a whole or not at all: if the budget might
            run out between its parts, it is refused and nothing is charged.

        Raises:
            QueryRejected: If the query cannot be asked; nothing was charged.

        Warns:
            DependenceWarning: If the query's values on the training rows depend on each other more than is declared;
                nothing was charged yet.
        """
        return self._transport.perform(
            Ask(
                query=query, guess=guess, tolerance=tolerance, strict=strict, silent=silent, as_of=as_of,
                models=None if models is None else tracked(models),
            )
        )  # fmt: skip

    def append(
        self, rows: RowSource | None = None, training: RowSource | None = None, *, until: str | None = None
    ) -> Arrived:
        """Append rows that arrived later. Old answers stay true, and new ones have narrower intervals.

        - What is appended, and when, may depend on all answers so far, and on nothing else about the sealed rows.
        - If labels come late, append rows when their labels are there, all at the same age.
        - The same query after an arrival is a new query.
        - If the call was interrupted, the same call again completes it and returns the same arrival.

        A gate about rows answers no challenge until its champion has values for the new rows (`Gate.complete`), made by
        people who have seen no sealed labels.

        In a holdout that was created with ``planning=eh.Planning(grows=True)`` the budget refills: a new budget for the
        new rows begins if that makes intervals narrower. In any other holdout the budget stays, and intervals only
        become narrower.

        Args:
            rows: Rows to seal, with the columns of the sealed rows; None if only training rows arrive.
            training: Open rows that arrived; guesses are made from all of them.
            until: Time until which these rows had come, such as ``"2026-12-01 06:00"``. It must not be before that of
                an earlier arrival.

        Returns:
            Number of the arrival, number of all rows, and half-widths before and after it.

        Raises:
            HoldoutRejected: If the rows do not fit, are empty or are there already. Nothing was changed.
            QueryRejected: If this holdout cannot grow. Nothing was changed.
            RowsArrived: If a query or an arrival came in the same moment. Nothing was changed.
        """
        return self._transport.perform(Append(rows=rows, training=training, until=until))

    def retire(self, before: int) -> Any:
        """Give up the rows that came before an arrival: they are no longer sealed, but training rows from now on.

        Answers that were given stay true. Later answers are about the rows from that arrival on.

        Args:
            before: Number of an arrival (`append`) at which a new budget for new rows began.

        Returns:
            The rows, as an Arrow table. If the call was interrupted, call it again: rows that are retired already are
            returned, and nothing is changed.

        Raises:
            QueryRejected: If no new budget began at that arrival. Nothing was changed.

        Warns:
            EverholdWarning: If other holdouts of this storage have these rows, too, and lose their promise. It is
                raised before the rows are given up.
        """
        return self._transport.perform(Retire(before=before))

    def over_time(
        self, query: Query[Any] | str, by: By = "arrival", *, law: Law = "windows",
        guess: float | None = None,
    ) -> OverTime:  # fmt: skip
        """Ask one query about each window of time, such as each month of appended rows, to monitor its value.

        Each window is one query, whose answer stays the same when more rows arrive. All intervals hold together, so two
        windows whose intervals do not overlap prove that the population changed.

        Args:
            query: A mean, as a query or as a text.
            by: Windows to ask about. ``"arrival"``: each arrival. A number: that many arrivals together. ``"day"``,
                ``"month"`` or ``"year"``: the arrivals whose ``until`` lies in the same day, month or year.
            law: ``"windows"``: each window may have another population. ``"one"``: you assume that all windows have the
                same population, so that each interval may use the others. Intervals that do not overlap contradict it.
            guess: Your own guess for all windows, in place of the training estimate.

        Raises:
            QueryRejected: If the query cannot be asked, or arrivals have no dates. Nothing was charged.

        Warns:
            EverholdWarning: If ``law`` is ``"one"``, and the answers contradict it.
        """
        return self._transport.perform(AskOverTime(query=query, by=by, law=law, guess=guess))

    def drift(
        self, arrival: int | None = None, *, columns: Sequence[str] | None = None,
        also: Sequence[Query[Any] | str] = (),
    ) -> Drift:  # fmt: skip
        """Compare the rows of an arrival with all earlier rows: the label, the columns, and queries of your own.

        Each comparison is two queries and costs as much as two. A column of numbers is cut at the median of the
        training rows, and one of texts at their most frequent value.

        Args:
            arrival: Number of the arrival. The default is the latest one with sealed rows.
            columns: Columns to compare. The default is the label and at most 19 others.
            also: Additional queries, such as the accuracy of a model.

        Raises:
            QueryRejected: If there is nothing to compare. Nothing was charged.

        Warns:
            EverholdWarning: If the two intervals of a comparison do not overlap: the population changed.
        """
        return self._transport.perform(CompareArrival(arrival=arrival, columns=columns, also=also))

    def declare(self, name: str, family: Family) -> None:
        """Declare a family of queries (its members). From now on the sealed rows answer its members at no cost.

        A family that is declared when the holdout is created (``Holdout.create(declared=...)``) has narrower intervals.
        One that is declared later takes one planned query, and its members share the probability of failure of that
        query. Members must not be chosen from the sealed rows, except through answers that were told before.

        Args:
            name: Name of the family, unique in the holdout.
            family: A family such as ``eh.listed(["delay > 15", "delay > 60"])``, ``eh.subgroups(["carrier"], of="delay
                > 15")`` or ``eh.texts(40)``.

        Raises:
            QueryRejected: If the family cannot be declared. Nothing was changed.
            BudgetExhausted: If so many queries were asked that intervals of the family would be useless. Nothing was
                changed.
        """
        self.declare_all({name: family})

    def declare_all(self, families: Mapping[str, Family]) -> None:
        """Declare several families of queries. All of them are checked before the first one is recorded.

        Args:
            families: The families by name.

        Raises:
            QueryRejected: If one of them cannot be declared. Nothing was changed.
            BudgetExhausted: If the budget does not cover one of them. The families before it are declared.
        """
        self._transport.perform(Declare(families=families))

    @names_keywords(FitTerms, USUAL_FIT)
    def evaluate(
        self, estimator: Any, metric: Any = "accuracy", *, by: Sequence[str] | None = None, **terms: Unpack[FitTerms]
    ) -> Any:  # fmt: skip
        """Fit an estimator on the training rows and ask for its score on the population.

        Cross-validation on the training rows makes the guess of the score, which the sealed rows then check.

        Args:
            estimator: A scikit-learn estimator, or an object with the same methods. It is fitted in place on all
                training rows. Clones are fitted on parts of the training rows.
            metric: A name that `everhold.metric` takes, such as ``"accuracy"``, ``"roc_auc"`` or ``"neg_log_loss"``,
                or a function from a model to a query about its predictions, such as
                ``functools.partial(eh.risk, loss="absolute", high=60)``. Or a list of names: one query for each, and
                ``answers["roc_auc"]`` is its answer.
            by: Columns, such as ``["region", "age_band"]``: the metric in each slice that the training rows show. Rows
                without a value in one of the columns are in no slice. All slices are asked together, so each has the
                probability of failure of the first one.
            **terms: ``cv``, a number of folds (5 by default), or a splitter of scikit-learn. A number keeps groups
                together where the dependence names their column, and classes in proportion. ``features``: columns to
                fit on, by default those that a fitted estimator knows by name, else those of `training_rows`. ``fit``:
                more arguments of the estimator's ``fit``, such as ``{"sample_weight": weights}``; those with one entry
                for each training row are cut like the rows. ``where``: a condition, such as ``"region = 'N'"``, for the
                metric among the rows that meet it. ``guess``: your own guess, in place of that of cross-validation. It
                is needed if the training rows give no guess, as for an AUC of a slice whose training rows have one
                class. With ``by`` it is used for such slices only. ``models``: a list with how the model is called, as
                for `ask`: its name is shown in place of its class and parameters. ``strict`` and ``silent``: as for
                `ask`.

        Returns:
            The answer to one query; with ``by`` one answer for each slice, `SliceAnswers`. The same estimator fitted
            to the same model again is a repeated query.

        Raises:
            QueryRejected: If there are no training rows or labels, or the metric cannot be asked; nothing was charged.
        """
        from everhold.asking.model_scores import evaluate

        return evaluate(self._session("evaluate"), self.ask, estimator, metric, by=by, **terms)

    @names_keywords(FitTerms, USUAL_FIT)
    def compare(
        self, first: Any, second: Any, metric: Any = "accuracy", *, margin: float | None = None,
        **terms: Unpack[FitTerms],
    ) -> Any:  # fmt: skip
        """Ask by how much the score of one model exceeds that of another, compared row by row. It is one query.

        For two arrays of predictions the answer is about labels drawn anew on these rows, and only the rows on which
        the arrays differ decide it.

        Args:
            first: An estimator, which is fitted in place on the training rows, as in `evaluate`; a rule; or predictions
                for the sealed rows: an array, a table with row ids, or such a query as
                ``eh.accuracy(predictions, training=...)``.
            second: The second model, in any form that `first` takes.
            metric: Metric as for `evaluate`. It must be one by which two models are compared, or a loss with its
                range.
            margin: By how much the first model may be worse and still count as not worse, in units of the metric.
            **terms: ``cv``, ``features``, ``fit``, ``strict`` and ``silent``: as for `evaluate`. ``where``, too; a loss
                with its range then takes its guess from training rows alone. ``guess``: your own guess of the
                difference, such as 0; needed for predictions without ``training=``. ``models``: names of both models,
                such as ``["new", "old"]``.

        Returns:
            The answer: the first score minus the second one. With a margin a `MarginVerdict`: ``"not worse"``,
            ``"worse"`` or ``"undecided"``, with that answer.

        Raises:
            QueryRejected: If they cannot be compared; nothing was charged.
        """
        from everhold.asking.model_scores import compare, compare_elsewhere

        if (session := self._transport.session) is None:
            return compare_elsewhere(self.ask, (first, second), metric, margin=margin, **terms)
        return compare(session, self.ask, (first, second), metric, margin=margin, **terms)

    def training_rows(self, features: Sequence[str] | None = None) -> tuple[Any, NDArray[Any]]:
        """Return the training rows for fitting an estimator, in the types that it will get for the sealed rows.

        Of training rows that stay in an engine, it returns those that were copied at creation.

        Args:
            features: Columns to return as features; by default all but the label, the row ids and the column of groups.

        Returns:
            A pandas data frame of features, and an array of labels: ``model.fit(*holdout.training_rows())``.

        Raises:
            QueryRejected: If there are no training rows, no labels, or no such column.
        """
        from everhold.queries.metrics.models import open_rows

        return open_rows(self._session("training_rows").executor.compiler, features)

    def ask_many(
        self, queries: Sequence[Query[Answer] | str], *, guesses: Sequence[float | None] | None = None,
        silent: bool = False, reveal: Literal["checked", "all"] = "checked",
    ) -> list[Answer]:  # fmt: skip
        """Ask several queries that do not depend on each other's answers, in order, until the budget is used up.

        Usually it is one transaction. If the process is interrupted, whatever was answered is free when asked again.

        Args:
            queries: Queries as for `ask`, including metrics of models, but no query that is computed from several
                queries or has a price of its own, such as `choose`. All have the probability of failure of the first.
            guesses: For each query the analyst's guess of its answer, or None for the training estimate.
            silent: Whether to register the queries without answers, as for `ask`.
            reveal: ``"checked"``: each guess is checked, and a surprise (a guess that fails) is charged. ``"all"``: the
                sealed interval of every query is told, as for a surprise. Nothing is charged, but later queries have
                wider intervals.

        Raises:
            QueryRejected: If one of the queries cannot be asked. Then none is asked, and nothing was charged.
        """
        return self._transport.perform(AskMany(queries=queries, guesses=guesses, silent=silent, reveal=reveal))

    def __getattr__(self, name: str) -> Any:
        """Return the accessor of an extension."""
        if not name.startswith("_"):
            if (accessor := self._transport.accessor(name)) is not None:
                return accessor
            if (extra := extra_for(EXTENSIONS.group, name)) is not None:
                raise AttributeError(f"holdout.{name} is not installed. Run: pip install 'everhold[{extra}]'.")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def ledger(self) -> HoldoutLedger:
        """What the ledger records besides answers: events, the units of answers, and the names of models."""
        from everhold.asking.reports.holdout_ledger import HoldoutLedger

        session = self._session("ledger")
        return HoldoutLedger(session.executor, session.model_names)

    def unseal(self) -> Unsealed:
        """End the study: tell the sealed value of every query that was asked, and never answer a new query again.

        Each query, also a silent one, gets the exact mean over the sealed rows, and an interval for the population that
        holds together with all others. It costs nothing. That is safe only because the same transaction closes the
        ledger. Repeated queries stay free. A second call returns the same numbers.

        Holdouts that share rows with this one lose their promise. So do holdouts with the next block of the same time
        series if no rows were left out between the blocks (`affected_holdouts`), and older copies of this one.

        Raises:
            QueryRejected: If the mechanism rests on noise, nothing was asked, or an analyst asks for it. Nothing was
                told or changed.
            IntegrityError: If the ledger was altered. Nothing was told or changed.

        Warns: EverholdWarning: If other holdouts of this storage lose their promise. The warning comes before anything
            is told.
        """
        return self._transport.perform(Unseal(confirm=self.name))

    def affected_holdouts(self) -> list[str]:
        """Return sentences that name the holdouts of this storage whose promise ends if this holdout is unsealed.

        Raises:
            QueryRejected: If this holdout cannot be unsealed.
        """
        return self._transport.perform(AffectedHoldouts())

    def quote(
        self, query: Query[Any] | str | None = None, *, guess: float | None = None, tolerance: float | None = None
    ) -> QuotedPrice:
        """Return the price of a query before it is asked. Nothing is asked, and it is free.

        Args:
            query: The query; None for any new mean of values in [0, 1]. The quoted half-width of a histogram is that of
                its widest bin, of a choice its regret, of a quantile the error of its level, of `first_above` the
                distance from the threshold at which a verdict may be wrong, of a synthetic table its worst error, and
                of a gradient its Euclidean error.
            guess: Your own guess of the answer, in the query's units, as for `ask`.
            tolerance: Half-width requested, in the query's units, as for `ask`.

        Raises:
            QueryRejected: If the query could not be asked.
        """
        return self._transport.perform(QuoteQuery(query=query, guess=guess, tolerance=tolerance))

    def status(self) -> Facts:
        """Return public facts: rows, mechanism, promise, what was asked, remaining budget, the ledger's last entry."""
        return self._transport.perform(ReadStatus())

    def diagnose(self) -> Diagnosis:
        """Test the training rows for dependence between rows that was not declared. It is free, and asks no query.

        Raises:
            DependenceError: If there are no training rows.
        """
        from everhold.diagnosis.diagnosis import diagnose_file

        session = self._session("diagnose")
        if session.executor.training is None:
            raise DependenceError(
                "Dependence is diagnosed from training rows, and this holdout has none. Pass training=... when you "
                "create a holdout, or judge the dependence by how the rows were collected."
            )
        return diagnose_file(
            session.folder / TRAINING_FILE, label=self.schema.label, mechanism=self.mechanism,
            drawn_from=drawn_from_rows(session.executor.record.configuration), independent=self.schema.independent,
        )  # fmt: skip

    def transcript(self) -> Transcript:
        """Return all queries and answers in order, with the numbers that `ask` returned, in each query's own units.

        For an analyst it has only the queries that this analyst asked first.

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
        return self._transport.perform(ReadTranscript())

    def spent(self, *, delta: float = 1e-6) -> Any:
        """Return how much all answers so far reveal about any one sealed row, as differential privacy. It is free.

        Args:
            delta: The delta of (epsilon, delta)-differential privacy at which the loss is stated, in (0, 1).

        Raises:
            ValueError: If delta is outside (0, 1).
        """
        executor = self._session("spent").executor
        head = executor.ledger.head()
        entries = all_entries(executor.ledger, head.sequence)
        simulated = executor.record.configuration["seed"] is not None
        state = executor.state_from(head)
        return required("spending")(self.mechanism, state, entries, delta=delta, simulated=simulated)

    def certificate(
        self, answers: Mapping[str, Choice] | Sequence[Choice] | None = None, *, queries: bool = True,
        timestamp: Timestamper | str | None = None,
    ) -> Certificate:  # fmt: skip
        """Return the certificate: a signed document of promise, reasons, rows, and all queries and charges so far.

        The whole ledger is checked first. If it has more than 20,000 entries, only those after the latest checkpoint
        are read again, and the certificate says so. This method and ``everhold ledger verify`` make checkpoints.

        Args:
            answers: Answers that the first page shows, by the names that it gives them: ``{"model B": answer}``. Each
                is an answer, its query, or its id in the transcript: ``sequence`` or ``query``. All intervals hold at
                once, so you may choose after you have seen all answers; the page says how many queries there were. By
                default the last eight answers that were told, or none without `queries`.
            queries: Whether all queries are listed, with their answers. More than 2,000 queries are never listed.
            timestamp: The URL of a time-stamping authority (RFC 3161) that states when the certificate was signed, or a
                function from a SHA-256 digest to the authority's token, in DER. It needs the extra ``timestamp``. None
                for no such statement.

        Raises:
            IntegrityError: If the ledger or rows that stay in an engine were altered, or the token is about another
                certificate. Nothing is signed.
            QueryRejected: If an answer is not in the ledger, or has no numeric answer.
            ValueError: If a name cannot be used, or the same answer or name is there twice.
            EverholdError: If the authority cannot be reached, or the package is missing.
        """
        return self._transport.perform(Certify(answers=answers, queries=queries, timestamp=timestamp))


def _opened(kind: type[Holdout], storage: str, name: str, analyst: str | None) -> Holdout:
    """Open a holdout again that was pickled. A pickled holdout consists of its address and names only."""
    holdout = kind.open(storage, name)
    return holdout if analyst is None else holdout.analyst(analyst)


class Study(Holdout):
    """A study on its own part of the sealed rows. Made by `Holdout.study`.

    All queries in a study are silent. The end of its ``with`` block unseals the part, unless an error ended the block,
    nothing was asked, or an analyst has the study.

    Attributes:
        result: The unsealed answers; None before the study has ended.
    """

    result: Unsealed | None = None

    def __reduce__(self) -> tuple[Callable[..., Study], tuple[Any, ...]]:
        executor = self._session("study").executor
        return _study_of, (
            executor.store.url, executor.record.configuration[DEALT]["of"], study_in(self._folder, executor.key),
            executor.analyst,
        )  # fmt: skip

    @classmethod
    def begun(cls, storage: str, part: str) -> Self:
        """Return the study of a part. A study that has ended has its result."""
        session = Holdout.open(storage, part)._session("study")
        session.silent = True
        study = cls(session)
        if session.executor.ledger.head().accounts.closed:
            study.result = study.unseal()
        return study

    def __exit__(self, kind: object = None, *_: object) -> None:
        executor = self._session("study").executor
        if kind is None and executor.analyst is None and self.result is None and executor.state().asked:
            self.result = self.unseal()


class DealtHoldout(Holdout):
    """A holdout whose rows were dealt into parts, one for each study. Made by ``Holdout.create(studies=...)``."""

    _transport: DealtTransport

    def study(self, name: str) -> Study:
        """Begin a study on a part that nobody has taken, or go on with the one of that name."""
        return self._transport.study(name, Study.begun)

    @property
    def studies(self) -> dict[str, str]:
        """Names of the parts that studies took, by the study's name. Each part is a holdout of this storage."""
        return self._transport.taken()

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>"

    def __reduce__(self) -> tuple[Callable[..., Holdout], tuple[Any, ...]]:
        return Holdout.open, (self._transport.store.url, self.name)


def _study_of(storage: str, name: str, study: str, analyst: str | None) -> Study:
    opened = Holdout.open(storage, name).study(study)
    return opened if analyst is None else opened.analyst(analyst)
