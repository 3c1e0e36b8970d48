"""What tests of several folders share: who acts, where the repository is, and waiting until something is so."""

import asyncio
import fcntl
import inspect
import os
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from atlas.actors import Actor
from atlas.engine.policy.judge import load_policy
from atlas.engine.schemas import validator_of
from atlas.engine.templates import expressions
from atlas.engine.tenants.tenants import add_tenant
from atlas.engine.workflows.approvals import ask_for_reviews
from atlas.engine.workflows.review import load_subjects
from atlas.postgres.guardian import START_LOCK
from atlas.postgres.pg_ctl import call, running_at

ROOT = Path(__file__).parents[1]
# `make proof` sets it: the full sizes, which take hours of a machine rather than minutes.
PROOF = os.environ.get("ATLAS_PROOF") == "1"

T = TypeVar("T")

# What Postgres says when a disk is full.
NO_SPACE = 'could not extend file "base/16385/16412": No space left on device'

# The seconds that a task may hold an event loop which others need, of its own processor time: a busy machine adds nothing.
MAX_HOLD = 0.1

ALICE = Actor("user", "alice")
DANA = Actor("user", "dana")


def some(cases: Sequence[T], *, every: int) -> Sequence[T]:
    """Cases that differ little and cost much: all of them at full size, and else the first and every so many after it."""
    return cases if PROOF else cases[::every]


def free_port() -> int:
    """A port of loopback that nothing listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


async def until(condition: Callable[[], Any], *, within: float = 60) -> float:
    """Wait until a function, or a coroutine function, returns something true; returns the seconds it took."""
    began = time.monotonic()
    async with asyncio.timeout(within):
        while True:
            found = condition()
            if await found if inspect.isawaitable(found) else found:
                return time.monotonic() - began
            await asyncio.sleep(0.01)


async def watch_loop(holds: list[float]) -> None:
    """Record how long the loop's thread worked between two turns of this task."""
    before = time.thread_time()
    while True:
        await asyncio.sleep(0.001)
        now = time.thread_time()
        holds.append(now - before)
        before = now


async def max_hold(work: Awaitable[Any]) -> float:
    """Do something, and return how long it held the loop at most."""
    holds: list[float] = []
    watching = asyncio.create_task(watch_loop(holds))
    await asyncio.sleep(0.01)
    await work
    await asyncio.sleep(0.01)
    watching.cancel()
    return max(holds)


def forget_compiled() -> None:
    """What was compiled of templates and schemas is compiled again, as in a new process."""
    for cached in (expressions._pieces, expressions._parse, expressions._compile, expressions.split, validator_of):
        cached.cache_clear()


async def fill_disk(owner: Any, *tables: str) -> None:
    """Let every insert into these tables, and every update, fail as it does on a full disk."""
    await owner.execute(
        f"""create function disk_is_full() returns trigger language plpgsql as $$ begin
        raise exception '{NO_SPACE}' using errcode = 'disk_full'; end $$"""
    )
    for table in tables:
        await owner.execute(
            f"create trigger full_disk before insert or update on atlas.{table} execute function disk_is_full()"
        )


@contextmanager
def kept_down(home: Path) -> Iterator[None]:
    """Nothing starts the embedded server of this home during the block, also not its guardian."""
    with (home / START_LOCK).open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


async def crash_server(home: Path, *, down: float = 0.0) -> None:
    """Stop the embedded server of this home without any order, and wait until its guardian has started it again."""
    data = home / "postgres" / "data"
    with kept_down(home):
        await asyncio.to_thread(call, "pg_ctl", "-w", "-s", "-m", "immediate", "stop", data=data)
        await asyncio.sleep(down)
    await until(lambda: asyncio.to_thread(running_at, data))


async def publish(conn: Any, *job_types: str) -> None:
    """Job types that a worker has published: a type that nothing knows is refused."""
    await conn.execute(
        "insert into atlas.job_types (key) select unnest($1::text[]) on conflict do nothing", list(job_types)
    )


async def given_tenant(conn: Any, slug: str = "acme", timezone: str = "UTC") -> UUID:
    """The id of a new tenant."""
    return (await add_tenant(conn, slug=slug, name=slug, timezone=timezone, actor=DANA)).id


async def given_review(conn: Any, intent_id: UUID, reason: str = "the tests want it") -> None:
    """Ask a person about this request, as the engine does by a rule."""
    row = await conn.fetchrow("select tenant_id, workflow from atlas.intents where id = $1", intent_id)
    start = (row["tenant_id"], row["workflow"])
    subjects = await load_subjects(conn, await load_policy(conn, [start]), [start])
    await ask_for_reviews(conn, [(intent_id, reason, subjects[start])])


async def given_doubt(pool: Any, job_id: Any) -> str:
    """Let a queued job wait for a person's answer about an effect; returns its id."""
    await pool.execute(
        "update atlas.jobs set next_retry_at = '9999-12-31 00:00:00+00' where id = $1", UUID(str(job_id))
    )
    add = """insert into atlas.effects (id, tenant_id, job_id, job_type, name, key, state, attempt_no, detail)
        select gen_random_uuid(), tenant_id, id, job_type, 'stripe.charge', 'k', 'unknown', 1, '{"cents": 40}'
        from atlas.jobs where id = $1 returning id::text"""
    return str(await pool.fetchval(add, UUID(str(job_id))))
