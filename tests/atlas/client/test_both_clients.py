"""The client with an event loop and the one without: the same calls, with the same results, on a real server."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from atlas.audit.sealing.sealer import seal_and_sign
from atlas.client import (
    ApiConflict,
    ApiNotFound,
    ApiRefused,
    AsyncPages,
    AtlasClient,
    JobRequest,
    NotEnded,
    Pages,
    RetryBudget,
    RunNotStarted,
    SyncAtlasClient,
    Unreachable,
)
from atlas.engine.effects.reports import save_report
from atlas.engine.jobs.handlers.types import job as handles
from atlas.engine.jobs.handlers.types import registered
from atlas.engine.outbox_files import outbox_folder
from atlas.engine.workflows.intents import take_intents
from atlas.workers.tick import tick
from tests.api.given import furnish_installation, furnish_tenant, report_about
from tests.atlas.client.test_operations import routes
from tests.proxy import FaultyProxy
from tests.support import DANA

QUICK = RetryBudget(tries=8, seconds=10, first_pause=0.02, max_pause=0.2)


@pytest.fixture
def sync(server) -> Iterator[SyncAtlasClient]:
    """An operator without an event loop, for the tenant acme. Its calls block: the server has a thread of its own."""
    with SyncAtlasClient(server.address, server.world.tokens["all", "operator"], tenant="acme", retry=QUICK) as atlas:
        yield atlas


@pytest.fixture
async def atlas(server) -> AsyncIterator[AtlasClient]:
    async with AtlasClient(server.address, server.world.tokens["all", "operator"], tenant="acme", retry=QUICK) as made:
        yield made


@pytest.fixture
async def things(pool, server, settings) -> dict[str, Any]:
    """A row of every kind, under the names of the parameters that find it. The audit log is sealed."""
    await furnish_installation(pool)
    found = await furnish_tenant(pool, server.world.acme)
    async with pool.acquire() as conn:
        await save_report(conn, report_about("stripe"), actor=DANA)
    await seal_and_sign(pool, settings)
    mail = outbox_folder(settings.home) / "acme" / f"{found['job_id']}.eml"
    mail.parent.mkdir(parents=True)
    mail.write_text("From: a@example.com\nTo: b@example.com\nSubject: Hello\n\nIt works.\n")
    return {**found, "token_id": server.world.ids["acme", "enqueuer"]}


async def received(result: Any) -> Any:
    """What a method of either client returned, as documents."""
    if isinstance(result, AsyncPages):
        result = [one async for one in result]
    elif isinstance(result, Pages):
        result = list(result)
    elif hasattr(result, "__await__"):
        result = await result
    elif hasattr(result, "__aiter__"):
        result = b"".join([piece async for piece in result])
    elif hasattr(result, "__next__"):
        result = b"".join(result)
    one = next(iter(result), None) if isinstance(result, list) else result
    return one.model_dump(mode="json") if hasattr(one, "model_dump") else one


@pytest.mark.long
async def test_both_clients_read_the_same(atlas, sync, things):
    # What changes from call to call.
    passing = {"export_audit_log", "list_audit_rows", "list_tokens", "list_job_series", "get_insights"}
    passing |= {"get_status", "get_overview", "get_session", "summarize_jobs", "get_audit_status", "list_sessions"}
    passing |= {"get_worker", "list_workers", "list_new_audit_rows", "list_tenant_activity", "report_access"}
    passing |= {"get_step_times"}
    named = {"explain_jobs": {"id": [things["job_id"]]}, "find_ids": {"kind": "job", "prefix": str(things["job_id"])}}
    named["report_access"] = {"month": f"{datetime.now(UTC):%Y-%m}"}
    named["export_access_report"] = {"month": f"{datetime.now(UTC):%Y-%m}"}
    empty: list[str] = []
    verification = sync.start_verification()
    assert sync.wait_for_verification(verification, timeout=30).has_ended
    known = {**things, "verification_id": verification.id}
    for name, route in routes().items():
        if route.method != "GET":
            continue
        own = {**known, "key": "echo.it"} if "definitions" in route.path else known
        given = [own[each] for each in route.in_path]
        by_loop, by_blocking = [
            await received(getattr(one, name)(*given, **named.get(name, {}))) for one in (atlas, sync)
        ]

        assert type(by_loop) is type(by_blocking), name
        if name not in passing:
            assert by_loop == by_blocking, name
        empty += [] if by_blocking else [name]
    assert len(empty) < 12, empty


def test_a_program_without_an_event_loop_manages_an_installation(sync):
    tenant = sync.create_tenant("globex", "Globex", timezone="Europe/Berlin")
    assert sync.edit_tenant("globex", limits={"in_flight": 5}).limits == {"in_flight": 5}
    made = sync.create_token("ben", "tenant_admin", expires_at=datetime.now(UTC) + timedelta(days=1))
    assert made.token.startswith("atl_")
    assert sync.revoke_token(made.id).revoked_at is not None
    host = sync.create_host("box-9")
    server = sync.create_server(host.id, "db")
    other = sync.create_host("box-10")
    moved = sync.edit_server(host.id, server.id, host_id=other.id)
    assert (moved.host_id, moved.name) == (other.id, "db")
    sync.remove_server(other.id, server.id)
    assert not sync.edit_host(other.id, is_active=False).is_active
    defined = sync.create_definition({"key": "echo.it", "argv": ["/bin/echo", "hello"]})
    assert sync.edit_definition(defined.key, {"timeout_seconds": 9}).timeout_seconds == 9
    assert not sync.disable_definition(defined.key).is_active
    assert sync.switch_gate(False, reason="new disks").reason == "new disks"
    assert sync.switch_gate(True).online
    assert sync.switch_engine(True).engine_enabled
    removed = sync.remove_tenant("globex", reason="gone")
    assert (removed.id, removed.is_removed) == (tenant.id, True)
    with pytest.raises(ApiNotFound, match="globex"):
        sync.get_tenant("globex")


def test_a_program_without_an_event_loop_starts_work_in_every_way(sync):
    [one, two] = sync.enqueue_many([JobRequest(job_type="x.work"), JobRequest(job_type="y.work")])
    assert sync.enqueue_many([]) == []
    assert sync.explain_job(one.id).reason == "no_worker"
    assert sync.cancel_job(two.id).verdict == "canceled"
    sync.retry_job(two.id)
    sync.delete_job(two.id)
    assert [found.id for found in sync.list_jobs(job_type="x.work")] == [one.id]
    assert sync.list_jobs().page(limit=1).items[0].id == one.id

    trigger = sync.create_trigger("Morning", "schedule", cron_expr="0 7 * * *", job_type="x.work")
    assert sync.edit_trigger(trigger.id, label="Noon", cron_expr="0 12 * * *", timezone="Europe/Berlin").label == "Noon"
    # None removes what is set, what is not given stays.
    assert sync.edit_trigger(trigger.id, timezone=None).timezone is None
    assert len(sync.preview_trigger(trigger.id, count=3).items) == 3
    assert len(sync.preview_schedule("@hourly", count=2).items) == 2
    fired = sync.fire_trigger(trigger.id)
    assert [fire.job_id for fire in sync.list_trigger_fires(trigger.id)] == [fired.job_id]
    sync.remove_trigger(trigger.id)

    webhook = sync.create_webhook("https://shop.example/hook", ["job.failed"])
    assert webhook.secret
    assert not sync.edit_webhook(webhook.id, is_enabled=False).is_enabled
    assert sync.get_job(sync.test_webhook(webhook.id).job_id).job_type == "HTTP_CALL"
    sync.remove_webhook(webhook.id)
    hook = sync.create_inbound_hook("payment.received")
    sync.remove_inbound_hook(hook.id)
    assert sync.publish_event("invoice.paid", {"invoice": 4711}).woken == 0


async def test_an_action_on_many_jobs_is_waited_for(atlas, sync):
    jobs = await atlas.enqueue_many([JobRequest(job_type="x.work", input={"n": n}) for n in range(3)])
    slow = await atlas.begin_bulk_action("cancel", ids=[job.id for job in jobs], rate_per_second=0.01, reason="late")
    with pytest.raises(NotEnded, match="Bulk action .* has not ended within 0.1 s"):
        await atlas.wait_for_bulk_action(slow, timeout=0.1)
    waiting = asyncio.create_task(asyncio.to_thread(sync.wait_for_bulk_action, slow.id, timeout=30))
    await atlas.cancel_bulk_action(slow.id)

    assert (await waiting).status == (await atlas.wait_for_bulk_action(slow, timeout=30)).status == "canceled"
    assert [(await atlas.get_job(job.id)).status for job in jobs].count("canceled") == 1


DOCUMENT = {"key": "greet", "steps": [{"id": "wait", "sleep": "10m"}]}


async def test_a_run_is_asked_for_decided_and_waited_for(server, atlas, sync, pool, database_url, conn):
    assert sync.check_workflow({"key": "greet"}).errors
    assert (await atlas.save_workflow(DOCUMENT)).is_new
    await atlas.edit_workflow("greet", is_enabled=True)
    await atlas.create_policy("Look at it", "review", workflow="greet")
    asked = await atlas.request_run("greet", {"to": "ann"})
    await take_intents(conn, "tests")
    [approval] = [one async for one in atlas.list_approvals(run_id=asked.id)]
    with pytest.raises(ApiRefused, match="may not decide"):
        await atlas.decide_approval(approval.id, approve=True, input_hash=approval.input_hash)
    with pytest.raises(NotEnded, match="Approval .* has not ended within 0.1 s"):
        await atlas.wait_for_approval(approval, timeout=0.1)
    with pytest.raises(NotEnded, match="Run .* has not ended"):
        sync.wait_for_run(asked, timeout=0.1)

    admin = server.world.tokens["acme", "tenant_admin"]
    async with AtlasClient(server.address, admin, retry=QUICK) as ann:
        decided = await ann.decide_approval(approval.id, approve=False, comment="Too dear.")
    assert (await atlas.wait_for_approval(approval, timeout=30)).status == decided.status == "rejected"
    for wait in (
        lambda: atlas.wait_for_run(asked, timeout=30),
        lambda: asyncio.to_thread(sync.wait_for_run, asked.id, timeout=30),
    ):
        with pytest.raises(RunNotStarted, match="is rejected: .* rejected it: Too dear."):
            await wait()
    await atlas.remove_policy("Look at it")

    again = await atlas.request_run("greet")
    await take_intents(conn, "tests")
    await tick(pool, database_url, limit=10)
    assert (await atlas.signal_run(again.id, "hurry")).woken == 0
    assert (await atlas.cancel_run(again.id)).verdict in ("canceled", "requested")
    assert (await atlas.wait_for_run(again, timeout=20)).status == "canceled"
    with pytest.raises(ApiConflict):
        await atlas.cancel_run(again.id)


@pytest.fixture
def handler() -> Iterator[None]:
    """A job type that this process can run."""

    @handles("both.sum")
    async def add(input: dict[str, Any]) -> dict[str, Any]:
        return {"sum": sum(input["numbers"])}

    yield
    registered().pop("both.sum", None)


async def test_a_program_without_an_event_loop_waits_for_a_job(sync, pool, database_url, handler):
    made = sync.enqueue(JobRequest(job_type="both.sum", input={"numbers": [1, 2]}))
    with pytest.raises(NotEnded, match="has not ended within 0.1 s"):
        sync.wait_for_job(made, timeout=0.1)
    waiting = asyncio.create_task(asyncio.to_thread(sync.wait_for_job, made, timeout=20))
    await tick(pool, database_url, limit=10)

    assert (await waiting).output == {"sum": 3}


async def test_a_lost_response_is_asked_for_again_where_that_is_safe(server, conn):
    async with FaultyProxy(server.address) as proxy:
        token = server.world.tokens["acme", "tenant_admin"]
        with SyncAtlasClient(proxy.address, token, retry=QUICK) as atlas:

            async def swallowing(call: Any) -> Any:
                task = asyncio.create_task(asyncio.to_thread(call))
                await proxy.swallow_answer()
                return await task

            made = await swallowing(lambda: atlas.enqueue(JobRequest(job_type="x.work")))
            assert [job.id for job in await asyncio.to_thread(lambda: list(atlas.list_jobs()))] == [made.id]
            # Without an idempotency key it could be done twice.
            with pytest.raises(Unreachable) as lost:
                await swallowing(lambda: atlas.create_token("carl", "enqueuer"))
            assert lost.value.may_be_done
            assert await conn.fetchval("select count(*) from atlas.api_tokens where subject = 'carl'") == 1


def test_an_iteration_that_is_left_closes_what_it_read(sync, things):
    sync.enqueue_many([JobRequest(job_type="x.work")] * 3)
    pages = sync.list_jobs().pages(limit=1)
    assert len(next(pages).items) == 1
    pages.close()
    export = sync.export_audit_log()
    assert next(export)
    export.close()
    with pytest.raises(ApiNotFound):
        sync.get_job(uuid4())
