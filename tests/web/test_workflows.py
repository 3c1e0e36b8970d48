"""A workflow with an approval, from its start to its end, as the people who take part in it see it."""

import re

import pytest
from playwright.sync_api import expect

from atlas.ids import new_id
from tests.web.conftest import Visit, serious_violations
from tests.web.site import Site
from tests.web.test_management import RUN, STEP

NOT_HTML = "<img src=x onerror=alert(1)>"


def test_a_payout_waits_for_another_person_and_goes_on(site, visit: Visit):
    requester = visit("/runs", role="tenant_admin", tenant="acme", axe=True)
    requester.get_by_role("button", name="Start a workflow").first.click()
    dialog = requester.get_by_role("dialog", name="Start a workflow")
    dialog.get_by_label("Workflow").select_option("payout")
    dialog.get_by_label("To required").fill("ann@example.com")
    dialog.get_by_label("Amount cents").fill("1250")
    dialog.get_by_role("button", name="Start payout").click()

    expect(requester.get_by_role("heading", name="payout", level=1)).to_be_visible()
    expect(requester.get_by_text("Waiting for")).to_be_visible(timeout=30_000)
    run_id = re.search(r"/runs/([0-9a-f-]{36})", requester.url)[1]
    requester.get_by_role("button", name=re.compile("^approve")).click()
    assert serious_violations(requester) == []
    requester.get_by_role("link", name="Open the approval").click()
    expect(requester.get_by_text("another person decides").first).to_be_visible()

    # The list says what it waits for, and its page decides: for whom, what and how much stands beside the question.
    decider = visit("/runs", axe=True)
    row = decider.get_by_role("row").filter(has_text="payout").first
    expect(row).to_contain_text(re.compile("waiting for approval, expires in 3 h"))
    decider.goto(f"/runs/{run_id}")
    decider.get_by_role("status").get_by_role("button", name="Approve").click()
    asked = decider.get_by_role("dialog", name="Approve: Pay ann@example.com?")
    for fact in ("acme", "payout", "in code", "tenant_admin@acme", "0.00"):
        expect(asked.get_by_text(fact).first).to_be_visible()
    # The amount is there once: what the workflow adds is not the input again.
    expect(asked.get_by_text("1250")).to_have_count(1)
    assert serious_violations(decider) == []
    asked.get_by_role("button", name="Cancel").click()

    decider.goto("/approvals")
    expect(decider.get_by_role("navigation").get_by_role("link", name="Approvals")).to_contain_text("1")
    decider.get_by_role("row", name=re.compile("Pay ann@example.com")).click()
    panel = decider.get_by_role("dialog", name="Pay ann@example.com?")
    expect(panel.get_by_role("group", name="input")).to_contain_text("1250")
    assert serious_violations(decider) == []
    panel.get_by_role("button", name="Approve").click()
    asked = decider.get_by_role("dialog", name="Approve: Pay ann@example.com?")
    expect(asked.get_by_role("group", name="input")).to_contain_text("1250")
    asked.get_by_label("Comment").fill(NOT_HTML)
    asked.get_by_role("button", name="Approve it").click()
    expect(decider.get_by_text("No pending approvals")).to_be_visible()

    requester.goto(f"/runs/{run_id}")
    expect(requester.get_by_text("It succeeded after")).to_be_visible(timeout=30_000)
    requester.goto("/approvals?status=approved")
    requester.get_by_role("row", name=re.compile("Pay ann@example.com")).click()
    expect(requester.get_by_text(NOT_HTML)).to_be_visible()

    requester.goto("/runs?status=succeeded")
    expect(requester.get_by_role("row", name=re.compile("payout"))).to_be_visible()
    requester.get_by_role("button", name="Remove the filter Status").click()
    expect(requester).to_have_url(f"{site.address}/runs")


def test_a_run_that_undid_its_steps_is_forked_and_not_retried(site: Site, visit: Visit):
    run_id = new_id()
    tenant = site.world.acme.id
    site.run(site.pool.execute(UNDONE, run_id, tenant))
    site.run(site.pool.execute(RUN, run_id, tenant, "ship"))
    site.run(site.pool.execute(STEP, run_id, 0, tenant, "book", 1.0))
    page = visit(f"/jobs/{run_id}", role="tenant_admin", tenant="acme")
    why = page.get_by_role("status").filter(has_text="undid its steps: no seats")
    expect(why).to_contain_text("Fork it from its first step")
    expect(page.get_by_role("button", name="Retry")).to_have_count(0)
    why.get_by_role("button", name="Open the run").click()
    expect(page).to_have_url(re.compile(f"/runs/{run_id}"))
    expect(page.get_by_role("button", name="Fork")).to_be_visible()
    expect(page.get_by_role("button", name="Retry")).to_have_count(0)

    # In the lists the key forks it too, and so does the bar of what is chosen.
    dialog = page.get_by_role("dialog", name="Fork from book?")
    for path, grid in ((f"/jobs?id_prefix={run_id}", "Jobs"), ("/runs?workflow=ship", "Workflow runs")):
        page.goto(path)
        expect(page.get_by_role("grid", name=grid).get_by_role("row")).to_have_count(2)
        page.keyboard.press("j")
        page.keyboard.press("r")
        expect(dialog).to_be_visible()
        dialog.get_by_role("button", name="Cancel").click()
    page.goto(f"/jobs?id_prefix={run_id}")
    page.get_by_role("checkbox", name="Choose all rows").check()
    bar = page.get_by_role("toolbar", name="Chosen jobs")
    expect(bar.get_by_role("button", name="Retry")).to_have_count(0)
    bar.get_by_role("button", name="Fork").click()
    expect(dialog).to_be_visible()


UNDONE = """
insert into atlas.jobs (id, tenant_id, job_type, status, input, error, started_at, finished_at, attempt_count)
values ($1, $2, 'ENGINE_RUN', 'failed', '{"workflow": "ship", "input": {}}',
  '{"type": "StepFailed", "message": "no seats", "compensated": ["book"]}', now(), now(), 1)"""


@pytest.mark.long
def test_a_run_is_signaled_and_canceled(visit: Visit):
    page = visit("/runs", role="tenant_admin", tenant="other")
    expect(page.get_by_text("No runs yet")).to_be_visible()
    page.get_by_role("button", name="Start a workflow").first.click()
    dialog = page.get_by_role("dialog", name="Start a workflow")
    dialog.get_by_label("Workflow").select_option("payout")
    dialog.get_by_label("To required").fill("ann@example.com")
    dialog.get_by_label("Amount cents").fill("1")
    dialog.get_by_role("button", name="Start payout").click()

    expect(page.get_by_text("Waiting for")).to_be_visible(timeout=30_000)
    page.get_by_role("button", name="Signal").click()
    page.get_by_role("dialog").get_by_label("Event").fill("nothing.awaits.this")
    page.get_by_role("dialog").get_by_role("button", name="Send").click()
    expect(page.get_by_text("Sent; no step waits for it yet", exact=True)).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the run").click()
    expect(page.get_by_text("Canceled. Completed steps are not undone.")).to_be_visible(timeout=30_000)
