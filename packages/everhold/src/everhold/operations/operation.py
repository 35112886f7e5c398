"""What an operation is, what performs it, and how a carrier (a command, a route, a tool) reads its fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Protocol,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from everhold.asking.session import HoldoutSession
    from everhold.families.base import Family
    from everhold.queries.query import Query
    from everhold.sealing.intake.reading import RowSource
    from everhold.values.base import Schema

    AnyQuery: TypeAlias = Query[Any] | str
    Families = Mapping[str, Family]
    AnyModel = Any
    AnyMetric = Any
    AnyResults = Any
    Table: TypeAlias = pa.Table
else:  # a carrier asks only which of these a field or a result is, so what stands behind them is not imported for it

    class AnyQuery:
        """A query of any kind, or a text that stands for a mean."""

    class Families:
        """Families of queries by name."""

    class AnyModel:
        """A model: an estimator, a rule over the features, or predictions."""

    class AnyMetric:
        """What a gate compares: a name, or a function from a model to a query."""

    class AnyResults:
        """Results of a version on cases."""

    class RowSource:
        """Rows: a file, a data frame, an Arrow table or a mapping of arrays."""

    class Table:
        """An Arrow table."""


__all__ = [
    "PRINTABLE",
    "AnyMetric",
    "AnyModel",
    "AnyQuery",
    "AnyResults",
    "Families",
    "HoldoutOperation",
    "Param",
    "Parameter",
    "Role",
    "RowSource",
    "Table",
    "Transport",
    "parameters",
    "result_type",
]  # fmt: skip

Result = TypeVar("Result")

PRINTABLE = r"^[^\s\x00-\x20\x7f-\xa0]+( [^\s\x00-\x20\x7f-\xa0]+)*$"
"""Names of people and versions, nearly: printable words with single blanks between them."""


class Role(StrEnum):
    """Roles; each may do all that those below may.

    A steward seals rows, sees everything and signs; an analyst asks, and sees their own answers; a viewer sees what is
    public of a holdout.
    """

    STEWARD = "steward"
    ANALYST = "analyst"
    VIEWER = "viewer"


class HoldoutOperation(Generic[Result]):
    """Something that can be done with a holdout. Subclasses are frozen dataclasses.

    These facts are keywords of the class.

    A field is annotated with its help: ``until: Annotated[str | None, Param("When the rows had come.")] = None``.

    Attributes:
        verb: Name of the method and of the tool, and with hyphens of the command.
        role: Role that is needed to perform the operation.
        act: Words for the act in the audit log and in a refusal, such as ``"append rows"``. Empty if the operation
            changes nothing.
        route: HTTP method and path below the holdout's path, such as ``"PUT /allotments/{analyst}"``. Empty if the
            operation needs the sealed rows on the same machine.
        topic: Topic under which the API's page lists the route.
        status: HTTP status of the response if the operation succeeds.
        part: Name of the response's field with the result, if the result is not a dataclass.
        actor: Field with the name of the analyst for whom it is done. In a service this is the caller's own name, which
            needs no allotment.
        agents: Whether agents have a tool for it.
        command: An example of the command, after ``everhold``; empty if no command is derived.
        picture: Caption of the picture that the result can plot. Empty if there is no picture.
    """

    verb: ClassVar[str]
    role: ClassVar[Role]
    act: ClassVar[str] = ""
    route: ClassVar[str] = ""
    topic: ClassVar[str] = "asking"
    status: ClassVar[int] = 200
    part: ClassVar[str] = ""
    actor: ClassVar[str] = ""
    agents: ClassVar[bool] = False
    command: ClassVar[str] = ""
    picture: ClassVar[str] = ""

    def __init_subclass__(cls, **facts: Any) -> None:
        super().__init_subclass__()
        for name, value in facts.items():
            if name not in HoldoutOperation.__annotations__:
                raise TypeError(
                    f"{cls.__name__} has the unknown setting {name}. Use only "
                    f"{', '.join(HoldoutOperation.__annotations__)}."
                )
            setattr(cls, name, value)

    def perform(self, session: HoldoutSession) -> Result:
        """Perform the operation on this machine."""
        raise NotImplementedError

    def lasts(self, session: HoldoutSession) -> bool:
        """Return whether the operation may take minutes. A service performs it as a background job then.

        A job may run twice, so the operation has to give the same result again.
        """
        return False

    def forewarn(self, session: HoldoutSession) -> None:
        """Warn of consequences of the operation before a background job performs it."""

    def travelling(self) -> Mapping[str, Any]:
        """Its arguments as they are sent to a service, by name; queries and rows are written by the client."""
        return {
            each.name: value for each in parameters(type(self))
            if each.about.travels and ((value := getattr(self, each.name)) is not each.default or each.required)
        }  # fmt: skip

    def received(self, found: Any) -> Result:
        """Return the result object from a service's response."""
        return found  # type: ignore[no-any-return]

    def facts(self, result: Result) -> Mapping[str, Any]:
        """Public facts of the act for the audit log: counts and hashes, no data; by default the fields for it."""
        return {
            each.about.logged: getattr(self, each.name) for each in parameters(type(self)) if each.about.logged
        }  # fmt: skip

    def remark(self, result: Result) -> str:
        """Return a sentence about the result that the user should notice, or an empty text."""
        return ""


@dataclass(frozen=True, slots=True)
class Param:
    """Facts about a field of an operation besides its type, such as its help text.

    Attributes:
        help: Meaning of the field, in words for users.
        least: Smallest allowed number.
        most: Largest allowed number.
        longest: Largest number of characters of a text, or of items of a list.
        pattern: Regular expression that a text fits.
        example: An allowed value, for documentation.
        travels: Whether a service receives the field.
        logged: Name under which the audit log has the value; empty if it has not.
    """

    help: str
    least: int | None = None
    most: int | None = None
    longest: int | None = None
    pattern: str | None = None
    example: Any = None
    travels: bool = True
    logged: str = ""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A field of an operation, as a carrier reads it.

    Attributes:
        name: Name of the field.
        type: Type of the field, without its annotations.
        about: Help and limits of the field.
        required: Whether the field has no default.
        default: Default value of the field.
    """

    name: str
    type: Any
    about: Param
    required: bool
    default: Any

    def holds(self, *kinds: type) -> bool:
        """Return whether the parameter's type is one of the given types, or optional or a list of one of them."""
        return any(kind in (self.type, *get_args(self.type)) for kind in kinds)

    @property
    def several(self) -> bool:
        """True if the parameter is a list."""
        return any(get_origin(each) is Sequence for each in (self.type, *get_args(self.type)))


class Transport(Protocol):
    """What performs operations on a holdout: a session of this machine, or a client of a service."""

    @property
    def session(self) -> HoldoutSession | None:
        """Session of the open holdout, or None if a service has the rows."""

    @property
    def name(self) -> str:
        """The holdout's name."""

    @property
    def schema(self) -> Schema:
        """Public facts about the rows."""

    def perform(self, operation: HoldoutOperation[Result]) -> Result:
        """Perform an operation."""

    def gate(self, name: str, metric: Any = None, **terms: Any) -> Any:
        """Open a gate, see `everhold.Holdout.gate`."""

    def accessor(self, name: str) -> Any:
        """What an extension adds to a holdout under its name; None if nothing does."""

    def close(self) -> None:
        """Close the connections that are open."""


_PARAMETERS: dict[type[Any], Sequence[Parameter]] = {}


def parameters(operation: type[HoldoutOperation[Any]]) -> Sequence[Parameter]:
    """The fields of an operation, in order."""
    if operation not in _PARAMETERS:
        hints = get_type_hints(operation, include_extras=True)
        _PARAMETERS[operation] = [
            Parameter(
                field.name, kind, about if isinstance(about, Param) else Param(about), field.default is MISSING,
                None if field.default is MISSING else field.default,
            )
            for field in fields(operation)  # type: ignore[arg-type]
            for kind, about in [get_args(hints[field.name])[:2]]
        ]  # fmt: skip
    return _PARAMETERS[operation]


def result_type(operation: type[HoldoutOperation[Any]]) -> Any:
    """The type of an operation's result. For a class that is not imported here, its name."""
    (base,) = (each for each in operation.__orig_bases__ if get_origin(each) is HoldoutOperation)  # type: ignore[attr-defined]
    (found,) = get_args(base)
    return getattr(found, "__forward_arg__", found)
