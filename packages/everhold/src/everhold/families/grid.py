"""The search space family: models that one estimator becomes at the points of a grid, fitted on training rows.

A member is a point. The point, the estimator, the seed, the versions of packages and the training rows must determine
its model, and no answer may. So everhold fits the model itself, with one thread and fixed seeds. Anything else that a
fit reads could let answers choose the model. So a fit cannot use files, programs or the network. A fit that reads a
clock or the environment is not noticed. Models are returned as copies.
"""

from __future__ import annotations

import hashlib
import math
import platform
import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from everhold.arguments import as_whole, brief
from everhold.errors import QueryRejected
from everhold.families.base import BoundFamily, Family
from everhold.queries.code import behaviour_digest, content_digest, is_installed, version_of
from everhold.queries.metrics.models import model_query, open_rows, outputs_of, require_sklearn
from everhold.queries.metrics.query import MetricQuery
from everhold.queries.metrics.registry import METRICS
from everhold.queries.metrics.scores import maker_of
from everhold.queries.query import CompileContext, RowwiseQuery
from everhold.sealing.rows.code_trials import calling_code, used_alone
from everhold.strict_json import canonical, digest

if TYPE_CHECKING:
    from everhold.values.base import BoundQuery, Schema

_COMPARED = 2_000  # training rows on which two fits are compared
_KEPT = 4  # fitted models: a quote and the answer after it need one fit
_SEED, _THREADS = "random_state", "n_jobs"


@dataclass(frozen=True, eq=False)
class GridFamily(Family):
    """A search space: one estimator at every point of a grid of parameters. It is made by `grid`."""

    estimator: Any
    space: Space
    seed: int
    metric: str
    features: Sequence[str] | None = None
    _models: OrderedDict[str, tuple[Any, Any]] = field(default_factory=OrderedDict, repr=False)

    def at(self, point: Mapping[str, Any] | None = None, /, **more: Any) -> PointQuery:
        """Build the query about the model at one point, given as a mapping or as keywords.

        Raises:
            QueryRejected: If the given values are not a point of the space. Nothing is charged.
        """
        return PointQuery(self, self.space.point({**(point or {}), **more}))

    def bind(self, compiler: CompileContext) -> BoundGrid:
        """Bind the space to one holdout, after checking that two fits at its first point give the same model."""
        first = self.space.first()
        models = [self.fit(compiler, first) for _ in range(2)]
        fits = {self.fit_digest(compiler, model) for model in models}
        if len(fits) > 1:
            raise QueryRejected(
                f"Two fits at {brief(first)} differ. Pass an estimator that is deterministic given its parameters, "
                "with random_state= for all randomness."
            )
        self.bound(compiler, models[0])  # refused where the label has no such metric
        return BoundGrid(self.facts)

    def bound(self, compiler: CompileContext, model: Any) -> BoundQuery:
        """Return the bound query about the metric of a fitted model, before it is identified by its point.

        Raises:
            QueryRejected: If the metric cannot be computed for this holdout's labels. Nothing is charged.
        """
        asked = model_query(maker_of(self.metric), model)
        share = asked.share() if isinstance(asked, MetricQuery) else None
        if share is None:
            bound: BoundQuery = asked.bound_to(compiler)
            return bound
        found = share.placed(compiler).as_one(compiler)
        if found is None:
            raise QueryRejected(
                f"The metric {self.metric} of a search space is a ratio, which this holdout cannot answer as one "
                "query. Pass metric='accuracy', or use a holdout with guess_and_check, training rows and no slack."
            )
        return found

    @property
    def facts(self) -> dict[str, Any]:
        """Everything but the training rows that determines the fitted models, as plain JSON data."""
        return {
            "kind": BoundGrid.kind, "estimator": described(self.estimator), "space": self.space.listed,
            "seed": self.seed, "metric": self.metric, "size": str(self.space.size),
            "features": None if self.features is None else list(self.features), "versions": _versions(self.estimator),
        }  # fmt: skip

    def fit(self, compiler: CompileContext, point: Mapping[str, Any]) -> Any:
        """Fit the estimator with the parameters of a point on all training rows, with one thread, and return it."""
        from sklearn.base import clone
        from threadpoolctl import threadpool_limits

        rows, labels = open_rows(compiler, self.features)
        try:
            model = clone(self.estimator).set_params(**{n: clone(v, safe=False) for n, v in point.items()})
            model.set_params(**self._pinned(model, point))
            with threadpool_limits(1), used_alone("is fitted"), calling_code():
                return model.fit(rows, labels)
        except QueryRejected:
            raise
        except Exception as fault:
            raise QueryRejected(
                f"The estimator cannot be fitted at {brief(dict(point))}: {brief(str(fault))}. Pass a space of "
                "parameters that the estimator takes."
            ) from None

    def _pinned(self, model: Any, point: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of a point, with the family's seed for each seed that is not set, and one thread."""
        pinned: dict[str, Any] = {}
        for name, value in model.get_params(deep=True).items():
            last = name.rpartition("__")[2]
            if last == _SEED and value is None and name not in point:
                pinned[name] = self.seed
            elif last == _THREADS and value not in (None, 1):
                pinned[name] = 1
        return pinned

    def model(self, compiler: CompileContext, point: Mapping[str, Any]) -> Any:
        """Return a copy of the model fitted at a point, so that the caller can change the copy without effect.

        The latest fits are cached. A model that cannot be copied is fitted again.
        """
        place = digest({"facts": self.facts, "point": described(point)})
        rows, model = self._models.get(place, (None, None))
        if rows is None or rows is not compiler.training:
            model = self.fit(compiler, point)
            self._models[place] = compiler.training, model
            while len(self._models) > _KEPT:
                self._models.popitem(last=False)
        try:
            copied = deepcopy(model)
        except Exception:  # a model of the analyst's may hold what cannot be copied
            copied = model
        return self.fit(compiler, point) if copied is model else copied

    def fit_digest(self, compiler: CompileContext, model: Any) -> str:
        """Return the hash of a model's outputs for the first training rows, which the ledger keeps with the point."""
        return behaviour_digest([self.outputs(compiler, model)])

    def outputs(self, compiler: CompileContext, model: Any) -> Any:
        """Return a model's predictions for the first training rows."""
        rows, _ = open_rows(compiler, self.features)
        with used_alone("predicts"), calling_code():
            return outputs_of(model_query(maker_of(self.metric), model), rows[:_COMPARED], compiler.schema)


@dataclass(frozen=True)
class BoundGrid(BoundFamily):
    """A search space bound to one holdout. All points have the same weight."""

    kind: ClassVar[str] = "grid"
    facts: dict[str, Any] = field(repr=False)

    def nats(self, bound: BoundQuery) -> float | None:
        """Return ln(number of points) if the query was made by `GridFamily.at` of this space, else None."""
        return self.most_nats if bound.description.get("grid") == self.digest else None

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the facts that determine the models."""
        return digest(self.facts)

    def to_dict(self) -> dict[str, Any]:
        """Return the facts that determine the models, as plain JSON data with the family's ``kind``."""
        return self.facts

    @classmethod
    def from_dict(cls, data: dict[str, Any], schema: Schema) -> Self:
        """Rebuild the space from the plain data that `to_dict` returns."""
        return cls(data)

    @property
    def shown(self) -> str:
        """A short description for people: metric, estimator, number of points and names of the parameters."""
        names = dict.fromkeys(name for grid in self.facts["space"] for name, _ in grid)
        estimator = _name(self.facts["estimator"])
        return f"{self.facts['metric']} of {estimator} at {int(self.facts['size']):,} points of {', '.join(names)}"

    @property
    def most_nats(self) -> float:
        """ln(1 / weight) of any point: ln of the number of points."""
        return math.log(int(self.facts["size"]))


def _name(estimator: Mapping[str, Any]) -> str:
    """Return the class name of an estimator, as in its public description."""
    return str(estimator["class"]).rpartition(".")[2]


@dataclass(frozen=True, eq=False)
class PointQuery(RowwiseQuery):
    """The query for the metric of the model fitted at one point of a search space, made by `GridFamily.at`."""

    family: GridFamily
    point: Mapping[str, Any]

    def bind(self, schema: Schema) -> BoundQuery:
        """Raise QueryRejected, because a point cannot be a part of another query."""
        raise QueryRejected(
            "A point of a declared space cannot be part of another query. Ask it alone with ask(space.at(...)), or "
            "several with ask_many([...])."
        )

    def bound_to(self, compiler: CompileContext, *, part: bool = False) -> BoundQuery:
        """Fit the model at the point and return the bound query for its metric, which is identified by the point.

        Raises:
            QueryRejected: If the space is not declared on this holdout, or was declared with other versions of
                packages.
        """
        facts = self.family.facts
        place = {name: described(value) for name, value in self.point.items()}
        described_as = {"kind": "point", "grid": digest(facts), "point": place}
        model = self.family.model(compiler, self.point)
        bound = self.family.bound(compiler, model)
        told = ", ".join(f"{name}={value!r}" for name, value in self.point.items())
        shown = f"{facts['metric']} of {_name(facts['estimator'])} at {told}"
        fit = self.family.fit_digest(compiler, model)
        made = replace(bound, description=described_as, shown=shown, facts={"fit": fit})
        level = compiler.families.level_if_released if compiler.silent else compiler.families.level_of
        if level(made) is None and not compiler.before.answered(made.query):
            raise QueryRejected(
                "This space is not declared on this holdout as it is now, with this estimator, these parameters, "
                "seeds, code and versions of packages. Declare it with holdout.declare(name, space)."
            )
        return made


def _versions(estimator: Any) -> dict[str, str]:
    """Return versions of the packages that an estimator's classes come from, and digests of all other classes.

    The digest of a class covers its bases, its attributes, and the helpers and globals that its code uses. Files and
    clocks that the code reads are not covered, nor are replaced parts of installed packages.

    Raises:
        QueryRejected: If the content of a class cannot be read. Nothing is charged.
    """
    found = {"python": platform.python_version()}
    for package in ("numpy", "scipy", "sklearn"):
        found[package] = version_of(package) if package in sys.modules else "absent"
    for kind in _classes(estimator):
        package = kind.__module__.partition(".")[0]
        if is_installed(kind.__module__):
            found[package] = version_of(package)
            continue
        if (content := content_digest(kind)) is None:
            raise QueryRejected(
                f"The code of {kind.__qualname__} cannot be recorded, so the class cannot be declared. Use a class "
                "of an installed package, or one whose code uses only functions and plain values."
            )
        found[f"{kind.__module__}.{kind.__qualname__}"] = content
    return dict(sorted(found.items()))


def _classes(value: Any) -> Iterator[type]:
    """Yield the class of an estimator and the classes of all estimators among its parameters."""
    if hasattr(value, "get_params") and not isinstance(value, type):
        yield type(value)
        for each in value.get_params(deep=False).values():
            yield from _classes(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _classes(each)


def grid(
    estimator: Any, space: Any, *, seed: int = 0, metric: str = "accuracy", features: Sequence[str] | None = None
) -> GridFamily:
    """Build the family of queries for the score of an estimator at every point of a search space.

    Declare it with `Holdout.create` or `Holdout.declare`. everhold fits each model when its point is asked about, on
    all training rows, with one thread. Fitting the same point twice has to give the same model.

    Args:
        estimator: An unfitted estimator of scikit-learn, such as a pipeline.
        space: Lists of values by parameter, as scikit-learn's ``param_distributions`` or ``param_grid``. Distributions
            over whole numbers with two ends are accepted. Of continuous ones, list the values.
        seed: Seed of every ``random_state`` that neither the estimator nor the space sets.
        metric: Score that is asked: ``"accuracy"``, ``"error"``, ``"brier"``, ``"precision"``, ``"recall"`` or
            ``"f1"``.
        features: Columns on which models are fitted; None for all columns but the label and those that identify rows.

    Raises:
        QueryRejected: If a parameter has no finite list of values, or lists a value twice. Nothing is charged.

    Examples:
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> trees = grid(DecisionTreeClassifier(), {"max_depth": range(1, 13), "min_samples_leaf": [1, 10, 100]})
        >>> trees.space.size
        36
    """
    require_sklearn("declaring a search space")
    if as_whole(seed) is None or not 0 <= seed < 2**32:
        raise QueryRejected(f"seed is {brief(seed)}. Pass a whole number from 0 to {2**32 - 1:,}.")
    known = [each.name for each in METRICS.own.values() if each.mean or each.rate]
    if metric not in known:
        raise QueryRejected(f"metric is {brief(metric)}. Pass one of {', '.join(map(repr, known))}.")
    listed = space_of(space)
    usable = not isinstance(estimator, type) and hasattr(estimator, "get_params") and hasattr(estimator, "fit")
    known = estimator.get_params(deep=True) if usable else {}
    if not known:
        raise QueryRejected(
            f"{brief(estimator)} is no estimator with parameters. Pass an unfitted estimator of scikit-learn."
        )
    if any(isinstance(value, np.random.RandomState | np.random.Generator) for value in known.values()):
        raise QueryRejected(
            "A random_state of the estimator is a generator, which changes with every fit. Pass a whole number."
        )
    from sklearn.base import clone

    made = GridFamily(clone(estimator), listed, int(seed), metric, None if features is None else tuple(features))
    described(made.estimator)  # refuses what has no description
    return made


# The points of a search space: lists of values by parameter, and their public description.
#
# Whatever goes into a fit has a description in plain JSON: numbers, texts, lists, arrays by their digest, and
# estimators by their class and parameters. Two values with one description are one value.


_MOST_VALUES = 100_000  # in all lists together


def _listed(values: Mapping[str, Any], value: Any, missing: Any) -> Any:
    """Return the listed value with the same description, else an equal one such as 1.0 for 1, else ``missing``."""
    if (known := values.get(canonical({"": described(value)}), missing)) is not missing or isinstance(value, bool):
        return known
    numbers = [each for each in values.values() if isinstance(each, int | float) and not isinstance(each, bool)]
    return next((each for each in numbers if isinstance(value, int | float) and each == value), missing)


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
        """For each grid and parameter, its values by the canonical JSON of their public descriptions."""
        return [
            {name: {canonical({"": described(value)}): value for value in values} for name, values in grid.items()}
            for grid in self.grids
        ]

    def point(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the point with each value replaced by the equal value that the space lists.

        Raises:
            QueryRejected: If the given values are not a point of the space. Nothing is charged.
        """
        for grid in self._known:
            if grid.keys() == given.keys():
                found = {name: _listed(grid[name], value, self) for name, value in given.items()}
                if self not in found.values():
                    return found
        raise QueryRejected(
            f"{brief(dict(given))} is no point of the declared space. Pass one of the listed values for each of "
            f"{' or of '.join(', '.join(grid) for grid in self._known)}."
        )

    def read(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """Return the point of the space whose values have the given public descriptions."""
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
        QueryRejected: If a parameter has no finite list of values, or lists a value twice. Nothing is charged.
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
    """Return the values of a distribution over finitely many whole numbers, as a range."""
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
        QueryRejected: If two fits with different values could have the same description. Nothing is charged.
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
