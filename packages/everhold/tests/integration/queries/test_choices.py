"""Choices, scans, quantiles and tables in the default holdout: what they say, and that they are entries like others."""

import json

import numpy as np
import pytest

import everhold as eh
from everhold.ledger.verification import verify
from everhold.values.universe import ListedColumn, Universe

ROWS = 2_000
UNIVERSE = Universe((ListedColumn("a", (0, 1, 2), 2), ListedColumn("y", (0, 1), 1)))
KEYS = [f"x > {cut}" for cut in (-1, -0.5, 0, 0.5, 1)]


def rows(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=ROWS)
    y = (x + rng.normal(size=ROWS) > 0).astype(np.int64)
    return {"x": x, "y": y, "a": rng.integers(0, 3, ROWS)}


SEALED, TRAINING = rows(0), rows(1)


def create(folder, **wanted):
    wanted = {"planning": eh.Planning(allow_vacuous=True), **wanted}
    wanted = {"holdout": SEALED, "training": TRAINING, **wanted}
    return eh.Holdout.create(folder / "s.db", "s", label="y", **wanted)


@pytest.fixture(scope="module")
def holdout(tmp_path_factory):
    with create(tmp_path_factory.mktemp("choices"), queries=200) as made:
        yield made


def queries():
    return {
        "choose": eh.choose(KEYS, best="highest"),
        "three": eh.choose(KEYS, best="lowest", most=3),
        "models": eh.choose([0.2, 0.0, -0.4], loss=lambda cut: eh.error(f"x > {cut}")),
        "first": eh.first_above(KEYS[::-1], 0.4),
        "all": eh.all_above(KEYS, 0.4),
        "median": eh.quantile("x"),
        "expression": eh.quantile("x + a", 0.25, low=-4, high=6),
        "table": eh.synthesize(UNIVERSE),
    }


@pytest.mark.parametrize("name", queries())
def test_an_answer_agrees_with_its_quote_and_is_free_again(holdout, name):
    price, before = holdout.quote(queries()[name]), holdout.remaining
    answer = holdout.ask(queries()[name])
    assert (price.charged_at_most, answer.charged, holdout.remaining["surprises"]) == (0, 0, before["surprises"])
    again = holdout.ask(queries()[name])
    assert again.repeated
    told = {field: value for field, value in answer.to_dict().items() if field != "widens"}  # a repeat widens nothing
    assert again.to_dict() == told | {"remaining": again.to_dict()["remaining"]}
    assert holdout.quote(queries()[name]).answered_before
    assert json.dumps(answer.to_dict(), allow_nan=False)
    assert answer.explain()
    assert answer._repr_html_()
    assert len(answer.to_pandas()) == 1
    for width in ("regret", "level_error", "within"):
        assert getattr(answer, width, 0.0) <= price.radius + 1e-12


def test_choices_are_those_of_the_sealed_rows(holdout):
    best = holdout.ask(queries()["choose"])
    value = float(np.mean(SEALED["x"] > -1))
    assert best.index == 0
    assert best.low <= value <= best.high
    assert 0 <= best.regret <= best.high - best.low
    three = holdout.ask(queries()["three"])
    assert (three.index, three.indices) == (4, (4, 3, 2))
    assert three.low <= np.mean(SEALED["x"] > 1)
    assert three.regret >= np.mean(SEALED["x"] > 0) - np.mean(SEALED["x"] > 1)
    model = holdout.ask(queries()["models"])
    errors = [np.mean((SEALED["x"] > cut) != SEALED["y"]) for cut in (0.2, 0.0, -0.4)]
    assert model.index == int(np.argmin(errors))
    assert model.low <= min(errors) <= model.high
    first = holdout.ask(queries()["first"])
    assert first.found
    assert first.asked == "mean of x > 0"
    assert first.low < 0.4 < first.high
    assert holdout.ask(queries()["all"]).indices == (0, 1, 2)
    median = holdout.ask(queries()["median"])
    assert median.low <= np.median(SEALED["x"]) <= median.high
    table = holdout.ask(queries()["table"]).table
    shares = [np.mean((SEALED["a"] == a) & (SEALED["y"] == y)) for a in range(3) for y in range(2)]
    assert np.max(np.abs(table.means(UNIVERSE.marginals(2)) - shares)) <= table.radius


def test_nothing_above_is_a_finding(holdout):
    none = holdout.ask(eh.first_above(KEYS, 0.99))
    assert (none.index, none.found, none.low) == (None, False, None)
    assert none.high >= 0.99


def test_pairs_make_the_regret_smaller(holdout):
    near = holdout.ask(eh.choose([f"x > {cut}" for cut in (0.0, 0.01, 0.02)], best="highest"))
    assert near.regret < 0.5 * (near.high - near.low)


def test_predictions_as_arrays_need_no_training(tmp_path):
    columns = [
        np.where(np.random.default_rng(seed).random(ROWS) < 0.1, 1 - SEALED["y"], SEALED["y"]) for seed in range(4)
    ]
    with create(tmp_path, queries=50) as made:
        best = made.ask(eh.choose(columns, loss=eh.error))
        errors = [float(np.mean(column != SEALED["y"])) for column in columns]
        assert best.index == int(np.argmin(errors))
        assert best.about is not None
        assert best.low <= min(errors) <= best.high


def test_groups_and_bets(tmp_path):
    grouped = [{**each, "g": np.arange(ROWS) // 4 + seed * ROWS} for seed, each in enumerate((SEALED, TRAINING))]
    wanted = {"holdout": grouped[0], "training": grouped[1], "dependence": eh.Groups("g")}
    with create(tmp_path, queries=50, **wanted) as made:
        best = made.ask(eh.choose([eh.mean("x", low=-3, high=3), eh.mean("x - 0.1", low=-3, high=3)], best="highest"))
        assert best.index == 0
        assert best.low <= float(np.mean(SEALED["x"])) <= best.high
        assert made.ask(eh.all_above(["x > 0", "x > 1"], 0.3)).indices == (0,)
        median = made.ask(eh.quantile("x"))
        assert median.low <= np.median(SEALED["x"]) <= median.high
        assert made.ask(eh.synthesize(UNIVERSE)).within < 0.2


def test_they_are_entries_like_others(tmp_path):
    with create(tmp_path, queries=60) as made:
        made.allot("mia", queries=8)
        mia = made.analyst("mia")
        assert mia.ask(queries()["choose"]).regret is not None
        assert mia.ask(queries()["first"]).found
        assert mia.ask(queries()["all"]).refused  # five more candidates are too many
        with pytest.raises(eh.BudgetExhausted):
            mia.ask(queries()["all"], strict=True)
        for name, query in queries().items():
            assert name == "all" or not made.ask(query).refused
        executor = made._executor
        assert verify(executor.store, "s", seal_key=executor.key.seal_key).ok
        certificate = made.certificate(answers={"the best": 2})
        certificate.save(tmp_path / "c.json")
        assert eh.verify_certificate(tmp_path / "c.json").ok
        sources = [row["source"] for row in made.transcript().rows]
        assert set(sources) == {"chosen"}
        unsealed = made.unseal()
        first = next(row for row in unsealed.rows if row["sequence"] == 2)
        assert first["sealed_low"] <= first["sealed"] <= first["sealed_high"]
        assert made.ask(queries()["choose"]).repeated
        with pytest.raises(eh.QueryRejected):
            made.ask(queries()["all"])


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (lambda: eh.choose([]), "There are 0 candidates"),
        (lambda: eh.choose("x > 0"), "a list"),
        (lambda: eh.choose(KEYS, best="best"), "lowest"),
        (lambda: eh.choose(KEYS, most=6), "from 1 to 5"),
        (lambda: eh.choose(["x > 0", eh.mean("x", low=0, high=9)]), "different ranges"),
        (lambda: eh.choose([eh.variance("y = 1")]), "no mean of row values"),
        (lambda: eh.first_above(KEYS, 2), "from 0 to 1"),
        (lambda: eh.first_above(KEYS, "0.5"), "from 0 to 1"),
        (lambda: eh.quantile("x", 1.5), "from 0 to 1"),
        (lambda: eh.quantile("x > 0"), "no number"),
        (lambda: eh.quantile("x + 1"), "nothing says where its quantiles may lie"),
        (lambda: eh.quantile("x", low=1, high=0), "the smaller one as low"),
        (lambda: eh.quantile("x", low=0, high=1, bins=0), "from 1 to 10,000"),
        (lambda: eh.synthesize(UNIVERSE, 3), "from 1 to 2"),
        (lambda: eh.synthesize(Universe((ListedColumn("b", (1,), 1),)), 1), "no column 'b'"),
    ],
)
def test_bad_input_costs_nothing(holdout, query, said):
    before = holdout.remaining
    with pytest.raises(eh.QueryRejected, match=said) as refusal:
        holdout.ask(query())
    assert "othing was charged" in refusal.value.told
    assert holdout.remaining == before


def test_they_are_told_at_once_or_not_at_all(holdout):
    for query in queries().values():
        with pytest.raises(eh.QueryRejected, match="silent"):
            holdout.ask(query, silent=True)
        with pytest.raises(eh.QueryRejected, match="no guess"):
            holdout.ask(query, guess=0.5)


def test_a_batch_of_which_everything_is_told_explains_itself(tmp_path):
    with create(tmp_path) as holdout:
        for answer in holdout.ask_many(["x > 3", "x > 0.5"], reveal="all"):
            assert (answer.source, answer.charged) == ("chosen", 0)
            assert "pay for what was told" in answer.explain()
        holdout.unseal()
        assert "unsealed" in holdout.ask("x > 3").explain()


@pytest.mark.parametrize("best", ["highest", "lowest"])
@pytest.mark.parametrize("dependence", [None, eh.Groups("g")])
def test_the_largest_regret_of_pairs_is_that_of_all_intervals(tmp_path, best, dependence):
    sealed, training = ({**each, "g": np.arange(ROWS) // 2 + start} for each, start in ((SEALED, 0), (TRAINING, ROWS)))
    grouped = {"holdout": sealed, "training": training, "dependence": dependence}
    with create(tmp_path, **(grouped if dependence else {})) as holdout:
        executor = holdout._executor
        query = eh.choose([eh.error(f"x > {cut}") for cut in (-1.0, -0.5, 0.0, 0.1, 0.5)], best=best)
        pairs = executor.compiler.compile(query, None, None).pairs
        for one in range(5):
            found = pairs.evaluate(executor.sealed, one)
            ends = [each.interval(seen, 8.0) for each, seen in zip(found.procedures, found.sealed.seen, strict=True)]
            bound = [each.bound for each in found.prepared]
            units = [
                [b.at_zero + (b.at_one - b.at_zero) * end for end in both] for b, both in zip(bound, ends, strict=True)
            ]
            largest = max(-min(both) if best == "lowest" else max(both) for both in units)
            assert pairs.largest(found, 8.0, lowest=best == "lowest") == pytest.approx(largest, abs=1e-6)


def test_a_quantile_is_told_near_the_sealed_one_where_edges_are_far_from_it(tmp_path):
    """The last of equal bins is open, and the middle of its edges would be far beyond all values."""
    rng = np.random.default_rng(1)
    sealed, training = ({"g": rng.lognormal(3.0, 1.0, 2_000)} for _ in range(2))
    with eh.Holdout.create(
        tmp_path / "s.db", "s", holdout=sealed, training=training, queries=20, mechanism="guess_and_check"
    ) as holdout:
        for level in (0.5, 0.9, 0.99):
            told = holdout.ask(eh.quantile("g", level, low=0, high=1_000))
            assert told.value == pytest.approx(np.quantile(sealed["g"], level), rel=0.1)


def test_unsealing_tells_the_largest_error_of_a_table_and_nothing_more_of_a_quantile(tmp_path):
    with create(tmp_path) as holdout:
        table, median = holdout.ask(eh.synthesize(UNIVERSE, 1)), holdout.ask(eh.quantile("x"))
        told = holdout.unseal()
        (row,) = told.rows
        counts = UNIVERSE.marginals(1)
        off = np.abs(counts.means(UNIVERSE.histogram(SEALED) / ROWS) - table.table.means(counts)).max()
        assert row["sealed"] == pytest.approx(off, abs=1e-9)
        assert row["sealed_low"] == 0.0 < row["sealed"] < row["sealed_high"] <= table.within
        assert (told.not_kept, holdout.ask(eh.quantile("x")).low) == (1, median.low)


def test_telling_a_choice_that_was_clear_is_cheap(holdout):
    before = holdout._executor.state().labels
    answer = holdout.ask(eh.choose(["x > -1.5", "x > 1.5"], best="highest"))
    assert (answer.index, answer.regret) == (0, 1e-6)
    assert holdout._executor.state().labels - before < 7e6  # millionths of a nat; a surprise costs twice as much


@pytest.mark.parametrize(
    ("threshold", "indices", "words", "unsaid"),
    [
        (0.05, (0, 1), "at least", ["others", "at most"]),
        (0.95, (), "at most", ["at least"]),
        (0.4, (0,), "at least", []),
    ],
)
def test_a_scan_says_nothing_of_a_side_without_candidates(holdout, threshold, indices, words, unsaid):
    found = holdout.ask(eh.all_above(["x > 0", "x > 1"], threshold))
    assert found.indices == indices
    assert [found.low is None, found.high is None] == [not indices, len(indices) == 2]
    for said in (str(found), found.explain()):
        assert words in said
        assert not [word for word in unsaid if word in said]


def test_a_choice_says_how_much_wider_later_queries_are(tmp_path):
    with create(tmp_path) as holdout:
        before = holdout.status()["outlook"]["now"]
        quoted = holdout.quote(eh.choose(KEYS))
        chosen = holdout.ask(eh.choose(KEYS))
        after = holdout.status()["outlook"]["now"]
        assert chosen.charged == 0
        assert 1.0 < chosen.widens == chosen.to_dict()["widens"] == pytest.approx(after / before, abs=0.01)
        assert "% wider" in str(chosen)
        assert quoted.widens > 1.0
        assert "% wider" in str(quoted)
        again = holdout.ask(eh.choose(KEYS))
        assert (again.repeated, again.widens) == (True, 1.0)


def test_a_scan_takes_a_place_for_each_candidate_and_who_is_above_is_paid_for(tmp_path):
    with create(tmp_path, queries=200) as made:
        made.ask(eh.all_above(KEYS, 0.4))
        state = made._executor.state()
        assert (state.asked, state.charged) == (len(KEYS), 0)
        assert state.labels >= 1e5
