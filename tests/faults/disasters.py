"""What a storm may do. A new disaster adds itself to DISASTERS, with the reason where a machine cannot do it in `why_not`."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from atlas.db.pool import connect
from atlas.engine.jobs.switches.gate import switch, wait_until_closed
from atlas.engine.jobs.switches.pauses import pause, resume, wait_until_paused
from tests.faults.effects import note
from tests.faults.program import EXPIRE_WORKERS
from tests.faults.steering import TRY_AGAIN
from tests.faults.storm import LIBRARIES, PGBOUNCER, Service, Storm, note_kill, restart_programs
from tests.faults.storm_server import why_no_disk
from tests.support import DANA, NO_SPACE

FROZEN_SECONDS = 3.0
HOUR = 3600
# What is written to these tables fails, as on a full disk.
FILL = f"""
create function public.disk_is_full() returns trigger language plpgsql as $$ begin
  raise exception '{NO_SPACE}' using errcode = 'disk_full'; end $$;
create trigger full_disk before insert or update on atlas.jobs execute function public.disk_is_full();
create trigger full_disk before insert on atlas.workflow_steps execute function public.disk_is_full()"""
EMPTY = "drop function if exists public.disk_is_full cascade"


async def kill_program(storm: Storm) -> None:
    """kill -9 of a program."""
    service = storm.dice.choice(storm.services)
    if service.process is not None:
        service.send(signal.SIGKILL)
        note_kill(storm, service.process.pid)


async def freeze_program(storm: Storm) -> None:
    """SIGSTOP of a program for longer than its lease."""
    service: Service = storm.dice.choice(storm.services)
    service.send(signal.SIGSTOP)
    await storm.query(EXPIRE_WORKERS)
    await asyncio.sleep(FROZEN_SECONDS)
    service.send(signal.SIGCONT)


async def kill_pooler(storm: Storm) -> None:
    """kill -9 of a PgBouncer, which is started again."""
    pooler = storm.dice.choice(storm.poolers)
    pooler.kill()
    await asyncio.sleep(storm.dice.uniform(0, 2))
    pooler.start()


async def crash(storm: Storm) -> None:
    """A crash of the server, which recovers."""
    await storm.server.crash(down=storm.dice.uniform(0, 1))


async def fail_over(storm: Storm) -> None:
    """The server is lost for good, and a standby that follows it synchronously is promoted."""
    await storm.server.fail_over()


async def freeze_server(storm: Storm) -> None:
    """SIGSTOP of every process of the server."""
    processes = storm.server.processes()
    _signal(processes, signal.SIGSTOP)
    try:
        await asyncio.sleep(FROZEN_SECONDS)
    finally:
        _signal(processes, signal.SIGCONT)


async def take_connections(storm: Storm) -> None:
    """Every connection of the server is taken by something else."""
    taken: list[Any] = []
    with suppress(*TRY_AGAIN):
        while True:
            taken.append(await connect(storm.url))
    await asyncio.sleep(FROZEN_SECONDS)
    for conn in taken:
        conn.terminate()


async def hold_snapshot(storm: Storm) -> None:
    """A transaction that keeps its snapshot, until the storm is over or the server crashes."""
    conn = await storm.connect()
    await conn.execute("set idle_in_transaction_session_timeout = 0")
    # It holds no lock of a table, which a change of that table would wait for.
    await conn.execute("begin isolation level repeatable read; select pg_current_snapshot()")
    storm.held.callback(conn.terminate)


async def fill_disk(storm: Storm) -> None:
    """No byte is left on the file system of the server."""
    await storm.server.fill_disk(FROZEN_SECONDS)


async def refuse_writes(storm: Storm) -> None:
    """Writes of jobs and steps fail as they do on a full disk."""
    conn = await storm.connect()
    await conn.execute(FILL)
    await conn.close()
    await asyncio.sleep(FROZEN_SECONDS)
    await storm.query(EMPTY)


async def go_offline(storm: Storm) -> None:
    """Atlas is offline for some time: nothing starts."""
    conn = await storm.connect()
    gate = await switch(conn, online=False, actor=DANA)
    await wait_until_closed(conn, gate)
    note("offline returned", path=storm.effects)
    await asyncio.sleep(FROZEN_SECONDS)
    note("online asked for", path=storm.effects)
    await switch(conn, online=True, actor=DANA)
    await conn.close()


async def pause_type(storm: Storm) -> None:
    """A job type is paused for some time: none of its jobs starts."""
    conn = await storm.connect()
    paused = await pause(conn, "type", "fault.effect", actor=DANA)
    await wait_until_paused(conn, paused)
    note("pause returned", path=storm.effects, kind="fault.effect")
    await asyncio.sleep(FROZEN_SECONDS)
    note("resume asked for", path=storm.effects, kind="fault.effect")
    await resume(conn, paused.id, actor=DANA)
    await conn.close()


async def jump_clock(storm: Storm) -> None:
    """The clock of one worker's machine jumps by an hour, and back."""
    _set_clock(storm, storm.dice.choice((f"+{HOUR}", f"-{HOUR}")))
    await asyncio.sleep(FROZEN_SECONDS)
    _set_clock(storm, "+0")


DISASTERS: dict[str, Callable[[Storm], Awaitable[None]]] = {
    "kill": kill_program,
    "freeze": freeze_program,
    "restart": restart_programs,
    "killed pooler": kill_pooler,
    "crash": crash,
    "failover": fail_over,
    "frozen server": freeze_server,
    "connections": take_connections,
    "snapshot": hold_snapshot,
    "full disk": fill_disk,
    "refused writes": refuse_writes,
    "offline": go_offline,
    "pause": pause_type,
    "clock": jump_clock,
}


def why_not(name: str) -> str | None:
    """Why this machine cannot do it; None: it can."""
    if name == "clock" and not any(Path(path).exists() for path in LIBRARIES):
        return "libfaketime is not installed"
    if name == "killed pooler" and PGBOUNCER is None:
        return "PgBouncer is not installed"
    return why_no_disk() if name == "full disk" else None


def _set_clock(storm: Storm, offset: str) -> None:
    """In one step: libfaketime hangs on a file that is empty."""
    new = storm.folder / "clock.new"
    new.write_text(offset)
    new.replace(storm.folder / "clock")


def _signal(processes: list[int], number: signal.Signals) -> None:
    for pid in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
