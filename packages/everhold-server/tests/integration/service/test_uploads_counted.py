"""Free requests are counted before they become objects, and the work for one request is limited."""

import json
import subprocess
import sys
import time

import pytest
from service_samples import ADA, API, EVE, STEWARD, STUDY, head, seal, serving

from everhold_server import uploads

ASK, QUOTE = f"{STUDY}/ask", f"{STUDY}/quote"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("counted")
    seal(made)
    return made


@pytest.fixture(scope="module")
def http_client(folder):
    with serving(folder) as found:
        yield found


def as_json(client, address, body):
    return client.post(address, content=body, headers={"content-type": "application/json"})


def test_a_document_of_one_mebibyte_is_the_largest(http_client, folder):
    before = head(folder)
    large = b'{"query": "' + b" " * 2**20 + b'"}'
    for address in (QUOTE, ASK, f"{API}/plan", f"{STUDY}/ask-many"):
        said = as_json(http_client(ADA), address, large)
        assert (said.status_code, said.json()["most"]) == (413, 2**20), said.text
    assert head(folder) == before


@pytest.mark.parametrize("item", ["{}", "[]", "1"])
def test_values_are_counted_before_they_become_objects(http_client, monkeypatch, item):
    monkeypatch.setattr(uploads.RequestValidationError, "__init__", None)  # nothing is validated
    body = ('{"query": [' + ",".join([item] * uploads.MOST_VALUES) + "]}").encode()
    said = as_json(http_client(ADA), QUOTE, body)
    assert (said.status_code, said.json()["most"]) == (413, uploads.MOST_VALUES)
    assert "send predictions as a file" in said.json()["detail"]


def test_values_of_a_part_of_a_form_are_counted(http_client):
    body = json.dumps({"query": [[]] * uploads.MOST_VALUES})
    for parts in ({"data": {"request": body}}, {"files": {"request": ("a", body)}}):
        said = http_client(ADA).post(QUOTE, **parts, **({} if "files" in parts else {"files": {"x": ("a", b"1")}}))
        assert said.status_code == 413, said.text


def test_values_of_a_certificate_are_counted(http_client):
    said = as_json(http_client(EVE), f"{API}/verify", b"[" + b"{}," * uploads.MOST_VALUES + b"{}]")
    assert (said.status_code, said.json()["most"]) == (413, uploads.MOST_VALUES), said.text


LONG = "(" + " + ".join(f"{number}.5 * delay" for number in range(60)) + " > 3)"


def test_expressions_of_a_quote_are_limited_together(http_client, folder):
    before = head(folder)
    each = [f"{LONG} or delay > {number}" for number in range(1_000)]
    begun = time.process_time()
    said = http_client(STEWARD).post(QUOTE, json={"query": {"kind": "choose", "of": "highest", "queries": each}})
    assert said.status_code == 409
    assert "at most 100,000" in said.json()["detail"]
    assert time.process_time() - begun < 5.0
    many = http_client(STEWARD).post(f"{STUDY}/ask-many", json={"queries": each})
    assert "at most 400,000" in many.json()["detail"]
    assert head(folder) == before


def test_predictions_are_no_expressions(http_client):
    labels = {f"a row with a long name {number:05d}": "a class with a long name" for number in range(9_000)}
    said = http_client(STEWARD).post(QUOTE, json={"query": {"kind": "accuracy", "of": labels}})
    assert "characters, counting" not in said.text


def test_an_agents_request_is_counted(http_client):
    address = "/mcp/study"
    accepted = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    large = b'{"jsonrpc": "2.0", "id": 1, "method": "' + b" " * 2**22 + b'"}'
    said = http_client(ADA).post(address, content=large, headers=accepted)
    assert said.status_code == 413
    many = b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": [' + b"{}," * 400_000 + b"{}]}}"
    said = http_client(ADA).post(address, content=many, headers=accepted)
    assert said.status_code == 413
    assert "values" in said.text


_PARSED = """
import resource, sys
from everhold.operations.asking import QuoteQuery
from everhold_server.api.operations import model_of
from everhold_server.uploads import MOST_VALUES, _document
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
_document(model_of(QuoteQuery), b'{"query": [' + b"{}," * (MOST_VALUES // 2 - 10) + b"{}]}")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


def test_the_largest_document_takes_little_memory():
    grown = subprocess.run([sys.executable, "-c", _PARSED], capture_output=True, text=True, check=True).stdout
    assert float(grown) < 200.0, "MiB"
