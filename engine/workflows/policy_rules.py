"""Adds, removes and lists the rules of policy."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from atlas.actors import Actor
from atlas.audit import Event, record
from atlas.bounds import LARGEST_INTEGER
from atlas.db.pool import Connection, Queryable
from atlas.db.statements import fetch_value, statement
from atlas.engine.quotas import require_room
from atlas.engine.validation import check_name
from atlas.engine.workflows.policy import EFFECTS, Rule
from atlas.errors import Conflict, FieldError, InvalidInput, NotFound
from atlas.ids import new_id

ADD = statement("engine/workflows/sql/add_rule.sql")
REMOVE = statement("engine/workflows/sql/remove_rule.sql")
LIST = statement("engine/workflows/sql/list_rules.sql")


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
        rule_id: UUID | None = await fetch_value(
            conn, ADD, id=new_id(), tenant_id=tenant_id, created_by=actor.id, **values
        )
        if rule_id is None:
            raise Conflict(f"There is a rule {label!r} already.", remedy="Remove it first, or choose another label.")
        await record(conn, _event("POLICY_ADDED", rule_id, actor, tenant_id, values))
    return rule_id


async def remove_rule(conn: Connection, label: str, *, actor: Actor, tenant_id: UUID | None = None) -> None:
    """Remove a rule by its label."""
    async with conn.transaction():
        rule_id = await fetch_value(conn, REMOVE, label=label, tenant_id=tenant_id)
        if rule_id is None:
            raise NotFound("rule", label)
        await record(conn, _event("POLICY_REMOVED", rule_id, actor, tenant_id, {"label": label}))


async def list_rules(
    conn: Queryable, *, tenant_id: UUID | None = None, after: UUID | None = None, limit: int | None = None
) -> list[Rule]:
    """The rules a tenant is under, oldest first; or so many of them after one."""
    values = {"tenant_id": tenant_id, "after": after, "limit": limit}
    return [Rule(**row) for row in await conn.fetch(LIST.sql, *LIST.bind(values))]


def _check(
    label: str, effect: str, workflow: str, except_workflows: Sequence[str], numbers: dict[str, int | None]
) -> None:
    wrong = check_name("label", label) + check_name("workflow", workflow)
    wrong += [error for one in except_workflows for error in check_name("except_workflows", one)]
    if effect not in EFFECTS:
        wrong.append(FieldError("effect", f"is not one of {', '.join(EFFECTS)}"))
    wrong += [
        FieldError(name, "is not a whole number of zero or more")
        for name, value in numbers.items()
        if value is not None and not 0 <= value <= LARGEST_INTEGER
    ]
    if wrong:
        raise InvalidInput("The rule", wrong)


def _event(action: str, rule_id: UUID, actor: Actor, tenant_id: UUID | None, values: Mapping[str, object]) -> Event:
    return Event(
        action=action, entity_type="policy_rule", entity_id=str(rule_id), actor=actor, tenant_id=tenant_id, meta=values
    )
