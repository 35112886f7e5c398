"""Create, ask, quote, status, transcript and list, in all three formats."""

import csv
import io
import json

import pytest
from cli_samples import ANSWER

from everhold.holdout import Holdout
from everhold.mechanisms import MECHANISMS

CREATE = ["create", "new.db", "late", "--holdout", "sealed.csv", "--training", "train.csv", "--queries", "20"]
ASK = ["ask", "s.db", "flights", "--mean", "delay > 15"]


def read_csv(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_create_prints_three_ways_the_promise_and_each_column_with_an_example_from_the_training_rows(study, everhold):
    printed = everhold(*CREATE, "--surprises", "2").stdout.splitlines()
    ways, promise, lines = printed[2:8], printed[8], printed[11:]
    with Holdout.open("new.db", "late") as holdout:
        assert [line.split()[0] for line in ways[:3]] == ["declared", "silent", "steered"]
        assert promise == holdout.certificate().promise
        columns = holdout.columns()
    assert [line.split() for line in lines] == [list(column.values()) for column in columns]
    assert all(column["example"] is not None for column in columns)


def test_create_as_json_has_promise_and_status(study, everhold):
    created = json.loads(everhold(*CREATE, "--format", "json").stdout)
    assert created.pop("promise")
    with Holdout.open("new.db", "late") as holdout:
        assert created.pop("columns") == holdout.columns()
        assert created.pop("ways") == holdout.ways.to_dict()
    assert created == json.loads(everhold("status", "new.db", "late", "--format", "json").stdout)


def test_the_settings_reach_the_holdout(study, everhold):
    everhold(
        *CREATE, "--label", "late", "--row-id", "id", "--mechanism", "guess_and_check", "--surprises", "3",
        "--confidence", "0.9", "--slack", "0.1",
    )  # fmt: skip
    status = json.loads(everhold("status", "new.db", "late", "--format", "json").stdout)
    assert (status["mechanism"], status["confidence"]) == ("guess_and_check", 0.9)
    assert (status["parameters"]["surprises"], status["parameters"]["slack"]) == (3, 0.1)
    with Holdout.open("new.db", "late") as holdout:
        assert (holdout.schema.label, holdout.schema.row_id) == ("late", "id")


def test_what_counts_for_missing_values_is_an_option(study, everhold):
    everhold(*CREATE, "--missing", "delay=drop", "--missing", "id=0")
    status = json.loads(everhold("status", "new.db", "late", "--format", "json").stdout)
    assert status["missing"]["delay"] == "rows without a value are left out"
    wrong = [*CREATE[:2], "again", *CREATE[3:], "--allow-resealing"]
    for given in (("drop", "delay=0"), ("drop", "refuse")):
        told = everhold(*wrong, *(part for each in given for part in ("--missing", each)), code=2).stderr
        assert "once without a column" in told
    assert "missing names 'lost'" in everhold(*wrong, "--missing", "lost=drop", code=3).stderr
    assert (
        "missing is 'worst'. Pass 'refuse', 'drop', 'bounds' or a value"
        in everhold(*wrong, "--missing", "worst", code=2).stderr
    )


def test_the_help_names_every_mechanism(everhold):
    text = everhold("create", "--help").stdout
    assert all(name in text for name in MECHANISMS)


def test_ask_as_json_keeps_the_contract(study, everhold):
    result = everhold(*ASK, "--format", "json")
    answer = json.loads(result.stdout)
    assert list(answer) == ANSWER
    assert answer["low"] < answer["value"] < answer["high"]
    assert answer["source"] == "training"
    assert answer["remaining"] == {"queries": 19, "surprises": 8}
    assert len(bytes.fromhex(answer["query"])) == 32
    assert result.stderr == ""


def test_the_answer_is_the_same_in_every_format_and_for_nothing(study, everhold):
    first = json.loads(everhold(*ASK, "--format", "json").stdout)
    again = json.loads(everhold("ask", "s.db", "flights", "--mean", "NOT delay <= 15.0", "--format", "json").stdout)
    assert again == first
    (line,) = read_csv(everhold(*ASK, "--format", "csv").stdout)
    assert list(line) == ANSWER
    assert float(line["value"]) == first["value"]
    assert json.loads(line["remaining"]) == first["remaining"]
    assert line["query"] == first["query"]
    table = everhold(*ASK).stdout.splitlines()
    assert table[0].split() == ANSWER
    assert table[2].split()[0] == f"{first['value']:.4g}"


QUERIES = [
    ["--mean", "-delay", "--low", "-60", "--high", "180"],
    ["--mean", "delay > 15", "--given", "carrier = 'UA'"],
    ["--variance", "delay", "--low", "-60", "--high", "180"],
    ["--covariance", "late = 1", "--with", "delay", "--with-low", "-60", "--with-high", "180"],
    ["--correlation", "delay", "--low", "-60", "--high", "180", "--with", "late = 1"],
    ["--mean", "delay > 15", "--guess", "0.4"],
    ["--accuracy", "sealed_predictions.csv", "--training-predictions", "train_predictions.csv"],
    ["--error", "sealed_predictions.csv", "--guess", "0.1"],
    ["--brier", "sealed_predictions.csv", "--guess", "0.1"],
    ["--accuracy", "sealed.csv", "--column", "late", "--guess", "1"],
]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: " ".join(query))
def test_every_kind_of_query_is_answered(study, everhold, query):
    answer = json.loads(everhold("ask", "s.db", "flights", *query, "--format", "json").stdout)
    assert answer["low"] <= answer["value"] <= answer["high"]


@pytest.mark.parametrize("query", QUERIES[:5], ids=lambda query: " ".join(query))
def test_queries_are_quoted_before_they_are_asked(study, everhold, query):
    price = json.loads(everhold("quote", "s.db", "flights", *query, "--format", "json").stdout)
    answer = json.loads(everhold("ask", "s.db", "flights", *query, "--format", "json").stdout)
    assert price["query"] == answer["query"]
    assert price["charged_if_confirmed"] == answer["charged"] == 0
    assert price["radius"] >= (answer["high"] - answer["low"]) / 2 * (1 - 1e-9)


def many_columns(path, name, *columns):
    """A file of predictions again, with more columns."""
    import duckdb

    listed = ", ".join(f"{value} AS {column}" for column, value in columns)
    duckdb.sql(f"copy (select id, {listed} from '{name}_predictions.csv') to '{path}'")


COLUMNS = (("good", "late"), ("bad", "1 - late"), ("none", "0"))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_all_columns_of_a_file_are_asked_about_at_once(study, everhold, ending):
    for name in ("sealed", "train"):
        many_columns(f"{name}.{ending}", name, *COLUMNS)
    ask = ["ask", "s.db", "flights", "--format", "json", "--accuracy"]
    more = ["--training-predictions", f"train.{ending}", "--all-columns"]
    told = json.loads(everhold(*ask, f"sealed.{ending}", *more).stdout)
    assert [line["column"] for line in told] == [column for column, _ in COLUMNS]
    one = ["--training-predictions", "train_predictions.csv"]
    assert json.loads(everhold(*ask, "sealed_predictions.csv", *one).stdout)["query"] == told[0]["query"]
    table = everhold("ask", "s.db", "flights", "--error", f"sealed.{ending}", *more)
    assert table.stdout.splitlines()[2].split()[0] == "good"
    assert "labels drawn anew" in table.stderr


def test_all_columns_need_one_file_of_them(study, everhold):
    many_columns("many.csv", "sealed", *COLUMNS)
    many_columns("few.csv", "train", COLUMNS[0])
    many_columns("wrong.csv", "sealed", *COLUMNS, ("strange", "late + 1"))
    ask = ["ask", "s.db", "flights", "--all-columns", "--guess", "0.5"]
    everhold(*ask, "--mean", "delay > 15", code=2)
    everhold(*ask, "--accuracy", "many.csv", "--column", "good", code=2)
    everhold(*ask, "--accuracy", "many.csv", "--strict", code=2)
    lacking = everhold(*ask, "--accuracy", "many.csv", "--training-predictions", "few.csv", code=5)
    assert "no column 'bad'" in lacking.stderr
    assert "'strange' of wrong.csv are no labels" in everhold(*ask, "--accuracy", "wrong.csv", code=5).stderr
    with Holdout.open("s.db", "flights") as holdout:
        assert len(holdout.transcript()) == 0


def test_predictions_may_be_parquet(study, everhold):
    import duckdb

    duckdb.sql("copy (from 'sealed_predictions.csv') to 'p.parquet'")
    ask = ["ask", "s.db", "flights", "--guess", "0.9", "--format", "json", "--accuracy"]
    assert everhold(*ask, "p.parquet").stdout == everhold(*ask, "sealed_predictions.csv").stdout


def test_predictions_are_joined_by_row_id(study, everhold):
    ask = ["ask", "s.db", "flights", "--guess", "0.9", "--format", "json", "--accuracy"]
    header, *lines = (study / "sealed_predictions.csv").read_text().splitlines()
    (study / "sorted.csv").write_text("\n".join([header, *sorted(lines, key=lambda line: int(line.split(",")[0]))]))
    assert everhold(*ask, "sorted.csv").stdout == everhold(*ask, "sealed_predictions.csv").stdout


def lines_of(header, line, numbers=range(1_000)):
    return "\n".join([header, *map(line, numbers)]) + "\n"


WRONG_FILES = {
    "without ids": (lines_of("late", lambda i: "1"), "has the columns 'late' and no 'id'"),
    "an id is missing": (lines_of("id,late", lambda i: f"{i},1", range(999)), "sealed rows' ids not at all (999)"),
    "an id is unknown": (lines_of("id,late", lambda i: f"{i + 1},1"), "no sealed row has (1000)"),
    "ids twice": (lines_of("id,late", lambda i: f"{i // 2},1"), "500 ids more than once (0, 1, 2, ...)"),
    "ids are words": (lines_of("id,late", lambda i: f"r{i},1"), "wrong.csv has ids that are not numbers"),
    "an id is empty": (lines_of("id,late", lambda i: f"{i or ''},1"), "1 empty ids"),
    "several columns": (lines_of("id,a,b", lambda i: f"{i},1,0"), "Pass one column of predictions"),
    "probabilities": (lines_of("id,late", lambda i: f"{i},0.3"), "Ask brier(...) about probabilities"),
    "a prediction is empty": (lines_of("id,late", lambda i: f"{i},{'' if i == 5 else 1}"), "has no prediction in row"),
}


@pytest.mark.parametrize("fault", WRONG_FILES)
def test_a_wrong_file_costs_nothing_and_is_explained(study, everhold, fault):
    text, words = WRONG_FILES[fault]
    (study / "wrong.csv").write_text(text)
    before = everhold("status", "s.db", "flights").stdout
    error = everhold("ask", "s.db", "flights", "--accuracy", "wrong.csv", "--guess", "0.5", code=5).stderr
    assert words in error
    assert "othing was charged" in error
    if "ids" in fault:
        assert "id,prediction" in error  # what a right one looks like
    assert everhold("status", "s.db", "flights").stdout == before


def test_predictions_of_names_that_look_like_numbers(study, everhold):
    everhold("create", "new.db", "named", "--holdout", "sealed.csv", "--label", "carrier", "--queries", "9",
             "--classes", "open")  # fmt: skip
    (study / "numbers.csv").write_text("carrier\n" + "01\n" * 1000)
    answer = json.loads(everhold("ask", "new.db", "named", "--accuracy", "numbers.csv", "--format", "json").stdout)
    assert answer["source"] == "holdout"


def test_a_promise_of_nothing_is_sealed_only_on_demand(study, everhold):
    wanted = ["new.db", "vague", "--holdout", "sealed.csv", "--mechanism", "gaussian"]
    refused = everhold("create", *wanted, code=3)
    assert "seal at least" in refused.stderr
    assert "--allow-vacuous" in refused.stderr
    assert not (study / "new.db").exists()
    created = everhold("create", *wanted, "--allow-vacuous")
    assert "warning: The radius" in created.stderr


def test_the_limit_of_rows_is_an_option(study, everhold):
    few = everhold("create", "new.db", "few", "--holdout", "sealed.csv", "--most-rows", "10", code=3)
    assert "above the limit of 10" in few.stderr


def test_a_refused_answer_is_no_error(study, everhold):
    with Holdout.create("new.db", "small", holdout="sealed.csv", mechanism="laplace", queries=1):
        pass
    everhold("ask", "new.db", "small", "--mean", "delay > 1")
    refused = everhold("ask", "new.db", "small", "--mean", "delay > 2", "--format", "json")
    answer = json.loads(refused.stdout)
    assert (answer["value"], answer["low"], answer["high"]) == (None, None, None)
    assert (answer["source"], answer["charged"]) == ("refused", 0)
    assert refused.stderr.startswith("refused: ")
    table = everhold("ask", "new.db", "small", "--mean", "delay > 3").stdout.splitlines()
    assert table[2].split()[:4] == ["-", "-", "-", "refused"]
    strict = everhold("ask", "new.db", "small", "--mean", "delay > 4", "--strict", code=6)
    assert strict.stderr.startswith("error: The query was refused")
    assert strict.stdout == ""


def test_quote_costs_nothing_and_agrees_with_the_answer(study, everhold):
    quote = json.loads(everhold("quote", *ASK[1:], "--format", "json").stdout)
    assert not quote["answered_before"]
    assert quote["remaining"]["queries"] == 20
    answer = json.loads(everhold(*ASK, "--format", "json").stdout)
    assert answer["query"] == quote["query"]
    assert json.loads(everhold("quote", *ASK[1:], "--format", "json").stdout)["answered_before"]


def test_quote_without_a_query(study, everhold):
    assert json.loads(everhold("quote", "s.db", "flights", "--format", "json").stdout)["query"] is None
    assert "radius" in everhold("quote", "s.db", "flights").stdout


def test_status_has_all_that_was_promised(study, everhold):
    status = json.loads(everhold("status", "s.db", "flights", "--format", "json").stdout)
    with Holdout.open("s.db", "flights") as holdout:
        assert status == holdout.status()
    expected = {
        "rows",
        "mechanism",
        "parameters",
        "radius",
        "statement",
        "queries_asked",
        "queries_left",
        "ledger_head",
    }
    assert expected <= set(status)
    (line,) = read_csv(everhold("status", "s.db", "flights", "--format", "csv").stdout)
    assert list(line) == list(status)
    assert everhold("status", "s.db", "flights").stdout.split()[:2] == ["field", "value"]


def test_the_transcript_has_one_line_for_each_query(study, everhold):
    everhold(*ASK)
    (line,) = read_csv(everhold("transcript", "s.db", "flights", "--format", "csv").stdout)
    assert (line["sequence"], line["asked"], line["source"]) == ("1", "mean of delay > 15", "training")


def test_an_empty_transcript_has_the_same_columns(study, everhold):
    empty = everhold("transcript", "s.db", "flights", "--format", "csv").stdout
    everhold(*ASK)
    assert everhold("transcript", "s.db", "flights", "--format", "csv").stdout.startswith(empty)
    assert json.loads(everhold("transcript", "s.db", "flights", "--format", "json").stdout)["entries"]


def test_a_query_cannot_steer_the_terminal(study, everhold):
    everhold("ask", "s.db", "flights", "--mean", "carrier = '\x1b[2J\n\u202e'")
    for form in ("table", "json", "csv"):
        shown = everhold("transcript", "s.db", "flights", "--format", form).stdout
        assert not {"\x1b", "\u202e"} & set(shown)
        assert "[2J" in shown


def test_list_shows_every_holdout(study, everhold):
    everhold(*ASK)
    (listed,) = json.loads(everhold("list", "s.db", "--format", "json").stdout)["holdouts"]
    assert (listed["name"], listed["rows"], listed["asked"]) == ("flights", 1000, 1)
    assert [line["name"] for line in read_csv(everhold("list", "s.db", "--format", "csv").stdout)] == ["flights"]


@pytest.mark.parametrize("storage", ["s.db", "sqlite:///s.db"])
def test_the_environment_replaces_the_storage(study, everhold, storage):
    usual = {"EVERHOLD_STORAGE": storage}
    answer = json.loads(everhold("ask", "flights", "--mean", "delay > 15", "--format", "json", env=usual).stdout)
    assert answer == json.loads(everhold(*ASK, "--format", "json").stdout)
    assert "flights" in everhold("list", env=usual).stdout
    everhold("create", "other", "--holdout", "sealed.csv", "--queries", "9", "--allow-resealing", env=usual)
    assert "other" in everhold("list", "s.db").stdout
    everhold("status", "elsewhere.db", "flights", env=usual, code=4)


def test_a_table_does_not_depend_on_the_width_of_the_terminal(study, everhold):
    status = [everhold("status", "s.db", "flights", env={"COLUMNS": width}).stdout for width in ("20", "200")]
    assert status[0] == status[1]
    assert (
        json.loads(everhold("status", "s.db", "flights", "--format", "json").stdout)["ledger_head"]["entry_hash"]
        in status[0]
    )


class Played:
    """A demonstration that is over."""

    def to_dict(self):
        return {"bare": {"reported": 0.8}, "everhold": {"reported": 0.7}}

    def to_rows(self):
        return [{"holdout": name, **outcome} for name, outcome in self.to_dict().items()]

    def print_to(self, console):
        console.print("the bare holdout is refuted")


def test_the_demonstration_in_every_format(study, everhold, monkeypatch):
    folders = []
    monkeypatch.setattr("everhold_lab.demo.story.run_demo", lambda output: folders.append(output) or Played())
    assert json.loads(everhold("demo", "--format", "json").stdout) == Played().to_dict()
    lines = read_csv(everhold("demo", "--output", "there", "--format", "csv").stdout)
    assert lines == [{"holdout": "bare", "reported": "0.8"}, {"holdout": "everhold", "reported": "0.7"}]
    assert everhold("demo").stdout == "the bare holdout is refuted\n"
    assert [folder.name for folder in folders] == ["demo-output", "there", "demo-output"]


def test_groups_reach_the_holdout_and_its_promise(study, everhold):
    printed = everhold(*CREATE, "--surprises", "2", "--groups", "id").stdout
    assert "independent groups of rows" in printed
    status = json.loads(everhold("status", "new.db", "late", "--format", "json").stdout)
    assert status["dependence"] == {"kind": "groups", "column": "id", "counts": [[1, 1000]]}


def test_a_model_file_reaches_the_holdout(study, everhold):
    (study / "m.json").write_text('{"kind": "groups", "sizes": [4, 1]}')
    everhold(*CREATE, "--surprises", "2", "--model", "m.json")
    status = json.loads(everhold("status", "new.db", "late", "--format", "json").stdout)
    assert status["dependence"]["counts"] == [[1, 200], [4, 200]]


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (("--groups", "late"), 9, "2 groups of column 'late' have rows in the holdout and in the training set"),
        (("--groups", "home"), 9, "'home' of the dependence does not exist"),
        (("--model", "bad.json"), 9, "is not a dependence model"),
        (("--model", "none.json"), 1, "none.json"),
        (("--model", "bad.json", "--groups", "late"), 2, "given together"),
        (("--independent-rows", "--groups", "late"), 2, "given together"),
    ],
)
def test_a_dependence_that_cannot_be_used(study, everhold, arguments, code, reason):
    (study / "bad.json").write_text("[1, 2")
    result = everhold(*CREATE, *arguments, code=code)
    assert reason in result.stderr
    assert not (study / "new.db").exists()


def test_a_tolerance_has_its_price(study, everhold):
    everhold(*CREATE, "--mechanism", "privacy_budget")
    asked = ("new.db", "late", "--mean", "delay > 15", "--tolerance", "0.7", "--format", "json")
    quoted = json.loads(everhold("quote", *asked).stdout)
    answer = json.loads(everhold("ask", *asked).stdout)
    assert 0 < answer["charged"] == quoted["charged_at_most"]
    assert answer["high"] - answer["value"] <= 0.7
    assert "othing was charged" in everhold(*ASK, "--tolerance", "0.1", code=5).stderr


def test_public_features_are_declared_and_said_of_every_answer(study, everhold):
    wanted = ["--label", "late", "--mechanism", "guess_and_check", "--surprises", "2", "--features", "public"]
    everhold(*CREATE, *wanted, "--row-id", "id")
    assert json.loads(everhold("status", "new.db", "late", "--format", "json").stdout)["features"] == "public"
    asked = everhold(
        "ask", "new.db", "late", "--accuracy", "sealed_predictions.csv", "--guess", "0.5", "--format", "json"
    )
    meant = "labels drawn anew on these rows, whose features are public"
    assert json.loads(asked.stdout)["about"] == meant
    assert meant in asked.stderr
    assert read_csv(everhold("transcript", "new.db", "late", "--format", "csv").stdout)[0]["about"] == meant
    everhold("ask", "new.db", "late", "--mean", "delay > 15", code=5)


def test_features_that_are_neither_sealed_nor_public_are_wrong_usage(study, everhold):
    everhold(*CREATE, "--label", "late", "--features", "open", code=2)
