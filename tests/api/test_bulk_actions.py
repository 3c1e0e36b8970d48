"""Actions on many jobs, dead letters by cause, and jobs enqueued again, over HTTP."""

from uuid import UUID, uuid4

import orjson
import pytest

from atlas.engine.jobs.actions.bulk_actions import take_step
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.lists.counts import count_jobs
from atlas.engine.secrets.store import reveal
from atlas.engine.workflows.intents import take_intents
from tests.api.test_jobs import make
from tests.engine.jobs.given import given_worker
from tests.engine.jobs.test_bulk_actions import BURY
from tests.engine.jobs.test_dead_letters import MANY


@pytest.fixture
async def dead(admin, conn):
    """Three dead letters of the tenant."""
    made = [(await make(admin, payload={"n": n}))["id"] for n in range(3)]
    await conn.execute(BURY, [UUID(id) for id in made], "Port 17 is closed", "{}")
    return made


async def test_a_group_of_dead_letters_is_retried_by_its_filter(admin, dead):
    [group] = (await admin.get("/jobs/dead-letters")).json()["items"]
    assert (group["count"], group["error_pattern"], group["sample_id"]) == (3, "Port # is closed", dead[2])

    chosen = {name: group[name] for name in ("job_type", "error_type", "error_pattern")}
    body = {"action": "retry", "filter": {"status": ["dead_letter"], **chosen}, "reason": " The port is open. "}
    begun = await admin.post("/jobs/bulk", json=body)
    assert begun.status_code == 201, begun.text
    assert begun.json() | {"status": "done", "changed": 3, "reason": "The port is open."} == begun.json()
    assert {name: value for name, value in begun.json()["filter"].items() if value} == body["filter"]
    assert (await admin.get("/jobs/dead-letters")).json() == {"items": [], "count": 0, "examined": 0, "complete": True}
    [event] = (await admin.get("/audit", params={"entity_id": dead[0], "action": "JOB_RETRIED"})).json()["items"]
    assert (event["actor_id"], event["meta"]["reason"]) == ("tenant_admin@acme", "The port is open.")


@pytest.mark.long
async def test_the_number_of_a_preview_is_the_number_changed_while_more_arrive(world, admin, conn):
    await conn.execute(MANY, world.acme.id, 7_000)
    assert await count_jobs(conn)
    [group] = (await admin.get("/jobs/dead-letters")).json()["items"]
    chosen = {name: group[name] for name in ("job_type", "error_type", "error_pattern")}
    body = {"action": "discard", "filter": {"status": ["dead_letter"], **chosen}}
    preview = (await admin.post("/jobs/bulk/preview", json=body)).json()
    assert (group["count"], preview["count"], preview["complete"]) == (7_000, 7_000, True)

    await conn.execute(MANY, world.acme.id, 12)
    named = {"action": "discard", "digest": preview["digest"], "reason": "known"}
    async with world.client("other", "tenant_admin") as stranger:
        assert (await stranger.post("/jobs/bulk", json=named)).status_code == 404
    assert (await admin.post("/jobs/bulk", json=named | {"action": "retry"})).status_code == 409
    begun = (await admin.post("/jobs/bulk", json=named)).json()
    assert (begun["total"], begun["arrived"], begun["changed"], begun["status"]) == (7_000, 12, 200, "running")
    while await take_step(conn, UUID(begun["id"])):
        pass
    done = (await admin.get(f"/jobs/bulk/{begun['id']}")).json()
    assert (done["status"], done["changed"], done["verdicts"]) == ("done", 7_000, {"discarded": 7_000})
    left = "select count(*) from atlas.jobs where dead_lettered_at is not null"
    assert await conn.fetchval(left) == 12


async def test_a_preview_of_ids_says_which_are_refused_and_the_action_changes_the_rest(world, admin, dead):
    queued = (await make(admin))["id"]
    chosen = {"action": "retry", "ids": [*dead, queued]}
    preview = (await admin.post("/jobs/bulk/preview", json=chosen)).json()
    assert (preview["count"], preview["filter"], preview["left_out"]) == (3, None, {"queued": 1})
    assert preview["refused"] == {queued: "queued"}
    async with world.client("other", "tenant_admin") as stranger:
        assert (await stranger.post("/jobs/bulk/preview", json=chosen)).json()["left_out"] == {"missing": 4}
    begun = (await admin.post("/jobs/bulk", json={"action": "retry", "digest": preview["digest"]})).json()
    assert (begun["total"], begun["changed"], begun["filter"], begun["arrived"]) == (3, 3, None, None)
    for body in ({"action": "retry"}, chosen | {"filter": {"job_type": "x"}}):
        refused = await admin.post("/jobs/bulk/preview", json=body)
        assert refused.status_code == 422
        assert "give one of ids and filter" in refused.text


async def test_an_action_is_watched_and_stopped(world, admin, dead):
    body = {"action": "discard", "ids": dead, "rate_per_second": 0.5, "reason": "known"}
    begun = (await admin.post("/jobs/bulk", json=body)).json()
    assert (begun["status"], begun["total"], begun["changed"]) == ("running", 3, 1)
    assert (await admin.get("/jobs/bulk")).json()["items"] == [begun]
    assert (await admin.get(f"/jobs/bulk/{begun['id']}")).json() == begun
    async with world.client("other", "tenant_admin") as stranger:
        assert (await stranger.get("/jobs/bulk")).json()["items"] == []
        assert (await stranger.post(f"/jobs/bulk/{begun['id']}/cancel")).status_code == 404
    stopped = await admin.post(f"/jobs/bulk/{begun['id']}/cancel")
    assert (stopped.json()["status"], stopped.json()["canceled_by"]) == ("canceled", "tenant_admin@acme")
    assert (await admin.post(f"/jobs/bulk/{begun['id']}/cancel")).status_code == 409


async def test_a_tenants_filter_finds_its_own_jobs_alone(world, admin, dead):
    async with world.client("other", "tenant_admin") as stranger:
        body = {"action": "delete", "filter": {"status": ["dead_letter"]}}
        assert (await stranger.post("/jobs/bulk", json=body)).json()["changed"] == 0
        body = {"action": "delete", "ids": dead}
        assert (await stranger.post("/jobs/bulk", json=body)).json()["verdicts"] == {"missing": 3}
    assert len((await admin.get("/jobs", params={"status": "dead_letter"})).json()["items"]) == 3


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"action": "retry"}, "give one of ids, filter and digest"),
        ({"action": "retry", "ids": [str(uuid4())], "filter": {"job_type": "x"}}, "give one of ids, filter and digest"),
        ({"action": "discard", "ids": [str(uuid4())], "reason": " "}, "A reason is required"),
        ({"action": "delete", "filter": {}}, "every job would match"),
        ({"action": "delete", "filter": {"job_type": None}}, "every job would match"),
        ({"action": "retry", "filter": {"status": ["succeeded"]}}, "It applies to: failed, dead_letter, canceled"),
        ({"action": "retry", "ids": [str(uuid4())], "rate_per_second": 0}, "greater than or equal to 0.01"),
    ],
)
async def test_an_action_that_makes_no_sense_is_refused_with_the_reason(admin, body, reason):
    answer = await admin.post("/jobs/bulk", json=body)
    assert answer.status_code in (409, 422)
    assert reason in answer.text


async def test_a_job_is_enqueued_again_with_its_secrets_and_options(world, admin, conn):
    schema = {"type": "object", "properties": {"token": {"type": "string", "x-secret": True}}}
    await conn.execute(
        "update atlas.job_types set input_schema = $1 where key = 'x.work'", orjson.dumps(schema).decode()
    )
    options = {"priority": 7, "max_retries": 1, "correlation_id": "order-1", "dedupe_key": "k", "timeout_seconds": 9}
    first = await make(admin, payload={"token": "hush-hush-hush"}, **options)
    async with world.client("other", "enqueuer") as stranger:
        assert (await stranger.post(f"/jobs/{first['id']}/enqueue-again")).status_code == 404
    async with world.client("acme", "enqueuer") as enqueuer:
        answer = await enqueuer.post(f"/jobs/{first['id']}/enqueue-again")
    assert answer.status_code == 201, answer.text
    second = answer.json()
    one, other = [(await admin.get(f"/jobs/{id}")).json() for id in (first["id"], second["id"])]
    same = ("payload", "job_type", "tenant_id", "priority", "max_retries", "correlation_id", "timeout_seconds")
    assert {name: one[name] for name in same} == {name: other[name] for name in same}
    assert (other["dedupe_key"], other["source_ref"], other["created_by"]) == (None, first["id"], "enqueuer@acme")
    for id in (first["id"], second["id"]):
        text = orjson.dumps(one["payload"]).decode()
        clear, _ = await reveal(conn, UUID(id), world.acme.id, text)
        assert orjson.loads(clear) == {"token": "hush-hush-hush"}


async def test_a_run_is_requested_again_in_its_tenant(operator, admin, conn):
    await admin.post("/workflows", json={"document": {"key": "made", "steps": [{"id": "wait", "sleep": "1h"}]}})
    run = await make(admin, job_type="ENGINE_RUN", payload={"workflow": "made", "input": {"n": 1}})
    await take_intents(conn, "tests")
    again = await operator.post(f"/jobs/{run['id']}/enqueue-again")
    assert again.status_code == 201, again.text
    intent = (await admin.get(f"/intents/{again.json()['id']}")).json()
    assert (intent["workflow"], intent["input"], intent["requested_by"]) == ("made", {"n": 1}, "operator@all")


async def test_a_page_of_jobs_is_explained_in_one_call(world, admin, conn):
    made = [(await make(admin, payload={"n": n}))["id"] for n in range(3)]
    worker = await given_worker(conn, "x.work")
    await claim(conn, worker, limit=1)
    foreign = (await make(world.client("other", "tenant_admin")))["id"]
    answer = await admin.get("/jobs/explain", params={"id": [*made, foreign]})
    found = {item["id"]: item["reason"] for item in answer.json()["items"]}
    assert found == {made[0]: "running", made[1]: "next", made[2]: "queue"}
    assert (await admin.get("/jobs/explain")).json() == {"items": []}
    assert (await admin.get("/jobs/explain", params={"id": [str(uuid4())] * 101})).status_code == 422


async def test_a_list_without_payloads_is_the_same_list(admin, conn, dead):
    await make(admin, payload={"large": "x" * 100_000})
    whole = (await admin.get("/jobs")).json()["items"]
    brief = await admin.get("/jobs/brief")
    assert len(brief.content) < 10_000
    left_out = {"payload", "output"}
    expected = [{name: value for name, value in job.items() if name not in left_out} for job in whole]
    assert brief.json()["items"] == expected


async def test_several_statuses_and_more_filters_find_what_they_name(admin, conn, dead):
    queued, later = (await make(admin, correlation_id="order-1")), (await make(admin, delay_seconds=3600))
    await conn.execute("update atlas.jobs set claimed_by = 'box:1' where id = $1", UUID(dead[0]))

    async def found(**params):
        answer = await admin.get("/jobs/brief", params=params)
        assert answer.status_code == 200, answer.text
        return [job["id"] for job in answer.json()["items"]]

    assert await found(status=["dead_letter", "waiting"]) == [later["id"], *dead[::-1]]
    assert await found(status=["queued", "waiting"]) == [later["id"], queued["id"]]
    assert await found(correlation_id="order-1") == [queued["id"]]
    assert await found(correlation_id="order-1", status="dead_letter") == []
    assert await found(id_prefix=queued["id"][:35]) in ([queued["id"]], [later["id"], queued["id"]])
    assert await found(id_prefix=queued["id"]) == [queued["id"]]
    assert await found(id_prefix="ffff") == []
    assert await found(worker_id="box:1") == [dead[0]]
    assert await found(error_type="ValueError") == dead[::-1]
    assert await found(error_text="IS CLOSED") == dead[::-1]
    assert await found(error_text="is open") == []
    assert await found(error_pattern="Port # is closed") == dead[::-1]
    assert await found(finished_after="2020-01-01T00:00:00Z") == dead[::-1]
    assert await found(finished_before="2020-01-01T00:00:00Z") == []
    assert await found(host_id=str(uuid4())) == []
    assert await found(parent_run_id=str(uuid4())) == []


async def test_what_failed_is_listed_in_the_order_of_its_end(admin, operator, conn, dead):
    await conn.execute("update atlas.jobs set finished_at = now() + interval '1 minute' where id = $1", UUID(dead[0]))
    for client in (admin, operator):
        pages, cursor = [], None
        while True:
            params = {"order": "ended", "limit": 1, **({} if cursor is None else {"cursor": cursor})}
            page = (await client.get("/jobs", params=params)).json()
            pages += [job["id"] for job in page["items"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert pages == [dead[0], dead[2], dead[1]]
    assert (await admin.get("/jobs", params={"order": "ended", "status": "succeeded"})).status_code == 422
    assert (await admin.get("/jobs", params={"order": "ended", "offset": 3})).status_code == 422
    assert (await admin.get("/jobs", params={"order": "ended", "cursor": "no"})).status_code == 422
    assert (await admin.get("/jobs", params={"cursor": "no"})).status_code == 422


async def test_job_types_say_how_large_a_payload_may_be_and_how_they_retry(admin):
    [found] = [item for item in (await admin.get("/job-types")).json()["items"] if item["key"] == "x.work"]
    assert (found["input_limit"], type(found["retry_policy"])) == (256 * 1024, dict)
