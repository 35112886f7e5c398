"""Facts about models that a tracker keeps, such as a registered version in MLflow or a trial of Optuna."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from everhold.arguments import brief
from everhold.errors import QueryRejected

MODELS = "models"
"""Field of an entry's description, beside what identifies the query: the models that it is about, as a tracker knows
them."""

TRACKED = ("name", "version", "run", "study", "trial")
"""What is said of a model: its registered name and version, the run that made it, or a study and its trial."""

_LONGEST, _MOST = 250, 10  # characters of a registered name, and models of a query


NamedModel: TypeAlias = str | Mapping[str, str]
"""How a caller names a model: by a text, or by facts of a tracker, of which a text is the name."""


def tracked(models: Sequence[NamedModel], *, count: int | None = None) -> list[dict[str, str]]:
    """Return the facts about models in the form in which the ledger keeps them, after checking them.

    Args:
        models: One entry for each model.
        count: Number of models that the query is about; None if any number is right.

    Raises:
        QueryRejected: If the number of models is not ``count``, or an entry cannot be used. Nothing was charged.

    Examples:
        >>> tracked(["ridge", {"name": "tree", "version": "4"}])
        [{'name': 'ridge'}, {'name': 'tree', 'version': '4'}]
    """
    listed = isinstance(models, Sequence) and not isinstance(models, str)
    if not listed or (count is not None and len(models) != count):
        wanted = "" if count is None else f", {count} here"
        raise QueryRejected(
            f"models is {brief(models)}. Pass a list with one entry for each model{wanted}: a name, or facts such as "
            "{'name': 'churn', 'version': '4'}."
        )
    return check_tracked([{"name": each} if isinstance(each, str) else each for each in models])


def check_tracked(models: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Return the facts about models in the form and order in which the ledger keeps them, after checking them.

    Raises:
        QueryRejected: If a model has no facts, facts of unknown names, or facts that cannot be printed. Nothing was
            charged.
    """
    if isinstance(models, str | Mapping) or not isinstance(models, Sequence) or len(models) > _MOST:
        raise QueryRejected(
            f"models is {brief(models)}. Pass a list with one mapping for each model, at most {_MOST} of them."
        )
    for model in models:
        known = isinstance(model, Mapping) and model.keys() <= {*TRACKED} and len(model) > 0
        if not known or not all(map(_is_sound, model.values())):
            raise QueryRejected(
                f"A model is {brief(model)}. Pass {', '.join(TRACKED[:-1])} or {TRACKED[-1]}, each as a printable text "
                f"of at most {_LONGEST} characters."
            )
    return [{fact: model[fact] for fact in TRACKED if fact in model} for model in models]


def fact_of(text: str) -> str:
    r"""Return a name of a tracker as one printable line that is no longer than the ledger keeps.

    Examples:
        >>> fact_of("cuts\nof May")
        'cuts of May'
    """
    return "".join(each if each.isprintable() else " " for each in text)[:_LONGEST]


def _is_sound(fact: object) -> bool:
    return isinstance(fact, str) and 0 < len(fact) <= _LONGEST and fact.isprintable()


def tracked_in_words(description: Mapping[str, Any]) -> str:
    """Return the models of an entry's description in words, or an empty text if no tracker is named.

    Examples:
        >>> tracked_in_words({"models": [{"name": "churn", "version": "4", "run": "7f3a"}]})
        'churn version 4 of run 7f3a'
    """
    return " and ".join(map(model_in_words, description.get(MODELS, ())))


def model_in_words(model: Mapping[str, str]) -> str:
    """Return the facts about one model as text, such as its name, version and run."""
    said = {"name": "", "version": "version ", "run": "of run ", "trial": "trial ", "study": "of the study "}
    return " ".join(words + model[fact] for fact, words in said.items() if fact in model)
