"""A storage whose path has signs of patterns."""

import holdout_samples as samples

from everhold import Holdout


def test_a_storage_may_have_brackets_in_its_path(tmp_path):
    (folder := tmp_path / "study[1]").mkdir()
    with samples.create(folder) as holdout:
        answer = holdout.ask("delay > 15")
    with Holdout.open(f"sqlite:///{folder}/study.db", "study") as again:
        assert again.ask("delay > 15").value == answer.value
        assert again.diagnose() is not None
