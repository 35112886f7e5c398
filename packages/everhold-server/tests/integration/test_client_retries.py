"""A client that loses responses on the way from a real service: whatever it sends twice happens once."""

import threading
import time

import holdout_samples as samples
import httpx
import numpy as np
import pytest
from client_samples import serving

import everhold as eh
from everhold.errors import warnings_collected
from everhold.ledger import Ledger, LedgerStore
from everhold.sealing.storage import KEY_FILE, StewardKey
from everhold_server import client
from everhold_server.wire import connection
from everhold_server.wire.connection import Connection

LABELS = samples.rows(0)["late"]
IDS = np.arange(samples.ROWS)
CONTEST = {"feedback": "score", "mechanism": None, "teams": 3, "submissions": 6, "allow_vacuous": True}


class Lost(httpx.HTTPTransport):
    """Every request arrives and is answered, and the first answer to each is lost."""

    def __init__(self):
        super().__init__()
        self.sent, self.statuses = [], []

    def handle_request(self, request):
        again = self._is_sent_again(request)
        whole = httpx.Request(request.method, request.url, headers=request.headers, content=request.read())
        if not again:
            self.first(whole)
            raise httpx.ReadTimeout("lost")
        response = self.answered(whole)
        self.sent.clear()
        return response

    def first(self, request):
        self.answered(request)

    def answered(self, request):
        response = super().handle_request(request)
        response.read()
        self.statuses.append(response.status_code)
        return response

    def _is_sent_again(self, request):
        known = bool(self.sent)
        self.sent.append(request.url)
        return known


class Impatient(Lost):
    """Every request is sent again while the first one is still being done."""

    def __init__(self):
        super().__init__()
        self.threads = []

    def first(self, request):
        self.threads.append(threading.Thread(target=self.answered, args=(request,)))
        self.threads[-1].start()
        time.sleep(0.01)

    def close(self):
        for thread in self.threads:
            thread.join()
        super().close()


@pytest.fixture(autouse=True)
def _no_long_waits(monkeypatch):
    sleep = time.sleep
    monkeypatch.setattr(connection.time, "sleep", lambda seconds: sleep(min(seconds, 0.02)))


def study(holdout):
    """Everything that is charged or recorded."""
    holdout.allot("mia", queries=4)
    holdout.ask("delay > 15", guess=0.99)
    holdout.ask_many(["delay > 20", "delay > 25"], guesses=[0.99, None])
    holdout.ask(eh.accuracy(LABELS, training=samples.rows(1)["late"]))
    gate = holdout.gate(eh.accuracy, champion="delay > 1000", challenges=5)
    gate.challenge(LABELS, training=samples.rows(1)["late"])
    gate.challenge("delay > 999")
    holdout.unseal()


def contest(holdout):
    """Two submissions of one team, of which the second is a file that was handed in before."""
    for seed in (1, 2, 1):
        holdout.competition.submit(
            {"id": IDS[::-1], "late": np.random.default_rng(seed).integers(0, 2, samples.ROWS)}, team="ada", guess=0.5
        )


def sealed(folder, name="study", **wanted):
    own = {"holdout": {"id": IDS, **samples.rows(0)}, "training": {"id": IDS + samples.ROWS, **samples.rows(1)}}
    return samples.create(folder, name, **{**own, "row_id": "id", "seed": 3, **wanted})


def recorded(folder, name="study"):
    """What every entry of a ledger is, and what it was charged."""
    with LedgerStore.open(f"sqlite:///{folder}/study.db") as store:
        record = store.record(name)
        (place,) = folder.glob(f"study.rows/{name}-*")
        key = StewardKey.load(place / KEY_FILE, public_key=record.configuration["public_key"]).seal_key
        return [(entry.answer["source"], entry.charged) for entry in Ledger(store.database, record.id, key).entries()]


ACTS = {"study": (study, {}), "contest": (contest, CONTEST)}


@pytest.mark.parametrize("way", [Lost, Impatient])
@pytest.mark.parametrize("what", ACTS)
def test_whatever_is_sent_twice_is_recorded_once(tmp_path, way, what):
    act, wanted = ACTS[what]
    here, there = tmp_path / "here", tmp_path / "there"
    with warnings_collected():
        for folder in (here, there):
            folder.mkdir()
            sealed(folder, **wanted).close()
        with eh.Holdout.open(here / "study.db", "study") as holdout:
            act(holdout)
        transport = way()
        with serving(there) as service:
            holdout = eh.connect(service.address, "study", token=service.root, transport=transport)
            with holdout:
                act(holdout)
    assert recorded(there) == recorded(here)
    assert transport.statuses.count(200) == 2 * {"study": 9, "contest": 4}[what]
    assert set(transport.statuses) == {200}


@pytest.mark.parametrize("way", [Lost, Impatient])
def test_rows_are_sealed_once(tmp_path, way):
    sealed(tmp_path, "first").close()
    lines = ["delay,late", *(f"{k % 97}.5,{k % 2}" for k in range(3_000))]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    with serving(tmp_path) as service, warnings_collected():
        transport = way()
        with Connection(service.address, token=service.root, transport=transport) as sending:
            made = client.create(sending, "sent", holdout=tmp_path / "rows.csv", label="late", queries=50, surprises=2)
            assert made.schema.rows == 3_000
    assert len(list(tmp_path.glob("study.rows/sent-*"))) == 1
    assert set(transport.statuses) <= {200, 201}


def test_a_name_is_taken_for_other_rows_and_settings(tmp_path):
    """Only the same request is a repeat."""
    sealed(tmp_path, "first").close()
    rows = tmp_path / "rows.csv"
    rows.write_text("\n".join(["delay,late", *(f"{k % 97}.5,{k % 2}" for k in range(3_000))]))
    wanted = {"holdout": rows, "label": "late", "queries": 50, "surprises": 2}
    with serving(tmp_path) as service, warnings_collected(), Connection(service.address, token=service.root) as sending:
        for _ in range(2):
            client.create(sending, "sent", **wanted)
        with pytest.raises(eh.EverholdError, match="sent"):
            client.create(sending, "sent", **{**wanted, "queries": 51})
        rows.write_text(rows.read_text().replace("96.5,1", "96.5,0"))
        with pytest.raises(eh.EverholdError, match="sent"):
            client.create(sending, "sent", **wanted)
