"""Errors of public calls carry no frame whose local variables show noise, state, sums, keys or sealed rows."""

import contextlib
import re
import sqlite3
import traceback

import numpy as np
import pytest
from holdout_samples import ROWS, create, rows

import everhold as eh
from everhold.ledger import Ledger, LedgerStore
from everhold.mechanisms import Thresholdout
from everhold.questions.moments import variance
from everhold.sealing.table import StoredRows

pytestmark = pytest.mark.filterwarnings("ignore::everhold.errors.EverholdWarning")

SEALED = 987654.321
HOUSE = eh.__file__.removesuffix("__init__.py")


def sealed_rows():
    return {**rows(0), "delay": np.full(ROWS, SEALED)}


@pytest.fixture
def holdout(tmp_path):
    mechanism = Thresholdout.tuned(rows=ROWS, queries=20, overfits=3)
    with create(tmp_path, holdout=sealed_rows(), mechanism=mechanism, allow_vacuous=True) as made:
        yield made


def frames_of_the_house(error):
    """Every frame of everhold, and of what it calls, that hangs on an error in whatever way, with its locals."""
    seen, queue, found = set(), [error], []
    while queue:
        one = queue.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        queue += [one.__cause__, one.__context__]
        inside = False
        for frame in traceback.TracebackException.from_exception(one, capture_locals=True).stack:
            inside = inside or frame.filename.startswith(HOUSE)
            found += [frame] * inside
    return found


def secrets_of(holdout):
    desk = holdout._desk
    sums = desk.sealed.totals([desk.preparation.bind("delay > 0")], unit=desk.mechanism.unit)
    key = desk.key._private.private_bytes_raw()
    return {
        "noise": str(desk.state().carried_noise),
        "sum": str(int(sums[0, 0])),
        "value": "987654",
        "key": repr(key)[2:-1],
        "seal": repr(desk.key.seal_key)[2:-1],
    }


def provoked(holdout, act):
    """The error of an act, and the secrets that there were."""
    secrets = secrets_of(holdout)
    try:
        act(holdout)
    except BaseException as error:
        return error, secrets
    raise AssertionError("nothing was raised")


def fail(*_, **__):
    raise RuntimeError("a fault of the house")


def interrupt(*_, **__):
    raise KeyboardInterrupt


def asking(patched, name, fault):
    def act(holdout):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(patched, name, fault)
            holdout.ask("delay > 0")

    return act


def strictly(holdout):
    for k in range(99):
        holdout.ask(f"delay > {k}", guess=0.0, strict=True)


def with_a_tampered_head(holdout):
    path = holdout._desk.store.database.path
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA trusted_schema = OFF")
        for (trigger,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {trigger}")
        database.execute("UPDATE head SET charged = charged + 1")
        database.commit()
    holdout.ask("delay > 0")


def interrupted_function(table):
    if (table["delay"] == SEALED).any():
        raise KeyboardInterrupt
    return table["late"]


def sealing_again(holdout):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LedgerStore, "create", fail)
        eh.Holdout.create(holdout._desk.store.database.path, "again", holdout=sealed_rows(), mechanism="gaussian")


ACTS = {
    "a strict refusal": strictly,
    "a rejected question": lambda holdout: holdout.ask("unknown > 1"),
    "a tampered head": with_a_tampered_head,
    "a step that raises": asking(Thresholdout, "answer_many", fail),
    "a step that is interrupted": asking(Thresholdout, "answer_many", interrupt),
    "an interrupted look": asking(StoredRows, "_fetch", interrupt),
    "a ledger that cannot write": asking(Ledger, "_append", fail),
    "an interrupted function": lambda holdout: holdout.ask(eh.mean(interrupted_function, name="f")),
    "several questions in one": lambda holdout: holdout.ask(variance("unknown", low=0, high=1)),
    "a quote": lambda holdout: holdout.quote("unknown > 1"),
    "an allotment": lambda holdout: holdout.allot("team", questions=-1),
    "an analyst": lambda holdout: holdout.analyst("nobody"),
    "a failed creation": sealing_again,
    "another name": lambda holdout: eh.Holdout.open(holdout._desk.store.database.path, "another"),
}


@pytest.mark.parametrize("name", ACTS)
def test_the_local_variables_that_a_debugging_tool_shows_hold_no_secret(holdout, name):
    error, secrets = provoked(holdout, ACTS[name])
    frames = frames_of_the_house(error)
    shown = "\n".join(str(value) for frame in frames for value in (frame.locals or {}).values())
    assert [what for what, text in secrets.items() if text in shown] == []
    assert {frame.filename.removeprefix(HOUSE) for frame in frames} == {"boundary.py"}


def test_without_the_boundary_they_hold_secrets(holdout):
    """The test above can fail: an error inside the house does show the state that is about to be written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("everhold.ledger.ledger.entry_seal", fail)
        with pytest.raises(RuntimeError) as caught:
            holdout._desk.ask(holdout._desk.preparation.batch(["delay > 0"], [None]))
    shown = "\n".join(
        str(value) for frame in frames_of_the_house(caught.value) for value in (frame.locals or {}).values()
    )
    assert re.search(r'"carried_noise": ?-?[1-9]', shown)


def test_every_public_door_is_guarded():
    for name, member in vars(eh.Holdout).items():
        function = getattr(member, "__func__", None) or getattr(member, "fget", None) or member
        if callable(function) and (not name.startswith("_") or name in ("__init__", "__exit__")):
            assert function.__code__.co_name == "at_the_door", name


def test_the_fault_of_a_function_on_public_rows_is_still_told(holdout):
    with pytest.raises(eh.QueryRejected) as caught:
        holdout.ask(eh.risk(np.zeros(ROWS), lambda predictions, labels: predictions / None, high=1))
    assert isinstance(caught.value.__cause__, TypeError)


def test_warnings_point_at_the_line_that_asked(tmp_path):
    with pytest.warns(eh.SmallHoldoutWarning) as caught:
        eh.Holdout.create(tmp_path / "s.db", holdout=rows(0, 50), mechanism="gaussian", queries=2).close()
    assert {warning.filename for warning in caught} == {__file__}
