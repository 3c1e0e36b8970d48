"""Where claims go on while a transaction holds the xmin horizon of the server.

Postgres cannot remove the index entries of claimed jobs then, and a claim that begins at the head of the index walks
over all of them: after minutes it takes seconds. A claim says when it read many more entries than it claimed jobs. From
then on the worker remembers by type, tenant and priority when the newest job was created that it claimed, and its
claims look only at jobs that are younger, or a little older: a transaction that enqueues may commit late.

What comes back with an older place is found by a look from the head: a job that was retried by hand or lost by another
worker, or whose transaction took long. Jobs that fall due are looked at by the claim that makes them ready. A look
takes long itself, so it is made beside the claims, and seldom: for a twentieth of the time, but at least every 20
seconds.
"""

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

import orjson

from atlas.db.pool import Pool
from atlas.engine.jobs.claim import ClaimedJob, TurnResult, ready_places
from atlas.workers.fast_lane import read_new_job
from atlas.workers.worker_lease import WorkerLease

# How late a transaction may commit what it enqueued and be found by the next claim.
LATE_COMMIT_SECONDS = 0.5
LOOK_REST = 20
MIN_REST_SECONDS = 1.0
MAX_REST_SECONDS = 20.0
# After two looks that take less, claims begin at the head again.
FAST_LOOK_SECONDS = 0.01
FAST_LOOKS = 2
# Of more places those are forgotten that have no job at a look.
MAX_PLACES = 2000
# How often the tenants and types of a claim are noted, and for how long.
SAMPLE_SECONDS = 0.2
RECENT_SECONDS = 60.0
# A claim looks at this many; the next one goes on with the others.
CLAIM_PLACES = 256

# Type, tenant and priority. Without a priority: all jobs of the type and tenant.
_Key = tuple[str, UUID, int | None]


class Resume(NamedTuple):
    """What a claim is sent: the places as JSON, and the same to compare with when it returns."""

    text: str
    since: dict[_Key, float | None]


_FROM_HEAD = Resume("{}", {})


class ResumePlaces:
    """`looked` is called after each look: there may be more to claim."""

    def __init__(self, pool: Pool, lease: WorkerLease, *, looked: Callable[[], None]) -> None:
        self._pool = pool
        self._lease = lease
        self._looked = looked
        self._was_slow = asyncio.Event()
        self._since: dict[_Key, float | None] = {}
        self._due_since: float | None = None
        # Where the next claim begins among many places, and how many claims in a row found too little.
        self._next = 0
        self._too_few = 0
        # Types and tenants of the jobs that were claimed lately, and when.
        self._recent: dict[tuple[str, UUID], float] = {}
        self._next_sample = 0.0
        self.are_used = False

    def request(self) -> Resume:
        """What the next claim is to look at."""
        if not self.are_used:
            return _FROM_HEAD
        since = self._some() if len(self._since) > CLAIM_PLACES else self._since.copy()
        places = [(job_type, str(tenant), priority, first) for (job_type, tenant, priority), first in since.items()]
        return Resume(orjson.dumps({"places": places, "due_since": self._due_since}).decode(), since)

    def returned(self, sent: Resume, turn: TurnResult, *, asked: int) -> None:
        """Go on behind what a claim brought that asked for so many jobs."""
        if not self.are_used:
            self._sample(turn)
            if turn.is_slow:
                self._was_slow.set()
            return
        if sent is _FROM_HEAD:
            return
        found_too_few = len(turn.claimed) < asked
        left_some = turn.pauses or turn.again or turn.solo_waits or any(job.must_run_alone for job in turn.claimed[:1])
        if found_too_few and turn.due_until is not None and not left_some:
            self._saw_all(sent, turn.due_until - LATE_COMMIT_SECONDS)
        for job_type, tenant, priority, newest in turn.places:
            key, whole = (job_type, tenant, priority), (job_type, tenant, None)
            if whole in sent.since and not found_too_few:
                # Jobs of a lower priority may be left, whose place is not known.
                continue
            before, known = sent.since.get(key), self._since.get(key)
            # Unless an older job was found after this claim was sent.
            if before is None or known is None or known >= before:
                self._since[key] = newest - LATE_COMMIT_SECONDS
        if turn.due_until is not None:
            self._due_since = turn.due_until - LATE_COMMIT_SECONDS
        self._too_few = self._too_few + 1 if found_too_few else 0
        if found_too_few and self._too_few * CLAIM_PLACES < len(self._since):
            turn.again = True

    def _sample(self, turn: TurnResult) -> None:
        """Note the tenants and types of some claims, to look at them as soon as places are used."""
        now = time.monotonic()
        if turn.claimed and now >= self._next_sample:
            self._next_sample = now + SAMPLE_SECONDS
            self._recent.update(dict.fromkeys({(job.job_type, job.tenant_id) for job in turn.claimed}, now))

    def _saw_all(self, sent: Resume, until: float) -> None:
        """These places had no more jobs than were claimed: go on with what was created from then on."""
        for key, before in sent.since.items():
            known = self._since.get(key, until)
            if key[2] is None:
                # Of its other priorities new jobs are heard of, or found by a look.
                if self._since.pop(key, until) is None:
                    self._since.setdefault((key[0], key[1], 0), until)
            elif before is not None and known == before and before < until:
                self._since[key] = until

    def comes_back(self, job: ClaimedJob) -> None:
        """A job goes back to the queue with its old place: look at all of its tenant and type."""
        for key in [key for key in self._since if key[0] == job.job_type and key[1] == job.tenant_id]:
            del self._since[key]
        self._since[job.job_type, job.tenant_id, None] = None

    def hint(self, payload: str) -> None:
        """A job was enqueued: look for jobs of its tenant, type and priority, if they have no place yet."""
        job = read_new_job(payload)
        if job is not None:
            tenant_id, job_type, priority = job
            if (job_type, tenant_id, None) not in self._since:
                self._since.setdefault((job_type, tenant_id, priority), 0.0)

    async def serve(self) -> None:
        """Look for places whenever claims were slow, until cancelled. Raises when the server cannot be reached."""
        while True:
            await self._was_slow.wait()
            fast = 0
            while fast < FAST_LOOKS:
                took = await self._look()
                fast = fast + 1 if took < FAST_LOOK_SECONDS else 0
                await asyncio.sleep(min(MAX_REST_SECONDS, max(MIN_REST_SECONDS, LOOK_REST * took)))
            self.are_used = False
            self._since.clear()
            self._due_since = None
            self._was_slow.clear()
            self._looked()

    async def _look(self) -> float:
        """Find places from the head. Returns the seconds that it took."""
        claimant = self._lease.claimant
        if claimant is None:
            return MIN_REST_SECONDS
        began = time.monotonic()
        async with self._pool.acquire() as conn:
            found = await ready_places(conn, claimant.job_types)
        took = time.monotonic() - began
        if len(self._since) > MAX_PLACES:
            self._since.clear()
        if not self.are_used:
            self._since = {(*group, None): None for group, at in self._recent.items() if at > began - RECENT_SECONDS}
            self._recent.clear()
        for job_type, tenant, priority, first in found:
            known = self._since.get((job_type, tenant, priority))
            self._since[job_type, tenant, priority] = first if known is None else min(first, known)
            self._since.pop((job_type, tenant, None), None)
        self.are_used = True
        self._looked()
        return took

    def _some(self) -> dict[_Key, float | None]:
        keys = list(self._since)
        start = self._next % len(keys)
        self._next = start + CLAIM_PLACES
        return {key: self._since[key] for key in (keys * 2)[start : self._next]}
