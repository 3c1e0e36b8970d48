"""Two people who edit the same thing, and readers whose clocks and zones differ from the server's."""

import json
import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.new_jobs.new_job import NewJob
from tests.support import DANA
from tests.web.conftest import Visit
from tests.web.site import Site

TOKYO = "Asia/Tokyo"
# A browser whose clock is ten minutes behind.
LATE_CLOCK = """
const RealDate = Date;
const BEHIND = 600_000;
globalThis.Date = class extends RealDate {
  constructor(...given) { given.length === 0 ? super(RealDate.now() - BEHIND) : super(...given); }
  static now() { return RealDate.now() - BEHIND; }
};
"""


def test_an_edit_of_what_was_changed_elsewhere_shows_both_values_and_keeps_what_was_typed(site: Site, visit: Visit):
    address = f"{site.address}/api/v1/tenants/other"
    with httpx.Client(headers=site.world.headers("all", "operator"), timeout=60) as other:
        page = visit("/settings?tab=tenants")
        row = page.get_by_role("row").filter(has_text="other")
        row.get_by_role("button", name="Edit").click()
        dialog = page.get_by_role("dialog", name="Edit other")
        dialog.get_by_role("textbox", name=re.compile("^Name")).fill("Harbour Books")
        other.patch(address, json={"name": "Otherwise"}).raise_for_status()
        dialog.get_by_role("button", name="Save").click()

        conflict = dialog.get_by_role("alert")
        expect(conflict).to_contain_text("operator@all changed this")
        expect(conflict.get_by_role("row", name="Name Otherwise Harbour Books")).to_be_visible()
        expect(dialog.get_by_role("textbox", name=re.compile("^Name"))).to_have_value("Harbour Books")
        assert other.get(address).json()["name"] == "Otherwise"

        sent: list[str | None] = []
        page.on("request", lambda one: sent.append(one.headers.get("if-match")) if one.method == "PATCH" else None)
        dialog.get_by_role("button", name="Replace with mine").click()
        expect(dialog).to_have_count(0)
        assert other.get(address).json()["name"] == "Harbour Books"
        assert len(sent) == 1
        assert sent[0] is not None
        other.patch(address, json={"name": "Other"}).raise_for_status()


def test_a_pause_and_a_switch_made_elsewhere_are_not_overwritten(site: Site, visit: Visit):
    theirs = {"kind": "type", "target": "report.once", "reason": "the disk is full", "for_seconds": 7200}
    with httpx.Client(
        base_url=f"{site.address}/api/v1", headers=site.world.headers("all", "operator"), timeout=60
    ) as other:
        page = visit("/pauses?new=pause")
        dialog = page.get_by_role("dialog", name="Pause")
        dialog.get_by_label("Which").fill("report.once")
        dialog.get_by_label("Reason").fill("a short look")
        other.put("/pauses", json=theirs).raise_for_status()
        dialog.get_by_role("button", name="Pause", exact=True).click()
        conflict = dialog.get_by_role("alert")
        expect(conflict).to_contain_text("operator@all changed this")
        expect(conflict.get_by_role("row", name="Reason the disk is full a short look")).to_be_visible()
        expect(dialog.get_by_label("Reason")).to_have_value("a short look")
        assert [item["reason"] for item in other.get("/pauses").json()["items"]] == ["the disk is full"]
        dialog.get_by_role("button", name="Replace with mine").click()
        expect(page.get_by_role("row").filter(has_text="a short look")).to_be_visible()

        # Someone needs it longer, while another person is about to end it.
        page.get_by_role("button", name="Resume report.once").click()
        dialog = page.get_by_role("dialog", name="Resume the job type report.once?")
        held = other.put("/pauses", json=theirs).json()
        dialog.get_by_role("button", name="Resume").click()
        expect(dialog.get_by_role("alert")).to_contain_text("the disk is full")
        assert other.get("/pauses").json()["items"] == [held | {"workers": None, "confirmed": None}]
        dialog.get_by_role("button", name="Replace with mine").click()
        expect(page.get_by_role("heading", name="Nothing is paused")).to_be_visible()

        page.goto("/settings?tab=system")
        page.get_by_role("switch", name="Requests for workflows become runs").click()
        dialog = page.get_by_role("dialog", name="Switch the engine off?")
        dialog.get_by_label("Reason").fill("new policies")
        for enabled, reason in ((False, "wrong policies"), (True, "they are right again")):
            other.put("/system/engine-enabled", json={"enabled": enabled, "reason": reason}).raise_for_status()
        dialog.get_by_role("button", name="Switch off").click()
        conflict = dialog.get_by_role("alert")
        expect(conflict).to_contain_text("operator@all changed this")
        expect(conflict.get_by_role("row", name="Engine reason they are right again new policies")).to_be_visible()
        assert other.get("/system/atlas-online").json()["engine_enabled"] is True
        # It is off by now: there is nothing to replace, and nothing is changed.
        theirs = {"enabled": False, "reason": "their policies"}
        other.put("/system/engine-enabled", json=theirs).raise_for_status()
        dialog.get_by_role("button", name="Replace with mine").click()
        message = "The engine is off already: operator@all switched it. Nothing was changed."
        expect(page.get_by_text(message, exact=True)).to_be_visible()
        expect(dialog).to_have_count(0)
        assert other.get("/system/atlas-online").json()["engine_reason"] == "their policies"
        other.put("/system/engine-enabled", json={"enabled": True}).raise_for_status()


def test_a_refused_change_is_said_where_no_dialog_asked_and_not_again_of_the_next_row(site: Site, visit: Visit):
    with httpx.Client(
        base_url=f"{site.address}/api/v1", headers=site.world.headers("acme", "tenant_admin"), timeout=60
    ) as client:
        for name in ("one", "two"):
            hook = {"url": f"https://{name}.example/atlas", "events": ["job.failed"]}
            client.post("/webhooks", json=hook).raise_for_status()
    page = visit("/settings?tab=webhooks", role="tenant_admin", tenant="acme")
    rows = page.get_by_role("grid", name="webhooks").get_by_role("row")
    one, two = rows.filter(has_text="one.example"), rows.filter(has_text="two.example")
    expect(one).to_be_visible()
    page.route(re.compile("/api/v1/webhooks/"), refuse_changes)
    said = page.get_by_role("status").filter(has_text=REFUSAL)
    one.get_by_role("button", name="Disable").click()
    expect(said).to_have_count(1)
    one.get_by_role("button", name="Test").click()
    expect(said).to_have_count(2)

    for row, name in ((one, "one"), (two, "two")):
        row.get_by_role("button", name="Remove").click()
        dialog = page.get_by_role("dialog", name="Remove the webhook?")
        expect(dialog).to_contain_text(f"{name}.example")
        expect(dialog.get_by_role("alert")).to_have_count(0)
        dialog.get_by_role("button", name="Remove the webhook").click()
        expect(dialog.get_by_role("alert")).to_contain_text(REFUSAL)
        dialog.get_by_role("button", name="Cancel").click()
    page.unroute_all()


REFUSAL = "It is being moved to another installation."


def refuse_changes(route: Route) -> None:
    """Refuse what is not a read, as Atlas refuses it."""
    if route.request.method == "GET":
        return route.continue_()
    problem = {"type": "urn:atlas:problem:conflict", "title": "Conflict", "status": 409, "detail": REFUSAL}
    problem |= {"remedy": None, "errors": [], "request_id": "abc"}
    return route.fulfill(status=409, content_type="application/problem+json", body=json.dumps(problem))


@pytest.mark.long
def test_a_host_is_renamed_twice_in_its_panel(site: Site, visit: Visit):
    host = site.world.hosts["other"]
    page = visit(f"/workers?tab=hosts&host={host.id}", role="tenant_admin", tenant="other")
    for before, after in ((host.name, "second"), ("second", host.name)):
        panel = page.get_by_role("dialog", name=before, exact=True)
        panel.get_by_role("button", name="Rename").click()
        dialog = page.get_by_role("dialog", name=f"Rename {before}")
        dialog.get_by_label("Name").fill(after)
        dialog.get_by_role("button", name="Rename").click()
        expect(dialog).to_have_count(0)
    expect(page.get_by_role("dialog", name=host.name, exact=True)).to_be_visible()


def test_amounts_are_exact_and_have_their_currency(site: Site, visit: Visit):
    with httpx.Client(
        base_url=f"{site.address}/api/v1", headers=site.world.headers("all", "operator"), timeout=60
    ) as client:
        rule = {"label": "dear", "effect": "review", "workflow": "no.such", "spend_above_cents": 1_234_567}
        client.post("/policies", json=rule).raise_for_status()
        page = visit("/settings?tab=policies")
        # A no-break space stands between the currency and the number.
        expect(page.get_by_role("row").filter(has_text="dear")).to_contain_text(re.compile(r"EUR\s12,345\.67"))
        client.delete("/policies/dear").raise_for_status()
    job = NewJob("nobody.pays", {}, site.world.acme.id, allow_unknown=True)

    async def make() -> None:
        async with site.pool.acquire() as conn:
            await enqueue(conn, job, actor=DANA)
            await conn.execute("update atlas.jobs set cost_cents = 1234567 where id = $1", job.id)

    site.run(make())
    page.goto(f"/jobs/{job.id}")
    expect(page.get_by_text(re.compile(r"EUR\s12,345\.67"))).to_be_visible()


def test_times_are_in_the_readers_zone_and_by_the_servers_clock(site: Site, visit: Visit):
    due_in = timedelta(hours=5)
    job = NewJob("report.build", {"name": "later"}, site.world.acme.id, delay=due_in)

    async def make() -> datetime:
        async with site.pool.acquire() as conn:
            await enqueue(conn, job, actor=DANA)
            return await conn.fetchval("select next_retry_at from atlas.jobs where id = $1", job.id)

    due = site.run(make())

    def set_back(page: Page) -> None:
        page.add_init_script(LATE_CLOCK)

    page = visit(f"/jobs/{job.id}", zone=TOKYO, prepare=set_back)
    explanation = page.get_by_role("status").filter(has_text="Scheduled for")
    expect(explanation).to_contain_text(f"{due.astimezone(ZoneInfo(TOKYO)):%H:%M:%S}")
    expect(explanation).not_to_contain_text("UTC")
    expect(explanation.locator("time")).to_have_attribute("title", re.compile(f"{due.astimezone(UTC):%H:%M:%S}.* UTC"))
    # What has happened is past, whatever the browser's clock says.
    queued = page.get_by_role("term").filter(has_text=re.compile("^Queued")).locator("xpath=following-sibling::dd")
    expect(queued.locator("time")).to_have_text(re.compile("just now|ago$"))
