"""Jobs and dead letters in a browser: the story of one, actions on many, hostile content, a burst of events."""

import asyncio
import json
import re
from datetime import timedelta
from uuid import UUID

import orjson
import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.lists.counts import count_jobs
from atlas.engine.jobs.new_jobs.new_job import NewJob
from tests.engine.jobs.test_dead_letters import MANY
from tests.support import DANA, PROOF, until
from tests.web.conftest import PHONE, Visit, serious_violations
from tests.web.hostile import HOSTILE
from tests.web.site import Site

# Where each payload is shown: an ended job with hostile text in every field of its own, and an attempt.
POISON = """
with job as (
  update atlas.jobs set status = 'failed', started_at = now(), finished_at = now(), dead_lettered_at = now(), attempt_count = $3,
    next_retry_at = null,
    claimed_by = $2, cancel_requested_by = $2, cancel_requested_at = now(), source_ref = $2, created_by = $2,
    progress = jsonb_build_object('percent', 50, 'message', $2::text),
    output = jsonb_build_object($2::text, $2::text), error = jsonb_build_object('message', $2::text, 'type', $2::text)
  where id = $1 returning id)
insert into atlas.job_attempts (job_id, attempt_no, worker_id, status, started_at, finished_at, error_text, log_tail, stdout_tail, stderr_tail)
select id, $3, $2, 'failed', now(), now(), $2, $2, $2, $2 from job
"""


def given_jobs(site: Site, *jobs: NewJob) -> list[UUID]:
    async def make() -> None:
        async with site.pool.acquire() as conn:
            await enqueue_many(conn, jobs, actor=DANA)

    site.run(make())
    return [job.id for job in jobs]


def rows(page: Page):
    return page.get_by_role("grid", name="Jobs").get_by_role("row")


@pytest.mark.long
def test_the_whole_story_of_a_mail(visit: Visit):
    page = visit("/jobs", role="tenant_admin", tenant="acme")
    page.get_by_role("button", name="New job").first.click()
    dialog = page.get_by_role("dialog", name="New job")
    dialog.get_by_label("Type").select_option("EMAIL_SEND")
    dialog.get_by_label("To").first.fill("ann@example.com")
    dialog.get_by_label("Subject").fill("The story of a mail")
    dialog.get_by_label("Text").fill("It was written in a form.")
    dialog.get_by_role("button", name="Enqueue").click()
    page.get_by_role("button", name="Open").click()

    panel = page.get_by_role("dialog", name="EMAIL_SEND")
    expect(page).to_have_url(re.compile(r"[?&]job=[0-9a-f-]{36}"))
    expect(panel.locator("[data-status=succeeded]").first).to_be_visible(timeout=20_000)
    expect(panel.get_by_role("status").first).to_contain_text("Succeeded at")
    expect(panel.get_by_role("figure")).to_contain_text("attempt 1 ✓")
    panel.get_by_role("tab", name="Input").click()
    expect(panel.get_by_role("group", name="input")).to_contain_text("The story of a mail")
    panel.get_by_role("tab", name="Attempts and logs").click()
    expect(panel.get_by_role("region", name="Attempt 1")).to_contain_text("succeeded")
    panel.get_by_role("tab", name="Audit").click()
    expect(panel).to_contain_text("EMAIL_SENT")
    expect(page).to_have_url(re.compile("tab=audit"))

    panel.get_by_role("link", name="Open as a page").click()
    expect(page.get_by_role("heading", name="EMAIL_SEND", level=1)).to_be_visible()
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name="Enqueue again").click()
    first = page.url
    page.get_by_role("button", name="Open").click()
    expect(page).not_to_have_url(first)
    expect(page.locator("[data-status=succeeded]").first).to_be_visible(timeout=20_000)


@pytest.mark.long
def test_filters_are_in_the_address_and_new_jobs_do_not_push_what_is_read(site: Site, visit: Visit):
    tenant = site.world.other.id
    later = [NewJob("a.work", {"n": n}, tenant, delay=timedelta(hours=1), correlation_id="order-7") for n in range(3)]
    given_jobs(site, *later)
    page = visit("/jobs?correlation_id=order-7", role="tenant_admin", tenant="other")
    expect(rows(page)).to_have_count(4)
    expect(page.get_by_text("Scheduled for").first).to_be_visible()

    given_jobs(site, NewJob("a.work", {}, tenant, delay=timedelta(hours=1), correlation_id="order-7"))
    expect(page.get_by_role("button", name="1 new")).to_be_visible()
    expect(rows(page)).to_have_count(4)
    page.get_by_role("button", name="1 new").click()
    expect(rows(page)).to_have_count(5)

    page.get_by_role("navigation", name="Jobs by status").get_by_role("link", name="Running").click()
    expect(page).to_have_url(re.compile("status=running"))
    expect(page.get_by_text("No running jobs match these filters")).to_be_visible()
    page.get_by_role("button", name="Remove the filter Correlation order-7").click()
    expect(page).not_to_have_url(re.compile("correlation_id"))

    field = page.get_by_role("search").get_by_role("textbox")
    field.fill(str(later[0].id)[:13])
    field.press("Enter")
    expect(page).to_have_url(re.compile(f"id_prefix={str(later[0].id)[:13]}"))
    page.get_by_role("link", name="All").click()
    expect(rows(page)).not_to_have_count(0)
    page.get_by_role("grid", name="Jobs").focus()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/jobs/[0-9a-f-]{36}"))
    expect(page.get_by_role("status").filter(has_text="Scheduled for")).to_be_visible()


@pytest.mark.long
def test_many_jobs_are_canceled_together_with_a_reason(site: Site, visit: Visit):
    tenant = site.world.acme.id
    jobs = [NewJob("b.work", {}, tenant, delay=timedelta(hours=1), correlation_id="bulk") for _ in range(5)]
    given_jobs(site, *jobs)
    page = visit("/jobs?correlation_id=bulk", role="tenant_admin", tenant="acme")
    expect(rows(page)).to_have_count(6)
    page.get_by_role("checkbox", name="Choose all rows").check()
    bar = page.get_by_role("toolbar", name="Chosen jobs")
    expect(bar).to_contain_text("5 jobs chosen")
    expect(bar.get_by_role("button", name="Retry")).to_have_count(0)
    bar.get_by_role("button", name="Cancel").click()
    dialog = page.get_by_role("dialog", name="Cancel 5 jobs?")
    dialog.get_by_label("Reason").fill("ordered twice")
    dialog.get_by_role("button", name="Cancel 5 jobs").click()
    expect(page.get_by_text("5 jobs are canceled.", exact=True)).to_be_visible()
    expect(page.locator("[data-status=canceled]")).to_have_count(5)
    count = "select count(*) from atlas.audit_log where action = 'JOB_CANCELED' and meta->>'reason' = 'ordered twice'"
    assert site.run(site.pool.fetchval(count)) == 5

    viewer = visit("/jobs?correlation_id=bulk", role="auditor", tenant="acme")
    expect(rows(viewer)).to_have_count(6)
    expect(viewer.get_by_role("checkbox", name="Choose all rows")).to_have_count(0)
    expect(viewer.get_by_role("button", name="New job")).to_have_count(0)


def test_a_dialog_about_chosen_rows_says_how_many_change_and_names_the_others(site: Site, visit: Visit):
    tenant = site.world.acme.id
    jobs = [NewJob("b.work", {}, tenant, delay=timedelta(hours=1), correlation_id="chosen") for _ in range(4)]
    twin, stays = [NewJob("b.work", {}, tenant, delay=timedelta(hours=1), dedupe_key="twin") for _ in range(2)]
    given_jobs(site, *jobs, twin)
    site.run(site.pool.execute(FAIL, [jobs[0].id, jobs[1].id, jobs[2].id, twin.id], "chosen"))
    given_jobs(site, stays)
    page = visit("/jobs?correlation_id=chosen", role="tenant_admin", tenant="acme", axe=True)
    expect(rows(page)).to_have_count(6)
    page.get_by_role("checkbox", name="Choose all rows").check()
    page.get_by_role("toolbar", name="Chosen jobs").get_by_role("button", name="Retry").click()
    dialog = page.get_by_role("dialog", name="Retry 3 jobs?")
    expect(dialog).to_contain_text("2 of the 5 chosen jobs stay unchanged:")
    refused = dialog.get_by_role("list", name="Unchanged jobs").get_by_role("listitem")
    expect(refused.filter(has_text="1 waiting").get_by_role("link")).to_have_attribute("title", str(jobs[3].id))
    expect(refused.filter(has_text="1 whose dedupe key is in use").get_by_role("link")).to_have_attribute(
        "title", str(twin.id)
    )
    assert serious_violations(page) == []
    # One is retried elsewhere while the dialog is open.
    site.run(site.pool.execute("update atlas.jobs set status = 'queued', finished_at = null where id = $1", jobs[0].id))
    dialog.get_by_role("button", name="Retry 3 jobs").click()
    message = "2 jobs are queued again; 1 job left unchanged: 1 changed already."
    expect(page.get_by_text(message, exact=True)).to_be_visible()
    assert site.run(site.pool.fetchval(f"select changed {LAST}", tenant)) == 2


# As jobs that failed.
FAIL = """
update atlas.jobs set status = 'failed', finished_at = clock_timestamp(), next_retry_at = null, correlation_id = $2,
  error = '{"message": "no", "type": "ValueError"}'
where id = any ($1)"""


def test_an_operator_says_whose_a_new_job_is(visit: Visit):
    page = visit("/jobs?new=job", role="operator")
    dialog = page.get_by_role("dialog", name="New job")
    expect(dialog.get_by_label("Tenant")).to_have_value("")
    expect(dialog.get_by_role("button", name="Enqueue")).to_be_disabled()
    dialog.get_by_label("Tenant").select_option("acme")
    expect(dialog.get_by_role("button", name="Enqueue")).to_be_enabled()


def test_a_dead_letter_is_redriven_and_another_discarded(site: Site, visit: Visit):
    tenant = site.world.acme.id
    [job] = given_jobs(site, NewJob("report.once", {}, tenant))
    page = visit("/dead-letters", role="tenant_admin", tenant="acme")
    group = page.get_by_role("row").filter(has_text="report.once")
    expect(group).to_contain_text("the first attempt fails", timeout=20_000)
    group.get_by_role("button", name="Retry 1 of report.once").click()
    dialog = page.get_by_role("dialog", name="Retry 1 job?")
    dialog.get_by_label("Reason").fill("the printer is back")
    dialog.get_by_role("button", name="Retry 1 job").click()
    expect(page.get_by_text("1 job is queued again.", exact=True)).to_be_visible()
    expect(group).to_have_count(0)
    page.goto(f"/jobs/{job}?tab=attempts")
    expect(page.get_by_role("region", name="Attempt 2")).to_contain_text("succeeded", timeout=20_000)
    expect(page.get_by_role("region", name="Error of attempt 1")).to_contain_text("the first attempt fails")

    [other] = given_jobs(site, NewJob("report.build", {"name": "June", "fails": True}, tenant))
    page.goto("/dead-letters")
    page.get_by_role("button", name="Discard 1 of report.build").click(timeout=20_000)
    dialog = page.get_by_role("dialog", name="Discard 1 job?")
    expect(dialog.get_by_role("button", name="Discard 1 job")).to_be_disabled()
    dialog.get_by_label("Reason").fill("June is over")
    dialog.get_by_role("button", name="Discard 1 job").click()
    expect(page.get_by_text("1 job is discarded.", exact=True)).to_be_visible()
    page.goto(f"/jobs/{other}")
    expect(page.locator("[data-status=failed]").first).to_be_visible()


LAST = "from atlas.bulk_actions where tenant_id = $1 order by created_at desc limit 1"


@pytest.mark.long
def test_the_number_in_the_dialog_is_the_number_discarded_while_more_arrive(site: Site, visit: Visit):
    tenant = site.world.other.id
    site.run(site.pool.execute(MANY, tenant, 700))
    site.run(count(site))
    page = visit("/dead-letters", role="tenant_admin", tenant="other")
    page.get_by_role("button", name="Discard 700 of report.build").click(timeout=20_000)
    dialog = page.get_by_role("dialog", name="Discard 700 jobs?")
    dialog.get_by_label("Reason").fill("known")
    site.run(site.pool.execute(MANY, tenant, 5))
    dialog.get_by_role("button", name="Discard 700 jobs").click()
    message = "200 jobs are discarded; the rest follows. 5 more arrived since and were not changed."
    expect(page.get_by_text(message, exact=True)).to_be_visible()

    async def has_ended() -> bool:
        return bool(await site.pool.fetchval(f"select finished_at is not null {LAST}", tenant))

    site.run(until(has_ended, within=50))
    expect(page.get_by_role("list", name="Actions in progress")).to_have_count(0, timeout=20_000)
    assert site.run(site.pool.fetchval(f"select changed {LAST}", tenant)) == 700
    left = "select count(*) from atlas.jobs where tenant_id = $1 and dead_lettered_at is not null"
    assert site.run(site.pool.fetchval(left, tenant)) == 5
    site.run(site.pool.execute("delete from atlas.jobs where tenant_id = $1 and job_type = 'report.build'", tenant))


async def count(site: Site) -> None:
    """Find the dead letters that were loaded past Atlas."""
    async with site.pool.acquire() as conn:
        while not await count_jobs(conn):
            await asyncio.sleep(0.05)  # the meter is at work


def test_hostile_content_in_every_field_runs_no_script(site: Site, visit: Visit):
    tenant = site.world.other.id
    everything = NewJob("x", {"all": HOSTILE, **{text: text for text in HOSTILE}}, tenant, delay=timedelta(hours=1))
    jobs = [NewJob(printable(text), {text: [text]}, tenant, correlation_id=printable(text)) for text in HOSTILE]
    ids = given_jobs(site, *jobs, everything)
    for id, text in zip(ids, HOSTILE, strict=False):
        site.run(site.pool.execute(POISON, id, text, 1))
    for n, text in enumerate(HOSTILE):
        site.run(site.pool.execute(POISON, everything.id, text, n + 1))
    tall = {"width": 1280, "height": 1600}
    page = visit("/jobs?status=dead_letter", role="tenant_admin", tenant="other", size=tall)
    expect(rows(page)).to_have_count(len(HOSTILE) + 2)
    # The list and the job with everything show all texts; opening the job of each one takes half a minute.
    for row in range(1, len(HOSTILE) + 2, 1 if PROOF else 10):
        rows(page).nth(row).click(position={"x": 60, "y": 18})
        expect(page.get_by_role("dialog").get_by_role("region", name="Error", exact=True)).to_be_visible()
    assert ran(page) == []
    assert hidden(page) == []
    page.goto(f"/jobs/{everything.id}")
    for tab in ("Input", "Output", "Attempts and logs", "Audit"):
        page.get_by_role("tab", name=tab).click()
        expect(page.get_by_role("tabpanel", name=tab)).not_to_be_empty()
        assert ran(page) == []
        assert hidden(page) == []
    site.run(count(site))
    page.goto("/dead-letters")
    expect(page.get_by_role("grid").get_by_role("row")).not_to_have_count(0)
    page.get_by_role("button", name=re.compile("^Retry 1 of")).first.click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert ran(page) == []
    assert hidden(page) == []


def hidden(page: Page) -> list[str]:
    """The texts and tooltips of the page that hold an invisible or bidirectional character."""
    found: list[str] = page.evaluate(
        """() => [document.title, document.body.innerText, ...[...document.querySelectorAll("[title]")].map((element) => element.title)]
          .filter((text) => /[\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff]/.test(text))"""
    )
    return found


def printable(text: str) -> str:
    """What the API accepts as a type or a correlation id."""
    return "".join(letter for letter in text if letter.isprintable())[:200]


def ran(page: Page) -> list[str]:
    """What hostile content achieved: it sets this mark, opens a dialog, or leaves the page."""
    found: list[str] = page.evaluate("() => window.ran === undefined ? [] : [String(window.ran)]")
    return found + ([] if "/jobs" in page.url or "/dead-letters" in page.url else [page.url])


@pytest.mark.parametrize(
    "theme", [pytest.param("light", marks=pytest.mark.long), pytest.param("dark", marks=pytest.mark.slow)]
)
def test_full_pages_have_no_serious_violation_and_fit_a_phone(site: Site, visit: Visit, theme):
    tenant = site.world.acme.id
    made = given_jobs(
        site,
        NewJob("report.build", {"name": "May", "seconds": 30}, tenant, correlation_id=f"axe {theme}"),
        NewJob("a.work", {"n": 1}, tenant, delay=timedelta(hours=1), correlation_id=f"axe {theme}"),
    )
    page = visit(f"/jobs?correlation_id=axe+{theme}", role="tenant_admin", tenant="acme", theme=theme, axe=True)
    expect(rows(page)).to_have_count(3)
    expect(page.locator("[data-status=running]")).to_be_visible(timeout=20_000)
    assert violations_at_rest(page) == []
    rows(page).nth(1).click()
    expect(page.get_by_role("figure")).to_be_visible()
    assert violations_at_rest(page) == []
    page.set_viewport_size(PHONE)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]
    page.goto(f"/jobs/{made[0]}")
    expect(page.get_by_role("figure")).to_be_visible()
    assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]
    assert violations_at_rest(page) == []


def violations_at_rest(page: Page) -> list[str]:
    """What axe-core finds once nothing moves: what fades in has less contrast for a while."""
    page.wait_for_function("() => document.getAnimations().every((one) => one.playState !== 'running')")
    return serious_violations(page)


@pytest.mark.slow
def test_ten_thousand_events_keep_the_page_responsive(site: Site, visit: Visit):
    """Frames as large as the server sends them, one after the other; half of the events are about listed jobs."""
    tenant = site.world.acme.id
    jobs = [NewJob("a.work", {"n": n}, tenant, delay=timedelta(hours=1), correlation_id="burst") for n in range(50)]
    listed = [str(id) for id in given_jobs(site, *jobs)]
    page = visit("/", role="tenant_admin", tenant="acme")
    sockets: list[WebSocketRoute] = []
    page.route_web_socket(re.compile("/api/v1/live"), lambda socket: sockets.append(socket))
    page.goto("/jobs?correlation_id=burst")
    expect(rows(page).nth(9)).to_be_visible()
    expect(page.locator("[data-live]")).to_be_visible()
    page.wait_for_timeout(0)
    page.evaluate(
        "() => { window.long = []; new PerformanceObserver((list) => window.long.push(...list.getEntries().map((one) => one.duration)))"
        ".observe({ type: 'longtask' }); }"
    )
    kinds = [("job_run.started", "running"), ("job_run.progress", "running"), ("job_run.completed", "succeeded")]
    socket = sockets[-1]
    socket.send(json.dumps({"type": "hello", "place": "1.1:1:", "room": "all"}))
    for frame in range(56):
        events = [event_about(listed, frame, n, *kinds[n % 3]) for n in range(180)]
        socket.send(orjson.dumps({"type": "events", "place": "1.1:1:", "events": events, "more": {}}).decode())
    expect(page.locator("[data-status=succeeded]").first).to_be_visible()
    page.get_by_role("link", name="Queued").click()
    expect(page).to_have_url(re.compile("status=queued"))
    longest = max(page.evaluate("() => window.long"), default=0)
    print(f"the longest task took {longest:.0f} ms")
    assert longest < 200


def event_about(listed: list[str], frame: int, n: int, kind: str, status: str) -> dict[str, object]:
    id = listed[n // 2 % len(listed)] if n % 2 else f"0192f0c1-2b3c-7d4e-8f90-{frame:06}{n:06}"
    return {
        "event": kind,
        "job_id": id,
        "job_run_id": f"{id}:1",
        "job_type": "a.work",
        "status": status,
        "attempt_count": 1,
        "duration_ms": 5,
        "error": None,
        "server_instance_id": None,
        "tenant_id": None,
        "correlation_id": "burst",
        **({"progress": {"percent": n % 100, "message": f"page {n}"}} if kind == "job_run.progress" else {}),
    }
