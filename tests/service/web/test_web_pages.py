"""Pages one by one: what is shown to whom, what is not, and that nothing of what people write becomes markup."""

import re
from html.parser import HTMLParser
from importlib.resources import files

import holdout_samples as samples
import pytest
import service_samples
from door_samples import ADDRESS, bearing, log_in, make, token, visiting
from web_samples import HOSTILE, SECRET, model, rows, seal, written

from everhold import GuessAndCheck, Thresholdout
from everhold.service.visitors import Role, Visitor
from everhold.service.web.views import View

HTML = {"accept": "text/html"}
ALL = (
    "/holdouts", "/holdouts/flights", "/holdouts/flights/gates", "/holdouts/flights/certificate", "/holdouts/cup",
    "/holdouts/cup/leaderboard", "/verify",
)  # fmt: skip
ANALYSTS = ("/holdouts/flights/ask", "/holdouts/flights/ask?kind=choose", "/holdouts/cup/submit")
STEWARDS = ("/seal", "/holdouts/flights/unseal", "/holdouts/cup/unseal", "/tokens", "/audit")


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    return make(seal(tmp_path_factory.mktemp("pages")))


@pytest.fixture
def see(app):
    """The page at a path, as somebody with a token sees it."""

    def at(path, role=Role.STEWARD, name="grace", **wish):
        with visiting(app) as client:
            return client.get(path, headers={**bearing(token(app, role, name, **wish)), **HTML})

    return at


@pytest.fixture
def send(app):
    """The page that answers a form of somebody with a token."""

    def to(path, fields, role=Role.STEWARD, name="grace", files=()):
        parts = [(key, (None, value)) for key, value in {"csrf": "", **fields}.items()] + list(files)
        with visiting(app) as client:
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
    assert ["chart-answers" in page for page in everybody.values()] == [True, True, False]


def test_a_holdout_that_cannot_be_opened_keeps_nobody_from_the_others(tmp_path):
    service_samples.seal(tmp_path, "whole")
    service_samples.seal(tmp_path, "broken", holdout=service_samples.rows(5), training=service_samples.rows(6))
    next((tmp_path / "study.rows").glob("broken-*/steward.key")).unlink()
    app = make(service_samples.storage(tmp_path))
    with visiting(app, token(app, Role.VIEWER)) as client:
        answer = client.get("/holdouts", headers=HTML)
    assert answer.status_code == 200
    assert "It cannot be opened" in answer.text
    assert answer.text.count("<progress") == 2  # those of the other one
    assert ["/holdouts/whole" in answer.text, "/holdouts/broken" in answer.text] == [True, True]


@pytest.mark.parametrize(
    ("mechanism", "said"),
    [
        (Thresholdout(threshold=0.1, threshold_scale=0.02, comparison_scale=0.02, answer_scale=0.02, overfits=5,
                      rows=samples.ROWS, queries=50), "the threshold, beyond which an estimate is corrected"),
        (GuessAndCheck(rows=samples.ROWS, queries=50, overfits=5, tolerance=0.2, grid=10), "as wide as the promise"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::everhold.VacuousGuaranteeWarning")  # of so few rows
def test_training_estimates_have_the_band_within_which_they_were_to_be_right(tmp_path, mechanism, said):
    service_samples.seal(tmp_path, mechanism=mechanism, allot=(), allow_vacuous=True)
    with service_samples.opened(tmp_path) as holdout:
        holdout.ask("delay > 15")
        status = holdout.status()
        view = View(holdout, status, Visitor(Role.STEWARD, "grace"), holdout)
        sketch = view.sketches()["estimates"]
        assert said in sketch.caption
        assert sketch.facts()["band"] == (0.1 if isinstance(mechanism, Thresholdout) else status["radius"])


def test_what_is_assumed_of_the_rows_has_a_picture_for_everybody_who_sees_the_promise(see):
    for role in Role:
        assert "Which rows tell about each other" in see("/holdouts/flights", role).text
        assert see("/holdouts/flights/pictures/dependence", role).status_code == 200


def test_pictures_are_as_private_as_what_they_are_drawn_from(see):
    assert see("/holdouts/flights/pictures/answers", Role.ANALYST, "ada").status_code == 200
    assert see("/holdouts/flights/pictures/answers", Role.VIEWER).status_code == 404
    assert see("/holdouts/flights/pictures/gates", Role.VIEWER).status_code == 200
    assert see("/holdouts/flights/pictures/../../etc").status_code == 404


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
    assert "nothing was charged" in answer.text
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
    assert f'<td class="number">{told[1]}</td><td class="number nowrap">{told[2]}</td>' in see("/holdouts/flights").text


def test_what_a_kind_of_question_needs_is_not_called_optional(send, see):
    page = Elements(see("/holdouts/flights/ask?kind=histogram").text)
    needed = {facts["name"] for tag, facts in page.found if tag in ("input", "select") and "required" in facts}
    assert needed == {"of", "edges"}
    told = send("/holdouts/flights/ask", {"kind": "histogram", "of": "carrier", "edges": "AA,UA", "missing": "no"})
    assert told.status_code == 200
    assert "missing" not in Elements(told.text).text.split("kind of question")[0]


def test_acts_of_the_pages_are_told_in_words_and_name_their_holdout(send, see):
    send("/holdouts/flights/allot", {"analyst": "cy", "questions": "3", "charges": "1"})
    send("/holdouts/flights/gates/challenge", {"gate": "nightly", "rule": "dep_delay > 39.75"}, Role.STEWARD)
    acts = Elements(see("/audit").text).text
    assert "POST /holdouts" not in acts.split("challenge")[0]
    assert all(word in acts for word in ("allot", "challenge", "flights"))


def test_a_token_may_come_with_a_part_of_the_budget_and_says_where_it_lets_in(send, see):
    wish = {"name": "kay", "role": "analyst", "holdouts": "flights", "questions": "6", "charges": "2"}
    assert f"{ADDRESS}/login" in send("/tokens", wish).text
    assert re.search(r"0 of 2|2 <span class=\"soft\">of 2", see("/holdouts/flights", Role.ANALYST, "kay").text)
    assert "no questions" in send("/tokens", {**wish, "questions": ""}).text


def test_files_of_analysts_are_refused_where_features_are_sealed(send, tmp_path):
    file = written(tmp_path / "p.csv", {"prediction": [1, 0]})
    given = [("predictions", ("../../p.csv", file.read_bytes(), "text/csv"))]
    answer = send("/holdouts/flights/ask", {"kind": "accuracy"}, Role.ANALYST, "ada", given)
    assert answer.status_code == 422
    assert "expected a rule" in answer.text


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
    assert "the score is confirmed within [" in received.text


def test_rows_are_sealed_whatever_they_and_their_files_are_called(send, see, tmp_path):
    given = [
        (part, ("../../../etc/passwd\0.csv", written(tmp_path / f"{part}.csv", rows(seed)).read_bytes(), "text/csv"))
        for part, seed in (("holdout", 7), ("training", 8))
    ]
    fields = {"name": "new", "label": "late", "queries": "40", "overfits": "3", "confidence": "95"}
    assert "expected a number" in send("/seal", {**fields, "queries": "x"}, files=given).text
    answer = send("/seal", fields, files=given)
    assert (answer.status_code, answer.headers["location"]) == (303, "/holdouts/new")
    assert "40 questions" in see("/holdouts/new").text


def test_a_competition_is_public_only_once_its_steward_says_so(app, send):
    with visiting(app) as client:
        unpublished, nothing = client.get("/public/cup", headers=HTML), client.get("/public/nobodys", headers=HTML)
        assert unpublished.status_code == nothing.status_code == 404
        assert unpublished.text == nothing.text
        assert send("/holdouts/cup/publish", {"public": "yes"}, Role.ANALYST, "ada").status_code == 403
        assert send("/holdouts/cup/publish", {"public": "yes"}).status_code == 303
        shown = client.get("/public/cup", headers=HTML)
        assert shown.status_code == 200
        assert "owls" in shown.text
        assert "allot" not in shown.text
        assert send("/holdouts/flights/publish", {"public": "yes"}).status_code == 422
        assert client.get("/public/flights", headers=HTML).status_code == 404
        send("/holdouts/cup/publish", {"public": ""})
        assert client.get("/public/cup", headers=HTML).status_code == 404


def test_a_token_is_shown_once_and_lets_nobody_in_after_it_was_taken_back(app, send, see):
    made = send("/tokens", {"name": "lin", "role": "analyst", "holdouts": "flights", "questions": "5"})
    secret = re.search(r"eh_[0-9a-f]+_[\w-]+", made.text)[0]
    assert secret not in see("/tokens").text
    with visiting(app) as client:
        assert client.get("/holdouts/flights", headers={**bearing(secret), **HTML}).status_code == 200
        identifier = secret.split("_")[1]
        assert send(f"/tokens/{identifier}/revoke", {}).status_code == 303
        assert client.get("/holdouts/flights", headers=bearing(secret)).status_code == 401
    assert identifier[:12] in see("/tokens").text


def test_unsealing_needs_the_name_and_tells_what_others_lose(send, see):
    assert "No other holdout of this storage loses its promise" in see("/holdouts/cup/unseal").text
    refused = send("/holdouts/cup/unseal", {"confirm": "Cup"})
    assert refused.status_code == 422
    assert "nothing was told" in refused.text
    assert "Not final" in see("/holdouts/cup/leaderboard").text
    told = send("/holdouts/cup/unseal", {"confirm": "cup"})
    assert "The study is closed" in told.text
    between = re.search(r"minus accuracy.*?number\">(.*?)</td>", told.text)[1]
    assert 0.2 < abs(float(between)) < 0.4  # the owls are right nine times of ten, the others six
    assert "Final. " in see("/holdouts/cup/leaderboard").text
    assert "Tell it again" in see("/holdouts/cup/unseal").text
    assert "The study is closed" in send("/holdouts/cup/unseal", {"confirm": "cup"}).text


def test_errors_are_pages_for_people_and_problem_documents_for_programs(app):
    with visiting(app) as client:
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
    from everhold.service.web import holdouts

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
    with visiting(app) as client:
        csrf = log_in(client, token(app))
        page = Elements(client.get("/tokens").text)
        forms = [facts for tag, facts in page.found if tag == "form" and facts.get("method") == "post"]
        carried = [facts["value"] for tag, facts in page.found if facts.get("name") == "csrf"]
        assert carried == [csrf] * len(forms)
        assert client.post("/tokens", files=[("name", (None, "eve"))]).status_code == 403
        sent = [("csrf", (None, csrf)), ("name", (None, "eve"))]
        assert client.post("/tokens", files=sent).status_code == 200


def test_the_door_is_a_page(app):
    with visiting(app) as client:
        assert 'type="password"' in client.get("/login").text
        wrong = client.post("/login", data={"token": "eh_no_no"})
        assert wrong.status_code == 401
        assert "lets nobody in" in wrong.text
        link = client.get(f"/login/{'x' * 20}%22%3E%3Cscript%3E").text
        assert "<script>" not in link


def test_templates_and_static_files_are_part_of_the_package():
    package = files("everhold.service.web")
    for name in ("templates/base.html", "static/everhold.css", "static/htmx.min.js", "static/htmx.LICENSE.txt"):
        assert package.joinpath(*name.split("/")).is_file()
    assert "Zero-Clause BSD" in package.joinpath("static", "htmx.LICENSE.txt").read_text()


def test_static_files_are_ours_and_kept_by_browsers(app):
    with visiting(app) as client:
        for path in ("/static/everhold.css", "/static/everhold.js", "/static/htmx.min.js", "/assets/house.css"):
            answer = client.get(path)
            assert answer.status_code == 200
            assert answer.headers["cache-control"] == "public, max-age=3600"
        assert client.get("/static/../pictures.py").status_code == 404
        assert client.get("/static/%2e%2e/pictures.py").status_code == 404
        style = client.get("/static/everhold.css").text + client.get("/assets/house.css").text
        assert "url(" not in style
        assert "@import" not in style


def test_the_end_of_a_study_does_not_rewrite_what_was_left_before_it(app, send):
    def burnt():
        with visiting(app):
            view = View.of(app.state.holdouts, "flights", Visitor(Role.STEWARD, "grace"))
            return view.sketches()["budget"].facts()["left"]

    before = burnt()
    assert send("/holdouts/flights/unseal", {"confirm": "flights"}).status_code == 200
    assert burnt() == before
    assert before[0]["left"] == before[0]["planned"]
