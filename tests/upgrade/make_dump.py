"""Makes a database of this version, with rows in every table, for `test_earlier_databases.py`. Every release runs it:

.venv/bin/python -m tests.upgrade.make_dump 0.2.0
"""

import asyncio
import lzma
import os
import re
import signal
import subprocess
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg

from atlas.audit.retention import prune
from atlas.audit.sealing.seal import seal
from atlas.db.pool import connect, open_pool
from atlas.engine.tenants.move import begin_move, record_export
from atlas.engine.tenants.move_export import TenantFileWriter
from atlas.engine.tenants.move_import import TenantImport
from atlas.postgres.pg_ctl import BIN
from atlas.test_databases import TestDatabases
from tests.audit.given import Installation
from tests.cli.conftest import environment
from tests.engine.given import given_full_tenant
from tests.engine.jobs.given import given_claimed
from tests.support import DANA, free_port, until

FOLDER = Path(__file__).parent / "databases"
TABLES = "select tablename from pg_tables where schemaname = 'atlas' order by 1"
DEMO_HAS_RUN = "select count(*) >= 4 from atlas.jobs where finished_at is not null"
# Rows that stay for a short time only, and one of a job whose cost is metered.
MORE = """
insert into atlas.limit_events (limit_id, tenant_id) select id, tenant_id from atlas.job_limits;
insert into atlas.running_programs (id, kind, version, hostname) values (gen_random_uuid(), 'api', '0.1.0', 'box');
insert into atlas.usage_costs (job_id, cents) select id, cost_cents from atlas.jobs where status = 'succeeded'"""
# Meant for psql, unknown to servers before 17, or named after the login that made the dump.
LEFT_OUT = re.compile(r"^(\\(un)?restrict .*|SET transaction_timeout .*|ALTER .* OWNER TO postgres;)\n", re.MULTILINE)


async def main(name: str) -> None:
    """Fill a database, and write its dump and the public key of its audit log."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        home.mkdir()
        databases = TestDatabases(Path(folder, "server"))
        await databases.start()
        async with databases.database() as url, databases.database() as other_url:
            empty = await _fill(url, other_url, home)
            assert not empty, f"these tables are empty: {empty}"
            arguments = ["--schema=atlas", "--rows-per-insert=100", f"--dbname={url}"]
            dump = await asyncio.to_thread(subprocess.check_output, [BIN / "pg_dump", *arguments], text=True)
        databases.stop()
        (FOLDER / f"{name}.pub").write_text((home / "keys" / "audit.pub").read_text())
    packed = lzma.compress(LEFT_OUT.sub("", dump).encode(), preset=9 | lzma.PRESET_EXTREME)
    (FOLDER / f"{name}.sql.xz").write_bytes(packed)


async def _fill(url: str, other_url: str, home: Path) -> list[str]:
    """Write rows into every table; returns the tables that are empty nevertheless."""
    await _run_demo(url, home)
    installation, pool, owner = Installation(home, url), await open_pool(url, size=3), await connect(url)
    async with pool.acquire() as conn:
        await seal(conn)
        await installation.sign(conn)
        await prune(owner, older_than=timedelta(0), actor=DANA, key=installation.key)
        tenant = await given_full_tenant(conn)
        await given_claimed(conn, "running", tenant_id=tenant.id)
        await _move_tenant(other_url, conn, home)
        await conn.execute(MORE)
        await seal(conn)
        await installation.sign(conn)
    tables = [row[0] for row in await owner.fetch(TABLES)]
    empty = [table for table in tables if not await owner.fetchval(f"select exists (select from atlas.{table})")]
    await owner.close()
    await pool.close()
    return empty


async def _run_demo(url: str, home: Path) -> None:
    """Run `atlas up` until the jobs of its demo have ended."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "atlas.cli.main", "up", "--port", str(free_port())),
        cwd=home,
        env={**environment(home, DATABASE_URL=url), "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        stdout=subprocess.DEVNULL,
    )
    conn = await asyncpg.connect(url)
    try:
        await until(lambda: conn.fetchval(DEMO_HAS_RUN), within=120)
    finally:
        await conn.close()
        process.send_signal(signal.SIGTERM)
        await process.wait()


async def _move_tenant(source_url: str, conn: Any, home: Path) -> None:
    """Import a tenant that another installation exported."""
    installation, file = Installation(home / "source"), home / "moved.zip"
    pool = await open_pool(source_url, size=3)
    async with pool.acquire() as source:

        async def seal_source() -> None:
            await seal(source)
            await installation.sign(source)

        tenant = await given_full_tenant(source, "moved")
        async for _ in begin_move(source, tenant, actor=DANA):
            pass
        written = await TenantFileWriter(source, tenant, [installation.key.public], lambda *_: None).write(
            file, seal_source
        )
        await record_export(source, tenant, actor=DANA, facts={"digest": written.digest})
    await pool.close()
    opened = TenantImport(file, lambda *_: None)
    opened.check(installation.keys)
    await opened.run(conn, actor=DANA, secret_keys=["k", *opened.manifest.secret_keys])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
