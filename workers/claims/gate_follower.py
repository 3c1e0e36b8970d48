"""Follows the gate and the pauses for one worker: prolongs its right to start, and confirms that it starts nothing."""

from atlas.db.pool import Pool, borrow
from atlas.engine.jobs.claim import ClaimedJob
from atlas.engine.jobs.start_right import StartRights, boot_seconds
from atlas.engine.jobs.switches.gate import confirm_closed, gate_of, read_gate_row
from atlas.engine.jobs.switches.pauses import confirm_paused, pauses_version
from atlas.engine.jobs.verdicts import release
from atlas.workers.attempts.executor import Executor
from atlas.workers.claims.held_jobs import HeldJobs
from atlas.workers.worker_lease import WorkerLease

# How long a worker waits for what it gave back to be recorded before it confirms.
GIVE_BACK_SECONDS = 1.0


class GateFollower:
    """`rights` are what it prolongs and ends; what has not begun in the executor is given back when they end."""

    def __init__(self, lease: WorkerLease, rights: StartRights, held: HeldJobs, executor: Executor) -> None:
        self.rights = rights
        self._lease = lease
        self._held = held
        self._executor = executor
        self._confirmed = ("", 0)
        self._confirmed_pauses = ("", 0)
        # What was given back for pauses that are not confirmed yet.
        self._given_back: list[ClaimedJob] = []

    def heard_of_pauses(self, version: int) -> None:
        """If these pauses are new, start nothing that was claimed before, and give it back."""
        if version > self.rights.version:
            self.rights.renew(version)
            self.rights.requested.set()
            self._given_back += self.give_back()

    def give_back(self) -> list[ClaimedJob]:
        """Give back what has not begun, and return it."""
        waiting = self._executor.take_back()
        self._held.outbox.extend(release(job) for job in waiting)
        self._held.outbox.wake_all()
        return waiting

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
            self.rights.present.grant(asked_at)
        else:
            self.rights.present.revoke()
            self._given_back += self.give_back()
        worker_id = self._lease.worker_id
        given_back, self._given_back = self._given_back, []
        if self._lease.claimant is None:
            return
        if pauses and self._confirmed_pauses != (worker_id, pauses):
            await self.rights.settle()
            await self._held.wait_until_dropped(given_back, GIVE_BACK_SECONDS)
            async with borrow(pool, within=self._lease.seconds / 3) as conn:
                await confirm_paused(conn, worker_id, pauses)
            self._confirmed_pauses = (worker_id, pauses)
        if not gate.online and self._confirmed != (worker_id, gate.version):
            await self.rights.present.settle()
            await self._held.wait_until_dropped(given_back, GIVE_BACK_SECONDS)
            async with borrow(pool, within=self._lease.seconds / 3) as conn:
                await confirm_closed(conn, worker_id, gate.version)
            self._confirmed = (worker_id, gate.version)
