"""Finding an engine again: from an address, or from the public facts of a holdout and the environment.

An address may hold a password, which is used and never kept: what is recorded is `Engine.to_dict`, and at opening the
variable `EVERHOLD_ENGINE` says how to come in.
"""

from __future__ import annotations

import os
import re
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeGuard

from everhold.errors import HoldoutRejected, IntegrityError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everhold.sealing.engines.base import Engine

__all__ = ["ENGINE_VARIABLE", "KINDS", "check_public", "connected", "engine_at", "is_engine"]

ENGINE_VARIABLE = "EVERHOLD_ENGINE"
"""Environment variable: addresses of engines, with what it takes to come in, separated by blanks."""

KINDS = {
    r"local(\[[^\]]*\])?$|spark$|(spark|sc)://": "everhold.sealing.engines.spark:Spark",
    r"(chdb|clickhouses?)://": "everhold.sealing.engines.clickhouse:ClickHouse",
    r"[a-z][a-z0-9_]*(\+[a-z0-9_]+)?://": "everhold.sealing.engines.database:Database",
}
"""Which class takes which addresses; the first that matches."""

_EXPECTED = (
    "expected an address such as local[2], spark://host:7077, sc://host:15002, chdb:///folder, "
    "clickhouse://host:8123/database or postgresql://user@host/database"
)
_SECRET = re.compile(r"://[^/@\s]*:[^/@\s]*@|(password|passwd|token|secret)\s*=", re.IGNORECASE)


def engine_at(url: str, table: str) -> Engine:
    """The engine at an address, about one of its tables.

    Args:
        url: The address, with a password where it takes one.
        table: Name of the table, as the engine has it.

    Raises:
        ValueError: If it is no address of an engine; the message quotes nothing of it, as it may hold a password.
        ModuleNotFoundError: If the engine's package is not installed.
        Unavailable: If it cannot be reached.

    Examples:
        >>> engine_at("sealed.parquet", "flights")
        Traceback (most recent call last):
        ...
        ValueError: the engine is not an address; expected an address such as local[2], ...
    """
    for form, place in KINDS.items():
        if re.match(form, url, re.IGNORECASE):
            module, _, name = place.partition(":")
            engine: Engine = getattr(import_module(module), name).from_url(url, table)
            return engine
    raise ValueError(f"the engine is not an address; {_EXPECTED}; nothing was created or charged")


def connected(facts: Mapping[str, Any], given: Engine | None = None) -> Engine:
    """The table of a holdout, read at the snapshot at which it was sealed; its rows are not looked at yet.

    Args:
        facts: What `Engine.to_dict` said when it was sealed.
        given: The engine that was handed in; otherwise the one of `EVERHOLD_ENGINE`, or where the facts say.

    Raises:
        IntegrityError: If the facts are not in the form in which everhold wrote them.
        ValueError: If the engine is one of another kind.
        Unavailable: If it cannot be reached.
    """
    if not all(isinstance(facts.get(name), str) for name in ("kind", "table", "place")):
        raise IntegrityError(
            "the recorded facts of the engine are not in the form in which everhold wrote them; expected an unaltered "
            "ledger; nothing was answered or charged; verify the ledger and restore a backup"
        )
    engine = _of_environment(facts) if given is None else given
    if engine.kind != facts["kind"]:
        raise ValueError(
            f"the rows were sealed in an engine of the kind {facts['kind']!r}, and the given one is of the kind "
            f"{engine.kind!r}; expected the same kind, because each computes fingerprints in its own way; nothing was "
            "answered or charged"
        )
    return engine.pinned(facts)


def _of_environment(facts: Mapping[str, Any]) -> Engine:
    """The engine of the environment that is at the recorded place; else one of its kind, because engines move."""
    table = str(facts["table"])
    engines = [engine_at(url, table) for url in os.environ.get(ENGINE_VARIABLE, "").split()]
    kin = [engine for engine in engines if engine.kind == facts["kind"]]
    there = [engine for engine in kin if engine.to_dict().get("place") == facts["place"]]
    chosen = next(iter([*there, *kin, *engines]), None)
    for engine in engines:
        if engine is not chosen:
            engine.close()
    return engine_at(str(facts["place"]), table) if chosen is None else chosen


def is_engine(rows: object) -> TypeGuard[Engine]:
    """Whether rows are an engine's table, and no rows to be copied."""
    return all(hasattr(type(rows), name) for name in ("contents", "dialect", "rows", "to_dict"))


def check_public(facts: Mapping[str, Any]) -> None:
    """Check that facts that go into the ledger hold no credentials: a second wall behind the engine's own.

    Raises:
        HoldoutRejected: If they seem to. The message quotes nothing of them.
    """
    if any(isinstance(value, str) and _SECRET.search(value) for value in facts.values()):
        raise HoldoutRejected(
            "the address of the engine has a password where everhold does not expect one, and it would stay in the "
            f"ledger; expected user and password before the host, or in {ENGINE_VARIABLE}; nothing was created"
        )
