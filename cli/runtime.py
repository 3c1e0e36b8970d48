"""What every command needs: the settings, the logs, a database that is up to date, a connection pool."""

import asyncio
import math
import os
import pwd
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypedDict, TypeVar, Unpack

import asyncpg

from atlas.actors import Actor
from atlas.cli.connection.needs_database import require_database
from atlas.db import migrations
from atlas.db.failures import explained, public_url
from atlas.db.operator_connections import leave_some_free
from atlas.db.pool import Connection, Pool, connect, open_pool
from atlas.db.schema import schema_name
from atlas.db.statements import fetch_row, statement
from atlas.errors import AtlasError, DatabaseError, DatabaseUnreachable, MigrationError, NoFreeConnection
from atlas.home.private_folder import tighten_home
from atlas.home.up_report import api_address
from atlas.logs import RepeatedWarning, configure_logs, get_logger
from atlas.settings import Settings, load_settings

T = TypeVar("T")

# How long a command waits for a lock. Programs wait for theirs, and repeat.
LOCK_TIMEOUT = "3s"
# How long a command waits for the server's response to a statement.
STATEMENT_SECONDS = 30.0
# How long asking who holds a lock, or whether the server is a standby, may take.
LOOK_SECONDS = 3.0
# How long a command waits for a free connection, and how often it asks.
CONNECTION_SECONDS = 3.0
AGAIN_SECONDS = 0.5
# How the database fails a command.
_FAILURES = (asyncpg.PostgresError, asyncpg.InterfaceError, ConnectionError, TimeoutError)

log = get_logger(__name__)

LOCK_HOLDERS = statement("cli/sql/lock_holders.sql")


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


class OpenOptions(TypedDict, total=False):
    """How an installation is opened: see `_open_atlas`."""

    migrate: bool
    size: int
    program: bool
    statement_seconds: float | None
    checks_inputs: bool


def execute(work: Callable[[Settings], Coroutine[Any, Any, T]], **overrides: Any) -> T:
    """Read the settings, set up the logs and run a command to its end."""
    settings = read_settings(**overrides)
    with asyncio.Runner() as runner:
        return runner.run(work(settings))


def read_settings(*, late_logs: bool = True, **overrides: Any) -> Settings:
    """Read the settings, in which options of the command take precedence, and set up the logs."""
    settings = load_settings(**{name: value for name, value in overrides.items() if value is not None})
    configure_logs(settings.atlas_log_level, late=late_logs)
    return settings


@asynccontextmanager
async def open_atlas(
    settings: Settings, *, wait_seconds: float = CONNECTION_SECONDS, **options: Unpack[OpenOptions]
) -> AsyncIterator[Atlas]:
    """Connect to the database, check its migrations, and open a pool on it. See `_open_atlas`.

    While no connection is free it tries again for `wait_seconds`, unless the API of an `atlas up` can be asked instead.
    Only what waits without end says so meanwhile.
    """
    ends_at = time.monotonic() + wait_seconds
    waits = RepeatedWarning(log, "no connection to the database is free; waiting for one")
    async with AsyncExitStack() as opened:
        while True:
            try:
                atlas = await opened.enter_async_context(_open_atlas(settings, **options))
                break
            except NoFreeConnection as error:
                if math.isinf(wait_seconds):
                    waits.log(reason=error.message)
                elif wait_seconds == 0 or api_address(settings.home) is not None:
                    raise
                elif time.monotonic() >= ends_at:
                    error.message += f" None became free within {wait_seconds:g} s."
                    raise
                await asyncio.sleep(AGAIN_SECONDS)
        yield atlas


@asynccontextmanager
async def _open_atlas(
    settings: Settings,
    *,
    migrate: bool = False,
    size: int = 5,
    program: bool = False,
    statement_seconds: float | None = None,
    checks_inputs: bool = False,
) -> AsyncIterator[Atlas]:
    """Open it, or raise why that is not possible now.

    The embedded database is always brought up to date. The one in DATABASE_URL may serve other machines, which run
    another version. It is changed only if `migrate` is set, and refused otherwise if migrations are missing.
    A `program` runs for long; a command should answer within seconds, whatever the state of the database.
    Commands that read or change much give their statements more than `statement_seconds`. What checks the inputs of
    jobs or the limits of tenants says so, `checks_inputs`: the models take longer to load than other commands run.
    """
    if checks_inputs:
        know_builtin_types()
    if program:
        tighten_home(settings.home)
    async with reach_database(settings, may_create=migrate or program) as addresses:
        url = addresses.url if program else await _free_address(addresses)
        may_migrate = migrate or settings.embedded
        if missing := await _missing_migrations(addresses.owner_url if may_migrate else url):
            if not may_migrate:
                raise MigrationError(
                    f"The database {public_url(url)} lacks {len(missing)} migrations of Atlas; "
                    f"the first is {missing[0]}.",
                    remedy="Run `atlas migrate`.",
                )
            await bring_up_to_date(addresses.owner_url)
        lock_timeout = None if program else LOCK_TIMEOUT
        async with _failures_explained(url):
            pool = await open_pool(
                url,
                size=size,
                lock_timeout=lock_timeout,
                statement_seconds=statement_seconds,
                check=leave_some_free if program else None,
            )
        try:
            async with _failures_explained(url):
                yield Atlas(settings, url, addresses.owner_url, pool)
        except DatabaseUnreachable:
            pool.terminate()
            raise
        finally:
            await pool.close()


@asynccontextmanager
async def reach_database(settings: Settings, *, may_create: bool = False) -> AsyncIterator[Addresses]:
    """The addresses of the database. The embedded server runs for as long as the block.

    Only what starts an installation creates a database: a command in the wrong folder should say so instead.
    """
    if settings.database_url is not None:
        yield Addresses(settings.database_url, settings.atlas_owner_url or settings.database_url)
        return
    require_database(settings)
    # Imported here: with DATABASE_URL nothing of it is needed.
    from atlas.postgres.database import use_embedded

    database = await use_embedded(settings.home, may_create=may_create)
    try:
        yield Addresses(database.url, database.owner_url)
    finally:
        database.server.release()


async def bring_up_to_date(url: str) -> list[str]:
    """Apply the migrations that are missing, and return their names."""
    # Opening a pool refuses a server that is too old, before anything is changed.
    await (await open_pool(url, size=1)).close()
    async with _failures_explained(url):
        return await migrations.migrate(url)


@asynccontextmanager
async def connected(settings: Settings, *, checks_inputs: bool = False) -> AsyncIterator[Connection]:
    """One connection to a database that is up to date, for a command that needs no more."""
    opened = open_atlas(settings, size=1, statement_seconds=STATEMENT_SECONDS, checks_inputs=checks_inputs)
    async with opened as atlas, atlas.pool.acquire() as conn:
        yield conn


def caller() -> Actor:
    """The person at the terminal, by the name of their login: what the system says, since anyone can set LOGNAME."""
    uid = os.getuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = f"uid-{uid}"
    return Actor("user", f"cli:{name}")


def know_builtin_types() -> None:
    """Have this process check the inputs of mails and calls, and the mail settings of tenants."""
    from atlas.workers.email import know_email
    from atlas.workers.http_call import know_http_call

    know_email()
    know_http_call()


async def _free_address(addresses: Addresses) -> str:
    """The address for a command: the programs' own, or the owner's where their login has no connection left.

    The embedded server keeps connections for its superuser, who owns the tables, and other servers can do the same.
    """
    if addresses.url != addresses.owner_url:
        try:
            await (await connect(addresses.url, statement_seconds=STATEMENT_SECONDS)).close()
        except NoFreeConnection:
            return addresses.owner_url
    return addresses.url


async def _missing_migrations(url: str) -> list[str]:
    conn = await connect(url, lock_timeout=LOCK_TIMEOUT, statement_seconds=STATEMENT_SECONDS)
    try:
        async with _failures_explained(url):
            return await migrations.pending(conn)
    finally:
        await conn.close()


@asynccontextmanager
async def _failures_explained(url: str) -> AsyncIterator[None]:
    """Turn an error of the database within the block into its cause and a remedy."""
    try:
        yield
    except AtlasError:
        raise
    except Exception as error:
        # Prisma's errors have the database's as their cause.
        failure = error if isinstance(error, _FAILURES) else error.__cause__
        if not isinstance(failure, _FAILURES):
            raise
        if isinstance(failure, TimeoutError):
            raise DatabaseUnreachable(
                f"Postgres at {public_url(url)} is connected and does not respond.",
                remedy="Check the server and its disk. Whether the command was carried out is not known: look before"
                " you repeat it.",
            ) from error
        explanation = explained(url, failure)
        await _look_closer(url, failure, explanation)
        raise explanation from error


async def _look_closer(url: str, failure: BaseException, explanation: DatabaseError) -> None:
    """Add what only the database knows: who holds a lock, and whether the server is a standby."""
    if not isinstance(failure, asyncpg.LockNotAvailableError | asyncpg.ReadOnlySQLTransactionError):
        return
    with suppress(*_FAILURES, OSError, DatabaseError):
        async with asyncio.timeout(LOOK_SECONDS):
            conn = await connect(url)
            try:
                if isinstance(failure, asyncpg.LockNotAvailableError):
                    _name_holder(explanation, await fetch_row(conn, LOCK_HOLDERS, schema=schema_name()))
                elif await conn.fetchval("select pg_is_in_recovery()"):
                    explanation.message = f"Postgres at {public_url(url)} is a standby, which is read-only."
                    explanation.remedy = "Set DATABASE_URL to the primary, or promote this server."
            finally:
                await conn.close()


def _name_holder(explanation: DatabaseError, holder: Mapping[str, Any] | None) -> None:
    if holder is not None:
        who = f"{holder['application']} ({holder['login']}, pid {holder['pid']}, {holder['state']})"
        explanation.message += f" {who} holds {holder['mode']} on {holder['held']}."
        ending = f"select pg_terminate_backend({holder['pid']})"
        explanation.remedy = f"Wait for its transaction, or end it with `{ending}`, and try again."
