"""Simulated analysts: what honest and attacking people do with a holdout, as pure strategies.

An analyst plays on a `Board`, which scores rules and votes of rules; it never sees rows, files or mechanisms. The same
analyst therefore plays against a real holdout, a bare average and a simulated mechanism.
"""

from everhold_lab.analysts.base import Analyst, BatchBoard, Board, Claim, Vote, best_claim, scores_of_votes
from everhold_lab.analysts.boosting import BoostingAnalyst
from everhold_lab.analysts.crowd import CrowdAnalyst
from everhold_lab.analysts.fingerprinting import FingerprintingAnalyst
from everhold_lab.analysts.greedy import GreedySelectionAnalyst
from everhold_lab.analysts.hill_climbing import HillClimbingAnalyst
from everhold_lab.analysts.honest import HonestAnalyst
from everhold_lab.analysts.optimising import OptimisingAnalyst
from everhold_lab.analysts.rules import RandomRules, RunningVote, row_keys

__all__ = [
    "Analyst",
    "BatchBoard",
    "Board",
    "BoostingAnalyst",
    "Claim",
    "CrowdAnalyst",
    "FingerprintingAnalyst",
    "GreedySelectionAnalyst",
    "HillClimbingAnalyst",
    "HonestAnalyst",
    "OptimisingAnalyst",
    "RandomRules",
    "RunningVote",
    "Vote",
    "best_claim",
    "row_keys",
    "scores_of_votes",
]
