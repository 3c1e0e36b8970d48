"""Enqueue as applications call it: a job is admitted, then inserted.

Where this process has the handler, its model checks the input and nothing is looked up. Any other job is checked
against what workers and operators have published about its type.
"""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from atlas.actors import Actor, as_actor
from atlas.db.pool import Connection
from atlas.engine.admission import Admission, admitted, load_admission
from atlas.engine.jobs.enqueue import Enqueued
from atlas.engine.jobs.enqueue import enqueue as insert
from atlas.engine.jobs.enqueue import enqueue_many as insert_many
from atlas.engine.jobs.groups import insert_group, no_counts, with_counts
from atlas.engine.jobs.handlers.types import canonical, registered
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob, checked


async def enqueue(conn: Connection, job: NewJob, *, actor: Actor | str, coalesce: bool = False) -> Enqueued:
    """Enqueue one job in the caller's transaction; see `enqueue_many`."""
    if not _is_known(job):
        [job] = await _admit_all(conn, [job])
    return await insert(conn, job, actor=as_actor(actor), coalesce=coalesce)


async def enqueue_many(
    conn: Connection, jobs: Sequence[NewJob], *, actor: Actor | str, coalesce: bool = False
) -> list[Enqueued]:
    """Enqueue all of them or none, in one round trip. The results are in the order of the jobs.

    A dedupe key whose active holder has another type or input is a DedupeConflict; with `coalesce` the holder
    is the result all the same. A type that nothing has published is refused, unless the job says `allow_unknown`.
    """
    ready = jobs if all(map(_is_known, jobs)) else await _admit_all(conn, jobs)
    return await insert_many(conn, ready, actor=as_actor(actor), coalesce=coalesce)


async def enqueue_group(
    conn: Connection,
    jobs: Sequence[NewJob],
    *,
    actor: Actor | str,
    then: NewJob | None = None,
    name: str = "",
    tenant_id: UUID | None = None,
) -> UUID:
    """Enqueue jobs of one tenant as a group, all or none, and return the group's id.

    When all of them have ended, `then` is enqueued, once, with their counts under `group` in its input. A group without
    jobs ends immediately. A job whose dedupe key is held by another is not a member. The tenant is that of the jobs.
    """
    owners = [tenant_id, *(job.tenant_id for job in jobs[:1]), None if then is None else then.tenant_id]
    owner = next((owner for owner in owners if owner is not None), SYSTEM_TENANT)
    ready = jobs if all(map(_is_known, jobs)) else await _admit_all(conn, jobs)
    if then is not None:
        then = await _admit_then(conn, then, len(jobs))
    return await insert_group(conn, owner, ready, then=then, name=name, actor=as_actor(actor))


async def _admit_then(conn: Connection, then: NewJob, total: int) -> NewJob:
    """The job as it may follow the group: its type must accept the counts beside its own input."""
    counted = replace(then, input=with_counts(then.input, then.id, total, no_counts()))
    [ready] = await _admit_all(conn, [counted])
    checked(ready)
    return replace(ready, input=then.input, input_json=None)


def _is_known(job: NewJob) -> bool:
    return canonical(job.job_type) in registered()


async def _admit_all(conn: Connection, jobs: Sequence[NewJob]) -> list[NewJob]:
    """The jobs as they may be inserted. What is published about a type is read once for each tenant."""
    read: dict[tuple[str, object], Admission] = {}
    ready = []
    for job in jobs:
        if not _is_known(job):
            key = (job.job_type, job.tenant_id)
            if key not in read:
                read[key] = await load_admission(conn, *key)
            job = admitted(job, read[key])
        ready.append(job)
    return ready
