"""Every protection that docs/theory and the README name, with what removes it and the tests that notice.

`MUTATIONS` is in the order of docs/theory/index.md. `NOT_REMOVED` says why others have none. To remove all of them one
after the other, or those whose statement and words contain a text::

    python tests/support/mutations.py "S13: later trees"
"""

import importlib.util
import os
import re
import sys
import tempfile
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "packages"
_PRELOADED = (
    "numpy",
    "scipy.special",
    "scipy.optimize",
    "scipy.stats",
    "sqlalchemy",
    "duckdb",
    "cryptography",
    "pytest",
)


class Mutation(NamedTuple):
    """A protection that is removed.

    Attributes:
        statement: Its name in docs/theory, or the heading of the promise.
        what: What is no longer paid or checked.
        file: From the package on, such as ``everhold/mechanisms/labels.py``.
        old: The text, which is there once.
        new: The text without the protection.
        tests: From the distribution on; one of them fails without it.
    """

    statement: str
    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def name(self) -> str:
        """Statement and words."""
        return f"{self.statement}: {self.what}"

    @property
    def source(self) -> Path:
        """The file."""
        return PACKAGES / self.file.partition("/")[0].replace("_", "-") / "src" / self.file

    @property
    def paths(self) -> list[str]:
        """Of the tests, each with the name of a test behind ``::`` where it is one."""
        return [str(PACKAGES / name.replace("/", "/tests/", 1)) for name in self.tests]

    def find_spec(self, name, path=None, target=None):
        """Import the file without the protection; as a finder of modules."""
        if name != self.file.removesuffix(".py").replace("/", "."):
            return None
        return importlib.util.spec_from_file_location(name, self.source, loader=_Without(name, str(self.source), self))


class _Without(SourceFileLoader):
    """Loader of a file without its protection."""

    def __init__(self, name, path, mutation):
        super().__init__(name, path)
        self.mutation = mutation

    def get_code(self, fullname):
        text = self.mutation.source.read_text()
        assert text.count(self.mutation.old) == 1
        return self.source_to_code(text.replace(self.mutation.old, self.mutation.new), self.path)


def noticed(mutation: Mutation) -> str:
    """Run the tests without a protection, in a process that has imported nothing of everhold.

    Returns:
        An empty text if a test failed; else what was said.
    """
    with tempfile.TemporaryFile() as said:
        if not (child := os.fork()):
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
            os.chdir(ROOT)
            sys.meta_path.insert(0, mutation)
            import pytest

            code = 99
            try:
                code = pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *mutation.paths])
            finally:
                sys.stdout.flush()
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said.seek(0)
        text = said.read().decode(errors="replace")
    broken = re.search(r"^E +(Syntax|Name|Import)Error", text, re.MULTILINE)
    return "" if code == 1 and "FAILURES" in text and not broken else f"exit {code}\n{text[-2_000:]}"


def main(wanted: list[str]) -> int:
    """Remove protections one at a time; returns 1 if one was not noticed."""
    for each in _PRELOADED:
        importlib.import_module(each)
    unnoticed = 0
    for mutation in MUTATIONS:
        if not wanted or any(each in mutation.name for each in wanted):
            text = noticed(mutation)
            sys.stdout.write(f"{'UNNOTICED' if text else 'noticed'} {mutation.name}\n{text}")
            sys.stdout.flush()
            unnoticed += bool(text)
    return int(unnoticed > 0)


_INTERVALS = "everhold/unit/guarantees/intervals"
_LEVELS = f"{_INTERVALS}/test_levels_of_parts.py"
_FAILING = "everhold/statistical/test_shares_of_failing_rows.py"
_EXACT = "everhold/unit/mechanisms/test_guess_and_check_exact.py"
_WORLDS = "everhold/unit/mechanisms/test_guess_and_check_worlds.py"
_STEPS = "everhold/unit/mechanisms/test_levels_of_steps.py"
_LOOKS = "everhold/unit/gates/test_levels_of_looks.py"
_CHOICES = "everhold/integration/queries/test_choices.py"
_TREES = "everhold/unit/mechanisms/test_suffixes.py"
_CORE = "everhold/guarantees/intervals"
_GATES = "everhold/integration/asking"
_CHECKS = "everhold/unit/gates/test_checks.py"
_MISSING = "everhold/unit/gates/test_missing.py"
_BOUNDED = "everhold/integration/sealing/test_missing_values.py"

MUTATIONS = [
    Mutation(
        "S1",
        "a row that is remembered counts over beta",
        "everhold_privacy/guarantees.py",
        "excess = (exceedance(alpha) + leak.delta) / beta",
        "excess = exceedance(alpha) / beta",
        (
            "everhold-privacy/unit/guarantees/test_transfer.py::test_the_radius_and_the_interval_hold_with_their_confidence",
        ),
    ),
    Mutation(
        "S1",
        "what the posterior is off",
        "everhold_privacy/guarantees.py",
        "radius=alpha + leak.bias + excess",
        "radius=alpha + excess",
        (
            "everhold-privacy/unit/guarantees/test_transfer.py::test_the_radius_and_the_interval_hold_with_their_confidence",
        ),
    ),
    Mutation(
        "S2",
        "rows were rounded down",
        "everhold_privacy/guarantees.py",
        "np.minimum(high + rounded_down, 1.0)",
        "np.minimum(high, 1.0)",
        ("everhold-privacy/unit/mechanisms/test_base_rounding.py",),
    ),
    Mutation(
        "S2",
        "the tilt of the posterior",
        "everhold_privacy/guarantees.py",
        "shrink = math.exp(-epsilon)",
        "shrink = 1.0",
        ("everhold-privacy/unit/guarantees/test_transfer.py::test_transferred_interval_is_the_set_that_a_scan_finds",),
    ),
    Mutation(
        "S3",
        "the ways in which surprises can lie",
        "everhold/guarantees/description_length.py",
        "math.log(self.planned) - log_choose(float(self.queries), f + 1.0)",
        "math.log(self.planned) - log_choose(float(self.queries), 1.0 + 0.0 * f)",
        ("everhold/unit/guarantees/test_description_length.py::test_the_library_uses_these_weights",),
    ),
    Mutation(
        "S3",
        "a radius is promised of shares alone",
        "everhold_competitions/ladder.py",
        'if self.scores == "shares" else 1.0',
        "",
        (
            "everhold-competitions/integration/test_public_rows.py::"
            "test_no_radius_is_promised_of_scores_that_are_no_shares",
        ),
    ),
    Mutation(
        "S3",
        "new bests of a ladder are paid for",
        "everhold_competitions/ladder.py",
        "+ log_choose(float(self.levels), safe_f)",
        "",
        ("everhold-competitions/unit/test_ladder.py::test_weights_of_all_nodes_sum_to_at_most_one",),
    ),
    Mutation(
        "S4",
        "a whole group may change with a row",
        "everhold_privacy/leakage.py",
        "(Spread.quilt(nearby=size - 1),)",
        "(Spread.quilt(nearby=0),)",
        ("everhold/unit/dependence/test_groups.py::test_the_leakage_is_the_average_over_rows_of_the_group_curve",),
    ),
    Mutation(
        "S4",
        "a series is coupled backwards, too",
        "everhold/dependence/series/coupling.py",
        "return [_monotone(coupling.forward(step, count)), _monotone(coupling.backward(step, count))]",
        "return [_monotone(coupling.forward(step, count)), 0.0 * _monotone(coupling.backward(step, count))]",
        ("everhold-privacy/unit/leakage/test_leakage_of_series.py",),
    ),
    Mutation(
        "S4",
        "training rows beyond a gap count as lost",
        "everhold_privacy/leakage.py",
        "lost=_lost_to_training(model, lengths)",
        "lost=0.0 * _lost_to_training(model, lengths)",
        ("everhold-privacy/unit/leakage/test_leakage_of_series.py",),
    ),
    Mutation(
        "S4",
        "influence on a quilt",
        "everhold_privacy/leakage.py",
        "math.exp(influence) * curve.group(count).delta(epsilon[within] - influence)",
        "curve.group(count).delta(epsilon[within])",
        ("everhold-privacy/unit/leakage/test_leakage_curve.py",),
    ),
    Mutation(
        "S4",
        "no group has rows on both sides",
        "everhold/dependence/units.py",
        "        if shared:\n            raise DependenceError(",
        "        if False:\n            raise DependenceError(",
        ("everhold/integration/test_holdout_dependence.py::test_a_dependence_that_does_not_match_creates_nothing",),
    ),
    Mutation(
        "S5",
        "a group counts for its squared size",
        "everhold/dependence/units.py",
        "return rows * self.rows / sum(size * size * number for size, number in self.known_counts)",
        "return float(rows)",
        ("everhold/unit/dependence/test_groups.py::test_effective_rows_by_definition",),
    ),
    Mutation(
        "S5",
        "a series is worth fewer rows",
        "everhold/dependence/series/base.py",
        "self._effective_rows[rows] = min(proven, float(rows))",
        "self._effective_rows[rows] = float(rows)",
        ("everhold/unit/dependence/test_markov_chain.py::test_a_periodic_looking_chain_that_is_aperiodic_is_accepted",),
    ),
    Mutation(
        "S6",
        "information of all draws",
        "everhold_privacy/mechanisms/subsampling.py",
        "information = answers * draws * information_per_draw(rows, coins)",
        "information = draws * information_per_draw(rows, coins)",
        ("everhold-privacy/unit/guarantees/test_subsampling_bits.py::test_no_other_alpha_gives_a_smaller_radius",),
    ),
    Mutation(
        "S7",
        "the curvature of the logarithm",
        f"{_CORE}/betting.py",
        "(-safe - np.log1p(-safe)) / safe**2)",
        "0.5)",
        (f"{_INTERVALS}/test_closed_form.py",),
    ),
    Mutation(
        "S7",
        "unlike rows: one yes and one no",
        f"{_CORE}/means.py",
        "exact = np.where(ones >= n - 1.0, np.where(ones >= n, 1.0, 1.0 - tail / n), exact)",
        "exact = np.where(ones >= n, 1.0, exact)",
        (f"{_INTERVALS}/test_means.py",),
    ),
    Mutation(
        "S7",
        "unlike rows: tails of 1/4 at most",
        f"{_CORE}/means.py",
        "_FEWEST_NATS = math.log(2.0)",
        "_FEWEST_NATS = 0.0",
        (f"{_INTERVALS}/test_means.py",),
    ),
    Mutation(
        "S7",
        "two tails share a level",
        f"{_CORE}/means.py",
        "tail = np.exp(-np.maximum(nats, _FEWEST_NATS)) / 2.0",
        "tail = np.exp(-np.maximum(nats, _FEWEST_NATS))",
        (f"{_INTERVALS}/test_means.py",),
    ),
    Mutation(
        "S7",
        "two sides of a bet share a level",
        f"{_CORE}/betting.py",
        "return max(nats + math.log(2.0), LEAST_NATS)",
        "return max(nats, LEAST_NATS)",
        (f"{_INTERVALS}/test_betting.py",),
    ),
    Mutation(
        "S7",
        "no unit may cost the whole capital",
        f"{_CORE}/joint.py",
        "CAP = 0.95",
        "CAP = 1.5",
        (f"{_INTERVALS}/test_joint.py",),
    ),
    Mutation(
        "S7",
        "groups are no larger than was said",
        f"{_CORE}/betting.py",
        "    if np.max(sizes, initial=0) > largest:",
        "    if False:",
        (
            f"{_INTERVALS}/test_betting.py::test_groups_larger_than_the_public_sizes_are_refused_and_larger_training_groups_are_not",
        ),
    ),
    Mutation(
        "S7",
        "the average of stakes (W1)",
        f"{_CORE}/joint.py",
        "_HEDGE = np.log(np.append(0.5, np.full(len(FRACTIONS), 0.5 / len(FRACTIONS))))",
        "_HEDGE = np.zeros(1 + len(FRACTIONS))",
        (f"{_INTERVALS}/test_hedge.py",),
    ),
    Mutation(
        "S7",
        "the least capital in a cell",
        f"{_CORE}/joint.py",
        "else np.minimum(gains[:, :-1], gains[:, 1:])",
        "else np.maximum(gains[:, :-1], gains[:, 1:])",
        (f"{_INTERVALS}/test_joint.py",),
    ),
    Mutation(
        "S7",
        "what large groups may lose beyond the largest stake is paid",
        f"{_CORE}/joint.py",
        "gained = gained - beyond @ counts[some]",
        "pass",
        (f"{_INTERVALS}/test_betting.py",),
    ),
    Mutation(
        "D1",
        "gains as far as labels can take them",
        "everhold/queries/predictions/public.py",
        "reach = min(-(-far * 2 // CELLS) * CELLS // 2, unit // 2)",
        "reach = max(min(-(-far * 2 // CELLS) * CELLS // 2, unit // 2) // 4, 1)",
        (f"{_INTERVALS}/test_disagreement.py::test_each_end_holds_at_half_the_level_for_unlike_labels",),
    ),
    Mutation(
        "D1",
        "differing rows are a part of all rows",
        f"{_CORE}/means.py",
        "return self.reach * self.differing / self.rows",
        "return self.reach * (self.differing / self.rows) ** 2",
        (f"{_INTERVALS}/test_disagreement.py::test_only_differing_rows_move_the_mean_and_by_no_more_than_the_reach",),
    ),
    Mutation(
        "S8",
        "labels are paid for",
        "everhold/guarantees/description_length.py",
        "np.log((f + 1.0) * (f + 2.0)) + labels - np.logaddexp(on_plan, beyond)",
        "np.log((f + 1.0) * (f + 2.0)) - np.logaddexp(on_plan, beyond)",
        ("everhold/unit/guarantees/test_description_length.py::test_the_library_uses_these_weights",),
    ),
    Mutation(
        "S8",
        "numbers of surprises share the weight",
        "everhold/guarantees/description_length.py",
        "np.log((f + 1.0) * (f + 2.0)) + labels",
        "0.0 * f + labels",
        ("everhold/unit/guarantees/test_description_length.py::test_the_library_uses_these_weights",),
    ),
    Mutation(
        "S8",
        "queries beyond the plan are paid for",
        "everhold/guarantees/description_length.py",
        "math.log1p(-self.planned) - np.log(j * (j + 1.0))",
        "math.log1p(-self.planned) + 0.0 * j",
        ("everhold/unit/guarantees/test_description_length.py::test_the_library_uses_these_weights",),
    ),
    Mutation(
        "S8",
        "silent queries count",
        "everhold/mechanisms/guess_and_check.py",
        "replies.sources[where] = Source.SILENT\n            return state.after(asked=count, charged=0)",
        "replies.sources[where] = Source.SILENT\n            return state.after(asked=0, charged=0)",
        (_STEPS,),
    ),
    Mutation(
        "S8",
        "a confirmed guess holds all that was sealed",
        "everhold/mechanisms/guess_and_check.py",
        "return np.asarray((sealed[:, 0] < told[:, 0]) | (sealed[:, 1] > told[:, 1]))",
        "return np.asarray(sealed[:, 0] < told[:, 0])",
        (_STEPS,),
    ),
    Mutation(
        "S8",
        "a surprise is told as a cell",
        "everhold/mechanisms/guess_and_check.py",
        "ends = np.array([cells.released(int(self.totals[place])) for place in places])",
        "ends = np.array([[self.sealed[place, 0]] * 2 for place in places])",
        (_STEPS,),
    ),
    Mutation(
        "S8",
        "a told interval contains the sealed one",
        "everhold/mechanisms/labels.py",
        "if place - half <= low and high <= place + half and abs(steps) <= most:",
        "if place - half <= low and abs(steps) <= most:",
        (
            "everhold/unit/mechanisms/test_labels.py::test_what_is_told_contains_what_was_sealed_at_a_price_within_bounds",
        ),
    ),
    Mutation(
        "S8",
        "priors of labels sum to 1",
        "everhold/mechanisms/labels.py",
        "_SHARE_NEAR * _share_of_width(number - _TIMES) / (2 * _NEAR + 1)",
        "_SHARE_NEAR * _share_of_width(number - _TIMES)",
        ("everhold/unit/mechanisms/test_labels.py::test_the_prior_of_all_labels_that_there_are_sums_to_at_most_one",),
    ),
    Mutation(
        "S8",
        "a challenge has one side of its level",
        "everhold/mechanisms/guess_and_check.py",
        "float(self.nats[place]) - math.log(2.0))",
        "float(self.nats[place]) - math.log(8.0))",
        (_STEPS,),
    ),
    Mutation(
        "S8",
        "a promotion is a surprise",
        "everhold/mechanisms/guess_and_check.py",
        "replies.charged[position] = 1\n        return cost",
        "replies.charged[position] = int(source is not Source.PROMOTED)\n        return cost",
        (_STEPS,),
    ),
    Mutation(
        "S8",
        "silent studies: queries share the level",
        "everhold/mechanisms/silent.py",
        "first, others = (2.0 * self.first, 2.0 * later) if self.first and later else (self.queries, self.queries)",
        "first, others = (self.first, later) if self.first and later else (self.queries, self.queries)",
        ("everhold/unit/mechanisms/test_silent.py",),
    ),
    Mutation(
        "S8",
        "the end is permanent",
        "everhold/asking/query_executor.py",
        "    if accounts.closed and new and not pricing.asks_nothing:",
        "    if False:",
        (f"{_GATES}/test_unsealing.py",),
    ),
    Mutation(
        "S8",
        "sealed rows are used nowhere else",
        "everhold/sealing/intake/create.py",
        "if same and not allow_resealing:",
        "if False:",
        ("everhold/integration/sealing/test_resealing.py",),
    ),
    Mutation(
        "S8",
        "rows that answered are known after their database was deleted",
        "everhold/sealing/resealing.py",
        "folder.name not in known and asked_by(folder)",
        "folder.name not in known and False",
        ("everhold/integration/sealing/test_resealing.py",),
    ),
    Mutation(
        "S8",
        "lost labels count as the dearest",
        "everhold/mechanisms/guess_and_check.py",
        "return surprises * self.dearest_label\n\n    def losable",
        "return surprises\n\n    def losable",
        (_STEPS,),
    ),
    Mutation(
        "S8",
        "guesses learn from what was told alone",
        "everhold/queries/interval_planner.py",
        "    if failed or len(offs) < _FEWEST or min(offs) <= 0.0 <= max(offs):",
        "    if len(offs) < 1:",
        ("everhold/integration/queries/test_guesses.py",),
    ),
    Mutation(
        "S9",
        "labels of a step",
        "everhold/mechanisms/guess_and_check.py",
        "return state.after(asked=count, charged=len(surprises), labels=labels)",
        "return state.after(asked=count, charged=len(surprises), labels=0)",
        (_STEPS,),
    ),
    Mutation(
        "S9",
        "a step takes a place for each query",
        "everhold/mechanisms/guess_and_check.py",
        "return state.after(asked=count, charged=len(surprises), labels=labels)",
        "return state.after(asked=1, charged=len(surprises), labels=labels)",
        (_STEPS,),
    ),
    Mutation(
        "S9",
        "labels of told members",
        "everhold/mechanisms/declared.py",
        "return state.after(asked=0, charged=0, labels=labels), replies",
        "return state.after(asked=0, charged=0, labels=0), replies",
        (_STEPS,),
    ),
    Mutation(
        "S9",
        "values of told members",
        "everhold/mechanisms/declared.py",
        "labels += sum(cost for _, _, cost in told) + sum(cost for _, cost in shown)",
        "labels += sum(cost for _, _, cost in told)",
        (f"{_GATES}/test_listed_queries.py::test_others_pay_for_the_value_that_is_told_of_a_member",),
    ),
    Mutation(
        "S9",
        "priors of told sums",
        "everhold/mechanisms/declared.py",
        "uniform = -math.log(rows + 1.0)",
        "uniform = -math.log(rows + 1.0) / 2.0",
        (_STEPS,),
    ),
    Mutation(
        "S10",
        "families have their share of beta",
        "everhold/mechanisms/public_levels.py",
        "return nats - math.log((1.0 - self.statement_confidence) * self.share)",
        "return nats - math.log(1.0 - self.statement_confidence)",
        (_STEPS,),
    ),
    Mutation(
        "S10",
        "the tree has the rest",
        "everhold/mechanisms/public_levels.py",
        "return (1.0 - self.statement_confidence) * (1.0 - self.share)",
        "return 1.0 - self.statement_confidence",
        (_STEPS,),
    ),
    Mutation(
        "S10",
        "families share alike",
        "everhold/asking/declared.py",
        "nats = mechanism.described(math.log(len(families)))",
        "nats = mechanism.described(0.0)",
        (f"{_GATES}/test_declared.py",),
    ),
    Mutation(
        "S10",
        "texts have what the tree leaves",
        "everhold/mechanisms/public_levels.py",
        "return nats - math.log(self.beta * self.tree.of_texts)",
        "return nats - math.log(self.beta)",
        (_STEPS,),
    ),
    Mutation(
        "S10",
        "members share by their number",
        "everhold/families/subgroups.py",
        "return math.log(self._members) if self._is_member(bound) else None",
        "return 0.0 if self._is_member(bound) else None",
        (f"{_GATES}/test_declared.py::test_members_share_the_level_of_their_family_by_their_number",),
    ),
    Mutation(
        "S10",
        "points share by their number",
        "everhold/families/grid.py",
        'return math.log(int(self.facts["size"]))',
        "return 0.0",
        (f"{_GATES}/test_declared_spaces.py", "everhold/unit/families"),
    ),
    Mutation(
        "S10",
        "listed members share the weight",
        "everhold/families/listed.py",
        "-math.log(weight)) for query, weight in found.items()",
        "0.0) for query, weight in found.items()",
        (f"{_GATES}/test_declared.py::test_members_share_the_level_of_their_family_by_their_number",),
    ),
    Mutation(
        "S10",
        "columns have a price",
        "everhold/families/texts.py",
        "                nats += math.log(self.columns[node.kind])",
        "                pass",
        ("everhold/unit/families/test_family_texts.py::test_a_column_costs_the_number_of_columns_of_its_kind",),
    ),
    Mutation(
        "S10",
        "numbers have a price",
        "everhold/families/texts.py",
        "(count - 1) * math.log(10.0)",
        "(count - 1) * 0.0",
        ("everhold/unit/families/test_family_texts.py", "everhold/statistical/test_texts_by_description.py"),
    ),
    Mutation(
        "S10",
        "nothing of a text follows from a guess",
        "everhold/queries/interval_planner.py",
        "        if estimate < 0 and not procedure.width_is_known:\n            return None",
        "        if False:\n            return None",
        (
            "everhold/integration/queries/test_guesses.py::test_a_bet_whose_stakes_follow_from_an_own_guess_has_no_level_by_its_description",
        ),
    ),
    Mutation(
        "S10",
        "a family that is declared later has its place",
        "everhold/asking/declared.py",
        "after = bound_state(state.after(asked=1, charged=0), executor.record.configuration)",
        "after = bound_state(state, executor.record.configuration)",
        (f"{_GATES}/test_declared.py", f"{_GATES}/test_declared_after_answers.py"),
    ),
    Mutation(
        "S10",
        "a model that is given away is a copy",
        "everhold/families/grid.py",
        "return self.fit(compiler, point) if copied is model else copied",
        "return model",
        (f"{_GATES}/test_models_given_away.py",),
    ),
    Mutation(
        "S10",
        "declared models read no files",
        "everhold/asking/query_executor.py",
        "with declared_code() if self.plan.pricing.asks_nothing else nullcontext():",
        "with nullcontext():",
        (
            f"{_GATES}/test_models_given_away.py",
            f"{_GATES}/test_listed_queries.py",
            f"{_GATES}/test_declared_spaces.py",
        ),
    ),
    Mutation(
        "S11",
        "successes share the level",
        f"{_CORE}/claims.py",
        "return 0.0 if claim.guard else math.log(sum(not each.guard for each in claims))",
        "return 0.0",
        (f"{_INTERVALS}/test_claims.py::test_guards_pay_nothing_and_successes_share_the_level",),
    ),
    Mutation(
        "S11",
        "all guards are proved",
        f"{_CORE}/claims.py",
        "at = max([min(successes), *guards])",
        "at = min(successes)",
        (f"{_INTERVALS}/test_claims.py",),
    ),
    Mutation(
        "S11",
        "stakes share the capital",
        f"{_CORE}/claims.py",
        "np.full(len(stakes), -math.log(len(stakes)))",
        "np.zeros(len(stakes))",
        (f"{_INTERVALS}/test_claims.py::test_expected_capital_is_at_most_one_for_coins_of_unlike_laws",),
    ),
    Mutation(
        "S11",
        "the largest unit decides the stakes",
        f"{_CORE}/claims.py",
        "np.array([[0.0, units.largest]])",
        "np.array([[0.0, 1.0]])",
        (f"{_INTERVALS}/test_claims.py::test_units_of_unlike_sizes_are_fair_for_the_mean_over_cases",),
    ),
    Mutation(
        "S11",
        "the smallest gain of yes-or-no runs is one of whole runs",
        "everhold/gates/units.py",
        "step = 0.5 / runs if first.yes_no else 0.0",
        "step = 0.0",
        ("everhold/unit/gates/test_smallest_steps.py",),
    ),
    Mutation(
        "S11",
        "every case is open with the same probability",
        "everhold/gates/opening.py",
        "owed = rng.random()",
        "owed = 0.5",
        (
            f"{_GATES}/test_open_cases.py::test_every_case_is_open_with_the_same_probability_and_every_stratum_has_its_share",
        ),
    ),
    Mutation(
        "S11",
        "groups are units",
        "everhold/gates/units.py",
        "return self.suite.population != NEW_RUNS and self.suite.runs == 1 and self.count == len(self.suite.ids)",
        "return self.suite.population != NEW_RUNS and self.suite.runs == 1",
        (_LOOKS,),
    ),
    Mutation(
        "S11",
        "runs come in a secret order",
        "everhold/gates/units.py",
        "shuffled.append(np.take_along_axis(values, order[:, :, None], axis=1))",
        "shuffled.append(values)",
        (f"{_GATES}/test_runs_that_come_sorted.py::test_early_looks_at_sorted_runs",),
    ),
    Mutation(
        "S11",
        "a promotion at a gate about cases is a surprise",
        "everhold/gates/cases.py",
        "return state.after(charged=int(mark), labels=label), [Outcome",
        "return state.after(charged=0, labels=label), [Outcome",
        (_LOOKS,),
    ),
    Mutation(
        "S17",
        "regressions share the level",
        "everhold/gates/checks.py",
        "level = nats + extra + math.log(len(claims))",
        "level = nats + extra",
        (_CHECKS,),
    ),
    Mutation(
        "S17",
        "with a negative margin both claims have half of the level",
        "everhold/gates/checks.py",
        "math.log(2.0) if margin < 0.0 else 0.0",
        "0.0",
        (_CHECKS,),
    ),
    Mutation(
        "S17",
        "a charged verdict has a label",
        "everhold/gates/checks.py",
        "labels=interim_label(_OTHERS) if marked else 0",
        "labels=0",
        (f"{_GATES}/test_checked_merges.py",),
    ),
    Mutation(
        "S11",
        "an unsealed gain has the level of its success",
        "everhold/gates/units.py",
        "nats += -math.log(_OF_GAIN) if guarded else math.log(len(suite.better))",
        "nats += -math.log(_OF_GAIN) if guarded else 0.0",
        ("everhold/unit/gates/test_unsealed_gains.py",),
    ),
    Mutation(
        "Lemma N",
        "only what both versions lack is left out",
        "everhold/gates/units.py",
        "np.isinf(own) & np.isinf(beside)",
        "np.isinf(own) | np.isinf(beside)",
        (_MISSING,),
    ),
    Mutation(
        "Lemma N",
        "no result counts as the worst",
        "everhold/gates/results.py",
        "return np.maximum(1.0 - inside if self.lower else inside, 0.0)",
        "return np.where(np.isinf(values), 1.0, 1.0 - inside if self.lower else inside)",
        (_MISSING,),
    ),
    Mutation(
        "Lemma N",
        "below 0 the tail proves nothing of the runs that are left",
        "everhold/gates/units.py",
        "return found and not (of_all and floor < 0.0)",
        "return found",
        (_MISSING,),
    ),
    Mutation(
        "Lemma N",
        "what is left out is no tie of the sizes",
        "everhold/gates/units.py",
        "sizes = whole_sizes if kept is None else np.where(gone, whole_sizes, summed(kept))",
        "sizes = whole_sizes",
        (_MISSING,),
    ),
    Mutation(
        "Lemma Y",
        "the tail counts from one event above the mean on",
        f"{_CORE}/claims.py",
        "if events < of * chance + 1.0:",
        "if not events:",
        (f"{_INTERVALS}/test_claims.py",),
    ),
    Mutation(
        "S12",
        "the order is drawn anew",
        "everhold/gates/units.py",
        "{opened.gate}\\n{opened.entry}\\n{opened.challenger}\\n{number}",
        "{opened.gate}\\n{number}",
        (_LOOKS,),
    ),
    Mutation(
        "S12",
        "draws with replacement have a part of the level",
        "everhold/gates/units.py",
        "early, planned = plan.for_claims(nats) - math.log(EARLY_PART), max(plan.count // 2, 1)",
        "early, planned = plan.for_claims(nats), max(plan.count // 2, 1)",
        (_LOOKS,),
    ),
    Mutation(
        "S12",
        "all runs at the end have the rest of the level",
        "everhold/gates/units.py",
        "return whole and self.proves(nats - math.log(1.0 - EARLY_PART))",
        "return whole and self.proves(nats)",
        (_LOOKS,),
    ),
    Mutation(
        "S12",
        "each draw looks at runs of its own",
        "everhold/gates/units.py",
        "            counts[unit] += 1\n",
        "",
        (_LOOKS,),
    ),
    Mutation(
        "S12",
        "looks at these cases share the level",
        "everhold/gates/units.py",
        "nats, level = nats + math.log(planned_looks), level + math.log(planned_looks)",
        "pass",
        (_LOOKS,),
    ),
    Mutation(
        "S12",
        "the look of a promotion is a label",
        "everhold/gates/cases.py",
        "label = interim_label(self.opened.marks) if mark and self.opened is not None else 0",
        "label = 0",
        (_LOOKS,),
    ),
    Mutation(
        "S12",
        "a stop for futility is a mark",
        "everhold/gates/cases.py",
        "mark = promoted or self.futile",
        "mark = promoted",
        (_LOOKS,),
    ),
    Mutation(
        "S12",
        "looks beside guards leave a tenth of the level to the unsealed gain",
        "everhold/gates/units.py",
        "        level = plan.for_claims(nats)\n",
        "        level = nats\n",
        (_LOOKS,),
    ),
    Mutation(
        "S12",
        "opening takes a place",
        "everhold/gates/open_challenge.py",
        "after = bound_state(state.after(asked=1, charged=0), executor.record.configuration)",
        "after = bound_state(state, executor.record.configuration)",
        (f"{_GATES}/test_case_gate.py::test_lost_challenges_that_were_opened_leave_all_their_places_taken",),
    ),
    Mutation(
        "S12",
        "the whole price is reserved at opening",
        "everhold/ledger/acts.py",
        "        return 2, 1\n",
        "        return 1, 0\n",
        (f"{_GATES}/test_case_gate.py::test_an_open_challenge_reserves_all_that_it_can_cost",),
    ),
    Mutation(
        "Lemma R",
        "three bets share the capital",
        f"{_CORE}/claims.py",
        "_SHARES = np.log([[0.5], [0.25], [0.25]])",
        "_SHARES = np.log([[1.0], [1.0], [1.0]])",
        (f"{_INTERVALS}/test_ratio_claims.py::test_units_that_say_nothing_leave_the_capital_as_it_was",),
    ),
    Mutation(
        "Lemma R",
        "each ratio of the other version is ruled out",
        f"{_CORE}/claims.py",
        "return max(first_look(each, nats) for each in capital)",
        "return min(first_look(each, nats) for each in capital)",
        (f"{_INTERVALS}/test_ratio_claims.py::test_a_false_claim_is_proved_with_the_probability_of_the_level_at_most",),
    ),
    Mutation(
        "Lemma R",
        "a gain is one side of two",
        f"{_CORE}/gains.py",
        "side, gain = nats + math.log(2.0), self.gain(seen)",
        "side, gain = nats, self.gain(seen)",
        (_LEVELS,),
    ),
    Mutation(
        "Lemma B",
        "stakes share the capital",
        f"{_CORE}/gains.py",
        "- math.log(len(stakes)) - doubt_of",
        "- doubt_of",
        (
            f"{_INTERVALS}/test_outcome_gains.py::test_a_gain_in_one_recall_that_the_other_one_loses_is_proved_with_the_probability_of_the_level_at_most",
        ),
    ),
    Mutation(
        "Lemma B",
        "between the ends of a segment the loss bends the capital",
        f"{_CORE}/gains.py",
        "+ tangents[:, None] * (parts > 0.0)",
        "",
        (f"{_INTERVALS}/test_outcome_gains.py",),
    ),
    Mutation(
        "Lemma R",
        "the least capital of a moving cell",
        f"{_CORE}/joint.py",
        "ends = np.minimum(gained[:, :-1], gained[:, 1:])",
        "ends = np.maximum(gained[:, :-1], gained[:, 1:])",
        (f"{_INTERVALS}/test_joint.py",),
    ),
    Mutation(
        "Lemma B",
        "each gain in a recall is ruled out",
        f"{_CORE}/gains.py",
        "min(exact.min(), bound[others].min())",
        "max(exact.max(), bound[others].max())",
        (
            f"{_INTERVALS}/test_outcome_gains.py::test_a_gain_that_is_not_there_is_proved_with_the_probability_of_the_level_at_most",
        ),
    ),
    Mutation(
        "S13",
        "later trees have less",
        "everhold/mechanisms/suffixes.py",
        "return 1.0 / (number * (number + 1.0))",
        "return 0.5",
        ("everhold/unit/mechanisms/test_suffixes.py::test_all_trees_together_have_the_probability_of_failure",),
    ),
    Mutation(
        "S13",
        "answers of other trees have a place",
        "everhold/mechanisms/suffixes.py",
        "state.asked - before.asked, state.charged - before.charged, state.carried_noise, state.labels - before.labels",
        "0, state.charged - before.charged, state.carried_noise, state.labels - before.labels",
        (_STEPS,),
    ),
    Mutation(
        "S13",
        "labels of other trees are paid for",
        "everhold/mechanisms/suffixes.py",
        "state.carried_noise, state.labels - before.labels\n",
        "state.carried_noise, 0\n",
        (_STEPS,),
    ),
    Mutation(
        "S13",
        "texts end with the first arrival",
        "everhold/mechanisms/suffixes.py",
        "training_rows=trained, text_bits=0, dependence=of",
        "training_rows=trained, dependence=of",
        (_STEPS,),
    ),
    Mutation(
        "S13",
        "no group spans an arrival",
        "everhold/sealing/arrivals.py",
        "            if shared := _shared(connection, what, files, column, schema):\n                raise",
        "            if False and (shared := _shared(connection, what, files, column, schema)):\n                raise",
        ("everhold/integration/test_arrivals.py",),
    ),
    Mutation(
        "S13",
        "rows that are sealed already do not arrive again",
        "everhold/sealing/arrivals.py",
        "        if any(rows.repeats(before) for before in old):",
        "        if False:",
        ("everhold/integration/test_arrivals.py::test_rows_that_do_not_fit_are_refused_and_nothing_is_changed",),
    ),
    Mutation(
        "S13",
        "no tree opens after a loss",
        "everhold/asking/arrivals/appending.py",
        "configuration.get(GROWS) or head.accounts.lost.recoveries:",
        "configuration.get(GROWS):",
        ("everhold/integration/test_restored_ledgers.py", "everhold/integration/test_arrivals.py"),
    ),
    Mutation(
        "S14",
        "members hold at all numbers of rows",
        "everhold/queries/interval_planner.py",
        "        if self.families.first_rows:\n            procedure = _at_all_sizes",
        "        if False:\n            procedure = _at_all_sizes",
        ("everhold/integration/test_growing_families.py::test_a_fixed_family_is_an_eighth_narrower",),
    ),
    Mutation(
        "S14",
        "stakes were fixed before rows came",
        f"{_CORE}/in_order.py",
        "    if isinstance(procedure, Betting | RatioBetting):\n        return replace(procedure, fixed_stakes=True)",
        "    if isinstance(procedure, Betting | RatioBetting):\n        return procedure",
        (f"{_INTERVALS}/test_betting.py",),
    ),
    Mutation(
        "S14",
        "no group is larger than was fixed",
        "everhold/sealing/arrivals.py",
        "    if larger:",
        "    if False:",
        ("everhold/integration/test_growing_families.py::test_groups_that_are_larger_than_was_said_are_refused",),
    ),
    Mutation(
        "S14",
        "a mixture of coins is normalised",
        f"{_CORE}/in_order.py",
        "mixed = special.betaln(ones + yes, zeros + no) - special.betaln(yes, no)",
        "mixed = special.betaln(ones + yes, zeros + no)",
        ("everhold/statistical/test_families_that_grow.py::test_no_schedule_beats_the_mixture_of_coins",),
    ),
    Mutation(
        "S15",
        "stakes share the capital",
        f"{_CORE}/in_order.py",
        "gains = bets.gains(np.array([[[1.0, centre]]]))[0, 0, 0, :, 0]",
        "gains = bets.gains(np.array([[[1.0, centre]]]))[0, 0, 0, :, 0] - bets.weights",
        (f"{_INTERVALS}/test_in_order.py",),
    ),
    Mutation(
        "S16",
        "shares of failing rows have a hundredth of what the weights leave",
        "everhold/guarantees/description_length.py",
        "return _OF_FAILING_ROWS * self.left_over / (1.0 - self.left_over)",
        "return 1.0",
        (_FAILING,),
    ),
    Mutation(
        "S16",
        "texts have the rest",
        "everhold/guarantees/description_length.py",
        "return (1.0 - _OF_FAILING_ROWS) * self.left_over",
        "return self.left_over",
        (_FAILING,),
    ),
    Mutation(
        "S16",
        "a told share is paid for",
        "everhold/mechanisms/labels.py",
        "return in_millionths(-math.log(_FAILING_TOLD) if told else -math.log1p(-_FAILING_TOLD))",
        "return 0",
        (_FAILING,),
    ),
    Mutation(
        "S16",
        "a share that is off is a surprise",
        "everhold/mechanisms/guess_and_check.py",
        "        run.surprise[having] |= shares.surprise\n",
        "",
        (_FAILING,),
    ),
    Mutation(
        "K",
        "stakes of both arms share the capital",
        f"{_CORE}/arms.py",
        "_WEIGHTS = np.log(np.append(_OWN, np.full(len(FRACTIONS), (1.0 - _OWN) / len(FRACTIONS))))",
        "_WEIGHTS = np.zeros(1 + len(FRACTIONS))",
        (f"{_INTERVALS}/test_arms.py",),
    ),
    Mutation(
        "K",
        "the box of both arms has a part of the level",
        f"{_CORE}/arms.py",
        "alone = nats - math.log((1.0 - _JOINT) / 2.0 if joint else 0.5)",
        "alone = nats",
        (_LEVELS,),
    ),
    Mutation(
        "K",
        "bets on both arms have the rest",
        f"{_CORE}/arms.py",
        "        side = side_of(nats - math.log(_JOINT))\n        low",
        "        side = nats\n        low",
        (_LEVELS,),
    ),
    Mutation(
        "K",
        "pairs that are not bet against stay",
        f"{_CORE}/arms.py",
        "        if ends[0] < plan.least or ends[1] + difference > plan.most:",
        "        if False:",
        (f"{_INTERVALS}/test_arms.py",),
    ),
    Mutation(
        "K",
        "one row of two models may take more from a bet than a row of one arm",
        f"{_CORE}/gains.py",
        "(0.0 if top[own] else bottom[own], bottom[other] if top[other] else 0.0)",
        "(0.0 if top[own] else bottom[own], 0.0)",
        (f"{_INTERVALS}/test_arms.py",),
    ),
    Mutation(
        "K",
        "rows of a group are one unit of both models",
        "everhold/queries/metrics/measures.py",
        "            if first.groups is not None:\n                sums = np.array",
        "            if False:\n                sums = np.array",
        ("everhold/integration/queries/test_rates_of_groups.py",),
    ),
    Mutation(
        "seals",
        "a holdout that is created again has the same rows",
        "everhold/asking/creation.py",
        "            if (folder / file).exists() and (Path(own) / file).exists() and not differing:",
        "            if False:",
        ("everhold/integration/sealing/test_creating_again.py",),
    ),
    Mutation(
        "seals",
        "a holdout that is created again has the same settings",
        "everhold/asking/creation.py",
        "        elif old != new:\n            found.append(name)\n",
        "",
        ("everhold/integration/sealing/test_creating_again.py",),
    ),
    Mutation(
        "secrets",
        "a lazy frame that cannot be collected quotes no cell",
        "everhold/sealing/intake/reading.py",
        "    with errors_hidden(lambda _: HoldoutRejected(fault)):\n        return source.head",
        "    if fault:\n        return source.head",
        ("everhold/integration/sealing/test_lazy_frames.py",),
    ),
    Mutation(
        "S9",
        "answers about different predictions are not combined on the page of two models",
        "everhold_server/web/views.py",
        "tuple((model, score[2]) for model, score in zip(models, scores, strict=True) if score)",
        'tuple((model, "") for model, score in zip(models, scores, strict=True) if score)',
        ("everhold-server/integration/test_compared_models.py",),
    ),
    Mutation(
        "S19",
        "rows whose follow-up ends within an interval do not survive it",
        "everhold/guarantees/intervals/survival.py",
        "self.alive @ self.counts",
        "(self.at_risk - self.events) @ self.counts",
        (f"{_INTERVALS}/test_survival.py",),
    ),
    Mutation(
        "S19",
        "groups of rows are units",
        "everhold/guarantees/intervals/survival.py",
        "        if self.largest is not None:",
        "        if False:",
        (f"{_INTERVALS}/test_survival.py",),
    ),
    Mutation(
        "S19",
        "stakes are averaged",
        "everhold/guarantees/intervals/survival.py",
        "_EVEN = -math.log(len(FRACTIONS))",
        "_EVEN = 0.0",
        (f"{_INTERVALS}/test_survival.py",),
    ),
    Mutation(
        "S19",
        "limits of single intervals share the level",
        "everhold/guarantees/intervals/survival.py",
        "    each = nats + math.log(len(events))",
        "    each = nats",
        (_LEVELS,),
    ),
    Mutation(
        "S19",
        "limits of single intervals and bets share the level",
        "everhold/guarantees/intervals/survival.py",
        "nats - math.log(_BOX), nats - math.log((1.0 - _BOX) / 2.0)",
        "nats, nats",
        (_LEVELS,),
    ),
    Mutation(
        "Boards of open results",
        "pairs of models share the level",
        "everhold/boards.py",
        "if chance > beta / left:",
        "if chance > beta:",
        ("everhold/integration/cli/test_boards.py",),
    ),
    Mutation(
        "Boards of open results",
        "the declared range chooses between exact and betting tests, not the scores seen",
        "everhold/boards.py",
        "    binary = low is None and high is None\n",
        "    binary = bool(np.all((table == 0.0) | (table == 1.0)))\n",
        ("everhold/integration/cli/test_boards.py::test_the_declared_range_chooses_the_test_and_not_the_scores_seen",),
    ),
    Mutation(
        "S18",
        "rows of a pool do not arrive",
        "everhold/families/pool.py",
        "new.found_in(pool) if named or new.repeats(pool) else 0",
        "0",
        ("everhold/integration/queries/test_assisted.py",),
    ),
    Mutation(
        "S18",
        "the share of a judge is known only within the pool's interval",
        "everhold/families/pool.py",
        "return part.within(nats + self.most_nats)",
        "return part.share, part.share",
        (f"{_INTERVALS}/test_strata.py",),
    ),
    Mutation(
        "S18",
        "all verdicts that a text could have share the level of its judge",
        "everhold/families/pool.py",
        "        if not self.verdict:\n",
        "        if True:\n",
        (f"{_INTERVALS}/test_strata.py",),
    ),
    Mutation(
        "S19",
        "rows with public features have no one law of survival",
        "everhold/queries/means/survival.py",
        "        if schema.features_public:\n",
        "        if False:\n",
        ("everhold/integration/queries/test_survival_queries.py",),
    ),
    Mutation(
        "S19",
        "the last step ends at the time that is asked about",
        "everhold/queries/means/survival.py",
        "float(Fraction(at) * place / steps)",
        "at * place / steps",
        ("everhold/integration/queries/test_survival_queries.py",),
    ),
    Mutation(
        "S11",
        "beside guards the unsealed gain has a level of its own",
        "everhold/gates/units.py",
        "nats += -math.log(_OF_GAIN) if guarded else math.log(len(suite.better))",
        "nats += 0.0 if guarded else math.log(len(suite.better))",
        ("everhold/unit/gates/test_unsealed_gains.py",),
    ),
    Mutation(
        "S11",
        "the claims of a gate with guards leave a tenth of the level",
        "everhold/gates/units.py",
        "return nats - math.log(1.0 - _OF_GAIN) if any(claim.guard for claim in self.suite.claims) else nats",
        "return nats",
        ("everhold/unit/gates/test_unsealed_gains.py",),
    ),
    Mutation(
        "S18",
        "a weight below 0 turns the pool's interval round",
        "everhold/queries/means/assisted.py",
        "sorted((weight * part.within[0], weight * part.within[1]))",
        "(weight * part.within[0], weight * part.within[1])",
        ("everhold/unit/guarantees/intervals/test_strata.py",),
    ),
    Mutation(
        "S18",
        "no group of a pool is sealed",
        "everhold/families/pool.py",
        "    if named in (compiler.mechanism.dependence.group_column, schema.row_id):\n",
        "    if named == schema.row_id:\n",
        ("everhold/integration/queries/test_assisted.py",),
    ),
    Mutation(
        "S18",
        "sums of groups are bet on, not rows",
        "everhold/families/pool.py",
        '"groups" if group_by is not None else "total"',
        '"cells" if group_by is not None else "total"',
        ("everhold/integration/queries/test_assisted.py",),
    ),
    Mutation(
        "S18",
        "each side has half of the level",
        f"{_CORE}/strata.py",
        "(lower_limit(each, self.within, side_of(nats)) for each",
        "(lower_limit(each, self.within, nats) for each",
        (f"{_INTERVALS}/test_strata.py",),
    ),
    Mutation(
        "S18",
        "no sealed row is in a pool",
        "everhold/families/pool.py",
        "            _check_unsealed(connection, known_by, compiler)\n",
        "",
        ("everhold/integration/queries/test_assisted.py",),
    ),
    Mutation(
        "S18",
        "a part of a pool is another pool",
        "everhold/queries/means/assisted.py",
        "if self.pool in (each.name, each.content)), None)",
        "if self.pool), None)",
        ("everhold/integration/queries/test_assisted.py",),
    ),
    Mutation(
        "M",
        "only the largest limit is told",
        "everhold/guarantees/description_length.py",
        "return float(np.max(np.asarray(uppers, dtype=np.float64)))",
        "return float(np.min(np.asarray(uppers, dtype=np.float64)))",
        ("everhold/integration/queries/test_choices.py::test_choices_are_those_of_the_sealed_rows",),
    ),
    Mutation(
        "M1",
        "any candidate may win",
        "everhold/guarantees/description_length.py",
        "each = nats + math.log(candidates) + apart",
        "each = nats + apart",
        ("everhold/statistical/test_largest_of_many.py::test_a_choice_misses_with_its_level_at_most",),
    ),
    Mutation(
        "M1",
        "three events share the level",
        "everhold/guarantees/description_length.py",
        "apart = math.log(1.5) if paired else 0.0",
        "apart = 0.0",
        (_LEVELS,),
    ),
    Mutation(
        "M1",
        "the order is a label",
        "everhold/mechanisms/forced_labels.py",
        "nats -= math.log(0.5 / len(left) + 0.5 / (rank * (rank + 1)))",
        "nats -= 0.0 * rank",
        ("everhold/unit/test_forced_labels.py::test_the_prior_of_orders_is_at_most_a_law",),
    ),
    Mutation(
        "M2",
        "a place for each candidate",
        "everhold/queries/selection/scan.py",
        "return state.after(asked=len(above), charged=0",
        "return state.after(asked=1, charged=0",
        (f"{_CHOICES}::test_a_scan_takes_a_place_for_each_candidate_and_who_is_above_is_paid_for",),
    ),
    Mutation(
        "M2",
        "who is above is a label",
        "everhold/queries/selection/scan.py",
        "labels=in_millionths(label + cost)), outcomes",
        "labels=in_millionths(cost)), outcomes",
        (f"{_CHOICES}::test_a_scan_takes_a_place_for_each_candidate_and_who_is_above_is_paid_for",),
    ),
    Mutation(
        "M2",
        "limits beyond the threshold",
        "everhold/queries/selection/scan.py",
        "return max(low, 0.0), min(high, 1.0)",
        "return max(low, at), min(high, at)",
        ("everhold/statistical/test_choices_exact.py", _CHOICES),
    ),
    Mutation(
        "M3",
        "an edge whose share is surely below",
        "everhold/queries/selection/quantile.py",
        "lambda place: ends(place)[1] < self.level)",
        "lambda place: ends(place)[0] < self.level)",
        ("everhold/statistical/test_choices_exact.py", _CHOICES),
    ),
    Mutation(
        "M3",
        "an edge whose share is surely above",
        "everhold/queries/selection/quantile.py",
        "lambda place: not ends(place)[0] > self.level)",
        "lambda place: not ends(place)[1] > self.level)",
        ("everhold/statistical/test_choices_exact.py", _CHOICES),
    ),
    Mutation(
        "M4",
        "marks are paid for",
        "everhold/queries/selection/synthesis.py",
        "error, cost, found = self.shares.error(seen, weights, nats + label)",
        "error, cost, found = self.shares.error(seen, weights, nats)",
        ("everhold/statistical/test_choices_exact.py", _CHOICES),
    ),
    Mutation(
        "A1",
        "blocks are dealt with the key",
        "everhold/guarantees/intervals/ranking.py",
        "upper, lower = scores[order[positive[order]]], scores[order[~positive[order]]]",
        "upper, lower = np.sort(scores[positive]), np.sort(scores[~positive])",
        (f"{_INTERVALS}/test_ranking.py",),
    ),
    Mutation(
        "A2",
        "the share of the class",
        f"{_CORE}/ranking.py",
        "return procedure.interval(share, nats + math.log(_SHARE_OF_CLASSES))",
        "return share, share",
        (_LEVELS,),
    ),
    Mutation(
        "A2",
        "rows on which a model fails lose",
        f"{_CORE}/ranking.py",
        "high = max(area_from_ranks(units[1] + failing[0], share) for share in shares)",
        "high = max(area_from_ranks(units[1], share) for share in shares)",
        (f"{_INTERVALS}/test_ranking.py",),
    ),
    Mutation(
        "A3",
        "both scores are dealt alike",
        "everhold/queries/metrics/ranking.py",
        "blocks = [block_averages(each, positive, order) for each in ranked]",
        "blocks = [block_averages(each, positive, order[:: 1 - 2 * place]) for place, each in enumerate(ranked)]",
        (
            f"{_INTERVALS}/test_ranking_difference.py::test_both_scores_are_dealt_alike_and_the_reach_is_that_of_all_rows",
        ),
    ),
    Mutation(
        "A4",
        "ranks have the rest of the level",
        f"{_CORE}/ranking.py",
        "return nats - math.log1p(-1.0 / _SHARE_OF_CLASSES)",
        "return nats",
        (_LEVELS,),
    ),
    Mutation(
        "A4",
        "the reach is that of all rows",
        "everhold/queries/metrics/ranking.py",
        "return max(float(np.max(np.abs(public_ranks(first) - public_ranks(second)))), 1.0 / len(first))",
        "return max(float(np.mean(np.abs(public_ranks(first) - public_ranks(second)))), 1.0 / len(first))",
        (
            f"{_INTERVALS}/test_ranking_difference.py::test_both_scores_are_dealt_alike_and_the_reach_is_that_of_all_rows",
        ),
    ),
    Mutation(
        "A6",
        "blocks that share a group share the capital",
        f"{_CORE}/ranking.py",
        "counts = wide / _degrees(blocks, wide, bundles).max()",
        "counts = np.ones_like(wide)",
        (f"{_INTERVALS}/test_blocks_of_groups.py",),
    ),
    Mutation(
        "A6",
        "a block has room for all pairs of its rows",
        f"{_CORE}/ranking.py",
        "rows**2 / 4.0",
        "rows**2 / 16.0",
        (f"{_INTERVALS}/test_blocks_of_groups.py",),
    ),
    Mutation(
        "bounds for missing values",
        "a row without a value may meet the condition",
        "everhold/queries/means/combined.py",
        'f"({text}) or not ({known})"',
        'f"({text}) and {known}"',
        (_BOUNDED,),
    ),
    Mutation(
        "C1",
        "weighted F1: the shares of the classes",
        f"{_CORE}/gains.py",
        "both_sides = nats + math.log(2.0) + math.log((count + 1) / _OF_SHARES)",
        "both_sides = nats",
        (_LEVELS,),
    ),
    Mutation(
        "C1",
        "classes share the level",
        f"{_CORE}/gains.py",
        "each = nats + math.log(count) - (math.log1p(-_OF_SHARES) if self.weighted else 0.0)",
        "each = nats",
        (_LEVELS,),
    ),
    Mutation(
        "C2",
        "stakes of a free ratio share the capital",
        f"{_CORE}/parts.py",
        "np.full(len(FRACTIONS), -math.log(len(FRACTIONS)))",
        "np.zeros(len(FRACTIONS))",
        (f"{_INTERVALS}/test_composites.py",),
    ),
    Mutation(
        "C3",
        "above: the least capital over all signs",
        f"{_CORE}/thresholds.py",
        "logs = np.minimum(steps @ mass.T, steps @ turned.T).sum(axis=1)",
        "logs = np.maximum(steps @ mass.T, steps @ turned.T).sum(axis=1)",
        (f"{_INTERVALS}/test_rules_and_bins.py",),
    ),
    Mutation(
        "C3",
        "below: signs share the level",
        f"{_CORE}/thresholds.py",
        "logs = (np.logaddexp(steps @ mass.T, steps @ turned.T) - math.log(2.0)).sum(axis=1)",
        "logs = np.logaddexp(steps @ mass.T, steps @ turned.T).sum(axis=1)",
        (f"{_INTERVALS}/test_rules_and_bins.py",),
    ),
    Mutation(
        "C3",
        "stakes share the capital",
        f"{_CORE}/thresholds.py",
        "- math.log(len(_STAKES)) - doubt",
        "- doubt",
        (f"{_INTERVALS}/test_rules_and_bins.py",),
    ),
    Mutation(
        "C5",
        "the share of losses below the median is not known",
        f"{_CORE}/thresholds.py",
        "below, above = leading(1, math.nextafter(0.5, 0.0)), leading(0, 0.5)",
        "below, above = leading(0, math.nextafter(0.5, 0.0)), leading(1, 0.5)",
        (f"{_INTERVALS}/test_rules_and_bins.py",),
    ),
    Mutation(
        "C4",
        "two events on each side",
        f"{_CORE}/thresholds.py",
        "side = nats + math.log(2.0)",
        "side = nats",
        (_LEVELS,),
    ),
    Mutation(
        "C4",
        "the false positive rate is not known",
        f"{_CORE}/thresholds.py",
        "lambda count: alarms(count, upper=True) <= self.rate)",
        "lambda count: count <= self.rate * seen.negatives)",
        (_LEVELS,),
    ),
    Mutation(
        "inference after selection",
        "the tree of the session is paid for",
        "everhold_lab/theory/post_selection.py",
        "level = bits * math.log(2.0) - math.log(_left_of(1.0 - confidence, dependence, failure))",
        "level = -math.log(_left_of(1.0 - confidence, dependence, failure))",
        ("everhold-lab/theory/test_post_selection.py",),
    ),
    Mutation(
        "budget",
        "every query has its own allowance",
        "everhold_privacy/mechanisms/privacy_budget.py",
        "return mechanism.bound.alpha if planned else allowance(mechanism, scale)",
        "return mechanism.bound.alpha",
        ("everhold-privacy/unit/mechanisms/test_privacy_budget.py",),
    ),
    Mutation(
        "budget",
        "a choice has twice the bound",
        "everhold_privacy/mechanisms/selection.py",
        "return min(alpha + 2.0 * (bound.radius - bound.alpha) + self.budget.rounding, 1.0)",
        "return min(alpha + (bound.radius - bound.alpha) + self.budget.rounding, 1.0)",
        ("everhold-privacy/unit/mechanisms", "everhold-privacy/integration/test_spending.py"),
    ),
    Mutation(
        "budget",
        "an answer is charged",
        "everhold_privacy/mechanisms/privacy_budget.py",
        "return state.after(charged=price), drawn",
        "return state.after(charged=0), drawn",
        (
            "everhold-privacy/unit/mechanisms/test_vector_noise.py",
            "everhold-privacy/unit/mechanisms/test_privacy_budget.py",
        ),
    ),
    Mutation(
        "vectors, low sensitivity",
        "coordinates share the exceedance",
        "everhold_privacy/mechanisms/privacy_budget.py",
        "wanted = 0.5 * self.budget.own_exceedance / (self.dimension * scale)",
        "wanted = 0.5 * self.budget.own_exceedance / scale",
        ("everhold-privacy/unit/mechanisms/test_vector_noise.py",),
    ),
    Mutation(
        "synthetic data",
        "one row moves a loss by the size of a table",
        "everhold_privacy/synthetic.py",
        "return ExponentialMechanism(self.epsilon, sensitivity=self.size * UNIT)",
        "return ExponentialMechanism(self.epsilon, sensitivity=UNIT)",
        ("everhold-privacy/unit/synthetic/test_synthetic_blr.py",),
    ),
    Mutation(
        "synthetic data",
        "every round is counted",
        "everhold_privacy/synthetic.py",
        "ZeroConcentratedCurve(self.rounds * (self.choice_epsilon**2 / 8.0 + 0.5 / noise**2))",
        "ZeroConcentratedCurve(self.choice_epsilon**2 / 8.0 + 0.5 / noise**2)",
        ("everhold-privacy/unit/synthetic/test_synthetic_mwem.py",),
    ),
    Mutation(
        "selection",
        "losses move in both directions",
        "everhold_privacy/mechanisms/selection.py",
        "return Fraction(float(self.epsilon)) / (2 * int(self.sensitivity))",
        "return Fraction(float(self.epsilon)) / int(self.sensitivity)",
        ("everhold-privacy/unit/mechanisms/test_selection.py",),
    ),
    Mutation(
        "selection",
        "the regret has two posteriors",
        "everhold_lab/theory/classical.py",
        "share = (1.0 - on_rows - 2.0 * leak.delta / beta) / 2.0",
        "share = (1.0 - on_rows - leak.delta / beta) / 2.0",
        ("everhold-lab/theory/test_theory_regret.py",),
    ),
    Mutation(
        "the grid",
        "rows and noise are rounded",
        "everhold/mechanisms/base.py",
        "return 2.0 * self.row_step\n",
        "return 0.0\n",
        ("everhold/unit/mechanisms/test_base_edges.py", "everhold-privacy/unit/mechanisms/test_base_rounding.py"),
    ),
    Mutation(
        "failing rows",
        "a failing row is a wrong answer",
        "everhold/values/evaluation.py",
        "np.where(np.isnan(outputs), labels != number, outputs == number)",
        "np.where(np.isnan(outputs), False, outputs == number)",
        ("everhold/integration/queries/test_failing_rows.py",),
    ),
    Mutation(
        "failing rows",
        "a failing row has the worst rank",
        "everhold/values/evaluation.py",
        "np.where(np.asarray(labels) == 1, -np.inf, np.inf), scores)",
        "0.0, scores)",
        ("everhold/integration/queries/test_failing_rows.py",),
    ),
    Mutation(
        "failing rows",
        "a failing row has the largest loss",
        "everhold/values/evaluation.py",
        "return np.where(np.isnan(losses), np.inf, losses)",
        "return np.where(np.isnan(losses), 0.0, losses)",
        ("everhold/integration/queries/test_failing_rows.py",),
    ),
    Mutation(
        "commit before answer",
        "the head file moves on first",
        "everhold/ledger/ledger.py",
        "            self.head_file.advance(reached)",
        "            pass",
        ("everhold/integration/test_restored_ledgers.py",),
    ),
    Mutation(
        "commit before answer",
        "writers that share a commit wait for it",
        "everhold/ledger/database.py",
        "            group.done.wait()",
        "            pass",
        ("everhold/integration/ledger/test_ledger_store.py",),
    ),
    Mutation(
        "commit before answer",
        "a commit is on the disk",
        "everhold/ledger/address.py",
        "PRAGMA synchronous = FULL",
        "PRAGMA synchronous = OFF",
        ("everhold/integration/ledger/test_ledger_database.py",),
    ),
    Mutation(
        "commit before answer",
        "a ledger that was set back is refused",
        "everhold/ledger/head_file.py",
        "        if found < self:",
        "        if False:",
        ("everhold/integration/test_restored_ledgers.py",),
    ),
    Mutation(
        "seals",
        "an altered entry is not believed",
        "everhold/ledger/ledger.py",
        "unaltered = row[-2] == known and hmac.compare_digest(row[-1], seal)",
        "unaltered = True",
        ("everhold/integration/test_tampered_answers.py", "everhold/integration/test_altered_ledgers.py"),
    ),
    Mutation(
        "seals",
        "an altered head is not believed",
        "everhold/ledger/ledger.py",
        "if not hmac.compare_digest(seal.encode(), seal_of(self.key, holdout=self.holdout, **fields).encode()):",
        "if False:",
        ("everhold/integration/test_altered_ledgers.py::test_an_altered_head_answers_nothing",),
    ),
    Mutation(
        "seals",
        "a missing entry is noticed",
        "everhold/ledger/ledger.py",
        "            if not all(each in known for each in stored):",
        "            if False:",
        ("everhold/integration/ledger/test_entry_index.py", "everhold/integration/test_altered_ledgers.py"),
    ),
    Mutation(
        "seals",
        "sealed rows are those that were sealed",
        "everhold/sealing/rows/embedded.py",
        "check_fingerprint(self._path, self._expected, what=self._what)",
        "pass",
        ("everhold/integration/sealing/test_fingerprints.py",),
    ),
    Mutation(
        "seals",
        "an envelope belongs to its query",
        "everhold/ledger/ledger.py",
        'f"{holdout}\\n{query}".encode()',
        'b""',
        ("everhold/integration/ledger/test_sealed_values.py",),
    ),
    Mutation(
        "secrets",
        "sealed sums are in no representation",
        "everhold/mechanisms/guess_and_check.py",
        "totals: NDArray[np.int64] = field(repr=False)",
        "totals: NDArray[np.int64]",
        (_STEPS,),
    ),
    Mutation(
        "secrets",
        "private files are for their owner",
        "everhold/private_files.py",
        "mode: int = 0o600",
        "mode: int = 0o644",
        ("everhold/unit/test_private_files.py", "everhold/integration/sealing/test_keys.py"),
    ),
    Mutation(
        "limits",
        "an analyst has an allotment",
        "everhold/ledger/acts.py",
        "return left if price == 0 else min(left, (self.charges - self.charged) // price)",
        "return left",
        (f"{_GATES}/test_budget.py",),
    ),
    Mutation(
        "limits",
        "files of strangers have a limit of memory",
        "everhold_server/untrusted/worker.py",
        "        resource.setrlimit(kind, most)",
        "        pass",
        ("everhold-server/integration/test_untrusted_files.py::test_memory_time_files_and_core_dumps_are_limited",),
    ),
    Mutation(
        "limits",
        "files of strangers have a limit of size",
        "everhold_server/untrusted/worker.py",
        "    if path.stat().st_size > limits.content:",
        "    if False:",
        ("everhold-server/integration/test_untrusted_files.py",),
    ),
    Mutation(
        "parts",
        "a row of one part is in no other",
        "everhold/sealing/intake/splitting.py",
        'POSITIONAL JOIN dealt WHERE dealt.part = {number}"',
        'POSITIONAL JOIN dealt WHERE dealt.part >= {number}"',
        (
            "everhold/integration/test_studies.py::test_each_row_is_in_one_part_and_groups_are_whole",
            "everhold-competitions/integration/test_public_rows.py",
        ),
    ),
    Mutation(
        "places",
        "a team's worst rank leaves out only those that are proved worse",
        "everhold_competitions/ranking.py",
        "len(place) - int(worse_teams[number])",
        "int(better[number]) + 1",
        ("everhold-competitions/integration/test_submissions.py::test_a_better_place_alone_is_no_proof",),
    ),
    Mutation(
        "public rows",
        "a team's best that stands says nothing nearer than a step",
        "everhold_competitions/ladder.py",
        "span = (shown - half, shown + half) if rises else (shown - self.step, ends[1])",
        "span = (shown - half, shown + half) if rises else (shown, ends[1])",
        ("everhold-competitions/unit/test_ladder.py::test_what_a_team_is_told_covers_the_sealed_interval",),
    ),
    Mutation(
        "public rows",
        "every file with other public predictions is counted",
        "everhold_competitions/session.py",
        "if (team.latest, team.public) != (predicted, public):",
        "if team.latest != predicted:",
        (
            "everhold-competitions/integration/test_public_rows.py"
            "::test_a_file_that_differs_on_public_rows_alone_is_a_submission",
        ),
    ),
    Mutation(
        "public rows",
        "a score that does not rise by a step is not told",
        "everhold_competitions/ladder.py",
        "rises = guess < 0 or 2 * loss * grid < (2 * standing - self.margin) * steps",
        "rises = True",
        (
            "everhold-competitions/integration/test_public_rows.py::test_every_file_gets_its_public_score_and_the_final_board_is_about_the_other_rows",
        ),
    ),
    Mutation(
        "secrets",
        "a message about a file names a sealed cell and quotes none",
        "everhold/sealing/intake/files.py",
        'brief(cell) if is_open else "no number"',
        "brief(cell)",
        (
            "everhold-server/e2e/web/test_web_pages.py::test_a_cell_of_open_rows_is_quoted_and_of_sealed_ones_only_named",
        ),
    ),
    Mutation(
        "places",
        "two models are apart by what both of their intervals leave",
        "everhold_server/web/views.py",
        "within.append((one[0] - other[1], one[1] - other[0]))",
        "within.append((one[0] - other[0], one[1] - other[1]))",
        ("everhold-server/e2e/web/test_web_pages.py::test_two_models_of_a_tracker_are_compared_for_nothing",),
    ),
    Mutation(
        "parts",
        "whole groups go to one part",
        "everhold/sealing/intake/splitting.py",
        'ranks["unit"] = ranks.get("groups") or ranks.get("order") or "rowid"',
        'ranks["unit"] = "rowid"',
        ("everhold/integration/test_studies.py::test_each_row_is_in_one_part_and_groups_are_whole",),
    ),
    Mutation(
        "parts",
        "the whole is named by the digest of its parts",
        "everhold/certificate/verification.py",
        '(dealt["whole"] != digest_of_parts(every),',
        "(False,",
        (
            "everhold/integration/test_studies.py::test_certificates_of_two_parts_name_the_same_whole_and_cannot_be_of_one_part",
        ),
    ),
    Mutation(
        "places",
        "the file of a disqualified team is not to be beaten",
        "everhold_competitions/session.py",
        "        return next((each for each in reversed(self.leaders()) if each in on_board), None)\n",
        "        return gates[-1].champion\n",
        ("everhold-competitions/integration/test_ranking_of_leaders.py",),
    ),
    Mutation(
        "places",
        "leaders that a later one was not compared with are left out",
        "everhold_competitions/session.py",
        "found = [*found[: found.index(gate.first)], gate.first] if gate.first in found else [gate.first]",
        "found = [*found, gate.first]",
        (
            "everhold-competitions/integration/test_ranking_of_leaders.py::test_a_file_of_a_former_leader_has_no_place_that_is_not_proved",
        ),
    ),
    Mutation(
        "sign-in",
        "the audience of an identity token is checked",
        "everhold_server/sign_in.py",
        'aud={"essential": True, "value": self.client_id}, exp',
        'aud={"essential": True}, exp',
        ("everhold-server/integration/service/test_sign_in.py",),
    ),
    Mutation(
        "sign-in",
        "an identity token that is expired is refused",
        "everhold_server/sign_in.py",
        ' exp={"essential": True},',
        "",
        ("everhold-server/integration/service/test_sign_in.py",),
    ),
    Mutation(
        "sign-in",
        "a session that is expired is refused",
        "everhold_server/sessions.py",
        "row is None or row.expires <= stamp(moment) or",
        "row is None or",
        ("everhold-server/integration/service/test_sessions.py::test_a_session_ends_although_somebody_is_there",),
    ),
    Mutation(
        "sign-in",
        "a role needs a claim of one of its groups",
        "everhold_server/sign_in.py",
        "            if rule.group in person.groups:\n",
        "            if True:\n",
        (
            "everhold-server/integration/service/test_sign_in.py::test_who_has_no_role_no_verified_name_or_the_name_of_another_is_told_why_and_not_let_in",
        ),
    ),
    Mutation(
        "sign-in",
        "two teams of one name get no tokens",
        "everhold_server/token_store.py",
        '                refuse_look_alikes(name, [*known, *(each for each in there if each != name)], of="team")\n',
        "",
        ("everhold-server/integration/test_cli_token.py::test_each_team_of_a_csv_gets_a_token_all_of_them_or_none",),
    ),
    Mutation(
        "sign-in",
        "an agent of a team has none of the host's tools",
        "everhold_server/mcp/tools.py",
        "and (steward or each.role is not Role.STEWARD)",
        "and True",
        (
            "everhold-server/integration/mcp/test_mcp_competitions.py::test_a_team_has_the_board_and_none_of_the_hosts_tools",
        ),
    ),
    Mutation(
        "leases",
        "a job's lease is by the clock of the database, which all servers share",
        "everhold_server/jobs.py",
        "return int(connection.exec_driver_sql(_NOW[connection.dialect.name]).scalar_one())",
        'return int(__import__("time").time() * 1000)',
        (
            "everhold-server/integration/service/test_jobs.py::test_a_lease_is_had_once_however_far_the_clocks_of_two_servers_differ",
        ),
    ),
]

PROMISES = {
    "failing rows", "commit before answer", "seals", "secrets", "limits", "parts", "public rows",
    "bounds for missing values", "places", "sign-in", "leases",
}  # fmt: skip
"""Headings of `MUTATIONS` that are promises of the README and the guides, and no lines of docs/theory/index.md."""

NOT_REMOVED = {
    "without a trusted curator": "Mechanisms of the sources, in the lab; no answer of a holdout rests on them.",
    "A5": "It says how narrow an interval can be, and no answer rests on it.",
    **{f"P{number}": "A bound of the literature, beside everhold's; no answer rests on it." for number in range(1, 13)},
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
