"""Commands on work under faults: jobs, groups, workflows, rules, effects, workers and the engine."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson

from atlas.engine.effects.adapters import ProviderEntry, register_adapter
from atlas.engine.effects.outcomes import Answer, NotDone
from atlas.engine.enqueue import enqueue_group
from atlas.engine.jobs.actions.bulk_actions import begin_bulk_action
from atlas.engine.jobs.actions.change_many import change_many
from atlas.engine.jobs.backoff import ATLAS
from atlas.engine.jobs.claim import Claimant, ClaimedJob, claim
from atlas.engine.jobs.finish import finish
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.engine.jobs.switches.gate import switch, switch_engine
from atlas.engine.jobs.verdicts import PermanentError, decide
from atlas.engine.policy.rules import add_rule
from atlas.engine.workflows.declared.store import enable_workflow, save_workflow
from atlas.engine.workflows.intents import request_workflow, take_intents
from atlas.engine.workflows.steps.step_store import record_steps
from tests.engine.jobs.given import given_worker
from tests.engine.jobs.test_bulk_actions import given_dead
from tests.engine.workflows.kit import first_step
from tests.faults.commands import GATE, JOB, command, exists, give_canceled, give_job, give_little, missing
from tests.faults.maintenance import EVENTS, equals
from tests.support import DANA, given_doubt, given_review

MEMBERS = 2
DOCUMENT = {"key": "w", "steps": [{"id": "wait", "sleep": "10m"}]}
ENGINE = "select (value->>'engine_enabled')::boolean from atlas.system_state where key = 'atlas_online'"
RUN = "select id::text from atlas.jobs where job_type = 'ENGINE_RUN'"
JOBS = "select count(*) from atlas.jobs"


async def give_slow_action(conn: Any) -> None:
    """A bulk action that has hardly begun."""
    await give_little(conn)
    await begin_bulk_action(
        conn, "retry", actor=DANA, ids=await given_dead(conn, MEMBERS), rate_per_second=0.01, reason="known"
    )


async def give_dead(conn: Any) -> None:
    await give_little(conn)
    await given_dead(conn, MEMBERS)


async def give_group(conn: Any) -> list[UUID]:
    await give_little(conn)
    members = [NewJob("a.work", {"n": n}) for n in range(MEMBERS)]
    await enqueue_group(conn, members, actor=DANA)
    return [member.id for member in members]


async def give_canceled_group(conn: Any) -> None:
    await change_many(conn, "cancel", await give_group(conn), actor=DANA, tenant_id=None)


async def give_worker(conn: Any) -> None:
    await give_little(conn)
    await given_worker(conn, "a.work")


async def give_offline(conn: Any) -> None:
    await give_little(conn)
    await switch(conn, online=False, actor=DANA)


async def give_engine_off(conn: Any) -> None:
    await give_little(conn)
    await switch_engine(conn, enabled=False, actor=DANA)


async def give_workflow(conn: Any) -> None:
    await give_little(conn)
    await save_workflow(conn, DOCUMENT, actor=DANA)


async def give_two_versions(conn: Any) -> None:
    await give_workflow(conn)
    await save_workflow(conn, {**DOCUMENT, "description": "another"}, actor=DANA)


async def give_disabled_workflow(conn: Any) -> None:
    await give_workflow(conn)
    await enable_workflow(conn, "w", enabled=False, actor=DANA)


async def give_run(conn: Any) -> None:
    """A run that waits for a worker."""
    await give_workflow(conn)
    await request_workflow(conn, SYSTEM_TENANT, "w", {}, DANA)
    await take_intents(conn, "tests")


async def give_claimed_run(conn: Any) -> tuple[Claimant, ClaimedJob]:
    """A run that has recorded its first step."""
    await give_run(conn)
    worker = await given_worker(conn, "ENGINE_RUN")
    [run] = await claim(conn, worker, limit=1)
    await record_steps(conn, [first_step(run.id, run.attempt)], worker_id=worker.id)
    return worker, run


async def give_failed_run(conn: Any) -> None:
    worker, run = await give_claimed_run(conn)
    await finish(conn, worker, [decide(run, worker.id, PermanentError("no"), ATLAS)])


async def give_review(conn: Any) -> None:
    """A request that a person is asked about."""
    await give_workflow(conn)
    await given_review(conn, await request_workflow(conn, SYSTEM_TENANT, "w", {}, DANA))


async def give_rule(conn: Any) -> None:
    await give_little(conn)
    await add_rule(conn, label="big", effect="review", actor=DANA)


async def give_doubt(conn: Any) -> None:
    await give_job(conn)
    await given_doubt(conn, JOB)


class Provider:
    """A provider that has made nothing."""

    grace = timedelta(0)

    async def lookup(self, key: str) -> Answer:
        return NotDone()

    async def list(self, since: datetime) -> AsyncIterator[ProviderEntry]:
        for entry in list[ProviderEntry]():
            yield entry


# This module is the application of `effects reconcile`.
register_adapter("bank", Provider())

ON_JOBS = (
    command(
        "enqueue-again",
        f"jobs enqueue-again {JOB}",
        give_canceled,
        f"select ({JOBS}) > 1",
        laws=(equals(JOBS, 2, "jobs"),),
    ),
    command(
        "retry-dead-letters",
        "jobs retry --dead-letters",
        give_dead,
        missing("jobs", "status = 'failed'"),
        laws=(equals(EVENTS.format("JOB_RETRIED"), MEMBERS, "retried jobs"),),
    ),
    command("bulk-preview", "jobs retry --dead-letters --preview", give_dead, exists("bulk_previews")),
    command(
        "bulk-cancel",
        "jobs bulk cancel {}",
        give_slow_action,
        exists("bulk_actions", "status = 'canceled'"),
        "BULK_ACTION_CANCELED",
        names="select id from atlas.bulk_actions",
    ),
    command(
        "group-cancel",
        "group cancel {}",
        give_group,
        missing("jobs", "status = 'queued'"),
        names="select id from atlas.job_groups",
        laws=(equals(EVENTS.format("JOB_CANCELED"), MEMBERS, "canceled jobs"),),
    ),
    command(
        "group-retry",
        "group retry {}",
        give_canceled_group,
        missing("jobs", "status = 'canceled'"),
        names="select id from atlas.job_groups",
        laws=(equals(EVENTS.format("JOB_RETRIED"), MEMBERS, "retried jobs"),),
    ),
    command(
        "worker-drain",
        "worker drain {}",
        give_worker,
        exists("job_workers", "drain_requested_at is not null"),
        "WORKER_DRAIN_REQUESTED",
        names="select worker_id from atlas.job_workers",
    ),
    command(
        "settle-effect",
        "effects settle {} --done --reference ch_1",
        give_doubt,
        exists("effects", "state = 'done'"),
        "EFFECT_SETTLED",
        names="select id from atlas.effects",
    ),
    command(
        "reconcile",
        "effects reconcile bank --app tests.faults.work_commands",
        give_little,
        exists("audit_log", "action = 'EFFECTS_RECONCILED'"),
        "EFFECTS_RECONCILED",
    ),
)
ON_WORKFLOWS = (
    command("online", "online", give_offline, GATE, laws=(equals(EVENTS.format("ATLAS_ONLINE"), 2, "switches on"),)),
    command("engine-off", "engine off", give_little, f"select not ({ENGINE})", "ENGINE_DISABLED"),
    command("engine-on", "engine on", give_engine_off, ENGINE, "ENGINE_ENABLED"),
    command(
        "workflow-save",
        "workflow save w.json",
        give_little,
        exists("workflows"),
        "WORKFLOW_SAVED",
        files={"w.json": orjson.dumps(DOCUMENT).decode()},
    ),
    command(
        "workflow-rollback",
        "workflow rollback w 1",
        give_two_versions,
        exists("workflows", "version = 3"),
        "WORKFLOW_ROLLED_BACK",
    ),
    command(
        "workflow-disable",
        "workflow disable w",
        give_workflow,
        exists("workflows", "not is_enabled"),
        "WORKFLOW_DISABLED",
    ),
    command(
        "workflow-enable",
        "workflow enable w",
        give_disabled_workflow,
        exists("workflows", "is_enabled"),
        "WORKFLOW_ENABLED",
    ),
    command(
        "workflow-signal",
        "workflow signal {} hurry",
        give_run,
        exists("events"),
        names=RUN,
        laws=(equals("select count(*) from atlas.events", 1, "signals"),),
    ),
    command(
        "workflow-approve",
        "workflow approve {}",
        give_review,
        exists("approvals", "status = 'approved'"),
        "APPROVAL_DECIDED",
        names="select id from atlas.approvals",
    ),
    command(
        "workflow-cancel",
        "workflow cancel {}",
        give_run,
        exists("jobs", "status = 'canceled'"),
        "JOB_CANCELED",
        names=RUN,
    ),
    command(
        "workflow-retry",
        "workflow retry {}",
        give_failed_run,
        exists("jobs", "status = 'queued'"),
        "JOB_RETRIED",
        names=RUN,
    ),
    command(
        "workflow-fork",
        "workflow fork {} --from a",
        give_failed_run,
        exists("intents", "forked_from is not null"),
        names=RUN,
        laws=(equals("select count(*) from atlas.intents where forked_from is not null", 1, "forks"),),
    ),
    command(
        "policy-add", "workflow policy add big --effect review", give_little, exists("policy_rules"), "POLICY_ADDED"
    ),
    command(
        "policy-edit",
        "workflow policy edit big --effect block",
        give_rule,
        exists("policy_rules", "effect = 'block'"),
        "POLICY_EDITED",
    ),
    command("policy-remove", "workflow policy remove big", give_rule, missing("policy_rules"), "POLICY_REMOVED"),
)
WORK_COMMANDS = (*ON_JOBS, *ON_WORKFLOWS)
