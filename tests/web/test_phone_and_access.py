"""The pages on a phone, by the keyboard, on paper, and as axe-core judges them with dialogs and panels open."""

import re
from collections.abc import Iterator
from uuid import UUID

import pytest
from playwright.sync_api import expect

from atlas.engine.jobs.new_job import NewJob
from atlas.engine.triggers.store import add_trigger, remove_trigger
from tests.support import DANA
from tests.web.conftest import Visit, violations
from tests.web.site import Site
from tests.web.test_frame import BESIDE, PAGES
from tests.web.test_jobs import given_jobs

PHONE = {"width": 390, "height": 780}
# 1280 by 800 at 200 %.
ZOOMED = {"width": 640, "height": 400}
TRIGGER = {
    "label": "Night report",
    "trigger_type": "schedule",
    "cron_expr": "30 2 * * *",
    "job_type": "report.build",
    "payload_template": {"name": "night"},
}
# The button that opens the dialog of a page.
DIALOGS = {
    "/jobs": "New job",
    "/runs": "Start a workflow",
    "/schedules": "New trigger",
    "/workers?tab=hosts": "Add a host",
    "/settings?tab=tokens": "New token",
    "/settings?tab=tenants": "New tenant",
    "/settings?tab=policies": "New rule",
    "/settings?tab=definitions": "New command",
}


@pytest.fixture
def trigger(site: Site) -> Iterator[UUID]:
    async def add() -> UUID:
        async with site.pool.acquire() as conn:
            return (await add_trigger(conn, site.world.acme.id, TRIGGER, actor=DANA)).id

    async def remove(trigger_id: UUID) -> None:
        async with site.pool.acquire() as conn:
            await remove_trigger(conn, trigger_id, actor=DANA)

    trigger_id = site.run(add())
    yield trigger_id
    site.run(remove(trigger_id))


def test_cards_of_a_phone_keep_what_is_needed_and_escape_returns_to_the_row(site: Site, visit: Visit, trigger: UUID):
    given_jobs(site, NewJob("report.build", {"name": "q1", "fails": True}, site.world.acme.id))
    page = visit("/schedules", size=PHONE)
    row = page.get_by_role("row").filter(has_text="Night report")
    for text in ("30 2 * * *", "Next", "Tenant", "acme"):
        expect(row.get_by_text(text, exact=True).first).to_be_in_viewport(ratio=1)
    page.goto("/dead-letters")
    # A cause that came later would move the others down.
    expect(page.get_by_text(re.compile("the report .* has no data")).first).to_be_visible()
    retry = page.get_by_role("button", name=re.compile("^Retry")).last
    retry.scroll_into_view_if_needed()
    expect(retry).to_be_in_viewport(ratio=1)

    wide = visit("/schedules")
    grid = wide.get_by_role("grid", name="Triggers")
    expect(grid).to_be_visible()
    wide.keyboard.press("j")
    wide.keyboard.press("Enter")
    expect(wide.locator("[data-panel]")).to_be_visible()
    wide.keyboard.press("Escape")
    expect(wide.locator("[data-panel]")).to_have_count(0)
    expect(grid).to_be_focused()
    assert wide.locator(f"[id='{grid.get_attribute('aria-activedescendant')}']").count() == 1
    # On paper: the page without its frame.
    wide.emulate_media(media="print")
    expect(wide.get_by_role("banner")).to_be_hidden()
    expect(wide.get_by_role("navigation", name="Pages")).to_be_hidden()


@pytest.mark.parametrize(
    "theme", [pytest.param("light", marks=pytest.mark.long), pytest.param("dark", marks=pytest.mark.slow)]
)
@pytest.mark.timeout(1200)
def test_axe_finds_nothing_on_any_page_and_with_its_dialog_or_panel_open(
    site: Site, visit: Visit, theme: str, trigger: UUID
):
    given_jobs(site, NewJob("report.build", {"name": theme}, site.world.acme.id))
    page = visit("/", theme=theme, axe=True)
    found: dict[str, list[str]] = {}
    for path, title in {**PAGES, **BESIDE}.items():
        page.goto(path)
        expect(page.get_by_role("heading", name=title, level=1)).to_be_visible()
        found[path] = violations(page)
    for path, button in DIALOGS.items():
        page.goto(path)
        page.get_by_role("button", name=button).first.click()
        expect(page.get_by_role("dialog")).to_be_visible()
        found[f"{path}, {button}"] = violations(page)
    for path in (f"/schedules?trigger={trigger}", "/audit", "/jobs"):
        page.goto(path)
        if "trigger" not in path:
            page.locator("[role=row][aria-selected]").first.click(position={"x": 60, "y": 18})
        expect(page.locator("[data-panel]")).to_be_visible()
        found[f"{path}, panel"] = violations(page)
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox")).to_be_focused()
    found["palette"] = violations(page)
    assert {path: violations for path, violations in found.items() if violations} == {}


@pytest.mark.long
def test_pages_fit_a_window_that_is_zoomed_to_200_percent(visit: Visit):
    page = visit("/", size=ZOOMED)
    for path, title in {**PAGES, **BESIDE}.items():
        page.goto(path)
        expect(page.get_by_role("heading", name=title, level=1)).to_be_visible()
        assert page.evaluate("() => document.documentElement.scrollWidth") <= ZOOMED["width"], path
