"""Idempotency keys: a repeated call gets the first response. The call's work and its response commit together.

Two concurrent calls with one key lock the key's row in turn. The second finds the response of the first, or, if that
was rolled back, does the work itself.
"""

import hashlib
import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import UUID

from atlas.bounds import MAX_IDEMPOTENCY_KEY_LENGTH
from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_row, fetch_value, statement
from atlas.engine.jobs.new_jobs.refusals import closed_tenant
from atlas.errors import Conflict, FieldError, InvalidInput

TAKE = statement("engine/sql/take_idempotency_key.sql")
FIND = statement("engine/sql/find_idempotency_key.sql")
KEEP = statement("engine/sql/keep_response.sql")
DELETE_OLD = statement("engine/sql/delete_old_responses.sql")

# How long a response is kept.
KEPT_HOURS = 24


@dataclass(frozen=True, slots=True)
class CallKey:
    """A caller's idempotency key, and the hash of the request."""

    tenant_id: UUID
    subject: str
    key: str
    request_hash: bytes


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response: its status and the bytes of its body."""

    status: int
    body: bytes
    repeated: bool = False


def call_key(tenant_id: UUID, subject: str, key: str, *request: bytes) -> CallKey:
    """The key of a call; `request` is everything that distinguishes the request from others."""
    if not 0 < len(key) <= MAX_IDEMPOTENCY_KEY_LENGTH or not key.isascii() or not key.isprintable():
        reason = f"must have 1 to {MAX_IDEMPOTENCY_KEY_LENGTH} printable characters"
        raise InvalidInput("The request", [FieldError("header.Idempotency-Key", reason)])
    digest = hashlib.sha256()
    for part in request:
        digest.update(len(part).to_bytes(8) + part)
    return CallKey(tenant_id, subject, key, digest.digest())


async def once(conn: Connection, call: CallKey, work: Callable[[], Awaitable[StoredResponse]]) -> StoredResponse:
    """Do the work, or return the stored response. Both commit with the caller's transaction."""
    names = {"tenant_id": call.tenant_id, "subject": call.subject, "key": call.key}
    if await fetch_value(conn, TAKE, **names, request_hash=call.request_hash, hours=KEPT_HOURS):
        response = await work()
        await fetch(conn, KEEP, **names, status=response.status, body=response.body)
        return response
    row = await fetch_row(conn, FIND, **names)
    if row is None:
        raise await closed_tenant(conn, call.tenant_id)
    if row["status"] is None:
        raise Conflict("The first call with this Idempotency-Key has no response yet.", remedy="Try again.")
    if not hmac.compare_digest(row["request_hash"], call.request_hash):
        raise Conflict(
            f"The Idempotency-Key {call.key!r} was used for another request.", remedy="Use a new key for other work."
        )
    return StoredResponse(row["status"], row["body"], repeated=True)


async def delete_old_responses(conn: Connection, *, most: int = 1000) -> int:
    """Delete up to `most` expired responses; returns how many."""
    return len(await fetch(conn, DELETE_OLD, hours=KEPT_HOURS, most=most))
