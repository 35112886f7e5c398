"""A forked child asks with an engine, connections and locks of its own.

Each test forks a fresh process: what other tests leave behind, such as threads of other libraries, is not in it.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

SUPPORT = [Path(__file__).parents[1] / "support", Path(__file__).parents[4] / "tests" / "support"]

BEGIN = """
import os, signal, sys, threading, time
sys.path[:0] = sys.argv[1:]
from holdout_samples import copied, rows
import everhold as eh

def forked(act):
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # ends a child that hangs
        try:
            act()
        except BaseException as error:
            print(type(error).__name__, error, flush=True)
            os._exit(1)
        os._exit(0)
    return child

def status_of(child):
    return os.waitpid(child, 0)[1]
"""

WITHIN_ROWS = """
from pathlib import Path
from everhold.sealing.rows.code_trials import values_or_none

sealed = rows(0)
sealed["delay"][7] = 1e6
with copied(Path("."), holdout=sealed, mechanism="privacy_budget", queries=30) as holdout:
    asked, inside, go = holdout.ask("delay > 3").value, threading.Event(), threading.Event()

    def slow(table):
        if (table["delay"] == 1e6).any():
            inside.set()
            go.wait(60)
        return table["delay"] > 0

    def act():
        answers = holdout.ask("delay > 4"), holdout.ask(eh.mean(lambda t: t["delay"] > 5))
        assert holdout.ask("delay > 3").value == asked
        assert all(answer.charged == 100 for answer in answers)

    table = holdout._executor.sealed.table(["delay"])
    other = threading.Thread(target=values_or_none, args=(slow, table, (holdout.schema.rows,)))
    other.start()
    assert inside.wait(60)
    status = status_of(forked(act))
    go.set()
    other.join()
    assert status == 0
    assert holdout.status()["charged"] == 300
"""

WITHIN_A_TRANSACTION = """
from everhold.ledger import LedgerStore

used, other = (LedgerStore.open(f"sqlite:///{name}.db") for name in ("used", "other"))
inside = threading.Event()

def read():
    with other.database.transaction() as connection:
        connection.exec_driver_sql("SELECT 1")
        inside.set()
        time.sleep(0.2)

reader = threading.Thread(target=read)
reader.start()
assert inside.wait(60)
child = forked(used.names)
assert status_of(child) == 0
reader.join()
"""


@pytest.mark.parametrize("program", [WITHIN_ROWS, WITHIN_A_TRANSACTION], ids=["within rows", "within a transaction"])
def test_a_child_that_is_forked_while_another_thread_is_busy_asks_as_ever(tmp_path, program):
    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-X", "faulthandler", "-c", BEGIN + program, *map(str, SUPPORT)],
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert told.returncode == 0, told.stdout + told.stderr
