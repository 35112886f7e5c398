"""The command that serves agents refuses what it cannot serve, before it serves."""

import builtins
import sys

import pytest


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--holdout", "flights"), 2, "No storage is given"),
        (("--storage", "s.db"), 2, "--holdout"),
        (("--storage", "none.db", "--holdout", "flights"), 4, "none.db"),
        (("--storage", "s.db", "--holdout", "other"), 4, "other"),
        (("--storage", "s.db", "--holdout", "flights", "--analyst", "nobody"), 5, "nobody"),
        (("--storage", "s.db", "--holdout", "flights", "--predictions-folder", "none"), 2, "no folder 'none'"),
        (("--storage", "s.db", "--holdout", "flights", "--http", "--host", "0.0.0.0"), 2, "from other machines"),
        (("--storage", "s.db", "--holdout", "flights", "--http", "--port", "99999"), 2, "cannot listen"),
    ],
)
def test_what_cannot_be_served(study, everhold, arguments, code, said):
    result = everhold("mcp", *arguments, code=code)
    assert said in result.stderr
    assert "serving" not in result.stderr
    assert result.stdout == ""


def test_a_missing_package_is_named(study, everhold, monkeypatch):
    found = builtins.__import__

    def without(name, *arguments, **named):
        if name == "mcp" or name.startswith("mcp."):
            raise ModuleNotFoundError("No module named 'mcp'", name="mcp")
        return found(name, *arguments, **named)

    for name in [name for name in sys.modules if name == "mcp" or name.startswith(("mcp.", "everhold_server.mcp"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    result = everhold("mcp", "--storage", "s.db", "--holdout", "flights", code=1)
    assert "pip install 'everhold[mcp]'" in result.stderr


def test_an_agents_file_is_read_by_a_worker_without_the_key(tmp_path, monkeypatch):
    """A file that names no reader in this process: DuckDB is not asked to open it here."""
    from everhold.queries.predictions import files as prediction_files
    from everhold.values.base import Schema
    from everhold.values.expressions import ColumnKind
    from everhold_server.commands import mcp as command
    from everhold_server.untrusted import files as untrusted

    path = tmp_path / "model.csv"
    path.write_text("id,late\n1,0\n2,1\n")
    columns = {"id": ColumnKind.NUMBER, "late": ColumnKind.NUMBER}
    schema = Schema(2, 0, columns, label="late", label_kind="binary", row_id="id")
    monkeypatch.setattr(prediction_files._Reading, "connected", None)  # in this process
    asked, read = [], untrusted.read_in_worker
    monkeypatch.setattr(untrusted, "read_in_worker", lambda *a, **kw: asked.append(a) or read(*a, **kw))
    assert command._read(path, schema).columns["late"].tolist() == [0, 1]
    assert len(asked) == 1
