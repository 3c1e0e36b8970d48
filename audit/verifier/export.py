"""The walk through an export: a file of lines, each one JSON object with a type. And through a single proof.

A row's line ends with its bytes exactly as they are stored, `,"body":{…}}`, so it can be read by people and hashed
without writing it anew. Whoever formats the file again breaks it, and the check says so.
"""

import base64
import hashlib
import json
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import UUID

from .check import Verification
from .format import HEAD, Report, Seal, event_leaf, text_of_time, time_of_text
from .signed_notes import BadNote, Checkpoint, VerifierKey, open_note
from .tree import consistent, included, sha256

EXPORT = "atlas-audit-export/1"
PROOF = "atlas-audit-proof/1"
CONSISTENCY = "atlas-audit-consistency/1"
BODY = b',"body":'
ROW = b'{"type":"row",'
START = b'{"type":"start",'
FACTS = frozenset(("type", "id", "epoch", "xid", "at", "tenant"))
PATH = frozenset(("index", "number", "path"))
CUT_OFF = "The export is cut off: its last line is missing."
_BYTES = ("header", "leaf_hashes", "frontier", "root")
# Nearly every row's line has this shape and is read by it, in half the time that JSON takes; the rest are read as JSON.
_USUAL = re.compile(
    rb'\{"type":"row","id":(\d+),"epoch":(\d+),"xid":(\d+),"at":"([^"]+)","tenant":(?:"([^"]+)"|null),"body":'
)

# What reading a file raises that is not what it says it is.
UNREADABLE = (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError, struct.error)

Progress = Callable[[int], None]


def verify_export(
    path: Path, keys: Sequence[VerifierKey], outside: Sequence[str] = (), *, progress: Progress | None = None
) -> Report:
    """Check an export. `outside` are notes kept elsewhere; `progress` is told how many bytes have been read."""
    with path.open("rb") as file:
        lines = _told(file, progress)
        walk: _ExportCheck | _TenantExportCheck | None = None
        try:
            manifest = json.loads(next(lines, b""))
            if not isinstance(manifest, dict) or manifest.get("format") != EXPORT:
                raise ValueError(f"the first line is no manifest of {EXPORT}")
            walk = (_ExportCheck if manifest["tenant"] is None else _TenantExportCheck)(manifest, keys, outside)
            return walk.walk(lines)
        except UNREADABLE as error:
            report = Report() if walk is None else walk.report
            report.find("export", f"The export cannot be read: {error!r}.")
            return report


class _ExportCheck:
    """The whole account or a range of its seals: the rows of each batch, its seal, what was signed there."""

    def __init__(self, manifest: dict[str, Any], keys: Sequence[VerifierKey], outside: Sequence[str]) -> None:
        self._manifest = manifest
        self._keys = keys
        self._outside = outside
        self._verification = Verification(keys, outside, pruned_through=manifest["pruned_through"])

    @property
    def report(self) -> Report:
        return self._verification.report

    def walk(self, lines: Iterator[bytes]) -> Report:
        lines = self._begin(lines)
        _read_lines(lines, self.report, self._take, self._read)
        until = now = datetime.fromisoformat(self._manifest["exported_at"])
        to_the_end = self._manifest["to_the_end"]
        if not to_the_end:
            until = min(now, datetime.fromisoformat(self._manifest["until"]))
        self._verification.finish(now, to_the_end=to_the_end, until=until)
        if not to_the_end:
            self.report.notices.append(f"The export ends with seal {self.report.last_seal}; later ones do not show.")
        return self.report

    def _begin(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        """A range begins with the seal before it, and nothing else may: what was read before would be forgotten."""
        first = next(lines, b"")
        if not first.startswith(START):
            return chain([first], lines)
        record = json.loads(first)
        numbers = {UUID(tenant).bytes: number for tenant, number in record["numbers"].items()}
        start = seal_of(record["seal"])
        self._verification = Verification(self._keys, self._outside, start=start, numbers=numbers)
        self.report.notices.append(f"The export begins after seal {start.n}; what was before it does not show.")
        return lines

    def _take(self, line: bytes) -> bytes:
        head, body = _read_quickly(line)
        self._verification.row(head, body)
        return body

    def _read(self, record: dict[str, Any]) -> None:
        match record["type"]:
            case "seal":
                self._verification.seal(seal_of(record))
            case "checkpoint" if self.report.seals:
                self._verification.checkpoint(record["note"])
            case "unsealed" if self._manifest["to_the_end"]:
                self._verification.unsealed()
            case other:
                raise ValueError(f"a line of the type {other!r} that does not belong there")


class _TenantExportCheck:
    """A tenant's own rows: each with its path to one signed root, numbered without gaps."""

    def __init__(self, manifest: dict[str, Any], keys: Sequence[VerifierKey], outside: Sequence[str]) -> None:
        self.report = Report()
        self._keys = keys
        self._tenant = UUID(manifest["tenant"]).bytes
        self._first = manifest["first_number"]
        self._number = self._first - 1
        self._checkpoint: Checkpoint | None = None
        self._outside = [self._open(note, "An outside copy of a checkpoint") for note in outside]

    def walk(self, lines: Iterator[bytes]) -> Report:
        _read_lines(lines, self.report, self._take, self._read)
        self._compare_outside()
        self._tell_numbers()
        return self.report

    def _take(self, line: bytes) -> bytes:
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
                words = f"The export's checkpoint is not the one that was signed at {one.at} for {one.size} leaves."
                self.report.find("checkpoint", words)
            else:
                self.report.outside += 1
        if others:
            self.report.notices.append(
                f"{others} outside copies are of other sizes and could not be compared with the export's checkpoint;"
                " a proof from one size to the other shows whether they agree."
            )

    def _tell_numbers(self) -> None:
        if not self.report.rows:
            reached = f"Its range begins after the tenant's row {self._number}." if self._number else ""
            words = f"The export holds no rows of the tenant; any that there are would not show. {reached}"
            self.report.notices.append(words.strip())
            return
        words = f"These are the tenant's rows {self._first} to {self._number}; "
        words += "later ones would not show." if self._first == 1 else "earlier and later ones would not show."
        self.report.notices.append(words)

    def _row(self, facts: dict[str, Any], head: bytes, body: bytes) -> None:
        self.report.rows += 1
        id, index = facts["id"], facts["index"]
        if facts["number"] != self._number + 1:
            words = f"The tenant's number {self._number + 1} is missing: row {id} has number {facts['number']}."
            self.report.find("row", words, row=id, leaves=(index, index))
        self._number = facts["number"]
        if head[-16:] != self._tenant:
            self.report.find("row", f"Row {id} belongs to another tenant.", row=id, leaves=(index, index))
        path = [bytes.fromhex(step) for step in facts["path"]]
        leaf = event_leaf(head, self._number, sha256(body))
        signed = self._checkpoint
        if signed is None or not included(leaf, index, signed.size, path, signed.root):
            self.report.find("row", f"Row {id} is not in the signed tree.", row=id, leaves=(index, index))


def read_row(line: bytes, *, more: frozenset[str] = frozenset()) -> tuple[dict[str, Any], bytes, bytes]:
    """A row's line as its facts, its head and its bytes. `more` are facts that stand beside those of the head."""
    at = line.find(BODY)
    if at < 0:
        facts = json.loads(line)
        body = base64.b64decode(facts.pop("base64"), validate=True)
    else:
        facts, body = json.loads(line[:at] + b"}"), line[at + len(BODY) : -2]
        if line[-2:] != b"}\n":
            raise ValueError("a row's line does not end with its body")
    if facts.keys() != FACTS | more:
        raise ValueError(f"a row's line with other facts than those that are checked: {sorted(facts)}")
    return facts, head_of(facts), body


def _read_quickly(line: bytes) -> tuple[bytes, bytes]:
    usual = _USUAL.match(line)
    if usual is None or line[-2:] != b"}\n":
        return read_row(line)[1:]
    id, epoch, xid, at, tenant = usual.groups()
    head = HEAD.pack(int(epoch), int(xid), int(id), time_of_text(at.decode()), _tenant(tenant and tenant.decode()))
    return head, line[usual.end() : -2]


def write_row(kind: str, head: bytes, body: bytes, *, plain: bool, **more: Any) -> bytes:
    """The line of a row. `plain` says that its bytes are one line of JSON, as Atlas writes them."""
    facts = json.dumps({"type": kind, **facts_of(head), **more}, separators=(",", ":"))[:-1].encode()
    if plain:
        return facts + BODY + body + b"}\n"
    return facts + b',"base64":"' + base64.b64encode(body) + b'"}\n'


def head_of(facts: dict[str, Any]) -> bytes:
    """A row's head from its facts in words."""
    return HEAD.pack(facts["epoch"], facts["xid"], facts["id"], time_of_text(facts["at"]), _tenant(facts["tenant"]))


def facts_of(head: bytes) -> dict[str, Any]:
    """A row's head in words."""
    epoch, xid, id, time, tenant = HEAD.unpack(head)
    return {"id": id, "epoch": epoch, "xid": xid, "at": text_of_time(time), "tenant": _tenant_text(tenant)}


@lru_cache(maxsize=4096)
def _tenant(text: str | None) -> bytes:
    return bytes(16) if text is None else UUID(text).bytes


@lru_cache(maxsize=4096)
def _tenant_text(tenant: bytes) -> str | None:
    return str(UUID(bytes=tenant)) if any(tenant) else None


def seal_of(record: dict[str, Any]) -> Seal:
    """A seal from its line."""
    facts = {name: value for name, value in record.items() if name != "type"}
    facts.update({name: base64.b64decode(facts[name], validate=True) for name in _BYTES})
    return Seal(**{**facts, "tenants": tuple(tuple(one) for one in facts["tenants"])})


def record_of(seal: Seal) -> dict[str, Any]:
    """A seal as its line."""
    return {"type": "seal", **asdict(seal)} | {name: base64.b64encode(getattr(seal, name)).decode() for name in _BYTES}


def _read_lines(
    lines: Iterator[bytes], report: Report, take: Callable[[bytes], bytes], read: Callable[[dict[str, Any]], None]
) -> None:
    """Read every line, up to one that ends the export. `take` reads a row and answers its bytes, `read` other kinds."""
    body = b""
    for line in lines:
        if line.startswith(ROW):
            body = take(line)
            continue
        record = json.loads(line)
        match record["type"]:
            case "copies":
                _tell_copies(report, record)
            case "private":
                _check_private(report, record, body)
            case "end":
                break
            case _:
                read(record)
    else:
        report.find("export", CUT_OFF)
    if next(lines, None) is not None:
        report.find("export", "Lines follow the one that ends the export.")
    if not report.checkpoints and not report.outside:
        report.find(
            "checkpoint", "No valid checkpoint covers any of the export: whoever wrote the file can have made it up."
        )


def _tell_copies(report: Report, record: dict[str, Any]) -> None:
    words = f"The search columns of row {record['id']} differ from its bytes: {', '.join(record['columns'])}."
    report.find("copies", words, row=record["id"])


def _check_private(report: Report, record: dict[str, Any], body: bytes) -> None:
    committed = hashlib.sha256(bytes.fromhex(record["salt"]) + record["value"].encode()).hexdigest()
    if committed != record["commitment"] or not _stands_as(record["field"], committed, json.loads(body)):
        report.find("private", f"A personal value ({record['field']}) is not the one its row was written with.")


def _stands_as(field: str, commitment: str, value: Any) -> bool:
    """True if the commitment stands in an event under that name, alone or in a list."""
    if not isinstance(value, (dict, list)):
        return False
    named = value.get(field) if isinstance(value, dict) else None
    shapes = named if isinstance(named, list) else [named]
    if any(isinstance(shape, dict) and shape.get("commitment") == commitment for shape in shapes):
        return True
    return any(_stands_as(field, commitment, one) for one in (value.values() if isinstance(value, dict) else value))


def _told(file: Iterable[bytes], progress: Progress | None) -> Iterator[bytes]:
    read = 0
    for count, line in enumerate(file):
        read += len(line)
        if progress is not None and count % 4096 == 0:
            progress(read)
        yield line


def check_proof(document: dict[str, Any], keys: Sequence[VerifierKey]) -> Report:
    """Check that one row is in the signed tree, or that one signed tree is the beginning of another."""
    report = Report()
    try:
        path = [bytes.fromhex(step) for step in document["path"]]
        if document["format"] == CONSISTENCY:
            first, second = open_note(document["first"], keys), open_note(document["second"], keys)
            if not consistent(first.size, first.root, second.size, second.root, path):
                report.find(
                    "checkpoint", f"The tree of {first.size} leaves is not the beginning of that of {second.size}."
                )
        elif document["format"] == PROOF:
            body = document["body"].encode() if "body" in document else base64.b64decode(document["base64"])
            leaf = event_leaf(head_of(document["row"]), document["row"]["number"], sha256(body))
            second = open_note(document["checkpoint"], keys)
            if "leaf" in document and document["leaf"] != leaf.hex():
                words = f"The proof names a leaf that row {document['row']['id']} does not give."
                report.find("row", words, row=document["row"]["id"])
            if "seal" in document:
                report.notices.append("That the row is in the seal named here is not part of the proof.")
            if not included(leaf, document["index"], second.size, path, second.root):
                words = f"Row {document['row']['id']} is not in the signed tree as this proof says."
                report.find("row", words, row=document["row"]["id"])
        else:
            raise ValueError(f"unknown format {document['format']}")
        report.checkpoints, report.size, report.root = 1, second.size, second.root.hex()
    except BadNote as reason:
        report.find("checkpoint", f"The checkpoint {reason}.")
    except UNREADABLE as error:
        report.find("proof", f"The proof cannot be read: {error!r}.")
    return report
