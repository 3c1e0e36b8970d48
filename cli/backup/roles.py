"""The roles that a backup grants rights to. Roles belong to the server, so a dump names them without holding them."""

from contextlib import suppress
from pathlib import Path

import asyncpg

from atlas.cli.terminal.output import warn
from atlas.db.pool import Connection
from atlas.db.schema import ROLES, role
from atlas.db.statements import fetch_value, statement
from atlas.errors import AtlasError, Refused
from atlas.postgres.dump import granted_roles

UNGRANTED = statement("cli/backup/sql/ungranted_enqueue.sql")


async def make_roles(conn: Connection, dump: Path) -> None:
    """Create the missing ones, without a login: the rights that a dump grants them make the restore fail otherwise."""
    await _make_own_roles(conn)
    created = []
    for name in await granted_roles(dump):
        if await conn.fetchval("select exists (select from pg_roles where rolname = $1)", name):
            continue
        quoted = await conn.fetchval("select quote_ident($1)", name)
        try:
            await conn.execute(f"create role {quoted} nologin")
        except asyncpg.InsufficientPrivilegeError as error:
            raise Refused(
                f"The backup grants rights to the role {name}, which this login may not create: {error}.",
                remedy=f"Have an administrator run: create role {quoted} nologin; then restore again.",
            ) from error
        created.append(name)
    others = [name for name in created if name != role("enqueuer")]
    if others:
        warn(
            AtlasError(
                f"The backup grants rights to roles that this server did not have: {', '.join(others)}.",
                remedy="They were created without a login: alter or drop them as you need.",
            )
        )


async def _make_own_roles(conn: Connection) -> None:
    """Atlas's three roles, which the login is a member of: the first migration does the same for a new installation."""
    for name in map(role, ROLES):
        # There already, or the login may not: what it may not do, it does without.
        with suppress(asyncpg.DuplicateObjectError, asyncpg.UniqueViolationError, asyncpg.InsufficientPrivilegeError):
            await conn.execute(f"create role {name} nologin")
        with suppress(asyncpg.UndefinedObjectError, asyncpg.UniqueViolationError, asyncpg.InsufficientPrivilegeError):
            await conn.execute(f"grant {name} to current_user")


async def warn_of_lost_grants(conn: Connection) -> None:
    """Name the logins that could enqueue: their membership of a role belongs to the server that was backed up."""
    logins: list[str] = await fetch_value(conn, UNGRANTED, role=role("enqueuer"))
    if logins:
        warn(
            AtlasError(
                f"These logins could enqueue jobs, and no longer can: {', '.join(logins)}.",
                remedy="Repeat `atlas grant enqueue` for each that needs it; `atlas grant list` shows what it had.",
            )
        )
