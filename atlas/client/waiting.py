"""Waiting for the end of something: the live view says when to fetch it, what was fetched says whether it has ended."""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from copy import copy
from typing import Protocol, TypeGuard, TypeVar
from uuid import UUID

from atlas.client.errors import ApiTooManyRequests, Unavailable, Unreachable
from atlas.client.frames import Events, Frame, JobEvent, RunEvent
from atlas.client.request import RetryBudget
from atlas.client.route import ApiCaller, Id, Pause, read_id
from atlas.errors import AtlasError
from atlas.waiting import wait_for

FIRST_POLL = 0.2
# How often something is fetched when no event about it arrives.
LAST_POLL = 2.0


class Ending(Protocol):
    """Something that ends."""

    @property
    def has_ended(self) -> bool: ...


E = TypeVar("E", bound=Ending)

_REMEDIES = {
    "job": "`atlas jobs explain {}` says what it waits for.",
    "run": "`atlas workflow show {}` says what it waits for.",
    "approval": "Another person than the one who asked decides it.",
    "verification": "Wait for it again: it continues in the background.",
}


class NotEnded(AtlasError, TimeoutError):
    """What was waited for has not ended in time."""

    def __init__(self, kind: str, id: UUID, timeout: float) -> None:
        remedy = _REMEDIES.get(kind, "Wait for it again.").format(id)
        super().__init__(f"{kind.capitalize()} {id} has not ended within {timeout:g} s.", remedy=remedy)
        self.id = id


class RunNotStarted(AtlasError):
    """A run that was waited for was not started: policy or a person decided so, or its workflow cannot run."""

    def __init__(self, workflow: str, id: UUID, status: str, reason: str | None) -> None:
        why = f": {reason}" if reason else ""
        super().__init__(
            f"Run {id} of {workflow} was not started, its request is {status}{why}",
            remedy="Correct what it names and ask for the run again.",
        )
        self.id = id


async def until_ended(
    client: ApiCaller,
    kind: str,
    subject: Id,
    fetch: Callable[[ApiCaller, UUID], Awaitable[E | None]],
    timeout: float | None,
) -> E:
    """Fetch something after every signal, and now and then, until it has ended. Waits while the API is away."""
    id = read_id(kind, subject)
    # A fetch that fails is repeated below.
    once = copy(client)
    once._transport = copy(client._transport)
    once._transport.retry = RetryBudget(tries=1)
    seconds = FIRST_POLL
    try:
        async with client._watch(id, timeout) as pause:
            while True:
                with contextlib.suppress(Unreachable, Unavailable, ApiTooManyRequests):
                    entity = await fetch(once, id)
                    if entity is not None and entity.has_ended:
                        return entity
                await pause(seconds * random.uniform(0.75, 1.0))
                seconds = min(LAST_POLL, seconds * 1.5)
    except TimeoutError as error:
        if timeout is None:
            raise
        raise NotEnded(kind, id, timeout) from error


@contextlib.asynccontextmanager
async def clock(sleep: Pause, timeout: float | None) -> AsyncIterator[Pause]:
    """Pauses that are slept through, until the timeout."""
    end = None if timeout is None else time.monotonic() + timeout

    async def pause(seconds: float) -> None:
        left = seconds if end is None else end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        await sleep(min(seconds, left))

    yield pause


class Signals:
    """One live connection for all waiting callers, opened with the first and closed with the last."""

    def __init__(self, live: Callable[[], AsyncIterator[Frame]]) -> None:
        self._live = live
        self._waiting: dict[asyncio.Event, UUID] = {}
        self._task: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def about(self, id: UUID, timeout: float | None) -> AsyncIterator[Pause]:
        """Pauses that end when something may have happened to the job or the run, until the timeout."""
        changed = asyncio.Event()
        self._waiting[changed] = id
        if self._task is None:
            self._task = asyncio.create_task(self._listen(), name="atlas live")

        async def pause(seconds: float) -> None:
            await wait_for(changed, within=seconds)
            changed.clear()

        try:
            async with asyncio.timeout(timeout):
                yield pause
        finally:
            del self._waiting[changed]
            task = self._task
            if not self._waiting and task is not None:
                self._task = None
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _listen(self) -> None:
        # A caller whose token may not watch polls instead.
        with contextlib.suppress(AtlasError):
            async for frame in self._live():
                named = _named(frame) if _is_whole(frame) else None
                for changed, id in self._waiting.items():
                    if named is None or id in named:
                        changed.set()


def _named(frame: Events) -> set[UUID]:
    """The jobs and runs that something happened to."""
    jobs = {event.job_id for event in frame.events if isinstance(event, JobEvent)}
    return jobs | {event.run_id for event in frame.events if isinstance(event, RunEvent)}


def _is_whole(frame: Frame) -> TypeGuard[Events]:
    """True for a frame that lists every event."""
    return isinstance(frame, Events) and not frame.more
