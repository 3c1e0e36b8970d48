"""`atlas jobs types`, `dead-letters` and `enqueue-again`."""

from typing import TYPE_CHECKING, Annotated

import typer

from atlas.cli.connection.connect import on_atlas
from atlas.cli.terminal.output import Json, format_age, say, table
from atlas.cli.terminal.parameters import TenantFilter

if TYPE_CHECKING:
    from atlas.cli.access.tenant_names import TenantNames
    from atlas.client import AtlasClient
    from atlas.models.jobs import DeadLetterGroups, EnqueuedJob, PublishedJobType


def show_types(json: Json = False) -> None:
    """List the job types that can be enqueued, with their limits."""

    async def work(atlas: "AtlasClient") -> "list[PublishedJobType]":
        return [job_type async for job_type in atlas.list_job_types()]

    types = on_atlas(work)
    rows = [
        (
            *(job_type.key, job_type.max_retries, job_type.timeout_seconds, job_type.concurrency, job_type.rate),
            *(format_age(job_type.last_seen_at), job_type.description),
        )
        for job_type in types
    ]
    columns = ("TYPE", "RETRIES", "TIMEOUT", "CONCURRENCY", "RATE", "LAST SEEN", "DESCRIPTION")
    text = table(columns, rows) if rows else "No worker has published a job type yet."
    say({"job_types": [dict(job_type) for job_type in types]}, text, json=json)


def show_dead_letters(tenant: TenantFilter = None, json: Json = False) -> None:
    """Count the dead letters by cause, the newest first."""

    async def work(atlas: "AtlasClient") -> "tuple[DeadLetterGroups, TenantNames]":
        from atlas.cli.connection.client_lists import tenant_names

        return await atlas.group_dead_letters(), await tenant_names(atlas)

    causes, names = on_atlas(work, tenant=tenant)
    rows = [
        (
            *(cause.count, cause.job_type),
            ", ".join(f"{names.slug(owner.tenant_id)} {owner.count}" for owner in cause.tenants),
            *(cause.error_type, cause.message, format_age(cause.last_at), cause.sample_id),
        )
        for cause in causes.items
    ]
    columns = ("JOBS", "TYPE", "TENANTS", "ERROR", "MESSAGE", "LAST", "EXAMPLE")
    text = table(columns, rows) if rows else "There are no dead letters."
    say({"count": causes.count, "causes": [dict(cause) for cause in causes.items]}, text, json=json)


def enqueue_again(
    job_id: Annotated[str, typer.Argument(help="The job's id, or its beginning.")], json: Json = False
) -> None:
    """Enqueue a new job like this one, with its secrets."""

    async def work(atlas: "AtlasClient") -> "EnqueuedJob":
        from atlas.cli.connection.client_lists import resolve_id

        return await atlas.enqueue_job_again(await resolve_id(atlas, "job", job_id))

    job = on_atlas(work)
    say(dict(job), f"Job {job.id} is enqueued.", json=json)
