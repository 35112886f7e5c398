"""Choose, quantile, above and synthesize: results, prices, refusals and hostile universe files."""

import csv
import json

import pytest
from cli_samples import SECRET, write_rows

from everhold.holdout import Holdout

PLACE = ("s.db", "paid")
CELLS = {"columns": [{"name": "carrier", "values": ["AA", "UA"]}, {"name": "delay", "edges": [-30, 0, 15, 60]}]}
CHOOSE = ["choose", *PLACE, "--mean", "delay > 30", "--mean", "delay > 0", "--mean", "delay > 15", "--price", "900"]
ABOVE = ["above", *PLACE, "--mean", "delay > 60", "--mean", "delay > -20", "--threshold", "0.4", "--price", "900"]
QUANTILE = ["quantile", *PLACE, "delay", "--low", "-60", "--high", "80", "--price", "900"]
SYNTHESIZE = ["synthesize", *PLACE, "--universe", "cells.json", "--price", "900"]


@pytest.fixture(scope="module")
def sealed(tmp_path_factory):
    """A folder with one holdout that has a budget."""
    folder = tmp_path_factory.mktemp("purchases")
    write_rows(folder, "sealed", rows=4_000, first_id=0)
    Holdout.create(
        folder / "s.db",
        "paid",
        holdout=folder / "sealed.csv",
        label="late",
        row_id="id",
        mechanism="privacy_budget",
        queries=100,
    ).close()
    return folder


@pytest.fixture
def paid(sealed, monkeypatch):
    """The folder as the current one; its budget lasts for all tests."""
    monkeypatch.chdir(sealed)
    monkeypatch.delenv("EVERHOLD_STORAGE", raising=False)
    (sealed / "cells.json").write_text(json.dumps(CELLS))
    return sealed


def left():
    with Holdout.open(*PLACE) as holdout:
        return holdout.remaining


def as_json(everhold, *arguments):
    return json.loads(everhold(*arguments, "--format", "json").stdout)


@pytest.mark.parametrize(
    ("command", "columns"),
    [
        (CHOOSE, ["index", "candidate", "regret"]),
        (QUANTILE, ["low", "high", "quantile", "error"]),
        (ABOVE, ["index", "found", "asked", "threshold", "within"]),
        ([*SYNTHESIZE, "--output", "t.csv"], ["method", "cells", "questions", "within"]),
    ],
    ids=lambda value: value[0],
)
def test_what_is_bought_is_the_same_in_every_format_and_again_for_nothing(paid, everhold, command, columns):
    before = left()["credits"]
    first = as_json(everhold, *command)
    assert list(first)[: len(columns)] == columns
    assert first["charged"] == 900
    assert left()["credits"] == before - 900 == first["remaining"]["credits"]
    again = as_json(everhold, *command)
    assert again == {**first, "charged": 0}
    (line,) = csv.DictReader(everhold(*command, "--format", "csv").stdout.splitlines())
    assert line["question"] == first["question"]
    table = everhold(*command)
    assert table.stdout.split()[: len(columns)] == columns
    assert table.stderr == ""


@pytest.mark.parametrize("command", [CHOOSE, QUANTILE, ABOVE, SYNTHESIZE], ids=lambda value: value[0])
def test_a_dry_run_costs_nothing_and_names_the_price(paid, everhold, command):
    before = left()
    price = as_json(everhold, *command[:-1], "123", "--dry-run")
    assert (price["charged_at_most"], price["answered_before"]) == (123, False)
    assert price["radius"] > 0
    assert left() == before


@pytest.mark.parametrize("command", [CHOOSE, QUANTILE, ABOVE, SYNTHESIZE], ids=lambda value: value[0])
def test_a_refusal_is_told_and_strict_is_an_exit_code(paid, everhold, command):
    dear = [*command[:-1], "1000000"] + (["--output", "none.csv"] if command is SYNTHESIZE else [])
    before = left()
    for _ in range(2):
        refused = everhold(*dear, "--format", "json")
        assert refused.stderr.startswith("refused: what is left does not pay for it (")
        assert refused.stderr.endswith("; nothing was charged\n")
        assert json.loads(refused.stdout)["charged"] == 0
    everhold(*dear, "--strict", code=6)
    price = as_json(everhold, *dear, "--dry-run")  # nothing about a refusal is in the ledger
    assert (price["refused"], price["answered_before"], price["radius"], price["charged_at_most"]) == (
        True,
        False,
        None,
        0,
    )
    assert left() == before
    assert not (paid / "none.csv").exists()


def test_the_best_is_chosen_in_either_direction(paid, everhold):
    assert as_json(everhold, *CHOOSE[:-1], "800")["candidate"] == "mean of delay > 30"
    assert as_json(everhold, *CHOOSE[:-1], "800", "--highest")["candidate"] == "mean of delay > 0"


def test_models_are_chosen_by_their_predictions(paid, everhold):
    lines = csv.DictReader((paid / "sealed.csv").read_text().splitlines())
    wrong = "".join(f"{line['id']},{1 - int(line['late'])}\n" for line in lines)
    (paid / "wrong.csv").write_text("id,late\n" + wrong)
    files = ("--error", "wrong.csv", "--error", "sealed_predictions.csv")
    chosen = as_json(everhold, "choose", *PLACE, *files, "--price", "900")
    assert (chosen["index"], chosen["candidate"]) == (1, "error of sealed_predictions.csv")
    found = as_json(everhold, "above", *PLACE, *files, "--threshold", "0.5", "--price", "700")
    assert (found["index"], found["asked"]) == (0, "error of wrong.csv")
    with Holdout.open(*PLACE) as holdout:
        asked = [row["asked"] for row in holdout.transcript().to_rows()]
    assert any(text.startswith("the lowest of 2: 1 - accuracy of predictions ") for text in asked)
    assert any(text.startswith("the first above 0.5 of 2: 1 - accuracy of predictions ") for text in asked)


def test_a_dry_run_says_what_the_radius_is(paid, everhold):
    for command, sharpness in ((CHOOSE, "a regret"), (QUANTILE, "an error of the level"), (SYNTHESIZE, "an error of")):
        said = everhold(*command[:-1], "77", "--dry-run").stderr
        assert said.startswith(f"it would cost 77 credits, for {sharpness}")
        assert said.endswith("; nothing was charged\n")


@pytest.mark.parametrize(("output", "reason"), [("t.txt", "such as table.csv"), ("none/t.csv", "a folder that exists")])
def test_nothing_is_charged_for_a_table_that_cannot_be_saved(paid, everhold, output, reason):
    before = left()
    refused = everhold(*SYNTHESIZE[:-1], "78", "--output", output, code=2)
    assert reason in refused.stderr
    assert "nothing was charged" in refused.stderr
    assert left() == before


def test_the_transcript_shows_how_sharp_a_choice_was(paid, everhold):
    regret = as_json(everhold, *CHOOSE[:-1], "810")["regret"]
    lines = list(csv.DictReader(everhold("transcript", *PLACE, "--format", "csv").stdout.splitlines()))
    (line,) = [line for line in lines if line["charged"] == "810"]
    assert float(line["within"]) == pytest.approx(regret)


def test_questions_may_come_from_a_file(paid, everhold):
    (paid / "q.txt").write_text("delay > 60\n\ndelay > -20\n")
    command = ["above", *PLACE, "--questions", "q.txt", "--threshold", "0.4", "--price", "900"]
    assert as_json(everhold, *command)["asked"] == as_json(everhold, *ABOVE)["asked"] == "mean of delay > -20"


def test_the_storage_may_be_in_the_environment(paid, everhold):
    here = {"EVERHOLD_STORAGE": "s.db"}
    named = as_json(everhold, *QUANTILE)
    found = json.loads(everhold("quantile", "paid", *QUANTILE[3:], "--format", "json", env=here).stdout)
    assert found["question"] == named["question"]
    assert "there is no number" in everhold("quantile", "paid", *QUANTILE[4:], env=here, code=2).stderr


def test_the_table_has_a_line_for_each_cell_in_both_forms(paid, everhold):
    for ending in ("csv", "parquet"):
        everhold(*SYNTHESIZE, "--output", f"table.{ending}")
    lines = list(csv.DictReader((paid / "table.csv").read_text().splitlines()))
    assert len(lines) == 12
    assert sum(float(line["weight"]) for line in lines) == pytest.approx(1.0)
    assert {line["carrier"] for line in lines} == {"AA", "UA", "other"}
    assert SECRET not in (paid / "table.csv").read_text()
    assert (paid / "table.parquet").read_bytes()[:4] == b"PAR1"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["choose", *PLACE], "found none"),
        (["choose", *PLACE, "--mean", "late = 1", "--error", "sealed_predictions.csv"], "found --mean and --error"),
        (["choose", *PLACE, "--error", "sealed_predictions.csv", "--low", "0"], "belong to --mean"),
        (["above", *PLACE, "--mean", "late = 1", "--column", "x", "--threshold", "0.1"], "--column belongs to"),
        (["above", *PLACE, "--questions", "empty.txt", "--threshold", "0.1"], "holds no question"),
        (["above", *PLACE, "--questions", "bytes.txt", "--threshold", "0.1"], "no text in UTF-8"),
        (["above", *PLACE, "--mean", "late = 1"], "threshold"),
        (SYNTHESIZE, "expected a file such as table.csv or table.parquet"),
        ([*SYNTHESIZE, "--output", "t.xlsx"], "expected a file such as table.csv or table.parquet"),
    ],
)
def test_wrong_usage_is_explained(paid, everhold, arguments, reason):
    (paid / "empty.txt").write_text("\n \n")
    (paid / "bytes.txt").write_bytes(b"\xff\xfe\x00")
    before = left()
    assert reason in everhold(*arguments, code=2).stderr
    assert left() == before


HOSTILE = [
    b"", b"[]", b"null", b"\xff\xff", b"{", b'{"columns": {}}', b'{"columns": []}', b'{"columns": [3]}',
    b'{"columns": [], "more": 1}', b'{"columns": [{"name": 3, "values": ["a"]}]}',
    b'{"columns": [{"name": "carrier"}]}', b'{"columns": [{"name": "carrier", "values": "AA"}]}',
    b'{"columns": [{"name": "carrier", "values": [["AA"]]}]}', b'{"columns": [{"name": "carrier", "values": [NaN]}]}',
    b'{"columns": [{"name": "carrier", "values": ["AA", "AA"]}]}',
    b'{"columns": [{"name": "carrier", "values": ["AA"], "rest": "BB"}]}',
    b'{"columns": [{"name": "carrier", "values": ["AA"], "rest": []}]}',
    b'{"columns": [{"name": "carrier", "values": ["AA"], "edges": [1, 2]}]}',
    b'{"columns": [{"name": "delay", "edges": [1]}]}', b'{"columns": [{"name": "delay", "edges": [2, 1]}]}',
    b'{"columns": [{"name": "delay", "edges": [0, Infinity]}]}',
    b'{"columns": [{"name": "delay", "edges": [0, true]}]}',
    b'{"columns": [{"name": "delay", "edges": [0, "1"]}]}',
    b'{"columns": [{"name": "delay", "edges": [0, 1' + b"0" * 400 + b"]}]}",
    b'{"columns": [{"name": "\\u001b[2J", "values": ["a"]}]}', b'{"columns": [{"name": "\\ud800", "values": ["a"]}]}',
    b'{"columns": [{"name": "carrier", "values": ["\\ud800"]}]}', b"[" * 100_000,
    b'{"columns": [' + b", ".join(b'{"name": "%d", "edges": [0, 1, 2, 3]}' % i for i in range(30)) + b"]}",
]  # fmt: skip


@pytest.mark.parametrize("content", HOSTILE, ids=lambda content: repr(content[:60]))
def test_a_file_that_holds_no_universe_is_refused_and_costs_nothing(paid, everhold, content):
    (paid / "cells.json").write_bytes(content)
    before = left()
    error = everhold(*SYNTHESIZE, "--marginals", "1", "--output", "t.csv", code=5).stderr
    assert "nothing was charged" in error
    assert "\x1b" not in error
    assert left() == before


def test_marginals_that_do_not_exist_and_files_that_are_missing(paid, everhold):
    assert "width is 3" in everhold(*SYNTHESIZE, "--marginals", "3", "--output", "t.csv", code=5).stderr
    (paid / "cells.json").unlink()
    everhold(*SYNTHESIZE, "--output", "t.csv", code=1)
