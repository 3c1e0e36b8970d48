"""Public keys and signed checkpoints, in the text forms of C2SP: signed notes and transparency-log checkpoints.

A note is its text, an empty line, and a line for each signature: `— name base64(key id, signature)`.
A checkpoint's text is the log's name, the tree's size, its root in base64, then lines of our own: `time …`, and
`orders SIZE`, from which leaf on removals need an order that a key has signed, and `abandons SIZE` where the signer
accepted that a failover or a restore lost a longer tree.
"""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from .tree import HASH, sha256

ED25519 = b"\x01"
DASH = "—"
# A key id and a signature, 68 bytes, in base64.
SIGNATURE = 92
# What the second line of a note begins with in which a key names the one that signs after it.
HANDOVER = "next key "
# And of one that orders the removal of rows: the last seal whose rows go, the tree's size and its root there.
PRUNE = "prune "


class BadNote(ValueError):
    """Why a note or a key cannot be trusted, as the end of a sentence that begins with it."""


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """A public key, written `name+id+base64`."""

    name: str
    id: bytes
    public: Ed25519PublicKey

    @property
    def label(self) -> str:
        """Its name and id, which is how people tell two keys of one log apart."""
        return f"{self.name}+{self.id.hex()}"

    @classmethod
    def parse(cls, text: str) -> "VerifierKey":
        """Read a key; its id must fit its bytes."""
        try:
            name, number, encoded = text.strip().split("+", 2)
            raw = base64.b64decode(encoded, validate=True)
            key = cls(name, bytes.fromhex(number), Ed25519PublicKey.from_public_bytes(raw[1:]))
        except ValueError:
            raise BadNote("is not a key of the form name+id+base64") from None
        if raw[:1] != ED25519 or key.id != key_id(name, raw[1:]):
            raise BadNote("is not an Ed25519 key, or its id does not fit its bytes")
        return key


def parse_keys(text: str) -> list[VerifierKey]:
    """The keys of a file, a line each: the newest, and those that it took the place of."""
    return [VerifierKey.parse(line) for line in text.strip().splitlines() or [""]]


def key_id(name: str, public: bytes) -> bytes:
    """The four bytes by which a signature names its key."""
    return sha256(name.encode() + b"\n" + ED25519 + public)[:4]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What was signed: the tree's size and root, when, the leaf from which on orders are signed, and an abandoned size.

    `signer` is the label of the key whose signature was checked.
    """

    origin: str
    size: int
    root: bytes
    at: datetime
    abandons: int = 0
    orders: int | None = None
    signer: str = field(default="", compare=False)

    def text(self) -> str:
        """The text to sign."""
        lines = [self.origin, str(self.size), base64.b64encode(self.root).decode(), f"time {self.at.isoformat()}"]
        if self.orders is not None:
            lines.append(f"orders {self.orders}")
        if self.abandons:
            lines.append(f"abandons {self.abandons}")
        return "\n".join(lines) + "\n"

    @classmethod
    def read(cls, text: str) -> "Checkpoint":
        """Read a text whose signature has been checked."""
        try:
            origin, size, root, *more = text.rstrip("\n").split("\n")
            facts = dict(line.split(" ", 1) for line in more)
            at, abandons = datetime.fromisoformat(facts["time"]), int(facts.get("abandons", "0"))
            orders = int(facts["orders"]) if "orders" in facts else None
            checkpoint = cls(origin, int(size), base64.b64decode(root, validate=True), at, abandons, orders)
        except (ValueError, KeyError):
            raise BadNote("is not a checkpoint") from None
        if len(checkpoint.root) != HASH or checkpoint.at.tzinfo is None:
            raise BadNote("is not a checkpoint")
        return checkpoint


def open_note(note: str, keys: Sequence[VerifierKey]) -> Checkpoint:
    """The checkpoint in a note that one of the keys has signed. A key's name is the name of its log."""
    text, key = open_text(note, keys)
    checkpoint = Checkpoint.read(text)
    if checkpoint.origin != key.name:
        raise BadNote(f"belongs to the log {checkpoint.origin}, not to {key.name}")
    return replace(checkpoint, signer=key.label)


def handover(name: str, key: str) -> str:
    """The text that a key signs to name the one that signs after it."""
    return f"{name}\n{HANDOVER}{key}\n"


def open_handover(note: str, keys: Sequence[VerifierKey]) -> tuple[VerifierKey, VerifierKey]:
    """The key that a note names to sign after its own, and the key that has signed the note."""
    text, key = open_text(note, keys)
    name, _, line = text.rstrip("\n").partition("\n")
    if name != key.name or not line.startswith(HANDOVER):
        raise BadNote("does not name another key of its log")
    return VerifierKey.parse(line.removeprefix(HANDOVER)), key


def prune_order(name: str, through: int, size: int, root: bytes) -> str:
    """The text that a key signs to order the removal of the rows up to a seal."""
    return f"{name}\n{PRUNE}{through} {size} {base64.b64encode(root).decode()}\n"


def open_order(note: str, keys: Sequence[VerifierKey], through: int, size: int, root: bytes) -> str:
    """The label of the key that signed the order to remove the rows up to a seal, in a note of that order."""
    text, key = open_text(note, keys)
    if text != prune_order(key.name, through, size, root):
        raise BadNote("orders something else")
    return key.label


def open_text(note: str, keys: Sequence[VerifierKey]) -> tuple[str, VerifierKey]:
    """The text of a note, and which of the keys has signed it."""
    text, _, signatures = note.rpartition("\n\n")
    text += "\n"
    for name, signature in _signatures(signatures):
        for key in keys:
            if (key.name, key.id) == (name, signature[:4]):
                _verify(text, signature[4:], key)
                return text, key
    raise BadNote("is not signed by a key that was given")


def _signatures(lines: str) -> list[tuple[str, bytes]]:
    try:
        parts = [line.split(" ") for line in lines.splitlines()]
        return [(name, base64.b64decode(encoded, validate=True)) for dash, name, encoded in parts if dash == DASH]
    except (ValueError, binascii.Error):
        raise BadNote("has a damaged signature line") from None


def _verify(text: str, signature: bytes, key: VerifierKey) -> None:
    try:
        key.public.verify(signature, text.encode())
    except InvalidSignature:
        raise BadNote("has a wrong signature") from None


def split_notes(text: str) -> list[str]:
    """The notes of a file that grows by whole notes; one that a crash cut off was never published."""
    notes: list[list[str]] = []
    for line in text.splitlines():
        begins = not notes or line == notes[0][0] or (notes[-1][-1].startswith(DASH) and not line.startswith(DASH))
        if begins and line:
            notes.append([line])
        elif not begins:
            notes[-1].append(line)
    whole = [lines for lines in notes if lines[-1].startswith(DASH) and len(lines[-1].split(" ")[-1]) >= SIGNATURE]
    return ["\n".join(lines) + "\n" for lines in whole]
