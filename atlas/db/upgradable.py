"""Decides by the checksums of its migrations whether a database can be upgraded, and says what to do if not."""

from collections.abc import Mapping

from atlas.db.pool import Connection
from atlas.db.schema import schema_name
from atlas.errors import MigrationError
from atlas.version import __version__

# Migrations were edited until 2026-11-17. These are their checksums in builds since 2026-11-16 20:16 UTC, whose
# databases the migration 20261117010000_earlier_builds brings to the same tables. The list is complete: migrations are
# not edited any more.
EARLIER_CHECKSUMS = {
    "20261116000000_foundation": (
        "0731d480b5ba5c3b91a5fe88f0d8c11f48c03b1d5fe65836fc3b8fe902d5fa9d",
        "b83bcb4e2e8f5cc55dec213146d8a196e952e24a5af5e341155c829acb92bba5",
    ),
    "20261116001000_audit": (
        "00c4a90315c56ab0134df0ab968bd3bc83729724a0e9bbeec21eea7d4c052915",
        "f1902852c62c2041878a00adccee9281039eaeeb3af3c853abc75cb99119caa3",
    ),
    "20261116002000_jobs": (
        "07b763fb7ea71b883dce2cd49a39e33a944bb4cb04fd439b0a7ea197845e28fb",
        "926c27c027e50077f8d26c7a48b597f2abc181b83abcab8848bebac5fcb80797",
        "ec17409aa4e85244de0b497690eb0bec5e77eee573f9a265ca7b25178705d533",
    ),
}

_APPLIED = """
select format('applied on %s by %s', to_char(finished_at at time zone 'UTC', 'YYYY-MM-DD'),
  coalesce(logs, 'an earlier build'))
from {schema}._prisma_migrations where migration_name = $1 and finished_at is not null"""
_MOVE = (
    "Or move its tenants to a new database: run `atlas tenant export TENANT FILE` for each with that version, then"
    " `atlas tenant import FILE` with this one."
)
_BEGIN_ANEW = (
    "That version cannot export tenants: keep its audit log with `atlas audit export`, and give this version a new"
    " database in DATABASE_URL, or a new folder in ATLAS_HOME."
)


async def require_upgradable(conn: Connection, applied: Mapping[str, str], checksums: Mapping[str, str]) -> None:
    """Raise where the database has another form of a migration than this version, or lacks one and has others.

    Both arguments are checksums by the names of migrations: those of the database, and those of this version.
    """
    for name, checksum in applied.items():
        if name in checksums and checksum not in (checksums[name], *EARLIER_CHECKSUMS.get(name, ())):
            when = await conn.fetchval(_APPLIED.format(schema=schema_name()), name)
            raise await _refusal(conn, f"its migration {name}, {when}, is not the one that this version has")
    unknown, missing = _first(applied, checksums), _first(checksums, applied)
    if unknown and missing:
        raise await _refusal(
            conn, f"it has the migration {unknown}, which this version does not know, and lacks {missing}"
        )


def _first(names: Mapping[str, str], others: Mapping[str, str]) -> str | None:
    return next((name for name in sorted(names) if name not in others), None)


async def _refusal(conn: Connection, reason: str) -> MigrationError:
    can_export = await conn.fetchval("select to_regclass($1) is not null", f"{schema_name()}.audit_moved")
    return MigrationError(
        f"Atlas {__version__} cannot upgrade this database: {reason}.",
        remedy="Go on with the version that made it; nothing was changed. "
        f"{_MOVE if can_export else _BEGIN_ANEW} See docs/upgrade.md, 'Rescue a database that cannot be upgraded'.",
    )
