"""Who holds the gate's lock too long is ended, whatever it is: a frozen or vanished process does not keep the switch from anyone."""

import asyncio
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest

from atlas.api.db import Database
from atlas.db.pool import connect, open_pool
from atlas.engine.jobs.switches.gate import switch, wait_until_closed
from atlas.engine.jobs.switches.pauses import pause
from atlas.errors import Refused
from tests.engine.jobs.given import given_worker
from tests.pgbouncer import direct_url
from tests.support import DANA, given_tenant

# Each stops its own process between two statements of a transaction that holds the gate's lock.
HOLDERS = {
    "decides about intents": """
from atlas.engine.workflows import intents
intents.load_intents = freeze
await intents._decide(conn, [uuid4()])
""",
    "claims in a transaction": """
from atlas.engine.jobs.claim import Claimant, claim
async with conn.transaction():
    await claim(conn, Claimant("remote", ["report.build"], lease=60.0), limit=1)
    await freeze()
""",
    "claims for a host": """
from atlas.engine.hosts.leased_jobs import CLAIM
async with conn.transaction():
    await fetch(conn, CLAIM, claimant="host", host_id=uuid4(), tenant_id=None, job_types=None, limit=1, lease=60.0)
    await freeze()
""",
    "claims recurring runs": """
from atlas.engine.schedules.recurring_runs import claim_runs
async with conn.transaction():
    await claim_runs(conn, "scheduler", [], lease=60)
    await freeze()
""",
    "switches the gate": """
from atlas.engine.jobs.switches import gate
gate.require_match = lambda *_: freeze_now()
await gate.switch(conn, online=True, actor=system("test"), if_match=["x"])
""",
    "claims more than it reads": """
from atlas.engine.jobs.claim import Claimant, claim
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.lease import register_worker
await register_worker(conn, "worker", lease=60, job_types=["report.build"])
await enqueue_many(conn, [NewJob("report.build", {"text": "x" * 200_000}) for _ in range(40)], actor=system("test"))
# Prepares the statement.
await claim(conn, Claimant("worker", ["report.build"]), limit=1)
conn._con._transport.pause_reading()
asyncio.get_running_loop().call_later(1, freeze_now)
await claim(conn, Claimant("worker", ["report.build"]), limit=40)
""",
    "begins the move of a tenant": """
from types import SimpleNamespace
from atlas.engine.tenants import move as tenant_move
tenant_move.fetch_value = freeze
await tenant_move._mark(conn, SimpleNamespace(id=SYSTEM_TENANT, slug="x"), None, None, system("test"))
""",
    "pauses": """
from atlas.engine.jobs.switches.pauses import pause
async with conn.transaction():
    await pause(conn, "tenant", str(SYSTEM_TENANT), actor=system("test"))
    await freeze()
""",
}
PROGRAM = """
import asyncio, os, signal, sys
from uuid import uuid4
from atlas.actors import system
from atlas.db.pool import open_pool
from atlas.db.statements import fetch
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT

def freeze_now():
    print("frozen", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)

async def freeze(*_, **__):
    freeze_now()

async def main():
    pool = await open_pool(sys.argv[1], size=1, application=sys.argv[2])
    async with pool.acquire() as conn:
        HOLDER

asyncio.run(main())
"""
HELD = "select exists (select from pg_locks where locktype = 'advisory' and pid <> pg_backend_pid())"
UNBLOCKED = "select actor_id, meta->>'application', entity_id::int from atlas.audit_log where action = 'GATE_UNBLOCKED'"


@asynccontextmanager
async def frozen(url: str, holder: str, application: str = "atlas worker"):
    """A process that stopped while it holds the gate's lock."""
    code = PROGRAM.replace("HOLDER", HOLDERS[holder].strip().replace("\n", "\n        "))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, url, application, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert await asyncio.wait_for(process.stdout.readline(), 60) == b"frozen\n"
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()


def quick_and_long(holders: Iterable[str]) -> list[Any]:
    """The first two in every run; the others, which stop at the same lock, with those that take many seconds."""
    return [pytest.param(one, marks=[pytest.mark.long] if n > 1 else []) for n, one in enumerate(holders)]


@pytest.mark.parametrize("holder", quick_and_long(HOLDERS))
async def test_a_frozen_holder_keeps_the_switch_from_nobody(conn, online, database_url, eventually, holder):
    """Within the seven seconds is what `atlas offline` waits for: here for a worker that confirms nothing."""
    await given_worker(conn)
    async with frozen(database_url, holder):
        assert await conn.fetchval(HELD)
        began = time.monotonic()
        gate = await switch(conn, online=False, actor=DANA)
        assert not (await wait_until_closed(conn, gate)).online
        assert time.monotonic() - began < 7
    [(by, application, pid)] = await conn.fetch(UNBLOCKED)
    state = "active" if holder == "claims more than it reads" else "idle in transaction"
    assert gate.unblocked == [f"atlas worker (pid {pid}, {state})"]
    assert (by, application) == ("dana", "atlas worker")
    await eventually("select count(*) from pg_stat_activity where pid = $1", pid, equals=0)


@pytest.fixture
async def logins(owner, database_url):
    """The addresses of two logins of Atlas's programs, neither of which has rights over the other."""
    names = [f"program_{uuid4().hex[:12]}" for _ in range(2)]
    for name in names:
        await owner.execute(f"create role {name} login password 'secret' in role atlas_engine")
    yield [re.sub("//[^@]*@", f"//{name}:secret@", direct_url(database_url)) for name in names]
    await owner.execute(f"drop role {', '.join(names)}")


@asynccontextmanager
async def holding_session(url: str, application: str = "atlas worker") -> AsyncIterator[Any]:
    """A session that holds the gate's lock and says nothing any more."""
    conn = await connect(url, application=application)
    try:
        await conn.execute("begin")
        assert await conn.fetchval("select atlas.may_claim(null)")
        yield conn
    finally:
        conn.terminate()


@asynccontextmanager
async def session_of(url: str) -> AsyncIterator[Any]:
    pool = await open_pool(url, size=1)
    async with pool.acquire() as conn:
        yield conn
    await pool.close()


@pytest.mark.long
async def test_a_login_without_further_rights_ends_its_own_sessions(online, logins):
    async with holding_session(logins[0]), session_of(logins[0]) as conn:
        role = await conn.fetchval("select current_user::text")
        await switch(conn, online=False, actor=DANA)
        assert await conn.fetchval("select current_user::text") == role == "atlas_engine"
        assert len(await conn.fetch(UNBLOCKED)) == 1


@pytest.mark.long
async def test_the_session_of_another_login_ends_by_its_own_limit(online, logins):
    async with holding_session(logins[0]), session_of(logins[1]) as conn:
        await switch(conn, online=False, actor=DANA)
        assert await conn.fetch(UNBLOCKED) == []


@pytest.mark.long
async def test_a_tenant_s_pause_is_not_blocked_either_and_its_transaction_keeps_its_role(
    pool, conn, online, database_url
):
    tenant = await given_tenant(conn)
    async with holding_session(direct_url(database_url)):
        async with Database(pool).transaction(tenant) as tenants:
            await pause(tenants, "tenant", str(tenant), tenant_id=tenant, actor=DANA)
            assert await tenants.fetchval("select current_user::text") == "atlas_tenant"
    assert len(await conn.fetch(UNBLOCKED)) == 1


@pytest.mark.slow
async def test_the_session_of_another_program_is_named_and_not_ended(conn, online, database_url):
    async with holding_session(direct_url(database_url), "psql") as other:
        await other.execute("set local idle_in_transaction_session_timeout = 0")
        with pytest.raises(Refused, match=r"could not be taken within 6 s: psql \(pid \d+, idle in transaction\)"):
            await switch(conn, online=False, actor=DANA)
        async with conn.transaction():
            with pytest.raises(Refused, match=r"psql \(pid \d+"):
                await switch(conn, online=False, actor=DANA)
        await other.execute("rollback")
    assert not (await switch(conn, online=False, actor=DANA)).online
