"""Records outcomes, all in one statement with the next claim, or one by one where Postgres cannot store one of them."""

from operator import attrgetter
from uuid import UUID

import asyncpg

from atlas.db.pool import Connection
from atlas.engine.jobs.backoff import ATLAS
from atlas.engine.jobs.claim import Claimant, TurnResult
from atlas.engine.jobs.finish import Finish, WorkerTime, take_turn
from atlas.engine.jobs.verdicts import PermanentError, decide
from atlas.logs import get_logger
from atlas.workers.demand import Request
from atlas.workers.held_jobs import HeldJobs

# Characters of the outputs that are recorded together. More would take longer than a lease on a slow connection, and
# Postgres takes no statement of a gigabyte.
LARGEST_CALL = 16 * 2**20
# What Postgres raises for an outcome that it cannot store.
NOT_STORABLE = (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError)

_output = attrgetter("output")

log = get_logger("worker")


def split_outcomes(outcomes: list[Finish]) -> tuple[list[Finish], list[Finish]]:
    """Those to record next, and the rest: there is one if their outputs are too large for one statement."""
    size = 0
    for count, output in enumerate(map(_output, outcomes)):
        if output is not None:
            size += len(output)
            if size > LARGEST_CALL and count:
                return outcomes[:count], outcomes[count:]
    return outcomes, []


async def record_and_claim(
    conn: Connection,
    claimant: Claimant,
    finishes: list[Finish],
    request: Request,
    *,
    held: HeldJobs,
    after: UUID | None,
    usage: WorkerTime | None,
    within: float,
) -> TurnResult:
    """Record these and claim what is asked for. An outcome of a held job that cannot be stored becomes a failure."""
    try:
        return await take_turn(
            conn,
            claimant,
            finishes,
            slots=request.slots,
            prefetch=request.prefetch,
            alone=request.alone,
            after=after,
            usage=usage,
            within=within,
        )
    except NOT_STORABLE as error:
        log.error("outcomes are recorded one by one", worker_id=claimant.id, jobs=len(finishes), reason=str(error))
        together = TurnResult(again=True)
        for one in finishes:
            turn = await _record_one(conn, claimant, one, held, within)
            together.lost += turn.lost
            together.canceled += turn.canceled
        return together


async def _record_one(
    conn: Connection, claimant: Claimant, finish: Finish, held: HeldJobs, within: float
) -> TurnResult:
    """Record one outcome, as a failure if it cannot be stored as it is."""
    try:
        return await take_turn(conn, claimant, [finish], within=within)
    except NOT_STORABLE as error:
        job = held.get(finish.job_id)
        if job is None:
            return TurnResult()
        log.error("an outcome could not be stored", **job.log_facts(claimant.id), reason=str(error))
        refusal = PermanentError(f"The outcome could not be stored: {error}.")
        failure = decide(job, claimant.id, refusal, ATLAS)
        return await take_turn(conn, claimant, [failure], within=within)
