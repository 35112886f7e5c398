"""Lexical gate: only words and signs of the small language reach the parser, every other word is a known column.

The parser of sqlglot knows thousands of constructions. It is handed a token list in which each word that is not one
of the few keywords below has been replaced by a quoted column, so none of the others can be spelled.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence

from sqlglot.dialects.duckdb import DuckDB
from sqlglot.tokenizer_core import Token, TokenType

from everhold.errors import QueryRejected
from everhold.values.expressions.tree import ColumnKind

__all__ = ["FUNCTIONS", "MAX_CHARACTERS", "MAX_NESTING", "MAX_TOKENS", "rejected", "shown", "tokenize"]

MAX_CHARACTERS = 10_000
MAX_TOKENS = 2_000
MAX_NESTING = 20
"""Brackets, cases and signs inside each other; the parser takes about 23 frames of Python's stack for each."""
_LISTED_COLUMNS = 12

FUNCTIONS = frozenset({"abs", "least", "greatest"})
_OPENING = frozenset({"and", "or", "not", "in", "between", "case", "when", "then", "else", "is"})
_KEYWORDS = _OPENING | {"end", "null", "true", "false"}
_SIGNS = frozenset({"=", "==", "<>", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "(", ")", ","})
_BEFORE_A_VALUE = _SIGNS - {")"} | _OPENING
_FRESH = frozenset({"(", ",", "and", "or", "when", "then", "else"})
_NUMBER = re.compile(r"([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_DIGITS = frozenset("0123456789")
_SPACE = frozenset(" \t\r\n")


def rejected(problem: str, advice: str) -> QueryRejected:
    """The one kind of error of this package."""
    return QueryRejected(f"{problem}; {advice}; nothing was charged")


def shown(text: str) -> str:
    """A short, escaped piece of the analyst's own text."""
    return ascii(text if len(text) <= 40 else text[:37] + "...")


def tokenize(text: str, columns: Mapping[str, ColumnKind]) -> list[Token]:
    """Tokens of an expression with every column name resolved.

    Args:
        text: The expression.
        columns: Public names of the columns and what they hold.

    Returns:
        Tokens of the small language; columns are `IDENTIFIER` tokens that carry the exact name of a known column.

    Raises:
        QueryRejected: If the text is too long, nested too deeply, or contains anything else.
    """
    _check_text(text)
    try:
        tokens: list[Token] = DuckDB().tokenize(text)
    except Exception:  # the tokenizer quotes its input, and its own faults are not the analyst's
        tokens = []
    if not tokens:
        raise rejected("the expression is empty or has an open quote", "write for example arr_delay > 15")
    if len(tokens) > MAX_TOKENS:
        raise rejected(f"the expression has more than {MAX_TOKENS} words and signs", "ask a shorter question")
    tokens = _with_leading_points(tokens, _words(text, tokens))
    words = _words(text, tokens)
    _check_nesting(words)
    return [_resolved(token, place, words, columns) for place, token in enumerate(tokens)]


def _check_text(text: str) -> None:
    if not isinstance(text, str):
        raise rejected("the expression is not text", "write for example 'arr_delay > 15'")
    if len(text) > MAX_CHARACTERS:
        raise rejected(f"the expression is longer than {MAX_CHARACTERS:,} characters", "ask a shorter question")
    if "\0" in text or any("\ud800" <= sign <= "\udfff" for sign in text):
        raise rejected("the expression has a character that is not text", "remove zero bytes and half surrogates")


def _words(text: str, tokens: Sequence[Token]) -> list[str]:
    """The analyst's spelling of each token, lower case; refuses comments and whatever the tokenizer skipped."""
    end = 0
    for token in tokens:
        if token.comments or not _SPACE.issuperset(text[end : token.start]):
            break
        end = token.end + 1
    if not _SPACE.issuperset(text[end:]):
        raise rejected(f"the expression cannot be read from {shown(text[end:])} on", "leave out comments and hints")
    return [text[token.start : token.end + 1].lower() for token in tokens]


def _with_leading_points(tokens: Sequence[Token], words: Sequence[str]) -> list[Token]:
    """``.5`` as one number, which the tokenizer leaves in two; only where a value can begin, so not in ``1..5``."""
    joined: list[Token] = []
    for place, token in enumerate(tokens):
        point = tokens[place - 1] if place and words[place - 1] == "." and words[place][0] in _DIGITS else None
        if point is None or point.end + 1 != token.start or not (place == 1 or words[place - 2] in _BEFORE_A_VALUE):
            joined.append(token)
        else:
            text = f".{token.text}"
            joined[-1] = Token(TokenType.NUMBER, text, point.line, point.col, point.start, token.end)
    return joined


def _check_nesting(words: Sequence[str]) -> None:
    """Bounds everything that makes the parser recurse: brackets, cases, negations and runs of signs."""
    levels, run = [0], 0
    for place, word in enumerate(words):
        previous = words[place - 1] if place else "("
        run = run + 1 if word in ("-", "+", "not") and previous in _BEFORE_A_VALUE else 0
        if word in ("(", "case"):
            levels.append(0)
        elif word in (")", "end") and len(levels) > 1:
            levels.pop()
        elif word == "not" and previous != "is" and words[place + 1 : place + 2] not in (["in"], ["between"]):
            levels[-1] += previous not in _FRESH
        if len(levels) + run + sum(levels) > MAX_NESTING:
            raise rejected(
                f"the expression is nested more than {MAX_NESTING} deep", "use fewer brackets, cases and negations"
            )


def _resolved(token: Token, place: int, words: Sequence[str], columns: Mapping[str, ColumnKind]) -> Token:
    """The token itself if it belongs to the language, a column token for a known name."""
    word, kind = words[place], token.token_type
    called = words[place + 1 : place + 2] == ["("]
    if word in _SIGNS or word in _KEYWORDS or (kind is TokenType.STRING and word.startswith("'")):
        return token
    if kind is TokenType.NUMBER and _NUMBER.fullmatch(word):
        return token
    if word in FUNCTIONS and called:
        return token
    quoted = kind is TokenType.IDENTIFIER
    if not quoted and not word.isidentifier():
        raise rejected(
            f"{shown(word)} is not part of the language", "see the documentation of expressions for what can be written"
        )
    if called:
        raise rejected(f"{shown(word)} is not a known function", "use abs, least or greatest")
    name = _column(token.text, columns)
    return Token(TokenType.IDENTIFIER, name, token.line, token.col, token.start, token.end)


def _column(name: str, columns: Mapping[str, ColumnKind]) -> str:
    """The exact name of the column that is meant; without regard to case if that leaves one."""
    if name in columns:
        return name
    same = [known for known in columns if known.casefold() == name.casefold()]
    if len(same) == 1:
        return same[0]
    close = same or difflib.get_close_matches(name[:64], list(columns)[:1000], n=3, cutoff=0.6)
    if close:
        advice = f"did you mean {', '.join(shown(known) for known in close)}"
    elif 0 < len(columns) <= _LISTED_COLUMNS:
        advice = f"expected one of {', '.join(shown(known) for known in columns)}"
    else:
        advice = "see the list of columns"
    raise rejected(f"there is no column {shown(name)}", advice)
