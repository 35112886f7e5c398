"""Columns of yes and no in CSV files are booleans: as conditions, as labels, and in files of predictions."""

import numpy as np
import pytest

import everhold as eh
from everhold.errors import HoldoutRejected, QueryRejected
from everhold.queries.predictions.files import read_predictions

ROWS = 400
TRUE = np.arange(ROWS) % 4 > 0


def written(path, *words, seed=0):
    """A CSV file with a column of each two words, of which the first stands for true."""
    chance = np.random.default_rng(seed).normal(size=ROWS)
    lines = (f"{x}," + ",".join(pair[not true] for pair in words) for x, true in zip(chance, TRUE, strict=True))
    path.write_text("x," + ",".join(f"flag{k}" for k in range(len(words))) + "\n" + "\n".join(lines) + "\n")
    return str(path)


def sealed(folder, words, of_training=None):
    files = {
        "holdout": written(folder / "holdout.csv", *words),
        "training": written(folder / "training.csv", *(of_training or words), seed=1),
    }
    plan = eh.GuessAndCheck(
        rows=ROWS, queries=20, surprises=2, tolerance=0.3, grid=20, training_rows=ROWS, endless=True
    )
    return eh.Holdout.create(f"sqlite:///{folder}/h.db", "h", mechanism=plan, label="flag0", **files)


def test_words_are_conditions_and_labels(tmp_path):
    with sealed(tmp_path, [("yes", "no"), ("true", "FALSE"), ("t", "f")]) as holdout:
        for k in range(3):
            assert holdout.ask(f"flag{k}").value == holdout.ask(f"flag{k} = true").value == 0.75
        assert holdout.ask("not flag1").value == 0.25
        (tmp_path / "p.csv").write_text("prediction\n" + "Yes\n" * ROWS)
        table = read_predictions(tmp_path / "p.csv", holdout.schema, column=None)
        told = holdout.ask(eh.accuracy(table), guess=0.75)
        assert (told.value, told.source) == (0.75, "guess")
        with pytest.raises(QueryRejected, match="the labels are 0 and 1"):
            holdout.ask(eh.accuracy(np.full(ROWS, "yes")), guess=0.75)


@pytest.mark.parametrize(
    ("words", "of_training", "kinds"),
    [(("yes", "no"), ("Y", "N"), "boolean and string"), (("1", "0"), ("yes", "no"), "number and boolean")],
)
def test_files_whose_words_are_of_other_kinds_are_told_apart(tmp_path, words, of_training, kinds):
    with pytest.raises(HoldoutRejected, match=rf"types differ for 'flag0' \({kinds}\)"):
        sealed(tmp_path, [words], [of_training])
