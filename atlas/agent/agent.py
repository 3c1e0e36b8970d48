"""The agent's loop: fetch a job, run its command, report the result, until it is stopped.

Every step survives a lost connection. A fetch that fails is repeated; a heartbeat that fails is repeated while the
lease lasts; a result is sent again until Atlas accepts it, or says that the lease was lost.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from atlas.agent.calls import AssignedJob, HostCalls, Result, is_final
from atlas.agent.commands import AllowedCommands
from atlas.agent.lease import Lease, StopReason
from atlas.agent.work import run_job
from atlas.client.errors import ApiError, ApiInvalidInput, ApiLeaseLost, Unreachable
from atlas.client.request import RetryBudget
from atlas.client.transport import Transport
from atlas.errors import SettingsError
from atlas.waiting import wait_for

T = TypeVar("T")

log = logging.getLogger("atlas.agent")

PAUSES = RetryBudget(first_pause=0.5, max_pause=15.0)
# Whatever Retry-After says: it may come from a proxy, and a host that waits runs nothing.
MAX_AFTER = 60.0
# How long a result may take to be delivered when the agent stops.
SHUTDOWN_SECONDS = 10.0
REFUSED = "The command ended, but its result was refused:"


class Agent:
    """A host's agent. `host` is its name or id, for a token of several hosts; `grace` is for running commands."""

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
        self._stop_now = asyncio.Event()

    def stop(self) -> None:
        """Fetch no more. A running command may end within the grace time; a second call stops it immediately."""
        (self._stop_now if self._stopping.is_set() else self._stopping).set()

    async def run(self) -> None:
        """Run the host's jobs until stopped. A token or a host that Atlas does not know is an error."""
        try:
            host_id = await self._retried(self._find_host)
            if host_id is not None:
                log.info("serving host %s with commands for %s", host_id, ", ".join(sorted(self._commands.templates)))
            while host_id is not None and not self._stopping.is_set():
                job = await self._retried(partial(self._calls.next, host_id))
                if job is not None:
                    await self._serve(job)
        finally:
            await self._transport.close()

    async def _find_host(self) -> str:
        hosts = await self._calls.hosts()
        fitting = [id for id, name in hosts.items() if self._host in (None, id, name)]
        if len(fitting) != 1:
            raise SettingsError(
                f"The token is valid for {len(fitting)} hosts{f' called {self._host}' if self._host else ''}.",
                remedy="Name one with --host; `atlas token add --role host --host NAME` makes a token for one.",
            )
        return fitting[0]

    async def _retried(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        """Repeat a call until there is a response; None if the agent was stopped before."""
        tried = 0
        while not self._stopping.is_set():
            tried += 1
            try:
                return await self._unless_stopping(call())
            except (ApiError, Unreachable) as error:
                if is_final(error):
                    raise
                log.warning("a call to Atlas failed: %s", error)
                await self._unless_stopping(asyncio.sleep(_pause(tried, error)))
        return None

    async def _unless_stopping(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Wait for something, but no longer than until the agent stops."""
        return await _unless(self._stopping.wait(), work)

    async def _serve(self, job: AssignedJob) -> None:
        lease = Lease(self._calls, job)
        watching = asyncio.create_task(self._stop_after_grace(lease))
        try:
            result = await run_job(job, self._commands, lease)
            status = None if result is None else await _unless(self._shutdown(), self._deliver(job, result))
        finally:
            watching.cancel()
            await lease.release()
        outcome = "dropped" if result is None else result.status if status is not None else "undelivered"
        self.counts[outcome] += 1
        log.info("job %s (%s), lease %s: %s; it is now %s", job.id, job.type, job.lease, outcome, status or "not ours")

    async def _stop_after_grace(self, lease: Lease) -> None:
        await self._stopping.wait()
        await wait_for(self._stop_now, within=self._grace)
        lease.stop(StopReason.STOPPED)

    async def _shutdown(self) -> None:
        """Ends when a result may no longer be delivered; never while the agent runs."""
        await self._stopping.wait()
        await asyncio.sleep(SHUTDOWN_SECONDS)

    async def _deliver(self, job: AssignedJob, result: Result) -> str | None:
        """Report until Atlas accepts or refuses; returns the job's status now, None if the lease was lost."""
        tried = 0
        while True:
            tried += 1
            try:
                return await self._calls.result(job, result)
            except ApiLeaseLost:
                # Or an earlier report was accepted, and its response lost.
                return None
            except (ApiInvalidInput, RecursionError) as error:
                reduced = _reduced(result, f"{REFUSED} {str(error)[:1000]}")
                if reduced is None:
                    return None
                result = reduced
                continue
            except (ApiError, Unreachable) as error:
                if is_final(error):
                    return None
                log.warning("the result of job %s is sent again: %s", job.id, error)
                pause = _pause(tried, error)
            if self._stop_now.is_set():
                return None
            sleep = asyncio.sleep(pause)
            await (sleep if self._stopping.is_set() else self._unless_stopping(sleep))


async def _unless(end: Coroutine[Any, Any, object], work: Coroutine[Any, Any, T]) -> T | None:
    """The result of the work; None if the end comes first."""
    task, ending = asyncio.ensure_future(work), asyncio.ensure_future(end)
    try:
        await asyncio.wait([task, ending], return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        for future in (task, ending):
            future.cancel()
        await asyncio.gather(task, ending, return_exceptions=True)


def _pause(tried: int, error: ApiError | Unreachable) -> float:
    return PAUSES.pause(tried, None if error.after is None else min(error.after, MAX_AFTER))


def _reduced(result: Result, reason: str) -> Result | None:
    """The result with the reason in place of the refused output; None if there is nothing left to remove.

    A command that succeeded has done its work: output that cannot be stored is no reason to run it again.
    """
    warning = result.output.get("warning") if isinstance(result.output, dict) else None
    if result.status == "succeeded" and not str(warning).startswith(REFUSED):
        return Result("succeeded", result.duration_ms, {"exit_code": 0, "warning": reason})
    if not str(result.error).startswith(REFUSED):
        return Result("failed", result.duration_ms, error=reason)
    return None
