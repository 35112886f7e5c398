"""The example of the README runs with the core's dependencies alone, as `pip install everhold` installs them."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
MODULES = {
    "scikit-learn": "sklearn",
    "optuna": "optuna",
    "mlflow": "mlflow",
    "pandas": "pandas",
    "polars": "polars",
    "pyarrow": "pyarrow",
    "altair": "altair",
    "fastapi": "fastapi",
    "httpx": "httpx",
    "jinja2": "jinja2",
    "mcp": "mcp",
    "psycopg": "psycopg",
    "pyspark": "pyspark",
    "tqdm": "tqdm",
}
"""Modules of extras and of the tests, by distribution."""

RUN = """
import doctest, sys
sys.modules.update(dict.fromkeys(sys.argv[2:]))  # an import of these fails
result = doctest.testfile(sys.argv[1], module_relative=False)
raise SystemExit(result.failed or not result.attempted)
"""


def test_the_example_needs_the_core_alone(tmp_path):
    core = {re.split(r"[^\w-]", need)[0] for need in requires("everhold") or () if "extra ==" not in need}
    absent = ["everhold_lab", *(module for name, module in MODULES.items() if name not in core)]
    ran = subprocess.run(
        [sys.executable, "-c", RUN, str(README), *absent], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
