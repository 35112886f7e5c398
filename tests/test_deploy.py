"""The container files as an engine reads them: who runs, what is writable, where secrets come from, what is pinned."""

import ast
import json
import re
import tomllib
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")

DEPLOY = Path(__file__).parents[1] / "deploy"


@pytest.fixture(scope="module")
def instructions():
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split(maxsplit=1)[0], " ".join(line.split()[1:])) for line in lines]


@pytest.fixture(scope="module")
def services():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]


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
