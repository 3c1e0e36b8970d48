"""`atlas tenant remove`: asks, shows its steps, and goes on after it was killed."""

import asyncio
import os
import pty
import sys

import pytest

from atlas.audit.verification.crosscheck import cross_check
from atlas.engine.tenants.tenants import find_tenant
from atlas.errors import NotFound
from tests.cli.conftest import environment
from tests.engine.given import given_full_tenant, rows_of
from tests.support import until

# The deletion of an event waits for this lock, which the test holds.
HELD_UP = 4711
HOLD_UP = f"""
create function atlas.hold_up() returns trigger language plpgsql as $$ begin
  perform pg_advisory_xact_lock({HELD_UP});
  return old;
end $$;
create trigger hold_up before delete on atlas.events for each row execute function atlas.hold_up()"""
IS_HELD_UP = f"select exists (select from pg_locks where locktype = 'advisory' and objid = {HELD_UP} and not granted)"


async def test_it_needs_a_yes_and_refuses_while_there_is_work(atlas, conn):
    acme = await given_full_tenant(conn)
    unconfirmed = await atlas("tenant", "remove", "acme")
    busy = await atlas("tenant", "remove", "acme", "--yes")

    assert unconfirmed.refusal.endswith("would be removed for good. Confirm it with --yes.")
    assert "Tenant acme has work that has not ended: 3 queued jobs" in busy.refusal
    assert (await find_tenant(conn, acme.id)).removing_at is None
    assert "is Atlas's own" in (await atlas("tenant", "remove", "system", "--yes")).refusal


async def test_it_says_what_it_removed(atlas, conn):
    acme = await given_full_tenant(conn)
    jobs = (await rows_of(conn, acme.id))["jobs"]
    ran = await atlas("tenant", "remove", "acme", "--yes", "--cancel", "--reason", "they left", "--json")

    assert (ran.code, ran.stderr) == (0, "")
    assert (ran.document["slug"], ran.document["id"], ran.document["rows"]["jobs"]) == ("acme", str(acme.id), jobs)
    assert "There is no tenant acme" in (await atlas("tenant", "remove", "acme", "--yes")).refusal
    assert (await atlas("tenant", "add", "acme")).code == 0


@pytest.mark.long
async def test_a_removal_that_was_killed_goes_on_when_it_is_called_again(atlas, conn, owner, database_url, tmp_path):
    acme = await given_full_tenant(conn)
    await owner.execute(HOLD_UP)
    await owner.execute(f"select pg_advisory_lock({HELD_UP})")
    arguments = [sys.executable, "-P", "-m", "atlas.cli.main", "tenant", "remove", "acme", "--yes", "--cancel"]
    env = environment(tmp_path / "home", DATABASE_URL=database_url)
    process = await asyncio.create_subprocess_exec(*arguments, cwd=tmp_path, env=env)
    await until(lambda: conn.fetchval(IS_HELD_UP))
    process.kill()
    await process.wait()
    await owner.execute(f"select pg_advisory_unlock({HELD_UP})")

    left = await rows_of(conn, acme.id)
    assert (left["jobs"], left["events"]) == (0, 1)
    assert (await find_tenant(conn, "acme")).removing_at is not None
    assert await cross_check(conn) == []
    listed = await atlas("tenant", "list", "--json")
    assert [tenant["slug"] for tenant in listed.document["tenants"] if tenant["removing_at"]] == ["acme"]

    again = await atlas("tenant", "remove", "acme", "--yes")
    assert again.code == 0, again
    assert again.stdout.startswith("Tenant acme removed, along with ")
    assert {table for table, count in (await rows_of(conn, acme.id)).items() if count} == {"audit_log"}
    assert await cross_check(conn) == []


@pytest.mark.long
@pytest.mark.parametrize(("answer", "code", "said"), [(b"n\n", 1, "was not removed"), (b"y\n", 0, "Removing acme")])
async def test_at_a_terminal_it_asks_and_shows_its_steps(conn, database_url, tmp_path, answer, code, said):
    await given_full_tenant(conn)
    ours, theirs = pty.openpty()
    env = environment(tmp_path / "home", DATABASE_URL=database_url)
    command = [sys.executable, "-P", "-m", "atlas.cli.main", "tenant", "remove", "acme", "--cancel"]
    ends = {"stdin": theirs, "stderr": theirs, "stdout": asyncio.subprocess.DEVNULL}
    process = await asyncio.create_subprocess_exec(*command, cwd=tmp_path, env=env, **ends)
    os.close(theirs)
    os.write(ours, answer)
    shown = await asyncio.to_thread(_read_all, ours)

    assert await process.wait() == code, shown
    assert "Remove the tenant acme and everything that belongs to it, for good?" in shown
    assert said in shown
    if code == 0:
        with pytest.raises(NotFound):
            await find_tenant(conn, "acme")


def _read_all(end: int) -> str:
    parts = []
    try:
        while part := os.read(end, 4096):
            parts.append(part)
    except OSError:  # how a terminal says that its other end is closed
        pass
    os.close(end)
    return b"".join(parts).decode()
