"""Routes for the sessions of people: who is signed in, and ending a session from outside."""

from typing import Any
from uuid import UUID

from fastapi import APIRouter

from atlas.api.access.roles import MANAGERS, PEOPLE
from atlas.api.models.common import Id
from atlas.api.paging import IdCursor, Limit, list_page
from atlas.api.request_context import Calling, RequestContext
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.engine.access.sessions import end_other_session, list_sessions
from atlas.errors import NotFound
from atlas.models import Page
from atlas.models.tenants import OpenSession

router = APIRouter(prefix=f"{PREFIX}/sessions", route_class=GuardedRoute, tags=["session"])


@router.get("", operation_id="list_sessions", summary="List who is signed in, newest first")
@requires(*PEOPLE)
async def show_list(call: Calling, limit: Limit = 50, cursor: IdCursor = None) -> Page[OpenSession]:
    """Operators see all, admins of a tenant those of its people, everyone else their own."""
    tenant_id, subject = _visible(call)
    current = None if call.caller.session is None else call.caller.session.id
    filters: dict[str, Any] = {"tenant_id": tenant_id, "subject": subject, "current": current}
    return await list_page(call, list_sessions, cursor, limit, all_tenants=True, **filters)


@router.delete(
    "/{session_id:uuid}", operation_id="end_session", status_code=204, summary="End a session, of others or one's own"
)
@requires(*PEOPLE, no_key="the call may be repeated without one")
async def end(session_id: Id, call: Calling) -> None:
    """At once in this process, within 10 seconds in the others. Its token stays valid until it is revoked."""
    tenant_id, subject = _visible(call)
    async with call.transaction(all_tenants=True) as conn:
        sessions = await list_sessions(conn, tenant_id=tenant_id, subject=subject, id=session_id, limit=1)
        if not sessions:
            raise NotFound("session", session_id)
        await end_other_session(conn, sessions[0], actor=call.actor)
    call.after_commit(call.api.callers.forget)


def _visible(call: RequestContext) -> tuple[UUID | None, str | None]:
    """Whose sessions the caller may see: sessions have no row-level security, so every statement says it."""
    if call.caller.role in MANAGERS:
        return call.tenant_id, None
    return call.caller.tenant_id, call.caller.subject
