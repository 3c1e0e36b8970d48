"""The key that signs checkpoints: a file, never in the database, so that its administrator cannot forge signatures."""

import base64
import hashlib
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from glob import escape
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from atlas.audit.verifier.signed_notes import DASH, ED25519, BadNote, Checkpoint, VerifierKey, key_id, parse_keys
from atlas.errors import SettingsError
from atlas.settings import Settings


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key and the name of the log that it signs; `folder` is where its public half and its state are."""

    name: str
    private: Ed25519PrivateKey
    folder: Path
    stem: str

    @property
    def public(self) -> str:
        """The public key as text, for those who verify."""
        raw = _raw(self.private)
        return f"{self.name}+{key_id(self.name, raw).hex()}+{base64.b64encode(ED25519 + raw).decode()}"

    def sign(self, checkpoint: Checkpoint) -> str:
        """The signed note."""
        text = checkpoint.text()
        signature = key_id(self.name, _raw(self.private)) + self.private.sign(text.encode())
        return f"{text}\n{DASH} {self.name} {base64.b64encode(signature).decode()}\n"


def signing_key(settings: Settings, *, new: bool = False) -> SigningKey:
    """The installation's key. Only the one in ATLAS_HOME is made when it is missing, and only once.

    Where its public half is without it, the key is elsewhere or lost, and another is made only if a `new` one is meant.
    """
    # Checked first: another process that starts at the same time may make both, and writes this half last.
    has_public = public_key_file(settings).exists()
    path = key_file(settings)
    if not path.exists():
        if settings.atlas_audit_key_file is not None:
            raise SettingsError(
                f"ATLAS_AUDIT_KEY_FILE names {path}, which does not exist.",
                remedy="Put the Ed25519 key there (PEM, PKCS #8), or unset it to use a key made in ATLAS_HOME.",
            )
        if has_public and not new:
            raise SettingsError(
                f"The audit key {path} is missing, and its public half is here; another key cannot take its place.",
                remedy="Restore it from its backup; a lost one is replaced by `atlas audit new-epoch --new-key`.",
            )
        _make(path)
    try:
        private = load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise _unusable(path, str(error)) from error
    if not isinstance(private, Ed25519PrivateKey):
        raise _unusable(path, "it is not an Ed25519 key")
    # The name follows from the key, so every machine that shares the key signs as the same log.
    name = f"atlas-audit-{hashlib.sha256(_raw(private)).hexdigest()[:8]}"
    key = SigningKey(name, private, _folder(settings), path.stem)
    _publish(key)
    return key


def key_file(settings: Settings) -> Path:
    """Where the private key is."""
    return settings.atlas_audit_key_file or settings.home / "keys" / "audit.key"


def public_key_file(settings: Settings) -> Path:
    """Where the public key is: beside the private one, or in ATLAS_HOME where that folder cannot be written."""
    return _folder(settings) / f"{key_file(settings).stem}.pub"


def public_keys(settings: Settings) -> list[VerifierKey]:
    """The installation's public key, and those of the keys that signed before it: `audit.*.pub` beside `audit.pub`."""
    return read_keys(public_key_files(settings) or [public_key_file(settings)])


def public_key_files(settings: Settings) -> list[Path]:
    """The files of those keys, the newest first; after a loss, only those that were put back."""
    own = public_key_file(settings)
    return [path for path in (own, *sorted(own.parent.glob(f"{escape(own.stem)}.*.pub"))) if path.exists()]


def is_open_to_others(path: Path) -> bool:
    """True if a key file can be read by everyone on this machine."""
    return path.exists() and bool(path.stat().st_mode & stat.S_IROTH)


def checkpoint_folder(settings: Settings) -> Path:
    """Where copies of checkpoints go. It should be a folder that the database's administrator cannot write."""
    return settings.atlas_checkpoint_dir or settings.home / "checkpoints"


def read_keys(paths: Iterable[Path]) -> list[VerifierKey]:
    """Public keys from their files, each of which may hold several."""
    keys: list[VerifierKey] = []
    for path in paths:
        try:
            keys += parse_keys(path.read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"The key {path} cannot be read: {error}.") from error
        except BadNote as reason:
            raise SettingsError(
                f"{path} {reason}.", remedy="Give the public key, the file that ends with .pub beside the private one."
            ) from None
    return keys


def _folder(settings: Settings) -> Path:
    beside = key_file(settings).parent
    return beside if not beside.exists() or os.access(beside, os.W_OK) else settings.home / "keys"


def _make(path: Path) -> None:
    """Make a key that only its owner can read. Of two processes that make one at once, the first to link it wins."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pem = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    write_privately(scratch, pem)
    try:
        os.link(scratch, path)
    except FileExistsError:
        pass
    finally:
        scratch.unlink()


def _publish(key: SigningKey) -> None:
    path = key.folder / f"{key.stem}.pub"
    text = key.public + "\n"
    if not path.exists() or path.read_text() != text:
        key.folder.mkdir(parents=True, exist_ok=True)
        _retire(path, but=key.public)
        path.write_text(text)


def _retire(path: Path, *, but: str) -> None:
    """Keep the public halves of earlier keys: what they signed is verified with them ever after."""
    with suppress(FileNotFoundError, UnicodeDecodeError, BadNote):
        for line in set(path.read_text().split()) - {but}:
            path.with_name(f"{path.stem}.{VerifierKey.parse(line).id.hex()}.pub").write_text(f"{line}\n")


def write_privately(path: Path, content: bytes) -> None:
    """Write a file for its owner alone, and wait until it is on disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _raw(private: Ed25519PrivateKey) -> bytes:
    return private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def _unusable(path: Path, reason: str) -> SettingsError:
    return SettingsError(
        f"The audit key {path} cannot be used: {reason}.",
        remedy="Restore it from its backup; a lost one is replaced by `atlas audit new-epoch --new-key`.",
    )
