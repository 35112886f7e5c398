"""Scorers and metric functions of scikit-learn as the scores that they are; others are refused by name."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from everhold.errors import QueryRejected
from everhold.queries.metrics.registry import METRICS, REFUSED, REFUSED_FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_F1 = {"average": "binary", "pos_label": 1, "beta": 1}


def as_metric(metric: Any) -> Any:
    """The name of the score that a scorer or a metric function of scikit-learn stands for; all else as it is.

    Args:
        metric: Such as ``get_scorer("roc_auc")``, ``make_scorer(fbeta_score, beta=1)`` or ``accuracy_score``.

    Raises:
        QueryRejected: If it is one of scikit-learn that is not promised. Nothing is charged.
    """
    function = getattr(metric, "_score_func", None)
    given: tuple[Any, int, dict[str, Any], tuple[str, ...] | None]
    if function is not None:
        given = (function, metric._sign, dict(metric._kwargs), _responses(metric))
    elif inspect.isfunction(metric) and metric.__module__.startswith("sklearn.metrics."):
        function, given = metric, (metric, 1, {}, None)
    else:
        return metric
    from sklearn.metrics import get_scorer, get_scorer_names

    known = {name: get_scorer(name) for name in get_scorer_names()}
    same = [name for name, scorer in known.items() if _is(scorer, *given)]
    for name in same:
        if name in METRICS:
            return name
    name = getattr(function, "__name__", repr(function))
    if name == "fbeta_score" and {"average": "binary", "pos_label": 1, **given[2]} == _F1:
        return "f1"
    settings = ", ".join(f"{key}={value!r}" for key, value in given[2].items())
    alike = [each for each, scorer in known.items() if scorer._score_func is function and each in METRICS]
    nearest = [REFUSED[each] for each in same if each in REFUSED] or alike or [REFUSED_FUNCTIONS.get(name, "")]
    if given[:2] == (function, 1) and alike and known[alike[0]]._sign < 0:
        why = f"{name} is a loss, and here its largest value would be the best one"
    elif name == "roc_auc_score" and "predict" in (given[3] or ()):
        why = f"this scorer of {name} ranks predicted classes; expected response_method='predict_proba'"
    else:
        why = f"{name}({settings}) is not promised"
    raise QueryRejected(f"{why}. {f'The nearest score is {nearest[0]}' if nearest[0] else _listed()}")


def _listed() -> str:
    return f"Pass one of {', '.join(sorted(METRICS))}"


def _is(
    scorer: Any, function: Callable[..., Any], sign: int, settings: Mapping[str, Any], responses: tuple[str, ...] | None
) -> bool:
    """True if a scorer of scikit-learn's has this function, sign and settings, and reads at least these responses."""
    if scorer._score_func is not function or scorer._sign != sign:
        return False
    usual = {
        name: each.default
        for name, each in inspect.signature(function).parameters.items() if each.default is not inspect.Parameter.empty
    }  # fmt: skip
    wanted, own = ({**usual, **each} for each in (settings, scorer._kwargs))
    if own.get("average") in ("macro", "weighted"):
        wanted["pos_label"] = own["pos_label"] = None  # scikit-learn does not read it
    return wanted == own and (responses is None or set(responses) <= set(_responses(scorer)))


def _responses(scorer: Any) -> tuple[str, ...]:
    """Methods of a model that a scorer may read."""
    found = scorer._response_method
    return (found,) if isinstance(found, str) else tuple(found)
