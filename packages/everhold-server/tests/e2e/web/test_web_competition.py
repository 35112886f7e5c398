"""A competition by a new host in the browser alone: from the link that `everhold serve --root` prints to its board."""

import os
import re
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest
from server_processes import free_port
from web_samples import IDS, ROWS, TRUTH, chromium, model, written

WAIT = 40_000  # milliseconds, at most
TEAMS = {"owls": 0.9, "larks": 0.7, "wrens": 0.6, "thieves": 1.0}


@contextmanager
def started(folder):
    """A new service on an empty storage, as a host starts it; gives the link that lets a steward in."""
    command = [sys.executable, "-c", "from everhold.cli import main; main()", "serve", "--storage", "cups.db", "--root"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--port", str(free_port())], cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        try:
            yield re.search(r"http\S+", process.stdout.readline()).group()
        finally:
            process.terminate()
            process.wait()
            process.stdout.close()


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@contextmanager
def visitor(browser, address):
    """A page of a visitor in a browser of their own; what the console says, other than refusals, is an error."""
    faults = []
    context = browser.new_context(base_url=address, reduced_motion="reduce")
    context.set_default_timeout(WAIT)
    page = context.new_page()
    page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda fault: faults.append(str(fault)))
    yield page
    context.close()
    assert [fault for fault in faults if "422" not in fault] == []


def sent_by(page, heading, button):
    """Press a button of the box with this heading."""
    box = page.locator("form", has=page.get_by_role("heading", name=heading))
    box.get_by_role("button", name=button).click()


@pytest.mark.slow
def test_a_new_host_runs_a_competition_from_the_first_link_to_the_certificate(browser, tmp_path):
    labels = {"id": IDS, "x": np.arange(ROWS) * 0.5, "y": TRUTH}
    with started(tmp_path) as link, visitor(browser, link.partition("/login")[0]) as host:
        address = link.partition("/login")[0]
        host.goto(link)
        host.get_by_role("button", name="Log in").click()
        host.wait_for_url("**/holdouts")

        host.get_by_role("link", name="Seal new rows").click()
        host.get_by_label("name", exact=True).fill("birds")
        host.get_by_label("rows to seal").set_input_files(written(tmp_path / "labels.csv", labels))
        host.get_by_label("column with the truth").fill("y")
        host.get_by_label("column that names rows").fill("id")
        host.get_by_label("Everybody may see all columns but the truth").check()
        host.get_by_label("a submission is told").select_option("score")
        host.get_by_label("most teams").fill("6")
        host.get_by_label("submissions per team").fill("3")
        host.get_by_label("public rows, in percent").fill("30")
        host.get_by_label("deadline").fill("2035-12-01T12:00:00Z")
        host.get_by_label("rules").fill("One account for each person.\nNo hand labels.")
        host.get_by_role("button", name="Seal the rows").click()
        host.wait_for_url("**/holdouts/birds")
        host.get_by_role("button", name="Publish it").click()
        host.get_by_role("button", name="Hide it").wait_for()

        host.get_by_role("link", name="Teams").click()
        host.get_by_label("names, one in each line").fill("owls\nOwls")
        sent_by(host, "Register teams", "Register them")
        assert "looks like" in host.get_by_role("alert").inner_text()
        assert host.get_by_label("names, one in each line").input_value() == "owls\nOwls"
        host.get_by_label("names, one in each line").fill("\n".join(TEAMS))
        sent_by(host, "Register teams", "Register them")
        host.get_by_role("heading", name="4 tokens").wait_for()
        tokens = dict(zip(TEAMS, host.locator("code.secret").all_inner_texts(), strict=True))

        for number, (team, right) in enumerate(TEAMS.items()):
            with visitor(browser, address) as page:
                page.goto("/login")
                page.get_by_label("token").fill(tokens[team])
                page.get_by_role("button", name="Log in").click()
                page.get_by_role("link", name="birds").click()
                page.get_by_role("link", name="Submit").click()
                assert "No hand labels." in page.get_by_label("The rules").inner_text()
                for again in range(2 if team == "owls" else 1):
                    file = written(tmp_path / f"{team}{again}.csv", model(right - 0.2 * again, 10 * number + again))
                    page.locator("#f-predictions").set_input_files(file)
                    page.get_by_role("button", name="Hand in").click()
                    page.get_by_text(f"Submission {again + 1} of 3").wait_for()
                if team == "owls":
                    page.get_by_role("button", name="Make submission 1 of owls final").click()
                    page.wait_for_url("**/submit#sent")

        host.get_by_role("link", name="Teams").click()
        host.get_by_label("new deadline (UTC)").fill("2020-01-01T00:00")
        sent_by(host, "Move the deadline", "Move it")
        assert "later time" in host.get_by_role("alert").inner_text()
        host.get_by_label("new deadline (UTC)").fill("2036-12-01T12:00")
        sent_by(host, "Move the deadline", "Move it")
        host.get_by_text("1 December 2036").wait_for()
        host.get_by_label("team", exact=True).select_option("thieves")
        host.get_by_label("reason").fill("stolen labels")
        sent_by(host, "Disqualify a team", "Disqualify it")
        host.get_by_text("disqualified: stolen labels").wait_for()

        host.get_by_role("link", name="Make final").click()
        host.get_by_label("the holdout's name, to confirm").fill("birds")
        host.get_by_role("button", name="Make the leaderboard final").click()
        host.get_by_role("link", name="To the final leaderboard").click()
        assert host.locator("td.team").first.inner_text() == "owls"
        assert "stolen labels" in host.locator("main").inner_text()

        host.get_by_role("link", name="Certificate").click()
        key = host.locator("code.key").inner_text()
        assert "owls" in host.locator("main").inner_text()
        with host.expect_download() as download:
            host.get_by_role("link", name="Save as JSON").click()
        download.value.save_as(tmp_path / "birds.json")
        host.get_by_role("link", name="Verify", exact=True).click()
        host.get_by_label("certificate", exact=True).set_input_files(tmp_path / "birds.json")
        host.get_by_label("public key of the steward").fill(key)
        host.get_by_role("button", name="Verify").click()
        host.get_by_role("heading", name="Nothing is wrong with it").wait_for()
        with visitor(browser, address) as page:
            page.goto("/public/birds")
            assert page.get_by_role("table").first.locator("td.team").first.inner_text() == "owls"
