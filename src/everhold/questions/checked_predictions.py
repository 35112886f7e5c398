"""Whether predictions can be meant as such, judged by public facts: what is refused here costs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.arguments import brief
from everhold.errors import QueryRejected

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.values.base import Schema

__all__ = ["check_classes", "is_mixed", "probabilities"]

_MOST_SHOWN = 5
_LONGEST = 40


def check_classes(predictions: NDArray[Any], schema: Schema, *, what: str) -> None:
    """Refuse what can be no label: probabilities, measurements, classes that nobody has heard of.

    Without known classes anything but a number with decimals may be one.

    Raises:
        QueryRejected: If there is such a prediction. Nothing is charged.
    """
    floats = predictions.dtype.kind == "f"
    if floats and not bool(np.all(np.isfinite(predictions))):
        raise QueryRejected(
            f"{what} hold nan or infinite numbers; expected a label for each row; fill in the missing ones; nothing "
            "was charged"
        )
    classes = schema.label_classes
    if classes is not None:
        strange = _not_among(predictions, classes)
        known = f"one of {', '.join(map(_brief, classes[:_MOST_SHOWN]))}{', ...' if len(classes) > _MOST_SHOWN else ''}"
    else:
        strange = predictions[predictions != np.floor(predictions)].tolist() if floats else []
        known = "classes: whole numbers or text"
    if strange:
        where = "" if schema.label_kind == "binary" or classes is None else ", the labels of the training rows,"
        hint = (
            "ask brier(...) about probabilities" if schema.label_kind == "binary"
            else "ask risk(...) about numbers" if schema.label_kind == "number"
            else "check their spelling"
        )  # fmt: skip
        raise QueryRejected(
            f"{what} are no labels: {len(strange):,} are such as {_brief(strange[0])}; expected {known}{where} for "
            f"each row; {hint}; nothing was charged"
        )


def _not_among(predictions: NDArray[Any], classes: tuple[str | float, ...]) -> list[Any]:
    if predictions.dtype.kind != "U":
        strange: list[Any] = predictions[~np.isin(predictions, np.array(classes, dtype=np.float64))].tolist()
        return strange
    unknown = set(predictions.tolist()) - set(classes)
    return [text for text in predictions.tolist() if text in unknown] if unknown else []


def _brief(value: object) -> str:
    return brief(int(value) if isinstance(value, float) and value.is_integer() else value, longest=_LONGEST)


def probabilities(estimator: Any, features: Any) -> NDArray[Any]:
    """Probabilities of label 1.

    Raises:
        QueryRejected: If the estimator does not tell labels 0 and 1 apart. Nothing is charged.
    """
    found, classes = np.asarray(estimator.predict_proba(features)), getattr(estimator, "classes_", None)
    if found.ndim != 2 or found.shape[1] != 2 or (classes is not None and np.asarray(classes).tolist() != [0, 1]):
        told = "" if classes is None else f" for the classes {_brief(np.asarray(classes).tolist())}"
        raise QueryRejected(
            f"the estimator gives probabilities of the shape {found.shape}{told}; expected two columns, for the labels "
            "0 and 1; fit it on such labels; nothing was charged"
        )
    return np.asarray(found[:, 1])


def is_mixed(predictions: object) -> bool:
    """Whether a list would be taken for text although not all of it is: NumPy writes nan as 'nan'."""
    if not isinstance(predictions, (list, tuple)):
        return False
    texts = sum(isinstance(item, str) for item in predictions)
    return 0 < texts < len(predictions)
