"""Runs in the environment of the peers: answers lines of JSON on standard input through diffprivlib.

diffprivlib 0.6.6 needs an older scikit-learn than everhold's development environment has, so it lives in its own.
Three kinds of request: ``totals`` prices sessions, ``start`` seals labels and sets the budget, ``ask`` answers.
"""

from __future__ import annotations

import base64
import json
import sys
import time

import numpy as np
from diffprivlib import BudgetAccountant
from diffprivlib.tools import mean
from diffprivlib.utils import BudgetError


def unpacked(text: str, rows: int) -> np.ndarray:
    """Booleans that were packed to bits."""
    return np.unpackbits(np.frombuffer(base64.b64decode(text), dtype=np.uint8), count=rows).astype(bool)


def totals(request: dict) -> dict:
    """What the accountant says of `queries` answers of each epsilon, at each slack."""
    accountant = BudgetAccountant()
    return {
        "totals": [
            list(accountant.total(spent_budget=[(epsilon, 0.0)] * request["queries"], slack=slack))
            for epsilon, slack in request["settings"]
        ]
    }


class Session:
    """Labels and a budget."""

    def __init__(self, request: dict) -> None:
        self.rows, self.epsilon = request["rows"], request["epsilon"]
        self.labels = unpacked(request["labels"], self.rows)
        self.accountant = BudgetAccountant(request["total"], request["slack"], slack=request["slack"])

    def ask(self, request: dict) -> dict:
        """The noisy accuracy of predictions, or None once the accountant refuses."""
        predicted = unpacked(request["predicted"], self.rows)
        start = time.perf_counter()
        value = None
        try:
            right = (predicted == self.labels).astype(float)
            value = float(mean(right, epsilon=self.epsilon, bounds=(0.0, 1.0), accountant=self.accountant))
        except BudgetError:
            pass
        return {"value": value, "seconds": time.perf_counter() - start}


def main() -> None:
    """One reply for each line."""
    session = None
    for line in sys.stdin:
        request = json.loads(line)
        if request["kind"] == "totals":
            reply = totals(request)
        elif request["kind"] == "start":
            session, reply = Session(request), {}
        else:
            reply = session.ask(request)
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
