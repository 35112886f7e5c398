"""The first page in words: the chosen answers as sentences, their meaning, and how many others there are.

Every sentence is a function of the facts, as all words of a certificate are. To say more on the first page, such as who
leads, add a function from the facts to sentences and call it in `summary_words`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import TYPE_CHECKING, Any

from everhold.answers import SILENT, with_shares
from everhold.certificate.phrases import at_least, at_most, percent, rows_and_groups, rows_that_arrived, shown
from everhold.dependence import MODELS
from everhold.display import counted, rounded
from everhold.estimand import PUBLIC
from everhold.sealing.configuration import assumed_independent
from everhold.values.units import POINTS, RATES

if TYPE_CHECKING:
    from everhold.mechanisms import Mechanism

_TOO_LARGE = 1e15
_MOST_DECIMALS = 12
_DECIMALS_OF_A_POINT = 6

_CLAIMS = {
    "right": "{name} is right {v} % of the time, between {l} and {h} %.",
    "wrong": "{name} is wrong {v} % of the time, between {l} and {h} %.",
    "precision": "Where {name} says yes, it is right {v} % of the time, between {l} and {h} %.",
    "recall": "{name} finds {v} % of what there is to find, between {l} and {h} %.",
    "share": "{name}: {v} %, between {l} and {h} %.",
    "loss": "{name} loses {v} on average, between {l} and {h}; less is better.",
    "mean": "{name}: {v} on average, between {l} and {h}.",
    "value": "{name}: {v}, between {l} and {h}.",
}
_COMPARED = {
    "right more": "{name}: right {v} percentage points {more} often, between {l} and {h}.",
    "wrong more": "{name}: wrong {v} percentage points {more} often, between {l} and {h}.",
    "points": "{name}: {v} percentage points {more}, between {l} and {h}.",
    "loss more": "{name}: loses {v} {more} on average, between {l} and {h}.",
    "difference": "{name}: {v} {more}, between {l} and {h}.",
}
_SHARES = ("accuracy", "error")
_EQUAL = "{name}: no difference, between {l} and {h}."
_OPEN = "These bounds leave open which of the two is larger."
_STANDING = (
    "{name} did not show itself better than the best before it, which scored {v}; its own value lies between {l} and "
    "{h}."
)
_FROM = {
    "training": "The estimate from the training rows, which the sealed rows confirm to within these bounds.",
    "guess": "The guess of whoever asked, which the sealed rows confirm to within these bounds.",
    "standing": "The number is that of another answer, and not its own.",
    "holdout": "Taken from the sealed rows, rounded.",
    "chosen": "Taken from the sealed rows, rounded, as one of many that were asked together.",
    "declared": "Taken from the sealed rows, rounded where it is no share of them; what is asked was declared "
    "beforehand.",
}
_FROM_NOISE = "Taken from the sealed rows, with noise."
_UNSEALED = "What the sealed rows themselves say, told when the study was unsealed."
_BEFORE = "Before that it was answered with {v}, between {l} and {h}, which holds as well."

_NOTHING = "Nothing is promised: the half-width is infinite."
_PROMISE = (
    "With probability {confidence}, every interval of this holdout contains its true value, those shown here and all "
    "others at once"
)
_ADAPTIVE = "{promise}, although each query could be chosen with all earlier answers in hand."
_FIXED = "{promise}, if all queries were fixed before the first answer was seen; otherwise nothing is promised."
_COVERED = (
    "Whoever chose what is shown may have seen all answers before: that is covered, because the probability is that of "
    "all bounds at once, shown or not."
)
_POPULATION = (
    "The true value is that of the population that the {rows} were drawn from, and not of these rows alone: what is "
    "found here is to be expected of new rows of the same kind."
)
_LATER_ROWS = (
    "The true value of {names} is that of the population that {rows} were drawn from, in the order of arrival. Other "
    "rows are no part of it."
)
_THESE_ROWS = (
    "{which} are about labels drawn anew on these very {rows}, because whoever asks may know their features; nothing "
    "is said about other rows."
)
_IN_THESE_SHARES = (
    "The true value is that of {about}: what is found here is to be expected of new rows of the same kind in these "
    "shares."
)
_BY_POSITION = (
    "{queries} {were} about predictions for these very rows. If these were made from the rows' features, all bounds "
    "are about labels drawn anew on these rows only, also those of other answers."
)
_ROWS_ARE = "That these are {rows_are}."
_UNSEEN = "That nobody who asked had seen what is sealed, by other ways than these answers."
_MORE = "All that is assumed stands further down, with how to tell if it is wrong.{warned}"
_ANY = (
    "The number in front of the bounds is not better than they are: any value between them may be the true one. Where "
    "it was confirmed, that is all that the sealed rows say about it."
)
_NOT = (
    "That the same is true of another population, or of this one at another time.",
    "That a query measures what matters to you: the number says what was asked, and no more.",
    "Who asked, or that the rows are what the steward says: the certificate binds what was sealed and asked.",
)
_USELESS_RADIUS = 0.5
_MOST_NAMED = 5  # teams that share the first place
_WEAK = "The planned half-width of an answer is half the range or more: that promises next to nothing."
_PROVED_ALL_THE_SAME = " What a gate or a check proved is proved all the same."
_CLOSED = "The study is over: it was unsealed, and no new query is answered."
_WARNED = " There {are} also {warnings} of what the training rows show about it."
_AGAIN = (
    "That no query here was chosen with answers of {others} in hand, which {hold} the same rows. What {they} told is "
    "not counted here."
)


@dataclass(frozen=True, slots=True)
class Bounds:
    """A number and its interval as texts for a sentence, with as many digits as the interval's width allows.

    Attributes:
        high: Upper end, rounded up.
    """

    value: str
    low: str
    high: str

    @classmethod
    def of(cls, numbers: Mapping[str, Any], *, scale: int = 1) -> Bounds:
        """Round all three numbers to the same decimals, so that the width has two digits and ends stay outside.

        Examples:
            >>> Bounds.of({"value": 0.8641, "low": 0.85123, "high": 0.87599}, scale=100)
            Bounds(value='86.4', low='85.1', high='87.6')
        """
        ends = [float(numbers[name]) for name in ("low", "value", "high")]
        if not all(map(math.isfinite, ends)):
            least, at, most = (end * scale for end in ends)
            return cls(rounded(at), at_least(least), at_most(most))
        low, value, high = (Decimal(repr(end)) * scale for end in ends)
        if max(map(abs, (low, value, high))) >= _TOO_LARGE:
            return cls(shown(float(value)), at_least(float(low)), at_most(float(high)))
        width = high - low
        decimals = max(1 - width.adjusted(), int(scale > 1)) if width > 0 else _DECIMALS_OF_A_POINT
        step = Decimal(1).scaleb(-min(max(decimals, 0), _MOST_DECIMALS))
        directions = ((value, ROUND_HALF_EVEN), (low, ROUND_FLOOR), (high, ROUND_CEILING))
        cut = (number.quantize(step, rounding=way) + 0 for number, way in directions)  # + 0: no sign of -0
        return cls(*(f"{number:,f}" for number in cut))

    def without_signs(self) -> Bounds:
        """Return the same texts without minus signs."""
        return Bounds(*(text.removeprefix("-") for text in (self.value, self.low, self.high)))


def bounds_of(fact: Mapping[str, Any]) -> Bounds:
    """Return the value and interval ends to show for an answer, after the unsealing the unsealed ones."""
    return Bounds.of(_numbers(fact), scale=_scale(fact))


def confirmed(fact: Mapping[str, Any]) -> bool:
    """Return whether an answer's value is a guess of which the sealed rows confirm only the bounds."""
    return "unsealed" not in fact and fact["source"] in ("training", "guess", "standing")


def summary_words(facts: Mapping[str, Mapping[str, Any]], kind: type[Mechanism], *, simulation: bool) -> dict[str, Any]:
    """Return the texts of the first page by their position on the page.

    If ``simulation`` is True, the promise says that it is a simulation only.
    """
    answers = facts["summary"]["answers"]
    before = "Simulation only: " if simulation else ""
    return {
        "sentences": [_sentence(fact) for fact in answers],
        "sources": [" ".join(_whence(fact, kind)) for fact in answers],
        "promise": before + _promise(facts["promise"], kind),
        "asked": " ".join([_asked(facts["account"], len(answers)), *_listed(facts["account"]), _COVERED]),
        "found": [*_found(facts)],
        "means": [*_about(facts), *([_ANY] if answers else [])],
        "assumed": [*_assumed(facts)],
        "does_not_mean": list(_NOT),
    }


def _numbers(fact: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the facts with value and interval ends of an answer, after the unsealing the unsealed ones."""
    numbers: Mapping[str, Any] = fact.get("unsealed", fact)
    return numbers


def _scale(fact: Mapping[str, Any]) -> int:
    """Return 100 for an answer that is shown in per cent or percentage points, else 1."""
    return 100 if fact["measure"] in RATES | POINTS else 1


def unit_of(fact: Mapping[str, Any]) -> str:
    """Return the unit to print after the numbers of an answer, such as " %"."""
    if fact["measure"] in RATES:
        return " %"
    return " percentage points" if fact["measure"] in POINTS else ""


def _sentence(fact: Mapping[str, Any]) -> str:
    """Return the sentence that states an answer with its bounds."""
    said = _said(fact)
    return said[0].upper() + said[1:] if said.startswith("the ") else said


def _said(fact: Mapping[str, Any]) -> str:
    """Return the sentence that states an answer, which may begin with a small letter."""
    bounds, measure, unit = bounds_of(fact), fact["measure"], unit_of(fact)
    if fact["source"] == "standing" and "unsealed" not in fact:
        return _STANDING.format(name=fact["name"], v=bounds.value + unit, l=bounds.low, h=bounds.high + unit)
    if measure in _COMPARED:
        return _compared(fact, bounds)
    return _CLAIMS[measure].format(name=fact["name"], v=bounds.value, l=bounds.low, h=bounds.high)


def _compared(fact: Mapping[str, Any], bounds: Bounds) -> str:
    """Return the sentence for a difference: more, less, or open if the interval allows both."""
    low, high = (float(_numbers(fact)[name]) < 0 for name in ("low", "high"))
    more, sizes = "less" if bounds.value.startswith("-") else "more", bounds.without_signs()
    ends = (sizes.high, sizes.low) if high else (sizes.low, sizes.high)
    if low and not high:
        ends = f"{sizes.low} less", f"{sizes.high} more"
    template = _COMPARED[fact["measure"]]
    if not sizes.value.strip("0."):
        template, ends = _EQUAL, (ends[0], ends[1] + unit_of(fact))
    said = template.format(name=fact["name"], v=sizes.value, more=more, l=ends[0], h=ends[1])
    return f"{said} {_OPEN}" if low and not high else said


def _whence(fact: Mapping[str, Any], kind: type[Mechanism]) -> Iterator[str]:
    """Yield sentences on the source of an answer's number."""
    if "unsealed" not in fact:
        yield _FROM_NOISE if fact["source"] == "holdout" and kind.traits.adds_noise else _FROM[fact["source"]]
    else:
        yield _UNSEALED
        if fact["source"] != SILENT:
            before, unit = Bounds.of(fact, scale=_scale(fact)), unit_of(fact)
            yield _BEFORE.format(v=before.value + unit, l=before.low, h=before.high + unit)
    if len(fact["entries"]) > 1:
        yield f"It follows from {counted(len(fact['entries']), 'answer')} of the ledger."


def _promise(promise: Mapping[str, Any], kind: type[Mechanism]) -> str:
    """Return the sentence of the first page with the promise for all answers together."""
    if promise["radius"] is None:
        return _NOTHING
    said = _PROMISE.format(confidence=percent(promise["confidence"]))
    return (_ADAPTIVE if kind.traits.adaptive else _FIXED).format(promise=said)


def _asked(account: Mapping[str, Any], chosen: int) -> str:
    """Return a sentence with the number of queries asked and of answers shown."""
    asked = f"{counted(account['asked'], 'query')} {'was' if account['asked'] == 1 else 'were'} asked in all"
    if not chosen:
        return f"{asked}; no answer is shown here."
    return f"{asked}; {counted(chosen, 'answer')} {'is' if chosen == 1 else 'are'} shown here."


def _listed(account: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence that all queries are listed, or nothing if they are not listed."""
    if account.get("queries"):
        yield "All of them are listed further down, with their answers."


def _about(facts: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield sentences on the population whose true values the certificate is about."""
    answers = facts["summary"]["answers"]
    rows = rows_and_groups(facts)
    by_position = [fact["name"] for fact in answers if fact["by_position"]]
    if facts["rows"]["features"] == PUBLIC:
        yield _THESE_ROWS.format(which="All bounds", rows=rows)
        return
    column, by_labels = facts["rows"].get("stratified"), False
    if column is not None:
        by_labels = column == facts["rows"]["label"]
    if (len(by_position) < len(answers) or not answers or by_labels) and column is not None:
        yield _IN_THESE_SHARES.format(about=with_shares(column))
    elif len(by_position) < len(answers) or not answers:
        yield from _population(facts, rows)
    if by_labels:
        return
    if by_position:
        some = len(by_position) < len(answers)
        which = f"The bounds of {', '.join(by_position)}" if some else "All bounds shown here"
        yield _THESE_ROWS.format(which=which, rows=rows)
    if count := facts["account"]["by_position"]:
        yield _BY_POSITION.format(queries=counted(count, "query"), were="was" if count == 1 else "were")


def _population(facts: Mapping[str, Mapping[str, Any]], all_rows: str) -> Iterator[str]:
    """Yield sentences on the population that each answer is about. After arrivals, answers may have different rows."""
    last = facts["rows"]["rows"] + rows_that_arrived(facts)
    by_rows: dict[str, list[str]] = {}
    for fact in facts["summary"]["answers"]:
        if not fact["by_position"]:
            first, end = fact.get("rows", (1, facts["rows"]["rows"] if rows_that_arrived(facts) else last))
            of = all_rows if (first, end) == (1, last) else f"rows {first:,} to {end:,}"
            by_rows.setdefault(of, []).append(fact["name"])
    for of, names in by_rows.items() or [(all_rows, [])]:
        if of == all_rows and len(by_rows) < 2:
            yield _POPULATION.format(rows=all_rows)
        else:
            yield _LATER_ROWS.format(names=_listed_names(names), rows=of)


def _listed_names(names: Sequence[str]) -> str:
    """Return names as an enumeration in English, such as "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _assumed(facts: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield the sentences of the first page about the assumptions."""
    kind = str(facts["assumptions"]["dependence"].get("kind", "unknown"))
    yield _ROWS_ARE.format(rows_are=MODELS[kind].rows_are if kind in MODELS else f"rows: {kind.replace('_', ' ')}")
    yield from (f"That {text}." for text in assumed_independent(facts["rows"], facts["assumptions"]["dependence"]))
    yield _UNSEEN
    if others := facts["rows"].get("also_sealed_as"):
        named = f"the holdout {others[0]!r}" if len(others) == 1 else f"{len(others):,} other holdouts"
        hold, they = ("holds", "it") if len(others) == 1 else ("hold", "they")
        yield _AGAIN.format(others=named, hold=hold, they=they)
    warned = len(facts["rows"].get("warned", ()))
    are = "is" if warned == 1 else "are"
    yield _MORE.format(warned=_WARNED.format(warnings=counted(warned, "warning"), are=are) if warned else "")


def margin_of(gate: Mapping[str, Any]) -> str:
    """Return the margin of a gate as text, for shares in percentage points.

    Examples:
        >>> margin_of({"metric": "accuracy", "margin": 0.01})
        '1 percentage point'
    """
    if gate["metric"] not in _SHARES:
        return at_least(gate["margin"])
    points = at_least(float(Decimal(repr(float(gate["margin"]))) * 100))
    return f"{points} percentage point{'' if points == '1' else 's'}"


def winner_in_words(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence with the proved winner of a final leaderboard, or that nobody is proved to have won.

    Args:
        rows: Rows of the leaderboard, with ``team`` and ``rank``, which is None for a team without a place.

    Examples:
        >>> winner_in_words([{"team": "owls", "rank": 1}, {"team": "larks", "rank": 2}, {"team": "wrens", "rank": 2}])
        "The winner is 'owls', which is proved to be better than both other teams."
        >>> winner_in_words([{"team": "owls", "rank": 1}, {"team": "larks", "rank": 1}, {"team": "wrens", "rank": 3}])
        "There is no winner: 'owls' and 'larks' share the first place, and the rows cannot tell who is better."
    """
    placed = [row for row in rows if row["rank"] is not None]
    first = [repr(row["team"]) for row in placed if row["rank"] == 1]
    if not first:
        return "There is no winner: no team has the first place."
    if len(first) > 1:
        more = len(first) - _MOST_NAMED
        named = [*first[:_MOST_NAMED], counted(more, "other team")] if more > 0 else first
        return (
            f"There is no winner: {_listed_names(named)} share the first place, and the rows cannot tell who is better."
        )
    if len(placed) == 1:
        return f"{first[0]} is the only team on the board."
    others = "the other team" if len(placed) == 2 else "both other teams" if len(placed) == 3 else (
        f"each of the {len(placed) - 1:,} other teams"
    )  # fmt: skip
    return f"The winner is {first[0]}, which is proved to be better than {others}."


def _found(facts: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield the sentences of the first page about a competition, gates, a useless radius and the end of the study."""
    if (competition := facts["account"].get("competition")) is not None:
        if competition["rows"]:
            yield winner_in_words(competition["rows"])
        elif "unsealed" in facts["account"]:
            yield "The competition is over, and no team is on its board."
        else:
            yield "The competition is not over, so it has no winner yet."
    for gate in facts["account"].get("gates", ()):
        checks = gate.get("checks", {"made": 0})["made"]
        promoted, challenges = len(gate["promotions"]), counted(gate["challenges"] - checks, "challenge")
        by = f" by more than {margin_of(gate)}" if gate["margin"] else ""
        proved = f"{promoted:,} proved the challenger to be better than the champion of the moment{by}"
        name = "The gate" if gate["gate"] == "gate" else f"The gate {gate['gate']!r}"
        yield f"{name}, by {gate['metric']}: of {challenges}, {proved}; the others prove nothing."
        if checks:
            made = counted(checks, "check")
            yield f"{made} compared a version with the baseline, and each verdict says what it proved."
    radius = facts["promise"]["radius"]
    if radius is not None and radius >= _USELESS_RADIUS:
        yield _WEAK + (_PROVED_ALL_THE_SAME if facts["account"].get("gates") else "")
    if "unsealed" in facts["account"]:
        yield _CLOSED
