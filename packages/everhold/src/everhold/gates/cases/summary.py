"""The verdict of a gate about cases in Markdown: for the summary of a build, and as the comment on a pull request."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everhold.display import at_least, at_most

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everhold.gates.cases.checks import CheckVerdict
    from everhold.gates.challenge import Verdict


def markdown_of(verdict: Verdict | CheckVerdict, status: Mapping[str, Any]) -> str:
    """Return a verdict and public facts about its gate in Markdown. It never says which claim failed.

    Args:
        verdict: Verdict of a challenge or of a check.
        status: Status of the gate, as `Gate.status` returns it.
    """
    said = verdict.to_dict()
    word, name = said["verdict"], said.get("challenger")
    sees = status.get("sees")
    step = "no gain can be proved any more: seal new cases"
    if sees is not None or status.get("provable"):
        step = "ratios, by how far cases spread" if sees is None else f"a gain of {sees:.3g} or more"
    claims = _escaped(status["metric"].removeprefix("cases: "))
    rows = [
        ("claims", f"{claims}, margin {said.get('margin', status['margin']):g}"),
        ("difference", _interval(said["low"], said["high"])),
        ("population", str(status.get("population"))),
        ("cases and runs", f"{status.get('cases')} and {status.get('runs')}"),
        ("promotions so far", f"{status['promotions']} of {status['challenges']} challenges"),
        ("provable next", step),
        ("confidence", f"{100 * verdict.confidence:g} % for all verdicts together"),
        ("left", ", ".join(f"{number} {_LEFT.get(name, name)}" for name, number in verdict.remaining.items())),
    ]
    lines = "".join(f"| {name} | {value} |\n" for name, value in rows)
    more = f" About {count:,} more cases would tell." if (count := said.get("cases_needed")) else ""
    stored = f"\nThis is the stored verdict of {_escaped(str(name))}; these results were not read.\n"
    return (
        f"### Gate {_escaped(status['gate'])}: {word}\n\n| | |\n| --- | --- |\n{lines}\n{_MEANING[word]}{more}\n"
        f"{stored if verdict.repeated and name is not None else ''}"
    )


def write_fault(summary: str | Path | None, gate: str, message: str) -> None:
    """Append an error in Markdown to a summary file, if a file is given and can be written."""
    told = f"### Gate {_escaped(gate)}: error\n\n{_escaped(message)}\n\nThere is no verdict.\n"
    with suppress(OSError):
        write_summary(summary, told)


def write_summary(summary: str | Path | None, text: str) -> None:
    """Append a text to a file, if a file is given."""
    if summary is not None:
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(text)


_LEFT = {"queries": "planned challenges", "surprises": "planned verdicts that cost"}
_MEANING = {
    "promoted": "All claims are proved. This version is the champion now.",
    "kept": "Not all claims are proved. That promises nothing: the version may be better by too little to prove.",
    "not worse": "All claims are proved: this version is not worse than the baseline by more than the margin.",
    "regression": "It is proved that this version is worse than the baseline, or violates a guard.",
    "undecided": "Nothing is proved: this version may be as good as the baseline, or worse.",
    "refused": "The budget does not pay for another verdict. Nothing was charged.",
}


def _interval(low: float | None, high: float | None) -> str:
    """Return the proved difference in words. Nothing beyond it is told."""
    if low is None:
        return "nothing is told" if high is None else f"{at_most(high)} or less"
    return f"more than {at_least(low)}" + ("" if high is None else f", and at most {at_most(high)}")


def _escaped(text: str) -> str:
    """Return a text with a backslash before each sign that has a meaning in Markdown."""
    return "".join(f"\\{each}" if each in "\\`*_{}[]<>()#+!|" else each for each in text)
