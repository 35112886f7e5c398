import math
import re

import pytest

from everhold_lab.published.splitting import hoeffding_radius, hoeffding_splitting, hoeffding_splitting_rows


def test_hoeffding_by_hand():
    assert hoeffding_radius(1000, queries=50, confidence=0.95) == pytest.approx(math.sqrt(math.log(2000) / 2000))


def test_splitting_is_hoeffding_on_a_part():
    session = {"queries": 20, "surprises": 1, "confidence": 0.95, "slack": 0.0}
    assert hoeffding_splitting(10_000, **session).radius == pytest.approx(math.sqrt(20 * math.log(800) / (2 * 10_000)))
    assert hoeffding_splitting(10_019, **session).radius == hoeffding_splitting(10_000, **session).radius
    assert hoeffding_splitting(19, **session).radius == math.inf
    bound = hoeffding_splitting_rows(0.1, **session)
    assert bound.rows == 20 * math.ceil(math.log(800) / 0.02)
    assert bound.parameters["rows_per_part"] == bound.rows / 20


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: hoeffding_radius(0, confidence=0.9), "rows is 0. Pass a whole number of at least 1, such as 1000."),
        (
            lambda: hoeffding_radius(10, queries=0, confidence=0.9),
            "queries is 0. Pass a whole number of at least 1, such as 1000.",
        ),
    ],
)
def test_bad_arguments_are_refused(call, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        call()
