"""Frames of the live view: events about a job, a run, a trigger or the gate."""

from collections.abc import Mapping
from typing import Any

import orjson

# Events of one kind in one frame; the rest are counted. A screen shows no more.
MAX_OF_A_KIND = 60
MAX_FRAME = 64 * 1024
MAX_ERROR_LENGTH = 200

EVENTS = {
    "JOB_CREATED": "job.created",
    "JOB_SUCCEEDED": "job_run.completed",
    "EMAIL_SENT": "job_run.completed",
    "WORKFLOW_COMPLETE": "job_run.completed",
    "JOB_CANCELED": "job_run.completed",
    "JOB_RETRY_SCHEDULED": "job_run.failed",
    "JOB_FAILED": "job_run.failed",
    "JOB_EXHAUSTED_RETRIES": "job_run.failed",
    "JOB_POISONED": "job_run.failed",
    "LEASE_EXPIRED": "job_run.failed",
    "WORKFLOW_FAILED": "job_run.failed",
    "JOB_RETRIED": "job.created",
    "JOB_CANCEL_REQUESTED": "job.cancel_requested",
    "JOB_DISCARDED": "job.discarded",
    "JOB_DELETED": "job.deleted",
    "ATLAS_ONLINE": "atlas.online",
    "ATLAS_OFFLINE": "atlas.online",
    "PAUSED": "pause.updated",
    "RESUMED": "pause.updated",
    "APPROVAL_REQUESTED": "run.updated",
    "APPROVAL_DECIDED": "run.updated",
    "INTENT_BLOCKED": "run.updated",
    "TRIGGER_FIRED": "trigger.fired",
    "TRIGGER_FAILED": "trigger.failed",
    "TRIGGER_MISSED": "trigger.failed",
    "TRIGGER_ADDED": "trigger.updated",
    "TRIGGER_EDITED": "trigger.updated",
    "TRIGGER_REMOVED": "trigger.updated",
}


def event_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """An audit row as an event of a frame; `row` has the job's columns where it is about one."""
    kind = EVENTS[row["action"]]
    if kind == "atlas.online":
        return {
            "event": kind,
            "online": row["action"] == "ATLAS_ONLINE",
            "reason": row["message"] or None,
            "by": row["actor_id"],
            "since": row["since"],
            "until": row["until"],
        }
    if kind == "pause.updated":
        about = {"kind": row["entity_type"], "target": row["entity_id"], "tenant_id": row["tenant_id"]}
        return {"event": kind, **about, "paused": row["action"] == "PAUSED", "by": row["actor_id"]}
    if kind == "run.updated":
        approval = row["entity_id"] if row["entity_type"] == "approval" else None
        about = {"run_id": row["run_id"] or row["entity_id"], "approval_id": approval}
        return {"event": kind, **about, "status": row["action"].lower()}
    if kind.startswith("trigger."):
        return {"event": kind, "trigger_id": row["entity_id"], "tenant_id": row["tenant_id"]}
    if kind == "job.created":
        # Its row is read later, when it may run or have ended already: events of their own say so.
        status = "waiting" if row["status"] == "waiting" and not row["attempt_count"] else "queued"
        return {"event": kind, **job_facts(row), "job_run_id": None, "status": status, "duration_ms": None}
    return {"event": kind, **job_facts(row), "error": _error(row) if kind == "job_run.failed" else None}


def job_facts(row: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an event that describe its job."""
    attempt = row["attempt_count"]
    return {
        "job_id": row["job_id"] or row["entity_id"],
        "tenant_id": row["tenant_id"],
        "job_run_id": f"{row['job_id']}:{attempt}" if attempt else None,
        "job_type": row["job_type"],
        "attempt_count": attempt or 0,
        "correlation_id": row["correlation_id"],
        "status": row["status"],
        "duration_ms": row["duration_ms"],
        "error": None,
        "server_instance_id": row["server_instance_id"],
    }


def refetch(place: str | None = None) -> dict[str, Any]:
    """A refetch frame: more happened than frames carry, and the client fetches again what it shows."""
    return {"type": "refetch"} if place is None else {"type": "refetch", "place": place}


def write(frame: Mapping[str, Any]) -> str:
    """A frame as text; a refetch instead of one that would be too large."""
    text = orjson.dumps(frame, default=str, option=orjson.OPT_UTC_Z)
    if len(text) > MAX_FRAME:
        text = orjson.dumps(refetch(frame.get("place")))
    return text.decode()


def _error(row: Mapping[str, Any]) -> str | None:
    message = row["message"] or row["error_message"]
    return None if not message else str(message)[:MAX_ERROR_LENGTH]
