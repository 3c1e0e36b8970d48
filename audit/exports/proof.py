"""Makes proofs as documents: that one row is in the signed tree, and that one signed tree continues another."""

import base64
from typing import Any
from uuid import UUID

from atlas.audit.reader import AuditReader
from atlas.audit.sealing.tree_nodes import TreeNodes
from atlas.audit.verifier.format import HEAD, Seal, event_leaf
from atlas.audit.verifier.proof import CONSISTENCY, PROOF
from atlas.audit.verifier.records import facts_of
from atlas.audit.verifier.tree import sha256
from atlas.db.pool import Connection
from atlas.db.statements import fetch_row, fetch_value, statement
from atlas.errors import Conflict, FieldError, InvalidInput, NotFound

ROW = statement("audit/exports/sql/prove_row.sql")
BOUNDS = statement("audit/exports/sql/prove_bounds.sql")
SHOWS = statement("audit/exports/sql/prove_shows.sql")
BATCH = statement("audit/exports/sql/prove_batch.sql")
CHECKPOINT_AFTER = statement("audit/exports/sql/checkpoint_after.sql")
CHECKPOINT_AT = statement("audit/exports/sql/checkpoint_at.sql")

# Ids and sizes that the database can hold.
STORABLE = range(2**63)


class NotSealed(Conflict):
    """The row is too young: it is in no seal, or no checkpoint covers its seal yet."""

    def __init__(self, id: int, missing: str) -> None:
        super().__init__(
            f"Row {id} cannot be proved yet: no {missing} covers it.",
            remedy="Try again in some seconds; a scheduler or `atlas up` must be running to seal and sign.",
        )


async def prove(conn: Connection, id: int, *, tenant_id: UUID | None = None) -> dict[str, Any]:
    """A document that proves one row to anyone who has the public key. With a tenant, only for a row of its own."""
    row = await fetch_row(conn, ROW, id=id, tenant_id=tenant_id) if id in STORABLE else None
    if row is None:
        raise NotFound("audit row", id, remedy="Rows of pruned seals are gone; proofs made before still hold.")
    seal, position, number = await _position(conn, row["head"])
    if number not in STORABLE:
        message = f"Row {id} cannot be proved: seal {seal.n} has an impossible running number."
        raise Conflict(message, remedy="Run `atlas audit verify`.")
    signed = await fetch_row(conn, CHECKPOINT_AFTER, size=seal.size)
    if signed is None:
        raise NotSealed(id, "checkpoint")
    index = seal.first_index + position
    path = await TreeNodes(conn, signed["size"]).inclusion(index)
    return {
        "format": PROOF,
        "row": {**facts_of(row["head"]), "number": number},
        **_bytes(row["body"]),
        "leaf": event_leaf(row["head"], number, sha256(row["body"])).hex(),
        "index": index,
        "path": [step.hex() for step in path],
        "checkpoint": signed["note"],
    }


async def leaf_position(conn: Connection, id: int, *, tenant_id: UUID | None = None) -> tuple[int, int] | None:
    """The number of the seal that a row is in, and its index among the leaves of the tree; None before it is sealed."""
    row = await fetch_row(conn, ROW, id=id, tenant_id=tenant_id)
    try:
        seal, position, _ = await _position(conn, row["head"]) if row is not None else (None, 0, 0)
    except NotSealed:
        return None
    return None if seal is None else (seal.n, seal.first_index + position)


def _bytes(body: bytes) -> dict[str, str]:
    """A row's bytes in a document: as text, or in base64 where they are not UTF-8."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(body).decode()}


async def prove_consistency(conn: Connection, first: int, second: int | None = None) -> dict[str, Any]:
    """A document that proves that the tree signed at one size continues the one signed at a smaller size."""
    if second is not None and second < first:
        reason = f"a tree of {second} leaves cannot continue one of {first}"
        raise InvalidInput("The range of the proof", [FieldError("to", reason)])
    notes = [await _checkpoint(conn, first)]
    newest = await fetch_row(conn, CHECKPOINT_AFTER, size=first)
    notes.append(newest if second is None else await _checkpoint(conn, second))
    path = await TreeNodes(conn, notes[1]["size"]).consistency(first)
    return {
        "format": CONSISTENCY,
        "first": notes[0]["note"],
        "second": notes[1]["note"],
        "path": [step.hex() for step in path],
    }


async def _checkpoint(conn: Connection, size: int) -> Any:
    row = await fetch_row(conn, CHECKPOINT_AT, size=size) if size in STORABLE else None
    if row is None:
        raise NotFound(
            "checkpoint of size", size, remedy="Checkpoints are listed in the files of ATLAS_CHECKPOINT_DIR."
        )
    return row


async def _position(conn: Connection, head: bytes) -> tuple[Seal, int, int]:
    """The seal of a row, its position there, and its tenant's running number."""
    epoch, xid, id, _, tenant = HEAD.unpack(head)
    n = await _seal_of(conn, epoch, xid, id)
    if n is None:
        raise NotSealed(id, "seal")
    reader = await AuditReader.open(conn)
    before, seal = await reader.seal(n - 1), await reader.seal(n)
    assert seal is not None
    number = {UUID(tenant).bytes: first for tenant, first, _ in seal.tenants}.get(tenant, 1)
    position = 0
    async for rows in reader.rows(seal, before):
        for row in rows:
            if row.head == head:
                return seal, position, number
            position += 1
            number += row.head[-16:] == tenant
    raise NotSealed(id, "seal")


async def _seal_of(conn: Connection, epoch: int, xid: int, id: int) -> int | None:
    """The batch of a row, found by halving: once a window shows a transaction, every later one does."""
    bounds = await fetch_row(conn, BOUNDS, epoch=epoch)
    if bounds is None or bounds["first"] is None:
        return None
    low, rest, end = bounds["first"], bounds["rest"], bounds["last"]
    last = end if rest is None else rest - 1
    row: int | None = None
    if last >= low and id <= bounds["boundary"] and await fetch_value(conn, SHOWS, n=last, xid=str(xid)):
        high = last
        while low < high:
            middle = (low + high) // 2
            if await fetch_value(conn, SHOWS, n=middle, xid=str(xid)):
                high = middle
            else:
                low = middle + 1
        row = await fetch_value(conn, BATCH, first=low, last=last, xid=str(xid), id=id)
    if row is None and rest is not None:
        row = await fetch_value(conn, BATCH, first=rest, last=end, xid=str(xid), id=id)
    return row
