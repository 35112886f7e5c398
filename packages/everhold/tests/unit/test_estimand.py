"""What a promise is about: new rows or labels drawn anew on these; and what sample splitting needs."""

import json
import sqlite3
import warnings

import numpy as np
import pytest

import everhold as eh
from everhold.answers import FRESH_LABELS, PUBLIC_FEATURES
from everhold.asking.creation import settings_from
from everhold.certificate import verify_certificate
from everhold.errors import DependenceError, EverholdWarning, HoldoutRejected, IntegrityError, QueryRejected
from everhold.ledger import LedgerStore
from everhold.mechanisms import GuessAndCheck
from everhold.queries.means.distribution import histogram
from everhold.queries.metrics.row_scores import risk
from everhold.values.universe import BinnedColumn, ListedColumn, Universe
from everhold_privacy.mechanisms.averages import SampleSplitting
from everhold_privacy.mechanisms.privacy_budget import PrivacyBudget

ROWS = 2_000
CONDITIONS = Universe((BinnedColumn("x", (0.0, 0.5, 1.0)), ListedColumn("y", (0, 1), rest=0)))


@pytest.fixture(autouse=True)
def quiet():
    """These holdouts are small on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EverholdWarning)
        yield


def rows(seed, count=ROWS, *, chance=None):
    """One feature, six digits long, and a label whose chance it is unless another one is given."""
    rng = np.random.default_rng(seed)
    x = rng.random(count).round(6)
    return {"x": x, "y": (rng.random(count) < (x if chance is None else chance)).astype(int)}


def checked(**wanted):
    return GuessAndCheck(**{"rows": ROWS, "queries": 40, "surprises": 4, "tolerance": 0.2, "grid": 20, **wanted})


def create(folder, name="h", *, seed=0, **wanted):
    wanted = {"holdout": rows(seed), "label": "y", "mechanism": checked(), "allow_resealing": True, **wanted}
    return eh.Holdout.create(f"sqlite:///{folder}/s.db", name, **settings_from(wanted))


class Rule:
    """An estimator that looks at x, and may know some of its values."""

    feature_names_in_ = ("x",)

    def __init__(self, of=lambda x: x > 0.5):
        self._of = of

    def predict(self, frame):
        return self._of(np.ravel(frame)).astype(int)


def unprotected(monkeypatch):
    for module in ("query_compiler", "interval_planner"):
        monkeypatch.setattr(f"everhold.queries.{module}.check_estimand", lambda *_: None)


# --- sample splitting ---------------------------------------------------------------------------------------------


def split_game(folder, name, seed):
    """Whether the interval misses the accuracy 1/2 of predictions that are right on every second row, about."""
    sealed, mechanism = rows(seed, chance=0.9), SampleSplitting(rows=ROWS, queries=2)
    with create(folder, name, holdout=sealed, mechanism=mechanism) as holdout:
        answer = holdout.ask(eh.accuracy(np.arange(ROWS) % 2))
        return not answer.low <= 0.5 <= answer.high


def test_predictions_by_position_are_refused_where_queries_share_the_rows(tmp_path, monkeypatch):
    with pytest.raises(QueryRejected, match="belong to all rows"):
        split_game(tmp_path, "protected", 0)
    unprotected(monkeypatch)
    assert all(split_game(tmp_path, f"h{seed}", seed) for seed in range(5))


def test_sample_splitting_refuses_every_door_for_predictions_by_position_and_charges_nothing(tmp_path):
    array = np.zeros(ROWS)
    with create(tmp_path, mechanism=SampleSplitting(rows=ROWS, queries=3)) as holdout:
        holdout.allot("a", queries=2)
        for query in (eh.accuracy(array), eh.error(array), eh.brier(array), risk(array)):
            for ask in (holdout.ask, holdout.quote, holdout.analyst("a").ask, lambda query: holdout.ask_many([query])):
                with pytest.raises(QueryRejected, match=r"belong to all rows"):
                    ask(query)
        assert holdout.remaining == {"queries": 3}
        assert holdout.ask(eh.accuracy(Rule())).source == holdout.ask("y = 1").source == "holdout"


def test_sample_splitting_refuses_queries_about_the_names_of_rows(tmp_path):
    sealed = {**rows(0), "id": np.arange(ROWS)}
    mechanism = SampleSplitting(rows=ROWS, queries=2)
    with create(tmp_path, holdout=sealed, row_id="id", mechanism=mechanism) as holdout:
        with pytest.raises(QueryRejected, match="an id says nothing about other rows"):
            holdout.ask("id < 1000")
        with pytest.raises(QueryRejected, match="an id says nothing about other rows"):
            holdout.ask(eh.mean("y = 1", given="id < 1000"))


def test_sample_splitting_says_that_rows_are_of_one_law(tmp_path):
    with create(tmp_path, mechanism=SampleSplitting(rows=ROWS, queries=3)) as holdout:
        for query in ("y = 1", eh.mean("x", low=0, high=1)):
            assert "only if all sealed rows are of one law" in holdout.ask(query).explain()
        document = holdout.certificate().in_words()
    assert any("of one law (independent and identically" in text for text in document["assumptions"]["stated"])
    assert "one law that all sealed rows were drawn from" in document["assumptions"]["always"][1]
    assert "their average" not in str(document["assumptions"])
    assert document["theorem"]["says"].startswith("All rows are of one law")


def test_sample_splitting_is_never_taken_by_default(tmp_path):
    narrow = SampleSplitting(rows=ROWS, queries=1).promise().radius
    with create(tmp_path, mechanism=None, queries=1) as holdout:
        assert holdout.mechanism.name != "sample_splitting"
        assert holdout.promise.radius > narrow


# --- features that are public -------------------------------------------------------------------------------------


ABOUT_FEATURES = {
    "an expression": "x > 0.5",
    "a list of published values": "x in (0.25, 0.5)",
    "no column at all": "1 = 1",
    "a variance": eh.variance("x", low=0, high=1),
    "a correlation with itself": eh.correlation("x", "x > 0.5", low=0, high=1),
    "a share among some": eh.mean("x > 0.5", given="x > 0.2"),
    "a histogram": histogram("x", [0, 0.5, 1]),
}
ABOUT_LABELS = {
    "an expression": "x > 0.5 and y = 1",
    "a share among some": eh.mean("y = 1", given="x > 0.5"),
    "a feature's share among labels": eh.mean("x > 0.5", given="y = 1"),
    "a covariance": eh.covariance("x", "y = 1", low=0, high=1),
    "a histogram": histogram("x + y", [0, 1, 2]),
    "an estimator": eh.accuracy(Rule()),
    "an array": eh.accuracy(np.zeros(ROWS), training=np.zeros(ROWS)),
}


@pytest.fixture(scope="module")
def contest(tmp_path_factory):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EverholdWarning)
        with create(tmp_path_factory.mktemp("contest"), training=rows(1), features="public") as holdout:
            yield holdout


@pytest.mark.parametrize("query", ABOUT_FEATURES.values(), ids=ABOUT_FEATURES)
def test_a_query_about_public_features_alone_is_refused(contest, query):
    before = contest.remaining
    for ask in (contest.ask, contest.quote):
        with pytest.raises(QueryRejected, match=r"does not read the label 'y'"):
            ask(query)
    assert contest.remaining == before


@pytest.mark.parametrize("query", ABOUT_LABELS.values(), ids=ABOUT_LABELS)
def test_a_query_that_reads_the_label_is_about_labels_drawn_anew(contest, query):
    answer = contest.ask(query)
    for one in answer.answers.values() if hasattr(answer, "answers") else [answer]:
        assert one.about == one.to_dict()["about"] == PUBLIC_FEATURES
        assert f"is the one for {PUBLIC_FEATURES}, and not for new rows" in one.explain()
        assert "population's" not in one.explain()
    assert {row["about"] for row in contest.transcript().rows} == {PUBLIC_FEATURES}


def purchases(columns):
    """Everything with a price of its own that names columns."""
    of_rows = {"dimension": 1, "clip": 1.0, "columns": columns, "name": str(columns)}
    universe = Universe(tuple(column for column in CONDITIONS.columns if column.name in columns))
    return [
        eh.gradient(lambda table: np.ones((len(table[columns[0]]), 1)), **of_rows),
        eh.low_sensitivity(lambda table: 0.5, 0.001, columns=columns, name=str(columns)),
        eh.private_synthesize(universe, universe.marginals(1)),
    ]


def test_purchases_too_have_to_read_the_label_where_features_are_public(tmp_path):
    budget, array = PrivacyBudget.tuned(rows=ROWS, queries=20), np.zeros(ROWS)
    with create(tmp_path, mechanism=budget, features="public") as holdout:
        texts = ["x > 0.5", "x > 0.6"]
        refused = [
            *purchases(["x"]), eh.private_choose(texts, loss=str), eh.private_choose(texts),
            eh.private_first_above(texts, 0.5),
            eh.private_quantile("x", low=0, high=1, bins=4),
        ]  # fmt: skip
        for query in refused:
            with pytest.raises(QueryRejected, match=r"does not read the label"):
                holdout.ask(query)
        assert holdout.remaining["queries"] == 20
        results = [
            *map(holdout.ask, purchases(["x", "y"])),
            holdout.ask(eh.f1(array, least=500)), holdout.ask(eh.auc(Rule(), positives=9, negatives=9)),
            holdout.ask(eh.private_choose([eh.error(array), eh.error(array + 1)])),
            holdout.ask(eh.private_first_above(["y = 1"], 0.5)),
            holdout.ask(eh.private_quantile("x + y", low=0, high=2, bins=4)),
        ]  # fmt: skip
        assert all(result.about == PUBLIC_FEATURES for result in results)
        assert all(PUBLIC_FEATURES in result.explain() for result in results)
        assert f"values are for {PUBLIC_FEATURES}" in results[2].table.assumptions
        assert all(row["about"] == PUBLIC_FEATURES for row in holdout.transcript().rows)


def test_an_estimator_that_knows_published_rows_is_scored_for_labels_drawn_anew_on_them(tmp_path):
    """It is right on all of them and wrong on all new rows; the promise with public features is about the former."""
    sealed = {**rows(0), "y": (rows(0)["x"] > 0.5).astype(int)}
    known = sealed["x"]
    lookup = Rule(lambda x: np.where(np.isin(x, known), x > 0.5, x <= 0.5))
    with create(tmp_path, holdout=sealed, features="public") as holdout:
        answer = holdout.ask(eh.accuracy(lookup), guess=0.5)
        assert answer.low <= 1.0 == answer.high
        assert "not for new rows" in answer.explain()
        document = holdout.certificate().in_words()
    assert "is within 0.2 of the value for labels drawn anew on these rows" in document["promise"]["sentence"]
    assert "with it, all of them at once" in document["promise"]["sentence"]
    assert "population" not in document["promise"]["sentence"]
    assert any("wrong on all others" in text for text in document["not_promised"]["items"])
    assert not any("seen the sealed rows" in text for text in document["assumptions"]["always"])


def contest_game(folder, name, seed):
    """An entrant who knows all features and climbs; how often two laws are missed: labels anew, and new rows."""
    sealed = rows(seed)
    x, rng = sealed["x"], np.random.default_rng([seed, 1])
    missed_anew = missed_new = False
    with create(folder, name, holdout=sealed, features="public") as holdout:
        best, score = rng.integers(0, 2, ROWS), 0.5
        for _ in range(20):
            tried = np.where(rng.random(ROWS) < 0.3, x > 0.5, best).astype(int)
            answer = holdout.ask(eh.accuracy(tried), guess=score)
            if answer.value is None:
                break
            missed_anew |= not answer.low <= np.where(tried == 1, x, 1 - x).mean() <= answer.high
            missed_new |= not answer.low <= 0.5 <= answer.high  # of the rule with its own flips on all other rows
            if answer.value >= score:
                best, score = tried, answer.value
    return missed_anew, missed_new


def test_entrants_who_know_the_features_are_answered_truly_for_labels_drawn_anew(tmp_path):
    games = [contest_game(tmp_path, f"h{seed}", seed) for seed in range(20)]
    assert sum(anew for anew, _ in games) <= 3  # at most one in twenty; 4 have a chance of 1.6 %
    assert sum(new for _, new in games) >= 18  # what would be promised if the features were called sealed


# --- features that are sealed -------------------------------------------------------------------------------------


def test_with_sealed_features_every_answer_and_the_certificate_say_that_nobody_has_seen_them(tmp_path):
    """Published values in a text: a share of 0.0006 that the sealed rows call 0.3. Only the assumption speaks up."""
    sealed = rows(0)
    text = f"x in ({', '.join(f'{value:.6f}' for value in sealed['x'][:600])})"
    with create(tmp_path, holdout=sealed, training=rows(1)) as holdout:
        answer = holdout.ask(text)
        assert answer.low > 0.002
        assert "Nobody who asks may have seen the sealed rows, features or labels" in answer.explain()
        assumed = holdout.certificate().in_words()["assumptions"]["always"][0]
    assert assumed.startswith("nobody who asks has seen the sealed rows, features or labels")
    with (
        create(tmp_path, "public", holdout=sealed, features="public") as holdout,
        pytest.raises(QueryRejected, match="does not read the label"),
    ):
        holdout.ask(text, guess=0.5)


def test_answers_to_arrays_say_what_they_are_about_and_are_counted(tmp_path):
    array = np.zeros(ROWS)
    with create(tmp_path, training=rows(1)) as holdout:
        assert holdout.ask("y = 1").about is None
        assert "about" not in holdout.transcript().rows[0]
        assert holdout.certificate().to_dict()["account"]["by_position"] == 0
        for query in (
            eh.accuracy(array, training=array),
            eh.error(array),
            eh.brier(array, training=array),
            risk(array),
        ):
            answer = holdout.ask(query, guess=0.5)
            assert answer.about == answer.to_dict()["about"] == FRESH_LABELS
            assert f"is the one for {FRESH_LABELS}, and not for new rows. If these" in answer.explain()
        assert holdout.ask(eh.accuracy(Rule())).about is None
        assert [row["about"] for row in holdout.transcript().rows] == [None, *[FRESH_LABELS] * 3, None]
        certificate = holdout.certificate()
    document = certificate.in_words()
    assert document["account"]["by_position"] == 3  # accuracy and error are one query
    said = document["assumptions"]["how_to_tell"][-1]
    assert said.startswith("3 queries were about predictions for these very rows")
    assert "What remains promised then, for every answer, is its value for labels drawn anew" in said
    certificate.save(tmp_path / "c.json")
    assert verify_certificate(tmp_path / "c.json").ok


def test_purchases_of_arrays_say_what_they_are_about_and_are_counted(tmp_path):
    budget, array = PrivacyBudget.tuned(rows=ROWS, queries=20), np.zeros(ROWS)
    with create(tmp_path, mechanism=budget) as holdout:
        results = [
            holdout.ask(eh.private_choose([eh.error(array), eh.error(array + 1)])),
            holdout.ask(eh.private_first_above([eh.accuracy(array), eh.accuracy(array + 1)], 0.4)),
            holdout.ask(eh.auc(array, positives=9, negatives=9)),
            holdout.ask(eh.private_choose([array, array + 1], loss=eh.error, price=7)),
        ]
        assert all(result.about == FRESH_LABELS and FRESH_LABELS in result.explain() for result in results)
        assert holdout.ask(eh.private_choose(["x > 0.5", "y = 1"])).about is None
        assert [row["about"] for row in holdout.transcript().rows] == [*[FRESH_LABELS] * 4, None]
        assert holdout.certificate().to_dict()["account"]["by_position"] == 4


# --- other dependence ---------------------------------------------------------------------------------------------


def hidden_bit(seed):
    """Pairs of fair bits u and v, v turned by each u: they mix in one step, but given all u one bit settles all v."""
    rng = np.random.default_rng(seed)
    u = rng.integers(0, 2, ROWS)
    v = np.bitwise_xor.accumulate(u) ^ rng.integers(0, 2)
    states = [f"{one}{other}" for one, other in zip(u, v, strict=True)]
    return {"t": np.arange(ROWS), "s": np.array(states), "u": u, "y": v}


def turning():
    chances = [[0.5 * ((v ^ w) == after) for w in (0, 1) for after in (0, 1)] for _ in (0, 1) for v in (0, 1)]
    return eh.MarkovChain(chances, states=["00", "01", "10", "11"], order_by="t", state="s")


def chain_game(folder, name, seed):
    """Whether the interval misses 1/2 for predictions that are made from the features alone."""
    sealed = hidden_bit(seed)
    mechanism = checked(dependence=turning(), tolerance=0.3)
    with create(folder, name, holdout=sealed, mechanism=mechanism) as holdout:
        answer = holdout.ask(eh.accuracy(np.bitwise_xor.accumulate(sealed["u"])), guess=0.5)
        return not answer.low <= 0.5 <= answer.high


def test_arrays_for_rows_of_a_chain_are_refused_because_given_the_features_it_is_another_law(tmp_path, monkeypatch):
    with pytest.raises(QueryRejected, match=r"labels drawn anew.*'markov_chain'"):
        chain_game(tmp_path, "protected", 0)
    unprotected(monkeypatch)
    assert all(chain_game(tmp_path, f"h{seed}", seed) for seed in range(5))


@pytest.mark.parametrize(
    ("wanted", "fault", "reason"),
    [
        ({"features": "open"}, ValueError, "Pass 'sealed' or 'public'"),
        ({"label": None}, HoldoutRejected, "nothing is left to ask"),
        ({"mechanism": "sample_splitting", "queries": 3}, HoldoutRejected, "rows of one distribution"),
        (
            {"mechanism": checked(dependence=turning()), "holdout": hidden_bit(0)},
            DependenceError,
            "'markov_chain'",
        ),
    ],
)
def test_public_features_that_nothing_could_be_promised_for_create_nothing(tmp_path, wanted, fault, reason):
    with pytest.raises(fault, match=reason):
        create(tmp_path, **{"features": "public", **wanted})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("dependence", [eh.Independent(), eh.Groups(4)], ids=lambda model: model.kind)
def test_independent_rows_and_groups_may_have_public_features(tmp_path, dependence):
    with create(tmp_path, mechanism=checked(dependence=dependence, tolerance=0.3), features="public") as holdout:
        assert holdout.status()["features"] == "public"
        assert holdout.ask(eh.accuracy(np.zeros(ROWS)), guess=0.5).value is not None
    with eh.Holdout.open(f"sqlite:///{tmp_path}/s.db", "h") as again:
        assert again.schema.features_public
        assert again.transcript().rows[0]["about"] == PUBLIC_FEATURES


def test_a_recorded_declaration_that_was_changed_is_not_believed(tmp_path):
    create(tmp_path, features="public").close()
    url = f"sqlite:///{tmp_path}/s.db"
    with LedgerStore.open(url, create=False) as store:
        record = store.record("h")
    assert record.configuration["features"] == "public"
    for declared in ("sealed", "open", None):
        with sqlite3.connect(tmp_path / "s.db") as database:
            for (trigger,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                database.execute(f"DROP TRIGGER {trigger}")
            changed = json.dumps({**record.configuration, "features": declared})
            database.execute("update holdouts set configuration = ?", (changed,))
        database.close()
        with pytest.raises(IntegrityError):
            eh.Holdout.open(url, "h")
