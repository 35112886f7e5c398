import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everhold.planning.inverse import largest_within, smallest_within

MOST = 10**6
power = st.floats(0.05, 3.0)
requests = st.floats(1e-4, 1.0)


def counted(radius):
    seen = set()

    def count(number):
        seen.add(number)
        return radius(number)

    return count, seen


@given(power, requests, st.integers(1, 50))
def test_smallest_within_is_exact_for_falling_radii_with_steps(exponent, wanted, step):
    def radius(number):
        return math.inf if number < step else 3.0 * (number // step) ** -exponent

    found = smallest_within(radius, wanted, least=1, most=MOST)
    if found is None:
        assert radius(MOST) > wanted
    else:
        assert radius(found) <= wanted
        assert found == 1 or radius(found - 1) > wanted


@given(power, requests, st.integers(1, 50))
def test_largest_within_is_exact_for_rising_radii_with_steps(exponent, wanted, step):
    def radius(number):
        return math.inf if number > MOST - step else 0.01 * (1 + number // step) ** exponent

    found = largest_within(radius, wanted, most=MOST)
    assert found == 0 or radius(found) <= wanted
    assert found == MOST or radius(found + 1) > wanted


def test_a_search_ends_at_what_is_looked_for():
    assert smallest_within(lambda number: 0.5, 0.5, least=3, most=MOST) == 3
    assert smallest_within(lambda number: 0.5, 0.4, least=3, most=MOST) is None
    assert largest_within(lambda number: 0.5, 0.5, most=MOST) == MOST
    assert largest_within(lambda number: 0.5, 0.4, most=MOST) == 0
    assert largest_within(lambda number: float(number), 1.0, most=1) == 1


@pytest.mark.parametrize("exponent", [0.4, 0.5, 0.6])
def test_a_smooth_radius_takes_few_evaluations(exponent):
    radius, seen = counted(lambda number: (1 + 1 / math.log(number + 2)) * number**-exponent)
    smallest_within(radius, 0.05, least=1, most=2**26)
    assert len(seen) <= 15
