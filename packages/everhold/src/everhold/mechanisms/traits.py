"""Traits of a kind of mechanism: the queries and rows it takes, and how it answers and charges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Facts about a kind of mechanism, the same for all parameters, for compiler, planner and certificate.

    Attributes:
        needs_guess: Whether every query must come with a guess.
        adaptive: Whether queries may depend on earlier answers.
        one_sided: Whether some answers bound the population's value from one side only.
        one_law: Whether it answers from parts of the rows, so that all rows have to be of one law.
        independent_rows: Whether it takes independent rows only.
        adds_noise: Whether answers are noisy.
        unsealable: Whether every query has an interval of its own, which can be told when the study is over (S8).
        only_silent: Whether it takes silent queries only, so that no plan for answers has a line for it.
        leakage: Its statement is S1, which looks at what answers tell about a row and not at the rows' concentration.
            It is the function that says how much, as ``"module:function"``, of the model, loss, delta and rows.
        sources: Sources of its answers, as the ledger names them.
        charged_in: Unit of its charges, such as surprises.
        most_charged: The most that one new query costs, at the planned price.
        sells_tolerances: Whether it is a `everhold.queries.query.SellsTolerances`.
        statistics: "package.module:function" that prepares a statistic of all rows with a price; empty for none.
        beyond_the_plan: Whether it may answer more queries than planned.
        public_levels: Every query has a level that public facts decide (S8), and no answer draws noise; it is a
            `everhold.mechanisms.public_levels.PublicLevels`.
        batch_is_one_step: A batch is answered at the levels of its start (S9).
    """

    needs_guess: bool = False
    adaptive: bool = True
    one_sided: bool = False
    one_law: bool = False
    independent_rows: bool = False
    adds_noise: bool = True
    unsealable: bool = False
    only_silent: bool = False
    leakage: str = ""
    sources: tuple[str, ...] = ("holdout",)
    charged_in: Literal["answers", "surprises", "credits"] = "answers"
    most_charged: int = 1
    sells_tolerances: bool = False
    statistics: str = ""
    beyond_the_plan: bool = False
    public_levels: bool = False
    batch_is_one_step: bool = False
