"""Declared workflows as their author meets them: written, mended, tried, published, compared, rolled back and run."""

import json
import re

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.web.conftest import PHONE, Visit, serious_violations
from tests.web.site import Site

FIRST = """{
  "key": "press",
  "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
  "steps": [
    {"id": "build", "job": "report.build", "with": {"name": "{{ input.name }}"}},
    {"id": "rest", "needs": ["bild"], "if": "steps.build.output.file", "sleep": "0s"}
  ]
}"""
MENDED = FIRST.replace("bild", "build").replace("press", "proof")


def write(page: Page, text: str) -> None:
    """Replace the text of the editor."""
    page.get_by_role("textbox", name="The definition as JSON").click()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.insert_text(text)


def publish(page: Page) -> None:
    button = page.get_by_role("button", name="Publish")
    expect(button).to_be_enabled()
    button.click()
    page.get_by_role("dialog").get_by_role("button", name="Publish").click()


def test_a_workflow_is_written_mended_tried_and_published(visit: Visit):
    page = visit("/workflows", role="tenant_admin", tenant="acme", axe=True)
    expect(page.get_by_role("row", name=re.compile("payout.*in code"))).to_be_visible()
    assert serious_violations(page) == []
    page.get_by_role("button", name="New workflow").click()
    write(page, FIRST)

    mistakes = page.get_by_role("list", name="Mistakes")
    expect(mistakes).to_contain_text("Line 6steps[1].needs[0] there is no step 'bild'")
    expect(page.locator(".cm-lint-marker-error")).to_have_count(1)
    expect(page.get_by_role("button", name=re.compile("^rest.*wait.*there is no step 'bild'"))).to_be_visible()
    expect(page.get_by_role("button", name="Publish")).to_be_disabled()
    assert serious_violations(page) == []

    mistakes.get_by_role("button").click()
    page.keyboard.press("ArrowRight")
    for _ in "bild":
        page.keyboard.press("Delete")
    page.keyboard.type("b")
    page.get_by_role("option", name="build").click()
    expect(page.get_by_text("Ready to publish")).to_be_visible()

    # A template is closed as it is opened, and its names are offered.
    page.keyboard.press("ControlOrMeta+Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.insert_text('"output": "", ')
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    page.keyboard.type("{{")
    page.get_by_role("option", name="input").click()
    page.keyboard.type(".")
    page.get_by_role("option", name="name").click()
    expect(page.get_by_text("Ready to publish")).to_be_visible()

    page.get_by_role("tab", name="Dry run").click()
    page.get_by_label("Name required").fill("tea")
    panel = page.get_by_role("tabpanel", name="Dry run")
    panel.get_by_role("button", name="Dry run").click()
    expect(panel.get_by_text("Of 2 steps, 1 would run, 1 depend on outputs.")).to_be_visible()
    panel.locator("summary", has_text="build").click()
    expect(panel.get_by_role("group", name="input of build")).to_contain_text("tea")
    panel.get_by_label("Suppose build returns").fill('{"file": "tea.pdf"}')
    panel.get_by_role("button", name="Dry run").click()
    expect(panel.get_by_text("Of 2 steps, 2 would run.")).to_be_visible()
    expect(panel.get_by_role("group", name="output of the run")).to_contain_text("tea")
    assert serious_violations(page) == []
    page.get_by_role("tab", name="Policy").click()
    expect(page.get_by_text("The run would start. No rule is against it.")).to_be_visible()

    page.on("dialog", lambda dialog: dialog.accept())
    page.reload()
    expect(page.get_by_text("unpublished changes were restored")).to_be_visible()
    expect(page.get_by_text("Ready to publish")).to_be_visible()
    page.get_by_role("link", name="Jobs", exact=True).click()
    leave = page.get_by_role("dialog", name="Leave without publishing?")
    leave.get_by_role("button", name="Cancel").click()
    publish(page)

    expect(page.get_by_text("Version 1 of press is published", exact=True)).to_be_visible()
    expect(page.get_by_role("heading", name="press", level=1)).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("^build.*job.*report.build"))).to_be_visible()
    assert serious_violations(page) == []


@pytest.mark.long
def test_versions_are_compared_rolled_back_and_run(site: Site, visit: Visit):
    with httpx.Client(base_url=site.address, headers=site.world.headers("acme", "tenant_admin"), timeout=60) as client:
        first = json.loads(MENDED)
        assert client.post("/api/v1/workflows", json={"document": first}).status_code == 201
        page = visit("/workflows/proof/edit", role="tenant_admin", tenant="acme", axe=True)
        page.on("dialog", lambda dialog: dialog.accept())
        write(page, MENDED.replace('"0s"', '"1s"'))
        page.get_by_role("tab", name=re.compile("Changes")).click()
        changed = page.get_by_role("region", name="Changes")
        expect(changed).to_contain_text('"sleep": "1s"')
        expect(page.get_by_text("Ready to publish")).to_be_visible()

        # Someone else is faster: nothing is overwritten, and what they did is shown.
        theirs = {**first, "description": "Theirs."}
        assert client.post("/api/v1/workflows", json={"document": theirs}).status_code == 201
    publish(page)
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("alert")).to_contain_text("is at version 2, by tenant_admin@acme, and not at version 1")
    dialog.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Compare it with yours").click()
    expect(changed).to_contain_text("Theirs.")
    publish(page)
    expect(page.get_by_text("Version 3 of proof is published", exact=True)).to_be_visible()

    page.get_by_role("tab", name=re.compile("Versions")).click()
    differences = page.get_by_role("region", name="Differences between version 2 and version 3")
    expect(differences).to_contain_text("Theirs.")
    page.get_by_role("button", name="Compare version 1 with the newest").click()
    expect(page).to_have_url(re.compile("from=1"))
    assert serious_violations(page) == []
    page.get_by_role("button", name="Roll back to version 1").click()
    page.get_by_role("dialog").get_by_role("button", name="Roll back to version 1").click()
    expect(page.get_by_text("proof is rolled back to version 1", exact=True)).to_be_visible()
    expect(page.get_by_role("list", name="Versions").get_by_role("listitem").first).to_contain_text("Version 4newest")

    page.get_by_role("button", name="Start a run").click()
    start = page.get_by_role("dialog", name="Start a workflow")
    start.get_by_label("Name required").fill("tea")
    start.get_by_role("button", name="Start proof").click()
    expect(page.get_by_text("It succeeded after")).to_be_visible(timeout=30_000)

    page.goto("/workflows")
    row = page.get_by_role("row", name=re.compile("proof.*v4"))
    expect(row).to_contain_text("1 succeeded")


@pytest.mark.long
def test_the_editor_fits_a_phone_and_is_for_those_who_may_publish(visit: Visit):
    page = visit("/workflows/new", role="tenant_admin", tenant="acme", size=PHONE, theme="dark", axe=True)
    expect(page.get_by_text("Ready to publish")).to_be_visible()
    assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]
    assert serious_violations(page) == []

    auditor = visit("/workflows/new", role="auditor", tenant="acme")
    expect(auditor.get_by_text("Your role may not do this")).to_be_visible()
    auditor.goto("/workflows/payout")
    expect(auditor.get_by_text("This workflow is defined in code")).to_be_visible()
    expect(auditor.get_by_role("button", name="Edit")).to_have_count(0)
    auditor.goto("/workflows/nothing")
    expect(auditor.get_by_role("alert")).to_contain_text("There is no workflow nothing")
