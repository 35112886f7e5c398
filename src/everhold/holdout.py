"""The session: seal rows, ask about them, see what is left, get the certificate."""

from __future__ import annotations

import copy
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from everhold.answers import UNSEALED, Answer, QuotedPrice, Transcript, Unsealed
from everhold.arguments import brief
from everhold.asking.budget import (
    Allotments,
    act_of,
    checked_limits,
    checked_name,
    described,
    outcome_of_act,
    set_limits,
    warn_of_promises,
)
from everhold.asking.chosen import Choice, chosen_answers
from everhold.asking.desk import CLOSED_STUDY, Desk, first_noise
from everhold.asking.gate import Gate, certified_gates, described_gate, open_gate
from everhold.asking.listed import MOST_LISTED, listed_queries
from everhold.asking.names import model_names
from everhold.asking.news import News, news
from everhold.asking.received import is_score
from everhold.asking.recovery import recover_ledger
from everhold.asking.spending import Spending, spending
from everhold.asking.standings import certified_competition, leaderboard
from everhold.asking.submissions import Contest, check_metric
from everhold.asking.unsealing import as_row, disclosed, disclosed_at, losing_their_promise, unseal
from everhold.boundary import errors_leave_frames_behind
from everhold.dependence import DependenceModel
from everhold.display import Facts, html_bar, html_sentences, html_table
from everhold.errors import DependenceError, HoldoutNotFound, QueryRejected
from everhold.estimand import ABOUT, PUBLIC, SEALED, about_of, check_features
from everhold.ledger import LedgerStore, Outcome
from everhold.ledger.allotments import ACT, ACTS, ANALYST, Accounts, Allotment
from everhold.ledger.head_file import HeadFile
from everhold.ledger.verify import check_unaltered
from everhold.mechanisms import Mechanism, Promise
from everhold.planning.choice import check_worth, chosen_mechanism, warn_of_weak_promise
from everhold.planning.wish import USUAL_VALUE
from everhold.private_files import make_private
from everhold.progress import progress
from everhold.questions.means import Query
from everhold.questions.models import cross_validated, no_false_alarms, open_rows
from everhold.questions.question import Question
from everhold.questions.readings import Reading, in_own_units
from everhold.sealing.champions import Champions
from everhold.sealing.checks import checked_classes
from everhold.sealing.competition import Competition
from everhold.sealing.configuration import (
    ALIKE,
    bound_state,
    check_settings,
    drawn_from_rows,
    mechanism_from,
    public_facts,
    schema_from,
    state_from,
)
from everhold.sealing.create import check_columns, checked_seed, seal
from everhold.sealing.engines.connecting import is_engine
from everhold.sealing.files import TRAINING_FILE
from everhold.sealing.keys import KEY_FILE, StewardKey
from everhold.sealing.matched_classes import warn_of_matched_classes
from everhold.sealing.opening import engine_of, sealed_rows, training_rows
from everhold.sealing.pinning import check_pinned
from everhold.sealing.reading import MOST_ROWS, check_most_rows
from everhold.sealing.resealing import also_sealed_as
from everhold.sealing.storage import (
    DEFAULT_STORAGE,
    check_name,
    check_name_is_free,
    new_folder,
    rows_folder,
    storage_url,
)
from everhold.sealing.submitted import Submitted
from everhold.values.base import Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import Self

    from numpy.typing import NDArray

    from everhold.asking.leaderboard import Leaderboard
    from everhold.asking.received import FormatReport, Submission
    from everhold.certificate import Certificate, Timestamper
    from everhold.dependence import RowStructure
    from everhold.diagnosis.diagnosis import Diagnosis
    from everhold.ledger import Entry, HoldoutRecord
    from everhold.questions.preparation import Preparation
    from everhold.sealing.create import Sealed
    from everhold.sealing.engines.base import Engine
    from everhold.sealing.reading import RowSource

Result = TypeVar("Result")

__all__ = ["DEFAULT_STORAGE", "Holdout", "storage_url"]

_LATEST = 5  # answers that a notebook shows
_GLANCE = ("sequence", "asked", "value", "low", "high", "source", "charged")
_NOT_KEPT = (None, None, None)
_SOME = ("estimate", "guess", "within")  # told of some questions only
_GUESSES = {"value", "estimate", "guess"}
_TOLD = ("value", "low", "high", "source", *_SOME)  # of an entry; a table's rounds are its own matter


@errors_leave_frames_behind
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

    def __init__(
        self, store: LedgerStore, record: HoldoutRecord, folder: Path, engine: Engine | None = None, *,
        checked: bool = False,
    ) -> None:  # fmt: skip
        """Open the sealed rows of a record whose settings were checked; use `create` or `open` instead."""
        configuration = record.configuration
        for path in (folder.parent, folder, *(file for file in folder.glob("*") if file.name != KEY_FILE)):
            make_private(path)
        key = StewardKey.load(folder / KEY_FILE, public_key=configuration["public_key"])
        head_file = HeadFile.of(folder, holdout=record.id, seal_key=key.seal_key)
        state_from(store.of(record, key.seal_key, head_file).head().state, configuration)
        self._folder = folder
        self._engine = engine_of(configuration, key, given=engine, checked=checked)
        self._desk = Desk(
            store=store, record=record, mechanism=mechanism_from(configuration), schema=schema_from(configuration),
            key=key, head_file=head_file, sealed=sealed_rows(folder, configuration, key, self._engine),
            training=training_rows(folder, configuration, self._engine),
        )  # fmt: skip

    @classmethod
    def create(
        cls,
        storage: str | Path = DEFAULT_STORAGE,
        name: str = "holdout",
        *,
        holdout: RowSource | Engine,
        training: RowSource | Engine | None = None,
        label: str | None = None,
        classes: Sequence[str | float] | Literal["open"] | None = None,
        row_id: str | None = None,
        features: Literal["sealed", "public"] = SEALED,
        stratified: str | None = None,
        mechanism: Mechanism | str | None = None,
        queries: int = 1_000,
        overfits: int | None = None,
        confidence: float = 0.95,
        slack: float = 0.0,
        dependence: DependenceModel | None = None,
        allow_vacuous: bool = False,
        most_rows: int = MOST_ROWS,
        equal_rows: bool = False,
        again: bool = False,
        seed: int | None = None,
        feedback: Literal["none", "leader", "score"] | None = None,
        metric: str | Mapping[str, Any] = "accuracy",
        teams: int = 50,
        submissions: int = 20,
        surprises: int | None = None,
    ) -> Self:
        """Seal rows and record the promise.

        Args:
            storage: URL of the database, such as ``"sqlite:///study.db"`` or
                ``"postgresql://user@host/study?rows=/srv/rows"``, or a path to an SQLite file. The sealed rows stay in
                files: beside an SQLite file, or in the folder that ``rows`` or the variable ``EVERHOLD_ROWS`` names.
            name: Name of the holdout, unique in that database.
            holdout: The rows to seal: a path to a Parquet or CSV file, a pandas or Polars frame, an Arrow table, or a
                mapping from names to NumPy arrays. Or a table that stays in its engine, such as
                ``everhold.engines.Spark(session, "table")``: nothing but what checks need is read from it, and whoever
                administers the engine can read the rows.
            training: Open rows of the same columns; they make the guesses that the holdout confirms. Or another table
                of the engine that has the sealed rows: whatever the engine can count it counts in all of its rows, and
                about 100,000 of them are copied for what needs rows here, such as estimators.
            label: Column that holds the truth, for `accuracy`, `error` and `brier`.
            classes: The classes of the label, which are public from now on: a prediction of any other class is refused,
                and nothing is charged. By default those of the training labels, where there are at least ten training
                rows for each. Needed where these do not say it, if labels are texts or classes are numbers other than
                0 and 1; ``"open"`` if labels are free texts, so that no prediction can be checked.
            row_id: Column that names rows, each once; no row may be in both sets. Predictions are joined by it. Row ids
                are public: whoever hands in predictions has to know them, and no question may read them.
            features: ``"sealed"``: nobody who asks sees any column of the sealed rows; expressions and estimators are
                about the population that they come from, predictions as arrays about labels drawn anew on these rows.
                ``"public"``: everybody may see all columns but the label, as in a competition; every answer is about
                labels drawn anew on these rows, and only questions that read the label are answered. Needs independent
                rows or `Groups`, given the features.
            stratified: Column by whose values the table was split, so that both parts have them in the same shares, as
                ``everhold split --stratify`` or ``train_test_split(stratify=...)`` do. Training rows then tell how
                often each value is sealed, so answers are for rows with the values in these shares. Needs
                independent rows.
            mechanism: A mechanism, or the name of one to be tuned; by default the one whose answers are expected to be
                the narrowest (`Mechanism.expected_radius`), among those that need no rows of one law.
            queries: Number of adaptive questions to plan for.
            overfits: Number of answers that may come from the holdout, for mechanisms that check guesses; by default
                10, or one for each question if there are fewer.
            confidence: Probability with which all intervals hold together.
            slack: No budget is spent on guesses closer than slack times the radius to the population's value.
            dependence: How the sealed rows depend on each other; `Independent` by default.
            allow_vacuous: Seal the rows even if the guaranteed radius, and what is expected of honest guesses, is half
                the range or more, so that nothing is promised.
            most_rows: The most rows that either table may have; a larger one is refused before it is read. Tables
                that stay in an engine may have any number.
            equal_rows: Equal rows in both sets are no copies: a design that repeats its settings, or the same features
                with labels drawn anew. Otherwise more of them than chance gives are refused.
            again: Seal rows even if they are already sealed in this storage. Neither budget accounts for the other: the
                promise then holds only for questions that were chosen without any answer from the other holdout, and
                certificates say so.
            seed: For simulations only: noise that can be predicted. The certificate then says so.
            feedback: For a competition, what a submission is told before `unseal`: ``"none"``; ``"leader"``, whether it
                leads, by proof; ``"score"``, an answer. Such a holdout takes submissions and no other questions, and
                mechanism and number of questions follow from the next three arguments.
            metric: Submissions are ranked by this: ``"accuracy"``, ``"error"``, ``"brier"``, or a loss with its range
                as for `risk`, such as ``{"loss": "absolute", "high": 60}``.
            teams: Most teams of a competition.
            submissions: Most submissions of one team.
            surprises: Most surprises that telling one team may cost; then it is told nothing more, and other teams are.
                By default an equal part of `overfits`, at least 1, where scores are told, and half of them where
                leaders are. An allotment for the team replaces it.

        Raises:
            HoldoutRejected: If the rows or settings cannot be sealed, or the rows are sealed already. Nothing was
                created.
            DependenceError: If the dependence does not match the rows. Nothing was created.
            Unavailable: If an engine cannot be reached. Nothing was created.
            ValueError: If the settings contradict each other. Nothing was created.

        Warns:
            DependenceWarning: If the training rows are worth less than is declared, in any column; see `diagnose`. Or
                if nothing is declared, and training rows that could show it stay in an engine. Or if a column's values
                are divided as a stratified split divides them, and ``stratified`` does not name it. Or if whole groups
                of a column were put on one side, and the declared dependence does not name them.
        """
        from everhold.diagnosis.diagnosis import (
            diagnose_file,
            warn_of_a_sample,
            warn_of_dependence,
            warn_of_whole_groups,
        )
        from everhold.diagnosis.likeness import declared_likeness

        check_name(name)
        most_rows = check_most_rows(most_rows)
        check_columns(label=label, row_id=row_id)
        seed, classes_declared = checked_seed(seed), checked_classes(classes)
        competition = None
        if feedback is not None:
            competition = Competition(
                feedback=feedback, metric=metric, teams=teams, submissions=submissions, surprises=surprises
            )
            mechanism, queries = competition.wish(mechanism)
        declared = mechanism.dependence if isinstance(mechanism, Mechanism) else dependence
        url = storage_url(storage)
        rows = rows_folder(url)
        others: list[HoldoutRecord] = []
        with suppress(HoldoutNotFound), LedgerStore.open(url, create=False) as existing:
            check_name_is_free(name, existing.names())
            others = [existing.record(other) for other in existing.names()]

        alike: float | None = None

        def choose(structure: RowStructure) -> Mechanism:
            nonlocal alike
            alike = declared_likeness(folder / TRAINING_FILE, declared, label=label)
            chosen = chosen_mechanism(
                mechanism, structure, queries=queries, overfits=overfits, confidence=confidence, slack=slack,
                dependence=dependence, alike=alike,
            )  # fmt: skip
            chosen = chosen if competition is None else competition.planned(chosen)
            check_features(features, label=label, mechanism=chosen)
            check_worth(chosen, allow_vacuous=allow_vacuous, alike=alike)
            return chosen

        def check(made: Sealed) -> None:
            if alike is not None:
                made.configuration[ALIKE] = alike
            if competition is not None:
                check_metric(competition, schema_from(made.configuration))
            warn_of_weak_promise(made.mechanism, alike)  # before anything is recorded: warnings may be errors
            if made.configuration["training_rows"]:
                file = folder / TRAINING_FILE
                warn_of_matched_classes(folder, schema_from(made.configuration))
                drawn_from, copied = drawn_from_rows(made.configuration), made.configuration["training_rows"]
                if drawn_from is not None and declared is None:
                    warn_of_a_sample(copied=copied, drawn_from=drawn_from, apart=made.apart)
                found = diagnose_file(
                    file, label=label, mechanism=made.mechanism, apart=made.apart, brief=True, drawn_from=drawn_from
                )
                warn_of_dependence(found)
                warn_of_whole_groups(made.whole_groups, found)

        with new_folder(rows, name) as folder, progress("sealing"):
            made = seal(
                folder, holdout=holdout, training=training, label=label, row_id=row_id, features=features,
                stratified=stratified, choose=choose, declared=declared, most_rows=most_rows, equal_rows=equal_rows,
                again=again, others=others, seed=seed, competition=competition, classes=classes_declared, check=check,
            )  # fmt: skip
            state = made.mechanism.start(first_noise(seed))
            store = LedgerStore.open(url)
            try:
                record = store.create(
                    name, made.configuration, bound_state(state, made.configuration), seal_key=made.key.seal_key,
                    head_file=lambda holdout: HeadFile.of(folder, holdout=holdout, seal_key=made.key.seal_key),
                )  # fmt: skip
            except BaseException:
                store.close()
                raise
        return cls(store, record, folder, holdout if is_engine(holdout) else None, checked=True)

    @classmethod
    def open(
        cls, storage: str | Path = DEFAULT_STORAGE, name: str = "holdout", *, recover: bool = False,
        engine: Engine | None = None,
    ) -> Self:  # fmt: skip
        """Open a sealed holdout and check that its rows are the ones that were sealed.

        Args:
            storage: As for `create`.
            name: Name of the holdout.
            recover: Whether to continue with a database that was set back to an older copy, and count what was lost as
                spent. If there is a backup, restore the newest one instead: then nothing is lost. A recovery is
                recorded in the ledger and shown on the certificate. Questions and charges that the database has lost
                count as spent; if the file of the newest head is lost, too, all that is left does. What was left of
                allotments is taken back: allot it anew. A ladder that lost a new best cannot continue, nor can
                guess-and-check without that file.
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
        desk = self._desk
        asking = "" if desk.analyst is None else f", analyst={desk.analyst!r}"
        return f"Holdout({desk.record.name!r}, rows={desk.schema.rows}, mechanism={desk.mechanism.name!r}{asking})"

    def _repr_html_(self) -> str:
        """The holdout at a glance: its promise, what is left, and the latest answers."""
        desk, head = self._desk, self._desk.head()
        of = "" if desk.analyst is None else f" on behalf of {desk.analyst}"
        over = ", unsealed and closed" if head.accounts.closed else ""
        rows = f"{desk.schema.rows:,} sealed rows, {desk.schema.training_rows:,} training rows"
        left, whole = desk.remaining(head.state), desk.whole(head.state)
        latest = self._transcript(list(desk.ledger.entries(max(head.sequence - _LATEST, 0), _LATEST))).rows
        return (
            html_sentences(f"{desk.record.name}{of}: {rows}, {desk.mechanism.name}{over}")
            + html_sentences(self.promised)
            + "".join(html_bar(name, count, whole[name]) for name, count in left.items())
            + html_sentences("latest answers:" if latest else "")
            + html_table([{name: row.get(name) for name in _GLANCE} for row in latest])
        )

    def __copy__(self) -> Self:
        view = object.__new__(type(self))
        vars(view).update(vars(self))
        return view

    def __deepcopy__(self, _: object) -> Self:
        return self  # a handle: whoever copies what holds it asks the same ledger

    def __reduce__(self) -> tuple[Callable[..., Holdout], tuple[type[Holdout], str, str, str | None]]:
        return _opened, (type(self), self._desk.store.url, self._desk.record.name, self._desk.analyst)

    def close(self) -> None:
        """Close the database and the engine."""
        self._desk.close()

    @property
    def schema(self) -> Schema:
        """What may be known about the rows: their number and their columns."""
        return self._desk.schema

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism that answers, with its parameters."""
        return self._desk.mechanism

    @property
    def promise(self) -> Promise:
        """The promise that all answers keep together, with the half-width that answers are expected to have."""
        alike = self._desk.record.configuration.get(ALIKE)
        return replace(self._desk.promise, expected=self.mechanism.expected_radius(USUAL_VALUE, alike))

    @property
    def promised(self) -> str:
        """The promise in one sentence, as the certificate begins with it."""
        from everhold.certificate import promise_in_words

        return promise_in_words(self._desk.record, self._desk.mechanism)

    @property
    def remaining(self) -> dict[str, int]:
        """What is left of the budget, by name; for an analyst, what is left to them."""
        return self._desk.remaining(self._desk.data())

    @property
    def planned(self) -> dict[str, int]:
        """What was there at the beginning, by name as in `remaining`; for an analyst, what was allotted to them."""
        return self._desk.whole(self._desk.data())

    def allot(self, analyst: str, *, questions: int, charges: int | None = None) -> Allotment:
        """Let a named analyst spend a part of the budget, and no more; an act of the steward, kept in the ledger.

        The limits replace earlier ones of the same analyst. They may add up to more than there is (with a warning):
        then it is first come, first served. All answers stay in one transcript under one promise.

        Args:
            analyst: 1 to 100 printable characters. A name says who is meant; it proves nothing about who asks.
            questions: Most new questions that may be answered on behalf of the analyst.
            charges: Most that they may be charged, in the mechanism's units: credits of a ``"privacy_budget"``,
                surprises where guesses are checked, otherwise answers. By default what that many questions can cost.

        Raises:
            QueryRejected: If more was spent already, the name looks like another one, or the study was unsealed.
                Nothing was changed.
            ValueError: If the name or a limit cannot be used. Nothing was changed.
        """
        if self._desk.analyst is not None:
            raise QueryRejected(
                "an analyst cannot allot; expected the holdout itself, as the steward opens it; nothing was changed"
            )
        analyst = checked_name(analyst)
        most, charges = checked_limits(questions, charges, self._desk.mechanism)

        def step(data: dict[str, Any], _: list[int]) -> tuple[dict[str, Any], list[Outcome | None]]:
            accounts = Accounts.from_state(data)
            if accounts.closed:
                raise QueryRejected(CLOSED_STUDY)
            changed = set_limits(accounts, analyst, most, charges)
            return accounts.into(data), [outcome_of_act() if changed else None]

        act = act_of(analyst, most, charges)
        self._desk.ledger.commit([act], step)
        data = self._desk.data()
        accounts = Accounts.from_state(data)
        warn_of_promises(accounts, self._desk.mechanism, self._desk.state_from(data))
        return accounts.parts[analyst]

    def analyst(self, name: str) -> Self:
        """The same holdout on behalf of an analyst, who can spend no more than their allotment.

        A question that could cost more than what is left of the allotment is refused before the sealed rows are looked
        at. A refusal costs nothing and is not recorded, so the question can be asked again. Whatever anybody has asked
        before is free. A batch is answered in order for as long as the allotment is sure to pay.

        Raises:
            QueryRejected: If there is no allotment of that name.
        """
        view = copy.copy(self)
        view._desk = self._desk.on_behalf_of(name)
        return view

    def gate(
        self, metric: Any = None, *, champion: Any = None, margin: float = 0.0, challenges: int | None = None,
        name: str = "gate", training: Any = None,
    ) -> Gate:  # fmt: skip
        """A champion that gives way only to challengers that are proved to be better: keep or revert.

        Every promotion is proved, all of them at once, however many challengers failed in between and however they were
        chosen. A promotion costs a surprise; a challenger that is not promoted costs nothing but one of the planned
        questions, and *kept* promises nothing. All processes that open the same gate share its champion.

        Args:
            metric: What is compared: `accuracy`, `error`, `brier`, or their names; or a function from a candidate to
                such a question, as ``lambda model: eh.risk(model, "log", high=5)``. May be left out for a gate that is
                there already.
            champion: The model to beat: a fitted estimator, a rule over the features, or predictions as the metric
                takes them. Needed the first time; later, the same one again opens the same gate, or None.
            margin: A challenger has to be better by more than this, in the metric's units.
            challenges: Most challenges that this gate answers. None for no limit but the room for surprises: as `ask`
                does, a gate goes on beyond the planned ``queries``, with proof, and `Gate.status` says what it can see.
            name: Of the gate; a holdout may have several, and all share its budget.
            training: The champion's predictions for the training rows, where it is no estimator.

        Raises:
            QueryRejected: If there can be no such gate, or the one of that name is another one. Nothing was changed.
            ValueError: If the name or the limit cannot be used.
        """
        self._check_questions()
        return open_gate(
            self._desk, self._champions(), metric=metric, champion=champion, training=training, margin=margin,
            challenges=challenges, name=name,
        )  # fmt: skip

    def allotments(self) -> Allotments:
        """Which analysts may spend how much, what they have spent, and the acts by which the steward said so."""
        head = self._desk.head()
        acts = [
            {
                "sequence": entry.sequence,
                "asked_at": entry.asked_at,
                **{name: entry.description[name] for name in (ANALYST, "questions", "charges")},
            }
            for entry in self._desk.entries(head.sequence)
            if entry.answer["source"] == ACT
        ]
        return described(Accounts.from_state(head.state), self._desk.mechanism, self._desk.state_from(head.state), acts)

    @overload
    def ask(
        self, question: str, *, guess: float | None = None, tolerance: float | None = None, strict: bool = False,
        silent: bool = False,
    ) -> Answer: ...  # fmt: skip
    @overload
    def ask(
        self, question: Question[Result], *, guess: float | None = None, tolerance: float | None = None,
        strict: bool = False, silent: bool = False,
    ) -> Result: ...  # fmt: skip
    def ask(
        self, question: Question[Any] | str, *, guess: float | None = None, tolerance: float | None = None,
        strict: bool = False, silent: bool = False,
    ) -> Any:  # fmt: skip
        """Ask one question of any kind.

        Args:
            question: Such as ``accuracy(model)``, ``mean("delay", low=0, high=60)`` or ``variance(...)``; a text is a
                `mean`. A `histogram` is one question for each bin and has one answer for each. What has a price of its
                own, such as ``choose([...])`` or ``quantile(...)``, needs the mechanism ``"privacy_budget"``.
            guess: The analyst's own guess, in the question's units, in place of the training estimate.
            tolerance: Half-width wished for, in the question's units; sharper answers cost more credits. Only with the
                mechanism ``"privacy_budget"`` and for questions that are not made of several.
            strict: Raise `BudgetExhausted` instead of returning a refused answer.
            silent: Only register the question: nothing is told of it before `unseal`. It counts as asked and costs
                nothing else. Asked again, openly or silently, it is the same silent entry. Only with a mechanism that
                can be unsealed, such as ``"guess_and_check"``.

        Returns:
            The answer, committed to the ledger before it is returned. A repeated question returns the stored answer,
            free of charge. A question that is made of several is asked as a whole or not at all: if the budget might
            run out between its parts, it is refused and nothing is charged.

        Raises:
            QueryRejected: If the question cannot be asked; nothing was charged.

        Warns:
            DependenceWarning: If its values on the training rows are worth fewer rows than is declared; nothing was
                charged yet.
        """
        self._check_questions()
        return self._desk.ask(self._preparation(silent).ready(question, guess, tolerance), strict=strict)

    def evaluate(
        self, estimator: Any, metric: Any = "accuracy", *, cv: Any = 5, features: Sequence[str] | None = None,
        strict: bool = False, silent: bool = False,
    ) -> Any:  # fmt: skip
        """Fit an estimator on the training rows and ask how good it is; cross-validation makes the guess.

        Args:
            estimator: Of scikit-learn, or what looks like one. It is fitted in place on all training rows; clones of it
                are fitted on parts of them.
            metric: ``"accuracy"``, ``"error"``, ``"brier"``, ``"precision"``, ``"recall"``, ``"f1"``, or a function
                from a model to a question about its predictions, such as
                ``functools.partial(eh.risk, loss="absolute", high=60)``.
            cv: A number of folds, or a splitter of scikit-learn. A number keeps groups together where the dependence
                names their column, and classes in proportion.
            features: Columns to fit on; by default those of `training_rows`.
            strict: As for `ask`.
            silent: As for `ask`.

        Returns:
            The answer to one question. The same estimator fitted to the same model again is a repeated question.

        Raises:
            QueryRejected: If there are no training rows or labels, or the metric cannot be asked; nothing was charged.
        """
        question, guess = cross_validated(self._desk.preparation, estimator, metric, cv=cv, features=features)
        with no_false_alarms():
            return self.ask(question, guess=guess, strict=strict, silent=silent)

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
        return open_rows(self._desk.preparation, features)

    def _preparation(self, silent: bool) -> Preparation:
        return self._desk.preparation.silently() if silent else self._desk.preparation

    def ask_many(
        self, questions: Sequence[Query | str], *, guesses: Sequence[float | None] | None = None, silent: bool = False
    ) -> list[Answer]:
        """Ask questions that do not depend on each other's answers, in order for as long as the budget pays.

        Each look at the sealed rows covers only the questions that are sure to be answered; usually that is all of
        them, in one transaction. If the process is interrupted, whatever was answered is in the ledger, and free when
        asked again.

        Args:
            questions: As for `ask`, without those that are made of several or have a price of their own.
            guesses: One guess or None for each question.
            silent: As for `ask`.

        Raises:
            QueryRejected: If one of them cannot be asked; then none is, and nothing was charged.
        """
        self._check_questions()
        with progress("asking"):
            return self._desk.ask(self._preparation(silent).batch(questions, guesses))

    def submit(
        self, predictions: Any, *, team: str, guess: float | None = None, training: Any = None
    ) -> Submission:  # fmt: skip
        """Hand in a team's predictions, in a competition; they are checked before anything is charged.

        A team's last submission is final. Where teams are told that they lead, one that led stays final until another
        one of the team does. The same predictions again, right after each other, are received once.

        Args:
            predictions: As the metric takes them: an array in the order of the rows, or a table with row ids.
            team: Who hands it in. Where an allotment has this name, it pays.
            guess: Where scores are told: the team's own guess, such as a score by cross-validation; by default what
                the team was told last.
            training: Predictions for the training rows, where there are some; they make the guess.

        Returns:
            What the host chose that a submission is told; committed to the ledger before.

        Raises:
            QueryRejected: If it cannot be received. Nothing was received or charged.
            ValueError: If the team's name cannot be used.
        """
        return self._contest().submit(predictions, team=team, guess=guess, training=training)

    def check_submission(self, predictions: Any, *, team: str) -> FormatReport:
        """Whether predictions would be received; nothing is received, and no label is looked at.

        Raises:
            QueryRejected: If they would not.
            ValueError: If the team's name cannot be used.
        """
        return self._contest().check(predictions, team=team)

    def leaderboard(self) -> Leaderboard:
        """Where the teams stand; asks nothing and is free.

        Before the end it holds what submissions were told; after `unseal` it is final, and every place rests on paired
        differences of final submissions.

        Raises:
            QueryRejected: If this holdout takes no submissions.
        """
        return leaderboard(self._contest())

    def _contest(self) -> Contest:
        desk, competition = self._desk, self._competition
        if competition is None:
            raise QueryRejected(
                "this holdout takes no submissions; expected one that was created with feedback='none', 'leader' or "
                "'score'; nothing was received or charged"
            )
        files = Submitted.of(self._folder, holdout=desk.record.id, seal_key=desk.key.seal_key)
        return Contest(replace(desk, analyst=None), competition, files, self._champions())

    @property
    def _competition(self) -> Competition | None:
        return Competition.from_configuration(self._desk.record.configuration)

    def _check_questions(self) -> None:
        """Refuse questions where submissions alone are taken: what is told of those is the host's choice."""
        if self._competition is not None:
            raise QueryRejected(
                f"this holdout takes submissions and no other questions (feedback={self._competition.feedback!r}); "
                "expected submit(predictions, team=...), or 'everhold submit'; nothing was charged"
            )

    def _champions(self) -> Champions:
        desk = self._desk
        return Champions.of(self._folder, holdout=desk.record.id, rows=desk.schema.rows, seal_key=desk.key.seal_key)

    def unseal(self) -> Unsealed:
        """End the study: tell every sealed number, exactly and at no cost, and answer no new question ever after.

        For every question that was asked, also silently, it tells the mean over the sealed rows, and an interval that
        holds for the population together with all others. That is safe only because nothing can depend on it any more:
        the same transaction closes the ledger. Whatever was asked before stays free, and carries these numbers, too.
        An unsealed study stays unsealed; unsealing it again tells the same.

        Who has these numbers knows much about the sealed rows. So other holdouts lose their promise that share rows
        with this one, or hold the next stretch of the same series without an embargo; see `losing_their_promise`. So
        does any copy of database and folder that was made before.

        Of a competition no submission is taken any more; the final ones are compared with each other, which the budget
        was planned for, and `leaderboard` is final.

        Raises:
            QueryRejected: If the mechanism rests on noise, nothing was asked, or an analyst asks for it. Nothing was
                told or changed.
            IntegrityError: If the ledger is not what was written. Nothing was told or changed.

        Warns:
            EverholdWarning: If other holdouts of this storage lose their promise; before anything is told.
        """
        before = None if self._competition is None else self._contest().close
        with progress("unsealing"):
            return unseal(self._desk, before=before)

    def losing_their_promise(self) -> list[str]:
        """What other holdouts of this storage would lose by `unseal`, in sentences; nothing is told or changed.

        Raises:
            QueryRejected: If this one cannot be unsealed.
        """
        return losing_their_promise(self._desk)

    def quote(
        self, question: Question[Any] | str | None = None, *, guess: float | None = None, tolerance: float | None = None
    ) -> QuotedPrice:
        """The price of a question before it is asked; nothing is asked, and it is free.

        Args:
            question: The question; None for the price of any new one, in units of a mean over [0, 1]. For a histogram
                the half-width is that of its widest bin, for a choice the regret, for a quantile the error of its
                level, for a scan how far beyond the threshold a verdict may be wrong, for a synthetic table its worst
                error, for a gradient that of its length.
            guess: As for `ask`.
            tolerance: As for `ask`.

        Raises:
            QueryRejected: If the question could not be asked.
        """
        if question is None and tolerance is not None:
            raise QueryRejected(
                "a tolerance needs a question; expected quote(question, tolerance=...); nothing was charged"
            )
        if question is not None:
            self._check_questions()
        ready = None if question is None else self._desk.preparation.ready(question, guess, tolerance)
        return self._desk.quote(ready)

    def status(self) -> Facts:
        """The holdout in public facts: rows, mechanism, promise, what was asked, what is left, the ledger's head."""
        head = self._desk.head()
        promise, described = self.promise, self._desk.mechanism.to_dict()
        state = self._desk.state_from(head.state)
        remaining, parts = self._desk.remaining(head.state), Accounts.from_state(head.state).parts
        asking = {} if self._desk.analyst is None else {ANALYST: self._desk.analyst}
        allotted = {"allotments": [part.to_dict() for part in parts.values()]} if parts else {}
        lost, gates = head.accounts.lost, [described_gate(gate) for gate in head.accounts.gates.by_name.values()]
        return Facts({
            "name": self._desk.record.name,
            **asking,
            "rows": self._desk.schema.rows,
            "training_rows": self._desk.schema.training_rows,
            **self._stays_in(),
            "features": PUBLIC if self._desk.schema.features_public else SEALED,
            **({} if self._desk.schema.stratified is None else {"stratified": self._desk.schema.stratified}),
            "mechanism": described["mechanism"],
            "parameters": described["parameters"],
            "radius": promise.radius,
            "expected": promise.expected,
            "statement": promise.statement,
            "confidence": promise.confidence,
            "dependence": self._desk.mechanism.dependence.to_dict(),
            "simulation": self._desk.record.configuration["seed"] is not None,
            "questions_asked": state.asked,
            "questions_left": remaining["questions"],
            "closed": head.accounts.closed,
            "charged": head.charged,
            "remaining": remaining,
            **allotted,
            **({} if self._competition is None else {"competition": self._competition.to_dict()}),
            **({"gates": gates} if gates else {}),
            **({"lost": lost} if lost else {}),
            "ledger_head": {"sequence": head.sequence, "entry_hash": head.entry_hash},
        })  # fmt: skip

    def _stays_in(self) -> dict[str, Any]:
        """The engine and the tables in which rows stay, if they do; where it is, is the steward's matter."""
        configuration = self._desk.record.configuration
        facts, table = public_facts(configuration), configuration.get("training_table")
        return ({} if facts is None else {"engine": facts}) | ({} if table is None else {"training_table": dict(table)})

    def diagnose(self) -> Diagnosis:
        """Whether the rows depend on each other, judged by the training rows alone; nothing is asked, and it is free.

        Raises:
            DependenceError: If there are no training rows.
        """
        from everhold.diagnosis.diagnosis import diagnose_file

        if self._desk.training is None:
            raise DependenceError(
                "there are no training rows to look at, and nobody may look at the sealed ones; expected a holdout "
                "that was created with training=...; judge the dependence by how the rows were collected"
            )
        return diagnose_file(
            self._folder / TRAINING_FILE, label=self.schema.label, mechanism=self.mechanism,
            drawn_from=drawn_from_rows(self._desk.record.configuration),
        )  # fmt: skip

    def transcript(self) -> Transcript:
        """All questions and answers in order, with the numbers that `ask` returned, in each question's own units.

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
        return self._transcript(self._desk.entries(self._desk.head().sequence))

    def readings(self, rows: Sequence[Mapping[str, Any]]) -> list[Reading | None]:
        """Units of rows of the transcript, in their order; None of a choice, a challenge and the like."""
        numbers = [row["sequence"] for row in rows] or [1]
        found = self._desk.ledger.entries(min(numbers) - 1, max(numbers) - min(numbers) + 1)
        kept = {each.sequence: Reading.kept(each.description) for each in found}
        return [kept.get(row["sequence"]) for row in rows]

    def model_names(self, *, asked_by: str | None = None) -> dict[str, str]:
        """Names of the models of gates and submissions, by their SHA-256; free of charge.

        Args:
            asked_by: Only of what this analyst proposed; by default of all.
        """
        entries = self._desk.entries(self._desk.head().sequence)
        own = (entry for entry in entries if asked_by is None or entry.description.get(ANALYST) == asked_by)
        return model_names(own)

    def _transcript(self, every: Sequence[Entry]) -> Transcript:
        told, step = disclosed(every), self.mechanism.row_step

        def unsealed(entry: Entry) -> tuple[float | None, ...]:
            return as_row(entry, told[entry.sequence]) if entry.sequence in told else _NOT_KEPT

        entries = [entry for entry in every if entry.answer["source"] not in ACTS]
        named = any(ANALYST in entry.description for entry in entries)
        if self._desk.analyst is not None:
            entries = [entry for entry in entries if entry.description.get(ANALYST) == self._desk.analyst]
        some = {name: None for name in _SOME if any(name in entry.answer for entry in entries)}
        about = [about_of(self.schema, by_position=ABOUT in entry.description) for entry in entries]
        contest = self._competition is not None

        def no_guess(answer: Mapping[str, Any]) -> dict[str, None]:
            """In a competition a team's guess is no score, so the transcript has its interval alone."""
            return dict.fromkeys(_GUESSES & answer.keys()) if contest and not is_score(answer["source"]) else {}

        rows = (
            {
                "sequence": entry.sequence,
                "asked_at": entry.asked_at,
                "question": entry.question,
                "asked": entry.description["shown"],
                **some,
                **{name: entry.answer[name] for name in _TOLD if name in entry.answer},
                **no_guess(entry.answer),
                **(dict(zip(UNSEALED, unsealed(entry), strict=True)) if told else {}),
                "charged": entry.charged,
                **({ANALYST: entry.description.get(ANALYST)} if named else {}),
                **({ABOUT: meant} if any(about) else {}),
            }
            for entry, meant in zip(entries, about, strict=True)
        )
        return Transcript([
            in_own_units(row, entry.description, row_step=step) for row, entry in zip(rows, entries, strict=True)
        ])  # fmt: skip

    def news(self, after: int = 0, *, limit: int = 1_000) -> News:
        """What happened after an entry of the ledger, and how much is left; without any value, and free.

        Args:
            after: Number of the last entry that is known already.
            limit: Read at most so many entries.
        """
        return news(self._desk, after, limit=limit)

    def spent(self, *, delta: float = 1e-6) -> Spending:
        """How much the answers so far have told about any one sealed row, as differential privacy; free of charge.

        Args:
            delta: In (0, 1).

        Raises:
            ValueError: If delta is outside (0, 1).
        """
        head = self._desk.head()
        entries = self._desk.entries(head.sequence)
        simulated = self._desk.record.configuration["seed"] is not None
        return spending(self.mechanism, self._desk.state_from(head.state), entries, delta=delta, simulated=simulated)

    def certificate(
        self,
        answers: Mapping[str, Choice] | Sequence[Choice] = (),
        *,
        queries: bool = True,
        timestamp: Timestamper | str | None = None,
    ) -> Certificate:
        """What is promised, for which rows and why, and what was asked and spent so far; signed by the steward.

        The whole ledger is checked first. Of one with more than 20,000 entries those are read again that came after the
        latest checkpoint, which this and ``everhold ledger verify`` leave behind; then the certificate says so.

        Args:
            answers: What the first page shows, by the name that it gets there: ``{"model B": answer}``. An answer, the
                question itself (also one that is made of several), or its id in the transcript: ``sequence`` or
                ``question``. All intervals hold at once, so they may be chosen with all answers in hand; the page says
                how many questions there were.
            queries: Whether all queries are listed, with their answers; of more than 2,000 there is no list.
            timestamp: Who states when it was signed: the URL of a time-stamping authority (RFC 3161), or a function
                from a SHA-256 digest to its token, in DER. Needs the extra ``timestamp``. Nobody by default.

        Raises:
            IntegrityError: If the ledger is not what was written, or rows that stay in an engine are not what was
                sealed, or the token is about something else: nothing is signed then.
            QueryRejected: If an answer is not in the ledger, or is no number with an interval.
            ValueError: If a name cannot be used, or the same answer or name is there twice.
            EverholdError: If the authority cannot be reached, or the package is missing.
        """
        from everhold.certificate import TimestampAuthority, make_certificate

        stamper = TimestampAuthority(timestamp) if isinstance(timestamp, str) else timestamp
        desk, head = self._desk, self._desk.head()
        with progress("certifying"):
            if self._engine is not None:
                check_pinned(self._engine, desk.record.configuration, desk.key)
            checked = check_unaltered(desk.store, desk.record.name, head, seal_key=desk.key.seal_key)
            told = disclosed_at(desk, checked.tally.unsealing)
            listed = (
                listed_queries(desk, last=head.sequence, told=told) if queries and head.asked <= MOST_LISTED else None
            )
        return make_certificate(
            desk.record, mechanism=desk.mechanism, head=head, tally=checked.tally, since=checked.since, key=desk.key,
            also_sealed_as=also_sealed_as(desk.store, desk.record),
            gates=certified_gates(head.accounts, checked.tally.promotions),
            answers=chosen_answers(desk, answers, last=head.sequence, told=told),
            competition=None if self._competition is None else certified_competition(self._contest()),
            queries=listed, timestamp=stamper,
        )  # fmt: skip


def _opened(kind: type[Holdout], storage: str, name: str, analyst: str | None) -> Holdout:
    """A holdout that was pickled: nothing but its address and its names travelled."""
    holdout = kind.open(storage, name)
    return holdout if analyst is None else holdout.analyst(analyst)
