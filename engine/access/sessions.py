"""Sessions: a person's sign-in. A token is exchanged for an opaque secret, kept as a hash like the token itself.

A session is valid until it is ended or expires, and only while its token is valid: revoking a token ends every session
that was opened with it.

A link signs a person in without the token: `atlas up` prints one. It is stored like a session, is valid for minutes,
and opens one session.
"""

import hashlib
import hmac
import secrets
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from atlas.actors import Actor
from atlas.audit.personal_data import reveal
from atlas.audit.record import Event, record
from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_row, fetch_value, statement
from atlas.engine.access.quotas import require_room
from atlas.engine.access.tokens import require_valid_creator
from atlas.errors import Conflict
from atlas.ids import new_id
from atlas.models.rows import from_row
from atlas.models.tenants import OpenSession, Token

OPEN = statement("engine/access/sql/open_session.sql")
FIND = statement("engine/access/sql/find_session.sql")
SEEN = statement("engine/access/sql/session_seen.sql")
END = statement("engine/access/sql/end_session.sql")
USE_LINK = statement("engine/access/sql/use_link.sql")
LIST = statement("engine/access/sql/list_sessions.sql")
DELETE_EXPIRED = statement("engine/access/sql/delete_expired_sessions.sql")

LIFETIME = timedelta(hours=12)
LINK_LIFETIME = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class Session:
    """A sign-in, and the token that it was made with. `seconds_left`: until one of them expires, when it was read."""

    id: UUID
    token: Token
    created_at: datetime
    expires_at: datetime
    seconds_left: float


async def open_session(
    conn: Connection,
    token: Token,
    *,
    actor: Actor,
    browser: str | None = None,
    before: str | None = None,
    link: str | None = None,
) -> tuple[Session, str]:
    """Sign in: returns the session and its secret, which is not shown again.

    `browser` is its name, for the list of sessions, which shows the address of the actor too, until that is erased.
    `before` is the secret of the session that the browser had until now: it ends. So does the link that was followed.
    """
    async with conn.transaction():
        link_id = None if link is None else await fetch_value(conn, USE_LINK, hash=_hash(link))
        if link is not None and link_id is None:
            raise Conflict("The link has been used.", remedy="Print another one with `atlas sign-in`.")
        left = None if before is None else await find_session(conn, before)
        if left is not None:
            await end_session(conn, left, actor=replace(actor, id=left.token.subject, token=left.token.prefix))
        await require_valid_creator(conn, actor)
        await require_room(conn, "sessions_of_a_token", token.tenant_id, of=str(token.id))
        address = actor.ip_commitment
        session, clear = await _insert(conn, token, LIFETIME, ip_commitment=address, browser=browser)
        if link_id is not None:
            meta = {"prefix": token.prefix, "session_id": str(session.id)}
            await record(conn, Event("SIGN_IN_LINK_USED", "session", str(link_id), actor, token.tenant_id, meta=meta))
        await record(conn, _event("SIGNED_IN", session, actor))
    return session, clear


async def make_link(conn: Connection, token: Token, *, actor: Actor) -> str:
    """A code that opens one session with this token, without showing the token."""
    async with conn.transaction():
        await require_room(conn, "sessions_of_a_token", token.tenant_id, of=str(token.id))
        link, clear = await _insert(conn, token, LINK_LIFETIME, is_link=True)
        await record(conn, _event("SIGN_IN_LINK_MADE", link, actor))
    return clear


async def _insert(
    conn: Connection,
    token: Token,
    lifetime: timedelta,
    *,
    is_link: bool = False,
    ip_commitment: str | None = None,
    browser: str | None = None,
) -> tuple[Session, str]:
    clear, seconds = secrets.token_urlsafe(32), lifetime.total_seconds()
    about = {"token_id": token.id, "hash": _hash(clear), "seconds": seconds, "is_link": is_link}
    row = await fetch_row(conn, OPEN, id=new_id(), **about, ip_commitment=ip_commitment, browser=browser)
    assert row is not None
    return Session(row["id"], token, row["created_at"], row["expires_at"], seconds), clear


async def find_session(conn: Connection, clear: str) -> Session | None:
    """The session of a secret, if it is valid now by the database's clock."""
    row = await fetch_row(conn, FIND, hash=_hash(clear), is_link=False)
    if row is None:
        return None
    await fetch(conn, SEEN, id=row["session_id"])
    session = row["session_id"], from_row(Token, row), row["session_created_at"], row["session_expires_at"]
    return Session(*session, row["seconds_left"])


async def find_link(conn: Connection, clear: str) -> Token | None:
    """The token of a link, if it is valid now by the database's clock and was not used."""
    row = await fetch_row(conn, FIND, hash=_hash(clear), is_link=True)
    return None if row is None else from_row(Token, row)


async def end_session(conn: Connection, session: Session, *, actor: Actor) -> None:
    """Sign out. A second call does nothing."""
    async with conn.transaction():
        if await fetch_value(conn, END, id=session.id):
            await record(conn, _event("SIGNED_OUT", session, actor), before={"ended_at": None})


async def list_sessions(
    conn: Connection,
    *,
    tenant_id: UUID | None = None,
    subject: str | None = None,
    id: UUID | None = None,
    after: UUID | None = None,
    limit: int = 50,
    current: UUID | None = None,
) -> list[OpenSession]:
    """The sessions that are valid now, newest first: of one tenant or all, of one subject there, or one by its id.

    `current` is the id of the session that asks.
    """
    filters = {"tenant_id": tenant_id, "subject": subject, "id": id, "before": after, "limit": limit}
    rows = await fetch(conn, LIST, **filters)
    commitments = {row["ip_commitment"] for row in rows} - {None}
    addresses = {row["commitment"]: row["value"] for row in await reveal(conn, commitments, of=())}
    return [
        from_row(OpenSession, row, is_current=row["id"] == current, address=addresses.get(row["ip_commitment"]))
        for row in rows
    ]


async def end_other_session(conn: Connection, session: OpenSession, *, actor: Actor) -> None:
    """End a session from outside of it. A second call does nothing."""
    async with conn.transaction():
        if await fetch_value(conn, END, id=session.id):
            meta = {"prefix": session.prefix, "subject": session.subject}
            event = Event("SESSION_ENDED", "session", str(session.id), actor, session.tenant_id, meta=meta)
            await record(conn, event, before={"ended_at": None})


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
