"""Routes for approvals, the decisions that wait for a person."""

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field

from atlas.api.access.authentication import Caller
from atlas.api.access.roles import MANAGERS, READERS
from atlas.api.models.common import Body, Flag, Id, Text
from atlas.api.paging import IdCursor, Limit, list_page
from atlas.api.request_context import Calling
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.db.pool import Connection
from atlas.engine.workflows.approvals import (
    count_pending,
    decide_approval,
    list_approvals,
    record_refusal,
)
from atlas.errors import NotFound, Refused
from atlas.models import Page
from atlas.models.approvals import Approval, ApprovalStatus, ApprovalSummary, Decided

router = APIRouter(prefix=f"{PREFIX}/approvals", route_class=GuardedRoute, tags=["approvals"])


class DecisionBody(Body):
    """A decision. With `input_hash` it holds only for the input that its author has seen."""

    approve: Flag
    comment: Text | None = None
    input_hash: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None


@router.get("", operation_id="list_approvals", summary="List approvals, newest first")
@requires(*READERS)
async def show_list(
    call: Calling,
    status: ApprovalStatus | None = None,
    run_id: Id | None = None,
    limit: Limit = 50,
    cursor: IdCursor = None,
) -> Page[Approval]:
    """Of runs that wait for a person, and of requests that policy sends to one."""
    filters: dict[str, Any] = {"tenant_id": call.tenant_id, "run_id": run_id, "status": status, "caller": call.caller}
    return await list_page(
        call, _read, cursor, limit, contents=lambda approval: (approval.detail, approval.input), **filters
    )


@router.get("/summary", operation_id="summarize_approvals", summary="How many approvals are pending")
@requires(*READERS)
async def show_summary(call: Calling) -> ApprovalSummary:
    """Those that have not expired: the decisions that a person can take now."""
    async with call.transaction(read_only=True) as conn:
        return ApprovalSummary(pending=await count_pending(conn, tenant_id=call.tenant_id))


@router.get("/{approval_id:uuid}", operation_id="get_approval", summary="One approval")
@requires(*READERS)
async def show_one(approval_id: Id, call: Calling) -> Approval:
    """With the input that a decision holds for, and its hash."""
    async with call.transaction(read_only=True) as conn:
        page = await _read(conn, caller=call.caller, tenant_id=call.tenant_id, id=approval_id, limit=1)
    if not page:
        raise NotFound("approval", approval_id)
    return page[0]


@router.post(
    "/{approval_id:uuid}/decision",
    operation_id="decide_approval",
    summary="Approve or reject; the requester of the work may not",
)
@requires(*MANAGERS)
async def decide(approval_id: Id, body: DecisionBody, call: Calling) -> Decided:
    """Nor may a subject that goes back to the same token: a second name does not make a second person."""
    try:
        async with call.transaction() as conn:
            status = await decide_approval(
                conn,
                approval_id,
                body.approve,
                actor=call.actor,
                comment=body.comment,
                input_hash=body.input_hash,
                tenant_id=call.tenant_id,
            )
    except Refused as refusal:
        async with call.transaction() as conn:
            await record_refusal(conn, approval_id, call.actor, refusal)
        raise
    return Decided(id=approval_id, status=status)


async def _read(conn: Connection, *, caller: Caller, **query: Any) -> list[Approval]:
    approvals = await list_approvals(conn, decider=caller.subject, **query)
    if caller.role in MANAGERS:
        return approvals
    return [approval.model_copy(update={"may_decide": False}) for approval in approvals]
