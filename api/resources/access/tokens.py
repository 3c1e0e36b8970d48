"""Routes for tokens, the credentials of people and programs. The clear text is shown once, when one is created."""

from operator import attrgetter
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import ConfigDict, Field

from atlas.api.access.roles import MANAGERS
from atlas.api.models.common import Body, Document, Id, Name, Timestamp
from atlas.api.paging import IdCursor, Limit, list_page
from atlas.api.problems import Forbidden
from atlas.api.request_context import Calling, RequestContext
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.db.pool import Connection
from atlas.engine.access.tokens import (
    add_token,
    find_token,
    list_tokens,
    require_own_name,
    revoke_created_tokens,
    revoke_token,
)
from atlas.engine.hosts.hosts import list_hosts
from atlas.engine.webhooks.inbound import replace_known_secrets
from atlas.errors import FieldError, InvalidInput
from atlas.ids import as_id
from atlas.models import Page
from atlas.models.tenants import CreatedToken, RevokedToken, Role, Token

WithCreated = Annotated[
    bool, Query(description="Also revoke the tokens that were created with it, those created with them, and so on.")
]

router = APIRouter(prefix=f"{PREFIX}/tokens", route_class=GuardedRoute, tags=["tokens"])


class NewToken(Body):
    """A new credential. Those of an operator belong to no tenant, the others to the caller's or to `?tenant=`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"subject": "billing", "role": "worker", "scopes": {"job_types": ["invoice.send"]}}]
        }
    )

    subject: Name = Field(description="The person or program that acts with it.")
    role: Role
    scopes: Document = Field(
        default_factory=dict,
        description="A worker's `job_types`, or none for every type; a host's `host_id`, which it needs.",
    )
    expires_at: Timestamp | None = None


@router.get("", operation_id="list_tokens", summary="List the tokens, oldest first")
@requires(*MANAGERS)
async def show_list(call: Calling, limit: Limit = 50, cursor: IdCursor = None) -> Page[Token]:
    """Expired and revoked ones too, without their secrets."""
    contents = attrgetter("scopes")
    return await list_page(call, list_tokens, cursor, limit, contents=contents, tenant_id=call.tenant_id)


@router.post("", operation_id="create_token", status_code=201, summary="Create a token")
@requires(*MANAGERS, no_key="a token's secret is returned once and never stored")
async def create(body: NewToken, call: Calling) -> CreatedToken:
    """The response shows the whole token, once. Atlas keeps its hash."""
    if body.role == "operator" and call.caller.role != "operator":
        raise Forbidden("Only an operator creates tokens of operators.")
    # An operator who names no tenant creates tokens for the whole installation, where the role allows that.
    whole = body.role == "operator" or (body.role == "auditor" and call.tenant_id is None)
    tenant = None if whole else await call.home_tenant()
    if tenant is not None:
        # The tokens of operators do not exist for a tenant's transaction.
        async with call.transaction(read_only=True, all_tenants=True) as conn:
            await require_own_name(conn, body.subject)
    async with call.transaction() as conn:
        if body.role == "host":
            await _require_host(conn, call, body.scopes.get("host_id"))
        token, clear = await add_token(
            conn,
            subject=body.subject,
            role=body.role,
            tenant=tenant,
            scopes=body.scopes,
            expires_at=body.expires_at,
            actor=call.actor,
        )
    return CreatedToken(**dict(token), token=clear)


@router.get("/{token_id:uuid}", operation_id="get_token", summary="One token")
@requires(*MANAGERS)
async def show_one(token_id: Id, call: Calling) -> Token:
    """Without its secret."""
    async with call.transaction(read_only=True) as conn:
        return await find_token(conn, token_id, tenant_id=call.tenant_id)


@router.delete(
    "/{token_id:uuid}",
    operation_id="revoke_token",
    summary="Revoke a token, and end every session that was opened with it",
)
@requires(*MANAGERS)
async def revoke(token_id: Id, call: Calling, with_created: WithCreated = False) -> RevokedToken:
    """It is refused everywhere within 30 seconds, mostly immediately, on open WebSockets too."""
    async with call.transaction() as conn:
        token = await find_token(conn, token_id, tenant_id=call.tenant_id)
        revoked = await revoke_token(conn, str(token.id), actor=call.actor)
        created = await revoke_created_tokens(conn, revoked, actor=call.actor) if with_created else []
        hooks = await replace_known_secrets(conn, revoked.id, actor=call.actor) if with_created else []
    call.after_commit(call.api.callers.forget)
    call.after_commit(call.api.inbound_hooks.forget)
    return RevokedToken(**dict(revoked), created=created, hooks=[hook.id for hook in hooks])


async def _require_host(conn: Connection, call: RequestContext, host: Any) -> None:
    """A host's token is valid for one machine only, so that a stolen one opens no other."""
    id = as_id(str(host))
    if id is None or not await list_hosts(conn, tenant_id=call.home, id=id, limit=1):
        raise InvalidInput("The token", [FieldError("scopes.host_id", "must be the id of a host of the tenant")])
