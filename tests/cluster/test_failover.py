"""The leader of a Patroni cluster is killed under load: nothing acknowledged is lost, and everything goes on by itself."""

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Any

import asyncpg
import pytest

from atlas.db.pool import UNREACHABLE, Pool, connect
from atlas.errors import DatabaseError
from tests.cluster.load import Load, load_on
from tests.cluster.patroni import PatroniCluster, needs_patroni, patroni_cluster
from tests.support import PROOF, until

pytestmark = [pytest.mark.slow, *needs_patroni, pytest.mark.timeout(1800)]

KILLS = 10 if PROOF else 2
# From the first write of the new leader on. A machine that is busy with other tests may take longer once.
SECONDS_BACK = 10.0
SECONDS_ONCE = 30.0

LISTENING = """
select count(*) = 6 from pg_stat_activity where application_name = 'atlas listener' and query ilike '%notify%'"""
WORKED = "select exists (select from atlas.jobs where finished_at > $1 and claimed_by like $2)"
LED = "select exists (select from atlas.scheduler_leader where expires_at > clock_timestamp())"
SEALED = "select exists (select from atlas.audit_seal where sealed_at > $1)"
UNFINISHED = "select count(*) from atlas.jobs where status <> 'succeeded'"
EXPIRED = "select entity_id from atlas.audit_log where action = 'LEASE_EXPIRED'"


async def test_a_leader_that_is_killed_again_and_again_loses_nothing_and_all_programs_go_on(tmp_path):
    async with patroni_cluster() as cluster:
        async with load_on(cluster, tmp_path) as load:
            checkpoints = await until_all_work(cluster, load)
            times = [await lose_leader(cluster, load, number) for number in range(KILLS)]
            await cluster.until_whole()
            assert [name for name, process in load.processes.items() if process.poll() is not None] == []
            await load.stop_enqueueing()
            doubled, expired = await until_all_ended(cluster, load)
        found = await load.run("audit", "verify", "--state", "--checkpoints", str(checkpoints))
    medians = {name: statistics.median(one[name] for one in times) for name in times[0]}
    print(
        f"{KILLS} kills: {len(load.acknowledged)} acknowledged, {len(doubled)} done twice, {len(expired)} leases expired"
    )
    print(f"medians: {_shown(medians)}; {found}")
    assert doubled <= expired
    for name in medians.keys() - {"leader"}:
        assert medians[name] < SECONDS_BACK
        assert max(one[name] for one in times) < SECONDS_ONCE


async def until_all_work(cluster: PatroniCluster, load: Load) -> Any:
    """Wait until every part has worked once, and keep a copy of the checkpoints of that time."""
    async with asyncpg.create_pool(cluster.owner_url, min_size=1, max_size=2) as pool:
        await pool.execute("create table probes (at timestamptz)")
        await until(_is(pool, LISTENING), within=120)
        await until(lambda: len(load.last) == 6 and load.effects.exists(), within=120)
    folder = load.folder / "checkpoints"
    await until(lambda: folder.exists() and any(folder.iterdir()))
    copy = load.folder / "before.checkpoints"
    copy.write_bytes(next(folder.iterdir()).read_bytes())
    return copy


async def lose_leader(cluster: PatroniCluster, load: Load, number: int) -> dict[str, float]:
    """Kill the leader. Returns the seconds until another one took a write, and from there on until each part was back."""
    await cluster.until_whole()
    leader = await cluster.leader()
    leader.kill()
    killed_at = time.time()
    written_at = await first_write(cluster)
    began = written_at.timestamp()
    async with asyncpg.create_pool(cluster.owner_url, min_size=1, max_size=5) as pool:
        workers = {name: process.pid for name, process in load.processes.items() if name.startswith("worker")}
        parts: dict[str, Callable[[], Any]] = {
            **{name: lambda name=name: load.last[name] > began for name in sorted(load.last)},
            **{name: _is(pool, WORKED, written_at, f"%:{pid}:%") for name, pid in workers.items()},
            "scheduler": _is(pool, LED),
            "sealer": _is(pool, SEALED, written_at),
            "listeners": _is(pool, LISTENING),
        }
        times = await asyncio.gather(*(_seconds_until(part, began) for part in parts.values()))
    leader.start()
    found = {"leader": began - killed_at, **dict(zip(parts, times, strict=True))}
    print(f"kill {number + 1}: {_shown(found)}")
    return found


async def first_write(cluster: PatroniCluster) -> datetime:
    """When the first write after the loss of the leader was acknowledged."""
    while True:
        with suppress(*UNREACHABLE, DatabaseError, asyncpg.PostgresError):
            conn = await connect(cluster.owner_url)
            try:
                await conn.execute("insert into probes values (clock_timestamp())")
                at: datetime = await conn.fetchval("select clock_timestamp()")
                return at
            finally:
                conn.terminate()
        await asyncio.sleep(0.05)


async def until_all_ended(cluster: PatroniCluster, load: Load) -> tuple[set[str], set[str]]:
    """Wait until every job has ended; returns those that ran twice, and those whose lease expired."""
    async with asyncpg.create_pool(cluster.owner_url, min_size=1, max_size=2) as pool:
        await until(_is(pool, UNFINISHED.replace("count(*)", "count(*) = 0")), within=120)
        known = {str(row["id"]) for row in await pool.fetch("select id from atlas.jobs")}
        expired = {row["entity_id"] for row in await pool.fetch(EXPIRED)}
    marks = Counter(load.effects.read_text().split())
    assert load.acknowledged <= known
    assert known == set(marks)
    return {job_id for job_id, count in marks.items() if count > 1}, expired


def _is(pool: Pool, query: str, *arguments: Any) -> Callable[[], Any]:
    return lambda: pool.fetchval(query, *arguments)


async def _seconds_until(condition: Callable[[], Any], began: float) -> float:
    await until(condition, within=120)
    return time.time() - began


def _shown(times: dict[str, float]) -> str:
    return ", ".join(f"{name} {seconds:.1f} s" for name, seconds in times.items())
