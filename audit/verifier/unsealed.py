"""Checks rows that no seal covers yet: nothing proves them, but they must be new and younger than the last seal."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from .format import EVERYTHING, HEAD, NOTHING, Report, Seal, number_of, text_of_time
from .window import RowWindow


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Where an audit log ended when it was read: the time, its newest epoch, and whether that epoch's cluster is gone.

    A log that was restored into another cluster, where no epoch has begun, is `restored`.
    """

    now: datetime
    epoch: int
    restored: bool


class SeenIds:
    """The row ids that were seen, a bit each: those of a hundred million rows take some megabytes."""

    __slots__ = ("_pages",)

    def __init__(self) -> None:
        self._pages: dict[int, bytearray] = {}

    def add(self, ids: Iterable[int]) -> list[int]:
        """Add ids, and return those that were there. Every row comes by here, so it is one plain loop."""
        pages, again = self._pages, []
        for id in ids:
            page = pages.get(id >> 15)
            if page is None:
                page = pages[id >> 15] = bytearray(4096)
            at, bit = id >> 3 & 4095, 1 << (id & 7)
            if page[at] & bit:
                again.append(id)
            else:
                page[at] |= bit
        return again


class UnsealedCheck:
    """The rows after the last seal. `window` is that seal's own; without a seal, only the clock bounds them."""

    def __init__(self, last: Seal | None, window: RowWindow | None, end: LogEnd) -> None:
        now = text_of_time(number_of(end.now))
        self._end = end
        self._reached = 0 if last is None else last.epoch
        self._high = number_of(end.now)
        self._open: RowWindow | None = None
        self._same: RowWindow | None = None
        self._later: RowWindow | None = None
        if last is None or window is None:
            return
        if not last.closes:
            self._open = window
        begun = text_of_time(min(window.since, self._high))
        later = replace(last, epoch=0, epoch_at=begun, snap_prev=NOTHING, snap_cur=EVERYTHING, snap_at=now, rest=False)
        self._later = RowWindow.of(later, None)
        if last.rest:
            return
        has_ended = end.restored or end.epoch > last.epoch
        follows = replace(last, snap_at=now, closes=True, rest=has_ended)
        if not has_ended:
            follows = replace(follows, snap_prev=last.snap_cur, snap_cur=EVERYTHING)
        self._same = RowWindow.of(follows, window)

    def check(self, report: Report, head: bytes) -> None:
        """Report a row that a seal should hold, or whose time contradicts its transaction."""
        epoch, xid, id, time, _ = HEAD.unpack(head)
        window = self._window(epoch, xid, id)
        if not 1 <= epoch <= self._end.epoch or (self._reached and window is None):
            message = f"Row {id} is in no seal, though the last seal is younger than its transaction: it was added."
            report.find("unsealed", message, row=id)
        elif window is not None and not window.earliest(xid) <= time <= window.high:
            message = f"The time of row {id}, {text_of_time(time)}, contradicts its transaction and the last seal."
            report.find("time", message, row=id)

    def _window(self, epoch: int, xid: int, id: int) -> RowWindow | None:
        """The window that the sealer will find the row in."""
        if epoch > self._reached:
            return self._later
        if epoch < self._reached:
            return None
        last = self._open
        if last is not None and last.holds(xid, id) and (xid, id) > last.sealed_to:
            return last
        return self._same if self._same is not None and self._same.holds(xid, id) else None
