"""`atlas status`, `atlas online`, `atlas offline`: the gate, the queue and the workers."""

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from atlas.cli.connection.connect import on_atlas, on_backend
from atlas.cli.steering.pause_table import pauses_text
from atlas.cli.terminal.durations import parse_duration
from atlas.cli.terminal.output import Json, say, table
from atlas.cli.terminal.text_table import TextTable

if TYPE_CHECKING:
    from atlas.models.system import EngineStatus, Gate, SystemStatus

Reason = Annotated[str | None, typer.Option(help="Why, for everyone who sees the status.")]
For = Annotated[
    timedelta | None,
    typer.Option("--for", parser=parse_duration, metavar="DURATION", help="Come back online after this time."),
]


def status(json: Json = False) -> None:
    """Show the gate, the engine, the queue, the workers, losses of the audit log, and programs that keep dying."""
    report = on_backend(lambda atlas: atlas.status())
    say(report, _text(report), json=json)


def online(reason: Reason = None, json: Json = False) -> None:
    """Allow jobs to start."""
    _switch(online=True, reason=reason, until=None, json=json)


def offline(reason: Reason = None, for_: For = None, json: Json = False) -> None:
    """Start no more jobs. Running jobs may finish, and jobs can still be enqueued.

    Returns when every worker has confirmed, within two seconds. A worker that has not confirmed by then
    can no longer start a job.
    """
    _switch(online=False, reason=reason, until=for_, json=json)


def _switch(*, online: bool, reason: str | None, until: timedelta | None, json: bool) -> None:
    seconds = None if until is None else until.total_seconds()
    gate = on_atlas(lambda atlas: atlas.switch_gate(online, reason=reason, for_seconds=seconds))
    ended = [f"Ended the database session of {session}, which held the gate's lock." for session in gate.unblocked]
    say(gate, [_gate_text(gate), *ended], json=json)


def _gate_text(gate: "Gate") -> str:
    if not gate.online:
        return f"{gate.closed_because}{_confirmations(gate)}"
    text = f"Atlas is online since {gate.since:%Y-%m-%d %H:%M:%S} UTC by {gate.by}"
    return f"{text}: {gate.reason}." if gate.reason else f"{text}."


def _confirmations(gate: "Gate") -> str:
    """How many workers confirmed that they start nothing, where the gate was closed just now."""
    if gate.workers is None or gate.confirmed is None:
        return ""
    if gate.workers == 0:
        return " No worker is running."
    text = f" {gate.confirmed} of {gate.workers} workers confirmed that they start nothing"
    return f"{text}." if gate.confirmed == gate.workers else f"{text}; the right of the others to start has lapsed."


def _engine_text(gate: "Gate", engine: "EngineStatus") -> str:
    waiting = f"; {engine.waiting} requests wait" if engine.waiting else ""
    if not (gate.online and gate.engine_enabled):
        why = gate.engine_off_because.removesuffix(".") if gate.online else "The engine is off"
        return f"{why}{waiting}."
    if engine.last_tick_at is None:
        return f"Warning: no engine has run yet{waiting}. Start a worker that serves ENGINE_RUN."
    if engine.is_silent:
        silence = _age(engine.silent_seconds)
        return f"Warning: the engine last polled {silence} ago{waiting}. Start a worker that serves ENGINE_RUN."
    return f"The engine turns requests into runs{waiting}."


def _text(report: "SystemStatus") -> list[str | TextTable]:
    parts: list[str | TextTable] = [_gate_text(report.gate), _engine_text(report.gate, report.engine)]
    if report.audit_lost_end is not None:
        parts.append(f"Warning: {report.audit_lost_end} Nothing is signed until `atlas audit new-epoch --accept-loss`.")
    if report.pauses:
        parts += ["", pauses_text(report.pauses)]
    warnings = [program.warning for program in report.programs if program.warning is not None]
    parts += [f"Warning: {warning} The output of `atlas up` says why." for warning in warnings]
    parts.append("")
    if report.queue:
        rows = [(entry.job_type, entry.status, entry.count, _age(entry.oldest_seconds)) for entry in report.queue]
        parts += [table(("JOB TYPE", "STATUS", "JOBS", "OLDEST"), rows), ""]
    else:
        parts += ["No job is queued or running.", ""]
    if report.workers:
        rows_of_workers = [
            (worker.worker_id, worker.running_count, ", ".join(worker.job_types)) for worker in report.workers
        ]
        parts += [table(("WORKER", "RUNNING", "JOB TYPES"), rows_of_workers), ""]
    else:
        parts += ["No worker is running.", ""]
    if report.versions:
        parts.append(f"Versions: {', '.join(map(str, report.versions))}.")
    return parts


def _age(seconds: float | None) -> str:
    return "" if seconds is None else str(timedelta(seconds=max(0, int(seconds))))
