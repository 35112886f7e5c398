"""The tools of an agent, as plain methods: describe, quote, ask, challenge, status, certificate.

Their docstrings are what an agent reads before it calls, their results say what to do next, and so do their errors. All
of them may be called from many threads at once. Whether a call was answered is decided by the ledger alone: a query
is the same query another time, so an agent that lost an answer asks again, for nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from everhold.arguments import brief
from everhold.display import left_in_words
from everhold.errors import QueryRejected
from everhold.queries.means.mean import mean
from everhold_server.mcp.advice import (
    LANGUAGE,
    examples,
    next_after_answer,
    next_after_quote,
    next_after_verdict,
    next_step,
)
from everhold_server.mcp.candidates import Label, PredictionsFolder, candidate, predictions_wanted
from everhold_server.mcp.results import (
    AnswerOutput,
    CertificateOutput,
    Described,
    QuoteOutput,
    StatusOutput,
    VerdictOutput,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everhold.holdout import Holdout
    from everhold.queries.means.mean import MeanQuery
    from everhold.queries.means.shares import ConditionalMean

Text = Annotated[
    str,
    Field(description="A condition over the columns, such as \"delay > 15 and carrier = 'UA'\": its share is asked. "
          "Or a number, such as \"delay\": its mean is asked, and needs low and high.", min_length=1),
]  # fmt: skip
Guess = Annotated[
    float | None,
    Field(description="What you expect, computed on rows of your own. A guess that holds is confirmed and costs "
          "nothing; by default the server's own training rows make it."),
]  # fmt: skip
Low = Annotated[float | None, Field(description="Of a number only: smaller values count as this.")]
High = Annotated[float | None, Field(description="Of a number only: larger values count as this.")]
Given = Annotated[str | None, Field(description="A condition: take the mean only over rows that meet it.")]
Rule = Annotated[
    str | None,
    Field(description="A model as an expression over the features: label 1 where a condition is true, else 0; or a "
          "number that is the prediction, such as \"case when delay > 15 then 1 else 0 end\"."),
]  # fmt: skip
Predictions = Annotated[
    dict[str, Label] | list[Label] | None,
    Field(description="One prediction for each sealed row: an object from row id to prediction; where rows have no "
          "ids, a list in their order. Only where the features are public."),
]  # fmt: skip
File = Annotated[
    str | None, Field(description="Name, without a path, of a file of predictions in the folder that you were given.")
]
GateName = Annotated[str | None, Field(description="Name of the gate; null where there is only one of its kind.")]


class Tools:
    """Tools of an agent with one open holdout.

    Args:
        holdout: On whose behalf it was opened, the agent asks.
        predictions: The folder from which files of predictions are read; none by default.
    """

    def __init__(self, holdout: Holdout, predictions: PredictionsFolder | None = None) -> None:
        self._holdout, self._predictions = holdout, predictions

    def describe(self) -> Described:
        """Say what is sealed, what may be asked, what is promised, and what is left. Call this first. Free."""
        schema, status = self._holdout.schema, self._holdout.status()
        return {
            "name": status["name"],
            "analyst": status.get("analyst"),
            "rows": schema.rows,
            "training_rows": schema.training_rows,
            "columns": {name: kind.value for name, kind in schema.asked.items()},
            "label": schema.label,
            "labels": None if schema.label_classes is None else list(schema.label_classes),
            "row_id": schema.row_id,
            "features": status["features"],
            "promise": self._holdout.promised,
            "left": self._holdout.remaining,
            "gates": status.get("gates", []),
            "declared": status.get("declared", []),
            "may_be_asked": LANGUAGE,
            "examples": examples(schema),
            "challenger": predictions_wanted(schema) if status.get("gates") else "there is no gate to challenge yet",
            "next": next_step(status),
        }

    def quote(
        self, query: Text, guess: Guess = None, low: Low = None, high: High = None, given: Given = None
    ) -> QuoteOutput:
        """Say what a query would cost and how wide its interval would be. Free, and nothing is asked."""
        price = self._holdout.quote(mean_of(query, low, high, given), guess=guess)
        return {
            "radius": price.radius,
            "radius_if_charged": price.radius_if_charged,
            "charged_if_confirmed": price.charged_if_confirmed,
            "charged_at_most": price.charged_at_most,
            "refused": price.refused,
            "answered_before": price.answered_before,
            "left": dict(price.remaining),
            "says": str(price),
            "next": next_after_quote(price),
        }

    def ask(
        self, query: Text, guess: Guess = None, low: Low = None, high: High = None, given: Given = None
    ) -> AnswerOutput:
        """Ask one query. The interval holds for the population, together with all other answers ever given.

        It stays true however your query depends on earlier answers. A new query counts against the budget; what
        was asked before is answered again for nothing, so if you are not sure that you were answered, ask the same.
        """
        answer = self._holdout.ask(mean_of(query, low, high, given), guess=guess)
        return {
            "value": answer.value,
            "low": answer.low,
            "high": answer.high,
            "source": answer.source,
            "charged": answer.charged,
            "repeated": answer.repeated,
            "query": answer.query,
            "left": dict(answer.remaining),
            "says": str(answer),
            "next": next_after_answer(
                answer, guessed=guess is not None, trained=self._holdout.schema.training_rows > 0
            ),
        }

    def challenge(
        self, rule: Rule = None, predictions: Predictions = None, file: File = None, gate: GateName = None
    ) -> VerdictOutput:
        """Let your model try to beat the champion: keep or revert. Give exactly one of rule, predictions and file.

        'promoted' is proved, however many models failed before: yours is better and is the champion now, which costs a
        surprise. 'kept' promises nothing and costs one of the planned queries. No score is told, so there is nothing
        to climb. The same model against the same champion again has the same verdict, for nothing.
        """
        model = candidate(self._holdout.schema, self._predictions, rule=rule, predictions=predictions, file=file)
        verdict = gate_named(self._holdout, gate).challenge(model)
        said = verdict.to_dict()
        return {
            "verdict": said["verdict"],
            "promoted": verdict.promoted,
            "charged": verdict.charged,
            "repeated": verdict.repeated,
            "champion": verdict.champion,
            "challenges": verdict.challenges,
            "promotions": verdict.promotions,
            "left": dict(verdict.remaining),
            "says": str(verdict),
            "next": next_after_verdict(verdict),
        }

    def status(self) -> StatusOutput:
        """Say what was asked and charged, what is left, and which champions there are. Free."""
        status = self._holdout.status()
        named = ["queries_asked", "charged", "closed", "remaining", "gates"]
        if (analyst := status.get("analyst")) is not None:  # what others may spend is not theirs to know
            own = [part for part in status.get("allotments", []) if part["analyst"] == analyst]
            status["allotments"] = own
        about_cases = [gate["gate"] for gate in status.get("gates", []) if is_about_cases(gate)]
        found = [self._holdout.gate(name=name).status() for name in about_cases]
        opened = [{"gate": gate["gate"], **gate["open_challenge"]} for gate in found if "open_challenge" in gate]
        if opened:
            status["open_challenges"] = opened
        return {
            "queries_asked": status["queries_asked"],
            "charged": status["charged"],
            "left": dict(status["remaining"]),
            "closed": status["closed"],
            "gates": status.get("gates", []),
            "facts": {name: value for name, value in status.items() if name not in named},
            "says": f"{status['queries_asked']:,} asked, {status['charged']:,} charged, "
            f"{left_in_words(status['remaining'])} left",
            "next": next_step(status),
        }

    def certificate(self) -> CertificateOutput:
        """Give the signed certificate: what is promised, what was assumed, what was asked and spent. Free."""
        certificate = self._holdout.certificate(queries=False)
        return {
            "promise": certificate.promise,
            "public_key": certificate.public_key,
            "document": certificate.to_dict(),
            "next": "save the document as a file that ends in .json; anybody can check it offline with 'everhold "
            "certificate verify FILE', and the answers against the ledger",
        }


def gate_named(holdout: Holdout, name: str | None, *, cases: bool = False) -> Any:
    """A gate about rows, or about cases; without a name the only one of that kind.

    Raises:
        QueryRejected: If there is none, or several and no name. Nothing is charged.
    """
    every = {gate["gate"]: is_about_cases(gate) for gate in holdout.status().get("gates", [])}
    known = [gate for gate, of_cases in every.items() if of_cases == cases]
    if name is None and len(known) == 1:
        name = known[0]
    if name is None or name not in known:
        kind, other = ("cases", "challenge") if cases else ("rows", "open_challenge")
        if name in every:
            raise QueryRejected(f"Gate {brief(name)} is not about {kind}. Use {other} for it.")
        what = "Name the gate" if known else "There is no gate to choose"
        what = what if name is None else f"There is no gate named {brief(name)}"
        raise QueryRejected(f"{what}. Gates about {kind}: {', '.join(map(repr, known)) or 'none'}.")
    return holdout.gate(name=name)


def is_about_cases(gate: Mapping[str, Any]) -> bool:
    """True if a gate in public facts is about cases."""
    return str(gate["metric"]).startswith("cases: ")


def mean_of(query: str, low: float | None, high: float | None, given: str | None) -> MeanQuery | ConditionalMean:
    """The query that a text stands for."""
    return mean(query, low=low, high=high) if given is None else mean(query, low=low, high=high, given=given)
