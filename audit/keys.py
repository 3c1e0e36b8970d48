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

from atlas.audit.verifier.signed_notes import (
    DASH,
    ED25519,
    BadNote,
    Checkpoint,
    VerifierKey,
    handover,
    key_id,
    parse_keys,
    prune_order,
)
from atlas.errors import SettingsError
from atlas.home.database_home import database_home
from atlas.home.private_folder import make_private
from atlas.settings import Settings


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key and the name of the log that it signs; `folder` is where its public half and its state are."""

    name: str
    private: Ed25519PrivateKey
    folder: Path
    stem: str

    @property
    def label(self) -> str:
        """Its name and id, which is how people tell two keys of one log apart."""
        return f"{self.name}+{key_id(self.name, _raw(self.private)).hex()}"

    @property
    def public(self) -> str:
        """The public key as text, for those who verify."""
        return f"{self.label}+{base64.b64encode(ED25519 + _raw(self.private)).decode()}"

    def sign(self, checkpoint: Checkpoint) -> str:
        """The signed note."""
        return self._signed(checkpoint.text())

    def hand_over(self, key: "SigningKey") -> str:
        """A signed note that names the key which signs after this one."""
        return self._signed(handover(self.name, key.public))

    def order_prune(self, through: int, size: int, root: bytes) -> str:
        """A signed note that orders the removal of the rows up to a seal, where the tree has this size and root."""
        return self._signed(prune_order(self.name, through, size, root))

    def _signed(self, text: str) -> str:
        signature = key_id(self.name, _raw(self.private)) + self.private.sign(text.encode())
        return f"{text}\n{DASH} {self.name} {base64.b64encode(signature).decode()}\n"


def signing_key(settings: Settings) -> SigningKey:
    """The installation's key. Only the one in ATLAS_HOME is made when it is missing, and only once.

    Where its public half is without it, the key is elsewhere or lost, and no other is made.
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
        if has_public:
            raise SettingsError(
                f"The audit key {path} is missing, and its public half is here; another key cannot take its place.",
                remedy="Restore it from its backup; a lost one is replaced by `atlas audit new-epoch --new-key`.",
            )
        _make(path)
    key = read_signing_key(settings, path)
    publish_key(key)
    return key


def next_key(settings: Settings) -> SigningKey:
    """A key to take the place of the installation's, once `install_next` puts it there. It is made only once."""
    path = _next_file(settings)
    if not path.exists():
        _make(path)
    return read_signing_key(settings, path)


def install_next(settings: Settings, key: SigningKey) -> None:
    """Put the next key in the place of the installation's, which stays beside it as `audit.<id>.key`."""
    path = key_file(settings)
    if path.exists():
        old = read_signing_key(settings, path)
        path.rename(path.with_name(f"{path.stem}.{old.label.split('+')[1]}{path.suffix}"))
    _next_file(settings).rename(path)
    publish_key(key)


def read_signing_key(settings: Settings, path: Path) -> SigningKey:
    """A private key from its file, under the name of the log."""
    try:
        private = load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise _unusable(path, str(error)) from error
    if not isinstance(private, Ed25519PrivateKey):
        raise _unusable(path, "it is not an Ed25519 key")
    return SigningKey(_log_name(settings, private), private, _folder(settings), key_file(settings).stem)


def _log_name(settings: Settings, private: Ed25519PrivateKey) -> str:
    """The log's name is made from its first key and kept by the later ones: the public half here has it.

    So every machine that shares a key signs as the same log. Where the name is unknown, it follows from the key itself.
    """
    with suppress(SettingsError):
        return public_keys(settings)[0].name
    return f"atlas-audit-{hashlib.sha256(_raw(private)).hexdigest()[:8]}"


def _next_file(settings: Settings) -> Path:
    path = key_file(settings)
    return path.with_name(f"{path.name}.next")


def key_file(settings: Settings) -> Path:
    """Where the private key is."""
    return settings.atlas_audit_key_file or database_home(settings) / "keys" / "audit.key"


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
    return settings.atlas_checkpoint_dir or database_home(settings) / "checkpoints"


def read_keys(paths: Iterable[Path]) -> list[VerifierKey]:
    """Public keys from their files, each of which may hold several."""
    keys: list[VerifierKey] = []
    for path in paths:
        try:
            keys += parse_keys(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"The key {path} cannot be read: {error}.") from error
        except BadNote as reason:
            raise SettingsError(
                f"{path} {reason}.", remedy="Give the public key, the file that ends with .pub beside the private one."
            ) from None
    return keys


def _folder(settings: Settings) -> Path:
    beside = key_file(settings).parent
    return beside if not beside.exists() or os.access(beside, os.W_OK) else database_home(settings) / "keys"


def _make(path: Path) -> None:
    """Make a key that only its owner can read. Of two processes that make one at once, the first to link it wins."""
    make_private(path.parent)
    pem = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    write_privately(scratch, pem)
    try:
        os.link(scratch, path)
    except FileExistsError:
        pass
    finally:
        scratch.unlink()


def publish_key(key: SigningKey) -> None:
    """Write the public half beside the key, and keep those of the keys before it."""
    path = key.folder / f"{key.stem}.pub"
    text = key.public + "\n"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        make_private(key.folder)
        _retire(path, but=key.public)
        path.write_text(text, encoding="utf-8")


def _retire(path: Path, *, but: str) -> None:
    """Keep the public halves of earlier keys: what they signed is verified with them ever after."""
    with suppress(FileNotFoundError, UnicodeDecodeError, BadNote):
        for line in set(path.read_text(encoding="utf-8").split()) - {but}:
            path.with_name(f"{path.stem}.{VerifierKey.parse(line).id.hex()}.pub").write_text(
                f"{line}\n", encoding="utf-8"
            )


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
