"""Schedules, events and workers in the browser."""

import re

import pytest
from playwright.sync_api import expect

from tests.web.conftest import Visit, serious_violations


def test_a_schedule_is_previewed_added_fired_disabled_and_removed(visit: Visit):
    page = visit("/schedules", role="tenant_admin", tenant="acme", axe=True)
    page.get_by_role("button", name="New trigger").first.click()
    dialog = page.get_by_role("dialog", name="New trigger")
    dialog.get_by_label("Name", exact=False).first.fill("Night report")
    dialog.get_by_label("Cron expression").fill("30 2 * * *")
    dialog.get_by_label("Time zone").fill("Europe/Berlin")
    expect(dialog.get_by_label("Next times").get_by_role("listitem")).to_have_count(5)
    dialog.get_by_label("Cron expression").fill("61 2 * * *")
    expect(dialog.get_by_label("Next times")).to_contain_text("61")
    dialog.get_by_label("Cron expression").fill("30 2 * * *")
    dialog.get_by_label("Name of the job").fill("report.build")
    dialog.get_by_label("Input").fill('{"name": ')
    expect(dialog.get_by_role("button", name="Add trigger")).to_be_disabled()
    dialog.get_by_label("Input").fill('{"name": "night"}')
    dialog.get_by_role("button", name="Add trigger").click()

    panel = page.get_by_role("dialog", name="Night report")
    expect(panel).to_contain_text("30 2 * * *")
    expect(panel.get_by_role("listitem")).to_have_count(10)
    assert serious_violations(page) == []
    panel.get_by_role("button", name="Fire now").click()
    page.get_by_role("dialog", name="Fire Night report now?").get_by_role("button", name="Fire now").click()
    expect(panel.get_by_role("grid", name="Firings").get_by_text("fired", exact=True)).to_be_visible()

    panel.get_by_role("switch", name="Night report is enabled").click()
    expect(panel).to_contain_text("The trigger is disabled and does not fire.")
    row = page.get_by_role("grid", name="Triggers").get_by_role("row").filter(has_text="Night report")
    expect(row.get_by_text("disabled")).to_be_visible()
    panel.get_by_role("button", name="Edit the trigger").click()
    edit = page.get_by_role("dialog", name="Change Night report")
    edit.get_by_label("Name", exact=False).first.fill("Day report")
    edit.get_by_role("button", name="Save").click()
    panel = page.get_by_role("dialog", name="Day report")
    panel.get_by_role("button", name="Remove the trigger").click()
    page.get_by_role("dialog", name="Remove Day report?").get_by_role("button", name="Remove trigger").click()
    expect(page.get_by_role("row", name=re.compile("Day report"))).to_have_count(0)


@pytest.mark.long
def test_an_event_is_published_and_listed_with_its_context(visit: Visit):
    page = visit("/schedules?tab=events", role="tenant_admin", tenant="acme")
    page.get_by_role("button", name="Publish an event").click()
    dialog = page.get_by_role("dialog", name="Publish an event")
    dialog.get_by_label("Name").fill("invoice.paid")
    dialog.get_by_label("Context").fill('{"invoice": 4711}')
    dialog.get_by_role("button", name="Publish", exact=True).click()
    page.get_by_role("grid", name="Events").get_by_text("invoice.paid").first.click()
    expect(page.get_by_role("dialog", name="invoice.paid")).to_contain_text("4711")

    page.goto("/schedules?tab=events&name=no.such.*")
    expect(page.get_by_role("heading", name="No events named no.such.*")).to_be_visible()
    page.get_by_role("button", name="Clear the filter").click()
    expect(page.get_by_role("grid", name="Events").get_by_text("invoice.paid").first).to_be_visible()


@pytest.mark.long
def test_workers_are_for_operators_and_hosts_for_their_tenant(visit: Visit):
    page = visit("/workers", axe=True)
    page.get_by_role("grid", name="Workers").get_by_text("alive").first.click()
    panel = page.get_by_role("dialog").first
    expect(panel).to_contain_text("report.build")
    panel.get_by_role("button", name="Drain").click()
    expect(page.get_by_role("dialog", name="Drain this worker?")).to_contain_text("claims no more jobs")
    page.get_by_role("dialog", name="Drain this worker?").get_by_role("button", name="Cancel").click()
    assert serious_violations(page) == []

    tenant = visit("/workers", role="tenant_admin", tenant="acme")
    expect(tenant.get_by_role("heading", name="Hosts", level=1)).to_be_visible()
    tenant.get_by_role("button", name="Add a host").first.click()
    tenant.get_by_role("dialog", name="Add a host").get_by_label("Name").fill("backup-box")
    tenant.get_by_role("dialog", name="Add a host").get_by_role("button", name="Add host").click()
    host = tenant.get_by_role("dialog", name="backup-box")
    expect(host).to_contain_text("Its agent has not called yet.")
    host.get_by_role("switch", name="backup-box fetches jobs").click()
    expect(host).to_contain_text("It may fetch no new jobs.")
    host.get_by_role("button", name="Remove").click()
    tenant.get_by_role("dialog", name="Remove backup-box?").get_by_role("button", name="Remove host").click()
    expect(tenant.get_by_role("row", name=re.compile("backup-box"))).to_have_count(0)

    reader = visit("/schedules", role="auditor", tenant="acme")
    expect(reader.get_by_role("heading", name="Schedules", level=1)).to_be_visible()
    expect(reader.get_by_role("button", name="New trigger")).to_have_count(0)
