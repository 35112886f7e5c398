"""The example of a bet in the documentation keeps its cap, and its limit holds at its level."""

import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parents[6] / "docs" / "theory" / "interval-procedures.md"
CAPPED = "min(stake, 0.95 / (1.0 - theta))"


def upper_limit(*, capped=True):
    """The function of the page; without its cap to see what the cap is for."""
    lines = itertools.takewhile(
        lambda line: line.startswith(("...", ">>> def upper_limit")),
        itertools.dropwhile(lambda line: not line.startswith(">>> def upper_limit"), PAGE.read_text().splitlines()),
    )
    code = "\n".join(re.sub(r"^(>>>|\.\.\.) ?", "", line) for line in lines)
    assert CAPPED in code
    found = {"np": np}
    exec(code if capped else code.replace(CAPPED, "stake"), found)
    return found["upper_limit"]


def worst_miss(limit, *, nats, stake, rows=12):
    """The greatest probability that the limit is below the mean of rows that are 0 or 1, by enumeration."""
    with np.errstate(all="ignore"):
        limits = [limit(np.repeat([1.0, 0.0], [ones, rows - ones]), stake, nats) for ones in range(rows + 1)]
    limits = [1.0 if found is None else found for found in limits]
    worst = 0.0
    for mean in np.linspace(0.001, 0.999, 400):
        chances = [math.comb(rows, ones) * mean**ones * (1.0 - mean) ** (rows - ones) for ones in range(rows + 1)]
        worst = max(worst, sum(chance for chance, found in zip(chances, limits, strict=True) if found < mean))
    return worst


@pytest.mark.parametrize("stake", [0.5, 4.9, 50.0])
@pytest.mark.parametrize("nats", [1.0, 3.0])
def test_the_limit_of_the_example_fails_no_more_often_than_its_level(nats, stake):
    assert worst_miss(upper_limit(), nats=nats, stake=stake) <= math.exp(-nats)


def test_without_the_cap_it_fails_many_times_its_level():
    assert worst_miss(upper_limit(capped=False), nats=3.0, stake=4.9) > 5.0 * math.exp(-3.0)
