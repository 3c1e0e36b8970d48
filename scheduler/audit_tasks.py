"""The audit log by time: verified at intervals, and its checkpoints copied to places outside.

Any number of schedulers may run it. One at a time does the work, and the next interval counts from then.
"""

import asyncio
from datetime import timedelta

import asyncpg
import orjson

from atlas.audit.guards import check_guards
from atlas.audit.keys import checkpoint_folder, public_keys
from atlas.audit.outside.copy import copy_checkpoints
from atlas.audit.outside.places import copied_folders, places_of
from atlas.audit.sealing.checkpoint_copies import outside_notes
from atlas.audit.sealing.sealer import seal_first
from atlas.audit.verification.crosscheck import cross_check
from atlas.audit.verification.verdict import record_verdict
from atlas.audit.verification.verify import verify
from atlas.audit.verifier.format import Report, counted
from atlas.db.pool import BATCH_SECONDS, TRANSACTION_SECONDS, UNREACHABLE, Connection, Pool, borrow
from atlas.db.replica import read_first
from atlas.db.statements import fetch, fetch_value, statement
from atlas.engine.jobs.lease import new_worker_id
from atlas.engine.triggers.fire import SCHEDULER
from atlas.errors import AtlasError
from atlas.logs import get_logger
from atlas.scheduler.tasks import TaskScheduler
from atlas.settings import Settings

CLAIM = statement("scheduler/sql/claim_verification.sql")
KEEP = statement("scheduler/sql/keep_verification.sql")
FINISH = statement("scheduler/sql/finish_verification.sql")

# How often a scheduler looks whether something is due.
LOOK_SECONDS = 60.0
# A verification that could not be done is tried again after this time.
RETRY = timedelta(hours=1)
# How long after its process was lost a verification is made by another; renewed at every look.
LEASE = timedelta(minutes=10)

log = get_logger("scheduler")


class AuditTasks:
    """The tasks of one scheduler process."""

    def __init__(self, pool: Pool, settings: Settings) -> None:
        self._pool = pool
        self._settings = settings
        self._name = new_worker_id()
        self._places = places_of(settings)

    def add_to(self, tasks: TaskScheduler) -> None:
        """Have those run that the settings ask for."""
        if self._settings.atlas_audit_verify_hours:
            tasks.add(LOOK_SECONDS, self.verify)
        if self._places:
            tasks.add(LOOK_SECONDS, self.copy)

    async def copy(self) -> None:
        """Copy the newest checkpoint to the places where a copy is due."""
        every = timedelta(minutes=self._settings.atlas_checkpoint_copy_minutes)
        pause = timedelta(seconds=LOOK_SECONDS / 2)
        async with borrow(self._pool, within=BATCH_SECONDS) as conn:
            await copy_checkpoints(conn, self._places, every=every, pause=pause, by=self._name)

    async def verify(self) -> None:
        """Verify the audit log, if that is due, and store the verdict for alerts and metrics."""
        every = timedelta(hours=self._settings.atlas_audit_verify_hours)
        async with borrow(self._pool, within=TRANSACTION_SECONDS) as conn:
            if await fetch_value(conn, CLAIM, every=every, lease=LEASE, by=self._name) is None:
                return
        status, message, findings = "failed", "", 0
        keeping = asyncio.create_task(self._keep())
        try:
            report = await self._report()
            findings = len(report.findings)
            status = "whole" if report.ok else "damaged"
            if not report.ok:
                message = f"The audit log has {counted(findings, 'finding')}, the first: {report.findings[0].message}"
        except (AtlasError, *UNREACHABLE, asyncpg.PostgresError) as error:
            message = f"The audit log could not be verified: {str(error) or type(error).__name__}"
        finally:
            keeping.cancel()
            # A renewal that is being written must not come after the verdict.
            await asyncio.gather(keeping, return_exceptions=True)
        if message:
            log.error(message)
        await self._finish(status, message, findings, every)

    async def _keep(self) -> None:
        """Renew the lease for as long as the verification goes on."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                async with borrow(self._pool, within=TRANSACTION_SECONDS) as conn:
                    await fetch(conn, KEEP, lease=LEASE, by=self._name)
            except (*UNREACHABLE, asyncpg.PostgresError) as error:
                log.warning("the lease of a verification was not renewed", reason=str(error) or type(error).__name__)

    async def _report(self) -> Report:
        refused = await seal_first(self._pool, self._settings)
        keys = public_keys(self._settings)
        notes = await asyncio.to_thread(self._notes)

        async def walk(conn: Connection) -> Report:
            report = await verify(conn, keys, notes)
            report.findings.extend(await cross_check(conn))
            return report

        async with self._pool.acquire() as conn:
            report = await read_first(self._settings, conn, walk)
            report.findings.extend(await check_guards(conn))
            if refused is not None:
                report.find("signer", refused.message)
            await record_verdict(conn, report, actor=SCHEDULER, options={"scheduled": True})
        return report

    def _notes(self) -> list[str]:
        folders = [checkpoint_folder(self._settings), *copied_folders(self._settings)]
        return [note for folder in folders if folder.is_dir() for note in outside_notes(folder)]

    async def _finish(self, status: str, message: str, findings: int, every: timedelta) -> None:
        value = orjson.dumps({"status": status, "message": message, "findings": findings}).decode()
        async with borrow(self._pool, within=TRANSACTION_SECONDS) as conn:
            await fetch(conn, FINISH, value=value, by=self._name, sooner=max(every - RETRY, timedelta()))
