"""Routes for policies: the rules by which requests for workflows are decided."""

from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path
from pydantic import Field, StringConstraints

from atlas.api.access.roles import READERS
from atlas.api.http.etags import IfMatch
from atlas.api.models.common import Body, Name, Spend, Whole
from atlas.api.paging import IdCursor, Limit, list_page
from atlas.api.request_context import Calling
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.bounds import MAX_INTEGER
from atlas.engine.policy.judge import check_policy
from atlas.engine.policy.rules import add_rule, edit_rule, find_rule, list_rules, remove_rule
from atlas.engine.workflows.find_workflows import list_workflows
from atlas.models import Page
from atlas.models.approvals import PolicyRule, PolicyVerdict, RuleAdded

router = APIRouter(prefix=f"{PREFIX}/policies", route_class=GuardedRoute, tags=["policies"])

Effect = Literal["allow", "review", "block"]
Count = Annotated[Whole, Field(ge=0, le=MAX_INTEGER)]
Label = Annotated[str, Path(min_length=1, max_length=200)]


class RuleChange(Body):
    """What to change about a rule. Null removes a bound."""

    effect: Effect | None = None
    workflow: Name | None = None
    except_workflows: Annotated[list[Name], Field(max_length=100)] | None = None
    spend_above_cents: Count | None = None
    spend_per_day_cents: Count | None = None
    runs_per_day: Count | None = None

    def described(self) -> dict[str, Any]:
        """The fields that were sent. Null changes no field that a rule must have."""
        kept = {"effect", "workflow", "except_workflows"}
        return {name: value for name, value in self.given().items() if value is not None or name not in kept}


class RuleBody(Body):
    """A rule applies when the workflow matches and every bound it names is exceeded; the strictest one decides."""

    # It ends the rule's address, where a slash or only dots would lead elsewhere.
    label: Annotated[Name, StringConstraints(pattern=r"^[^/.][^/]*$")]
    effect: Effect
    workflow: Name = "*"
    except_workflows: Annotated[list[Name], Field(max_length=100)] = Field(default_factory=list)
    spend_above_cents: Count | None = None
    spend_per_day_cents: Count | None = None
    runs_per_day: Count | None = None


class PolicyQuestion(Body):
    """A request for a workflow that might be made."""

    workflow: Name
    spend_cents: Spend = 0


@router.get(
    "",
    operation_id="list_policies",
    summary="List the rules that decide about intents, oldest first",
)
@requires(*READERS)
async def show_rules(call: Calling, limit: Limit = 50, cursor: IdCursor = None) -> Page[PolicyRule]:
    """Those of the tenant and those for all tenants."""
    return await list_page(call, list_rules, cursor, limit, tenant_id=call.tenant_id)


@router.post(
    "",
    operation_id="create_policy",
    status_code=201,
    summary="Add a rule, for one tenant or for all",
)
@requires("operator")
async def add(body: RuleBody, call: Calling) -> RuleAdded:
    """It holds for requests that are decided from now on."""
    async with call.transaction() as conn:
        return RuleAdded(id=await add_rule(conn, **dict(body), actor=call.actor, tenant_id=call.tenant_id))


@router.post("/check", operation_id="check_policy", summary="What policy would say to a request, without making one")
@requires(*READERS, no_key="the call changes nothing and may be repeated without one")
async def check(body: PolicyQuestion, call: Calling) -> PolicyVerdict:
    """By the rules and the figures of now. An operator who names no tenant asks for Atlas's own."""
    async with call.transaction(read_only=True) as conn:
        verdict = await check_policy(conn, call.home, body.workflow, spend_cents=body.spend_cents)
        is_known = bool(await list_workflows(conn, tenant_id=call.home, key=body.workflow, limit=1))
    return PolicyVerdict(workflow=body.workflow, is_known=is_known, **asdict(verdict))


@router.get("/{label}", operation_id="get_policy", summary="One rule")
@requires(*READERS, etag=True)
async def show_one(label: Label, call: Calling) -> PolicyRule:
    """By its label: the tenant's own, else the one for all tenants."""
    async with call.transaction(read_only=True) as conn:
        return call.tagged(await find_rule(conn, label, tenant_id=call.tenant_id))


@router.patch("/{label}", operation_id="edit_policy", summary="Change a rule")
@requires("operator", etag=True)
async def edit(label: Label, body: RuleChange, call: Calling, if_match: IfMatch) -> PolicyRule:
    """It holds for requests that are decided from now on. An operator who names no tenant means one for all tenants."""
    about: dict[str, Any] = {"actor": call.actor, "tenant_id": call.tenant_id, "if_match": if_match}
    async with call.transaction() as conn:
        return call.tagged(await edit_rule(conn, label, body.described(), **about))


@router.delete("/{label}", operation_id="remove_policy", status_code=204, summary="Remove a rule")
@requires("operator")
async def remove(label: Label, call: Calling) -> None:
    """By its label; an operator who names no tenant means one for all tenants."""
    async with call.transaction() as conn:
        await remove_rule(conn, label, actor=call.actor, tenant_id=call.tenant_id)
