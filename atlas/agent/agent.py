"""The agent: fetch a job, run its command, report, again, until told to stop.

Nothing it does depends on a connection that stays. A fetch that breaks is made again; a heartbeat that fails is
repeated while the lease lasts; a result is kept and sent again until Atlas accepts it, or says that the job is in other
hands.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from atlas.agent.calls import AssignedJob, HostCalls, Result, is_final
from atlas.agent.commands import AllowedCommands
from atlas.agent.lease import Lease, Why
from atlas.agent.work import carry_out
from atlas.client.errors import ApiError, ApiInvalidInput, ApiLeaseLost, Unreachable
from atlas.client.transport import RetryBudget, Transport
from atlas.errors import SettingsError
from atlas.waiting import wait_for

T = TypeVar("T")

log = logging.getLogger("atlas.agent")

PAUSES = RetryBudget(first_pause=0.5, longest_pause=15.0)
# However long Retry-After says: what answers is not always Atlas, and a host that waits does nothing at all.
LONGEST_AFTER = 60.0
# What a result may take that is still to be delivered when the agent stops.
FAREWELL_SECONDS = 10.0
UNFIT = "The command ended, but its result was refused:"


class Agent:
    """A host's agent. `host` is its name or id, where the token speaks for several; `grace` is for running commands."""

    def __init__(
        self, url: str, token: str, commands: AllowedCommands, *, host: str | None = None, grace: float = 25.0
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._transport = Transport(url, token)
        self._calls = HostCalls(self._transport)
        self._commands = commands
        self._host = host
        self._grace = grace
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()

    def stop(self) -> None:
        """Fetch no more; a running command may end within the grace time, or not, if this is said twice."""
        (self._hurry if self._stopping.is_set() else self._stopping).set()

    async def run(self) -> None:
        """Serve the host until stopped. A token or a host that Atlas does not know is an error."""
        try:
            host_id = await self._persistently(self._find_host)
            if host_id is not None:
                log.info("serving host %s with commands for %s", host_id, ", ".join(sorted(self._commands.templates)))
            while host_id is not None and not self._stopping.is_set():
                job = await self._persistently(partial(self._calls.next, host_id))
                if job is not None:
                    await self._serve(job)
        finally:
            await self._transport.close()

    async def _find_host(self) -> str:
        found = await self._calls.hosts()
        fitting = [id for id, name in found.items() if self._host in (None, id, name)]
        if len(fitting) != 1:
            raise SettingsError(
                f"The token speaks for {len(fitting)} hosts{f' called {self._host}' if self._host else ''}.",
                remedy="Name one with --host; `atlas token add --role host --host NAME` makes a token for one.",
            )
        return fitting[0]

    async def _persistently(self, ask: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        """Ask until there is an answer; None if the agent was told to stop before."""
        tried = 0
        while not self._stopping.is_set():
            tried += 1
            try:
                return await self._unless_stopping(ask())
            except (ApiError, Unreachable) as error:
                if is_final(error):
                    raise
                log.warning("Atlas could not be asked: %s", error)
                await self._unless_stopping(asyncio.sleep(_pause(tried, error)))
        return None

    async def _unless_stopping(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Wait for something, but not when the agent stops."""
        return await _unless(self._stopping.wait(), work)

    async def _serve(self, job: AssignedJob) -> None:
        lease = Lease(self._calls, job)
        watching = asyncio.create_task(self._end_when_stopping(lease))
        try:
            result = await carry_out(job, self._commands, lease)
            status = None if result is None else await _unless(self._farewell(), self._deliver(job, result))
        finally:
            watching.cancel()
            await lease.let_go()
        told = "dropped" if result is None else result.status if status is not None else "undelivered"
        self.counts[told] += 1
        log.info("job %s (%s), lease %s: %s; it is now %s", job.id, job.type, job.lease, told, status or "not ours")

    async def _end_when_stopping(self, lease: Lease) -> None:
        await self._stopping.wait()
        await wait_for(self._hurry, within=self._grace)
        lease.end(Why.STOPPED)

    async def _farewell(self) -> None:
        """As long as a result may take; an agent that is not told to stop has all the time there is."""
        await self._stopping.wait()
        await asyncio.sleep(FAREWELL_SECONDS)

    async def _deliver(self, job: AssignedJob, result: Result) -> str | None:
        """Report until Atlas accepts or refuses; answers what the job is now, None if this is no longer its concern."""
        tried = 0
        while True:
            tried += 1
            try:
                return await self._calls.result(job, result)
            except ApiLeaseLost:
                # Or an earlier report was accepted, and its answer lost.
                return None
            except (ApiInvalidInput, RecursionError) as error:
                fit = _without_what_was_refused(result, f"{UNFIT} {str(error)[:1000]}")
                if fit is None:
                    return None
                result = fit
                continue
            except (ApiError, Unreachable) as error:
                if is_final(error):
                    return None
                log.warning("the result of job %s is kept: %s", job.id, error)
                pause = _pause(tried, error)
            if self._hurry.is_set():
                return None
            sleep = asyncio.sleep(pause)
            await (sleep if self._stopping.is_set() else self._unless_stopping(sleep))


async def _unless(end: Coroutine[Any, Any, object], work: Coroutine[Any, Any, T]) -> T | None:
    """What the work gives; None if the end comes first."""
    task, ending = asyncio.ensure_future(work), asyncio.ensure_future(end)
    try:
        await asyncio.wait([task, ending], return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        for one in (task, ending):
            one.cancel()
        await asyncio.gather(task, ending, return_exceptions=True)


def _pause(tried: int, error: ApiError | Unreachable) -> float:
    return PAUSES.pause(tried, None if error.after is None else min(error.after, LONGEST_AFTER))


def _without_what_was_refused(result: Result, reason: str) -> Result | None:
    """The result that says the reason instead; None if there is nothing left to leave out.

    A command that ended well has done its work: what it says too much is no reason to run it again.
    """
    if result.status == "succeeded" and not str(result.output.get("warning")).startswith(UNFIT):
        return Result("succeeded", result.duration_ms, {"exit_code": 0, "warning": reason})
    if not str(result.error).startswith(UNFIT):
        return Result("failed", result.duration_ms, error=reason)
    return None
