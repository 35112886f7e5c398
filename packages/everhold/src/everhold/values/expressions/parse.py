"""The parser of expressions: a check of tokens, the parser of sqlglot, and an allow-list of typed syntax.

The parser of sqlglot knows thousands of constructions. It gets a list of tokens in which each word that is not one of
the few keywords of `tokens` is replaced by a quoted column, so most constructions cannot be written. From its result,
only the types of syntax that `_FORMS` lists are turned into a tree. All others are refused.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import lru_cache, partial
from operator import attrgetter, methodcaller
from typing import NamedTuple, TypeAlias

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ErrorLevel

from everhold.errors import QueryRejected
from everhold.values.expressions.tree import ColumnKind, Expression, Node, Operation

MAX_NODES = 1_000
MAX_DEPTH = 200

_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)?(Z|\+00:00)?")
_DATE_ALONE = len("2024-01-31")
_MICROSECOND = timedelta(microseconds=1)
_MOST_LOGARITHMS = 16  # each of them is a hundred steps
_LONGEST_PATTERN = 200
_NOT_EXACT = 2.0**53  # from here on doubles do not tell whole numbers apart
_NULL = Node(Operation.NULL, ColumnKind.OTHER)  # until the other results of its case say what it would be

Nodes: TypeAlias = Sequence[Node]
Builder: TypeAlias = "Callable[[Nodes, exp.Expr, Columns], Node]"  # exp.Expression before sqlglot 30


def parse(text: str, columns: Columns) -> Expression:
    """Parse a text expression over named columns into a checked `Expression`.

    Args:
        text: The expression, for example ``arr_delay > 15 and carrier = 'UA'``.
        columns: Public names of the columns and what they hold.

    Returns:
        The checked expression; equal for all spellings of one query that `Node.of` knows to be equal.

    Raises:
        QueryRejected: If the text is not an expression of the language over these columns, or exceeds a limit of the
            language.

    Examples:
        >>> columns = {"arr_delay": ColumnKind.NUMBER, "carrier": ColumnKind.STRING}
        >>> parse("ARR_DELAY > 15 and carrier = 'UA'", columns).columns()
        ('arr_delay', 'carrier')
        >>> parse("carrier > 3", columns)
        Traceback (most recent call last):
        everhold.errors.QueryRejected: '>' compares a string with a number. Use values of one kind.
    """
    if not isinstance(text, str):
        raise rejected("the expression is not a text", "write for example 'arr_delay > 15'")
    return _parsed(text, tuple(columns.items()))


@lru_cache(maxsize=256)  # a query is read several times while it is answered
def _parsed(text: str, named: tuple[tuple[str, ColumnKind], ...]) -> Expression:
    columns = dict(named)
    if len(text) > MAX_CHARACTERS:
        raise rejected(f"the expression is longer than {MAX_CHARACTERS:,} characters", "write a shorter one")
    if _NO_TEXT.search(text):
        raise rejected(
            "the expression has a character that cannot be in a text", "remove zero bytes and half surrogates"
        )
    try:
        tokens: list[Token] = DuckDB().tokenize(text)
    except Exception:  # the tokenizer quotes its input, and its own faults are not the analyst's
        tokens = []
    if not tokens:
        raise rejected("the expression is empty or has an open quote", "write for example arr_delay > 15")
    if len(tokens) > MAX_TOKENS:
        raise rejected(f"the expression has more than {MAX_TOKENS} words and signs", "write a shorter one")
    words = _words(text, tokens)
    if "." in words:
        tokens = _with_leading_points(tokens, words)
        words = _words(text, tokens)
    # Each token itself if it belongs to the language, and a column token for a known name
    read, meant = [], ["("]  # the words, with nothing in the place of a column
    for token, word, following in zip(tokens, words, [*words[1:], ""], strict=True):
        name = _column_named(token, word, meant[-1], following, columns)
        if name is not None:
            token = Token(TokenType.IDENTIFIER, name, token.line, token.col, token.start, token.end)
        read.append(token)
        meant.append(word if name is None else "")
    _check_nesting(meant[1:])
    try:
        statements = DuckDB().parser(error_level=ErrorLevel.IMMEDIATE).parse(read, text)
    except Exception:  # RecursionError included; the parser quotes its input, and its own faults are not the analyst's
        statements = []
    if len(statements) != 1 or statements[0] is None:
        raise rejected(f"{shown_text(text)} is not an expression", how_to_write(text, columns))
    expression = Expression(_tree(statements[0], columns))
    if expression.kind is ColumnKind.STRING:
        raise rejected(
            "the value of the expression is a string", "ask for a number or a condition, such as carrier = 'UA'"
        )
    if expression.kind is ColumnKind.TIME:
        raise rejected(
            "the value of the expression is a time",
            "ask for a number or a condition, such as visit >= date '2024-01-31' or visit - admitted, which is in days",
        )
    if sum(node.operation is Operation.LOGARITHM for node in expression.nodes) > _MOST_LOGARITHMS:
        raise rejected(f"the expression has more than {_MOST_LOGARITHMS} logarithms", "write a shorter one")
    if expression.root.depth > MAX_DEPTH or len(expression.nodes) > MAX_NODES:
        raise rejected(
            f"the expression has more than {MAX_NODES} parts or is more than {MAX_DEPTH} deep", "write a shorter one"
        )
    return expression


def _tree(syntax: exp.Expr, columns: Columns) -> Node:
    """Build the tree of nodes from syntax, operands first and without recursion."""
    order, stack = [], [syntax]
    while stack:
        item = stack.pop()
        # Syntax below an item that has a value; refuses every item and every option that is not on the list
        form, called = _FORMS.get(type(item)), type(item).__name__.lower()
        if form is None:
            raise rejected(f"the expression uses {shown_text(called)}, which is not allowed", SEE)
        for name, value in item.args.items():
            if name not in form.arguments and value not in (None, False, []):
                raise rejected(
                    f"the expression uses {shown_text(called)} with an option that is not allowed", "leave it out"
                )
        parts = list(form.parts(item)) if form.parts else []
        order.append((item, len(parts)))
        stack.extend(parts)
    nodes: list[Node] = []
    for item, count in reversed(order):
        first = len(nodes) - count
        nodes[first:] = [_FORMS[type(item)].build(nodes[first:], item, columns)]
    return nodes[0]


def _branches(item: exp.Expr) -> list[exp.Expr]:
    """Return the parts of a ``case``: its subject if any, each condition and result in turn, and its default."""
    parts = [part for branch in item.args["ifs"] for part in (branch.this, branch.args["true"])]
    return [part for part in (item.this, *parts, item.args.get("default")) if part is not None]


def _chain(item: exp.Expr) -> list[exp.Expr]:
    """Return the operands of ``a and b and c`` as a list, from the nested pairs of the parser."""
    parts, left = [], item
    while type(left) is type(item):
        parts.append(left.args["expression"])
        left = left.this
    return [left, *reversed(parts)]


def _tested(item: exp.Expr) -> list[exp.Expr]:
    """Return the operand of ``is null``, and refuse any other word after ``is``."""
    if not isinstance(item.expression, exp.Null):
        raise rejected("'is' is not followed by 'null'", "write x is null, x is not null or x = y")
    return [item.this]


def _common_kind(
    operands: Nodes, name: str, columns: Columns, *, ordered: bool = False, fault: str = "compares a {} with a {}"
) -> ColumnKind:
    """Return the kind that all operands but null share, or refuse them."""
    kinds: set[ColumnKind] = set(map(attrgetter("kind"), operands)) - {ColumnKind.OTHER}
    if len(kinds) > 1:
        first, second = sorted(kind.value for kind in kinds)[::-1][:2]
        raise rejected(f"{name!r} {fault.format(first, second)}", _how_to_compare(operands, kinds, columns))
    if ordered and ColumnKind.BOOLEAN in kinds:
        raise rejected(f"{name!r} compares booleans, which have no order", "compare booleans with = or <>")
    return kinds.pop()


def _how_to_compare(operands: Nodes, kinds: set[ColumnKind], columns: Columns) -> str:
    """Return advice for a comparison of different kinds, such as how to write a date or a column."""
    for written in (node.value for node in operands if node.operation is Operation.STRING):
        if ColumnKind.TIME in kinds:
            return "write date '2024-01-31' or timestamp '2024-01-31 18:30:00'"
        if written in columns:
            return f"put the name of a column in double quotes, {quoted_name(str(written))}"
    return "use values of one kind"


def _expect(kind: ColumnKind, operands: Iterable[Node], name: str) -> None:
    for operand in operands:
        if operand.kind is not kind:
            raise rejected(
                f"{name!r} is applied to a {operand.kind.value}", f"apply it to values that are a {kind.value}"
            )


def _column(_: Nodes, item: exp.Expr, columns: Columns) -> Node:
    if not item.this.args.get("quoted"):  # a keyword of ours that the parser takes for a name; columns come quoted
        raise rejected(
            f"{shown_text(item.name)} is a keyword and cannot be used as a value",
            "put a column of that name in double quotes",
        )
    kind = columns[item.name]
    if kind is ColumnKind.OTHER:
        raise rejected(
            f"column {shown_text(item.name)} is neither numbers, strings nor booleans, dates nor timestamps",
            "seal a numeric copy of it to ask about it",
        )
    return Node(Operation.COLUMN, kind, value=item.name)


def _literal(_: Nodes, item: exp.Expr, *__: object) -> Node:
    if item.is_string:
        return Node.literal(item.this)
    value, inner = float(item.this), item
    if value == math.inf:
        raise rejected(f"the number {shown_text(item.this)} is too large", "stay below 1.8e308")
    while isinstance(inner.parent, exp.Neg | exp.Paren):
        inner = inner.parent
    equated = isinstance(inner.parent, exp.EQ | exp.NEQ | exp.In) or (
        isinstance(inner.parent, exp.If) and inner.arg_key == "this"
    )
    if equated and value >= _NOT_EXACT and item.this.isdigit():
        raise rejected(
            f"the number {shown_text(item.this)} is 2^53 or more, where numbers equal their neighbours",
            f"seal long ids as texts, or write {value!r} if it is no id",
        )
    return Node.literal(value)


def _time(_: Nodes, item: exp.Expr, *__: object) -> Node:
    """Build the node of ``date '...'`` or ``timestamp '...'``, in seconds since 1970 rounded as in columns."""
    written, found = str(item.this.this), None
    if _TIME.fullmatch(written) and (len(written) == _DATE_ALONE or not item.args["to"].is_type("date")):
        with suppress(ValueError):
            found = datetime.fromisoformat(written.removesuffix("Z").removesuffix("+00:00"))
    if found is None:
        raise rejected(
            f"{shown_text(written)} is no date or time",
            "write date '2024-01-31' or timestamp '2024-01-31 18:30:00', in UTC",
        )
    return Node(Operation.TIME, ColumnKind.TIME, value=(found - datetime(1970, 1, 1)) // _MICROSECOND / 1e6)


def _null(_: Nodes, item: exp.Expr, *__: object) -> Node:
    if not isinstance(item.parent, exp.If | exp.Case) or item.arg_key not in ("true", "default"):
        raise rejected("'null' cannot be used as a value", "write x is null, or null as a result of a case")
    return _NULL


def _calculated(kind: ColumnKind, sign: str, operation: Operation, operands: Nodes, *_: object) -> Node:
    _expect(kind, operands, sign)
    return Node.of(operation, *operands)


def _extreme(name: str, operation: Operation, operands: Nodes, _: exp.Expr, columns: Columns) -> Node:
    if _common_kind(operands, name, columns) is not ColumnKind.TIME:
        _expect(ColumnKind.NUMBER, operands, name)
    return Node.of(operation, *operands)


def _hour(operands: Nodes, item: exp.Expr, _: Columns) -> Node:
    if isinstance(item, exp.Anonymous) and (item.name.lower(), len(operands)) != ("hour", 1):
        raise rejected(f"the expression uses {shown_text(item.name.lower())} in this way, which is not allowed", SEE)
    return _times("hour", Operation.HOUR, operands)


def _subtracted(operands: Nodes, *_: object) -> Node:
    """Build the difference of two numbers, or of two times in days."""
    if all(node.kind is ColumnKind.TIME for node in operands):
        return Node.of(Operation.DAYS, *operands)
    return _numbers("-", Operation.SUBTRACT, operands)


def _compared(
    sign: str, operation: Operation, operands: Nodes, _: exp.Expr, columns: Columns, *, swapped: bool = False
) -> Node:
    _common_kind(operands, sign, columns, ordered=operation is Operation.LESS)
    return Node.of(operation, *(operands[::-1] if swapped else operands))


def _negated(build: Callable[..., Node], operands: Nodes, item: exp.Expr, columns: Columns) -> Node:
    return Node.of(Operation.NOT, build(operands, item, columns))


def _between(operands: Nodes, _: exp.Expr, columns: Columns) -> Node:
    _common_kind(operands, "between", columns, ordered=True)
    value, low, high = operands
    outside = (Node.of(Operation.LESS, value, low), Node.of(Operation.LESS, high, value))
    return Node.of(Operation.AND, *(Node.of(Operation.NOT, side) for side in outside))


def _member(operands: Nodes, _: exp.Expr, columns: Columns) -> Node:
    listed = operands[1:]
    kind = _common_kind(operands, "in", columns)
    if kind is ColumnKind.BOOLEAN or not listed or not all(node.is_literal for node in listed):
        raise rejected(
            "'in' needs a list of numbers, of strings or of times", "write for example carrier in ('UA', 'AA')"
        )
    return Node.of(Operation.MEMBER, *operands)


def _like(operands: Nodes, item: exp.Expr, *_: object) -> Node:
    text, (pattern,) = operands[0], operands[1:]
    _expect(ColumnKind.STRING, [text], "like")
    written = str(pattern.value)
    if pattern.operation is not Operation.STRING:
        raise rejected("'like' is not followed by a text in quotes", "write for example carrier like 'U%'")
    if len(written) > _LONGEST_PATTERN:
        raise rejected(f"the pattern is longer than {_LONGEST_PATTERN} characters", "look for less")
    between = [part for part in written.split("%")[1:-1] if part]
    if len(between) > 1 or "_" in "".join(between):
        raise rejected(
            f"the pattern {shown_text(written)} has more than one part between two '%', or '_' in it",
            "combine simpler ones with and, such as note like '%fell%' and note like '%again%'",
        )
    node = Node.like(text, written)
    return Node.of(Operation.NOT, node) if item.args.get("negate") else node


def _case(operands: Nodes, item: exp.Expr, columns: Columns) -> Node:
    parts = list(operands)
    subject = parts.pop(0) if item.args.get("this") is not None else None
    if item.args.get("default") is None:
        parts.append(_NULL)
    conditions, results = parts[:-1:2], [*parts[1::2], parts[-1]]
    if all(result is _NULL for result in results):
        raise rejected("every result of the case is null", "give at least one value")
    kind = _common_kind(results, "case", columns, fault="gives a {} in one row and a {} in another")
    if subject is not None:
        _common_kind((subject, *conditions), "case", columns)
        conditions = [Node.of(Operation.EQUAL, subject, value) for value in conditions]
    _expect(ColumnKind.BOOLEAN, conditions, "when")
    parts[:-1:2] = conditions
    return Node.of(Operation.CASE, *(Node(Operation.NULL, kind) if part is _NULL else part for part in parts))


_numbers = partial(_calculated, ColumnKind.NUMBER)
_conditions = partial(_calculated, ColumnKind.BOOLEAN)
_texts = partial(_calculated, ColumnKind.STRING)
_times = partial(_calculated, ColumnKind.TIME)
_HOUR: type[exp.Expr] = getattr(exp, "Hour", exp.Anonymous)  # an old sqlglot does not know this one by its name
_PAIR = frozenset({"this", "expression"})
_LIST = frozenset({"this", "expressions", "ignore_nulls"})


class _Form(NamedTuple):
    """A rule that turns one type of parsed syntax into a node.

    Attributes:
        build: Function from the nodes of its parts to the node.
        parts: Function to the parts of the syntax that are expressions; None for leaves.
        arguments: Arguments of the syntax that may be set. Any other argument is an option that the language does not
            have, and is refused.
    """

    build: Builder
    parts: Callable[[exp.Expr], Iterable[exp.Expr]] | None = methodcaller("iter_expressions")
    arguments: frozenset[str] = _PAIR


_FORMS: dict[type[exp.Expr], _Form] = {
    exp.Column: _Form(_column, None),
    exp.Literal: _Form(_literal, None, frozenset({"this", "is_string"})),
    exp.Boolean: _Form(lambda _, item, *__: Node.literal(bool(item.this)), None),
    exp.Null: _Form(_null, None),
    exp.Paren: _Form(lambda operands, *_: operands[0]),
    exp.Neg: _Form(partial(_numbers, "-", Operation.NEGATE)),
    exp.Abs: _Form(partial(_numbers, "abs", Operation.ABSOLUTE)),
    exp.Add: _Form(partial(_numbers, "+", Operation.ADD)),
    exp.Sub: _Form(_subtracted),
    exp.Mul: _Form(partial(_numbers, "*", Operation.MULTIPLY)),
    exp.Div: _Form(partial(_numbers, "/", Operation.DIVIDE), arguments=_PAIR | {"typed", "safe"}),
    exp.Least: _Form(partial(_extreme, "least", Operation.LEAST), arguments=_LIST),
    exp.Greatest: _Form(partial(_extreme, "greatest", Operation.GREATEST), arguments=_LIST),
    exp.Ln: _Form(partial(_numbers, "ln", Operation.LOGARITHM)),
    exp.Log: _Form(partial(_numbers, "log", Operation.LOGARITHM), arguments=frozenset({"this"})),
    exp.Lower: _Form(partial(_texts, "lower", Operation.LOWER)),
    exp.Upper: _Form(partial(_texts, "upper", Operation.UPPER)),
    exp.Cast: _Form(_time, None, frozenset({"this", "to"})),  # without brackets: of a text alone
    exp.Year: _Form(partial(_times, "year", Operation.YEAR)),
    exp.Month: _Form(partial(_times, "month", Operation.MONTH)),
    exp.Day: _Form(partial(_times, "day", Operation.DAY)),
    _HOUR: _Form(_hour, arguments=_LIST),
    exp.DayOfWeekIso: _Form(partial(_times, "isodow", Operation.DAY_OF_WEEK)),
    exp.EQ: _Form(partial(_compared, "=", Operation.EQUAL)),
    exp.NEQ: _Form(partial(_negated, partial(_compared, "<>", Operation.EQUAL))),
    exp.LT: _Form(partial(_compared, "<", Operation.LESS)),
    exp.GT: _Form(partial(_compared, ">", Operation.LESS, swapped=True)),
    exp.LTE: _Form(partial(_negated, partial(_compared, "<=", Operation.LESS, swapped=True))),
    exp.GTE: _Form(partial(_negated, partial(_compared, ">=", Operation.LESS))),
    exp.Like: _Form(_like, arguments=_PAIR | {"negate"}),
    exp.Between: _Form(_between, arguments=frozenset({"this", "low", "high"})),
    exp.In: _Form(_member, arguments=_LIST),
    exp.Is: _Form(lambda operands, *_: Node.of(Operation.IS_NULL, *operands), _tested),
    exp.Not: _Form(partial(_conditions, "not", Operation.NOT)),
    exp.And: _Form(partial(_conditions, "and", Operation.AND), _chain),
    exp.Or: _Form(partial(_conditions, "or", Operation.OR), _chain),
    exp.Case: _Form(_case, _branches, frozenset({"this", "ifs", "default"})),
}


# Tokens of the language of expressions, and errors that say how something is written.

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
SEE = "use comparisons, and, or, not, + - * /, case and the functions in the guide on queries"
Columns: TypeAlias = Mapping[str, ColumnKind]


def rejected(problem: str, advice: str) -> QueryRejected:
    """Return a QueryRejected of two sentences, what is wrong and what to do. Pass both without their full stops."""
    said = ". ".join(part[:1].upper() + part[1:] for part in (problem, advice))
    return QueryRejected(said if said.endswith("?") else f"{said}.")


def shown_text(text: str) -> str:
    """Return a short, escaped piece of the analyst's text."""
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _words(text: str, tokens: Sequence[Token]) -> list[str]:
    """Return the lower-case text of each token. Comments, and text that belongs to no token, are refused."""
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
    """Return the tokens with a point and following digits joined to one number, as in ``.5``."""
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
    """Check that brackets, cases, negations and runs of signs are not nested too deep for the parser."""
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


def _column_named(token: Token, word: str, previous: str, following: str, columns: Columns) -> str | None:
    """Return the name of the column that a token names, or None for a literal, sign, keyword or function.

    A token of any other kind is refused.
    """
    kind = token.token_type
    if kind is TokenType.STRING:
        of_language = word[0] == "'"
    elif word in _TIMES or (word == "like" and following[:1] != "'"):
        of_language = following[:1] == "'"
    elif word in _BETWEEN_VALUES and previous in _BEFORE_A_VALUE - {"not"} and _names_of(word, columns):
        of_language = False
    else:
        number = kind is TokenType.NUMBER and _NUMBER.fullmatch(word) is not None
        of_language = number or word in _PLAIN or (word in _FUNCTIONS and following == "(")
    if of_language:
        return None
    if token.token_type is not TokenType.IDENTIFIER and not word.isidentifier():
        raise rejected(f"{shown_text(word)} is no word of the query language", SEE)
    if following == "(":
        if "drawdown" in word:
            raise rejected(
                "A drawdown belongs to the whole path and is no mean over rows, so nothing is promised of it",
                "ask for a mean loss, or for the share of bad days, such as momentum < -0.02",
            )
        known = f"{', '.join(_FUNCTIONS[:-1])} or {_FUNCTIONS[-1]}"
        raise rejected(f"{shown_text(word)} is not a known function", f"use {known}")
    if token.text in columns:
        return token.text
    if word == "like" and not _names_of(word, columns):
        raise rejected("'like' is not followed by a text in quotes", "write for example carrier like 'U%'")
    return _differing_in_case(token.text, columns, compared=previous in _COMPARING)


def _differing_in_case(name: str, columns: Columns, *, compared: bool) -> str:
    """Return the only column whose name differs in letter case alone, else raise with a suggestion.

    `compared` is true if the name follows a comparison, so that a text without quotes may be meant.
    """
    same = _names_of(name, columns)
    if len(same) == 1:
        return same[0]
    longer = [known for known in columns if not known.isidentifier() and known.casefold().startswith(name.casefold())]
    close = same or longer[:3] or difflib.get_close_matches(name[:64], list(columns)[:1000], n=3, cutoff=0.6)
    if close:
        advice = f"did you mean {' or '.join(map(_spelled, close))}?"
    elif 0 < len(columns) <= _LISTED_COLUMNS:
        advice = f"name one of {', '.join(map(_spelled, columns))}"
    else:
        advice = "name one of the columns of the holdout"
    if compared and "'" not in name:
        advice = f"put a text in single quotes, {shown_text(name)}. {advice[0].upper()}{advice[1:]}"
    raise rejected(f"there is no column {shown_text(name)}", advice)


def _names_of(word: str, columns: Columns) -> list[str]:
    return [known for known in columns if known.casefold() == word.casefold()]


def _spelled(name: str) -> str:
    """Return a column's name as it has to be written in expressions, shortened for messages."""
    return shown_text(name) if name.isidentifier() and name.lower() not in _PLAIN else quoted_name(name)


def quoted_name(name: str) -> str:
    """Return a column's name in double quotes, short and escaped."""
    return repr('"' + name[:37].replace('"', '""') + '"')[1:-1]


def how_to_write(text: str, columns: Columns) -> str:
    """Return advice for a text that is not an expression: names to put in double quotes, or an example."""
    bare = re.sub(r"'[^']*'|\"[^\"]*\"", " ", text).casefold()
    for name in columns:
        keyword = name.lower() in _PLAIN
        odd = not name.isidentifier() and name.casefold() in bare
        if odd or (keyword and re.search(rf"\b{re.escape(name.lower())}\b", bare)):
            return f"put the name of the column in double quotes, {_spelled(name)}, if it is meant"
    return "write for example arr_delay > 15 and carrier = 'UA'"
