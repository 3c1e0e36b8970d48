"""A browser in front of a running Atlas. Every page is checked for scripts and styles that its policy refuses."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Page, Request, expect, sync_playwright

from atlas.test_databases import TestDatabases
from tests.state_check import STATE_CHECK
from tests.support import ROOT
from tests.web.site import Site

# The one without windows first: it takes a third less processor time for these tests.
PROGRAMS = ("chromium-headless-shell", "chromium", "google-chrome")
CHROMIUM = os.environ.get("ATLAS_CHROMIUM") or next(filter(None, map(shutil.which, PROGRAMS)), "")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    # Fewer processes: tests that share two cores with others wait less.
    "--in-process-gpu",
    "--disable-software-rasterizer",
    "--disable-extensions",
    "--renderer-process-limit=1",
)
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
WIDE = {"width": 1280, "height": 800}
PHONE = {"width": 375, "height": 720}
# Reports of the browser about what the policy refused.
NOTE_REFUSALS = """
window.refusals = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.refusals.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
"""

# On a busy machine a page takes its time; a test that passes does not wait for it.
expect.set_options(timeout=30_000)

Visit = Callable[..., Page]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the browser tests after all others of the process: from then on Playwright's event loop runs in it."""
    ours = [item for item in items if Path(__file__).parent in item.path.parents]
    items[:] = [item for item in items if item not in ours] + ours
    if not CHROMIUM:
        skip = pytest.mark.skip(reason="no Chromium was found: install it, or set ATLAS_CHROMIUM to its program")
        for item in ours:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        except Error as error:
            reason = f"{CHROMIUM} does not start: {error.message.splitlines()[0]}"
            # Where all programs are installed on purpose, one that does not work is a failure.
            (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def site(databases: TestDatabases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The installation that all browser tests of a process share."""
    site = Site(databases, tmp_path_factory.mktemp("site"))
    site.start()
    STATE_CHECK.leave_out(site.url)
    yield site
    site.stop()


@pytest.fixture
def visit(site: Site, browser: Browser) -> Iterator[Visit]:
    """`visit("/jobs", role="auditor")` opens a page in a browser of its own; without a role no one is signed in.
    `prepare` gets the page before its address is opened, to change what the network or the clock does.

    At the end of the test no page may have failed, tried what its policy refuses, or edited what it had not read.
    """
    contexts: list[BrowserContext] = []
    wrong: list[str] = []

    def open_page(
        path: str = "/",
        *,
        role: str | None = "operator",
        tenant: str = "all",
        size: dict[str, int] = WIDE,
        theme: str = "light",
        zone: str = "UTC",
        axe: bool = False,
        prepare: Callable[[Page], None] = lambda page: None,
    ) -> Page:
        options: dict[str, Any] = {
            "viewport": size,
            "color_scheme": theme,
            "reduced_motion": "reduce",
            "timezone_id": zone,
        }
        context = browser.new_context(base_url=site.address, **options)
        contexts.append(context)
        context.set_default_timeout(60_000)
        context.add_init_script(NOTE_REFUSALS)
        if axe:
            context.add_init_script(path=AXE)
        if role is not None:
            answer = context.request.post("/api/v1/session", data={"token": site.world.tokens[tenant, role]})
            assert answer.status == 201, answer.text()
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(f"{page.url}: {error}"))
        page.on("request", lambda request: wrong.extend(blind_edits(request)))
        prepare(page)
        page.goto(path)
        return page

    yield open_page
    for context in contexts:
        for page in context.pages:
            wrong += [f"{page.url}: {one}" for one in page.evaluate("window.refusals ?? []")]
        context.close()
    assert wrong == []


def blind_edits(request: Request) -> list[str]:
    """A request that would overwrite what someone else has changed meanwhile."""
    names_state = {"if-match", "if-none-match"} & set(request.headers)
    is_blind = request.method in ("PUT", "PATCH") and not names_state
    return [f"{request.method} {request.url} without If-Match"] if is_blind else []


# Those of WCAG 2.2 are off by default: targets of 24 px.
AXE_OPTIONS = "{ resultTypes: ['violations'], rules: { 'target-size': { enabled: true } } }"


def violations(page: Page, part: str = "html") -> list[str]:
    """What axe-core finds on a page that was opened with `axe=True`, or in a part of it."""
    found = page.evaluate(f"(part) => axe.run(document.querySelector(part), {AXE_OPTIONS})", part)
    return [
        f"{violation['id']}: {node['html'][:200]}" for violation in found["violations"] for node in violation["nodes"]
    ]


def serious_violations(page: Page) -> list[str]:
    """The serious and critical ones of them."""
    found = page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{violation['id']}: {node['html'][:200]}"
        for violation in found["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]
