"""Random sessions at a confidence at which an interval without its truth is a defect, with every kind of query.

More sessions: ``python packages/everhold/tests/statistical/test_random_sessions.py FIRST_SEED LAST_SEED``.
"""

import sys
import tempfile
import warnings
from collections import Counter

from random_sessions import KINDS, Session

from everhold.errors import EverholdWarning


def claims_of(seeds, folder, **how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EverholdWarning)
        return [claim for seed in seeds for claim in Session(seed, str(folder), **how).play()]


def test_no_interval_of_random_sessions_misses(tmp_path):
    claims = claims_of(range(10), tmp_path)  # some queries are refused, as they would be told nothing
    assert [claim for claim in claims if claim.missed] == []
    assert len(claims) > 300
    assert len({claim.kind for claim in claims}) > len(set(KINDS))


def test_sealed_rows_of_another_law_are_found_by_random_sessions(tmp_path):
    missed = {claim.kind for claim in claims_of(range(3), tmp_path, biased=True) if claim.missed}
    assert len(missed) > 8


if __name__ == "__main__":
    first, last = (int(text) for text in sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        told, missed = Counter(), []
        for seed in range(first, last):
            for claim in claims_of([seed], folder):
                told[claim.kind] += 1
                missed += [(seed, claim)] if claim.missed else []
    for kind, number in sorted(told.items()):
        sys.stdout.write(f"{number:6,} {kind}\n")
    sys.stdout.write(f"{told.total():6,} in all; missed: {missed}\n")
