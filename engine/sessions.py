"""Sessions: a person's sign-in. A token is exchanged for an opaque secret, kept as a hash like the token itself.

A session is valid until it is ended or expires, and only while its token is valid: revoking a token ends every session
that was opened with it.
"""

import hashlib
import hmac
import secrets
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from atlas.actors import Actor
from atlas.audit.record import Event, record
from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_row, fetch_value, statement
from atlas.engine.quotas import require_room
from atlas.engine.tokens import Token, token_of
from atlas.ids import new_id

OPEN = statement("engine/sql/open_session.sql")
FIND = statement("engine/sql/find_session.sql")
SEEN = statement("engine/sql/session_seen.sql")
END = statement("engine/sql/end_session.sql")
DELETE_EXPIRED = statement("engine/sql/delete_expired_sessions.sql")

LIFETIME = timedelta(hours=12)


@dataclass(frozen=True, slots=True)
class Session:
    """A sign-in, and the token that it was made with. `seconds_left`: until one of them expires, when it was read."""

    id: UUID
    token: Token
    created_at: datetime
    expires_at: datetime
    seconds_left: float


async def open_session(
    conn: Connection, token: Token, *, actor: Actor, before: str | None = None, lifetime: timedelta = LIFETIME
) -> tuple[Session, str]:
    """Sign in: returns the session and its secret, which is not shown again.

    `before` is the secret of the session that the browser had until now: it ends.
    """
    clear = secrets.token_urlsafe(32)
    async with conn.transaction():
        left = None if before is None else await find_session(conn, before)
        if left is not None:
            await end_session(conn, left, actor=replace(actor, id=left.token.subject, token=left.token.prefix))
        await require_room(conn, "sessions_of_a_token", token.tenant_id, of=str(token.id))
        row = await fetch_row(
            conn, OPEN, id=new_id(), token_id=token.id, hash=_hash(clear), seconds=lifetime.total_seconds()
        )
        assert row is not None
        session = Session(row["id"], token, row["created_at"], row["expires_at"], lifetime.total_seconds())
        await record(conn, _event("SIGNED_IN", session, actor))
    return session, clear


async def find_session(conn: Connection, clear: str) -> Session | None:
    """The session of a secret, if it is valid now by the database's clock."""
    row = await fetch_row(conn, FIND, hash=_hash(clear))
    if row is None:
        return None
    await fetch(conn, SEEN, id=row["session_id"])
    session = row["session_id"], token_of(row), row["session_created_at"], row["session_expires_at"]
    return Session(*session, row["seconds_left"])


async def end_session(conn: Connection, session: Session, *, actor: Actor) -> None:
    """Sign out. A second call does nothing."""
    async with conn.transaction():
        if await fetch_value(conn, END, id=session.id):
            await record(conn, _event("SIGNED_OUT", session, actor))


async def delete_expired_sessions(conn: Connection, *, most: int = 1000) -> int:
    """Delete up to `most` sessions that expired a day ago; returns how many."""
    return len(await fetch(conn, DELETE_EXPIRED, most=most))


def csrf_token(clear: str) -> str:
    """The value that our pages send beside the cookie. Pages of other sites cannot read it."""
    return hmac.digest(clear.encode(), b"atlas csrf", "sha256").hex()


def _hash(clear: str) -> bytes:
    return hashlib.sha256(clear.encode("utf-8", "surrogatepass")).digest()


def _event(action: str, session: Session, actor: Actor) -> Event:
    meta = {"prefix": session.token.prefix}
    return Event(action, "session", str(session.id), actor, session.token.tenant_id, meta=meta)
