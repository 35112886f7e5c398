"""Simulated analysts: what honest and attacking people do with a holdout, as pure strategies.

An analyst plays on a `Board`, which scores rules and votes of rules; it never sees rows, files or mechanisms. The same
analyst therefore plays against a real holdout, a bare average and a simulated mechanism.
"""

from everhold_lab.analysts.rules import CrowdAnalyst, RandomRules, RunningVote, row_keys
from everhold_lab.analysts.strategies import (
    Analyst,
    BatchBoard,
    Board,
    BoostingAnalyst,
    Claim,
    FingerprintingAnalyst,
    GreedySelectionAnalyst,
    HillClimbingAnalyst,
    HonestAnalyst,
    OptimisingAnalyst,
    Vote,
    best_claim,
    scores_of_votes,
)

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
