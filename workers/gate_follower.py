"""Follows the gate for one worker: prolongs its right to start while it is open, and confirms when it is closed."""

from collections.abc import Callable, Sequence

from atlas.db.pool import Pool, borrow
from atlas.engine.jobs.claim import ClaimedJob
from atlas.engine.jobs.gate import confirm_closed, read_gate
from atlas.engine.jobs.start_right import StartRight, boot_seconds
from atlas.workers.held_jobs import HeldJobs
from atlas.workers.worker_lease import WorkerLease

# How long a worker waits for what it gave back to be recorded before it confirms.
GIVE_BACK_SECONDS = 1.0


class GateFollower:
    """`give_back` is called when the gate is closed: it gives back the jobs that have not begun, and returns them."""

    def __init__(
        self, lease: WorkerLease, right: StartRight, held: HeldJobs, give_back: Callable[[], Sequence[ClaimedJob]]
    ) -> None:
        self._lease = lease
        self._right = right
        self._held = held
        self._give_back = give_back
        self._confirmed = ("", 0)

    async def follow(self, pool: Pool) -> None:
        """Read the gate. If it is closed, start nothing more, give back what has not begun, and confirm it once.

        The gate may be opened again meanwhile, and jobs started under claims that are made from then on. Closing it
        once more makes another version, which this confirmation is not for.
        """
        asked_at = boot_seconds()
        async with borrow(pool, within=self._lease.seconds / 3) as conn:
            gate = await read_gate(conn)
        if gate.online:
            self._right.grant(asked_at)
            return
        self._right.revoke()
        given_back = self._give_back()
        confirmation = (self._lease.worker_id, gate.version)
        if confirmation == self._confirmed or self._lease.claimant is None:
            return
        await self._right.settle()
        await self._held.wait_until_dropped(given_back, GIVE_BACK_SECONDS)
        async with borrow(pool, within=self._lease.seconds / 3) as conn:
            await confirm_closed(conn, *confirmation)
        self._confirmed = confirmation
