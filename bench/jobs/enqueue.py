"""Enqueue: one at a time and in bulk, beside bare inserts of the same rows on the same connection."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from atlas.db.pool import Connection
from atlas.engine.jobs.enqueue import enqueue, enqueue_many
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.ids import new_id
from bench.jobs.ground import BENCH, PIECE, ground

Way: TypeAlias = Callable[[Connection, int], Awaitable[None]]

ALTERNATE = 100
# As long as the bytes of an event are.
BODY = b'{"action":"JOB_CREATED","entity_type":"job","tenant_id":"00000000-0000-7000-8000-000000000001"}' + b" " * 160
JOB_ALONE = (
    "insert into atlas.jobs (id, tenant_id, job_type, input, created_by) values ($1, $2, 'bench.noop', $3, 'bench')"
)
SINGLE = f"""
with made as ({JOB_ALONE})
insert into atlas.audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, meta, body)
values ($2, 'system', 'bench', 'JOB_CREATED', 'job', $1, '{{"job_type": "bench.noop"}}', $4)"""
BULK = """
with made as (
  insert into atlas.jobs (id, tenant_id, job_type, input, created_by)
  select u.id, $2, 'bench.noop', u.input, 'bench' from unnest($1::uuid[], $3::jsonb[]) u (id, input))
insert into atlas.audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, meta, body)
select $2, 'system', 'bench', 'JOB_CREATED', 'job', u.id, '{"job_type": "bench.noop"}', u.body
from unnest($1::uuid[], $4::bytea[]) u (id, body)"""


@dataclass(frozen=True, slots=True)
class Enqueuing:
    """Jobs a second, each way, round by round."""

    single: list[float]
    bare_single: list[float]
    job_alone: list[float]
    bulk: list[float]
    bare_bulk: list[float]


async def measure(server_url: str, *, singly: int = 2000, bulk: int = 50_000, repeats: int = 3) -> Enqueuing:
    """Some rounds each way."""
    rates: dict[str, list[float]] = {name: [] for name in Enqueuing.__slots__}
    for _ in range(repeats):
        async with ground(server_url, "enqueue") as (pool, _), pool.acquire() as conn:
            for names, ways, amount, turn in (
                (("job_alone", "bare_single", "single"), (_job_alone, _bare_single, _single), singly, ALTERNATE),
                (("bare_bulk", "bulk"), (_bare_bulk, _bulk), bulk, PIECE),
            ):
                for name, seconds in zip(names, await _timed(conn, ways, amount, turn), strict=True):
                    rates[name].append(amount / seconds)
    return Enqueuing(**rates)


async def _timed(conn: Connection, ways: tuple[Way, ...], amount: int, turn: int) -> list[float]:
    """Seconds for the amount each way; they take turns, so that what else the machine does disturbs all alike."""
    spent = [0.0] * len(ways)
    for way in ways:
        await way(conn, min(amount, 50))
    for start in range(0, amount, turn):
        for nth, way in enumerate(ways):
            began = time.perf_counter()
            await way(conn, min(turn, amount - start))
            spent[nth] += time.perf_counter() - began
    return spent


async def _single(conn: Connection, amount: int) -> None:
    for n in range(amount):
        await enqueue(conn, NewJob("bench.noop", {"n": n}), actor=BENCH)


async def _bare_single(conn: Connection, amount: int) -> None:
    for n in range(amount):
        await conn.execute(SINGLE, new_id(), SYSTEM_TENANT, f'{{"n":{n}}}', BODY)


async def _job_alone(conn: Connection, amount: int) -> None:
    for n in range(amount):
        await conn.execute(JOB_ALONE, new_id(), SYSTEM_TENANT, f'{{"n":{n}}}')


async def _bulk(conn: Connection, amount: int) -> None:
    for start in range(0, amount, PIECE):
        jobs = [NewJob("bench.noop", {"n": n}) for n in range(start, min(amount, start + PIECE))]
        await enqueue_many(conn, jobs, actor=BENCH)


async def _bare_bulk(conn: Connection, amount: int) -> None:
    for start in range(0, amount, PIECE):
        ids = [new_id() for _ in range(start, min(amount, start + PIECE))]
        inputs = [f'{{"n":{n}}}' for n in range(len(ids))]
        await conn.execute(BULK, ids, SYSTEM_TENANT, inputs, [BODY] * len(ids))
