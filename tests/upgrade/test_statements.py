"""The statements of the version before, prepared against today's tables and functions.

That takes a second and finds what a release must not do to running programs: remove or rename a column, change the
arguments or the columns of a function.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from atlas.db import sql_functions
from atlas.db.migrations import FUNCTIONS, load_migrations, migrate
from atlas.db.statements import parse
from atlas.test_databases import TestDatabases
from tests.pgbouncer import direct_url

OF_COLUMNS = """
import json
try:
    from atlas.engine.jobs.new_jobs.enqueue_call import CALL
    from atlas.engine.jobs.new_jobs.new_job_columns import ENQUEUE_MANY
except ImportError:
    from atlas.engine.jobs.enqueue import ENQUEUE_MANY
    from atlas.engine.jobs.enqueue_call import CALL
print(json.dumps({query.path: query.sql for query in (ENQUEUE_MANY, CALL)}))"""


@pytest.fixture
async def url_before(databases: TestDatabases, version_before: Path, monkeypatch: pytest.MonkeyPatch):
    """A database as the version before made it."""
    source = version_before / "atlas"
    floors = [source / floor for floor in ("db", *sql_functions.FLOORS)]
    by_name = [sorted(floor.glob("**/functions/**/*.sql"), key=lambda path: path.name) for floor in floors]
    files = [path for paths in by_name for path in paths]
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
        name, text = str(path.relative_to(folder)), path.read_text(encoding="utf-8")
        if ":columns" not in text:
            yield name, parse(text, name).sql
    # Their columns are those of that version's classes.
    command = [sys.executable, "-P", "-c", OF_COLUMNS]
    environ = {**os.environ, "PYTHONPATH": str(folder.parent)}
    yield from json.loads(subprocess.check_output(command, env=environ)).items()


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
                takes = ", ".join(parameter.name for parameter in prepared.get_parameters())
                returns = ", ".join(
                    f"{attribute.name} {attribute.type.name}" for attribute in prepared.get_attributes()
                )
                found[name] = f"({takes}) -> ({returns})"
    finally:
        await conn.close()
    return found


async def test_the_statements_of_the_version_before_take_and_return_the_same(database_url, url_before, version_before):
    before = await shapes(url_before, version_before / "atlas")
    now = await shapes(database_url, version_before / "atlas")

    assert len(before) > 200
    assert {name: shape for name, shape in before.items() if not shape.startswith("(")} == {}
    broken = {name: (shape, now[name]) for name, shape in before.items() if now[name] != shape}
    assert broken == {}, "programs that run during an upgrade would not survive this: see tests/upgrade/recorded.py"


async def test_a_database_of_the_version_before_gets_todays_functions(url_before):
    assert FUNCTIONS in await migrate(url_before)
