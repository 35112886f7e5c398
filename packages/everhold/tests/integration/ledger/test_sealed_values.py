import base64
import struct

import pytest

from everhold.errors import IntegrityError
from everhold.ledger.ledger import Envelopes

NUMBERS = (0.25, 0.125, 1.0)
KEY, HOLDOUT, QUERY = b"k" * 32, "ab" * 16, "cd" * 32
ENVELOPES = Envelopes(KEY, HOLDOUT)


def test_an_envelope_gives_back_exactly_what_was_put_in():
    assert ENVELOPES.opened(ENVELOPES.sealed(NUMBERS, QUERY), QUERY) == NUMBERS


def test_the_length_tells_nothing_and_no_two_are_the_same():
    envelopes = [ENVELOPES.sealed(numbers, QUERY) for numbers in (NUMBERS, NUMBERS, (0.0, 0.0, 0.0), (1 / 3, 0.1, 0.7))]
    assert len({len(envelope) for envelope in envelopes}) == 1
    assert len({*envelopes}) == len(envelopes)


def test_no_number_lies_open_inside():
    content = base64.b64decode(ENVELOPES.sealed(NUMBERS, QUERY))
    assert [number for number in NUMBERS for order in "<>" if struct.pack(f"{order}d", number) in content] == []


@pytest.mark.parametrize(
    ("key", "holdout", "query"), [(b"l" * 32, HOLDOUT, QUERY), (KEY, "00" * 16, QUERY), (KEY, HOLDOUT, "00" * 32)]
)
def test_it_opens_only_in_its_own_place(key, holdout, query):
    with pytest.raises(IntegrityError, match="altered, or belong to another"):
        Envelopes(key, holdout).opened(ENVELOPES.sealed(NUMBERS, QUERY), query)


def test_every_altered_bit_is_found():
    content = base64.b64decode(ENVELOPES.sealed(NUMBERS, QUERY))
    for place in range(8 * len(content)):
        altered = bytearray(content)
        altered[place // 8] ^= 1 << place % 8
        with pytest.raises(IntegrityError):
            ENVELOPES.opened(base64.b64encode(bytes(altered)).decode(), QUERY)


@pytest.mark.parametrize("envelope", ["", "x", "=", "é", 7, None, [], "AAAA", base64.b64encode(bytes(51)).decode()])
def test_what_is_no_envelope_is_an_integrity_error(envelope):
    with pytest.raises(IntegrityError):
        ENVELOPES.opened(envelope, QUERY)
