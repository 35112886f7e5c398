"""The API's page shows every route, runs nothing, and loads nothing from elsewhere."""

import re

from service_samples import API, serving

from everhold_server.api.document import described_routes


def test_the_page_shows_every_route_with_its_fields(tmp_path):
    with serving(tmp_path) as http_client:
        page, document = http_client().get(API + "/docs"), http_client().get(API + "/openapi.json").json()
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    routes = [route for group in described_routes(document).values() for route in group]
    assert len(routes) == sum(len(methods) for methods in document["paths"].values())
    assert all(f'<article id="{route["id"]}">' in page.text for route in routes)
    fields = {
        route["path"]: {field["name"] for field in route["fields"]} for route in routes if route["method"] == "POST"
    }
    assert fields[API + "/holdouts"] >= {"settings", "holdout", "training"} - {"settings"} | {"label", "dependence"}
    assert fields[API + "/holdouts/{name}/ask"] == {
        "name", "query", "guess", "tolerance", "silent", "as_of", "models",
    }  # fmt: skip


def test_the_page_runs_nothing_and_loads_its_own_style_sheet_alone(tmp_path):
    with serving(tmp_path) as http_client:
        page, style = http_client().get(API + "/docs"), http_client().get(API + "/docs.css")
    assert not re.search(r"<script|\son\w+=|style=|javascript:", page.text)
    assert re.findall(r'(?:src|href)="((?!#)[^"]*)"', page.text) == ["docs.css", "openapi.json"]
    assert (style.status_code, style.headers["content-type"].partition(";")[0]) == (200, "text/css")
    assert "url(" not in style.text
    assert "light-dark(" in style.text
