"""The last thing an error passes on its way out: whoever prints local variables must find no secret in them.

Debugging tools show the local variables of all frames of a traceback. Inside the house these are sums over sealed rows,
the mechanism's state and keys. So an error leaves without the frames that it came through, and without errors that it
replaced, which have frames of their own.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from everhold.errors import EverholdError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["errors_leave_frames_behind"]

Class = TypeVar("Class", bound=type)
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_DOORS = ("__init__", "__enter__", "__exit__")


def errors_leave_frames_behind(house: Class) -> Class:
    """Class decorator: errors of public methods and properties, and of making an object, leave without frames.

    Examples:
        >>> import traceback
        >>> @errors_leave_frames_behind
        ... class House:
        ...     def ask(self):
        ...         secret = 42
        ...         raise ValueError("no")
        >>> try:
        ...     House().ask()
        ... except ValueError as error:
        ...     print([frame.name for frame in traceback.extract_tb(error.__traceback__)])
        ['<module>', 'at_the_door']
    """
    for name, member in list(vars(house).items()):
        if name.startswith("_") and name not in _DOORS:
            continue
        if isinstance(member, classmethod):
            setattr(house, name, classmethod(_guarded(member.__func__)))
        elif isinstance(member, property):
            assert member.fget is not None
            setattr(house, name, property(_guarded(member.fget), doc=member.__doc__))
        elif callable(member):
            setattr(house, name, _guarded(member))
    return house


def _guarded(method: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    @wraps(method)
    def at_the_door(*arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        try:
            return method(*arguments, **named)
        except BaseException as error:
            fault = _without_frames(error)
        del arguments, named  # rows that are to be sealed may be among them
        try:
            raise fault
        finally:
            del fault  # which would hold itself

    return at_the_door


def _without_frames(error: BaseException) -> BaseException:
    """The same error without frames; it keeps a cause that everhold named, which is the fault of a public row's."""
    error.__context__ = None
    if not isinstance(error, EverholdError):
        error.__cause__ = None
    return error.with_traceback(None)
