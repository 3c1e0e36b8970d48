"""What every command needs: the settings, the logs, a database that is up to date, a connection pool."""

import asyncio
import getpass
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import asyncpg

from atlas.actors import Actor
from atlas.db import migrations
from atlas.db.login import make_login
from atlas.db.pool import Connection, Pool, connect, open_pool, shown, unreachable
from atlas.errors import DatabaseError, MigrationError
from atlas.logs import configure_logs
from atlas.postgres.cluster import start_embedded
from atlas.settings import Settings, load_settings
from atlas.workers.email import know_email

try:
    import uvloop

    NEW_LOOP: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
except ImportError:
    NEW_LOOP = asyncio.new_event_loop

T = TypeVar("T")

DATABASE = "atlas"
# How an open connection fails when the server is stopped, killed or unreachable.
_LOST = (asyncpg.PostgresConnectionError, asyncpg.AdminShutdownError, asyncpg.CrashShutdownError, ConnectionError)
_NOT_ALLOWED = (asyncpg.InsufficientPrivilegeError, asyncpg.ReadOnlySQLTransactionError)


@dataclass(frozen=True, slots=True)
class Atlas:
    """An installation that is ready for use."""

    settings: Settings
    url: str
    owner_url: str
    pool: Pool


@dataclass(frozen=True, slots=True)
class Addresses:
    """The database's address, for the login of the programs and for the one that owns the tables."""

    url: str
    owner_url: str


def execute(work: Callable[[Settings], Coroutine[Any, Any, T]], **overrides: object) -> T:
    """Read the settings, set up the logs and run a command to its end."""
    settings = read_settings(**overrides)
    with asyncio.Runner(loop_factory=NEW_LOOP) as runner:
        return runner.run(work(settings))


def read_settings(**overrides: object) -> Settings:
    """Read the settings, in which options of the command take precedence, and set up the logs."""
    settings = load_settings(**{name: value for name, value in overrides.items() if value is not None})
    configure_logs(settings.atlas_log_level)
    return settings


@asynccontextmanager
async def open_atlas(settings: Settings, *, migrate: bool = False, size: int = 5) -> AsyncIterator[Atlas]:
    """Connect to the database, check its migrations, and open a pool on it.

    The embedded database is always brought up to date. The one in DATABASE_URL may serve other machines, which run
    another version. It is changed only if `migrate` is set, and refused otherwise if migrations are missing.
    """
    know_email()
    async with reach_database(settings) as addresses:
        url = addresses.url
        if migrate or settings.embedded:
            await bring_up_to_date(addresses.owner_url)
        else:
            await _require_migrations(url)
        pool = await open_pool(url, size=size)
        try:
            yield Atlas(settings, url, addresses.owner_url, pool)
        except _LOST as error:
            raise unreachable(url, error) from error
        except _NOT_ALLOWED as error:
            raise _refused(url, error) from error
        finally:
            await pool.close()


@asynccontextmanager
async def reach_database(settings: Settings) -> AsyncIterator[Addresses]:
    """The addresses of the database. The embedded server runs for as long as the block."""
    if settings.database_url is not None:
        yield Addresses(settings.database_url, settings.atlas_owner_url or settings.database_url)
        return
    server = await start_embedded(settings.home)
    try:
        login = await _ensure_database(server.url("postgres"))
        yield Addresses(server.url(DATABASE, login=login), server.url(DATABASE))
    finally:
        server.release()


async def bring_up_to_date(url: str) -> list[str]:
    """Apply the migrations that are missing, and return their names."""
    # Opening a pool refuses a server that is too old, before anything is changed.
    await (await open_pool(url, size=1)).close()
    try:
        return await migrations.migrate(url)
    except _NOT_ALLOWED as error:
        raise _refused(url, error) from error


@asynccontextmanager
async def connected(settings: Settings) -> AsyncIterator[Connection]:
    """One connection to a database that is up to date, for a command that needs no more."""
    async with open_atlas(settings, size=1) as atlas, atlas.pool.acquire() as conn:
        yield conn


def caller() -> Actor:
    """The person at the terminal, by the name of their login."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = "unknown"
    return Actor("user", f"cli:{name}")


async def _ensure_database(url: str) -> str:
    """Make the embedded server's database and the login of the programs, and return the login's name."""
    conn = await connect(url)
    try:
        # Another process may create it between the two statements.
        with suppress(asyncpg.DuplicateDatabaseError, asyncpg.UniqueViolationError):
            if not await conn.fetchval("select exists (select from pg_database where datname = $1)", DATABASE):
                await conn.execute(f'create database "{DATABASE}"')
        return await make_login(conn)
    finally:
        await conn.close()


def _refused(url: str, error: asyncpg.PostgresError) -> DatabaseError:
    return DatabaseError(
        f"Postgres at {shown(url)} does not allow this: {error}.",
        remedy="`atlas doctor` shows what the login of DATABASE_URL lacks. What changes the tables is done by the login"
        " that owns them: let ATLAS_OWNER_URL name it.",
    )


async def _require_migrations(url: str) -> None:
    conn = await connect(url)
    try:
        missing = await migrations.pending(conn)
    except _NOT_ALLOWED as error:
        raise _refused(url, error) from error
    finally:
        await conn.close()
    if missing:
        raise MigrationError(
            f"The database {shown(url)} lacks {len(missing)} migrations of Atlas; the first is {missing[0]}.",
            remedy="Run `atlas migrate`.",
        )
