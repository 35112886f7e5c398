"""Parts of the budget for named analysts: nobody spends more, refusals tell nothing, the ledger shows all of it."""

import json
import sqlite3
import tempfile
from functools import partial

import pytest
from allotment_children import spend_all
from holdout_samples import ROWS, copied, create, guess_and_check, rows
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from prepared_processes import prepared_processes

import everhold as eh
from everhold import Holdout
from everhold.certificate import verify_certificate
from everhold.certificate.document import signed_message
from everhold.certificate.form import misshapen
from everhold.errors import BudgetExhausted, EverholdWarning, QueryRejected
from everhold.ledger import verify
from everhold.ledger.store import all_entries
from everhold.mechanisms import answering
from everhold.queries.query import RowwiseQuery
from everhold.sealing.rows.table import StoredRows
from everhold.strict_json import canonical, digest
from everhold_privacy.queries.choice import PrivateChoice, PrivateQuantileQuery
from everhold_privacy.queries.priced import Price

WISH = {"rows": ROWS, "queries": 30, "confidence": 0.9}
HOSTILE = [
    *("", " a", "a ", "a  b", "a\nb", "\x1b[2J", "a\u202eb", "a\u200bb", "x" * 101, "\ufb01", "e\u0301", "\ud800"),
    7,
    None,
]


@pytest.fixture(autouse=True)
def few_rows_are_enough(monkeypatch):
    monkeypatch.setattr("everhold.asking.creation.warn_of_weak_promise", lambda *_: None)


@pytest.fixture
def study(tmp_path):
    """Guesses are confirmed against 1,000 rows; the whole pays for some 5 surprises."""
    with copied(tmp_path, mechanism=guess_and_check(tolerance=0.24)) as holdout:
        yield holdout


@pytest.fixture
def budget(tmp_path):
    with copied(tmp_path, mechanism="privacy_budget", queries=20) as holdout:
        yield holdout


@pytest.fixture
def looks(monkeypatch):
    """The queries for which the sealed rows were looked at."""
    seen, totals, look = [], StoredRows.totals, StoredRows.evaluate

    def spied(self, bound, **wanted):
        if self._sealed:
            seen.extend(bound)
        return totals(self, bound, **wanted)

    def spied_look(self, bound, needs, **wanted):
        if self._sealed:  # plain totals are seen by the other
            seen.extend(query for query, need in zip(bound, needs, strict=True) if need != "total")
        return look(self, bound, needs, **wanted)

    monkeypatch.setattr(StoredRows, "evaluate", spied_look)
    monkeypatch.setattr(StoredRows, "totals", spied)
    return seen


def findings(holdout, **wanted):
    key = holdout._executor.key.seal_key
    return [
        finding.what
        for finding in verify(
            holdout._executor.store, holdout._executor.record.name, **{"seal_key": key, **wanted}
        ).findings
    ]


def everything(holdout):
    head = holdout._executor.store.head(holdout._executor.record.id)
    return (
        head,
        holdout.remaining,
        list(all_entries(holdout._executor.ledger)),
        holdout.status(),
    )


def wrong(cut):
    """A query whose answer is 1, with the guess 0: always a surprise."""
    return f"delay > {cut} or delay <= {cut}"


def test_an_analyst_spends_their_part_and_no_more(study):
    part = study.allot("team-a", queries=2, charges=2)
    assert (part.asked, part.queries, part.charged, part.charges) == (0, 2, 0, 2)
    team = study.analyst("team-a")
    assert team.remaining == {"queries": 2, "surprises": 2}
    first = team.ask(wrong(0), guess=0.0)
    assert (first.charged, first.analyst, first.remaining) == (1, "team-a", {"queries": 1, "surprises": 1})
    team.ask("delay > 1")
    before = everything(study)
    refused = team.ask("delay > 2")
    assert (refused.source, refused.charged, refused.remaining["queries"]) == ("refused", 0, 0)
    assert "allotment" in str(refused)
    assert "allotment" in refused.explain()
    with pytest.raises(BudgetExhausted, match="Ask the steward"):
        team.ask("delay > 2", strict=True)
    assert everything(study) == before
    assert study.ask("delay > 2").source == "training"
    assert findings(study) == []


def test_a_query_that_could_cost_more_than_is_left_is_refused(study):
    study.allot("team-a", queries=9, charges=1)
    team = study.analyst("team-a")
    assert team.ask("delay > 0").charged == 0
    assert team.ask(wrong(0), guess=0.0).charged == 1
    assert team.ask("delay > 1").source == "refused"  # its guess would hold, but who knows before
    assert team.remaining == {"queries": 0, "surprises": 0}
    assert team.quote("delay > 1").refused
    assert not study.quote("delay > 1").refused


def test_answers_are_shared_for_nothing(study):
    for name in ("team-a", "team-b"):
        study.allot(name, queries=1)
    a, b = study.analyst("team-a"), study.analyst("team-b")
    given, again = a.ask("delay > 0"), b.ask("delay > 0")
    assert (again.value, again.repeated, again.charged) == (given.value, True, 0)
    assert b.remaining["queries"] == 1
    assert b.ask("delay > 1").source == "training"
    assert a.ask("delay > 1").repeated
    assert [(row["analyst"], row["sequence"]) for row in study.transcript().rows] == [("team-a", 3), ("team-b", 4)]
    assert [row["sequence"] for row in b.transcript().rows] == [4]
    assert a.quote("delay > 1").answered_before


def test_a_batch_is_answered_in_order_as_far_as_it_is_surely_paid(study):
    study.allot("team-a", queries=4, charges=2)
    team = study.analyst("team-a")
    texts = ["delay > 0", wrong(0), "delay > 0", "delay > 1", wrong(1), "delay > 2"]
    answers = team.ask_many(texts, guesses=[None, 0.0, None, None, 0.0, None])
    expected = ["training", "holdout", "training", "training", "holdout", "refused"]
    assert [answer.source for answer in answers] == expected
    assert [answer.repeated for answer in answers] == [False, False, True, False, False, False]
    assert len(study.transcript()) == 4
    assert [answer.source for answer in team.ask_many([f"delay > {k}" for k in range(6)])].count("refused") == 4
    assert findings(study) == []


def test_a_batch_is_answered_like_single_queries_and_is_never_wider(tmp_path):
    """It is cut into steps that the allotment surely pays for, and in each of them no surprise is paid for."""
    queries = [wrong(k) if k % 3 == 2 else f"delay > {k}" for k in range(14)]
    guesses = [0.0 if k % 3 == 2 else None for k in range(14)]
    seen = []
    for name in ("batch", "loop"):
        with create(
            tmp_path, name, mechanism=guess_and_check(surprises=8, tolerance=0.4), allow_resealing=True
        ) as holdout:
            holdout.allot("a", queries=12, charges=3)
            team = holdout.analyst("a")
            if name == "batch":
                answers = team.ask_many(queries, guesses=guesses)
            else:
                answers = [team.ask(text, guess=guess) for text, guess in zip(queries, guesses, strict=True)]
            seen.append([(answer.value, answer.low, answer.source) for answer in answers])
    assert [(value, source) for value, _, source in seen[0]] == [(value, source) for value, _, source in seen[1]]
    assert all(low is None or low >= single for (_, low, _), (_, single, _) in zip(*seen, strict=True))
    assert [source for *_, source in seen[0]].count("refused") == 5


def test_a_query_of_several_is_asked_as_a_whole_or_not_at_all(study, looks):
    study.allot("team-a", queries=9, charges=1)
    team = study.analyst("team-a")
    spread = eh.variance("delay", low=-100, high=100)
    before = everything(study)
    assert team.quote(spread).refused
    assert team.ask(spread).source == "refused"
    assert everything(study) == before
    assert looks == []
    study.allot("team-a", queries=2, charges=2)
    assert not team.quote(spread).refused
    assert team.ask(spread).source == "training"
    assert team.remaining["queries"] == 0
    assert team.quote(spread).answered_before


def test_a_histogram_is_answered_as_far_as_the_allotment_goes(study):
    study.allot("team-a", queries=2, charges=2)
    shares = study.analyst("team-a").ask(eh.histogram("carrier", ["AA", "UA", "DL"]))
    assert [answer.source for answer in shares.answers.values()].count("refused") == len(shares) - 2
    assert len(study.transcript()) == 2


@pytest.mark.parametrize("name", sorted(answering()))
def test_limits_hold_with_every_mechanism_and_refusals_do_not_look(tmp_path, looks, name):
    tuned = answering()[name].tuned
    made = partial(guess_and_check, tolerance=0.24) if name == "guess_and_check" else lambda: tuned(**WISH)
    mechanism = tuned(**WISH, surprises=5) if name == "thresholdout" else made()
    with create(tmp_path, mechanism=mechanism, allow_vacuous=True) as holdout:
        part = holdout.allot("a", queries=2)
        assert part.charges == 2 * (100 if name == "privacy_budget" else 1)
        team = holdout.analyst("a")
        answers = team.ask_many([eh.mean(f"delay > {cut} and late = 1") for cut in range(5)])
        assert [answer.source == "refused" for answer in answers] == [False, False, True, True, True]
        assert len(looks) == 2
        part = holdout.allotments()["a"]
        assert (part.asked, part.charged) == (2, sum(answer.charged for answer in answers))
        assert team.quote().refused
        assert team.ask("delay > 50 and late = 1").source == "refused"
        assert len(looks) == 2
        assert team.remaining["queries"] == 0
        assert holdout.remaining["queries"] > 0
        holdout.certificate().save(tmp_path / "c.html")
        assert verify_certificate(tmp_path / "c.html").findings == ()
        assert findings(holdout) == []


def test_credits_limit_tolerances_choices_and_quantiles(budget, looks):
    budget.allot("team-a", queries=10, charges=250)
    team, options = budget.analyst("team-a"), [f"delay > {cut}" for cut in range(4)]
    assert team.ask(eh.private_choose(options, price=100)).charged == 100
    looked, before = len(looks), everything(budget)
    refused = team.ask(eh.private_choose(options, price=151))
    assert (refused.charged, refused.index, refused.remaining) == (0, None, {"queries": 9, "credits": 150})
    finest = 0.7 * budget.promise.radius
    assert team.quote("late = 1", tolerance=finest).refused
    assert team.ask("late = 1", tolerance=finest).source == "refused"
    assert len(looks) == looked
    assert everything(budget) == before
    assert not budget.quote("late = 1", tolerance=finest).refused
    assert team.ask(eh.private_choose(options, price=100)).repeated
    assert team.ask(eh.private_quantile("delay", low=-100.0, high=100.0, price=150)).charged == 150
    assert team.remaining == {"queries": 0, "credits": 0}
    assert budget.ask(eh.private_choose(options, price=151)).charged == 151
    with pytest.raises(BudgetExhausted, match="allotment"):
        team.ask(PrivateQuantileQuery("late", 0.5, 0.0, 1.0, 9, 7), strict=True)
    assert findings(budget) == []


def test_what_the_whole_cannot_pay_is_recorded_for_nobody(tmp_path):
    with create(tmp_path, mechanism="gaussian", queries=3) as holdout:
        with pytest.warns(EverholdWarning, match="served first"):
            holdout.allot("a", queries=9)
        answers = holdout.analyst("a").ask_many([f"delay > {cut}" for cut in range(5)])
        assert [answer.source for answer in answers] == ["holdout"] * 3 + ["refused"] * 2
        assert holdout.ask("delay > 9").source == "refused"
        assert len(holdout.transcript()) == 3
        assert findings(holdout) == []


def test_limits_are_raised_and_lowered_but_not_below_what_is_spent(study):
    study.allot("team-a", queries=1)
    team = study.analyst("team-a")
    team.ask("delay > 0")
    assert team.ask("delay > 1").source == "refused"
    study.allot("team-a", queries=2)
    assert team.ask("delay > 1").source == "training"
    before = everything(study)
    with pytest.raises(QueryRejected, match="spent 2 queries"):
        study.allot("team-a", queries=1)
    study.allot("team-a", queries=2)  # nothing new, so no act
    assert everything(study) == before
    study.allot("team-a", queries=2, charges=0)
    assert [act["queries"] for act in study.allotments().acts] == [1, 2, 2]
    with Holdout.open(study._executor.store.database.path, "study") as again:
        assert again.analyst("team-a").ask("delay > 2").source == "refused"
        assert again.status()["queries_asked"] == 2


def test_a_purchase_that_costs_more_than_its_price_is_undone(budget, monkeypatch):
    budget.allot("team-a", queries=5, charges=100)
    monkeypatch.setattr(f"{PrivateChoice.__module__}.PrivateChoice.price", lambda *_: Price(1, 0.0))
    before = everything(budget)
    with pytest.raises(eh.EverholdError, match="more than its stated price"):
        budget.analyst("team-a").ask(eh.private_choose(["delay > 0", "delay > 1"], price=200))
    assert everything(budget) == before


def test_more_than_the_whole_may_be_promised_with_a_warning(study):
    study.allot("team-a", queries=60, charges=2)
    with pytest.warns(EverholdWarning, match="more queries than the budget has left"):
        study.allot("team-b", queries=1, charges=0)
    assert study.allotments().not_allotted["queries"] == 0
    assert study.allotments().not_allotted["surprises"] >= 1


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_refused(study, name):
    before = everything(study)
    with pytest.raises(ValueError, match="cannot be used"):
        study.allot(name, queries=1)
    assert everything(study) == before
    with pytest.raises(QueryRejected):
        study.analyst(name)


@pytest.mark.parametrize("name", ["TEAM-A", "t\u0435am-a", "team-\u0430", "t\u0435\u0430m-\u0430"])
def test_a_name_that_looks_like_another_is_refused(study, name):
    study.allot("team-a", queries=1)
    with pytest.raises(QueryRejected, match="looks like"):
        study.allot(name, queries=1)


@pytest.mark.parametrize("limit", [-1, 1.5, True, "3", 10**16, float("nan")])
def test_limits_are_whole_numbers(study, limit):
    with pytest.raises(ValueError, match="whole number"):
        study.allot("team-a", queries=limit)
    with pytest.raises(ValueError, match="whole number"):
        study.allot("team-a", queries=1, charges=limit)


def test_only_the_steward_allots_and_unknown_analysts_cannot_ask(study):
    study.allot("team-a", queries=1)
    with pytest.raises(QueryRejected, match="Only the steward can allot"):
        study.analyst("team-a").allot("team-a", queries=5)
    with pytest.raises(QueryRejected, match="no allotment"):
        study.analyst("team-b")
    assert repr(study.analyst("team-a")).endswith("analyst='team-a')")


def test_markup_in_a_name_stays_text(study, tmp_path):
    name = "<img src=x onerror=alert(1)>"
    study.allot(name, queries=1)
    study.analyst(name).ask("delay > 0")
    certificate = study.certificate()
    for page in (study.allotments()._repr_html_(), study.transcript()._repr_html_(), certificate.to_html()):
        assert "<img" not in page
        assert "onerror" in page
    certificate.save(tmp_path / "c.html")
    assert verify_certificate(tmp_path / "c.html").findings == ()


def test_a_query_cannot_pass_for_another_analysts(study):
    class Spoof(RowwiseQuery):
        def bind(self, schema):
            bound = eh.mean("delay > 0").bind(schema)
            bound.description["analyst"] = "team-a"
            return bound

    study.allot("team-a", queries=1)
    study.ask(Spoof())
    assert study.allotments()["team-a"].asked == 0
    assert "analyst" not in study.transcript().rows[0]
    assert findings(study) == []


def test_the_name_is_no_part_of_the_queries_identity(study, tmp_path):
    study.allot("a", queries=1)
    with create(tmp_path, "other", allow_resealing=True) as other:
        assert study.analyst("a").ask("delay > 0").query == other.ask("delay > 0").query


def altered(path, statement, *values):
    """Write past everhold, as somebody with the file in hand could."""
    with sqlite3.connect(path) as connection:
        for (trigger,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {trigger}")
        connection.execute(statement, values)
    connection.close()


def test_an_altered_allotment_is_found(study, tmp_path):
    study.allot("team-a", queries=2)
    study.analyst("team-a").ask("delay > 0")
    path, text = tmp_path / "study.db", canonical(study._executor.store.head(study._executor.record.id).state)
    raised = text.replace('["team-a",2,2,1,0]', '["team-a",9,9,1,0]')
    assert raised != text
    altered(path, "UPDATE head SET state = ?", raised)
    assert any("allotments" in what for what in findings(study, seal_key=None))  # the entries say otherwise
    assert any("seal" in what for what in findings(study))
    with pytest.raises(eh.IntegrityError):
        study.analyst("team-a").ask("delay > 1")
    altered(path, "UPDATE head SET state = ?", text.replace('["team-a",2,2,1,0]', '["team-a",2,2,7,0]'))
    with pytest.raises(eh.IntegrityError, match="not sealed with this key"):
        study.status()
    altered(path, "UPDATE head SET state = ?", text)
    assert findings(study) == []
    altered(path, "UPDATE entries SET description = replace(description, '\"queries\":2', '\"queries\":9')")
    assert any("hash" in what for what in findings(study, seal_key=None))


def test_verify_finds_spending_beyond_an_allotment(study, monkeypatch):
    study.allot("team-a", queries=1)
    with monkeypatch.context() as patch:
        patch.setattr("everhold.ledger.acts.Allotment.affords", lambda *_: 99)
        patch.setattr("everhold.ledger.acts.Accounts.spend", lambda *_, **__: None)  # no limit is checked
        study.analyst("team-a").ask_many(["delay > 0", "delay > 1"])
    assert any("more than the allotment of 'team-a'" in what for what in findings(study))


def test_ledgers_without_allotments_stay_as_they_were(study):
    study.ask("delay > 0")
    assert set(study._executor.store.head(study._executor.record.id).state) == {"configuration", "mechanism"}
    assert "allotments" not in study.status()
    assert "analyst" not in study.transcript().rows[0]
    document = study.certificate().to_dict()
    assert "allotments" not in document["account"]
    assert list(misshapen(document)) == []
    assert findings(study) == []


def test_the_certificate_says_who_spent_what(study):
    study.allot("team-a", queries=2, charges=1)
    study.analyst("team-a").ask(wrong(0), guess=0.0)
    study.ask("delay > 0")
    certificate = study.certificate()
    document = certificate.to_dict()
    assert document["account"]["asked"] == 2
    part = {"analyst": "team-a", "asked": 1, "queries": 2, "charged": 1, "charges": 1}
    assert document["account"]["allotments"] == {"acts": 1, "analysts": [part]}
    assert any("queries 1 of 2, charged 1 of 1" in str(row["value"]) for row in certificate.to_rows())
    for broken in ({"acts": 1}, {"acts": -1, "analysts": []}, {"acts": 1, "analysts": [{"analyst": 3}]}, 7):
        document["account"]["allotments"] = broken
        assert list(misshapen(document))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"asked": 3}, "more than the allotment"),
        ({"charged": 1, "charges": 1}, "together"),
        ({"analyst": "b"}, "one for each"),
    ],
)
def test_a_lying_account_is_found(study, tmp_path, change, what):
    for name in ("a", "b"):
        study.allot(name, queries=2, charges=1)
    study.analyst("a").ask("delay > 0")
    document = study.certificate().to_dict()
    document["account"]["allotments"]["analysts"][0] |= change
    signature = document["signature"]
    signature["digests"] = {name: digest(document[name]) for name in signature["digests"]}
    signature["value"] = study._executor.key.sign(signed_message(document))
    (tmp_path / "c.json").write_text(json.dumps(document))
    report = verify_certificate(tmp_path / "c.json")
    assert not any("signature" in finding for finding in report.findings)
    assert any(what in finding for finding in report.findings)


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.services)])
def test_processes_cannot_overspend_an_allotment(tmp_path, kind, request):
    storage = f"sqlite:///{tmp_path}/study.db" if kind == "sqlite" else request.getfixturevalue("postgres_url")
    with Holdout.create(storage, "study", holdout=rows(0), mechanism="gaussian", queries=60) as holdout:
        holdout.allot("a", queries=7)
    barrier, results = prepared_processes.Barrier(2), prepared_processes.Queue()
    children = [
        prepared_processes.Process(target=spend_all, args=(storage, number, barrier, results)) for number in range(2)
    ]
    for child in children:
        child.start()
    answered = sum(results.get(timeout=60) for _ in children)
    for child in children:
        child.join()
    with Holdout.open(storage, "study") as holdout:
        assert answered == holdout.allotments()["a"].asked == len(holdout.transcript()) == 7
        assert findings(holdout) == []


class ManyAnalysts(RuleBasedStateMachine):
    """Random acts and queries; the sums come from the answers, not from the accounts."""

    names = st.sampled_from(["a", "b"])

    @initialize()
    def open(self):
        self.folder = tempfile.TemporaryDirectory()
        self.storage = f"sqlite:///{self.folder.name}/study.db"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("everhold.asking.creation.warn_of_weak_promise", lambda *_: None)
            self.holdout = create(self.folder.name, mechanism=guess_and_check(queries=12, surprises=4, tolerance=0.4))
        self.limits, self.spent, self.answered = {}, {}, set()

    @rule(name=names, queries=st.integers(0, 6), charges=st.integers(0, 3))
    def allot(self, name, queries, charges):
        asked, charged = self.spent.get(name, (0, 0))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("everhold.asking.allotting._warn_of_promises", lambda *_: None)
            if queries < asked or charges < charged:
                with pytest.raises(QueryRejected):
                    self.holdout.allot(name, queries=queries, charges=charges)
                return
            self.holdout.allot(name, queries=queries, charges=charges)
        self.limits[name] = queries, charges
        self.spent.setdefault(name, (0, 0))

    @rule(name=st.sampled_from(["a", "b", None]), batch=st.lists(st.integers(0, 20), min_size=1, max_size=5))
    def ask(self, name, batch):
        if name is not None and name not in self.limits:
            return
        asking = self.holdout if name is None else self.holdout.analyst(name)
        texts = [wrong(k) if k % 2 else f"delay > {k}" for k in batch]
        answers = asking.ask_many(texts, guesses=[0.0 if k % 2 else None for k in batch])
        new = {k for k, answer in zip(batch, answers, strict=True) if answer.source != "refused"} - self.answered
        self.answered |= new
        if name is not None:
            asked, charged = self.spent[name]
            self.spent[name] = asked + len(new), charged + sum(answer.charged for answer in answers)

    @rule()
    def reopen(self):
        self.holdout.close()
        self.holdout = Holdout.open(self.storage, "study")

    @invariant()
    def nobody_spent_more(self):
        if not hasattr(self, "holdout"):
            return
        for name, (asked, charged) in self.spent.items():
            part = self.holdout.allotments()[name]
            assert (part.asked, part.charged) == (asked, charged)
            assert asked <= part.queries == self.limits[name][0]
            assert charged <= part.charges == self.limits[name][1]
        assert findings(self.holdout) == []

    def teardown(self):
        if hasattr(self, "holdout"):
            self.holdout.close()
            self.folder.cleanup()


ManyAnalysts.TestCase.settings = settings(max_examples=10, stateful_step_count=10, deadline=None)
TestManyAnalysts = ManyAnalysts.TestCase
