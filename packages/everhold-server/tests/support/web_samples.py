"""A service with a study, a gate and a competition for the tests of its pages, in a process that tests share."""

import csv
import os
import shutil
import socket
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import uvicorn

from everhold import GuessAndCheck, Holdout
from everhold.sealing.intake.request import Planning, Rows
from everhold_competitions.competition import Competition
from everhold_server import Settings, make_app

CHROMIUM = "/usr/bin/chromium"
ROWS = 2_000
HOSTILE = "<img src=x onerror=alert(1)>\"'{{7*7}}"
SECRET = "ZEBRA77"
"""Stands in one cell of the sealed rows, and nowhere else."""

TRUTH = np.random.default_rng(11).integers(0, 2, ROWS)
IDS = np.array([f"r{number:04d}" for number in np.random.default_rng(12).permutation(ROWS)])


def rows(seed):
    """Flights: a carrier, two delays, and whether they were late."""
    rng = np.random.default_rng(seed)
    departed = rng.gamma(1.2, 9.0, ROWS).round(1)
    carrier = rng.choice(np.array(["AA", "UA", "DL"]), ROWS).astype(object)
    if seed == 1:
        carrier[17] = SECRET
    late = (departed + rng.normal(0.0, 6.0, ROWS) > 15).astype(int)
    return {"carrier": carrier, "dep_delay": departed, "late": late}


def model(right, seed):
    """Predictions with ids, of which about this share is right."""
    wrong = np.random.default_rng(seed).random(ROWS) >= right
    return {"id": IDS, "prediction": np.where(wrong, 1 - TRUTH, TRUTH)}


def written(path, table):
    """The same as a CSV file."""
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))
    return path


def mechanism():
    """Untuned, so that a test need not wait."""
    return GuessAndCheck(rows=ROWS, queries=60, surprises=5, tolerance=0.2, grid=10)


def seal(folder):
    """A study that two people ask, with a gate, and a competition; returns the storage."""
    storage = f"sqlite:///{folder}/s.db"
    with Holdout.create(
        storage, "flights", holdout=rows(1), training=rows(2), label="late", mechanism=mechanism()
    ) as made:
        made.allot("ada", queries=20, charges=3)
        made.allot("ben", queries=20, charges=2)
        made.ask("dep_delay > 5")
        made.ask("dep_delay > 12", guess=0.9)
        made.analyst("ada").ask("dep_delay > 20")
        made.analyst("ben").ask("dep_delay > 21.5")
        gate = made.gate("accuracy", champion="dep_delay > 40", name="nightly")
        gate.challenge("dep_delay > 15")
    with Holdout.create(
        storage,
        "cup",
        holdout={"id": IDS, "x": np.arange(ROWS) * 0.5, "y": TRUTH},
        label="y",
        rows=Rows(row_id="id", features="public"),
        competition=Competition(feedback="score", teams=6, submissions=4),
        planning=Planning(allow_vacuous=True),
    ) as cup:
        cup.competition.submit(model(0.9, 1), team="owls", guess=0.9)
        cup.competition.submit(model(0.6, 2), team=HOSTILE, guess=0.6)
    return storage


ERRORS = {
    "owls": 3.0,
    "larks": 6.0,
    "wrens": 6.4,
    "zeros": 40.0,
    "a team with a name that is long enough for two lines": 6.1,
}
RULES = "1. One account for each person.\r\n2. No hand labels.\r\n\r\nPrizes are sent by post."


def seal_races(storage, *, teams=ERRORS):
    """Two competitions with public rows: one that runs, and one that is over, with a winner and a team far behind."""
    for seed, name in enumerate(("race", "raced")):
        rng = np.random.default_rng(31 + seed)
        delays = rng.gamma(2.0, 8.0, ROWS).clip(0.0, 60.0)
        with Holdout.create(
            storage, name, holdout={"id": IDS, "x": rng.random(ROWS), "delay": delays}, label="delay",
            rows=Rows(row_id="id", features="public"), planning=Planning(allow_vacuous=True),
            competition=Competition(
                feedback="score", public=0.3, teams=max(len(teams), 6), submissions=4, rules=RULES,
                deadline="2036-12-01T12:00:00+00:00",
                metric={"score": "neg_root_mean_squared_error", "low": 0.0, "high": 60.0},
            ),
        ) as held:  # fmt: skip
            for team, error in teams.items():
                made = (delays + rng.normal(0.0, error, ROWS)).clip(0.0, 60.0)
                held.competition.submit({"id": IDS, "prediction": made}, team=team)
            if name == "raced":
                held.unseal()


@contextmanager
def serving(storage):
    """The app behind a real server on a loopback port; gives app and address."""
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    app = make_app(Settings(storage, address=address, answers_wait_for=0.0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        while not server.started:
            time.sleep(0.02)
        yield app, address
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@contextmanager
def chromium():
    """A browser without a head; tests are skipped where there is none, but not where all tests have to run."""
    if not Path(CHROMIUM).exists() and shutil.which("chromium") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("there is no Chromium; expected the package chromium; install it")
        pytest.skip("there is no Chromium; the package chromium has it")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()
