"""The sources of noise: keyed for holdouts, from the operating system for single releases, seeded for simulations."""

from __future__ import annotations

import hashlib
import hmac
import math
import operator
import os
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, islice, repeat
from typing import NoReturn, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

LARGEST_SCALE = 2**56
"""Largest scale: a Laplace draw then leaves int64 with probability below exp(-127)."""

_KEY_BYTES = 32
_ZEROS = bytes(8 * 128)  # what a cipher turns into 128 words

TABLE_SCALE = 1024
"""Up to this scale simulated Gaussians come from the exact table; above, a rounded normal is within 1e-7 of it."""


@runtime_checkable
class Noise(Protocol):
    """Base of the sources of integer noise."""

    @property
    def simulated(self) -> bool:
        """Whether draws can be reproduced, so that nothing released with them is private."""
        ...

    def laplace(self, scale: int, size: int, *, stream: str) -> NDArray[np.int64]:
        """Draw `size` integers with ``P[x]`` proportional to ``exp(-|x|/scale)``."""
        ...

    def gaussian(self, scale: int, size: int, *, stream: str) -> NDArray[np.int64]:
        """Draw `size` integers with ``P[x]`` proportional to ``exp(-x^2/(2 scale^2))``."""
        ...

    def words(self, size: int, *, stream: str) -> NDArray[np.uint64]:
        """Draw `size` uniform 64-bit integers."""
        ...


class _ExactNoise(ABC):
    """Base of noise made with integers alone from random words, so that no floating-point attack applies."""

    __slots__ = ()

    @property
    def simulated(self) -> bool:
        """False: only the source can reproduce the draws."""
        return False

    def laplace(self, scale: int, size: int, *, stream: str) -> NDArray[np.int64]:
        """Draw `size` integers with ``P[x]`` proportional to ``exp(-|x|/scale)``; 3 microseconds each in bulk."""
        scale, size = _checked(scale, size)
        words = self._source(stream, 12 * min(size, 1024))
        return np.fromiter(map(discrete_laplace, repeat(scale, size), repeat(words)), dtype=np.int64, count=size)

    def gaussian(self, scale: int, size: int, *, stream: str) -> NDArray[np.int64]:
        """Draw `size` integers with ``P[x]`` proportional to ``exp(-x^2/(2 scale^2))``; 5 microseconds each in bulk."""
        scale, size = _checked(scale, size)
        words = self._source(stream, 20 * min(size, 1024))
        return np.fromiter(map(discrete_gaussian, repeat(scale, size), repeat(words)), dtype=np.int64, count=size)

    @abstractmethod
    def _source(self, stream: str, about: int) -> Iterator[int]:
        """Yield uniform 64-bit integers without end. About ``size`` of them will be used."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class SecureNoise(_ExactNoise):
    """Exact noise from the operating system's random source, fresh at every call.

    Random bytes are asked for in every call and none is kept between calls: forked processes never share noise. There
    is no state to leak and no stream to reproduce: `stream` is accepted and not used. The time of a draw depends on the
    value drawn. A draw outside int64, possible with probability below exp(-127) at the largest scale, raises
    OverflowError.

    Raises:
        ValueError: If a scale is outside [1, 2**56] or a size is negative.
        TypeError: If a scale or a size is not an integer.

    Source: Canonne, Kamath, Steinke 2020, Algorithms 1 to 3.

    Examples:
        >>> SecureNoise().laplace(1000, 3, stream="answer").shape
        (3,)
    """

    __slots__ = ()

    def words(self, size: int, *, stream: str) -> NDArray[np.uint64]:
        """Draw `size` uniform 64-bit integers; 60 milliseconds for a million."""
        return np.frombuffer(os.urandom(8 * _checked(1, size)[1]), dtype=np.uint64)

    def _source(self, stream: str, about: int) -> Iterator[int]:
        while True:
            yield from struct.unpack(f"{about}Q", os.urandom(8 * about))


class NoNoise(_ExactNoise):
    """Noise of a mechanism that draws none: every draw is an error."""

    __slots__ = ()

    def words(self, size: int, *, stream: str) -> NDArray[np.uint64]:
        """Raise TypeError."""
        raise TypeError(f"The mechanism has public levels and draws noise for {stream!r}. Change its traits.")

    def _source(self, stream: str, about: int) -> Iterator[int]:
        yield from self.words(about, stream=stream).tolist()


class KeyedNoise(_ExactNoise):
    """Exact noise from a secret key. The same key gives the same noise. Without the key the noise looks random.

    A holdout that is set back draws the same noise for the same query again, so nobody can remove the noise by
    averaging. Every stream name has a keystream of its own (ChaCha20 under the HMAC-SHA256 of the name), so that what
    is drawn from one stream does not depend on the others. ``size=k`` equals k draws of size 1, and words and draws
    follow each other in one stream. The samplers are those of `SecureNoise`, with its errors and its timing.

    Args:
        key: 32 secret bytes, for one step of one mechanism only.

    Raises:
        ValueError: If the key has another length, a scale is outside [1, 2**56] or a size is negative.
        TypeError: If a scale or a size is not an integer.

    Examples:
        >>> noise, again = KeyedNoise(bytes(32)), KeyedNoise(bytes(32))
        >>> noise.laplace(10, 3, stream="a").tolist() == [again.laplace(10, 1, stream="a").item() for _ in range(3)]
        True
    """

    __slots__ = ("_key", "_streams")

    def __init__(self, key: bytes) -> None:
        if len(key) != _KEY_BYTES:
            raise ValueError(f"The key has {len(key)} bytes. Pass {_KEY_BYTES} bytes.")
        self._key = key
        self._streams: dict[str, _Keystream] = {}

    def words(self, size: int, *, stream: str) -> NDArray[np.uint64]:
        """Draw `size` uniform 64-bit integers; 30 milliseconds for a million."""
        size = _checked(1, size)[1]
        self._source(stream, size)
        return self._streams[stream].take(size)

    def _source(self, stream: str, about: int) -> Iterator[int]:
        if stream not in self._streams:
            self._streams[stream] = _Keystream(hmac.digest(self._key, stream.encode(), "sha256"))
        return self._streams[stream].words

    def __reduce__(self) -> NoReturn:
        raise TypeError("Keyed noise cannot be pickled or copied. Use it where it was made.")


class _Keystream:
    """Endless uniform 64-bit integers in a fixed order, read one at a time or many at once."""

    __slots__ = ("_cipher", "_ready", "words")

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher  # most holdouts draw no noise
        from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

        self._cipher = Cipher(ChaCha20(key, nonce=bytes(16)), mode=None).encryptor()
        self._ready: Iterator[int] = iter(())
        self.words = chain.from_iterable(iter(self._refilled, None))

    def _refilled(self) -> Iterator[int]:
        self._ready = iter(np.frombuffer(self._cipher.update(_ZEROS), dtype="<u8").tolist())
        return self._ready

    def take(self, count: int) -> NDArray[np.uint64]:
        first = np.fromiter(islice(self._ready, count), dtype=np.uint64)
        more = np.frombuffer(self._cipher.update(bytes(8 * (count - len(first)))), dtype="<u8")
        return np.concatenate([first, more])


class SeededNoise:
    """Reproducible noise for simulations and tests. Never for a real holdout.

    Every stream name has a generator of its own, seeded by `seed` and the SHA-256 of the name, so that what is drawn
    from one stream does not depend on the others. ``size=k`` equals k draws of size 1.

    Args:
        seed: A non-negative integer.

    Raises:
        ValueError: If the seed is negative, a scale is outside [1, 2**56] or a size is negative.
        TypeError: If seed, scale or size is not an integer.

    Examples:
        >>> noise = SeededNoise(7)
        >>> again = SeededNoise(7)
        >>> noise.laplace(10, 3, stream="a").tolist() == [again.laplace(10, 1, stream="a").item() for _ in range(3)]
        True
    """

    __slots__ = ("_generators", "_seed")

    def __init__(self, seed: int) -> None:
        self._seed = operator.index(seed)
        if self._seed < 0:
            raise ValueError(f"seed is {self._seed}. Pass a non-negative integer.")
        self._generators: dict[str, np.random.Generator] = {}

    @property
    def simulated(self) -> bool:
        """Return True, because whoever knows the seed can subtract the noise."""
        return True

    def laplace(self, scale: int, size: int, *, stream: str) -> NDArray[np.int64]:
        """Draw `size` integers as differences of two geometric variables."""
        scale, size = _checked(scale, size)
        pairs = self._generator(stream).geometric(-math.expm1(-1.0 / scale), size=(size, 2))
        return np.asarray(pairs[:, 0] - pairs[:, 1], dtype=np.int64)

    def gaussian(self, scale: int, size: int, *, stream: str) -> NDArray[np.int64]:
        """Draw `size` integers: by table up to scale 1024, as rounded normals above."""
        scale, size = _checked(scale, size)
        generator = self._generator(stream)
        if scale > TABLE_SCALE:
            return np.rint(scale * generator.standard_normal(size)).astype(np.int64)
        cumulative = _gaussian_table(scale)
        return np.searchsorted(cumulative, generator.random(size), side="right").astype(np.int64) - len(cumulative) // 2

    def words(self, size: int, *, stream: str) -> NDArray[np.uint64]:
        """Draw `size` uniform 64-bit integers."""
        return self._generator(stream).integers(0, 2**64, size=_checked(1, size)[1], dtype=np.uint64)

    def _generator(self, stream: str) -> np.random.Generator:
        generator = self._generators.get(stream)
        if generator is None:
            key = struct.unpack("<8I", hashlib.sha256(stream.encode()).digest())
            generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(self._seed, spawn_key=key)))
            self._generators[stream] = generator
        return generator

    def __repr__(self) -> str:
        return f"SeededNoise(seed={self._seed})"


def _checked(scale: int, size: int) -> tuple[int, int]:
    scale, size = operator.index(scale), operator.index(size)
    if not 1 <= scale <= LARGEST_SCALE:
        raise ValueError(f"scale is {scale}. Pass an integer from 1 to 2**56, in units of the grid.")
    if size < 0:
        raise ValueError(f"size is {size}. Pass a non-negative integer.")
    return scale, size


@lru_cache(maxsize=64)
def _gaussian_table(scale: int) -> NDArray[np.float64]:
    """Return cumulative probabilities of the discrete Gaussian on a symmetric support that misses at most 1e-18."""
    points = np.arange(-9 * scale, 9 * scale + 1)
    # by Poisson summation; two terms are enough from scale 1 on
    ripple = sum(math.exp(-2.0 * (math.pi * scale * k) ** 2) for k in (1, 2))
    mass = math.sqrt(2.0 * math.pi) * scale * (1.0 + 2.0 * ripple)
    cumulative = np.cumsum(np.exp(-0.5 * (points / scale) ** 2) / mass)
    cumulative[-1] = 1.0
    return cumulative


# Exact samplers on the integers: no float takes part (Canonne, Kamath, Steinke 2020).
#
# Every function draws from `words`, an endless iterator of independent uniform 64-bit integers, and is exact for every
# rational parameter. Running time depends on the drawn value, as with every rejection sampler.

WORD = 64


def uniform_below(bound: int, words: Iterator[int]) -> int:
    """Draw a uniform integer in [0, bound), for 1 <= bound <= 2**64."""
    shift = WORD - bound.bit_length()
    while True:
        value = next(words) >> shift
        if value < bound:
            return value


def bernoulli_exp(numerator: int, denominator: int, words: Iterator[int]) -> bool:
    """Draw True with probability ``exp(-numerator/denominator)``, for a non-negative fraction x.

    If x is above 1, factors ``exp(-1)`` are drawn separately. Then uniform real numbers are compared with x, x/2, x/3,
    ... in turn. The number of the first one that is not below its bound is odd with probability ``exp(-x)``. Reals are
    compared digit by digit in base 2**64; with probability 1 - 2**-64 the first digit decides.
    """
    while numerator > denominator:
        if not bernoulli_exp(1, 1, words):
            return False
        numerator -= denominator
    step, rest = 1, numerator
    while True:
        digit, rest = divmod(rest << WORD, denominator * step)
        word = next(words)
        if word > digit:
            return step % 2 == 1
        if word < digit:
            step, rest = step + 1, numerator


def discrete_laplace(scale: int, words: Iterator[int]) -> int:
    """Draw an integer with ``P[x]`` proportional to ``exp(-|x|/scale)``, for 1 <= scale < 2**64."""
    shift = WORD - scale.bit_length()
    while True:
        low = next(words) >> shift
        if low >= scale or not bernoulli_exp(low, scale, words):
            continue
        high = 0
        while bernoulli_exp(1, 1, words):
            high += 1
        magnitude = low + scale * high
        negative = next(words) & 1
        if magnitude or not negative:
            return -magnitude if negative else magnitude


def discrete_gaussian(scale: int, words: Iterator[int]) -> int:
    """Draw an integer with ``P[x]`` proportional to ``exp(-x^2/(2 scale^2))``.

    It is drawn by rejection from the discrete Laplace distribution of the same scale. The ratio of the two is, up to a
    constant, ``exp(-(|x| - scale)^2 / (2 scale^2))``.
    """
    while True:
        value = discrete_laplace(scale, words)
        if bernoulli_exp((abs(value) - scale) ** 2, 2 * scale * scale, words):
            return value
