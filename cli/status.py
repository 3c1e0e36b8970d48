"""`atlas status`, `atlas online`, `atlas offline`: the gate and what stands behind it."""

from datetime import timedelta
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.text import Text

from atlas.settings import Settings
from atlas.statements import fetch, statement
from cli.durations import parse_duration
from cli.output import Json, say, table
from cli.runtime import caller, connected, execute
from engine.jobs.find import Depth, queue_depth
from engine.jobs.gate import Gate, read_gate, switch
from engine.workflows.find import EngineState, read_engine

LIVE_WORKERS = statement("cli/sql/live_workers.sql")

Reason = Annotated[str | None, typer.Option(help="Why, for everyone who looks.")]
For = Annotated[
    timedelta | None, typer.Option("--for", parser=parse_duration, metavar="DURATION", help="Back online by itself.")
]


def status(json: Json = False) -> None:
    """Show the gate, the engine, the queue and the workers."""

    async def work(settings: Settings) -> tuple[Gate, EngineState, list[Depth], list[dict[str, Any]]]:
        async with connected(settings) as conn:
            workers = [dict(row) for row in await fetch(conn, LIVE_WORKERS)]
            return await read_gate(conn), await read_engine(conn), await queue_depth(conn), workers

    gate, engine, queue, workers = execute(work)
    told = {"gate": gate, "engine": engine, "queue": queue, "workers": workers}
    say(told, _words(gate, engine, queue, workers), json=json)


def online(reason: Reason = None, json: Json = False) -> None:
    """Let work start."""
    _turn(online=True, reason=reason, until=None, json=json)


def offline(reason: Reason = None, for_: For = None, json: Json = False) -> None:
    """Let nothing start; what runs may end, and jobs can still be enqueued."""
    _turn(online=False, reason=reason, until=for_, json=json)


def _turn(*, online: bool, reason: str | None, until: timedelta | None, json: bool) -> None:
    async def work(settings: Settings) -> Gate:
        async with connected(settings) as conn:
            return await switch(conn, online=online, actor=caller(), reason=reason, until=until)

    gate = execute(work)
    say(gate, _gate_words(gate), json=json)


def _gate_words(gate: Gate) -> str:
    if not gate.online:
        return gate.closed_because
    words = f"Atlas is online since {gate.since:%Y-%m-%d %H:%M:%S} UTC by {gate.by}"
    return f"{words}: {gate.reason}." if gate.reason else f"{words}."


def _engine_words(gate: Gate, engine: EngineState) -> str:
    waiting = f"; {engine.waiting} requests wait for it" if engine.waiting else ""
    if not (gate.online and gate.engine_enabled):
        return f"The engine is off{waiting}."
    if engine.last_tick_at is None:
        return f"Warning: no engine has run yet{waiting}. Start a worker that serves ENGINE_RUN."
    if engine.is_silent:
        silence = _age(engine.silent_seconds)
        return f"Warning: the engine last looked {silence} ago{waiting}. Does a worker serve ENGINE_RUN?"
    return f"The engine turns requests into runs{waiting}."


def _words(gate: Gate, engine: EngineState, queue: list[Depth], workers: list[dict[str, Any]]) -> Group:
    parts: list[Any] = [Text(_gate_words(gate)), Text(_engine_words(gate, engine)), Text()]
    if queue:
        rows = [(entry.job_type, entry.status, entry.count, _age(entry.oldest_seconds)) for entry in queue]
        parts += [table(("JOB TYPE", "STATUS", "JOBS", "OLDEST"), rows), Text()]
    else:
        parts += [Text("No job is queued or running."), Text()]
    if workers:
        rows_of_workers = [
            (worker["worker_id"], worker["running_count"], ", ".join(worker["job_types"])) for worker in workers
        ]
        parts.append(table(("WORKER", "RUNNING", "JOB TYPES"), rows_of_workers))
    else:
        parts.append(Text("No worker is running."))
    return Group(*parts)


def _age(seconds: float | None) -> str:
    return "" if seconds is None else str(timedelta(seconds=max(0, int(seconds))))
