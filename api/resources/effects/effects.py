"""Routes for effects outside of the database, and for the doubts that a person settles."""

from operator import attrgetter
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from atlas.api.access.roles import MANAGERS, READERS
from atlas.api.models.common import Body, Id
from atlas.api.paging import IdCursor, Limit, list_page
from atlas.api.request_context import Calling
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.engine.effects.effect_call import MAX_REFERENCE
from atlas.engine.effects.find_effects import find_effect, list_effects
from atlas.engine.effects.settle import record_refusal, settle_effect
from atlas.errors import Refused
from atlas.models import Page
from atlas.models.effects import Effect, EffectOutcome, EffectState, Settlement

router = APIRouter(prefix=f"{PREFIX}/effects", route_class=GuardedRoute, tags=["effects"])


class SettlementBody(Body):
    """What a person found out: the effect was made, under this reference of the provider, or it was not."""

    outcome: EffectOutcome
    reference: Annotated[str, Field(min_length=1, max_length=MAX_REFERENCE)] | None = None


@router.get("", operation_id="list_effects", summary="List effects, newest first")
@requires(*READERS)
async def show_list(
    call: Calling,
    state: EffectState | None = None,
    provider: Annotated[str | None, Query(max_length=200)] = None,
    job_id: Id | None = None,
    limit: Limit = 50,
    cursor: IdCursor = None,
) -> Page[Effect]:
    """Calls of providers by jobs and runs; those whose state is unknown wait for a person."""
    filters: dict[str, Any] = {"tenant_id": call.tenant_id, "state": state, "provider": provider, "job_id": job_id}
    return await list_page(call, list_effects, cursor, limit, contents=attrgetter("detail"), **filters)


@router.get("/{effect_id:uuid}", operation_id="get_effect", summary="One effect")
@requires(*READERS)
async def show_one(effect_id: Id, call: Calling) -> Effect:
    """With the question that a person is asked, if it is unknown."""
    async with call.transaction(read_only=True) as conn:
        return await find_effect(conn, effect_id, tenant_id=call.tenant_id)


@router.post("/{effect_id:uuid}/settle", operation_id="settle_effect", summary="Say whether an unknown effect was made")
@requires(*MANAGERS)
async def settle(effect_id: Id, body: SettlementBody, call: Calling) -> Settlement:
    """Its job goes on: with the reference, or by calling the provider again. Policy may demand a second person."""
    try:
        async with call.transaction() as conn:
            return await settle_effect(
                conn,
                effect_id,
                body.outcome,
                reference=body.reference,
                actor=call.actor,
                tenant_id=call.tenant_id,
            )
    except Refused as refusal:
        async with call.transaction() as conn:
            await record_refusal(conn, effect_id, call.actor, refusal)
        raise
