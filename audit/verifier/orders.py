"""Checks that rows which are gone were removed by order: by an event, and by a note that the log's key has signed.

Who can write to the database can write the event. The key is elsewhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .format import Report, Seal, counted
from .signed_notes import BadNote, VerifierKey, open_order
from .signers import SignerCheck


@dataclass(frozen=True, slots=True)
class PruneOrder:
    """The event of an order: the last seal whose rows go, the epoch and leaf of its own row, and the signed note."""

    through: int
    epoch: int
    leaf: int
    note: str


class OrderCheck:
    """The orders of one verification. `through` is the last seal whose rows were removed."""

    def __init__(self, signers: SignerCheck, keys: Sequence[VerifierKey], through: int) -> None:
        self.through = through
        self._signers = signers
        self._keys = keys
        self._orders: list[PruneOrder] = []
        self._head: tuple[int, bytes] | None = None

    def read(self, event: dict[str, Any], epoch: int, leaf: int) -> None:
        """The event of an order, in a row of that epoch that is this leaf."""
        meta = event["meta"]
        self._orders.append(PruneOrder(int(meta["through_seal"]), epoch, leaf, str(meta.get("order", ""))))

    def reach(self, seal: Seal) -> None:
        """The walk has reached this seal."""
        if seal.n == self.through:
            self._head = (seal.size, seal.root)

    def finish(self, report: Report, kept: int) -> None:
        """Report rows that are gone without an order, and those that an order should have removed."""
        if self.through and not any(order.through >= self.through for order in self._orders):
            message = f"The rows of the seals up to {self.through} are recorded as removed, but no event orders it."
            report.find("row", message, seal=self.through)
        elif self.through and self._head is not None:
            self._check_notes(report, *self._head)
        if kept:
            message = f"Recorded as removed, but still there: {counted(kept, 'row')} of the seals up to {self.through}."
            report.find("row", message, seal=self.through)

    def _check_notes(self, report: Report, size: int, root: bytes) -> None:
        orders = [order for order in self._orders if order.through == self.through]
        if any(self._is_signed(order, size, root) for order in orders):
            return
        message = f"The rows of the seals up to {self.through} were removed by an order that no key has signed"
        since = self._signers.orders
        if any(since is None or order.leaf < since for order in orders):
            report.notices.append(f"{message}: it is from before the signer asked for that.")
        else:
            report.find("row", f"{message}: someone else than the holder of the key removed them.", seal=self.through)

    def _is_signed(self, order: PruneOrder, size: int, root: bytes) -> bool:
        try:
            signer = open_order(order.note, self._keys, self.through, size, root)
        except BadNote:
            return False
        return signer == (self._signers.named(order.epoch) or signer)
