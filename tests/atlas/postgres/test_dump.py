"""What a dump says about roles, and restores that are cut off."""

import asyncio
import signal
import sys

import pytest

from atlas.db.pool import connect
from atlas.postgres import dump
from atlas.postgres.dump import DumpFailed, grantee, restore
from tests.pgbouncer import without_pooler
from tests.proxy import FaultyProxy
from tests.support import ROOT, until

STATEMENTS = [
    ("GRANT USAGE ON SCHEMA atlas TO atlas_enqueuer;", "atlas_enqueuer"),
    ("GRANT INSERT(body),SELECT(id) ON TABLE atlas.audit_log TO atlas_engine;", "atlas_engine"),
    ('GRANT SELECT ON TABLE atlas.jobs TO "Ann\'s ""own"" role" WITH GRANT OPTION;', 'Ann\'s "own" role'),
    ("CREATE POLICY everyone ON atlas.jobs USING (true);", None),
    ("    execute format('GRANT USAGE ON SCHEMA atlas TO nobody;');", None),
]
# Every table that is created waits for a lock.
WAITS = """
create schema atlas;
create function public.wait() returns event_trigger language plpgsql as $$ begin perform pg_advisory_xact_lock(7); end $$;
create event trigger wait on ddl_command_start when tag in ('CREATE TABLE') execute function public.wait()"""
SESSIONS = "select count(*) from pg_stat_activity where application_name like 'atlas restore %' and datname = current_database()"
IS_WAITING = f"{SESSIONS} and wait_event_type = 'Lock'"
KILLED = """
import asyncio, sys
from pathlib import Path
from atlas.postgres.dump import restore
asyncio.run(restore(sys.argv[1], Path(sys.argv[2]), lambda size: None))"""


@pytest.mark.parametrize(("line", "role"), STATEMENTS)
def test_the_role_of_a_grant_is_read(line, role):
    assert grantee(line) == role


@pytest.fixture
async def file(database_url, tmp_path):
    await dump.dump(database_url, "atlas", tmp_path / "dump", lambda size: None)
    return tmp_path / "dump"


@pytest.fixture
async def target(databases):
    """The address of a database in which a restore waits at its first table, and a connection that holds it there."""
    async with databases.database(migrated=False) as url:
        conn = await connect(url)
        await conn.execute(WAITS)
        await conn.execute("select pg_advisory_lock(7)")
        yield url, conn
        await conn.close()


@pytest.mark.long
@without_pooler("its sessions have no name")
async def test_a_restore_over_a_connection_that_went_silent_leaves_no_session(file, target, monkeypatch):
    url, conn = target
    monkeypatch.setattr(dump, "SILENT_SECONDS", 0.1)
    async with FaultyProxy(url) as proxy:
        restoring = asyncio.create_task(restore(proxy.url, file, lambda size: None))
        await until(lambda: conn.fetchval(IS_WAITING))
        proxy.sink()
        await conn.execute("select pg_advisory_unlock(7)")
        with pytest.raises(DumpFailed, match="was lost"):
            await restoring
        assert await conn.fetchval(SESSIONS) == 0


@pytest.mark.long
@without_pooler("its sessions have no name")
async def test_a_restore_that_is_killed_keeps_nothing(file, target):
    url, conn = target
    restoring = await asyncio.create_subprocess_exec(sys.executable, "-c", KILLED, url, str(file), cwd=ROOT)
    await until(lambda: conn.fetchval(IS_WAITING))
    restoring.send_signal(signal.SIGKILL)
    await restoring.wait()
    await conn.execute("select pg_advisory_unlock(7)")
    await until(lambda: _has_ended(conn))
    assert await conn.fetchval("select count(*) from pg_class where relnamespace = 'atlas'::regnamespace") == 0


async def _has_ended(conn):
    return await conn.fetchval(SESSIONS) == 0
