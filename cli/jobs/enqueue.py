"""`atlas enqueue`: enqueues a job, and waits for its end if asked to."""

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
from atlas.engine.jobs.new_job import NewJob
from atlas.engine.jobs.types import canonical
from atlas.errors import AtlasError, FieldError, InvalidInput

BUILT_IN = ("EMAIL_SEND", "HTTP_CALL")


def enqueue_job(
    job_type: Annotated[str, typer.Argument(metavar="TYPE", help="The job type.")],
    tenant: Annotated[
        str | None, typer.Option(help="The job's tenant, by slug or id; that of the token, or system, if not given.")
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
    run_at: Annotated[str | None, typer.Option(metavar="TIME", help=f"When it may start, {FROM_NOW}.")] = None,
    host: Annotated[
        str | None, typer.Option(help="The host that runs it, by name or id, or the beginning of its id.")
    ] = None,
    start_by: Annotated[
        str | None, typer.Option(metavar="TIME", help="Canceled as expired unless it has started by then.")
    ] = None,
    expires_in: Annotated[
        timedelta | None,
        typer.Option(parser=parse_duration, metavar="DURATION", help="The same as a time from now, for example 10m."),
    ] = None,
    finish_by: Annotated[
        str | None, typer.Option(metavar="TIME", help="When its attempts and its retries end.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Return when it has ended, with 1 unless it succeeded.")] = False,
    module: Annotated[list[str] | None, typer.Option("--app", help="A module that registers the job type.")] = None,
    allow_unknown: Annotated[
        bool, typer.Option("--allow-unknown", help="Accept a type that no worker has published yet.")
    ] = False,
    json: Json = False,
) -> None:
    """Enqueue a job."""
    if module:
        # Imported here: most commands name no module.
        from atlas.workers.user_modules import load_apps

        load_apps(module)
    due = None if run_at is None else read_time("--run-at", run_at, ahead=True)
    if due is not None and delay is not None:
        raise InvalidInput("The command", [FieldError("--run-at", "stands beside --delay; give one of them")])
    if due is not None and due < datetime.now(UTC):
        warn(AtlasError(f"--run-at {due:%Y-%m-%d %H:%M:%S} UTC is in the past, so the job may start immediately."))
    job = NewJob(
        job_type,
        read_object("--input", input_),
        priority=priority,
        delay=delay,
        run_at=due,
        max_retries=max_retries,
        dedupe_key=dedupe_key,
        start_by=None if start_by is None else read_time("--start-by", start_by, ahead=True),
        expires_in=expires_in,
        finish_by=None if finish_by is None else read_time("--finish-by", finish_by, ahead=True),
        allow_unknown=allow_unknown,
    )
    options = EnqueueOptions(job, tenant, host)
    # Their models take long to load. The inputs of other types are checked by what workers have published.
    is_built_in = canonical(job_type) in BUILT_IN
    if wait and job_type == ENGINE_RUN:
        raise InvalidInput("The command", [FieldError("--wait", "does not apply to a workflow: see `atlas workflow`")])
    if wait:
        show_end(on_backend(lambda atlas: _enqueue_and_wait(atlas, options), checks_inputs=is_built_in), json=json)
        return
    made = on_backend(lambda atlas: atlas.enqueue(options), checks_inputs=is_built_in)
    message = f"Job {made.id} with this key is active already." if made.deduplicated else f"Job {made.id} is queued."
    say(made, message, json=json)


async def _enqueue_and_wait(atlas: Backend, options: EnqueueOptions) -> JobDetails:
    """The job once it has finished."""
    made = await atlas.enqueue(options)
    sys.stderr.write(f"Job {made.id} is queued.\n")
    async for _ in looks():
        found = await atlas.show(made.id)
        if found.job.status in FINISHED:
            break
    return found
