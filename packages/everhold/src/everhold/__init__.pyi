"""The public names of the core, as type checkers see them; those of extensions are of any type."""

from typing import Any

from everhold.answers import Answer as Answer
from everhold.answers import Transcript as Transcript
from everhold.boards import board as board
from everhold.certificate import Certificate as Certificate
from everhold.certificate import verify_certificate as verify_certificate
from everhold.dependence import DependenceModel as DependenceModel
from everhold.dependence import GaussianAR1 as GaussianAR1
from everhold.dependence import Groups as Groups
from everhold.dependence import Independent as Independent
from everhold.dependence import InOrder as InOrder
from everhold.dependence import MarkovChain as MarkovChain
from everhold.diagnosis.diagnosis import Diagnosis as Diagnosis
from everhold.errors import AuthError as AuthError
from everhold.errors import BudgetExhausted as BudgetExhausted
from everhold.errors import BudgetWarning as BudgetWarning
from everhold.errors import CaseRejected as CaseRejected
from everhold.errors import ColumnWarning as ColumnWarning
from everhold.errors import DependenceError as DependenceError
from everhold.errors import DependenceWarning as DependenceWarning
from everhold.errors import EverholdError as EverholdError
from everhold.errors import EverholdWarning as EverholdWarning
from everhold.errors import HoldoutNotFound as HoldoutNotFound
from everhold.errors import HoldoutRejected as HoldoutRejected
from everhold.errors import IntegrityError as IntegrityError
from everhold.errors import NonAdaptiveWarning as NonAdaptiveWarning
from everhold.errors import NotFound as NotFound
from everhold.errors import QueryRejected as QueryRejected
from everhold.errors import SmallHoldoutWarning as SmallHoldoutWarning
from everhold.errors import Unavailable as Unavailable
from everhold.errors import VacuousGuaranteeWarning as VacuousGuaranteeWarning
from everhold.families.grid import grid as grid
from everhold.families.listed import listed as listed
from everhold.families.pool import pool as pool
from everhold.families.protocol import protocol as protocol
from everhold.families.study import plan as plan
from everhold.families.subgroups import subgroups as subgroups
from everhold.families.texts import texts as texts
from everhold.gates.gate import Gate as Gate
from everhold.holdout import Holdout as Holdout
from everhold.mechanisms import GuessAndCheck as GuessAndCheck
from everhold.planning import Plan as Plan
from everhold.planning import least_step as least_step
from everhold.planning import queries_allowed as queries_allowed
from everhold.planning import rows_needed as rows_needed
from everhold.queries.makers import difference as difference
from everhold.queries.makers import mean as mean
from everhold.queries.makers import ratio as ratio
from everhold.queries.means.contrast import risk_difference as risk_difference
from everhold.queries.means.contrast import risk_ratio as risk_ratio
from everhold.queries.means.distribution import correlation as correlation
from everhold.queries.means.distribution import covariance as covariance
from everhold.queries.means.distribution import histogram as histogram
from everhold.queries.means.distribution import sharpe_ratio as sharpe_ratio
from everhold.queries.means.distribution import standard_deviation as standard_deviation
from everhold.queries.means.distribution import variance as variance
from everhold.queries.means.survival import restricted_mean_survival as restricted_mean_survival
from everhold.queries.means.survival import survival as survival
from everhold.queries.metrics.ranking import auc as auc
from everhold.queries.metrics.ranking import f1 as f1
from everhold.queries.metrics.row_scores import accuracy as accuracy
from everhold.queries.metrics.row_scores import brier as brier
from everhold.queries.metrics.row_scores import error as error
from everhold.queries.metrics.row_scores import risk as risk
from everhold.queries.metrics.scores import at_thresholds as at_thresholds
from everhold.queries.metrics.scores import metric as metric
from everhold.queries.metrics.scores import precision as precision
from everhold.queries.metrics.scores import recall as recall
from everhold.queries.predictions.columns import predictions_in as predictions_in
from everhold.queries.selection.choice import choose as choose
from everhold.queries.selection.quantile import quantile as quantile
from everhold.queries.selection.scan import all_above as all_above
from everhold.queries.selection.scan import first_above as first_above
from everhold.queries.selection.synthesis import synthesize as synthesize
from everhold.sealing.intake.request import Planning as Planning
from everhold.sealing.intake.request import Rows as Rows
from everhold.suites import add_cases as add_cases
from everhold.suites import seal_cases as seal_cases

__version__: str
__all__: list[str]

def __getattr__(name: str) -> Any: ...  # names that extensions add
