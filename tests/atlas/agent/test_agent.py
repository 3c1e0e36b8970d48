"""The reference agent on a real server: what it runs, and what it does when the network or a process goes away."""

import asyncio
import errno
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from atlas.agent import agent as module
from atlas.agent import calls
from atlas.agent.work import TAIL, TAIL_OF_ERROR
from atlas.client.errors import ApiUnauthenticated
from atlas.client.request import RetryBudget
from atlas.engine.admission import enqueue_definition
from atlas.engine.commands.definitions import add_definition
from atlas.engine.jobs.actions.cancel import cancel
from atlas.engine.jobs.lists.find import get_job, list_attempts
from atlas.engine.secrets.key import SecretKey, use_secret_key
from atlas.errors import SettingsError
from atlas.settings import Settings
from tests.api.conftest import QUICK, furnish
from tests.api.serving import Served, served
from tests.atlas.box import Box, is_alive
from tests.atlas.client.test_transport import answering
from tests.proxy import FaultyProxy
from tests.support import DANA, ROOT, until

LEASE = 2.0


@pytest.fixture(autouse=True)
def impatient(monkeypatch) -> None:
    """Short waits, for a job and before a retry."""
    monkeypatch.setattr(calls, "WAIT_SECONDS", 0.3)
    monkeypatch.setattr(calls, "LATE_SECONDS", 1.0)
    monkeypatch.setattr(module, "PAUSES", RetryBudget(first_pause=0.05, max_pause=0.2))


@pytest.fixture
def own_key() -> Iterator[None]:
    use_secret_key(SecretKey(bytes(32)))
    yield
    use_secret_key(None)


@pytest.fixture
async def box(tmp_path, server, conn) -> Box:
    return Box(tmp_path, server, conn)


@pytest.fixture
async def brief(tmp_path, pool, database_url, conn) -> AsyncIterator[Box]:
    """The same where leases last two seconds."""
    settings = Settings(atlas_home=tmp_path / "home", atlas_lease_seconds=LEASE)
    with served(database_url, settings, QUICK) as started:
        started.world = await furnish(pool, started.app)
        yield Box(tmp_path, started, conn)


@pytest.fixture
async def proxy(brief) -> AsyncIterator[FaultyProxy]:
    async with FaultyProxy(brief.server.address) as between:
        yield between


@pytest.fixture
def asleep(monkeypatch) -> asyncio.Event:
    """The machine sleeps between the response that brings a job and its reading, until this is set."""
    fetch, woken = calls.HostCalls.next, asyncio.Event()

    async def late(self: calls.HostCalls, host_id: str) -> calls.AssignedJob | None:
        job = await fetch(self, host_id)
        if job is not None:
            await woken.wait()
        return job

    monkeypatch.setattr(calls.HostCalls, "next", late)
    return woken


async def test_a_job_runs_with_progress_and_output(box):
    job_id = await box.job("a", "work")
    async with box.agent() as agent:
        job = await box.becomes(job_id, "succeeded")

    assert job.output == {"done": True}
    assert agent.counts == {"succeeded": 1}
    [attempt] = await list_attempts(box.conn, job_id)
    assert attempt["duration_ms"] is not None
    assert not is_alive(box.starts("a")[0])


async def test_what_fails_says_why_and_is_retried_by_its_policy(box):
    failing, unknown = await box.job("a", "fail", max_retries=0), await box.job("a", "-x", max_retries=0)
    async with box.agent():
        failed, refused = await box.becomes(failing, "dead_letter"), await box.becomes(unknown, "dead_letter")

    assert failed.error["message"].startswith("The command ended with exit status 3: no disk")
    assert "what: begins with a dash" in refused.error["message"]
    assert len(box.starts("a")) == 1


# What follows the secret, so that the cut leaves all but its first letter: in the error, in its first line, in the output.
@pytest.mark.long
@pytest.mark.parametrize(("kept", "status"), [(TAIL_OF_ERROR, 3), (TAIL, 3), (TAIL, 0)])
async def test_no_piece_of_a_secret_remains_where_the_agent_cuts_output(box, own_key, kept, status):
    secret = "S3cr3t-abcdefghijklmnopqrstuvwxyz0123456789"
    program = box.folder / "teller"
    program.write_text(f'#!/bin/sh\necho "refused: $1{"x" * (kept - len(secret) + 1)}"\nexit {status}\n')
    program.chmod(0o755)
    box.commands["box.tell"] = [str(program), "{{ token }}"]
    schema = {"type": "object", "properties": {"token": {"type": "string", "x-secret": True}}}
    terms = {"key": "box.tell", "argv": ["/bin/true"], "arg_schema": schema, "max_retries": 0}
    await add_definition(box.conn, terms, actor=DANA)
    host = {"tenant_id": box.host.tenant_id, "host_id": box.host.id}
    job_id = (await enqueue_definition(box.conn, "box.tell", {"token": secret}, **host, actor=DANA)).id
    async with box.agent():
        job = await box.becomes(job_id, "dead_letter" if status else "succeeded")

    received = f"{job.error} {job.output}"
    assert "xxxx" in received
    assert secret[1:12] not in received


@pytest.mark.long
@pytest.mark.parametrize("what", ["big", "huge"])
async def test_an_output_that_atlas_refuses_does_not_fail_the_job(box, what):
    job_id = await box.job("a", what)
    async with box.agent() as agent:
        job = await box.becomes(job_id, "succeeded")

    assert job.output["exit_code"] == 0
    assert job.output["warning"].startswith("The command ended, but its result was refused: The ")
    assert (len(box.starts("a")), agent.counts) == (1, {"succeeded": 1})


@pytest.mark.long
async def test_an_output_that_is_nested_too_deep_fails_neither_the_job_nor_the_agent(box):
    job_id = await box.job("a", "deep")
    async with box.agent():
        job = await box.becomes(job_id, "succeeded")
        assert job.output["warning"] == "The ::output line is too long or not JSON."
        await box.becomes(await box.job("b", "work"), "succeeded")

    assert len(box.starts("a")) == 1


@pytest.mark.long
async def test_a_machine_that_cannot_start_a_process_fails_the_job_and_not_the_agent(box, monkeypatch):
    async def full(*_: Any, **__: Any) -> Any:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    failing = await box.job("a", "work", max_retries=0)
    with monkeypatch.context() as for_now:
        for_now.setattr(asyncio, "create_subprocess_exec", full)
        async with box.agent():
            failed = await box.becomes(failing, "dead_letter")

    assert failed.error["message"] == "The command could not be run: Resource temporarily unavailable."


@pytest.mark.long
async def test_a_canceled_job_is_stopped_with_all_its_processes(brief):
    job_id = await brief.job("a", "wait")
    async with brief.agent() as agent:
        pid = await brief.started("a")
        await cancel(brief.conn, job_id, actor=DANA)
        await brief.becomes(job_id, "canceled")

    assert not is_alive(pid)
    assert agent.counts == {"failed": 1}


@pytest.mark.long
async def test_a_command_that_takes_too_long_is_killed(box):
    job_id = await box.job("a", "wait", timeout_seconds=1, max_retries=0)
    async with box.agent():
        job = await box.becomes(job_id, "dead_letter")

    assert job.error["message"].startswith("The command was stopped: its time is over.")
    assert not is_alive(box.starts("a")[0])


@pytest.mark.long
async def test_a_fetch_that_is_interrupted_is_repeated(brief, proxy):
    async with brief.agent(proxy.address) as agent:
        await asyncio.sleep(0.3)
        proxy.break_down()
        job_id = await brief.job("a", "work")
        await asyncio.sleep(0.3)
        proxy.refuses = False
        await brief.becomes(job_id, "succeeded")

    assert agent.counts == {"succeeded": 1}


async def test_an_endless_retry_after_is_not_obeyed(box, monkeypatch):
    monkeypatch.setattr(module, "MAX_AFTER", 0.1)
    busy = (503, {"retry-after": "3600"}, {})
    async with answering(lambda _: busy) as (url, heard), box.agent(url, host=str(box.host.id)):
        await until(lambda: len(heard) >= 3)


async def test_a_job_whose_delivery_was_lost_returns_when_its_lease_expires(brief, proxy):
    async with brief.agent(proxy.address):
        await asyncio.sleep(0.3)
        proxy.swallows = True
        job_id = await brief.job("a", "work")
        await brief.becomes(job_id, "running")
        proxy.cut()
        proxy.swallows = False
        await brief.silence(job_id)
        job = await brief.becomes(job_id, "succeeded")

    assert (job.attempt_count, job.lost_count, len(brief.starts("a"))) == (2, 1, 1)


async def test_no_command_starts_on_an_expired_lease(brief, asleep):
    job_id = await brief.job("a", "work")
    async with brief.agent() as agent:
        await brief.becomes(job_id, "running")
        await brief.silence(job_id)
        asleep.set()
        job = await brief.becomes(job_id, "succeeded")

    assert (job.attempt_count, job.lost_count, len(brief.starts("a"))) == (2, 1, 1)
    assert agent.counts == {"dropped": 1, "succeeded": 1}


async def test_a_job_that_is_canceled_on_its_way_to_the_host_does_not_start(brief, asleep):
    job_id = await brief.job("a", "work")
    async with brief.agent():
        await brief.becomes(job_id, "running")
        await cancel(brief.conn, job_id, actor=DANA)
        asleep.set()
        await brief.becomes(job_id, "canceled")

    assert brief.starts("a") == []


@pytest.mark.long
async def test_a_command_continues_through_an_outage_shorter_than_its_lease(brief, proxy):
    job_id = await brief.job("a", "wait")
    async with brief.agent(proxy.address):
        await brief.started("a")
        async with asyncio.timeout(10):
            while (await get_job(brief.conn, job_id)).progress is None:
                await asyncio.sleep(0.02)
        shown = (await get_job(brief.conn, job_id)).progress
        for _ in range(3):
            proxy.break_down()
            await asyncio.sleep(0.4)
            proxy.refuses = False
            await asyncio.sleep(0.4)
        brief.go("a")
        job = await brief.becomes(job_id, "succeeded")

    assert (job.attempt_count, len(brief.starts("a"))) == (1, 1)
    assert (shown["percent"], shown["message"]) == (40, "halfway")
    assert job.output == {"exit_code": 0, "stdout_tail": "::progress 40 halfway\nwent"}


@pytest.mark.long
async def test_a_command_is_killed_when_its_lease_expires_during_an_outage(brief, proxy):
    job_id = await brief.job("a", "wait")
    async with brief.agent(proxy.address) as agent:
        pid = await brief.started("a")
        proxy.break_down()
        await until(lambda: not is_alive(pid))
        await brief.silence(job_id)
        brief.go("a")
        proxy.refuses = False
        job = await brief.becomes(job_id, "succeeded")

    assert (job.attempt_count, job.lost_count, len(brief.starts("a"))) == (2, 1, 2)
    assert agent.counts == {"dropped": 1, "succeeded": 1}


@pytest.mark.long
async def test_a_command_is_killed_when_its_heartbeats_end_in_an_error(brief, monkeypatch):
    async def broken(*_: Any) -> bool:
        raise RuntimeError("this was not expected")

    job_id = await brief.job("a", "wait")
    async with brief.agent() as agent:
        pid = await brief.started("a")
        with monkeypatch.context() as for_now:
            for_now.setattr(calls.HostCalls, "heartbeat", broken)
            await until(lambda: not is_alive(pid))
        await brief.silence(job_id)
        brief.go("a")
        await brief.becomes(job_id, "succeeded")

    assert agent.counts == {"dropped": 1, "succeeded": 1}


@pytest.mark.long
async def test_a_command_is_killed_when_its_lease_was_lost(brief):
    job_id = await brief.job("a", "wait")
    async with brief.agent() as agent:
        pid = await brief.started("a")
        await brief.silence(job_id)
        await until(lambda: not is_alive(pid))
        brief.go("a")
        await brief.becomes(job_id, "succeeded")

    assert agent.counts == {"dropped": 1, "succeeded": 1}


@pytest.mark.long
async def test_a_result_is_kept_until_it_can_be_delivered(box):
    job_id = await box.job("a", "wait")
    async with FaultyProxy(box.server.address) as proxy, box.agent(proxy.address) as agent:
        pid = await box.started("a")
        proxy.break_down()
        box.go("a")
        await until(lambda: not is_alive(pid))
        await asyncio.sleep(0.5)
        assert (await get_job(box.conn, job_id)).status == "running"
        proxy.refuses = False
        job = await box.becomes(job_id, "succeeded")
        await until(lambda: agent.counts)

    assert (job.attempt_count, agent.counts) == (1, {"succeeded": 1})


async def test_a_result_whose_response_was_lost_is_not_recorded_twice(brief, proxy):
    first = await brief.job("a", "wait")
    async with brief.agent(proxy.address) as agent:
        await brief.started("a")
        proxy.swallows = True
        brief.go("a")
        await brief.becomes(first, "succeeded")
        proxy.cut()
        proxy.swallows = False
        second = await brief.job("b", "work")
        await brief.becomes(second, "succeeded")

    assert len(await list_attempts(brief.conn, first)) == 1
    assert agent.counts == {"undelivered": 1, "succeeded": 1}


@pytest.mark.long
async def test_a_result_without_a_lease_is_dropped(box):
    job_id = await box.job("a", "wait")
    async with FaultyProxy(box.server.address) as proxy, box.agent(proxy.address) as agent:
        pid = await box.started("a")
        proxy.break_down()
        box.go("a")
        await until(lambda: not is_alive(pid))
        await box.silence(job_id)
        proxy.refuses = False
        job = await box.becomes(job_id, "succeeded")

    assert (job.attempt_count, len(box.starts("a"))) == (2, 2)
    assert agent.counts == {"undelivered": 1, "succeeded": 1}


async def test_a_job_survives_a_restart_of_the_api(box, database_url, settings):
    job_id = await box.job("a", "wait")
    first = Served(database_url, settings, QUICK)
    first.start()
    async with FaultyProxy(first.address) as proxy, box.agent(proxy.address):
        await box.started("a")
        await asyncio.to_thread(first.stop)
        box.go("a")
        await asyncio.sleep(0.3)
        proxy.lead_to(box.server.address)
        job = await box.becomes(job_id, "succeeded")

    assert (job.attempt_count, len(box.starts("a"))) == (1, 1)


@pytest.mark.long
async def test_a_killed_agents_command_dies_and_its_job_is_requeued(box):
    job_id = await box.job("a", "wait")
    async with box.process() as agent:
        pid = await box.started("a")
        agent.send_signal(signal.SIGKILL)
        await until(lambda: not is_alive(pid))
    await box.silence(job_id)
    box.go("a")
    async with box.agent():
        job = await box.becomes(job_id, "succeeded")

    assert (job.attempt_count, job.lost_count) == (2, 1)
    assert [attempt["status"] for attempt in await list_attempts(box.conn, job_id)] == ["lost", "succeeded"]


@pytest.mark.long
async def test_a_stopped_agent_lets_its_command_end_and_reports(box):
    job_id = await box.job("a", "wait")
    async with box.process() as agent:
        await box.started("a")
        agent.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.2)
        waiting = await box.job("b", "work")
        box.go("a")
        assert await asyncio.wait_for(agent.wait(), 20) == 0

    assert (await box.becomes(job_id, "succeeded")).output["stdout_tail"].endswith("went")
    assert (await get_job(box.conn, waiting)).status == "queued"


@pytest.mark.long
async def test_a_second_signal_ends_the_command_at_once_and_reports_that_too(box):
    job_id = await box.job("a", "wait", max_retries=0)
    async with box.process() as agent:
        pid = await box.started("a")
        agent.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.2)
        agent.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(agent.wait(), 20) == 0

    assert not is_alive(pid)
    job = await box.becomes(job_id, "dead_letter")
    assert job.error["message"].startswith("The command was stopped: the agent stops.")


@pytest.mark.long
@pytest.mark.parametrize("signals", [1, 2])
async def test_a_stopped_agent_does_not_wait_for_a_response_to_its_report(box, monkeypatch, signals):
    monkeypatch.setattr(module, "SHUTDOWN_SECONDS", 0.5)
    await box.job("a", "wait")
    async with FaultyProxy(box.server.address) as proxy:
        async with box.agent(proxy.address) as agent:
            pid = await box.started("a")
            proxy.swallows = True
            box.go("a")
            await until(lambda: not is_alive(pid))
            await asyncio.sleep(0.2)
            for _ in range(signals - 1):
                agent.stop()
            asked_at = time.monotonic()
        assert time.monotonic() < asked_at + 3

    assert agent.counts == {"undelivered": 1}


async def test_an_unknown_agent_ends_with_the_reason(box):
    box.token = "atl_aaaaaaaa_" + "a" * 43
    with pytest.raises(ApiUnauthenticated):
        async with box.agent() as agent:
            await asyncio.sleep(0.5)
            agent.stop()
    box.token = box.world.tokens["acme", "host"]
    with pytest.raises(SettingsError, match="is valid for 0 hosts called rack-9"):
        async with box.agent(host="rack-9"):
            await asyncio.sleep(0.5)


async def test_the_agent_needs_nothing_but_httpx_and_what_httpx_brings():
    code = """
import sys
before = {name.split(".")[0] for name in sys.modules}
import atlas.agent.__main__
theirs = {name.split(".")[0] for name in sys.modules} - set(sys.stdlib_module_names) - before
print(*sorted(name for name in theirs if not name.startswith("_")))
"""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", code), env={"PYTHONPATH": str(ROOT)}, stdout=asyncio.subprocess.PIPE
    )
    found, _ = await process.communicate()

    assert set(found.decode().split()) <= {
        *("atlas", "httpx", "httpcore", "h11", "anyio", "sniffio", "certifi", "idna", "typing_extensions"),
        *("click", "rich", "pygments", "markdown_it", "mdurl", "exceptiongroup", "h2", "socksio"),
    }
