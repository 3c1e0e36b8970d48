"""The page of a run: its graph beside its events, sub-runs in place, a fork from a step, and two runs side by side."""

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.web.conftest import PHONE, Visit, serious_violations
from tests.web.site import Site

# From the steps to their picture; the machine may be busy.
MAX_MS = 1000
DOCUMENT = {
    "key": "gifts",
    "steps": [
        {"id": "wrap", "each": "{{ input.gifts }}", "job": "report.build", "with": {"name": "{{ item }}"}},
        {"id": "card", "if": "input.card", "job": "report.build", "with": {"name": "card"}},
        {"id": "agree", "needs": ["wrap", "card"], "approval": "Send them?", "timeout": "4h"},
        {"id": "ask", "needs": ["wrap"], "event": "gifts.paid", "with": {"of": "ann"}, "timeout": "2d"},
        {"id": "send", "needs": ["ask"], "job": "report.build", "with": {"name": "gifts"}},
    ],
}


@pytest.fixture
def admin(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=f"{site.address}/api/v1/", headers=site.world.headers("acme", "tenant_admin"), timeout=60
    ) as client:
        yield client


def ask_for(admin: httpx.Client, workflow: str, input: dict[str, Any]) -> str:
    answer = admin.post("intents", json={"workflow": workflow, "input": input})
    assert answer.status_code == 201, answer.text
    run_id: str = answer.json()["id"]
    return run_id


def decide(site: Site, admin: httpx.Client, run_id: str) -> None:
    [approval] = admin.get("approvals", params={"run_id": run_id, "status": "pending"}).json()["items"]
    with httpx.Client(base_url=site.address, headers=site.world.headers("all", "operator"), timeout=60) as operator:
        answer = operator.post(f"/api/v1/approvals/{approval['id']}/decision", json={"approve": True})
        assert answer.status_code == 200, answer.text


def node(page: Page, name: str) -> Locator:
    return page.get_by_role("group", name="Graph of").get_by_role("button", name=re.compile(f"^{name}"))


def event(page: Page, name: str) -> Locator:
    return page.get_by_role("listbox", name="Events").get_by_role("option", name=re.compile(name))


@pytest.mark.long
def test_a_run_is_followed_in_its_graph_then_forked_and_compared(site: Site, visit: Visit, admin: httpx.Client):
    run_id = ask_for(admin, "order", {"number": "o-1", "is_lost": True})
    page = visit(f"/runs/{run_id}", role="tenant_admin", tenant="acme", axe=True)
    expect(page.get_by_text("Waiting for approval")).to_be_visible(timeout=30_000)
    expect(node(page, "reserve step succeeded")).to_be_visible()
    expect(node(page, "weigh group succeeded · 4 rounds")).to_be_visible()
    expect(node(page, "approve approval waiting · until")).to_be_visible()
    assert serious_violations(page) == []

    # One lights the other.
    event(page, "label started report.build").hover()
    expect(node(page, "label")).to_have_attribute("data-lit", "true")
    node(page, "weigh").hover()
    expect(event(page, "weigh#3 succeeded")).to_have_attribute("data-lit", "true")

    # Sub-runs and loops open in place.
    page.get_by_role("button", name="Unfold screen").click()
    expect(node(page, "history step succeeded")).to_be_visible()
    expect(event(page, "screen › history")).to_be_visible()
    page.get_by_role("button", name="Unfold weigh").click()
    expect(node(page, "weigh#4")).to_be_visible()

    # From node to node by the keys.
    node(page, "reserve").focus()
    page.keyboard.press("ArrowDown")
    expect(node(page, "weigh group")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(node(page, "weigh step")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Step weigh").get_by_role("group", name="output")).to_contain_text("0")
    expect(page).to_have_url(re.compile("step=weigh"))

    # It goes on while it is looked at.
    decide(site, admin, run_id)
    expect(node(page, "ship step failed")).to_be_visible(timeout=30_000)
    expect(node(page, "approve approval succeeded.*approved by operator")).to_be_visible()
    event(page, "ship failed: .*the parcel is lost").click()
    panel = page.get_by_role("region", name="Step ship")
    expect(panel.get_by_role("group", name="error")).to_contain_text("the parcel is lost")

    # The fork asks again: an approval is for one run.
    panel.get_by_role("button", name="Fork from here").click()
    page.get_by_role("dialog", name="Fork from ship?").get_by_role("button", name="Fork the run").click()
    expect(page.get_by_text("forked from")).to_be_visible(timeout=30_000)
    fork_id = re.search(r"/runs/([0-9a-f-]{36})", page.url)[1]
    assert fork_id != run_id
    expect(node(page, "approve approval waiting")).to_be_visible(timeout=30_000)

    # Two runs side by side; the address says which.
    page.get_by_role("tab", name="Compare").click()
    page.get_by_label("Compare with").select_option(run_id)
    expect(page).to_have_url(re.compile(f"with={run_id}"))
    page.reload()
    row = page.get_by_role("row", name=re.compile("^ship"))
    expect(row).to_contain_text("only in the other")
    page.get_by_role("row", name=re.compile("^approve")).click()
    expect(page.get_by_role("region", name="Differences of approve")).to_be_visible()
    assert serious_violations(page) == []
    decide(site, admin, fork_id)
    expect(row).to_contain_text("the same", timeout=30_000)


@pytest.mark.long
def test_a_declared_run_shows_what_it_left_out_and_what_is_to_come(site: Site, visit: Visit, admin: httpx.Client):
    assert admin.post("workflows", json={"document": DOCUMENT}).status_code == 201
    run_id = ask_for(admin, "gifts", {"gifts": ["book", "tea", "sock"], "card": False})
    page = visit(f"/runs/{run_id}", role="tenant_admin", tenant="acme", theme="dark", axe=True)
    expect(node(page, "ask event waiting · gifts.paid · until")).to_be_visible(timeout=30_000)
    expect(page.get_by_text("Waiting for event gifts.paid")).to_be_visible()
    expect(node(page, "card job if.* skipped")).to_be_visible()
    expect(node(page, "agree approval skipped")).to_be_visible()
    expect(node(page, "send job not reached")).to_be_visible()
    page.get_by_role("button", name="Unfold wrap").click()
    expect(node(page, "wrap 2 job succeeded")).to_be_visible()
    node(page, "send").click()
    expect(page.get_by_text("The run has not reached this step.")).to_be_visible()
    assert serious_violations(page) == []

    phone = visit(f"/runs/{run_id}", role="auditor", tenant="acme", size=PHONE, axe=True)
    event(phone, "ask waits for the event").click()
    expect(phone.get_by_role("region", name="Step ask").get_by_text("Waits for the event gifts.paid")).to_be_visible()
    expect(phone.get_by_role("button", name="Fork from here")).to_have_count(0)
    phone.get_by_role("tab", name="Graph").click()
    expect(node(phone, "ask event waiting")).to_be_visible()
    assert phone.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert serious_violations(phone) == []


@pytest.mark.slow
def test_five_hundred_steps_are_drawn_at_once_and_scroll(site: Site, visit: Visit, admin: httpx.Client):
    run_id = ask_for(admin, "long", {"steps": 125})
    page = visit(f"/runs/{run_id}", role="tenant_admin", tenant="acme")
    expect(page.get_by_text("It succeeded after")).to_be_visible(timeout=60_000)
    page.reload()
    expect(node(page, "north 0 step succeeded")).to_be_visible()
    page.wait_for_function("performance.getEntriesByName('graph-drawn').length > 0")
    drawn = page.evaluate("performance.getEntriesByName('graph-drawn').map((one) => [one.detail, one.duration])")
    assert drawn[-1][0] == 502
    assert max(duration for _, duration in drawn) < MAX_MS

    # What is out of view is not in the page; the keys lead there all the same.
    expect(node(page, "west 124")).to_have_count(0)
    node(page, "north 0").focus()
    page.keyboard.press("End")
    expect(node(page, "west 124")).to_be_focused()
    expect(node(page, "west 124")).to_be_in_viewport()
    page.get_by_role("button", name="Show all of it").click()
    expect(page.get_by_role("group", name="Graph of").get_by_role("button")).to_have_count(500)
