"""Identity of code as a query: a hash of what defines it, and of its values on public rows.

A name, a class or a pickle says where code is found, and not what it does: a module may have changed meanwhile, in this
process or in another. So the identity has two parts, and neither depends on sealed rows.

*Content* is a hash of everything an object is made of: its data, the instructions of its own functions and classes, and
the global names that these use, through however many modules of one's own. It does not depend on the process: sets are
put in order, and memory addresses do not count. Code of installed packages is identified by its name and the version of
the package. An object that holds a module of one's own as data has no content, so each query about it is a new query.
Whatever code reads while it runs is not part of its content: files, a network, the environment, names that are built
from texts. Such code needs another name when these change.

*Behaviour* is a hash of what the code gives for public rows. Real numbers are rounded first, because a sum in another
order of threads differs in the last digits.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import sys
import types
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.sealing.rows import code_trials
from everhold.values.evaluation import to_grid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.queries.query import CompileContext
    from everhold.values.base import BoundQuery, RowFunction, Table

_DIGITS = 20
"""Binary digits, counted from the largest number of an array, in which outputs of code are compared."""

_MARKS = frozenset(
    {"__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__firstlineno__", "_abc_impl"}
)
"""Entries of a class that say nothing of what it does, or nothing that lasts."""

_NAMED = (
    types.BuiltinFunctionType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
)
_NAMES = {
    "LOAD_GLOBAL": "global", "LOAD_NAME": "global", "IMPORT_NAME": "import",
    "IMPORT_FROM": "attribute", "LOAD_ATTR": "attribute", "LOAD_METHOD": "attribute",
}  # fmt: skip
_OF_NO_OBJECT = (type(None), types.ModuleType, type)  # what a built-in function belongs to, unless it is a method


def content_digest(thing: object) -> str | None:
    """Return the SHA-256 of an object's content, with code and attributes, or None if it cannot be determined.

    Args:
        thing: A function, a fitted estimator, or another object that can be pickled.

    Examples:
        >>> content_digest({"a", "b"}) == content_digest({"b", "a"})
        True
        >>> content_digest(lambda x: x > 1) == content_digest(lambda x: x > 2)
        False
    """
    try:
        return _Content().digest(thing).hex()
    except (Exception, RecursionError):  # the objects are the analyst's and may raise anything here
        return None


def behaviour_digest(outputs: Iterable[object]) -> str:
    """Return the SHA-256 of outputs of code for public rows, in hex, from the leading digits of real numbers.

    Args:
        outputs: Arrays of numbers or text of any shape; anything else counts by its type.
    """
    digest = hashlib.sha256()
    for output in outputs:
        array = np.asarray(output)
        digest.update(f"{array.shape}".encode())
        if array.dtype.kind in "bf":  # also 0 and 1, which some code gives as booleans and some as numbers
            numbers = array.astype(np.float64)
            finite = np.isfinite(numbers)
            largest = float(np.max(np.abs(numbers), where=finite, initial=0.0))
            exponent = int(np.frexp(largest * 1.1)[1])  # 1.1: a largest number of 0.5, 1, ... is at no edge of scales
            with np.errstate(all="ignore"):
                steps = np.round(np.ldexp(numbers, _DIGITS - exponent))
            steps = np.where(finite, steps + 0.0, np.nan)  # + 0.0 makes -0.0 the same as 0.0
            other = np.where(finite, 0, np.where(np.isnan(numbers), 1, np.where(numbers > 0, 2, 3)))
            digest.update(str(exponent).encode() + steps.tobytes() + other.astype(np.uint8).tobytes())
        elif array.dtype.kind in "iu":
            digest.update(array.astype("<i8").tobytes())
        elif array.dtype.kind == "U":
            digest.update(repr(array.tolist()).encode())
        else:
            digest.update(f"{array.dtype}".encode())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class _Content:
    """A hasher that walks through an object and hashes every part once.

    Attributes:
        known: Each part with its hash, by its address. The part is kept so that its address is not used again.
        depths: Depths of the parts that contain what is being hashed, by address.
    """

    known: dict[int, tuple[object, bytes]] = field(default_factory=dict)
    depths: dict[int, int] = field(default_factory=dict)

    def digest(self, thing: object) -> bytes:
        """Return the SHA-256 of a part.

        A part that contains itself is hashed as the number of levels back to it.
        """
        if (known := self.known.get(id(thing))) is not None:
            return known[1]
        if id(thing) in self.depths:
            return _joined("again", str(len(self.depths) - self.depths[id(thing)]).encode())
        self.depths[id(thing)] = len(self.depths)
        made = self._of(thing)
        del self.depths[id(thing)]
        self.known[id(thing)] = thing, made
        return made

    def _of(self, thing: Any) -> bytes:
        """Return the SHA-256 of one object, computed by a rule for its type."""
        kind, parts = type(thing), list[Any]()
        if thing is None or thing is Ellipsis or kind in (bool, int, float, complex, str, bytes, bytearray):
            text = thing.encode("utf-8", "surrogatepass") if kind is str else repr(thing).encode()
            return _joined(kind.__name__, text)
        if kind in (list, tuple):
            return _joined(kind.__name__, *map(self.digest, thing))
        if kind is dict:
            return _joined("dict", *map(self.digest, (part for item in thing.items() for part in item)))
        if kind in (set, frozenset):
            return _joined(kind.__name__, *sorted(map(self.digest, thing)))
        if kind is np.ma.MaskedArray:
            return _joined("masked", *map(self.digest, [thing.filled(), np.ma.getmaskarray(thing)]))
        if kind is np.ufunc and getattr(np, name := str(thing.__name__), None) is thing:
            return _joined("named", *_reference("numpy"), name.encode())
        if kind in (np.ndarray, np.memmap):
            array = np.asarray(thing)
            described = f"{array.dtype.str}{array.shape}".encode()
            if array.dtype.kind == "O":
                return _joined("objects", described, *map(self.digest, array.ravel().tolist()))
            if array.dtype.names is not None:  # one field at a time: the bytes between fields may hold anything
                fields = (part for name in array.dtype.names for part in (name, np.asarray(array[name])))
                return _joined("fields", str(array.shape).encode(), _joined("", *map(self.digest, list(fields))))
            if array.dtype.kind == "T":
                return _joined("texts", *map(self.digest, array.ravel().tolist()))
            return _joined("array", described, np.ascontiguousarray(array).tobytes())
        if isinstance(thing, types.CodeType):
            # Instructions, without names of files and functions and without line numbers
            counts = (thing.co_argcount, thing.co_posonlyargcount, thing.co_kwonlyargcount, thing.co_flags)
            names = (thing.co_names, thing.co_varnames, thing.co_freevars, thing.co_cellvars)
            parts = [thing.co_code, thing.co_consts, counts, names, thing.co_exceptiontable]
            return _joined("code", *map(self.digest, parts))
        if isinstance(thing, types.ModuleType):
            if not is_installed(thing.__name__):
                raise TypeError(
                    f"The function uses the module {thing.__name__}, which is not installed as a package. Import the "
                    "function or value from it instead."
                )
            return _joined("module", *_reference(thing.__name__))
        if isinstance(thing, type):
            called_as = thing.__qualname__.encode()
            if is_installed(thing.__module__) and _is_found(thing):
                return _joined("class", *_reference(thing.__module__), called_as)
            code = (types.FunctionType, staticmethod, classmethod, property, functools.cached_property)
            entries = [
                part for own, entry in sorted(vars(thing).items())
                if own not in _MARKS and (isinstance(entry, code) or not own.startswith("__")) for part in (own, entry)
            ]  # fmt: skip
            both = (_joined("", *map(self.digest, some)) for some in (thing.__bases__, entries))
            return _joined("class", called_as, *both)
        if isinstance(thing, types.FunctionType):
            if is_installed(thing.__module__) and _is_found(thing):
                return _joined("function", *_reference(thing.__module__), thing.__qualname__.encode())
            used = list(_used_names(thing.__code__, thing.__globals__))
            parts = [thing.__code__, thing.__defaults__, thing.__kwdefaults__, thing.__closure__, used]
            return _joined("function", *map(self.digest, parts))
        if isinstance(thing, types.CellType):
            return _joined("cell", self.digest(thing.cell_contents))
        if isinstance(thing, (staticmethod, classmethod)):
            return _joined(kind.__name__, self.digest(thing.__func__))
        if isinstance(thing, property):
            return _joined("property", *map(self.digest, [thing.fget, thing.fset, thing.fdel]))
        if isinstance(thing, functools.cached_property):
            return _joined("cached", self.digest(thing.func))
        if isinstance(thing, _NAMED) and isinstance(getattr(thing, "__self__", None), _OF_NO_OBJECT):
            return _joined("named", *_reference(getattr(thing, "__module__", None)), thing.__qualname__.encode())
        # An object as pickle would take it apart
        taken = thing.__reduce_ex__(4)
        if isinstance(taken, str):
            owner = getattr(thing, "__module__", None) or type(thing).__module__
            inside = None if is_installed(owner) else getattr(thing, "__wrapped__", None)
            return _joined("found", *_reference(owner), taken.encode(), self.digest(inside))
        made, arguments, *rest = taken
        state, items, pairs = (*rest, None, None, None)[:3]
        parts = [made, arguments, state, list(items or ()), list(pairs or ())]
        return _joined("made", *map(self.digest, parts))


def _joined(kind: str, *parts: bytes) -> bytes:
    """Return the SHA-256 of a type's name and of parts, each preceded by its own length."""
    digest = hashlib.sha256(kind.encode())
    for part in parts:
        digest.update(f":{len(part)}:".encode())
        digest.update(part)
    return digest.digest()


def _used_names(code: types.CodeType, known: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield the global names that a function's code uses, each with its object.

    A module that is not installed is replaced by those of its attributes whose names occur in the code. A text in the
    code counts as such a name, because ``getattr`` can take it.
    """
    names: dict[str, set[str]] = {"global": set(), "import": set(), "attribute": set()}
    for part in _nested(code):
        names["attribute"].update(text for text in part.co_consts if isinstance(text, str))
        for step in dis.get_instructions(part):
            if step.opname in _NAMES:
                names[_NAMES[step.opname]].add(step.argval)
    found: dict[str, object] = {name: known[name] for name in names["global"] if name in known}
    found |= {name: sys.modules.get(name) for name in names["import"]}
    for name, thing in sorted(found.items(), key=lambda item: item[0]):
        yield from _used_of(name, thing, sorted(names["attribute"]), ())


def _used_of(
    name: str, thing: object, attributes: list[str], inside: tuple[object, ...]
) -> Iterator[tuple[str, object]]:
    """Yield a name with its object. For a module that is not installed, yield the attributes that code uses."""
    if not isinstance(thing, types.ModuleType):
        yield name, thing
    elif is_installed(thing.__name__):
        yield name, thing.__name__
    elif thing not in inside:
        for other in attributes:
            if hasattr(thing, other):
                yield from _used_of(f"{name}.{other}", getattr(thing, other), attributes, (*inside, thing))


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield the code objects of a function and of all functions defined inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested(constant)


def _is_found(thing: types.FunctionType | type) -> bool:
    """Return whether a module has this function or class, and no other object, under its qualified name."""
    found: Any = sys.modules.get(thing.__module__)
    for name in thing.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is thing


@functools.cache
def is_installed(module: str | None) -> bool:
    """Return whether a module belongs to Python, to everhold or to an installed package."""
    if module is None or module == "__main__":
        return False
    package = module.partition(".")[0]
    if package in sys.stdlib_module_names or package == "everhold":
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return False
    return code_trials.is_of_a_package(Path(file).resolve())


def version_of(module: str | None) -> str:
    """Return the version of the package to which a module belongs, or an empty text if the version is not known."""
    package = sys.modules.get((module or "").partition(".")[0])
    return str(getattr(package, "__version__", ""))


def _reference(module: str | None) -> tuple[bytes, bytes]:
    """Return the name of a module and the version of its package, by which installed code is identified."""
    return (module or "").encode(), version_of(module).encode()


# Code on public rows, before it meets sealed ones: it has to run, and each value to depend on its own row alone.

_MOST_TRIED = 2_000  # training rows that a function is tried on in several orders
_MOST_COMPARED = 10_000  # training rows for which an estimator's predictions are part of its identity


def tried(bound: BoundQuery, function: RowFunction, compiler: CompileContext) -> BoundQuery:
    """Run a code query on public rows, and return it with a digest of its outputs in its identity.

    Raises:
        QueryRejected: If the code fails on public rows, or a row's value depends on other rows. Nothing is charged.
    """
    schema, training, unit = compiler.schema, compiler.training, compiler.mechanism.unit
    names = tuple(schema.asked) if bound.reads is None else bound.reads
    out_of_fold = bound.training is not function  # by other models: not all of its own predictions are needed
    outputs, table = observed(function, names, compiler, most=_MOST_COMPARED if out_of_fold else None)
    on_grid = None
    if training is not None and out_of_fold and bound.training is not None:
        on_grid = to_grid(bound.training(training.table(names)), unit=unit)
    elif table is not None:
        values = function.judge(outputs[0], table) if isinstance(function, code_trials.EstimatedValues) else outputs[0]
        losses = (bound.at_zero, bound.at_one) if bound.description.get("kind") == "risk" else None
        on_grid = to_grid(values, unit=unit, losses=losses)
    if isinstance(function, code_trials.EstimatedValues):
        outputs = [output[:_MOST_COMPARED] for output in outputs]
        yes_no = bound.yes_no
    else:
        yes_no = bound.yes_no or all(output.dtype == np.bool_ for output in outputs)
    described = {**bound.description, "on_public_rows": behaviour_digest(outputs)}
    return replace(bound, description=described, training_values=on_grid, yes_no=yes_no)


def observed(
    function: RowFunction, names: Sequence[str], compiler: CompileContext, *, most: int | None = None
) -> tuple[list[NDArray[Any]], Table | None]:
    """Run code on public rows, and return its values and the training rows, or None if the rows were made up.

    Args:
        function: The function in the form in which it will be applied to the sealed rows.
        names: Columns that it reads.
        compiler: The compiler of the holdout, which knows the public rows.
        most: Largest number of training rows for which an estimator predicts; None for all.

    Returns:
        An estimator's predictions for the training rows, or a function's row values. Without training rows, those for
        made-up rows, with an empty array if an estimator fails on them.

    Raises:
        QueryRejected: If the code fails on public rows, or a row's value depends on other rows. Nothing is charged.
    """
    schema, training = compiler.schema, compiler.training
    if training is None:
        kinds = {name: schema.columns[name] for name in names}
        few, many = code_trials.made_up_rows(kinds), code_trials.varied_rows(kinds)
        if not isinstance(function, code_trials.EstimatedValues):
            return [code_trials.try_on_public_rows(function, few), code_trials.made_up_values(function, many)], None
        outputs = [code_trials.try_estimator(function, table) for table in (few, many)]
        if outputs[1] is not None:
            code_trials.check_rows_alone(function.predict, many, outputs[1])
        return [np.zeros(0) if output is None else output for output in outputs], None
    public = training.table(names)
    few = {name: column[:_MOST_TRIED] for name, column in public.items()}
    if isinstance(function, code_trials.EstimatedValues):
        public = {name: column[:most] for name, column in public.items()}
        predictions = np.asarray(
            code_trials.called(functools.partial(function.predict, public=True), public, "one prediction")
        )
        code_trials.check_rows_alone(function.predict, few, predictions[:_MOST_TRIED])
        return [predictions], public
    values = code_trials.public_values(function, public, schema.training_rows)
    to_grid(values)
    code_trials.check_rows_alone(lambda rows: np.asarray(function(dict(rows))), few, values[:_MOST_TRIED])
    return [values], public
