"""Tokens for the service, made on the storage directly."""

import json

import numpy as np
import pytest

from everhold import Competition, Holdout
from everhold.sealing.intake.request import Rows
from everhold_server.registration import names_in
from everhold_server.serving import token_store_of


def recognised(text):
    token_store = token_store_of("s.db")
    try:
        return token_store.authenticate(text)
    finally:
        token_store.records.database.close()


def test_a_token_is_made_with_its_allotment_listed_and_taken_back(study, everhold):
    wanted = ("--holdout", "flights", "--queries", "5", "--charges", "1", "--days", "30", "--format", "json")
    made = json.loads(everhold("token", "create", "s.db", "ada", *wanted).stdout)
    found = recognised(made["secret"])
    assert (found.name, found.role, found.holdouts) == ("ada", "analyst", ("flights",))
    with Holdout.open("s.db", "flights") as holdout:
        assert holdout.analyst("ada").remaining == {"queries": 5, "surprises": 1}
    listed = everhold("token", "list", "s.db", "--format", "json")
    assert json.loads(listed.stdout)[0]["state"] == "valid"
    assert made["secret"] not in listed.stdout
    assert "ada" in everhold("token", "list", "s.db").stdout
    everhold("token", "revoke", made["id"], env={"EVERHOLD_STORAGE": "s.db"})
    assert recognised(made["secret"]) is None
    assert "revoked" in everhold("token", "list", "s.db", "--format", "csv").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("create", "none.db", "ada"), 4, "none.db"),
        (("list", "none.db"), 4, "none.db"),
        (("revoke", "none.db", "0" * 16), 4, "none.db"),
        (("revoke", "s.db", "0" * 16), 2, "There is no token"),
        (("create", "s.db", "ada", "--holdout", "other"), 4, "other"),
        (("create", "s.db", "ada", "--queries", "5"), 2, "Pass --role analyst and --holdout"),
        (("create", "s.db", "v", "--holdout", "flights", "--role", "viewer", "--queries", "5"), 2, "for an analyst"),
        (("create", "s.db", "ada", "--holdout", "flights", "--charges", "5"), 2, "--queries"),
        (("create", "s.db", "ada", "--holdout", "flights", "--queries", "-5"), 2, "queries"),
        (("create", "s.db", "ada", "--days", "0"), 5, "days"),
        (("create", "s.db", "a\nb"), 5, "name"),
        (("create", "s.db", "ada", "--role", "root"), 2, "root"),
    ],
)  # fmt: skip
def test_what_cannot_be_made_makes_nothing(study, everhold, arguments, code, said):
    assert said in everhold("token", *arguments, code=code).stderr
    assert json.loads(everhold("token", "list", "s.db", "--format", "json").stdout) == []


def test_acts_on_the_storage_are_in_the_log(study, everhold):
    made = json.loads(everhold("token", "create", "s.db", "grace", "--role", "steward", "--format", "json").stdout)
    everhold("token", "revoke", "s.db", made["id"])
    from everhold_server.audit import AuditLog
    from everhold_server.principals import Principal, Role

    token_store = token_store_of("s.db")
    acts = AuditLog(token_store.records).page(Principal(Role.STEWARD, "grace"))
    token_store.records.database.close()
    assert [(act["name"], act["act"]) for act in acts] == [
        ("command line", "revoke a token"),
        ("command line", "make a token"),
    ]
    assert made["secret"] not in str(acts)


@pytest.fixture
def contest(study):
    with Holdout.create(
        "s.db", "contest", label="y", rows=Rows(features="public"),
        holdout={"x": np.arange(300.0), "y": np.arange(300) % 2}, competition=Competition(teams=4, submissions=2),
    ):  # fmt: skip
        yield study


def test_each_team_of_a_csv_gets_a_token_all_of_them_or_none(contest, everhold):
    def written(name, *teams):
        (contest / name).write_text("\n".join(["team,city", *(f"{team},Oslo" for team in teams)]))
        return name

    def register(names, output="new.csv", holdout="contest", **expected):
        return everhold("token", "register", "s.db", names, output, "--holdout", holdout, **expected)

    told = register(written("teams.csv", "owls", "larks"), "tokens.csv")
    rows = [line.split(",") for line in (contest / "tokens.csv").read_text().split()]
    assert rows[0] == ["team", "token"]
    assert {recognised(token).name for _, token in rows[1:]} == {"owls", "larks"}
    assert {recognised(token).holdouts for _, token in rows[1:]} == {("contest",)}
    assert rows[1][1] not in told.stdout + told.stderr
    assert (contest / "tokens.csv").stat().st_mode & 0o077 == 0
    before = everhold("token", "list", "s.db", "--format", "json").stdout
    assert "there already" in register("teams.csv", "tokens.csv", code=2).stderr
    for teams, said in (
        (["wrens", "Wrens"], "looks like"), (["wrens", "0wls"], "looks like"), (["a", "b", "c"], "5 teams"),
        (["=1+1"], "cannot begin with"), ([], "list of team names is empty"),
    ):  # fmt: skip
        assert said in register(written("wrong.csv", *teams), code=5).stderr
    register("teams.csv", holdout="nowhere", code=4)
    assert "takes no submissions" in register("teams.csv", holdout="flights", code=5).stderr
    assert everhold("token", "list", "s.db", "--format", "json").stdout == before
    assert not (contest / "new.csv").exists()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("team\nowls\n\nlarks\n", ["owls", "larks"]),
        (",city\nowls,Oslo\nlarks,Rome\n", ["owls", "larks"]),  # the title may be empty
        ("team,note\nowls,one\u2028two\nlarks,\n", ["owls", "larks"]),  # it is no end of a row
        ('team,note\nowls,"one\ntwo"\nlarks,\n', ["owls", "larks"]),
        ("team;mail\nowls;owls@example.org\n", ["owls"]),  # addresses are no names, which everybody reads
        ("team\rowls\rlarks\r", ["owls", "larks"]),
    ],
)
def test_names_are_the_first_column_below_the_titles(tmp_path, text, names):
    (tmp_path / "teams.csv").write_bytes(text.encode())
    assert names_in(tmp_path / "teams.csv") == names


@pytest.mark.parametrize("content", [b"team\n" + b"o" * 200_000, "team\nZürich\n".encode("latin-1")])
def test_what_is_no_file_of_names_is_refused(contest, everhold, content):
    (contest / "teams.csv").write_bytes(content)
    said = everhold("token", "register", "s.db", "teams.csv", "new.csv", "--holdout", "contest", code=5).stderr
    assert "Choose a CSV file in UTF-8" in said


def test_teams_that_submitted_keep_their_places(contest, everhold):
    def register(*teams, **expected):
        (contest / "teams.csv").write_text("\n".join(["team", *teams]))
        (contest / "new.csv").unlink(missing_ok=True)
        return everhold("token", "register", "s.db", "teams.csv", "new.csv", "--holdout", "contest", **expected)

    def revoke_all():
        for each in json.loads(everhold("token", "list", "s.db", "--format", "json").stdout):
            everhold("token", "revoke", "s.db", each["id"])

    register("owls", "larks", "wrens", "jays")
    with Holdout.open("s.db", "contest") as holdout:
        for number, team in enumerate(("owls", "larks", "wrens")):
            holdout.competition.submit(np.arange(300) % (number + 2) == 1, team=team)
    revoke_all()
    assert "looks like" in register("0wls", code=5).stderr
    assert "5 teams" in register("terns", "gulls", code=5).stderr
    register("terns")
    register("owls")  # their token is lost
    everhold("token", "create", "s.db", "owls", "--holdout", "contest")
    revoke_all()
    register("owls", "larks", "wrens", "gulls")
    with Holdout.open("s.db", "contest") as holdout:
        holdout.unseal()
    revoke_all()
    assert "competition is over" in register("terns", code=5).stderr
