import os
import subprocess
import sys

import pytest

from everhold.ledger import LedgerStore
from everhold.ledger.address import ROWS_VARIABLE, check_address, rows_beside

SERVER = "postgresql://name:hunter2@host/base"


@pytest.mark.parametrize(
    "url",
    [
        "mysql+pymysql://name:hunter2@host/base",
        "postgresql+psycopg2://name:hunter2@host/base",
        "postgres://name:hunter2@host/base",
        "study.db",
        "",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:study.db?uri=true",
        "sqlite:///study.db?mode=ro",
        "postgresql://name:hunter2@host",
        "postgresql://name:hunter2@host:port/base",
    ],
)
def test_only_addresses_that_can_be_used_are_accepted(url):
    for use in (LedgerStore.open, check_address):
        with pytest.raises(ValueError, match=r"sqlite:///study\.db") as caught:
            use(url)
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("options", ["", "?rows=", "?rows=here", "?rows=/a&rows=/b"])
def test_a_server_needs_one_folder_for_the_rows(options, monkeypatch):
    monkeypatch.delenv(ROWS_VARIABLE, raising=False)
    with pytest.raises(ValueError, match="does not say in which folder") as caught:
        check_address(SERVER + options)
    assert "hunter2" not in str(caught.value)


def test_the_folder_is_named_by_the_address_or_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv(ROWS_VARIABLE, str(tmp_path))
    assert rows_beside(SERVER) == tmp_path
    assert rows_beside(f"{SERVER}?rows=/srv/rows").as_posix() == "/srv/rows"
    assert rows_beside(f"sqlite:///{tmp_path}/study.db") == tmp_path / "study.rows"


def test_a_missing_driver_is_one_clear_sentence(tmp_path):
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from everhold.ledger import LedgerStore\n"
        "try: LedgerStore.open('postgresql://host/base')\n"
        "except ModuleNotFoundError as missing: print(missing)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ}, cwd=tmp_path
    )
    assert "pip install 'everhold[postgres]'" in done.stdout
