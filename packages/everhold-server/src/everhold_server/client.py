"""Client of the service: a `Holdout` whose operations are performed by a server.

    >>> import everhold as eh
    >>> with eh.connect("https://holdout.example", "flights", token="eh_...") as holdout:  # doctest: +SKIP
    ...     print(holdout.ask("arr_delay > 15"))

Queries travel as text and numbers, never as code (`everhold_server.wire`); predictions and rows travel as tables.
Errors are those that the same call raises on this machine.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote as escaped

from everhold.arguments import brief
from everhold.asking.declared import DeclaredFamilies
from everhold.errors import BudgetExhausted, QueryRejected
from everhold.holdout import Holdout
from everhold.operations import gates
from everhold.operations.accounts import ListFamilies
from everhold.operations.arrivals import ListArrivals
from everhold.operations.operation import (
    AnyMetric,
    AnyModel,
    AnyQuery,
    AnyResults,
    HoldoutOperation,
    Role,
    RowSource,
    Table,
    parameters,
    result_type,
)
from everhold.queries.metrics.row_scores import risk
from everhold.queries.metrics.scores import metric as scored
from everhold.queries.predictions.arrays import PredictionTable
from everhold_competitions.operations import COMPETITION_OPERATIONS
from everhold_server.wire.answers import received
from everhold_server.wire.connection import Connection, Part
from everhold_server.wire.files import PARQUET_TYPE, parquet_of, row_files
from everhold_server.wire.queries import plain_data, written, written_predictions, written_results

if TYPE_CHECKING:
    from contextlib import ExitStack

    import httpx

    from everhold.display import Facts
    from everhold.gates.challenge import Verdict
    from everhold.gates.checks import CheckVerdict
    from everhold.gates.gate import GateHistory
    from everhold.gates.open_challenge import Progress
    from everhold.gates.steps import ChallengeWorth
    from everhold.values.base import Schema

Result = TypeVar("Result")


def connect(
    address: str | None = None, name: str = "holdout", *, token: str | None = None, insecure: bool = False,
    timeout: float = 300.0, transport: httpx.BaseTransport | None = None,
) -> Holdout:  # fmt: skip
    """Return a holdout whose operations are performed by a service, started with ``everhold serve``.

    Args:
        address: URL of the service, such as ``"https://holdout.example"``. The default is the environment variable
            ``EVERHOLD_URL``.
        name: Name of the holdout.
        token: Token from the steward, such as ``"eh_..."``, which identifies the analyst. The default is the
            environment variable ``EVERHOLD_TOKEN``, whose token is sent only to the service of ``EVERHOLD_URL`` if that
            is set. No token is sent to another address, shown or pickled.
        insecure: Whether to send the token without TLS to a machine other than this one. ``EVERHOLD_INSECURE=1`` does
            the same.
        timeout: Seconds to wait for a response. A query without an answer is asked again, which is free.
        transport: Transport of httpx that sends the requests, for tests.

    Raises:
        HoldoutNotFound: If there is no such holdout for this token.
        AuthError: If the token is not valid, or would be sent without TLS.
        EverholdError: If the service cannot be reached.
        ValueError: If the address is not a URL.
        ModuleNotFoundError: If the extra ``client`` is not installed.
    """
    connection = Connection(address, token=token, insecure=insecure, timeout=timeout, transport=transport)
    try:
        return Holdout(HttpTransport(connection, name))
    except BaseException:
        connection.close()
        raise


def holdouts(connection: Connection) -> list[dict[str, Any]]:
    """Return the public facts of each holdout of a service that the token may see."""
    found: list[dict[str, Any]] = connection.get("/holdouts")["holdouts"]
    return found


def create(
    connection: Connection, name: str, *, holdout: RowSource, training: RowSource | None = None, **settings: Any
) -> Holdout:
    """Seal rows in a service, and return the new holdout. Needs a steward's token.

    Args:
        connection: Connection to the service.
        name: Name of the new holdout.
        holdout: The rows to seal, as for `Holdout.create`. The local file is not changed: store it away.
        training: Training rows, which are not sealed.
        settings: Settings of `Holdout.create`. Arguments that are None are not sent.

    Raises:
        HoldoutRejected: If the rows cannot be sealed. Nothing was created.
    """
    from everhold.families.base import Family
    from everhold.families.protocol import written as family_written
    from everhold.sealing.intake.request import flat_settings

    document = {key: value for key, value in flat_settings(settings).items() if value is not None}
    if hasattr(document.get("dependence"), "to_dict"):
        document["dependence"] = document["dependence"].to_dict()
    if (given := document.get("declared")) is not None:
        several: Any = [given] if isinstance(given, Family) else given
        named = several if isinstance(several, Mapping) else {f"family {n}": each for n, each in enumerate(several, 1)}
        document["declared"] = {key: family_written(family) for key, family in named.items()}
    with row_files(holdout=holdout, training=training) as files:
        connection.send("POST", "/holdouts", {"name": name, **document}, files, named="settings")
    return Holdout(HttpTransport(connection, name))


_WRITERS: Mapping[Any, Callable[[Any, dict[str, PredictionTable]], Any]] = {
    AnyQuery: lambda query, tables: written(query, tables)[0],
    AnyModel: written_predictions,
    AnyResults: lambda results, _: written_results(results),
    AnyMetric: lambda metric, _: metric_of(metric),
}
"""What arguments are as plain data; tables of predictions travel beside it."""


class HttpTransport:
    """Sends operations as requests to a service. Lost requests are repeated without a second effect.

    If rows arrived between two attempts to ask, the second attempt is a new query about more rows, and is charged.

    Args:
        connection: Connection to the service.
        name: Name of the holdout.
    """

    session = None  # the rows are elsewhere

    def __init__(self, connection: Connection, name: str) -> None:
        self.connection, self.name = connection, name
        self.path = f"/holdouts/{escaped(name, safe='')}"
        self._schema: Schema | None = None
        self.schema  # noqa: B018  whether there is such a holdout

    def __repr__(self) -> str:
        return f"{self.name!r}, address={self.connection.address!r}, rows={self.schema.rows}"

    def __reduce__(self) -> tuple[type[HttpTransport], tuple[Connection, str]]:
        return type(self), (self.connection, self.name)

    @property
    def schema(self) -> Schema:
        """Public facts about the rows."""
        if self._schema is None:
            self._schema = received(self.connection.get(self.path).get("schema", {}))
        return self._schema

    def perform(self, operation: HoldoutOperation[Result]) -> Result:
        """Send an operation to the service, and return its result.

        Raises:
            QueryRejected: If the operation works only where the sealed rows are, or contains Python code or an
                estimator, which are never sent. Nothing was charged.
        """
        kind = type(operation)
        method, _, place = kind.route.partition(" ")
        if not method:
            raise QueryRejected(
                f"{kind.verb} cannot be used through a service. Use Holdout.open on the machine that has the sealed "
                "rows."
            )
        known = {each.name: each for each in parameters(kind)}
        rows: dict[str, Any] = {}
        tables: dict[str, PredictionTable] = {}
        document: dict[str, Any] = {}
        for name, value in operation.travelling().items():
            write = next((_WRITERS[each] for each in _WRITERS if name in known and known[name].holds(each)), None)
            if name in known and known[name].holds(RowSource):
                rows[name] = value
            elif write is None or value is None:
                document[name] = plain_data(value)
            else:
                document[name] = [write(one, tables) for one in value] if known[name].several else write(value, tables)
        parts = {name: str(document.pop(name)) for name in known if f"{{{name}}}" in place}
        path = self.path + place.format(**{name: escaped(part, safe="") for name, part in parts.items()})
        found = operation.received(self._sent(method, path, document, rows, tables, part=kind.part, kind=kind))
        if kind.role is Role.STEWARD and kind.act:
            self._schema = None  # rows may have arrived
        if getattr(operation, "strict", False):
            check_strict(found, strict=True)
        return found

    def _sent(
        self, method: str, path: str, document: dict[str, Any], rows: dict[str, Any],
        tables: dict[str, PredictionTable], *, part: str, kind: type[HoldoutOperation[Any]],
    ) -> Any:  # fmt: skip
        if result_type(kind) is Table:
            from pyarrow import BufferReader, parquet

            content = self.connection.download(path, document, media_type=PARQUET_TYPE)
            return parquet.read_table(BufferReader(content))
        if method == "GET":
            said = self.connection.get(path, document)
        elif any(each.holds(RowSource) for each in parameters(kind)):
            with row_files(**rows) as files:
                said = self.connection.send(method, path, document, files, named="settings")
        else:
            said = self.send(path.removeprefix(self.path), document, tables, method=method)
        return received(said[part] if part else said)

    def send(
        self, path: str, document: Mapping[str, Any], tables: Mapping[str, PredictionTable] | None = None, *,
        method: str = "POST",
    ) -> dict[str, Any]:  # fmt: skip
        """Send a document and tables of predictions to a path below the holdout's, and return the response."""
        contents = {name: parquet_of(table, self.schema.row_id) for name, table in (tables or {}).items()}
        parts: dict[str, Part] = {name: partial(_content, content) for name, content in contents.items()}
        return self.connection.send(method, self.path + path, document, parts)

    def gate(self, name: str, metric: Any = None, **terms: Any) -> Any:
        """Return a gate of the holdout. A steward opens a new one by naming its first champion."""
        return open_gate(self, name, metric, **terms)

    def accessor(self, name: str) -> Any:
        """Return the remote counterpart of an extension of holdouts, or None if the service has none."""
        known: dict[str, Any] = {"competition": _Competition, "declared": _Families, "arrivals": _Arrivals}
        return known[name](self) if name in known else None

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


class _Competition:
    """The competition of a remote holdout, returned by `holdout.competition`, whose methods are its operations."""

    def __init__(self, transport: HttpTransport) -> None:
        self._transport = transport

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        operation = next((each for each in COMPETITION_OPERATIONS if each.verb == verb), None)
        if operation is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {verb!r}")

        def perform(*values: Any, **named: Any) -> Any:
            positional = zip((each.name for each in parameters(operation)), values, strict=False)
            return self._transport.perform(operation(**dict(positional), **named))

        return perform


class _Families:
    """The declared families of a remote holdout."""

    def __init__(self, transport: HttpTransport) -> None:
        self._transport = transport

    def families(self) -> DeclaredFamilies:
        """Return the declared families, each with its members and the widest interval of a member."""
        rows: list[dict[str, Any]] = self._transport.perform(ListFamilies())
        return DeclaredFamilies(rows)


class _Arrivals:
    """The arrivals of rows in a remote holdout."""

    def __init__(self, transport: HttpTransport) -> None:
        self._transport = transport

    def timeline(self) -> list[dict[str, Any]]:
        """Return the numbers of rows, the spent budget and half-widths at creation, at each arrival, and now."""
        return self._transport.perform(ListArrivals())


def _content(content: bytes, _: ExitStack) -> bytes:
    return content


def open_gate(transport: HttpTransport, name: str, metric: Any, *, champion: Any, **terms: Any) -> RemoteGate:
    """Return a gate of a holdout of a service.

    If a champion is given, a new gate is opened, which only stewards may do.

    Args:
        transport: Transport to the holdout.
        name: Name of the gate.
        metric: A name such as ``"roc_auc"``; or a loss or a score with its range, as ``functools.partial(eh.risk,
            loss="absolute", high=60)`` or ``functools.partial(eh.metric, "r2", low=0, high=60)``.
        champion: The first champion of a new gate. None for an existing gate.
        **terms: Terms of the gate, as for `everhold.Holdout.gate`. ``better`` and ``any_of`` make a gate about cases.

    Raises:
        QueryRejected: If there is no gate of this name and no champion is given.
    """
    if champion is None:
        metric = RemoteGate(transport, name, about_cases=False).status()["metric"]
        return RemoteGate(transport, name, about_cases=str(metric).startswith("cases: "))
    given = {"champion": champion, **{key: value for key, value in terms.items() if value is not None}}
    gate = RemoteGate(transport, name, about_cases="better" in given or "any_of" in given)
    if gate.about_cases:
        given |= {listed: list(given[listed]) for listed in ("lower", "any_of") if listed in given}
        transport.perform(gates.OpenCaseGate(name=name, **given))
    else:
        transport.perform(gates.OpenGate(name=name, **({} if metric is None else {"metric": metric}), **given))
    return gate


class RemoteGate:
    """A gate of a remote holdout, returned by `Holdout.gate`, with the methods of `Gate`."""

    def __init__(self, transport: HttpTransport, name: str, *, about_cases: bool) -> None:
        """Store the gate's name and transport. Use `Holdout.gate` instead."""
        self._transport, self.name, self.about_cases = transport, name, about_cases

    def __repr__(self) -> str:
        return f"RemoteGate({self.name!r})"

    def __getattr__(self, name: str) -> Any:
        from everhold.gates.gate import Gate

        if not name.startswith("_") and hasattr(Gate, name):
            raise QueryRejected(
                f"A service does not offer {name} of a gate. Use it where the storage is, opened by its path."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _perform(self, operation: Callable[..., HoldoutOperation[Result]], **arguments: Any) -> Result:
        """Perform an operation of this gate."""
        return self._transport.perform(operation(gate=self.name, **arguments))

    @property
    def champion(self) -> str:
        """SHA-256 of the query about the present champion."""
        return str(self.status()["champion"])

    def challenge(
        self, candidate: Any, *, training: Any = None, challenger: str | None = None, champion: Any = None,
        baseline: Any = None, strict: bool = False,
    ) -> Verdict:  # fmt: skip
        """Challenge the champion with a rule, predictions or results of cases, as in `Gate.challenge`.

        With `strict`, a spent budget raises `BudgetExhausted`.
        """
        if not self.about_cases:
            return self._perform(gates.ChallengeChampion, candidate=candidate, training=training, strict=strict)
        return self._perform(
            gates.SendResults, results=candidate, challenger=_named(challenger), champion=champion, baseline=baseline,
            strict=strict,
        )  # fmt: skip

    def check(
        self, results: Any, *, margin: float = 0.0, challenger: str | None = None, baseline: Any = None,
        strict: bool = False,
    ) -> CheckVerdict:  # fmt: skip
        """Compare results with the baseline of a gate about cases: not worse, a regression, or undecided."""
        return self._perform(
            gates.CheckVersion, results=results, margin=margin, challenger=_named(challenger), baseline=baseline,
            strict=strict,
        )  # fmt: skip

    def worth_asking(
        self, open_results: Any, *, champion: Any = None, challenger: str | None = None
    ) -> ChallengeWorth:  # fmt: skip
        """Estimate from results on the open cases whether a challenge could be promoted. Free; no query is asked."""
        return self._perform(gates.ForecastChallenge, results=open_results, champion=champion, challenger=challenger)

    @property
    def open_cases(self) -> list[Any]:
        """Return the ids of the open cases, which are not sealed."""
        return self._perform(gates.ListOpenCases)

    def complete(self, champion: Any, *, training: Any = None, baseline: Any = None) -> None:
        """Add the champion's rule, predictions or results for rows or cases that arrived, as in `Gate.complete`."""
        if self.about_cases:
            self._perform(gates.CompleteResults, results=champion, baseline=baseline)
        else:
            self._perform(gates.Complete, champion=champion, training=training)

    def status(self) -> Facts:
        """Return the public facts of the gate.

        Raises:
            QueryRejected: If there is no gate of this name.
        """
        found = self._transport.perform(gates.ListGates())
        for gate in found:
            if gate["gate"] == self.name:
                return gate
        names = ", ".join(brief(gate["gate"]) for gate in found) or "none"
        raise QueryRejected(f"There is no gate {brief(self.name)}. The gates are {names}. Open it with a champion.")

    def history(self) -> GateHistory:
        """Return all champions with the intervals of their gains, and the spent budget."""
        return self._perform(gates.ReadHistory)

    def open(self, challenger: str, *, batch: int | None = None, futility: bool = False) -> RemoteOpenChallenge:
        """Open a challenge that is decided as early as possible.

        It costs two queries, and a surprise for a promotion.

        Args:
            challenger: Name of the version that challenges the champion.
            batch: Number of cases of a batch. The default is a quarter of all.
            futility: Whether the challenge may also end early because a promotion has become unlikely.
        """
        self._perform(gates.StartChallenge, challenger=challenger, batch=batch, futility=futility)
        return RemoteOpenChallenge(self, challenger)

    def cases_left(self) -> list[Any]:
        """Return the ids of cases without results of the champion, for which `Gate.complete` takes results."""
        return self._perform(gates.ListCasesLeft)

    def _repr_html_(self) -> str:
        return self.status()._repr_html_()


class RemoteOpenChallenge:
    """A challenge of a remote gate whose cases are run in batches, returned by `RemoteGate.open`."""

    def __init__(self, gate: RemoteGate, challenger: str) -> None:
        """Store the gate and the challenger's name. Use `RemoteGate.open` instead."""
        self._perform = partial(gate._perform, challenger=challenger)
        self._gate, self._challenger = gate.name, challenger

    def __repr__(self) -> str:
        return f"RemoteOpenChallenge({self._gate!r}, {self._challenger!r})"

    def next_cases(self) -> list[Any]:
        """Return the ids of the cases to run next."""
        found = self._perform(gates.NextCases)
        return list(found["cases"])

    def report(self, results: Any, *, champion: Any = None, baseline: Any = None) -> Progress:
        """Report results of the cases that `next_cases` returned, all at once or in parts."""
        return self._perform(gates.Report, results=results, champion=champion, baseline=baseline)

    def withdraw(self) -> Verdict:
        """End the challenge without a promotion, and return the verdict ``"kept"``."""
        return self._perform(gates.Withdraw)


def _named(challenger: str | None) -> str:
    """Return the given name of a version, or a new random one, so that a repeated request means the same version."""
    return f"run {secrets.token_hex(4)}" if challenger is None else challenger


def metric_of(metric: Any) -> Any:
    """Return the metric of a gate as plain data: its name, or the name and numbers of a loss or score."""
    if isinstance(metric, partial) and metric.func is risk and not metric.args:
        return dict(metric.keywords)
    if isinstance(metric, partial) and metric.func is scored and len(metric.args) == 1:
        return {"name": metric.args[0], **metric.keywords}
    return getattr(metric, "__name__", metric)


def check_strict(answer: Any, strict: bool) -> None:
    """Raise `BudgetExhausted` if `strict` is True and the answer was refused."""
    if not (strict and answer.refused):
        return
    refused = getattr(answer, "first_refused", answer)
    said = refused.explain() if hasattr(refused, "explain") else str(refused)
    raise BudgetExhausted(said, **refused.to_dict())
