"""Without a mouse: through jobs, a run, an approval and the audit log; the palette; and views that others open."""

import re
from uuid import UUID

import pytest
from playwright.sync_api import Locator, Page, expect

from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.tenants.tenants import add_tenant
from atlas.engine.workflows.intents import request_workflow
from tests.support import DANA
from tests.web.conftest import Visit, serious_violations
from tests.web.site import Site
from tests.web.test_jobs import given_jobs

SLOW = 30_000


@pytest.fixture(scope="module")
def tenant(site: Site) -> UUID:
    """A tenant of their own: other tests count the jobs of theirs."""

    async def add() -> UUID:
        async with site.pool.acquire() as conn:
            return (await add_tenant(conn, slug="night", name="Night shift", actor=DANA)).id

    return site.run(add())


def keys(page: Page, *pressed: str) -> None:
    for key in pressed:
        page.keyboard.press(key)


def find(page: Page, typed: str, option: str | re.Pattern[str]) -> None:
    """Choose something in the palette."""
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox")).to_be_focused()
    page.keyboard.type(typed)
    expect(page.get_by_role("option", name=option).first).to_be_visible(timeout=SLOW)
    expect(page.get_by_role("option", selected=True)).to_have_accessible_name(option)
    page.keyboard.press("Enter")


def given_run(site: Site, tenant: UUID) -> str:
    async def ask() -> str:
        async with site.pool.acquire() as conn:
            input = {"to": "ann@example.com", "amount_cents": 700}
            return str(await request_workflow(conn, tenant, "payout", input, DANA))

    return site.run(ask())


@pytest.mark.slow
def test_a_night_without_a_mouse(site: Site, visit: Visit, tenant: UUID):
    [job] = given_jobs(site, NewJob("report.once", {}, tenant))
    run = given_run(site, tenant)
    page = visit("/?tenant=night", axe=True)
    expect(page.get_by_role("status").get_by_text("live")).to_be_visible()

    # The job failed once: it is found by its id, retried from the list, and opened.
    keys(page, "g", "j")
    expect(page.get_by_role("grid", name="Jobs")).to_be_visible()
    keys(page, "/")
    page.keyboard.type(str(job)[:23])
    keys(page, "Enter")
    row = page.get_by_role("grid", name="Jobs").get_by_role("row").nth(1)
    expect(row.locator("[data-status=dead_letter]")).to_be_visible(timeout=SLOW)
    keys(page, "j", "r")
    expect(page.get_by_role("dialog", name=re.compile("Retry 1 job"))).to_be_visible()
    keys(page, "Enter")
    expect(row.locator("[data-status=succeeded]")).to_be_visible(timeout=SLOW)
    keys(page, "j", "o")
    panel = page.get_by_role("dialog", name="report.once")
    expect(panel).to_be_focused()
    keys(page, "Escape")
    expect(panel).to_have_count(0)
    keys(page, "Enter")
    expect(page).to_have_url(re.compile(f"/jobs/{job}"))

    # The run waits for a person, who decides.
    keys(page, "g", "w")
    expect(page.get_by_role("row", name=re.compile("payout")).first).to_be_visible(timeout=SLOW)
    keys(page, "j", "Enter")
    expect(page).to_have_url(re.compile(f"/runs/{run}"))
    expect(page.get_by_text("Waiting for").first).to_be_visible(timeout=SLOW)
    keys(page, "g", "a")
    expect(page.get_by_role("row", name=re.compile("Pay ann@example.com"))).to_be_visible(timeout=SLOW)
    keys(page, "j", "Enter")
    approve = page.get_by_role("button", name="Approve", exact=True)
    expect(approve).to_be_visible()
    while not approve.evaluate("element => element === document.activeElement"):
        keys(page, "Tab")
    keys(page, "Enter")
    # It shows what is approved, and asks once more.
    confirm = page.get_by_role("button", name="Approve it")
    expect(confirm).to_be_visible()
    while not confirm.evaluate("element => element === document.activeElement"):
        keys(page, "Tab")
    keys(page, "Enter")
    expect(page.get_by_text("No pending approvals")).to_be_visible(timeout=SLOW)

    # What happened is in the log.
    keys(page, "g", "l")
    expect(page.get_by_role("searchbox", name="Search the audit log")).to_be_visible(timeout=SLOW)
    keys(page, "/")
    page.keyboard.type("APPROVAL_DECIDED")
    keys(page, "Enter")
    expect(page.get_by_role("row", name=re.compile("APPROVAL_DECIDED")).first).to_be_visible(timeout=SLOW)
    keys(page, "j", "Enter")
    expect(page).to_have_url(re.compile(r"[?&]row=\d+"))
    keys(page, "Escape", "?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_contain_text("Take the guided first run")
    assert serious_violations(page) == []


@pytest.mark.long
def test_the_palette_finds_things_and_does_them(site: Site, visit: Visit, tenant: UUID):
    [job] = given_jobs(site, NewJob("report.build", {"name": "q4"}, tenant))
    page = visit("/", axe=True)
    expect(page.get_by_role("status").get_by_text("live")).to_be_visible()
    find(page, str(job)[:23], re.compile(f"^report.build {str(job)[:8]}"))
    expect(page).to_have_url(re.compile(f"/jobs/{job}"))
    expect(page.get_by_role("button", name="More actions")).to_be_visible(timeout=SLOW)
    page.keyboard.press("Control+k")
    page.keyboard.type("this job")
    expect(page.get_by_role("option", name=re.compile("Enqueue this job again"))).to_be_visible()
    assert serious_violations(page) == []
    keys(page, "Escape")

    find(page, "report.once", re.compile("report.once Job type"))
    expect(page).to_have_url(re.compile(r"/jobs\?job_type=report.once"))
    find(page, "payout", re.compile("payout Workflow"))
    expect(page).to_have_url(re.compile(r"/runs\?workflow=payout"))
    find(page, "tenant night", re.compile("Night shift .* Tenant"))
    expect(page).to_have_url(re.compile("tenant=night"))
    find(page, "new job", re.compile("New job"))
    expect(page.get_by_role("dialog", name="New job")).to_be_visible()
    keys(page, "Escape")
    find(page, "offline", re.compile("Take Atlas offline"))
    expect(page.get_by_role("dialog", name="Take Atlas offline?").get_by_label("Reason")).to_be_focused()
    keys(page, "Escape")

    height = "() => document.querySelector('[role=grid] [role=row]:last-child').getBoundingClientRect().height"
    page.goto("/jobs")
    expect(page.get_by_role("grid", name="Jobs")).to_be_visible()
    assert page.evaluate(height) == 36
    find(page, "rows com", re.compile("Rows: comfortable"))
    find(page, "compact", re.compile("Rows: compact"))
    assert page.evaluate(height) == 28
    page.reload()
    expect(page.get_by_role("grid", name="Jobs")).to_be_visible()
    assert page.evaluate(height) == 28


@pytest.mark.long
def test_a_view_is_kept_and_another_person_opens_it(site: Site, visit: Visit, tenant: UUID):
    given_jobs(site, NewJob("report.build", {"name": "q1", "fails": True}, tenant))
    page = visit("/jobs?tenant=night&status=dead_letter&last=24h", axe=True)
    expect(page.get_by_role("row", name=re.compile("report.build")).first).to_be_visible(timeout=SLOW)
    page.get_by_role("button", name="Columns").click()
    page.get_by_label("Source").uncheck()
    keys(page, "Escape")
    expect(page.get_by_role("columnheader", name="Source")).to_have_count(0)
    page.get_by_role("button", name="Views").click()
    page.get_by_label("Name of this view").fill("Broken reports")
    page.get_by_role("button", name="Keep").click()
    named = page.get_by_role("link", name="Broken reports")
    expect(named).to_be_visible()
    assert serious_violations(page) == []
    link = named.get_attribute("href")

    other = visit(link, role="auditor", tenant="all")
    expect(other.get_by_role("button", name="View: Broken reports")).to_be_visible()
    expect(other.get_by_text("last 24 hours")).to_be_visible()
    expect(other.get_by_role("columnheader", name="Worker")).to_be_visible()
    expect(other.get_by_role("columnheader", name="Source")).to_have_count(0)
    other.get_by_role("button", name="View: Broken reports").click()
    other.get_by_role("button", name="Keep").click()
    keys(other, "Escape")
    other.get_by_role("button", name="Remove the filter Created last 24 hours").click()
    expect(other.get_by_role("button", name="Views", exact=True)).to_be_visible()
    find(other, "broken", re.compile("Broken reports View of Jobs"))
    expect(other.get_by_text("last 24 hours")).to_be_visible()


def active_row(page: Page) -> Locator:
    """The row that a screen reader reads: the focus is on its grid."""
    name = page.get_by_role("grid").get_attribute("aria-activedescendant")
    return page.locator(f"[id='{name}']")


@pytest.mark.long
def test_a_screen_reader_reads_what_the_walk_of_the_docs_says(site: Site, visit: Visit, tenant: UUID):
    given_jobs(site, NewJob("report.build", {"name": "heard", "fails": True}, tenant))
    page = visit("/?tenant=night")
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
    keys(page, "Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    keys(page, "Enter")
    expect(page.get_by_role("main")).to_be_focused()
    keys(page, "g", "j")
    expect(page.get_by_role("status", name="Page")).to_have_text("Jobs")
    grid = page.get_by_role("grid", name="Jobs")
    expect(grid.get_by_text("the report heard has no data")).to_be_visible()
    grid.focus()
    keys(page, "j")
    expect(active_row(page)).to_have_accessible_name(
        re.compile(r"dead letter report\.build .* the report heard has no data")
    )
    keys(page, "o")
    panel = page.get_by_role("dialog", name="report.build")
    expect(panel).to_be_focused()
    expect(panel.get_by_role("status").first).to_contain_text("Dead-lettered after 1 attempt")
    keys(page, "Escape")
    expect(grid).to_be_focused()
    keys(page, "r")
    dialog = page.get_by_role("dialog", name="Retry 1 job?")
    expect(dialog.get_by_label("Reason")).to_be_focused()
    keys(page, "Enter")
    expect(page.get_by_role("status").filter(has_text=re.compile("Retr|queued again")).first).to_be_attached()
    keys(page, "Control+k")
    expect(page.get_by_role("combobox", name="Find a job, run, page or action")).to_be_focused()
    page.keyboard.type("audit")
    expect(page.get_by_role("option", selected=True)).to_have_accessible_name(re.compile("Audit"))
    keys(page, "Enter")
    expect(page.get_by_role("status", name="Page")).to_have_text("Audit")
