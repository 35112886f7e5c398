import base64
import struct

import pytest

from everhold.errors import IntegrityError
from everhold.ledger.ledger import opened, sealed

NUMBERS = (0.25, 0.125, 1.0)
PLACE = {"key": b"k" * 32, "holdout": "ab" * 16, "query": "cd" * 32}


def test_an_envelope_gives_back_exactly_what_was_put_in():
    assert opened(sealed(NUMBERS, **PLACE), **PLACE) == NUMBERS


def test_the_length_tells_nothing_and_no_two_are_the_same():
    envelopes = [sealed(numbers, **PLACE) for numbers in (NUMBERS, NUMBERS, (0.0, 0.0, 0.0), (1 / 3, 0.1, 0.7))]
    assert len({len(envelope) for envelope in envelopes}) == 1
    assert len({*envelopes}) == len(envelopes)


def test_no_number_lies_open_inside():
    content = base64.b64decode(sealed(NUMBERS, **PLACE))
    assert [number for number in NUMBERS for order in "<>" if struct.pack(f"{order}d", number) in content] == []


@pytest.mark.parametrize("other", [{"key": b"l" * 32}, {"holdout": "00" * 16}, {"query": "00" * 32}])
def test_it_opens_only_in_its_own_place(other):
    with pytest.raises(IntegrityError, match="altered, or belong to another"):
        opened(sealed(NUMBERS, **PLACE), **{**PLACE, **other})


def test_every_altered_bit_is_found():
    content = base64.b64decode(sealed(NUMBERS, **PLACE))
    for place in range(8 * len(content)):
        altered = bytearray(content)
        altered[place // 8] ^= 1 << place % 8
        with pytest.raises(IntegrityError):
            opened(base64.b64encode(bytes(altered)).decode(), **PLACE)


@pytest.mark.parametrize("envelope", ["", "x", "=", "é", 7, None, [], "AAAA", base64.b64encode(bytes(51)).decode()])
def test_what_is_no_envelope_is_an_integrity_error(envelope):
    with pytest.raises(IntegrityError):
        opened(envelope, **PLACE)
