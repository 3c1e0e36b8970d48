"""The formats of the audit log: heads and leaves of rows, seals, snapshots, and the report of a verification."""

import json
import struct
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import Any

from .tree import sha256

# A row's head: epoch, transaction id, row id, time, tenant (zeroes for none). All numbers are big-endian.
HEAD = struct.Struct(">IQQq16s")
# Leaves are SHA-256 over 0x00 (RFC 9162's mark of a leaf), the version 0x01, the kind, and what is covered.
EVENT_LEAF = b"\x00\x01\x01"
HEADER_LEAF = b"\x00\x01\x02"
NOTHING = "1:1:"
"""The snapshot that shows no transaction: where the first window of an epoch begins."""
EVERYTHING = f"{2**64}:{2**64}:"
"""The snapshot that shows every transaction."""

# The database counts microseconds from here; so do heads.
EPOCH_OF_TIME = datetime(2000, 1, 1, tzinfo=UTC)


def event_leaf(head: bytes, number: int, digest: bytes) -> bytes:
    """The leaf of a row: its head, its tenant's running number, the SHA-256 of its bytes."""
    return sha256(EVENT_LEAF + head + number.to_bytes(8, "big") + digest)


def header_leaf(header: bytes) -> bytes:
    """The leaf that covers a batch's header; it stands after the batch's rows."""
    return sha256(HEADER_LEAF + header)


def text_of_time(time: int) -> str:
    """Microseconds since 2000 in ISO 8601; what no calendar holds stays a number."""
    try:
        return (EPOCH_OF_TIME + timedelta(microseconds=time)).isoformat(timespec="microseconds")
    except OverflowError:
        return str(time)


def time_of_text(text: str) -> int:
    """The reverse of `text_of_time`."""
    return number_of(datetime.fromisoformat(text)) if "T" in text else int(text)


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """A number and its noun, for people: `1 row`, `2,000 rows`."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def number_of(at: datetime) -> int:
    """Microseconds since 2000."""
    passed = at - EPOCH_OF_TIME
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds


class Snapshot:
    """Which transactions had ended at some point: those under `xmin`, and those under `xmax` that were not running."""

    __slots__ = ("running", "xmax", "xmin")

    def __init__(self, text: str) -> None:
        xmin, xmax, running = text.split(":")
        self.xmin, self.xmax = int(xmin), int(xmax)
        self.running = frozenset(int(xid) for xid in running.split(",") if xid)

    def shows(self, xid: int) -> bool:
        """True if that transaction had ended."""
        return xid < self.xmin or (xid < self.xmax and xid not in self.running)


@dataclass(frozen=True, slots=True)
class Seal:
    """A batch as it is stored.

    Its window runs from `snap_prev` to `snap_cur` (taken at `snap_at`); a window of many rows has several batches,
    each up to the row (`to_xid`, `to_id`), and the last one closes it. `max_id` is the highest row id so far in the
    epoch, which began at `epoch_at`, and `size` the tree's size after this batch. Batches marked `rest` take in what
    was left of an epoch when another began.
    """

    n: int
    epoch: int
    epoch_at: str
    system_identifier: int
    snap_prev: str
    snap_cur: str
    snap_at: str
    closes: bool
    rest: bool
    to_xid: int
    to_id: int
    max_id: int
    first_index: int
    count: int
    size: int
    sealed_at: str
    # The header says all of the above, in JSON; the rest is the tree.
    header: bytes = b""
    leaf_hashes: bytes = b""
    frontier: bytes = b""
    root: bytes = b""
    tenants: tuple[tuple[str, int, int], ...] = ()
    """Tenant, its first running number in this batch, how many of its rows."""

    @property
    def leaves(self) -> tuple[int, int]:
        """Its first and its last leaf."""
        return self.first_index, self.size - 1

    def facts(self) -> dict[str, Any]:
        """What its header must say."""
        return {name: getattr(self, name) for name in HEADER_FIELDS}

    def written_header(self) -> bytes:
        """The header's bytes, made once by the sealer."""
        return json.dumps(self.facts(), separators=(",", ":")).encode()


HEADER_FIELDS = tuple(field.name for field in fields(Seal))[:16]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: its kind, and where it is: the row's id, the seal, the first and the last leaf."""

    kind: str
    message: str
    row: int | None = None
    seal: int | None = None
    leaves: tuple[int, int] | None = None


MAX_FINDINGS = 1000


@dataclass(slots=True)
class Report:
    """What was covered and what was found. Without findings, the audit log is whole up to `size`.

    `checkpoints` counts those of the audit log itself that agree with it, `outside` the copies kept elsewhere.
    """

    rows: int = 0
    seals: int = 0
    checkpoints: int = 0
    outside: int = 0
    pruned: int = 0
    unsealed: int = 0
    last_seal: int = 0
    size: int = 0
    root: str = ""
    findings: list[Finding] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """True if nothing is wrong."""
        return not self.findings

    @property
    def covered(self) -> str:
        """How much was looked at, for people. Rows without a seal are always counted: nothing proves them."""
        rows = counted(self.rows, "row") + (f" in {counted(self.seals, 'seal')}" if self.seals else "")
        rows += f", {counted(self.pruned, 'row')} removed by order" if self.pruned else ""
        signed = f"{counted(self.checkpoints, 'checkpoint')}, {counted(self.outside, 'outside copy', 'outside copies')}"
        return f"{rows}, {signed}, {counted(self.unsealed, 'row')} not sealed yet"

    def find(self, kind: str, message: str, **where: Any) -> None:
        """Add a finding, up to a number that a person can still read."""
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(Finding(kind, message, **where))
        elif len(self.findings) == MAX_FINDINGS:
            self.findings.append(Finding("more", f"more than {MAX_FINDINGS} findings; the rest are not listed"))
