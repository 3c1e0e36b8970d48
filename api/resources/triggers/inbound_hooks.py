"""Routes for inbound hooks, and the one that others post their messages to."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Header, Path, Request
from pydantic import ConfigDict, Field

from atlas.actors import Actor
from atlas.api.access.authentication import address_of
from atlas.api.access.roles import MANAGERS, READERS
from atlas.api.app_state import AppState
from atlas.api.models.common import Body, Id, Name
from atlas.api.paging import IdCursor, Limit, list_page
from atlas.api.request_context import Calling
from atlas.api.resources.triggers.webhooks import Rotation
from atlas.api.routing import PREFIX, GuardedRoute, read_bytes, requires
from atlas.bounds import MAX_INPUT
from atlas.engine.webhooks.inbound import (
    MAX_ID_LENGTH,
    accept_message,
    add_hook,
    check_signature,
    find_hook,
    list_hooks,
    remove_hook,
    rotate_hook_secret,
)
from atlas.engine.webhooks.signature import ID, SIGNATURE, TIMESTAMP, NotAccepted
from atlas.models import ApiModel, Page
from atlas.models.webhooks import CreatedInboundHook, InboundHook
from atlas.strict_json import read_json

router = APIRouter(prefix=f"{PREFIX}/inbound-hooks", route_class=GuardedRoute, tags=["webhooks"])
# Without the version: the address is given to others.
receiving = APIRouter(prefix="/hooks", route_class=GuardedRoute, tags=["webhooks"])


class NewHook(Body):
    """A new address for messages that become events of this name."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"event_name": "payment.received"}]})

    event_name: Name
    description: str = Field(default="", max_length=200)


class MessageAccepted(ApiModel):
    """The event that a message became."""

    event_id: UUID
    repeated: bool


@router.get("", operation_id="list_inbound_hooks", summary="List the inbound hooks, oldest first")
@requires(*READERS)
async def show_list(call: Calling, limit: Limit = 50, cursor: IdCursor = None) -> Page[InboundHook]:
    """Without their secrets."""
    return await list_page(call, list_hooks, cursor, limit, tenant_id=call.tenant_id)


@router.post("", operation_id="create_inbound_hook", status_code=201, summary="Add an inbound hook")
@requires(*MANAGERS, no_key="a hook's secret is returned once and never stored in clear")
async def create(body: NewHook, call: Calling) -> CreatedInboundHook:
    """The response shows the secret, once."""
    async with call.transaction() as conn:
        hook, clear = await add_hook(conn, call.home, body.event_name, description=body.description, actor=call.actor)
    return CreatedInboundHook(**dict(hook), secret=clear)


@router.get("/{hook_id:uuid}", operation_id="get_inbound_hook", summary="One inbound hook")
@requires(*READERS)
async def show_one(hook_id: Id, call: Calling) -> InboundHook:
    """Without its secret."""
    async with call.transaction(read_only=True) as conn:
        return await find_hook(conn, hook_id, tenant_id=call.tenant_id)


@router.post(
    "/{hook_id:uuid}/rotate-secret",
    operation_id="rotate_inbound_hook_secret",
    summary="Give an inbound hook another secret",
)
@requires(*MANAGERS, no_key="a hook's secret is returned once and never stored in clear")
async def rotate(hook_id: Id, body: Rotation, call: Calling) -> CreatedInboundHook:
    """The response shows the new secret, once. The old one is refused everywhere within 10 seconds after its end."""
    async with call.transaction() as conn:
        hook, clear = await rotate_hook_secret(
            conn, hook_id, actor=call.actor, tenant_id=call.tenant_id, overlap_seconds=body.overlap_seconds
        )
    call.after_commit(call.api.inbound_hooks.forget)
    return CreatedInboundHook(**dict(hook), secret=clear)


@router.delete("/{hook_id:uuid}", operation_id="remove_inbound_hook", status_code=204, summary="Remove an inbound hook")
@requires(*MANAGERS)
async def remove(hook_id: Id, call: Calling) -> None:
    """Messages to it are refused everywhere within 10 seconds."""
    async with call.transaction() as conn:
        await remove_hook(conn, hook_id, actor=call.actor, tenant_id=call.tenant_id)
    call.after_commit(call.api.inbound_hooks.forget)


# Read by the function itself: the signature is over the bytes.
_MESSAGE = {"requestBody": {"required": True, "content": {"application/json": {"schema": {}}}}}


@receiving.post("/{key}", operation_id="receive_message", summary="Post a signed message", openapi_extra=_MESSAGE)
@requires()
async def receive(
    request: Request,
    key: Annotated[str, Path(pattern="^[A-Za-z0-9_-]{20,64}$", examples=["fJ2kqW8n0cY5sT1vXb7LrA9e"])],
    webhook_id: Annotated[str, Header(max_length=MAX_ID_LENGTH, description="Names the message.")],
    webhook_timestamp: Annotated[str, Header(max_length=20, description="Seconds since 1970.")],
    webhook_signature: Annotated[str, Header(max_length=1000, description="`v1,` and the HMAC, in base64.")],
    idempotency_key: Annotated[str | None, Header(description="Not used: `webhook-id` names the message.")] = None,
) -> MessageAccepted:
    """It becomes an event of the hook's tenant. One that was received before changes nothing."""
    api: AppState = request.app.state.api
    address = address_of(request)
    hook = await api.inbound_hooks.find(key, address)
    body = await read_bytes(request, MAX_INPUT)
    headers = {ID: webhook_id, TIMESTAMP: webhook_timestamp, SIGNATURE: webhook_signature}
    try:
        check_signature(hook, headers, body)
    except NotAccepted as error:
        raise api.inbound_hooks.refuse(error, address) from None
    value: Any = read_json(body)
    commitment = await api.addresses.commitment(hook.tenant_id, address)
    actor = Actor("system", f"hook:{hook.id}", commitment, request.scope["atlas.request_id"])
    async with api.db.transaction(hook.tenant_id, share=(hook.tenant_id, False)) as conn:
        accepted = await accept_message(conn, hook, headers, value, actor=actor)
    return MessageAccepted(event_id=accepted.event_id, repeated=accepted.is_repeated)
