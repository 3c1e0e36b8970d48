"""Records that the audit log was verified, and with which verdict."""

from collections import Counter
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from atlas.actors import Actor
from atlas.audit.record import Event, record
from atlas.audit.verifier.format import Report
from atlas.db.pool import Connection
from atlas.ids import new_id

# The event holds this many findings in full, and the number of each kind.
MAX_FINDINGS = 5
MAX_MESSAGE = 300


async def record_verdict(
    conn: Connection,
    report: Report,
    *,
    actor: Actor,
    verification_id: UUID | None = None,
    tenant_id: UUID | None = None,
    options: Mapping[str, Any] | None = None,
) -> None:
    """Record the verdict of a verification: of the whole log, or of a tenant's part. `options` is how it was called."""
    await record(
        conn,
        Event(
            "AUDIT_VERIFIED",
            "verification",
            str(verification_id or new_id()),
            actor,
            tenant_id,
            level="info" if report.ok else "error",
            meta={"verdict": "whole" if report.ok else "damaged", **_facts(report), **(options or {})},
        ),
    )


def _facts(report: Report) -> dict[str, Any]:
    counted = {name: getattr(report, name) for name in ("rows", "seals", "checkpoints", "last_seal", "size", "root")}
    return {
        **counted,
        "findings": dict(Counter(finding.kind for finding in report.findings)),
        "messages": [finding.message[:MAX_MESSAGE] for finding in report.findings[:MAX_FINDINGS]],
    }
