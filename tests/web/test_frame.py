"""The frame of the web pages: signing in, finding one's way, themes, the gate, and an API that is away for a while."""

import re

import pytest
from playwright.sync_api import Route, expect

from atlas.actors import system
from atlas.engine.access.sessions import make_link
from atlas.engine.access.tokens import authenticate
from tests.web.conftest import PHONE, Visit

PAGES = {
    "/": "Overview",
    "/jobs": "Jobs",
    "/dead-letters": "Dead letters",
    "/runs": "Workflows",
    "/approvals": "Approvals",
    "/effects": "Effects",
    "/schedules": "Schedules",
    "/workers": "Workers",
    "/pauses": "Pauses",
    "/audit": "Audit",
    "/outbox": "Outbox",
    "/insights": "Insights",
    "/settings": "Settings",
}
# Those that are reached otherwise.
BESIDE = {"/first-run": "First run"}
LIGHT, DARK = "rgb(255, 255, 255)", "rgb(16, 19, 22)"


def test_a_person_signs_in_where_the_link_leads_and_signs_out(site, visit: Visit):
    page = visit("/jobs", role=None)
    page.get_by_label("Token").fill("atl_wrong_wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("This token is not valid")
    expect(page.get_by_role("alert")).not_to_contain_text("Bearer")

    page.get_by_label("Token").fill(site.world.tokens["acme", "tenant_admin"])
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Jobs", level=1)).to_be_visible()
    expect(page.get_by_text("acme", exact=True)).to_be_visible()

    page.get_by_role("button", name="Account of").click()
    page.get_by_role("menuitem", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in to Atlas")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Sign in to Atlas")).to_be_visible()


@pytest.mark.long
def test_a_link_signs_in_once_and_leaves_no_trace_in_the_address(site, visit: Visit):
    async def make() -> str:
        async with site.pool.acquire() as conn:
            token = await authenticate(conn, site.world.tokens["acme", "tenant_admin"])
            return await make_link(conn, token, actor=system("test"))

    code = site.run(make())
    page = visit(f"/jobs#sign-in={code}", role=None)
    expect(page.get_by_role("heading", name="Jobs", level=1)).to_be_visible()
    expect(page).to_have_url(re.compile("/jobs$"))

    second = visit(f"/#sign-in={code}", role=None)
    expect(second.get_by_role("heading", name="Sign in to Atlas")).to_be_visible()
    expect(second.get_by_role("alert")).to_contain_text("This link was used already, or has expired")


@pytest.mark.long
def test_the_rail_shows_what_a_role_may_read(visit: Visit):
    operator = visit("/").get_by_role("navigation", name="Pages")
    enqueuer = visit("/", role="enqueuer", tenant="acme").get_by_role("navigation", name="Pages")

    expect(operator.get_by_role("link")).to_have_count(len(PAGES))
    expect(enqueuer.get_by_role("link", name="Jobs")).to_be_visible()
    for name in ("Audit", "Approvals", "Workers"):
        expect(enqueuer.get_by_role("link", name=name)).to_have_count(0)


@pytest.mark.long
def test_everything_is_reached_by_the_keyboard(visit: Visit):
    page = visit("/")
    expect(page.get_by_role("status").get_by_text("live")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("j")
    expect(page).to_have_url(re.compile("/jobs$"))

    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_contain_text("Go to Audit")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.keyboard.type("audi")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/audit$"))

    page.keyboard.press("Control+k")
    page.keyboard.type("0192f0c1-2b3c-7d4e-8f90-123456789abc")
    expect(page.get_by_role("option", name="Workflow run")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/jobs/0192f0c1-2b3c-7d4e-8f90-123456789abc$"))


def test_the_palette_opens_by_a_key_that_was_pressed_before_the_page_was_drawn(visit: Visit):
    held: list[Route] = []
    page = visit(
        "/jobs", prepare=lambda page: page.route(re.compile("/api/v1/session$"), lambda route: held.append(route))
    )
    page.keyboard.press("Control+k")
    # Nothing is drawn before it is known who is signed in.
    while not held:
        page.evaluate("0")
    held[0].continue_()
    expect(page.get_by_role("combobox", name="Find a job, run, page or action")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("combobox", name="Find a job, run, page or action")).to_have_count(0)


@pytest.mark.long
def test_a_chosen_tenant_stays_chosen_from_page_to_page(visit: Visit):
    page = visit("/")
    page.get_by_role("button", name="Tenant: all tenants").click()
    page.get_by_role("menuitem", name="Acme").click()
    expect(page).to_have_url(re.compile(r"\?tenant=acme$"))
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Jobs").click()
    expect(page).to_have_url(re.compile(r"/jobs\?tenant=acme$"))


@pytest.mark.long
def test_the_theme_is_kept(visit: Visit):
    page = visit("/", theme="light")
    expect(page.locator("body")).to_have_css("background-color", LIGHT)
    page.get_by_role("button", name="Theme: system").click()
    page.get_by_role("menuitem", name="Dark").click()
    expect(page.locator("body")).to_have_css("background-color", DARK)
    page.reload()
    expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
    expect(page.locator("body")).to_have_css("background-color", DARK)


def test_the_gate_is_switched_with_a_reason_and_every_page_shows_it(visit: Visit):
    page, other = visit("/"), visit("/jobs", role="tenant_admin", tenant="acme")
    page.get_by_role("banner").get_by_role("switch", name="Atlas starts work").click()
    dialog = page.get_by_role("dialog", name="Take Atlas offline?")
    expect(dialog).to_contain_text("Nothing new will start.")
    dialog.get_by_label("Reason").fill("provider outage")
    dialog.get_by_label("For how long").select_option("2 hours")
    dialog.get_by_role("button", name="Take offline").click()
    try:
        for one in (page, other):
            expect(one.get_by_test_id("offline")).to_contain_text("by operator@all: provider outage. Comes back at")
        expect(other.get_by_role("button", name="Bring online")).to_have_count(0)
        expect(other.get_by_role("banner").get_by_role("switch", name="Atlas starts work")).to_be_disabled()
    finally:
        page.get_by_role("button", name="Bring online").click()
        page.get_by_role("dialog").get_by_role("button", name="Bring online").click()
    for one in (page, other):
        expect(one.get_by_test_id("offline")).to_have_count(0)


@pytest.mark.long
def test_a_page_outlives_a_restart_of_the_api(site, visit: Visit):
    page = visit("/")
    live = page.locator("[data-live]")
    expect(live).to_have_attribute("data-live", "live")
    site.stop_api()
    expect(live).to_contain_text("connecting")
    site.start_api()
    expect(live).to_have_attribute("data-live", "live", timeout=30_000)
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Jobs").click()
    expect(page.get_by_role("heading", name="Jobs", level=1)).to_be_visible()


@pytest.mark.long
def test_pages_fit_a_phone(visit: Visit):
    page = visit("/", size=PHONE)
    for path, title in {**PAGES, **BESIDE}.items():
        page.goto(path)
        expect(page.get_by_role("heading", name=title, level=1)).to_be_visible()
        assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"], path
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Audit").click()
    expect(page).to_have_url(re.compile("/audit$"))
    expect(page.get_by_role("link", name="Audit")).to_be_hidden()
