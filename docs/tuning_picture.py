"""Draws docs/images/tuning.svg: two tuning loops of 200 trials on one holdout each, with and without good guesses.

Run ``python docs/tuning_picture.py``; it needs the extras ``[optuna,sklearn,plots]`` and takes a minute.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

PICTURE = Path(__file__).parent / "images" / "tuning.svg"
TRIALS = 200
FEATURES = [f"x{place}" for place in range(6)]
GUESSES = ("guesses from cross-validation", "guesses from the rows fitted on")


def loop(folder: str, guesses: str) -> list[dict[str, Any]]:
    """The answers of a tuning loop, in order, up to the one at which it stopped."""
    import numpy as np
    import optuna
    import pandas as pd
    from sklearn.model_selection import cross_val_score
    from sklearn.tree import DecisionTreeClassifier

    import everhold as eh
    from everhold_integrations.optuna import SealedObjective

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    rng = np.random.default_rng(3)
    table = pd.DataFrame(rng.normal(size=(4_000, 6)), columns=FEATURES)
    table["y"] = ((table.x0 + table.x1 > 0) ^ (rng.random(4_000) < 0.2)).astype(int)
    training, sealed_rows = table[:2_000], table[2_000:].reset_index(drop=True)

    def objective(trial: optuna.Trial) -> Any:
        depth, leaf = trial.suggest_int("depth", 2, 20), trial.suggest_int("leaf", 1, 60)
        model = DecisionTreeClassifier(max_depth=depth, min_samples_leaf=leaf, random_state=0)
        guess = None
        if guesses == GUESSES[0]:
            guess = cross_val_score(model, training[FEATURES], training.y, cv=3).mean()
        return eh.accuracy(model.fit(training[FEATURES], training.y)), guess

    storage = f"sqlite:///{folder}/{GUESSES.index(guesses)}.db"
    with eh.Holdout.create(storage, "trees", holdout=sealed_rows, training=training, label="y", queries=220) as holdout:
        sealed = SealedObjective(objective, holdout, silent=False)
        study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=0))
        study.optimize(sealed, n_trials=TRIALS, callbacks=[sealed.stop_in_time])
    return [
        {
            "trial": trial.number,
            "told": trial.value,
            "low": trial.user_attrs["everhold_low"],
            "high": trial.user_attrs["everhold_high"],
            "answer": "a surprise" if trial.user_attrs["everhold_charged"] else "a guess confirmed",
            "guesses": guesses,
        }
        for trial in study.get_trials()
        if trial.value is not None
    ]


def draw(rows: list[dict[str, Any]]) -> None:
    """One panel for each loop."""
    import altair as alt
    import pandas as pd

    from everhold.charts import save_chart, styled

    scale = alt.Scale(domain=[0.5, 1.0])
    told = alt.Y("told:Q", title="accuracy", scale=scale)
    ends = alt.Chart().encode(
        x=alt.X("trial:Q", title="trial"), y=alt.Y("low:Q", title="accuracy", scale=scale), y2="high:Q"
    )
    colour = alt.Color(
        "answer:N", scale=alt.Scale(range=["#009e73", "#d55e00"]), legend=alt.Legend(title=None, symbolOpacity=1)
    )
    dots = alt.Chart().encode(x=alt.X("trial:Q", scale=alt.Scale(domain=[0, TRIALS])), y=told, color=colour)
    panel = alt.layer(
        ends.mark_rule(opacity=0.25, clip=True).encode(color=colour),
        dots.mark_point(filled=True, size=14, opacity=1),
        data=pd.DataFrame(rows),
    ).properties(width=300, height=220)
    facets = panel.facet(column=alt.Column("guesses:N", title=None, sort=list(GUESSES)))
    said = "200 trials of a tuning loop with guesses from cross-validation, and how few without"
    save_chart(styled(facets), PICTURE, title=said, caption=said)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        draw([row for guesses in GUESSES for row in loop(folder, guesses)])
