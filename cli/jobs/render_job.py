"""Renders a job for people: its facts, its attempts, and what they left in text."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from atlas.cli.connection.backend import JobDetails
from atlas.cli.terminal.output import table
from atlas.cli.terminal.text_table import TextTable

# What an attempt leaves in text, and what it is called.
PARTS = {"error_text": "Error", "log_tail": "Log", "stdout_tail": "Standard output", "stderr_tail": "Standard error"}
# Of how many attempts `jobs show` prints it, and how many lines of each.
MAX_SHOWN = 3
SHOWN_LINES = 40


def draw_job(details: JobDetails) -> list[str | TextTable]:
    """A job with the reason for its status, its facts, and its attempts with what the last of them left."""
    job = details.job
    facts = [
        ("id", job.id),
        ("tenant", details.tenant),
        ("type", job.job_type),
        ("status", job.shown_status),
        ("priority", job.priority),
        ("created", f"{_moment(job.created_at)} by {job.created_by}"),
        ("scheduled for", _moment(job.scheduled_for)),
        ("next attempt", _moment(job.next_retry_at)),
        ("progress", None if job.progress is None else orjson.dumps(job.progress).decode()),
        ("input", orjson.dumps(job.input).decode()[:500]),
        ("output", orjson.dumps(job.output).decode()[:500] if job.output != {} else None),
        ("error", job.error.get("message")),
    ]
    rows = [
        (
            attempt["attempt_no"],
            attempt["status"],
            attempt["outcome"],
            attempt["started_at"],
            attempt["duration_ms"],
            attempt["worker_id"],
        )
        for attempt in details.attempts
    ]
    parts: list[str | TextTable] = [
        details.explanation.text,
        "",
        table(("", ""), [fact for fact in facts if fact[1] is not None]),
    ]
    if rows:
        parts += ["", table(("ATTEMPT", "STATUS", "OUTCOME", "STARTED", "MS", "WORKER"), rows)]
    for attempt in details.attempts[-MAX_SHOWN:]:
        parts += parts_of(attempt, job.id, most=SHOWN_LINES)
    return parts


def _moment(at: datetime | None) -> str | None:
    return None if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"


def parts_of(attempt: Mapping[str, Any], job_id: UUID, *, most: int | None = None) -> list[str | TextTable]:
    """What an attempt left: its error, its log and its output, each with a title, and at most its last lines."""
    parts: list[str | TextTable] = []
    for name, title in PARTS.items():
        lines = (attempt[name] or "").rstrip().splitlines()
        kept = lines if most is None else lines[-most:]
        cut = "" if kept == lines else f", its last {len(kept)} lines; `atlas jobs logs {job_id}` shows all"
        if kept:
            parts += [f"\n{title} of attempt {attempt['attempt_no']}{cut}", "\n".join(kept)]
    return parts
