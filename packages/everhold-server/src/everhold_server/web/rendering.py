"""Pages from templates: escaped, complete, and without a word of style or script in them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from everhold.display import at_least, at_most, left_in_words, printable, printable_lines, rounded

if TYPE_CHECKING:
    from fastapi import Request

HERE = Path(__file__).parent
STATIC = HERE / "static"

_SHORT_HASH = 12
_MINUTES = len("2026-01-31T23:59")


def place(*parts: str) -> str:
    """The path of a page; names are quoted, so that none leads elsewhere.

    Examples:
        >>> place("holdouts", "a/../b?c", "ask")
        '/holdouts/a%2F..%2Fb%3Fc/ask'
    """
    return "/" + "/".join(quote(part, safe="") for part in parts)


def page(request: Request, template: str, *, status: int = 200, **facts: Any) -> HTMLResponse:
    """A page, whole or a part of one.

    Args:
        request: Who asked for it decides what stands in its head.
        template: A file in ``templates``.
        status: Of the response.
        facts: What the template shows; every one that it names has to be there.
    """
    state = request.state
    known = {
        "path": request.url.path,
        "principal": getattr(state, "principal", None),
        "csrf": getattr(state, "csrf", None) or "",
    }
    text = _ENVIRONMENT.get_template(template).render(**{**known, **facts})
    return HTMLResponse(text, status)


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    counts = isinstance(value, int) or (value.is_integer() and abs(value) >= 1_000)
    return f"{int(value):,}" if counts else rounded(value)


def _percent(share: float) -> str:
    return f"{100.0 * share:.8g} %"


def _moment(text: str) -> str:
    return text[:_MINUTES].replace("T", " ")


def _interval(row: Any) -> str:
    low, high = row["low"], row["high"]
    return "–" if low is None or high is None else f"{at_least(low)} to {at_most(high)}"


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    made.filters |= {
        "number": _number, "percent": _percent, "moment": _moment, "interval": _interval, "at_most": at_most,
        "at_least": at_least, "printable": printable, "left": left_in_words, "short": lambda text: text[:_SHORT_HASH],
        "sentence": lambda text: text[:1].upper() + text[1:],
    }  # fmt: skip
    made.filters["printable_lines"] = printable_lines
    made.globals |= {"place": place}
    return made


_ENVIRONMENT = _environment()
