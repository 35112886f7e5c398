"""The certificate as a page: print-ready, self-contained, without any script that runs."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from everhold.certificate.outline import Block, outline
from everhold.ledger.chain import canonical

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DATA_BEGIN", "DATA_END", "render_fragment", "render_page"]

DATA_BEGIN = '<script type="application/json" id="everhold-document">'
DATA_END = "</script>"

_STYLE = """
.everhold-certificate {
  --ink: #17212b; --soft: #55636f; --line: #d5dce2; --paper: #ffffff; --accent: #0b5d66; --wash: #eef5f5;
  --alarm: #9b1c1c; --alarm-wash: #fdeeee;
  color-scheme: light dark; box-sizing: border-box; max-width: 52rem; margin: 0 auto; padding: 2.5rem 2rem 3rem;
  background: var(--paper); color: var(--ink); overflow-wrap: anywhere;
  font: 15px/1.5 "Iowan Old Style", "Palatino Linotype", Palatino, Georgia, serif;
}
@media (prefers-color-scheme: dark) {
  .everhold-certificate {
    --ink: #e6ebef; --soft: #9fb0bd; --line: #34424e; --paper: #141b21; --accent: #6cc5cd; --wash: #1b2a30;
    --alarm: #ffb4ab; --alarm-wash: #3a1d1d;
  }
}
.everhold-certificate header {
  border-top: 5px solid var(--accent); border-bottom: 1px solid var(--line); padding: 1.2rem 0 1.4rem;
}
.everhold-certificate .kind {
  margin: 0; color: var(--accent); font: 600 .8rem/1.4 system-ui, sans-serif; letter-spacing: .12em;
  text-transform: uppercase;
}
.everhold-certificate h1 { margin: .2rem 0 0; font-size: 1.35rem; font-weight: 600; }
.everhold-certificate .promise {
  margin: 1.6rem 0 1.2rem; font-size: 1.7rem; line-height: 1.32; text-wrap: pretty;
}
.everhold-certificate .banner {
  margin: 1.2rem 0 0; padding: .8rem 1rem; border: 2px solid var(--alarm); background: var(--alarm-wash);
  color: var(--alarm); font: 600 1rem/1.4 system-ui, sans-serif;
}
.everhold-certificate section { padding: 1.1rem 0 .9rem; border-bottom: 1px solid var(--line); }
.everhold-certificate h2 {
  margin: 0 0 .5rem; font: 600 1.02rem/1.35 system-ui, sans-serif; color: var(--accent); break-after: avoid;
}
.everhold-certificate p { margin: 0 0 .6rem; }
.everhold-certificate ul { margin: 0 0 .6rem; padding-left: 1.2rem; }
.everhold-certificate li { margin: 0 0 .35rem; }
.everhold-certificate dl {
  display: grid; grid-template-columns: minmax(9rem, 15rem) 1fr; gap: .2rem 1.2rem; margin: .5rem 0 0;
  font: .84rem/1.5 system-ui, sans-serif;
}
.everhold-certificate dt { color: var(--soft); }
.everhold-certificate dd { margin: 0; font-variant-numeric: tabular-nums; }
.everhold-certificate dd.code {
  font-family: ui-monospace, "Cascadia Mono", Menlo, Consolas, monospace; font-size: .78rem;
}
@media (max-width: 36rem) {
  .everhold-certificate { padding: 1.2rem 1rem; }
  .everhold-certificate .promise { font-size: 1.3rem; }
  .everhold-certificate dl { grid-template-columns: 1fr; }
  .everhold-certificate dd { margin-bottom: .35rem; }
}
@media print {
  .everhold-certificate {
    --ink: #000000; --soft: #444444; --line: #bbbbbb; --paper: #ffffff; --accent: #0b5d66; --wash: #eef5f5;
    --alarm: #9b1c1c; --alarm-wash: #ffffff;
    color-scheme: light; max-width: none; padding: 0; font-size: 10pt;
  }
  .everhold-certificate .promise { font-size: 17pt; }
  .everhold-certificate dl, .everhold-certificate p, .everhold-certificate li { break-inside: avoid; }
}
"""
_PAGE_STYLE = """@page { size: A4; margin: 18mm 17mm 20mm; }
html { color-scheme: light dark; background: #ffffff; }
body { margin: 0; }
@media (prefers-color-scheme: dark) { html { background: #141b21; } }
@media print { html { background: #ffffff; } }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def render_page(document: Mapping[str, Any]) -> str:
    """The whole page, with the signed document in it; the same document always gives the same text."""
    title = _escaped(f"Certificate of the holdout {document['rows']['holdout']}")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{title}</title>\n<style>\n{_PAGE_STYLE}</style>\n</head>\n<body>\n"
        f"{render_fragment(document)}\n{DATA_BEGIN}{_embedded(document)}{DATA_END}\n</body>\n</html>\n"
    )


def render_fragment(document: Mapping[str, Any]) -> str:
    """The body of the page with its style, for notebooks and other pages."""
    blocks = outline(document)
    sections = "\n".join(_section(number, block) for number, block in enumerate(blocks, 1))
    return (
        f'<style>{_STYLE}</style>\n<article class="everhold-certificate">\n{_header(document)}\n{sections}\n</article>'
    )


def _header(document: Mapping[str, Any]) -> str:
    banner = document["issue"]["banner"]
    return (
        '<header>\n<p class="kind">everhold · certificate of a sealed holdout</p>\n'
        f"<h1>{_escaped(document['rows']['holdout'])}</h1>\n"
        + (f'<p class="banner" role="alert">{_escaped(banner)}</p>\n' if banner else "")
        + "</header>"
    )


def _section(number: int, block: Block) -> str:
    parts = [f'<section id="everhold-{block.key}">', f"<h2>{number}. {_escaped(block.title)}</h2>"]
    for position, text in enumerate(block.before):
        large = ' class="promise"' if block.key == "promise" and position == 0 else ""
        parts.append(f"<p{large}>{_escaped(text)}</p>")
    if block.bullets:
        parts += ["<ul>", *(f"<li>{_escaped(text)}</li>" for text in block.bullets), "</ul>"]
    parts += [f"<p>{_escaped(text)}</p>" for text in block.after]
    if block.items:
        parts += ["<dl>", *(f"<dt>{_escaped(label)}</dt>{_described(value)}" for label, value in block.items), "</dl>"]
    return "\n".join([*parts, "</section>"])


def _described(value: str) -> str:
    looks_like_a_hash = len(value) >= 32 and value.isalnum()
    kind = ' class="code"' if looks_like_a_hash else ""
    return f"<dd{kind}>{_escaped(value)}</dd>"


def _escaped(text: str) -> str:
    """Text that cannot become markup, nor turn the reading direction, nor hide."""
    visible = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )
    return html.escape(visible)


def _embedded(document: Mapping[str, Any]) -> str:
    """The document as JSON that cannot end its element."""
    text = canonical(document)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
