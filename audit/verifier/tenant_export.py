"""Verifies a tenant's own rows: each with its path to one signed root, numbered without gaps."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from .export_lines import ROW, ExportLines
from .format import Report, event_leaf
from .records import read_row
from .signed_notes import BadNote, Checkpoint, VerifierKey, open_note
from .tree import included, sha256

PATH = frozenset(("index", "number", "path"))


class TenantExport(ExportLines):
    """A tenant's part of the audit log."""

    def __init__(self, manifest: dict[str, Any], keys: Sequence[VerifierKey], outside: Sequence[str]) -> None:
        self.report = Report()
        self._keys = keys
        self._tenant = UUID(manifest["tenant"]).bytes
        self._first = manifest["first_number"]
        self.number = self._first - 1
        self._checkpoint: Checkpoint | None = None
        self._outside = [self._open(note, "An outside copy of a checkpoint") for note in outside]
        super().__init__(personal=manifest["personal"])

    def finish(self) -> Report:
        """The report, once all lines were fed."""
        self.check_end()
        # An erasure of the last seconds is not signed yet, and so not in a tenant's export.
        self._personal.finish(has_all_events=False)
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
        for checkpoint in self._outside:
            if checkpoint is None or signed is None or checkpoint.size != signed.size:
                others += checkpoint is not None
            elif checkpoint.root != signed.root:
                signed_at = f"at {checkpoint.at} for {checkpoint.size} leaves"
                message = f"The export's checkpoint is not the one that was signed {signed_at}."
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
            reached = f"Its range begins after the tenant's row {self.number}." if self.number else ""
            message = f"The export holds no rows of the tenant; any that there are would not show. {reached}"
            self.report.notices.append(message.strip())
            return
        message = f"These are the tenant's rows {self._first} to {self.number}; "
        message += "later ones would not show." if self._first == 1 else "earlier and later ones would not show."
        self.report.notices.append(message)

    def _row(self, facts: dict[str, Any], head: bytes, body: bytes) -> None:
        self.report.rows += 1
        id, index = facts["id"], facts["index"]
        if facts["number"] != self.number + 1:
            message = f"The tenant's number {self.number + 1} is missing: row {id} has number {facts['number']}."
            self.report.find("row", message, row=id, leaves=(index, index))
        self.number = facts["number"]
        if head[-16:] != self._tenant:
            self.report.find("row", f"Row {id} belongs to another tenant.", row=id, leaves=(index, index))
        path = [bytes.fromhex(step) for step in facts["path"]]
        leaf = event_leaf(head, self.number, sha256(body))
        signed = self._checkpoint
        if signed is None or not included(leaf, index, signed.size, path, signed.root):
            self.report.find("row", f"Row {id} is not in the signed tree.", row=id, leaves=(index, index))
