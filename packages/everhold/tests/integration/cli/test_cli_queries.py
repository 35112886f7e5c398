"""Every kind of query on the command line: results, prices, refusals and hostile files."""

import csv
import json

import pytest
from cli_samples import SECRET, write_rows

from everhold.holdout import Holdout
from everhold.sealing.intake.request import Planning, Rows

PLACE = ("s.db", "paid")
CELLS = {"columns": [{"name": "carrier", "values": ["AA", "UA"]}, {"name": "delay", "edges": [-30, 0, 15, 60]}]}
CHOOSE = [
    "ask",
    *PLACE,
    "--private-choose",
    "lowest",
    "--mean",
    "delay > 30",
    "--mean",
    "delay > 0",
    "--mean",
    "delay > 15",
    "--price",
    "900",
]
ABOVE = [
    "ask",
    *PLACE,
    "--private-first-above",
    "0.4",
    "--mean",
    "delay > 60",
    "--mean",
    "delay > -20",
    "--price",
    "900",
]
QUANTILE = ["ask", *PLACE, "--private-quantile", "delay", "--low", "-60", "--high", "80", "--price", "900"]
SYNTHESIZE = ["ask", *PLACE, "--private-synthesize", "cells.json", "--price", "900"]


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
        rows=Rows(row_id="id"),
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
        ([*SYNTHESIZE, "--output", "t.csv"], ["method", "cells", "queries", "within"]),
    ],
    ids=str,
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
    assert line["query"] == first["query"]
    table = everhold(*command)
    assert table.stdout.split()[: len(columns)] == columns
    assert table.stderr == ""


@pytest.mark.parametrize("command", [CHOOSE, QUANTILE, ABOVE, SYNTHESIZE], ids=lambda value: value[3])
def test_a_quote_costs_nothing_and_names_the_price(paid, everhold, command):
    before = left()
    price = as_json(everhold, "quote", *command[1:-1], "123")
    assert (price["charged_at_most"], price["answered_before"]) == (123, False)
    assert price["radius"] > 0
    assert left() == before


@pytest.mark.parametrize("command", [CHOOSE, QUANTILE, ABOVE, SYNTHESIZE], ids=lambda value: value[3])
def test_a_refusal_is_told_and_strict_is_an_exit_code(paid, everhold, command):
    dear = [*command[:-1], "1000000"] + (["--output", "none.csv"] if command is SYNTHESIZE else [])
    before = left()
    for _ in range(2):
        refused = everhold(*dear, "--format", "json")
        assert refused.stderr.startswith("refused: what is left does not pay for it (")
        assert refused.stderr.endswith("Nothing was charged.\n")
        assert json.loads(refused.stdout)["charged"] == 0
    everhold(*dear, "--strict", code=6)
    price = as_json(everhold, "quote", *command[1:-1], "1000000")  # nothing about a refusal is in the ledger
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
    highest = [option.replace("lowest", "highest") for option in CHOOSE[:-1]]
    assert as_json(everhold, *highest, "800")["candidate"] == "mean of delay > 0"


def test_models_are_chosen_by_their_predictions(paid, everhold):
    lines = csv.DictReader((paid / "sealed.csv").read_text().splitlines())
    wrong = "".join(f"{line['id']},{1 - int(line['late'])}\n" for line in lines)
    (paid / "wrong.csv").write_text("id,late\n" + wrong)
    files = ("--error", "wrong.csv", "--error", "sealed_predictions.csv")
    chosen = as_json(everhold, "ask", *PLACE, "--private-choose", "lowest", *files, "--price", "900")
    assert (chosen["index"], chosen["candidate"]) == (1, "error of sealed_predictions.csv")
    found = as_json(everhold, "ask", *PLACE, "--private-first-above", "0.5", *files, "--price", "700")
    assert (found["index"], found["asked"]) == (0, "error of wrong.csv")
    with Holdout.open(*PLACE) as holdout:
        asked = [row["asked"] for row in holdout.transcript().to_rows()]
    assert any(text.startswith("the lowest of 2: error of predictions ") for text in asked)
    assert any(text.startswith("the first above 0.5 of 2: error of predictions ") for text in asked)


@pytest.mark.parametrize(("output", "reason"), [("t.txt", "such as table.csv"), ("none/t.csv", "a folder that exists")])
def test_nothing_is_charged_for_a_table_that_cannot_be_saved(paid, everhold, output, reason):
    before = left()
    refused = everhold(*SYNTHESIZE[:-1], "78", "--output", output, code=2)
    assert reason in refused.stderr
    assert left() == before


def test_the_transcript_shows_how_sharp_a_choice_was(paid, everhold):
    regret = as_json(everhold, *CHOOSE[:-1], "810")["regret"]
    lines = list(csv.DictReader(everhold("transcript", *PLACE, "--format", "csv").stdout.splitlines()))
    (line,) = [line for line in lines if line["charged"] == "810"]
    assert float(line["within"]) == pytest.approx(regret)


def test_queries_may_come_from_a_file(paid, everhold):
    (paid / "q.txt").write_text("delay > 60\n\ndelay > -20\n")
    command = ["ask", *PLACE, "--private-first-above", "0.4", "--queries", "q.txt", "--price", "900"]
    assert as_json(everhold, *command)["asked"] == as_json(everhold, *ABOVE)["asked"] == "mean of delay > -20"


def test_the_storage_may_be_in_the_environment(paid, everhold):
    here = {"EVERHOLD_STORAGE": "s.db"}
    named = as_json(everhold, *QUANTILE)
    found = json.loads(everhold("ask", "paid", *QUANTILE[3:], "--format", "json", env=here).stdout)
    assert found["query"] == named["query"]


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
        (["ask", *PLACE, "--private-choose", "lowest"], "the options have none"),
        (
            ["ask", *PLACE, "--private-choose", "lowest", "--mean", "late = 1", "--error", "sealed_predictions.csv"],
            "the options have --mean and --error",
        ),
        (
            ["ask", *PLACE, "--private-choose", "lowest", "--error", "sealed_predictions.csv", "--low", "0"],
            "is only for --mean",
        ),
        (
            ["ask", *PLACE, "--private-first-above", "0.1", "--mean", "late = 1", "--column", "x"],
            "--column is only for",
        ),
        (["ask", *PLACE, "--private-first-above", "0.1", "--queries", "empty.txt"], "has no query"),
        (["ask", *PLACE, "--private-first-above", "0.1", "--queries", "bytes.txt"], "not UTF-8 text"),
        (["ask", *PLACE, "--mean", "late = 1", "--mean", "late = 0"], "the options have --mean and --mean"),
        (["ask", *PLACE, "--private-quantile", "delay", "--low", "0"], "needs --high"),
        (
            ["ask", *PLACE, "--mean", "late = 1", "--queries", "empty.txt"],
            "--queries is only for --difference, --choose, --first-above, --all-above, "
            "--private-choose and --private-first-above",
        ),
        (["ask", *PLACE, "--mean", "late = 1", "--output", "t.csv"], "--output is only for --synthesize"),
        (["ask", *PLACE, "--auc", "sealed_predictions.csv", "--positives", "9"], "needs --negatives"),
        (SYNTHESIZE, "Pass a file such as table.csv or table.parquet"),
        ([*SYNTHESIZE, "--output", "t.xlsx"], "Pass a file such as table.csv or table.parquet"),
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
    assert "\x1b" not in error
    assert left() == before


def test_marginals_that_do_not_exist_and_files_that_are_missing(paid, everhold):
    assert "width is 3" in everhold(*SYNTHESIZE, "--marginals", "3", "--output", "t.csv", code=5).stderr
    (paid / "cells.json").unlink()
    everhold(*SYNTHESIZE, "--output", "t.csv", code=1)


def test_bins_losses_rankings_and_functions_are_asked_from_the_shell(paid, everhold):
    bins = as_json(everhold, "ask", *PLACE, "--histogram", "delay", "--edges", "0,30")["bins"]
    assert [line["bin"] for line in bins] == ["below 0", "[0.0, 30.0]", "above 30", "missing"]
    names = as_json(everhold, "ask", *PLACE, "--histogram", "carrier", "--edges", "AA,UA")["bins"]
    assert [line["bin"] for line in names] == ["AA", "UA", "other", "missing"]
    predictions = "sealed_predictions.csv"
    error = as_json(everhold, "ask", *PLACE, "--error", predictions)
    risk = as_json(everhold, "ask", *PLACE, "--risk", predictions, "--loss", "absolute")
    assert risk["value"] == pytest.approx(error["value"], abs=2 * (error["high"] - error["low"]))
    ranked = as_json(everhold, "ask", *PLACE, "--auc", predictions, "--positives", "1000", "--negatives", "1000")
    assert 0.0 <= ranked["low"] <= ranked["value"] <= ranked["high"] <= 1.0
    assert as_json(everhold, "ask", *PLACE, "--f1", predictions, "--least", "2000", "--tolerance", "0.5")["charged"] > 0
    (paid / "pulls.py").write_text(
        "import numpy as np\n"
        "def pull(table): return np.nan_to_num(table['delay'])[:, None] / 60\n"
        "def mean_late(table): return float(np.mean(table['late'] == 1))\n"
    )
    vector = as_json(everhold, "ask", *PLACE, "--gradient", "pulls.py:pull", "--dimension", "1", "--clip", "1")
    assert len(vector["values"]) == 1
    named = ("--low-sensitivity", "pulls.py:mean_late", "--sensitivity", "0.00025")
    first = as_json(everhold, "ask", *PLACE, *named)
    assert as_json(everhold, "ask", *PLACE, *named) == {**first, "charged": 0}
    assert "no function 'push'" in everhold("ask", *PLACE, "--gradient", "pulls.py:push", "--dimension", "1",
                                            "--clip", "1", code=5).stderr  # fmt: skip


def test_a_table_shows_the_query_and_not_its_hash(paid, everhold):
    said = everhold("ask", *PLACE, "--mean", "delay > 12").stdout
    assert "mean of delay > 12" in said
    assert as_json(everhold, "ask", *PLACE, "--mean", "delay > 12")["query"][:12] not in said


@pytest.mark.parametrize(
    "arguments",
    [
        ["--risk", "sealed_predictions.csv", "--loss", "hinge"],
        ["--auc", "sealed_predictions.csv", "--positives", "-3", "--negatives", "9"],
        ["--f1", "sealed_predictions.csv", "--least", "-1"],
        ["--gradient", "pulls.py:pull", "--dimension", "0", "--clip", "1"],
        ["--low-sensitivity", "pulls.py:pull", "--sensitivity", "-1"],
        ["--histogram", "delay", "--edges", "3,1"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_numbers_that_cannot_be_used_are_refused_and_cost_nothing(paid, everhold, arguments):
    (paid / "pulls.py").write_text("def pull(table): return table['delay'][:, None]\n")
    for command in ("ask", "quote"):
        assert "othing was charged" in everhold(command, *PLACE, *arguments, code=5).stderr


def test_categories_of_a_number_are_refused_with_the_fault(paid, everhold):
    said = everhold("ask", *PLACE, "--histogram", "delay", "--edges", "0,x,30", code=5).stderr
    assert "'delay' is a number, and bins has '0'. Pass numbers, such as" in said


def test_code_that_ends_the_process_is_refused(paid, everhold):
    (paid / "ends.py").write_text("import sys\nsys.exit(0)\n")
    said = everhold("ask", *PLACE, "--low-sensitivity", "ends.py:f", "--sensitivity", "0.1", code=5).stderr
    assert "ends.py fails with SystemExit" in said


def test_a_histogram_at_the_end_of_the_budget_says_what_it_cost(tmp_path, everhold, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Holdout.create("e.db", "e", holdout={"x": [i / 400 for i in range(400)]}, mechanism="gaussian", queries=3,
                        planning=Planning(allow_vacuous=True)):  # fmt: skip
        pass
    asked = ("ask", "e.db", "e", "--histogram", "x", "--edges", "0,0.2,0.4,0.6,0.8,1")
    assert everhold(*asked).stderr == "refused: 5 of 8 bins. The others charged 3.\n"
    strict = everhold(*asked, "--strict", code=6).stderr
    assert "The budget ran out at 'mean of (x) is not null and (x) >= 0.4" in strict
    assert "3 of 8 queries were answered ('mean of" in strict


def test_statistics_of_all_rows_are_held_against_guesses_from_the_shell(study, everhold):
    (study / "share.py").write_text("import numpy as np\ndef late(table): return float(np.mean(table['late'] == 1))\n")
    place, trained = ("s.db", "guessed"), ("--training-predictions", "train_predictions.csv")
    Holdout.create(
        *place,
        holdout="sealed.csv",
        training="train.csv",
        label="late",
        rows=Rows(row_id="id"),
        mechanism="guess_and_check",
        queries=20,
        surprises=2,
        allow_resealing=True,
    ).close()
    for arguments, option in (
        (("--auc", "sealed_predictions.csv", "--positives", "200", "--negatives", "200"), trained),
        (("--f1", "sealed_predictions.csv", "--least", "400"), trained),
        (("--low-sensitivity", "share.py:late", "--sensitivity", "0.001"), ()),
    ):
        price = as_json(everhold, "quote", *place, *arguments, *option)
        found = as_json(everhold, "ask", *place, *arguments, *option)
        assert (found["source"], found["charged"]) == ("training", 0)
        assert found["low"] <= found["value"] <= found["high"]
        assert price["radius"] == pytest.approx((found["high"] - found["low"]) / 2, abs=1e-9) or found["high"] == 1.0
        assert "privacy_budget" in everhold("ask", *place, *arguments, "--tolerance", "0.1", code=5).stderr
    own = ("--f1", "sealed_predictions.csv", "--least", "300")
    assert "--training-predictions" in everhold("ask", *place, *own, code=5).stderr
    assert "would be the whole range" in everhold("ask", *place, *own, "--guess", "0.9", code=5).stderr


def test_a_contrast_of_two_arms_by_group(everhold, study):
    options = ("--risk-difference", "late = 1", "--arm", "carrier", "--treated", "UA", "--control", "AA")
    price = json.loads(everhold("quote", "s.db", "flights", *options, "--format", "json").stdout)
    assert price["charged_at_most"] == 1
    answer = json.loads(everhold("ask", "s.db", "flights", *options, "--format", "json").stdout)
    assert answer["low"] <= answer["value"] <= answer["high"]
    ratio = json.loads(everhold("ask", "s.db", "flights", "--risk-ratio", *options[1:], "--format", "json").stdout)
    assert ratio["charged"] == 0
    each = everhold("ask", "s.db", "flights", *options, "--by", "late", "--groups", "0,1", "--format", "json")
    assert [line["group"] for line in json.loads(each.stdout)["groups"]] == ["0", "1"]
    assert "needs --control" in everhold("ask", "s.db", "flights", *options[:-2], code=2).stderr
    assert "--arm is only for" in everhold("ask", "s.db", "flights", "--mean", "late = 1", "--arm", "x", code=2).stderr
