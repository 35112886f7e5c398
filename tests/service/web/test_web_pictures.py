"""Pictures for pages: drawn elsewhere, kept, bounded, and never waited for."""

import threading
import time

import pytest

from everhold.service.web.pictures import Drawer, Pictures, Sketch, Status

STEPS = [{"gate": "a", "sequence": 0, "promotions": 0}, {"gate": "a", "sequence": 3, "promotions": 1}]


def sketch(name="gates", facts=None, asked=None):
    def give():
        if asked is not None:
            asked.append(1)
        return {"steps": STEPS, "last": 5} if facts is None else facts

    return Sketch(name, "title", "what it shows", "caption", give)


class Slow:
    """Draws when it is let."""

    def __init__(self):
        self.go, self.drawn = threading.Event(), []

    def draw(self, name, title, facts):
        self.go.wait(10)
        self.drawn.append(title)
        return None if facts.get("bad") else f"<svg>{len(self.drawn)}</svg>"

    def stop(self):
        self.go.set()

    close = stop


@pytest.fixture
def slow():
    drawer = Slow()
    pictures = Pictures(lambda: drawer, most=3)
    yield drawer, pictures
    pictures.close()


def settled(pictures, key, what):
    for _ in range(500):
        status = pictures.status(key, what)
        if status != Status():
            return status
        time.sleep(0.01)
    raise AssertionError("nothing was drawn")


def test_nobody_waits_and_what_is_being_drawn_is_drawn_once(slow):
    drawer, pictures = slow
    asked = []
    began = time.perf_counter()
    assert all(pictures.status("head", sketch(asked=asked)) == Status() for _ in range(20))
    assert time.perf_counter() - began < 1.0
    drawer.go.set()
    assert settled(pictures, "head", sketch(asked=asked)).svg == "<svg>1</svg>"
    assert (len(asked), len(drawer.drawn)) == (1, 1)


def test_another_head_or_another_view_is_another_picture(slow):
    drawer, pictures = slow
    drawer.go.set()
    keys = [("head 1", "steward", ""), ("head 2", "steward", ""), ("head 2", "analyst", "ada")]
    assert len({settled(pictures, key, sketch()).svg for key in keys}) == 3


def test_only_so_many_are_kept_those_that_were_asked_for_last(slow):
    drawer, pictures = slow
    drawer.go.set()
    for key in range(4):
        settled(pictures, key, sketch())
    assert len(pictures._kept) == 3
    assert settled(pictures, 3, sketch()).svg == "<svg>4</svg>"
    assert settled(pictures, 0, sketch()).svg == "<svg>5</svg>"


def test_only_so_many_wait(slow):
    _, pictures = slow
    for key in range(100):
        pictures.status(key, sketch())
    assert len(pictures._waiting) == 32


def test_a_picture_that_cannot_be_drawn_fails_and_is_not_tried_for_ever(slow):
    drawer, pictures = slow
    drawer.go.set()
    bad = sketch(facts={"bad": True})
    assert settled(pictures, "head", bad) == Status(failed=True)
    assert settled(pictures, "head", bad) == Status(failed=True)
    assert len(drawer.drawn) == 1


def test_a_process_draws_and_another_one_takes_its_place_when_it_ends():
    drawer = Drawer()
    facts = {"steps": STEPS, "last": 5}
    assert drawer.draw("gates", "t", facts).startswith("<svg")
    assert drawer.draw("gates", "t", {}) is None
    drawer._process.kill()
    drawer._process.wait()
    assert drawer.draw("gates", "t", facts).startswith("<svg")
    process = drawer._process
    drawer.close()
    assert process.poll() is not None
    assert drawer.draw("gates", "t", facts) is None
