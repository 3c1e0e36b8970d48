"""Settles a doubt: a person says whether an effect was made, and its job goes on."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from atlas.actors import Actor
from atlas.audit.record import Event, record
from atlas.db.pool import Connection
from atlas.db.statements import fetch_row, statement
from atlas.engine.effects.effect_call import MAX_REFERENCE
from atlas.engine.effects.find_effects import find_effect
from atlas.engine.effects.outcomes import SETTLED_EVENT
from atlas.engine.policy.judge import load_policy
from atlas.engine.workflows.events import publish_event
from atlas.engine.workflows.start_runs import ENGINE_RUN
from atlas.errors import Conflict, FieldError, InvalidInput, NotFound, Refused
from atlas.models.effects import EffectOutcome, Settlement

SETTLE = statement("engine/effects/sql/settle_effect.sql")

# What a rule of policy has as its workflow in order to judge who settles an effect.
POLICY_PREFIX = "effect:"


async def settle_effect(
    conn: Connection,
    effect_id: UUID,
    outcome: EffectOutcome,
    *,
    actor: Actor,
    reference: str | None = None,
    tenant_id: UUID | None = None,
) -> Settlement:
    """Record that an unknown effect was made, with the provider's reference, or was not; its job goes on.

    Where policy has a rule for `effect:<name>` that does not allow it, the settler must be another person than the one
    who created the job or arranged the trigger that started it (Refused). An effect that is not in doubt is a Conflict.
    """
    _check(outcome, reference)
    state = "done" if outcome == "done" else "refused"
    async with conn.transaction():
        effect = await find_effect(conn, effect_id, tenant_id=tenant_id)
        named = (effect.tenant_id, POLICY_PREFIX + effect.name)
        verdict = (await load_policy(conn, [named], decides=False)).judge(*named)
        row = await fetch_row(
            conn,
            SETTLE,
            id=effect_id,
            tenant_id=tenant_id,
            state=state,
            reference=reference,
            by_another=verdict.effect != "allow",
            **actor.arguments(outcome=outcome, **verdict.facts),
        )
        if row is None:
            raise NotFound("effect", effect_id)
        _require_settled(row, effect_id, actor, verdict.reason)
        woken = bool(row["woken"])
        if row["job_type"] == ENGINE_RUN:
            context = {"effect": str(effect_id), "outcome": outcome}
            published = await publish_event(conn, row["tenant_id"], SETTLED_EVENT, context, actor=actor, is_own=True)
            woken = published.woken > 0
    return Settlement(id=effect_id, state=state, reference=reference, woken=woken)


def _require_settled(row: Mapping[str, Any], effect_id: UUID, actor: Actor, reason: str) -> None:
    if row["verdict"] == "same_person":
        raise Refused(
            f"{row['created_by']} requested job {row['job_id']}, and counts as the same person as {actor.id}. {reason}",
            remedy="Let another person settle it.",
        )
    if row["verdict"] != "settled":
        raise Conflict(
            f"Effect {effect_id} is {row['verdict']}.",
            remedy="Only one that is unknown can be settled; `atlas effects list --state unknown` shows them.",
        )


async def record_refusal(conn: Connection, effect_id: UUID, actor: Actor, refusal: Refused) -> None:
    """Record that a settlement was refused, after the transaction in which it was: that one left nothing."""
    effect = await find_effect(conn, effect_id)
    event = Event("DECISION_REFUSED", "job", str(effect.job_id), actor, effect.tenant_id, refusal.message, "warn")
    await record(conn, event)


def _check(outcome: str, reference: str | None) -> None:
    wrong = []
    if outcome not in ("done", "not_done"):
        wrong.append(FieldError("outcome", "is not one of done, not_done"))
    if outcome == "not_done" and reference is not None:
        wrong.append(FieldError("reference", "is for an effect that was made"))
    if reference is not None and not (0 < len(reference) <= MAX_REFERENCE and reference.isprintable()):
        wrong.append(FieldError("reference", f"is not one line of 1 to {MAX_REFERENCE} printable characters"))
    if wrong:
        raise InvalidInput("The settlement", wrong)
