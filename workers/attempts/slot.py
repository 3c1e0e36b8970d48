"""A slot of the executor: the job that it runs, and why its handler has to stop, if it has to."""

import asyncio
from typing import Any, Literal

from atlas.engine.jobs.claim import ClaimedJob
from atlas.engine.jobs.handlers.context import AttemptContext
from atlas.workers.attempts.running_attempt import OfSlot

StopReason = Literal["timeout", "cancel", "stop", "lost"]


class Slot:
    """Runs one job at a time: the job and its handler's context, and why the handler has to stop, if it has to."""

    __slots__ = ("context", "deadline", "found_by", "job", "reason", "since", "task", "thread")

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.job: ClaimedJob | None = None
        self.context: AttemptContext | None = None
        self.since = 0.0
        self.deadline: float | None = None
        self.reason: StopReason | None = None
        self.thread: asyncio.Future[Any] | None = None
        # What leads from the code that its task runs to its attempt.
        self.found_by: OfSlot | None = None

    def stopped_by(self) -> StopReason | None:
        """Why its handler was asked to stop. A call, since the reason changes while the handler runs."""
        return self.reason
