"""What the command line manages, in the browser: groups, webhooks, servers, grants, tenants, the engine, slow steps."""

import re
from datetime import UTC, datetime

import orjson
import pytest
from playwright.sync_api import Page, expect

from atlas.engine.effects.reports import save_report
from atlas.engine.enqueue import enqueue_group
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.tenants.tenants import add_tenant
from atlas.ids import new_id
from atlas.models.effect_reports import EffectReport
from tests.support import DANA, given_doubt
from tests.web.conftest import Visit, serious_violations
from tests.web.site import Site
from tests.web.test_jobs import given_jobs

SLOW = 30_000
STEP = """
insert into atlas.workflow_steps (run_id, branch, position, tenant_id, name, kind, status, started_at, finished_at)
values ($1, '', $2, $3, $4, 'step', 'succeeded', now(), now() + $5 * interval '1 second')"""
RUN = "insert into atlas.workflow_runs (id, tenant_id, workflow, requested_by, events_from) values ($1, $2, $3, 'dana', 0)"


async def given_tenant(site: Site, slug: str) -> None:
    """A tenant with a group of two jobs that no worker serves, and a run of a slow and a quick step."""
    async with site.pool.acquire() as conn:
        tenant = await add_tenant(conn, slug=slug, name=slug, actor=DANA)
        jobs = [NewJob("nobody.packs", {"parcel": number}, tenant.id, allow_unknown=True) for number in (1, 2)]
        await enqueue_group(conn, jobs, name="parcels", tenant_id=tenant.id, actor=DANA)
        run_id = new_id()
        await conn.execute(RUN, run_id, tenant.id, "ship")
        for position, (name, seconds) in enumerate((("pack", 30.0), ("label", 10.0))):
            await conn.execute(STEP, run_id, position, tenant.id, name, seconds)


@pytest.mark.long
def test_an_operator_manages_what_the_command_line_can(site: Site, visit: Visit):
    site.run(given_tenant(site, "managed"))
    page = visit("/groups?tenant=managed", axe=True)
    page.get_by_role("row").filter(has_text="parcels").click(timeout=SLOW)
    panel = page.get_by_role("dialog", name="parcels")
    expect(panel.get_by_role("link", name="2 jobs")).to_be_visible()
    assert serious_violations(page) == []
    panel.get_by_role("button", name="Cancel jobs").click()
    confirm(page, "Cancel 2 jobs?", "Cancel 2 jobs")
    panel.get_by_role("button", name="Retry jobs").click(timeout=SLOW)
    confirm(page, "Retry 2 jobs?", "Retry 2 jobs")
    panel.get_by_role("link", name="2 jobs").click()
    expect(page.get_by_role("button", name=re.compile("Remove the filter Group"))).to_be_visible()
    expect(page.get_by_role("grid").get_by_text("nobody.packs").first).to_be_visible(timeout=SLOW)

    # The slowest steps have their share of the whole time.
    page.goto("/insights?tenant=managed&by=steps")
    slowest = page.get_by_role("grid", name="Slowest steps").get_by_role("row")
    expect(slowest.nth(1)).to_contain_text(re.compile(r"pack.*30 s.*30 s.*75%"), timeout=SLOW)
    expect(slowest.nth(2)).to_contain_text("25%")
    assert serious_violations(page) == []
    page.get_by_role("tab", name="Usage").click()
    expect(page.get_by_role("heading", name="No attempt finished in this period")).to_be_visible()

    manage_webhooks(page)
    page.goto("/settings?tab=system&tenant=managed")
    page.get_by_role("switch", name="Requests for workflows become runs").click(timeout=SLOW)
    confirm(page, "Switch the engine off?", "Switch off")
    expect(page.get_by_text("Off: workflow requests wait.")).to_be_visible()
    page.get_by_role("switch", name="Requests for workflows become runs").click()
    confirm(page, "Switch the engine on?", "Switch on")
    expect(page.get_by_role("region", name="Findings")).to_be_visible()
    assert serious_violations(page) == []

    page.goto("/settings?tab=tenants&edit=managed")
    dialog = page.get_by_role("dialog", name="Edit managed")
    dialog.get_by_label("Jobs in flight").fill("7", timeout=SLOW)
    dialog.get_by_label("Rate of starts").fill("often")
    dialog.get_by_text("Quotas", exact=True).click()
    dialog.get_by_label("Tokens", exact=True).fill("5000")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_label("Rate of starts")).to_have_attribute("aria-invalid", "true", timeout=SLOW)
    dialog.get_by_label("Rate of starts").fill("")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0, timeout=SLOW)
    limits = site.run(site.pool.fetchval("select limits::text from atlas.tenants where slug = 'managed'"))
    assert orjson.loads(limits) == {"in_flight": 7, "quotas": {"tokens": 5000}}

    # With all tenants, each row names its own.
    page.goto("/groups")
    expect(page.get_by_role("row").filter(has_text="parcels").get_by_text("managed")).to_be_visible(timeout=SLOW)
    page.goto("/groups?tenant=managed")
    add_group(page)

    page.goto("/settings?tab=tenants")
    page.get_by_role("row").filter(has_text="managed").get_by_role("button", name="Remove").click(timeout=SLOW)
    dialog = page.get_by_role("dialog", name="Remove the tenant managed?")
    expect(dialog.get_by_role("button", name="Remove the tenant")).to_be_disabled()
    dialog.get_by_label("Type managed to confirm").fill("managed")
    dialog.get_by_label("Cancel its work").check()
    dialog.get_by_role("button", name="Remove the tenant").click()
    expect(dialog).to_have_count(0, timeout=SLOW)


def add_group(page: Page) -> None:
    page.get_by_role("button", name="New group").click()
    dialog = page.get_by_role("dialog", name="New group")
    dialog.get_by_label("Name").fill("letters")
    dialog.get_by_label("Job type").fill("report.build")
    dialog.get_by_label("Inputs").fill("[1]")
    expect(dialog.get_by_role("button", name="Enqueue")).to_be_disabled()
    dialog.get_by_label("Inputs").fill('[{"name": "a"}, {"name": "b"}, {"name": "c"}]')
    dialog.get_by_role("button", name="Enqueue 3 jobs").click()
    added = page.get_by_role("dialog", name="letters")
    expect(added.get_by_role("link", name="3 jobs")).to_be_visible(timeout=SLOW)
    added.get_by_role("button", name="Close").click()


def test_a_doubt_is_settled_and_a_reconciliation_is_read(site: Site, visit: Visit):
    job_id = given_jobs(site, NewJob("nobody.charges", {}, site.world.acme.id, allow_unknown=True))[0]
    site.run(given_doubt(site.pool, job_id))
    site.run(add_report(site))
    page = visit("/effects", axe=True)
    page.get_by_role("button", name="It was made: stripe.charge").click(timeout=SLOW)
    dialog = page.get_by_role("dialog", name="stripe.charge was made?")
    dialog.get_by_label("Reference").fill("ch_1")
    dialog.get_by_role("button", name="It was made").click()
    expect(page.get_by_role("heading", name="No effect is in doubt")).to_be_visible(timeout=SLOW)
    page.get_by_label("State").select_option("done")
    expect(page.get_by_role("row").filter(has_text="ch_1")).to_contain_text("acme", timeout=SLOW)

    page.get_by_role("tab", name="Reconciliations").click()
    page.get_by_role("row").filter(has_text="stripe").click(timeout=SLOW)
    panel = page.get_by_role("dialog", name="stripe")
    expect(panel).to_contain_text("made more than once by the provider")
    assert serious_violations(page) == []
    panel.get_by_role("link", name="Each difference, in the audit log").click()
    expect(page.get_by_role("grid", name="audit log").get_by_text("EFFECTS_RECONCILED").first).to_be_visible(
        timeout=SLOW
    )


async def add_report(site: Site) -> None:
    numbers = {"effects": 3, "entries": 4, "in_doubt": 0, "differences": 1, "settled": 0, "counts": {"twice": 1}}
    times = dict.fromkeys(("since", "visible_before", "finished_at"), datetime.now(UTC))
    async with site.pool.acquire() as conn:
        await save_report(conn, EffectReport(provider="stripe", rows=[], **numbers, **times), actor=DANA)


def manage_webhooks(page: Page) -> None:
    page.goto("/settings?tab=webhooks&tenant=managed")
    page.get_by_role("button", name="New webhook").click(timeout=SLOW)
    dialog = page.get_by_role("dialog", name="New webhook")
    dialog.get_by_label("Address").fill("https://shop.example/atlas")
    dialog.get_by_label("Events").fill("job.failed")
    dialog.get_by_role("button", name="Save").click()
    page.get_by_role("dialog", name="Copy the secret now").get_by_role("button", name="I have copied it").click()
    row = page.get_by_role("row").filter(has_text="https://shop.example/atlas")
    row.get_by_role("button", name="Disable").click()
    expect(row.get_by_text("disabled")).to_be_visible()
    expect(row.get_by_role("link", name="Deliveries")).to_have_attribute("href", re.compile("correlation_id=webhook"))
    row.get_by_role("button", name="Rotate").click()
    page.get_by_role("dialog", name="Rotate the secret?").get_by_role("button", name="Rotate the secret").click()
    rotated = page.get_by_role("dialog", name="Copy the new secret now")
    expect(rotated).to_contain_text("whsec_")
    rotated.get_by_role("button", name="I have copied it").click()
    row.get_by_role("button", name="Remove").click()
    confirm(page, "Remove the webhook?", "Remove the webhook")
    page.get_by_role("button", name="New inbound hook").click()
    dialog = page.get_by_role("dialog", name="New inbound hook")
    dialog.get_by_label("Event").fill("payment.received")
    dialog.get_by_role("button", name="Add the hook").click()
    secret = page.get_by_role("dialog", name="Copy the secret now")
    expect(secret).to_contain_text("/hooks/")
    secret.get_by_role("button", name="I have copied it").click()
    expect(page.get_by_role("row").filter(has_text="payment.received")).to_be_visible()
    assert serious_violations(page) == []


def confirm(page: Page, title: str, action: str) -> None:
    page.get_by_role("dialog", name=title).get_by_role("button", name=action).click()
    expect(page.get_by_role("dialog", name=title)).to_have_count(0, timeout=SLOW)


@pytest.mark.long
def test_what_an_operator_of_all_tenants_makes_is_of_the_tenant_that_they_choose(site: Site, visit: Visit):
    host = site.world.hosts["other"]
    page = visit("/schedules")
    page.get_by_role("button", name="New trigger").first.click()
    dialog = page.get_by_role("dialog", name="New trigger")
    dialog.get_by_label("Name", exact=False).first.fill("Chosen")
    dialog.get_by_label("Fires").select_option("on an event")
    dialog.get_by_label("Event").fill("order.chosen")
    dialog.get_by_label("Name of the job").fill("report.build")
    expect(dialog.get_by_role("button", name="Add trigger")).to_be_disabled()
    dialog.get_by_label("Tenant").select_option("other")
    with page.expect_request(lambda request: request.method == "POST" and "/triggers?" in request.url) as sent:
        dialog.get_by_role("button", name="Add trigger").click()
    assert sent.value.url.endswith("?tenant=other")

    for address, button in (
        ("/schedules?tab=events", "Publish an event"),
        ("/settings?tab=webhooks", "New webhook"),
        ("/settings?tab=webhooks", "New inbound hook"),
        ("/workers?tab=hosts", "Add a host"),
    ):
        page.goto(address)
        page.get_by_role("button", name=button).first.click(timeout=SLOW)
        dialog = page.get_by_role("dialog", name=button)
        expect(dialog.get_by_label("Tenant")).to_have_value("")
        for field in dialog.get_by_role("textbox").all():
            if field.input_value() in ("", "https://"):
                field.fill("https://shop.example/x" if field.input_value() else "some.thing")
        expect(dialog.locator("[type=submit]")).to_be_disabled()
        dialog.get_by_label("Tenant").select_option("acme")
        expect(dialog.locator("[type=submit]")).to_be_enabled()

    # The token of a host is for that host alone, and goes with what was created with it.
    page.goto("/settings?tab=tokens")
    page.get_by_role("button", name="New token").click(timeout=SLOW)
    dialog = page.get_by_role("dialog", name="New token")
    dialog.get_by_label("Subject").fill("the agent of a box")
    dialog.get_by_label("Role").select_option("host")
    dialog.get_by_label("Tenant").select_option("other")
    expect(dialog.get_by_role("button", name="Create the token")).to_be_disabled()
    dialog.get_by_label("Host", exact=False).last.select_option(host.name)
    dialog.get_by_role("button", name="Create the token").click()
    page.get_by_role("dialog", name="Copy the token now").get_by_role("button", name="I have copied it").click()
    scopes = "select scopes->>'host_id' from atlas.api_tokens where subject = 'the agent of a box'"
    assert site.run(site.pool.fetchval(scopes)) == str(host.id)
    page.get_by_role("row").filter(has_text="the agent of a box").get_by_role("button", name="Revoke").click()
    dialog = page.get_by_role("dialog", name="Revoke the token of the agent of a box?")
    dialog.get_by_label("Also revoke the tokens created with it").check()
    dialog.get_by_role("button", name="Revoke").click()
    expect(dialog).to_have_count(0, timeout=SLOW)

    page.goto("/settings?tab=tenants")
    page.get_by_role("row").filter(has_text="other").get_by_role("button", name="Move", exact=True).click(timeout=SLOW)
    expect(page.get_by_role("dialog", name="Move the tenant other")).to_contain_text("tenant export other other.zip")
