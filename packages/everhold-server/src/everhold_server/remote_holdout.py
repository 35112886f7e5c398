"""A holdout behind a service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload
from urllib.parse import quote as escaped

from everhold.answers import Answer
from everhold.arguments import brief, names_keywords
from everhold.asking.terms import USUAL_FIT, USUAL_GATE, AskTerms, GateTerms
from everhold.certificate import Certificate
from everhold.errors import QueryRejected
from everhold.families.base import Family
from everhold.queries.query import Query
from everhold_server.client_gates import (
    RemoteGate,
    check_strict,
    gate_of,
    metric_of,
    models_of,
    opened_case_gate,
    plain,
)
from everhold_server.client_parts import RemoteCompetition, RemoteFamilies, plain_families
from everhold_server.remote_arrivals import RemoteGrowingHoldout
from everhold_server.wire.answers import result_from
from everhold_server.wire.connection import Connection
from everhold_server.wire.queries import written

if TYPE_CHECKING:
    from typing import Self

    from everhold.answers import QuotedPrice, Transcript, Unsealed
    from everhold.asking.accounts.allotting import Allotments
    from everhold.display import Facts
    from everhold.ledger.allotments import Allotment
    from everhold.queries.means.batch import RowwiseQuery
    from everhold.queries.predictions.arrays import PredictionTable

Result = TypeVar("Result")


class RemoteHoldout(RemoteGrowingHoldout):
    """A holdout of a service; made by `connect`. Its methods are those of `Holdout`, which say what they do."""

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
        self, query: str, *, guess: float | None = None, tolerance: float | None = None, strict: bool = False,
        silent: bool = False, as_of: int | None = None,
    ) -> Answer: ...  # fmt: skip
    @overload
    def ask(
        self, query: Query[Result], *, guess: float | None = None, tolerance: float | None = None,
        strict: bool = False, silent: bool = False, as_of: int | None = None,
    ) -> Result: ...  # fmt: skip
    def ask(
        self, query: Query[Any] | str, *, guess: float | None = None, tolerance: float | None = None,
        strict: bool = False, silent: bool = False, as_of: int | None = None,
    ) -> Any:  # fmt: skip
        """See `Holdout.ask`. Where the first response was lost, the answer comes as a repeated one, at no charge.

        If rows arrived between the two attempts, the second one is a new query about more rows, and pays.

        Raises:
            QueryRejected: Also for queries that hold Python code or an estimator, which do not travel.
        """
        asked, tables = written(query)
        document: dict[str, Any] = {
            "query": asked,
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
        queries: Sequence[RowwiseQuery | str],
        *,
        guesses: Sequence[float | None] | None = None,
        silent: bool = False,
        reveal: Literal["checked", "all"] = "checked",
    ) -> list[Answer]:
        """See `Holdout.ask_many`."""
        tables: dict[str, PredictionTable] = {}
        several = [written(query, tables)[0] for query in queries]
        given = None if guesses is None else [plain(guess) for guess in guesses]
        document: dict[str, Any] = {"queries": several, "guesses": given, "silent": silent}
        if reveal != "checked":  # which earlier services do not know
            document["reveal"] = reveal
        return [result_from(answer) for answer in self._send("/ask-many", document, tables)["answers"]]

    @names_keywords(AskTerms, USUAL_FIT)
    def compare(
        self, first: Any, second: Any, metric: Any = "accuracy", *, guess: float, where: str | None = None,
        **asking: Unpack[AskTerms],
    ) -> Any:  # fmt: skip
        """See `Holdout.compare`, for predictions: arrays or tables; models are fitted where the training rows are."""
        from everhold.queries.metrics.difference import difference
        from everhold.queries.metrics.slices import in_slice, of_predictions

        asked = difference(of_predictions(metric, first), of_predictions(metric, second))
        return self.ask(in_slice(asked, where, guessed=True), guess=guess, **asking)

    def quote(
        self, query: Query[Any] | str | None = None, *, guess: float | None = None, tolerance: float | None = None
    ) -> QuotedPrice:
        """See `Holdout.quote`."""
        asked, tables = (None, {}) if query is None else written(query)
        document = {"query": asked, "guess": plain(guess), "tolerance": plain(tolerance)}
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
            QueryRejected: If a time is requested, or an answer is given as a query.
        """
        if timestamp is not None:
            raise QueryRejected(
                "a trusted time is added where the certificate is signed; expected no timestamp from elsewhere; ask "
                "the steward to save it with one; nothing was signed"
            )
        named = answers if isinstance(answers, Mapping) else {_shown(answer): answer for answer in answers}
        chosen = [f"{_choice(answer)}={label}" for label, answer in named.items()]
        requested = {"format": "json", "answer": chosen, **({} if queries else {"queries": "false"})}
        document = self._connection.get(f"{self._path}/certificate", requested)
        return Certificate(document)

    @property
    def competition(self) -> RemoteCompetition:
        """The competition that the holdout was created for."""
        return RemoteCompetition(self)

    @names_keywords(GateTerms, USUAL_GATE)
    def gate(
        self, metric: Any = None, *, champion: Any = None, name: str = "gate", **terms: Unpack[GateTerms]
    ) -> Any:  # fmt: skip
        """See `Holdout.gate`; a champion is named by the steward.

        Args:
            metric: A name such as ``"roc_auc"``; or a loss or a score with its range, as
                ``functools.partial(eh.risk, loss="absolute", high=60)`` or ``functools.partial(eh.metric, "r2",
                low=0, high=60)``.
            champion: A rule or predictions.
            name: As for `Holdout.gate`.
            **terms: As for `Holdout.gate`; ``better`` and ``any_of`` return a `RemoteCaseGate`.
        """
        if champion is None:
            return gate_of(self, name)
        given: dict[str, Any] = {**terms}
        training = given.pop("training", None)
        if given.get("better") is not None or given.get("any_of") is not None:
            return opened_case_gate(self, name, champion=champion, **given)
        document, tables = models_of(champion=champion, training=training)
        document |= {
            "name": name, "metric": metric_of(metric), "margin": plain(given.get("margin", 0.0)),
            "challenges": given.get("challenges"),
        }  # fmt: skip
        self._send("/gates", document, tables)
        return RemoteGate(self, name)

    def unseal(self) -> Unsealed:
        """See `Holdout.unseal`; for stewards."""
        unsealed: Unsealed = result_from(self._send("/unseal", {"confirm": self._name}))
        return unsealed

    def affected_holdouts(self) -> list[str]:
        """See `Holdout.affected_holdouts`."""
        return list(self._connection.get(f"{self._path}/unseal")["affected_holdouts"])

    @property
    def declared(self) -> RemoteFamilies:
        """The declared families of the holdout."""
        return RemoteFamilies(self)

    def declare(self, name: str, family: Family) -> None:
        """See `Holdout.declare`; for stewards, and families of texts and means."""
        self.declare_all({name: family})

    def declare_all(self, families: Mapping[str, Family]) -> None:
        """See `Holdout.declare_all`; for stewards, and families of texts and means."""
        self._send("/families", {"families": plain_families(families)})

    def allot(self, analyst: str, *, queries: int, charges: int | None = None) -> Allotment:
        """See `Holdout.allot`; for stewards."""
        path = f"{self._path}/allotments/{escaped(str(analyst), safe='')}"
        document = {"queries": queries, "charges": charges}
        part: Allotment = result_from(self._connection.send("PUT", path, document))
        return part

    def allotments(self) -> Allotments:
        """See `Holdout.allotments`; for stewards."""
        found: Allotments = result_from(self._connection.get(f"{self._path}/allotments"))
        return found


def _shown(answer: Any) -> str:
    return str(getattr(answer, "shown", "")) or str(answer)


def _choice(answer: Any) -> str | int:
    """An answer of the certificate as the transcript names it."""
    found = getattr(answer, "query", answer)
    if isinstance(found, bool) or not isinstance(found, (str, int)):
        raise QueryRejected(
            f"an answer is chosen as {brief(answer)}; expected an answer that was asked for, or its 'sequence' or "
            "'query' in the transcript; nothing was signed"
        )
    return found
