"""What a page says while the server hangs, is busy, or was updated."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest
from playwright.sync_api import Page, Route, WebSocketRoute, expect

from atlas.api.http import page_files
from tests.cli.conftest import environment
from tests.support import ROOT, free_port
from tests.web.conftest import Visit
from tests.web.site import Site

SILENT_MS = 16_000
BUSY = {
    "type": "urn:atlas:problem:unavailable",
    "title": "Service Unavailable",
    "status": 503,
    "detail": "The database cannot be reached or is busy.",
    "remedy": "Nothing is lost; try again.",
    "errors": [],
    "request_id": "abc",
}


class Stream:
    """The live connection of a page, through the test: it can stall, or break."""

    def __init__(self, page: Page) -> None:
        self.stalls = False
        self._open: list[WebSocketRoute] = []
        page.clock.install()
        page.route_web_socket(re.compile("/api/v1/live"), self._connect)

    def cut(self) -> None:
        for one in self._open:
            one.close()
        self._open.clear()

    def _connect(self, socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()
        server.on_message(lambda text: None if self.stalls else socket.send(text))
        self._open.append(socket)


@pytest.mark.long
def test_a_page_says_that_the_server_hangs_or_was_updated_and_loads_again(visit: Visit, monkeypatch):
    streams: list[Stream] = []
    page = visit("/", prepare=lambda page: streams.append(Stream(page)))
    [stream] = streams
    live, content = page.locator("[data-live]"), page.locator("main")
    expect(live).to_have_attribute("data-live", "live")

    # The connection stays open, and nothing comes any more.
    stream.stalls = True
    page.clock.fast_forward(SILENT_MS)
    expect(live).to_have_text(re.compile(r"no answer for 1[5-9] s|no answer for [2-9]\d s"))
    expect(content).to_have_css("filter", "grayscale(1)")
    stream.stalls = False
    page.clock.fast_forward(SILENT_MS)
    expect(live).to_have_attribute("data-live", "live")
    expect(content).to_have_css("filter", "none")

    # The server comes back with other pages.
    updated = page.get_by_test_id("updated")
    expect(updated).to_have_count(0)
    files = page_files._files()
    newer = {**files, "index.html": replace(files["index.html"], etag='W/"newer"')}
    monkeypatch.setattr(page_files, "_files", lambda: newer)
    stream.cut()
    page.clock.fast_forward(1000)
    expect(updated).to_contain_text("Atlas was updated.")

    # The script of a page is not there any more, until everything is loaded again.
    page.route(re.compile("/assets/JobsPage"), lambda route: route.abort())
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Jobs").click()
    expect(page.get_by_role("heading", name="This page could not be loaded")).to_be_visible()
    page.unroute_all()
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", name="Jobs", level=1)).to_be_visible()
    expect(updated).to_have_count(0)


def test_a_busy_server_is_named_with_the_time_of_the_next_try(visit: Visit):
    asked: list[str] = []

    def refuse(route: Route) -> None:
        asked.append(route.request.url)
        headers = {"Retry-After": "40", "Content-Type": "application/problem+json"}
        route.fulfill(status=503, headers=headers, body=json.dumps(BUSY))

    address = re.compile(r"/api/v1/jobs/brief")
    page = visit("/jobs", prepare=lambda page: page.route(address, refuse))
    busy = page.get_by_test_id("busy")
    expect(busy).to_contain_text("Atlas is busy. The database cannot be reached or is busy.")
    expect(busy).to_contain_text(re.compile(r"Trying again in (40|3\d) s"))
    expect(page.get_by_role("heading", name="Atlas is busy")).to_be_visible()
    # It was said after the first refusal, not after some tries.
    assert len(asked) == 1
    page.unroute(address)
    busy.get_by_role("button", name="Try now").click()
    expect(busy).to_have_count(0)
    expect(page.get_by_role("heading", name="Atlas is busy")).to_have_count(0)


# Each time of a next try that the page names, also for a moment.
NOTE_TRIES = """
window.tries = [];
new MutationObserver(() => {
  for (const [, seconds] of (document.body?.textContent ?? "").matchAll(/Trying again in (\\d+) s/g)) window.tries.push(Number(seconds));
}).observe(document, { subtree: true, childList: true, characterData: true });
"""


@pytest.mark.long
def test_the_time_of_the_next_try_is_right_where_no_clock_was_shown_for_a_minute(visit: Visit):
    held: list[Route] = []
    headers = {"Retry-After": "40", "Content-Type": "application/problem+json"}

    def prepare(page: Page) -> None:
        page.add_init_script(NOTE_TRIES)
        page.clock.install()
        page.route(re.compile("/api/v1/session$"), lambda route: held.append(route))
        page.route(
            re.compile("/api/v1/jobs/brief"),
            lambda route: route.fulfill(status=503, headers=headers, body=json.dumps(BUSY)),
        )

    page = visit("/jobs", prepare=prepare)
    # Nothing is shown before it is known who is signed in.
    while not held:
        page.evaluate("0")
    page.clock.fast_forward(60_000)
    held[0].continue_()
    expect(page.get_by_test_id("busy")).to_contain_text("Trying again")
    tries = page.evaluate("tries")
    assert max(tries) <= 41, tries


@pytest.fixture
def server(site: Site) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """An API of the site that is a process of its own, and its address."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    argv = [sys.executable, "-m", "atlas.cli.main", "api", "--port", str(port)]
    environ = environment(site.home, DATABASE_URL=site.url, ATLAS_LOG_LEVEL="error")
    process = subprocess.Popen(argv, cwd=ROOT, env=environ)

    with httpx.Client(transport=httpx.HTTPTransport(retries=8)) as client:
        client.get(f"{address}/healthz")
    yield process, address
    process.send_signal(signal.SIGCONT)
    process.terminate()
    process.wait(30)


@pytest.mark.long
def test_a_page_says_that_a_stopped_server_does_not_answer(server: tuple[subprocess.Popen[bytes], str], visit: Visit):
    process, address = server
    page = visit("/")
    # A session holds for every process of the API.
    page.goto(f"{address}/jobs")
    live, content = page.locator("[data-live]"), page.locator("main")
    expect(live).to_have_attribute("data-live", "live")
    process.send_signal(signal.SIGSTOP)
    expect(live).to_have_text(re.compile(r"no answer for (1[5-9]|[2-9]\d) s"), timeout=40_000)
    expect(content).to_have_css("filter", "grayscale(1)")
    process.send_signal(signal.SIGCONT)
    expect(live).to_have_attribute("data-live", "live", timeout=40_000)
    expect(content).to_have_css("filter", "none")
