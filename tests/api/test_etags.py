"""Entity tags: an edit that names a state changes that state alone, whatever other edits come at the same time."""

import asyncio
from datetime import timedelta
from email.utils import format_datetime, parsedate_to_datetime
from uuid import UUID

import pytest

from tests.api.given import furnish_installation, furnish_tenant
from tests.api.table import TABLE
from tests.api.test_bad_input import assert_problem
from tests.api.test_matrix import BODIES, filled
from tests.engine.jobs.test_gate_holders import holding_session
from tests.pgbouncer import direct_url
from tests.support import some

# Each thing that is edited: its address, and an edit that differs with a number.
THINGS = {
    "trigger": ("/jobs/triggers/{trigger_id}", lambda n: {"label": f"n{n}"}),
    "definition": ("/admin/jobs/definitions/echo.it", lambda n: {"description": f"n{n}"}),
    "host": ("/hosts/{host_id}", lambda n: {"is_active": bool(n % 2)}),
    "server": ("/hosts/{host_id}/instances/{instance_id}", lambda n: {"name": f"n{n}"}),
    "tenant": ("/tenants/acme", lambda n: {"name": f"n{n}"}),
    "workflow": ("/workflows/greet-acme?tenant=acme", lambda n: {"is_enabled": bool(n % 2)}),
    "policy": ("/policies/rule-acme?tenant=acme", lambda n: {"runs_per_day": n}),
    "webhook": ("/webhooks/{webhook_id}", lambda n: {"description": f"n{n}"}),
    "gate": ("/system/atlas-online", lambda n: {"online": bool(n % 2), "reason": f"n{n}"}),
    "engine": ("/system/engine-enabled", lambda n: {"enabled": bool(n % 2), "reason": f"n{n}"}),
}


@pytest.fixture
async def ids(pool, world):
    await furnish_installation(pool)
    return await furnish_tenant(pool, world.acme)


@pytest.fixture
def editors(world):
    """Callers that do not wait for each other."""
    return [world.client(), world.client("acme", "tenant_admin")]


async def edit(client, kind, ids, n, **headers):
    path, change = THINGS[kind]
    method = "PUT" if kind in ("gate", "engine") else "PATCH"
    return await client.request(method, filled(path, ids), json=change(n), headers=headers)


async def read(client, kind, ids):
    # The gate's address shows the engine's switch too.
    path, _ = THINGS["gate" if kind == "engine" else kind]
    return await client.get(filled(path, ids))


async def etag(client, kind, ids):
    return (await read(client, kind, ids)).headers["etag"]


@pytest.mark.long
@pytest.mark.parametrize("kind", THINGS)
async def test_a_stale_edit_is_refused_and_changes_nothing(ids, conn, editors, kind):
    operator = editors[0]
    first = await etag(operator, kind, ids)
    edited = await edit(operator, kind, ids, 2, **{"If-Match": first})
    second = await etag(operator, kind, ids)
    events = await conn.fetchval("select count(*) from atlas.audit_log")
    stale = await edit(operator, kind, ids, 3, **{"If-Match": first})

    assert edited.is_success, edited.text
    assert edited.headers["etag"] == second != first
    received = assert_problem(stale, 412)
    assert received["type"] == "urn:atlas:problem:stale"
    assert "has changed since it was read." in received["detail"]
    assert received["remedy"].startswith("Read it again")
    assert await etag(operator, kind, ids) == second
    assert await conn.fetchval("select count(*) from atlas.audit_log") == events
    for wanted in (f"{first}, {second}", f'"a,b",{second}', "*"):
        assert (await edit(operator, kind, ids, 2, **{"If-Match": wanted})).is_success
    assert (await edit(operator, kind, ids, 3)).is_success  # an edit that names no state edits any
    assert_problem(await edit(operator, kind, ids, 2, **{"If-Match": f"W/{second}"}), 412)
    assert_problem(await edit(operator, kind, ids, 2, **{"If-Match": "unquoted"}), 422, "header.If-Match")


@pytest.mark.long
@pytest.mark.parametrize("kind", THINGS)
async def test_of_concurrent_edits_of_one_state_one_succeeds(ids, editors, kind):
    clients = editors if kind in ("trigger", "host", "server", "workflow", "webhook") else editors[:1] * 2
    wanted = {"If-Match": await etag(editors[0], kind, ids)}
    # Even numbers: an edit that changes nothing would leave the state as it is.
    calls = (edit(client, kind, ids, n, **wanted) for n, client in zip((2, 4, 6, 8), clients * 2, strict=True))
    statuses = sorted([answer.status_code for answer in await asyncio.gather(*calls)])

    assert statuses[0] < 300
    assert statuses[1:] == [412] * 3


async def test_an_edit_is_refused_if_another_came_after_its_date(ids, editors):
    operator = editors[0]
    for kind in some(list(THINGS), every=3):
        if kind in ("gate", "engine"):
            assert (await edit(operator, kind, ids, 1)).is_success
        shown = await read(operator, kind, ids)
        edited_at = parsedate_to_datetime(shown.headers["last-modified"])
        before = format_datetime(edited_at - timedelta(seconds=1), usegmt=True)
        refused = assert_problem(await edit(operator, kind, ids, 2, **{"If-Unmodified-Since": before}), 412)
        assert refused["type"] == "urn:atlas:problem:stale"
        assert await etag(operator, kind, ids) == shown.headers["etag"]

        # The date is ignored beside a tag, and where it is none.
        conditions = [{"If-Match": shown.headers["etag"], "If-Unmodified-Since": before}]
        conditions += [{"If-Unmodified-Since": date} for date in ("yesterday", f"Wed, 18 Nov {'9' * 30} 08:00:00 GMT")]
        for n, condition in enumerate(conditions, 2):
            edited = await edit(operator, kind, ids, n, **condition)
            assert edited.is_success, (kind, condition, edited.text)
            assert parsedate_to_datetime(edited.headers["last-modified"]) >= edited_at
        latest = (await read(operator, kind, ids)).headers["last-modified"]
        assert latest == edited.headers["last-modified"]
        assert (await edit(operator, kind, ids, 2, **{"If-Unmodified-Since": latest})).is_success


@pytest.mark.long
async def test_of_concurrent_versions_of_one_workflow_one_is_saved(ids, conn, editors):
    def document(n):
        return {"document": {"key": "greet-acme", "steps": [{"id": f"s{n}", "sleep": "10m"}]}}

    wanted = {"If-Match": await etag(editors[0], "workflow", ids)}
    calls = (
        client.post("/workflows?tenant=acme", json=document(n), headers=wanted) for n, client in enumerate(editors * 2)
    )
    answers = await asyncio.gather(*calls)

    assert sorted(answer.status_code for answer in answers) == [201, 412, 412, 412]
    [saved] = [answer for answer in answers if answer.status_code == 201]
    assert saved.headers["etag"] == await etag(editors[0], "workflow", ids)
    assert await conn.fetchval("select max(version) from atlas.workflows where key = 'greet-acme'") == 2
    nothing = {"document": {"key": "unheard", "steps": [{"id": "a", "sleep": "1m"}]}}
    assert_problem(await editors[0].post("/workflows", json=nothing, headers={"If-Match": "*"}), 412)


async def test_what_atlas_does_itself_changes_no_tag(ids, editors):
    admin = editors[1]
    first = await etag(admin, "trigger", ids)
    fired = await admin.post(filled("/jobs/triggers/{trigger_id}/fire", ids), json={})

    assert fired.status_code == 201
    assert await etag(admin, "trigger", ids) == first


async def test_a_thing_that_changed_is_not_removed(ids, editors):
    kinds = ("definition", "trigger", "server", "webhook")
    for client, kind in zip((*editors, editors[1], editors[1]), kinds, strict=True):
        first = await etag(client, kind, ids)
        assert (await edit(client, kind, ids, 2)).is_success
        path = filled(THINGS[kind][0], ids)
        assert_problem(await client.delete(path, headers={"If-Match": first}), 412)
        assert (await client.delete(path, headers={"If-Match": await etag(client, kind, ids)})).is_success


async def test_a_replayed_edit_is_not_stale(ids, editors):
    first = await etag(editors[1], "trigger", ids)
    headers = {"If-Match": first, "Idempotency-Key": "k"}
    answers = [await edit(editors[1], "trigger", ids, 2, **headers) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [200, 200]


async def test_a_call_that_edits_no_state_refuses_if_match(world, ids):
    taken = {
        *("POST /workflows", "DELETE /jobs/triggers/{trigger_id}", "DELETE /admin/jobs/definitions/{key}"),
        *("DELETE /hosts/{host_id}", "DELETE /hosts/{host_id}/instances/{instance_id}", "DELETE /tenants/{slug_or_id}"),
        *("DELETE /webhooks/{webhook_id}", "DELETE /pauses/{pause_id}"),
    }
    things = {**ids, "token_id": ids["job_id"], "key": "echo.it"}
    for row, roles in TABLE.items():
        method, path = row.split(" ")
        if method in ("GET", "PATCH", "PUT") or row in taken or "everyone" in roles:
            continue
        role = roles.replace("*", "").split()[0]
        client = world.client("all" if role == "operator" else "acme", role)
        answer = await client.request(
            method, filled(path, things), json=BODIES.get(row, {}), headers={"If-Match": '"x"'}
        )
        assert_problem(answer, 422, "header.If-Match")


async def test_a_definition_is_found_and_edited_by_its_id_too(operator):
    made = (await operator.post("/admin/jobs/definitions", json={"key": "say.it", "argv": ["/bin/echo", "hi"]})).json()
    address = f"/admin/jobs/definitions/{made['id']}"
    changed = await operator.patch(address, json={"description": "says hi"})

    assert (changed.status_code, changed.json()["key"], changed.json()["description"]) == (200, "say.it", "says hi")
    assert (await operator.get(address)).json() == (await operator.get("/admin/jobs/definitions/say.it")).json()
    assert (await operator.delete(address)).json()["is_active"] is False
    assert (await operator.get(f"/admin/jobs/definitions/{UUID(int=7)}")).status_code == 404


@pytest.mark.long
async def test_a_switch_that_is_refused_keeps_the_record_of_the_session_it_ended(operator, pool, database_url):
    async with holding_session(direct_url(database_url)):
        refused = await operator.put("/system/atlas-online", json={"online": False}, headers={"If-Match": '"other"'})
    assert_problem(refused, 412)
    assert await pool.fetchval("select count(*) from atlas.audit_log where action = 'GATE_UNBLOCKED'") == 1

    async with holding_session(direct_url(database_url)):
        switched = await operator.put("/system/atlas-online", json={"online": False})
    [session] = switched.json()["unblocked"]
    assert session.startswith("atlas worker (pid ")
