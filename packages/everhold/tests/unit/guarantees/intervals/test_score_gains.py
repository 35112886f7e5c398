"""Gains in scores over boxes of their parts: no point of a box lies beyond the ends."""

import numpy as np
import pytest

from everhold.guarantees.intervals.boxes import (
    correlation_gain,
    correlation_of_classes,
    explained,
    explained_gain,
    root_gain,
)


def correlation(share, a, b):
    q = share * a + (1.0 - share) * b
    square = q * (1.0 - q)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(square > 0.0, np.sqrt(share * (1.0 - share) / square) * (a - b), 0.0)


def points_of(rng, low, high):
    """Corners of a box, and points inside."""
    corners = np.where(rng.random((2_000, len(low))) < 0.5, low, high)
    return np.concatenate([corners, rng.uniform(low, high, corners.shape)]).T


def boxes(rng, *, signed, parts, edges=False):
    """Lower and upper ends: differences first."""
    middle = np.concatenate([rng.normal(0.0, 0.1, signed), rng.random(parts)])
    if edges:
        middle[signed:] = rng.choice([0.0, 1.0, 0.3], parts)
    half = rng.choice([0.0, 0.01, 0.1], signed + parts) * rng.random(signed + parts)
    ends = np.clip([middle - half, middle + half], [-1.0] * signed + [0.0] * parts, 1.0)
    return ends[0], ends[1]


@pytest.mark.parametrize("edges", [False, True])
def test_no_gain_in_correlation_lies_beyond_the_ends(edges):
    rng = np.random.default_rng(1)
    for _ in range(25):
        low, high = boxes(rng, signed=2, parts=3, edges=edges)
        up, down, share, a, b = points_of(rng, low, high)
        possible = (np.abs(a + up - 0.5) <= 0.5) & (np.abs(b + down - 0.5) <= 0.5)
        gains = (correlation(share, a + up, b + down) - correlation(share, a, b))[possible]
        least, most = correlation_gain(low, high)
        assert not len(gains) or (least <= gains.min() + 1e-12 and gains.max() <= most + 1e-12)


def test_a_narrow_box_has_a_narrow_gain():
    """Also where two boxes of correlations would be far apart: 10,000 rows, of which a tenth has label 1."""
    low, high = np.array([0.0, -0.004, 0.088, 0.52, 0.02]), np.array([0.05, 0.004, 0.112, 0.68, 0.04])
    least, most = correlation_gain(low, high)
    alone = correlation_of_classes(low[2:], high[2:])
    assert most - least < 0.5 * (alone[1] - alone[0])
    gains = points_of(np.random.default_rng(0), low, high)
    found = correlation(gains[2], gains[3] + gains[0], gains[4] + gains[1]) - correlation(*gains[2:])
    assert least > found.min() - 0.002
    assert most < found.max() + 0.006


def test_no_gain_of_roots_lies_beyond_the_ends():
    rng = np.random.default_rng(2)
    for _ in range(200):
        low, high = boxes(rng, signed=1, parts=1)
        apart, first = points_of(rng, low, high)
        possible = first >= apart
        gains = (np.sqrt(first) - np.sqrt(np.maximum(first - apart, 0.0)))[possible]
        least, most = root_gain(low, high)
        assert not len(gains) or (least <= gains.min() + 1e-12 and gains.max() <= most + 1e-12)


def test_no_gain_in_r2_lies_beyond_the_ends_but_for_gains_of_more_than_2():
    rng = np.random.default_rng(3)
    for _ in range(200):
        low, high = boxes(rng, signed=1, parts=2)
        apart, mean, square = points_of(rng, low, high)
        variance = square - (mean - 0.4) ** 2
        possible = variance > 0.0
        gains = np.clip(-0.5 * apart[possible] / variance[possible], -2.0, 2.0)
        least, most = explained_gain(low, high, centre=0.4, scale=0.5)
        assert not len(gains) or (least <= gains.min() + 1e-12 and gains.max() <= most + 1e-12)


def test_a_gain_in_r2_is_the_difference_of_both():
    """Parts of a point: squared errors .05 and .08, labels of the mean .5 and the variance .1."""
    scores = [explained(*2 * (np.array([error / 0.11, 0.5, 0.11]),), centre=0.4)[0] for error in (0.05, 0.08)]
    parts = np.array([0.05 - 0.08, 0.5, 0.11])
    assert explained_gain(parts, parts, centre=0.4)[0] == pytest.approx(scores[0] - scores[1])
