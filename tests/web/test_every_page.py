"""Every page, dialog and panel of a crowded installation: accessible, true times, for each role its own, whole on paper."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, Response, expect

from atlas.test_databases import TestDatabases
from tests.state_check import STATE_CHECK
from tests.web.conftest import WIDE, Visit, violations
from tests.web.crowd import fill
from tests.web.site import Site
from tests.web.test_edits_and_times import LATE_CLOCK

ADDRESSES = (
    *("/", "/?last=6h", "/jobs", "/jobs?status=dead_letter", "/jobs?status=queued&status=waiting", "/groups"),
    *("/dead-letters", "/runs", "/workflows", "/workflows/new", "/workflows/payout", "/requests"),
    *("/approvals", "/approvals?status=approved", "/effects", "/effects?tab=reconciliations"),
    *("/schedules", "/schedules?tab=events", "/schedules?tab=recurring", "/workers", "/workers?tab=hosts"),
    *("/pauses", "/audit", "/audit?tab=seals", "/audit?tab=verifications", "/audit?tab=access", "/outbox"),
    *("/insights", "/insights?by=tenant", "/insights?by=steps", "/insights?by=usage", "/first-run"),
    *("/settings?tab=tokens", "/settings?tab=sessions", "/settings?tab=tenants", "/settings?tab=definitions"),
    *("/settings?tab=policies", "/settings?tab=retention", "/settings?tab=webhooks", "/settings?tab=grants"),
    "/settings?tab=system",
)
# Of one job, run and so on: its page, and its panel beside the list.
OF_ONE = (
    *(
        "/jobs/{job}",
        "/jobs/{dead}",
        "/jobs/{dead}?tab=audit",
        "/jobs?job={dead}",
        "/runs/{run}",
        "/runs/{run}?tab=timeline",
    ),
    *(
        "/runs/{run}?tab=input",
        "/approvals?open={approval}",
        "/schedules?trigger={trigger}",
        "/workers?tab=hosts&host={host}",
    ),
)
ROLES = (("all", "operator"), ("acme", "tenant_admin"), ("acme", "auditor"), ("all", "auditor"), ("acme", "enqueuer"))


@pytest.fixture(scope="module")
def site(databases: TestDatabases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(databases, tmp_path_factory.mktemp("crowd"))
    site.start()
    # Its jobs that ended were loaded past Atlas.
    STATE_CHECK.leave_out(site.url)
    try:
        yield site
    finally:
        site.stop()


@pytest.fixture(scope="module")
def ids(site: Site) -> dict[str, str]:
    return fill(site)


def show(page: Page, address: str) -> None:
    """Open it, and wait until nothing is loading."""
    page.goto(address)
    expect(page.get_by_role("heading", level=1).first).to_be_visible()
    expect(page.locator("[aria-label^=Loading]")).to_have_count(0)


UNTRUE = """(now) => [...document.querySelectorAll("time")].filter((e) => e.checkVisibility()).flatMap((e) => {
  const at = Date.parse(e.dateTime), text = e.textContent;
  const future = /^in /.test(text), past = /ago$/.test(text);
  const wrong = (future && at < now - 5000) || (past && at > now + 5000) || !/ UTC$/.test(e.title);
  return wrong ? [`${text} for ${e.dateTime}`] : [];
})"""


@pytest.mark.long
@pytest.mark.timeout(600)
def test_every_page_tells_time_by_the_servers_clock_in_the_readers_zone(site: Site, visit: Visit, ids: dict[str, str]):
    page = visit("/", zone="Asia/Tokyo", prepare=lambda page: page.add_init_script(LATE_CLOCK))
    wrong: dict[str, list[str]] = {}
    for address in (*ADDRESSES, *OF_ONE):
        show(page, address.format(**ids))
        now = site.run(site.pool.fetchval("select extract(epoch from now()) * 1000"))
        found = page.evaluate(UNTRUE, float(now))
        # Audit rows and insights name UTC beside the reader's zone on purpose.
        text = page.locator("main").inner_text()
        found += re.findall(r"\d\d:\d\d(?::\d\d)? UTC", text) if "insights" not in address else []
        if found:
            wrong[address] = found
    assert wrong == {}


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("tenant", "role"), ROLES)
def test_each_role_is_offered_only_what_it_may_read(
    site: Site, visit: Visit, ids: dict[str, str], tenant: str, role: str
):
    refused: list[str] = []

    def note(response: Response) -> None:
        if response.status in (401, 403) and "/api/v1/" in response.url:
            refused.append(f"{page.url}: {response.url}")

    page = visit("/", role=role, tenant=tenant)
    page.on("response", note)
    links = page.get_by_role("navigation", name="Pages").get_by_role("link")
    expect(links.first).to_be_visible()
    for address in links.evaluate_all("(all) => all.map((one) => one.getAttribute('href'))"):
        show(page, address)
        for tab in page.get_by_role("tab").all():
            tab.click()
            expect(page.locator("[aria-label^=Loading]")).to_have_count(0)
    for address in ("/jobs/{dead}", "/runs/{run}") if tenant == "acme" or tenant == "all" else ():
        show(page, address.format(**ids))
    assert refused == []


# On paper: parts that still scroll or cut.
STILL_CUT = """() => [...document.querySelectorAll("main *, [role=dialog] *")].filter((e) => e.checkVisibility()
  && getComputedStyle(e).overflowY !== "visible" && (e.scrollHeight > e.clientHeight + 4) && e.clientHeight > 0)
  .map((e) => `${e.tagName} ${e.className} ${e.textContent.slice(0, 40)}`)"""


@pytest.mark.long
def test_a_job_a_run_and_an_audit_row_are_printed_whole(site: Site, visit: Visit, ids: dict[str, str]):
    page = visit("/", size={"width": 800, "height": 1000})
    for address in ("/jobs/{job}", "/jobs/{dead}", "/runs/{run}", "/audit"):
        show(page, address.format(**ids))
        if address == "/audit":
            page.locator("[role=row][aria-selected]").first.click(position={"x": 60, "y": 18})
            expect(page.locator("[data-panel]")).to_be_visible()
        page.emulate_media(media="print")
        expect(page.get_by_role("banner")).to_be_hidden()
        expect(page.get_by_role("navigation", name="Pages")).to_be_hidden()
        assert page.evaluate(STILL_CUT) == [], address
        page.emulate_media(media="screen")


LOOKS: dict[str, dict[str, Any]] = {
    "light": {"theme": "light", "size": WIDE},
    "dark": {"theme": "dark", "size": WIDE},
    "phone": {"theme": "light", "size": {"width": 390, "height": 780}},
    # 1280 by 800 at 200 %.
    "zoomed": {"theme": "dark", "size": {"width": 640, "height": 400}},
}
# The buttons that open something, one after the other, on each address.
OPENERS = (
    *(
        ("/", "Atlas starts work"),
        ("/", "Tenant: all tenants"),
        ("/", "Theme: system"),
        ("/", "Find a job, run or page"),
    ),
    *(("/jobs", "New job"), ("/jobs", "Status"), ("/jobs", "Time"), ("/jobs", "Columns"), ("/jobs", "Views")),
    *(("/groups", "New group"), ("/dead-letters", "Retry all"), ("/dead-letters", "Error type")),
    *(("/runs", "Start a workflow"), ("/workflows/payout", "Pause"), ("/workflows/payout", "Disable")),
    *(("/workflows/payout", "Start a run"), ("/workflows/new", "Publish"), ("/runs/{run}", "Signal")),
    *(("/runs/{run}", "Cancel"), ("/runs/{run}", "Approve"), ("/runs/{run}", "Reject")),
    *(("/approvals?open={approval}", "Approve"), ("/effects", "It was made: stripe.charge")),
    *(
        ("/schedules", "New trigger"),
        ("/schedules?trigger={trigger}", "Edit the trigger"),
        ("/schedules?trigger={trigger}", "Remove the trigger"),
    ),
    *(("/schedules?trigger={trigger}", "Fire now"), ("/schedules?tab=events", "Publish an event")),
    *(("/workers?tab=hosts", "Add a host"), ("/workers?tab=hosts&host={host}", "Rename")),
    *(("/workers?tab=hosts&host={host}", "Add a server"), ("/pauses", "Pause something"), ("/audit", "Export")),
    *(("/audit", "Level"), ("/insights", "Job type"), ("/settings?tab=tokens", "New token")),
    *(("/settings?tab=tokens", "Revoke"), ("/settings?tab=sessions", "End"), ("/settings?tab=tenants", "New tenant")),
    *(
        ("/settings?tab=tenants", "Edit"),
        ("/settings?tab=tenants", "Remove"),
        ("/settings?tab=definitions", "New command"),
    ),
    *(
        ("/settings?tab=policies", "New rule"),
        ("/settings?tab=retention", "Edit"),
        ("/settings?tab=webhooks", "New webhook"),
    ),
    *(("/settings?tab=webhooks", "Edit"), ("/settings?tab=webhooks", "Rotate"), ("/settings?tab=webhooks", "Remove")),
    *(("/settings?tab=webhooks", "New inbound hook"), ("/settings?tab=grants", "New grant")),
)
# Lists of which the first row opens a panel.
LISTS = (
    "/jobs",
    "/groups",
    "/workers",
    "/workers?tab=hosts",
    "/schedules",
    "/schedules?tab=events",
    "/audit",
    "/approvals",
)
FLOATS = "[role=dialog]:not([data-panel]), [role=menu]"
# The page and its lists, where they are wider than their window.
TOO_WIDE = """() => [document.documentElement, ...document.querySelectorAll("main [role=grid]")]
  .filter((part) => part.scrollWidth > part.clientWidth + 1)
  .map((part) => `${part.ariaLabel ?? "the page"}: ${part.scrollWidth} of ${part.clientWidth} px`)"""
# What can be pressed in a row, where it is beside its own cell: under another, or over it.
BESIDE_CELLS = """() => [...document.querySelectorAll("main [role=gridcell] :is(button, a, input)")].filter((e) => {
  const own = e.getBoundingClientRect(), cell = e.closest("[role=gridcell]").getBoundingClientRect();
  return e.checkVisibility() && (own.left < cell.left - 1 || own.right > cell.right + 1);
}).map((e) => `beside its cell: ${e.ariaLabel ?? e.textContent}`)"""
A_CASE = 8


def batches(all: tuple[Any, ...]) -> list[Any]:
    """A few at a time, each in a browser context of its own."""
    return [pytest.param(all[at : at + A_CASE], id=str(at)) for at in range(0, len(all), A_CASE)]


@pytest.mark.long
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("addresses", batches((*ADDRESSES, *OF_ONE)))
def test_axe_finds_nothing_on_any_page_and_each_fits(
    visit: Visit, ids: dict[str, str], addresses: tuple[str, ...], look: str
):
    page = visit("/", **LOOKS[look], axe=True)
    found: dict[str, list[str]] = {}
    for address in addresses:
        show(page, address.format(**ids))
        found[address] = violations(page)
        found[address] += page.evaluate(TOO_WIDE) + page.evaluate(BESIDE_CELLS)
    assert {address: wrong for address, wrong in found.items() if wrong} == {}


@pytest.mark.long
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("openers", batches(OPENERS))
def test_axe_finds_nothing_in_any_dialog_or_menu(
    visit: Visit, ids: dict[str, str], openers: tuple[tuple[str, str], ...], look: str
):
    page = visit("/", **LOOKS[look], axe=True)
    found: dict[str, list[str]] = {}
    for address, button in openers:
        show(page, address.format(**ids))
        page.get_by_role("button", name=button, exact=True).or_(page.get_by_role("switch", name=button)).first.click()
        opened = page.locator(FLOATS)
        expect(opened.first).to_be_visible()
        expect(opened.locator("[aria-label^=Loading]")).to_have_count(0)
        found[f"{address}, {button}"] = violations(page, FLOATS)
        page.keyboard.press("Escape")
        expect(opened).to_have_count(0)
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


@pytest.mark.long
@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_nothing_in_any_panel(visit: Visit, ids: dict[str, str], look: str):
    page = visit("/", **LOOKS[look], axe=True)
    found: dict[str, list[str]] = {}
    for address in LISTS:
        show(page, address)
        page.locator("[role=row][aria-selected]").first.click(position={"x": 60, "y": 18})
        panel = page.locator("[data-panel]")
        expect(panel).to_be_visible()
        expect(panel.locator("[aria-label^=Loading]")).to_have_count(0)
        found[address] = violations(page)
        page.keyboard.press("Escape")
        expect(panel).to_have_count(0)
    assert {address: wrong for address, wrong in found.items() if wrong} == {}
