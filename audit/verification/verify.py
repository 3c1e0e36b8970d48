"""Verifies the live audit log: the same walk as the offline one, with rows and seals straight from the tables.

It also compares what only the tables have: the search columns with the bytes, the personal values with their
commitments, and rows that stand where no window can reach them.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from atlas.audit.exports.moved import verify_parts
from atlas.audit.reader import AuditReader, Row, number_of_time
from atlas.audit.verification.missing_values import MissingValues
from atlas.audit.verifier.check import SEAL_LAG, Verification
from atlas.audit.verifier.export import RESTORED
from atlas.audit.verifier.format import HEAD, Finding, Report, Seal, counted, number_of
from atlas.audit.verifier.signed_notes import VerifierKey
from atlas.audit.verifier.tree import Frontier
from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_row, fetch_value, statement

CHECKPOINTS = statement("audit/sql/verify_checkpoints.sql")
STRAYS = statement("audit/verification/sql/verify_strays.sql")
PRIVATE = statement("audit/verification/sql/verify_private.sql")
NUMBERS = statement("audit/sql/verify_numbers.sql")
NEVER_SEALED = statement("audit/verification/sql/never_sealed.sql")
UNNAMED_EPOCH = statement("audit/verification/sql/unnamed_epoch.sql")
IMPORTED_TENANTS = statement("audit/verification/sql/imported_tenants.sql")

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class LastVerified:
    """The last seal up to which the audit log was found whole, and the tree's root there."""

    seal: int
    root: str

    @classmethod
    def read(cls, path: Path) -> "LastVerified | None":
        """What the last verification without findings wrote."""
        return cls(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None

    def write(self, path: Path) -> None:
        """Write it, for the next verification to start from."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")


async def verify(
    conn: Connection,
    keys: Sequence[VerifierKey],
    outside: Iterable[str] = (),
    *,
    since: LastVerified | None = None,
    progress: Progress | None = None,
) -> Report:
    """Verify the audit log and report what is wrong with it.

    With `since`, rows sealed up to there are not read again, nor what tenants brought along from other installations; a
    row that was changed there afterwards is not found.
    `outside` are notes kept elsewhere. `progress` is called with how many leaves of how many are done.
    """
    reader = await AuditReader.open(conn)
    start = None if since is None else await reader.seal(since.seal)
    if since is not None and (start is None or not _ends_with(start, since.root)):
        report = await verify(conn, keys, outside, progress=progress)
        report.find("seal", f"Seal {since.seal} is not the one that was found whole before.", seal=since.seal)
        return report
    return await _LogCheck(conn, reader, await _begin(conn, reader, keys, outside, start)).walk(start, progress)


async def never_sealed(conn: Connection) -> Report | None:
    """The report on an audit log without any seal or checkpoint. None: it has one.

    A sealer needs a second. So rows that are older than a minute are a finding: no sealer has run, or someone deleted
    the seals.
    """
    row = await fetch_row(conn, NEVER_SEALED)
    if row is None:
        return None
    report = Report(unsealed=row["rows"])
    waiting = counted(row["rows"], "row")
    sealer = "A sealer runs with `atlas scheduler` and `atlas up`"
    if row["age"] <= SEAL_LAG.total_seconds():
        message = f"Nothing has been sealed yet, so nothing can be verified. Waiting: {waiting}. {sealer}."
        report.notices.append(message)
    else:
        message = f"In no seal: {waiting}, the oldest for {row['age']:,.0f} s; there is no seal at all"
        report.find("unsealed", f"{message}: no sealer has run, or the seals were deleted. {sealer}.")
    return report


async def unnamed_key(conn: Connection) -> list[Finding]:
    """A finding, if no event names the key of the newest epoch: then nothing in the log says whose signature it needs.

    A signer writes that event before it signs.
    """
    epoch = await fetch_value(conn, UNNAMED_EPOCH)
    if epoch is None:
        return []
    message = f"No event names the key that signs epoch {epoch}: it was deleted, or no sealer of this version has run."
    return [Finding("checkpoint", message)]


def _ends_with(seal: Seal, root: str) -> bool:
    try:
        return Frontier(seal.size, seal.frontier).root().hex() == root
    except ValueError:
        return False


async def _begin(
    conn: Connection, reader: AuditReader, keys: Sequence[VerifierKey], outside: Iterable[str], start: Seal | None
) -> Verification:
    if start is None:
        return Verification(keys, outside, pruned_through=reader.state.pruned_through)
    numbers = {row["tenant_id"].bytes: row["number"] for row in await fetch(conn, NUMBERS, n=start.n)}
    # An order that removed only rows before `start` was verified then; one that goes beyond it comes after it.
    pruned = reader.state.pruned_through if reader.state.pruned_through > start.n else 0
    return Verification(keys, outside, start=start, numbers=numbers, pruned_through=pruned)


class _LogCheck:
    def __init__(self, conn: Connection, reader: AuditReader, verification: Verification) -> None:
        self._conn = conn
        self._reader = reader
        self._verification = verification
        self._report = verification.report
        self._values = MissingValues(conn)

    async def walk(self, start: Seal | None, progress: Progress | None) -> Report:
        before = start
        if not self._reader.state.epoch:
            self._report.find("cluster", "The audit log has no epoch: audit_epoch is empty, and nothing is sealed.")
        elif self._reader.state.lacks_epochs:
            self._report.find("cluster", "The row of an epoch is missing in audit_epoch: someone deleted it.")
        if not self._reader.state.same_cluster:
            self._report.find("cluster", RESTORED)
        if start is not None:
            await self._checkpoints(start, start.size - 1)
        async for seal in self._reader.seals(after=0 if start is None else start.n):
            count = 1
            async for rows in self._reader.rows(seal, before):
                self._take(rows)
                await self._values.look_at(rows)
                count += len(rows)
            if count < seal.count and await self._reader.is_pruned(seal):
                self._verification.forget_rows(self._reader.state.pruned_through)
            self._verification.seal(seal)
            await self._checkpoints(seal, 0 if before is None else before.size)
            before = seal
            if progress is not None:
                progress(seal.size, self._reader.state.size)
        async for rows in self._reader.unsealed(before):
            for row in rows:
                self._verification.unsealed(row.head, row.body, self._reader.state.end, is_live=True)
                self._compare(row)
            await self._values.look_at(rows)
        await self._strays()
        await self._missing_values()
        if start is None:
            for row in await fetch(self._conn, IMPORTED_TENANTS):
                await verify_parts(self._conn, row["id"], self._report)
        return self._verification.finish(self._reader.state.now)

    async def _missing_values(self) -> None:
        await self._values.finish()
        for id, commitment in self._values.unexplained:
            message = f"A personal value that row {id} commits to as {commitment} is gone, and no event erased it."
            self._report.find("private", message, row=id)

    def _take(self, rows: Sequence[Row]) -> None:
        take = self._verification.row
        for row in rows:
            take(row.head, row.body)
            self._compare(row)

    def _compare(self, row: Row) -> None:
        if row.differing:
            id = HEAD.unpack(row.head)[2]
            message = f"The search columns of row {id} differ from its bytes: {', '.join(row.differing)}."
            self._report.find("copies", message, row=id)

    async def _checkpoints(self, seal: Seal, after: int) -> None:
        for row in await fetch(self._conn, CHECKPOINTS, after=after, size=seal.size):
            self._checkpoint(row, seal.epoch)

    def _checkpoint(self, row: Any, epoch: int) -> None:
        opened = self._verification.checkpoint(row["note"])
        if opened is None:
            return
        copies = (row["size"], row["key_name"], number_of_time(row["signed_at"]), row["epoch"])
        if copies != (opened.size, opened.signer, number_of(opened.at), epoch):
            self._report.find("checkpoint", f"The columns of the checkpoint at {row['size']} differ from its note.")

    async def _strays(self) -> None:
        for row in await fetch(self._conn, STRAYS):
            at, none = row["at"], row["at"] is None
            match row["kind"]:
                case "row":
                    message = f"Row {at} names an epoch or a transaction that does not exist yet."
                    self._report.find("row", "A row has no id." if none else message, row=at)
                case "seal":
                    self._report.find("seal", "A seal has no number." if none else f"A seal has the number {at}.")
                case "number":
                    message = f"Running numbers are stored for seal {at} without a tenant, or without the seal."
                    self._report.find("seal", message, seal=at)
                case "note":
                    self._report.find("checkpoint", f"A checkpoint is stored for {'no' if none else at} leaves.")
                case "checkpoint":
                    self._report.find("cut", f"A checkpoint is stored for {at} leaves, more than there are.")
                case "epoch":
                    message = f"Epoch {at} differs from its event or its seals, or the epoch before it is missing."
                    self._report.find("row", "An epoch has no number." if none else message)
                case _:
                    self._report.find("row", f"An order removed rows up to seal {at}, which does not exist.")
        for row in await fetch(self._conn, PRIVATE):
            reason = "is not the one that an event of its entity commits to as"
            if row["erased"]:
                reason = "is there, though an event says that it was erased:"
            self._report.find("private", f"A personal value ({row['field']}) {reason} {row['commitment']}.")
