"""Which versions of Atlas work with a database: `atlas migrate` records it, and every program that starts reads it.

A program that meets tables or functions of a newer version goes on if the newer version says that it may, and changes
nothing. So programs of two versions run side by side while they are replaced one by one.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from atlas.db.pool import Connection
from atlas.db.schema import schema_name
from atlas.errors import MigrationError
from atlas.models.rows import from_rows
from atlas.models.system import VersionStatus
from atlas.version import __version__

# The oldest version whose programs work with the tables and functions of this one. It is raised in the release that
# removes what only older ones use: at the earliest one release after nothing uses it any more.
OLDEST_PROGRAM = "0.1.0"

_RECORD = """
insert into {schema}.system_state (key, value, updated_by)
values ('schema', jsonb_build_object('version', $1::text, 'oldest', $2::text), 'atlas migrate')
on conflict (key) do update
set value = excluded.value, updated_at = clock_timestamp(), updated_by = excluded.updated_by"""
# A scheduler or an API reports three times a minute.
_RUNNING = """
select p.version, count(*) filter (where p.kind = 'worker')::int as workers,
  count(*) filter (where p.kind = 'scheduler')::int as schedulers, count(*) filter (where p.kind = 'api')::int as apis,
  extract(epoch from clock_timestamp() - min(p.started_at))::float8 as seconds
from (
  select 'worker' as kind, version, started_at from {schema}.job_workers
  where dead_at is null and lease_expires_at > clock_timestamp()
  union all
  select kind, version, started_at from {schema}.running_programs
  where seen_at > clock_timestamp() - interval '1 minute') p
group by p.version"""


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """The version of Atlas that migrated a database last, and the oldest one whose programs still work with it."""

    version: str
    oldest: str


def is_older(version: str, than: str) -> bool:
    """Whether a version comes before another; what follows the three numbers does not count."""
    return _numbers(version) < _numbers(than)


async def read_version(conn: Connection) -> SchemaVersion | None:
    """The version that is recorded; None before the first migration."""
    if not await _exists(conn, "system_state"):
        return None
    recorded = await conn.fetchval(f"select value from {schema_name()}.system_state where key = 'schema'")
    return None if recorded is None else SchemaVersion(**orjson.loads(recorded))


async def record_version(conn: Connection) -> None:
    """Record this version, in the transaction that changed the tables or the functions."""
    if await _exists(conn, "system_state"):
        await conn.execute(_RECORD.format(schema=schema_name()), __version__, OLDEST_PROGRAM)


async def is_ahead(conn: Connection, unknown: Sequence[str]) -> bool:
    """Whether a newer version made this database; raises where it no longer works with programs of this version.

    `unknown` are the migrations in the database that this version does not have.
    """
    recorded = await read_version(conn)
    if recorded is None:
        if unknown:
            raise MigrationError(
                f"The database has the migration {unknown[0]}, which this version of Atlas does not know.",
                remedy="Run the version of Atlas that made it, or a newer one; nothing was changed.",
            )
        return False
    if is_older(__version__, recorded.oldest):
        raise MigrationError(
            f"This database needs Atlas {recorded.oldest} or newer, and this is Atlas {__version__}.",
            remedy=f"Install Atlas {recorded.version}, which migrated it last; nothing was changed.",
        )
    return bool(unknown) or is_older(__version__, recorded.version)


async def running_versions(conn: Connection) -> list[VersionStatus]:
    """The versions of the programs that run, the newest first."""
    if not await _exists(conn, "job_workers") or not await _exists(conn, "running_programs"):
        return []
    versions = from_rows(VersionStatus, await conn.fetch(_RUNNING.format(schema=schema_name())))
    return sorted(versions, key=lambda version: _numbers(version.version), reverse=True)


async def refuse_old_workers(conn: Connection) -> None:
    """Raise where workers run that would not survive the tables of this version."""
    for version in await running_versions(conn):
        if is_older(version.version, OLDEST_PROGRAM):
            raise MigrationError(
                f"Programs of Atlas {version} run, which would not work with the tables of Atlas {__version__}.",
                remedy=f"Upgrade them to Atlas {OLDEST_PROGRAM} first, or stop them; nothing was changed.",
            )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


async def _exists(conn: Connection, table: str) -> bool:
    return await conn.fetchval("select to_regclass($1)", f"{schema_name()}.{table}") is not None
