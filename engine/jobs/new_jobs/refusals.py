"""Errors that the SQL of enqueue and of commits raises, as errors of Atlas, whichever driver brought them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from atlas.db.pool import UNREACHABLE, Connection
from atlas.db.statements import fetch, statement
from atlas.errors import (
    AtlasError,
    DedupeConflict,
    FieldError,
    InvalidInput,
    LeaseLost,
    Refused,
    TenantMoved,
    no_tenant,
)

REFUSE_MOVING = statement("engine/jobs/new_jobs/sql/refuse_moving.sql")


def refusal(error: BaseException) -> AtlasError | None:
    """What a database error says in terms of Atlas; None for one that Atlas does not raise."""
    cause = _database_error(error)
    match getattr(cause, "sqlstate", None):
        case "AT403":
            message = _said(cause, "message_primary") or _said(cause, "message")
            said = f"{message[:1].upper()}{message[1:]}. {_said(cause, 'detail')}".strip()
            return Refused(said, remedy=_said(cause, "hint"))
        case "AT404":
            return no_tenant(_said(cause, "detail"))
        case "AT421":
            return TenantMoved(_said(cause, "detail"), _said(cause, "hint"))
        case "AT410":
            return LeaseLost(_said(cause, "detail"), int(_said(cause, "hint")))
        case "AT409":
            return DedupeConflict(_said(cause, "hint"), _said(cause, "detail"))
        case "AT422":
            field = _said(cause, "column_name")
            reason = _said(cause, "message_primary") or _said(cause, "message")
            wrong = FieldError(field, reason.removeprefix(f"{field}: "))
            return InvalidInput("The job", [wrong], remedy=_said(cause, "hint"))
        case "23505" if _said(cause, "constraint_name") == "jobs_pkey":
            return InvalidInput("The job", [FieldError("id", "is taken by another job")])
        case "23514":
            column = _said(cause, "constraint_name").removeprefix("jobs_").removesuffix("_is_sane")
            return InvalidInput("The job", [FieldError(column, "is out of range")])
        case _:
            return None


async def closed_tenant(conn: Connection, tenant_id: UUID) -> AtlasError:
    """Why nothing can be added to a tenant: it moves, is being removed, or does not exist."""
    try:
        await fetch(conn, REFUSE_MOVING, tenant_id=tenant_id)
    except Exception as error:
        refused = refusal(error)
        if refused is None:
            raise
        return refused
    return no_tenant(tenant_id)


@contextmanager
def refusals(*only: str) -> Iterator[None]:
    """Raise what the database refuses inside the block as an error of Atlas; any other error as it is.

    `only`: the codes that the block's own statements raise, where it holds statements of the application too.
    """
    try:
        yield
    except AtlasError:
        raise
    except Exception as error:
        if only and getattr(_database_error(error), "sqlstate", None) not in only:
            raise
        refused = refusal(error)
        if refused is None:
            raise
        raise refused from error


def is_lost_response(error: BaseException) -> bool:
    """Whether the connection broke, so that a commit may have succeeded."""
    found = _database_error(error)
    lost = found is not None and (getattr(found, "sqlstate", None) or "08").startswith(("08", "57P"))
    return lost or isinstance(error, UNREACHABLE)


def _database_error(error: BaseException) -> BaseException | None:
    """The driver's own error: SQLAlchemy and Django wrap it, and SQLAlchemy wraps asyncpg's twice."""
    cause: BaseException | None = error
    while cause is not None and not (hasattr(cause, "diag") or hasattr(cause, "column_name")):
        cause = getattr(cause, "orig", None) or cause.__cause__
    return cause


def _said(error: Any, name: str) -> str:
    """A part of the error. asyncpg has them on the error itself, psycopg under `diag` with a longer name for some."""
    diag = getattr(error, "diag", None)
    if diag is None:
        return str(getattr(error, name, None) or "")
    return str(getattr(diag, {"detail": "message_detail", "hint": "message_hint"}.get(name, name), None) or "")
