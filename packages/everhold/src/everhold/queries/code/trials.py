"""Code on public rows, before it meets sealed ones: it has to run, and each value to depend on its own row alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.queries.code.identity import behaviour_digest
from everhold.sealing.rows.code_trials import (
    check_rows_alone,
    made_up_rows,
    made_up_values,
    predicted,
    public_values,
    try_estimator,
    try_on_public_rows,
    varied_rows,
)
from everhold.sealing.rows.estimated_values import EstimatedValues
from everhold.values.evaluation import to_grid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from everhold.queries.query_compiler import QueryCompiler
    from everhold.values.base import BoundQuery, RowFunction, Table

_MOST_TRIED = 2_000  # training rows that a function is tried on in several orders
_MOST_COMPARED = 10_000  # training rows for which an estimator's predictions are part of its identity


def tried(bound: BoundQuery, function: RowFunction, compiler: QueryCompiler) -> BoundQuery:
    """A query that is code, tried on public rows; what it does there is part of its identity.

    Raises:
        QueryRejected: If it fails on public rows, or a row's value depends on other rows. Nothing is charged.
    """
    schema, training, unit = compiler.schema, compiler.training, compiler.mechanism.unit
    names = tuple(schema.asked) if bound.reads is None else bound.reads
    out_of_fold = bound.training is not function  # by other models: not all of its own predictions are needed
    outputs, table = observed(function, names, compiler, most=_MOST_COMPARED if out_of_fold else None)
    on_grid = None
    if training is not None and out_of_fold and bound.training is not None:
        on_grid = to_grid(bound.training(training.table(names)), unit=unit)
    elif table is not None:
        values = function.judge(outputs[0], table) if isinstance(function, EstimatedValues) else outputs[0]
        on_grid = to_grid(values, unit=unit)
    if isinstance(function, EstimatedValues):
        outputs = [output[:_MOST_COMPARED] for output in outputs]
        yes_no = bound.yes_no
    else:
        yes_no = bound.yes_no or all(output.dtype == np.bool_ for output in outputs)
    described = {**bound.description, "on_public_rows": behaviour_digest(outputs)}
    return replace(bound, description=described, training_values=on_grid, yes_no=yes_no)


def observed(
    function: RowFunction, names: Sequence[str], compiler: QueryCompiler, *, most: int | None = None
) -> tuple[list[NDArray[Any]], Table | None]:
    """Values of code on public rows, and these rows; None if they are made-up ones.

    Args:
        function: As it will be applied to the sealed rows.
        names: Columns that it reads.
        compiler: Of the holdout; it knows the public rows.
        most: Training rows that are enough of an estimator; None for all.

    Returns:
        For the training rows, an estimator's predictions or a function's row values. Without training rows, for made-up
        rows as far as it gives any.

    Raises:
        QueryRejected: If it fails on public rows, or a row's value depends on other rows. Nothing is charged.
    """
    schema, training = compiler.schema, compiler.training
    if training is None:
        kinds = {name: schema.columns[name] for name in names}
        return _observed_on_made_up(function, made_up_rows(kinds), varied_rows(kinds)), None
    public = training.table(names)
    few = {name: column[:_MOST_TRIED] for name, column in public.items()}
    if isinstance(function, EstimatedValues):
        public = {name: column[:most] for name, column in public.items()}
        predictions = predicted(function, public)
        check_rows_alone(function.predict, few, predictions[:_MOST_TRIED])
        return [predictions], public
    values = public_values(function, public, schema.training_rows)
    to_grid(values)
    check_rows_alone(lambda rows: np.asarray(function(dict(rows))), few, values[:_MOST_TRIED])
    return [values], public


def _observed_on_made_up(function: RowFunction, few: Table, many: Table) -> list[NDArray[Any]]:
    if not isinstance(function, EstimatedValues):
        return [try_on_public_rows(function, few), made_up_values(function, many)]
    outputs = [try_estimator(function, table) for table in (few, many)]
    if outputs[1] is not None:
        check_rows_alone(function.predict, many, outputs[1])
    return [np.zeros(0) if output is None else output for output in outputs]
