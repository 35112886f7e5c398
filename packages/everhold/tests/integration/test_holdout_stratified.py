"""After a stratified split training rows tell how often each value is sealed: answers are for these shares."""

import itertools
import json
import math

import numpy as np
import pytest

import everhold as eh
from everhold.answers import FRESH_LABELS, estimand_in_words, with_shares
from everhold.asking.creation import settings_from
from everhold.certificate.verification import verify_certificate
from everhold.sealing.intake.splitting import by_chance, by_class
from everhold.sealing.splits import chance_of_match

CLASSES, ROWS = 800, 40_000
SHARES = with_shares("c")


def divided(split, seed):
    """A table with 800 equally likely classes and a number that is above 0.3 with probability 0.7 in each of them."""
    rng = np.random.default_rng(seed)
    number = rng.integers(0, CLASSES, ROWS)
    parts = split(number, rng)
    table = {"c": np.char.add("c", number.astype(str)).astype(object), "u": rng.random(ROWS)}
    return [{name: column[parts.side == side] for name, column in table.items()} for side in (0, 1)]


def by_classes(number, rng):
    return by_class(number, 0.5, rng)


def by_rows(number, rng):
    return by_chance(len(number), 0.5, rng)


def made(folder, training, sealed, **wanted):
    wanted = {"queries": 20, "surprises": 3, "mechanism": "guess_and_check", **wanted}
    return eh.Holdout.create(folder / "h.db", "h", holdout=sealed, training=training, **settings_from(wanted))


def over_represented(training):
    names, counts = np.unique(training["c"].astype(str), return_counts=True)
    return [str(name) for name in names[counts > len(training["c"]) / CLASSES]]


@pytest.mark.parametrize("seed", range(4))
def test_the_classes_that_training_rows_have_too_often_are_promised_for_these_shares(tmp_path, seed):
    """The attack: such classes are sealed too often as well, so the population's value is missed."""
    training, sealed = divided(by_classes, seed)
    chosen = over_represented(training)
    listed = f"c in ({', '.join(map(repr, chosen))})"
    with made(tmp_path, training, sealed, stratified="c") as holdout:
        answers = [holdout.ask(listed), holdout.ask(f"u > 0.3 and {listed}")]
        holdout.unseal()
        answers += [holdout.ask(listed), holdout.ask(f"u > 0.3 and {listed}")]
    here = float(np.isin(sealed["c"].astype(str), chosen).mean())
    for answer, within in zip(answers, (1.0, 0.7, 1.0, 0.7), strict=True):
        assert answer.about == SHARES
        assert answer.low <= within * here <= answer.high
        assert "promised values" in answer.explain()
        assert estimand_in_words(SHARES) in answer.explain()
        assert "The population may have other shares." in answer.explain()
    assert all(
        answer.sealed_low <= within * here <= answer.sealed_high
        for answer, within in zip(answers[2:], (1, 0.7), strict=True)
    )
    assert not answers[0].low <= len(chosen) / CLASSES <= answers[0].high  # no promise of the population's value


def test_the_same_attack_on_a_split_by_chance_holds_for_the_population(tmp_path):
    training, sealed = divided(by_rows, 0)
    chosen = over_represented(training)
    with made(tmp_path, training, sealed) as holdout:
        answer = holdout.ask(f"c in ({', '.join(map(repr, chosen))})")
    assert answer.about is None
    assert answer.low <= len(chosen) / CLASSES <= answer.high


def test_a_stratified_split_that_was_not_declared_is_warned_of(tmp_path):
    with pytest.warns(eh.DependenceWarning, match="values of 'c' in the same shares.*stratified='c'"):
        made(tmp_path, *divided(by_classes, 0)).close()


def test_a_split_by_chance_or_a_declared_one_is_not(tmp_path, recwarn):
    (tmp_path / "chance").mkdir()
    made(tmp_path / "chance", *divided(by_rows, 0)).close()
    made(tmp_path, *divided(by_classes, 1), stratified="c").close()
    assert not [warning for warning in recwarn if "same shares" in str(warning.message)]


@pytest.mark.parametrize("sizes", [(5, 4), (3, 3, 2), (2, 2, 2, 3)])
@pytest.mark.parametrize("sealed", [2, 4])
def test_the_chance_of_a_match_is_never_below_the_true_one(sizes, sealed):
    rows = sum(sizes)
    expected = np.array(sizes) * sealed / rows
    matching = {}
    for counts in itertools.product(*(range(size + 1) for size in sizes)):
        if sum(counts) == sealed and np.all(np.abs(np.array(counts) - expected) < 1.0):
            matching[counts] = math.prod(map(math.comb, sizes, counts)) / math.comb(rows, sealed)
    assert matching
    for counts in matching:
        claimed = chance_of_match(np.array(sizes) - np.array(counts), np.array(counts))
        assert claimed >= sum(matching.values()) * (1 - 1e-12)


def test_false_alarms_on_splits_by_chance_are_as_rare_as_promised():
    rng, alarms = np.random.default_rng(0), 0
    for classes in (2, 3, 5, 30, 300):
        for _ in range(200):
            number = rng.integers(0, classes, 600)
            side = by_chance(600, 0.3, rng).side
            counted = [np.bincount(number[side == each], minlength=classes) for each in (0, 1)]
            alarms += chance_of_match(*counted) < 1e-4
    assert alarms == 0
    number = rng.integers(0, 30, 6_000)
    side = by_class(number, 0.3, rng).side
    assert chance_of_match(*(np.bincount(number[side == each]) for each in (0, 1))) < 1e-12


REFUSED = {
    "no such column": ({"stratified": "d"}, "There is no column 'd'"),
    "groups": ({"dependence": eh.Groups("g")}, "declared to depend on each other"),
    "one law": ({"mechanism": "sample_splitting"}, "draws each class from its own"),
    "public labels": ({"features": "public", "label": "c", "stratified": "c"}, "the labels tell of each other"),
}


@pytest.mark.filterwarnings("ignore::everhold.EverholdWarning")
@pytest.mark.parametrize("what", REFUSED)
def test_shares_are_declared_only_where_something_is_promised_for_them(tmp_path, what):
    wanted, message = REFUSED[what]
    rng = np.random.default_rng(0)
    both = [
        {"c": rng.choice(["a", "b"], 3_000).astype(object), "x": rng.random(3_000),
         "g": np.arange(3_000) // 2 + 5_000 * side} for side in (0, 1)
    ]  # fmt: skip
    with pytest.raises(eh.HoldoutRejected, match=message):
        made(tmp_path, *both, **{"stratified": "c", "allow_vacuous": True, "surprises": None, **wanted})
    with pytest.raises(eh.HoldoutNotFound):
        eh.Holdout.open(tmp_path / "h.db", "h")


@pytest.mark.parametrize("columns", [["c"], ("c", "u"), np.array(["c"])])
def test_a_split_has_one_column_that_is_named_by_a_text(tmp_path, columns):
    with pytest.raises(ValueError, match=r"The stratified column is .* Pass the name of a column, a text"):
        made(tmp_path, {"c": ["a"]}, {"c": ["b"]}, stratified=columns)


def labelled(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=3_000)
    return {"x": x, "site": rng.choice(["n", "s"], 3_000).astype(object), "y": (x + rng.normal(size=3_000) > 0) * 1}


def test_predictions_by_position_are_for_the_shares_only_where_labels_were_split(tmp_path):
    said = (labelled(2)["x"] > 0) * 1
    abouts = {}
    for column in ("y", "site"):
        (tmp_path / column).mkdir()
        with made(tmp_path / column, labelled(1), labelled(2), label="y", stratified=column) as holdout:
            abouts[column] = holdout.ask(eh.accuracy(said), guess=0.75).about
            assert holdout.ask(eh.accuracy("x > 0")).about == with_shares(column)
            assert holdout.status()["stratified"] == column
    assert abouts == {"y": with_shares("y", by_row=True), "site": FRESH_LABELS}


def test_the_certificate_says_for_which_shares_it_holds_and_verifies(tmp_path):
    with made(tmp_path, labelled(1), labelled(2), label="y", stratified="y") as holdout:
        answer = holdout.ask("x > 0")
        holdout.ask(eh.accuracy((labelled(2)["x"] > 0) * 1), guess=0.75)
        certificate = holdout.certificate({"it": answer})
        document, page = certificate.in_words(), certificate.to_html()
    assert document["rows"]["stratified"] == "y"
    for told in (document["promise"]["sentence"], " ".join(document["summary"]["means"])):
        assert with_shares("y") in told
    assert any("how common the values are" in said for said in document["promise"]["explanation"])
    assert any("the values of 'y' in the same shares" in said for said in document["assumptions"]["always"])
    assert any("How common the values of 'y'" in said for said in document["not_promised"]["items"])
    assert "column that the table was split by" in page
    assert "the population's value of a query is then the one for such rows" in document["theorem"]["says"]
    for ending in ("json", "html"):
        certificate.save(tmp_path / f"c.{ending}")
        assert verify_certificate(tmp_path / f"c.{ending}", public_key=certificate.public_key).ok
    document = certificate.to_dict()
    document["rows"]["stratified"] = "nothing"
    (tmp_path / "altered.json").write_text(json.dumps(document))
    found = verify_certificate(tmp_path / "altered.json").findings
    assert any("split by a column, and with these rows" in one for one in found)
