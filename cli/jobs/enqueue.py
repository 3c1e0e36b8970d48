"""`atlas enqueue`: enqueues a job, and waits until it has finished if asked to."""

import sys
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from atlas.cli.connection.backend import Backend, EnqueueOptions, JobDetails
from atlas.cli.connection.connect import on_backend
from atlas.cli.jobs.watch import FINISHED, show_end
from atlas.cli.terminal.durations import parse_duration
from atlas.cli.terminal.output import Json, say, warn
from atlas.cli.terminal.parameters import FROM_NOW, OBJECT, read_object, read_time
from atlas.cli.terminal.waiting import looks
from atlas.engine.admission import ENGINE_RUN
from atlas.engine.jobs.handlers.types import canonical
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.errors import AtlasError, FieldError, InvalidInput

BUILT_IN = ("EMAIL_SEND", "HTTP_CALL")


Tenant = Annotated[
    str | None, typer.Option(help="The job's tenant, by slug or id; that of the token, or system, if not given.")
]
Input = Annotated[
    str, typer.Option("--input", metavar=OBJECT, help="The job's input, a JSON object; - reads it from stdin.")
]
DedupeKey = Annotated[str | None, typer.Option(help="Enqueue nothing if an active job has this key.")]
Delay = Annotated[
    timedelta | None,
    typer.Option(parser=parse_duration, metavar="DURATION", help="When it may start, from now, for example 10m."),
]
Host = Annotated[str | None, typer.Option(help="The host that runs it, by name or id, or the beginning of its id.")]
StartBy = Annotated[str | None, typer.Option(metavar="TIME", help="Cancel it as expired unless it started by then.")]
ExpiresIn = Annotated[
    timedelta | None,
    typer.Option(parser=parse_duration, metavar="DURATION", help="The same as a time from now, for example 10m."),
]
FinishBy = Annotated[str | None, typer.Option(metavar="TIME", help="The deadline of its attempts and retries.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until it has finished; exit with 1 unless it succeeded.")]
AllowUnknown = Annotated[bool, typer.Option("--allow-unknown", help="Accept a type that no worker has published yet.")]


def enqueue_job(
    job_type: Annotated[str, typer.Argument(metavar="TYPE", help="The job type.")],
    tenant: Tenant = None,
    input_: Input = "{}",
    priority: Annotated[int, typer.Option(help="Higher goes first.")] = 0,
    max_retries: Annotated[int | None, typer.Option(help="Retries after the first failure.")] = None,
    dedupe_key: DedupeKey = None,
    delay: Delay = None,
    run_at: Annotated[str | None, typer.Option(metavar="TIME", help=f"When it may start, {FROM_NOW}.")] = None,
    host: Host = None,
    start_by: StartBy = None,
    expires_in: ExpiresIn = None,
    finish_by: FinishBy = None,
    wait: Wait = False,
    module: Annotated[list[str] | None, typer.Option("--app", help="A module that registers the job type.")] = None,
    allow_unknown: AllowUnknown = False,
    json: Json = False,
) -> None:
    """Enqueue a job."""
    if module:
        # Imported here: most commands name no module.
        from atlas.workers.user_modules import load_apps

        load_apps(module)
    job = NewJob(
        job_type,
        read_object("--input", input_),
        priority=priority,
        delay=delay,
        run_at=_read_run_at(run_at, delay),
        max_retries=max_retries,
        dedupe_key=dedupe_key,
        start_by=_read_deadline("--start-by", start_by),
        expires_in=expires_in,
        finish_by=_read_deadline("--finish-by", finish_by),
        allow_unknown=allow_unknown,
    )
    _enqueue(EnqueueOptions(job, tenant, host), wait=wait, json=json)


def _read_deadline(option: str, text: str | None) -> datetime | None:
    return None if text is None else read_time(option, text, ahead=True)


def _read_run_at(text: str | None, delay: timedelta | None) -> datetime | None:
    run_at = _read_deadline("--run-at", text)
    if run_at is not None and delay is not None:
        raise InvalidInput("The command", [FieldError("--run-at", "cannot be combined with --delay")])
    if run_at is not None and run_at < datetime.now(UTC):
        warn(AtlasError(f"--run-at {run_at:%Y-%m-%d %H:%M:%S} UTC is in the past, so the job may start immediately."))
    return run_at


def _enqueue(options: EnqueueOptions, *, wait: bool, json: bool) -> None:
    job_type = options.job.job_type
    # Their models take long to load. The inputs of other types are checked by what workers have published.
    is_built_in = canonical(job_type) in BUILT_IN
    if wait and job_type == ENGINE_RUN:
        raise InvalidInput("The command", [FieldError("--wait", "does not apply to a workflow: see `atlas workflow`")])
    if wait:
        show_end(on_backend(lambda atlas: _enqueue_and_wait(atlas, options), checks_inputs=is_built_in), json=json)
        return
    job = on_backend(lambda atlas: atlas.enqueue(options), checks_inputs=is_built_in)
    message = f"Job {job.id} with this key is already active." if job.deduplicated else f"Job {job.id} is queued."
    say(job, message, json=json)


async def _enqueue_and_wait(atlas: Backend, options: EnqueueOptions) -> JobDetails:
    """The job once it has finished."""
    job = await atlas.enqueue(options)
    sys.stderr.write(f"Job {job.id} is queued.\n")
    async for _ in looks():
        details = await atlas.show(job.id)
        if details.job.status in FINISHED:
            break
    return details
