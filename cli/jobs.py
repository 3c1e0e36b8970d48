"""`atlas enqueue` and `atlas jobs`: enqueue jobs, show them, cancel, retry and delete them."""

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from itertools import chain, repeat
from typing import Annotated, Any
from uuid import UUID

import orjson
import typer
from rich.console import Group
from rich.text import Text

from atlas.bounds import LARGEST_PAGE
from atlas.cli.backend import Backend, EnqueueOptions, JobDetails, ListOptions
from atlas.cli.connect import on_backend
from atlas.cli.durations import parse_duration
from atlas.cli.output import Json, hint_at_more, say, table
from atlas.cli.parameters import OBJECT, read_id, read_object, read_time
from atlas.client.models.jobs import ENDED
from atlas.engine.admission import ENGINE_RUN
from atlas.errors import FieldError, InvalidInput, NotFound
from atlas.workers.user_modules import load_apps

app = typer.Typer(help="Show jobs; cancel, retry and delete them.", no_args_is_help=True, add_completion=False)

JobId = Annotated[str, typer.Argument(help="The job's id.")]
# What an attempt leaves in text, and what it is called.
PARTS = {"error_text": "Error", "log_tail": "Log", "stdout_tail": "Standard output", "stderr_tail": "Standard error"}
# Of how many attempts `jobs show` prints it, and how many lines of each.
MOST_SHOWN = 3
# Seconds between looks at a job that is waited for.
WAIT_PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0)
SHOWN_LINES = 40
Tenant = Annotated[str | None, typer.Option(help="Only this tenant's jobs.")]


def enqueue_job(
    job_type: Annotated[str, typer.Argument(metavar="TYPE", help="The job type.")],
    tenant: Annotated[
        str | None, typer.Option(help="The job's tenant; that of the token, or system, if not given.")
    ] = None,
    input_: Annotated[
        str, typer.Option("--input", metavar=OBJECT, help="The job's input, a JSON object; - reads it from stdin.")
    ] = "{}",
    priority: Annotated[int, typer.Option(help="Higher goes first.")] = 0,
    max_retries: Annotated[int | None, typer.Option(help="Retries after the first failure.")] = None,
    dedupe_key: Annotated[str | None, typer.Option(help="If an active job has this key, no other is made.")] = None,
    delay: Annotated[
        timedelta | None,
        typer.Option(parser=parse_duration, metavar="DURATION", help="When it may start, from now, for example 10m."),
    ] = None,
    run_at: Annotated[
        str | None, typer.Option(metavar="TIME", help="When it may start, for example 2026-12-24T18:00+01:00.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="The host that runs it, by name or id; over HTTP by its id.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Return when it has ended, with 1 unless it succeeded.")] = False,
    module: Annotated[list[str] | None, typer.Option("--app", help="A module that registers the job type.")] = None,
    allow_unknown: Annotated[
        bool, typer.Option("--allow-unknown", help="Accept a type that no worker has published yet.")
    ] = False,
    json: Json = False,
) -> None:
    """Enqueue a job."""
    load_apps(module or [])

    due = None if run_at is None else read_time("--run-at", run_at)
    if due is not None and delay is not None:
        raise InvalidInput("The command", [FieldError("--run-at", "stands beside --delay; give one of them")])
    given = read_object("--input", input_)
    options = EnqueueOptions(
        job_type, given, tenant, priority, max_retries, dedupe_key, delay, allow_unknown, due, host
    )
    if wait and job_type == ENGINE_RUN:
        raise InvalidInput("The command", [FieldError("--wait", "does not apply to a workflow: see `atlas workflow`")])
    if wait:
        _show_end(on_backend(lambda atlas: _enqueue_and_wait(atlas, options)), json=json)
        return
    made = on_backend(lambda atlas: atlas.enqueue(options))
    message = f"Job {made.id} with this key is active already." if made.deduplicated else f"Job {made.id} is queued."
    say(made, message, json=json)


async def _enqueue_and_wait(atlas: Backend, options: EnqueueOptions) -> JobDetails:
    """The job once it has ended."""
    made = await atlas.enqueue(options)
    sys.stderr.write(f"Job {made.id} is queued.\n")
    pauses = chain(WAIT_PAUSES, repeat(WAIT_PAUSES[-1]))
    for pause in pauses:
        found = await atlas.show(made.id)
        if found.job.status in ENDED:
            break
        await asyncio.sleep(pause)
    return found


def _show_end(found: JobDetails, *, json: bool) -> None:
    job = found.job
    text = orjson.dumps(job.output if job.status == "succeeded" else job.error, option=orjson.OPT_INDENT_2).decode()
    say({"job": asdict(job), "attempts": found.attempts}, f"Job {job.id} has {job.status}.\n{text}", json=json)
    if job.status != "succeeded":
        raise typer.Exit(1)


@app.command("list")
def show_list(
    status: Annotated[
        str | None, typer.Option(help="queued, waiting (due later), running, failed, dead_letter, …")
    ] = None,
    job_type: Annotated[str | None, typer.Option("--type", help="Only this job type.")] = None,
    tenant: Tenant = None,
    limit: Annotated[int, typer.Option(min=1, max=LARGEST_PAGE)] = 50,
    before: Annotated[str | None, typer.Option(help="Show the jobs that are older than this one.")] = None,
    json: Json = False,
) -> None:
    """List jobs, newest first."""
    options = ListOptions(status, job_type, tenant, None if before is None else read_id("--before", before), limit)
    found = on_backend(lambda atlas: atlas.list_jobs(options))
    rows = [
        (job.shown_status, job.job_type, job.id, f"{job.attempt_count}/{job.max_retries + 1}", _age(job.created_at))
        for job in found.jobs
    ]
    empty = "There are no jobs yet. `atlas enqueue` makes one."
    if status or job_type or tenant:
        empty = "No job matches." if found.next_before is None else "None of the newest jobs matches."
    columns = ("STATUS", "TYPE", "ID", "ATTEMPTS", "AGE")
    say({"jobs": [asdict(job) for job in found.jobs]}, table(columns, rows) if rows else empty, json=json)
    if found.next_before is not None:
        hint_at_more("--before", found.next_before)


@app.command("show")
def show_one(job_id: JobId, json: Json = False) -> None:
    """Show a job, the reason for its status, and its attempts with their errors, output and logs."""
    found = on_backend(lambda atlas: atlas.show(_id(job_id)))
    document = {"job": asdict(found.job), "attempts": found.attempts, "explanation": found.explanation}
    say(document, _details(found), json=json)


@app.command("logs")
def show_logs(
    job_id: JobId,
    attempt: Annotated[int | None, typer.Option(min=1, help="Only this attempt; all if not given.")] = None,
    json: Json = False,
) -> None:
    """Show what a job's attempts logged and wrote."""
    found = on_backend(lambda atlas: atlas.show(_id(job_id)))
    wanted = [one for one in found.attempts if attempt in (None, one["attempt_no"])]
    if not wanted:
        raise NotFound("attempt", attempt or 1, remedy=f"`atlas jobs show {job_id}` lists the attempts.")
    kept = [{name: one[name] for name in ("attempt_no", *PARTS)} for one in wanted]
    texts = [text for one in wanted for text in _parts(one)]
    say({"id": job_id, "attempts": kept}, Group(*texts) if texts else "Nothing was logged or written.", json=json)


@app.command("explain")
def explain_one(job_id: JobId, json: Json = False) -> None:
    """Explain why a job is not running, or which worker runs it."""
    explanation = on_backend(lambda atlas: atlas.explain(_id(job_id)))
    say(explanation, explanation.sentence, json=json)


@app.command("cancel")
def cancel_one(job_id: JobId, json: Json = False) -> None:
    """Cancel a queued job, or ask a running one to stop."""
    verdict = on_backend(lambda atlas: atlas.cancel(_id(job_id)))
    outcome = "is canceled" if verdict == "canceled" else "is running; its worker was asked to stop it"
    say({"id": job_id, "verdict": verdict}, f"Job {job_id} {outcome}.", json=json)


@app.command("retry")
def retry(
    job_id: Annotated[str | None, typer.Argument(help="The job's id.")] = None,
    dead_letters: Annotated[
        bool,
        typer.Option("--dead-letters", help="Dead letters, oldest first. One whose outcome is unknown needs its id."),
    ] = False,
    job_type: Annotated[str | None, typer.Option("--type", help="Only dead letters of this type.")] = None,
    tenant: Tenant = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000)] = 1000,
    json: Json = False,
) -> None:
    """Queue a failed or canceled job again, or many dead letters."""
    if (job_id is None) != dead_letters:
        raise InvalidInput("The command", [FieldError("ID", "give a job's id, or --dead-letters")])
    if job_id is not None and (job_type or tenant):
        raise InvalidInput("The command", [FieldError("ID", "--type and --tenant only go with --dead-letters")])

    async def work(atlas: Backend) -> dict[UUID, str]:
        if job_id is None:
            return {**await atlas.retry_dead_letters(tenant=tenant, job_type=job_type, limit=limit)}
        await atlas.retry(_id(job_id))
        return {_id(job_id): "retried"}

    verdicts = on_backend(work)
    retried = sum(verdict == "retried" for verdict in verdicts.values())
    kept = f"; {len(verdicts) - retried} could not be queued" if retried < len(verdicts) else ""
    document = {"retried": retried, "verdicts": {str(key): verdict for key, verdict in verdicts.items()}}
    say(document, f"{retried} jobs are queued again{kept}.", json=json)


@app.command("delete")
def delete_one(job_id: JobId, json: Json = False) -> None:
    """Delete a job that is not running."""
    on_backend(lambda atlas: atlas.delete(_id(job_id)))
    say({"id": job_id, "deleted": True}, f"Job {job_id} is deleted.", json=json)


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise InvalidInput("The command", [FieldError("ID", f"{text!r} is not a job's id")]) from None


def _age(created_at: datetime) -> str:
    return str(timedelta(seconds=max(0, int((datetime.now(UTC) - created_at).total_seconds()))))


def _details(found: JobDetails) -> Group:
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
    return Group(*parts, *(text for one in found.attempts[-MOST_SHOWN:] for text in _parts(one, lines=SHOWN_LINES)))


def _parts(attempt: Mapping[str, Any], lines: int | None = None) -> list[Text]:
    """What an attempt left: its error, its log and its output, each with a title, and at most its last lines."""
    found = []
    for name, title in PARTS.items():
        text = (attempt[name] or "").rstrip()
        if text:
            kept = text.splitlines()[-lines if lines else 0 :]
            found += [Text(f"\n{title} of attempt {attempt['attempt_no']}"), Text("\n".join(kept))]
    return found
