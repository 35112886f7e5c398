"""Contract of a ledger extension: its state follows from the entries alone, and is stored as JSON unaltered.

An extension inherits it, with entries that it writes::

    class TestNotes(LedgerExtensionContract):
        extension = Notes
        entries = [({"kind": "note", "text": "begun"}, "note", 0)]
        impossible = [({"kind": "note", "text": 7}, "note", 0)]
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest

from everhold.errors import IntegrityError
from everhold.ledger.acts import Accounts
from everhold.ledger.extension import EXTENSIONS, LedgerExtension, broken_contract

Line = tuple[Mapping[str, Any], str, int]


class LedgerExtensionContract:
    """Contract suite of a ledger extension.

    Attributes:
        extension: The class.
        entries: Entries in the order in which they are written, acts and answers: description, source and charge.
        impossible: Entries that the extension must reject after these.
    """

    extension: ClassVar[type[LedgerExtension]]
    entries: ClassVar[Sequence[Line]]
    impossible: ClassVar[Sequence[Line]]

    def after(self, count: int) -> Accounts:
        """Return the accounts after so many entries."""
        accounts = Accounts()
        for description, source, charged in self.entries[:count]:
            assert accounts.replay(description, {"source": source}, charged) is None
        return accounts

    def test_it_is_found_by_its_name_and_keeps_its_contract(self) -> None:
        """Its entry point has its name, and nothing of the contract is missing."""
        assert broken_contract(self.extension.name, self.extension) == ""
        assert EXTENSIONS[self.extension.name] is self.extension

    def test_a_ledger_that_does_not_use_it_carries_nothing_of_it(self) -> None:
        """A ledger without it has no field of it."""
        assert self.extension().stored() is None
        assert self.extension().entries == 0
        assert self.extension.from_state({"mechanism": {}}) == self.extension()
        assert Accounts().into({"mechanism": {}}) == {"mechanism": {}}

    def test_its_state_travels_as_json(self) -> None:
        """A sealed state carries exactly the kept values."""
        for count in range(1, len(self.entries) + 1):
            accounts = self.after(count)
            state = json.loads(json.dumps(accounts.into({"mechanism": {}})))
            again = Accounts.from_state(state)
            assert again.of(self.extension) == accounts.of(self.extension)
            assert again.into({"mechanism": {}}) == state
            assert again.agree_with(state)

    def test_another_state_does_not_agree(self) -> None:
        """A state that does not follow from the entries is reported as a fault."""
        state = self.after(len(self.entries)).into({})
        assert not Accounts().agree_with(state)
        assert not self.after(len(self.entries)).agree_with({})

    def test_its_acts_are_no_queries_and_its_answers_are(self) -> None:
        """Acts do not count as queries."""
        acts = sum(source in self.extension.acts for _, source, _ in self.entries)
        accounts = self.after(len(self.entries))
        assert accounts.of(self.extension).entries == acts
        assert accounts.queries_among(len(self.entries)) == len(self.entries) - acts

    def test_an_act_is_never_charged(self) -> None:
        """An act that was charged is reported as a fault."""
        for count, (description, source, _) in enumerate(self.entries):
            if source in self.extension.acts:
                assert self.after(count).replay(description, {"source": source}, 1) is not None

    def test_only_free_answers_are_taken_after_the_end(self) -> None:
        """An entry after unsealing is reported as a fault, unless the extension says that such answers are free."""
        for count, (description, source, charged) in enumerate(self.entries):
            accounts = self.after(count)
            accounts.closed = True
            taken = accounts.replay(description, {"source": source}, charged) is None
            assert taken == (source in self.extension.free)

    def test_what_is_never_written_is_found(self) -> None:
        """Impossible entries are reported as faults."""
        for description, source, charged in self.impossible:
            accounts = self.after(len(self.entries))
            assert accounts.replay(description, {"source": source}, charged) is not None

    def test_an_altered_state_is_refused(self) -> None:
        """A state that is never written cannot be read."""
        for wrong in (7, [[7]], {"teams": 7}, "text"):
            with pytest.raises(IntegrityError):
                self.extension.from_state({self.extension.key: wrong})
