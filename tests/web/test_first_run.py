"""The guided first run of a new installation, from the link that `atlas up` prints to its end."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from atlas.test_databases import TestDatabases
from tests.cli.conftest import environment
from tests.cli.test_up import free_port
from tests.support import ROOT
from tests.web.conftest import NOTE_REFUSALS, PHONE, WIDE, Visit
from tests.web.site import Site

ATLAS = (sys.executable, "-m", "atlas.cli.main")
# So short that a lease ends while one watches, and long enough for a busy machine.
LEASE = "5"
SLOW = 60_000


class Installation:
    """A new `atlas up`, with its programs, its demo and no job of a person."""

    def __init__(self, url: str, home: Path) -> None:
        settings = {"ATLAS_LEASE_SECONDS": LEASE, "OUTBOUND_EMAIL_PROVIDER": "outbox", "ATLAS_LOG_LEVEL": "error"}
        settings["ATLAS_GRACE_SECONDS"] = "1"  # a job of two minutes is running at the end
        self.environ = environment(home, DATABASE_URL=url, **settings)
        port = str(free_port("127.0.0.1"))
        argv = [*ATLAS, "up", "--port", port, "--json"]
        self.process = subprocess.Popen(argv, cwd=ROOT, env=self.environ, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        lines: list[str] = []
        while not lines or lines[-1] != "}\n":
            lines.append(self.process.stdout.readline())
            assert lines[-1], "atlas up has ended"
        self.document: dict[str, Any] = json.loads("".join(lines))

    def run(self, command: str) -> str:
        """Do in a terminal what a page says."""
        name, *words = command.split()
        argv = [*ATLAS, *words] if name == "atlas" else [name, *words]
        return subprocess.run(argv, cwd=ROOT, env=self.environ, check=True, capture_output=True, text=True).stdout

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)


@pytest.fixture
def installation(databases: TestDatabases, tmp_path: Path) -> Iterator[Installation]:
    # The loop of Playwright runs in this thread.
    with ThreadPoolExecutor(1) as thread, asyncio.Runner() as runner:
        database = databases.database()
        url = thread.submit(lambda: runner.run(database.__aenter__())).result(60)
        started = Installation(url, tmp_path / "home")
        yield started
        started.stop()
        thread.submit(lambda: runner.run(database.__aexit__(None, None, None))).result(60)
        thread.submit(runner.close).result(60)


def shown_command(page: Page, begin: str) -> str:
    command = page.locator("code", has_text=re.compile(f"^{begin}"))
    expect(command).to_be_visible(timeout=SLOW)
    return command.inner_text()


@pytest.mark.slow
def test_the_whole_guide(installation: Installation, browser: Browser):
    context = browser.new_context(base_url=installation.document["address"], viewport=WIDE)
    context.add_init_script(NOTE_REFUSALS)
    page = context.new_page()
    page.goto(installation.document["sign_in"])
    page.get_by_role("link", name="Take the guided first run").click()
    expect(page.get_by_text("0 of 6 done")).to_be_visible()

    expect(page.get_by_text("nothing is sent.")).to_be_visible()
    page.get_by_role("button", name="Enqueue a mail", exact=True).click()
    expect(page.get_by_text("and succeeded.")).to_be_visible(timeout=SLOW)
    expect(page.get_by_text("2 of 6 done")).to_be_visible(timeout=SLOW)
    page.reload()
    expect(page.get_by_text("2 of 6 done")).to_be_visible(timeout=SLOW)

    # Who asked may not decide; in the terminal one is another person.
    page.get_by_role("button", name="Start daily-brief").click()
    approved = installation.run(shown_command(page, "atlas workflow approve"))
    assert "is approved" in approved
    expect(page.get_by_text("approved it, and it continued and sent its mail.")).to_be_visible(timeout=SLOW)

    page.get_by_role("button", name="Start a job of two minutes").click()
    expect(page.get_by_text("which starts a new worker within a second")).to_be_visible(timeout=SLOW)
    killed = shown_command(page, "kill -9")
    installation.run(killed)
    lost = page.get_by_text(
        f"Process {killed.split()[-1]} was lost with attempt 1 of the job; its lease ended, and process"
    )
    expect(lost).to_be_visible(timeout=SLOW)
    expect(lost).to_contain_text("took it as attempt 2.")
    os.kill(installation.process.pid, 0)

    page.get_by_role("listitem").get_by_role("button", name="Take offline").click()
    page.get_by_role("dialog").get_by_role("button", name="Take offline").click()
    page.get_by_role("button", name="Enqueue a job").click()
    expect(page.get_by_text("It is there: Atlas is offline since")).to_be_visible(timeout=SLOW)
    page.get_by_role("listitem").get_by_role("button", name="Bring online").click()
    page.get_by_role("dialog").get_by_role("button", name="Bring online").click()
    expect(page.get_by_text("and started when operator brought it back.")).to_be_visible(timeout=SLOW)

    page.get_by_role("button", name="Verify the log").click()
    expect(page.get_by_text("every hash computed again: the log is whole.")).to_be_visible(timeout=SLOW)
    expect(page.get_by_text("All six are done.")).to_be_visible()
    page.get_by_role("link", name="look at it in the outbox").click()
    expect(page.get_by_role("dialog", name="Hello from Atlas")).to_be_visible()
    page.goto("/")
    # The overview names the worker that was killed, and offers the guide no more.
    expect(page.get_by_role("region", name="Needs attention")).to_contain_text(killed.split()[-1], timeout=SLOW)
    expect(page.get_by_role("complementary", name="Guided first run")).to_have_count(0)
    assert page.evaluate("window.refusals") == []
    context.close()


@pytest.mark.long
def test_the_guide_says_what_a_role_or_an_installation_lacks(visit: Visit):
    page = visit("/first-run", role="auditor", tenant="acme", size=PHONE)
    expect(page.get_by_text("Your role, auditor, may not enqueue jobs.")).to_be_visible()
    page.get_by_role("button", name="Skip this step").click()
    page.get_by_role("button", name="Switch Atlas off and on").click()
    expect(page.get_by_text("Your role, auditor, may not switch Atlas.")).to_be_visible()
    page.reload()
    expect(page.get_by_role("button", name="Enqueue a mail (skipped)")).to_be_visible()

    # This installation has a worker without the examples, and an API without a mail provider.
    maker = visit("/first-run", role="tenant_admin", tenant="acme")
    expect(maker.get_by_text("No mail provider is set up here, so mails are refused.")).to_be_visible()
    maker.get_by_role("button", name="Run a workflow with an approval").click()
    expect(maker.get_by_text("is not published here")).to_be_visible()
    maker.get_by_role("button", name="Kill a worker, and watch the lease move").click()
    expect(maker.get_by_text("atlas definition add examples/definitions/count-slowly.json")).to_be_visible()


def test_the_overview_still_offers_the_guide_after_a_first_job(site: Site, visit: Visit):
    page = visit(role="tenant_admin", tenant="other")
    key = {"Authorization": f"Bearer {site.world.tokens['other', 'tenant_admin']}"}
    job = {"job_type": "shop.pack", "allow_unknown": True}
    httpx.post(f"{site.address}/api/v1/jobs", headers=key, json=job).raise_for_status()

    page.reload()
    expect(page.get_by_role("link", name="Take the guided first run")).to_be_visible()
    page.get_by_role("button", name="Dismiss the guide").click()
    expect(page.get_by_role("complementary", name="Guided first run")).to_have_count(0)
