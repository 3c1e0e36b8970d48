"""Checkpoints: the tree's size and root, signed and copied to where the database's administrator cannot write.

The signer remembers, beside its key, the last tree it signed, and refuses any that is not its continuation. So who
cuts off the end of the account, or seals it anew, is found out at the next signature, and cannot get one.
"""

import asyncio
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from atlas.errors import AtlasError
from atlas.pool import Connection
from atlas.statements import fetch_row, fetch_value, statement
from audit.keys import SigningKey, write_privately
from audit.nodes import Nodes
from audit.verifier.notes import Checkpoint
from audit.verifier.tree import consistent

HEAD = statement("audit/sql/checkpoint_head.sql")
STORE = statement("audit/sql/checkpoint_store.sql")


class InconsistentTree(AtlasError):
    """The account is not a continuation of what was signed before."""

    def __init__(self, last: "Signed", size: int) -> None:
        super().__init__(
            f"The signer refuses: the account's {size} leaves do not continue the {last.size} that were signed before.",
            remedy="Run `atlas audit verify`. Where a failover or a restore lost the end, see `atlas audit new-epoch`.",
        )


class OtherSigner(AtlasError):
    """Another key signs this epoch of the account."""

    def __init__(self, signer: str, key: SigningKey) -> None:
        super().__init__(
            f"This epoch of the account is signed by {signer}, not by this machine's {key.name}.",
            remedy="Let ATLAS_AUDIT_KEY_FILE name one key on every machine; a lost key needs `atlas audit new-epoch`.",
        )


class NotCopied(AtlasError):
    """A signed checkpoint could not be put where it is safe; the next round tries again."""

    def __init__(self, folder: Path, error: OSError) -> None:
        super().__init__(
            f"The checkpoint could not be copied to {folder}: {error.strerror or error}.",
            remedy="Let ATLAS_CHECKPOINT_DIR name a folder that this program can write.",
        )


@dataclass(frozen=True, slots=True)
class Signed:
    """The signer's memory: the last tree it signed. Not `published` means that its copies may be missing."""

    size: int
    root: str
    note: str
    epoch: int
    published: bool = False


async def publish(conn: Connection, key: SigningKey, folder: Path, *, abandon: bool = False) -> Checkpoint | None:
    """Sign the newest seal and put the note into `folder` and into the database.

    None: there is nothing new, or another process is at it. Repeating it after a crash is harmless. `abandon` gives
    up the tree signed last, for an account whose end was lost; the note says so.
    """
    with _exclusively(key) as mine:
        head = await fetch_row(conn, HEAD, key_name=key.name) if mine else None
        if head is None:
            return None
        if head["signer"] not in (None, key.name):
            raise OtherSigner(head["signer"], key)
        last = _remembered(key)
        if last is not None and last.published and head["stored"] and last.size == head["size"] and not abandon:
            _check_same(last, head["root"])
            return None
        checkpoint = await _next(conn, key, head, last, abandon=abandon)
        signed = Signed(head["size"], checkpoint.root.hex(), key.sign(checkpoint), head["epoch"])
        # Remembered before it is shown to anyone: a signature that was given out must never be forgotten.
        await asyncio.to_thread(_remember, key, signed)
        await _store(conn, key, checkpoint, signed)
        await asyncio.to_thread(_copy, folder, checkpoint, signed.note)
        await asyncio.to_thread(_remember, key, replace(signed, published=True))
        return checkpoint


async def _next(conn: Connection, key: SigningKey, head: Any, last: Signed | None, *, abandon: bool) -> Checkpoint:
    size, root = head["size"], head["root"]
    if abandon and last is not None:
        return Checkpoint(key.name, size, root, head["now"], abandons=max(last.size, size))
    if last is not None:
        if last.size > size:
            raise InconsistentTree(last, size)
        proof = await Nodes(conn, size).consistency(last.size)
        if not consistent(last.size, bytes.fromhex(last.root), size, root, proof):
            raise InconsistentTree(last, size)
    return Checkpoint(key.name, size, root, head["now"])


def _check_same(last: Signed, root: bytes) -> None:
    if last.root != root.hex():
        raise InconsistentTree(last, last.size)


async def _store(conn: Connection, key: SigningKey, checkpoint: Checkpoint, signed: Signed) -> None:
    await fetch_value(
        conn, STORE, size=signed.size, key_name=key.name, epoch=signed.epoch, note=signed.note, signed_at=checkpoint.at
    )


def _copy(folder: Path, checkpoint: Checkpoint, note: str) -> None:
    """Add the note to the day's file, whole: what a crash cut off there before is left behind."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{checkpoint.at:%Y-%m-%d}.checkpoints").open("ab") as file:
            file.write(b"\n" + note.encode() if file.tell() else note.encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise NotCopied(folder, error) from error


def copied_notes(folder: Path) -> list[Path]:
    """The files of copied checkpoints, oldest first."""
    return sorted(folder.glob("*.checkpoints"))


def _remembered(key: SigningKey) -> Signed | None:
    path = _memory(key)
    return Signed(**json.loads(path.read_text())) if path.exists() else None


def _remember(key: SigningKey, signed: Signed) -> None:
    path = _memory(key)
    scratch = path.with_suffix(".state.new")
    write_privately(scratch, json.dumps(asdict(signed)).encode())
    scratch.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _memory(key: SigningKey) -> Path:
    return key.folder / f"{key.stem}.state"


@contextmanager
def _exclusively(key: SigningKey) -> Iterator[bool]:
    """One process signs at a time; False if another does at this moment."""
    key.folder.mkdir(parents=True, exist_ok=True)
    with (key.folder / f"{key.stem}.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
