"""Two processes that ask at once share one budget."""

import pytest
from holdout_children import surprise_often
from holdout_samples import ROWS, create
from prepared_processes import prepared_processes

from everhold import Holdout, Thresholdout, VacuousGuaranteeWarning

CAP = 5


def test_two_processes_never_overspend(tmp_path):
    scales = {"threshold_scale": 1e-6, "comparison_scale": 1e-6, "answer_scale": 0.01}
    mechanism = Thresholdout(rows=ROWS, queries=100, surprises=CAP, threshold=0.1, **scales)
    storage = f"sqlite:///{tmp_path}/study.db"
    with pytest.warns(VacuousGuaranteeWarning):
        create(tmp_path, mechanism=mechanism, training=None, allow_vacuous=True).close()
    barrier, results = prepared_processes.Barrier(2), prepared_processes.Queue()
    children = [
        prepared_processes.Process(target=surprise_often, args=(storage, n, barrier, results)) for n in range(2)
    ]
    for child in children:
        child.start()
    charged = sum(results.get(timeout=60) for _ in children)
    for child in children:
        child.join()
    with Holdout.open(storage, "study") as holdout:
        assert charged == holdout.status()["charged"] == CAP
        assert holdout.remaining["surprises"] == 0
        assert len(holdout.transcript()) == CAP  # what was refused is not recorded
