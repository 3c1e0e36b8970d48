"""Renders a run for people: its steps with status, times and attempts, and what it waits for."""

from datetime import timedelta
from typing import Any

import orjson

from atlas.cli.access.tenant_names import TenantNames
from atlas.cli.terminal.output import table
from atlas.cli.terminal.text_table import TextTable
from atlas.cli.workflow.run_details import RunDetails
from atlas.models.workflows import Intent, RunStep, WorkflowRun

MARKS = {"succeeded": "✓", "failed": "✗", "waiting": "…", "retrying": "↻"}


def draw(details: RunDetails, names: TenantNames) -> list[str | TextTable]:
    """A run with its facts and its steps."""
    parts: list[str | TextTable] = [headline(details), "", table(("", ""), _facts(details, names))]
    if details.steps:
        rows = [_row(step) for step in details.steps]
        parts += ["", table(("", "STEP", "KIND", "STATUS", "ATTEMPTS", "STARTED", "TOOK", ""), rows)]
    return parts


def as_document(details: RunDetails, names: TenantNames) -> dict[str, Any]:
    """The same as a JSON document, with the key of each step and what it waits for."""
    intent, run = (None if row is None else names.document(row) for row in (details.intent, details.run))
    return {"intent": intent, "run": run, "steps": details.steps}


def headline(details: RunDetails) -> str:
    """Where a run is, in a sentence."""
    if details.run is None:
        assert details.intent is not None
        return _not_started(details.intent)
    run = details.run
    waits = [f"{step.key} waits for {awaited}" for step in details.steps if (awaited := step.waits_for) is not None]
    match run.status:
        case "waiting":
            return f"{run.workflow} waits: {'; '.join(waits) or 'for its turn'}."
        case "failed":
            return f"{run.workflow} failed: {run.error.get('message', 'no message was recorded')}"
        case "running":
            return f"{run.workflow} runs on worker {run.claimed_by}."
        case status:
            return f"{run.workflow} is {status}."


def _not_started(intent: Intent) -> str:
    reason = f" {intent.reason}" if intent.reason else ""
    states = {
        "draft": "waits for the engine.",
        "validating": "is being judged.",
        "awaiting_human": "waits for a person's approval.",
    }
    return f"The request for {intent.workflow} {states.get(intent.status, f'is {intent.status}.')}{reason}"


def _facts(details: RunDetails, names: TenantNames) -> list[tuple[str, object]]:
    run, intent = details.run, details.intent
    row = run or intent
    tenant = None if row is None else names.slug(row.tenant_id)
    facts: list[tuple[str, object]] = []
    if run is not None:
        facts = _run_facts(run, tenant)
    elif intent is not None:
        facts = [
            ("id", intent.id),
            ("tenant", tenant),
            ("requested", f"{intent.created_at:%Y-%m-%d %H:%M:%S} UTC by {intent.requested_by}"),
            ("input", _short(intent.input)),
        ]
    if intent is not None:
        facts.append(("intent", intent.status))
    return [(name, value) for name, value in facts if value not in (None, "", {})]


def _run_facts(run: WorkflowRun, tenant: str | None) -> list[tuple[str, object]]:
    return [
        ("id", run.id),
        ("tenant", tenant),
        ("status", run.status),
        ("version", run.version or None),
        ("requested", f"{run.created_at:%Y-%m-%d %H:%M:%S} UTC by {run.requested_by}"),
        ("wakes", run.wakes_at if run.status == "waiting" else None),
        ("ended", run.finished_at),
        ("parent", run.parent_run_id),
        ("forked from", run.forked_from),
        ("input", _short(run.input)),
        ("output", _short(run.output) if run.output != {} else None),
        ("undone", ", ".join(run.error.get("compensated", []))),
    ]


def _row(step: RunStep) -> tuple[object, ...]:
    took = None if step.finished_at is None else _duration(step.finished_at - step.started_at)
    note = step.waits_for or (step.error or {}).get("message")
    return (
        MARKS[step.status],
        step.key,
        step.kind,
        step.status,
        step.attempts,
        step.started_at,
        took,
        note,
    )


def _duration(time: timedelta) -> str:
    seconds = time.total_seconds()
    return f"{seconds * 1000:.0f} ms" if seconds < 10 else str(timedelta(seconds=int(seconds)))


def _short(value: Any) -> str:
    text = orjson.dumps(value, default=str).decode()
    return text if len(text) <= 500 else f"{text[:500]} …"
