"""The certificate as people read it: titled blocks of text and values, and the page that shows them.

The page is print-ready and self-contained, and runs no script.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.certificate.account import account_block
from everhold.certificate.blocks import Block, brief_value, labelled, value_text
from everhold.certificate.counting import group_items
from everhold.certificate.first_page import FIRST_PAGE_STYLE, first_page
from everhold.certificate.form import DATA_BEGIN, DATA_END, SIGNATURE, TIMESTAMP
from everhold.certificate.numbers import at_least, at_most, percent, shown
from everhold.certificate.queries import QUERIES_STYLE, query_items, render_queries
from everhold.certificate.sections import engine_name
from everhold.dependence import MODELS
from everhold.display import escaped
from everhold.ledger.chain import canonical
from everhold.mechanisms import MECHANISMS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def outline(document: Mapping[str, Any]) -> tuple[Block, ...]:
    """The blocks of a certificate, in order."""
    promise, rows, privacy = document["promise"], document["rows"], document["privacy"]
    mechanism, theorem, issue, signature = (document[name] for name in ("mechanism", "theorem", "issue", SIGNATURE))
    also = (_ALSO_SEALED,) if rows.get("also_sealed_as") else ()
    shared = labelled({name: mechanism[name] for name in ("name", "rows", "queries", "confidence", "unit")})
    proof = (("statement", theorem["statement"]), ("source", theorem["source"]), *labelled(theorem["numbers"]))
    kept_private = tuple(
        (name, value_text(privacy[name])) for name in ("epsilon", "delta") if privacy[name] is not None
    )
    issued = (
        ("software", f"{issue['software']} {issue['version']}"),
        ("issued at", issue["issued_at"]),
        ("simulation", _simulated(document) if issue["simulation"] else "no"),
    )
    signed = labelled({name: signature[name] for name in ("algorithm", "public_key", "value")})
    stamp = document.get(TIMESTAMP)
    checking = (_CHECKING,) if stamp is None else (_CHECKING, _CHECKING_TIME)
    stated = () if stamp is None else (("trusted time, as its token states it", stamp["time"]),)
    digests = tuple((f"SHA-256 of {name!r}", value) for name, value in signature["digests"].items())
    return (
        Block("promise", "What is promised", (promise["sentence"], *promise["explanation"]),
              items=tuple(_promise_items(promise))),
        Block("rows", "For which rows", also, items=tuple(_rows_items(document))),
        _assumptions(document["assumptions"]),
        Block("mechanism", "How answers are made", (mechanism["explanation"],),
              items=(*shared, *labelled(mechanism["parameters"]))),
        Block("theorem", "Why it holds", (theorem["says"],), items=proof),
        account_block(document["account"], mechanism),
        *_queries(document),
        _where(document["ledger_head"]),
        Block("privacy", "Privacy of single rows", tuple(privacy["explanation"]), items=kept_private),
        Block("not_promised", "What is not promised", bullets=tuple(document["not_promised"]["items"])),
        Block("issue", "Issued", items=issued),
        Block(SIGNATURE, "Signature", checking, items=(*signed, *stated, *digests)),
    )  # fmt: skip


def _simulated(document: Mapping[str, Any]) -> str:
    kind = MECHANISMS.get(document["mechanism"]["name"])
    if kind is None or kind.traits.adds_noise:
        return "yes: the noise could be predicted"
    return "yes: created with a seed"


def _queries(document: Mapping[str, Any]) -> Iterator[Block]:
    """The list of all queries, or that there is none."""
    queries = document["account"].get("queries")
    if queries is not None:
        said = (_LISTED.format(number=shown(len(queries))) if queries else _NONE_LISTED,)
        yield Block("queries", "All queries", said, items=tuple(query_items(queries)), tables=render_queries(queries))
    else:
        yield Block("queries", "All queries", (_NOT_LISTED,))


def _where(head: Mapping[str, Any]) -> Block:
    """Position of the ledger, and entries that were read before."""
    items = labelled({name: value for name, value in head.items() if name != "checkpoint"})
    before = (_CHECKPOINT.format(**head["checkpoint"]),) if "checkpoint" in head else ()
    return Block("ledger_head", "Where the ledger stands", (_LEDGER, *before), items=items)


_LISTED = (
    "These are all queries of the ledger, {number} in number, in its order and in their own units. A difference of "
    "shares is in percentage points. All intervals hold at once, with the probability of the promise. A query without "
    "an interval has another kind of answer, or was not told yet."
)
_NONE_LISTED = "No query was asked."
_NOT_LISTED = (
    "This certificate does not list the queries and their answers. The steward's command 'everhold transcript' prints "
    "them all, and the hash of the last entry, below, commits to them."
)
_LEDGER = (
    "Every query and its exact answer is an entry of the ledger, chained by SHA-256. Whoever keeps this "
    "certificate can show later that no entry up to here was changed or taken away."
)
_CHECKPOINT = (
    "Entries up to number {sequence:,} were checked before, the last of them at {made_at}, and what they add up to was "
    "kept under the key's seal. For this certificate they were not read again, except for which queries they "
    "answer; those after them were. The ledger passes through the hash that commits to all of them. Whether each can "
    "still be read as it was written is what 'everhold ledger verify' checks."
)
_ALSO_SEALED = (
    "The same rows were sealed more than once in the same storage. Budgets do not add up: what the other holdouts told "
    "is not counted here, and the promise holds only for queries that were chosen without it."
)
_CHECKING = (
    "To check this certificate, offline: everhold certificate verify FILE --public-key KEY. The key must come to "
    "you from the steward, who sealed the rows, and not with this document. Without it, the signature only shows "
    "that nothing was altered since somebody signed. Use the version of everhold that is named above: another one that "
    "has other words says that it did not check them, and does not call the certificate sound."
)
_CHECKING_TIME = (
    "The trusted time is a token of a time-stamping authority (RFC 3161) about this signature. Whether to believe it: "
    "everhold certificate verify FILE --timestamp-roots ROOTS, with the authority's root certificate from a source "
    "that you trust."
)


def _promise_items(promise: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    radius, beyond = promise["radius"], promise["spends_only_beyond"]
    yield "half-width, at most", "infinite" if radius is None else f"{at_most(radius)} (rounded up from {radius!r})"
    yield "probability, at least", percent(promise["confidence"])
    yield "statement", promise["statement"]
    yield "planned queries", shown(promise["queries"])
    if promise["surprises"] is not None:
        yield "planned surprises", shown(promise["surprises"])
    if beyond:
        yield "surprises are charged only beyond", at_least(beyond)


def _rows_items(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    rows = document["rows"]
    yield "holdout", rows["holdout"]
    if "engine" in rows:
        yield from _engine_items(rows)
    else:
        yield from labelled({name: rows[name] for name in ("rows", "fingerprint", "sealed_at")})
    yield from group_items(document)
    if "training_table" in rows:
        table = rows["training_table"]
        yield "training rows, open", f"{shown(table['rows'])} in the table {table['table']!r}"
        yield "of them copied", shown(rows["training_rows"])
        yield from labelled({"training_fingerprint": rows["training_fingerprint"]})
    elif rows["training_rows"]:
        yield "training rows, open", shown(rows["training_rows"])
        yield from labelled({"training_fingerprint": rows["training_fingerprint"]})
    else:
        yield "training rows, open", "none"
    yield from labelled(
        {name: rows[name] for name in ("label", "row_id", "features", "stratified") if rows.get(name) is not None}
    )
    if rows.get("lacking"):
        yield "training rows without a value", ", ".join(f"{name}: {shown(count)}" for name, count in rows["lacking"])
    if rows.get("missing"):
        yield "rows without a value", ", ".join(f"{name}: {said}" for name, said in rows["missing"])
    if rows.get("also_sealed_as"):
        yield "also sealed as", ", ".join(map(repr, rows["also_sealed_as"]))
    yield "columns", ", ".join(f"{name} ({kind})" for name, kind in rows["columns"])
    yield from labelled({"id": rows["id"]})


def _engine_items(rows: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Engine and table of the rows, and their identification there."""
    engine = rows["engine"]
    yield from labelled({"rows": rows["rows"]})
    yield "they stay in", f"{engine_name(engine)}, table {engine['table']!r}"
    if "arrived" in engine:
        yield "rows sealed at creation", f"those with {engine['arrived']} before {engine['until']}"
    yield "snapshot", "none: the table itself" if engine["snapshot"] is None else engine["snapshot"]
    yield "fingerprint, keyed (HMAC-SHA256 of the table's contents)", rows["fingerprint"]
    yield from labelled({"sealed_at": rows["sealed_at"]})


def _assumptions(section: Mapping[str, Any]) -> Block:
    return Block(
        "assumptions",
        "What is assumed about the rows, and how to tell if it is wrong",
        bullets=tuple(f"It is assumed that {text}." for text in (*section["stated"], *section["always"])),
        after=tuple(section["how_to_tell"]),
        items=tuple(_dependence_items(section["dependence"])),
    )


def _dependence_items(dependence: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Facts of the dependence model; its unset fields, and a fit that cannot be wrong, are not shown."""
    model = MODELS.get(str(dependence.get("kind")))
    labels, words = (model.entries, {("kind", model.kind): model.title, **model.value_words}) if model else ({}, {})
    for name, value in dependence.items():
        if value in (None, "", [], {}) or (name == "miss" and value == 0):
            continue
        said = words.get((name, value)) if isinstance(value, str) else None
        yield f"dependence: {labels.get(name, name.replace('_', ' '))}", said or brief_value(value)


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
  .everhold-certificate dt, .everhold-certificate dd, .everhold-certificate p,
  .everhold-certificate li { break-inside: avoid; }
}
"""
ARTICLE_STYLE = _STYLE + FIRST_PAGE_STYLE + QUERIES_STYLE
"""Style for `render_article`."""

_PAGE_STYLE = """@page { size: A4; margin: 18mm 17mm 20mm; }
html { color-scheme: light dark; background: #ffffff; }
body { margin: 0; }
@media (prefers-color-scheme: dark) { html { background: #141b21; } }
@media print { html { background: #ffffff; } }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def render_page(document: Mapping[str, Any]) -> str:
    """The whole page, with the signed document in it; the same document always gives the same text."""
    title = escaped(f"Certificate of the holdout {document['rows']['holdout']}")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{title}</title>\n<style>\n{_PAGE_STYLE}</style>\n</head>\n<body>\n"
        f"{render_fragment(document)}\n{DATA_BEGIN}{_embedded(document)}{DATA_END}\n</body>\n</html>\n"
    )


def render_fragment(document: Mapping[str, Any]) -> str:
    """The body of the page with its style, for notebooks and other pages."""
    return f"<style>{ARTICLE_STYLE}</style>\n{render_article(document)}"


def render_article(document: Mapping[str, Any]) -> str:
    """The body of the page alone, for pages that hold `ARTICLE_STYLE`."""
    sections = "\n".join(_section(number, block) for number, block in enumerate(outline(document), 1))
    return (
        f'<article class="everhold-certificate">\n{_header(document)}\n{first_page(document)}\n{sections}\n</article>'
    )


def _header(document: Mapping[str, Any]) -> str:
    banner = document["issue"]["banner"]
    return (
        '<header>\n<p class="kind">everhold · certificate of a sealed holdout</p>\n'
        f"<h1>{escaped(document['rows']['holdout'])}</h1>\n"
        + (f'<p class="banner" role="alert">{escaped(banner)}</p>\n' if banner else "")
        + "</header>"
    )


def _section(number: int, block: Block) -> str:
    parts = [f'<section id="everhold-{block.key}">', f"<h2>{number}. {escaped(block.title)}</h2>"]
    for position, text in enumerate(block.before):
        large = ' class="promise"' if block.key == "promise" and position == 0 else ""
        parts.append(f"<p{large}>{escaped(text)}</p>")
    if block.bullets:
        parts += ["<ul>", *(f"<li>{escaped(text)}</li>" for text in block.bullets), "</ul>"]
    parts += [f"<p>{escaped(text)}</p>" for text in block.after]
    if block.tables:
        parts.append(block.tables)
    elif block.items:
        parts += ["<dl>", *(f"<dt>{escaped(label)}</dt>{_described(value)}" for label, value in block.items), "</dl>"]
    return "\n".join([*parts, "</section>"])


def _described(value: str) -> str:
    looks_like_a_hash = len(value) >= 32 and value.isalnum()
    kind = ' class="code"' if looks_like_a_hash else ""
    return f"<dd{kind}>{escaped(value)}</dd>"


def _embedded(document: Mapping[str, Any]) -> str:
    """The document as JSON that cannot end its element."""
    text = canonical(document)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
