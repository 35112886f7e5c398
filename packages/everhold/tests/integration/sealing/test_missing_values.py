"""What counts for missing values, as the steward says it: in every query, and told with it."""

from itertools import product
from types import MappingProxyType

import numpy as np
import pytest

import everhold as eh
from everhold.errors import ColumnWarning, HoldoutRejected, QueryRejected
from everhold.queries.means.combined import BoundedMean
from everhold.queries.means.plans import Estimate
from everhold.values.base import Schema
from everhold.values.expressions import ColumnKind
from everhold.values.expressions.arrays import ArrayProgram
from everhold.values.missing import MissingRule

BP = {"low": 60, "high": 200}
ARMS = {"arm": "arm", "treated": "B", "control": "A"}
SHARE = 0.26
EVERYTHING = {"bp": "drop", "died": 0}


def trial(seed, rows=2_000, *, complete=False):
    """Patients; blood pressure is missing in a quarter of them, a death in every tenth."""
    rng = np.random.default_rng(seed)
    bp, died = rng.normal(130.0, 15.0, rows), (rng.random(rows) < 0.3).astype(float)
    sex, arm = np.where(rng.random(rows) < 0.5, "F", "M"), np.where(rng.random(rows) < 0.5, "B", "A")
    if not complete:
        bp[rng.random(rows) < SHARE], died[rng.random(rows) < 0.1] = np.nan, np.nan
    return {"bp": bp, "died": died, "sex": sex, "arm": arm, "x": rng.random(rows)}


def seal(folder, missing, name="t", *, holdout=None, training=None, **also):
    return eh.Holdout.create(
        f"sqlite:///{folder}/t.db", name, holdout=trial(0) if holdout is None else holdout,
        training=trial(1) if training is None else training, queries=50, rows=eh.Rows(missing=missing),
        allow_resealing=True, **also,
    )  # fmt: skip


@pytest.fixture(scope="module")
def dropped(tmp_path_factory):
    declared = eh.listed([eh.mean("bp", **BP), eh.mean("bp > 140", given="sex = 'M'")])
    groups = eh.subgroups(["sex"], of="bp > 145", values={"sex": ["F", "M"]})
    with seal(tmp_path_factory.mktemp("dropped"), "drop", declared=[declared, groups]) as made:
        yield made


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    with seal(tmp_path_factory.mktemp("counted"), {"bp": 130, "died": 0}) as made:
        yield made


DROPPED = {
    "a mean": (eh.mean("bp", **BP), 'mean of bp among rows with "bp" is not null'),
    "a share": ("bp > 150", "rows without bp are left out (2"),
    "a share in a condition": ("bp > 150 and sex = 'F'", "rows without bp are left out (2"),
    "among rows": (eh.mean("bp > 150", given="sex = 'F'"), "of rows with sex = 'F', those without bp are left out (2"),
    "two arms": (eh.risk_difference("died = 1", **ARMS), "those without died are left out (9"),
    "a ratio of arms": (eh.risk_ratio("died = 1", **ARMS), "those without died are left out ("),
    "a difference": (eh.difference("bp > 150", "bp > 120"), "rows without bp are left out (2"),
}


@pytest.mark.parametrize("kind", DROPPED)
def test_rows_without_a_value_are_left_out_and_the_answer_says_so(dropped, kind):
    query, said = DROPPED[kind]
    answer = dropped.ask(query)
    assert said in f"{answer.shown} {answer.clipped}"
    assert "left out" in answer.explain()
    assert answer.low < answer.high


def test_a_row_of_which_nothing_says_whether_it_counts_is_left_out(tmp_path):
    sealed, training = (trial(seed, 4_000) for seed in (5, 6))
    with seal(tmp_path, "drop", holdout=sealed, training=training) as holdout:
        low = holdout.ask(eh.mean("x > 0.5", given="bp > 140 or sex = 'F'"))
        both = holdout.ask(eh.mean("died = 1", given="bp > 140"))
        arms = holdout.ask(eh.risk_difference("x > 0.5", arm="died", treated=1, control=0))
        assert low.clipped.startswith("rows without bp are left out (2")
        assert both.clipped.startswith("rows without bp or died are left out (3")
        assert arms.clipped.startswith("rows without died are left out (")
        holdout.unseal()
        bp, died, half, known = sealed["bp"], sealed["died"], sealed["x"] > 0.5, ~np.isnan(sealed["bp"])
        counts = known & ((bp > 140) | (sealed["sex"] == "F"))
        truths = [half[counts].mean(), np.nanmean(died[bp > 140]), half[died == 1].mean() - half[died == 0].mean()]
        asked = [eh.mean("x > 0.5", given="bp > 140 or sex = 'F'"), eh.mean("died = 1", given="bp > 140")]
        asked.append(eh.risk_difference("x > 0.5", arm="died", treated=1, control=0))
        assert [holdout.ask(query).sealed for query in asked] == pytest.approx(truths, abs=1e-6)


def test_a_rule_predicts_every_row_and_the_answer_says_so(tmp_path):
    sealed, training = ({**trial(seed), "y": (trial(seed)["x"] > 0.5).astype(int)} for seed in (5, 6))
    with seal(tmp_path, {"bp": "drop"}, holdout=sealed, training=training, label="y") as holdout:
        for query in (eh.accuracy("bp > 130"), eh.metric("f1", "bp > 130")):
            assert "rows without bp are predicted by the rule, too (2" in holdout.ask(query).clipped
        holdout.unseal()
        right = (sealed["bp"] > 130) == (sealed["y"] == 1)  # a gap is not above 130
        assert holdout.ask(eh.accuracy("bp > 130")).sealed == pytest.approx(right.mean())


def test_a_mean_of_rows_with_a_value_is_that_of_a_condition(dropped):
    asked = dropped.ask(eh.mean("bp > 151"))
    same = dropped.ask(eh.mean("bp > 151", given='"bp" is not null'))
    assert same.repeated
    assert (same.low, same.high) == (asked.low, asked.high)
    many = dropped.ask_many(["bp > 151", "x > 0.5"])
    assert many[0].repeated
    assert many[0].value == asked.value
    assert not many[1].clipped


def test_declared_queries_are_answered_as_declared(dropped):
    declared = [eh.mean("bp", **BP), eh.mean("bp > 140", given="sex = 'M'"), eh.mean("bp > 145", given="sex = 'F'")]
    for query in [*declared, eh.mean("bp > 145")]:
        assert dropped.ask(query).source == "declared"


def test_what_is_no_mean_is_refused_and_the_own_words_of_a_query_hold(dropped):
    for query in (eh.quantile("bp"), eh.correlation("bp > 150", "x > 0.5"), eh.choose(["bp > 150", "x > 0.5"])):
        with pytest.raises(QueryRejected, match=r"reads 'bp'. Rows without a value are left out of means.*is not null"):
            dropped.ask(query)
    answer = dropped.ask("bp is null")
    assert answer.low < SHARE < answer.high
    assert not answer.clipped
    assert dropped.ask(eh.mean("case when bp is null then 100 else bp end", **BP)).value < 125.0


def test_a_value_counts_for_missing_ones_in_every_query_and_is_told(counted):
    expected = {
        eh.mean("bp", **BP): 130.0,
        eh.mean("bp <= 130"): 0.5 * (1.0 - SHARE) + SHARE,
        eh.mean("died", low=0, high=1): 0.27,
        eh.mean("bp = 130", given="sex = 'F'"): SHARE,
        eh.variance("bp", low=60, high=200): 225.0 * (1.0 - SHARE),
    }
    for query, truth in expected.items():
        answer = counted.ask(query)
        assert answer.low < truth < answer.high
        assert "missing values of" in answer.clipped
        assert "of the training rows)" in answer.clipped
        assert "missing values of" in answer.explain()
    assert counted.ask(eh.quantile("bp")).low == pytest.approx(130.0, abs=0.1)
    silent = counted.ask(eh.mean("bp > 129"), silent=True)
    assert "missing values of bp count as 130" in silent.clipped
    own = counted.ask(eh.mean("bp is null"))
    assert own.low < SHARE < own.high


@pytest.mark.parametrize("made", ["dropped", "counted"])
def test_the_certificate_says_what_counts(made, request, tmp_path):
    holdout = request.getfixturevalue(made)
    holdout.ask(eh.mean("bp", **BP))
    certificate = holdout.certificate()
    said = "rows without a value are left out" if made == "dropped" else "missing values count as 130"
    assert dict(certificate.to_dict()["rows"]["missing"])["bp"] == said
    assert f"bp: {said}" in certificate.to_html()
    assert "the steward said what counts" in certificate.to_html()
    assert holdout.status()["missing"]["bp"] == said
    certificate.save(tmp_path / "t.json")
    assert eh.verify_certificate(tmp_path / "t.json", public_key=certificate.public_key).ok


WRONG = {
    "worst": "missing is 'worst'. Pass 'refuse', 'drop', 'bounds' or a value that counts",
    float("nan"): "missing is nan. Pass",
    None: "missing is None. Pass",
}


NUMBERS = MappingProxyType(dict.fromkeys(("bp", "age"), ColumnKind.NUMBER))
POSSIBLE = (100.0, 130.0, 160.0)
BOUNDED = [
    eh.mean("bp", low=100, high=160), eh.mean("bp > 140"), eh.mean("not (bp > 140)"), eh.mean("bp > 140 or age > 120"),
    eh.mean("case when bp > 140 then 0.25 when age > 120 then 1 else 0 end"), eh.mean("bp - age", low=-60, high=60),
    eh.mean("bp > 140 and bp > age", given="sex > 120"), eh.mean("bp", low=100, high=160, given="sex > 120"),
]  # fmt: skip


def mean_of(query, rows, schema):
    """The mean of the row values of a plain query over a few rows, on the scale [0, 1]."""
    bound = query.bind(schema)
    values = [bound.row_value] if bound.pair is None else [bound.pair.first.row_value, bound.pair.second.row_value]
    found = ArrayProgram(values, {}, unit=480).run(rows, len(rows["bp"]))
    steps = [np.where(each, 480, 0) if each.dtype == bool else each for each in found]
    return float(np.minimum.reduce(steps).mean()) / 480.0


@pytest.mark.parametrize("query", BOUNDED, ids=str)
def test_every_way_to_fill_the_gaps_lies_within_the_bounds(query):
    """All tables of two rows, with every value in every gap; without bounds for both sides some lie outside."""
    columns = NUMBERS | {"sex": ColumnKind.NUMBER}
    whole = Schema(2, 0, columns)
    schema = Schema(2, 0, columns, missing=dict.fromkeys(NUMBERS, MissingRule("bounds")))
    given = getattr(query, "whole", None)
    asked = query if given is None else query.part
    bounded = BoundedMean.of(asked, schema, given)
    bound, outside = bounded.bind(schema), 0
    for row in product((*POSSIBLE, np.nan), repeat=2):
        for other in ((130.0, np.nan), (np.nan, 160.0), (160.0, 100.0)):
            table = np.array([row, other])
            gaps = np.argwhere(np.isnan(table))
            sexes = {"sex": np.array([130.0, 130.0 if row[0] == 100.0 else 100.0])}
            parts = [mean_of(part, {"bp": table[:, 0], "age": table[:, 1], **sexes}, schema) for part in bound.parts]
            found, each = bound.combine([Estimate(part, part, part) for part in parts]), []
            for values in product(POSSIBLE, repeat=len(gaps)):
                table[tuple(gaps.T)] = values
                rows = {"bp": table[:, 0], "age": table[:, 1], **sexes}
                counting = sexes["sex"] > (120 if given is not None else 0)
                kept = {name: column[counting] for name, column in rows.items()}
                plain = asked.bind(whole)
                each.append(plain.at_zero + (plain.at_one - plain.at_zero) * mean_of(asked, kept, whole))
            assert found.low - 1e-9 <= min(each)
            assert max(each) <= found.high + 1e-9
            outside += max(each) > found.low + 1e-9 and min(each) < found.high - 1e-9
    assert outside


@pytest.mark.parametrize("declared", [True, False])
def test_contrasts_hold_however_the_gaps_of_both_arms_are_filled(tmp_path, declared):
    asked = [
        eh.risk_difference("died = 1", **ARMS), eh.risk_ratio("died = 1", **ARMS),
        eh.risk_difference("died = 1", by="sex", **ARMS),
    ]  # fmt: skip
    families = {"declared": [eh.listed(asked)], "share": 0.99} if declared else {}
    rows = trial(0, 6_000)
    with seal(tmp_path, {"died": "bounds"}, holdout=rows, training=trial(1, 6_000), **families) as made:
        told = [made.ask(query) for query in asked]
        assert {told[0].source, told[1].source} == ({"declared"} if declared else {"training"})
        assert "those without died count as the lowest and as the highest" in told[0].clipped
        with pytest.raises(QueryRejected, match="one guess does not fit"):
            made.ask(eh.risk_difference("died = 1", given="sex = 'F'", **ARMS), guess=0.0)
        with pytest.raises(QueryRejected, match="The range of"):
            made.ask(eh.risk_ratio(eh.mean("died", low=-1, high=1), **ARMS))
    for filled in ((1.0, 0.0), (0.0, 1.0), (0.0, 0.0), (1.0, 1.0)):
        by_arm = [
            np.nan_to_num(rows["died"][rows["arm"] == arm], nan=value) for arm, value in zip("BA", filled, strict=True)
        ]
        treated, control = (float(np.mean(each == 1.0)) for each in by_arm)
        assert told[0].low < treated - control < told[0].high
        assert told[1].low < treated / control < told[1].high
    assert all(answer.low < -0.05 and answer.high > 0.05 for answer in told[2].answers.values())


def test_missing_values_are_bounded_told_declared_and_silent(tmp_path):
    declared = [eh.listed([eh.mean("bp > 141"), eh.mean("bp > 141", given="sex = 'M'")])]
    with seal(tmp_path, {"bp": "bounds", "died": 0}, declared=declared) as made:
        truth = float(np.mean(np.nan_to_num(trial(0)["bp"], nan=0.0) > 140.0))
        answer = made.ask(eh.mean("bp > 140"))
        assert answer.low < truth < truth + SHARE - 0.02 < answer.high
        assert "rows without bp count as the lowest and as the highest (2" in answer.clipped
        assert "missing values at their lowest and highest" in answer.shown
        assert made.ask(eh.mean("bp", **BP)).low < 130.0 * (1.0 - SHARE) + 60.0 * SHARE
        for query in (eh.mean("bp > 141"), eh.mean("bp > 141", given="sex = 'M'")):
            assert made.ask(query).source == "declared"
        before = made.status()["queries_left"]
        refused = [
            eh.quantile("bp"), eh.mean("died = 1", given="bp > 140"), eh.difference("bp > 150", "bp > 120"),
            eh.choose(["bp > 150", "x > 0.5"]),
        ]  # fmt: skip
        for query in refused:
            with pytest.raises(QueryRejected, match=r"reads 'bp', and missing values there are bounded"):
                made.ask(query)
        with pytest.raises(QueryRejected, match="Leave guess= out"):
            made.ask("bp > 150", guess=0.1)
        with pytest.raises(QueryRejected, match="reads 'bp'"):
            made.ask_many(["bp > 150", "x > 0.5"])
        assert made.status()["queries_left"] == before
        assert made.ask("bp > 155", silent=True).low is None
        rules = dict(made.certificate().to_dict()["rows"]["missing"])
        assert rules["bp"] == "missing values count as the lowest and as the highest"
        made.unseal()
        silent = made.ask("bp > 155", silent=True)
        assert silent.sealed_high - silent.sealed_low > SHARE - 0.03


def test_a_rule_that_is_none_is_refused_and_nothing_is_created(tmp_path):
    for given, said in WRONG.items():
        with pytest.raises(ValueError, match=said):
            seal(tmp_path, given)
    for given, said in (
        ({"pressure": "drop"}, "'pressure', which is no column"),
        ({"bp": "130"}, "missing of 'bp' is '130', and the column holds numbers"),
        ({"sex": 0}, "missing of 'sex' is 0"),
    ):
        with pytest.raises(HoldoutRejected, match=f"{said}"):
            seal(tmp_path, given)
    assert not list(tmp_path.glob("*.db"))


def test_what_sealed_rows_alone_lack_is_told_to_the_steward_and_refused_to_everybody(tmp_path):
    said = "Sealed rows lack values of 'bp', 'died', and training rows do not show it"
    with pytest.warns(ColumnWarning, match=said):
        made = seal(tmp_path, "refuse", training=trial(1, complete=True))
    with made:
        with pytest.raises(QueryRejected, match=r"reads 'bp'\. Sealed rows lack values in this column"):
            made.ask(eh.mean("bp", **BP))
        assert made.ask(eh.mean("bp", given="bp is not null", **BP)).low > 100.0
        assert made.ask(eh.mean("case when bp is null then 130 else bp end", **BP)).low > 100.0
        among = [  # rows that are not known to meet a condition are left out, whatever the mean is of
            made.ask(eh.mean(text, given="bp > 120")) for text in ("sex = 'F'", "case when sex = 'F' then 1 else 0 end")
        ]
        assert among[0].value == among[1].value
        with pytest.raises(QueryRejected, match=r"reads 'bp'\. Sealed rows lack values in this column"):
            made.ask(eh.mean("bp > 130", given="bp > 120 or sex = 'F'"))
        assert made.status()["missing"]["bp"] == "queries that read it are refused"
    with seal(tmp_path, "drop", "u", training=trial(1, complete=True)) as made:  # declared, so nothing is to be told
        assert made.ask(eh.mean("bp", **BP)).low > 100.0


def test_rows_that_arrive_keep_the_rule_and_new_gaps_are_told(tmp_path):
    complete = {"holdout": trial(0, complete=True), "training": trial(1, complete=True)}
    with seal(tmp_path, {"bp": 130}, **complete) as made:
        first = made.ask(eh.mean("bp", **BP))
        with pytest.warns(ColumnWarning, match="Rows that arrive lack values of 'died', and training rows do not"):
            made.append(trial(2))
        again = made.ask(eh.mean("bp", **BP))
        assert again.low < 130.0 < again.high
        assert again.query != first.query
        with pytest.raises(QueryRejected, match="reads 'died'"):
            made.ask("died = 1")
        assert made.ask(eh.mean("died = 1", given="died is not null")).low > 0.1
    with seal(tmp_path, "drop", "u", **complete) as made:
        assert not made.ask("died = 1").clipped
        made.append(trial(3))
        assert "rows without died are left out" in made.ask("died = 1").clipped
    declared = [eh.listed([eh.mean("bp", **BP)])]
    grows = eh.Planning(grows=True)
    with (
        seal(tmp_path, "drop", "v", declared=declared, planning=grows, **complete) as made,
        pytest.raises(HoldoutRejected, match="lack values of 'bp', 'died', which all earlier rows have"),
    ):
        made.append(trial(4))


def test_dropping_keeps_the_promise_where_counting_as_the_least_breaks_it(tmp_path):
    missed = {"drop": 0, 60: 0}
    for game in range(20):
        rows = {"holdout": trial(2 * game + 10), "training": trial(2 * game + 11)}
        for rule in missed:
            with seal(tmp_path, {"bp": rule}, f"g{game}{rule}", **rows) as made:
                answer = made.ask(eh.mean("bp", **BP))
            missed[rule] += not answer.low <= 130.0 <= answer.high
    assert missed == {"drop": 0, 60: 20}
