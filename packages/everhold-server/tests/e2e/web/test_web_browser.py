"""The pages in a real browser: everything that people do, no error on the console, no request to anywhere else."""

from contextlib import contextmanager
from itertools import product
from urllib.parse import quote

import numpy as np
import pytest
from web_samples import IDS, TRUTH, chromium, mechanism, model, rows, seal, seal_races, serving, written

from everhold import Holdout, Planning, Rows, accuracy, board, difference
from everhold_server.application import API
from everhold_server.principals import Role
from everhold_server.sign_in import CALLBACK
from everhold_server.web.pages import _ENVIRONMENT

HOLDOUTS = ("flights", "cup", "months")
"""A study, a competition and a holdout that grows, of which the first that has a page shows it."""
OTHERS = (
    "/holdouts/flights/ask?kind=accuracy", "/holdouts/cup", "/public/race", "/holdouts/race/submit", "/holdouts/raced",
    "/holdouts/raced/leaderboard", "/holdouts/raced/leaderboard?first=owls&second=wrens", "/holdouts/raced/submit",
    "/holdouts/raced/teams", "/holdouts/raced/certificate", "/holdouts/raced/unseal", "/public/raced",
    "/holdouts/tracked/compare?first=churn version 3 of run a1&second=churn version 4 of run b2&margin=0.02",
    "/holdouts/tracked", "/holdouts/nowhere",
)  # fmt: skip
"""Pages in another state than the first one of their route."""
NO_PAGES = {
    "/", "/assets/results.css", "/healthz", "/holdouts/{name}/certificate.{form}", "/metrics",
    "/readyz", "/sign-in", CALLBACK,
}  # fmt: skip
"""Routes that lead on, send no page, or are for people who are not logged in, whose pages are looked at below."""
DOORS = {
    "login.html": {"link": "", "why": "", "form": True, "way": "the university"},
    "signed_in.html": {"name": "ada@example.org"},
}
"""Pages of signing in that need an identity provider, with what they show."""
WIDER = """() => [...document.querySelectorAll("body *")].filter((each) => {
  const box = each.getBoundingClientRect();
  return each.scrollWidth > each.clientWidth + 1 && each.matches(".scroll, main, figure")
    || box.width > 1 && (box.right > innerWidth + 1 || box.left < -1) && !each.closest(".skip, .stack thead");
}).map((each) => each.outerHTML.slice(0, 80))"""
"""Elements that reach out of the screen, or of which something is cut."""
WAIT = 40_000  # milliseconds, at most
WATCHED = """() => {
  window.said = [];
  const box = document.querySelector(".uploading .said");
  new MutationObserver(() => window.said.push(box.textContent)).observe(box, {childList: true});
}"""
"""Keeps what an upload says while it goes on."""


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    storage = seal(tmp_path_factory.mktemp("service"))
    seal_races(storage)
    with Holdout.create(
        storage, "months", holdout=rows(21), training=rows(23), label="late", planning=Planning(grows=True), queries=20
    ) as made:
        made.ask("dep_delay > 5")
        made.append(rows(22), until="2026-02-01")
    models = [{"name": "churn", "version": "3", "run": "a1"}, {"name": "churn", "version": "4", "run": "b2"}]
    sealed = {"id": IDS, "y": TRUTH}
    with Holdout.create(
        storage, "tracked", holdout=sealed, label="y", mechanism=mechanism(), rows=Rows(row_id="id", features="public")
    ) as made:
        asked = [accuracy(model(0.9, 0)), accuracy(model(0.6, 1))]
        for query, guess, which in zip((*asked, difference(*asked)), (0.9, 0.6, 0.3), ([0], [1], [0, 1]), strict=True):
            made.ask(query, guess=guess, models=[models[number] for number in which])
    with serving(storage) as (app, address):
        for name in ("race", "raced"):
            app.state.published.put(name, public=True, by="test")
        yield app, address


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@contextmanager
def visit(browser, service, role=None, name="grace", *, expected=()):
    """A page in a context of its own, logged in; whatever it should not do is an error at the end."""
    app, address = service
    faults = []
    context = browser.new_context(
        base_url=address, color_scheme="light", viewport={"width": 1200, "height": 900}, reduced_motion="reduce"
    )
    context.set_default_timeout(WAIT)
    page = context.new_page()
    page.on("console", lambda said: faults.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda fault: faults.append(str(fault)))
    page.on("request", lambda sent: None if sent.url.startswith(address) else faults.append(f"outside: {sent.url}"))
    if role is not None:
        secret = app.state.token_store.make(role, name, by="test").secret
        page.goto("/login")
        page.get_by_label("token").fill(secret)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url("**/holdouts")
    yield page
    context.close()
    assert [fault for fault in faults if not any(text in fault for text in expected)] == []


def test_a_one_use_link_lets_in_once(browser, service):
    app, _ = service
    link = app.state.token_store.link(app.state.token_store.make(Role.STEWARD, "grace", by="test").token.id)
    with visit(browser, service) as page:
        page.goto(f"/login/{link}")
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url("**/holdouts")
    with visit(browser, service, expected=("401",)) as page:
        page.goto(f"/login/{link}")
        page.get_by_role("button", name="Log in").click()
        assert "was used already" in page.get_by_role("alert").inner_text()


def test_from_sealing_to_a_verified_certificate(browser, service, tmp_path):
    sealed, training = written(tmp_path / "a.csv", rows(5)), written(tmp_path / "b.csv", rows(6))
    with visit(browser, service, Role.STEWARD) as page:
        page.get_by_role("link", name="Seal new rows").click()
        page.get_by_label("name", exact=True).fill("spring")
        page.get_by_label("rows to seal").set_input_files(sealed)
        page.get_by_label("open training rows").set_input_files(training)
        page.get_by_label("column with the truth").fill("late")
        page.get_by_label("adaptive queries").fill("50")
        page.get_by_role("button", name="Seal the rows").click()
        page.wait_for_url("**/holdouts/spring")
        assert "50 queries" in page.locator(".promise").inner_text()

        page.get_by_role("link", name="Ask", exact=True).click()
        page.get_by_label("condition or number").press_sequentially("dep_delay > 10")
        page.get_by_text("costs 0 if the guess holds").wait_for()
        page.get_by_role("button", name="Ask", exact=True).click()
        told = page.locator("#answer").inner_text()
        assert "confirmed: training estimate" in told
        assert "charged 0" in told

        page.get_by_role("link", name="Overview").click()
        assert 0 < float(page.locator("td meter").first.get_attribute("value")) < 1
        assert "dep_delay > 10" in page.get_by_role("table", name="The latest first").inner_text()

        page.get_by_role("link", name="Certificate").click()
        key = page.locator("code.key").inner_text()
        with page.expect_download() as download:
            page.get_by_role("link", name="Save as JSON").click()
        download.value.save_as(tmp_path / "spring.json")
        page.get_by_role("link", name="Verify", exact=True).click()
        page.get_by_label("certificate", exact=True).set_input_files(tmp_path / "spring.json")
        page.get_by_label("public key of the steward").fill(key)
        page.get_by_role("button", name="Verify").click()
        page.get_by_role("heading", name="Nothing is wrong with it").wait_for()

        text = (tmp_path / "spring.json").read_text()
        assert '"asked":1,' in text.replace(" ", "")
        (tmp_path / "forged.json").write_text(
            text.replace('"asked": 1', '"asked": 0').replace('"asked":1', '"asked":0')
        )
        page.get_by_label("certificate", exact=True).set_input_files(tmp_path / "forged.json")
        page.get_by_role("button", name="Verify").click()
        page.get_by_role("heading", name="Do not believe it").wait_for()


def test_what_is_wrong_with_a_query_is_said_while_it_is_written_and_costs_nothing(browser, service):
    with visit(browser, service, Role.ANALYST, "ada", expected=("422",)) as page:
        page.goto("/holdouts/flights/ask")
        left = page.locator("aside .budget").inner_text()
        page.get_by_label("condition or number").press_sequentially("dely > 1")
        page.locator("#quote .alarm-text").wait_for()
        assert "dely" in page.locator("#quote").inner_text()
        page.get_by_role("button", name="Ask", exact=True).click()
        assert "dely" in page.get_by_role("alert").inner_text()
        assert page.locator("aside .budget").inner_text() == left


def test_a_team_hands_in_and_everybody_sees_where_it_stands_once_that_is_published(browser, service, tmp_path):
    file = written(tmp_path / "predictions.csv", model(0.95, 9))
    with visit(browser, service, expected=("404",)) as page:
        assert page.goto("/public/cup").status == 404
    with visit(browser, service, Role.ANALYST, "larks") as page:
        page.goto("/holdouts/cup/submit")
        page.get_by_label("predictions", exact=False).first.set_input_files(file)
        page.get_by_role("button", name="Check the file only").click()
        page.get_by_role("heading", name="The format is right").wait_for()  # and the file is still chosen
        page.get_by_label("your own guess of the score").fill("0.95")
        page.evaluate(WATCHED)
        page.get_by_role("button", name="Hand in").click()
        page.get_by_role("heading", name="Received").wait_for()
        assert "Sent. It is being checked." in page.evaluate("window.said")
        assert "Submission 1 of 4" in page.locator("#answer").inner_text()
        page.get_by_role("link", name="To the leaderboard").click()
        assert page.locator("td.team").first.inner_text() == "larks"
    with visit(browser, service, Role.STEWARD) as page:
        page.goto("/holdouts/cup")
        page.get_by_role("button", name="Publish it").click()
        page.get_by_role("button", name="Hide it").wait_for()
    with visit(browser, service) as page:
        page.goto("/public/cup")
        assert "larks" in page.get_by_role("table").inner_text()
        assert page.get_by_role("link", name="Holdouts").count() == 0


def test_a_challenger_is_kept_out(browser, service):
    with visit(browser, service, Role.STEWARD) as page:
        page.goto("/holdouts/flights/gates")
        steps = page.locator(".champions tbody tr").count()
        box = page.locator("form", has=page.get_by_role("heading", name="Challenge"))
        box.get_by_label("a rule over the features").fill("dep_delay > 39.5")
        box.get_by_role("button", name="Challenge the champion").click()
        page.get_by_role("heading", name="Kept").wait_for()
        assert page.locator(".champions tbody tr").count() == steps == 1


def test_the_planner_answers_sliders(browser, service):
    with visit(browser, service, Role.VIEWER) as page:
        page.goto("/plan")
        before = page.locator("#planned .large").inner_text()
        page.get_by_label("sealed rows, by its size").fill("500")
        page.locator("#planned .large").filter(has_not_text=before).wait_for()
        assert page.get_by_label("sealed rows", exact=True).input_value() == "100000"


def test_colours_are_switched_and_stay_so(browser, service):
    paper = "getComputedStyle(document.body).backgroundColor"
    with visit(browser, service, Role.VIEWER) as page:
        light = page.evaluate(paper)
        page.get_by_role("button", name="Use dark colours").click()
        dark = page.evaluate(paper)
        page.goto("/verify")
        assert light == "rgb(255, 255, 255)" != dark == page.evaluate(paper)


def test_everything_can_be_reached_by_the_keyboard(browser, service):
    with visit(browser, service, Role.STEWARD) as page:
        page.goto("/holdouts/flights/ask")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        reached = set()
        for _ in range(40):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()"))
        assert {"f-kind", "f-of", "f-guess", "f-silent", "Ask"} <= reached


def test_without_scripts_queries_are_asked_all_the_same(browser, service):
    app, address = service
    context = browser.new_context(base_url=address, java_script_enabled=False)
    page = context.new_page()
    page.goto("/login")
    page.get_by_label("token").fill(app.state.token_store.make(Role.STEWARD, "grace", by="test").secret)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/holdouts")
    page.goto("/holdouts/flights/ask")
    page.get_by_label("condition or number").fill("dep_delay > 7")
    page.get_by_role("button", name="Ask", exact=True).click()
    page.locator("#answer").wait_for()
    context.close()


def answering(body):
    """Answers a request of the browser in place of the service."""
    return lambda route: route.fulfill(body=body, content_type="text/html")


def contexts_of(route):
    """The routes that a router of the app stands for, or the one route."""
    return route.effective_route_contexts() if hasattr(route, "effective_route_contexts") else [route]


def pages_of(app, page):
    """For each route of the app a page that a browser is shown; and the routes that show none."""
    shown, others = [], set()
    for route in (each for router in app.routes for each in contexts_of(router)):
        if "GET" in (getattr(route, "methods", None) or ()) and not route.path.startswith(API):
            for path in dict.fromkeys(route.path.replace("{name}", name) for name in HOLDOUTS):
                answer = page.request.get(path, headers={"accept": "text/html"}, max_redirects=0)
                if answer.ok and answer.headers.get("content-type", "").startswith("text/html"):
                    shown.append(path)
                    break
            else:
                others.add(route.path)
    return shown, others


def test_every_page_is_accessible_and_whole_in_both_themes_on_desks_and_on_phones(browser, service):
    from axe_playwright_python.sync_playwright import Axe

    app, _ = service
    app.state.published.put("cup", public=True, by="test")
    found, axe = {}, Axe()

    def look(page, path):
        page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        for theme, width in product(("light", "dark"), (1200, 360)):
            page.emulate_media(color_scheme=theme, reduced_motion="reduce")
            page.set_viewport_size({"width": width, "height": 900})
            wrong = page.evaluate(WIDER)
            if (theme, width) in (("light", 1200), ("dark", 360)):  # no rule of the style depends on both
                faults = axe.run(page, options={"resultTypes": ["violations"]}).response["violations"]
                wrong += [(fault["id"], fault["nodes"][0]["html"][:120]) for fault in faults]
            if wrong:
                found[path, theme, width] = wrong

    with visit(browser, service) as page:
        page.goto("/login")
        look(page, "/login")
        for template, facts in DOORS.items():
            text = _ENVIRONMENT.get_template(template).render(principal=None, csrf="", path="/", **facts)
            body = text.replace('http-equiv="refresh"', 'name="refresh"')  # which would lead on
            page.route(f"**/{template}", answering(body))
            page.goto(f"/{template}")
            look(page, template)
    with visit(browser, service, Role.STEWARD, expected=("404",)) as page:
        shown, others = pages_of(app, page)
        assert others == NO_PAGES
        for path in (*shown, *OTHERS):
            page.goto(quote(path, safe="/?=&"))
            look(page, path)
        page.goto("/holdouts/cup/teams")
        page.get_by_label("names, one in each line").fill("herons")
        page.get_by_role("button", name="Register them").click()
        page.get_by_text("eh_").first.wait_for()
        look(page, "tokens of teams")
        page.goto("/holdouts/months/over-time")
        page.locator("#f-of").fill("dep_delay > 9")
        page.get_by_role("button", name="Ask", exact=True).click()
        page.locator("#answer").wait_for()
        look(page, "a query over time")
    assert found == {}


def test_a_board_of_open_results_fits_on_desks_and_on_phones(browser, tmp_path):
    names = [f"a model with a name that is long enough to be cut, number {number}" for number in range(12)]
    board({name: np.arange(40) % 13 < number for number, name in enumerate(names)}).save(tmp_path / "board.html")
    page = browser.new_page()
    page.goto((tmp_path / "board.html").as_uri())
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate(
            "[...document.querySelectorAll('text')].every((each) => each.getBoundingClientRect().left >= 0 && "
            "each.getBoundingClientRect().right <= each.closest('svg').getBoundingClientRect().right)"
        )
    page.close()


def test_what_is_cut_would_be_noticed(browser, service):
    with visit(browser, service) as page:
        page.goto("/login")
        assert page.evaluate(WIDER) == []
        page.evaluate("document.querySelector('h1').style.width = '2000px'")
        assert any("<h1" in cut for cut in page.evaluate(WIDER))


def test_two_teams_are_told_apart_on_request(browser, service):
    with visit(browser, service) as page:
        page.goto("/public/raced")
        page.get_by_label("first team").select_option("larks")
        page.get_by_label("second team").select_option("zeros")
        page.get_by_role("button", name="Compare them").click()
        told = page.get_by_role("status").inner_text()
        assert told.startswith("'larks' is proved to be better than 'zeros': its RMSE is ")
        page.goto("/public/raced?first=larks&second=wrens")
        assert "It is not proved which" in page.get_by_role("status").inner_text()


def test_a_page_that_loads_from_elsewhere_would_be_noticed(browser, service):
    def load_from_elsewhere():
        with visit(browser, service) as page:
            page.goto("/login")
            page.evaluate("fetch('http://127.0.0.1:9/').catch(() => 0)")
            page.wait_for_timeout(50)

    with pytest.raises(AssertionError, match="Content Security Policy"):
        load_from_elsewhere()


def test_a_printed_certificate_shows_the_queries_that_are_folded_on_a_screen(browser, service):
    shown = "document.querySelector('table.queries td').checkVisibility({contentVisibilityAuto: true})"
    with visit(browser, service, Role.STEWARD) as page:
        page.goto("/holdouts/flights/certificate")
        assert page.evaluate(shown) is False
        page.emulate_media(media="print")
        page.wait_for_function(shown)  # once it is drawn anew
        page.emulate_media(media="screen")
        page.get_by_text("Queries 1 to").first.click()
        assert page.evaluate(shown) is True
