"""Removes old rows of the audit log by the rules of the installation: archived, not too young, and allowed by policy.

A rule of policy for the workflow `audit.prune` decides, as for any start: `review` asks a second person, with an
ordinary approval of the tenant `system`; `block` forbids it. What is approved is the removal up to one seal.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson

from atlas.actors import Actor
from atlas.audit.exports.archives import require_archived
from atlas.audit.keys import SigningKey
from atlas.audit.record import Event, record
from atlas.audit.retention import PrunedRows, prunable_seal, prune
from atlas.db.pool import Connection
from atlas.db.statements import fetch_row, statement
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT
from atlas.engine.policy.judge import check_policy
from atlas.engine.workflows.approvals import REVIEW_EXPIRES
from atlas.errors import Conflict, Refused
from atlas.ids import new_id

ASK = statement("engine/retention/sql/ask_prune_review.sql")
OPEN_REVIEW = statement("engine/retention/sql/open_prune_review.sql")

# The name by which rules of policy mean it.
WORKFLOW = "audit.prune"
# Approvals of it have this as the id of what asks: there is no run.
PRUNE_ID = UUID("00000000-0000-7000-8000-0000000a0d17")


@dataclass(frozen=True, slots=True)
class PruneReview:
    """A removal that waits for a second person."""

    approval_id: UUID
    through_seal: int
    requested_by: str
    expires_at: datetime


async def prune_by_policy(
    conn: Connection, *, older_than: timedelta, min_age: timedelta, actor: Actor, key: SigningKey, reason: str = ""
) -> PrunedRows | PruneReview | None:
    """Remove the rows of seals older than that, or request the review that policy wants. None: no seal is that old.

    The connection is of the owner of the tables, and the key signs the order. Rows that are in no recorded archive
    are a Conflict. Called again after the approval, it removes what was approved.
    """
    if older_than < min_age:
        raise Refused(
            f"Rows of the audit log stay for {min_age.days} days at least.",
            remedy=f"Give --older-than {min_age.days}d or more, or lower ATLAS_AUDIT_MIN_AGE_DAYS.",
        )
    verdict = await check_policy(conn, SYSTEM_TENANT, WORKFLOW)
    if verdict.effect == "block":
        raise Refused(f"Policy forbids it. {verdict.reason}", remedy="Change the rule, if it should not hold.")
    async with conn.transaction():
        newest = await prunable_seal(conn, older_than)
        if newest is None:
            return None
        if verdict.effect == "allow":
            return await _prune_archived(conn, newest, older_than, actor, key)
        review = await fetch_row(conn, OPEN_REVIEW, id=PRUNE_ID)
        if review is None:
            await require_archived(conn, newest)
            return await _ask(conn, newest, older_than, actor, reason or verdict.reason)
        through: int = review["through_seal"]
        if through > newest:
            raise Conflict(
                f"Approval {review['id']} is for newer rows, up to seal {through}.",
                remedy="Give the --older-than of that request.",
            )
        if review["status"] == "pending":
            return PruneReview(review["id"], through, review["requested_by"], review["expires_at"])
        facts = {
            "approval": str(review["id"]),
            "requested_by": review["requested_by"],
            "approved_by": review["decided_by"],
        }
        return await _prune_archived(conn, through, older_than, actor, key, facts)


async def _prune_archived(
    conn: Connection,
    through: int,
    older_than: timedelta,
    actor: Actor,
    key: SigningKey,
    facts: Mapping[str, Any] | None = None,
) -> PrunedRows | None:
    """Remove the rows up to a seal. The event of the order names the archives that hold them."""
    archives = await require_archived(conn, through)
    facts = {**(facts or {}), "archives": archives}
    return await prune(conn, older_than=older_than, actor=actor, key=key, through=through, facts=facts)


async def _ask(conn: Connection, through: int, older_than: timedelta, actor: Actor, reason: str) -> PruneReview:
    """Request the approval of a second person."""
    title = f"Remove the rows of the audit log up to seal {through}?"
    detail = {"through_seal": through, "older_than_days": older_than.days, "reason": reason}
    row = await fetch_row(
        conn,
        ASK,
        id=new_id(),
        tenant_id=SYSTEM_TENANT,
        run_id=PRUNE_ID,
        step=WORKFLOW,
        title=title,
        detail=orjson.dumps(detail).decode(),
        requested_by=actor.id,
        expires=REVIEW_EXPIRES,
    )
    assert row is not None
    facts = {"run_id": str(PRUNE_ID), "step": WORKFLOW, "input_hash": row["input_hash"].hex(), **detail}
    meta = {**facts, "expires_at": row["expires_at"].isoformat()}
    await record(conn, Event("APPROVAL_REQUESTED", "approval", str(row["id"]), actor, SYSTEM_TENANT, title, meta=meta))
    return PruneReview(row["id"], through, actor.id, row["expires_at"])
