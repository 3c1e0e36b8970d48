"""Bad input: one sentence with the cause and the remedy, exit 1, nothing changed, no stack trace."""

import sys
from pathlib import Path

import asyncpg
import pytest

from atlas.test_databases import TestDatabases
from tests.cli.conftest import MAKE_GUEST, as_guest, environment, run
from tests.pgbouncer import direct_url


async def fetch(url: str, sql: str):
    conn = await asyncpg.connect(direct_url(url))
    try:
        return await conn.fetch(sql)
    finally:
        await conn.close()


@pytest.mark.parametrize(
    ("url", "cause"),
    [
        ("mysql://localhost/atlas", "DATABASE_URL cannot be used: must start with postgresql://"),
        ("postgresql://localhost:1/atlas", "Postgres at localhost:1/atlas cannot be reached"),
        ("postgresql://user:secret@localhost:1/atlas", "Postgres at localhost:1/atlas cannot be reached"),
        ("postgresql://localhost:port/atlas", "cannot be reached"),
        ("postgresql://localhost:99999/atlas", "cannot be reached"),
        ("postgresql://no-such-host.invalid/atlas", "no-such-host.invalid/atlas cannot be reached"),
        ("postgresql://localhost:1/atlas?sslmode=sometimes", "cannot be reached"),
    ],
)
async def test_a_broken_database_url_is_named_without_its_password(atlas, url, cause):
    ran = await atlas("status", DATABASE_URL=url)

    assert cause in ran.refusal
    assert "DATABASE_URL" in ran.refusal
    assert "secret" not in ran.refusal


async def test_a_database_that_does_not_exist_is_named(atlas, database_url):
    ran = await atlas("migrate", DATABASE_URL=database_url.replace("/test_", "/missing_"))

    assert "does not exist" in ran.refusal


async def test_a_schema_of_another_product_is_refused_and_left_as_it_was(atlas, databases: TestDatabases):
    async with databases.database(migrated=False) as url:
        await fetch(url, "create schema atlas")
        await fetch(url, "create table atlas.wp_posts (id int)")
        ran = await atlas("migrate", DATABASE_URL=url)
        tables = await fetch(url, "select tablename from pg_tables where schemaname = 'atlas'")

    assert "holds tables that are not Atlas's (wp_posts). Name a schema of its own for Atlas" in ran.refusal
    assert [row["tablename"] for row in tables] == ["wp_posts"]


async def test_a_program_refuses_a_database_that_is_behind_and_does_not_change_it(atlas, databases: TestDatabases):
    async with databases.database(migrated=False) as url:
        ran = await atlas("status", DATABASE_URL=url)
        tables = await fetch(url, "select from pg_tables where schemaname in ('public', 'atlas')")

    assert "migrations of Atlas" in ran.refusal
    assert ran.refusal.endswith("Run `atlas migrate`.")
    assert tables == []


@pytest.mark.parametrize("command", ["migrate", "status"])
async def test_an_edited_migration_is_refused(atlas, database_url, command):
    await fetch(database_url, "update atlas._prisma_migrations set checksum = 'edited'")

    refusal = (await atlas(command)).refusal

    assert "cannot upgrade this database: its migration 20261116000000_foundation" in refusal
    assert "atlas tenant import" in refusal


async def test_a_home_that_cannot_be_written_is_refused(atlas):
    ran = await atlas("migrate", DATABASE_URL=None, ATLAS_HOME="/proc/atlas")

    assert "The embedded Postgres cannot use /proc/atlas/postgres" in ran.refusal
    assert "set ATLAS_HOME to one that is" in ran.refusal


@pytest.mark.parametrize("command", ["status", "jobs list", "tenant add acme", "audit verify", "backup there"])
async def test_a_command_in_a_folder_without_a_database_says_so_and_makes_none(atlas, tmp_path: Path, command: str):
    ran = await atlas(*command.split(), DATABASE_URL=None, ATLAS_HOME=str(tmp_path / "empty"))

    assert f"There is no database in {tmp_path / 'empty'}" in ran.refusal
    assert "atlas up" in ran.refusal
    assert not (tmp_path / "empty" / "postgres").exists()
    assert not list(tmp_path.glob("there*"))


async def test_a_home_that_is_a_file_is_refused(atlas, tmp_path: Path):
    (tmp_path / "file").write_text("mine")
    ran = await atlas("migrate", DATABASE_URL=None, ATLAS_HOME=str(tmp_path / "file"))

    assert "The embedded Postgres cannot use" in ran.refusal
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("command", ["migrate", "status"])
async def test_a_postgres_that_is_too_old_is_refused_before_anything_is_changed(
    databases: TestDatabases, tmp_path: Path, command: str
):
    patched = f"import atlas.db.pool, sys; atlas.db.pool.OLDEST_POSTGRES = 99; sys.argv = ['atlas', '{command}']"
    async with databases.database(migrated=command == "status") as url:
        before = await fetch(url, "select tablename from pg_tables where schemaname = 'atlas'")
        argv = [sys.executable, "-c", f"{patched}; from atlas.cli.main import main; main()"]
        ran = await run(argv, cwd=tmp_path, env=environment(tmp_path, DATABASE_URL=url))
        after = await fetch(url, "select tablename from pg_tables where schemaname = 'atlas'")

    assert "Atlas needs 99 or newer. Upgrade the server" in ran.refusal
    assert after == before


async def test_a_login_that_may_not_make_tables_is_refused_with_the_reason(atlas, databases: TestDatabases):
    async with databases.database(migrated=False) as url:
        await fetch(url, MAKE_GUEST)
        ran = await atlas("migrate", DATABASE_URL=as_guest(url))

    assert "permission denied" in ran.refusal
    assert "Have an administrator run: create schema atlas authorization" in ran.refusal


@pytest.mark.parametrize(
    ("name", "value"),
    [("ATLAS_PORT", "eighty"), ("ATLAS_PORT", "70000"), ("ATLAS_CONCURRENCY", "0"), ("ATLAS_LOG_LEVEL", "loud")],
)
async def test_a_wrong_setting_is_refused_by_its_name(atlas, name, value):
    ran = await atlas("status", **{name: value})

    assert ran.refusal.startswith(f"error: {name} = {value!r} cannot be used: ")
