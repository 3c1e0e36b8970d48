"""`atlas jobs watch`: what happens to a job, or to the newest jobs, while it happens."""

import sys
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from atlas.bounds import MAX_PAGE_SIZE
from atlas.cli.connection.backend import Backend, JobDetails, ListOptions
from atlas.cli.connection.connect import on_backend
from atlas.cli.terminal.output import Json, dump_json, say
from atlas.cli.terminal.stdio import written_out
from atlas.cli.terminal.waiting import looks
from atlas.errors import FieldError, InvalidInput

if TYPE_CHECKING:
    from uuid import UUID

    from atlas.engine.jobs.lists.find import JobRow

FINISHED = ("succeeded", "failed", "canceled")


def watch(
    job_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="A job's id, or its beginning.")] = None,
    job_type: Annotated[str | None, typer.Option("--type", help="Only jobs of this type.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's jobs, by slug or id.")] = None,
    json: Json = False,
) -> None:
    """Follow a job until it has finished, with 1 unless it succeeded; or the newest 200 jobs until Ctrl-C.

    A line for each change. With --json, a job is one document at its end, and the newest jobs are one document a line.
    """
    if job_id is not None and (job_type or tenant):
        raise InvalidInput("The command", [FieldError("ID", "--type and --tenant only go without an id")])
    try:
        if job_id is None:
            on_backend(lambda atlas: _follow_all(atlas, ListOptions(None, job_type, tenant, None, MAX_PAGE_SIZE), json))
        else:
            show_end(on_backend(lambda atlas: _follow_one(atlas, job_id)), json=json)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


async def _follow_one(atlas: Backend, job_id: str) -> JobDetails:
    """The job once it has finished. Its states before that are printed on stderr."""
    id, before = await atlas.find_job_id(job_id), ""
    async for _ in looks():
        details = await atlas.show(id)
        if details.job.status in FINISHED:
            break
        state = _state(details.job)
        if state != before:
            sys.stderr.write(f"Job {id} is {state}.\n")
        before = state
    return details


async def _follow_all(atlas: Backend, options: ListOptions, json: bool) -> None:
    seen: dict[UUID, tuple[str, int]] = {}
    async for _ in looks():
        page = await atlas.list_jobs(options)
        names = await atlas.tenant_names(page.jobs)
        changed = [job for job in reversed(page.jobs) if seen.get(job.id) != (job.shown_status, job.attempt_count)]
        seen = {job.id: (job.shown_status, job.attempt_count) for job in page.jobs}
        with written_out():
            for job in changed:
                text = (
                    f"{job.updated_at:%H:%M:%S}  {job.id}  {names.slug(job.tenant_id)}  {job.job_type}  {_state(job)}"
                )
                sys.stdout.write(f"{dump_json(names.document(job)) if json else text}\n")


def show_end(details: JobDetails, *, json: bool) -> None:
    """Print how a job finished. Ends the command with 1 unless it succeeded."""
    job = details.job
    text = orjson.dumps(job.output if job.status == "succeeded" else job.error, option=orjson.OPT_INDENT_2).decode()
    say({"job": details.document, "attempts": details.attempts}, f"Job {job.id} has {job.status}.\n{text}", json=json)
    if job.status != "succeeded":
        raise typer.Exit(1)


def _state(job: "JobRow") -> str:
    attempt = f", attempt {job.attempt_count} of {job.max_retries + 1}" if job.attempt_count else ""
    progress = f", {dump_json(job.progress)}" if job.progress else ""
    return f"{job.shown_status}{attempt}{progress}"
