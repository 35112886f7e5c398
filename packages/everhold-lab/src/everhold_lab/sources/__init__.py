"""Lists of the items of three sources, each with the call that evaluates the item.

The sources are Zhao 2017 and two sets of lecture notes. docs/theory/sources.md is made from these lists, and a test
computes every number again. Names that begin with an underscore are examples of this package.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from statistics import fmean
from types import MappingProxyType
from typing import Any

import numpy as np

import everhold as eh
from everhold.queries.metrics.ranking import auc_sensitivity
from everhold_lab.published import bayesian_privacy as bayes
from everhold_lab.published import (
    classical,
    jung_pure_radius,
    jung_radius,
    rogers_width,
    thresholdout,
    zhao_theorem_2,
    zhao_theorem_2_rows,
)
from everhold_lab.published import post_selection as information
from everhold_lab.published.classical import azuma_failure, ladder_radius
from everhold_lab.published.jung2020 import gaussian_sample_failure, laplace_sample_failure
from everhold_lab.published.post_selection import p_value_threshold, rogers_2016
from everhold_lab.published.splitting import hoeffding_radius, hoeffding_splitting
from everhold_lab.published.thresholdout import (
    dwork_theorem_25_rows,
    thresholdout_zhao2017,
    zhao_theorem_1_rows,
    zhao_theorem_2_calibration,
)
from everhold_lab.releases import GaussianFieldMechanism, MarkovQuiltMechanism
from everhold_lab.sources import small_worlds as worlds
from everhold_privacy.curves import GaussianCurve, PrivacyCurve, PureCurve
from everhold_privacy.mechanisms.selection import ExponentialMechanism
from everhold_privacy.mechanisms.sparse_vector import dwork_roth_scale
from everhold_privacy.networks.factors import Graph
from everhold_privacy.without_curator import ContinualCounter, DensityEstimator, RandomisedResponse


@dataclass(frozen=True)
class Call:
    """A function with its arguments, which can be shown as code and evaluated.

    Attributes:
        read: Attribute of the result that holds the number; None if the result is the number.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    read: str | None = None

    @property
    def shown(self) -> str:
        """The call as Python code."""
        parts = [*map(_shown, self.arguments), *(f"{name}={_shown(value)}" for name, value in self.named.items())]
        name = getattr(self.function, "__qualname__", type(self.function).__name__)
        return f"{name}({', '.join(parts)})" + (f".{self.read}" if self.read else "")

    def value(self) -> Any:
        """Evaluate the call, and return its number."""
        arguments = [value.value() if isinstance(value, Call) else value for value in self.arguments]
        named = {name: value.value() if isinstance(value, Call) else value for name, value in self.named.items()}
        found = self.function(*arguments, **named)
        return found if self.read is None else attrgetter(self.read)(found)


@dataclass(frozen=True)
class ExperimentOf:
    """An experiment of the laboratory that takes minutes; its record is in docs/experiments.

    Attributes:
        name: Name of the experiment in ``everhold lab run NAME``.
    """

    name: str

    @property
    def shown(self) -> str:
        """The command that runs the experiment."""
        return f"everhold lab run {self.name}"


@dataclass(frozen=True)
class Item:
    """An algorithm, statement, definition, figure or example of a source.

    Attributes:
        place: Section, theorem, figure or page of the source.
        says: What the item says, in a few words of our own.
        run: Function that evaluates the item.
    """

    place: str
    says: str
    run: Call | ExperimentOf


def call(function: Callable[..., Any], *arguments: Any, read: str | None = None, **named: Any) -> Call:
    """Build a `Call` of a function. Its arguments may be calls, which are evaluated first."""
    return Call(function, arguments, named, read)


def _shown(value: Any) -> str:
    if isinstance(value, Call):
        return value.shown
    return str(getattr(value, "__qualname__", None) or repr(value))


LECTURE_23_TITLE = "Lecture 23, Adaptive Data Analysis"
TECHNIQUES_TITLE = "More DP techniques"

_PLAN: dict[str, Any] = {"rows": 50_000, "queries": 1000}


def jung_of_gaussian_noise(rows: int, *, queries: int, scale: float) -> float:
    """Return the radius of the transfer theorem for Gaussian noise, at 95 %."""
    curve = GaussianCurve(math.sqrt(queries) / (rows * scale))
    return jung_radius(gaussian_sample_failure(scale, answers=queries), curve, confidence=0.95).radius


def jung_of_laplace_noise(rows: int, *, queries: int, scale: float) -> float:
    """Return the radius of the simpler theorem for Laplace noise, at 95 %."""
    failure = laplace_sample_failure(scale, answers=queries)
    return jung_pure_radius(failure, epsilon=queries / (rows * scale), rows=rows, confidence=0.95).radius


def failure_on_the_rows(radius: float, *, scale: float, answers: int) -> float:
    """Return the probability that a Gaussian answer is farther than the radius from the rows' average."""
    return gaussian_sample_failure(scale, answers=answers)(radius)


def rows_by_hoeffding(radius: float, *, functions: int, failure: float) -> int:
    """Return the rows after which all of a family of fixed functions are within the radius."""
    return math.ceil(math.log(2.0 * functions / failure) / (2.0 * radius**2))


def failure_of_a_family(radius: float, *, rows: int, functions: int) -> float:
    """Return the union bound over a family of fixed functions."""
    return functions * classical.hoeffding_failure(rows, radius=radius)


def utility(real: tuple[float, ...], synthetic: tuple[float, ...]) -> float:
    """Return BLR's score of a synthetic table, minus the largest error of a query."""
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
    Item("sample accuracy", "bound on the failure of 100 noisy answers at 0.07 against the rows",
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


TITLE = "Zhao 2017, Adaptive Statistical Learning with Bayesian Differential Privacy"

_SESSION: dict[str, Any] = {"queries": 1000, "surprises": 10, "confidence": 0.95, "slack": 1 / 3}


def first_chosen(epsilon: float, *losses: int) -> float:
    """Return the probability that the exponential mechanism chooses the first candidate."""
    return float(ExponentialMechanism(epsilon, sensitivity=1).law(np.array(losses))[0])


def neighbours_in_a_chain(row: int, rows: int) -> tuple[int, ...]:
    """Return the Markov blanket of a row of a chain."""
    return Graph(rows, np.array([[place, place + 1] for place in range(rows - 1)])).neighbours(row)


def network_rows() -> float:
    """Return the effective rows of a Bayesian network: a fair parent and two children that copy it at 0.9."""
    copy = [[0.9, 0.1], [0.1, 0.9]]
    network = eh.BayesianNetwork({"a": (2, (), [0.5, 0.5]), "b": (2, ("a",), copy), "c": (2, ("a",), copy)})
    return float(network.concentration(3))


def field_rows() -> float:
    """Return the effective rows of a Markov network of two bits, which are equal with odds of nine to one."""
    network = eh.MarkovNetwork({"a": 2, "b": 2}, [(("a", "b"), [[9.0, 1.0], [1.0, 9.0]])])
    return float(network.concentration(2))


def rows_on_a_chain(radius: float) -> float:
    """Return the rows of Theorem 2 on the chain that stays with probability 0.75, priced by exact quilts."""
    chain = eh.MarkovChain([[0.75, 0.25], [0.25, 0.75]])
    return zhao_theorem_2_rows(
        radius, **_SESSION, price=lambda tolerance: chain.bayesian_price(tolerance / 3.0, 1_000_000)
    ).rows


def price_of_lemma_4(tolerance: float) -> float:
    """Return the price of a tolerance in Theorem 2 on a Markov chain, by Lemma 4."""
    return 1.0 / bayes.chain_privacy_for(tolerance / 3.0, rows=1_000_000, gap=0.4, least=0.3)


ITEMS = (
    Item("(1)", "approximate max-information, exactly, of one bit that is told with odds 3, in bits",
         call(information.exact_max_information, [[0.375, 0.125], [0.125, 0.375]], failure=0.1)),
    Item("after (1)", "bad events are at most $2^k$ times as likely: the p-value that keeps a level of 5 %",
         call(information.p_value_threshold, 0.05, bits=3.0, failure=0.01)),
    Item("2.1, statistical queries", "averages chosen adaptively; half-width of 1,000 answers",
         call(worlds.tuned_radius, eh.GuessAndCheck, rows=50_000, queries=1000, surprises=10)),
    Item("(2)", "differential privacy; delta at half the loss of a purely private answer",
         call(PrivacyCurve.delta, call(PureCurve, 1.0), 0.5)),
    Item("2.2, Laplace mechanism", "noise of scale sensitivity / loss; half-width of 20 answers",
         call(worlds.tuned_radius, eh.LaplaceMechanism, rows=50_000, queries=20)),
    Item("2.2, exponential mechanism", "choice with probability by utility; of the best of three candidates",
         call(first_chosen, 1.0, 0, 2, 2)),
    Item("(3)", "Bayesian privacy loss to one adversary; here the other bit of a pair gives this one away",
         call(bayes.bayesian_leakage, worlds.CORRELATED, call(worlds.told_with_odds, 3), row=1)),
    Item("(4)", "Bayesian differential privacy: the largest loss over all adversaries",
         call(bayes.bayesian_privacy, worlds.CORRELATED, call(worlds.told_with_odds, 3), read="leakage")),
    Item("2.3, equivalence", "for independent rows it is differential privacy: ln 3",
         call(bayes.bayesian_privacy, worlds.INDEPENDENT, call(worlds.told_with_odds, 3), read="leakage")),
    Item("2.4, Gaussian field", "Laplace mechanism of Yang et al. for the sum; its noise scale",
         call(GaussianFieldMechanism, [[1.0, -0.4, 0.0], [-0.4, 1.0, -0.4], [0.0, -0.4, 1.0]], width=1.0, epsilon=1.0,
              read="scale")),
    Item("2.4, Bayesian network", "a joint law by parents; effective rows of three correlated ones",
         call(network_rows)),
    Item("2.4, Markov network", "a joint law by factors; effective rows of two correlated ones", call(field_rows)),
    Item("2.4, moralization", "parents of one child are joined: neighbours of a parent", call(worlds.common_child)),
    Item("2.4, Markov blanket", "the rows next to row 2 of a chain", call(neighbours_in_a_chain, 2, 5)),
    Item("2.4, Markov quilt", "a set that separates a row from remote ones; the noise scale by the best quilts",
         call(MarkovQuiltMechanism, call(eh.MarkovChain, [[0.8, 0.2], [0.3, 0.7]]), 1000, 1.0, read="scale")),
    Item("Figure 1", "the quilt {i-2, i+3} in a chain of 12: numbers of nearby, quilt and remote rows",
         call(worlds.remote_rows_of_a_chain, 5, 12, a=2, b=3)),
    Item("(5)", "max-influence of a bit on its copy that is right in nine of ten cases: ln 9",
         call(bayes.enumerated_influence, worlds.CORRELATED, targets=(1,), row=0)),
    Item("(6)", "max-influence given another row: of one cause on another, independent one, when their effect is known",
         call(bayes.enumerated_influence, [[[0.225, 0.025], [0.025, 0.225]], [[0.025, 0.225], [0.025, 0.225]]],
              targets=(1,), row=0, given=(2,))),
    Item("2.4, after (6)", "influence 0 if and only if independent",
         call(bayes.enumerated_influence, worlds.INDEPENDENT, targets=(1,), row=0)),
    Item("Algorithm 1", "reusable holdout with noise scales 1, 2 and 4; its threshold as Theorem 2 sets it",
         call(thresholdout_zhao2017, rows=9_000_000, queries=1000, surprises=10, tolerance=0.1, read="threshold")),
    Item("Algorithm 1, privacy", "the whole session loses 9B/(4 sigma n)",
         call(thresholdout.zhao_privacy, 100_000, surprises=10, scale=0.01)),
    Item("Theorem 1, (7)", "rows by Markov blankets, $n_*$; command `everhold lab rows`",
         call(thresholdout.zhao_n_star, 10, 0.01, 0.1, 0.05, blanket_influence=0.004)),
    Item("Theorem 1, (8)", "rows by Markov quilts, $n_\\#$; command `everhold lab rows`",
         call(thresholdout.zhao_n_sharp, 10, 0.01, 0.1, 0.05, nearby=4, quilt_influence=0.001)),
    Item("Theorem 1, (9)", "both for independent rows, where the proof is complete",
         call(zhao_theorem_1_rows, 10, 0.01, 0.1, 0.05, price=30.0)),
    Item("Theorem 1, a_i", "influence on the Markov blanket; of a bit with two noisy copies",
         call(bayes.enumerated_influence, [[[0.405, 0.045], [0.045, 0.005]], [[0.005, 0.045], [0.045, 0.405]]],
              targets=(1, 2), row=0)),
    Item("Theorem 1, b_i", "influence on the quilt, the largest over what is known of nearby rows",
         call(bayes.enumerated_quilt_influence, [[[0.405, 0.045], [0.005, 0.045]], [[0.045, 0.005], [0.045, 0.405]]],
              row=0, quilt=(2,), nearby=(1,))),
    Item("Theorem 2", "rows for 1,000 answers within 0.1, 10 surprises",
         call(zhao_theorem_2_rows, 0.1, **_SESSION, read="rows")),
    Item("Theorem 2, inverse", "radius of 20 million rows",
         call(zhao_theorem_2, 20_000_000, **_SESSION, read="radius")),
    Item("Theorem 2, sigma", "the noise scale",
         call(zhao_theorem_2_calibration, 0.1, queries=1000, confidence=0.95, slack=1 / 3, read="scale")),
    Item("Theorem 2, T", "the threshold",
         call(zhao_theorem_2_calibration, 0.1, queries=1000, confidence=0.95, slack=1 / 3, read="threshold")),
    Item("Theorem 2, chain", "rows on a Markov chain, where the proof has an open gap", call(rows_on_a_chain, 0.1)),
    Item("(31) as printed", "fewer rows than the definition needs; it promises nothing (erratum 2)",
         call(thresholdout.zhao_theorem_2_rows_as_printed, 0.1, **_SESSION)),
    Item("(18), (22) to (27)", "noise tails of the proof with the missing sum, as a share of beta/2 (erratum 9)",
         call(worlds.sum_of_tails, 1000, failure=0.05)),
    Item("Theorem 25 of Dwork et al., quoted", "rows for independent rows, the same session",
         call(dwork_theorem_25_rows, 0.1, **_SESSION, read="rows")),
    Item("Theorem 3", "max-information under Bayesian privacy, in bits",
         call(information.zhao_theorem_3, 10_000, leakage=0.01, failure=0.05)),
    Item("Theorem 19 of Dwork et al., quoted", "max-information under pure privacy, in bits",
         call(information.dwork_theorem_19, 10_000, epsilon=0.01)),
    Item("after Theorem 3", "the loss from which on Theorem 19 is the smaller one (erratum 10)",
         call(information.theorems_19_and_3_cross_at, 10_000, failure=0.05)),
    Item("Lemma 1", "failure of one chosen query of sensitivity 0.01",
         call(thresholdout.zhao_lemma_1, 100, tolerance=0.8, epsilon=0.2, sensitivity=0.01)),
    Item("after Lemma 1", "the same for a statistical query",
         call(thresholdout.zhao_lemma_1, 10_000, tolerance=0.1, epsilon=0.03)),
    Item("Figure 2", "common reuse of a holdout surprises", ExperimentOf("figure2")),
    Item("Figure 3", "protected reuse does not", ExperimentOf("figure3")),
    Item("Lemma 2", "the privacy that a wanted Bayesian loss needs, by quilts",
         call(bayes.privacy_for, 1.0, [[(4, 0.0), (1, 0.1)], [(2, 0.0)]])),
    Item("Lemma 2, forwards", "the Bayesian loss that privacy gives, by a quilt",
         call(thresholdout.zhao_lemma_2, 0.1, nearby=4, quilt_influence=0.05)),
    Item("Lemma 3", "the same by the Markov blanket", call(thresholdout.zhao_lemma_3, 0.1, blanket_influence=0.05)),
    Item("Lemma 4, (11)", "the privacy that a wanted Bayesian loss needs on a Markov chain",
         call(bayes.chain_privacy_for, 0.5, rows=10_000, gap=0.4, least=0.3)),
    Item("(32) to (39)", "1/h of Lemma 4 at a third of the tolerance 0.1",
         call(price_of_lemma_4, 0.1)),
    Item("section 6, Rogers et al. 2016", "max-information under approximate privacy, in bits; own constants",
         call(rogers_2016, 10_000, epsilon=0.02, delta=1e-12, failure=0.05, read="bits")),
    Item("section 6, Russo and Zou 2016", "bias by mutual information; width of 1,000 noisy answers",
         call(rogers_width, 50_000, queries=1000, scale=0.02, confidence=0.95)),
    Item("section 6, Blum and Hardt 2015", "the Ladder's leaderboard; error of the best score shown",
         call(ladder_radius, 50_000, submissions=1000, confidence=0.95, read="radius")),
    Item("section 6, Song et al. 2017", "Markov quilt mechanism on a chain; its noise scale by the spectral gap",
         call(MarkovQuiltMechanism, call(eh.MarkovChain, [[0.8, 0.2], [0.3, 0.7]]), 1000, 1.0, search="approximate",
              read="scale")),
    Item("Appendix, Doob martingale", "steps of the log-likelihood for independent rows are at most the loss 0.5",
         call(worlds.doob_steps, 3, epsilon=0.5)),
    Item("Lemma 5", "Azuma-Hoeffding: a martingale of 100 steps of 0.1 rises by 3",
         call(azuma_failure, 100, size=0.1, excess=3.0)),
    Item("(48) to (51)", "tail of the log-likelihood: Lemma 5 with steps of the loss",
         call(azuma_failure, 10_000, size=0.01, excess=3.0)),
    Item("Lemma 6", "a likelihood ratio that is at most $2^k$ gives max-information k; difference at beta = 0",
         call(worlds.highest_likelihood_bits, 3, epsilon=0.7)),
)  # fmt: skip


__all__ = ["SOURCES", "Call", "ExperimentOf", "Item", "number", "written"]

SOURCES: Mapping[str, tuple[str, tuple[Item, ...]]] = MappingProxyType(
    {
        "zhao-2017": (TITLE, ITEMS),
        "lecture-23": (LECTURE_23_TITLE, LECTURE_23),
        "more-dp-techniques": (TECHNIQUES_TITLE, TECHNIQUES),
    }
)
"""Short name of each source: its title and its items in their order."""


def number(item: Item) -> Any:
    """Return the number to which the item's call evaluates, or None for an item without a call."""
    return item.run.value() if isinstance(item.run, Call) else None


def written(value: Any) -> str:
    """Return a number, or several, to four significant digits as a text."""
    if isinstance(value, (tuple, list)):
        return ", ".join(written(part) for part in value) or "none"
    if isinstance(value, int):
        return f"{value:,}"
    if abs(value) >= 10_000:
        return f"{value:,.0f}" if abs(value) < 1e15 else str(value)
    return "0" if abs(value) < 1e-12 else f"{value:.4g}"
