"""The base of all time-series models: the order of rows, the gap to the training rows, and their declaration."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypedDict

from everhold.arguments import as_float, as_whole
from everhold.dependence.base import ONE_STEP, DependenceModel, RowStructure, SeriesFacts, require_rows
from everhold.dependence.series.coupling import Coupling, uniform_rows
from everhold.errors import DependenceError, DependenceWarning, warn_caller

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


# Laws of series: what is known of how a row follows the one before.


class SeriesLaw(ABC):
    """The law of a series, or a set of laws that contains the true law."""

    @property
    def uncertain(self) -> bool:
        """Whether the law is known only to be in a set of laws."""
        return False

    @abstractmethod
    def coupling(self) -> Coupling:
        """Return the couplings of two series that differ in one row.

        Raises:
            DependenceError: If the model allows series that never forget their past.
        """

    @abstractmethod
    def distance(self, steps: int) -> float:
        """Return a bound on the total variation distance from independence of two rows at this number of steps."""

    @property
    @abstractmethod
    def norm(self) -> float:
        """A bound on the norm of the transition kernel on mean-zero functions, 1 if unknown."""

    def bayesian_price(self, epsilon: float, longest: int) -> float:
        """Return 1 / (the privacy loss that guarantees a Bayesian loss of ``epsilon``) for a series of `longest` rows.

        By default all other rows of the series count as nearby (P5).
        """
        return longest / epsilon


SEEN_ROWS = (
    "Rows between the training rows and the sealed ones count as left out only if nobody who asks has seen them: "
    "whoever knows the last visit before the sealed ones knows much about these. Which rows people have seen stands in "
    "no file and cannot be checked here: ask them. If somebody has seen some of these rows, or rows on the other side "
    "of the sealed ones, the intervals are too narrow."
)
"""Assumption of every series about rows that are left out."""


@dataclass(frozen=True, init=False)
class SeriesModel(DependenceModel):
    """Base of models in which rows follow each other in one or several independent series.

    Attributes:
        order_by: Name of the column that puts the rows of a series in order.
        state: Name of the column of the state; None if the state is not observed.
        groups: Name of the column whose equal values make a series; None for one series.
        gap: Number of rows left out between the training rows and the sealed rows of a series, which no analyst has
            seen. If an analyst has seen some of them, only the rows nearer to the sealed rows count. Infinite if
            training and sealed rows are independent of each other, None if that is not known.
        fit_miss: Probability that the model's parameters are wrong, because they were learned from training rows.
        step: Usual distance of neighbouring rows among those that the model was fitted to: the mean of the steps that
            were counted. It is in units of the order column, in seconds for times. None if it is not known.
        lengths: Pairs (length, number of sealed series of that length); None until rows are sealed.
    """

    entries: ClassVar[Mapping[str, str]] = {
        "order_by": "column that puts rows in order",
        "state": "column with the state",
        "groups": "column whose equal values make a series",
        "gap": "rows left out between training and sealed rows, unseen by all who ask",
        "miss": "chance that the fit is wrong",
        "step": "distance of the rows that it was learned from (seconds for times)",
        "lengths": "length of series, and how many",
    }
    value_words: ClassVar[Mapping[tuple[str, str], str]] = {
        ("gap", "independent"): "training rows are independent of all sealed rows"
    }

    order_by: str | None
    state: str | None
    groups: str | None
    gap: float | None
    fit_miss: float
    step: float | None
    lengths: tuple[tuple[int, int], ...] | None

    @property
    @abstractmethod
    def law(self) -> SeriesLaw:
        """The law of the transition from one row to the next."""

    @property
    def fitted(self) -> bool:
        """Whether parameters were estimated from training rows, so that statements are conditional on these rows."""
        return self.fit_miss > 0.0 or self.law.uncertain

    @property
    def miss(self) -> float:
        """The probability that every promise gives up: for a wrong fit, and for dependence on training rows of the fit.

        Raises:
            DependenceError: If the gap or the number of series is not known, and the probability depends on it.
        """
        return min(self.fit_miss + (training_link(self) if self.fitted else 0.0), 1.0)

    def training_distance(self) -> float:
        """Return the total variation distance of training and sealed rows from independence.

        With a gap of g rows left out, the last training row and the first sealed row are g + 1 steps apart.

        Raises:
            DependenceError: If the number of series is not known, and the distance depends on it.
        """
        return 0.0 if self.fitted else training_link(self)

    def concentration(self, rows: int) -> float:
        """Return the best proven effective number of rows (S5), rounded down and computed once.

        For any series it is ``n^2 / sum D_i^2`` (Kontorovich, Ramanan 2008), or one row for each series. For a
        stationary series with a known norm l of the kernel on mean-zero functions: ``n (1 - l)/(1 + l)`` (Fan, Jiang,
        Sun 2021).

        Raises:
            DependenceError: If the model allows series that never forget their first state.
        """
        require_rows(rows)
        if rows not in self._effective_rows:
            uniform, norm = uniform_rows(self.law.coupling(), self.lengths or ((rows, 1),), rows), self.law.norm
            proven = max(uniform, rows * (1.0 - norm) / (1.0 + norm) * (1.0 - 1e-12))
            self._effective_rows[rows] = min(proven, float(rows))
        return self._effective_rows[rows]

    @cached_property
    def _effective_rows(self) -> dict[int, float]:
        return {}

    def bayesian_price(self, epsilon: float, rows: int) -> float:
        """Return 1 / (the privacy loss that guarantees a Bayesian loss of ``epsilon``) for the longest series (P5)."""
        return self.law.bayesian_price(epsilon, max(length for length, _ in self.lengths or ((rows, 1),)))

    @property
    def one_series(self) -> bool:
        """Whether the rows are one series, with no column that separates series."""
        return self.groups is None

    def check_follows(self, structure: RowStructure, *, training: bool) -> None:
        """Check that arriving rows continue the series after all earlier rows, with the same steps.

        ``training`` is True if the earlier rows are training rows, which only have to come before the arriving rows.
        """
        if not self.one_series:
            return
        (check_training_before if training else check_follows)(self, structure)

    def with_rows(self, rows: int, units: Mapping[int, int]) -> Self:
        """Return the model of one series with another number of rows. Several series are returned unchanged."""
        return type(self).from_dict({**self.to_dict(), "lengths": [(rows, 1)]}) if self.one_series else self

    @property
    def sorting_columns(self) -> tuple[str, ...]:
        """The declared columns for the series and for the order inside it."""
        return tuple(name for name in (self.groups, self.order_by) if name is not None)

    def bind(self, structure: RowStructure) -> Self:
        """Look up the lengths of the series, and check the order, the gap to training rows and the steps.

        The order column shows how many rows are left out between training and sealed rows, but not who has seen them.

        Warns: DependenceWarning: If training and sealed rows may be of one series, and are declared independent by an
            infinite gap.
        """
        if self.order_by is None:
            raise DependenceError(
                "The model does not say in which order the rows are. Name a column of times or numbers as order_by."
            )
        refuse_unknown_gap(self)
        facts = structure.series(self.order_by, within=self.groups)
        check_rows(self, facts)
        self.check_state(structure)
        return type(self).from_dict({**self.to_dict(), "lengths": sorted(facts.lengths.items())})

    def check_state(self, structure: RowStructure) -> None:
        """Check that every row has a state that the model knows."""
        if self.state is not None:
            structure.unknown_values(self.state, frozenset())


# Settings of every series: its columns, the gap to the training rows, and how far a fit may be trusted.

_LARGEST_GAP = 10**12


class SeriesSettings(TypedDict, total=False):
    """The arguments that all series models share about columns and training rows, as `MarkovChain` explains."""

    order_by: str | None
    state: str | None
    groups: str | None
    gap: float | None
    miss: float
    step: float | None
    lengths: Iterable[Iterable[int]] | None


UNDECLARED = SeriesSettings(order_by=None, state=None, groups=None, gap=None, miss=0.0, step=None, lengths=None)
"""Settings of a series about which nothing is said."""


def checked_settings(given: SeriesSettings) -> dict[str, Any]:
    """Check settings and return the attributes of a `SeriesModel`, by name.

    Raises:
        DependenceError: If a setting is outside its range, or two settings contradict each other.
    """
    settings: dict[str, Any] = {**UNDECLARED, **given}
    settings["fit_miss"] = settings.pop("miss")
    gap, step, lengths = settings["gap"], settings["step"], settings["lengths"]
    if gap is not None and gap != math.inf:
        settings["gap"] = as_whole(gap)
        if settings["gap"] is None or not 0 <= settings["gap"] <= _LARGEST_GAP:
            raise DependenceError(f"gap is {gap!r}. Pass the whole number of rows that were left out, or math.inf.")
    if lengths is not None:
        pairs = tuple(sorted((operator.index(length), operator.index(number)) for length, number in lengths))
        if not pairs or min(min(pair) for pair in pairs) < 1:
            raise DependenceError(
                f"lengths is {list(pairs)!r:.100}. Pass pairs (length, number of such series), each at least 1."
            )
        settings["lengths"] = pairs
    if step is not None:
        settings["step"] = as_float(step)
        if not 0.0 < settings["step"] < math.inf:
            raise DependenceError(f"step is {step!r}. Pass the positive distance between neighbouring rows, or None.")
    if not 0.0 <= settings["fit_miss"] < 1.0:
        raise DependenceError(f"miss is {settings['fit_miss']}. Pass a probability below 1, such as 0.01.")
    for name in ("order_by", "state", "groups"):
        if settings[name] is not None and not (isinstance(settings[name], str) and settings[name]):
            raise DependenceError(f"{name} is {settings[name]!r}. Pass the name of a column.")
    return settings


def declare(model: SeriesModel, given: SeriesSettings) -> None:
    """Check the settings of a series model, and set them as attributes of the frozen instance."""
    if unknown := sorted(given.keys() - UNDECLARED.keys()):
        raise TypeError(f"{type(model).__name__}.__init__() got an unexpected keyword argument {unknown[0]!r}")
    for name, value in checked_settings(given).items():
        object.__setattr__(model, name, value)


def plain_settings(model: SeriesModel) -> dict[str, Any]:
    """Return the settings that all series share, as plain data."""
    gap = model.gap if model.gap is None else "independent" if math.isinf(model.gap) else int(model.gap)
    return {
        "order_by": model.order_by,
        "state": model.state,
        "groups": model.groups,
        "gap": gap,
        "miss": model.fit_miss,
        "step": model.step,
        "lengths": None if model.lengths is None else [list(pair) for pair in model.lengths],
    }


def read_settings(data: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the plain data of `plain_settings` to arguments of the constructor."""
    gap = data.get("gap")
    names = {name: data.get(name) for name in ("order_by", "state", "groups", "step", "lengths")}
    return {**names, "gap": math.inf if gap == "independent" else gap, "miss": float(data.get("miss", 0.0))}


def described(model: SeriesModel, what: str) -> str:
    """Return a sentence that describes a series model: rows, step, gap and fit."""
    ordered = "" if model.order_by is None else f" in the order of column {model.order_by!r}"
    parts = "the sealed rows are one series"
    if model.groups is not None:
        parts = f"the sealed rows are independent series (equal values of column {model.groups!r})"
    said = f"{parts}{ordered}, one row per step, {what}"
    if model.gap is None and model.fitted:
        said += ", and the gap to the sealed rows is not declared yet"
    elif model.gap is None:
        said += ", and no training row belongs to the same series, and nobody who asks has seen any other row of it"
    elif math.isinf(model.gap):
        said += (
            ", and the training rows are independent of the sealed rows, and nobody who asks has seen any other row "
            "of a sealed series"
        )
    else:
        unseen = f"any of these {model.gap:,} rows, any " if model.gap else "any row "
        said += (
            f", and {int(model.gap):,} rows are left out between the training rows and the sealed rows of a series, "
            f"and nobody who asks has seen {unseen}between the sealed rows or any on their other side"
        )
    if model.fit_miss:
        said += f", and its parameters were bounded from training rows with confidence {1.0 - model.fit_miss:.6g}"
    return said


# Checks of rows against a model of series: their order, the gap to training rows, and their steps.

_SHORTER = 0.02  # by how much the usual sealed step may fall short of the fitted one: clocks jitter, months differ


def check_rows(model: SeriesModel, facts: SeriesFacts) -> None:
    """Check that a model's order, gap and steps are those of the rows to seal.

    Warns:
        DependenceWarning: If training and sealed rows may be of one series and are declared independent with an
            infinite gap.
    """
    if facts.ties:
        raise DependenceError(
            f"Some sealed rows of one series have the same value in column {model.order_by!r}. Name the column that "
            "tells series apart as groups=..."
        )
    independent = model.gap is not None and math.isinf(model.gap)
    if facts.training == "among" and not independent:
        raise DependenceError(
            "Training rows lie among the sealed rows of a series. Seal a later block of every series, or whole series "
            "named by groups=..."
        )
    if facts.training != "none" and model.gap is None:
        raise DependenceError(
            f"The training rows come {facts.training} the sealed rows of the same series, and the gap is not known. "
            "Declare how many rows were left out between them with gap=... (0 if none), or gap=math.inf if the "
            "training rows are another, independent series."
        )
    if facts.training != "none" and independent and model.groups is not None:
        raise DependenceError(
            f"Training rows lie {facts.training} sealed rows with the same value in column {model.groups!r}, and "
            "gap=math.inf says that they are of another series. Declare how many rows were left out between them "
            "with gap=..., or keep whole series on one side."
        )
    if facts.apart is not None and model.gap is not None and not independent and facts.apart < model.gap + 0.5:
        # half a step for clocks that are not even
        raise DependenceError(
            f"gap is {int(model.gap):,}, and in column {model.order_by!r} a training row is {facts.apart:.3g} steps "
            f"from a sealed row of its series, where at least {int(model.gap) + 1:,} are needed. Declare the true "
            "gap, or leave more rows out."
        )
    if facts.training != "none" and independent:
        warn_caller(
            DependenceWarning(
                f"Training rows lie {facts.training} the sealed rows, and gap=math.inf says that they are another, "
                "independent series, such as that of another station. If they are of the same series, the promise is "
                "false. Then seal a later block and declare its gap, or tell the series apart with groups=..."
            )
        )
    if model.step or model.fit_miss:
        _check_steps(model, facts)


def check_follows(model: SeriesModel, structure: RowStructure) -> None:
    """Check that arriving rows, the sealed rows of ``structure``, follow its training rows.

    Raises:
        DependenceError: If the arriving rows do not come after all earlier rows, in the same steps.
    """
    facts = structure.series(str(model.order_by), within=None)
    if facts.training != "before" or facts.ties:
        raise DependenceError(
            f"in column {model.order_by!r} they do not come after all sealed rows, one row per step. Append the "
            "rows that follow"
        )
    _check_steps(model, facts)
    if facts.apart is not None and facts.apart < 1.0 - ONE_STEP:
        raise DependenceError(
            f"in column {model.order_by!r} the first one is {facts.apart:.3g} steps after the last sealed row. "
            "Append whole steps"
        )
    model.check_state(structure)


def check_training_before(model: SeriesModel, structure: RowStructure) -> None:
    """Check that training rows of the series come before the arriving rows, unless declared independent.

    Raises:
        DependenceError: If training rows of the series do not all come before the arriving rows.
    """
    independent = model.gap is not None and math.isinf(model.gap)
    if not independent and structure.series(str(model.order_by), within=None).training != "before":
        raise DependenceError(
            f"in column {model.order_by!r} training rows do not all come before them, and rows that go on would "
            "come near these. Seal the rows as another holdout"
        )


def _check_steps(model: SeriesModel, facts: SeriesFacts) -> None:
    """Check that the distance between sealed rows is not shorter than in the rows used for fitting."""
    fitted = model.step or facts.training_step
    if not facts.step or not fitted:
        return
    if facts.step < (1.0 - _SHORTER) * fitted:
        raise DependenceError(
            f"The rows that the model was fitted to are {fitted / facts.step:.3g} times as far apart as the sealed "
            f"rows in column {model.order_by!r}, so the model has too little dependence. Fit it to rows as dense as "
            "the sealed ones, or order both by a column that counts the steps."
        )
    if facts.least_step is not None and facts.least_step < (1.0 - ONE_STEP) * fitted:
        raise DependenceError(
            f"Some sealed rows are only {facts.least_step / fitted:.3g} steps apart in column {model.order_by!r}, and "
            "the model was fitted to whole steps. Leave rows out, or order them by a column that counts the steps."
        )


# The link of a series to its training rows: how much the last of these tells about the sealed rows after a gap.


def is_linked(model: SeriesModel) -> bool:
    """Return whether training rows lie a finite gap before or after the sealed rows of their series."""
    return model.gap is not None and math.isfinite(model.gap)


def training_link(model: SeriesModel) -> float:
    """Return a bound on the total variation distance of training and sealed rows from independence."""
    refuse_unknown_gap(model)
    if not is_linked(model):
        return 0.0
    refuse_unknown_number(model)
    series = sum(number for _, number in model.lengths or ((1, 1),))
    return min(series * model.law.distance(int(model.gap or 0) + 1), 1.0)


def refuse_unknown_number(model: SeriesModel) -> None:
    """Raise DependenceError if a column separates series and their number is unknown."""
    if model.groups is not None and model.lengths is None:
        raise DependenceError(
            f"The number of series in column {model.groups!r} is not known before rows are sealed. Pass the lengths "
            "of the sealed series, as in lengths=[(length, number of such series), ...]."
        )


def refuse_unknown_gap(model: SeriesModel) -> None:
    """Check that a fitted model declares its gap to the sealed rows."""
    if model.fit_miss and model.gap is None:
        raise DependenceError(
            "The model was fitted to rows whose distance from the sealed rows is not known. Declare with gap=... how "
            "many rows were left out between them (0 if none), or gap=math.inf if they are independent of each other."
        )
