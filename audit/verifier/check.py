"""The walk through an account: the rows of a batch, its seal, what was signed at its size; then the next batch."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from .diff import explain
from .format import EVENT_LEAF, HEAD, Report, Seal, header_leaf, number_of, text_of_time, time_of_text
from .signed_notes import BadNote, Checkpoint, VerifierKey, open_note
from .tree import Frontier, split
from .window import SealPosition, broken_links

SEAL_LAG = timedelta(seconds=60)
CHECKPOINT_AGE = timedelta(seconds=120)
PRUNED = b'"AUDIT_PRUNED"'


class Verification:
    """One walk. Without `start` it begins at the first seal; with it, after that seal and with those numbers.

    `outside` are notes kept where the database's administrator cannot write; only they show that the end of the
    account was cut off, or that all of it was sealed anew. `pruned_through` is the last seal whose rows were
    removed by order; the walk must come across that order, or it reports the rows as missing.
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
        self._keys = keys
        self._tree = Frontier() if start is None else Frontier(start.size, start.frontier)
        self._numbers = dict(numbers or {})
        self._place = None if start is None else SealPosition.of(start, None)
        self._pruned_through = pruned_through
        self._ordered_through = 0
        self._kept = 0
        self._rows: list[tuple[bytes, bytes]] = []
        self._began = self._sure = self._tree.size
        self._newest: Checkpoint | None = None
        self._conflicts: list[Checkpoint] = []
        # How far notes agreed with the account, by how many had contradicted it before.
        self._agreed: dict[int, int] = {}
        self._given_up: list[Checkpoint] = []
        self._outside: dict[int, list[Checkpoint]] = defaultdict(list)
        for note in outside:
            opened = self._open(note, "An outside copy of a checkpoint")
            if opened is not None:
                self._outside[opened.size].append(opened)

    def row(self, head: bytes, body: bytes) -> None:
        """A row of the batch whose seal comes next, in the order of the batch."""
        self._rows.append((head, hashlib.sha256(body).digest()))
        if PRUNED in body:
            self._read_order(body)

    def seal(self, seal: Seal) -> None:
        """The seal of the rows since the last one."""
        rows, self._rows = self._rows, []
        broken = broken_links(self.last, seal)
        for words in broken:
            self.report.find("seal", f"Seal {seal.n} {words}.", seal=seal.n, leaves=seal.leaves)
        self._place = SealPosition.of(seal, self._place)
        if broken:
            self._take_numbers(seal, before=True)
        self._grow(seal, self._leaves(seal, rows), intact=not broken)
        self.last = seal
        self.report.seals += 1
        self.report.rows += len(rows)
        for checkpoint in self._outside.pop(seal.size, ()):
            self.report.outside += self._agrees(checkpoint)

    def checkpoint(self, note: str) -> Checkpoint | None:
        """A note of the account itself, signed at the size that the last seal has reached."""
        opened = self._open(note, "A checkpoint")
        if opened is not None:
            self.report.checkpoints += self._agrees(opened)
        return opened

    def forget_rows(self, pruned_through: int) -> None:
        """The rows of the batch whose seal comes next were removed by order while they were read."""
        self._rows = []
        self._pruned_through = pruned_through

    def unsealed(self, body: bytes = b"") -> None:
        """A row that no seal covers yet. Of a living account, its bytes too: an order may be on its way."""
        self.report.unsealed += 1
        if PRUNED in body:
            self._read_order(body)

    def finish(self, now: datetime, *, to_the_end: bool = True, until: datetime | None = None) -> Report:
        """What was found. `to_the_end` says that the walk was meant to reach the newest rows, as of `now`.

        What was signed from `until` on cannot be in an export that was made, or ends, then; the living account has no
        such moment.
        """
        self._judge_outside(until)
        if self._rows:
            words = f"{len(self._rows)} rows stand after the last seal, in no batch."
            self.report.find("row", words, row=HEAD.unpack(self._rows[0][0])[2])
        self._judge_conflicts()
        self._judge_orders()
        # What ends earlier ends with a checkpoint, unless it ends so near the newest rows that none was signed yet.
        if to_the_end or self._sure < self._tree.size:
            self._judge_age(now)
        if self._sure < self._tree.size:
            self.report.notices.append(f"No checkpoint covers the last {self._tree.size - self._sure} leaves yet.")
        self.report.last_seal = 0 if self.last is None else self.last.n
        self.report.size = self._tree.size
        self.report.root = self._tree.root().hex()
        return self.report

    def _leaves(self, seal: Seal, rows: Sequence[tuple[bytes, bytes]]) -> list[bytes]:
        """The batch's leaves as its rows give them; as they are stored where rows were removed or are damaged."""
        stored = split(seal.leaf_hashes)
        if not rows and seal.count > 1 and seal.n <= self._pruned_through:
            self.report.pruned += seal.count - 1
            self._check_pruned(seal, stored)
            self._take_numbers(seal)
            return stored
        self._kept += len(rows) if seal.n <= self._pruned_through else 0
        numbers: dict[bytes, int] = {}
        leaves = [*self._event_leaves(seal, rows, numbers), header_leaf(seal.header)]
        if leaves != stored:
            if self._tree.copy().extend(leaves).root() == seal.root:
                self.report.find(
                    "seal", f"Seal {seal.n} stores leaves that are not its own.", seal=seal.n, leaves=seal.leaves
                )
            else:
                found = len(self.report.findings)
                explain(self.report, seal, rows, stored, self._numbers)
                if len(self.report.findings) == found:
                    words = f"The rows of seal {seal.n} do not go on with the running numbers that were told before it."
                    self.report.find("seal", words, seal=seal.n, leaves=seal.leaves)
                self._take_numbers(seal)
                return stored
        said = {UUID(tenant).bytes: first + count - 1 for tenant, first, count in seal.tenants}
        if said != numbers:
            self.report.find("seal", f"Seal {seal.n} tells other running numbers than its rows.", seal=seal.n)
        self._numbers.update(numbers)
        return leaves

    def _check_pruned(self, seal: Seal, stored: Sequence[bytes]) -> None:
        """Of a batch without its rows, what can be told still: its header, and that its numbers go on and add up."""
        if not stored or header_leaf(seal.header) != stored[-1]:
            words = f"Seal {seal.n} has a header that is not the sealed one."
            self.report.find("seal", words, seal=seal.n, leaves=(seal.leaves[1], seal.leaves[1]))
        goes_on = all(first == self._numbers.get(UUID(tenant).bytes, 0) + 1 for tenant, first, _ in seal.tenants)
        if not goes_on or sum(count for _, _, count in seal.tenants) != seal.count - 1:
            words = f"Seal {seal.n} tells running numbers that do not go on or do not add up to its removed rows."
            self.report.find("seal", words, seal=seal.n)

    def _event_leaves(self, seal: Seal, rows: Sequence[tuple[bytes, bytes]], numbers: dict[bytes, int]) -> list[bytes]:
        """The leaf of each row, and whether each row belongs into this batch at this place."""
        assert self._place is not None
        usual, low, high = self._place.usual, self._place.low, self._place.high
        known, digest_of, leaves = self._numbers, hashlib.sha256, []
        in_order = sorted(head[4:20] for head, _ in rows)
        if in_order != [head[4:20] for head, _ in rows]:
            self.report.find("row", f"The rows of seal {seal.n} are out of order.", seal=seal.n, leaves=seal.leaves)
        for (head, digest), (epoch, xid, id, time, tenant) in zip(
            rows, HEAD.iter_unpack(b"".join(head for head, _ in rows)), strict=True
        ):
            numbers[tenant] = number = (numbers.get(tenant) or known.get(tenant, 0)) + 1
            leaves.append(digest_of(EVENT_LEAF + head + number.to_bytes(8, "big") + digest).digest())
            # Most rows pass this one line; the exact rules are asked only for the others.
            if not (xid in usual and low <= time <= high and epoch == seal.epoch):
                self._check_place(seal, epoch, xid, id, time)
        return leaves

    def _check_place(self, seal: Seal, epoch: int, xid: int, id: int, time: int) -> None:
        assert self._place is not None
        if epoch != seal.epoch or not self._place.holds(xid, id):
            self.report.find("row", f"Row {id} does not belong into seal {seal.n}.", row=id, seal=seal.n)
        elif not self._place.earliest(xid) <= time <= self._place.high:
            words = f"Row {id} says it was written at {text_of_time(time)}, which its transaction and seal contradict."
            self.report.find("time", words, row=id, seal=seal.n)

    def _grow(self, seal: Seal, leaves: Sequence[bytes], *, intact: bool) -> None:
        """Add the batch to the tree. After damage, go on from what the seal says, so that it is reported once."""
        self._tree.extend(leaves)
        if self._tree.packed() == seal.frontier and self._tree.root() == seal.root and self._tree.size == seal.size:
            return
        if intact:
            words = f"Seal {seal.n} names a root or a frontier that its leaves do not give."
            self.report.find("seal", words, seal=seal.n, leaves=seal.leaves)
        try:
            told = Frontier(seal.size, seal.frontier)
        except ValueError:
            return
        if told.root() == seal.root:
            self._tree = told

    def _take_numbers(self, seal: Seal, *, before: bool = False) -> None:
        for tenant, first, count in seal.tenants:
            self._numbers[UUID(tenant).bytes] = max(first - 1 + (0 if before else count), 0)

    def _read_order(self, body: bytes) -> None:
        try:
            event = json.loads(body)
            if event["action"] == "AUDIT_PRUNED":
                self._ordered_through = max(self._ordered_through, int(event["meta"]["through_seal"]))
        except (ValueError, KeyError, TypeError, RecursionError):
            return  # the words stand somewhere else in the event

    def _open(self, note: str, what: str) -> Checkpoint | None:
        try:
            opened = open_note(note, self._keys)
        except BadNote as reason:
            self.report.find("checkpoint", f"{what} {reason}: {note.splitlines()[:2]}.")
            return None
        if opened.abandons:
            self._given_up.append(opened)
        return opened

    def _agrees(self, checkpoint: Checkpoint) -> bool:
        if checkpoint.size != self._tree.size or checkpoint.root != self._tree.root():
            self._conflicts.append(checkpoint)
            return False
        self._agreed[len(self._conflicts)] = checkpoint.size
        if self._newest is None or checkpoint.at > self._newest.at:
            self._newest = checkpoint
        return True

    def _judge_outside(self, until: datetime | None) -> None:
        """Outside copies of sizes that the walk did not come across."""
        missed = [one for size in sorted(self._outside) for one in self._outside[size] if size > self._began]
        later = [one for one in missed if until is not None and one.at >= until and one.size > self._tree.size]
        self._conflicts.extend(one for one in missed if one not in later)
        if later:
            words = f"{len(later)} outside copies, up to {later[-1].size} leaves, were signed after {until}:"
            self.report.notices.append(f"{words} this export cannot show whether what they cover is still there.")

    def _judge_conflicts(self) -> None:
        told, excused = 0, [self._is_given_up(one) for one in self._conflicts]
        first = excused.index(False) if False in excused else len(excused)
        self._sure = max((size for count, size in self._agreed.items() if count <= first), default=self._began)
        for one, given_up in sorted(zip(self._conflicts, excused, strict=True), key=lambda pair: pair[0].size):
            if given_up:
                self.report.notices.append(
                    f"The tree of {one.size} leaves signed at {one.at} was given up by its signer."
                )
                continue
            told += 1
            if told > 1:
                continue
            where = (self._sure, max(one.size, 1) - 1)
            if one.size > self._tree.size:
                words = f"{one.size} leaves were signed at {one.at}, but the account has only {self._tree.size}."
                self.report.find("cut", words, leaves=where)
            else:
                words = f"The account is not the one whose {one.size} leaves were signed at {one.at}."
                self.report.find(
                    "checkpoint", f"{words} It changed between leaf {where[0]} and leaf {where[1]}.", leaves=where
                )
        self._tell_of_given_up(one for one, given_up in zip(self._conflicts, excused, strict=True) if given_up)
        if told > 1:
            self.report.notices.append(f"{told - 1} more checkpoints contradict the account.")

    def _tell_of_given_up(self, told: Iterable[Checkpoint]) -> None:
        """A loss that its signer accepted is told also where no copy of the lost tree is at hand."""
        known = {one.size for one in told}
        for size, abandons, at in sorted({(one.size, one.abandons, one.at) for one in self._given_up}):
            if abandons > size and abandons not in known:
                words = f"With {size} leaves, at {at}, the signer gave up a tree of {abandons} leaves"
                self.report.notices.append(f"{words}: what those held beyond is not in this account.")

    def _is_given_up(self, one: Checkpoint) -> bool:
        """True if a later note gives up that tree. A note cannot excuse itself, nor can its own copy."""
        return any(later.abandons >= one.size and later.at > one.at for later in self._given_up)

    def _judge_orders(self) -> None:
        through = self._pruned_through
        if self._ordered_through < through:
            words = f"The rows of the seals up to {through} are told as removed, and the account holds no order for it."
            self.report.find("row", words, seal=through)
        if self._kept:
            words = f"{self._kept} rows of the seals up to {through} are there, though told as removed."
            self.report.find("row", words, seal=through)

    def _judge_age(self, now: datetime) -> None:
        if self._newest is None or now - self._newest.at > CHECKPOINT_AGE:
            since = "there is none" if self._newest is None else f"the newest is of {self._newest.at}"
            self.report.find("stale", f"A checkpoint should be signed every minute, but {since} (it is {now}).")
        if self.report.unsealed and (
            self.last is None or time_of_text(self.last.sealed_at) < number_of(now - SEAL_LAG)
        ):
            words = f"{self.report.unsealed} rows are in no seal, and none was made in the last minute before {now}."
            self.report.find("unsealed", words)
