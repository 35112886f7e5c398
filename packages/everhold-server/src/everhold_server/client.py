"""Ask from elsewhere: a holdout behind a service, with the methods and results of one on this machine.

    >>> import everhold as eh
    >>> with eh.connect("https://holdout.example", "flights", token="eh_...") as holdout:  # doctest: +SKIP
    ...     print(holdout.ask("arr_delay > 15"))

Queries travel as text and numbers, never as code (`everhold_server.wire`); predictions travel as tables. Errors are
those that the same call raises on this machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload
from urllib.parse import quote as escaped

from everhold.answers import Answer
from everhold.arguments import brief
from everhold.asking.declared import DeclaredFamilies
from everhold.certificate import Certificate
from everhold.errors import HoldoutRejected, QueryRejected, warn_former
from everhold.families.base import Family
from everhold.families.protocol import written as as_plain
from everhold.queries.question import Query
from everhold_server.client_gates import (
    RemoteCaseGate,
    RemoteGate,
    RemoteOpenChallenge,
    check_strict,
    gate_of,
    metric_of,
    models_of,
    opened_case_gate,
    plain,
)
from everhold_server.wire.answers import result_from
from everhold_server.wire.connection import Connection, Part
from everhold_server.wire.questions import written
from everhold_server.wire.row_files import row_files
from everhold_server.wire.table_parts import PARQUET_TYPE, parquet_of

if TYPE_CHECKING:
    from typing import Self

    import httpx

    from everhold.answers import QuotedPrice, Transcript, Unsealed
    from everhold.asking.appending import Arrived
    from everhold.asking.budget import Allotments
    from everhold.asking.drift import Drift
    from everhold.asking.over_time import OverTime
    from everhold.display import Facts
    from everhold.ledger.allotments import Allotment
    from everhold.queries.means import RowwiseQuery
    from everhold.queries.predictions import PredictionTable
    from everhold.sealing.reading import RowSource
    from everhold.values.base import Schema
    from everhold_competitions.leaderboard import Leaderboard
    from everhold_competitions.submission_result import FormatReport, Submission

__all__ = [
    "RemoteCaseGate", "RemoteCompetition", "RemoteFamilies", "RemoteGate", "RemoteHoldout", "RemoteOpenChallenge",
    "connect", "create", "holdouts",
]  # fmt: skip

Result = TypeVar("Result")

_FORMER_METHODS = {"submit": "submit", "check_submission": "check", "leaderboard": "leaderboard"}


def connect(
    address: str | None = None, name: str = "holdout", *, token: str | None = None, insecure: bool = False,
    timeout: float = 300.0, transport: httpx.BaseTransport | None = None,
) -> RemoteHoldout:  # fmt: skip
    """A holdout of a service elsewhere, with ``everhold serve``.

    Args:
        address: Such as ``"https://holdout.example"``; by default the environment variable ``EVERHOLD_URL``.
        name: Of the holdout.
        token: Such as ``"eh_..."``, from the steward; by default the environment variable ``EVERHOLD_TOKEN``, which is
            sent to the service of ``EVERHOLD_URL`` only, if that is set. It says on whose behalf is asked, and is sent
            to this address alone, never shown and never pickled.
        insecure: Send the token without TLS to another machine than this one; also ``EVERHOLD_INSECURE=1``.
        timeout: Seconds to wait for a response. A question that got none is asked again, which is free.
        transport: How httpx sends requests; for tests.

    Raises:
        HoldoutNotFound: If there is no such holdout for this token.
        AuthError: If the token is not valid, or would travel in the clear.
        EverholdError: If the service cannot be reached.
        ValueError: If it is no address.
        ModuleNotFoundError: If the extra ``client`` is not installed.
    """
    connection = Connection(address, token=token, insecure=insecure, timeout=timeout, transport=transport)
    try:
        return RemoteHoldout(connection, name)
    except BaseException:
        connection.close()
        raise


def holdouts(connection: Connection) -> list[dict[str, Any]]:
    """The holdouts of a service that a token may see, each in public facts."""
    found: list[dict[str, Any]] = connection.get("/holdouts")["holdouts"]
    return found


def create(
    connection: Connection, name: str, *, holdout: RowSource, training: RowSource | None = None, **settings: Any
) -> RemoteHoldout:
    """Seal rows in a service; for stewards.

    Args:
        connection: To the service.
        name: Of the holdout.
        holdout: The rows to seal, as for `Holdout.create`. A file stays where it is: put it away.
        training: Open rows.
        settings: As for `Holdout.create`; those that are None are left out. An API knows them by their flat names.

    Raises:
        HoldoutRejected: If the rows cannot be sealed. Nothing was created.
    """
    from everhold.sealing.settings import flat_settings

    document = {key: value for key, value in flat_settings(settings).items() if value is not None}
    if hasattr(document.get("dependence"), "to_dict"):
        document["dependence"] = document["dependence"].to_dict()
    if document.get("declared") is not None:
        document["declared"] = _families(document["declared"])
    with row_files(holdout=holdout, training=training) as files:
        connection.send("POST", "/holdouts", {"name": name, **document}, files, named="settings")
    return RemoteHoldout(connection, name)


def _families(given: Any) -> dict[str, Any]:
    """Families as plain data, with names."""
    several = [given] if isinstance(given, Family) else given
    named = several if isinstance(several, Mapping) else {f"family {n}": each for n, each in enumerate(several, 1)}
    return {name: as_plain(family) for name, family in named.items()}


class RemoteHoldout:
    """A holdout of a service; made by `connect`. Its methods are those of `Holdout`, which say what they do."""

    def __init__(self, connection: Connection, name: str) -> None:
        """Use `connect` instead."""
        self._connection, self._name = connection, name
        self._path = f"/holdouts/{escaped(name, safe='')}"
        self._schema: Schema = result_from(self._described().get("schema", {}))

    def __repr__(self) -> str:
        return f"RemoteHoldout({self._name!r}, address={self._connection.address!r}, rows={self._schema.rows})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __deepcopy__(self, _: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, tuple[Connection, str]]:
        return type(self), (self._connection, self._name)

    def _repr_html_(self) -> str:
        return self.status()._repr_html_()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _described(self) -> dict[str, Any]:
        return self._connection.get(self._path)

    @property
    def name(self) -> str:
        """The holdout's name."""
        return self._name

    @property
    def schema(self) -> Schema:
        """See `Holdout.schema`."""
        return self._schema

    @property
    def promised(self) -> str:
        """The promise, in a sentence."""
        return str(self._described()["promise"])

    @property
    def remaining(self) -> dict[str, int]:
        """Remaining budget, by name; for an analyst, that of the allotment."""
        return dict(self._described()["remaining"])

    def status(self) -> Facts:
        """See `Holdout.status`; an analyst sees no allotment but their own."""
        facts: Facts = result_from(self._described()["status"])
        return facts

    @overload
    def ask(
        self, question: str, *, guess: float | None = None, tolerance: float | None = None, strict: bool = False,
        silent: bool = False, as_of: int | None = None,
    ) -> Answer: ...  # fmt: skip
    @overload
    def ask(
        self, question: Query[Result], *, guess: float | None = None, tolerance: float | None = None,
        strict: bool = False, silent: bool = False, as_of: int | None = None,
    ) -> Result: ...  # fmt: skip
    def ask(
        self, question: Query[Any] | str, *, guess: float | None = None, tolerance: float | None = None,
        strict: bool = False, silent: bool = False, as_of: int | None = None,
    ) -> Any:  # fmt: skip
        """See `Holdout.ask`. Where the first response was lost, the answer comes as a repeated one, at no charge.

        If rows arrived between the two attempts, the second one is a new query about more rows, and pays.

        Raises:
            QueryRejected: Also for questions that hold Python code or an estimator, which do not travel.
        """
        asked, tables = written(question)
        document: dict[str, Any] = {
            "question": asked,
            "guess": plain(guess),
            "tolerance": plain(tolerance),
            "silent": silent,
        }
        document |= {} if as_of is None else {"as_of": as_of}
        answer = result_from(self._send("/ask", document, tables))
        check_strict(answer, strict)
        return answer

    def ask_many(
        self,
        questions: Sequence[RowwiseQuery | str],
        *,
        guesses: Sequence[float | None] | None = None,
        silent: bool = False,
        reveal: Literal["checked", "all"] = "checked",
    ) -> list[Answer]:
        """See `Holdout.ask_many`."""
        tables: dict[str, PredictionTable] = {}
        several = [written(question, tables)[0] for question in questions]
        given = None if guesses is None else [plain(guess) for guess in guesses]
        document: dict[str, Any] = {"questions": several, "guesses": given, "silent": silent}
        if reveal != "checked":  # which earlier services do not know
            document["reveal"] = reveal
        return [result_from(answer) for answer in self._send("/ask-many", document, tables)["answers"]]

    def compare(
        self, first: Any, second: Any, metric: Any = "accuracy", *, guess: float, where: str | None = None,
        strict: bool = False, silent: bool = False,
    ) -> Any:  # fmt: skip
        """See `Holdout.compare`, for predictions: arrays or tables; models are fitted where the training rows are."""
        from everhold.queries.difference import difference
        from everhold.queries.slices import in_slice, of_predictions

        asked = difference(of_predictions(metric, first), of_predictions(metric, second))
        return self.ask(in_slice(asked, where, guessed=True), guess=guess, strict=strict, silent=silent)

    def quote(
        self, question: Query[Any] | str | None = None, *, guess: float | None = None, tolerance: float | None = None
    ) -> QuotedPrice:
        """See `Holdout.quote`."""
        asked, tables = (None, {}) if question is None else written(question)
        document = {"question": asked, "guess": plain(guess), "tolerance": plain(tolerance)}
        price: QuotedPrice = result_from(self._send("/quote", document, tables))
        return price

    def transcript(self) -> Transcript:
        """See `Holdout.transcript`; an analyst sees what was new of theirs."""
        entries: Transcript = result_from(self._connection.get(f"{self._path}/transcript"))
        return entries

    def certificate(
        self, answers: Mapping[str, Any] | Sequence[Any] = (), *, queries: bool = True, timestamp: object | None = None
    ) -> Certificate:
        """See `Holdout.certificate`; only the steward's lists queries, and no trusted time is added from here.

        Raises:
            QueryRejected: If a time is wished for, or an answer is given as a question.
        """
        if timestamp is not None:
            raise QueryRejected(
                "a trusted time is added where the certificate is signed; expected no timestamp from elsewhere; ask "
                "the steward to save it with one; nothing was signed"
            )
        named = answers if isinstance(answers, Mapping) else {_shown(answer): answer for answer in answers}
        chosen = [f"{_choice(answer)}={label}" for label, answer in named.items()]
        wished = {"format": "json", "answer": chosen, **({} if queries else {"queries": "false"})}
        document = self._connection.get(f"{self._path}/certificate", wished)
        return Certificate(document)

    @property
    def competition(self) -> RemoteCompetition:
        """The competition that the holdout was created for."""
        return RemoteCompetition(self)

    def __getattr__(self, name: str) -> Any:
        """A method that was moved."""
        if (now := _FORMER_METHODS.get(name)) is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        warn_former(f"RemoteHoldout.{name} is now holdout.competition.{now}.")
        return getattr(self.competition, now)

    def gate(
        self, metric: Any = None, *, champion: Any = None, margin: float = 0.0, challenges: int | None = None,
        name: str = "gate", training: Any = None, better: str | None = None, any_of: Sequence[str] | None = None,
        **claims: Any,
    ) -> Any:  # fmt: skip
        """See `Holdout.gate`; a champion is named by the steward.

        Args:
            metric: `accuracy`, `error`, `brier` or their names; or a loss with its range, as
                ``functools.partial(eh.risk, loss="absolute", high=60)``.
            champion: A rule or predictions.
            margin: As for `Holdout.gate`.
            challenges: As for `Holdout.gate`.
            name: As for `Holdout.gate`.
            training: As for `Holdout.gate`.
            better: Makes a gate about cases, as for `Holdout.gate`; it returns a `RemoteCaseGate`.
            any_of: As for `Holdout.gate`.
            **claims: Of a gate about cases, as for `Holdout.gate`.
        """
        if champion is None:
            return gate_of(self, name)
        if better is not None or any_of is not None:
            return opened_case_gate(
                self, name, champion=champion, better=better, any_of=any_of, margin=margin, challenges=challenges,
                **claims,
            )  # fmt: skip
        document, tables = models_of(champion=champion, training=training)
        document |= {"name": name, "metric": metric_of(metric), "margin": plain(margin), "challenges": challenges}
        self._send("/gates", document, tables)
        return RemoteGate(self, name)

    def unseal(self) -> Unsealed:
        """See `Holdout.unseal`; for stewards."""
        unsealed: Unsealed = result_from(self._send("/unseal", {"confirm": self._name}))
        return unsealed

    def losing_their_promise(self) -> list[str]:
        """See `Holdout.losing_their_promise`."""
        return list(self._connection.get(f"{self._path}/unseal")["losing_their_promise"])

    def append(
        self, rows: RowSource | None = None, training: RowSource | None = None, *, until: str | None = None
    ) -> Arrived:
        """See `Holdout.append`; for stewards. A lost response is asked for again, and nothing arrives twice.

        Args:
            rows: As for `Holdout.append`. A file stays where it is: put it away.
            training: Open rows.
            until: As for `Holdout.append`.

        Raises:
            HoldoutRejected: If the rows do not fit or are there already. Nothing was changed.
        """
        with row_files(rows=rows, training=training) as files:
            if not files:
                raise HoldoutRejected("there are no rows to append; expected rows; nothing was appended")
            sent = self._connection.send("POST", self._path + "/arrivals", {"until": until}, files, named="settings")
        arrived: Arrived = result_from(sent)
        self._schema = result_from(self._described().get("schema", {}))
        return arrived

    def over_time(
        self, question: Query[Any] | str, by: str | int = "arrival", *, law: str = "windows",
        guess: float | None = None,
    ) -> OverTime:  # fmt: skip
        """See `Holdout.over_time`."""
        asked, tables = written(question)
        document = {"question": asked, "by": by, "law": law, "guess": plain(guess)}
        found: OverTime = result_from(self._send("/over-time", document, tables))
        return found

    def drift(
        self, arrival: int | None = None, *, columns: Sequence[str] | None = None,
        also: Sequence[Query[Any] | str] = (),
    ) -> Drift:  # fmt: skip
        """See `Holdout.drift`."""
        tables: dict[str, PredictionTable] = {}
        asked = [written(query, tables)[0] for query in also]
        document = {"arrival": arrival, "columns": None if columns is None else list(columns), "also": asked}
        found: Drift = result_from(self._send("/drift", document, tables))
        return found

    def retire(self, before: int) -> Any:
        """See `Holdout.retire`; for stewards. A lost response is asked for again, and the same rows come back.

        Args:
            before: Number of an arrival at which a tree opened.

        Returns:
            The opened rows, as an Arrow table.

        Raises:
            QueryRejected: If no tree opened there. Nothing was changed.
        """
        from pyarrow import BufferReader, parquet

        sent = self._connection.download(self._path + "/retire", {"before": before}, media_type=PARQUET_TYPE)
        opened = parquet.read_table(BufferReader(sent))
        self._schema = result_from(self._described().get("schema", {}))
        return opened

    def timeline(self) -> list[dict[str, Any]]:
        """See `holdout.arrivals.timeline` of a `Holdout`."""
        rows: list[dict[str, Any]] = self._connection.get(f"{self._path}/arrivals")["arrivals"]
        return rows

    @property
    def declared(self) -> RemoteFamilies:
        """The declared families of the holdout."""
        return RemoteFamilies(self)

    def declare(self, name: str, family: Family) -> None:
        """See `Holdout.declare`; for stewards, and families of texts and means."""
        self.declare_all({name: family})

    def declare_all(self, families: Mapping[str, Family]) -> None:
        """See `Holdout.declare_all`; for stewards, and families of texts and means."""
        self._send("/families", {"families": _families(families)})

    def allot(self, analyst: str, *, questions: int, charges: int | None = None) -> Allotment:
        """See `Holdout.allot`; for stewards."""
        path = f"{self._path}/allotments/{escaped(str(analyst), safe='')}"
        document = {"questions": questions, "charges": charges}
        part: Allotment = result_from(self._connection.send("PUT", path, document))
        return part

    def allotments(self) -> Allotments:
        """See `Holdout.allotments`; for stewards."""
        found: Allotments = result_from(self._connection.get(f"{self._path}/allotments"))
        return found

    def _send(
        self, path: str, document: Mapping[str, Any], tables: Mapping[str, PredictionTable] | None = None
    ) -> dict[str, Any]:
        parts = {name: _sent(parquet_of(table, self._schema.row_id)) for name, table in (tables or {}).items()}
        return self._connection.send("POST", self._path + path, document, parts)


class RemoteFamilies:
    """Declared families of a holdout of a service; made by `RemoteHoldout.declared`."""

    def __init__(self, holdout: RemoteHoldout) -> None:
        """Use `RemoteHoldout.declared` instead."""
        self._holdout = holdout

    def families(self) -> DeclaredFamilies:
        """Each family with what it holds and how wide the interval of a member can be."""
        return DeclaredFamilies(self._holdout._connection.get(f"{self._holdout._path}/families")["families"])


class RemoteCompetition:
    """A competition of a service; made by `RemoteHoldout.competition`."""

    def __init__(self, holdout: RemoteHoldout) -> None:
        """Use `RemoteHoldout.competition` instead."""
        self._holdout = holdout

    def submit(
        self, predictions: Any, *, team: str | None = None, guess: float | None = None, training: Any = None
    ) -> Submission:
        """See `holdout.competition.submit` of a `Holdout`; an analyst hands in as who they are."""
        document, tables = models_of(predictions=predictions, training=training)
        document |= {"team": team, "guess": plain(guess)}
        received: Submission = result_from(self._holdout._send("/submissions", document, tables))
        return received

    def check(self, predictions: Any, *, team: str | None = None) -> FormatReport:
        """True if predictions would be received; nothing is."""
        document, tables = models_of(predictions=predictions)
        document |= {"team": team}
        report: FormatReport = result_from(self._holdout._send("/submissions/check", document, tables))
        return report

    def submissions(self) -> list[dict[str, Any]]:
        """See `holdout.competition.submissions` of a `Holdout`; an analyst gets those of the own team."""
        rows: list[dict[str, Any]] = self._holdout._connection.get(f"{self._holdout._path}/submissions")["submissions"]
        return rows

    def choose(self, *, number: int, team: str | None = None) -> None:
        """See `holdout.competition.choose` of a `Holdout`; an analyst chooses for the own team."""
        self._holdout._send("/submissions/final", {"number": number, "team": team})

    def leaderboard(self) -> Leaderboard:
        """Ranking of the teams; free."""
        found = self._holdout._connection.get(f"{self._holdout._path}/leaderboard")
        board: Leaderboard = result_from(found)
        return board


def _sent(content: bytes) -> Part:
    return lambda _: content


def _shown(answer: Any) -> str:
    return str(getattr(answer, "shown", "")) or str(answer)


def _choice(answer: Any) -> str | int:
    """An answer of the certificate as the transcript names it."""
    found = getattr(answer, "question", answer)
    if isinstance(found, bool) or not isinstance(found, (str, int)):
        raise QueryRejected(
            f"an answer is chosen as {brief(answer)}; expected an answer that was asked for, or its 'sequence' or "
            "'question' in the transcript; nothing was signed"
        )
    return found
