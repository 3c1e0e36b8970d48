"""Routes for approvals and for the policy rules that require them."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path
from pydantic import Field, StringConstraints

from atlas.api.models.common import Body, Flag, Id, Name, Text, Whole
from atlas.api.paging import IdCursor, Limit, read_page
from atlas.api.request_context import Calling
from atlas.api.roles import MANAGERS, READERS
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.bounds import LARGEST_INTEGER
from atlas.client.models import Page
from atlas.client.models.approvals import ApprovalShown, ApprovalStatus, ApprovalSummary, Decided, RuleAdded, RuleShown
from atlas.engine.workflows.approvals import count_pending, decide_approval, list_approvals, record_refusal
from atlas.engine.workflows.policy_rules import add_rule, list_rules, remove_rule
from atlas.errors import NotFound, Refused

router = APIRouter(prefix=PREFIX, route_class=GuardedRoute, tags=["approvals"])

Count = Annotated[Whole, Field(ge=0, le=LARGEST_INTEGER)]


class DecisionBody(Body):
    """A decision. With `input_hash` it holds only for the input that its author has seen."""

    approve: Flag
    comment: Text | None = None
    input_hash: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None


class RuleBody(Body):
    """A rule applies when the workflow matches and every bound it names is exceeded; the strictest one decides."""

    # It ends the rule's address, where a slash or only dots would lead elsewhere.
    label: Annotated[Name, StringConstraints(pattern=r"^[^/.][^/]*$")]
    effect: Literal["allow", "review", "block"]
    workflow: Name = "*"
    except_workflows: Annotated[list[Name], Field(max_length=100)] = Field(default_factory=list)
    spend_above_cents: Count | None = None
    spend_per_day_cents: Count | None = None
    runs_per_day: Count | None = None


@router.get("/approvals", operation_id="list_approvals", summary="List approvals, newest first")
@requires(*READERS)
async def show_list(
    call: Calling,
    status: ApprovalStatus | None = None,
    run_id: Id | None = None,
    limit: Limit = 50,
    cursor: IdCursor = None,
) -> Page[ApprovalShown]:
    """Of runs that wait for a person, and of requests that policy sends to one."""
    wanted: dict[str, Any] = {"tenant_id": call.tenant_id, "run_id": run_id, "status": status}
    async with call.transaction(read_only=True) as conn:
        return await read_page(
            lambda before, limit: list_approvals(conn, **wanted, before=before, limit=limit),
            ApprovalShown.model_validate,
            after=cursor,
            limit=limit,
            contents=lambda one: one.detail,
        )


@router.get("/approvals/summary", operation_id="summarize_approvals", summary="How many approvals are pending")
@requires(*READERS)
async def show_summary(call: Calling) -> ApprovalSummary:
    """Those that have not expired: the decisions that a person can take now."""
    async with call.transaction(read_only=True) as conn:
        return ApprovalSummary(pending=await count_pending(conn, tenant_id=call.tenant_id))


@router.get("/approvals/{approval_id:uuid}", operation_id="get_approval", summary="One approval")
@requires(*READERS)
async def show_one(approval_id: Id, call: Calling) -> ApprovalShown:
    """With the hash of the input that a decision holds for."""
    async with call.transaction(read_only=True) as conn:
        found = await list_approvals(conn, tenant_id=call.tenant_id, id=approval_id, limit=1)
    if not found:
        raise NotFound("approval", approval_id)
    return ApprovalShown.model_validate(found[0])


@router.post(
    "/approvals/{approval_id:uuid}/decision",
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


@router.get(
    "/policies",
    operation_id="list_policies",
    summary="List the rules that decide about intents, oldest first",
    tags=["policies"],
)
@requires(*READERS)
async def show_rules(call: Calling, limit: Limit = 50, cursor: IdCursor = None) -> Page[RuleShown]:
    """Those of the tenant and those for all tenants."""
    async with call.transaction(read_only=True) as conn:
        return await read_page(
            lambda after, limit: list_rules(conn, tenant_id=call.tenant_id, after=after, limit=limit),
            RuleShown.model_validate,
            after=cursor,
            limit=limit,
        )


@router.post(
    "/policies",
    operation_id="create_policy",
    status_code=201,
    summary="Add a rule, for one tenant or for all",
    tags=["policies"],
)
@requires("operator")
async def add(body: RuleBody, call: Calling) -> RuleAdded:
    """It holds for requests that are decided from now on."""
    async with call.transaction() as conn:
        return RuleAdded(id=await add_rule(conn, **dict(body), actor=call.actor, tenant_id=call.tenant_id))


@router.delete(
    "/policies/{label}", operation_id="remove_policy", status_code=204, summary="Remove a rule", tags=["policies"]
)
@requires("operator")
async def remove(label: Annotated[str, Path(min_length=1, max_length=200)], call: Calling) -> None:
    """By its label; an operator who names no tenant means one for all tenants."""
    async with call.transaction() as conn:
        await remove_rule(conn, label, actor=call.actor, tenant_id=call.tenant_id)
