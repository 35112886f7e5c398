"""The ledger against a dictionary, under any order of asks, batches, failures and reopenings."""

from itertools import count

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from ledger_samples import KEY, committed_by, new_study, query, start_state

from everhold.ledger import Ledger, LedgerStore, Outcome, verify

NUMBERS = st.integers(0, 12)


class StepError(Exception):
    pass


class LedgerAgainstModel(RuleBasedStateMachine):
    numbers = count()

    def __init__(self, url):
        super().__init__()
        self.url = url

    @initialize()
    def open(self):
        self.store = LedgerStore.open(self.url)
        self.record = new_study(self.store, f"study {next(self.numbers)}")
        self.state = start_state()
        self.answers = {}
        self.charged = 0

    @rule(numbers=st.lists(NUMBERS, max_size=8), charge=st.integers(0, 3), fails=st.booleans())
    def ask(self, numbers, charge, fails):
        before = dict(self.answers)
        fresh = [number for number in dict.fromkeys(numbers) if number not in before]
        new_state = {"spent": self.state["spent"] + charge, f"charged {charge}": numbers}

        def step(state, indices):
            assert state == self.state
            assert [numbers[index] for index in indices] == fresh
            if fails:
                raise StepError
            return new_state, [Outcome({"of": number, "after": len(before)}, charge) for number in fresh]

        try:
            committed = committed_by(Ledger(self.store.database, self.record.id, KEY), [*map(query, numbers)], step)
        except StepError:
            assert fails
            assert fresh
            return
        assert not (fails and fresh)
        if fresh:
            self.state = new_state
        for number in fresh:
            self.answers[number] = (len(self.answers) + 1, {"of": number, "after": len(before)})
            self.charged += charge
        assert [(c.sequence, c.answer) for c in committed] == [self.answers[number] for number in numbers]
        assert sum(c.charged for c in committed) == charge * len(fresh)
        assert [c.repeated for c in committed].count(False) == len(fresh)
        assert Ledger(self.store.database, self.record.id, KEY).head().state == self.state

    @rule()
    def reopen(self):
        self.store.close()
        self.store = LedgerStore.open(self.url, create=False)
        assert self.store.record(self.record.name) == self.record

    @rule(number=NUMBERS)
    def find(self, number):
        entry = Ledger(self.store.database, self.record.id, KEY).find(query(number).fingerprint)
        assert (entry and (entry.sequence, entry.answer)) == self.answers.get(number)

    @invariant()
    def record_and_model_agree(self):
        head = self.store.head(self.record.id)
        assert (head.asked, head.charged, head.state) == (len(self.answers), self.charged, self.state)
        recorded = [
            (entry.sequence, entry.answer) for entry in Ledger(self.store.database, self.record.id, KEY).entries()
        ]
        assert recorded == sorted(self.answers.values(), key=lambda answer: answer[0])
        assert verify(self.store, self.record.name, seal_key=KEY).ok

    def teardown(self):
        self.store.close()


@pytest.mark.slow
def test_the_ledger_is_a_dictionary(url, kind):
    examples = settings(max_examples=40 if kind == "sqlite" else 15, stateful_step_count=20, deadline=None)
    run_state_machine_as_test(lambda: LedgerAgainstModel(url), settings=examples)
