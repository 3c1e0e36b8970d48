"""What pending migrations lock, and for how long that may take.

The migrations are run on empty copies of the tables, in a Postgres of its own that is removed afterwards. So the
database itself is only read: nothing waits, nothing is changed, and no right is needed. What Postgres locks is asked of
Postgres instead of being guessed from the text of the file. A lock is held to the end of its migration, so the
strongest one on a table is what others wait for. How long is estimated by the size of the real table: by what the
migration did with the empty one, which was to rewrite it, to read it whole, or neither.
"""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg

from atlas.db.index_build import read_build
from atlas.db.migrations import FUNCTIONS, Migration, begin, load_migrations, migrate, pending
from atlas.db.pool import Connection, connect
from atlas.db.schema import schema_name
from atlas.db.sql_functions import install_functions
from atlas.errors import MigrationError
from atlas.postgres.cluster import remove_embedded, start_embedded

# Bytes a second that a server with little to spare reads, and writes, indexes included.
READ_RATE = 50_000_000
REWRITE_RATE = 20_000_000

GO_ON, WRITES_WAIT, ALL_WAIT = "reads and writes go on", "writes wait", "all wait"
_WHO_WAITS = {
    "AccessExclusiveLock": ALL_WAIT,
    "ExclusiveLock": WRITES_WAIT,
    "ShareRowExclusiveLock": WRITES_WAIT,
    "ShareLock": WRITES_WAIT,
    "ShareUpdateExclusiveLock": GO_ON,
    "RowExclusiveLock": GO_ON,
}
_NOTHING_TO_LOSE = {"fsync": "off", "full_page_writes": "off"}

_TABLES = """
select c.oid, c.relname::text as name, pg_relation_filenode(c.oid) as file, greatest(c.reltuples, 0)::bigint as rows,
  pg_table_size(c.oid) as bytes, pg_indexes_size(c.oid) as index_bytes,
  coalesce(s.seq_scan, 0) + coalesce(s.idx_scan, 0) as scans
from pg_class c
left join pg_stat_xact_all_tables s on s.relid = c.oid
where c.relnamespace = to_regnamespace($1) and c.relkind = 'r'"""
_LOCKS = "select relation, mode from pg_locks where pid = pg_backend_pid() and locktype = 'relation'"


@dataclass(frozen=True, slots=True)
class TableLock:
    """A table that a migration locks: who waits meanwhile, and for how many seconds; 0 is some milliseconds."""

    table: str
    who_waits: str
    work: str
    rows: int
    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A pending migration, or the functions, with the tables of now that it locks."""

    name: str
    locks: list[TableLock] = field(default_factory=list)


async def plan_locks(url: str, migrations: Sequence[Migration] | None = None) -> list[PlannedStep]:
    """What `atlas migrate` would do to this database, in its order; empty if there is nothing to do."""
    all_migrations = load_migrations() if migrations is None else migrations
    conn = await connect(url, application="atlas migrate")
    try:
        names = await pending(conn, migrations, or_changed=True)
        sizes = {row["name"]: row for row in await _tables(conn)} if names else {}
    finally:
        await conn.close()
    if not sizes:
        return [PlannedStep(name) for name in names]
    async with _copy([migration for migration in all_migrations if migration.name not in names]) as copy:
        steps = [await _try(copy, migration, sizes) for migration in all_migrations if migration.name in names]
        return [*steps, await _try_functions(copy, sizes)] if FUNCTIONS in names else steps


async def _tables(conn: Connection) -> list[Any]:
    return list(await conn.fetch(_TABLES, schema_name()))


@asynccontextmanager
async def _copy(applied: Sequence[Migration]) -> AsyncIterator[Connection]:
    """A connection to empty tables as these migrations make them."""
    home = Path(tempfile.mkdtemp(prefix="atlas-check-"))
    try:
        server = await start_embedded(home, settings=_NOTHING_TO_LOSE)
        try:
            await migrate(server.url("postgres"), applied)
            conn = await connect(server.url("postgres"))
            yield conn
            await conn.close()
        finally:
            server.release()
    finally:
        await asyncio.to_thread(remove_embedded, home)
        shutil.rmtree(home, ignore_errors=True)


async def _try(copy: Connection, migration: Migration, sizes: Mapping[str, Any]) -> PlannedStep:
    """Apply one migration to the copy."""
    build = read_build(migration.name, migration.sql)
    try:
        if build is None:
            return await _watch(copy, migration.name, partial(copy.execute, migration.sql), sizes)
        await build.run(copy)
    except asyncpg.PostgresError as error:
        raise MigrationError(
            f"The migration {migration.name} could not be tried on a copy of the tables: {error}.",
            remedy="Look at the file; nothing was changed.",
        ) from error
    # It reads the table twice.
    size = sizes.get(build.table)
    seconds = 0.0 if size is None else 2 * size["bytes"] / READ_RATE
    return PlannedStep(
        migration.name, _locks({build.table: GO_ON}, {build.table: ("an index is built", seconds)}, sizes)
    )


async def _try_functions(copy: Connection, sizes: Mapping[str, Any]) -> PlannedStep:
    """Install the functions on the copy, twice: only the first time policies and triggers of all tables are missing."""
    install = partial(install_functions, copy)
    await _watch(copy, FUNCTIONS, install, sizes)
    return await _watch(copy, FUNCTIONS, install, sizes)


async def _watch(
    copy: Connection, name: str, work: Callable[[], Awaitable[Any]], sizes: Mapping[str, Any]
) -> PlannedStep:
    async with copy.transaction():
        await begin(copy)
        before = {row["oid"]: row for row in await _tables(copy)}
        await work()
        held = await copy.fetch(_LOCKS)
        after = {row["oid"]: row for row in await _tables(copy)}
    who_waits: dict[str, str] = {}
    for mode, who in _WHO_WAITS.items():  # the strongest first
        for row in held:
            if row["mode"] == mode and row["relation"] in before:
                who_waits.setdefault(before[row["relation"]]["name"], who)
    work_of = {row["name"]: _work(row, after.get(oid), sizes.get(row["name"])) for oid, row in before.items()}
    return PlannedStep(name, _locks(who_waits, work_of, sizes))


def _work(before: Any, after: Any, size: Any) -> tuple[str, float]:
    """What was done with a table, and how many seconds that may take with its real size."""
    if after is None or size is None:
        return "it is dropped", 0.0
    if after["file"] != before["file"]:
        return "it is rewritten", (size["bytes"] + size["index_bytes"]) / REWRITE_RATE
    if after["scans"] > before["scans"]:
        return "it is read whole", size["bytes"] / READ_RATE
    return "its definition changes", 0.0


def _locks(
    who_waits: Mapping[str, str], work: Mapping[str, tuple[str, float]], sizes: Mapping[str, Any]
) -> list[TableLock]:
    """The locks that others notice, on tables that exist now: those that an earlier step makes no one uses yet."""
    locks = [
        TableLock(name, who, work[name][0], sizes[name]["rows"], sizes[name]["bytes"], round(work[name][1], 1))
        for name, who in sorted(who_waits.items())
        if name in sizes
    ]
    return [lock for lock in locks if lock.who_waits != GO_ON or lock.seconds]
