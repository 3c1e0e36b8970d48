"""Rows and seals as lines of an export: each line is one JSON object with a type.

A row's line ends with its bytes exactly as they are stored, `,"body":{…}}`, so that people can read it and a program
can hash it without serialising it again. A file that was formatted again fails the check.
"""

import base64
import json
import re
import struct
from dataclasses import asdict
from functools import lru_cache
from typing import Any
from uuid import UUID

from .format import HEAD, Seal, text_of_time, time_of_text

BODY = b',"body":'
FACTS = frozenset(("type", "id", "epoch", "xid", "at", "tenant"))
_BYTES = ("header", "leaf_hashes", "frontier", "root")
# Nearly every row's line has this shape and is read by it, in half the time that JSON takes; the rest are read as JSON.
_USUAL = re.compile(
    rb'\{"type":"row","id":(\d+),"epoch":(\d+),"xid":(\d+),"at":"([^"]+)","tenant":(?:"([^"]+)"|null),"body":'
)

# The errors of reading a file that is not what it says it is.
UNREADABLE = (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError, struct.error)


def reason_of(error: Exception) -> str:
    """Why something could not be read, as the end of a sentence."""
    if isinstance(error, json.JSONDecodeError):
        return "it is not JSON"
    if isinstance(error, KeyError):
        return f"{error.args[0]} is missing"
    if isinstance(error, ValueError) and error.args:
        return str(error)
    return f"it has other values than it should ({error})"


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


def read_quickly(line: bytes) -> tuple[bytes, bytes]:
    """The same, as head and bytes, for a row without more facts."""
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
    """A row's head from its facts."""
    return HEAD.pack(facts["epoch"], facts["xid"], facts["id"], time_of_text(facts["at"]), _tenant(facts["tenant"]))


def facts_of(head: bytes) -> dict[str, Any]:
    """The facts of a row's head, as JSON values."""
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
    # The other times are read with the line; this one is looked at when all lines were.
    time_of_text(facts["sealed_at"])
    return Seal(**{**facts, "tenants": tuple(tuple(tenant) for tenant in facts["tenants"])})


def record_of(seal: Seal) -> dict[str, Any]:
    """A seal as its line."""
    return {"type": "seal", **asdict(seal)} | {name: base64.b64encode(getattr(seal, name)).decode() for name in _BYTES}
