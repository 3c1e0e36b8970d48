"""The signing secrets of webhooks and inbound hooks: made here, stored encrypted, and shown once.

After a rotation the stored text holds the new secret, the old one, and the time until which the old one holds too.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from atlas.audit.changes import values_of
from atlas.db.pool import Connection
from atlas.db.prisma import as_base64
from atlas.db.statements import fetch_row, fetch_value, statement
from atlas.engine.secrets.key import secret_key
from atlas.engine.secrets.store import decrypted
from atlas.engine.webhooks.signature import new_secret

# Stripe and Svix keep an old secret for a day.
DEFAULT_OVERLAP_SECONDS = 86_400
MAX_OVERLAP_SECONDS = 7 * 86_400

# How the secret of an entity is read and locked, and how another is stored, by the entity's type in the audit log.
STATEMENTS = {
    "webhook": (
        statement("engine/webhooks/sql/read_webhook_secret.sql"),
        statement("engine/webhooks/sql/rotate_webhook_secret.sql"),
    ),
    "inbound_hook": (
        statement("engine/webhooks/sql/read_hook_secret.sql"),
        statement("engine/webhooks/sql/rotate_hook_secret.sql"),
    ),
}


def make_secret(tenant_id: UUID, id: UUID) -> tuple[str, dict[str, Any]]:
    """A new secret, and the fields in which its owner stores it."""
    clear = new_secret()
    key_id, nonce, ciphertext = _encrypt(clear, tenant_id, id)
    return clear, {"key_id": key_id, "nonce": as_base64(nonce), "ciphertext": as_base64(ciphertext)}


async def rotate_secret(
    conn: Connection, entity: str, id: UUID, tenant_id: UUID | None, overlap_seconds: float
) -> tuple[str, Mapping[str, Any]] | None:
    """Store another secret for an entity, in the caller's transaction. The present one holds for some time more.

    Returns the new secret and the values of the entity before, or None if there is no such entity.
    """
    read, rotate = STATEMENTS[entity]
    row = await fetch_row(conn, read, id=id, tenant_id=tenant_id)
    if row is None:
        return None
    before = await values_of(conn, entity, id)
    clear, current = new_secret(), _decrypt(row).split(" ")[0]
    text = clear if overlap_seconds == 0 else f"{clear} {current} {row['now'] + overlap_seconds:.3f}"
    key_id, nonce, ciphertext = _encrypt(text, row["tenant_id"], row["id"])
    await fetch_value(conn, rotate, id=id, key_id=key_id, nonce=nonce, ciphertext=ciphertext, old_nonce=row["nonce"])
    return clear, before


def read_secrets(row: Any) -> tuple[str, ...]:
    """The secrets that hold now, the newest first, from a row with its columns and the database's time as `now`."""
    current, *previous = _decrypt(row).split(" ")
    if previous and float(previous[1]) > row["now"]:
        return current, previous[0]
    return (current,)


def _encrypt(text: str, tenant_id: UUID, id: UUID) -> tuple[str, bytes, bytes]:
    key = secret_key()
    nonce, ciphertext = key.encrypt(text, _context(tenant_id, id))
    return key.id, nonce, ciphertext


def _decrypt(row: Any) -> str:
    clear: str = decrypted(secret_key(), row, _context(row["tenant_id"], row["id"]), what="The signing secret")
    return clear


def _context(tenant_id: UUID, id: UUID) -> bytes:
    return f"{tenant_id}|{id}|signing secret".encode()
