"""What the audit log costs: appending, sealing, exporting, verifying offline.

Rates depend on the machine, so each stands beside something that does too: sealing beside the writing of the same
rows, verifying beside the bare hashing of the same bytes, audited inserts beside the same inserts without an event,
at 16 clients, in rounds that alternate. Verifying is one process at work, so its limit is on CPU time.

    python -m bench.audit
"""

import asyncio
import hashlib
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from atlas.actors import system
from atlas.audit.exports.export import Extract, export
from atlas.audit.keys import public_keys
from atlas.audit.sealing.seal import seal
from atlas.audit.sealing.sealer import seal_and_sign
from atlas.audit.verifier.export import verify_export
from atlas.db.migrations import migrate
from atlas.db.pool import Connection, Pool, open_pool
from atlas.postgres.cluster import start_embedded
from atlas.settings import Settings, load_settings
from bench.peers.databases import own_database

ROWS = 200_000
CLIENTS = 16
INSERTS = 150
ROUNDS = 7
ACTOR = system("bench")
LIMITS = {"sealing_rows_per_s": 20_000, "verifying_rows_per_cpu_s": 80_000, "append_ratio": 0.8}
MEMORY_MIB = 40

FILL = """
insert into atlas.audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, meta, body)
select t, 'system', 'bench', 'JOB_SUCCEEDED', 'job', e, '{"attempt": 1}',
  atlas.audit_body(t, 'system', 'bench', 'info', 'JOB_SUCCEEDED', 'job', e, '', '{"attempt": 1}')
from (select ('00000000-0000-7000-8000-00000000000' || i % 5)::uuid as t, gen_random_uuid()::text as e
      from generate_series(1, $1) i) x"""
PLAIN = """
insert into atlas.jobs (id, tenant_id, job_type, input)
values (gen_random_uuid(), '00000000-0000-7000-8000-000000000001', 'bench', $1::text::jsonb)"""
AUDITED = """
with made as (
  insert into atlas.jobs (id, tenant_id, job_type, input)
  values (gen_random_uuid(), '00000000-0000-7000-8000-000000000001', 'bench', $1::text::jsonb)
  returning id, tenant_id)
insert into atlas.audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, body)
select tenant_id, 'system', 'bench', 'JOB_CREATED', 'job', id::text,
  atlas.audit_body(tenant_id, 'system', 'bench', 'info', 'JOB_CREATED', 'job', id::text, '', '{}')
from made"""


async def run(pool: Pool) -> dict[str, Any]:
    """Rows a second of each part, what they stand beside, and how much memory an export takes."""
    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings(atlas_home=Path(folder) / "home")
        figures = await _append(pool)
        async with pool.acquire() as conn:
            await seal(conn)
            figures |= await _seal(conn)
            await seal_and_sign(pool, settings)
            figures |= await _export(conn, Path(folder) / "half.jsonl", Path(folder) / "whole.jsonl")
        figures |= _verify(Path(folder) / "whole.jsonl", settings)
    return figures


async def _append(pool: Pool) -> dict[str, Any]:
    rounds = [(await _insert(pool, PLAIN), await _insert(pool, AUDITED)) for _ in range(ROUNDS)]
    return {
        "plain_inserts_per_s": round(statistics.median(plain for plain, _ in rounds)),
        "audited_inserts_per_s": round(statistics.median(audited for _, audited in rounds)),
        "append_ratio": round(statistics.median(audited / plain for plain, audited in rounds), 3),
    }


async def _insert(pool: Pool, query: str) -> float:
    async def client() -> None:
        async with pool.acquire() as conn:
            for _ in range(INSERTS):
                await conn.execute(query, '{"n": 1}')

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return CLIENTS * INSERTS / (time.perf_counter() - began)


async def _seal(conn: Connection) -> dict[str, Any]:
    writing = sealing = 0.0
    for _ in range(4):
        began = time.perf_counter()
        await conn.execute(FILL, ROWS // 4)
        written = time.perf_counter()
        await seal(conn)
        writing, sealing = writing + written - began, sealing + time.perf_counter() - written
    return {"sealing_rows_per_s": round(ROWS / sealing), "sealing_beside_writing": round(writing / sealing, 2)}


async def _export(conn: Connection, half: Path, whole: Path) -> dict[str, Any]:
    """Memory at half the rows and at all of them: what streams takes the same."""
    middle = await conn.fetchval(
        "select sealed_at from atlas.audit_seal where size >= $1 order by n limit 1", ROWS // 2
    )
    grown = [await _written(conn, half, Extract(until=middle)), await _written(conn, whole, Extract())]
    (first, _), (second, seconds) = grown
    return {
        "export_rows_per_s": round(ROWS / seconds),
        "export_mib": round(whole.stat().st_size / 2**20),
        "export_memory_half_mib": round(first / 2**20, 1),
        "export_memory_mib": round(second / 2**20, 1),
    }


async def _written(conn: Connection, path: Path, extract: Extract) -> tuple[int, float]:
    process, began = psutil.Process(), time.perf_counter()
    before = highest = process.memory_info().rss
    with path.open("wb") as file:
        async for piece in export(conn, extract, actor=ACTOR):
            file.write(piece)
            highest = max(highest, process.memory_info().rss)
    return highest - before, time.perf_counter() - began


def _verify(path: Path, settings: Settings) -> dict[str, Any]:
    keys = public_keys(settings)
    began, cpu = time.perf_counter(), time.process_time()
    report = verify_export(path, keys)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    assert report.ok, report.findings
    began = time.process_time()
    with path.open("rb") as file:
        for line in file:
            # A row's bytes, its leaf and its node.
            hashlib.sha256(line).digest()
            hashlib.sha256(line[:87]).digest()
            hashlib.sha256(line[:65]).digest()
    hashing = time.process_time() - began
    return {
        "verifying_rows_per_s": round(report.rows / seconds),
        "verifying_rows_per_cpu_s": round(report.rows / cpu),
        "verifying_beside_hashing": round(hashing / cpu, 2),
    }


async def _main() -> dict[str, Any]:
    """On a server with its ordinary, durable settings: commits that reach the disk are part of the cost."""
    with tempfile.TemporaryDirectory() as folder:
        server = await start_embedded(Path(folder))
        try:
            async with own_database(server.url("postgres"), "audit") as url:
                await migrate(url)
                pool = await open_pool(url, size=CLIENTS + 1)
                try:
                    return await run(pool)
                finally:
                    await pool.close()
        finally:
            server.release()


def main() -> None:
    """Measure, print the figures as JSON, and exit 1 when one misses what is asked of it."""
    figures = asyncio.run(_main())
    print(json.dumps(figures, indent=2))
    missed = [f"{name} must be at least {limit}" for name, limit in LIMITS.items() if figures[name] < limit]
    if figures["export_memory_mib"] > MEMORY_MIB:
        missed.append(f"an export must not take more than {MEMORY_MIB} MiB")
    if missed:
        raise SystemExit("; ".join(missed))


if __name__ == "__main__":
    main()
