"""The overview in a browser: is Atlas on, does work flow, and where does it not."""

import re
from datetime import datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.tenants.tenants import add_tenant
from atlas.models.tenants import Tenant
from tests.support import DANA
from tests.web.conftest import PHONE, Visit, serious_violations
from tests.web.site import Site

# A test runs beside others on a machine that may be busy, and the meter reads every five seconds.
SLOW = 30_000


async def begin(site: Site, slug: str, *jobs: tuple[str, dict[str, object]]) -> Tenant:
    """A tenant of its own with these jobs, so that what other tests do is not counted."""
    async with site.pool.acquire() as conn:
        tenant = await add_tenant(conn, slug=slug, name=slug.title(), actor=DANA)
        if jobs:
            await enqueue_many(conn, [NewJob(job_type, input, tenant.id) for job_type, input in jobs], actor=DANA)
    return tenant


def test_an_operator_sees_what_flows_what_failed_and_what_needs_a_person(site: Site, visit: Visit):
    good, bad = ("report.build", {"name": "good"}), ("report.build", {"name": "annual", "fails": True})
    site.run(begin(site, "flowing", good, good, bad, ("nobody.serves", {})))
    page = visit("/?tenant=flowing", axe=True)

    counts = page.get_by_role("region", name="Jobs by status")
    expect(counts.get_by_role("link", name="succeeded")).to_have_text(re.compile("2$"), timeout=SLOW)
    expect(counts.get_by_role("link", name="dead letter")).to_have_text(re.compile("1$"), timeout=SLOW)
    failures = page.get_by_role("region", name="Latest failures")
    expect(failures).to_contain_text("the report annual has no data", timeout=SLOW)
    needs = page.get_by_role("region", name="Needs attention").get_by_role("listitem")
    expect(needs).to_contain_text(
        ["No living worker serves nobody.serves", "1 dead letter of report.build"], timeout=SLOW
    )
    busiest = page.get_by_role("row").filter(has_text="report.build")
    expect(busiest.get_by_role("cell")).to_have_text(
        ["report.build", "0", "0", "3", "1", re.compile("ms|s")], timeout=SLOW
    )
    expect(page.get_by_text(re.compile(r"\d+ workers? alive"))).to_be_visible()
    expect(page.get_by_text("Audit log sealed")).to_be_visible(timeout=SLOW)
    assert serious_violations(page) == []

    counts.get_by_role("link", name="dead letter").click()
    expect(page).to_have_url(re.compile(r"/jobs\?.*status=dead_letter"))
    page.go_back()
    page.get_by_role("region", name="Needs attention").get_by_role("link", name="Dead letters").click()
    expect(page).to_have_url(re.compile("/dead-letters"))


@pytest.mark.long
def test_a_part_of_the_time_is_chosen_on_a_chart_by_mouse_by_keyboard_or_in_the_menu(visit: Visit):
    page = visit("/?last=6h", axe=True)
    expect(page.get_by_role("button", name="Remove the filter Time last 6 hours")).to_be_visible(timeout=SLOW)
    chart = page.get_by_role("slider", name=re.compile("^Jobs per minute"))
    box = chart.bounding_box()
    assert box is not None
    last = chart.get_attribute("aria-valuemax")
    assert last is not None
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 40)
    expect(chart).to_have_attribute("aria-valuetext", re.compile(r"\d\d:\d\d – .*enqueued \d+, finished \d+"))
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + 60, steps=4)
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"\?since=.*&until="))
    dragged = page.url
    # Until the part has arrived, the chart shows the whole.
    expect(chart).not_to_have_attribute("aria-valuemax", last)

    chart.focus()
    page.keyboard.press("End")
    for _ in range(9):
        page.keyboard.press("Shift+ArrowLeft")
    page.keyboard.press("Enter")
    expect(page).not_to_have_url(dragged)
    search = {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}
    since, until = (datetime.fromisoformat(search[name]) for name in ("since", "until"))
    assert until - since == timedelta(minutes=10)
    expect(page.get_by_role("slider", name=re.compile("^Jobs per minute"))).to_have_attribute("aria-valuemax", "9")
    expect(page.get_by_role("heading", name="Busiest job types, in this period")).to_be_visible()
    assert serious_violations(page) == []

    page.get_by_role("button", name=re.compile("^Remove the filter Time")).click()
    expect(page).to_have_url(re.compile("/$"))
    page.get_by_role("button", name="Last hour").click()
    page.get_by_role("button", name="Last 24 hours").click()
    expect(page).to_have_url(re.compile(r"\?last=24h$"))
    expect(page.get_by_role("heading", name="Jobs per hour")).to_be_visible(timeout=SLOW)


@pytest.mark.long
def test_tenants_stand_side_by_side_and_a_quiet_one_needs_no_one(site: Site, visit: Visit):
    site.run(begin(site, "quiet"))
    page = visit("/", theme="dark", axe=True)
    tenants = page.get_by_role("region", name="Tenants")
    expect(tenants.get_by_role("link", name="acme")).to_be_visible(timeout=SLOW)
    assert serious_violations(page) == []

    tenants.get_by_role("link", name="quiet").click()
    expect(page).to_have_url(re.compile(r"\?tenant=quiet$"))
    expect(page.get_by_text("Nothing needs you.")).to_be_visible(timeout=SLOW)
    expect(page.get_by_text("No job has failed.")).to_be_visible()
    expect(tenants).to_have_count(0)


@pytest.mark.long
def test_atlas_is_switched_off_with_a_reason_and_on_again(visit: Visit):
    operator, admin = visit("/"), visit("/", role="tenant_admin", tenant="acme", size=PHONE)
    gate, seen = operator.get_by_role("region", name="Gate"), admin.get_by_role("region", name="Gate")
    expect(seen.get_by_role("switch")).to_be_disabled()
    assert admin.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]

    gate.get_by_role("switch").click()
    dialog = operator.get_by_role("dialog", name="Take Atlas offline?")
    expect(dialog).to_contain_text("Nothing new will start.")
    dialog.get_by_label("Reason").fill("provider outage")
    dialog.get_by_label("For how long").select_option("1 hour")
    dialog.get_by_role("button", name="Take offline").click()
    for page, shown in ((operator, gate), (admin, seen)):
        expect(shown).to_contain_text("Offline", timeout=SLOW)
        expect(shown).to_contain_text(re.compile("operator@all, .*: provider outage. Comes back at"))
        expect(page.get_by_test_id("offline")).to_contain_text("provider outage")

    gate.get_by_role("switch").click()
    operator.get_by_role("dialog").get_by_role("button", name="Bring online").click()
    for page, shown in ((operator, gate), (admin, seen)):
        expect(shown).to_contain_text("Online", timeout=SLOW)
        expect(page.get_by_test_id("offline")).to_have_count(0)


@pytest.mark.long
@pytest.mark.parametrize("role", ["enqueuer", "auditor"])
def test_everyone_who_reads_jobs_has_an_overview(visit: Visit, role):
    page = visit("/", role=role, tenant="acme")
    expect(page.get_by_role("region", name="Jobs by status")).to_be_visible(timeout=SLOW)
    expect(page.get_by_text("Audit log sealed")).to_have_count(1 if role == "auditor" else 0)
