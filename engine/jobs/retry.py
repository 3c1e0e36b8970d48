"""Retry by an operator: the only way to reopen a job that has ended."""

from collections.abc import Sequence
from typing import Literal, Unpack
from uuid import UUID

from atlas.actors import Actor
from atlas.db.pool import Connection
from atlas.db.statements import fetch, statement
from atlas.engine.jobs.change_many import ChangeTerms, change_many
from atlas.errors import Conflict, NotFound

RETRY = statement("engine/jobs/sql/retry.sql")
DEAD_LETTERS = statement("engine/jobs/sql/dead_letters.sql")

RetryVerdict = Literal["retried", "conflict", "stopping", "gone", "queued", "running", "succeeded"]


async def retry_now(conn: Connection, job_id: UUID, *, actor: Actor, tenant_id: UUID | None = None) -> None:
    """Queue a failed or canceled job as new: no retries used, no losses counted."""
    verdicts = await retry_many(conn, [job_id], actor=actor, tenant_id=tenant_id)
    match verdicts.get(job_id):
        case None:
            raise NotFound("job", job_id)
        case "retried":
            return
        case "conflict":
            raise Conflict(
                f"Another active job holds the dedupe key of job {job_id}.",
                remedy="Wait until that job has ended, or cancel it, then retry.",
            )
        case "stopping":
            raise Conflict(
                f"What run {job_id} started was asked to stop and has not stopped yet.",
                remedy="Retry it shortly, when nothing of it runs any more.",
            )
        case "gone":
            raise Conflict(
                f"The server instance of job {job_id} was removed.",
                remedy="Enqueue a job for a server instance that exists.",
            )
        case status:
            raise Conflict(f"Job {job_id} is {status}.", remedy="Only failed and canceled jobs can be retried.")


async def retry_many(
    conn: Connection, job_ids: Sequence[UUID], **terms: Unpack[ChangeTerms]
) -> dict[UUID, RetryVerdict]:
    """Retry many, and return for each job found what became of it; one that is refused does not stop the others."""
    return await change_many(conn, RETRY, job_ids, **terms)


async def retry_dead_letters(
    conn: Connection,
    *,
    actor: Actor,
    tenant_id: UUID | None = None,
    job_type: str | None = None,
    limit: int = 1000,
) -> dict[UUID, RetryVerdict]:
    """Retry the oldest dead letters, at most `limit`; call again for the rest.

    One whose dedupe key another active job holds, or whose server instance was removed, stays where it is and does not
    count, and so does one whose outcome is unknown: it is retried by its id.
    """
    rows = await fetch(conn, DEAD_LETTERS, tenant_id=tenant_id, job_type=job_type, limit=limit)
    return await retry_many(conn, [row["id"] for row in rows], actor=actor, tenant_id=tenant_id)
