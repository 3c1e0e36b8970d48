"""Jobs over HTTP: enqueued, listed, counted, canceled and retried."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

import atlas.api.db
import atlas.api.enqueue_batcher
import atlas.engine.jobs.lists.job_list
import atlas.engine.jobs.lists.summary
from atlas.engine.jobs.enqueue import enqueue, enqueue_many
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.repository import JobsRepository
from tests.support import DANA


async def make(client, **fields):
    answer = await client.post("/jobs", json={"job_type": "x.work", **fields})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def test_a_response_of_201_means_that_the_job_is_committed(admin, world, conn):
    made = await make(admin, payload={"n": 1}, priority=7, max_retries=2, correlation_id="order-1")
    row = await conn.fetchrow("select * from atlas.jobs where id = $1", UUID(made["id"]))

    assert made["status"] == "queued"
    assert made["deduplicated"] is False
    assert made["tenant_id"] == str(world.acme.id)
    assert datetime.fromisoformat(made["queued_at"]) == row["created_at"]
    assert (row["priority"], row["max_retries"], row["correlation_id"]) == (7, 2, "order-1")
    assert row["source"] == "manual"
    assert row["created_by"] == "tenant_admin@acme"


async def test_the_event_of_a_job_names_its_caller_address_and_request(admin, world, conn):
    answer = await admin.post("/jobs", json={"job_type": "x.work"}, headers={"X-Request-Id": "req-1"})
    events = (await admin.get("/audit", params={"entity_id": answer.json()["id"]})).json()["items"]

    assert answer.headers["x-request-id"] == "req-1"
    [event] = events
    assert event["action"] == "JOB_CREATED"
    assert event["actor_id"] == "tenant_admin@acme"
    prefix = world.tokens["acme", "tenant_admin"].split("_")[1]
    ip = await conn.fetchval("select encode(commitment, 'hex') from atlas.audit_private where value = '10.1.2.3'")
    assert event["meta"] == {"job_type": "x.work", "ip": {"commitment": ip}, "request_id": "req-1", "token": prefix}


async def test_jobs_of_many_requests_at_once_each_keep_their_own_event(admin, conn):
    answers = await asyncio.gather(
        *(
            admin.post("/jobs", json={"job_type": "x.work", "payload": {"n": n}}, headers={"X-Request-Id": f"r{n}"})
            for n in range(60)
        )
    )
    rows = await conn.fetch(
        "select j.input->>'n' as n, a.meta->>'request_id' as request from atlas.jobs j join atlas.audit_log a on a.entity_id = j.id::text"
    )

    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 60
    assert sorted((row["n"], row["request"]) for row in rows) == sorted((str(n), f"r{n}") for n in range(60))


async def test_one_bad_job_among_many_requests_at_once_spoils_no_other(admin):
    await make(admin, dedupe_key="held", payload={"a": 1})
    bodies = [{"job_type": "x.work", "payload": {"n": n}} for n in range(30)]
    bodies += [
        {"job_type": "x.work", "dedupe_key": "held", "payload": {"a": 2}},
        {"job_type": "x.work", "dedupe_key": "held", "payload": {"a": 1}},
    ]
    answers = await asyncio.gather(*(admin.post("/jobs", json=body) for body in bodies))

    assert [answer.status_code for answer in answers] == [201] * 30 + [409, 201]
    assert answers[-1].json()["deduplicated"] is True
    assert "held" in answers[-2].json()["detail"]


@pytest.mark.long
async def test_a_held_dedupe_key_delays_no_other_job_and_may_be_tried_again(admin, world, conn):
    holding = conn.transaction()
    await holding.start()
    await enqueue(conn, NewJob("x.work", {}, world.acme.id, dedupe_key="held"), actor=DANA)

    async def ask(**fields):
        return await admin.post("/jobs", json={"job_type": "x.work", **fields}, timeout=30)

    held = asyncio.create_task(ask(dedupe_key="held"))
    await asyncio.sleep(0.2)
    behind = [asyncio.create_task(ask(dedupe_key=key)) for key in ("held", "free", "other")]
    assert (await ask()).status_code == 201
    assert not held.done()
    received = [(await answer).status_code for answer in (held, *behind)]
    await holding.rollback()

    assert received == [503, 503, 201, 201]
    assert held.result().headers["retry-after"]
    assert held.result().json()["type"] == "urn:atlas:problem:unavailable"
    assert (await ask(dedupe_key="held")).status_code == 201


@pytest.mark.long
async def test_many_requests_for_a_held_dedupe_key_delay_other_keys_as_little_as_one(admin, world, conn):
    holding = conn.transaction()
    await holding.start()
    for key in ("held", "taken"):
        await enqueue(conn, NewJob("x.work", {}, world.acme.id, dedupe_key=key), actor=DANA)

    async def ask(key):
        return (await admin.post("/jobs", json={"job_type": "x.work", "dedupe_key": key})).status_code

    async with asyncio.timeout(6):
        received = await asyncio.gather(*(ask(key) for key in ["held"] * 20 + ["taken"] * 5 + ["free", "other"]))
    await holding.rollback()

    assert received == [503] * 25 + [201] * 2


@pytest.mark.long
async def test_a_keyed_call_and_a_list_wait_for_a_held_dedupe_key_as_briefly(admin, world, conn):
    holding = conn.transaction()
    await holding.start()
    await enqueue(conn, NewJob("x.work", {}, world.acme.id, dedupe_key="held"), actor=DANA)
    body = {"job_type": "x.work", "dedupe_key": "held"}
    async with asyncio.timeout(6):
        received = await asyncio.gather(
            admin.post("/jobs", json=body, headers={"Idempotency-Key": "k"}),
            admin.post("/jobs", json=body, headers={"Idempotency-Key": "k"}),
            admin.post("/jobs", json=[body, {"job_type": "x.work"}]),
        )
    await holding.rollback()
    again = await admin.post("/jobs", json=body, headers={"Idempotency-Key": "k"})

    assert [one.status_code for one in received] == [503] * 3
    assert all(one.headers["retry-after"] for one in received)
    assert (again.status_code, "idempotency-replayed" in again.headers) == (201, False)


async def test_every_request_of_a_group_is_answered_when_the_connection_breaks(admin, monkeypatch):
    await make(admin, dedupe_key="held", payload={"a": 1})
    real = atlas.api.enqueue_batcher.make

    async def breaking(conn, jobs, actor):
        if [job.dedupe_key for job in jobs] == ["breaks"]:
            conn.terminate()
        return await real(conn, jobs, actor)

    monkeypatch.setattr(atlas.api.enqueue_batcher, "make", breaking)
    keys = ("a", "b", "held", "c", "breaks", "d", "e", "f")
    async with asyncio.timeout(10):
        answers = await asyncio.gather(
            *(admin.post("/jobs", json={"job_type": "x.work", "dedupe_key": key}) for key in keys)
        )

    assert [answer.status_code for answer in answers] == [201, 201, 409, 201, 503, 503, 503, 503]
    assert (await make(admin, dedupe_key="d"))["deduplicated"] is False


async def test_a_change_of_a_locked_row_is_503_with_retry_after(admin, conn, monkeypatch):
    monkeypatch.setattr(atlas.api.db, "WRITE_TIMEOUT", "300ms")
    made = await make(admin)
    async with conn.transaction():
        await conn.execute("select from atlas.jobs where id = $1 for update", UUID(made["id"]))
        received = await admin.post(f"/jobs/{made['id']}/cancel")
    again = await admin.post(f"/jobs/{made['id']}/cancel")

    assert (received.status_code, again.status_code) == (503, 200)
    assert received.headers["retry-after"]


async def test_a_list_is_enqueued_as_a_whole_or_not_at_all(admin, conn):
    good = await admin.post("/jobs", json=[{"job_type": "x.work"}, {"job_type": "y.work", "priority": 2}])
    bad = await admin.post("/jobs", json=[{"job_type": "x.work"}, {"job_type": "x.work", "host_id": str(uuid4())}])
    many = await admin.post("/jobs", json=[{"job_type": "x.work"}] * 1001)
    none = await admin.post("/jobs", json=[])

    assert good.status_code == 201
    assert [one["job_type"] for one in good.json()] == ["x.work", "y.work"]
    assert [answer.status_code for answer in (bad, many, none)] == [422, 422, 422]
    assert await conn.fetchval("select count(*) from atlas.jobs") == 2


async def test_a_thousand_jobs_with_payloads_fit_into_one_call(admin):
    answer = await admin.post(
        "/jobs", json=[{"job_type": "x.work", "payload": {"a": n, "b": [1, 2, {"c": "d"}]}} for n in range(1000)]
    )

    assert answer.status_code == 201
    assert len(answer.json()) == 1000


async def test_a_repeated_call_gets_the_first_response(admin, conn):
    async def send(n, key="k1"):
        return await admin.post(
            "/jobs", json={"job_type": "x.work", "payload": {"n": n}}, headers={"Idempotency-Key": key}
        )

    first, again = await send(1), await send(1)
    other_body, other_key = await send(2), await send(1, "k2")

    assert first.status_code == again.status_code == 201
    assert first.json() == again.json()
    assert again.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers
    assert other_body.status_code == 409
    assert other_key.json()["id"] != first.json()["id"]
    assert await conn.fetchval("select count(*) from atlas.jobs") == 2


async def test_fifty_calls_with_one_key_at_once_make_one_job(admin, conn):
    answers = await asyncio.gather(
        *(admin.post("/jobs", json={"job_type": "x.work"}, headers={"Idempotency-Key": "same"}) for _ in range(50))
    )

    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.text for answer in answers}) == 1
    assert await conn.fetchval("select count(*) from atlas.jobs") == 1


async def test_a_key_belongs_to_its_caller_and_one_that_failed_is_free_again(world, conn):
    admin, enqueuer = world.client("acme", "tenant_admin"), world.client("acme", "enqueuer")
    key = {"Idempotency-Key": "mine"}
    failed = await admin.post("/jobs", json={"job_type": "x.work", "host_id": str(uuid4())}, headers=key)
    first = await admin.post("/jobs", json={"job_type": "x.work"}, headers=key)
    other = await enqueuer.post("/jobs", json={"job_type": "x.work"}, headers=key)

    assert failed.status_code == 422
    assert first.status_code == other.status_code == 201
    assert first.json()["id"] != other.json()["id"]


async def test_an_operator_names_the_tenant_and_work_without_one_is_the_systems(operator, world):
    named = await operator.post("/jobs", params={"tenant": "acme"}, json={"job_type": "x.work"})
    unnamed = await operator.post("/jobs", json={"job_type": "x.work"})
    unknown = await operator.post("/jobs", params={"tenant": "nobody"}, json={"job_type": "x.work"})

    assert named.json()["tenant_id"] == str(world.acme.id)
    assert unnamed.json()["tenant_id"] == "00000000-0000-7000-8000-000000000001"
    assert unknown.status_code == 404
    for spelled, status in {"?%74enant=acme": 201, "?tenant": 422, "?tenant=": 422, "?%74enant=nobody": 404}.items():
        answer = await operator.post(f"/jobs{spelled}", json={"job_type": "x.work"})
        assert answer.status_code == status, spelled
        assert answer.json().get("tenant_id", str(world.acme.id)) == str(world.acme.id)


async def test_a_job_for_later_waits_and_one_of_a_command_names_it(admin, operator):
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    waiting = await make(admin, scheduled_for=later)
    await operator.post("/admin/jobs/definitions", json={"key": "echo.it", "argv": ["/bin/echo", "hi"]})
    command = await admin.post("/jobs", json={"definition_key": "echo.it"})
    unknown = await admin.post("/jobs", json={"definition_key": "rm.all"})
    plain = await admin.post("/jobs", json={"definition_key": "x.work"})

    assert waiting["status"] == "waiting"
    assert command.json()["definition_key"] == command.json()["job_type"] == "echo.it"
    assert unknown.status_code == plain.status_code == 404


async def test_a_payload_is_checked_against_what_its_type_published(admin, conn):
    await conn.execute(
        "insert into atlas.job_types (key, input_schema) values ('typed', $1)",
        '{"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}',
    )
    wrong = await admin.post("/jobs", json={"job_type": "typed", "payload": {"to": 5}})
    right = await admin.post("/jobs", json={"job_type": "typed", "payload": {"to": "ann"}})

    assert wrong.status_code == 422
    assert [error["field"] for error in wrong.json()["errors"]] == ["to"]
    assert right.status_code == 201


async def test_a_workflow_that_is_requested_as_a_job_becomes_an_intent(admin):
    made = await admin.post(
        "/jobs",
        json={"job_type": "ENGINE_RUN", "allow_unknown": True, "payload": {"workflow": "wf", "input": {"a": 1}}},
    )
    wrong = await admin.post("/jobs", json={"job_type": "ENGINE_RUN", "payload": {"input": 5}})
    intent = (await admin.get(f"/intents/{made.json()['id']}")).json()

    assert made.status_code == 201
    assert (intent["workflow"], intent["input"], intent["status"]) == ("wf", {"a": 1}, "draft")
    assert {error["field"] for error in wrong.json()["errors"]} == {"payload.workflow", "payload.input"}


async def test_no_way_leads_past_the_intent_to_a_run(admin, conn):
    payload = {"workflow": "wf", "input": {}, "requestedBy": "somebody else"}
    trigger = {"label": "sneak", "trigger_type": "event", "event_name": "a.b", "payload_template": payload}
    step = {"id": "a", "job": "ENGINE_RUN", "with": payload}
    answers = [
        await admin.post("/jobs", json={"definition_key": "ENGINE_RUN", "payload": payload}),
        await admin.post("/jobs", json={"job_type": "ENGINE_RUN", "payload": payload}),
        await admin.post("/jobs/triggers", json={**trigger, "job_type": "ENGINE_RUN"}),
        await admin.post("/workflows", json={"document": {"key": "w", "steps": [step]}}),
    ]
    fields = [[error["field"] for error in answer.json()["errors"]] for answer in answers]

    assert [answer.status_code for answer in answers] == [422] * 4
    assert fields == [["job_type"], ["payload.requestedBy"], ["job_type"], ["steps[0].job"]]
    assert await conn.fetchval("select count(*) from atlas.jobs") == 0


async def test_the_correlation_id_of_the_request_is_used_for_jobs_that_have_none(admin, conn):
    answers = [
        await admin.post("/jobs", json={"job_type": "x.work", **own}, headers={"X-Correlation-Id": "from-header"})
        for own in ({}, {"correlation_id": "own"})
    ]
    found = [(await admin.get(f"/jobs/{answer.json()['id']}")).json()["correlation_id"] for answer in answers]

    assert found == ["from-header", "own"]


async def test_pages_are_stable_while_jobs_arrive(admin, world, pool):
    async with pool.acquire() as conn:
        made = await enqueue_many(conn, [NewJob("x.work", {"n": n}, world.acme.id) for n in range(25)], actor=DANA)
    seen, cursor = [], None
    while True:
        page = (await admin.get("/jobs", params={"limit": 10, **({"cursor": cursor} if cursor else {})})).json()
        seen += [job["id"] for job in page["items"]]
        await make(admin)  # arrives in front, and is not on any later page
        cursor = page["next_cursor"]
        if cursor is None:
            break

    assert seen == [str(one.id) for one in reversed(made)]


async def test_a_page_of_large_jobs_ends_early_and_goes_on_with_its_cursor(admin, owner):
    """Large as they are read: what is stored compressed is small on the disk alone."""
    made = [(await make(admin, payload={"n": n}))["id"] for n in range(9)]
    await owner.execute(
        """update atlas.jobs set input = jsonb_build_object('text', repeat('x', 1500000)) where (input->>'n')::int in (2, 3, 4);
        alter table atlas.jobs alter column output set storage external;
        update atlas.jobs set output = jsonb_build_object('text', repeat('x', 5000000)) where (input->>'n')::int = 6"""
    )
    pages, cursor = [], {}
    while cursor is not None:
        page = (await admin.get("/jobs", params={"limit": 200, **cursor})).json()
        pages.append([item["id"] for item in page["items"]])
        cursor = None if page["next_cursor"] is None else {"cursor": page["next_cursor"]}
    small = (await admin.get("/jobs", params={"limit": 2})).json()

    assert [id for page in pages for id in page] == made[::-1]
    assert [len(page) for page in pages] == [3, 4, 2]
    assert len(small["items"]) == 2


async def test_filters_find_what_they_name(admin, conn, world):
    one = await make(admin, job_type="a.work", correlation_id="c-1")
    await make(admin, job_type="b.work")
    await conn.execute(
        "update atlas.jobs set status = 'failed', finished_at = now(), dead_lettered_at = now() where job_type = 'b.work'"
    )

    async def ids(**params):
        return [job["id"] for job in (await admin.get("/jobs", params=params)).json()["items"]]

    assert await ids(job_type="a.work") == [one["id"]]
    assert await ids(correlation_id="c-1") == [one["id"]]
    assert await ids(status="queued") == [one["id"]]
    assert len(await ids(status="dead_letter")) == 1
    assert await ids(status="failed") == []
    assert await ids(source="event") == []
    assert await ids(created_before="2020-01-01T00:00:00Z") == []
    assert len(await ids(created_after="2020-01-01T00:00:00Z")) == 2
    assert await ids(offset=1, limit=1) == [one["id"]]
    assert (await admin.get("/jobs", params={"status": "lost"})).status_code == 422
    assert (await admin.get("/jobs", params={"limit": 201})).status_code == 422
    assert (await admin.get("/jobs", params={"offset": 10_001})).status_code == 422


async def test_an_offset_behind_a_filter_goes_on_over_several_pages(admin, conn, monkeypatch):
    monkeypatch.setattr(atlas.engine.jobs.lists.job_list, "MAX_EXAMINED_FOR_OFFSET", 5)
    made = [(await make(admin, job_type=f"{'ab'[n % 2]}.work"))["id"] for n in range(24)]
    await conn.execute(
        "update atlas.jobs set status = 'failed', finished_at = now(), dead_lettered_at = now() where job_type = 'b.work'"
    )

    for query, expected in (({"job_type": "a.work"}, made[22::-2]), ({"status": "dead_letter"}, made[::-2])):
        for offset in (3, 8, 11, 12):
            # The same query again with each cursor, as clients do.
            params, pages = {**query, "offset": offset, "limit": 2}, []
            while not pages or (pages[-1]["next_cursor"] and not pages[-1]["items"]):
                cursor = {"cursor": pages[-1]["next_cursor"]} if pages else {}
                pages.append((await admin.get("/jobs", params=params | cursor)).json())
            assert [job["id"] for job in pages[-1]["items"]] == expected[offset : offset + 2], (query, offset)
            assert offset < 8 or len(pages) > 1
            assert all(page["searched_back_to"] for page in pages[:-1])
    for cursor in ("WyJ4IiwgMV0", "W10", "eyJhIjoxfQ"):
        assert (await admin.get("/jobs", params={"cursor": cursor})).status_code == 422


async def test_the_time_that_a_job_was_enqueued_for_stays_as_it_was(admin, conn):
    later = (datetime.now(UTC) + timedelta(hours=1)).replace(microsecond=0)
    job = (await make(admin, job_type="timed.work", allow_unknown=True, scheduled_for=later.isoformat()))["id"]
    delayed = (await make(admin, job_type="timed.work", allow_unknown=True, delay_seconds=3600))["id"]
    plain = (await make(admin, job_type="timed.work", allow_unknown=True))["id"]
    waiting, short = [(await admin.get(f"/jobs/{one}")).json() for one in (job, delayed)]
    await conn.execute("update atlas.jobs set next_retry_at = next_retry_at - interval '2 hours'")
    await conn.execute("select atlas.promote_due(10)")
    due = (await admin.get(f"/jobs/{job}")).json()
    repository = JobsRepository()
    for claimed in await repository.claim(conn, limit=10):
        await repository.mark_failure(conn, claimed.id, "no paper")
    retried, first = [(await admin.get(f"/jobs/{one}")).json() for one in (job, plain)]

    assert [one["status"] for one in (waiting, due, retried, first)] == ["waiting", "queued", "waiting", "waiting"]
    assert [datetime.fromisoformat(one["scheduled_for"]) for one in (waiting, due, retried)] == [later] * 3
    assert datetime.fromisoformat(waiting["next_retry_at"]) == later
    assert (short["scheduled_for"], due["next_retry_at"]) == (short["next_retry_at"], None)
    assert first["scheduled_for"] is None
    assert datetime.now(UTC) < datetime.fromisoformat(retried["next_retry_at"]) < later
    [listed] = (await admin.get("/jobs/brief", params={"id_prefix": job})).json()["items"]
    assert (listed["scheduled_for"], listed["next_retry_at"]) == (retried["scheduled_for"], retried["next_retry_at"])


async def test_a_summary_counts_what_filters_find(admin, conn):
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    for fields in ({}, {}, {"scheduled_for": later}, {"job_type": "b.work"}):
        await make(admin, **fields)
    await conn.execute(
        "update atlas.jobs set status = 'failed', finished_at = now(), dead_lettered_at = now() where job_type = 'b.work'"
    )
    summary = (await admin.get("/jobs/summary")).json()

    assert summary["counts"] == {
        "queued": 2,
        "waiting": 1,
        "running": 0,
        "dead_letter": 1,
        "succeeded": 0,
        "failed": 0,
        "canceled": 0,
    }
    assert summary["estimated"] == []
    assert summary["oldest_queued_seconds"] > 0
    assert summary["per_minute"]["enqueued"] == 0.8


async def test_counts_too_large_to_be_counted_each_time_are_exact(admin, operator, owner, world, monkeypatch):
    monkeypatch.setattr(atlas.engine.jobs.lists.summary, "COUNTED", 50)
    await owner.execute(
        "insert into atlas.jobs (tenant_id, job_type, status, finished_at, dead_lettered_at, next_retry_at)"
        " select case when n % 4 = 0 then $2::uuid else $1::uuid end, 'x.work', (array['succeeded', 'failed', 'queued', 'canceled'])[1 + n / 800]::atlas.job_status,"
        " case when n / 800 <> 2 then now() end, case when n / 800 = 1 and n % 2 = 0 then now() end,"
        " case when n / 800 = 2 and n % 100 = 1 then now() + interval '1 day' end from generate_series(0, 3199) n",
        world.acme.id,
        world.other.id,
    )
    kinds = ("succeeded", "failed", "canceled", "queued", "waiting", "dead_letter")
    for client, counted in ((admin, [600, 400, 600, 592, 8, 200]), (operator, [800, 400, 800, 792, 8, 400])):
        summary = (await client.get("/jobs/summary")).json()
        assert summary["counts"] == {**dict(zip(kinds, counted, strict=True)), "running": 0}
        assert summary["estimated"] == []

    # What happens from now on is added from the audit log.
    failed = (await admin.get("/jobs", params={"status": "dead_letter", "limit": 1})).json()["items"][0]["id"]
    await admin.post(f"/jobs/{failed}/retry")
    await admin.post(f"/jobs/{(await make(admin))['id']}/cancel")
    counts = (await admin.get("/jobs/summary")).json()["counts"]
    assert [counts[kind] for kind in kinds] == [600, 400, 601, 593, 8, 199]

    # Too many of all tenants wait: their sum is exact, how many of them wait is estimated.
    await owner.execute(
        "update atlas.jobs set next_retry_at = now() + interval '1 day' where status = 'queued' and id in"
        " (select id from atlas.jobs where status = 'queued' limit 400)"
    )
    summary = (await admin.get("/jobs/summary")).json()
    assert summary["estimated"] == ["queued", "waiting"]
    assert summary["counts"]["queued"] + summary["counts"]["waiting"] == 601


async def test_jobs_are_canceled_retried_and_deleted(admin, conn):
    job = (await make(admin))["id"]

    assert (await admin.post(f"/jobs/{job}/cancel")).json() == {"id": job, "verdict": "canceled"}
    assert (await admin.post(f"/jobs/{job}/cancel")).status_code == 409
    assert (await admin.post(f"/jobs/{job}/retry")).json() == {"id": job, "verdict": "retried"}
    assert (await admin.post(f"/jobs/{job}/retry")).status_code == 409
    await conn.execute("update atlas.jobs set status = 'running', claimed_by = 'w', started_at = now()")
    assert (await admin.delete(f"/jobs/{job}")).status_code == 409
    await conn.execute("update atlas.jobs set status = 'queued', claimed_by = null, started_at = null")
    assert (await admin.delete(f"/jobs/{job}")).status_code == 204
    assert (await admin.get(f"/jobs/{job}")).status_code == 404
    actions = [event["action"] for event in (await admin.get("/audit", params={"entity_id": job})).json()["items"]]
    assert actions == ["JOB_DELETED", "JOB_RETRIED", "JOB_CANCELED", "JOB_CREATED"]


async def test_a_tick_runs_jobs_inside_the_api(operator):
    answer = await operator.post("/jobs/tick", json={"limit": 5})

    assert answer.status_code == 200
    assert answer.json() == {
        "ok": True,
        "ran": 0,
        "succeeded": 0,
        "retried": 0,
        "failed": 0,
        "canceled": 0,
        "closed": False,
        "types": {},
    }


async def test_a_job_shows_its_attempts_and_why_it_waits(admin, conn):
    job = (await make(admin))["id"]
    await conn.execute(
        "insert into atlas.job_attempts (job_id, attempt_no, worker_id, status, started_at, error_text)"
        " values ($1, 1, 'w', 'failed', now(), 'boom')",
        UUID(job),
    )
    attempts = (await admin.get(f"/jobs/{job}/attempts")).json()["items"]
    received = (await admin.get(f"/jobs/{job}/explain")).json()

    assert [(attempt["job_run_id"], attempt["status"], attempt["error_text"]) for attempt in attempts] == [
        (f"{job}:1", "failed", "boom")
    ]
    assert received["reason"] == "no_worker"
    assert "x.work" in received["sentence"]


async def test_a_delay_counts_on_the_databases_clock(admin, conn):
    made = (await admin.post("/jobs", json={"job_type": "x.work", "delay_seconds": 90})).json()
    due = await conn.fetchval(
        "select extract(epoch from next_retry_at - created_at)::float8 from atlas.jobs where id = $1", UUID(made["id"])
    )
    assert 89 < due <= 90

    both = {"job_type": "x.work", "delay_seconds": 1, "scheduled_for": "2030-01-01T00:00:00Z"}
    assert (await admin.post("/jobs", json=both)).status_code == 422


async def test_a_type_or_workflow_that_nothing_knows_is_refused_with_names_like_it(admin):
    job = {"job_type": "x.wrok"}
    run = {"job_type": "ENGINE_RUN", "payload": {"workflow": "wf.unknown"}}
    intent = {"workflow": "wf.unknown"}

    for path, body, field in (("/jobs", job, "job_type"), ("/jobs", run, "workflow"), ("/intents", intent, "workflow")):
        refused = await admin.post(path, json=body)
        assert (refused.status_code, [error["field"] for error in refused.json()["errors"]]) == (422, [field])
        assert (await admin.post(path, json={**body, "allow_unknown": True})).status_code == 201
    assert "names like it are x.work" in (await admin.post("/jobs", json=job)).json()["errors"][0]["reason"]
