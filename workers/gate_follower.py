"""Follows the gate and the pauses for one worker: prolongs its right to start, and confirms that it starts nothing."""

from collections.abc import Callable, Sequence

from atlas.db.pool import Pool, borrow
from atlas.engine.jobs.claim import ClaimedJob
from atlas.engine.jobs.gate import confirm_closed, gate_of, read_gate_row
from atlas.engine.jobs.pauses import confirm_paused, pauses_version
from atlas.engine.jobs.start_right import StartRights, boot_seconds
from atlas.workers.held_jobs import HeldJobs
from atlas.workers.worker_lease import WorkerLease

# How long a worker waits for what it gave back to be recorded before it confirms.
GIVE_BACK_SECONDS = 1.0


class GateFollower:
    """`give_back` gives back the jobs that have not begun, and returns them."""

    def __init__(
        self, lease: WorkerLease, rights: StartRights, held: HeldJobs, give_back: Callable[[], Sequence[ClaimedJob]]
    ) -> None:
        self._lease = lease
        self._rights = rights
        self._held = held
        self._give_back = give_back
        self._confirmed = ("", 0)
        self._confirmed_pauses = ("", 0)
        # What was given back for pauses that are not confirmed yet.
        self._given_back: list[ClaimedJob] = []

    def heard_of_pauses(self, version: int) -> None:
        """If these pauses are new, start nothing that was claimed before, and give it back."""
        if version > self._rights.version:
            self._rights.renew(version)
            self._rights.wanted.set()
            self._given_back += self._give_back()

    async def follow(self, pool: Pool) -> None:
        """Read the gate and the version of the pauses.

        If the gate is closed, start nothing more, give back what has not begun, and confirm it once. It may be opened
        again meanwhile, and jobs started under claims that are made from then on. Closing it once more makes another
        version, which this confirmation is not for.
        """
        asked_at = boot_seconds()
        async with borrow(pool, within=self._lease.seconds / 3) as conn:
            row = await read_gate_row(conn)
        gate, pauses = gate_of(row), pauses_version(row)
        self.heard_of_pauses(pauses)
        if gate.online:
            self._rights.present.grant(asked_at)
        else:
            self._rights.present.revoke()
            self._given_back += self._give_back()
        worker_id = self._lease.worker_id
        given_back, self._given_back = self._given_back, []
        if self._lease.claimant is None:
            return
        if pauses and self._confirmed_pauses != (worker_id, pauses):
            await self._rights.settle()
            await self._held.wait_until_dropped(given_back, GIVE_BACK_SECONDS)
            async with borrow(pool, within=self._lease.seconds / 3) as conn:
                await confirm_paused(conn, worker_id, pauses)
            self._confirmed_pauses = (worker_id, pauses)
        if not gate.online and self._confirmed != (worker_id, gate.version):
            await self._rights.present.settle()
            await self._held.wait_until_dropped(given_back, GIVE_BACK_SECONDS)
            async with borrow(pool, within=self._lease.seconds / 3) as conn:
                await confirm_closed(conn, worker_id, gate.version)
            self._confirmed = (worker_id, gate.version)
