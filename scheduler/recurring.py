"""Recurring functions: plain functions that a process runs at intervals, on a schedule that all processes share.

The schedule is in the database, the function only in the memory of the processes that registered it. A process without
the function leaves the schedule alone. One process claims a run under a lease. The next run is set whatever the
outcome, and missed intervals are skipped. Every run leaves a row in the history.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from atlas.db.pool import TRANSACTION_SECONDS, Pool, borrow
from atlas.engine.jobs.lease import new_worker_id
from atlas.engine.jobs.start_right import StartRight, boot_seconds
from atlas.engine.schedules.recurring import Key, ScheduledFunction, list_recurring, remove_recurring, save_recurring
from atlas.engine.schedules.recurring_runs import ClaimedRecurringRun, Outcome, claim_runs, finish_run, renew_run
from atlas.engine.tenants.tenants import find_tenant
from atlas.engine.validation import check_name
from atlas.errors import Conflict, FieldError, InvalidInput, NotFound
from atlas.logs import get_logger
from atlas.scheduler.failures import log_failure
from atlas.scheduler.recurring_run import Function, RecurringContext, check_function, run_function
from atlas.scheduler.tasks import Task, TaskScheduler

Starter = Callable[["Recurring"], Awaitable[None]]

LEASE_SECONDS = 30.0
MIN_WAIT = 1.0
RELOAD_SECONDS = 60.0
# A next run beyond the calendar could not be set, and the run that ended would start again and again.
MAX_REPEAT = timedelta(days=36_525)

log = get_logger("scheduler.recurring")

# From the modules that --app names. They are imported before the scheduler starts.
_starters: list[Starter] = []


def at_start(function: Starter) -> Starter:
    """Call the decorated async function when the scheduler starts, to register recurring functions."""
    _starters.append(function)
    return function


def starters() -> list[Starter]:
    """The functions that were decorated with `at_start` in this process."""
    return list(_starters)


class Recurring:
    """The recurring functions of this process."""

    def __init__(self, pool: Pool, *, lease: float = LEASE_SECONDS) -> None:
        self._pool = pool
        self._lease = lease
        self._name = new_worker_id()
        self._functions: dict[Key, Function] = {}
        self._runs: dict[Key, asyncio.Task[None]] = {}
        self._polled_at = 0.0
        self._poll_task: Task | None = None
        self._polling: asyncio.Task[None] | None = None
        # All schedules, those of other processes too; read again every minute.
        self.tracked: list[ScheduledFunction] = []

    @property
    def is_running(self) -> bool:
        return self._polling is not None and not self._polling.done()

    async def start(self) -> None:
        """Start to run what is due. Raises Conflict if it is running already."""
        if self.is_running:
            raise Conflict("The recurring functions are running already.", remedy="Start them once in a process.")
        tasks = TaskScheduler()
        self._poll_task = tasks.add(RELOAD_SECONDS, self._poll_due)
        self._polling = asyncio.create_task(tasks.run(asyncio.Event()), name="recurring functions")

    async def register(
        self,
        tenant: str | UUID,
        id: str,
        start_at: datetime,
        repeat_every: timedelta,
        fn: Function,
        *,
        timeout: timedelta | None = None,
    ) -> None:
        """Run `fn` at `start_at` and every so often after it; with a repeat of zero, once.

        A schedule that is stored under this tenant and id is replaced. What ran once for this start does not run again
        while its history is kept.
        """
        if not self.is_running:
            raise Conflict("The recurring functions are not running.", remedy="Call start() before register().")
        _check(id, start_at, repeat_every, timeout, fn)
        async with borrow(self._pool, within=TRANSACTION_SECONDS) as conn:
            key = ((await find_tenant(conn, tenant)).id, id)
            if key in self._functions:
                raise Conflict(f"{id!r} is registered in this process already.", remedy="Unregister it first.")
            # Before it is stored: it may be due immediately.
            self._functions[key] = fn
            is_stored = False
            try:
                is_stored = await save_recurring(
                    conn, key, start_at=start_at, repeat_every=repeat_every, timeout=timeout
                )
            finally:
                if not is_stored:
                    del self._functions[key]
        if not is_stored:
            log.info(
                "a recurring function ran once for this start and does not run again", tenant_id=str(key[0]), id=id
            )
        self._poll_in(0.0)

    async def unregister(self, tenant: str | UUID, id: str) -> None:
        """Remove a function and its schedule, here and in the database. A run in progress goes on to its end."""
        async with borrow(self._pool, within=TRANSACTION_SECONDS) as conn:
            key = ((await find_tenant(conn, tenant)).id, id)
            if key not in self._functions:
                raise NotFound("recurring function", id, remedy="It is not registered in this process, or ran once.")
            await remove_recurring(conn, key)
            del self._functions[key]

    async def cancel(self) -> None:
        """Stop the loop. Runs in progress are cancelled and released; schedules and functions stay."""
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)
            self._polling = None
        runs = list(self._runs.values())
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)

    async def _poll_due(self) -> float:
        """Start what is due. Returns when the next run is due, at least a second later."""
        self._polled_at = asyncio.get_running_loop().time()
        try:
            await self._poll()
        except Exception as error:
            log_failure(log, "a poll failed and is repeated", error)
            # What is due is not known.
            return MIN_WAIT
        return max(MIN_WAIT, min([RELOAD_SECONDS, *(row.due_in for row in self.tracked if self._may_run(row))]))

    def _poll_in(self, seconds: float) -> None:
        if self._poll_task is not None and self.is_running:
            self._poll_task.run_in(seconds)

    async def _poll(self) -> None:
        """Claim the due runs of our functions, and read all schedules."""
        idle = [key for key in self._functions if key not in self._runs]
        asked = asyncio.get_running_loop().time()
        right = StartRight()
        asked_at = boot_seconds()
        async with borrow(self._pool, within=TRANSACTION_SECONDS) as conn:
            runs = await claim_runs(conn, self._name, idle, lease=self._lease) if idle else []
            self.tracked = await list_recurring(conn)
        right.grant(asked_at)
        for run in runs:
            task = self._run(run, self._functions.get(run.key), asked, right)
            self._runs[run.key] = asyncio.create_task(task, name=f"recurring {run.key[1]}")

    def _may_run(self, row: ScheduledFunction) -> bool:
        return row.key in self._functions and row.key not in self._runs

    async def _run(self, run: ClaimedRecurringRun, function: Function | None, held: float, right: StartRight) -> None:
        keeping = asyncio.create_task(self._keep(run, held, asyncio.current_task()))
        outcome: Outcome = "stopped"
        error: str | None = "It was unregistered before it started."
        try:
            if function is not None:
                error = "Its process stopped, or could not renew its lease."
                outcome, error = await run_function(function, RecurringContext(run), run.timeout_seconds, right)
            if outcome in ("failed", "timeout"):
                log.warning("a recurring function failed", **run.log_facts(), reason=error)
        finally:
            keeping.cancel()
            finishing = asyncio.create_task(self._finish(run, outcome, error))
            try:
                # Shielded: a process that stops still releases the run.
                await asyncio.shield(finishing)
            except asyncio.CancelledError:
                await asyncio.wait([finishing])
                raise
            finally:
                self._runs.pop(run.key, None)
                self._poll_in(max(0.0, self._polled_at + MIN_WAIT - asyncio.get_running_loop().time()))

    async def _keep(self, run: ClaimedRecurringRun, held: float, task: "asyncio.Task[Any] | None") -> None:
        """Renew the lease. When another process has claimed the run, or may have by now, cancel it here.

        `held` is when the lease was last asked for. The database's lease begins later, so ours ends first.
        """
        time = asyncio.get_running_loop().time
        ours = True
        while ours:
            await asyncio.sleep(min(self._lease / 3, held + self._lease - time()))
            asked = time()
            try:
                async with borrow(self._pool, within=held + self._lease - asked) as conn:
                    ours = await renew_run(conn, run, lease=self._lease)
                held = asked
            except Exception as error:
                log_failure(log, "a lease could not be renewed", error, **run.log_facts())
                ours = time() < held + self._lease
        if task is not None:
            log.warning("a recurring function lost its lease and is stopped", **run.log_facts())
            task.cancel()

    async def _finish(self, run: ClaimedRecurringRun, outcome: Outcome, error: str | None) -> None:
        try:
            async with borrow(self._pool, within=TRANSACTION_SECONDS) as conn:
                became = await finish_run(conn, run, outcome=outcome, error=error)
        except Exception as raised:
            # Its lease will expire, and the run is claimed again.
            log_failure(log, "a run's outcome was not recorded", raised, **run.log_facts())
            return
        if became is None:
            log.warning("a run ended after it was taken for lost", **run.log_facts(), outcome=outcome)
        if became == "removed":
            self._functions.pop(run.key, None)


def _check(id: str, start_at: datetime, repeat_every: timedelta, timeout: timedelta | None, fn: Function) -> None:
    wrong = [*check_name("id", id), *check_function(fn)]
    if repeat_every < timedelta():
        wrong.append(FieldError("repeat_every", "is negative"))
    if repeat_every > MAX_REPEAT:
        wrong.append(FieldError("repeat_every", f"is longer than {MAX_REPEAT.days} days; a repeat of zero runs once"))
    if start_at.tzinfo is None:
        wrong.append(FieldError("start_at", "has no time zone"))
    if timeout is not None and timeout <= timedelta():
        wrong.append(FieldError("timeout", "must be longer than zero"))
    if wrong:
        raise InvalidInput("The recurring function", wrong)
