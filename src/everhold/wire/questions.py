"""How a question travels: a text, or an object with its kind, its subject and its details.

All of it follows from the registry in `everhold.questions`, so a new kind of question travels at once. The names of
kinds and details are those of the command line. What runs code is never taken from elsewhere.

    >>> import everhold as eh
    >>> written(eh.choose(["delay > 15", "delay > 30"], best="highest", price=50))[0]
    {'kind': 'choose', 'of': 'highest', 'questions': ['delay > 15', 'delay > 30'], 'price': 50}
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everhold import questions as registry
from everhold.arguments import brief
from everhold.errors import QueryRejected
from everhold.questions import DETAILS, Form, Kind
from everhold.questions.predictions import PredictionTable
from everhold.questions.question import Question
from everhold.wire.cells import universe_from
from everhold.wire.predictions import Tables, predictions_from, written_predictions
from everhold.wire.scalars import a_list, a_number, a_scalar, a_text, a_truth, a_whole_number, plain, refuse

if TYPE_CHECKING:
    from everhold.values.base import Schema

__all__ = ["question_from", "written"]

_DEEPEST = 8  # questions in questions
_MOST_QUESTIONS = 100_000
_KIND, _OF, _QUESTIONS, _TOLERANCE = "kind", "of", "questions", "tolerance"
_PLAIN: Mapping[Form, Callable[[Any, str], Any]] = {
    Form.NUMBER: a_number, Form.WHOLE: a_whole_number, Form.TEXT: a_scalar, Form.BEST: a_text, Form.LIST: a_list,
    Form.FLAG: a_truth,
}  # fmt: skip


def question_from(written: Any, schema: Schema, tables: Tables | None = None) -> Question[Any]:
    """The question that somebody wrote elsewhere.

    Args:
        written: A text, which is a mean; or an object ``{"kind": "mean", "of": "delay", "low": 0, "high": 60}``: a kind
            of question, its subject, and details by the names of the command line. What is made of others has
            ``"questions"``. Predictions are written as `everhold.wire.predictions` says.
        schema: What is known of the rows.
        tables: Tables of predictions that came with it, by the names that it has for them.

    Raises:
        QueryRejected: If it is no question, or one that holds code. Nothing is charged.
    """
    return _Reading(schema, tables or {}).question(written, 0)


def written(
    question: Question[Any] | str, tables: dict[str, PredictionTable] | None = None
) -> tuple[Any, dict[str, PredictionTable]]:
    """The inverse of `question_from`: what is written, and the tables that travel with it.

    Args:
        question: Of any kind that holds no code.
        tables: Tables that travel with other questions of the same request; more are put there.

    Raises:
        QueryRejected: If it holds a Python function or an estimator, which do not travel. Nothing is charged.
    """
    tables = {} if tables is None else tables
    return _Writing(tables).question(question), tables


@dataclass(frozen=True, slots=True)
class _Reading:
    schema: Schema
    tables: Tables

    def question(self, written: Any, depth: int) -> Question[Any]:
        if isinstance(written, str):
            written = {_KIND: "mean", _OF: written}
        if not isinstance(written, dict):
            refuse(f"the question is {brief(written)}", 'a text or an object such as {"kind": "mean", "of": "delay"}')
        if depth > _DEEPEST:
            refuse(f"there are questions in questions, {depth} deep", f"at most {_DEEPEST}")
        kind = _kind_of(written.get(_KIND))
        _check_keys(kind, written)
        details = {
            argument: self._value(DETAILS[option].form, written[name], name, depth)
            for option, argument in kind.details.items() if written.get(name := _spelled(option)) is not None
        }  # fmt: skip
        if written.get(_TOLERANCE) is not None:
            details[_TOLERANCE] = a_number(written[_TOLERANCE], _TOLERANCE)
        if not kind.several:
            return _make(kind, [self._value(kind.form, written.get(_OF), _OF, depth)], details)
        each = self._several(written.get(_QUESTIONS), depth)
        if kind.form is Form.FLAG:
            return _make(kind, each, details)
        return _make(kind, [each], {**details, kind.several: self._value(kind.form, written.get(_OF), _OF, depth)})

    def _several(self, written: Any, depth: int) -> list[Question[Any]]:
        if not isinstance(written, list) or len(written) > _MOST_QUESTIONS:
            refuse(f"{_QUESTIONS} is {brief(written)}", f"a list of at most {_MOST_QUESTIONS:,} questions")
        return [self.question(each, depth + 1) for each in written]

    def _value(self, form: Form, value: Any, name: str, depth: int) -> Any:
        if form in _PLAIN:
            return _PLAIN[form](value, name)
        if form is Form.PREDICTIONS:
            return predictions_from(value, self.schema, self.tables)
        if form is Form.CELLS:
            return universe_from(value, called=name)
        return self.question(value, depth + 1) if isinstance(value, dict) else a_text(value, name)


def _spelled(option: str) -> str:
    """The name of a detail as people know it: some have an underscore where Python has a word of its own."""
    return option.rstrip("_")


def _kind_of(name: Any) -> Kind:
    found = next((kind for kind in registry.KINDS if kind.name == name), None)
    if found is None:
        names = ", ".join(kind.name for kind in registry.KINDS if kind.form is not Form.CODE)
        refuse(f"the kind of question is {brief(name)}", f"one of {names}")
    if found.form is Form.CODE:
        raise QueryRejected(
            f"{found.name} is asked with a Python function, and none is taken from elsewhere, because it would run "
            "beside the sealed rows; expected another kind of question; or ask where the rows are; nothing was charged"
        )
    return found


def _check_keys(kind: Kind, written: Mapping[Any, Any]) -> None:
    known = {_KIND, *map(_spelled, kind.details)}
    known |= {_QUESTIONS} if kind.several else set()
    known |= set() if kind.form is Form.FLAG else {_OF}
    known |= {_TOLERANCE} if kind.tolerant else set()
    if strange := [key for key in written if key not in known]:
        refuse(f"a question of the kind {kind.name!r} has {brief(strange[0])}", f"some of {', '.join(sorted(known))}")


def _make(kind: Kind, subjects: list[Any], details: Mapping[str, Any]) -> Question[Any]:
    try:
        inspect.signature(kind.make).bind(*subjects, **details)
    except TypeError:
        _refuse_arguments(kind, subjects, details)
    try:
        made: Question[Any] = kind.make(*subjects, **details)
    except QueryRejected:
        raise
    except (ValueError, TypeError, ArithmeticError) as reason:
        raise QueryRejected(f"{reason}; nothing was charged") from None
    return made


def _refuse_arguments(kind: Kind, subjects: list[Any], details: Mapping[str, Any]) -> None:
    """Say in the words of the object which arguments the maker misses."""
    if kind.form is Form.FLAG:
        refuse(f"{kind.name} has {len(subjects)} questions", "two")
    needed = {
        name for name, parameter in inspect.signature(kind.make).parameters.items()
        if parameter.default is parameter.empty
    }  # fmt: skip
    missing = [_spelled(option) for option, argument in kind.details.items() if argument in needed - details.keys()]
    refuse(f"a question of the kind {kind.name!r} lacks {' and '.join(missing)}", "a value for each")


@dataclass(frozen=True, slots=True)
class _Writing:
    tables: dict[str, PredictionTable]

    def question(self, question: Any) -> Any:
        if isinstance(question, str):
            return question
        if not isinstance(question, Question):
            refuse(f"the question is {brief(question)}", "a text or a question such as mean(...)")
        made = question.made()
        kind = _kind_of(made.kind)
        details = {
            _spelled(option): self._value(DETAILS[option].form, made.details[argument], option)
            for option, argument in kind.details.items() if made.details.get(argument) is not None
        }  # fmt: skip
        if kind.tolerant and made.details.get(_TOLERANCE) is not None:
            details[_TOLERANCE] = plain(made.details[_TOLERANCE], a_number, _TOLERANCE)
        if kind.name == "mean" and not details:
            return a_text(made.of, _OF)
        if kind.several:
            details = {_QUESTIONS: [self.question(each) for each in _each(made.of)], **details}
        if kind.form is not Form.FLAG:
            subject = made.details.get(kind.several) if kind.several else made.of
            details = {_OF: self._value(kind.form, subject, _OF), **details}
        return {_KIND: kind.name, **details}

    def _value(self, form: Form, value: Any, name: str) -> Any:
        if form in _PLAIN:
            return plain(value, _PLAIN[form], name)
        if form is Form.PREDICTIONS:
            return written_predictions(value, self.tables)
        if form is Form.CELLS:
            return _plain_columns(value)
        return self.question(value)


def _each(questions: Any) -> Iterable[Any]:
    if isinstance(questions, str) or not isinstance(questions, Iterable):
        refuse(f"the questions are {brief(questions)}", "a list of questions")
    return questions


def _plain_columns(universe: Any) -> Any:
    """A universe as plain data; numbers of NumPy among its values become Python's own."""
    if not hasattr(universe, "to_dict"):
        refuse(f"the universe is {brief(universe)}", "Universe((ListedColumn(...), ...))")
    described = universe.to_dict()
    return {
        "columns": [
            {
                name: [item.item() if hasattr(item, "item") else item for item in given]
                if isinstance(given, list) else given.item() if hasattr(given, "item") else given
                for name, given in column.items()
            }
            for column in described["columns"]
        ]
    }  # fmt: skip
