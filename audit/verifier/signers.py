"""Which keys signed the audit log, epoch by epoch, and whether each was named by the one before it."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from .format import Report
from .signed_notes import BadNote, Checkpoint, VerifierKey, open_handover

# Events that name keys: of the first key of an epoch, of the beginning of one, and of a removal, which has the history.
NAMING = {"AUDIT_KEY": "audit_epoch", "AUDIT_EPOCH": "audit_epoch", "AUDIT_PRUNED": "audit_seal"}


class SignerCheck:
    """The keys of one verification, from the checkpoints that agree with the log and the events that name keys."""

    def __init__(self, report: Report, keys: Sequence[VerifierKey]) -> None:
        self._report = report
        self._keys = keys
        # By epoch: the key that an event names, and the keys that signed with the size that each signed first.
        self._named: dict[int, str] = {}
        self._signed: dict[int, dict[str, int]] = {}
        # The new key and the old one of each handover.
        self._handovers: set[tuple[str, str]] = set()
        # Epochs whose end was lost, as the event of the next one says.
        self.lost: set[int] = set()
        # How many checkpoints an ended epoch had, and the largest, as the event of the next one says.
        self.ended: dict[int, tuple[int, int]] = {}
        # The leaf from which on removals need a signed order, as the checkpoints say; None if none says so.
        self.orders: int | None = None

    def named(self, epoch: int) -> str | None:
        """The key of an epoch, by the events."""
        return self._named.get(epoch)

    def read(self, event: dict[str, Any]) -> None:
        """Read the keys that an event names."""
        for facts in event["meta"].get("keys", ()) if event["action"] == "AUDIT_PRUNED" else (event["meta"],):
            epoch = int(facts["epoch"])
            if facts.get("lost"):
                self.lost.add(epoch - 1)
            if "ended" in facts:
                self.ended[epoch - 1] = (int(facts["ended"]["checkpoints"]), int(facts["ended"]["size"]))
            if "key" in facts:
                self._read_key(epoch, facts)

    def _read_key(self, epoch: int, facts: dict[str, Any]) -> None:
        try:
            label = VerifierKey.parse(facts["key"]).label
            if "handover" in facts:
                new, old = open_handover(facts["handover"], self._keys)
                self._handovers.add((new.label, old.label))
        except BadNote as reason:
            self._report.find("checkpoint", f"The key that the event of epoch {epoch} names {reason}.")
            return
        named = self._named.setdefault(epoch, label)
        if named != label:
            message = f"An event names {label} as the key of epoch {epoch}, and an earlier one {named}"
            self._report.find("checkpoint", f"{message}: one of them was added.")

    def signed(self, epoch: int, checkpoint: Checkpoint) -> None:
        """A checkpoint of this epoch that agrees with the log."""
        self._signed.setdefault(epoch, {}).setdefault(checkpoint.signer, checkpoint.size)
        if checkpoint.orders is not None:
            self.orders = checkpoint.orders if self.orders is None else min(self.orders, checkpoint.orders)

    def finish(self) -> None:
        """Report keys that should not have signed, how many have, and how each came to sign.

        Only at the end: the event of a removal names the keys of epochs before it.
        """
        for epoch, signers in sorted(self._signed.items()):
            named = self._named.get(epoch, next(iter(signers)))
            for signer, size in signers.items():
                if signer != named:
                    message = f"The checkpoint of {size} leaves is signed by the key {signer}, but epoch {epoch} is"
                    self._report.find("checkpoint", f"{message} signed by {named}.")
        changes = []
        epochs = sorted(self._signed)
        first_of = {epoch: next(iter(signers)) for epoch, signers in self._signed.items()}
        for before, epoch in pairwise(epochs):
            old, new = first_of[before], first_of[epoch]
            if old != new:
                by = "which the key before it signed" if (new, old) in self._handovers else "without its signature"
                changes.append(f"from epoch {epoch} on {new}, {by}")
        if changes:
            count = len(set(first_of.values()))
            first = first_of[epochs[0]]
            self._report.notices.append(f"{count} keys signed this audit log: first {first}; {'; '.join(changes)}.")
