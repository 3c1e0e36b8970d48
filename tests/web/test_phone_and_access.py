"""The pages on a phone, by the keyboard and on paper."""

import re
from collections.abc import Iterator
from uuid import UUID

import pytest
from playwright.sync_api import expect

from atlas.engine.jobs.actions.cancel import cancel
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.tenants.tenants import add_tenant
from atlas.engine.triggers.store import add_trigger, remove_trigger
from tests.support import DANA
from tests.web.conftest import Visit
from tests.web.site import Site
from tests.web.test_insights import metered
from tests.web.test_jobs import given_jobs
from tests.web.test_overview import begin

PHONE = {"width": 390, "height": 780}
TRIGGER = {
    "label": "Night report",
    "trigger_type": "schedule",
    "cron_expr": "30 2 * * *",
    "job_type": "report.build",
    "payload_template": {"name": "night"},
}


@pytest.fixture
def trigger(site: Site) -> Iterator[UUID]:
    async def add() -> UUID:
        async with site.pool.acquire() as conn:
            return (await add_trigger(conn, site.world.acme.id, TRIGGER, actor=DANA)).id

    async def remove(trigger_id: UUID) -> None:
        async with site.pool.acquire() as conn:
            await remove_trigger(conn, trigger_id, actor=DANA)

    trigger_id = site.run(add())
    yield trigger_id
    site.run(remove(trigger_id))


def test_cards_of_a_phone_keep_what_is_needed_and_escape_returns_to_the_row(site: Site, visit: Visit, trigger: UUID):
    given_jobs(site, NewJob("report.build", {"name": "q1", "fails": True}, site.world.acme.id))
    page = visit("/schedules", size=PHONE)
    row = page.get_by_role("row").filter(has_text="Night report")
    for text in ("30 2 * * *", "Next", "Tenant", "acme"):
        expect(row.get_by_text(text, exact=True).first).to_be_in_viewport(ratio=1)
    # Each of the next times is one line: the time, and how far off it is.
    page.goto(f"/schedules?trigger={trigger}")
    times = page.get_by_role("dialog").get_by_role("listitem")
    expect(times).to_have_count(10)
    lines = times.evaluate_all(
        "(all) => all.map((one) => [...one.children].slice(0, 2).map((part) => part.getBoundingClientRect()))"
    )
    assert [first["x"] for first, _ in lines] == [lines[0][0]["x"]] * 10
    assert all(abs(first["y"] - second["y"]) < 4 for first, second in lines)
    page.goto("/dead-letters")
    # A cause that came later would move the others down.
    expect(page.get_by_text(re.compile("the report .* has no data")).first).to_be_visible()
    retry = page.get_by_role("button", name=re.compile("^Retry")).last
    # Scrolls until it is in view, also where a cause that came meanwhile moved it.
    retry.click(trial=True)
    box = retry.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= PHONE["width"]

    wide = visit("/schedules")
    grid = wide.get_by_role("grid", name="Triggers")
    expect(grid).to_be_visible()
    wide.keyboard.press("j")
    wide.keyboard.press("Enter")
    expect(wide.locator("[data-panel]")).to_be_visible()
    wide.keyboard.press("Escape")
    expect(wide.locator("[data-panel]")).to_have_count(0)
    expect(grid).to_be_focused()
    assert wide.locator(f"[id='{grid.get_attribute('aria-activedescendant')}']").count() == 1
    # On paper: the page without its frame.
    wide.emulate_media(media="print")
    expect(wide.get_by_role("banner")).to_be_hidden()
    expect(wide.get_by_role("navigation", name="Pages")).to_be_hidden()


# Names of cards that stand beside no value.
NAMES_ALONE = """() => [...document.querySelectorAll("[role=gridcell]")].filter((cell) => cell.checkVisibility()
  && cell.textContent !== "" && cell.lastElementChild.textContent === "" && cell.querySelector("svg, input, button") === null)
  .map((cell) => cell.textContent)"""


@pytest.mark.long
def test_a_phone_shows_the_chosen_tab_and_what_each_value_is(site: Site, visit: Visit):
    # Insights have tabs where something ended.
    tenant = site.run(begin(site, "on-a-phone", ("report.build", {"name": "good"})))
    site.run(metered(site, tenant.id, jobs=1))
    page = visit("/settings?tab=retention", size=PHONE)
    expect(page.get_by_role("row").filter(has_text="acme").get_by_text("Finished jobs")).to_be_visible()
    expect(page.get_by_role("tab", name="Retention")).to_be_in_viewport(ratio=0.9)
    page.goto("/audit?tab=access")
    expect(page.get_by_role("row").filter(has_text="operator@all").first).to_be_visible()
    assert page.evaluate(NAMES_ALONE) == []
    page.goto("/approvals?status=canceled")
    expect(page.get_by_role("button", name="Canceled")).to_be_in_viewport(ratio=0.9)
    # Tabs far below leave the page at its beginning.
    page.goto("/insights")
    expect(page.get_by_role("tab", name="Slowest steps")).to_be_attached()
    expect(page.get_by_role("heading", name="Insights", level=1)).to_be_in_viewport(ratio=1)
    # A name in a card is in one piece, and that of the tenant is whole.
    page.goto("/workers")
    expect(page.locator("[role=gridcell] [data-end]").first).to_be_visible()
    assert page.evaluate(APART) == []
    page.set_viewport_size({"width": 375, "height": 720})
    assert page.evaluate(APART) == []


# Names whose end is not beside their beginning, or whose beginning is cut off.
APART = """() => [...document.querySelectorAll("[data-end]")].filter((end) => end.checkVisibility()).filter((end) => {
  const range = document.createRange();
  range.selectNodeContents(end.previousElementSibling);
  const last = [...range.getClientRects()].at(-1), first = end.getClientRects()[0];
  const cut = end.previousElementSibling.scrollWidth > end.previousElementSibling.clientWidth + 1;
  return last !== undefined && (cut || (Math.abs(last.top - first.top) < 4 && first.left - last.right > 4));
}).map((end) => end.parentElement.textContent)"""


ALIKE = ("bakery-of-the-old-harbour-with-a-very-long-name-east", "bakery-of-the-old-harbour-with-a-very-long-name-west")
# The ends of ids that are beside their cell.
CUT_ENDS = """() => [...document.querySelectorAll("main [role=gridcell] [data-end]")].filter((end) =>
  end.getBoundingClientRect().right > end.closest("[role=gridcell]").getBoundingClientRect().right + 1)
  .map((end) => end.parentElement.textContent)"""


@pytest.fixture
def alike(site: Site) -> Iterator[None]:
    """Two tenants whose slugs differ in their ends, each with a job that runs until the test ends."""
    ids: list[UUID] = []

    async def add() -> None:
        async with site.pool.acquire() as conn:
            for slug in ALIKE:
                tenant = await add_tenant(conn, slug=slug, name=slug, actor=DANA)
                job = NewJob("report.build", {"name": slug, "seconds": 600}, tenant.id)
                ids.append((await enqueue(conn, job, actor=DANA)).id)

    async def stop() -> None:
        async with site.pool.acquire() as conn:
            for id in ids:
                await cancel(conn, id, actor=DANA)

    site.run(add())
    yield
    site.run(stop())


@pytest.mark.long
def test_where_all_tenants_are_shown_each_row_has_its_tenant_by_the_end_of_its_slug(visit: Visit, alike: None):
    page = visit("/jobs")
    # A blank between the two parts of a name is kept.
    expect(page.get_by_role("button", name="Tenant: all tenants").locator("[data-end]")).to_have_css(
        "white-space", "pre"
    )
    for address in ("/jobs", "/audit?action=JOB_CREATED", "/settings?tab=tenants", "/settings?tab=retention"):
        page.goto(address)
        for slug in ALIKE:
            end = page.locator("[role=gridcell] [data-end]", has_text=slug[-8:]).first
            expect(end).to_be_visible()
            expect(end.locator("xpath=..")).to_have_attribute("title", slug)
        assert page.evaluate(CUT_ENDS) == [], address
    page.goto("/audit?tab=access")
    for name in ("Credentials", "Activity"):
        expect(page.get_by_role("grid", name=name).get_by_role("columnheader", name="Tenant")).to_be_visible()
    page.goto("/workers")
    page.get_by_role("grid", name="Workers").get_by_text("alive").first.click()
    running = page.get_by_role("grid", name="Running jobs")
    for slug in ALIKE:
        expect(running.get_by_role("row").filter(has_text=slug)).to_be_visible()
    assert page.evaluate(CUT_ENDS) == []
