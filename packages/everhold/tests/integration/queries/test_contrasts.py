"""Risk differences and risk ratios: two arms, one answer, whatever the arms' intervals leave possible."""

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sealed_copies import copy_of

import everhold as eh
from everhold.certificate import verify_certificate
from everhold.queries.means.contrast import ContrastQuery
from everhold.queries.means.mean import MeanQuery
from everhold.queries.means.plans import Estimate

ROWS = 6_000
ARMS = {"arm": "arm", "treated": "B", "control": "A"}


def trial(seed, rows=ROWS):
    rng = np.random.default_rng(seed)
    arm, sex = rng.choice(["A", "B"], rows), rng.choice(["f", "m", "it's"], rows)
    died = (rng.random(rows) < np.where(arm == "B", 0.3, 0.2)).astype(int)
    pressure = rng.normal(np.where(arm == "B", 120.0, 130.0), 10.0)
    return {"arm": arm.astype(object), "sex": sex.astype(object), "dose": (arm == "B") * 2, "died": died,
            "pressure": pressure}  # fmt: skip


SEALED, TRAINED = trial(1), trial(2)


def sealed(folder, mechanism, surprises=None):
    return eh.Holdout.create(
        folder / "t.db", "t", holdout=SEALED, training=TRAINED, queries=60, mechanism=mechanism, surprises=surprises,
        planning=eh.Planning(allow_vacuous=surprises is None),
    )  # fmt: skip


@pytest.fixture(params=["guess_and_check", "gaussian", "privacy_budget"])
def holdout(request, tmp_path):
    with copy_of(tmp_path, sealed, request.param, storage="t.db", name="t") as made:
        yield made


@pytest.fixture
def checked(tmp_path):
    """With room for six surprises at once, whatever each of them tells: three groups of two arms have six parts."""
    with copy_of(tmp_path, sealed, "guess_and_check", 12, storage="t.db", name="t") as made:
        yield made


def share(rows, arm, what="died"):
    return float(np.mean(rows[what][rows["arm"] == arm]))


def test_a_contrast_from_creation_to_a_verified_certificate(holdout, tmp_path):
    query = eh.risk_difference("died = 1", **ARMS)
    price = holdout.quote(query)
    answer = holdout.ask(query)
    assert answer.low <= 0.1 <= answer.high
    assert answer.low <= share(SEALED, "B") - share(SEALED, "A") <= answer.high
    checks = holdout.mechanism.traits.needs_guess
    assert len(holdout.transcript()) == (1 if checks else 4)
    if checks:
        assert answer.value == pytest.approx(share(TRAINED, "B") - share(TRAINED, "A"), abs=1e-6)
        farthest = max(answer.value - answer.low, answer.high - answer.value)
        assert price.radius == pytest.approx(farthest, rel=1e-6)
        assert (price.charged_if_confirmed, price.charged_at_most) == (0, 1)
    ratio = holdout.ask(eh.risk_ratio("died = 1", **ARMS))
    assert ratio.repeated is not checks
    assert ratio.charged == 0
    assert ratio.low <= 1.5 <= ratio.high
    assert "follows from the intervals of both arms" in ratio.explain()
    assert ("betting on the difference of two arms" in answer.explain()) is checks
    holdout.certificate().save(tmp_path / "c.json")
    assert verify_certificate(tmp_path / "c.json")


def test_the_other_way_round_is_its_negative_and_free(checked):
    one = checked.ask(eh.risk_difference("died = 1", **ARMS))
    other = checked.ask(eh.risk_difference("died = 1", arm="arm", treated="A", control="B"))
    assert other.repeated
    assert (other.low, other.value, other.high) == pytest.approx((-one.high, -one.value, -one.low))


@pytest.mark.parametrize("arms", ["BA", "AB"])
def test_a_certificate_shows_points_of_a_rate_and_a_difference_of_a_number(checked, arms):
    rate = eh.risk_difference("died = 1", arm="arm", treated=arms[0], control=arms[1])
    number = eh.risk_difference(eh.mean("pressure", low=60, high=200), **ARMS)
    asked = [checked.ask(query) for query in (rate, number)]
    facts = checked.certificate([rate, number]).to_dict()["summary"]["answers"]
    assert [fact["measure"] for fact in facts] == ["points", "difference"]
    assert [fact["value"] for fact in facts] == [answer.value for answer in asked]


def test_numbers_of_both_arms_and_arms_that_are_numbers(checked):
    pressure = checked.ask(eh.risk_difference(eh.mean("pressure", low=60, high=200), **ARMS))
    assert pressure.low <= -10.0 <= pressure.high
    assert pressure.value == pytest.approx(share(TRAINED, "B", "pressure") - share(TRAINED, "A", "pressure"), abs=0.1)
    assert pressure.low >= -140.0
    assert pressure.high <= 140.0
    by_dose = checked.ask(eh.risk_difference("died = 1", arm="dose", treated="2", control=0))
    assert by_dose.value == pytest.approx(share(TRAINED, "B") - share(TRAINED, "A"), abs=1e-6)
    with pytest.raises(eh.QueryRejected, match="goes below 0, and a ratio"):
        checked.ask(eh.risk_ratio(eh.mean("pressure", low=-60, high=200), **ARMS))


def test_groups_are_those_of_the_training_rows_or_those_that_are_named(checked):
    found = checked.ask(eh.risk_difference("died = 1", **ARMS, by="sex"))
    assert list(found.answers) == ["f", "it's", "m"]
    for sex, answer in found.answers.items():
        rows = {name: column[TRAINED["sex"] == sex] for name, column in TRAINED.items()}
        assert answer.value == pytest.approx(share(rows, "B") - share(rows, "A"), abs=1e-6)
        assert answer.low <= 0.1 <= answer.high
    again = checked.ask(eh.risk_difference("died = 1", **ARMS, by="sex", groups=["m"]))
    assert again["m"].repeated
    assert again.to_dict()["groups"][0]["group"] == "m"
    alone = checked.ask(eh.risk_difference("died = 1", **ARMS, given="sex = 'm'"))
    assert alone.repeated
    assert alone.value == again["m"].value


def test_groups_may_be_times(tmp_path):
    def dated(rows):
        days = np.array(["2024-01-01", "2024-02-01T06:30"], dtype="datetime64[us]")
        return {**rows, "day": days[np.arange(ROWS) % 2]}

    with eh.Holdout.create(
        tmp_path / "d.db", "d", holdout=dated(SEALED), training=dated(TRAINED), queries=60,
        planning=eh.Planning(allow_vacuous=True),
    ) as made:  # fmt: skip
        found = made.ask(eh.risk_difference("died = 1", **ARMS, by="day"))
    assert list(found.answers) == ["2024-01-01 00:00:00", "2024-02-01 06:30:00"]


def test_what_nothing_bounds_has_no_upper_end(checked):
    answer = checked.ask(eh.risk_ratio("died = 1 and pressure > 165", **ARMS))
    assert math.isinf(answer.high)
    assert answer.to_dict()["high"] is None
    json.dumps(answer.to_dict(), allow_nan=False)
    assert checked.quote(eh.risk_ratio("died = 0 and pressure > 166", **ARMS)).radius is None


def test_all_groups_are_answered_or_none(tmp_path):
    with eh.Holdout.create(
        tmp_path / "s.db", "s", holdout=SEALED, training=TRAINED, queries=5, mechanism="guess_and_check"
    ) as small:
        small.allot("a", queries=2)
        analyst = small.analyst("a")
        refused = analyst.ask(eh.risk_difference("died = 1", **ARMS, by="sex"))
        assert refused.refused
        assert len(small.transcript()) == 0
        assert not analyst.ask(eh.risk_difference("died = 1", **ARMS)).refused


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"arm": "arms"}, "no column 'arms'"),
        ({"treated": "A"}, "are both"),
        ({"treated": 3}, "no value of the column 'arm'"),
        ({"given": "died) or (1 = 1"}, "not an expression"),
        ({"by": "pressure"}, "column 'pressure' has [0-9]+ groups"),
        ({"by": "centre"}, "no column|column 'centre' has"),
        ({"by": "sex", "groups": ["m", "m"]}, "column 'sex' has 2 groups"),
        ({"by": "sex", "groups": "m"}, "Pass a list"),
        ({"groups": ["m"]}, "without by"),
    ],
)
def test_what_cannot_be_meant_is_refused_free_of_charge(checked, wrong, message):
    with pytest.raises(eh.QueryRejected, match=message) as caught:
        checked.ask(eh.risk_difference("died = 1", **{**ARMS, **wrong}))
    assert "othing was charged" in caught.value.told
    assert len(checked.transcript()) == 0


def test_a_guess_of_a_difference_is_one_of_the_whole_and_of_a_ratio_one_of_each_arm(checked):
    guessed = checked.ask(eh.risk_difference("died = 1", **ARMS), guess=0.1)
    assert guessed.source == "guess"
    assert guessed.value == pytest.approx(0.1, abs=1e-6)
    query = eh.risk_ratio("died = 1", **ARMS)
    with pytest.raises(eh.QueryRejected, match="one guess does not fit"):
        checked.ask(query, guess=1.5)
    for part, guess in zip(query.parts(checked.schema), (0.3, 0.2), strict=True):
        checked.ask(part, guess=guess)
    answer = checked.ask(query)
    assert answer.repeated
    assert answer.value == pytest.approx(1.5, abs=0.2)
    with pytest.raises(eh.QueryRejected, match="takes no guess"):
        checked.ask(eh.risk_difference("died = 1", **ARMS, by="sex"), guess=0.1)
    with pytest.raises(eh.QueryRejected, match=r"by is \['sex'\]. Pass the name of one column"):
        eh.risk_difference("died = 1", **ARMS, by=["sex"])


def test_declared_subgroups_by_arm_do_not_widen_a_contrast_that_is_asked_silently(tmp_path):
    query, widths = eh.risk_difference("died = 1", **ARMS), []
    families = {"by arm": eh.subgroups(["arm", "sex"], of="died = 1"), "contrast": eh.listed([query])}
    for names, silent in (((), True), (("by arm",), True), (("by arm",), False), (("by arm", "contrast"), False)):
        declared = {name: families[name] for name in names} or None
        with eh.Holdout.create(tmp_path / f"{len(widths)}.db", "t", holdout=SEALED, training=TRAINED, queries=60,
                               declared=declared) as holdout:  # fmt: skip
            assert holdout.ask(query, silent=silent).charged == 0
            holdout.unseal()
            answer = holdout.ask(query, silent=silent)
            assert answer.sealed_low < share(SEALED, "B") - share(SEALED, "A") < answer.sealed_high
            widths.append(answer.sealed_high - answer.sealed_low)
    alone, silently, free, beside = widths
    assert beside < alone < silently < 1.06 * alone < free


def test_an_arm_without_training_rows_is_asked_for_alone(tmp_path):
    trained = {name: column[TRAINED["arm"] == "A"] for name, column in TRAINED.items()}
    with eh.Holdout.create(
        tmp_path / "n.db", "n", holdout=SEALED, training=trained, queries=60, mechanism="guess_and_check"
    ) as made:
        with pytest.raises(eh.QueryRejected, match="No training row has 'B' in the column 'arm'"):
            made.ask(eh.risk_difference("died = 1", **ARMS))
        treated, _ = eh.risk_difference("died = 1", **ARMS).parts(made.schema)
        made.ask(treated, guess=0.3)
        answer = made.ask(eh.risk_difference("died = 1", **ARMS))
        assert answer.low <= 0.1 <= answer.high
        assert len(made.transcript()) == 2


def test_zero_and_minus_zero_are_one_arm(tmp_path):
    with (
        eh.Holdout.create(
            tmp_path / "z.db", "z", holdout=SEALED, training=TRAINED, queries=60, mechanism="guess_and_check"
        ) as made,
        pytest.raises(eh.QueryRejected, match="are both"),
    ):
        made.ask(eh.risk_difference("died = 1", arm="dose", treated=-0.0, control=0))


ENDS = st.floats(0.0, 1.0)


@pytest.mark.parametrize("how", ["difference", "ratio"])
@given(ends=st.tuples(ENDS, ENDS, ENDS, ENDS), inside=st.tuples(ENDS, ENDS))
def test_the_interval_has_every_value_that_both_arms_leave_possible(how, ends, inside):
    intervals = [sorted(ends[:2]), sorted(ends[2:])]
    points = [low + share * (high - low) for (low, high), share in zip(intervals, inside, strict=True)]
    arms = [Estimate(point, low, high) for point, (low, high) in zip(points, intervals, strict=True)]
    found = ContrastQuery(how, MeanQuery("x"), "arm", 1, 0)._of(*arms, (0.0, 1.0))
    assert found.low <= found.value <= found.high
    for treated, control in itertools.product([*intervals[0], points[0]], [*intervals[1], points[1]]):
        if how == "difference":
            assert found.low <= treated - control <= found.high
        elif control > 0.0:
            assert found.low <= treated / control <= found.high


def test_interval_ends_without_their_protection_would_miss():
    """The same arms taken by their values alone contain less than what is possible."""
    arms = [Estimate(0.3, 0.2, 0.4), Estimate(0.2, 0.1, 0.3)]
    naive = [Estimate(arm.value, arm.value, arm.value) for arm in arms]
    made = ContrastQuery("difference", MeanQuery("x"), "arm", 1, 0)
    assert not made._of(*naive, (0.0, 1.0)).high >= 0.4 - 0.1
    assert made._of(*arms, (0.0, 1.0)).high >= 0.4 - 0.1


def test_arms_may_be_dates(tmp_path):
    def visits(seed):
        rng = np.random.default_rng(seed)
        day = np.datetime64("2024-01-01") + rng.integers(0, 2, ROWS)
        return {"day": day, "late": (rng.random(ROWS) < np.where(day == np.datetime64("2024-01-01"), 0.2, 0.5)) * 1}

    rows, days = visits(3), {"arm": "day", "treated": "2024-01-01", "control": "2024-01-02 00:00:00"}
    with eh.Holdout.create(tmp_path / "d.db", "d", holdout=rows, training=visits(4), queries=20) as holdout:
        holdout.ask(eh.risk_difference("late = 1", **days))
        with pytest.raises(eh.QueryRejected, match="such as 2024-01-31, as a text"):
            holdout.ask(eh.risk_difference("late = 1", **{**days, "treated": 7}))
        with pytest.raises(eh.QueryRejected, match="is no date or time"):
            holdout.ask(eh.risk_difference("late = 1", **{**days, "treated": "May"}))
        holdout.unseal()
        first = rows["day"] == np.datetime64("2024-01-01")
        truth = rows["late"][first].mean() - rows["late"][~first].mean()
        assert holdout.ask(eh.risk_difference("late = 1", **days)).sealed == pytest.approx(truth)
