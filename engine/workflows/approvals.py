"""Approvals: a question to a person, bound to the exact input it is about.

A run asks with `run.approval`, the engine asks before it starts an intent that policy wants reviewed. Who asked for
the work may not decide, nor may anyone whose token goes back to the same one; after its expiry no one may.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import orjson

from atlas.actors import Actor
from atlas.audit.record import Event, record
from atlas.bounds import MAX_PAGE_SIZE
from atlas.db.pool import Connection, Queryable
from atlas.db.prisma import page_filter, prisma_on
from atlas.db.statements import fetch, fetch_row, fetch_value, statement
from atlas.engine.workflows.accept_intents import accept_intent, reject_intent
from atlas.engine.workflows.review import Subject, require_unchanged
from atlas.engine.workflows.rows import read_rows
from atlas.errors import Conflict, NotFound, Refused
from atlas.ids import new_id
from atlas.models.approvals import Approval
from atlas.models.rows import from_row

if TYPE_CHECKING:
    from atlas.generated.types import ApprovalWhereInput

LOCK = statement("engine/workflows/sql/lock_approval.sql")
DECIDE = statement("engine/workflows/sql/decide_approval.sql")
EXPIRE = statement("engine/workflows/sql/expire_approvals.sql")
WAKE = statement("engine/workflows/sql/wake_runs.sql")
LOCK_RUN = statement("engine/workflows/sql/lock_run.sql")
LOCK_INTENT = statement("engine/workflows/sql/lock_intent.sql")
LOCK_LATE_INTENTS = statement("engine/workflows/sql/lock_late_intents.sql")
LOCK_LATE_RUNS = statement("engine/workflows/sql/lock_late_runs.sql")
SUBJECTS = statement("engine/workflows/sql/approval_subjects.sql")
ASK_REVIEWS = statement("engine/workflows/sql/ask_reviews.sql")
COUNT_PENDING = statement("engine/workflows/sql/count_pending.sql")

REVIEW_EXPIRES = timedelta(days=7)
# No one decides more of them one by one.
MAX_COUNTED = 10_000
# What a decision changes.
UNDECIDED = {"status": "pending", "decided_at": None, "decided_by": None, "comment": None}


async def decide_approval(
    conn: Connection,
    approval_id: UUID,
    approve: bool,
    *,
    actor: Actor,
    comment: str | None = None,
    input_hash: str | None = None,
    tenant_id: UUID | None = None,
) -> str:
    """Approve or reject; returns `approved` or `rejected`. With `input_hash` only for the input the caller has seen.

    The requester, and a subject that counts as the same person, is Refused. A decided or expired one is a Conflict, and
    so is approving a start whose workflow or rules changed since it was requested.
    """
    async with conn.transaction():
        await fetch(conn, LOCK_RUN, approval_id=approval_id)
        await fetch(conn, LOCK_INTENT, approval_id=approval_id)
        row = await fetch_row(conn, LOCK, id=approval_id, tenant_id=tenant_id)
        if row is None:
            raise NotFound("approval", approval_id)
        _check(row, input_hash)
        subject: Subject | None = None if row["subject"] is None else orjson.loads(row["subject"])
        if approve and subject is not None:
            await require_unchanged(conn, approval_id, row["tenant_id"], subject)
        status = "approved" if approve else "rejected"
        if not await fetch(conn, DECIDE, id=approval_id, status=status, decided_by=actor.id, comment=comment):
            raise _same_person(row["requested_by"], actor.id)
        await record(conn, _decided(row, status, actor, comment), before=UNDECIDED)
        if row["kind"] == "step":
            await fetch(conn, WAKE, run_ids=[row["run_id"]])
        elif approve:
            await accept_intent(conn, row["run_id"], subject)
        else:
            await reject_intent(conn, row["run_id"], f"{actor.id} rejected it" + (f": {comment}" if comment else ""))
    return status


async def record_refusal(conn: Connection, approval_id: UUID, actor: Actor, refusal: Refused) -> None:
    """Record that a decision was refused, after the transaction in which it was: that one left nothing."""
    approvals = await list_approvals(conn, id=approval_id, limit=1)
    tenant_id = approvals[0].tenant_id if approvals else None
    event = Event("DECISION_REFUSED", "approval", str(approval_id), actor, tenant_id, refusal.message, "warn")
    await record(conn, event)


async def expire_approvals(conn: Connection, *, run_ids: Sequence[UUID] | None = None) -> int:
    """Close the approvals that have expired, and wake the runs that asked. Returns how many runs."""
    async with conn.transaction():
        ids = None if run_ids is None else list(run_ids)
        await fetch(conn, LOCK_LATE_RUNS, run_ids=ids)
        await fetch(conn, LOCK_LATE_INTENTS, run_ids=ids)
        rows = await fetch(conn, EXPIRE, run_ids=ids)
        asking = sorted({row["run_id"] for row in rows})
        if asking:
            await fetch(conn, WAKE, run_ids=asking)
    return len(asking)


async def ask_for_reviews(conn: Connection, intents: Sequence[tuple[UUID, str, Subject]]) -> None:
    """Ask a person about each of these intents: (id, why policy wants it, what is reviewed)."""
    await fetch(
        conn,
        ASK_REVIEWS,
        ids=[new_id() for _ in intents],
        intents=[intent_id for intent_id, _, _ in intents],
        reasons=[reason for _, reason, _ in intents],
        subjects=[orjson.dumps(subject).decode() for _, _, subject in intents],
        expires=REVIEW_EXPIRES.total_seconds(),
    )


async def list_approvals(
    conn: Queryable,
    *,
    tenant_id: UUID | None = None,
    id: UUID | None = None,
    run_id: UUID | None = None,
    status: str | None = None,
    after: UUID | None = None,
    limit: int = 50,
    decider: str = "",
) -> list[Approval]:
    """Approvals, newest first. `may_decide` of them says whether the subject `decider` may."""
    where: ApprovalWhereInput = page_filter(tenant_id=tenant_id, id=id, before=after, run_id=run_id, status=status)
    rows = await prisma_on(conn).approval.find_many(min(limit, MAX_PAGE_SIZE), where=where, order={"id": "desc"})
    # The very input that the hash was made of; null once it was deleted.
    about = await read_rows(conn, SUBJECTS, {"ids": [row.id for row in rows], "decider": decider}, "input")
    subjects = {str(subject.pop("id")): subject for subject in about}
    return [
        from_row(Approval, row, input_hash=row.inputHash.decode().hex(), **subjects[row.id])
        for row in rows
        if row.id in subjects
    ]


async def count_pending(conn: Connection, *, tenant_id: UUID | None = None) -> int:
    """How many approvals can be decided now, 10,000 at most."""
    return int(await fetch_value(conn, COUNT_PENDING, tenant_id=tenant_id, most=MAX_COUNTED))


def _check(row: Any, input_hash: str | None) -> None:
    if row["status"] != "pending":
        raise Conflict(f"Approval {row['id']} is {row['status']} already.", remedy="Only a pending one can be decided.")
    if row["is_late"]:
        raise Conflict(f"Approval {row['id']} has expired.", remedy="Request the work again.")
    seen_another = input_hash is not None and input_hash != row["input_hash"].hex()
    if seen_another or (row["kind"] == "intent" and not row["still_the_same"]):
        raise Conflict(
            f"Approval {row['id']} is for another input than the one shown.", remedy="Look at it again, then decide."
        )


def _same_person(requester: str, decider: str) -> Refused:
    if requester == decider:
        return Refused(f"{decider} requested this and may not decide it.", remedy="Let another person decide.")
    return Refused(
        f"{requester} requested this. The tokens of {requester} and {decider} go back to one:"
        " they count as one person.",
        remedy="Let someone decide whose token was made by neither of them, nor by the one who made theirs;"
        " one that is made on the machine (`atlas token add`) goes back to no other.",
    )


def _decided(row: Any, status: str, actor: Actor, comment: str | None) -> Event:
    return Event(
        action="APPROVAL_DECIDED",
        entity_type="approval",
        entity_id=str(row["id"]),
        actor=actor,
        tenant_id=row["tenant_id"],
        message=row["title"],
        meta={
            "decision": status,
            "run_id": str(row["run_id"]),
            "step": row["step"],
            "input_hash": row["input_hash"].hex(),
            "comment": comment,
        },
    )
