"""Results of each tool, with the words that its schema carries: an agent reads them before it asks."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12


class _Led(TypedDict):
    """Fields of every result."""

    next: Annotated[str, Field(description="What to do next.")]


class _Counted(_Led):
    """Fields about the budget."""

    left: Annotated[dict[str, int], Field(description="What is left of the budget, by name.")]


class Output(_Counted):
    """Fields with a sentence."""

    says: Annotated[str, Field(description="The result in one sentence.")]


class Described(_Counted):
    """Public facts about the rows before any query."""

    name: str
    analyst: Annotated[str | None, Field(description="On whose behalf you ask; null for the steward.")]
    rows: Annotated[int, Field(description="How many rows are sealed.")]
    training_rows: Annotated[int, Field(description="How many open rows make the server's own guesses.")]
    columns: Annotated[dict[str, str], Field(description="Columns that queries may read, and what each holds.")]
    label: Annotated[str | None, Field(description="The column that models predict.")]
    labels: Annotated[list[str | float] | None, Field(description="Its values, where they are known.")]
    row_id: Annotated[str | None, Field(description="The column that names rows; no query may read it.")]
    features: Annotated[str, Field(description="'sealed': nobody has seen the rows; 'public': all but the labels.")]
    promise: Annotated[str, Field(description="What holds for all answers together.")]
    gates: Annotated[list[dict[str, Any]], Field(description="Champions that can be challenged.")]
    declared: Annotated[
        list[dict[str, Any]], Field(description="Families whose members cost nothing, with what they hold.")
    ]
    may_be_asked: Annotated[str, Field(description="The language of queries.")]
    examples: Annotated[list[dict[str, Any]], Field(description="Arguments of `ask` that fit these columns.")]
    challenger: Annotated[str, Field(description="What `challenge` takes.")]


class QuoteOutput(Output):
    """The price of a query; nothing was asked."""

    radius: Annotated[
        float | None, Field(description="The true value is at most this far from your guess if it holds.")
    ]
    radius_if_charged: Annotated[float | None, Field(description="The same bound if it does not.")]
    charged_if_confirmed: Annotated[int, Field(description="What a guess that holds costs.")]
    charged_at_most: Annotated[int, Field(description="What a guess that does not hold costs.")]
    refused: Annotated[bool, Field(description="Whether the query would be refused.")]
    answered_before: Annotated[bool, Field(description="Whether it is stored already, and free.")]


class AnswerOutput(Output):
    """An answer, as the ledger holds it."""

    value: Annotated[float | None, Field(description="The answer; null if it was refused.")]
    low: Annotated[float | None, Field(description="Lower end of the interval that holds for the population.")]
    high: Annotated[float | None, Field(description="Upper end.")]
    source: Annotated[
        str, Field(description="'training' or 'guess': confirmed and free; 'holdout': from sealed rows; or 'refused'.")
    ]
    charged: Annotated[int, Field(description="What it cost now.")]
    repeated: Annotated[bool, Field(description="Whether it had been asked before; then it is free.")]
    query: Annotated[str, Field(description="SHA-256 of the query, its name in the ledger.")]


class VerdictOutput(Output):
    """Verdict of a gate on a challenger."""

    verdict: Annotated[str, Field(description="'promoted', 'kept' or 'refused'.")]
    promoted: Annotated[bool, Field(description="Whether your model is proved to be better, and the champion now.")]
    charged: Annotated[int, Field(description="What it cost now: 1 for a promotion, else 0.")]
    repeated: Annotated[bool, Field(description="Whether this model had challenged this champion before.")]
    champion: Annotated[str, Field(description="SHA-256 of the champion after the challenge.")]
    challenges: Annotated[int, Field(description="Challenges that the gate has answered.")]
    promotions: Annotated[int, Field(description="Promotions so far.")]


class CompletedOutput(Output):
    """A gate whose champion got values for rows that arrived, or results of cases that it had not run."""

    gate: Annotated[str, Field(description="Name of the gate.")]
    champion: Annotated[str, Field(description="SHA-256 of the champion, which stays the same.")]
    rows_left: Annotated[int, Field(description="Rows, or cases, for which it still has none: 0.")]


class CasesOutput(_Led):
    """Cases of an open challenge."""

    cases: Annotated[list[str], Field(description="Ids of the cases to run next; none after the end.")]
    says: Annotated[str, Field(description="The result in one sentence.")]


class ReportOutput(Output):
    """Reply to reported results."""

    verdict: Annotated[str, Field(description="'go on', 'promoted', 'kept' or 'refused'.")]
    reported: Annotated[int | None, Field(description="Cases that were reported so far; null after a withdrawal.")]


class StatusOutput(Output):
    """The holdout in public facts."""

    queries_asked: int
    charged: int
    closed: Annotated[bool, Field(description="Whether the study was unsealed; nothing new is answered then.")]
    gates: Annotated[list[dict[str, Any]], Field(description="Champions, and how often each gate was challenged.")]
    facts: Annotated[dict[str, Any], Field(description="Everything else that is public: mechanism, promise, ledger.")]


class CertificateOutput(_Led):
    """Signed promise."""

    promise: Annotated[str, Field(description="The promise in one sentence.")]
    public_key: Annotated[str, Field(description="The key that signed it, in hex.")]
    document: Annotated[dict[str, Any], Field(description="The signed document; save it as JSON to have it verified.")]
