"""Pictures of every page, in both themes and on a phone, of an installation with something to see: `make screenshots`."""

from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.new_job import NewJob
from tests.support import DANA, ROOT, until
from tests.web.conftest import PHONE, WIDE, Visit
from tests.web.site import Site
from tests.web.test_frame import PAGES

FOLDER = ROOT / "docs" / "screenshots"
NAMES = {path: title.lower().replace(" ", "-") for path, title in PAGES.items()}
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"theme": "light", "size": WIDE},
    "dark": {"theme": "dark", "size": WIDE},
    "phone": {"theme": "light", "size": PHONE},
}


@pytest.fixture(scope="module")
def busy_site(site: Site) -> Site:
    """The installation with jobs in every state, runs and approvals."""
    site.run(_make_jobs(site))
    with httpx.Client(base_url=site.address, headers=site.world.headers("acme", "tenant_admin")) as client:
        for name in ("ann", "bob", "cem"):
            body = {"workflow": "payout", "input": {"to": f"{name}@example.com", "amount_cents": 1250}}
            assert client.post("/api/v1/intents", json=body).status_code == 201
    site.run(until(lambda: _has_settled(site)))
    return site


async def _make_jobs(site: Site) -> None:
    async with site.pool.acquire() as conn:
        for number in range(40):
            input = {"name": f"sales-{number}", "seconds": 0.1, "fails": number % 9 == 0}
            await enqueue(conn, NewJob("report.build", input, site.world.acme.id), actor=DANA)
            mail = {"to": "ada@example.com", "subject": f"Report {number}", "text": "It is ready."}
            await enqueue(conn, NewJob("EMAIL_SEND", mail, site.world.acme.id), actor=DANA)
        for number in range(3):
            input = {"name": f"year-{number}", "seconds": 60.0}
            await enqueue(conn, NewJob("report.build", input, site.world.other.id), actor=DANA)


async def _has_settled(site: Site) -> bool:
    left = "select count(*) from atlas.jobs where status in ('queued', 'running') and tenant_id = $1"
    waiting = "select count(*) from atlas.approvals where status = 'pending'"
    return await site.pool.fetchval(left, site.world.acme.id) <= 3 and await site.pool.fetchval(waiting) == 3


@pytest.mark.parametrize("look", LOOKS)
def test_every_page_has_its_picture(busy_site: Site, visit: Visit, look: str) -> None:
    FOLDER.mkdir(exist_ok=True)
    page = visit("/", **LOOKS[look])
    for path, name in NAMES.items():
        page.goto(path)
        expect(page.get_by_role("heading", name=PAGES[path], level=1)).to_be_visible()
        expect(page.get_by_role("status", name="Loading")).to_have_count(0)
        page.screenshot(path=FOLDER / f"{name}-{look}.png")
    page.goto("/workflows")
    expect(page.get_by_role("row", name="payout")).to_be_visible()
    page.screenshot(path=FOLDER / f"definitions-{look}.png")
    page.goto("/workflows/new")
    expect(page.get_by_text("Ready to publish")).to_be_visible()
    page.screenshot(path=FOLDER / f"workflow-editor-{look}.png")
    page.goto("/runs")
    page.get_by_role("row", name="payout").first.click()
    expect(page.get_by_text("It waits for")).to_be_visible()
    page.screenshot(path=FOLDER / f"run-{look}.png")
    page.goto("/approvals")
    page.get_by_role("row", name="Pay ann").first.click()
    expect(page.get_by_role("group", name="input")).to_be_visible()
    page.screenshot(path=FOLDER / f"approval-{look}.png")
