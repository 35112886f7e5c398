"""The first page: what a reader who decides has to know, in plain words, before all that proves it.

Certificates of before it have no such section, and no such page.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from everhold.certificate.arrivals import about_rows
from everhold.certificate.counting import rows_and_groups
from everhold.certificate.form import SUMMARY, TIMESTAMP
from everhold.certificate.interval_chart import interval_chart
from everhold.display import escaped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TITLE = "In plain words"
_MOST_AT_LENGTH, _MOST_DRAWN = 4, 10  # answers, of which the page has room for so many
_DIGEST = re.compile(r"(?<= of )(\w+) [0-9a-f]{8}\b")  # in full in the list of all queries


def summary_rows(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The sentences of the first page as rows of the whole certificate."""
    answers = [fact["name"] for fact in summary["answers"]]
    lines = [
        *zip(answers, map(" ".join, zip(summary["sentences"], summary["sources"], strict=True)), strict=True),
        ("", summary["promise"]),
        ("", summary["asked"]),
        *(("", text) for name in ("found", "means") for text in summary[name]),
        *(("assumed", text) for text in summary["assumed"]),
        *(("not meant", text) for text in summary["does_not_mean"]),
    ]
    return [{"section": TITLE, "item": item, "value": value} for item, value in lines]


def first_page(document: Mapping[str, Any]) -> str:
    """The section of the first page."""
    summary = document[SUMMARY]
    parts = [
        f'<section id="everhold-{SUMMARY}">',
        _answers(summary),
        interval_chart(summary["answers"]) if len(summary["answers"]) <= _MOST_DRAWN else "",
        *(f"<p>{escaped(text)}</p>" for text in summary["found"]),
        f'<p class="{"held" if summary["answers"] else "lead"}">{escaped(summary["promise"])}</p>',
        f'<p class="asked">{escaped(summary["asked"])}</p>',
        '<div class="columns">',
        _listed("What this means", summary["means"]),
        _listed("What is assumed", summary["assumed"]),
        _listed("What it does not mean", summary["does_not_mean"]),
        "</div>",
        f'<p class="made">{escaped(_made(document))}</p>',
        "</section>",
    ]
    return "\n".join(filter(None, parts))


def _answers(summary: Mapping[str, Any]) -> str:
    """Each answer as a sentence; where they are few, with its source and the query that was asked."""
    if len(summary["answers"]) > _MOST_AT_LENGTH:
        return "\n".join(f'<p class="finding">{_unbroken(sentence)}</p>' for sentence in summary["sentences"])
    told = zip(summary["answers"], summary["sentences"], summary["sources"], strict=True)
    return "\n".join(
        f'<p class="lead">{_unbroken(sentence)}</p>\n<p class="asked">{escaped(source)} {escaped(_asked(fact))}</p>'
        for fact, sentence, source in told
    )


def _unbroken(sentence: str) -> str:
    """A sentence in which no line ends before a sign of per cent."""
    return escaped(sentence).replace(" %", "\u00a0%")


def _asked(fact: Mapping[str, Any]) -> str:
    entries = ", ".join(f"{number:,}" for number in fact["entries"])
    where = f"{'entry' if len(fact['entries']) == 1 else 'entries'} {entries}"
    asked = _DIGEST.sub(r"\1", fact["asked"])
    return f"Asked: {asked}{about_rows(fact)} ({where})."


def _listed(title: str, texts: Sequence[str]) -> str:
    points = "".join(f"<li>{escaped(text)}</li>" for text in texts)
    return f"<div><h3>{title}</h3>\n<ul>{points}</ul></div>"


def _made(document: Mapping[str, Any]) -> str:
    """Signer, time and rows."""
    rows, issue = document["rows"], document["issue"]
    made = (
        f"{_sealed(document)} at {_minutes(rows['sealed_at'])}. Signed at "
        f"{_minutes(issue['issued_at'])} (UTC, the steward's own clock) with the steward's key, by "
        f"{issue['software']} {issue['version']}."
    )
    if TIMESTAMP not in document:
        return made
    stated = document[TIMESTAMP]["time"]
    return f"{made} A time-stamping authority's token says {stated}; the last section tells how to check it."


def _sealed(document: Mapping[str, Any]) -> str:
    return f"{rows_and_groups(document)}, sealed"


def _minutes(time: str) -> str:
    return time[: len("2026-11-21T10:00")].replace("T", " ")


FIRST_PAGE_STYLE = """
.everhold-certificate h3 { margin: 0 0 .35rem; font: 600 .95rem/1.35 system-ui, sans-serif; }
.everhold-certificate .lead { margin: 1rem 0 .15rem; font-size: 1.28rem; line-height: 1.36; text-wrap: pretty; }
.everhold-certificate .asked, .everhold-certificate .made, .everhold-certificate figcaption {
  color: var(--soft); font: .84rem/1.5 system-ui, sans-serif;
}
.everhold-certificate .finding { margin: .15rem 0; }
.everhold-certificate .finding + p:not(.finding) { margin-top: .9rem; }
.everhold-certificate .lead + p:not(.asked), .everhold-certificate .strips + p { margin-top: .9rem; }
.everhold-certificate .held { margin-top: .9rem; font-weight: 600; }
.everhold-certificate .made { margin: .9rem 0 0; }
.everhold-certificate #everhold-promise .promise { margin: 0 0 .6rem; font-size: 1.1rem; line-height: 1.45; }
.everhold-certificate .columns {
  display: grid; grid-template-columns: repeat(3, 1fr); gap: 1rem 1.6rem; margin-top: .9rem;
}
.everhold-certificate .columns ul { margin: 0; font-size: .93rem; line-height: 1.45; }
.everhold-certificate figure { margin: 1.1rem 0 .4rem; }
.everhold-certificate figcaption { margin-top: .3rem; }
.everhold-certificate .strip {
  display: grid; grid-template-columns: minmax(8.5rem, 13rem) 1fr 11rem; gap: 0 .9rem; align-items: center;
  font: .84rem/1.35 system-ui, sans-serif; font-variant-numeric: tabular-nums; break-inside: avoid;
}
.everhold-certificate .strip svg { display: block; width: 100%; height: 1.9rem; overflow: visible; }
.everhold-certificate .strip.axis { color: var(--soft); font-size: .75rem; margin-bottom: .6rem; }
.everhold-certificate .strip.axis svg { height: 1.1rem; }
.everhold-certificate .strip text { fill: var(--soft); text-anchor: middle; }
.everhold-certificate .strip .tick { stroke: var(--line); stroke-width: 1; }
.everhold-certificate .strip .zero { stroke: var(--ink); stroke-width: 1.4; }
.everhold-certificate .strip .bar { stroke: var(--accent); stroke-width: 6; }
.everhold-certificate .strip circle { fill: var(--accent); stroke: var(--accent); stroke-width: 2; }
.everhold-certificate .strip .claim { fill: var(--paper); }
@media (max-width: 36rem) {
  .everhold-certificate .lead { font-size: 1.12rem; }
  .everhold-certificate .columns { grid-template-columns: 1fr; }
  .everhold-certificate .strip { grid-template-columns: 1fr; margin-bottom: .4rem; }
}
@media print {
  .everhold-certificate header { padding: .5rem 0 .7rem; }
  .everhold-certificate #everhold-summary { break-after: page; border-bottom: 0; padding: .2rem 0 0; }
  .everhold-certificate .lead { margin: .55rem 0 .05rem; font-size: 12.5pt; }
  .everhold-certificate .asked, .everhold-certificate .made, .everhold-certificate figcaption { font-size: 8pt; }
  .everhold-certificate .asked { font-size: 7.5pt; }
  .everhold-certificate #everhold-summary p { margin-bottom: .25rem; }
  .everhold-certificate #everhold-summary p.lead { margin-bottom: 0; }
  .everhold-certificate #everhold-summary p.finding { margin: .05rem 0; font-size: 9.5pt; }
  .everhold-certificate h3 { font-size: 9.5pt; }
  .everhold-certificate figure { margin: .6rem 0 .3rem; }
  .everhold-certificate .strip { font-size: 8.5pt; }
  .everhold-certificate .strip.axis { margin-bottom: .2rem; }
  .everhold-certificate .strip svg { height: 1.45rem; }
  .everhold-certificate .columns { margin-top: .4rem; }
  .everhold-certificate .columns ul { padding-left: 1rem; font-size: 8.5pt; line-height: 1.35; }
  .everhold-certificate .columns li { margin-bottom: .2rem; }
  .everhold-certificate .strip { print-color-adjust: exact; }
}
"""
"""Style of the first page, beside the style that all certificates have."""
