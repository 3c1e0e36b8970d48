"""The application: every route behind its door, and what lives as long as the process does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
from fastapi import FastAPI

from api.border import Border, Traffic
from api.chores import Chores
from api.door import PREFIX
from api.errors import AWAY
from api.gathering import Gathering
from api.hints import Hints
from api.lane import LanedApp
from api.live import socket
from api.live.hub import Hub
from api.metrics import Metrics
from api.openapi import describe
from api.problems import answer_problems
from api.rates import Rates
from api.resources import (
    agent,
    approvals,
    audit,
    definitions,
    events,
    hosts,
    job,
    jobs,
    pages,
    remote,
    runs,
    session,
    system,
    tenants,
    tokens,
    triggers,
    verifications,
    workflows,
)
from api.state import Api, Tick
from api.waiting_hosts import WaitingHosts
from atlas import __version__
from atlas.logs import get_logger
from atlas.pool import Pool
from atlas.settings import Settings
from engine.idempotency import forget_answers
from engine.sessions import forget_sessions

log = get_logger("api")

CLEAN_SECONDS = 600.0
CLEAN_BATCH = 1000

# The first are those asked for most. One job comes after the triggers, whose addresses begin like its own.
ROUTERS = (
    jobs.router,
    agent.router,
    remote.router,
    triggers.router,
    job.router,
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
    api = Api(settings, pool, url, tick=tick, rates=rates or Rates())
    app = LanedApp(
        title="Atlas", version=__version__, lifespan=_live, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    app.state.api = api
    app.state.chores = Chores()
    app.state.gathering = Gathering(api)
    app.state.hints = Hints(url)
    app.state.hub = Hub(api, app.state.hints)
    app.state.waiting_hosts = WaitingHosts(api, app.state.hints)
    app.state.traffic = Traffic()
    app.state.metrics = Metrics(api, app.state.traffic, app.state.hub, app.state.hints)
    answer_problems(app)
    # Flat, not included: a router within a router is found more slowly.
    for router in ROUTERS:
        app.router.routes.extend(router.routes)
    describe(app)
    app.add_middleware(Border, traffic=app.state.traffic)
    app.open_lane(f"{PREFIX}/jobs", app.state.traffic)
    return app


@asynccontextmanager
async def _live(app: FastAPI) -> AsyncIterator[None]:
    chores: Chores = app.state.chores
    hints: Hints = app.state.hints
    hints.start()
    chores.start(app.state.hub.run())
    chores.start(app.state.waiting_hosts.run())
    chores.start(_clean(app.state.api))
    yield
    await chores.stop()
    await hints.stop()


async def _clean(api: Api) -> None:
    """Remove sessions and answers that are past their time, all of them, now and then."""
    while True:
        try:
            for forget in (forget_sessions, forget_answers):
                removed = CLEAN_BATCH
                while removed == CLEAN_BATCH:
                    async with api.acquire() as conn:
                        removed = await forget(conn, most=CLEAN_BATCH)
        except (*AWAY, asyncpg.PostgresError) as error:
            log.warning("what is past its time could not be removed", reason=str(error) or type(error).__name__)
        await asyncio.sleep(CLEAN_SECONDS)
