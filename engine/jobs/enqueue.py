"""Enqueue: dedupe, insert, audit row and wake-up in one statement, inside the caller's transaction if there is one.

The ids are made by the caller. So thousands of jobs return no rows, and a caller whose connection broke during the
commit can look for the id it chose.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from operator import attrgetter
from time import time
from typing import Any
from uuid import UUID

import orjson

from atlas.actors import Actor
from atlas.audit.record import event_frame
from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_row, fetch_value, retry_deadlocks, statement
from atlas.engine.jobs.handlers.types import canonical, secret_schema
from atlas.engine.jobs.local_wakeup import wake_local_workers
from atlas.engine.jobs.new_jobs.new_job import (
    NewJob,
    check_options,
    checked,
    checked_input,
    created_body,
    event_meta,
    input_text,
    is_audited,
    known_limits,
    known_retries,
)
from atlas.engine.jobs.new_jobs.new_job_columns import ENQUEUE_MANY, columns_of, event_metas
from atlas.engine.jobs.new_jobs.placement import place
from atlas.engine.jobs.new_jobs.refusals import refusals
from atlas.engine.secrets.key import secret_key
from atlas.engine.secrets.store import encrypt_secrets, hide, split_secrets, store_secrets
from atlas.tracing import active_tracer, continued, current_traceparent, span

# Options beside the type and the input; most jobs have none of them.
OPTIONS = (
    *("priority", "delay", "run_at", "max_retries", "correlation_id", "source", "source_ref", "timeout_seconds"),
    *("definition_id", "parent_run_id"),
)
NO_OPTIONS = (None,) * len(OPTIONS)
_options = attrgetter(*OPTIONS)

ENQUEUE = statement("engine/jobs/sql/enqueue.sql")
ENQUEUE_PLAIN = ENQUEUE.without(*OPTIONS)
# Of jobs that several requests enqueue together.
ENQUEUE_REQUESTED = statement("engine/jobs/sql/enqueue_batch.sql")
ENQUEUE_BATCH = ENQUEUE_REQUESTED.without("correlation_ids", "metas", "closings", "with_times")
ENQUEUE_PLAIN_BATCH = ENQUEUE_BATCH.without(*OPTIONS)
# What the jobs of one request share in a batch, and those of several requests.
_of_one_request = attrgetter(*(name for name in NewJob.__slots__ if name not in ("id", "input", "input_json")))
_OWN = ("id", "input", "input_json", "correlation_id", "asked_by")
_of_several = attrgetter(*(name for name in NewJob.__slots__ if name not in _OWN))

# A job in history may have an id that is older than this: `enqueue_many` looks there. Jobs are moved after two hours.
FRESH_ID_SECONDS = 3600


# Not frozen: a frozen one takes twice as long to make, and bulk callers get thousands.
@dataclass(slots=True, unsafe_hash=True)
class Enqueued:
    """The new job's id, or the id of the active job that holds the same dedupe key."""

    id: UUID
    deduplicated: bool = False


async def enqueue(conn: Connection, job: NewJob, *, actor: Actor, coalesce: bool = False) -> Enqueued:
    """Enqueue one job; see `enqueue_many`.

    Most jobs go by a statement of their own without arrays: it takes half the time of `enqueue_many` of one job.
    """
    if _takes_many(job) or not _are_fresh((job,)) or active_tracer() is not None:
        return (await enqueue_many(conn, (job,), actor=actor, coalesce=coalesce))[0]
    values = _values(job, checked(job), actor)
    with refusals():
        if _options(job) == NO_OPTIONS:
            created = await fetch_value(conn, ENQUEUE_PLAIN, **values)
        else:
            created = await fetch_value(conn, ENQUEUE, **values, **_chosen(job))
    if created is None:
        return (await _enqueue_each(conn, (job,), actor, coalesce))[0]
    wake_local_workers(conn, (job.tenant_id, canonical(job.job_type)))
    return Enqueued(job.id)


async def enqueue_many(
    conn: Connection,
    jobs: Sequence[NewJob],
    *,
    actor: Actor,
    coalesce: bool = False,
    times: list[datetime] | None = None,
) -> list[Enqueued]:
    """Enqueue all of them or none, in one round trip. The results are in the order of the jobs.

    A dedupe key whose active holder has another type or input is a DedupeConflict; with `coalesce` the holder
    is the result all the same. `times` is filled with when each job was created, if all are alike; otherwise it stays
    empty.
    """
    if not jobs:
        return []
    if active_tracer() is None or not any(continued(job.correlation_id) for job in jobs):
        return await _enqueue_all(conn, jobs, actor, coalesce, times)
    types = sorted({job.job_type for job in jobs})
    attributes = {"messaging.system": "atlas", "messaging.batch.message_count": len(jobs), "atlas.job_types": types}
    with span(f"enqueue {types[0]}" if len(types) == 1 else "enqueue", "PRODUCER", attributes=attributes):
        here = current_traceparent()
        traced = [replace(job, correlation_id=here) if continued(job.correlation_id) else job for job in jobs]
        return await _enqueue_all(conn, traced, actor, coalesce, times)


async def _enqueue_all(
    conn: Connection, jobs: Sequence[NewJob], actor: Actor, coalesce: bool, times: list[datetime] | None
) -> list[Enqueued]:
    are_of_one = times is None and _are_alike(jobs, _of_one_request)
    is_batch = not _takes_many(jobs[0]) and (are_of_one or _are_alike(jobs, _of_several)) and _are_fresh(jobs)
    insert = _insert_batch if are_of_one else partial(_insert_requested, times=times)
    if is_batch and await insert(conn, jobs, actor):
        wake_local_workers(conn)
        return [Enqueued(job.id) for job in jobs]
    return await _enqueue_each(conn, jobs, actor, coalesce)


def _are_fresh(jobs: Sequence[NewJob]) -> bool:
    """True where the ids were made a short time ago, so that the key of the table alone says whether one is taken."""
    oldest = int(time() - FRESH_ID_SECONDS) * 1000 << 80
    return all(job.id.int >= oldest for job in jobs)


def _are_alike(jobs: Sequence[NewJob], shared_fields: Callable[[NewJob], Any]) -> bool:
    shared = shared_fields(jobs[0])
    return all(shared_fields(job) == shared for job in jobs)


async def _insert_batch(conn: Connection, jobs: Sequence[NewJob], actor: Actor) -> bool:
    """Insert jobs that are alike, in one statement; False where `enqueue_many` has to decide about them.

    What they share is checked, bound and written into the events once.
    """
    first = jobs[0]
    check_options(first)
    values = _batch_values(jobs, actor)
    with refusals():
        if _options(first) == NO_OPTIONS:
            return await fetch_value(conn, ENQUEUE_PLAIN_BATCH, **values) is not None
        return await fetch_value(conn, ENQUEUE_BATCH, **values, **_chosen(first)) is not None


async def _insert_requested(
    conn: Connection, jobs: Sequence[NewJob], actor: Actor, *, times: list[datetime] | None
) -> bool:
    """The same for jobs of several requests, which have correlation ids and facts in their events of their own."""
    for job in jobs:
        check_options(job)
    values = _batch_values(jobs, actor)
    metas = [event_meta(values["job_type"], job.correlation_id, job.asked_by or actor) for job in jobs]
    frames = [event_frame("JOB_CREATED", actor.type, actor.id, "job", jobs[0].tenant_id, meta) for meta in metas]
    values |= {**_chosen(jobs[0]), "correlation_id": None, "correlation_ids": [job.correlation_id for job in jobs]}
    values |= {"metas": metas, "closings": [closing for _, closing in frames], "with_times": times is not None}
    with refusals():
        row = await fetch_row(conn, ENQUEUE_REQUESTED, **values)
    if times is not None and row is not None:
        times.extend(row["times"])
    return row is not None


def _batch_values(jobs: Sequence[NewJob], actor: Actor) -> dict[str, Any]:
    """What a batch has, with the facts of the first job's event."""
    first = jobs[0]
    texts = [checked_input(job) for job in jobs]
    job_type = canonical(first.job_type)
    meta = event_meta(job_type, first.correlation_id, first.asked_by or actor)
    opening, closing = event_frame("JOB_CREATED", actor.type, actor.id, "job", first.tenant_id, meta)
    return {
        "ids": [job.id for job in jobs],
        "inputs": texts,
        "tenant_id": first.tenant_id,
        "job_type": job_type,
        "actor_type": actor.type,
        "actor_id": actor.id,
        "meta": meta,
        "opening": opening,
        "closing": closing,
        "type_retries": known_retries(job_type),
    }


async def _enqueue_each(conn: Connection, jobs: Sequence[NewJob], actor: Actor, coalesce: bool) -> list[Enqueued]:
    texts = [checked(job) for job in jobs]
    if any(map(_is_special, jobs)):
        return await retry_deadlocks(conn, lambda: _enqueue_special(conn, jobs, actor, coalesce))
    # Two callers that enqueue the same dedupe keys in different order can wait for each other.
    return await retry_deadlocks(conn, lambda: _insert(conn, jobs, texts, actor, coalesce))


async def _insert(
    conn: Connection, jobs: Sequence[NewJob], texts: list[str], actor: Actor, coalesce: bool
) -> list[Enqueued]:
    with refusals():
        rows = await fetch(conn, ENQUEUE_MANY, coalesce=coalesce, **columns_of(jobs, texts, actor))
    wake_local_workers(conn)
    results = [Enqueued(job.id) for job in jobs]
    for row in rows:
        results[row["nth"] - 1] = Enqueued(row["id"], deduplicated=True)
    return results


async def job_row(conn: Connection, job: NewJob, actor: Actor) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """An admitted job, and the rows of its secrets, as the database takes them from a trigger."""
    job = _without_secrets(await place(conn, job))
    text, key = checked(job), canonical(job.job_type)
    row = {
        "id": job.id,
        "tenant_id": job.tenant_id,
        "job_type": key,
        "input": orjson.Fragment(text),
        "meta": orjson.Fragment(event_metas([job], [key], actor)[0]),
        "max_retries": job.max_retries,
        "type_retries": known_retries(key),
        "limit_by": known_limits(key),
        "correlation_id": job.correlation_id,
        "source": job.source,
        "source_ref": job.source_ref,
        "definition_id": job.definition_id,
        "host_id": job.host_id,
        "server_instance_id": job.server_instance_id,
    }
    if not job.secrets:
        return row, []
    common = {"job_id": job.id, "tenant_id": job.tenant_id, "key_id": secret_key().id}
    return row, [
        {**common, "field": secret["field"], "nonce": secret["nonce"].hex(), "ciphertext": secret["ciphertext"].hex()}
        for secret in encrypt_secrets(job.id, job.tenant_id, job.secrets)
    ]


def _takes_many(job: NewJob) -> bool:
    """True for a job with more than the statement for one can store."""
    is_bound = job.dedupe_key is not None or job.has_deadline or job.group_id is not None
    return is_bound or _is_special(job) or is_audited(job) or known_limits(canonical(job.job_type)) is not None


def _is_special(job: NewJob) -> bool:
    """True for the few jobs that need more than an insert: those of a host, and those with secrets."""
    if job.needs_host or job.secrets:
        return True
    return job.secrets is None and secret_schema(job.job_type) is not None


async def _enqueue_special(conn: Connection, jobs: Sequence[NewJob], actor: Actor, coalesce: bool) -> list[Enqueued]:
    """The same in several statements, all or none: find the host, insert, store the secrets."""
    async with conn.transaction():
        ready = [_without_secrets(await place(conn, job)) for job in jobs]
        texts = [job.input_json or input_text(job.job_type, job.input) for job in ready]
        results = await _insert(conn, ready, texts, actor, coalesce)
        for job, result in zip(ready, results, strict=True):
            if job.secrets and not result.deduplicated:
                await store_secrets(conn, job.id, job.tenant_id, job.secrets)
    return results


def _without_secrets(job: NewJob) -> NewJob:
    """The job with its secrets taken out of its input, and out of a dedupe key that was made from it."""
    schema = secret_schema(job.job_type)
    if job.secrets is None and schema is not None:
        public, secrets = split_secrets(schema, job.input, job.tenant_id, secret_key())
        job = replace(job, input=public, secrets=secrets, input_json=None)
    if job.secrets and job.dedupe_key is not None:
        job = replace(job, dedupe_key=hide(job.dedupe_key, job.secrets))
    return job


def _values(job: NewJob, text: str, actor: Actor) -> dict[str, Any]:
    """What every job has, as the values of its statement."""
    job_type = canonical(job.job_type)
    meta = event_meta(job_type, job.correlation_id, job.asked_by or actor)
    return {
        "id": job.id,
        "tenant_id": job.tenant_id,
        "job_type": job_type,
        "input": text,
        "actor_type": actor.type,
        "actor_id": actor.id,
        "meta": meta,
        "body": created_body(job, meta, actor),
        "type_retries": known_retries(job_type),
    }


def _chosen(job: NewJob) -> dict[str, Any]:
    """What it has beside them."""
    chosen = dict(zip(OPTIONS, _options(job), strict=True))
    return chosen if job.delay is None else {**chosen, "delay": job.delay.total_seconds()}
