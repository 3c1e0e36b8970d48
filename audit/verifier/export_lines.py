"""What the two kinds of exports have in common: rows and other lines, up to one that ends them."""

import json
from collections.abc import Iterator
from typing import Any

from .format import Report
from .personal import PersonalCheck

ROW = b'{"type":"row",'
UNSEALED = b'{"type":"unsealed",'
CUT_OFF = "The export is cut off: its last line is missing."


class ExportLines:
    """The lines of an export: rows, personal values, search columns that differ. A kind of export adds its own."""

    report: Report

    def __init__(self, *, personal: bool) -> None:
        # That of the last line that was fed; the manifest was the first.
        self.line = 1
        self._expects_personal = personal
        self._personal = PersonalCheck(self.report, expected=personal)
        self._has_ended = False
        self._goes_on = False

    def feed(self, lines: Iterator[bytes]) -> None:
        """Check the next lines."""
        for line in lines:
            self.line += 1
            if self._has_ended:
                self._goes_on = True
                return
            if line.startswith((ROW, UNSEALED)):
                self._personal.row(line, self._take(line))
                continue
            record = json.loads(line)
            match record["type"]:
                case "copies":
                    _report_copies(self.report, record)
                case "private":
                    self._personal.value(record)
                case "end":
                    self._has_ended = True
                case _:
                    self._read(record)

    def check_end(self) -> None:
        """Report an export that does not end, goes on after its end, or that no one signed."""
        if not self._has_ended:
            self.report.find("export", CUT_OFF)
        if self._goes_on:
            self.report.find("export", "Lines follow the one that ends the export.")
        if not self.report.checkpoints and not self.report.outside:
            message = "No valid checkpoint covers any of the export: its author may have invented it."
            self.report.find("checkpoint", message)

    def _take(self, line: bytes) -> bytes:
        """Check a row and return its bytes."""
        raise NotImplementedError

    def _read(self, record: dict[str, Any]) -> None:
        """Check a line of another kind."""
        raise NotImplementedError


def _report_copies(report: Report, record: dict[str, Any]) -> None:
    message = f"The search columns of row {record['id']} differ from its bytes: {', '.join(record['columns'])}."
    report.find("copies", message, row=record["id"])
