"""The table of what is promised of each metric is that of the docs, and each of its cells is what a holdout says."""

from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from score_samples import RANGE, SEALED, TRAINED, amount, chances, classes, three

import everhold as eh
from everhold import QueryRejected
from everhold.queries.metrics.registry import METRICS

DOCS = Path(__file__).parents[5] / "docs" / "guides" / "metrics.md"
COLUMNS = {"binary": "y", "string": "kind", "number": "amount"}
SAYS = {"binary": classes, "string": three, "number": amount}


class Model:
    """What it says follows from the score alone."""

    feature_names_in_ = np.array(["x"])

    def __init__(self, kind, shift):
        self.kind, self.shift = kind, shift
        if kind != "number":
            self.classes_ = np.array([0, 1] if kind == "binary" else ["a", "b", "c"])

    def moved(self, rows):
        return {"x": np.asarray(rows["x"]) + self.shift}

    def predict(self, rows):
        return SAYS[self.kind](self.moved(rows))

    def predict_proba(self, rows):
        first = 0.9 * chances(self.moved(rows))
        columns = [1.0 - first, first] if self.kind == "binary" else [first, 1.0 - first, 0.0 * first]
        return np.column_stack(columns)


def create(folder, kind, rows):
    columns = ["x", COLUMNS[kind], *(["unit"] if rows == "groups" else [])]
    sealed, training = ({name: part[name] for name in columns} for part in (SEALED, TRAINED))
    if rows == "groups":
        training["unit"] = training["unit"] + len(sealed["unit"])
    return eh.Holdout.create(
        f"sqlite:///{folder}/s.db", "s", holdout=sealed, training=training, label=COLUMNS[kind], queries=50,
        mechanism="guess_and_check", dependence=eh.Groups("unit") if rows == "groups" else eh.Independent(),
        rows=eh.Rows(classes=["a", "b", "c"]) if kind == "string" else eh.Rows(),
    )  # fmt: skip


def taken(act, *given, **named):
    try:
        act(*given, **named)
    except QueryRejected:
        return False
    return True


def quote(holdout, metric, models, **how):
    queries = [eh.metric(metric, model, **how) for model in models]
    return holdout.quote(queries[0] if len(queries) == 1 else eh.difference(*queries))


def promise(metric, models=1, where=False, gate=False):
    """Return the kind of rows for which the registry promises an interval."""
    if gate:
        return metric.gain
    if where and models > metric.slices:
        return "none"
    return metric.one if models == 1 else metric.two


def expected(metric, kind, rows, **cell):
    """What the table says of labels that the metric takes, and whose classes are known."""
    if kind not in metric.labels or (kind == "number" and metric.outputs in ("classes", "probabilities")):
        return False
    if metric.outcomes and metric.two == "independent" and cell.get("models") == 2 and kind != "binary":
        return False
    promised = promise(metric, **cell)
    return promised == "any" or (promised == "independent" and rows == "independent")


_CELLS = {"any": "groups", "independent": "independent", "none": "no"}


def promises_table():
    """Return the table of docs/guides/metrics.md: for each metric, the rows for which it has intervals."""
    lines = [
        "| metric | predictions | one model | some rows | two models | gate | every mechanism |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *(
            f"| `{metric.name}` | {metric.outputs} | "
            + " | ".join([
                _CELLS[promise(metric)], _CELLS[promise(metric, where=True)],
                _CELLS[promise(metric, models=2)],
                _CELLS[promise(metric, gate=True)], "yes" if metric.mean or metric.rate else "no",
            ]) + " |"
            for metric in METRICS.own.values()
        ),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def test_the_docs_have_the_table_of_the_registry():
    assert promises_table() in DOCS.read_text()


@pytest.mark.filterwarnings("ignore::everhold.errors.EverholdWarning")
@pytest.mark.parametrize("rows", ["independent", "groups"])
@pytest.mark.parametrize("kind", COLUMNS)
def test_each_cell_is_what_a_holdout_says(tmp_path, kind, rows):
    both = [Model(kind, 0.0), Model(kind, 0.3)]
    with create(tmp_path, kind, rows) as holdout:
        for name, metric in METRICS.own.items():
            ranged = RANGE if kind == "number" and "low" in metric.settings else {}
            ranged = {**ranged, "floor": 1.0} if "floor" in metric.settings else ranged
            for models, where in product((1, 2), (False, True)):
                how = {**ranged, **({"where": "x > 0"} if where else {})}
                said = taken(quote, holdout, name, both[:models], **how)
                assert said is expected(metric, kind, rows, models=models, where=where), (name, models, where)
            said = taken(
                holdout.gate,
                partial(eh.metric, name, **ranged) if "floor" in ranged else name,
                champion=both[0],
                name=name,
            )
            assert said is expected(metric, kind, rows, gate=True), (name, "gate")
