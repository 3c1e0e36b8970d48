"""Verifies an audit log batch by batch: the rows of a batch, its seal, and what was signed at its size."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from .checkpoints import CheckpointCheck
from .diff import explain
from .format import (
    EVENT_LEAF,
    HEAD,
    Report,
    Seal,
    Snapshot,
    counted,
    header_leaf,
    number_of,
    text_of_time,
    time_of_text,
)
from .orders import OrderCheck
from .signed_notes import Checkpoint, VerifierKey
from .signers import NAMING
from .tree import Frontier, split
from .unsealed import LogEnd, SeenIds, UnsealedCheck
from .window import CLOCK_SLACK, RowWindow, broken_links

SEAL_LAG = timedelta(seconds=60)
# Every row comes by here. Those that are about the log itself have this text, and are read.
OWN = b'"AUDIT_'


class Verification:
    """One walk. Without `start` it begins at the first seal; with it, after that seal and with those numbers.

    `outside` are notes kept where the database's administrator cannot write; only they show that the end of the
    audit log was cut off, or that all of it was sealed anew. `pruned_through` is the last seal whose rows were
    removed by order; the walk must find the event of that order, or it reports the rows as missing.
    """

    def __init__(
        self,
        keys: Sequence[VerifierKey],
        outside: Iterable[str] = (),
        *,
        start: Seal | None = None,
        numbers: Mapping[bytes, int] | None = None,
        pruned_through: int = 0,
    ) -> None:
        self.report = Report()
        self.last = start
        self._tree = Frontier() if start is None else Frontier(start.size, start.frontier)
        self._numbers = dict(numbers or {})
        self._window = None if start is None else RowWindow.of(start, None)
        self._kept = 0
        # When epochs began, by their events.
        self._events: dict[int, int] = {}
        self._rows: list[tuple[bytes, bytes]] = []
        self._ids = SeenIds()
        self._unsealed: UnsealedCheck | None = None
        self._checkpoints = CheckpointCheck(self.report, keys, outside, self._tree.size)
        self._orders = OrderCheck(self._checkpoints.signers, keys, pruned_through)

    def row(self, head: bytes, body: bytes) -> None:
        """A row of the batch whose seal comes next, in the order of the batch."""
        self._rows.append((head, hashlib.sha256(body).digest()))
        if OWN in body:
            self._read_event(head, body)

    def seal(self, seal: Seal) -> None:
        """The seal of the rows since the last one."""
        rows, self._rows = self._rows, []
        broken = broken_links(self.last, seal)
        for reason in broken:
            self.report.find("seal", f"Seal {seal.n} {reason}.", seal=seal.n, leaves=seal.leaves)
        before, self._window = self._window, RowWindow.of(seal, self._window)
        if self._window is not before:
            self._check_epoch(seal, self._window)
        if self.last is not None and _is_after_restore(self.last, seal):
            self._checkpoints.restored.add(self.last.epoch)
        if broken:
            self._take_numbers(seal, before=True)
        self._grow(seal, self._leaves(seal, rows), intact=not broken)
        self.last = seal
        self._orders.reach(seal)
        self.report.seals += 1
        self.report.rows += len(rows)
        self._checkpoints.compare_outside(seal.size, self._tree, seal.epoch)

    def checkpoint(self, note: str) -> Checkpoint | None:
        """A note of the audit log itself, signed at the size that the last seal has reached."""
        return self._checkpoints.compare(note, self._tree, 0 if self.last is None else self.last.epoch)

    def forget_rows(self, pruned_through: int) -> None:
        """The rows of the batch whose seal comes next were removed by order while they were read."""
        self._rows = []
        self._orders.through = pruned_through

    def unsealed(self, head: bytes, body: bytes, end: LogEnd, *, is_live: bool = False) -> None:
        """A row after the last seal, which no seal covers yet. Only of a live audit log it may order or name a key."""
        if self._unsealed is None:
            self._unsealed = UnsealedCheck(self.last, self._window, end)
        self.report.unsealed += 1
        self._unsealed.check(self.report, head)
        self._check_new([HEAD.unpack(head)[2]])
        if is_live and OWN in body:
            self._read_event(head, body)

    def finish(self, now: datetime, *, to_the_end: bool = True, until: datetime | None = None) -> Report:
        """What was found. `to_the_end` says that the walk was meant to reach the newest rows, as of `now`.

        What was signed from `until` on cannot be in an export that was made, or ends, then. A live audit log has no
        such time.
        """
        if self._rows:
            message = f"After the last seal: {counted(len(self._rows), 'row')} in no batch."
            self.report.find("row", message, row=HEAD.unpack(self._rows[0][0])[2])
        size = self._tree.size
        self._checkpoints.finish(self._tree, until)
        self._orders.finish(self.report, self._kept)
        uncovered = size - self._checkpoints.covered
        # What ends earlier ends with a checkpoint, unless it ends so near the newest rows that none was signed yet.
        if to_the_end or uncovered > 0:
            self._checkpoints.check_age(now)
            self._check_lag(now)
        if uncovered > 0:
            self.report.notices.append(f"No checkpoint covers the last {uncovered} leaves yet.")
        self.report.last_seal = 0 if self.last is None else self.last.n
        self.report.size = size
        self.report.root = self._tree.root().hex()
        return self.report

    def _check_epoch(self, seal: Seal, window: RowWindow) -> None:
        event_at = self._events.pop(seal.epoch, None)
        if window.is_misdated:
            message = f"Epoch {seal.epoch} claims to have begun at {seal.epoch_at}, when the one before had not ended."
            self.report.find("time", message, seal=seal.n)
        elif event_at is not None and abs(event_at - time_of_text(seal.epoch_at)) > CLOCK_SLACK:
            message = (
                f"Epoch {seal.epoch} began at {seal.epoch_at} by its seals, and at {text_of_time(event_at)} by its"
            )
            self.report.find("time", f"{message} event.", seal=seal.n)

    def _read_event(self, head: bytes, body: bytes) -> None:
        """Read an event about the log itself; other events may have the text somewhere else."""
        try:
            event = json.loads(body)
            if event["tenant_id"] is not None or NAMING.get(event["action"]) != event["entity_type"]:
                return
            if event["action"] == "AUDIT_PRUNED":
                self._orders.read(event, HEAD.unpack(head)[0], self._tree.size + max(len(self._rows) - 1, 0))
            self._checkpoints.signers.read(event)
            if event["action"] == "AUDIT_EPOCH":
                self._events[int(event["meta"]["epoch"])] = HEAD.unpack(head)[3]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return

    def _leaves(self, seal: Seal, rows: Sequence[tuple[bytes, bytes]]) -> list[bytes]:
        """The batch's leaves as its rows give them; as they are stored where rows were removed or are damaged."""
        stored = split(seal.leaf_hashes)
        if not rows and seal.count > 1 and seal.n <= self._orders.through:
            self.report.pruned += seal.count - 1
            self._check_pruned(seal, stored)
            self._take_numbers(seal)
            return stored
        self._kept += len(rows) if seal.n <= self._orders.through else 0
        numbers: dict[bytes, int] = {}
        leaves = [*self._event_leaves(seal, rows, numbers), header_leaf(seal.header)]
        if leaves == stored:
            self._check_new((int.from_bytes(head[12:20], "big") for head, _ in rows), seal.n)
        elif self._tree.copy().extend(leaves).root() == seal.root:
            message = f"Seal {seal.n} stores leaves that are not its own."
            self.report.find("seal", message, seal=seal.n, leaves=seal.leaves)
        else:
            self._explain_difference(seal, rows, stored)
            self._take_numbers(seal)
            return stored
        stated = {UUID(tenant).bytes: first + count - 1 for tenant, first, count in seal.tenants}
        if stated != numbers:
            self.report.find("seal", f"Seal {seal.n} states other running numbers than its rows have.", seal=seal.n)
        self._numbers.update(numbers)
        return leaves

    def _explain_difference(self, seal: Seal, rows: Sequence[tuple[bytes, bytes]], stored: Sequence[bytes]) -> None:
        count = len(self.report.findings)
        explain(self.report, seal, rows, stored, self._numbers)
        if len(self.report.findings) == count:
            message = f"The rows of seal {seal.n} do not continue the running numbers of the seals before it."
            self.report.find("seal", message, seal=seal.n, leaves=seal.leaves)

    def _check_pruned(self, seal: Seal, stored: Sequence[bytes]) -> None:
        """Of a batch without its rows, check its header, and that its running numbers continue and add up."""
        if not stored or header_leaf(seal.header) != stored[-1]:
            message = f"Seal {seal.n} has a header that is not the sealed one."
            self.report.find("seal", message, seal=seal.n, leaves=(seal.leaves[1], seal.leaves[1]))
        goes_on = all(first == self._numbers.get(UUID(tenant).bytes, 0) + 1 for tenant, first, _ in seal.tenants)
        if not goes_on or sum(count for _, _, count in seal.tenants) != seal.count - 1:
            message = f"Seal {seal.n} states running numbers that do not continue or do not add up to its removed rows."
            self.report.find("seal", message, seal=seal.n)

    def _event_leaves(self, seal: Seal, rows: Sequence[tuple[bytes, bytes]], numbers: dict[bytes, int]) -> list[bytes]:
        """The leaf of each row, and whether each row belongs into this batch at this position."""
        assert self._window is not None
        usual, low, high = self._window.usual, self._window.low, self._window.high
        tenant_numbers, digest_of, leaves = self._numbers, hashlib.sha256, []
        in_order = sorted(head[4:20] for head, _ in rows)
        if in_order != [head[4:20] for head, _ in rows]:
            self.report.find("row", f"The rows of seal {seal.n} are out of order.", seal=seal.n, leaves=seal.leaves)
        for (head, digest), (epoch, xid, id, time, tenant) in zip(
            rows, HEAD.iter_unpack(b"".join(head for head, _ in rows)), strict=True
        ):
            numbers[tenant] = number = (numbers.get(tenant) or tenant_numbers.get(tenant, 0)) + 1
            leaves.append(digest_of(EVENT_LEAF + head + number.to_bytes(8, "big") + digest).digest())
            # Most rows pass this one line; the exact rules are asked only for the others.
            if not (xid in usual and low <= time <= high and epoch == seal.epoch):
                self._check_window(seal, epoch, xid, id, time)
        return leaves

    def _check_new(self, ids: Iterable[int], seal: int | None = None) -> None:
        for id in self._ids.add(ids):
            self.report.find("row", f"Two rows have the id {id}: one of them was added.", row=id, seal=seal)

    def _check_window(self, seal: Seal, epoch: int, xid: int, id: int, time: int) -> None:
        assert self._window is not None
        if epoch != seal.epoch or not self._window.holds(xid, id):
            self.report.find("row", f"Row {id} does not belong into seal {seal.n}.", row=id, seal=seal.n)
        elif not self._window.earliest(xid) <= time <= self._window.high:
            message = f"The time of row {id}, {text_of_time(time)}, contradicts its transaction and its seal."
            self.report.find("time", message, row=id, seal=seal.n)

    def _grow(self, seal: Seal, leaves: Sequence[bytes], *, intact: bool) -> None:
        """Add the batch to the tree. After damage, go on from what the seal says, so that it is reported once."""
        self._tree.extend(leaves)
        if self._tree.packed() == seal.frontier and self._tree.root() == seal.root and self._tree.size == seal.size:
            return
        if intact:
            message = f"Seal {seal.n} names a root or a frontier that its leaves do not give."
            self.report.find("seal", message, seal=seal.n, leaves=seal.leaves)
        try:
            stated = Frontier(seal.size, seal.frontier)
        except ValueError:
            return
        if stated.root() == seal.root:
            self._tree = stated

    def _take_numbers(self, seal: Seal, *, before: bool = False) -> None:
        for tenant, first, count in seal.tenants:
            self._numbers[UUID(tenant).bytes] = max(first - 1 + (0 if before else count), 0)

    def _check_lag(self, now: datetime) -> None:
        if self.report.unsealed and (
            self.last is None or time_of_text(self.last.sealed_at) < number_of(now - SEAL_LAG)
        ):
            message = f"In no seal: {counted(self.report.unsealed, 'row')}. None was made in the minute before {now}."
            self.report.find("unsealed", message)


def _is_after_restore(last: Seal, seal: Seal) -> bool:
    """True if another cluster made the seal, or transaction ids have gone back."""
    if last.system_identifier != seal.system_identifier:
        return True
    return seal.epoch > last.epoch and Snapshot(seal.snap_cur).xmax < Snapshot(last.snap_cur).xmax
