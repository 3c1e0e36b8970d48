"""Sealing: committed rows become leaves of the tree, batch by batch, in the order of snapshot windows.

Rows cannot be sealed by id: ids are handed out before the commit, so a row with a lower id may appear after one
with a higher id was read, and would never be sealed. Transaction ids alone do not help either, for the same reason.
A window asks the database itself: it holds the rows whose transactions the snapshot at its end shows and the snapshot
at its start did not. Windows join end to end, so every committed row falls into exactly one, however long its
transaction took; an idle writer delays its own rows and no others.

Two things must never change here. The snapshot is taken in an earlier statement than the rows, so that whatever it
shows is visible to the statement that reads them. And the lock is taken in a statement before both, in READ
COMMITTED, so that a sealer sees the batch that the last holder of the lock committed. Any number of sealers may run;
one that is killed leaves nothing behind, since a batch is one transaction.

A snapshot names the running transactions below its end, which is the last one that had ended. Later ones may have been
running just as well. The sealer names them too, up to its own transaction: from the stored snapshots it then follows
whether a transaction began before a window's end, and with it how old its rows can be.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from atlas.audit.verifier.format import EVENT_LEAF, HEAD, NOTHING, Seal, Snapshot, header_leaf
from atlas.audit.verifier.tree import HASH, Frontier
from atlas.db.pool import Connection
from atlas.db.statements import Statement, fetch, fetch_row, fetch_value, statement
from atlas.errors import AtlasError

LOCK = statement("audit/sealing/sql/seal_lock.sql")
STATE = statement("audit/sealing/sql/seal_state.sql")
WINDOW = statement("audit/sealing/sql/seal_window.sql")
REST = statement("audit/sealing/sql/seal_rest.sql")
NUMBERS = statement("audit/sealing/sql/seal_numbers.sql")
OWN = statement("audit/sealing/sql/seal_own.sql")
INSERT = statement("audit/sealing/sql/seal_insert.sql")

BATCH = 4096
# With nothing to seal, an empty batch once a minute shows that the sealer is alive and that the log ends there.
HEARTBEAT = timedelta(seconds=60)
# At most this many of the transactions that began while a batch was read are named as running: a seal stays small.
MAX_NAMED = 10_000
_HEAD_AND_DIGEST = HEAD.size + HASH


class OtherCluster(AtlasError):
    """The audit log was restored into another cluster, where its transaction ids mean other transactions."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"Sealing is refused: {reason}.",
            remedy="After a restore or an upgrade, check the audit log and run `atlas audit new-epoch`.",
        )


class NoEpoch(AtlasError):
    """The row of an epoch is missing, so that its audit rows belong to none."""

    def __init__(self, what: str = "the audit log has no epoch") -> None:
        super().__init__(
            f"Sealing is refused: {what}.",
            remedy="Someone deleted from audit_epoch; restore it from a backup and run `atlas audit verify`.",
        )


@dataclass(frozen=True, slots=True)
class SealWindow:
    """What the next batch may take in: its seal as far as it is known, and the row to go on after."""

    seal: Seal
    after_xid: int
    after_id: int
    last_xid: int | None = None
    last_id: int | None = None


async def seal(conn: Connection) -> int:
    """Seal everything that is committed now and return how many rows that was; 0 if another sealer holds the lock."""
    rows = 0
    while True:
        sealed = await seal_batch(conn)
        if sealed is None:
            return rows
        rows += sealed.count - 1
        if sealed.closes and not sealed.rest:
            return rows


async def seal_batch(conn: Connection, *, limit: int = BATCH) -> Seal | None:
    """Seal one batch in a transaction of its own. None: another sealer has the lock, or no batch is due."""
    async with conn.transaction(isolation="read_committed"):
        await conn.execute("set local synchronous_commit = on")
        if not await fetch_value(conn, LOCK):
            return None
        state = await fetch_row(conn, STATE)
        if state is None:
            raise NoEpoch
        check_cluster(state)
        window = next_window(state)
        heads = await read_window(conn, window, limit)
        window = replace(window, seal=replace(window.seal, closes=len(heads) < limit * _HEAD_AND_DIGEST))
        if not heads and not _is_due(state, window.seal):
            return None
        seal = await complete(conn, window.seal, is_new=window.seal.snap_cur == state["snapshot"])
        return await add_seal(conn, seal, heads, Frontier(state["size"] or 0, state["frontier"] or b""))


def check_cluster(state: Any) -> None:
    """Refuse a cluster that is not the epoch's: other identifier, or transaction ids behind those already sealed."""
    if state["system_identifier"] != state["expected_identifier"]:
        raise OtherCluster(
            f"epoch {state['epoch']} belongs to cluster {state['expected_identifier']},"
            f" this one is {state['system_identifier']}"
        )
    if state["n"] is not None and state["seal_epoch"] == state["epoch"]:
        reached, sealed = Snapshot(state["snapshot"]).xmax, Snapshot(state["snap_cur"]).xmax
        if reached < sealed:
            raise OtherCluster(f"its transaction ids have reached {reached}, but {sealed} was sealed before")


def next_window(state: Any) -> SealWindow:
    """The window to go on with: the open one, else the next; before a new epoch's first, what is left of the old."""
    begun = Seal(
        n=(state["n"] or 0) + 1,
        epoch=state["epoch"],
        epoch_at="",
        system_identifier=state["system_identifier"],
        snap_prev=NOTHING,
        snap_cur=state["snapshot"],
        snap_at=_text(state["now"]),
        closes=True,
        rest=False,
        to_xid=0,
        to_id=0,
        max_id=0,
        first_index=state["size"] or 0,
        count=0,
        size=0,
        sealed_at=_text(state["now"]),
    )
    if state["n"] is None or (state["seal_epoch"] < state["epoch"] and state["rest"] and state["closes"]):
        return SealWindow(begun if state["next_epoch"] == state["epoch"] else _unsealed_epoch(state, begun), 0, 0)
    same = replace(begun, epoch=state["seal_epoch"], max_id=state["max_id"])
    open_one = replace(same, snap_prev=state["snap_prev"], snap_cur=state["snap_cur"], snap_at=_text(state["snap_at"]))
    if state["seal_epoch"] < state["epoch"]:
        return _rest_of_epoch(state, open_one)
    if state["closes"]:
        return SealWindow(replace(same, snap_prev=state["snap_cur"]), 0, 0)
    return SealWindow(open_one, int(state["to_xid"]), state["to_id"])


def _unsealed_epoch(state: Any, begun: Seal) -> Seal:
    """All of an epoch that ended before it had a seal is what is left of it: no window of its own showed anything."""
    return replace(begun, epoch=state["next_epoch"], snap_cur=NOTHING, rest=True)


def _rest_of_epoch(state: Any, last: Seal) -> SealWindow:
    seal = replace(last, rest=True, snap_at=last.snap_at if state["rest"] else _text(state["now"]))
    window = SealWindow(seal, int(state["to_xid"]), state["to_id"]) if state["rest"] else SealWindow(seal, 0, 0)
    if state["normal_closes"] or state["normal_to_xid"] is None:
        return window
    return replace(window, last_xid=int(state["normal_to_xid"]), last_id=state["normal_to_id"])


async def read_window(conn: Connection, window: SealWindow, limit: int) -> bytes:
    """Up to `limit` rows of a window, each as its head and the SHA-256 of its bytes."""
    bounds: dict[str, Any] = {
        "epoch": window.seal.epoch,
        "prev": window.seal.snap_prev,
        "cur": window.seal.snap_cur,
        "after_xid": str(window.after_xid),
        "after_id": window.after_id,
        "limit": limit,
    }
    query: Statement = WINDOW
    if window.seal.rest:
        query = REST
        last_xid = None if window.last_xid is None else str(window.last_xid)
        bounds.update(last_xid=last_xid, last_id=window.last_id, boundary=window.seal.max_id)
    heads: bytes | None = await fetch_value(conn, query, **bounds)
    return heads or b""


def _is_due(state: Any, seal: Seal) -> bool:
    """True if a batch is due although it has no rows: a window to close, an epoch to end, a heartbeat."""
    if state["n"] is None or not state["closes"] or seal.rest or seal.epoch != state["seal_epoch"]:
        return True
    overdue: bool = state["now"] - state["sealed_at"] >= HEARTBEAT
    return overdue


async def complete(conn: Connection, seal: Seal, *, is_new: bool) -> Seal:
    """The seal with the beginning of its epoch, and of a new window the snapshot up to this very transaction."""
    own = await fetch_row(conn, OWN, epoch=seal.epoch)
    assert own is not None
    if own["epoch_at"] is None:
        raise NoEpoch(f"the row of epoch {seal.epoch} is missing in audit_epoch")
    snapshot = widened(seal.snap_cur, int(own["xid"])) if is_new else seal.snap_cur
    return replace(seal, epoch_at=_text(own["epoch_at"]), snap_cur=snapshot)


def widened(snapshot: str, until: int) -> str:
    """The same snapshot up to a later transaction; those between had not ended, so they are named as running."""
    xmin, xmax, running = snapshot.split(":")
    later = range(int(xmax), until)[:MAX_NAMED]
    return f"{xmin}:{int(xmax) + len(later)}:{','.join(filter(None, [running, *map(str, later)]))}"


async def add_seal(conn: Connection, seal: Seal, heads: bytes, tree: Frontier) -> Seal:
    """Turn rows into leaves, grow the tree, and store the batch."""
    present = {heads[at + 28 : at + 44] for at in range(0, len(heads), _HEAD_AND_DIGEST)}
    rows = await fetch(conn, NUMBERS, tenants=[UUID(bytes=tenant) for tenant in present])
    before = {row["tenant_id"].bytes: row["number"] for row in rows}
    leaves, reached, max_id = _leaves(heads, dict(before))
    if heads:
        _, to_xid, to_id, _, _ = HEAD.unpack_from(heads, len(heads) - _HEAD_AND_DIGEST)
        seal = replace(seal, to_xid=to_xid, to_id=to_id)
    if not seal.rest:
        seal = replace(seal, max_id=max(seal.max_id, max_id))
    seal = replace(seal, count=len(leaves) + 1, size=seal.first_index + len(leaves) + 1)
    header = seal.written_header()
    leaves.append(header_leaf(header))
    tree.extend(leaves)
    tenants = tuple(
        (str(UUID(bytes=tenant)), before[tenant] + 1, reached[tenant] - before[tenant]) for tenant in reached
    )
    hashes = b"".join(leaves)
    seal = replace(seal, header=header, leaf_hashes=hashes, frontier=tree.packed(), root=tree.root(), tenants=tenants)
    await fetch_value(conn, INSERT, **_columns(seal))
    return seal


def _leaves(heads: bytes, numbers: dict[bytes, int]) -> tuple[list[bytes], dict[bytes, int], int]:
    """The leaf of every row, the numbers the tenants reach, the highest id."""
    leaves, highest, digest, size = [], 0, hashlib.sha256, HEAD.size
    for at in range(0, len(heads), _HEAD_AND_DIGEST):
        head = heads[at : at + size]
        tenant = head[28:44]
        numbers[tenant] = number = numbers[tenant] + 1
        row = EVENT_LEAF + head + number.to_bytes(8, "big") + heads[at + size : at + _HEAD_AND_DIGEST]
        leaves.append(digest(row).digest())
        id = int.from_bytes(head[12:20], "big")
        if id > highest:
            highest = id
    return leaves, numbers, highest


def _columns(seal: Seal) -> Mapping[str, Any]:
    names = [name for name in Seal.__dataclass_fields__ if name != "tenants"]
    columns = {name: getattr(seal, name) for name in names}
    columns.update(
        to_xid=str(seal.to_xid),
        epoch_at=datetime.fromisoformat(seal.epoch_at),
        snap_at=datetime.fromisoformat(seal.snap_at),
        sealed_at=datetime.fromisoformat(seal.sealed_at),
        tenants=[UUID(tenant) for tenant, _, _ in seal.tenants],
        first_numbers=[first for _, first, _ in seal.tenants],
        counts=[count for _, _, count in seal.tenants],
    )
    return columns


def _text(at: datetime) -> str:
    return at.isoformat(timespec="microseconds")
