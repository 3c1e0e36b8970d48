"""Admission: checks a job against what is published about its type before it is enqueued.

A process that enqueues need not know the handlers. What workers and operators published is enough: the schema of the
type, and for a command its definition. Where the process has the type's model, that is checked first. Secret fields are
taken out of the input here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import orjson

from atlas.actors import Actor
from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_row, statement
from atlas.engine.commands.argv import Facts, fill_argv
from atlas.engine.commands.environment import fill_env
from atlas.engine.jobs.enqueue import Enqueued, enqueue
from atlas.engine.jobs.handlers.types import canonical, check_input, registered, secret_schema
from atlas.engine.jobs.new_jobs.new_job import NewJob, input_text
from atlas.engine.schemas import require_fit
from atlas.engine.secrets.fields import has_secrets
from atlas.engine.secrets.key import secret_key
from atlas.engine.secrets.store import split_secrets
from atlas.errors import FieldError, InvalidInput, NotFound, Refused, no_tenant, unknown_name

ADMIT = statement("engine/sql/admit.sql")
ADMIT_MANY = statement("engine/sql/admit_many.sql")

# The job of a workflow run. Only the engine makes it, from an intent that policy allowed or for a run's child.
ENGINE_RUN = "ENGINE_RUN"
NOT_A_JOB = "is for the runs of workflows: ask for the workflow by its name"
REQUEST_RUN = "Request the run with `request_workflow(conn, tenant_id, workflow, input, requested_by)`."

_EMPTY = {"input_schema": "{}", "argv": "[]", "env": "{}"}


@dataclass(frozen=True, slots=True)
class Admission:
    """What is published about one type for one tenant, as it was when this was loaded."""

    key: str
    tenant_slug: str
    schema: dict[str, Any]
    has_secrets: bool
    definition_id: UUID | None
    is_active: bool
    argv: list[Any]
    env: dict[str, str | None]
    audit_content: bool
    # Names like the type's, where it is not known; None for one that is.
    near: list[str] | None = None


async def load_admission(conn: Connection, job_type: str, tenant_id: UUID) -> Admission:
    """Load what is published. A caller that enqueues many jobs of a type may cache it briefly."""
    key = canonical(job_type)
    row = await fetch_row(conn, ADMIT, key=key, tenant_id=tenant_id)
    if row is None:
        raise no_tenant(tenant_id)
    return _admission(key, row)


async def load_admissions(conn: Connection, types: Iterable[tuple[str, UUID]]) -> dict[tuple[str, UUID], Admission]:
    """Load what is published about many (type, tenant) pairs. A tenant that does not exist has no entry.

    For callers that allow unknown types: it looks for no similar names.
    """
    asked = {(canonical(job_type), tenant_id): (job_type, tenant_id) for job_type, tenant_id in types}
    rows = await fetch(conn, ADMIT_MANY, keys=[key for key, _ in asked], tenants=[tenant_id for _, tenant_id in asked])
    return {asked[row["key"], row["tenant_id"]]: _admission(row["key"], row) for row in rows}


def _admission(key: str, row: Any) -> Admission:
    schema, argv, env = (orjson.loads(row[name] or empty) for name, empty in _EMPTY.items())
    definition = (row["definition_id"], bool(row["is_active"]), argv, env, bool(row["audit_content"]), row["near"])
    return Admission(key, row["slug"], schema, has_secrets(schema), *definition)


def admitted(job: NewJob, admission: Admission) -> NewJob:
    """Return the job ready to enqueue, or raise the reason why it is refused."""
    if admission.key == ENGINE_RUN:
        raise InvalidInput("The job", [FieldError("job_type", f"{ENGINE_RUN} {NOT_A_JOB}")], remedy=REQUEST_RUN)
    job_type = registered().get(admission.key)
    if admission.near is not None and job_type is None and not (job.allow_unknown or job.needs_host):
        raise unknown_name("The job", "job_type", admission.key, admission.near)
    text = input_text(admission.key, job.input)
    if job_type is None or not job_type.is_command:
        check_input(admission.key, text)
    is_command = admission.definition_id is not None
    if admission.schema:
        require_fit(admission.schema, job.input, what=f"The input of {admission.key}", has_formats=is_command)
    if is_command:
        _check_command(job, admission)
        job = replace(job, definition_id=admission.definition_id)
    audited = job.audit_content or admission.audit_content
    # A type of Atlas's own has secrets also before a worker has published it.
    schema = admission.schema if admission.has_secrets else secret_schema(admission.key)
    if schema is None:
        return replace(job, secrets=(), input_json=text, audit_content=audited)
    public, secrets = split_secrets(schema, job.input, job.tenant_id, secret_key())
    return replace(job, input=public, secrets=secrets, input_json=None, audit_content=audited)


async def admit(conn: Connection, job: NewJob) -> NewJob:
    """The same with what is published now."""
    return admitted(job, await load_admission(conn, job.job_type, job.tenant_id))


async def enqueue_definition(
    conn: Connection,
    key: str,
    input: Mapping[str, Any],
    *,
    actor: Actor,
    coalesce: bool = False,
    **options: Any,
) -> Enqueued:
    """Enqueue a job of a definition. The options are those of `NewJob`."""
    job = await admit(conn, NewJob(key, input, allow_unknown=True, **options))
    if job.definition_id is None:
        raise NotFound("definition", key, remedy="`atlas definition list` lists the definitions.")
    return await enqueue(conn, job, actor=actor, coalesce=coalesce)


def _check_command(job: NewJob, admission: Admission) -> None:
    """Fill the template once now, so that a wrong argument is refused before the job runs."""
    if not admission.is_active:
        raise Refused(f"The definition {admission.key} is disabled.", remedy="An operator can make it active again.")
    facts = Facts(job.tenant_id, admission.tenant_slug, job.id)
    fill_argv(admission.argv, job.input, facts)
    fill_env(admission.env, job.input, facts, {})
