"""Hostile uploads are refused in bounded time and memory, cost nothing, and leave nothing behind."""

import gzip
import io
import os
import time
import zipfile

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from pyarrow import ipc
from service_samples import ADA, EVE, IDS, STEWARD, STUDY, as_csv, form, head, left_behind, seal, serving

from everhold_server import uploads as module

ASKED = {"query": {"kind": "accuracy", "of": {"file": "model"}}, "guess": 0.5}
TABLE = pyarrow.table({"id": IDS, "late": [1] * 1000})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("uploads")


@pytest.fixture(scope="module")
def http_client(folder):
    seal(folder, ids=True)
    with serving(folder, most_bytes=2**24) as found:
        yield found


def parquet(table, **wanted):
    sink = io.BytesIO()
    pyarrow.parquet.write_table(table, sink, **wanted)
    return sink.getvalue()


def arrow(table, *, stream=False, **options):
    sink = pyarrow.BufferOutputStream()
    new = ipc.new_stream if stream else ipc.new_file
    with new(sink, table.schema, options=ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def repeated(value, count):
    """A column that says much in few bytes."""
    indices = pyarrow.array(np.zeros(count, dtype=np.int8))
    return pyarrow.DictionaryArray.from_arrays(indices, [value])


def ask(client, content):
    return client.post(STUDY + "/ask", **form(ASKED, model=content))


FORMS = {
    "csv": as_csv({"id": IDS, "late": [1] * 1000}),
    "csv with windows line ends": as_csv({"id": IDS, "late": [1] * 1000}).replace(b"\n", b"\r\n"),
    "csv with a byte order mark": b"\xef\xbb\xbf" + as_csv({"id": IDS, "late": [1] * 1000}),
    "tsv": as_csv({"id": IDS, "late": [1] * 1000}).replace(b",", b"\t"),
    "parquet": parquet(TABLE),
    "arrow file": arrow(TABLE),
    "arrow stream": arrow(TABLE, stream=True),
    "packed arrow file": arrow(TABLE, compression="zstd"),
    "arrow with a dictionary": arrow(TABLE.set_column(0, "id", TABLE["id"].dictionary_encode())),
}


@pytest.mark.parametrize("form_", FORMS)
def test_the_form_of_a_table_is_told_by_its_content(http_client, form_):
    response = ask(http_client(STEWARD), FORMS[form_])
    assert response.status_code == 200, response.text
    assert response.json()["about"] == "labels drawn anew on these rows"
    assert response.json()["shown"].startswith("accuracy")


def wide(count):
    return pyarrow.table({f"c{number}": [1] for number in range(count)})


HOSTILE = {
    "no bytes": b"",
    "blanks": b" \n \n",
    "noise": os.urandom(4096),
    "noise that begins like Parquet": b"PAR1" + os.urandom(4096) + b"PAR1",
    "noise that begins like Arrow": b"ARROW1\0\0" + os.urandom(4096) + b"ARROW1",
    "an Arrow stream with a huge message": b"\xff\xff\xff\xff\xff\xff\xff\x7f" + b"\0" * 100,
    "half a Parquet file": FORMS["parquet"][: len(FORMS["parquet"]) // 2],
    "half an Arrow file": FORMS["arrow file"][:-40],
    "a gzip bomb": gzip.compress(b"id,late\n" + b"a,1\n" * 2_000_000),
    "a zip bomb": None,
    "UTF-16": as_csv({"id": IDS, "late": [1] * 1000}).decode().encode("utf-16"),
    "Latin-1": b"id,late\n" + "é,1\n".encode("latin-1") * 1000,
    "zero characters": as_csv({"id": IDS, "late": [1] * 1000}).replace(b"r0001", b"r\x00001"),
    "nan": as_csv({"id": IDS, "late": ["nan"] * 1000}),
    "infinity": as_csv({"id": IDS, "late": ["inf"] * 1000}),
    "holes": as_csv({"id": IDS, "late": [""] * 1000}),
    "many columns of text": b",".join(b"c%d" % number for number in range(100_000)) + b"\n1\n",
    "many columns of Parquet": parquet(wide(2_000)),
    "many rows in few bytes": parquet(pyarrow.table({"id": repeated("a", 10**7), "late": repeated("1", 10**7)})),
    "many rows in a few bytes of Arrow": arrow(
        pyarrow.table({"id": repeated("a", 10**7), "late": repeated("1", 10**7)}), compression="zstd"
    ),
    "a long text, often": parquet(pyarrow.table({"id": IDS, "late": repeated("x" * 10**6, 1000)})),
    "a long line": b"id,late\n" + b"x" * 9_000_000,
    "an open quotation mark": b'id,late\n"r0000,1\n' + b"r0001,1\n" * 999,
    "lists": parquet(pyarrow.table({"id": IDS, "late": [[1]] * 1000})),
    "dates": parquet(pyarrow.table({"id": IDS, "late": pyarrow.array([0] * 1000, pyarrow.date32())})),
    "columns of one name": b"id,late,late\n" + b"".join(b"%s,1,1\n" % name.encode() for name in IDS),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_table_costs_nothing_and_tells_nothing(http_client, folder, what):
    content = HOSTILE[what]
    if content is None:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as bomb:
            bomb.writestr("model.csv", b"\0" * 10**8)
        content = packed.getvalue()
    before, since = head(folder), time.monotonic()
    response = ask(http_client(STEWARD), content)
    assert (response.status_code, response.headers["content-type"]) == (409, "application/problem+json"), response.text
    assert time.monotonic() - since < 30
    assert (head(folder), left_behind(folder)) == (before, [])
    assert str(folder) not in response.text


def multipart(parts, *, end=b"--\r\n", boundary=b"b"):
    lines = [b"--%s\r\n%s\r\n\r\n%s\r\n" % (boundary, header, body) for header, body in parts]
    return b"".join(lines) + b"--" + boundary + end


def disposition(name, more=b""):
    return b'Content-Disposition: form-data; name="%s"%s' % (name, more)


FILE = b'; filename="a"'
BODIES = {
    "no end": (400, multipart([(disposition(b"request"), b"{}")], end=b"")),
    "no parts": (400, b"nothing"),
    "no name": (400, multipart([(b"Content-Disposition: form-data", b"{}")])),
    "a name that is a path": (400, multipart([(disposition(b"../model", FILE), b"x")])),
    "the same name twice": (400, multipart([(disposition(b"a", FILE), b"x"), (disposition(b"a", FILE), b"x")])),
    "very many parts": (413, multipart([(disposition(b"a%d" % number, FILE), b"x") for number in range(100)])),
    "a very long header": (400, multipart([(disposition(b"a") + b"x" * 10_000, b"x")])),
    "no JSON": (400, multipart([(disposition(b"request"), b"{")])),
    "JSON that is no text": (400, multipart([(disposition(b"request"), b'{"query": "\xff"}')])),
    "JSON without end": (400, multipart([(disposition(b"request"), b"[" * 100_000)])),
    "an empty form": (422, multipart([(disposition(b"other"), b"x")])),
}


@pytest.mark.parametrize("what", BODIES)
def test_a_broken_form_is_refused(http_client, folder, what):
    status, body = BODIES[what]
    kind = {"content-type": "multipart/form-data; boundary=b"}
    response = http_client(STEWARD).post(STUDY + "/ask", content=body, headers=kind)
    assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json"), (
        response.text
    )
    assert left_behind(folder) == []


DOUBLED = {
    "ask": '{"query": "delay > 15", "query": "delay > 16"}',
    "quote": '{"query": {"kind": "mean", "of": "delay", "low": 0, "high": 60, "high": 90}}',
    "gates": '{"champion": "delay > 15", "name": "a", "name": "b"}',
    "submissions": '{"predictions": {"r1": 1, "r1": 0}}',
    "families": '{"families": {"a": {"texts": 4}, "a": {"texts": 5}}}',
    "unseal": '{"confirm": "study", "confirm": "study"}',
}


@pytest.mark.parametrize(
    ("place", "name"), [*zip(DOUBLED, ["query", "high", "name", "r1", "a", "confirm"], strict=True)]
)
def test_a_name_that_is_there_twice_is_named_and_costs_nothing(http_client, folder, place, name):
    before = head(folder)
    said = http_client(STEWARD).post(
        f"{STUDY}/{place}", content=DOUBLED[place], headers={"content-type": "application/json"}
    )
    assert said.status_code == 400
    assert f"has {name!r} twice in one object" in said.json()["detail"]
    assert (head(folder), left_behind(folder)) == (before, [])


@pytest.mark.parametrize("kind", ["text/plain", "", "multipart/form-data", "application/jsonp", "application/xml"])
def test_another_type_of_body_is_not_taken(http_client, kind):
    response = http_client(STEWARD).post(STUDY + "/ask", content=b"{}", headers={"content-type": kind})
    assert (response.status_code, response.json()["title"]) == (415, "not taken")


def test_a_body_that_is_too_large_ends_there(http_client, folder):
    chunks = (b"x" * 2**20 for _ in range(40))
    kind = {"content-type": "multipart/form-data; boundary=b"}
    start = multipart([], end=b"\r\n") + disposition(b"a", FILE) + b"\r\n\r\n"
    response = http_client(STEWARD).post(STUDY + "/ask", content=iter([start, *chunks]), headers=kind)
    assert (response.status_code, left_behind(folder)) == (413, [])
    long = b'{"query": "' + b" " * module.MOST_DOCUMENT + b'"}'
    response = http_client(STEWARD).post(STUDY + "/ask", content=long, headers={"content-type": "application/json"})
    assert response.status_code == 413


def test_nothing_is_read_of_who_may_not_send_it(http_client, monkeypatch):
    monkeypatch.setattr(module, "_read", None)  # would fail
    for who, status in ((None, 401), (EVE, 403)):
        assert ask(http_client(who), b"x").status_code == status


def test_a_file_may_hold_the_document(http_client):
    files = {"request": ("a.json", b'{"query": "delay > 15"}')}
    assert http_client(ADA).post(STUDY + "/quote", files=files).status_code == 200


def test_what_was_left_behind_is_swept_after_a_day(http_client, folder):
    shared = folder / "study.uploads"
    young, old = shared / "young", shared / "old"
    for place in (young, old):
        place.mkdir()
        (place / "0").write_bytes(b"rows")
    os.utime(old, (0, 0))
    http_client(ADA).post(STUDY + "/quote", files={"request": ("a.json", b"{}")})
    assert (young.exists(), old.exists()) == (True, False)
    (young / "0").unlink()
    young.rmdir()
