"""Request to seal rows: the tables, what is declared of them, and settings of `Holdout.create` that come as objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from everhold.arguments import as_whole, brief, truth
from everhold.estimand import SEALED
from everhold.sealing.intake.checks import checked_classes
from everhold.sealing.intake.reading import MOST_ROWS, RowSource, check_most_rows, collected
from everhold.values.missing import Missing, checked_missing

if TYPE_CHECKING:
    from everhold.dependence import DependenceModel
    from everhold.mechanisms import Mechanism


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What the steward (who creates the holdout) declares about the rows, besides their label, for `Holdout.create`.

    Attributes:
        row_id: Public column with a different value in each row, by which predictions are matched. No row may be in
            both the sealed and the training rows. Those who submit predictions have to know the values, and no query
            may read them.
        classes: Classes of the label, by default those of the training labels, or ``"open"`` if labels are free text.
            Classes are public from now on: a prediction of any other class is refused, and nothing is charged. The
            default needs at least ten training rows for each class, on average. With fewer, pass the classes if labels
            are texts, or numbers other than 0 and 1. With ``"open"`` no prediction is refused for its class.
        features: ``"public"`` if everybody may see all columns but the label, as in a competition: answers are then
            about the same rows with labels drawn anew. Only queries that read the label are answered, and given the
            features, rows have to be independent or in `Groups`. With ``"sealed"`` nobody who asks sees any column of
            the sealed rows: answers to expressions and estimators are about the population of the rows, and answers to
            arrays of predictions about the same rows with labels drawn anew.
        stratified: Column by whose values the table was split, so that each value has the same share in both parts, as
            by ``everhold split --stratify`` and ``train_test_split(stratify=...)``. Training rows then reveal how often
            each value is sealed, so answers are for rows with the values in these shares. It needs independent rows.
        independent: Columns that neither group nor order the rows, although training rows may look so. Rows with equal
            or neighbouring values of them were drawn independently, as with people of one age. `everhold` then does not
            warn about them, and names them in the promise and the certificate as your assumption, with the effective
            number of training rows if it is wrong.
        categories: Columns of a CSV file that estimators receive as categorical. The categories are the different
            training values, in order. A sealed value outside these categories counts as missing.
        most_rows: Most rows that either table may have. A larger table is refused before it is read. Tables that stay
            in an engine may have any number.
        equal_rows: Whether sealed and training rows may be equal without being copies, because an experiment repeats
            its settings or labels were drawn anew for the same features. By default more equal rows than chance gives
            are refused.
        missing: How a query treats rows without a value in a column that it reads: ``"refuse"``, ``"drop"``,
            ``"bounds"`` or a value, for all columns or by column. ``"refuse"``: the query is refused, unless it says
            itself what counts for these rows. ``"drop"``: a mean, a share or a comparison of arms is about the rows
            that have a value. ``"bounds"``: the interval of a share or a mean, also in each arm of a comparison, covers
            the case that all missing values are the lowest of the range and the case that all are the highest. A value,
            such as 0: it counts in place of missing values, in columns that can hold it. By column write ``{"bp":
            "drop", "visits": 0}``.
    """

    row_id: str | None = None
    classes: Sequence[str | float] | Literal["open"] | None = None
    features: Literal["sealed", "public"] = SEALED
    stratified: str | None = None
    independent: Sequence[str] = ()
    categories: Sequence[str] = ()
    most_rows: int = MOST_ROWS
    equal_rows: bool = False
    missing: Missing = "refuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planning:
    """What is planned for a study, besides the number of queries, for `Holdout.create`.

    Attributes:
        slack: A guess costs no budget if its distance from the population's value is less than this part of the radius.
        allow_vacuous: Seal the rows even if the promise is useless, which is when the guaranteed radius, and the width
            expected for honest guesses, are half the range or more.
        grows: Whether rows that arrive later get a budget of their own. `Holdout.append` adds such rows. Half of the
            probability of failure is kept for them. Without ``grows`` rows can be appended as well: intervals then
            become narrower, and the budget does not change. ``grows`` needs guess_and_check without a slack. With
            ``declared=`` the rows that arrive have no budget of their own. Instead the intervals of declared queries
            hold together at all numbers of rows, if the rows that arrive have the same population values (Statement S14
            of docs/theory).
        largest_group: Most rows that one group may ever have, if rows in groups will be appended and families are
            declared. A batch with a larger group is refused. A larger number makes the intervals of declared queries
            wider.
    """

    slack: float = 0.0
    allow_vacuous: bool = False
    grows: bool = False
    largest_group: int | None = None

    def __post_init__(self) -> None:
        truth(self.allow_vacuous, "allow_vacuous")


@dataclass(frozen=True, slots=True, kw_only=True)
class DealtPart:
    """One part of a table whose rows are dealt among several holdouts.

    Attributes:
        name: Name of the part's holdout.
        share: The part's share of all rows or groups.
        confidence: Probability with which the intervals of the part's holdout hold together.
        extensions: Settings of the extensions of the part's holdout, by name.
        allow_vacuous: Whether to seal the part even if its holdout promises nothing.
    """

    name: str
    share: float
    confidence: float
    extensions: Mapping[str, ExtensionSettings] = field(default_factory=dict)
    allow_vacuous: bool = False


class ExtensionSettings(Protocol):
    """Protocol of an extension's settings, which `Holdout.create` takes under the extension's name."""

    def parts(self, name: str, confidence: float) -> Sequence[DealtPart]:
        """Return the parts into which the rows are dealt, this holdout's first. Empty if this holdout keeps all rows.

        Args:
            name: Name of the holdout.
            confidence: Confidence that was requested for the holdout.
        """

    @property
    def order(self) -> str | None:
        """Column by which rows are sorted before they are dealt, with the first rows in the last part.

        None for random dealing.
        """

    def plan(self, mechanism: Mechanism | str | None, queries: int) -> tuple[Mechanism | str | None, int]:
        """Return the mechanism and the number of queries to plan for, given those that were requested.

        Raises:
            HoldoutRejected: If the extension does not work with the mechanism. Nothing was created.
        """

    def adjust(self, mechanism: Mechanism) -> Mechanism:
        """Return the planned mechanism with the changes that the extension needs."""

    def recorded(self, mechanism: Mechanism) -> dict[str, Any]:
        """Return the settings as plain JSON data, which the ledger binds."""


_Settings = TypeVar("_Settings", Rows, Planning)


def checked_settings(kind: type[_Settings], given: _Settings | None) -> _Settings:
    """Return settings of a class that `Holdout.create` was given, its defaults for None.

    Raises:
        TypeError: If they are of another class.
    """
    if given is not None and not isinstance(given, kind):
        raise TypeError(f"{kind.__name__.lower()} is a {type(given).__name__}. Pass eh.{kind.__name__}(...).")
    return given or kind()


_OF = {each.name: ("rows", Rows) for each in fields(Rows)} | {
    each.name: ("planning", Planning) for each in fields(Planning)
}
CURRENT = frozenset({
    "storage", "name", "holdout", "training", "label", "rows", "mechanism", "queries", "surprises", "confidence",
    "planning", "dependence", "allow_resealing", "seed", "declared", "share", "exist_ok",
})  # fmt: skip
"""Keywords of `Holdout.create` that are the core's."""

FLAT = frozenset(_OF)
"""Settings of rows and of planning, by the flat names that an API and a command line give them."""


def place_of(name: str) -> str:
    """Return the keyword of `Holdout.create` that takes a setting, as a text such as ``planning=Planning(...)``."""
    place, kind = _OF[name]
    return f"{place}=eh.{kind.__name__}({name}=...)"


def divided(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords of `Holdout.create` from the flat settings of a request or a command line.

    Settings of extensions are not divided; see `everhold.asking.creation.settings_from`.

    Raises:
        TypeError: If a setting is there both flat and in its object.

    Examples:
        >>> divided({"label": "late", "row_id": "flight", "surprises": 5})
        {'label': 'late', 'surprises': 5, 'rows': Rows(row_id='flight', ...)}
    """
    made: dict[str, Any] = {name: value for name, value in flat.items() if name not in _OF}
    objects: dict[str, dict[str, Any]] = {}
    for name in flat.keys() & _OF.keys():
        objects.setdefault(_OF[name][0], {})[name] = flat[name]
    for kind in (Rows, Planning):
        place = kind.__name__.lower()
        if place in objects:
            if made.get(place) is not None:
                raise TypeError(
                    f"{', '.join(objects[place])} belongs to {place}=eh.{kind.__name__}(...). Put it there."
                )
            made[place] = kind(**objects[place])
    return made


def flat_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords of `Holdout.create` under the flat names of the API and the command line.

    Examples:
        >>> flat_settings({"rows": Rows(row_id="flight"), "surprises": 5})["row_id"]
        'flight'
    """
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if name in {"rows", "planning"} or (name not in CURRENT and is_dataclass(value)):
            flat |= {each.name: getattr(value, each.name) for each in fields(value)} if value is not None else {}
        else:
            flat[name] = value
    return flat


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SealRequest:
    """Tables to seal, with the facts that the steward declares about them.

    Attributes:
        holdout: The rows to seal, or a table of an engine that keeps the rows.
        training: Training rows with the same columns. If the sealed rows stay in an engine, this may be another table
            of that engine.
        label: Column with the true values, for metrics such as accuracy.
        rows: Additional declarations about the rows.
        dependence: Declared dependence of the rows; None if nothing is declared.
        seed: Seed of predictable noise, for simulations only. None for secret noise.
        extensions: Settings of extensions by name.
        dealt: Facts about the part and its holdout if the rows are one part of a table dealt among several holdouts,
            else None.
        content_key: Secret key for the first sketches of rows in a storage (`everhold.sealing.resealing`), the same for
            all parts of a table.

    Raises:
        ValueError: If a declaration cannot be right for any rows.
        TypeError: If the seed is no whole number.
    """

    holdout: RowSource = field(repr=False)
    training: RowSource | None = field(default=None, repr=False)
    label: str | None = None
    rows: Rows = field(default_factory=Rows)
    dependence: DependenceModel | None = None
    seed: int | None = None
    extensions: Mapping[str, ExtensionSettings] = field(default_factory=dict)
    dealt: Mapping[str, Any] | None = None
    content_key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        most_rows = check_most_rows(self.rows.most_rows)
        for side in ("holdout", "training"):
            object.__setattr__(self, side, collected(getattr(self, side), most_rows, what=side))
        # Check that columns are named by their names
        label = self.label
        for what, column in (
            ("label", label), ("row id", self.rows.row_id), ("stratified", self.rows.stratified),
        ):  # fmt: skip
            if column is not None and not isinstance(column, str):
                raise ValueError(f"The {what} column is {brief(column)}. Pass the name of a column, a text.")
        if label is not None and label == self.rows.row_id:
            raise ValueError(f"{brief(label)} is both the label and the row id. Pass two different columns.")
        truth(self.rows.equal_rows, "equal_rows")
        object.__setattr__(self, "seed", checked_seed(self.seed))
        classes, missing = checked_classes(self.rows.classes), checked_missing(self.rows.missing)
        rows = replace(
            self.rows, most_rows=most_rows, classes=classes, missing=missing,
            independent=_names("independent", self.rows.independent),
            categories=_names("categories", self.rows.categories),
        )  # fmt: skip
        object.__setattr__(self, "rows", rows)


def _names(setting: str, given: object) -> tuple[str, ...]:
    """Return the names of columns in a list, each once.

    Raises:
        ValueError: If it is no list of texts.
    """
    if not isinstance(given, (list, tuple)) or not all(isinstance(name, str) for name in given):
        raise ValueError(f"{setting} is {brief(given)}. Pass a list of names of columns, as in ['clinic'].")
    return tuple(dict.fromkeys(given))


def checked_seed(seed: int | None) -> int | None:
    """Return a seed as a Python int, or None if it is None.

    Raises:
        ValueError: If it is negative or a truth value.
        TypeError: If it is no whole number.
    """
    if seed is not None and (as_whole(seed) is None or seed < 0):
        wrong = ValueError if isinstance(seed, int) else TypeError
        raise wrong(f"seed is {brief(seed)}. Pass a whole number of at least 0, or None for secure noise.")
    return as_whole(seed)
