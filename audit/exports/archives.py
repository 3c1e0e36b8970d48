"""Archives of the audit log: exports that were verified and recorded, so that the rows in them may be removed."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, BinaryIO, Literal

from atlas.actors import Actor
from atlas.audit.record import Event, record
from atlas.audit.verifier.export import ExportCheck, Progress
from atlas.audit.verifier.format import Report
from atlas.audit.verifier.signed_notes import VerifierKey
from atlas.db.pool import Connection
from atlas.db.prisma import prisma_on
from atlas.db.statements import fetch, statement
from atlas.errors import Conflict, FieldError, InvalidInput, Refused

RANGES = statement("audit/exports/sql/archived_ranges.sql")

# `here`: by the command that recorded it. `elsewhere`: by another machine, whose receipt the caller gave.
Verified = Literal["here", "elsewhere"]
PROGRESS_LINES = 4096


@dataclass(frozen=True, slots=True)
class Archive:
    """An export of the whole log or a range: the digest of the file, its seals, and the tree at the last one."""

    sha256: str
    bytes: int
    first_seal: int
    last_seal: int
    size: int
    root: str
    exported_at: str
    personal: bool


def read_archive(
    path: Path, keys: Sequence[VerifierKey], outside: Sequence[str] = (), *, progress: Progress | None = None
) -> tuple[Report, Archive | None]:
    """Verify an export file and describe it. None: it is a tenant's export, or its first lines cannot be read."""
    check = ExportCheck(keys, outside)
    with path.open("rb") as file:
        lines = _HashedLines(file, progress)
        check.feed(lines)
        for _ in lines:
            pass
    report = check.finish()
    return report, lines.archive(report)


def read_receipt(document: Any) -> Archive:
    """The archive that `atlas audit verify --export FILE --json` has described on another machine."""
    try:
        ok, archived = document["ok"], document["archive"]
        archive = Archive(**{field.name: archived[field.name] for field in fields(Archive)})
    except (KeyError, TypeError) as error:
        raise _unreadable("does not describe an archive") from error
    if any(type(value) is not type(of) for value, of in zip(asdict(archive).values(), _SHAPE, strict=True)):
        raise _unreadable("has values of the wrong type")
    if ok is not True:
        raise Refused("The export of this receipt has findings.", remedy="Archive an export that verifies without any.")
    return archive


async def record_archive(conn: Connection, archive: Archive, *, verified: Verified, actor: Actor) -> None:
    """Record an archive that was verified. Conflict: this log does not have its tree at its last seal.

    The connection is of the owner of the tables: the programs' role may not write this event.
    """
    seal = await prisma_on(conn).auditseal.find_unique({"n": archive.last_seal})
    if seal is None or (seal.size, seal.root.decode().hex()) != (archive.size, archive.root):
        raise Conflict(
            f"The archive is not of this audit log: at seal {archive.last_seal} the log has another tree.",
            remedy="Give an export of this installation, made since its last `atlas audit new-epoch --accept-loss`.",
        )
    words = f"An archive of the seals {archive.first_seal} to {archive.last_seal} was verified {verified}"
    meta = {**asdict(archive), "verified": verified}
    await record(conn, Event("AUDIT_ARCHIVED", "audit_log", "archive", actor, None, words, meta=meta))


async def require_archived(conn: Connection, through: int) -> list[dict[str, Any]]:
    """The archives that hold the rows of every seal up to `through`. Conflict: some rows are in none.

    Rows that were removed before need none.
    """
    pruned = await prisma_on(conn).auditpruned.find_first(order={"throughSeal": "desc"})
    reached = 0 if pruned is None else pruned.throughSeal
    used = []
    for row in await fetch(conn, RANGES):
        if row["first_seal"] <= reached + 1 and row["last_seal"] > reached and reached < through:
            reached = row["last_seal"]
            used.append(dict(row))
    if reached >= through:
        return used
    raise Conflict(
        f"The rows of the seals {reached + 1} to {through} are in no archive that was verified and recorded.",
        remedy="Run `atlas audit export --out FILE`, then `atlas audit archive FILE`, and keep the file;"
        " of an archive that is kept elsewhere, `atlas audit archive --receipt FILE`.",
    )


class _HashedLines:
    """The lines of a file, with the digest and the number of all bytes so far, and the first two of them."""

    def __init__(self, file: BinaryIO, progress: Progress | None) -> None:
        self._digest = hashlib.sha256()
        self._bytes = 0
        self._head: list[bytes] = []
        self._lines = self._read(file, progress)

    def __iter__(self) -> Iterator[bytes]:
        return self._lines

    def archive(self, report: Report) -> Archive | None:
        try:
            manifest, second = (json.loads(line) for line in self._head)
            if manifest["tenant"] is not None:
                return None
            before = second["seal"]["n"] if second["type"] == "start" else manifest["pruned_through"]
            at, personal = manifest["exported_at"], manifest["personal"]
        except (ValueError, KeyError, TypeError):
            return None
        digest = self._digest.hexdigest()
        return Archive(digest, self._bytes, before + 1, report.last_seal, report.size, report.root, at, personal)

    def _read(self, file: BinaryIO, progress: Progress | None) -> Iterator[bytes]:
        for number, line in enumerate(file):
            self._digest.update(line)
            self._bytes += len(line)
            if number < 2:
                self._head.append(line)
            if progress is not None and number % PROGRESS_LINES == 0:
                progress(self._bytes)
            yield line


_SHAPE = ("", 0, 0, 0, 0, "", "", False)


def _unreadable(reason: str) -> InvalidInput:
    remedy = "Give the output of `atlas audit verify --export FILE --key FILE --json`, of an export of the whole log."
    return InvalidInput("The receipt", [FieldError("receipt", reason)], remedy=remedy)
