"""The query that this distribution adds; its code is imported when it is first asked."""

from everhold.queries import Detail, Form, Kind, same

__all__ = ["SHARE_BETWEEN"]

SHARE_BETWEEN = Kind(
    "share_between",
    "everhold_example.share_between:share_between",
    Form.EXPRESSION,
    "The share of rows in which a number lies between two bounds.",
    same("at_least", "at_most"),
    rowwise=True,
    brings={
        "at_least": Detail(Form.NUMBER, "The lower bound; equal numbers count."),
        "at_most": Detail(Form.NUMBER, "The upper bound; equal numbers count."),
    },
)
