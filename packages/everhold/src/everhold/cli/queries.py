"""Spelling of a query on the command line: one option for each kind, and the details that belong to it.

All of it follows from the registry in `everhold.queries`, so a new kind of query is an option at once.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from everhold.cli.failures import Misuse
from everhold.errors import QueryRejected
from everhold.queries import DETAILS, KINDS, Form, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from everhold.queries.query import Query
    from everhold.values.base import Schema

_SUBJECT, _DETAILS = "The query, exactly one of", "More about the query"
_TYPES = {Form.FLAG: bool, Form.NUMBER: float, Form.WHOLE: int, Form.PREDICTIONS: Path, Form.CELLS: Path}
_ROWWISE = tuple(kind for kind in KINDS if kind.rowwise)
_TRAINING = "training_predictions"
_SPELLED = {"called": "name"}  # options that the command's own parameter of that name keeps from having it
_OF_FILES = tuple(kind.name for kind in KINDS if kind.form is Form.PREDICTIONS)


@dataclass(frozen=True, slots=True)
class Spelled:
    """A query as it was typed.

    Attributes:
        given: The options that were given, by name.
        kind: The kind of query; None where there is none.
        candidates: Where the query is about several ones: those, each a kind and its subject.
    """

    given: Mapping[str, Any]
    kind: Kind | None
    candidates: tuple[tuple[Kind, Any], ...]

    @classmethod
    def read(cls, options: Mapping[str, Any], *, required: bool) -> Spelled:
        """Check that there is one query, and that all details belong to it.

        Raises:
            Misuse: If not.
        """
        given = {name: value for name, value in options.items() if not (value is None or value == [])}
        given = {name: value for name, value in given.items() if name in DETAILS or value is not False}
        wrapping = [kind for kind in KINDS if kind.several and kind.name in given]
        chosen = wrapping or [kind for kind in KINDS if kind.name in given]
        rows = [(kind, subject) for kind in _ROWWISE for subject in given.get(kind.name, ())]
        if wrapping:
            _check_candidates(wrapping, rows, given)
            used = {detail for kind, _ in rows for detail in kind.details} | set(wrapping[0].details)
        else:
            texts = [f"--{_dashed(kind.name)}" for kind in chosen]
            texts += [f"--{kind.name}" for kind in _ROWWISE for _ in given.get(kind.name, ())[1:]]
            if len(texts) > 1 or (required and not chosen):
                listed = ", ".join(f"--{_dashed(kind.name)}" for kind in KINDS)
                raise Misuse(
                    f"expected one query, found {' and '.join(texts) or 'none'}; give exactly one, "
                    f"such as --mean 'arr_delay > 15', of {listed}"
                )
            used = set(chosen[0].details) if chosen else set()
        files = any(kind.name in _OF_FILES for kind in (*chosen, *(kind for kind, _ in rows)))
        for name in given:
            if name in DETAILS and name not in used:
                raise Misuse(f"--{_dashed(name)} belongs to {_owners(name)}; leave it out or ask that query")
            if (name == "column" and not files) or (name == "queries" and not wrapping):
                owners = _listed(_OF_FILES if name == "column" else [kind.name for kind in KINDS if kind.several])
                raise Misuse(f"--{name} belongs to {owners}; leave it out or ask that query")
        if chosen and "with_" in chosen[0].details and "with_" not in given:
            raise Misuse(f"--{chosen[0].name} needs the other condition or number; give it as --with EXPR")
        return cls(given, chosen[0] if chosen else None, tuple(rows) if wrapping else ())

    def query(self, schema: Schema, tolerance: float | None) -> tuple[Query[Any] | None, float | None]:
        """The query for rows of this schema, if there is one, and the tolerance that is left to ask with.

        Reads files.
        """
        if self.kind is None:
            return None, tolerance
        if self.kind.tolerant and tolerance is not None:
            return self._query(self.kind, {"tolerance": tolerance}, schema), None
        return self._query(self.kind, {}, schema), tolerance

    def columns(self, schema: Schema) -> dict[str, Query[Any]]:
        """One query for each column of a file of predictions, by the column's name.

        Raises:
            Misuse: If the query is about no file, or about several.
        """
        kind = self.kind
        if kind is None or kind.name not in _OF_FILES or len(self.given[kind.name]) > 1 or "column" in self.given:
            raise Misuse(f"--all-columns takes one file, without --column; give it as {_listed(_OF_FILES)}")
        from everhold.queries.predictions.columns import predictions_in

        trained = _TRAINING in self.given
        details = self._details(kind, schema, but=_TRAINING)
        sealed = predictions_in(self.given[kind.name][0], row_id=schema.row_id)
        training = predictions_in(self.given[_TRAINING], row_id=schema.row_id) if trained else {}
        if trained and (lacking := [name for name in sealed if name not in training]):
            raise QueryRejected(
                f"the predictions for the training rows have no column {lacking[0]!r}; expected the same columns in "
                "both files"
            )
        return {
            name: self._made(kind, column, {**details, **({"training": training[name]} if trained else {})})
            for name, column in sealed.items()
        }

    def _query(self, kind: Kind, more: Mapping[str, Any], schema: Schema) -> Query[Any]:
        details = {**self._details(kind, schema), **more}
        if kind.form is Form.CODE:  # the same function of the same file is the same query another time
            details.setdefault("name", self.given[kind.name])
        if not kind.several:
            subject = self.given[kind.name][0] if kind.rowwise else self.given[kind.name]
            return self._made(kind, self._value(kind.form, subject, schema), details)
        each: list[Any] = [
            self._made(one, self._value(one.form, subject, schema), self._details(one, schema))
            for one, subject in self.candidates
        ]
        each += _lines(self.given["queries"]) if "queries" in self.given else []
        if kind.form is Form.FLAG:
            return self._paired(kind, each)
        return self._made(kind, each, {**details, kind.several: self.given[kind.name]})

    def _paired(self, kind: Kind, each: list[Any]) -> Query[Any]:
        if len(each) != 2:
            raise Misuse(f"--{_dashed(kind.name)} takes two queries, found {len(each)}; give one of them twice")
        made: Query[Any] = kind.make(*each)
        return made

    def _made(self, kind: Kind, subject: Any, details: Mapping[str, Any]) -> Query[Any]:
        try:
            made: Query[Any] = kind.make(subject, **details)
        except TypeError as fault:  # the maker misses an argument
            missing = [option for option, argument in kind.details.items() if f"'{argument}'" in str(fault)]
            if not missing:
                raise
            raise Misuse(f"--{_dashed(kind.name)} needs {_listed(missing)}") from None
        except QueryRejected:
            raise
        except ValueError as reason:
            raise QueryRejected(f"{reason}") from None
        return made

    def _details(self, kind: Kind, schema: Schema, *, but: str = "") -> dict[str, Any]:
        found = {
            argument: self._value(DETAILS[option].form, self.given[option], schema)
            for option, argument in kind.details.items() if option in self.given and option != but
        }  # fmt: skip
        if "pos_label" in found and schema.label_kind != "string" and (number := _numbers([found["pos_label"]])):
            found["pos_label"] = number[0]
        return found

    def _value(self, form: Form, written: Any, schema: Schema) -> Any:
        if form is Form.PREDICTIONS:
            from everhold.queries.predictions.files import read_predictions

            return read_predictions(Path(written), schema, column=self.given.get("column"))
        if form is Form.CELLS:
            from everhold.cli.files import read_document

            return read_document(Path(written))
        if form is Form.CODE:
            from everhold.cli.files import read_function

            return read_function(written)
        if form is Form.LIST:
            parts = [part.strip() for part in written.split(",")]
            return _numbers(parts) or parts
        return written

    def files(self) -> list[str]:
        """The candidates by the names of their files; empty where they are no files."""
        named = [f"{kind.name} of {subject}" for kind, subject in self.candidates if kind.name in _OF_FILES]
        return named if len(named) == len(self.candidates) else []


def with_query_options(command: Callable[..., None]) -> Callable[..., None]:
    """Decorator: the parameter ``spelled`` of a command becomes one option for each kind and each detail."""
    signature = inspect.signature(command, eval_str=True)
    own = list(signature.parameters.values())
    place = next(index for index, parameter in enumerate(own) if parameter.name == "spelled")
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in _options().items()
    ]
    required = own[place].default is not None

    def spelled(**given: Any) -> None:
        typed = {option.name: given.pop(option.name) for option in options}
        command(**given, spelled=Spelled.read(typed, required=required))

    spelled.__name__, spelled.__doc__ = command.__name__, command.__doc__
    parameters = [*own[:place], *options, *own[place + 1 :]]
    spelled.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    spelled.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return spelled


def _options() -> dict[str, Any]:
    """Annotations by name."""
    found: dict[str, Any] = {}
    for kind in KINDS:
        plain = _TYPES.get(kind.form, str)
        annotation = list[plain] if kind.rowwise else plain  # type: ignore[valid-type]
        found[kind.name] = _annotated(annotation, kind.name, kind.form, kind.help, _SUBJECT)
    wrapping = [kind.name for kind in KINDS if kind.several and kind.form is not Form.FLAG]
    if wrapping:
        help_text = f"With {_listed(wrapping)}: one condition or number a line."
        found["queries"] = _annotated(Path, "queries", Form.PREDICTIONS, help_text, _SUBJECT)
    for name, detail in DETAILS.items():
        help_text = f"{detail.help} [{_owners(name)}]"
        found[name] = _annotated(_TYPES.get(detail.form, str), name, detail.form, help_text, _DETAILS)
    column = "Column of the predictions file, where it has several."
    found["column"] = _annotated(str, "column", Form.TEXT, column, _DETAILS)
    return found


def _annotated(plain: Any, name: str, form: Form, help_text: str, panel: str) -> Any:
    metavar = {Form.NUMBER: None, Form.WHOLE: None, Form.PREDICTIONS: None, Form.FLAG: None}.get(form, form.value)
    spelled = (
        f"--{_dashed(name)}/--no-{_dashed(name)}" if form is Form.FLAG and name in DETAILS else f"--{_dashed(name)}"
    )
    option = typer.Option(spelled, metavar=metavar, help=help_text, rich_help_panel=panel)
    return Annotated[plain | None, option]


def _check_candidates(wrapping: list[Kind], rows: list[tuple[Kind, Any]], given: Mapping[str, Any]) -> None:
    """Means of different kinds are in different units, or were not meant together."""
    if len(wrapping) > 1:
        listed = " and ".join(f"--{_dashed(kind.name)}" for kind in wrapping)
        raise Misuse(f"expected one query, found {listed}; give one of them")
    found = [*dict.fromkeys(f"--{kind.name}" for kind, _ in rows), *(["--queries"] if "queries" in given else [])]
    others = [f"--{_dashed(kind.name)}" for kind in KINDS if kind.name in given and kind is not wrapping[0]]
    strange = [option for option in others if option not in found]
    if len(found) != 1 or strange:
        kinds = ", ".join([*(f"--{kind.name}" for kind in _ROWWISE), "--queries"])
        listed = " and ".join([*found, *strange]) or "none"
        raise Misuse(
            f"--{_dashed(wrapping[0].name)} compares one kind of query, found {listed}; give one of {kinds}, "
            "several times"
        )
    if "training_predictions" in given and len(rows) > 1:
        raise Misuse("--training-predictions belongs to one file of predictions, and there are several; leave it out")


def _lines(path: Path) -> list[str]:
    """The queries of a file, without empty lines."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise Misuse(f"{path.name} is not text in UTF-8; expected one condition or number a line") from None
    found = [line for line in lines if line.strip()]
    if not found:
        raise Misuse(f"{path.name} holds no query; expected one condition or number a line")
    return found


def _numbers(parts: list[str]) -> list[float]:
    try:
        return [float(part) for part in parts]
    except ValueError:
        return []


def _owners(detail: str) -> str:
    return _listed([kind.name for kind in KINDS if detail in kind.details])


def _listed(names: Any) -> str:
    *most, last = (f"--{_dashed(name)}" for name in names)
    return f"{', '.join(most)} and {last}" if most else last


def _dashed(name: str) -> str:
    return _SPELLED.get(name, name).rstrip("_").replace("_", "-")
