"""Brings a database to today's tables: SQL files in Prisma Migrate's layout, applied once and recorded.

The record is Prisma's own table, `_prisma_migrations` in Atlas's schema, with the SHA-256 of each file, so that
Prisma's tools and Atlas agree about what has been applied. Its column `logs` names the version that applied it. SQL
functions are installed after the tables. A database that a newer version made is left as it is:
`atlas/db/versions.py` says whether this version works with it, `atlas/db/upgradable.py` what to do with others.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg

from atlas.db.failures import public_url
from atlas.db.index_build import read_build
from atlas.db.pool import Connection, connect
from atlas.db.schema import schema_name
from atlas.db.sql_functions import changed_functions, functions_are_current, install_functions
from atlas.db.upgradable import require_upgradable
from atlas.db.versions import is_ahead, record_version, refuse_old_workers
from atlas.errors import DatabaseError, ForeignDatabase, MigrationError
from atlas.logs import get_logger
from atlas.source import SOURCE
from atlas.version import __version__

LOCK_KEY = 72_707_369  # Prisma Migrate takes this advisory lock as well
# Others that want a table which a migration waits for wait behind it: so it waits shortly, and tries again.
LOCK_SECONDS = 2
REST_SECONDS = 3.0
# How often a process that waits for another one's migrations looks.
TURN_SECONDS = 0.1
FUNCTIONS = "functions"

log = get_logger("migrations")

_RECORD = """
create table if not exists {schema}._prisma_migrations (
  id varchar(36) primary key not null,
  checksum varchar(64) not null,
  finished_at timestamptz,
  migration_name varchar(255) not null,
  logs text,
  rolled_back_at timestamptz,
  started_at timestamptz not null default now(),
  applied_steps_count integer not null default 0
)"""
_TABLES = """
select tablename from pg_tables where schemaname = $1 order by tablename <> '_prisma_migrations', tablename limit 3"""
# Versions before 1.0 kept their tables in the schema public.
_FROM_BEFORE = """
select to_regclass('public.jobs') is not null and to_regproc('public.atlas_turn') is not null"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One folder of `migrations/`."""

    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def load_migrations(folder: Path | None = None) -> list[Migration]:
    """All migrations in the order of their names."""
    paths = sorted((folder or SOURCE / "migrations").glob("*/migration.sql"))
    return [Migration(path.parent.name, path.read_bytes().decode()) for path in paths]


async def migrate(url: str, migrations: Sequence[Migration] | None = None) -> list[str]:
    """Apply what is missing, install the functions if they changed, here or there, and return what was done.

    Any number of processes may call this at once. A database that a newer version made is not changed.
    """
    all_migrations = load_migrations() if migrations is None else migrations
    async with _locked(url), _connected(url) as conn:
        applied = await _applied(conn, public_url(url))
        missing = await _missing(conn, all_migrations, applied)
        if missing is None or (applied and not missing and (migrations is not None or await _has_functions(conn))):
            return []
        await refuse_old_workers(conn)
        await _make_schema(conn)
        for migration in missing:
            await _until_done(migration.name, lambda migration=migration: _apply(conn, migration))  # type: ignore[misc]
        done = [migration.name for migration in missing]
        if migrations is None and (missing or not await _has_functions(conn)):
            await _until_done(FUNCTIONS, lambda: _install(conn))
            done.append(FUNCTIONS)
        return done


async def pending(
    conn: Connection, migrations: Sequence[Migration] | None = None, *, or_changed: bool = False
) -> list[str]:
    """What this database still lacks, by name; raises where it disagrees with the files.

    With `or_changed` the functions count as missing too where they were changed in the database, as for `migrate`.
    """
    all_migrations = load_migrations() if migrations is None else migrations
    applied = await _applied(conn, await conn.fetchval("select current_database()"))
    missing = await _missing(conn, all_migrations, applied)
    if missing is None:
        return []
    names = [migration.name for migration in missing]
    has_functions = _has_functions if or_changed else functions_are_current
    if migrations is None and (missing or not await has_functions(conn)):
        names.append(FUNCTIONS)
    return names


async def _missing(
    conn: Connection, migrations: Sequence[Migration], applied: dict[str, str]
) -> list[Migration] | None:
    """What is not applied yet. None: a newer version made the database, and programs of this one work with it.

    Raises where another build made it, and where this version is too old for it.
    """
    checksums = {migration.name: migration.checksum for migration in migrations}
    await require_upgradable(conn, applied, checksums)
    if await is_ahead(conn, [name for name in applied if name not in checksums]):
        return None
    return [migration for migration in migrations if migration.name not in applied]


@asynccontextmanager
async def _locked(url: str) -> AsyncIterator[None]:
    """Waits for as long as another process migrates.

    The lock is that of a transaction, on a connection of its own: behind a pooler that of a session could stay behind.
    """
    async with _connected(url) as conn:
        transaction = await _lock(conn)
        try:
            yield
        finally:
            await transaction.rollback()


async def _lock(conn: Connection) -> Any:
    """Try until the lock is ours. Returns the transaction that holds it.

    An index that is built waits for the end of every transaction that has a snapshot. So each try has a transaction of
    its own, and the one that holds the lock has no snapshot any more after its second statement.
    """
    while True:
        transaction = conn.transaction()
        await transaction.start()
        if await conn.fetchval("select pg_try_advisory_xact_lock($1)", LOCK_KEY):
            # However long it takes: the embedded server ends transactions that are idle for a minute.
            await conn.execute("set local idle_in_transaction_session_timeout = 0; select")
            return transaction
        await transaction.rollback()
        await asyncio.sleep(TURN_SECONDS)


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Any]:
    conn = await connect(url, application="atlas migrate")
    try:
        yield conn
    finally:
        await conn.close()


async def _applied(conn: Connection, database: str) -> dict[str, str]:
    schema = schema_name()
    # All in one snapshot: another process may make them now.
    tables = [row["tablename"] for row in await conn.fetch(_TABLES, schema)]
    if "_prisma_migrations" in tables:
        rows = await conn.fetch(
            f"select migration_name, checksum from {schema}._prisma_migrations"
            " where finished_at is not null and rolled_back_at is null order by started_at"
        )
        return {row["migration_name"]: row["checksum"] for row in rows}
    if await conn.fetchval(_FROM_BEFORE):
        raise ForeignDatabase(
            f"The database {database} was made by a version of Atlas before 1.0, with its tables in the schema public.",
            remedy="Give this version a new database in DATABASE_URL, or a new ATLAS_HOME for the embedded one. Keep"
            " the old one for as long as its audit log is needed; nothing was changed.",
        )
    if tables:
        raise ForeignDatabase(
            f"The schema {schema} of the database {database} holds tables that are not Atlas's ({', '.join(tables)}).",
            remedy="Name a schema of its own for Atlas in ATLAS_SCHEMA; nothing was changed.",
        )
    return {}


async def _make_schema(conn: Connection) -> None:
    schema = schema_name()
    try:
        # Asked first: a login may use a schema that it may not create.
        if await conn.fetchval("select to_regnamespace($1)", schema) is None:
            await conn.execute(f"create schema {schema}")
        await conn.execute(_RECORD.format(schema=schema))
    except asyncpg.InsufficientPrivilegeError as error:
        login = await conn.fetchval("select current_user")
        raise MigrationError(
            f"The login {login} may not create the schema {schema}: {error}.",
            remedy=f'Have an administrator run: create schema {schema} authorization "{login}";',
        ) from error


async def _until_done(name: str, step: Callable[[], Awaitable[bool]]) -> None:
    while not await step():
        log.warning("others hold what the migration needs, such as a dump; it is tried again", migration=name)
        await asyncio.sleep(REST_SECONDS)


async def _apply(conn: Connection, migration: Migration) -> bool:
    """Run one file and record it, both or neither. False: it could not have a lock in time."""
    build = read_build(migration.name, migration.sql)
    try:
        if build is not None:
            await build.run(conn)
        async with conn.transaction():
            await begin(conn)
            if build is None:
                await conn.execute(migration.sql)
            await conn.execute(
                "insert into _prisma_migrations (id, checksum, migration_name, finished_at, applied_steps_count, logs)"
                " values ($1, $2, $3, clock_timestamp(), 1, $4)",
                str(uuid4()),
                migration.checksum,
                migration.name,
                f"Atlas {__version__}",
            )
            await record_version(conn)
    except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
        return False
    except asyncpg.PostgresError as error:
        raise _failed(f"migration {migration.name}", error) from error
    return True


async def _has_functions(conn: Connection) -> bool:
    """Whether all functions are those of the files, also in the database."""
    return await functions_are_current(conn) and not await changed_functions(conn)


async def _install(conn: Connection) -> bool:
    """Install the functions and what depends on them, all or nothing. False: it could not have a lock in time."""
    try:
        async with conn.transaction():
            await begin(conn)
            await install_functions(conn)
            await record_version(conn)
    except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
        return False
    except asyncpg.PostgresError as error:
        raise _failed("installation of the functions", error) from error
    return True


async def begin(conn: Connection) -> None:
    """Set up the transaction of a migration."""
    # Files name no schema: they are run in Atlas's own, and functions keep this path (`set search_path from current`).
    await conn.execute(f"set local search_path = {schema_name()}, pg_temp; set local lock_timeout = '{LOCK_SECONDS}s'")


def _failed(what: str, error: asyncpg.PostgresError) -> DatabaseError:
    return MigrationError(
        f"The {what} failed and was rolled back: {error}.",
        remedy="Fix what it names (often a missing privilege) and run `atlas migrate` again.",
    )
