"""Pages of a holdout to which rows arrive: the timeline with its picture, appending, and a query over time."""

import re

import numpy as np
import pytest
from app_samples import bearing, http_client, make, token
from service_samples import as_csv, rows, seal
from web_samples import HOSTILE, chromium, serving

import everhold as eh
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
    assert "No rows have arrived yet" in got(app, PLACE + "/arrivals").text
    said = sent(app, PLACE + "/arrivals", {"until": HOSTILE}, rows=as_csv(rows(3)))
    assert said.status_code == 422
    assert "<img" not in said.text
    said = sent(app, PLACE + "/arrivals", {"until": "2026-01-01"}, rows=as_csv(rows(3)))
    assert (said.status_code, said.headers.get("location")) == (303, "/holdouts/study/arrivals")
    page = got(app, PLACE + "/arrivals").text
    assert "<img" not in page
    assert "<polyline" in page
    assert re.search(r"arrival 1</th>.*1,000", page)
    assert "Append rows" in page
    seen = got(app, PLACE + "/arrivals", Role.VIEWER, "eve").text
    assert "arrival 1" in seen
    assert "Append rows" not in seen
    again = sent(app, PLACE + "/arrivals", {"until": "2026-01-02"}, rows=as_csv(rows(3)))
    assert again.status_code == 422
    assert "already in this holdout" in again.text
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


def test_a_champion_is_completed_on_the_page_of_gates(app, tmp_path):
    with eh.Holdout.open(f"sqlite:///{tmp_path}/study.db", "study") as steward:
        steward.gate("accuracy", champion="delay > 60")
        assert "without the champion" not in got(app, PLACE + "/gates").text
        steward.append(rows(3))
        left = steward.status()["gates"][0]["rows_left"]
        head = steward.status()["ledger_head"]
        page = got(app, PLACE + "/gates").text
        assert f"{left:,} rows wait." in page
        assert f"{2 * left:,} <span" in page
        assert f"{left:,} without the champion" in page
        seen = got(app, PLACE + "/gates", Role.VIEWER, "eve").text
        assert f"{left:,} rows wait." in seen
        assert "Complete the champion" not in seen
        fields = {"gate": "gate", "rule": "delay > 60"}
        assert sent(app, PLACE + "/gates/champion", fields, Role.ANALYST, "ada").status_code == 403
        for wrong, said in (
            ({"rule": "delay > 59"}, "is not the champion"),
            ({"rule": ""}, "neither a rule"),
        ):
            refused = sent(app, PLACE + "/gates/champion", {**fields, **wrong})
            assert (refused.status_code, said in refused.text) == (422, True)
        assert steward.status()["ledger_head"] == head
        done = sent(app, PLACE + "/gates/champion", fields).text
        assert "Completed." in done
        assert "rows wait" not in done
        assert "Complete the champion" not in done
        assert steward.status()["gates"][0]["rows_left"] == 0
    answered = sent(app, PLACE + "/gates/challenge", {"gate": "gate", "rule": "delay > 15"})
    assert (answered.status_code, 'id="answer"' in answered.text) == (200, True)


def grouped(seed, first):
    rng = np.random.default_rng(seed)
    return {"person": np.repeat(np.arange(first, first + 500), 3), "x": rng.normal(size=1_500)}


def test_families_over_groups_that_arrive_are_sealed_in_the_browser(tmp_path):
    app = make(f"sqlite:///{tmp_path}/s.db")
    fields = {"name": "panel", "groups": "person", "grows": "yes", "confidence": "95"}
    families = "share = 0.6\nfamilies.texts.texts = 40"
    for more, said in (
        ({"largest_group": "4"}, "largest_group"),
        ({"declared": families}, "at least 3, the largest group"),
        ({"declared": "families.texts.texts =", "largest_group": "4"}, "not valid TOML"),
        ({"declared": "a = " + "[" * 3_000, "largest_group": "4"}, "not valid TOML"),
        ({"declared": "queries = 5\n" + families, "largest_group": "4"}, "its own field"),
    ):
        refused = sent(app, "/seal", {**fields, **more}, holdout=as_csv(grouped(1, 0)))
        assert (refused.status_code, said in refused.text) == (422, True), refused.text
    made = sent(app, "/seal", {**fields, "declared": families, "largest_group": "4"}, holdout=as_csv(grouped(1, 0)))
    assert made.status_code == 303, made.text
    assert sent(app, "/holdouts/panel/arrivals", {}, rows=as_csv(grouped(2, 1_000))).status_code == 303
    with eh.Holdout.open(f"sqlite:///{tmp_path}/s.db", "panel") as opened:
        assert (opened.status()["rows"], opened.ask("x > 1").source) == (3_000, "declared")


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
