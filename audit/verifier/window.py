"""Windows: how seals join, and which rows belong into the window of a seal."""

import json
from dataclasses import dataclass, field

from .format import NOTHING, Seal, Snapshot, time_of_text
from .tree import HASH

# How far two readings of a clock may differ, in microseconds, when the clock was not set.
CLOCK_SLACK = 5_000_000
LONG_AGO = -(2**63)
NEVER = (2**64, 0)


@dataclass(slots=True)
class RowWindow:
    """The window that a batch belongs to, as numbers to compare a row with.

    A transaction that began after the window before had ended cannot have written earlier than that (`low`); one that
    was running then is held to the window in which it began (`bounds`); the first of an epoch, to the epoch's start.
    Where the clock was set back between two windows, the seals show it, and both readings count.
    """

    epoch: int
    window: tuple[str, str, bool]
    prev: Snapshot
    cur: Snapshot
    at: int
    low: int
    high: int
    bounds: dict[int, int] = field(default_factory=dict)
    # For what was left of an epoch: the last ordinary batch and the highest row id before it.
    after: tuple[int, int] = NEVER
    boundary: int | None = None
    sealed_to: tuple[int, int] = NEVER
    max_id: int = 0
    # The last reading of the clock before its epoch can have ended, and whether the epoch claims to be older than that.
    since: int = LONG_AGO
    is_misdated: bool = False

    @property
    def usual(self) -> range:
        """Transactions that began after the window before had ended, and had ended when this one did."""
        return range(0) if self.boundary is not None else range(self.prev.xmax, self.cur.xmin)

    @classmethod
    def of(cls, seal: Seal, before: "RowWindow | None") -> "RowWindow":
        """The window of a seal, after the one of the seal before it."""
        window = (seal.snap_prev, seal.snap_cur, seal.rest)
        sealed_to = NEVER if seal.closes else (seal.to_xid, seal.to_id)
        if before is not None and before.window == window and before.epoch == seal.epoch:
            before.sealed_to, before.max_id = sealed_to, seal.max_id
            return before
        at, begun, snapshots = (
            time_of_text(seal.snap_at),
            time_of_text(seal.epoch_at),
            [Snapshot(snapshot) for snapshot in window[:2]],
        )
        result = cls(
            seal.epoch, window, snapshots[0], snapshots[1], at, low=min(begun, at) - CLOCK_SLACK, high=at + CLOCK_SLACK
        )
        result.sealed_to, result.max_id, result.since = sealed_to, seal.max_id, begun if seal.rest else at
        if before is not None and before.epoch == seal.epoch:
            result._follow(before)
        elif before is not None:
            result.is_misdated = begun < min(before.since, at) - CLOCK_SLACK
        return result

    def _follow(self, before: "RowWindow") -> None:
        """Take the bounds from the window before, of the same epoch."""
        at, is_rest = self.at, self.window[2]
        if not is_rest:
            self.low = min(before.at, at) - CLOCK_SLACK
        elif before.at <= at + CLOCK_SLACK:
            self.low = before.at - CLOCK_SLACK
        self.high = max(before.at, at) + CLOCK_SLACK
        self.bounds = {xid: min(before.earliest(xid), at - CLOCK_SLACK) for xid in before.cur.running}
        if not is_rest:
            return
        self.after, self.boundary, self.since = before.sealed_to, before.max_id, before.at
        if before.sealed_to != NEVER:
            # What an open window had not taken in is as old as that window's rows.
            self.low, self.bounds = min(self.low, before.low), before.bounds | self.bounds

    def holds(self, xid: int, id: int) -> bool:
        """True if the row belongs into this window."""
        if self.boundary is not None:
            seen = self.prev.shows(xid) or (self.cur.shows(xid) and (xid, id) <= self.after)
            return id > self.boundary or not seen
        return self.window[2] or (self.cur.shows(xid) and not self.prev.shows(xid))

    def earliest(self, xid: int) -> int:
        """No row of that transaction can be older."""
        if self.boundary is not None:
            return self.bounds.get(xid, self.low)
        return self.low if xid >= self.prev.xmax else self.bounds.get(xid, LONG_AGO)


def broken_links(last: Seal | None, seal: Seal) -> list[str]:
    """What is wrong with the seal, and with how it joins the one before: each the end of a sentence about the seal."""
    broken = []
    if seal.n != (1 if last is None else last.n + 1):
        broken.append(f"follows seal {0 if last is None else last.n}: seals between them are missing or out of order")
    elif seal.first_index != (0 if last is None else last.size):
        broken.append(f"begins at leaf {seal.first_index}, where the seal before it does not end")
    elif not _windows_join(last, seal):
        broken.append("does not begin where the window before it ends")
    if last is not None and last.epoch == seal.epoch and last.epoch_at != seal.epoch_at:
        broken.append(f"says that epoch {seal.epoch} began at {seal.epoch_at}, the one before it {last.epoch_at}")
    if seal.size != seal.first_index + seal.count or seal.count * HASH != len(seal.leaf_hashes):
        stored = len(seal.leaf_hashes) // HASH
        broken.append(f"counts {seal.count} leaves up to {seal.size} from {seal.first_index} and stores {stored}")
    try:
        stated = json.loads(seal.header)
    except (ValueError, RecursionError):
        stated = None
    if stated != seal.facts():
        broken.append("has a header that differs from its columns")
    return broken


def _windows_join(last: Seal | None, seal: Seal) -> bool:
    # An epoch that ended before its first seal has no window, only what was left of it.
    begins = seal.snap_prev == NOTHING and (not seal.rest or seal.snap_cur == NOTHING)
    if last is None:
        return seal.epoch == 1 and begins
    if seal.epoch != last.epoch:
        return seal.epoch == last.epoch + 1 and last.rest and last.closes and begins
    if seal.rest or not last.closes:
        same = (seal.snap_prev, seal.snap_cur) == (last.snap_prev, last.snap_cur)
        return same and (seal.rest >= last.rest) and not (last.rest and last.closes)
    return seal.snap_prev == last.snap_cur and not last.rest
