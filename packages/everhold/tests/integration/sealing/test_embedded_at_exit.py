"""Leaving Python closes the connections to the sealed rows, also after an uncaught error."""

import subprocess
import sys
import textwrap

import pytest
from holdout_samples import create

ENDS = {
    "an uncaught error while a thread still holds the holdout": """
        import threading, time
        asked = threading.Event()
        def work(held):
            held.ask("delay > 15")
            asked.set()
            time.sleep(60)
        threading.Thread(target=work, args=(holdout,), daemon=True).start()
        asked.wait()
        raise RuntimeError("uncaught")
    """,
    "an object that C code never releases": """
        import ctypes
        holdout.ask("delay > 15")
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(holdout))
    """,
}


@pytest.mark.parametrize("end", ENDS)
def test_leaving_python_lists_no_leaked_objects(end, tmp_path):
    create(tmp_path).close()
    opened = f"import everhold\nholdout = everhold.Holdout.open('sqlite:///{tmp_path}/study.db', 'study')\n"
    left = subprocess.run(
        [sys.executable, "-c", opened + textwrap.dedent(ENDS[end])], capture_output=True, text=True, timeout=120
    )
    assert ("RuntimeError: uncaught" in left.stderr) == ("uncaught" in end)
    assert "leaked" not in left.stderr


def test_a_statement_that_goes_on_does_not_keep_python_from_leaving(tmp_path):
    create(tmp_path).close()
    program = f"""
        import everhold
        from everhold.sealing.rows.embedded import _engines
        holdout = everhold.Holdout.open('sqlite:///{tmp_path}/study.db', 'study')
        holdout.ask("delay > 15")
        assert [engine._lock.acquire() for engine in _engines]
        print("left")
    """
    left = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120)
    assert left.stdout.split() == ["left"]
