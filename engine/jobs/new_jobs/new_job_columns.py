"""The columns of new jobs, as `enqueue_many` takes them: an array for each, and the bytes of each JOB_CREATED.

A field that is stored as it is needs no entry here: it is a field of `NewJob` and a parameter of the function.
"""

from collections.abc import Sequence
from datetime import timedelta
from operator import attrgetter
from typing import Any

from atlas.actors import Actor
from atlas.db.statements import statement
from atlas.engine.jobs.handlers.types import canonical
from atlas.engine.jobs.new_jobs.new_job import (
    INPUT_DIGEST,
    NewJob,
    created_body,
    event_meta,
    hash_key,
    is_audited,
    known_limits,
    known_retries,
    stored_key,
)

# The fields of a new job that are stored as they are, each under its name as an argument, or under another.
_STORED_AS_THEY_ARE = tuple(
    name
    for name in NewJob.__slots__
    if name not in ("job_type", "input", "tenant_id", "delay", "dedupe_key", "expires_in", "id", "secrets")
    and name not in ("asked_by", "input_json", "audit_content", "allow_unknown")
)
_ARGUMENTS = {
    "correlation_id": "correlation",
    "timeout_seconds": "timeout",
    "definition_id": "definition",
    "host_id": "host",
    "server_instance_id": "instance",
    "parent_run_id": "parent_run",
    "group_id": "group",
}
ENQUEUE_MANY = statement("engine/jobs/sql/enqueue_many.sql").of_columns(
    [f"p_{_ARGUMENTS.get(name, name)} => :{name}" for name in _STORED_AS_THEY_ARE]
)


def columns_of(jobs: Sequence[NewJob], texts: list[str], actor: Actor) -> dict[str, Any]:
    """The jobs as arrays, one a column; a column without values is null and costs nothing."""
    types = [canonical(job.job_type) for job in jobs]
    metas = event_metas(jobs, types, actor)
    shared_types = _shared(types)
    keys = _column(jobs, "dedupe_key")
    return {
        "actor_type": actor.type,
        "actor_id": actor.id,
        "ids": [job.id for job in jobs],
        "tenants": _shared([job.tenant_id for job in jobs]),
        "types": shared_types,
        "inputs": texts,
        "metas": _shared(metas),
        "bodies": [created_body(job, meta, actor) for job, meta in zip(jobs, metas, strict=True)],
        "delays": _seconds(_column(jobs, "delay")),
        "type_retries": _or_null([known_retries(key) for key in shared_types]),
        "limit_by": _or_null([known_limits(key) for key in shared_types]),
        "dedupe_keys": keys and [None if key is None else stored_key(key) for key in keys],
        "dedupe_hashes": keys and [None if key is None else hash_key(key) for key in keys],
        "expirations": _seconds(_column(jobs, "expires_in")),
        **{name: _column(jobs, name) for name in _STORED_AS_THEY_ARE},
    }


def _column(jobs: Sequence[NewJob], name: str) -> list[Any] | None:
    return _or_null(list(map(attrgetter(name), jobs)))


def _or_null(values: list[Any]) -> list[Any] | None:
    return None if values.count(None) == len(values) else values


def _seconds(times: list[timedelta | None] | None) -> list[float | None] | None:
    if times is None:
        return None
    return [None if time is None else time.total_seconds() for time in times]


def _shared(values: list[Any]) -> list[Any]:
    """One value where all are the same."""
    return values[:1] if values.count(values[0]) == len(values) else values


def event_metas(jobs: Sequence[NewJob], types: list[str], actor: Actor) -> list[str]:
    """The facts of every event. Most jobs of a batch share them: those are serialised once."""
    written: dict[Any, str] = {}
    metas = []
    for key, job in zip(types, jobs, strict=True):
        instance = job.server_instance_id
        shared = (key, job.correlation_id, job.asked_by, is_audited(job), instance)
        if shared not in written:
            more: dict[str, str | None] = {INPUT_DIGEST: None} if shared[3] else {}
            more |= {"server_instance_id": str(instance)} if instance is not None else {}
            written[shared] = event_meta(key, job.correlation_id, job.asked_by or actor, more)
        metas.append(written[shared])
    return metas
