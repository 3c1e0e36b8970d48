"""Intents: every start from outside is first a request, which policy allows, sends to a person, or blocks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import asyncpg
import orjson

from atlas.actors import Actor, as_actor
from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_value, statement
from atlas.engine.jobs.new_jobs.refusals import closed_tenant
from atlas.engine.policy.judge import Policy, Verdict, load_policy
from atlas.engine.validation import check_name
from atlas.engine.workflows.accept_intents import accept, load_intents, settle
from atlas.engine.workflows.approvals import ask_for_reviews
from atlas.engine.workflows.registry import near, registered_workflows
from atlas.engine.workflows.review import load_subjects
from atlas.engine.workflows.steps.step_values import object_text
from atlas.engine.workflows.workflow_catalog import known_workflows
from atlas.errors import AtlasError, FieldError, InvalidInput, unknown_name
from atlas.ids import new_id
from atlas.logs import get_logger
from atlas.tracing import active_tracer, continued, current_traceparent, span

REQUEST = statement("engine/workflows/sql/request_workflow.sql")
CLAIM = statement("engine/workflows/sql/claim_intents.sql")
OPEN = statement("engine/workflows/sql/gate_is_open.sql")
RELEASE = statement("engine/workflows/sql/release_intents.sql")

BATCH = 500
# An engine that began to decide and did not finish for this long is gone.
STUCK_SECONDS = 30.0
# Index entries that a poll reads without being slow.
MAX_ENTRIES = 2000
SOURCES = ("manual", "event", "schedule", "workflow", "system")

log = get_logger("engine")


@dataclass(frozen=True, slots=True)
class NewIntent:
    """A request for a workflow. The run it becomes has its id. `spend_cents` is what it may cost, for policy to see."""

    workflow: str
    input: Mapping[str, Any] = field(default_factory=dict)
    priority: int = 0
    spend_cents: int = 0
    source: str = "manual"
    source_ref: str | None = None
    correlation_id: str | None = None
    forked_from: UUID | None = None
    forked_step: str | None = None
    id: UUID = field(default_factory=new_id)
    # Whether the workflow may be one that nothing has published yet.
    allow_unknown: bool = False


@dataclass(frozen=True, slots=True)
class PollResult:
    """What one poll of the engine did. `closed`: the gate or the engine itself is off."""

    closed: bool = False
    claimed: int = 0
    # When it asked, in seconds of the epoch, and whether it read many more index entries than it took intents.
    asked_at: float = 0.0
    is_slow: bool = False


async def request_workflow(
    conn: Connection,
    tenant_id: UUID,
    workflow: str,
    input: Mapping[str, Any] | None,
    requested_by: Actor | str,
    *,
    priority: int = 0,
    spend_cents: int = 0,
    source: str = "manual",
    source_ref: str | None = None,
    correlation_id: str | None = None,
    id: UUID | None = None,
    allow_unknown: bool = False,
) -> UUID:
    """Ask for a run, in the caller's transaction. Returns the intent's id, which is the run's once it is accepted.

    A workflow that is neither published nor registered in this process is refused, unless `allow_unknown` is set.
    """
    asked = NewIntent(
        workflow,
        input or {},
        priority,
        spend_cents,
        source,
        source_ref,
        correlation_id,
        id=id or new_id(),
        allow_unknown=allow_unknown,
    )
    await request_workflows(conn, tenant_id, [asked], requested_by=as_actor(requested_by))
    return asked.id


async def request_workflows(
    conn: Connection, tenant_id: UUID, intents: Sequence[NewIntent], *, requested_by: Actor
) -> list[UUID]:
    """Ask for many, all or none, in one round trip."""
    if not intents:
        return []
    if active_tracer() is None or not any(continued(intent.correlation_id) for intent in intents):
        return await _request(conn, tenant_id, intents, requested_by)
    with span(f"request {intents[0].workflow}", "PRODUCER", attributes={"messaging.system": "atlas"}):
        here = current_traceparent()
        traced = [
            replace(intent, correlation_id=here) if continued(intent.correlation_id) else intent for intent in intents
        ]
        return await _request(conn, tenant_id, traced, requested_by)


async def _request(conn: Connection, tenant_id: UUID, intents: Sequence[NewIntent], requested_by: Actor) -> list[UUID]:
    asked = [intent_row(intent, tenant_id, requested_by) for intent in intents]
    text = orjson.dumps(asked, default=str).decode()
    try:
        rows = await fetch(conn, REQUEST, intents=text, actor_type=requested_by.type)
    except asyncpg.UniqueViolationError as error:
        raise InvalidInput("The request", [FieldError("id", "is taken by another intent")]) from error
    if not rows:
        await _refuse_unknown(conn, tenant_id, intents)
        raise await closed_tenant(conn, tenant_id)
    return [intent.id for intent in intents]


def intent_row(intent: NewIntent, tenant_id: UUID, requested_by: Actor) -> dict[str, Any]:
    """A request as the database takes it; InvalidInput says what is wrong with it."""
    fork = {} if intent.forked_from is None else {"forked_from": intent.forked_from, "forked_step": intent.forked_step}
    return {
        "id": intent.id,
        "tenant_id": tenant_id,
        "workflow": intent.workflow,
        "input": orjson.Fragment(_checked(intent)),
        "spend_cents": intent.spend_cents,
        "priority": intent.priority,
        "source": intent.source,
        "source_ref": intent.source_ref,
        "correlation_id": intent.correlation_id,
        "forked_from": intent.forked_from,
        "forked_step": intent.forked_step,
        "unchecked": intent.allow_unknown or intent.workflow in registered_workflows(),
        "requested_by": requested_by.id,
        "meta": requested_by.meta | fork,
    }


async def _refuse_unknown(conn: Connection, tenant_id: UUID, intents: Sequence[NewIntent]) -> None:
    """Raise InvalidInput with near names if one of them asks for a workflow that nothing has published."""
    workflows = {*await known_workflows(conn, tenant_id), *registered_workflows()}
    for intent in intents:
        if not intent.allow_unknown and intent.workflow not in workflows:
            raise unknown_name("The request", "workflow", intent.workflow, near(intent.workflow, workflows))


async def take_intents(conn: Connection, engine: str, *, limit: int = BATCH, since: float | None = None) -> PollResult:
    """One poll of the engine: take the open intents, at most `limit`, and decide them.

    `since`: only those that were requested later, in seconds of the epoch.
    """
    [row] = await fetch(conn, CLAIM, engine=engine, limit=limit, stuck_seconds=STUCK_SECONDS, since=since)
    ids: list[UUID] | None = row["ids"]
    if ids is None:
        return PollResult(closed=True)
    is_slow = row["entries_read"] > MAX_ENTRIES + 8 * len(ids)
    if not ids:
        return PollResult(asked_at=row["asked_at"], is_slow=is_slow)
    try:
        return PollResult(not await _decide(conn, ids), len(ids), row["asked_at"], is_slow)
    except (AtlasError, asyncpg.DataError, asyncpg.IntegrityConstraintViolationError) as error:
        # One of them cannot be decided as it is. Decide them one by one, and let that one fail.
        log.error("a batch of intents could not be decided", reason=str(error))
        for intent_id in ids:
            await _decide_alone(conn, intent_id)
        return PollResult(claimed=len(ids), asked_at=row["asked_at"], is_slow=is_slow)


async def _decide_alone(conn: Connection, intent_id: UUID) -> None:
    try:
        await _decide(conn, [intent_id])
    except (AtlasError, asyncpg.DataError, asyncpg.IntegrityConstraintViolationError) as error:
        await settle(conn, [(intent_id, "failed", f"It could not be started: {error}"[:500], None)])


async def _decide(conn: Connection, ids: Sequence[UUID]) -> bool:
    """validating → queued with a job and a run, awaiting_human with an approval, or blocked. False: the gate closed."""
    async with conn.transaction():
        if not await fetch_value(conn, OPEN):
            await fetch(conn, RELEASE, ids=list(ids))
            return False
        rows = await load_intents(conn, ids, status="validating")
        policy = await load_policy(conn, [(row["tenant_id"], row["workflow"]) for row in rows])
        judged = [(row, _judge(policy, row)) for row in rows]
        reviewed = [(row, verdict) for row, verdict in judged if verdict.effect == "review"]
        allowed = [row for row, verdict in judged if verdict.effect == "allow"]
        if allowed:
            await accept(conn, allowed)
        if reviewed:
            await _ask_for_reviews(conn, policy, reviewed)
        await settle(conn, [_settled(row, verdict) for row, verdict in judged])
    return True


async def _ask_for_reviews(conn: Connection, policy: Policy, reviewed: Sequence[tuple[Any, Verdict]]) -> None:
    subjects = await load_subjects(conn, policy, [(row["tenant_id"], row["workflow"]) for row, _ in reviewed])
    questions = [(row["id"], verdict.reason, subjects[row["tenant_id"], row["workflow"]]) for row, verdict in reviewed]
    await ask_for_reviews(conn, questions)


def _judge(policy: Policy, row: Any) -> Verdict:
    verdict = policy.judge(row["tenant_id"], row["workflow"], row["spend_cents"])
    if verdict.effect == "allow":
        policy.count(row["tenant_id"], row["workflow"], row["spend_cents"])
    return verdict


def _settled(row: Any, verdict: Verdict) -> tuple[UUID, str, str | None, dict[str, Any] | None]:
    status = {"allow": "queued", "review": "awaiting_human", "block": "blocked"}[verdict.effect]
    return row["id"], status, None if verdict.effect == "allow" else verdict.reason, verdict.facts or None


def _checked(intent: NewIntent) -> str:
    wrong = check_name("workflow", intent.workflow)
    if intent.source not in SOURCES:
        wrong.append(FieldError("source", f"is not one of {', '.join(SOURCES)}"))
    if not 0 <= intent.spend_cents < 2**31:
        wrong.append(FieldError("spend_cents", "is not between 0 and 2,147,483,647"))
    if not -(2**31) <= intent.priority < 2**31:
        wrong.append(FieldError("priority", "is out of range"))
    if wrong:
        raise InvalidInput("The request", wrong)
    return object_text("The request", intent.input, field="input")
