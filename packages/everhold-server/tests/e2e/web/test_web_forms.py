"""Every form of every page, sent as a browser sends it: its method, its encoding, its hidden and its first fields."""

import re
from html.parser import HTMLParser
from urllib.parse import urlencode, urljoin, urlsplit

import pytest
from app_samples import ADDRESS, http_client, log_in, make, token
from web_samples import model, rows, seal, written

from everhold import Holdout, seal_cases
from everhold.sealing.intake.request import Planning
from everhold_server.principals import Role

BROWSER = {"accept": "text/html", "origin": ADDRESS, "sec-fetch-site": "same-origin"}
LAST = ("/families", "/unseal", "/logout")  # they end what other forms need
VALUES = {
    "/seal": {"name": "another", "holdout": "rows.csv", "label": "late"},
    "/families": {"family": "words", "members": "12"},
    "/ask": {"of": "dep_delay > 5"},
    "/suite/ask": {"of": "position > 5", "guess": "0.8"},
    "/compare": {"first_rule": "dep_delay > 15", "second_rule": "dep_delay > 30"},
    "/over-time": {"of": "dep_delay > 5"},
    "/arrivals": {"rows": "more.csv"},
    "/submit": {"team": "newcomers", "predictions": "model.csv", "guess": "0.8"},
    "/allot": {"analyst": "zoe"},
    "/unseal": {"confirm": "HOLDOUT"},
    "/tokens": {"name": "zoe"},
    "/teams": {"names": "owls", "deadline": "2100-01-01T12:00", "reason": "two files of one person"},
    "/verify": {"certificate": "certificate.json"},
    "/gates": {"gate": "weekly", "rule": "dep_delay > 40"},
    "/gates/challenge": {"rule": "dep_delay > 12"},
    "/gates/results": {"challenger": "v2", "results": "results.csv"},
    "/login": {"token": "eh_x"},
}
"""What a person writes and chooses, by the end of the address; the rest is as the page has it. HOLDOUT is its name."""


class Page(HTMLParser):
    """Links and forms of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.forms, self._select, self._area = [], [], None, None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = {name: value or "" for name, value in attributes}
        if tag == "a" and found.get("href", "").startswith("/"):
            self.links.append(found["href"].partition("#")[0])
        if tag == "form":
            self.forms.append({"attributes": found, "fields": [], "buttons": []})
        if not self.forms:
            return
        fields, buttons = self.forms[-1]["fields"], self.forms[-1]["buttons"]
        if tag in ("input", "textarea") and found.get("name"):
            fields.append({"type": "text", **found})
            self._area = fields[-1] if tag == "textarea" else None
        elif tag == "select" and found.get("name"):
            fields.append({"type": tag, "value": None, **found})
            self._select = fields[-1]
        elif tag == "option" and self._select is not None and (self._select["value"] is None or "selected" in found):
            self._select["value"] = found.get("value")
            self._reads = "value" not in found
        elif tag == "button" and found.get("type", "submit") == "submit":
            buttons.append(found)

    def handle_data(self, data):
        if self._area is not None:
            self._area["value"] = self._area.get("value", "") + data
        if self._select is not None and self._select["value"] is None and getattr(self, "_reads", False):
            self._select["value"], self._reads = data.strip(), False

    def handle_endtag(self, tag):
        if tag == "select":
            self._select = None
        if tag == "textarea":
            self._area = None


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forms")
    storage = seal(folder)
    with seal_cases(
        storage, "suite", results={f"c{n}": {"ok": n % 2} for n in range(40)}, better="ok", units="runs"
    ) as suite:
        suite.allot("ada", queries=5, charges=1)
    with Holdout.create(
        storage, "grow", holdout=rows(5), training=rows(6), label="late", queries=40, surprises=2,
        planning=Planning(grows=True, allow_vacuous=True),
    ) as grow:  # fmt: skip
        grow.allot("ada", queries=20, charges=1)
    with Holdout.open(storage, "flights") as flights:
        (folder / "certificate.json").write_text(flights.certificate().to_json())
    written(folder / "rows.csv", rows(7))
    written(folder / "more.csv", rows(8))
    written(folder / "model.csv", model(0.8, 3))
    written(folder / "results.csv", {"case": [f"c{n}" for n in range(40)], "ok": [n % 2 for n in range(40)]})
    return make(storage), folder


def data_of(form, button, path, folder):
    """The data set of a form as a browser makes it: names, texts and files in the order of the page."""
    address = urlsplit(form["attributes"].get("action") or path).path
    mine = next((VALUES[end] for end in sorted(VALUES, key=len, reverse=True) if address.endswith(end)), {})
    data = []
    for field in form["fields"]:
        name, value = field["name"], mine.get(field["name"], field.get("value") or "")
        value = address.split("/")[2] if value == "HOLDOUT" else value
        if field["type"] in ("checkbox", "radio"):
            if "checked" in field:
                data.append((name, field.get("value", "on")))
        elif field["type"] == "file":
            content = (folder / value).read_bytes() if value else b""
            data.append((name, (value, content, "application/octet-stream")))
        else:
            data.append((name, re.sub(r"\r?\n", "\r\n", value)))
        assert value or "required" not in field, f"{address}: say in VALUES what a person writes into {name!r}"
    return [*data, *([(button["name"], button.get("value", ""))] if button.get("name") else [])]


def submitted(client, path, form, button, folder):
    """The answer to a form that a browser sends."""
    attributes, data = form["attributes"], data_of(form, button, path, folder)
    address = urljoin(path, attributes.get("action") or path)
    if attributes.get("method", "get").lower() == "get":
        return client.get(f"{address}?{urlencode(data)}", headers=BROWSER)
    if attributes.get("enctype") == "multipart/form-data":
        parts = [(name, value if isinstance(value, tuple) else (None, value)) for name, value in data]
        return client.post(address, files=parts, headers=BROWSER)
    plain = [(name, value[0] if isinstance(value, tuple) else value) for name, value in data]
    headers = {**BROWSER, "content-type": "application/x-www-form-urlencoded"}
    return client.post(address, content=urlencode(plain), headers=headers)


def crawled(client):
    """All pages that can be reached by links, with their forms."""
    left, found = ["/holdouts", "/seal"], {}
    while left:
        if (path := left.pop()) in found:
            continue
        said = client.get(path, headers=BROWSER)
        if said.headers.get("content-type", "").startswith("text/html") and said.status_code == 200:
            found[path] = Page(said.text)
            left += found[path].links
    return found


@pytest.mark.parametrize(("role", "name"), [(Role.ANALYST, "ada"), (Role.STEWARD, "grace")])
def test_every_form_of_every_page_works_as_a_browser_sends_it(app, role, name):
    app, folder = app
    with http_client(app) as client:
        log_in(client, text := token(app, role, name))
        forms = {}
        for path, page in crawled(client).items():
            for form in page.forms:
                address = urljoin(path, form["attributes"].get("action") or path)
                if address in (f"/tokens/{text.split('_')[1]}/revoke", "/holdouts/grow/families"):
                    continue  # the first would end this session; the second is for holdouts without arrivals
                for button in form["buttons"]:
                    names = sorted(field["name"] for field in form["fields"])
                    forms[address, *names, button.get("value", "")] = (path, form, button)
        ordered = sorted(forms.items(), key=lambda form: [form[0][0].endswith(end) for end in LAST[::-1]])
        wrong = []
        assert len(ordered) >= (25 if role is Role.STEWARD else 12)
        for (address, *_), (path, form, button) in ordered:
            said = submitted(client, path, form, button, folder)
            if said.status_code not in (200, 303):
                fault = re.search(r'role="alert".*?</div>', said.text, re.DOTALL)
                wrong.append((address, button.get("value"), said.status_code, fault and fault[0][:300]))
        assert not wrong, wrong


def test_the_door_and_its_way_out(app):
    app, folder = app
    with http_client(app) as client:
        page = Page(client.get("/login", headers=BROWSER).text)
        (form,) = page.forms
        said = submitted(client, "/login", form, form["buttons"][0], folder)
        assert said.status_code in (401, 422)
