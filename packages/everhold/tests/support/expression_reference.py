"""Random typed expressions as plain tuples, their spelling as text, and their value by the rules of the docs alone."""

from __future__ import annotations

import math
import random
import re
from datetime import datetime, timedelta

COLUMNS = {
    "number": ["x", "n", "odd name", "größe"],
    "string": ["carrier", 'quo"te'],
    "boolean": ["flag", "it's"],
    "time": ["visit", "end"],
}
_nan, _inf = math.nan, math.inf
_REALS = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, 1e308, -1e308, 1e-308, 5e-324, _inf, -_inf, _nan, None, 0.1, 1 / 3, 2.0**53]
_INTEGERS = [0, 1, -1, 2**53 + 1, -(2**63), 2**63 - 1, 7, None, 15, 2**62 + 3]
_STRINGS = [
    "",
    "UA",
    "ua",
    "é",
    "e\u0301",
    "Ｕ",
    "it's",
    'a"b',
    "\U0001f6eb",
    "\uffee",
    "AA",
    None,
    " ",
    "a\\",
    "%",
    "\t",
]
_TRUTHS = [True, False, None]
_TIMES = [
    datetime(1970, 1, 1),
    datetime(2024, 2, 29, 23, 59, 59, 999_999),
    datetime(2024, 3, 1),
    datetime(1969, 12, 31, 23, 59, 59, 999_999),
    datetime(1900, 2, 28, 12),
    datetime(1, 1, 1),
    datetime(9999, 12, 31, 23, 59, 59),
    datetime(2000, 12, 31, 0, 0, 0, 1),
    None,
]
PATTERNS = ["U%", "%A", "%a%", "_A", "%", "", "UA", "_%_", "é%", "%'%", "a\\", "%\\", "U%A", "e_", "%%", 'a%"%b', "\t"]
LITERALS = {
    "number": [0.0, 1.0, 2.0, 0.5, 15.0, 1e308, 1e-308, 5e-324, 0.1, 9007199254740993.0],
    "string": ["", "UA", "é", "it's", "\U0001f6eb", 'a"b', "Ub", "--", ";", "a\\"],
    "boolean": [True, False],
    "time": [datetime(2024, 2, 29), datetime(1970, 1, 1, 0, 0, 1), datetime(2024, 2, 29, 23, 59, 59, 999_999)],
}
_EPOCH = datetime(1970, 1, 1)
_FUNCTIONS = {"year": "time", "month": "time", "day": "time", "hour": "time", "isodow": "time", "days": "time",
              "ln": "number"}  # fmt: skip
"""Functions that give numbers, and what they take."""


def table(rows: int, seed: int) -> dict[str, list]:
    """Columns with every awkward value, as Python lists with None for null."""
    draw = random.Random(seed)
    pools = {"x": _REALS, "n": _INTEGERS, "odd name": _REALS, "größe": _REALS, "carrier": _STRINGS, 'quo"te': _STRINGS,
             "visit": _TIMES, "end": _TIMES}  # fmt: skip
    return {name: draw.choices(pools.get(name, _TRUTHS), k=rows) for group in COLUMNS.values() for name in group}


def tree(draw: random.Random, kind: str, size: int, columns: dict = COLUMNS, literals: dict = LITERALS) -> tuple:
    """A random expression of a kind; `size` bounds its depth."""
    if size <= 0 or draw.random() < 0.1:
        column = draw.random() < 0.7
        return ("column", draw.choice(columns[kind])) if column else ("literal", draw.choice(literals[kind]))

    def some(wanted: str) -> tuple:
        return tree(draw, wanted, size - 1, columns, literals)

    if kind == "string" and draw.random() < 0.5:
        return (draw.choice(["lower", "upper"]), some("string"))
    if draw.random() < 0.2 or kind == "string":
        branches = [(some("boolean"), some(kind)) for _ in range(draw.randint(1, 2))]
        return ("case", branches, some(kind) if draw.random() < 0.6 else None)
    if kind == "time":
        return (draw.choice(["least", "greatest"]), *(some("time") for _ in range(draw.randint(1, 2))))
    if kind == "number" and "time" in columns and draw.random() < 0.3:
        name = draw.choice([*_FUNCTIONS])
        return (name, *(some(_FUNCTIONS[name]) for _ in range(1 + (name == "days"))))
    if kind == "number":
        name = draw.choice(["+", "-", "*", "/", "+", "/", "minus", "abs", "least", "greatest"])
        arity = {"minus": 1, "abs": 1, "least": draw.randint(1, 3), "greatest": draw.randint(1, 3)}.get(name, 2)
        return (name, *(some("number") for _ in range(arity)))
    name = draw.choice(["=", "<>", "<", "<=", ">", ">=", "and", "or", "and", "or", "not", "in", "between", "is null"])
    if name in ("and", "or"):
        return (name, some("boolean"), some("boolean"))
    if name == "not":
        return (name, some("boolean"))
    if "time" in columns and draw.random() < 0.2:
        return ("like", some("string"), draw.choice(PATTERNS))
    wanted = draw.choice(
        ["number", "string"] + ["time"] * ("time" in columns) + (["boolean"] if name in ("=", "<>", "is null") else [])
    )
    if name == "in":
        return (name, some(wanted), draw.choices(literals[wanted], k=draw.randint(1, 4)))
    return (name, *(some(wanted) for _ in range({"between": 3, "is null": 1}.get(name, 2))))


def spell(item: tuple, draw: random.Random) -> str:
    """Text of an expression, in one of its many spellings."""
    name, *parts = item
    if name == "column":
        plain = parts[0].isidentifier() and draw.random() < 0.7
        return parts[0] if plain else '"' + parts[0].replace('"', '""') + '"'
    if name == "literal":
        return _literal(parts[0])
    if name == "case":
        return _case(parts[0], parts[1], draw)
    if name == "like":
        negated = draw.random() < 0.3
        text = f"({spell(parts[0], draw)} {_word('not like' if negated else 'like', draw)} {_literal(parts[1])})"
        return f"(not {text})" if negated else text
    if name == "in":
        return f"({spell(parts[0], draw)} {_word('in', draw)} ({', '.join(_literal(value) for value in parts[1])}))"
    texts = [spell(part, draw) for part in parts]
    match name:
        case "minus":
            return f"(- {texts[0]})"
        case "not":
            return f"({_word('not', draw)} {texts[0]})"
        case "days":
            return f"({texts[0]} - {texts[1]})"
        case "ln":
            return f"{draw.choice(['ln', 'LOG', 'log'])}({texts[0]})"
        case "abs" | "least" | "greatest" | "lower" | "upper" | "year" | "month" | "day" | "hour" | "isodow":
            return f"{_word(name, draw)}({', '.join(texts)})"
        case "between":
            return f"({texts[0]} {_word('between', draw)} {texts[1]} and {texts[2]})"
        case "is null":
            return f"({texts[0]} {_word('is null', draw)})"
        case "<>":
            name = draw.choice(["<>", "!="])
    return f"({texts[0]}{draw.choice([' ', '  '])}{_word(name, draw)} {texts[1]})"


def _case(branches: list, otherwise: tuple | None, draw: random.Random) -> str:
    text = "".join(f" when {spell(condition, draw)} then {spell(result, draw)}" for condition, result in branches)
    return f"({_word('case', draw)}{text}{f' else {spell(otherwise, draw)}' if otherwise else ''} end)"


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return f"date '{value:%Y-%m-%d}'" if value == datetime(*value.timetuple()[:3]) else f"timestamp '{value}'"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def _word(word: str, draw: random.Random) -> str:
    return word.upper() if draw.random() < 0.3 else word


def value(item: tuple, row: dict[str, object]) -> object:
    """Value for one row; None is null."""
    name, *parts = item
    if name == "column":
        return _read(row[parts[0]])
    if name == "literal":
        return parts[0]
    if name == "case":
        chosen = next((result for condition, result in parts[0] if value(condition, row) is True), parts[1])
        return None if chosen is None else value(chosen, row)
    if name == "in":
        left = value(parts[0], row)
        return None if left is None else left in parts[1]
    if name == "between":
        return value(("and", (">=", parts[0], parts[1]), ("<=", parts[0], parts[2])), row)
    if name == "like":
        left, pattern = value(parts[0], row), re.escape(parts[1]).replace("%", ".*").replace("_", ".")
        return None if left is None else re.fullmatch(pattern, left, re.DOTALL) is not None
    values = [value(part, row) for part in parts]
    if name == "and":
        return False if False in values else None if None in values else True
    if name == "or":
        return True if True in values else None if None in values else False
    if name == "is null":
        return values[0] is None
    return None if None in values else _read(_strict(name, values))


def _read(result: object) -> object:
    """A number as double, nan as null."""
    if result is None or isinstance(result, bool | str | datetime):
        return result
    return None if math.isnan(float(result)) else float(result)


def _strict(name: str, values: list) -> object:
    """Operations that are null if an input is."""
    left, right = values[0], values[-1]
    match name:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return None if right == 0 else left / right
        case "minus":
            return -left
        case "lower" | "upper":
            return "".join(getattr(sign, name)() if sign.isascii() else sign for sign in left)
        case "days":
            return (seconds(left) - seconds(right)) / 86_400
        case "year" | "month" | "day" | "hour":
            return getattr(left, name)
        case "isodow":
            return left.isoweekday()
        case "ln":
            return logarithm(left)
        case "not":
            return not left
        case "abs" | "least" | "greatest":
            return {"abs": lambda items: abs(items[0]), "least": min, "greatest": max}[name](values)
        case _:
            return {
                "=": left == right,
                "<>": left != right,
                "<": left < right,
                "<=": left <= right,
                ">": left > right,
                ">=": left >= right,
            }[name]


def seconds(time: datetime) -> float:
    """A time as the engines have it."""
    return (time - _EPOCH) // timedelta(microseconds=1) / 1e6


def logarithm(number: float) -> float | None:
    """By the series of the documentation, with the exponent that the number itself has."""
    if not 0.0 < number < math.inf:
        return None
    mantissa, exponent = math.frexp(number)
    if mantissa < math.sqrt(0.5):
        mantissa, exponent = 2.0 * mantissa, exponent - 1
    share, series = (mantissa - 1.0) / (mantissa + 1.0), 1.0 / 25.0
    for odd in range(23, 0, -2):
        series = series * (share * share) + 1.0 / odd
    return exponent * 6.93147180369123816490e-01 + (share * 2.0 * series + exponent * 1.90821492927058770002e-10)


def grid(result: object, low: float, high: float, unit: int) -> int:
    """The integer of one row."""
    if result is None or isinstance(result, bool):
        return unit if result else 0
    return math.floor((min(max(result, low), high) - low) / (high - low) * unit)
