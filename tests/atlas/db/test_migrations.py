"""Migrations: applied once, recorded with their checksum, refused where files and database disagree."""

import asyncio
import re

import asyncpg
import pytest

from atlas.db.migrations import FUNCTIONS, LOCK_KEY, Migration, load_migrations, migrate, pending
from atlas.errors import ForeignDatabase, MigrationError
from atlas.source import SOURCE
from atlas.version import __version__
from tests.pgbouncer import direct_url
from tests.support import until

EVERYTHING = [*(migration.name for migration in load_migrations()), FUNCTIONS]

WAITING = """
select xact_start from pg_stat_activity
where application_name = 'atlas migrate' and datname = current_database() and xact_start is not null"""


async def fetch(url: str, sql: str):
    conn = await asyncpg.connect(direct_url(url))
    try:
        return await conn.fetch(sql)
    finally:
        await conn.close()


async def test_an_empty_database_gets_every_migration_once(empty_url):
    assert await migrate(empty_url) == EVERYTHING
    assert await migrate(empty_url) == []


async def test_each_migration_is_recorded_with_the_sha256_of_its_file_and_the_version_that_applied_it(empty_url):
    await migrate(empty_url)

    rows = await fetch(empty_url, "select * from atlas._prisma_migrations")
    assert {row["migration_name"]: row["checksum"] for row in rows} == {m.name: m.checksum for m in load_migrations()}
    assert all(row["finished_at"] is not None and row["applied_steps_count"] == 1 for row in rows)
    assert {row["logs"] for row in rows} == {f"Atlas {__version__}"}


async def test_processes_that_migrate_at_once_apply_each_migration_once(empty_url):
    applied = await asyncio.gather(*(migrate(empty_url) for _ in range(6)))

    assert sorted(name for names in applied for name in names) == EVERYTHING


@pytest.mark.long
async def test_a_migration_that_waits_for_a_dump_holds_up_no_one_else(empty_url, monkeypatch):
    monkeypatch.setattr("atlas.db.migrations.LOCK_SECONDS", 1)
    monkeypatch.setattr("atlas.db.migrations.REST_SECONDS", 0.1)
    steps = [Migration("1_first", "create table a ()"), Migration("2_next", "alter table a add column b int")]
    await migrate(empty_url, steps[:1])
    dump = await asyncpg.connect(direct_url(empty_url))
    try:
        async with dump.transaction():
            await dump.fetch("select from atlas.a")
            migrating = asyncio.create_task(migrate(empty_url, steps))
            for _ in range(3):
                await asyncio.sleep(0.4)
                assert await asyncio.wait_for(fetch(empty_url, "select from atlas.a"), 5) == []
            assert not migrating.done()
        assert await asyncio.wait_for(migrating, 10) == ["2_next"]
    finally:
        await dump.close()


async def test_a_migration_may_take_longer_than_a_transaction_may_be_idle(empty_url):
    await fetch(
        empty_url,
        """do $$ begin execute format('alter database %I set idle_in_transaction_session_timeout = 100', current_database()); end $$""",
    )

    assert await migrate(empty_url, [Migration("1_long", "select pg_sleep(0.5)")]) == ["1_long"]


BUILD = "-- Outside of a transaction.\n-- For reports.\ncreate index concurrently a_b on a (b) where b > 0;\n"
IS_VALID = "select indisvalid from pg_index where indexrelid = to_regclass('atlas.a_b')"


async def test_an_index_is_built_while_others_write_and_other_processes_wait_to_migrate(empty_url):
    steps = [Migration("1_first", "create table a (b int)"), Migration("2_index", BUILD)]
    await migrate(empty_url, steps[:1])
    writer = await asyncpg.connect(direct_url(empty_url))
    try:
        async with writer.transaction():
            await writer.execute("insert into atlas.a values (1)")
            migrating = [asyncio.create_task(migrate(empty_url, steps)) for _ in range(3)]
            await until(lambda: fetch(empty_url, IS_VALID))  # it waits for this transaction
            await asyncio.wait_for(fetch(empty_url, "insert into atlas.a values (2)"), 10)
        applied = await asyncio.wait_for(asyncio.gather(*migrating), 60)
    finally:
        await writer.close()

    assert sorted(applied) == [[], [], ["2_index"]]
    assert [row["indisvalid"] for row in await fetch(empty_url, IS_VALID)] == [True]


async def test_a_process_that_waits_to_migrate_keeps_no_transaction(empty_url):
    """An index that is built waits for the end of every transaction that it saw with a snapshot."""
    conn = await asyncpg.connect(direct_url(empty_url))
    try:
        await conn.execute(f"select pg_advisory_lock({LOCK_KEY})")
        waiting = asyncio.create_task(migrate(empty_url, [Migration("1_first", "create table a (b int)")]))
        began: set[object] = set()
        async with asyncio.timeout(60):
            while len(began) < 2:
                began |= {row["xact_start"] for row in await conn.fetch(WAITING)}
        await conn.execute(f"select pg_advisory_unlock({LOCK_KEY})")
        assert await waiting == ["1_first"]
    finally:
        await conn.close()


async def test_an_index_whose_build_was_interrupted_is_built_again(empty_url):
    unique = BUILD.replace("create index", "create unique index")
    steps = [Migration("1_first", "create table a (b int)"), Migration("2_index", unique)]
    await migrate(empty_url, steps[:1])
    await fetch(empty_url, "insert into atlas.a values (1), (1)")
    with pytest.raises(MigrationError, match="2_index failed"):
        await migrate(empty_url, steps)
    assert [row["indisvalid"] for row in await fetch(empty_url, IS_VALID)] == [False]
    await fetch(empty_url, "truncate atlas.a")

    assert await migrate(empty_url, steps) == ["2_index"]

    assert [row["indisvalid"] for row in await fetch(empty_url, IS_VALID)] == [True]


async def test_a_migration_outside_of_a_transaction_holds_one_index_and_nothing_else(empty_url):
    with pytest.raises(MigrationError, match="1_two is not run as a transaction"):
        await migrate(empty_url, [Migration("1_two", BUILD + "create table c ();")])


async def test_an_edited_migration_is_refused_and_nothing_is_changed(empty_url):
    first = Migration("1_first", "create table jobs (id int)")
    await migrate(empty_url, [first])

    edited = [Migration("1_first", "create table jobs (id bigint)"), Migration("2_next", "create table more ()")]
    with pytest.raises(
        MigrationError, match="1_first, applied on .* by Atlas 0.1.0, is not the one that this version has"
    ):
        await migrate(empty_url, edited)

    assert await fetch(empty_url, "select from pg_tables where tablename = 'more'") == []


async def test_a_database_ahead_of_the_files_is_refused(empty_url):
    await migrate(empty_url, [Migration("1_first", "create table a ()"), Migration("2_next", "create table b ()")])

    with pytest.raises(MigrationError, match="2_next, which this version of Atlas does not know"):
        await migrate(empty_url, [Migration("1_first", "create table a ()")])


async def test_a_database_of_another_build_is_refused_with_what_its_user_can_do(empty_url):
    theirs = [Migration("1_first", "create table a ()"), Migration("2_theirs", "create table b ()")]
    await migrate(empty_url, theirs)
    ours = [theirs[0], Migration("2_ours", "create table c ()")]

    with pytest.raises(MigrationError, match="2_theirs, which this version does not know, and lacks 2_ours") as refused:
        await migrate(empty_url, ours)
    assert "give this version a new database in DATABASE_URL" in refused.value.remedy
    await fetch(empty_url, "create table atlas.audit_moved ()")
    with pytest.raises(MigrationError) as refused:
        await migrate(empty_url, ours)
    assert "`atlas tenant export TENANT FILE`" in refused.value.remedy
    assert await fetch(empty_url, "select from pg_tables where tablename = 'c'") == []


async def test_atlas_is_installed_beside_the_tables_of_others(empty_url):
    await fetch(empty_url, "create table jobs (id int)")
    await fetch(empty_url, "create type job_status as enum ('mine')")

    assert await migrate(empty_url) == EVERYTHING

    [theirs] = await fetch(empty_url, "select array_agg(tablename::text) from pg_tables where schemaname = 'public'")
    assert theirs["array_agg"] == ["jobs"]


class Interrupted:
    """A connection after whose second statement another process commits."""

    def __init__(self, conn, commit):
        self._conn = conn
        self._statements = [None, commit]

    def __getattr__(self, name):
        async def run(*arguments):
            result = await getattr(self._conn, name)(*arguments)
            if self._statements and (commit := self._statements.pop(0)):
                await commit()
            return result

        return run


async def test_tables_that_another_process_makes_meanwhile_are_not_foreign(empty_url):
    looking, migrating = [await asyncpg.connect(direct_url(empty_url)) for _ in range(2)]
    transaction = migrating.transaction()
    await transaction.start()
    await migrating.execute("create schema atlas; create table atlas._prisma_migrations (id int)")

    assert await pending(Interrupted(looking, transaction.commit)) == EVERYTHING

    await looking.close()
    await migrating.close()


async def test_a_schema_that_holds_the_tables_of_others_is_refused_and_left_alone(empty_url):
    await fetch(empty_url, "create schema atlas")
    await fetch(empty_url, "create table atlas.wp_posts (id int)")

    with pytest.raises(ForeignDatabase, match="wp_posts"):
        await migrate(empty_url)

    assert await fetch(empty_url, "select from pg_tables where tablename = '_prisma_migrations'") == []


async def test_a_database_from_before_1_0_is_recognised_and_left_alone(empty_url):
    await fetch(empty_url, "create table jobs (id int)")
    await fetch(empty_url, "create function atlas_turn() returns void language sql as 'select'")

    with pytest.raises(ForeignDatabase, match="before 1.0") as refused:
        await migrate(empty_url)

    assert "new database in DATABASE_URL" in refused.value.remedy
    assert await fetch(empty_url, "select from pg_namespace where nspname = 'atlas'") == []


async def test_a_login_that_may_not_create_the_schema_is_shown_the_statement_that_helps(empty_url):
    await fetch(empty_url, "drop role if exists atlas_test_guest")
    await fetch(empty_url, "create role atlas_test_guest login password 'guest'")
    guest = re.sub("//[^@]*@", "//atlas_test_guest:guest@", direct_url(empty_url))
    try:
        with pytest.raises(MigrationError, match="may not create the schema atlas") as refused:
            await migrate(guest)
        assert 'create schema atlas authorization "atlas_test_guest";' in refused.value.remedy
    finally:
        await fetch(empty_url, "drop role atlas_test_guest")


async def test_a_migration_that_fails_leaves_nothing_behind(empty_url):
    broken = Migration("1_broken", "create table a (); create table a ();")
    with pytest.raises(MigrationError, match="1_broken failed and was rolled back"):
        await migrate(empty_url, [broken])

    assert await fetch(empty_url, "select from pg_tables where tablename = 'a'") == []
    assert await migrate(empty_url, [Migration("1_broken", "create table a ();")]) == ["1_broken"]


async def test_pending_names_what_a_database_still_lacks(empty_url):
    conn = await asyncpg.connect(direct_url(empty_url))
    try:
        assert await pending(conn) == EVERYTHING
        await migrate(empty_url)
        assert await pending(conn) == []
    finally:
        await conn.close()


def test_the_folder_has_the_layout_of_prisma_migrate():
    folder = SOURCE / "migrations"

    assert (folder / "migration_lock.toml").read_text().strip().endswith('provider = "postgresql"')
    assert all(name.name[:14].isdigit() and name.name[14] == "_" for name in folder.iterdir() if name.is_dir())
