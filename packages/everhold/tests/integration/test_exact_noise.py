"""Uniform words of the sources of noise."""

import numpy as np
import pytest
from scipy import stats

from everhold.randomness import SecureNoise, SeededNoise

SOURCES = {"secure": SecureNoise(), "seeded": SeededNoise(20)}


@pytest.mark.parametrize("source", SOURCES)
def test_every_bit_of_a_word_is_fair(source):
    words = SOURCES[source].words(20_000, stream="fair")
    bits = np.unpackbits(words.view(np.uint8)).reshape(20_000, 64).sum(axis=0)
    assert stats.chisquare(np.concatenate([bits, 20_000 - bits]), np.full(128, 10_000.0)).statistic < 64 + 6 * 12
    assert words.dtype == np.uint64
    assert SOURCES[source].words(0, stream="fair").shape == (0,)
    with pytest.raises(ValueError, match="size"):
        SOURCES[source].words(-1, stream="fair")


def test_seeded_words_keep_to_their_stream_and_order():
    at_once, noise = SeededNoise(5).words(9, stream="a"), SeededNoise(5)
    noise.words(17, stream="b")
    assert at_once.tolist() == [noise.words(1, stream="a").item() for _ in range(9)]
    assert SeededNoise(6).words(9, stream="a").tolist() != at_once.tolist()
