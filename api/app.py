"""The application: every route behind its door, and what lives as long as the process does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
from fastapi import FastAPI

from atlas import __version__
from atlas.api.app_state import AppState, Tick
from atlas.api.background_tasks import BackgroundTasks
from atlas.api.change_signals import ChangeSignals
from atlas.api.enqueue_batcher import EnqueueBatcher
from atlas.api.fast_route import FastRouteApp
from atlas.api.host_polling import HostPolling
from atlas.api.limits.rates import Rates
from atlas.api.live import socket
from atlas.api.live.hub import Hub
from atlas.api.metrics import Metrics
from atlas.api.middleware import RequestMiddleware, RequestStats
from atlas.api.openapi import describe
from atlas.api.problems import AWAY, add_problem_handlers
from atlas.api.resources import (
    approvals,
    audit,
    definitions,
    events,
    host_agent,
    hosts,
    job_actions,
    jobs,
    pages,
    remote_worker,
    runs,
    session,
    system,
    tenants,
    tokens,
    triggers,
    verifications,
    workflows,
)
from atlas.api.routing import PREFIX
from atlas.db.pool import Pool
from atlas.engine.idempotency import forget_answers
from atlas.engine.sessions import forget_sessions
from atlas.logs import get_logger
from atlas.settings import Settings

log = get_logger("api")

CLEAN_SECONDS = 600.0
CLEAN_BATCH = 1000

# The first are those asked for most. One job comes after the triggers, whose addresses begin like its own.
ROUTERS = (
    jobs.router,
    host_agent.router,
    remote_worker.router,
    triggers.router,
    job_actions.router,
    system.router,
    events.router,
    workflows.router,
    runs.router,
    approvals.router,
    definitions.router,
    hosts.router,
    tokens.router,
    tenants.router,
    verifications.router,
    audit.router,
    session.router,
    pages.health,
    pages.router,
    socket.router,
)


def create_app(
    settings: Settings, pool: Pool, url: str, *, tick: Tick | None = None, rates: Rates | None = None
) -> FastAPI:
    """The API on an open pool. `url` is where the same database can be listened to; `tick` runs due jobs in-process."""
    api = AppState(settings, pool, url, tick=tick, rates=rates or Rates())
    app = FastRouteApp(
        title="Atlas", version=__version__, lifespan=_live, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    app.state.api = api
    app.state.chores = BackgroundTasks()
    app.state.gathering = EnqueueBatcher(api)
    app.state.hints = ChangeSignals(url)
    app.state.hub = Hub(api, app.state.hints)
    app.state.waiting_hosts = HostPolling(api, app.state.hints)
    app.state.traffic = RequestStats()
    app.state.metrics = Metrics(api, app.state.traffic, app.state.hub, app.state.hints)
    add_problem_handlers(app)
    # Flat, not included: a router within a router is found more slowly.
    for router in ROUTERS:
        app.router.routes.extend(router.routes)
    describe(app)
    app.add_middleware(RequestMiddleware, traffic=app.state.traffic)
    app.open_lane(f"{PREFIX}/jobs", app.state.traffic)
    return app


@asynccontextmanager
async def _live(app: FastAPI) -> AsyncIterator[None]:
    chores: BackgroundTasks = app.state.chores
    hints: ChangeSignals = app.state.hints
    hints.start()
    chores.start(app.state.hub.run())
    chores.start(app.state.waiting_hosts.run())
    chores.start(_clean(app.state.api))
    yield
    await chores.stop()
    await hints.stop()


async def _clean(api: AppState) -> None:
    """Remove sessions and answers that are past their time, all of them, now and then."""
    while True:
        try:
            for forget in (forget_sessions, forget_answers):
                removed = CLEAN_BATCH
                while removed == CLEAN_BATCH:
                    async with api.db.connection() as conn:
                        removed = await forget(conn, most=CLEAN_BATCH)
        except (*AWAY, asyncpg.PostgresError) as error:
            log.warning("what is past its time could not be removed", reason=str(error) or type(error).__name__)
        await asyncio.sleep(CLEAN_SECONDS)
