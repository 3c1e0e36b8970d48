"""`atlas enqueue` and `atlas jobs`: make work, look at it, steer it."""

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

import orjson
import typer
from rich.console import Group
from rich.text import Text

from atlas.cli.backend import Backend, JobAsked, JobsAsked, JobStory
from atlas.cli.connect import ask
from atlas.cli.durations import parse_duration
from atlas.cli.output import Json, say, table
from atlas.cli.parameters import OBJECT, read_id, read_object
from atlas.errors import FieldError, InvalidInput
from atlas.workers.user_modules import load_apps

app = typer.Typer(help="Look at jobs and steer them.", no_args_is_help=True, add_completion=False)

JobId = Annotated[str, typer.Argument(help="The job's id.")]
Tenant = Annotated[str | None, typer.Option(help="Only this tenant's jobs.")]


def enqueue_job(
    job_type: Annotated[str, typer.Argument(metavar="TYPE", help="The job type.")],
    tenant: Annotated[str | None, typer.Option(help="Whose job it is: the token's, or else Atlas's own.")] = None,
    input_: Annotated[
        str, typer.Option("--input", metavar=OBJECT, help="The job's input, a JSON object; - reads it from stdin.")
    ] = "{}",
    priority: Annotated[int, typer.Option(help="Higher goes first.")] = 0,
    max_retries: Annotated[int | None, typer.Option(help="Retries after the first failure.")] = None,
    dedupe_key: Annotated[str | None, typer.Option(help="An active job with the same key is the answer.")] = None,
    delay: Annotated[
        timedelta | None, typer.Option(parser=parse_duration, metavar="DURATION", help="Not before, such as 10m.")
    ] = None,
    module: Annotated[list[str] | None, typer.Option("--app", help="A module that knows the job type.")] = None,
    json: Json = False,
) -> None:
    """Enqueue a job."""
    load_apps(module or [])

    asked = JobAsked(job_type, read_object("--input", input_), tenant, priority, max_retries, dedupe_key, delay)
    made = ask(lambda atlas: atlas.enqueue(asked))
    words = f"Job {made.id} was active already under this key." if made.deduplicated else f"Job {made.id} is queued."
    say(made, words, json=json)


@app.command("list")
def show_list(
    status: Annotated[str | None, typer.Option(help="queued, waiting, running, succeeded, failed, …")] = None,
    job_type: Annotated[str | None, typer.Option("--type", help="Only this job type.")] = None,
    tenant: Tenant = None,
    limit: Annotated[int, typer.Option(min=1, max=200)] = 50,
    before: Annotated[str | None, typer.Option(help="The page after this job.")] = None,
    json: Json = False,
) -> None:
    """List jobs, newest first."""
    asked = JobsAsked(status, job_type, tenant, None if before is None else read_id("--before", before), limit)
    found = ask(lambda atlas: atlas.list_jobs(asked))
    rows = [
        (job.shown_status, job.job_type, job.id, f"{job.attempt_count}/{job.max_retries + 1}", _ago(job.created_at))
        for job in found
    ]
    empty = "No job fits." if status or job_type or tenant else "There are no jobs yet. Make one with `atlas enqueue`."
    columns = ("STATUS", "TYPE", "ID", "ATTEMPTS", "AGE")
    say({"jobs": [asdict(job) for job in found]}, table(columns, rows) if rows else empty, json=json)


@app.command("show")
def show_one(job_id: JobId, json: Json = False) -> None:
    """Show a job, its attempts, and why it is where it is."""
    found = ask(lambda atlas: atlas.show(_id(job_id)))
    document = {"job": asdict(found.job), "attempts": found.attempts, "explanation": found.explanation}
    say(document, _story(found), json=json)


@app.command("explain")
def explain_one(job_id: JobId, json: Json = False) -> None:
    """Say why a job is not running, or who runs it."""
    told = ask(lambda atlas: atlas.explain(_id(job_id)))
    say(told, told.sentence, json=json)


@app.command("cancel")
def cancel_one(job_id: JobId, json: Json = False) -> None:
    """Cancel a queued job, or ask a running one to stop."""
    verdict = ask(lambda atlas: atlas.cancel(_id(job_id)))
    words = "is canceled" if verdict == "canceled" else "runs; its worker was asked to stop it"
    say({"id": job_id, "verdict": verdict}, f"Job {job_id} {words}.", json=json)


@app.command("retry")
def retry(
    job_id: Annotated[str | None, typer.Argument(help="The job's id.")] = None,
    dead_letters: Annotated[
        bool, typer.Option("--dead-letters", help="Dead letters, oldest first; those of unknown outcome need their id.")
    ] = False,
    job_type: Annotated[str | None, typer.Option("--type", help="Only dead letters of this type.")] = None,
    tenant: Tenant = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000)] = 1000,
    json: Json = False,
) -> None:
    """Queue a failed or canceled job again, or many dead letters."""
    if (job_id is None) != dead_letters:
        raise InvalidInput("The call", [FieldError("ID", "name a job, or say --dead-letters")])
    if job_id is not None and (job_type or tenant):
        raise InvalidInput("The call", [FieldError("ID", "--type and --tenant choose among --dead-letters")])

    async def work(atlas: Backend) -> dict[UUID, str]:
        if job_id is None:
            return {**await atlas.retry_dead_letters(tenant=tenant, job_type=job_type, limit=limit)}
        await atlas.retry(_id(job_id))
        return {_id(job_id): "retried"}

    verdicts = ask(work)
    retried = sum(verdict == "retried" for verdict in verdicts.values())
    kept = f"; {len(verdicts) - retried} could not be" if retried < len(verdicts) else ""
    document = {"retried": retried, "verdicts": {str(key): verdict for key, verdict in verdicts.items()}}
    say(document, f"{retried} jobs are queued again{kept}.", json=json)


@app.command("delete")
def delete_one(job_id: JobId, json: Json = False) -> None:
    """Delete a job that does not run."""
    ask(lambda atlas: atlas.delete(_id(job_id)))
    say({"id": job_id, "deleted": True}, f"Job {job_id} is deleted.", json=json)


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise InvalidInput("The call", [FieldError("ID", f"{text!r} is not a job's id")]) from None


def _ago(moment: datetime) -> str:
    return str(timedelta(seconds=max(0, int((datetime.now(UTC) - moment).total_seconds()))))


def _story(found: JobStory) -> Group:
    job = found.job
    facts = [
        ("id", job.id),
        ("tenant", job.tenant_id),
        ("type", job.job_type),
        ("status", job.shown_status),
        ("priority", job.priority),
        ("created", f"{job.created_at:%Y-%m-%d %H:%M:%S} UTC by {job.created_by}"),
        ("progress", None if job.progress is None else orjson.dumps(job.progress).decode()),
        ("input", orjson.dumps(job.input).decode()[:500]),
        ("output", orjson.dumps(job.output).decode()[:500] if job.output else None),
        ("error", job.error.get("message")),
    ]
    rows = [
        (one["attempt_no"], one["status"], one["outcome"], one["started_at"], one["duration_ms"], one["worker_id"])
        for one in found.attempts
    ]
    parts: list[Any] = [
        Text(found.explanation.sentence),
        Text(),
        table(("", ""), [fact for fact in facts if fact[1] is not None]),
    ]
    if rows:
        columns = ("ATTEMPT", "STATUS", "OUTCOME", "STARTED", "MS", "WORKER")
        parts += [Text(), table(columns, rows)]
    return Group(*parts)
