"""The append-only record: spending, state and the exact answer are committed together before they are returned."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import text
from sqlalchemy.pool import QueuePool

from everhold.errors import EverholdError, HoldoutNotFound, HoldoutRejected, IntegrityError
from everhold.ledger import statements
from everhold.ledger.chain import canonical
from everhold.ledger.completeness import AllQuestions
from everhold.ledger.database import connect, database_errors, database_path, migrate
from everhold.ledger.head_file import Reached
from everhold.ledger.records import Committed, Entry, Head, HoldoutRecord, Outcome, Question

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Self, TypeAlias

    from sqlalchemy import Connection, Engine

    from everhold.ledger.head_file import HeadFile

    Step: TypeAlias = Callable[[dict[str, Any], list[int]], tuple[dict[str, Any], Sequence[Outcome | None]]]

__all__ = ["LedgerStore", "Snapshot"]

_PAGE_SIZE = 1_000
_FINGERPRINT = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The raw rows of one holdout at one moment, for checking.

    Attributes:
        holdout: The row of the table `holdouts`.
        head: The row of the table `head`.
        entries: The rows of the table `entries`, by sequence; to be read once, while the snapshot is open.
        damage: What the database itself finds wrong with its file, in words; empty if all is well.
    """

    holdout: Mapping[str, Any]
    head: Mapping[str, Any]
    entries: Iterator[Mapping[str, Any]]
    damage: tuple[str, ...]


class LedgerStore:
    """All holdouts of one database; made by `LedgerStore.open`.

    Safe to share between threads, to use from many processes, to pickle, and to use after a fork.
    """

    def __init__(self, path: Path, *, patience: float) -> None:
        self._path = path
        self._patience = patience
        self._engine = self._connect()
        self._in_use = False
        self._busy_at_fork = False
        _open_stores.add(self)

    @classmethod
    def open(cls, url: str, *, create: bool = True, patience: float = 30.0) -> LedgerStore:
        """Open the database at `url`, and create or migrate it if need be.

        Args:
            url: Such as ``sqlite:///study.db``.
            create: Whether a missing file is created.
            patience: Seconds to wait while another process writes.

        Raises:
            ValueError: If `url` is not the address of an SQLite file.
            HoldoutNotFound: If the file is missing and `create` is false.
            IntegrityError: If the file is damaged or is not a ledger.
            EverholdError: If the file cannot be opened, or was written by a newer everhold.
        """
        path = database_path(url)
        if not create and not path.exists():
            raise HoldoutNotFound(f"there is no ledger at {path}; check the address, or create a holdout there first")
        store = cls(path, patience=patience)
        try:
            migrate(store._engine, create=create)
        except BaseException:
            store.close()
            raise
        return store

    def __repr__(self) -> str:
        return f"LedgerStore({str(self._path)!r})"

    def __reduce__(self) -> tuple[Callable[..., LedgerStore], tuple[Path, float]]:
        return _reopen, (self._path, self._patience)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all idle connections; the store opens new ones if it is used again."""
        self._engine.dispose()

    def create(
        self,
        name: str,
        configuration: dict[str, Any],
        state: dict[str, Any],
        *,
        seal_key: bytes,
        head_file: Callable[[str], HeadFile] | None = None,
    ) -> HoldoutRecord:
        """Record a new holdout with the mechanism's first state.

        Args:
            name: Unique in this database; 1 to 200 printable characters.
            configuration: Public facts, plain JSON data; never altered afterwards.
            state: The mechanism's first state (secret), plain JSON data.
            seal_key: The steward's key for the keyed seals.
            head_file: From the new identifier to the file that keeps the newest head.

        Raises:
            HoldoutRejected: If the name is taken or is not usable.
            ValueError: If configuration or state is not plain JSON data.
        """
        if not 1 <= len(name) <= 200 or not name.isprintable():
            raise HoldoutRejected(
                "the holdout's name is not usable; expected 1 to 200 printable characters; nothing was created"
            )
        record = HoldoutRecord(secrets.token_hex(16), name, statements.now(), json.loads(canonical(configuration)))
        state = json.loads(canonical(state))
        with database_errors(), self._transaction(writing=True) as connection:
            if name in connection.scalars(statements.NAMES).all():
                raise HoldoutRejected(
                    f"there is a holdout named {name!r} already; expected a new name; nothing was created", name=name
                )
            head = statements.insert_holdout(connection, record, state, seal_key=seal_key)
            if head_file is not None:
                head_file(record.id).create(Reached.of(head))
        return record

    def names(self) -> list[str]:
        """The names of all holdouts, sorted."""
        with database_errors(), self._transaction() as connection:
            return list(connection.scalars(statements.NAMES))

    def record(self, name: str) -> HoldoutRecord:
        """The holdout of that name.

        Raises:
            HoldoutNotFound: If there is none; the message lists the names that exist.
        """
        with database_errors(), self._transaction() as connection:
            return statements.read_holdout(statements.find_holdout(connection, name))

    def head(self, holdout_id: str, *, seal_key: bytes | None = None, head_file: HeadFile | None = None) -> Head:
        """Where the ledger of that holdout stands.

        Args:
            holdout_id: From `record`.
            seal_key: The steward's key, to check the head's seal; None believes the database.
            head_file: The newest head that is known; nothing older is returned, and it follows a newer one.

        Raises:
            HoldoutNotFound: If there is no such holdout.
            IntegrityError: If the head was altered or set back.
        """
        known = None if head_file is None else head_file.read()  # first: the database is never behind it
        with database_errors(), self._transaction() as connection:
            if seal_key is None:
                return statements.read_head(statements.find_head(connection, holdout_id))
            head = statements.sealed_head(connection, holdout_id, seal_key=seal_key)
            if head_file is not None and known is not None:
                statements.check_reached(connection, holdout_id, head, known, seal_key=seal_key)
        if head_file is not None and known is not None and Reached.of(head) != known:
            head_file.advance(head)
        return head

    def find(self, holdout_id: str, question: str, *, seal_key: bytes) -> Entry | None:
        """The entry that answered the question with that fingerprint, or None.

        Raises:
            IntegrityError: If the entry was altered.
        """
        with database_errors(), self._transaction() as connection:
            wanted = {"holdout": holdout_id, "fingerprint": question}
            row = connection.execute(statements.ENTRY, wanted).first()
        return None if row is None else statements.read_entry(row._asdict(), seal_key=seal_key)

    def answered(self, holdout_id: str, questions: Sequence[Question], *, seal_key: bytes) -> set[str]:
        """Fingerprints of those questions that have an entry."""
        with database_errors(), self._transaction() as connection:
            return set(statements.answered(connection, holdout_id, questions, seal_key=seal_key))

    def entries(self, holdout_id: str, start: int = 0, limit: int | None = None, *, seal_key: bytes) -> Iterator[Entry]:
        """The entries in order, read page by page; nothing stays locked in between.

        Args:
            holdout_id: From `record`.
            start: How many entries to leave out at the beginning.
            limit: At most so many; None for all.
            seal_key: The steward's key.

        Raises:
            IntegrityError: If an entry was altered.
        """
        end = None if limit is None else start + limit
        while end is None or start < end:
            size = _PAGE_SIZE if end is None else min(end - start, _PAGE_SIZE)
            with database_errors(), self._transaction() as connection:
                page = {"holdout": holdout_id, "after": start, "size": size}
                rows = connection.execute(statements.PAGE, page).all()
            yield from (statements.read_entry(row._asdict(), seal_key=seal_key) for row in rows)
            if len(rows) < size:
                return
            start += size

    def commit(
        self,
        holdout_id: str,
        questions: Sequence[Question],
        step: Step,
        *,
        seal_key: bytes,
        head_file: HeadFile | None = None,
    ) -> list[Committed | None]:
        """Answer questions and record the answers in one durable transaction.

        Writers take turns: while `step` runs, nobody else writes. If it raises, nothing is recorded and its exception
        comes out unchanged.

        Args:
            holdout_id: From `record`.
            questions: In the order asked; repeats, also within the batch, are free.
            step: ``step(state, indices)`` gets the current state and the positions of the new questions, and returns
                the new state and one outcome for each, None for a question that is left out: nothing is recorded
                about it, and it can be asked again. Called once, or not at all if every question is a repeat.
            seal_key: The steward's key.
            head_file: The newest head that is known. If the database is older, nothing is answered, stored answers
                included; if it is newer, the file follows before this returns.

        Returns:
            One `Committed` for each question, in the order asked; None where it was left out.

        Raises:
            HoldoutNotFound: If there is no such holdout.
            IntegrityError: If the head or a stored answer does not carry this key's seal, an entry is missing, or the
                database was set back.
            ValueError: If a fingerprint, a description or what `step` returned is malformed; nothing is recorded.
        """
        _check_questions(questions)
        with self._transaction(writing=True) as connection:
            with database_errors():
                head = statements.sealed_head(connection, holdout_id, seal_key=seal_key, locked=True)
                reached = None if head_file is None else head_file.read()
                if reached is not None:
                    statements.check_reached(connection, holdout_id, head, reached, seal_key=seal_key)
                everything = AllQuestions.checked(connection, holdout_id, head)
                known = statements.answered(connection, holdout_id, questions, seal_key=seal_key)
            fresh = _first_positions(questions, known)
            charges: dict[int, int] = {}
            state = head.state
            if fresh:
                new_state, outcomes = step(head.state, list(fresh))
                taken = _taken(fresh, outcomes)
                if taken:
                    state = json.loads(canonical(new_state))
                    new = [questions[index] for index in taken]
                    everything = everything.and_then(question.fingerprint for question in new)
                    with database_errors():
                        head, added = statements.append(
                            connection, holdout_id, head, new, list(taken.values()), state,
                            questions_hash=everything.hash, seal_key=seal_key,
                        )  # fmt: skip
                    known |= added
                    everything.remember(connection, holdout_id)
                charges = {index: outcome.charged for index, outcome in taken.items()}
        if head_file is not None and reached is not None and Reached.of(head) != reached:
            head_file.advance(head)
        in_order = (known.get(question.fingerprint) for question in questions)
        return [
            None
            if entry is None
            else Committed(entry[0], json.loads(entry[1]), charges.get(index, 0), index not in charges, state)
            for index, entry in enumerate(in_order)
        ]

    @contextlib.contextmanager
    def snapshot(self, name: str) -> Iterator[Snapshot]:
        """All rows of one holdout as of one moment, unparsed; writers are not held up meanwhile.

        Raises:
            HoldoutNotFound: If there is no such holdout.
            IntegrityError: If the file is damaged.
        """
        with self._transaction() as connection:
            with database_errors():
                holdout = statements.find_holdout(connection, name)
                head = statements.find_head(connection, holdout["id"], missing=IntegrityError)
                damage = tuple(connection.scalars(text("PRAGMA integrity_check(10)")))
            rows = _stream(connection, holdout["id"])
            yield Snapshot(holdout, head, rows, () if damage == ("ok",) else damage)

    @contextlib.contextmanager
    def _transaction(self, *, writing: bool = False) -> Iterator[Connection]:
        if self._busy_at_fork:
            raise EverholdError(
                "this process was forked while the ledger was in use, so it cannot use it safely; "
                "expected a spawned process; use the start method 'spawn' or 'forkserver'"
            )
        engine = self._engine.execution_options(begin="BEGIN IMMEDIATE") if writing else self._engine
        with contextlib.ExitStack() as stack:
            with database_errors():
                connection = stack.enter_context(engine.connect())
                transaction = connection.begin()
            yield connection
            with database_errors():
                transaction.commit()

    def _connect(self) -> Engine:
        engine = connect(self._path, patience=self._patience)
        weakref.finalize(self, engine.dispose)
        return engine

    def _before_fork(self) -> None:
        # SQLite counts locks per process: a child that inherited open files would take the parent's locks for its own.
        self._in_use = _connections_in_use(self._engine) > 0
        self._engine.dispose()

    def _after_fork_in_child(self) -> None:
        self._busy_at_fork |= self._in_use
        _left_to_parent.append(self._engine)
        self._engine = self._connect()


_open_stores: weakref.WeakSet[LedgerStore] = weakref.WeakSet()
_left_to_parent: list[Engine] = []  # never closed in a child: closing would touch the parent's files


def _before_fork() -> None:
    for store in list(_open_stores):
        store._before_fork()


def _after_fork_in_child() -> None:
    for store in list(_open_stores):
        store._after_fork_in_child()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)


def _connections_in_use(engine: Engine) -> int:
    pool = engine.pool
    return pool.checkedout() if isinstance(pool, QueuePool) else 0


def _reopen(path: Path, patience: float) -> LedgerStore:
    store = LedgerStore(path, patience=patience)
    migrate(store._engine, create=False)
    return store


def _stream(connection: Connection, holdout_id: str) -> Iterator[Mapping[str, Any]]:
    with database_errors():
        for row in connection.execute(statements.ALL_ENTRIES, {"holdout": holdout_id}):
            yield row._asdict()


def _first_positions(questions: Sequence[Question], known: Mapping[str, object]) -> list[int]:
    """Positions of the questions that are neither answered already nor asked earlier in the batch."""
    first: dict[str, int] = {}
    for index, question in enumerate(questions):
        if question.fingerprint not in known:
            first.setdefault(question.fingerprint, index)
    return list(first.values())


def _check_questions(questions: Sequence[Question]) -> None:
    for question in questions:
        if not _FINGERPRINT.fullmatch(question.fingerprint):
            raise ValueError("a question's fingerprint is not a SHA-256; expected 64 lower-case hexadecimal digits")


def _taken(fresh: Sequence[int], outcomes: Sequence[Outcome | None]) -> dict[int, Outcome]:
    """The outcomes that are to be recorded, by position of their question."""
    if len(outcomes) != len(fresh):
        raise ValueError(f"the step gave {len(outcomes)} outcomes; expected {len(fresh)}, one for each new question")
    taken = {index: outcome for index, outcome in zip(fresh, outcomes, strict=True) if outcome is not None}
    for outcome in taken.values():
        if type(outcome.charged) is not int or outcome.charged < 0:
            raise ValueError("the step charged something else than an integer >= 0; nothing was recorded")
    return taken
