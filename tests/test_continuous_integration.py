"""The guide about continuous integration, followed word for word; and the action that it uses."""

import json
import os
import re
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

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
    challenged = ((0, "promoted"), (1, "kept"), (2, "error"), (3, "refused"))
    checked = ((0, "not worse"), (1, "regression"), (2, "error"), (3, "refused"), (4, "undecided"))
    every = [("", *each) for each in challenged] + [("0.1", *each) for each in checked]
    for margin, code, verdict in every:
        (tmp_path / "bin/everhold").write_text(f"#!/bin/sh\necho $1 >> command\nexit {code}\n")
        told = {"GITHUB_OUTPUT": str(tmp_path / f"out{code}"), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
        named = dict.fromkeys(("RESULTS", "GATE", "HOLDOUT", "CHALLENGER"), "$(touch hacked)")
        for wanted, expected in (("true", code), ("false", 0 if verdict == "kept" else code)):
            done = subprocess.run(
                ["bash", "-c", step["run"]], cwd=tmp_path, check=False,
                env={**variables, **told, **named, "FAIL_IF_KEPT": wanted, "MARGIN": margin},
            )  # fmt: skip
            assert done.returncode == (0 if verdict == "undecided" else expected)
        assert (tmp_path / f"out{code}").read_text().splitlines()[-1] == f"verdict={verdict}"
        assert f": {verdict}\n\nThere is no verdict" in (tmp_path / "summary").read_text()
    assert (tmp_path / "command").read_text().split() == ["challenge"] * 8 + ["check"] * 10
    assert not (tmp_path / "hacked").exists()


def test_the_verdict_is_one_comment_that_is_changed_in_place(tmp_path):
    mark = "<!-- everhold gate main -->"
    comments = [{"id": number, "body": "a comment", "user": {"type": "User"}} for number in range(120)]
    comments[0]["body"] = f"{mark}\nof a stranger"

    class Service(BaseHTTPRequestHandler):
        def answer(self):
            assert self.headers["Authorization"] == "Bearer secret"
            path, _, query = self.path.partition("?")
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or "{}")
            if self.command == "GET":
                page = int(re.search(r"&page=(\d+)", query)[1])
                told = comments[100 * (page - 1) : 100 * page]
            elif self.command == "POST":
                assert path == "/repos/a/b/issues/7/comments"
                told = {"id": len(comments), "user": {"type": "Bot"}, **asked}
                comments.append(told)
            else:
                told = comments[int(path.removeprefix("/repos/a/b/issues/comments/"))]
                told.update(asked)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(told).encode())

        do_GET = do_POST = do_PATCH = answer  # noqa: N815

        def log_message(self, *_):
            pass

    text, event = tmp_path / "told.md", tmp_path / "event.json"
    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as service:
        Thread(target=service.serve_forever, daemon=True).start()
        given = {
            "GITHUB_API_URL": f"http://127.0.0.1:{service.server_port}", "GITHUB_TOKEN": "secret",
            "GITHUB_REPOSITORY": "a/b", "GITHUB_EVENT_PATH": str(event),
        }  # fmt: skip
        command = [sys.executable, str(ROOT / "action/comment.py"), str(text), "everhold gate main"]
        for about in ({"pull_request": {"number": 7}}, {"pull_request": {"number": 7}}, {"push": {}}):
            event.write_text(json.dumps(about))
            text.write_text(f"### Gate main: {len(comments)} \u2713\n")
            subprocess.run(command, env={**os.environ, **given}, check=True)
        service.shutdown()
    assert len(comments) == 121
    assert comments[-1]["body"] == f"{mark}\n### Gate main: 121 \u2713\n"
    assert comments[0]["body"].endswith("of a stranger")
