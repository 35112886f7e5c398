"""Processes that start at once, because the process that they are forked from has imported what they need.

That process has run nothing else, so they begin as new ones do. There is one for all tests of a worker, so its modules
are listed here and nowhere else.
"""

import multiprocessing

__all__ = ["prepared_processes"]

prepared_processes = multiprocessing.get_context("forkserver")
prepared_processes.set_forkserver_preload([
    "pytest", "scipy.special", "duckdb", "everhold.holdout", "everhold.asking.creation",
    "everhold.asking.arrivals.appending", "everhold.sealing.intake.files", "everhold.suites", "everhold.gates.cases",
    "everhold.gates.checks", "everhold.cli.application", "everhold.cli.gates", "everhold_competitions.session",
    "everhold_integrations.pytest_plugin", "everhold_server", "everhold_server.mcp", "uvicorn",
])  # fmt: skip
