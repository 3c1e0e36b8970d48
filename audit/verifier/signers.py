"""Which keys signed the audit log, epoch by epoch, and whether each was named by the one before it."""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from .format import Report
from .signed_notes import BadNote, Checkpoint, VerifierKey, open_handover

EPOCH = b'"AUDIT_EPOCH"'


class SignerCheck:
    """The keys of one verification, from the checkpoints that agree with the log and the events that begin epochs."""

    def __init__(self, report: Report, keys: Sequence[VerifierKey]) -> None:
        self._report = report
        self._keys = keys
        # By epoch: the key that its event names, and the key that signed its first checkpoint.
        self._named: dict[int, str] = {}
        self._signed: dict[int, str] = {}
        # The new key and the old one of each handover.
        self._handovers: set[tuple[str, str]] = set()

    def read_event(self, body: bytes) -> int | None:
        """Read the event of an epoch and return its number; None if the bytes are another event's."""
        try:
            event = json.loads(body)
            if event["action"] != "AUDIT_EPOCH":
                return None
            epoch = int(event["meta"]["epoch"])
            self._read_key(epoch, event["meta"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return None  # the text stands somewhere else in the event
        return epoch

    def _read_key(self, epoch: int, meta: dict[str, Any]) -> None:
        if "key" not in meta:
            return
        try:
            self._named[epoch] = VerifierKey.parse(meta["key"]).label
            if "handover" in meta:
                new, old = open_handover(meta["handover"], self._keys)
                self._handovers.add((new.label, old.label))
        except BadNote as reason:
            self._report.find("checkpoint", f"The key that the event of epoch {epoch} names {reason}.")

    def signed(self, epoch: int, checkpoint: Checkpoint) -> None:
        """A checkpoint of this epoch that agrees with the log."""
        first, signer = self._signed.setdefault(epoch, checkpoint.signer), checkpoint.signer
        named = self._named.get(epoch, first)
        if signer != named:
            message = f"The checkpoint of {checkpoint.size} leaves is signed by the key {signer}, but epoch {epoch} is"
            self._report.find("checkpoint", f"{message} signed by {named}.")

    def finish(self) -> None:
        """Report how many keys have signed, and how each came to sign."""
        changes = []
        epochs = sorted(self._signed)
        for before, epoch in pairwise(epochs):
            old, new = self._signed[before], self._signed[epoch]
            if old != new:
                by = "which the key before it signed" if (new, old) in self._handovers else "without its signature"
                changes.append(f"from epoch {epoch} on {new}, {by}")
        if changes:
            count = len(set(self._signed.values()))
            first = self._signed[epochs[0]]
            self._report.notices.append(f"{count} keys signed this audit log: first {first}; {'; '.join(changes)}.")
