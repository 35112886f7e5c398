"""Declared families from creation to the certificate: exact, free, for ever, and fixed before anybody asks."""

import math
import shutil

import numpy as np
import pytest
from certificate_samples import signed_again
from holdout_samples import copied, create, rows
from sklearn import metrics

import everhold as eh
from everhold.ledger import verify
from everhold.ledger.acts import Declarations

COUNT = 2_000
FAMILIES = {
    "texts": eh.texts(40),
    "carriers": eh.subgroups(["carrier"], of="delay > 15"),
    "end points": eh.listed(["delay > 60", "late = 1"], weights=[0.25, 0.75]),
}


def study(folder, **wanted):
    tuned = eh.GuessAndCheck.tuned(rows=COUNT, queries=40, surprises=3, training_rows=COUNT)
    wanted = {"declared": FAMILIES, "mechanism": tuned, **wanted}
    return copied(folder, **{"holdout": rows(0, COUNT), "training": rows(1, COUNT), **wanted})


def findings(holdout):
    executor = holdout._executor
    report = verify(
        executor.store, executor.record.name, seal_key=executor.key.seal_key, head_file=executor.ledger.head_file
    )
    return [*report.findings, *checked(holdout.certificate(), holdout)]


def checked(certificate, holdout):
    """What is wrong with a certificate."""
    file = holdout._folder.parent / "certificate.json"
    certificate.save(file)
    return eh.verify_certificate(file).findings


def carriers(values):
    return eh.subgroups(["carrier"], of="delay > 15", values=values)


def opened(folder, **wanted):
    return eh.Holdout.open(folder / "study.db", "study", **wanted)


def test_members_are_told_exactly_and_take_nothing_from_the_budget(tmp_path):
    with study(tmp_path) as holdout:
        before = holdout.remaining
        for text, truth in (
            ("delay > 15", rows(0, COUNT)["delay"] > 15),
            ("carrier = 'UA'", rows(0, COUNT)["carrier"] == "UA"),
        ):
            quoted, answer = holdout.quote(text), holdout.ask(text)
            assert (answer.source, answer.charged, answer.statement) == ("declared", 0, "S10")
            assert answer.value == pytest.approx(truth.mean())
            assert max(answer.value - answer.low, answer.high - answer.value) <= quoted.radius
            assert "declared family" in answer.explain()
        within = holdout.ask(eh.mean("delay > 15", given="carrier = 'UA'"))
        assert within.source == "declared"
        assert holdout.remaining == before
        assert findings(holdout) == []


def test_the_width_is_known_beforehand_and_never_changes(tmp_path):
    with study(tmp_path) as holdout:
        first = holdout.quote("delay > 11").radius
        for number in range(6):
            holdout.ask(eh.mean(lambda table: table["delay"] > 15, name=f"q{number}"), guess=0.9)  # surprises
        holdout.ask_many(["delay > 1", "delay > 2"])
        assert holdout.quote("delay > 11").radius == first
        assert holdout.remaining["surprises"] == 0


def test_an_own_guess_and_earlier_answers_change_nothing_of_a_member(tmp_path):
    """Its procedure may follow from the query and the training rows alone."""
    answers = []
    for guess in (None, 0.01, 0.99):
        folder = tmp_path / str(guess)
        folder.mkdir()
        with study(folder, seed=1) as holdout:
            answer = holdout.ask(eh.mean("delay", low=-60, high=120), guess=None if guess is None else 120 * guess)
            answers.append((answer.source, answer.low, answer.high))
    assert answers[0][0] == "declared"
    assert len(set(answers)) == 1


def test_others_pay_for_what_members_have_told(tmp_path):
    with study(tmp_path) as holdout:
        radius = holdout.quote().radius_if_charged
        holdout.ask_many([f"delay > {number}" for number in range(10)])
        state = holdout._executor.state()
        assert (state.asked, state.charged) == (0, 0)
        assert state.labels > 10 * 2e6
        assert holdout.quote().radius_if_charged > 1.2 * radius


def test_a_mixed_batch_keeps_its_order(tmp_path):
    opaque = eh.mean(lambda table: table["delay"] > 30, name="opaque")
    with study(tmp_path) as holdout:
        answers = holdout.ask_many(["delay > 15", opaque, "delay > 60"])
        assert [answer.source == "declared" for answer in answers] == [True, False, True]
        assert [answer.shown for answer in answers] == [
            "mean of delay > 15",
            "mean of the function opaque",
            "mean of delay > 60",
        ]
        assert findings(holdout) == []


def test_a_query_of_several_parts_is_one_step_unless_all_are_members(tmp_path):
    with study(tmp_path) as holdout:
        mixed = eh.difference("delay > 15", eh.mean(lambda table: table["delay"] > 30, name="opaque"))
        assert not holdout.ask(mixed).refused
        assert findings(holdout) == []


def test_members_are_answered_after_the_end_too(tmp_path):
    with study(tmp_path) as holdout:
        holdout.ask(eh.mean(lambda table: table["delay"] > 15, name="asked"))
        told = holdout.ask("delay > 14")
        unsealed = holdout.unseal().to_rows()[1]
        assert (unsealed["sealed"], unsealed["sealed_low"], unsealed["sealed_high"]) == pytest.approx(
            (told.value, told.low, told.high)
        )
    with opened(tmp_path) as holdout:
        answer = holdout.ask("delay > 15 and carrier = 'UA'")
        assert (answer.source, answer.charged) == ("declared", 0)
        with pytest.raises(eh.QueryRejected, match="unsealed"):
            holdout.ask(eh.mean(lambda table: table["delay"] > 16, name="late"))
        with pytest.raises(eh.QueryRejected, match="unsealed"):
            holdout.declare("late", eh.listed(["delay > 3"]))
        assert findings(holdout) == []


def test_a_family_that_is_declared_later_takes_one_query(tmp_path):
    with study(tmp_path, declared={"one": eh.listed(["late = 1"])}) as holdout:
        assert holdout.ask("delay > 15").source != "declared"
        asked = holdout._executor.state().asked
        holdout.declare("thresholds", eh.listed([f"delay > {number}" for number in (16, 17)]))
        assert holdout._executor.state().asked == asked + 1
        assert holdout.ask("delay > 16").source == "declared"
        assert [row["declared"] for row in holdout.declared.families().to_rows()] == ["at creation", "later"]
        assert findings(holdout) == []
        for name, why in (("thresholds", "A family"), ("", "cannot be used")):
            with pytest.raises(eh.QueryRejected, match=why):
                holdout.declare(name, eh.texts())
    with opened(tmp_path) as holdout:
        assert holdout.ask("delay > 17").source == "declared"
        holdout.unseal()
        assert findings(holdout) == []


def test_mechanisms_without_levels_say_which_can_declare(tmp_path):
    """Noise gives a query no level of its own; nothing is changed."""
    with create(tmp_path, mechanism="laplace", queries=20) as holdout:
        before = holdout._executor.ledger.head()
        with pytest.raises(
            eh.QueryRejected, match=r"laplace of this holdout does not support .* holdout with guess_and_check"
        ):
            holdout.declare("one", eh.listed(["late = 1"]))
        assert holdout._executor.ledger.head() == before


def test_an_analyst_pays_with_queries_and_cannot_declare(tmp_path):
    with study(tmp_path) as holdout:
        holdout.allot("ann", queries=2)
        ann = holdout.analyst("ann")
        assert [answer.source for answer in ann.ask_many(["delay > 1", "delay > 2", "delay > 3"])] == [
            "declared", "declared", "refused",
        ]  # fmt: skip
        with pytest.raises(eh.QueryRejected, match="Only the steward can declare"):
            ann.declare("more", eh.texts())
        assert findings(holdout) == []


def test_what_a_database_that_was_set_back_has_told_is_paid_for(tmp_path):
    with study(tmp_path) as holdout:
        holdout.ask("delay > 15")
    shutil.copy(tmp_path / "study.db", tmp_path / "old.db")
    with opened(tmp_path) as holdout:
        holdout.ask_many([f"delay > {number}" for number in range(20, 25)])
        labels = holdout._executor.state().labels
    shutil.copy(tmp_path / "old.db", tmp_path / "study.db")
    with pytest.raises(eh.IntegrityError, match="set back"):
        opened(tmp_path).close()
    with opened(tmp_path, recover=True) as holdout:
        assert holdout._executor.state().labels >= labels
        assert holdout.ask("delay > 20").source == "declared"
        assert findings(holdout) == []


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"declared": []}, "Pass families"),
        ({"declared": ["delay > 15"]}, "is not a family"),
        ({"declared": [eh.texts(0.1)]}, "bits is 0.1"),
        ({"declared": [eh.listed([])]}, "Pass a list"),
        ({"declared": [eh.listed(["delay > 1"], weights=[2.0])]}, "sum to at most 1"),
        ({"declared": [eh.listed([eh.histogram("height", [0, 1, 2])])]}, "Entry 1, histogram of height: .*height"),
        ({"declared": [eh.subgroups(["nowhere"], of="delay > 15")]}, "no column"),
        ({"declared": [eh.subgroups(["delay"], of="delay > 15")]}, "The categories of"),
        ({"declared": [eh.subgroups(["carrier"], of="delay > 15", together=9)]}, "together is 9"),
        ({"declared": [eh.texts()], "share": 0.0}, "share is 0.0"),
        ({"declared": [eh.listed(["delay > 1"], weights=3)]}, "weights is 3"),
        ({"declared": [eh.listed(["delay > 1"], weights=np.array(1.0))]}, "weights is array"),
        ({"declared": [eh.subgroups([["carrier"]], of="delay > 15")]}, "Pass a list of names of columns"),
        ({"declared": [carriers(["UA"])]}, "values is .'UA'.. Pass lists of categories by column"),
        ({"declared": [carriers({"carrier": 5})]}, "values of carrier is 5"),
        ({"declared": [carriers({"carrier": "UA"})]}, "values of carrier is 'UA'"),
        ({"declared": [carriers({"carrier": [["UA"]]})]}, "values of carrier is"),
        ({"declared": [carriers({"carrier": [1, 2]})]}, "values of carrier holds 1, and the column is a string"),
        ({"declared": [carriers({"carier": ["UA"]})]}, "values names 'carier'"),
        ({"declared": [eh.texts()], "share": "x"}, "share is 'x'"),
        ({"declared": [eh.texts()], "share": 0.995}, "share is 0.995. Pass a number above 0 and at most 0.99"),
        ({"declared": None, "share": 0.9}, "share is 0.9, and no family is declared"),
        ({"declared": [eh.texts()], "mechanism": "laplace"}, "does not support declared families"),
    ],
)
def test_what_cannot_be_declared_is_refused_before_anything_is_created(tmp_path, wanted, why):
    with pytest.raises((eh.QueryRejected, eh.HoldoutRejected), match=why):
        study(tmp_path, **wanted)
    with pytest.raises(eh.HoldoutNotFound):
        opened(tmp_path)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda families: families[0].update(nats=families[0]["nats"] - 1.0), "more of the probability of failure"),
        (lambda families: families[1].update(entry=7), "other entries came before"),
        (lambda families: families[1].update(name=families[0]["name"]), "the same name"),
        (lambda families: families[2].update(later=True, nats=0.5), "a larger level than any query"),
        (lambda families: families.clear(), "no family is declared"),
    ],
    ids=["a larger level", "not of the creation", "twice", "later and larger", "none"],
)
def test_a_certificate_that_lies_about_families_is_found_out(tmp_path, change, why):
    with study(tmp_path) as holdout:
        holdout.ask("delay > 15")
        document = holdout.certificate().to_dict()
        change(document["account"]["declared"])
        found = checked(eh.Certificate(signed_again(document, holdout._executor.key)), holdout)
    assert any(why in finding for finding in map(str, found))


@pytest.mark.parametrize(
    "line",
    [
        {"name": "", "shown_family": "x", "family": {}, "nats": 1.0, "entry": 1, "later": False},
        {"name": "a", "shown_family": "x", "family": [], "nats": 1.0, "entry": 1, "later": False},
        {"name": "a", "shown_family": "x", "family": {}, "nats": math.nan, "entry": 1, "later": False},
        {"name": "a", "shown_family": "x", "family": {}, "nats": 1.0, "entry": 2, "later": False},
        {"name": "a", "shown_family": "x", "family": {}, "nats": 1.0, "entry": 0, "later": True},
    ],
)
def test_a_malformed_declaration_is_never_believed(line):
    with pytest.raises(ValueError, match=r"malformed|other entries came before"):
        Declarations.read([line])


def test_a_holdout_may_be_for_declared_queries_alone(tmp_path, recwarn):
    few = {"holdout": rows(0, 60), "training": None, "mechanism": None, "declared": [eh.texts(30)], "share": 0.99}
    with create(tmp_path, **few) as holdout:
        answer = holdout.ask("delay > 15")
        assert (answer.source, holdout.declared.families().to_rows()[0]["name"]) == ("declared", "family 1")
        assert not [each for each in recwarn if issubclass(each.category, eh.VacuousGuaranteeWarning)]


def test_scores_of_arrays_are_declared_without_predictions_for_training_rows(tmp_path):
    rng = np.random.default_rng(0)
    chance = rng.random(800)
    labels, unit = (rng.random(800) < chance).astype(int), np.arange(800) // 2
    said, both = (chance > 0.5).astype(int), np.column_stack([1.0 - chance, chance])
    true = {
        eh.f1(said): metrics.f1_score(labels, said), eh.recall(said): metrics.recall_score(labels, said),
        eh.accuracy(said): np.mean(said == labels),
        eh.metric("roc_auc_ovr", both): metrics.roc_auc_score(labels, chance),
    }  # fmt: skip
    for number, dependence in enumerate((None, eh.Groups("unit"))):
        holdout = eh.Holdout.create(
            f"sqlite:///{tmp_path}/{number}.db", "h", holdout={"y": labels, "unit": unit}, label="y", share=0.99,
            declared=[eh.listed([*true])], dependence=dependence,
        )  # fmt: skip
        with holdout:
            for query, value in true.items():
                answer = holdout.ask(query)
                assert answer.source == "declared"
                assert answer.low < value < answer.high < answer.low + 0.3


def test_subgroups_hold_both_shares_where_there_are_no_training_rows(tmp_path):
    family = eh.subgroups(["carrier"], of="delay > 15", values={"carrier": ["AA", "UA", "DL"]})
    with study(tmp_path, training=None, declared=[family]) as holdout:
        assert holdout.ask("delay > 15 and carrier = 'UA'").source == "declared"
        within = holdout.ask(eh.mean("delay > 15", given="carrier = 'UA'"))
        sealed = rows(0, COUNT)
        assert within.value == pytest.approx(np.mean(sealed["delay"][sealed["carrier"] == "UA"] > 15))
        assert findings(holdout) == []


def test_categories_and_weights_may_be_arrays(tmp_path):
    """Categories of numbers and truth values too, of columns that have them."""
    late = eh.subgroups(["carrier", "late"], of="delay > 15", values={"carrier": np.array(["UA"]), "late": (0, 1)})
    ends = eh.listed(["delay > 1", "delay > 2"], weights=np.array([0.5, 0.25]))
    with study(tmp_path, declared={"late": late, "ends": ends}) as holdout:
        for text in ("delay > 2", eh.mean("delay > 15", given="late = 1 and carrier = 'UA'")):
            assert holdout.ask(text).source == "declared"
        assert findings(holdout) == []


def surprised(holdout, times, first=0):
    """So many opaque queries whose guesses are wrong."""
    arrays = [rows(0, COUNT)["late"] != (np.arange(COUNT) == number) for number in range(first, first + times)]
    opaque = [eh.accuracy(array.astype(int)) for array in arrays]
    assert sum(answer.charged for answer in holdout.ask_many(opaque, guesses=[0.05] * times)) == times


def test_a_text_on_any_holdout_is_checked_at_the_level_of_its_description(tmp_path):
    """After surprises it is narrower than an opaque query; its own level never changes."""
    with create(tmp_path, holdout=rows(0, COUNT), training=rows(1, COUNT), mechanism=None) as holdout:
        assert holdout.mechanism.text_bits == 100
        surprised(holdout, 8)
        quoted, text = holdout.quote("delay > 15"), holdout.ask("delay > 15")
        opaque = holdout.ask(eh.mean(lambda table: table["delay"] > 15, name="opaque"))
        assert (text.source, text.charged, text.statement, opaque.statement) == ("training", 0, "S10", "S8")
        assert text.value == opaque.value
        assert text.high - text.low < 0.8 * (opaque.high - opaque.low)
        assert max(text.value - text.low, text.high - text.value) <= quoted.radius + 1e-9
        surprised(holdout, 4, first=8)
        later = holdout.ask("delay > 16")
        assert later.high - later.low == pytest.approx(text.high - text.low, abs=0.005)
        assert findings(holdout) == []


def test_texts_that_are_declared_later_are_told_at_the_level_that_they_had(tmp_path):
    with create(tmp_path, holdout=rows(0, COUNT), training=rows(1, COUNT), mechanism=None) as holdout:
        surprised(holdout, 8)
        before = holdout.remaining["queries"]
        holdout.declare("texts", eh.texts(60))
        assert holdout._executor.ledger.head().accounts.of(Declarations).by_name[
            "texts"
        ].nats == holdout.mechanism.of_text(0.0)
        answer = holdout.ask("delay > 15")
        assert (answer.source, holdout.remaining["queries"]) == ("declared", before - 1)
        assert answer.value == pytest.approx((rows(0, COUNT)["delay"] > 15).mean())
        assert answer.high - answer.low < 0.13
        assert findings(holdout) == []


def test_a_mechanism_that_was_handed_in_checks_no_text_by_its_description(tmp_path):
    with study(tmp_path, declared=None) as holdout:
        assert holdout.mechanism.text_bits == 0
        assert holdout.mechanism.parameters()["text_bits"] == 0
        surprised(holdout, 3)
        assert holdout.ask("delay > 15").statement == "S8"


def test_bets_on_an_own_guess_have_no_level_of_their_description(tmp_path):
    """Their stakes follow from the guess, which may follow from answers."""
    delay = eh.mean("delay", low=-100, high=100)
    with create(tmp_path, holdout=rows(0, COUNT), training=rows(1, COUNT), mechanism=None) as holdout:
        surprised(holdout, 8)
        assert holdout.ask(delay, guess=6.0).statement == "S8"
    (tmp_path / "other").mkdir()
    with create(tmp_path / "other", holdout=rows(0, COUNT), training=rows(1, COUNT), mechanism=None) as holdout:
        surprised(holdout, 8)
        assert holdout.ask(delay).statement == "S10"


def test_a_rate_of_few_rows_is_quoted_with_a_bound_whatever_the_sealed_rows_say(tmp_path):
    rng = np.random.default_rng(0)
    sealed, training = (
        {"x": rng.normal(size=1_000), "c": rng.choice(["a", "b", "c"], 1_000, p=shares)}
        for shares in ([0.98, 0.02, 0.0], [0.6, 0.4, 0.0])
    )
    family = eh.subgroups(["c"], of="x > 0", values={"c": ["a", "b", "c"]})
    with eh.Holdout.create(
        f"sqlite:///{tmp_path}/s.db", "h", holdout=sealed, training=training, declared=family
    ) as holdout:
        for value in "ab":
            query = eh.mean("x > 0", given=f"c = '{value}'")
            quote, answer = holdout.quote(query), holdout.ask(query)
            assert answer.source == "declared"
            far = max(answer.value - answer.low, answer.high - answer.value)
            assert far <= quote.radius_if_charged
            assert (far <= quote.radius) == (value == "a")  # of b, far fewer sealed rows count
        unseen = holdout.ask(eh.mean("x > 0", given="c = 'c'"))  # no training row shows it, so none makes a guess
        assert (unseen.source, unseen.charged) == ("declared", 0)


def test_a_member_keeps_the_training_predictions_it_was_declared_with(tmp_path):
    rng = np.random.default_rng(0)
    sealed, training = ({"y": rng.integers(0, 2, 500), "x": rng.random(500)} for _ in range(2))
    told, trained = rng.random(500), rng.random(500)
    family = eh.listed([eh.brier(told, training=trained), eh.brier(1.0 - told)])
    with eh.Holdout.create(
        f"sqlite:///{tmp_path}/s.db", "h", holdout=sealed, training=training, label="y", declared=family,
        rows=eh.Rows(features="public"),
    ) as holdout:  # fmt: skip
        for other in (eh.brier(told), eh.brier(told, training=1.0 - trained), eh.brier(1.0 - told, training=trained)):
            with pytest.raises(eh.QueryRejected, match="other predictions for the training rows"):
                holdout.ask(other)
        assert holdout.ask(eh.brier(told, training=trained)).source == "declared"
        assert holdout.ask(eh.brier(1.0 - told)).source == "declared"
    with eh.Holdout.open(f"sqlite:///{tmp_path}/s.db", "h") as holdout, pytest.raises(eh.QueryRejected):
        holdout.quote(eh.brier(told, training=1.0 - trained))


def test_members_share_the_level_of_their_family_by_their_number(tmp_path):
    families = {"carriers": carriers({"carrier": ["AA", "UA", "DL"]}), "end points": FAMILIES["end points"]}
    with study(tmp_path, training=None, declared=families) as holdout:
        compiler = holdout._executor.compiler
        member, end_point = compiler.prepare(["delay > 15 and carrier = 'UA'", "delay > 60"], None)
        bits = {each["name"]: each["bits"] for each in holdout.declared.families().rows}
        half = holdout._executor.mechanism.described(math.log(2.0))
        assert end_point.declared == pytest.approx(half + math.log(4.0))
        assert bits["carriers"] > 1.0
        assert member.declared == pytest.approx(half + bits["carriers"] * math.log(2.0), abs=0.05)
