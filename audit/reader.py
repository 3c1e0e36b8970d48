"""Reads the audit log in the order of its tree: seals, and the rows of each, for verifying and exporting.

Rows are selected by the windows that the seals name, so a row that was added to an old window appears in its batch,
and one that was removed is missing there. Everything is read in short statements: a long one would hold back the
vacuum of every busy table.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from atlas.audit.verifier.format import HEAD, NOTHING, Seal, text_of_time
from atlas.audit.verifier.unsealed import LogEnd
from atlas.db.pool import Connection
from atlas.db.pooler import set_for_session
from atlas.db.statements import Statement, fetch, fetch_row, statement

SEALS = statement("audit/sql/stream_seals.sql")
WINDOW = statement("audit/sql/stream_window.sql")
REST = statement("audit/sql/stream_rest.sql")
STATE = statement("audit/sql/stream_state.sql")
EPOCHS = statement("audit/sql/stream_epochs.sql")

SEALS_AT_ONCE = 16
ROWS_AT_ONCE = 500

# Stand-ins for nulls in columns that are never null. Postgres assigns no transaction id below 3.
NO_NUMBER = -1
NO_SNAPSHOT = "2:2:"
NO_TENANT = "ffffffff-ffff-ffff-ffff-ffffffffffff"
NO_TIME = -(2**63)
_COLUMNS = {name: field for name, field in Seal.__dataclass_fields__.items() if name not in ("tenants", "to_xid")}


@dataclass(frozen=True, slots=True)
class State:
    """The audit log as it is when a walk begins."""

    last: int
    size: int
    pruned_through: int
    epoch: int
    epochs: int
    reached_epoch: int
    same_cluster: bool
    snapshot: str
    now: datetime

    @property
    def end(self) -> LogEnd:
        """What bounds the rows that are not sealed yet."""
        return LogEnd(self.now, self.epoch, not self.same_cluster)

    @property
    def lacks_epochs(self) -> bool:
        """True if the row of an epoch was deleted: then no one can say which rows are sealed."""
        return not self.epoch == self.epochs >= self.reached_epoch


@dataclass(frozen=True, slots=True)
class Row:
    """A row: its head, its bytes, and the names of the search columns that differ from them."""

    head: bytes
    body: bytes
    differing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """The last ordinary batch of an epoch; the defaults are for an epoch without one."""

    max_id: int = 0
    closes: bool = True
    to_xid: str = "0"
    to_id: int = 0


class AuditReader:
    """A walk through the seals, up to the last one when it began or when it noticed that rows were removed."""

    def __init__(self, conn: Connection, state: State, ends: dict[int, EpochEnd]) -> None:
        self.state = state
        self._conn = conn
        self._ends = ends

    @classmethod
    async def open(cls, conn: Connection) -> "AuditReader":
        """Read where the audit log ends now.

        The search path makes sure that Postgres's own functions are called: a database can have one on which others
        of the same names come first.
        """
        await set_for_session(conn, "search_path", "pg_catalog, public")
        return cls(conn, *await _standing(conn))

    async def is_pruned(self, seal: Seal) -> bool:
        """True if the rows of a seal were removed by order. After an order since the walk began, it ends later."""
        if seal.n > self.state.pruned_through:
            state, ends = await _standing(self._conn)
            if seal.n <= state.pruned_through:
                self.state, self._ends = state, ends
        return seal.n <= self.state.pruned_through

    async def seals(self, *, after: int = 0, last: int | None = None) -> AsyncIterator[Seal]:
        """The seals after one and up to another."""
        while after < (end := self.state.last if last is None else last):
            rows = await fetch(self._conn, SEALS, after=after, last=end, limit=SEALS_AT_ONCE)
            if not rows:
                return
            for row in rows:
                yield seal_from(row)
            after = rows[-1]["n"]

    async def seal(self, n: int) -> Seal | None:
        """One seal."""
        return await anext(self.seals(after=n - 1, last=n), None)

    async def rows(self, seal: Seal, before: Seal | None) -> AsyncIterator[list[Row]]:
        """The rows that belong into a batch today, some hundred at a time. `before` is the seal before it."""
        goes_on = before is not None and not before.closes and before.rest == seal.rest
        after = (str(before.to_xid), before.to_id) if goes_on and before is not None else ("0", 0)
        end = self._ends.get(seal.epoch, EpochEnd())
        bounds: dict[str, Any] = {
            "epoch": seal.epoch,
            "prev": seal.snap_prev,
            "cur": seal.snap_cur,
            "after_xid": after[0],
            "after_id": after[1],
            "to_xid": None if seal.closes else str(seal.to_xid),
            "to_id": None if seal.closes else seal.to_id,
        }
        if not seal.rest:
            async for rows in self._read(WINDOW, **bounds, max_id=self._boundary(seal.epoch)):
                yield rows
        else:
            left = {"last_xid": None, "last_id": None} if end.closes else {"last_xid": end.to_xid, "last_id": end.to_id}
            async for rows in self._read(REST, **bounds, **left, boundary=end.max_id):
                yield rows

    async def unsealed(self, last: Seal | None) -> AsyncIterator[list[Row]]:
        """The rows that were committed when the walk began and are in no seal up to `last`."""
        if self.state.lacks_epochs:
            return
        async for rows in self._left_over(last):
            yield rows
        if not self.state.same_cluster:
            return
        spans: list[tuple[str, str, str, int]] = []
        if last is None or last.epoch != self.state.epoch:
            spans.append((NOTHING, self.state.snapshot, "0", 0))
        else:
            spans.append((last.snap_cur, self.state.snapshot, "0", 0))
            if not last.closes:
                spans.append((last.snap_prev, last.snap_cur, str(last.to_xid), last.to_id))
        for prev, cur, xid, id in spans:
            nowhere = {"to_xid": None, "to_id": None, "max_id": None}
            where = {"epoch": self.state.epoch, "prev": prev, "cur": cur, "after_xid": xid, "after_id": id}
            async for rows in self._read(WINDOW, **where, **nowhere):
                yield rows

    async def _left_over(self, last: Seal | None) -> AsyncIterator[list[Row]]:
        """The rows the sealer has yet to take in of ended epochs, and of one that was restored into another cluster."""
        first = 1 if last is None else last.epoch + (last.rest and last.closes)
        ended = self.state.epoch - self.state.same_cluster
        for epoch, end in sorted(self._ends.items()):
            if not first <= epoch <= ended:
                continue
            window = {"prev": NOTHING, "cur": NOTHING}
            after: dict[str, Any] = {"after_xid": "0", "after_id": 0}
            if last is not None and last.epoch == epoch:
                window = {"prev": last.snap_prev, "cur": last.snap_cur}
                after = {"after_xid": str(last.to_xid), "after_id": last.to_id} if last.rest else after
            left = {"last_xid": None, "last_id": None} if end.closes else {"last_xid": end.to_xid, "last_id": end.to_id}
            where = {"epoch": epoch, "to_xid": None, "to_id": None, "boundary": end.max_id}
            async for rows in self._read(REST, **where, **window, **after, **left):
                yield rows

    def _boundary(self, epoch: int) -> int | None:
        """Rows above it are not in an ordinary window: another cluster wrote them, with ids used before."""
        if epoch == self.state.epoch and self.state.same_cluster:
            return None
        end = self._ends.get(epoch)
        return None if end is None else end.max_id

    async def _read(self, query: Statement, **bounds: Any) -> AsyncIterator[list[Row]]:
        """Pages of rows, a statement each. Rows that share a key, as only a forger makes them, stay together."""
        limit = ROWS_AT_ONCE
        while True:
            fetched = await fetch(self._conn, query, **bounds, limit=limit)
            rows = [Row(head, body, differing(body, copies)) for head, body, copies in fetched]
            if len(rows) < limit:
                yield rows
                return
            whole = [row for row in rows if row.head[4:20] != rows[-1].head[4:20]]
            if not whole:
                limit *= 2
                continue
            yield whole
            _, xid, id, _, _ = HEAD.unpack(whole[-1].head)
            bounds.update(after_xid=str(xid), after_id=id)


async def _standing(conn: Connection) -> tuple[State, dict[int, EpochEnd]]:
    state = await fetch_row(conn, STATE)
    assert state is not None
    ends = {
        row["epoch"]: EpochEnd(row["max_id"], row["closes"], row["to_xid"], row["to_id"])
        if row["to_xid"]
        else EpochEnd()
        for row in await fetch(conn, EPOCHS)
    }
    return State(**{**state, "last": state["last"] or 0}), ends


def seal_from(row: Any) -> Seal:
    """A seal from its columns. A null that someone put there is read as a value that no sealer writes."""
    facts = {name: _stored(row[name], column.type) for name, column in _COLUMNS.items()}
    facts |= {name: text_of_time(number_of_time(row[name])) for name in ("epoch_at", "snap_at", "sealed_at")}
    tenants = tuple(
        (tenant[0] or NO_TENANT, _stored(tenant[1], int), _stored(tenant[2], int)) for tenant in row["tenants"] or ()
    )
    return Seal(**facts, to_xid=int(_stored(row["to_xid"], int)), tenants=tenants)


def _stored(value: Any, kind: Any) -> Any:
    if value is not None:
        return value
    return b"" if kind is bytes else NO_SNAPSHOT if kind is str else NO_NUMBER


def number_of_time(sent: bytes | None) -> int:
    """A time as the database sends it, in microseconds since 2000; infinity and years BC are numbers too."""
    return NO_TIME if sent is None else int.from_bytes(sent, "big", signed=True)


def differing(body: bytes, copies: str) -> tuple[str, ...]:
    """The search columns that differ from the bytes; all of them where the bytes are not an event."""
    if body == copies.encode():
        return ()  # as SQL writes them
    columns, event = _parsed(copies.encode()), _parsed(body)
    if not isinstance(columns, dict):
        return ("meta",)  # the only column that can hold more than a parser takes
    if not isinstance(event, dict):
        return tuple(columns)
    return tuple(name for name in columns.keys() | event.keys() if columns.get(name) != event.get(name))


def _parsed(text: bytes) -> Any:
    """JSON to compare; None where it is not JSON, or nested too deeply to parse."""
    try:
        return _JSON.decode(text.decode())
    except (ValueError, RecursionError, ArithmeticError):
        return None


def _number(text: str) -> tuple[Decimal]:
    """A number as it is written, in a tuple so that it equals no boolean: in Python, False == 0."""
    return (Decimal(text),)


_JSON = json.JSONDecoder(parse_int=_number, parse_float=_number)
