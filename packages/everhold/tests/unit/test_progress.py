"""Bars appear where somebody looks and work lasts, and show nothing but what was asked for."""

import io
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

import everhold as eh
from everhold import progress as bars
from everhold.progress import SWITCH, Line, progress
from everhold.queries.means import plans as means


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Seen(list):
    """A view that remembers what it was to show."""

    def show(self, line):
        self.append(str(line))

    def close(self):
        self.append("taken away")


@pytest.fixture
def seen(monkeypatch):
    view = Seen()
    monkeypatch.setattr(bars, "_Terminal", lambda: view)
    monkeypatch.setattr(bars, "PATIENCE", 0.05)
    monkeypatch.setattr(bars, "_SETTLED", 0.0)
    monkeypatch.setattr(bars, "sys", SimpleNamespace(stderr=Terminal(), modules=sys.modules))  # pytest has the real one
    return view


def last(line, view, *, done=1):
    """Work until the bar is there."""
    line(done)
    patience = time.monotonic() + 60.0
    while not view and time.monotonic() < patience:
        time.sleep(0.01)


def test_short_work_shows_nothing_and_long_work_a_bar_that_is_taken_away(seen, monkeypatch):
    monkeypatch.setattr(bars, "PATIENCE", 30.0)
    with progress("short", 2) as line:
        line(1)
    assert seen == []
    monkeypatch.setattr(bars, "PATIENCE", 0.05)
    with progress("long", 2000) as line:
        last(line, seen)
        line(1999)
    assert seen[0] == "long: 1 of 2,000"
    assert seen[-2:] == ["long: 1,999 of 2,000", "taken away"]


def test_a_part_that_counts_takes_the_place_of_the_whole_while_it_lasts(seen):
    with progress("sealing") as whole:
        last(whole, seen)
        with progress("one thing", 1) as line:
            line(1)
        with progress("rows", 5) as part:
            part(3)
        whole(0)
    assert {"sealing", "rows: 3 of 5", "taken away"} <= set(seen)
    assert not any("one thing" in shown for shown in seen)
    assert seen[-2] == "sealing"


def test_a_bar_goes_when_the_work_is_interrupted_and_the_next_one_comes(seen):
    def interrupted():
        with progress("asking", 3) as line:
            last(line, seen)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert seen[-1] == "taken away"
    seen.clear()
    with progress("again", 3) as line:
        last(line, seen)
    assert seen[-1] == "taken away"


def test_a_bar_that_cannot_be_drawn_stops_no_work(seen, monkeypatch):
    monkeypatch.setattr(seen, "show", lambda line: seen.append(1 / 0), raising=False)
    monkeypatch.setattr(seen, "close", lambda: seen.append("gone") or 1 / 0, raising=False)
    with progress("asking", 3) as line:
        appeared = bars._SCREEN
        while appeared._view is None:
            time.sleep(0.01)
        line(2)
    assert seen == ["gone"]


def looks(work):
    """Whether a bar would come, in the thread where it is asked."""
    found = []
    work(lambda: found.append(bars._somebody_looks()))
    return found == [True]


def in_a_thread(work):
    worker = threading.Thread(target=work)
    worker.start()
    worker.join()


def test_nobody_looks_at_files_at_threads_or_where_it_is_switched_off(seen, monkeypatch):
    assert looks(lambda work: work())
    assert not looks(in_a_thread)
    monkeypatch.setenv(SWITCH, "off")
    assert not looks(lambda work: work())
    monkeypatch.delenv(SWITCH)
    for stream in (io.StringIO(), None):
        monkeypatch.setattr(bars.sys, "stderr", stream)
        assert not looks(lambda work: work())


def test_the_bar_of_a_terminal_counts_and_leaves_nothing_behind(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    bar = bars._Terminal()
    bar.show(Line("[b]queries[/b]", 40, 7))
    bar.show(Line("waiting"))
    bar.close()
    assert "[b]queries[/b]: 7 of 40" in stream.getvalue() or "waiting" in stream.getvalue()
    assert stream.getvalue().endswith("\x1b[2K")  # the line is cleared


def test_the_bar_of_a_notebook_is_plain_html():
    assert bars._mime(Line("a < b", 40, 7))["text/html"] == '<progress value="7" max="40"></progress> a &lt; b: 7 of 40'
    assert bars._mime(Line("sealing"))["text/html"] == "<progress></progress> sealing"
    assert bars._mime(None)["text/html"] == ""


@pytest.fixture
def told(monkeypatch):
    """All that rooms tell of how far they have come, whether or not anybody looks."""
    every = []
    monkeypatch.setattr(Line, "__call__", lambda line, done, total=None: every.append((line.what, line.total, done)))
    return every


@pytest.mark.parametrize("mechanism", ["gaussian", "guess_and_check"])
def test_what_is_told_depends_on_no_sealed_value(tmp_path, told, mechanism, monkeypatch):
    monkeypatch.setattr(means, "_MOST_SHORT", 99)  # a short batch takes no time and reports nothing
    stories, rng = [], np.random.default_rng(1)
    training = {"x": rng.random(4000)}
    for number, sealed in enumerate((rng.random(4000), rng.beta(2.0, 2.0, 4000))):
        told.clear()
        with eh.Holdout.create(
            tmp_path / f"{number}.db", holdout={"x": sealed}, training=training, mechanism=mechanism, queries=300,
            surprises=1, rows=eh.Rows(equal_rows=True), seed=1, planning=eh.Planning(allow_vacuous=True),
        ) as holdout:  # fmt: skip
            queries = [f"x < {cut / 100}" for cut in range(100)]
            holdout.ask_many(queries, guesses=[0.5] * 100, silent=mechanism == "guess_and_check")
            holdout.certificate()
        stories.append(list(told))
    assert stories[0] == stories[1]
    assert {"reading rows", "asking", "writing and checking rows", "checking the ledger"} <= {
        what for what, _, _ in stories[0]
    }


def test_every_long_operation_tells_how_far_it_has_come(tmp_path, told):
    rng = np.random.default_rng(1)
    rows, training = ({"x": rng.random(4000), "day": np.arange(first, first + 4000) // 4} for first in (0, 4000))
    with eh.Holdout.create(
        tmp_path / "study.db",
        holdout=rows,
        training=training,
        planning=eh.Planning(allow_vacuous=True),
        dependence=eh.Groups("day"),
    ) as holdout:
        holdout.ask_many([f"x < {cut / 10}" for cut in range(9)])
        holdout.diagnose()
        holdout.unseal()
        holdout.certificate()
    eh.rows_needed(radius=0.2, queries=10)
    assert {what for what, _, _ in told} >= {
        "writing and checking rows", "preparing queries", "asking", "opening envelopes", "reading the ledger",
        "checking the ledger", "planning, by mechanism",
    }  # fmt: skip
