"""Limits stop what takes too long, and nothing else, from many threads and after a fork."""

import gc
import os
import threading
import time
import weakref

import pytest

from everhold.sealing.rows.embedded import TimeLimits

LONG = 60.0


def test_what_ends_in_time_is_not_stopped():
    limits, stopped = TimeLimits(), []
    with limits.at_most(1.0, lambda: stopped.append("early")):
        pass
    with limits.at_most(LONG, lambda: stopped.append("late")):
        time.sleep(1.1)
    assert stopped == []


def test_a_shorter_limit_is_not_kept_waiting_by_a_longer_one():
    limits, stopped = TimeLimits(), threading.Event()
    with limits.at_most(LONG, pytest.fail), limits.at_most(0.01, stopped.set):
        assert stopped.wait(LONG)
    with limits.at_most(0.01, (again := threading.Event()).set):  # while the thread sleeps for nothing
        assert again.wait(LONG)


def test_each_of_many_threads_is_stopped_once():
    limits, stopped = TimeLimits(), []

    def work(number):
        event = threading.Event()
        with limits.at_most(0.01 + 0.001 * number, lambda: (stopped.append(number), event.set())):
            event.wait(LONG)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(stopped) == list(range(20))


def test_what_was_stopped_is_not_kept_alive():
    class Statement:
        def __init__(self):
            self.stopped = threading.Event()

        def stop(self):
            self.stopped.set()

    limits, statement = TimeLimits(), Statement()
    with limits.at_most(0.01, statement.stop):
        assert statement.stopped.wait(LONG)
    limits.at_most(LONG, pytest.fail).__enter__()  # after which the thread has gone on
    alive = weakref.ref(statement)
    del statement
    gc.collect()
    assert alive() is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_child_has_limits_of_its_own():
    limits = TimeLimits()
    with limits.at_most(LONG, pytest.fail):
        child = os.fork()
        if child == 0:
            with limits.at_most(0.01, lambda: os._exit(7)):
                time.sleep(LONG)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
