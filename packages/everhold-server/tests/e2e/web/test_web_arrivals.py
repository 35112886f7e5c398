"""Pages of a holdout to which rows arrive: the timeline with its picture, appending, and a query over time."""

import re

import pytest
from app_samples import bearing, http_client, make, token
from service_samples import as_csv, rows, seal
from web_samples import HOSTILE, chromium, serving

from everhold_server.principals import Role

HTML = {"accept": "text/html"}
PLACE = "/holdouts/study"


def storage(folder):
    seal(folder, mechanism=None, grows=True)
    return f"sqlite:///{folder}/study.db"


@pytest.fixture
def app(tmp_path):
    return make(storage(tmp_path))


def got(app, path, role=Role.STEWARD, name="grace"):
    with http_client(app) as client:
        return client.get(path, headers={**bearing(token(app, role, name)), **HTML})


def sent(app, path, fields, role=Role.STEWARD, name="grace", **files):
    parts = [(key, (None, value)) for key, value in {"csrf": "", **fields}.items()]
    parts += [(key, ("x.csv", value)) for key, value in files.items()]
    with http_client(app) as client:
        return client.post(
            path, files=parts, headers={**bearing(token(app, role, name)), **HTML}, follow_redirects=False
        )


def test_rows_are_appended_listed_drawn_and_asked_over_time(app):
    assert "No rows arrived yet" in got(app, PLACE + "/arrivals").text
    said = sent(app, PLACE + "/arrivals", {"until": HOSTILE}, rows=as_csv(rows(3)))
    assert (said.status_code, said.headers.get("location")) == (303, "/holdouts/study/arrivals")
    page = got(app, PLACE + "/arrivals").text
    assert "<img" not in page
    assert "<polyline" in page
    assert re.search(r"arrival 1</th>.*1,000", page)
    assert "Append rows" in page
    seen = got(app, PLACE + "/arrivals", Role.VIEWER, "eve").text
    assert "arrival 1" in seen
    assert "Append rows" not in seen
    again = sent(app, PLACE + "/arrivals", {"until": "zz"}, rows=as_csv(rows(3)))
    assert again.status_code == 422
    assert "sealed in this holdout already" in again.text
    asked = sent(app, PLACE + "/over-time", {"of": "delay > 15", "one_law": "yes"}, Role.ANALYST, "ada")
    assert (asked.status_code, asked.text.count('class="span ')) == (200, 2)
    assert sent(app, PLACE + "/over-time", {"of": "delay >"}, Role.ANALYST, "ada").status_code == 422
    for role, path in ((Role.VIEWER, "/over-time"), (Role.ANALYST, "/arrivals")):
        assert sent(app, PLACE + path, {}, role, "ada").status_code == 403


def test_windows_that_contradict_one_law_are_said_to(app):
    late = rows(3)
    late["delay"] = [1e6 for _ in late["delay"]]
    assert sent(app, PLACE + "/arrivals", {"until": "2026-02-01"}, rows=as_csv(late)).status_code == 303
    asked = {"of": "delay > 1000"}
    page = sent(app, PLACE + "/over-time", {**asked, "one_law": "yes"}, Role.ANALYST, "ada").text
    assert "The windows contradict one law: no value is possible in all of them." in page
    assert page.count(">contradiction</td>") == 1
    assert ">none</td>" not in page
    page = sent(app, PLACE + "/over-time", asked, Role.ANALYST, "ada").text
    assert "The population changed" in page
    assert "contradict" not in page


def test_pages_fit_a_telephone_and_say_nothing_on_the_console(tmp_path):
    with serving(storage(tmp_path)) as (app, address), chromium() as browser:
        sent(app, PLACE + "/arrivals", {"until": "2026-02-01"}, rows=as_csv(rows(3)))
        secret = app.state.token_store.make(Role.STEWARD, "grace", by="test").secret
        faults = []
        for width in (390, 1280):
            page = browser.new_page(base_url=address, viewport={"width": width, "height": 900})
            page.on("console", lambda said: faults.append(said.text))
            page.goto("/login")
            page.get_by_label("token").fill(secret)
            page.get_by_role("button", name="Log in").click()
            page.wait_for_url("**/holdouts")
            for path in ("", "/arrivals", "/over-time", "/certificate"):
                page.goto(PLACE + path)
                assert page.evaluate("document.documentElement.scrollWidth") <= width
            page.goto(PLACE + "/over-time")
            page.get_by_label("condition or number").fill("delay > 15")
            page.get_by_role("button", name="Ask").click()
            page.wait_for_selector("#answer svg")
        assert faults == []
