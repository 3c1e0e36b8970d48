"""Enqueues a job, or asks for a workflow, on the database of an installation."""

from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from atlas.cli.access.tenant_names import tenant_id
from atlas.cli.connection.backend import EnqueueOptions
from atlas.cli.runtime import caller
from atlas.cli.terminal.ids import find_by_name_or_id
from atlas.db.pool import Connection
from atlas.engine.admission import ENGINE_RUN, admit
from atlas.engine.jobs.enqueue import Enqueued, enqueue
from atlas.errors import FieldError, InvalidInput

if TYPE_CHECKING:
    from atlas.engine.workflows.intents import NewIntent


async def enqueue_or_request(conn: Connection, options: EnqueueOptions) -> Enqueued:
    """Enqueue a job. One of type ENGINE_RUN is a request for a workflow, as in the API."""
    owner = await tenant_id(conn, "system" if options.tenant is None else options.tenant)
    if options.job.job_type == ENGINE_RUN:
        from atlas.engine.workflows.intents import request_workflows

        [run_id] = await request_workflows(conn, owner, [_intent_of(options)], requested_by=caller())
        return Enqueued(run_id)
    host_id = None if options.host is None else await _host_id(conn, options.host, owner)
    job = replace(options.job, tenant_id=owner, host_id=host_id)
    return await enqueue(conn, await admit(conn, job), actor=caller())


async def _host_id(conn: Connection, named: str, owner: UUID) -> UUID:
    # Imported here: few jobs name a host.
    from atlas.engine.hosts.hosts import find_host

    return (await find_by_name_or_id(conn, "host", named, partial(find_host, conn, tenant_id=owner))).id


def _intent_of(options: EnqueueOptions) -> "NewIntent":
    """The request in a job of type ENGINE_RUN."""
    from atlas.engine.workflows.intents import NewIntent

    job = options.job
    chosen = {field.name for field in fields(job) if field.default is None and getattr(job, field.name) is not None}
    unfit = sorted(chosen - {"priority"}) + (["host"] if options.host is not None else [])
    wrong = [FieldError(f"--{name.replace('_', '-')}", "does not apply to a workflow") for name in unfit]
    kinds = {"workflow": str, "input": dict, "spend_cents": int}
    wrong += [FieldError(f"--input: {name}", "is unknown") for name in job.input if name not in kinds]
    wrong += [
        FieldError(f"--input: {name}", "is of the wrong type")
        for name, kind in kinds.items()
        if name in job.input and type(job.input[name]) is not kind
    ]
    if wrong:
        raise InvalidInput("The request", wrong)
    workflow, input = job.input.get("workflow", ""), job.input.get("input", {})
    return NewIntent(
        workflow,
        input,
        priority=job.priority or 0,
        spend_cents=job.input.get("spend_cents", 0),
        allow_unknown=job.allow_unknown,
    )
