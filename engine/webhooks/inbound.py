"""Inbound hooks: addresses that others post signed messages to. Each message becomes an event, once."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

import orjson

from atlas.actors import Actor
from atlas.audit.changes import values_of
from atlas.audit.record import Event, record
from atlas.bounds import MAX_PAGE_SIZE
from atlas.db.pg_json import stored_json
from atlas.db.pool import Connection
from atlas.db.prisma import data_of, page_filter, prisma_on
from atlas.db.statements import fetch, fetch_value, statement
from atlas.engine.access.quotas import require_room
from atlas.engine.access.tokens import require_valid_creator
from atlas.engine.validation import check_name
from atlas.engine.webhooks.signature import ID, TIMESTAMP, NotAccepted, is_signed
from atlas.engine.webhooks.signing_secrets import make_secret, read_secrets, rotate_secret
from atlas.engine.workflows.events import publish_event
from atlas.errors import Conflict, FieldError, InvalidInput, NotFound
from atlas.ids import new_id
from atlas.models.rows import from_row
from atlas.models.webhooks import InboundHook

if TYPE_CHECKING:
    from atlas.generated import models
    from atlas.generated.types import InboundHookWhereInput

HOOK_TIME = statement("engine/webhooks/sql/hook_time.sql")
KNOWN_TO = statement("engine/webhooks/sql/hooks_known_to.sql")

# How far the timestamp of a message may be from the database's clock.
TOLERANCE_SECONDS = 300.0
MAX_ID_LENGTH = 200


@dataclass(frozen=True, slots=True)
class HookSecret:
    """What is needed to accept a message: whose hook it is, the event's name, and the secrets that hold."""

    id: UUID
    tenant_id: UUID
    event_name: str
    secrets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Accepted:
    """The event of a message; `is_repeated` if it was published before."""

    event_id: UUID
    is_repeated: bool


async def add_hook(
    conn: Connection, tenant_id: UUID, event_name: str, *, description: str = "", actor: Actor
) -> tuple[InboundHook, str]:
    """Add an address. Returns it with its signing secret, which is not shown again."""
    wrong = check_name("event_name", event_name) + (check_name("description", description) if description else [])
    if wrong:
        raise InvalidInput("The hook", wrong)
    id = new_id()
    clear, sealed = make_secret(tenant_id, id)
    async with conn.transaction():
        await require_valid_creator(conn, actor)
        await require_room(conn, "inbound_hooks", tenant_id)
        values = {"event_name": event_name, "description": description, "key": secrets.token_urlsafe(24)}
        data = data_of(id=id, tenant_id=tenant_id, **values, **sealed, created_by=actor.id)
        hook = _hook(await prisma_on(conn).inboundhook.create(data))
        await record(conn, _event("HOOK_ADDED", hook, actor))
    return hook, clear


async def rotate_hook_secret(
    conn: Connection, hook_id: UUID, *, actor: Actor, tenant_id: UUID | None = None, overlap_seconds: float
) -> tuple[InboundHook, str]:
    """Make another secret and return it, once. Messages signed with the old one are accepted for some time more."""
    async with conn.transaction():
        await require_valid_creator(conn, actor)
        return await _rotate(conn, hook_id, actor, tenant_id, overlap_seconds)


async def replace_known_secrets(conn: Connection, token_id: UUID, *, actor: Actor) -> list[InboundHook]:
    """Replace the secrets of hooks that this token, or one that was created with it, knows. No one knows the new ones.

    The hooks keep their addresses and accept nothing until their secrets are rotated.
    """
    async with conn.transaction():
        hook_ids = [row["id"] for row in await fetch(conn, KNOWN_TO, token_id=token_id)]
        return [(await _rotate(conn, hook_id, actor, None, 0))[0] for hook_id in hook_ids]


async def _rotate(
    conn: Connection, hook_id: UUID, actor: Actor, tenant_id: UUID | None, overlap_seconds: float
) -> tuple[InboundHook, str]:
    rotated = await rotate_secret(conn, "inbound_hook", hook_id, tenant_id, overlap_seconds)
    if rotated is None:
        raise _unknown(hook_id)
    hook = await find_hook(conn, hook_id)
    event = _event("HOOK_SECRET_ROTATED", hook, actor, overlap_seconds=overlap_seconds)
    await record(conn, event, before=rotated[1])
    return hook, rotated[0]


async def remove_hook(conn: Connection, hook_id: UUID, *, actor: Actor, tenant_id: UUID | None = None) -> InboundHook:
    """Remove an address and its secret. Processes of the API may accept messages for some seconds more."""
    async with conn.transaction():
        hook = await find_hook(conn, hook_id, tenant_id=tenant_id)
        values = await values_of(conn, "inbound_hook", hook_id)
        if await prisma_on(conn).inboundhook.delete({"id": str(hook_id)}) is None:
            raise _unknown(hook_id)
        await record(conn, _event("HOOK_REMOVED", hook, actor), before=values)
    return hook


async def find_hook(conn: Connection, hook_id: UUID, *, tenant_id: UUID | None = None) -> InboundHook:
    """One hook; NotFound if there is none, or if it is another tenant's."""
    hooks = await list_hooks(conn, tenant_id=tenant_id, id=hook_id, limit=1)
    if not hooks:
        raise _unknown(hook_id)
    return hooks[0]


async def list_hooks(
    conn: Connection,
    *,
    tenant_id: UUID | None = None,
    id: UUID | None = None,
    after: UUID | None = None,
    limit: int = MAX_PAGE_SIZE,
) -> list[InboundHook]:
    """A page of hooks, oldest first."""
    where: InboundHookWhereInput = page_filter(tenant_id=tenant_id, id=id, after=after)
    rows = await prisma_on(conn).inboundhook.find_many(min(limit, MAX_PAGE_SIZE), where=where, order={"id": "asc"})
    return [_hook(row) for row in rows]


async def load_secret(conn: Connection, key: str) -> HookSecret | None:
    """The hook behind a key; None if there is none. The caller sees the hooks of all tenants."""
    row = await prisma_on(conn).inboundhook.find_unique(where={"key": key})
    if row is None:
        return None
    id, tenant_id = UUID(row.id), UUID(row.tenantId)
    stored = {"key_id": row.keyId, "nonce": row.nonce.decode(), "ciphertext": row.ciphertext.decode()}
    now = await fetch_value(conn, HOOK_TIME, timestamp=0.0)
    valid = read_secrets({"id": id, "tenant_id": tenant_id, "now": float(now), **stored})
    return HookSecret(id, tenant_id, row.eventName, valid)


def check_signature(hook: HookSecret, headers: Mapping[str, str], body: bytes) -> None:
    """Raise NotAccepted unless the message has an id, a time, and a signature made with the hook's secret."""
    id, timestamp = headers.get(ID, ""), headers.get(TIMESTAMP, "")
    well_formed = 0 < len(id) <= MAX_ID_LENGTH and id.isprintable() and timestamp.isdecimal() and len(timestamp) <= 12
    if not is_signed(hook.secrets, headers, body) or not well_formed:
        raise NotAccepted(
            "The message is not signed with this hook's secret.",
            remedy="Sign `<webhook-id>.<webhook-timestamp>.<body>`; docs/webhooks.md has the scheme.",
        )


async def accept_message(
    conn: Connection, hook: HookSecret, headers: Mapping[str, str], body: Any, *, actor: Actor
) -> Accepted:
    """Publish the event of a message whose signature was checked, once for each `webhook-id`.

    The event's id is made of the message's, and the event stays for a day at least. So a message that is sent again is
    found, and one that is replayed later is refused by its timestamp.
    """
    age = await fetch_value(conn, HOOK_TIME, timestamp=float(headers[TIMESTAMP]))
    if abs(age) > TOLERANCE_SECONDS:
        raise NotAccepted(
            f"The message's timestamp is not within {TOLERANCE_SECONDS:.0f} s of now.",
            remedy="Sign it again with the present time; set the clock of the sender.",
        )
    event_id = uuid5(hook.id, headers[ID])
    context = body if isinstance(body, dict) else {"body": body}
    if await _is_repeated(conn, event_id, headers[ID], context):
        return Accepted(event_id, is_repeated=True)
    try:
        about: dict[str, Any] = {"correlation_id": headers[ID], "id": event_id}
        await publish_event(conn, hook.tenant_id, hook.event_name, context, actor=actor, **about)
    except InvalidInput as error:
        # Another process published it in between.
        if FieldError("id", "is taken by another event") not in error.errors:
            raise
        await _is_repeated(conn, event_id, headers[ID], context)
        return Accepted(event_id, is_repeated=True)
    return Accepted(event_id, is_repeated=False)


async def _is_repeated(conn: Connection, event_id: UUID, message_id: str, context: dict[str, Any]) -> bool:
    """Whether the message was received before; a Conflict if it had another body then."""
    event = await prisma_on(conn).event.find_unique({"id": str(event_id)})
    # Compared as it is stored: as JSON, with the numbers of Postgres.
    if event is not None and orjson.loads(stored_json(context)) != event.context:
        raise Conflict(
            f"The message {message_id!r} was received before with another body.",
            remedy="Send each message under a `webhook-id` of its own.",
        )
    return event is not None


def _hook(row: "models.InboundHook") -> InboundHook:
    return from_row(InboundHook, row, path=f"/hooks/{row.key}")


def _unknown(hook_id: UUID) -> NotFound:
    return NotFound("hook", hook_id, remedy="`atlas hooks list` lists the hooks.")


def _event(action: str, hook: InboundHook, actor: Actor, **facts: Any) -> Event:
    meta = {"event_name": hook.event_name, "description": hook.description, **facts}
    return Event(action, "inbound_hook", str(hook.id), actor, hook.tenant_id, meta=meta)
