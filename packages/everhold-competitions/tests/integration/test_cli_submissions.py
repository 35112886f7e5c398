"""The commands of a competition, from the file of a team to the final leaderboard."""

import csv
import json
import re

import duckdb
import numpy as np
import pytest

CONTEST = ("c.db", "contest")
MADE = ("create", *CONTEST, "--holdout", "sealed.csv", "--label", "late", "--row-id", "id", "--features", "public")


def team_file(study, name, share, *, separator=",", encoding="utf-8"):
    """A file of predictions of which about this share is right."""
    rng = np.random.default_rng(int(1_000 * share))
    with (study / "sealed.csv").open() as file:
        rows = list(csv.DictReader(file))
    right = rng.random(len(rows)) < share
    lines = [
        f"{row['id']}{separator}{int(row['late']) if ok else 1 - int(row['late'])}"
        for row, ok in zip(rows, right, strict=True)
    ]
    content = "\n".join([f"id{separator}prediction", *lines]) + "\n"
    (study / name).write_bytes(content.encode(encoding))


@pytest.fixture
def teams(study):
    for name, share in (("owls.csv", 0.95), ("larks.csv", 0.94), ("wrens.csv", 0.6)):
        team_file(study, name, share)
    return study


def board(everhold):
    return json.loads(everhold("leaderboard", *CONTEST, "--format", "json").stdout)


@pytest.mark.parametrize("metric", ["accuracy", "error"])
def test_a_competition_from_the_first_file_to_the_final_board(teams, everhold, metric):
    made = everhold(*MADE, "--feedback", "none", "--metric", metric, "--teams", "5", "--submissions", "2")
    assert made.stdout.startswith("Nothing is told before the study is unsealed. Then every one of up to 15 answers")
    assert "on the final leaderboard a score is within" in made.stderr
    for team in ("owls", "larks", "wrens"):
        told = everhold("submit", *CONTEST, f"{team}.csv", "--team", team).stdout
        assert told == f"received: submission 1 of 2 of team {team!r}. Nothing is told before the end.\n"
    assert "received before" in everhold("submit", *CONTEST, "owls.csv", "--team", "owls").stdout
    assert {(row["score"], row["rank"]) for row in board(everhold)["rows"]} == {(None, None)}
    everhold("unseal", *CONTEST, "--yes")
    final = board(everhold)
    assert all(set(row) == {"team", "score", "low", "high", "rank"} for row in final["rows"])
    assert {row["team"]: row["rank"] for row in final["rows"]} == {"owls": 1, "larks": 1, "wrens": 3}
    assert (final["final"], final["higher_is_better"]) == (True, metric == "accuracy")
    right = {row["team"]: row["score"] if metric == "accuracy" else 1.0 - row["score"] for row in final["rows"]}
    assert right["owls"] > 0.9 > 0.7 > right["wrens"]
    shown = everhold("leaderboard", *CONTEST, "--output", "board.html")
    lines = [line.split() for line in shown.stdout.splitlines()]
    assert lines[0] == ["place", "team", "score", "low", "high", "submissions"]
    places = {line[1]: line[0] for line in lines[1:] if len(line) > 1}
    assert places == {"owls": "1-2", "larks": "1-2", "wrens": "3"}
    assert "There is no winner: 'owls' and 'larks' share the first place" in " ".join(shown.stderr.split())
    assert "3 teams on 2 places" in shown.stderr
    assert "final leaderboard" in (teams / "board.html").read_text()
    assert "over" in everhold("submit", *CONTEST, "wrens.csv", "--team", "owls", code=5).stderr


def test_public_rows_give_scores_and_the_final_board_is_about_the_others(teams, everhold):
    made = everhold(*MADE, "--feedback", "score", "--public", "0.5", "--teams", "5", "--submissions", "2")
    assert "on the final leaderboard a score is within" in made.stderr
    assert "public rows. The final board is about the other rows" in made.stderr
    for team in ("owls", "larks", "wrens"):
        told = everhold("submit", *CONTEST, f"{team}.csv", "--team", team).stdout
        assert "The public score is" in told
    told = json.loads(everhold("submit", *CONTEST, "wrens.csv", "--team", "owls", "--format", "json").stdout)
    assert told["low"] < told["value"]
    assert told["source"] == "standing"
    shown = board(everhold)
    assert (shown["final"], [row["rank"] for row in shown["rows"]][-1]) == (False, 3)
    everhold("unseal", *CONTEST, "--yes")
    final = board(everhold)
    assert final["rows"][0]["team"] == "larks"
    assert final["public"]["holdout"] == "contest.public"
    refused = everhold("ask", "c.db", "contest.public", "--mean", "late = 1", code=5)
    assert "public rows of 'contest'" in refused.stderr
    for given in (("--public", "0.5"), ("--feedback", "none", "--public", "0.5")):
        assert "public" in everhold(*MADE, *given, code=2).stderr
    everhold("certificate", "save", *CONTEST, "--output", "c.html")
    assert json.loads(everhold("certificate", "verify", "c.html", "--format", "json").stdout)["ok"]
    assert "team &#x27;owls&#x27;" in (teams / "c.html").read_text()
    assert json.loads(everhold("ledger", "verify", *CONTEST, "--format", "json").stdout)["ok"]


def test_a_dry_run_reports_the_format_and_receives_nothing(teams, everhold):
    everhold(*MADE, "--feedback", "none")
    told = everhold("submit", *CONTEST, "owls.csv", "--team", "owls", "--dry-run").stdout
    assert told.startswith("The format is right: 1,000 predictions, joined by 'id', for accuracy (0: ")
    report = json.loads(
        everhold("submit", *CONTEST, "owls.csv", "--team", "owls", "--dry-run", "--format", "json").stdout
    )
    assert (report["rows"], report["left"], sum(report["values"].values())) == (1_000, 20, 1_000)
    assert board(everhold)["rows"] == []


def test_storage_from_the_environment(teams, everhold):
    everhold(*MADE, "--feedback", "none")
    env = {"EVERHOLD_STORAGE": "c.db"}
    assert "received" in everhold("submit", "contest", "owls.csv", "--team", "owls", env=env).stdout
    assert "owls" in everhold("leaderboard", "contest", env=env).stdout


def test_who_leads_is_told_by_proof(teams, everhold):
    everhold(*MADE, "--feedback", "leader", "--teams", "3", "--submissions", "2", "--allow-vacuous")
    assert json.loads(
        everhold("submit", *CONTEST, "wrens.csv", "--team", "wrens", "--format", "json").stdout
    )["leads"]  # fmt: skip
    assert everhold("submit", *CONTEST, "owls.csv", "--team", "owls").stdout.endswith(". It leads.\n")
    told = everhold("submit", *CONTEST, "larks.csv", "--team", "larks").stdout
    assert told.endswith("it was not proved better. How far behind it is stays sealed.\n")
    assert [(row["team"], row["rank"]) for row in board(everhold)["rows"]] == [
        ("owls", 1),
        ("wrens", 2),
        ("larks", None),
    ]


def test_scores_are_answers(teams, everhold):
    everhold(
        *MADE, "--feedback", "score", "--teams", "3", "--submissions", "2", "--allow-vacuous", "--training", "train.csv"
    )
    assert "--guess" in everhold("submit", *CONTEST, "owls.csv", "--team", "owls", code=5).stderr
    told = json.loads(
        everhold("submit", *CONTEST, "owls.csv", "--team", "owls", "--guess", "0.95", "--format", "json").stdout
    )
    assert told["low"] < 0.95 < told["high"]
    assert (told["value"], told["surprises_left"]) == (None, 3)  # a guess that was confirmed is no score
    row = board(everhold)["rows"][0]
    assert (row["score"], row["low"], row["high"]) == (None, told["low"], told["high"])
    assert "0.95" not in everhold("leaderboard", *CONTEST).stdout
    assert "0.95" not in everhold("transcript", *CONTEST).stdout.replace("0.95 ", "")


def test_classes_and_shares_are_set_at_creation(teams, everhold):
    wanted = ("--feedback", "score", "--teams", "3", "--submissions", "2", "--allow-vacuous", "--training", "train.csv")
    everhold(*MADE, *wanted, "--classes", "0,1", "--surprises-per-team", "2")
    status = json.loads(everhold("status", *CONTEST, "--format", "json").stdout)
    assert status["competition"]["surprises_per_team"] == 2
    assert "none of the" in everhold(
        *[part if part != CONTEST[0] else "d.db" for part in MADE], *wanted, "--classes", "1,2", code=3
    ).stderr  # fmt: skip
    assert (
        "--surprises-per-team is only for a competition" in everhold(*MADE, "--surprises-per-team", "2", code=2).stderr
    )


def million(study):
    (study / "bad.csv").write_text(
        ",".join(f"c{n}" for n in range(1_000_000)) + "\n" + ",".join("1" * 1_000_000) + "\n"
    )


def written(text, encoding="utf-8"):
    return lambda study: (study / "bad.csv").write_bytes(text.encode(encoding))


def changed(change):
    def write(study):
        lines = (study / "owls.csv").read_text().splitlines()
        (study / "bad.csv").write_text("\n".join(change(lines)) + "\n")

    return write


def packed(columns):
    """A Parquet file under the name that is read, whose content takes far more memory than itself."""
    return lambda study: duckdb.sql(f"SELECT i AS id, {columns} AS prediction FROM range(1000) AS t(i)").write_parquet(
        str(study / "bad.parquet"), compression="zstd"
    )


def test_a_submission_may_be_a_parquet_file(teams, everhold):
    everhold(*MADE, "--feedback", "none")
    duckdb.sql("SELECT * FROM read_csv(?)", params=[str(teams / "owls.csv")]).write_parquet(str(teams / "owls.parquet"))
    for file, said in (("owls.parquet", "received: submission 1"), ("owls.csv", "received before: submission 1")):
        assert everhold("submit", *CONTEST, file, "--team", "owls").stdout.startswith(said)


HOSTILE = [
    (packed("repeat('x', 100000)"), "a text of 100,000 characters"),
    (packed("CASE i WHEN 7 THEN repeat('x', 50000000) ELSE '1' END"), "unpacks to"),
    (packed("list_resize([1], 1000)"), "lists or other nested values"),
    (packed("{'a': 1}"), "lists or other nested values"),
    (packed("'1'::BLOB"), "lists or other nested values"),
    (changed(lambda lines: [*lines[:-1], f"{lines[-1].split(',')[0]},{'x' * 2_000}"]), "a text of 2,000"),
    (million, "more than 1,000 columns"),
    (changed(lambda lines: lines[:-1]), "1 of the sealed rows' ids not at all"),
    (changed(lambda lines: [*lines, lines[1]]), "1 ids more than once"),
    (changed(lambda lines: [*lines, "999999,1"]), "1 ids that no sealed row has"),
    (changed(lambda lines: [*lines[:-1], f"{lines[-1].split(',')[0]},nan"]), "bad.csv|nan|lack|kind"),
    (changed(lambda lines: [*lines[:-1], f"{lines[-1].split(',')[0]},"]), "has no prediction in row"),
    (changed(lambda lines: [*lines[:-1], f"{lines[-1].split(',')[0]},7"]), "are no labels"),
    (changed(lambda lines: [lines[0], *(line.replace(",", ",0.") for line in lines[1:])]), "are no labels"),
    (changed(lambda lines: ["id,prediction,other", *(f"{line},1" for line in lines[1:])]), "one column"),
    (changed(lambda lines: ["number,prediction", *lines[1:]]), "no 'id'"),
    (changed(lambda lines: lines * 4), "more than 2,000 lines"),
    (written(""), "bad.csv"),
    (written("id,prediction\n1,é\n", "latin-1"), "UTF-8"),
    (written("id,prediction\n1,1\n", "utf-16"), "bad.csv"),
    (lambda study: (study / "bad.csv").write_bytes(bytes(range(256)) * 64), "bad.csv"),
    (lambda study: (study / "bad.csv").mkdir(), "no file"),
]  # fmt: skip


def test_hostile_files_cost_nothing(teams, everhold):
    everhold(*MADE, "--feedback", "none")
    for make, said in HOSTILE:
        for left in teams.glob("bad.*"):
            left.rmdir() if left.is_dir() else left.unlink()
        make(teams)
        file = "bad.parquet" if (teams / "bad.parquet").exists() else "bad.csv"
        for more in ([], ["--dry-run"]):
            refused = everhold("submit", *CONTEST, file, "--team", "owls", *more, code=5)
            assert re.search(said, refused.stderr), refused.stderr
    assert board(everhold)["rows"] == []


def test_options_of_a_competition_belong_to_one(teams, everhold):
    assert "--metric is only for a competition" in everhold(*MADE, "--metric", "error", code=2).stderr
    assert "--loss is only for --metric risk" in everhold(*MADE, "--feedback", "none", "--loss", "log", code=2).stderr
    assert "metric is 'auc'" in everhold(*MADE, "--feedback", "none", "--metric", "auc", code=2).stderr
    assert "teams is 1" in everhold(*MADE, "--feedback", "none", "--teams", "1", code=2).stderr
    said = everhold(*MADE, "--feedback", "leader", "--mechanism", "gaussian", code=3).stderr
    assert "cannot be chosen for a competition" in said
    without_label = [part for part in MADE if part not in ("--label", "late", "--features", "public")]
    assert "needs a label column" in everhold(*without_label, "--feedback", "none", code=3).stderr
    everhold(*MADE, "--feedback", "none", "--metric", "risk", "--loss", "log", "--high", "3")
    assert "takes no submissions" in everhold("leaderboard", "s.db", "flights", code=5).stderr
    assert ".html" in everhold("leaderboard", *CONTEST, "--output", "board.pdf", code=2).stderr
