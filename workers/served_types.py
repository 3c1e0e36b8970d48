"""The job types of one worker: those it was started with, and those that are loaded anew while it runs."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from atlas.db.pool import Pool
from atlas.engine.jobs.types import DuplicateJobType, JobType, add_job_type
from atlas.logs import get_logger
from atlas.waiting import wait_for

# How long a change may go unnoticed when its notification is lost.
LOOK_SECONDS = 5.0

LoadTypes = Callable[[Pool], Awaitable[Sequence[JobType]]]

log = get_logger("worker")


class ServedTypes:
    """What a worker serves now. `keys` is one list for as long as the worker lives, and changes in place."""

    def __init__(self, fixed: Sequence[str], load: LoadTypes | None) -> None:
        self._fixed = list(fixed)
        self._load = load
        self._changed = asyncio.Event()
        self.keys = list(fixed)

    @property
    def may_change(self) -> bool:
        return self._load is not None

    def hint(self) -> None:
        """Something changed: look soon."""
        self._changed.set()

    async def wait(self) -> None:
        """Until it is time to look."""
        await wait_for(self._changed, within=LOOK_SECONDS)
        self._changed.clear()

    async def refresh(self, pool: Pool) -> bool:
        """Look at what is to be loaded. True: other keys are served from now on."""
        if self._load is None:
            return False
        loaded = [one.key for one in await self._load(pool) if self._add(one)]
        keys = [*self._fixed, *(key for key in loaded if key not in self._fixed)]
        changed = keys != self.keys
        self.keys[:] = keys
        return changed

    def _add(self, job_type: JobType) -> bool:
        # A type that is served no more stays known: its last jobs may still be running.
        try:
            add_job_type(job_type)
        except DuplicateJobType as error:
            log.error("a job type cannot be served", job_type=job_type.key, reason=error.message)
            return False
        return True
