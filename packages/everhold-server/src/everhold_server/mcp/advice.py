"""Texts for agents from public facts: the language of queries, examples, and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everhold.answers import Answer, QuotedPrice
    from everhold.gates.challenge import Verdict
    from everhold.values.base import Schema

INSTRUCTIONS = (
    "A sealed holdout answers queries about a population, thousands of times, and every interval stays true, "
    "however you choose your queries. Call `describe` first. Work on your own training rows, make a guess there, "
    "and ask with it: guesses that hold are free. To improve a model, `challenge` the champion and go on from it "
    "only when the verdict is 'promoted'. 'kept' means revert. Members of declared families, which `describe` "
    "lists, are answered exactly and cost no query and no surprise, and their widths never change. What was asked "
    "before is free, so after a lost connection ask the same again. Only where rows arrived meanwhile is that a new "
    "query, about more rows. What is refused costs nothing. When the budget is spent, stop."
)

OF_COMPETITIONS = (
    "This holdout is a competition: teams submit predictions, and no other query is answered. `status` and "
    "`leaderboard` are free and change nothing. Tools that change something act for the host. A disqualified team "
    "never comes back, and everybody may read the reason, so disqualify only a team that the host named. Tokens of "
    "teams are told once: hand them to the host, and write them nowhere else."
)

LANGUAGE = (
    "columns by name (in double quotes if the name is not a plain word), numbers, texts in single quotes, true, "
    "false, + - * /, = <> < <= > >=, between, in (...), and, or, not, is null, case when ... then ... else ... end, "
    "abs, least, greatest. There are no other functions, casts or sub-selects. A condition is asked for its share. "
    "A number needs low and high, at which it is clipped"
)

_SPENT = "What was asked before stays free. Stop here, and ask the steward for a larger allotment or for new rows."


def _named(column: str) -> str:
    return column if column.isidentifier() and column.isascii() else '"' + column.replace('"', '""') + '"'


def examples(schema: Schema) -> list[dict[str, Any]]:
    """Return up to three examples of arguments for the tool `ask` that fit the columns of the holdout."""
    numbers = [_named(name) for name in schema.features if schema.columns[name].value == "number"]
    texts = [_named(name) for name in schema.features if schema.columns[name].value == "string"]
    some = [f"{name} > 0" for name in numbers[:1]] + [f"{name} in ('a', 'b')" for name in texts[:1]]
    found: list[dict[str, Any]]
    if schema.label is None or schema.label_kind == "string":
        found = [{"query": text} for text in some]
        found += [{"query": name, "low": -1, "high": 1} for name in numbers[:1]]
    else:
        label = f"{_named(schema.label)} = 1"
        found = [{"query": label}, *({"query": f"{label} and {text}"} for text in some[:1])]
        found += [{"query": label, "given": text} for text in some[:1] if schema.training_rows]
    return [{**one, "guess": 0.3} if schema.training_rows == 0 else one for one in found]


def next_step(status: Mapping[str, Any]) -> str:
    """Return a sentence that advises an agent after the tools `describe` or `status`."""
    if status.get("competition"):
        what = "final board" if status["closed"] else "board of now"
        return f"Read the {what} with leaderboard. Everything else is the host's decision."
    if status["closed"]:
        return "The study was unsealed, so nothing new is answered. What was asked before stays free. Stop here."
    if not all(status["remaining"].values()) and status.get("outlook") and not status.get("analyst"):
        return (
            "The planned budget is spent. Queries are still answered, with wider intervals: `worth` in the status "
            "says how wide. Members of declared families keep their widths."
        )
    if not all(status["remaining"].values()):
        return f"Some of the budget is spent, and queries that could cost it are refused. {_SPENT}"
    if status.get("declared") and not status.get("gates"):
        return (
            "Ask members of the declared families, which cost nothing. For other queries, "
            "compute a guess on rows of your own and ask with it."
        )
    if any(gate.get("rows_left") for gate in status.get("gates", ())):
        return (
            "Rows arrived for which a champion has no values, so its challenges are "
            "refused until the steward gives them with complete. Or ask, with a guess."
        )
    if status.get("gates"):
        return "Improve your model on rows of your own, then challenge the champion. Or ask, with a guess."
    return (
        "Compute a guess on rows of your own and ask with it. The tool quote says beforehand what a query would cost."
    )


def next_after_quote(price: QuotedPrice) -> str:
    """Return a sentence that advises an agent after the tool `quote`."""
    if price.answered_before:
        return "Ask it: the stored answer is free."
    if price.refused:
        return f"Do not ask it now. {_SPENT}"
    if price.charged_if_confirmed < price.charged_at_most:
        return "make a guess on rows of your own and ask with it: a guess that holds costs none of the surprises"
    return "ask it if the answer is worth that price"


def next_after_answer(answer: Answer, *, guessed: bool, trained: bool) -> str:
    """Return a sentence that advises an agent after an answer.

    Args:
        answer: Answer that the agent received.
        guessed: Whether the agent sent a guess with the query.
        trained: Whether the holdout can estimate values from training rows, so that no guess is needed.
    """
    if answer.refused:
        return f"Refused, and nothing was charged. {_SPENT}"
    if answer.repeated:
        return "This was asked before, so it was free. Ask something else."
    if answer.source in ("training", "guess"):
        whose = "Your guess" if answer.source == "guess" else "The estimate from the training rows"
        return f"{whose} was confirmed, which cost none of the surprises: all that is told is the interval. Go on."
    if answer.source == "declared":
        return "This is what the sealed rows say: members of declared families cost nothing. Ask as many as you like."
    if answer.source == "standing":
        return "This does not beat the best so far by enough to show. Try something else."
    if answer.charged and (guessed or trained):
        whose = "Your guess" if guessed else "The estimate from the training rows"
        return (
            f"{whose} was wrong by more than the sealed rows allow, so the answer was "
            "released from them and cost a surprise. To spend none, guess from rows that "
            "the model was not fitted on, for example by cross-validation."
        )
    return "The answer was released from the sealed rows and paid for. Go on."


def next_after_verdict(verdict: Verdict) -> str:
    """Return a sentence that advises an agent after the verdict on a challenge."""
    if verdict.refused:
        return f"Refused, and nothing was charged. The champion stays. {_SPENT}"
    if verdict.promoted and verdict.repeated:
        return "This model is the champion already. Change it and challenge again."
    if verdict.promoted:
        return "Keep this model: it is the champion now. Change it further and challenge again."
    return (
        "Revert to the champion: nothing is proved. The step may be too small to be seen, so gather several that look "
        "good on rows of your own into one, and challenge with that."
    )
