"""Erases a person's values from the details of effects, the one part of the ledger that is made for such values."""

from uuid import UUID

from atlas.actors import Actor
from atlas.audit.personal_data import forms_of
from atlas.db.pool import Connection
from atlas.db.statements import fetch_value, statement

ERASE = statement("engine/effects/sql/erase_details.sql")


async def erase_details(conn: Connection, subject: str, *, actor: Actor, tenant_id: UUID | None = None) -> int:
    """Replace the details that hold this value by a mark; return how many."""
    erased = 0
    for form in forms_of(subject):
        erased += await fetch_value(conn, ERASE, subject=form, tenant_id=tenant_id, **actor.arguments())
    return erased
