"""Maintenance that every scheduler runs: sweeps, alerts, metering, webhooks, bulk actions, retention, removals.

Any number may run it at once.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import TypeVar
from uuid import UUID

from atlas.db.pool import BATCH_SECONDS, TRANSACTION_SECONDS, Connection, Pool, borrow
from atlas.engine.alerts import find_alerts, save_findings
from atlas.engine.jobs.actions.bulk_actions import due_bulk_actions, forget_bulk_actions, take_step
from atlas.engine.jobs.actions.bulk_previews import forget_bulk_previews
from atlas.engine.jobs.groups import forget_groups, settle_groups
from atlas.engine.jobs.lease import expire_queued, new_worker_id
from atlas.engine.jobs.lists.counts import count_jobs, counts_are_due
from atlas.engine.jobs.sweep import sweep
from atlas.engine.metering.series import prune_series
from atlas.engine.metering.usage import meter_usage
from atlas.engine.retention.history import drop_expired, file_jobs, return_jobs
from atlas.engine.retention.retention import forget_limits, forget_workers, prune, read_ages
from atlas.engine.schedules.recurring_runs import sweep_runs
from atlas.engine.tenants.removal import continue_removal, list_removals
from atlas.engine.triggers.fire import SCHEDULER
from atlas.engine.triggers.store import forget_outages
from atlas.engine.webhooks.deliver import deliver_events, disable_overfull
from atlas.logs import get_logger
from atlas.models.system import Alert
from atlas.scheduler.failures import PASSING, log_failure
from atlas.scheduler.tasks import TaskScheduler
from atlas.waiting import wait_for

SWEEP_SECONDS = 5.0
WATCH_SECONDS = 15.0
METER_SECONDS = 5.0
DELIVER_SECONDS = 1.0
BULK_SECONDS = 1.0
SETTLE_SECONDS = 1.0
OVERFULL_SECONDS = 60.0
PRUNE_SECONDS = 600.0
REMOVE_SECONDS = 15.0
# How often in succession a removal may wait, some seconds in all, before others have their turn.
MAX_WAITS = 40
# At most between two batches, so that a sweep of millions leaves the disk to the claims.
BATCH_REST_SECONDS = 0.05

# How often a sweep says how far it is: the first of an installation with many finished jobs takes an hour.
PROGRESS_SECONDS = 60.0

T = TypeVar("T")

log = get_logger("scheduler")


class MoveProgress:
    """Logs how many jobs a sweep moves into history."""

    def __init__(self) -> None:
        self._jobs = 0
        self._logged_at = time.monotonic()

    def add(self, jobs: int) -> None:
        """Count a batch."""
        self._jobs += jobs
        if time.monotonic() - self._logged_at >= PROGRESS_SECONDS:
            log.info("finished jobs are being moved into history", jobs=self._jobs)
            self._logged_at = time.monotonic()

    def log_end(self) -> None:
        """The sweep has moved all."""
        if self._jobs:
            log.info("finished jobs were moved into history", jobs=self._jobs)


class Maintenance:
    """The maintenance tasks of one scheduler process."""

    def __init__(self, pool: Pool, stop: asyncio.Event) -> None:
        self._pool = pool
        self._stop = stop
        self._name = new_worker_id()
        self._alerts: set[Alert] = set()

    def add_to(self, tasks: TaskScheduler) -> None:
        """Have all of it run. What goes on in batches ends after the batch during which the stop event is set."""
        tasks.add(SWEEP_SECONDS, self.sweep)
        tasks.add(WATCH_SECONDS, self.watch)
        tasks.add(METER_SECONDS, self.meter)
        tasks.add(DELIVER_SECONDS, self.deliver)
        tasks.add(BULK_SECONDS, self.go_on_with_bulk_actions)
        tasks.add(SETTLE_SECONDS, self.settle)
        tasks.add(OVERFULL_SECONDS, self.disable_overfull)
        tasks.add(PRUNE_SECONDS, self.prune)
        tasks.add(REMOVE_SECONDS, self.remove)

    async def sweep(self) -> None:
        """Requeue the jobs of lost workers, end an `offline --for` that is over, make due jobs ready, end lost runs."""
        async with borrow(self._pool, within=TRANSACTION_SECONDS) as conn:
            await sweep(conn)
            for run in await sweep_runs(conn):
                log.warning("the process of a recurring function was lost", **run.log_facts())

    async def settle(self) -> None:
        """Cancel jobs that were not started in time, and end groups of which all jobs have ended."""
        async with borrow(self._pool, within=BATCH_SECONDS) as conn:
            await expire_queued(conn)
            await settle_groups(conn)

    async def watch(self) -> None:
        """Store the current alerts, and log each when it begins and when it is over."""
        async with borrow(self._pool, within=BATCH_SECONDS) as conn:
            findings = await find_alerts(conn)
            await save_findings(conn, findings, by=self._name)
        for new in set(findings) - self._alerts:
            log.warning(new.message, kind=new.kind, subject=new.subject)
        kinds = {(finding.kind, finding.subject) for finding in findings}
        for over in self._alerts:
            if (over.kind, over.subject) not in kinds:
                log.info("an alert is over", kind=over.kind, subject=over.subject)
        self._alerts = set(findings)

    async def meter(self) -> None:
        """Add what happened to usage, counts, totals and series, and count the jobs anew where that is due."""
        more: bool | None = True
        while more:
            async with borrow(self._pool, within=BATCH_SECONDS) as conn:
                more = await meter_usage(conn)
        async with borrow(self._pool, within=BATCH_SECONDS) as conn:
            if await counts_are_due(conn):
                await count_jobs(conn)

    async def deliver(self) -> None:
        """Make deliveries to webhooks of what happened."""
        more = True
        while more:
            async with borrow(self._pool, within=BATCH_SECONDS) as conn:
                more = await deliver_events(conn)

    async def go_on_with_bulk_actions(self) -> None:
        """Take the steps of bulk actions that are due, of each in turn."""
        failed: set[UUID] = set()
        while due := [id for id in await due_bulk_actions(self._pool) if id not in failed]:
            for id in due:
                try:
                    async with borrow(self._pool, within=BATCH_SECONDS) as conn:
                        await take_step(conn, id)
                except PASSING as error:
                    # Others are not held up by it; it is tried again a second later.
                    failed.add(id)
                    log_failure(log, "a step of a bulk action failed and is repeated", error, bulk_action=str(id))
                await wait_for(self._stop, within=BATCH_REST_SECONDS)
                if self._stop.is_set():
                    return

    async def disable_overfull(self) -> None:
        """Disable webhooks that fail while too many deliveries wait."""
        async with borrow(self._pool, within=BATCH_SECONDS) as conn:
            await disable_overfull(conn)

    async def prune(self) -> None:
        """Remove what is past its age and file what is finished, with a rest after each batch."""
        await self.meter()
        removed, moved = 0, MoveProgress()
        tenants = await read_ages(self._pool)
        for ages in tenants:
            removed += sum([batch.total async for batch in self._paced(prune(self._pool, ages))])
            async for jobs in self._paced(return_jobs(self._pool, ages)):
                moved.add(jobs)
        async for jobs in self._paced(file_jobs(self._pool, tenants)):
            moved.add(jobs)
        if self._stop.is_set():
            return
        moved.log_end()
        removed += sum([jobs async for jobs in drop_expired(self._pool, tenants)])
        removed += sum([rows async for rows in self._paced(prune_series(self._pool))])
        if self._stop.is_set():
            return
        async with borrow(self._pool, within=BATCH_SECONDS) as conn:
            forgotten = await forget_workers(conn)
            await forget_bulk_actions(conn)
            await forget_bulk_previews(conn)
            await forget_groups(conn)
            await forget_limits(conn)
            await forget_outages(conn)
        if removed or forgotten:
            log.info("old rows were removed", rows=removed, workers=forgotten)

    async def _paced(self, batches: AsyncIterator[T]) -> AsyncIterator[T]:
        """Rest after each batch for as long as it took, within a bound, and end when the scheduler stops."""
        began = time.monotonic()
        while not self._stop.is_set() and (batch := await anext(batches, None)) is not None:
            yield batch
            await wait_for(self._stop, within=min(BATCH_REST_SECONDS, time.monotonic() - began))
            began = time.monotonic()

    async def remove(self) -> None:
        """Go on with the removals of tenants, each until it has to wait for long."""
        for tenant_id in await list_removals(self._pool):
            if not await self._remove(tenant_id):
                log.info("a tenant was removed", tenant_id=str(tenant_id))

    async def _remove(self, tenant_id: UUID) -> bool:
        """Returns True if something is left."""
        waits = 0
        async with aclosing(continue_removal(self._transaction, tenant_id, actor=SCHEDULER)) as steps:
            async for step in steps:
                await wait_for(self._stop, within=BATCH_REST_SECONDS)
                waits = waits + 1 if step.did == "waited" else 0
                if self._stop.is_set() or waits > MAX_WAITS:
                    return True
        return False

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Connection]:
        async with borrow(self._pool, within=BATCH_SECONDS) as conn, conn.transaction():
            yield conn
