"""Creation of a holdout: chooses its mechanism, seals its rows, and records its promise."""

from __future__ import annotations

import json
import secrets
import zlib
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from everhold.asking.query_executor import QueryExecutor, first_noise
from everhold.dependence import DependenceModel, RowStructure, require_model
from everhold.diagnosis.columns import declared_likeness
from everhold.diagnosis.diagnosis import diagnose_file, warn_of_a_sample, warn_of_dependence, warn_of_whole_groups
from everhold.errors import EverholdError, HoldoutNotFound, HoldoutRejected, warn_caller, warnings_collected
from everhold.estimand import check_features
from everhold.extensions import extra_for
from everhold.ledger import HoldoutRecord, LedgerStore
from everhold.ledger.acts import Declarations
from everhold.ledger.extension import EXTENSIONS
from everhold.ledger.head_file import HeadFile
from everhold.ledger.store import NewHoldout
from everhold.mechanisms import GuessAndCheck, Mechanism, has_public_levels
from everhold.mechanisms.base import planned_surprises
from everhold.mechanisms.records import TEXT_BITS
from everhold.planning.choice import bound_mechanism, check_worth, chosen_mechanism, warn_of_weak_promise
from everhold.planning.request import PlanRequest
from everhold.private_files import in_use
from everhold.progress import progress
from everhold.queries.interval_planner import MemberLevels
from everhold.sealing.configuration import (
    ALIKE,
    DEALT,
    INDEPENDENT,
    LACKING,
    WARNED,
    drawn_from_rows,
    name_the_whole,
    schema_from,
)
from everhold.sealing.intake.checks import lacking_rows
from everhold.sealing.intake.files import Sealed, seal
from everhold.sealing.intake.request import CURRENT, FLAT, Planning, divided, place_of
from everhold.sealing.rows.embedded import same_table
from everhold.sealing.rows.row_store import is_table, sealed_rows, training_rows
from everhold.sealing.sealed_files import sealed_note, write_note
from everhold.sealing.splits import warn_of_matched_classes
from everhold.sealing.storage import (
    HOLDOUT_FILE,
    ROOM,
    TRAINING_FILE,
    check_name_is_free,
    make_rows_folder,
    new_folder,
    rows_folder,
    storage_url,
)
from everhold.strict_json import canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from everhold.asking.session import HoldoutSession
    from everhold.families.base import BoundFamily, Family
    from everhold.sealing.intake.request import DealtPart, ExtensionSettings, SealRequest
    from everhold.sealing.storage import StewardKey
    from everhold.values.base import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyRequest:
    """The arguments of `everhold.Holdout.create` about the mechanism and the planned study."""

    mechanism: Mechanism | str | None
    queries: int
    surprises: int | None
    confidence: float
    dependence: DependenceModel | None
    planning: Planning = field(default_factory=Planning)

    @property
    def handed_in(self) -> Mechanism | None:
        """The requested mechanism if it was passed as an object, else None."""
        return self.mechanism if isinstance(self.mechanism, Mechanism) else None

    def tuned(self, structure: RowStructure, alike: float | None) -> Mechanism:
        """Return the mechanism for the rows that are about to be sealed.

        `alike` is the expected correlation within groups.
        """
        if self.handed_in is not None:
            return bound_mechanism(self.handed_in, structure, self.dependence)
        request = PlanRequest(
            rows=structure.rows, queries=self.queries, surprises=planned_surprises(self.surprises, self.queries),
            confidence=self.confidence, slack=self.planning.slack, training_rows=structure.training_rows, alike=alike,
        )  # fmt: skip
        chosen = chosen_mechanism(cast("str | None", self.mechanism), request, structure, self.dependence)
        return replace(chosen, text_bits=TEXT_BITS) if has_public_levels(chosen) else chosen


class Creation:
    """The steps that create one holdout. If a step fails, no holdout is left behind."""

    def __init__(
        self, request: SealRequest, study: StudyRequest, *, declared: Mapping[str, Family] | Sequence[Family] | None,
        share: float | None,
    ) -> None:  # fmt: skip
        mechanism, queries = study.mechanism, study.queries
        for settings in request.extensions.values():
            mechanism, queries = settings.plan(mechanism, queries)
        stated = study.dependence if study.handed_in is None else study.handed_in.dependence
        if stated is not None:
            require_model(stated)
        if mechanism is None and (declared is not None or study.planning.grows or request.dealt):
            mechanism = GuessAndCheck.name
        self.study = replace(study, mechanism=mechanism, queries=queries)
        self.request, self.declared, self.share = replace(request, dependence=stated), declared, 0.0
        if declared is not None or share is not None:
            from everhold.asking.declared import checked_share

            self.share = checked_share(share, declared=declared is not None)
        self.mostly_declared = self.share > 0.5  # what other queries are told matters less
        self.families: list[tuple[str, BoundFamily, Sequence[str]]] = []
        self.alike: float | None = None

    def declarations(self) -> list[tuple[str, str]]:
        """Return each family declared with the holdout: its name and its content as canonical text."""
        from everhold.asking.declared import text_of

        return [(name, text_of(family, words)) for name, family, words in self.families]

    def finish(self, executor: QueryExecutor, folder: Path) -> None:
        """Write files for later steps: hashes of the rows if more may be appended, and declared families."""
        if self.study.planning.grows:
            from everhold.asking.arrivals.appending import remember_rows

            remember_rows(executor, folder)
        if self.families:
            from everhold.asking.declared import declare_first

            declare_first(executor, folder, self.families)

    def seal(
        self, folder: Path, others: Sequence[HoldoutRecord], *, unsealed: Collection[str] = (), allow_resealing: bool
    ) -> Sealed:  # fmt: skip
        """Seal the rows in a private folder, and return them with the mechanism chosen for them.

        Args:
            folder: Private folder for the rows.
            others: Records of the other holdouts of the storage.
            unsealed: Names of those other holdouts that were unsealed.
            allow_resealing: Whether to seal rows that are already sealed in this storage.
        """
        try:
            return seal(
                folder, self.request, choose=lambda structure: self._mechanism(folder, structure), others=others,
                unsealed=unsealed, allow_resealing=allow_resealing, check=lambda made: self._check(folder, made),
            )  # fmt: skip
        except EverholdError as fault:
            fault.unchanged = HoldoutRejected.unchanged
            raise

    def _mechanism(self, folder: Path, structure: RowStructure) -> Mechanism:
        """Choose the mechanism that answers about the rows that are about to be sealed."""
        label, planning = self.request.label, self.study.planning
        self.alike = declared_likeness(folder / TRAINING_FILE, self.request.dependence, label=label)
        chosen = self.study.tuned(structure, self.alike)
        for settings in self.request.extensions.values():
            chosen = settings.adjust(chosen)
        if self.declared is not None:
            from everhold.asking.declared import sharing

            chosen = sharing(chosen, self.share)
        if planning.grows or planning.largest_group is not None:
            from everhold.asking.arrivals.growth import growing

            chosen = growing(chosen, planning, declared=self.declared is not None)
        check_features(self.request.rows.features, label=label, mechanism=chosen)
        check_worth(chosen, allow_vacuous=planning.allow_vacuous or self.mostly_declared, alike=self.alike)
        return chosen

    def _check(self, folder: Path, made: Sealed) -> None:
        """Complete the public facts and warn. Nothing is recorded before, because warnings may be raised as errors."""
        if self.alike is not None:
            made.configuration[ALIKE] = self.alike
        if self.study.planning.grows:
            from everhold.asking.arrivals.growth import record_growth

            record_growth(made.configuration, self.study.planning, declared=self.declared is not None)
        if self.request.extensions:
            check_extensions(self.request.extensions, schema_from(made.configuration))
        if self.declared is not None:
            from everhold.asking.declared import bound_families

            in_file = "engine" not in made.configuration
            sealed = sealed_rows(folder, made.configuration, made.key, None) if in_file else None
            self.families = bound_families(
                self.declared, schema=schema_from(made.configuration), mechanism=made.mechanism,
                training=training_rows(folder, made.configuration, None),
                levels=MemberLevels.recorded(made.configuration), sealed=sealed,
            )  # fmt: skip
            if sealed is not None:
                sealed.close()
        if not self.mostly_declared:
            warn_of_weak_promise(made.mechanism, self.alike)
        if copied := made.configuration["training_rows"]:
            columns = schema_from(made.configuration).columns
            lacking = {name: kind for name, kind in columns.items() if name in made.lacking}
            if lacking and (counted := lacking_rows(folder, lacking)):
                made.configuration[LACKING] = counted
            with warnings_collected() as warned:
                # Dependence, copied rows, or a split by classes or whole groups
                warn_of_matched_classes(folder, schema_from(made.configuration))
                drawn_from = drawn_from_rows(made.configuration)
                independent = self.request.rows.independent
                if drawn_from is not None and self.request.dependence is None:
                    warn_of_a_sample(copied=copied, drawn_from=drawn_from, apart=made.apart - {*independent})
                seen = diagnose_file(
                    folder / TRAINING_FILE, label=self.request.label, mechanism=made.mechanism, apart=made.apart,
                    brief=True, drawn_from=drawn_from, independent=independent,
                )  # fmt: skip
                if independent:
                    made.configuration[INDEPENDENT] = seen.assumptions()
                warn_of_dependence(seen)
                warn_of_whole_groups(made.whole_groups, seen)
            if warned:
                made.configuration[WARNED] = [str(warning) for warning in warned]
            for warning in warned:
                warn_caller(warning)


def record_all(
    storage: str | Path, creations: Sequence[tuple[str, Creation]], *, allow_resealing: bool
) -> tuple[LedgerStore, list[HoldoutRecord]]:  # fmt: skip
    """Seal the rows of new holdouts and record their promises. If one of them fails, none is recorded.

    Args:
        storage: Storage for the holdouts, as for `everhold.Holdout.create`.
        creations: The holdouts by their names.
        allow_resealing: Whether to seal rows that are already sealed in this storage, as for `everhold.Holdout.create`.

    Returns:
        The open database, and the records.
    """
    url = storage_url(storage)
    others: list[HoldoutRecord] = []
    unsealed: set[str] = set()
    with suppress(HoldoutNotFound), LedgerStore.open(url, create=False) as existing:
        others = existing.records()
        unsealed = {each.name for each in others if existing.head(each.id).accounts.closed}
        taken = [each.name for each in others] + [each.configuration.get(DEALT, {}).get("of") for each in others]
        for name, creation in creations:
            check_name_is_free((creation.request.dealt or {"of": name})["of"], taken)
            check_name_is_free(name, taken)
    with ExitStack() as stack:
        stack.enter_context(progress("sealing"))
        sealed = []
        for place, (name, creation) in enumerate(creations):
            folder = stack.enter_context(new_folder(rows_folder(url), name))
            with warnings_collected() if place else nullcontext():  # of the same training rows
                made = creation.seal(folder, others, unsealed=unsealed, allow_resealing=allow_resealing)
            sealed.append((folder, made))
        name_the_whole([(name, made.configuration) for (name, _), (_, made) in zip(creations, sealed, strict=True)])
        new = []
        for (name, creation), (folder, made) in zip(creations, sealed, strict=True):
            state = made.mechanism.start(first_noise(creation.request.seed))
            head_file = partial(HeadFile.of, folder, made.key.seal_key)
            new.append(NewHoldout(name, made.configuration, state.bound, made.key.seal_key, head_file))
        store = LedgerStore.open(url)
        try:
            records = store.create_all(new, beside=[each.name for each in others])
        except BaseException:
            store.close()
            raise
    return store, records


_OF_EACH = frozenset({"folder", "public_key", "fingerprint", "training_fingerprint", "sealed_before"})
"""Settings that differ between any two holdouts, however they were created."""


def check_repeated(session: HoldoutSession | None, name: str, creation: Creation) -> None:
    """Check that a holdout of this name was created with the same rows and settings, for ``exist_ok=True``.

    Args:
        session: The open holdout. None if its rows are dealt into parts, or if the new request would deal them.
        name: Name of the holdout.
        creation: The rows and settings.

    Raises:
        HoldoutRejected: If the rows or settings differ, or cannot be compared. Nothing was created.
    """
    configuration = {} if session is None else session.executor.record.configuration
    if session is None or "engine" in configuration or is_table(creation.request.holdout):
        raise HoldoutRejected(
            f"A holdout named {name!r} exists. Rows that are dealt into parts or stay in an engine are not compared. "
            "Open it with Holdout.open(...)."
        )
    executor, folder = session.executor, session.folder
    with TemporaryDirectory(dir=folder.parent, prefix=ROOM) as own, in_use(Path(own)):
        made = creation.seal(Path(own), [], allow_resealing=True)
        differing = _differing(configuration, json.loads(canonical(made.configuration)))
        for what, file in (("holdout", HOLDOUT_FILE), ("training", TRAINING_FILE)):
            if (folder / file).exists() and (Path(own) / file).exists() and not differing:
                differing += [] if same_table(folder / file, Path(own) / file) else [f"{what} rows"]
    declared = [
        family for family in executor.ledger.head().accounts.of(Declarations).by_name.values() if not family.later
    ]
    if [(family.name, family.family) for family in declared] != creation.declarations():
        differing.append("declared families")
    if differing:
        raise HoldoutRejected(
            f"A holdout named {name!r} exists, and was created with other {', '.join(differing)}. Pass what it was "
            "created with to open it, or another name.",
            name=name, differing=differing,
        )  # fmt: skip


def _differing(configuration: Mapping[str, Any], made: Mapping[str, Any]) -> list[str]:
    """Return the names of the settings that differ.

    For the mechanism, these are the names of its differing parameters.
    """
    found = []
    for name in sorted({*configuration, *made} - _OF_EACH):
        old, new = configuration.get(name), made.get(name)
        if old != new and isinstance(old, dict) and isinstance(new, dict) and name in ("mechanism", "parameters"):
            found += _differing(old, new)
        elif old != new:
            found.append(name)
    return [*dict.fromkeys(found)]


# Keywords of `Holdout.create` from flat settings, those of extensions included.


def settings_from(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords of `Holdout.create` from flat settings, as in a request, a file or a command.

    Raises:
        TypeError: If a setting is there both flat and in its object.
        ValueError: If the settings of an extension contradict each other.
    """
    left = dict(flat)
    if left.keys() - CURRENT - FLAT:
        from everhold.asking.accessor import accessors

        for name, accessor in accessors():
            settings, left = accessor.settings_from(left)
            if settings is not None:
                left[name] = settings
    return divided(left)


def extension_settings(given: Mapping[str, Any]) -> dict[str, ExtensionSettings]:
    """Return the settings of extensions by name, after checking them. None means that none are given.

    Raises:
        TypeError: If there is no such extension, or the settings are not of its class.
    """
    from everhold.asking.accessor import accessor_named

    found = {}
    for name, settings in given.items():
        if (accessor := accessor_named(name)) is None:
            extra = extra_for(EXTENSIONS.group, name)
            remedy = f"Install it: pip install 'everhold[{extra}]'." if extra else "See help(Holdout.create)."
            remedy = f"Write {place_of(name)}." if name in FLAT else remedy
            raise TypeError(f"Holdout.create() has no keyword {name!r}. {remedy}")
        if settings is None:
            continue
        kind = accessor.settings
        if kind is None or not isinstance(settings, kind):
            expected = "nothing" if kind is None else f"eh.{kind.__name__}(...)"
            raise TypeError(f"{name} is a {type(settings).__name__}. Pass {expected}.")
        found[name] = settings
    return found


def check_extensions(given: Mapping[str, ExtensionSettings], schema: Schema) -> None:
    """Check that the settings of extensions fit the rows.

    Raises:
        HoldoutRejected: If the settings of an extension do not fit. Nothing was created.
    """
    from everhold.asking.accessor import accessor_named

    for name, settings in given.items():
        if (accessor := accessor_named(name)) is not None:
            accessor.check_settings(settings, schema)


# Parts of one table: its rows are divided, by chance or by a column, and each part becomes a holdout, all or none.


PARTS_FILE = "parts.json"
"""Note in the folder of a part with extensions: to which part each row of the table was dealt."""


def create_parts(
    storage: str | Path, name: str, parts: Sequence[DealtPart], request: SealRequest, study: StudyRequest, *,
    make: Callable[[SealRequest, StudyRequest], Creation], allow_resealing: bool,
) -> tuple[LedgerStore, list[HoldoutRecord]]:  # fmt: skip
    """Divide rows into parts, and seal each part as a holdout of its own.

    Args:
        storage: Storage for the holdouts, as for `everhold.Holdout.create`.
        name: Name of the whole table, from which the names of the parts are made.
        parts: The parts, with their shares of the rows.
        request: The rows to divide.
        study: The plan of each part.
        make: Function that makes a creation from the rows of a part and its plan.
        allow_resealing: Whether to seal rows that are already sealed in this storage, as for
            `everhold.Holdout.create`.

    Returns:
        The open database, and the records of the parts.

    Raises:
        HoldoutRejected: If the rows cannot be divided in this way. Nothing was created.
    """
    from everhold.asking.session import HoldoutSession
    from everhold.sealing.intake.splitting import dealt_files

    model = study.dependence
    if model is not None and not model.dealable:
        raise HoldoutRejected(
            f"Rows that are {model.rows_are} cannot be dealt by chance: each part would depend on the others. Seal "
            "each period as a holdout of its own."
        )
    if study.planning.grows:
        raise HoldoutRejected("Rows that are dealt into parts do not support grows=. Leave grows= out.")
    if hasattr(request.holdout, "sealing"):
        raise HoldoutRejected("Rows in an engine cannot be dealt into parts. Pass a file or a data frame.")
    url, order = storage_url(storage), next((each.order for each in request.extensions.values() if each.order), None)
    if order is not None and order == request.label:
        raise HoldoutRejected(
            f"Rows that are dealt by the order of their labels ({order!r}) show something about the labels of the "
            "other part. Deal them by another column, or by chance."
        )
    make_rows_folder(rows_folder(url))
    with TemporaryDirectory(dir=rows_folder(url), prefix=".dealt-") as own:
        files, part_of_row = dealt_files(
            request, Path(own), [part.share for part in parts], order=order,
            groups=None if model is None else model.group_column, rng=np.random.default_rng(request.seed),
        )  # fmt: skip
        key, creations = secrets.token_hex(32), []
        for place, (part, file) in enumerate(zip(parts, files, strict=True), 1):
            planning = replace(study.planning, allow_vacuous=study.planning.allow_vacuous or part.allow_vacuous)
            rows = replace(
                request, holdout=file, extensions=part.extensions, content_key=key,
                dealt={"of": name, "part": place, "parts": len(parts)},
            )  # fmt: skip
            plan = replace(study, confidence=part.confidence, planning=planning)
            creations.append((part.name, make(rows, plan)))
        store, records = record_all(storage, creations, allow_resealing=allow_resealing)
        for (_, creation), record in zip(creations, records, strict=True):
            folder = rows_folder(url) / record.configuration["folder"]
            executor = HoldoutSession(store, record, folder, checked=True).executor
            if creation.request.extensions:
                dealt = zlib.compress(part_of_row.astype(np.uint8).tobytes())
                write_note(folder / PARTS_FILE, dealt, key=executor.key.notes_key)
            creation.finish(executor, folder)
    return store, records


def part_of_each_row(folder: Path, key: StewardKey) -> NDArray[np.uint8] | None:
    """Return for each row of the table the number of its part, counted from 0. None if this was not recorded.

    Raises:
        IntegrityError: If the record was altered.
    """
    note = sealed_note(folder / PARTS_FILE, key=key.notes_key)
    return None if note is None else np.frombuffer(zlib.decompress(note), dtype=np.uint8)
