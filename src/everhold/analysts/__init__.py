"""Simulated analysts: what honest and attacking people do with a holdout, as pure strategies.

An analyst plays on a `Board`, which scores rules and votes of rules; it never sees rows, files or mechanisms. The same
analyst therefore plays against a real holdout, a bare average and a simulated mechanism.
"""

from everhold.analysts.base import Analyst, Board, Claim, Vote, best_claim
from everhold.analysts.fingerprinting import FingerprintingAnalyst
from everhold.analysts.greedy import GreedySelectionAnalyst
from everhold.analysts.hill_climbing import HillClimbingAnalyst
from everhold.analysts.honest import HonestAnalyst
from everhold.analysts.rules import RandomRules, RunningVote

__all__ = [
    "Analyst",
    "Board",
    "Claim",
    "FingerprintingAnalyst",
    "GreedySelectionAnalyst",
    "HillClimbingAnalyst",
    "HonestAnalyst",
    "RandomRules",
    "RunningVote",
    "Vote",
    "best_claim",
]
