"""Checks the personal values in an export: each is the one that its row commits to, and none is missing."""

import hashlib
import json
import re
from typing import Any

from .format import Report

COMMITMENT = re.compile(rb'"commitment": ?"([0-9a-f]{64})"')
ERASED = b'"ERASED"'
_ID = re.compile(rb'"id":(\d+)')


class PersonalCheck:
    """The values of one export. If `expected`, it should hold every value that was not erased."""

    def __init__(self, report: Report, *, expected: bool) -> None:
        self._report = report
        self._expected = expected
        self._body = b""
        # By commitment, the row whose value is not in the export; and the commitments that events list as erased.
        self._missing: dict[str, int] = {}
        self._erased: set[str] = set()

    def row(self, line: bytes, body: bytes) -> None:
        """A row, whose values come next."""
        self._body = body
        if not self._expected:
            return
        for commitment in COMMITMENT.findall(body):
            self._missing[commitment.decode()] = int(_ID.findall(line)[0])
        if ERASED in body:
            self._read_erasure(body)

    def value(self, record: dict[str, Any]) -> None:
        """A value of the row that came last."""
        committed = hashlib.sha256(bytes.fromhex(record["salt"]) + record["value"].encode()).hexdigest()
        self._missing.pop(committed, None)
        if committed != record["commitment"] or not _stands_as(record["field"], committed, json.loads(self._body)):
            message = f"A personal value ({record['field']}) is not the one its row was written with."
            self._report.find("private", message)

    def finish(self, *, has_all_events: bool) -> None:
        """Report the values that are missing. Without all later events, they may have been erased."""
        missing = {entry: row for entry, row in self._missing.items() if entry not in self._erased}
        if missing and not has_all_events:
            self._report.notices.append(
                f"{len(missing)} personal values are not in the export; later events may erase them."
            )
            return
        for commitment, row in missing.items():
            message = f"A personal value that row {row} commits to as {commitment} is gone, and no event erased it."
            self._report.find("private", message, row=row)

    def _read_erasure(self, body: bytes) -> None:
        try:
            event = json.loads(body)
            if (event["action"], event["entity_type"]) == ("ERASED", "audit_private"):
                self._erased.update(event["meta"]["commitments"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return  # the text stands somewhere else in the event


def _stands_as(field: str, commitment: str, value: Any) -> bool:
    """True if the commitment stands in an event under that name, alone or in a list."""
    if not isinstance(value, (dict, list)):
        return False
    named = value.get(field) if isinstance(value, dict) else None
    shapes = named if isinstance(named, list) else [named]
    if any(isinstance(shape, dict) and shape.get("commitment") == commitment for shape in shapes):
        return True
    return any(_stands_as(field, commitment, item) for item in (value.values() if isinstance(value, dict) else value))
