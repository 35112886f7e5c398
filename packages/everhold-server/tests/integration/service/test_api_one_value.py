"""One entry has one value: ask, transcript, API, command line, pages, charts, unsealing and certificate agree."""

import json

import numpy as np
import pytest
from holdout_samples import copied, guess_and_check
from service_samples import API, STEWARD, serving
from typer.testing import CliRunner

import everhold as eh
from everhold.cli.application import app as command

ZEROS, KNOWN = np.zeros(1_000), np.zeros(1_000)
NUMBERS = ("value", "low", "high")


def queries():
    """Every kind of query with one entry, in units other than a mean over [0, 1] where there are such."""
    return [
        ("delay > 0", None),
        (eh.mean("delay", low=-60, high=60), None),
        (eh.mean("delay", low=-60, high=60, given="late = 1"), 7.0),
        (eh.difference(eh.mean("delay > 9"), eh.mean("delay > 0")), None),
        (eh.difference(eh.error(ZEROS), eh.error(1 - ZEROS)), 0.0),
        (eh.ratio("late = 1", "delay > 3"), None),
        (eh.accuracy(ZEROS), 0.5),
        (eh.error(ZEROS), 0.5),
        (eh.precision(1 - ZEROS, training=1 - KNOWN), None),
        (eh.recall(1 - ZEROS, training=1 - KNOWN), None),
        (eh.f1(1 - ZEROS, training=1 - KNOWN), None),
        (eh.brier(ZEROS + 0.4), 0.26),
        (eh.risk(ZEROS, "squared", high=4), 0.5),
    ]


@pytest.fixture
def asked(tmp_path):
    """A holdout, and its answers by the number of the entry."""
    with copied(tmp_path, mechanism=guess_and_check(surprises=20, tolerance=0.45)) as holdout:
        holdout.allot("ada", queries=1, charges=1)
        answers = {}
        for query, guess in queries():
            answer = holdout.ask(query, guess=guess)
            row = next(row for row in holdout.transcript().rows if row["query"] == answer.query)
            answers.setdefault(row["sequence"], (query, answer))
        yield tmp_path, holdout, answers


def numbers(row, names=NUMBERS):
    return [row[name] for name in names]


def test_every_surface_tells_the_numbers_that_ask_returned(asked):
    folder, holdout, answers = asked
    told = {number: [answer.value, answer.low, answer.high] for number, (_, answer) in answers.items()}
    assert len(told) >= len(queries()) - 1  # an error is an accuracy turned round
    assert {number: row[0] for number, row in told.items() if row[0] < 0.0 or row[0] > 1.0}

    assert {row["sequence"]: numbers(row) for row in holdout.transcript().rows} == told

    printed = CliRunner().invoke(command, ["transcript", f"{folder}/study.db", "study", "--format", "json"])
    assert {row["sequence"]: numbers(row) for row in json.loads(printed.stdout)["entries"]} == told

    with serving(folder) as http_client:
        client, path = http_client(STEWARD), f"{API}/holdouts/study"
        assert {row["sequence"]: numbers(row) for row in client.get(f"{path}/transcript").json()["rows"]} == told
        assert {row["sequence"]: numbers(row) for row in client.get(f"{path}/answers").json()["answers"]} == told
        assert {number: numbers(client.get(f"{path}/answers/{number}").json()) for number in told} == told

    chosen = holdout.certificate(list(told)[:3]).to_dict()["summary"]["answers"]
    assert [numbers(fact) for fact in chosen] == [told[number] for number in list(told)[:3]]

    unsealed = {row["sequence"]: numbers(row, ("sealed", "sealed_low", "sealed_high")) for row in holdout.unseal().rows}
    again = {number: holdout.ask(query) for number, (query, _) in answers.items()}
    assert unsealed == {number: [a.sealed, a.sealed_low, a.sealed_high] for number, a in again.items()}
    for row in holdout.transcript().rows:
        assert numbers(row) == told[row["sequence"]]
        assert numbers(row, ("sealed", "sealed_low", "sealed_high")) == unsealed[row["sequence"]]
