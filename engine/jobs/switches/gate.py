"""The gate `atlas_online`: one switch that every start of a job, run or function obeys."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, TypeVar

import asyncpg
import orjson

from atlas.actors import Actor
from atlas.db.pool import Connection, Queryable
from atlas.db.schema import role
from atlas.db.statements import Statement, fetch, fetch_row, fetch_value, statement
from atlas.engine.etags import Precondition, require_match
from atlas.engine.jobs.start_right import LAPSE_SECONDS
from atlas.errors import FieldError, InvalidInput, Refused
from atlas.logs import get_logger
from atlas.models.system import Gate, Pause

S = TypeVar("S", Gate, Pause)

READ = statement("engine/jobs/switches/sql/gate_read.sql")
HOLD = statement("engine/jobs/switches/sql/gate_hold.sql")
SWITCH = statement("engine/jobs/switches/sql/gate_switch.sql")
ENGINE = statement("engine/jobs/switches/sql/gate_engine.sql")
LOCK_ROW = statement("engine/jobs/switches/sql/gate_lock_row.sql")
EXPIRE = statement("engine/jobs/switches/sql/gate_expire.sql")
HOLDERS = statement("engine/jobs/switches/sql/gate_holders.sql")
ACT_AS = statement("engine/jobs/switches/sql/gate_act_as.sql")
END_HOLDERS = statement("engine/jobs/switches/sql/gate_end_holders.sql")
CONFIRM = statement("engine/jobs/switches/sql/gate_confirm.sql")
CONFIRMED = statement("engine/jobs/switches/sql/gate_confirmed.sql")

MAX_REASON_LENGTH = 2000
MAX_TIME = timedelta(days=366)
# How often the confirmations of workers are counted.
COUNT_SECONDS = 0.02

log = get_logger("gate")


async def read_gate(conn: Queryable) -> Gate:
    """The gate as it is now, to show it. A claim reads it under a lock."""
    return gate_of(await read_gate_row(conn))


async def read_gate_row(conn: Queryable) -> str | None:
    """The JSON of the gate's row, which also says whether there are pauses."""
    row: str | None = await conn.fetchval(READ.sql)
    return row


async def switch(
    conn: Connection,
    *,
    online: bool,
    actor: Actor,
    reason: str | None = None,
    until: timedelta | None = None,
    if_match: Precondition | None = None,
) -> Gate:
    """Switch the gate. Once `online=False` has committed, no claim commits until it is switched on again.

    What was claimed before may still start, until `wait_until_closed` has returned.
    A session that keeps the gate's lock is ended after two seconds, or named: see `under_gate_lock`.
    """
    check_bounds("The switch", reason, until)
    async with under_gate_lock(conn, actor=actor) as unblocked:
        if if_match is not None:
            require_match(await read_gate(conn), if_match, "gate", "atlas_online")
        state = await fetch_value(
            conn,
            SWITCH,
            online=online,
            reason=reason,
            seconds=None if until is None else until.total_seconds(),
            **actor.arguments(),
        )
    return gate_of(state).model_copy(update={"unblocked": unblocked})


async def unblock_gate(conn: Connection, *, actor: Actor) -> Sequence[str]:
    """End the sessions that keep the gate's lock, and return which. It commits by itself.

    For a change in a transaction that may be rolled back: the sessions stay ended, so the record of it stays too.
    """
    async with under_gate_lock(conn, actor=actor) as unblocked:
        return unblocked


@asynccontextmanager
async def under_gate_lock(conn: Connection, *, actor: Actor) -> AsyncIterator[Sequence[str]]:
    """A transaction that holds the gate's lock, for what changes which claims are allowed. Yields the ended sessions.

    Claims hold the lock for milliseconds. A session of Atlas that still holds it after two seconds belongs to a
    process that froze or vanished, or to one that is too slow: it is ended if this login may do so, which the audit log
    records. What it had begun is rolled back, and done again by whoever is alive. Otherwise its own limit for idle
    transactions ends it within four seconds. `Refused` names the sessions that hold the lock after six.
    """
    unblocked: list[str] = []
    for is_last in (False, False, True):
        # A savepoint in a caller's transaction; otherwise sessions that were ended are recorded whatever comes after.
        async with conn.transaction():
            if await _lock(conn):
                yield unblocked
                return
            # The role that programs act as sees little of other sessions and has no rights over them; their login has
            # those over its own.
            before = await fetch_value(conn, ACT_AS, role="none")
            holders = await fetch(conn, HOLDERS)
            if is_last:
                raise _blocked(holders)
            ended = await fetch(conn, END_HOLDERS, pids=[row["pid"] for row in holders])
            # A tenant's role may not write what concerns no tenant.
            await fetch(conn, ACT_AS, role=role("engine"))
            await _record_ended(conn, ended, actor)
            unblocked += map(_session_name, ended)
            await fetch(conn, ACT_AS, role=before)


async def _lock(conn: Connection) -> bool:
    """Take the gate's lock. False: it was not free within two seconds."""
    try:
        async with conn.transaction():
            await fetch(conn, HOLD)
    except asyncpg.LockNotAvailableError:
        return False
    return True


async def _record_ended(conn: Connection, sessions: Sequence[Mapping[str, Any]], actor: Actor) -> None:
    # Imported here: commands that only read the gate need not load the audit log.
    from atlas.audit.record import Event, record

    for row in sessions:
        facts = {"application": row["application_name"], "state": row["state"]}
        log.warning("ended a database session that held the gate's lock", pid=row["pid"], **facts)
        message = "It held the gate's lock for two seconds."
        event = Event("GATE_UNBLOCKED", "database_session", str(row["pid"]), actor, message=message, meta=facts)
        await record(conn, event)


async def switch_engine(
    conn: Connection,
    *,
    enabled: bool,
    actor: Actor,
    reason: str | None = None,
    if_match: Precondition | None = None,
) -> Gate:
    """Let requests for workflows become runs, or wait. Runs that have begun go on. Atlas must have been online once."""
    check_bounds("The switch", reason, None)
    async with conn.transaction():
        if if_match is not None:
            require_match(gate_of(await fetch_value(conn, LOCK_ROW)), if_match, "gate", "atlas_online")
        state = await fetch_value(conn, ENGINE, enabled=enabled, reason=reason, **actor.arguments())
    gate = gate_of(state) if state is not None else await read_gate(conn)
    if gate.since is None:
        raise Refused(gate.closed_because, remedy="Bring it online with `atlas online`, then switch the engine.")
    return gate


async def wait_until_closed(conn: Connection, gate: Gate) -> Gate:
    """Wait until nothing starts that was claimed before this switch. Call it when the switch has committed.

    Returns when every worker has confirmed that and what was given to hosts, remote workers and recurring functions has
    started, and after two seconds at the latest: then the right of the others to start has lapsed.
    """
    return await wait_until_confirmed(conn, CONFIRMED, gate, version=gate.version)


async def wait_until_confirmed(conn: Connection, query: Statement, changed: S, **values: Any) -> S:
    """Wait for the confirmations that a statement counts, and add their number to the gate or the pause."""
    ends_at = time.monotonic() + LAPSE_SECONDS
    while row := await fetch_row(conn, query, **values, lapse=LAPSE_SECONDS):
        is_confirmed = row["confirmed"] == row["workers"] and not row["handing_out"]
        if is_confirmed or time.monotonic() >= ends_at:
            return changed.model_copy(update={"workers": row["workers"], "confirmed": row["confirmed"]})
        await asyncio.sleep(COUNT_SECONDS)
    # Someone has switched or resumed it since.
    return changed


async def confirm_closed(conn: Connection, worker_id: str, version: int) -> None:
    """Confirm for a worker that it starts nothing under the closed gate of this version."""
    await fetch(conn, CONFIRM, worker=worker_id, version=version)


def check_bounds(what: str, reason: str | None, until: timedelta | None) -> None:
    """Raise InvalidInput for a reason or a time that is too long."""
    errors = []
    if reason is not None and len(reason) > MAX_REASON_LENGTH:
        errors.append(FieldError("reason", f"is longer than {MAX_REASON_LENGTH:,} characters"))
    if until is not None and not timedelta() < until <= MAX_TIME:
        errors.append(FieldError("until", f"is not between now and {MAX_TIME.days} days from now"))
    if errors:
        raise InvalidInput(what, errors)


async def expire(conn: Connection) -> bool:
    """Come back online if the time of `offline --for` is over. Returns whether it is."""
    return bool(await fetch_value(conn, EXPIRE))


def gate_of(text: str | None) -> Gate:
    """The gate from the JSON of its row. Without a row Atlas is offline."""
    value: dict[str, Any] = {} if text is None else orjson.loads(text)
    switches = {
        "online": value.get("online") is True,
        "engine_enabled": text is not None and value.get("engine_enabled") is not False,
        "version": value.get("version", 0),
    }
    unknown = dict.fromkeys(("reason", "by", "since", "until"))
    return Gate.model_validate(unknown | value | switches)


def _session_name(row: Mapping[str, Any]) -> str:
    return f"{row['application_name'] or 'a client'} (pid {row['pid']}, {row['state'] or 'in an unknown state'})"


def _blocked(holders: Sequence[Mapping[str, Any]]) -> Refused:
    named = "; ".join(map(_session_name, holders)) or "another session"
    return Refused(
        f"The gate's lock could not be taken within 6 s: {named}.",
        remedy="End that transaction (select pg_terminate_backend(pid)) and try again.",
    )
