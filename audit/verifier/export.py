"""Verifies an export file: of the whole audit log or a range of its seals, or of one tenant's rows."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from .check import Verification
from .export_lines import UNSEALED, ExportLines
from .format import Report, counted
from .personal import PersonalCheck
from .records import UNREADABLE, read_quickly, read_row, reason_of, seal_of
from .signed_notes import VerifierKey
from .tenant_export import TenantExport
from .unsealed import LogEnd

EXPORT = "atlas-audit-export/1"
RESTORED = "The audit log was restored into another cluster, where no epoch has begun; nothing is sealed."

Progress = Callable[[int], None]


def verify_export(
    path: Path, keys: Sequence[VerifierKey], outside: Sequence[str] = (), *, progress: Progress | None = None
) -> Report:
    """Check an export. `outside` are notes kept elsewhere; `progress` is called with how many bytes have been read."""
    check = ExportCheck(keys, outside)
    with path.open("rb") as file:
        check.feed(file if progress is None else _counted(file, progress))
    return check.finish()


class ExportCheck:
    """Checks an export as its lines come, some at a time: `feed` them, then `finish`."""

    def __init__(self, keys: Sequence[VerifierKey], outside: Sequence[str] = ()) -> None:
        self._keys = keys
        self._outside = outside
        self._walk: _WholeExport | TenantExport | None = None
        self._report: Report | None = None

    @property
    def number(self) -> int:
        """The tenant's running number of the last row that was fed; 0 in an export of the whole audit log."""
        return self._walk.number if isinstance(self._walk, TenantExport) else 0

    def feed(self, lines: Iterable[bytes]) -> None:
        """Check the next lines. What follows one that cannot be read is not looked at."""
        lines = iter(lines)
        try:
            if self._report is None and self._walk is None:
                self._walk = self._begin(next(lines, b""))
            if self._report is None and self._walk is not None:
                self._walk.feed(lines)
        except UNREADABLE as error:
            number, self._report = (1, Report()) if self._walk is None else (self._walk.line, self._walk.report)
            self._report.find("export", f"Line {number} of the export cannot be read: {reason_of(error)}.")

    def finish(self) -> Report:
        """The report, once all lines were fed."""
        self.feed(())
        if self._report is None and self._walk is not None:
            self._report = self._walk.finish()
        assert self._report is not None
        return self._report

    def _begin(self, line: bytes) -> "_WholeExport | TenantExport":
        manifest = json.loads(line)
        if not isinstance(manifest, dict) or manifest.get("format") != EXPORT:
            raise ValueError(f"it is not a manifest of {EXPORT}")
        return (_WholeExport if manifest["tenant"] is None else TenantExport)(manifest, self._keys, self._outside)


class _WholeExport(ExportLines):
    """The whole audit log or a range of its seals: the rows of each batch, its seal, what was signed there."""

    def __init__(self, manifest: dict[str, Any], keys: Sequence[VerifierKey], outside: Sequence[str]) -> None:
        self._manifest = manifest
        self._keys = keys
        self._outside = outside
        self._verification = Verification(keys, outside, pruned_through=manifest["pruned_through"])
        self.report = self._verification.report
        made_at = datetime.fromisoformat(manifest["exported_at"])
        self._end = LogEnd(made_at, int(manifest["epoch"]), bool(manifest["restored"]))
        self._until = made_at if manifest["to_the_end"] else min(made_at, datetime.fromisoformat(manifest["until"]))
        super().__init__(personal=manifest["personal"])

    def finish(self) -> Report:
        to_the_end = self._manifest["to_the_end"]
        self.check_end()
        self._personal.finish(has_all_events=to_the_end)
        self._verification.finish(self._end.now, to_the_end=to_the_end, until=self._until)
        if self.report.unsealed:
            self.report.notices.append(
                f"Not sealed yet: {counted(self.report.unsealed, 'row')}. Nothing proves them so far."
            )
        if self._end.restored:
            self.report.find("cluster", RESTORED)
        if not to_the_end:
            self.report.notices.append(
                f"The export ends with seal {self.report.last_seal}; it does not show later ones."
            )
        return self.report

    def _start_after(self, record: dict[str, Any]) -> None:
        """Begin after the seal before a range."""
        numbers = {UUID(tenant).bytes: number for tenant, number in record["numbers"].items()}
        start = seal_of(record["seal"])
        self._verification = Verification(self._keys, self._outside, start=start, numbers=numbers)
        self.report = self._verification.report
        self._personal = PersonalCheck(self.report, expected=self._expects_personal)
        self.report.notices.append(f"The export begins after seal {start.n}; what was before is not in it.")

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
            # Only the first line may name the seal before a range: a later one would drop what was read before it.
            case "start" if self.line == 2:
                self._start_after(record)
            case "seal" if not self.report.unsealed:
                self._verification.seal(seal_of(record))
            case "checkpoint" if self.report.seals and not self.report.unsealed:
                self._verification.checkpoint(record["note"])
            case other:
                raise ValueError(f"a line of the type {other!r} that does not belong there")


def _counted(file: Iterable[bytes], progress: Progress) -> Iterator[bytes]:
    """The lines of a file; `progress` is called with how many bytes they have."""
    read = 0
    for number, line in enumerate(file):
        read += len(line)
        if number % 4096 == 0:
            progress(read)
        yield line
