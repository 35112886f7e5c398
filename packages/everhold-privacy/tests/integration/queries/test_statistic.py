"""Statistics of all rows, held against guesses: intervals that hold, refusals, and nothing told of sealed rows."""

import json
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, roc_auc_score

import everhold as eh
from everhold.asking.creation import settings_from
from everhold.errors import ClippingWarning, QueryRejected
from everhold.guarantees.intervals.means import BoundedDifferences
from everhold.ledger.store import all_entries
from everhold.mechanisms import Source, State
from everhold.mechanisms.guess_and_check import GuessAndCheck
from everhold.mechanisms.records import Evaluations
from everhold.queries.metrics.ranking import auc_sensitivity
from everhold.queries.statistic import Statistic, StatisticGrid
from everhold.randomness import SeededNoise

ROWS = 4_000
COUNTS = {"positives": 1_800, "negatives": 1_800}


def rows(seed=0, count=ROWS):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=count)
    return {"x": x, "y": (x + rng.normal(size=count) > 0).astype(int)}


SEALED, TRAINED = rows(0), rows(1)


def spread(table):
    return np.var(np.clip(np.nan_to_num(table["x"]), -1, 1))


def variance(**more):
    return eh.low_sensitivity(spread, 4 / ROWS, columns=["x"], **more)


def area(**more):
    return eh.auc(SEALED["x"], **COUNTS, training=TRAINED["x"], **more)


def floored():
    return eh.f1((SEALED["x"] > 0).astype(int), least=3_600, training=(TRAINED["x"] > 0).astype(int))


def made(path, **wanted):
    wanted = {"mechanism": "guess_and_check", "queries": 20, "label": "y", "training": TRAINED, **wanted}
    return eh.Holdout.create(path / "s.db", "g", holdout=SEALED, **settings_from(wanted))


@pytest.fixture
def holdout(tmp_path):
    with made(tmp_path) as opened:
        yield opened


def model():
    return LogisticRegression().fit(TRAINED["x"][:, None], TRAINED["y"])


AUC = roc_auc_score(SEALED["y"], SEALED["x"])
F1 = f1_score(SEALED["y"], SEALED["x"] > 0)


@pytest.mark.parametrize(
    ("query", "value"),
    [
        (floored, F1),
        (lambda: eh.f1(model(), least=3_600), F1),
        (variance, spread(SEALED)),
    ],
)
def test_the_training_rows_make_the_guess_and_it_is_confirmed(holdout, query, value):
    asked = query()
    quoted = holdout.quote(asked)
    answer = holdout.ask(asked)
    assert (answer.source, answer.charged, answer.statement) == ("training", 0, "S8")
    assert answer.value == pytest.approx(value, abs=0.05)
    assert answer.low <= value <= answer.high
    assert quoted.radius == pytest.approx(max(answer.high - answer.value, answer.value - answer.low), rel=1e-9)
    assert quoted.radius_unsealed < min(quoted.radius, quoted.radius_if_charged) < 0.5
    assert "expected value of the statistic over sets of as many rows" in answer.explain()
    again = holdout.ask(query() if query is not variance else asked)
    assert (again.repeated, again.value, again.low, again.high) == (True, answer.value, answer.low, answer.high)
    (line,) = holdout.transcript().rows
    assert line["guess"] == line["estimate"] == pytest.approx(answer.value)
    json.dumps(holdout.transcript().to_dict(), allow_nan=False)


def test_a_surprise_and_a_silent_query_and_what_is_unsealed(holdout):
    first = holdout.ask(floored(), guess=0.2)
    assert (first.source, first.charged) == ("holdout", 1)
    assert first.low <= F1 <= first.high
    second = holdout.ask(variance(name="v", high=2.0), silent=True)
    assert (second.source, second.value, second.charged) == ("silent", None, 0)
    nodes = [entry.answer["node"] for entry in all_entries(holdout._executor.ledger, 2)]
    told = holdout.unseal().rows
    for line, node, exact, width in zip(told, nodes, (F1, spread(SEALED)), (1.0, 2.0), strict=True):
        assert node["by"] == "bounded_differences"
        reach = node["sensitivity"] * math.sqrt((node["nats"] + math.log(2)) * ROWS / 2)
        assert line["sealed"] == pytest.approx(exact, abs=1e-6)
        assert line["sealed_high"] - line["sealed"] == pytest.approx(width * reach, abs=1e-6)
        assert line["sealed"] - line["sealed_low"] == pytest.approx(width * reach, abs=1e-6)
    again = holdout.ask(variance(name="v", high=2.0))
    assert again.sealed == pytest.approx(spread(SEALED), abs=1e-6)
    assert again.sealed_low < again.sealed < again.sealed_high


@pytest.mark.parametrize("mechanism", ["guess_and_check", "privacy_budget"])
def test_a_statistic_names_its_range_and_warns_where_the_training_rows_lie_beyond(tmp_path, mechanism):
    with made(tmp_path, mechanism=mechanism) as holdout:
        with pytest.warns(ClippingWarning, match="the training rows give one beyond"):
            clipped = holdout.ask(variance(name="v", low=0.9), silent=mechanism == "guess_and_check").clipped
        assert clipped.startswith("values of the statistic below 0.9 count as 0.9, and above 1 as 1")
        asked = holdout.certificate().to_dict()["account"]["queries"][0]["asked"]
        assert clipped in asked
        with warnings.catch_warnings():
            warnings.simplefilter("error", ClippingWarning)
            assert "the training rows give one within" in holdout.ask(variance(name="w")).clipped


def test_a_guess_is_needed_and_a_tolerance_is_refused(holdout):
    query = eh.auc(SEALED["x"], **COUNTS)
    for attempt, words in (
        (lambda: holdout.ask(query), "needs a guess"),
        (lambda: holdout.ask(query, guess=1.5), "the range of the query"),
        (lambda: holdout.ask(area(), tolerance=0.1), "privacy_budget"),
        (lambda: holdout.ask(eh.low_sensitivity(lambda t: np.median(np.nan_to_num(t["x"])), 0.01)), "Replacing one"),
        (lambda: holdout.ask(eh.low_sensitivity(spread, 1e-12)), "too wide for a sensitivity"),
        (lambda: holdout.ask(eh.auc(np.zeros(3), **COUNTS)), "shape"),
    ):
        with pytest.raises(QueryRejected, match=words):
            attempt()
    assert len(holdout.transcript()) == 0
    trained = holdout.quote(area()).radius
    answer = holdout.ask(query, guess=AUC)
    assert (answer.source, answer.charged) == ("guess", 0)
    assert answer.high - answer.low > 2 * trained  # nothing says how far it scatters
    farthest = max(answer.high - answer.value, answer.value - answer.low)
    assert holdout.quote(area()).radius == pytest.approx(farthest)  # it is answered, so


@pytest.mark.filterwarnings("ignore::everhold.errors.EverholdWarning")
@pytest.mark.parametrize("mechanism", ["ladder", "sample_splitting", "empirical", "thresholdout"])
def test_other_mechanisms_refuse_them(tmp_path, mechanism):
    with made(tmp_path, mechanism=mechanism, allow_vacuous=True) as holdout:
        for query in (area(), variance(), eh.f1((SEALED["x"] > 0).astype(int), least=3_600)):
            with pytest.raises(QueryRejected, match=r"this is a statistic of all rows together\. Use"):
                holdout.ask(query)
        assert len(holdout.transcript()) == 0


def test_groups_widen_it_by_the_squares_of_their_sizes(tmp_path):
    with made(tmp_path, dependence=eh.Groups([1, 3] * (ROWS // 4)), allow_vacuous=True) as holdout:
        assert not holdout.ask(variance()).refused
        procedure = variance().compile(holdout._executor.compiler).prepared[0].procedure
        assert (procedure.rows, procedure.spread) == (10 * ROWS // 4, None)
        assert procedure.training == procedure.rows
        assert math.isclose(procedure.sensitivity, 4 / ROWS, rel_tol=1e-6)


def test_series_are_refused(tmp_path):
    series = {**SEALED, "time": np.arange(ROWS) + ROWS}
    before = {**TRAINED, "time": np.arange(ROWS) - 100.0}
    chain = eh.MarkovChain([[0.7, 0.3], [0.3, 0.7]], order_by="time", state="y", gap=50)
    with eh.Holdout.create(
        tmp_path / "s.db", "g", holdout=series, training=before, label="y", mechanism="guess_and_check", queries=5,
        dependence=chain, planning=eh.Planning(allow_vacuous=True),
    ) as holdout:  # fmt: skip
        with pytest.raises(QueryRejected, match="for independent rows or groups of rows only"):
            holdout.ask(variance())
        assert len(holdout.transcript()) == 0


def test_rows_on_which_a_function_fails_tell_nothing(tmp_path):
    """The function meets sealed rows once, fails on them with their values in its words, and nothing is heard of it."""
    sealed, met = rows(0), []
    sealed["x"] = np.full(ROWS, 321.5)

    def statistic(table):
        if np.all(table["x"] == 321.5):
            met.append(len(table["x"]))
            raise SystemExit(f"secret {table['x'][0]}")
        return spread(table)

    with eh.Holdout.create(
        tmp_path / "s.db", "g", holdout=sealed, training=TRAINED, mechanism="guess_and_check", queries=5
    ) as holdout:
        query = eh.low_sensitivity(statistic, 4 / ROWS, columns=["x"], name="s")
        holdout.quote(query)
        assert met == []
        answer = holdout.ask(query)
        assert (answer.source, answer.low) == ("holdout", 0.0)
        assert met == [ROWS]
        assert "321" not in str(answer) + answer.explain() + repr(holdout.transcript().rows)
        assert [line["sealed"] for line in holdout.unseal().rows] == [0.0]


def test_what_the_training_rows_say_is_on_the_scale_of_the_sealed_ones(tmp_path):
    """Counts and floors shrink with the rows: a training set of a quarter makes the same guess, and scatters twice."""
    part = {name: column[: ROWS // 4] for name, column in TRAINED.items()}
    predicted = (part["x"] > 0).astype(int)
    with made(tmp_path, training=part) as holdout:
        compiler = holdout._executor.compiler
        query = eh.f1((SEALED["x"] > 0).astype(int), least=3_000, training=predicted)
        (prepared,) = query.compile(compiler).prepared
        assert prepared.guess / holdout.mechanism.steps == pytest.approx(f1_score(part["y"], predicted), abs=0.01)
        assert prepared.procedure.training == ROWS // 4
        assert prepared.procedure.standard_error(0.5) == pytest.approx(prepared.procedure.spread * math.sqrt(5))


@pytest.mark.parametrize("seed", range(3))
def test_the_spread_of_a_mean_is_that_of_its_rows(seed):
    """The jackknife's answer for a mean is known; planted error: parts are left in."""
    values = np.random.default_rng(seed).random(5_000) < 0.3
    statistic = Statistic(
        StatisticGrid(0.0, 1.0, 1 / 5_000), lambda sealed: 0.0, {}, "", trained=lambda places: values[places].mean()
    )
    share, found = statistic.on_training_rows(5_000)
    assert float(share) == pytest.approx(values.mean(), abs=1e-6)
    assert found == pytest.approx(values.std(), rel=0.5)  # 19 degrees of freedom
    assert statistic.on_training_rows(30)[1] == math.inf


def answered(mechanism, procedure, guess, seen):
    """The reply to one query, and its sealed numbers."""
    evaluations = Evaluations(
        totals=np.array([[round(seen * mechanism.steps)]]), guesses=np.array([round(guess * mechanism.steps)]),
        rows=mechanism.rows, unit=mechanism.unit, procedures=[procedure], seen=[seen],
    )  # fmt: skip
    return mechanism.answer_many(State(), evaluations, SeededNoise(0))[1]


@pytest.mark.parametrize("slack", [0.2, 0.6])
def test_with_a_slack_near_guesses_are_no_surprises(slack):
    """Whatever the sealed rows say within the reach. Planted error: the same without the slack's share."""
    mechanism = GuessAndCheck.tuned(rows=3_000, queries=50, surprises=3, slack=slack)
    beyond, delta = mechanism.promise().spends_only_beyond, auc_sensitivity(positives=1_400, negatives=1_400)
    procedure = BoundedDifferences(rows=3_000, sensitivity=delta, training=3_000, spread=0.001)
    reach = procedure.reach(float(mechanism.next_nats(State())[0]))
    charged = {}
    for far in (0.999 * beyond, beyond + 3 * reach):
        for truth, side in ((0.5, 1), (0.5, -1), (0.9, -1), (0.1, 1)):
            for off in (-0.999, 0.0, 0.999):
                replies = answered(mechanism, procedure, truth + side * far, truth + off * reach)
                charged.setdefault(far, []).append(int(replies.charged[0]))
    near, far = charged.values()
    assert not any(near)
    assert any(far)


def test_intervals_hold_and_a_sensitivity_that_is_claimed_too_small_is_what_breaks_them():
    """Fair coins, honest and wrong guesses; what is told and what is unsealed contain 1/2."""
    count, missed = 400, {1.0: 0, 0.25: 0}
    mechanism = GuessAndCheck.tuned(rows=count, queries=1, surprises=1, confidence=0.8)
    for share in missed:
        procedure = BoundedDifferences(rows=count, sensitivity=share / count, training=count)
        for seed in range(300):
            rng = np.random.default_rng(seed)
            seen, guess = rng.integers(0, 2, count).mean(), rng.choice([0.5, 0.52, 0.9])
            replies = answered(mechanism, procedure, guess, seen)
            told = replies.lows[0] <= 0.5 <= replies.highs[0]
            missed[share] += not (told and replies.sealed[0, 1] <= 0.5 <= replies.sealed[0, 2])
            assert replies.sources[0] in (Source.GUESS, Source.HOLDOUT)
            inside = replies.lows[0] <= replies.sealed[0, 1] and replies.sealed[0, 2] <= replies.highs[0]
            assert inside
    assert missed[1.0] <= 300 * 0.2
    assert missed[0.25] > 300 * 0.2


def test_the_grid_of_a_statistic_is_covered_by_what_rounding_adds():
    for delta in (1e-4, 0.3, 1.0):
        for unit in (2, 1_000, 2**30):
            grid = StatisticGrid(0.0, 1.0, delta, unit)
            assert grid.share <= Fraction(2, unit)
            assert Statistic(grid, lambda sealed: 0.0, {}, "").share_of(0.7) > Fraction(0.7) - Fraction(2, unit)


def test_statistics_and_means_share_the_queries_and_the_surprises(holdout):
    holdout.ask("x > 0")
    before = holdout.remaining
    holdout.ask(area())
    holdout.ask(variance(), guess=0.99)
    after = holdout.remaining
    assert before["queries"] - after["queries"] == 2
    assert before["surprises"] > after["surprises"]
