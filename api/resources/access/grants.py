"""Routes for grants: what logins of other applications may enqueue with the SQL function."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import ConfigDict, Field, StringConstraints

from atlas.api.access.roles import READERS
from atlas.api.models.common import Body, Id, Name
from atlas.api.paging import IdCursor, Limit, list_page
from atlas.api.request_context import Calling
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.engine.access.grants import grant_enqueue, list_grants, page_of_grants, revoke_grant
from atlas.engine.tenants.tenants import find_tenant
from atlas.models import Page
from atlas.models.grants import EnqueueGrant, GrantList

router = APIRouter(prefix=f"{PREFIX}/grants", route_class=GuardedRoute, tags=["grants"])

# The longest name that Postgres has.
Login = Annotated[str, StringConstraints(min_length=1, max_length=63)]


class NewGrants(Body):
    """Each of these job types, for each of these tenants."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"login": "shop", "tenants": ["demo"], "job_types": ["invoice.*"]}]}
    )

    login: Login = Field(description="The login, as Postgres knows it.")
    tenants: Annotated[list[Name], Field(min_length=1, max_length=100)] = Field(description="By slug or id.")
    job_types: Annotated[list[Name], Field(min_length=1, max_length=100)] = Field(
        description="Each a job type, or the beginning of some before a *."
    )


@router.get("", operation_id="list_grants", summary="List what logins of other applications may enqueue")
@requires(*READERS)
async def show_list(
    call: Calling,
    login: Annotated[str | None, Query(max_length=63, description="Only this login.")] = None,
    limit: Limit = 50,
    cursor: IdCursor = None,
) -> Page[EnqueueGrant]:
    """Of the tenant, or of all."""
    # No tenant has a right to the table.
    filters: dict[str, Any] = {"tenant_id": call.tenant_id, "login": login}
    return await list_page(call, page_of_grants, cursor, limit, all_tenants=True, **filters)


@router.post("", operation_id="create_grants", status_code=201, summary="Let a login enqueue job types for tenants")
@requires("operator")
async def create(body: NewGrants, call: Calling) -> GrantList:
    """Returns all grants of the login; those it had already stay.

    An administrator lets a login call `atlas.enqueue` first.
    """
    async with call.transaction() as conn:
        tenants = [await find_tenant(conn, name) for name in body.tenants]
        await grant_enqueue(conn, body.login, tenants=tenants, job_types=body.job_types, actor=call.actor)
        return GrantList(grants=await list_grants(conn, login=body.login))


@router.delete("/{grant_id:uuid}", operation_id="revoke_grant", status_code=204, summary="Take a grant away")
@requires("operator")
async def revoke(grant_id: Id, call: Calling) -> None:
    """What the login enqueued stays. Without a grant it may enqueue nothing."""
    async with call.transaction() as conn:
        await revoke_grant(conn, grant_id, actor=call.actor)
