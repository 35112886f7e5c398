"""Predictions of classes that the label does not have are refused, from public facts, and nothing is charged."""

import numpy as np
import pytest
from contest_samples import address

import everhold as eh
from everhold.asking.creation import settings_from
from everhold.sealing.rows.table import StoredRows

ROWS = 1_000
RNG = np.random.default_rng(8)
CATS = RNG.choice(np.array(["cat", "dog"]), ROWS)
DIGITS = RNG.integers(1, 4, ROWS)


def create(folder, labels, *, training=None, **wanted):
    def table(values, first):
        return {"id": np.arange(len(values)) + first, "x": RNG.normal(size=len(values)), "y": values}

    wanted = {"mechanism": "guess_and_check", "queries": 20, "features": "public", **wanted}
    if "feedback" in wanted:
        del wanted["mechanism"], wanted["queries"]
    return eh.Holdout.create(
        address(folder, "classes"),
        "classes",
        holdout=table(labels, 0),
        label="y",
        training=None if training is None else table(training, 10_000),
        **settings_from({**wanted, "row_id": "id", "equal_rows": True}),
    )


def by_id(values):
    return {"id": np.arange(ROWS), "prediction": values}


UNKNOWN = {
    "another class": (CATS, np.where(CATS == "cat", "horse", CATS), ["horse"]),
    "a trailing blank": (CATS, np.where(CATS == "cat", "cat ", CATS), ["cat "]),
    "another case": (CATS, np.where(CATS == "cat", "Cat", CATS), ["Cat"]),
    "an empty text": (CATS, np.where(CATS == "cat", "", CATS), [""]),
    "another number": (DIGITS, np.where(DIGITS == 1, 7, DIGITS), [7]),
    "a decimal": (DIGITS, np.where(DIGITS == 1, 1.5, DIGITS), [1.5]),
}
KINDS = {
    "texts for numbers": (DIGITS, DIGITS.astype(str), "and the labels are"),
    "decimals as texts": (DIGITS.astype(str), DIGITS.astype(float).astype(str), "are no labels"),
    "numbers for texts": (DIGITS.astype(str), DIGITS, "and the labels are"),
    "truth values for numbers": (DIGITS, DIGITS == 1, "true or false"),
}


@pytest.mark.parametrize("known", ["declared", "training"])
@pytest.mark.parametrize("what", UNKNOWN)
def test_unknown_classes_are_refused_by_name_and_cost_nothing(tmp_path, monkeypatch, what, known):
    labels, predicted, unknown = UNKNOWN[what]
    wanted = {"classes": sorted({*labels.tolist()})} if known == "declared" else {"training": labels}
    with create(tmp_path, labels, **wanted) as holdout:
        gate = holdout.gate("accuracy", champion=by_id(labels))
        before = holdout.status()
        monkeypatch.setattr(StoredRows, "evaluate", lambda *_, **__: pytest.fail("sealed rows were evaluated"))
        for ask in (
            lambda: holdout.ask(eh.accuracy(by_id(predicted)), guess=0.5),
            lambda: holdout.ask(eh.error(by_id(predicted)), guess=0.5),
            lambda: gate.challenge(by_id(predicted)),
        ):
            with pytest.raises(eh.QueryRejected, match="are no labels") as fault:
                ask()
            assert fault.value.data["unknown"] == unknown
            assert fault.value.data["known"] == sorted({*labels.tolist()})
            assert all(repr(each) in fault.value.message for each in [*unknown, *fault.value.data["known"]])
        if what in ("a trailing blank", "another case"):
            assert "Check case and blanks" in fault.value.message
        assert holdout.status() == before


@pytest.mark.parametrize("what", KINDS)
def test_look_alikes_of_another_kind_are_refused(tmp_path, what):
    labels, predicted, said = KINDS[what]
    with create(tmp_path, labels, classes=sorted({*labels.tolist()})) as holdout:
        with pytest.raises(eh.QueryRejected, match=said):
            holdout.ask(eh.accuracy(by_id(predicted)), guess=0.5)
        assert holdout.status()["queries_asked"] == 0


def test_numbers_that_are_equal_are_one_class(tmp_path):
    with create(tmp_path, DIGITS, classes=[1, 2, 3]) as holdout:
        first = holdout.ask(eh.accuracy(by_id(DIGITS)), guess=0.99)
        again = holdout.ask(eh.accuracy(by_id(DIGITS.astype(np.float32))), guess=0.99)
        assert (again.repeated, again.query) == (True, first.query)


@pytest.mark.parametrize("feedback", ["none", "leader", "score"])
def test_a_competition_refuses_unknown_classes_in_every_mode(tmp_path, feedback):
    wanted = {"feedback": feedback, "teams": 3, "submissions": 2, "allow_vacuous": True}
    with create(tmp_path, CATS, classes=["cat", "dog", "lion"], **wanted) as holdout:
        for refused in (holdout.competition.submit, holdout.competition.check):
            with pytest.raises(eh.QueryRejected, match="'horse'"):
                refused(by_id(np.full(ROWS, "horse")), team="owls")
        assert holdout.competition.leaderboard().standings == []
        lions = holdout.competition.check(by_id(np.full(ROWS, "lion")), team="owls")  # declared, and in no sealed row
        assert lions.values == {"lion": ROWS}


def test_texts_need_their_classes_where_no_training_rows_show_them(tmp_path):
    few = np.array(["cat", "dog", "owl", "ant", "bee"] * 4)  # five classes in twenty rows
    for training in (None, few):
        with pytest.raises(eh.HoldoutRejected, match="The classes of the label 'y' are not known"):
            create(tmp_path, CATS, training=training)
    with create(tmp_path, CATS, classes="open") as holdout:
        assert holdout.ask(eh.accuracy(by_id(np.full(ROWS, "horse"))), guess=0.0).value == 0.0


def test_numbers_without_known_classes_have_no_accuracy(tmp_path):
    with create(tmp_path, DIGITS) as holdout:
        asks = (
            lambda: holdout.ask(eh.accuracy(by_id(DIGITS)), guess=0.9), lambda: holdout.ask(eh.error("x"), guess=0.9),
            lambda: holdout.gate("accuracy", champion=by_id(DIGITS)),
        )  # fmt: skip
        for ask in asks:
            with pytest.raises(eh.QueryRejected, match="classes of the label 'y' are not known"):
                ask()
        assert not holdout.ask(eh.risk(by_id(DIGITS), "absolute", high=3), guess=0.01).refused
    (tmp_path / "contest").mkdir()
    with pytest.raises(eh.HoldoutRejected, match="classes of the label 'y' are not known"):
        create(tmp_path / "contest", DIGITS, feedback="none")


@pytest.mark.parametrize(
    ("labels", "classes", "fault"),
    [
        (CATS, ["cat", "lion"], "none of the"),
        (CATS, ["cat", "dog "], "none of the"),
        (CATS, [1, 2], "not of the type"),
        (DIGITS, ["one", "two"], "not of the type"),
        (DIGITS, [1, 2], "none of the"),
        (RNG.integers(0, 2, ROWS), [1, 2], "none of the"),
    ],
)
def test_declared_classes_have_to_hold_every_label(tmp_path, labels, classes, fault):
    with pytest.raises(eh.HoldoutRejected, match=fault) as refused:
        create(tmp_path, labels, classes=classes)
    assert "dog'" not in refused.value.message  # no value of a sealed row


@pytest.mark.parametrize(
    "classes", ["cat", [], ["cat"], ["cat", "cat"], [1, 1.0], [1, None], [True, False], 7, {"a": 1}]
)
def test_classes_that_are_none_are_refused(tmp_path, classes):
    with pytest.raises(ValueError, match="classes is"):
        create(tmp_path, CATS, classes=classes)


def test_declared_numbers_say_no_more_of_the_rows_than_was_declared(tmp_path):
    """Rows that hold only 0 and 1 of three classes are no two-class problem to those who ask."""
    labels = RNG.integers(0, 2, ROWS)
    with create(tmp_path, labels, classes=["0", "1", "2"]) as holdout:  # as a command line spells them
        assert (holdout.schema.label_kind, holdout.schema.label_classes) == ("number", (0.0, 1.0, 2.0))
        assert not holdout.ask(eh.accuracy(by_id(np.full(ROWS, 2))), guess=0.0).refused


def test_a_holdout_of_an_earlier_version_takes_what_it_took(tmp_path):
    """Its ledger says nothing of classes where no training rows showed them."""
    from everhold.queries.predictions.arrays import check_classes
    from everhold.values.base import Schema
    from everhold.values.expressions import ColumnKind

    schema = Schema(rows=2, training_rows=0, columns={"y": ColumnKind.STRING}, label="y", label_kind="string")
    check_classes(np.array(["horse", "cat"]), schema, what="the predictions")


@pytest.mark.parametrize(
    ("rule", "unknown"),
    [
        ("case when x > 0 then 7 else 0 end", "7"),
        ("case when x > 0 then case when x > 1 then 1 else 2 end else 0 end", "2"),
        ("3", "3"),
    ],
)
def test_a_rule_that_spells_an_unknown_class_is_refused(tmp_path, rule, unknown):
    labels = RNG.integers(0, 2, ROWS)
    with create(tmp_path, labels) as holdout:
        with pytest.raises(eh.QueryRejected, match=f"gives {unknown}.*Pass one of 0, 1"):
            holdout.ask(eh.accuracy(rule), guess=0.5)
        assert holdout.status()["queries_asked"] == 0
        assert not holdout.ask(eh.accuracy("case when x > 0 then 1 else 0 end"), guess=0.5).refused
