"""The signing secrets of webhooks and inbound hooks: made here, stored encrypted, and shown once."""

from typing import Any
from uuid import UUID

from atlas.db.prisma import as_base64
from atlas.engine.secrets.key import secret_key
from atlas.engine.secrets.store import decrypted
from atlas.engine.webhooks.signature import new_secret


def make_secret(tenant_id: UUID, id: UUID) -> tuple[str, dict[str, Any]]:
    """A new secret, and the fields in which its owner stores it."""
    clear, key = new_secret(), secret_key()
    nonce, ciphertext = key.encrypt(clear, _context(tenant_id, id))
    return clear, {"keyId": key.id, "nonce": as_base64(nonce), "ciphertext": as_base64(ciphertext)}


def read_secret(row: Any) -> str:
    """The secret in clear, from a row with its columns."""
    clear: str = decrypted(secret_key(), row, _context(row["tenant_id"], row["id"]), what="The signing secret")
    return clear


def _context(tenant_id: UUID, id: UUID) -> bytes:
    return f"{tenant_id}|{id}|signing secret".encode()
