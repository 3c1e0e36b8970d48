"""`api --processes`: several processes on one port, of which any serves, and which end and begin as one."""

import asyncio
import json
import os
import signal
import socket
import sys
from contextlib import AsyncExitStack, closing, suppress

import httpx
import orjson
import pytest
import websockets
from prometheus_client.parser import text_string_to_metric_families

from atlas.engine.access.tokens import add_token
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.new_jobs.new_job import NewJob
from tests.cli.conftest import environment
from tests.support import DANA, given_tenant, publish, until

# The kernel spreads connections by their ports: that so many all get to one of two is as likely as 1 in 2^23.
WATCHERS = 24


class Group:
    """A running `atlas api --processes 2`."""

    def __init__(self, process, port, log, token):
        self.process = process
        self.port = port
        self.token = token
        self._log = log

    def logged(self, event):
        """The lines about an event, in their order."""
        lines = [orjson.loads(line) for line in self._log.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == event]

    async def get(self, path):
        """Ask over a connection of its own."""
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.port}") as client:
            return await client.get(path)

    async def samples(self, name):
        """A metric of every process, by its number."""
        text = (await self.get("/metrics")).text
        found = [
            sample
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name
        ]
        return {one.labels["process"]: one.value for one in found}

    def watch(self):
        given = {"Authorization": f"Bearer {self.token}"}
        return websockets.connect(f"ws://127.0.0.1:{self.port}/api/v1/live", additional_headers=given)


@pytest.fixture
async def group(tmp_path, database_url, owner):
    _, token = await add_token(owner, subject="ann", role="operator", actor=DANA)
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    log = tmp_path / "log"
    with log.open("wb") as written:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "atlas.cli.main", "api", "--processes", "2", "--port", str(port)),
            cwd=tmp_path,
            env=environment(tmp_path / "home", DATABASE_URL=database_url),
            stdout=asyncio.subprocess.PIPE,
            stderr=written,
        )
    found = Group(process, port, log, token)
    await until(lambda: len(found.logged("the API listens")) == 2 or process.returncode is not None)
    yield found
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()


@pytest.mark.long
async def test_every_process_serves_and_one_that_dies_is_replaced_and_all_stop_together(group, owner):
    tenant = await given_tenant(owner)
    await publish(owner, "report.build")
    assert {line["process"] for line in group.logged("the API listens")} == {1, 2}

    async with AsyncExitStack() as held:
        watching = [await held.enter_async_context(group.watch()) for _ in range(WATCHERS)]
        await until(lambda: spread(group))
        job = (await enqueue(owner, NewJob("report.build", {}, tenant_id=tenant), actor=DANA)).id
        async with asyncio.timeout(60):
            await asyncio.gather(*(heard(one, str(job)) for one in watching))

    first, second = (line["pid"] for line in group.logged("program started"))
    os.kill(first, signal.SIGKILL)
    await until(lambda: len(group.logged("the API listens")) == 3)
    [ended] = group.logged("program ended by itself and is started again")
    assert (ended["program"], ended["how"]) == ("api 1", "by signal 9 (Killed)")
    assert {(await group.get("/readyz")).status_code for _ in range(10)} == {200}

    group.process.terminate()
    assert (await group.process.communicate())[0] == b"The API has stopped.\n"
    assert group.process.returncode == 0
    assert {line["program"]: line["status"] for line in group.logged("program stopped")} == {"api 1": 0, "api 2": 0}
    with pytest.raises(ProcessLookupError):
        os.kill(second, 0)
    # The port is free again.
    socket.create_server(("127.0.0.1", group.port)).close()


async def spread(group):
    """Whether a scrape says that each process has watchers, and both together all of them."""
    watchers = await group.samples("atlas_live_watchers")
    return sum(watchers.values()) == WATCHERS and len(watchers) == 2 and all(watchers.values())


async def heard(connection, job):
    """Wait for the frame with this job."""
    while not any(event.get("job_id") == job for event in json.loads(await connection.recv()).get("events", [])):
        pass
