"""The guide about continuous integration, followed word for word; and the action that it uses."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GUIDE = (ROOT / "docs/guides/continuous-integration.md").read_text(encoding="utf-8")
STEP = re.compile(r'```python title="(?P<file>[^"]+)"\n(?P<text>.*?)```|```console\n(?P<lines>.*?)```', re.DOTALL)


def environment(folder):
    """The environment of a shell in which everhold is installed."""
    programs = folder / "bin"
    programs.mkdir()
    for name, how in (
        ("pytest", "-m pytest -p no:cacheprovider"),
        ("everhold", "-c 'import everhold.cli as c; c.main()'"),
    ):
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {how} "$@"\n')
        (programs / name).chmod(0o755)
    (programs / "pip").write_text("#!/bin/sh\nexit 0\n")
    (programs / "pip").chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    plugins = {"PYTEST_PLUGINS": "everhold_integrations.pytest_plugin", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return {**kept, **plugins, "PATH": f"{programs}:{os.environ['PATH']}"}  # other plugins take seconds to import


def run(command, folder, variables):
    return subprocess.run(["sh", "-c", command], cwd=folder, env=variables, capture_output=True, text=True, check=False)


def test_the_guide_leads_from_a_fresh_repository_to_verdicts(tmp_path):
    repository, variables = tmp_path / "repository", environment(tmp_path)
    repository.mkdir()
    codes = {}
    for step in STEP.finditer(GUIDE):
        if step["file"]:
            (repository / step["file"]).write_text(step["text"])
            continue
        for line in step["lines"].splitlines():
            command = line.removeprefix("$ ")
            done = run(command, repository, variables)
            codes[command] = done.returncode
            assert "Traceback" not in done.stderr
    verdicts = {name.rpartition("=")[2]: code for name, code in codes.items() if "--everhold-challenger" in name}
    assert verdicts == {"commit-1": 1, "commit-2": 0}
    assert [code for name, code in codes.items() if "--everhold-seal" in name] == [0]
    assert [code for name, code in codes.items() if name.startswith("everhold suite")] == [0, 0]
    assert [code for name, code in codes.items() if "--everhold-add" in name] == [0]
    assert [code for name, code in codes.items() if name.startswith("everhold challenge")] == [1]
    summary = (repository / "summary.md").read_text()
    assert summary.startswith("### Gate main: kept")
    assert "duration" in summary


def test_the_action_maps_exit_codes_and_passes_inputs_by_the_environment(tmp_path):
    yaml = pytest.importorskip("yaml")
    action = yaml.safe_load((ROOT / "action/action.yml").read_text())
    (step,) = action["runs"]["steps"]
    assert "${{" not in step["run"]  # an input must not become a part of the script
    variables = environment(tmp_path)
    for code, verdict in ((0, "promoted"), (1, "kept"), (2, "error"), (3, "refused")):
        (tmp_path / "bin/everhold").write_text(f"#!/bin/sh\nexit {code}\n")
        told = {"GITHUB_OUTPUT": str(tmp_path / f"out{code}"), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
        named = dict.fromkeys(("RESULTS", "GATE", "HOLDOUT", "CHALLENGER"), "$(touch hacked)")
        for wanted, expected in (("true", code), ("false", 0 if code == 1 else code)):
            done = subprocess.run(
                ["bash", "-c", step["run"]], cwd=tmp_path, check=False,
                env={**variables, **told, **named, "FAIL_IF_KEPT": wanted},
            )  # fmt: skip
            assert done.returncode == expected
        assert (tmp_path / f"out{code}").read_text().splitlines()[-1] == f"verdict={verdict}"
    assert not (tmp_path / "hacked").exists()
