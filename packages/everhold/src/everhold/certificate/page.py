"""The certificate as an HTML page: first what decision makers need, then what proves it.

The page is print-ready and self-contained, and runs no script. Its styles are in ``certificate.css`` and ``page.css``.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from everhold.certificate.form import DATA_BEGIN, DATA_END, SUMMARY, TIMESTAMP
from everhold.certificate.outline import Block, outline, query_cells
from everhold.certificate.phrases import about_rows, rows_and_groups
from everhold.certificate.summary import bounds_of, confirmed
from everhold.certificate.words import with_words
from everhold.display import escaped, html_document, style_sheet
from everhold.strict_json import canonical
from everhold.values.units import POINTS, RATES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_AT_ONCE = 100  # queries of one table
_HEAD = ("entry", "query", "answer", "interval", "source", "charged")
TITLE = "In plain words"
MOST_AT_LENGTH = 4
"""Answers for which the first page has room to say what was asked and where the number comes from."""

_MOST_DRAWN = 10
_DIGEST = re.compile(r"(?<= of )(\w+) [0-9a-f]{8}\b")  # in full in the list of all queries


def article_style() -> str:
    """Return the CSS for `render_article`."""
    return style_sheet("everhold.certificate", "certificate.css")


def render_page(document: Mapping[str, Any]) -> str:
    """Return the whole page with the signed document inside. The same document gives the same text."""
    body = f"{render_fragment(document)}\n{DATA_BEGIN}{_embedded(document)}{DATA_END}"
    title = f"Certificate of the holdout {document['rows']['holdout']}"
    return html_document(title, style_sheet("everhold.certificate", "page.css"), body)


def render_fragment(document: Mapping[str, Any]) -> str:
    """Return the body of the certificate's page and its style as HTML, to embed in notebooks and other pages."""
    return f"<style>{article_style()}</style>\n{render_article(document)}"


def render_article(document: Mapping[str, Any]) -> str:
    """Return the body of the page alone, for pages that have `article_style`."""
    worded = with_words(document)
    queries = document["account"].get("queries", ())
    sections = "\n".join(_section(number, block, queries) for number, block in enumerate(outline(worded), 1))
    banner = worded["issue"]["banner"]
    alarm = f'<p class="banner" role="alert">{escaped(banner)}</p>\n' if banner else ""
    return (
        '<article class="everhold-certificate">\n'
        '<header>\n<p class="kind">everhold · certificate of a sealed holdout</p>\n'
        f"<h1>{escaped(document['rows']['holdout'])}</h1>\n{alarm}</header>\n{first_page(worded)}\n{sections}\n</article>"
    )


def _section(number: int, block: Block, queries: Sequence[Mapping[str, Any]]) -> str:
    """Return one numbered section of the page as HTML."""
    parts = [f'<section id="everhold-{block.key}">', f"<h2>{number}. {escaped(block.title)}</h2>"]
    for position, text in enumerate(block.before):
        large = ' class="promise"' if block.key == "promise" and position == 0 else ""
        parts.append(f"<p{large}>{escaped(text)}</p>")
    if block.bullets:
        parts += ["<ul>", *(f"<li>{escaped(text)}</li>" for text in block.bullets), "</ul>"]
    parts += [f"<p>{escaped(text)}</p>" for text in block.after]
    if block.key == "queries" and queries:
        for begin in range(0, len(queries), _AT_ONCE):  # each table is folded under its range of numbers
            some = queries[begin : begin + _AT_ONCE]
            title = f"Queries {begin + 1:,} to {begin + len(some):,} of {len(queries):,}"
            parts.append(
                f"<details><summary>{title}</summary>\n"
                f'<table class="queries">\n<thead><tr>{"".join(f"<th>{name}</th>" for name in _HEAD)}</tr></thead>\n'
                f"<tbody>\n{''.join(_row(query) for query in some)}</tbody></table></details>"
            )
    elif block.items:
        parts += [
            "<dl>",
            *(f"<dt>{escaped(label)}</dt><dd{_code(value)}>{escaped(value)}</dd>" for label, value in block.items),
            "</dl>",
        ]
    return "\n".join([*parts, "</section>"])


def _code(value: str) -> str:
    """Return the HTML class for a value that looks like a hash, or an empty text."""
    return ' class="code"' if len(value) >= 32 and value.isalnum() else ""


def _embedded(document: Mapping[str, Any]) -> str:
    """Return the document as JSON that can be embedded in an HTML script element."""
    text = canonical(document)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _row(query: Mapping[str, Any]) -> str:
    """Return the table row of one query as HTML."""
    cells = query_cells(query)
    kinds = ["number", "asked", "number", "number", "", "number"]
    written = (
        f'<td class="{kind}">{escaped(cell)}</td>' if kind else f"<td>{escaped(cell)}</td>"
        for kind, cell in zip(kinds, cells, strict=True)
    )  # fmt: skip
    return f"<tr>{''.join(written)}</tr>\n"


def summary_rows(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the sentences of the first page as rows, as in `Certificate.to_rows`."""
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
    """Return the HTML section of the first page."""
    summary = document[SUMMARY]
    told = zip(summary["answers"], summary["sentences"], summary["sources"], strict=True)
    if len(summary["answers"]) > MOST_AT_LENGTH:
        answers = [f'<p class="finding">{_unbroken(sentence)}</p>' for _, sentence, _ in told]
    else:  # with the source, and the query that was asked
        answers = [f'<p class="lead">{_unbroken(sentence)}</p>\n'
                   f'<p class="asked">{escaped(source)} {escaped(_asked(fact))}</p>'
                   for fact, sentence, source in told]  # fmt: skip
    lead = ' class="lead"' * ("competition" in document["account"])
    parts = [
        f'<section id="everhold-{SUMMARY}">',
        "\n".join(answers),
        interval_chart(summary["answers"]) if len(summary["answers"]) <= _MOST_DRAWN else "",
        *(f"<p{lead * (not number)}>{escaped(text)}</p>" for number, text in enumerate(summary["found"])),
        f'<p class="{"held" if summary["answers"] or lead else "lead"}">{escaped(summary["promise"])}</p>',
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


def _unbroken(sentence: str) -> str:
    """Return a sentence as HTML in which no line breaks before a per cent sign."""
    return escaped(sentence).replace(" %", "\u00a0%")


def _asked(fact: Mapping[str, Any]) -> str:
    """Return a sentence with the query, and the ledger entries of its answers."""
    entries = ", ".join(f"{number:,}" for number in fact["entries"])
    where = f"{'entry' if len(fact['entries']) == 1 else 'entries'} {entries}"
    asked = _DIGEST.sub(r"\1", fact["asked"])
    return f"Asked: {asked}{about_rows(fact)} ({where})."


def _listed(title: str, texts: Sequence[str]) -> str:
    """Return HTML with a heading and a list of sentences."""
    points = "".join(f"<li>{escaped(text)}</li>" for text in texts)
    return f"<div><h2>{title}</h2>\n<ul>{points}</ul></div>"


def _made(document: Mapping[str, Any]) -> str:
    """Return a sentence with the sealed rows, the date of the signature, and the software that signed."""
    rows, issue = document["rows"], document["issue"]
    made = (
        f"{rows_and_groups(document)}, sealed at {_minutes(rows['sealed_at'])}. Signed at "
        f"{_minutes(issue['issued_at'])} (UTC, the steward's own clock) with the steward's key, by "
        f"{issue['software']} {issue['version']}."
    )
    if TIMESTAMP not in document:
        return made
    stated = document[TIMESTAMP]["time"]
    return f"{made} A time-stamping authority's token states {stated}. The last section tells how to check it."


def _minutes(time: str) -> str:
    """Return a time of ISO 8601 without its seconds."""
    return time[: len("2026-11-21T10:00")].replace("T", " ")


# The chart on a certificate's first page: each chosen answer as a bar between its bounds, in SVG.
#
# It needs no package, scales with the page without scaling its text, and takes its colours from the page.


_MARGIN = 0.07  # of the width, on either side
_TICKS = 5


@dataclass(frozen=True, slots=True)
class Axis:
    """Axis that several intervals share.

    Attributes:
        unit: Text after the number of each tick, such as a unit.
    """

    low: float
    high: float
    step: float
    unit: str

    @classmethod
    def over(cls, ends: Sequence[float], *, unit: str) -> Axis:
        """Build an axis over all of the given numbers, with room on both sides."""
        low, high = min(ends), max(ends)
        width = (high - low) or max(abs(high), 1.0) * 0.1
        low, high = low - _MARGIN * width, high + _MARGIN * width
        rough = (high - low) / _TICKS
        power = 10.0 ** math.floor(math.log10(rough))
        return cls(low, high, next((n for n in (1, 2, 5) if n * power >= rough), 10) * power, unit)

    def place(self, value: float) -> str:
        """Return the horizontal position of a value in per cent.

        Values outside the axis get the position of its end.
        """
        inside = min(max(value, self.low), self.high)
        return f"{100.0 * (inside - self.low) / (self.high - self.low):.2f}%"

    def ticks(self) -> Iterator[tuple[str, str]]:
        """Yield position and label of each tick."""
        decimals = max(0, -math.floor(math.log10(self.step)))
        for count in range(math.ceil(self.low / self.step), math.floor(self.high / self.step) + 1):
            yield self.place(count * self.step), f"{count * self.step:,.{decimals}f}{self.unit}"


def interval_chart(answers: Sequence[Mapping[str, Any]]) -> str:
    """Return an HTML chart with SVG of the intervals of the answers, or an empty text without answers."""
    if not answers:
        return ""
    figures = [_figure(list(group)) for _, group in groupby(sorted(answers, key=_scale), key=_scale)]
    claims = [confirmed(fact) for fact in answers]
    said = "Bars reach from bound to bound."
    if not all(claims):
        said += " A full point is what was taken from the sealed rows."
    if any(claims):
        said += " A hollow point is a claim, of which the sealed rows say only that the bounds are right."
    return f'<figure class="strips">\n{"".join(figures)}<figcaption>{said}</figcaption>\n</figure>'


def _scale(fact: Mapping[str, Any]) -> tuple[int, str]:
    """Return the key of the axis for an answer.

    Shares have a common axis, differences too, and others have their own.
    """
    if fact["measure"] in RATES:
        return 0, ""
    return (1, "") if fact["measure"] in POINTS else (2, fact["name"])


def _figure(answers: Sequence[Mapping[str, Any]]) -> str:
    """Return the HTML of the bars of answers that share a scale, with the scale's axis below."""
    order, _ = _scale(answers[0])
    factor = 100.0 if order < 2 else 1.0
    drawn = [_numbers(fact, factor) for fact in answers]
    ends = [number for numbers in drawn for number in numbers if math.isfinite(number)]
    axis = Axis.over(ends + [0.0] * (order == 1 or not ends), unit=" %" if order == 0 else "")
    rows = [_bar(fact, numbers, axis) for fact, numbers in zip(answers, drawn, strict=True)]
    labels = "".join(f'<text x="{place}" y="12">{label}</text>' for place, label in axis.ticks())
    title = "percentage points" if order == 1 else ""
    return "".join(rows) + (
        f'<div class="strip axis"><span>{title}</span><svg role="presentation">{labels}</svg><span></span></div>\n'
    )


def _numbers(fact: Mapping[str, Any], factor: float) -> tuple[float, float, float]:
    told = fact.get("unsealed", fact)
    return factor * float(told["low"]), factor * float(told["value"]), factor * float(told["high"])


def _bar(fact: Mapping[str, Any], numbers: tuple[float, float, float], axis: Axis) -> str:
    low, value, high = map(axis.place, numbers)
    bounds, name = bounds_of(fact), escaped(fact["name"])
    unit = " %" if fact["measure"] in RATES else ""
    told = f"{bounds.value}{unit}, between {bounds.low} and {bounds.high}{unit}"
    lines = "".join(f'<line class="tick" x1="{place}" x2="{place}" y1="0" y2="100%"/>' for place, _ in axis.ticks())
    zero = axis.place(0.0) if axis.low < 0.0 < axis.high else ""
    nought = f'<line class="zero" x1="{zero}" x2="{zero}" y1="0" y2="100%"/>' if zero else ""
    kind = "claim" if confirmed(fact) else "taken"
    return (
        f'<div class="strip"><span>{name}</span><svg role="img" aria-label="{name}: {told}">{lines}{nought}'
        f'<line class="bar" x1="{low}" x2="{high}" y1="50%" y2="50%"/>'
        f'<circle class="{kind}" cx="{value}" cy="50%" r="5"/></svg>'
        f"<span><b>{bounds.value}{unit}</b> {bounds.low} to {bounds.high}</span></div>\n"
    )
