"""The points of a search space: lists of values by parameter, and their public description.

Whatever goes into a fit has a description in plain JSON: numbers, texts, lists, arrays by their digest, and estimators
by their class and parameters. Two values with one description are one value.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from everhold.arguments import brief
from everhold.errors import QueryRejected
from everhold.ledger.chain import canonical

_MOST_VALUES = 100_000  # in all lists together


@dataclass(frozen=True, eq=False)
class Space:
    """The points of one or several grids of parameter values, as scikit-learn takes them.

    Attributes:
        grids: Values by parameter, one mapping for each grid.
    """

    grids: Sequence[Mapping[str, Sequence[Any]]]

    @property
    def size(self) -> int:
        """The number of points in all grids together."""
        return sum(math.prod(map(len, grid.values())) for grid in self.grids)

    @property
    def names(self) -> list[str]:
        """The names of all parameters, in order and without repetition."""
        return list(dict.fromkeys(chain.from_iterable(self.grids)))

    @cached_property
    def _known(self) -> Sequence[Mapping[str, Mapping[str, Any]]]:
        """For each grid, the values of each parameter by their public description."""
        return [
            {name: {canonical({"": described(value)}): value for value in values} for name, values in grid.items()}
            for grid in self.grids
        ]

    def point(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return a given point with each value replaced by the equal one that the space lists.

        Raises:
            QueryRejected: If it is no point of the space. Nothing is charged.
        """
        for grid in self._known:
            if grid.keys() == given.keys():
                found = {name: grid[name].get(canonical({"": described(value)}), self) for name, value in given.items()}
                if self not in found.values():
                    return found
        raise QueryRejected(
            f"{brief(dict(given))} is no point of the declared space. Pass one of the listed values for each of "
            f"{', '.join(self.names)}."
        )

    def read(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """Return the point of the space that has the given public description."""
        texts = {name: canonical({"": value}) for name, value in point.items()}
        grid = next(grid for grid in self._known if grid.keys() == point.keys())
        return {name: grid[name][text] for name, text in texts.items()}

    def first(self) -> dict[str, Any]:
        """Return the first point of the first grid, as values by parameter."""
        return {name: values[0] for name, values in self.grids[0].items()}

    @cached_property
    def listed(self) -> list[list[list[Any]]]:
        """The values of each parameter of each grid, as plain JSON data."""
        return [[[name, [described(value) for value in values]] for name, values in g.items()] for g in self.grids]


def space_of(given: Any) -> Space:
    """Build a `Space` from scikit-learn's ``param_distributions`` or ``param_grid`` with finitely many values.

    Raises:
        QueryRejected: If it has no steps, or lists a value twice. Nothing is charged.
    """
    grids = [given] if isinstance(given, Mapping) else given
    if isinstance(grids, str) or not isinstance(grids, Sequence) or not grids:
        raise QueryRejected(
            f"The space is {brief(given)}. Pass lists of values by parameter, such as {{'max_depth': [3, 5, 8]}}."
        )
    listed = []
    for grid in grids:
        if not isinstance(grid, Mapping) or not grid or not all(isinstance(name, str) for name in grid):
            raise QueryRejected(f"The space holds {brief(grid)}. Pass lists of values by parameter.")
        listed.append({name: _values(name, values) for name, values in grid.items()})
    if sum(len(values) for grid in listed for values in grid.values()) > _MOST_VALUES:
        raise QueryRejected(
            f"The space lists more than {_MOST_VALUES:,} values. Pass fewer values for each parameter, with larger "
            "steps."
        )
    return Space(listed)


def _values(name: str, values: Any) -> list[Any]:
    """Return the values of one parameter as a list, after checking that no value is listed twice."""
    if hasattr(values, "rvs"):
        values = _steps(name, values)
    if isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__iter__"):
        raise QueryRejected(f"{name} is {brief(values)}. Pass a list of its values.")
    found = [value.item() if isinstance(value, np.generic) else value for value in values]
    if not found or len({canonical({"": described(value)}) for value in found}) < len(found):
        raise QueryRejected(
            f"{name} lists {'no value' if not found else 'a value twice'}. Pass each of its values once."
        )
    return found


def _steps(name: str, distribution: Any) -> Any:
    """Return the range of values of a distribution over finitely many whole numbers."""
    least, most = distribution.support() if hasattr(distribution, "support") else (0.0, math.inf)
    if not hasattr(getattr(distribution, "dist", None), "pmf") or not math.isfinite(most - least):
        raise QueryRejected(
            f"{name} is a distribution without steps, whose values cannot be listed. Pass its values, such as "
            "numpy.geomspace(0.01, 1.0, 50).round(4)."
        )
    return range(int(least), min(int(most), int(least) + _MOST_VALUES) + 1)


def described(value: Any) -> Any:
    """Return the public description, in plain JSON, of a value that goes into a fit.

    Raises:
        QueryRejected: If two fits could not be told apart by it. Nothing is charged.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, np.ndarray) and value.dtype != object:
        digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return {"array": [value.dtype.str, list(value.shape), digest]}
    if isinstance(value, (list, tuple)):
        return [described(each) for each in value]
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {"mapping": [[name, described(each)] for name, each in sorted(value.items())]}
    if isinstance(value, type):
        return {"class": f"{value.__module__}.{value.__qualname__}"}
    if hasattr(value, "get_params"):
        fitted = [name for name in vars(value) if name.endswith("_") and not name.startswith("_")]
        if fitted:
            raise QueryRejected(
                f"A {type(value).__name__} is fitted already (it has {fitted[0]}), and may know the rows. Pass "
                "unfitted estimators."
            )
        parameters = value.get_params(deep=False)
        return {"class": described(type(value))["class"], "parameters": described(parameters)}
    raise QueryRejected(
        f"{brief(value)} cannot be declared, because nothing describes it. Pass numbers, texts, lists, arrays and "
        "estimators."
    )
