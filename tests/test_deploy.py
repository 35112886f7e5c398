"""Container and Kubernetes files as they are read: who runs, what is writable, where secrets come from, versions."""

import ast
import json
import os
import re
import signal
import socket
import subprocess
import time
import tomllib
import urllib.request
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml

from everhold_server.middleware import PROBES

DEPLOY = Path(__file__).parents[1] / "deploy"


@pytest.fixture(scope="module")
def instructions():
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split(maxsplit=1)[0], " ".join(line.split()[1:])) for line in lines]


@pytest.fixture(scope="module")
def services():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]


def test_the_compose_file_is_what_compose_takes_and_one_with_a_wrong_field_is_not():
    """By the schema of the Compose Specification of 2026-06-23 (Apache-2.0), without its descriptions."""
    schema = json.loads((Path(__file__).parent / "support" / "compose-spec.json").read_text())
    written = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    jsonschema.validate(written, schema, jsonschema.Draft7Validator)
    written["services"]["everhold"]["stop_grace"] = "45s"
    with pytest.raises(jsonschema.ValidationError, match=r"^'stop_grace' does not match"):
        jsonschema.validate(written, schema, jsonschema.Draft7Validator)


def last(instructions, name):
    return [rest for each, rest in instructions if each == name][-1]


def images(instructions, services):
    built_from = [rest.split()[0] for name, rest in instructions if name == "FROM"]
    return built_from + [service["image"] for service in services.values() if "image" in service]


def test_images_are_plain_names_with_a_version(instructions, services):
    found = images(instructions, services)
    assert len(found) == 3
    assert [image for image in found if not re.fullmatch(r"[a-z]+:\d+(\.\d+)*-[a-z-]+", image)] == []


def test_it_runs_as_nobody_special_and_packages_have_the_versions_that_were_tested(instructions):
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", last(instructions, "USER"))
    assert any("pip install" in rest and "--constraint constraints.txt" in rest for _, rest in instructions)


def test_the_container_says_whether_it_can_answer(instructions, services):
    check = last(instructions, "HEALTHCHECK")
    code = json.loads(check[check.index("[") :])
    assert code[:2] == ["python", "-c"]
    ast.parse(code[2])
    assert "/readyz" in code[2]
    assert services["everhold"]["depends_on"]["database"]["condition"] == "service_healthy"
    assert services["database"]["healthcheck"]["test"][1] == "pg_isready"


def test_only_what_the_image_copies_is_sent_to_the_builder(instructions):
    lines = [line for line in (DEPLOY / "Dockerfile.dockerignore").read_text().split("\n") if line and line[0] != "#"]
    assert lines[0] == "*"
    sent = {line.removeprefix("!") for line in lines if line.startswith("!")}
    copied = {
        part for name, rest in instructions if name == "COPY" and "--from" not in rest for part in rest.split()[:-1]
    }
    assert sent == copied == {"constraints.txt", "packages"}
    assert "packages/*/tests" in lines


def test_what_the_image_installs_is_there_and_complete(instructions):
    """Members of the workspace are on no registry, so each one that another needs is named, too."""
    command = next(rest for _, rest in instructions if "pip install" in rest)
    wanted = dict(re.findall(r"\./packages/([\w-]+)(\[[\w,]+\])?", command))
    for name, extras in wanted.items():
        project = tomllib.loads((DEPLOY.parent / "packages" / name / "pyproject.toml").read_text())["project"]
        optional = project.get("optional-dependencies", {})
        assert set(extras.strip("[]").split(",")) - {""} <= set(optional)
        needs = [
            *project["dependencies"],
            *(one for extra in extras.strip("[]").split(",") if extra for one in optional[extra]),
        ]
        members = {re.split(r"[^\w-]", need)[0] for need in needs}
        assert {each for each in members if each.startswith("everhold")} <= set(wanted)


@pytest.mark.parametrize("name", ["everhold", "database"])
def test_a_service_can_write_to_its_volumes_alone_and_gain_nothing(services, name):
    service = services[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service
    assert all(volume.split(":")[0] in ("rows", "ledger") for volume in service["volumes"])


def test_secrets_come_from_files(services):
    for service in services.values():
        assert service["secrets"]
        for name, value in service["environment"].items():
            assert "PASS" not in name or value.startswith("/run/secrets/")
            assert not re.search(r"//[^/@]*:[^/@]*@", value)


def test_it_is_reached_from_this_machine_alone_and_the_database_not_at_all(services):
    assert all(port.startswith("127.0.0.1:") for port in services["everhold"]["ports"])
    assert "ports" not in services["database"]
    assert services["database"]["networks"] == ["inside"]


def test_the_commands_and_the_unit_are_options_of_serve(instructions, services):
    from typer.testing import CliRunner

    from everhold.cli.application import app

    shown = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200", "TERM": "dumb"}).output
    unit = re.search(r"^ExecStart=.*", (DEPLOY / "everhold.service").read_text(), re.MULTILINE).group()
    given = [*json.loads(last(instructions, "CMD")), *services["everhold"]["command"], *unit.split()]
    assert {option for option in given if option.startswith("--") and option not in shown} == set()


def test_stopping_leaves_time_for_what_is_under_way(services):
    from everhold_server.serving import _FINISH

    assert int(services["everhold"]["stop_grace_period"].removesuffix("s")) > _FINISH
    assert int(re.search(r"TimeoutStopSec=(\d+)", (DEPLOY / "everhold.service").read_text()).group(1)) > _FINISH


@pytest.fixture(scope="module")
def manifests():
    return list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))


def pods(manifests):
    """The pod of each manifest that has one, by name."""
    for manifest in manifests:
        spec = manifest.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        if "template" in spec:
            yield manifest["metadata"]["name"], spec["template"]["spec"]


def test_every_manifest_is_what_kubernetes_takes_and_one_with_a_wrong_field_is_not(manifests):
    newest = kubernetes_validate.latest_version()
    for manifest in manifests:
        kubernetes_validate.validate(manifest, newest, strict=True)
    deployment = next(manifest for manifest in manifests if manifest["kind"] == "Deployment")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment | {"spec": deployment["spec"] | {"replica": 2}}, newest, strict=True)


def test_pods_write_to_their_volumes_alone_and_only_the_one_that_makes_the_folder_is_root(manifests):
    found = dict(pods(manifests))
    assert set(found) == {"everhold", "backup", "database"}
    for pod in found.values():
        assert pod["automountServiceAccountToken"] is False
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"] is True
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"]["drop"] == ["ALL"]
            assert security["runAsUser"] != 0 or container["name"] == "folder"


def test_the_folder_of_the_rows_is_not_opened_to_a_group(manifests):
    """Kubernetes makes files readable for the group fsGroup, and everhold refuses a key that others can read."""
    for name, pod in pods(manifests):
        assert "fsGroup" not in pod["securityContext"] or name == "database"


def test_pods_have_the_account_of_the_image_and_its_secrets_from_outside(manifests, instructions):
    user, group = map(int, last(instructions, "USER").split(":"))
    for name, pod in pods(manifests):
        for container in pod["containers"]:
            if name != "database":
                security = container["securityContext"]
                assert (security["runAsUser"], security["runAsGroup"]) == (user, group)
            secret = [each for each in container["env"] if "PASS" in each["name"]]
            assert [set(each["valueFrom"]) for each in secret] == [{"secretKeyRef"}]
    assert not [manifest for manifest in manifests if manifest["kind"] == "Secret"]


def test_what_the_pods_run_are_commands_of_everhold(manifests):
    from typer.testing import CliRunner

    from everhold.cli.application import app

    running = dict(pods(manifests))
    served = running["everhold"]["containers"][0]["args"]
    shown = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200", "TERM": "dumb"}).output
    assert [option for option in served[1:] if option.split("=")[0] not in shown] == []
    backup = running["backup"]["containers"][0]["command"][-1]
    for command in ("migrate", *re.findall(r"everhold (\w+)", backup)):
        assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0


def test_a_pod_is_asked_whether_it_answers_and_has_time_to_finish(manifests):
    from everhold_server.serving import _FINISH

    pod = dict(pods(manifests))["everhold"]
    (service,) = pod["containers"]
    paths = {name: service[name]["httpGet"]["path"] for name in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert paths == {"startupProbe": "/readyz", "readinessProbe": "/readyz", "livenessProbe": "/healthz"}
    assert set(paths.values()) == set(PROBES)
    assert pod["terminationGracePeriodSeconds"] > _FINISH + int(service["lifecycle"]["preStop"]["exec"]["command"][1])


def placed(command, folder):
    """A command of the image, with the image's folders at a place where a test may write."""
    places = {"/opt/everhold": folder / "opt", "/backups": folder / "backups", "/data": folder / "data"}
    return re.sub("|".join(places), lambda found: str(places[found[0]]), command)


def test_what_the_image_does_can_be_done_from_its_installation_to_its_backup(
    instructions, services, manifests, tmp_path
):  # fmt: skip
    """Without an engine for containers: the same commands in order, in a new environment. It needs a registry."""
    for name in ("data", "backups"):
        (tmp_path / name).mkdir(mode=0o700)
    installed = next(rest for name, rest in instructions if name == "RUN" and "pip install" in rest)
    subprocess.run(placed(installed, tmp_path), shell=True, cwd=DEPLOY.parent, check=True)
    settings = dict(re.findall(r"(EVERHOLD_\w+)=(\S+)", last(instructions, "ENV")))
    storage = placed(settings["EVERHOLD_STORAGE"], tmp_path)
    environment = {"PATH": f"{tmp_path}/opt/bin:{os.environ['PATH']}", "EVERHOLD_STORAGE": storage}
    running = {"cwd": tmp_path / "data", "env": environment}
    (entry,) = json.loads(last(instructions, "ENTRYPOINT"))
    rows = "".join(f"{number % 2}\n" for number in range(2_000))
    (tmp_path / "rows.csv").write_text(f"late\n{rows}")
    seal = [entry, "create", storage, "flights", "--holdout", str(tmp_path / "rows.csv"), "--queries", "10"]
    subprocess.run([*seal, "--mechanism", "silent"], check=True, **running)
    (port,) = re.findall(r"EXPOSE (\d+)", (DEPLOY / "Dockerfile").read_text())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        own = str(free.getsockname()[1])
    check = last(instructions, "HEALTHCHECK")
    probe = [each.replace(f":{port}/", f":{own}/") for each in json.loads(check[check.index("[") :])]
    written = [
        re.sub(r"\$\{EVERHOLD_ADDRESS.*\}", "https://holdout.example", each) for each in services["everhold"]["command"]
    ]
    serve = [entry, *written, "--port", own]
    assert subprocess.run(probe, capture_output=True, **running).returncode != 0
    with subprocess.Popen(serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **running) as server:
        try:
            for _ in range(300):
                if subprocess.run(probe, capture_output=True, **running).returncode == 0:
                    break
                time.sleep(0.2)
            answers = [urllib.request.urlopen(f"http://127.0.0.1:{own}{path}").status for path in PROBES]
            shell, option, backup = dict(pods(manifests))["backup"]["containers"][0]["command"]
            subprocess.run([shell, option, placed(backup, tmp_path)], check=True, **running)
            server.send_signal(signal.SIGTERM)
            assert server.wait(timeout=60) == 0
        finally:
            server.kill()
    assert answers == [200, 200]
    (made,) = (tmp_path / "backups").iterdir()
    restored = [entry, "restore", str(made), f"sqlite:///{tmp_path}/restored.db"]
    subprocess.run(restored, check=True, **running)
    listed = subprocess.run(
        [entry, "list", f"sqlite:///{tmp_path}/restored.db"], check=True, capture_output=True, **running
    )
    assert b"flights" in listed.stdout
