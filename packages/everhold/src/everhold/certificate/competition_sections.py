"""Words of a certificate on gates and competitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.certificate.estimands import by_labels, value_in_words

if TYPE_CHECKING:
    from collections.abc import Mapping

_GATES_OF_CASES = (
    "At a gate about cases, a version is named by the SHA-256 of its name there. Each champion also fulfils the guards "
    "that the metric names, against the baseline, which is fixed. Where the metric says that it is about new runs of "
    "these cases, promotions promise that in place of the population: the version is better on average in new runs of "
    "these very cases."
)


_SHARES = ("accuracy", "error", "brier", "Brier score")
"""Metrics of boards whose scores are means over [0, 1], of which a promise can name the half-width."""

_BOARD = (
    "Every interval on the board contains the true score, which is {value}, all of them at once, {holds}. How wide an "
    "interval is depends on the submission."
)


def board_promise(competition: Mapping[str, Any] | None, *, value: str, holds: str) -> str | None:
    """Promise of a board whose scores are no means over [0, 1]; None where the promise of a mean is about the board."""
    if competition is None or competition["metric"] in _SHARES:
        return None
    return _BOARD.format(value=value, holds=holds)


def gates_in_words(gates: Any, rows: Mapping[str, Any]) -> list[str]:
    """Meaning of promotions; empty where there is no gate."""
    if not gates:
        return []
    return [
        "A gate has a champion, which gives way only to a challenger that is proved to be better. With the same "
        "probability, together with all answers, every promotion that is listed in this certificate is true: by the "
        f"gate's metric, {value_in_words(rows)} of the challenger is better than that of the champion before by more "
        "than the margin, however many other challengers failed and however all of them were chosen. That a champion "
        "was kept promises nothing. A model is named by the SHA-256 of the query about it.",
        *([_GATES_OF_CASES] if any(gate["metric"].startswith("cases: ") for gate in gates) else []),
    ]


def competition_in_words(competition: Mapping[str, Any] | None, rows: Mapping[str, Any]) -> list[str]:
    """Meaning of a leaderboard; empty where there is no competition."""
    if competition is None:
        return []
    told = {
        "none": "that it was received, and nothing else",
        "leader": "whether it is proved to be better than the leader",
        "score": "an answer about its score",
    }.get(competition["feedback"], "something else")
    said = [
        f"The rows were sealed for a competition by {competition['metric']}. What a submission is told before the end "
        f"was decided then: {told}."
    ]
    if competition["rows"]:
        said.append(
            "The leaderboard of this certificate is final. With the same probability, all at once, every interval "
            f"contains {value_in_words(rows if by_labels(rows) else {**rows, 'features': 'public'})}, and every "
            "place holds: it is one more than the number of teams that are proved to be better, by the paired "
            "difference of final submissions, row by row. Of teams that share a place these rows do not tell who is "
            "better."
        )
    return said
