"""Observability: metrics, health, logs that can be followed from the request to the handler, and usage."""

import io
import logging
from typing import Any
from uuid import UUID, uuid4

import httpx
import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families

import atlas.api.enqueue_batcher
import atlas.api.http.middleware
import atlas.api.metrics.metrics
import atlas.api.resources.jobs.jobs
import atlas.engine.metering.usage
from atlas.api.app import create_app
from atlas.audit.forwarding.places import add_forwarder
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.finish import finish
from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.metering.usage import meter_usage
from atlas.engine.workflows.registry import workflow
from atlas.logs import configure_logs, get_logger
from tests.api.conftest import QUICK, running
from tests.engine.jobs.given import given_worker, success
from tests.support import DANA

PLAIN = "http://atlas.test"


@workflow("seen.flow")
async def flow(run: Any, input: dict[str, Any]) -> None: ...


@job("seen.work", max_retries=0)
async def work(input: dict[str, Any], ctx: JobContext) -> dict[str, Any]:
    """Logs that it ran, and fails if its input says so."""
    ctx.log.info("the handler is at work")
    if input.get("fail"):
        raise RuntimeError("as the test asked")
    return {"done": True}


@pytest.fixture
def logged(monkeypatch):
    """All that is logged, as Atlas's programs log it."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    configure_logs("debug", json=True)
    written = io.StringIO()
    root.handlers[0].setStream(written)
    monkeypatch.setattr(atlas.api.http.middleware, "log", get_logger("api.requests"))

    yield lambda: [orjson.loads(line) for line in written.getvalue().splitlines()]
    configure_logs("error")
    root.handlers[:], root.level = before, level


@pytest.fixture
def fresh(world):
    """Without the cache of some seconds."""

    async def figures(client):
        world.app.state.metrics._cache.forget()
        answer = await client.get(f"{PLAIN}/metrics")
        assert answer.status_code == 200, answer.text
        return {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(answer.text)
            for sample in family.samples
        }

    return figures


async def test_metrics_show_depth_rates_times_and_the_process(world, operator, admin, fresh, conn):
    await add_forwarder(conn, "siem", "https://collector.example/", "json", actor=DANA)
    before = await fresh(operator)
    for body in ({}, {}, {"payload": {"fail": True}, "max_retries": 0}, {"scheduled_for": "2100-01-01T00:00:00Z"}):
        await admin.post("/jobs", json={"job_type": "seen.work", **body})
    await admin.post("/jobs", json={"job_type": "unpublished.work", "allow_unknown": True})
    await operator.put("/system/atlas-online", json={"online": True})
    await operator.post("/jobs/tick", json={"limit": 10})
    now = await fresh(operator)

    def depth(job_type, status):
        return now["atlas_jobs", ("job_type", job_type), ("status", status), ("tenant", "acme")]

    def moved(kind):
        return now["atlas_job_events_total", ("kind", kind)] - before["atlas_job_events_total", ("kind", kind)]

    assert depth("unpublished.work", "queued") == 1
    assert depth("seen.work", "waiting") == 1
    assert depth("seen.work", "dead_letter") == 1
    assert {kind: moved(kind) for kind in ("enqueued", "succeeded", "retried", "failed", "dead_lettered")} == {
        "enqueued": 5,
        "succeeded": 2,
        "retried": 0,
        "failed": 0,
        "dead_lettered": 1,
    }
    assert now["atlas_job_run_seconds_count", ("job_type", "seen.work")] == 3
    assert now["atlas_job_wait_seconds_count", ("job_type", "seen.work")] == 3
    assert now["atlas_job_wait_seconds_sum", ("job_type", "seen.work")] > 0
    assert now[("atlas_online",)] == 1
    assert now[("atlas_oldest_due_seconds",)] > 0
    assert now[("atlas_pool_connections",)] >= 1
    assert now[("atlas_seal_lag_seconds",)] > 0
    assert now["atlas_audit_forward_lag_rows", ("forwarder", "siem")] == 0
    assert now["atlas_audit_forward_lag_seconds", ("forwarder", "siem")] == 0
    assert ("atlas_audit_whole",) not in now  # nothing was verified yet
    assert now[("atlas_workers",)] == 0
    assert now["atlas_horizon_held_seconds", ("kind", "session")] == 0
    assert now[("atlas_dead_rows",)] >= 0
    assert ("atlas_notification_lag_seconds",) in now or now[("atlas_notifications",)] == 0
    assert now["atlas_http_requests_total", ("method", "POST"), ("route", "/api/v1/jobs"), ("status", "201")] == 5


async def test_two_processes_count_the_same(world, operator, admin, fresh, pool, database_url, settings, opened):
    second = await opened(running(create_app(settings, pool, database_url, rates=QUICK)))
    transport = httpx.ASGITransport(second, client=("10.1.2.3", 1))
    other = httpx.AsyncClient(transport=transport, headers=world.headers("all", "operator"))
    await fresh(operator)
    await other.get(f"{PLAIN}/metrics")
    for _ in range(3):
        await admin.post("/jobs", json={"job_type": "seen.work"})
    second.state.metrics._cache.forget()

    assert (await fresh(operator))["atlas_job_events_total", ("kind", "enqueued")] == 3
    assert 'atlas_job_events_total{kind="enqueued"} 3.0' in (await other.get(f"{PLAIN}/metrics")).text


async def test_no_job_is_missing_from_the_counters_and_the_times(operator, fresh, conn, monkeypatch):
    monkeypatch.setattr(atlas.engine.metering.usage.meter_usage, "__kwdefaults__", {"limit": 900})
    await enqueue_many(conn, [NewJob("many.work", {}) for _ in range(2_300)], actor=DANA)
    worker = await given_worker(conn, "many.work")
    while jobs := await claim(conn, worker, limit=500):
        await finish(conn, worker, [success(worker, one) for one in jobs])
    now = await fresh(operator)

    assert now["atlas_job_events_total", ("kind", "enqueued")] == 2_300
    assert now["atlas_job_events_total", ("kind", "succeeded")] == 2_300
    for name in ("atlas_job_run_seconds", "atlas_job_wait_seconds"):
        assert now[f"{name}_count", ("job_type", "many.work")] == 2_300
        assert now[f"{name}_bucket", ("job_type", "many.work"), ("le", "7200.0")] == 2_300


async def test_after_a_long_pause_every_scrape_catches_up_a_part(operator, admin, fresh, monkeypatch):
    enqueued = ("atlas_job_events_total", ("kind", "enqueued"))
    await fresh(operator)
    monkeypatch.setattr(atlas.engine.metering.usage.meter_usage, "__kwdefaults__", {"limit": 4})
    monkeypatch.setattr(atlas.api.metrics.metrics, "MAX_BATCHES", 3)
    await admin.post("/jobs", json=[{"job_type": "seen.work"}] * 25)
    assert [(await fresh(operator))[enqueued] for _ in range(3)] == [12, 24, 25]


async def test_metrics_are_shown_where_nothing_can_be_written(operator, admin, fresh, owner, world):
    await admin.post("/jobs", json={"job_type": "seen.work"})
    await owner.execute("revoke insert, update on atlas.job_totals from atlas_engine")
    now = await fresh(operator)
    assert now["atlas_job_events_total", ("kind", "enqueued")] == 0
    assert now["atlas_jobs", ("job_type", "seen.work"), ("status", "queued"), ("tenant", "acme")] == 1


async def test_invented_types_share_one_label(operator, admin, fresh, conn, owner, monkeypatch):
    monkeypatch.setattr(atlas.api.metrics.metrics, "MAX_NAMED", 2)
    await owner.execute(
        "insert into atlas.job_totals select 'known.' || n, 0, 0, 0, 0, 0, 0, array_fill(0, array[17]), 0, array_fill(0, array[17]), 0"
        " from generate_series(1, 198) n"
    )
    names = ["a.one", "a.one", "a.two", "a.two", "a.three", "a.four"]
    await enqueue_many(conn, [NewJob(name, {}) for name in names], actor=DANA)
    now = await fresh(operator)
    depth = {dict(key[1:])["job_type"]: count for key, count in now.items() if key[0] == "atlas_jobs"}
    assert depth == {"a.one": 2, "a.two": 2, "(other)": 2}

    worker = await given_worker(conn, *set(names))
    await finish(conn, worker, [success(worker, one) for one in await claim(conn, worker, limit=10)])
    now = await fresh(operator)
    runs = {dict(key[1:])["job_type"]: count for key, count in now.items() if key[0] == "atlas_job_run_seconds_count"}
    assert len(runs) == 201
    assert runs["(other)"] + sum(count for name, count in runs.items() if name.startswith("a.")) == len(names)


async def test_the_oldest_due_job_is_found_wherever_it_waits(world, operator, admin, fresh, conn):
    oldest = ("atlas_oldest_due_seconds",)
    assert (await fresh(operator))[oldest] == 0
    made = await admin.post("/jobs", json={"job_type": "seen.work", "delay_seconds": 600})
    assert (await fresh(operator))[oldest] == 0
    await conn.execute("update atlas.jobs set next_retry_at = now() - interval '1 minute'")
    assert 60 <= (await fresh(operator))[oldest] < 70
    ages = {"priority = 5": 120, "priority = 0": 180, "careful = true": 240, f"host_id = '{uuid4()}'": 300}
    for place, seconds in ages.items():
        made = await admin.post("/jobs", json={"job_type": "seen.work"})
        await conn.execute(
            f"update atlas.jobs set {place}, created_at = now() - interval '{seconds} s' where id = $1",
            UUID(made.json()["id"]),
        )
        assert seconds <= (await fresh(operator))[oldest] < seconds + 10
        for caller in (operator, admin):
            summary = (await caller.get("/jobs/summary")).json()
            assert seconds <= summary["oldest_queued_seconds"] < seconds + 10


async def test_metrics_are_for_callers_without_a_tenant_and_for_the_machine_itself(world):
    def client(address, headers=None, host="localhost:8080"):
        transport = httpx.ASGITransport(world.app, client=(address, 1))
        return httpx.AsyncClient(transport=transport, headers=headers, base_url=f"http://{host}")

    cases = [
        (client("10.1.2.3"), 401),
        (client("10.1.2.3", world.headers("acme", "tenant_admin")), 403),
        (client("10.1.2.3", world.headers("acme", "auditor")), 403),
        (client("10.1.2.3", world.headers("all", "auditor")), 200),
        (client("127.0.0.1"), 200),
        (client("127.0.0.1", host="127.0.0.1:8080"), 200),
        (client("::1", host="[::1]:8080"), 200),
        (client("127.0.0.1", {"X-Forwarded-For": "127.0.0.1"}), 401),
        (client("127.0.0.1", {"Forwarded": "for=127.0.0.1"}), 401),
        (client("127.0.0.1", world.headers("acme", "enqueuer")), 403),
        # A page in a browser of this machine, whose name its owner made to lead here.
        (client("127.0.0.1", host="evil.test:8080"), 401),
        (client("127.0.0.1", host="localhost.evil.test"), 401),
        (client("127.0.0.1", {"Host": ""}), 401),
    ]
    for caller, status in cases:
        assert (await caller.get("/metrics")).status_code == status, caller.headers


async def test_health_needs_no_credential_and_readiness_needs_the_database(world):
    transport = httpx.ASGITransport(world.app, client=("10.1.2.3", 1))
    async with httpx.AsyncClient(transport=transport) as anonymous:
        assert (await anonymous.get(f"{PLAIN}/healthz")).json() == {"ok": True}
        assert (await anonymous.get(f"{PLAIN}/readyz")).json() == {"ok": True}


async def test_a_correlation_id_is_carried_from_the_request_to_the_handlers_log(admin, operator, logged):
    made = await admin.post(
        "/jobs", json={"job_type": "seen.work"}, headers={"X-Correlation-Id": "order-4711", "X-Request-Id": "req-1"}
    )
    await operator.post("/jobs/tick")
    [line] = [line for line in logged() if line["event"] == "the handler is at work"]

    assert line["correlation_id"] == "order-4711"
    assert line["job_id"] == made.json()["id"]
    assert line["tenant_id"] == made.json()["tenant_id"]
    assert {"attempt_no", "worker_id", "definition_key"} <= line.keys()
    event = (await admin.get("/audit", params={"entity_id": made.json()["id"], "action": "JOB_CREATED"})).json()[
        "items"
    ][0]
    assert event["meta"]["correlation_id"] == "order-4711"
    assert event["meta"]["request_id"] == "req-1"


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize(
    ("headers", "correlation_id"),
    [
        ({"traceparent": TRACE}, TRACE),
        ({"traceparent": TRACE, "X-Correlation-Id": "order-4711"}, "order-4711"),
        ({"traceparent": "00-none-of-it-01"}, None),
    ],
)
async def test_the_place_in_a_trace_goes_on_with_the_job_and_the_run(admin, headers, correlation_id):
    made = await admin.post("/jobs", json={"job_type": "seen.work"}, headers=headers)
    assert (await admin.get(f"/jobs/{made.json()['id']}")).json()["correlation_id"] == correlation_id
    asked = await admin.post("/intents", json={"workflow": "seen.flow"}, headers={"traceparent": TRACE})
    assert (await admin.get(f"/intents/{asked.json()['id']}")).json()["correlation_id"] == TRACE


async def test_what_a_handler_logs_and_the_stack_of_its_failure_are_in_its_attempt(admin, operator, logged):
    made = await admin.post("/jobs", json={"job_type": "seen.work", "payload": {"fail": True}})
    await operator.post("/jobs/tick")
    [attempt] = (await admin.get(f"/jobs/{made.json()['id']}/attempts")).json()["items"]

    assert attempt["log_tail"].endswith(" info the handler is at work\n")
    assert 'raise RuntimeError("as the test asked")' in attempt["error_text"]


async def test_a_requests_log_entry_names_caller_route_and_status(admin, world, logged):
    made = await admin.post("/jobs", json={"job_type": "seen.work"}, headers={"X-Request-Id": "good"})
    await admin.post("/jobs", json={"job_type": 5}, headers={"X-Request-Id": "bad"})
    lines = {line["request_id"]: line for line in logged() if line["event"] == "request"}

    facts = {"method": "POST", "route": "/api/v1/jobs", "subject": "tenant_admin@acme", "tenant_id": str(world.acme.id)}
    assert facts.items() <= lines["good"].items()
    assert facts.items() <= lines["bad"].items()
    assert (lines["good"]["status"], lines["good"]["job_id"]) == (201, made.json()["id"])
    assert lines["bad"]["status"] == 422
    assert not any(token in str(logged()) for token in world.tokens.values())


async def test_the_log_says_where_a_refused_credential_came_from(world, logged):
    for refused in ({"Authorization": "Bearer atl_no"}, {"Cookie": "atlas=no"}, {}):
        async with world.client() as client:
            client.headers = refused
            assert (await client.get("/jobs")).status_code == 401
            assert (await client.post("/session", json={"token": "atl_no"})).status_code == 401
    entries = [one for one in logged() if one.get("status") == 401]

    assert len(entries) == 6
    assert {entry["address"] for entry in entries} == {"10.1.2.3"}


async def test_every_response_names_its_request_and_is_not_cached(operator):
    given = await operator.get("/jobs", headers={"X-Request-Id": "mine-1"})
    odd = await operator.get("/jobs", headers={"X-Request-Id": "not <safe>"})

    assert given.headers["x-request-id"] == "mine-1"
    assert odd.headers["x-request-id"] not in ("not <safe>", "")
    for answer in (given, odd, await operator.get(f"/jobs/{uuid4()}")):
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]


async def test_an_internal_error_reveals_only_its_request_id(admin, monkeypatch):
    async def breaks(*_, **__):
        raise RuntimeError("the words of an error may hold anything")

    monkeypatch.setattr(atlas.api.enqueue_batcher.EnqueueBatcher, "enqueue", breaks)
    monkeypatch.setattr(atlas.api.resources.jobs.jobs, "list_page", breaks)
    answers = [
        await admin.post("/jobs", json={"job_type": "x.work"}, headers={"X-Request-Id": "req-1"}),
        await admin.get("/jobs", headers={"X-Request-Id": "req-1"}),
    ]

    for answer in answers:
        assert answer.status_code == 500
        assert answer.headers.get_list("x-request-id") == ["req-1"]
        assert answer.json()["type"] == "urn:atlas:problem:internal"
        assert "words" not in answer.text


async def test_usage_sums_up_finished_attempts(world, admin, operator, conn):
    await admin.post("/jobs", json=[{"job_type": "seen.work", "payload": {"fail": fail}} for fail in (False, True)])
    await operator.post("/jobs/tick")
    await meter_usage(conn)
    [total] = (await admin.get("/usage")).json()["items"]
    [hour] = (await admin.get("/usage", params={"by_hour": True})).json()["items"]

    assert (total["job_type"], total["runs"], total["succeeded"], total["failed"]) == ("seen.work", 2, 1, 1)
    assert total["run_seconds"] >= 0
    assert total["hour"] is None
    assert hour["hour"].endswith(":00:00Z")
    assert (await admin.get("/usage", params={"end": "2020-01-01T00:00:00Z"})).json()["items"] == []
    assert (await world.client("other", "tenant_admin").get("/usage")).json()["items"] == []
    assert len((await operator.get("/usage", params={"tenant": "acme"})).json()["items"]) == 1
