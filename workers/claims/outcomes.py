"""Records outcomes one by one, where Postgres cannot store one of those that were recorded together."""

import asyncpg

from atlas.db.pool import Connection
from atlas.engine.jobs.backoff import ATLAS
from atlas.engine.jobs.claim import Claimant, TurnResult
from atlas.engine.jobs.finish import Finish, finish_and_claim
from atlas.engine.jobs.verdicts import PermanentError, decide
from atlas.logs import get_logger
from atlas.workers.claims.held_jobs import HeldJobs

# What Postgres raises for an outcome that it cannot store.
NOT_STORABLE = (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError)

log = get_logger("worker")


async def record_one_by_one(
    conn: Connection, claimant: Claimant, finishes: list[Finish], held: HeldJobs, *, reason: Exception, within: float
) -> TurnResult:
    """Record these after they were refused together. What cannot be stored of a held job becomes a failure."""
    log.error("outcomes are recorded one by one", worker_id=claimant.id, jobs=len(finishes), reason=str(reason))
    together = TurnResult(again=True)
    for finish in finishes:
        turn = await _record_one(conn, claimant, finish, held, within)
        together.lost += turn.lost
        together.canceled += turn.canceled
    return together


async def _record_one(
    conn: Connection, claimant: Claimant, finish: Finish, held: HeldJobs, within: float
) -> TurnResult:
    """Record one outcome, as a failure if it cannot be stored as it is."""
    try:
        return await finish_and_claim(conn, claimant, [finish], within=within)
    except NOT_STORABLE as error:
        job = held.get(finish.job_id)
        if job is None:
            return TurnResult()
        log.error("an outcome could not be stored", **job.log_facts(claimant.id), reason=str(error))
        refusal = PermanentError(f"The outcome could not be stored: {error}.")
        failure = decide(job, claimant.id, refusal, ATLAS)
        return await finish_and_claim(conn, claimant, [failure], within=within)
