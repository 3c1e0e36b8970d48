"""Pauses in the browser: seen where work waits for them, made and ended in three clicks."""

import re
from uuid import UUID

import pytest
from playwright.sync_api import Locator, Page, expect

from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.new_jobs.new_job import NewJob
from tests.support import DANA
from tests.web.conftest import Visit, serious_violations
from tests.web.site import Site

SLOW = 30_000


def test_a_job_type_is_paused_seen_and_resumed_where_its_job_waits(site: Site, visit: Visit):
    page = visit("/pauses", axe=True)
    expect(page.get_by_role("heading", name="Nothing is paused")).to_be_visible(timeout=SLOW)
    page.get_by_role("button", name="Pause something").first.click()
    dialog = page.get_by_role("dialog", name="Pause")
    dialog.get_by_label("Which").fill("report.once")
    dialog.get_by_label("Reason").fill("printer on fire")
    dialog.get_by_label("For how long").select_option("2 hours")
    assert serious_violations(page) == []
    dialog.get_by_role("button", name="Pause", exact=True).click()
    row = page.get_by_role("row").filter(has_text="report.once")
    expect(row).to_contain_text("printer on fire")
    expect(row).to_contain_text(re.compile("in (1|2) h"))

    # The overview has a line of it, and the palette ends it.
    page.goto("/")
    line = page.get_by_role("region", name="Paused").get_by_role("listitem").filter(has_text="report.once")
    expect(line).to_contain_text(re.compile("paused since .* by operator@all: printer on fire. Resumes in"))
    assert serious_violations(page) == []
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("Resume report.once")
    expect(page.get_by_role("option", name="Resume report.once")).to_be_visible()

    # A job that waits for it offers the button, to an operator and not to an auditor.
    job = site.run(_enqueue(site))
    auditor = visit(f"/jobs/{job}", role="auditor", tenant="acme")
    expect(auditor.get_by_role("status").filter(has_text="is paused since")).to_be_visible(timeout=SLOW)
    expect(auditor.get_by_role("button", name="Resume")).to_have_count(0)
    page.goto(f"/jobs/{job}")
    resume(page, page.get_by_role("status").filter(has_text="is paused since").get_by_role("button", name="Resume"))
    # It runs, fails once, and the explanation offers to retry it.
    again = (
        page.get_by_role("status").filter(has_text=re.compile("dead.letter", re.I)).get_by_role("button", name="Retry")
    )
    again.click(timeout=SLOW)
    page.get_by_role("dialog", name="Retry the job?").get_by_role("button", name="Retry").click()
    expect(page.get_by_role("status").filter(has_text="Succeeded at")).to_be_visible(timeout=SLOW)
    expect(page.get_by_role("button", name="Resume")).to_have_count(0)


@pytest.mark.slow
def test_a_tenant_pauses_its_workflow_schedule_and_host_and_sees_their_state(visit: Visit):
    page = visit("/workflows/payout", role="tenant_admin", tenant="acme")
    page.get_by_role("button", name="Pause").click()
    pause(page, "Pause the workflow payout?")
    expect(page.get_by_text("paused", exact=True)).to_be_visible()
    page.goto("/workflows")
    row = page.get_by_role("row").filter(has_text="payout")
    expect(row.get_by_text("paused", exact=True)).to_be_visible(timeout=SLOW)

    # It is no pause for all tenants, who may be paused beside it.
    operator = visit("/workflows/payout")
    expect(operator.get_by_text("paused for acme", exact=True)).to_be_visible(timeout=SLOW)
    expect(operator.get_by_role("button", name="Resume")).to_have_count(0)
    operator.get_by_role("button", name="Pause").click()
    expect(operator.get_by_role("dialog", name="Pause the workflow payout?")).to_contain_text("of any tenant")

    page.goto("/workers")
    page.get_by_role("button", name="Add a host").first.click()
    dialog = page.get_by_role("dialog", name="Add a host")
    dialog.get_by_label("Name").fill("paused-box")
    dialog.get_by_role("button", name="Add host").click()
    host = page.get_by_role("dialog", name="paused-box")
    host.get_by_role("button", name="Pause").click()
    pause(page, "Pause the host paused-box?")
    expect(host.get_by_text("paused", exact=True)).to_be_visible()
    resume(page, host.get_by_role("button", name="Resume"))

    # Another tenant's pause is not seen, and its own ends by a click in the overview.
    other = visit("/pauses", role="tenant_admin", tenant="other")
    expect(other.get_by_role("heading", name="Nothing is paused")).to_be_visible(timeout=SLOW)
    page.goto("/")
    resume(page, page.get_by_role("button", name="Resume payout"))
    expect(page.get_by_role("region", name="Paused")).to_have_count(0)


def pause(page: Page, title: str) -> None:
    page.get_by_role("dialog", name=title).get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_role("dialog", name=title)).to_have_count(0, timeout=SLOW)


def resume(page: Page, button: Locator) -> None:
    button.click(timeout=SLOW)
    page.get_by_role("dialog", name=re.compile("^Resume the")).get_by_role("button", name="Resume").click()
    expect(page.get_by_role("dialog", name=re.compile("^Resume the"))).to_have_count(0, timeout=SLOW)


async def _enqueue(site: Site) -> UUID:
    async with site.pool.acquire() as conn:
        return (await enqueue(conn, NewJob("report.once", {}, site.world.acme.id), actor=DANA)).id
