"""`atlas agent` as a host runs it: with a token for that host, until a signal."""

import asyncio
import signal
import sys

import orjson
import pytest

from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.lists.find import get_job
from atlas.engine.jobs.new_jobs.new_job import NewJob
from tests.api.conftest import server, settings
from tests.cli.conftest import environment
from tests.support import DANA

__all__ = ["server", "settings"]


@pytest.mark.long
async def test_a_host_runs_its_jobs_with_a_token_of_its_own_until_a_signal(atlas, server, conn, tmp_path):
    host = server.world.hosts["acme"]
    made = await atlas(
        *("token", "add", "--subject", "rack", "--role", "host", "--tenant", "acme", "--host", host.name, "--json")
    )
    commands = tmp_path / "home" / "agent-commands.json"
    commands.parent.mkdir(exist_ok=True)
    commands.write_bytes(orjson.dumps({"say.it": ["/bin/echo", "--", "{{ words }}"]}))
    job = await enqueue(conn, NewJob("say.it", {"words": "well done"}, host.tenant_id, host_id=host.id), actor=DANA)
    agent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "atlas.cli.main", "agent", "--url", server.address, "--json"),
        cwd=tmp_path,
        env=environment(tmp_path / "home", ATLAS_TOKEN=made.document["token"]),
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(30):
        while (found := await get_job(conn, job.id)) is None or found.status != "succeeded":
            await asyncio.sleep(0.05)
    agent.send_signal(signal.SIGTERM)
    received, _ = await asyncio.wait_for(agent.communicate(), 20)

    assert made.document["scopes"] == {"host_id": str(host.id)}
    assert found.output["stdout_tail"].endswith("well done")
    assert (agent.returncode, orjson.loads(received)) == (0, {"stopped": True, "jobs": {"succeeded": 1}})


@pytest.mark.long
async def test_an_agent_without_what_it_needs_is_refused_in_one_line(atlas):
    assert "Give --url and --token" in (await atlas("agent")).refusal
