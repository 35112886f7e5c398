"""Tokens of the language of expressions, and errors that say how something is written."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from sqlglot import Token, TokenType
from sqlglot.dialects.duckdb import DuckDB

from everhold.errors import QueryRejected
from everhold.values.expressions.tree import ColumnKind

__all__ = [
    "MAX_CHARACTERS", "MAX_NESTING", "MAX_TOKENS", "SEE", "Columns", "how_to_write", "quoted_name", "read_tokens",
    "rejected", "shown_text",
]  # fmt: skip

MAX_CHARACTERS = 10_000
MAX_TOKENS = 2_000
MAX_NESTING = 20
"""Brackets, cases and signs inside each other; the parser takes about 23 frames of Python's stack for each."""

_LISTED_COLUMNS = 12
_FUNCTIONS = ("abs", "least", "greatest", "ln", "log", "lower", "upper", "year", "month", "day", "hour", "isodow")
_OPENING = frozenset({"and", "or", "not", "in", "like", "between", "case", "when", "then", "else", "is"})
_SIGNS = frozenset({"=", "==", "<>", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "(", ")", ","})
_PLAIN = _SIGNS | _OPENING | {"end", "null", "true", "false"}
_BETWEEN_VALUES = frozenset({"and", "or", "in", "like", "between", "is", "then", "else", "end"})
"""Keywords that cannot stand where a value begins: a column that is called so can."""

_COMPARING = frozenset({"=", "==", "<>", "!=", "<", "<=", ">", ">=", "like"})
_TIMES = ("date", "timestamp")
_BEFORE_A_VALUE = _SIGNS - {")"} | _OPENING
_FRESH = frozenset({"(", ",", "and", "or", "when", "then", "else"})
_NUMBER = re.compile(r"([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_SPACE = " \t\r\n"
SEE = "see the documentation of expressions for what can be written"
Columns: TypeAlias = Mapping[str, ColumnKind]


def rejected(problem: str, advice: str) -> QueryRejected:
    """The one kind of error of this package."""
    return QueryRejected(f"{problem}; {advice}; nothing was charged")


def shown_text(text: str) -> str:
    """A short, escaped piece of the analyst's own text."""
    return ascii(text if len(text) <= 40 else text[:37] + "...")


def read_tokens(text: str, columns: Columns) -> list[Token]:
    """Tokens of the small language; columns are `IDENTIFIER` tokens that carry the exact name of a known column."""
    if not isinstance(text, str):
        raise rejected("the expression is not text", "write for example 'arr_delay > 15'")
    if len(text) > MAX_CHARACTERS:
        raise rejected(f"the expression is longer than {MAX_CHARACTERS:,} characters", "ask a shorter query")
    if _NO_TEXT.search(text):
        raise rejected("the expression has a character that is not text", "remove zero bytes and half surrogates")
    try:
        tokens: list[Token] = DuckDB().tokenize(text)
    except Exception:  # the tokenizer quotes its input, and its own faults are not the analyst's
        tokens = []
    if not tokens:
        raise rejected("the expression is empty or has an open quote", "write for example arr_delay > 15")
    if len(tokens) > MAX_TOKENS:
        raise rejected(f"the expression has more than {MAX_TOKENS} words and signs", "ask a shorter query")
    words = _words(text, tokens)
    if "." in words:
        tokens = _with_leading_points(tokens, words)
        words = _words(text, tokens)
    return _resolved(tokens, words, columns)


def _words(text: str, tokens: Sequence[Token]) -> list[str]:
    """The analyst's spelling of each token, lower case; refuses comments and whatever the tokenizer skipped."""
    words, end = [], 0
    for token in tokens:
        if token.comments or text[end : token.start].strip(_SPACE):
            break
        end = token.end + 1
        words.append(text[token.start : end].lower())
    if text[end:].strip(_SPACE):
        raise rejected(
            f"the expression cannot be read from {shown_text(text[end:])} on", "leave out comments and hints"
        )
    return words


def _with_leading_points(tokens: Sequence[Token], words: Sequence[str]) -> list[Token]:
    """``.5`` as one number, which the tokenizer leaves in two; only where a value can begin, so not in ``1..5``."""
    joined: list[Token] = []
    for place, token in enumerate(tokens):
        point = tokens[place - 1] if place and words[place - 1] == "." and words[place][0] in "0123456789" else None
        if point is None or point.end + 1 != token.start or not (place == 1 or words[place - 2] in _BEFORE_A_VALUE):
            joined.append(token)
        else:
            text = f".{token.text}"
            joined[-1] = Token(TokenType.NUMBER, text, point.line, point.col, point.start, token.end)
    return joined


def _check_nesting(words: Sequence[str]) -> None:
    """Bounds everything that makes the parser recurse: brackets, cases, negations and runs of signs."""
    levels, run, previous = [0], 0, "("
    for place, word in enumerate(words):
        run = run + 1 if word in ("-", "+", "not") and previous in _BEFORE_A_VALUE else 0
        if word in ("(", "case"):
            levels.append(0)
        elif word in (")", "end") and len(levels) > 1:
            levels.pop()
        elif word == "not" and previous != "is" and words[place + 1 : place + 2] not in (["in"], ["between"], ["like"]):
            levels[-1] += previous not in _FRESH
        if len(levels) + run + sum(levels) > MAX_NESTING:
            raise rejected(
                f"the expression is nested more than {MAX_NESTING} deep", "use fewer brackets, cases and negations"
            )
        previous = word


def _resolved(tokens: Sequence[Token], words: Sequence[str], columns: Columns) -> list[Token]:
    """Each token itself if it belongs to the language, and a column token for a known name."""
    found, meant = [], ["("]  # the words, with nothing in the place of a column
    for token, word, following in zip(tokens, words, [*words[1:], ""], strict=True):
        if _is_of_language(token, word, meant[-1], following, columns):
            found.append(token)
            meant.append(word)
        else:
            name = _column_named(token, word, meant[-1], following, columns)
            found.append(Token(TokenType.IDENTIFIER, name, token.line, token.col, token.start, token.end))
            meant.append("")
    _check_nesting(meant[1:])
    return found


def _is_of_language(token: Token, word: str, previous: str, following: str, columns: Columns) -> bool:
    """True if a token is a literal, a sign, a keyword or a function, and no name."""
    kind, called = token.token_type, following == "("
    if kind is TokenType.STRING:
        return word[0] == "'"
    if word in _TIMES:
        return following[:1] == "'"
    if word == "like" and following[:1] != "'":
        return False
    if word in _BETWEEN_VALUES and previous in _BEFORE_A_VALUE - {"not"} and _names_of(word, columns):
        return False
    return bool(
        (kind is TokenType.NUMBER and _NUMBER.fullmatch(word)) or word in _PLAIN or (word in _FUNCTIONS and called)
    )


def _column_named(token: Token, word: str, previous: str, following: str, columns: Columns) -> str:
    """The name of a known column; refuses everything else."""
    if token.token_type is not TokenType.IDENTIFIER and not word.isidentifier():
        raise rejected(f"{shown_text(word)} is not part of the language", SEE)
    if following == "(":
        known = f"{', '.join(_FUNCTIONS[:-1])} or {_FUNCTIONS[-1]}"
        raise rejected(f"{shown_text(word)} is not a known function", f"use {known}")
    if token.text in columns:
        return token.text
    if word == "like" and not _names_of(word, columns):
        raise rejected("'like' stands without a text", "write for example carrier like 'U%'")
    return _differing_in_case(token.text, columns, compared=previous in _COMPARING)


def _differing_in_case(name: str, columns: Columns, *, compared: bool) -> str:
    """The one column that has this name but for case; refuses any other name, with what may be meant."""
    same = _names_of(name, columns)
    if len(same) == 1:
        return same[0]
    longer = [known for known in columns if not known.isidentifier() and known.casefold().startswith(name.casefold())]
    close = same or longer[:3] or difflib.get_close_matches(name[:64], list(columns)[:1000], n=3, cutoff=0.6)
    if close:
        advice = f"did you mean {', '.join(map(_spelled, close))}"
    elif 0 < len(columns) <= _LISTED_COLUMNS:
        advice = f"expected one of {', '.join(map(_spelled, columns))}"
    else:
        advice = "see the list of columns"
    if compared and "'" not in name:
        advice = f"a text stands in single quotes, {shown_text(name)}; else {advice}"
    raise rejected(f"there is no column {shown_text(name)}", advice)


def _names_of(word: str, columns: Columns) -> list[str]:
    return [known for known in columns if known.casefold() == word.casefold()]


def _spelled(name: str) -> str:
    """A column's name as a message has it; in double quotes where it has to be written so."""
    return shown_text(name) if name.isidentifier() and name.lower() not in _PLAIN else quoted_name(name)


def quoted_name(name: str) -> str:
    """A column's name in double quotes, short and escaped."""
    return ascii('"' + name[:37].replace('"', '""') + '"')[1:-1]


def how_to_write(text: str, columns: Columns) -> str:
    """Advice for a text that is no expression: names of columns that need double quotes, or an example."""
    bare = re.sub(r"'[^']*'|\"[^\"]*\"", " ", text).casefold()
    for name in columns:
        keyword = name.lower() in _PLAIN
        odd = not name.isidentifier() and name.casefold() in bare
        if odd or (keyword and re.search(rf"\b{re.escape(name.lower())}\b", bare)):
            return f"put the name of the column in double quotes, {_spelled(name)}, if it is meant"
    return "write for example arr_delay > 15 and carrier = 'UA'"
