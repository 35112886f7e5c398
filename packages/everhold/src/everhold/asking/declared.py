"""Declaring families of queries, at creation or later, and the error probabilities of these queries (S10)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from everhold.arguments import brief, is_text
from everhold.asking.accessor import HoldoutAccessor
from everhold.display import Listing
from everhold.errors import BudgetExhausted, HoldoutRejected, QueryRejected
from everhold.families.base import MOST_SHARE, BoundFamily, Family, share_of
from everhold.families.grid import BoundGrid, GridFamily
from everhold.families.listed import BoundList
from everhold.families.pool import BoundPool
from everhold.families.subgroups import BoundSubgroups
from everhold.families.texts import BoundTexts
from everhold.ledger import EntryDraft, Head, Outcome
from everhold.ledger.acts import DECLARATION, LONGEST_FAMILY, Accounts, Declaration, Declarations, EntryCounts
from everhold.ledger.store import all_entries
from everhold.mechanisms import Mechanism, PublicLevels, has_public_levels, those_with
from everhold.mechanisms.releases import SHARE, widest_declared
from everhold.queries.interval_planner import MemberLevels, RecordedPool
from everhold.queries.query import MOST_SHOWN
from everhold.queries.query_compiler import QueryCompiler
from everhold.strict_json import canonical, digest

if TYPE_CHECKING:
    from pathlib import Path

    from everhold.asking.query_executor import QueryExecutor
    from everhold.guarantees.intervals.base import Procedure
    from everhold.sealing.rows.table import StoredRows
    from everhold.values.base import BoundQuery, Schema

_KINDS: dict[str, Any] = {kind.kind: kind for kind in (BoundList, BoundSubgroups, BoundTexts, BoundGrid, BoundPool)}
WORDS = "words"
"""What a family declares, entry by entry, as its author wrote it."""

_CLOSED = "The study was unsealed, so no family can be declared any more. Seal new rows."

Families = Mapping[str, Family] | Sequence[Family]


def sharing(mechanism: Mechanism, share: float) -> Mechanism:
    """Return the mechanism with a share of its failure probability set aside for declared families.

    Raises:
        HoldoutRejected: If the mechanism cannot do this. Nothing was created.
    """
    if not has_public_levels(mechanism):
        raise HoldoutRejected(
            f"The mechanism {mechanism.name} does not support declared families. Use the mechanism "
            f"{those_with('public_levels')}."
        )
    return mechanism.sharing(share)


def checked_share(share: object, *, declared: bool) -> float:
    """Return the share of the failure probability for families declared at creation, after checking it.

    Args:
        share: The requested share; None for the usual one.
        declared: Whether families are declared.

    Raises:
        HoldoutRejected: If the share is not a possible number, or is given although no family is declared. Nothing was
            created.
    """
    part = share_of(SHARE if share is None else share)
    if part is None:
        raise HoldoutRejected(
            f"share is {brief(share)}. Pass a number above 0 and at most {MOST_SHARE}: the "
            "part of the probability of failure for declared families."
        )
    if share is not None and not declared:
        raise HoldoutRejected(
            f"share is {brief(share)}, and no family is declared. Pass declared=[...] with it, or leave out share."
        )
    return part


def bound_families(
    families: Families, *, schema: Schema, mechanism: Mechanism, training: StoredRows | None, levels: MemberLevels,
    sealed: StoredRows | None,
) -> list[Any]:  # fmt: skip
    """Bind families to the rows of a new holdout. Return for each its name, the bound family, and its text for people.

    A family can use the pools that come before it in the list.

    Raises:
        QueryRejected: If one of them cannot be declared on this holdout. Nothing was created.
    """
    compiler = QueryCompiler(schema, mechanism, training, families=levels, sealed=sealed)
    if isinstance(families, Family):
        families = [families]
    if not isinstance(families, (Mapping, Sequence)) or isinstance(families, (str, bytes)) or not families:
        raise QueryRejected(f"declared is {brief(families)}. Pass families, such as [eh.texts()].")
    named = families if isinstance(families, Mapping) else {f"family {n}": f for n, f in enumerate(families, 1)}
    assert has_public_levels(mechanism)
    found, pools, nats = list[Any](), list[RecordedPool](), mechanism.described(math.log(len(named)))
    for name, family in named.items():
        known = replace(compiler, families=replace(levels, pools=lambda: tuple(pools)))
        bound, words = _bound(family, known)
        found.append((checked_name(name), bound, words))
        if isinstance(bound, BoundPool):
            pools.append(bound.recorded(name, nats))
    return found


def checked_name(name: str) -> str:
    """Return the name of a family, after checking that it can be used.

    Raises:
        QueryRejected: If the name cannot be used.
    """
    if not (is_text(name, longest=LONGEST_FAMILY) and name and name.isprintable()):
        raise QueryRejected(
            f"The family name {brief(name)} cannot be used. Pass 1 to {LONGEST_FAMILY} printable characters."
        )
    return name


def _bound(family: Family, compiler: QueryCompiler) -> tuple[BoundFamily, Sequence[str]]:
    if not isinstance(family, Family):
        raise QueryRejected(
            f"{brief(family)} is not a family. Pass eh.listed([...]), eh.subgroups([...], "
            "of=...), eh.texts(), eh.grid(estimator, space) or eh.pool(rows, [...])."
        )
    from everhold.families.protocol import in_words

    return family.bind(compiler), in_words(family)


def declare_first(
    executor: QueryExecutor, folder: Path, families: Sequence[tuple[str, BoundFamily, Sequence[str]]]
) -> None:
    """Record the families declared at creation, which share their part of the failure probability equally."""
    _keep_pools(executor, folder, [family for _, family, _ in families])
    mechanism = executor.mechanism
    assert has_public_levels(mechanism)
    nats = mechanism.described(math.log(len(families)))
    made = [
        _declaration(name, family, words, nats, entry=entry, later=False)
        for entry, (name, family, words) in enumerate(families, 1)
    ]
    with executor.ledger.transaction([_draft(each) for each in made]) as transaction:
        accounts = Accounts.from_state(transaction.head.state)
        for each in made:
            accounts.of(Declarations).replay(each.stored(), DECLARATION)
        transaction.record(accounts.into(transaction.head.state), [Outcome.of_act(DECLARATION) for _ in made])


def _keep_pools(executor: QueryExecutor, folder: Path, families: Sequence[BoundFamily]) -> None:
    """Write the hashes of the rows of pools beside the sealed rows, before the ledger knows the pools."""
    for family in families:
        if isinstance(family, BoundPool):
            family.keep(folder, key=executor.key.notes_key)


def declare(executor: QueryExecutor, folder: Path, name: str, family: Family) -> Declaration:
    """Declare a family now, and return its declaration. It uses up one planned query.

    The queries of the family share the level (the probability of failure) of that planned query. A text expression has
    the level of its description instead if this is larger.

    Raises:
        QueryRejected: If the family cannot be declared. Nothing was changed.
        BudgetExhausted: If the budget has no query left that a family could use. Nothing was changed.
    """
    checked_name(name)
    executor.check_steward("declare a family")
    mechanism = _giving_levels(executor)
    bound, words = _bound(family, _of_declarations(executor))
    head = executor.ledger.head()
    _check_free(head.accounts, name)
    state = executor.state_from(head)
    if not mechanism.surely_answers(state, 1):
        raise BudgetExhausted("The query budget is used up, so no family can be declared any more. Seal new rows.")
    nats = float(mechanism.nats(state.asked + 1, state.charged, state.labels / 1e6))
    checked = isinstance(bound, BoundTexts) and bound.bits <= mechanism.text_bits
    if checked and not executor.compiler.families.first_rows:  # else their events are others
        nats = min(nats, mechanism.of_text(0.0))
    made = _declaration(name, bound, words, nats, entry=head.sequence + 1, later=True)
    _keep_pools(executor, folder, [bound])
    with executor.ledger.transaction([_draft(made)]) as transaction:
        accounts = Accounts.from_state(transaction.head.state)
        _check_free(accounts, name)
        if transaction.head.state != head.state:
            raise QueryRejected("A query was asked at the same time. Declare the family again.")
        accounts.of(Declarations).replay(made.stored(), DECLARATION)
        after = state.after(asked=1, charged=0).bound(executor.record.settings)
        transaction.record(accounts.into(after), [Outcome.of_act(DECLARATION)])
    return made


def _giving_levels(executor: QueryExecutor) -> PublicLevels:
    """Return the mechanism of the holdout, after checking that it can give levels to families.

    Raises:
        QueryRejected: If the mechanism has no levels. Nothing was changed.
    """
    if has_public_levels(executor.mechanism):
        return executor.mechanism
    raise QueryRejected(
        f"The mechanism {executor.mechanism.name} of this holdout does not support declared families. Use a holdout "
        f"with {those_with('public_levels')}."
    )


def _of_declarations(executor: QueryExecutor) -> QueryCompiler:
    """Return the compiler for declared families. Their members are about all rows, also rows that arrive later."""
    return replace(executor.compiler, schema=replace(executor.schema, about=()))


def _check_free(accounts: Accounts, name: str) -> None:
    if accounts.closed:
        raise QueryRejected(_CLOSED)
    if name in accounts.of(Declarations).by_name:
        raise QueryRejected(f"A family named {name!r} exists. Pass another name.")


def _declaration(
    name: str, family: BoundFamily, words: Sequence[str], nats: float, *, entry: int, later: bool
) -> Declaration:
    text = text_of(family, words)
    return Declaration(name, family.shown[:MOST_SHOWN], text, nats, entry, later)


def text_of(family: BoundFamily, words: Sequence[str]) -> str:
    """Return the content of a family as canonical JSON text, which the ledger keeps."""
    return canonical({**family.to_dict(), WORDS: [word[:MOST_SHOWN] for word in words]})


def _draft(made: Declaration) -> EntryDraft:
    shown = f"declared {made.name!r}: {made.shown}"
    public = {"kind": DECLARATION, **made.stored()}
    return EntryDraft(digest({"kind": DECLARATION, "name": made.name}), {**public, "shown": shown[:MOST_SHOWN]})


class FamilyLevels:
    """Function that finds the level of a query among the holdout's declared families. Each family is read only once.

    Args:
        schema: The columns that families are about.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema, self._known = schema, dict[str, BoundFamily]()

    def __call__(self, executor: QueryExecutor, bound: BoundQuery) -> float | None:
        """Return ln(1 / level) of a query, the largest of its families' levels, or None if no family has it."""
        declared = executor.ledger.head().accounts.of(Declarations).by_name.values()
        if (schema := executor.schema).about:  # a member is one query for all arrivals (S14)
            bound = replace(bound, description=schema.without_arrival(bound.description))
        found = []
        for each in declared:
            family = self.family(each)
            found.append((each.nats, family.nats(bound)))
            family.check_training(bound, executor.training)
        return min((base + nats for base, nats in found if nats is not None), default=None)

    def pools(self, executor: QueryExecutor) -> tuple[RecordedPool, ...]:
        """Return the pools that the holdout has recorded."""
        return tuple(pool.recorded(each.name, each.nats) for each, pool in self._pools(executor.ledger.head()))

    def check_arriving(self, executor: QueryExecutor, head: Head, arriving: Path) -> None:
        """Check that no row of a recorded pool is in a file of rows that are about to be sealed."""
        group_by = executor.mechanism.dependence.group_column
        for _, pool in self._pools(head):
            pool.check_arriving(arriving, executor.schema, group_by=group_by, key=executor.key.notes_key)

    def _pools(self, head: Head) -> list[tuple[Declaration, BoundPool]]:
        declared = head.accounts.of(Declarations).by_name.values()
        return [(each, pool) for each in declared if isinstance(pool := self.family(each), BoundPool)]

    def family(self, declaration: Declaration) -> BoundFamily:
        """Return the family of a declaration, rebuilt from its JSON text and cached."""
        if declaration.family not in self._known:
            data = {name: held for name, held in json.loads(declaration.family).items() if name != WORDS}
            self._known[declaration.family] = _KINDS[data["kind"]].from_dict(data, self._schema)
        return self._known[declaration.family]


@dataclass(frozen=True, slots=True)
class DeclaredFamilies(Listing):
    """The declared families of a holdout, with their contents and the widths of their intervals.

    Attributes:
        rows: One dict for each family: name, holds (its queries, in words), declared ("at creation" or "later"), bits
            (length of its longest description) and within (half-width of a share of rows whose description has this
            length).
    """

    rows_called: ClassVar[str] = "families"

    rows: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Refits(Listing):
    """Comparison of models fitted again at points of a declared grid with the models used in answers.

    Attributes:
        rows: One dict for each point that was fitted again, with ``point`` and ``same``. ``same`` is False if the model
            now predicts something else for the training rows.
    """

    rows: Sequence[Mapping[str, Any]]

    @property
    def all_same(self) -> bool:
        """Whether every model that was fitted again has the same predictions for training rows as before."""
        return all(row["same"] for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as ``{"refits": [...], "all_same"}``."""
        return {"refits": self.to_rows(), "all_same": self.all_same}


class HoldoutFamilies(HoldoutAccessor):
    """The declared families of a holdout: `holdout.declared`."""

    def check(self, families: Mapping[str, Family]) -> None:
        """Check that several families could be declared now.

        Raises:
            QueryRejected: If one of the families cannot be declared. Nothing was changed.
        """
        _giving_levels(self._executor)
        accounts = self._executor.ledger.head().accounts
        for name, family in families.items():
            _check_free(accounts, checked_name(name))
            _bound(family, _of_declarations(self._executor))

    def families(self) -> DeclaredFamilies:
        """Return each declared family with its queries in words, and the largest half-width of one of its intervals."""
        levels, mechanism = FamilyLevels(self._executor.schema), self._executor.mechanism
        rows = []
        for each in self._executor.ledger.head().accounts.of(Declarations).by_name.values():
            nats = levels.family(each).most_nats
            level = each.nats + nats
            within = levels.family(each).half_width(each.nats)
            if within is None:
                within, _ = widest_declared(mechanism, procedure_of_shares(self._executor, level), level)
            declared = "later" if each.later else "at creation"
            rows.append(
                {"name": each.name, "holds": each.shown, "declared": declared, "bits": round(nats / math.log(2.0), 1),
                 "within": within}
            )  # fmt: skip
        return DeclaredFamilies(rows)

    def model(self, family: GridFamily, point: Mapping[str, Any]) -> Any:
        """Return the model at a point of a declared space, fitted on the training rows. Nothing is asked."""
        return family.model(self._executor.compiler, family.space.point(point))

    def refit(self, family: GridFamily, *, sample: int = 10, seed: int = 0) -> Refits:
        """Fit models of a declared search space again, and compare them with the models that were asked about.

        A difference means that a fit depends on something besides the training rows, such as a clock or a file.

        Args:
            family: The search space, built with the same arguments as the declared one.
            sample: Largest number of points to fit again, drawn from those that were asked about.
            seed: Seed of the draw.

        Raises:
            QueryRejected: If the space is not declared on this holdout with these versions of packages.
        """
        bound, executor = BoundGrid(family.facts), self._executor
        head = executor.ledger.head()
        text = text_of(bound, ())
        if all(each.family != text for each in head.accounts.of(Declarations).by_name.values()):
            raise QueryRejected(
                "This grid is not declared on this holdout, or was declared with other "
                "versions of packages. Pass the grid as it was declared."
            )
        every = (entry.description for entry in all_entries(executor.ledger, head.sequence))
        told = [described for described in every if described.get("grid") == bound.digest]
        chosen = np.random.default_rng(seed).permutation(len(told))[:sample]
        rows = []
        for description in (told[place] for place in sorted(chosen.tolist())):
            model = family.fit(executor.compiler, family.space.read(description["point"]))
            same = family.fit_digest(executor.compiler, model) == description["fit"]
            rows.append({"point": description["point"], "same": same})
        return Refits(rows)

    def status_facts(self, head: Head) -> dict[str, Any]:
        """Return the public facts of all declared families, for `Holdout.status`."""
        declared = head.accounts.of(Declarations).by_name.values()
        return {"declared": [{"name": each.name, "holds": each.shown} for each in declared]} if declared else {}

    def certificate_facts(self, head: Head, counts: EntryCounts) -> dict[str, Any]:
        """Return, for the certificate, each family with the level of its queries and the time of its declaration."""
        declared = head.accounts.of(Declarations).by_name.values()

        def fixed(entry: int) -> str:
            return next(iter(self._executor.ledger.entries(entry - 1, 1))).asked_at

        facts = [
            {"name": each.name, "holds": each.shown, "nats": each.nats, "entry": each.entry, "later": each.later,
             "fixed": fixed(each.entry), "digest": digest(json.loads(each.family)),
             "members": json.loads(each.family)[WORDS]}
            for each in declared
        ]  # fmt: skip
        return {"declared": facts} if facts else {}


def procedure_of_shares(executor: QueryExecutor, nats: float) -> Procedure:
    """Return the interval procedure of a declared yes-or-no query whose level is ``exp(-nats)``."""
    mechanism, first_rows = executor.mechanism, executor.compiler.families.first_rows
    usual = mechanism.yes_no_procedure
    if not first_rows:
        return usual
    from everhold.guarantees.intervals.in_order import CoinMixture, groups_at_all_sizes

    if not mechanism.dependence.in_groups:
        return CoinMixture.declared(usual, first_rows=first_rows, nats=nats)
    largest = executor.compiler.families.largest_group
    found = groups_at_all_sizes(usual, sizes=mechanism.dependence.unit_counts, largest=largest)
    assert found is not None
    return found
