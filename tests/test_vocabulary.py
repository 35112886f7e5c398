"""The pages for readers use the words of docs/glossary.md, in short sentences; names of code may only get better."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parents[1]
GENERATED = (
    "reference/command-line.md",
    "theory/sources.md",
    "theory/coverage.md",
    "theory/coverage-of-intervals.md",
    "theory/coverage-of-diagnosis.md",
    "experiments.md",
    "architecture.md",
)
"""Pages below docs that programs write, or that are rewritten with the code that they describe."""

PAGES = sorted(
    {ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md")}
    | {page for page in (ROOT / "docs").rglob("*.md") if page.relative_to(ROOT / "docs").as_posix() not in GENERATED}
)
GUIDES = [page for page in PAGES if "theory" not in page.parts]

OLD_WORDS = {
    r"doorkeepers?": "middleware",
    r"desks?": "query executor",
    r"of the house|between (the )?rooms|rooms of|own doors|(nobody|anybody|anyone) in": "the standard term",
    r"frames off": "strips tracebacks",
    r"wish(es|ed|ing)?": "request, plan",
    r"first ten minutes": "first steps",
    r"who(so)?ever": "the analyst, the steward, a person who",
    r"of (theirs|its own|their own)": "name the owner",
    r"(is|are|was|were) looked at|look(s|ed)? at the sealed rows": "evaluate, test",
    r"in hand|for ever|hand(s|ed)? in": "an exact verb",
}
"""Words of earlier versions, as patterns, each with the word or the rule that replaces it."""

OLD_NAMES = {
    "desk": "executor",
    "doorkeeper": "middleware",
    "face": "compiled part",
    "shelf": "cache",
    "sheet": "fragments",
    "stretch": "block",
    "stretches": "block",
    "wandering": "block variance",
    "wish": "request",
    "wished": "requested",
    "wishes": "requests",
}
"""Words that no name in code has as a part, each with the word that replaces it."""

OLD_MODULES = frozenset([
    "asked", "chosen", "desk", "joined", "news", "padded", "paired", "probe", "reaches", "readings", "received",
    "sheet", "staging", "standings", "strips", "stretches", "tally", "told", "watching", "words",
])  # fmt: skip
"""Former names of modules, which did not name what is in them."""

IN_PROOFS = frozenset(list(OLD_WORDS)[-4:])
"""Not yet removed from docs/theory, whose lines with them are counted instead."""

LINES_IN_PROOFS = 0

LONGEST = 40
"""Words of a sentence outside the proofs."""

LONG_IN_PROOFS = 19
"""Longer sentences of docs/theory; the number may only fall."""

QUESTION = re.compile(r"(What|Whether|How|Where|Which|Who|Whose)\b")


def prose(text: str) -> list[str]:
    """Paragraphs and list items of a page, without code, formulas, tables, pictures and titles."""
    for fence in (r"^ *```.*?^ *```", r"^\$\$.*?\$\$"):
        text = re.sub(fence, "\n\n", text, flags=re.MULTILINE | re.DOTALL)
    found, paragraph = [], []
    for line in [*text.splitlines(), ""]:
        stripped = line.strip()
        item = re.match(r"([-*]|\d+\.)\s+", stripped)
        if not stripped or item or stripped.startswith(("|", "#", "![", ":::", "<")):
            found.append(" ".join(paragraph))
            paragraph = []
        if stripped and not stripped.startswith(("|", "#", "![", ":::", "<")):
            paragraph.append(stripped[item.end() :] if item else stripped)
    return [each for each in found if each]


def sentences(paragraph: str) -> list[str]:
    """Sentences of a paragraph; a piece of code, a formula or a link counts as the words that a reader sees."""
    for pattern, seen in ((r"`[^`]*`", "CODE"), (r"\$[^$]*\$", "X"), (r"\]\([^)]*\)", "]"), (r"[*_]{1,2}", "")):
        paragraph = re.sub(pattern, seen, paragraph)
    return re.split(r"(?<=[.!?])[)\"'\]]*\s+(?=[A-Z0-9(\"'\[]|everhold )", paragraph)


def long_sentences(page: Path) -> list[str]:
    every = [each for part in prose(page.read_text("utf-8")) for each in sentences(part)]
    return [each for each in every if len(each.split()) > LONGEST]


def old_words(page: Path, patterns: Iterable[str] = tuple(OLD_WORDS)) -> list[str]:
    return [
        f"{page.name}: {match[0]!r}; write {OLD_WORDS[pattern]}"
        for paragraph in prose(page.read_text("utf-8"))
        for pattern in patterns
        for match in re.finditer(rf"\b(?:{pattern})\b", re.sub(r"`[^`]*`", "CODE", paragraph), re.IGNORECASE)
    ]


def sources() -> list[str]:
    """Folders of all packages of the repository."""
    found = ROOT.glob("packages/*/src/everhold*/__init__.py")
    return sorted(path.parent.relative_to(ROOT).as_posix() for path in found)


def summaries(package: Path) -> int:
    """Number of public functions, classes and modules of a package whose summary begins with a question word."""
    found = 0
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                public = not getattr(node, "name", path.stem).startswith("_")
                found += bool(public and QUESTION.match(ast.get_docstring(node) or ""))
    return found


def names_of(tree: ast.AST) -> set[str]:
    """All names that a module gives: of classes, functions, arguments, variables and attributes."""
    found = set()
    for node in ast.walk(tree):
        found |= {getattr(node, part, None) for part in ("name", "arg", "attr", "id")}
    return {each for each in found if isinstance(each, str)}


def old_names(package: Path) -> list[str]:
    """Names of a package with old words, and its docstrings and messages that have some."""
    found = []
    for path in sorted(package.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        for name in sorted({path.stem, *names_of(tree)}):
            parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_")
            found += [f"{path.name}: {name}; write {OLD_NAMES[part]}" for part in parts if part in OLD_NAMES]
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                said = re.findall(r"\b(?:doorkeepers?|desks?|wish(?:es|ed)?)\b", node.value, re.IGNORECASE)
                found += [f"{path.name}: {word!r} in a text" for word in said]
        found += [f"{path.name} names nothing that is in it"] if path.stem in OLD_MODULES else []
    return found


@pytest.mark.parametrize("folder", sources())
def test_code_has_no_old_names(folder):
    assert old_names(ROOT / folder) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_has_no_old_words(page):
    assert old_words(page, OLD_WORDS if page in GUIDES else OLD_WORDS.keys() - IN_PROOFS) == []


def test_old_words_of_proofs_only_become_fewer():
    found = [line for page in PAGES if page not in GUIDES for line in old_words(page, IN_PROOFS)]
    assert len(found) <= LINES_IN_PROOFS, "\n".join(found)


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_sentences_are_short(page):
    assert long_sentences(page) == []


def test_long_sentences_of_proofs_only_become_fewer():
    found = [each for page in PAGES if page not in GUIDES for each in long_sentences(page)]
    assert len(found) <= LONG_IN_PROOFS, "\n".join(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_titles_name_their_thing(page):
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert [title for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE) if QUESTION.match(title)] == []


@pytest.mark.parametrize("folder", sources())
def test_docstring_summaries_are_noun_phrases_or_imperatives(folder):
    assert summaries(ROOT / folder) == 0, "a summary begins with a question word"


def test_the_checks_find_what_they_look_for(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# What it does\n\nThe doorkeepers ask `whoever`.\nIt is of its own. everhold answers.\n\n| whoever |\n"
        "\n```python\nwish = 1\n```\n\n- One item\n  of two lines.\n",
        encoding="utf-8",
    )
    first, item = prose(page.read_text("utf-8"))
    assert [word.split("'")[1] for word in old_words(page)] == ["doorkeepers", "of its own"]
    assert sentences(first) == ["The doorkeepers ask CODE.", "It is of its own.", "everhold answers."]
    assert item == "One item of two lines."
    code = tmp_path / "code.py"
    code.write_text('"""How it is."""\n\ndef f():\n    """What f is."""\n\ndef _g():\n    """Who it is."""\n')
    assert summaries(tmp_path) == 2
    assert old_names(tmp_path) == []
    code.write_text('"""One wish."""\n\nclass PaddedSheet:\n    wished_for = 1\n')
    code.rename(tmp_path / "probe.py")
    names = ["PaddedSheet", "wished_for", "'wish' in a text"]
    found = [f"probe.py: {name}" for name in names] + ["probe.py names nothing that is in it"]
    assert [line.split(";")[0] for line in old_names(tmp_path)] == found
