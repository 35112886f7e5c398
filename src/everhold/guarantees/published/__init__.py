"""The published statements P1 to P12 of the theory, each as one pure function.

All of them are for independent rows unless their docstring says otherwise. ``STATEMENTS`` holds those that
promise something about a whole session, in the form the planner compares.
"""

from __future__ import annotations

from everhold.guarantees.published.bound import PublishedBound, PublishedStatement, SessionBound
from everhold.guarantees.published.classical import (
    hoeffding_failure,
    hoeffding_radius,
    hoeffding_splitting,
    hoeffding_splitting_rows,
    mcsherry_bias,
)
from everhold.guarantees.published.dwork2015 import (
    DworkCalibration,
    dwork_lemma_23_approximate,
    dwork_lemma_23_pure,
    dwork_lemma_24,
    dwork_n_0,
    dwork_n_1,
    dwork_theorem_25,
    dwork_theorem_25_calibration,
    dwork_theorem_25_rows,
)
from everhold.guarantees.published.jung2020 import (
    SampleFailure,
    gaussian_sample_failure,
    jung_2020,
    jung_2020_rows,
    jung_pure_radius,
    jung_radius,
    laplace_sample_failure,
)
from everhold.guarantees.published.ladder import ladder_excess, ladder_failure, ladder_radius
from everhold.guarantees.published.max_information import (
    dwork_theorem_17,
    dwork_theorem_19,
    dwork_theorem_20,
    p_value_threshold,
    zhao_theorem_3,
)
from everhold.guarantees.published.rogers2020 import rogers_2020_monitor, rogers_2020_monitor_rows, rogers_width
from everhold.guarantees.published.statements import STATEMENTS
from everhold.guarantees.published.utility import blr_error, blr_rows, exponential_utility, small_database_rows
from everhold.guarantees.published.zhao2017 import (
    ZhaoCalibration,
    blanket_price,
    independent_price,
    quilt_price,
    zhao_lemma_1,
    zhao_lemma_2,
    zhao_lemma_3,
    zhao_n_sharp,
    zhao_n_star,
    zhao_privacy,
    zhao_theorem_2,
    zhao_theorem_2_calibration,
    zhao_theorem_2_rows,
    zhao_theorem_2_rows_as_printed,
)

__all__ = [
    "STATEMENTS",
    "DworkCalibration",
    "PublishedBound",
    "PublishedStatement",
    "SampleFailure",
    "SessionBound",
    "ZhaoCalibration",
    "blanket_price",
    "blr_error",
    "blr_rows",
    "dwork_lemma_23_approximate",
    "dwork_lemma_23_pure",
    "dwork_lemma_24",
    "dwork_n_0",
    "dwork_n_1",
    "dwork_theorem_17",
    "dwork_theorem_19",
    "dwork_theorem_20",
    "dwork_theorem_25",
    "dwork_theorem_25_calibration",
    "dwork_theorem_25_rows",
    "exponential_utility",
    "gaussian_sample_failure",
    "hoeffding_failure",
    "hoeffding_radius",
    "hoeffding_splitting",
    "hoeffding_splitting_rows",
    "independent_price",
    "jung_2020",
    "jung_2020_rows",
    "jung_pure_radius",
    "jung_radius",
    "ladder_excess",
    "ladder_failure",
    "ladder_radius",
    "laplace_sample_failure",
    "mcsherry_bias",
    "p_value_threshold",
    "quilt_price",
    "rogers_2020_monitor",
    "rogers_2020_monitor_rows",
    "rogers_width",
    "small_database_rows",
    "zhao_lemma_1",
    "zhao_lemma_2",
    "zhao_lemma_3",
    "zhao_n_sharp",
    "zhao_n_star",
    "zhao_privacy",
    "zhao_theorem_2",
    "zhao_theorem_2_calibration",
    "zhao_theorem_2_rows",
    "zhao_theorem_2_rows_as_printed",
    "zhao_theorem_3",
]
