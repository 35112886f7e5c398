"""Widths of declared answers beside the usual intervals, by field: the numbers of the guides.

    python docs/field_widths.py [DRAWS [STUDY ...]]

The studies are trial, brier, finalists, days, search and threshold. Rows are drawn from known laws. Widths are medians
over draws, and an interval that misses the true value is counted where this value is known.
"""

import sys
import tempfile
import warnings
from itertools import count

import numpy as np
import pandas as pd
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.tree import DecisionTreeClassifier

import everhold as eh
from everhold.sklearn import SealedSearchCV

NUMBERS = count()


def say(text):
    """Print a line."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def half(answer):
    """Half of the length of an interval."""
    return (answer.high - answer.low) / 2


def normal(questions):
    """Half-width of a 95 % normal interval with Bonferroni, in standard errors."""
    return norm.ppf(1 - 0.05 / 2 / questions)


def create(folder, sealed, training, **settings):
    """A new holdout."""
    return eh.Holdout.create(f"{folder}/{next(NUMBERS)}.db", "study", holdout=sealed, training=training, **settings)


def declared(folder, sealed, training, queries, **settings):
    """Answers to queries that are declared when the rows are sealed, or the reason why they are refused."""
    with create(
        folder, sealed, training, queries=100, declared=[eh.listed(queries)], share=0.99, **settings
    ) as holdout:
        return [holdout.ask(query) for query in queries]


def patients(rng, number, alike, first=0):
    """Visits of patients in two arms, with 25 events, an illness, and two scores that foretell it."""
    who = np.repeat(np.arange(number), np.maximum(rng.poisson(3, number), 1))
    active = (rng.permutation(number) % 2 == 1)[who]

    def noise():
        return np.sqrt(alike) * rng.normal(size=number)[who] + np.sqrt(1 - alike) * rng.normal(size=len(who))

    rows = {"patient": who + first, "arm": np.where(active, "active", "placebo")}
    rows["ill"] = (noise() < norm.ppf(0.3)).astype(int)
    rows["score"] = 1.2 * rows["ill"] + noise()
    rows["coarse"] = rows["score"] + 0.6 * rng.normal(size=len(who))
    for place in range(25):
        rows[f"event{place}"] = (noise() < norm.ppf((0.25 if place % 2 else 0.4) - 0.08 * active)).astype(int)
    return rows


def by_patient(values, who):
    """Standard error of the mean of values, robust to patients with several rows."""
    sums = np.bincount(np.unique(who, return_inverse=True)[1], values - np.mean(values))
    return np.sqrt(len(sums) / (len(sums) - 1) * np.sum(sums**2)) / len(values)


def trial(draws, folder):
    """25 declared risk differences, 1,500 patients: widths over cluster-robust with Bonferroni for 25."""
    queries = [
        eh.risk_difference(f"event{place} = 1", arm="arm", treated="active", control="placebo") for place in range(25)
    ]
    for alike in (0.05, 0.4):
        for pilot in (1_500, 300, 0):
            ratios, registered, missed = [], 0, 0
            for draw in range(draws):
                rng = np.random.default_rng(draw)
                rows = patients(rng, 1_500, alike)
                training = patients(rng, pilot, alike, first=10_000) if pilot else None
                answers = declared(folder, rows, training, queries, dependence=eh.Groups("patient"))
                active = rows["arm"] == "active"
                for place, answer in enumerate(answers):
                    registered += answer.source == "declared"
                    missed += not answer.low <= -0.08 <= answer.high
                    arms = [by_patient(rows[f"event{place}"][arm], rows["patient"][arm]) for arm in (active, ~active)]
                    ratios.append(half(answer) / (normal(25) * np.hypot(*arms)))
            say(
                f"trial, correlation {alike}, pilot of {pilot}: {np.median(ratios):.2f} times cluster-robust with "
                f"Bonferroni (up to {max(ratios):.2f}); declared {registered} of {25 * draws}, missed {missed}"
            )


def brier(draws, folder):
    """Two of 25 declared queries: an AUC, and the difference of two Brier scores whose range is not told."""
    widths = []
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        rows, training = patients(rng, 1_500, 0.4), patients(rng, 1_500, 0.4, first=10_000)
        training, rows = (
            {name: part[name] for name in ("patient", "score", "coarse", "ill")} for part in (training, rows)
        )
        models = [
            LogisticRegression().fit(pd.DataFrame({name: training[name]}), training["ill"])
            for name in ("score", "coarse")
        ]
        chances, known = (
            [model.predict_proba(pd.DataFrame({name: of[name]}))[:, 1]
             for name, model in zip(("score", "coarse"), models, strict=True)]
            for of in (rows, training)
        )  # fmt: skip
        pairs = zip(chances, known, strict=True)
        arrays = [eh.metric("neg_brier_score", here, training=there) for here, there in pairs]
        queries = [
            eh.metric("roc_auc", models[0]),
            eh.difference(*(eh.metric("neg_brier_score", model) for model in models)),
            eh.difference(*arrays),
            *[eh.mean(f"score > {place / 10}") for place in range(22)],
        ]
        answers = declared(folder, rows, training, queries, label="ill", dependence=eh.Groups("patient"))
        positive, scores = rows["ill"] == 1, chances[0]
        better = np.searchsorted(np.sort(scores[~positive]), scores[positive]) / np.sum(~positive)
        worse = 1 - np.searchsorted(np.sort(scores[positive]), scores[~positive]) / np.sum(positive)
        influence = np.zeros(len(scores))
        influence[positive] = (better - np.mean(better)) / np.mean(positive)
        influence[~positive] = (worse - np.mean(better)) / np.mean(~positive)
        losses = [(chance - rows["ill"]) ** 2 for chance in chances]
        widths.append(
            [half(answers[0]), normal(25) * by_patient(influence, rows["patient"]), half(answers[1]),
             half(answers[2]), normal(25) * by_patient(losses[1] - losses[0], rows["patient"])]
        )  # fmt: skip
    area, robust, models, arrays, paired = np.median(widths, axis=0)
    say(f"AUC, 1,500 patients, one of 25: {area:.3f}, cluster-robust with Bonferroni {robust:.3f}")
    say(
        f"Brier difference, same patients: {models:.4f} of models, {arrays:.4f} of predictions in arrays, "
        f"cluster-robust with Bonferroni {paired:.4f}"
    )


def finalists(draws, folder):
    """Six declared queries on 1,000 rows: accuracy and AUC of three models."""
    widths = []
    for draw in range(draws):
        rng = np.random.default_rng(draw)

        def rows(number, rng=rng):
            table = rng.normal(size=(number, 3))
            chance = 1 / (1 + np.exp(-1.5 * table[:, 0] - table[:, 1]))
            return {**dict(zip("abc", table.T, strict=True)), "y": (rng.random(number) < chance).astype(int)}

        sealed, training = rows(1_000), rows(1_000)
        models = [
            LogisticRegression().fit(np.column_stack([training[name] for name in "abc"]), training["y"]),
            LogisticRegression(C=0.01).fit(np.column_stack([training[name] for name in "abc"]), training["y"]),
            DecisionTreeClassifier(max_depth=3, random_state=0).fit(
                np.column_stack([training[name] for name in "abc"]), training["y"]
            ),
        ]
        queries = [eh.metric(name, model) for name in ("accuracy", "roc_auc") for model in models]
        answers = declared(folder, sealed, training, queries, label="y")
        rates = np.array([answer.value for answer in answers[:3]])
        table = np.column_stack([sealed[name] for name in "abc"])
        scores = np.array([model.predict_proba(table)[:, 1] for model in models])
        draws_of_rows = rng.integers(1_000, size=(400, 1_000))
        areas = [[quick_auc(sealed["y"][taken], score[taken]) for taken in draws_of_rows] for score in scores]
        ours = np.mean(np.reshape([half(answer) for answer in answers], (2, 3)), axis=1)
        errors = np.mean(np.sqrt(rates * (1 - rates) / 1_000)), np.mean(np.std(areas, axis=1))
        widths.append([ours[0], normal(6) * errors[0], ours[1], normal(6) * errors[1]])
    accuracy, bonferroni, area, area_bonferroni = np.median(widths, axis=0)
    say(f"finalists, 1,000 rows, accuracy: {accuracy:.4f}, normal with Bonferroni for six {bonferroni:.4f}")
    say(f"finalists, 1,000 rows, AUC: {area:.4f}, bootstrap with Bonferroni for six {area_bonferroni:.4f}")


def quick_auc(labels, scores):
    """Area under the curve."""
    ups, downs = np.sort(scores[labels == 1]), scores[labels == 0]
    below = (np.searchsorted(ups, downs, "left") + np.searchsorted(ups, downs, "right")) / 2
    return 1 - np.mean(below) / len(ups)


def returns(rng, number):
    """Returns with clustered volatility, a drift and momentum, and their expectations given the past."""
    returned, expected, variance = np.zeros(number), np.zeros(number), 1e-4
    for day in range(1, number):
        expected[day] = 0.0004 + 0.2 * returned[day - 1]
        returned[day] = expected[day] + rng.normal() * variance**0.5
        variance = 2e-6 + 0.08 * returned[day] ** 2 + 0.9 * variance
    return returned, expected


def newey_west(values, questions, lags=8):
    """Half-width by Newey and West, with Bonferroni."""
    rest = values - values.mean()
    weighted = [(1 - lag / (lags + 1)) * rest[lag:] @ rest[:-lag] for lag in range(1, lags + 1)]
    return normal(questions) * np.sqrt(rest @ rest + 2 * sum(weighted)) / len(rest)


def days(draws, folder):
    """The mean return of 1,480 sealed days, declared alone or as one of 25, over Newey-West with Bonferroni."""
    for questions in (1, 25):
        ratios, missed = [], 0
        for draw in range(draws):
            returned, expected = returns(np.random.default_rng(draw), 3_000)
            table = {"day": np.arange(3_000), "returned": returned}
            parts = slice(1_520), slice(1_520, None)
            past, sealed = ({name: of[part] for name, of in table.items()} for part in parts)
            queries = [eh.mean("returned", low=-0.1, high=0.1)]
            queries += [eh.mean(f"returned > {place / 1_000}") for place in range(1, questions)]
            answer = declared(folder, sealed, past, queries, dependence=eh.InOrder("day"))[0]
            ratios.append(half(answer) / newey_west(sealed["returned"], questions))
            missed += not answer.low <= expected[1_520:].mean() <= answer.high
        say(
            f"days, one of {questions} declared: {np.median(ratios):.2f} times Newey-West with Bonferroni; "
            f"missed {missed} of {draws}"
        )


def shop(rng, number):
    """Rows of a shop, and whether a customer returned something."""
    age, bill, visits = rng.integers(18, 90, number), rng.gamma(2.0, 40.0, number).round(2), rng.poisson(3, number)
    chance = 1 / (1 + np.exp((age - 50) / 8 + (bill > 120) - (visits > 3)))
    return {"age": age, "bill": bill, "visits": visits, "returned": (rng.random(number) < chance).astype(int)}


def search(draws, folder):
    """A search of 120 trees, 20,000 sealed rows: surprises, and the half-width of the next answer."""
    space = {"max_depth": range(1, 12), "min_samples_leaf": range(1, 200), "criterion": ["gini", "entropy"]}
    for reveal in ("auto", "checked"):
        found = []
        for draw in range(draws):
            rng = np.random.default_rng(draw)
            with create(folder, shop(rng, 20_000), shop(rng, 20_000), label="returned") as holdout:
                tried = SealedSearchCV(
                    DecisionTreeClassifier(random_state=0), space, holdout=holdout, n_iter=120, cv=3, random_state=draw,
                    **({} if reveal == "auto" else {"reveal": reveal}),
                ).fit(*holdout.training_rows())  # fmt: skip
                spent = 10 - holdout.remaining["surprises"]
                found.append([spent, *(half(holdout.ask(text)) for text in ("age < 54", "age < 82"))])
        spent, middle, edge = np.median(found, axis=0)
        say(
            f"search, reveal {tried.reveal_}: {spent:g} surprises, next answer within {middle:.3f} at 1/2, "
            f"{edge:.3f} at .9"
        )


def threshold(draws, folder):
    """A choice among 50 thresholds for F1, 10,000 sealed rows: told regret and true regret."""
    found, missed = [], 0
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        rows = [shop(rng, number) for number in (10_000, 10_000, 200_000)]
        chances = [1 / (1 + np.exp((part["age"] - 50) / 8)) for part in rows]
        cuts = np.linspace(0.02, 0.98, 50)
        with create(folder, rows[0], rows[1], label="returned", queries=100) as holdout:
            asked = eh.at_thresholds("f1", chances[0], cuts, training=chances[1])
            best = holdout.ask(eh.choose(asked, best="highest"))
        true = [f1_score(rows[2]["returned"], (chances[2] >= cut).astype(int)) for cut in cuts]
        regret = max(true) - true[best.index]
        found.append([half(best), best.regret, regret])
        missed += not best.low <= true[best.index] <= best.high or regret > best.regret
    width, told, true = np.median(found, axis=0)
    say(
        f"threshold for F1 among 50: within {width:.3f}, regret at most {told:.3f}, true regret {true:.4f}; "
        f"missed {missed} of {draws}"
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    wanted = {study.__name__: study for study in (trial, brier, finalists, days, search, threshold)}
    for study in [wanted[name] for name in sys.argv[2:]] or wanted.values():
        with tempfile.TemporaryDirectory() as place:
            study(times, place)
