"""The pages about suites in a repository, followed word for word; and the action that they use."""

import json
import os
import re
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from followed_pages import followed

ROOT = Path(__file__).parents[1]
MARK = "<!-- everhold gate main -->"
PAGES = [
    ROOT / "docs" / page
    for page in ("first-steps/repository.md", "guides/continuous-integration.md", "guides/suites.md")
]


@pytest.fixture
def programs(tmp_path):
    """Folder of programs, as of an environment in which everhold is installed."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, how in (
        ("pytest", "-m pytest -p no:cacheprovider"),
        ("everhold", "-c 'import everhold.cli as c; c.main()'"),
    ):
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {how} "$@"\n')
        (folder / name).chmod(0o755)
    return folder


def test_the_pages_lead_from_a_fresh_repository_to_verdicts(tmp_path, programs):
    repository = tmp_path / "repository"
    repository.mkdir()
    plugins = {"PYTEST_PLUGINS": "everhold_integrations.pytest_plugin", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    counts = [
        followed(page.read_text(encoding="utf-8"), programs=programs, folder=repository, **plugins) for page in PAGES
    ]  # fmt: skip
    assert counts == [5, 3, 6]
    summary = (repository / "summary.md").read_text()
    assert summary.startswith("### Gate main: kept")
    assert "duration" in summary


def test_the_workflows_pin_actions_and_keep_the_key_from_code_of_the_pull_request(action):
    yaml = pytest.importorskip("yaml")
    found = {}
    for title, text in re.findall(r'```yaml title="[^"]*/(\w+)\.yml"\n(.*?)```', PAGES[1].read_text(), re.DOTALL):
        (job,) = yaml.safe_load(text)["jobs"].values()
        found[title] = [step.get("uses", "run") for step in job["steps"]]
        for step in job["steps"]:
            assert re.search(r"@([0-9a-f]{40}|COMMIT)$", step.get("uses", "@COMMIT"))
            if "everhold" in step.get("uses", ""):
                assert set(step["with"]) <= set(action[1])
        assert ("/srv/everhold" in str(job)) == (title == "gate")
    assert [used.partition("@")[0] for used in found["gate"]] == ["actions/download-artifact", "OWNER/everhold/action"]
    assert "run" in found["suite"]


@pytest.fixture(scope="module")
def action():
    """The steps of the action by their ids, and its inputs."""
    told = pytest.importorskip("yaml").safe_load((ROOT / "action/action.yml").read_text())
    steps = {step["id"]: step for step in told["runs"]["steps"]}
    assert not any("${{" in step["run"] for step in steps.values())  # an input must not become a part of the script
    return steps, told["inputs"]


def test_the_action_maps_exit_codes_and_passes_inputs_by_the_environment(tmp_path, programs, action):
    script = action[0]["gate"]["run"]
    variables = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    challenged = ((0, "promoted"), (1, "kept"), (2, "error"), (3, "refused"), (4, "error"))
    checked = ((0, "not worse"), (1, "regression"), (2, "error"), (3, "refused"), (4, "undecided"))
    every = [("challenge", *each) for each in challenged] + [("check", *each) for each in checked]
    given = {
        "INSTALLED": "success", "MARGIN": "0.2", "ANALYST": "requests", "CASE": "a case", "PASSED": "grade",
        "BASELINE_RESULTS": "new.xml", **dict.fromkeys(("RESULTS", "GATE", "HOLDOUT", "CHALLENGER"), "$(touch hacked)"),
    }  # fmt: skip
    for ask, code, verdict in every:
        (programs / "everhold").write_text(f"#!/bin/sh\nprintf '%s|' \"$@\" > command\nexit {code}\n")
        told = {"GITHUB_OUTPUT": str(tmp_path / f"out{code}"), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
        for wanted, expected in (("true", code), ("false", 0 if verdict == "kept" else code)):
            done = subprocess.run(
                ["bash", "-e", "-c", script], cwd=tmp_path, check=False,
                env={**variables, **told, **given, "FAIL_IF_KEPT": wanted, "ASK": ask},
            )  # fmt: skip
            assert done.returncode == (0 if verdict == "undecided" else expected)
        assert (tmp_path / f"out{code}").read_text().splitlines()[-1] == f"verdict={verdict}"
        assert f": {verdict}\n\nThere is no verdict" in (tmp_path / "summary").read_text()
        command = (tmp_path / "command").read_text()
        assert command.startswith(f"{ask}|$(touch hacked)|{'--margin|0.2|' if ask == 'check' else ''}--gate|")
        assert "--analyst|requests|--baseline-results|new.xml|--case|a case|--passed|grade|--summary|" in command
    (tmp_path / "command").unlink()
    for changed in ({"ASK": "prove"}, {"ASK": "check", "INSTALLED": "failure"}):
        done = subprocess.run(
            ["bash", "-e", "-c", script], cwd=tmp_path, check=False, env={**variables, **told, **given, **changed}
        )
        assert done.returncode == 2
    assert not (tmp_path / "hacked").exists()
    assert not (tmp_path / "command").exists()


def test_the_action_installs_everhold_from_one_place(tmp_path, action):
    script = action[0]["install"]["run"]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").write_text(  # makes an environment whose pip says how it was called
        '#!/bin/sh\nmkdir -p "$3/bin" "$3/wheels"\ntouch "$3/wheels/a.whl"\n'
        'printf \'#!/bin/sh\\necho "$*" >> pip\\n\' > "$3/bin/pip"\nchmod +x "$3/bin/pip"\n'
    )
    (tmp_path / "bin/python3").chmod(0o755)
    known = {
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "GITHUB_PATH": str(tmp_path / "path"),
        "GITHUB_ACTION_PATH": "/a", "VERSION": "", "WHEELS": "", "STORAGE": "/srv/suite.db",
    }  # fmt: skip
    for given, said in (
        ({"VERSION": "installed"}, None),
        ({}, "install --quiet /a/../packages/everhold /a/../packages/everhold-integrations\n"),
        ({"VERSION": "1.2"}, "install --quiet everhold==1.2 everhold-integrations==1.2\n"),
        ({"WHEELS": "my wheels"}, r"download --quiet --no-deps --no-index -f my wheels --dest \S+/wheels "
                                  r"everhold everhold-integrations\ninstall --quiet \S+/wheels/a.whl\n"),
        ({"WHEELS": "w", "VERSION": "1.2", "STORAGE": "https://a"},
         r"download .* everhold==1.2 everhold-integrations==1.2 everhold-server==1.2\ninstall .*\n"),
    ):  # fmt: skip
        (tmp_path / "pip").unlink(missing_ok=True)
        subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, env={**known, **given}, check=True)
        assert (said is None) == (not (tmp_path / "pip").exists())
        assert said is None or re.fullmatch(said, (tmp_path / "pip").read_text())


@pytest.fixture
def service(tmp_path):
    """What GitHub sets for a job at a pull request, and its comments: 120 of people, one of which has the mark."""
    comments = [{"id": number, "body": "a comment", "user": {"type": "User"}} for number in range(120)]
    comments[0]["body"] = f"{MARK}\nof a stranger"

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

    event = tmp_path / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 7}}))
    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as served:
        Thread(target=served.serve_forever, daemon=True).start()
        job = {
            "GITHUB_API_URL": f"http://127.0.0.1:{served.server_port}", "GITHUB_TOKEN": "secret",
            "GITHUB_REPOSITORY": "a/b", "GITHUB_EVENT_PATH": str(event),
        }  # fmt: skip
        yield job, comments
        served.shutdown()


def test_the_verdict_is_one_comment_that_is_changed_in_place(tmp_path, service):
    job, comments = service
    asked, later = {"pull_request": {"number": 7}}, {"workflow_run": {"pull_requests": [{"number": 7}]}}
    text = tmp_path / "told.md"
    command = [sys.executable, str(ROOT / "action/comment.py"), str(text), "everhold gate main"]
    for about in (asked, later, {"push": {}}, {"workflow_run": {"pull_requests": []}}):
        Path(job["GITHUB_EVENT_PATH"]).write_text(json.dumps(about))
        text.write_text(f"### Gate main: {len(comments)} \u2713\n")
        subprocess.run(command, env={**os.environ, **job}, check=True)
    assert len(comments) == 121
    assert comments[-1]["body"] == f"{MARK}\n### Gate main: 121 \u2713\n"
    assert comments[0]["body"].endswith("of a stranger")


def test_the_whole_action_in_a_fresh_repository(tmp_path, programs, action, service):
    """Each step with its inputs, as a runner does it: a guarded suite, a crash, and one comment for all verdicts."""
    steps, inputs = action
    job, comments = service
    repository, summary = tmp_path / "repository", tmp_path / "summary.md"
    subprocess.run(["git", "init", "--quiet", str(repository)], check=True)
    variables = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}

    def written(name, *, passing, cost=0.5, crashed=False):
        lines = [f"t{n},{place},{(7 * n + place) % 100 < passing},{cost}" for n in range(100) for place in range(4)]
        lines[7] = "t1,3,error,0.5" if crashed else lines[7]
        (repository / name).write_text("\n".join(["item,trial,grade,cost", *lines]))

    def runs(**given):
        told = {name: each.get("default", "") for name, each in inputs.items()} | {
            "storage": "suite.db", "version": "installed", "case": "item", "run": "trial", "passed": "grade",
            "comment": "true", "token": "secret", **{name.replace("_", "-"): value for name, value in given.items()},
        }  # fmt: skip
        known = {f"inputs.{name}": value for name, value in told.items()} | {"steps.install.outcome": "success"}
        code, outputs = 0, tmp_path / "outputs"
        outputs.write_text("")
        for step in steps.values():
            own = {name: re.sub(r"\$\{\{ (\S+) \}\}", lambda found: known[found[1]], value)
                   for name, value in step["env"].items()}  # fmt: skip
            files = {"GITHUB_OUTPUT": str(outputs), "GITHUB_STEP_SUMMARY": str(summary),
                     "GITHUB_PATH": str(tmp_path / "path"), "GITHUB_ACTION_PATH": str(ROOT / "action")}  # fmt: skip
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]], cwd=repository, check=False,
                env={**variables, **job, **files, **own}, capture_output=True, text=True,
            )  # fmt: skip
            code = code or done.returncode
        return code, outputs.read_text().strip().removeprefix("verdict="), done.stdout + done.stderr

    written("first.csv", passing=60)
    sealing = ["suite", "first.csv", "--case", "item", "--run", "trial", "--passed", "grade", "--not-worse",
               "cost=0.3", "--storage", "suite.db"]  # fmt: skip
    subprocess.run([programs / "everhold", *sealing], cwd=repository, env=variables, check=True)
    written("same.csv", passing=60)
    written("better.csv", passing=95)
    written("dear.csv", passing=95, cost=1.0)
    written("broken.csv", passing=95, crashed=True)
    new = {"baseline_results": "first.csv"}
    for given, expected in (
        ({"results": "same.csv", "challenger": "a", "margin": "0.15", **new}, (0, "not worse")),
        ({"results": "broken.csv", "challenger": "b", **new}, (2, "error")),
        ({"results": "dear.csv", "challenger": "c", "margin": "0.15", **new}, (1, "regression")),
        ({"results": "dear.csv", "challenger": "d", "ask": "challenge", "champion_results": "first.csv", **new},
         (1, "kept")),
        ({"results": "better.csv", "challenger": "e", "ask": "challenge"}, (0, "promoted")),
        ({"results": "better.csv", "challenger": "f", "ask": "challenge", "champion_results": "same.csv"},
         (2, "error")),
    ):  # fmt: skip
        *found, said = runs(**given)
        assert tuple(found) == expected, said
        assert "secret" not in said
        assert len(comments) == 121
        assert comments[-1]["body"].startswith(f"{MARK}\n### Gate main: {expected[1]}")
        assert summary.read_text().endswith(comments[-1]["body"].removeprefix(f"{MARK}\n"))
    told = summary.read_text()
    assert "'t1' (line 9) crashed" in told.replace("\\", "")
    assert "new runs of the champion alone" in told
    assert comments[0]["body"].endswith("of a stranger")
