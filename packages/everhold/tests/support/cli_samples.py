"""Small studies for the command line."""

import numpy as np
import pytest
from typer.testing import CliRunner

from everhold.cli.application import app

SECRET = "ZEBRA77"
"""Stands in one cell of the sealed rows, and nowhere else."""

ANSWER = ["value", "low", "high", "source", "charged", "remaining", "query"]


def write_rows(folder, name, *, rows, first_id):
    """Rows as CSV, and predictions of their label by id, in a shuffled file."""
    rng = np.random.default_rng(first_id)
    delay = rng.normal(5.0, 30.0, rows).round(2)
    carrier = np.where(rng.random(rows) < 0.5, "UA", "AA").tolist()
    if name == "sealed":
        carrier[0] = SECRET
    lines = [f"{first_id + i},{delay[i]},{carrier[i]},{int(delay[i] > 15)}" for i in range(rows)]
    (folder / f"{name}.csv").write_text("\n".join(["id,delay,carrier,late", *lines]) + "\n")
    guesses = [f"{first_id + i},{int(delay[i] > 10)}" for i in rng.permutation(rows)]
    (folder / f"{name}_predictions.csv").write_text("\n".join(["id,late", *guesses]) + "\n")


@pytest.fixture
def everhold(monkeypatch):
    """Runs a command; whatever it prints, it is no traceback and no sealed value."""

    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def run(*arguments, code=0, env=None):
        result = CliRunner(env=env).invoke(app, list(arguments), prog_name="everhold", catch_exceptions=False)
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.output
        assert SECRET not in result.output
        return result

    return run
