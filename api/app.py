"""The FastAPI application: its routes, middleware and background tasks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg
from fastapi import FastAPI

from atlas.api.app_state import AppState, Tick
from atlas.api.background_tasks import BackgroundTasks
from atlas.api.caches.change_signals import ChangeSignals
from atlas.api.enqueue_batcher import EnqueueBatcher
from atlas.api.host_polling import HostPolling
from atlas.api.http.compression import CompressionMiddleware
from atlas.api.http.direct_app import DirectApp
from atlas.api.http.middleware import RequestMiddleware, RequestStats
from atlas.api.limits.rates import Rates
from atlas.api.live import socket
from atlas.api.live.hub import Hub
from atlas.api.metrics.metrics import Metrics
from atlas.api.metrics.process_metrics import ApiProcess
from atlas.api.openapi.description import describe
from atlas.api.problems import AWAY, add_problem_handlers
from atlas.api.replica.replica import Replica
from atlas.api.resources.access import grants, session, sessions, tenants, tokens
from atlas.api.resources.audit import audit, audit_seals, reports, verifications
from atlas.api.resources.effects import effects, outbox
from atlas.api.resources.jobs import bulk_actions, dead_letters, definitions, groups, job_actions, jobs
from atlas.api.resources.metering import insights, overview, series
from atlas.api.resources.system import ids, pages, pauses, system
from atlas.api.resources.triggers import events, inbound_hooks, recurring, triggers, webhooks
from atlas.api.resources.workers import host_agent, hosts, remote_worker, workers
from atlas.api.resources.workflows import approvals, intents, policies, runs, workflows
from atlas.api.routing import PREFIX, GuardedRoute
from atlas.db.pool import Pool
from atlas.db.prisma import load_client
from atlas.engine.access.sessions import delete_expired_sessions
from atlas.engine.idempotency import delete_old_responses
from atlas.engine.running_programs import report_running
from atlas.logs import get_logger
from atlas.settings import Settings
from atlas.version import __version__

log = get_logger("api")

TITLE = "Atlas"
CLEAN_SECONDS = 600.0
CLEAN_BATCH = 1000
REFUSALS_SECONDS = 60.0

# The most used come first. `job_actions` comes after `triggers`, whose addresses begin like its own.
ROUTERS = (
    jobs.router,
    series.router,
    insights.router,
    host_agent.router,
    remote_worker.router,
    triggers.router,
    bulk_actions.router,
    groups.router,
    dead_letters.router,
    job_actions.router,
    job_actions.unversioned,
    recurring.router,
    system.router,
    overview.router,
    workers.router,
    events.router,
    inbound_hooks.receiving,
    inbound_hooks.router,
    webhooks.router,
    workflows.router,
    workflows.schema_router,
    intents.router,
    runs.router,
    approvals.router,
    effects.router,
    pauses.router,
    policies.router,
    definitions.router,
    hosts.router,
    ids.router,
    tokens.router,
    grants.router,
    tenants.router,
    outbox.router,
    verifications.router,
    reports.router,
    audit_seals.router,
    audit.router,
    session.router,
    sessions.router,
    pages.health,
    pages.router,
    socket.router,
    # The last: it matches what a browser asks for and no other does.
    pages.deep_links,
)


def create_app(
    settings: Settings,
    pool: Pool,
    url: str,
    *,
    tick: Tick | None = None,
    rates: Rates | None = None,
    process: ApiProcess | None = None,
) -> FastAPI:
    """The API on an open pool. `url` is the database's address for LISTEN; `tick` runs due jobs in-process.

    `process` says which of several on one port this one is.
    """
    load_client()  # now, so that no request waits for the import
    api = AppState(settings, pool, url, tick=tick, rates=rates or Rates())
    app = DirectApp(
        title=TITLE, version=__version__, lifespan=_run, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    app.state.api = api
    app.state.background = BackgroundTasks()
    app.state.enqueue_batcher = EnqueueBatcher(api)
    app.state.signals = ChangeSignals(url, on_credential_ended=api.forget_credentials)
    app.state.hub = Hub(api, app.state.signals)
    app.state.host_polling = HostPolling(api, app.state.signals)
    app.state.stats = RequestStats()
    app.state.metrics = Metrics(api, app.state.stats, app.state.hub, app.state.signals, process)
    app.state.process = process
    add_problem_handlers(app)
    _add_routes(app)
    app.add_middleware(CompressionMiddleware)
    app.add_middleware(RequestMiddleware, stats=app.state.stats, proxies=api.proxies)
    app.call_directly(f"{PREFIX}/jobs", app.state.stats, api.proxies)
    return app


def read_description() -> dict[str, Any]:
    """The OpenAPI description, for linters: it needs neither settings nor a database."""
    app = FastAPI(title=TITLE, version=__version__)
    _add_routes(app)
    return app.openapi()


def _add_routes(app: FastAPI) -> None:
    # Flat, not included: a router within a router is searched more slowly.
    for router in ROUTERS:
        app.router.routes.extend(router.routes)
    for route in app.routes:
        if isinstance(route, GuardedRoute):
            # Not by the first request to it.
            route.build()
    describe(app)


@asynccontextmanager
async def _run(app: FastAPI) -> AsyncIterator[None]:
    background: BackgroundTasks = app.state.background
    signals: ChangeSignals = app.state.signals
    signals.start()
    background.start(app.state.hub.run())
    background.start(app.state.host_polling.run())
    background.start(_delete_expired(app.state.api))
    if app.state.process is not None:
        background.start(app.state.process.keep_written(app.state.metrics.of_process))
    background.start(_record_refusals(app.state.api))
    replica: Replica | None = app.state.api.replica
    if replica is not None:
        background.start(replica.run())
    ending = asyncio.Event()
    reporting = asyncio.create_task(report_running(app.state.api.db.pool, "api", ending))
    yield
    with suppress(*AWAY, asyncpg.PostgresError):
        await app.state.api.record_refusals()
    ending.set()
    await reporting
    await background.stop()
    if replica is not None:
        await replica.close()
    await signals.stop()


async def _record_refusals(api: AppState) -> None:
    """Record every minute what was refused; what cannot be recorded now is kept for the next time."""
    while True:
        await asyncio.sleep(REFUSALS_SECONDS)
        try:
            await api.record_refusals()
        except (*AWAY, asyncpg.PostgresError) as error:
            log.warning("refusals were not recorded", reason=str(error) or type(error).__name__)


async def _delete_expired(api: AppState) -> None:
    """Delete expired sessions and stored responses, all of them, every ten minutes."""
    while True:
        try:
            for delete in (delete_expired_sessions, delete_old_responses):
                removed = CLEAN_BATCH
                while removed == CLEAN_BATCH:
                    async with api.db.connection() as conn:
                        removed = await delete(conn, most=CLEAN_BATCH)
        except (*AWAY, asyncpg.PostgresError) as error:
            log.warning("expired rows could not be deleted", reason=str(error) or type(error).__name__)
        await asyncio.sleep(CLEAN_SECONDS)
