"""Study protocols: files that list what a study declares before it begins, and their comparison with certificates.

A protocol file looks like this in TOML. If PyYAML is installed, YAML is read as well::

    share = 0.99
    confidence = 0.95
    groups = "patient"
    missing = {bp = "drop"}
    arms = {arm = "treatment", treated = "active", control = "placebo"}

    [families."end points"]
    listed = ["late", {mean = "delay", low = -60, high = 180}, {risk_difference = "died = 1", given = "age > 65"}]
    weights = [0.5, 0.25, 0.25]

    [families.rules]
    listed = [{accuracy = "x > 3"}, {difference = [{accuracy = "x > 4"}, {accuracy = "x > 3"}]}]

    [families.carriers]
    subgroups = ["carrier", "origin"]
    of = "delay > 15"

    [families.texts]
    texts = 40

A query is a text, or a table: the kind of the query with its subject, and further options by their names on the command
line. Contrasts have the ``arms`` of the protocol unless they name others. For a plan it is enough to say how many
members a family is going to have, as in ``members = 1_000_000``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from errno import ENOENT
from pathlib import Path
from typing import Any, NamedTuple

from everhold.arguments import as_float, as_whole, brief
from everhold.errors import HoldoutRejected, QueryRejected
from everhold.families.base import MOST_SHARE, Family, PlannedFamily, share_of
from everhold.families.listed import ListedFamily, listed
from everhold.families.subgroups import SubgroupFamily, subgroups
from everhold.families.texts import TextFamily, texts
from everhold.mechanisms.releases import SHARE
from everhold.queries import DETAILS, KINDS, Form
from everhold.queries.makers import SCALARS, mean, plain, spelled
from everhold.queries.means.mean import in_one_line, name_of
from everhold.values.missing import Missing, MissingRule, checked_missing

__all__ = [
    "SHARE", "Protocol", "checked_share", "compared", "family_from", "from_toml", "in_words", "protocol",
    "protocol_from", "written",
]  # fmt: skip

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


class Protocol(NamedTuple):
    """The contents of a study protocol: its declared families and planned settings.

    Attributes:
        share: Part of the probability of failure that the declared families have.
        queries: Planned number of queries that no family declares. None if the protocol does not say it.
        surprises: Planned number of surprises among these queries; None if the protocol does not say it.
        confidence: Probability with which all intervals hold at once; None if the protocol does not say it.
        groups: Column of the groups of rows, such as patients; None if the protocol does not say it.
        missing: Rule for missing values; None if the protocol does not say it.
    """

    families: dict[str, Family]
    share: float
    queries: int | None = None
    surprises: int | None = None
    confidence: float | None = None
    groups: str | None = None
    missing: Missing | None = None

    def settings(self) -> dict[str, Any]:
        """Return the settings of the protocol as keyword arguments of `Holdout.create`."""
        from everhold.dependence import Groups
        from everhold.sealing.intake.request import Rows

        made = {
            "queries": self.queries, "surprises": self.surprises, "confidence": self.confidence,
            "dependence": None if self.groups is None else Groups(self.groups),
            "rows": None if self.missing is None else Rows(missing=self.missing),
        }  # fmt: skip
        said = {name: value for name, value in made.items() if value is not None}
        return {"declared": self.families, "share": self.share, **said}


def protocol(path: Path | str) -> Protocol:
    """Read a study protocol (the planned queries and families of a study) from a TOML file.

    It reads a YAML file if PyYAML is installed.

    Args:
        path: The file.

    Raises:
        QueryRejected: If there is no such file, or it has an entry that a protocol cannot have. Nothing is changed.
    """
    path = Path(path)
    try:
        if not path.is_file():
            raise FileNotFoundError(ENOENT, "there is no such file")
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except (OSError, ValueError) as fault:
        why = getattr(fault, "strerror", None) or "the path cannot be used"
        raise QueryRejected(f"The protocol {brief(str(path))} cannot be read: {why}. Check the path.") from None
    if len(content) > _LARGEST:
        raise QueryRejected(f"The protocol is larger than {_LARGEST // 2**20} MiB. Declare the families in Python.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise QueryRejected("The protocol is not text in UTF-8. Save the file as UTF-8.") from None
    return protocol_from(from_yaml(text) if path.suffix.lower() in (".yaml", ".yml") else from_toml(text))


def from_toml(text: str) -> dict[str, Any]:
    """Parse the TOML text of a protocol into plain data."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as fault:  # a TOMLDecodeError is a ValueError, and so is a number too long
        raise QueryRejected(f"The protocol is not valid TOML: {brief(str(fault))}. Correct the file.") from None


def from_yaml(text: str) -> Any:
    """Parse the YAML text of a protocol strictly into plain data.

    All words except true, false and null are texts, also ``NO`` and ``on``. Numbers are decimal. Refused are repeated
    keys, anchors, tags, a second document, and whole numbers with a leading 0, which readers of YAML understand
    differently.
    """
    try:
        import yaml  # type: ignore[import-untyped]  # without the package that has its types
    except ModuleNotFoundError:
        raise QueryRejected(
            "A protocol in YAML needs PyYAML. Install it with: pip install pyyaml, or write the protocol in TOML."
        ) from None
    root: list[Any] = []
    inside: list[tuple[Any, list[str]]] = [(root, [])]  # what is open, and of a mapping the key that waits for a value
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            at = f"line {event.start_mark.line + 1}"
            if isinstance(event, yaml.DocumentStartEvent) and root:
                raise QueryRejected(
                    f"The protocol has a second YAML document ({at}). Write each protocol in a file of its own."
                )
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
                        raise QueryRejected(
                            f"The protocol has a list or table as a key ({at}). Write a text as the key."
                        )
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
        raise QueryRejected(f"The protocol is not valid YAML{at}. Check its indentation and quotes.") from None
    return root[0] if root else None


def _plain_scalar(text: str, at: str) -> Any:
    """Return the value of a scalar without quotes by the rules of YAML 1.2."""
    if text in _WORDS:
        return _WORDS[text]
    if _NUMBER.fullmatch(text) is None:
        return text
    digits = text.lstrip("+-")
    if len(text) > _LONGEST_NUMBER or (digits.startswith("0") and digits[1:2].isdigit()):
        raise QueryRejected(
            f"The protocol has {brief(text)} without quotes ({at}), which is no valid number. Put it in quotes if it "
            "is a text."
        )
    return int(text) if digits.isdigit() else float(text)


def protocol_from(said: object) -> Protocol:
    """Build a `Protocol` from the plain data that a TOML or JSON file holds.

    Raises:
        QueryRejected: If the data have an entry that a protocol cannot have. Nothing is changed.
    """
    if not isinstance(said, Mapping):
        raise QueryRejected(f"The protocol is {brief(said)}. Write a table of families, such as [families.texts].")
    known = {"families", "share", "queries", "surprises", "confidence", "groups", "missing", "arms"}
    _check_keys("The protocol", said, known)
    families, arms = said.get("families"), said.get("arms", {})
    if not isinstance(families, Mapping) or not families:
        raise QueryRejected("The protocol declares nothing. Add a family, such as [families.texts] with texts = 40.")
    if not isinstance(arms, Mapping):
        raise QueryRejected(f"arms is {brief(arms)}. Write a table with arm, treated and control.")
    _check_keys("arms", arms, {"arm", "treated", "control"})
    confidence, groups = said.get("confidence"), said.get("groups")
    if confidence is not None and not 0.0 < as_float(confidence) < 1.0:
        raise QueryRejected(f"confidence is {brief(confidence)}. Write a number between 0 and 1, such as 0.95.")
    if groups is not None and not isinstance(groups, str):
        raise QueryRejected(f"groups is {brief(groups)}. Write the name of a column.")
    try:
        missing = checked_missing(said["missing"]) if "missing" in said else None
    except (HoldoutRejected, ValueError) as fault:
        raise QueryRejected(str(fault)) from None
    found = {str(name): family_from(table, what=f"Family {str(name)!r}", arms=arms)
             for name, table in families.items()}  # fmt: skip
    return Protocol(
        found, checked_share(said.get("share", SHARE)), _count(said, "queries"), _count(said, "surprises"),
        None if confidence is None else float(confidence), groups, missing,
    )  # fmt: skip


def checked_share(share: object) -> float:
    """Return the protocol's share of the failure probability for declared families, after checking its range."""
    part = share_of(share)
    if part is None:
        raise QueryRejected(f"share is {brief(share)}. Pass a number above 0 and at most {MOST_SHARE}, such as 0.5.")
    return part


def _count(said: Mapping[str, Any], name: str) -> int | None:
    count = as_whole(said.get(name))
    if name in said and (count or 0) < 1:
        raise QueryRejected(f"{name} is {brief(said[name])}. Write a whole number of at least 1.")
    return count


def family_from(table: object, *, what: str, arms: Mapping[str, Any] | None = None) -> Family:
    """Build a declared family from plain data, such as ``{"texts": 40}``.

    Args:
        table: The plain data of one family.
        what: The name of the family in messages.
        arms: The arms of contrasts that do not name their own.
    """
    found: list[Any] = [table]
    for _ in range(_DEEPEST):
        found = [
            part for each in found if isinstance(each, (Mapping, list))
            for part in (each.values() if isinstance(each, Mapping) else each)
        ]  # fmt: skip
    if found:  # deeper than the functions that read it can follow
        raise QueryRejected(f"{what} is nested more than {_DEEPEST} deep. Flatten it.")
    kinds = [kind for kind in _KEYS if isinstance(table, Mapping) and kind in table]
    if not isinstance(table, Mapping) or len(kinds) != 1:
        raise QueryRejected(f"{what} is {brief(table)}. Write a table with one of {', '.join(_KEYS)}.")
    (kind,) = kinds
    _check_keys(what, table, {kind, *_KEYS[kind]})
    if kind == "texts":
        return texts(table["texts"])
    if kind == "members":
        return PlannedFamily(what, table["members"])
    if kind == "listed":
        if not isinstance(table["listed"], list):
            raise QueryRejected(f"{what} lists {brief(table['listed'])}. Write a list of queries.")
        entries = enumerate(table["listed"], 1)
        read = [_query(f"{what}, entry {entry}", each, arms or {}) for entry, each in entries]
        return listed(read, weights=table.get("weights"))
    ranged = {end: table[end] for end in ("low", "high") if end in table}
    of = _query(what, {"mean": table.get("of"), **ranged}, {})
    return subgroups(table["subgroups"], of=of, together=table.get("together", 2), values=table.get("values"))


def _query(what: str, said: object, arms: Mapping[str, Any]) -> Any:
    """Build a query from plain data: a text, or a table such as ``{"mean": "delay", "low": 0, "high": 60}``.

    Raises:
        QueryRejected: If the data describe no query. The message says which entry it is. Nothing is changed.
    """
    if isinstance(said, str):
        return mean(said)
    kinds = [kind for name in said if (kind := KINDS.named(str(name)))] if isinstance(said, Mapping) else []
    if not isinstance(said, Mapping) or len(kinds) != 1 or kinds[0].form in (Form.CODE, Form.CELLS):
        raise QueryRejected(
            f"{what} holds {brief(said)}. Write a text such as 'delay > 15', or one of "
            f"{', '.join(kind.name for kind in KINDS if kind.form not in (Form.CODE, Form.CELLS))}, such as {{mean = "
            "'delay', low = -60, high = 180}."
        )
    (kind,) = kinds
    details = {spelled(option): option for option in kind.details if DETAILS[option].form is not Form.PREDICTIONS}
    _check_keys(what, said, {kind.name, *details} | ({kind.several} if kind.form is not Form.FLAG else set()) - {""})
    said = {**{name: value for name, value in arms.items() if name in details}, **said}
    of = said[kind.name]
    try:
        given = {kind.details[details[name]]: _value(what, DETAILS[details[name]].form, said[name], name, arms)
                 for name in details if said.get(name) is not None}  # fmt: skip
        if not kind.several:
            return kind.make(_value(what, kind.form, of, kind.name, arms), **given)
        if not isinstance(of, list) or (kind.form is Form.FLAG and len(of) != 2):
            many = "two" if kind.form is Form.FLAG else "queries"
            raise QueryRejected(f"{what} holds a {kind.name} of {brief(of)}. Write a list of {many}.")
        queries = [_query(what, each, arms) for each in of]
        if kind.form is Form.FLAG:
            return kind.make(*queries, **given)
        return kind.make(queries, **{kind.several: _value(what, kind.form, said.get(kind.several), kind.several, arms)},
                         **given)  # fmt: skip
    except (ValueError, TypeError, ArithmeticError) as fault:
        if str(fault).startswith(what):  # a part of this query, whose fault names the entry already
            raise
        absent = [name for name, option in details.items() if f"'{kind.details[option]}'" in str(fault)]
        if isinstance(fault, TypeError) and absent:
            place = "this entry, or once in 'arms'" if "arm" in absent else "this entry"
            raise QueryRejected(
                f"{what} holds {brief(dict(said))}, without {', '.join(absent)}. Write them in {place}."
            ) from None
        raise QueryRejected(f"{what} holds {brief(dict(said))}. {fault}") from None


def _value(what: str, form: Form, value: Any, name: str, arms: Mapping[str, Any]) -> Any:
    """Return one argument of a query after checking its type. Predictions must be a rule."""
    if form in SCALARS:
        return SCALARS[form](value, f"{name} ({what})")
    if form is Form.EXPRESSION and isinstance(value, Mapping):
        return _query(what, value, arms)
    if not isinstance(value, str):
        wanted = "a rule, such as 'x > 3'" if form is Form.PREDICTIONS else "a text, such as 'delay > 15'"
        raise QueryRejected(f"{what} has {brief(value)} as {name}. Write {wanted}.")
    return value


def written(family: Family) -> dict[str, Any]:
    """Return a declared family as plain data, the inverse of `family_from`.

    Raises:
        QueryRejected: If the family cannot be declared, or cannot be written as plain data, as predictions and models
            cannot. Nothing is changed.
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
        f"{brief(family)} cannot be sent as plain data. Declare it on the machine that holds the sealed rows."
    )


def _written(query: Any) -> Any:
    """Return a query as plain data, the inverse of `_query`.

    Raises:
        QueryRejected: If the query holds code, or predictions other than a rule. Nothing is changed.
    """
    if isinstance(query, str):
        return query
    spec = query.spec()
    kind = KINDS.named(spec.kind)
    plainly = kind is not None and kind.form not in (Form.CODE, Form.CELLS)
    if kind is None or not plainly or (kind.form is Form.PREDICTIONS and not isinstance(spec.of, str)):
        raise QueryRejected(
            f"{brief(query)} cannot be sent as plain data. Send queries of columns and of rules, and declare others "
            "on the machine that holds the sealed rows."
        )
    given = {spelled(option): (DETAILS[option].form, spec.details[argument])
             for option, argument in kind.details.items() if spec.details.get(argument) is not None}  # fmt: skip
    if kind.several and kind.form is not Form.FLAG:
        given[kind.several] = kind.form, spec.details[kind.several]
    details = {name: plain(value, SCALARS[form], name) if form in SCALARS else _written(value)
               for name, (form, value) in given.items()}  # fmt: skip
    of = [_written(each) for each in spec.of] if kind.several else _written(spec.of)
    return of if kind.name == "mean" and not details else {kind.name: of, **details}


def in_words(family: Family) -> list[str]:
    """Return the declared queries of a family as texts for people. A model is named, not written out."""
    if isinstance(family, ListedFamily):
        return [_in_words(query) for query in family.queries]
    try:
        return [", ".join(f"{name} {_plainly(value)}" for name, value in written(family).items())]
    except QueryRejected:
        return []


def _in_words(query: Any) -> str:
    try:
        return _plainly(_written(query))
    except (QueryRejected, KeyError):
        return name_of(query)


def _plainly(said: Any) -> str:
    """Return the plain data of a query as one line of text."""
    if isinstance(said, Mapping):
        (kind, of), *details = said.items()
        return ", ".join([f"{kind} of {_plainly(of)}", *(f"{name} {_plainly(value)}" for name, value in details)])
    if isinstance(said, list):
        return " and ".join(map(_plainly, said))
    return in_one_line(said) if isinstance(said, str) else f"{said:g}" if isinstance(said, float) else str(said)


def compared(planned: Protocol, document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Compare a protocol with the certificate of a holdout, item by item.

    Args:
        planned: The protocol that was written before the study.
        document: The certificate, as `everhold.Certificate.to_dict` has it.

    Returns:
        One row for each fact of the protocol or the certificate: ``what``, ``protocol``, ``certificate``, and ``same``.
    """
    from everhold.dependence import Groups, Independent

    rows, dependence = document["rows"], document["assumptions"]["dependence"]
    kept = dict(rows.get("missing", ()))
    said: list[tuple[str, Any, Any]] = [("share", planned.share, document["mechanism"]["parameters"].get("share"))]
    if planned.confidence is not None:
        said.append(("confidence", planned.confidence, document["promise"]["confidence"]))
    if planned.groups is not None or dependence["kind"] == Groups.kind:
        said.append(("groups", planned.groups, dependence.get("column")))
    elif dependence["kind"] != Independent.kind:
        said.append(("dependence", None, dependence["kind"]))
    by_column = planned.missing if isinstance(planned.missing, Mapping) else dict.fromkeys(kept, planned.missing)
    for name in dict.fromkeys([*by_column, *kept]):
        rule = by_column.get(name)
        said.append((f"missing {name}", None if rule is None else str(MissingRule.of(rule)), kept.get(name)))
    found = [{"what": what, "protocol": told, "certificate": held, "same": told == held} for what, told, held in said]
    certified = {family["name"]: family for family in document["account"].get("declared", ())}
    for name in dict.fromkeys([*planned.families, *certified]):
        entries = in_words(planned.families[name]) if name in planned.families else []
        held = certified.get(name, {"members": [], "later": False, "entry": 0})
        when = f"declared later, by entry {held['entry']}" if held["later"] else "declared"
        for entry in dict.fromkeys([*entries, *held["members"]]):
            there = when if entry in held["members"] else None
            found.append({
                "what": f"{name}: {entry}", "protocol": "declared" if entry in entries else None,
                "certificate": there, "same": entry in entries and there == "declared",
            })  # fmt: skip
    return found


def _check_keys(what: str, said: Mapping[str, Any], known: set[str]) -> None:
    unknown = sorted(map(str, said.keys() - known))
    if unknown:
        raise QueryRejected(f"{what} has {', '.join(map(brief, unknown))}. Use only {', '.join(sorted(known))}.")
