"""Where claims go on while a transaction holds the xmin horizon of the server.

Postgres cannot remove the index entries of claimed jobs then, and a claim that begins at the head of the index walks
over all of them: after minutes it takes seconds. A claim says when it read many more entries than it claimed jobs.
After several such claims the worker remembers by type, tenant and priority when the newest job was created that it
claimed, and its claims look only at jobs that are younger, or a little older: a transaction that enqueues may commit
late.

Jobs that return to the queue with an older place are found in the order of their return: those that fell due, that a
limit released, that an event woke or that were retried by hand. What has neither place is found by a look from the
head: a job whose transaction took long, or that another worker gave back. A look takes long itself, so it is made
beside the claims, in short parts, and seldom: for a fiftieth of the time, but at least every 20 seconds or so.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple
from uuid import UUID

import orjson

from atlas.db.pool import Pool
from atlas.engine.jobs.claim import ClaimedJob, ClaimSnapshot, Places, ReadyPlace, TurnResult, find_places
from atlas.workers.claims.fast_lane import read_new_jobs
from atlas.workers.worker_lease import WorkerLease

# How late a transaction may commit what it enqueued and be found by the next claim, at least and at most. In between:
# as long as a transaction is open that began to write earlier.
LATE_COMMIT_SECONDS = 0.5
MAX_LATE_COMMIT_SECONDS = 3.0
LOOK_REST = 50
MIN_REST_SECONDS = 1.0
MAX_REST_SECONDS = 20.0
# A look rests this many times as long between its parts as each part took: at once it would take a processor from the
# claims for seconds.
PART_SECONDS = 0.02
PART_REST = 5
# After two looks that read few index entries, claims begin at the head again.
FAST_LOOKS = 2
# Places are used after this many slow claims. A slow claim is offset by four that are not: without a held horizon, a
# small claim that follows large ones is slow now and then, because index entries stay while those claims commit.
SLOW_CLAIMS = 4
FAST_PER_SLOW = 4
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
    # Of the jobs that are counted against limits.
    limited: dict[_Key, float]
    # How many hints were heard before, and whether only the places of some are sent.
    hints: int = 0
    is_part: bool = False


_FROM_HEAD = Resume("{}", {}, {})


class _Commits:
    """How late transactions commit. All that began to write before a claim have lower ids than the claim's own."""

    def __init__(self) -> None:
        # The ids of claims, and when they began. Before `_ended_at` no transaction that is still open began to write.
        self._claims: deque[tuple[int, float]] = deque(maxlen=1000)
        self._ended_at = 0.0

    def late(self, snapshot: ClaimSnapshot | None) -> float:
        """What this claim did not see is younger than the moment it began, less the look-back in seconds."""
        if snapshot is None:
            return LATE_COMMIT_SECONDS
        while self._claims and self._claims[0][0] <= snapshot.oldest_open:
            self._ended_at = max(self._ended_at, self._claims.popleft()[1])
        if snapshot.own is not None:
            self._claims.append((snapshot.own, snapshot.at))
        return min(MAX_LATE_COMMIT_SECONDS, max(LATE_COMMIT_SECONDS, snapshot.at - self._ended_at))


class ResumePlaces:
    """`looked` is called after each look: there may be more to claim."""

    def __init__(self, pool: Pool, lease: WorkerLease, *, looked: Callable[[], None]) -> None:
        self._pool = pool
        self._lease = lease
        self._looked = looked
        self._slow_claims = 0.0
        self._was_slow = asyncio.Event()
        self._since: dict[_Key, float | None] = {}
        self._limited: dict[_Key, float] = {}
        self._due_since: float | None = None
        self._commits = _Commits()
        # Where the next claim begins among many places, and how many claims in a row found too little.
        self._next = 0
        self._too_few = 0
        # Hints are numbered. `_hinted`: the places of new jobs, with the last hint of each; `_all_hinted`: the last
        # hint that named none. Both until a claim that was sent later found no more jobs there.
        self._hints = 0
        self._hinted: dict[_Key, int] = {}
        self._all_hinted: int | None = 0
        # How many hints came before the first of the latest claims in a row that found too few jobs.
        self._hints_before = 0
        # Types and tenants of the jobs that were claimed lately, and when.
        self._recent: dict[tuple[str, UUID], float] = {}
        self._next_sample = 0.0
        self.are_used = False

    def request(self) -> Resume:
        """What the next claim is to look at."""
        if not self.are_used:
            return _FROM_HEAD
        # An idle worker looks at the places of new jobs alone.
        since = self._of_hints() if self._all_hinted is None else {}
        is_part = 0 < len(since) <= CLAIM_PLACES
        if not is_part:
            since = self._some() if len(self._since) > CLAIM_PLACES else self._since.copy()
        # Those that were sent go to the end.
        limited = dict(islice(self._limited.items(), CLAIM_PLACES))
        resume = {"places": _rows(since), "careful": _rows(limited), "due_since": self._due_since}
        return Resume(orjson.dumps(resume).decode(), since, limited, self._hints, is_part)

    def returned(self, sent: Resume, turn: TurnResult, *, asked: int) -> None:
        """Continue behind the jobs that a claim returned which had requested `asked`."""
        if not self.are_used:
            self._sample(turn)
            self._slow_claims = max(0.0, self._slow_claims + (1 if turn.is_slow else -1 / FAST_PER_SLOW))
            if self._slow_claims >= SLOW_CLAIMS:
                self._was_slow.set()
            return
        if sent is _FROM_HEAD:
            return
        found_too_few = len(turn.claimed) < asked
        left_some = turn.pauses or turn.again or turn.solo_waits or any(job.must_run_alone for job in turn.claimed[:1])
        late = self._commits.late(turn.snapshot)
        if found_too_few and turn.due_until is not None and not left_some:
            self._saw_all(sent, turn.due_until - late)
        self._note_limited(sent, turn)
        for job_type, tenant, priority, newest, is_limited in turn.places:
            if is_limited:
                continue
            key, whole = (job_type, tenant, priority), (job_type, tenant, None)
            if whole in sent.since and not found_too_few:
                # Jobs of a lower priority may be left, whose place is not known.
                continue
            before, current = sent.since.get(key), self._since.get(key)
            # Unless an older job was found after this claim was sent.
            if before is None or current is None or current >= before:
                self._since[key] = newest - late
        if turn.due_until is not None:
            self._due_since = turn.due_until - late
        if sent.is_part:
            answered = sent.hints
        elif not found_too_few:
            self._too_few, answered = 0, None
        else:
            answered = self._next_of_many(sent, turn)
        if found_too_few and not left_some and answered is not None:
            self._forget_hints(sent, answered)

    def _note_limited(self, sent: Resume, turn: TurnResult) -> None:
        """Keep the places where limited jobs are left. An older one may have been found after this claim was sent."""
        if turn.closed:
            return
        left = {place[:3]: place.since for place in turn.places if place.is_limited}
        for key in sent.limited.keys() | left.keys():
            before, now = sent.limited.get(key), self._limited.get(key)
            if now is not None and now == before:
                del self._limited[key]
                now = None
            if key in left:
                self._limited[key] = left[key] if now is None else min(left[key], now)

    def _next_of_many(self, sent: Resume, turn: TurnResult) -> int | None:
        """Ask again until claims in a row have looked at all places. Then: the hints that the first was sent after."""
        self._hints_before = min(self._hints_before, sent.hints) if self._too_few else sent.hints
        self._too_few += 1
        if self._too_few * CLAIM_PLACES < len(self._since):
            turn.again = True
            return None
        self._too_few = 0
        return self._hints_before

    def _forget_hints(self, sent: Resume, answered: int) -> None:
        if not sent.is_part and self._all_hinted is not None and self._all_hinted <= answered:
            self._all_hinted = None
        for key, number in list(self._hinted.items()):
            if number <= answered and (not sent.is_part or key in sent.since or _whole(key) in sent.since):
                del self._hinted[key]

    def _of_hints(self) -> dict[_Key, float | None]:
        keys = (_whole(key) if _whole(key) in self._since else key for key in self._hinted)
        return {key: self._since[key] for key in keys if key in self._since}

    def _sample(self, turn: TurnResult) -> None:
        """Note the tenants and types of some claims, to look at them as soon as places are used."""
        now = time.monotonic()
        if turn.claimed and now >= self._next_sample:
            self._next_sample = now + SAMPLE_SECONDS
            self._recent.update(dict.fromkeys({(job.job_type, job.tenant_id) for job in turn.claimed}, now))

    def _saw_all(self, sent: Resume, until: float) -> None:
        """These places had no more jobs than were claimed: go on with what was created from then on."""
        for key, before in sent.since.items():
            reached = self._since.get(key, until)
            if key[2] is None:
                # Of its other priorities new jobs are heard of, or found by a look.
                if self._since.pop(key, until) is None:
                    self._since.setdefault((key[0], key[1], 0), until)
                    new = [other for other, since in self._since.items() if not since and _whole(other) == key]
                    self._since.update(dict.fromkeys(new, until))
            elif before is not None and reached == before and before < until:
                self._since[key] = until

    def comes_back(self, job: ClaimedJob) -> None:
        """A job goes back to the queue with its old place: look at all of its tenant and type."""
        for key in [key for key in self._since if key[0] == job.job_type and key[1] == job.tenant_id]:
            del self._since[key]
        self._since[job.job_type, job.tenant_id, None] = None
        self.hint()

    def hint(self, payload: str = "") -> None:
        """There may be jobs: of the tenants, types and priorities of new ones, or of any."""
        self._hints += 1
        jobs = read_new_jobs(payload)
        if not jobs:
            self._all_hinted = self._hints
        for tenant_id, job_type, priority in jobs:
            self._since.setdefault((job_type, tenant_id, priority), 0.0)
            self._hinted[job_type, tenant_id, priority] = self._hints

    async def serve(self) -> None:
        """Look for places whenever claims were slow, until cancelled. Raises when the server cannot be reached."""
        while True:
            await self._was_slow.wait()
            fast = 0
            while fast < FAST_LOOKS:
                began = time.monotonic()
                is_fast, took = await self._look()
                fast = fast + 1 if is_fast else 0
                rested = time.monotonic() - began - took
                await asyncio.sleep(max(MIN_REST_SECONDS, rest_after_look(took) - rested))
            self.are_used = False
            self._slow_claims = 0.0
            self._since.clear()
            self._limited.clear()
            self._due_since = None
            self._was_slow.clear()
            self._looked()

    async def _look(self) -> tuple[bool, float]:
        """Find places from the head, in parts. Whether that reads few entries, and how long it took without the rests.

        The first look does not rest: until it ends, claims begin at the head themselves.
        """
        claimant = self._lease.claimant
        if claimant is None:
            return False, 0.0
        first_at, before = time.monotonic(), self._since.copy()
        ready: list[ReadyPlace] = []
        entries_read, took, rested, part = 0, 0.0, 0.0, None
        while part is None or part.are_cut:
            began = time.monotonic()
            async with self._pool.acquire() as conn:
                part = await find_places(
                    conn, claimant.job_types, after=ready[-1] if ready else None, within=PART_SECONDS
                )
            ready += part.ready
            entries_read += part.entries_read
            spent = time.monotonic() - began
            took += spent
            if self.are_used:
                self._add(part.ready)
            if self.are_used and part.are_cut and rested < MAX_REST_SECONDS:
                rested += PART_REST * spent
                await asyncio.sleep(PART_REST * spent)
        if not self.are_used:
            self._since = {(*group, None): None for group, at in self._recent.items() if at > first_at - RECENT_SECONDS}
            self._recent.clear()
            self.are_used = True
            self._add(ready)
        elif len(self._since) > MAX_PLACES:
            found = {place[:3] for place in ready}
            self._since = {
                key: since
                for key, since in self._since.items()
                if key in found or key not in before or before[key] != since
            }
        return Places(ready, entries_read).are_found_fast, took

    def _add(self, found: Sequence[ReadyPlace]) -> None:
        """Let claims look at what a look has found."""
        for job_type, tenant, priority, first, is_limited in found:
            key = (job_type, tenant, priority)
            if is_limited:
                self._limited[key] = min(first, self._limited.get(key, first))
                continue
            since = self._since.get(key)
            self._since[key] = first if since is None else min(first, since)
            self._since.pop(_whole(key), None)
        self._looked()

    def _some(self) -> dict[_Key, float | None]:
        keys = list(self._since)
        start = self._next % len(keys)
        self._next = start + CLAIM_PLACES
        return {key: self._since[key] for key in (keys * 2)[start : self._next]}


def rest_after_look(took: float) -> float:
    """How long to wait after a look from the head, given how long it took."""
    return min(MAX_REST_SECONDS, max(MIN_REST_SECONDS, LOOK_REST * took))


def _rows(places: Mapping[_Key, float | None]) -> list[tuple[str, str, int | None, float | None]]:
    return [(job_type, str(tenant), priority, first) for (job_type, tenant, priority), first in places.items()]


def _whole(key: _Key) -> _Key:
    """All jobs of the same type and tenant."""
    return key[0], key[1], None
