"""Databases that earlier commits and releases made: `atlas migrate` brings them to today's tables, with nothing lost.

`databases/` has a dump of each, and the public key of its audit log. `make_dump.py` makes them.
"""

import asyncio
import lzma
import shutil
import sys
from pathlib import Path

import asyncpg
import pytest

from atlas.db.migrations import FUNCTIONS, load_migrations, migrate
from atlas.db.pool import open_pool
from atlas.scheduler.maintenance import Maintenance
from atlas.test_databases import TestDatabases
from tests.cli.conftest import Ran, environment, run
from tests.pgbouncer import direct_url
from tests.support import some

DUMPS = sorted((Path(__file__).parent / "databases").glob("*.sql.xz"), key=lambda path: path.name)
# Everything that a migration or a function makes, without the order of columns.
OBJECTS = """
select format('column %s.%s %s %s %s %s', a.attrelid::regclass, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
  coalesce(pg_get_expr(d.adbin, d.adrelid), ''), coalesce(a.attstattarget::text, ''))
from pg_attribute a join pg_class c on c.oid = a.attrelid
left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where c.relnamespace = 'atlas'::regnamespace and c.relkind in ('r', 'v') and a.attnum > 0 and not a.attisdropped
union all
select format('%s %s %s %s %s', c.relkind, c.oid::regclass, c.reloptions, c.relrowsecurity, c.relowner::regrole = current_user::regrole)
from pg_class c where c.relnamespace = 'atlas'::regnamespace and c.relkind <> 'c'
union all
select pg_get_indexdef(i.indexrelid) from pg_index i join pg_class c on c.oid = i.indexrelid
where c.relnamespace = 'atlas'::regnamespace
union all
select format('constraint %s %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) from pg_constraint
where connamespace = 'atlas'::regnamespace and contype <> 'n'
union all
select pg_get_triggerdef(t.oid) from pg_trigger t join pg_class c on c.oid = t.tgrelid
where c.relnamespace = 'atlas'::regnamespace and not t.tgisinternal
union all
select format('policy %s %s %s %s', tablename, policyname, qual, with_check) from pg_policies where schemaname = 'atlas'
union all
select format('grant %s %s %s', c.oid::regclass, r.grantee::regrole, r.privilege_type) from pg_class c, aclexplode(c.relacl) r
where c.relnamespace = 'atlas'::regnamespace and r.grantee <> current_user::regrole
union all
select format('enum %s %s', enumtypid::regtype, array_agg(enumlabel order by enumsortorder)) from pg_enum group by enumtypid"""
# It may lose everything in a power cut, and the tests' login owns the tables.
CHECKS_OF_THE_TEST_SERVER = {"fsync", "full_page_writes", "login"}
# By status, what jobs a database holds; and its audit rows.
CONTENT = """
select coalesce(nullif(status::text, 'failed'), 'failed' || (dead_lettered_at is not null)), count(*) from atlas.jobs group by 1
union all select 'audit rows', count(*) from atlas.audit_log
union all select 'seals', count(*) from atlas.audit_seal"""

ATTEMPTS = "select job_id, attempt_no, status::text from atlas.job_attempts order by 1, 2"
FOR_EVER = """
update atlas.tenants
set retention = '{"jobs": null, "attempts": null, "events": null, "steps": null, "recurring": null}'"""
# As if the hour had passed in which transactions may still end that are to be metered.
METERED = """
update atlas.system_state set value = jsonb_set(value, '{read_until}', to_jsonb(clock_timestamp() + interval '2 hours'))
where key = 'usage_meter'"""
# What simply finished, and no run waits for.
UNFILED = """
select count(*) from only atlas.jobs
where status in ('succeeded', 'failed', 'canceled') and dead_lettered_at is null and parent_run_id is null
  and group_id is null and id < atlas.history_horizon(2)"""


@pytest.fixture(params=some(DUMPS, every=2), ids=lambda path: path.name.partition(".")[0])
async def dump(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.fixture
async def earlier_url(dump: Path, databases: TestDatabases):
    """A database as an earlier commit made it."""
    async with databases.database(migrated=False) as url:
        conn = await asyncpg.connect(direct_url(url))
        await conn.execute(lzma.decompress(dump.read_bytes()).decode())
        await conn.close()
        yield url


async def atlas(*arguments: str, url: str, folder: Path) -> Ran:
    command = [sys.executable, "-P", "-m", "atlas.cli.main", *arguments]
    return await run(command, cwd=folder, env=environment(folder / "home", DATABASE_URL=url))


@pytest.fixture
async def earlier(earlier_url: str):
    conn = await asyncpg.connect(direct_url(earlier_url))
    yield conn
    await conn.close()


@pytest.mark.long
async def test_an_earlier_database_gets_todays_tables_and_passes_every_check(
    earlier_url, earlier, owner, dump, tmp_path
):
    before = await earlier.fetch(CONTENT)
    applied = [row[0] for row in await earlier.fetch("select migration_name from atlas._prisma_migrations")]
    assert {row[0] for row in before} >= {"queued", "running", "succeeded", "failedtrue", "canceled", "seals"}

    new = [migration.name for migration in load_migrations() if migration.name not in applied]
    behind = await atlas("doctor", "--json", url=earlier_url, folder=tmp_path)
    checks = {check["check"]: check for check in behind.document["checks"]}
    assert (checks["migrations"]["remedy"], "database" in checks) == ("Run `atlas migrate`.", False)
    assert await migrate(earlier_url) == [*new, FUNCTIONS]

    assert await earlier.fetch(CONTENT) == before
    assert {row[0] for row in await earlier.fetch(OBJECTS)} ^ {row[0] for row in await owner.fetch(OBJECTS)} == set()
    # The dump is restored into another cluster, where the private half of the key is lost.
    (tmp_path / "home" / "keys").mkdir(parents=True)
    shutil.copy(dump.with_name(dump.name.replace(".sql.xz", ".pub")), tmp_path / "home" / "keys" / "audit.1.pub")
    epoch = await atlas("audit", "new-epoch", "--new-key", "--reason", "upgraded", url=earlier_url, folder=tmp_path)
    assert epoch.code == 0, epoch.stderr
    verified = await atlas("audit", "verify", "--state", url=earlier_url, folder=tmp_path)
    assert verified.code == 0, verified.stdout
    doctor = await atlas("doctor", "--json", url=earlier_url, folder=tmp_path)
    failed = {check["check"] for check in doctor.document["checks"] if check["verdict"] == "fail"}
    assert failed <= CHECKS_OF_THE_TEST_SERVER


@pytest.mark.long
async def test_the_finished_jobs_of_an_earlier_database_move_into_history(earlier_url, earlier):
    await migrate(earlier_url)
    await earlier.execute(FOR_EVER)
    before, attempts = set(await earlier.fetch(CONTENT)), await earlier.fetch(ATTEMPTS)
    pool = await open_pool(earlier_url, size=2)
    await Maintenance(pool, asyncio.Event()).meter()
    await earlier.execute(METERED)
    await Maintenance(pool, asyncio.Event()).prune()
    await pool.close()

    assert (set(await earlier.fetch(CONTENT)), await earlier.fetch(ATTEMPTS)) == (before, attempts)
    assert await earlier.fetchval("select count(distinct id) = count(*) from atlas.jobs")
    moved = "select coalesce(sum(jobs), 0) = (select count(*) from atlas.jobs) - (select count(*) from only atlas.jobs)"
    assert await earlier.fetchval(f"{moved} and sum(jobs) > 0 from atlas.history_contents")
    assert await earlier.fetchval(UNFILED) == 0
