"""Tables that stay where they are, found by the scheme of their address."""

import pandas as pd
import pytest
from pond_samples import PASSWORD, Pond

import everhold as eh
from everhold import extensions
from everhold.errors import ExtensionError, IntegrityError
from everhold.sealing.rows.row_store import ENGINE_VARIABLE, TABLES, is_table, table_at, table_of


class Elsewhere(Pond):
    kind = "elsewhere"


class Half:
    """Lacks everything but an address."""

    @classmethod
    def from_url(cls, url, table):
        return cls()


@pytest.fixture
def ponds(monkeypatch):
    monkeypatch.setitem(TABLES.own, "pond", "pond_samples:Pond")
    monkeypatch.setitem(TABLES.own, "elsewhere", f"{__name__}:Elsewhere")


@pytest.mark.parametrize("url", ["pond:///f.db", "POND://u@/f.db", f"pond+driver://u:{PASSWORD}@/f.db"])
def test_an_address_names_its_extension_by_its_scheme(ponds, url):
    assert isinstance(table_at(url, "flights"), Pond)


@pytest.mark.parametrize("url", [f"swordfish://u:{PASSWORD}@host", f"u:{PASSWORD}@host", "", "rows.parquet", PASSWORD])
def test_what_is_no_address_is_refused_without_being_quoted(ponds, url):
    with pytest.raises(ValueError, match=r"no scheme that is known\. Expected one of pond, ") as caught:
        table_at(url, "flights")
    assert PASSWORD not in str(caught.value)


def test_without_the_distribution_its_extra_is_named(monkeypatch):
    monkeypatch.setattr(extensions, "_catalog", lambda: {"everhold.rows": {"lake": "engines"}})
    with pytest.raises(ValueError, match=r"pip install 'everhold\[engines\]'"):
        table_at("lake://host/db", "flights")


def test_an_extension_that_breaks_its_contract_is_refused_with_its_name(monkeypatch):
    point = type("Point", (), {"name": "half", "value": "here:Half", "load": lambda self: Half})()
    monkeypatch.setattr(extensions, "installed", lambda group: {"half": point})
    with pytest.raises(ExtensionError, match=r"'half'.*no check_unaltered, .*subclass of `SealableTable`"):
        table_at("half://host", "flights")


def test_installed_engines_are_found(monkeypatch):
    for scheme in ("clickhouse", "local", "postgresql", "sc", "spark"):
        assert is_table(object.__new__(TABLES[scheme]))
    assert TABLES["spark"] is eh.engines.Spark


def test_a_frame_is_no_table_whatever_its_columns_are_called():
    frame = pd.DataFrame({name: [1] for name in ("check_unaltered", "pinned", "sealed_rows", "sealing")})
    assert not is_table(frame)
    assert not is_table({"sealing": [1]})


def test_a_table_is_found_again_where_the_environment_says(ponds, monkeypatch, tmp_path):
    facts = Pond(tmp_path / "a.db", "flights").to_dict()
    assert table_of(facts).file == tmp_path / "a.db"
    monkeypatch.setenv(ENGINE_VARIABLE, f"elsewhere://{tmp_path}/a.db pond://{tmp_path}/b.db pond://{tmp_path}/c.db")
    assert table_of(facts).file == tmp_path / "b.db"  # of the kind
    monkeypatch.setenv(ENGINE_VARIABLE, f"pond://{tmp_path}/b.db pond://{tmp_path}/a.db")
    assert table_of(facts).file == tmp_path / "a.db"  # at the place
    monkeypatch.setenv(ENGINE_VARIABLE, f"elsewhere://{tmp_path}/a.db")
    with pytest.raises(ValueError, match=r"of kind 'pond', and engine= is of kind 'elsewhere'"):
        table_of(facts)
    with pytest.raises(IntegrityError, match="was altered or is damaged"):
        table_of({"kind": "pond"})
