"""`atlas tenant export` and `atlas tenant import` under load: killed half-way, repeated, nothing lost, nothing doubled."""

import asyncio
import sys
from collections import Counter
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg
import pytest

from atlas.audit.verification.crosscheck import cross_check
from atlas.db.pool import open_pool
from atlas.db.sql_functions import SOURCE
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.tenants.tenants import add_tenant
from atlas.engine.triggers.fire_schedules import fire_due
from atlas.engine.triggers.store import add_trigger
from atlas.errors import NotFound, TenantMoved
from atlas.ids import new_id
from tests.audit.given import Installation
from tests.cli.conftest import environment, run
from tests.support import DANA, publish, until
from tests.workers.processes import workers

EVERY_MINUTE = {
    "label": "minutely",
    "trigger_type": "schedule",
    "cron_expr": "* * * * *",
    "job_type": "test.noop",
    "misfire": "all",
}
# For schedules a minute passes in half a second.
FAST = """
create or replace function atlas.schedule_clock() returns timestamptz language sql volatile
return clock_timestamp() + (clock_timestamp() - '{0}'::timestamptz) * 120"""
AS_INSTALLED = SOURCE / "engine/triggers/functions/schedule_clock.sql"
# How often something happened to each job, by the audit log.
EVENTS = "select entity_id, count(*) from atlas.audit_log where action = $1 and tenant_id = $2 group by 1"
# Where an import waits for the test: it has written jobs then.
HELD_UP = "select exists (select from pg_locks where relation = 'atlas.webhooks'::regclass and not granted)"


class Cell:
    """An installation with its own database and home, and the secret key that all of them share."""

    def __init__(self, url, pool, folder, name):
        self.url = url
        self.pool = pool
        self.folder = folder
        # A scheduler would make the key that signs.
        Installation(folder / name, url)
        key = str(folder / "secret.key")
        self.env = environment(folder / name, DATABASE_URL=url, ATLAS_SECRET_KEY_FILE=key)

    async def atlas(self, *arguments):
        ran = await run(self._argv(arguments), cwd=self.folder, env=self.env)
        assert ran.code == 0, ran
        return ran

    async def begin(self, *arguments):
        """A command that the test kills."""
        return await asyncio.create_subprocess_exec(
            *self._argv(arguments), cwd=self.folder, env=self.env, stdout=asyncio.subprocess.DEVNULL
        )

    def _argv(self, arguments):
        return [sys.executable, "-P", "-m", "atlas.cli.main", *arguments]


@pytest.fixture
async def cells(databases, tmp_path):
    @asynccontextmanager
    async def cell(name):
        async with databases.database() as url:
            pool = await open_pool(url, size=8)
            async with pool.acquire() as conn:
                await switch(conn, online=True, actor=DANA)
            yield Cell(url, pool, tmp_path, name)
            await pool.close()

    async with cell("old") as old, cell("new") as new:
        yield old, new


class Callers:
    """Programs that enqueue without a pause, at the new cell when the old one says that the tenant moved."""

    def __init__(self, cells, tenant_id, count):
        self.acknowledged = []
        self.refused = 0
        self._cells = cells
        self._tenant_id = tenant_id
        self._tasks = [asyncio.create_task(self._call()) for _ in range(count)]

    async def _call(self):
        cell = self._cells[0]
        while True:
            try:
                async with cell.pool.acquire() as conn:
                    job = NewJob("test.noop", {}, self._tenant_id, id=new_id())
                    await enqueue(conn, job, actor=DANA)
                self.acknowledged.append(str(job.id))
                await asyncio.sleep(0.01)
            except (TenantMoved, NotFound):
                self.refused += 1
                cell = self._cells[1]
                await asyncio.sleep(0.02)

    async def stop(self):
        for task in self._tasks:
            task.cancel()
        ended = await asyncio.gather(*self._tasks, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in ended), ended


@pytest.mark.long
@pytest.mark.parametrize(
    ("processes", "callers", "seconds"), [(1, 4, 0.5), pytest.param(3, 16, 20.0, marks=pytest.mark.slow)]
)
async def test_a_tenant_moves_under_load_and_every_job_ends_once(cells, tmp_path, processes, callers, seconds):
    old, new = cells
    file = tmp_path / "acme.zip"
    now = await old.pool.fetchval("select now()::text")
    for cell in cells:
        owner = await asyncpg.connect(cell.url)
        await owner.execute(FAST.format(now))
        await owner.close()
    async with old.pool.acquire() as conn:
        await publish(conn, "test.noop")
        acme = await add_tenant(conn, slug="acme", name="Acme", actor=DANA)
        await add_trigger(conn, acme.id, EVERY_MINUTE, actor=DANA)
    async with (
        workers(old.url, processes, types="test.noop"),
        workers(new.url, processes, types="test.noop"),
        firing(old),
        firing(new),
    ):
        load = Callers(cells, acme.id, callers)
        await until(lambda: len(load.acknowledged) > 20)
        await asyncio.sleep(seconds)

        killed = await old.begin("tenant", "export", "acme", str(file), "--to", "the new cell")
        await until(lambda: old.pool.fetchval("select moving_at is not null from atlas.tenants where slug = 'acme'"))
        killed.kill()
        await killed.wait()
        file.unlink(missing_ok=True)
        await old.atlas("tenant", "export", "acme", str(file), "--reason", "more room")

        async with new.pool.acquire() as holder, holder.transaction():
            await holder.execute("lock table atlas.webhooks in access exclusive mode")
            killed = await new.begin("tenant", "import", str(file))
            async with new.pool.acquire() as conn:
                await until(lambda: conn.fetchval(HELD_UP))
            killed.kill()
            await killed.wait()
        assert await new.pool.fetchval("select count(*) from atlas.tenants where slug = 'acme'") == 0
        imported = await new.atlas("tenant", "import", str(file), "--json")
        await asyncio.sleep(seconds)
        assert await new.pool.fetchval("select count(*) from atlas.jobs where status = 'running'") == 0
        await new.atlas("resume", "tenant", "acme")
        await asyncio.sleep(seconds)
        await load.stop()
        assert load.refused > 0
    async with workers(new.url, processes, types="test.noop"):
        await until(
            lambda: new.pool.fetchval("select count(*) = 0 from atlas.jobs where status in ('queued', 'running')")
        )

    created, succeeded = [await happened(cells, action, acme.id) for action in ("JOB_CREATED", "JOB_SUCCEEDED")]
    assert set(load.acknowledged) <= created.keys()
    assert created == succeeded == dict.fromkeys(created, 1)
    before, after = await fires(old), await fires(new)
    assert after[: len(before)] == before
    assert len(after) > len(before) > 0
    assert after == [after[0] + n * timedelta(minutes=1) for n in range(len(after))]
    for cell in cells:
        owner = await asyncpg.connect(cell.url, server_settings={"search_path": "atlas, pg_temp"})
        await owner.execute(AS_INSTALLED.read_text())  # The guards find the other clock.
        await owner.close()
        await cell.atlas("audit", "verify", "--state")
    moved = await old.pool.fetchval("select count(*) from atlas.audit_log where tenant_id = $1", acme.id)
    # The last event, that it was exported, came after the export.
    assert imported.document["audit_rows"] == [moved - 1]
    await old.atlas("tenant", "remove", "acme", "--yes")
    async with old.pool.acquire() as conn:
        assert await cross_check(conn) == []


@asynccontextmanager
async def firing(cell):
    """A scheduler of this cell."""

    async def fire():
        async with cell.pool.acquire() as conn:
            while True:
                await fire_due(conn)
                await asyncio.sleep(0.05)

    task = asyncio.create_task(fire())
    yield
    task.cancel()
    [ended] = await asyncio.gather(task, return_exceptions=True)
    assert isinstance(ended, asyncio.CancelledError), ended


async def happened(cells, action, tenant_id):
    """How often it happened to each job, in both cells together."""
    found = Counter()
    for cell in cells:
        found.update(dict(await cell.pool.fetch(EVENTS, action, tenant_id)))
    return dict(found)


async def fires(cell):
    """The due times that the schedule was fired for."""
    return [row[0] for row in await cell.pool.fetch("select due_at from atlas.trigger_fires order by 1")]
