"""Pictures of every page, in both themes and on a phone, of a shop with something to see: `make screenshots`.

All of them are written into a folder that git does not keep; those of the README, as WebP, into one that it does.
"""

import base64
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from atlas.test_databases import TestDatabases
from tests.state_check import STATE_CHECK
from tests.support import ROOT
from tests.web.conftest import PHONE, WIDE, Visit
from tests.web.shop import open_shop
from tests.web.site import Site
from tests.web.test_frame import PAGES

FOLDER = ROOT / "docs" / "screenshots"
README_FOLDER = ROOT / "docs" / "pictures"
IN_README = ("overview", "job", "run", "audit-row")
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"theme": "light", "size": WIDE},
    "dark": {"theme": "dark", "size": WIDE},
    "phone": {"theme": "light", "size": PHONE},
}
SLOW = 30_000


@pytest.fixture(scope="module")
def site(databases: TestDatabases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A shop in the middle of its day."""
    site = Site(databases, tmp_path_factory.mktemp("shop"), app="tests.web.shop", job_type="order.confirm")
    site.start()
    # The names of its tenants and its history are written past Atlas.
    STATE_CHECK.leave_out(site.url)
    try:
        open_shop(site)
        yield site
    finally:
        site.stop()


def _open_job(page: Page) -> None:
    page.goto("/jobs?status=dead_letter")
    page.get_by_role("row", name=re.compile("stock.sync")).first.click()
    expect(page.get_by_role("dialog")).to_contain_text("kaffa-imports.example", timeout=SLOW)


def _open_run(page: Page) -> None:
    page.goto("/runs")
    page.get_by_role("row", name=re.compile("waiting payout")).first.get_by_role("gridcell", name="payout").click()
    expect(page.get_by_role("heading", name="payout", level=1)).to_be_visible(timeout=SLOW)
    expect(page.get_by_text("check-balance").first).to_be_visible(timeout=SLOW)


def _open_approval(page: Page) -> None:
    page.goto("/approvals")
    page.get_by_role("row", name=re.compile("guji")).click()
    expect(page.get_by_role("group", name="input")).to_be_visible(timeout=SLOW)


def _open_trigger(page: Page) -> None:
    page.goto("/schedules")
    page.get_by_role("row", name=re.compile("Invoices of the day")).click()
    expect(page.get_by_role("dialog").get_by_role("listitem")).to_have_count(10, timeout=SLOW)


def _open_mail(page: Page) -> None:
    page.goto("/outbox")
    page.get_by_role("row", name=re.compile("Order #")).first.click()
    expect(page.locator("iframe")).to_be_visible(timeout=SLOW)


def _open_audit_row(page: Page) -> None:
    page.goto("/audit?action=APPROVAL_DECIDED")
    page.get_by_role("row", name=re.compile("APPROVAL_DECIDED")).first.click()
    expect(page.get_by_text("Proved: this row is in the signed log as it is shown.")).to_be_visible(timeout=SLOW)


def _open_verification(page: Page) -> None:
    page.goto("/audit?tab=verifications")
    expect(page.get_by_role("heading", name="Verification: whole")).to_be_visible(timeout=SLOW)


def _open_definitions(page: Page) -> None:
    page.goto("/workflows")
    expect(page.get_by_role("row", name=re.compile("payout"))).to_be_visible(timeout=SLOW)


def _open_editor(page: Page) -> None:
    page.goto("/workflows/new")
    expect(page.get_by_text("Ready to publish")).to_be_visible(timeout=SLOW)


OPENED: dict[str, Callable[[Page], None]] = {
    "definitions": _open_definitions,
    "workflow-editor": _open_editor,
    "job": _open_job,
    "run": _open_run,
    "approval": _open_approval,
    "schedule": _open_trigger,
    "mail": _open_mail,
    "audit-row": _open_audit_row,
    "verification": _open_verification,
}


@pytest.mark.parametrize("look", LOOKS)
def test_every_page_has_its_picture(site: Site, visit: Visit, look: str) -> None:
    for folder in (FOLDER, README_FOLDER):
        folder.mkdir(exist_ok=True)
    page = visit("/", **LOOKS[look])
    for path, title in PAGES.items():
        page.goto(path)
        expect(page.get_by_role("heading", name=title, level=1)).to_be_visible(timeout=SLOW)
        if path == "/":
            expect(page.get_by_role("slider")).to_have_count(2, timeout=SLOW)
        _take(page, title.lower().replace(" ", "-"), look)
    for name, show in OPENED.items():
        show(page)
        _take(page, name, look)


def _take(page: Page, name: str, look: str) -> None:
    expect(page.get_by_role("status", name="Loading")).to_have_count(0, timeout=SLOW)
    page.mouse.move(0, 0)
    page.screenshot(path=FOLDER / f"{name}-{look}.png")
    if name in IN_README and look != "phone":
        _write_webp(page, README_FOLDER / f"{name}-{look}.webp")


def _write_webp(page: Page, path: Path) -> None:
    """A picture of a tenth of the size of a PNG; Playwright itself does not write them."""
    devtools = page.context.new_cdp_session(page)
    taken = devtools.send("Page.captureScreenshot", {"format": "webp", "quality": 82})
    path.write_bytes(base64.b64decode(taken["data"]))
