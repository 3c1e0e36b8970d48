"""Every address responds alike before and after jobs moved into history, to operators, their tenant and another one."""

import re
from typing import Any

import orjson
import pytest

from atlas.engine.enqueue import enqueue_group
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.finish import finish
from atlas.engine.jobs.groups import settle_groups
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.ids import new_id
from tests.api.table import TABLE
from tests.api.test_matrix import UNVERSIONED, filled, may
from tests.engine.effects.test_ledger import given_effect
from tests.engine.jobs.given import given_worker, success
from tests.engine.retention.test_history import file_all, given_failure, given_run, given_success, places
from tests.engine.retention.test_retention import age, old
from tests.support import DANA

# Those about a job, a run, a group or an effect, and the lists.
IDS = ("job_id", "run_id", "group_id", "effect_id")
# What says how things are at this moment, or is a stream.
OF_NOW = (
    "/audit",
    "/live",
    "/system",
    "/workers",
    "/session",
    "/agent",
    "/outbox",
    "/overview",
    "/insights",
    "/jobs/series",
    "/usage",
    *UNVERSIONED,
)
REQUEST_ID = re.compile(r'"request_id":"[^"]*"')
LISTS = (
    "/ids?kind=job&prefix=01",
    "/jobs?status=failed",
    "/jobs?status=canceled,succeeded&limit=2",
    "/jobs?correlation_id=c%201",
    "/jobs?order=ended",
    "/jobs?error_type=PermanentError",
    "/jobs?offset=2&limit=2",
    "/jobs/brief?status=succeeded",
    "/jobs?parent_run_id={run_id}",
    "/jobs?group_id={group_id}",
    "/jobs/explain?id={job_id}&id={failed_id}&id={run_id}",
    "/jobs/{failed_id}",
    "/jobs/{failed_id}/attempts",
    "/jobs/{failed_id}/explain",
    "/jobs/{run_id}",
    "/effects?job_id={paid_id}",
)
VERBS = (
    ("POST", "/jobs/{job_id}/cancel", None),
    ("POST", "/jobs/{job_id}/retry", None),
    ("POST", "/jobs/{failed_id}/cancel", None),
    ("POST", "/jobs/bulk", {"action": "discard", "ids": ["{failed_id}"], "reason": "known"}),
    ("POST", "/jobs/bulk", {"action": "cancel", "ids": ["{failed_id}", "{job_id}"], "reason": "known"}),
    ("POST", "/jobs/{failed_id}/enqueue-again", {}),
    ("POST", "/runs/{run_id}/signal", {"name": "go"}),
    ("POST", "/runs/{run_id}/cancel", None),
    ("POST", "/groups/{group_id}/cancel", None),
    ("POST", "/effects/{effect_id}/settle", {"outcome": "done", "reference": "ch_1"}),
    ("POST", "/effects/{effect_id}/settle", {"outcome": "not_done"}),
    ("POST", "/jobs/bulk/preview", {"action": "retry", "filter": {"status": ["failed"]}}),
    ("POST", "/jobs/bulk", {"action": "retry", "ids": ["{failed_id}"], "reason": "again"}),
    ("POST", "/jobs/{failed_id}/retry", None),
    ("POST", "/runs/{run_id}/retry", None),
    ("DELETE", "/jobs/{failed_id}", None),
    ("DELETE", "/jobs/{job_id}", None),
    ("GET", "/jobs/{job_id}", None),
)


async def given_work(conn: Any, tenant_id: Any, make_id: Any) -> dict[str, Any]:
    """A job that succeeded, one that failed, a run with a child, a group and an effect, all finished."""
    succeeded = await given_success(conn, tenant_id, id=make_id(), correlation_id="c 1")
    failed = await given_failure(conn, tenant_id=tenant_id, id=make_id())
    child = await given_success(conn, tenant_id, id=make_id())
    run = await given_run(conn, child, tenant_id=tenant_id, id=make_id())
    await conn.execute("update atlas.jobs set parent_run_id = $1 where id = $2", run, child)
    await conn.execute("""update atlas.jobs set input = '{"workflow": "flow", "input": {}}' where id = $1""", run)
    members = [NewJob("member", {}, tenant_id, id=make_id(), allow_unknown=True)]
    group = await enqueue_group(conn, members, actor=DANA)
    worker = await given_worker(conn, "member")
    [member] = await claim(conn, worker, limit=1)
    await finish(conn, worker, [success(worker, member)])
    await settle_groups(conn)
    effect = await given_effect(conn, tenant_id=tenant_id, id=make_id())
    found = {"job_id": succeeded, "failed_id": failed, "child_id": child, "run_id": run, "group_id": group}
    return {**found, "member_id": member.id, "effect_id": effect.id, "paid_id": effect.job.id}


def addresses(tenant: str, role: str) -> list[str]:
    rows = [row.removeprefix("GET ") for row in TABLE if row.startswith("GET ") and may(row, tenant, role)]
    named = [path for path in rows if not path.startswith(OF_NOW) and path not in OF_NOW]
    return [*(path for path in named if all(name in IDS for name in _names(path))), *LISTS]


def _names(path: str) -> list[str]:
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]


@pytest.mark.parametrize("role", ["tenant_admin", pytest.param("operator", marks=pytest.mark.long)])
async def test_every_address_responds_alike_after_jobs_moved_into_history(world, conn, pool, role):
    ids = await given_work(conn, world.acme.id, old)
    callers = [("all", "operator")] if role == "operator" else [("acme", role), ("other", role)]
    await age(conn, days=2)

    async def read() -> dict[tuple[str, str], Any]:
        found = {}
        for tenant, as_role in callers:
            async with world.client(tenant, as_role) as client:
                for path in addresses(tenant, as_role):
                    response = await client.get(filled(path, ids))
                    found[tenant, path] = response.status_code, REQUEST_ID.sub("", response.text)
        return found

    before = await read()
    assert await file_all(pool) == 6
    assert "jobs" not in (await places(conn)).values()
    after = await read()
    assert [name for name in before if before[name] != after[name]] == []
    own = [status for (tenant, _), (status, _) in before.items() if tenant != "other"]
    assert own.count(200) > 0.9 * len(own)
    if role == "tenant_admin":
        for path in ("/jobs/{job_id}", "/runs/{run_id}", "/groups/{group_id}", "/effects/{effect_id}"):
            assert after["other", path][0] == 404


@pytest.mark.long
@pytest.mark.parametrize("tenant", ["acme", "other"])
async def test_every_verb_does_to_jobs_in_history_what_it_does_to_others(world, conn, pool, tenant):
    filed = await given_work(conn, world.acme.id, old)
    await age(conn, days=2)
    assert await file_all(pool) == 6
    hot = await given_work(conn, world.acme.id, new_id)
    said: list[list[Any]] = [[], []]
    async with world.client(tenant, "tenant_admin") as client:
        for method, path, body in VERBS:
            for ids, responses in zip((hot, filed), said, strict=True):
                text = orjson.dumps(body).decode()
                for name, value in ids.items():
                    text = text.replace(f"{{{name}}}", str(value))
                response = await client.request(method, filled(path, ids), json=orjson.loads(text))
                verdicts = response.json().get("verdicts") if response.content else None
                problem = response.text if response.status_code >= 400 else ""
                for name, value in ids.items():
                    problem = problem.replace(str(value), name)
                responses.append((method, path, response.status_code, verdicts, _without_ids(problem)))
    assert said[1] == said[0]
    statuses = {status for _, _, status, *_ in said[0]}
    assert statuses >= ({200, 204, 404, 409} if tenant == "acme" else {404})
    assert await conn.fetchval("select count(*) = count(distinct id) from atlas.jobs")


def _without_ids(problem: str) -> Any:
    """What a problem says, without the id of its request."""
    if not problem:
        return None
    document = orjson.loads(problem)
    return {name: document.get(name) for name in ("title", "detail", "code", "errors")}
