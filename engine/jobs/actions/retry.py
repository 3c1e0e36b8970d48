"""Retry by an operator: the only way to reopen a job that has ended."""

from collections.abc import Sequence
from uuid import UUID

from atlas.actors import Actor
from atlas.db.pool import Connection
from atlas.engine.jobs.actions.change_many import change_many
from atlas.engine.policy.judge import Verdict
from atlas.engine.policy.retries import refused_retries
from atlas.errors import Conflict, NotFound

# What policy decides about a run: it forbids it, or lets it start only with an approval.
_VERDICTS = {"block": "blocked", "review": "review"}


async def retry_now(conn: Connection, job_id: UUID, *, actor: Actor, tenant_id: UUID | None = None) -> None:
    """Queue a failed or canceled job as new: no retries used, no losses counted.

    A run that policy does not let start again is a Conflict.
    """
    refused = await refused_retries(conn, [job_id], tenant_id=tenant_id)
    if job_id in refused:
        raise _refusal(job_id, refused[job_id])
    verdicts = await change_many(conn, "retry", [job_id], actor=actor, tenant_id=tenant_id)
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
                f"A job or run that run {job_id} started was asked to stop and still runs.",
                remedy="Retry it when that has stopped.",
            )
        case "compensated":
            raise Conflict(
                f"Run {job_id} has undone what it did.", remedy="Fork it from its first step, or request a new run."
            )
        case "gone":
            raise Conflict(
                f"The server instance of job {job_id} was removed.",
                remedy="Enqueue a job for a server instance that exists.",
            )
        case status:
            raise Conflict(f"Job {job_id} is {status}.", remedy="Only failed and canceled jobs can be retried.")


async def refused_by_policy(conn: Connection, job_ids: Sequence[UUID], tenant_id: UUID | None) -> dict[UUID, str]:
    """The runs among these jobs that policy does not let start again, and its verdict."""
    refused = await refused_retries(conn, job_ids, tenant_id=tenant_id)
    return {job_id: _VERDICTS[verdict.effect] for job_id, verdict in refused.items()}


def _refusal(run_id: UUID, verdict: Verdict) -> Conflict:
    if verdict.effect == "block":
        return Conflict(verdict.reason, remedy="Retry the run when the rule lets it start.")
    return Conflict(
        f"Run {run_id} needs an approval to start again. {verdict.reason}",
        remedy="Fork the run: a fork is a new request, which a person can approve.",
    )
