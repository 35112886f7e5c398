"""Whether promises were kept: more failures than chance allows are found, also of one kind among many."""

import pytest

from everhold_lab.experiments import promises_kept


def kept(games):
    (found,) = promises_kept(games, confidence=0.95).values()
    return found


def games_of(kind, broken, whole):
    return [(kind, place < broken) for place in range(whole)]


def test_nothing_played_breaks_nothing():
    assert kept([])


@pytest.mark.parametrize(("broken", "expected"), [(5, True), (50, False)])
def test_one_kind_that_is_always_broken_is_not_lost_among_many(broken, expected):
    many = [game for kind in range(40) for game in games_of(kind, 0, 50)]
    assert kept([*many, *games_of("one", broken, 50)]) is expected


def test_all_kinds_broken_a_little_too_often_are_found_together():
    assert kept([game for kind in range(40) for game in games_of(kind, 3, 50)])
    assert not kept([game for kind in range(40) for game in games_of(kind, 5, 50)])
