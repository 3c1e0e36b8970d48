"""Compares signed checkpoints with the tree that the rows give: those of the log itself, and copies kept elsewhere."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from .format import Report, counted
from .signed_notes import BadNote, Checkpoint, VerifierKey, open_note
from .signers import SignerCheck
from .tree import Frontier

CHECKPOINT_AGE = timedelta(seconds=120)


class CheckpointCheck:
    """The checkpoints of one verification. `start` is the size of the tree where it begins.

    Each is compared when the walk reaches its size. One that contradicts the tree is judged at the end, since a later
    note may abandon the tree that it signed.
    """

    def __init__(self, report: Report, keys: Sequence[VerifierKey], outside: Iterable[str], start: int) -> None:
        # Up to this size every checkpoint agrees with the log; known at the end.
        self.covered = start
        self._start = start
        self._report = report
        self._keys = keys
        self._newest: Checkpoint | None = None
        self._conflicts: list[Checkpoint] = []
        # The size up to which notes agreed with the log, by how many had contradicted it before.
        self._agreed: dict[int, int] = {}
        self._abandoning: list[Checkpoint] = []
        self.signers = SignerCheck(report, keys)
        # The log's own checkpoints, as the largest of each epoch and the sizes; and the copies that agree, by epoch.
        self._last_stored: dict[int, int] = {}
        self._stored: set[int] = set()
        # How many notes the log has in each epoch, whether they can be trusted or not, and the largest size.
        self._notes: dict[int, int] = defaultdict(int)
        self._last_note: dict[int, int] = {}
        self._copied: list[tuple[int, Checkpoint]] = []
        self._outside: dict[int, list[Checkpoint]] = defaultdict(list)
        # Epochs that ended with a restore into another cluster, or to an earlier time.
        self.restored: set[int] = set()
        for note in outside:
            opened = self._open(note, "An outside copy of a checkpoint")
            if opened is not None:
                self._outside[opened.size].append(opened)

    def compare_outside(self, size: int, tree: Frontier, epoch: int) -> None:
        """The walk has reached `size`, in this epoch: compare the copies that were signed there."""
        for checkpoint in self._outside.pop(size, ()):
            if self._agrees(checkpoint, tree, epoch):
                self._report.outside += 1
                self._copied.append((epoch, checkpoint))

    def compare(self, note: str, tree: Frontier, epoch: int) -> Checkpoint | None:
        """Compare a note of the log itself, signed at the size that the walk has reached, in this epoch."""
        opened = self._open(note, "A checkpoint")
        self._notes[epoch] += 1
        self._last_note[epoch] = tree.size
        if opened is not None:
            self._report.checkpoints += self._agrees(opened, tree, epoch)
            self._stored.add(opened.size)
            self._last_stored[epoch] = opened.size
        return opened

    def finish(self, tree: Frontier, until: datetime | None) -> None:
        """Report the checkpoints that contradict the log. Those signed from `until` on cannot be in the export."""
        self.signers.finish()
        self._judge_unreached(tree, until)
        self._report_deleted(until)
        self._report_missing(tree)
        excused = [self._is_abandoned(conflict) for conflict in self._conflicts]
        first = excused.index(False) if False in excused else len(excused)
        self.covered = max((size for count, size in self._agreed.items() if count <= first), default=self._start)
        abandoned = [conflict for conflict, is_abandoned in zip(self._conflicts, excused, strict=True) if is_abandoned]
        for checkpoint in sorted(abandoned, key=lambda checkpoint: checkpoint.size):
            self._report.notices.append(
                f"The signer abandoned the tree of {checkpoint.size} leaves signed at {checkpoint.at}."
            )
        self._report_losses({checkpoint.size for checkpoint in abandoned})
        conflicts = [conflict for conflict in self._conflicts if not self._is_abandoned(conflict)]
        if conflicts:
            self._report_conflict(min(conflicts, key=lambda checkpoint: checkpoint.size), tree)
        if len(conflicts) > 1:
            self._report.notices.append(f"{len(conflicts) - 1} more checkpoints contradict the audit log.")

    def check_age(self, now: datetime) -> None:
        """Report it when the newest checkpoint that agrees is too old."""
        if self._newest is None or now - self._newest.at > CHECKPOINT_AGE:
            since = "there is none" if self._newest is None else f"the newest is of {self._newest.at}"
            self._report.find("stale", f"A checkpoint should be signed every minute, but {since} (it is {now}).")

    def _open(self, note: str, what: str) -> Checkpoint | None:
        try:
            opened = open_note(note, self._keys)
        except BadNote as reason:
            self._report.find("checkpoint", f"{what}{_described(note)} {reason}.")
            return None
        if opened.abandons:
            self._abandoning.append(opened)
        return opened

    def _agrees(self, checkpoint: Checkpoint, tree: Frontier, epoch: int) -> bool:
        if checkpoint.size != tree.size or checkpoint.root != tree.root():
            self._conflicts.append(checkpoint)
            return False
        self._agreed[len(self._conflicts)] = checkpoint.size
        self.signers.signed(epoch, checkpoint)
        if self._newest is None or checkpoint.at > self._newest.at:
            self._newest = checkpoint
        return True

    def _judge_unreached(self, tree: Frontier, until: datetime | None) -> None:
        """Outside copies of sizes that the walk did not reach."""
        missed = [
            checkpoint for size in sorted(self._outside) for checkpoint in self._outside[size] if size > self._start
        ]
        later = [
            checkpoint
            for checkpoint in missed
            if until is not None and checkpoint.at >= until and checkpoint.size > tree.size
        ]
        self._conflicts.extend(checkpoint for checkpoint in missed if checkpoint not in later)
        if later:
            copies = f"{len(later)} outside copies, up to {later[-1].size} leaves, were signed after {until}"
            self._report.notices.append(f"{copies}: this export cannot show whether what they cover is still there.")

    def _report_deleted(self, until: datetime | None) -> None:
        """Copies whose note the log itself lacks. A signer stores a note before it copies it.

        Only the last one of an epoch may be lost honestly, with a restore that ended the epoch: a new key alone loses
        nothing.
        """
        lossy = self.restored | self.signers.lost
        for epoch, checkpoint in self._copied:
            if checkpoint.size in self._stored or (until is not None and checkpoint.at >= until):
                continue
            message = f"The checkpoint of {checkpoint.size} leaves, signed at {checkpoint.at}, is not in the audit log"
            if epoch in lossy and checkpoint.size > self._last_stored.get(epoch, 0):
                self._report.notices.append(f"{message}: the restore that ended epoch {epoch} may have lost it.")
            else:
                self._report.find("checkpoint", f"{message}, though an outside copy holds it: it was deleted.")

    def _report_missing(self, tree: Frontier) -> None:
        """Checkpoints of ended epochs that the events of the next ones count, and the log lacks."""
        for epoch, (count, size) in sorted(self.signers.ended.items()):
            if not self._start < size <= tree.size:
                continue
            missing = count - self._notes[epoch] if self._start == 0 else 0
            if missing > 0 or self._last_note.get(epoch, 0) < size:
                message = (
                    f"Epoch {epoch} had {counted(count, 'checkpoint')}, the last of {size} leaves, as the event of"
                )
                lacks = f"{missing:,} of them" if missing > 0 else "the last one"
                self._report.find("checkpoint", f"{message} epoch {epoch + 1} says: {lacks} deleted.")

    def _report_conflict(self, checkpoint: Checkpoint, tree: Frontier) -> None:
        where = (self.covered, max(checkpoint.size, 1) - 1)
        if checkpoint.size > tree.size:
            message = f"{checkpoint.size} leaves were signed at {checkpoint.at}, but the audit log has only {tree.size}"
            kept = "" if self._newest is None else f"; its newest signature that agrees is of {self._newest.at}"
            self._report.find("cut", f"{message}{kept}.", leaves=where)
        elif checkpoint.size <= self.covered:
            message = (
                f"{checkpoint.size} leaves were signed at {checkpoint.at}, but no seal of this audit log ends there"
            )
            self._report.find("checkpoint", f"{message}: it is not the one that was signed.")
        else:
            message = f"The audit log differs from the {checkpoint.size} leaves that were signed at {checkpoint.at}."
            changed = f"It was changed between leaf {where[0]} and leaf {where[1]}."
            self._report.find("checkpoint", f"{message} {changed}", leaves=where)

    def _report_losses(self, reported: set[int]) -> None:
        """A loss that its signer accepted is reported even where there is no copy of the lost tree."""
        for size, abandons, at in sorted(
            {(checkpoint.size, checkpoint.abandons, checkpoint.at) for checkpoint in self._abandoning}
        ):
            if abandons > size and abandons not in reported:
                self._report.notices.append(
                    f"At {at}, with {size} leaves, the signer abandoned a tree of {abandons} leaves:"
                    " what it held beyond those is not in this audit log."
                )

    def _is_abandoned(self, checkpoint: Checkpoint) -> bool:
        """True if a later note abandons that tree. A note cannot excuse itself, nor can its own copy."""
        return any(later.abandons >= checkpoint.size and later.at > checkpoint.at for later in self._abandoning)


def _described(note: str) -> str:
    """Which checkpoint a note that cannot be trusted claims to be."""
    lines = note.splitlines()
    if len(lines) < 2 or not lines[1].isdecimal():
        return ""
    return f" of {lines[1][:20]} leaves of {lines[0][:60]}"
