"""The statements of the version before, prepared against today's tables and functions.

That takes a second and finds what a release must not do to running programs: remove or rename a column, change the
arguments or the columns of a function.
"""

from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from atlas.db import sql_functions
from atlas.db.migrations import load_migrations, migrate
from atlas.db.statements import parse
from atlas.test_databases import TestDatabases
from tests.pgbouncer import direct_url


@pytest.fixture
async def url_before(databases: TestDatabases, version_before: Path, monkeypatch: pytest.MonkeyPatch):
    """A database as the version before made it."""
    source = version_before / "atlas"
    files = sorted((source / "db" / "functions").glob("*.sql"))
    files += [path for floor in sql_functions.FLOORS for path in sorted((source / floor).glob("**/functions/**/*.sql"))]
    async with databases.database(migrated=False) as url:
        with monkeypatch.context() as before:
            before.setattr("atlas.db.migrations.load_migrations", lambda: load_migrations(source / "migrations"))
            before.setattr(sql_functions, "function_files", lambda: files)
            sql_functions.functions_hash.cache_clear()
            await migrate(url)
        sql_functions.functions_hash.cache_clear()
        yield url


def statements(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.glob("**/sql/*.sql")):
        name = str(path.relative_to(folder))
        yield name, parse(path.read_text(encoding="utf-8"), name).sql


async def shapes(url: str, folder: Path) -> dict[str, str]:
    """By statement: what it takes and returns, or why it cannot run."""
    conn = await asyncpg.connect(direct_url(url))
    found = {}
    try:
        for name, sql in statements(folder):
            try:
                prepared = await conn.prepare(sql)
            except asyncpg.PostgresError as error:
                found[name] = f"{error}"
            else:
                takes = ", ".join(one.name for one in prepared.get_parameters())
                returns = ", ".join(f"{one.name} {one.type.name}" for one in prepared.get_attributes())
                found[name] = f"({takes}) -> ({returns})"
    finally:
        await conn.close()
    return found


async def test_the_statements_of_the_version_before_take_and_return_the_same(database_url, url_before, version_before):
    before = await shapes(url_before, version_before / "atlas")
    now = await shapes(database_url, version_before / "atlas")

    assert len(before) > 200
    assert all(shape.startswith("(") for shape in before.values())
    broken = {name: (shape, now[name]) for name, shape in before.items() if now[name] != shape}
    assert broken == {}, "programs that run during an upgrade would not survive this: see tests/upgrade/recorded.py"
