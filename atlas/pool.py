"""The one way to Postgres: an asyncpg pool that Prisma calls and hand-written SQL share."""

import ssl
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import asyncpg

from atlas.errors import DatabaseError, DatabaseUnreachable, UnsupportedPostgres

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"
# Either: for reads that need no transaction.
Queryable: TypeAlias = "Connection | Pool"

OLDEST_POSTGRES = 15
ENGINE_ROLE = "atlas_engine"
CONNECT_SECONDS = 10

# What asyncpg raises when a server is not there, not ready, or not willing.
UNREACHABLE = (
    OSError,
    TimeoutError,
    ssl.SSLError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
)
_MAY_ACT_AS_ENGINE = """
select exists (select from pg_roles where rolname = 'atlas_engine' and pg_has_role(current_user, oid, 'member'))
   and to_regclass('jobs') is not null and has_table_privilege('atlas_engine', 'jobs', 'update')"""
_REFUSED = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.TooManyConnectionsError,
)


async def open_pool(url: str, *, size: int = 10, application: str = "atlas") -> Pool:
    """Open a pool on a supported server, acting as the programs' own role where the login may."""
    conn = await connect(url, application=application)
    try:
        version = conn.get_server_version().major
        as_engine = await conn.fetchval(_MAY_ACT_AS_ENGINE)
    finally:
        await conn.close()
    if version < OLDEST_POSTGRES:
        raise UnsupportedPostgres(
            f"The server at {shown(url)} runs PostgreSQL {version}; Atlas needs {OLDEST_POSTGRES} or newer.",
            remedy="Upgrade the server, or unset DATABASE_URL to use the embedded one.",
        )
    options = _options(application, role=ENGINE_ROLE if as_engine else None)
    try:
        pool: Pool = await asyncpg.create_pool(url, min_size=1, max_size=size, **options)
    except (*UNREACHABLE, *_REFUSED) as error:
        raise unreachable(url, error) from error
    return pool


async def open_aside(pool: Pool, url: str, *, size: int, application: str = "atlas") -> Pool:
    """Connections like those of `pool` that only its opener can borrow. None is made before it is needed."""
    role = await pool.fetchval("select nullif(current_setting('role'), 'none')")
    aside: Pool = await asyncpg.create_pool(url, min_size=0, max_size=size, **_options(application, role=role))
    return aside


async def connect(url: str, *, application: str = "atlas") -> Any:
    """One connection outside any pool, for listening and for work that needs a session of its own."""
    try:
        return await asyncpg.connect(url, **_options(application))
    except (*UNREACHABLE, *_REFUSED, ValueError, asyncpg.ClientConfigurationError) as error:
        raise unreachable(url, error) from error


def unreachable(url: str, error: BaseException) -> DatabaseError:
    """The connection failure in words: where, why, and what to try."""
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return DatabaseUnreachable(
        f"Postgres at {shown(url)} cannot be reached: {reason.rstrip('.')}.",
        remedy="Check that the server runs and that DATABASE_URL is right, or unset it to use the embedded one.",
    )


def shown(url: str) -> str:
    """The address without its password, fit for a log."""
    try:
        parts = urlsplit(url)
        place = parts.hostname or "a local socket"
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "the given address"
    return f"{place}{port}{parts.path}"


def _options(application: str, role: str | None = None) -> dict[str, Any]:
    settings = {"application_name": application, "jit": "off"}
    if role is not None:
        settings["role"] = role
    return {"timeout": CONNECT_SECONDS, "server_settings": settings}
