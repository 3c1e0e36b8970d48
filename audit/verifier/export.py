"""Verifies an export file: of the whole audit log or a range of its seals, or of one tenant's rows."""

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import UUID

from .check import Verification
from .format import Report, event_leaf
from .personal import PersonalCheck
from .records import UNREADABLE, read_quickly, read_row, reason_of, seal_of
from .signed_notes import BadNote, Checkpoint, VerifierKey, open_note
from .tree import included, sha256
from .unsealed import LogEnd

EXPORT = "atlas-audit-export/1"
ROW = b'{"type":"row",'
UNSEALED = b'{"type":"unsealed",'
START = b'{"type":"start",'
PATH = frozenset(("index", "number", "path"))
RESTORED = "The audit log was restored into another cluster, where no epoch has begun; nothing is sealed."
CUT_OFF = "The export is cut off: its last line is missing."

Progress = Callable[[int], None]


def verify_export(
    path: Path, keys: Sequence[VerifierKey], outside: Sequence[str] = (), *, progress: Progress | None = None
) -> Report:
    """Check an export. `outside` are notes kept elsewhere; `progress` is called with how many bytes have been read."""
    with path.open("rb") as file:
        lines = _Lines(file, progress)
        walk: _ExportCheck | _TenantExportCheck | None = None
        try:
            manifest = json.loads(next(lines, b""))
            if not isinstance(manifest, dict) or manifest.get("format") != EXPORT:
                raise ValueError(f"it is no manifest of {EXPORT}")
            walk = (_ExportCheck if manifest["tenant"] is None else _TenantExportCheck)(manifest, keys, outside)
            return walk.walk(lines)
        except UNREADABLE as error:
            report = Report() if walk is None else walk.report
            report.find("export", f"Line {max(lines.number, 1)} of the export cannot be read: {reason_of(error)}.")
            return report


class _ExportCheck:
    """The whole audit log or a range of its seals: the rows of each batch, its seal, what was signed there."""

    def __init__(self, manifest: dict[str, Any], keys: Sequence[VerifierKey], outside: Sequence[str]) -> None:
        self._manifest = manifest
        self._keys = keys
        self._outside = outside
        self._verification = Verification(keys, outside, pruned_through=manifest["pruned_through"])
        made_at = datetime.fromisoformat(manifest["exported_at"])
        self._end = LogEnd(made_at, int(manifest["epoch"]), bool(manifest["restored"]))

    @property
    def report(self) -> Report:
        return self._verification.report

    def walk(self, lines: Iterator[bytes]) -> Report:
        lines = self._begin(lines)
        to_the_end = self._manifest["to_the_end"]
        personal = PersonalCheck(self.report, expected=self._manifest["personal"])
        _read_lines(lines, self.report, personal, self._take, self._read)
        personal.finish(has_all_events=to_the_end)
        until = now = self._end.now
        if not to_the_end:
            until = min(now, datetime.fromisoformat(self._manifest["until"]))
        self._verification.finish(now, to_the_end=to_the_end, until=until)
        if self.report.unsealed:
            self.report.notices.append(f"{self.report.unsealed} rows are not sealed yet: nothing proves them so far.")
        if self._end.restored:
            self.report.find("cluster", RESTORED)
        if not to_the_end:
            self.report.notices.append(
                f"The export ends with seal {self.report.last_seal}; it does not show later ones."
            )
        return self.report

    def _begin(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        """Only the first line may name the seal before a range: a later one would drop what was read before it."""
        first = next(lines, b"")
        if not first.startswith(START):
            return chain([first], lines)
        record = json.loads(first)
        numbers = {UUID(tenant).bytes: number for tenant, number in record["numbers"].items()}
        start = seal_of(record["seal"])
        self._verification = Verification(self._keys, self._outside, start=start, numbers=numbers)
        self.report.notices.append(f"The export begins after seal {start.n}; what was before is not in it.")
        return lines

    def _take(self, line: bytes) -> bytes:
        if line.startswith(UNSEALED):
            return self._take_unsealed(line)
        if self.report.unsealed:
            raise ValueError("a row of a seal stands after those that are not sealed yet")
        head, body = read_quickly(line)
        self._verification.row(head, body)
        return body

    def _take_unsealed(self, line: bytes) -> bytes:
        if not self._manifest["to_the_end"]:
            raise ValueError("rows that are not sealed yet do not belong into a range that ends before now")
        _, head, body = read_row(line)
        self._verification.unsealed(head, body, self._end)
        return body

    def _read(self, record: dict[str, Any]) -> None:
        match record["type"]:
            case "seal" if not self.report.unsealed:
                self._verification.seal(seal_of(record))
            case "checkpoint" if self.report.seals and not self.report.unsealed:
                self._verification.checkpoint(record["note"])
            case other:
                raise ValueError(f"a line of the type {other!r} that does not belong there")


class _TenantExportCheck:
    """A tenant's own rows: each with its path to one signed root, numbered without gaps."""

    def __init__(self, manifest: dict[str, Any], keys: Sequence[VerifierKey], outside: Sequence[str]) -> None:
        self.report = Report()
        self._keys = keys
        self._tenant = UUID(manifest["tenant"]).bytes
        self._first = manifest["first_number"]
        self._personal = manifest["personal"]
        self._number = self._first - 1
        self._checkpoint: Checkpoint | None = None
        self._outside = [self._open(note, "An outside copy of a checkpoint") for note in outside]

    def walk(self, lines: Iterator[bytes]) -> Report:
        personal = PersonalCheck(self.report, expected=self._personal)
        _read_lines(lines, self.report, personal, self._take, self._read)
        # An erasure of the last seconds is not signed yet, and so not in a tenant's export.
        personal.finish(has_all_events=False)
        self._compare_outside()
        self._report_numbers()
        return self.report

    def _take(self, line: bytes) -> bytes:
        if not line.startswith(ROW):
            raise ValueError("a tenant's export has no rows that are not sealed yet")
        facts, head, body = read_row(line, more=PATH)
        self._row(facts, head, body)
        return body

    def _read(self, record: dict[str, Any]) -> None:
        match record["type"]:
            case "checkpoint" if self._checkpoint is None:
                self._checkpoint = opened = self._open(record["note"], "The checkpoint")
                if opened is not None:
                    self.report.checkpoints, self.report.size, self.report.root = 1, opened.size, opened.root.hex()
            case other:
                raise ValueError(f"a line of the type {other!r} that does not belong there")

    def _open(self, note: str, what: str) -> Checkpoint | None:
        try:
            return open_note(note, self._keys)
        except BadNote as reason:
            self.report.find("checkpoint", f"{what} {reason}.")
            return None

    def _compare_outside(self) -> None:
        """Other sizes cannot be compared: a tenant's export does not hold the whole tree."""
        signed, others = self._checkpoint, 0
        for one in self._outside:
            if one is None or signed is None or one.size != signed.size:
                others += one is not None
            elif one.root != signed.root:
                message = f"The export's checkpoint is not the one that was signed at {one.at} for {one.size} leaves."
                self.report.find("checkpoint", message)
            else:
                self.report.outside += 1
        if others:
            self.report.notices.append(
                f"{others} outside copies are of other sizes and could not be compared with the export's checkpoint;"
                " a proof from one size to the other shows whether they agree."
            )

    def _report_numbers(self) -> None:
        if not self.report.rows:
            reached = f"Its range begins after the tenant's row {self._number}." if self._number else ""
            message = f"The export holds no rows of the tenant; any that there are would not show. {reached}"
            self.report.notices.append(message.strip())
            return
        message = f"These are the tenant's rows {self._first} to {self._number}; "
        message += "later ones would not show." if self._first == 1 else "earlier and later ones would not show."
        self.report.notices.append(message)

    def _row(self, facts: dict[str, Any], head: bytes, body: bytes) -> None:
        self.report.rows += 1
        id, index = facts["id"], facts["index"]
        if facts["number"] != self._number + 1:
            message = f"The tenant's number {self._number + 1} is missing: row {id} has number {facts['number']}."
            self.report.find("row", message, row=id, leaves=(index, index))
        self._number = facts["number"]
        if head[-16:] != self._tenant:
            self.report.find("row", f"Row {id} belongs to another tenant.", row=id, leaves=(index, index))
        path = [bytes.fromhex(step) for step in facts["path"]]
        leaf = event_leaf(head, self._number, sha256(body))
        signed = self._checkpoint
        if signed is None or not included(leaf, index, signed.size, path, signed.root):
            self.report.find("row", f"Row {id} is not in the signed tree.", row=id, leaves=(index, index))


def _read_lines(
    lines: Iterator[bytes],
    report: Report,
    personal: PersonalCheck,
    take: Callable[[bytes], bytes],
    read: Callable[[dict[str, Any]], None],
) -> None:
    """Read every line up to the last. `take` reads a row and returns its bytes, `read` reads other kinds."""
    for line in lines:
        if line.startswith((ROW, UNSEALED)):
            personal.row(line, take(line))
            continue
        record = json.loads(line)
        match record["type"]:
            case "copies":
                _report_copies(report, record)
            case "private":
                personal.value(record)
            case "end":
                break
            case _:
                read(record)
    else:
        report.find("export", CUT_OFF)
    if next(lines, None) is not None:
        report.find("export", "Lines follow the one that ends the export.")
    if not report.checkpoints and not report.outside:
        report.find("checkpoint", "No valid checkpoint covers any of the export: its author may have invented it.")


def _report_copies(report: Report, record: dict[str, Any]) -> None:
    message = f"The search columns of row {record['id']} differ from its bytes: {', '.join(record['columns'])}."
    report.find("copies", message, row=record["id"])


class _Lines(Iterator[bytes]):
    """The lines of a file, counted."""

    def __init__(self, file: Iterator[bytes], progress: Progress | None) -> None:
        self.number = 0
        self._file = file
        self._progress = progress
        self._read = 0

    def __next__(self) -> bytes:
        line = next(self._file)
        self.number += 1
        self._read += len(line)
        if self._progress is not None and self.number % 4096 == 1:
            self._progress(self._read)
        return line
