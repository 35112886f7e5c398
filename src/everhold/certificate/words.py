"""What a certificate says in words. Every text is a function of the facts, so that a verifier can say it again."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from everhold.certificate.numbers import at_least, at_most, counted, percent, shown
from everhold.dependence import MODELS

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DETERMINISTIC", "add_words", "short_dependence"]

_LARGE_EPSILON = 10.0
_USELESS_RADIUS = 0.5
_ROUNDING = 1e-9

DETERMINISTIC = frozenset({"guess_and_check", "ladder", "sample_splitting", "empirical"})
"""Mechanisms that add no noise."""

_HOW_TO_TELL_OTHERWISE = (
    "The declared dependence is wrong if rows depend on each other in a way that it leaves out. To check, ask how the "
    "rows were collected, and hold the declaration against what is known about them from elsewhere. The answers "
    "themselves cannot show it.",
    "If rows depend on each other more than was declared, the intervals are too narrow.",
)
_UNSEEN = {
    "sealed": (
        "nobody who asks has seen the sealed rows, features or labels, or anything computed from them, other than "
        "the answers of this holdout"
    ),
    "public": (
        "nobody who asks has seen the labels of the sealed rows, or anything computed from them, other than the "
        "answers of this holdout"
    ),
}
_POPULATION = (
    "the population is the one that the sealed rows were drawn from; where rows were drawn from several, their average"
)
_GIVEN_FEATURES = (
    "the features of the sealed rows are public, and what is assumed above about the rows holds for their labels when "
    "all these features are given"
)
_ONE_LAW = "the population is the one law that all sealed rows were drawn from"
_BY_POSITION = (
    "Predictions for the sealed rows that are handed in as arrays or files belong to these very rows: the value that "
    "is promised for them is the one for labels drawn anew on these rows."
)
_LAW_GIVEN_FEATURES = (
    "Here it is used for the law of the labels given all features, which are public; the population's value of a "
    "question is then the one for labels drawn anew on these rows."
)
_PUBLIC_FEATURES = (
    "The features of the sealed rows are public. So the value that is promised for every question is its mean over "
    "labels drawn anew on these rows, and not over new rows; a model counts as its predictions on these rows."
)
_ASSUMED_OF_DEPENDENT_ROWS = (
    "nobody who asks has seen other rows that depend on the sealed ones, except for the training rows, as far as the "
    "dependence stated here lets them",
)

_MECHANISMS = {
    "guess_and_check": (
        "Each question comes with a guess: the estimate from the training rows, or the analyst's own. If the guess "
        "is close to the average over the sealed rows, it is confirmed and is the answer. Otherwise the answer is "
        "the sealed average, rounded to a coarse grid, and one overfit is charged. No noise is added. Questions "
        "are refused as soon as an answer could no longer be kept within the half-width."
    ),
    "thresholdout": (
        "Each question comes with a guess: the estimate from the training rows, or the analyst's own. If the guess "
        "is close to the average over the sealed rows, up to a noisy threshold, it is confirmed and is the answer. "
        "Otherwise the answer is the sealed average with Laplace noise, one overfit is charged and the threshold "
        "is drawn anew."
    ),
    "gaussian": "Each answer is the average over the sealed rows with fresh Gaussian noise. Every question is charged.",
    "laplace": "Each answer is the average over the sealed rows with fresh Laplace noise. Every question is charged.",
    "subsampling": (
        "Each answer comes from many draws made for it alone. A draw is a fair coin or a bit of a random sealed row, "
        "and which of the two is not shown; the answer is the share of ones with the coins taken out. Every question "
        "is charged."
    ),
    "random_rows": (
        "Each answer is the average over sealed rows drawn at random for it alone, each value rounded to 0 or 1 at "
        "random; a few draws may be fair coins instead. No noise is added. Every question is charged."
    ),
    "ladder": (
        "Every question is a submission to a leaderboard. The answer is the best score so far, on a grid of steps. It "
        "changes, and is charged, only when the average over the sealed rows of a new submission is better by more "
        "than a step; otherwise all that is told is that the submission is not that much better. No noise is added."
    ),
    "privacy_budget": (
        "Every question is paid from one budget of credits. The answer to a mean is the average over the sealed rows "
        "with fresh Gaussian noise: the sharper it has to be, the more credits it costs; at the planned sharpness it "
        "costs 100. A choice among candidates prefers those that do well on the sealed rows, at random, and the more "
        "so the more credits are paid. A scan for the first question above a threshold compares with noise on both "
        "sides, and a synthetic table is learned from noisy answers: each is one question with one price, however many "
        "it speaks about. What is charged is counted in credits."
    ),
    "sample_splitting": (
        "The sealed rows are split by their order into as many parts as questions were planned. Each answer is the "
        "average over a part that no other question touches. Predictions as arrays or files are refused, because no "
        "part stands for the whole then. Every question is charged."
    ),
    "empirical": (
        "Each answer is the bare average over all sealed rows. Nothing protects it from questions that were chosen "
        "after an answer was seen. Every question is charged."
    ),
}

_TRANSFER = (
    "Because of the noise, what anybody sees can hardly depend on a single sealed row. Then answers that are close "
    "to the averages over the sealed rows are close to the population's values too, however the questions were "
    "chosen. With probability at least 1 - beta, every answer is within alpha + tanh(epsilon/4) + excess of the "
    "population's value. Here excess = (r(alpha) + leak(epsilon)) / beta; r(alpha) bounds by how much the worst "
    "answer is expected to be further than alpha from its sealed average; leak(epsilon) bounds what the answers "
    "give away about a single row beyond a factor of exp(epsilon)."
)
_DESCRIPTION_LENGTH = (
    "Without noise, and with coarse answers, only so many courses of questions and answers are possible. All "
    "questions that can ever come up form a tree that is fixed before the sealed rows are looked at. Each of them "
    "is given its share of the probability of failure, beta; a fixed question with a share b is further than its "
    "concentration bound sqrt(ln(2/b) / (2 n)) from the population's value with probability at most b. So with "
    "probability at least 1 - beta no question that could have been asked breaks its bound, and none that was "
    "asked does."
)
_SPLITTING = (
    "All rows are of one law, and each question is answered from rows that had no part in choosing it. For such a "
    "question the average over its rows is further than sqrt(ln(2 m / beta) / (2 k)) from the population's value with "
    "probability at most beta / m, where m is the number of questions and k the number of rows for each. So with "
    "probability at least 1 - beta all are within it."
)
_HOEFFDING = (
    "For a question fixed in advance, the average over n rows is further than sqrt(ln(2 m / beta) / (2 n)) from "
    "the population's value with probability at most beta / m, where m is the number of questions. So with "
    "probability at least 1 - beta all of them are within it. It says nothing about a question that was chosen "
    "after an answer was seen."
)
_BUDGET = (
    "Because of the noise, what anybody sees can hardly depend on a single sealed row. Every question has an alpha of "
    "its own, fixed before it is answered, beyond which its answer is expected to stray from the sealed rows by the "
    "same small amount; the amounts of all questions together are r. With probability at least 1 - beta, every mean is "
    "within its own alpha + tanh(epsilon/4) + excess of the population's value, and every choice is worse than the "
    "best candidate by at most its own alpha + 2 (tanh(epsilon/4) + excess); the levels of quantiles, the verdicts of "
    "scans and all the questions that a synthetic table was made for are as means are. A gradient is within twice "
    "its clipping length times the same, with an alpha of its own for its Euclidean length, and a statistic of "
    "independent rows within n times its sensitivity times the same. Here excess = (r + "
    "leak(epsilon)) / beta, and leak(epsilon) bounds what all answers give away about a single row beyond a factor of "
    "exp(epsilon). The alpha that is stated is that of a mean at the planned sharpness."
)
_INFORMATION = (
    "Each answer shows a few random rows only, so all answers together tell little about all sealed rows, though they "
    "may tell a single one. With probability at least 1 - beta, every answer is within alpha + sqrt(budget / (2 n "
    "beta)) of the population's value. Here budget bounds, in nats, the mutual information of the n independent rows "
    "and everything that is answered, with what sampling errors beyond alpha add to it."
)
_THEOREMS = {
    "thresholdout": (_TRANSFER, "transfer"),
    "gaussian": (_TRANSFER, "transfer"),
    "laplace": (_TRANSFER, "transfer"),
    "privacy_budget": (_BUDGET, "one budget for many kinds of questions"),
    "subsampling": (_TRANSFER, "transfer"),
    "random_rows": (_INFORMATION, "fresh random rows"),
    "ladder": (_DESCRIPTION_LENGTH, "description length"),
    "guess_and_check": (_DESCRIPTION_LENGTH, "description length"),
    "sample_splitting": (_SPLITTING, "description length"),
    "empirical": (_HOEFFDING, "concentration"),
}
_UNKNOWN_THEOREM = ("See the documentation.", "theory")
_TRANSFER_OF_DEPENDENT_ROWS = (
    "Other rows tell about a row, too. So leak(epsilon) counts, for each row, all rows that may change with it under "
    "the declared dependence, and not that row alone; it is the average over rows (statement S4)."
)
_CONCENTRATION_OF_DEPENDENT_ROWS = (
    "Rows that depend on each other say less than independent ones. In the bound, n is not the number of rows but the "
    "number of independent rows that they are worth under the declared dependence (statement S5), its effective "
    "rows."
)
_LESS_THAN_BETA = (
    "Beta is smaller than one minus the probability of the promise: the difference pays for the chance that the "
    "dependence was learned wrongly, or that training rows tell about sealed ones."
)

_OTHER_ROWS = (
    "Anything about other rows than these: with the features known, a model or an expression may be right on these "
    "rows and wrong on all others."
)
_NOT_PROMISED = (
    "Truth about another population than the one the rows were drawn from, or about the same one at another time.",
    "Anything that was asked of these rows outside everhold, or through another holdout that was made from them or "
    "from rows that depend on them.",
    "Anything, the other answers included, if a Python function was asked that looks at several rows at once or at a "
    "row's place, or a statistic that one row can move by more than its declared sensitivity: then the noise was too "
    "small for what it hid. everhold tries both on training or made-up rows, which does not prove it.",
    "That an analyst reads an answer rightly, or that a question measures what it is meant to measure.",
    "Anything about who asked, or about what the steward did, who sealed the rows and holds the key: the certificate "
    "binds what the ledger holds, and nothing else.",
)
_SEALED_AGAIN = (
    "Anything about questions that were chosen after somebody had seen answers about these very rows from another "
    "holdout: they were sealed more than once, and budgets do not add up."
)


def short_dependence(dependence: Mapping[str, Any]) -> str:
    """The dependence of the rows in two or three words."""
    kind = str(dependence.get("kind", "unknown"))
    return MODELS[kind].rows_are if kind in MODELS else f"rows: {kind.replace('_', ' ')}"


def add_words(facts: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The sections of a certificate: the facts, and what they mean in words.

    Args:
        facts: Section by name, without their words.
    """
    sections = {name: dict(section) for name, section in facts.items()}
    name, simulation = str(facts["mechanism"]["name"]), bool(facts["issue"]["simulation"])
    dependence = facts["assumptions"]["dependence"]
    _, page = _THEOREMS.get(name, _UNKNOWN_THEOREM)
    sections["promise"] |= {
        "sentence": _sentence(facts, name, dependence, simulation=simulation),
        "explanation": _explanation(facts["promise"], name, facts["rows"]),
    }
    sections["assumptions"] |= {
        "always": [
            _UNSEEN[facts["rows"]["features"]],
            _about(facts["rows"], name),
            *(_ASSUMED_OF_DEPENDENT_ROWS if dependence.get("kind") != "independent" else ()),
        ],
        "how_to_tell": [
            *getattr(MODELS.get(str(dependence.get("kind"))), "how_to_tell", _HOW_TO_TELL_OTHERWISE),
            *_presupposed(facts["account"]["by_position"], facts["rows"]),
        ],
    }
    sections["mechanism"] |= {"explanation": _MECHANISMS.get(name, "See the documentation.")}
    sections["theorem"] |= {
        "says": _theorem(facts, name, dependence),
        "source": _source(str(facts["theorem"]["statement"]), page),
    }
    sections["privacy"] |= {"explanation": _privacy(facts["privacy"], name, dependence, simulation=simulation)}
    others = [_OTHER_ROWS] if facts["rows"]["features"] == "public" else []
    sealed_again = [_SEALED_AGAIN] if facts["rows"].get("also_sealed_as") else []
    sections["not_promised"] |= {"items": [*sealed_again, _secrecy(facts["privacy"]), *others, *_NOT_PROMISED]}
    sections["issue"] |= {"banner": _banner() if simulation else None}
    return sections


def _theorem(facts: Mapping[str, Mapping[str, Any]], mechanism: str, dependence: Mapping[str, Any]) -> str:
    says, _ = _THEOREMS.get(mechanism, _UNKNOWN_THEOREM)
    said = [says]
    if dependence.get("kind") != "independent":
        leaks = says in (_TRANSFER, _BUDGET)
        said.append(_TRANSFER_OF_DEPENDENT_ROWS if leaks else _CONCENTRATION_OF_DEPENDENT_ROWS)
    if facts["rows"]["features"] == "public":
        said.append(_LAW_GIVEN_FEATURES)
    if facts["theorem"]["numbers"].get("beta", 1.0) < (1.0 - facts["promise"]["confidence"]) * (1.0 - _ROUNDING):
        said.append(_LESS_THAN_BETA)
    return " ".join(said)


def _about(rows: Mapping[str, Any], mechanism: str) -> str:
    """What the promised values are about, as an assumption."""
    if rows["features"] == "public":
        return _GIVEN_FEATURES
    return _ONE_LAW if mechanism == "sample_splitting" else _POPULATION


def _value(rows: Mapping[str, Any]) -> str:
    """The value that is promised."""
    if rows["features"] == "public":
        return "the value for labels drawn anew on these rows"
    return "the population's value"


def _presupposed(by_position: int, rows: Mapping[str, Any]) -> list[str]:
    """What answers about predictions for these very rows presuppose; nothing where there were none."""
    if not by_position or rows["features"] == "public":
        return []
    one = by_position == 1
    return [
        f"{counted(by_position, 'question')} {'was' if one else 'were'} about predictions for these very rows, as "
        "arrays or files. If such predictions were made from the rows' features, whoever made them has seen these "
        "features or something computed from them, and the assumption that nobody who asks has seen them is wrong. "
        "What remains promised then, for every answer, is its value for labels drawn anew on these rows: an estimator "
        "or a text expression may fit these rows and no others."
    ]


def _sentence(
    facts: Mapping[str, Mapping[str, Any]], mechanism: str, dependence: Mapping[str, Any], *, simulation: bool
) -> str:
    promise, value = facts["promise"], _value(facts["rows"])
    best = f"best {value.removeprefix('the ')}" if facts["rows"]["features"] == "public" else "best population value"
    basis = f"(statement {promise['statement']}, {short_dependence(dependence)})"
    before = "Simulation only: " if simulation else ""
    if promise["radius"] is None:
        return f"{before}Nothing is promised: the half-width is infinite {basis}."
    reach = f"within {at_most(promise['radius'])} of {value}"
    chance = f"with probability {percent(promise['confidence'])}"
    if mechanism == "empirical":
        asked = counted(promise["questions"], "answer")
        return (
            f"{before}If all questions were fixed before the first answer was seen, every one of up to {asked} is "
            f"{reach}, all of them at once, {chance} {basis}; otherwise nothing is promised."
        )
    if mechanism == "ladder":
        asked = counted(promise["questions"], "submission")
        return (
            f"{before}Until {asked} are used up, the best score shown is at all times within "
            f"{at_most(promise['radius'])} of the {best} among all submissions so far, {chance} {basis}."
        )
    if mechanism == "privacy_budget":
        budget = f"{counted(promise['questions'], 'question')} or the credits"
        return (
            f"{before}Until {budget} are used up, every mean at the planned sharpness is {reach} and every other "
            f"answer within what was stated with it, all of them at once, {chance} {basis}."
        )
    budget = counted(promise["questions"], "question")
    if promise["overfits"] is not None:
        budget += f" or {counted(promise['overfits'], 'overfit')}"
    used = "is" if (promise["overfits"] or promise["questions"]) == 1 else "are"
    return f"{before}Until {budget} {used} used up, every answer is {reach}, all of them at once, {chance} {basis}."


def _explanation(promise: Mapping[str, Any], mechanism: str, rows: Mapping[str, Any]) -> list[str]:
    said = []
    if promise["radius"] is None or promise["radius"] >= _USELESS_RADIUS:
        said.append("This half-width is half the range or more: the promise says next to nothing.")
    said.append(
        "The half-width is for questions whose value for a row lies between 0 and 1 (what lies beyond is cut off "
        "there); for a question with other ends it grows with their distance. A conditional mean is two such "
        "questions, and its interval follows from both. Every answer came with an interval of its own; all of "
        "these intervals hold together, with the same probability."
    )
    if rows["features"] == "public":
        said.append(_PUBLIC_FEATURES)
    elif rows["label"] is not None and mechanism != "sample_splitting":
        said.append(_BY_POSITION)
    if mechanism == "empirical":
        said.append(
            "If even one question was chosen after an answer was seen, nothing is promised about that question."
        )
    else:
        said.append("Questions may be chosen freely, each with all earlier answers in hand.")
    if promise["overfits"] is not None:
        said.append("An overfit is an answer that came from the sealed rows because the guess was not confirmed.")
    if promise["spends_only_beyond"]:
        said.append(
            "With the same probability, within the plan, an overfit is charged only where the guess is at least "
            f"{at_least(promise['spends_only_beyond'])} away from {_value(rows)}."
        )
    return said


def _source(statement: str, page: str) -> str:
    kind = "published" if statement.startswith("P") else "derived, with its proof,"
    cited = " (Hoeffding 1963)" if statement == "P9" else ""
    return (
        f"Statement {statement}{cited}, {kind} in the documentation of everhold: Theory, page “{page}”. "
        "It rests on the assumptions above."
    )


def _privacy(
    privacy: Mapping[str, Any], mechanism: str, dependence: Mapping[str, Any], *, simulation: bool
) -> list[str]:
    epsilon, delta = privacy["epsilon"], privacy["delta"]
    if simulation and mechanism not in DETERMINISTIC:
        return ["No privacy of single rows is promised: the noise can be predicted from the seed of the simulation."]
    if epsilon is None:
        why = "no noise is added to the answers" if mechanism in DETERMINISTIC else "the noise is too small for any"
        if mechanism == "random_rows":
            why = "random rows are shown, and hardly any coin is tossed"
        return [f"No privacy of single rows is promised: {why}. Answers may reveal single rows."]
    said = [
        "The mechanism adds noise. All answers together are differentially private towards every single sealed row "
        f"that is replaced by another, with epsilon = {at_most(epsilon)} and delta = {shown(delta)}."
    ]
    if epsilon > _LARGE_EPSILON:
        said.append(
            "An epsilon this large is not meaningful privacy: take it as if no privacy of single rows were "
            "promised. The noise is there to keep the answers true, not to keep rows secret."
        )
    else:
        more = f", and by {shown(delta)} on top" if delta else ""
        said.append(
            "Replacing one row changes the probability of anything that the answers may show by a factor of at most "
            f"{at_most(math.exp(epsilon))}{more}. The names of the columns and the numbers of rows are public."
        )
    if dependence.get("kind") != "independent":
        said.append("Rows that tell about each other are protected less: this counts one replaced row at a time.")
    return said


def _secrecy(privacy: Mapping[str, Any]) -> str:
    if privacy["epsilon"] is None or privacy["epsilon"] > _LARGE_EPSILON:
        return "Secrecy of single rows."
    return "Secrecy of single rows beyond what the section on privacy states."


def _banner() -> str:
    return (
        "Simulation. The source of noise of this holdout was seeded and can be predicted. This certificate is for "
        "trying out and for tests; do not rely on it for a decision about real rows."
    )
