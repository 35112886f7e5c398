"""The list of all queries on the page of a certificate: foldable, a hundred at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.certificate.arrivals import about_rows
from everhold.certificate.summary import bounds_of, unit_of
from everhold.display import escaped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_PAGE = 100
_HEAD = ("entry", "query", "answer", "interval", "source", "charged")
_SOURCES = {
    "training": "confirmed: training estimate",
    "guess": "confirmed: own guess",
    "standing": "not better than the best so far",
    "holdout": "sealed rows",
    "silent": "asked silently",
    "chosen": "sealed rows: a choice among many",
    "declared": "sealed rows: declared beforehand",
    "promoted": "promoted: proved to be better",
    "kept": "kept: nothing is proved",
}
_NO_NUMBER = "–"


def query_items(queries: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Each query as an item of a table: its entry, and everything else in one line."""
    for query in queries:
        _, asked, answer, interval, source, charged = _cells(query)
        numbers = answer if interval == _NO_NUMBER else f"{answer}, between {interval.replace(' to ', ' and ', 1)}"
        yield f"entry {query['entry']:,}", f"{asked}: {numbers}; {source}, charged {charged}"


def render_queries(queries: Sequence[Mapping[str, Any]]) -> str:
    """The tables, each folded under a line that says which queries it holds."""
    parts = []
    for begin in range(0, len(queries), _PAGE):
        some = queries[begin : begin + _PAGE]
        title = f"Queries {begin + 1:,} to {begin + len(some):,} of {len(queries):,}"
        parts.append(
            f"<details><summary>{title}</summary>\n"
            f'<table class="queries">\n<thead><tr>{"".join(f"<th>{name}</th>" for name in _HEAD)}</tr></thead>\n'
            f"<tbody>\n{''.join(_row(query) for query in some)}</tbody></table></details>"
        )
    return "\n".join(parts)


def _row(query: Mapping[str, Any]) -> str:
    cells = _cells(query)
    kinds = ["number", "asked", "number", "number", "", "number"]
    written = (
        f'<td class="{kind}">{escaped(cell)}</td>' if kind else f"<td>{escaped(cell)}</td>"
        for kind, cell in zip(kinds, cells, strict=True)
    )  # fmt: skip
    return f"<tr>{''.join(written)}</tr>\n"


def _cells(query: Mapping[str, Any]) -> tuple[str, ...]:
    """The texts of a row, in the order of the table's head."""
    answer = interval = _NO_NUMBER
    if query["low"] is not None or "unsealed" in query:
        bounds, unit = bounds_of(query), unit_of(query)
        answer, interval = bounds.value + unit, f"{bounds.low} to {bounds.high}{unit}"
    source = _SOURCES.get(query["source"], query["source"])
    told = f"{source}; unsealed" if "unsealed" in query else source
    return f"{query['entry']:,}", query["asked"] + about_rows(query), answer, interval, told, f"{query['charged']:,}"


QUERIES_STYLE = """
.everhold-certificate details { margin: .5rem 0; font: .84rem/1.5 system-ui, sans-serif; }
.everhold-certificate summary { cursor: pointer; color: var(--accent); font-weight: 600; }
.everhold-certificate table.queries { width: 100%; border-collapse: collapse; margin: .4rem 0 .8rem; }
.everhold-certificate table.queries th {
  color: var(--soft); font-weight: 600; text-align: left; overflow-wrap: normal;
}
.everhold-certificate table.queries th, .everhold-certificate table.queries td {
  padding: .2rem .7rem .2rem 0; border-bottom: 1px solid var(--line); vertical-align: top;
}
.everhold-certificate table.queries td { font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
@media (max-width: 36rem) {
  .everhold-certificate table.queries, .everhold-certificate table.queries tbody,
  .everhold-certificate table.queries tr, .everhold-certificate table.queries td {
    display: block; padding: 0; border: 0;
  }
  .everhold-certificate table.queries thead { display: none; }
  .everhold-certificate table.queries tr { padding: .4rem 0; border-bottom: 1px solid var(--line); }
  .everhold-certificate table.queries td.number:first-child::before { content: "Entry "; color: var(--soft); }
  .everhold-certificate table.queries td.number:last-child::before { content: "charged "; color: var(--soft); }
}
@media print {
  .everhold-certificate details::details-content { content-visibility: visible; block-size: auto; }
  .everhold-certificate table.queries tr { break-inside: avoid; }
}
"""
"""Style of the list, beside the style of the first page."""
