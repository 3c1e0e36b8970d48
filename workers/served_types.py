"""The job types of one worker: those it was started with, and those that are loaded again and again while it runs."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from atlas.db.pool import Pool
from atlas.engine.jobs.handlers.types import DuplicateJobType, JobType, add_job_type
from atlas.logs import get_logger

# How often to load when no notification came. With its jitter a change is seen within five seconds.
LOOK_SECONDS = 4.5

LoadTypes = Callable[[Pool], Awaitable[Sequence[JobType]]]

log = get_logger("worker")


class ServedTypes:
    """What a worker serves now. `keys` is one list for the lifetime of the worker and changes in place."""

    def __init__(self, fixed: Sequence[str], load: LoadTypes | None) -> None:
        self._fixed = list(fixed)
        self._load = load
        # Set when a change was notified.
        self.changed = asyncio.Event()
        self.keys = list(fixed)

    @property
    def may_change(self) -> bool:
        return self._load is not None

    async def refresh(self, pool: Pool) -> bool:
        """Load the types anew. Returns whether other keys are served from now on."""
        if self._load is None:
            return False
        loaded = [job_type.key for job_type in await self._load(pool) if self._add(job_type)]
        keys = [*self._fixed, *(key for key in loaded if key not in self._fixed)]
        changed = keys != self.keys
        self.keys[:] = keys
        return changed

    def _add(self, job_type: JobType) -> bool:
        # A type that is no longer served stays registered: its last jobs may still be running.
        try:
            add_job_type(job_type)
        except DuplicateJobType as error:
            log.error("job type cannot be served", job_type=job_type.key, reason=error.message)
            return False
        return True
