"""A tick runs a limited number of due jobs in this process, for development and serverless use."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from atlas.db.pool import Pool
from atlas.engine.jobs.handlers.types import registered
from atlas.settings import Settings
from atlas.workers.commands.types import load_command_types
from atlas.workers.email import register_email
from atlas.workers.http_call import register_http_call
from atlas.workers.worker import Worker, WorkerOptions
from atlas.workers.workflows.loop import settle_intents

TICK_LEASE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class TickCounts:
    """How many jobs a tick ran, by outcome. `closed`: Atlas is offline and none was begun."""

    ran: int = 0
    succeeded: int = 0
    retried: int = 0
    failed: int = 0
    canceled: int = 0
    closed: bool = False
    # The attempts that it began, by job type.
    types: Mapping[str, int] = field(default_factory=dict)


class Ticker:
    """Ticks of a process that is no worker. The first one loads what a worker runs: mails and workflows.

    Intents become runs first. What a handler of the tick enqueues is run as well, within the limit.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._has_handlers = False

    async def __call__(self, pool: Pool, url: str, *, limit: int = 10) -> TickCounts:
        if not self._has_handlers:
            # Imported here: its import registers the handler of runs.
            import atlas.workers.workflows.handler  # noqa: F401

            register_email(self._settings)
            register_http_call(self._settings)
            self._has_handlers = True
        await settle_intents(pool)
        return await tick(pool, url, limit=limit, application_url=self._settings.atlas_application_database_url)


async def tick(
    pool: Pool, url: str, *, limit: int = 10, concurrency: int = 10, application_url: str | None = None
) -> TickCounts:
    """Run up to `limit` due jobs of the registered types and of commands, and wait for their end."""
    options = WorkerOptions(
        sorted(key for key, job_type in registered().items() if not job_type.is_command),
        concurrency=concurrency,
        lease=TICK_LEASE_SECONDS,
        drain=True,
        max_jobs=limit,
        load_types=load_command_types,
        application_url=application_url,
    )
    worker = Worker(pool, url, options, listen=False)
    await worker.run()
    return counts_of(worker.outcomes, closed=worker.found_gate_closed, types=worker.begun_types)


def counts_of(outcomes: dict[str, int], *, closed: bool = False, types: Mapping[str, int] | None = None) -> TickCounts:
    """Count a worker's outcomes, given by job status."""
    return TickCounts(
        ran=sum(outcomes.values()),
        succeeded=outcomes.get("succeeded", 0),
        retried=outcomes.get("queued", 0),
        failed=outcomes.get("failed", 0),
        canceled=outcomes.get("canceled", 0),
        closed=closed,
        types=dict(types or {}),
    )
