"""The tools of an agent, and the classes of their results, from which the tools' schemas are made.

An agent reads the docstring of a tool before it calls it, and results and errors say what to do next. All tools may be
called from many threads at once. The ledger alone decides whether a query was answered, so an agent that lost an answer
asks the same query again, free of charge.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import Field
from typing_extensions import TypedDict

from everhold.arguments import brief
from everhold.display import left_in_words
from everhold.errors import QueryRejected
from everhold.operations import OPERATIONS
from everhold.operations.operation import AnyQuery, HoldoutOperation, Role, parameters
from everhold.queries.makers import mean
from everhold_competitions.operations import COMPETITION_OPERATIONS
from everhold_server.mcp.advice import (
    LANGUAGE,
    examples,
    next_after_answer,
    next_after_quote,
    next_after_verdict,
    next_step,
)
from everhold_server.mcp.candidates import Label, PredictionsFolder, candidate, predictions_wanted
from everhold_server.wire.reading import annotated

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from everhold.holdout import Holdout
    from everhold.queries.means.combined import ConditionalMean
    from everhold.queries.means.mean import MeanQuery


class _Led(TypedDict):
    """Fields that every result of a tool has."""

    next: Annotated[str, Field(description="What to do next.")]


class _Counted(_Led):
    """Fields about the remaining budget."""

    left: Annotated[dict[str, int], Field(description="What is left of the budget, by name.")]


class Output(_Counted):
    """Fields of a result that is explained in a sentence."""

    says: Annotated[str, Field(description="The result in one sentence.")]


class Described(_Counted):
    """Public facts about the rows before any query."""

    name: str
    analyst: Annotated[str | None, Field(description="On whose behalf you ask. Null for the steward.")]
    rows: Annotated[int, Field(description="How many rows are sealed.")]
    training_rows: Annotated[int, Field(description="How many open rows make the server's own guesses.")]
    columns: Annotated[dict[str, str], Field(description="Columns that queries may read, and what each holds.")]
    label: Annotated[str | None, Field(description="The column that models predict.")]
    labels: Annotated[list[str | float] | None, Field(description="Its values, where they are known.")]
    row_id: Annotated[str | None, Field(description="The column that names rows. No query may read it.")]
    features: Annotated[str, Field(description="'sealed': nobody has seen the rows. 'public': all but the labels.")]
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

    value: Annotated[float | None, Field(description="The answer. Null if it was refused.")]
    low: Annotated[float | None, Field(description="Lower end of the interval that holds for the population.")]
    high: Annotated[float | None, Field(description="Upper end.")]
    source: Annotated[
        str, Field(description="'training' or 'guess': confirmed and free. 'holdout': from sealed rows. Or 'refused'.")
    ]
    charged: Annotated[int, Field(description="What it cost now.")]
    repeated: Annotated[bool, Field(description="Whether it had been asked before. Then it is free.")]
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
    """A gate whose champion got values for rows that arrived."""

    gate: Annotated[str, Field(description="Name of the gate.")]
    champion: Annotated[str, Field(description="SHA-256 of the champion, which stays the same.")]
    rows_left: Annotated[int, Field(description="Rows for which it still has none: 0.")]


class StatusOutput(Output):
    """Public facts of the holdout."""

    queries_asked: int
    charged: int
    closed: Annotated[bool, Field(description="Whether the study was unsealed. Nothing new is answered then.")]
    gates: Annotated[list[dict[str, Any]], Field(description="Champions, and how often each gate was challenged.")]
    facts: Annotated[dict[str, Any], Field(description="Everything else that is public: mechanism, promise, ledger.")]


class CertificateOutput(_Led):
    """The signed certificate of the holdout."""

    promise: Annotated[str, Field(description="The promise in one sentence.")]
    public_key: Annotated[str, Field(description="The key that signed it, in hex.")]
    document: Annotated[dict[str, Any], Field(description="The signed document. Save it as JSON to have it verified.")]


Text = Annotated[
    str,
    Field(description="A condition over the columns, such as \"delay > 15 and carrier = 'UA'\": its share is asked. "
          "Or a number, such as \"delay\": its mean is asked, and needs low and high.", min_length=1),
]  # fmt: skip
Guess = Annotated[
    float | None,
    Field(description="What you expect, computed on rows of your own. A guess that holds is confirmed and "
    "costs nothing. By default the server's own training rows make it."),
]  # fmt: skip
Low = Annotated[float | None, Field(description="Of a number only: smaller values count as this.")]
High = Annotated[float | None, Field(description="Of a number only: larger values count as this.")]
Given = Annotated[str | None, Field(description="A condition: take the mean only over rows that meet it.")]
Rule = Annotated[
    str | None,
    Field(description="A model as an expression over the features: label 1 where a condition is true, else 0. Or a "
          "number that is the prediction, such as \"case when delay > 15 then 1 else 0 end\"."),
]  # fmt: skip
Predictions = Annotated[
    dict[str, Label] | list[Label] | None,
    Field(description="One prediction for each sealed row: an object from row id to prediction, or, where "
    "rows have no ids, a list in their order. Only where the features are public."),
]  # fmt: skip
File = Annotated[
    str | None, Field(description="Name, without a path, of a file of predictions in the folder that you were given.")
]
GateName = Annotated[str | None, Field(description="Name of the gate. Null where there is only one of its kind.")]


class Tools:
    """Tools of an agent with one open holdout.

    Args:
        holdout: The holdout, opened for the analyst as whom the agent asks.
        predictions: The folder from which files of predictions are read. By default, agents cannot name files.
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
            "promise": self._holdout.promise.sentence or "",
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
        return cast("QuoteOutput", _told(price, QuoteOutput, next_after_quote(price)))

    def ask(
        self, query: Text, guess: Guess = None, low: Low = None, high: High = None, given: Given = None
    ) -> AnswerOutput:
        """Ask one query. The interval holds for the population, together with all other answers ever given.

        It stays true however your query depends on earlier answers. A new query counts against the budget; what
        was asked before is answered again for nothing, so if you are not sure that you were answered, ask the same.
        """
        answer = self._holdout.ask(mean_of(query, low, high, given), guess=guess)
        trained = self._holdout.schema.training_rows > 0
        advice = next_after_answer(answer, guessed=guess is not None, trained=trained)
        return cast("AnswerOutput", _told(answer, AnswerOutput, advice))

    def challenge(
        self, rule: Rule = None, predictions: Predictions = None, file: File = None, gate: GateName = None
    ) -> VerdictOutput:
        """Let your model try to beat the champion. Give exactly one of rule, predictions and file.

        'promoted' is proved, however many models failed before: yours is better and is the champion now, which costs a
        surprise. 'kept' promises nothing and costs one of the planned queries. No score is told, so there is nothing
        to climb. The same model against the same champion again has the same verdict, for nothing.
        """
        model = candidate(self._holdout.schema, self._predictions, rule=rule, predictions=predictions, file=file)
        verdict = gate_named(self._holdout, gate).challenge(model)
        return cast("VerdictOutput", _told(verdict, VerdictOutput, next_after_verdict(verdict)))

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
            "next": "Save the document as a file that ends in .json. Anybody can check it offline "
            "with 'everhold certificate verify FILE', and the answers against the ledger.",
        }


def _told(result: Any, output: type[Output], advice: str) -> dict[str, Any]:
    """Return the fields of an output from the result's data, with the budget, a sentence and what to do next."""
    said, names = result.to_dict(), output.__annotations__.keys() - Output.__annotations__.keys()
    own = {name: said[name] if name in said else getattr(result, name) for name in names}
    return {**own, "left": dict(result.remaining), "says": str(result), "next": advice}


def gate_named(holdout: Holdout, name: str | None, *, cases: bool = False) -> Any:
    """Return the gate with this name. Without a name, return the only gate about rows, or about cases.

    Args:
        holdout: The holdout with the gates.
        name: Name of the gate, or None.
        cases: Whether the gate must be about cases. If not, it must be about rows.

    Raises:
        QueryRejected: If there is no such gate, or if there are several and no name is given. Nothing is charged.
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
    """Return whether a gate's public facts say that it compares results on cases."""
    return str(gate["metric"]).startswith("cases: ")


def mean_of(query: str, low: float | None, high: float | None, given: str | None) -> MeanQuery | ConditionalMean:
    """Return the query for a mean from the arguments of a tool call."""
    return mean(query, low=low, high=high) if given is None else mean(query, low=low, high=high, given=given)


class ChampionTools:
    """Tool that gives a champion's values for rows that arrived after its promotion.

    Args:
        holdout: The holdout, opened for the analyst as whom the agent acts.
        predictions: The folder from which files of predictions are read. By default, agents cannot name files.
    """

    def __init__(self, holdout: Holdout, predictions: PredictionsFolder | None = None) -> None:
        self._holdout, self._predictions = holdout, predictions

    def complete(
        self, rule: Rule = None, predictions: Predictions = None, file: File = None, gate: GateName = None
    ) -> CompletedOutput:  # fmt: skip
        """Give a champion's values for rows that arrived; the gate refuses challenges before. Free, for the steward.

        Exactly one of the rule that the champion is, and its predictions for the rows that arrived alone. They must
        come from the same model, made without sealed labels, and cannot be changed afterwards.
        """
        found = gate_named(self._holdout, gate)
        found.complete(
            candidate(self._holdout.schema, self._predictions, rule=rule, predictions=predictions, file=file)
        )
        status = found.status()
        return {
            "gate": status["gate"], "champion": status["champion"], "rows_left": status["rows_left"],
            "left": dict(status["remaining"]), "says": f"the champion of gate {found.name!r} has values for all rows",
            "next": "challenge the champion with a model for all rows",
        }  # fmt: skip


class PerformedOutput(Output):
    """Result of an operation."""

    result: Annotated[dict[str, Any], Field(description="The result, by field.")]


@dataclass(frozen=True, slots=True)
class Acting:
    """What the tools of operations work on: the holdout of an agent, and the function that performs operations.

    Attributes:
        holdout: The holdout, opened for the analyst as whom the agent acts.
        perform: Function that performs an operation on the holdout. In a service, it also records who did it.
        more: Further operations that get a tool.
    """

    holdout: Holdout
    perform: Callable[[HoldoutOperation[Any]], Any]
    more: Sequence[type[HoldoutOperation[Any]]] = ()

    def tools(self) -> dict[Callable[..., Any], type[HoldoutOperation[Any]]]:
        """Return the tools of operations: those of competitions if the holdout is one, and an agent's own rights."""
        status = self.holdout.status()
        contest, steward = "competition" in status, status.get("analyst") is None
        every = [each for each in (*OPERATIONS.values(), *COMPETITION_OPERATIONS, *self.more) if each.agents]
        return {
            _tool(self, each): each for each in every
            if (each.topic == "competitions") is contest and (steward or each.role is not Role.STEWARD)
        }  # fmt: skip


def _tool(acting: Acting, operation: type[HoldoutOperation[Any]]) -> Callable[..., Any]:
    every = [each for each in parameters(operation) if each.about.travels]
    about = next((each.name for each in every if each.holds(AnyQuery) and not each.several), None)
    details: dict[str, Any] = {} if about is None else {"low": Low, "high": High, "given": Given}

    def tool(**arguments: Any) -> PerformedOutput:
        of = {name: arguments.pop(name) for name in details}
        if about is not None and arguments[about] is not None:
            arguments[about] = mean_of(arguments[about], of["low"], of["high"], of["given"])
        asked = operation(**arguments)
        done, left = acting.perform(asked), acting.holdout.remaining
        said = "; ".join(filter(None, [asked.remark(done), f"{left_in_words(left)} left"]))
        return {
            "result": {operation.part: done} if operation.part else done.to_dict(), "left": dict(left), "says": said,
            "next": next_step(acting.holdout.status()),
        }  # fmt: skip

    kinds = {each.name: Text if each.name == about and each.required else annotated(each) for each in every}
    defaults = {each.name: inspect.Parameter.empty if each.required else each.default for each in every}
    kinds |= details
    tool.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults.get(name), annotation=kind)
            for name, kind in kinds.items()
        ],
        return_annotation=PerformedOutput,
    )
    tool.__annotations__ = {**kinds, "return": PerformedOutput}
    tool.__name__, tool.__doc__ = operation.verb, inspect.getdoc(operation)
    return tool
