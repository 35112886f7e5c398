"""The verdict of a gate about cases in Markdown, for the summary of a build."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everhold.gates.challenge import Verdict


def markdown_of(verdict: Verdict, status: Mapping[str, Any]) -> str:
    """Return a verdict and public facts of its gate in Markdown. Never says which claim failed.

    Args:
        verdict: The verdict.
        status: Of the gate, as `CaseGate.status` gives it.
    """
    word = "refused" if verdict.refused else "promoted" if verdict.promoted else "kept"
    sees = status.get("sees")
    step = "no gain can be proved any more: seal new cases"
    if sees is not None or status.get("provable"):
        step = "ratios, by how far cases spread" if sees is None else f"a gain of {sees:.3g} or more"
    rows = [
        ("claims", f"{_escaped(verdict.metric)}, margin {verdict.margin:g}"),
        ("population", str(status.get("population"))),
        ("cases and runs", f"{status.get('cases')} and {status.get('runs')}"),
        ("promotions so far", f"{verdict.promotions} of {verdict.challenges} challenges"),
        ("provable next", step),
        ("confidence", f"{100 * verdict.confidence:g} % for all promotions together"),
        ("left", ", ".join(f"{number} {_LEFT.get(name, name)}" for name, number in verdict.remaining.items())),
    ]
    lines = "".join(f"| {name} | {value} |\n" for name, value in rows)
    stored = (
        f"\nThis is the stored verdict of {_escaped(str(verdict.challenger))}; these results were not read.\n"
        if verdict.repeated and verdict.challenger is not None
        else ""
    )
    return f"### Gate {_escaped(verdict.gate)}: {word}\n\n| | |\n| --- | --- |\n{lines}\n{_MEANING[word]}\n{stored}"


_LEFT = {"queries": "planned challenges", "surprises": "planned promotions"}
_MEANING = {
    "promoted": "All claims are proved; this version is the champion now.",
    "kept": "Not all claims are proved. That promises nothing: the version may be better by too little to prove.",
    "refused": "The budget does not pay for another challenge. Nothing was charged.",
}


def _escaped(text: str) -> str:
    """Return a text that cannot begin markup or end a table cell."""
    return "".join(f"\\{each}" if each in "\\`*_{}[]<>()#+!|" else each for each in text)
