"""What operators do with runs: cancel, retry from the failed step, fork from any step."""

from uuid import UUID

from atlas.actors import Actor
from atlas.audit.record import Event, record
from atlas.db.pool import Connection
from atlas.db.statements import fetch_value, statement
from atlas.engine.jobs.actions.cancel import cancel
from atlas.engine.jobs.actions.retry import retry_now
from atlas.engine.workflows.find_intents import list_intents
from atlas.engine.workflows.find_runs import get_run
from atlas.engine.workflows.forks import Source, check_fork
from atlas.engine.workflows.intents import NewIntent, request_workflows
from atlas.errors import NotFound
from atlas.models.workflows import WorkflowRun

WITHDRAW = statement("engine/workflows/sql/withdraw_intent.sql")


async def cancel_run(conn: Connection, run_id: UUID, *, actor: Actor, tenant_id: UUID | None = None) -> str:
    """Stop a run and its children; `canceled` immediately, or `requested` of the worker that drives it.

    An intent that has not become a run yet is withdrawn: `rejected`. What has ended is a Conflict.
    """
    if await get_run(conn, run_id, tenant_id=tenant_id) is None and await _withdraw(conn, run_id, actor, tenant_id):
        return "rejected"
    # Looked for again: an engine may have accepted the intent meanwhile.
    await _find(conn, run_id, tenant_id)
    return await cancel(conn, run_id, actor=actor, tenant_id=tenant_id)


async def _withdraw(conn: Connection, run_id: UUID, actor: Actor, tenant_id: UUID | None) -> bool:
    """An intent that is not decided -> rejected; False where there is none."""
    async with conn.transaction():
        tenant = await fetch_value(
            conn, WITHDRAW, id=run_id, tenant_id=tenant_id, reason=f"{actor.id} withdrew it", decided_by=actor.id
        )
        if tenant is None:
            return False
        await record(
            conn,
            Event(
                action="INTENT_WITHDRAWN", entity_type="intent", entity_id=str(run_id), actor=actor, tenant_id=tenant
            ),
        )
    return True


async def retry_run(conn: Connection, run_id: UUID, *, actor: Actor, tenant_id: UUID | None = None) -> None:
    """Let a failed or canceled run go on from the step that failed; what it has recorded before stands."""
    await _find(conn, run_id, tenant_id)
    await retry_now(conn, run_id, actor=actor, tenant_id=tenant_id)


async def fork_run(conn: Connection, run_id: UUID, step: str, *, actor: Actor, tenant_id: UUID | None = None) -> UUID:
    """Ask for a new run with the same input that reuses what this one had recorded when `step` began.

    Approvals are asked for anew. What was done after one, or undone, cannot be reused: Conflict. The same is checked
    again when the fork begins.
    """
    run = await _find(conn, run_id, tenant_id)
    await check_fork(conn, Source(run_id, step))
    intents = await list_intents(conn, id=run_id, limit=1)
    spend, priority = (intents[0].spend_cents, intents[0].priority) if intents else (0, 0)
    asked = NewIntent(
        run.workflow,
        run.input,
        priority,
        spend,
        correlation_id=run.correlation_id,
        forked_from=run_id,
        forked_step=step,
        allow_unknown=True,
    )
    async with conn.transaction():
        await request_workflows(conn, run.tenant_id, [asked], requested_by=actor)
        facts = {"fork": str(asked.id), "step": step, "workflow": run.workflow}
        await record(conn, Event("RUN_FORKED", "run", str(run_id), actor, run.tenant_id, meta=facts))
    return asked.id


async def _find(conn: Connection, run_id: UUID, tenant_id: UUID | None) -> WorkflowRun:
    run = await get_run(conn, run_id, tenant_id=tenant_id)
    if run is None:
        raise NotFound("run", run_id, remedy="`atlas workflow list` lists the runs.")
    return run
