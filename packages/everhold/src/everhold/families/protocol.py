"""A protocol: a TOML file that says which families a study declares, to be written down before it begins.

Such a file looks like this::

    share = 0.5

    [families."end points"]
    listed = ["late", {mean = "delay", low = -60, high = 180}]
    weights = [0.75, 0.25]

    [families.carriers]
    subgroups = ["carrier", "origin"]
    of = "delay > 15"

    [families.texts]
    texts = 40
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from everhold.arguments import brief
from everhold.errors import QueryRejected
from everhold.families.base import Family
from everhold.families.listed import listed
from everhold.families.subgroups import subgroups
from everhold.families.texts import texts
from everhold.queries.mean import MeanQuery, mean

__all__ = ["SHARE", "Protocol", "protocol"]

SHARE = 0.5
"""Part of the probability of failure that declared families have, where nobody says another."""

_KEYS = {
    "listed": {"weights"},
    "subgroups": {"of", "low", "high", "together", "values"},
    "texts": set[str](),
}
"""Kinds of families, with the keys that each may have beside its own."""


class Protocol(NamedTuple):
    """The contents of a protocol.

    Attributes:
        families: By name.
        share: Part of the probability of failure that they have.
    """

    families: dict[str, Family]
    share: float


def protocol(path: Path | str) -> Protocol:
    """Read a protocol from a TOML file; see the module.

    Raises:
        QueryRejected: If there is no such file, or it says what no protocol says. Nothing is changed.
    """
    try:
        with Path(path).open("rb") as file:
            said = tomllib.load(file)
    except OSError as fault:
        raise QueryRejected(
            f"the protocol cannot be read: {fault.strerror}; expected a TOML file; nothing was changed"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
        raise QueryRejected(f"the protocol is no TOML file: {brief(str(fault))}; nothing was changed") from None
    _check_keys("the protocol", said, {"families", "share"})
    families = said.get("families")
    if not isinstance(families, dict) or not families:
        raise QueryRejected(
            "the protocol declares nothing; expected families, such as [families.texts] with texts = 40; nothing was "
            "changed"
        )
    return Protocol({name: _family(name, table) for name, table in families.items()}, said.get("share", SHARE))


def _family(name: str, table: object) -> Family:
    what = f"the family {name!r}"
    kinds = [kind for kind in _KEYS if isinstance(table, dict) and kind in table]
    if not isinstance(table, dict) or len(kinds) != 1:
        raise QueryRejected(f"{what} is {brief(table)}; expected one of {', '.join(_KEYS)} in it; nothing was changed")
    (kind,) = kinds
    _check_keys(what, table, {kind, *_KEYS[kind]})
    if kind == "texts":
        return texts(table["texts"])
    if kind == "listed":
        if not isinstance(table["listed"], list):
            raise QueryRejected(f"{what} lists {brief(table['listed'])}; expected a list; nothing was changed")
        return listed([_mean(what, each) for each in table["listed"]], weights=table.get("weights"))
    ranged = {end: table[end] for end in ("low", "high") if end in table}
    of = _mean(what, {"mean": table.get("of"), **ranged})
    return subgroups(table["subgroups"], of=of, together=table.get("together", 2), values=table.get("values"))


def _mean(what: str, said: object) -> MeanQuery:
    """A text, or a table with its range."""
    if isinstance(said, str):
        return mean(said)
    if not isinstance(said, Mapping) or not isinstance(said.get("mean"), str):
        raise QueryRejected(
            f"{what} holds {brief(said)}; expected a text such as 'delay > 15', or {{mean = 'delay', low = -60, "
            "high = 180}; nothing was changed"
        )
    _check_keys(what, said, {"mean", "low", "high"})
    return mean(said["mean"], low=said.get("low"), high=said.get("high"))


def _check_keys(what: str, said: Mapping[str, Any], known: set[str]) -> None:
    unknown = sorted(said.keys() - known)
    if unknown:
        raise QueryRejected(
            f"{what} has {', '.join(map(brief, unknown))}; expected only {', '.join(sorted(known))}; nothing was "
            "changed"
        )
