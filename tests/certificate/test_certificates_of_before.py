"""Certificates that an earlier everhold signed still verify, one of every mechanism, words and numbers included.

They were made with real noise at the commit before the mechanisms came to know their own words; never make them anew.
"""

from pathlib import Path

import pytest

from everhold.certificate import Certificate, verify_certificate
from everhold.mechanisms import MECHANISMS

EARLIER = sorted((Path(__file__).parent / "earlier").iterdir())


@pytest.mark.parametrize("path", EARLIER, ids=lambda path: path.name)
def test_a_certificate_of_before_still_verifies(path):
    report = verify_certificate(path, public_key=Certificate.load(path).public_key)
    assert report.findings == ()
    assert report.unchecked == ()


def test_there_is_one_of_every_mechanism():
    assert {path.stem for path in EARLIER if path.suffix == ".json"} == set(MECHANISMS)
