"""Storages elsewhere and databases are found by the scheme of their address, in installed distributions."""

from importlib.metadata import EntryPoint
from types import SimpleNamespace

import pytest

import everhold as eh
from everhold import extensions, remote
from everhold.errors import ExtensionError
from everhold.ledger import address

HERE = SimpleNamespace(connect=lambda url, name: (url, name), create=print, holdouts=lambda _: [])
NOTHING = SimpleNamespace(connect=print)


@pytest.fixture
def without(monkeypatch):
    """As if no distribution added anything, and extras would."""
    monkeypatch.setattr(extensions, "installed", lambda _: {})
    monkeypatch.setattr(extensions, "_catalog", lambda: {
        "everhold.storage": {"https": "server"}, "everhold.databases": {"postgresql": "server"},
        "everhold.names": {"connect": "server"},
    })  # fmt: skip
    monkeypatch.setattr(remote, "_STORAGES", extensions.Registry("everhold.storage", {}, remote._check))
    monkeypatch.setattr(address, "_DATABASES", extensions.Registry("everhold.databases", {}, address._check))
    return monkeypatch


def test_a_scheme_is_opened_by_the_distribution_that_adds_it(without):
    point = EntryPoint("https", "test_remote_storage:HERE", "everhold.storage")
    without.setattr(extensions, "installed", lambda _: {"https": point})
    storage = remote.remote_storage("HTTPS://holdout.example")
    assert storage.connect("https://holdout.example", "study") == ("https://holdout.example", "study")


def test_a_storage_that_lacks_a_function_is_refused(without):
    point = EntryPoint("https", "test_remote_storage:NOTHING", "everhold.storage")
    without.setattr(extensions, "installed", lambda _: {"https": point})
    with pytest.raises(ExtensionError, match=r"'https' .* was refused: it has no function create"):
        remote.remote_storage("https://holdout.example")


def test_a_missing_distribution_is_named(without):
    with pytest.raises(ExtensionError, match=r"pip install 'everhold\[server\]'"):
        remote.remote_storage("https://user:secret@holdout.example")
    with pytest.raises(ValueError, match=r"'postgresql' is not supported\. .*pip install 'everhold\[server\]'") as told:
        address.check_address("postgresql://user:secret@host/base?rows=/srv")
    assert "secret" not in str(told.value)


def test_connect_is_a_public_name_that_a_distribution_adds():
    assert eh.connect.__module__ == "everhold_server.client"
    assert "connect" in eh.__all__
    assert "connect" in dir(eh)


def test_synthesize_takes_the_cells_as_plain_data():
    document = {"columns": [{"name": "carrier", "values": ["AA", "UA"]}, {"name": "delay", "edges": [-60, 0, 60]}]}
    assert [column.name for column in eh.synthesize(document).universe.columns] == ["carrier", "delay"]
    with pytest.raises(eh.QueryRejected, match="holds no universe"):
        eh.synthesize({"rows": []})
