"""Findings of the experiment `everhold_lab.experiments.dwork2015`, each with its measured numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from everhold_lab.experiments.linear_attributes import vote_accuracy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everhold_lab.experiments.base import Row
    from everhold_lab.experiments.linear_attributes import AttributeLaw

ANALYSTS = {
    "common": "plain reuse",
    "thresholdout": "Thresholdout as published",
    "thresholdout_tuned": "Thresholdout with everhold's promise",
    "guess_and_check_tuned": "Guess and check with everhold's promise",
}
"""Titles of the analysts by name."""

SERIES = ("training", "reported", "fresh")
"""The accuracies of a row."""


def without_signal(lines: Mapping[tuple[bool, str, int], Row], *, most: int) -> dict[str, bool]:
    """Plain reuse reports luck as accuracy, the published Thresholdout does not.

    Args:
        lines: Of the summary, by signal, analyst and k.
        most: The largest k.
    """
    common, published = lines[False, "common", most], lines[False, "thresholdout", most]
    where, gap = f"no signal, k = {most}", abs(published["reported"] - published["fresh"])
    return {
        f"{where}, {ANALYSTS['common']}: the holdout reports {common['reported']:.3f}, more than 0.62": (
            common["reported"] > 0.62
        ),
        f"{where}, {ANALYSTS['common']}: fresh rows give {common['fresh']:.3f}, 0.50 up to 0.01": (
            abs(common["fresh"] - 0.5) <= 0.01
        ),
        f"{where}, {ANALYSTS['thresholdout']}: reported {published['reported']:.3f} and fresh "
        f"{published['fresh']:.3f} differ by {gap:.3f}, at most 0.03": gap <= 0.03,
    }


def with_signal(lines: Mapping[tuple[bool, str, int], Row], *, law: AttributeLaw) -> dict[str, bool]:
    """With as many attributes as lean, all three accuracies agree, near that of a vote of exactly those.

    Args:
        lines: Of the summary, by signal, analyst and k.
        law: Of the attributes.
    """
    count = law.informative
    ideal = vote_accuracy(law, order=np.arange(count), signs=np.ones(law.attributes), counts=[count])
    best, found = float(ideal[0]), {}
    for analyst in ("common", "thresholdout"):
        training, reported, fresh = values = [lines[True, analyst, count][series] for series in SERIES]
        found[
            f"signal, k = {count}, {ANALYSTS[analyst]}: training {training:.3f}, reported {reported:.3f} and fresh "
            f"{fresh:.3f} agree up to 0.01, near {best:.3f}"
        ] = max(values) - min(values) <= 0.01 and abs(fresh - best) <= 0.01
    return found


def promise_kept(analyst: str, rows: Sequence[Row]) -> dict[str, bool]:
    """Check that every answer of every repetition is within its radius and its stated interval."""
    if not rows:
        return {}
    answered = [row for row in rows if row["low"] is not None]
    worst = max((abs(row["reported"] - row["population"]) for row in answered), default=0.0)
    refused, radius = sum(row["refused"] for row in rows), rows[0]["radius"]
    inside = all(row["low"] <= row["population"] <= row["high"] for row in answered) and (bool(answered) or not refused)
    return {
        f"{ANALYSTS[analyst]}: every reported accuracy is within {radius:.3f} of the population's; the farthest of "
        f"{len(answered)} is {worst:.3f} away, {refused} were refused": inside and worst <= radius,
        f"{ANALYSTS[analyst]}: so is every correlation, in every repetition": all(
            row["correlations_hold"] for row in rows
        ),
    }


def time_spent(rows: Sequence[Row]) -> dict[str, bool]:
    """Check that drawing numbers and adding up products is most of the work."""
    every, drawing = sum(row["seconds"] for row in rows), sum(row["seconds_drawing"] for row in rows)
    return {
        f"a repetition takes {every / len(rows):.1f} seconds of one core, {drawing / every:.0%} of them for drawing "
        "numbers and adding up products, which is most": drawing > 0.5 * every
    }
