"""One call of the claim loop."""

from typing import NamedTuple

from atlas.engine.jobs.claim import Claimant
from atlas.engine.jobs.finish import Finish, WorkerTime
from atlas.workers.claims.demand import Request
from atlas.workers.claims.resume_places import Resume


class TurnCall(NamedTuple):
    """What one call records, asks for and reports: made before it is sent, and used again when it returns."""

    claimant: Claimant
    finishes: list[Finish]
    request: Request
    usage: WorkerTime | None
    # The places to go on from; None: the claim shows whether anything is left.
    resume: Resume | None
    # How many hints were heard before, and when it was made, in seconds of the boot clock.
    hints: int
    asked_at: float
