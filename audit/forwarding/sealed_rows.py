"""Reads the sealed rows of the audit log in the order of its tree, from a place on."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import orjson

from atlas.audit.reader import AuditReader, Row
from atlas.audit.verifier.format import HEAD, Seal, text_of_time
from atlas.db.pool import Connection
from atlas.logs import get_logger

log = get_logger("audit.forward")


@dataclass(frozen=True, slots=True)
class Place:
    """How far a forwarder is: all rows up to a seal, and some rows of the next seal."""

    seal: int = 0
    rows: int = 0


@dataclass(frozen=True, slots=True)
class SealedRow:
    """A row with its number among all sealed rows: they are numbered from 1, without gaps."""

    number: int
    id: int
    epoch: int
    seal: int
    time: str
    event: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows that follow each other, and the place after them. It may be empty: seals without rows are passed."""

    rows: tuple[SealedRow, ...]
    place: Place
    # Rows that were removed by order before they were forwarded.
    pruned: int = 0


async def read_sealed(conn: Connection, place: Place, *, most: int) -> AsyncIterator[Chunk]:
    """The rows after a place up to the last seal, in chunks of at most this size."""
    reader = await AuditReader.open(conn)
    before = await reader.seal(place.seal) if place.seal else None
    async for seal in reader.seals(after=place.seal):
        passed = place.rows if seal.n == place.seal + 1 else 0
        waiting: list[SealedRow] = []
        count = 0
        async for rows in reader.rows(seal, before):
            for row in rows:
                count += 1
                if count <= passed:
                    continue
                waiting.append(_sealed(row, seal, count))
                if len(waiting) == most:
                    yield Chunk(tuple(waiting), Place(seal.n - 1, count))
                    waiting = []
        missing = seal.count - 1 - count
        if missing and not await reader.is_pruned(seal):
            log.error("rows of a seal are missing: run `atlas audit verify`", seal=seal.n, rows=missing)
            missing = 0
        yield Chunk(tuple(waiting), Place(seal.n), pruned=missing)
        before = seal


def _sealed(row: Row, seal: Seal, count: int) -> SealedRow:
    epoch, _, id, time, _ = HEAD.unpack(row.head)
    # Each seal before this one has added a leaf for its header.
    number = seal.first_index - (seal.n - 1) + count
    try:
        event = orjson.loads(row.body)
    except orjson.JSONDecodeError:
        event = None
    if not isinstance(event, dict):
        event = {"action": "UNREADABLE", "level": "error", "message": "The bytes of the row are not an event."}
    return SealedRow(number, id, epoch, seal.n, text_of_time(time), event)
