"""`atlas jobs`: shows jobs, cancels, retries and deletes them."""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from uuid import UUID

import typer

from atlas.cli.connection.backend import Backend, JobDetails, ListOptions
from atlas.cli.connection.connect import on_atlas, on_backend
from atlas.cli.jobs.bulk import Digest, Preview, change_jobs
from atlas.cli.jobs.bulk_actions import app as bulk_app
from atlas.cli.jobs.render_job import PARTS, draw_job, parts_of
from atlas.cli.jobs.types import enqueue_again, show_dead_letters, show_types
from atlas.cli.jobs.watch import watch
from atlas.cli.terminal.output import Json, format_age, say, say_page, table
from atlas.cli.terminal.parameters import AGO, Limit, read_time
from atlas.errors import FieldError, InvalidInput, NotFound

if TYPE_CHECKING:
    from atlas.cli.access.tenant_names import TenantNames
    from atlas.client import AtlasClient
    from atlas.engine.jobs.lists.job_list import JobPage

app = typer.Typer(
    help="Show and watch jobs; cancel, retry and delete them.", no_args_is_help=True, add_completion=False
)

T = TypeVar("T")
JobId = Annotated[str, typer.Argument(help="The job's id, or its beginning.")]
Tenant = Annotated[str | None, typer.Option(help="Only this tenant's jobs, by slug or id.")]


@app.command("list")
def show_list(
    status: Annotated[
        str | None, typer.Option(help="queued, waiting (scheduled), pending (both), running, failed, dead_letter, …")
    ] = None,
    job_type: Annotated[str | None, typer.Option("--type", help="Only this job type.")] = None,
    tenant: Tenant = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help=f"Only jobs enqueued since then, {AGO}.")] = None,
    limit: Limit = 50,
    before: Annotated[str | None, typer.Option(help="Show the jobs that are older than this one.")] = None,
    json: Json = False,
) -> None:
    """List jobs, newest first."""
    enqueued_after = None if since is None else read_time("--since", since)

    async def work(atlas: Backend) -> "tuple[JobPage, TenantNames]":
        last = None if before is None else await atlas.find_job_id(before, option="--before")
        page = await atlas.list_jobs(ListOptions(status, job_type, tenant, last, limit, enqueued_after))
        return page, await atlas.tenant_names(page.jobs)

    page, names = on_backend(work)
    rows = [
        (
            *(job.shown_status, names.slug(job.tenant_id), job.job_type, job.id),
            *(f"{job.attempt_count}/{job.max_retries + 1}", format_age(job.created_at)),
        )
        for job in page.jobs
    ]
    empty = "There are no jobs yet. `atlas enqueue` makes one."
    if status or job_type or tenant or since:
        empty = "No job matches." if page.next_before is None else "None of the newest jobs matches."
    columns = ("STATUS", "TENANT", "TYPE", "ID", "ATTEMPTS", "AGE")
    text = table(columns, rows) if rows else empty
    say_page("jobs", [names.document(job) for job in page.jobs], text, next_before=page.next_before, json=json)


app.command("watch")(watch)
app.command("types")(show_types)
app.command("dead-letters")(show_dead_letters)
app.command("enqueue-again")(enqueue_again)
app.add_typer(bulk_app, name="bulk")


@app.command("show")
def show_one(job_id: JobId, json: Json = False) -> None:
    """Show a job, the reason for its status, and its attempts with their errors, output and logs."""
    details = _details(job_id)
    document = {"job": details.document, "attempts": details.attempts, "explanation": details.explanation}
    say(document, draw_job(details), json=json)


@app.command("logs")
def show_logs(
    job_id: JobId,
    attempt: Annotated[int | None, typer.Option(min=1, help="Only this attempt; all if not given.")] = None,
    json: Json = False,
) -> None:
    """Show what a job's attempts logged and wrote."""
    details = _details(job_id)
    id = details.job.id
    attempts = [row for row in details.attempts if attempt in (None, row["attempt_no"])]
    if not attempts:
        raise NotFound("attempt", attempt or 1, remedy=f"`atlas jobs show {id}` lists the attempts.")
    kept = [{name: row[name] for name in ("attempt_no", *PARTS)} for row in attempts]
    texts = [text for row in attempts for text in parts_of(row, id)]
    say({"id": id, "attempts": kept}, texts or "Nothing was logged or written.", json=json)


@app.command("explain")
def explain_one(job_id: JobId, json: Json = False) -> None:
    """Explain why a job is not running, or which worker runs it."""
    _, explanation = _by_client(job_id, lambda atlas, id: atlas.explain_job(id))
    say(explanation, explanation.text, json=json)


@app.command("cancel")
def cancel_one(job_id: JobId, json: Json = False) -> None:
    """Cancel a queued job, or ask a running one to stop."""
    id, canceled = _by_client(job_id, lambda atlas, id: atlas.cancel_job(id))
    outcome = "is canceled" if canceled.verdict == "canceled" else "is running; its worker was asked to stop it"
    say({"id": id, "verdict": canceled.verdict}, f"Job {id} {outcome}.", json=json)


@app.command("retry")
def retry(
    job_id: Annotated[str | None, typer.Argument(help="The job's id, or its beginning.")] = None,
    dead_letters: Annotated[
        bool,
        typer.Option("--dead-letters", help="All dead letters. One whose outcome is unknown needs its id."),
    ] = False,
    job_type: Annotated[str | None, typer.Option("--type", help="Only dead letters of this type.")] = None,
    tenant: Tenant = None,
    limit: Annotated[int | None, typer.Option(min=1, max=100_000, help="At most this many jobs, the newest.")] = None,
    preview: Preview = False,
    digest: Digest = None,
    json: Json = False,
) -> None:
    """Queue a failed or canceled job again, or many dead letters."""
    if (job_id is None) != dead_letters:
        raise InvalidInput("The command", [FieldError("ID", "give a job's id, or --dead-letters")])
    if job_id is not None:
        if job_type or tenant or limit or preview or digest:
            reason = "--type, --tenant, --limit, --preview and --digest only go with --dead-letters"
            raise InvalidInput("The command", [FieldError("ID", reason)])
        id, _ = _by_client(job_id, lambda atlas, id: atlas.retry_job(id))
        say({"id": id, "verdict": "retried"}, f"Job {id} is queued again.", json=json)
        return

    async def dead(atlas: "AtlasClient") -> dict[str, Any]:
        return {"status": ["dead_letter"], **({} if job_type is None else {"job_type": job_type})}

    change_jobs("retry", dead, preview=preview, digest=digest, json=json, tenant=tenant, limit=limit)


@app.command("delete")
def delete_one(job_id: JobId, json: Json = False) -> None:
    """Delete a job that is not running."""
    id, _ = _by_client(job_id, lambda atlas, id: atlas.delete_job(id))
    say({"id": id, "deleted": True}, f"Job {id} deleted.", json=json)


def _details(job_id: str) -> JobDetails:
    async def work(atlas: Backend) -> JobDetails:
        return await atlas.show(await atlas.find_job_id(job_id))

    return on_backend(work)


def _by_client(job_id: str, verb: "Callable[[AtlasClient, UUID], Coroutine[Any, Any, T]]") -> tuple[UUID, T]:
    """The id of the job that a person named, and what the verb returned for it."""

    async def work(atlas: "AtlasClient") -> tuple[UUID, T]:
        # Imported here: lists start without the client.
        from atlas.cli.connection.client_lists import resolve_id

        id = await resolve_id(atlas, "job", job_id)
        return id, await verb(atlas, id)

    return on_atlas(work)
