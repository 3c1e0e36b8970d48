"""The road from an empty database to today's: SQL files in Prisma Migrate's layout, applied once and recorded.

The record is Prisma's own table, `_prisma_migrations`, with the SHA-256 of each file, so that Prisma's
tools and Atlas agree about what has been applied.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import asyncpg

from atlas.db.pool import Connection, connect, shown
from atlas.errors import DatabaseError, ForeignDatabase, MigrationError
from atlas.logs import get_logger
from atlas.source import SOURCE

LOCK_KEY = 72_707_369  # Prisma Migrate takes this advisory lock as well
# Whoever wants a table that a migration waits for waits behind it: so it waits for a moment only, and tries again.
LOCK_SECONDS = 2
REST_SECONDS = 3.0

log = get_logger("migrations")

_RECORD = """
create table if not exists _prisma_migrations (
  id varchar(36) primary key not null,
  checksum varchar(64) not null,
  finished_at timestamptz,
  migration_name varchar(255) not null,
  logs text,
  rolled_back_at timestamptz,
  started_at timestamptz not null default now(),
  applied_steps_count integer not null default 0
)"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One folder of `migrations/`."""

    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def migrations_folder() -> Path:
    """`migrations/` of the checkout, or its copy in an installed package."""
    return SOURCE / "migrations"


def load_migrations(folder: Path | None = None) -> list[Migration]:
    """All migrations in the order of their names."""
    paths = sorted((folder or migrations_folder()).glob("*/migration.sql"))
    return [Migration(path.parent.name, path.read_bytes().decode()) for path in paths]


async def migrate(url: str, migrations: Sequence[Migration] | None = None) -> list[str]:
    """Apply what is missing and answer its names. Any number of processes may call this at once."""
    wanted = load_migrations() if migrations is None else migrations
    conn = await connect(url, application="atlas migrate")
    try:
        await _lock(conn)
        applied = await _applied(conn, shown(url), wanted)
        check(wanted, applied)
        missing = [migration for migration in wanted if migration.name not in applied]
        await conn.execute(_RECORD)
        for migration in missing:
            while not await _apply(conn, migration):
                log.warning(
                    "others hold what the migration needs, such as a dump; it is tried again", migration=migration.name
                )
                await asyncio.sleep(REST_SECONDS)
        return [migration.name for migration in missing]
    finally:
        await conn.close()


async def pending(conn: Connection, migrations: Sequence[Migration] | None = None) -> list[str]:
    """The names of the migrations this database still lacks; raises where it disagrees with the files."""
    wanted = load_migrations() if migrations is None else migrations
    applied = await _applied(conn, await conn.fetchval("select current_database()"), wanted)
    check(wanted, applied)
    return [migration.name for migration in wanted if migration.name not in applied]


def check(wanted: Sequence[Migration], applied: dict[str, str]) -> None:
    """Refuse to go on where an applied file was changed, or where the database is ahead of the files."""
    known = {migration.name: migration.checksum for migration in wanted}
    for name, checksum in applied.items():
        if name not in known:
            raise MigrationError(
                f"The database has the migration {name}, which this version of Atlas does not know.",
                remedy="Run the version of Atlas that made it, or a newer one; nothing was changed.",
            )
        if known[name] != checksum:
            raise MigrationError(
                f"The migration {name} was changed after it had been applied.",
                remedy="Restore the file as it was and put the change into a new migration; nothing was changed.",
            )


async def _lock(conn: Connection) -> None:
    # Waits for as long as another process migrates; the lock falls with the connection.
    await conn.execute("select pg_advisory_lock($1)", LOCK_KEY)


async def _applied(conn: Connection, name: str, wanted: Sequence[Migration]) -> dict[str, str]:
    recorded = await _recorded(conn)
    # Another product that uses Prisma has a record too, with not one of our names in it.
    if any(migration.name in recorded for migration in wanted):
        return recorded
    strangers = await conn.fetch(
        "select tablename from pg_tables"
        " where schemaname = current_schema() and tablename <> '_prisma_migrations' limit 3"
    )
    if strangers:
        names = ", ".join(row["tablename"] for row in strangers)
        raise ForeignDatabase(
            f"The database {name} already holds tables that are not Atlas's ({names}).",
            remedy="Give Atlas a database of its own in DATABASE_URL; nothing was changed.",
        )
    return recorded


async def _recorded(conn: Connection) -> dict[str, str]:
    if await conn.fetchval("select to_regclass('_prisma_migrations')") is None:
        return {}
    rows = await conn.fetch(
        "select migration_name, checksum from _prisma_migrations"
        " where finished_at is not null and rolled_back_at is null order by started_at"
    )
    return {row["migration_name"]: row["checksum"] for row in rows}


async def _apply(conn: Connection, migration: Migration) -> bool:
    """Run one file and record it, both or neither. False: it could not have a lock in time."""
    try:
        async with conn.transaction():
            await conn.execute(f"set local lock_timeout = '{LOCK_SECONDS}s'")
            await conn.execute(migration.sql)
            await conn.execute(
                "insert into _prisma_migrations (id, checksum, migration_name, finished_at, applied_steps_count)"
                " values ($1, $2, $3, clock_timestamp(), 1)",
                str(uuid4()),
                migration.checksum,
                migration.name,
            )
    except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
        return False
    except asyncpg.PostgresError as error:
        raise _failed(migration, error) from error
    return True


def _failed(migration: Migration, error: asyncpg.PostgresError) -> DatabaseError:
    return MigrationError(
        f"The migration {migration.name} failed and was rolled back: {error}.",
        remedy="Put right what it names (often a missing privilege) and run `atlas migrate` again.",
    )
