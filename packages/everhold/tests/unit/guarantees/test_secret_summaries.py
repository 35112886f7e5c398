"""No summary of sealed rows shows its numbers, so none stands in a log that shows the locals of a fault."""

import numpy as np
import pytest

from everhold.guarantees.intervals.base import Cells, GroupSums, Pairs
from everhold.guarantees.intervals.joint import JointBets, Units
from everhold.guarantees.intervals.parts import SeenParts
from everhold.guarantees.intervals.ranking import SeenScores
from everhold.guarantees.intervals.thresholds import SeenBins, SeenRules

SECRET, SECRETS = 0.654321, np.array([654321])
SUMMARIES = [
    Cells(SECRETS, SECRETS, 1),
    GroupSums(SECRETS, SECRETS, SECRETS, 1),
    Pairs(SECRETS, SECRETS, SECRETS, SECRETS, 1),
    Units(SECRETS, SECRETS, SECRETS, 1.0),
    JointBets(SECRETS, SECRETS, SECRETS, SECRETS, SECRETS),
    SeenBins(SECRET, SECRETS),
    SeenRules(SECRET, SECRETS, SECRETS),
    SeenParts(SECRET, (Units(SECRETS, SECRETS, SECRETS, 1.0),)),
    SeenScores(SECRET, SECRETS, SECRET),
]


@pytest.mark.parametrize("summary", SUMMARIES, ids=[type(each).__name__ for each in SUMMARIES])
def test_a_summary_shows_no_number(summary):
    assert "654321" not in repr(summary)
