"""Programs of two versions on one database: the older one works and changes nothing, or says which version it needs."""

import pytest

from atlas.db import sql_functions, versions
from atlas.db.migrations import FUNCTIONS, Migration, load_migrations, migrate, pending
from atlas.db.sql_functions import changed_functions, function_files, functions_hash
from atlas.db.versions import SchemaVersion, is_older, read_version
from atlas.engine.jobs.lease import register_worker
from atlas.errors import MigrationError

NEXT = Migration("20990101000000_next", "alter table jobs add column flavour text")


@pytest.fixture
async def upgraded_url(database_url, tmp_path, monkeypatch):
    """A database that version 9.1.0 migrated, with a column and a function more."""
    extra = tmp_path / "greet.sql"
    extra.write_text("create or replace function greet() returns text language sql return 'hello';")
    with monkeypatch.context() as newer:
        newer.setattr(versions, "__version__", "9.1.0")
        newer.setattr("atlas.db.migrations.load_migrations", lambda: [*load_migrations(), NEXT])
        newer.setattr(sql_functions, "function_files", lambda: [*function_files(), extra])
        functions_hash.cache_clear()
        assert await migrate(database_url) == [NEXT.name, FUNCTIONS]
    functions_hash.cache_clear()
    return database_url


async def test_a_program_of_the_version_before_works_with_the_new_tables_and_changes_nothing(upgraded_url, owner):
    assert await read_version(owner) == SchemaVersion("9.1.0", versions.OLDEST_PROGRAM)

    assert await pending(owner) == []
    assert await migrate(upgraded_url) == []

    assert await owner.fetchval("select atlas.greet()") == "hello"
    assert await changed_functions(owner) == []
    assert (await read_version(owner)).version == "9.1.0"


async def test_functions_of_a_newer_version_are_left_alone_where_no_migration_came_with_them(upgraded_url, owner):
    await owner.execute("delete from atlas._prisma_migrations where migration_name = $1", NEXT.name)

    assert await pending(owner) == []
    assert await migrate(upgraded_url) == []
    assert await owner.fetchval("select atlas.greet()") == "hello"


async def test_a_program_that_is_too_old_says_which_version_it_needs(upgraded_url, owner):
    await owner.execute("""update atlas.system_state set value = value || '{"oldest": "9.0.0"}' where key = 'schema'""")

    for refused in (pending(owner), migrate(upgraded_url)):
        with pytest.raises(MigrationError, match="needs Atlas 9.0.0 or newer, and this is Atlas 0.1.0") as error:
            await refused
        assert "Install Atlas 9.1.0" in error.value.remedy


async def test_a_migration_waits_until_workers_that_would_not_survive_it_have_ended(database_url, owner, monkeypatch):
    await register_worker(owner, "old:1:x", lease=60, job_types=["mail"])
    monkeypatch.setattr(versions, "OLDEST_PROGRAM", "9.0.0")
    ahead = [*load_migrations(), NEXT]

    with pytest.raises(MigrationError, match=r"Atlas 0.1.0 \(1 worker\) run, which would not work with the tables"):
        await migrate(database_url, ahead)
    await owner.execute("update atlas.job_workers set dead_at = clock_timestamp()")
    assert await migrate(database_url, ahead) == [NEXT.name]


def test_versions_are_compared_by_their_numbers():
    assert is_older("0.9.3", "0.10.0")
    assert is_older("1.2", "1.2.1")
    assert not is_older("1.0.0", "1.0.0rc1")
