"""Every change over HTTP is in the audit log: its caller, token, address and request."""

import re
from uuid import UUID, uuid4

import httpx
import orjson
import pytest

from atlas.audit.state import STATE_KINDS
from atlas.engine.hosts.hosts import add_host
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.workflows.declared.store import save_workflow
from tests.api.given import furnish_installation, furnish_tenant
from tests.api.table import TABLE
from tests.api.test_matrix import body_of, filled
from tests.support import DANA

# What changes nothing, and what is no change of state by the rules of the audit log: a claim, a heartbeat, progress.
NO_CHANGE = {
    "POST /jobs/triggers/preview",
    "POST /workflows/check",
    "POST /workflows/dry-run",
    "POST /policies/check",
    "POST /jobs/bulk/preview",
    "POST /agent/hosts/{host_id}/jobs/{job_id}/heartbeat",
    "POST /agent/hosts/{host_id}/jobs/{job_id}/progress",
    "POST /worker/jobs/claim",
    "POST /worker/jobs/{job_id}/heartbeat",
    "POST /worker/jobs/{job_id}/progress",
    # It changes something for those who sign, which tests of its own do.
    "POST /hooks/{key}",
    # It needs a login of the server, which tests of its own make.
    "POST /grants",
}
REMOVE_TENANT = "DELETE /tenants/{slug_or_id}"
# What takes something away comes last, and at the very end what takes away everything.
CHANGES = sorted(
    (row for row in TABLE if not row.startswith("GET ") and row not in NO_CHANGE),
    key=lambda row: (row == REMOVE_TENANT, row.startswith("DELETE "), row),
)

# Records every update and removal of what the audit log explains: the row, and the columns that changed.
NOTE_EDITS = """
create table public.edits (xid xid8, source text, entity text, columns text[]);
create function public.note_edit() returns trigger language plpgsql security definer as $$ begin
  insert into public.edits
  select pg_current_xact_id(), tg_table_name, coalesce(to_jsonb(old)->>'id', to_jsonb(old)->>'key'),
    array(select o.key from jsonb_each(to_jsonb(old)) o where case tg_op when 'DELETE' then o.value <> 'null' else o.value <> to_jsonb(new)->o.key end);
  return null;
end $$;
"""
NOTE_EDITS_OF = (
    "create trigger note_edit after update or delete on atlas.{} for each row execute function public.note_edit()"
)
EDITS = """
select e.source, e.columns, array_agg(c.key) filter (where c.key is not null) as shown, array_agg(distinct a.action) as actions
from public.edits e
left join atlas.audit_log a on a.xid = e.xid
left join lateral jsonb_object_keys(a.meta->'changes') c(key) on true
group by e.xid, e.source, e.entity, e.columns"""
# What goes with its definition, is counted, or makes progress; and sessions, which end with their token.
NO_EDITS = {"job_types", "job_groups", "bulk_actions", "pauses"}
TRACES = {
    "updated_at",
    "last_used_at",
    "last_seen_at",
    "next_fire_at",
    "last_fire_at",
    "active_since",
    "outages",
    "edited_by",
    "nonce",
    "key_id",
}

FAILED = "update atlas.jobs set status = 'failed', finished_at = now(), dead_lettered_at = now() where id = $1"
HELD = (
    "update atlas.jobs set status = 'running', claimed_by = $2, attempt_count = 1, started_at = now(), host_id = $3,"
    " lease_expires_at = now() + interval '1 minute' where id = $1"
)
STOPPED = """update atlas.system_state set value = value || '{"engine_enabled": false}' where key = 'atlas_online'"""
OPEN = "update atlas.jobs set status = 'queued', finished_at = null where id = $1"
# What must be true before a change is possible: a statement, and the names of what it is about.
BEFORE = {
    "POST /jobs/{job_id}/retry": (FAILED, "job_id"),
    "POST /runs/{run_id}/retry": (FAILED, "run_id"),
    "PUT /system/engine-enabled": (STOPPED,),
    "POST /runs/{run_id}/signal": (OPEN, "run_id"),
    "POST /agent/hosts/{host_id}/jobs/{job_id}/result": (HELD, "job_id", "host", "host_id"),
    "POST /worker/jobs/{job_id}/complete": (HELD, "job_id", "worker", "nobody"),
    "POST /worker/jobs/{job_id}/fail": (HELD, "job_id", "worker", "nobody"),
}


@pytest.fixture
async def things(pool, world):
    await furnish_installation(pool)
    found = await furnish_tenant(pool, world.acme)
    found["token_id"] = world.ids["acme", "auditor"]  # who changes nothing, and so may lose it at any point
    return found | {
        "host": f"host:{found['host_id']}",
        "worker": f"remote:{world.ids['acme', 'worker']}",
        "nobody": None,
    }


def caller_of(row, world):
    """The least privileged role that the table allows."""
    allowed = TABLE[row].replace("*", "").split()
    for role in ("worker", "host", "enqueuer", "tenant_admin"):
        if role in allowed and "/session" not in row:
            return "acme", role
    return "all", "operator"


async def prepared(row, world, things, pool):
    """The ids that the address names, of things in the state that the change needs."""
    own = dict(things, key="echo.it") if "definitions" in row else dict(things)
    async with pool.acquire() as conn:
        if "{job_id}" in row or "dead-letters" in row:
            job = NewJob("x.work", {"row": row}, world.acme.id)
            own["job_id"] = (await enqueue(conn, job, actor=DANA)).id
        if row in BEFORE:
            statement, *names = BEFORE[row]
            await conn.execute(statement, *(own[name] for name in names))
        if row == "DELETE /hosts/{host_id}":
            own["host_id"] = (await add_host(conn, tenant_id=world.acme.id, name="empty", actor=DANA)).id
        if row.endswith("/rollback"):
            second = {"key": own["key"], "steps": [{"id": "wait", "sleep": "20m"}]}
            await save_workflow(conn, second, actor=DANA, tenant_id=world.acme.id)
        if row.endswith("/fork"):
            await conn.execute(
                "insert into atlas.workflow_steps (tenant_id, run_id, branch, position, name, kind, status)"
                " select tenant_id, id, '', 0, 'wait', 'sleep', 'succeeded' from atlas.jobs where id = $1",
                own["run_id"],
            )
    return own


async def made(row, world, things, pool, request_id):
    method, path = row.split(" ")
    own = await prepared(row, world, things, pool)
    body = body_of(row)
    who = caller_of(row, world)
    query = {"tenant": "acme"} if who == ("all", "operator") and row == "POST /policies" else None
    if row in ("PATCH /policies/{label}", "DELETE /policies/{label}"):
        query = {"tenant": "acme"}
    if row == REMOVE_TENANT:
        query = {"cancel": "true"}
    async with world.client(*who) as client:
        client.headers["X-Request-Id"] = request_id
        if row.endswith(" /session"):
            return await signed(client, world, method)
        return await client.request(method, filled(path, own), json=body, params=query)


async def signed(client, world, method):
    """In, or in and out."""
    del client.headers["Authorization"]
    answer = await client.post("/session", json={"token": world.tokens["all", "operator"]})
    if method == "POST":
        return answer
    client.headers.update({"X-CSRF-Token": answer.json()["csrf_token"], "Origin": "http://atlas.test"})
    return await client.delete("/session")


@pytest.mark.parametrize("part", [0, 1, 2])
async def test_every_change_is_in_the_audit_log_with_its_request(world, things, pool, conn, owner, part):
    """And an edit or a removal with the values before and after it, whatever verb made it."""
    missing = []
    await owner.execute(NOTE_EDITS)
    for table in set(STATE_KINDS.values()) - NO_EDITS:
        await owner.execute(NOTE_EDITS_OF.format(table))
    for row in CHANGES[part::3]:
        request_id = uuid4().hex
        answer = await made(row, world, things, pool, request_id)
        if answer.status_code >= 300:
            missing.append((row, answer.status_code, answer.text))
            continue
        rows = await conn.fetch("select * from atlas.audit_log where meta->>'request_id' = $1", request_id)
        if not rows:
            missing.append((row, "no row"))
        for found in rows:
            facts = orjson.loads(found["meta"])
            assert re.fullmatch(r"[0-9a-f]{64}", facts["ip"]["commitment"]), row
            assert b"10.1.2.3" not in found["body"], row
            assert re.fullmatch(r"[a-z2-7]{8}", facts["token"]), row
            assert found["actor_id"], row
            assert orjson.loads(found["body"])["meta"] == facts, row
    for edit in await owner.fetch(EDITS):
        unexplained = set(edit["columns"]) - {path.split(".")[0] for path in edit["shown"] or ()} - TRACES
        if unexplained and not {"TENANT_REMOVED", "TENANT_ROWS_REMOVED"} & set(edit["actions"]):
            missing.append((edit["source"], edit["actions"], sorted(unexplained)))
    assert not missing, missing


async def test_a_change_that_fails_leaves_no_row(world, things, conn, admin):
    before = await conn.fetchval("select count(*) from atlas.audit_log")
    refused = [
        await admin.post(f"/jobs/{uuid4()}/cancel"),
        await admin.post("/jobs/triggers", json={"label": "x", "trigger_type": "schedule", "cron_expr": "never"}),
        await admin.post("/tokens", json={"subject": "x", "role": "operator"}),
        await admin.post("/jobs", json=[{"job_type": "x.work"}, {"job_type": "x.work", "host_id": str(uuid4())}]),
    ]

    assert all(answer.status_code in (403, 404, 422) for answer in refused)
    assert await conn.fetchval("select count(*) from atlas.audit_log") == before


async def test_the_audit_log_shows_what_a_browser_did_by_its_session(world, conn):
    transport = httpx.ASGITransport(world.app, client=("10.1.2.3", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://atlas.test/api/v1") as page:
        page.headers["Origin"] = "http://atlas.test"
        signed_in = await page.post("/session", json={"token": world.tokens["acme", "tenant_admin"]})
        page.headers["X-CSRF-Token"] = signed_in.json()["csrf_token"]
        job = (await page.post("/jobs", json={"job_type": "x.work"})).json()
    meta = orjson.loads(
        await conn.fetchval("select meta from atlas.audit_log where entity_id = $1", str(UUID(job["id"])))
    )

    assert meta["token"] == world.tokens["acme", "tenant_admin"].split("_")[1]
