"""Two sets of lecture notes: Adaptive Data Analysis (Lecture 23), and More DP techniques."""

from __future__ import annotations

import math
from statistics import fmean
from typing import Any

import everhold as eh
from everhold.privacy import GaussianCurve, PrivacyCurve, PureCurve
from everhold.queries.metrics.ranking_scores import auc_sensitivity
from everhold_lab.published import jung_pure_radius, jung_radius
from everhold_lab.published.jung2020 import gaussian_sample_failure, laplace_sample_failure
from everhold_lab.published.splitting import hoeffding_radius, hoeffding_splitting
from everhold_lab.releases.sparse_vector import dwork_roth_scale
from everhold_lab.sources import small_worlds as worlds
from everhold_lab.sources.item import ExperimentOf, Item, call
from everhold_lab.theory import classical
from everhold_lab.theory.max_information import p_value_threshold
from everhold_privacy.continual_counting import ContinualCounter
from everhold_privacy.pan_private_density import DensityEstimator
from everhold_privacy.randomised_response import RandomisedResponse

LECTURE_23_TITLE = "Lecture 23, Adaptive Data Analysis"
TECHNIQUES_TITLE = "More DP techniques"

_PLAN: dict[str, Any] = {"rows": 50_000, "queries": 1000}


def jung_of_gaussian_noise(rows: int, *, queries: int, scale: float) -> float:
    """The transfer theorem for Gaussian noise, at 95 %."""
    curve = GaussianCurve(math.sqrt(queries) / (rows * scale))
    return jung_radius(gaussian_sample_failure(scale, answers=queries), curve, confidence=0.95).radius


def jung_of_laplace_noise(rows: int, *, queries: int, scale: float) -> float:
    """The simpler version for Laplace noise, at 95 %."""
    failure = laplace_sample_failure(scale, answers=queries)
    return jung_pure_radius(failure, epsilon=queries / (rows * scale), rows=rows, confidence=0.95).radius


def failure_on_the_rows(radius: float, *, scale: float, answers: int) -> float:
    """Probability that some Gaussian answer is further than the radius from the average of the rows."""
    return gaussian_sample_failure(scale, answers=answers)(radius)


def rows_by_hoeffding(radius: float, *, functions: int, failure: float) -> int:
    """Rows after which all of a family of fixed functions are within the radius."""
    return math.ceil(math.log(2.0 * functions / failure) / (2.0 * radius**2))


def failure_of_a_family(radius: float, *, rows: int, functions: int) -> float:
    """Union bound over a family of fixed functions."""
    return functions * classical.hoeffding_failure(rows, radius=radius)


def utility(real: tuple[float, ...], synthetic: tuple[float, ...]) -> float:
    """BLR's score of a synthetic table: minus the largest error of a query."""
    return -max(abs(a - b) for a, b in zip(real, synthetic, strict=True))


LECTURE_23 = (
    Item("statistical queries", "the empirical average of a predicate", call(fmean, [1, 0, 0, 1, 1])),
    Item("example: mean", "a query of a holdout of 20,000 rows", call(worlds.answer, "mean")),
    Item("example: correlation", "made of five means; a query of a holdout",
         call(worlds.answer, "correlation")),
    Item("example: variance", "made of two means", call(worlds.answer, "variance")),
    Item("example: error, risk", "share of wrong predictions", call(worlds.answer, "error")),
    Item("example: gradient", "one draw for the whole vector; half-width in Euclidean length",
         call(worlds.vector_radius, 50_000, queries=100, dimension=10)),
    Item("extension 1: low-sensitivity queries", "what one row moves the AUC of 400 and 600 rows by",
         call(auc_sensitivity, positives=400, negatives=600)),
    Item("extension 2: minimization queries", "the best of 100 candidates by a private choice; its regret",
         call(worlds.regret_of_a_choice, 20_000, candidates=100, epsilon=0.1)),
    Item("extension 2, continuous parameter", "a median by noisy gradients, and its promised regret: `eh.minimise`",
         call(worlds.median_by_gradients, 20_000, steps=100)),
    Item("interaction, transcript", "queries and answers in order; entries of the session with the examples above",
         call(worlds.answer, "entries")),
    Item("sample accuracy", "failure of 100 noisy answers at 0.07 against the rows",
         call(failure_on_the_rows, 0.07, scale=0.02, answers=100)),
    Item("distributional accuracy", "half-width of Gaussian answers for the population (S1)",
         call(worlds.transferred_radius, 50_000, answers=1000, scale=0.02)),
    Item("non-adaptive queries", "averages of fixed queries: sqrt(log k / n)",
         call(hoeffding_radius, 50_000, queries=1000, confidence=0.95)),
    Item("sample splitting", "fresh rows for each query: sqrt(k / n)",
         call(hoeffding_splitting, 530_000, queries=1000, surprises=10, confidence=0.95, slack=1 / 3, read="radius")),
    Item("Gaussian mechanism", "$k^{1/4}/\\sqrt n$; half-width of 1,000 answers",
         call(worlds.tuned_radius, eh.GaussianMechanism, **_PLAN)),
    Item("adding noise reduces error", "error of plain averages under attack, and what a sealed holdout promises",
         call(worlds.mean_after_answers, 4_000, rows=4_000)),
    Item("transfer theorem, (eps, delta)", "Jung et al. 2020 for 1,000 Gaussian answers",
         call(jung_of_gaussian_noise, 50_000, queries=1000, scale=0.02)),
    Item("transfer theorem, (eps, 0)", "the simpler version for 20 Laplace answers",
         call(jung_of_laplace_noise, 50_000, queries=20, scale=0.005)),
    Item("lemma, Bayesian resampling", "rows drawn from the posterior have the law of the rows; largest difference",
         call(worlds.resampling_gap, 3, epsilon=0.7)),
    Item("f(Q) and f(P)", "the posterior mean over the population's, at most e^eps = 2.014 for pure privacy",
         call(worlds.posterior_ratio, 3, epsilon=0.7)),
    Item("putting together, Azuma", "the sampling term at eta = 0.05; the slide has ln(eta) for ln(1/eta)",
         call(classical.azuma_failure, 10_000, size=1e-4, excess=math.sqrt(2 * math.log(20) / 10_000))),
    Item("example: accuracy, reusable holdout", "Thresholdout on 10,000 attributes", ExperimentOf("dwork2015")),
    Item("Algorithm 2, SparseVector", "place of the first value above the threshold",
         call(worlds.first_above, (0, 10, 900, 0), threshold=500, epsilon=1.0)),
)  # fmt: skip

TECHNIQUES = (
    Item("1, composition", "pure losses add up", call(PrivacyCurve.epsilon, call(PureCurve, 0.1, 20), 0.0)),
    Item("1, advanced composition", "exactly, at delta = 1e-6",
         call(PrivacyCurve.epsilon, call(PureCurve, 0.1, 20), 1e-6)),
    Item("2, sparse vector, Example 1", "salaries above a threshold; verdicts, 2 after the halt",
         call(worlds.sparse_answers, (0, 900, 0, 950, 0), tops=2, threshold=500, epsilon=1.0)),
    Item("2, sparse vector, Example 2", "the first of some models with more errors than allowed; its place",
         call(worlds.first_above, (120, 95, 480, 110), threshold=300, epsilon=1.0)),
    Item("2, algorithm Sparse, delta = 0", "its noise scale", call(dwork_roth_scale, 0.5, tops=10)),
    Item("2, algorithm Sparse, delta > 0", "its noise scale with the missing root (erratum 6)",
         call(dwork_roth_scale, 0.5, tops=1000, delta=1e-6)),
    Item("3, BLR, utility", "minus the largest error of a synthetic table",
         call(utility, (0.5, 0.3, 0.2), (0.5, 0.25, 0.25))),
    Item("3, lemma, sample complexity", "rows of a small table that answers 1,000 queries within 0.1",
         call(classical.small_database_rows, 1000, accuracy=0.1)),
    Item("3, BLR mechanism", "error of the synthetic table on the rows",
         call(classical.blr_error, 1_000_000, queries=1000, universe=1024, accuracy=0.1, epsilon=0.1, confidence=0.95)),
    Item("3, exponential mechanism", "how far below the best the chosen score is",
         call(classical.exponential_utility, 1000, sensitivity=1e-4, epsilon=0.1, confidence=0.95)),
    Item("4, generalization", "estimate of h(P) by a sample; rows for 0.01 at 95 %",
         call(rows_by_hoeffding, 0.01, functions=1, failure=0.05)),
    Item("4, theorem: Hoeffding bound", "failure of one fixed query at 0.02",
         call(classical.hoeffding_failure, 10_000, radius=0.02)),
    Item("4, a family of functions", "rows for 1,000 functions at once",
         call(rows_by_hoeffding, 0.01, functions=1000, failure=0.05)),
    Item("4, union bound", "failure of 1,000 functions at 0.03",
         call(failure_of_a_family, 0.03, rows=10_000, functions=1000)),
    Item("4, h chosen on the sample", "h(S) and h(P) of the sample's indicator",
         call(worlds.chosen_on_the_sample, 1000)),
    Item("4, theorem: on average", "bias of a privately chosen query, exactly; the theorem allows e^0.5 - 1 = 0.649",
         call(worlds.selected_bias, 3, epsilon=0.5)),
    Item("4, theorem, 2 eps + delta", "the bound itself (P8)", call(classical.mcsherry_bias, 0.1, delta=1e-6)),
    Item("4, theorem of Dwork et al. 2015 (STOC)",
         "$\\delta^\\varepsilon$ without its conditions is false: failure of one fair coin and a fixed query at 0.1",
         call(worlds.failure_of_one_coin, epsilon=0.1)),
    Item("4, theorem of Bassily et al. 2016", "stated without constants; S1 is for the same purpose",
         call(worlds.transferred_radius, 50_000, answers=100, scale=0.01)),
    Item("4, adaptive querying", "post-processing and composition: one promise for 1,000 answers",
         call(worlds.tuned_radius, eh.Thresholdout, **_PLAN, surprises=10)),
    Item("summary: subsampling", "answers that show few random rows; half-width",
         call(worlds.tuned_radius, eh.Subsampling, rows=2_000, queries=50)),
    Item("summary: hypothesis testing", "the p-value that keeps a level of 5 % after a session",
         call(p_value_threshold, 0.05, bits=10.0)),
    Item("other directions: pan privacy", "a density of which the whole state may be seized once; its loss in all",
         call(PrivacyCurve.epsilon, call(DensityEstimator, 10_000, 0.5, read="curve"), 0.0)),
    Item("other directions: local privacy", "everybody perturbs one of four classes; half-width for 5,000 people",
         call(RandomisedResponse.radius, call(RandomisedResponse, 4, 1.0), 5_000)),
    Item("other directions: continual observation", "a count after each of 1,000 arrivals; the error that none exceeds",
         call(ContinualCounter.radius, call(ContinualCounter, 1_000, 1.0))),
)  # fmt: skip
