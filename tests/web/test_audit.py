"""The audit log in a browser: a ledger with seals, a proof that the browser itself checks, and a verification."""

import re

import pytest
from playwright.sync_api import Page, expect

from atlas.audit.record import Event, record
from atlas.db.pool import connect
from tests.support import DANA, some
from tests.web.conftest import PHONE, Visit, serious_violations

# What keeps the rows as they are; the others check what is added.
TRIGGERS = (
    "select tgname from pg_trigger where tgrelid = 'atlas.audit_log'::regclass and tgenabled = 'A' and not tgisinternal"
)


async def add_event(site, action, message, meta=None):
    async with site.pool.acquire() as conn:
        await record(conn, Event(action, "thing", "t-1", DANA, site.world.acme.id, message, meta=meta or {}))
        return await conn.fetchval("select max(id) from atlas.audit_log where action = $1", action)


async def rewrite(site, id, before, after):
    """Change the bytes and the columns of a row behind Atlas's back, as the owner of the server could."""
    owner = await connect(site.url)
    try:
        async with owner.transaction():
            triggers = [row["tgname"] for row in await owner.fetch(TRIGGERS)]
            for name in triggers:
                await owner.execute(f'alter table atlas.audit_log disable trigger "{name}"')
            await owner.execute(
                "update atlas.audit_log set message = $2, body = convert_to(replace(convert_from(body, 'UTF8'), $3, $2), 'UTF8')"
                " where id = $1",
                id,
                after,
                before,
            )
            for name in triggers:
                await owner.execute(f'alter table atlas.audit_log enable always trigger "{name}"')
    finally:
        await owner.close()


def proof(page: Page):
    return page.get_by_role("dialog")


@pytest.mark.long
def test_a_row_is_proved_in_the_browser_and_not_after_it_was_changed(site, visit: Visit):
    id = site.run(add_event(site, "INVOICE_PAID", "Paid 10 euros"))
    page = visit("/audit", role="auditor", tenant="acme")
    row = page.get_by_role("row").filter(has_text="INVOICE_PAID")
    row.click()
    panel = proof(page)
    expect(panel.get_by_text("Proved: this row is in the signed log as it is shown.")).to_be_visible(timeout=30_000)
    expect(panel.locator("[data-step][data-state=passed]")).to_have_count(5)
    expect(page).to_have_url(re.compile(rf"row={id}"))
    # The line above the rows of its seal.
    expect(page.get_by_text(re.compile(r"sealed #[\d,]+ · \d+ rows? · root [0-9a-f]{12}…")).first).to_be_visible()

    site.run(rewrite(site, id, "Paid 10 euros", "Paid 1000 euros"))
    try:
        changed = visit(f"/audit?row={id}", role="auditor", tenant="acme")
        expect(proof(changed).get_by_text("This row is not proved.")).to_be_visible(timeout=30_000)
        expect(proof(changed).locator("[data-step=root]")).to_have_attribute("data-state", "failed")

        whole, own = visit("/audit", role="auditor"), visit("/audit", role="auditor", tenant="acme")
        for verifier in (whole, own):
            verifier.get_by_role("button", name="Verify now").click()
            expect(verifier.get_by_role("heading", name="Verification: damaged")).to_be_visible(timeout=60_000)
            expect(verifier.get_by_text(re.compile(f"row.*{id}", re.IGNORECASE)).first).to_be_visible()
    finally:
        site.run(rewrite(site, id, "Paid 1000 euros", "Paid 10 euros"))
    for verifier, sentence in ((whole, "Nothing was changed"), (own, "No row of this tenant was changed")):
        verifier.get_by_role("button", name="Verify now").click()
        expect(verifier.get_by_role("heading", name="Verification: whole")).to_be_visible(timeout=60_000)
        expect(verifier.get_by_text(sentence)).to_be_visible()


@pytest.mark.long
def test_the_log_follows_what_is_recorded_and_is_searched(site, visit: Visit):
    page = visit("/audit", role="tenant_admin", tenant="acme")
    expect(page.get_by_role("grid", name="audit log")).to_be_visible()
    site.run(add_event(site, "PARCEL_SENT", "The first parcel"))
    expect(page.get_by_text("PARCEL_SENT")).to_be_visible(timeout=15_000)
    page.get_by_role("button", name="Following · pause").click()
    site.run(add_event(site, "PARCEL_LOST", "The second parcel"))
    expect(page.get_by_role("button", name=re.compile("new · follow"))).to_be_visible(timeout=15_000)
    expect(page.get_by_text("PARCEL_LOST")).to_have_count(0)
    page.get_by_role("button", name=re.compile("new · follow")).click()
    expect(page.get_by_text("PARCEL_LOST")).to_be_visible()

    page.keyboard.press("/")
    page.keyboard.type("second parcel")
    page.keyboard.press("Enter")
    expect(page.get_by_text("PARCEL_SENT")).to_have_count(0)
    expect(page.get_by_text("PARCEL_LOST")).to_be_visible()
    expect(page).to_have_url(re.compile("text=second"))
    page.get_by_role("button", name="Remove the filter Text second parcel").click()
    expect(page.get_by_text("PARCEL_SENT")).to_be_visible()

    page.get_by_role("button", name="Time").click()
    page.get_by_role("button", name="Last 15 minutes").click()
    expect(page).to_have_url(re.compile(r"last=15m"))
    expect(page.get_by_text("PARCEL_SENT")).to_be_visible()
    page.get_by_role("button", name="Change").click()
    page.get_by_label("To", exact=True).fill("2020-01-01T00:00")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page).to_have_url(re.compile(r"until=20(19|20)-"))
    expect(page.get_by_text("No audit rows match these filters")).to_be_visible()
    page.get_by_role("button", name="Clear the filters").click()
    expect(page.get_by_text("PARCEL_SENT")).to_be_visible()

    page.get_by_role("button", name="Action", exact=True).click()
    page.get_by_placeholder("JOB_FAILED, JOB_CANCELED").fill("PARCEL_LOST, TOKEN_ADDED")
    page.keyboard.press("Enter")
    expect(page.get_by_text("PARCEL_SENT")).to_have_count(0)
    expect(page.get_by_role("row").filter(has_text="PARCEL_LOST")).to_be_visible()
    page.goto("/audit")
    page.get_by_label("People only").click()
    expect(page).to_have_url(re.compile("people=true"))
    expect(page.get_by_label("People only")).to_be_checked()
    expect(page.get_by_role("row").filter(has_text="PARCEL_LOST")).to_be_visible()

    operator = visit("/audit?text=parcel")
    expect(operator.get_by_role("row").filter(has_text="PARCEL_SENT")).to_contain_text("acme")


def test_a_filter_that_is_refused_is_said(visit: Visit):
    page = visit("/audit?action=job-failed")
    expect(page.get_by_role("alert")).to_contain_text("The request is not valid")


@pytest.mark.long
def test_each_role_sees_the_parts_that_it_may(visit: Visit):
    admin = visit("/audit", role="tenant_admin", tenant="acme")
    expect(admin.get_by_role("tab")).to_have_text(["Log", "Seals and checkpoints", "Verifications", "Access report"])
    admin.get_by_role("tab", name="Seals and checkpoints").click()
    expect(admin.get_by_role("grid", name="signed checkpoints")).to_be_visible(timeout=15_000)

    tabs = {
        ("all", "operator"): [
            *("Tokens", "Sessions", "Tenants", "Commands", "Policies", "Retention", "Webhooks", "Grants", "System")
        ],
        ("acme", "tenant_admin"): ["Tokens", "Sessions", "Policies", "Retention", "Webhooks", "Grants"],
        ("acme", "auditor"): ["Sessions", "Policies", "Retention", "Webhooks", "Grants"],
        ("acme", "enqueuer"): ["Sessions"],
    }
    for (tenant, role), names in some(list(tabs.items()), every=2):
        page = visit("/settings", role=role, tenant=tenant)
        expect(page.get_by_role("tab")).to_have_text(names)
    expect(
        visit("/settings?tab=policies", role="auditor", tenant="acme").get_by_role("button", name="New rule")
    ).to_have_count(0)


def test_a_token_is_made_shown_once_and_revoked(visit: Visit):
    page = visit("/settings?tab=tokens", role="tenant_admin", tenant="acme")
    page.get_by_role("button", name="New token").click()
    page.get_by_label("Subject").fill("billing-robot")
    page.get_by_role("button", name="Create the token").click()
    expect(page.get_by_text(re.compile("^atl_[a-z2-7]{8}_"))).to_be_visible()
    page.get_by_role("button", name="I have copied it").click()
    row = page.get_by_role("row").filter(has_text="billing-robot")
    expect(row).to_contain_text("tenant_admin@acme")
    row.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(row).to_contain_text("revoked")


@pytest.mark.slow
@pytest.mark.parametrize("size", [None, PHONE], ids=["wide", "narrow"])
def test_the_pages_have_no_serious_violation(site, visit: Visit, size):
    site.run(add_event(site, "LOOKED_AT", "by axe"))
    more = {} if size is None else {"size": size}
    paths = (
        "/audit",
        "/audit?tab=seals",
        "/audit?tab=verifications",
        "/settings?tab=tokens",
        "/settings?tab=retention",
        "/outbox",
    )
    page = visit(axe=True, **more)
    for path in paths:
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        page.wait_for_load_state("networkidle")
        assert serious_violations(page) == [], path
