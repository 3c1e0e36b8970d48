"""The client on a real server: typed responses, calls that survive the network, waiting and watching."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from websockets.asyncio.server import ServerConnection, serve

from atlas import client as face
from atlas import errors
from atlas.api.app import create_app
from atlas.api.limits.rates import Rates
from atlas.client import (
    ApiConflict,
    ApiForbidden,
    ApiInvalidInput,
    ApiNotFound,
    ApiTooManyRequests,
    ApiUnauthenticated,
    AtlasClient,
    Events,
    Hello,
    JobEvent,
    JobRequest,
    NotEnded,
    Refetch,
    RetryBudget,
)
from atlas.client.request import ApiRequest
from atlas.engine.jobs.handlers.typed_job import job as handles
from atlas.engine.jobs.handlers.types import registered
from atlas.workers.tick import tick
from tests.api.conftest import furnish
from tests.api.serving import served
from tests.proxy import FaultyProxy

QUICK = RetryBudget(tries=8, seconds=10, first_pause=0.02, max_pause=0.2)


@pytest.fixture
async def at(server) -> AsyncIterator[Callable[..., AtlasClient]]:
    """Clients by role: `at("acme", "tenant_admin")`."""
    async with AsyncExitStack() as stack:

        def make(whose: str = "all", role: str = "operator", *, url: str | None = None, **options: Any) -> AtlasClient:
            token = server.world.tokens[whose, role]
            made = AtlasClient(url or server.address, token, **{"retry": QUICK, **options})
            stack.push_async_callback(made.close)
            return made

        yield make


@pytest.fixture
async def proxy(server) -> AsyncIterator[FaultyProxy]:
    async with FaultyProxy(server.address) as between:
        yield between


async def test_a_job_is_enqueued_found_explained_canceled_and_retried(at, conn):
    atlas = at("acme", "tenant_admin")
    later = datetime.now(UTC) + timedelta(hours=1)
    made = await atlas.enqueue(JobRequest(job_type="x.work", input={"n": 1, "none": None}, priority=7, dedupe_key="k"))
    again = await atlas.enqueue(JobRequest(job_type="x.work", input={"n": 1, "none": None}, dedupe_key="k"))
    many = await atlas.enqueue_many([JobRequest(job_type="x.work", scheduled_for=later), JobRequest(job_type="y.work")])
    found = await atlas.get_job(made.id)

    assert (again.id, again.deduplicated) == (made.id, True)
    assert (found.input, found.priority, found.has_ended) == ({"n": 1, "none": None}, 7, False)
    assert [one.status for one in many] == ["waiting", "queued"]
    assert await atlas.enqueue_many([]) == []
    assert (await atlas.explain_job(made.id)).reason == "no_worker"
    assert (await atlas.explain_job(made)).reason == "no_worker"
    assert [attempt async for attempt in atlas.list_job_attempts(made)] == []
    assert [item.reason for item in (await atlas.explain_jobs(id=[made])).items] == ["no_worker"]
    assert [one async for one in atlas.list_job_attempts(str(made.id))] == []
    assert (await atlas.cancel_job(made.id)).verdict == "canceled"
    await atlas.retry_job(made.id)
    assert (await atlas.get_job(made.id)).status == "queued"
    assert (await atlas.summarize_jobs()).counts["queued"] == 2
    await conn.execute(
        "update atlas.jobs set status = 'failed', finished_at = now(), dead_lettered_at = now() where id = $1",
        many[1].id,
    )
    preview = await atlas.preview_bulk_action("retry", {"status": ["dead_letter"]}, limit=1)
    assert (await atlas.begin_bulk_action("retry", digest=preview.digest)).verdicts == {"retried": 1}
    await atlas.delete_job(made.id)
    with pytest.raises(ApiNotFound, match=f"There is no job {made.id}"):
        await atlas.get_job(made.id)


async def test_a_list_is_fetched_page_by_page_while_new_jobs_arrive(at):
    atlas = at("acme", "tenant_admin")
    made = await atlas.enqueue_many([JobRequest(job_type="x.work", input={"n": n}) for n in range(25)])
    await atlas.enqueue(JobRequest(job_type="y.work"))
    seen = []
    async for page in atlas.list_jobs(job_type="x.work", status="queued").pages(limit=10):
        seen += [job.id for job in page.items]
        await atlas.enqueue(JobRequest(job_type="x.work"))

    assert seen == [one.id for one in reversed(made)]


async def test_attempts_and_workers_are_fetched_over_all_their_pages(at, conn):
    made = await at("acme", "tenant_admin").enqueue(JobRequest(job_type="x.work"))
    await conn.execute(
        """insert into atlas.job_attempts (job_id, attempt_no, worker_id, status, started_at)
        select $1, n, 'w', 'failed', now() from generate_series(1, 7) n""",
        made.id,
    )
    await conn.execute(
        """insert into atlas.job_workers (worker_id, hostname, version, job_types, lease_expires_at)
        select 'w' || n, 'h', '1', '{x}', now() + interval '1 h' from generate_series(1, 7) n"""
    )

    attempts = at("acme", "tenant_admin").list_job_attempts(made.id)
    pages = [page.items async for page in attempts.pages(limit=3)]
    assert [[one.attempt_no for one in page] for page in pages] == [[1, 2, 3], [4, 5, 6], [7]]
    assert [attempt.attempt_no async for attempt in attempts] == list(range(1, 8))
    assert {worker.worker_id async for worker in at().list_workers()} == {f"w{n}" for n in range(1, 8)}
    first = await at().list_workers().page(limit=2)
    assert len(first.items) == 2
    assert await at().list_workers().page(limit=2, cursor=first.next_cursor) != first


async def test_the_gate_is_switched_and_shows_who_did_it_and_why(at):
    atlas = at()
    closed = await atlas.switch_gate(False, reason="new disks", for_seconds=7200)
    status = await atlas.get_status()
    opened = await atlas.switch_gate(True)

    assert (closed.online, closed.reason, closed.by) == (False, "new disks", "operator@all")
    assert closed.since is not None
    assert closed.until is not None
    assert round((closed.until - closed.since).total_seconds()) == 7200
    assert status.gate == closed.model_copy(update={"workers": None, "confirmed": None})
    assert (status.queue, status.workers) == ([], [])
    assert opened.online
    assert await atlas.get_gate() == opened
    assert await atlas.switch_engine(False, reason="new rules") == await atlas.get_gate()
    assert (await atlas.get_gate()).engine_reason == "new rules"


async def test_an_operator_names_the_tenant_it_means(at, server):
    made = await at(tenant="acme").enqueue(JobRequest(job_type="x.work"))
    own = await at().enqueue(JobRequest(job_type="x.work"))

    assert made.tenant_id == server.world.acme.id
    assert [job.id async for job in at(tenant="acme").list_jobs()] == [made.id]
    assert {job.id async for job in at().list_jobs()} == {made.id, own.id}


async def test_a_problem_becomes_an_error_that_says_what_can_be_done(at, server):
    wrong = AtlasClient(server.address, "atl_aaaaaaaa_" + "a" * 43, retry=QUICK)
    with pytest.raises(ApiUnauthenticated, match="a token that is valid now") as unknown:
        await wrong.get_gate()
    await wrong.close()
    with pytest.raises(ApiForbidden, match="The role enqueuer may not do this") as forbidden:
        await at("acme", "enqueuer").switch_gate(False)
    with pytest.raises(ApiInvalidInput, match="is not JSON") as invalid:
        await at().enqueue(JobRequest(job_type="EMAIL_SEND", input={"n": float("nan")}))
    made = await at().enqueue(JobRequest(job_type="x.work", dedupe_key="k", input={"n": 1}))
    with pytest.raises(ApiConflict, match="is held by job"):
        await at().enqueue(JobRequest(job_type="x.work", dedupe_key="k", input={"n": 2}))
    with pytest.raises(errors.Conflict, match="Only failed and canceled jobs"):
        await at().retry_job(made.id)

    assert unknown.value.remedy
    assert (forbidden.value.status, forbidden.value.problem) == (403, "forbidden")
    assert forbidden.value.request_id
    assert isinstance(invalid.value, errors.InvalidInput)
    assert set(face.__all__) <= set(dir(face))


async def test_what_cannot_be_sent_is_an_atlas_error_too(at):
    atlas = at("acme", "tenant_admin")
    wrong = {
        "idempotency_key": lambda: atlas.enqueue(JobRequest(job_type="x.work"), idempotency_key="é"),
        "job_id": lambda: atlas.get_job("nope"),
        "input": lambda: atlas.enqueue(JobRequest(job_type="x.work", input={"text": "\ud800"})),
    }
    for field, call in wrong.items():
        with pytest.raises(errors.InvalidInput) as refused:
            await call()
        assert refused.value.errors[0].field == field


async def test_an_address_is_used_as_it_was_normalized(at, server):
    frames = at("acme", "tenant_admin", url=f"{server.address.replace('http', 'HTTP')}/api/v1/").live()
    assert isinstance(await anext(frames), Hello)
    await frames.aclose()


async def swallowing(proxy: FaultyProxy, call: Awaitable[Any]) -> Any:
    """The result of a call whose first response is lost after the server carried it out."""
    task = asyncio.ensure_future(call)
    await proxy.swallow_answer()
    return await task


async def test_a_call_whose_response_was_lost_is_carried_out_once(at, proxy, conn):
    atlas = at("acme", "tenant_admin", url=proxy.address)
    made = await swallowing(proxy, atlas.enqueue(JobRequest(job_type="x.work")))
    assert [job.id async for job in atlas.list_jobs()] == [made.id]

    assert (await swallowing(proxy, atlas.cancel_job(made.id))).verdict == "canceled"
    with pytest.raises(ApiConflict, match="has already finished"):
        await atlas.cancel_job(made.id)
    await swallowing(proxy, atlas.retry_job(made.id))
    assert await conn.fetchval("select count(*) from atlas.audit_log where action = 'JOB_RETRIED'") == 1
    await swallowing(proxy, atlas.delete_job(made.id))
    with pytest.raises(ApiNotFound):
        await atlas.delete_job(made.id)


async def once_done(proxy: FaultyProxy, call: Awaitable[Any], since: Callable[[], Awaitable[Any]]) -> Any:
    """The same, where something else happens between what the server did and the next try."""
    task = asyncio.ensure_future(call)
    await proxy.swallow_answer(since)
    return await task


async def test_a_call_whose_response_was_lost_does_not_undo_what_others_did_since(at, proxy, conn, pool):
    atlas, other = at(url=proxy.address, tenant="acme"), at(tenant="acme")
    made = await other.enqueue(JobRequest(job_type="x.work"))
    await other.cancel_job(made.id)

    await once_done(proxy, atlas.retry_job(made.id), lambda: other.cancel_job(made.id))
    assert (await other.get_job(made.id)).status == "canceled"
    assert await conn.fetchval("select count(*) from atlas.audit_log where action = 'JOB_RETRIED'") == 1

    received = await once_done(proxy, atlas.switch_gate(True), lambda: other.switch_gate(False, reason="emergency"))
    gate = await other.get_gate()
    assert (received.online, gate.online, gate.reason) == (True, False, "emergency")


async def test_dead_letters_are_retried_once_when_the_response_was_lost(at, proxy, conn):
    atlas = at("acme", "tenant_admin")
    made = await atlas.enqueue_many([JobRequest(job_type="x.work")] * 4)
    await conn.execute("update atlas.jobs set status = 'failed', dead_lettered_at = now(), finished_at = now()")
    digest = (await atlas.preview_bulk_action("retry", {"status": ["dead_letter"]}, limit=2)).digest
    through = at("acme", "tenant_admin", url=proxy.address)
    received = await swallowing(proxy, through.begin_bulk_action("retry", digest=digest))

    assert (received.total, received.changed) == (2, 2)
    assert {(await atlas.get_job(one.id)).status for one in made[:2]} == {"dead_letter"}
    assert {(await atlas.get_job(one.id)).status for one in made[2:]} == {"queued"}
    assert len([action async for action in atlas.list_bulk_actions()]) == 1


async def run_jobs(pool, url, **options: Any) -> None:
    await tick(pool, url, limit=10, **options)


@pytest.fixture
def handler():
    """A job type that this process can run."""

    @handles("client.sum")
    async def add(input: dict[str, Any]) -> dict[str, Any]:
        return {"sum": sum(input["numbers"])}

    yield
    registered().pop("client.sum", None)


async def test_wait_for_returns_as_soon_as_the_job_ends(at, pool, database_url, handler):
    atlas = at("acme", "tenant_admin")
    made = await atlas.enqueue(JobRequest(job_type="client.sum", input={"numbers": [1, 2]}))
    waiting = [asyncio.create_task(atlas.wait_for_job(made, timeout=20)) for _ in range(3)]
    await asyncio.sleep(0.2)
    await run_jobs(pool, database_url)
    began = time.monotonic()
    ended = await asyncio.gather(*waiting)

    assert {job.status for job in ended} == {"succeeded"}
    assert ended[0].output == {"sum": 3}
    assert time.monotonic() - began < 1.5
    assert (await atlas.wait_for_job(str(made.id))).id == made.id


async def test_wait_for_survives_an_outage_and_works_without_the_live_view(at, proxy, pool, database_url, handler):
    atlas = at("acme", "tenant_admin", url=proxy.address, retry=RetryBudget(tries=1))
    made = await atlas.enqueue(JobRequest(job_type="client.sum", input={"numbers": [4]}))
    waiting = asyncio.create_task(atlas.wait_for_job(made, timeout=20))
    await asyncio.sleep(0.1)
    proxy.break_down()
    await run_jobs(pool, database_url)
    proxy.refuses = False

    assert (await waiting).output == {"sum": 4}


async def test_a_wait_that_takes_too_long_raises_and_leaves_nothing_behind(at):
    atlas = at("acme", "tenant_admin")
    made = await atlas.enqueue(JobRequest(job_type="x.work"))
    with pytest.raises(NotEnded, match="has not ended within 0.3 s") as late:
        await atlas.wait_for_job(made, timeout=0.3)
    assert isinstance(late.value, TimeoutError)
    assert [task for task in asyncio.all_tasks() if task.get_name() == "atlas live"] == []


async def test_the_live_view_resumes_after_a_lost_connection_with_what_was_missed(at, proxy):
    atlas, direct = at("acme", "tenant_admin", url=proxy.address), at("acme", "tenant_admin")
    frames = atlas.live()
    async with asyncio.timeout(20):
        hello = await anext(frames)
        first = await direct.enqueue(JobRequest(job_type="x.work"))
        received = await anext(frames)
        proxy.break_down()
        missed = await direct.enqueue(JobRequest(job_type="x.work"))
        proxy.refuses = False
        later = [frame async for frame in _until(frames, str(missed.id))]
        await frames.aclose()

    assert isinstance(hello, Hello)
    assert isinstance(received, Events)
    assert [(event.event, event.job_id) for event in received.events if isinstance(event, JobEvent)] == [
        ("job.created", first.id)
    ]
    assert isinstance(later[0], Hello)
    assert not any(isinstance(frame, Refetch) for frame in later)


async def test_a_place_that_never_existed_gets_a_refetch(at):
    frames = at("acme", "tenant_admin").live(since="nowhere")
    async with asyncio.timeout(10):
        seen = [await anext(frames), await anext(frames)]
        await frames.aclose()
    assert [type(frame) for frame in seen] == [Hello, Refetch]


async def test_the_place_is_kept_until_what_was_missed_has_arrived():
    asked: list[str | None] = []

    async def cut_short(socket: ServerConnection) -> None:
        assert socket.request is not None
        asked.append(dict(parse_qsl(urlsplit(socket.request.path).query)).get("since"))
        await socket.send(json.dumps({"type": "hello", "place": f"now-{len(asked)}", "room": "all"}))
        if len(asked) == 1:
            await socket.send(json.dumps({"type": "events", "place": "seen", "events": [], "more": {}}))
        if len(asked) == 3:
            await socket.send(json.dumps({"type": "of a newer version"}))
        await socket.close(4401 if len(asked) == 4 else 1012)

    async with serve(cut_short, "127.0.0.1", 0) as there:
        address = f"http://127.0.0.1:{there.sockets[0].getsockname()[1]}"
        frames = []
        async with AtlasClient(address, "t", retry=QUICK) as atlas, asyncio.timeout(10):
            with pytest.raises(ApiUnauthenticated, match="no longer valid"):
                async for frame in atlas.live():
                    frames.append(frame)

    assert asked == [None, "seen", "seen", "now-3"]
    assert [type(frame) for frame in frames] == [Hello, Hello, Hello, Refetch, Hello]


async def test_a_token_that_may_not_watch_is_refused_at_once(at, server):
    with pytest.raises(ApiForbidden, match="may not watch"):
        await anext(aiter(at("acme", "worker").live()))
    with pytest.raises(ApiNotFound, match="nobody"):
        await anext(aiter(at(tenant="nobody").live()))
    async with AtlasClient(server.address, "atl_wrong", retry=QUICK) as stranger:
        with pytest.raises(ApiUnauthenticated):
            await anext(aiter(stranger.live()))


async def test_a_watcher_beyond_its_rate_connects_after_a_pause(pool, database_url, settings):
    with served(database_url, settings, Rates(token=2, tenant=100)) as server:
        world = await furnish(pool, create_app(settings, pool, database_url))
        async with AtlasClient(server.address, world.tokens["acme", "tenant_admin"], retry=QUICK) as atlas:
            with pytest.raises(ApiTooManyRequests):
                await asyncio.gather(*(atlas._transport._send(ApiRequest("GET", "/jobs")) for _ in range(8)))
            async with asyncio.timeout(10):
                frames = atlas.live()
                assert isinstance(await anext(frames), Hello)
                await frames.aclose()


async def _until(frames: AsyncIterator[Any], text: str) -> AsyncIterator[Any]:
    async for frame in frames:
        yield frame
        if text in frame.model_dump_json():
            return
