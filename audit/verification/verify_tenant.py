"""Verifies a tenant's part of the audit log as the tenant itself would: by its export, with the offline verifier."""

from collections.abc import Sequence
from io import BytesIO
from uuid import UUID

from atlas.audit.exports.export import Extract, read_lines
from atlas.audit.exports.moved import verify_parts
from atlas.audit.verification.verify import Progress
from atlas.audit.verifier.export import ExportCheck
from atlas.audit.verifier.format import Report
from atlas.audit.verifier.signed_notes import VerifierKey
from atlas.db.pool import Connection
from atlas.db.statements import fetch_value, statement

SIGNED_NUMBER = statement("audit/verification/sql/signed_number.sql")


async def verify_tenant(
    conn: Connection,
    tenant_id: UUID,
    keys: Sequence[VerifierKey],
    *,
    progress: Progress | None = None,
) -> Report:
    """Check that each signed row of a tenant is in the tree, unchanged, and that none is missing.

    So is what the tenant brought along from the installations it was moved from.

    `progress` is called with how many rows of how many are done.
    """
    signed: int = await fetch_value(conn, SIGNED_NUMBER, tenant_id=tenant_id)
    check = ExportCheck(keys)
    async for lines in read_lines(conn, Extract(tenant_id)):
        check.feed(BytesIO(lines))
        if progress is not None:
            progress(check.number, max(signed, check.number))
    report = check.finish()
    # An export alone does not show what was removed from its end.
    if check.number < signed:
        report.find("row", f"The tenant's rows {check.number + 1} to {signed} are missing.")
    await verify_parts(conn, tenant_id, report)
    return report
