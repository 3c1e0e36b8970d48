"""Signs checkpoints, the tree's size and root, and copies them to where the database's administrator cannot write.

The signer stores, beside its key, the last tree it signed, and refuses any that does not continue it. An audit log
whose end was cut off, or that was sealed anew, is therefore found at the next signature and gets none. Where that file
is lost, or another machine signed in between, the newest copy of a checkpoint takes its place.
"""

import asyncio
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from atlas.audit.keys import SigningKey, publish_key, write_privately
from atlas.audit.lost_end import LostEnd, clear_lost_end, find_lost_end, save_lost_end
from atlas.audit.sealing.tree_head import Head, named_as_log, read_head
from atlas.audit.sealing.tree_nodes import TreeNodes
from atlas.audit.verifier.copies import copied_notes
from atlas.audit.verifier.signed_notes import BadNote, Checkpoint, VerifierKey, open_note, split_notes
from atlas.audit.verifier.tree import consistent
from atlas.db.pool import Connection
from atlas.db.statements import fetch_value, statement
from atlas.errors import AtlasError, SettingsError
from atlas.home.private_folder import make_private

STORE = statement("audit/sealing/sql/checkpoint_store.sql")

END_BYTES = 4096


class InconsistentTree(AtlasError):
    """The audit log does not continue what was signed before."""

    def __init__(self, size: int, lost: LostEnd) -> None:
        super().__init__(
            f"The signer refuses: the {size} leaves of the audit log do not continue the {lost.signed_size} signed"
            f" before. {lost.message}",
            remedy="If a failover or a restore lost them, continue with `atlas audit new-epoch --accept-loss --reason"
            " …`. Otherwise someone changed the audit log: `atlas audit verify` shows where.",
        )
        self.lost = lost


class NotCopied(AtlasError):
    """A signed checkpoint could not be copied; the next pass tries again."""

    def __init__(self, folder: Path, error: OSError) -> None:
        super().__init__(
            f"The checkpoint could not be copied to {folder}: {error.strerror or error}.",
            remedy="Let ATLAS_CHECKPOINT_DIR name a folder that this program can write.",
        )


@dataclass(frozen=True, slots=True)
class Signed:
    """A tree that was signed, as the signer stores it. Until it is `published`, its copies may be missing."""

    size: int
    root: str
    note: str
    epoch: int
    published: bool = False

    @property
    def checkpoint(self) -> Checkpoint:
        """What the note says."""
        return Checkpoint.read(self.note.rpartition("\n\n")[0])


async def publish(
    conn: Connection, key: SigningKey, folder: Path, *, abandon: bool = False, may_begin: bool = True
) -> Checkpoint | None:
    """Sign the newest seal and put the note into `folder` and into the database.

    None: there is nothing new, or another process is signing. Repeating it after a crash is harmless. `abandon`
    abandons the tree signed last, for an audit log whose end was lost; the note says so. Without `may_begin` the first
    note of an epoch is left to another process. What is missing where it refuses is stored for others to read.
    """
    try:
        checkpoint = await _publish(conn, key, folder, abandon=abandon, may_begin=may_begin)
    except InconsistentTree as error:
        await save_lost_end(conn, error.lost, by=key.label)
        raise
    if checkpoint is not None:
        await clear_lost_end(conn)
    return checkpoint


async def _publish(
    conn: Connection, key: SigningKey, folder: Path, *, abandon: bool, may_begin: bool
) -> Checkpoint | None:
    with _exclusively(key) as mine:
        head = await read_head(conn, key) if mine else None
        if head is None:
            return None
        head.check_signer()
        if head.signer is None and not may_begin:
            return None
        key = head.key
        last = await asyncio.to_thread(_last, key, folder)
        if last is not None and last.published and head.is_stored and last.size == head.size and not abandon:
            if last.root != head.root.hex():
                raise await _inconsistent(conn, last, head.size)
            return None
        checkpoint = await _next(conn, head, last, abandon=abandon)
        if last is not None and last.published and last.epoch == head.epoch and not abandon:
            # A failover may have lost its row. Copies of it exist, which would show it as deleted.
            await _store(conn, key, last)
        signed = Signed(head.size, checkpoint.root.hex(), key.sign(checkpoint), head.epoch)
        # Stored before anyone sees it: a signature that was given out must never be forgotten.
        await asyncio.to_thread(publish_key, key)
        await asyncio.to_thread(_save, key, signed)
        await _store(conn, key, signed)
        await asyncio.to_thread(_copy, folder, checkpoint, signed.note)
        await asyncio.to_thread(_save, key, replace(signed, published=True))
        return checkpoint


async def require_continuation(conn: Connection, key: SigningKey, folder: Path) -> None:
    """Refuse, as signing would, an audit log that does not continue what was signed last."""
    key = await named_as_log(conn, key)
    # Before the head: where a sealer goes on meanwhile, the head is only longer.
    last = await asyncio.to_thread(_last, key, folder)
    if last is not None and last.size > 0:
        head = await read_head(conn, key)
        if head is None:
            raise await _inconsistent(conn, last, 0)
        await _next(conn, head, last, abandon=False)


async def _next(conn: Connection, head: Head, last: Signed | None, *, abandon: bool) -> Checkpoint:
    name, size, root = head.key.name, head.size, head.root
    # A note that abandoned a longer tree may have been stored but not published; the next one says it again.
    unpublished = 0 if last is None or last.published else last.checkpoint.abandons
    # The first signature says from where on removals need a signed order; later ones repeat it.
    orders = size if last is None or last.checkpoint.orders is None else last.checkpoint.orders
    if abandon and last is not None:
        abandons = max(last.size, size, unpublished)
        return Checkpoint(name, size, root, head.now, abandons=abandons, orders=min(orders, size))
    if last is not None:
        if last.size > size:
            raise await _inconsistent(conn, last, size)
        proof = await TreeNodes(conn, size).consistency(last.size)
        if not consistent(last.size, bytes.fromhex(last.root), size, root, proof):
            raise await _inconsistent(conn, last, size)
    return Checkpoint(name, size, root, head.now, abandons=unpublished, orders=orders)


async def _inconsistent(conn: Connection, last: Signed, size: int) -> InconsistentTree:
    lost = await find_lost_end(conn, size=size, signed_size=last.size, signed_at=last.checkpoint.at)
    return InconsistentTree(size, lost)


async def _store(conn: Connection, key: SigningKey, signed: Signed) -> None:
    try:
        checkpoint = open_note(signed.note, [VerifierKey.parse(key.public)])
    except BadNote:
        return  # the key before this one signed it
    facts = {"size": signed.size, "epoch": signed.epoch, "note": signed.note, "signed_at": checkpoint.at}
    await fetch_value(conn, STORE, key_name=key.label, **facts)


def _copy(folder: Path, checkpoint: Checkpoint, note: str) -> None:
    """Append the note to the day's file; a note that a crash cut off there stays as it is."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{checkpoint.at:%Y-%m-%d}.checkpoints").open("ab") as file:
            file.write(b"\n" + note.encode() if file.tell() else note.encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise NotCopied(folder, error) from error


def _last(key: SigningKey, folder: Path) -> Signed | None:
    """The last tree that was signed: the stored one, or one whose copy is later and longer."""
    stored, copied = _stored_state(key), _newest_copy(key, folder)
    if stored is None or copied is None:
        return stored or copied
    is_newer = copied.size > stored.size and copied.checkpoint.at > stored.checkpoint.at
    return copied if is_newer else stored


def _stored_state(key: SigningKey) -> Signed | None:
    path = _state_file(key)
    if not path.exists():
        return None
    try:
        signed = Signed(**json.loads(path.read_text(encoding="utf-8")))
        if (signed.checkpoint.size, signed.checkpoint.root.hex()) != (signed.size, signed.root):
            raise ValueError("it contradicts itself")
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise SettingsError(
            f"The signer's state {path} cannot be used: {error}.",
            remedy="Restore it, or move it away: the newest copy in ATLAS_CHECKPOINT_DIR then takes its place.",
        ) from error
    return signed


def _newest_copy(key: SigningKey, folder: Path) -> Signed | None:
    """The newest copy that this key signed; none where copies may be written but not read."""
    keys = [VerifierKey.parse(key.public)]
    try:
        for file in reversed(copied_notes(folder)):
            for note in reversed(split_notes(_end(file))):
                with suppress(BadNote):
                    copy = open_note(note, keys)
                    return Signed(copy.size, copy.root.hex(), note, epoch=0, published=True)
    except OSError:
        return None
    return None


def _end(file: Path) -> str:
    """The last notes of a day's file, which may have thousands; the first of them may be cut."""
    with file.open("rb") as opened:
        opened.seek(max(os.fstat(opened.fileno()).st_size - END_BYTES, 0))
        return opened.read().decode(errors="replace")


def _save(key: SigningKey, signed: Signed) -> None:
    path = _state_file(key)
    scratch = path.with_suffix(".state.new")
    with _writing_beside(key):
        write_privately(scratch, json.dumps(asdict(signed)).encode())
        scratch.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _state_file(key: SigningKey) -> Path:
    return key.folder / f"{key.stem}.state"


@contextmanager
def _exclusively(key: SigningKey) -> Iterator[bool]:
    """One process signs at a time; False if another is signing."""
    with _writing_beside(key):
        make_private(key.folder)
        lock = (key.folder / f"{key.stem}.lock").open("a")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


@contextmanager
def _writing_beside(key: SigningKey) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SettingsError(
            f"The signer cannot write its state in {key.folder}: {error}.",
            remedy="Let this program write there; the disk may be full.",
        ) from error
