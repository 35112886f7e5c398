"""The client, the PostgreSQL ledger and the MCP server need none of the service's packages."""

import subprocess
import sys

import pytest

SERVICE = ["fastapi", "uvicorn", "jinja2", "prometheus_client", "python_multipart"]
OTHERS = ["everhold_privacy", "everhold_engines", "everhold_integrations", "everhold_lab"]


def imported(statement, without):
    """What is said on stderr where some packages are not installed."""
    hidden = f"import sys\nsys.modules.update(dict.fromkeys({without!r}))\n"
    return subprocess.run([sys.executable, "-c", hidden + statement], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("module", ["client", "client_storage", "postgres", "mcp"])
def test_a_module_is_imported_without_the_packages_of_the_service(module):
    told = imported(f"import everhold_server.{module}", SERVICE + OTHERS)
    assert (told.returncode, told.stderr) == (0, "")


def test_without_its_packages_the_service_says_what_to_install():
    told = imported("from everhold_server import make_app", SERVICE)
    assert "needs the package fastapi. Install it: pip install 'everhold[service]'." in told.stderr


ALONE = """
from everhold import extensions
found = extensions.installed
extensions.installed = lambda group: {n: p for n, p in found(group).items() if not p.value.startswith(OTHERS)}
import everhold_server.serving
"""


def test_the_service_needs_no_other_distribution_than_it_declares():
    told = imported(f"OTHERS = {tuple(OTHERS)!r}{ALONE}", OTHERS)
    assert (told.returncode, told.stderr) == (0, "")
