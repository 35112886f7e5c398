"""The certificate: plain data in sections, each with its digest, all of them signed."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from everhold.certificate import form
from everhold.certificate.outline import outline
from everhold.certificate.page import render_fragment, render_page, summary_rows
from everhold.certificate.timestamps import Timestamper, stamp_of
from everhold.certificate.words import promise_sentence, with_words
from everhold.display import Display
from everhold.errors import IntegrityError
from everhold.ledger.acts import EntryCounts
from everhold.mechanisms import State
from everhold.sealing.configuration import DEALT, INDEPENDENT, LACKING, WARNED, public_facts, rules_of
from everhold.strict_json import canonical, digest

if TYPE_CHECKING:
    from pathlib import Path

    from everhold.ledger import Head, HoldoutRecord
    from everhold.ledger.checkpoints import Checkpoint
    from everhold.mechanisms import Mechanism, Promise
    from everhold.sealing.storage import StewardKey

SOFTWARE = "everhold"
ALGORITHM = "Ed25519 over the canonical JSON of the sections' SHA-256 digests"


@dataclass(frozen=True, slots=True, eq=False)
class Certificate(Display):
    """Signed document of a holdout's promise, rows, queries and charges. `Holdout.certificate` makes one.

    Loading a certificate does not check its signature. Check the file with `verify_certificate` before you trust it.
    """

    _document: Mapping[str, Any]

    def __post_init__(self) -> None:
        faults = list(form.misshapen(self._document))
        if faults:
            raise ValueError(f"The document is not a valid certificate: {faults[0]}.")

    def __repr__(self) -> str:
        return f"Certificate({self._document['rows']['holdout']!r}, entries={self.ledger_head[0]})"

    @classmethod
    def load(cls, path: Path | str) -> Certificate:
        """Read a certificate from a ``.json`` or ``.html`` file, without verifying it: see `verify_certificate`.

        Args:
            path: The file, as `save` wrote it.

        Raises:
            IntegrityError: If the file does not hold a certificate of everhold.
        """
        try:
            return cls(form.read_document(path)[0])
        except (form.Malformed, ValueError) as fault:
            raise IntegrityError(f"The file is not a certificate: {fault}. Pass a file that everhold saved.") from None

    @property
    def promise(self) -> str:
        """One sentence that says which intervals hold, for how many queries, and with which probability."""
        return promise_sentence(self._document, simulation=self.simulation)

    @property
    def radius(self) -> float | None:
        """Guaranteed half-width of an answer about a mean of values in [0, 1], or None if it is infinite."""
        radius: float | None = self._document["promise"]["radius"]
        return radius

    @property
    def simulation(self) -> bool:
        """Whether the holdout was created with a seed, as a simulation, so that its noise can be predicted."""
        return bool(self._document["issue"]["simulation"])

    @property
    def public_key(self) -> str:
        """The steward's public key, as the certificate states it, in hex."""
        return str(self._document[form.SIGNATURE]["public_key"])

    @property
    def claimed_time(self) -> str | None:
        """Time of signing by a time-stamping authority, UTC in ISO 8601, or None. `verify_certificate` checks it."""
        return self._document[form.TIMESTAMP]["time"] if form.TIMESTAMP in self._document else None

    @property
    def ledger_head(self) -> tuple[int, str]:
        """Number and hash of the ledger's last entry, for ``everhold.ledger.verify(expected_head=...)``."""
        head = self._document["ledger_head"]
        return int(head["sequence"]), str(head["entry_hash"])

    def to_dict(self) -> dict[str, Any]:
        """Return the whole signed document, section by section."""
        stamp = (form.TIMESTAMP,) if form.TIMESTAMP in self._document else ()
        names = (form.FORMAT_FIELD, *form.SECTIONS, form.SIGNATURE, *stamp)
        return {name: copy.deepcopy(self._document[name]) for name in names}

    def in_words(self) -> dict[str, Any]:
        """Return the document with texts that explain its facts to people. The signature covers the facts alone."""
        return with_words(self.to_dict())

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the certificate as table rows with ``section``, ``item`` and ``value``, in the order of the HTML page.

        A row that is a whole sentence has no item.
        """
        worded = self.in_words()
        return summary_rows(worded[form.SUMMARY]) + [
            {"section": block.title, "item": item, "value": value}
            for block in outline(worded)
            for item, value in [*(("", text) for text in (*block.before, *block.bullets, *block.after)), *block.items]
        ]

    def to_json(self) -> str:
        """Return the signed document as indented JSON. Verification ignores the indentation."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def to_html(self) -> str:
        """Return a self-contained HTML page that shows the certificate and has the signed document inside."""
        return render_page(self._document)

    def _repr_html_(self) -> str:
        return render_fragment(self._document)

    def save(self, path: Path | str) -> None:
        """Write the certificate to a file.

        Args:
            path: The file. It ends in ``.json`` (for checking) or ``.html`` (for reading and printing, and for checking
                as well).

        Raises:
            ValueError: If ``path`` ends neither in ``.json`` nor in ``.html``.
        """
        from pathlib import Path

        path = Path(path)
        forms = {".json": self.to_json, ".html": self.to_html}
        if path.suffix.lower() not in forms:
            raise ValueError(f"{path.name!r} ends in {path.suffix!r}. Pass a name that ends in .json or .html.")
        path.write_bytes(forms[path.suffix.lower()]().encode())


def promise_in_words(record: HoldoutRecord, mechanism: Mechanism) -> str:
    """Return the promise in one sentence, as on every certificate of the holdout."""
    simulation = record.configuration["seed"] is not None
    facts = {**_promise_facts(mechanism, simulation=simulation), **_holdout_facts(record, ())}
    if (competition := record.configuration.get("competition")) is not None:
        facts["account"] = {"competition": competition}
    return promise_sentence(facts, simulation=simulation)


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedAccount:
    """Facts about queries and charges for a certificate.

    Attributes:
        counts: Numbers of queries, answers and charges, added up over the ledger entries up to the head.
        since: The checkpoint after which entries were read. None if all entries were read.
        also_sealed_as: Names of other holdouts of the same storage with the same rows.
        extensions: Facts of ledger extensions by name, as `HoldoutAccessor.certificate_facts` gives them.
        answers: Answers that the first page shows, as `everhold.asking.reports.certifying.chosen_answers` chooses them.
        queries: All queries, as `everhold.asking.reports.certifying.listed_queries` lists them; None if the certificate
            has no list.
    """

    head: Head
    counts: EntryCounts
    since: Checkpoint | None = None
    also_sealed_as: Sequence[str] = ()
    extensions: Mapping[str, Any] = field(default_factory=dict)
    answers: Sequence[Mapping[str, Any]] = ()
    queries: Sequence[Mapping[str, Any]] | None = None


def make_certificate(
    record: HoldoutRecord,
    account: CertifiedAccount,
    *,
    mechanism: Mechanism,
    key: StewardKey,
    timestamp: Timestamper | None = None,
    issued: datetime | None = None,
) -> Certificate:
    """Collect and sign the facts about a holdout's promise and its spent budget.

    Args:
        record: The record of the sealed holdout.
        account: Facts about the queries that were asked and the budget that was spent.
        mechanism: The holdout's mechanism.
        key: The steward's key, which signs the certificate.
        timestamp: Authority that states when the certificate was signed. None for no trusted time.
        issued: Time of the certificate. None for now.

    Raises:
        EverholdError: If the timestamp authority gives no token, or a token about something else. Nothing was signed,
            then.
    """
    state = State.of(account.head.state, record.settings)
    facts: dict[str, dict[str, Any]] = {
        form.SUMMARY: {"answers": [dict(answer) for answer in account.answers]},
        **_promise_facts(mechanism, simulation=record.configuration["seed"] is not None),
        **_holdout_facts(record, account.also_sealed_as),
        **_account_facts(account, mechanism, state),
        "issue": {
            "software": SOFTWARE,
            "version": software_version(),
            "issued_at": (issued or datetime.now(UTC)).isoformat(timespec="seconds"),
            "simulation": record.configuration["seed"] is not None,
        },
    }
    sections: dict[str, Any] = {name: facts[name] for name in form.SECTIONS}
    signature: dict[str, Any] = {
        "algorithm": ALGORITHM,
        "public_key": key.public_key,
        "digests": {name: digest(section) for name, section in sections.items()},
    }
    document = {form.FORMAT_FIELD: form.FORMAT, **sections, form.SIGNATURE: signature}
    signature["value"] = key.sign(signed_message(document))
    if timestamp is not None:
        document[form.TIMESTAMP] = stamp_of(timestamp, stamped_digest(document))
    return Certificate(json.loads(canonical(document)))


def signed_message(document: Mapping[str, Any]) -> bytes:
    """Return the bytes that are signed: the format, the algorithm, the key and the digests of all sections."""
    signed = {name: value for name, value in document[form.SIGNATURE].items() if name != "value"}
    return canonical({form.FORMAT_FIELD: document[form.FORMAT_FIELD], form.SIGNATURE: signed}).encode()


def stamped_digest(document: Mapping[str, Any]) -> bytes:
    """Return the digest that a time stamp certifies: the SHA-256 of the format and the whole signature."""
    signed = {name: document[name] for name in (form.FORMAT_FIELD, form.SIGNATURE)}
    return bytes.fromhex(digest(signed))


def _promise_facts(mechanism: Mechanism, *, simulation: bool) -> dict[str, dict[str, Any]]:
    """Return the sections about promise, assumptions, mechanism, theorem and privacy, from the mechanism alone.

    `simulation` is true if noise has a known seed, so that no privacy is promised.
    """
    promise, described = mechanism.promise(), mechanism.to_dict()
    return {
        "promise": {
            "radius": _finite(promise.radius),
            "confidence": promise.confidence,
            "statement": promise.statement,
            "queries": mechanism.queries,
            "surprises": described["parameters"].get("surprises"),
            "spends_only_beyond": _finite(promise.spends_only_beyond),
        },
        "assumptions": {"dependence": mechanism.dependence.to_dict(), "stated": list(promise.assumptions)},
        "mechanism": {
            "name": described.pop("mechanism"),
            **{name: _plain(value) for name, value in described.items() if name != "parameters"},
            "parameters": {name: _plain(value) for name, value in described["parameters"].items()},
        },
        "theorem": {
            "statement": promise.statement,
            "numbers": {name: _finite(value) for name, value in entering_numbers(mechanism, promise).items()},
        },
        "privacy": privacy_facts(promise.privacy, simulation=simulation),
    }


def entering_numbers(mechanism: Mechanism, promise: Promise) -> dict[str, float]:
    """Return the numbers that enter the statement, by name."""
    shared = {"rows": mechanism.rows, "queries": mechanism.queries, "beta": mechanism.beta}
    if not (mechanism.traits.leakage or mechanism.dependence.independent):
        shared["effective_rows"] = mechanism.effective_rows(mechanism.rows)
    return {**shared, **promise.details}


def privacy_facts(privacy: tuple[float, float] | None, *, simulation: bool) -> dict[str, float | None]:
    """Return the privacy of single rows as epsilon and delta.

    Epsilon and delta are None if no privacy is promised, or if ``simulation`` is True, because seeded noise can be
    predicted.
    """
    if privacy is None or simulation or not math.isfinite(privacy[0]):
        return {"epsilon": None, "delta": None}
    return {"epsilon": float(privacy[0]), "delta": float(privacy[1])}


def _holdout_facts(record: HoldoutRecord, also_sealed_as: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the section about the sealed rows, from the public settings of the holdout."""
    configuration = record.configuration
    public = ("rows", "fingerprint", "training_rows", "training_fingerprint", "columns", "label", "row_id", "features")
    rows = {name: configuration[name] for name in public}
    also: dict[str, Any] = {"also_sealed_as": sorted(also_sealed_as)} if also_sealed_as else {}
    if "stratified" in configuration:
        also["stratified"] = configuration["stratified"]
    if DEALT in configuration:
        also[DEALT] = configuration[DEALT]
    if assumed := configuration.get(INDEPENDENT):
        also[INDEPENDENT] = [list(each) for each in assumed]
    if lacking := configuration.get(LACKING):
        also[LACKING] = [[name, lacking[name]] for name, _ in configuration["columns"] if name in lacking]
    if rules := rules_of(configuration):
        also["missing"] = [[name, str(rules[name])] for name, _ in configuration["columns"] if name in rules]
    if warned := configuration.get(WARNED):
        also[WARNED] = list(warned)
    if (engine := public_facts(configuration)) is not None:
        also["engine"] = engine
    if (table := configuration.get("training_table")) is not None:
        also["training_table"] = {name: table[name] for name in ("table", "rows")}
    return {"rows": {"holdout": record.name, "id": record.id, "sealed_at": record.created, **rows, **also}}


def left_of(mechanism: Mechanism, state: State, *, closed: bool) -> dict[str, int]:
    """Return the remaining budget by name, 0 for an unsealed study.

    ``closed`` is True if the study is unsealed, so that no budget is left.
    """
    left = mechanism.remaining(state)
    return dict.fromkeys(left, 0) if closed else left


def _account_facts(account: CertifiedAccount, mechanism: Mechanism, state: State) -> dict[str, dict[str, Any]]:
    """Return the certificate's sections on queries and charges, and on the position of the ledger."""
    head, counts, since, queries = account.head, account.counts, account.since, account.queries
    accounts = head.accounts
    parts = [part.to_dict() for part in accounts.parts.values()]
    left = left_of(mechanism, state, closed=accounts.closed)
    return {
        "account": {
            "asked": head.asked,
            "by_source": {
                **{name: counts.sources.get(name, 0) for name in form.SOURCES},
                **{name: counts.sources[name] for name in form.RARE_SOURCES if counts.sources.get(name)},
            },
            "by_position": counts.by_position,
            "charged": head.charged,
            "left": {name: int(count) for name, count in left.items()},
            **({"allotments": {"acts": accounts.acts, "analysts": parts}} if accounts.acts else {}),
            **({"lost": accounts.lost.to_dict()} if accounts.lost.recoveries else {}),
            **({"labels": state.labels} if state.labels else {}),
            **({"unsealed": {"acts": accounts.unsealings, "answers": counts.unsealed}} if accounts.closed else {}),
            **account.extensions,
            **({} if queries is None else {"queries": [dict(query) for query in queries]}),
        },
        "ledger_head": {
            "sequence": head.sequence,
            "entry_hash": head.entry_hash,
            **({} if since is None else {"checkpoint": {"sequence": since.sequence, "made_at": since.made_at}}),
        },
    }


def _finite(value: float | None) -> float | None:
    """Return a number, or None if it is infinite, because JSON has no infinite numbers."""
    return float(value) if value is not None and math.isfinite(value) else None


def _plain(value: Any) -> Any:
    """Return data with NumPy's numbers replaced by Python's."""
    return value.item() if hasattr(value, "item") else value


def software_version() -> str:
    """Return the version of everhold that runs."""
    import everhold  # not at the top: everhold imports this room

    return everhold.__version__
