"""Exports the audit log, or a tenant's part of it, as lines that can be verified without a database.

Everything streams: a batch of seals and some hundred rows are in memory at a time, whatever the size of the log.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from atlas.actors import Actor
from atlas.audit.personal_data import reveal
from atlas.audit.reader import AuditReader, Row
from atlas.audit.record import Event, record
from atlas.audit.sealing.tree_nodes import TreeNodes
from atlas.audit.verification.missing_values import entity_of
from atlas.audit.verifier.export import EXPORT
from atlas.audit.verifier.format import HEAD, Seal
from atlas.audit.verifier.personal import COMMITMENT
from atlas.audit.verifier.records import record_of, write_row
from atlas.db.pool import Connection
from atlas.db.prisma import prisma_on
from atlas.db.statements import fetch, fetch_row, fetch_value, statement
from atlas.errors import Conflict, NotFound

RANGE = statement("audit/exports/sql/export_range.sql")
CHECKPOINTS = statement("audit/sql/verify_checkpoints.sql")
NUMBERS = statement("audit/sql/verify_numbers.sql")
ERASED_SINCE = statement("audit/exports/sql/export_erased.sql")
CHECKPOINT_AFTER = statement("audit/exports/sql/checkpoint_after.sql")


@dataclass(frozen=True, slots=True)
class Extract:
    """What to export: a tenant's rows or all, by the time of sealing, with or without personal values."""

    tenant_id: UUID | None = None
    since: datetime | None = None
    until: datetime | None = None
    personal: bool = False


async def export(
    conn: Connection,
    extract: Extract,
    *,
    actor: Actor,
    reading: Callable[[Connection], AbstractAsyncContextManager[Connection]] = nullcontext,
) -> AsyncGenerator[bytes, None]:
    """The lines of an export, some at a time. That it was made is an event itself.

    `reading` gives the connection for the lines, once it shows what this one shows.
    """
    facts = {"since": extract.since, "until": extract.until, "personal": extract.personal}
    meta = {name: value.isoformat() if isinstance(value, datetime) else value for name, value in facts.items()}
    entity = "everything" if extract.tenant_id is None else str(extract.tenant_id)
    await record(conn, Event("AUDIT_EXPORTED", "audit_log", entity, actor, extract.tenant_id, meta=meta))
    # Closed in order where the caller reads no further: each holds what the next reads from.
    async with reading(conn) as source, aclosing(read_lines(source, extract)) as pieces:
        async for lines in pieces:
            yield lines


async def read_lines(conn: Connection, extract: Extract) -> AsyncGenerator[bytes, None]:
    """The lines of an export, some at a time, without an event about it."""
    reader = await AuditReader.open(conn)
    if reader.state.lacks_epochs:
        raise Conflict(
            "The audit log cannot be exported: the row of an epoch is missing in audit_epoch.",
            remedy="Someone deleted it. Restore it from a backup, and run `atlas audit verify`.",
        )
    lines = _all(conn, reader, extract) if extract.tenant_id is None else _tenant(conn, reader, extract)
    async for line in lines:
        yield line
    state = reader.state
    if extract.personal and await fetch_value(conn, ERASED_SINCE, epoch=state.epoch, snapshot=state.snapshot):
        raise Conflict("Personal values were erased while they were exported.", remedy="Make the export again.")
    yield _line({"type": "end"})


async def _all(conn: Connection, reader: AuditReader, extract: Extract) -> AsyncIterator[bytes]:
    first, last = await _range(conn, reader, extract)
    to_the_end = extract.until is None
    pruned = reader.state.pruned_through if first == 1 else 0
    state = {"epoch": reader.state.epoch, "restored": not reader.state.same_cluster}
    yield _line(_manifest(reader, extract) | {"to_the_end": to_the_end, "pruned_through": pruned, **state})
    before = await reader.seal(first - 1) if first > 1 else None
    if before is not None:
        yield _line(await _start(conn, before))
    begun = reader.state.pruned_through
    async for seal in reader.seals(after=first - 1, last=last):
        count = 0
        async for rows in reader.rows(seal, before):
            yield await _row_lines(conn, "row", [(row, {}) for row in rows], extract)
            count += len(rows)
        await _require_rows(reader, seal, count, begun)
        yield _line(record_of(seal))
        for row in await fetch(conn, CHECKPOINTS, after=before.size if before else 0, size=seal.size):
            yield _line({"type": "checkpoint", "note": row["note"]})
        before = seal
    if to_the_end:
        async for rows in reader.unsealed(before):
            yield await _row_lines(conn, "unsealed", [(row, {}) for row in rows], extract)


async def _tenant(conn: Connection, reader: AuditReader, extract: Extract) -> AsyncIterator[bytes]:
    """A tenant's rows, each with its path to the newest checkpoint; nothing of other tenants but hashes."""
    assert extract.tenant_id is not None
    first, last = await _range(conn, reader, extract)
    signed = await fetch_row(conn, CHECKPOINT_AFTER, size=0)
    if signed is None:
        raise Conflict(
            "No checkpoint has been signed yet.", remedy="Let a scheduler or `atlas up` run for some seconds."
        )
    nodes, owner = TreeNodes(conn, signed["size"]), extract.tenant_id.bytes
    number = 0
    async for seal, first_number in _tenant_seals(conn, reader, extract.tenant_id, first - 1, last):
        if seal.size > signed["size"]:
            break
        if not number:
            yield _head(reader, extract, signed["note"], first_number)
        number, index = first_number, seal.first_index
        async for rows in reader.rows(seal, await reader.seal(seal.n - 1)):
            own: list[tuple[Row, dict[str, Any]]] = []
            for row in rows:
                if row.head[-16:] == owner:
                    path = [step.hex() for step in await nodes.inclusion(index)]
                    own.append((row, {"index": index, "number": number, "path": path}))
                    number += 1
                index += 1
            yield await _row_lines(conn, "row", own, extract)
        await _require_rows(reader, seal, index - seal.first_index, first - 1)
    if not number:
        # The tenant has no row in that range: its numbers continue after those before the range.
        reached = {row["tenant_id"]: row["number"] for row in await fetch(conn, NUMBERS, n=first - 1)}
        yield _head(reader, extract, signed["note"], reached.get(extract.tenant_id, 0) + 1)


async def _require_rows(reader: AuditReader, seal: Seal, count: int, pruned: int) -> None:
    """Stop where rows were removed by order since the first line, which says up to which seal they were removed."""
    if count < seal.count - 1 and seal.n > pruned and await reader.is_pruned(seal):
        raise Conflict("Rows were removed by order while they were exported.", remedy="Make the export again.")


async def _range(conn: Connection, reader: AuditReader, extract: Extract) -> tuple[int, int]:
    """The first and the last seal. An export of everything includes seals without rows, a range does not."""
    row = await fetch_row(conn, RANGE, since=extract.since, until=extract.until)
    assert row is not None
    first, last = row["first"], row["last"]
    if extract != Extract(personal=extract.personal) and first is not None:
        first = max(first, reader.state.pruned_through + 1)
    if first is None or last is None or first > last:
        raise NotFound(
            "sealed row", "in that range", remedy="Ranges go by the time of sealing; see `atlas audit verify`."
        )
    return first, last


async def _tenant_seals(
    conn: Connection, reader: AuditReader, tenant_id: UUID, after: int, last: int
) -> AsyncIterator[tuple[Seal, int]]:
    while seals := await prisma_on(conn).auditsealtenant.find_many(
        100, where={"tenantId": str(tenant_id), "n": {"gt": after, "lte": last}}, order={"n": "asc"}
    ):
        for row in seals:
            seal = await reader.seal(row.n)
            if seal is not None:
                yield seal, row.firstNumber
        after = seals[-1].n


async def _row_lines(
    conn: Connection, kind: str, rows: Sequence[tuple[Row, dict[str, Any]]], extract: Extract
) -> bytes:
    """Rows as lines, each followed by what belongs to it: columns that differ, personal values."""
    values = await _private(conn, [row for row, _ in rows]) if extract.personal else {}
    lines = []
    for row, position in rows:
        lines.append(write_row(kind, row.head, row.body, plain=_is_plain(row), **position))
        if row.differing:
            lines.append(_line({"type": "copies", "id": HEAD.unpack(row.head)[2], "columns": row.differing}))
        if values:
            private_values = [values[commitment] for commitment in COMMITMENT.findall(row.body) if commitment in values]
            lines.extend(_line({"type": "private", **private_value}) for private_value in private_values)
    return b"".join(lines)


async def _private(conn: Connection, rows: Sequence[Row]) -> dict[bytes, dict[str, str]]:
    bodies = [row.body for row in rows if COMMITMENT.search(row.body)]
    if not bodies:
        return {}
    commitments = [commitment.decode() for body in bodies for commitment in COMMITMENT.findall(body)]
    revealed = await reveal(
        conn, commitments, of={entity for body in bodies if (entity := entity_of(body)) is not None}
    )
    return {row["commitment"].encode(): row for row in revealed}


async def _start(conn: Connection, before: Seal) -> dict[str, Any]:
    """What a verifier must know of the part that is not exported; the signed roots cover it."""
    numbers = {str(row["tenant_id"]): row["number"] for row in await fetch(conn, NUMBERS, n=before.n)}
    return {"type": "start", "seal": record_of(replace(before, leaf_hashes=b"", tenants=())), "numbers": numbers}


def _head(reader: AuditReader, extract: Extract, note: str, first_number: int) -> bytes:
    manifest = _manifest(reader, extract) | {"first_number": first_number}
    return _line(manifest) + _line({"type": "checkpoint", "note": note})


def _manifest(reader: AuditReader, extract: Extract) -> dict[str, Any]:
    return {
        "type": "manifest",
        "format": EXPORT,
        "exported_at": reader.state.now,
        "tenant": None if extract.tenant_id is None else str(extract.tenant_id),
        "since": extract.since,
        "until": extract.until,
        "personal": extract.personal,
    }


def _is_plain(row: Row) -> bool:
    """True if the bytes are one line of JSON, as Atlas writes them; what someone else wrote need not be."""
    if b"\n" in row.body:
        return False
    if not row.differing:
        return True
    try:
        return isinstance(orjson.loads(row.body), dict)
    except orjson.JSONDecodeError:
        return False


def _line(record: dict[str, Any]) -> bytes:
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
