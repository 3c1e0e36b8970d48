"""Insights, and why a thing does nothing, in a browser."""

import asyncio
import csv
import re
from uuid import UUID

import pytest
from playwright.sync_api import Page, expect

from atlas.engine.jobs.lease import register_worker
from atlas.engine.triggers.store import add_trigger
from tests.support import DANA
from tests.web.conftest import PHONE, Visit, serious_violations
from tests.web.site import Site
from tests.web.test_overview import SLOW, begin

HOUR_AGO = """
update atlas.job_series set begins_at = begins_at - interval '5 hours' where step = 'hour' and tenant_id = $1"""
ENDED = """
select coalesce(sum(succeeded + failed + dead_lettered), 0)::int from atlas.job_series
where step = 'hour' and tenant_id = $1"""


def figure(page: Page, name: str):
    return page.get_by_role("term").filter(has_text=name).locator("xpath=following-sibling::dd")


async def metered(site: Site, tenant_id: UUID, *, jobs: int) -> None:
    """Wait until the meter has counted the ends of so many jobs of a tenant."""
    async with asyncio.timeout(90):
        while (await site.pool.fetchval(ENDED, tenant_id)) < jobs:
            await asyncio.sleep(0.2)


@pytest.mark.long
def test_a_week_is_read_narrowed_on_a_chart_compared_and_exported(site: Site, visit: Visit):
    good, bad = ("report.build", {"name": "good"}), ("report.build", {"name": "annual", "fails": True})
    tenant = site.run(begin(site, "measured", good, good, good, bad, ("report.once", {})))
    site.run(metered(site, tenant.id, jobs=5))
    page = visit("/insights?tenant=measured", axe=True)
    table = page.get_by_role("table", name="By job type")
    expect(table.get_by_role("row").filter(has_text="report.build").get_by_role("cell").nth(1)).to_contain_text(
        "4", timeout=SLOW
    )
    chart = page.get_by_role("slider", name=re.compile("^Finished jobs by outcome"))
    expect(chart).to_have_attribute("aria-valuetext", re.compile("so far: succeeded 3"))
    expect(figure(page, "Cost")).to_contain_text("EUR")
    # Five hours ago, so that the hour is complete.
    site.run(site.pool.execute(HOUR_AGO, tenant.id))
    page.reload()
    expect(figure(page, "Jobs finished")).to_contain_text("5none before", timeout=SLOW)
    expect(figure(page, "Succeeded")).to_contain_text("60%")
    expect(figure(page, "Dead letters")).to_contain_text("40%")
    assert serious_violations(page) == []

    table.get_by_role("button", name="Dead letters").click()
    expect(page).to_have_url(re.compile("sort=dead_letter_rate"))
    expect(table.get_by_role("columnheader", name="Dead letters")).to_have_attribute("aria-sort", "descending")
    expect(table.get_by_role("row").nth(1)).to_contain_text("report.once")

    box = chart.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.85, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 24, box["y"] + 60, steps=4)
    page.mouse.up()
    expect(page).to_have_url(re.compile("since=.*until="))
    expect(figure(page, "Jobs finished")).to_contain_text("5")

    with page.expect_download() as downloading:
        page.get_by_role("link", name="Export as CSV").click()
    assert re.fullmatch(r"insights_measured_[-\dTZ]+_[-\dTZ]+\.csv", downloading.value.suggested_filename)
    rows = list(csv.DictReader(downloading.value.path().read_text().splitlines()))
    assert {row["job_type"]: (row["finished"], row["dead_lettered"]) for row in rows} == {
        "report.build": ("4", "1"),
        "report.once": ("1", "1"),
    }
    table.get_by_role("link", name="report.once").click()
    expect(page).to_have_url(re.compile(r"/jobs\?.*job_type=report.once.*finished_after="))


@pytest.mark.slow
def test_insights_fit_a_phone_and_the_dark_and_say_when_there_is_nothing(site: Site, visit: Visit):
    site.run(begin(site, "silent"))
    page = visit("/insights?last=90d", size=PHONE, theme="dark", axe=True)
    expect(page.get_by_role("tab", name="By tenant")).to_be_visible(timeout=SLOW)
    expect(page.get_by_text("Days begin at")).to_be_visible()
    page.get_by_role("tab", name="By tenant").click()
    expect(page.get_by_role("table", name="By tenant")).to_be_visible()
    assert serious_violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")

    empty = visit("/insights?tenant=silent&job_type=no.such")
    expect(empty.get_by_role("heading", name="No jobs in this period")).to_be_visible(timeout=SLOW)
    empty.get_by_role("button", name="Clear filters").click()
    expect(empty).to_have_url(re.compile("/insights.tenant=silent$"))


async def add_idle_things(site: Site) -> str:
    """A worker that nothing is due for, and a trigger that no event fires: the trigger's id."""
    described = {"label": "Orders", "trigger_type": "event", "event_name": "order.never", "job_type": "report.once"}
    async with site.pool.acquire() as conn:
        await register_worker(conn, "box-9:1:idle", lease=3600, job_types=["idle.work"])
        return str((await add_trigger(conn, site.world.acme.id, described, actor=DANA)).id)


@pytest.mark.long
def test_a_trigger_and_a_worker_say_why_they_do_nothing(site: Site, visit: Visit):
    trigger = site.run(add_idle_things(site))
    page = visit("/workers?worker=box-9:1:idle", axe=True)
    why = page.get_by_role("dialog").get_by_role("status").first
    expect(why).to_contain_text("Serves idle.work; none of these jobs is due", timeout=SLOW)
    assert serious_violations(page) == []

    page.goto(f"/schedules?trigger={trigger}")
    panel = page.get_by_role("dialog", name="Orders")
    why = panel.get_by_role("status").first
    expect(why).to_contain_text("order.never", timeout=SLOW)
    expect(why.get_by_role("button", name="Copy the command")).to_be_visible()
    assert serious_violations(page) == []
    panel.get_by_role("switch", name="Orders is enabled").click()
    expect(why).to_contain_text("The trigger is disabled", timeout=SLOW)
    expect(why).to_contain_text(f"atlas trigger edit {trigger} --enable")
