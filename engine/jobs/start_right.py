"""The right of a process to start what it has claimed.

A claim shows that the gate was open when it was made. It gives the right to start handlers until START_SECONDS after
it was sent, by a clock that goes on while the process, or its machine, sleeps. A later claim, or reading the open gate,
prolongs the right. So a process that is frozen, cut off or busy starts nothing once the right has lapsed: the clock is
read right before each start. The switch that closes the gate waits until every worker has confirmed
that it starts nothing more (then its right is revoked), and no longer than LAPSE_SECONDS: then every right has lapsed.

A pause ends the right to start what was claimed before it, and only that: attempts that have begun keep the right that
they began with, and a new one holds for what is claimed from then on. `StartRights` has the present one.
"""

import asyncio
import time
from functools import partial

from atlas.errors import AtlasError
from atlas.waiting import wait_for

START_SECONDS = 1.5
# With a margin for what lies between reading the clock and the first instruction of what is started.
LAPSE_SECONDS = START_SECONDS + 0.5
# While a start waits for the right, how often it is asked for.
ASK_SECONDS = 0.5
# How long a worker that confirms waits for what it was starting.
SETTLE_SECONDS = 1.0
THREAD_ROUNDS, THREAD_PAUSE = 3, 0.01

# Seconds on a clock that no one sets and that counts the time a machine was suspended, where there is one.
boot_seconds = partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic


class NotStarted(AtlasError):
    """Atlas is offline, or something was paused: what was about to start goes back unstarted."""

    def __init__(self) -> None:
        super().__init__("Atlas is offline or paused: no job starts.", remedy="Jobs start again after `atlas online`.")


class StartRight:
    """The right of one worker process. A start is allowed while `boot_seconds() < until`."""

    def __init__(self, requested: asyncio.Event | None = None) -> None:
        self.until = 0.0
        # Set while a start waits for the right: the worker then reads the gate.
        self.requested = requested or asyncio.Event()
        self._has_ended = False
        self._revoked_at = 0.0
        self._answer: asyncio.Future[bool] | None = None
        self._starting = 0
        self._all_begun = asyncio.Event()
        self._all_begun.set()
        self._thread_began_at = 0.0

    def grant(self, asked_at: float) -> None:
        """The gate was open at some time after `asked_at`. What was asked before the right was revoked says nothing."""
        if asked_at > self._revoked_at and not self._has_ended:
            self.until = max(self.until, asked_at + START_SECONDS)
            self._resolve(is_open=True)

    def revoke(self) -> None:
        """The gate is closed: start nothing until it was found open again."""
        self._revoked_at = boot_seconds()
        self.until = 0.0
        self._resolve(is_open=False)

    def end(self) -> None:
        """Nothing starts under it any more, whatever the gate does."""
        self._has_ended = True
        self.revoke()

    async def wait(self) -> None:
        """Return when a start is allowed. Raises NotStarted when the gate is closed."""
        while boot_seconds() >= self.until:
            if self._has_ended:
                raise NotStarted
            if self._answer is None:
                self._answer = asyncio.get_running_loop().create_future()
            answer = self._answer
            self.requested.set()
            await asyncio.wait([answer], timeout=ASK_SECONDS)
            if answer.done() and not answer.result():
                raise NotStarted

    def check(self) -> None:
        """Raise NotStarted unless a start is allowed now."""
        if boot_seconds() >= self.until:
            raise NotStarted

    def check_in_thread(self) -> None:
        """The same, for a thread right before it starts something."""
        self._thread_began_at = boot_seconds()
        self.check()

    def begin(self) -> None:
        """Something starts that takes a while to begin, such as a program: `begun` is called when it has."""
        self._starting += 1
        self._all_begun.clear()

    def begun(self) -> None:
        self._starting -= 1
        if self._starting == 0:
            self._all_begun.set()

    async def settle(self) -> None:
        """After `revoke`, wait until all that was allowed to start has begun, a second at most."""
        await wait_for(self._all_begun, within=SETTLE_SECONDS)
        if boot_seconds() - self._thread_began_at < SETTLE_SECONDS:
            # A thread that has read the clock may still wait for the interpreter's lock: let it go first, a few times.
            for _ in range(THREAD_ROUNDS):
                await asyncio.sleep(THREAD_PAUSE)

    def _resolve(self, *, is_open: bool) -> None:
        if self._answer is not None:
            if not self._answer.done():
                self._answer.set_result(is_open)
            self._answer = None


class StartRights:
    """The rights of one worker process, one after the other: `present` holds for what is claimed under these pauses."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self.present = StartRight(self.requested)
        # The version of the newest pauses that the worker knows, and when it heard of them.
        self.version = 0
        self.renewed_at = 0.0
        self._ended: list[StartRight] = []

    def renew(self, version: int) -> None:
        """Something was paused: what was claimed before may not start any more."""
        self.present.end()
        self._ended.append(self.present)
        self.present = StartRight(self.requested)
        self.version, self.renewed_at = version, boot_seconds()

    def covers(self, version: int, asked_at: float) -> bool:
        """Whether what a claim brought may start: it was made under the newest pauses, or sent when they were known."""
        return version == self.version or asked_at > self.renewed_at

    async def settle(self) -> None:
        """After `renew`, wait until all that was allowed to start before has begun."""
        ended, self._ended = self._ended, []
        for right in ended:
            await right.settle()
