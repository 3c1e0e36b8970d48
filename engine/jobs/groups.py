"""Groups: jobs that were enqueued together, counted by status, and one job that follows when all have ended.

A group's row is written when the group is made and when it ends. In between its members are counted where they are, by
an index of theirs: ending a job changes nothing of its group. Schedulers look every second, workers with each sweep,
for groups of which nothing is queued or running. Whoever holds the row of one ends it and enqueues the job that
follows, in one transaction: so there is exactly one such job, whoever dies meanwhile.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

import orjson

from atlas.actors import Actor, ActorType, system
from atlas.audit.record import Event, record
from atlas.db.pg_json import stored_text
from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_row, fetch_value, statement
from atlas.engine.jobs.enqueue import enqueue, enqueue_many
from atlas.engine.jobs.handlers.types import secret_schema
from atlas.engine.jobs.new_jobs.new_job import NewJob, input_text
from atlas.errors import AtlasError, FieldError, InvalidInput
from atlas.ids import new_id
from atlas.logs import get_logger

if TYPE_CHECKING:
    from pydantic import TypeAdapter

ADD = statement("engine/jobs/sql/add_group.sql")
SHRINK = statement("engine/jobs/sql/shrink_group.sql")
HOLD = statement("engine/jobs/sql/hold_ended_group.sql")
END = statement("engine/jobs/sql/end_group.sql")
FORGET = statement("engine/jobs/sql/forget_groups.sql")

# Under this key the input of the job that follows has the counts.
COUNTS_KEY = "group"
MAX_NAME_LENGTH = 200
# How a group may end: its members by status, and those that were deleted before.
ENDS = ("succeeded", "failed", "canceled")
# What of the job that follows is not kept: what the group has, and what belongs to the call that made it.
_LEFT_OUT = frozenset({"tenant_id", "source", "source_ref", "secrets", "asked_by", "input_json", "group_id"})

log = get_logger("groups")


async def insert_group(
    conn: Connection, tenant_id: UUID, jobs: Sequence[NewJob], *, then: NewJob | None, name: str, actor: Actor
) -> UUID:
    """Enqueue admitted jobs as a group, all or none. A job whose dedupe key is held is not a member."""
    _check(tenant_id, jobs, then, name)
    group_id = new_id()
    group: dict[str, Any] = {
        "id": group_id,
        "tenant_id": tenant_id,
        "name": name,
        "total": len(jobs),
        "then_job": None if then is None else _stored(then),
        "actor_type": actor.type,
        "created_by": actor.id,
    }
    facts = {"total": len(jobs), "name": name, "then": None if then is None else then.job_type}
    async with conn.transaction():
        created = Event("GROUP_CREATED", "group", str(group_id), actor, tenant_id, meta=facts)
        if not jobs:
            counts = no_counts()
            then_id = await _follow(conn, group, counts)
            await fetch(conn, ADD, **group, ended_counts=orjson.dumps(counts).decode(), then_job_id=then_id)
            await record(conn, created)
            await _record_end(conn, group, counts, then_id)
            return group_id
        await fetch(conn, ADD, **group, ended_counts=None, then_job_id=None)
        enqueued = await enqueue_many(conn, [replace(job, group_id=group_id) for job in jobs], actor=actor)
        strangers = sum(entry.deduplicated for entry in enqueued)
        if strangers:
            await fetch(conn, SHRINK, id=group_id, strangers=strangers)
        await record(conn, created)
    return group_id


async def settle_groups(conn: Connection) -> int:
    """End the groups of which nothing is queued or running, each in a transaction, and enqueue what follows them.

    One whose job cannot be enqueued is tried again at the next call, and holds up no other.
    """
    ended = 0
    failed: list[UUID] = []
    while True:
        try:
            async with conn.transaction():
                group = await _end_next(conn, failed)
        except _NotEnded as error:
            failed.append(error.group_id)
            reason = str(error.__cause__)
            log.error("the job that follows a group cannot be enqueued", group_id=str(error.group_id), reason=reason)
            continue
        if not group:
            return ended
        ended += 1


async def forget_groups(conn: Connection) -> None:
    """Remove the records of groups that ended long ago and have no members left."""
    await fetch(conn, FORGET)


class _NotEnded(Exception):
    def __init__(self, group_id: UUID) -> None:
        super().__init__(group_id)
        self.group_id = group_id


async def _end_next(conn: Connection, failed: Sequence[UUID]) -> bool:
    """End the oldest group that is over and that no other process is at. False: there is none."""
    held = await fetch_row(conn, HOLD, failed=list(failed))
    if held is None:
        return False
    counts = _ends(held["total"], orjson.loads(held["counts"]))
    try:
        then_id = await _follow(conn, held, counts)
    except AtlasError as error:
        raise _NotEnded(held["id"]) from error
    ended = await fetch_value(conn, END, id=held["id"], counts=orjson.dumps(counts).decode(), then_job_id=then_id)
    assert ended is not None
    await _record_end(conn, held, counts, then_id)
    return True


async def _follow(conn: Connection, group: Mapping[str, Any], counts: Mapping[str, int]) -> UUID | None:
    """Enqueue the job that follows a group. It was admitted with the group; one that holds its dedupe key will do."""
    if group["then_job"] is None:
        return None
    job = _job_adapter().validate_python(orjson.loads(group["then_job"]))
    input = with_counts(job.input, group["id"], group["total"], counts)
    job = replace(
        job,
        tenant_id=group["tenant_id"],
        input=input,
        input_json=input_text(job.job_type, input),
        secrets=(),
        source="system",
        source_ref=f"group:{group['id']}",
    )
    kind: ActorType = group["actor_type"]
    return (await enqueue(conn, job, actor=Actor(kind, group["created_by"]), coalesce=True)).id


async def _record_end(
    conn: Connection, group: Mapping[str, Any], counts: Mapping[str, int], then_id: UUID | None
) -> None:
    facts = {"counts": counts, "then_job_id": None if then_id is None else str(then_id)}
    await record(
        conn, Event("GROUP_ENDED", "group", str(group["id"]), system("groups"), group["tenant_id"], meta=facts)
    )


def with_counts(input: Mapping[str, Any], group_id: UUID, total: int, counts: Mapping[str, int]) -> dict[str, Any]:
    """The input of the job that follows."""
    return {**input, COUNTS_KEY: {"id": str(group_id), "total": total, "counts": counts}}


def no_counts() -> dict[str, int]:
    """The counts of a group before anything has ended."""
    return _ends(0, {})


def _ends(total: int, counts: dict[str, int]) -> dict[str, int]:
    ends = {status: counts.get(status, 0) for status in ENDS}
    return {**ends, "deleted": total - sum(ends.values())}


def _check(tenant_id: UUID, jobs: Sequence[NewJob], then: NewJob | None, name: str) -> None:
    wrong = []
    if any(job.tenant_id != tenant_id for job in jobs):
        wrong.append(FieldError("jobs", "belong to several tenants; a group has one"))
    if then is not None and then.tenant_id != tenant_id:
        wrong.append(FieldError("then", "belongs to another tenant than the jobs"))
    if then is not None and then.needs_host:
        wrong.append(FieldError("then", "is for a host, which may be gone when the group has ended"))
    if then is not None and (then.secrets or secret_schema(then.job_type) is not None):
        wrong.append(FieldError("then", "has secret fields, which are not kept until the group has ended"))
    if len(name) > MAX_NAME_LENGTH or stored_text(name) != name:
        wrong.append(FieldError("name", f"has at most {MAX_NAME_LENGTH} characters, none of them U+0000"))
    if wrong:
        raise InvalidInput("The group", wrong)


def _stored(job: NewJob) -> str:
    kept = {field.name: getattr(job, field.name) for field in fields(job) if field.name not in _LEFT_OUT}
    from pydantic_core import to_json

    return to_json({name: value for name, value in kept.items() if value is not None}).decode()


@cache
def _job_adapter() -> "TypeAdapter[NewJob]":
    # Made when it is first needed: every program that enqueues would pay 60 ms for it at its start.
    from pydantic import TypeAdapter

    return TypeAdapter(NewJob)
