"""Migrations: applied once, recorded with their checksum, refused where files and database disagree."""

import asyncio
import json
from pathlib import Path

import asyncpg
import pytest

from atlas.actors import Actor
from atlas.audit import Event, commit, record, reveal
from atlas.db.migrations import Migration, load_migrations, migrate, migrations_folder, pending
from atlas.errors import ForeignDatabase, MigrationError
from atlas.test_databases import TestDatabases


@pytest.fixture
async def empty_url(databases: TestDatabases):
    async with databases.database(migrated=False) as url:
        yield url


async def fetch(url: str, sql: str):
    conn = await asyncpg.connect(url)
    try:
        return await conn.fetch(sql)
    finally:
        await conn.close()


async def test_an_empty_database_gets_every_migration_once(empty_url):
    names = [migration.name for migration in load_migrations()]

    assert await migrate(empty_url) == names
    assert await migrate(empty_url) == []


async def test_each_migration_is_recorded_with_the_sha256_of_its_file(empty_url):
    await migrate(empty_url)

    rows = await fetch(
        empty_url, "select migration_name, checksum, finished_at, applied_steps_count from _prisma_migrations"
    )
    assert {row["migration_name"]: row["checksum"] for row in rows} == {m.name: m.checksum for m in load_migrations()}
    assert all(row["finished_at"] is not None and row["applied_steps_count"] == 1 for row in rows)


async def test_processes_that_migrate_at_once_apply_each_migration_once(empty_url):
    applied = await asyncio.gather(*(migrate(empty_url) for _ in range(6)))

    assert sorted(name for names in applied for name in names) == [m.name for m in load_migrations()]


async def test_a_migration_that_waits_for_a_dump_holds_up_nobody_else(empty_url, monkeypatch):
    monkeypatch.setattr("atlas.db.migrations.LOCK_SECONDS", 1)
    monkeypatch.setattr("atlas.db.migrations.REST_SECONDS", 0.1)
    steps = [Migration("1_first", "create table a ()"), Migration("2_next", "alter table a add column b int")]
    await migrate(empty_url, steps[:1])
    dump = await asyncpg.connect(empty_url)
    try:
        async with dump.transaction():
            await dump.fetch("select from a")
            migrating = asyncio.create_task(migrate(empty_url, steps))
            for _ in range(3):
                await asyncio.sleep(0.4)
                assert await asyncio.wait_for(fetch(empty_url, "select from a"), 5) == []
            assert not migrating.done()
        assert await asyncio.wait_for(migrating, 10) == ["2_next"]
    finally:
        await dump.close()


async def test_a_personal_value_under_the_wrong_thing_is_still_found_by_its_commitment(empty_url):
    everything = load_migrations()
    names = [migration.name for migration in everything]
    at = names.index("20261115013000_personal_values_by_thing")
    await migrate(empty_url, everything[:at])
    actor, words = Actor("user", "dana"), {"right": "1", "wrong": "of another", "none": None}
    conn = await asyncpg.connect(empty_url)
    shapes, rows = zip(*(commit(name, name, entity_id=thing) for name, thing in words.items()), strict=True)
    await conn.execute("select atlas_audit_private(null, $1::text::jsonb)", json.dumps([row.row for row in rows]))
    await record(conn, Event("SENT", "thing", "1", actor, meta={"to": shapes}))
    await migrate(empty_url, everything[: at + 1])

    left = {row["field"]: row["entity_id"] for row in await conn.fetch("select * from audit_private")}
    found = await reveal(conn, [shape["commitment"] for shape in shapes], of=["1"])
    assert left == {"right": "1", "wrong": None, "none": None}
    assert {one["value"] for one in found} == words.keys()
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="append-only"):
        await conn.execute("update audit_private set value = 'x'")
    await conn.close()


async def test_an_edited_migration_is_refused_and_nothing_is_changed(empty_url):
    first = Migration("1_first", "create table jobs (id int)")
    await migrate(empty_url, [first])

    edited = [Migration("1_first", "create table jobs (id bigint)"), Migration("2_next", "create table more ()")]
    with pytest.raises(MigrationError, match="1_first was changed after it had been applied"):
        await migrate(empty_url, edited)

    assert await fetch(empty_url, "select from pg_tables where tablename = 'more'") == []


async def test_a_database_ahead_of_the_files_is_refused(empty_url):
    await migrate(empty_url, [Migration("1_first", "create table a ()"), Migration("2_next", "create table b ()")])

    with pytest.raises(MigrationError, match="2_next, which this version of Atlas does not know"):
        await migrate(empty_url, [Migration("1_first", "create table a ()")])


async def test_a_database_of_another_product_is_refused_and_left_alone(empty_url):
    await fetch(empty_url, "create table wp_posts (id int)")

    with pytest.raises(ForeignDatabase, match="wp_posts"):
        await migrate(empty_url)

    assert await fetch(empty_url, "select from pg_tables where tablename = '_prisma_migrations'") == []


async def test_another_products_prisma_database_is_refused_and_left_alone(empty_url):
    await migrate(empty_url, [Migration("2020_shop", "create table orders ()")])

    with pytest.raises(ForeignDatabase, match="orders"):
        await migrate(empty_url)


async def test_a_migration_that_fails_leaves_nothing_behind(empty_url):
    broken = Migration("1_broken", "create table a (); create table a ();")
    with pytest.raises(MigrationError, match="1_broken failed and was rolled back"):
        await migrate(empty_url, [broken])

    assert await fetch(empty_url, "select from pg_tables where tablename = 'a'") == []
    assert await migrate(empty_url, [Migration("1_broken", "create table a ();")]) == ["1_broken"]


async def test_pending_names_what_a_database_still_lacks(empty_url):
    conn = await asyncpg.connect(empty_url)
    try:
        assert await pending(conn) == [migration.name for migration in load_migrations()]
        await migrate(empty_url)
        assert await pending(conn) == []
    finally:
        await conn.close()


def test_the_folder_has_the_layout_of_prisma_migrate():
    folder: Path = migrations_folder()

    assert (folder / "migration_lock.toml").read_text().strip().endswith('provider = "postgresql"')
    assert all(name.name[:14].isdigit() and name.name[14] == "_" for name in folder.iterdir() if name.is_dir())
