"""A call that is sent again gets the first answer: what it did and its answer commit together, under the caller's key.

Two calls with one key at the same moment take turns at the key's row. The second finds the first one's answer, or, if
that was rolled back, does the work itself.
"""

import hashlib
import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import UUID

from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_row, fetch_value, statement
from atlas.errors import Conflict, FieldError, InvalidInput

TAKE = statement("engine/sql/take_idempotency_key.sql")
FIND = statement("engine/sql/find_idempotency_key.sql")
KEEP = statement("engine/sql/keep_answer.sql")
FORGET = statement("engine/sql/forget_answers.sql")

LONGEST_KEY = 200
# For this long a repeated call is recognised.
KEPT_HOURS = 24


@dataclass(frozen=True, slots=True)
class CallKey:
    """A caller's name for one call, and the hash of what was asked."""

    tenant_id: UUID
    subject: str
    key: str
    request_hash: bytes


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """What was answered: a status and the bytes of the body."""

    status: int
    body: bytes
    repeated: bool = False


def call_key(tenant_id: UUID, subject: str, key: str, *request: bytes) -> CallKey:
    """The key of a call; `request` is everything that makes it this call and no other."""
    if not 0 < len(key) <= LONGEST_KEY or not key.isascii() or not key.isprintable():
        reason = f"must have 1 to {LONGEST_KEY} printable characters"
        raise InvalidInput("The request", [FieldError("header.Idempotency-Key", reason)])
    digest = hashlib.sha256()
    for part in request:
        digest.update(len(part).to_bytes(8) + part)
    return CallKey(tenant_id, subject, key, digest.digest())


async def once(conn: Connection, call: CallKey, work: Callable[[], Awaitable[StoredResponse]]) -> StoredResponse:
    """Do the work, or answer as when it was done. The caller's transaction decides whether either happened."""
    place = {"tenant_id": call.tenant_id, "subject": call.subject, "key": call.key}
    if await fetch_value(conn, TAKE, **place, request_hash=call.request_hash, hours=KEPT_HOURS):
        answer = await work()
        await fetch(conn, KEEP, **place, status=answer.status, body=answer.body)
        return answer
    row = await fetch_row(conn, FIND, **place)
    if row is None or row["status"] is None:
        raise Conflict("The first call with this Idempotency-Key has no answer yet.", remedy="Try again in a moment.")
    if not hmac.compare_digest(row["request_hash"], call.request_hash):
        raise Conflict(
            f"The Idempotency-Key {call.key!r} was used for another request.", remedy="Use a new key for other work."
        )
    return StoredResponse(row["status"], row["body"], repeated=True)


async def forget_answers(conn: Connection, *, most: int = 1000) -> int:
    """Remove answers that are too old to be asked for again, some at a time; answers how many."""
    return len(await fetch(conn, FORGET, hours=KEPT_HOURS, most=most))
