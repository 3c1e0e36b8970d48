"""Adds, edits, removes and lists the rules of policy."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

import asyncpg

from atlas.actors import Actor
from atlas.audit.changes import values_of
from atlas.audit.record import Event, record
from atlas.bounds import MAX_INTEGER
from atlas.db.pool import Connection
from atlas.db.prisma import data_of, page_filter, prisma_on
from atlas.db.statements import fetch_value, statement
from atlas.engine.access.quotas import require_room
from atlas.engine.etags import Precondition, require_match
from atlas.engine.policy.judge import EFFECTS
from atlas.engine.validation import check_name
from atlas.errors import Conflict, FieldError, InvalidInput, NotFound
from atlas.ids import new_id
from atlas.models.approvals import PolicyRule
from atlas.models.rows import from_row, from_rows

if TYPE_CHECKING:
    from atlas.generated.types import PolicyRuleWhereInput

HOLD = statement("engine/policy/sql/hold_rule.sql")
BOUNDS = ("spend_above_cents", "spend_per_day_cents", "runs_per_day")


async def add_rule(
    conn: Connection,
    *,
    label: str,
    effect: str,
    actor: Actor,
    tenant_id: UUID | None = None,
    workflow: str = "*",
    except_workflows: Sequence[str] = (),
    spend_above_cents: int | None = None,
    spend_per_day_cents: int | None = None,
    runs_per_day: int | None = None,
) -> UUID:
    """Add a rule for one tenant, or for all of them. Its label is its name there."""
    numbers = {
        "spend_above_cents": spend_above_cents,
        "spend_per_day_cents": spend_per_day_cents,
        "runs_per_day": runs_per_day,
    }
    _check(label, effect, workflow, except_workflows, numbers)
    values = {
        "label": label,
        "effect": effect,
        "workflow": workflow,
        "except_workflows": list(except_workflows),
        **numbers,
    }
    async with conn.transaction():
        await require_room(conn, "policies", tenant_id)
        rule_id = new_id()
        try:
            data = data_of(id=rule_id, tenant_id=tenant_id, **values, created_by=actor.id)
            await prisma_on(conn).policyrule.create(data)
        except asyncpg.UniqueViolationError:
            remedy = "Remove it first, or choose another label."
            raise Conflict(f"There is a rule {label!r} already.", remedy=remedy) from None
        await record(conn, _event("POLICY_ADDED", rule_id, actor, tenant_id, values))
    return rule_id


async def edit_rule(
    conn: Connection,
    label: str,
    changes: Mapping[str, Any],
    *,
    actor: Actor,
    tenant_id: UUID | None = None,
    if_match: Precondition | None = None,
) -> PolicyRule:
    """Change some fields of a tenant's rule, or of one for all tenants. Its label stays."""
    async with conn.transaction():
        if await fetch_value(conn, HOLD, label=label, tenant_id=tenant_id) is None:
            raise NotFound("rule", label)
        before = await _find(conn, label, tenant_id)
        assert before is not None
        require_match(before, if_match, "rule", label)
        values = await values_of(conn, "policy_rule", before.id)
        rule = before.model_copy(update=dict(changes))
        numbers = {name: getattr(rule, name) for name in BOUNDS}
        _check(label, rule.effect, rule.workflow, rule.except_workflows, numbers)
        patterns = list(rule.except_workflows)
        data = data_of(effect=rule.effect, workflow=rule.workflow, except_workflows=patterns, **numbers)
        await prisma_on(conn).policyrule.update(data, {"id": str(rule.id)})
        changed = {name: value for name, value in changes.items() if value != getattr(before, name)}
        event = _event("POLICY_EDITED", rule.id, actor, tenant_id, {"label": label, **changed})
        await record(conn, event, before=values)
        return await find_rule(conn, label, tenant_id=tenant_id)


async def find_rule(conn: Connection, label: str, *, tenant_id: UUID | None = None) -> PolicyRule:
    """A tenant's rule of this label, else the one for all tenants."""
    rule = await _find(conn, label, tenant_id) or await _find(conn, label, None)
    if rule is None:
        raise NotFound("rule", label)
    return rule


async def remove_rule(conn: Connection, label: str, *, actor: Actor, tenant_id: UUID | None = None) -> None:
    """Remove a rule by its label."""
    async with conn.transaction():
        rules = prisma_on(conn).policyrule
        rule = await rules.find_first(where={"label": label, "tenantId": _text(tenant_id)})
        values = {} if rule is None else await values_of(conn, "policy_rule", rule.id)
        # Another may remove it in between.
        removed = None if rule is None else await rules.delete({"id": rule.id})
        if removed is None:
            raise NotFound("rule", label)
        event = _event("POLICY_REMOVED", UUID(removed.id), actor, tenant_id, {"label": label})
        await record(conn, event, before=values)


async def list_rules(
    conn: Connection, *, tenant_id: UUID | None = None, after: UUID | None = None, limit: int | None = None
) -> list[PolicyRule]:
    """The rules that apply to a tenant, oldest first; with `limit`, one page of them."""
    where: PolicyRuleWhereInput = page_filter(tenant_id=None, is_enabled=True, after=after)
    if tenant_id is not None:
        where["OR"] = [{"tenantId": None}, {"tenantId": str(tenant_id)}]
    return from_rows(PolicyRule, await prisma_on(conn).policyrule.find_many(limit, where=where, order={"id": "asc"}))


async def _find(conn: Connection, label: str, tenant_id: UUID | None) -> PolicyRule | None:
    row = await prisma_on(conn).policyrule.find_first(where={"label": label, "tenantId": _text(tenant_id)})
    return None if row is None else from_row(PolicyRule, row)


def _text(tenant_id: UUID | None) -> str | None:
    return None if tenant_id is None else str(tenant_id)


def _check(
    label: str, effect: str, workflow: str, except_workflows: Sequence[str], numbers: dict[str, int | None]
) -> None:
    wrong = check_name("label", label) + check_name("workflow", workflow)
    wrong += [error for pattern in except_workflows for error in check_name("except_workflows", pattern)]
    if effect not in EFFECTS:
        wrong.append(FieldError("effect", f"is not one of {', '.join(EFFECTS)}"))
    wrong += [
        FieldError(name, "is not a whole number of zero or more")
        for name, value in numbers.items()
        if value is not None and not 0 <= value <= MAX_INTEGER
    ]
    if wrong:
        raise InvalidInput("The rule", wrong)


def _event(action: str, rule_id: UUID, actor: Actor, tenant_id: UUID | None, values: Mapping[str, object]) -> Event:
    return Event(
        action=action, entity_type="policy_rule", entity_id=str(rule_id), actor=actor, tenant_id=tenant_id, meta=values
    )
