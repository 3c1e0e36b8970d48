"""Keeps personal values out of the audit log: it holds a commitment, SHA-256(salt, value), instead of the value.

The value and its salt are in a table of their own. When they are deleted the audit log is still whole, and without
the salt the value cannot be guessed.
"""

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import orjson

from atlas.actors import Actor
from atlas.db.pg_json import stored_text
from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_value, statement

REVEAL = statement("audit/sql/reveal.sql")
ERASE = statement("audit/sql/erase.sql")
STORE = statement("audit/sql/store_personal_data.sql")

SALT_BYTES = 16
# Texts about a person that go with the person's address when it is erased.
FREE_TEXTS = ("subject",)

Personal = Mapping[str, str | Sequence[str]]
# A row of `audit_private` as the SQL functions take it; bytes are in hex.
PrivateRow = dict[str, str | None]


def commit(field: str, value: str, *, entity_id: str | None = None) -> tuple[dict[str, str], PrivateRow]:
    """What an event's meta holds instead of the value, and what is kept apart, for the entity of the event."""
    salt, value = os.urandom(SALT_BYTES), stored_text(value)
    commitment = hashlib.sha256(salt + value.encode()).hexdigest()
    row = {"commitment": commitment, "field": field, "salt": salt.hex(), "value": value, "entity_id": entity_id}
    return {"commitment": commitment}, row


def conceal(personal: Personal, *, entity_id: str | None = None) -> tuple[dict[str, Any], list[PrivateRow]]:
    """The meta of several personal fields, a list where a field has several values, and what is kept apart."""
    kept: list[PrivateRow] = []

    def committed(field: str, value: str) -> dict[str, str]:
        shape, row = commit(field, value, entity_id=entity_id)
        kept.append(row)
        return shape

    meta: dict[str, Any] = {}
    for field, text in personal.items():
        if isinstance(text, str):
            meta[field] = committed(field, text)
        else:
            meta[field] = [committed(field, value) for value in text]
    return meta, kept


async def commit_address(conn: Connection, address: str, *, tenant_id: UUID | None) -> str:
    """Store the address of a caller, and return the commitment that all of its events may hold: `Actor.ip_commitment`.

    It belongs to no entity. Use it for some hours at most: `audit_prune` removes the address with the rows of its time.
    """
    shape, row = commit("ip", address)
    await fetch_value(conn, STORE, tenant_id=tenant_id, rows=orjson.dumps([row]).decode())
    return shape["commitment"]


async def reveal(conn: Connection, commitments: Iterable[str], *, of: Iterable[str]) -> list[dict[str, str]]:
    """The values behind commitments that still exist: commitment, field, salt and value, bytes in hex.

    `of` names the entities of their events, to which the values belong.
    """
    digests = [bytes.fromhex(commitment) for commitment in commitments]
    return [dict(row) for row in await fetch(conn, REVEAL, commitments=digests, entity_ids=list(of))]


async def erase(conn: Connection, subject: str, *, actor: Actor, tenant_id: UUID | None = None) -> int:
    """Delete a person's values and the free texts that went with them; return how many.

    An `ERASED` event for each tenant records what was deleted, without the person.
    """
    erased = 0
    for form in forms_of(subject):
        erased += await fetch_value(
            conn,
            ERASE,
            subject=form,
            tenant_id=tenant_id,
            texts=list(FREE_TEXTS),
            **actor.arguments(),
        )
    return erased


def forms_of(subject: str) -> list[str]:
    """The value as it was given and, of an address, as mails are kept: with its domain in ASCII."""
    local, at, domain = subject.rpartition("@")
    if not at or domain.isascii():
        return [subject]
    import idna

    try:
        return [subject, f"{local}@{idna.encode(domain, uts46=True).decode()}"]
    except UnicodeError:
        return [subject]
