"""A protocol: a TOML file that says which families a study declares, to be written down before it begins.

Such a file looks like this::

    share = 0.5

    [families."end points"]
    listed = ["late", {mean = "delay", low = -60, high = 180}]
    weights = [0.75, 0.25]

    [families.rules]
    listed = [{accuracy = "x > 3"}, {difference = [{accuracy = "x > 4"}, {accuracy = "x > 3"}]}]

    [families.carriers]
    subgroups = ["carrier", "origin"]
    of = "delay > 15"

    [families.texts]
    texts = 40

A plan may know less: ``members = 1_000_000`` says how many members a family is going to have. Where PyYAML is
installed, the same may be written in YAML.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from everhold.arguments import as_whole, brief
from everhold.errors import QueryRejected
from everhold.families.base import MOST_SHARE, Family, share_of
from everhold.families.listed import ListedFamily, listed
from everhold.families.planned import PlannedFamily
from everhold.families.subgroups import SubgroupFamily, subgroups
from everhold.families.texts import TextFamily, texts
from everhold.mechanisms.declared import SHARE
from everhold.queries.means.batch import RowwiseQuery
from everhold.queries.means.mean import MeanQuery, mean
from everhold.queries.metrics.difference import DifferenceQuery, difference
from everhold.queries.metrics.row_scores import AccuracyQuery

__all__ = ["SHARE", "Protocol", "checked_share", "family_from", "from_toml", "protocol", "protocol_from", "written"]

_KEYS = {
    "listed": {"weights"},
    "subgroups": {"of", "low", "high", "together", "values"},
    "texts": set[str](),
    "members": set[str](),
}
"""Kinds of families, with the keys that each may have beside its own."""

_LARGEST, _DEEPEST, _LONGEST_NUMBER = 2**20, 20, 40
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?", re.ASCII)
_DIFFERENCE, _OF_RULES = "difference", ("accuracy", "error")


class Protocol(NamedTuple):
    """The contents of a protocol.

    Attributes:
        share: Part of the probability of failure that they have.
        queries: Planned queries that are no members; None where it is not said.
        surprises: Planned surprises among them; None where it is not said.
    """

    families: dict[str, Family]
    share: float
    queries: int | None = None
    surprises: int | None = None


def protocol(path: Path | str) -> Protocol:
    """Read a protocol from a TOML file, or a YAML file where PyYAML is installed; see the module.

    Raises:
        QueryRejected: If there is no such file, or it says what no protocol says. Nothing is changed.
    """
    path = Path(path)
    try:
        if not path.is_file():
            raise QueryRejected(f"The protocol cannot be read: {brief(str(path))} is no file. Pass the path of a file.")
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except (OSError, ValueError) as fault:
        why = getattr(fault, "strerror", None) or "the path cannot be used"
        raise QueryRejected(f"The protocol cannot be read: {why}. Pass the path of a file that can be read.") from None
    if len(content) > _LARGEST:
        raise QueryRejected(f"The protocol is larger than {_LARGEST // 2**20} MiB. Declare the families in Python.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise QueryRejected("The protocol is no text in UTF-8. Save it as UTF-8.") from None
    return protocol_from(from_yaml(text) if path.suffix.lower() in (".yaml", ".yml") else from_toml(text))


def from_toml(text: str) -> dict[str, Any]:
    """Plain data of a protocol in TOML."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as fault:  # a TOMLDecodeError is a ValueError, and so is a number too long
        raise QueryRejected(f"the protocol is no TOML: {brief(str(fault))}; nothing was changed") from None


def from_yaml(text: str) -> Any:
    """Plain data of a protocol in YAML, read strictly.

    Words are texts (``NO`` and ``on``, too) but for true, false and null. Numbers are decimal. A key that is written
    twice is refused, and so are anchors, tags, a second document, and numbers that begin with 0, whose meaning differs
    between readers of YAML.
    """
    try:
        import yaml  # type: ignore[import-untyped]  # without the package that has its types
    except ModuleNotFoundError:
        raise QueryRejected(
            "a protocol in YAML needs PyYAML; install it, or write the protocol in TOML; nothing was changed"
        ) from None
    root: list[Any] = []
    inside: list[tuple[Any, list[str]]] = [(root, [])]  # what is open, and of a mapping the key that waits for a value
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            at = f"line {event.start_mark.line + 1}"
            if isinstance(event, yaml.DocumentStartEvent) and root:
                raise QueryRejected(f"The protocol has a second document ({at}). Write one file for each.")
            if getattr(event, "anchor", None) is not None or getattr(event, "tag", None) is not None:
                raise QueryRejected(f"The protocol has an anchor, an alias or a tag ({at}). Write the values out.")
            holder, key = inside[-1]
            if isinstance(event, yaml.CollectionEndEvent):
                inside.pop()
            elif isinstance(event, yaml.NodeEvent):
                scalar = isinstance(event, yaml.ScalarEvent)
                made: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
                if isinstance(holder, dict) and not key:
                    if not scalar:
                        raise QueryRejected(f"The protocol has a list or table as a key ({at}). Write a text.")
                    if event.value in holder:
                        raise QueryRejected(f"The protocol has {brief(event.value)} twice ({at}). Write it once.")
                    key.append(event.value)
                    continue
                if scalar:
                    made = event.value if event.style else _plain_scalar(event.value, at)
                if isinstance(holder, dict):
                    holder[key.pop()] = made
                else:
                    holder.append(made)
                if not scalar:
                    inside.append((made, []))
                if len(inside) > _DEEPEST:
                    raise QueryRejected(f"The protocol is nested more than {_DEEPEST} deep ({at}). Flatten it.")
    except yaml.YAMLError as fault:
        mark = getattr(fault, "problem_mark", None)
        at = "" if mark is None else f" at line {mark.line + 1}"
        raise QueryRejected(f"The protocol is no YAML{at}. Check its indentation and quotes.") from None
    return root[0] if root else None


def _plain_scalar(text: str, at: str) -> Any:
    """The value of a scalar without quotes, as YAML 1.2 has it."""
    if text in _WORDS:
        return _WORDS[text]
    if _NUMBER.fullmatch(text) is None:
        return text
    digits = text.lstrip("+-")
    if len(text) > _LONGEST_NUMBER or (digits.startswith("0") and digits[1:2].isdigit()):
        raise QueryRejected(f"The protocol has {brief(text)} ({at}). Put it in quotes if it is a text.")
    return int(text) if digits.isdigit() else float(text)


def protocol_from(said: object) -> Protocol:
    """A protocol from plain data, as TOML and JSON have it.

    Raises:
        QueryRejected: If it says what no protocol says. Nothing is changed.
    """
    if not isinstance(said, Mapping):
        raise QueryRejected(f"the protocol is {brief(said)}; expected families by name; nothing was changed")
    _check_keys("the protocol", said, {"families", "share", "queries", "surprises"})
    families = said.get("families")
    if not isinstance(families, Mapping) or not families:
        raise QueryRejected(
            "the protocol declares nothing; expected families, such as [families.texts] with texts = 40; nothing was "
            "changed"
        )
    share = checked_share(said.get("share", SHARE))
    found = {str(name): family_from(table, what=f"the family {str(name)!r}") for name, table in families.items()}
    return Protocol(found, share, _count(said, "queries"), _count(said, "surprises"))


def checked_share(share: object) -> float:
    """The part of the probability of failure that a protocol sets apart."""
    part = share_of(share)
    if part is None:
        raise QueryRejected(
            f"share is {brief(share)}; expected a number above 0 and at most {MOST_SHARE}, such as 0.5; nothing was "
            "changed"
        )
    return part


def _count(said: Mapping[str, Any], name: str) -> int | None:
    count = as_whole(said.get(name))
    if name in said and (count or 0) < 1:
        raise QueryRejected(
            f"{name} is {brief(said[name])}; expected a whole number of at least 1; nothing was changed"
        )
    return count


def family_from(table: object, *, what: str) -> Family:
    """A family from plain data, such as ``{"texts": 40}``."""
    _check_depth(table, what)
    kinds = [kind for kind in _KEYS if isinstance(table, Mapping) and kind in table]
    if not isinstance(table, Mapping) or len(kinds) != 1:
        raise QueryRejected(f"{what} is {brief(table)}; expected one of {', '.join(_KEYS)} in it; nothing was changed")
    (kind,) = kinds
    _check_keys(what, table, {kind, *_KEYS[kind]})
    if kind == "texts":
        return texts(table["texts"])
    if kind == "members":
        return PlannedFamily(what, table["members"])
    if kind == "listed":
        if not isinstance(table["listed"], list):
            raise QueryRejected(f"{what} lists {brief(table['listed'])}; expected a list; nothing was changed")
        return listed([_query(what, each) for each in table["listed"]], weights=table.get("weights"))
    ranged = {end: table[end] for end in ("low", "high") if end in table}
    of = _mean(what, {"mean": table.get("of"), **ranged})
    return subgroups(table["subgroups"], of=of, together=table.get("together", 2), values=table.get("values"))


def _check_depth(said: object, what: str) -> None:
    """Refuse what is nested too deep for the functions that read it."""
    found = [said]
    for _ in range(_DEEPEST):
        found = [
            part for each in found if isinstance(each, (Mapping, list))
            for part in (each.values() if isinstance(each, Mapping) else each)
        ]  # fmt: skip
    if found:
        raise QueryRejected(f"{what.capitalize()} is nested more than {_DEEPEST} deep. Flatten it.")


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


def _query(what: str, said: object) -> RowwiseQuery:
    """A text, a table with its range, a metric of a rule, or a difference of two of these."""
    kind = next((kind for kind in (_DIFFERENCE, *_OF_RULES) if isinstance(said, Mapping) and kind in said), None)
    if kind is None or not isinstance(said, Mapping):
        return _mean(what, said)
    _check_keys(what, said, {kind})
    of = said[kind]
    if kind == _DIFFERENCE:
        if not isinstance(of, list) or len(of) != 2:
            raise QueryRejected(
                f"{what} holds a difference of {brief(of)}; expected a list of two, such as [{{accuracy = 'x > 4'}}, "
                "{accuracy = 'x > 3'}]; nothing was changed"
            )
        return difference(*(_query(what, each) for each in of))
    if not isinstance(of, str):
        raise QueryRejected(
            f"{what} holds the {kind} of {brief(of)}; expected a rule, such as 'x > 3'; nothing was changed"
        )
    return AccuracyQuery(of, missed=kind == "error")


def written(family: Family) -> dict[str, Any]:
    """The inverse of `family_from`, for families that plain data can hold.

    Raises:
        QueryRejected: If they cannot, as predictions and models, or cannot be declared. Nothing is changed.
    """
    if isinstance(family, TextFamily):
        family.checked_bits()
        return {"texts": family.bits}
    if isinstance(family, SubgroupFamily):
        values = {name: list(given) for name, given in family.checked_values().items()} or None
        said = {
            "subgroups": family.checked_columns(), "of": family.of.text, "together": family.checked_together(),
            "low": family.of.low, "high": family.of.high, "values": values,
        }  # fmt: skip
        return {name: value for name, value in said.items() if value is not None}
    if isinstance(family, ListedFamily):
        family.checked_weights()
        weights = {} if family.weights is None else {"weights": [float(weight) for weight in family.weights]}
        return {"listed": [_written(query) for query in family.queries], **weights}
    raise QueryRejected(
        f"{brief(family)} cannot be sent as plain data; declare it where the storage is; nothing was changed"
    )


def _written(query: object) -> str | dict[str, Any]:
    if isinstance(query, str):
        return query
    if isinstance(query, DifferenceQuery):
        return {_DIFFERENCE: [_written(each) for each in query.operands]}
    if isinstance(query, AccuracyQuery) and isinstance(query.predictions, str) and query.score in _OF_RULES:
        return {query.score: query.predictions}
    if not isinstance(query, MeanQuery) or query != mean(query.text, low=query.low, high=query.high):
        raise QueryRejected(
            f"{brief(query)} cannot be sent as plain data; expected texts, means of columns, accuracies of rules, and "
            "differences of two; declare other queries where the storage is; nothing was changed"
        )
    return {"mean": query.text} | {n: v for n, v in (("low", query.low), ("high", query.high)) if v is not None}


def _check_keys(what: str, said: Mapping[str, Any], known: set[str]) -> None:
    unknown = sorted(map(str, said.keys() - known))
    if unknown:
        raise QueryRejected(
            f"{what} has {', '.join(map(brief, unknown))}; expected only {', '.join(sorted(known))}; nothing was "
            "changed"
        )
