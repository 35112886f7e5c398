"""Holdouts whose rows are in order of time, with nothing assumed about their dependence."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

import everhold as eh
from everhold.cli.application import app

DAYS, ROWS = 600, 4  # of each side; rows of one day


def days(first: int, seed: int) -> dict[str, np.ndarray]:
    """Days that go on where the last one ended, with rows of one day that are alike."""
    rng = np.random.default_rng(seed)
    level = np.zeros(DAYS)
    for day in range(1, DAYS):
        level[day] = 0.7 * level[day - 1] + rng.normal()
    x = np.repeat(level, ROWS) + 0.3 * rng.normal(size=DAYS * ROWS)
    return {
        "day": np.repeat(np.arange(first, first + DAYS), ROWS), "x": np.clip(x, -5.0, 5.0),
        "y": (x + rng.normal(size=len(x)) > 0).astype(np.int64),
    }  # fmt: skip


@pytest.fixture(scope="module")
def holdout(tmp_path_factory: pytest.TempPathFactory) -> eh.Holdout:
    folder = tmp_path_factory.mktemp("in_order")
    return eh.Holdout.create(
        f"sqlite:///{folder / 'a.db'}", holdout=days(DAYS, 2), training=days(0, 1), label="y", queries=200,
        dependence=eh.InOrder("day"), declared=[eh.listed(["x > 0"])],
    )  # fmt: skip


def test_means_are_bet_on_by_days_told_declared_and_unsealed(holdout: eh.Holdout) -> None:
    told, declared = holdout.ask("x > 1"), holdout.ask("x > 0")
    assert "in order of time" in told.explain()
    assert declared.source == "declared"
    assert (declared.high - declared.low) / 2.0 < 3.5 * np.sqrt(0.25 / DAYS)  # as for one row a day


def test_a_model_is_not_given_the_day(holdout: eh.Holdout) -> None:
    model = LogisticRegression()
    answer = holdout.evaluate(model, "accuracy")
    assert model.n_features_in_ == 1
    assert answer.high - answer.low < 0.4


@pytest.mark.parametrize("metric", ["roc_auc", "balanced_accuracy", "r2"])
def test_what_does_not_add_up_over_days_is_refused(holdout: eh.Holdout, metric: str) -> None:
    with pytest.raises(eh.QueryRejected, match="depend on each other"):
        holdout.evaluate(LogisticRegression(), metric)


def test_later_days_are_not_appended(holdout: eh.Holdout) -> None:
    with pytest.raises(eh.QueryRejected, match="cannot be appended"):
        holdout.append(days(2 * DAYS, 3))


def test_the_certificate_says_what_answers_are_about(holdout: eh.Holdout) -> None:
    assert "given all that came before each of them (statement S15)" in holdout.certificate().to_html()


@pytest.mark.parametrize(
    ("sealed", "training", "column", "named"),
    [
        (days(0, 1), days(DAYS, 2), "day", "before the first sealed 'day'"),
        (days(DAYS - 1, 1), days(0, 2), "day", "at the same 'day'"),
        (days(DAYS, 1), days(0, 2), "week", "does not exist"),
        ({**days(DAYS, 1), "day": ["a"] * (DAYS * ROWS)}, {**days(0, 2), "day": ["a"] * (DAYS * ROWS)}, "day", "order"),
        ({**days(DAYS, 1), "day": np.r_[np.nan, days(DAYS, 1)["day"][1:]]}, days(0, 2), "day", "missing values"),
    ],
    ids=["training after", "one day on both sides", "no such column", "text", "no time"],
)
def test_rows_out_of_order_are_refused_and_nothing_is_created(
    tmp_path: Path, sealed: Any, training: Any, column: str, named: str
) -> None:
    storage = f"sqlite:///{tmp_path / 'a.db'}"
    with pytest.raises(eh.DependenceError, match=named) as raised:
        eh.Holdout.create(storage, holdout=sealed, training=training, queries=50, dependence=eh.InOrder(column))
    assert raised.value.unchanged == "nothing was created"
    with pytest.raises(eh.HoldoutNotFound):
        eh.Holdout.open(storage)


def test_rows_of_a_table_in_any_order_have_the_same_answers(tmp_path: Path) -> None:
    told = []
    for name, order in (("a", np.arange(DAYS * ROWS)), ("b", np.random.default_rng(0).permutation(DAYS * ROWS))):
        sealed, training = ({key: of[order] for key, of in rows.items()} for rows in (days(DAYS, 2), days(0, 1)))
        with eh.Holdout.create(
            f"sqlite:///{tmp_path / name}.db", holdout=sealed, training=training, queries=50,
            dependence=eh.InOrder("day"), declared=[eh.listed(["x > 0"])],
        ) as holdout:  # fmt: skip
            answers = [holdout.ask("x > 0"), holdout.ask("x > 1"), holdout.ask("x > 2", guess=0.9)]
            told.append([(answer.value, answer.low, answer.high) for answer in answers])
    assert told[0] == told[1]


def test_noise_cannot_hide_rows_of_unknown_dependence(tmp_path: Path) -> None:
    with pytest.raises(eh.DependenceError, match="guess_and_check"):
        eh.Holdout.create(
            f"sqlite:///{tmp_path / 'a.db'}", holdout=days(DAYS, 2), training=days(0, 1), queries=50,
            dependence=eh.InOrder("day"), mechanism="gaussian",
        )  # fmt: skip


def test_the_command_line_declares_it(tmp_path: Path) -> None:
    import pandas as pd

    for name, rows in (("sealed", days(DAYS, 2)), ("training", days(0, 1))):
        pd.DataFrame(rows).to_parquet(tmp_path / f"{name}.parquet")
    ran = CliRunner().invoke(app, [
        "create", f"sqlite:///{tmp_path / 'a.db'}", "a", "--holdout", str(tmp_path / "sealed.parquet"),
        "--training", str(tmp_path / "training.parquet"), "--in-order", "day", "--queries", "50", "--format", "json",
    ])  # fmt: skip
    assert ran.exit_code == 0, ran.output
    assert "in_order" in json.dumps(
        eh.Holdout.open(f"sqlite:///{tmp_path / 'a.db'}", "a").mechanism.dependence.to_dict()
    )
