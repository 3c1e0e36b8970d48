"""What a failure of the database means: the true cause and the right remedy, for the person who reads it."""

import re
from urllib.parse import urlsplit

import asyncpg

from atlas.errors import DatabaseError, DatabaseNotReady, DatabaseUnreachable, NoFreeConnection

_NO_SPACE = "No space left on device"
_SERVER_LOG = "See the log of the server; `atlas doctor` checks what Atlas needs of it."


# How asyncpg says that a server's last words came between two steps of a statement. Its other internal errors are about
# types that it has no codec for.
_BROKEN = re.compile(r"\b(?:state|protocol|waiter)\b")


def connection_error(error: Exception) -> Exception:
    """The error for a caller where asyncpg raised an internal one: that the connection broke, or the internal one."""
    if not _BROKEN.search(str(error)):
        return error
    broken: Exception = asyncpg.ConnectionDoesNotExistError(f"the connection broke while it was used: {error}")
    return broken


def public_url(url: str) -> str:
    """The address without its password, for logs and messages."""
    try:
        parts = urlsplit(url)
        if "," in parts.netloc:
            return f"{parts.netloc.rpartition('@')[2]}{parts.path}"
        host = parts.hostname or "a local socket"
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "the given address"
    return f"{host}{port}{parts.path}"


def explained(url: str, error: BaseException) -> DatabaseError:
    """The error for a person: what is wrong with the database at this address, and what to do about it."""
    server, reason = f"Postgres at {public_url(url)}", _reason(error)
    if _NO_SPACE in reason or isinstance(error, asyncpg.DiskFullError):
        return DatabaseNotReady(
            f"The disk of {server} is full: {reason}.",
            remedy="Free space there. Confirmed changes are kept, and the programs continue by themselves.",
        )
    match error:
        case asyncpg.TooManyConnectionsError():
            return NoFreeConnection(
                f"{server} has no free connection: {reason}.",
                remedy="Stop a program or a session that holds some, or raise max_connections, or the limit of the"
                " login. docs/settings.md says how to reserve some for operators.",
            )
        case asyncpg.ReadOnlySQLTransactionError():
            return DatabaseError(
                f"{server} is read-only: {reason}.",
                remedy="A standby is read-only, and so is a login or a database with default_transaction_read_only."
                " Set DATABASE_URL to the primary; `atlas doctor` shows which of them it is.",
            )
        case asyncpg.TargetServerAttributeNotMatched():
            return DatabaseNotReady(
                f"{server} takes no writes now: {reason}.",
                remedy="During a failover, wait: the programs continue by themselves. Otherwise promote one of them.",
            )
        case asyncpg.InsufficientPrivilegeError():
            return DatabaseError(
                f"{server} does not allow this: {reason}.",
                remedy="`atlas doctor` shows what the login of DATABASE_URL lacks. What changes the tables is done by"
                " the login that owns them: let ATLAS_OWNER_URL name it.",
            )
        case asyncpg.LockNotAvailableError():
            return DatabaseError(
                f"{server} has locked what the command needs: {reason}.",
                remedy="Wait for the transaction that holds the lock, or end it, and try again.",
            )
        case asyncpg.CannotConnectNowError():
            return DatabaseNotReady(
                f"{server} accepts no connections now: {reason}.", remedy="Try again in some seconds. " + _SERVER_LOG
            )
        case asyncpg.InsufficientResourcesError() | asyncpg.PostgresSystemError():
            return DatabaseNotReady(f"{server} lacks what it needs: {reason}.", remedy=_SERVER_LOG)
        case asyncpg.PostgresError() if not isinstance(error, _CONNECTING):
            return DatabaseError(f"{server} reports: {reason} (SQLSTATE {error.sqlstate}).", remedy=_SERVER_LOG)
    return DatabaseUnreachable(
        f"{server} cannot be reached: {reason}.",
        remedy="Check that the server runs and that DATABASE_URL is right, or unset it to use the embedded one.",
    )


# What is wrong with the connection itself, or with the login or the database that the address names.
_CONNECTING = (
    asyncpg.PostgresConnectionError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
)


def _reason(error: BaseException) -> str:
    text = str(error).strip()
    if isinstance(error, TimeoutError) and not text:
        return "it did not respond in time"
    return (text.splitlines()[0] if text else type(error).__name__).rstrip(".")
