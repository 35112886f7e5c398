"""Words of a certificate: each text is made from the signed facts when the certificate is read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from everhold.answers import with_shares
from everhold.certificate.phrases import at_least, at_most, counting_words, percent, shown
from everhold.certificate.summary import summary_words
from everhold.dependence import MODELS
from everhold.display import counted
from everhold.mechanisms import MECHANISMS, Mechanism
from everhold.sealing.configuration import assumed_independent

if TYPE_CHECKING:
    from collections.abc import Mapping


OF_POPULATION = "the population's value"


def value_in_words(rows: Mapping[str, Any]) -> str:
    """Return words for the promised value, such as the mean over the population or over labels drawn anew."""
    if rows["features"] == "public":
        return "the value for labels drawn anew on these rows"
    if "stratified" in rows:
        return f"the value for {with_shares(rows['stratified'])}"
    return OF_POPULATION


def by_labels(rows: Mapping[str, Any]) -> bool:
    """Return whether the table was split by its labels."""
    return rows.get("stratified") is not None and rows["stratified"] == rows["label"]


_LARGE_EPSILON = 10.0
_USELESS_RADIUS = 0.5
_ROUNDING = 1e-9
_HOW_TO_TELL_OTHERWISE = (
    "The declared dependence is wrong if rows depend on each other in a way that it leaves out. To check, ask how the "
    "rows were collected, and hold the declaration against what is known about them from elsewhere. The answers "
    "themselves cannot show it.",
    "If rows depend on each other more than was declared, the intervals are too narrow.",
)
_WARNED = "When the rows were sealed, everhold warned: {text}"
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
_GIVEN_SHARES = (
    "the table was split so that both parts have the values of {column!r} in the same shares; given how many sealed "
    "rows have each value, every sealed row was drawn independently from the rows with its value"
)
_SHARES = (
    "The value that is promised for every query is its average over rows with the values of {column!r} in the "
    "shares of the sealed rows. The training rows tell how often each value is sealed, so how common the values are "
    "in the population is no finding."
)
_LAW_GIVEN_SHARES = (
    "Here it is used for rows with the values of {column!r} in the shares of the sealed rows; the population's value "
    "of a query is then the one for such rows."
)
_SHARES_BY_POSITION = (
    "Predictions for the sealed rows that are handed in as arrays or files count as made row by row, each from its "
    "own features."
)
_OTHER_SHARES = (
    "How common the values of {column!r} are in the population, or any value for rows with other shares of them."
)
_ONE_LAW = "the population is the one law that all sealed rows were drawn from"
_BY_POSITION = (
    "Predictions for the sealed rows that are handed in as arrays or files belong to these very rows: the value that "
    "is promised for them is the one for labels drawn anew on these rows."
)
_LAW_GIVEN_FEATURES = (
    "Here it is used for the law of the labels given all features, which are public; the population's value of a "
    "query is then the one for labels drawn anew on these rows."
)
_PUBLIC_FEATURES = (
    "The features of the sealed rows are public. So the value that is promised for every query is its mean over "
    "labels drawn anew on these rows, and not over new rows; a model counts as its predictions on these rows."
)
_ASSUMED_OF_DEPENDENT_ROWS = (
    "nobody who asks has seen other rows that depend on the sealed ones, except for the training rows, as far as the "
    "dependence stated here lets them",
)
_TRANSFER_OF_DEPENDENT_ROWS = (
    "Other rows tell about a row, too. So leak(epsilon) counts, for each row, all rows that may change with it under "
    "the declared dependence, and not that row alone; it is the average over rows (statement S4)."
)
_CONCENTRATION_OF_DEPENDENT_ROWS = (
    "Rows that depend on each other say less than independent ones. In the bound, n is not the number of rows but the "
    "number of independent rows that they are worth under the declared dependence (statement S5), its effective rows."
)
_LESS_THAN_BETA = (
    "Beta is smaller than one minus the probability of the promise: the difference pays for the chance that the "
    "dependence was learned wrongly, or that training rows tell about sealed ones."
)
_BETA_IS_SHARED = (
    "Of what one minus the probability of the promise allows, beta is the part of queries that were not declared. "
    "Families that were declared with the holdout have the rest, {share} of it, divided among their members by weights "
    "that were fixed before any answer (statement S10)."
)
_DECLARED_LATER = (
    "A family that was declared later takes the level of one query and divides it among its members (statement S10)."
)
_TEXTS = (
    "A text query of at most {bits} bits has the level of its description where that is the larger one (statement S10)."
)
_NO_GUESS = (
    "That is about queries that were not declared. A member of a declared family is answered from the sealed rows, "
    "whatever they say: no guess enters, and no surprise is charged."
)
_OTHER_ROWS = (
    "Anything about other rows than these: with the features known, a model or an expression may be right on these "
    "rows and wrong on all others."
)
_TRUSTED_CODE = (
    "Anything, the other answers included, if a Python function was asked that looks at several rows at once or at a "
    "row's place, or a statistic that one row can move by more than its declared sensitivity: then {then}. everhold "
    "tries both on training or made-up rows, which does not prove it."
)
_TOO_LITTLE_NOISE = "the noise was too small for what it hid"
_TOO_NARROW = "the intervals may be too narrow"
_NOT_PROMISED = (
    "Truth about another population than the one the rows were drawn from, or about the same one at another time.",
    "Anything that was asked of these rows outside everhold, or through another holdout that was made from them or "
    "from rows that depend on them.",
    _TRUSTED_CODE.format(then=_TOO_LITTLE_NOISE),
    "That an analyst reads an answer rightly, or that a query measures what it is meant to measure.",
    "Anything about who asked, or about what the steward did, who sealed the rows and holds the key: the certificate "
    "binds what the ledger holds, and nothing else.",
)
_SECRECY = "Secrecy of single rows{beyond}."
_SEALED_AGAIN = (
    "Anything about queries that were chosen after somebody had seen answers about these very rows from another "
    "holdout: they were sealed more than once, and budgets do not add up."
)
_UNITS = (
    "The half-width is for queries whose value for a row lies between 0 and 1 (what lies beyond is cut off "
    "there); for a query with other ends it grows with their distance. {ratios} Every answer came with an interval "
    "of its own; all of these intervals hold together, with the same probability."
)
_RATIOS = "A conditional mean is two such queries, and its interval follows from both."
_RATIOS_OF_ONE = (
    "A conditional mean is one query where training rows say how its values spread, and else two, from which its "
    "interval follows. A statistic of all rows together, such as an AUC, has a half-width of its own, which may be "
    "larger, and is promised for sets of as many rows."
)
_PRESUPPOSED = (
    "as arrays or files. If such predictions were made from the rows' features, whoever made them has seen these "
    "features or something computed from them, and the assumption that nobody who asks has seen them is wrong. "
    "What remains promised then, for every answer, is its value for labels drawn anew on these rows: an estimator "
    "or a text expression may fit these rows and no others."
)
_MADE_ROW_BY_ROW = (
    "as arrays or files. If whoever made them has seen the features of several sealed rows, nothing is promised of "
    "them, nor of any other answer: the table was split by its labels, so the labels of such rows tell of each other."
)
_ENGINES = {
    "clickhouse": "ClickHouse", "duckdb": "DuckDB", "postgresql": "PostgreSQL", "spark": "Apache Spark",
    "bigquery": "BigQuery", "snowflake": "Snowflake", "trino": "Trino",
}  # fmt: skip
_ASSUMED_OF_AN_ENGINE = (
    "nobody who asks can read the sealed table in {engine}, or has seen what somebody read there: the rows stay in it, "
    "everhold did not lock them away, and whoever administers it, or may read the table, can"
)
_UNCHANGED_SNAPSHOT = (
    "{engine} still has the snapshot {snapshot!r} of the table {table!r} as it was, at which all answers were read"
)
_UNCHANGED_TABLE = (
    "the table {table!r} in {engine} held the sealed rows whenever an answer was read: its rows were compared with "
    "their fingerprint when the holdout was opened and before this certificate, and a change that was taken back in "
    "between is not noticed"
)
_OPEN_TABLE = (
    "nobody wrote into the open table {table!r}, from which guesses were made, what only the sealed rows could say: at "
    "each opening no more than its columns and the number of its rows was compared"
)
_OF_AN_ENGINE = (
    "Secrecy of the sealed rows, of the queries or of what answers cost in time towards whoever administers "
    "{engine}: they stay there, its logs may hold every statement, which says what was asked and never what was "
    "answered, and the time that an answer takes is the engine's own and may depend on the rows."
)
_BANNER_WITHOUT_NOISE = (
    "Simulation. This holdout was created with a seed. This certificate is for trying out and for tests; do not rely "
    "on it for a decision about real rows."
)
_BANNER = (
    "Simulation. The source of noise of this holdout was seeded and can be predicted. This certificate is for "
    "trying out and for tests; do not rely on it for a decision about real rows."
)


def with_words(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return a certificate with explanations of its facts added, section by section.

    Raises:
        KeyError: If the facts are about a mechanism that everhold does not know.
    """
    kind, dependence, rows = MECHANISMS[facts["mechanism"]["name"]], facts["assumptions"]["dependence"], facts["rows"]
    simulation, public = bool(facts["issue"]["simulation"]), rows["features"] == "public"
    depend = dependence.get("kind") != "independent"
    engine = rows.get("engine")
    noisy, epsilon = kind.traits.adds_noise, facts["privacy"]["epsilon"]
    tells_rows = epsilon is None or epsilon > _LARGE_EPSILON
    words: dict[str, dict[str, Any]] = {
        "promise": {
            "sentence": promise_sentence(facts, simulation=simulation),
            "explanation": [
                *_explanation(facts["promise"], kind, rows),
                *gates_in_words(facts["account"].get("gates"), rows),
                *competition_in_words(facts["account"].get("competition"), rows),
                *counting_words(facts),
            ],
        },
        "assumptions": {
            "always": [
                _UNSEEN[rows["features"]],
                _GIVEN_FEATURES if public else _ONE_LAW if kind.traits.one_law else _POPULATION,
                *_said_of_shares(_GIVEN_SHARES, rows),
                *assumed_independent(rows, dependence),
                *(_ASSUMED_OF_DEPENDENT_ROWS if depend else ()),
                *_assumed_of(engine),
                *([_OPEN_TABLE.format(**rows["training_table"])] if "training_table" in rows else []),
            ],
            "how_to_tell": [
                *getattr(MODELS.get(str(dependence.get("kind"))), "how_to_tell", _HOW_TO_TELL_OTHERWISE),
                *_presupposed(facts["account"]["by_position"], rows),
                *(_WARNED.format(text=text) for text in rows.get("warned", ())),
            ],
        },
        "mechanism": {"explanation": _explained(facts, kind)},
        "theorem": {
            "says": _theorem(facts, kind, depend=depend),
            "source": _source(str(facts["theorem"]["statement"]), kind.presentation.page, by_description(facts)),
        },
        "privacy": {"explanation": _privacy(facts["privacy"], kind, depend=depend, simulation=simulation)},
        "not_promised": {
            "items": [
                *([_SEALED_AGAIN] if rows.get("also_sealed_as") else []),
                _SECRECY.format(beyond="" if tells_rows else " beyond what the section on privacy states"),
                *([_OTHER_ROWS] if public else []),
                *_said_of_shares(_OTHER_SHARES, rows),
                *([] if engine is None else [_OF_AN_ENGINE.format(engine=engine_name(engine))]),
                *(text if noisy else text.replace(_TOO_LITTLE_NOISE, _TOO_NARROW) for text in _NOT_PROMISED),
            ]
        },
        "issue": {"banner": (_BANNER if noisy else _BANNER_WITHOUT_NOISE) if simulation else None},
        "summary": summary_words(facts, kind, simulation=simulation),
    }
    return {**facts, **{name: {**facts.get(name, {}), **said} for name, said in words.items()}}


def is_endless(mechanism: Mapping[str, Any]) -> bool:
    """Return whether queries are still answered when the budget is used up."""
    return mechanism["parameters"].get("endless") is True


def engine_name(engine: Mapping[str, Any]) -> str:
    """Return the name of an engine for sentences."""
    return _ENGINES.get(engine["kind"], str(engine["kind"]))


def _assumed_of(engine: Mapping[str, Any] | None) -> list[str]:
    """Return assumptions about rows in an engine, empty for rows in a file."""
    if engine is None:
        return []
    unchanged = _UNCHANGED_TABLE if engine["snapshot"] is None else _UNCHANGED_SNAPSHOT
    facts = {"engine": engine_name(engine), "table": engine["table"], "snapshot": engine["snapshot"]}
    return [said.format(**facts) for said in (_ASSUMED_OF_AN_ENGINE, unchanged)]


def promise_sentence(facts: Mapping[str, Any], *, simulation: bool) -> str:
    """Return the promise in one sentence, and one for each column that the steward declared independent.

    If ``simulation`` is True, the first sentence says that it is a simulation only.
    """
    assumed = assumed_independent(facts["rows"], facts["assumptions"]["dependence"])
    return " ".join([_sentence(facts, simulation=simulation), *(f"Here {text}." for text in assumed)])


def _sentence(facts: Mapping[str, Any], *, simulation: bool) -> str:
    """Return the promise in one sentence without the assumptions about columns.

    `simulation` is as for `promise_sentence`.
    """
    promise, value, kind = facts["promise"], value_in_words(facts["rows"]), MECHANISMS[facts["mechanism"]["name"]]
    rows_are = str(facts["assumptions"]["dependence"].get("kind", "unknown"))
    rows_are = MODELS[rows_are].rows_are if rows_are in MODELS else f"rows: {rows_are.replace('_', ' ')}"
    basis = f"(statement {promise['statement']}, {rows_are})"
    before = "Simulation only: " if simulation else ""
    if promise["radius"] is None:
        return f"{before}Nothing is promised: the half-width is infinite {basis}."
    holds = f"with probability {percent(promise['confidence'])} {basis}"
    if (said := board_promise(facts.get("account", {}).get("competition"), value=value, holds=holds)) is not None:
        return before + said
    radius, queries = at_most(promise["radius"]), counted(promise["queries"], "query")
    surprises = "" if promise["surprises"] is None else f" or {counted(promise['surprises'], 'surprise')}"
    return before + kind.presentation.sentence.format(
        queries=queries,
        budget=queries + surprises,
        answers=counted(promise["queries"], "answer"),
        submissions=counted(promise["queries"], "submission"),
        are="is" if (promise["surprises"] or promise["queries"]) == 1 else "are",
        radius=radius,
        reach=f"within {radius} of {value}",
        best="best population value" if value == OF_POPULATION else value.replace("the", "best", 1),
        holds=holds,
    )


def _said_of_shares(said: str, rows: Mapping[str, Any]) -> list[str]:
    """Return a list with a sentence about a stratified split, or an empty list if the sentence does not apply."""
    return [said.format(column=rows["stratified"])] if "stratified" in rows and rows["features"] != "public" else []


def _explanation(promise: Mapping[str, Any], kind: type[Mechanism], rows: Mapping[str, Any]) -> list[str]:
    """Return the sentences that explain the promise: units, public features, surprises."""
    said = [_UNITS.format(ratios=_RATIOS_OF_ONE if kind.traits.unsealable else _RATIOS)]
    if promise["radius"] is None or promise["radius"] >= _USELESS_RADIUS:
        said.insert(0, "This half-width is half the range or more: the promise says next to nothing.")
    if rows["features"] == "public":
        said.append(_PUBLIC_FEATURES)
    elif rows["label"] is not None and not kind.traits.one_law:
        said.append(_SHARES_BY_POSITION if by_labels(rows) else _BY_POSITION)
    said += _said_of_shares(_SHARES, rows)
    said.append(
        "Queries may be chosen freely, each with all earlier answers in hand." if kind.traits.adaptive else
        "If even one query was chosen after an answer was seen, nothing is promised about that query."
    )  # fmt: skip
    if promise["surprises"] is not None:
        promotion = ", or the promotion of a challenger" if kind.traits.unsealable else ""
        said.append(
            f"A surprise is an answer that came from the sealed rows because the guess was not confirmed{promotion}."
        )
    if promise["spends_only_beyond"]:
        whom = "to a mean " if kind.traits.unsealable else ""
        said.append(
            f"With the same probability, within the plan, a surprise is charged {whom}only where the guess is at least "
            f"{at_least(promise['spends_only_beyond'])} away from {value_in_words(rows)}."
        )
    return said


def _presupposed(by_position: int, rows: Mapping[str, Any]) -> list[str]:
    """Return assumptions about predictions by row position, or an empty list if no query used such predictions."""
    if not by_position or rows["features"] == "public":
        return []
    were = "was" if by_position == 1 else "were"
    if by_labels(rows):
        return [f"{counted(by_position, 'query')} {were} about predictions for these very rows, {_MADE_ROW_BY_ROW}"]
    return [f"{counted(by_position, 'query')} {were} about predictions for these very rows, {_PRESUPPOSED}"]


def _theorem(facts: Mapping[str, Mapping[str, Any]], kind: type[Mechanism], *, depend: bool) -> str:
    """Return sentences on the proof of the promise.

    `depend` is true if rows are declared to depend on each other.
    """
    said = [kind.presentation.theorem]
    if depend:
        said.append(_TRANSFER_OF_DEPENDENT_ROWS if kind.traits.leakage else _CONCENTRATION_OF_DEPENDENT_ROWS)
    if facts["rows"]["features"] == "public":
        said.append(_LAW_GIVEN_FEATURES)
    said += _said_of_shares(_LAW_GIVEN_SHARES, facts["rows"])
    parameters = facts["mechanism"]["parameters"]
    share, bits = float(parameters.get("share") or 0.0), int(parameters.get("text_bits") or 0)
    if share:
        said.append(_BETA_IS_SHARED.format(share=percent(share)))
    if any(family["later"] for family in facts["account"].get("declared", ())):
        said.append(_DECLARED_LATER)
    if bits:
        said.append(_TEXTS.format(bits=bits))
    of_the_tree = (1.0 - facts["promise"]["confidence"]) * (1.0 - share)
    if facts["theorem"]["numbers"].get("beta", 1.0) < of_the_tree * (1.0 - _ROUNDING):
        said.append(_LESS_THAN_BETA)
    return " ".join(said)


def by_description(facts: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether some queries have levels by description: declared families or short texts (S10)."""
    parameters = facts["mechanism"]["parameters"]
    return bool(parameters.get("share") or parameters.get("text_bits") or facts["account"].get("declared"))


def _explained(facts: Mapping[str, Mapping[str, Any]], kind: type[Mechanism]) -> str:
    """Explain in words how answers are made."""
    said = kind.presentation.explained(endless=is_endless(facts["mechanism"]))
    declared = facts["mechanism"]["parameters"].get("share") or facts["account"].get("declared")
    return f"{said} {_NO_GUESS}" if declared else said


def _source(statement: str, page: str, by_description: bool) -> str:
    """Return a sentence on where the proof of a statement is published.

    `by_description` is true if queries may also have levels by their description (S10).
    """
    if by_description:
        return (
            f"Statement {statement}, and statement S10 for declared families and short texts, derived, with their "
            f"proofs, in the documentation of everhold: Theory, pages “{page}” and “families”. "
            "They rest on the assumptions above."
        )
    kind = "published" if statement.startswith("P") else "derived, with its proof,"
    cited = " (Hoeffding 1963)" if statement == "P9" else ""
    return (
        f"Statement {statement}{cited}, {kind} in the documentation of everhold: Theory, page “{page}”. "
        "It rests on the assumptions above."
    )


def _privacy(privacy: Mapping[str, Any], kind: type[Mechanism], *, depend: bool, simulation: bool) -> list[str]:
    """Return sentences on how much the answers reveal about single rows.

    `depend` is true if rows are declared to depend on each other, and `simulation` if noise has a known seed.
    """
    epsilon, delta = privacy["epsilon"], privacy["delta"]
    if simulation and kind.traits.adds_noise:
        return ["No privacy of single rows is promised: the noise can be predicted from the seed of the simulation."]
    if epsilon is None:
        return [
            f"No privacy of single rows is promised: {kind.presentation.no_privacy}. Answers may reveal single rows."
        ]
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
    if depend:
        said.append("Rows that tell about each other are protected less: this counts one replaced row at a time.")
    return said


_GATES_OF_CASES = (
    "At a gate about cases, a version is named by the SHA-256 of its name there. Each champion also fulfils the guards "
    "that the metric names, against the baseline, which is fixed. Where the metric says that it is about new runs of "
    "these cases, promotions promise that in place of the population: the version is better on average in new runs of "
    "these very cases."
)


_SHARES_OF_BOARDS = ("accuracy", "error", "error rate", "brier", "Brier score")
"""Metrics of boards whose scores are means over [0, 1], of which a promise can name the half-width."""

_BOARD = (
    "Every interval on the board contains the true score, which is {value}, all of them at once, {holds}. How wide an "
    "interval is depends on the submission."
)


def board_promise(competition: Mapping[str, Any] | None, *, value: str, holds: str) -> str | None:
    """Return the promise of a leaderboard whose scores are not means over [0, 1], or None for other leaderboards."""
    if competition is None or str(competition["metric"]).partition(" (")[0] in _SHARES_OF_BOARDS:
        return None
    return _BOARD.format(value=value, holds=holds)


def gates_in_words(gates: Any, rows: Mapping[str, Any]) -> list[str]:
    """Return sentences on the meaning of promotions, empty without a gate."""
    if not gates:
        return []
    return [
        "A gate has a champion, which gives way only to a challenger that is proved to be better. With the same "
        "probability, together with all answers, every promotion that is listed in this certificate is true: by the "
        f"gate's metric, {value_in_words(rows)} of the challenger is better than that of the champion before by more "
        "than the margin, however many other challengers failed and however all of them were chosen. That a champion "
        "was kept promises nothing. A model is named by the SHA-256 of the query about it.",
        *([_GATES_OF_CASES] if any(gate["metric"].startswith("cases: ") for gate in gates) else []),
    ]


def public_in_words(public: Mapping[str, Any]) -> str:
    """Return a text on the promise about the public rows of a competition."""
    return (
        f"Scores before the end are about {public['rows']:,} public rows. The final board is about the other rows, of "
        f"which nothing is told before. A team's public score is its best so far, in steps of {shown(public['step'])}. "
        "It rises only for a file that is better by more than a step, so trying many files moves it little by luck. "
        f"Each score has an interval: with probability {percent(public['confidence'])} all of these hold at once, "
        "however teams chose their files. They are wide, and widen with every rise of any team."
    )


def competition_in_words(competition: Mapping[str, Any] | None, rows: Mapping[str, Any]) -> list[str]:
    """Return sentences on the meaning of a leaderboard, empty without a competition."""
    if competition is None:
        return []
    told = {
        "none": "that it was received, and nothing else",
        "leader": "whether it is proved to be better than the leader",
        "score": "an answer about its score",
    }.get(competition["feedback"], "something else")
    if public := competition.get("public"):
        told = "its team's public score"
    said = [
        f"The rows were sealed for a competition by {competition['metric']}. What a submission is told before the end "
        f"was decided then: {told}."
    ]
    if public:
        said.append(public_in_words(public))
    if competition["rows"]:
        said.append(
            "The leaderboard of this certificate is final. With the same probability, all at once, every interval "
            f"contains {value_in_words(rows if by_labels(rows) else {**rows, 'features': 'public'})}, and every place "
            "holds: it is one more than the number of teams that are proved to be better, by the paired difference of "
            "final submissions, row by row. Of teams that share a place these rows do not tell who is better."
        )
    return said
