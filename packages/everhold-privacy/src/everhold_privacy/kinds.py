"""The kinds of queries that need a privacy budget; the code of a kind is imported when such a query is first built."""

from __future__ import annotations

from everhold.queries import Detail, Form, Kind, same

_RANGE = same("low", "high")
_DETAILS = {
    "dimension": Detail(Form.WHOLE, "Length of the vectors."),
    "clip": Detail(Form.NUMBER, "Longer vectors are shortened to this length."),
    "sensitivity": Detail(Form.NUMBER, "The most that replacing one row can move the statistic."),
    "columns": Detail(Form.LIST, "Columns that the function reads (all by default)."),
    "called": Detail(Form.TEXT, "What makes a function the same query another time (FILE.py:NAME by default)."),
    "method": Detail(Form.TEXT, "'mwem', or 'blr' for universes of a few cells."),
    "rounds": Detail(Form.WHOLE, "Rounds of mwem (by default the best number)."),
    "price": Detail(
        Form.WHOLE, "Credits that it may cost, 100 by default, as a mean. With more of them the answer is closer."
    ),
}


def _brought(*names: str) -> dict[str, Detail]:
    return {name: _DETAILS[name] for name in names}


CHOOSE = Kind(
    "private_choose",
    "everhold_privacy.queries.choice:private_choose",
    Form.BEST,
    "Which of several means is best, with noise, from a privacy budget (--mean, --error, ...).",
    same("price"),
    several="best",
    recorded=("choice",),
    loss="choice",
    brings=_brought("price"),
)

FIRST_ABOVE = Kind(
    "private_first_above",
    "everhold_privacy.queries.choice:private_first_above",
    Form.NUMBER,
    "Which of several means is the first above a threshold, with noise (--mean, --error, ...).",
    same("price"),
    several="threshold",
    recorded=("above",),
    brings=_brought("price"),
)

GRADIENT = Kind(
    "gradient",
    "everhold_privacy.queries.gradient:gradient",
    Form.CODE,
    "The mean of a vector that a Python function computes from each row.",
    same("dimension", "clip", "columns", called="name"),
    recorded=("gradient",),
    loss="noise",
    brings=_brought("dimension", "clip", "columns", "called"),
)

LOW_SENSITIVITY = Kind(
    "low_sensitivity",
    "everhold_privacy.queries.low_sensitivity:low_sensitivity",
    Form.CODE,
    "A statistic of the whole table, by a Python function, with a proven --sensitivity.",
    {**_RANGE, **same("sensitivity", "columns", called="name")},
    recorded=("statistic",),
    loss="noise",
    brings=_brought("sensitivity", "columns", "called"),
)

QUANTILE = Kind(
    "private_quantile",
    "everhold_privacy.queries.choice:private_quantile",
    Form.EXPRESSION,
    "The median or another quantile of a number, with noise, to the width of a bin.",
    {**_RANGE, **same("bins", "price", level="quantile")},
    recorded=("quantile",),
    loss="choice",
    brings=_brought("price"),
)

SYNTHESIZE = Kind(
    "private_synthesize",
    "everhold_privacy.queries.synthesis:private_synthesize",
    Form.CELLS,
    "A table of weighted cells, made with noise: see --output.",
    same("method", "rounds", "price", marginals="queries"),
    recorded=("synthesis",),
    brings=_brought("method", "rounds", "price"),
)
