"""`atlas worker`: claims jobs and runs their handlers."""

import asyncio
import logging
import os
import sys
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from atlas.cli.connection.needs_database import require_database
from atlas.cli.programs.long_running import copies, run_program
from atlas.cli.programs.process_group import run_group
from atlas.cli.runtime import Atlas, execute
from atlas.cli.terminal.output import Json, say
from atlas.db.pool import TRANSACTION_SECONDS, Pool
from atlas.engine.commands.active_definitions import load_definitions
from atlas.engine.jobs.handlers.types import canonical, registered
from atlas.engine.jobs.lists.find import count_due
from atlas.engine.jobs.switches.gate import read_gate
from atlas.engine.triggers.from_code import sync_code_schedules
from atlas.engine.workflows.start_runs import ENGINE_RUN
from atlas.errors import AtlasError, Refused
from atlas.settings import Settings
from atlas.workers.commands.types import load_command_types
from atlas.workers.email import register_email
from atlas.workers.http_call import register_http_call
from atlas.workers.served_types import LoadTypes
from atlas.workers.user_modules import load_apps
from atlas.workers.worker import Worker, WorkerOptions
from atlas.workers.workflows import run_engine_loop, settle_intents

RECOUNT_SECONDS = 5.0
SHOW_SECONDS = 0.2
# Beside the two of the claim loop: for sweeps, cancellations, progress, the engine and the steps of its runs, and
# for what handlers borrow.
SPARE_CONNECTIONS = 12


class NothingToServe(AtlasError):
    """A worker should serve job types that no module registers."""


Types = Annotated[str | None, typer.Option(help="Job types to serve, separated by commas.")]
App = Annotated[list[str] | None, typer.Option("--app", help="A module whose decorators register handlers.")]


def worker(
    types: Types = None,
    all_: Annotated[bool, typer.Option("--all", help="Serve every registered job type.")] = False,
    except_: Annotated[
        str | None, typer.Option("--except", help="Job types that --all leaves to other workers, separated by commas.")
    ] = None,
    app: App = None,
    concurrency: Annotated[int | None, typer.Option(min=1, max=10_000, help="Jobs at a time.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, max=10_000, help="Maximum number of jobs in one claim.")] = None,
    poll_ms: Annotated[int | None, typer.Option(min=10, max=60_000, help="Milliseconds between polls.")] = None,
    processes: Annotated[int, typer.Option(min=1, max=64, help="Worker processes.")] = 1,
    drain: Annotated[bool, typer.Option("--drain", help="Stop when no job is due.")] = False,
    json: Json = False,
) -> None:
    """Run jobs until stopped."""
    if (types is None) != all_:
        raise typer.BadParameter("give the job types with --types, or --all", param_hint="--types")
    if except_ is not None and not all_:
        raise typer.BadParameter("requires --all", param_hint="--except")
    if processes > 1:
        _run_many(processes, drain=drain, json=json)
    overrides = {"atlas_concurrency": concurrency, "atlas_batch": batch, "atlas_poll_ms": poll_ms}

    async def work(atlas: Atlas, stop: asyncio.Event) -> Worker:
        register_email(atlas.settings)
        register_http_call(atlas.settings)
        load_apps(app or [])
        await sync_code_schedules(atlas.pool)
        async with asyncio.timeout(TRANSACTION_SECONDS):
            served, commands = await _served(atlas.pool, types, except_)
        options = options_of(atlas.settings, served, drain=drain)
        options = replace(options, load_types=commands, owns_process=True)
        running = await _serve(atlas, stop, options, show=drain and not json)
        if running.has_running_handlers:
            await running.let_go()
            print_summary(running)
            # Other workers may have its jobs by now, but the interpreter would still wait for their handlers.
            sys.stdout.flush()
            os._exit(0)
        return running

    def print_summary(done: Worker) -> None:
        finished = done.finished
        count = f"{finished:,} {'job' if finished == 1 else 'jobs'} finished"
        message = f"{count}; no more are due." if drain else f"{count}."
        say({"finished": finished}, message, json=json)

    print_summary(run_program(work, size=SPARE_CONNECTIONS + 2, tries_again=not drain, **overrides))


def options_of(settings: Settings, job_types: list[str], *, drain: bool = False) -> WorkerOptions:
    """A worker's options from the settings."""
    return WorkerOptions(
        job_types,
        concurrency=settings.atlas_concurrency,
        batch=settings.atlas_batch,
        poll=settings.atlas_poll_ms / 1000,
        lease=settings.atlas_lease_seconds,
        grace=settings.atlas_grace_seconds,
        drain=drain,
        is_fair=settings.atlas_fairness == "on",
        application_url=settings.atlas_application_database_url,
    )


async def _served(pool: Pool, types: str | None, without: str | None) -> tuple[list[str], LoadTypes | None]:
    """The job types that have a handler here, and the function that loads those that are commands."""
    if types is None:
        others = [] if without is None else await _known_types(pool, without)
        served = sorted(key for key in registered() if key not in others)
        return served, partial(load_command_types, without=others)
    chosen = await _known_types(pool, types)
    rest = [name for name in chosen if name not in registered()]
    return [name for name in chosen if name in registered()], partial(load_command_types, only=rest) if rest else None


async def _known_types(pool: Pool, types: str) -> list[str]:
    """The types that an option names. Each has a handler here or is a command."""
    names = [canonical(name.strip()) for name in types.split(",") if name.strip()]
    rest = [name for name in names if name not in registered()]
    commands = {definition.spec.key for definition in await load_definitions(pool)} if rest else set[str]()
    unknown = [name for name in rest if name not in commands]
    if unknown or not names:
        raise NothingToServe(
            f"There is no handler for {', '.join(unknown)}." if unknown else "No job type was given.",
            remedy="Give the module that registers it with --app, or add a definition.",
        )
    return names


async def _serve(atlas: Atlas, stop: asyncio.Event, options: WorkerOptions, *, show: bool) -> Worker:
    running = Worker(atlas.pool, atlas.url, options)
    tasks = [asyncio.create_task(_stop_when(stop, running))]
    if ENGINE_RUN in options.job_types:
        if options.drain:
            await settle_intents(atlas.pool)
        engine = run_engine_loop(atlas.pool, stop, url=atlas.url, poll=options.poll)
        tasks.append(asyncio.create_task(engine))
    if show and sys.stderr.isatty():
        # A line for each attempt would tear the progress bar.
        logging.getLogger("worker").setLevel(logging.WARNING)
        tasks.append(asyncio.create_task(_show_progress(atlas.pool, running, options)))
    try:
        await running.run()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if running.found_gate_closed:
        gate = await read_gate(atlas.pool)
        raise Refused(gate.closed_because, remedy="Open the gate with `atlas online`, then drain again.")
    return running


async def _stop_when(stop: asyncio.Event, running: Worker) -> None:
    await stop.wait()
    running.stop()


async def _show_progress(pool: Pool, running: Worker, options: WorkerOptions) -> None:
    """A progress bar with the rate and an estimate, until the drain ends."""
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]:,.0f} jobs/s"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        loop = asyncio.get_running_loop()
        began = loop.time()
        task: Any = bar.add_task("drain", total=await count_due(pool, options.job_types), rate=0.0)
        recount_at = began + RECOUNT_SECONDS
        while True:
            await asyncio.sleep(SHOW_SECONDS)
            bar.update(task, completed=running.finished, rate=running.finished / (loop.time() - began))
            if loop.time() >= recount_at:
                bar.update(task, total=running.finished + await count_due(pool, options.job_types))
                recount_at = loop.time() + RECOUNT_SECONDS


def _run_many(processes: int, *, drain: bool, json: bool) -> NoReturn:
    """Run the same command in several processes, and exit as they do."""

    async def run(settings: Settings) -> int:
        require_database(settings)
        return await run_group(copies("worker", processes), grace=settings.atlas_grace_seconds, may_end=drain)

    status = execute(run)
    if json:
        say({"processes": processes, "status": status}, "", json=True)
    raise typer.Exit(status)
