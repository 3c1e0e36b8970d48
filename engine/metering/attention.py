"""What needs attention: a kind, how many, since when, and where to look."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from urllib.parse import urlencode
from uuid import UUID

from atlas.db.pool import Connection
from atlas.db.statements import fetch_row, statement
from atlas.engine.alerts import read_findings
from atlas.engine.effects.find_effects import count_doubts
from atlas.engine.jobs.lists.dead_letters import read_dead_letters
from atlas.engine.workflows.approvals import count_pending
from atlas.models.audit import SealStatus
from atlas.models.jobs import DeadLetterGroup
from atlas.models.overview import Need
from atlas.models.system import Alert

ATTENTION = statement("engine/metering/sql/attention.sql")

# A scheduler fires within a second, and another one takes over within some.
LATE_SECONDS = 60.0
MAX_SEAL_LAG = 60.0
# Causes of dead letters that are named.
MAX_CAUSES = 3
DEAD_LETTERS = "/jobs?status=dead_letter"

# Where each kind of alert is looked into.
ADDRESSES = {
    "worker_lost": "/workers",
    "host_silent": "/hosts",
    "intents_stuck": "/intents",
    "engine_silent": "/system/status",
    "failures_rise": "/jobs?status=failed",
    **dict.fromkeys(("audit_lost_end", "audit_damaged", "checkpoint_not_copied"), "/audit/status"),
    "horizon_held": "/system/findings",
    "effects_differ": "/system/effect-reports",
}


@dataclass(frozen=True, slots=True)
class Attention:
    """Workers alive, and what needs attention."""

    workers: int
    needs: list[Need]


async def find_attention(
    conn: Connection,
    *,
    tenant_id: UUID | None,
    seal: SealStatus,
    dead_letters: int,
    unserved: Sequence[tuple[str, int]],
) -> Attention:
    """What needs attention in a tenant, or in the installation, what stops work first.

    `unserved` are the types of due jobs that no worker serves, with how many there are.
    """
    row = await fetch_row(conn, ATTENTION, tenant_id=tenant_id, late_seconds=LATE_SECONDS)
    assert row is not None
    approvals = await count_pending(conn, tenant_id=tenant_id)
    doubts = await count_doubts(conn, tenant_id=tenant_id)
    late, failing, disabled = (row[name] for name in ("late_schedules", "failing_triggers", "disabled_webhooks"))
    triggers = "/jobs/triggers"
    causes = (await read_dead_letters(conn, tenant_id=tenant_id, limit=MAX_CAUSES)).items if dead_letters else []
    needs = [
        *([] if tenant_id is not None else _alerts(await read_findings(conn))),
        *(_no_worker(job_type, count) for job_type, count in unserved),
        *_dead_letters(dead_letters, causes),
        _need("approvals", approvals, f"{_many(approvals, 'approval')} to decide.", "/approvals?status=pending"),
        _need("effects", doubts, f"{_many(doubts, 'effect')} to settle.", "/effects?state=unknown"),
        _need("schedules_late", late, f"{_many(late, 'schedule')} late.", triggers, since=row["late_since"]),
        _need("triggers_failing", failing, f"{_many(failing, 'trigger')} could not fire.", triggers),
        _need("webhooks_disabled", disabled, f"{_many(disabled, 'webhook')} disabled after failures.", "/webhooks"),
        *_seal_lag(seal),
    ]
    return Attention(row["workers"], [need for need in needs if need.count])


def _alerts(alerts: Sequence[Alert]) -> Iterator[Need]:
    """The alerts of the installation, those of a kind together where there are several."""
    for kind, ones in groupby(sorted(alerts, key=lambda alert: alert.kind), key=lambda alert: alert.kind):
        first, *others = ones
        more = f" And {len(others):,} more." if others else ""
        subject = None if others else first.subject
        yield _need(kind, 1 + len(others), first.message + more, ADDRESSES[kind], subject, first.since)


def _dead_letters(count: int, causes: Sequence[DeadLetterGroup]) -> Iterator[Need]:
    """The causes of the newest dead letters, each on its own, and the rest."""
    for group in causes:
        cause = group.message or group.error_type or "no error was recorded"
        message = f"{_many(group.count, 'dead letter')} of {group.job_type}: {cause}"
        address = f"{DEAD_LETTERS}&{urlencode({'job_type': group.job_type})}"
        yield _need("dead_letters", group.count, message, address, group.job_type, group.first_at)
    others = max(0, count - sum(group.count for group in causes))
    words = "other dead letter" if causes else "dead letter"
    yield _need("dead_letters", others, f"{_many(others, words)}.", DEAD_LETTERS)


def _no_worker(job_type: str, count: int) -> Need:
    message = (
        f"No living worker serves {job_type}, and {_many(count, 'job')} of it {'is' if count == 1 else 'are'} due."
    )
    return _need(
        "no_worker", count, message, f"/jobs?{urlencode({'status': 'queued', 'job_type': job_type})}", job_type
    )


def _seal_lag(seal: SealStatus) -> Iterator[Need]:
    if seal.lag_seconds > MAX_SEAL_LAG:
        message = f"{_many(seal.unsealed, 'audit row')} not sealed for {seal.lag_seconds:,.0f} s."
        yield _need("seal_lag", seal.unsealed, message, "/audit")


def _need(
    kind: str, count: int, message: str, address: str, subject: str | None = None, since: datetime | None = None
) -> Need:
    return Need(kind=kind, count=count, message=message, address=address, subject=subject, since=since)


def _many(count: int, name: str) -> str:
    return f"{count:,} {name}{'' if count == 1 else 's'}"
