"""Lists come in pages: every item once, in one order, also while new ones arrive."""

import re

import orjson
import pytest

import atlas.api.paging
from atlas.api.resources.audit.verifications import _Verification
from atlas.audit.sealing.sealer import seal_and_sign
from atlas.engine.alerts import save_findings
from atlas.engine.effects.reports import save_report
from atlas.engine.outbox_files import outbox_folder
from atlas.ids import new_id
from atlas.models.system import Alert
from tests.api.given import furnish_installation, furnish_tenant, report_about
from tests.support import DANA, PROOF

THINGS = 7
# Lists that need no pages: a bounded number of times, groups or chosen jobs, counted runs, a token's own host, what is new in the audit log.
SHORT = {
    "/api/v1/jobs/triggers/{trigger_id}/preview",
    "/api/v1/jobs/dead-letters",
    "/api/v1/insights/steps",
    "/api/v1/jobs/explain",
    "/api/v1/runs/summary",
    "/api/v1/agent/hosts",
    "/api/v1/audit/new",
}
# Rows that take long to make in the ordinary way.
ROWS = """
insert into atlas.workflow_steps (run_id, branch, position, tenant_id, name, kind, status, started_at, output)
select $1, '', n, $2, 'step', 'step', 'succeeded', '2026-01-01T00:00:00Z'::timestamptz + n / 3 * interval '1 s', '{"x": 1}'
from generate_series(1, 7) n;
insert into atlas.job_attempts (job_id, attempt_no, worker_id, status, started_at)
select $3, n, 'w', 'failed', now() from generate_series(1, 7) n;
insert into atlas.trigger_fires (trigger_id, tenant_id, fired_at, created_by)
select $4, $2, '2026-01-01T00:00:00Z'::timestamptz + n / 3 * interval '1 s', 'dana' from generate_series(1, 7) n;
insert into atlas.recurring_jobs (tenant_id, id, start_at, repeat_seconds, next_run_at)
select $2, 'r' || n, now(), 60, now() from generate_series(1, 7) n;
insert into atlas.recurring_runs (tenant_id, recurring_id, due_at, attempt_no, worker_id, started_at, finished_at, outcome)
select $2, 'tidy acme', now(), 1, 'w', '2026-01-01T00:00:00Z'::timestamptz + n / 3 * interval '1 s', now(), 'succeeded'
from generate_series(1, 7) n;
insert into atlas.job_workers (worker_id, hostname, version, job_types, started_at, lease_expires_at)
select 'w' || n, 'h', '1', '{x}', now() - n / 3 * interval '1 s', now() + interval '1 h' from generate_series(1, 7) n;
insert into atlas.usage_hourly (tenant_id, job_type, hour, runs)
select $2, 'x' || n % 3, '2026-01-01T00:00:00Z'::timestamptz + n / 3 * interval '1 h', n from generate_series(1, 12) n;
insert into atlas.effects (id, tenant_id, job_id, job_type, name, key, attempt_no)
select gen_random_uuid(), $2, $3, 'x.work', 'stripe.charge', n::text, 1 from generate_series(1, 7) n;
insert into atlas.job_types (key) select 'x' || n from generate_series(1, 7) n;
insert into atlas.enqueue_grants (login, tenant_id, job_type, created_by)
select 'shop', $2, 'x' || n, 'dana' from generate_series(1, 7) n
"""


@pytest.fixture
async def things(pool, world, settings, operator):
    """Several of everything that is listed in pages; the ids under the names that addresses use."""
    await furnish_installation(pool)
    found = await furnish_tenant(pool, world.acme)
    # A pause waits for the workers that are alive, and this one would never confirm it.
    await pool.execute("update atlas.job_workers set lease_expires_at = now() - interval '1 minute'")
    admin = world.client("acme", "tenant_admin")
    for n in range(THINGS):
        schedule = {"label": f"t{n}", "trigger_type": "schedule", "cron_expr": "0 7 * * *", "job_type": "x.work"}
        await admin.post("/jobs/triggers", json=schedule)
        await admin.put("/pauses", json={"kind": "trigger", "target": f"t{n}"})
        await admin.post("/intents", json={"workflow": "greet-acme"})
        await admin.post("/workflows", json={"document": {"key": f"w{n // 2}", "steps": [{"id": f"s{n}", "sleep": 0}]}})
        await operator.post("/workflows", json={"document": {"key": f"w{n}", "steps": [{"id": "a", "sleep": 0}]}})
        await operator.post("/workflows", json={"document": {"key": "x", "steps": [{"id": f"s{n}", "sleep": 0}]}})
        await admin.post("/jobs", json={"job_type": "x.work"})
        await admin.post("/jobs/bulk", json={"action": "retry", "ids": [str(found["job_id"])]})
        await admin.post("/groups", json={"jobs": [{"job_type": "x.work"}]})
        await admin.post("/hosts", json={"name": f"h{n}"})
        await admin.post(f"/hosts/{found['host_id']}/instances", json={"name": f"i{n}"})
        await admin.post("/inbound-hooks", json={"event_name": f"e{n}"})
        await admin.post("/webhooks", json={"url": f"https://example.com/{n}", "events": ["*"]})
        await operator.post("/tenants", json={"slug": f"n{n}", "name": "n"})
        await operator.post("/policies", json={"label": f"p{n}", "effect": "allow"})
        await operator.post("/admin/jobs/definitions", json={"key": f"d{n}", "argv": ["/bin/true"]})
        await admin.post("/events", json={"name": f"e{n}"})
        await operator.post("/session", json={"token": world.tokens["acme", "tenant_admin"]})
        operator.cookies.clear()
        folder = outbox_folder(settings.home) / "acme"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{new_id()}.eml").write_text(f"Subject: {n}")
        await seal_and_sign(pool, settings)
    async with pool.acquire() as conn:
        ids = (found["run_id"], world.acme.id, found["job_id"], found["trigger_id"])
        for statement in ROWS.split(";\n"):
            numbers = sorted({int(one) for one in re.findall(r"\$(\d)", statement)})
            for place, number in enumerate(numbers, 1):
                statement = statement.replace(f"${number}", f"${place}")
            await conn.execute(statement, *(ids[number - 1] for number in numbers))
        silent = [Alert(kind="host_silent", subject=f"h{n}", message="It is silent.") for n in range(THINGS)]
        await save_findings(conn, silent, by="tests")
        for n in range(THINGS):
            await save_report(conn, report_about(f"provider-{n}"), actor=DANA)
            await _Verification(new_id(), None, DANA, {"status": "whole", "done": n, "total": n}).keep(conn)
    return found


def lists(spec):
    """The addresses that return a list, with their parameters' names."""
    for path, ones in spec["paths"].items():
        shown = ones.get("get", {}).get("responses", {}).get("200", {}).get("content", {}).get("application/json", {})
        name = shown.get("schema", {}).get("$ref", "").removeprefix("#/components/schemas/")
        if "items" in spec["components"]["schemas"].get(name, {}).get("properties", {}):
            yield path, {one["name"] for one in ones["get"].get("parameters", [])}


def paged(spec, things):
    """The addresses of every list, of what there is."""
    found = [path for path, _ in lists(spec) if path not in SHORT]
    assert len(found) >= 20
    return [f"http://atlas.test{path.format(**{**things, 'key': 'x'})}" for path in found]


async def pages(client, path, limit, between=None, **filters):
    """All items, page by page."""
    seen, cursor = [], None
    while True:
        query = filters | {"limit": limit} | ({} if cursor is None else {"cursor": cursor})
        response = await client.get(path, params=query)
        assert response.status_code == 200, (path, response.text)
        page = response.json()
        assert len(page["items"]) <= limit
        seen += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return seen
        if between is not None:
            await between()


def name_of(item):
    # Times of use and rates change from one call to the next.
    passing = ("last_used_at", "enqueued_per_minute", "finished_per_minute")
    return orjson.dumps({name: value for name, value in item.items() if name not in passing})


def test_every_list_has_a_limit_and_a_cursor(spec):
    for path, names in lists(spec):
        assert path in SHORT or names >= {"limit", "cursor"}, path


@pytest.mark.long
async def test_every_list_returns_each_item_once_whatever_the_page_size(things, spec, operator):
    for path in paged(spec, things):
        filters = {"by_hour": True} if path.endswith("/usage") else {}
        whole = [name_of(item) for item in await pages(operator, path, 200, **filters)]
        assert len(whole) >= (1 if path.endswith(("/runs", "/approvals")) else THINGS), path
        assert len(whole) == len(set(whole)), path
        for limit in (1, 3, len(whole)) if PROOF else (3,):
            assert [name_of(page) for page in await pages(operator, path, limit, **filters)] == whole, path


@pytest.mark.long
async def test_items_added_between_two_pages_shift_nothing(things, admin):
    async def arrive():
        await admin.post("/jobs", json={"job_type": "y.work"})
        await admin.post("/intents", json={"workflow": "greet-acme"})

    for path in ("/jobs", "/intents", "/audit"):
        before = [item["id"] for item in await pages(admin, path, 200)]
        seen = [item["id"] for item in await pages(admin, path, 2, arrive)]
        assert seen == before, path


@pytest.mark.long
async def test_items_removed_between_two_pages_hide_no_other(things, admin):
    before = [item["id"] for item in await pages(admin, "/jobs", 200)]
    first = (await admin.get("/jobs", params={"limit": 3})).json()
    for id in (before[1], before[2]):  # the last one is the cursor itself
        assert (await admin.delete(f"/jobs/{id}")).status_code == 204
    rest = (await admin.get("/jobs", params={"limit": 200, "cursor": first["next_cursor"]})).json()

    assert [item["id"] for item in rest["items"]] == before[3:]


@pytest.mark.long
async def test_pages_are_never_larger_than_two_hundred(things, spec, operator):
    for path in paged(spec, things):
        for wrong in ({"limit": 201}, {"limit": 0}, {"cursor": "x'\0"}, {"cursor": ""}):
            assert (await operator.get(path, params=wrong)).status_code == 422, (path, wrong)
        for wrong in ("W10", "bnVsbA", "WyJhIl0"):  # [], null, ["a"]
            assert (await operator.get(path, params={"cursor": wrong})).status_code in (200, 422), path
    steps = f"/runs/{things['run_id']}/steps"
    assert (await operator.get(steps, params={"cursor": "W10"})).status_code == 422


@pytest.mark.long
async def test_a_run_with_large_steps_is_shown_in_small_pages(pool, world, things, admin):
    await pool.execute(
        """insert into atlas.workflow_steps (run_id, branch, position, tenant_id, name, kind, status, output)
        select $1, 'large/', n, $2, 'step', 'step', 'succeeded', to_json(repeat(md5(n::text), 32 * 1024))
        from generate_series(1, 20) n""",
        things["run_id"],
        world.acme.id,
    )
    steps, seen, cursor = f"/runs/{things['run_id']}/steps", [], None
    while not seen or cursor is not None:
        page = await admin.get(steps, params={"limit": 200} | ({"cursor": cursor} if cursor else {}))
        assert len(page.content) < 12 * 2**20
        seen += [(item["branch"], item["position"]) for item in page.json()["items"]]
        cursor = page.json()["next_cursor"]

    assert seen == [*(("", n) for n in range(1, 8)), *(("large/", n) for n in range(1, 21))]


async def test_pages_of_large_things_end_early_and_miss_nothing(world, admin, monkeypatch):
    monkeypatch.setattr(atlas.api.paging, "MAX_PAGE_BYTES", 10_000)
    monkeypatch.setattr(atlas.api.paging, "PIECE", 3)
    for n in range(10):
        await admin.post(
            "/intents", json={"workflow": "greet", "allow_unknown": True, "input": {"n": n, "x": "x" * 2_000}}
        )
    seen, sizes, cursor = [], [], None
    while True:
        page = (await admin.get("/intents", params={"limit": 8} | ({"cursor": cursor} if cursor else {}))).json()
        seen += [item["input"]["n"] for item in page["items"]]
        sizes.append(len(page["items"]))
        if (cursor := page["next_cursor"]) is None:
            break
    assert seen == list(range(9, -1, -1))
    assert sizes == [6, 4]
