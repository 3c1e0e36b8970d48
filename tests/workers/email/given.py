"""What the mail tests share."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

from atlas.db.pool import Pool
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.lists.find import JobRow, get_job, list_attempts
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.settings import Settings
from atlas.workers.email import register_email
from atlas.workers.email.handler import Mailer
from atlas.workers.worker import Worker, WorkerOptions
from tests.support import DANA
from tests.workers.email.server import MailServer

MAIL: dict[str, Any] = {"to": "Ada <ada@example.com>", "subject": "Hello", "text": "How are you?"}
SECRET = "s3cret-of-the-app-registration"
KEY = "re_s3cret_of_resend"


def settings_for(server: MailServer, home: Path, **changes: Any) -> Settings:
    """Settings in which every provider is the one on loopback."""
    return Settings(
        atlas_home=home,
        outbound_email_provider=changes.pop("providers", ("microsoft",)),
        outbound_email_from="Atlas <mail@atlas.example>",
        resend_api_key=KEY,
        resend_api_url=server.url,
        ms_tenant_id="contoso",
        ms_client_id="11111111-2222-3333-4444-555555555555",
        ms_client_secret=SECRET,
        ms_sender_upn="agent@contoso.example",
        ms_authority_url=server.url,
        ms_graph_url=f"{server.url}/v1.0",
        **{"ms_messages_per_minute": 100_000, "resend_messages_per_minute": 100_000, **changes},
    )


class Post:
    """A worker that serves EMAIL_SEND, run only when a test says so."""

    def __init__(self, pool: Pool, url: str, settings: Settings) -> None:
        self.pool = pool
        self.url = url
        self.settings = settings
        self._mailers: list[Mailer] = []
        self.use()

    def use(self, *providers: str, **changes: Any) -> None:
        """Send by these providers, with these settings, from now on."""
        if providers:
            changes["outbound_email_provider"] = providers
        self.settings = replace(self.settings, **changes)
        self._mailers.append(register_email(self.settings))

    async def enqueue(self, input: dict[str, Any] | None = None, **options: Any) -> UUID:
        """Ask for a mail."""
        async with self.pool.acquire() as conn:
            job = NewJob(options.pop("job_type", "EMAIL_SEND"), MAIL if input is None else input, **options)
            return (await enqueue(conn, job, actor=DANA)).id

    async def drain(self) -> None:
        """Run what is due."""
        options = WorkerOptions(job_types=["EMAIL_SEND"], drain=True, poll=0.05, lease=5)
        # What a test enqueued is there, and the session that listens takes a quarter of the time of a worker.
        await Worker(self.pool, self.url, options, listen=False).run()

    async def run(self, job_id: UUID) -> JobRow:
        """Run what is due, once, and answer what became of the job."""
        await self.drain()
        return await self.job(job_id)

    async def finish(self, job_id: UUID, *, attempts: int = 12) -> JobRow:
        """Let time pass until the job has ended."""
        for _ in range(attempts):
            row = await self.run(job_id)
            if row.status not in ("queued", "running"):
                return row
            await self.make_due(job_id)
        raise AssertionError(f"job {job_id} does not end: {row}")

    async def make_due(self, job_id: UUID) -> None:
        """Time passes: the job is due."""
        await self.pool.execute(
            "update atlas.jobs set next_retry_at = clock_timestamp() where id = $1 and next_retry_at is not null",
            job_id,
        )

    async def job(self, job_id: UUID) -> JobRow:
        row = await get_job(self.pool, job_id)
        assert row is not None
        return row

    async def attempts(self, job_id: UUID) -> list[tuple[str, str | None]]:
        """Status and outcome of every attempt."""
        return [(str(attempt["status"]), attempt["outcome"]) for attempt in await list_attempts(self.pool, job_id)]

    async def events(self, job_id: UUID) -> list[str]:
        rows = await self.pool.fetch("select action from atlas.audit_log where entity_id = $1 order by id", str(job_id))
        return [row["action"] for row in rows]

    async def close(self) -> None:
        for mailer in self._mailers:
            await mailer.close()
