"""The database of Atlas on the embedded server: created with the login of the programs when it is first used."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from atlas.db.failures import explained
from atlas.db.login import make_login
from atlas.db.pool import UNREACHABLE, connect
from atlas.errors import DatabaseError
from atlas.postgres.cluster import EmbeddedPostgres, has_embedded, start_embedded
from atlas.postgres.password import password_of, set_password

DATABASE = "atlas"
HAS_PASSWORD = "select rolpassword is not null from pg_authid where rolname = $1"


@dataclass(frozen=True, slots=True)
class EmbeddedDatabase:
    """A use of the embedded server, with the address for the programs and the one for the owner of the tables."""

    server: EmbeddedPostgres
    url: str
    owner_url: str


async def use_embedded(home: Path, *, may_create: bool = False) -> EmbeddedDatabase:
    """Use the database in this home, and start its server if needed. Release the server afterwards.

    Only what starts an installation creates a database: a program in the wrong folder should say so instead.
    """
    if not may_create and not has_embedded(home):
        raise DatabaseError(
            f"There is no database in {home}.",
            remedy="Start one with `atlas up`, or change to its folder, or set ATLAS_HOME, DATABASE_URL or ATLAS_URL.",
        )
    server = await start_embedded(home, asks_password=True)
    try:
        login = await _ensure_database(home, server.url("postgres"))
    except BaseException:
        server.release()
        raise
    return EmbeddedDatabase(server, server.url(DATABASE, login=login), server.url(DATABASE))


async def _ensure_database(home: Path, url: str) -> str:
    """Make the embedded server's database and the login of the programs with its password, and return its name."""
    conn = await connect(url)
    try:
        # Another process may create it between the two statements.
        with suppress(asyncpg.DuplicateDatabaseError, asyncpg.UniqueViolationError):
            if not await conn.fetchval("select exists (select from pg_database where datname = $1)", DATABASE):
                await conn.execute(f'create database "{DATABASE}"')
        login = await make_login(conn)
        password = password_of(home, login)
        if password is not None and not await conn.fetchval(HAS_PASSWORD, login):
            await set_password(conn, login, password)
        return login
    except (*UNREACHABLE, asyncpg.PostgresError) as error:
        raise explained(url, error) from error
    finally:
        await conn.close()
