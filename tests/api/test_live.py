"""The live view: one room for a tenant, few frames, nothing missed, and an end with the credential."""

import asyncio
import contextlib
import json
import socket
from datetime import datetime, timedelta

import httpx
import pytest
import websockets
from websockets.exceptions import ConnectionClosed, InvalidStatus

import atlas.api.access.authentication
import atlas.api.live.changes
import atlas.api.live.hub
import atlas.api.live.socket
from atlas.api.limits.concurrency import ConcurrencyLimit
from atlas.client import AtlasClient, Hello
from atlas.engine.access.sessions import open_session
from atlas.engine.access.tokens import authenticate, revoke_token
from atlas.engine.jobs.actions.cancel import cancel
from atlas.engine.jobs.actions.change_many import change_many
from atlas.engine.jobs.attempts.progress import report_progress
from atlas.engine.jobs.enqueue import enqueue, enqueue_many
from atlas.engine.jobs.new_jobs.new_job import NewJob
from tests.api.conftest import QUICK
from tests.api.given import furnish_tenant
from tests.api.serving import served
from tests.support import DANA, until

TIMEOUT = 15


class Watching:
    """An open connection and the frames that came."""

    def __init__(self, connection):
        self.connection = connection
        self.frames = []

    async def frame(self):
        async with asyncio.timeout(TIMEOUT):
            text = await self.connection.recv()
        assert len(text.encode()) <= 64 * 1024
        self.frames.append(json.loads(text))
        return self.frames[-1]

    async def until(self, found):
        """All events up to and including the first that fits."""
        seen = []
        while True:
            events = (await self.frame()).get("events", [])
            seen += events
            if any(found(event) for event in events):
                return seen

    async def silent(self, seconds):
        """True if nothing comes."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                self.frames.append(json.loads(await self.connection.recv()))
                return False
        return True


def watch(server, token=None, *, headers=None, query="", **options):
    """Connect as a program does: with a token in its header, never in the address."""
    given = dict(headers or {})
    if token is not None:
        given["Authorization"] = f"Bearer {token}"
    address = server.address.replace("http://", "ws://") + "/api/v1/live" + query
    return websockets.connect(address, additional_headers=given, compression=None, **options)


@contextlib.asynccontextmanager
async def watching(server, who=("acme", "tenant_admin"), query=""):
    async with watch(server, server.world.tokens[who], query=query) as connection:
        seen = Watching(connection)
        hello = await seen.frame()
        assert hello["type"] == "hello"
        yield seen


async def make(pool, tenant, count=1, **fields):
    async with pool.acquire() as conn:
        jobs = [NewJob("x.work", {"n": n}, tenant.id, **fields) for n in range(count)]
        return await enqueue_many(conn, jobs, actor=DANA)


@pytest.fixture
def soon(monkeypatch):
    """Credentials are checked again with shorter pauses."""
    monkeypatch.setattr(atlas.api.access.authentication, "CACHED_SECONDS", 0.1)
    monkeypatch.setattr(atlas.api.live.socket, "CHECK_SECONDS", 0.1)


async def test_a_job_is_seen_from_its_enqueue_to_its_end(server, pool):
    async with watching(server) as seen:
        [job] = await make(pool, server.world.acme)
        id = str(job.id)
        [created] = await seen.until(lambda event: event["event"] == "job.created")
        async with pool.acquire() as conn:
            await conn.execute(
                "update atlas.jobs set status = 'running', claimed_by = 'w', started_at = now(), attempt_count = 1,"
                " lease_expires_at = now() + interval '1 minute'"
            )
            [started] = await seen.until(lambda event: event["event"] == "job_run.started")
            assert await report_progress(conn, "w", job.id, 1, percent=50, message="half")
            [progress] = await seen.until(lambda event: event["event"] == "job_run.progress")

    assert (created["job_id"], created["status"], created["job_run_id"]) == (id, "queued", None)
    assert (started["job_run_id"], started["status"]) == (f"{id}:1", "running")
    assert progress["progress"]["percent"] == 50
    fields = {"event", "job_id", "job_run_id", "job_type", "status", "duration_ms", "error", "server_instance_id"}
    fields |= {"tenant_id", "attempt_count", "correlation_id"}
    assert fields == created.keys() == started.keys()


async def test_what_is_delayed_waits_and_what_is_stopped_discarded_or_deleted_is_told(server, pool):
    tenant = server.world.acme.id
    async with watching(server) as seen, pool.acquire() as conn:
        later = NewJob("x", {}, tenant, delay=timedelta(hours=1), correlation_id="order-1")
        await enqueue(conn, later, actor=DANA)
        [created] = await seen.until(lambda event: event["event"] == "job.created")
        running = (await enqueue(conn, NewJob("x", {}, tenant), actor=DANA)).id
        await conn.execute("update atlas.jobs set status = 'running', claimed_by = 'w' where id = $1", running)
        await change_many(conn, "cancel", [running], actor=DANA, tenant_id=None)
        *_, asked = await seen.until(lambda event: event["event"] == "job.cancel_requested")
        dead = (await enqueue(conn, NewJob("x", {}, tenant), actor=DANA)).id
        await conn.execute(
            "update atlas.jobs set status = 'failed', finished_at = now(), dead_lettered_at = now() where id = $1", dead
        )
        await change_many(conn, "discard", [dead], actor=DANA, tenant_id=None)
        *_, discarded = await seen.until(lambda event: event["event"] == "job.discarded")
        await change_many(conn, "delete", [later.id], actor=DANA, tenant_id=None)
        *_, deleted = await seen.until(lambda event: event["event"] == "job.deleted")

    assert (created["status"], created["tenant_id"], created["correlation_id"]) == ("waiting", str(tenant), "order-1")
    assert (asked["job_id"], asked["status"]) == (str(running), "running")
    assert (discarded["job_id"], discarded["status"]) == (str(dead), "failed")
    assert (deleted["job_id"], deleted["job_type"], deleted["tenant_id"]) == (str(later.id), "x", str(tenant))


async def test_a_job_that_was_canceled_before_it_began_is_created_queued_and_took_no_time(server, pool):
    async with watching(server) as seen:
        async with pool.acquire() as conn, conn.transaction():
            made = await enqueue(conn, NewJob("x", {}, server.world.acme.id), actor=DANA)
            await cancel(conn, made.id, actor=DANA)
        await seen.until(lambda event: event["event"] == "job_run.completed")
        events = [event for frame in seen.frames for event in frame.get("events", [])]
        [created] = [event for event in events if event["event"] == "job.created"]
        [ended] = [event for event in events if event["event"] == "job_run.completed"]

    assert (created["status"], created["duration_ms"], ended["status"], ended["duration_ms"]) == (
        *("queued", None),
        *("canceled", None),
    )


async def run(pool, jobs, seconds=0):
    """Let jobs run since so many seconds, one after the other."""
    await pool.execute(
        "update atlas.jobs j set status = 'running', claimed_by = 'w', attempt_count = 1, started_at = x.at, updated_at = x.at"
        " from (select id, clock_timestamp() + (n - $2::int) * interval '1 s' as at from unnest($1::uuid[]) with ordinality u(id, n)) x"
        " where j.id = x.id",
        [job.id for job in jobs],
        seconds,
    )


async def test_progress_is_sent_beside_many_running_jobs_of_others(server, pool):
    [own] = await make(pool, server.world.acme)
    others = await make(pool, server.world.other, 600)
    await run(pool, [own], 3000)
    await run(pool, others, 2000)
    async with (
        watching(server) as seen,
        watching(server, ("all", "operator")) as everyone,
        watching(server, ("other", "tenant_admin")) as beside,
    ):
        async with pool.acquire() as conn:
            assert await report_progress(conn, "w", own.id, 1, percent=50, message="half")
            [mine] = await seen.until(bool)
            [shown] = await everyone.until(bool)
            # Of more jobs than are read, one that did not change for long comes into view: that is no start.
            await conn.execute(
                "update atlas.jobs set status = 'queued', claimed_by = null where id = $1", others[-1].id
            )
            assert await report_progress(conn, "w", others[0].id, 1, percent=10, message="slow")
            [long_silent] = await beside.until(bool)

    assert mine == shown
    assert (mine["event"], mine["job_id"], mine["progress"]["percent"]) == ("job_run.progress", str(own.id), 50)
    assert (long_silent["event"], long_silent["job_id"]) == ("job_run.progress", str(others[0].id))


async def test_progress_is_sent_also_where_too_much_happens_for_frames(server, pool, monkeypatch):
    monkeypatch.setattr(atlas.api.live.changes, "MAX_ROWS", 3)
    [own] = await make(pool, server.world.acme)
    await run(pool, [own])
    async with watching(server) as seen:
        async with pool.acquire() as conn, conn.transaction():
            assert await report_progress(conn, "w", own.id, 1, percent=50, message="half")
            await enqueue_many(conn, [NewJob("x.work", {}, server.world.other.id) for _ in range(5)], actor=DANA)
        [event] = await seen.until(bool)
    assert (event["event"], event["job_id"]) == ("job_run.progress", str(own.id))


async def test_no_start_is_sent_that_did_not_happen(server, pool):
    jobs = await make(pool, server.world.acme, 700)
    await run(pool, jobs[:650], 2000)
    async with watching(server) as seen, watching(server, ("all", "operator")) as everyone:
        ended = [job.id for job in jobs[400:650]]
        await pool.execute("update atlas.jobs set status = 'queued', claimed_by = null where id = any ($1)", ended)
        await asyncio.sleep(0.6)
        await run(pool, jobs[650:651])
        for one in (seen, everyone):
            events = await one.until(bool)
            assert [(event["event"], event["job_id"]) for event in events] == [("job_run.started", str(jobs[650].id))]


async def test_a_remote_workers_results_and_failures_are_sent_with_their_reason(server, pool):
    worker = httpx.AsyncClient(base_url=f"{server.address}/api/v1", headers=server.world.headers("acme", "worker"))
    async with worker, watching(server) as seen:
        await make(pool, server.world.acme, 2)
        claimed = (await worker.post("/worker/jobs/claim", json={"job_types": ["x.work"], "limit": 2})).json()["items"]
        for one, (verb, more) in zip(claimed, (("complete", {}), ("fail", {"error": "no paper"})), strict=True):
            answer = await worker.post(f"/worker/jobs/{one['job_id']}/{verb}", json={"attempt": 1, **more})
            assert answer.status_code == 200
        ends = await seen.until(lambda event: event["event"] == "job_run.failed")

    failed = next(event for event in ends if event["event"] == "job_run.failed")
    completed = next(event for event in ends if event["event"] == "job_run.completed")
    assert (failed["error"], failed["job_id"]) == ("no paper", claimed[1]["job_id"])
    assert (completed["status"], completed["job_id"]) == ("succeeded", claimed[0]["job_id"])
    assert completed["duration_ms"] >= 0


async def test_the_end_of_a_job_that_ran_for_a_month_is_sent(server, pool):
    worker = httpx.AsyncClient(base_url=f"{server.address}/api/v1", headers=server.world.headers("acme", "worker"))
    async with worker, watching(server) as seen:
        await make(pool, server.world.acme, 1)
        [one] = (await worker.post("/worker/jobs/claim", json={"job_types": ["x.work"], "limit": 1})).json()["items"]
        await pool.execute("update atlas.jobs set started_at = started_at - interval '30 days'")
        await worker.post(f"/worker/jobs/{one['job_id']}/complete", json={"attempt": 1})
        *_, completed = await seen.until(lambda event: event["event"] == "job_run.completed")
    assert completed["duration_ms"] == 2**31 - 1


async def test_a_room_is_the_credentials_tenant_and_an_operators_to_choose(server, pool):
    world = server.world
    async with (
        watching(server) as acme,
        watching(server, ("all", "operator"), "?tenant=other") as chosen,
        watching(server, ("all", "operator")) as everyone,
    ):
        [foreign] = await make(pool, world.other)
        assert [event["job_id"] for event in await chosen.until(bool)] == [str(foreign.id)]
        [own] = await make(pool, world.acme)
        assert [event["job_id"] for event in await acme.until(bool)] == [str(own.id)]
        seen = await everyone.until(lambda event: event["job_id"] == str(own.id))
        assert [event["job_id"] for event in seen] == [str(foreign.id), str(own.id)]
        assert await chosen.silent(0.5)


async def test_the_gate_is_sent_to_every_room(server):
    async with watching(server) as seen, httpx.AsyncClient(headers=server.world.headers("all", "operator")) as operator:
        switching = {"online": False, "reason": "pause", "for_seconds": 3600}
        gate = (await operator.put(f"{server.address}/api/v1/system/atlas-online", json=switching)).json()
        [event] = await seen.until(lambda event: event["event"] == "atlas.online")

    times = {name: datetime.fromisoformat(event.pop(name)) for name in ("since", "until")}
    assert event == {"event": "atlas.online", "online": False, "reason": "pause", "by": "operator@all"}
    assert times == {name: datetime.fromisoformat(gate[name]) for name in times}


async def test_a_run_that_waits_for_a_person_is_sent(server, pool):
    async with watching(server) as seen:
        things = await furnish_tenant(pool, server.world.acme)
        events = await seen.until(lambda event: event["event"] == "run.updated")

    received = next(event for event in events if event["event"] == "run.updated")
    assert (received["run_id"], received["status"]) == (str(things["intent_id"]), "approval_requested")
    assert received["approval_id"] == str(things["approval_id"])


async def test_a_trigger_that_is_added_and_fires_is_sent_to_its_tenant(server):
    spec = {"trigger_type": "schedule", "cron_expr": "0 2 * * *", "job_type": "report.build"}
    async with watching(server) as seen, watching(server, ("other", "auditor")) as foreign:
        async with httpx.AsyncClient(headers=server.world.headers("acme", "tenant_admin")) as admin:
            added = await admin.post(f"{server.address}/api/v1/jobs/triggers", json={"label": "nightly", **spec})
            assert added.status_code == 201, added.text
            await admin.post(f"{server.address}/api/v1/jobs/triggers/{added.json()['id']}/fire", json={})
        events = await seen.until(lambda event: event["event"] == "trigger.fired")
        kinds = [event["event"] for event in events if event.get("trigger_id") == added.json()["id"]]
        assert kinds == ["trigger.updated", "trigger.fired"]
        assert await foreign.silent(0.5)


async def test_the_steps_of_a_running_run_are_sent_as_they_change(server, pool):
    [run] = await make(pool, server.world.acme)
    running = "update atlas.jobs set job_type = 'ENGINE_RUN', status = 'running', started_at = now(), claimed_by = 'w', attempt_count = 1,"
    await pool.execute(f"{running} lease_expires_at = now() + interval '1 hour' where id = $1", run.id)
    add = "insert into atlas.workflow_steps (run_id, branch, position, tenant_id, name, kind, status) values ($1, $2, $3, $4, 'x', 'sleep', 'waiting')"

    def is_about_steps(event):
        return (event["event"], event.get("status")) == ("run.updated", "steps_changed")

    async with watching(server) as seen, watching(server, ("other", "auditor")) as foreign:
        for branch, position in (("", 0), ("a", 0), ("b", 0)):
            await pool.execute(add, run.id, branch, position, server.world.acme.id)
            await seen.until(is_about_steps)
        await pool.execute(
            "update atlas.workflow_steps set status = 'succeeded', finished_at = clock_timestamp() where branch = 'a'"
        )
        events = await seen.until(is_about_steps)
        assert events[-1]["run_id"] == str(run.id)
        assert await foreign.silent(0.5)


@pytest.mark.long
async def test_ten_thousand_jobs_are_a_handful_of_frames(server, pool):
    async with watching(server) as seen:
        for _ in range(10):
            await make(pool, server.world.acme, 1000)
        [last] = await make(pool, server.world.acme)

        def is_over():
            ends = [frame for frame in seen.frames if frame["type"] == "refetch" or str(last.id) in json.dumps(frame)]
            return bool(ends)

        while not is_over():
            await seen.frame()
        while not await seen.silent(1):
            pass
        received = sum(len(frame.get("events", [])) + sum(frame.get("more", {}).values()) for frame in seen.frames)
        kinds = [frame["type"] for frame in seen.frames]

    print(f"frames {len(seen.frames)}, events received or counted {received}, refetch marks {kinds.count('refetch')}")
    assert len(seen.frames) < 60
    assert "refetch" in kinds or received == 10_001


async def test_a_client_that_reconnects_is_sent_what_it_missed_or_a_refetch(server, pool):
    world = server.world
    async with watching(server) as seen:
        await make(pool, world.acme)
        await seen.until(bool)
        place = seen.frames[-1]["place"]
    missed = [str(one.id) for one in await make(pool, world.acme, 3)]
    await make(pool, world.other, 2)

    async with watching(server, query=f"?since={place}") as again:
        frame = await again.frame()
        assert [event["job_id"] for event in frame["events"]] == missed
        assert await again.silent(0.5)
    async with watching(server, query=f"?since={frame['place']}") as current:
        assert await current.silent(0.5)
    for _ in range(6):
        await make(pool, world.acme, 1000)
    epoch, snapshot = place.split(".", 1)
    ahead = int(snapshot.split(":")[1]) + 1_000_000
    elsewhere = [f"{epoch}.{ahead}:{ahead}:", f"{int(epoch) + 1}.{snapshot}", f"0.{snapshot}"]
    for since in (place, "nonsense", "0.0:0:", "1.5:2:", "1.1:99999999999999999999:", *elsewhere):
        async with watching(server, query=f"?since={since}") as late:
            assert (await late.frame())["type"] == "refetch", since


async def test_two_processes_show_the_same(server, pool, database_url, settings):
    with served(database_url, settings, QUICK) as second:
        second.world = server.world
        async with watching(server) as here, watching(second) as there:
            made = [str(one.id) for one in await make(pool, server.world.acme, 5)]
            shown = [await one.until(lambda event: event["job_id"] == made[-1]) for one in (here, there)]
            place = here.frames[-1]["place"]
        await make(pool, server.world.acme)
        async with watching(second, query=f"?since={place}") as moved:
            assert len((await moved.frame())["events"]) == 1

    assert shown[0] == shown[1]
    assert [event["job_id"] for event in shown[0]] == made


@pytest.mark.long
async def test_a_client_that_reads_nothing_is_disconnected_and_the_others_are_not(server):
    narrow = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    host, port = server.address.removeprefix("http://").split(":")
    narrow.setblocking(False)
    await asyncio.get_running_loop().sock_connect(narrow, (host, int(port)))
    token = server.world.tokens["acme", "tenant_admin"]
    frame = json.dumps({"type": "events", "events": ["x" * 60_000]})
    hub = server.app.state.hub
    async with watching(server) as quick, watch(server, token, sock=narrow, max_queue=1, ping_interval=None) as slow:
        assert json.loads(await slow.recv())["type"] == "hello"
        sent = 0
        while len(hub) == 2:
            assert sent < 1000
            server.within(lambda: [watcher.offer(frame) for watcher in hub._watchers])
            await quick.frame()
            sent += 1
            if sent > 150:  # more than all the buffers between hold
                await asyncio.sleep(0.01)
        with pytest.raises(ConnectionClosed):
            while True:
                async with asyncio.timeout(TIMEOUT):
                    await slow.recv()
        assert slow.close_code in (4408, 1006)
        assert len(quick.frames) == sent + 1


async def test_a_client_that_goes_before_it_is_accepted_is_no_error(server, monkeypatch, capfd):
    asked, may_go_on = asyncio.Event(), asyncio.Event()
    admit = atlas.api.live.socket._admitted

    async def admit_late(*given):
        admitted = await admit(*given)
        asked.set()
        await may_go_on.wait()
        return admitted

    monkeypatch.setattr(atlas.api.live.socket, "_admitted", admit_late)
    opening = asyncio.create_task(watch(server, server.world.tokens["acme", "tenant_admin"]).__aenter__())
    await until(asked.is_set)
    opening.cancel()
    open_ones = server._server.server_state.connections
    await until(lambda: not open_ones)
    server.within(may_go_on.set)
    monkeypatch.undo()

    async with watching(server):
        pass
    output = capfd.readouterr()
    assert "Exception in ASGI application" not in output.err + output.out


async def test_unknown_and_foreign_callers_may_not_watch(server, pool):
    world = server.world
    token = world.tokens["acme", "tenant_admin"]
    async with pool.acquire() as conn:
        _, cookie = await open_session(conn, await authenticate(conn, token), actor=DANA)
    session = {"Cookie": f"atlas={cookie}"}
    refused = [
        watch(server),
        watch(server, "atl_aaaaaaaa_" + "x" * 43),
        watch(server, token, query="?tenant=other"),
        watch(server, token, query="?tenant=nobody"),
        watch(server, token, headers={"Origin": "http://evil.test"}),
        watch(server, headers=session),
        watch(server, headers={**session, "Origin": "http://evil.test"}),
        watch(server, headers={**session, "Origin": "null"}),
        watch(server, headers={"Cookie": "atlas=wrong", "Origin": server.address}),
        watch(server, token, headers={**session, "Origin": server.address}),
        watch(server, world.tokens["acme", "host"]),
        watch(server, world.tokens["acme", "worker"]),
        watch(server, query=f"?token={token}"),
    ]
    for attempt in refused:
        with pytest.raises(InvalidStatus):
            await attempt
    assert len(server.app.state.hub) == 0

    async with watch(server, headers={**session, "Origin": server.address}) as ours:
        assert json.loads(await ours.recv())["room"] == str(world.acme.id)


async def test_a_refusal_says_why_and_is_not_logged_as_an_error(server, caplog):
    tokens = server.world.tokens
    asked = {
        401: watch(server, "atl_aaaaaaaa_" + "x" * 43),
        403: watch(server, tokens["acme", "host"]),
        404: watch(server, tokens["acme", "tenant_admin"], query="?tenant=other"),
    }
    for status, attempt in asked.items():
        with pytest.raises(InvalidStatus) as refused:
            await attempt
        assert refused.value.response.status_code == status
        assert json.loads(refused.value.response.body)["status"] == status
    assert not caplog.records


async def test_a_tenant_has_its_share_of_the_live_connections_and_no_more(server, opened):
    server.app.state.api.watchers = ConcurrencyLimit("to watch", most=3, max_each=2)
    mine, others = server.world.tokens["acme", "tenant_admin"], server.world.tokens["other", "tenant_admin"]
    _, second = [await opened(watch(server, mine)) for _ in range(2)]
    with pytest.raises(InvalidStatus) as refused:
        await watch(server, server.world.tokens["acme", "enqueuer"])
    assert refused.value.response.status_code == 429
    assert refused.value.response.headers["Retry-After"]

    await opened(watch(server, others))
    await second.close()
    async with asyncio.timeout(TIMEOUT):
        while True:
            with contextlib.suppress(InvalidStatus):
                await opened(watch(server, mine))
                break
            await asyncio.sleep(0.05)


async def test_a_second_watcher_takes_no_events_from_the_first(world, admin, monkeypatch):
    real, begun, go = atlas.api.live.hub.read_place, asyncio.Event(), asyncio.Event()

    async def slow_for_the_second(conn):
        if asyncio.current_task() is second:
            begun.set()
            await go.wait()
        else:
            await begun.wait()
        return await real(conn)

    monkeypatch.setattr(atlas.api.live.hub, "read_place", slow_for_the_second)
    monkeypatch.setattr(atlas.api.live.hub, "POLL_SECONDS", 0.5)
    hub = world.app.state.hub
    first, second = [asyncio.create_task(hub.join(world.acme.id, None)) for _ in range(2)]
    watcher = await first
    made = (await admin.post("/jobs", json={"job_type": "x.work"})).json()["id"]
    go.set()
    other = await second
    async with asyncio.timeout(TIMEOUT):
        while made not in await watcher.frames.get():
            pass
    for one in (watcher, other):
        hub.leave(one)


@pytest.mark.parametrize("way", ["token", "session", "expiry"])
async def test_an_open_connection_ends_with_its_credential(soon, server, pool, owner, way):
    token = server.world.tokens["acme", "tenant_admin"]
    headers = None
    async with pool.acquire() as conn:
        known = await authenticate(conn, token)
        if way == "session":
            _, cookie = await open_session(conn, known, actor=DANA)
            headers = {"Cookie": f"atlas={cookie}", "Origin": server.address}
    async with watch(server, None if headers else token, headers=headers) as connection:
        assert json.loads(await connection.recv())["type"] == "hello"
        match way:
            case "token":
                await revoke_token(owner, known.prefix, actor=DANA)
            case "session":
                await owner.execute("update atlas.sessions set ended_at = now()")
            case _:
                await owner.execute("update atlas.api_tokens set expires_at = clock_timestamp()")
        with pytest.raises(ConnectionClosed):
            async with asyncio.timeout(TIMEOUT):
                await connection.recv()
        await make(pool, server.world.acme)

    assert connection.close_code == 4401


async def test_what_a_client_sends_is_ignored_and_must_be_small(server, pool):
    async with watching(server) as seen:
        await seen.connection.send(json.dumps({"room": "all"}))
        await make(pool, server.world.other)
        assert await seen.silent(0.6)
        await seen.connection.send("x" * 70_000)
        with pytest.raises(ConnectionClosed):
            await seen.frame()


async def test_a_quiet_room_is_sent_an_empty_frame_now_and_then_and_programs_are_not_woken_by_it(server, monkeypatch):
    monkeypatch.setattr(atlas.api.live.hub, "PING_SECONDS", 0.2)
    async with watching(server) as seen:
        ping = await seen.frame()
        assert ping == {"type": "events", "place": ping["place"], "events": [], "more": {}}
        assert (await seen.frame())["events"] == []
        async with AtlasClient(server.address, server.world.tokens["acme", "tenant_admin"]) as client:
            frames = client.live()
            assert isinstance(await anext(frames), Hello)
            later = asyncio.ensure_future(anext(frames))
            for _ in range(4):
                await seen.frame()
            assert not later.done()
            later.cancel()
