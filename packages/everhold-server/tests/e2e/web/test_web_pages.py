"""Pages one by one: what is shown to whom, what is not, and that nothing of what people write becomes markup."""

import re
from html import unescape
from html.parser import HTMLParser
from importlib.resources import files

import numpy as np
import pytest
import service_samples
from app_samples import ADDRESS, bearing, http_client, log_in, make, token
from web_samples import HOSTILE, IDS, ROWS, SECRET, TRUTH, mechanism, model, rows, seal, seal_races, written

from everhold import Groups, Holdout, MarkovChain, accuracy, difference, seal_cases, verify_certificate
from everhold.display import at_least, at_most
from everhold.queries import KINDS, Form
from everhold.queries.metrics.registry import METRICS
from everhold.sealing.intake.request import Planning, Rows
from everhold_competitions.competition import Competition
from everhold_server.api.holdouts import SETTINGS
from everhold_server.principals import Role

HTML = {"accept": "text/html"}
ALL = (
    "/holdouts", "/holdouts/flights", "/holdouts/flights/gates", "/holdouts/flights/certificate", "/holdouts/cup",
    "/holdouts/cup/leaderboard", "/verify", "/plan/protocol",
)  # fmt: skip
ANALYSTS = (
    "/holdouts/flights/ask", "/holdouts/flights/ask?kind=choose", "/holdouts/flights/compare", "/holdouts/cup/submit",
)  # fmt: skip
STEWARDS = ("/seal", "/holdouts/flights/unseal", "/holdouts/cup/unseal", "/tokens", "/audit")


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    return make(seal(tmp_path_factory.mktemp("pages")))


@pytest.fixture
def see(app):
    """The page at a path, as somebody with a token sees it."""

    def at(path, role=Role.STEWARD, name="grace", **wanted):
        with http_client(app) as client:
            return client.get(path, headers={**bearing(token(app, role, name, **wanted)), **HTML})

    return at


@pytest.fixture
def send(app):
    """The page that answers a form of somebody with a token."""

    def to(path, fields, role=Role.STEWARD, name="grace", files=()):
        parts = [(key, (None, value)) for key, value in {"csrf": "", **fields}.items()] + list(files)
        with http_client(app) as client:
            return client.post(path, files=parts, headers={**bearing(token(app, role, name)), **HTML})

    return to


class Elements(HTMLParser):
    """All elements of a page, with their attributes, and all text."""

    def __init__(self, page):
        super().__init__()
        self.found, self.text = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize(
    ("role", "path"),
    [(role, path) for role in Role for path in ALL]
    + [(role, path) for role in (Role.ANALYST, Role.STEWARD) for path in ANALYSTS]
    + [(Role.STEWARD, path) for path in STEWARDS],
)
def test_every_page_is_whole_and_runs_and_loads_nothing_but_our_own(see, role, path):
    answer = see(path, role, "ada")
    assert answer.status_code == 200
    page = Elements(answer.text)
    assert [tag for tag, _ in page.found].count("h1") == (2 if "certificate" in path else 1)
    assert {"main", "header", "footer"} <= {tag for tag, _ in page.found}
    assert not [tag for tag, facts in page.found if tag == "style" or "style" in facts]
    assert not [facts for _, facts in page.found for name in facts if name.startswith("on")]
    assert all(facts.get("src", "").startswith("/static/") for tag, facts in page.found if tag == "script")
    loaded = [facts[name] for _, facts in page.found for name in ("src", "href", "action") if name in facts]
    assert all(url.startswith(("/", "#")) for url in loaded)
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"
    assert SECRET not in answer.text


@pytest.mark.parametrize("path", [*ANALYSTS, *STEWARDS])
def test_a_viewer_is_told_plainly_what_is_not_for_them(see, path):
    answer = see(path, Role.VIEWER)
    assert answer.status_code == 403
    assert "This is not for you" in answer.text
    assert answer.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize("path", STEWARDS)
def test_nor_is_an_analyst_shown_what_is_for_stewards(see, path):
    assert see(path, Role.ANALYST, "ada").status_code == 403


def test_analysts_see_their_own_answers_viewers_none_stewards_all(see):
    everybody = {
        role: see("/holdouts/flights", role, name).text
        for role, name in ((Role.STEWARD, "grace"), (Role.ANALYST, "ada"), (Role.VIEWER, "vic"))
    }
    asked = {who: [text in page for text in ("&gt; 12", "&gt; 20", "&gt; 21.5")] for who, page in everybody.items()}
    assert asked == {Role.STEWARD: [True] * 3, Role.ANALYST: [False, True, False], Role.VIEWER: [False] * 3}
    assert ["ben" in page for page in everybody.values()] == [True, False, False]
    assert ['data-label="answer"' in page for page in everybody.values()] == [True, True, False]


def test_a_holdout_that_cannot_be_opened_keeps_nobody_from_the_others(tmp_path):
    service_samples.seal(tmp_path, "whole")
    service_samples.seal(tmp_path, "broken", holdout=service_samples.rows(5), training=service_samples.rows(6))
    next((tmp_path / "study.rows").glob("broken-*/steward.key")).unlink()
    app = make(service_samples.storage(tmp_path))
    with http_client(app, token(app, Role.VIEWER)) as client:
        answer = client.get("/holdouts", headers=HTML)
    assert answer.status_code == 200
    assert "It cannot be opened" in answer.text
    assert answer.text.count("<meter") == 2  # those of the other one
    assert ["/holdouts/whole" in answer.text, "/holdouts/broken" in answer.text] == [True, True]


def test_budgets_and_answers_are_meters_that_say_their_numbers(see):
    page = see("/holdouts/flights").text
    budget = re.findall(r'<meter aria-labelledby="part-(\w+)" value="(\d+)" max="(\d+)"', page)
    assert ("queries", "55", "60") in budget
    places = [float(place) for place in re.findall(r'<meter value="([0-9.]+)" aria-label="place in its range"', page)]
    values = [float(value) for value in re.findall(r'data-label="answer">([0-9.]+)', page)]
    assert len(places) == 4
    assert places == pytest.approx(values, abs=1e-3)  # shares, whose range is 0 to 1
    assert "<svg" not in page


@pytest.mark.parametrize(("dependence", "said"), [
    (Groups("delay"), "Sets of rows that tell about each other"),
    (MarkovChain([[0.9, 0.1], [0.2, 0.8]], order_by="delay"), "Influence of one row on another"),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore::everhold.EverholdWarning")
def test_the_dependence_of_rows_is_a_table(tmp_path, dependence, said):
    settings = {"training": None, "allow_vacuous": True, "mechanism": "gaussian"}
    service_samples.seal(tmp_path, allot=(), dependence=dependence, **settings)
    app = make(service_samples.storage(tmp_path))
    assert said in seen(app, "/holdouts/study", Role.VIEWER, "vic").text


def test_who_may_not_see_a_holdout_sees_what_everybody_sees_of_one_that_is_not_there(see):
    hidden = see("/holdouts/flights", Role.ANALYST, "ada", holdouts=["cup"])
    missing = see("/holdouts/nobodys", Role.ANALYST, "ada", holdouts=["cup"])
    assert (hidden.status_code, missing.status_code) == (404, 404)
    assert hidden.text.replace("flights", "nobodys") == missing.text


def test_an_analyst_without_an_allotment_is_told_so_and_sees_no_answers(see):
    page = see("/holdouts/flights", Role.ANALYST, "newcomer").text
    assert "You cannot ask yet" in page
    assert "dep_delay &gt;" not in page


def test_what_people_write_is_text_and_nothing_else(see, send):
    board = see("/holdouts/cup/leaderboard", Role.VIEWER).text
    asked = send("/holdouts/flights/ask", {"kind": "mean", "of": HOSTILE})
    made = send("/tokens", {"name": HOSTILE, "role": "viewer"})
    for page in (board, asked.text, made.text):
        assert "<img src=x" not in page
        assert "49" not in re.findall(r"\{\{.*?\}\}|49'", page)
        assert not [facts for tag, facts in Elements(page).found if tag == "img"]
    assert HOSTILE in Elements(board).text
    assert any(facts.get("value") == HOSTILE for _, facts in Elements(asked.text).found)


def test_errors_are_the_librarys_own_words_and_cost_nothing(send, see):
    before = see("/holdouts/flights", Role.ANALYST, "ada").text
    answer = send("/holdouts/flights/ask", {"kind": "mean", "of": "dely > 1"}, Role.ANALYST, "ada")
    assert answer.status_code == 422
    assert "dely" in answer.text
    left = re.compile(r"<progress[^>]*>[^<]*")
    assert left.findall(before) == left.findall(see("/holdouts/flights", Role.ANALYST, "ada").text)


def test_a_quote_asks_nothing(send, see):
    quoted = send("/holdouts/flights/quote", {"kind": "mean", "of": "dep_delay > 33"}, Role.ANALYST, "ada")
    assert "costs 0 if the guess holds, else 1 surprise." in quoted.text
    assert "<html" not in quoted.text
    assert "&gt; 33" not in see("/holdouts/flights").text


def test_an_answer_is_told_once_charged_and_free_again(send):
    first = send("/holdouts/flights/ask", {"kind": "mean", "of": "dep_delay > 6", "guess": "0.95"})
    again = send("/holdouts/flights/ask", {"kind": "mean", "of": "dep_delay > 6", "guess": "0.95"})
    assert "from the sealed rows · charged 1" in first.text
    assert "answered before" not in first.text
    assert "answered before" in again.text


def test_answers_stand_in_the_units_in_which_they_were_asked(send, see):
    asked = {"kind": "mean", "of": "dep_delay", "low": "0", "high": "120"}
    told = re.search(r"<b>(.*?)</b> <span>(.*?)</span>", send("/holdouts/flights/ask", asked).text)
    assert float(told[1]) > 1.0
    page = see("/holdouts/flights").text
    assert f'<td class="number" data-label="answer">{told[1]} <meter' in page
    assert f'<td class="number nowrap" data-label="interval">{told[2]}</td>' in page


def test_what_a_kind_of_query_needs_is_not_called_optional(send, see):
    page = Elements(see("/holdouts/flights/ask?kind=histogram").text)
    needed = {facts["name"] for tag, facts in page.found if tag in ("input", "select") and "required" in facts}
    assert needed == {"of", "edges"}
    told = send("/holdouts/flights/ask", {"kind": "histogram", "of": "carrier", "edges": "AA,UA", "missing": "no"})
    assert told.status_code == 200
    assert "missing" not in Elements(told.text).text.split("kind of query")[0]


def test_acts_of_the_pages_are_told_in_words_and_name_their_holdout(send, see):
    send("/holdouts/flights/allot", {"analyst": "cy", "queries": "3", "charges": "1"})
    send("/holdouts/flights/gates/challenge", {"gate": "nightly", "rule": "dep_delay > 39.75"}, Role.STEWARD)
    acts = Elements(see("/audit").text).text
    assert "POST /holdouts" not in acts.split("challenge")[0]
    assert all(word in acts for word in ("allot", "challenge", "flights"))


def test_a_token_may_come_with_a_part_of_the_budget_and_says_where_it_lets_in(send, see):
    wanted = {"name": "kay", "role": "analyst", "holdouts": "flights", "queries": "6", "charges": "2"}
    assert f"{ADDRESS}/login" in send("/tokens", wanted).text
    assert re.search(r"0 of 2|2 <span class=\"soft\">of 2", see("/holdouts/flights", Role.ANALYST, "kay").text)
    assert "its queries are empty" in send("/tokens", {**wanted, "queries": ""}).text


def test_files_of_analysts_are_refused_where_features_are_sealed(send, tmp_path):
    file = written(tmp_path / "p.csv", {"prediction": [1, 0]})
    given = [("predictions", ("../../p.csv", file.read_bytes(), "text/csv"))]
    answer = send("/holdouts/flights/ask", {"kind": "accuracy"}, Role.ANALYST, "ada", given)
    assert answer.status_code == 422
    assert "Send a rule" in answer.text


def files_of(folder, **tables):
    return [
        (side, ("x.csv", written(folder / f"{side}.csv", table).read_bytes(), "text/csv"))
        for side, table in tables.items()
    ]


def test_two_rules_are_compared(send):
    sides = {"first_rule": "dep_delay > 15", "second_rule": "dep_delay > 40"}
    for metric in ("accuracy", "f1"):
        page = Elements(send("/holdouts/flights/compare", {"metric": metric, **sides}, Role.ANALYST, "ben").text)
        assert "charged 0" in page.text
        assert "minus" in page.text
    again = Elements(send("/holdouts/flights/compare", {"metric": "f1", **sides}, Role.ANALYST, "ben").text)
    assert "answered before" in again.text


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A holdout whose features are public, so that analysts hand in files."""
    folder = tmp_path_factory.mktemp("study")
    with Holdout.create(
        f"sqlite:///{folder}/s.db", "study", holdout={"id": IDS, "x": np.arange(ROWS) * 0.5, "y": TRUTH}, label="y",
        rows=Rows(row_id="id", features="public"), mechanism="guess_and_check", queries=20,
    ) as made:  # fmt: skip
        made.allot("ada", queries=10, charges=2)
    return make(f"sqlite:///{folder}/s.db")


@pytest.mark.parametrize(("metric", "where"), [("accuracy", ""), ("balanced_accuracy", "x > 300"), ("f1", "x > 300")])
def test_two_files_are_compared(study, tmp_path, metric, where):
    sides = {"first": model(0.9, 3), "second": model(0.85, 4)}
    parts = [
        (key, (None, value)) for key, value in (("csrf", ""), ("metric", metric), ("where", where), ("guess", "0.05"))
    ]
    with http_client(study) as client:
        head = {**bearing(token(study, Role.ANALYST, "ada")), **HTML}
        answer = client.post("/holdouts/study/compare", files=[*parts, *files_of(tmp_path, **sides)], headers=head)
        alone = client.post(
            "/holdouts/study/compare", files=[*parts, *files_of(tmp_path, first=model(0.9, 3))], headers=head
        )
    page = Elements(answer.text)
    assert answer.status_code == 200, page.text
    assert "0.05" in page.text
    assert "minus" in page.text
    assert ("among rows with x > 300" in page.text) is bool(where)
    assert alone.status_code == 422
    assert "second predictions are missing" in Elements(alone.text).text


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"metric": "r2"}, "There is no such score"),
        ({"metric": "f1", "second_rule": ""}, "second predictions are missing"),
        ({"metric": "f1", "where": HOSTILE}, "where"),
    ],
)
def test_what_cannot_be_compared_costs_nothing(send, see, fields, said):
    before = Elements(see("/holdouts/flights").text).text
    sides = {"first_rule": "dep_delay > 15", "second_rule": "dep_delay > 40"}
    answer = send("/holdouts/flights/compare", {**sides, **fields})
    assert answer.status_code == 422
    assert said in Elements(answer.text).text
    assert "<img" not in answer.text
    assert Elements(see("/holdouts/flights").text).text == before


def test_a_team_hands_in_under_its_own_name_alone(send, tmp_path):
    given = [("predictions", ("x.csv", written(tmp_path / "p.csv", model(0.8, 3)).read_bytes(), "text/csv"))]
    checked = send("/holdouts/cup/submit", {"act": "check"}, Role.ANALYST, "wrens", given)
    assert "The format is right" in checked.text
    assert "wrens" not in send("/holdouts/cup/submit", {"act": "check"}, Role.ANALYST, "terns", given).text
    forged = send("/holdouts/cup/submit", {"team": "owls", "act": "submit"}, Role.ANALYST, "wrens", given)
    assert "and not for another team" in forged.text
    received = send("/holdouts/cup/submit", {"act": "submit", "guess": "0.8"}, Role.ANALYST, "wrens", given)
    assert "Submission 1 of 4 of team wrens" in received.text
    assert "<b>0.8</b>" not in received.text  # the team's own guess
    assert "The score is confirmed within [" in received.text


def test_a_first_submission_is_asked_for_its_guess(send, see, tmp_path):
    given = [("predictions", ("x.csv", written(tmp_path / "p.csv", model(0.8, 3)).read_bytes(), "text/csv"))]
    guess = r'<input id="f-guess"[^>]* required'
    assert re.search(guess, see("/holdouts/cup/submit", Role.ANALYST, "robins").text)
    send("/holdouts/cup/submit", {"act": "submit", "guess": "0.8"}, Role.ANALYST, "robins", given)
    assert not re.search(guess, see("/holdouts/cup/submit", Role.ANALYST, "robins").text)


def test_a_team_makes_an_earlier_submission_final(send, see, tmp_path):
    for seed in (3, 4):
        given = [("predictions", ("x.csv", written(tmp_path / "p.csv", model(0.8, seed)).read_bytes(), "text/csv"))]
        send("/holdouts/cup/submit", {"act": "submit", "guess": "0.8"}, Role.ANALYST, "wrens", given)
    assert "Make submission 1 of wrens final" in see("/holdouts/cup/submit", Role.ANALYST, "wrens").text
    for chosen in ("9 wrens", "1 owls", "x", ""):
        assert send("/holdouts/cup/submit/final", {"chosen": chosen}, Role.ANALYST, "wrens").status_code in (403, 422)
    done = send("/holdouts/cup/submit/final", {"chosen": "1 wrens"}, Role.ANALYST, "wrens")
    assert (done.status_code, done.headers["location"]) == (303, "/holdouts/cup/submit#sent")
    page = see("/holdouts/cup/submit", Role.ANALYST, "wrens").text
    assert "Make submission 2 of wrens final" in page
    assert "owls" not in page


def test_rows_are_sealed_whatever_they_and_their_files_are_called(send, see, tmp_path):
    given = [
        (part, ("../../../etc/passwd\0.csv", written(tmp_path / f"{part}.csv", rows(seed)).read_bytes(), "text/csv"))
        for part, seed in (("holdout", 7), ("training", 8))
    ]
    fields = {"name": "new", "label": "late", "queries": "40", "surprises": "3", "confidence": "95"}
    assert "Pass a number" in send("/seal", {**fields, "queries": "x"}, files=given).text
    answer = send("/seal", fields, files=given)
    assert (answer.status_code, answer.headers["location"]) == (303, "/holdouts/new")
    assert "40 queries" in see("/holdouts/new").text


def test_public_rows_are_sealed_in_the_form_and_scored_without_a_guess(send, see, tmp_path):
    given = [("holdout", ("h.csv", written(tmp_path / "h.csv", rows(7)).read_bytes(), "text/csv"))]
    fields = {
        "name": "open", "label": "late", "confidence": "95", "feedback": "score", "public": "40", "metric": "accuracy",
        "teams": "3", "submissions": "3", "features_public": "yes",
    }  # fmt: skip
    assert "share" in send("/seal", {**fields, "feedback": "none"}, files=given).text
    answer = send("/seal", fields, files=given)
    assert (answer.status_code, answer.headers["location"]) == (303, "/holdouts/open")
    page = see("/holdouts/open/submit").text
    assert "public rows. The final board is about the other rows" in page
    assert "your own guess" not in page
    late = np.asarray(rows(7)["late"]).astype(int)
    handed_in = [("predictions", ("p.csv", "\n".join(["p", *map(str, late)]).encode(), "text/csv"))]
    told = send("/holdouts/open/submit", {"team": "owls", "act": "submit"}, files=handed_in).text
    assert "The interval of this file" in told
    assert "The public score is 1" in told
    assert "proves nothing" in see("/holdouts/open/leaderboard").text


TERMS = {"name": "cells", "label": "late", "confidence": "95", "queries": "40", "surprises": "3"}
HELD = {**TERMS, "feedback": "none", "teams": "3", "submissions": "3", "features_public": "yes"}


def test_a_comma_before_decimals_is_refused_and_one_between_thousands_is_read(send):
    for guess in ("0,5", "12,5", "1,0000"):
        page = send("/holdouts/flights/ask", {"kind": "mean", "of": "dep_delay > 7", "guess": guess}).text
        assert f"is '{guess}'. Pass a number, with a point before its decimals" in Elements(page).text
    page = send("/holdouts/flights/ask", {"kind": "mean", "of": "dep_delay > 7", "guess": "1,000"}).text
    assert "1000.0. Pass a number from 0.0 to 1.0" in Elements(page).text


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"teams": "1"}, "'most teams' is 1. Pass a whole number from 2"),
        ({"submissions": "many"}, "'submissions per team' is 'many'. Pass a number, with a"),
        ({"feedback": "score", "public": "80"}, "'public rows, in percent' is 80. Pass a number of per cent from 1"),
        ({"low": "0"}, "'lowest label' is 0, and the metric accuracy has no such setting. Leave the field empty."),
        ({"deadline": "soon"}, "'deadline' is 'soon'. Pass a time"),
        ({"largest_group": "3"}, "'most rows of one group' is only for holdouts with 'Rows will be appended later'"),
        ({"name": "a/b"}, "The name 'a/b' cannot be used. Pass up to 64 letters"),
        ({"confidence": "120"}, "'probability, in %' is 120."),
        ({"confidence": "0.95"}, "'probability, in %' is 0.95. Pass a number of per cent from 1"),
    ],
)
def test_what_is_wrong_with_the_seal_form_is_said_by_the_label_of_the_field(send, tmp_path, fields, said):
    given = [("holdout", ("h.csv", written(tmp_path / "h.csv", rows(7)).read_bytes(), "text/csv"))]
    page = Elements(send("/seal", {**HELD, **fields}, files=given).text).text
    assert said in page
    assert "Nothing was created. Choose the files again." in page
    assert "'rows to seal' is missing" in Elements(send("/seal", HELD).text).text


def test_a_cell_of_open_rows_is_quoted_and_of_sealed_ones_only_named(send, tmp_path):
    right, wrong = ({**rows(seed), "late": [*map(str, rows(seed)["late"])]} for seed in (7, 8))
    wrong["late"][16] = "maybe"
    right, wrong = (written(tmp_path / f"{n}.csv", each).read_bytes() for n, each in enumerate((right, wrong)))
    for sealed, training, said in (
        (right, wrong, "Row 17 of the training rows has 'maybe' in 'late'"),
        (wrong, right, "Row 17 of the rows to seal has no number in 'late'"),
    ):
        given = [(name, ("h.csv", each, "text/csv")) for name, each in (("holdout", sealed), ("training", training))]
        page = Elements(send("/seal", TERMS, files=given).text).text
        assert said in page
        assert ("maybe" in page) is (training is wrong)


def test_a_setting_of_a_new_holdout_is_in_the_seal_form_with_its_help(see):
    page = unescape(see("/seal").text)
    by_hand = {"features", "rules"}
    elsewhere = {"most_rows", "missing", "share"}  # the last is in the protocol
    assert {name for name, each in SETTINGS.items() if each.about.help not in page} == by_hand | elsewhere


def test_every_metric_of_boards_is_in_the_seal_form_with_its_numbers(send, see, tmp_path):
    names = {each["value"] for tag, each in Elements(see("/seal").text).found if tag == "option" and "value" in each}
    wanted = {name for name, metric in METRICS.own.items() if metric.ordered} - {"neg_brier_score", "failing_rows"}
    assert wanted <= names
    assert "Lower labels and predictions count as this: R², MAE" in see("/seal").text
    given = [("holdout", ("h.csv", written(tmp_path / "h.csv", rows(9)).read_bytes(), "text/csv"))]
    fields = {
        **HELD, "name": "errors", "label": "dep_delay", "metric": "neg_root_mean_squared_error", "low": "0",
        "high": "60",
    }  # fmt: skip
    incomplete = send("/seal", {**fields, "low": ""}, files=given)
    assert "Pass 'lowest label' and 'highest label'" in Elements(incomplete.text).text
    assert send("/seal", fields, files=given).status_code == 303
    assert "Ranked by RMSE of labels from 0 to 60, in units of dep_delay" in see("/holdouts/errors/leaderboard").text
    lines = ["p", *["1"] * len(rows(9)["late"])]
    lines[17] = "maybe"
    handed_in = [("predictions", ("p.csv", "\n".join(lines).encode(), "text/csv"))]
    page = send("/holdouts/errors/submit", {"team": "owls", "act": "submit"}, files=handed_in).text
    assert "has 'maybe' in row 17 of the column 'p'. Pass a number in each row." in Elements(page).text


def test_the_certificate_of_a_competition_shows_the_metric_as_the_board_does(tmp_path):
    storage = f"sqlite:///{tmp_path}/s.db"
    seal_races(storage)
    with Holdout.open(storage, "raced") as held:
        board, certificate = held.competition.leaderboard().for_people(), held.certificate()
    page = certificate.to_html()
    assert verified(certificate, tmp_path)
    assert "The winner is 'owls'" in page.replace("&#x27;", "'").replace("&#39;", "'")
    assert "RMSE of labels from 0 to 60, in units of delay (lower is better)" in page
    assert "neg_root" not in page
    account = certificate.to_dict()["account"]
    assert [(row["team"], row["score"], row["low"]) for row in account["competition"]["rows"]] == [
        (row.team, row.score, row.low) for row in board.standings
    ]
    first = account["queries"][0]
    assert first["asked"].startswith("RMSE of submission 1 of owls")
    assert 0.0 < first["unsealed"]["low"] < first["unsealed"]["value"] < first["unsealed"]["high"]


def verified(certificate, folder):
    certificate.save(folder / "c.html")
    return verify_certificate(folder / "c.html").ok


def test_two_models_of_a_tracker_are_compared_for_nothing(tmp_path):
    storage = f"sqlite:///{tmp_path}/s.db"
    known = {"rows": Rows(row_id="id", features="public"), "mechanism": mechanism()}
    with Holdout.create(storage, "models", holdout={"id": IDS, "y": TRUTH}, label="y", **known) as made:
        one, other = (
            made.ask(accuracy(model(right, seed)), guess=right, models=[{"name": "churn", "version": str(seed)}])
            for right, seed in ((0.9, 1), (0.6, 2))
        )
        path = "/holdouts/models/compare?first=churn version 1&second=churn version 2"
        apart = f"{at_least(one.low - other.high)} to {at_most(one.high - other.low)}"
        page = Elements(seen(make(storage), path).text).text
        assert apart in page
        assert "the two answers" in page
        made.ask(difference(accuracy(model(0.9, 1)), accuracy(model(0.6, 2))), guess=0.3, models=[
            {"name": "churn", "version": "1"}, {"name": "churn", "version": "2"},
        ])  # fmt: skip
        page = Elements(seen(make(storage), path).text).text
        assert "their paired comparison" in page
        assert apart not in page
        assert len(made.transcript()) == 3


def test_a_competition_is_public_only_once_its_steward_says_so(app, send):
    with http_client(app) as client:
        unpublished, nothing = client.get("/public/cup", headers=HTML), client.get("/public/nobodys", headers=HTML)
        assert unpublished.status_code == nothing.status_code == 404
        assert unpublished.text == nothing.text
        assert send("/holdouts/cup/publish", {"public": "yes"}, Role.ANALYST, "ada").status_code == 403
        assert send("/holdouts/cup/publish", {"public": "yes"}).status_code == 303
        shown = client.get("/public/cup", headers=HTML)
        assert shown.status_code == 200
        assert "owls" in shown.text
        assert "allot" not in shown.text
        assert send("/holdouts/flights/publish", {"public": "yes"}).status_code == 409
        assert client.get("/public/flights", headers=HTML).status_code == 404
        send("/holdouts/cup/publish", {"public": ""})
        assert client.get("/public/cup", headers=HTML).status_code == 404


def test_a_token_is_shown_once_and_lets_nobody_in_after_it_was_taken_back(app, send, see):
    made = send("/tokens", {"name": "lin", "role": "analyst", "holdouts": "flights", "queries": "5"})
    secret = re.search(r"eh_[0-9a-f]+_[\w-]+", made.text)[0]
    assert secret not in see("/tokens").text
    with http_client(app) as client:
        assert client.get("/holdouts/flights", headers={**bearing(secret), **HTML}).status_code == 200
        identifier = secret.split("_")[1]
        assert send(f"/tokens/{identifier}/revoke", {}).status_code == 303
        assert client.get("/holdouts/flights", headers=bearing(secret)).status_code == 401
    assert identifier[:12] in see("/tokens").text


def test_unsealing_needs_the_name_and_tells_what_others_lose(send, see):
    assert "No other holdout of this storage loses its promise" in see("/holdouts/cup/unseal").text
    refused = send("/holdouts/cup/unseal", {"confirm": "Cup"})
    assert refused.status_code == 422
    assert "not the holdout" in refused.text
    assert "Not final" in see("/holdouts/cup/leaderboard").text
    told = send("/holdouts/cup/unseal", {"confirm": "cup"})
    assert "The study is closed" in told.text
    between = re.search(r"minus accuracy.*?number[^>]*>(.*?)</td>", told.text)[1]
    assert 0.2 < abs(float(between)) < 0.4  # the owls are right nine times of ten, the others six
    assert "Final. " in see("/holdouts/cup/leaderboard").text
    assert "Tell it again" in see("/holdouts/cup/unseal").text
    assert "The study is closed" in send("/holdouts/cup/unseal", {"confirm": "cup"}).text


def test_errors_are_pages_for_people_and_problem_documents_for_programs(app):
    with http_client(app) as client:
        known = bearing(token(app))
        page = client.get("/holdouts/nobodys", headers={**known, **HTML})
        document = client.get("/holdouts/nobodys", headers=known)
        api = client.get("/api/v1/holdouts/nobodys", headers={**known, **HTML})
        assert [each.status_code for each in (page, document, api)] == [404] * 3
        assert [each.headers["content-type"].split(";")[0] for each in (page, document, api)] == [
            "text/html", "application/problem+json", "application/problem+json",
        ]  # fmt: skip
        assert document.json()["detail"][1:] in Elements(page.text).text
        nobody = client.get("/holdouts", headers=HTML)
        assert (nobody.status_code, nobody.headers["location"]) == (303, "/login")
        assert client.get("/holdouts").status_code == 401


def test_a_fault_of_our_own_shows_nothing_of_itself(app, monkeypatch):
    from everhold_server.web import holdouts

    def broken(*_):
        raise RuntimeError(SECRET)

    monkeypatch.setattr(holdouts, "listed", broken)
    from starlette.testclient import TestClient

    client = TestClient(app, base_url=ADDRESS, raise_server_exceptions=False)
    answer = client.get("/holdouts", headers={**bearing(token(app)), **HTML})
    assert answer.status_code == 500
    assert "Something broke" in answer.text
    assert SECRET not in answer.text


def test_forms_of_a_session_carry_its_token_and_nothing_is_done_without(app):
    with http_client(app) as client:
        csrf = log_in(client, token(app))
        page = Elements(client.get("/tokens").text)
        forms = [facts for tag, facts in page.found if tag == "form" and facts.get("method") == "post"]
        carried = [facts["value"] for tag, facts in page.found if facts.get("name") == "csrf"]
        assert carried == [csrf] * len(forms)
        assert client.post("/tokens", files=[("name", (None, "eve"))]).status_code == 403
        sent = [("csrf", (None, csrf)), ("name", (None, "eve"))]
        assert client.post("/tokens", files=sent).status_code == 200


def test_the_door_is_a_page(app):
    with http_client(app) as client:
        assert 'type="password"' in client.get("/login").text
        wrong = client.post("/login", data={"token": "eh_no_no"})
        assert wrong.status_code == 401
        assert "Invalid, expired or revoked token" in wrong.text
        link = client.get(f"/login/{'x' * 20}%22%3E%3Cscript%3E").text
        assert "<script>" not in link


def test_templates_and_static_files_are_part_of_the_package():
    package = files("everhold_server.web")
    for name in ("templates/base.html", "static/everhold.css", "static/htmx.min.js", "static/htmx.LICENSE.txt"):
        assert package.joinpath(*name.split("/")).is_file()
    assert "Zero-Clause BSD" in package.joinpath("static", "htmx.LICENSE.txt").read_text()


def test_static_files_are_ours_and_kept_by_browsers(app):
    with http_client(app) as client:
        for path in ("/static/everhold.css", "/static/everhold.js", "/static/htmx.min.js", "/assets/results.css"):
            answer = client.get(path)
            assert answer.status_code == 200
            assert answer.headers["cache-control"] == "public, max-age=3600"
        assert client.get("/static/../views.py").status_code == 404
        assert client.get("/static/%2e%2e/views.py").status_code == 404
        style = client.get("/static/everhold.css").text + client.get("/assets/results.css").text
        assert "url(" not in style
        assert "@import" not in style


PART = {**HTML, "hx-request": "true"}
DOUBLED = re.compile(r"\b([a-z]+) \1\b")


def competition(folder, feedback, *, handed_in):
    """A competition with as many submissions of the team larks, and one of owls."""
    with Holdout.create(
        service_samples.storage(folder),
        "cup",
        holdout={"id": IDS, "x": np.arange(ROWS) * 0.5, "y": TRUTH},
        label="y",
        rows=Rows(row_id="id", features="public"),
        competition=Competition(feedback=feedback, teams=4, submissions=25),
        planning=Planning(allow_vacuous=True),
    ) as cup:
        for number in range(handed_in):
            cup.competition.submit(model(0.8 + 0.1 * number / handed_in, 20 + number), team="larks")
        cup.competition.submit(model(0.7, 3), team="owls")
    return make(service_samples.storage(folder))


def seen(app, path, role=Role.STEWARD, name="grace", headers=HTML):
    with http_client(app) as client:
        return client.get(path, headers={**bearing(token(app, role, name)), **headers})


def test_a_part_of_a_page_that_fails_embeds_no_whole_page(app):
    whole, part = seen(app, "/holdouts/nowhere"), seen(app, "/holdouts/nowhere", headers=PART)
    assert whole.status_code == part.status_code == 404
    assert ["<html" in whole.text, "<html" in part.text] == [True, False]
    assert part.text.startswith('<p class="placeholder" role="alert">')
    assert "<header" not in part.text


def test_a_part_of_a_page_asks_to_log_in_again_and_embeds_no_login_page(app):
    with http_client(app) as client:
        part = client.get("/plan", headers=PART, follow_redirects=False)
    assert part.status_code == 401
    assert 'href="/login"' in part.text
    assert "<form" not in part.text


@pytest.mark.parametrize(("feedback", "said"), [
    ("none", "Nothing is told about a submission before the end."),
    ("leader", "A team is told whether its submission is proved to lead"),
])  # fmt: skip
def test_a_team_with_submissions_is_told_how_many_they_are(tmp_path, feedback, said):
    app = competition(tmp_path, feedback, handed_in=20)
    team = seen(app, "/holdouts/cup", Role.ANALYST, "larks").text
    assert "You have handed in 20 of 25 submissions." in team
    assert said in team
    assert "Nothing has been handed in yet" not in team
    assert "Nothing has been handed in yet" in seen(app, "/holdouts/cup", Role.ANALYST, "swifts").text
    if feedback == "none":  # else the steward has a table of challenges
        assert "Handed in: 21 submissions of 2 teams." in seen(app, "/holdouts/cup").text


def test_submissions_are_named_by_team_and_number_and_champions_by_what_they_are(tmp_path, see):
    cup = Elements(seen(competition(tmp_path, "leader", handed_in=3), "/holdouts/cup").text).text
    assert "accuracy of submission 2 of larks against the champion, submission 1 of larks" in cup
    assert not re.search(r"(predictions|champion) [0-9a-f]{8}", cup)
    gates = Elements(see("/holdouts/flights/gates").text).text
    assert re.search(r"8\s*the rule dep_delay > 15\s*the rule dep_delay > 40\s*more than 0, to 1", gates)
    assert not re.search(r"\b[0-9a-f]{8,}\b", gates)


def test_a_model_that_somebody_else_proposed_is_named_by_its_entry(see):
    for role, name in ((Role.VIEWER, "vic"), (Role.ANALYST, "ada")):
        gates = Elements(see("/holdouts/flights/gates", role, name).text).text
        assert re.search(r"8\s*the challenger of entry 8\s*the first champion\s*more than 0, to 1", gates)
        assert "dep_delay > 40" not in gates


def passed(right):
    return {f"t{n}": {"passed": int(n < right), "cost": 0.2 if right < 50 else 0.9} for n in range(50)}


def test_the_page_of_a_gate_about_a_ratio(tmp_path):
    storage = f"sqlite:///{tmp_path}/s.db"
    with seal_cases(storage, "suite", results=passed(5), better="cost / passed", margin=0.01) as suite:
        assert suite.gate(name="main").challenge(passed(49), challenger="commit-1").promoted
    page = Elements(seen(make(storage), "/holdouts/suite/gates").text).text
    assert re.search(r"commit-1\s*the first champion\s*more than 0.01\s*more than 0.01\s*e", page)
    assert "ratios, by how far cases spread" in page


def test_the_page_of_a_gate_about_cases(tmp_path):
    storage = f"sqlite:///{tmp_path}/s.db"
    wanted = {"better": "passed", "not_worse": {"cost": 0.4}, "units": "runs", "margin": 0.1}
    with seal_cases(storage, "suite", results=passed(5), **wanted) as suite:
        suite.gate(name="main").challenge(passed(30), challenger="commit-1")
    app = make(storage)
    page = Elements(seen(app, "/holdouts/suite/gates").text).text
    assert re.search(r"commit-1\s*the first champion\s*more than 0.1, to 1\s*more than 0.1, to 1", page)
    assert "these cases, new runs" in page
    assert "a gain of 0." in page
    assert "commit-1" not in Elements(seen(app, "/holdouts/suite/gates", Role.VIEWER, "vic").text).text
    lines = "".join(f"{case},{each['passed']},{each['cost']}\n" for case, each in passed(50).items())
    file = [("results", ("x.csv", f"case,passed,cost\n{lines}".encode(), "text/csv"))]
    fields = [(key, (None, value)) for key, value in (("csrf", ""), ("gate", "main"), ("challenger", "dear"))]
    with http_client(app) as client:
        headers = {**bearing(token(app, Role.STEWARD, "grace")), **HTML}
        told = client.post("/holdouts/suite/gates/results", files=fields + file, headers=headers)
        none = client.post("/holdouts/suite/gates/results", files=fields, headers=headers)
    assert told.status_code == 200, told.text
    assert "Kept" in Elements(told.text).text
    assert none.status_code == 422


def test_the_help_of_every_kind_of_query_reads_as_a_sentence(see):
    for kind in KINDS:
        if kind.form in (Form.CODE, Form.CELLS):
            continue
        page = see(f"/holdouts/flights/ask?kind={kind.name}").text
        helps = [unescape(found) for found in re.findall(r'<p class="help"[^>]*>([^<]*)</p>', page)]
        assert helps
        for text in helps:
            assert not DOUBLED.search(text.lower()), text
            assert "--" not in text
            assert "()" not in text
            assert text.endswith("."), text
            assert not re.search(r"\b(with|of|see|the|for)[.;:,]", text), text


def test_no_table_has_two_columns_of_one_name(see):
    for path in (*ALL, *ANALYSTS, *STEWARDS, "/plan"):
        for head in re.findall(r"<thead>(.*?)</thead>", see(path).text, re.DOTALL):
            names = [re.sub(r"<[^>]+>", " ", cell).strip() for cell in re.findall(r"<th\b[^>]*>(.*?)</th>", head)]
            assert len(set(names)) == len(names), (path, names)


def test_cells_of_a_table_carry_the_names_of_their_columns(see):
    for path in ("/holdouts/flights", "/holdouts/flights/gates", "/tokens", "/audit"):
        for head, row in re.findall(
            r'<table class="stack">.*?<thead>(.*?)</thead>\s*<tbody>\s*<tr[^>]*>(.*?)</tr>', see(path).text, re.DOTALL
        ):
            named = re.findall(r"<th\b[^>]*>([^<]*)</th>", head)
            labels = re.findall(r'data-label="([^"]*)"', row)
            shortened = [label if label != "source" else "where it comes from" for label in labels]
            assert shortened == named


def test_the_audit_names_no_query_where_an_answer_has_none(tmp_path):
    service_samples.seal(tmp_path, allot=())
    app = make(service_samples.storage(tmp_path))
    fields = {"csrf": "", "kind": "histogram", "of": "carrier", "edges": "AA", "missing": "no"}
    with http_client(app) as client:
        head = {**bearing(token(app, Role.STEWARD, "grace")), **HTML}
        parts = [(key, (None, value)) for key, value in fields.items()]
        assert client.post("/holdouts/study/ask", files=parts, headers=head).status_code == 200
        rows = Elements(client.get("/audit", headers=head).text).text
    assert "ask" in rows
    assert "None" not in rows
    assert "query" not in rows.replace("Queries are named", "")


def test_only_the_steward_sees_all_queries_on_the_certificate(see):
    for role, listed in ((Role.STEWARD, True), (Role.ANALYST, False), (Role.VIEWER, False)):
        page = Elements(see("/holdouts/flights/certificate", role, "ada").text).text
        assert ("mean of dep_delay > 21.5" in page) is listed
        assert ("does not list the queries" in page) is not listed


DECLARED = [
    ({"kind": "texts", "members": "40"}, "text expressions of up to 40 bits"),
    ({"kind": "listed", "members": "late = 1\ndep_delay > 60\n"}, "2 listed queries"),
    ({"kind": "subgroups", "members": "carrier", "of": "dep_delay > 15"}, "subgroups of carrier"),
]


@pytest.mark.parametrize(
    ("fields", "holds"), DECLARED, ids=lambda each: each.get("kind") if isinstance(each, dict) else ""
)
def test_a_steward_declares_a_family(send, see, fields, holds):
    name = f"family of {fields['kind']}"
    assert send("/holdouts/flights/families", {"family": name, **fields}).status_code == 303
    page = see("/holdouts/flights").text
    assert name in page
    assert holds in page
    assert "Declare a family" in page
    assert "Declare a family" not in see("/holdouts/flights", Role.ANALYST, "ada").text
    assert send("/holdouts/flights/families", {"family": "other", **fields}, Role.ANALYST, "ada").status_code == 403


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"kind": "texts", "members": "many"}, "members is"),
        ({"kind": "listed", "members": "height > 3"}, "height"),
        ({"kind": "subgroups", "members": "carrier", "of": ""}, "of"),
        ({"kind": HOSTILE, "members": "3"}, "kind"),
    ],
)
def test_a_family_that_cannot_be_declared_is_said_with_what_was_written(send, fields, why):
    said = send("/holdouts/flights/families", {"family": HOSTILE, **fields})
    assert (said.status_code, HOSTILE in said.text) == (422, False)
    assert re.search(why, said.text)


def test_a_protocol_is_planned(see):
    page = see("/plan/protocol?rows=20000&protocol=%5Bfamilies.ends%5D%0Amembers%20%3D%2030").text
    assert "ends" in page
    assert "0.0118" in page
    assert see("/plan/protocol?protocol=families%20%3D%203").status_code == 422
    assert see("/plan/protocol?protocol=%5B%5B").status_code == 422


def test_deadline_and_rules_stand_where_teams_hand_in_and_on_every_board(tmp_path):
    storage = f"sqlite:///{tmp_path}/s.db"
    Holdout.create(
        storage, "cup", holdout={"id": IDS, "x": np.arange(ROWS) * 0.5, "y": TRUTH}, label="y",
        rows=Rows(row_id="id", features="public"), planning=Planning(allow_vacuous=True),
        competition=Competition(
            teams=2, submissions=2, deadline="2036-12-01T12:00:00+00:00", rules="1. One.\r\n2. Two."
        ),
    ).close()  # fmt: skip
    app = make(storage)
    app.state.published.put("cup", public=True, by="grace")
    with http_client(app, token(app)) as client:
        for path in ("/holdouts/cup/submit", "/holdouts/cup/leaderboard", "/public/cup"):
            text = client.get(path, headers=HTML).text
            assert "1 December 2036, 12:00 UTC" in text, path
            assert "1. One.\n2. Two." in text, path
