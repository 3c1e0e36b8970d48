"""The key that encrypts secrets: in a file of the installation, never in the database."""

import hashlib
import hmac
import os
import secrets
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson

from atlas.errors import AtlasError
from atlas.extras import require
from atlas.home.database_home import database_home
from atlas.home.private_folder import make_private
from atlas.settings import Settings, load_settings

KEY_BYTES = 32


class SecretsUnreadable(AtlasError):
    """The key of the secrets cannot be used, or is not the one they were stored under."""


class SecretKey:
    """The installation's key. Encryption and fingerprints use keys derived from it, one each."""

    def __init__(self, raw: bytes) -> None:
        require("server")
        # Imported here: most commands meet no secret.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self.id = hashlib.sha256(b"atlas secret key id" + raw).hexdigest()[:16]
        self._cipher = AESGCM(hmac.digest(raw, b"atlas secret encryption", "sha256"))
        self._fingerprint_key = hmac.digest(raw, b"atlas secret fingerprint", "sha256")

    def encrypt(self, value: Any, context: bytes) -> tuple[bytes, bytes]:
        """Return a fresh nonce and the ciphertext, which can be decrypted only with the same context."""
        nonce = os.urandom(12)
        return nonce, self._cipher.encrypt(nonce, orjson.dumps(value), context)

    def decrypt(self, nonce: bytes, ciphertext: bytes, context: bytes) -> Any:
        """Return the value; fails where the row was moved or changed, or encrypted with another key."""
        return orjson.loads(self._cipher.decrypt(nonce, ciphertext, context))

    def fingerprint(self, tenant_id: UUID, value: Any) -> str:
        """The same for equal values of one tenant, and for nothing else."""
        data = tenant_id.bytes + orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        return hmac.digest(self._fingerprint_key, data, "sha256").hex()[:16]


_used: SecretKey | None = None


def use_secret_key(key: SecretKey | None) -> None:
    """Choose the key of this process; None lets the settings choose again."""
    global _used
    _used = key


def secret_key() -> SecretKey:
    """The key of this process, from the file that the settings name; made on first use."""
    global _used
    if _used is None:
        _used = load_key(key_file(load_settings()))
    return _used


def key_file(settings: Settings) -> Path:
    """The path of the key."""
    return settings.atlas_secret_key_file or database_home(settings) / "keys" / "secret.key"


def load_key(file: Path) -> SecretKey:
    """Read the key from a file; a file that does not exist is made with a new key."""
    try:
        if not file.exists():
            _make(file)
        raw = bytes.fromhex(file.read_text(encoding="utf-8").strip())
    except OSError as error:
        raise SecretsUnreadable(
            f"The key of the secrets, {file}, cannot be used: {error.strerror or error}.",
            remedy="Make the file readable for the user that runs Atlas, or set ATLAS_SECRET_KEY_FILE.",
        ) from error
    except ValueError as error:
        raise SecretsUnreadable(
            f"{file} does not hold a key.", remedy="Restore it from a backup: 64 hexadecimal digits."
        ) from error
    if len(raw) != KEY_BYTES:
        raise SecretsUnreadable(f"{file} holds a key of {len(raw)} bytes, not {KEY_BYTES}.", remedy="Restore it.")
    return SecretKey(raw)


def _make(file: Path) -> None:
    """Write a new key. Of several processes that do so at once, one wins, and all use its key."""
    make_private(file.parent)
    draft = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as handle:
        handle.write(secrets.token_hex(KEY_BYTES) + "\n")
        handle.flush()
        os.fsync(handle.fileno())
    try:
        os.link(draft, file)
    except FileExistsError:
        pass  # Another process was first.
    finally:
        draft.unlink()
