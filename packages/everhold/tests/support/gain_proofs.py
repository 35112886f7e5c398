"""Whether a gain in a score of outcomes is proved to be above a number, at one level on one side."""

import math

from everhold.guarantees.intervals.gains import GainBets


def proves(procedure, seen, gain, nats):
    """By the capital at this one gain, or by the lower limit of an average of gains."""
    if isinstance(procedure, GainBets):
        return procedure.capital(seen, nats)(gain) >= nats
    return 2.0 * procedure.interval(seen, nats - math.log(2.0))[0] - 1.0 > gain
