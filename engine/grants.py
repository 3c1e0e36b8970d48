"""Grants: what logins of other applications may do in Atlas's schema."""

import asyncpg

from atlas.actors import Actor
from atlas.audit.record import Event, record
from atlas.db.pg_json import stored_text
from atlas.db.pool import Connection
from atlas.db.schema import role, schema_name
from atlas.db.statements import fetch, statement
from atlas.errors import FieldError, InvalidInput, NotFound, Refused

GRANT_ENQUEUE = statement("engine/sql/grant_enqueue.sql")


async def grant_enqueue(conn: Connection, login: str, *, actor: Actor) -> None:
    """Let a login call `atlas.enqueue`, and nothing else. The connection is of the owner of the tables."""
    if not login or stored_text(login) != login:
        raise InvalidInput("The grant", [FieldError("login", "is empty, or holds a character that no name has")])
    try:
        async with conn.transaction():
            await fetch(conn, GRANT_ENQUEUE, login=login)
            await record(conn, Event("ENQUEUE_GRANTED", "login", login, actor, meta={"role": role("enqueuer")}))
    except asyncpg.UndefinedObjectError as error:
        remedy = f"Create it first: create role \"{login}\" login password '…';"
        raise NotFound("login", login, remedy=remedy) from error
    except asyncpg.InsufficientPrivilegeError as error:
        raise Refused(
            f"This login may not grant it: {error}.",
            remedy=f"Have an administrator run: select {schema_name()}.grant_enqueue('{login}');",
        ) from error
