"""S12 by exhaustion: no analyst who mixes queries with an open challenge gets more levels than there are.

The sealed rows can be anything, so the worst analyst is the one whose courses have the largest sum of levels. Here
every way to ask, open, look and wait is tried, with and without each protection.
"""

from functools import cache
from math import exp

from everhold.guarantees.description_length import QueryTree

PLANNED, PLACES, LOOKS = 6, 7, 10


def worst(*, interim_label=1 / LOOKS, opening_places=1, promotion_marks=1, futile_label=None, futile_marks=0):
    """Largest sum of the weights of all events.

    Args:
        interim_label: What a promotion's look counts for; 1 if it is not paid for.
        opening_places: Places that opening takes.
        promotion_marks: Marks of a promotion.
        futile_label: What a look with an early *kept* counts for; None where *kept* is told at the end only.
        futile_marks: Marks of an early *kept*.
    """
    tree = QueryTree(queries=PLANNED)

    @cache
    def weight(place, marks):
        return exp(-float(tree.log_inverse_weight(asked=place, surprises=marks)))

    @cache
    def best(asked, marks, pending):
        """The best sum of weights from here, with the label prior taken out; pending is the looks left."""
        if asked >= PLACES:
            return 0.0
        event = weight(asked + 1, marks)
        choices = [event + best(asked + 1, marks, pending) + best(asked + 1, marks + 1, pending)]
        if not pending:
            choices.append(event + best(asked + opening_places, marks, LOOKS))
            return max(choices)
        promoted = interim_label * best(asked + 1, marks + promotion_marks, 0)
        goes_on = best(asked, marks, pending - 1) if pending > 1 else best(asked + 1, marks, 0)
        futile = (
            0.0 if futile_label is None or pending == 1 else futile_label * best(asked + 1, marks + futile_marks, 0)
        )
        choices.append(promoted + goes_on + futile)
        return max(choices)

    return best(0, 0, 0)


def test_no_analyst_gets_more_than_there_is():
    assert worst() <= 1.0


def test_with_stops_for_futility_that_are_marks_nobody_gets_more_either():
    half = 1 / (2 * LOOKS)  # a mark is a promotion or a stop, at one of the looks
    assert worst(interim_label=half, futile_label=half, futile_marks=1) <= 1.0
    assert worst(interim_label=half, futile_label=1 / LOOKS, futile_marks=0) > 1.0
    assert worst(interim_label=half, futile_label=1.0, futile_marks=1) > 1.0


def test_a_look_that_is_not_paid_for_gives_more():
    assert worst(interim_label=1.0) > 1.0


def test_opening_without_a_place_gives_more():
    assert worst(opening_places=0) > 1.0


def test_a_promotion_that_is_no_mark_gives_more():
    assert worst(promotion_marks=0) > 1.0


def test_an_early_kept_without_a_price_gives_more():
    assert worst(futile_label=1.0) > worst()
    assert worst(futile_label=1.0) > 1.0
