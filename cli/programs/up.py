"""`atlas up`: all of Atlas in one process tree, in the foreground."""

import asyncio
import math
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Annotated

import httpx
import typer

from atlas.actors import system
from atlas.cli.access.sign_in import operator_token, sign_in_link
from atlas.cli.programs.demo import SLUG, load_demo
from atlas.cli.programs.long_running import atlas_argv
from atlas.cli.programs.ports import RELEASE_SECONDS, http_address, require_port
from atlas.cli.programs.process_group import ChildProcess, run_group
from atlas.cli.programs.source_files import notify_changes
from atlas.cli.programs.worker import App
from atlas.cli.runtime import execute, open_atlas
from atlas.cli.terminal.output import Json, say
from atlas.db.failures import public_url
from atlas.db.pool import Connection
from atlas.db.statements import fetch_value, statement
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.workflows.start_runs import ENGINE_RUN
from atlas.errors import SettingsError
from atlas.home.up_report import UpReport, reporting
from atlas.logs import get_logger
from atlas.settings import Settings
from atlas.source import atlas_command
from atlas.workers.email import EMAIL_SEND
from atlas.workers.email.routing import check_providers
from atlas.workers.user_modules import load_apps

NEVER_SWITCHED = statement("cli/programs/sql/was_never_switched.sql")
ACTOR = system("atlas up")
# The job types that have a worker of their own: neither mails nor workflows wait for other jobs.
DEDICATED = (EMAIL_SEND, ENGINE_RUN)
# Seconds between asking the API whether it responds yet.
ANSWER_PAUSE = 0.1
# Seconds between the lines that say how long the start has taken so far.
PROGRESS_SECONDS = 5.0
FIRST_JOB = """enqueue EMAIL_SEND --input '{"to": "ada@example.com", "subject": "Hello", "text": "It works."}'"""

log = get_logger("up")


def up(
    app: App = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Of the API; ATLAS_PORT if not given.")] = None,
    demo: Annotated[bool, typer.Option(help="Load the examples and a demo tenant.")] = True,
    reload: Annotated[
        bool, typer.Option("--reload", help="Restart when a source file of --app changes, for development.")
    ] = False,
    json: Json = False,
) -> None:
    """Run everything in the foreground. Stop it with Ctrl-C."""
    if port is not None:
        os.environ["ATLAS_PORT"] = str(port)  # For the child processes.
    if reload and not app:
        raise typer.BadParameter("requires --app, whose files it watches", param_hint="--reload")
    load_apps(app or [])  # A module that cannot be imported is reported once, before anything starts.
    watched = app if reload else None
    raise typer.Exit(
        execute(lambda settings: start(settings, programs(app or []), demo=demo, watched=watched, json=json))
    )


def programs(apps: Sequence[str]) -> list[ChildProcess]:
    """The programs of Atlas in the order of their start. They stop in the reverse order, the workers together."""
    options = [word for app in apps for word in ("--app", app)]
    return [
        *(_worker(f"worker of {key}", "--types", key, *options) for key in DEDICATED),
        _worker("worker", "--all", "--except", ",".join(DEDICATED), *options),
        ChildProcess("scheduler", atlas_argv("scheduler", *options)),
        ChildProcess("api", atlas_argv("api", *options)),
    ]


def _worker(name: str, *options: str) -> ChildProcess:
    return ChildProcess(name, atlas_argv("worker", *options), kind="worker")


async def start(
    settings: Settings,
    tree: Sequence[ChildProcess],
    *,
    demo: bool = False,
    watched: Sequence[str] | None = None,
    json: bool,
) -> int:
    """Prepare the installation, and run the programs until they stop. Returns the exit status.

    The address is printed once the API responds.

    They are started again whenever files of the `watched` modules change.
    """
    check_providers(settings)
    serves = any(program.name == "api" for program in tree)
    if serves:
        if settings.atlas_port == 0:
            raise SettingsError("ATLAS_PORT is 0, which is not a port.", remedy="Set a port from 1 to 65535.")
        await require_port(settings.atlas_host, settings.atlas_port, within=RELEASE_SECONDS)
    async with AsyncExitStack() as opened:
        # A new database takes seconds, on a busy machine half a minute.
        async with _progress("preparing the database", home=str(settings.home)):
            opening = open_atlas(settings, wait_seconds=math.inf, migrate=True, size=2, checks_inputs=True)
            atlas = await opened.enter_async_context(opening)
        log.info("the database is ready", database=public_url(atlas.url))
        async with atlas.pool.acquire() as conn:
            await _open_a_new_gate(conn)
            token = await operator_token(conn, settings, actor=ACTOR)
            link = await sign_in_link(conn, token, actor=ACTOR) if serves else None
            if demo:
                await load_demo(conn, actor=ACTOR)
        address = http_address(settings.atlas_host, settings.atlas_port) if serves else None
        database = "embedded" if settings.embedded else public_url(atlas.url)
        sign_in = None if address is None else f"{address}/{link}"
        document = {"address": address, "sign_in": sign_in, "token": token, "database": database}
        with reporting(settings.home, [program.name for program in tree], address=address) as report:
            first_job = f"{FIRST_JOB} --tenant {SLUG if demo else 'system'}"
            announcing = asyncio.create_task(_announce(document, settings, first_job, json=json))
            announcing.add_done_callback(_report_failure)
            try:
                return await _run(tree, settings.atlas_grace_seconds, report, watched)
            finally:
                announcing.cancel()


async def _announce(document: dict[str, str | None], settings: Settings, first_job: str, *, json: bool) -> None:
    """Say that Atlas is ready, once its API responds, and what to type next."""
    address = document["address"]
    if address is not None:
        # It may listen on every address, which is none to connect to.
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.atlas_host, settings.atlas_host)
        async with httpx.AsyncClient(trust_env=False) as client, _progress("starting the programs"):
            while not await _responds(client, f"{http_address(host, settings.atlas_port)}/healthz"):  # noqa: ASYNC110
                await asyncio.sleep(ANSWER_PAUSE)
    lines = [
        f"Atlas is ready on {address}" if address else "Atlas is ready.",
        *([f"Sign in, once within 15 minutes: {document['sign_in']}"] if address else []),
        f"Token: {document['token']}",
        f"A first job, in another terminal: {atlas_command()} {first_job} --wait",
        "Stop it with Ctrl-C; `kill -9` is safe too.",
    ]
    say(document, "\n".join(lines), json=json)


@asynccontextmanager
async def _progress(doing: str, **facts: str) -> AsyncIterator[None]:
    """Log what is being done, and every few seconds that it goes on."""
    log.info(doing, **facts)
    began = time.monotonic()

    async def repeat() -> None:
        while True:
            await asyncio.sleep(PROGRESS_SECONDS)
            log.info(f"{doing}, {time.monotonic() - began:.0f} s so far")

    repeating = asyncio.create_task(repeat())
    try:
        yield
    finally:
        repeating.cancel()


def _report_failure(announcing: asyncio.Task[None]) -> None:
    """Log why Atlas could not say that it is ready. The programs run all the same."""
    error = None if announcing.cancelled() else announcing.exception()
    if error is not None:
        log.error("Atlas runs, but could not say that it is ready", reason=str(error) or repr(error))


async def _responds(client: httpx.AsyncClient, address: str) -> bool:
    try:
        return (await client.get(address)).is_success
    except httpx.HTTPError:
        return False


async def _run(tree: Sequence[ChildProcess], grace: float, report: UpReport, watched: Sequence[str] | None) -> int:
    if watched is None:
        return await run_group(tree, grace=grace, report=report)
    changed = asyncio.Event()
    watching = asyncio.create_task(notify_changes(watched, changed))
    try:
        return await run_group(tree, grace=grace, report=report, restart=changed)
    finally:
        watching.cancel()


async def _open_a_new_gate(conn: Connection) -> None:
    if await fetch_value(conn, NEVER_SWITCHED):
        await switch(conn, online=True, actor=ACTOR, reason="first start")
