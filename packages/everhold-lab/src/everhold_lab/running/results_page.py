"""The report of a folder of results: one HTML page that holds everything and loads nothing."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everhold.charts import html_page
from everhold_lab.experiments import EXPERIMENTS
from everhold_lab.running.results import write_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NAME = "report.html"
_STYLE = """<style>
table { border-collapse: collapse; font-size: .85rem; } .wide { overflow-x: auto; }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid #8884; white-space: nowrap; }
th.text, td.text { text-align: left; } .kept::before { content: "kept: "; color: #1a7f37; font-weight: bold; }
.broken::before { content: "NOT KEPT: "; color: #cf222e; font-weight: bold; } .small { font-size: .85rem; }
.findings { list-style: none; padding: 0; } figure { margin: 1.5rem 0; } section { margin-bottom: 4rem; }
@media (prefers-color-scheme: dark) { .kept::before { color: #3fb950; } .broken::before { color: #ff7b72; } }
</style>"""
_NO_PICTURES = "Pictures need Altair. Run <code>pip install 'everhold[plots]'</code>, then the same command again."
_NAMES = {
    "experiment", "title", "source", "about", "parameters", "repetitions", "seed", "seconds", "machine", "everhold",
    "findings", "pictures", "rows",
}  # fmt: skip
_MOST_LINES, _OPEN_LINES = 400, 40


def write_report(output: Path) -> Path:
    """Write the report of all experiments that were run into a folder."""
    page = output / _NAME
    write_text(page, report_page(_documents(output), output))
    return page


def report_page(documents: Sequence[Mapping[str, Any]], output: Path) -> str:
    """The report as one page.

    Args:
        documents: Of each experiment, as `Results.to_dict` returns it.
        output: The folder with their pictures.
    """
    contents = "".join(
        f'<li><a href="#{_text(document["experiment"])}">{_text(document["title"])}</a> {_verdict(document)}</li>'
        for document in documents
    )
    sections = "".join(_section(document, output) for document in documents)
    return html_page(
        f"{_STYLE}<ul>{contents}</ul>{sections}",
        title="Experiments of everhold",
        caption="Made by everhold lab run; the folder holds all measured rows as Parquet.",
    )


def _documents(output: Path) -> list[dict[str, Any]]:
    """The documents in a folder, those that everhold brings along first and in their order."""
    found = {}
    for file in sorted(output.glob("*.json")):
        document = _read(file)
        if _can_be_shown(document, output) and document["experiment"] == file.stem:
            found[file.stem] = document
    usual = [name for name in EXPERIMENTS if name in found]
    return [found[name] for name in (*usual, *(name for name in found if name not in usual))]


def _read(file: Path) -> Any:
    """Document of a file; None if it is no JSON, since anything may be in the folder."""
    try:
        return json.loads(file.read_bytes())
    except (ValueError, RecursionError, OSError):
        return None


def _can_be_shown(document: Any, output: Path) -> bool:
    """True if a run wrote this: a foreign file must not end a run of hours."""
    if not isinstance(document, dict) or not document.keys() >= _NAMES:
        return False
    try:
        return bool(_section(document, output) + _verdict(document))
    except (TypeError, ValueError, LookupError, AttributeError, OSError):
        return False


def _section(document: Mapping[str, Any], output: Path) -> str:
    name = _text(document["experiment"])
    findings = "".join(
        f'<li class="{"kept" if one["kept"] else "broken"}">{_text(one["finding"])}</li>'
        for one in document["findings"]
    )
    parameters = ", ".join(f"{key} {_size(value)}" for key, value in document["parameters"].items())
    facts = (
        f"{document['repetitions']:,} repetitions{_of_usual(document)}, seed {document['seed']}, "
        f"{document['seconds']:,.0f} seconds of computing, {document['machine']}, everhold {document['everhold']}. "
        f"Sizes: {parameters or 'none'}."
    )
    return (
        f'<section id="{name}"><h2>{_text(document["title"])}</h2><p class="small">{_text(document["source"])}</p>'
        f'<p>{_text(document["about"])}</p><ul class="findings">{findings}</ul>'
        f"{_pictures(document, output)}{_table(document['rows'])}"
        f'<p class="small">{_text(facts)} <code>everhold lab run {name}</code></p></section>'
    )


def _verdict(document: Mapping[str, Any]) -> str:
    findings, broken = len(document["findings"]), sum(not one["kept"] for one in document["findings"])
    count = f"{broken} of {findings} findings" if broken else f"all {findings} findings"
    return f'<span class="{"broken" if broken else "kept"}">{count}{_of_usual(document)}</span>'


def _of_usual(document: Mapping[str, Any]) -> str:
    """That there are fewer repetitions than the findings were made for, so that chance may have decided."""
    name = document["experiment"]
    usual = EXPERIMENTS[name].repetitions if name in EXPERIMENTS else 0
    return f" (a quick look: {usual:,} are usual)" if document["repetitions"] < usual else ""


def _size(value: Any) -> str:
    """A parameter as people read it; of described cases their names."""
    if isinstance(value, list):
        names = [str(one["name"]) if isinstance(one, dict) and "name" in one else _size(one) for one in value]
        return f"[{', '.join(names)}]"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _pictures(document: Mapping[str, Any], output: Path) -> str:
    if document["pictures"] is None:
        return f"<p>{_NO_PICTURES}</p>"
    figures = []
    for number, picture in enumerate(document["pictures"]):
        file = output / Path(picture["file"]).name  # of this folder, whatever the document says
        if file.suffix != ".svg" or not file.is_file():
            figures.append(f"<p>The picture {_text(file.name)} is no longer in the folder.</p>")
            continue
        svg = _alone(file.read_text(encoding="utf-8"), f"{_text(document['experiment'])}-{number}-")
        caption = f"<strong>{_text(picture['title'])}.</strong> {_text(picture['caption'])}"
        figures.append(f"<figure>{svg}<figcaption>{caption}</figcaption></figure>")
    return "".join(figures)


def _alone(svg: str, prefix: str) -> str:
    """The picture with names of its own: two pictures of one page would share their clipping areas otherwise."""
    return re.sub(r'(\bid="|url\(#|href="#)', lambda match: match.group(1) + prefix, svg)


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return ""
    texts = {name: all(isinstance(row[name], (str, type(None))) for row in rows) for name in rows[0]}
    kind = {name: ' class="text"' if text else "" for name, text in texts.items()}
    head = "".join(f"<th{kind[name]}>{_text(name)}</th>" for name in rows[0])
    lines = "".join(
        "<tr>" + "".join(f"<td{kind[name]}>{_text(_shown(value))}</td>" for name, value in row.items()) + "</tr>"
        for row in rows[:_MOST_LINES]
    )
    cut = f"<p>The first {_MOST_LINES} of {len(rows):,} lines.</p>" if len(rows) > _MOST_LINES else ""
    table = f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>{cut}'
    opened = " open" if len(rows) <= _OPEN_LINES else ""
    return f"<details{opened}><summary>{len(rows):,} lines of numbers</summary>{table}</details>"


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _text(value: Any) -> str:
    return html.escape(str(value))
