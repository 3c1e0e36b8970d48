"""What a tenant's audit log held at the installations it came from: exports with proofs, kept as they were verified.

The signatures are those of the other installation. This one vouches for them with the event TENANT_IMPORTED, which has
the digest and the keys of each part.
"""

import hashlib
from collections.abc import AsyncIterator, Sequence
from io import BytesIO
from uuid import UUID

import orjson
from pydantic import BaseModel

from atlas.audit.verifier.export import ExportCheck
from atlas.audit.verifier.format import Report
from atlas.audit.verifier.signed_notes import VerifierKey
from atlas.db.pool import Connection
from atlas.db.statements import fetch_value, statement

PARTS = statement("audit/exports/sql/moved_parts.sql")
LAST = statement("audit/exports/sql/last_part.sql")
KEEP = statement("audit/exports/sql/keep_moved.sql")
IMPORTED = statement("audit/exports/sql/imported.sql")


class AuditPart(BaseModel, frozen=True):
    """A tenant's audit log at one installation: its number among the parts that are kept, the tenant's number of its
    last row, its digest, and who signed it.
    """

    number: int
    cluster: str
    rows: int
    last_number: int
    sha256: str
    keys: tuple[str, ...]

    def check(self, keys: Sequence[VerifierKey] = ()) -> ExportCheck:
        """A check of its lines, with these keys or else its own."""
        return ExportCheck(keys or [VerifierKey.parse(key) for key in self.keys])


async def kept_parts(conn: Connection, tenant_id: UUID) -> tuple[AuditPart, ...]:
    """What is known of the parts that a tenant brought along, oldest first."""
    parts = await fetch_value(conn, IMPORTED, tenant_id=tenant_id)
    return () if parts is None else tuple(AuditPart.model_validate(part) for part in orjson.loads(parts))


async def read_parts(conn: Connection, tenant_id: UUID) -> AsyncIterator[tuple[int, bytes]]:
    """The pieces of all parts with the number of each part, in a transaction of the caller."""
    async for row in conn.cursor(PARTS.sql, *PARTS.bind({"tenant_id": tenant_id}), prefetch=4):
        yield row["part"], row["lines"]


async def last_part(conn: Connection, tenant_id: UUID) -> int:
    """The number of the last part that is kept; 0 without any."""
    part: int = await fetch_value(conn, LAST, tenant_id=tenant_id)
    return part


async def keep_piece(conn: Connection, tenant_id: UUID, part: int, piece: int, lines: bytes) -> None:
    """Keep a piece of a part that was verified."""
    await fetch_value(conn, KEEP, tenant_id=tenant_id, part=part, piece=piece, lines=lines)


async def verify_parts(conn: Connection, tenant_id: UUID, report: Report) -> None:
    """Add to a report what is wrong with the parts that a tenant brought along, and count their rows."""
    parts = await kept_parts(conn, tenant_id)
    checks = {part.number: (part.check(), hashlib.sha256()) for part in parts}
    async with conn.transaction():
        async for number, lines in read_parts(conn, tenant_id):
            if number in checks:
                check, digest = checks[number]
                check.feed(BytesIO(lines))
                digest.update(lines)
    for part in parts:
        check, digest = checks[part.number]
        for problem in part_problems(part, check, digest.hexdigest()):
            report.find("row", f"Part {part.number} of the audit log that tenant {tenant_id} brought along {problem}.")
        report.rows += part.rows


def part_problems(part: AuditPart, check: ExportCheck, sha256: str) -> Sequence[str]:
    """What is wrong with a part whose lines were fed to a check."""
    problems = [f"does not verify: {finding.message}" for finding in check.finish().findings]
    if sha256 != part.sha256:
        problems.append("is not as it was imported")
    if check.number < part.last_number:
        problems.append(f"ends with row {check.number}, not {part.last_number}")
    return problems
