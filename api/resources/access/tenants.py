"""Routes for tenants, the customers of the installation."""

import asyncio
from contextlib import aclosing
from functools import partial
from operator import attrgetter
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import Field

from atlas.api.access.roles import READERS
from atlas.api.http.etags import IfMatch
from atlas.api.models.common import Body, Document, Name
from atlas.api.paging import Limit, NameCursor, read_page
from atlas.api.problems import Busy
from atlas.api.request_context import Calling, RequestContext
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.db.pool import Connection
from atlas.engine.tenants.removal import begin_removal, continue_removal, removed_rows
from atlas.engine.tenants.tenants import add_tenant, edit_tenant, find_tenant, list_tenants
from atlas.errors import no_tenant
from atlas.models import Page
from atlas.models.tenants import Tenant, TenantRemoval

router = APIRouter(prefix=f"{PREFIX}/tenants", route_class=GuardedRoute, tags=["tenants"])

# How long one request carries out a removal. A scheduler goes on, and so does the next request.
REMOVAL_SECONDS = 5.0

SlugOrId = Annotated[str, Path(min_length=1, max_length=63, description="The tenant's slug or id.")]


class TenantChange(Body):
    """What to change about a tenant."""

    name: Name | None = None
    timezone: Name | None = None
    limits: Document | None = Field(
        default=None,
        description="`in_flight` jobs at once, a `rate` of starts and its `burst`, `requests_per_second` to the API, "
        "`email` settings, `quotas` by name.",
    )
    retention: Document | None = Field(
        default=None, description="Days to keep what has finished, by kind; null is for ever."
    )

    def described(self) -> dict[str, Any]:
        return {name: value for name, value in self.given().items() if value is not None}


class NewTenant(Body):
    """A new customer."""

    slug: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
    name: Name
    timezone: Name = "UTC"


@router.get(
    "", operation_id="list_tenants", summary="List the tenants, by slug; callers that belong to one see that one"
)
@requires(*READERS, by_tenant=False)
async def show_list(call: Calling, limit: Limit = 50, cursor: NameCursor = None) -> Page[Tenant]:
    """With their limits and retention."""
    async with call.transaction(read_only=True) as conn:
        if call.tenant_id is not None:
            return Page(items=[await find_tenant(conn, call.tenant_id)])
        read, contents = partial(list_tenants, conn), attrgetter("limits", "retention")
        return await read_page(read, cursor, limit, key=attrgetter("slug"), contents=contents)


@router.post("", operation_id="create_tenant", status_code=201, summary="Add a tenant")
@requires("operator", whole=True, etag=True)
async def create(body: NewTenant, call: Calling) -> Tenant:
    """It begins without limits of its own; its time zone is the clock of its schedules."""
    async with call.transaction() as conn:
        tenant = await add_tenant(conn, slug=body.slug, name=body.name, timezone=body.timezone, actor=call.actor)
    # The slug may have been that of a tenant that was removed.
    call.after_commit(call.api.tenants.forget)
    return call.tagged(tenant)


@router.get("/{slug_or_id}", operation_id="get_tenant", summary="One tenant")
@requires(*READERS, by_tenant=False, etag=True)
async def show_one(slug_or_id: SlugOrId, call: Calling) -> Tenant:
    """By its slug or its id."""
    async with call.transaction(read_only=True) as conn:
        return call.tagged(await _find(conn, slug_or_id, call))


@router.patch(
    "/{slug_or_id}", operation_id="edit_tenant", summary="Change a tenant's name, time zone, limits or retention"
)
@requires("operator", whole=True, etag=True)
async def edit(slug_or_id: SlugOrId, body: TenantChange, call: Calling, if_match: IfMatch) -> Tenant:
    """`limits` and `retention` are replaced as a whole; what they do not name has its default."""
    async with call.transaction() as conn:
        tenant = await _find(conn, slug_or_id, call)
        changed = await edit_tenant(conn, tenant, body.described(), actor=call.actor, if_match=if_match)
    call.after_commit(call.api.tenants.forget)
    return call.tagged(changed)


@router.delete(
    "/{slug_or_id}", operation_id="remove_tenant", summary="Remove a tenant and everything that belongs to it"
)
@requires("operator", whole=True, no_key="a removal may be repeated: it continues")
async def remove(
    slug_or_id: SlugOrId,
    call: Calling,
    if_match: IfMatch,
    cancel: Annotated[bool, Query(description="Cancel its work that has not ended, which else is 409.")] = False,
    reason: Annotated[Name | None, Query(description="Why, for everyone who reads the audit log.")] = None,
) -> TenantRemoval:
    """Its rows of the audit log stay.

    What takes longer than some seconds is carried on by a scheduler. Repeat the call to see how far it is; 404 means
    that the tenant is gone.
    """
    async with call.transaction() as conn:
        tenant = await begin_removal(
            conn,
            await _find(conn, slug_or_id, call),
            actor=call.actor,
            reason=reason,
            cancel=cancel,
            if_match=if_match,
        )
    last, is_removed = await _remove(tenant, call)
    call.api.tenants.forget()
    call.api.callers.forget()
    async with call.transaction(read_only=True) as conn:
        rows = await removed_rows(conn, tenant.id)
    assert tenant.removing_at is not None
    return TenantRemoval(
        id=tenant.id,
        slug=tenant.slug,
        removing_at=tenant.removing_at,
        is_removed=is_removed,
        last_step=last,
        rows=rows,
    )


async def _remove(tenant: Tenant, call: RequestContext) -> tuple[str | None, bool]:
    """Carry out a removal for some seconds. Returns the last step, and whether it was the last of all."""
    last = None
    ends_at = asyncio.get_running_loop().time() + REMOVAL_SECONDS
    try:
        async with aclosing(continue_removal(call.transaction, tenant.id, actor=call.actor)) as steps:
            async for step in steps:
                last = str(step)
                if asyncio.get_running_loop().time() > ends_at:
                    return last, False
    except Busy:
        # It has begun all the same, and a scheduler waits longer for a lock than a request may.
        return "waits for others", False
    return last, True


async def _find(conn: Connection, slug_or_id: str, call: RequestContext) -> Tenant:
    tenant = await find_tenant(conn, slug_or_id)
    if call.tenant_id not in (None, tenant.id):
        raise no_tenant(slug_or_id)
    return tenant
